//! The limits: all hard. First match wins, in the order of [`Limit`].

use super::facts::{Consideration, Facts, Relation, Seconds};
use super::holdout::RED_LIMIT;
use super::rows::Case;
use super::{FailingSets, Outcome, Row};
use crate::canonical::sha256_of;
use crate::contract::{Contract, OnFailure, UnknownCost};
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
    /// Too many local defenses were tried.
    LocalDefenses,
    /// The target was met, and the holdout was red, once too often.
    HoldoutFailed,
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
            Self::LocalDefenses => "local_defense_limit",
            Self::HoldoutFailed => "holdout_failed",
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

/// The stops in the order in which they are asked after an iteration. Time is asked twice: a worker or a check that ran into the
/// end of it says nothing about the objective.
const AFTER: [Ask; 14] = [
    Ask::RanIntoDeadline,
    Ask::Of(Limit::WorkerFailed),
    Ask::Of(Limit::Cost),
    Ask::Of(Limit::CostAnomaly),
    Ask::Of(Limit::Deadline),
    Ask::Of(Limit::TargetMet),
    Ask::Of(Limit::LocalDefenses),
    Ask::Of(Limit::HoldoutFailed),
    Ask::Of(Limit::Unsatisfiable),
    Ask::Of(Limit::Oscillation),
    Ask::Of(Limit::SameTestRegressed),
    Ask::Of(Limit::Iterations),
    Ask::Of(Limit::NoProgress),
    Ask::Of(Limit::UnreadDiffs),
];

/// One question after an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    RanIntoDeadline,
    Of(Limit),
}

/// What the stops after an iteration look at.
struct Ending<'a> {
    case: Case<'a>,
    row: Row,
    outcome: Outcome,
    /// The failing sets, this iteration's among them; `None` without one.
    sets: Option<FailingSets>,
}

/// Whether the run ends with this iteration, and what was asked.
pub(super) fn after(case: Case<'_>, row: Row, outcome: Outcome) -> (Option<Stop>, Vec<Consideration>) {
    let failing = case.evidence.check.as_ref().filter(|_| !case.evidence.abandoned);
    let sets = failing
        .and_then(|check| check.failing.as_ref())
        .map(|failing| case.state.counters.failing_sets.with(failing));
    let ending = Ending { case, row, outcome, sets };
    let mut asked = Vec::new();
    for ask in AFTER.into_iter().filter(|ask| ask.is_asked(case.contract)) {
        let mut facts = Facts::default();
        let halts = ending.consider(ask, &mut facts);
        let limit = ask.limit();
        asked.push(facts.into_consideration(None, limit.as_str(), halts.is_some()));
        if let Some(halt_reason) = halts {
            return (Some(Stop { limit, halt_reason }), asked);
        }
    }
    (None, asked)
}

impl Ask {
    /// Whether it is asked under this contract.
    fn is_asked(self, contract: &Contract) -> bool {
        match self {
            Self::Of(Limit::HoldoutFailed) => contract.holdout.is_some(),
            Self::Of(Limit::LocalDefenses) => contract.judged_as_lasting().is_some(),
            _ => true,
        }
    }

    fn limit(self) -> Limit {
        match self {
            Self::RanIntoDeadline => Limit::Deadline,
            Self::Of(limit) => limit,
        }
    }
}

impl Ending<'_> {
    /// Why the run ends here, if it does; none of those asked before ended it.
    fn consider(&self, ask: Ask, facts: &mut Facts) -> Option<HaltReason> {
        let Case { contract, state, evidence } = self.case;
        let limits = &contract.limits;
        let (holds, halt_reason) = match ask {
            Ask::RanIntoDeadline => (
                facts.is("worker or check ran into the end of limits.duration", evidence.hit_deadline, true),
                HaltReason::DeadlineExceeded,
            ),
            Ask::Of(Limit::WorkerFailed) => {
                let failed = facts.is("row 4 applied", self.row == Row::WorkerFailed, true);
                let halts = contract.worker.on_failure == OnFailure::Halt;
                (failed && facts.is("worker.on_failure is `halt`", halts, true), HaltReason::ExecutionFailure)
            }
            Ask::Of(Limit::Cost) => (self.over_budget(facts), HaltReason::BudgetExceeded),
            Ask::Of(Limit::CostAnomaly) => (self.cost_anomaly(facts), HaltReason::CostAnomaly),
            Ask::Of(Limit::Deadline) => {
                let duration = Seconds(limits.duration_seconds);
                (
                    facts.at_least(TIME, Seconds(evidence.elapsed_seconds), duration),
                    HaltReason::DeadlineExceeded,
                )
            }
            Ask::Of(Limit::TargetMet) => (
                facts.is("row 19 applied", self.row == Row::TargetMet, true),
                HaltReason::SuccessConditionMet,
            ),
            Ask::Of(Limit::LocalDefenses) => {
                let added = facts.is("row 14 applied", self.row == Row::LocalDefenseAdded, true);
                let count = state.counters.local_defenses.unwrap_or(0).saturating_add(u32::from(added));
                let limit = contract.judged_as_lasting().map_or(u32::MAX, |terms| terms.local_defense_limit);
                (
                    facts.at_least("local defenses that were tried", count, limit) && added,
                    HaltReason::LocalDefenseLimit,
                )
            }
            Ask::Of(Limit::HoldoutFailed) => {
                let failed = facts.is("row 17 applied", self.row == Row::HoldoutFailed, true);
                let red = state.counters.holdout_red.unwrap_or(0).saturating_add(u32::from(failed));
                (
                    facts.at_least("times that the holdout was red", red, RED_LIMIT) && failed,
                    HaltReason::RewardHackingDetected,
                )
            }
            Ask::Of(Limit::Unsatisfiable) => {
                (self.contradiction(facts), HaltReason::UnsatisfiableConstraints)
            }
            Ask::Of(Limit::Oscillation) => (self.oscillates(facts), HaltReason::OscillationDetected),
            Ask::Of(Limit::SameTestRegressed) => (self.regresses(facts), HaltReason::SameTestRegressed),
            Ask::Of(Limit::Iterations) => {
                let count = state.iteration.saturating_add(1);
                (
                    facts.at_least("iterations, this one included", count, limits.iterations),
                    HaltReason::MaxIterationsReached,
                )
            }
            Ask::Of(Limit::NoProgress) => return self.no_progress(facts),
            // Findings are row 3's after an iteration.
            Ask::Of(Limit::BlockedFinding) => return None,
            Ask::Of(Limit::UnreadDiffs) => {
                (self.too_many_unread(facts), HaltReason::ComprehensionDebtExceeded)
            }
        };
        holds.then_some(halt_reason)
    }

    fn over_budget(&self, facts: &mut Facts) -> bool {
        let Case { contract, state, evidence } = self.case;
        let limits = &contract.limits;
        facts.given("spent before", state.cumulative_usd);
        facts.given("this iteration", evidence.usd);
        let spent = state.cumulative_usd.saturating_add(evidence.usd.unwrap_or(MicroUsd::ZERO));
        let tokens = state.counters.tokens.saturating_add(evidence.tokens);
        let money = facts.more(MONEY, spent, limits.cost_usd);
        let tokens = limits.tokens.is_some_and(|limit| facts.more(TOKENS, tokens, limit));
        money || tokens
    }

    fn cost_anomaly(&self, facts: &mut Facts) -> bool {
        let Case { contract, state, evidence } = self.case;
        let (costs, sigma) = (state.counters.costs, contract.limits.cost_sigma);
        facts.given("known costs before", costs.known);
        facts.given("their mean, in dollars", costs.mean_usd());
        facts.given("their standard deviation, in dollars", costs.deviation_usd());
        facts.given("limits.cost_sigma", sigma);
        let known = evidence.usd.filter(|_| evidence.cost_known);
        let anomaly = known.is_some_and(|usd| costs.is_anomaly(usd, sigma));
        facts.note("cost of this iteration", known, Relation::More, costs.bound_usd(sigma), anomaly)
    }

    fn contradiction(&self, facts: &mut Facts) -> bool {
        let pair = self.sets.as_ref().and_then(FailingSets::contradiction);
        if let Some((a, b)) = pair {
            facts.given("one test", a);
            facts.given("the other test", b);
        }
        facts.is("two tests fail by turns (a b a b)", pair.is_some(), true)
    }

    fn oscillates(&self, facts: &mut Facts) -> bool {
        let returned = self.sets.as_ref().is_some_and(FailingSets::returned);
        let count = self.case.state.counters.oscillations.saturating_add(u32::from(returned));
        let returned = facts.is("the failing set is an earlier one", returned, true);
        let often = facts.at_least(
            "times that a failing set came back",
            count,
            self.case.contract.limits.oscillation_limit,
        );
        returned && often
    }

    fn regresses(&self, facts: &mut Facts) -> bool {
        // Without a complete report nothing is counted.
        let check = self.case.evidence.check.as_ref().filter(|_| self.sets.is_some());
        let counters = &self.case.state.counters;
        let times = |test: &String| {
            let at = counters.regressions.binary_search_by(|known| known.test.cmp(test));
            at.map_or(0, |at| counters.regressions[at].iterations).saturating_add(1)
        };
        let tests = check.map_or(&[][..], |check| &check.regressed);
        // Of several the first in byte order.
        let worst = tests.iter().rev().map(|test| (times(test), test)).max_by_key(|(count, _)| *count);
        if let Some((_, test)) = worst {
            facts.given("the test that regressed most often", test.as_str());
        }
        let most = worst.map_or(0, |(count, _)| count);
        facts.at_least("iterations in which it regressed", most, self.case.contract.limits.regression_limit)
    }

    /// Whether too many in a row were not accepted, and which of the three kinds of standing still it is.
    fn no_progress(&self, facts: &mut Facts) -> Option<HaltReason> {
        let Case { contract, state, evidence } = self.case;
        let limit = contract.limits.no_progress;
        let counts = self.row != Row::Abandoned && self.outcome != Outcome::Accept;
        let in_a_row = if counts { state.counters.no_progress.saturating_add(1) } else { 0 };
        let same = evidence.check.as_ref().and_then(|check| {
            let set = sha256_of(check.failing.as_ref().filter(|failing| !failing.is_empty())?);
            let before = state.counters.same_failures.as_ref().filter(|before| before.set == set);
            Some(before.map_or(0, |before| before.iterations) + 1)
        });
        facts.given("iterations in a row with the same failing set", same.unwrap_or(0));
        facts.given("accepted iterations", state.counters.accepted);
        if !facts.at_least("iterations in a row that were not accepted", in_a_row, limit) || !counts {
            return None;
        }
        Some(if same.is_some_and(|count| count >= limit) {
            HaltReason::SameFailureRepeated
        } else if state.counters.accepted == 0 {
            HaltReason::InfeasibleSuspected
        } else {
            HaltReason::NoProgressDetected
        })
    }

    fn too_many_unread(&self, facts: &mut Facts) -> bool {
        let accepted = u32::from(self.outcome == Outcome::Accept);
        let unread = self.case.state.comprehension.diffs_unread.saturating_add(accepted);
        let Some(limit) = self.case.contract.limits.unread_diffs else {
            facts.given("accepted changes that nobody has read", unread);
            return facts.is("limits.unread_diffs is set", false, true);
        };
        let accepted = facts.is("the candidate was accepted", accepted == 1, true);
        facts.at_least("accepted changes that nobody has read", unread, limit) && accepted
    }
}

const MONEY: &str = "money spent";
const TOKENS: &str = "tokens used";
const TIME: &str = "the loop's time";

/// Whether the loop must stop instead of starting another worker. `elapsed_seconds` is the loop's time.
pub fn before_start(contract: &Contract, state: &State, elapsed_seconds: u64) -> Option<Stop> {
    trace_before_start(contract, state, elapsed_seconds).0
}

/// The same, and what was asked.
pub fn trace_before_start(
    contract: &Contract,
    state: &State,
    elapsed_seconds: u64,
) -> (Option<Stop>, Vec<Consideration>) {
    let limits = &contract.limits;
    let mut asked = Vec::new();
    for (limit, halt_reason) in [
        // Whatever the worker did, row 3 would throw it away.
        (Limit::BlockedFinding, HaltReason::HumanRequired),
        (Limit::Cost, HaltReason::BudgetExceeded),
        (Limit::Deadline, HaltReason::DeadlineExceeded),
        (Limit::Iterations, HaltReason::MaxIterationsReached),
    ] {
        let mut facts = Facts::default();
        let holds = match limit {
            Limit::BlockedFinding => facts.more("open findings that block", state.blocking_findings(), 0),
            Limit::Cost => no_money_left(contract, state, &mut facts),
            Limit::Deadline => {
                facts.at_least(TIME, Seconds(elapsed_seconds), Seconds(limits.duration_seconds))
            }
            _ => facts.at_least("iterations", state.iteration, limits.iterations),
        };
        asked.push(facts.into_consideration(None, limit.as_str(), holds));
        if holds {
            return (Some(Stop { limit, halt_reason }), asked);
        }
    }
    (None, asked)
}

fn no_money_left(contract: &Contract, state: &State, facts: &mut Facts) -> bool {
    let limits = &contract.limits;
    let reserved = reservation(contract, state);
    facts.given("spent", state.cumulative_usd);
    facts.given("reserved for the next start", reserved);
    let unknown = state.counters.unknown_costs;
    let unknown = match limits.unknown_cost {
        UnknownCost::Stop => facts.more("runs whose cost is not known", unknown, 0),
        UnknownCost::Allow => false,
    };
    let spent =
        facts.more("spent and reserved", state.cumulative_usd.saturating_add(reserved), limits.cost_usd);
    let tokens = limits.tokens.is_some_and(|limit| facts.more(TOKENS, state.counters.tokens, limit));
    unknown || spent || tokens
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
