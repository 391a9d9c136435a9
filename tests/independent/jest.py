# SPDX-License-Identifier: Apache-2.0
"""The JSON report of jest and vitest (report-formats.md: jest)."""
from canonical import Bad
from common import FAILED, PASSED, SKIPPED, Tests, is_count, numbered, read_json

_STATUSES = ("passed", "failed", "pending", "skipped", "disabled", "todo")


def _need(condition, what):
    if not condition:
        raise Bad("malformed: %s" % what)


def _form(value):
    _need(isinstance(value, dict), "no object")
    _need(isinstance(value.get("success"), bool), "success")
    _need(isinstance(value.get("testResults"), list), "testResults")
    for key in ("numTotalTests", "numPassedTests", "numFailedTests", "numPendingTests"):
        _need(is_count(value.get(key)), key)
    _need("numTodoTests" not in value or is_count(value["numTodoTests"]), "numTodoTests")
    if "numRuntimeErrorTestSuites" in value:
        for key in ("numTotalTestSuites", "numFailedTestSuites", "numRuntimeErrorTestSuites"):
            _need(is_count(value.get(key)), key)
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
            _need(test.get("status") in _STATUSES, "a status")


def _outcome(test):
    if test["status"] == "failed":
        return FAILED
    if test["status"] != "passed":
        return SKIPPED
    again = is_count(test.get("invocations")) and test["invocations"] > 1
    again = again or any(isinstance(test.get(k), list) and test[k] for k in ("retryReasons", "failureMessages"))
    return FAILED if again else PASSED


def _counts(value):
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


def _parts(name):
    name = name if "/" in name else name.replace("\\", "/")
    return tuple(part for part in name.split("/") if part)


def _names(names):
    """FILE of every path (report-formats.md: jest, FILE)."""
    groups = {}
    for parts in {_parts(name) for name in names}:
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
    return {name: out[_parts(name)] for name in names}


def _tail(left, right):
    size = 0
    while size < min(len(left), len(right)) and left[-1 - size] == right[-1 - size]:
        size += 1
    return size


def parse(data):
    value = read_json(data[3:] if data.startswith(b"\xef\xbb\xbf") else data)
    _form(value)
    _counts(value)
    names, tests = _names([f["name"] for f in value["testResults"]]), Tests()
    for file in value["testResults"]:
        seen = {}
        for test in file["assertionResults"]:
            name = "%s::%s%s" % (names[file["name"]], "".join(t + " > " for t in test["ancestorTitles"]),
                                 test["title"])
            tests.add(numbered(name, seen), _outcome(test))
    return tests
