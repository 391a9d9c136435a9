# SPDX-License-Identifier: Apache-2.0
"""The state after each record (format.md: .loop_state.json, The fold)."""
import copy
import re

import lasting
import promotions
import rules
import tables
from brought import known_packet
from canonical import Bad, seconds, sha256, there
from counting import counted, has_failing_set, with_set
from names import EXIT, RESUMABLE, status_of
from paths import WHITE


def need(condition, what):
    if not condition:
        raise Bad("fold: " + what)


def only(value, *keys):
    """These fields of an object, in this order."""
    return {key: value[key] for key in keys}


def first_state(terms):
    """The state after the contract record. A renewal goes on with the submitters and findings that it names."""
    renewal = terms["renewal"] or {"submitters": [], "findings": []}
    frozen = terms["frozen"]["tree"]
    asked = lasting.asked(terms)
    grown = renewal.get("complexity") or {}
    counted_besides = {"lasting": {"complexity": {name: grown.get(name, 0) for name in lasting.DELTA}, "awaiting_packet": False,
                                   "failed_at_baseline": []}} if asked else {}
    check = tables.known(tables.ALL.contract.fields["check"], terms["check"])
    return {
        "schema_version": "git-loop/state/v1", "loop": terms["loop"], "mode": "check_fixpoint", "phase": "created",
        "status": "active", "iteration": 0, "last_green_commit": terms["base"]["commit"], "best_metric": None,
        "open_failures": None, "cumulative_usd": "0.000000", "baseline": None, "determinism_probe": None,
        "metric_integrity": {"check_cmd_sha": sha256(check), "test_tree_sha_at_last_green": frozen, "frozen": frozen,
                             "collected": None},
        "model_pin": terms["worker"]["model"], "escalation": None, "comprehension": {"diffs_unread": 0},
        "halt_reason": None,
        "counters": {"accepted": 0, "no_progress": 0, "tokens": 0, "unknown_costs": 0, "largest_usd": "0.000000",
                     "started_at": None, "halted_at": None, "paused_seconds": 0, "same_failures": None,
                     "failing_sets": {"count": 0, "histories": []}, "oscillations": 0, "regressions": [],
                     "costs": {"known": 0, "sum": "0.000000", "squares": "0"}, "best_noise": None,
                     "green_tests": None, "holdout_red": 0 if there(terms, "holdout") else None,
                     "local_defenses": 0 if asked else None, **counted_besides},
        "checkpoint": None, "due_halt": None, "halt": None,
        "submitters": [only(s, "principal", "key") for s in renewal["submitters"]], "approvals": [],
        "findings": [only(f, "record", "severity", "principal") for f in renewal["findings"]],
        **promotions.begin(terms)}


def filled(state, prev):
    """Ids that a record could not know of itself are filled in with prev."""
    state = copy.deepcopy(state)
    if state["phase"] == "halted" and state["halt"] is None:
        state["halt"] = prev
    if state["checkpoint"] and state["checkpoint"]["record"] is None:
        state["checkpoint"]["record"] = prev
    if state["findings"] and state["findings"][-1]["record"] is None:
        state["findings"][-1]["record"] = prev
    promotions.filled(state, prev)
    return state


def fold(terms, before, record):
    """The state after a record; `before` is filled in."""
    kind = record["kind"]
    need(before["due_halt"] is None or kind == "halt", "a halt is due")
    need(kind != "contract", "a second contract")
    state = copy.deepcopy(before)
    if kind in ("baseline", "checkpoint", "iteration") and "lease" in state:
        need(state["lease"]["key"] == record["actor"]["key"] or not _holds(state["lease"], record["at"]),
             "somebody else has the lease")
    {"baseline": _baseline, "checkpoint": _checkpoint, "iteration": _iteration, "halt": _halt, "resume": _resume,
     "review": _review, "promotion": _promotion, "finding": _finding, "release": _release,
     "lease": _lease, "invocation": _invocation}[kind](terms, state, record, record["body"])
    return state


def _due(by, halt_reason, reason, packet=None):
    due = {"by": by, "halt_reason": halt_reason, "reason": reason}
    return due if packet is None else dict(due, packet=packet)


def _green(state, check):
    state["best_metric"] = check["metric"]
    state["open_failures"] = check["failures"]
    state["counters"]["green_tests"] = check["tests"]
    state["counters"]["best_noise"] = check["noise"]


def _baseline(terms, state, _record, body):
    need(state["phase"] == "created" and state["baseline"] is None, "a baseline only once, before everything")
    need(not terms["check"]["external"], "an outside check has no baseline")
    need(body["base"] == state["last_green_commit"], "the baseline's base is not green")
    check = body["check"]
    state["baseline"] = {"model_calls": 0, "tokens": 0, "top_error_type": None, "metric": check["metric"],
                         "failures": None if check["failures"] is None else len(check["failures"]),
                         "tests": check["tests"]}
    _green(state, check)
    state["metric_integrity"]["collected"] = check["collected"]
    if has_failing_set(check):
        state["counters"]["failing_sets"] = with_set(state["counters"]["failing_sets"], check["failures"])
    if lasting.asked(terms):
        counters = state["counters"]["lasting"]
        counters["failed_at_baseline"] = [one["name"] for one in (body["invariants"] if there(body, "invariants") else [])
                                          if not one["passed"]]
        counters["awaiting_packet"] = body["target_met"] and terms["parent"] is not None
    if check["flaky"]:
        state["due_halt"] = _due("baseline", "check_flaky", "check_flaky")
    elif body["target_met"] and terms["parent"] is None:
        state["due_halt"] = _due("baseline", "no_actionable_tasks", "target_already_met")
    elif body["target_met"] and not lasting.asked(terms) and (not there(terms, "holdout") or (
            there(body, "holdout") and body["holdout"]["verdict"] == "passed")):
        state["due_halt"] = _due("baseline", "success_condition_met", "target_met")


def _checkpoint(terms, state, record, body):
    need(state["phase"] != "halted" and state["checkpoint"] is None, "a checkpoint is out of place")
    need(state["baseline"] is not None or terms["check"]["external"], "a checkpoint before the baseline")
    need(body["iteration"] == state["iteration"] + 1, "the checkpoint's iteration")
    need(body["base"] == state["last_green_commit"], "the checkpoint's base is not green")
    reached = rules.before_start(terms, state, seconds(record["at"]))
    need(reached is None, "a checkpoint, and a limit is reached: %s" % (reached,))
    state["phase"] = "iterating"
    if state["counters"]["started_at"] is None:
        state["counters"]["started_at"] = record["at"]
    state["checkpoint"] = {"record": None, "iteration": body["iteration"], "base": body["base"],
                           "environment_id": body["environment_id"], "context": _context(body),
                           "reservation_usd": body["reservation_usd"]}


def _context(body):
    return [only(c, "path", "content_sha256") for c in body["context"]]


def _submit(state, record):
    signer = only(record["actor"], "principal", "key")
    if signer not in state["submitters"]:
        state["submitters"].append(signer)


def _iteration(terms, state, record, body):
    receipt, opened = body["receipt"], state["checkpoint"]
    need(opened is not None, "an iteration without a checkpoint")
    told = {"record": receipt["checkpoint"], "iteration": receipt["iteration"], "base": receipt["base"],
            "environment_id": receipt["environment_id"], "context": _context(receipt)}
    need(all(opened[key] == value for key, value in told.items()), "the iteration is not that of the checkpoint")
    need(state["phase"] != "halted" or receipt["abandoned"] is not None, "an iteration after the halt")
    decision = receipt["decision"]
    state.update(counted(terms, state, receipt))
    counters = state["counters"]
    state["checkpoint"], state["iteration"] = None, receipt["iteration"]
    _submit(state, record)
    if receipt["abandoned"] is None:
        if counters["local_defenses"] is not None and decision["outcome_reason"] == "local_defense_added":
            counters["local_defenses"] += 1
        counters["no_progress"] = 0 if decision["outcome"] == "accept" else counters["no_progress"] + 1
    if decision["outcome"] == "accept":
        need(receipt["candidate"] is not None and receipt["check"] is not None, "an accepted nothing")
        counters["accepted"] += 1
        state["comprehension"]["diffs_unread"] += 1
        state["last_green_commit"] = receipt["candidate"]
        _green(state, receipt["check"])
        if there(receipt, "lasting"):
            besides = counters["lasting"]
            besides["complexity"] = lasting.together(besides["complexity"], receipt["lasting"]["delta"])
            besides["awaiting_packet"] = decision["outcome_reason"] == "packet_missing"
    promotions.recorded(state, decision["outcome"] == "accept")
    if state["phase"] != "halted":
        met = decision["halt_reason"] == "success_condition_met" and there(receipt, "lasting")
        state["due_halt"] = _due("decision", decision["halt_reason"], decision["reason"],
                                 known_packet(receipt["lasting"]["packet"]) if met else None) if decision["halt_reason"] else None


def _halt(terms, state, record, body):
    need(state["phase"] != "halted", "halted already")
    need(state["checkpoint"] is None or body["by"] == "operator", "a checkpoint is open")
    due = state["due_halt"]
    wanted = (due["by"], due["halt_reason"], due["reason"]) if due else rules.halt_of(terms, state, record)
    need(wanted is not None, "no limit is reached")
    need((body["by"], body["halt_reason"], body["reason"]) == wanted, "not the halt that is due: %s" % (wanted,))
    need((known_packet(body["packet"]) if there(body, "packet") else None) == (due.get("packet") if due else None), "the halt's packet")
    need(body["iteration"] == state["iteration"], "the halt's iteration")
    need(body["last_green_commit"] == state["last_green_commit"], "the halt's green")
    need(body["exit_code"] == EXIT[body["halt_reason"]], "the halt's exit code")
    need(body["status"] == status_of(body["halt_reason"]), "the halt's status")
    state.update(phase="halted", status=body["status"], halt_reason=body["halt_reason"], due_halt=None)
    state["counters"]["halted_at"] = record["at"]
    state.pop("lease", None)
    if body["by"] != "operator":
        _submit(state, record)


def _blocks(state):
    return any(f["severity"] == "block" for f in state["findings"])


def _resume(_terms, state, record, body):
    need(state["phase"] == "halted" and body["halt"] == state["halt"], "nothing to resume")
    _unreleased(state)
    need(state["checkpoint"] is None, "an iteration is still open")
    need(state["halt_reason"] in RESUMABLE, "this halt is not resumed")
    need(state["halt_reason"] != "human_required" or not _blocks(state), "a finding blocks")
    counters = state["counters"]
    started = counters["started_at"] is not None
    if started:
        counters["paused_seconds"] += max(0, seconds(record["at"]) - seconds(counters["halted_at"]))
    counters["halted_at"] = None
    state.update(phase="iterating" if started else "created", status="active", halt_reason=None, halt=None)


def _independent(state, record, what):
    """Neither principal nor key of the signer is among submitters."""
    signer = record["actor"]
    need(all(s["principal"] != signer["principal"] and s["key"] != signer["key"] for s in state["submitters"]),
         "who ran the loop cannot %s" % what)


def _review(_terms, state, record, body):
    need(state["status"] == "awaiting_review", "nothing to review")
    need(body["halt"] == state["halt"] and body["candidate"] == state["last_green_commit"], "a review of another")
    _independent(state, record, "review it")
    if body["verdict"] == "approve":
        state["approvals"].append(dict({"seq": record["seq"]}, **only(record["actor"], "principal", "key")))
        promotions.reviewed(state, record, body)
    else:
        state.update(status="stopped", halt_reason="reviewer_rejected")


def _promotion(terms, state, record, body):
    need(state["status"] == "awaiting_review", "nothing to promote")
    need(terms["class"] != "lasting_code" or lasting.asked(terms), "lasting_code of these rules is not promoted")
    need(body["halt"] == state["halt"] and body["candidate"] == state["last_green_commit"], "another is promoted")
    need(body["tip"] == record["prev"], "the tip is not the record before")
    need(state["approvals"] and not _blocks(state), "no approval, or a finding blocks")
    if lasting.asked(terms):
        promotions.promotion(terms, state, record)
    state["status"] = "succeeded"


def _invocation(terms, state, record, body):
    promotions.invocation(terms, state, record, body, _independent)


def _unreleased(state):
    need("released" not in state, "released already")


def _release(_terms, state, record, body):
    need(state["phase"] == "halted" and state["status"] in ("stopped", "blocked"), "it goes on, or waits for somebody")
    _unreleased(state)
    need(body["halt"] == state["halt"], "a release of another halt")
    need(body["reason"].strip(WHITE), "a release without a reason")
    _independent(state, record, "release it")
    state["released"] = True


def _finding(_terms, state, record, body):
    need(state["status"] != "succeeded", "promoted already")
    _unreleased(state)
    if body["action"] == "add":
        need(body["finding"] is None, "a new finding names another")
        state["findings"].append({"record": None, "severity": body["severity"],
                                  "principal": record["actor"]["principal"]})
        return
    found = [f for f in state["findings"] if f["record"] == body["finding"] and body["finding"] is not None]
    need(found and found[0]["severity"] == body["severity"], "no open finding of this severity")
    _independent(state, record, "resolve what was found")
    state["findings"].remove(found[0])


def _holds(lease, at):
    """Until 300 seconds after its end."""
    return seconds(at) < seconds(lease["until"]) + 300


def _lease(_terms, state, record, body):
    need(state["phase"] != "halted", "a lease after the halt")
    need(re.fullmatch("[0-9a-f]{16}", body["holder"]), "the lease's holder")
    need(re.fullmatch("[A-Za-z0-9._-]{1,64}", body["host"]), "the lease's host")
    need(0 <= seconds(body["until"]) - seconds(record["at"]) <= 86400, "the lease's end")
    old, actor = state.pop("lease", None), record["actor"]
    need(old is None or (old["holder"], old["key"]) == (body["holder"], actor["key"])
         or not _holds(old, record["at"]), "somebody else has the lease")
    if body["until"] != record["at"]:
        state["lease"] = {"holder": body["holder"], "host": body["host"], "principal": actor["principal"],
                          "key": actor["key"], "until": body["until"]}
