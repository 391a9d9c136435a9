# SPDX-License-Identifier: Apache-2.0
"""The ranges of a contract's terms (loop-toml.md: the column range, and what a key needs)."""
import ipaddress
import re

from canonical import ROLES, Bad, micro


def _need(condition, what):
    if not condition:
        raise Bad("contract: " + what)


def _between(value, low, high, what):
    _need(value is None or low <= value <= high, "%s is out of range" % what)


def check(terms):
    """Every range of loop-toml.md that a resolved contract still shows."""
    _need(1 <= len(terms["objective"]) <= 10000, "objective is out of range")
    for name in ("mutable", "check"):
        _need(terms["paths"][name], "paths.%s is empty" % name)
    _worker(terms["worker"])
    _check(terms["check"], terms["metric"])
    _holdout(terms.get("holdout"))
    _metric(terms["metric"], terms["check"])
    _limits(terms["limits"])
    _need(terms["sandbox"]["allowed"], "sandbox.allowed is empty")
    _between(terms["sandbox"]["disk_bytes"], 1 << 20, 16 << 40, "sandbox.disk")
    for key in ("worker_network", "check_network"):
        network = terms["sandbox"][key]
        if isinstance(network, dict):
            _need(network["allow"] and all(rule(entry) for entry in network["allow"]), "sandbox.%s is no list of hosts" % key)
    image = terms["sandbox"]["image"]
    _need((image is not None) == any(a in ("docker", "podman") for a in terms["sandbox"]["allowed"]),
          "sandbox.image is there exactly for docker and podman")
    _need(image is None or re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/:-]*@sha256:[0-9a-f]{64}", image, re.A), "sandbox.image")
    _need(all(a in ("landlock", "bwrap", "docker", "podman", "sandbox-exec", "none") for a in terms["sandbox"]["allowed"]), "an adapter is not built yet")
    for role in ROLES[:2]:
        _need(terms["roles"][role], "roles.%s is empty" % role)
    _need((terms["class"] == "lasting_code") == (terms["lasting"] is not None), "lasting is there exactly for lasting_code")
    if terms["lasting"]:
        _lasting(terms["lasting"])


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
    _between(worker["timeout_seconds"], 1, 86400, "worker.timeout")
    _between(worker["idle_timeout_seconds"], 1, 86400, "worker.idle_timeout")
    _need(worker["agent"] is None or len(worker["agent"]) <= 100, "worker.agent is too long")
    if worker["reserve_usd"] is not None:
        _between(micro(worker["reserve_usd"]), 0, 10000 * 10 ** 6, "worker.reserve_usd")
    for key, value in (worker["model"] or {}).items():
        _need(value is None or len(value) <= (1000 if key == "endpoint" else 200), "worker.model.%s is too long" % key)
    sampling = worker["sampling"] or {}
    for key, low, high in (("temperature", 0, 100), ("top_p", 0, 1), ("seed", 0, 2 ** 53 - 1),
                           ("max_tokens", 1, 10 ** 9)):
        _between(sampling.get(key), low, high, "worker.sampling." + key)


def _check(check, metric):
    _between(check["timeout_seconds"], 1, 86400, "check.timeout")
    _between(check["idle_timeout_seconds"], 1, 86400, "check.idle_timeout")
    is_file = check["format"] in ("junit", "jest")
    _need((check["report"] is not None) == is_file, "check.report is there exactly for a format that is a file")
    _need(not check["external"] or check["format"] == "none", "an outside check has no report here")
    _need(not check["external"] or metric["repeat"] == 1, "an outside check does not repeat")


def _holdout(holdout):
    if holdout is None:
        return
    _between(holdout["timeout_seconds"], 1, 86400, "holdout.timeout")
    _need((holdout["report"] is not None) == (holdout["format"] in ("junit", "jest")),
          "holdout.report is there exactly for a format that is a file")
    _need(holdout["folder"][:1] in ("/", "~"), "holdout.folder is not absolute")


def _metric(metric, check):
    _need(1 <= len(metric["name"]) <= 64, "metric.name is out of range")
    _need(metric["min_improvement"] >= 0, "metric.min_improvement is out of range")
    _between(metric["repeat"], 1, 100, "metric.repeat")
    for key, source in (("pattern", "regex"), ("pointer", "json")):
        _need((metric[key] is not None) == (metric["from"] == source), "metric.%s is there exactly for %s" % (key, source))
        _need(metric[key] is None or len(metric[key]) <= 1000, "metric.%s is too long" % key)
    _need(metric["pointer"] is None or re.fullmatch(r"(/([^~/]|~[01])*)*", metric["pointer"]), "metric.pointer")
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


def _lasting(lasting):
    for key in ("invariant_boundaries", "machine_independence_requirements"):
        names = [entry["name"] for entry in lasting[key]]
        _need(names and len(set(names)) == len(names) and all(len(n) <= 200 for n in names), "lasting." + key)
    _need(lasting["required_review_personas"], "lasting.required_review_personas is empty")
    _between(lasting["local_defense_limit"], 1, 20, "lasting.local_defense_limit")
    _need(lasting["human_promotion_required"], "lasting.human_promotion_required is not true")
