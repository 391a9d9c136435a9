# SPDX-License-Identifier: Apache-2.0
"""The ranges of a contract's terms (format.md: Ranges)."""
import re

import hosts
import names
import patterns
import regexes
from canonical import Bad, micro, there
from paths import WHITE


def _need(condition, what):
    if not condition:
        raise Bad("contract: " + what)


def _between(value, low, high, what):
    """What is null has no range."""
    _need(value is None or low <= value <= high, "%s is out of range" % what)


def _length(text, low, high, what):
    _between(None if text is None else len(text), low, high, what)


def _command(command, what):
    """`exec` has a program, a `shell` line is not only white space; in `lasting` an array or a string."""
    if isinstance(command, dict):
        command = command.get("exec", command.get("shell"))
    _need("\0" not in "".join(command), "%s holds a NUL" % what)
    if isinstance(command, str):
        _need(command.strip(WHITE), "%s is an empty line" % what)
    else:
        _need(command and command[0].strip(WHITE), "%s has no program" % what)


def check(terms):
    """Everything that `start` could not have frozen."""
    _length(terms["objective"], 1, 10000, "objective")
    paths = terms["paths"]
    for name in ("mutable", "check"):
        _need(paths[name], "paths.%s is empty" % name)
    for texts in (paths["mutable"], paths["check"], paths["blocked"]):
        patterns.compiled(tuple(texts))
    _worker(terms["worker"])
    _worktree(terms["worktree"])
    _check(terms["check"], terms["metric"], terms["roles"])
    if there(terms, "holdout"):
        _holdout(terms["holdout"])
    _metric(terms["metric"], terms["check"])
    _limits(terms["limits"])
    _sandbox(terms["sandbox"])
    for role in names.ROLES[:2]:
        _need(terms["roles"][role], "roles.%s is empty" % role)
    _need((terms["class"] == "lasting_code") == (terms["lasting"] is not None), "lasting is there exactly for lasting_code")
    if terms["rules"] == 2:
        _need(not terms["check"]["external"], "lasting_code with an outside check")
    if terms["lasting"]:
        _lasting(terms["lasting"], terms["roles"])


def _worker(worker):
    _command(worker["command"], "worker.command")
    for key in ("timeout_seconds", "idle_timeout_seconds"):
        _between(worker[key], 1, 86400, "worker." + key)
    if worker["reserve_usd"] is not None:
        _between(micro(worker["reserve_usd"]), 0, 10000 * 10 ** 6, "worker.reserve_usd")
    for key, value in (worker["model"] or {}).items():
        _length(value, 1, 1000 if key == "endpoint" else 200, "worker.model." + key)
    sampling = worker["sampling"] or {}
    for key, low, high in (("temperature", 0, 100), ("top_p", 0, 1), ("seed", 0, 2 ** 53 - 1),
                           ("max_tokens", 1, 10 ** 9)):
        _between(sampling.get(key), low, high, "worker.sampling." + key)


def _worktree(worktree):
    if there(worktree, "setup"):
        _need(worktree["warm"], "worktree.setup without worktree.warm")
        _command(worktree["setup"]["command"], "worktree.setup")
        _between(worktree["setup"]["timeout_seconds"], 1, 86400, "worktree.setup.timeout_seconds")


def _check(check, metric, roles):
    _command(check["command"], "check.command")
    for key in ("timeout_seconds", "idle_timeout_seconds"):
        _between(check[key], 1, 86400, "check." + key)
    if there(check, "cpus"):
        _between(check["cpus"], 1, 1024, "check.cpus")
    if there(check, "same_ids"):
        _need(check["same_ids"] == "numbered" and check["format"] in ("lines", "libtest", "junit"),
              "check.same_ids does not fit its format")
    _report(check, "check")
    if check["external"]:
        _need(check["format"] == "none", "an outside check has a format")
        _need(metric["from"] in ("failures", "exit", "verdict"), "the metric of an outside check")
        _need(metric["repeat"] == 1, "an outside check is repeated")
        _need(roles["verifier"], "an outside check has no verifier")


def _report(table, what):
    _need((table["report"] is not None) == (table["format"] in names.FILE_FORMATS),
          "%s.report is there exactly for a format that is a file" % what)


def _holdout(holdout):
    _command(holdout["command"], "holdout.command")
    _need(holdout["folder"].startswith(("/", "~")), "holdout.folder")
    _between(holdout["timeout_seconds"], 1, 86400, "holdout.timeout_seconds")
    _report(holdout, "holdout")


def _metric(metric, check):
    _length(metric["name"], 1, 64, "metric.name")
    _need(metric["name"].strip(WHITE), "metric.name is white space")
    _need(metric["min_improvement"] >= 0, "metric.min_improvement is out of range")
    _between(metric["repeat"], 1, 100, "metric.repeat")
    for key, source, low in (("pattern", "regex", 1), ("pointer", "json", 0)):
        _need((metric[key] is not None) == (metric["from"] == source), "metric.%s is there exactly for %s" % (key, source))
        _length(metric[key], low, 1000, "metric." + key)
    _need(metric["pointer"] is None or re.fullmatch(r"(?s)(/([^~/]|~[01])*)*", metric["pointer"]), "metric.pointer")
    if metric["pattern"] is not None:
        try:
            regexes.compiled(metric["pattern"])
        except regexes.Unchecked:
            pass  # told where it is used
    if metric["from"] == "failures":
        _need(check["format"] != "none" or check["external"], "failures need a check.format")
        _need(metric["direction"] == "minimize", "failures are minimized")
        _need(metric["target"] >= 0 and metric["target"] == int(metric["target"]), "failures need a whole target")


def _limits(limits):
    for key, low, high in (("iterations", 1, 100), ("tokens", 1, 10 ** 12), ("duration_seconds", 1, 86400),
                           ("no_progress", 1, 20), ("regression_limit", 1, 20), ("oscillation_limit", 1, 20),
                           ("cost_sigma", 0.1, 100), ("unread_diffs", 1, 100), ("evidence_kib", 1, 4096)):
        _between(limits[key], low, high, "limits." + key)
    _between(micro(limits["cost_usd"]), 1, 10000 * 10 ** 6, "limits.cost_usd")


def _sandbox(sandbox):
    allowed = sandbox["allowed"]
    _need(allowed, "sandbox.allowed is empty")
    _need(all(adapter in names.ADAPTERS_BUILT for adapter in allowed), "an adapter is not built yet")
    needs = any(adapter in names.IMAGE_ADAPTERS for adapter in allowed)
    _need((sandbox["image"] is not None) == needs, "sandbox.image is there exactly for docker and podman")
    _need(not needs or re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/:-]*@sha256:[0-9a-f]{64}", sandbox["image"]), "sandbox.image is not pinned")
    _between(sandbox["disk_bytes"], 2 ** 20, 2 ** 44, "sandbox.disk_bytes")
    for key in ("worker_network", "check_network"):
        if isinstance(sandbox[key], dict):
            _need(sandbox[key]["allow"], "sandbox.%s lists nothing" % key)
            for entry in sandbox[key]["allow"]:
                hosts.split(entry)


def _lasting(lasting, roles):
    for role in ("approver", "reviewer"):
        _need(any(who not in roles["runner"] for who in roles[role]), "there is no %s who is no runner" % role)
    for key in ("invariant_boundaries", "machine_independence_requirements"):
        told = [entry["name"] for entry in lasting[key]]
        _need(told and len(set(told)) == len(told) and all(1 <= len(n) <= 200 and n.strip(WHITE) for n in told),
              "lasting." + key)
        for entry in lasting[key]:
            _command(entry["command"], "lasting." + key)
    _need(lasting["required_review_personas"], "lasting.required_review_personas is empty")
    for key, value in lasting["complexity_budget"].items():
        _between(value, 0, 1000000, "lasting.complexity_budget." + key)
    _between(lasting["local_defense_limit"], 1, 20, "lasting.local_defense_limit")
    _need(lasting["human_promotion_required"], "lasting.human_promotion_required is not true")
