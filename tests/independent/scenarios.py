# SPDX-License-Identifier: Apache-2.0
"""The loops that compare.py makes; each converges, regresses, oscillates or halts in its own way."""
import json
import os
import select
import subprocess

import samples
from compare import Scenario
from odd_loops import odd


def lines(**tests):
    """A report in the format lines with its exit code."""
    out = "".join("%s %s\n" % ({"p": "ok", "f": "fail", "s": "skip"}[v], k) for k, v in tests.items())
    return {"out": out + "done %d\n" % len(tests), "code": "1\n" if "f" in tests.values() else "0\n"}


def raw(text, code):
    return {"out": text, "code": "%d\n" % code}


def cost(step, **fields):
    """A step as shell text that also writes its cost."""
    import base64
    text = "".join("echo %s | base64 -d > src/%s\n" % (base64.b64encode(v.encode()).decode(), k) for k, v in step.items())
    return text + "cat > \"$GIT_LOOP_EVIDENCE\" <<'EOC'\n%s\nEOC\n" % json.dumps({"summary": "did it", "cost": fields})


RED = lines(a="f", b="f", c="p")
EXTERNAL = {"check.format": "none", "check.external": True, "roles.verifier": ["verifier@example.org"]}


def plain(world, wanted):
    """Loops of one run; `wanted` says of a name whether it is made."""
    F, P = "f", "p"
    table = {
        "lines": (RED, [lines(a="p", b="f", c="p"), lines(a="p", b="p", c="f"), lines(a="p", b="p", c="p")], {}),
        "met": (lines(a="p"), [lines(a="p")], {}),
        "nochange": (RED, ["true"], {}),
        "same": (RED, [dict(lines(a="f", b="f", c="p"), x="1"), dict(lines(a="f", b="f", c="p"), x="2"), dict(lines(a="f", b="f", c="p"), x="3")], {}),
        "nothing": (RED, [lines(a="f", b="f", c="p"), "echo x > src/x", "echo y > src/x", "echo z > src/x"], {"limits.no_progress": 4}),
        "regress": (RED, [lines(a="f", b="f", c="f"), dict(lines(a="p", b="f", c="f"), x="2"), RED], {"limits.no_progress": 9}),
        "oscillate": (lines(a=F, b=F, c=F), [lines(a=F, b=P, c=F), lines(a=P, b=F, c=F), dict(lines(a=F, b=P, c=F), x="1"), dict(lines(a=P, b=F, c=F), x="1"), dict(lines(a=F, b=P, c=F), x="2")], {"limits.no_progress": 9, "limits.regression_limit": 9}),
        "contradict": (lines(a=F, b=P), [lines(a=P, b=F), dict(lines(a=F, b=P), x="1"), dict(lines(a=P, b=F), x="2"), dict(lines(a=F, b=P), x="3")], {"limits.no_progress": 9, "limits.regression_limit": 9, "limits.oscillation_limit": 9}),
        "iterations": (RED, [lines(a=P, b=F, c=P), "echo 1 > src/x"], {"limits.iterations": 2}),
        "unread": (RED, [lines(a=P, b=F, c=P)], {"limits.unread_diffs": 1}),
        "drift": (RED, ["echo x >> tests/run.sh"], {}),
        "driftsoft": (RED, ["echo x >> tests/run.sh; echo > tests/new; rm -f README", "chmod +x tests/run.sh; rm -rf tests; mkdir -p Tests; echo > Tests/RUN.sh", "rm -rf tests; ln -s src tests", "rm tests/run.sh; ln -s ../src/out tests/run.sh"], {"guards.on_violation": "reject", "limits.no_progress": 5, "limits.iterations": 4}),
        "blocked": (RED, ["echo x > .env; mkdir -p .loops sub; echo > .loops/x; ln -s /etc/passwd src/l; ln -s ../../x src/m; ln -s ../README src/ok; echo > sub/.gitattributes; echo > src/OUT; mkdir -p SRC; echo > SRC/out; echo > .gitmodules"], {"paths.blocked": ["doc/**"]}),
        "blockedsoft": (RED, ["mkdir -p doc 'src/.git ' ; echo > doc/x; echo > 'src/.git /x'; printf x > \"src/a$(printf '\\001')b\"", "mkdir -p Doc; echo > Doc/x; echo > src/..; echo > 'src/.. '; echo > 'src/. .'", "echo > src/gitmod~1; echo > src/GI7EBA~1; echo > src/env~1; echo > src/.Envrc; echo > 'src/a\\.git'; echo > 'src/git~2'; echo > 'src/.git:x'", "ln -s l2 src/l1; ln -s l1 src/l2; ln -s . src/d; ln -s d/../../x src/e; ln -s 'C:x' src/c; ln -s 'a\\..\\..\\..\\b' src/bs; ln -s ../.git/config src/g"], {"paths.blocked": ["doc/**"], "guards.on_violation": "reject", "limits.no_progress": 9, "limits.iterations": 4}),
        "named": (RED, ["echo x > .env; echo > src/Out; echo > .gitattributes", "echo x > .ENV"], {"paths.mutable": ["src/**", ".env", ".gitattributes", "/top"], "limits.iterations": 3, "guards.on_violation": "reject"}),
        "outside": (RED, ["echo x > top; echo x > src/x", "echo y > src/y; mkdir -p other; echo > other/a; rm README"], {"limits.iterations": 3}),
        "patterns": (RED, ["mkdir -p src/a/b lib/x/y; echo > src/a/b/c.txt; echo > lib/x/y/z; echo > 'lib/[x]'; echo > a.md; echo > lib/keep", "mkdir -p src/q; echo > src/q/no; echo > src/yes; echo > 'src/#x'"], {"paths.mutable": ["src/**", "!src/q/", "*.md", "lib/**/z", "/lib/\\[x\\]", "\\#x", "lib/[j-l]eep"], "limits.iterations": 3}),
        "lost": (RED, [lines(a=P, b=P)], {}),
        "lostsoft": (RED, [lines(a=P, b=P), lines(a=P, b=P, c="s"), lines(a="s", b=P, c=P), lines(a=P, b=P, c=P)], {"guards.on_violation": "reject"}),
        "skipfail": (RED, [lines(a="s", b=P, c=P)], {}),
        "badreport": (RED, [raw("ok a\ndone 2\n", 0), raw("ok a\nok b\nok c\n", 0), raw("ok a\nfail b\nok c\ndone 3\n", 0), raw("ok a\nok b\nok c\ndone 3\n", 1), raw("skip a\ndone 1\n", 0), raw("done 0\n", 0)], {"limits.no_progress": 9}),
        "badreport2": (RED, [raw("ok a\nok a\nfail a\nok b\nok c\ndone 5\n", 1), raw("ok a\r\nok  b \nok\tz\n ok c\nokay\nok c\ndone  3 \n", 0), raw("ok \nok a\nok b\nok c\ndone 4\n", 0)], {"limits.no_progress": 9, "limits.iterations": 3}),
        "twins": (raw("ok a\nfail a\nok b\nok a #2\ndone 4\n", 1), [raw("fail a\nok b\nok a #2\nok a\ndone 4\n", 1), raw("ok a\nok b\nok a #2\ndone 3\n", 0), raw("ok a\nok a\nok b\nok a #2\ndone 4\n", 0)], {"limits.no_progress": 9, "guards.on_violation": "reject"}),
        "merged": (raw("ok a\nfail a\nok b\nok a #2\ndone 4\n", 1), [raw("ok a\nok b\nok a #2\ndone 3\n", 0)], {"check.same_ids": "merged"}),
        "workerfail": (RED, ["echo x > src/x; exit 3"], {}),
        "workerreject": (RED, ["echo x > src/x; exit 3", "kill -9 $$", "sleep 5", lines(a=P, b=P, c=P)], {"worker.on_failure": "reject", "worker.timeout": "1s", "limits.no_progress": 9}),
        "workercheck": (RED, [raw("ok a\nok b\nok c\ndone 3\n", 0), "exit 4"], {"worker.on_failure": "check"}),
        "checktimeout": (RED, ["echo 'sleep 9' > src/pre"], {"limits.iterations": 2, "check.timeout": "1s"}),
        "deadline": (RED, ["sleep 3; echo > src/x"], {"limits.duration": "2s"}),
        "cost": (RED, [cost(lines(a=P, b=F, c=P), prompt_tokens=10, completion_tokens=5, usd=0.1), cost(lines(a=P, b=P, c=P), prompt_tokens=1, completion_tokens=2, usd="0.0123456")], {"worker.usage": "json", "limits.tokens": 1000}),
        "costover": (RED, [cost(RED, usd=0.1), cost(dict(RED, x="1"), usd=5)], {"worker.usage": "json", "limits.no_progress": 9}),
        "costmet": (RED, [cost(lines(a=P, b=P, c=P), usd=5)], {"worker.usage": "json"}),
        "costunknown": (RED, [cost(dict(RED, x="1"))], {"worker.usage": "json"}),
        "costallow": (RED, [cost(dict(RED, x="1")), cost(dict(RED, x="2"), usd=0), "echo 3 > src/x"], {"worker.usage": "json", "limits.unknown_cost": "allow", "limits.cost_usd": "1.000001", "limits.iterations": 3}),
        "tokens": (RED, [cost(dict(RED, x="1"), prompt_tokens=70, completion_tokens=20, usd=0.01), cost(dict(RED, x="2"), prompt_tokens=70, completion_tokens=20, usd=0.01)], {"worker.usage": "json", "limits.tokens": 100}),
        "notokens": (RED, [cost(dict(RED, x="1"), prompt_tokens=70, usd=0.01)], {"worker.usage": "json", "limits.tokens": 100}),
        "reserve": (RED, [cost(dict(RED, x="1"), usd=0.5)], {"worker.usage": "json", "worker.reserve_usd": 0.6}),
        "anomaly": (RED, [cost(dict(RED, x=str(i)), usd=u) for i, u in enumerate((0.01, 0.011, 0.012, 0.3))], {"worker.usage": "json", "limits.no_progress": 9}),
        "exit": (raw("hello\n", 3), ["echo 1 > src/x", raw("x", 0)], {"check.format": "none", "metric.from": "exit"}),
        "regex": (raw("score: 3.5\n", 0), [raw("score: 3.1 score: 3e0\n", 0), raw("x\nscore: 2.9999\nnothing\n", 0), raw("nothing\n", 0), raw("score: +1.\r\nz\n", 0), raw("score: -0\n", 0)], {"check.format": "none", "metric.from": "regex", "metric.pattern": "score: (\\S+)$", "metric.min_improvement": 0.1, "limits.no_progress": 9}),
        "json": (raw('{"a":{"b":[1,7]}}\n', 0), [raw('log\n{"a":{"b":[1,6.5]}}\n[]\n', 0), raw('{"a":{"b":[1,"6"]}}', 0), raw('{"a":{"b":[1,1e-7]}}', 0), raw('{"a":{"b":[1,10000000000000000000000]}}', 0)], {"check.format": "none", "metric.from": "json", "metric.pointer": "/a/b/1", "metric.direction": "minimize", "limits.no_progress": 9}),
        "maximize": (raw("3\n", 0), [raw("1\n", 0), raw("40000000000000000000000\n", 0), raw("1e300\n", 0)], {"check.format": "none", "metric.from": "regex", "metric.pattern": "^([0-9e]+)$", "metric.direction": "maximize", "metric.target": 1e299}),
        "lasting0": (RED, [lines(a=P, b=P, c=P)], {"objective": "  a\tb \u00a0 c\u200b \\ " + "\u00e4" * 70, "metric.name": "x y\u00e9\u3000z"}),
        "success7": (lines(a=F, b=P), [raw("ok a\nok b\ndone 2\n", 7)], {"check.success_exit_code": 7}),
    }
    for name, (base, steps, terms) in table.items():
        if wanted(name):
            yield Scenario(world, name, base, steps, terms).run()


def special(world, wanted):
    """Loops with more commands than run."""
    for make in (started, stopped, finding, promoted, rejected, renewed, external, recorded, repeat, flaky, sha256, packed,
                 verdict_file, junit, jest, texts, formats, odd, timeouts, abandoned, shared):
        if wanted(make.__name__):
            yield from make(world)


def stopped(world):
    s = Scenario(world, "stopped", RED, [lines(a="p", b="f", c="p"), lines(a="p", b="p", c="p")]).run("--once")
    s.loop("stop", "stopped", "--reason", "lunch", "--key", world.key("ann"))
    s.run("--resume")
    yield s
    s = Scenario(world, "stopped-early", RED, [lines(a="p", b="p", c="p")])
    s.loop("start", s.name, "-f", os.path.join(world.work, "loop-%s.toml" % s.name))
    s.loop("stop", s.name, "--key", world.key("ann"))
    s.run("--resume")
    yield s


def shared(world):
    """A loop that is run under leases: taken and given up, renewed by a later run, ended by a stop and by the target."""
    s = Scenario(world, "shared", lines(a="f", b="f", c="f"), [lines(a="p", b="f", c="f"), lines(a="p", b="p", c="f"), lines(a="p", b="p", c="p")]).run("--once")
    remote = os.path.join(world.work, "shared.git")
    s.git("init", "-q", "--bare", remote)
    s.git("remote", "add", "origin", remote)
    s.loop("sync")
    s.run("--once")
    s.loop("stop", s.name, "--reason", "lunch", "--key", world.key("ann"))
    s.loop("sync")
    s.run("--resume")
    yield s


def started(world):
    s = Scenario(world, "started", RED, ["true"])
    s.loop("start", s.name, "-f", os.path.join(world.work, "loop-%s.toml" % s.name))
    yield s


def finding(world):
    s = Scenario(world, "finding", RED, [lines(a="p", b="f", c="p"), lines(a="p", b="p", c="p")]).run("--once")
    s.loop("finding", s.name, "add", "--severity", "warn", "--message", "hm", "--key", world.key("verifier"))
    s.loop("finding", s.name, "add", "--severity", "block", "--message", "no", "--key", world.key("ann"))
    record = s.tip()
    s.run()
    s.loop("finding", s.name, "resolve", record, "--message", "fine", "--key", world.key("ann"))
    s.run()
    yield s
    s = Scenario(world, "finding-mid", RED, [lines(a="p", b="p", c="p")])
    s.loop("start", s.name, "-f", os.path.join(world.work, "loop-%s.toml" % s.name))
    s.loop("checkpoint", s.name, "--json")
    s.loop("finding", s.name, "add", "--severity", "block", "--message", "no", "--key", world.key("ann"))
    rev = candidate(s, lines(a="p", b="p", c="p"))
    s.code = s.loop("record", s.name, "--candidate", rev).returncode
    yield s


def candidate(s, files, parent=None):
    """A user's commit on top of a commit with these files in src."""
    green = parent or json.loads(s.loop("status", s.name, "--json").stdout)["last_green_commit"]
    s.git("checkout", "-q", "--detach", green)
    for path, text in files.items():
        s.write(os.path.join(s.dir, "src", path), text)
    s.git("add", "-A")
    s.git("commit", "-qm", "x", "--allow-empty")
    rev = s.git("rev-parse", "HEAD").stdout.decode().strip()
    s.git("checkout", "-q", "main")
    return rev


def promoted(world):
    s = Scenario(world, "promoted", RED, [lines(a="p", b="p", c="p")]).run()
    s.loop("review", s.name, "--approve", "--comment", "ok", "--persona", "security", "--attest", "read", "--attest", "ab=false", "--key", world.key("ann"))
    s.loop("review", s.name, "--approve", "--key", world.key("verifier"))
    s.loop("finding", s.name, "add", "--severity", "warn", "--message", "hm", "--key", world.key("verifier"))
    s.loop("promote", s.name, "--key", world.key("verifier"))
    yield s


def rejected(world):
    s = Scenario(world, "rejected", RED, [lines(a="p", b="p", c="p")]).run()
    s.loop("review", s.name, "--approve", "--key", world.key("verifier"))
    s.loop("review", s.name, "--reject", "--key", world.key("ann"))
    yield s


def renewed(world):
    s = Scenario(world, "parent", RED, [lines(a="p", b="f", c="p"), lines(a="p", b="p", c="p")], {"limits.iterations": 1}).run()
    s.loop("finding", s.name, "add", "--severity", "warn", "--message", "hm", "--key", world.key("ann"))
    yield s
    s.loop("renew", "parent", "renewed", "--limit", "iterations=4", "--limit", "tokens=1000", "--limit", "cost_usd=2")
    s.name = "renewed"
    s.code = s.loop("run", "renewed").returncode
    yield s
    s.loop("renew", "renewed", "renewed2", "--limit", "cost_sigma=4.5")
    s.name = "renewed2"
    s.code = s.loop("run", "renewed2").returncode
    s.loop("review", s.name, "--approve", "--key", world.key("ann"))
    s.loop("promote", s.name, "--key", world.key("ann"))
    yield s


def external(world):
    s = Scenario(world, "external", RED, ["true"], EXTERNAL)
    s.loop("start", s.name, "-f", os.path.join(world.work, "loop-%s.toml" % s.name))
    for failures in (["a"], ["a", "b"], []):
        opened = json.loads(s.loop("checkpoint", s.name, "--json").stdout)
        rev = candidate(s, {"x": "%d\n" % len(failures)})
        tree = s.git("rev-parse", rev + "^{tree}").stdout.decode().strip()
        frozen = opened["frozen"]["tree"] if isinstance(opened["frozen"], dict) else opened["frozen"]
        verdict = {"loop": s.name, "checkpoint": opened["checkpoint"], "candidate_tree": tree, "check_tree": tree,
                   "frozen": frozen, "exit_code": 1 if failures else 0, "metric_value": None, "failures": failures,
                   "collected": ["a", "b", "c"]}
        path = os.path.join(world.work, "verdict.json")
        s.write(path, json.dumps(verdict))
        s.loop("verdict", "sign", path, "--key", world.key("verifier"))
        done = s.loop("record", s.name, "--candidate", rev, "--verdict", path, "--adapter", "none")
        s.code = done.returncode
        if done.returncode in (1, 30, 129):
            print("  !", s.said)
    yield s


def recorded(world):
    s = Scenario(world, "recorded", RED, ["true"], {"worker.usage": "json"})
    s.loop("start", s.name, "-f", os.path.join(world.work, "loop-%s.toml" % s.name))
    s.loop("record", s.name, "--candidate", candidate(s, lines(a="p", b="f", c="p")))
    path = os.path.join(world.work, "evidence.json")
    s.write(path, json.dumps({"summary": "z", "cost": {"usd": 0.2, "prompt_tokens": 3, "completion_tokens": 4}}))
    s.loop("checkpoint", s.name)
    s.loop("checkpoint", s.name, "--abandon")
    s.code = s.loop("record", s.name, "--candidate", candidate(s, lines(a="p", b="p", c="p")), "--evidence", path, "--adapter", "none").returncode
    yield s
    s = Scenario(world, "recorded2", RED, ["true"], {})
    s.loop("start", s.name, "-f", os.path.join(world.work, "loop-%s.toml" % s.name))
    s.loop("record", s.name, "--candidate", candidate(s, lines(a="p", b="f", c="p")), "--evidence", path)
    s.loop("checkpoint", s.name, "--abandon")
    s.code = s.loop("record", s.name, "--candidate", candidate(s, lines(a="p", b="p", c="p"))).returncode
    yield s


RANDOM = 'n=$(od -An -N1 -tu1 /dev/urandom | tr -d " ")\necho "score $(( $(cat src/n) * 1000 + n ))"\n'


def repeat(world):
    s = Scenario(world, "repeat", {"n": "9\n"}, [{"n": "8\n"}, {"n": "8\n", "x": "1"}, {"n": "3\n"}], {
        "check.format": "none", "metric.from": "regex", "metric.pattern": "score (\\d+)", "metric.repeat": 4,
        "limits.iterations": 3}, check=RANDOM).run()
    yield s
    s = Scenario(world, "repeat3", RED, [dict(raw("ok a\nok b\n", 0), x="1"), lines(a="p", b="p", c="p")], {"metric.repeat": 3}).run()
    yield s


FLAKY = 'n=$(od -An -N1 -tu1 /dev/urandom | tr -d " ")\nif [ $((n % 2)) = 0 ]; then echo "ok a"; echo "ok b"; echo "done 2"; exit 0; fi\necho "fail a"; echo "ok b"; echo "done 2"; exit 1\n'


def flaky(world):
    yield Scenario(world, "flakybase", RED, ["echo 1 > src/x"], {"metric.repeat": 6}, check=FLAKY).run()
    guarded = "if [ ! -f src/x ]; then echo 'fail a'; echo 'ok b'; echo 'done 2'; exit 1; fi\n" + FLAKY
    yield Scenario(world, "flaky", RED, ["echo 1 > src/x"], {"metric.repeat": 6}, check=guarded).run()


def sha256(world):
    s = Scenario(world, "sha256", RED, [lines(a="p", b="f", c="p"), lines(a="p", b="p", c="p")], object_format="sha256").run()
    s.loop("review", s.name, "--approve", "--key", world.key("ann"))
    s.loop("promote", s.name, "--key", world.key("ann"))
    yield s


def packed(world):
    s = Scenario(world, "packed", RED, [lines(a="p", b="f", c="p"), lines(a="p", b="p", c="p")]).run()
    s.git("pack-refs", "--all")
    s.git("repack", "-adfq")
    yield s


def verdict_file(world):
    check = 'cat src/out\n[ -f src/verdict ] && cat src/verdict > "$GIT_LOOP_VERDICT"\nexit "$(cat src/code)"\n'
    steps = [{"verdict": '{"metric_value": 2.5, "x": 1}'}, {"verdict": '{"metric_value": 2, "collected": ["a","b"], "failures": ["b"]}', "code": "5\n"},
             {"verdict": '{"metric_value": 1, "collected": ["a","b"], "failures": []}', "code": "1\n"}, {"verdict": '{"metric_value": null}'}, {"verdict": "nope"},
             {"verdict": '{"metric_value": 0, "collected": ["b","a"], "failures": []}', "code": "0\n"}]
    yield Scenario(world, "verdict", dict(raw("hi\n", 0), verdict='{"metric_value": 3}'), steps, {
        "check.format": "none", "metric.from": "verdict", "limits.no_progress": 9}, check=check).run()
    yield Scenario(world, "verdict-lines", dict(RED, verdict='{"metric_value": 3}'), [dict(lines(a="p", b="p", c="p"), verdict='{"metric_value": 2}', code="1\n"), dict(lines(a="p", b="f", c="p"), verdict='{"metric_value": 0}', code="0\n")], {
        "metric.from": "verdict", "limits.iterations": 2}, check=check).run()


FILE_CHECK = 'cat src/report > report.out\necho hello\nexit "$(cat src/code)"\n'


def junit_text(**tests):
    body = "".join('<testcase classname="k" name="%s">%s</testcase>' % (k, {"p": "", "f": "<failure/>", "s": "<skipped/>"}[v]) for k, v in tests.items())
    n, f, s = len(tests), list(tests.values()).count("f"), list(tests.values()).count("s")
    text = '<?xml version="1.0" encoding="utf-8"?>\n<testsuites><testsuite name="s" tests="%d" failures="%d" errors="0" skipped="%d">%s</testsuite></testsuites>\n' % (n, f, s, body)
    return {"report": text, "code": "1\n" if f else "0\n"}


def junit(world):
    bad = junit_text(a="p", b="p", c="p")
    steps = [junit_text(a="p", b="f", c="s"), dict(bad, report="<!DOCTYPE x>" + bad["report"]), dict(bad, report=bad["report"][:-20]),
             dict(bad, report=bad["report"].replace('tests="3"', 'tests="4"')), dict(bad, report=bad["report"].replace("<testcase", "<testcase status='failed'", 1)), junit_text(a="p", b="p", c="p")]
    yield Scenario(world, "junit", junit_text(a="f", b="f", c="s"), steps, {
        "check.format": "junit", "check.report": "report.out", "limits.no_progress": 9}, check=FILE_CHECK).run()


def jest_text(**tests):
    words = {"p": "passed", "f": "failed", "s": "pending"}
    results = [{"title": k, "ancestorTitles": ["d", "e"], "status": words[v]} for k, v in tests.items()]
    v = list(tests.values())
    report = {"success": "f" not in v, "numTotalTests": len(v), "numPassedTests": v.count("p"), "numFailedTests": v.count("f"),
              "numPendingTests": v.count("s"), "testResults": [
                  {"name": "/w/1/a/x.test.js", "status": "failed" if "f" in v else "passed", "assertionResults": results},
                  {"name": "/w/1/b/x.test.js", "status": "passed", "assertionResults": []}, {"name": "/w/1/c/y.test.js", "assertionResults": []}]}
    return {"report": json.dumps(report), "code": "1\n" if "f" in v else "0\n"}


def jest(world):
    steps = [jest_text(a="p", b="f", c="s"), dict(jest_text(a="p", b="p", c="p"), report="{}"), jest_text(a="p", b="p", c="p")]
    yield Scenario(world, "jest", jest_text(a="f", b="f", c="s"), steps, {"check.format": "jest", "check.report": "report.out", "limits.no_progress": 9}, check=FILE_CHECK).run()


def formats(world):
    """Reports from a folder of samples, one loop for each format."""
    for name, (base, steps) in samples.ALL.items():
        for part in range(0, len(steps), 20):
            yield Scenario(world, "fmt-%s-%d" % (name, part // 20), base, steps[part:part + 20], {
                "check.format": name, "limits.no_progress": 20, "limits.iterations": min(20, len(steps) - part), "limits.regression_limit": 20,
                "limits.oscillation_limit": 20, "guards.on_violation": "reject",
                **({"check.report": "report.out"} if name in ("junit", "jest") else {})},
                check=FILE_CHECK if name in ("junit", "jest") else None).run()


def timeouts(world):
    check = '[ -f src/pre ] && . ./src/pre\ncat src/out\nexit "$(cat src/code)"\n'
    yield Scenario(world, "timeouts", RED, ["echo 'sleep 9' > src/pre", "echo 'kill -9 $$' > src/pre", "echo 'exit 127' > src/pre", "echo 'echo > tests/run.sh' > src/pre", "echo 'kill -15 $$' > src/pre"], {
        "limits.iterations": 5, "check.timeout": "1s", "limits.no_progress": 9}, check=check).run()
    yield Scenario(world, "deadline2", RED, ["echo 'sleep 9' > src/pre"], {"limits.duration": "3s"}, check=check).run()


def abandoned(world):
    s = Scenario(world, "abandoned", RED, ["sleep 4; echo 1 > src/x"] + [lines(a="p", b="p", c="p")], {"worker.usage": "json", "worker.on_failure": "reject", "limits.unknown_cost": "allow"})
    path = os.path.join(world.work, "loop-%s.toml" % s.name)
    process = subprocess.Popen(["git-loop", "run", s.name, "-f", path], cwd=s.dir, env=world.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    select.select([], [], [], 1.5)
    process.kill()
    process.wait()
    s.run()
    yield s
    s = Scenario(world, "interrupted", RED, ["sleep 4; echo 1 > src/x"] + [lines(a="p", b="p", c="p")])
    path = os.path.join(world.work, "loop-%s.toml" % s.name)
    process = subprocess.Popen(["git-loop", "run", s.name, "-f", path], cwd=s.dir, env=world.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    select.select([], [], [], 1.5)
    process.terminate()
    process.wait()
    yield s
    process = subprocess.Popen(["git-loop", "run", s.name, "-f", path], cwd=s.dir, env=world.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    s = Scenario(world, "stop-mid", RED, ["sleep 4; echo 1 > src/x"] + [lines(a="p", b="p", c="p")], {"limits.iterations": 1})
    path = os.path.join(world.work, "loop-%s.toml" % s.name)
    second = subprocess.Popen(["git-loop", "run", s.name, "-f", path], cwd=s.dir, env=world.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    select.select([], [], [], 1.5)
    s.loop("stop", s.name, "--key", world.key("ann"))
    second.wait()
    process.wait()
    yield s


def texts(world):
    """A short loop for each format of text: incomplete, a test that is hushed, one that is mended, green."""
    from samples import DOC, END, ERR, HEAD, LT, V, VF, go, out, suite
    start, red, green = ("start", "p"), ("fail", "p"), ("pass", "p")
    ran = [("run", "p", "A"), ("pass", "p", "A"), ("run", "p", "B")]
    table = {
        "tap": (out("TAP version 13\n1..3\nok 1 - a\nnot ok 2 - b\n# Subtest: c\n    not ok 1 - d\n      ---\n      at: here\n      ...\n    1..1\nnot ok 3 - c\n"), [
            out("1..3\nok 1 - a\nok 2 - b\n", 0), out("ok 1 - a\nok 2 - b # SKIP no\n    ok 1 - d\n    1..1\nok 3 - c\n1..3\n", 0),
            out("ok 1 - a\nok 2 - b\n    not ok 1 - d\n    1..1\nnot ok 3 - c\n1..3\n"), out("ok 1 - a\nok 2 - b\n    ok 1 - d\n    1..1\nok 3 - c # time=1ms\n1..3\n", 0)]),
        "pytest": (out(HEAD + "PASSED t.py::a\nFAILED t.py::b[<o at 0x1f>] - assert 1\nFAILED t.py::b[<o at 0x2f>] - x\n2 failed, 1 passed in 0.01s\n"), [
            out(HEAD + "PASSED t.py::a\n", 0), out(HEAD + "PASSED t.py::a\nPASSED t.py::b[<o at 0x3f>]\n2 passed in 0.01s\n", 0),
            out(HEAD + "PASSED t.py::a\nPASSED t.py::b[<o at 0x3f>]\nFAILED t.py::b[<o at 0x5f>]\n1 failed, 2 passed in 0.01s\n"),
            out(HEAD + "PASSED t.py::a\nPASSED t.py::b[<o at 0x3f>]\nXPASS t.py::b[<o at 0x7f>]\n2 passed, 1 xpassed in 0.01s\n", 0)]),
        "go-json": (out(go(start, *ran, ("fail", "p", "B"), VF, red)), [
            out(go(start, *ran, VF, red)), out(go(start, *ran, ("skip", "p", "B"), V, green), 0),
            out(go(start, *ran, ("pass", "p", "B"), V, green), 0)]),
        "libtest": (out(LT + suite([("a", "ok"), ("t::b", "FAILED")]) + ERR + DOC + suite([("src/lib.rs - f (line 3)", "ok"), ("src/lib.rs - f (line 9)", "FAILED")]) + ERR.replace("lib", "doc") + END, 101), [
            out(LT + suite([("a", "ok"), ("t::b", "FAILED")]) + ERR, 101), out("error: could not compile `a` (lib)\n", 101),
            out(LT + suite([("a", "ok"), ("t::b", "ignored, later")]) + DOC + suite([("src/lib.rs - f (line 3)", "ok"), ("src/lib.rs - f (line 9)", "ok")]), 0),
            out(LT + suite([("a", "ok"), ("t::b", "ok")]) + DOC + suite([("src/lib.rs - f (line 4)", "ok"), ("src/lib.rs - f (line 8) - compile fail", "ok")]), 0)])}
    for name, (base, steps) in table.items():
        yield Scenario(world, "text-" + name, base, steps, {"check.format": name, "limits.no_progress": 9, "guards.on_violation": "reject"}).run()
    bad = junit_text(a="p", b="p", c="p")
    steps = [dict(bad, report="<!DOCTYPE x>" + bad["report"]), junit_text(a="p", b="f", c="s"), bad]
    yield Scenario(world, "file-junit", junit_text(a="f", b="f", c="s"), steps, {
        "check.format": "junit", "check.report": "report.out", "limits.no_progress": 9}, check=FILE_CHECK).run()
    check = 'cat src/verdict > "$GIT_LOOP_VERDICT"\nexit "$(cat src/code)"\n'
    steps = [{"verdict": '{"metric_value": 2, "collected": ["a","b"], "failures": ["b"]}', "code": "5\n"},
             {"verdict": '{"metric_value": 0, "collected": ["b","a"], "failures": []}', "code": "0\n"}]
    yield Scenario(world, "file-verdict", dict(raw("", 0), verdict='{"metric_value": 3}'), steps, {
        "check.format": "none", "metric.from": "verdict", "limits.no_progress": 9}, check=check).run()


def keys(world, names):
    """A short loop under each of these keys."""
    for name in names:
        s = Scenario(world, "key-" + name, RED, [lines(a="p", b="p", c="p")])
        yield s.run("--key", world.key(name))


def all_of(world, only="", names=None):
    """Every scenario whose name has this word, or those of these names (of their function, where it makes several)."""
    def wanted(name):
        return name in names if names else only in name
    yield from plain(world, wanted)
    yield from special(world, wanted)
