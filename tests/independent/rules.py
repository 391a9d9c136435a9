# SPDX-License-Identifier: Apache-2.0
"""Rules 1: the decision and the fold (decision.md; format.md: The fold)."""
import copy

from canonical import EXIT, Bad, VERDICT, TESTS, byte_order, micro, read, seconds, sha256, usd
from checks import has_failing_set, passing_names, target_met

# --- failing sets -----------------------------------------------------------------------------------

def sets_of(failing):
    """The failing sets so far, in order."""
    out = [set() for _ in range(failing["count"])]
    for history in failing["histories"]:
        for place, letter in enumerate(history["failed"]):
            if letter == "F":
                out[place].update(history["tests"])
    return out


def with_set(failing, failures):
    """failing_sets with one more set."""
    sets = sets_of(failing) + [set(failures)]
    histories = {}
    for test in set().union(*sets):
        histories.setdefault("".join("F" if test in s else "." for s in sets), []).append(test)
    return {"count": len(sets),
            "histories": [{"failed": key, "tests": byte_order(histories[key])} for key in sorted(histories)]}


def came_back(failing):
    """Whether the last set is an earlier one with another in between."""
    sets = sets_of(failing)
    last = sets[-1]
    return any(sets[j] == last and any(sets[k] != last for k in range(j + 1, len(sets) - 1))
               for j in range(len(sets) - 1))


def contradiction(failing):
    """Two tests that exclude each other."""
    words = [history["failed"] for history in failing["histories"]]
    for index, a in enumerate(words):
        for b in words[index + 1:]:
            turns = [x for x, y in zip(a, b) if x != y]
            if sum(1 for i, x in enumerate(turns) if i == 0 or turns[i - 1] != x) >= 4:
                return True
    return False


# --- limits -----------------------------------------------------------------------------------------

def loop_time(state, at):
    """The loop's time at a moment (format.md: The fold)."""
    counters = state["counters"]
    if counters["started_at"] is None:
        return 0
    end = seconds(counters["halted_at"]) if state["phase"] == "halted" else at
    return max(0, end - seconds(counters["started_at"]) - counters["paused_seconds"])


def reservation(terms, state):
    """decision.md: Before a worker is started."""
    if terms["worker"]["usage"] == "none":
        return 0
    if terms["worker"]["reserve_usd"] is not None:
        return micro(terms["worker"]["reserve_usd"])
    if micro(state["counters"]["largest_usd"]) > 0:
        return micro(state["counters"]["largest_usd"])
    return micro(terms["limits"]["cost_usd"]) // terms["limits"]["iterations"]


def before_start(terms, state, at):
    """The first limit that applies before a start: (halt_reason, reason) or None."""
    limits, counters = terms["limits"], state["counters"]
    if any(f["severity"] == "block" for f in state["findings"]):
        return "human_required", "blocked_finding"
    if counters["unknown_costs"] and limits["unknown_cost"] == "stop":
        return "budget_exceeded", "cost_limit"
    if micro(state["cumulative_usd"]) + reservation(terms, state) > micro(limits["cost_usd"]) or \
            (limits["tokens"] is not None and counters["tokens"] > limits["tokens"]):
        return "budget_exceeded", "cost_limit"
    if loop_time(state, at) >= limits["duration_seconds"]:
        return "deadline_exceeded", "deadline"
    if state["iteration"] >= limits["iterations"]:
        return "max_iterations_reached", "iteration_limit"
    return None


def cost_anomaly(terms, before, cost):
    """decision.md: Cost anomalies."""
    costs = before["counters"]["costs"]
    if cost["basis"] != "reported" or costs["known"] < 3:
        return False
    n, total, squares = costs["known"], micro(costs["sum"]), int(costs["squares"])
    d, v = n * micro(cost["usd"]) - total, n * squares - total * total
    if d <= 0 or v <= 0:
        return False
    d, v, sigma = float(d), float(v), float(terms["limits"]["cost_sigma"])
    return d * d > (sigma * sigma) * v


# --- the decision -----------------------------------------------------------------------------------

ROW_HALT = {2: "blocked_path_modified", 3: "human_required", 9: "check_flaky"}


def row(terms, before, receipt, base_tests, green_tests, green_tree):
    """The first row that applies: (number, outcome, reason)."""
    early = early_row(terms, before, receipt, green_tree)
    if early:
        return early
    check = receipt["check"]
    if check is None:
        raise Bad("there is no check, and rows 1 to 6 do not decide")
    soft = "reject" if terms["guards"]["on_violation"] == "reject" else "blocked"
    holdout = receipt.get("holdout")
    if check["problem"] is not None or (holdout and holdout["verdict"] == "no_verdict"):
        return 7, "reject", "verifier_failed"
    reference = base_tests if base_tests is not None else green_tests
    failed = set(reference["failed"]) if reference is not None else set()
    if check["lost"] or (set(check["newly_skipped"]) & failed) - passing_names(green_tests):
        return 8, soft, "metric_integrity_violation"
    if check["flaky"]:
        return 9, "blocked", "check_flaky"
    if check["regressed"]:
        return 10, "reject", "tests_regressed"
    if target_met(terms, check):
        if terms.get("holdout") and not (holdout and holdout["verdict"] == "passed"):
            return 17, "reject", "holdout_failed"
        return 19, "accept", "target_met"
    if better(terms, before, check):
        return 20, "accept", "metric_improved"
    return 21, "reject", "metric_not_improved"


def early_row(terms, before, receipt, green_tree):
    """Rows that decide without the check."""
    guards = receipt["guards"]
    soft = "reject" if terms["guards"]["on_violation"] == "reject" else "blocked"
    if receipt["abandoned"] is not None:
        return 0, "reject", "abandoned"
    if guards["drift"]:
        return 1, "blocked" if guards["tampered"] else soft, "verifier_drift"
    if guards["tampered"]:
        return 2, "blocked", "blocked_path_modified"
    if guards["blocked"] or guards["left_out"]:
        return 2, soft, "blocked_path_modified"
    if any(f["severity"] == "block" for f in before["findings"]):
        return 3, "blocked", "blocked_finding"
    worker = receipt["worker"]
    if worker and worker["failure"] is not None and terms["worker"]["on_failure"] != "check":
        return 4, "reject", "worker_failed"
    if receipt["candidate_tree"] == green_tree:
        return 5, "reject", "no_change"
    if guards["outside"]:
        return 6, "reject", "outside_mutable_paths"
    return None


def holdout_verdict(terms, told):
    """What a holdout's end comes to (decision.md: The holdout)."""
    code, failing, tests = told["run"]["exit_code"], told["failing"], terms["format"] != "none"
    if told["run"]["ended"] != "itself" or code is None:
        return "no_verdict"
    if code == terms["success_exit_code"]:
        return "passed" if not tests or failing == 0 else "no_verdict"
    if not tests:
        return "no_verdict" if code in (126, 127) else "failed"
    return "failed" if failing else "no_verdict"


def better(terms, before, check):
    """decision.md: Better than the best."""
    best, metric = before["best_metric"], check["metric"]
    if best is None:
        return True
    gain = best - metric if terms["metric"]["direction"] == "minimize" else metric - best
    if not (gain > 0 and gain >= terms["metric"]["min_improvement"]):
        return False
    if terms["metric"]["repeat"] > 1:
        return gain > max(check["noise"] or 0.0, before["counters"]["best_noise"] or 0.0)
    return True


def limit(terms, before, after, receipt, decided):
    """The first limit that ends the run: (halt_reason, reason) or None."""
    number, outcome, reason = decided
    limits, counters, check = terms["limits"], after["counters"], receipt["check"]
    runs = [part["run"] for part in (receipt["worker"], check, receipt.get("holdout")) if part]
    runs += [sample["run"] for sample in check["runs"]] if check else []
    if any(run["ended"] == "deadline" for run in runs):
        return "deadline_exceeded", "deadline"
    if number == 4 and terms["worker"]["on_failure"] == "halt":
        return "execution_failure", "worker_failed"
    if micro(after["cumulative_usd"]) > micro(limits["cost_usd"]) or \
            (limits["tokens"] is not None and counters["tokens"] > limits["tokens"]):
        return "budget_exceeded", "cost_limit"
    if cost_anomaly(terms, before, receipt["cost"]):
        return "cost_anomaly", "cost_anomaly"
    if receipt["elapsed_seconds"] >= limits["duration_seconds"]:
        return "deadline_exceeded", "deadline"
    if number == 19:
        return "success_condition_met", "target_met"
    if number == 17 and (before["counters"]["holdout_red"] or 0) + 1 >= 2:
        return "reward_hacking_detected", "holdout_failed"
    return _progress_limit(terms, before, after, receipt, outcome)


def _progress_limit(terms, before, after, receipt, outcome):
    limits, counters = terms["limits"], after["counters"]
    counted = receipt["abandoned"] is None and has_failing_set(receipt["check"])
    if counted and contradiction(counters["failing_sets"]):
        return "unsatisfiable_constraints", "unsatisfiable_constraints"
    if counted and came_back(counters["failing_sets"]) and counters["oscillations"] >= limits["oscillation_limit"]:
        return "oscillation_detected", "oscillation_detected"
    if counted and any(r["iterations"] >= limits["regression_limit"] for r in counters["regressions"]
                       if r["test"] in receipt["check"]["regressed"]):
        return "same_test_regressed", "same_test_regressed"
    if receipt["iteration"] >= limits["iterations"]:
        return "max_iterations_reached", "iteration_limit"
    if receipt["abandoned"] is None and outcome != "accept" and \
            before["counters"]["no_progress"] + 1 >= limits["no_progress"]:
        return _no_progress(limits, after, receipt), "no_progress_limit"
    unread = limits["unread_diffs"]
    if outcome == "accept" and unread is not None and before["comprehension"]["diffs_unread"] + 1 >= unread:
        return "comprehension_debt_exceeded", "unread_diffs_limit"
    return None


def _no_progress(limits, after, receipt):
    same = after["counters"]["same_failures"]
    if same and same["iterations"] >= limits["no_progress"] and has_failing_set(receipt["check"]) \
            and receipt["check"]["failures"]:
        return "same_failure_repeated"
    return "infeasible_suspected" if after["counters"]["accepted"] == 0 else "no_progress_detected"


def status_of(halt_reason):
    """The status of a halt reason (format.md: The fold)."""
    if halt_reason == "success_condition_met":
        return "awaiting_review"
    if halt_reason in ("human_required", "blocked_path_modified", "metric_integrity_violation",
                       "reward_hacking_detected", "credential_scope_invalid", "objective_unverified", "check_flaky"):
        return "blocked"
    return "stopped"


def decision_status(outcome, halt_reason):
    """The status in a decision: a limit stops, whatever the loop's status is then."""
    if outcome == "blocked" or halt_reason is None:
        return outcome
    return "awaiting_review" if halt_reason == "success_condition_met" else "stopped"


def decide(terms, before, receipt, base_tests, green_tests, green_tree):
    """The decision object (decision.md)."""
    number, outcome, reason = decided = row(terms, before, receipt, base_tests, green_tests, green_tree)
    if outcome == "blocked":
        ended = (ROW_HALT.get(number, "metric_integrity_violation"), reason)
    else:
        ended = limit(terms, before, counted(terms, before, receipt), receipt, decided)
    halt_reason = ended[0] if ended else None
    return {"outcome": outcome, "status": decision_status(outcome, halt_reason),
            "reason": ended[1] if ended else reason, "outcome_reason": reason, "improved": outcome == "accept",
            "rollback_required": outcome != "accept", "halt_reason": halt_reason,
            "exit_code": EXIT[halt_reason] if ended else 0}


# --- the fold -----------------------------------------------------------------------------------------

def first_state(terms):
    """The state after the contract record."""
    return {
        "schema_version": "git-loop/state/v1", "loop": terms["loop"], "mode": "check_fixpoint", "phase": "created",
        "status": "active", "iteration": 0, "last_green_commit": terms["base"]["commit"], "best_metric": None,
        "open_failures": None, "cumulative_usd": "0.000000", "baseline": None, "determinism_probe": None,
        "metric_integrity": {"check_cmd_sha": sha256(only_known_check(terms["check"])),
                             "test_tree_sha_at_last_green": terms["frozen"]["tree"],
                             "frozen": terms["frozen"]["tree"], "collected": None},
        "model_pin": terms["worker"]["model"], "escalation": None, "comprehension": {"diffs_unread": 0},
        "halt_reason": None,
        "counters": {"accepted": 0, "no_progress": 0, "tokens": 0, "unknown_costs": 0, "largest_usd": "0.000000",
                     "started_at": None, "halted_at": None, "paused_seconds": 0, "same_failures": None,
                     "failing_sets": {"count": 0, "histories": []}, "oscillations": 0, "regressions": [],
                     "costs": {"known": 0, "sum": "0.000000", "squares": "0"}, "best_noise": None,
                     "green_tests": None, "holdout_red": 0 if terms.get("holdout") else None, "local_defenses": None},
        "checkpoint": None, "due_halt": None, "halt": None,
        "submitters": [only(s, "principal", "key") for s in terms["renewal"]["submitters"]]
        if terms["renewal"] else [], "approvals": [],
        "findings": [only(f, "record", "severity", "principal") for f in terms["renewal"]["findings"]]
        if terms["renewal"] else []}


def only(value, *keys):
    return {key: value[key] for key in keys}


def only_known_check(check):
    return only(check, "command", "format", "report", "timeout_seconds", "idle_timeout_seconds", "success_exit_code",
                "env", "external")


def filled(state, prev):
    """Ids that a record could not know of itself are filled in with prev."""
    state = copy.deepcopy(state)
    if state["phase"] == "halted" and state["halt"] is None:
        state["halt"] = prev
    if state["checkpoint"] and state["checkpoint"]["record"] is None:
        state["checkpoint"]["record"] = prev
    if state["findings"] and state["findings"][-1]["record"] is None:
        state["findings"][-1]["record"] = prev
    return state


def need(condition, what):
    if not condition:
        raise Bad("fold: " + what)


def fold(terms, before, record):
    """The state after a record; `before` is filled in."""
    kind = record["kind"]
    need(before["due_halt"] is None or kind == "halt", "a halt is due")
    need(kind != "contract", "a second contract")
    state = copy.deepcopy(before)
    {"baseline": _baseline, "checkpoint": _checkpoint, "iteration": _iteration, "halt": _halt, "resume": _resume,
     "review": _review, "promotion": _promotion, "finding": _finding}[kind](terms, state, record, record["body"])
    return state


def _add_set(counters, check):
    counters["failing_sets"] = with_set(counters["failing_sets"], check["failures"])


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
        _add_set(state["counters"], check)
    if check["flaky"]:
        state["due_halt"] = _due("baseline", "check_flaky", "check_flaky")
    elif body["target_met"] and terms["parent"] is not None:
        holdout = body.get("holdout")
        if terms.get("holdout") and not (holdout and holdout["verdict"] == "passed"):
            return
        state["due_halt"] = _due("baseline", "success_condition_met", "target_met")
    elif body["target_met"]:
        state["due_halt"] = _due("baseline", "no_actionable_tasks", "target_already_met")


def _due(by, halt_reason, reason):
    return {"by": by, "halt_reason": halt_reason, "reason": reason}


def _green(state, check):
    state["best_metric"] = check["metric"]
    state["open_failures"] = check["failures"]
    state["counters"]["green_tests"] = check["tests"]
    state["counters"]["best_noise"] = check["noise"]


def _checkpoint(terms, state, record, body):
    need(state["phase"] != "halted" and state["checkpoint"] is None, "a checkpoint is out of place")
    need(state["baseline"] is not None or terms["check"]["external"], "a checkpoint before the baseline")
    need(body["iteration"] == state["iteration"] + 1, "the checkpoint's iteration")
    need(body["base"] == state["last_green_commit"], "the checkpoint's base is not green")
    state["phase"] = "iterating"
    if state["counters"]["started_at"] is None:
        state["counters"]["started_at"] = record["at"]
    state["checkpoint"] = {"record": None, "iteration": body["iteration"], "base": body["base"],
                           "environment_id": body["environment_id"],
                           "context": [only(c, "path", "content_sha256") for c in body["context"]],
                           "reservation_usd": body["reservation_usd"]}


def counted(terms, state, receipt):
    """The counters with an iteration, whatever was decided of it."""
    state = copy.deepcopy(state)
    counters, cost = state["counters"], receipt["cost"]
    _count_cost(terms, state, counters, cost)
    if receipt["abandoned"] is None:
        check = receipt["check"]
        if has_failing_set(check):
            digest, same = sha256(check["failures"]), counters["same_failures"]
            again = same["iterations"] + 1 if same and same["set"] == digest else 1
            counters["same_failures"] = {"set": digest, "iterations": again}
            _add_set(counters, check)
            counters["oscillations"] += 1 if came_back(counters["failing_sets"]) else 0
            _count_regressions(counters, check["regressed"])
        else:
            counters["same_failures"] = None
        holdout = receipt.get("holdout")
        if counters["holdout_red"] is not None and holdout and holdout["verdict"] == "failed":
            counters["holdout_red"] += 1
    return state


def _count_cost(terms, state, counters, cost):
    if cost["usd"] is None:
        counters["unknown_costs"] += 1
    else:
        amount = micro(cost["usd"])
        state["cumulative_usd"] = usd(micro(state["cumulative_usd"]) + amount)
        if cost["basis"] == "reported":
            counters["largest_usd"] = usd(max(amount, micro(counters["largest_usd"])))
            costs = counters["costs"]
            counters["costs"] = {"known": costs["known"] + 1, "sum": usd(micro(costs["sum"]) + amount),
                                 "squares": str(int(costs["squares"]) + amount * amount)}
            if terms["limits"]["tokens"] is not None and \
                    (cost["prompt_tokens"] is None or cost["completion_tokens"] is None):
                counters["unknown_costs"] += 1
    counters["tokens"] += (cost["prompt_tokens"] or 0) + (cost["completion_tokens"] or 0)


def _count_regressions(counters, regressed):
    known = {r["test"]: r["iterations"] for r in counters["regressions"]}
    for test in regressed:
        known[test] = known.get(test, 0) + 1
    counters["regressions"] = [{"test": t, "iterations": known[t]} for t in byte_order(known)]


def _iteration(terms, state, record, body):
    receipt, opened = body["receipt"], state["checkpoint"]
    need(opened is not None, "an iteration without a checkpoint")
    told = {"record": receipt["checkpoint"], "iteration": receipt["iteration"], "base": receipt["base"],
            "environment_id": receipt["environment_id"],
            "context": [only(c, "path", "content_sha256") for c in receipt["context"]]}
    need(all(opened[key] == value for key, value in told.items()), "the iteration is not that of the checkpoint")
    need(state["phase"] != "halted" or receipt["abandoned"] is not None, "an iteration after the halt")
    decision = receipt["decision"]
    after = counted(terms, state, receipt)
    state.update(after)
    counters = state["counters"]
    state["checkpoint"], state["iteration"] = None, receipt["iteration"]
    _submit(state, record)
    if decision["outcome"] == "accept":
        counters["accepted"] += 1
        state["comprehension"]["diffs_unread"] += 1
        state["last_green_commit"] = receipt["candidate"]
        _green(state, receipt["check"])
    if receipt["abandoned"] is None:
        counters["no_progress"] = 0 if decision["outcome"] == "accept" else counters["no_progress"] + 1
    if state["phase"] != "halted":
        state["due_halt"] = _due("decision", decision["halt_reason"], decision["reason"]) \
            if decision["halt_reason"] else None


def _submit(state, record):
    signer = only(record["actor"], "principal", "key")
    if signer not in state["submitters"]:
        state["submitters"].append(signer)


def _halt(terms, state, record, body):
    need(state["phase"] != "halted", "halted already")
    need(state["checkpoint"] is None or body["by"] == "operator", "a checkpoint is open")
    at = seconds(record["at"])
    told = (body["by"], body["halt_reason"], body["reason"])
    if state["due_halt"]:
        due = state["due_halt"]
        need(told == (due["by"], due["halt_reason"], due["reason"]), "not the halt that is due")
    elif body["by"] == "operator":
        need(told[1:] == ("operator_stopped", "operator_stopped"), "the reasons of an operator's halt")
    else:
        found = before_start(terms, state, at)
        need(body["by"] == "limit" and found == told[1:], "no limit is reached, or another one")
    need(body["iteration"] == state["iteration"], "the halt's iteration")
    need(body["last_green_commit"] == state["last_green_commit"], "the halt's green")
    need(body["exit_code"] == EXIT[body["halt_reason"]], "the halt's exit code")
    need(body["status"] == status_of(body["halt_reason"]), "the halt's status")
    state.update(phase="halted", status=body["status"], halt_reason=body["halt_reason"], due_halt=None)
    state["counters"]["halted_at"] = record["at"]
    if body["by"] != "operator":
        _submit(state, record)


def _resume(_terms, state, record, body):
    need(state["phase"] == "halted" and body["halt"] == state["halt"], "nothing to resume")
    need(state["halt_reason"] in ("operator_stopped", "human_required", "workspace_invalid"), "this halt is not resumed")
    need(state["halt_reason"] != "human_required" or not _blocks(state), "a finding blocks")
    counters = state["counters"]
    if counters["started_at"] is not None:
        counters["paused_seconds"] += max(0, seconds(record["at"]) - seconds(counters["halted_at"]))
    counters["halted_at"] = None
    state.update(phase="iterating" if counters["started_at"] is not None else "created", status="active",
                 halt_reason=None, halt=None)


def _blocks(state):
    return any(f["severity"] == "block" for f in state["findings"])


def _independent(state, signer):
    need(all(s["principal"] != signer["principal"] and s["key"] != signer["key"] for s in state["submitters"]),
         "who ran the loop judges it")


def _review(_terms, state, record, body):
    need(state["status"] == "awaiting_review", "nothing to review")
    need(body["halt"] == state["halt"] and body["candidate"] == state["last_green_commit"], "a review of another")
    signer = only(record["actor"], "principal", "key")
    _independent(state, signer)
    if body["verdict"] == "approve":
        state["approvals"].append({"seq": record["seq"], "principal": signer["principal"], "key": signer["key"]})
    else:
        state.update(status="stopped", halt_reason="reviewer_rejected")


def _promotion(terms, state, record, body):
    need(state["status"] == "awaiting_review", "nothing to promote")
    need(terms["class"] != "lasting_code", "lasting_code is not promoted")
    need(body["halt"] == state["halt"] and body["candidate"] == state["last_green_commit"], "another is promoted")
    need(body["tip"] == record["prev"], "the tip is not the record before")
    need(state["approvals"] and not _blocks(state), "no approval, or a finding blocks")
    state["status"] = "succeeded"


def _finding(_terms, state, record, body):
    need(state["status"] != "succeeded", "promoted already")
    if body["action"] == "add":
        need(body["finding"] is None, "a new finding names another")
        state["findings"].append({"record": None, "severity": body["severity"],
                                  "principal": record["actor"]["principal"]})
        return
    found = [f for f in state["findings"] if f["record"] == body["finding"] and body["finding"] is not None]
    need(found and found[0]["severity"] == body["severity"], "no open finding of this severity")
    _independent(state, only(record["actor"], "principal", "key"))
    state["findings"].remove(found[0])


# --- outside verdicts ---------------------------------------------------------------------------------

def outside_verdict(data, terms, receipt, check_tree):
    """format.md: Outside verdicts, without the signature."""
    value = read(data, VERDICT, "the verdict")
    wanted = {"loop": terms["loop"], "checkpoint": receipt["checkpoint"],
              "candidate_tree": receipt["candidate_tree"], "check_tree": check_tree, "frozen": terms["frozen"]["tree"]}
    for key, want in wanted.items():
        if value[key] != want:
            raise Bad("the verdict's %s is another" % key)
    run = receipt["check"]["run"]
    for key, want in (("command", []), ("exit_code", value["exit_code"]), ("signal", None), ("ended", "itself"),
                      ("duration_ms", 0), ("survivors", 0)):
        if run[key] != want:
            raise Bad("check.run.%s of an outside verdict" % key)
    return value


def read_tests(data):
    """evidence/tests.json."""
    return read(data, TESTS, "tests.json")
