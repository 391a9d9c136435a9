//! Records that the remote does not have, after those that it has and we do not: signed anew, and decided again.
//!
//! Nothing is guessed. A record says again what it said, of the ledger that is before it now; where it cannot stand there (the fold
//! refuses it), or where it was about something that is not there any more, it is kept aside and told. Only records that the key at
//! hand signed are signed again: nobody speaks for somebody else.

use crate::at::At;
use crate::contract::Contract;
use crate::decide::{self, Evidence};
use crate::error::{Error, Kind as ErrorKind, Result, ResultExt};
use crate::git::{Bound, Repo};
use crate::ledger::append::{Author, EvidenceFile, Tip, draft};
use crate::ledger::fold::status_of;
use crate::ledger::receipt::{CostBasis, Receipt};
use crate::ledger::record::{
    Body, CheckpointBody, FindingAction, HaltBody, HaltedBy, IterationBody, Kind, LeaseBody, PromotionBody,
    ReleaseBody, ResumeBody, ReviewBody, Role,
};
use crate::ledger::rederive::hit_deadline;
use crate::ledger::state::{Phase, State};
use crate::ledger::verify::Step;
use crate::money::MicroUsd;
use crate::oid::Oid;
use crate::sign::Signer;

/// A record that was not carried over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aside {
    /// The record.
    pub record: Oid,
    /// Where it was.
    pub seq: u64,
    /// What it was.
    pub kind: Kind,
    /// Whose it was.
    pub principal: String,
    /// Why it was not carried over, and what to do.
    pub why: String,
}

/// What came of the records of one ledger.
#[derive(Debug)]
pub struct Reappended {
    /// The end of the ledger now.
    pub tip: Tip,
    /// Each record that was signed again, with what it became.
    pub carried: Vec<(Oid, Oid)>,
    /// The others.
    pub aside: Vec<Aside>,
}

/// Appends `steps` again after `onto`, as far as that can be done with the key of `signer`. Nothing refers to the records yet.
pub fn reappend(repo: &Repo, signer: &Signer, onto: Tip, steps: &[Step]) -> Result<Reappended> {
    let done = Reappended { tip: onto, carried: Vec::new(), aside: Vec::new() };
    let mut this = Reappending { repo, signer, done, halted: None };
    for step in steps {
        this.step(step)?;
    }
    Ok(this.done)
}

struct Reappending<'a> {
    repo: &'a Repo,
    signer: &'a Signer,
    done: Reappended,
    /// The halt that was appended because a decision called for it.
    halted: Option<Oid>,
}

/// What a record says after others.
struct Again {
    body: Body,
    evidence: Vec<EvidenceFile>,
}

impl Reappending<'_> {
    fn step(&mut self, step: &Step) -> Result<()> {
        let record = &step.record;
        if let Body::Review(body) = &record.body
            && let Some((_, now)) = self.done.carried.iter().find(|(was, _)| *was == body.halt)
        {
            let was = body.halt.short();
            self.keep_aside(
                step,
                format!(
                    "it is bound to the halt record {was}, which is {} now: review it again",
                    now.short()
                ),
            );
            return Ok(());
        }
        if record.actor.key != self.signer.fingerprint() {
            self.keep_aside(
                step,
                format!("the key at hand is not {}'s: they say it again", record.actor.principal),
            );
            return Ok(());
        }
        // The decision on the iteration before it has called for a halt, which is there already.
        if let Body::Halt(halt) = &record.body
            && halt.by != HaltedBy::Operator
            && self.halted == Some(self.done.tip.id)
        {
            self.done.carried.push((step.id, self.done.tip.id));
            return Ok(());
        }
        let again = match self.again(step)? {
            Ok(again) => again,
            Err(why) => {
                self.keep_aside(step, why);
                return Ok(());
            }
        };
        // A record is of the time at which it was made, if those before it allow that.
        let at = record.at.max(self.done.tip.at);
        let role = record.actor.role;
        match self.append(&record.actor.principal, role, again, at) {
            Ok(()) => self.done.carried.push((step.id, self.done.tip.id)),
            Err(error) if error.kind() == ErrorKind::Refused => {
                self.keep_aside(step, error.message().to_owned());
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        // A halt that is called for stands beside what calls for it.
        if let Some(due) = self.done.tip.state.due_halt.clone() {
            let state = &self.done.tip.state;
            let body = HaltBody {
                by: due.by,
                halt_reason: due.halt_reason,
                status: status_of(due.halt_reason),
                reason: due.reason,
                exit_code: due.halt_reason.exit_code().get(),
                iteration: state.iteration,
                last_green_commit: state.last_green_commit,
                message: None,
                packet: due.packet,
            };
            let again = Again { body: Body::Halt(body), evidence: Vec::new() };
            self.append(&record.actor.principal, Role::Runner, again, at)?;
            self.halted = Some(self.done.tip.id);
        }
        Ok(())
    }

    fn append(&mut self, principal: &str, role: Role, again: Again, at: At) -> Result<()> {
        let author = Author { signer: self.signer, principal: principal.to_owned() };
        let Again { body, evidence } = again;
        let listed = |entries| match body {
            Body::Iteration(body) => {
                Body::Iteration(Box::new(IterationBody { receipt: body.receipt, evidence: entries }))
            }
            Body::Baseline(mut body) => {
                body.evidence = entries;
                Body::Baseline(body)
            }
            other => other,
        };
        self.done.tip = draft(self.repo, &author, &self.done.tip, role, listed, evidence, at)?;
        Ok(())
    }

    fn keep_aside(&mut self, step: &Step, why: String) {
        let record = &step.record;
        let principal = record.actor.principal.clone();
        self.done.aside.push(Aside { record: step.id, seq: record.seq, kind: record.kind, principal, why });
    }

    /// What a record that named `id` names now.
    fn now(&self, id: Oid) -> Oid {
        self.done.carried.iter().find(|(was, _)| *was == id).map_or(id, |(_, now)| *now)
    }

    /// What the record says now; the inner error is why it cannot.
    fn again(&self, step: &Step) -> Result<Result<Again, String>> {
        let record = &step.record;
        let state = &self.done.tip.state;
        let contract = &self.done.tip.contract;
        let mut evidence = Vec::new();
        let body = match record.body.clone() {
            Body::Contract(_) => return Ok(Err("a ledger has one contract".to_owned())),
            Body::Baseline(_) if state.baseline.is_some() => {
                return Ok(Err("the remote has measured the base already".to_owned()));
            }
            body @ Body::Baseline(_) => {
                evidence = self.evidence(step)?;
                body
            }
            Body::Checkpoint(body) => Body::Checkpoint(checkpoint_again(
                contract,
                state,
                body,
                state.elapsed_seconds(record.at.max(self.done.tip.at)),
            )),
            Body::Iteration(body) => {
                let mut receipt = body.receipt;
                receipt.checkpoint = self.now(receipt.checkpoint);
                evidence = self.evidence(step)?;
                let Some(facts) = step.decided_by.clone() else {
                    return Ok(Err("what it was decided by is not known".to_owned()));
                };
                let elapsed = state.elapsed_seconds(record.at.max(self.done.tip.at));
                let row = receipt.decision.outcome_reason.clone();
                let receipt = iteration_again(contract, state, receipt, facts, &mut evidence, elapsed);
                // What is told of lasting code stops at the row that decided; what was not run cannot be told now.
                if receipt.lasting.is_some() && receipt.decision.outcome_reason != row {
                    return Ok(Err(
                        "after what came first it is decided by another row: run it again".to_owned()
                    ));
                }
                Body::Iteration(Box::new(IterationBody { receipt, evidence: Vec::new() }))
            }
            Body::Halt(body) => Body::Halt(HaltBody {
                iteration: state.iteration,
                last_green_commit: state.last_green_commit,
                packet: state.due_halt.as_ref().and_then(|due| due.packet.clone()),
                ..body
            }),
            Body::Resume(ResumeBody { halt, message }) => {
                Body::Resume(ResumeBody { halt: self.now(halt), message })
            }
            Body::Review(body) => {
                let halt = state.halt.unwrap_or(self.done.tip.id);
                if body.halt != halt {
                    return Ok(Err(format!(
                        "it is bound to the halt record {}, which moved: review it again",
                        body.halt.short()
                    )));
                }
                Body::Review(ReviewBody { invocation: body.invocation.map(|id| self.now(id)), ..body })
            }
            Body::Promotion(PromotionBody { tip, .. }) => {
                return Ok(Err(format!(
                    "it names the end of the ledger that the promoter saw, {}, and there is more now: promote it again",
                    tip.short()
                )));
            }
            Body::Release(ReleaseBody { halt, reason }) => {
                Body::Release(ReleaseBody { halt: self.now(halt), reason })
            }
            Body::Finding(mut body) => {
                if body.action == FindingAction::Resolve {
                    body.finding = body.finding.map(|finding| self.now(finding));
                }
                Body::Finding(body)
            }
            Body::Lease(LeaseBody { until, .. }) if until < record.at.max(self.done.tip.at) => {
                return Ok(Err("it is over".to_owned()));
            }
            body @ Body::Lease(_) => body,
            Body::Invocation(mut body) => {
                body.checkpoint = body.checkpoint.map(|id| self.now(id));
                if body.halt.is_some() && body.halt != state.halt {
                    return Ok(Err("it is bound to a halt record that moved: record it again".to_owned()));
                }
                Body::Invocation(body)
            }
        };
        Ok(Ok(Again { body, evidence }))
    }

    /// The files of a record's evidence, as they were kept.
    fn evidence(&self, step: &Step) -> Result<Vec<EvidenceFile>> {
        let read = |entry: &crate::ledger::record::EvidenceEntry| {
            let content =
                self.repo.read_at_most(entry.id.0, gix::object::Kind::Blob, Bound::EVIDENCE).or_workspace(
                    || format!("evidence/{} of record {} cannot be read", entry.name, step.id.short()),
                )?;
            Ok::<_, Error>(EvidenceFile {
                name: entry.name.clone(),
                content,
                bytes: entry.bytes,
                truncated: entry.truncated,
            })
        };
        step.record.body.evidence().iter().map(read).collect()
    }
}

fn checkpoint_again(
    contract: &Contract,
    state: &State,
    body: CheckpointBody,
    elapsed: u64,
) -> CheckpointBody {
    CheckpointBody {
        remaining: decide::remaining(contract, state, elapsed),
        reservation_usd: decide::reservation(contract, state),
        ..body
    }
}

/// The receipt of an iteration that is decided again. One that an operator's stop came before is closed as abandoned, like one
/// that was under way.
fn iteration_again(
    contract: &Contract,
    state: &State,
    mut receipt: Receipt,
    mut facts: Evidence,
    evidence: &mut Vec<EvidenceFile>,
    elapsed: u64,
) -> Receipt {
    if state.phase == Phase::Halted && receipt.abandoned.is_none() {
        receipt.abandoned = Some("an operator stopped the loop".to_owned());
        facts.abandoned = true;
        evidence.retain(|file| file.name.starts_with("worker.") || file.name == "context.md");
        (receipt.check, facts.check) = (None, None);
        (receipt.holdout, facts.holdout) = (None, None);
        (receipt.lasting, facts.lasting) = (None, None);
        let unpinned = "an earlier row decided, or the iteration was interrupted";
        receipt.unpinned.insert("check".to_owned(), unpinned.to_owned());
        if !contract.worker.costs_nothing() && receipt.cost.basis != CostBasis::Reported {
            let reserved = state.checkpoint.as_ref().map_or(MicroUsd::ZERO, |open| open.reservation_usd);
            receipt.cost.usd = Some(reserved);
            receipt.cost.basis = CostBasis::Reserved;
        }
    }
    receipt.elapsed_seconds = elapsed;
    facts.elapsed_seconds = elapsed;
    facts.usd = receipt.cost.usd;
    facts.cost_known = receipt.cost.basis == CostBasis::Reported;
    facts.hit_deadline = hit_deadline(&receipt);
    receipt.decision = decide::decide(contract, state, &facts);
    receipt
}
