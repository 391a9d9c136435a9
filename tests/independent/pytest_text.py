# SPDX-License-Identifier: Apache-2.0
"""The text of `pytest -rA` (report-formats.md: pytest)."""
import re

from canonical import Bad
from common import ALL_IDS, FAILED, PASSED, SKIPPED, Tests, number, numbered, text_lines
from paths import WHITE

_COUNTED = ("passed", "failed", "error", "errors", "skipped", "xfailed", "xpassed", "deselected", "warning", "warnings",
            "rerun", "subtests passed")
_SIX = ("passed", "failed", "errors", "skipped", "xfailed", "xpassed")
_TIME = re.compile(r"([0-9]+)\.([0-9]+)s(?: \(.*:.*\))?", re.S)
_STOP = re.compile(r"(?:xdist\.dsession\.Interrupted: )?stopping after ([0-9]+) failures")
# What a line of the summary is counted as, and its outcome.
_RESULTS = {"PASSED": ("passed", PASSED), "XPASS": ("xpassed", PASSED), "FAILED": ("failed", FAILED),
            "XFAIL": ("xfailed", SKIPPED), "SKIPPED": ("skipped", SKIPPED)}
_SUBTESTS = {"SUBFAILED": "failed", "SUBFAIL": "failed", "SUBSKIPPED": "skipped", "SUBXFAIL": "xfailed"}


def _last_counts(text):
    """The counts of a last line, or None."""
    front, _, time = text.rpartition(" in ")
    match = _TIME.fullmatch(time)
    if not match or number(match.group(1)) is None or number(match.group(2)) is None:
        return None
    counts, twice = {}, None
    for part in front.split(", ") if front != "no tests ran" else []:
        digits, _, word = part.partition(" ")
        if word not in _COUNTED or number(digits) is None:
            return None
        word = "errors" if word == "error" else word
        twice = word if word in counts and word in _SIX else twice
        counts[word] = counts.get(word, 0) + int(digits)
    if twice:
        raise Bad("contradiction: %s is counted twice" % twice)
    return counts


def _id(text):
    """Where an ID ends."""
    text = text.rstrip(WHITE)
    colons, dash = text.find("::"), text.find(" - ")
    in_path = 0 <= dash < colons and text[:colons].endswith(".py") and text[:colons].count(".py") == 1
    if colons < 0 or (0 <= dash < colons and not in_path):
        return text[:dash] if dash >= 0 else text
    rest = text[colons:]
    bracket, dash = rest.find("["), rest.find(" - ")
    if bracket >= 0 and (dash < 0 or bracket < dash):
        end = rest.find("] - ", bracket)
        return text[:colons + end + 1] if end >= 0 else text
    return text[:colons + dash] if dash >= 0 else text


def _checked(text):
    if not text or "\ufffd" in text:
        raise Bad("malformed: an id is empty or not UTF-8")
    return text


def _without_addresses(text):
    return re.sub(r" at 0x[0-9a-fA-F]+", " at 0x", text)


class _Summary:
    """The lines behind the header."""

    def __init__(self):
        self.counts, self.named, self.skipped = {}, [], []
        self.bytes = 0

    def count(self, word, times=1):
        self.counts[word] = self.counts.get(word, 0) + times

    def line(self, line):
        word = re.match(r"[A-Z]*", line).group()
        rest = line[len(word):]
        if word in _SUBTESTS:
            self.subtest(word, rest)
        elif not rest.startswith(" "):
            return
        elif word == "SKIPPED" and self.folded(rest[1:]) is not None:
            times, place = self.folded(rest[1:])
            self.count("skipped", times)
            self.skip(times, place)
        elif word in _RESULTS:
            self.count(_RESULTS[word][0])
            self.named.append(("result", _checked(_id(rest[1:])), _RESULTS[word][1]))
        elif word == "ERROR":
            name = _checked(_id(rest[1:]))
            if "::" not in name:
                raise Bad("incomplete: a file could not be loaded")
            self.count("errors")
            self.named.append(("error", name, FAILED))

    @staticmethod
    def folded(rest):
        """(N, PLACE: REASON) of `[N] PLACE: REASON`, else None."""
        match = re.match(r"\[([0-9]+)\] (.*)", rest, re.S)
        times = number(match.group(1)) if match else None
        return None if times is None else (times, match.group(2))

    def skip(self, times, place):
        path = place.split(": ")[0]
        front, colon, line = path.rstrip(":").rpartition(":")
        path = front if colon and number(line) is not None else path.rstrip(":")
        path = _checked(_without_addresses(path))
        self.bytes += times * len(path)
        if self.bytes > ALL_IDS:
            raise Bad("contradiction: the ids take too much room")
        self.skipped += [path] * times

    def subtest(self, word, rest):
        if rest.startswith("[") and "]" in rest:
            rest = rest[rest.index("]") + 1:]
        rest = rest.lstrip(WHITE)
        if rest.startswith("(") and ") " in rest:
            rest = rest[rest.index(") ") + 2:]
        rest = rest.lstrip(WHITE)
        folded = self.folded(rest) if word == "SUBSKIPPED" else None
        self.count(_SUBTESTS[word], folded[0] if folded else 1)
        if _SUBTESTS[word] == "failed":
            self.named.append(("subtest", _checked(_id(rest)), FAILED))

    def tests(self):
        """Which lines are tests, and what is said of them elsewhere."""
        results, errors, hurt = {}, {}, set()
        for kind, name, _ in self.named:
            if kind == "subtest":
                hurt.add(name)
            else:
                found = results if kind == "result" else errors
                found[name] = found.get(name, 0) + 1
        if any(name not in results and name not in errors for name in hurt):
            raise Bad("incomplete: a subtest of no test")
        out, seen, alone = Tests(), {}, set()
        for kind, name, outcome in self.named:
            many = results.get(name, 0)
            if kind == "subtest" or (kind == "error" and (many == 1 or (many == 0 and name in alone))):
                continue
            if kind == "error":
                alone.add(name)
            failed = name in hurt or (many == 1 and name in errors)
            out.add(numbered(_without_addresses(name), seen), FAILED if failed else outcome)
        seen = {}
        for path in self.skipped:
            out.add(numbered(path + " (skipped)", seen), SKIPPED)
        return out


def parse(data):
    summary, header, last, inside, partial = _Summary(), False, None, False, False
    for whole in text_lines(data):
        line = whole.rstrip(WHITE)
        title, shout = re.fullmatch(r"=+ (.*) =+", line, re.S), re.fullmatch(r"!+ (.*) !+", line, re.S)
        counts = _last_counts(title.group(1) if title else line)
        if counts is not None:
            if last is not None:
                raise Bad("contradiction: a second last line")
            last, inside = counts, False
        elif title and title.group(1) == "short test summary info":
            if header or last is not None:
                raise Bad("contradiction: a second header")
            header = inside = True
        elif last is not None and line:
            raise Bad("incomplete: a line behind the last line")
        elif shout and header:
            stop = _STOP.fullmatch(shout.group(1))
            if not stop or number(stop.group(1)) is None:
                raise Bad("incomplete: an interruption")
            partial, inside = True, False
        elif title:
            inside = False
        elif inside:
            summary.line(whole)
    return _end(summary, last, partial)


def _end(summary, last, partial):
    if last is None:
        raise Bad("incomplete: no last line")
    if last.get("rerun", 0) > 0:
        raise Bad("incomplete: tests ran again")
    for word in _SIX:
        if last.get(word, 0) != summary.counts.get(word, 0):
            raise Bad("incomplete or contradiction: %s" % word)
    tests = summary.tests()
    tests.partial = partial
    if partial and not tests.of(FAILED):
        raise Bad("contradiction: stopped without a failure")
    return tests
