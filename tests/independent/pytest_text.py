# SPDX-License-Identifier: Apache-2.0
"""The format pytest (report-formats.md: pytest)."""
import re

from canonical import Bad, WHITE
from found import FAILED, PASSED, SKIPPED, Ordinals, Tests, number, plain_lines

WORDS = ("passed", "failed", "error", "errors", "skipped", "xfailed", "xpassed", "deselected", "warning", "warnings",
         "rerun", "subtests passed")
COUNTED = ("passed", "failed", "errors", "skipped", "xfailed", "xpassed")
RESULTS = {"PASSED": ("passed", PASSED), "XPASS": ("xpassed", PASSED), "FAILED": ("failed", FAILED),
           "XFAIL": ("xfailed", SKIPPED), "SKIPPED": ("skipped", SKIPPED), "ERROR": ("errors", FAILED)}


def _between(text, sign):
    match = re.fullmatch("%s+ (.*) %s+" % (sign, sign), text, re.S)
    return match.group(1) if match else None


def _counts(text):
    """[(count, word)] of a last line, or None."""
    counts, found, clock = text.rpartition(" in ")
    seconds, paren, clock = clock.partition(" (")
    if not found or (paren and not (clock.endswith(")") and ":" in clock[:-1])):
        return None
    match = re.fullmatch(r"([0-9]+)\.([0-9]+)s", seconds)
    if not match or number(match.group(1)) is None or number(match.group(2)) is None:
        return None
    if counts == "no tests ran":
        return []
    out = []
    for part in counts.split(", "):
        digits, _, word = part.partition(" ")
        if word not in WORDS or number(digits) is None:
            return None
        out.append((number(digits), word))
    return out


def _recognise(line):
    """(what a line is, its value)."""
    shout = _between(line, "!")
    if shout is not None:
        text = shout[len("xdist.dsession.Interrupted: "):] if shout.startswith("xdist.dsession.Interrupted: ") else shout
        match = re.fullmatch(r"stopping after ([0-9]+) failures", text)
        return ("stop" if match and number(match.group(1)) is not None else "interruption"), None
    title = _between(line, "=")
    if title == "short test summary info":
        return "header", None
    counts = _counts(line if title is None else title)
    if counts is not None:
        return "last", counts
    return (None if title is None else "title"), None


def _node_id(text):
    """Where an ID ends (report-formats.md: pytest, ID)."""
    text = text.rstrip(WHITE)
    colons, dash = text.find("::"), text.find(" - ")
    in_path = colons >= 0 and 0 <= dash < colons and text.find(".py") == colons - 3
    if colons < 0 or (0 <= dash < colons and not in_path):
        return text[:dash] if dash >= 0 else text
    rest = text[colons:]
    bracket, dash = rest.find("["), rest.find(" - ")
    if bracket >= 0 and (dash < 0 or bracket < dash):
        end = rest.find("] - ", bracket)
        return text[:colons + end + 1] if end >= 0 else text
    return text[:colons + dash] if dash >= 0 else text


def _stable(text):
    return re.sub(r" at 0x[0-9a-fA-F]*", " at 0x", text)


def _folded(text):
    """(count, path) of `[N] PLACE: REASON`, or None."""
    match = re.match(r"\[([^\]]*)\] ", text)
    count = number(match.group(1)) if match else None
    if count is None:
        return None
    place = text[match.end():].partition(": ")[0].rstrip(":")
    path, colon, line = place.rpartition(":")
    return count, path if colon and number(line) is not None else place


def _behind_message(text):
    if text.startswith("["):
        text = text[1:]
        text = text.partition("]")[2] if "]" in text else text
    text = text.lstrip(WHITE)
    if text.startswith("("):
        text = text[1:]
        text = text.partition(") ")[2] if ") " in text else text
    return text.lstrip(WHITE)


class _Pytest:
    def __init__(self):
        self.header, self.last, self.in_summary, self.stopped = False, None, False, False
        self.held, self.said, self.skipped, self.unloaded = {}, [], [], False

    def line(self, text):
        line = text.rstrip(WHITE)
        what, value = _recognise(line)
        if what == "header":
            if self.header or self.last is not None:
                raise Bad("contradiction: a header too much")
            self.header = self.in_summary = True
        elif what == "last":
            if self.last is not None:
                raise Bad("contradiction: a second last line")
            self.last, self.in_summary = self.counts(value), False
        elif what == "interruption" and (self.header or self.last is not None):
            raise Bad("incomplete: an interruption")
        elif self.last is not None and line:
            raise Bad("incomplete: a line behind the last line")
        elif what == "stop" and self.header:
            self.stopped, self.in_summary = True, False
        elif what == "title":
            self.in_summary = False
        elif self.in_summary:
            self.summary(text)

    @staticmethod
    def counts(found):
        out = {}
        for count, word in found:
            word = "errors" if word == "error" else word
            if word == "rerun" and count:
                raise Bad("incomplete: tests ran again")
            if word in COUNTED:
                if word in out:
                    raise Bad("contradiction: a word that is counted twice")
                out[word] = count
        return out

    def hold(self, word, count=1):
        self.held[word] = self.held.get(word, 0) + count

    def summary(self, text):
        word = re.match(r"[A-Z]*", text).group()
        rest = text[len(word):]
        if word in ("SUBFAILED", "SUBFAIL"):
            self.hold("failed")
            self.say(_node_id(_behind_message(rest)), "subtest", FAILED)
        elif word == "SUBSKIPPED":
            fold = _folded(_behind_message(rest))
            self.hold("skipped", fold[0] if fold else 1)
        elif word == "SUBXFAIL":
            self.hold("xfailed")
        elif word in RESULTS and rest.startswith(" "):
            self.result(word, rest[1:])

    def result(self, word, rest):
        counted, outcome = RESULTS[word]
        fold = _folded(rest) if word == "SKIPPED" else None
        if fold:
            self.hold(counted, fold[0])
            self.skipped.append((fold[0], _stable(self.name(fold[1]))))
            return
        self.hold(counted)
        name = self.name(_node_id(rest))
        if word == "ERROR" and "::" not in name:
            self.unloaded = True
        else:
            self.say(name, "error" if word == "ERROR" else "result", outcome)

    def say(self, name, what, outcome):
        self.said.append((self.name(name), what, outcome))

    @staticmethod
    def name(text):
        if not text or "\ufffd" in text:
            raise Bad("malformed: an id is empty or not UTF-8")
        return text

    def finish(self):
        if self.last is None:
            raise Bad("incomplete: no last line")
        if any(self.last.get(word, 0) != self.held.get(word, 0) for word in COUNTED):
            raise Bad("incomplete or contradiction: the summary names other tests than the last line counts")
        if self.unloaded:
            raise Bad("incomplete: a file could not be loaded")
        tests, names = Tests(), Ordinals()
        for count, path in self.skipped:
            for _ in range(count):
                tests.add(names.distinct(path + " (skipped)"), SKIPPED)
        self.named(tests)
        if self.stopped and not tests.of(FAILED):
            raise Bad("contradiction: stopped without a failure")
        tests.partial = self.stopped
        return tests

    def named(self, tests):
        """The tests that the summary names, each line in its order."""
        of, names, counted = {}, Ordinals(), set()
        for name, what, _ in self.said:
            of.setdefault(name, []).append(what)
        for name, what, outcome in self.said:
            results, errors, sub = (of[name].count(one) for one in ("result", "error", "subtest"))
            if what == "result":
                outcome = FAILED if sub or (results == 1 and errors) else outcome
            elif what == "subtest":
                if not results and not errors:
                    raise Bad("incomplete: a subtest of no test")
                continue
            elif not (results > 1 or (results == 0 and name not in counted)):
                continue
            counted.add(name)
            tests.add(names.distinct(_stable(name)), outcome)


def parse(data):
    state = _Pytest()
    for line in plain_lines(data):
        state.line(line)
    return state.finish()
