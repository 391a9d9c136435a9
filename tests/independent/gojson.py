# SPDX-License-Identifier: Apache-2.0
"""What `go test -json` prints (report-formats.md: go-json)."""
from canonical import Bad
from common import FAILED, PASSED, SKIPPED, Tests, read_json


class _Package:
    def __init__(self, before=None):
        self.running, self.results, self.verdict, self.ended = {}, {}, None, False
        self.before = before or {}  # results of the runs before a new start

    def known(self):
        return set(self.running) | set(self.results)

    def merged(self):
        """All results, those before its last start too; the worst counts."""
        return {test: max(self.before.get(test, PASSED), self.results.get(test, PASSED))
                for test in list(self.before) + list(self.results)}


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
            state.running[test] = True
        elif action in ("pass", "bench", "fail", "skip"):
            free = test.startswith("Benchmark") and test not in state.running
            if not state.running.get(test) and not free:
                raise Bad("contradiction: a result of a test that does not run")
            state.running[test] = False
            outcome = {"fail": FAILED, "skip": SKIPPED}.get(action, PASSED)
            state.results[test] = max(outcome, state.results.get(test, PASSED))

    def of_package(self, name, state, action, event):
        if action == "start":
            if state.ended or not state.known():
                self.packages[name] = _Package(state.merged())
        elif action == "output":
            text = event.get("Output")
            if isinstance(text, str):
                line = text[:-1] if text.endswith("\n") else text
                if line in ("PASS", "FAIL"):
                    state.verdict = line
                if text.startswith("ok ") and "\t(cached)" in text:
                    raise Bad("incomplete: results of another run")
        elif action in ("pass", "fail", "skip"):
            self.end(state, action, event)

    @staticmethod
    def end(state, action, event):
        state.ended = True
        if action == "fail" and "FailedBuild" in event:
            raise Bad("incomplete: a build failed")
        if action == "skip":
            if state.known():
                raise Bad("contradiction: a skipped package with tests")
            return
        known = state.known()
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


def parse(data):
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
        for test, outcome in package.merged().items():
            state.tests.add("%s::%s" % (name, test), outcome)
    return state.tests
