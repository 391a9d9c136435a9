# SPDX-License-Identifier: Apache-2.0
"""What a frozen contract may say (format.md: Ranges)."""
import ipaddress
import re

from canonical import Bad, WHITE, micro
from names import BUILT_ADAPTERS, BUILT_USAGES, FILE_FORMATS, IMAGE_ADAPTERS

DAY, DOLLARS = 86400, 10000 * 10 ** 6


def _need(condition, what):
    if not condition:
        raise Bad("contract: " + what)


def _between(value, low, high, what):
    _need(value is None or low <= value <= high, "%s is out of range" % what)


def _length(text, high, what):
    _need(text is None or 1 <= len(text) <= high, "%s is too long or empty" % what)


def _program(command, what):
    first = command["shell"] if "shell" in command else (command["exec"] or [""])[0]
    _need(first.strip(WHITE), "%s names no program" % what)


def check(terms):
    """Refuses terms that no loop can have been started with."""
    _length(terms["objective"], 10000, "objective")
    for name in ("mutable", "check"):
        _need(terms["paths"][name], "paths.%s is empty" % name)
    _worker(terms["worker"])
    _check(terms["check"], terms["metric"], terms["roles"])
    _holdout(terms.get("holdout"))
    _metric(terms["metric"], terms["check"])
    _limits(terms["limits"])
    _sandbox(terms["sandbox"])
    _setup(terms["worktree"])
    for role in ("approver", "runner"):
        _need(terms["roles"][role], "roles.%s is empty" % role)
    _need((terms["parent"] is None) == (terms["renewal"] is None), "renewal is null exactly if parent is")
    _need((terms["class"] == "lasting_code") == (terms["lasting"] is not None), "lasting is there exactly for lasting_code")
    if terms["lasting"]:
        _lasting(terms["lasting"], terms["roles"])


def rule(text):
    """An entry of an allow-list as (kind, host, port); None if it is none (sandbox.md: A list of hosts)."""
    match = re.fullmatch(r"(\*\.)?(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})", text, re.A)
    if not match or not 0 < int(match[4]) < 65536:
        return None
    host = (match[2] or match[3]).lower()
    try:
        return None if match[1] else ("address", str(ipaddress.ip_address(host)), int(match[4]))
    except ValueError:
        host = host.removesuffix(".")
        labels = host.split(".")
        fine = not match[2] and all(0 < len(label) <= 63 for label in labels) and len(host) <= 253
        fine = fine and not labels[-1][0].isdigit() and labels[-1] != "localhost" and (not match[1] or len(labels) > 1)
        return ("below" if match[1] else "name", host, int(match[4])) if fine else None


def allows(network, host, port):
    """Whether an allow-list lets a host and port through."""
    for kind, name, number in map(rule, network["allow"]):
        if number == port and (host == name if kind != "below" else host.endswith("." + name)):
            return True
    return False


def _worker(worker):
    _program(worker["command"], "worker.command")
    _need(worker["usage"] in BUILT_USAGES, "worker.usage is not built yet")
    _between(worker["timeout_seconds"], 1, DAY, "worker.timeout_seconds")
    _between(worker["idle_timeout_seconds"], 1, DAY, "worker.idle_timeout_seconds")
    if worker["reserve_usd"] is not None:
        _between(micro(worker["reserve_usd"]), 0, DOLLARS, "worker.reserve_usd")
    for key, value in (worker["model"] or {}).items():
        _length(value, 1000 if key == "endpoint" else 200, "worker.model." + key)
    sampling = worker["sampling"] or {}
    for key, low, high in (("temperature", 0, 100), ("top_p", 0, 1), ("seed", 0, 2 ** 53 - 1),
                           ("max_tokens", 1, 10 ** 9)):
        _between(sampling.get(key), low, high, "worker.sampling." + key)


def _check(check, metric, roles):
    _program(check["command"], "check.command")
    _between(check["timeout_seconds"], 1, DAY, "check.timeout_seconds")
    _between(check["idle_timeout_seconds"], 1, DAY, "check.idle_timeout_seconds")
    _need((check["report"] is not None) == (check["format"] in FILE_FORMATS),
          "check.report is there exactly for a format that is a file")
    if check["external"]:
        _need(check["format"] == "none" and metric["repeat"] == 1 and roles["verifier"] and
              metric["from"] in ("failures", "exit", "verdict"), "what an outside check cannot have")


def _sandbox(sandbox):
    _need(sandbox["allowed"], "sandbox.allowed is empty")
    _need(all(a in BUILT_ADAPTERS for a in sandbox["allowed"]), "an adapter is not built yet")
    _between(sandbox["disk_bytes"], 1 << 20, 16 << 40, "sandbox.disk_bytes")
    for key in ("worker_network", "check_network"):
        network = sandbox[key]
        if isinstance(network, dict):
            _need(network["allow"] and all(rule(entry) for entry in network["allow"]), "sandbox.%s is no list of hosts" % key)
    image = sandbox["image"]
    _need((image is not None) == any(a in IMAGE_ADAPTERS for a in sandbox["allowed"]),
          "sandbox.image is there exactly for docker and podman")
    _need(image is None or re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/:-]*@sha256:[0-9a-f]{64}", image, re.A), "sandbox.image")


def _setup(worktree):
    setup = worktree.get("setup")
    if setup is None:
        return
    _program(setup["command"], "worktree.setup.command")
    _between(setup["timeout_seconds"], 1, DAY, "worktree.setup.timeout_seconds")
    _need(worktree["warm"], "worktree.setup has no worktree.warm to fill")


def _holdout(holdout):
    if holdout is None:
        return
    _program(holdout["command"], "holdout.command")
    _between(holdout["timeout_seconds"], 1, DAY, "holdout.timeout_seconds")
    _need((holdout["report"] is not None) == (holdout["format"] in FILE_FORMATS),
          "holdout.report is there exactly for a format that is a file")
    _need(holdout["folder"][:1] in ("/", "~"), "holdout.folder is not absolute")


def _metric(metric, check):
    _length(metric["name"], 64, "metric.name")
    _need(metric["name"].strip(WHITE), "metric.name is empty")
    _need(metric["min_improvement"] >= 0, "metric.min_improvement is negative")
    _between(metric["repeat"], 1, 100, "metric.repeat")
    for key, source in (("pattern", "regex"), ("pointer", "json")):
        _need((metric[key] is not None) == (metric["from"] == source), "metric.%s is there exactly for %s" % (key, source))
    _length(metric["pattern"], 1000, "metric.pattern")
    _length(metric["pointer"] or None, 1000, "metric.pointer")
    _need(metric["pointer"] is None or re.fullmatch(r"(/([^~/]|~[01])*)*", metric["pointer"], re.S), "metric.pointer")
    if metric["from"] == "failures":
        _need(check["format"] != "none" or check["external"], "failures need tests")
        _need(metric["direction"] == "minimize", "failures are minimized")
        _need(metric["target"] >= 0 and metric["target"] == int(metric["target"]), "failures need a whole target")


def _limits(limits):
    for key, low, high in (("iterations", 1, 100), ("tokens", 1, 10 ** 12), ("duration_seconds", 1, DAY),
                           ("no_progress", 1, 20), ("regression_limit", 1, 20), ("oscillation_limit", 1, 20),
                           ("cost_sigma", 0.1, 100), ("unread_diffs", 1, 100), ("evidence_kib", 1, 4096)):
        _between(limits[key], low, high, "limits." + key)
    _between(micro(limits["cost_usd"]), 1, DOLLARS, "limits.cost_usd")


def _lasting(lasting, roles):
    for role in ("approver", "reviewer"):
        _need(set(roles[role]) - set(roles["runner"]), "lasting_code has no %s other than its runner" % role)
    for key in ("invariant_boundaries", "machine_independence_requirements"):
        names = [entry["name"] for entry in lasting[key]]
        _need(names and len(set(names)) == len(names), "lasting.%s is empty or names one twice" % key)
        _need(all(name.strip(WHITE) and len(name) <= 200 for name in names), "lasting.%s: a name" % key)
        for entry in lasting[key]:
            command = entry["command"]
            _program({"shell": command} if isinstance(command, str) else {"exec": command}, "lasting." + key)
    _need(lasting["required_review_personas"], "lasting.required_review_personas is empty")
    for key, number in lasting["complexity_budget"].items():
        _between(number, 0, 1000000, "lasting.complexity_budget." + key)
    _between(lasting["local_defense_limit"], 1, 20, "lasting.local_defense_limit")
    _need(lasting["human_promotion_required"], "lasting.human_promotion_required is not true")
