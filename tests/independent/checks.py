# SPDX-License-Identifier: Apache-2.0
"""A check derived again from its evidence (format.md: Check, Evidence; report-formats.md: When a check passes)."""
import re

import names
import reports
from canonical import Bad, Float, byte_order, dump, sha256


def passing_names(tests):
    return set(tests["passed"]) if tests else set()


class Check:
    """A check derived from a record's evidence (format.md: What verify checks, 13)."""

    def __init__(self, terms, files, baseline, green, skipped_notes):
        self.terms, self.files, self.notes = terms, files, skipped_notes
        self.green = green
        self.reference = baseline if baseline is not None else green

    def one(self, run, no_report, suffix, external=None):
        """One run: problem, metric, passing, tests, and what it lacks of the baseline's tests."""
        out = {"problem": None, "metric": None, "passing": False, "tests": None, "lost": [], "newly_skipped": []}
        if run["ended"] != "itself" or run["exit_code"] is None or run["signal"] is not None:
            out["problem"] = "it did not end by itself"
            return out
        try:
            tests, told = self._tests(no_report, suffix, external)
            out["tests"] = tests.value() if tests else None
        except Bad as error:
            out["problem"] = str(error)
            return out
        self._compare(out)
        success = run["exit_code"] == self.terms["check"]["success_exit_code"]
        failed = bool(out["tests"] and out["tests"]["failed"])
        out["problem"] = "no test ran" if reports.none_ran(out["tests"]) else \
            self._contradiction(success, out["tests"], failed) or self._stopped(out["tests"])
        if out["problem"] is None:
            self._metric(out, run, told, suffix)
        out["passing"] = success and not failed and not out["lost"] and not out["newly_skipped"] \
            and not (out["tests"] and out["tests"]["partial"]) \
            and not (out["tests"] is None and self.reference is not None) and out["problem"] is None
        return out

    def _stopped(self, tests):
        """A partial report where that of the reference was whole."""
        whole = self.reference is not None and not self.reference["partial"]
        return "it stopped early" if whole and tests and tests["partial"] else None

    def _tests(self, no_report, suffix, external):
        if no_report is not None:
            raise Bad("there is no report")
        told, terms = None, self.terms
        if external is not None:
            told, tests = reports.verdict(self.files["report"])
            return tests, told
        own = None
        if reads_verdict(terms) and "verdict" + suffix in self.files:
            told, own = reports.verdict(self.files["verdict" + suffix])
        report = self.files.get("report" + suffix)
        if report is None:
            raise Bad("there is no report")
        if terms["check"]["format"] == "none":
            return own, told
        return reports.parse(terms["check"]["format"], report), told

    def _compare(self, out):
        """lost and newly_skipped (format.md: Check)."""
        tests = out["tests"]
        if tests is None or self.reference is None:
            return
        seen = set(tests["passed"]) | set(tests["failed"]) | set(tests["skipped"])
        known = self.reference["passed"] + self.reference["failed"] + self.reference["skipped"]
        ran = set(self.reference["passed"]) | set(self.reference["failed"])
        if not tests["partial"]:
            out["lost"] = byte_order(t for t in known if t not in seen)
        out["newly_skipped"] = byte_order(t for t in tests["skipped"] if t in ran)

    def _contradiction(self, success, tests, failed):
        """The table of report-formats.md: When a check passes."""
        source = self.terms["metric"]["from"]
        if tests is None:
            return None if success or source == "verdict" else "the check failed"
        if success and failed:
            return "success with failures"
        if not success and not failed:
            return "no success without a failure"
        if not success and source not in ("failures", "verdict"):
            return "the check failed"
        return None

    def _metric(self, out, run, told, suffix):
        terms = self.terms["metric"]
        try:
            out["metric"] = self._number(terms, out["tests"], run, told, suffix)
        except Bad as error:
            out["problem"] = "no metric: %s" % error

    def _number(self, terms, tests, run, told, suffix):
        source = terms["from"]
        if source == "failures":
            if tests is None:
                raise Bad("no tests")
            return Float(len(tests["failed"]))
        if source == "exit":
            return Float(run["exit_code"])
        if source == "verdict":
            if told is None:
                raise Bad("no metric_value")
            return Float(float(told) + 0.0 if told else 0.0)
        name = ("metric-source" if has_metric_source(self.terms) else "report") + suffix
        data = self.files.get(name)
        if data is None:
            raise Bad("no output")
        if source == "regex":
            return Float(reports.metric_regex(terms["pattern"], data))
        return Float(reports.metric_json(terms["pointer"], data))

    def derive(self, told, external=None):
        """The fields that the check must have, from what is told of its runs."""
        repeat = self.terms["metric"]["repeat"]
        samples = [{"run": told["run"], "no_report": told["no_report"]}]
        if repeat > 1:
            samples = told["runs"]
        elif told["runs"]:
            raise Bad("check.runs is not empty")
        found = []
        for number, sample in enumerate(samples, 1):
            found.append(self.one(sample["run"], sample["no_report"], "-%d" % number if number > 1 else "", external))
        first = self._runs(told, samples, found, repeat)
        return self._fields(told, first, found)

    def _runs(self, told, samples, found, repeat):
        """check.runs: as many as the contract says, or the last one has a problem."""
        if repeat > 1:
            if not samples or samples[0]["run"] != told["run"] or samples[0]["no_report"] != told["no_report"] \
                    or samples[0]["report"] != told["report"]:
                raise Bad("check.runs does not begin with the check's own run")
            if any(one["problem"] for one in found[:-1]) or len(found) > repeat or \
                    (len(found) < repeat and not found[-1]["problem"]):
                raise Bad("check.runs has not as many runs as it must")
        for number, (sample, one) in enumerate(zip(samples, found), 1):
            if repeat > 1:
                self._sample(number, sample, one)
        return found[0]

    def _sample(self, number, sample, one):
        if (sample["report"] is None) != (sample["no_report"] is not None):
            raise Bad("run %d: no_report is null exactly if there is a report" % number)
        wanted = {"metric": one["metric"], "passing": one["passing"],
                  "tests_sha256": sha256(one["tests"]) if one["tests"] else None}
        for key, value in wanted.items():
            if sample[key] != value:
                raise Bad("run %d: %s is %r, not %r" % (number, key, sample[key], value))
        if (sample["problem"] is None) != (one["problem"] is None):
            raise Bad("run %d: whether there is a problem (%s)" % (number, one["problem"]))

    def _fields(self, told, first, found):
        tests = first["tests"]
        problem = next((one["problem"] for one in found if one["problem"]), None)
        metrics = [one["metric"] for one in found]
        metric = noise = None
        if problem is None:
            metric = median(metrics)
            if self.terms["metric"]["repeat"] > 1:
                noise = median([abs(m - metric) for m in metrics])
        verdicts = {(one["passing"], sha256(one["tests"]) if one["tests"] else None) for one in found
                    if not one["problem"]}
        names = tests["passed"] + tests["failed"] + tests["skipped"] if tests else None
        return {"problem": problem, "metric": None if metric is None else Float(metric),
                "noise": None if noise is None else Float(noise), "passing": all(one["passing"] for one in found),
                "flaky": problem is None and len(verdicts) > 1, "partial": bool(tests and tests["partial"]),
                "counts": {k: len(tests[k]) for k in ("passed", "failed", "skipped")} if tests else None,
                "failures": tests["failed"] if tests else None,
                "collected": sha256(byte_order(names)) if tests else None,
                "tests": dump(tests) if tests else None, "lost": first["lost"],
                "newly_skipped": first["newly_skipped"], "regressed": self._regressed(tests)}

    def _regressed(self, tests):
        if tests is None or self.green is None:
            return []
        return byte_order(passing_names(self.green) - set(tests["passed"]))


def has_metric_source(terms):
    """Whether a regex or json metric is read from a file of its own beside the report."""
    return terms["metric"]["from"] in ("regex", "json") and terms["check"]["format"] in names.FILE_FORMATS


def reads_verdict(terms):
    """Whether the check is asked for a verdict of its own."""
    return terms["metric"]["from"] == "verdict" and not terms["check"]["external"]


# What a verdict rests on; these files are never cut.
WHOLE = ("report", "report.sig", "metric-source", "verdict", "tests.json")


def base_name(name):
    """The name of a file of evidence/ without the number of its run, and that number; 0 is that of no run."""
    match = re.fullmatch(r"(.*)-([0-9]*)", name, re.S)
    if not match:
        return name, 1
    number = int(match.group(2)) if re.fullmatch(r"[1-9][0-9]{0,3}", match.group(2)) else 0
    return match.group(1), number if number > 1 else 0


def check_evidence_names(terms, evidence, runs):
    """No file has the name of what a verdict rests on, and none does (format.md: Evidence)."""
    for name in evidence:
        base, number = base_name(name)
        there = 1 <= number <= runs
        fine = {"report": there, "metric-source": there and has_metric_source(terms),
                "verdict": there and reads_verdict(terms),
                "report.sig": runs == 1 and number == 1 and terms["check"]["external"],
                "tests.json": runs > 0 and number == 1}.get(base, True)
        if not fine:
            raise Bad("evidence/%s is there, and no verdict rests on it" % name)


def median(values):
    """The median; of an even number the mean of the two in the middle."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def compare_check(told, wanted, blob_id):
    """Every field of the check but run and no_report; of problem only whether it is null."""
    for key, value in wanted.items():
        if key == "problem":
            if (told[key] is None) != (value is None):
                raise Bad("check.problem is %r, derived: %r" % (told[key], value))
            continue
        if key == "tests":
            value = None if value is None else blob_id(value)
        have = {k: told[key][k] for k in value} if key == "counts" and told[key] and value else told[key]
        if have != value:
            raise Bad("check.%s is %r, derived: %r" % (key, told[key], value))
    if (told["report"] is None) != (told["no_report"] is not None):
        raise Bad("check.no_report is null exactly if there is a report")


def target_met(terms, check):
    """metrics.md: Better, and good enough."""
    metric, target = check["metric"], terms["metric"]["target"]
    if metric is None or check["problem"] is not None or not check["passing"]:
        return False
    return metric <= target if terms["metric"]["direction"] == "minimize" else metric >= target


def has_failing_set(check):
    """decision.md: Failing sets."""
    return check is not None and check["problem"] is None and not check["partial"] and check["failures"] is not None
