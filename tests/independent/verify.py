#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A second verifier of git-loop ledgers, written from docs/src alone.

verify.py [-C DIR] [--allowed-signers FILE] [--now RFC3339] [--json] ID...|--all
Exit 0: everything holds. 20: a ledger does not verify. 30: the workspace is not fit. 129: bad arguments.
The order of the checks is that of docs/src/design/format.md, "What verify checks, in order".
"""
import argparse
import json
import os
import re
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import checks  # noqa: E402
import guards as trees  # noqa: E402
import messages  # noqa: E402
import reports  # noqa: E402
import rules  # noqa: E402
import signatures  # noqa: E402
import terms as ranges  # noqa: E402
from canonical import (BODIES, Bad, CONTRACT, RECORD, _at, dump, escape_path, load, micro, read, seconds, usd)  # noqa: E402
from objects import KIB, MIB, Repo, Unfit  # noqa: E402

SIGNS = {"contract": ("approver",), "baseline": ("runner",), "checkpoint": ("runner",), "iteration": ("runner",),
         "resume": ("runner",), "halt": ("runner",), "review": ("reviewer",), "finding": ("reviewer",),
         "promotion": ("promoter",)}
LOOP_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
NOTES = set()


def not_checked(what):
    """Say on standard error that something was not checked."""
    if what not in NOTES:
        NOTES.add(what)
        print("not checked: " + what, file=sys.stderr)


def need(condition, what):
    if not condition:
        raise Bad(what)


def is_loop_id(name):
    """format.md: Refs."""
    return bool(LOOP_ID.fullmatch(name)) and ".." not in name and not name.endswith((".lock", "."))


# --- one record ------------------------------------------------------------------------------------

FILES = {b".loop_state.json": 32 * MIB, b"STATUS.md": MIB, b"contract.json": 64 * MIB, b"record.json": 32 * MIB}


class Record:
    """A record commit with its tree and record.json (format.md: The record commit, The tree)."""

    def __init__(self, repo, oid):
        self.repo, self.oid = repo, oid
        self.value = None
        self.commit = signatures.Commit(repo, oid)
        self.tree = {}
        for mode, name, child in repo.tree(self.commit.tree, 64 * KIB):
            self.tree[name] = (mode, child)
        for name in FILES:
            need(name in self.tree, "%s is missing" % name.decode())
        for name, (mode, child) in self.tree.items():
            if name in FILES:
                need(mode == b"100644", "%s has the mode %s" % (name.decode(), mode.decode()))
                repo.blob(child, FILES[name])
            else:
                need(name in (b"evidence", b"frozen") and mode == b"40000", "the tree has an entry it may not have")
        self.value = read(self.file(b"record.json"), RECORD, "record.json")
        _at("record.json.body", BODIES[self.value["kind"]], self.value["body"])
        self.kind, self.body, self.seq = self.value["kind"], self.value["body"], self.value["seq"]
        self.at = seconds(self.value["at"])
        self.evidence = self._evidence()

    def file(self, name):
        return self.repo.blob(self.tree[name][1], FILES[name])

    def _evidence(self):
        if b"evidence" not in self.tree:
            return {}
        out = {}
        for mode, name, child in self.repo.tree(self.tree[b"evidence"][1], 64 * KIB):
            need(mode == b"100644", "evidence/ holds something that is no plain file")
            out[name.decode("utf-8", "surrogateescape")] = child
        return out

    def evidence_files(self):
        """The contents of the evidence that has a part in verification."""
        large = {"tests.json": 64 * MIB}
        return {name: self.repo.blob(oid, large.get(name, 16 * MIB)) for name, oid in self.evidence.items()
                if checks.base_name(name)[0] in checks.WHOLE}

    def place(self):
        if self.value is None:
            return self.oid
        return "record %d (%s) %s" % (self.value["seq"], self.value["kind"], self.oid)


# --- steps that need no history ------------------------------------------------------------------

def check_signature(record, trust, terms):
    """Steps 3 to 5: signature, signer, role."""
    actor = record.value["actor"]
    armor, data = record.commit.signature()
    key = signatures.verify(armor, data, "git", trust.revoked)
    need(signatures.fingerprint(key) == actor["key"], "actor.key is not the key that signed")
    why = trust.allows(key, actor["principal"], "git", record.at)
    need(why is None, "signer: %s" % why)
    roles = SIGNS[record.kind]
    if record.kind == "halt" and record.body["by"] == "operator":
        roles = ("runner", "operator", "promoter")
    need(actor["role"] in roles, "a %s may not sign a %s" % (actor["role"], record.kind))
    need(actor["principal"] in terms["roles"][actor["role"]],
         "the contract does not make %s a %s" % (actor["principal"], actor["role"]))


def check_form_and_message(record, terms, now):
    """Steps 6 and 7."""
    record.commit.check_form(record.at)
    need(record.at <= now + 300, "the record is of the future")
    need(record.commit.message == messages.message_of(record, terms), "the message is not the one derived")


def read_terms(record):
    terms = read(record.file(b"contract.json"), CONTRACT, "contract.json")
    need(terms["rules"] == 1, "rules %d are not known" % terms["rules"])
    ranges.check(terms)
    return terms


def allowed_program(told, wanted):
    """Whether a run's command is the contract's, the program named by where it lies."""
    if "shell" in wanted:
        return bool(told) and told[-1] == wanted["shell"]
    wanted = wanted["exec"]
    return len(told) == len(wanted) and told[1:] == wanted[1:] and \
        os.path.basename(told[0]) == os.path.basename(wanted[0])


class Failure(Bad):
    """A ledger does not verify: which loop's, and at which record (None if the chain cannot be walked)."""

    def __init__(self, loop, record, text):
        super().__init__(text)
        self.loop, self.record = loop, record


# --- a ledger --------------------------------------------------------------------------------------

class Ledger:
    """The chain of records under a name, from the contract to a tip."""

    def __init__(self, repo, trust, now, name, tip):
        self.repo, self.trust, self.now, self.name, self.tip = repo, trust, now, name, tip
        self.terms, self.state, self.previous = None, None, None
        self.environments, self.approving, self.contract = set(), set(), None
        self.base_tests = self.green_tests = None
        self.decisions, self.parent_notes = 0, []

    def chain(self):
        """Ids from the contract record on, by first parents."""
        out, oid, seen = [], self.tip, set()
        while True:
            need(oid not in seen, "the chain goes round")
            seen.add(oid)
            out.append(oid)
            try:
                parents = signatures.Commit(self.repo, oid).parents
            except Bad as error:
                raise Bad("%s: %s" % (oid, error))
            if not parents:
                return out[::-1]
            oid = parents[0]

    def verify(self):
        """Check every record; the first failure ends the walk."""
        try:
            chain = self.chain()
        except Bad as error:
            raise Failure(self.name, None, str(error))
        for number, oid in enumerate(chain):
            record = None
            try:
                record = Record(self.repo, oid)
                self.one(record, number)
            except Bad as error:
                kind = " (%s)" % record.kind if record else ""
                raise Failure(self.name, number, "record %d%s %s: %s" % (number, kind, oid, error))
            except RecursionError:
                raise Failure(self.name, number, "record %d %s: nested too deep" % (number, oid))
        return len(chain)

    def line(self):
        """Verify the ledgers that this one renews, each up to where it was renewed, as far as they are here."""
        told, names = self.terms["renewal"], []
        while told:
            try:
                self.repo.info(told["tip"])
            except Bad:
                break
            parent = Ledger(self.repo, self.trust, self.now, told["loop"], told["tip"])
            parent.verify()
            names.append(told["loop"])
            told = parent.terms["renewal"]
        return names

    def one(self, record, number):
        self.position(record, number)
        check_signature(record, self.trust, self.terms)
        check_form_and_message(record, self.terms, self.now)
        if number == 0:
            self.contract_record(record)
            before, state = None, rules.first_state(self.terms)
        else:
            need(record.at >= self.previous.at, "the record is earlier than the one before")
            before = rules.filled(self.state, record.value["prev"])
            state = rules.fold(self.terms, before, record.value)
        need(dump(state) == record.file(b".loop_state.json"), ".loop_state.json is not the fold" + difference(
            state, record.file(b".loop_state.json")))
        self.check_evidence(record)
        if number == 0 and self.terms["parent"]:
            self.renewal(record)
        self.uniqueness(record, before)
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
            need(not record.commit.parents, "the contract record has a parent")
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
        if record.kind == "baseline":
            return [record.body["base"]]
        if record.kind == "iteration" and record.body["receipt"]["candidate"]:
            return [record.body["receipt"]["candidate"]]
        return []

    # --- step 8

    def contract_record(self, record):
        terms = self.terms
        need(record.body["objective"] == terms["objective"], "the objective is not the contract's")
        need(terms["class"] != "lasting_code" or record.value["actor"]["principal"] not in terms["roles"]["runner"],
             "a runner may not approve lasting_code")
        tree, _ = self.repo.commit_tree_and_parents(terms["base"]["commit"])
        need(tree == terms["base"]["tree"], "the base commit has another tree")
        trees.check_frozen(self.repo, terms, tree)
        need(record.tree[b"frozen"][1] == terms["frozen"]["tree"], "frozen/ is not the frozen tree")

    # --- step 11

    def check_evidence(self, record):
        listed = record.body.get("evidence", []) if record.kind in ("baseline", "iteration") else []
        names = [e["name"] for e in listed]
        need(len(set(names)) == len(names), "evidence lists a file twice")
        need({e["name"]: e["id"] for e in listed} == record.evidence, "evidence/ is not what is listed")
        need(b"evidence" not in record.tree or listed, "evidence/ without a list")

    # --- step 12

    def uniqueness(self, record, before):
        if record.kind == "checkpoint":
            environment = record.body["environment_id"]
            need(re.fullmatch(r"[0-9a-f]{16}", environment), "the environment id is not 16 hex digits")
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

    def kept_whole(self, record):
        """What a verdict rests on is never cut, and as large as it is said to be."""
        for listed in record.body["evidence"]:
            if checks.base_name(listed["name"])[0] in checks.WHOLE:
                need(not listed["truncated"], "evidence/%s is cut" % listed["name"])
                need(listed["bytes"] == self.repo.info(listed["id"])[1], "evidence/%s: bytes" % listed["name"])

    def baseline(self, record, before):
        body = record.body
        check = body["check"]
        self.run_of_check(check, body["sandbox"])
        self.kept_whole(record)
        need(check["tree"] == self.terms["base"]["tree"], "check.tree is not the base's tree")
        self.derive_check(record, check, None, None)
        need(body["target_met"] == checks.target_met(self.terms, check), "target_met does not follow")
        asked = body["target_met"] and self.terms["parent"] is not None and self.terms.get("holdout") is not None
        need((body.get("holdout") is not None) == asked, "whether the holdout was asked about the base")
        self.holdout(body.get("holdout"))
        need(body["sandbox"]["worker"] is None, "a worker's sandbox at the baseline")
        if check["tests"]:
            self.base_tests = self.green_tests = rules.read_tests(record.evidence_files()["tests.json"])

    def derive_check(self, record, check, baseline, green, external=None):
        files = record.evidence_files()
        checks.check_evidence_names(self.terms, record.evidence, max(1, len(check["runs"])))
        need(record.evidence.get("report") == check["report"], "evidence/report is not check.report")
        need(record.evidence.get("tests.json") == check["tests"], "evidence/tests.json is not check.tests")
        for number, sample in enumerate(check["runs"], 1):
            name = "report" + ("-%d" % number if number > 1 else "")
            need(record.evidence.get(name) == sample["report"], "evidence/%s is not that of its run" % name)
        try:
            wanted = checks.Check(self.terms, files, baseline, green, None).derive(check, external)
        except reports.Unchecked as note:
            not_checked("%s: check of %s: %s" % (self.name, record.oid, note))
            return
        checks.compare_check(check, wanted, lambda data: self.repo.id_of("blob", data))

    def run_of_check(self, check, sandbox):
        runs = [check["run"]] + [s["run"] for s in check["runs"]]
        need(allowed_program(runs[0]["command"], self.terms["check"]["command"]), "the check's command is another")
        need(all(run["command"] == runs[0]["command"] for run in runs), "the runs of a check have several commands")
        self.sandbox(sandbox["check"], runs[0], self.terms["sandbox"]["check_network"], sandbox["check_requests"])

    def holdout(self, told):
        """What is told of a holdout fits the contract and itself (13, iteration)."""
        if told is None:
            return
        terms = self.terms.get("holdout")
        need(terms is not None, "a holdout that the contract does not have")
        need(told["folder"] == terms["tree"], "the holdout's folder is not the frozen one")
        need(allowed_program(told["run"]["command"], terms["command"]), "the holdout's command is another")
        self.sandbox(told["sandbox"], told["run"], self.terms["sandbox"]["check_network"], None, secret=True)
        need(told["failing"] is None or terms["format"] != "none", "failing tests of a format without tests")
        need((told["problem"] is not None) == (told["verdict"] == "no_verdict"), "holdout.problem")
        need(told["verdict"] in ("no_verdict", rules.holdout_verdict(terms, told)), "holdout.verdict does not follow")

    def sandbox(self, told, run, network, requests, secret=False):
        """The sandbox fits the contract (13, iteration)."""
        listed = isinstance(network, dict)
        need((requests is not None) == (listed and told is not None and not secret), "requests are there exactly for a list of hosts")
        for one in (requests or {"requests": []})["requests"]:
            need(one["allowed"] == (one["why"] is None), "a request's why is null exactly if it was allowed")
            need(not one["allowed"] or ranges.allows(network, one["host"], one["port"]),
                 "a request was allowed that the contract does not list")
        if told is None:
            need(run["exit_code"] == 127, "a sandbox is null beside another exit code than 127")
            return
        need(told["adapter"] in self.terms["sandbox"]["allowed"], "an adapter that the contract does not allow")
        need(network == "host" or told["network"] != "host", "the host's network where the contract does not say so")
        need(network != "none" or told["network"] != "allow-namespace", "a way out where the contract says none")
        need(told["adapter"] == "none" or told["filesystem"], "the file system is not closed")

    def checkpoint(self, record, before):
        body, limits = record.body, self.terms["limits"]
        left = body["remaining"]
        need(body["adapter"] in self.terms["sandbox"]["allowed"], "an adapter that the contract does not allow")
        need(left["iterations"] == max(0, limits["iterations"] - before["iteration"]), "remaining.iterations")
        need(micro(left["usd"]) == max(0, micro(limits["cost_usd"]) - micro(before["cumulative_usd"])),
             "remaining.usd")
        tokens = limits["tokens"]
        need(left["tokens"] == (None if tokens is None else max(0, tokens - before["counters"]["tokens"])),
             "remaining.tokens")
        need(left["seconds"] == max(0, limits["duration_seconds"] - rules.loop_time(before, record.at)),
             "remaining.seconds")
        need(body["reservation_usd"] == usd(rules.reservation(self.terms, before)), "reservation_usd")

    def promotion(self, record, _before):
        tree, _ = self.repo.commit_tree_and_parents(record.body["candidate"])
        need(tree == record.body["candidate_tree"], "candidate_tree is not the candidate's tree")

    # --- an iteration

    def iteration(self, record, before):
        receipt = record.body["receipt"]
        green_tree, _ = self.repo.commit_tree_and_parents(before["last_green_commit"])
        self.receipt_itself(record, receipt, before)
        if self.terms["check"]["external"]:
            need(receipt["sandbox"]["check"] is None, "a sandbox of an outside check")
        repair = self.candidate(receipt, before, green_tree)
        if receipt["check"]:
            self.iteration_check(record, receipt, repair)
        else:
            checks.check_evidence_names(self.terms, record.evidence, 0)
            need(receipt["abandoned"] is not None or receipt["sandbox"]["check"] is None, "a sandbox of no check")
        self.kept_whole(record)
        wanted = rules.decide(self.terms, before, receipt, self.base_tests, self.green_tests, green_tree)
        told = {key: receipt["decision"][key] for key in wanted}
        need(told == wanted, "the decision is %r, derived: %r" % (told, wanted))
        self.holdout(receipt.get("holdout"))
        self.holdout_was_asked(receipt, before, green_tree)
        self.decisions += 1
        if wanted["outcome"] == "accept":
            self.green_tests = rules.read_tests(record.evidence_files()["tests.json"]) \
                if receipt["check"]["tests"] else None

    def holdout_was_asked(self, receipt, before, green_tree):
        """There is a holdout exactly where the target is met (13, iteration)."""
        told, check = receipt.get("holdout") is not None, receipt["check"]
        met = check is not None and checks.target_met(self.terms, check)
        need(not told or met, "a holdout although the target is not met")
        if self.terms.get("holdout") and not told:
            passed = dict(receipt, holdout={"verdict": "passed"})
            asked = rules.row(self.terms, before, passed, self.base_tests, self.green_tests, green_tree)[0] == 19
            need(not asked, "the target is met and the holdout was not asked")

    def receipt_itself(self, record, receipt, before):
        """The receipt fits the contract and itself (13, iteration)."""
        terms = self.terms
        for one in (receipt["sandbox"]["worker"], receipt["sandbox"]["check"]):
            need(one is None or one["adapter"] in terms["sandbox"]["allowed"], "an adapter that the contract does not allow")
        need(receipt["schema"] == "git-loop/receipt/v1", "the receipt's schema")
        need(receipt["loop"] == self.name and receipt["contract"] == self.contract.oid, "the receipt's loop")
        need(receipt["model"] == terms["worker"]["model"], "the receipt's model")
        need(receipt["sampling"] == terms["worker"]["sampling"], "the receipt's sampling")
        need(receipt["determinism_confidence"] is None, "determinism_confidence is not null")
        need(receipt["elapsed_seconds"] == rules.loop_time(before, record.at), "elapsed_seconds")
        self.cost(receipt)
        need((receipt["candidate"] is None) == (receipt["candidate_tree"] is None), "candidate and candidate_tree")
        need(receipt["candidate"] is not None or receipt["abandoned"] is not None, "there is no candidate")
        self.worker(receipt)

    def cost(self, receipt):
        cost, usage = receipt["cost"], self.terms["worker"]["usage"]
        need((cost["basis"] == "none") == (usage == "none"), "cost.basis is none exactly if usage is")
        need(cost["basis"] != "none" or cost["usd"] == "0.000000", "a cost of a worker that costs nothing")
        need((cost["basis"] == "unknown") == (cost["usd"] is None), "cost.basis is unknown exactly if usd is null")

    def worker(self, receipt):
        terms, worker, outside = self.terms, receipt["worker"], receipt["outside"]
        if outside is not None:
            need(worker is None, "a worker beside an outside candidate")
            need(outside["adapter"] is None or outside["adapter"] in terms["sandbox"]["allowed"],
                 "an adapter that the contract does not allow")
        if worker is None:
            need(outside is not None or receipt["abandoned"] is not None, "there is no worker")
            need(receipt["sandbox"]["worker"] is None, "a worker's sandbox without a worker")
            return
        need(worker["agent"] == terms["worker"]["agent"], "the worker's agent")
        run = worker["run"]
        need(allowed_program(run["command"], terms["worker"]["command"]), "the worker's command is another")
        fine = run["ended"] == "itself" and run["exit_code"] == 0
        need((worker["failure"] is None) == fine, "worker.failure does not fit how it ended")
        self.sandbox(receipt["sandbox"]["worker"], run, terms["sandbox"]["worker_network"],
                     receipt["sandbox"]["worker_requests"])

    def candidate(self, receipt, before, green_tree):
        """The candidate and its guards; gives the repairs of the check's tree."""
        guards = receipt["guards"]
        intact = not (guards["drift"] or guards["blocked"] or guards["tampered"] or guards["left_out"])
        need(guards["guards_intact"] == intact, "guards_intact")
        if receipt["candidate"] is None:
            need(not (guards["drift"] or guards["blocked"] or guards["outside"]), "guards without a candidate")
            need(receipt["changes"]["count"] == 0 and not receipt["changes"]["paths"], "changes without a candidate")
            return None
        self.candidate_commit(receipt, before)
        found, changed, repair = trees.derive(self.repo, self.terms, self.terms["base"]["tree"], green_tree,
                                              receipt["candidate_tree"])
        for key in ("drift", "blocked", "outside"):
            told = guards[key] if key == "outside" else [{k: e[k] for k in ("path", "what")} for e in guards[key]]
            need(told == found[key], "guards.%s is %r, derived: %r" % (key, told, found[key]))
        paths = [escape_path(p) for p in sorted(changed)]
        need(receipt["changes"]["count"] == len(paths) and receipt["changes"]["paths"] == paths[:200], "changes")
        for path, (old, new) in changed.items():
            need(not (new and new[0] == b"100664" and not (old and old[0] == b"100664")),
                 "the candidate has a file with the mode 100664")
        return repair

    def candidate_commit(self, receipt, before):
        """format.md: Candidates."""
        commit = signatures.Commit(self.repo, receipt["candidate"])
        need(commit.parents == [before["last_green_commit"]], "the candidate's parent is not green")
        need(commit.tree == receipt["candidate_tree"], "candidate_tree is not the candidate's tree")
        text = "Candidate of iteration %d of loop %s\n\nLoop-Id: %s\nLoop-Iteration: %d\nLoop-Environment: %s\n" % (
            receipt["iteration"], self.name, self.name, receipt["iteration"], receipt["environment_id"])
        need(commit.message == text.encode(), "the candidate's message")
        armor, data = commit.signature()
        key = signatures.verify(armor, data, "git", self.trust.revoked)
        date = commit.check_form()
        need(any(self.trust.allows(key, runner, "git", date) is None for runner in self.terms["roles"]["runner"]),
             "the candidate is not signed by a runner")

    def iteration_check(self, record, receipt, repair):
        check = receipt["check"]
        need(receipt["candidate"] is not None, "a check without a candidate")
        tree = trees.checked_tree(self.repo, receipt["candidate_tree"], repair)
        need(check["tree"] == tree, "check.tree is not the check's tree")
        external = None
        if self.terms["check"]["external"]:
            external = self.outside_verdict(record, receipt, tree)
        else:
            self.run_of_check(check, receipt["sandbox"])
        self.derive_check(record, check, self.base_tests, self.green_tests, external)

    def outside_verdict(self, record, receipt, tree):
        """format.md: Outside verdicts."""
        files = record.evidence_files()
        need("report" in files and "report.sig" in files, "the verdict or its signature is missing")
        value = rules.outside_verdict(files["report"], self.terms, receipt, tree)
        key = signatures.verify(files["report.sig"], files["report"], "git-loop-verdict", self.trust.revoked)
        need(any(self.trust.allows(key, who, "git-loop-verdict", record.at) is None
                 for who in self.terms["roles"]["verifier"]), "the verdict is not signed by a verifier")
        need(signatures.fingerprint(key) != record.value["actor"]["key"], "the verdict is signed by the runner")
        return value

    # --- renewals

    def renewal(self, record):
        """What the contract says of its parent (format.md: Renewals)."""
        terms = self.terms
        told = terms["renewal"]
        try:
            self.repo.info(terms["parent"])
            self.repo.info(told["tip"])
        except Bad:
            not_checked("%s: the parent's ledger is not here" % self.name)
            return
        parent, tip = Record(self.repo, terms["parent"]), Record(self.repo, told["tip"])
        old = read_terms(parent)
        for one in (parent, tip):
            check_signature(one, self.trust, old)
            check_form_and_message(one, old, self.now)
        need(parent.kind == "contract", "the parent is no contract record")
        need(tip.value["contract"] == parent.oid, "the tip is that of another contract")
        need(tip.tree[b"contract.json"] == parent.tree[b"contract.json"], "the tip has another contract")
        self.renewal_terms(record, old, told, tip)
        need(record.value["actor"]["principal"] in old["roles"]["approver"], "the signer is no approver of the parent")
        need(record.at >= tip.at, "the contract is earlier than the tip")
        need(old["class"] != "lasting_code" or terms["class"] == "lasting_code", "the class of the parent")
        need(all(one.value["loop"] == told["loop"] for one in (parent, tip)), "renewal.loop")

    def renewal_terms(self, _record, old, told, tip):
        state = load(tip.file(b".loop_state.json"))
        need(state["phase"] == "halted", "the parent has not halted at the tip")
        need(state["last_green_commit"] == self.terms["base"]["commit"], "the base is not the parent's green")
        origin = old["renewal"]["origin"] if old["renewal"] else old["base"]["commit"]
        need(told["origin"] == origin, "renewal.origin")
        need(told["submitters"] == state["submitters"], "renewal.submitters")
        findings = [dict(f, record=f["record"] or told["tip"]) for f in state["findings"]]
        need(told["findings"] == findings, "renewal.findings")
        changed = json.dumps(changed_terms(old, self.terms))
        need(json.dumps(told["changed"]) == changed, "renewal.changed is not %s" % changed)


def changed_terms(old, new):
    """The terms that are not the parent's (format.md: Renewals, changed)."""
    out = []
    old, new = dict(old, holdout=old.get("holdout")), dict(new, holdout=new.get("holdout"))
    skip = ("schema", "loop", "parent", "renewal", "base", "frozen", "trust")
    for field in [key for key in CONTRACT_FIELDS if key not in skip]:
        a, b = old[field], new[field]
        if a == b and type(a) is type(b):
            continue
        if isinstance(a, dict) and isinstance(b, dict):
            for member in list(b) + [m for m in a if m not in b]:
                if a.get(member) != b.get(member):
                    out.append({"term": "%s.%s" % (field, member), "from": a.get(member), "to": b.get(member)})
        else:
            out.append({"term": field, "from": a, "to": b})
    return out


CONTRACT_FIELDS = ("schema", "rules", "loop", "parent", "renewal", "objective", "class", "base", "paths", "frozen",
                   "worker", "worktree", "check", "holdout", "metric", "limits", "guards", "sandbox", "roles", "trust", "lasting")


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


# --- the program -----------------------------------------------------------------------------------

def find(refs, repo, name):
    """The loop that ID means: an exact id wins, else a contract_id."""
    if "refs/loops/%s/ledger" % name in refs:
        return name
    if name.isdigit():
        for ref, (oid, fault) in sorted(refs.items()):
            if ref.endswith("/ledger") and oid and not fault:
                roots = repo.git("rev-list", "--first-parent", "--max-parents=0", oid).stdout.decode().split()
                if roots and int(roots[-1][:12], 16) == int(name):
                    return ref.split("/")[2]
    return None


def verify_loop(repo, trust, now, refs, name):
    """The ledger of one loop. What is to be told of it."""
    tip = refs["refs/loops/%s/ledger" % name][0]
    ledger = Ledger(repo, trust, now, name, tip)
    count = ledger.verify()
    line = ledger.line()
    if ledger.terms["trust"]["allowed_signers"] != trust.text:
        print("warning: %s: the contract was frozen with another allowed-signers file" % name, file=sys.stderr)
    return {"loop": name, "ok": True, "records": count, "decisions": ledger.decisions, "ledger_tip": tip,
            "contract_id": int(ledger.contract.oid[:12], 16), "renews": line, "state": ledger.state}


def bad_refs(refs, only=None):
    """Refs under refs/loops/ that are no loop's, or name no commit; of some loops alone, or of all."""
    for ref, (_, fault) in sorted(refs.items()):
        parts = ref.split("/")
        known = len(parts) == 4 and parts[3] in ("ledger", "head") and is_loop_id(parts[2])
        if only is not None and (not known or parts[2] not in only):
            continue
        if not known:
            yield {"ref": ref, "ok": False, "error": "%s is not the ref of a loop" % ref}
        elif fault:
            yield {"ref": ref, "ok": False, "error": "%s %s" % (ref, fault)}


def run(options, env=None):
    """(exit code, what is told of each loop or bad ref)."""
    repo = Repo(options.C, env)
    try:
        return run_in(repo, options)
    finally:
        repo.close()


def run_in(repo, options):
    trust = signatures.load_trust(repo, options.allowed_signers)
    now = seconds(options.now) if options.now else int(time.time())
    refs, told = repo.loop_refs(), []
    names = []
    if options.all:
        names = sorted(ref.split("/")[2] for ref in refs if ref.count("/") == 3 and ref.endswith("/ledger"))
        names = [name for name in names if is_loop_id(name)]
    for given in options.ids:
        name = find(refs, repo, given)
        if name is None:
            return 129, [{"loop": given, "ok": False, "error": "there is no loop %s" % given}]
        names += [name] if name not in names else []
    for name in names:
        if refs["refs/loops/%s/ledger" % name][1] is not None:
            continue
        try:
            told.append(verify_loop(repo, trust, now, refs, name))
        except Failure as error:
            told.append({"loop": name, "ok": False, "of": error.loop, "record": error.record, "error": str(error)})
    told += bad_refs(refs, None if options.all else names)
    return (0 if all(one["ok"] for one in told) else 20), told


def arguments(words):
    """The command line, or None if it is not one."""
    parser = argparse.ArgumentParser(description="Verify git-loop ledgers from the documentation alone.")
    parser.add_argument("-C", default=".")
    parser.add_argument("--allowed-signers")
    parser.add_argument("--now")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("ids", nargs="*", metavar="ID")
    options = parser.parse_args(words)
    if bool(options.ids) == options.all:
        parser.error("name the loops, or say --all")
    return options


def serve():
    """One verification for each line of standard input: a JSON object with `args` and `env`."""
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            code, told = run(arguments(asked["args"]), asked["env"])
        except Unfit as error:
            code, told = 30, [{"ok": False, "error": str(error)}]
        except Exception as error:  # a fault of this program is told to whoever compares
            import traceback
            code, told = 50, [{"ok": False, "error": traceback.format_exc(limit=-4) + str(error)}]
        for one in told:
            one.pop("state", None)
        print(json.dumps({"code": code, "loops": told, "not_checked": sorted(NOTES)}), flush=True)
        NOTES.clear()
    return 0


def main():
    sys.setrecursionlimit(5000)
    if sys.argv[1:] == ["--serve"]:
        return serve()
    try:
        options = arguments(sys.argv[1:])
    except SystemExit as end:
        return 129 if end.code else 0
    try:
        code, told = run(options)
    except Unfit as error:
        print("unfit: %s" % error, file=sys.stderr)
        return 30
    if options.json:
        print(json.dumps({"status": "ok" if code == 0 else "error", "loops": told}, indent=2))
        return code
    for one in told:
        if one["ok"]:
            print("ok %(loop)s: %(records)d records and %(decisions)d decisions hold; ledger tip %(ledger_tip)s" % one)
        else:
            print("bad: %s: %s" % (one.get("loop") or one["ref"], one["error"]), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
