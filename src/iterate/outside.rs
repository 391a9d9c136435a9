//! Iterations whose worker runs elsewhere: an orchestrator asks for a checkpoint and brings a candidate, and where the check runs
//! elsewhere too, a signed verdict. The same guards, the same decision, the same records.

use super::commands::CheckRuns;
use super::holdout::Held;
use super::iteration::Draft;
use super::lasting::can_judge;
use super::outcome::cost_receipt;
use super::session::{Session, SessionOptions};
use crate::contract::Usage;
use crate::error::{Error, Result, ResultExt};
use crate::exit::HaltReason;
use crate::ledger::append::EvidenceFile;
use crate::ledger::observe::{Capture, Sample};
use crate::ledger::outside::{OutsideError, OutsideVerdict, Subject, VERDICT_NAMESPACE};
use crate::ledger::receipt::OutsideReceipt;
use crate::ledger::record::Record;
use crate::ledger::rederive::{check_tree_in, judge_tree, only_modes_that_git_writes, outside_run};
use crate::ledger::state::Phase;
use crate::oid::Oid;
use crate::render::commands;
use crate::render::status::any_of;
use crate::worker::usage::{self, Printed, UsageKind};

/// What an orchestrator brings.
#[derive(Debug, Clone, Default)]
pub struct Brought {
    /// The number of the iteration it is meant for; not asked if `None`.
    pub iteration: Option<u32>,
    /// The environment it is meant for; not asked if `None`.
    pub environment_id: Option<String>,
    /// The sandbox adapter that its worker ran in.
    pub adapter: Option<String>,
    /// The worker's evidence file.
    pub evidence: Option<Vec<u8>>,
    /// An outside verdict and its armored signature.
    pub verdict: Option<(Vec<u8>, Vec<u8>)>,
}

/// An iteration that waits for its candidate.
#[derive(Debug)]
pub struct Announced {
    /// The checkpoint record.
    pub checkpoint: Oid,
    /// Its number.
    pub iteration: u32,
    /// The environment.
    pub environment_id: String,
    /// What a candidate must be on top of.
    pub base: Oid,
    /// The context slice.
    pub context: String,
}

impl Session<'_> {
    /// Appends a checkpoint for an orchestrator; measures the base first if that was not done. `None` if the loop has halted, or
    /// halts instead.
    /// `options` say whether an operator's stop is left.
    pub fn announce(&mut self, options: SessionOptions) -> Result<Option<Announced>> {
        let halted = self.tip.state.phase == Phase::Halted;
        if halted && !self.may_resume(options) {
            return Ok(None);
        }
        if let Some(open) = &self.tip.state.checkpoint {
            let id = &self.id;
            let error =
                Error::refused(format!("iteration {} of loop `{id}` is open already", open.iteration));
            let abandon = format!("git loop checkpoint {id} --abandon");
            // What was stopped in the middle is over, and nothing is resumed while it is open.
            return Err(if halted {
                error.hint(format!("give it up, which is recorded, and resume then: {abandon}"))
            } else {
                error
                    .hint(format!("bring its candidate: {}", commands::bring(&self.tip.contract, open)))
                    .hint(format!("or give it up, which is recorded: {abandon}"))
            });
        }
        if halted {
            self.resume()?;
        }
        if !self.may_start()? {
            return Ok(None);
        }
        let Some((draft, context)) = self.checkpoint()? else { return Ok(None) };
        Ok(Some(Announced {
            checkpoint: draft.checkpoint,
            iteration: draft.iteration,
            environment_id: draft.environment_id,
            base: draft.base,
            context,
        }))
    }

    /// Records the open iteration as abandoned. False if none is open.
    pub fn give_up(&mut self) -> Result<bool> {
        let open = self.tip.state.checkpoint.is_some();
        self.close_open_iteration("whoever announced it gave it up")?;
        Ok(open)
    }

    /// Decides on the tree of `rev` as the candidate of the open iteration; opens one if none is. `Ok(None)` if the loop halts before
    /// that.
    pub fn record_brought(&mut self, rev: Oid, brought: &Brought) -> Result<Option<Record>> {
        if self.tip.state.phase == Phase::Halted {
            let reason = self.tip.state.halt_reason.map_or("halted", HaltReason::as_str);
            return Err(Error::refused(format!(
                "loop `{}` has halted: {reason}; no evidence is taken",
                self.id
            ))
            .hint(format!("see why: git loop show {}", self.id)));
        }
        can_judge(&self.tip.contract)?;
        self.fits(brought)?;
        let base =
            self.tip.state.checkpoint.as_ref().map_or(self.tip.state.last_green_commit, |open| open.base);
        let on_top = self
            .repo
            .is_ancestor(base.0, rev.0)
            .or_workspace(|| format!("the history of {rev} cannot be read"))?;
        if !on_top {
            return Err(Error::refused(format!(
                "candidate {} is not on top of {}, where the iteration starts",
                rev.short(),
                base.short(),
            ))
            .hint(format!(
                "an accepted candidate is signed anew, as a commit of the loop's own; move yours onto it: git rebase --onto {base} FIRST~ \
                 (FIRST is the first commit of yours that is not in the loop)"
            )));
        }
        // What no ledger may hold is refused before anything is recorded.
        let tree = Oid(self.repo.commit_tree(rev.0).or_workspace(|| format!("{rev} cannot be read"))?);
        let judged = judge_tree(self.repo, &self.guards, base, tree)
            .or_workspace(|| format!("the tree of {} cannot be read", rev.short()))?;
        only_modes_that_git_writes(rev, &judged).map_err(|why| {
            Error::refused(why.to_string())
                .hint("commit it with git, which writes the modes 100644 and 100755")
        })?;
        let draft = match self.tip.state.checkpoint.clone() {
            Some(open) => {
                let mut draft = Draft::new(
                    open.record.unwrap_or(self.tip.id),
                    open.iteration,
                    open.environment_id,
                    open.base,
                );
                draft.context = open.context;
                draft
            }
            None if brought.verdict.is_some() => {
                return Err(Error::refused(format!(
                    "loop `{}` has no open checkpoint for a verdict to be about",
                    self.id
                ))
                .hint(format!("git loop checkpoint {} --json", self.id)));
            }
            None => {
                if !self.may_start()? {
                    return Ok(None);
                }
                match self.checkpoint()? {
                    Some((draft, _)) => draft,
                    None => return Ok(None),
                }
            }
        };
        match self.take_brought(draft, rev, brought) {
            Ok(draft) => self.record(draft).map(Some),
            Err(error) => {
                // The iteration stays open: nothing was recorded of it. What moved `head` was the candidate that is refused.
                self.reset_head()?;
                Err(error)
            }
        }
    }

    /// Whether another iteration may begin; halts the loop if a limit says no.
    fn may_start(&mut self) -> Result<bool> {
        can_judge(&self.tip.contract)?;
        if self.tip.state.phase == Phase::Halted {
            return Ok(false);
        }
        let external = self.tip.contract.check.external;
        self.can_record()?;
        if !external && self.tip.state.baseline.is_none() && !self.baseline()? {
            return Err(self.interrupt.error("the baseline"));
        }
        if !external && !self.ensure_layers()? {
            return Err(self.interrupt.error("the setup of the worktrees"));
        }
        if self.tip.state.phase == Phase::Halted {
            return Ok(false);
        }
        Ok(!self.halt_at_limit(self.now())?)
    }

    /// Refuses what is meant for another iteration, or in a form that the contract does not know.
    fn fits(&self, brought: &Brought) -> Result<()> {
        let (id, state, contract) = (&self.id, &self.tip.state, &self.tip.contract);
        let next = state.checkpoint.as_ref().map_or(state.iteration + 1, |open| open.iteration);
        if let Some(number) = brought.iteration.filter(|number| *number != next) {
            return Err(Error::refused(format!(
                "iteration {number} is out of order: loop `{id}` waits for iteration {next}"
            )));
        }
        if let Some(environment) = &brought.environment_id {
            match &state.checkpoint {
                Some(open) if open.environment_id == *environment => {}
                Some(open) => {
                    return Err(Error::refused(format!(
                        "environment {environment} is not that of iteration {}, which is {}; an environment is used once",
                        open.iteration, open.environment_id
                    ))
                    .hint(format!("git loop status {id} --json names the open checkpoint")));
                }
                None => {
                    return Err(Error::refused(format!(
                        "loop `{id}` has no open checkpoint with environment {environment}; an environment is used once"
                    ))
                    .hint(format!("ask for a new one: git loop checkpoint {id} --json")));
                }
            }
        }
        if let Some(adapter) = &brought.adapter
            && !contract.sandbox.allowed.iter().any(|one| one.as_str() == adapter)
        {
            let allowed: Vec<&str> = contract.sandbox.allowed.iter().map(|one| one.as_str()).collect();
            return Err(Error::refused(format!(
                "the contract of `{id}` does not allow the adapter {adapter}"
            ))
            .hint(format!("it allows {}", allowed.join(", "))));
        }
        match (contract.check.external, &brought.verdict) {
            (true, None) => {
                Err(Error::refused(format!("the check of loop `{id}` runs elsewhere: a verdict is missing"))
                    .hint("pass --verdict FILE, with its signature in FILE.sig: git loop verdict sign FILE"))
            }
            (false, Some(_)) => {
                Err(Error::refused(format!("the check of loop `{id}` runs here: no verdict is taken"))
                    .hint("leave --verdict out; check.external is not set in its contract"))
            }
            _ => Ok(()),
        }
    }

    /// Candidate, guards and check, as of a worker that ran here.
    fn take_brought(&mut self, mut draft: Draft, rev: Oid, brought: &Brought) -> Result<Draft> {
        let repo = self.repo;
        let worker = &self.tip.contract.worker;
        let tree = Oid(repo.commit_tree(rev.0).or_workspace(|| format!("{rev} cannot be read"))?);
        let report = brought.evidence.clone().map(|bytes| self.redact(bytes));
        // What the agent printed stayed with the orchestrator: it brings the cost that it read there.
        let kind = if worker.usage == Usage::None { UsageKind::None } else { UsageKind::Json };
        draft.cost = cost_receipt(usage::parse(kind, Printed::nothing(), report.as_deref()));
        let summary = report
            .as_deref()
            .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(bytes).ok())
            .and_then(|value| value.get("summary")?.as_str().map(|text| text.chars().take(2000).collect()));
        draft.outside = Some(OutsideReceipt { rev, adapter: brought.adapter.clone(), summary });
        draft.evidence.extend(report.map(|bytes| EvidenceFile::whole("worker.json", bytes)));
        self.journal(&draft)?;
        self.take_candidate(&mut draft, tree)?;
        if self.decides_without_check(&draft) {
            return Ok(draft);
        }
        let trees = crate::guard::tree::in_memory(repo.gix());
        let check_tree = check_tree_in(&trees, &self.guards, tree)
            .or_internal(|| "the tree of the check cannot be made".to_owned())?;
        let runs = match &brought.verdict {
            Some((bytes, signature)) => {
                let subject = Subject { checkpoint: draft.checkpoint, candidate_tree: tree, check_tree };
                self.outside_runs(subject, bytes, signature)?
            }
            None => self.run_check(&draft.environment_id, check_tree, draft.base, &trees)?,
        };
        draft.sandbox.check = runs.enforced;
        draft.sandbox.check_requests.clone_from(&runs.requests);
        if runs.interrupted {
            return Ok(self.abandon(draft, "interrupted while the check ran"));
        }
        let measured = self.measure_change(&draft, tree)?;
        self.judge_check(&mut draft, check_tree, runs, measured)?;
        if self.show_lasting(&mut draft, check_tree, &trees)? == Held::Interrupted {
            return Ok(self.abandon(draft, "interrupted while a command of the contract ran"));
        }
        match self.hold_out(&mut draft, tree, &trees)? {
            Held::Done => Ok(draft),
            Held::Interrupted => Ok(self.abandon(draft, "interrupted while the holdout ran")),
        }
    }

    /// A verified outside verdict in the place of a run of the check.
    fn outside_runs(&self, subject: Subject, bytes: &[u8], signature: &[u8]) -> Result<CheckRuns> {
        let runner = self.author.signer.fingerprint();
        let verdict = OutsideVerdict::verified(
            bytes,
            signature,
            &self.tip.contract,
            subject,
            self.trust,
            self.now(),
            &runner,
        )
        .map_err(|error| {
            let told = Error::refused(error.to_string());
            let verifiers = any_of(&self.tip.contract.roles.verifier);
            match &error {
                OutsideError::NoVerifier { namespace: true, .. } => told.hint(format!(
                    "let it sign verdicts: namespaces=\"git,{VERDICT_NAMESPACE}\" in its line of {}",
                    self.trust.source
                )),
                OutsideError::NoVerifier { .. } | OutsideError::Runner => told.hint(format!(
                    "have it signed by {verifiers}, with a key that does not run the loop: git loop verdict sign FILE --key KEY"
                )),
                _ => told.hint(
                    "make it anew for this checkpoint and this candidate, then: git loop verdict sign FILE --key KEY",
                ),
            }
        })?;
        let capture = Capture { report: Some(bytes.to_vec()), ..Capture::default() };
        Ok(CheckRuns {
            samples: vec![Sample { run: outside_run(verdict.exit_code), capture }],
            enforced: None,
            requests: None,
            evidence: vec![EvidenceFile::whole("report.sig", signature.to_vec())],
            interrupted: false,
        })
    }
}
