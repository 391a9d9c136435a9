//! What one run of the check is worth: whether it passes, its metric, and what is wrong with it.
//!
//! This is DESIGN section 4.7 and row 7 of section 5 as a pure function. A run with a problem has no metric and does not pass.

use std::collections::BTreeSet;

use super::{MetricProblem, MetricSource, ReportProblem, TestSets};

/// All that one run of the check left, and what the contract and the baseline ask of it.
#[derive(Debug, Clone)]
pub struct CheckFacts<'a> {
    /// The exit code; `None` if the check ended otherwise.
    pub exit_code: Option<i32>,
    /// The signal that ended the check.
    pub signal: Option<i32>,
    /// The check ran into its time-out.
    pub timed_out: bool,
    /// What [`super::parse`] made of the report; `Ok(None)` where the contract's format has none.
    pub report: Result<Option<TestSets>, ReportProblem>,
    /// Where the contract takes the metric from.
    pub from: &'a MetricSource,
    /// What [`super::extract`] made of the run.
    pub metric: Result<f64, MetricProblem>,
    /// The exit code of a pass; `None` if the contract does not ask for one.
    pub success_exit_code: Option<i32>,
    /// The tests at the baseline; `None` for the baseline's own run, or where it has none.
    pub baseline: Option<&'a TestSets>,
}

/// What one run of the check is worth.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The metric; `None` exactly if there is a problem.
    pub metric: Option<f64>,
    /// The tests of a complete report, whatever else is wrong; `None` if there is none, or the check did not end by itself.
    pub sets: Option<TestSets>,
    /// The check is passing as section 4.7 says.
    pub passing: bool,
    /// What makes row 7 apply.
    pub problem: Option<CheckProblem>,
    /// See [`lost`].
    pub lost: BTreeSet<String>,
    /// See [`newly_skipped`].
    pub newly_skipped: BTreeSet<String>,
}

/// Why a run of the check says nothing: `verifier_failed`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckProblem {
    /// It ran into its time-out.
    #[error("the check timed out")]
    TimedOut,
    /// A signal ended it.
    #[error("the check was ended by signal {signal}")]
    Signalled {
        /// The number of the signal.
        signal: i32,
    },
    /// It ended in no way that is known.
    #[error("the check ended without an exit code")]
    NoExitCode,
    /// It has no complete report.
    #[error(transparent)]
    Report(#[from] ReportProblem),
    /// Every test was skipped.
    #[error("no test ran: all {skipped} were skipped")]
    AllSkipped {
        /// The number of tests.
        skipped: usize,
    },
    /// The exit code says success, the report does not.
    #[error(
        "the check exited with {exit_code}, its code of success, but its report has failures: {failures}"
    )]
    GreenExitRedReport {
        /// The exit code.
        exit_code: i32,
        /// The number of failing tests.
        failures: usize,
    },
    /// The report has no failure, the exit code is not that of success.
    #[error("the check exited with {exit_code}, not with {expected}, but its report has no failure")]
    RedExitGreenReport {
        /// The exit code.
        exit_code: i32,
        /// The exit code of a pass.
        expected: i32,
    },
    /// The exit code is not that of success, and nothing else says what failed.
    #[error("the check exited with {exit_code}, not with {expected}")]
    NotSuccess {
        /// The exit code.
        exit_code: i32,
        /// The exit code of a pass.
        expected: i32,
    },
    /// Its runner stopped early, which that of the baseline did not: fewer tests, and so fewer failures.
    #[error("the check stopped before it had run every test, as it did not on the base")]
    Partial,
    /// It names no tests, though there are some to compare with: a verdict that left its lists out.
    #[error("the check names no tests, though those of the base or of green are known")]
    NamesNoTests,
    /// It gave no metric.
    #[error(transparent)]
    Metric(#[from] MetricProblem),
}

/// Judges one run of the check.
pub fn judge(facts: CheckFacts<'_>) -> Judgement {
    let ended = match (facts.timed_out, facts.signal, facts.exit_code) {
        (true, ..) => Err(CheckProblem::TimedOut),
        (false, Some(signal), _) => Err(CheckProblem::Signalled { signal }),
        (false, None, None) => Err(CheckProblem::NoExitCode),
        (false, None, Some(exit_code)) => Ok(exit_code),
    };
    let (problem, sets) = match (ended, facts.report) {
        // What a check wrote before it was stopped is not to be trusted, however complete it looks.
        (Err(problem), _) => (Some(problem), None),
        (Ok(_), Err(problem)) => (Some(problem.into()), None),
        (Ok(exit_code), Ok(sets)) => {
            let stopped = facts.baseline.is_some_and(|baseline| !baseline.partial)
                && sets.as_ref().is_some_and(|sets| sets.partial);
            let problem = disagreement(exit_code, facts.success_exit_code, facts.from, sets.as_ref())
                .or(stopped.then_some(CheckProblem::Partial))
                .or((facts.baseline.is_some() && sets.is_none()).then_some(CheckProblem::NamesNoTests));
            (problem, sets)
        }
    };
    let (metric, problem) = match (problem, facts.metric) {
        (Some(problem), _) => (None, Some(problem)),
        (None, Err(problem)) => (None, Some(problem.into())),
        (None, Ok(metric)) => (Some(metric), None),
    };
    let (lost, newly_skipped) = match (facts.baseline, &sets) {
        (Some(baseline), Some(sets)) => (lost(baseline, sets), newly_skipped(baseline, sets)),
        _ => (BTreeSet::new(), BTreeSet::new()),
    };
    // A verdict may come with any exit code, a pass may not.
    let passing = problem.is_none()
        && facts.success_exit_code.is_none_or(|code| facts.exit_code == Some(code))
        && sets.as_ref().is_none_or(|sets| sets.failed.is_empty() && !sets.partial)
        && lost.is_empty()
        && newly_skipped.is_empty();
    Judgement { metric, sets, passing, problem, lost, newly_skipped }
}

/// What does not fit together in a run that ended by itself with a complete report, or with none if none is asked for.
fn disagreement(
    exit_code: i32,
    success: Option<i32>,
    from: &MetricSource,
    sets: Option<&TestSets>,
) -> Option<CheckProblem> {
    let failures = sets.map(|sets| sets.failed.len());
    if let Some(sets) = sets {
        if sets.is_empty() {
            return Some(ReportProblem::NoTests.into());
        }
        if sets.ran() == 0 {
            return Some(CheckProblem::AllSkipped { skipped: sets.skipped.len() });
        }
    }
    let expected = success?;
    match (exit_code == expected, failures) {
        (true, Some(failures)) if failures > 0 => {
            Some(CheckProblem::GreenExitRedReport { exit_code, failures })
        }
        (true, _) => None,
        (false, Some(0)) => Some(CheckProblem::RedExitGreenReport { exit_code, expected }),
        // A red exit with failures in the report is what a red check looks like.
        (false, Some(_)) if *from == MetricSource::Failures => None,
        (false, _) if *from == MetricSource::Verdict => None,
        (false, _) => Some(CheckProblem::NotSuccess { exit_code, expected }),
    }
}

/// The tests that were collected at the baseline and are not collected now: row 8.
///
/// Empty for a partial report, where a test that is missing was not reached: that report is red in any case, and
/// [`regressed`] still counts such a test.
pub fn lost(baseline: &TestSets, now: &TestSets) -> BTreeSet<String> {
    if now.partial {
        return BTreeSet::new();
    }
    baseline.collected().filter(|id| now.outcome(id).is_none()).map(str::to_owned).collect()
}

/// The tests that ran at the baseline, or were not there, and are skipped now, though collected at the baseline.
///
/// A test that the baseline skipped too is not among them.
pub fn newly_skipped(baseline: &TestSets, now: &TestSets) -> BTreeSet<String> {
    let ran = |id: &String| baseline.passed.contains(id) || baseline.failed.contains(id);
    now.skipped.iter().filter(|id| ran(id)).cloned().collect()
}

/// The tests that passed at green and do not pass now, because they fail, are skipped or are missing: row 10.
pub fn regressed(passed_at_green: &BTreeSet<String>, now: &TestSets) -> BTreeSet<String> {
    passed_at_green.difference(&now.passed).cloned().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Outcome;
    use super::*;

    fn sets(passed: &[&str], failed: &[&str], skipped: &[&str]) -> TestSets {
        let mut sets = TestSets::default();
        for (ids, outcome) in
            [(passed, Outcome::Passed), (failed, Outcome::Failed), (skipped, Outcome::Skipped)]
        {
            for id in ids {
                sets.record((*id).to_owned(), outcome);
            }
        }
        sets
    }

    fn ids(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    fn green() -> CheckFacts<'static> {
        CheckFacts {
            exit_code: Some(0),
            signal: None,
            timed_out: false,
            report: Ok(Some(sets(&["a", "b"], &[], &[]))),
            from: &MetricSource::Failures,
            metric: Ok(0.0),
            success_exit_code: Some(0),
            baseline: None,
        }
    }

    fn red() -> CheckFacts<'static> {
        CheckFacts {
            exit_code: Some(101),
            report: Ok(Some(sets(&["a"], &["b"], &[]))),
            metric: Ok(1.0),
            ..green()
        }
    }

    fn problem(facts: CheckFacts<'_>) -> CheckProblem {
        let judgement = judge(facts);
        assert!(!judgement.passing && judgement.metric.is_none());
        judgement.problem.expect("a problem")
    }

    #[test]
    fn green_passes() {
        let judgement = judge(green());
        assert!(judgement.passing);
        assert_eq!((judgement.metric, judgement.problem), (Some(0.0), None));
        // Not asked for, the exit code does not matter.
        assert!(judge(CheckFacts { exit_code: Some(7), success_exit_code: None, ..green() }).passing);
        assert!(judge(CheckFacts { exit_code: Some(7), success_exit_code: Some(7), ..green() }).passing);
        assert!(judge(CheckFacts { report: Ok(Some(sets(&["a"], &[], &["b"]))), ..green() }).passing);
    }

    #[test]
    fn a_red_exit_with_failures_is_normal_where_failures_are_counted() {
        let judgement = judge(red());
        assert_eq!((judgement.metric, judgement.problem, judgement.passing), (Some(1.0), None, false));
        assert_eq!(judgement.sets, Some(sets(&["a"], &["b"], &[])));
        let judgement = judge(CheckFacts { success_exit_code: None, exit_code: Some(0), ..red() });
        assert_eq!((judgement.metric, judgement.passing), (Some(1.0), false));
        for from in [MetricSource::Exit, MetricSource::Regex("(1)".into()), MetricSource::Json(String::new())]
        {
            assert_eq!(
                problem(CheckFacts { from: &from, ..red() }),
                CheckProblem::NotSuccess { exit_code: 101, expected: 0 }
            );
            let lenient = judge(CheckFacts { from: &from, success_exit_code: None, ..red() });
            assert_eq!((lenient.problem, lenient.passing), (None, false));
        }
    }

    #[test]
    fn a_check_that_did_not_end_by_itself() {
        for facts in [green(), red()] {
            let timed_out = CheckFacts { timed_out: true, signal: Some(9), exit_code: None, ..facts.clone() };
            assert_eq!(judge(timed_out.clone()).sets, None);
            assert_eq!(problem(timed_out), CheckProblem::TimedOut);
            // Field report 1.20: a time-out counts whatever the exit code.
            assert_eq!(problem(CheckFacts { timed_out: true, ..facts.clone() }), CheckProblem::TimedOut);
            let killed = CheckFacts { signal: Some(11), exit_code: None, ..facts.clone() };
            assert_eq!(problem(killed), CheckProblem::Signalled { signal: 11 });
            let lost = CheckFacts { exit_code: None, success_exit_code: None, ..facts };
            assert_eq!(problem(lost), CheckProblem::NoExitCode);
        }
    }

    #[test]
    fn no_complete_report() {
        for missing in [
            ReportProblem::Missing,
            ReportProblem::TooLarge { limit: 1 },
            ReportProblem::incomplete(1, "x"),
            ReportProblem::contradiction("x"),
            ReportProblem::malformed(1, "x"),
            ReportProblem::NoTests,
        ] {
            for from in [MetricSource::Failures, MetricSource::Exit] {
                let facts = CheckFacts { report: Err(missing.clone()), from: &from, ..green() };
                assert_eq!(judge(facts.clone()).sets, None);
                assert_eq!(problem(facts), CheckProblem::Report(missing.clone()));
            }
        }
    }

    #[test]
    fn contradictions() {
        // Field report 1.8: exit 0 with a failure in the report.
        let lie = CheckFacts { exit_code: Some(0), ..red() };
        assert_eq!(judge(lie.clone()).sets, Some(sets(&["a"], &["b"], &[])));
        assert_eq!(problem(lie), CheckProblem::GreenExitRedReport { exit_code: 0, failures: 1 });
        assert_eq!(
            problem(CheckFacts { exit_code: Some(1), ..green() }),
            CheckProblem::RedExitGreenReport { exit_code: 1, expected: 0 }
        );
        assert_eq!(
            problem(CheckFacts { exit_code: Some(0), success_exit_code: Some(3), ..green() }),
            CheckProblem::RedExitGreenReport { exit_code: 0, expected: 3 }
        );
    }

    #[test]
    fn no_test_run_is_never_a_pass() {
        let skipped = CheckFacts { report: Ok(Some(sets(&[], &[], &["a", "b"]))), ..green() };
        assert_eq!(problem(skipped.clone()), CheckProblem::AllSkipped { skipped: 2 });
        assert_eq!(
            problem(CheckFacts { success_exit_code: None, ..skipped }),
            CheckProblem::AllSkipped { skipped: 2 }
        );
        let empty = CheckFacts { report: Ok(Some(TestSets::default())), ..green() };
        assert_eq!(problem(empty), CheckProblem::Report(ReportProblem::NoTests));
    }

    #[test]
    fn no_metric() {
        let facts = CheckFacts { metric: Err(MetricProblem::NoReport), ..green() };
        assert!(judge(facts.clone()).sets.is_some());
        assert_eq!(problem(facts), CheckProblem::Metric(MetricProblem::NoReport));
    }

    #[test]
    fn without_a_report_the_exit_code_decides() {
        let from = MetricSource::Exit;
        let facts = CheckFacts { report: Ok(None), from: &from, ..green() };
        assert!(judge(facts.clone()).passing);
        assert_eq!(
            problem(CheckFacts { exit_code: Some(2), ..facts.clone() }),
            CheckProblem::NotSuccess { exit_code: 2, expected: 0 }
        );
        let score = CheckFacts { exit_code: Some(2), metric: Ok(0.5), success_exit_code: None, ..facts };
        let judgement = judge(score);
        assert_eq!((judgement.metric, judgement.passing), (Some(0.5), true));
    }

    #[test]
    fn every_test_of_the_baseline_still_runs() {
        let baseline = sets(&["a"], &["b"], &["old"]);
        let with =
            |now: TestSets| judge(CheckFacts { report: Ok(Some(now)), baseline: Some(&baseline), ..green() });
        let good = with(sets(&["a", "b", "new"], &[], &["old", "new skip"]));
        assert!(good.passing && good.lost.is_empty() && good.newly_skipped.is_empty());
        // A suite that goes green by testing less.
        let less = with(sets(&["a"], &[], &["old"]));
        assert_eq!((less.passing, less.lost, less.problem), (false, ids(&["b"]), None));
        let unskipped = with(sets(&["a", "b", "old"], &[], &[]));
        assert!(unskipped.passing);
        let gone = with(sets(&["a", "b"], &[], &[]));
        assert_eq!((gone.passing, gone.lost), (false, ids(&["old"])));
        let skipped = with(sets(&["a"], &[], &["b", "old"]));
        assert_eq!((skipped.passing, skipped.newly_skipped), (false, ids(&["b"])));
    }

    #[test]
    fn a_verdict_without_its_lists_switches_no_row_off() {
        let baseline = sets(&["a"], &["b"], &["old"]);
        let from = MetricSource::Verdict;
        // Whatever the exit code, and however good the metric: what it lost or broke cannot be told.
        for (exit_code, metric) in [(0, 0.0), (1, 2.0)] {
            let unnamed = CheckFacts {
                exit_code: Some(exit_code),
                report: Ok(None),
                metric: Ok(metric),
                from: &from,
                baseline: Some(&baseline),
                ..green()
            };
            assert_eq!(problem(unnamed.clone()), CheckProblem::NamesNoTests);
            // With nothing to be compared with it is a verdict like any other.
            let judgement = judge(CheckFacts { baseline: None, ..unnamed });
            assert_eq!((judgement.metric, judgement.problem), (Some(metric), None));
        }
    }

    #[test]
    fn a_partial_report_loses_nothing_and_never_passes() {
        let baseline = sets(&["a", "c"], &["b"], &[]);
        let partial = TestSets { partial: true, ..sets(&[], &["a"], &[]) };
        let facts = CheckFacts { report: Ok(Some(partial.clone())), baseline: Some(&baseline), ..red() };
        let judgement = judge(facts);
        assert!(judgement.lost.is_empty() && !judgement.passing);
        assert_eq!(regressed(&baseline.passed, &partial), ids(&["a", "c"]));
        let odd = TestSets { partial: true, ..sets(&["a"], &[], &[]) };
        assert!(!judge(CheckFacts { report: Ok(Some(odd)), ..green() }).passing);
    }

    #[test]
    fn regressions() {
        let green = ids(&["fails", "skipped", "missing", "passes"]);
        let now = sets(&["passes", "new"], &["fails", "other"], &["skipped"]);
        assert_eq!(regressed(&green, &now), ids(&["fails", "missing", "skipped"]));
        assert_eq!(regressed(&ids(&[]), &now), ids(&[]));
        assert_eq!(regressed(&green, &TestSets::default()), green);
    }

    fn any_sets() -> impl Strategy<Value = TestSets> {
        (proptest::collection::vec(("[a-e]", 0..3_usize), 0..6), any::<bool>()).prop_map(
            |(tests, partial)| {
                let mut sets = TestSets { partial, ..TestSets::default() };
                for (id, outcome) in tests {
                    sets.record(id, [Outcome::Passed, Outcome::Skipped, Outcome::Failed][outcome]);
                }
                sets
            },
        )
    }

    proptest! {
        #[test]
        fn what_passes_holds_all_of_section_4_7(
            exit_code in proptest::option::of(-1..3),
            signal in proptest::option::weighted(0.1, 1..20),
            timed_out in proptest::bool::weighted(0.1),
            report in prop_oneof![
                3 => proptest::option::of(any_sets()).prop_map(Ok),
                1 => Just(Err(ReportProblem::Missing)),
            ],
            counts_failures: bool,
            has_metric in proptest::bool::weighted(0.9),
            success_exit_code in proptest::option::of(0..2),
            baseline in proptest::option::of(any_sets()),
        ) {
            let from = if counts_failures { MetricSource::Failures } else { MetricSource::Exit };
            let metric = if has_metric { Ok(1.0) } else { Err(MetricProblem::NoReport) };
            let baseline = baseline.as_ref();
            let facts =
                CheckFacts { exit_code, signal, timed_out, report: report.clone(), from: &from, metric, success_exit_code, baseline };
            let judgement = judge(facts.clone());
            prop_assert_eq!(&judgement, &judge(facts));
            prop_assert_eq!(judgement.metric.is_none(), judgement.problem.is_some());
            if judgement.passing {
                prop_assert!(judgement.problem.is_none() && !timed_out && signal.is_none());
                prop_assert!(success_exit_code.is_none_or(|code| exit_code == Some(code)));
                let sets = report.unwrap();
                if let Some(sets) = &sets {
                    prop_assert!(sets.failed.is_empty() && !sets.passed.is_empty());
                }
                if let Some(baseline) = baseline {
                    let sets = sets.unwrap();
                    prop_assert!(baseline.collected().all(|id| sets.outcome(id).is_some()));
                    prop_assert!(baseline.passed.union(&baseline.failed).all(|id| sets.passed.contains(id)));
                }
            }
        }
    }
}
