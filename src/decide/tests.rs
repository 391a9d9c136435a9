//! The rows and the limits, each at its boundary and on both sides, and what must hold for any evidence.

use proptest::prelude::*;

use super::testing::{contract, contract_with_holdout, state};
use super::*;
use crate::contract::{Direction, OnViolation};
use crate::ledger::record::Severity;
use crate::ledger::state::{OpenFinding, Regressions, SameFailures};

/// A check with this metric; everything else is as it should be.
fn check(metric: f64) -> CheckEvidence {
    CheckEvidence {
        metric: Some(metric),
        passing: metric == 0.0,
        // As many failing tests as the metric says: t1, t2, …
        failing: Some(
            (1..=6).filter(|test| f64::from(*test) <= metric).map(|test| format!("t{test}")).collect(),
        ),
        ..CheckEvidence::default()
    }
}

fn evidence(metric: f64) -> Evidence {
    Evidence { check: Some(check(metric)), usd: Some(MicroUsd::ZERO), ..Evidence::default() }
}

/// (outcome, status, reason, outcome_reason, halt_reason, exit code)
fn told(decision: &Decision) -> (Outcome, DecisionStatus, &str, &str, Option<&str>, u8) {
    (
        decision.outcome,
        decision.status,
        &decision.reason,
        &decision.outcome_reason,
        decision.halt_reason.map(HaltReason::as_str),
        decision.exit_code,
    )
}

#[test]
fn each_row_gives_its_outcome() {
    use DecisionStatus as S;
    use Outcome::{Accept, Blocked, Reject};
    let (contract, state) = (contract(), state(&contract()));
    let with = |change: &dyn Fn(&mut Evidence)| {
        let mut evidence = evidence(2.0);
        change(&mut evidence);
        decide(&contract, &state, &evidence)
    };
    let drift = with(&|e| e.drifted = 1);
    assert_eq!(
        told(&drift),
        (Blocked, S::Blocked, "verifier_drift", "verifier_drift", Some("metric_integrity_violation"), 13)
    );
    let blocked = with(&|e| e.blocked_paths = 1);
    let same = "blocked_path_modified";
    assert_eq!(told(&blocked), (Blocked, S::Blocked, same, same, Some(same), 13));
    let tampered = with(&|e| e.tampered = 1);
    assert_eq!(told(&tampered), (Blocked, S::Blocked, same, same, Some(same), 13));
    let failed = with(&|e| e.worker_failed = true);
    let same = "worker_failed";
    assert_eq!(told(&failed), (Reject, S::Stopped, same, same, Some("execution_failure"), 40));
    let unchanged = with(&|e| e.unchanged = true);
    assert_eq!(told(&unchanged), (Reject, S::Reject, "no_change", "no_change", None, 0));
    let outside = with(&|e| e.outside = 1);
    let same = "outside_mutable_paths";
    assert_eq!(told(&outside), (Reject, S::Reject, same, same, None, 0));
    for broken in [
        with(&|e| e.check.as_mut().unwrap().failed = true),
        with(&|e| e.check.as_mut().unwrap().metric = None),
        with(&|e| e.check.as_mut().unwrap().metric = Some(f64::NAN)),
        with(&|e| e.check = None),
    ] {
        assert_eq!(told(&broken), (Reject, S::Reject, "verifier_failed", "verifier_failed", None, 0));
    }
    let lost = with(&|e| e.check.as_mut().unwrap().lost = 1);
    let same = "metric_integrity_violation";
    assert_eq!(told(&lost), (Blocked, S::Blocked, same, same, Some(same), 13));
    let flaky = with(&|e| e.check.as_mut().unwrap().flaky = true);
    assert_eq!(told(&flaky), (Blocked, S::Blocked, "check_flaky", "check_flaky", Some("check_flaky"), 14));
    let regressed = with(&|e| e.check.as_mut().unwrap().regressed = vec!["t".to_owned()]);
    assert_eq!(told(&regressed), (Reject, S::Reject, "tests_regressed", "tests_regressed", None, 0));
    let met = decide(&contract, &state, &evidence(0.0));
    assert_eq!(
        told(&met),
        (Accept, S::AwaitingReview, "target_met", "target_met", Some("success_condition_met"), 10)
    );
    assert_eq!(told(&with(&|_| ())), (Accept, S::Accept, "metric_improved", "metric_improved", None, 0));
    let equal = decide(&contract, &state, &evidence(3.0));
    let same = "metric_not_improved";
    assert_eq!(told(&equal), (Reject, S::Reject, same, same, None, 0));
    let abandoned = with(&|e| e.abandoned = true);
    assert_eq!(told(&abandoned), (Reject, S::Reject, "abandoned", "abandoned", None, 0));
}

#[test]
fn a_red_holdout_rejects_and_the_second_ends_the_run() {
    use HoldoutVerdict::{Failed, NoVerdict, Passed};
    let contract = contract_with_holdout();
    let mut state = state(&contract);
    state.counters.holdout_red = Some(0);
    let with = |state: &State, holdout| decide(&contract, state, &Evidence { holdout, ..evidence(0.0) });
    let (failed, met) = ("holdout_failed", "target_met");
    let once = with(&state, Some(Failed));
    assert_eq!(told(&once), (Outcome::Reject, DecisionStatus::Reject, failed, failed, None, 0));
    assert!(once.rollback_required);
    let passed = with(&state, Some(Passed));
    assert_eq!(
        told(&passed),
        (Outcome::Accept, DecisionStatus::AwaitingReview, met, met, Some("success_condition_met"), 10)
    );
    // A holdout that was not asked has not passed, and one without a verdict is a check without one.
    assert_eq!(with(&state, None).outcome_reason, failed);
    let silent = with(&state, Some(NoVerdict));
    assert_eq!(
        told(&silent),
        (Outcome::Reject, DecisionStatus::Reject, "verifier_failed", "verifier_failed", None, 0)
    );
    state.counters.holdout_red = Some(1);
    assert_eq!(with(&state, Some(NoVerdict)).halt_reason, None);
    assert_eq!(with(&state, Some(Passed)).outcome_reason, met);
    assert_eq!(
        told(&with(&state, Some(Failed))),
        (Outcome::Reject, DecisionStatus::Stopped, failed, failed, Some("reward_hacking_detected"), 13)
    );
}

#[test]
fn a_holdout_is_asked_only_where_the_candidate_would_be_accepted_for_meeting_the_target() {
    let contract = contract_with_holdout();
    let state = state(&contract);
    assert!(wants_holdout(&contract, &state, &evidence(0.0)));
    let said = Evidence { holdout: Some(HoldoutVerdict::Failed), ..evidence(0.0) };
    assert!(wants_holdout(&contract, &state, &said), "what it said does not matter");
    assert!(!wants_holdout(&contract, &state, &evidence(2.0)), "an improvement is not the target");
    let drifted = Evidence { drifted: 1, ..evidence(0.0) };
    assert!(!wants_holdout(&contract, &state, &drifted));
    let mut regressed = evidence(0.0);
    regressed.check.as_mut().unwrap().regressed = vec!["t1".to_owned()];
    assert!(!wants_holdout(&contract, &state, &regressed));
    let mut failing = evidence(0.0);
    failing.check.as_mut().unwrap().passing = false;
    assert!(!wants_holdout(&contract, &state, &failing));
    assert!(!wants_holdout(&testing::contract(), &state, &evidence(0.0)), "there is none");
}

#[test]
fn the_green_of_a_renewal_is_reviewed_only_if_the_holdout_passes_too() {
    let mut contract = contract_with_holdout();
    let base = |contract: &Contract, holdout| {
        let shown =
            BaselineEvidence { flaky: false, metric: Some(0.0), passing: true, target_met: true, holdout };
        after_baseline(contract, shown).0.map(|(halt, _)| halt)
    };
    assert_eq!(base(&contract, None), Some(HaltReason::NoActionableTasks));
    contract.parent = Some(contract.base.commit);
    assert_eq!(base(&contract, None), None);
    assert_eq!(base(&contract, Some(HoldoutVerdict::Failed)), None);
    assert_eq!(base(&contract, Some(HoldoutVerdict::Passed)), Some(HaltReason::SuccessConditionMet));
    contract.holdout = None;
    assert_eq!(base(&contract, None), Some(HaltReason::SuccessConditionMet));
}

#[test]
fn the_target_needs_a_passing_check() {
    let (contract, state) = (contract(), state(&contract()));
    let mut evidence = evidence(0.0);
    evidence.check.as_mut().unwrap().passing = false;
    assert_eq!(decide(&contract, &state, &evidence).outcome_reason, "metric_improved");
}

#[test]
fn an_improvement_is_more_than_nothing_and_at_least_the_minimum() {
    let mut contract = contract();
    let state = state(&contract);
    contract.metric.min_improvement = 0.5;
    let reason = |metric: f64| decide(&contract, &state, &evidence(metric)).outcome_reason;
    assert_eq!(reason(2.5), "metric_improved");
    assert_eq!(reason(2.500_1), "metric_not_improved");
    let mut maximize = contract.clone();
    maximize.metric.direction = Direction::Maximize;
    maximize.metric.target = 10.0;
    let reason = |metric: f64| decide(&maximize, &state, &evidence(metric)).outcome_reason;
    assert_eq!(reason(3.5), "metric_improved");
    assert_eq!(reason(3.4), "metric_not_improved");
    // Anything is better than no baseline.
    let mut bare = state.clone();
    bare.best_metric = None;
    assert_eq!(decide(&contract, &bare, &evidence(1e9)).outcome_reason, "metric_improved");
}

#[test]
fn a_violation_may_be_softened_but_not_tampering() {
    let mut contract = contract();
    let state = state(&contract);
    contract.guards.on_violation = OnViolation::Reject;
    let outcome = |change: &dyn Fn(&mut Evidence)| {
        let mut evidence = evidence(2.0);
        change(&mut evidence);
        decide(&contract, &state, &evidence).outcome
    };
    assert_eq!(outcome(&|e| e.drifted = 1), Outcome::Reject);
    assert_eq!(outcome(&|e| e.blocked_paths = 1), Outcome::Reject);
    assert_eq!(outcome(&|e| e.check.as_mut().unwrap().lost = 1), Outcome::Reject);
    assert_eq!(outcome(&|e| e.tampered = 1), Outcome::Blocked);
    assert_eq!(outcome(&|e| (e.tampered, e.drifted) = (1, 1)), Outcome::Blocked);
    assert_eq!(outcome(&|e| (e.tampered, e.abandoned) = (1, true)), Outcome::Blocked);
}

#[test]
fn limits_stop_at_their_boundary_and_not_before() {
    let (contract, state) = (contract(), state(&contract()));
    let reason = |change: &dyn Fn(&mut State, &mut Evidence)| {
        let (mut state, mut evidence) = (state.clone(), evidence(2.0));
        change(&mut state, &mut evidence);
        decide(&contract, &state, &evidence).reason
    };
    let usd = |micros| Some(MicroUsd::from_micros(micros));
    // Money and tokens: more than the limit.
    assert_eq!(reason(&|_, e| e.usd = usd(1_000_000)), "metric_improved");
    assert_eq!(reason(&|_, e| e.usd = usd(1_000_001)), "cost_limit");
    assert_eq!(reason(&|_, e| e.tokens = 1000), "metric_improved");
    assert_eq!(reason(&|_, e| e.tokens = 1001), "cost_limit");
    // Time: at the limit.
    assert_eq!(reason(&|_, e| e.elapsed_seconds = 599), "metric_improved");
    assert_eq!(reason(&|_, e| e.elapsed_seconds = 600), "deadline");
    assert_eq!(reason(&|_, e| e.hit_deadline = true), "deadline");
    // The tenth iteration is the last.
    assert_eq!(reason(&|s, _| s.iteration = 8), "metric_improved");
    assert_eq!(reason(&|s, _| s.iteration = 9), "iteration_limit");
    // Three rejections in a row.
    let stuck = |before| {
        move |s: &mut State, e: &mut Evidence| {
            s.counters.no_progress = before;
            e.check = Some(check(3.0));
        }
    };
    assert_eq!(reason(&stuck(1)), "metric_not_improved");
    assert_eq!(reason(&stuck(2)), "no_progress_limit");
}

#[test]
fn the_order_of_the_stops() {
    let (contract, state) = (contract(), state(&contract()));
    let mut late = state.clone();
    late.iteration = 9;
    late.counters.no_progress = 2;
    let over =
        Evidence { usd: Some(MicroUsd::from_micros(2_000_000)), elapsed_seconds: 600, ..evidence(0.0) };
    // A hard limit of money wins over a met target, and over the clock.
    assert_eq!(decide(&contract, &late, &over).reason, "cost_limit");
    // The clock wins over the target.
    assert_eq!(decide(&contract, &late, &Evidence { usd: None, ..over.clone() }).reason, "deadline");
    // The target wins over the last iteration.
    assert_eq!(decide(&contract, &late, &evidence(0.0)).reason, "target_met");
    // The last iteration wins over no progress.
    assert_eq!(decide(&contract, &late, &evidence(3.0)).reason, "iteration_limit");
    // An accepted iteration at a limit stays accepted.
    let accepted = decide(&contract, &late, &evidence(1.0));
    assert_eq!((accepted.outcome, accepted.status), (Outcome::Accept, DecisionStatus::Stopped));
    assert!(accepted.improved && !accepted.rollback_required);
}

#[test]
fn standing_still_has_three_names() {
    let (contract, mut state) = (contract(), state(&contract()));
    state.counters.no_progress = 2;
    let halt = |state: &State| decide(&contract, state, &evidence(3.0)).halt_reason.unwrap().as_str();
    assert_eq!(halt(&state), "infeasible_suspected");
    state.counters.accepted = 1;
    assert_eq!(halt(&state), "no_progress_detected");
    let set = crate::canonical::sha256_of(&["t1", "t2", "t3"]);
    state.counters.same_failures = Some(SameFailures { set: set.clone(), iterations: 1 });
    assert_eq!(halt(&state), "no_progress_detected");
    state.counters.same_failures = Some(SameFailures { set: "another".to_owned(), iterations: 2 });
    assert_eq!(halt(&state), "no_progress_detected");
    state.counters.same_failures = Some(SameFailures { set, iterations: 2 });
    assert_eq!(halt(&state), "same_failure_repeated");
}

#[test]
fn before_a_start_the_reservation_counts() {
    let (contract, mut state) = (contract(), state(&contract()));
    let reason = |state: &State| before_start(&contract, state, 0).map(|stop| stop.limit.as_str());
    // At first an equal share of the limit.
    assert_eq!(reservation(&contract, &state), MicroUsd::from_micros(100_000));
    state.cumulative_usd = MicroUsd::from_micros(900_000);
    assert_eq!(reason(&state), None);
    state.cumulative_usd = MicroUsd::from_micros(900_001);
    assert_eq!(reason(&state), Some("cost_limit"));
    // Then the largest cost so far.
    state.cumulative_usd = MicroUsd::ZERO;
    state.counters.largest_usd = MicroUsd::from_micros(1_000_001);
    assert_eq!(reason(&state), Some("cost_limit"));
    state.counters.largest_usd = MicroUsd::ZERO;
    // A cost that nobody knows is not 0.
    state.counters.unknown_costs = 1;
    assert_eq!(reason(&state), Some("cost_limit"));
    state.counters.unknown_costs = 0;
    state.counters.tokens = 1000;
    assert_eq!(reason(&state), None);
    state.counters.tokens = 1001;
    assert_eq!(reason(&state), Some("cost_limit"));
    state.counters.tokens = 0;
    assert_eq!(before_start(&contract, &state, 599).map(|stop| stop.limit), None);
    assert_eq!(before_start(&contract, &state, 600).map(|stop| stop.limit), Some(Limit::Deadline));
    state.iteration = 10;
    assert_eq!(reason(&state), Some("iteration_limit"));
}

fn any_metric() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        Just(None),
        any::<f64>().prop_map(Some),
        (-5_i32..6).prop_map(|number| Some(f64::from(number))),
        Just(Some(f64::NAN)),
        Just(Some(f64::INFINITY)),
    ]
}

fn any_set() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::btree_set("[a-d]", 0..4).prop_map(|set| set.into_iter().collect())
}

prop_compose! {
    fn any_check()(
        failed in any::<bool>(), metric in any_metric(), noise in any_metric(), passing in any::<bool>(),
        lost in 0_usize..2, flaky in proptest::bool::weighted(0.2), regressed in any_set(),
        failing in proptest::option::of(any_set()),
    ) -> CheckEvidence {
        CheckEvidence { failed, metric, noise, passing, lost, flaky, regressed, failing }
    }
}

prop_compose! {
    pub(super) fn any_evidence()(
        counts in (0_usize..2, 0_usize..2, 0_usize..2, 0_usize..2), flags in any::<(bool, bool, bool, bool)>(),
        check in proptest::option::of(any_check()), usd in proptest::option::of(any::<u64>()), tokens in any::<u64>(),
        elapsed_seconds in any::<u64>(),
        holdout in proptest::option::of(prop_oneof![
            Just(HoldoutVerdict::Passed), Just(HoldoutVerdict::Failed), Just(HoldoutVerdict::NoVerdict),
        ]),
    ) -> Evidence {
        Evidence {
            drifted: counts.0, blocked_paths: counts.1, tampered: counts.2, outside: counts.3,
            unchanged: flags.0, worker_failed: flags.1, hit_deadline: flags.2, abandoned: flags.3,
            check, usd: usd.map(MicroUsd::from_micros), cost_known: flags.1, tokens, elapsed_seconds,
            holdout,
        }
    }
}

prop_compose! {
    pub(super) fn any_state()(
        iteration in any::<u32>(), best in any_metric(), usd in any::<u64>(), accepted in any::<u32>(),
        no_progress in any::<u32>(), tokens in any::<u64>(), unknown in any::<u32>(), largest in any::<u64>(),
        sets in proptest::collection::vec(any_set(), 0..8), oscillations in any::<u32>(), noise in any_metric(),
        regressed in proptest::collection::btree_map("[a-d]", any::<u32>(), 0..4), unread in any::<u32>(),
        costs in proptest::collection::vec(any::<u64>(), 0..6), blocked in proptest::bool::weighted(0.1),
        red in proptest::option::of(0_u32..3),
    ) -> State {
        let mut state = state(&contract());
        state.iteration = iteration;
        state.best_metric = best;
        state.cumulative_usd = MicroUsd::from_micros(usd);
        state.counters.accepted = accepted;
        state.counters.holdout_red = red;
        state.counters.no_progress = no_progress;
        state.counters.tokens = tokens;
        state.counters.unknown_costs = unknown;
        state.counters.largest_usd = MicroUsd::from_micros(largest);
        state.counters.failing_sets =
            sets.iter().fold(FailingSets::default(), |so_far, set| so_far.with(set));
        state.counters.oscillations = oscillations;
        state.counters.best_noise = noise;
        state.counters.regressions =
            regressed.into_iter().map(|(test, iterations)| Regressions { test, iterations }).collect();
        state.counters.costs =
            costs.into_iter().fold(Costs::default(), |so_far, cost| so_far.with(MicroUsd::from_micros(cost)));
        state.comprehension.diffs_unread = unread;
        if blocked {
            let severity = Severity::Block;
            state.findings = vec![OpenFinding { record: None, severity, principal: "a".to_owned() }];
        }
        state
    }
}

proptest! {
    #[test]
    fn the_decision_is_total_and_says_one_thing(state in any_state(), evidence in any_evidence()) {
        let contract = contract();
        let decision = decide(&contract, &state, &evidence);
        prop_assert_eq!(&decision, &decide(&contract, &state, &evidence));
        prop_assert_eq!(decision.improved, decision.outcome == Outcome::Accept);
        prop_assert_eq!(decision.rollback_required, !decision.improved);
        prop_assert_eq!(decision.exit_code, decision.halt_reason.map_or(0, |reason| reason.exit_code().get()));
        let halts = !matches!(decision.status, DecisionStatus::Accept | DecisionStatus::Reject);
        prop_assert_eq!(halts, decision.halt_reason.is_some());
        prop_assert_eq!(decision.status == DecisionStatus::Blocked, decision.outcome == Outcome::Blocked);
        let _ = before_start(&contract, &state, evidence.elapsed_seconds);
        let _ = remaining(&contract, &state, evidence.elapsed_seconds);
    }

    #[test]
    fn no_guard_violation_is_ever_accepted(state in any_state(), evidence in any_evidence()) {
        let decision = decide(&contract(), &state, &evidence);
        let check = evidence.check.clone().unwrap_or_default();
        let violated = evidence.drifted + evidence.blocked_paths + evidence.tampered + evidence.outside > 0
            || evidence.unchanged || evidence.abandoned || evidence.worker_failed
            || evidence.check.is_none() || check.failed || check.lost + check.regressed.len() > 0 || check.flaky
            || !check.metric.is_some_and(f64::is_finite);
        if violated {
            prop_assert!(!decision.improved, "{:?}", decision);
        }
    }

    #[test]
    fn what_is_accepted_is_better_or_meets_the_target(state in any_state(), evidence in any_evidence()) {
        let contract = contract();
        let decision = decide(&contract, &state, &evidence);
        if decision.improved {
            let metric = evidence.check.as_ref().and_then(|check| check.metric).unwrap();
            let better = state.best_metric.is_none_or(|best| metric < best);
            prop_assert!(better || target_met(&contract, metric, evidence.check.unwrap().passing));
        }
    }

    #[test]
    fn no_target_is_met_without_the_holdout(state in any_state(), evidence in any_evidence()) {
        let contract = contract_with_holdout();
        let decision = decide(&contract, &state, &evidence);
        let met = decision.outcome_reason == "target_met";
        prop_assert!(!met || evidence.holdout == Some(HoldoutVerdict::Passed), "{:?}", decision);
        let unsaid = Evidence { holdout: None, ..evidence.clone() };
        prop_assert!(!decide(&contract, &state, &unsaid).improved || !wants_holdout(&contract, &state, &unsaid));
    }

    #[test]
    fn no_sequence_runs_past_its_limits(metrics in proptest::collection::vec((-1_i32..6, 0_u64..400_000), 0..40)) {
        let contract = contract();
        let mut state = state(&contract);
        let mut starts = 0;
        for (metric, cost) in metrics {
            if before_start(&contract, &state, 0).is_some() {
                break;
            }
            starts += 1;
            let evidence = Evidence { usd: Some(MicroUsd::from_micros(cost)), ..evidence(f64::from(metric)) };
            let decision = decide(&contract, &state, &evidence);
            state.iteration += 1;
            state.cumulative_usd = state.cumulative_usd.saturating_add(MicroUsd::from_micros(cost));
            state.counters.largest_usd = state.counters.largest_usd.max(MicroUsd::from_micros(cost));
            if decision.improved {
                state.best_metric = Some(f64::from(metric));
                state.counters.no_progress = 0;
            } else {
                state.counters.no_progress += 1;
            }
            if decision.halt_reason.is_some() {
                break;
            }
        }
        prop_assert!(starts <= contract.limits.iterations);
        prop_assert!(state.counters.no_progress <= contract.limits.no_progress);
        // The last run may overshoot by what it cost more than was reserved for it, never a whole run more.
        let largest = state.counters.largest_usd;
        prop_assert!(state.cumulative_usd <= contract.limits.cost_usd.saturating_add(largest));
    }
}
