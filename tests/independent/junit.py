# SPDX-License-Identifier: Apache-2.0
"""The format junit (report-formats.md: junit). Of XML only what is said there is read."""
import re

from canonical import Bad
from found import FAILED, PASSED, SKIPPED, Tests, number

SPACE = "[ \t\r\n]"
NAME = r"[^\s<>/=\"'!?&]+"
TOKEN = re.compile(r"""(?P<comment><!--.*?-->)|(?P<data><!\[CDATA\[.*?\]\]>)|(?P<decl><\?xml(?=[\s?]).*?\?>)
                   |(?P<end></(?P<ended>%s)%s*>)
                   |(?P<start><(?P<name>%s)(?P<attributes>(?:%s+%s%s*=%s*(?:"[^"]*"|'[^']*'))*)%s*(?P<empty>/?)>)
                   |(?P<text>[^<]+)""" % (NAME, SPACE, NAME, SPACE, NAME, SPACE, SPACE, SPACE), re.S | re.X)
ATTRIBUTE = re.compile(r"""(%s)%s*=%s*(?:"([^"]*)"|'([^']*)')""" % (NAME, SPACE, SPACE))
ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "apos": "'", "quot": '"'}
FAIL_WORDS = ("fail", "failed", "failure", "error", "errored", "broken")
SKIP_WORDS = ("notrun", "disabled", "skipped", "skip", "ignored", "pending", "suppressed", "todo")
FIXTURES = ("setUpModule (", "setUpClass (", "tearDownClass (", "tearDownModule (")
COUNTS = ("tests", "failures", "errors", "skipped", "disabled")


def _entity(match):
    text = match.group(1)
    if text is None:
        raise Bad("malformed: an & that begins no entity")
    if text in ENTITIES:
        return ENTITIES[text]
    found = re.fullmatch(r"#(?:x([0-9a-fA-F]+)|([0-9]+))", text)
    code = int(found.group(1), 16) if found and found.group(1) else int(found.group(2)) if found else 0
    if not 0 < code < 0x110000 or 0xD800 <= code <= 0xDFFF:
        raise Bad("malformed: an entity that XML does not define")
    return chr(code)


def _unescape(text):
    return re.sub(r"&(?:([^;&]*);)?", _entity, text)


def _attributes(text):
    out = {}
    for place, match in enumerate(ATTRIBUTE.finditer(text)):
        if place >= 64 or match.group(1) in out:
            raise Bad("malformed: an attribute too much")
        out[match.group(1)] = _unescape(match.group(2) if match.group(2) is not None else match.group(3))
    return out


class _Suite:
    KEYS = ("cases", "ran", "failing", "failures", "errors", "skipped", "suites")

    def __init__(self, is_root, attributes):
        self.is_root, self.name = is_root, attributes.get("name", "")
        self.declared = {key: number(attributes[key]) for key in COUNTS if key in attributes}
        if None in self.declared.values():
            raise Bad("malformed: a count is no number")
        self.own, self.whole = dict.fromkeys(self.KEYS, 0), dict.fromkeys(self.KEYS, 0)

    def add(self, tally):
        for key, count in tally.items():
            self.own[key] += count
            self.whole[key] += count

    def check(self, counts_more):
        """What it declares fits what it holds (report-formats.md: junit, Counts)."""
        declared, whole = self.declared, self.whole
        own = whole if self.is_root else self.own
        if "failures" in declared or "errors" in declared:
            says = declared.get("failures", 0) + declared.get("errors", 0)
            if not own["failing"] <= says <= whole["failures"]:
                raise Bad("contradiction: a suite declares other failures than it holds")
        skipped, says = declared.get("skipped", 0), declared.get("tests")
        if says is None:
            return
        left_out = max(0, skipped + declared.get("disabled", 0) - whole["skipped"])
        most = whole["cases"] + whole["errors"] + whole["suites"] + left_out
        if says < own["ran"] or (says > most and not counts_more):
            raise Bad("contradiction: a suite declares other tests than it holds")
        if skipped > whole["skipped"] + max(0, says - whole["cases"]):
            raise Bad("contradiction: a suite declares more skips than it holds")


class _Case:
    def __init__(self, suite, attributes):
        name, file = attributes.get("name"), attributes.get("file")
        if not name:
            raise Bad("malformed: a test case without a name")
        klass = attributes.get("classname")
        self.stands = _stands_for_others(name, klass or "", suite.name)
        space = name.find(" ")
        if file and file.endswith(".py") and name.endswith(")") and space >= 0 and \
                all(c.isalnum() or c == "_" for c in name[:space]):
            name = name[:space]
        group = klass if klass is not None else file or suite.name
        self.id = "%s::%s" % (group, name) if group else name
        words = [attributes.get(key, "").lower() for key in ("status", "result")]
        self.status = FAILED if any(w in FAIL_WORDS for w in words) else \
            SKIPPED if any(w in SKIP_WORDS for w in words) else None
        self.final = self.errors = self.reruns = 0
        self.skipped = self.todo = False

    def child(self, tag, attributes):
        if tag in ("failure", "error"):
            self.final += 1
            self.errors += tag == "error"
            self.stands = self.stands or (tag == "error" and attributes.get("message") == "collection failure")
        elif tag in ("flakyFailure", "flakyError", "rerunFailure", "rerunError"):
            self.reruns += 1
        elif tag in ("skipped", "ignored"):
            self.skipped = True
            self.todo = self.todo or attributes.get("type") == "todo"

    def outcome(self):
        if self.todo:
            return SKIPPED
        if self.final + self.reruns:
            return FAILED
        if self.skipped:
            return max(self.status or SKIPPED, SKIPPED)
        return PASSED if self.status is None else self.status

    def tally(self, outcome, before):
        return {"cases": 1, "ran": int(outcome != SKIPPED and not self.errors and before is None),
                "failing": int(self.final > 0 and not self.todo and before != FAILED),
                "failures": max(self.final + self.reruns, int(outcome == FAILED)), "errors": self.errors,
                "skipped": int(self.skipped or outcome == SKIPPED)}


def _stands_for_others(name, klass, suite):
    return "unittest.loader._FailedTest" in klass or "unittest.loader._FailedTest" in name or \
        name.startswith(FIXTURES) or klass == "Test suite failed to run" or name == klass == suite or \
        (klass == "test" and name.startswith("/"))


class _Junit:
    def __init__(self):
        self.tests, self.open, self.root, self.pytest, self.stands = Tests(), [], False, False, False

    def start(self, tag, attributes):
        if len(self.open) >= 64:
            raise Bad("malformed: nested too deep")
        frame = None
        if not self.open:
            if self.root or tag not in ("testsuites", "testsuite"):
                raise Bad("malformed: the root")
            self.root, self.pytest = True, attributes.get("name") == "pytest tests"
            frame = _Suite(tag == "testsuites", attributes)
        elif isinstance(self.open[-1][1], _Suite):
            frame = self.in_suite(self.open[-1][1], tag, attributes)
        elif tag.startswith("testsuite") or tag == "testcase":
            raise Bad("malformed: %s in a place where it does not count" % tag)
        elif isinstance(self.open[-1][1], _Case):
            self.open[-1][1].child(tag, attributes)
        self.open.append((tag, frame))

    def in_suite(self, suite, tag, attributes):
        if tag == "testsuite":
            return _Suite(False, attributes)
        if tag == "testcase":
            return _Case(suite, attributes)
        if tag == "testsuites":
            raise Bad("malformed: %s inside of a suite" % tag)
        if tag in ("failure", "error"):
            suite.add({"failures": 1, "errors": int(tag == "error")})
            self.stands = True
        return None

    def end(self, tag):
        if not self.open or self.open[-1][0] != tag:
            raise Bad("malformed: an end without a start")
        frame = self.open.pop()[1]
        if isinstance(frame, _Case):
            outcome = frame.outcome()
            self.stands = self.stands or (frame.stands and outcome == FAILED)
            self.open[-1][1].add(frame.tally(outcome, self.tests.found.get(frame.id)))
            self.tests.add(frame.id, outcome)
        elif isinstance(frame, _Suite):
            frame.check(self.pytest or frame.name == "pytest")
            if self.open:
                outer = self.open[-1][1].whole
                for key in frame.KEYS:
                    outer[key] += frame.whole[key]
                outer["suites"] += 1


def _declaration(token):
    match = re.search(r"""encoding%s*=%s*["']([^"']*)["']""" % (SPACE, SPACE), token)
    if match and match.group(1).lower() not in ("utf-8", "utf8", "us-ascii", "ascii"):
        raise Bad("malformed: another encoding")


def _token(state, match, first):
    kind = match.lastgroup if match.lastgroup in ("comment", "data", "decl") else None
    if match.group("start"):
        attributes = _attributes(match.group("attributes"))
        state.start(match.group("name"), attributes)
        if match.group("empty"):
            state.end(match.group("name"))
    elif match.group("end"):
        state.end(match.group("ended"))
    elif match.group("decl"):
        if not first:
            raise Bad("malformed: a declaration that is not at the start")
        _declaration(match.group("decl"))
    elif match.group("text"):
        if not state.open and match.group("text").strip(" \t\r\n\x0c"):
            raise Bad("malformed: text outside of the root")
        _unescape(match.group("text"))
    elif kind == "data" and not state.open:
        raise Bad("malformed: text outside of the root")


def parse(data):
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Bad("malformed: not UTF-8")
    text = text[1:] if text.startswith("\ufeff") else text
    state, at = _Junit(), 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise Bad("malformed or incomplete")
        _token(state, match, at == 0)
        at = match.end()
    if state.open or not state.root:
        raise Bad("incomplete: the file ends inside of an element")
    if state.stands:
        raise Bad("incomplete: a test case stands for others")
    return state.tests
