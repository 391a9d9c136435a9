# SPDX-License-Identifier: Apache-2.0
"""How a report becomes sets of tests, and how the metric is read (report-formats.md, metrics.md)."""
import json
import re
import xml.parsers.expat

from canonical import Bad, Float, WHITE, byte_order

MAXIMUM, ALL_IDS = 16 * 1024 * 1024, 64 * 1024 * 1024
PASSED, SKIPPED, FAILED = 0, 1, 2
ESCAPE = re.compile(r"\x1b(?:\[[^@-~]*[@-~]?|\][^\x07\x1b]*[\x07\x1b]?|[ -/]+.?|.?)", re.S)
U64 = 2 ** 64 - 1


class Unchecked(Exception):
    """This cannot be derived here; it is told as not checked."""


class Tests:
    """Sets of tests by outcome; the worst report of a test counts."""

    def __init__(self, bounded=True):
        self.found, self.partial, self.bounded, self.bytes = {}, False, bounded, 0

    def add(self, name, outcome):
        self.bytes += len(name.encode("utf-8", "surrogateescape"))
        if self.bounded and self.bytes > ALL_IDS:
            raise Bad("contradiction: the ids take too much room")
        self.found[name] = max(outcome, self.found.get(name, PASSED))

    def of(self, outcome):
        return byte_order(name for name, found in self.found.items() if found == outcome)

    def value(self):
        """tests.json (format.md: Evidence)."""
        return {"schema": "git-loop/tests/v1", "passed": self.of(PASSED), "failed": self.of(FAILED),
                "skipped": self.of(SKIPPED), "partial": self.partial}


def _number(text):
    """One or more ASCII digits that fit in 64 bits (report-formats.md: Lines, numbers and JSON)."""
    if re.fullmatch(r"[0-9]+", text) and int(text) <= U64:
        return int(text)
    return None


def parse(name, data):
    """The tests of a report, or Bad."""
    if len(data) > MAXIMUM:
        raise Bad("the report is too large")
    tests = {"lines": lines, "libtest": libtest, "junit": junit, "pytest": pytest, "tap": tap, "go-json": go_json,
             "jest": jest}[name](data)
    if not tests.found:
        raise Bad("no test ran")
    return tests


def none_ran(tests):
    """A report in which every test was skipped is a problem, though its tests are known."""
    return tests is not None and not tests["passed"] and not tests["failed"]


# --- lines ------------------------------------------------------------------------------------------

def lines(data):
    tests, count, done = Tests(bounded=False), 0, None
    for raw in data.split(b"\n"):
        word, space, rest = raw.partition(b" ")
        if not space or word not in (b"ok", b"fail", b"skip", b"done"):
            continue
        if done is not None:
            raise Bad("contradiction: a line after done")
        if word == b"done":
            done = _number(rest.decode("utf-8", "replace").strip(WHITE))
            if done is None:
                raise Bad("incomplete: done without a number")
            continue
        try:
            name = rest.decode("utf-8").strip(WHITE)
        except UnicodeDecodeError:
            raise Bad("malformed: an id is not UTF-8")
        if not name:
            raise Bad("malformed: an empty id")
        count += 1
        tests.add(name, {b"ok": PASSED, b"fail": FAILED, b"skip": SKIPPED}[word])
    if done is None or done != count:
        raise Bad("incomplete: done does not count what was reported")
    return tests


# --- libtest ----------------------------------------------------------------------------------------

_RUNNING = re.compile(r"\s*Running (?:unittests )?(?:(\S.*?) )?\((.+)\)\s*|\s*Running (\S+)\s*")
_RESULT = re.compile(r"test (.+) \.\.\. (ok|FAILED|FAILED \(time limit exceeded\)|ignored(?:, .*)?|bench: .*)")
_SUMMARY = re.compile(r"test result: (ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; (\d+) measured;.*")


class _Libtest:
    """The text of cargo test."""

    def __init__(self):
        self.tests, self.used, self.binary, self.examples = Tests(bounded=False), set(), None, {}
        self.doc = False
        self.left, self.counts, self.started, self.results = None, None, False, 0
        self.failed_here, self.error, self.stopped, self.finished = False, None, False, False

    def binary_name(self, path, source):
        base = re.split(r"[/\\]", path)[-1]
        base = re.sub(r"\.exe$", "", base)
        base = re.sub(r"-[0-9a-f]{16}$", "", base)
        name = base
        if name in self.used and source:
            name = "%s (%s)" % (base, source)
        number, plain = 2, name
        while name in self.used:
            name, number = "%s #%d" % (plain, number), number + 1
        self.used.add(name)
        return name

    def start(self, name, doc):
        if self.started:
            raise Bad("incomplete: a binary announced no tests")
        self.binary, self.doc, self.started, self.examples = name, doc, True, {}
        self.failed_here = False

    def line(self, line):
        if self.left is not None:
            self.inside(line)
            return
        running = _RUNNING.fullmatch(line)
        if running and (running.group(2) or running.group(3)):
            source = running.group(1)
            if line.strip().startswith("Running unittests") and source is None:
                source = None
            self.start(self.binary_name(running.group(2) or running.group(3), source), False)
        elif re.fullmatch(r"\s*Doc-tests (\S+)\s*", line):
            self.start(re.fullmatch(r"\s*Doc-tests (\S+)\s*", line).group(1), True)
        elif re.fullmatch(r"running (\d+) tests?", line):
            self.left = int(re.fullmatch(r"running (\d+) tests?", line).group(1))
            self.counts, self.started = [0, 0, 0, 0], False
        elif line.startswith("error: could not compile"):
            raise Bad("incomplete: could not compile")
        elif line.startswith("error: test failed") or line.startswith("error: doctest failed"):
            self.stopped = True
            if not self.failed_here:
                raise Bad("contradiction: a binary failed that reported no failure")
        elif re.match(r"error: \d+ targets? failed", line):
            self.finished = True
        elif line.startswith("error") and not self.results:
            raise Bad("incomplete: an error before any test")

    def inside(self, line):
        result, summary = _RESULT.fullmatch(line), _SUMMARY.fullmatch(line)
        if result and self.left > 0:
            self.left -= 1
            self.result(result.group(1), result.group(2))
        elif summary:
            if self.left:
                raise Bad("incomplete: fewer results than announced")
            if [int(summary.group(n)) for n in (2, 3, 4, 5)] != self.counts:
                raise Bad("contradiction: other counts")
            self.left = None
        elif re.fullmatch(r"running (\d+) tests?", line) and self.left:
            raise Bad("incomplete: fewer results than announced")

    def result(self, name, word):
        name = re.sub(r" - should panic$", "", name)
        if self.doc:
            name = re.sub(r" - compile( fail)?$", "", name)
            name = re.sub(r" \(line \d+\)", "", name)
            number = self.examples[name] = self.examples.get(name, 0) + 1
            name += " #%d" % number if number > 1 else ""
        kind = 0 if word == "ok" else 3 if word.startswith("bench") else 2 if word.startswith("ignored") else 1
        self.counts[kind] += 1
        self.results += 1
        self.failed_here = self.failed_here or kind == 1
        self.tests.add("%s::%s" % (self.binary, name) if self.binary else name, (PASSED, FAILED, SKIPPED, PASSED)[kind])


def libtest(data):
    state = _Libtest()
    for raw in data.split(b"\n"):
        state.line(ESCAPE.sub("", raw.decode("utf-8", "replace").rstrip("\r")))
    if state.left is not None or state.started:
        raise Bad("incomplete: the output ends inside a binary")
    state.tests.partial = state.stopped and not state.finished
    return state.tests


# --- junit ------------------------------------------------------------------------------------------

_FAILS = ("failure", "error", "flakyFailure", "flakyError", "rerunFailure", "rerunError")
_FAIL_WORDS = ("fail", "failed", "failure", "error", "errored", "broken")
_SKIP_WORDS = ("notrun", "disabled", "skipped", "skip", "ignored", "pending", "suppressed", "todo")


class _Junit:
    """JUnit XML."""

    def __init__(self):
        self.tests, self.open, self.suites, self.case, self.root = Tests(), [], [], None, 0

    def start(self, tag, attributes):
        if len(attributes) > 64 or len(self.open) >= 64:
            raise Bad("malformed: too much in one element")
        if not self.open and tag not in ("testsuites", "testsuite"):
            raise Bad("malformed: the root is %s" % tag)
        parent = self.open[-1] if self.open else None
        self.open.append(tag)
        if tag in ("testsuite", "testsuites") and parent in (None, "testsuite", "testsuites"):
            self.suites.append({"tag": tag, "attributes": attributes, "tests": 0, "failed": 0, "skipped": 0, "hard": 0})
        elif tag == "testcase" and parent in ("testsuite", "testsuites"):
            self.case = {"attributes": attributes, "failed": False, "skipped": False, "todo": False, "hard": False}
        elif self.case is not None and parent == "testcase":
            self.inside(tag, attributes)
        elif tag in ("failure", "error") and parent in ("testsuite", "testsuites"):
            raise Bad("incomplete: a suite failed")

    def inside(self, tag, attributes):
        if tag in _FAILS:
            self.case["failed"] = True
            self.case["hard"] = self.case["hard"] or tag in ("failure", "error")
        if tag in ("skipped", "ignored"):
            self.case["skipped"] = True
            self.case["todo"] = self.case["todo"] or attributes.get("type") == "todo"

    def end(self, tag):
        self.open.pop()
        if tag == "testcase" and self.case is not None:
            self.close_case()
        elif tag in ("testsuite", "testsuites") and self.suites and len(self.suites) > self.suite_depth():
            self.close_suite(self.suites.pop())

    def suite_depth(self):
        return len([t for t in self.open if t in ("testsuite", "testsuites")])

    def close_case(self):
        case, self.case = self.case, None
        attributes = case["attributes"]
        words = [attributes.get(key, "").lower() for key in ("status", "result")]
        failed = case["failed"] or any(w in _FAIL_WORDS for w in words)
        skipped = case["skipped"] or any(w in _SKIP_WORDS for w in words)
        outcome = SKIPPED if case["todo"] else FAILED if failed else SKIPPED if skipped else PASSED
        name = attributes.get("name")
        if not name:
            raise Bad("malformed: a test case without a name")
        suite = self.suites[-1]["attributes"].get("name", "") if self.suites else ""
        group = attributes.get("classname", attributes.get("file", suite))
        if attributes.get("file", "").endswith(".py"):
            name = re.sub(r" \([^()]*\)$", "", name) if re.search(r"\w \(.*=.*\)$", name) else name
        stands_for = outcome == FAILED and self.stands_for(attributes, name)
        if stands_for:
            raise Bad("incomplete: a test case stands for others")
        self.tests.add("%s::%s" % (group, name) if group else name, outcome)
        for suite in self.suites:
            suite["tests"] += 1
            suite["failed"] += outcome == FAILED
            suite["hard"] += outcome == FAILED and case["hard"]
            suite["skipped"] += outcome == SKIPPED

    @staticmethod
    def stands_for(attributes, name):
        klass = attributes.get("classname", "")
        return (klass == "" and "classname" in attributes) or klass.startswith("unittest.loader._FailedTest") or \
            bool(re.match(r"(setUpClass|setUpModule|tearDownClass|tearDownModule) \(", name)) or \
            "failed to run" in name

    @staticmethod
    def close_suite(suite):
        if suite["tag"] == "testsuites":
            return
        values = {k: _number(suite["attributes"][k].strip()) for k in
                  ("tests", "failures", "errors", "skipped", "disabled") if suite["attributes"].get(k)}
        if None in values.values():
            raise Bad("malformed: a count is no number")
        more = suite["attributes"].get("name") == "pytest"
        told = values.get("tests")
        if told is not None and not (told == suite["tests"] or (more and told > suite["tests"])):
            raise Bad("contradiction: the suite counts other tests than it holds")
        told = (values.get("failures") or 0) + (values.get("errors") or 0)
        if ("failures" in values or "errors" in values) and not suite["hard"] <= told <= suite["failed"]:
            raise Bad("contradiction: the suite counts other failures than it holds")
        told = (values.get("skipped") or 0) + (values.get("disabled") or 0)
        if "skipped" in values and told != suite["skipped"]:
            raise Bad("contradiction: the suite counts other skips than it holds")


def junit(data):
    state = _Junit()
    parser = xml.parsers.expat.ParserCreate()
    parser.buffer_text = True

    def refuse(*_args):
        raise Bad("malformed: a document type, a processing instruction or an entity")

    def declaration(_version, encoding, _standalone):
        if encoding and encoding.lower() not in ("utf-8", "utf8", "us-ascii", "ascii"):
            raise Bad("malformed: another encoding")
    parser.StartElementHandler, parser.EndElementHandler = state.start, state.end
    parser.StartDoctypeDeclHandler = parser.ProcessingInstructionHandler = refuse
    parser.XmlDeclHandler = declaration
    try:
        data.decode("utf-8")
        parser.Parse(data, True)
    except (UnicodeDecodeError, xml.parsers.expat.ExpatError) as error:
        raise Bad("malformed or incomplete: %s" % error)
    return state.tests


# --- pytest -----------------------------------------------------------------------------------------

_COUNT_WORDS = ("passed", "failed", "error", "errors", "skipped", "xfailed", "xpassed", "deselected", "warning",
                "warnings", "rerun", "subtests passed")
_LAST = re.compile(r"(no tests ran|[0-9]+ [a-z ]+(?:, [0-9]+ [a-z ]+)*) in [0-9]+\.[0-9]+s(?: \([^)]*:[^)]*\))?")


def _last_counts(text):
    """The counts of a last line, or None."""
    match = _LAST.fullmatch(text)
    if not match:
        return None
    counts = {}
    if match.group(1) != "no tests ran":
        for part in match.group(1).split(", "):
            digits, word = part.split(" ", 1)
            if word not in _COUNT_WORDS or _number(digits) is None:
                return None
            word = "errors" if word == "error" else word
            if word in counts:
                raise Bad("contradiction: a word that is counted twice")
            counts[word] = int(digits)
    return counts


def _pytest_id(text):
    """Where an ID ends (report-formats.md: pytest, ID)."""
    text = text.rstrip(WHITE)
    colons, dash = text.find("::"), text.find(" - ")
    in_path = colons >= 0 and 0 <= dash < colons and text[:colons].endswith(".py") and text[:colons].count(".py") == 1
    if colons < 0 or (0 <= dash < colons and not in_path):
        return text[:dash] if dash >= 0 else text
    rest = text[colons:]
    bracket, dash = rest.find("["), rest.find(" - ")
    if bracket >= 0 and (dash < 0 or bracket < dash):
        end = rest.find("] - ", bracket)
        return text[:colons + end + 1] if end >= 0 else text
    return text[:colons + dash] if dash >= 0 else text


def _clean_id(text):
    if not text or "\ufffd" in text:
        raise Bad("malformed: an id is empty or not UTF-8")
    return re.sub(r" at 0x[0-9a-fA-F]+", " at 0x", text)


class _Pytest:
    def __init__(self):
        self.tests, self.counts, self.paths, self.sub = Tests(), {}, {}, []

    def count(self, word, number=1):
        self.counts[word] = self.counts.get(word, 0) + number

    def skipped_at(self, number, place):
        path = place.split(": ")[0] if ": " in place else place
        path = re.sub(r":[0-9]+$", "", path.rstrip(":"))
        path = _clean_id(path)
        self.count("skipped", number)
        for _ in range(number):
            index = self.paths[path] = self.paths.get(path, 0) + 1
            self.tests.add("%s (skipped)%s" % (path, " #%d" % index if index > 1 else ""), SKIPPED)

    def line(self, line):
        word, _, rest = line.partition(" ")
        plain = {"PASSED": ("passed", PASSED), "XPASS": ("xpassed", PASSED), "FAILED": ("failed", FAILED),
                 "ERROR": ("errors", FAILED), "XFAIL": ("xfailed", SKIPPED), "SKIPPED": ("skipped", SKIPPED)}
        fold = re.fullmatch(r"\[([0-9]+)\] (.*)", rest) if word == "SKIPPED" else None
        if fold and _number(fold.group(1)) is not None:
            self.skipped_at(int(fold.group(1)), fold.group(2))
        elif word in plain and " " in line:
            name = _clean_id(_pytest_id(rest))
            if word == "ERROR" and "::" not in name:
                raise Bad("incomplete: a file could not be loaded")
            self.count(plain[word][0])
            self.tests.add(name, plain[word][1])
        else:
            self.subtest(line)

    def subtest(self, line):
        match = re.match(r"(SUBFAILED|SUBFAIL|SUBSKIPPED|SUBXFAIL)(?=[\[ (])", line)
        if not match:
            return
        word, rest = match.group(1), line[match.end():]
        fold = re.match(r" ?\[([0-9]+)\] ", rest)
        if word == "SUBSKIPPED" and fold:
            self.count("skipped", int(fold.group(1)))
            return
        rest = re.sub(r"^ *\[[^\]]*\]", "", rest).lstrip(" ")
        rest = re.sub(r"^\(.*?\) ", "", rest).lstrip(" ")
        if word.startswith("SUBFAIL"):
            self.count("failed")
            self.sub.append(_clean_id(_pytest_id(rest)))
        else:
            self.count("skipped" if word == "SUBSKIPPED" else "xfailed")

    def finish(self):
        for name in self.sub:
            if name not in self.tests.found:
                raise Bad("incomplete: a subtest of no test")
            self.tests.add(name, FAILED)


def pytest(data):
    state, header, last, summary = _Pytest(), False, None, False
    for raw in data.split(b"\n"):
        raw = raw[:-1] if raw.endswith(b"\r") else raw
        line = ESCAPE.sub("", raw.decode("utf-8", "replace")).rstrip(WHITE)
        title = re.fullmatch(r"=+ (.*) =+", line)
        shout = re.fullmatch(r"!+ (.*) !+", line)
        counts = _last_counts(title.group(1) if title else line)
        if counts is not None:
            if last is not None:
                raise Bad("contradiction: a second last line")
            last, summary = counts, False
        elif title and title.group(1) == "short test summary info":
            if header or last is not None:
                raise Bad("contradiction: a second header")
            header = summary = True
        elif shout and re.fullmatch(r"(?:xdist\.dsession\.Interrupted: )?stopping after [0-9]+ failures",
                                    shout.group(1)):
            if last is not None:
                raise Bad("incomplete: a line behind the last line")
            state.tests.partial, summary = state.tests.partial or header, False
        elif shout and (header or last is not None):
            raise Bad("incomplete: an interruption")
        elif last is not None and line:
            raise Bad("incomplete: a line behind the last line")
        elif title:
            summary = False
        elif summary:
            state.line(line)
    return _pytest_end(state, last)


def _pytest_end(state, last):
    if last is None:
        raise Bad("incomplete: no last line")
    if last.get("rerun", 0) > 0:
        raise Bad("incomplete: tests ran again")
    for word in ("passed", "failed", "errors", "skipped", "xfailed", "xpassed"):
        if last.get(word, 0) != state.counts.get(word, 0):
            raise Bad("incomplete or contradiction: %s" % word)
    state.finish()
    if state.tests.partial and not state.tests.of(FAILED):
        raise Bad("contradiction: stopped without a failure")
    return state.tests


# --- tap --------------------------------------------------------------------------------------------

_SCRIPT = re.compile(r".*\.(?:js|mjs|cjs|ts|mts|cts|jsx|tsx)", re.S)


class _Level:
    def __init__(self):
        self.plan, self.plan_first, self.points, self.numbers, self.below = None, False, 0, [], []
        self.names, self.closed_plan, self.found = {}, False, []


def _tap_outcome(ok, directive):
    if directive == "todo":
        return SKIPPED
    if ok:
        return SKIPPED if directive == "skip" else PASSED
    return FAILED


def _unescaped(text, start=0):
    """The places of '#' that no backslash escapes."""
    at, out = 0, []
    while at < len(text):
        if text[at] == "\\":
            at += 2
            continue
        if text[at] == "#" and at >= start:
            out.append(at)
        at += 1
    return out


class _Tap:
    """TAP 12 to 14. Below a point its tests are kept as (path of names, outcome)."""

    def __init__(self):
        self.levels, self.seen, self.tests, self.pending, self.block = [_Level()], False, Tests(), None, None

    def line(self, raw):
        text = ESCAPE.sub("", raw)
        if self.block is not None:
            self.in_block(text)
            return
        spaces = len(text) - len(text.lstrip(" "))
        body = text[spaces:].rstrip(WHITE)
        if self.pending is not None:
            indent, point = self.pending
            self.pending = None
            if body == "---" and spaces == indent + 2:
                self.block = (spaces, point)
                return
        if spaces % 4 or spaces // 4 > len(self.levels):
            return
        self.table(spaces // 4, body)

    def in_block(self, text):
        indent, point = self.block
        if text.rstrip(WHITE) == " " * indent + "...":
            self.block = None
        elif point["script"] and not point["ok"] and not point["below"] and \
                re.match(" " * indent + r"exitCode:", text):
            raise Bad("incomplete: a file failed outside of its tests")

    def table(self, level, body):
        version = re.fullmatch(r"TAP version (.*)", body)
        plan = re.fullmatch(r"1\.\.([0-9]+)(?:[%s#].*)?" % WHITE, body, re.S)
        point = re.fullmatch(r"(not ok|ok)(?:[ \t](.*))?", body, re.S)
        if re.match(r"(?i)bail out!", body):
            raise Bad("incomplete: bail out")
        if version:
            self.version(level, version.group(1))
        elif plan:
            number = _number(plan.group(1))
            if number is None:
                raise Bad("malformed: a plan")
            self.go_to(level)
            self.planned(number)
        elif point:
            if "\ufffd" in body:
                raise Bad("malformed: a point that is not UTF-8")
            self.go_to(level)
            self.point(level, point.group(1) == "ok", (point.group(2) or "").lstrip(WHITE))
        elif body.startswith("# Subtest") and level == len(self.levels):
            self.go_to(level)

    def version(self, level, text):
        if level:
            return
        if _number(text.strip(WHITE)) not in (12, 13, 14):
            raise Bad("malformed: the version")
        if self.seen:
            raise Bad("contradiction: a second report")
        self.seen = True

    def go_to(self, level):
        self.seen = True
        if level > 64:
            raise Bad("malformed: nested too deep")
        while len(self.levels) > level + 1:
            self.close()
        if level == len(self.levels):
            if self.levels[-1].below:
                raise Bad("incomplete: tests below no point")
            self.levels.append(_Level())

    def close(self):
        level = self.levels.pop()
        self.complete(level)
        self.levels[-1].below.append(level)

    @staticmethod
    def complete(level):
        if level.below:
            raise Bad("incomplete: tests below no point")
        if level.plan is None or level.points < level.plan:
            raise Bad("incomplete: fewer points than planned")
        if level.points > level.plan or len(set(level.numbers)) != len(level.numbers):
            raise Bad("contradiction: more points than planned, or a number twice")
        if any(not 1 <= number <= level.plan for number in level.numbers):
            raise Bad("contradiction: a number that is not planned")

    def planned(self, number):
        level = self.levels[-1]
        if level.plan is not None:
            raise Bad("contradiction: a second plan")
        if level.below:
            raise Bad("incomplete: tests below no point")
        level.plan, level.closed_plan = number, level.points > 0

    def point(self, depth, ok, rest):
        level = self.levels[-1]
        if level.closed_plan:
            raise Bad("contradiction: a point behind the plan")
        if len(level.below) > 1:
            raise Bad("incomplete: tests below no point")
        below = level.below.pop() if level.below else None
        level.points += 1
        number, name, directive, script = _tap_rest(rest)
        name = name or "#%d" % level.points
        if not (script and below is None):
            level.numbers.append(level.points if number is None else number)
        else:
            number = None
        index = level.names[name] = level.names.get(name, 0) + 1
        shown = name if index == 1 else "%s #%d" % (name, index)
        outcome = _tap_outcome(ok, directive)
        self.collect(level, shown, outcome, below, ok, directive)
        self.pending = (depth * 4, {"script": script, "ok": ok, "below": below is not None})

    def collect(self, level, shown, outcome, below, ok, directive):
        found = [(shown, outcome)]
        for name, under in (below.found if below else []):
            under = SKIPPED if directive == "todo" else under
            if ok and under == FAILED:
                raise Bad("contradiction: a point is ok above one that failed")
            found.append(("%s > %s" % (shown, name), under))
        if len(self.levels) == 1:
            for name, outcome in found:
                self.tests.add(name, outcome)
        else:
            level.found += found


def _tap_rest(rest):
    """(number, description, directive, script) of a test point."""
    number = None
    match = re.match(r"([0-9]+)(?=[%s]|$)" % WHITE, rest)
    if match and _number(match.group(1)) is not None:
        number, rest = int(match.group(1)), rest[match.end():]
    match = re.match(r"[%s]*-(?=[ \t]|$)" % WHITE, rest)
    rest = rest[match.end():] if match else rest
    if rest.rstrip(WHITE).endswith(" {"):
        raise Bad("malformed: a subtest in braces")
    directive = None
    for place in _unescaped(rest):
        word = re.match(r"[A-Za-z]*", rest[place + 1:].lstrip(WHITE)).group().lower()
        if word == "todo" or word.startswith("skip"):
            directive, rest = ("todo" if word == "todo" else "skip"), rest[:place]
            break
    places = _unescaped(rest)
    if places and re.match(r"# time=[0-9.]+m?s", rest[places[-1]:]):
        rest = rest[:places[-1]]
    name = re.sub(r"\\([#\\])", r"\1", rest).strip(WHITE)
    absolute = re.match(r"/|[A-Za-z]:[\\/]", name)
    script = bool(_SCRIPT.fullmatch(name)) and bool(absolute or not re.search("[" + WHITE + "]", name))
    if script and absolute:
        name = re.split(r"[/\\]", name)[-1]
    return number, name, directive, script


def tap(data):
    state = _Tap()
    if data and not data.endswith(b"\n"):
        raise Bad("incomplete: the last line does not end")
    for raw in data.split(b"\n")[:-1]:
        raw = raw[:-1] if raw.endswith(b"\r") else raw
        state.line(raw.decode("utf-8", "replace"))
    if not state.seen:
        raise Bad("no test ran")
    if state.block is not None or len(state.levels) > 1:
        raise Bad("incomplete: the report ends inside something")
    state.complete(state.levels[0])
    return state.tests


# --- JSON -------------------------------------------------------------------------------------------

def _pairs(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        raise Bad("malformed: a key twice")
    return out


def _float(text):
    value = Float(text)
    if value in (float("inf"), float("-inf")):
        raise Bad("malformed: a number is too large")
    return value


def _integer(text):
    if abs(int(text)) > 2 ** 1023:
        _float(text)
    return int(text) if text != "-0" else Float("-0.0")


def _constant(text):
    raise Bad("malformed: %s" % text)


def _depth(value, left=64):
    if isinstance(value, (dict, list)):
        if left == 0:
            raise Bad("malformed: nested too deep")
        for item in (value.values() if isinstance(value, dict) else value):
            _depth(item, left - 1)


def read_json(data):
    """RFC 8259 with what this page says of it (report-formats.md: JSON)."""
    try:
        text = data.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_pairs, parse_float=_float, parse_int=_integer,
                           parse_constant=_constant)
        if re.search(r"\\u[dD][89a-fA-F]", text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise Bad("malformed JSON: %s" % error)
    _depth(value)
    return value


def _is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= U64


# --- go-json ----------------------------------------------------------------------------------------

class _Package:
    def __init__(self):
        self.running, self.results, self.verdict, self.ended, self.started = {}, {}, None, False, 0
        self.before = {}  # results of the runs before a new start


def _merged(state):
    """All results of a package, those before its last start too; the worst counts."""
    return {test: max(state.before.get(test, PASSED), state.results.get(test, PASSED))
            for test in list(state.before) + list(state.results)}


class _Go:
    def __init__(self):
        self.packages, self.tests = {}, Tests()

    def event(self, event):
        if not isinstance(event, dict) or not isinstance(event.get("Action"), str):
            raise Bad("malformed: an event without an action")
        package, test = event.get("Package", ""), event.get("Test", "")
        if not isinstance(package, str) or not isinstance(test, str):
            raise Bad("malformed: an event")
        action = event["Action"]
        if action == "build-fail":
            raise Bad("incomplete: a package was not built")
        if not package:
            if test:
                raise Bad("malformed: a test without a package")
            return
        state = self.packages.setdefault(package, _Package())
        if state.ended and not (action == "start" and not test):
            raise Bad("contradiction: an event behind the end of a package")
        if test:
            self.of_test(state, test, action)
        else:
            self.of_package(package, state, action, event)

    @staticmethod
    def of_test(state, test, action):
        if action == "run":
            if state.running.get(test):
                raise Bad("contradiction: a test runs already")
            state.running[test], state.started = True, state.started + 1
        elif action in ("pass", "bench", "fail", "skip"):
            free = test.startswith("Benchmark") and test not in state.running
            if not state.running.get(test) and not free:
                raise Bad("contradiction: a result of a test that does not run")
            state.running[test] = False
            outcome = {"fail": FAILED, "skip": SKIPPED}.get(action, PASSED)
            state.results[test] = max(outcome, state.results.get(test, PASSED))

    def of_package(self, name, state, action, event):
        if action == "start":
            if state.ended or not state.started:
                fresh = _Package()
                fresh.before = _merged(state)
                self.packages[name] = fresh
        elif action == "output":
            text = event.get("Output")
            if isinstance(text, str):
                line = text[:-1] if text.endswith("\n") else text
                if line in ("PASS", "FAIL"):
                    state.verdict = line
                if text.startswith("ok ") and "\t" in text and "(cached)" in text:
                    raise Bad("incomplete: results of another run")
        elif action in ("pass", "fail", "skip"):
            self.end(state, action, event)

    @staticmethod
    def end(state, action, event):
        state.ended = True
        known = set(state.running) | set(state.results)
        if action == "fail" and event.get("FailedBuild"):
            raise Bad("incomplete: a build failed")
        if action == "skip":
            if known:
                raise Bad("contradiction: a skipped package with tests")
            return
        for test, running in state.running.items():
            if running:
                if not test.startswith("Benchmark"):
                    raise Bad("incomplete: a test has no result")
                state.results.setdefault(test, PASSED)
        failed = any(outcome == FAILED for outcome in state.results.values())
        if action == "pass":
            if failed:
                raise Bad("contradiction: a package passed with a failed test")
            if known and state.verdict != "PASS":
                raise Bad("incomplete: no verdict of the package")
        elif state.verdict != "FAIL" or not failed:
            raise Bad("incomplete: a package failed outside of its tests")


def go_json(data):
    state = _Go()
    for raw in data.split(b"\n"):
        raw = raw[:-1] if raw.endswith(b"\r") else raw
        if raw.startswith(b"{"):
            state.event(read_json(raw))
        elif raw == b"FAIL" or raw[:5] in (b"FAIL\t", b"FAIL ", b"FAIL\r"):
            raise Bad("incomplete: a package could not be built or set up")
    for name, package in state.packages.items():
        if not package.ended:
            raise Bad("incomplete: a package does not end")
        for test, outcome in _merged(package).items():
            state.tests.add("%s::%s" % (name, test), outcome)
    return state.tests


# --- jest -------------------------------------------------------------------------------------------

_JEST = ("passed", "failed", "pending", "skipped", "disabled", "todo")


def _need(condition, what):
    if not condition:
        raise Bad("malformed: %s" % what)


def _jest_form(value):
    _need(isinstance(value, dict), "no object")
    _need(isinstance(value.get("success"), bool), "success")
    _need(isinstance(value.get("testResults"), list), "testResults")
    for key in ("numTotalTests", "numPassedTests", "numFailedTests", "numPendingTests"):
        _need(_is_count(value.get(key)), key)
    _need("numTodoTests" not in value or _is_count(value["numTodoTests"]), "numTodoTests")
    if "numRuntimeErrorTestSuites" in value:
        for key in ("numTotalTestSuites", "numFailedTestSuites", "numRuntimeErrorTestSuites"):
            _need(_is_count(value.get(key)), key)
    for file in value["testResults"]:
        _need(isinstance(file, dict), "a file")
        name = file.get("name")
        _need(isinstance(name, str) and 1 <= len(name.encode("utf-8")) <= 4096, "a name")
        _need("status" not in file or isinstance(file["status"], str), "a status")
        _need(isinstance(file.get("assertionResults"), list), "assertionResults")
        for test in file["assertionResults"]:
            _need(isinstance(test, dict) and isinstance(test.get("title"), str), "a title")
            titles = test.get("ancestorTitles")
            _need(isinstance(titles, list) and all(isinstance(t, str) for t in titles), "ancestorTitles")
            _need(test.get("status") in _JEST, "a status")


def _jest_outcome(test):
    if test["status"] == "failed":
        return FAILED
    if test["status"] != "passed":
        return SKIPPED
    again = _is_count(test.get("invocations")) and test["invocations"] > 1
    again = again or any(isinstance(test.get(k), list) and test[k] for k in ("retryReasons", "failureMessages"))
    return FAILED if again else PASSED


def _jest_counts(value):
    statuses = [t["status"] for f in value["testResults"] for t in f["assertionResults"]]
    pairs = [("numTotalTests", len(statuses)), ("numPassedTests", statuses.count("passed")),
             ("numFailedTests", statuses.count("failed")), ("numTodoTests", statuses.count("todo")),
             ("numPendingTests", sum(s in ("pending", "skipped", "disabled") for s in statuses))]
    if "numRuntimeErrorTestSuites" in value:
        pairs += [("numTotalTestSuites", len(value["testResults"])),
                  ("numFailedTestSuites", sum(f.get("status") == "failed" for f in value["testResults"]))]
    for key, number in pairs:
        if value.get(key, number) != number:
            raise Bad("contradiction or incomplete: %s" % key)
    any_failed = "failed" in statuses
    for file in value["testResults"]:
        failed = any(t["status"] == "failed" for t in file["assertionResults"])
        if file.get("status") == "failed" and not failed:
            raise Bad("incomplete: a file could not be loaded")
        if file.get("status") == "passed" and failed:
            raise Bad("contradiction: a file passed with a failed test")
    if value.get("numRuntimeErrorTestSuites", 0) > 0 or value.get("wasInterrupted") is True:
        raise Bad("incomplete: interrupted")
    if value["success"] and any_failed:
        raise Bad("contradiction: success with a failed test")
    if not value["success"] and not any_failed and statuses:
        raise Bad("incomplete: no success without a failed test")


def _jest_parts(name):
    name = name if "/" in name else name.replace("\\", "/")
    return tuple(part for part in name.split("/") if part)


def _jest_names(names):
    """FILE of every path (report-formats.md: jest, FILE)."""
    groups = {}
    for parts in {_jest_parts(name) for name in names}:
        groups.setdefault(parts[-1:], []).append(parts)
    out = {}
    for group in groups.values():
        shared = 0
        limit = min(len(parts) for parts in group) - 1
        while len(group) > 1 and shared < limit and len({parts[shared] for parts in group}) == 1:
            shared += 1
        rests = {parts: parts[shared:] for parts in group}
        for parts, rest in rests.items():
            most = max([_tail(rest, other) for key, other in rests.items() if key != parts] or [0])
            out[parts] = "/".join(rest[-(most + 1):])
    return {name: out[_jest_parts(name)] for name in names}


def _tail(left, right):
    size = 0
    while size < min(len(left), len(right)) and left[-1 - size] == right[-1 - size]:
        size += 1
    return size


def jest(data):
    value = read_json(data[3:] if data.startswith(b"\xef\xbb\xbf") else data)
    _jest_form(value)
    _jest_counts(value)
    names, tests = _jest_names([f["name"] for f in value["testResults"]]), Tests()
    for file in value["testResults"]:
        seen = {}
        for test in file["assertionResults"]:
            name = "%s::%s%s" % (names[file["name"]], "".join(t + " > " for t in test["ancestorTitles"]),
                                 test["title"])
            index = seen[name] = seen.get(name, 0) + 1
            tests.add(name if index == 1 else "%s #%d" % (name, index), _jest_outcome(test))
    return tests


# --- verdicts ---------------------------------------------------------------------------------------

def verdict(data):
    """(metric_value, Tests or None) of a verdict (report-formats.md: Verdicts)."""
    if len(data) > MAXIMUM:
        raise Bad("the verdict is too large")
    value = read_json(data)
    if not isinstance(value, dict):
        raise Bad("no JSON object")
    metric = value.get("metric_value")
    if metric is not None and (isinstance(metric, bool) or not isinstance(metric, (int, float))):
        raise Bad("metric_value is no number")
    collected, failures = value.get("collected"), value.get("failures")
    if (collected is None) != (failures is None):
        raise Bad("collected and failures come together")
    if collected is None:
        return metric, None
    for found in (collected, failures):
        if not isinstance(found, list) or not all(isinstance(t, str) and t for t in found) or \
                len(set(found)) != len(found):
            raise Bad("a list of tests")
    if not set(failures) <= set(collected):
        raise Bad("a failure that was not collected")
    tests = Tests()
    for name in collected:
        tests.add(name, FAILED if name in set(failures) else PASSED)
    return metric, tests


# --- the metric -------------------------------------------------------------------------------------

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def _finite(value):
    value = float(value)
    if value in (float("inf"), float("-inf")):
        raise Bad("the number is not finite")
    return value + 0.0 if value else 0.0


def metric_regex(pattern, data):
    """The last match of the last line that has one (metrics.md: regex)."""
    if re.search(r"\[\[:|\\[pPzxuU]|&&|--|~~|\(\?[a-zA-Z-]*[UuxRs]|[*+?}]\+|\\b\{|\\[<>]", pattern):
        raise Unchecked("the metric's pattern %r is not read here" % pattern)
    try:
        compiled = re.compile(re.sub(r"\(\?<([A-Za-z_])", r"(?P<\1", pattern))
    except re.error:
        raise Unchecked("the metric's pattern %r is not read here" % pattern)
    group = "metric" if "metric" in compiled.groupindex else 1
    found = None
    for raw in data.split(b"\n"):
        raw = raw[:-1] if raw.endswith(b"\r") else raw
        if len(raw) <= 65536:
            for match in compiled.finditer(raw.decode("utf-8", "surrogateescape")):
                found = match
    text = found.group(group) if found else None
    if text is None or not _DECIMAL.fullmatch(text.strip(WHITE)):
        raise Bad("no number")
    return _finite(text.strip(WHITE))


def metric_json(pointer, data):
    """The number at an RFC 6901 pointer (metrics.md: json)."""
    try:
        value = read_json(data)
    except Bad:
        value = None
        for raw in reversed(data.split(b"\n")):
            try:
                value = read_json(raw)
            except Bad:
                continue
            if isinstance(value, dict):
                break
            value = None
        if value is None:
            raise Bad("no JSON")
    for part in pointer.split("/")[1:] if pointer else []:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and re.fullmatch(r"0|[1-9][0-9]*", part) and int(part) < len(value):
            value = value[int(part)]
        else:
            raise Bad("nothing at the pointer")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Bad("no number at the pointer")
    return _finite(value)
