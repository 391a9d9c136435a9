//! The fold over arbitrary sequences of records: total, prefix-stable, and never past its own law.

use proptest::prelude::*;

use super::fold::{begin, fold};
use super::receipt::{
    ChangesReceipt, CheckReceipt, CostBasis, CostReceipt, GuardViolation, GuardsReceipt, RECEIPT_SCHEMA,
    Receipt, RunReceipt, SandboxReceipt, Unlisted,
};
use super::record::{
    Actor, BaselineBody, Body, CheckpointBody, FindingAction, FindingBody, HaltBody, HaltedBy, IterationBody,
    Kind, LeaseBody, PromotionBody, RECORD_SCHEMA, Record, ReleaseBody, Remaining, ResumeBody, ReviewBody,
    Role, Severity, Status, Verdict,
};
use super::state::{Phase, State};
use crate::at::At;
use crate::contract::Contract;
use crate::decide::testing::contract;
use crate::decide::{Decision, Evidence, decide};
use crate::exit::HaltReason;
use crate::money::MicroUsd;
use crate::oid::Oid;

/// What comes next, as far as a test chooses it; everything else is filled in so that it fits the state.
#[derive(Debug, Clone)]
enum Next {
    Baseline(u8),
    Checkpoint,
    Iteration { failing: u8, cost: u32, abandoned: bool },
    Halt(HaltedBy),
    Resume,
    Review { who: bool, approve: bool },
    Promotion,
    Finding { block: bool, resolve: bool },
    Release { who: bool },
    Lease { other: bool, holder: u8, lasts: i64 },
}

fn any_next() -> impl Strategy<Value = Next> {
    prop_oneof![
        1 => (0_u8..16).prop_map(Next::Baseline),
        4 => Just(Next::Checkpoint),
        4 => (0_u8..16, 0_u32..300_000, prop::bool::weighted(0.1))
            .prop_map(|(failing, cost, abandoned)| Next::Iteration { failing, cost, abandoned }),
        1 => prop_oneof![
            Just(HaltedBy::Baseline), Just(HaltedBy::Decision), Just(HaltedBy::Limit), Just(HaltedBy::Operator)
        ].prop_map(Next::Halt),
        1 => Just(Next::Resume),
        1 => any::<(bool, bool)>().prop_map(|(who, approve)| Next::Review { who, approve }),
        1 => Just(Next::Promotion),
        1 => any::<bool>().prop_map(|who| Next::Release { who }),
        1 => (prop::bool::weighted(0.3), any::<bool>()).prop_map(|(block, resolve)| Next::Finding { block, resolve }),
        1 => (any::<bool>(), 0_u8..3, -5_i64..60).prop_map(|(other, holder, lasts)| Next::Lease { other, holder, lasts }),
    ]
}

fn id(number: u64) -> Oid {
    format!("{number:040x}").parse().expect("40 digits")
}

/// The names of the tests whose bits are set.
fn names(failing: u8) -> Vec<String> {
    (0..4).filter(|bit| failing & (1 << bit) != 0).map(|bit: u8| bit.to_string()).collect()
}

fn check(failing: u8) -> CheckReceipt {
    let metric = failing.count_ones();
    CheckReceipt {
        tree: id(1),
        run: RunReceipt {
            command: vec!["c".to_owned()],
            exit_code: Some(i32::from(metric > 0)),
            signal: None,
            ended: "itself".to_owned(),
            duration_ms: 1,
            survivors: 0,
        },
        report: None,
        no_report: None,
        problem: None,
        metric: Some(f64::from(metric)),
        noise: None,
        passing: metric == 0,
        flaky: false,
        partial: false,
        counts: None,
        failures: Some(names(failing)),
        collected: None,
        tests: None,
        lost: Vec::new(),
        newly_skipped: Vec::new(),
        regressed: Vec::new(),
        runs: Vec::new(),
    }
}

fn decision(
    contract: &Contract,
    state: &State,
    failing: u8,
    cost: u32,
    abandoned: bool,
    elapsed: u64,
) -> Decision {
    let metric = failing.count_ones();
    let evidence = Evidence {
        check: Some(crate::decide::CheckEvidence {
            metric: Some(f64::from(metric)),
            passing: metric == 0,
            failing: Some(names(failing)),
            ..Default::default()
        }),
        usd: Some(MicroUsd::from_micros(u64::from(cost))),
        cost_known: true,
        elapsed_seconds: elapsed,
        abandoned,
        ..Evidence::default()
    };
    decide(contract, state, &evidence)
}

fn body(contract: &Contract, state: &State, next: &Next, seq: u64, at: At) -> Body {
    let sandbox = SandboxReceipt::default();
    match next {
        Next::Baseline(failing) => Body::Baseline(Box::new(BaselineBody {
            base: state.last_green_commit,
            check: check(*failing),
            holdout: None,
            invariants: None,
            sandbox,
            layers: None,
            target_met: *failing == 0,
            evidence: Vec::new(),
        })),
        Next::Checkpoint => Body::Checkpoint(CheckpointBody {
            iteration: state.iteration + 1,
            base: state.last_green_commit,
            environment_id: format!("{seq:016x}"),
            adapter: "landlock".to_owned(),
            context: Vec::new(),
            remaining: Remaining { iterations: 1, usd: MicroUsd::ZERO, tokens: None, seconds: 1 },
            reservation_usd: MicroUsd::ZERO,
        }),
        Next::Iteration { failing, cost, abandoned } => {
            let open = state.checkpoint.clone();
            let (environment_id, base) =
                open.as_ref().map_or((String::new(), id(0)), |open| (open.environment_id.clone(), open.base));
            let halted = state.phase == Phase::Halted;
            let receipt = Receipt {
                schema: RECEIPT_SCHEMA.to_owned(),
                loop_id: contract.loop_id.clone(),
                contract: id(1),
                checkpoint: open.as_ref().and_then(|open| open.record).unwrap_or(id(seq - 1)),
                iteration: state.iteration + 1,
                environment_id,
                base,
                candidate: Some(id(1000 + seq)),
                candidate_tree: Some(id(2000 + seq)),
                abandoned: (*abandoned || halted).then(|| "why".to_owned()),
                worker: None,
                outside: None,
                model: None,
                sampling: None,
                context: Vec::new(),
                cost: CostReceipt {
                    prompt_tokens: Some(1),
                    completion_tokens: None,
                    usd: Some(MicroUsd::from_micros(u64::from(*cost))),
                    basis: CostBasis::Reported,
                    problem: None,
                },
                changes: ChangesReceipt { count: 0, paths: Vec::new() },
                guards: GuardsReceipt {
                    guards_intact: true,
                    drift: Vec::new(),
                    blocked: Vec::new(),
                    tampered: Vec::new(),
                    left_out: Vec::new(),
                    outside: Vec::new(),
                    more: None,
                },
                check: Some(check(*failing)),
                lasting: None,
                holdout: None,
                sandbox,
                layers: None,
                elapsed_seconds: state.elapsed_seconds(at),
                decision: decision(
                    contract,
                    state,
                    *failing,
                    *cost,
                    *abandoned || halted,
                    state.elapsed_seconds(at),
                ),
                determinism_confidence: None,
                unpinned: std::collections::BTreeMap::new(),
            };
            Body::Iteration(Box::new(IterationBody { receipt, evidence: Vec::new() }))
        }
        Next::Halt(by) => {
            let due = state.due_halt.clone();
            let stop = crate::decide::before_start(contract, state, state.elapsed_seconds(at));
            let (halt_reason, reason) = match (&due, by, stop) {
                (Some(due), _, _) => (due.halt_reason, due.reason.clone()),
                (None, HaltedBy::Limit, Some(stop)) => (stop.halt_reason, stop.limit.as_str().to_owned()),
                _ => (HaltReason::OperatorStopped, "operator_stopped".to_owned()),
            };
            Body::Halt(HaltBody {
                by: due.map_or(*by, |due| due.by),
                halt_reason,
                status: super::fold::status_of(halt_reason),
                reason,
                exit_code: halt_reason.exit_code().get(),
                iteration: state.iteration,
                last_green_commit: state.last_green_commit,
                message: None,
                packet: None,
            })
        }
        Next::Resume => Body::Resume(ResumeBody { halt: state.halt.unwrap_or(id(seq - 1)), message: None }),
        Next::Review { approve, .. } => Body::Review(ReviewBody {
            verdict: if *approve { Verdict::Approve } else { Verdict::Reject },
            halt: state.halt.unwrap_or(id(seq - 1)),
            candidate: state.last_green_commit,
            personas: Vec::new(),
            attestations: serde_json::Map::new(),
            comment: None,
            invocation: None,
        }),
        Next::Promotion => Body::Promotion(PromotionBody {
            halt: state.halt.unwrap_or(id(seq - 1)),
            reviews: Vec::new(),
            candidate: state.last_green_commit,
            candidate_tree: id(3),
            tip: id(seq - 1),
        }),
        Next::Release { .. } => {
            Body::Release(ReleaseBody { halt: state.halt.unwrap_or(id(seq - 1)), reason: "why".to_owned() })
        }
        Next::Lease { holder, lasts, .. } => Body::Lease(LeaseBody {
            holder: format!("{holder:016x}"),
            host: "here".to_owned(),
            until: At::from_seconds(at.seconds() + lasts).expect("a time"),
        }),
        Next::Finding { block, resolve } => {
            let open = state.findings.first().filter(|_| *resolve);
            Body::Finding(FindingBody {
                action: if open.is_some() { FindingAction::Resolve } else { FindingAction::Add },
                finding: open.map(|open| open.record.unwrap_or(id(seq - 1))),
                severity: open
                    .map_or(if *block { Severity::Block } else { Severity::Warn }, |open| open.severity),
                message: "why".to_owned(),
            })
        }
    }
}

fn record(contract: &Contract, state: &State, next: &Next, seq: u64) -> Record {
    let at = At::from_seconds(1_000_000 + i64::try_from(seq).unwrap_or(0) * 7).expect("a time");
    let body = body(contract, state, next, seq, at);
    let reviewer = matches!(
        next,
        Next::Review { who: true, .. } | Next::Release { who: true } | Next::Lease { other: true, .. }
    );
    let principal = if reviewer { "a" } else { "r" };
    Record {
        schema: RECORD_SCHEMA.to_owned(),
        kind: body.kind(),
        loop_id: contract.loop_id.clone(),
        contract: Some(id(0)),
        seq,
        prev: Some(id(seq - 1)),
        at,
        actor: Actor { principal: principal.to_owned(), key: principal.to_owned(), role: Role::Runner },
        body,
    }
}

/// The state after these records, each of which must fit.
fn after(contract: &Contract, list: &[Next]) -> (State, u64) {
    list.iter().fold((begin(contract), 0), |(state, seq), next| {
        let record = record(contract, &state, next, seq + 1);
        (fold(contract, &state, &record).expect("it fits"), seq + 1)
    })
}

/// Something that is done to a state.
type Change<'a> = &'a dyn Fn(&mut State);

#[test]
fn what_a_limit_forbids_is_not_started_whoever_signs_it() {
    let contract = contract();
    let (state, seq) = after(&contract, &[Next::Baseline(3)]);
    let at = record(&contract, &state, &Next::Checkpoint, seq + 1).at;
    let started = |ago: i64| At::from_seconds(at.seconds() - ago);
    let reason = |change: &dyn Fn(&mut State)| {
        let mut state = state.clone();
        change(&mut state);
        let record = record(&contract, &state, &Next::Checkpoint, seq + 1);
        fold(&contract, &state, &record).err().map(|error| error.to_string())
    };
    let micros = MicroUsd::from_micros;
    // Each limit on both sides. Ten iterations, a dollar, of which the next start reserves ten cents.
    assert_eq!(reason(&|_| {}), None);
    assert_eq!(reason(&|state| state.cumulative_usd = micros(900_000)), None);
    assert_eq!(reason(&|state| state.counters.tokens = 1000), None);
    assert_eq!(reason(&|state| state.counters.started_at = started(599)), None);
    assert_eq!(reason(&|state| state.iteration = 9), None);
    let stops: [(&str, Change<'_>); 6] = [
        ("cost_limit", &|state| state.counters.unknown_costs = 1),
        ("cost_limit", &|state| state.cumulative_usd = micros(900_001)),
        ("cost_limit", &|state| state.counters.tokens = 1001),
        ("deadline", &|state| state.counters.started_at = started(600)),
        ("iteration_limit", &|state| state.iteration = 10),
        ("blocked_finding", &|state| {
            let next = Next::Finding { block: true, resolve: false };
            let finding = record(&contract, state, &next, seq);
            *state = fold(&contract, state, &finding).expect("it fits");
        }),
    ];
    for (limit, change) in stops {
        let why = reason(change).unwrap_or_default();
        assert!(why.contains(&format!("a limit is reached, `{limit}`")), "{limit}: {why}");
    }
}

#[test]
fn nothing_is_resumed_while_an_iteration_is_open() {
    let contract = contract();
    let stopped = [Next::Baseline(3), Next::Checkpoint, Next::Halt(HaltedBy::Operator)];
    let (state, seq) = after(&contract, &stopped);
    let resume = record(&contract, &state, &Next::Resume, seq + 1);
    let why = fold(&contract, &state, &resume).expect_err("an iteration is open").to_string();
    assert!(why.contains("iteration 1 is still open"), "{why}");
    // Once it is closed the loop may go on.
    let closed = Next::Iteration { failing: 3, cost: 0, abandoned: true };
    after(&contract, &[&stopped[..], &[closed, Next::Resume]].concat());
}

#[test]
fn a_receipt_lists_the_first_of_what_the_guards_found_and_counts_the_others() {
    let violations = |count: usize| -> Vec<GuardViolation> {
        (0..count).map(|n| GuardViolation { path: format!("p{n}"), what: "w".to_owned() }).collect()
    };
    let found = |drift, left_out| GuardsReceipt {
        guards_intact: false,
        drift: violations(drift),
        blocked: Vec::new(),
        tampered: Vec::new(),
        left_out: violations(left_out),
        outside: Vec::new(),
        more: None,
    };
    assert_eq!(found(200, 0).bounded(), found(200, 0));
    let bounded = found(201, 203).bounded();
    let more = Unlisted { drift: 1, left_out: 3, ..Unlisted::default() };
    assert_eq!(bounded, GuardsReceipt { more: Some(more), ..found(200, 200) });
    assert_eq!((bounded.left_out_count(), bounded.tampered_count()), (203, 0));
    // A second cut changes nothing.
    assert_eq!(bounded.clone().bounded(), bounded);
}

proptest! {
    #[test]
    fn the_fold_keeps_its_own_law(list in proptest::collection::vec(any_next(), 0..60)) {
        let contract = contract();
        let mut state = begin(&contract);
        let mut seq = 0;
        let mut accepted: Vec<Record> = Vec::new();
        for next in &list {
            let record = record(&contract, &state, next, seq + 1);
            // What does not fit is refused and leaves no trace.
            let Ok(after) = fold(&contract, &state, &record) else { continue };
            seq += 1;
            prop_assert!(after.iteration == state.iteration || after.iteration == state.iteration + 1);
            prop_assert!(after.cumulative_usd >= state.cumulative_usd);
            prop_assert!(after.iteration <= contract.limits.iterations);
            if after.status == Status::Succeeded {
                prop_assert!(!after.approvals.is_empty());
                prop_assert_eq!(after.blocking_findings(), 0);
            }
            // Only what is dead is released, by somebody else than who ran it, and then it goes no further.
            if after.released {
                prop_assert!(matches!(after.status, Status::Stopped | Status::Blocked));
                if state.released {
                    prop_assert!(!matches!(record.body, Body::Resume(_) | Body::Finding(_) | Body::Release(_)));
                } else {
                    prop_assert!(after.submitters.iter().all(|who| who.principal != record.actor.principal));
                }
            }
            // The metric of what is accepted never gets worse, and nothing is accepted while a finding blocks.
            if after.counters.accepted > state.counters.accepted {
                prop_assert!(state.best_metric.is_none_or(|best| after.best_metric.unwrap() <= best));
                prop_assert_eq!(state.blocking_findings(), 0);
            }
            if after.status == Status::AwaitingReview && state.status == Status::Active {
                prop_assert_eq!(after.best_metric, Some(0.0));
            }
            // While a lease holds nobody else runs the loop or takes it over.
            if let Some(lease) = state.lease.as_ref().filter(|lease| lease.holds_at(record.at)) {
                let runs = matches!(record.kind, Kind::Baseline | Kind::Checkpoint | Kind::Iteration);
                prop_assert!(!runs || record.actor.key == lease.key);
                prop_assert!(after.lease.as_ref().is_none_or(|now| now.holder == lease.holder));
                prop_assert!(after.lease.is_some() || matches!(record.kind, Kind::Halt | Kind::Lease));
            }
            prop_assert!(after.phase != Phase::Halted || after.lease.is_none());
            for approval in &after.approvals {
                prop_assert!(after.submitters.iter().all(|who| who.principal != approval.principal));
            }
            // The file says everything: what is read back is what was written.
            prop_assert_eq!(&State::from_bytes(&after.to_bytes()).unwrap(), &after);
            prop_assert_eq!(&Record::from_bytes(&record.to_bytes()).unwrap(), &record);
            state = after;
            accepted.push(record);
        }
        // The same records give the same state, and every prefix gave the state that it gives alone.
        let mut again = begin(&contract);
        for record in &accepted {
            again = fold(&contract, &again, record).unwrap();
        }
        prop_assert_eq!(again, state);
    }

    #[test]
    fn reading_a_record_or_a_state_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Record::from_bytes(&bytes);
        let _ = State::from_bytes(&bytes);
        let _ = Contract::from_bytes(&bytes);
    }
}

/// A contract and the state after records of these kinds, `seconds` apart, and the answer to the last.
fn after_leases(list: &[(Next, i64)]) -> Result<State, String> {
    let contract = contract();
    let mut state = begin(&contract);
    for (seq, (next, at)) in (1..).zip(list) {
        let mut record = record(&contract, &state, next, seq);
        record.at = At::from_seconds(1_000_000 + at).expect("a time");
        record.body = body(&contract, &state, next, seq, record.at);
        state = fold(&contract, &state, &record).map_err(|error| error.to_string())?;
    }
    Ok(state)
}

#[test]
fn a_lease_is_in_the_way_of_others_until_the_clocks_agree_that_it_is_over() {
    let ours = |lasts| Next::Lease { other: false, holder: 1, lasts };
    let theirs = |holder| Next::Lease { other: true, holder, lasts: 60 };
    let begun = [(Next::Baseline(3), 0)];
    let with = |list: &[(Next, i64)]| after_leases(&[&begun[..], list].concat());
    let lease = with(&[(ours(60), 10)]).unwrap().lease.unwrap();
    assert_eq!((lease.holder.as_str(), lease.until.seconds()), ("0000000000000001", 1_000_070));
    // 300 seconds after its end, and not a second before.
    let error = with(&[(ours(60), 10), (theirs(2), 369)]).unwrap_err();
    assert_eq!(
        error,
        "a `lease` record cannot stand here: r runs the loop on here until 1970-01-12T13:47:50Z"
    );
    assert_eq!(with(&[(ours(60), 10), (theirs(2), 370)]).unwrap().lease.unwrap().principal, "a");
    // The same key in another clone waits as well; the same clone renews it, and gives it up.
    assert!(with(&[(ours(60), 10), (Next::Lease { other: false, holder: 2, lasts: 60 }, 20)]).is_err());
    assert!(with(&[(ours(60), 10), (ours(60), 20)]).is_ok());
    assert_eq!(with(&[(ours(60), 10), (ours(0), 20)]).unwrap().lease, None);
    assert!(with(&[(ours(60), 10), (ours(0), 20), (theirs(2), 20)]).is_ok());
    // Whoever has another key runs nothing meanwhile; an operator may stop it, which ends the lease.
    assert!(with(&[(theirs(2), 10), (Next::Checkpoint, 20)]).unwrap_err().contains("a runs the loop"));
    assert!(with(&[(theirs(2), 10), (Next::Checkpoint, 370)]).is_ok());
    assert_eq!(with(&[(theirs(2), 10), (Next::Halt(HaltedBy::Operator), 20)]).unwrap().lease, None);
    // It may not last longer than a day, begin in the past, or come after the halt.
    assert!(with(&[(ours(86_400), 10)]).is_ok());
    assert!(with(&[(ours(86_401), 10)]).is_err());
    assert!(with(&[(ours(-1), 10)]).is_err());
    assert!(with(&[(Next::Halt(HaltedBy::Operator), 10), (ours(60), 20)]).is_err());
}
