# SPDX-License-Identifier: Apache-2.0
"""The text of `cargo test` (report-formats.md: libtest, from "Exactly" on)."""
import re

from canonical import Bad
from common import FAILED, PASSED, SKIPPED, Tests, number, text_lines
from paths import WHITE

_HASH = re.compile(r"(.+)-[0-9a-fA-F]{16}", re.S)
_WORDS = ("passed", "failed", "ignored", "measured")
_FAILED = re.compile(r"error: (?:test|doctest|bench) failed, to rerun pass .*", re.S)


def _file(path):
    """(name without .exe and hash, whether there is a hash) of a path."""
    name = re.split(r"[/\\]", path)[-1]
    name = name[:-4] if name.endswith(".exe") else name
    match = _HASH.fullmatch(name)
    return (match.group(1), True) if match else (name, False)


def _binary(line):
    """(name, source or None, whether it is one of doc tests) of a line that names a binary, else None."""
    if line.startswith("   Doc-tests "):
        return line[13:], None, True
    if not line.startswith("     Running "):
        return None
    rest = line[13:]
    if rest.startswith("`"):
        words = [word for word in rest[1:].rstrip("`").split(" ") if "=" not in word]
        name, hashed = _file(words[0]) if words else ("", False)
        return (name, None, False) if hashed else None
    if rest.endswith(")") and "(" in rest:
        source, _, path = rest[:-1].rpartition("(")
        source = source.rstrip(WHITE)
        source = source[9:].lstrip(WHITE) if source.startswith("unittests") else source
        return _file(path)[0], source or None, False
    name, hashed = _file(rest)
    return (name, None, False) if hashed else None


def _outcome(text):
    """0 to 3 for passed, failed, ignored and measured; None if the text is no outcome."""
    text = text.rstrip(WHITE)
    text = text.rpartition(" <")[0] if text.endswith(">") and " <" in text else text
    if text == "ok":
        return 0
    if text in ("FAILED", "FAILED (time limit exceeded)"):
        return 1
    if text == "ignored" or text.startswith("ignored, "):
        return 2
    return 3 if text.startswith("bench: ") else None


def _counts(line):
    """(ok or FAILED, the four numbers) of a result line, else None."""
    match = re.fullmatch(r"test result: (ok|FAILED)\. (.*)", line, re.S)
    found = []
    for part in match.group(2).split("; ") if match else []:
        digits, _, word = part.partition(" ")
        if word in _WORDS:
            found.append((word, number(digits)))
    if len(found) != 4 or any(count is None for _, count in found):
        return None
    return match.group(1), [dict(found).get(word, 0) for word in _WORDS]


class _Libtest:
    def __init__(self):
        self.results, self.names = [], {}
        self.binary, self.source, self.quiet, self.failed_here = None, None, False, False
        self.announced, self.error, self.failed, self.listed = False, False, False, False
        self.run = None

    # --- lines

    def line(self, line):
        if self.run is not None:
            self.inside(line)
        else:
            self.between(line)

    @staticmethod
    def _announces(line):
        match = re.fullmatch(r"running ([0-9]+) tests?", line)
        return number(match.group(1)) if match else None

    def _ends_runs(self, line):
        """A binary, an announcement, the failure of a binary, or the list of those that failed."""
        return _binary(line) is not None or self._announces(line) is not None or bool(_FAILED.fullmatch(line)) or \
            _is_list(line)

    def between(self, line):
        named, announced = _binary(line), self._announces(line)
        if named is not None:
            self.heard()
            self.start(*named)
        elif announced is not None:
            self.run = {"left": announced, "counts": [0, 0, 0, 0], "open": None, "captured": False}
            self.announced, self.quiet = True, False
        elif _counts(line) is not None:
            raise Bad("contradiction: a result line outside of a run")
        elif _FAILED.fullmatch(line):
            self.heard()
            if self.binary is not None and not self.failed_here:
                raise Bad("contradiction: a binary failed that reported no failure")
            self.failed, self.binary, self.failed_here = True, None, False
        elif _is_list(line):
            self.listed = True
        elif line.startswith("error: could not compile "):
            raise Bad("incomplete: not built")
        elif line.startswith(("error: ", "error[")):
            self.error = True

    def heard(self):
        if self.quiet:
            raise Bad("incomplete: a binary announced no tests")

    def start(self, name, source, doc):
        self.quiet, self.failed_here = True, False
        if doc:
            # Doc tests are `crate::file - item`: they share no name with a binary.
            self.binary = name
            return
        count = self.names[name] = self.names.get(name, 0) + 1
        if count > 1 and source is not None:
            name = "%s (%s)" % (name, source.replace("\\", "/"))
            count = self.names[name] = self.names.get(name, 0) + 1
        self.binary = name if count == 1 else "%s #%d" % (name, count)

    def inside(self, line):
        run, result = self.run, _counts(line)
        if result is not None:
            # It is due, and says what the results were; any other is ignored.
            word, numbers = result
            if run["left"] == 0 and run["open"] is None and numbers == run["counts"] and \
                    (word == "ok") == (run["counts"][1] == 0):
                self.run = None
            return
        if run["captured"] and run["counts"][1]:
            return
        if self._ends_runs(line):
            raise Bad("incomplete: a run without its result line")
        if run["captured"]:
            return
        if run["open"] is not None:
            outcome = _outcome(line)
            if outcome is not None:
                name, run["open"] = run["open"], None
                self.result(name, outcome)
        elif run["left"] == 0 and line in ("failures:", "successes:"):
            run["captured"] = True
        elif line.startswith("test ") and not line.startswith("test result: "):
            self.test(line[5:])

    def test(self, text):
        if text.endswith(" ...") and " ... " not in text:
            text += " "
        name, dots, rest = text.partition(" ... ")
        if not dots:
            return
        name, outcome = name.rstrip(WHITE), _outcome(rest)
        if outcome is None:
            self.run["open"] = name
        else:
            self.result(name, outcome)

    def result(self, name, kind):
        self.run["counts"][kind] += 1
        self.run["left"] -= 1
        self.failed_here = self.failed_here or kind == 1
        line = None
        if name.endswith(" - should panic"):
            name = name[:-15]
        else:  # at most one of the three is dropped: each is looked for at the end of what is printed
            name = re.sub(r"( \(line [0-9]+\)) - compile(?: fail)?$", r"\1", name)
        match = re.fullmatch(r"(.*) \(line ([0-9]+)\)", name, re.S)
        if match and number(match.group(2)) is not None:
            name, line = match.group(1), int(match.group(2))
            name = name[:-2] if name.endswith(" -") else name
        if not name or "\ufffd" in name:
            raise Bad("malformed: a name is empty or not UTF-8")
        name = name if self.binary is None else "%s::%s" % (self.binary, name)
        self.results.append((name, line, (PASSED, FAILED, SKIPPED, PASSED)[kind]))

    # --- the end

    def tests(self):
        if self.run is not None:
            raise Bad("incomplete: the output ends inside a run")
        self.heard()
        if self.error and not self.announced:
            raise Bad("incomplete: an error, and no tests")
        if self.failed and not any(outcome == FAILED for _, _, outcome in self.results):
            raise Bad("contradiction: a binary failed, and no test did")
        out = Tests(bounded=False)
        examples = {}
        for name, line, _ in self.results:
            if line is not None:
                examples.setdefault(name, set()).add(line)
        for name, line, outcome in self.results:
            place = sorted(examples[name]).index(line) + 1 if line is not None else 1
            out.add(name if place == 1 else "%s #%d" % (name, place), outcome)
        out.partial = self.failed and not self.listed
        return out


def _is_list(line):
    match = re.fullmatch(r"error: ([0-9]+) targets? failed:", line)
    return match is not None and number(match.group(1)) is not None


def parse(data):
    state = _Libtest()
    for line in text_lines(data):
        state.line(line)
    return state.tests()
