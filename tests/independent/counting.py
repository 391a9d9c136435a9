# SPDX-License-Identifier: Apache-2.0
"""What an iteration adds to the counters, and failing sets (format.md: The fold; decision.md: Failing sets)."""
import copy

from canonical import U64, byte_order, micro, seconds, sha256, there, usd


def loop_time(state, at):
    """The loop's time at a moment."""
    counters = state["counters"]
    if counters["started_at"] is None:
        return 0
    end = seconds(counters["halted_at"]) if state["phase"] == "halted" else at
    return max(0, end - seconds(counters["started_at"]) - counters["paused_seconds"])


# --- failing sets -----------------------------------------------------------------------------------

def has_failing_set(check):
    """It has a verdict, its report is not partial, and its format has tests."""
    return check is not None and check["problem"] is None and not check["partial"] and check["failures"] is not None


def _sets_of(failing):
    """The failing sets so far, in order."""
    out = [set() for _ in range(failing["count"])]
    for history in failing["histories"]:
        for place, letter in enumerate(history["failed"]):
            if letter == "F":
                out[place].update(history["tests"])
    return out


def with_set(failing, failures):
    """failing_sets with one more set."""
    sets = _sets_of(failing) + [set(failures)]
    histories = {}
    for test in set().union(*sets):
        histories.setdefault("".join("F" if test in s else "." for s in sets), []).append(test)
    return {"count": len(sets),
            "histories": [{"failed": key, "tests": byte_order(histories[key])} for key in sorted(histories)]}


def came_back(failing):
    """Whether the last set is an earlier one with another in between."""
    sets = _sets_of(failing)
    last = sets[-1]
    return any(sets[j] == last and any(sets[k] != last for k in range(j + 1, len(sets) - 1))
               for j in range(len(sets) - 1))


def contradiction(failing):
    """Two tests exclude each other: they fail by turns, four times or more."""
    words = [history["failed"] for history in failing["histories"]]
    for index, a in enumerate(words):
        for b in words[index + 1:]:
            turns = [x for x, y in zip(a, b) if x != y]
            if sum(1 for i, x in enumerate(turns) if i == 0 or turns[i - 1] != x) >= 4:
                return True
    return False


# --- an iteration -------------------------------------------------------------------------------------

def counted(terms, state, receipt):
    """A state with the cost, the failing set and the regressions of an iteration, whatever was decided of it."""
    state = copy.deepcopy(state)
    counters, check = state["counters"], receipt["check"]
    _count_cost(terms, state, counters, receipt["cost"])
    if receipt["abandoned"] is not None:
        return state
    if has_failing_set(check):
        digest, same = sha256(check["failures"]), counters["same_failures"]
        again = same["iterations"] + 1 if same and same["set"] == digest else 1
        counters["same_failures"] = {"set": digest, "iterations": again}
        counters["failing_sets"] = with_set(counters["failing_sets"], check["failures"])
        counters["oscillations"] += 1 if came_back(counters["failing_sets"]) else 0
        _count_regressions(counters, check["regressed"])
    else:
        counters["same_failures"] = None
    if counters["holdout_red"] is not None and there(receipt, "holdout") and receipt["holdout"]["verdict"] == "failed":
        counters["holdout_red"] += 1
    return state


def _count_cost(terms, state, counters, cost):
    reported = cost["basis"] == "reported"
    counts = (cost["prompt_tokens"], cost["completion_tokens"])
    if cost["usd"] is None or (terms["limits"]["tokens"] is not None and reported and None in counts):
        counters["unknown_costs"] += 1
    if cost["usd"] is not None:
        amount = micro(cost["usd"])
        state["cumulative_usd"] = usd(min(U64, micro(state["cumulative_usd"]) + amount))
        if reported:
            counters["largest_usd"] = usd(max(amount, micro(counters["largest_usd"])))
            costs = counters["costs"]
            counters["costs"] = {"known": costs["known"] + 1, "sum": usd(min(U64, micro(costs["sum"]) + amount)),
                                 "squares": str(min(2 ** 128 - 1, int(costs["squares"]) + amount * amount))}
    counters["tokens"] = min(U64, counters["tokens"] + sum(count or 0 for count in counts))


def _count_regressions(counters, regressed):
    known = {r["test"]: r["iterations"] for r in counters["regressions"]}
    for test in regressed:
        known[test] = known.get(test, 0) + 1
    counters["regressions"] = [{"test": t, "iterations": known[t]} for t in byte_order(known)]
