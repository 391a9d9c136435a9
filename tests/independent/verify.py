#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A second verifier of git-loop ledgers, written from docs/src alone.

verify.py [-C DIR] [--allowed-signers FILE] [--now TIME] [--json] (--all | ID...)
verify.py --serve

Exit 0: everything holds. 20: a ledger does not verify. 30: the workspace is not fit. 129: bad arguments, or no such loop.
With --serve each line of standard input is {"args": [...], "env": {...}}, and each line of standard output the answer:
{"code": N, "loops": [...], "not_checked": [...]}; 50 is a fault of this program. Needs git 2.36 and ssh-keygen.
The order of the checks is that of docs/src/design/format.md, "What verify checks, in order".
"""
import argparse
import json
import os
import sys
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import trust as roots  # noqa: E402
from canonical import Bad, seconds  # noqa: E402
from ledger import Fault, Ledger  # noqa: E402
from objects import Repo, Unfit, is_loop_id  # noqa: E402
from records import Record, read_terms  # noqa: E402,F401


class Usage(Exception):
    """Bad arguments, or a loop that is not there (129)."""


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Usage("%s\n%s" % (self.format_usage().strip(), message))


def arguments(given):
    """The options; Usage if they make no sense."""
    parser = _Parser(prog="verify.py", description="Verify git-loop ledgers from the documentation alone.")
    parser.add_argument("-C", default=".", metavar="DIR")
    parser.add_argument("--allowed-signers", metavar="FILE")
    parser.add_argument("--now", metavar="TIME")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("ids", nargs="*", metavar="ID")
    options = parser.parse_args(given)
    if not options.serve and bool(options.ids) == options.all:
        parser.error("name loops, or --all")
    try:
        options.moment = seconds(options.now) if options.now else int(time.time())
    except Bad as error:
        parser.error("--now %s" % error)
    return options


class Answer:
    """What came of one request."""

    def __init__(self):
        self.loops, self.notes, self.error = [], set(), None

    def code(self):
        return 0 if all(one["ok"] for one in self.loops) else 20


def _ledger_tips(refs):
    return {ref.split("/")[2]: oid for ref, (oid, fault) in refs.items()
            if ref.endswith("/ledger") and ref.count("/") == 3 and oid and not fault}


def find(refs, repo, name):
    """The loop that ID means: an exact id wins, else a contract_id (format.md: Refs)."""
    if "refs/loops/%s/ledger" % name in refs:
        return name
    if name.isascii() and name.isdigit():
        for loop, oid in sorted(_ledger_tips(refs).items()):
            roots_of = repo.git("rev-list", "--first-parent", "--max-parents=0", oid).stdout.decode().split()
            if roots_of and int(roots_of[-1][:12], 16) == int(name):
                return loop
    raise Usage("there is no loop %s" % name)


def verify_loop(repo, trust, now, refs, name, answer, known):
    """One loop by its ledger."""
    tip = refs["refs/loops/%s/ledger" % name][0]
    ledger = Ledger(repo, trust, now, name, tip, answer.notes, known)
    try:
        count = ledger.verify()
    except Fault as fault:
        return {"loop": name, "ok": False, "of": fault.loop, "record": fault.record, "error": str(fault)}
    warnings = []
    if ledger.terms["trust"]["allowed_signers"] != trust.text:
        warnings.append("the contract was frozen with another allowed-signers file")
    return {"loop": name, "ok": True, "records": count, "decisions": ledger.decisions, "ledger_tip": tip,
            "contract_id": int(ledger.contract.oid[:12], 16), "run_id": ledger.contract.oid, "renews": ledger.renews,
            "warnings": warnings}


def loop_of(ref):
    """The loop whose ledger or head a ref is, or None."""
    parts = ref.split("/")
    return parts[2] if len(parts) == 4 and parts[3] in ("ledger", "head") and is_loop_id(parts[2]) else None


def bad_refs(refs, loops=None):
    """Refs under refs/loops/ that are damaged, symbolic, or name no commit; of all loops also those that are no loop's."""
    for ref in sorted(refs):
        loop, fault = loop_of(ref), refs[ref][1]
        if loop is None and loops is None:
            yield {"ref": ref, "ok": False, "error": "%s is not the ref of a loop" % ref}
        elif loop is not None and fault and (loops is None or loop in loops):
            yield {"ref": ref, "ok": False, "error": "%s %s" % (ref, fault)}


def run(options, answer, env=None):
    """Verify what the options name."""
    with Repo(options.C, env) as repo:
        trust = roots.load(repo, options.allowed_signers)
        refs, known = repo.loop_refs(), {}
        if options.all:
            loops = [loop_of(r) for r in sorted(refs) if r.endswith("/ledger") and loop_of(r)]
        else:
            loops = [find(refs, repo, given) for given in options.ids]
        for name in loops:
            if not refs["refs/loops/%s/ledger" % name][1]:
                answer.loops.append(verify_loop(repo, trust, options.moment, refs, name, answer, known))
        answer.loops += list(bad_refs(refs, None if options.all else loops))


def attempt(given, env=None):
    """(exit code, answer, options) of one request."""
    answer, options = Answer(), None
    try:
        options = arguments(given)
        run(options, answer, env)
        return answer.code(), answer, options
    except Usage as error:
        answer.error, code = str(error), 129
    except Unfit as error:
        answer.error, code = "unfit: %s" % error, 30
    except SystemExit as end:  # --help
        code = 129 if end.code else 0
    return code, answer, options


# --- answers --------------------------------------------------------------------------------------------

def tell(code, answer, options):
    """The answer, for people or as JSON."""
    for note in sorted(answer.notes):
        print("not checked: " + note, file=sys.stderr)
    if answer.error:
        print(answer.error, file=sys.stderr)
    if options is not None and options.json:
        status = {"status": "ok" if code == 0 else "error", "loops": answer.loops, "not_checked": sorted(answer.notes)}
        if answer.error:
            status["error"] = answer.error
        print(json.dumps(status, indent=2))
    for one in answer.loops:
        name = one.get("loop") or one["ref"]
        if not one["ok"]:
            print("bad: %s: %s" % (name, one["error"]), file=sys.stderr)
            continue
        for warning in one["warnings"]:
            print("warning: %s: %s" % (name, warning), file=sys.stderr)
        if not options.json:
            print("ok %s: %d records and %d decisions hold; ledger tip %s" % (
                name, one["records"], one["decisions"], one["ledger_tip"]))


def serve():
    """One request a line, one answer a line."""
    for line in sys.stdin.buffer:
        out = {"code": 50, "loops": [], "not_checked": []}
        try:
            request = json.loads(line)
            code, answer, _ = attempt(request["args"], request.get("env"))
            out.update(code=code, loops=answer.loops, not_checked=sorted(answer.notes))
            if answer.error:
                out["error"] = answer.error
        except Exception:  # noqa: B902  a fault of this program is an answer, too
            out["error"] = traceback.format_exc()
        sys.stdout.write(json.dumps(out) + "\n")
        sys.stdout.flush()


def main():
    sys.setrecursionlimit(5000)
    if sys.argv[1:] == ["--serve"]:
        serve()
        return 0
    code, answer, options = attempt(sys.argv[1:])
    tell(code, answer, options)
    return code


if __name__ == "__main__":
    sys.exit(main())
