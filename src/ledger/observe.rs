//! From the capture of a check to facts: the same code for the runner that sees it happen and for whoever verifies it
//! later from the evidence. Pure.

use crate::canonical::{canonical_json, sha256_of};
use crate::check::repeat::{median, noise};
use crate::check::{
    self, CheckFacts, Format, Judgement, MetricSource, Observation, ReportProblem, TestSets, judge,
    lasting_verdict, verdict_file,
};
use crate::contract::Contract;
use crate::decide::CheckEvidence;
use crate::ledger::receipt::{CheckReceipt, NoReport, RunReceipt, SampleReceipt, TestCounts};
use crate::oid::Oid;

/// What a check left behind, as far as it is kept.
#[derive(Debug, Clone, Default)]
pub struct Capture {
    /// What the format is parsed from; `None` if there was none, or too much.
    pub report: Option<Vec<u8>>,
    /// What a `regex` or `json` metric is read from, where that is not the report itself.
    pub metric_source: Option<Vec<u8>>,
    /// The verdict that the check wrote, where the contract reads one.
    pub verdict: Option<Vec<u8>>,
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

/// One run of the check with what it left.
#[derive(Debug, Clone)]
pub struct Sample {
    /// How it ended.
    pub run: RunReceipt,
    /// What it left.
    pub capture: Capture,
}

impl Sample {
    /// Whether this run gives no verdict, so that no other of the same check is needed.
    pub fn has_problem(&self, contract: &Contract) -> bool {
        self.look(contract, None).problem.is_some()
    }

    /// What this run is worth by itself.
    fn look(&self, contract: &Contract, baseline: Option<&TestSets>) -> Look {
        let Self { run, capture } = self;
        let format = contract.report_format();
        let own = capture.verdict.as_deref().filter(|_| writes_verdict(contract));
        let written = if contract.check.external {
            capture.report.as_deref().map(verdict_file::parse)
        } else if contract.judged_as_lasting().is_some() {
            own.map(|bytes| lasting_verdict::parse(bytes).map(|(verdict, _)| verdict))
        } else {
            own.map(verdict_file::parse)
        };
        let (verdict, unreadable) = match written {
            // With another source of the metric only what it says of lasting code is heard, elsewhere.
            Some(Ok(verdict)) => {
                (Some(verdict).filter(|_| has_verdict(contract) || contract.check.external), None)
            }
            Some(Err(problem)) => (None, Some(problem)),
            None => (None, None),
        };
        let report = match (&capture.report, capture.no_report) {
            // What a check says of its tests in its verdict stands in for a report.
            _ if let Some(problem) = unreadable => Err(problem),
            (Some(_), _) if format == Format::None || contract.check.external => {
                Ok(verdict.as_ref().and_then(|verdict| verdict.sets.clone()))
            }
            (Some(bytes), _) => check::parse_as(format, contract.check.same_ids(), bytes),
            (None, Some(NoReport::TooLarge)) => Err(ReportProblem::TooLarge { limit: check::MAX_REPORT }),
            // A report that was there before the run says nothing about the run.
            (None, Some(NoReport::NotWritten | NoReport::Planted | NoReport::FrozenChanged) | None) => {
                Err(ReportProblem::Missing)
            }
        };
        let source = contract.metric_source();
        // Where the report is a file, what the check printed lies beside it, or was too much to be kept.
        let output = if has_metric_source(contract) { &capture.metric_source } else { &capture.report };
        let output = output.as_deref();
        let seen = Observation {
            exit_code: run.exit_code,
            stdout: output,
            sets: report.as_ref().ok().and_then(Option::as_ref),
            verdict: verdict.as_ref(),
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
            baseline,
        });
        let problem = judgement.problem.as_ref().map(|problem| match run.ended.as_str() {
            "output_limit" => "the check printed more than may be captured".to_owned(),
            "disk_limit" => "the check's folders held more than sandbox.disk".to_owned(),
            "idle_timeout" => "the check printed nothing for longer than check.idle_timeout".to_owned(),
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
        Look { judgement, problem }
    }
}

/// What one run is worth.
struct Look {
    judgement: Judgement,
    problem: Option<String>,
}

impl Look {
    /// What may not differ between two runs of one check on one tree.
    fn verdict(&self) -> (bool, Option<&TestSets>) {
        (self.judgement.passing, self.judgement.sets.as_ref())
    }
}

/// What is wrong with runs that have no finite median or noise.
const TOO_FAR_APART: &str = "the metrics of its runs have no median or no noise that is finite";

/// Says everything about a check that its runs show. There is at least one.
pub fn observe(
    contract: &Contract,
    hash: gix::hash::Kind,
    tree: Oid,
    samples: &[Sample],
    compared: Compared<'_>,
) -> Observed {
    // Where the base had no tests, or no check ran on it, those at green must go on to be run.
    let reference = compared.baseline.or(compared.green);
    let looks: Vec<Look> = samples.iter().map(|sample| sample.look(contract, reference)).collect();
    let (Some(sample), Some(first)) = (samples.first(), looks.first()) else {
        unreachable!("a check that was not run is not observed")
    };
    let problem = looks.iter().enumerate().find_map(|(at, look)| {
        let problem = look.problem.as_ref()?;
        Some(if at == 0 { problem.clone() } else { format!("run {}: {problem}", at + 1) })
    });
    let metrics: Vec<f64> = looks.iter().filter_map(|look| look.judgement.metric).collect();
    let middle = median(&metrics).zip(noise(&metrics));
    // Numbers so large, or so far apart, that no 64-bit float is between them: nothing says what such a metric is better than.
    let problem = problem.or_else(|| middle.is_none().then(|| TOO_FAR_APART.to_owned()));
    let (metric, noise) = match middle {
        Some((metric, noise)) if problem.is_none() => {
            (Some(metric), (contract.metric.repeat > 1).then_some(noise))
        }
        _ => (None, None),
    };
    let passing = metric.is_some() && looks.iter().all(|look| look.judgement.passing);
    let flaky = problem.is_none() && looks.iter().any(|look| look.verdict() != first.verdict());
    let judgement = &first.judgement;
    let sets = judgement.sets.as_ref();
    let tests_json = sets.map(|sets| canonical_json(sets).into_bytes());
    let lost: Vec<String> = judgement.lost.iter().cloned().collect();
    let regressed: Vec<String> = match (compared.green, sets) {
        (Some(green), Some(sets)) => check::regressed(&green.passed, sets).into_iter().collect(),
        _ => Vec::new(),
    };
    let failures: Option<Vec<String>> = sets.map(|sets| sets.failed.iter().cloned().collect());
    let runs = samples.iter().zip(&looks).map(|(sample, look)| SampleReceipt {
        run: sample.run.clone(),
        report: sample.capture.report.as_deref().map(|bytes| blob_id(hash, bytes)),
        no_report: sample.capture.no_report,
        problem: look.problem.clone(),
        metric: look.judgement.metric,
        passing: look.judgement.passing,
        tests_sha256: look.judgement.sets.as_ref().map(sha256_of),
    });
    let receipt = CheckReceipt {
        tree,
        run: sample.run.clone(),
        report: sample.capture.report.as_deref().map(|bytes| blob_id(hash, bytes)),
        no_report: sample.capture.no_report,
        problem: problem.clone(),
        metric,
        noise,
        passing,
        flaky,
        partial: sets.is_some_and(|sets| sets.partial),
        counts: sets.map(|sets| TestCounts {
            passed: sets.passed.len() as u64,
            failed: sets.failed.len() as u64,
            skipped: sets.skipped.len() as u64,
        }),
        failures,
        collected: sets.map(TestSets::fingerprint),
        tests: tests_json.as_deref().map(|bytes| blob_id(hash, bytes)),
        lost,
        newly_skipped: judgement.newly_skipped.iter().cloned().collect(),
        regressed,
        runs: if contract.metric.repeat > 1 { runs.collect() } else { Vec::new() },
    };
    // A test that fails and is skipped instead would make the number of failures better. One that passed at green has regressed.
    let hushed = reference.map_or(0, |baseline| {
        let passed = |test: &String| compared.green.is_some_and(|green| green.passed.contains(test));
        judgement.newly_skipped.iter().filter(|test| baseline.failed.contains(*test) && !passed(test)).count()
    });
    let evidence = CheckEvidence {
        failed: problem.is_some(),
        metric,
        noise,
        passing,
        lost: receipt.lost.len() + hushed,
        flaky,
        regressed: receipt.regressed.clone(),
        failing: receipt.failing_set().map(<[String]>::to_vec),
    };
    Observed { receipt, evidence, tests_json }
}

/// The name under `evidence/` of what the `number`-th run of a check left; the first run's has no number.
pub fn evidence_name(name: &str, number: usize) -> String {
    if number <= 1 { name.to_owned() } else { format!("{name}-{number}") }
}

/// Whether what the check writes into `GIT_LOOP_VERDICT` is kept and read.
pub fn writes_verdict(contract: &Contract) -> bool {
    has_verdict(contract) || (contract.judged_as_lasting().is_some() && !contract.check.external)
}

/// Whether the metric is asked of a verdict of the check's own.
pub fn has_verdict(contract: &Contract) -> bool {
    contract.metric_source() == MetricSource::Verdict && !contract.check.external
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
