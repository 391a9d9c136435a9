#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the golden ledgers: sets of loops that have to verify for ever, under fixtures/ledgers.

golden.py [--out DIR] [--work DIR] [GROUP...]
git-loop must be on PATH. A set that is there is never made again: what was promised stays as it is. A set is a bundle of its ledgers, the
trust file that they are judged by, and what `git loop verify --all --json` and the states at the tips must say of them.
The clock is put back by `golden.py` itself, with faketime's library if it is there: whose clock is slow has to verify them, too.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import scenarios  # noqa: E402
from compare import Verdicts, World  # noqa: E402

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
KINDS = {"ecdsa256": ("ecdsa", "-b", "256"), "ecdsa384": ("ecdsa", "-b", "384"), "ecdsa521": ("ecdsa", "-b", "521"),
         "rsa": ("rsa", "-b", "3072")}
GROUPS = {
    "converged": ("met", "promoted", "rejected", "lasting0"),
    "limits": ("iterations", "unread", "nochange", "same", "regress", "oscillate", "contradict", "deadline"),
    "costs": ("costover", "costunknown", "tokens", "anomaly"),
    "guards": ("drift", "driftsoft", "blocked", "lostsoft"),
    "ends": ("workerreject", "timeouts"),
    "metrics": ("regex", "json"),
    "reports": ("texts", "jest"),
    "repeat": ("repeat", "flaky"),
    "renewal": ("renewed",),
    "people": ("finding", "stopped", "started"),
    "outside-check": ("external", "recorded"),
    "interrupted": ("abandoned",),
    "keys": (),
    "sha256": ("sha256",),
    "shared": ("shared",),
    "same-ids": ("twins", "merged"),
}


def made(world, group):
    """The scenarios of a group."""
    names = GROUPS[group]
    yield from scenarios.all_of(world, names=names or ("none",))
    if group == "keys":
        yield from scenarios.keys(world, KINDS)


def collect(world, group, found):
    """One repository with all ledgers of a group."""
    folder = os.path.join(world.work, "all")
    kind = "sha256" if group == "sha256" else "sha1"
    world.sh(["git", "init", "-q", "--bare", "--object-format=" + kind, folder])
    for one in found:
        world.sh(["git", "fetch", "-q", one.dir, "+refs/loops/*:refs/loops/*"], cwd=folder)
    return folder


def expected(world, folder):
    """What the first verifier says of them, and the states at their tips."""
    done = world.sh(["git-loop", "-C", folder, "verify", "--all", "--json"])
    loops = json.loads(done.stdout)["loops"]
    states = {}
    for one in loops:
        one.pop("warnings", None)
        state = json.loads(world.sh(["git", "cat-file", "blob", one["ledger_tip"] + ":.loop_state.json"], cwd=folder).stdout)
        keys = ("phase", "status", "halt_reason", "iteration", "last_green_commit", "best_metric", "cumulative_usd")
        states[one["loop"]] = {key: state[key] for key in keys}
    return {"object_format": world.sh(["git", "rev-parse", "--show-object-format"], cwd=folder).stdout.decode().strip(),
            "loops": loops, "states": states}


def no_paths(world, folder):
    """Nothing of this machine is in the ledgers."""
    objects = world.sh(["git", "cat-file", "--batch-all-objects", "--batch"], cwd=folder).stdout
    for word in (world.work, os.path.expanduser("~root/"), "/tmp/"):
        if word.encode() in objects:
            place = objects.index(word.encode())
            raise SystemExit("a ledger holds the path %s: %r" % (word, objects[max(0, place - 200):place + 80]))


def make(group, out, work):
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    world = World(work, KINDS if group == "keys" else None)
    found = {one.name: one for one in made(world, group)}
    verdicts = Verdicts(world)
    folder = collect(world, group, found.values())
    what = expected(world, folder)
    for one in what["loops"]:
        if verdicts.both(folder, one["loop"], one["loop"]) != (0, 0):
            raise SystemExit("the two verifiers do not both accept %s" % one["loop"])
    no_paths(world, folder)
    refs = ["refs/loops/%s/ledger" % one["loop"] for one in what["loops"]]
    world.sh(["git", "repack", "-adfq", "--depth=250", "--window=500"], cwd=folder)
    bundle = os.path.join(work, group + ".bundle")
    world.sh(["git", "bundle", "create", "-q", bundle] + refs, cwd=folder)
    shutil.copy(bundle, os.path.join(out, group + ".bundle"))
    shutil.copy(world.signers, os.path.join(out, group + ".signers"))
    with open(os.path.join(out, group + ".json"), "w") as file:
        file.write(json.dumps(what, indent=1) + "\n")
    print("%s: %d ledgers, %d bytes" % (group, len(refs), os.path.getsize(bundle)), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=os.path.join(HERE, "..", "..", "fixtures", "ledgers"))
    parser.add_argument("--work", default=tempfile.gettempdir() + "/git-loop-golden")
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    for group in options.groups or GROUPS:
        if os.path.exists(os.path.join(options.out, group + ".bundle")):
            print("%s: it is there, and stays as it is" % group)
            continue
        make(group, options.out, options.work)
    return 0


if __name__ == "__main__":
    if os.path.exists(FAKETIME) and "FAKETIME" not in os.environ:
        env = dict(os.environ, LD_PRELOAD=FAKETIME, FAKETIME="-240d", NO_FAKE_STAT="1", FAKETIME_DONT_FAKE_MONOTONIC="1")
        sys.exit(subprocess.run([sys.executable] + sys.argv, env=env).returncode)
    sys.exit(main())
