//! The rows and the limits, each at its boundary and on both sides, and what must hold for any evidence.

use proptest::prelude::*;

use super::testing::{contract, contract_of_lasting, contract_with_holdout, state};
use super::*;
use crate::contract::{Direction, OnViolation};
use crate::ledger::record::Severity;
use crate::ledger::state::{LastingCounters, OpenFinding, Regressions, SameFailures};

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

/// Evidence of lasting code with nothing wrong.
fn lasting(metric: f64) -> Evidence {
    Evidence {
        lasting: Some(LastingEvidence::default()),
        packet: PacketStanding::Valid,
        holdout: Some(HoldoutVerdict::Passed),
        ..evidence(metric)
    }
}

fn lasting_state(change: impl Fn(&mut LastingCounters)) -> State {
    let mut state = state(&contract_of_lasting());
    change(state.counters.lasting.as_mut().unwrap());
    state
}

#[test]
fn each_row_of_lasting_code_gives_its_outcome() {
    let contract = contract_of_lasting();
    let fine = lasting_state(|_| ());
    let with = |change: &dyn Fn(&mut LastingEvidence)| {
        let mut evidence = lasting(2.0);
        change(evidence.lasting.as_mut().unwrap());
        decide(&contract, &fine, &evidence)
    };
    let rejected = |reason| (Outcome::Reject, DecisionStatus::Reject, reason, reason, None, 0);
    assert_eq!(told(&with(&|_| ())).2, "metric_improved");
    assert_eq!(told(&with(&|e| e.incomplete = true)), rejected("evidence_incomplete"));
    let unseen = Evidence { lasting: None, ..lasting(2.0) };
    assert_eq!(told(&decide(&contract, &fine, &unseen)), rejected("evidence_incomplete"));
    assert_eq!(told(&with(&|e| e.not_allowed = 1)), rejected("semantic_change_not_allowed"));
    assert_eq!(told(&with(&|e| e.unknown = 1)), rejected("invariant_effect_unknown"));
    assert_eq!(told(&with(&|e| e.defenses = 1)), rejected("local_defense_added"));
    assert_eq!(told(&with(&|e| e.dependent = 1)), rejected("machine_independence_failed"));
    // Each number at its bound and behind it, alone and with what was accepted before.
    for at in 0..5 {
        let bound = contract.lasting.as_ref().unwrap().complexity_budget.parts()[at];
        let delta = |number: i64| {
            let mut parts = [0; 5];
            parts[at] = number;
            ComplexityDelta::from_parts(parts)
        };
        assert_eq!(told(&with(&|e| e.delta = delta(bound))).2, "metric_improved", "{at}");
        let over = "complexity_budget_exceeded";
        assert_eq!(told(&with(&|e| e.delta = delta(bound + 1))), rejected(over), "{at}");
        let used = |used: i64, now: i64| {
            let state = lasting_state(|counters| counters.complexity = delta(used));
            let lasting_now = LastingEvidence { delta: delta(now), ..LastingEvidence::default() };
            decide(&contract, &state, &Evidence { lasting: Some(lasting_now), ..lasting(2.0) }).outcome_reason
        };
        assert_eq!(used(bound, 0), "metric_improved", "{at}");
        assert_eq!(used(bound, 1), over, "{at}");
        assert_eq!(used(bound + 1, -1), "metric_improved", "what is removed makes room: {at}");
        assert_eq!(used(-1, bound + 1), "metric_improved", "{at}");
        assert_eq!(used(i64::MAX, i64::MAX), over, "no sum turns round: {at}");
    }
}

#[test]
fn a_target_without_a_packet_is_kept_once() {
    use PacketStanding::{Absent, Invalid, Valid};
    let contract = contract_of_lasting();
    let at = |awaiting: bool, packet, metric| {
        let state = lasting_state(|counters| counters.awaiting_packet = awaiting);
        decide(&contract, &state, &Evidence { packet, ..lasting(metric) })
    };
    let met = (
        Outcome::Accept,
        DecisionStatus::AwaitingReview,
        "target_met",
        "target_met",
        Some("success_condition_met"),
        10,
    );
    for awaiting in [false, true] {
        assert_eq!(told(&at(awaiting, Valid, 0.0)), met);
        assert_eq!(at(awaiting, Absent, 2.0).outcome_reason, "metric_improved");
    }
    for packet in [Absent, Invalid] {
        let missing = "packet_missing";
        assert_eq!(
            told(&at(false, packet, 0.0)),
            (Outcome::Accept, DecisionStatus::Accept, missing, missing, None, 0)
        );
        let invalid = "promotion_packet_invalid";
        assert_eq!(
            told(&at(true, packet, 0.0)),
            (Outcome::Reject, DecisionStatus::Reject, invalid, invalid, None, 0)
        );
    }
    // Where it is waited for, it may be brought without a change; nothing else may.
    let unchanged = |awaiting: bool, packet| {
        let state = lasting_state(|counters| counters.awaiting_packet = awaiting);
        let evidence = Evidence { packet, unchanged: true, ..lasting(0.0) };
        let without = decides_without_check(&contract, &state, &evidence);
        (decide(&contract, &state, &evidence).outcome_reason, without)
    };
    let no_change = ("no_change".to_owned(), true);
    assert_eq!(unchanged(false, Valid), no_change);
    assert_eq!(unchanged(true, Absent), no_change);
    assert_eq!(unchanged(true, Valid), ("target_met".to_owned(), false));
    assert_eq!(unchanged(true, Invalid), ("promotion_packet_invalid".to_owned(), false));
    // A red holdout comes first, and is asked where the packet is missing, too.
    let red = Evidence { holdout: Some(HoldoutVerdict::Failed), packet: Absent, ..lasting(0.0) };
    let state = lasting_state(|_| ());
    assert_eq!(decide(&contract, &state, &red).outcome_reason, "holdout_failed");
    assert!(wants_holdout(&contract, &state, &Evidence { packet: Absent, ..lasting(0.0) }));
    let unshown = LastingEvidence { dependent: 1, ..LastingEvidence::default() };
    assert!(!wants_holdout(&contract, &state, &Evidence { lasting: Some(unshown), ..lasting(0.0) }));
}

#[test]
fn local_defenses_stop_at_their_limit() {
    let contract = contract_of_lasting();
    let mut state = lasting_state(|_| ());
    let defended = LastingEvidence { defenses: 1, ..LastingEvidence::default() };
    let evidence = Evidence { lasting: Some(defended), ..lasting(2.0) };
    let added = "local_defense_added";
    state.counters.local_defenses = Some(0);
    assert_eq!(
        told(&decide(&contract, &state, &evidence)),
        (Outcome::Reject, DecisionStatus::Reject, added, added, None, 0)
    );
    state.counters.local_defenses = Some(1);
    let limit = "local_defense_limit";
    assert_eq!(
        told(&decide(&contract, &state, &evidence)),
        (Outcome::Reject, DecisionStatus::Stopped, limit, added, Some(limit), 17)
    );
    // They are counted, and stop nothing that is none.
    state.counters.local_defenses = Some(7);
    assert_eq!(decide(&contract, &state, &lasting(2.0)).halt_reason, None);
}

#[test]
fn under_rules_1_lasting_code_is_decided_as_it_was() {
    let mut contract = contract_of_lasting();
    contract.rules = crate::contract::frozen::RULES;
    let state = state(&contract);
    assert_eq!((&state.counters.lasting, state.counters.local_defenses), (&None, None));
    let bare = Evidence { lasting: None, packet: PacketStanding::Absent, ..lasting(0.0) };
    assert_eq!(decide(&contract, &state, &bare).outcome_reason, "target_met");
    let trace = trace(&contract, &state, &bare);
    assert!(trace.rows.iter().all(|row| row.row.is_none_or(|row| !(11..=16).contains(&row) && row != 18)));
}

#[test]
fn the_green_of_a_renewal_of_lasting_code_goes_on_for_its_packet() {
    let mut contract = contract_of_lasting();
    let shown = |holdout| BaselineEvidence {
        flaky: false,
        metric: Some(0.0),
        passing: true,
        target_met: true,
        holdout,
    };
    let halt = |contract: &Contract| after_baseline(contract, shown(None)).0.map(|(halt, _)| halt);
    assert_eq!(halt(&contract), Some(HaltReason::NoActionableTasks));
    contract.parent = Some(contract.base.commit);
    assert_eq!(halt(&contract), None);
    assert_eq!(after_baseline(&contract, shown(Some(HoldoutVerdict::Passed))).0, None);
    assert!(!wants_holdout_of_base(&contract, true));
    contract.rules = crate::contract::frozen::RULES;
    assert!(wants_holdout_of_base(&contract, true));
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

/// The five numbers; every other one is small, so that rows behind row 16 are reached.
fn any_delta() -> impl Strategy<Value = ComplexityDelta> {
    prop_oneof![3 => (-2_i64..2).boxed(), 1 => any::<i64>().boxed()]
        .prop_flat_map(|near| proptest::array::uniform5(prop_oneof![4 => Just(near), 1 => -1_i64..3]))
        .prop_map(ComplexityDelta::from_parts)
}

prop_compose! {
    fn any_lasting()(
        incomplete in proptest::bool::weighted(0.1), not_allowed in few(), unknown in few(), defenses in few(), dependent in few(),
        unmeasurable in few(), delta in any_delta(),
    ) -> LastingEvidence {
        LastingEvidence { incomplete, not_allowed, unknown, defenses, dependent, unmeasurable, delta }
    }
}

/// Mostly 0.
fn few() -> impl Strategy<Value = usize> {
    prop_oneof![8 => Just(0_usize), 1 => Just(1), 1 => Just(2)]
}

prop_compose! {
    pub(super) fn any_evidence()(
        counts in (0_usize..2, 0_usize..2, 0_usize..2, 0_usize..2), flags in any::<(bool, bool, bool, bool)>(),
        check in proptest::option::of(any_check()), usd in proptest::option::of(any::<u64>()), tokens in any::<u64>(),
        elapsed_seconds in any::<u64>(),
        holdout in proptest::option::of(prop_oneof![
            Just(HoldoutVerdict::Passed), Just(HoldoutVerdict::Failed), Just(HoldoutVerdict::NoVerdict),
        ]),
        packet in prop_oneof![
            Just(PacketStanding::Absent), Just(PacketStanding::Invalid), Just(PacketStanding::Valid),
        ],
        lasting in proptest::option::weighted(0.9, any_lasting()),
    ) -> Evidence {
        Evidence {
            drifted: counts.0, blocked_paths: counts.1, tampered: counts.2, outside: counts.3,
            unchanged: flags.0, worker_failed: flags.1, hit_deadline: flags.2, abandoned: flags.3,
            check, usd: usd.map(MicroUsd::from_micros), cost_known: flags.1, tokens, elapsed_seconds,
            holdout, packet, lasting,
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
        red in proptest::option::of(0_u32..3), defenses in 0_u32..3, used in any_delta(), awaiting in any::<bool>(),
    ) -> State {
        let mut state = state(&contract_of_lasting());
        state.counters.local_defenses = Some(defenses);
        state.counters.lasting =
            Some(LastingCounters { complexity: used, awaiting_packet: awaiting, failed_at_baseline: Vec::new() });
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
    fn no_lasting_code_is_accepted_unshown(state in any_state(), evidence in any_evidence()) {
        let contract = contract_of_lasting();
        let decision = decide(&contract, &state, &evidence);
        let budget = contract.lasting.as_ref().unwrap().complexity_budget.parts();
        let used = state.counters.lasting.as_ref().unwrap().complexity;
        let shown = evidence.lasting.is_some_and(|shown| {
            let fits = used.plus(shown.delta).parts().iter().zip(budget).all(|(sum, bound)| *sum <= bound);
            let bad = [shown.not_allowed, shown.unknown, shown.defenses, shown.dependent, shown.unmeasurable];
            fits && !shown.incomplete && bad == [0; 5]
        });
        prop_assert!(!decision.improved || shown, "{:?}", decision);
        // No target is reached without its packet, and none is waited for twice.
        let met = decision.outcome_reason == "target_met";
        prop_assert!(!met || evidence.packet == PacketStanding::Valid);
        prop_assert_eq!(met, decision.outcome == Outcome::Accept && decision.outcome_reason == "target_met");
        if decision.outcome_reason == "packet_missing" {
            prop_assert!(decision.improved && !awaits_packet(&state));
            prop_assert!(decision.halt_reason != Some(HaltReason::SuccessConditionMet));
        }
        // What the commands would say is asked only where it matters, and then it decides nothing before.
        let silent = Evidence {
            lasting: evidence.lasting.map(|shown| LastingEvidence { unknown: 1, dependent: 1, ..shown }), ..evidence.clone()
        };
        let row = |evidence: &Evidence| {
            let name = decide(&contract, &state, evidence).outcome_reason;
            Row::ALL.into_iter().find(|row| row.as_str() == name).unwrap().number().unwrap_or(0)
        };
        prop_assert_eq!(wants_invariants(&contract, &state, &silent), row(&silent) == 13);
        prop_assert_eq!(wants_invariants(&contract, &state, &evidence), wants_invariants(&contract, &state, &silent));
        prop_assert!(!wants_independence(&contract, &state, &evidence) || wants_invariants(&contract, &state, &evidence));
        if row(&evidence) >= 15 {
            prop_assert!(wants_independence(&contract, &state, &evidence));
        }
        // Of any other contract nothing of it is asked.
        let plain = Evidence { lasting: None, packet: PacketStanding::Absent, ..evidence.clone() };
        let other = contract_with_holdout();
        prop_assert_eq!(decide(&other, &state, &evidence), decide(&other, &state, &plain));
        prop_assert!(!wants_invariants(&other, &state, &evidence) && !wants_independence(&other, &state, &evidence));
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
