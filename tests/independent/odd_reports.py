# SPDX-License-Identifier: Apache-2.0
"""Odd reports that both readers have to take in the same way: what stands at the edges of report-formats.md."""
HEAD = "==== short test summary info ====\n"


def pytest(body, last):
    """A summary and a last line."""
    return HEAD + body + last + "\n"


LT = "     Running unittests src/lib.rs (target/debug/deps/foo-0123456789abcdef)\n"


def suite(tests, result=None, head=LT):
    """A binary of libtest, with the result line that its tests call for."""
    text = head + "running %d tests\n" % len(tests) + "".join("test %s ... %s\n" % one for one in tests)
    counts = tuple(sum(outcome.startswith(word) for _, outcome in tests) for word in ("ok", "FAILED", "ignored"))
    plain = "test result: %s. %d passed; %d failed; %d ignored; 0 measured; 0 filtered out; finished in 0.00s"
    return text + (result or plain % (("FAILED" if counts[1] else "ok",) + counts)) + "\n"


NONE = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n"
ONE = NONE.replace("0 passed", "1 passed")
A = [("a", "ok")]

LIBTEST = [
    suite([("a   ","ok")]), suite([("a  -","ok")]), suite([("a","ok  <0.1s>")]), suite([("a","ok <x<y>")]), suite([("a","FAILED <0.1s> ")]),
    suite([("a","ok")],"test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 measured; 0 filtered out"),
    suite([("a","ok")],"test result: ok. x passed; 1 passed; 0 failed; 0 ignored; 0 measured"),
    suite([("a","ok")],"test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured;0 filtered"),
    suite(A,head=LT.replace("0123456789abcdef","0123456789ABCDEF")), suite(A,head=LT.replace("foo-","-")),
    suite(A,head="     Running `A=1  /t/foo-0123456789abcdef --x`\n"), suite(A,head="     Running `/t/foo-0123456789abcdef --x\n"),
    suite(A,head="     Running   tests/x.rs (t/x-0123456789abcdef)\n")+suite([("b","ok")],head="     Running   tests/x.rs (t/x-0123456789abcdef)\n"),
    suite(A)+suite([("b","ok")],head="     Running unittests src/m.rs (d/foo-0123456789abcdef)\n")+suite([("c","ok")],head="     Running /d/foo-0123456789abcdef\n"),
    suite([("src/lib.rs - f (line 99999999999999999999999)","ok")],head="   Doc-tests foo\n"),
    suite([("src/lib.rs - f (line 5) - should panic","ok"),("src/lib.rs - f (line 5) - compile fail","ok")],head="   Doc-tests foo\n"),
    suite([("src/lib.rs -  (line 5)","ok"),("(line 5)","ok"),(" - (line 6)","ok")],head="   Doc-tests foo\n"),
    suite([("a - should panic","ok"),("a","FAILED")])+"error: test failed, to rerun pass `--lib`\n",
    suite([("a","FAILED")]).replace("test result: F","failures:\ntest result: ok. 0 passed; 1 failed; 0 ignored; 0 measured\ntest result: F"),
    "running 01 test\n"+"test a ... ok\n"+ONE, "running 1 tests\ntest a ...\nok\n"+ONE, "running 1 tests\ntest  ... ok\n"+ONE,
    "running 1 tests\ntest a ... b ... ok\n"+ONE, "running 1 test\ntest a ... bench: 5 ns\n"+NONE.replace("0 measured","1 measured"),
    "running 1 test\ntest a\u00a0 ... ok\u2003\n"+ONE, "running 1 test\ntest \x1b[1ma\x1b]0;x\x07 ... ok\n"+ONE,
    "running 1 test\r\ntest a ... ok\r\r\n"+ONE, "running 1 test\ntest a ... ok\n"+NONE.replace("0 passed","00000000000000000000001 passed"),
    "   Doc-tests \nrunning 0 tests\n"+NONE+suite(A), suite(A)+"error: 1 target failed:\n", suite(A)+"error: test failed, to rerun pass `x`\n",
    "test result: ok. 1\n"+suite(A), suite(A)+"     Running x (y)\n", suite(A,head="     Running (d/foo-0123456789abcdef)\n"),
    suite(A,head="     Running unittestsx (d/foo-0123456789abcdef.exe)\n")+suite([("b","ok")],head="     Running unittestsx (d/foo-0123456789abcdef.exe)\n"),
    suite(A,head="     Running a) (b (c\\d-0123456789abcdef)\n"),]

X = "1 passed in 0.01s"
PYTEST = [pytest("PASSED t.py::a\n", last) for last in [
    "1 passed in 0.10s (:))", "= 1 passed in 0.10s (a):b) =", "1 passed in 99999999999999999999999.0s", "1 passed in 0.1s (1 day, 0:00:01)",
    "1 passed in .1s", "1 passed in 0.s", "1 passed, 0 rerun, 1 warning in 0.1s", "1 passed, 1 error in 0.1s", "01 passed in 0.1s",
    "1 passed, 1 deselected, 2 deselected in 0.1s", "=  1 passed in 0.1s  =", "= 1 passed in 0.1s ==\t",
    "1 passed, 99999999999999999999999 warnings in 0.1s", "1 passed  in 0.1s", "1 passed in 1 passed in 0.1s", " 1 passed in 0.1s",
    "1 passed in 0.1s\n\u00a0\n\x1c\n", "1 passed in 0.1s\n\x1b[0m", "\x1b[32m=== 1 passed in 0.1s ===\x1b[0m", "1 passed in 0.1s ()",
    "1 passed in 0.1s (:)", "1 passed in 0.1s (:) (:)",]]
PYTEST += [pytest(body, last) for body, last in [
    ("SKIPPED [1] t.py:99999999999999999999999: r\nPASSED t.py::a\n","1 passed, 1 skipped in 0.1s"),
    ("SKIPPED [1] t.py:5:: r\nPASSED t.py::a\n","1 passed, 1 skipped in 0.1s"), ("SKIPPED [1] : r\nPASSED t.py::a\n","1 passed, 1 skipped in 0.1s"),
    ("SKIPPED [0] t.py:5: r\nPASSED t.py::a\n",X), ("SKIPPED [1] t.py::b - [x] y\nPASSED t.py::a\n","1 passed, 1 skipped in 0.1s"),
    ("SKIPPED [1]  t.py:5: r\nPASSED t.py::a\n","1 passed, 1 skipped in 0.1s"),
    ("SUBFAILED\t(i=1)\tt.py::a\nPASSED t.py::a\n","1 failed, 1 passed in 0.1s"),
    ("SUBFAILED[x] (i=1) t.py::a\nPASSED t.py::a\n","1 failed, 1 passed in 0.1s"), ("SUBFAIL t.py::a - m\nFAILED t.py::a\n","2 failed in 0.1s"),
    ("SUBFAILEDx t.py::a\nPASSED t.py::a\n","1 failed, 1 passed in 0.1s"),
    ("SUBSKIPPED[x] [3] t.py:5: r\nPASSED t.py::a\n","1 passed, 3 skipped in 0.1s"),
    ("SUBSKIPPED[x] t.py::a\nPASSED t.py::a\n","1 passed, 1 skipped in 0.1s"), ("SUBXFAIL\nPASSED t.py::a\n","1 passed, 1 xfailed in 0.1s"),
    ("SUBFAILED((x) ) t.py::a\nPASSED t.py::a\n","1 failed, 1 passed in 0.1s"), ("PASSED  t.py::a\n",X), ("PASSED\tt.py::a\n",X),
    ("PASSED t.py::a\u00a0\n",X), ("PASSED t.py::a[ - ] - x]\n",X), ("PASSED a - b.py::t - c::d\n",X), ("PASSED a.py::b.py - c::x\n",X),
    ("PASSED - ::\n",X), ("PASSED  - \n",X), ("PASSED t.py::a at 0xZ at 0x1F at 0x\nPASSED t.py::a at 0xZ at 0x2f at 0x\n","2 passed in 0.1s"),
    ("ERROR t.py - x::y\nPASSED t.py::a\n",X), ("ERROR t.py::a\nERROR t.py::a\nPASSED t.py::a\n","1 passed, 2 errors in 0.1s"),
    ("ERROR t.py::a\nPASSED t.py::a\nPASSED t.py::a\n","2 passed, 1 error in 0.1s"),
    ("ERROR t.py::b\nERROR t.py::b\nPASSED t.py::a\n","1 passed, 2 errors in 0.1s"),
    ("PASSED t.py::a\nFAILED t.py::b\n!!! stopping after 1 failures !!!\n","1 failed, 1 passed in 0.1s"),
    ("PASSED t.py::a\n! stopping after 99999999999999999999999 failures !\n",X),
    ("PASSED t.py::a\n!! xdist.dsession.Interrupted: stopping after 1 failures !!\nPASSED t.py::z\n",X), ("PASSED t.py::a\n!  !\n",X),
    ("PASSED t.py::a\n= x =\nPASSED t.py::z\n",X), ("PASSED t.py::a\n=  =\nPASSED t.py::z\n",X), ("PASSED t.py::a\n= =\n",X),
    ("xPASSED t.py::z\nPASSED t.py::a\n\n\nPASS\nPASSEDx\n",X), ("XPASS t.py::a\nXFAIL t.py::b - r\n","1 xfailed, 1 xpassed in 0.1s"),
    ("PASSED t.py::\u00e9\u0301\nPASSED t.py::e\u0301\u0301\n","2 passed in 0.1s"), ("PASSED t.py::a\rPASSED t.py::z\n",X),
    ("PASSED t.py::a\x0bPASSED t.py::z\n",X), ("PASSED t.py::a\u2028PASSED t.py::z\n",X),]]
TAP = [
    "ok 1 - a # time=5mms\n1..1\n", "ok 1 - a # time=s\n1..1\n", "ok 1 - a # time=ms\n1..1\n", "ok 1 - a # time=.s \n1..1\n",
    "ok 1 - a # time=1ms # time=2ms\n1..1\n", "ok 1 - a # x # time=2ms\n1..1\n", "ok 1 -\u00a0a\n1..1\n", "ok 1\u00a0- a\n1..1\n",
    "ok\u00a01 - a\n1..1\nok 1 b\n", "ok\t1\t-\ta\n1..1\n", "ok 1 -- a\n1..1\n", "ok 1  -  a\n1..1\n", "ok 1 - # SKIP\n1..1\nx\n",
    "ok 1 - a # skipskipskipskipskip\n1..1\n", "ok 1 - a #\u00a0SKIP\n1..1\n", "ok 1 - a \\\\\\# SKIP\n1..1\n",
    "ok 00000000000000000000001 - a\n1..1\n", "ok 18446744073709551616 - a\n1..1\n", "ok 1 - a\n1..1 \u00a0# x\n", "ok 1 - a\n1..1#x\n",
    "ok 1 - a\n1..01\n", "ok 1 - a\n1..1 x\n1..1\n", "Bail Out!\nok 1\n1..1\n", "ba\u0131l out!\nok 1\n1..1\n", "ok {\n1..1\n", "ok 1 {\n1..1\n",
    "ok 1 - {\n1..1\n", "ok 1 - a # SKIP {\n1..1\n", "ok 1 - a {\u00a0\n1..1\n", "    ok 1\n    1..1\nok 1 - x.js\n1..1\n",
    "ok 5 - x.js\nok 1 - y\n1..2\n", "ok 5 - /a/x.js\nok 2 - y\n1..2\n", "ok - /a b/x.ts\nok - /c/x.ts\n1..2\n",
    "not ok - x.js\n  ---\n  exitCode: 1\n  ...\n1..1\n", "not ok - x.js\n  ---\n    exitCode: 1\n  ...\n1..1\n",
    "not ok - x.js\n  --- \n  exitCodes: 1\n  ... \n1..1\n", "ok 1 - C:\\a\\b.tsx\n1..1\n", "ok 1 - c:/b.js c\n1..1\n",
    "ok 1 - a\u00a0b.js\nok 1 - c\n1..2\n", "    1..0\nok 1 - p\n1..1\n", "    1..0\n1..1\nok 1\n",
    "    TAP version 13\n    ok 1\n    1..1\nok 1 - p\n1..1\n", "    ok 1\nTAP version 13\n1..1\nok 1\n",
    "# Subtest: x\n    # Subtest: y\n        ok 1\n        1..1\n    ok 1 - y\n    1..1\nok 1 - x\n1..1\n", "    # Subtest: y\nok 1\n1..1\n",
    "    ok 1 # TODO\n    1..1\nnot ok 1 - p # SKIP\n1..1\n", "    not ok 1 # TODO x\n    1..1\nok 1 - p\n1..1\n",
    "    ok 1\n    ok 2\n    1..2\nok 1 - p\nok 2 - p > #1\n1..2\n", "ok 1 - a\n  ---\nok 2 - b\n1..2\n",
    "ok 1 - a\n  ---\n x ok\n# c\n  ...\n1..1\n", "ok 1 - a\n   ---\nok 2\n1..2\n", "\x1b]not\x07ok 1\n1..1\n", "ok 1 - a\x1b]x\n1..1\n",
    "ok 1 - a\x1b[\n1..1\n", "ok 1\n1..1\n\n\n ", "ok 1\n1..1\n#", "pragma +strict\nok 1\n1..1\n", "1..1\nok 1\nTAP version 13\n",
    "ok 1 - \u212aelvin\nok 2 - kelvin\n1..2\n",]
