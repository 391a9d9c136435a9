# SPDX-License-Identifier: Apache-2.0
"""Loops over odd reports, and one whose pattern compare.py changes."""
import os

import odd_reports
import samples
from compare import Scenario
from odd import REPORTS

CHECK = 'cat src/report > report.out\necho hello\nexit "$(cat src/code)"\n'


def odd(world):
    """Odd reports, with one exit code and the other by turns."""
    for name, found in REPORTS.items():
        red = {"lines": "fail base\ndone 1\n", "libtest": odd_reports.suite([("base", "FAILED")]) + samples.ERR + samples.END}
        base, is_file = samples.out(red[name]) if name in red else samples.ALL[name][0], name in ("junit", "jest")
        for part in range(0, len(found), 20):
            steps = [{"report" if is_file else "out": text, "code": "%d\n" % (number % 2), "n": "%d\n" % number} for number, text in enumerate(found[part:part + 20])]
            yield Scenario(world, "odd-%s-%d" % (name, part // 20), base, steps, {
                "check.format": name, "guards.on_violation": "reject", **{"limits." + limit: 20 for limit in ("no_progress", "iterations",
                "regression_limit", "oscillation_limit")}, **({"check.report": "report.out"} if is_file else {})}, check=CHECK if is_file else None).run()
    s = Scenario(world, "pattern", samples.out("done 1\n", 0), ["true"], {"check.format": "none", "metric.from": "regex", "metric.pattern": "done (\\d)"}, check="cat src/out\n")
    s.loop("start", s.name, "-f", os.path.join(world.work, "loop-%s.toml" % s.name))
    yield s
