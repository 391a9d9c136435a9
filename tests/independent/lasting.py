# SPDX-License-Identifier: Apache-2.0
"""What lasting code has to show, under rules 2 (lasting-code.md; decision.md: Lasting code; format.md: Lasting code)."""
import re

import iterations
import rules
from brought import DELTA, EFFECTS, frozen_packet, known_packet, read_evidence, read_verdict
from canonical import Bad, there
from records import need

MIB = 1024 * 1024
LOW, HIGH = -2 ** 63, 2 ** 63 - 1


def asked(terms):
    """Whether the rows for lasting code are asked."""
    return terms["rules"] == 2


# --- deltas -------------------------------------------------------------------------------------------

def larger(one, other):
    """The larger of each number; None is nothing."""
    if one is None or other is None:
        return one or other
    return {name: max(one[name], other[name]) for name in DELTA}


def together(one, other):
    """Both together."""
    return {name: min(HIGH, max(LOW, one[name] + other[name])) for name in DELTA}


# --- commands -------------------------------------------------------------------------------------------

def commands_fit(terms, named, told, network):
    """One run of each command of the contract's list."""
    need([one["name"] for one in told] == [entry["name"] for entry in named], "the commands are not the contract's")
    for entry, one in zip(named, told):
        wanted = {"shell": entry["command"]} if isinstance(entry["command"], str) else {"exec": entry["command"]}
        run = one["run"]
        iterations.ended_once(run)
        need(iterations.same_command(run["command"], wanted), "the command of %r is another" % entry["name"])
        if one["sandbox"] is None:
            need(run["exit_code"] == 127, "a sandbox is null beside another exit code than 127")
        else:
            iterations.sandbox_fits(terms, one["sandbox"], network, terms["check"].get("cpus"))
        passed = run["ended"] == "itself" and run["exit_code"] == 0 and not one["frozen_changed"]
        need(one["passed"] == passed, "passed does not follow")


def check_baseline(terms, body):
    """The invariants on the base: there exactly under rules 2."""
    need(there(body, "invariants") == asked(terms), "invariants are there exactly under rules 2")
    if asked(terms):
        commands_fit(terms, terms["lasting"]["invariant_boundaries"], body["invariants"],
                     terms["sandbox"]["check_network"])


def _effect(command, said, failed_before):
    run = command["run"]
    if run["ended"] != "itself" or run["exit_code"] is None or command["frozen_changed"]:
        return "unknown"
    if run["exit_code"] != 0:
        return "broken"
    return said or ("strengthened" if command["name"] in failed_before else "preserved")


# --- a candidate ------------------------------------------------------------------------------------------

class Shown:
    """What a candidate has shown: what the rows look at."""

    def __init__(self, terms, state):
        self.terms, self.counters = terms["lasting"], state["counters"]["lasting"]
        self.packet, self.brought, self.incomplete, self.changes = None, False, True, []
        self.effects, self.added, self.declared = [], 0, []
        self.invariants_pass = self.independent = None
        self.delta, self.unmeasurable = None, 0

    def said(self):
        """What counts for every invariant whose command passes."""
        if self.added:
            return "local_defense_added"
        return next((word for word in ("unknown", "local_defense_added") if word in self.declared), None)

    def row(self):
        """The first of rows 11 to 16 that applies; None of them if all of it is as it should be."""
        allowed, forbidden = self.terms["allowed_semantic_changes"], self.terms["forbidden_semantic_changes"]
        if self.incomplete:
            return 11, "reject", "evidence_incomplete"
        if any(change in forbidden or change not in allowed for change in self.changes):
            return 12, "reject", "semantic_change_not_allowed"
        if not self.invariants_pass:
            return 13, "reject", "invariant_effect_unknown"
        if self.added or "local_defense_added" in self.declared:
            return 14, "reject", "local_defense_added"
        if not self.independent:
            return 15, "reject", "machine_independence_failed"
        used, budget = together(self.counters["complexity"], self.delta), self.terms["complexity_budget"]
        if self.unmeasurable or any(used[name] > budget[name] for name in DELTA):
            return 16, "reject", "complexity_budget_exceeded"
        return None

    def without_packet(self):
        """Row 18, where the target is met; None if there is a valid packet."""
        if self.packet is not None:
            return None
        if self.counters["awaiting_packet"]:
            return 18, "reject", "promotion_packet_invalid"
        return 18, "accept", "packet_missing"

    def brings(self):
        """Row 5: whether it brings what is waited for."""
        return self.counters["awaiting_packet"] and self.brought


def derive(iteration, tests):
    """What the candidate of an iteration has shown; None where nothing of it is asked. `lasting` of the receipt must be that."""
    terms, receipt = iteration.terms, iteration.receipt
    must = asked(terms) and receipt["check"] is not None
    need(there(receipt, "lasting") == must, "lasting is there exactly if there is a check under rules 2")
    if not asked(terms) or receipt["candidate_tree"] is None or receipt["abandoned"] is not None:
        return None
    shown, packet_problem = Shown(terms, iteration.before), False
    files = iteration.record.evidence_files()
    try:
        wrote = iteration.record.evidence.get("worker.json")
        written = None if wrote is None else iteration.repo.blob(wrote, 64 * MIB)
        shown.changes, packet = read_evidence(written)
        shown.incomplete, shown.brought = False, packet is not None
        if packet is not None:
            try:
                shown.packet = frozen_packet(iteration.repo, terms, receipt["candidate_tree"], packet)
            except Bad:
                packet_problem = True
    except Bad:
        pass
    if must:
        _compare(iteration, shown, packet_problem, files, tests)
    return shown


def _compare(iteration, shown, packet_problem, files, tests):
    terms, receipt, told = iteration.terms, iteration.receipt, iteration.receipt["lasting"]
    verdicts = []
    for name in sorted(files):
        if re.fullmatch(r"verdict(-[0-9]+)?", name):
            try:
                verdicts.append(read_verdict(files[name]))
            except Bad:
                pass
    shown.declared = [word for word in EFFECTS if any(effect == word for effect, _ in verdicts)]
    declared = None
    for _, delta in verdicts:
        declared = larger(declared, delta)
    measured = told["measured"]
    need(measured["measure"] == 1, "measured by other definitions")
    iteration.ledger.notes.add("%s: %s: how much larger it makes the code is the runner's word, nothing is measured here"
                               % (iteration.ledger.name, iteration.record.oid))
    need(len(measured["not_measured"]) == min(measured["unmeasured"], 100), "not_measured is not as long as it must be")
    shown.unmeasurable = measured.get("unmeasurable", 0)
    need(shown.unmeasurable <= measured["unmeasured"], "more paths are unmeasurable than are not measured")
    shown.added, shown.delta = measured["fallbacks_added"], larger(declared, measured["delta"])
    need((told["incomplete"] is not None) == shown.incomplete, "lasting.incomplete")
    need(told["semantic_changes"] == shown.changes, "lasting.semantic_changes")
    need(told["declared_effects"] == shown.declared, "lasting.declared_effects")
    have = told["declared_delta"]
    need((have and {name: have[name] for name in DELTA}) == declared, "lasting.declared_delta")
    need({name: told["delta"][name] for name in DELTA} == shown.delta, "lasting.delta")
    need(known_packet(told["packet"]) == shown.packet, "lasting.packet")
    need((told["packet_problem"] is not None) == packet_problem, "lasting.packet_problem")

    def first():
        holdout = receipt["holdout"]["verdict"] if there(receipt, "holdout") else None
        return rules.row(terms, iteration.before, receipt, tests, iteration.green_tree, holdout, shown)[0]

    # What no command could say any more decides first.
    shown.invariants_pass = shown.independent = True
    need((told["invariants"] is not None) == (first() > 12), "lasting.invariants is there exactly if no row before decides")
    if told["invariants"] is not None:
        commands_fit(terms, terms["lasting"]["invariant_boundaries"], [one["command"] for one in told["invariants"]],
                     terms["sandbox"]["check_network"])
        failed = iteration.before["counters"]["lasting"]["failed_at_baseline"]
        effects = [_effect(one["command"], shown.said(), failed) for one in told["invariants"]]
        need([one["effect"] for one in told["invariants"]] == effects, "the effects are %r" % effects)
        shown.invariants_pass = not any(effect in ("unknown", "broken") for effect in effects)
    need((told["independence"] is not None) == (first() > 14), "lasting.independence is there exactly if no row before decides")
    if told["independence"] is not None:
        commands_fit(terms, terms["lasting"]["machine_independence_requirements"], told["independence"], "none")
        shown.independent = all(one["passed"] for one in told["independence"])
