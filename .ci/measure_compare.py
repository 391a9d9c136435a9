"""The table of .ci/measure-compare: run by it, in the folder that has the files."""

import glob
import json
import os
import subprocess
import sys
import tempfile

import lizard
from radon.visitors import ComplexityVisitor

GO = "debian/usr/share/gocode/src/github.com/"
PAIRS = [
    ("strsim-0.10.0/src/lib.rs", "strsim-0.11.1/src/lib.rs"),
    ("rust-semver-1.0.0/src/parse.rs", "rust-semver-1.0.23/src/parse.rs"),
    ("rust-semver-1.0.0/src/eval.rs", "rust-semver-1.0.23/src/eval.rs"),
    ("base64-0.13.1/src/encode.rs", "base64-0.22.1/src/encode.rs"),
    ("httparse-1.3.6/src/lib.rs", "httparse-1.9.5/src/lib.rs"),
    ("requests-2.31.0/requests/utils.py", "requests-2.32.3/requests/utils.py"),
    ("requests-2.31.0/requests/models.py", "requests-2.32.3/requests/models.py"),
    ("click-8.0.0/click/parser.py", "click-8.1.7/click/parser.py"),
    ("click-8.0.0/click/core.py", "click-8.1.7/click/core.py"),
    ("itsdangerous-2.0.0/itsdangerous/signer.py", "itsdangerous-2.2.0/itsdangerous/signer.py"),
    ("semver-7.0.0/classes/range.js", "semver-7.6.0/classes/range.js"),
    ("express-4.17.1/lib/response.js", "express-4.19.2/lib/response.js"),
    ("commander-9.5.0/lib/command.js", "commander-12.0.0/lib/command.js"),
    ("rxjs-7.0.0/src/internal/Observable.ts", "rxjs-7.8.1/src/internal/Observable.ts"),
    ("rxjs-7.0.0/src/internal/Subscription.ts", "rxjs-7.8.1/src/internal/Subscription.ts"),
    (GO + "google/uuid/version1.go", GO + "google/uuid/version4.go"),
    (GO + "google/uuid/uuid.go", GO + "google/uuid/null.go"),
    (GO + "spf13/pflag/golangflag.go", GO + "spf13/pflag/flag.go"),
    (GO + "spf13/pflag/ip_slice.go", GO + "spf13/pflag/bool_slice.go"),
    (GO + "pkg/errors/errors.go", GO + "pkg/errors/stack.go"),
]


def git(place, *args, data=None):
    done = subprocess.run(["git", *args], cwd=place, input=data, capture_output=True, check=True)
    return done.stdout.decode().strip()


def tree(place, path):
    """The tree of this one file, under a name that is the same on both sides."""
    with open(path, "rb") as file:
        blob = git(place, "hash-object", "-w", "--stdin", data=file.read())
    name = "file" + os.path.splitext(path)[1]
    return git(place, "mktree", data=f"100644 blob {blob}\t{name}\n".encode())


def measure(place, old, new):
    command = [os.environ["GIT_LOOP"], "measure", old, new, "--json"]
    return json.loads(subprocess.run(command, cwd=place, capture_output=True, check=True).stdout)


def ours(place, empty, side):
    """Decisions and functions of one file."""
    measured = measure(place, empty, side)
    broken = [one for one in measured["not_measured"] if one["why"] == "parse_errors"]
    functions = [one for one in measured["functions"] if one["name"] != "(file)"]
    # A function whose number is 1 changes from nothing to 1, so all are there.
    count = len(functions)
    outside = sum(one["new"] for one in measured["functions"] if one["name"] == "(file)")
    return measured["cyclomatic_complexity"] - count - outside, count, outside, bool(broken)


def by_lizard(path):
    functions = lizard.analyze_file(path).function_list
    return sum(one.cyclomatic_complexity - 1 for one in functions), len(functions)


def by_radon(path):
    """Decisions of functions and methods and of those in them, without asserts."""
    with open(path, encoding="utf-8") as file:
        visitor = ComplexityVisitor.from_code(file.read(), no_assert=True)

    def of(function):
        # What radon gives a function does not have that of the functions in it.
        return function.complexity - 1 + sum(of(closure) for closure in function.closures)

    def walk(blocks):
        for block in blocks:
            if hasattr(block, "methods"):
                yield from walk(block.methods)
                yield from walk(block.inner_classes)
            else:
                yield of(block)

    return sum(walk(visitor.functions + visitor.classes))


def main():
    place = tempfile.mkdtemp()
    git(place, "init", "--quiet")
    empty = git(place, "mktree", data=b"")
    print("| file | ours | lizard | radon | delta: ours | delta: lizard |")
    print("| --- | --- | --- | --- | --- | --- |")
    for old, new in PAIRS:
        sides = [tree(place, old), tree(place, new)]
        mine = [ours(place, empty, side) for side in sides]
        theirs = [by_lizard(path) for path in (old, new)]
        radon = [by_radon(path) for path in (old, new)] if new.endswith(".py") else None
        delta = measure(place, *sides)["cyclomatic_complexity"]
        name = f"`{old.removeprefix(GO)}` → `{new.removeprefix(GO)}`"
        told = " → ".join(f"{one[0]} in {one[1]}" + (" (in part)" if one[3] else "") for one in mine)
        lizards = " → ".join(f"{one[0]} in {one[1]}" for one in theirs)
        radons = " → ".join(str(one) for one in radon) if radon else ""
        change = theirs[1][0] + theirs[1][1] - theirs[0][0] - theirs[0][1]
        print(f"| {name} | {told} | {lizards} | {radons} | {delta:+} | {change:+} |")


if __name__ == "__main__":
    sys.exit(main())
