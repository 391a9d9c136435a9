# SPDX-License-Identifier: Apache-2.0
"""The format libtest (report-formats.md: libtest)."""
import re

from canonical import Bad, WHITE
from found import FAILED, PASSED, SKIPPED, Tests, number, plain_lines


def _binary(path):
    """The name of a binary, and whether it had cargo's hash."""
    file = re.split(r"[/\\]", path)[-1]
    file = file[:-4] if file.endswith(".exe") else file
    match = re.fullmatch(r"(.+)-([0-9a-fA-F]{16})", file, re.S)
    return (match.group(1), True) if match else (file, False)


def _target(text):
    """(name, source) of what cargo runs, or None."""
    if text.startswith("`"):
        words = [word for word in text[1:].rstrip("`").split(" ") if "=" not in word]
        name, hashed = _binary(words[0]) if words else ("", False)
        return (name, None) if hashed else None
    if text.endswith(")") and "(" in text:
        source, _, path = text[:-1].rpartition("(")
        source = source.rstrip(WHITE)
        if source.startswith("unittests"):
            source = source[len("unittests"):].lstrip(WHITE)
        return _binary(path)[0], source or None
    name, hashed = _binary(text)
    return (name, None) if hashed else None


def _summary(text):
    """(is ok, passed, failed, ignored, measured) of a result line, or None."""
    word, _, counts = text.partition(". ")
    held, seen = {"passed": 0, "failed": 0, "ignored": 0, "measured": 0}, 0
    if word not in ("ok", "FAILED"):
        return None
    for part in counts.split("; "):
        count, space, what = part.partition(" ")
        if space and what in held:
            if number(count) is None:
                return None
            held[what], seen = number(count), seen + 1
    return (word == "ok",) + tuple(held.values()) if seen == 4 else None


def _error(rest):
    """What a line says that begins with `error`."""
    if not rest.startswith(": "):
        return "error" if rest.startswith("[") else None
    rest = rest[2:]
    if re.match(r"(test|doctest|bench) failed, to rerun pass ", rest):
        return "target failed"
    if rest.startswith("could not compile "):
        return "not built"
    match = re.fullmatch(r"([0-9]+) targets? failed:", rest)
    return "failed targets" if match and number(match.group(1)) is not None else "error"


def _recognise(line):
    """(what a line is, its value)."""
    if line.startswith("     Running "):
        target = _target(line[13:])
        return ("binary", target) if target else (None, None)
    if line.startswith("   Doc-tests "):
        return "doc tests", line[13:]
    match = re.fullmatch(r"running ([0-9]+) tests?", line)
    if line.startswith("running "):
        count = number(match.group(1)) if match else None
        return (None, None) if count is None else ("running", count)
    if line.startswith("test result: "):
        summary = _summary(line[13:])
        return ("summary", summary) if summary else (None, None)
    if line.startswith("test "):
        name, dots, rest = line[5:].partition(" ... ")
        if not dots and not line.endswith(" ..."):
            return None, None
        name = name if dots else line[5:-4]
        return "test", (name.rstrip(WHITE), rest)
    if line.startswith("error"):
        return _error(line[5:]), None
    return ("section", None) if line in ("failures:", "successes:") else (None, None)


def _outcome(rest):
    """(outcome, place in the counts) if the text says only that."""
    rest = rest.rstrip(WHITE)
    if rest.endswith(">") and " <" in rest:
        rest = rest[:rest.rindex(" <")]
    if rest == "ok":
        return PASSED, 0
    if rest in ("FAILED", "FAILED (time limit exceeded)"):
        return FAILED, 1
    if rest == "ignored" or rest.startswith("ignored, "):
        return SKIPPED, 2
    return (PASSED, 3) if rest.startswith("bench: ") else None


def _bare(name):
    """A test's name without what is added to it, and the line of a doc test."""
    plain = re.sub(r" - should panic\Z| - compile fail\Z| - compile\Z", "", name)
    match = re.fullmatch(r"(.*) \(line ([0-9]+)\)", plain, re.S)
    if match and number(match.group(2)) is not None:
        item = match.group(1)
        return (item[:-2] if item.endswith(" -") else item), number(match.group(2))
    return re.sub(r" - should panic\Z", "", name), None


class _Run:
    """From `running N tests` to its result line."""

    def __init__(self, announced):
        self.announced, self.counts, self.pending, self.tail = announced, [0, 0, 0, 0], None, False

    def complete(self):
        return self.pending is None and sum(self.counts) == self.announced


class _Libtest:
    def __init__(self):
        self.tests, self.labels, self.section, self.run = Tests(bounded=False), {}, None, None
        self.docs, self.runs, self.stopped, self.listed, self.error = {}, 0, False, False, False

    def line(self, text):
        what, value = _recognise(text)
        if self.run is not None:
            self.inside(self.run, text, what, value)
        else:
            self.between(what, value)

    def inside(self, run, text, what, value):
        if what == "summary":
            if run.complete() and value == (run.counts[1] == 0,) + tuple(run.counts):
                self.run = None
        elif run.tail and run.counts[1]:
            return
        elif what in ("binary", "doc tests", "running", "target failed", "failed targets"):
            raise Bad("incomplete: a binary ends without a result that fits")
        elif run.tail:
            return
        elif what == "section":
            run.tail = run.complete()
        elif what == "test" and run.pending is None:
            found = _outcome(value[1])
            if found:
                self.result(run, value[0], found)
            else:
                run.pending = value[0]
        elif run.pending is not None and _outcome(text):
            name, run.pending = run.pending, None
            self.result(run, name, _outcome(text))

    def between(self, what, value):
        if what == "binary":
            self.open(self.label(*value))
        elif what == "doc tests":
            self.open(value)
        elif what == "running":
            self.runs += 1
            if self.section:
                self.section["runs"] += 1
            self.run = _Run(value)
        elif what == "summary":
            raise Bad("contradiction: a result of tests that were not announced")
        elif what == "target failed":
            self.close()
            section, self.section, self.stopped = self.section, None, True
            if section and not section["failed"]:
                raise Bad("contradiction: a binary failed that reported no failure")
        elif what == "failed targets":
            self.listed = True
        elif what == "not built":
            raise Bad("incomplete: could not compile")
        elif what == "error":
            self.error = True

    def open(self, label):
        self.close()
        self.section = {"label": label, "runs": 0, "failed": 0}

    def close(self):
        if self.section and not self.section["runs"]:
            raise Bad("incomplete: a binary announced no tests")

    def label(self, name, source):
        taken = self.labels[name] = self.labels.get(name, 0) + 1
        if taken == 1:
            return name
        longer = name
        if source:
            longer = "%s (%s)" % (name, source.replace("\\", "/"))
            taken = self.labels[longer] = self.labels.get(longer, 0) + 1
        return longer if taken == 1 else "%s #%d" % (longer, taken)

    def result(self, run, name, found):
        outcome, place = found
        run.counts[place] += 1
        name, line = _bare(name)
        if not name or "\ufffd" in name:
            raise Bad("malformed: the name of a test")
        if self.section:
            self.section["failed"] += outcome == FAILED
            name = "%s::%s" % (self.section["label"], name)
        if line is None:
            self.tests.add(name, outcome)
        else:
            self.docs.setdefault(name, []).append((line, outcome))

    def finish(self):
        if self.run is not None:
            raise Bad("incomplete: the output ends inside a binary")
        self.close()
        if not self.runs and self.error:
            raise Bad("incomplete: an error before any test")
        for name, found in self.docs.items():
            lines = sorted({line for line, _ in found})
            for line, outcome in found:
                place = lines.index(line) + 1
                self.tests.add(name if place == 1 else "%s #%d" % (name, place), outcome)
        if self.stopped and not self.tests.of(FAILED):
            raise Bad("contradiction: a binary failed, and no test did")
        self.tests.partial = self.stopped and not self.listed
        return self.tests


def parse(data):
    state = _Libtest()
    for line in plain_lines(data):
        state.line(line)
    return state.finish()
