# SPDX-License-Identifier: Apache-2.0
"""The message of a record, a function of the record and the contract (format.md: The message)."""
from canonical import metric_text
from paths import short


def message_of(value, terms):
    """The message's bytes: subject, blank line, trailers, each line ended by one newline."""
    subject, trailers = _KINDS[value["kind"]](value, value["body"], terms)
    lines = [subject, "", "Loop-Id: " + value["loop"], "Loop-Record: " + value["kind"],
             "Loop-Seq: %d" % value["seq"]] + trailers
    return ("\n".join(lines) + "\n").encode("utf-8")


def candidate_message(loop, iteration, environment):
    """format.md: Candidates."""
    return ("Candidate of iteration %d of loop %s\n\nLoop-Id: %s\nLoop-Iteration: %d\nLoop-Environment: %s\n" % (
        iteration, loop, loop, iteration, environment)).encode("utf-8")


def _contract(_value, _body, terms):
    return "contract: " + short(terms["objective"], 60), []


def _baseline(_value, body, terms):
    check = body["check"]
    if check["metric"] is not None:
        tail = ", the target is met already" if body["target_met"] else ""
        return "baseline: %s %s%s" % (short(terms["metric"]["name"], 40), metric_text(check["metric"]), tail), []
    if check["problem"] is not None:
        return "baseline: no metric (%s)" % short(check["problem"], 60), []
    return "baseline: no metric", []


def _checkpoint(_value, body, _terms):
    return "checkpoint %d: start from %s" % (body["iteration"], body["base"][:12]), \
        ["Loop-Iteration: %d" % body["iteration"]]


def _iteration(_value, body, terms):
    receipt = body["receipt"]
    decision, check = receipt["decision"], receipt["check"]
    verb = {"accept": "accepted", "reject": "rejected", "blocked": "blocked"}[decision["outcome"]]
    verb += " (%s)" % decision["outcome_reason"]
    if decision["status"] == "stopped" and decision["reason"] != decision["outcome_reason"]:
        verb += ", stopped by " + decision["reason"]
    if check and check["metric"] is not None:
        verb += ", %s %s" % (short(terms["metric"]["name"], 40), metric_text(check["metric"]))
    trailers = ["Loop-Iteration: %d" % receipt["iteration"],
                "Loop-Decision: %s %s" % (decision["status"], decision["reason"])]
    if receipt["candidate"]:
        trailers.append("Loop-Candidate: " + receipt["candidate"])
    return "iteration %d %s" % (receipt["iteration"], verb), trailers


def _halt(_value, body, _terms):
    what = "stopped by an operator" if body["by"] == "operator" else body["halt_reason"]
    plural = "iteration" if body["iteration"] == 1 else "iterations"
    return "halt: %s after %d %s" % (what, body["iteration"], plural), \
        ["Loop-Iteration: %d" % body["iteration"], "Loop-Halt: " + body["halt_reason"]]


def _review(value, body, _terms):
    verb = {"approve": "approved", "reject": "rejected"}[body["verdict"]]
    return "review: %s by %s" % (verb, short(value["actor"]["principal"], 60)), \
        ["Loop-Candidate: " + body["candidate"]]


def _promotion(value, body, _terms):
    return "promotion: %s by %s" % (body["candidate"][:12], short(value["actor"]["principal"], 60)), \
        ["Loop-Candidate: " + body["candidate"]]


def _release(value, body, _terms):
    return "release: %s by %s" % (short(body["reason"], 60), short(value["actor"]["principal"], 60)), []


def _finding(value, body, _terms):
    who = short(value["actor"]["principal"], 60)
    if body["action"] == "resolve" and body["finding"]:
        return "finding %s resolved by %s" % (body["finding"][:12], who), []
    return "finding: %s by %s" % (body["severity"], who), []


def _lease(value, body, _terms):
    who = short(value["actor"]["principal"], 60)
    if body["until"] == value["at"]:
        return "lease: given up by " + who, []
    return "lease: %s on %s until %s" % (who, body["host"], body["until"]), []


def _invocation(_value, body, _terms):
    verb = {"worker": "worked", "reviewer": "reviewed"}[body["role"]]
    return "invocation: %s %s" % (short(body["agent_id"], 60), verb), []


_KINDS = {"contract": _contract, "baseline": _baseline, "checkpoint": _checkpoint, "iteration": _iteration, "halt": _halt,
          "resume": lambda *_: ("resume: go on", []), "review": _review, "promotion": _promotion, "finding": _finding,
          "release": _release, "lease": _lease,
          "invocation": _invocation}
