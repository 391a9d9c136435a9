# SPDX-License-Identifier: Apache-2.0
"""The format go-json (report-formats.md: go-json)."""
from canonical import Bad
from found import FAILED, PASSED, SKIPPED, Tests, read_json


class _Package:
    """What is known of a package since its last start."""

    def __init__(self):
        self.tests, self.failed, self.verdict, self.ended = {}, False, None, False


class _Go:
    def __init__(self):
        self.packages, self.tests = {}, Tests()

    def event(self, event):
        if not isinstance(event, dict) or not isinstance(event.get("Action"), str):
            raise Bad("malformed: an event without an action")
        package, test, action = event.get("Package", ""), event.get("Test", ""), event["Action"]
        if action == "build-fail":
            raise Bad("incomplete: a package was not built")
        if not isinstance(package, str) or not isinstance(test, str):
            raise Bad("malformed: an event")
        if not package:
            if test:
                raise Bad("malformed: a test without a package")
            return
        state = self.packages.setdefault(package, _Package())
        starts = action == "start" and not test
        if state.ended and not starts:
            raise Bad("contradiction: an event behind the end of a package")
        if test:
            self.of_test(package, state, test, action)
        elif starts and (state.ended or not state.tests):
            self.packages[package] = _Package()
        else:
            self.of_package(package, state, action, event)

    def of_test(self, package, state, test, action):
        if action == "run":
            if state.tests.get(test):
                raise Bad("contradiction: a test runs already")
            state.tests[test] = True
        elif action in ("pass", "bench", "fail", "skip"):
            if not state.tests.get(test) and not (test.startswith("Benchmark") and test not in state.tests):
                raise Bad("contradiction: a result of a test that does not run")
            state.tests[test] = False
            state.failed = state.failed or action == "fail"
            self.tests.add("%s::%s" % (package, test), {"fail": FAILED, "skip": SKIPPED}.get(action, PASSED))

    def of_package(self, package, state, action, event):
        if action == "output":
            text = event.get("Output") if isinstance(event.get("Output"), str) else ""
            line = text[:-1] if text.endswith("\n") else text
            if line in ("PASS", "FAIL"):
                state.verdict = line
            elif line.startswith("ok ") and "\t(cached)" in line:
                raise Bad("incomplete: results of another run")
        elif action in ("pass", "fail", "skip"):
            self.end(package, state, action, event)

    def end(self, package, state, action, event):
        state.ended = True
        if action == "fail" and "FailedBuild" in event:
            raise Bad("incomplete: a build failed")
        if action == "skip":
            if state.tests:
                raise Bad("contradiction: a skipped package with tests")
            return
        running = [test for test, runs in state.tests.items() if runs]
        if any(not test.startswith("Benchmark") for test in running):
            raise Bad("incomplete: a test has no result")
        if action == "pass":
            if state.failed:
                raise Bad("contradiction: a package passed with a failed test")
            if state.tests and state.verdict != "PASS":
                raise Bad("incomplete: no verdict of the package")
        elif state.verdict != "FAIL" or not state.failed:
            raise Bad("incomplete: a package failed outside of its tests")
        for test in running:
            self.tests.add("%s::%s" % (package, test), PASSED)


def parse(data):
    state = _Go()
    for raw in data.split(b"\n"):
        if raw.startswith(b"{"):
            state.event(read_json(raw))
        elif raw == b"FAIL" or raw[:5] in (b"FAIL\t", b"FAIL ", b"FAIL\r"):
            raise Bad("incomplete: a package could not be built or set up")
    if any(not package.ended for package in state.packages.values()):
        raise Bad("incomplete: a package does not end")
    return state.tests
