#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make ledgers with git-loop, mutate them with git's plumbing, and compare the verdicts of git-loop and verify.py.

compare.py [--work DIR] [--only WORD | --names NAME,...] [--no-mutations] [--mutate NAME,...] [--every N]
git-loop must be on PATH. Every ledger and mutation is verified by both; a difference in the exit code, or in the record that is at
fault, is told, and the exit code is 1. Not where verify.py says that it did not check a metric's pattern. Odd reports and patterns are
compared without ledgers by odd.py, which is quicker.
"""
import argparse
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from mutations import Forge, mutate  # noqa: E402,F401  a Forge is also for those who import this

KEYS = {"runner": ("ed25519",), "ann": ("ed25519",), "verifier": ("ed25519",), "other": ("ed25519",)}


class World:
    """A fresh HOME, keys and an allowed-signers file."""

    def __init__(self, work, keys=None):
        self.work, self.keys = work, dict(KEYS, **(keys or {}))
        home = os.path.join(work, "home")
        os.makedirs(home)
        self.env = dict(os.environ, HOME=home, GIT_CONFIG_NOSYSTEM="1")
        for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "SSH_AUTH_SOCK"):
            self.env.pop(name, None)
        self.signers = os.path.join(work, "allowed_signers")
        with open(self.signers, "w") as file:
            for name, kind in self.keys.items():
                self.sh(["ssh-keygen", "-q", "-t", *kind, "-N", "", "-C", "", "-f", self.key(name)])
                with open(self.key(name) + ".pub") as public:
                    if name != "other":
                        file.write("%s@example.org %s\n" % (name, public.read().strip()))
        for key, value in (("user.name", "Ann"), ("user.email", "ann@example.org"), ("loop.signingKey", self.key("runner")),
                           ("gpg.ssh.allowedSignersFile", self.signers), ("init.defaultBranch", "main"),
                           ("gc.auto", "0")):
            self.sh(["git", "config", "--global", key, value])

    def key(self, name):
        return os.path.join(self.work, "key-" + name)

    def sh(self, command, cwd=None, data=None, check=True, env=None):
        done = subprocess.run(command, cwd=cwd or self.work, env=dict(self.env, **(env or {})), input=data,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if check and done.returncode:
            raise SystemExit("%s: %s" % (command, done.stderr.decode("utf-8", "replace")))
        return done


class Scenario:
    """A repository with one loop whose worker replays prepared files, one set an iteration."""

    def __init__(self, world, name, base, steps, terms=None, check=None, object_format="sha1", extra=None):
        self.world, self.name = world, name
        self.dir = os.path.join(world.work, "repo-" + name)
        os.makedirs(self.dir)
        world.sh(["git", "init", "-q", "--object-format=" + object_format], cwd=self.dir)
        files = {"tests/run.sh": check or 'cat src/out\nexit "$(cat src/code)"\n', "README": "x\n"}
        files.update(extra or {})
        files.update({"src/" + k: v for k, v in base.items()})
        for path, text in files.items():
            self.write(os.path.join(self.dir, path), text)
        self.git("add", "-A")
        self.git("commit", "-qm", "base")
        self.worker(steps)
        self.toml(terms or {})

    @staticmethod
    def write(path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text)

    def git(self, *args, **more):
        return self.world.sh(["git"] + list(args), cwd=self.dir, **more)

    def worker(self, steps):
        """A step is a map of files, or a shell text."""
        lines = ["mkdir -p src", 'case "$GIT_LOOP_ITERATION" in']
        for number, step in enumerate(steps, 1):
            lines.append("%s)" % (number if number < len(steps) else "*"))
            if isinstance(step, str):
                lines.append(step)
            else:
                for path, text in step.items():
                    data = base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()
                    lines.append("echo %s | base64 -d > src/%s" % (data, path))
            lines.append(";;")
        # A line for the shell, so that the contract names no path of this machine.
        self.script = "\n".join(lines + ["esac"]) + "\n"

    def toml(self, terms):
        head = {"objective": "make it pass", "class": "mechanical_transformation"}
        tables = {"paths": {"mutable": ["src/**"], "check": ["tests/**"]},
                  "worker": {"command": self.script},
                  "check": {"command": ["sh", "tests/run.sh"], "format": "lines"},
                  "metric": {"name": "failing", "direction": "minimize", "target": 0, "from": "failures"},
                  "limits": {"iterations": 6, "duration": "5m"},
                  "sandbox": {"allowed": ["landlock", "none"], "presets": []}}
        for key, value in terms.items():
            table, _, member = key.partition(".")
            if member:
                tables.setdefault(table, {})[member] = value
            else:
                head[table] = value
        text = "".join("%s = %s\n" % (k, json.dumps(v)) for k, v in head.items())
        for table, members in tables.items():
            text += "[%s]\n" % table + "".join("%s = %s\n" % (k, json.dumps(v)) for k, v in members.items())
        self.write(os.path.join(self.world.work, "loop-%s.toml" % self.name), text)

    def loop(self, *args, check=False, **more):
        done = self.world.sh(["git-loop"] + list(args), cwd=self.dir, check=check, **more)
        self.said = done.stderr.decode("utf-8", "replace")
        return done

    def run(self, *args):
        new = [] if self.tip() else ["-f", os.path.join(self.world.work, "loop-%s.toml" % self.name)]
        done = self.loop("run", self.name, *(new + list(args)))
        self.code = done.returncode
        if done.returncode in (30, 50, 129):
            print("  ! %s: run exits with %d: %s" % (self.name, done.returncode, self.said.strip()[-300:]))
        return self

    def tip(self):
        done = self.git("rev-parse", "-q", "--verify", "refs/loops/%s/ledger" % self.name, check=False)
        return done.stdout.decode().strip()


class Verdicts:
    """Both verdicts of a repository: the exit codes, and of a ledger that does not hold the record at fault."""

    def __init__(self, world):
        self.world, self.count, self.differences, self.refused, self.unchecked = world, 0, [], 0, set()
        self.second = subprocess.Popen([sys.executable, os.path.join(HERE, "verify.py"), "--serve"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, env=world.env)

    def ours(self, folder, name):
        self.second.stdin.write(json.dumps({"args": ["-C", folder, name], "env": self.world.env}).encode() + b"\n")
        self.second.stdin.flush()
        return json.loads(self.second.stdout.readline())

    @staticmethod
    def at(loops, name):
        """Which record of which loop is at fault."""
        for one in loops:
            if one.get("loop") == name and not one["ok"]:
                found = re.match(r"record (\d+)", one["error"])
                of = re.search(r" of loop `([^`]*)`", one["error"])
                return one.get("of") or (of.group(1) if of else name), int(found.group(1)) if found else None
        return None

    def both(self, folder, name, what, quiet=True):
        ours = self.ours(folder, name)
        done = self.world.sh(["git-loop", "-C", folder, "verify", "--json", name], check=False)
        theirs = json.loads(done.stdout or b"{}")
        codes = ours["code"], done.returncode
        self.count += 1
        self.refused += codes[1] == 20
        self.unchecked.update(ours["not_checked"])
        told = [self.at(loops, name) for loops in (ours["loops"], theirs.get("loops", []))]
        # A chain that cannot be walked to its beginning has no numbers.
        nowhere = told[1] is not None and told[1][1] is None
        # A pattern that it says it did not check it may take for good.
        if codes[0] == 0 and any("metric's pattern" in note for note in ours["not_checked"]):
            return codes
        if codes[0] != codes[1] or (told[0] != told[1] and not nowhere):
            self.differences.append(what)
            said = [one.get("error") for one in theirs.get("loops", []) if not one["ok"]] or [done.stderr.decode("utf-8", "replace")]
            print("DIFFERENT %s: verify.py %d, git-loop %d\n    py: %s\n    gl: %s" % (
                (what,) + codes + (str([one.get("error") for one in ours["loops"]])[:600], str(said[0])[:600])), flush=True)
        elif not quiet:
            print("same %s: %d" % (what, codes[0]))
        return codes


# --- all of it ----------------------------------------------------------------------------------------

def each_check(scenario):
    """Derive the check of every iteration by itself, so that one difference hides no other."""
    import checks
    import reports
    import rules
    import verify
    from objects import Repo
    repo = Repo(scenario.dir)
    terms = base = None
    for oid in scenario.git("rev-list", "--first-parent", "--reverse", scenario.tip()).stdout.decode().split():
        record = verify.Record(repo, oid)
        terms = terms or verify.read_terms(record)
        check = record.body.get("check") or record.body.get("receipt", {}).get("check")
        if not check:
            continue
        try:
            found = checks.Check(terms, record.evidence_files(), base, base).derive(check)
            checks.compare_check(check, found, lambda data: repo.id_of("blob", data))
        except (verify.Bad, reports.Unchecked) as error:
            name = (record.evidence_files().get("report") or b"").decode("utf-8", "replace")
            print("  check of record %d: %s\n      told: %s\n      report: %r" % (record.seq, str(error)[:300], check["problem"], name[-400:]))
        if record.kind == "baseline":
            base = rules.read_tests(record.evidence_files()["tests.json"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work")
    parser.add_argument("--only", default="")
    parser.add_argument("--names")
    parser.add_argument("--no-mutations", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--mutate", default="lines,cost,finding,promoted,external,repeat,sha256,renewed,started,recorded2,pattern,shared")
    options = parser.parse_args()
    work = options.work or tempfile.mkdtemp(prefix="git-loop-compare-")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    world = World(work)
    verdicts = Verdicts(world)
    import scenarios
    made = 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    try:
        for scenario in scenarios.all_of(world, options.only, options.names and options.names.split(",")):
            made += 1
            first = verdicts.both(scenario.dir, scenario.name, scenario.name)
            if first[0] != first[1] and scenario.name.startswith(("fmt-", "odd-")):
                each_check(scenario)
            print("%-22s exit %3s  verify %s" % (scenario.name, getattr(scenario, "code", "-"), first), flush=True)
            if not options.no_mutations and scenario.name in options.mutate.split(","):
                mutate(verdicts, scenario, options.every)
    finally:
        summary(verdicts, made, work)
    return 1 if verdicts.differences else 0


def summary(verdicts, made, work):
    """What was compared, also of a run that was cut short."""
    print("%d ledgers, %d comparisons (%d refused by git-loop), %d differences; %s" % (
        made, verdicts.count, verdicts.refused, len(verdicts.differences), work))
    for line in sorted(verdicts.unchecked):
        print("  " + line)


if __name__ == "__main__":
    sys.exit(main())
