#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What this reader says of odd reports and patterns, for git-loop's own readers to be held against.

odd.py [--seed N] [--reports N] [--patterns N]
Prints a JSON object a line. Of a report: `format`, `report` (hex), and `tests` (tests.json) or null if it does not count. Of a pattern:
`pattern`, `output` (hex), and `number`, which is a number, null if there is none, "refused" or "unchecked". With a seed it adds as many
reports, cut up and put together at random, and random patterns.
"""
import argparse
import json
import os
import random
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import odd_files  # noqa: E402
import odd_patterns  # noqa: E402
import odd_reports  # noqa: E402
import regexes  # noqa: E402
import reports  # noqa: E402
import samples  # noqa: E402
from canonical import Bad  # noqa: E402

REPORTS = {"libtest": odd_reports.LIBTEST, "pytest": odd_reports.PYTEST, "tap": odd_reports.TAP, "go-json": odd_files.GO, "jest": odd_files.JEST,
           "junit": odd_files.JUNIT, "lines": odd_files.LINES}
BITS = ["\u00a0", "\x1c", "\x0b", "\x0c", "\x85", "\u2028", "\x00", "\udcff", "\u0301", "\r", "\t", " ", "  ", "'", '"', "<", ">", "&", "#", "\\", "- ", "::",
        "[", "]", "(", ")", "0", "1", "99999999999999999999", "-", "+", ".", ":", "=", "!", "{", "}", ",", "ok", "not ok", "FAILED", "\x1b[", "\x1b]",
        "\ufeff", "\ufffd", "... ", " - should panic", " (line 7)", "error: "]
ATOMS = ["a", "b", "\\d", "\\w", ".", "[^a]", "[ab\\d]", "\\W", "\\s", "\\b", "\\B", "^", "$", "x", "\u00e9", "(?:a|b)", "(?:a|)", "(\\d)", "(\\d*)",
         "(?P<metric>\\d+)", "(?P<metric>[\\d.]*)", "(?i:K)", "\\S", "\\D", "\\pL", "[[:alpha:]&&[^b]]", "\\b{start}", "\\b{end-half}", "(?:\\d|a)"]
SIGNS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,1}", "{2,}?", "", "", "", ""]
LETTERS = ["a", "b", "1", "2", "4", "7", "0", "9", "3", "x", " ", "\u00e9", "\u00b2", "\u212a", "\udcff", "\u0301", ".", "\r", "42", "ab"]


def everything():
    """All odd reports and all samples, by format."""
    for name, found in REPORTS.items():
        own = samples.ALL[name][1] if name in samples.ALL else []
        yield name, found + [step.get("report") or step["out"] for step in own]


def spliced(rnd, pool):
    """A report of several, with lines and letters moved, doubled, dropped and put in."""
    text = rnd.choice(pool)
    for _ in range(rnd.choice([1, 1, 1, 2, 3])):
        way, all_lines = rnd.randrange(8), text.split("\n")
        line, other, at = rnd.randrange(len(all_lines)), rnd.randrange(len(all_lines)), rnd.randrange(len(text) + 1)
        if way == 0:
            all_lines.insert(line, all_lines[other])
        elif way == 1:
            del all_lines[line]
        elif way == 2:
            all_lines[line], all_lines[other] = all_lines[other], all_lines[line]
        elif way == 3:
            more = rnd.choice(pool).split("\n")
            all_lines[line:line] = more[rnd.randrange(len(more)):][:rnd.randrange(1, 4)]
        end = min(len(text), at + rnd.randrange(1, 12))
        text = "\n".join(all_lines) if way < 4 else text[:at] + {4: rnd.choice(BITS) + text[at:], 5: text[at + 1:], 6: rnd.choice(BITS) + text[at + 1:],
                                                                 7: text[at:end] + text[at:]}[way]
    return text


def some_pattern(rnd):
    """(pattern, output): a few atoms, and a few letters."""
    def part(depth):
        out = "".join(rnd.choice(ATOMS) + rnd.choice(SIGNS) for _ in range(rnd.randrange(1, 4)))
        if depth and rnd.randrange(3) == 0:
            out += "(?:%s|%s)%s" % (part(depth - 1), part(depth - 1), rnd.choice(SIGNS))
        return out
    front, named, behind = part(2).partition("(?P<metric>")
    pattern = front + (named or "(?P<metric>" + part(0).replace("(?P<metric>", "(") + ")") + behind.replace("(?P<metric>", "(")
    return rnd.choice(["", "", "(?i)", "(?U)"]) + pattern, "".join(rnd.choice(LETTERS) for _ in range(rnd.randrange(12)))


def of_report(name, text):
    """One line of a report."""
    data = text.encode("utf-8", "surrogateescape")
    try:
        tests = reports.parse(name, data)
    except Bad:
        tests = None
    return {"format": name, "report": data.hex(), "tests": tests}


def of_pattern(pattern, output):
    """One line of a pattern."""
    data = output.encode("utf-8", "surrogateescape")
    try:
        regexes.compiled(pattern)
        try:
            number = float(reports.metric_regex(pattern, data))
        except Bad:
            number = None
    except regexes.Unchecked:
        number = "unchecked"
    except Bad:
        number = "refused"
    return {"pattern": pattern, "output": data.hex(), "number": number}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reports", type=int, default=0)
    parser.add_argument("--patterns", type=int, default=0)
    options = parser.parse_args()
    rnd = random.Random(options.seed)
    for name, found in everything():
        for text in found + [spliced(rnd, found) for _ in range(options.reports)]:
            print(json.dumps(of_report(name, text)))
    runs = odd_patterns.RUNS + [(pattern, "1") for pattern in odd_patterns.PATTERNS]
    for pattern, output in runs + [some_pattern(rnd) for _ in range(options.patterns)]:
        print(json.dumps(of_pattern(pattern, output)))


if __name__ == "__main__":
    main()
