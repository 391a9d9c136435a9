# SPDX-License-Identifier: Apache-2.0
"""The receipt of an iteration, and what a baseline has in common with it (format.md: What verify checks, 13)."""
import re

import checks
import guards as trees
import hosts
import lasting
import names
import rules
import signatures
import tables
from canonical import micro, there
from messages import candidate_message
from paths import escape_path
from records import need

GUARDS = names.GUARDS[:4]
LISTED = names.LISTED


def same_command(told, wanted):
    """Whether a run's command is the contract's: the program by where it lies, a shell line as the last word."""
    if "shell" in wanted:
        return bool(told) and told[-1] == wanted["shell"]
    wanted = wanted["exec"]
    return len(told) == len(wanted) and told[1:] == wanted[1:] and \
        re.split(r"[/\\]", told[0])[-1] == re.split(r"[/\\]", wanted[0])[-1]


def sandbox_fits(terms, told, network, cpus=None):
    """A sandbox that there is fits the contract; `cpus` is how many processors the contract holds it to, or None."""
    need(told["adapter"] in terms["sandbox"]["allowed"], "an adapter that the contract does not allow")
    need(told["network"] != "host" or network == "host", "the host's network where the contract does not say so")
    need(told["network"] != "allow-namespace" or network != "none", "a list of hosts where the contract says none")
    need(told["adapter"] == "none" or told["filesystem"], "the file system is not closed")
    need(told["landlock_abi"] != 0 and (told["adapter"] != "landlock" or told["landlock_abi"] is not None),
         "landlock_abi is %r" % told["landlock_abi"])
    need(told.get("cpus") == cpus, "cpus is %r, the contract says %r" % (told.get("cpus"), cpus))


def sandboxes(terms, told, runs):
    """worker and check of `sandbox`, each beside its run or None, with whom they asked for."""
    for place, run in runs.items():
        network = terms["sandbox"][place + "_network"]
        if told[place] is None:
            need(run is None or run["exit_code"] == 127, "a sandbox is null beside another exit code than 127")
        else:
            sandbox_fits(terms, told[place], network, terms["check"].get("cpus") if place == "check" else None)
        hosts.check_requests(told[place + "_requests"], network, told[place], place + "_requests")


def ended_once(run):
    """A run ended with an exit code or by a signal, not both."""
    need(run["exit_code"] is None or run["signal"] is None, "a run with an exit code and a signal")


def check_command(terms, check):
    """The command is the contract's, and the same for all runs."""
    runs = [check["run"]] + [sample["run"] for sample in check["runs"]]
    for run in runs:
        ended_once(run)
        need(same_command(run["command"], terms["check"]["command"]), "the check's command is another")
        need(run["command"] == runs[0]["command"], "the runs of the check have different commands")


def holdout_fits(terms, told):
    """A holdout that was run fits the contract, and its verdict follows."""
    holdout = terms["holdout"]
    ended_once(told["run"])
    need(same_command(told["run"]["command"], holdout["command"]), "the holdout's command is another")
    sandbox_fits(terms, told["sandbox"], terms["sandbox"]["check_network"], terms["check"].get("cpus"))
    checks.check_holdout(holdout, told)


class Iteration:
    """Checks one iteration record of a ledger, with the state before it."""

    def __init__(self, ledger, record, before):
        self.ledger, self.record, self.before = ledger, record, before
        self.repo, self.terms = ledger.repo, ledger.terms
        self.receipt = record.body["receipt"]
        self.green_tree, _ = self.repo.commit_tree_and_parents(before["last_green_commit"])

    def verify(self):
        """Everything of step 13; gives the decision."""
        receipt, tests = self.receipt, (self.ledger.base_tests, self.ledger.green_tests)
        self.receipt_itself()
        repair = self.candidate()
        if receipt["check"]:
            self.check(repair)
        shown = lasting.derive(self, tests)
        self.holdout(tests, shown)
        wanted = rules.decide(self.terms, self.before, receipt, tests, self.green_tree, shown)
        told = {key: receipt["decision"][key] for key in wanted}
        need(told == wanted, "the decision is %r, derived: %r" % (told, wanted))
        return wanted

    def receipt_itself(self):
        """The receipt fits the contract and itself."""
        terms, receipt = self.terms, self.receipt
        need(receipt["schema"] == "git-loop/receipt/v1", "the receipt's schema")
        need(receipt["loop"] == self.ledger.name and receipt["contract"] == self.ledger.contract.oid,
             "the receipt's loop")
        need(receipt["model"] == terms["worker"]["model"], "the receipt's model")
        need(receipt["sampling"] == terms["worker"]["sampling"], "the receipt's sampling")
        need(receipt["determinism_confidence"] is None, "determinism_confidence is not null")
        need(receipt["elapsed_seconds"] == rules.loop_time(self.before, self.record.at), "elapsed_seconds")
        abandoned = receipt["abandoned"] is not None
        need((receipt["candidate"] is None) == (receipt["candidate_tree"] is None), "candidate and candidate_tree")
        need(receipt["candidate"] is not None or (abandoned and receipt["check"] is None), "there is no candidate")
        self.cost()
        self.worker()
        check, external = receipt["check"], terms["check"]["external"]
        sandbox = receipt["sandbox"]
        need(sandbox["check"] is None or (not external and (check is not None or abandoned)),
             "a sandbox of a check that was not run")
        sandboxes(terms, sandbox, {"worker": receipt["worker"] and receipt["worker"]["run"],
                                   "check": check["run"] if check and not external else None})

    def cost(self):
        cost, usage = self.receipt["cost"], self.terms["worker"]["usage"]
        need((cost["basis"] == "none") == (usage == "none"), "cost.basis is none exactly if usage is")
        need(cost["basis"] != "none" or cost["usd"] == "0.000000", "a cost of a worker that costs nothing")
        need((cost["basis"] == "unknown") == (cost["usd"] is None), "cost.basis is unknown exactly if usd is null")
        if self.receipt["abandoned"] is not None and self.receipt["worker"] is None and self.receipt["outside"] is None:
            need(cost["basis"] in ("reserved", "none"), "a cost that nobody was there to report")
        if cost["basis"] == "reserved":
            need(self.receipt["abandoned"] is not None, "cost.basis is reserved, and it was not abandoned")
            need(micro(cost["usd"]) >= micro(self.before["checkpoint"]["reservation_usd"]), "less than was reserved")

    def worker(self):
        terms, worker, outside = self.terms, self.receipt["worker"], self.receipt["outside"]
        if outside is not None:
            need(worker is None, "a worker beside an outside candidate")
            need(outside["adapter"] is None or outside["adapter"] in terms["sandbox"]["allowed"],
                 "an adapter that the contract does not allow")
        if worker is None:
            need(outside is not None or self.receipt["abandoned"] is not None, "there is no worker")
            need(self.receipt["sandbox"]["worker"] is None, "a worker's sandbox without a worker")
            return
        need(worker["agent"] == terms["worker"]["agent"], "the worker's agent")
        run = worker["run"]
        ended_once(run)
        need(same_command(run["command"], terms["worker"]["command"]), "the worker's command is another")
        fine = run["ended"] == "itself" and run["exit_code"] == 0
        need((worker["failure"] is None) == fine, "worker.failure does not fit how it ended")

    # --- the candidate

    def candidate(self):
        """The candidate and its guards; gives the repairs of the check's tree."""
        receipt, guards = self.receipt, self.receipt["guards"]
        need(guards["guards_intact"] == (not any(guards[key] for key in GUARDS)), "guards_intact")
        changes = receipt["changes"]
        if receipt["candidate"] is None:
            need(not (guards["drift"] or guards["blocked"] or guards["outside"]), "guards without a candidate")
            self.guards_listed({key: [] for key in ("drift", "blocked", "outside")})
            need(changes["count"] == 0 and not changes["paths"], "changes without a candidate")
            return {}
        self.candidate_commit()
        found, changed, repair = trees.derive(self.repo, self.terms, self.terms["base"]["tree"], self.green_tree,
                                              receipt["candidate_tree"])
        self.guards_listed(found)
        paths = [escape_path(p) for p in sorted(changed)]
        need(changes["count"] == len(paths) and changes["paths"] == paths[:200], "changes")
        wide = trees.newly_wide(changed)
        need(wide is None, "the candidate has a file that newly has the mode 100664")
        return repair

    def guards_listed(self, found):
        """All that was found is listed, or the first of each and how many more (format.md: The receipt, guards)."""
        guards = self.receipt["guards"]
        more = guards["more"] if there(guards, "more") else None
        if more:
            need(any(more[key] for key in names.GUARDS), "guards.more of nothing")
            need(all(len(guards[key]) <= LISTED for key in ("tampered", "left_out")), "guards lists too many")
            need(all(not more[key] or len(guards[key]) == LISTED for key in ("tampered", "left_out")), "guards.more")
        for key, value in found.items():
            told = guards[key] if key == "outside" else [{k: e[k] for k in ("path", "what")} for e in guards[key]]
            if more:
                need(more[key] == max(0, len(value) - LISTED), "guards.more.%s" % key)
                value = value[:LISTED]
            need(told == value, "guards.%s is %r, derived: %r" % (key, told, value))

    def candidate_commit(self):
        """format.md: Candidates."""
        receipt, trust = self.receipt, self.ledger.trust
        commit = signatures.Commit(self.repo, receipt["candidate"])
        need(commit.parents == [self.before["last_green_commit"]], "the candidate's parent is not green")
        need(commit.tree == receipt["candidate_tree"], "candidate_tree is not the candidate's tree")
        need(commit.message == candidate_message(self.ledger.name, receipt["iteration"], receipt["environment_id"]),
             "the candidate's message")
        armor, data = commit.signature()
        key = signatures.verify(armor, data, "git", trust.env)
        date = commit.check_form()
        need(any(trust.allows(key, runner, "git", date) is None for runner in self.terms["roles"]["runner"]),
             "the candidate is not signed by a runner")
        trust.refuse_revoked(key)

    # --- the check

    def check(self, repair):
        check = self.receipt["check"]
        tree = trees.checked_tree(self.repo, self.receipt["candidate_tree"], repair)
        need(check["tree"] == tree, "check.tree is not the check's tree")
        external = None
        if self.terms["check"]["external"]:
            external = self.outside_verdict(tree)
        else:
            check_command(self.terms, check)
        self.ledger.derive_check(self.record, check, self.ledger.base_tests, self.ledger.green_tests, external)

    def outside_verdict(self, tree):
        """format.md: Outside verdicts."""
        record, trust, files = self.record, self.ledger.trust, self.record.evidence_files()
        need("report" in files and "report.sig" in files, "the verdict or its signature is missing")
        value = checks.outside_verdict(files["report"], tables.ALL.verdict, self.terms, self.receipt, tree)
        key = signatures.verify(files["report.sig"], files["report"], "git-loop-verdict", trust.env)
        need(any(trust.allows(key, who, "git-loop-verdict", record.at) is None
                 for who in self.terms["roles"]["verifier"]), "the verdict is not signed by a verifier")
        trust.refuse_revoked(key)
        need(signatures.fingerprint(key) != record.value["actor"]["key"], "the verdict is signed by the runner")
        return value

    def holdout(self, tests, shown):
        """Where row 18 or 19 would apply with one that passed it is there; else only if the target is met."""
        must, may = rules.holdout_place(self.terms, self.before, self.receipt, tests, self.green_tree, shown)
        asked = there(self.receipt, "holdout")
        need(asked or not must, "the holdout is missing")
        need(may or not asked, "a holdout that nobody asked")
        if asked:
            holdout_fits(self.terms, self.receipt["holdout"])
