//! The decision: contract, state and evidence in, decision out. Pure and total; no I/O, no clock.
//!
//! [`Row`] is the table of the design in its order: the first row that applies gives the outcome. [`Limit`] is the list of
//! stops in its order: the first that applies turns the outcome into the end of the run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{Contract, OnFailure, OnViolation, UnknownCost};
use crate::exit::HaltReason;
use crate::ledger::state::State;
use crate::money::MicroUsd;

mod costs;
mod failing;
mod limits;
#[cfg(test)]
mod precedence;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use costs::Costs;
pub use failing::{FailingSets, History};
pub use limits::{Limit, Stop, before_start, remaining, reservation};

/// What the first row that applies says about the candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The candidate is the new green.
    Accept,
    /// Back to green; the loop goes on.
    Reject,
    /// Back to green; a guard was violated.
    Blocked,
}

/// What the iteration comes to once the limits have spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecisionStatus {
    /// Accepted; the loop goes on.
    Accept,
    /// Rejected; the loop goes on.
    Reject,
    /// The target is met.
    AwaitingReview,
    /// A limit ended the run.
    Stopped,
    /// A guard ended it.
    Blocked,
}

/// The decision on one iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// What the row says.
    pub outcome: Outcome,
    /// What it comes to.
    pub status: DecisionStatus,
    /// The name of the limit that ended the run, else of the row.
    pub reason: String,
    /// The name of the row.
    pub outcome_reason: String,
    /// Whether the candidate is the new green.
    pub improved: bool,
    /// Whether `head` goes back to green.
    pub rollback_required: bool,
    /// Why the run ends; null if it goes on.
    pub halt_reason: Option<HaltReason>,
    /// The exit code of the run if it ends here, else 0.
    pub exit_code: u8,
}

/// What is known about one iteration. Everything that the decision may look at, and nothing else.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evidence {
    /// Row 1: how many check paths are not what was frozen.
    pub drifted: usize,
    /// Row 2: how many blocked paths changed.
    pub blocked_paths: usize,
    /// Row 2: how many refs, config keys or hooks were tampered with.
    pub tampered: usize,
    /// Row 5: whether the candidate's tree equals green's.
    pub unchanged: bool,
    /// Row 6: how many changed paths are outside `paths.mutable`.
    pub outside: usize,
    /// Row 4: whether the worker failed or timed out.
    pub worker_failed: bool,
    /// Whether the worker or the check ran into what was left of `duration`.
    pub hit_deadline: bool,
    /// The check, if it was run.
    pub check: Option<CheckEvidence>,
    /// What this iteration cost.
    pub usd: Option<MicroUsd>,
    /// Whether that is what the worker reported, and no guess.
    pub cost_known: bool,
    /// The tokens of this iteration.
    pub tokens: u64,
    /// Seconds of the loop's time that have passed.
    pub elapsed_seconds: u64,
    /// Whether a crash, a signal or an operator interrupted the iteration.
    pub abandoned: bool,
}

/// What the check showed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CheckEvidence {
    /// Row 7: whether there is no verdict.
    pub failed: bool,
    /// The metric; the median of several runs.
    pub metric: Option<f64>,
    /// The noise of several runs; `None` of one.
    pub noise: Option<f64>,
    /// Whether the check is passing as section 4.7 of the design says.
    pub passing: bool,
    /// Row 8: how many tests of the baseline were not collected, or failed there and are skipped now.
    pub lost: usize,
    /// Row 9: whether several runs gave another verdict or other tests.
    pub flaky: bool,
    /// Row 10: the tests that passed at green and do not pass now, in byte order.
    pub regressed: Vec<String>,
    /// The failing set, in byte order; `None` without a complete report.
    pub failing: Option<Vec<String>>,
}

/// The rows of the decision, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Row {
    /// An interrupted iteration; it was never judged.
    Abandoned,
    /// Row 1.
    VerifierDrift,
    /// Row 2.
    BlockedPathModified,
    /// Row 3.
    BlockedFinding,
    /// Row 4.
    WorkerFailed,
    /// Row 5.
    NoChange,
    /// Row 6.
    OutsideMutablePaths,
    /// Row 7.
    VerifierFailed,
    /// Row 8.
    MetricIntegrityViolation,
    /// Row 9.
    CheckFlaky,
    /// Row 10.
    TestsRegressed,
    /// Row 19.
    TargetMet,
    /// Row 20.
    MetricImproved,
    /// Row 21.
    MetricNotImproved,
}

impl Row {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Abandoned => "abandoned",
            Self::VerifierDrift => "verifier_drift",
            Self::BlockedPathModified => "blocked_path_modified",
            Self::BlockedFinding => "blocked_finding",
            Self::WorkerFailed => "worker_failed",
            Self::NoChange => "no_change",
            Self::OutsideMutablePaths => "outside_mutable_paths",
            Self::VerifierFailed => "verifier_failed",
            Self::MetricIntegrityViolation => "metric_integrity_violation",
            Self::CheckFlaky => "check_flaky",
            Self::TestsRegressed => "tests_regressed",
            Self::TargetMet => "target_met",
            Self::MetricImproved => "metric_improved",
            Self::MetricNotImproved => "metric_not_improved",
        }
    }

    /// What a blocked outcome of this row halts with.
    fn halt_reason(self) -> HaltReason {
        match self {
            Self::BlockedPathModified => HaltReason::BlockedPathModified,
            Self::BlockedFinding => HaltReason::HumanRequired,
            Self::CheckFlaky => HaltReason::CheckFlaky,
            _ => HaltReason::MetricIntegrityViolation,
        }
    }
}

/// Whether rows 1 to 6 decide, so that the check need not run. `evidence.check` is not looked at.
pub fn decides_without_check(contract: &Contract, state: &State, evidence: &Evidence) -> bool {
    guard_row(contract, state, evidence).is_some()
}

/// The decision on one iteration. `state` is the state after its checkpoint.
pub fn decide(contract: &Contract, state: &State, evidence: &Evidence) -> Decision {
    let (row, outcome) = row(contract, state, evidence);
    if outcome == Outcome::Blocked {
        let halt = row.halt_reason();
        return Decision {
            outcome,
            status: DecisionStatus::Blocked,
            reason: row.as_str().to_owned(),
            outcome_reason: row.as_str().to_owned(),
            improved: false,
            rollback_required: true,
            halt_reason: Some(halt),
            exit_code: halt.exit_code().get(),
        };
    }
    let improved = outcome == Outcome::Accept;
    let limit = limits::after(contract, state, evidence, row, outcome);
    let (status, reason, halt_reason) = match limit {
        Some(stop) => {
            let status = if stop.limit == Limit::TargetMet {
                DecisionStatus::AwaitingReview
            } else {
                DecisionStatus::Stopped
            };
            (status, stop.limit.as_str(), Some(stop.halt_reason))
        }
        None if improved => (DecisionStatus::Accept, row.as_str(), None),
        None => (DecisionStatus::Reject, row.as_str(), None),
    };
    Decision {
        outcome,
        status,
        reason: reason.to_owned(),
        outcome_reason: row.as_str().to_owned(),
        improved,
        rollback_required: !improved,
        halt_reason,
        exit_code: halt_reason.map_or(0, |reason| reason.exit_code().get()),
    }
}

/// The first row that applies.
fn row(contract: &Contract, state: &State, evidence: &Evidence) -> (Row, Outcome) {
    if let Some(decided) = guard_row(contract, state, evidence) {
        return decided;
    }
    let Some(check) = &evidence.check else { return (Row::VerifierFailed, Outcome::Reject) };
    let metric = match check.metric {
        Some(metric) if !check.failed && metric.is_finite() => metric,
        _ => return (Row::VerifierFailed, Outcome::Reject),
    };
    if check.lost > 0 {
        return (Row::MetricIntegrityViolation, violation(contract));
    }
    if check.flaky {
        return (Row::CheckFlaky, Outcome::Blocked);
    }
    if !check.regressed.is_empty() {
        return (Row::TestsRegressed, Outcome::Reject);
    }
    if target_met(contract, metric, check.passing) {
        return (Row::TargetMet, Outcome::Accept);
    }
    if improves(contract, state, metric, check.noise) {
        return (Row::MetricImproved, Outcome::Accept);
    }
    (Row::MetricNotImproved, Outcome::Reject)
}

/// Rows 1 to 6, which need no check.
fn guard_row(contract: &Contract, state: &State, evidence: &Evidence) -> Option<(Row, Outcome)> {
    // Tampering always blocks, also in an iteration that was interrupted; what a contract may soften are paths.
    if evidence.tampered > 0 {
        let drifted = evidence.drifted > 0 && !evidence.abandoned;
        return Some((if drifted { Row::VerifierDrift } else { Row::BlockedPathModified }, Outcome::Blocked));
    }
    if evidence.abandoned {
        return Some((Row::Abandoned, Outcome::Reject));
    }
    if evidence.drifted > 0 {
        return Some((Row::VerifierDrift, violation(contract)));
    }
    if evidence.blocked_paths > 0 {
        return Some((Row::BlockedPathModified, violation(contract)));
    }
    if state.blocking_findings() > 0 {
        return Some((Row::BlockedFinding, Outcome::Blocked));
    }
    if evidence.worker_failed && contract.worker.on_failure != OnFailure::Check {
        return Some((Row::WorkerFailed, Outcome::Reject));
    }
    if evidence.unchanged {
        return Some((Row::NoChange, Outcome::Reject));
    }
    if evidence.outside > 0 {
        return Some((Row::OutsideMutablePaths, Outcome::Reject));
    }
    None
}

fn violation(contract: &Contract) -> Outcome {
    match contract.guards.on_violation {
        OnViolation::Halt => Outcome::Blocked,
        OnViolation::Reject => Outcome::Reject,
    }
}

/// Whether the target is met: the metric reached it and the check is passing.
pub fn target_met(contract: &Contract, metric: f64, passing: bool) -> bool {
    passing && metric.is_finite() && contract.metric.direction.reached(metric, contract.metric.target)
}

/// Whether `metric` is better than the best so far: by more than 0, at least by `min_improvement`, and by more than the noise of
/// either. Anything is better than none.
fn improves(contract: &Contract, state: &State, metric: f64, noise: Option<f64>) -> bool {
    let Some(best) = state.best_metric else { return true };
    let gain = contract.metric.direction.gain(best, metric);
    let noise = noise.unwrap_or(0.0).max(state.counters.best_noise.unwrap_or(0.0));
    gain > 0.0 && gain >= contract.metric.min_improvement && (noise <= 0.0 || gain > noise)
}

/// Whether the loop may start a worker although the cost of an earlier one is not known.
fn unknown_cost_stops(contract: &Contract, unknown: u32) -> bool {
    unknown > 0 && contract.limits.unknown_cost == UnknownCost::Stop
}
