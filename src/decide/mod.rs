//! The decision: contract, state and evidence in, decision out. Pure and total; no I/O, no clock.
//!
//! [`Row`] is the table of the design in its order: the first row that applies gives the outcome. [`Limit`] is the list of
//! stops in its order: the first that applies turns the outcome into the end of the run. [`trace()`] decides and keeps what every row and
//! every stop compared; [`decide()`] is its last word.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::Contract;
use crate::exit::HaltReason;
use crate::ledger::state::State;
use crate::money::MicroUsd;

mod baseline;
mod costs;
mod facts;
mod failing;
mod holdout;
mod lasting;
mod limits;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod precedence;
mod rows;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use baseline::{BaselineEvidence, TARGET_ALREADY_MET, after_baseline, wants_holdout_of_base};
pub use costs::Costs;
pub use facts::{Comparison, Consideration, Given, Relation, Value};
pub use failing::{FailingSets, History};
pub use holdout::{HoldoutVerdict, wants_holdout};
pub use lasting::{
    ComplexityDelta, InvariantEffect, LastingEvidence, PacketStanding, awaits_packet, wants_independence,
    wants_invariants,
};
pub use limits::{Limit, Stop, before_start, remaining, reservation, trace_before_start};
use rows::Case;
pub use rows::Row;

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
    /// Row 17: what the holdout said, if it was run.
    pub holdout: Option<HoldoutVerdict>,
    /// Rows 5 and 18: the promotion packet that the worker brought.
    pub packet: PacketStanding,
    /// Rows 11 to 16, where the contract asks them and the check was run.
    pub lasting: Option<LastingEvidence>,
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

/// A decision, and everything that was asked and compared on the way to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trace {
    /// The rows, up to the one that applies.
    pub rows: Vec<Consideration>,
    /// The stops, up to the first that applies; none were asked if the outcome is blocked.
    pub stops: Vec<Consideration>,
    /// What it comes to.
    pub decision: Decision,
}

/// Whether rows 1 to 6 decide, so that the check need not run. `evidence.check` is not looked at.
pub fn decides_without_check(contract: &Contract, state: &State, evidence: &Evidence) -> bool {
    let case = Case { contract, state, evidence };
    Row::ALL.into_iter().filter(|row| row.needs_no_check()).any(|row| row.consider(case).0.is_some())
}

/// The decision on one iteration. `state` is the state after its checkpoint.
pub fn decide(contract: &Contract, state: &State, evidence: &Evidence) -> Decision {
    trace(contract, state, evidence).decision
}

/// The decision on one iteration, with what it rests on. `state` is the state after its checkpoint.
pub fn trace(contract: &Contract, state: &State, evidence: &Evidence) -> Trace {
    let case = Case { contract, state, evidence };
    let mut rows = Vec::new();
    let (row, outcome) = first_row(case, &mut rows);
    if outcome == Outcome::Blocked {
        let halt = row.halt_reason();
        let decision = Decision {
            outcome,
            status: DecisionStatus::Blocked,
            reason: row.as_str().to_owned(),
            outcome_reason: row.as_str().to_owned(),
            improved: false,
            rollback_required: true,
            halt_reason: Some(halt),
            exit_code: halt.exit_code().get(),
        };
        return Trace { rows, stops: Vec::new(), decision };
    }
    let improved = outcome == Outcome::Accept;
    let (stop, stops) = limits::after(case, row, outcome);
    let (status, reason, halt_reason) = match stop {
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
    let decision = Decision {
        outcome,
        status,
        reason: reason.to_owned(),
        outcome_reason: row.as_str().to_owned(),
        improved,
        rollback_required: !improved,
        halt_reason,
        exit_code: halt_reason.map_or(0, |reason| reason.exit_code().get()),
    };
    Trace { rows, stops, decision }
}

/// The first row that applies, with its outcome; `asked` gets what was compared on the way to it.
fn first_row(case: Case<'_>, asked: &mut Vec<Consideration>) -> (Row, Outcome) {
    for row in Row::ALL.into_iter().filter(|row| row.is_asked(case.contract)) {
        let (outcome, considered) = row.consider(case);
        asked.push(considered);
        if let Some(outcome) = outcome {
            return (row, outcome);
        }
    }
    // The last row applies to whatever is left.
    (Row::MetricNotImproved, Outcome::Reject)
}

/// Whether the target is met: the metric reached it and the check is passing.
pub fn target_met(contract: &Contract, metric: f64, passing: bool) -> bool {
    passing && metric.is_finite() && contract.metric.direction.reached(metric, contract.metric.target)
}
