# SPDX-License-Identifier: Apache-2.0
"""A check derived again from its evidence (format.md: Check, What verify checks, 13; report-formats.md: When a check passes)."""
import math

import brought
import names
import reports
import tables
from canonical import Bad, Float, byte_order, dump, read, sha256, there


def passed(tests):
    """The tests that passed, of tests.json or none."""
    return set(tests["passed"]) if tests else set()


def names_of(tests):
    """All tests that were collected."""
    return tests["passed"] + tests["failed"] + tests["skipped"]


class Check:
    """Derives the fields of a check, compared with the tests of the baseline and of green."""

    def __init__(self, terms, files, baseline, green):
        self.terms, self.files, self.green = terms, files, green
        self.notes = []  # what is not checked
        # The reference: the baseline's tests, or, where it has none, green's; the baseline itself has none.
        self.reference = baseline if baseline is not None else green

    # --- one run

    def one(self, sample, suffix, external=None):
        """One run: problem, metric, passing, tests, and what it lacks of the reference's tests."""
        out = {"problem": None, "metric": None, "passing": False, "tests": None, "lost": [], "newly_skipped": [],
               "alone": True}
        run, no_report = sample["run"], sample["no_report"]
        if run["ended"] != "itself" or run["exit_code"] is None or run["signal"] is not None:
            out["problem"] = "it did not end by itself"
            return out
        try:
            out["tests"], told = self._tests(no_report, suffix, external)
        except Bad as error:
            out["problem"] = str(error)
            return out
        self._compare(out)
        tests, success = out["tests"], run["exit_code"] == self.terms["check"]["success_exit_code"]
        out["problem"] = "every test was skipped" if reports.none_ran(tests) else self._contradiction(success, tests)
        if out["problem"] is None:
            try:
                out["metric"] = self._metric(tests, run, told, suffix)
            except Bad as error:
                out["problem"] = "no metric: %s" % error
            except reports.Unchecked as note:
                self._believe(out, sample, note)
        # Whether it has a problem without regard to the reference.
        out["alone"] = out["problem"] is not None
        if not out["alone"] and self.reference is not None:
            out["problem"] = self._incomparable(tests)
        if out["problem"] is not None:
            out["metric"] = None
        out["passing"] = success and not (tests and (tests["failed"] or tests["partial"])) and \
            not out["lost"] and not out["newly_skipped"] and out["problem"] is None
        return out

    def _believe(self, out, sample, note):
        """Take the metric, or that there is none, for what is told; all else of the run is checked."""
        self.notes.append(str(note))
        if sample["problem"] is None and sample["metric"] is None:
            raise Bad("a run without a problem and without a metric")
        explained = self.reference is not None and self._incomparable(out["tests"]) is not None
        out["metric"] = sample["metric"]
        if sample["problem"] is not None and not explained:
            out["problem"] = "what is told of the metric"

    def _tests(self, no_report, suffix, external):
        """(tests or None, metric_value of a verdict) of a report that is whole; Bad if it is not."""
        if no_report is not None:
            raise Bad("there is no report")
        report, told, terms = self.files.get("report" + suffix), None, self.terms
        if report is None:
            raise Bad("there is no report")
        if external is not None:
            told, tests = reports.verdict(report)
            return tests, told
        tests = reports.parse(terms["check"]["format"], report, there(terms["check"], "same_ids")) if terms["check"]["format"] != "none" else None
        if terms["rules"] == 2 and "verdict" + suffix in self.files:
            brought.read_verdict(self.files["verdict" + suffix])
        if terms["metric"]["from"] == "verdict" and "verdict" + suffix in self.files:
            told, own = reports.verdict(self.files["verdict" + suffix])
            if terms["check"]["format"] == "none":
                tests = own
        return tests, told

    def _compare(self, out):
        """lost and newly_skipped (format.md: Check, the reference)."""
        tests, reference = out["tests"], self.reference
        if tests is None or reference is None:
            return
        seen, ran = set(names_of(tests)), set(reference["passed"]) | set(reference["failed"])
        if not tests["partial"]:
            out["lost"] = byte_order(t for t in names_of(reference) if t not in seen)
        out["newly_skipped"] = byte_order(t for t in tests["skipped"] if t in ran)

    def _incomparable(self, tests):
        """Why it cannot be compared with the reference (report-formats.md: When a check passes)."""
        if tests is None:
            return "it names no tests, and there is a reference"
        if tests["partial"] and not self.reference["partial"]:
            return "it is partial, and the reference is not"
        return None

    def _contradiction(self, success, tests):
        """The table of exit code and report (report-formats.md: When a check passes)."""
        source = self.terms["metric"]["from"]
        if tests is None:
            return None if success or source == "verdict" else "the check failed"
        if success == bool(tests["failed"]):
            return "exit code and report contradict each other"
        if not success and source not in ("failures", "verdict"):
            return "the check failed"
        return None

    def _metric(self, tests, run, told, suffix):
        """metrics.md: where the number comes from."""
        terms, source = self.terms["metric"], self.terms["metric"]["from"]
        if source == "failures":
            if tests is None:
                raise Bad("no tests")
            return Float(len(tests["failed"]))
        if source == "exit":
            return Float(run["exit_code"])
        if source == "verdict":
            if told is None:
                raise Bad("no metric_value")
            return reports.metric_number(told)
        name = ("metric-source" if self.terms["check"]["format"] in names.FILE_FORMATS else "report") + suffix
        if name not in self.files:
            raise Bad("no output")
        if source == "regex":
            return Float(reports.metric_regex(terms["pattern"], self.files[name]))
        return Float(reports.metric_json(terms["pointer"], self.files[name]))

    # --- all runs

    def derive(self, told, external=None):
        """The fields that the check must have, from what is told of its runs."""
        repeat = self.terms["metric"]["repeat"]
        samples = told["runs"] if repeat > 1 else [told]
        if repeat == 1 and told["runs"]:
            raise Bad("check.runs is not empty")
        found = [self.one(sample, "-%d" % n if n > 1 else "", external)
                 for n, sample in enumerate(samples, 1)]
        if repeat > 1:
            self._runs(told, samples, found, repeat)
        return self._fields(found)

    def _runs(self, told, samples, found, repeat):
        """check.runs: as many as the contract says, or the last one has a problem."""
        if not samples or any(samples[0][key] != told[key] for key in ("run", "no_report", "report")):
            raise Bad("check.runs does not begin with the check's own run")
        if any(one["alone"] for one in found[:-1]) or len(found) > repeat or \
                (len(found) < repeat and not found[-1]["alone"]):
            raise Bad("check.runs has not as many runs as it must")
        for place, (sample, one) in enumerate(zip(samples, found), 1):
            if (sample["report"] is None) != (sample["no_report"] is not None):
                raise Bad("run %d: no_report is null exactly if there is a report" % place)
            wanted = {"metric": one["metric"], "passing": one["passing"],
                      "tests_sha256": sha256(one["tests"]) if one["tests"] else None}
            for key, value in wanted.items():
                if sample[key] != value:
                    raise Bad("run %d: %s is %r, not %r" % (place, key, sample[key], value))
            if (sample["problem"] is None) != (one["problem"] is None):
                raise Bad("run %d: whether there is a problem (%s)" % (place, one["problem"]))

    def _fields(self, found):
        first, tests = found[0], found[0]["tests"]
        problem = next((one["problem"] for one in found if one["problem"]), None)
        metric = noise = None
        if problem is None:
            metric = median([one["metric"] for one in found])
            noise = median([abs(one["metric"] - metric) for one in found])
            if not math.isfinite(metric) or not math.isfinite(noise):
                problem, metric, noise = "the median or the noise is not finite", None, None
            else:
                metric, noise = Float(metric), Float(noise) if self.terms["metric"]["repeat"] > 1 else None
        verdicts = {(one["passing"], sha256(one["tests"]) if one["tests"] else None) for one in found}
        return {"problem": problem, "metric": metric, "noise": noise,
                "passing": problem is None and all(one["passing"] for one in found),
                "flaky": problem is None and len(verdicts) > 1, "partial": bool(tests and tests["partial"]),
                "counts": {k: len(tests[k]) for k in ("passed", "failed", "skipped")} if tests else None,
                "failures": tests["failed"] if tests else None,
                "collected": sha256(byte_order(names_of(tests))) if tests else None,
                "tests": dump(tests) if tests else None, "lost": first["lost"],
                "newly_skipped": first["newly_skipped"], "regressed": self._regressed(tests)}

    def _regressed(self, tests):
        """Tests that passed at green and do not pass now; empty without tests, or where green has none."""
        if tests is None or self.green is None:
            return []
        return byte_order(passed(self.green) - set(tests["passed"]))


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


def read_tests(data):
    """evidence/tests.json (format.md: Evidence)."""
    return read(data, tables.ALL.tests, "tests.json")


# --- outside verdicts and holdouts ------------------------------------------------------------------------

def outside_verdict(data, table, terms, receipt, check_tree):
    """format.md: Outside verdicts, without the signature."""
    value = read(data, table, "the verdict")
    wanted = {"loop": terms["loop"], "checkpoint": receipt["checkpoint"], "candidate_tree": receipt["candidate_tree"],
              "check_tree": check_tree, "frozen": terms["frozen"]["tree"]}
    for key, want in wanted.items():
        if value[key] != want:
            raise Bad("the verdict's %s is another" % key)
    run = receipt["check"]["run"]
    for key, want in (("command", []), ("exit_code", value["exit_code"]), ("signal", None), ("ended", "itself"),
                      ("duration_ms", 0), ("survivors", 0)):
        if run[key] != want:
            raise Bad("check.run.%s of an outside verdict" % key)
    return value


def holdout_verdict(terms, run, failing):
    """The verdict that the table gives (decision.md: The holdout)."""
    plain, code = terms["format"] == "none", run["exit_code"]
    if run["ended"] != "itself" or code is None:
        return "no_verdict"
    if code == terms["success_exit_code"]:
        return "passed" if plain or failing == 0 else "no_verdict"
    if plain:
        return "no_verdict" if code in (126, 127) else "failed"
    return "failed" if failing else "no_verdict"


def check_holdout(terms, told):
    """A holdout of a receipt or a baseline, but for its command and sandbox."""
    if told["folder"] != terms["tree"]:
        raise Bad("holdout.folder is not what was frozen")
    if terms["format"] == "none" and told["failing"] is not None:
        raise Bad("holdout.failing of a holdout without a report")
    if (told["problem"] is None) != (told["verdict"] != "no_verdict"):
        raise Bad("holdout.problem is null exactly if there is a verdict")
    wanted = holdout_verdict(terms, told["run"], told["failing"])
    if told["verdict"] not in ("no_verdict", wanted):
        raise Bad("holdout.verdict is %s, derived: %s" % (told["verdict"], wanted))
