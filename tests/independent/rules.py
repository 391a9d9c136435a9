# SPDX-License-Identifier: Apache-2.0
"""Rules 1 and 2: rows and limits (decision.md)."""
from canonical import Bad, micro, seconds, there
from checks import passed, read_tests  # noqa: F401  compare.py asks for it here
from counting import came_back, contradiction, counted, has_failing_set, loop_time
from names import EXIT, status_of

ROW_HALT = {2: "blocked_path_modified", 3: "human_required", 9: "check_flaky"}


# --- rows -------------------------------------------------------------------------------------------

def target_met(terms, check):
    """metrics.md: Better, and good enough."""
    metric, target = check["metric"], terms["metric"]["target"]
    if metric is None or check["problem"] is not None or not check["passing"]:
        return False
    return metric <= target if terms["metric"]["direction"] == "minimize" else metric >= target


def _softened(terms):
    """`guards.on_violation` softens rows 1, 2 and 8 where only paths or tests are concerned."""
    return "reject" if terms["guards"]["on_violation"] == "reject" else "blocked"


def early_row(terms, before, receipt, green_tree, shown=None):
    """The rows that decide without the check. `shown` is what lasting code has shown."""
    guards, worker = receipt["guards"], receipt["worker"]
    if receipt["abandoned"] is not None:
        return 0, "reject", "abandoned"
    if guards["drift"]:
        return 1, "blocked" if guards["tampered"] else _softened(terms), "verifier_drift"
    if guards["tampered"]:
        return 2, "blocked", "blocked_path_modified"
    if guards["blocked"] or guards["left_out"]:
        return 2, _softened(terms), "blocked_path_modified"
    if any(f["severity"] == "block" for f in before["findings"]):
        return 3, "blocked", "blocked_finding"
    if worker and worker["failure"] is not None and terms["worker"]["on_failure"] != "check":
        return 4, "reject", "worker_failed"
    if receipt["candidate_tree"] == green_tree and not (shown and shown.brings()):
        return 5, "reject", "no_change"
    if guards["outside"]:
        return 6, "reject", "outside_mutable_paths"
    return None


def row(terms, before, receipt, tests, green_tree, holdout, shown=None):
    """The first row that applies: (number, outcome, reason). `tests` are those of the baseline and of green."""
    early = early_row(terms, before, receipt, green_tree, shown)
    if early:
        return early
    check = receipt["check"]
    if check is None:
        raise Bad("there is no check, and rows 1 to 6 do not decide")
    if check["problem"] is not None or holdout == "no_verdict":
        return 7, "reject", "verifier_failed"
    base, green = tests
    reference = base if base is not None else green
    failed = set(reference["failed"]) if reference else set()
    if check["lost"] or (set(check["newly_skipped"]) & failed) - passed(green):
        return 8, _softened(terms), "metric_integrity_violation"
    if check["flaky"]:
        return 9, "blocked", "check_flaky"
    if check["regressed"]:
        return 10, "reject", "tests_regressed"
    if shown and shown.row():
        return shown.row()
    if target_met(terms, check):
        if there(terms, "holdout") and holdout != "passed":
            return 17, "reject", "holdout_failed"
        if shown and shown.without_packet():
            return shown.without_packet()
        return 19, "accept", "target_met"
    if better(terms, before, check):
        return 20, "accept", "metric_improved"
    return 21, "reject", "metric_not_improved"


def holdout_place(terms, before, receipt, tests, green_tree, shown=None):
    """(must be there, may be there) of a receipt's holdout (format.md: What verify checks, 13)."""
    if not there(terms, "holdout") or receipt["check"] is None:
        return False, False
    must = row(terms, before, receipt, tests, green_tree, "passed", shown)[0] in (18, 19)
    return must, must or target_met(terms, receipt["check"])


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


# --- limits -----------------------------------------------------------------------------------------

def reservation(terms, state):
    """decision.md: Before a worker is started."""
    if terms["worker"]["usage"] == "none":
        return 0
    if terms["worker"]["reserve_usd"] is not None:
        return micro(terms["worker"]["reserve_usd"])
    if micro(state["counters"]["largest_usd"]) > 0:
        return micro(state["counters"]["largest_usd"])
    return micro(terms["limits"]["cost_usd"]) // terms["limits"]["iterations"]


def _too_many_tokens(limits, counters):
    return limits["tokens"] is not None and counters["tokens"] > limits["tokens"]


def before_start(terms, state, at):
    """The first limit that applies before a start: (halt_reason, reason) or None."""
    limits, counters = terms["limits"], state["counters"]
    if any(f["severity"] == "block" for f in state["findings"]):
        return "human_required", "blocked_finding"
    if (counters["unknown_costs"] and limits["unknown_cost"] == "stop") or _too_many_tokens(limits, counters) or \
            micro(state["cumulative_usd"]) + reservation(terms, state) > micro(limits["cost_usd"]):
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


def limit(terms, before, after, receipt, decided):
    """The first limit that ends the run: (halt_reason, reason) or None."""
    number, outcome, _ = decided
    limits, check = terms["limits"], receipt["check"]
    runs = [part["run"] for part in (receipt["worker"], check, receipt.get("holdout")) if part]
    runs += [sample["run"] for sample in check["runs"]] if check else []
    if there(receipt, "lasting"):
        runs += [one["command"]["run"] for one in receipt["lasting"]["invariants"] or []]
        runs += [one["run"] for one in receipt["lasting"]["independence"] or []]
    if any(run["ended"] == "deadline" for run in runs):
        return "deadline_exceeded", "deadline"
    if number == 4 and terms["worker"]["on_failure"] == "halt":
        return "execution_failure", "worker_failed"
    if micro(after["cumulative_usd"]) > micro(limits["cost_usd"]) or _too_many_tokens(limits, after["counters"]):
        return "budget_exceeded", "cost_limit"
    if cost_anomaly(terms, before, receipt["cost"]):
        return "cost_anomaly", "cost_anomaly"
    if receipt["elapsed_seconds"] >= limits["duration_seconds"]:
        return "deadline_exceeded", "deadline"
    if number == 19:
        return "success_condition_met", "target_met"
    if number == 14 and before["counters"]["local_defenses"] + 1 >= terms["lasting"]["local_defense_limit"]:
        return "local_defense_limit", "local_defense_limit"
    if number == 17 and before["counters"]["holdout_red"] + 1 >= 2:
        return "reward_hacking_detected", "holdout_failed"
    return _progress_limit(terms, before, after, receipt, outcome)


def _progress_limit(terms, before, after, receipt, outcome):
    limits, counters = terms["limits"], after["counters"]
    has_set = receipt["abandoned"] is None and has_failing_set(receipt["check"])
    if has_set and contradiction(counters["failing_sets"]):
        return "unsatisfiable_constraints", "unsatisfiable_constraints"
    if has_set and came_back(counters["failing_sets"]) and counters["oscillations"] >= limits["oscillation_limit"]:
        return "oscillation_detected", "oscillation_detected"
    if has_set and any(r["iterations"] >= limits["regression_limit"] for r in counters["regressions"]
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


# --- the decision -----------------------------------------------------------------------------------

def decide(terms, before, receipt, tests, green_tree, shown=None):
    """The decision object."""
    holdout = receipt["holdout"]["verdict"] if there(receipt, "holdout") else None
    decided = row(terms, before, receipt, tests, green_tree, holdout, shown)
    number, outcome, reason = decided
    if outcome == "blocked":
        ended = (ROW_HALT.get(number, "metric_integrity_violation"), reason)
    else:
        ended = limit(terms, before, counted(terms, before, receipt), receipt, decided)
    halt_reason = ended[0] if ended else None
    # A limit makes it `stopped`, also where the loop's own status is `blocked` then.
    status = outcome if outcome == "blocked" or not ended else \
        "awaiting_review" if status_of(halt_reason) == "awaiting_review" else "stopped"
    return {"outcome": outcome, "status": status,
            "reason": ended[1] if ended else reason, "outcome_reason": reason, "improved": outcome == "accept",
            "rollback_required": outcome != "accept", "halt_reason": halt_reason,
            "exit_code": EXIT[halt_reason] if ended else 0}


def remaining(terms, before, at):
    """A checkpoint's `remaining`, but for its form."""
    limits, tokens = terms["limits"], terms["limits"]["tokens"]
    return {"iterations": max(0, limits["iterations"] - before["iteration"]),
            "usd": max(0, micro(limits["cost_usd"]) - micro(before["cumulative_usd"])),
            "tokens": None if tokens is None else max(0, tokens - before["counters"]["tokens"]),
            "seconds": max(0, limits["duration_seconds"] - loop_time(before, at))}


def halt_of(terms, before, record):
    """The (by, halt_reason, reason) that a halt record may have where none is due, by who it says it is by."""
    if record["body"]["by"] == "operator":
        return "operator", "operator_stopped", "operator_stopped"
    found = before_start(terms, before, seconds(record["at"]))
    return ("limit",) + found if found else None
