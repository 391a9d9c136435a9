# SPDX-License-Identifier: Apache-2.0
"""The words that a format may hold, in one place: a later version adds to them (format.md, loop-toml.md)."""

ADAPTERS = ("landlock", "bwrap", "docker", "podman", "e2b", "nono", "none")
BUILT_ADAPTERS = ("landlock", "none")
USAGES = ("claude", "codex", "gemini", "opencode", "aider", "json", "none")
BUILT_USAGES = ("json", "none")
FORMATS = ("none", "lines", "libtest", "junit", "pytest", "tap", "go-json", "jest")
FILE_FORMATS = ("junit", "jest")
SOURCES = ("failures", "exit", "regex", "json", "verdict")
PRESETS = ("cargo", "python", "node")
NETWORKS = ("none", "host")
ENFORCED_NETWORKS = ("host", "none-namespace", "none-seccomp")
UNIX_SOCKETS = ("private", "closed", "host")
PROCESS_TREES = ("pid-namespace", "subreaper", "process-group")
ENDED = ("itself", "timed_out", "deadline", "output_limit", "interrupted")
NO_REPORT = ("not_written", "too_large", "planted", "frozen_changed")
