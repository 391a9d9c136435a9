//! The limits: all hard. First match wins, in the order of [`Limit`].

use super::{Evidence, Outcome, Row, unknown_cost_stops};
use crate::canonical::sha256_of;
use crate::contract::{Contract, OnFailure};
use crate::exit::HaltReason;
use crate::ledger::record::Remaining;
use crate::ledger::state::State;
use crate::money::MicroUsd;

/// What ends a run, in the order in which they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// A finding that blocks is open; before a start only.
    BlockedFinding,
    /// The time is up.
    Deadline,
    /// The worker failed and the contract says to halt then; its stop keeps the name of the row.
    WorkerFailed,
    /// Money or tokens are spent.
    Cost,
    /// One iteration cost far more than those before it.
    CostAnomaly,
    /// The target is met.
    TargetMet,
    /// Two tests exclude each other.
    Unsatisfiable,
    /// The failing sets go round in circles.
    Oscillation,
    /// One test regressed again and again.
    SameTestRegressed,
    /// The iterations are used up.
    Iterations,
    /// Too many iterations in a row were not accepted.
    NoProgress,
    /// Too many accepted changes are unread.
    UnreadDiffs,
}

impl Limit {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BlockedFinding => "blocked_finding",
            Self::Deadline => "deadline",
            Self::WorkerFailed => "worker_failed",
            Self::Cost => "cost_limit",
            Self::CostAnomaly => "cost_anomaly",
            Self::TargetMet => "target_met",
            Self::Unsatisfiable => "unsatisfiable_constraints",
            Self::Oscillation => "oscillation_detected",
            Self::SameTestRegressed => "same_test_regressed",
            Self::Iterations => "iteration_limit",
            Self::NoProgress => "no_progress_limit",
            Self::UnreadDiffs => "unread_diffs_limit",
        }
    }
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// What ended it.
    pub limit: Limit,
    /// The string for other programs.
    pub halt_reason: HaltReason,
}

impl Stop {
    fn new(limit: Limit, halt_reason: HaltReason) -> Self {
        Self { limit, halt_reason }
    }
}

/// Whether the run ends with this iteration. `state` is the state after its checkpoint.
pub(super) fn after(
    contract: &Contract,
    state: &State,
    evidence: &Evidence,
    row: Row,
    outcome: Outcome,
) -> Option<Stop> {
    let limits = &contract.limits;
    if evidence.hit_deadline {
        return Some(Stop::new(Limit::Deadline, HaltReason::DeadlineExceeded));
    }
    if row == Row::WorkerFailed && contract.worker.on_failure == OnFailure::Halt {
        return Some(Stop::new(Limit::WorkerFailed, HaltReason::ExecutionFailure));
    }
    let spent = state.cumulative_usd.saturating_add(evidence.usd.unwrap_or(MicroUsd::ZERO));
    let tokens = state.counters.tokens.saturating_add(evidence.tokens);
    if spent > limits.cost_usd || limits.tokens.is_some_and(|limit| tokens > limit) {
        return Some(Stop::new(Limit::Cost, HaltReason::BudgetExceeded));
    }
    if evidence.cost_known
        && evidence.usd.is_some_and(|usd| state.counters.costs.is_anomaly(usd, limits.cost_sigma))
    {
        return Some(Stop::new(Limit::CostAnomaly, HaltReason::CostAnomaly));
    }
    if evidence.elapsed_seconds >= limits.duration_seconds {
        return Some(Stop::new(Limit::Deadline, HaltReason::DeadlineExceeded));
    }
    if row == Row::TargetMet {
        return Some(Stop::new(Limit::TargetMet, HaltReason::SuccessConditionMet));
    }
    if let Some(stop) = circles(contract, state, evidence) {
        return Some(stop);
    }
    if state.iteration.saturating_add(1) >= limits.iterations {
        return Some(Stop::new(Limit::Iterations, HaltReason::MaxIterationsReached));
    }
    if row != Row::Abandoned
        && outcome != Outcome::Accept
        && state.counters.no_progress.saturating_add(1) >= limits.no_progress
    {
        return Some(Stop::new(Limit::NoProgress, no_progress_reason(contract, state, evidence)));
    }
    if outcome == Outcome::Accept
        && limits
            .unread_diffs
            .is_some_and(|limit| state.comprehension.diffs_unread.saturating_add(1) >= limit)
    {
        return Some(Stop::new(Limit::UnreadDiffs, HaltReason::ComprehensionDebtExceeded));
    }
    None
}

/// Whether the failing sets, this iteration's among them, show that the loop does not get anywhere.
fn circles(contract: &Contract, state: &State, evidence: &Evidence) -> Option<Stop> {
    let check = evidence.check.as_ref().filter(|_| !evidence.abandoned)?;
    let failing = check.failing.as_ref()?;
    let counters = &state.counters;
    let sets = counters.failing_sets.with(failing);
    if sets.contradiction().is_some() {
        return Some(Stop::new(Limit::Unsatisfiable, HaltReason::UnsatisfiableConstraints));
    }
    let oscillations = counters.oscillations.saturating_add(u32::from(sets.returned()));
    if sets.returned() && oscillations >= contract.limits.oscillation_limit {
        return Some(Stop::new(Limit::Oscillation, HaltReason::OscillationDetected));
    }
    let before = |test: &String| {
        let at = counters.regressions.binary_search_by(|known| known.test.cmp(test));
        at.map_or(0, |at| counters.regressions[at].iterations)
    };
    let limit = contract.limits.regression_limit;
    if check.regressed.iter().any(|test| before(test).saturating_add(1) >= limit) {
        return Some(Stop::new(Limit::SameTestRegressed, HaltReason::SameTestRegressed));
    }
    None
}

/// Which of the three kinds of standing still it is.
fn no_progress_reason(contract: &Contract, state: &State, evidence: &Evidence) -> HaltReason {
    let in_a_row = evidence.check.as_ref().and_then(|check| {
        let set = sha256_of(check.failing.as_ref().filter(|failing| !failing.is_empty())?);
        let before = state.counters.same_failures.as_ref().filter(|before| before.set == set);
        Some(before.map_or(0, |before| before.iterations) + 1)
    });
    if in_a_row.is_some_and(|count| count >= contract.limits.no_progress) {
        HaltReason::SameFailureRepeated
    } else if state.counters.accepted == 0 {
        HaltReason::InfeasibleSuspected
    } else {
        HaltReason::NoProgressDetected
    }
}

/// Whether the loop must stop instead of starting another worker. `elapsed_seconds` is the loop's time.
pub fn before_start(contract: &Contract, state: &State, elapsed_seconds: u64) -> Option<Stop> {
    let limits = &contract.limits;
    // Whatever the worker did, row 3 would throw it away.
    if state.blocking_findings() > 0 {
        return Some(Stop::new(Limit::BlockedFinding, HaltReason::HumanRequired));
    }
    let spent = state.cumulative_usd.saturating_add(reservation(contract, state));
    if unknown_cost_stops(contract, state.counters.unknown_costs)
        || spent > limits.cost_usd
        || limits.tokens.is_some_and(|limit| state.counters.tokens > limit)
    {
        return Some(Stop::new(Limit::Cost, HaltReason::BudgetExceeded));
    }
    if elapsed_seconds >= limits.duration_seconds {
        return Some(Stop::new(Limit::Deadline, HaltReason::DeadlineExceeded));
    }
    if state.iteration >= limits.iterations {
        return Some(Stop::new(Limit::Iterations, HaltReason::MaxIterationsReached));
    }
    None
}

/// What the next worker start reserves: what the contract says, else the largest cost so far, at first an equal share of
/// the limit; nothing for a worker that is declared to cost nothing.
pub fn reservation(contract: &Contract, state: &State) -> MicroUsd {
    if contract.worker.costs_nothing() {
        return MicroUsd::ZERO;
    }
    if let Some(reserve) = contract.worker.reserve_usd {
        return reserve;
    }
    let largest = state.counters.largest_usd;
    if largest > MicroUsd::ZERO {
        return largest;
    }
    MicroUsd::from_micros(contract.limits.cost_usd.micros() / u64::from(contract.limits.iterations.max(1)))
}

/// What is left of each limit before the next iteration.
pub fn remaining(contract: &Contract, state: &State, elapsed_seconds: u64) -> Remaining {
    let limits = &contract.limits;
    Remaining {
        iterations: limits.iterations.saturating_sub(state.iteration),
        usd: limits.cost_usd.saturating_sub(state.cumulative_usd),
        tokens: limits.tokens.map(|limit| limit.saturating_sub(state.counters.tokens)),
        seconds: limits.duration_seconds.saturating_sub(elapsed_seconds),
    }
}
