# SPDX-License-Identifier: Apache-2.0
"""The words of the format; what a later version adds to a list of words is added here."""

FORMATS = ("none", "lines", "libtest", "junit", "pytest", "tap", "go-json", "jest")
FILE_FORMATS = ("junit", "jest")
CLASSES = ("ephemeral_experiment", "mechanical_transformation", "research", "security_triage", "lasting_code")
# loop-toml.md: what is "not built yet" may be a word, and is out of range.
USAGES = ("claude", "codex", "gemini", "opencode", "aider", "json", "none")
RECEIPT_ADAPTERS = ("landlock", "bwrap", "docker", "podman", "sandbox-exec", "none")
ADAPTERS, ADAPTERS_BUILT = RECEIPT_ADAPTERS + ("e2b", "nono"), RECEIPT_ADAPTERS
IMAGE_ADAPTERS = ("docker", "podman")
PRESETS = ("cargo", "python", "node")
ON_FAILURE = ("halt", "reject", "check")
SOURCES = ("failures", "exit", "regex", "json", "verdict")
ROLES = ("approver", "runner", "operator", "reviewer", "promoter", "verifier", "people")
SIGNING_ROLES = ROLES[:5]
STATUSES = ("active", "awaiting_review", "succeeded", "stopped", "blocked")

# format.md: The receipt, guards
GUARDS = ("drift", "blocked", "tampered", "left_out", "outside")
LISTED = 200

# format.md: Run, Check, Sandbox, Holdout
ENDED = ("itself", "timed_out", "deadline", "idle_timeout", "output_limit", "disk_limit", "interrupted")
NO_REPORT = ("not_written", "too_large", "planted", "frozen_changed")
NETWORKS = ("host", "none-namespace", "none-seccomp", "none-profile", "allow-namespace")
UNIX_SOCKETS = ("private", "closed", "host")
PROCESS_TREES = ("pid-namespace", "subreaper", "container", "process-group")
REQUEST_PROBLEMS = ("malformed", "not_listed", "private_address", "unresolved", "unreachable", "too_many")
HOLDOUT_VERDICTS = ("passed", "failed", "no_verdict")

# format.md: record.json, who may sign what. A halt by an operator has more.
SIGNS = {"contract": ("approver",), "baseline": ("runner",), "checkpoint": ("runner",), "iteration": ("runner",),
         "resume": ("runner",), "halt": ("runner",), "review": ("reviewer",), "finding": ("reviewer",),
         "promotion": ("promoter",), "release": ("promoter",), "lease": ("runner",),
         "invocation": ("runner", "reviewer")}
OPERATOR_HALT = ("runner", "operator", "promoter")

# format.md: Evidence: the files that a verdict rests on, and those of which every run has its own.
VERDICT_FILES = ("report", "report.sig", "metric-source", "verdict", "tests.json")
RUN_FILES = ("report", "metric-source", "verdict")

# exit-codes.md: Halt reasons
EXIT = {}
for _code, _names in ((10, "success_condition_met"), (11, "human_required no_actionable_tasks operator_stopped"),
                      (12, "max_iterations_reached"),
                      (13, "blocked_path_modified metric_integrity_violation reward_hacking_detected "
                           "credential_scope_invalid objective_unverified"),
                      (14, "check_flaky check_has_side_effects check_not_hermetic hermeticity_violation"),
                      (15, "check_inadequate"), (16, "escalation_pending reviewer_rejected"),
                      (17, "no_progress_detected same_failure_repeated oscillation_detected same_test_regressed "
                           "unsatisfiable_constraints infeasible_suspected local_defense_limit"),
                      (18, "budget_exceeded cost_anomaly deadline_exceeded"),
                      (19, "heartbeat_stale model_drift_detected comprehension_debt_exceeded "
                           "context_budget_unsatisfiable"),
                      (20, "invariant_failed"), (30, "workspace_invalid isolation_unsatisfiable"),
                      (40, "execution_failure"), (50, "internal_error")):
    for _name in _names.split():
        EXIT[_name] = _code

# format.md: The fold, the status of a halt reason; every other is `stopped`.
HALT_STATUS = {"success_condition_met": "awaiting_review"}
for _name in ("human_required", "blocked_path_modified", "metric_integrity_violation", "reward_hacking_detected",
              "credential_scope_invalid", "objective_unverified", "check_flaky"):
    HALT_STATUS[_name] = "blocked"
RESUMABLE = ("operator_stopped", "human_required", "workspace_invalid")


def status_of(halt_reason):
    """The status that a halt reason brings."""
    return HALT_STATUS.get(halt_reason, "stopped")
