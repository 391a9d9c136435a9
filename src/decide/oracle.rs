//! The decision once more, as short as it can be said and without what it notes: what [`trace`](super::trace()) notes must come
//! to the same.

use proptest::prelude::*;

use super::testing::{contract, contract_of_lasting, contract_with_holdout};
use super::tests::{any_evidence, any_state};
use super::*;
use crate::canonical::sha256_of;
use crate::contract::{OnFailure, OnViolation, UnknownCost};

fn row(contract: &Contract, state: &State, evidence: &Evidence) -> (Row, Outcome) {
    let violation = match contract.guards.on_violation {
        OnViolation::Halt => Outcome::Blocked,
        OnViolation::Reject => Outcome::Reject,
    };
    if evidence.tampered > 0 {
        let drifted = evidence.drifted > 0 && !evidence.abandoned;
        return (if drifted { Row::VerifierDrift } else { Row::BlockedPathModified }, Outcome::Blocked);
    }
    if evidence.abandoned {
        return (Row::Abandoned, Outcome::Reject);
    }
    if evidence.drifted > 0 {
        return (Row::VerifierDrift, violation);
    }
    if evidence.blocked_paths > 0 {
        return (Row::BlockedPathModified, violation);
    }
    if state.blocking_findings() > 0 {
        return (Row::BlockedFinding, Outcome::Blocked);
    }
    if evidence.worker_failed && contract.worker.on_failure != OnFailure::Check {
        return (Row::WorkerFailed, Outcome::Reject);
    }
    let terms = contract.judged_as_lasting();
    let awaiting = state.counters.lasting.as_ref().is_some_and(|lasting| lasting.awaiting_packet);
    if evidence.unchanged && !(terms.is_some() && awaiting && evidence.packet != PacketStanding::Absent) {
        return (Row::NoChange, Outcome::Reject);
    }
    if evidence.outside > 0 {
        return (Row::OutsideMutablePaths, Outcome::Reject);
    }
    let Some(check) = &evidence.check else { return (Row::VerifierFailed, Outcome::Reject) };
    let metric = match check.metric {
        Some(metric) if !check.failed && metric.is_finite() => metric,
        _ => return (Row::VerifierFailed, Outcome::Reject),
    };
    if evidence.holdout == Some(HoldoutVerdict::NoVerdict) {
        return (Row::VerifierFailed, Outcome::Reject);
    }
    if check.lost > 0 {
        return (Row::MetricIntegrityViolation, violation);
    }
    if check.flaky {
        return (Row::CheckFlaky, Outcome::Blocked);
    }
    if !check.regressed.is_empty() {
        return (Row::TestsRegressed, Outcome::Reject);
    }
    if let Some(terms) = terms {
        let Some(shown) = evidence.lasting.filter(|shown| !shown.incomplete) else {
            return (Row::EvidenceIncomplete, Outcome::Reject);
        };
        let used = state.counters.lasting.as_ref().unwrap().complexity.plus(shown.delta).parts();
        for (row, applies) in [
            (Row::SemanticChangeNotAllowed, shown.not_allowed > 0),
            (Row::InvariantEffectUnknown, shown.unknown > 0),
            (Row::LocalDefenseAdded, shown.defenses > 0),
            (Row::MachineIndependenceFailed, shown.dependent > 0),
            (
                Row::ComplexityBudgetExceeded,
                shown.unmeasurable > 0
                    || used.iter().zip(terms.complexity_budget.parts()).any(|(sum, bound)| *sum > bound),
            ),
        ] {
            if applies {
                return (row, Outcome::Reject);
            }
        }
    }
    let held = contract.holdout.is_none() || evidence.holdout == Some(HoldoutVerdict::Passed);
    if target_met(contract, metric, check.passing) && !held {
        return (Row::HoldoutFailed, Outcome::Reject);
    }
    if target_met(contract, metric, check.passing)
        && terms.is_some()
        && evidence.packet != PacketStanding::Valid
    {
        if awaiting {
            return (Row::PromotionPacketInvalid, Outcome::Reject);
        }
        return (Row::PacketMissing, Outcome::Accept);
    }
    if target_met(contract, metric, check.passing) {
        return (Row::TargetMet, Outcome::Accept);
    }
    let Some(best) = state.best_metric else { return (Row::MetricImproved, Outcome::Accept) };
    let gain = contract.metric.direction.gain(best, metric);
    let noise = check.noise.unwrap_or(0.0).max(state.counters.best_noise.unwrap_or(0.0));
    if gain > 0.0 && gain >= contract.metric.min_improvement && (noise <= 0.0 || gain > noise) {
        return (Row::MetricImproved, Outcome::Accept);
    }
    (Row::MetricNotImproved, Outcome::Reject)
}

fn stop(
    contract: &Contract,
    state: &State,
    evidence: &Evidence,
    row: Row,
    outcome: Outcome,
) -> Option<(&'static str, HaltReason)> {
    let (limits, counters) = (&contract.limits, &state.counters);
    if evidence.hit_deadline {
        return Some(("deadline", HaltReason::DeadlineExceeded));
    }
    if row == Row::WorkerFailed && contract.worker.on_failure == OnFailure::Halt {
        return Some(("worker_failed", HaltReason::ExecutionFailure));
    }
    let spent = state.cumulative_usd.saturating_add(evidence.usd.unwrap_or(MicroUsd::ZERO));
    let tokens = counters.tokens.saturating_add(evidence.tokens);
    if spent > limits.cost_usd || limits.tokens.is_some_and(|limit| tokens > limit) {
        return Some(("cost_limit", HaltReason::BudgetExceeded));
    }
    if evidence.cost_known
        && evidence.usd.is_some_and(|usd| counters.costs.is_anomaly(usd, limits.cost_sigma))
    {
        return Some(("cost_anomaly", HaltReason::CostAnomaly));
    }
    if evidence.elapsed_seconds >= limits.duration_seconds {
        return Some(("deadline", HaltReason::DeadlineExceeded));
    }
    if row == Row::TargetMet {
        return Some(("target_met", HaltReason::SuccessConditionMet));
    }
    if row == Row::LocalDefenseAdded
        && counters.local_defenses.unwrap_or(0).saturating_add(1)
            >= contract.lasting.as_ref().unwrap().local_defense_limit
    {
        return Some(("local_defense_limit", HaltReason::LocalDefenseLimit));
    }
    if row == Row::HoldoutFailed && counters.holdout_red.unwrap_or(0).saturating_add(1) >= 2 {
        return Some(("holdout_failed", HaltReason::RewardHackingDetected));
    }
    let check = evidence.check.as_ref();
    if let Some(check) = check.filter(|_| !evidence.abandoned)
        && let Some(failing) = &check.failing
    {
        let sets = counters.failing_sets.with(failing);
        if sets.contradiction().is_some() {
            return Some(("unsatisfiable_constraints", HaltReason::UnsatisfiableConstraints));
        }
        if sets.returned() && counters.oscillations.saturating_add(1) >= limits.oscillation_limit {
            return Some(("oscillation_detected", HaltReason::OscillationDetected));
        }
        let before = |test: &String| {
            counters.regressions.iter().find(|known| known.test == *test).map_or(0, |known| known.iterations)
        };
        if check.regressed.iter().any(|test| before(test).saturating_add(1) >= limits.regression_limit) {
            return Some(("same_test_regressed", HaltReason::SameTestRegressed));
        }
    }
    if state.iteration.saturating_add(1) >= limits.iterations {
        return Some(("iteration_limit", HaltReason::MaxIterationsReached));
    }
    if row != Row::Abandoned
        && outcome != Outcome::Accept
        && counters.no_progress.saturating_add(1) >= limits.no_progress
    {
        let same = check.and_then(|check| {
            let set = sha256_of(check.failing.as_ref().filter(|failing| !failing.is_empty())?);
            let before = counters.same_failures.as_ref().filter(|before| before.set == set);
            Some(before.map_or(0, |before| before.iterations) + 1)
        });
        return Some((
            "no_progress_limit",
            if same.is_some_and(|count| count >= limits.no_progress) {
                HaltReason::SameFailureRepeated
            } else if counters.accepted == 0 {
                HaltReason::InfeasibleSuspected
            } else {
                HaltReason::NoProgressDetected
            },
        ));
    }
    if outcome == Outcome::Accept
        && limits
            .unread_diffs
            .is_some_and(|limit| state.comprehension.diffs_unread.saturating_add(1) >= limit)
    {
        return Some(("unread_diffs_limit", HaltReason::ComprehensionDebtExceeded));
    }
    None
}

fn before(contract: &Contract, state: &State, elapsed: u64) -> Option<HaltReason> {
    let limits = &contract.limits;
    let spent = state.cumulative_usd.saturating_add(reservation(contract, state));
    if state.blocking_findings() > 0 {
        Some(HaltReason::HumanRequired)
    } else if (state.counters.unknown_costs > 0 && limits.unknown_cost == UnknownCost::Stop)
        || spent > limits.cost_usd
        || limits.tokens.is_some_and(|limit| state.counters.tokens > limit)
    {
        Some(HaltReason::BudgetExceeded)
    } else if elapsed >= limits.duration_seconds {
        Some(HaltReason::DeadlineExceeded)
    } else if state.iteration >= limits.iterations {
        Some(HaltReason::MaxIterationsReached)
    } else {
        None
    }
}

prop_compose! {
    fn any_contract()(
        flags in any::<(bool, bool, bool, bool)>(), on_failure in 0_usize..3, unread in proptest::option::of(1_u32..4),
        repeat in 0.0..2.0_f64, kind in 0_u8..4,
    ) -> Contract {
        let mut contract = match kind {
            0 => contract(),
            1 => contract_with_holdout(),
            _ => contract_of_lasting(),
        };
        if kind == 3 {
            contract.holdout = None;
        }
        contract.guards.on_violation = if flags.0 { OnViolation::Halt } else { OnViolation::Reject };
        contract.worker.on_failure = [OnFailure::Halt, OnFailure::Reject, OnFailure::Check][on_failure];
        contract.limits.unknown_cost = if flags.1 { UnknownCost::Stop } else { UnknownCost::Allow };
        contract.limits.unread_diffs = unread;
        if flags.2 {
            contract.limits.tokens = None;
        }
        if flags.3 {
            // Most states are over these limits, and would hide every other stop.
            contract.limits.iterations = u32::MAX;
            contract.limits.cost_usd = MicroUsd::from_micros(u64::MAX);
            contract.limits.duration_seconds = u64::MAX;
            contract.limits.tokens = None;
        }
        contract.metric.min_improvement = repeat;
        contract
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_trace_is_the_decision(contract in any_contract(), state in any_state(), evidence in any_evidence()) {
        let Trace { rows, stops, decision } = trace(&contract, &state, &evidence);
        let (expected, outcome) = row(&contract, &state, &evidence);
        prop_assert_eq!(&decision.outcome_reason, expected.as_str());
        prop_assert_eq!(decision.outcome, outcome);
        // The last row that was asked is the first that applies, and the table is asked from its top.
        let table: Vec<Row> = Row::ALL.into_iter().filter(|row| row.is_asked(&contract)).collect();
        let at = table.iter().position(|row| *row == expected).unwrap();
        prop_assert_eq!(rows.len(), at + 1);
        for (considered, row) in rows.iter().zip(table) {
            prop_assert_eq!(considered.name, row.as_str());
            prop_assert_eq!(considered.applies, row == expected);
        }
        if outcome == Outcome::Blocked {
            prop_assert!(stops.is_empty());
            prop_assert_eq!(&decision.reason, expected.as_str());
        } else {
            let expected = stop(&contract, &state, &evidence, expected, outcome);
            prop_assert_eq!(decision.halt_reason, expected.map(|stop| stop.1));
            let (last, earlier) = stops.split_last().unwrap();
            prop_assert_eq!(last.applies, expected.is_some());
            if let Some((name, _)) = expected {
                prop_assert_eq!(last.name, name);
                prop_assert_eq!(&decision.reason, name);
            } else {
                let more = [contract.holdout.is_some(), contract.judged_as_lasting().is_some()];
                prop_assert_eq!(stops.len(), 12 + more.into_iter().filter(|more| *more).count());
            }
            prop_assert!(earlier.iter().all(|stop| !stop.applies));
        }
        // What applies rests on a comparison that holds; whatever was asked compared something, but the row that is left.
        for one in rows.iter().chain(&stops) {
            let silent = one.compared.is_empty();
            prop_assert!(
                !silent || one.name == "metric_not_improved" || one.name == "unread_diffs_limit", "{:?}", one
            );
            prop_assert!(!one.applies || silent || one.compared.iter().any(|it| it.holds), "{:?}", one);
        }
        let without = row_needs_no_check(&decision);
        prop_assert_eq!(decides_without_check(&contract, &state, &evidence), without);
    }

    #[test]
    fn so_before_a_start(contract in any_contract(), state in any_state(), elapsed in any::<u64>()) {
        let (stop, asked) = trace_before_start(&contract, &state, elapsed);
        prop_assert_eq!(stop.map(|stop| stop.halt_reason), before(&contract, &state, elapsed));
        let last = asked.last().unwrap();
        prop_assert_eq!(last.applies, stop.is_some());
        if let Some(stop) = stop {
            prop_assert_eq!(last.name, stop.limit.as_str());
        }
    }
}

fn row_needs_no_check(decision: &Decision) -> bool {
    let row = Row::ALL.into_iter().find(|row| row.as_str() == decision.outcome_reason).unwrap();
    row == Row::Abandoned || row.number().is_some_and(|number| number <= 6)
}
