//! The fold: state before, one record, state after. Pure; also the law of which record may follow which.

use super::agents;
use super::observe::Observed;
use super::receipt::{CheckReceipt, CostBasis, CostReceipt, Receipt};
use super::record::{Body, FindingAction, HaltedBy, Kind, LONGEST_LEASE_SECONDS, Record, Status, Verdict};
use super::state::{
    Approval, BaselineState, Comprehension, Counters, DueHalt, LastingCounters, Lease, MODE, MetricIntegrity,
    OpenCheckpoint, OpenFinding, Phase, Regressions, STATE_SCHEMA, SameFailures, Signer, State,
};
use crate::canonical::canonical_json;
use crate::contract::{Class, Contract};
use crate::decide::{
    BaselineEvidence, Costs, FailingSets, HoldoutVerdict, Outcome, Row, after_baseline, before_start,
};
use crate::exit::HaltReason;
use crate::git::Bound;
use crate::money::MicroUsd;
use crate::review::policy;

/// Why a record may not stand where it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// The kinds do not follow each other so.
    #[error("a `{kind}` record cannot stand here: {why}")]
    OutOfPlace {
        /// The kind.
        kind: &'static str,
        /// What is in the way.
        why: String,
    },
    /// The record contradicts the state before it.
    #[error("`{field}` of the `{kind}` record is {found}, the ledger so far says {expected}")]
    Contradicts {
        /// The kind.
        kind: &'static str,
        /// The field.
        field: &'static str,
        /// What the record says.
        found: String,
        /// What it must be.
        expected: String,
    },
}

/// The state after a contract record.
pub fn begin(contract: &Contract) -> State {
    State {
        schema_version: STATE_SCHEMA.to_owned(),
        loop_id: contract.loop_id.clone(),
        mode: MODE.to_owned(),
        phase: Phase::Created,
        status: Status::Active,
        iteration: 0,
        last_green_commit: contract.base.commit,
        best_metric: None,
        open_failures: None,
        cumulative_usd: MicroUsd::ZERO,
        baseline: None,
        determinism_probe: None,
        metric_integrity: MetricIntegrity {
            check_cmd_sha: contract.check_cmd_sha(),
            test_tree_sha_at_last_green: contract.frozen.tree,
            frozen: contract.frozen.tree,
            collected: None,
        },
        model_pin: contract.worker.model.clone(),
        escalation: None,
        comprehension: Comprehension { diffs_unread: 0 },
        halt_reason: None,
        counters: Counters {
            accepted: 0,
            no_progress: 0,
            tokens: 0,
            unknown_costs: 0,
            largest_usd: MicroUsd::ZERO,
            started_at: None,
            halted_at: None,
            paused_seconds: 0,
            same_failures: None,
            failing_sets: FailingSets::default(),
            oscillations: 0,
            regressions: Vec::new(),
            costs: Costs::default(),
            best_noise: None,
            green_tests: None,
            holdout_red: contract.holdout.as_ref().map(|_| 0),
            local_defenses: contract.judged_as_lasting().map(|_| 0),
            // What it starts from has grown already, and is promoted with it.
            lasting: contract.judged_as_lasting().map(|_| LastingCounters {
                complexity: contract
                    .renewal
                    .as_ref()
                    .and_then(|renewal| renewal.complexity)
                    .unwrap_or_default(),
                ..LastingCounters::default()
            }),
        },
        checkpoint: None,
        due_halt: None,
        halt: None,
        // Who made what a renewal starts from is no independent reviewer of it.
        submitters: contract.renewal.as_ref().map_or_else(Vec::new, |renewal| renewal.submitters.clone()),
        approvals: Vec::new(),
        released: false,
        findings: contract.renewal.as_ref().map_or_else(Vec::new, |renewal| renewal.findings.clone()),
        lease: None,
        agents: agents::begin(contract),
    }
}

/// The state after `record`, given the state before it. Refuses a record that may not follow.
pub fn fold(contract: &Contract, before: &State, record: &Record) -> Result<State, FoldError> {
    let mut state = before.clone();
    let kind = record.kind;
    // A halt record cannot name itself; whoever comes next can.
    if state.phase == Phase::Halted && state.halt.is_none() {
        state.halt = record.prev;
    }
    if let Some(open) = &mut state.checkpoint
        && open.record.is_none()
    {
        open.record = record.prev;
    }
    if let Some(last) = state.findings.last_mut()
        && last.record.is_none()
    {
        last.record = record.prev;
    }
    agents::fill(&mut state, record.prev);
    if let Some(due) = &state.due_halt
        && kind != Kind::Halt
    {
        return Err(out_of_place(kind, format!("the last record calls for a halt, `{}`", due.halt_reason)));
    }
    if matches!(record.body, Body::Baseline(_) | Body::Checkpoint(_) | Body::Iteration(_)) {
        expect_no_lease_of_others(&state, record)?;
    }
    match &record.body {
        Body::Contract(_) => return Err(out_of_place(kind, "a ledger has one contract".to_owned())),
        Body::Baseline(body) => {
            expect_phase(&state, kind, Phase::Created)?;
            if contract.check.external {
                return Err(out_of_place(kind, "the check of this loop runs elsewhere".to_owned()));
            }
            if state.baseline.is_some() {
                return Err(out_of_place(kind, "there is a baseline already".to_owned()));
            }
            expect(kind, "base", &body.base, &state.last_green_commit)?;
            let check = &body.check;
            state.baseline = Some(BaselineState {
                model_calls: 0,
                tokens: 0,
                top_error_type: None,
                metric: check.metric,
                failures: check.failures.as_ref().map(|failures| failures.len() as u64),
                tests: check.tests,
            });
            state.best_metric = check.metric;
            state.open_failures.clone_from(&check.failures);
            state.metric_integrity.collected.clone_from(&check.collected);
            state.counters.green_tests = check.tests;
            state.counters.best_noise = check.noise;
            if let Some(failing) = check.failing_set() {
                state.counters.failing_sets = state.counters.failing_sets.with(failing);
            }
            let shown = BaselineEvidence {
                flaky: check.flaky,
                metric: check.metric,
                passing: check.passing,
                target_met: body.target_met,
                holdout: body.holdout.as_ref().map(|holdout| holdout.verdict),
            };
            if let Some(lasting) = &mut state.counters.lasting {
                let failed = body.invariants.iter().flatten().filter(|one| !one.passed);
                lasting.failed_at_baseline = failed.map(|one| one.name.clone()).collect();
                // A renewal begins where the target is met, and its packet was for another contract.
                lasting.awaiting_packet = body.target_met && contract.parent.is_some();
            }
            state.due_halt = after_baseline(contract, shown).0.map(|(halt_reason, reason)| DueHalt {
                by: HaltedBy::Baseline,
                halt_reason,
                reason: reason.to_owned(),
                packet: None,
            });
        }
        Body::Checkpoint(body) => {
            expect_running(&state, kind)?;
            if state.baseline.is_none() && !contract.check.external {
                return Err(out_of_place(kind, "there is no baseline yet".to_owned()));
            }
            if let Some(open) = &state.checkpoint {
                return Err(out_of_place(kind, format!("iteration {} is still open", open.iteration)));
            }
            expect(kind, "iteration", &body.iteration, &(state.iteration + 1))?;
            expect(kind, "base", &body.base, &state.last_green_commit)?;
            // What a limit forbids is not started, whoever would sign it.
            if let Some(stop) = before_start(contract, before, before.elapsed_seconds(record.at)) {
                let why = format!("a limit is reached, `{}`", stop.limit.as_str());
                return Err(out_of_place(kind, why));
            }
            state.phase = Phase::Iterating;
            state.counters.started_at.get_or_insert(record.at);
            state.checkpoint = Some(OpenCheckpoint {
                record: None,
                iteration: body.iteration,
                base: body.base,
                environment_id: body.environment_id.clone(),
                context: body.context.clone(),
                reservation_usd: body.reservation_usd,
            });
        }
        Body::Iteration(body) => {
            let Some(open) = state.checkpoint.take() else {
                return Err(out_of_place(kind, "no checkpoint is open".to_owned()));
            };
            let receipt = &body.receipt;
            expect(kind, "checkpoint", &Some(receipt.checkpoint), &open.record)?;
            expect(kind, "iteration", &receipt.iteration, &open.iteration)?;
            expect(kind, "base", &receipt.base, &open.base)?;
            expect(kind, "environment_id", &receipt.environment_id, &open.environment_id)?;
            expect(kind, "context", &receipt.context, &open.context)?;
            if state.phase == Phase::Halted && receipt.abandoned.is_none() {
                return Err(out_of_place(
                    kind,
                    "the loop has halted; only an abandoned iteration may be closed".to_owned(),
                ));
            }
            submitted(&mut state, record);
            count_iteration(contract, &mut state, receipt);
            agents::recorded(&mut state, receipt.decision.outcome == Outcome::Accept);
        }
        Body::Halt(body) => {
            if state.phase == Phase::Halted {
                return Err(out_of_place(kind, "the loop has halted already".to_owned()));
            }
            // An operator may stop a loop in the middle of an iteration; everyone else halts between two.
            if state.checkpoint.is_some() && body.by != HaltedBy::Operator {
                return Err(out_of_place(kind, "an iteration is still open".to_owned()));
            }
            let due = match (state.due_halt.take(), body.by) {
                (Some(due), _) => due,
                (None, HaltedBy::Operator) => DueHalt {
                    by: HaltedBy::Operator,
                    halt_reason: HaltReason::OperatorStopped,
                    reason: HaltReason::OperatorStopped.as_str().to_owned(),
                    packet: None,
                },
                // Only a limit may end a run between two iterations, and only one that is reached.
                (None, HaltedBy::Limit) => {
                    let elapsed = before.elapsed_seconds(record.at);
                    let Some(stop) = before_start(contract, before, elapsed) else {
                        return Err(out_of_place(kind, "no limit is reached".to_owned()));
                    };
                    DueHalt {
                        by: HaltedBy::Limit,
                        halt_reason: stop.halt_reason,
                        reason: stop.limit.as_str().to_owned(),
                        packet: None,
                    }
                }
                (None, HaltedBy::Decision | HaltedBy::Baseline) => {
                    return Err(out_of_place(kind, "the record before it calls for no halt".to_owned()));
                }
            };
            expect(kind, "by", &body.by, &due.by)?;
            expect(kind, "halt_reason", &body.halt_reason, &due.halt_reason)?;
            expect(kind, "reason", &body.reason, &due.reason)?;
            expect(kind, "packet", &body.packet, &due.packet)?;
            expect(kind, "iteration", &body.iteration, &state.iteration)?;
            expect(kind, "last_green_commit", &body.last_green_commit, &state.last_green_commit)?;
            expect(kind, "exit_code", &body.exit_code, &body.halt_reason.exit_code().get())?;
            expect(kind, "status", &body.status, &status_of(body.halt_reason))?;
            state.phase = Phase::Halted;
            state.status = body.status;
            state.halt_reason = Some(body.halt_reason);
            state.counters.halted_at = Some(record.at);
            state.lease = None;
            if body.by != HaltedBy::Operator {
                submitted(&mut state, record);
            }
        }
        Body::Resume(body) => {
            if state.phase != Phase::Halted {
                return Err(out_of_place(kind, "the loop has not halted".to_owned()));
            }
            expect_unreleased(&state, kind)?;
            expect(kind, "halt", &Some(body.halt), &state.halt)?;
            // The pause is no part of the loop's time, and an iteration that went on in it would have had it for nothing.
            if let Some(open) = &state.checkpoint {
                return Err(out_of_place(kind, format!("iteration {} is still open", open.iteration)));
            }
            match state.halt_reason {
                Some(HaltReason::OperatorStopped | HaltReason::WorkspaceInvalid) => {}
                Some(HaltReason::HumanRequired) if state.blocking_findings() == 0 => {}
                Some(HaltReason::HumanRequired) => {
                    return Err(out_of_place(kind, "a finding that blocks is open".to_owned()));
                }
                other => {
                    let other = other.map_or("a halt without a reason", HaltReason::as_str);
                    return Err(out_of_place(kind, format!("`{other}` cannot be resumed")));
                }
            }
            if let Some(halted_at) = state.counters.halted_at.take()
                && state.counters.started_at.is_some()
            {
                state.counters.paused_seconds += record.at.seconds_since(halted_at);
            }
            state.phase = if state.counters.started_at.is_some() { Phase::Iterating } else { Phase::Created };
            state.status = Status::Active;
            state.halt_reason = None;
            state.halt = None;
        }
        Body::Review(body) => {
            expect_awaiting_review(&state, kind)?;
            expect(kind, "halt", &Some(body.halt), &state.halt)?;
            expect(kind, "candidate", &body.candidate, &state.last_green_commit)?;
            expect_no_submitter(&state, record, "review it")?;
            match body.verdict {
                Verdict::Approve => {
                    state.approvals.push(Approval {
                        seq: record.seq,
                        principal: record.actor.principal.clone(),
                        key: record.actor.key.clone(),
                    });
                    agents::reviewed(&mut state, record, body)?;
                }
                Verdict::Reject => {
                    state.status = status_of(HaltReason::ReviewerRejected);
                    state.halt_reason = Some(HaltReason::ReviewerRejected);
                }
            }
        }
        Body::Promotion(body) => {
            expect_awaiting_review(&state, kind)?;
            if contract.class == Class::LastingCode && contract.judged_as_lasting().is_none() {
                // Nothing shows what lasting code needs.
                let why = format!("rules {} cannot promote `lasting_code`", contract.rules);
                return Err(out_of_place(kind, why));
            }
            expect(kind, "halt", &Some(body.halt), &state.halt)?;
            expect(kind, "candidate", &body.candidate, &state.last_green_commit)?;
            expect(kind, "tip", &Some(body.tip), &record.prev)?;
            if state.blocking_findings() > 0 {
                return Err(out_of_place(kind, "a finding that blocks is open".to_owned()));
            }
            if state.approvals.is_empty() {
                return Err(out_of_place(kind, "no independent review approves it".to_owned()));
            }
            let asked = policy::conditions(contract, &state, Some(&record.actor.principal));
            if let Some(why) = asked.into_iter().find_map(|one| one.missing) {
                return Err(out_of_place(kind, why));
            }
            state.status = Status::Succeeded;
        }
        Body::Release(body) => {
            if !is_dead(&state) {
                return Err(out_of_place(kind, format!("the loop is {}", state.status.as_str())));
            }
            expect_unreleased(&state, kind)?;
            expect(kind, "halt", &Some(body.halt), &state.halt)?;
            if body.reason.trim().is_empty() {
                return Err(out_of_place(kind, "it gives no reason".to_owned()));
            }
            expect_no_submitter(&state, record, "release it")?;
            state.released = true;
        }
        Body::Lease(body) => {
            expect_running(&state, kind)?;
            let lasts = body.until.seconds() - record.at.seconds();
            if !(0..=LONGEST_LEASE_SECONDS.cast_signed()).contains(&lasts) {
                return Err(out_of_place(
                    kind,
                    format!("it would last from {} to {}", record.at, body.until),
                ));
            }
            if !is_holder(&body.holder) || !is_host(&body.host) {
                return Err(out_of_place(kind, "holder or host are malformed".to_owned()));
            }
            let same = |lease: &Lease| lease.holder == body.holder && lease.key == record.actor.key;
            if let Some(lease) =
                state.lease.as_ref().filter(|lease| !same(lease) && lease.holds_at(record.at))
            {
                return Err(out_of_place(kind, held(lease)));
            }
            state.lease = (lasts > 0).then(|| Lease {
                holder: body.holder.clone(),
                host: body.host.clone(),
                principal: record.actor.principal.clone(),
                key: record.actor.key.clone(),
                until: body.until,
            });
        }
        Body::Invocation(body) => agents::invoked(contract, &mut state, record, body)?,
        Body::Finding(body) => {
            if state.status == Status::Succeeded {
                return Err(out_of_place(kind, "the loop is promoted".to_owned()));
            }
            expect_unreleased(&state, kind)?;
            match body.action {
                FindingAction::Add => {
                    expect(kind, "finding", &body.finding, &None)?;
                    state.findings.push(OpenFinding {
                        record: None,
                        severity: body.severity,
                        principal: record.actor.principal.clone(),
                    });
                }
                FindingAction::Resolve => {
                    let open = state.findings.iter().position(|open| open.record == body.finding);
                    let Some(open) = open.filter(|_| body.finding.is_some()) else {
                        return Err(out_of_place(kind, "no such finding is open".to_owned()));
                    };
                    expect(kind, "severity", &body.severity, &state.findings[open].severity)?;
                    expect_no_submitter(&state, record, "settle a finding on it")?;
                    state.findings.remove(open);
                }
            }
        }
    }
    Ok(state)
}

/// Whether the content of a loop may be released: it halted and waits for nobody.
pub fn is_dead(state: &State) -> bool {
    state.phase == Phase::Halted && matches!(state.status, Status::Stopped | Status::Blocked)
}

/// Who ran a loop judges nothing about it.
pub(super) fn expect_no_submitter(state: &State, record: &Record, what: &str) -> Result<(), FoldError> {
    let actor = &record.actor;
    if state.submitters.iter().any(|who| who.principal == actor.principal || who.key == actor.key) {
        let problem = format!("{} ran the loop and cannot {what}", actor.principal);
        return Err(out_of_place(record.kind, problem));
    }
    Ok(())
}

fn expect_unreleased(state: &State, kind: Kind) -> Result<(), FoldError> {
    if state.released {
        return Err(out_of_place(kind, "the loop is released".to_owned()));
    }
    Ok(())
}

/// The status that a halt reason brings.
pub fn status_of(reason: HaltReason) -> Status {
    match reason {
        HaltReason::SuccessConditionMet => Status::AwaitingReview,
        HaltReason::HumanRequired
        | HaltReason::BlockedPathModified
        | HaltReason::MetricIntegrityViolation
        | HaltReason::RewardHackingDetected
        | HaltReason::CredentialScopeInvalid
        | HaltReason::ObjectiveUnverified
        | HaltReason::CheckFlaky => Status::Blocked,
        _ => Status::Stopped,
    }
}

/// Whether a limit of the contract is on something that is not known of this run: its money, which always has one, or
/// its tokens. An interrupted run is charged its reservation instead.
fn is_cost_unknown(contract: &Contract, cost: &CostReceipt) -> bool {
    let tokens_unknown = cost.prompt_tokens.is_none() || cost.completion_tokens.is_none();
    cost.usd.is_none()
        || (contract.limits.tokens.is_some() && cost.basis == CostBasis::Reported && tokens_unknown)
}

fn count_iteration(contract: &Contract, state: &mut State, receipt: &Receipt) {
    let decision = &receipt.decision;
    state.iteration = receipt.iteration;
    if let Some(usd) = receipt.cost.usd {
        state.cumulative_usd = state.cumulative_usd.saturating_add(usd);
        // A reservation is a guess; only what was reported tells what an iteration costs.
        if receipt.cost.basis == CostBasis::Reported {
            state.counters.largest_usd = state.counters.largest_usd.max(usd);
            state.counters.costs = state.counters.costs.with(usd);
        }
    }
    if is_cost_unknown(contract, &receipt.cost) {
        state.counters.unknown_costs += 1;
    }
    let tokens =
        receipt.cost.prompt_tokens.unwrap_or(0).saturating_add(receipt.cost.completion_tokens.unwrap_or(0));
    state.counters.tokens = state.counters.tokens.saturating_add(tokens);

    if receipt.abandoned.is_none() {
        count_failing(&mut state.counters, receipt.check.as_ref());
        let red = receipt.holdout.as_ref().is_some_and(|holdout| holdout.verdict == HoldoutVerdict::Failed);
        if let Some(count) = &mut state.counters.holdout_red {
            *count += u32::from(red);
        }
        let defended = decision.outcome_reason == Row::LocalDefenseAdded.as_str();
        if let Some(count) = &mut state.counters.local_defenses {
            *count += u32::from(defended);
        }
        if decision.outcome == Outcome::Accept {
            state.counters.no_progress = 0;
        } else {
            state.counters.no_progress += 1;
        }
    }
    if decision.outcome == Outcome::Accept {
        state.counters.accepted += 1;
        if let Some(candidate) = receipt.candidate {
            state.last_green_commit = candidate;
        }
        if let Some(check) = &receipt.check {
            state.best_metric = check.metric;
            state.open_failures.clone_from(&check.failures);
            state.counters.green_tests = check.tests;
            state.counters.best_noise = check.noise;
        }
        if let (Some(counters), Some(told)) = (&mut state.counters.lasting, &receipt.lasting) {
            counters.complexity = counters.complexity.plus(told.delta);
            counters.awaiting_packet = decision.outcome_reason == Row::PacketMissing.as_str();
        }
        state.comprehension.diffs_unread += 1;
    }
    if state.phase != Phase::Halted {
        let met = decision.halt_reason == Some(HaltReason::SuccessConditionMet);
        state.due_halt = decision.halt_reason.map(|halt_reason| DueHalt {
            by: HaltedBy::Decision,
            halt_reason,
            reason: decision.reason.clone(),
            packet: receipt
                .lasting
                .as_ref()
                .and_then(|told| told.packet.clone())
                .filter(|_| met)
                .map(Box::new),
        });
    }
}

/// Whether `record.json`, `.loop_state.json` and `tests.json` can hold what a check showed of its tests, and then something: who
/// writes no record that would be too large must know before, and so must what comes after it.
pub fn has_room(before: &State, observed: &Observed) -> bool {
    /// For the rest of a record: the lists of the guards are bounded, and empty where there is a check; paths, texts, commands.
    const OF_RECORD: u64 = 8 << 20;
    /// For what the records of a whole loop still add.
    const OF_STATE: u64 = 2 << 20;
    let size = |text: &str| text.len() as u64;
    let tests = observed.tests_json.as_ref().map_or(0, |tests| tests.len() as u64);
    let check = size(&canonical_json(&observed.receipt));
    // An entry lies six levels deeper in the record than here, in two spaces each.
    let receipt = &observed.receipt;
    let entries = [&receipt.lost, &receipt.newly_skipped, &receipt.regressed];
    let entries = entries.into_iter().chain(&receipt.failures).map(|list| list.len() as u64 + 2).sum::<u64>();
    if tests > Bound::TESTS.bytes || check + 12 * entries + OF_RECORD > Bound::RECORD.bytes {
        return false;
    }
    let mut after = before.clone();
    count_failing(&mut after.counters, Some(receipt));
    after.open_failures.clone_from(&receipt.failures);
    after.to_bytes().len() as u64 + OF_STATE <= Bound::STATE.bytes
}

/// Counts what one check's failing set says together with those before it.
fn count_failing(counters: &mut Counters, check: Option<&CheckReceipt>) {
    let before = counters.same_failures.take();
    let Some((check, failing)) = check.and_then(|check| Some((check, check.failing_set()?))) else { return };
    let set = crate::canonical::sha256_of(failing);
    let in_a_row = before.filter(|before| before.set == set).map_or(0, |before| before.iterations);
    counters.same_failures = Some(SameFailures { set, iterations: in_a_row + 1 });
    counters.failing_sets = counters.failing_sets.with(failing);
    counters.oscillations += u32::from(counters.failing_sets.returned());
    for test in &check.regressed {
        match counters.regressions.binary_search_by(|known| known.test.cmp(test)) {
            Ok(at) => counters.regressions[at].iterations += 1,
            Err(at) => counters.regressions.insert(at, Regressions { test: test.clone(), iterations: 1 }),
        }
    }
}

fn submitted(state: &mut State, record: &Record) {
    let who = Signer { principal: record.actor.principal.clone(), key: record.actor.key.clone() };
    if !state.submitters.contains(&who) {
        state.submitters.push(who);
    }
}

/// Whoever has another key than the lease waits until it is over.
fn expect_no_lease_of_others(state: &State, record: &Record) -> Result<(), FoldError> {
    match &state.lease {
        Some(lease) if lease.key != record.actor.key && lease.holds_at(record.at) => {
            Err(out_of_place(record.kind, held(lease)))
        }
        _ => Ok(()),
    }
}

fn held(lease: &Lease) -> String {
    format!("{} runs the loop on {} until {}", lease.principal, lease.host, lease.until)
}

fn is_holder(holder: &str) -> bool {
    holder.len() == 16 && holder.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a machine may be called so in a record.
pub fn is_host(host: &str) -> bool {
    (1..=64).contains(&host.len())
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

pub(super) fn out_of_place(kind: Kind, why: String) -> FoldError {
    FoldError::OutOfPlace { kind: kind.as_str(), why }
}

pub(super) fn expect<T: PartialEq + std::fmt::Debug>(
    kind: Kind,
    field: &'static str,
    found: &T,
    expected: &T,
) -> Result<(), FoldError> {
    if found == expected {
        return Ok(());
    }
    Err(FoldError::Contradicts {
        kind: kind.as_str(),
        field,
        found: format!("{found:?}"),
        expected: format!("{expected:?}"),
    })
}

fn expect_phase(state: &State, kind: Kind, phase: Phase) -> Result<(), FoldError> {
    if state.phase == phase {
        return Ok(());
    }
    Err(out_of_place(kind, format!("the loop is {:?}", state.phase).to_lowercase()))
}

pub(super) fn expect_running(state: &State, kind: Kind) -> Result<(), FoldError> {
    match state.phase {
        Phase::Created | Phase::Iterating => Ok(()),
        Phase::Halted => Err(out_of_place(kind, "the loop has halted".to_owned())),
    }
}

pub(super) fn expect_awaiting_review(state: &State, kind: Kind) -> Result<(), FoldError> {
    if state.status == Status::AwaitingReview {
        return Ok(());
    }
    Err(out_of_place(kind, format!("the loop is `{}`, not `awaiting_review`", state.status.as_str())))
}
