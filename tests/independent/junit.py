# SPDX-License-Identifier: Apache-2.0
"""JUnit XML (report-formats.md: junit)."""
from canonical import Bad
from common import FAILED, PASSED, SKIPPED, Tests, ascii_lower, number
from xmltext import Reader

_FAILS = ("failure", "error", "flakyFailure", "flakyError", "rerunFailure", "rerunError")
_SKIPS = ("skipped", "ignored")
_FAIL_WORDS = ("fail", "failed", "failure", "error", "errored", "broken")
_SKIP_WORDS = ("notrun", "disabled", "skipped", "skip", "ignored", "pending", "suppressed", "todo")
_FIXTURES = ("setUpModule (", "setUpClass (", "tearDownClass (", "tearDownModule (")
_DECLARED = ("tests", "failures", "errors", "skipped", "disabled")
_SUMS = ("case", "ran", "failing", "failures", "errors", "skipped")


class _Suite:
    def __init__(self, tag, attributes):
        self.tag, self.name = tag, attributes.get("name", "")
        self.declared = {}
        for key in _DECLARED:
            if key in attributes:
                self.declared[key] = number(attributes[key])
                if self.declared[key] is None:
                    raise Bad("malformed: a count is no number")
        self.own, self.whole = dict.fromkeys(_SUMS, 0), dict.fromkeys(_SUMS, 0)
        self.suites = 0


class _Junit:
    def __init__(self):
        self.tests, self.open, self.suites, self.case = Tests(), [], [], None
        self.seen, self.had_failed, self.root_name = set(), set(), ""
        self.failed_before = None  # the id of the test case before, if that failed

    def start(self, tag, attributes):
        if len(self.open) >= 64:
            raise Bad("malformed: nested too deep")
        if not self.open:
            if tag not in ("testsuites", "testsuite"):
                raise Bad("malformed: the root is %s" % tag)
            self.root_name = attributes.get("name", "")
            kind = "suite"
        else:
            kind = self.kind_inside(self.open[-1], tag)
        self.open.append(kind)
        if kind == "suite":
            self.suites.append(_Suite(tag, attributes))
        elif kind == "case":
            self.case = {"attributes": attributes, "elements": []}
        elif self.open[-2] == "case":
            self.case["elements"].append((tag, attributes))

    @staticmethod
    def kind_inside(parent, tag):
        """What an element is, by the one that it is in: a suite, a test case, or one of the others."""
        if tag == "testsuites":
            raise Bad("malformed: testsuites inside of the root")
        if parent == "suite":
            if tag in ("failure", "error"):
                raise Bad("incomplete: a suite failed")
            return {"testsuite": "suite", "testcase": "case"}.get(tag, "other")
        if tag.startswith("testsuite") or tag == "testcase":
            raise Bad("malformed: a suite or a test case in a test case or another element")
        return "other"

    def end(self, _tag):
        kind = self.open.pop()
        if kind == "case":
            self.close_case()
        elif kind == "suite":
            self.close_suite(self.suites.pop())

    # --- a test case

    def close_case(self):
        attributes, elements = self.case["attributes"], self.case["elements"]
        self.case = None
        tags = [tag for tag, _ in elements]
        words = [ascii_lower(attributes.get(key, "")) for key in ("status", "result")]
        failed = any(tag in _FAILS for tag in tags) or any(word in _FAIL_WORDS for word in words)
        skipped = any(tag in _SKIPS for tag in tags) or any(word in _SKIP_WORDS for word in words)
        todo = any(tag in _SKIPS and more.get("type") == "todo" for tag, more in elements)
        outcome = SKIPPED if todo else FAILED if failed else SKIPPED if skipped else PASSED
        name = self.id_of(attributes)
        if outcome == FAILED and self.stands_for(attributes, elements):
            raise Bad("incomplete: a test case stands for others")
        self.count(name, tags, outcome, todo)
        again = "error" in tags and self.failed_before == name
        self.failed_before = name if outcome == FAILED else None
        self.tests.add(name, outcome, again)

    def id_of(self, attributes):
        name = attributes.get("name")
        if not name:
            raise Bad("malformed: a test case without a name")
        group = attributes.get("classname")
        if group is None:
            group = attributes.get("file") or self.suites[-1].name
        front, space, _ = name.partition(" ")
        if space and name.endswith(")") and attributes.get("file", "").endswith(".py") and \
                all(char == "_" or char.isalnum() for char in front):
            name = front
        return "%s::%s" % (group, name) if group else name

    def stands_for(self, attributes, elements):
        name, group = attributes["name"], attributes.get("classname", "")
        return "unittest.loader._FailedTest" in group or "unittest.loader._FailedTest" in name or \
            name.startswith(_FIXTURES) or group == "Test suite failed to run" or \
            name == group == self.suites[-1].name or (group == "test" and name.startswith("/")) or \
            any(tag == "error" and more.get("message") == "collection failure" for tag, more in elements)

    def count(self, name, tags, outcome, todo):
        hard = "failure" in tags or "error" in tags
        elements = sum(tag in _FAILS for tag in tags)
        of_case = {"case": 1, "ran": int(outcome != SKIPPED and "error" not in tags and name not in self.seen),
                   "failing": int(hard and not todo and name not in self.had_failed),
                   "failures": max(elements, int(outcome == FAILED)), "errors": tags.count("error"),
                   "skipped": int(any(tag in _SKIPS for tag in tags) or outcome == SKIPPED)}
        self.seen.add(name)
        if outcome == FAILED:
            self.had_failed.add(name)
        for key, value in of_case.items():
            self.suites[-1].own[key] += value
            self.suites[-1].whole[key] += value

    # --- a suite

    def close_suite(self, suite):
        if self.suites:
            above = self.suites[-1]
            above.suites += suite.suites + 1
            for key, value in suite.whole.items():
                above.whole[key] += value
        told, whole = suite.declared, suite.whole
        own = whole if suite.tag == "testsuites" else suite.own
        bad = told.get("failures", 0) + told.get("errors", 0)
        if ("failures" in told or "errors" in told) and not own["failing"] <= bad <= whole["failures"]:
            raise Bad("contradiction: the suite counts other failures than it holds")
        if "tests" not in told:
            return
        tests, skipped = told["tests"], told.get("skipped", 0)
        most = whole["case"] + whole["errors"] + suite.suites + max(
            0, skipped + told.get("disabled", 0) - whole["skipped"])
        from_pytest = self.root_name == "pytest tests" or suite.name == "pytest"
        if tests < own["ran"] or (tests > most and not from_pytest):
            raise Bad("contradiction: the suite counts other tests than it holds")
        if skipped > whole["skipped"] + max(0, tests - whole["case"]):
            raise Bad("contradiction: the suite counts more skips than it holds")


def parse(data):
    state = _Junit()
    Reader(data, state).read()
    return state.tests
