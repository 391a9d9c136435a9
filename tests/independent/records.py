# SPDX-License-Identifier: Apache-2.0
"""One record: its commit, its tree and record.json; and what can be said of it alone (format.md: The record commit, The tree)."""
import re

import names
import signatures
import tables
import terms as ranges
from canonical import Bad, at, read, seconds
from messages import message_of
from objects import KIB, MIB

FILES = {b".loop_state.json": 32 * MIB, b"STATUS.md": MIB, b"contract.json": 64 * MIB, b"record.json": 32 * MIB}
_VERDICT_FILE = re.compile(r"(%s)(-[0-9]*)?" % "|".join(re.escape(name) for name in names.VERDICT_FILES))
_SMALL = ("report", "metric-source")
WITH_EVIDENCE = ("baseline", "iteration")


def need(condition, what):
    if not condition:
        raise Bad(what)


class Record:
    """A record commit with its tree and record.json."""

    def __init__(self, repo, oid):
        self.repo, self.oid, self.kind = repo, oid, None
        self.commit = signatures.Commit(repo, oid)
        self.tree = {name: (mode, child) for mode, name, child in repo.tree(self.commit.tree, 64 * KIB)}
        for name in FILES:
            need(name in self.tree, "%s is missing" % name.decode())
        for name, (mode, child) in self.tree.items():
            if name in FILES:
                need(mode == b"100644", "%s has the mode %s" % (name.decode(), mode.decode()))
                repo.blob(child, FILES[name])
            else:
                need(name in (b"evidence", b"frozen") and mode == b"40000", "the tree has an entry it may not have")
        found = tables.ALL
        self.value = read(self.file(b"record.json"), found.record, "record.json")
        self.kind, self.body, self.seq = self.value["kind"], self.value["body"], self.value["seq"]
        at("record.json.body", found.bodies[self.kind], self.body)
        self.at = seconds(self.value["at"])
        need(b"evidence" not in self.tree or self.kind in WITH_EVIDENCE, "evidence/ in a record that has none")
        self.evidence = self._evidence()

    def file(self, name):
        return self.repo.blob(self.tree[name][1], FILES[name])

    def _evidence(self):
        """Names and blobs of evidence/; files of mode 100644 only."""
        out = {}
        entries = self.repo.tree(self.tree[b"evidence"][1], 64 * KIB) if b"evidence" in self.tree else []
        for mode, name, child in entries:
            need(mode == b"100644", "evidence/ holds something that is no plain file")
            out[name.decode("utf-8", "surrogateescape")] = child
        return out

    def evidence_files(self):
        """The contents of the evidence that has a part in verification."""
        found = {name: _VERDICT_FILE.fullmatch(name) for name in self.evidence}
        return {name: self.repo.blob(self.evidence[name], (16 if match.group(1) in _SMALL else 64) * MIB)
                for name, match in found.items() if match}

    # --- step 11

    def check_evidence(self, terms):
        """evidence/ is exactly what is listed, and nothing is there that no verdict rests on (format.md: Evidence)."""
        listed = self.body["evidence"] if self.kind in WITH_EVIDENCE else []
        found = {entry["name"]: entry for entry in listed}
        need(len(found) == len(listed), "evidence lists a file twice")
        need({name: entry["id"] for name, entry in found.items()} == self.evidence, "evidence/ is not what is listed")
        check = None
        if self.kind in WITH_EVIDENCE:
            check = self.body["check"] if self.kind == "baseline" else self.body["receipt"]["check"]
        for name, entry in found.items():
            match = _VERDICT_FILE.fullmatch(name)
            if terms["rules"] == 2 and name == "worker.json":
                need(not entry["truncated"] and entry["bytes"] == self.repo.info(entry["id"])[1],
                     "evidence/%s is cut" % name)
            if match:
                need(_may_be(match.group(1), match.group(2), check, terms), "evidence/%s rests under no verdict" % name)
                need(not entry["truncated"] and entry["bytes"] == self.repo.info(entry["id"])[1],
                     "evidence/%s is cut" % name)

    # --- steps 3 to 7

    def check_signature(self, trust, terms):
        """Signature, signer, role."""
        actor = self.value["actor"]
        armor, data = self.commit.signature()
        key = signatures.verify(armor, data, "git", trust.env)
        need(signatures.fingerprint(key) == actor["key"], "actor.key is not the key that signed")
        why = trust.allows(key, actor["principal"], "git", self.at)
        need(why is None, "signer: %s" % why)
        trust.refuse_revoked(key)
        by_operator = self.kind == "halt" and self.body["by"] == "operator"
        roles = names.OPERATOR_HALT if by_operator else names.SIGNS[self.kind]
        need(actor["role"] in roles, "a %s may not sign a %s" % (actor["role"], self.kind))
        need(actor["principal"] in terms["roles"][actor["role"]],
             "the contract does not make %s a %s" % (actor["principal"], actor["role"]))
        need(self.kind != "contract" or terms["class"] != "lasting_code" or
             actor["principal"] not in terms["roles"]["runner"], "a runner signed the contract of lasting_code")

    def check_form_and_message(self, terms, now):
        self.commit.check_form(self.at)
        need(self.at <= now + 300, "the record is of the future")
        need(self.commit.message == message_of(self.value, terms), "the message is not the one derived")


def _may_be(name, suffix, check, terms):
    """Whether a verdict rests on a file of this name."""
    if check is None:
        return False
    if suffix is not None:
        runs = len(check["runs"])
        if name not in names.RUN_FILES or suffix not in ["-%d" % number for number in range(2, runs + 1)]:
            return False
    external, source = terms["check"]["external"], terms["metric"]["from"]
    if name == "report.sig":
        return external
    if name == "tests.json":
        return check["tests"] is not None
    if name == "metric-source":
        return source in ("regex", "json") and terms["check"]["format"] in names.FILE_FORMATS
    return name != "verdict" or ((source == "verdict" or terms["rules"] == 2) and not external)


def read_terms(record):
    """contract.json: canonical, of a known schema and known rules, and within its ranges."""
    terms = read(record.file(b"contract.json"), tables.ALL.contract, "contract.json")
    known = (1, 2) if terms["class"] == "lasting_code" else (1,)
    need(terms["rules"] in known, "rules %d are not known" % terms["rules"])
    need((terms["parent"] is None) == (terms["renewal"] is None), "renewal is null exactly if parent is")
    ranges.check(terms)
    return terms
