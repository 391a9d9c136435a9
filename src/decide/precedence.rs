//! Which condition wins where two hold at once: every pair of rows and every pair of stops, not a sample.

use super::testing::{contract_of_lasting, state};
use super::*;
use crate::ledger::record::Severity;
use crate::ledger::state::{OpenFinding, Regressions};

/// One iteration that is about to be decided.
struct Case {
    contract: Contract,
    state: State,
    evidence: Evidence,
}

impl Case {
    /// Accepted, and nothing is wrong with it.
    fn new() -> Self {
        let contract = contract_of_lasting();
        let state = state(&contract);
        let check =
            CheckEvidence { metric: Some(2.0), failing: Some(names("ab")), ..CheckEvidence::default() };
        let evidence = Evidence {
            check: Some(check),
            usd: Some(MicroUsd::ZERO),
            cost_known: true,
            lasting: Some(LastingEvidence::default()),
            packet: PacketStanding::Valid,
            ..Evidence::default()
        };
        Self { contract, state, evidence }
    }

    fn check(&mut self) -> &mut CheckEvidence {
        self.evidence.check.as_mut().unwrap()
    }

    fn lasting(&mut self) -> &mut LastingEvidence {
        self.evidence.lasting.as_mut().unwrap()
    }

    fn awaiting(&mut self) -> &mut bool {
        &mut self.state.counters.lasting.as_mut().unwrap().awaiting_packet
    }

    fn decide(&self) -> Decision {
        decide(&self.contract, &self.state, &self.evidence)
    }
}

fn names(letters: &str) -> Vec<String> {
    letters.chars().map(String::from).collect()
}

fn block(case: &mut Case) {
    let open = |severity| OpenFinding { record: None, severity, principal: "rev".to_owned() };
    case.state.findings = vec![open(Severity::Warn), open(Severity::Block)];
}

/// The check says that the target is met, and the holdout says this.
fn meet(case: &mut Case, holdout: HoldoutVerdict) {
    (case.check().metric, case.check().passing) = (Some(0.0), true);
    case.evidence.holdout = Some(holdout);
}

type Condition = (&'static str, fn(&mut Case));

/// The rows in their order, each with what makes it apply.
const ROWS: &[Condition] = &[
    ("verifier_drift", |case| case.evidence.drifted = 1),
    ("blocked_path_modified", |case| case.evidence.blocked_paths = 1),
    ("blocked_finding", |case| block(case)),
    ("worker_failed", |case| case.evidence.worker_failed = true),
    ("no_change", |case| case.evidence.unchanged = true),
    ("outside_mutable_paths", |case| case.evidence.outside = 1),
    ("verifier_failed", |case| case.check().failed = true),
    ("metric_integrity_violation", |case| case.check().lost = 1),
    ("check_flaky", |case| case.check().flaky = true),
    ("tests_regressed", |case| case.check().regressed = names("x")),
    ("evidence_incomplete", |case| case.lasting().incomplete = true),
    ("semantic_change_not_allowed", |case| case.lasting().not_allowed = 1),
    ("invariant_effect_unknown", |case| case.lasting().unknown = 1),
    ("local_defense_added", |case| case.lasting().defenses = 1),
    ("machine_independence_failed", |case| case.lasting().dependent = 1),
    ("complexity_budget_exceeded", |case| case.lasting().delta.changed_lines = 11),
    ("holdout_failed", |case| meet(case, HoldoutVerdict::Failed)),
    ("promotion_packet_invalid", |case| {
        meet(case, HoldoutVerdict::Passed);
        *case.awaiting() = true;
        case.evidence.packet = PacketStanding::Absent;
    }),
    ("packet_missing", |case| {
        meet(case, HoldoutVerdict::Passed);
        case.evidence.packet = PacketStanding::Invalid;
    }),
    ("target_met", |case| meet(case, HoldoutVerdict::Passed)),
    ("metric_improved", |_| ()),
];

#[test]
fn of_two_rows_the_earlier_wins() {
    for (at, (earlier, apply)) in ROWS.iter().enumerate() {
        for (later, also) in &ROWS[at..] {
            let mut case = Case::new();
            also(&mut case);
            apply(&mut case);
            assert_eq!(case.decide().outcome_reason, *earlier, "{earlier} and {later}");
        }
        // The last row is what is left; it holds together with every one before it but its opposite.
        let mut case = Case::new();
        case.check().metric = Some(3.0);
        apply(&mut case);
        let expected = if *earlier == "metric_improved" { "metric_not_improved" } else { earlier };
        assert_eq!(case.decide().outcome_reason, expected, "{earlier} and metric_not_improved");
    }
}

/// What an interruption leaves of the rows: only tampering, which always blocks.
#[test]
fn an_interruption_wins_over_every_row_but_tampering() {
    for (row, apply) in ROWS {
        let mut case = Case::new();
        apply(&mut case);
        case.evidence.abandoned = true;
        assert_eq!(case.decide().outcome_reason, "abandoned", "{row}");
        case.evidence.tampered = 1;
        assert_eq!(case.decide().outcome_reason, "blocked_path_modified", "{row}");
        case.evidence.abandoned = false;
        let expected = if *row == "verifier_drift" { row } else { "blocked_path_modified" };
        assert_eq!(case.decide().outcome_reason, expected, "{row}");
    }
}

/// The stops in their order, each with what makes it apply. `worker_failed`, `local_defense_limit`, `holdout_failed`, `no_progress_limit` need a rejection, `target_met` and
/// `unread_diffs_limit` an acceptance; the others come with either.
const STOPS: &[Condition] = &[
    ("deadline", |case| case.evidence.hit_deadline = true),
    ("worker_failed", |case| case.evidence.worker_failed = true),
    ("cost_limit", |case| case.state.cumulative_usd = MicroUsd::from_micros(1_000_001)),
    ("cost_anomaly", |case| {
        let costs = [1, 2, 3].map(MicroUsd::from_micros);
        case.state.counters.costs = costs.into_iter().fold(Costs::default(), Costs::with);
        case.evidence.usd = Some(MicroUsd::from_micros(5));
    }),
    ("deadline", |case| case.evidence.elapsed_seconds = 600),
    ("target_met", |case| meet(case, HoldoutVerdict::Passed)),
    ("local_defense_limit", |case| {
        case.state.counters.local_defenses = Some(1);
        case.lasting().defenses = 1;
    }),
    ("holdout_failed", |case| {
        case.state.counters.holdout_red = Some(1);
        meet(case, HoldoutVerdict::Failed);
    }),
    ("unsatisfiable_constraints", |case| {
        for set in ["ab", "b", "a", "b"] {
            push(case, set);
        }
        case.check().failing = Some(names("a"));
    }),
    ("oscillation_detected", |case| {
        // The third set comes back once, this iteration's is the second time.
        case.state.counters.oscillations = 1;
        push(case, "a");
        push(case, "ab");
        case.check().failing = Some(names("a"));
    }),
    ("same_test_regressed", |case| {
        case.state.counters.regressions = vec![Regressions { test: "x".to_owned(), iterations: 1 }];
        case.check().regressed = names("x");
    }),
    ("iteration_limit", |case| case.state.iteration = 9),
    ("no_progress_limit", |case| {
        case.state.counters.no_progress = 2;
        case.check().metric = Some(3.0);
    }),
    ("unread_diffs_limit", |case| {
        case.contract.limits.unread_diffs = Some(3);
        case.state.comprehension.diffs_unread = 2;
    }),
];

fn push(case: &mut Case, set: &str) {
    case.state.counters.failing_sets = case.state.counters.failing_sets.with(&names(set));
}

/// Pairs that no iteration can have at once, with the reason.
const IMPOSSIBLE: &[(&str, &str)] = &[
    // A worker that failed is rejected before its check, and without a check nothing goes round in circles.
    ("worker_failed", "target_met"),
    ("worker_failed", "holdout_failed"),
    ("worker_failed", "unsatisfiable_constraints"),
    ("worker_failed", "oscillation_detected"),
    ("worker_failed", "same_test_regressed"),
    ("worker_failed", "unread_diffs_limit"),
    ("worker_failed", "local_defense_limit"),
    // Row 14 stands before row 17, behind row 10, and is a rejection.
    ("local_defense_limit", "holdout_failed"),
    ("local_defense_limit", "same_test_regressed"),
    ("local_defense_limit", "unread_diffs_limit"),
    ("target_met", "local_defense_limit"),
    // A regression is a rejection.
    ("target_met", "same_test_regressed"),
    // The holdout is asked only where none of the rows before it applies.
    ("holdout_failed", "same_test_regressed"),
    ("same_test_regressed", "unread_diffs_limit"),
    // One needs a rejection, the other an acceptance.
    ("target_met", "holdout_failed"),
    ("target_met", "no_progress_limit"),
    ("holdout_failed", "unread_diffs_limit"),
    ("no_progress_limit", "unread_diffs_limit"),
];

#[test]
fn of_two_stops_the_earlier_wins() {
    for (at, (earlier, apply)) in STOPS.iter().enumerate() {
        for (later, also) in &STOPS[at..] {
            if IMPOSSIBLE.contains(&(earlier, later)) {
                continue;
            }
            let mut case = Case::new();
            also(&mut case);
            apply(&mut case);
            if *earlier == "worker_failed" && case.evidence.check.is_some() {
                case.evidence.check = None;
            }
            let decision = case.decide();
            assert_eq!(decision.reason, *earlier, "{earlier} and {later}: {decision:?}");
            assert_ne!(decision.halt_reason, None, "{earlier} and {later}");
        }
    }
}

/// A blocked outcome is final as it is: no stop changes its name.
#[test]
fn a_blocked_outcome_wins_over_every_stop() {
    let blocked: [Condition; 5] = [
        ("verifier_drift", |case| case.evidence.drifted = 1),
        ("blocked_path_modified", |case| case.evidence.blocked_paths = 1),
        ("blocked_finding", |case| block(case)),
        ("metric_integrity_violation", |case| case.check().lost = 1),
        ("check_flaky", |case| case.check().flaky = true),
    ];
    for (row, apply) in blocked {
        for (stop, also) in STOPS {
            let mut case = Case::new();
            also(&mut case);
            apply(&mut case);
            // Row 4 stands before rows 8 and 9.
            case.evidence.worker_failed = false;
            let decision = case.decide();
            assert_eq!((decision.reason.as_str(), decision.status), (row, DecisionStatus::Blocked), "{stop}");
        }
    }
}

/// Every row that rejects or accepts, with every stop that can come with it: the stop names the end, the row the outcome.
#[test]
fn a_stop_ends_the_run_and_leaves_the_outcome() {
    for (row, apply) in &ROWS[3..] {
        for (stop, also) in STOPS {
            let mut case = Case::new();
            also(&mut case);
            apply(&mut case);
            let decision = case.decide();
            let blocks = decision.outcome == Outcome::Blocked;
            assert_eq!(decision.improved, decision.outcome == Outcome::Accept, "{row} {stop}");
            assert_eq!(decision.rollback_required, !decision.improved, "{row} {stop}");
            if !blocks && decision.status == DecisionStatus::Stopped {
                assert_ne!(decision.reason, "target_met", "{row} {stop}");
            }
        }
    }
}
