# SPDX-License-Identifier: Apache-2.0
"""A ledger, record by record (format.md: What verify checks, in order)."""
import re

import checks
import fold
import guards as trees
import iterations
import regexes
import lasting
import renewals
import reports
import rules
import signatures
from canonical import Bad, dump, load, micro, there, usd
from paths import unescape_path
from records import Record, need, read_terms

ENVIRONMENT, SHA256 = re.compile(r"[0-9a-f]{16}"), re.compile(r"[0-9a-f]{64}")


class Fault(Bad):
    """A ledger does not hold: whose, at which record, and why."""

    def __init__(self, loop, record, text):
        super().__init__(text)
        self.loop, self.record = loop, record


class Ledger:
    """The chain of records under a name, from the contract to a tip."""

    def __init__(self, repo, trust, now, name, tip, notes=None, known=None):
        self.repo, self.trust, self.now, self.name, self.tip = repo, trust, now, name, tip
        self.terms = self.state = self.previous = self.contract = None
        self.environments, self.approving = set(), set()
        self.base_tests = self.green_tests = None
        self.decisions, self.notes = 0, set() if notes is None else notes
        self.known = {} if known is None else known  # ledgers that were verified already, by name and tip
        self.renews, self.parent_here = [], False

    def chain(self):
        """Ids from the contract record on, by first parents."""
        out, oid = [], self.tip
        while True:
            out.append(oid)
            try:
                parents = signatures.Commit(self.repo, oid).parents
            except Bad as error:
                raise Fault(self.name, None, "%s: %s" % (oid, error))
            if not parents:
                return out[::-1]
            oid = parents[0]

    def verify(self):
        """Check every record; the first failure ends the walk. Then the ledgers that it goes on from."""
        chain = self.chain()
        for number, oid in enumerate(chain):
            kind = ""
            try:
                record = Record(self.repo, oid)
                kind = " (%s)" % record.kind
                self.one(record, number)
            except Bad as error:
                raise Fault(self.name, number, "record %d%s %s: %s" % (number, kind, oid, error))
            except RecursionError:
                raise Fault(self.name, number, "record %d%s %s: nested too deep" % (number, kind, oid))
        self.parents()
        return len(chain)

    def parents(self):
        """The ledger that it goes on from, up to the record that it names, and so on up the line."""
        if not self.parent_here:
            return
        told = self.terms["renewal"]
        key = (told["loop"], told["tip"])
        if key not in self.known:
            parent = Ledger(self.repo, self.trust, self.now, *key, notes=self.notes, known=self.known)
            parent.verify()
            self.known[key] = [told["loop"]] + parent.renews
        self.renews = self.known[key]

    def one(self, record, number):
        """All that is checked of one record, in order."""
        self.position(record, number)
        record.check_signature(self.trust, self.terms)
        record.check_form_and_message(self.terms, self.now)
        if number == 0:
            self.contract_record(record)
            before, state = None, fold.first_state(self.terms)
        else:
            need(record.at >= self.previous.at, "the record is earlier than the one before")
            before = fold.filled(self.state, record.value["prev"])
            state = fold.fold(self.terms, before, record.value)
        told = record.file(b".loop_state.json")
        need(dump(state) == told, ".loop_state.json is not the fold" + difference(state, told))
        record.check_evidence(self.terms)
        if number == 0 and self.terms["parent"]:
            self.parent_here = renewals.verify(self, record)
            if not self.parent_here:
                self.notes.add("%s: the ledger that it renews is not here" % self.name)
        self.uniqueness(record)
        self.verdict(record, before)
        self.state, self.previous = state, record

    # --- step 2

    def position(self, record, number):
        value = record.value
        if number == 0:
            self.terms, self.contract = read_terms(record), record
            need(self.terms["loop"] == self.name, "the contract is that of another loop")
            need(record.kind == "contract" and value["prev"] is None and value["contract"] is None,
                 "the first record is no contract record")
            need(not record.commit.parents, "the contract record has parents")
            need(b"frozen" in record.tree, "the contract record has no frozen/")
        else:
            need(value["prev"] == self.previous.oid, "prev is not the record before")
            need(value["contract"] == self.contract.oid, "contract is not the contract record")
            need(record.tree[b"contract.json"] == self.contract.tree[b"contract.json"], "another contract.json")
            need(record.commit.parents == [self.previous.oid] + self.second_parent(record), "the parents")
            need(b"frozen" not in record.tree, "frozen/ stands in another record than the contract")
        need(value["loop"] == self.name, "the record is that of another loop")
        need(value["seq"] == number, "seq is %d, not %d" % (value["seq"], number))

    @staticmethod
    def second_parent(record):
        """The base commit of a baseline, the candidate of an iteration that has one."""
        if record.kind == "baseline":
            return [record.body["base"]]
        if record.kind == "iteration" and record.body["receipt"]["candidate"]:
            return [record.body["receipt"]["candidate"]]
        return []

    # --- step 8

    def contract_record(self, record):
        terms = self.terms
        need(record.body["objective"] == terms["objective"], "the objective is not the contract's")
        tree, _ = self.repo.commit_tree_and_parents(terms["base"]["commit"])
        need(tree == terms["base"]["tree"], "the base commit has another tree")
        trees.check_frozen(self.repo, terms, tree)
        need(record.tree[b"frozen"][1] == terms["frozen"]["tree"], "frozen/ is not the frozen tree")
        try:
            if terms["metric"]["pattern"] is not None:
                regexes.compiled(terms["metric"]["pattern"])
        except reports.Unchecked as note:
            self.notes.add("%s: metric.pattern: %s" % (self.name, note))

    # --- step 12

    def uniqueness(self, record):
        if record.kind == "checkpoint":
            environment = record.body["environment_id"]
            need(ENVIRONMENT.fullmatch(environment), "the environment id is not 16 hex digits")
            need(environment not in self.environments, "the environment id comes twice")
            self.environments.add(environment)
        if record.kind == "halt":
            self.approving = set()
        if record.kind == "review" and record.body["verdict"] == "approve":
            self.approving.add(record.oid)
        if record.kind == "promotion":
            reviews = record.body["reviews"]
            need(reviews and all(r in self.approving for r in reviews), "reviews are not approving reviews")

    # --- step 13

    def verdict(self, record, before):
        {"baseline": self.baseline, "checkpoint": self.checkpoint, "iteration": self.iteration,
         "promotion": self.promotion}.get(record.kind, lambda *_: None)(record, before)

    def baseline(self, record, _before):
        body, terms = record.body, self.terms
        check = body["check"]
        iterations.check_command(terms, check)
        need(body["sandbox"]["worker"] is None, "a worker's sandbox at the baseline")
        iterations.sandboxes(terms, body["sandbox"], {"worker": None, "check": check["run"]})
        need(check["tree"] == terms["base"]["tree"], "check.tree is not the base's tree")
        self.derive_check(record, check, None, None)
        need(body["target_met"] == rules.target_met(terms, check), "target_met does not follow")
        lasting.check_baseline(terms, body)
        asked = body["target_met"] and terms["parent"] is not None and there(terms, "holdout") and \
            not lasting.asked(terms)
        need(there(body, "holdout") == asked, "the holdout is there exactly if a renewal's base meets the target")
        if asked:
            iterations.holdout_fits(terms, body["holdout"])
        if check["tests"]:
            self.base_tests = self.green_tests = checks.read_tests(record.evidence_files()["tests.json"])

    def derive_check(self, record, check, baseline, green, external=None):
        """The check is derived again from the evidence, and must be what is recorded."""
        files = record.evidence_files()
        need(record.evidence.get("report") == check["report"], "evidence/report is not check.report")
        need(record.evidence.get("tests.json") == check["tests"], "evidence/tests.json is not check.tests")
        for number, sample in enumerate(check["runs"], 1):
            name = "report" + ("-%d" % number if number > 1 else "")
            need(record.evidence.get(name) == sample["report"], "evidence/%s is not that of its run" % name)
        derived = checks.Check(self.terms, files, baseline, green)
        wanted = derived.derive(check, external)
        self.notes.update("%s: check of %s: %s" % (self.name, record.oid, note) for note in derived.notes)
        checks.compare_check(check, wanted, lambda data: self.repo.id_of("blob", data))

    def checkpoint(self, record, before):
        body, left = record.body, record.body["remaining"]
        need(body["adapter"] in self.terms["sandbox"]["allowed"], "an adapter that the contract does not allow")
        for entry in body["context"]:
            need(unescape_path(entry["path"]) and SHA256.fullmatch(entry["content_sha256"]), "context of any text")
        wanted = rules.remaining(self.terms, before, record.at)
        told = {key: micro(left[key]) if key == "usd" else left[key] for key in wanted}
        need(told == wanted, "remaining is %r, derived: %r" % (told, wanted))
        need(body["reservation_usd"] == usd(rules.reservation(self.terms, before)), "reservation_usd")

    def iteration(self, record, before):
        decision = iterations.Iteration(self, record, before).verify()
        self.decisions += 1
        if decision["outcome"] == "accept":
            self.green_tests = checks.read_tests(record.evidence_files()["tests.json"]) \
                if record.body["receipt"]["check"]["tests"] else None

    def promotion(self, record, _before):
        tree, _ = self.repo.commit_tree_and_parents(record.body["candidate"])
        need(tree == record.body["candidate_tree"], "candidate_tree is not the candidate's tree")


def difference(state, data):
    """Where the fold and the state differ, for people."""
    try:
        told = load(data)
    except Bad as error:
        return ": %s" % error
    if not isinstance(told, dict):
        return ""
    for key in state:
        if key == "counters" and isinstance(told.get(key), dict):
            for name in state[key]:
                if told[key].get(name) != state[key][name]:
                    return ": counters.%s is %r, folded %r" % (name, told[key].get(name), state[key][name])
        elif told.get(key) != state[key]:
            return ": %s is %r, folded %r" % (key, told.get(key), state[key])
    return ""
