//! One iteration, from the checkpoint to the record.

use std::collections::BTreeMap;

use super::commands::{CheckRuns, WorkerRun};
use super::context::{self, Material};
use super::credential::Minted;
use super::fresh::For;
use super::holdout::Held;
use super::session::{Session, halt_body, verified_tip};
use super::tamper;
use crate::crash;
use crate::decide;
use crate::error::{Error, Kind, Result, ResultExt};
use crate::git::{Durability, Expect};
use crate::ledger::append::{EvidenceFile, Move, Tip, draft, write_signed};
use crate::ledger::fold;
use crate::ledger::lasting::{Brought, LastingReceipt, MeasuredReceipt};
use crate::ledger::observe::{Capture, Compared, observe};
use crate::ledger::receipt::{
    ChangesReceipt, CheckReceipt, ContextEntry, CostBasis, CostReceipt, GuardViolation, GuardsReceipt,
    HoldoutReceipt, LayersReceipt, NoReport, OutsideReceipt, RECEIPT_SCHEMA, Receipt, SandboxReceipt,
    WorkerReceipt,
};
use crate::ledger::record::{Body, CheckpointBody, HaltedBy, IterationBody, Role};
use crate::ledger::rederive::{
    self, candidate_message, changes_receipt, check_tree_in, fill, guards_receipt, judge_tree,
};
use crate::ledger::state::Phase;
use crate::money::MicroUsd;
use crate::oid::Oid;
use crate::render::line::{iteration_line, tail};
use crate::sign::{CommitObject, Person};
use crate::worker::usage::NamedModel;
use crate::worktree;

/// Everything that becomes known about an iteration, until it is recorded.
#[derive(Debug)]
pub(super) struct Draft {
    pub checkpoint: Oid,
    pub iteration: u32,
    pub environment_id: String,
    pub base: Oid,
    pub candidate: Option<Oid>,
    pub candidate_tree: Option<Oid>,
    pub abandoned: Option<String>,
    pub worker: Option<WorkerReceipt>,
    pub outside: Option<OutsideReceipt>,
    pub context: Vec<ContextEntry>,
    pub cost: CostReceipt,
    /// The models that the worker's own output names.
    pub models: Vec<NamedModel>,
    pub changes: ChangesReceipt,
    pub guards: GuardsReceipt,
    pub check: Option<CheckReceipt>,
    /// What the worker brought, until it is put down.
    pub brought: Option<Brought>,
    pub lasting: Option<LastingReceipt>,
    pub holdout: Option<HoldoutReceipt>,
    pub sandbox: SandboxReceipt,
    pub evidence: Vec<EvidenceFile>,
    pub facts: decide::Evidence,
    /// Why the run ends once this is recorded, although the loop does not.
    pub fault: Option<Error>,
}

impl Draft {
    pub(super) fn new(checkpoint: Oid, iteration: u32, environment_id: String, base: Oid) -> Self {
        Self {
            checkpoint,
            iteration,
            environment_id,
            base,
            candidate: None,
            candidate_tree: None,
            abandoned: None,
            worker: None,
            outside: None,
            context: Vec::new(),
            cost: CostReceipt {
                prompt_tokens: None,
                completion_tokens: None,
                usd: Some(MicroUsd::ZERO),
                basis: CostBasis::None,
                problem: None,
            },
            models: Vec::new(),
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
            check: None,
            brought: None,
            lasting: None,
            holdout: None,
            sandbox: SandboxReceipt::default(),
            evidence: Vec::new(),
            facts: decide::Evidence::default(),
            fault: None,
        }
    }
}

/// What is wrong with a check whose tests a record, or the state after it, would not hold.
const TOO_MANY_TESTS: &str = "the check names more tests, or longer names, than a record can hold";

impl Draft {
    /// Takes back what was seen of the check and the holdout: an iteration that is abandoned has neither, nor a file that a verdict
    /// would rest on.
    fn forget_check(&mut self) {
        self.evidence.retain(|file| file.name.starts_with("worker.") || file.name == "context.md");
        (self.check, self.facts.check) = (None, None);
        (self.holdout, self.facts.holdout) = (None, None);
        (self.lasting, self.facts.lasting) = (None, None);
    }
}

impl Session<'_> {
    /// Runs one iteration and records it. An interruption is recorded as well.
    pub(super) fn iteration(&mut self) -> Result<()> {
        // Before anything is recorded: nobody is to pay for a credential that cannot be had.
        let minted = self.mint()?;
        let announced = self.checkpoint();
        if !matches!(announced, Ok(Some(_))) {
            self.revoke_left();
        }
        let Some((draft, context_text)) = announced? else { return Ok(()) };
        let number = draft.iteration;
        (self.say)(&format!("{}: iteration {number}: worker", self.id));
        let done = self.attempt(draft, &context_text, minted.as_ref());
        if done.is_err() {
            self.revoke_left();
        }
        let mut done = done?;
        let fault = done.fault.take();
        let kept = |name: &str| done.evidence.iter().find(|file| file.name == name);
        let last_words = kept("worker.stderr")
            .or_else(|| kept("worker.log"))
            .map_or_else(Vec::new, |file| tail(&file.content, 3));
        let tip = self.record(done)?;
        if let Body::Iteration(body) = &tip.body {
            (self.say)(&format!("{}: {}", self.id, iteration_line(&self.tip.contract, &body.receipt)));
            if body.receipt.worker.as_ref().is_some_and(|worker| worker.failure.is_some()) {
                for line in last_words {
                    (self.say)(&format!("{}:   worker: {line}", self.id));
                }
            }
        }
        fault.map_or(Ok(()), Err)
    }

    /// Announces the iteration: a signed checkpoint, which is also the write-ahead intent. `Ok(None)` if a limit says no at the moment
    /// that the record would name: then the loop has halted instead.
    pub(super) fn checkpoint(&mut self) -> Result<Option<(Draft, String)>> {
        let now = self.now();
        if self.halt_at_limit(now)? {
            return Ok(None);
        }
        let environment_id = self.ahead.borrow_mut().take_environment().unwrap_or_else(random_id);
        let iteration = self.tip.state.iteration + 1;
        let base = self.tip.state.last_green_commit;
        let left =
            decide::remaining(&self.tip.contract, &self.tip.state, self.tip.state.elapsed_seconds(now));
        let history = self.history()?;
        let text = context::render(&Material {
            contract: &self.tip.contract,
            state: &self.tip.state,
            remaining: &left,
            iteration,
            earlier: &history.earlier,
            baseline: None,
            output: history.output.as_ref(),
            fence: &format!("==== {} ====", random_id()),
        });
        let manifest = context::manifest(&text);
        let body = CheckpointBody {
            iteration,
            base,
            environment_id: environment_id.clone(),
            adapter: self.adapter.to_string(),
            context: manifest.clone(),
            remaining: left,
            reservation_usd: decide::reservation(&self.tip.contract, &self.tip.state),
        };
        self.append(Body::Checkpoint(body), now, "loop: checkpoint")?;
        let mut draft = Draft::new(self.tip.id, iteration, environment_id, base);
        draft.context = manifest;
        Ok(Some((draft, text)))
    }

    /// Worker, candidate, guards, check.
    fn attempt(
        &mut self,
        mut draft: Draft,
        context_text: &str,
        credential: Option<&Minted>,
    ) -> Result<Draft> {
        let repo = self.repo;
        let base_tree =
            repo.commit_tree(draft.base.0).or_workspace(|| format!("green {} cannot be read", draft.base))?;
        let name = worktree::worktree_name(self.id.as_str(), &draft.environment_id);
        let remark = format!("git-loop {} iteration {}", self.id, draft.iteration);
        let scratch = self.places.scratch(&name)?;
        let (linked, filled) = match self.take_workers(&name, draft.base, Oid(base_tree))? {
            Some(prepared) => prepared,
            None => {
                let (repo, folder) = (repo.gix(), &self.places.worktrees);
                let linked = self.supplies()?.register(repo, folder, &name, draft.base, &remark)?;
                let filled = self.fill(repo, &linked, Oid(base_tree), For::Worker)?;
                self.supplies()?.open_history(repo, &linked, draft.base, &filled.manifest)?;
                self.give_layers(linked.path(), &filled)?;
                (linked, filled)
            }
        };
        crash::point("worktree:filled");
        self.prepare_ahead(&draft, Oid(base_tree), &filled.manifest)?;
        // What the last iteration used is gone before anything new runs.
        self.cleaner.wait()?;

        // Where the repository is not even there for the worker, what changes in it is somebody else's doing.
        let private = crate::sandbox::has_private_root(self.adapter);
        let before = if private { None } else { Some(tamper::look(repo, self.id.refs())?) };
        let users = if private { BTreeMap::new() } else { tamper::look_at_user(self.host) };
        let run = self.run_worker(&draft, linked.path(), &filled, &scratch, context_text, credential);
        if let Some(credential) = credential {
            self.revoke(credential);
        }
        let run = run?;
        if let Some(before) = before
            && !run.enforced.is_some_and(|enforced| enforced.filesystem && enforced.private_root)
        {
            draft.guards.tampered = before.differences(&tamper::look(repo, self.id.refs())?, repo);
            if tamper::look_at_user(self.host) != users {
                (self.say)(&format!(
                    "{}: warning: your own git configuration changed while the worker ran; look at it: git config --global --list",
                    self.id
                ));
            }
            draft.guards.guards_intact = draft.guards.tampered.is_empty();
        }
        let WorkerRun { receipt, usage, models, enforced, requests, evidence, interrupted } = run;
        draft.worker = Some(receipt);
        draft.cost = usage;
        draft.models = models;
        draft.sandbox.worker = enforced;
        draft.sandbox.worker_requests = requests;
        draft.evidence.extend(evidence);
        draft.evidence.push(EvidenceFile::whole("context.md", context_text.as_bytes().to_vec()));
        self.journal(&draft)?;
        if interrupted {
            self.ahead.borrow().give_up();
            linked.remove()?;
            return Ok(self.abandon(draft, "interrupted while the worker ran"));
        }

        self.take_layers(linked.path())?;
        let Some(snapshot) = filled.snapshot(repo.gix(), linked.path(), self.interrupt.flag())? else {
            self.ahead.borrow().give_up();
            linked.remove()?;
            return Ok(self.abandon(draft, "interrupted while what the worker left was read"));
        };
        self.cleaner.remove(linked, Some(scratch));
        draft.guards.left_out = snapshot
            .violations
            .iter()
            .map(|violation| GuardViolation {
                path: crate::escape::escape_path(violation.path.as_ref()),
                what: violation.what.to_string(),
            })
            .collect();
        let tree = Oid(snapshot.tree);
        self.take_candidate(&mut draft, tree)?;
        draft.facts.worker_failed = draft.worker.as_ref().is_some_and(|worker| worker.failure.is_some());
        if self.decides_without_check(&draft) {
            return Ok(draft);
        }

        // The tree of the check can be made again from the candidate and the contract; it need not be kept.
        let trees = crate::guard::tree::in_memory(repo.gix());
        let check_tree = check_tree_in(&trees, &self.guards, tree)
            .or_internal(|| "the tree of the check cannot be made".to_owned())?;
        (self.say)(&format!("{}: iteration {}: check", self.id, draft.iteration));
        let run = match self.run_check(&draft.environment_id, check_tree, draft.base, &trees) {
            Err(_) if self.interrupt.is_set() => {
                return Ok(self.abandon(draft, "interrupted before the check ran"));
            }
            run => run?,
        };
        draft.sandbox.check = run.enforced;
        draft.sandbox.check_requests.clone_from(&run.requests);
        if run.interrupted {
            return Ok(self.abandon(draft, "interrupted while the check ran"));
        }
        let measured = match self.measure_change(&draft, tree) {
            Ok(measured) => measured,
            Err(error) => return Ok(self.unasked(draft, "the candidate could not be measured", error)),
        };
        self.judge_check(&mut draft, check_tree, run, measured)?;
        match self.show_lasting(&mut draft, check_tree, &trees) {
            Ok(Held::Done) => {}
            Ok(Held::Interrupted) => {
                return Ok(self.abandon(draft, "interrupted while a command of the contract ran"));
            }
            Err(error) => {
                return Ok(self.unasked(draft, "a command of the contract could not be run", error));
            }
        }
        match self.hold_out(&mut draft, tree, &trees) {
            Ok(Held::Done) => Ok(draft),
            Ok(Held::Interrupted) => Ok(self.abandon(draft, "interrupted while the holdout ran")),
            Err(error) => Ok(self.unasked(draft, "the holdout could not be asked", error)),
        }
    }

    /// The draft of an iteration that could not be judged: the candidate is not at fault, and what was paid for is put down.
    fn unasked(&self, draft: Draft, what: &str, error: Error) -> Draft {
        let mut draft = self.abandon(draft, &format!("{what}: {}", error.message()));
        draft.fault = Some(error);
        draft
    }

    /// Makes the candidate of `tree`, moves `head` to it and looks at what it changed.
    pub(super) fn take_candidate(&self, draft: &mut Draft, tree: Oid) -> Result<()> {
        let unreadable = || format!("green {} cannot be read", draft.base);
        self.repo.restore_fresh().or_workspace(|| "what the worktree held cannot be kept".to_owned())?;
        let base_tree = self.repo.commit_tree(draft.base.0).or_workspace(unreadable)?;
        self.repo
            .remember_tree(tree.0, Some(base_tree))
            .or_workspace(|| format!("the tree {tree} of the candidate cannot be read"))?;
        crash::point("candidate:snapshot");
        let candidate = self.make_candidate(draft, tree)?;
        crash::point("candidate:made");
        draft.candidate = Some(candidate);
        draft.candidate_tree = Some(tree);
        self.move_head(candidate, draft.base)?;
        crash::point("head:moved");
        let judged = judge_tree(self.repo, &self.guards, draft.base, tree)
            .or_internal(|| format!("candidate {candidate} cannot be judged"))?;
        draft.guards = guards_receipt(&judged, &draft.guards.tampered, &draft.guards.left_out);
        draft.changes = changes_receipt(&judged);
        fill(&mut draft.facts, &judged, &draft.guards);
        draft.facts.tampered = draft.guards.tampered.len();
        self.take_evidence(draft, tree)
    }

    /// Reads the verdict out of what the check's runs left.
    pub(super) fn judge_check(
        &self,
        draft: &mut Draft,
        check_tree: Oid,
        run: CheckRuns,
        measured: Option<MeasuredReceipt>,
    ) -> Result<()> {
        let context = rederive::Context {
            repo: self.repo,
            trust: self.trust,
            contract: &self.tip.contract,
            guards: &self.guards,
            contract_record: self.tip.contract_record,
            before: &self.tip.state,
            measures: false,
        };
        let unreadable = || "the tests of the baseline or of green cannot be read".to_owned();
        let baseline = self.tip.state.baseline.as_ref().and_then(|baseline| baseline.tests);
        let baseline = rederive::tests(&context, baseline).or_workspace(unreadable)?;
        let green =
            rederive::tests(&context, self.tip.state.counters.green_tests).or_workspace(unreadable)?;
        let compared = Compared { baseline: baseline.as_ref(), green: green.as_ref() };
        let contract = &self.tip.contract;
        let mut observed = observe(contract, self.repo.hash_kind(), check_tree, &run.samples, compared);
        let mut run = run;
        if !fold::has_room(&self.tip.state, &observed) {
            if contract.check.external {
                return Err(Error::refused(TOO_MANY_TESTS).hint("name fewer tests, or with shorter names"));
            }
            // As of a report that is too large to be read: the worker gains nothing by it, nor does the run end.
            run.samples.truncate(1);
            for sample in &mut run.samples {
                sample.capture = Capture { no_report: Some(NoReport::TooLarge), ..Capture::default() };
            }
            observed = observe(contract, self.repo.hash_kind(), check_tree, &run.samples, compared);
            if let Some(problem) = &mut observed.receipt.problem {
                TOO_MANY_TESTS.clone_into(problem);
            }
        }
        draft.check = Some(observed.receipt);
        draft.facts.check = Some(observed.evidence);
        self.note_lasting(draft, &run.samples, measured);
        draft.evidence.extend(run.into_evidence(observed.tests_json));
        crash::point("check:judged");
        Ok(())
    }

    pub(super) fn decides_without_check(&self, draft: &Draft) -> bool {
        decide::decides_without_check(&self.tip.contract, &self.tip.state, &draft.facts)
    }

    /// A signed commit of `tree` on top of the checkpoint's base.
    fn make_candidate(&self, draft: &Draft, tree: Oid) -> Result<Oid> {
        let at = self.now();
        let agent = self.tip.contract.worker.agent.as_deref().unwrap_or("worker");
        let name: String = agent.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>')).collect();
        let author = Person {
            name: if name.trim().is_empty() { "worker".into() } else { name.trim().into() },
            email: "worker@git-loop.invalid".into(),
            seconds: at.seconds(),
            offset: 0,
        };
        let object = CommitObject {
            tree: tree.0,
            parents: vec![draft.base.0],
            author,
            committer: crate::ledger::append::person(&self.author.principal, at),
            extra_headers: Vec::new(),
            message: candidate_message(self.id.as_str(), draft.iteration, &draft.environment_id).into(),
        };
        write_signed(self.repo, self.author.signer, &object)
    }

    /// Points `head` at the candidate, so that gc cannot take it while it is judged.
    fn move_head(&self, candidate: Oid, base: Oid) -> Result<()> {
        use crate::git::RefChange;
        let head = self.id.refs().head();
        let found = self.repo.read_ref(head.as_ref()).or_workspace(|| format!("{head} cannot be read"))?;
        // Somebody moved it; the ledger says where it belongs, and that is what we go by.
        let expect = match found {
            Some(found) if Oid(found) != base => Expect::Exactly(found),
            Some(_) => Expect::Exactly(base.0),
            None => Expect::Absent,
        };
        let change = RefChange {
            name: head.clone(),
            expect,
            to: Some(candidate.0),
            message: "loop: candidate".to_owned(),
        };
        self.repo.move_refs(&[change], self.now()).map_err(|error| {
            Error::from(error).while_doing(format!("{head} cannot be moved to the candidate"))
        })
    }

    /// Turns the draft into one that is recorded as rejected because it was interrupted.
    pub(super) fn abandon(&self, mut draft: Draft, why: &str) -> Draft {
        draft.abandoned = Some(match self.interrupt.signal() {
            Some(signal) => format!("{why}, by signal {signal}"),
            None => why.to_owned(),
        });
        draft.facts.abandoned = true;
        draft.forget_check();
        if draft.cost.usd.is_none() || draft.cost.basis != CostBasis::Reported {
            self.charge_reservation(&mut draft);
        }
        draft
    }

    /// Charges what was reserved, or what the runner had journalled if that is more.
    pub(super) fn charge_reservation(&self, draft: &mut Draft) {
        if self.tip.contract.worker.costs_nothing() {
            return;
        }
        let reserved = self.tip.state.checkpoint.as_ref().map_or(MicroUsd::ZERO, |open| open.reservation_usd);
        let journalled = self.journalled(&draft.environment_id);
        draft.cost.usd = Some(reserved.max(journalled.usd));
        draft.cost.basis = CostBasis::Reserved;
        // Tokens have no reservation: what was noted of them is all that is known.
        draft.cost.prompt_tokens = draft.cost.prompt_tokens.or(journalled.prompt_tokens);
        draft.cost.completion_tokens = draft.cost.completion_tokens.or(journalled.completion_tokens);
    }

    /// Decides, and appends the iteration record, the halt record if it halts, and the note, in one transaction.
    pub(super) fn record(&mut self, mut draft: Draft) -> Result<crate::ledger::record::Record> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.try_record(&mut draft) {
                Ok(record) => return Ok(record),
                // Somebody else appended: an operator's stop is welcome, everything else is put right first.
                Err(error) if attempts <= 3 && error.kind() == Kind::Workspace => {
                    if !self.ledger_moved(&mut draft)? {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn try_record(&mut self, draft: &mut Draft) -> Result<crate::ledger::record::Record> {
        let now = self.now();
        let contract = &self.tip.contract;
        draft.facts.usd = draft.cost.usd;
        draft.facts.cost_known = draft.cost.basis == CostBasis::Reported;
        draft.facts.tokens =
            draft.cost.prompt_tokens.unwrap_or(0).saturating_add(draft.cost.completion_tokens.unwrap_or(0));
        draft.facts.elapsed_seconds = self.tip.state.elapsed_seconds(now);
        let mut receipt = self.receipt(draft);
        receipt.guards = receipt.guards.bounded();
        draft.facts.hit_deadline = rederive::hit_deadline(&receipt);
        let decision = decide::decide(contract, &self.tip.state, &draft.facts);
        receipt.decision = decision.clone();

        let evidence = draft.evidence.clone();
        let line = crate::canonical::compact_json(&receipt);
        let body = |evidence| Body::Iteration(Box::new(IterationBody { receipt, evidence }));
        let onto = self.with_invocations(draft, now)?;
        let iteration = draft_at(self, &onto, body, evidence, now)?;
        let record = iteration.record.clone();
        let mut tip = iteration;
        if let Some(halt_reason) = decision.halt_reason
            && tip.state.phase != Phase::Halted
        {
            let halt = halt_body(&tip, HaltedBy::Decision, halt_reason, &decision.reason);
            tip = draft_after(self, &tip, Body::Halt(halt), now)?;
        }
        let mut moves = Vec::new();
        let head = self.id.refs().head();
        let found =
            self.repo.read_ref(head.as_ref()).or_workspace(|| format!("{head} cannot be read"))?.map(Oid);
        let green = tip.state.last_green_commit;
        if found != Some(green) {
            let expect = found.map_or(Expect::Absent, |found| Expect::Exactly(found.0));
            moves.push(Move { name: head, expect, to: green });
        }
        if let Some(candidate) = draft.candidate {
            let notes = self.id.refs().notes();
            let before =
                self.repo.read_ref(notes.as_ref()).or_workspace(|| format!("{notes} cannot be read"))?;
            let who = crate::git::signature(now);
            let to = self.repo.append_note_line(before, candidate.0, &line, &who, Durability::Fast)?;
            crash::point("note:written");
            let expect = before.map_or(Expect::Absent, Expect::Exactly);
            moves.push(Move { name: notes, expect, to: Oid(to) });
        }
        let why = format!("loop: iteration {}", draft.iteration);
        self.publish(&tip, moves, &why)?;
        self.tip = tip;
        self.forget_journal(&draft.environment_id);
        self.output.forget();
        Ok(record)
    }

    /// Looks why the ledger is not where we left it. True if the record may be tried again.
    fn ledger_moved(&mut self, draft: &mut Draft) -> Result<bool> {
        let name = self.id.refs().ledger();
        let found =
            self.repo.read_ref(name.as_ref()).or_workspace(|| format!("{name} cannot be read"))?.map(Oid);
        if found == Some(self.tip.id) {
            // Not the ledger: head or notes moved under us; they are read anew each time.
            return Ok(true);
        }
        let extension = found.and_then(|_| verified_tip(self.repo, &self.id, self.trust).ok());
        match extension {
            Some(tip) if self.is_extension(&tip) => {
                self.tip = tip;
                self.expected.only(self.tip.id);
                if self.tip.state.phase == Phase::Halted && draft.abandoned.is_none() {
                    draft.abandoned = Some("an operator stopped the loop".to_owned());
                    draft.facts.abandoned = true;
                    draft.forget_check();
                }
                Ok(true)
            }
            // Neither ours nor a valid continuation of ours: somebody tampered with it. The chain that we hold is put
            // back, and the iteration pays for it.
            _ => {
                self.restore_ledger(found)?;
                draft.guards.tampered.push(GuardViolation {
                    path: name.to_string(),
                    what: "this ref was moved while the worker ran".to_owned(),
                });
                draft.guards.guards_intact = false;
                draft.facts.tampered = draft.guards.tampered.len();
                Ok(true)
            }
        }
    }

    fn restore_ledger(&self, found: Option<Oid>) -> Result<()> {
        use crate::git::RefChange;
        let change = RefChange {
            name: self.id.refs().ledger(),
            expect: found.map_or(Expect::Absent, |found| Expect::Exactly(found.0)),
            to: Some(self.tip.id.0),
            message: "loop: restore".to_owned(),
        };
        self.repo
            .move_refs(&[change], self.now())
            .map_err(|error| Error::from(error).while_doing("the ledger could not be restored"))
    }

    /// Whether `tip` continues our ledger: ours is among its records.
    pub(super) fn is_extension(&self, tip: &Tip) -> bool {
        crate::ledger::verify::record_ids(self.repo, tip.id.0)
            .is_ok_and(|ids| ids.iter().any(|id| Oid(*id) == self.tip.id))
    }

    fn receipt(&self, draft: &Draft) -> Receipt {
        let contract = &self.tip.contract;
        let mut unpinned = BTreeMap::new();
        let mut because = |field: &str, why: &str| unpinned.insert(field.to_owned(), why.to_owned());
        if contract.worker.model.is_none() {
            because("model", "the contract names no model");
        }
        if contract.worker.sampling.is_none() {
            because("sampling", "the contract names no sampling parameters");
        }
        if draft.cost.usd.is_none() {
            because("cost.usd", draft.cost.problem.as_deref().unwrap_or("the worker did not report it"));
        }
        if draft.check.is_none() {
            because("check", "an earlier row decided, or the iteration was interrupted");
        }
        because("determinism_confidence", "the check was not probed");
        Receipt {
            schema: RECEIPT_SCHEMA.to_owned(),
            loop_id: contract.loop_id.clone(),
            contract: self.tip.contract_record,
            checkpoint: draft.checkpoint,
            iteration: draft.iteration,
            environment_id: draft.environment_id.clone(),
            base: draft.base,
            candidate: draft.candidate,
            candidate_tree: draft.candidate_tree,
            abandoned: draft.abandoned.clone(),
            worker: draft.worker.clone(),
            outside: draft.outside.clone(),
            model: contract.worker.model.clone(),
            sampling: contract.worker.sampling.clone(),
            context: draft.context.clone(),
            cost: draft.cost.clone(),
            changes: draft.changes.clone(),
            guards: draft.guards.clone(),
            check: draft.check.clone(),
            lasting: draft.lasting.clone(),
            holdout: draft.holdout.clone(),
            sandbox: draft.sandbox.clone(),
            layers: self.layers().map(|layers| LayersReceipt { setup: None, ..layers }),
            elapsed_seconds: draft.facts.elapsed_seconds,
            decision: decide::decide(contract, &self.tip.state, &draft.facts),
            determinism_confidence: None,
            unpinned,
        }
    }
}

fn draft_at(
    session: &Session<'_>,
    tip: &Tip,
    body: impl FnOnce(Vec<crate::ledger::record::EvidenceEntry>) -> Body,
    evidence: Vec<EvidenceFile>,
    now: crate::at::At,
) -> Result<Tip> {
    draft(session.repo, &session.author, tip, Role::Runner, body, evidence, now)
}

fn draft_after(session: &Session<'_>, tip: &Tip, body: Body, now: crate::at::At) -> Result<Tip> {
    draft(session.repo, &session.author, tip, Role::Runner, |_| body, Vec::new(), now)
}

/// 64 random bits, as hex. Names of environments must not be guessable, and never come twice.
pub(super) fn random_id() -> String {
    use ssh_key::rand_core::{OsRng, RngCore};
    format!("{:016x}", OsRng.next_u64())
}
