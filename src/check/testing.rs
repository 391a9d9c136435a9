//! What every report format must hold, for the tests of each.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{CheckFacts, Format, MetricSource, ReportProblem, TestSets, judge, parse};

/// A real report, made by the runner that its name says.
macro_rules! real {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/reports/", $name))
    };
}

pub(super) use real;

pub(super) fn ids(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

/// Fails unless the report is incomplete for a reason that has `needle` in it.
#[track_caller]
pub(super) fn assert_incomplete(format: Format, bytes: &[u8], needle: &str) {
    match parse(format, bytes) {
        Err(ReportProblem::Incomplete { why, .. }) => assert!(why.contains(needle), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// As [`assert_incomplete`], for contradictions.
#[track_caller]
pub(super) fn assert_contradiction(format: Format, bytes: &[u8], needle: &str) {
    match parse(format, bytes) {
        Err(ReportProblem::Contradiction { why }) => assert!(why.contains(needle), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// As [`assert_incomplete`], for what is malformed.
#[track_caller]
pub(super) fn assert_malformed(format: Format, bytes: &[u8], needle: &str) {
    match parse(format, bytes) {
        Err(ReportProblem::Malformed { why, .. }) => assert!(why.contains(needle), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// The sets of a report that must be one.
#[track_caller]
pub(super) fn sets(format: Format, bytes: &[u8]) -> TestSets {
    parse(format, bytes).expect("a report that counts").expect("tests")
}

/// Whether a run that exits with 0 and leaves this report passes, where `baseline` were the tests at the baseline.
pub(super) fn passes(format: Format, bytes: &[u8], baseline: &TestSets) -> bool {
    let facts = CheckFacts {
        exit_code: Some(0),
        signal: None,
        timed_out: false,
        report: parse(format, bytes),
        from: &MetricSource::Failures,
        metric: Ok(0.0),
        success_exit_code: Some(0),
        baseline: Some(baseline),
    };
    judge(facts).passing
}

/// Every beginning of a green report is no pass, but for those that say all that the whole says.
#[track_caller]
pub(super) fn assert_no_cut_passes(format: Format, green: &[u8]) {
    let whole = sets(format, green);
    assert!(passes(format, green, &whole), "not green");
    for end in 0..green.len() {
        let cut = &green[..end];
        if passes(format, cut, &whole) {
            assert_eq!(parse(format, cut), Ok(Some(whole.clone())), "cut at {end}");
        }
    }
}

/// A report with a few pieces of it lost, doubled, moved or overwritten.
pub(super) fn mutated(report: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let edit =
        (any::<prop::sample::Index>(), 0..200_usize, 0..5_u8, any::<prop::sample::Index>(), any::<u8>());
    proptest::collection::vec(edit, 1..4).prop_map(move |edits| {
        let mut bytes = report.to_vec();
        for (from, length, what, to, byte) in edits {
            if bytes.is_empty() {
                break;
            }
            let from = from.index(bytes.len());
            let end = (from + length).min(bytes.len());
            let piece = bytes[from..end].to_vec();
            match what {
                0 => drop(bytes.drain(from..end)),
                1 => drop(bytes.splice(from..from, piece)),
                2 => {
                    bytes.drain(from..end);
                    let to = to.index(bytes.len() + 1);
                    bytes.splice(to..to, piece);
                }
                3 => bytes[from] = byte,
                _ => bytes.truncate(from),
            }
        }
        bytes
    })
}

/// Lines of a report lost, doubled, moved, which keeps what remains in its form.
pub(super) fn shuffled(report: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let edit = (any::<prop::sample::Index>(), 0..3_u8, any::<prop::sample::Index>());
    proptest::collection::vec(edit, 1..6).prop_map(move |edits| {
        let mut lines: Vec<&[u8]> = report.split_inclusive(|byte| *byte == b'\n').collect();
        for (from, what, to) in edits {
            if lines.is_empty() {
                break;
            }
            let from = from.index(lines.len());
            let line = lines[from];
            if what != 1 {
                lines.remove(from);
            }
            if what != 0 {
                let to = to.index(lines.len() + 1);
                lines.insert(to, line);
            }
        }
        lines.concat()
    })
}

/// The promise of [`parse`]: no panic, the same answer twice, and no report without a test.
pub(super) fn holds(format: Format, bytes: &[u8]) -> Result<(), TestCaseError> {
    let report = parse(format, bytes);
    prop_assert_eq!(&report, &parse(format, bytes));
    if let Ok(sets) = report {
        let sets = sets.expect("the format has a report");
        prop_assert!(!sets.is_empty());
        prop_assert!(!sets.partial || !sets.failed.is_empty());
        prop_assert!(sets.passed.is_disjoint(&sets.failed) && sets.passed.is_disjoint(&sets.skipped));
    }
    Ok(())
}
