//! From the capture of a check to facts: the same code for the runner that sees it happen and for whoever verifies it
//! later from the evidence. Pure.

use crate::canonical::{canonical_json, sha256_of};
use crate::check::{self, CheckFacts, MetricSource, Observation, ReportProblem, TestSets, judge};
use crate::contract::Contract;
use crate::decide::CheckEvidence;
use crate::ledger::receipt::{CheckReceipt, NoReport, RunReceipt, TestCounts};
use crate::oid::Oid;

/// What a check left behind, as far as it is kept.
#[derive(Debug, Clone, Default)]
pub struct Capture {
    /// What the format is parsed from; `None` if there was none, or too much.
    pub report: Option<Vec<u8>>,
    /// What a `regex` or `json` metric is read from, where that is not the report itself.
    pub metric_source: Option<Vec<u8>>,
    /// Why `report` is `None`.
    pub no_report: Option<NoReport>,
}

/// The tests that a check is compared with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Compared<'a> {
    /// Those of the baseline; `None` while it is being made.
    pub baseline: Option<&'a TestSets>,
    /// Those at green.
    pub green: Option<&'a TestSets>,
}

/// What can be said about a check.
#[derive(Debug, Clone)]
pub struct Observed {
    /// For the receipt.
    pub receipt: CheckReceipt,
    /// For the decision.
    pub evidence: CheckEvidence,
    /// `evidence/tests.json`, where the format has tests.
    pub tests_json: Option<Vec<u8>>,
}

/// Says everything about a check that its capture shows.
pub fn observe(
    contract: &Contract,
    hash: gix::hash::Kind,
    tree: Oid,
    run: RunReceipt,
    capture: &Capture,
    compared: Compared<'_>,
) -> Observed {
    let format = contract.report_format();
    let report = match (&capture.report, capture.no_report) {
        (Some(bytes), _) => check::parse(format, bytes),
        (None, Some(NoReport::TooLarge)) => Err(ReportProblem::TooLarge { limit: check::MAX_REPORT }),
        // A report that was there before the run says nothing about the run.
        (None, Some(NoReport::NotWritten | NoReport::Planted | NoReport::FrozenChanged) | None) => {
            Err(ReportProblem::Missing)
        }
    };
    let source = contract.metric_source();
    let output = capture.metric_source.as_deref().or(capture.report.as_deref());
    let seen = Observation {
        exit_code: run.exit_code,
        stdout: output,
        sets: report.as_ref().ok().and_then(Option::as_ref),
    };
    let metric = check::extract(&source, &seen);
    let judgement = judge(CheckFacts {
        exit_code: run.exit_code,
        signal: run.signal,
        timed_out: run.ended != "itself",
        report,
        from: &source,
        metric,
        success_exit_code: Some(i32::from(contract.check.success_exit_code)),
        baseline: compared.baseline,
    });
    let problem = judgement.problem.as_ref().map(|problem| match run.ended.as_str() {
        "output_limit" => "the check printed more than may be captured".to_owned(),
        "deadline" => "the check ran into the end of the loop's time".to_owned(),
        "interrupted" => "the check was interrupted".to_owned(),
        _ if capture.no_report == Some(NoReport::FrozenChanged) => {
            "a frozen file was changed while the check ran".to_owned()
        }
        _ if capture.no_report == Some(NoReport::Planted) => {
            "the report was there before the check ran".to_owned()
        }
        _ => problem.to_string(),
    });
    let sets = judgement.sets.as_ref();
    let tests_json = sets.map(|sets| canonical_json(sets).into_bytes());
    let lost: Vec<String> = judgement.lost.iter().cloned().collect();
    let regressed: Vec<String> = match (compared.green, sets) {
        (Some(green), Some(sets)) => check::regressed(&green.passed, sets).into_iter().collect(),
        _ => Vec::new(),
    };
    let failures: Option<Vec<String>> = sets.map(|sets| sets.failed.iter().cloned().collect());
    let receipt = CheckReceipt {
        tree,
        run,
        report: capture.report.as_deref().map(|bytes| blob_id(hash, bytes)),
        no_report: capture.no_report,
        problem: problem.clone(),
        metric: judgement.metric,
        passing: judgement.passing,
        counts: sets.map(|sets| TestCounts {
            passed: sets.passed.len() as u64,
            failed: sets.failed.len() as u64,
            skipped: sets.skipped.len() as u64,
        }),
        failures: failures.clone(),
        collected: sets.map(TestSets::fingerprint),
        tests: tests_json.as_deref().map(|bytes| blob_id(hash, bytes)),
        lost: lost.clone(),
        newly_skipped: judgement.newly_skipped.iter().cloned().collect(),
        regressed: regressed.clone(),
    };
    let evidence = CheckEvidence {
        failed: problem.is_some(),
        metric: judgement.metric,
        passing: judgement.passing,
        lost: lost.len(),
        regressed: regressed.len(),
        failing_set: failures.as_ref().map(sha256_of),
        failing_set_empty: failures.as_ref().is_none_or(Vec::is_empty),
    };
    Observed { receipt, evidence, tests_json }
}

/// The blob id of `bytes` in a repository of this hash.
pub fn blob_id(hash: gix::hash::Kind, bytes: &[u8]) -> Oid {
    Oid(gix::objs::compute_hash(hash, gix::object::Kind::Blob, bytes).expect("hashing memory does not fail"))
}

/// Whether a `regex` or `json` metric needs a file of its own beside the report.
pub fn has_metric_source(contract: &Contract) -> bool {
    let reads_output = matches!(contract.metric_source(), MetricSource::Regex(_) | MetricSource::Json(_));
    reads_output && contract.report_format().is_file()
}
