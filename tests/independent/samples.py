# SPDX-License-Identifier: Apache-2.0
"""Reports for compare.py: for each format a base and many steps, good and bad ones."""
import json


def out(text, code=1):
    return {"out": text, "code": "%d\n" % code}


def file(text, code=1):
    return {"report": text, "code": "%d\n" % code}


TAP = [out(t, c) for t, c in [
    ("TAP version 13\n1..2\nok 1 - a\nnot ok 2 - b\n", 1), ("ok 1 - a\nnot ok 2 - b\n1..2\n", 1), ("1..2\nok\nnot ok b # TODO later\n", 0),
    ("1..2\nok 1 - a # SKIP no\nnot ok 2 b\n", 1), ("1..3\nok 1 - a\nnot ok 2 - b\n", 1), ("1..1\nok 1 - a\nnot ok 2 - b\n", 1),
    ("1..2\nok 2 - a\nnot ok 2 - b\n", 1), ("1..2\nok 1 - a\n\nnot ok 2 - b\nBail out!\n", 1), ("TAP version 12\nTAP version 13\n1..1\nnot ok\n", 1),
    ("TAP version 15\n1..1\nnot ok\n", 1), ("1..1\nnot ok 1 - a", 1),
    ("# Subtest: p\n    ok 1 - a\n    not ok 2 - b\n    1..2\nnot ok 1 - p\n  ---\n  x: 1\n  ...\n1..1\n", 1),
    ("    ok 1 - a\n    1..1\nnot ok 1 - p\n    ok 1 - a\n    1..1\nnot ok 2 - p\n1..2\n", 1),
    ("    not ok 1 - a\n    1..1\nok 1 - p\nnot ok 2\n1..2\n", 1), ("    not ok 1 - a\n    1..1\nok 1 - p # TODO\nnot ok 2\n1..2\n", 1),
    ("    not ok 1 - a\n    1..1\n1..1\nnot ok 1\n", 1), ("        not ok 1 - a\n        1..1\nnot ok 1 - x\n1..1\n", 1),
    ("not ok 1 - /a/b/x.test.js\n  ---\n  exitCode: 1\n  ...\n1..1\n", 1), ("not ok 7 - /a/b/x.test.js\n  ---\n  duration: 1\n  ...\n1..1\n", 1),
    ("not ok 1 - a b.js\nnot ok 2 - sub/x.ts\n1..2\n", 1),
    ("not ok 1 - a \\# b \\\\ # time=1.5ms\nnot ok 2 - a # time=x\n1..2\n", 1), ("1..2 # c\nnot ok 1-a\nnot ok 2 -a\n", 1), ("1..2\nok 1 - a {\nnot ok 2\n", 1),
    ("1..2\nok 1 - a # skipped\nnot ok 2 - b # Skipit\n", 1), ("1..2\nok 1 - a #TODO\nnot ok 2 - a\n", 1), ("1..3\nnot ok - a\nnot ok - a\nnot ok - a #2\n", 1),
    ("\x1b[31mnot ok 1 - a\x1b[0m\r\n1..1\r\n", 1), ("1..1\nnot ok 1 - a\n  ---\n  x\n", 1), ("1..1\nnot ok 1 - \xff\n", 1), ("1..0\n", 0), ("hello\n", 0), ("1..0 # SKIP all\n", 0),
    ("1..1\nnot ok 1 - a\n   not ok 2 - c\n", 1), ("1..1\nnot ok 1\tx\n1..1\n", 1), ("not ok 1\n1..1\nnot ok 2\n", 1), ("1..1\nnot okay\nnot ok 99999999999999999999 a\n", 1),
    ("1..2\nok 1 - a # todo x\nnot ok 2 - b # not a directive\n", 1), ("# Subtest: x\n1..1\nnot ok 1\n", 1), ("1..1\n    # Subtest: deep\nnot ok 1\n", 1),
    ("1..1\nok 1 - \n  ---\n  ...\n", 0)]]

P = "=" * 10
HEAD = P + " short test summary info " + P + "\n"
PYTEST = [out(t, c) for t, c in [
    (HEAD + "PASSED t.py::a\nFAILED t.py::b - assert 1\n" + P + " 1 failed, 1 passed in 0.01s " + P + "\n", 1),
    (HEAD + "PASSED t.py::a\nFAILED t.py::b - assert 1\n1 failed, 1 passed in 0.01s\n", 1), (HEAD + "PASSED t.py::a\n1 passed, 1 warning in 0.01s (0:00:01)\n", 0),
    (HEAD + "PASSED t.py::a\n2 passed in 0.01s\n", 0), (HEAD + "PASSED t.py::a\nPASSED t.py::b\n1 passed in 0.01s\n", 0), ("1 passed in 0.01s\n", 0), ("no tests ran in 0.01s\n", 5),
    (HEAD + "FAILED t.py::b[a - b] - x\nFAILED t.py::c[x\nFAILED t.py::d - a[b] - c\n3 failed in 0.01s\n", 1), (HEAD + "ERROR t.py - ImportError\n1 error in 0.01s\n", 1), (HEAD + "ERROR t.py::x\n1 error in 0.01s\n", 1),
    (HEAD + "XFAIL t.py::x - r\nXPASS t.py::y\nFAILED t.py::z\n1 failed, 1 xfailed, 1 xpassed in 0.01s\n", 1), (HEAD + "SKIPPED [2] t.py:3: why\nSKIPPED [1] t.py:9: why\nFAILED t.py::z\n1 failed, 3 skipped in 0.01s\n", 1),
    (HEAD + "SKIPPED t.py::q - why\nFAILED t.py::z\n1 failed, 1 skipped in 0.01s\n", 1), (HEAD + "FAILED t.py::z\n!!!! stopping after 1 failures !!!!\n1 failed in 0.01s\n", 1), (HEAD + "PASSED t.py::z\n!!!! stopping after 1 failures !!!!\n1 passed in 0.01s\n", 0),
    (HEAD + "FAILED t.py::z\n!!!! KeyboardInterrupt !!!!\n1 failed in 0.01s\n", 1), (HEAD + "FAILED t.py::z\n1 failed, 1 rerun in 0.01s\n", 1), (HEAD + "FAILED t.py::z\n1 failed in 0.01s\nmore\n", 1), (HEAD + "FAILED t.py::z\n1 failed in 0.01s\n\n  \n", 1),
    (HEAD + HEAD + "FAILED t.py::z\n1 failed in 0.01s\n", 1), (HEAD + "SUBFAILED[msg] (i=1) t.py::z - x\nPASSED t.py::z\n1 failed, 1 passed in 0.01s\n", 1), (HEAD + "SUBFAILED(i=1) t.py::q - x\nPASSED t.py::z\n1 failed, 1 passed in 0.01s\n", 1),
    (HEAD + "SUBSKIPPED[a] [1] t.py:1: x\nFAILED t.py::z\n1 failed, 1 skipped in 0.01s\n", 1), (HEAD + "FAILED t.py::z at 0xdeadbeef x - y\n1 failed in 0.01s\n", 1), (HEAD + "FAILED a - b.py::z - y\nFAILED c - d - e.py::x\n2 failed in 0.01s\n", 1),
    (HEAD + "FAILED a - b::z - y\n1 failed in 0.01s\n", 1), (HEAD + "\x1b[31mFAILED\x1b[0m t.py::z\n\x1b[31m1 failed\x1b[0m in 0.01s\n", 1), (HEAD + "FAILED t.py::\udcff\n1 failed in 0.01s\n", 1), (HEAD + "FAILED t.py::z\n1 failed, 1 bogus in 0.01s\n", 1),
    (HEAD + "FAILED t.py::z\n1 failed, 1 failed in 0.01s\n", 1), (HEAD + "FAILED t.py::z\nnoise\n" + P + " other " + P + "\nFAILED t.py::y\n1 failed in 0.01s\n", 1), (HEAD + "FAILED t.py::z\n1 failed, 1 error, 1 errors in 0.01s\n", 1), (HEAD + "FAILED t.py::z\n1 failed, 3 subtests passed in 0.01s\n", 1)]]


def go(*events, tail=""):
    return "".join((e if isinstance(e, str) else json.dumps(dict(zip(("Action", "Package", "Test", "Output"), e)))) + "\n" for e in events) + tail


S, E1 = ("start", "p"), ("fail", "p")
V, VF = ("output", "p", "", "PASS\n"), ("output", "p", "", "FAIL\n")
RA, PA, FA = ("run", "p", "A"), ("pass", "p", "A"), ("fail", "p", "A")
GO = [out(t, c) for t, c in [
    (go(S, RA, PA, ("run", "p", "B"), ("fail", "p", "B"), VF, E1), 1), (go(S, RA, PA, V, ("pass", "p")), 0), (go(S, RA, PA, ("pass", "p")), 0), (go(S, RA, FA, V, ("pass", "p")), 1), (go(S, RA, FA, E1), 1), (go(S, RA, VF, E1), 1),
    (go(S, RA, RA, FA, VF, E1), 1), (go(S, RA, FA, FA, VF, E1), 1), (go(S, FA, VF, E1), 1), (go(S, RA, FA, VF), 1), (go(S, RA, FA, VF, E1, VF), 1), (go("FAIL p [build failed]", S, RA, FA, VF, E1), 1), (go("FAILED x", "noise", S, RA, FA, VF, E1), 1),
    (go(S, RA, FA, ("output", "p", "", "ok  \tp\t(cached)\n"), VF, E1), 1), (go("{", S, RA, FA, VF, E1), 1), (go('{"Action":"run","Action":"run"}', S, RA, FA, VF, E1), 1), (go(("build-fail", "p"), S, RA, FA, VF, E1), 1), (go(S, ("skip", "p"), ("start", "q"), ("run", "q", "A"), ("fail", "q", "A"), ("output", "q", "", "FAIL\n"), ("fail", "q")), 1),
    (go(S, RA, PA, ("skip", "p")), 0), (go(S, ("run", "p", "BenchmarkX"), RA, FA, VF, E1), 1), (go(S, ("bench", "p", "BenchmarkX"), RA, FA, VF, E1), 1), (go(S, RA, ("run", "p", "A/1"), ("skip", "p", "A/1"), FA, VF, E1), 1), (go(S, RA, FA, VF, E1, S, RA, PA, V, ("pass", "p")), 1), (go(("run", "", "A")), 1), (go(S, RA, FA, VF, '{"Action":"fail","Package":"p","FailedBuild":"p"}'), 1), (go(S, RA, FA, VF, '{"Action":3}', E1), 1), (go(S, RA, FA, VF, '{"Package":"zz"}', E1), 1), (go(S, RA, FA, VF, '{"Action":"x","Package":"zz"}', E1), 1), (go(S, RA, FA, VF, E1, tail='{"Action":"x","Output":"\\ud800"}\n'), 1), (go(S, RA, FA, VF, E1, tail='{"Action":"x","Output":1e999}\n'), 1), (go(S, RA, FA, VF, E1, '{"Action":"x","a":' + "[" * 64 + "]" * 64 + "}"), 1), (go(S, RA, FA, VF, E1, '{"Action":"x","a":' + "[" * 63 + "]" * 63 + "}"), 1)]]

LT = "   Compiling a v0.1.0\n    Finished `test`\n     Running unittests src/lib.rs (target/debug/deps/a-0123456789abcdef)\n"


def suite(tests, tail="", bad=False):
    lines = "\nrunning %d test%s\n" % (len(tests), "" if len(tests) == 1 else "s") + "".join("test %s ... %s\n" % t for t in tests)
    p, f, i, m = (sum(t[1].startswith(w) for t in tests) for w in ("ok", "FAILED", "ignored", "bench"))
    return lines + tail + "\ntest result: %s. %d passed; %d failed; %d ignored; %d measured; 0 filtered out; finished in 0.00s\n\n" % ("FAILED" if f else "ok", p + bad, f, i, m)


ERR = "error: test failed, to rerun pass `--lib`\n"
END = "error: 1 target failed:\n    `--lib`\n"
ONE = suite([("a", "ok"), ("t::b", "FAILED")])
DOC = "   Doc-tests a\n"
LIB = [out(t, c) for t, c in [
    (LT + ONE + ERR + END, 101), (LT + ONE + ERR, 101), (LT + suite([("a", "ok")]), 0), (LT + suite([("a", "ok"), ("b", "FAILED")], bad=True) + ERR + END, 101), (LT + suite([("a", "ok"), ("c", "ignored, why"), ("d", "bench: 1 ns/iter"), ("b - should panic", "FAILED")], "\nfailures:\n\n---- b stdout ----\ntest x ... ok\n\n") + ERR + END, 101),
    (LT + suite([("a", "ok")]) + ERR + END, 101), (LT, 0), ("error: could not compile `a`\n", 101), ("error: no such command\n", 101), (LT + ONE + "     Running tests/a.rs (target/debug/deps/a-0123456789abcdee)\n" + suite([("a", "ok")]) + ERR + END, 101),
    (LT + ONE + DOC + suite([("src/lib.rs - f (line 3)", "ok"), ("src/lib.rs - f (line 9)", "ok"), ("src/lib.rs - g (line 1) - compile fail", "ok")]) + ERR + END, 101), (LT + "\nrunning 2 tests\ntest a ... ok\n", 101), (LT + "\nrunning 2 tests\ntest a ... ok\n" + ONE, 101), (ONE, 101), (LT + LT + ONE + ERR + END, 101), ("\x1b[1m" + LT + ONE.replace("FAILED\n", "\x1b[31mFAILED\x1b[0m\n", 1) + ERR + END, 101),
    (LT + "\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\n", 0), (LT + ONE.replace("FAILED\n", "FAILED (time limit exceeded)\n", 1) + ERR + END, 101), (LT + suite([("a", "ignored")]), 0), (LT.replace("unittests src/lib.rs (", "").replace(")", "") + ONE + ERR + END, 101)]]


def junit(cases, attributes="", suites=""):
    return '<testsuites %s><testsuite name="s" %s>%s</testsuite></testsuites>' % (suites, attributes, cases)


F = '<testcase classname="k" name="f"><failure/></testcase>'
J = [file(t, c) for t, c in [
    (junit(F), 1), (junit('<testcase name="a" file="x/y.py"/>' + F), 1), (junit('<testcase name="a"/>' + F), 1), (junit('<testcase classname="" name="a"/>' + F), 1), (junit('<testcase classname="k"/>' + F), 1), (junit('<testcase classname="k" name="a"><skipped type="todo"/><failure/></testcase>' + F), 1),
    (junit('<testcase classname="k" name="a"><rerunFailure/></testcase>'), 1), (junit('<testcase classname="k" name="a" status="run" result="completed"/>' + F), 1), (junit('<testcase classname="k" name="a" status="notrun"/>' + F), 1), (junit("<error/>" + F), 1), (junit(F, 'tests="1" failures="0" errors="0"'), 1), (junit(F, 'tests="1" failures="0" errors="1"'), 1), (junit(F, 'tests="1" failures="2"'), 1), (junit(F, 'tests="1" skipped="1"'), 1), (junit(F, 'tests="x"'), 1), (junit(F, 'tests="1"', 'tests="2"'), 1),
    ('<?xml version="1.0" encoding="latin1"?>' + junit(F), 1), ("<?pi x?>" + junit(F), 1), (junit(F + "&foo;"), 1), (junit(F) + "text", 1), (junit(F) + junit(F), 1), (junit(F)[:-5], 1), ("<x/>", 1), ("\ufeff" + junit(F), 1), ("<!-- c -->" + junit(F + "<![CDATA[x]]>") + "<!-- d -->\n", 1), ("<testsuite>" + F + "</testsuite>", 1), ("<testsuite><testsuite name='q'><testcase name='z'><failure/></testcase></testsuite></testsuite>", 1), (junit('<testcase classname="k" name="test_x (i=1)" file="a.py"/><testcase classname="k" name="test_x" file="a.py"/>' + F), 1),
    (junit('<testcase classname="" name="tests.test_a"><error message="collection failure"/></testcase>' + F), 1), (junit('<testcase classname="unittest.loader._FailedTest" name="m"><error/></testcase>'), 1), (junit(F, 'name2="%s"' % ("x" * 100) + " ".join('a%d="1"' % i for i in range(70))), 1), (junit("<testsuite>" * 70 + F + "</testsuite>" * 70), 1), (junit(F, 'tests="3"').replace('name="s"', 'name="pytest"'), 1)]]


def jest(**changes):
    value = {"success": False, "numTotalTests": 2, "numPassedTests": 1, "numFailedTests": 1, "numPendingTests": 0, "testResults": [
        {"name": "/w/a/x.js", "status": "failed", "assertionResults": [{"title": "t", "ancestorTitles": ["d"], "status": "passed"}, {"title": "t", "ancestorTitles": ["d"], "status": "failed"}]}]}
    value.update(changes)
    return value


JE = [file(json.dumps(v), 1) for v in [
    jest(), jest(success=True), jest(numTotalTests=3), jest(numTodoTests=1), jest(numTodoTests=None), jest(numRuntimeErrorTestSuites=0), jest(numRuntimeErrorTestSuites=0, numTotalTestSuites=1, numFailedTestSuites=1), jest(numRuntimeErrorTestSuites=1, numTotalTestSuites=1, numFailedTestSuites=1), jest(wasInterrupted=True), jest(success="no"), jest(numTotalTests=2.0), jest(testResults=[]), [],
    jest(testResults=[dict(jest()["testResults"][0], name="")]), jest(testResults=[dict(jest()["testResults"][0], name="C:\\a\\x.js"), {"name": "C:\\b\\x.js", "assertionResults": []}]), jest(testResults=[dict(jest()["testResults"][0], status="passed")]), jest(testResults=jest()["testResults"] + [{"name": "/q", "status": "failed", "assertionResults": []}]),
    jest(testResults=[dict(jest()["testResults"][0]), {"name": "/x.js", "assertionResults": []}, {"name": "/w/b/c/x.js", "assertionResults": []}, {"name": "/w/a/c/x.js", "assertionResults": []}])]]
JE += [file("\ufeff" + json.dumps(jest())), file(json.dumps(jest())[:-3]), file(json.dumps(jest()) + "x"), file(json.dumps(jest(testResults=[{"name": "/w/a/x.js", "assertionResults": [{"title": "t", "ancestorTitles": [], "status": "passed", "invocations": 2}, {"title": "u", "ancestorTitles": [], "status": "failed"}]}])))]

# The base holds a test that no step has: no step is accepted, so the loop goes through all of them.
ALL = {"tap": (out("not ok 1 - base\n1..1\n"), TAP), "pytest": (out(HEAD + "FAILED t.py::base\n1 failed in 0.01s\n"), PYTEST),
       "go-json": (out(go(S, ("run", "p", "Base"), ("fail", "p", "Base"), VF, E1)), GO),
       "libtest": (out(LT + suite([("base", "FAILED")]) + ERR + END), LIB),
       "junit": (file(junit('<testcase classname="k" name="base"><failure/></testcase>')), J),
       "jest": (file(json.dumps(jest(numTotalTests=1, numPassedTests=0, testResults=[{"name": "/w/base.js", "assertionResults": [
           {"title": "base", "ancestorTitles": [], "status": "failed"}]}]))), JE)}
for _base, _steps in ALL.values():
    for _number, _step in enumerate(_steps):
        _step["number"] = "%d\n" % _number
