# SPDX-License-Identifier: Apache-2.0
"""Odd reports of go-json, jest, junit and lines (see odd_reports.py)."""
import json


def lines_of(*events):
    """Events of `go test -json`, one a line."""
    return "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in events)


def event(action, package="p", test=None, **more):
    return dict({"Action": action, "Package": package}, **dict({"Test": test} if test else {}, **more))


OK = [event("run", test="A"), event("pass", test="A")]
PASS = [event("output", Output="PASS\n"), event("pass")]

GO = [
    lines_of(*OK,*PASS), lines_of(*OK,*PASS)+"\r\n FAIL\n", lines_of(*OK,*PASS)+"FAIL\x0b\n", lines_of(*OK,*PASS)+"FAILx\n",
    lines_of(*OK,*PASS)+"FAIL\r", lines_of(event("start"),*OK,event("start"),*PASS), lines_of(event("start"),*OK,*PASS,event("start"),event("skip")),
    lines_of(event("start"),*OK,*PASS,event("start"),event("run",test="A"),event("fail",test="A"),event("output",Output="FAIL\n"),event("fail")),
    lines_of(event("run",test="A"),event("fail",test="A"),event("output",Output="FAIL"),event("fail"),event("start"),*OK,*PASS),
    lines_of(event("run",test="BenchmarkX"),*OK,*PASS), lines_of(event("pass",test="BenchmarkX"),event("bench",test="BenchmarkX"),*PASS),
    lines_of(event("bench",test="BenchmarkX"),*PASS), lines_of(event("fail",test="BenchmarkX"),event("run",test="BenchmarkX"),*PASS),
    lines_of(*OK,event("output",Output="PASS\n\n"),event("pass")), lines_of(*OK,event("output",Output="PASS\r\n"),event("pass")),
    lines_of(*OK,event("output",Output="PASS\n"),event("output",Output="FAIL\n"),event("pass")),
    lines_of(*OK,event("output",Output="ok \tp\t(cached)\n"),*PASS), lines_of(*OK,event("output",Output=5),*PASS),
    lines_of(*OK,event("output",Output=None),*PASS), lines_of({"Action":"pass","Package":None},*OK,*PASS),
    lines_of({"Action":"x","Test":""},*OK,*PASS), lines_of({"Action":"x","Package":"","Test":"T"},*OK,*PASS),
    lines_of('{"Action":"x","Elapsed":1e999}',*OK,*PASS), lines_of('{"Action":"x","Elapsed":99999999999999999999999999}',*OK,*PASS),
    lines_of('{"Action":"x","E":-0,"F":-0.0}',*OK,*PASS), lines_of('{"Action":"x","E":"\\ud800"}',*OK,*PASS),
    lines_of('{"Action":"x","E":"\\ud83d\\ude00"}',*OK,*PASS), lines_of('{"Action":"x","E":"\\ude00\\ud83d"}',*OK,*PASS),
    lines_of('{"Action":"x","E":"\\\\ud800"}',*OK,*PASS), lines_of('{"Action":"x","E":'+"["*62+"]"*62+"}",*OK,*PASS),
    lines_of('{"Action":"x","E":'+"["*63+"]"*63+"}",*OK,*PASS), lines_of('{"Action":"x","E":'+"["*64+"]"*64+"}",*OK,*PASS),
    lines_of('{"Action":"x","action":"y"}',*OK,*PASS), lines_of('{"Action":"x","Action":"x"}',*OK,*PASS), lines_of('{"Action":"x"}\x0c',*OK,*PASS),
    lines_of('{"Action":"x"} \t',*OK,*PASS), lines_of(' {"Action":5}',*OK,*PASS), lines_of("{}",*OK,*PASS),
    lines_of('{"Action":"x","E":1.}',*OK,*PASS), lines_of('{"Action":"x","E":01}',*OK,*PASS), lines_of('{"Action":"x","E":1E400}',*OK,*PASS),
    lines_of('{"Action":"x","E":1e-400}',*OK,*PASS), lines_of('{"Action":"x","E":'+"9"*310+"}",*OK,*PASS),
    lines_of('{"Action":"x","E":-'+"9"*308+"}",*OK,*PASS), lines_of('{"Action":"x","E":17976931348623159'+"0"*292+"}",*OK,*PASS),
    lines_of('{"Action":"x","E":"a\x7f\u0080"}',*OK,*PASS), lines_of('{"Action":"x","E":tru}',*OK,*PASS),
    lines_of('{"Action":"x","E":NaN}',*OK,*PASS), lines_of(*OK,event("fail",test="A"),*PASS), lines_of(*OK,*OK,*PASS),
    lines_of(event("run",test="A"),event("run",test="A/b"),event("fail",test="A/b"),event("pass",test="A"),event("output",Output="FAIL\n"),event("fail")),
    lines_of(*OK,event("output",Output="PASS\n"),event("fail",FailedBuild=None)), lines_of(*OK,event("skip")), lines_of(event("skip")),
    lines_of(*OK,*PASS,event("output",Output="x")), lines_of(event("pause",test="A"),*OK,*PASS), lines_of(*OK,*PASS,event("start",test="A")),]



def jest(tests, **more):
    """A report of one file with the counts that its tests call for."""
    def count(*words):
        return sum(test.get("status") in words for test in tests)
    value = {"success": count("failed") == 0, "numTotalTests": len(tests), "numPassedTests": count("passed"), "numFailedTests": count("failed"),
             "numPendingTests": count("pending", "skipped", "disabled"), "testResults": [{"name": "/w/x.js", "assertionResults": tests}]}
    return json.dumps(dict(value, **more))


def one(**more):
    return dict({"title": "t", "ancestorTitles": [], "status": "passed"}, **more)


JEST = [
    jest([one(invocations=10**25)]), jest([one(invocations=18446744073709551616)]), jest([one(invocations=2.0)]), jest([one(invocations="2")]),
    jest([one(invocations=True)]), jest([one(retryReasons="x")]), jest([one(retryReasons={"a":1})]), jest([one(failureMessages=[None])]),
    jest([one()],numTodoTests=10**25), jest([one()],numTotalTests=1.0), jest([one()],numTotalTests=True),
    jest([one()]).replace('"numTotalTests": 1','"numTotalTests": 1e0'), jest([one()]).replace('"numTotalTests": 1','"numTotalTests": -0'),
    jest([one()],numPassedTests=10**25), jest([one()],numRuntimeErrorTestSuites=None),
    jest([one()],numRuntimeErrorTestSuites=10**25,numTotalTestSuites=1,numFailedTestSuites=0),
    jest([one()],numRuntimeErrorTestSuites=-1,numTotalTestSuites=1,numFailedTestSuites=0),
    jest([one()],numRuntimeErrorTestSuites="0",numTotalTestSuites=1,numFailedTestSuites=0), jest([one()],numTotalTestSuites="x"),
    jest([one()],wasInterrupted="true"), jest([one()],success=1), jest([one(title="")]), jest([one(title="\x00")]),
    jest([one(title="a > b"),one(title="b",ancestorTitles=["a"])]), jest([one(),one(),one(title="t #2")]), jest([one(ancestorTitles=[5])]),
    jest([one(status="focused")]), jest([one(status=None)]), jest([one()],testResults=[{"name":"/","assertionResults":[one()]}]),
    jest([one(),one()],testResults=[{"name":"/","assertionResults":[one()]},{"name":"//","assertionResults":[one()]}]),
    jest([one(),one()],testResults=[{"name":"a\\x.js","assertionResults":[one()]},{"name":"b/x.js","assertionResults":[one()]}]),
    jest([one()],testResults=[{"name":"x"*4097,"assertionResults":[one()]}]),
    jest([one()],testResults=[{"name":"é"*2048,"assertionResults":[one()]}]),
    jest([one()],testResults=[{"name":"/w/x.js","status":None,"assertionResults":[one()]}]),
    jest([one()],testResults=[{"name":"/w/x.js","status":"failed","assertionResults":[one()]}]), "\ufeff\ufeff"+jest([one()]), jest([one()])+"\x00",
    jest([one()])+"\u00a0", "["+jest([one()])+"]", jest([one()]).replace("{",'{"a":"\\u0000",',1), jest([one()]).replace("{",'{"a":1,"a":2,',1),
    jest([],success=True), jest([],success=False),]



def case(name="a", inner="", more=""):
    return '<testcase classname="k" name="%s" %s>%s</testcase>' % (name, more, inner)


def junit(body, more="", before="", behind=""):
    return before + "<testsuites><testsuite %s>%s</testsuite></testsuites>" % (more, body) + behind


JUNIT = [
    junit(case(more='status="s\u212aip"')), junit(case(more="a='1'b='2'")), junit(case(more='a = "1"')), junit(case(more='a')),
    junit(case(more='a=1')), junit(case(more='a="<"')), junit(case(more='a=">"')), junit(case(more='a="&lt;&#65;&#x41;"')),
    junit(case(more='a="&#0;"')), junit(case(more='a="&#xD800;"')), junit(case(more='a="&#x110000;"')), junit(case(more='a="&#+5;"')),
    junit(case(more='a="&#x+5;"')), junit(case(more='a="&#X41;"')), junit(case(more='a="&;"')), junit(case(more='a="&"')),
    junit(case(more='a="& lt;"')), junit(case(more='a="&amp"')), junit(case(more='a="\n\t"')), junit(case(name="a&#10;b")), junit(case(name="a\nb")),
    junit(case(name="&#x1;")), junit(case(more=':="1"')), junit(case(more='1="1"')), junit(case(more='a\u00a0="1"')),
    junit(case(more='\u00a0a="1"')), junit(case(more='xmlns:x="y" x:name="z"')), junit("<x:testcase name='a'/>"+case()), junit("<testcase/>"),
    junit("<testcase name=''/>"), junit('<testcase name="a" name="b"/>'), junit("<testcase\u00a0name='a'/>"+case()),
    junit(case()+"< testcase name='b'/>"), junit(case()+"<testcase name='b' / >"), junit(case()+"<testcase name='b'/ >"),
    junit(case()+"</ testcase>"), junit("<testcase name='a'></testcase >"), junit("<testcase name='a'></testcase x='1'>"),
    junit("<testcase name='a'></testcase\n>"), junit("<testcase name='a'>]]></testcase>"), junit("<testcase name='a'>&#x0;</testcase>"),
    junit("<testcase name='a'>&nbsp;</testcase>"), junit("<testcase name='a'>&</testcase>"), junit("<testcase name='a'>& &lt;</testcase>"),
    junit("<testcase name='a'>a;&#+5;</testcase>"), junit("<testcase name='a'>&#x+5;</testcase>"), junit("<testcase name='a'>&#XA;</testcase>"),
    junit("<testcase name='a'><![CDATA[ ]] > ]]></testcase>"), junit("<testcase name='a'><![cdata[x]]></testcase>"),
    junit("<testcase name='a'><!--x--y--></testcase>"), junit("<testcase name='a'><!-></testcase>"), junit("<testcase name='a'><!--></testcase>"),
    junit("<testcase name='a'><!---></testcase>-->"), junit("<testcase name='a'><!-- --></testcase>"),
    junit(case(),before="\n<?xml version='1.0'?>"), junit(case(),before="<?xml?>"), junit(case(),before="<?xml version='1.0' encoding='utf-16'?>"),
    junit(case(),before="<?xml version='1.0' encoding=utf-8?>"), junit(case(),before="<?xml version='1.0' Encoding='latin1'?>"),
    junit(case(),before="<?xml encoding='UTF-8' encoding='latin1'?>"), junit(case(),before="<?xml version='1.0' xencoding='latin1'?>"),
    junit(case(),before="<?xml version='1.0'encoding='latin1'?>"), junit(case(),before="<?xml x='encoding=\"latin1\"'?>"),
    junit(case(),before="<?XML?>"), junit(case(),before="<?xmlx?>"), junit(case(),before="<?xml version='>'?>"),
    junit(case(),before="<?xml version='?>'?>"), junit(case(),before="<?xml\u00a0?>"), junit(case(),before="<?xml version='1.0'?><?xml?>"),
    junit(case(),before="\ufeff\ufeff"), junit(case(),before="\ufeff\ufeff\ufeff"), junit(case(),before="\u00a0"), junit(case(),behind="\u00a0"),
    junit(case(),behind="\x0c"), junit(case(),behind="\x00"), junit(case(),behind="&lt;"), junit(case(),behind="&#32;"), junit(case(),behind="<"),
    junit(case(),behind="<!-- "), junit(case(),before="<!-- x -->"), junit(case(),behind="<![CDATA[]]>"), junit(case(),'tests="+1"'),
    junit(case(),'tests="01"'), junit(case(),'tests="1 "'), junit(case(),'tests=""'), junit(case(),'tests="18446744073709551616"'),
    junit(case(),'tests="18446744073709551615" skipped="18446744073709551615"'),
    junit(case(),'disabled="18446744073709551615" skipped="18446744073709551615" tests="18446744073709551615"'),
    junit(case(),'failures="18446744073709551615" errors="18446744073709551615"'), junit(case(),'tests="1.0"'), junit(case(),'tests="\u0661"'),
    junit(case(more='tests="x"')), junit(case()+case(),'tests="1"'), junit(case()+case(),'tests="2"'),
    junit(case(inner="<failure/>")+case(),'tests="1" failures="1"'), junit(case(inner="<failure/><failure/>"),'failures="1"'),
    junit(case(inner="<failure/><skipped type='todo'/>"),'failures="0"'), junit(case(inner="<failure/><skipped type='todo'/>"),'failures="1"'),
    junit(case(inner="<skipped/>",more='status="failed"'),'failures="0"'), junit(case(inner="<skipped/>",more='status="failed" result="skipped"')),
    junit(case(inner="<x><failure/></x>")), junit(case(inner="<Failure/>")), junit(case(inner="<flakyFailure/>"),'failures="0"'),
    junit(case(inner="<rerunError/>"),'errors="1"'), junit("<failure/>"), junit("<x><testcase name='b'/></x>"),
    junit("<testsuite name='i' tests='1'>"+case()+"</testsuite>",'tests="2"'), junit("<testsuitex/>"+case()), junit(case(inner="<testsuitex/>")),
    junit("<properties><testcases/></properties>"+case()),
    "<testsuite name='k'>"+"<testcase name='k' classname='k'><failure/></testcase></testsuite>",
    "<testsuite><testcase name='t (i=1)' file='a.py'/><testcase name='t [m] (i=2)' file='a.py'><failure/></testcase></testsuite>",
    "<testsuite><testcase name='t\u0301 (i)' file='a.py'/><testcase name='\u00b2 (i)' file='a.py'/><testcase name=' (i)' file='a.py'/></testsuite>",
    "<testsuite name='pytest' tests='9'>"+case()+"</testsuite>",
    "<testsuites name='pytest tests'><testsuite tests='9'>"+case()+"</testsuite></testsuites>",
    "<testsuites>"+"<testsuite>"*62+case()+"</testsuite>"*62+"</testsuites>",
    "<testsuites>"+"<testsuite>"*63+case()+"</testsuite>"*63+"</testsuites>", junit(case(more=" ".join('a%d="1"'%i for i in range(62)))),
    junit(case(more=" ".join('a%d="1"'%i for i in range(63)))), "<testsuite/>", "<testsuites>"+case()+"</testsuites>",]

LINES = [
    "ok a\x0b\ndone 1\n", "ok \x0ba\ndone 1\n", "ok a\x1c\ndone 1\n", "ok a\u00a0\ndone 1\n", "ok a\ndone\t1\n", "ok a\ndone 1 1\ndone 1\n",
    "ok a\ndone +1\n", "ok a\ndone 01\n", "ok a\ndone 18446744073709551616\ndone 1\n", "ok a\ndone \u0661\ndone 1\n", "ok a\x00b\ndone 1\n",
    "\ufeffok a\nok b\ndone 1\n", "ok a\r\r\ndone 1\r\n", "ok a\rok b\ndone 1\n", "ok a\u2028ok b\ndone 1\n", "ok a\ndone 1\ndone \n",
    "ok a\ndone 1\nok \n", "ok a\ndone 1\nok x", "OK a\nok b\ndone 1\n", "ok a\nfail a\nskip a\ndone 3\n", "ok e\u0301\nok \u00e9\ndone 2\n",
    "ok a\x0c\ndone 1\n", "ok \udcff\ndone 1\n", "x \udcff\nok a\ndone 1\n", "ok a\ndone 1\n\udcff \n",]
