//! One run of one loop on this machine: what is open while it lasts, and the order in which things happen.

use std::cell::RefCell;

use zeroize::Zeroizing;

use crate::at::At;
use crate::contract::file::History as HistoryTerms;
use crate::contract::frozen::{HoldoutTerms, SandboxTerms};
use crate::contract::{Contract, Guards, NetworkTerms};
use crate::decide::{BaselineEvidence, after_baseline, before_start, remaining};
use crate::error::{Error, Result, ResultExt};
use crate::exit::{ExitCode, HaltReason};
use crate::git::LoopId;
use crate::git::LoopLock;
use crate::git::Repo;
use crate::host::HostEnv;
use crate::ledger::append::{Author, Move, Tip, draft, publish};
use crate::ledger::fold::status_of;
use crate::ledger::receipt::{LayersReceipt, RunReceipt};
use crate::ledger::record::{Body, HaltBody, HaltedBy, ResumeBody, Role};
use crate::ledger::state::Phase;
use crate::ledger::trust::TrustRoot;
use crate::ledger::verify::{Chain, verify_ledger, verify_ledger_after};
use crate::ledger::waypoint::{Waypoint, WaypointFile};
use crate::render::commands;
use crate::render::status::any_of;
use crate::sandbox;

use super::ahead::Ahead;
use super::cleaner::Cleaner;
use super::fresh::Stock;
use super::interrupt::Interrupt;
use super::output::Output;
use super::places::Places;
use super::start::open_history_is_closed;
use super::step::Tools;
use super::watch::{Expected, Watcher};

/// What a run is asked to do.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionOptions {
    /// End after one iteration.
    pub once: bool,
    /// Leave an operator's stop.
    pub resume: bool,
}

/// How a run ended.
#[derive(Debug)]
pub struct RunEnd {
    /// The end of the ledger.
    pub tip: Tip,
    /// The exit code of the command.
    pub exit: ExitCode,
}

/// A run of one loop, with everything that stays open while it lasts.
pub struct Session<'a> {
    pub(super) repo: &'a Repo,
    pub(super) host: &'a HostEnv,
    pub(super) tools: Tools,
    pub(super) trust: &'a TrustRoot,
    pub(super) author: Author<'a>,
    pub(super) id: LoopId,
    pub(super) tip: Tip,
    pub(super) guards: Guards,
    pub(super) adapter: sandbox::Adapter,
    pub(super) places: Places,
    /// What steps print, while they run.
    pub(super) output: Output,
    pub(super) stock: Stock,
    /// The worktrees that are made before they are wanted.
    pub(super) ahead: RefCell<Ahead>,
    /// What the worktrees get besides their trees, once that is known.
    pub(super) layers: RefCell<Option<LayersReceipt>>,
    pub(super) cleaner: Cleaner,
    pub(super) interrupt: Interrupt,
    pub(super) expected: Expected,
    pub(super) say: &'a dyn Fn(&str),
    /// The credentials that were made in this session, revoked or not, by variable: they are taken out of what is kept.
    pub(super) minted: RefCell<Vec<(String, Zeroizing<Vec<u8>>)>>,
    _lock: LoopLock,
}

/// What a session is opened with.
pub struct Opening<'a> {
    /// The repository.
    pub repo: &'a Repo,
    /// The environment of the command.
    pub host: &'a HostEnv,
    /// Who is trusted.
    pub trust: &'a TrustRoot,
    /// Says who runs it, once the terms are known and verified.
    pub author: &'a dyn Fn(&Contract) -> Result<Author<'a>>,
    /// The loop.
    pub id: LoopId,
    /// What may end it from outside.
    pub interrupt: Interrupt,
    /// Where a line for people goes.
    pub say: &'a dyn Fn(&str),
    /// Where a warning goes.
    pub warn: &'a dyn Fn(&str),
    /// Whether an open iteration is somebody else's who will bring its candidate, rather than what a dead runner left.
    pub keep_open: bool,
}

impl<'a> Session<'a> {
    /// Opens a loop for running: takes its lock, verifies its ledger (once: from here on nobody else runs it), chooses the
    /// sandbox and closes what a dead runner left open.
    pub fn open(opening: Opening<'a>) -> Result<Self> {
        let Opening { repo, host, trust, author, id, interrupt, say, warn, keep_open } = opening;
        sandbox::get_ready();
        let lock = LoopLock::acquire(repo.common_dir(), &id, At::now().timestamp())?;
        let waypoint = WaypointFile::new(&Places::folder(repo, host)?, &id, trust);
        let chain = continued_chain(repo, &id, trust, &waypoint)?;
        for warning in &chain.warnings {
            warn(warning);
        }
        let guards = chain.guards.clone();
        let tip = Tip::from(chain);
        let author = author(&tip.contract)?;
        let adapter = choose_adapter(repo, &tip.contract)?;
        let places = Places::open(repo, host, &id, &tip.contract)?;
        let expected = Expected::default();
        let mut this = Self {
            repo,
            host,
            tools: Tools::new(host),
            trust,
            author,
            id,
            tip,
            guards,
            adapter,
            output: Output::new(&places.private),
            places,
            stock: Stock::default(),
            ahead: RefCell::default(),
            layers: RefCell::default(),
            cleaner: Cleaner::start(),
            interrupt,
            expected,
            say,
            minted: RefCell::default(),
            _lock: lock,
        };
        // Before anything is recorded: another machine may be at it.
        this.take_lease()?;
        if !keep_open {
            this.before_giving_up()?;
        }
        this.recover(keep_open)?;
        Ok(this)
    }

    /// Fails if the loop cannot be run here anyway: then its open iteration is not given up for nothing, which may be that of an
    /// orchestrator who never meant to have it run here.
    fn before_giving_up(&self) -> Result<()> {
        let state = &self.tip.state;
        let Some(open) = state.checkpoint.as_ref().filter(|_| state.phase != Phase::Halted) else {
            return Ok(());
        };
        let contract = &self.tip.contract;
        let able =
            if contract.check.external { Err(check_is_elsewhere(&self.id)) } else { self.has_what_it_runs() };
        able.map_err(|error| {
            error.hint(format!(
                "iteration {} is still open; bring its candidate: {}",
                open.iteration,
                commands::bring(contract, open)
            ))
        })
    }

    /// The end of the ledger.
    pub fn tip(&self) -> &Tip {
        &self.tip
    }

    /// Runs until the loop halts, once if asked to, or until it is interrupted.
    pub fn run(mut self, options: SessionOptions) -> Result<RunEnd> {
        let over = self.tip.state.phase == Phase::Halted && !self.may_resume(options);
        if self.tip.contract.check.external && !over {
            return Err(check_is_elsewhere(&self.id));
        }
        if self.tip.state.phase == Phase::Halted {
            if !self.may_resume(options) {
                return Ok(self.end());
            }
            self.resume()?;
            self.take_lease()?;
            if self.tip.state.phase == Phase::Halted {
                return Ok(self.end());
            }
        }
        self.preflight()?;
        self.expected.only(self.tip.id);
        let _watcher = Watcher::start(self.repo, &self.id, self.expected.clone(), self.interrupt.clone());
        if self.tip.state.baseline.is_none() && !self.baseline()? && !self.refresh()? {
            return Ok(self.interrupted());
        }
        if !self.ensure_layers()? {
            return Ok(self.interrupted());
        }
        while self.tip.state.phase != Phase::Halted {
            if self.interrupt.is_set() {
                self.cleaner.wait()?;
                return Ok(self.interrupted());
            }
            match self.halt_at_limit(self.now()) {
                Ok(false) => {}
                Err(error) if !self.refresh()? => return Err(error),
                Ok(true) | Err(_) => continue,
            }
            self.can_record()?;
            self.take_lease()?;
            if self.tip.state.phase == Phase::Halted {
                continue;
            }
            let last = options.once || self.tip.state.iteration + 1 >= self.tip.contract.limits.iterations;
            self.ahead.borrow_mut().goes_on = !last;
            if let Err(error) = self.iteration()
                && !self.refresh()?
            {
                return Err(error);
            }
            self.interrupt.clear_unless_signalled();
            if options.once {
                break;
            }
        }
        self.cleaner.wait()?;
        if self.interrupt.is_set() && self.tip.state.phase != Phase::Halted {
            return Ok(self.interrupted());
        }
        self.hand_back()?;
        Ok(self.end())
    }

    fn end(self) -> RunEnd {
        let resumable = self.may_resume(SessionOptions { resume: true, ..SessionOptions::default() });
        if self.tip.state.phase == Phase::Halted && !resumable {
            // Nobody needs the warm folders of a loop that is over. That they are in the way of nothing makes a failure
            // no fault of the run.
            self.drop_layers();
        }
        let exit = self.tip.state.halt_reason.map_or(ExitCode::OK, HaltReason::exit_code);
        RunEnd { exit, tip: self.tip }
    }

    fn drop_layers(&self) {
        for path in [&self.places.warm, &self.places.included] {
            let _ = crate::worktree::remove_all(path);
        }
    }

    fn interrupted(self) -> RunEnd {
        match self.interrupt.signal() {
            Some(signal) => RunEnd { exit: ExitCode::from_signal(signal), tip: self.tip },
            None => self.end(),
        }
    }

    /// Now, never before the last record.
    pub(super) fn now(&self) -> At {
        At::now().max(self.tip.at)
    }

    /// Seconds of the loop's time that are left.
    pub(super) fn seconds_left(&self) -> u64 {
        remaining(&self.tip.contract, &self.tip.state, self.tip.state.elapsed_seconds(self.now())).seconds
    }

    /// Appends one record that stands by itself. What `body` says of the time is of `at`.
    pub(super) fn append(&mut self, body: Body, at: At, why: &str) -> Result<()> {
        let next = draft(self.repo, &self.author, &self.tip, Role::Runner, |_| body, Vec::new(), at)?;
        self.publish(&next, Vec::new(), why)?;
        self.tip = next;
        Ok(())
    }

    /// Looks whether somebody else continued our ledger, and goes on from there if so. An iteration that is open then
    /// was stopped by an operator, and is closed.
    pub(super) fn refresh(&mut self) -> Result<bool> {
        let tip = verified_tip(self.repo, &self.id, self.trust)?;
        if tip.id == self.tip.id || !self.is_extension(&tip) {
            return Ok(false);
        }
        self.tip = tip;
        self.expected.only(self.tip.id);
        if self.tip.state.checkpoint.is_some() {
            self.close_open_iteration("it was stopped before it was recorded")?;
        }
        Ok(true)
    }

    /// Moves the ledger from our tip to `next`, together with the other refs.
    pub(super) fn publish(&self, next: &Tip, others: Vec<Move>, why: &str) -> Result<()> {
        self.expected.either(self.tip.id, next.id);
        let published = publish(self.repo, self.id.refs(), Some(self.tip.id), next, others, why);
        self.expected.only(if published.is_ok() { next.id } else { self.tip.id });
        published
    }

    /// Appends a halt.
    pub(super) fn halt(&mut self, by: HaltedBy, halt_reason: HaltReason, reason: &str) -> Result<()> {
        self.halt_at(by, halt_reason, reason, self.now())
    }

    fn halt_at(&mut self, by: HaltedBy, halt_reason: HaltReason, reason: &str, at: At) -> Result<()> {
        let body = halt_body(&self.tip, by, halt_reason, reason);
        self.append(Body::Halt(body), at, "loop: halt")
    }

    /// Halts the loop if a limit forbids another start at `now`. The clock is read once for the question and for what is recorded of
    /// it: whoever verifies asks again, at the time of the record.
    pub(super) fn halt_at_limit(&mut self, now: At) -> Result<bool> {
        let elapsed = self.tip.state.elapsed_seconds(now);
        let Some(stop) = before_start(&self.tip.contract, &self.tip.state, elapsed) else {
            return Ok(false);
        };
        self.halt_at(HaltedBy::Limit, stop.halt_reason, stop.limit.as_str(), now)?;
        Ok(true)
    }

    pub(super) fn may_resume(&self, options: SessionOptions) -> bool {
        match self.tip.state.halt_reason {
            _ if self.tip.state.released => false,
            Some(HaltReason::OperatorStopped) => options.resume,
            Some(HaltReason::WorkspaceInvalid) => true,
            Some(HaltReason::HumanRequired) => self.tip.state.blocking_findings() == 0,
            _ => false,
        }
    }

    pub(super) fn resume(&mut self) -> Result<()> {
        let halt = self.tip.state.halt.unwrap_or(self.tip.id);
        self.append(Body::Resume(ResumeBody { halt, message: None }), self.now(), "loop: resume")?;
        (self.say)(&format!("{}: resumed", self.id));
        Ok(())
    }
}

/// A rehearsal of the baseline, for `start --dry-run`.
#[derive(Debug)]
pub struct Rehearsal {
    /// What is measured.
    pub metric_name: String,
    /// What is to be reached.
    pub target: f64,
    /// What it is at the base.
    pub metric: Option<f64>,
    /// Why there is no metric.
    pub problem: Option<String>,
    /// Whether a run would stop before its first worker, as there is nothing to measure against.
    pub no_verdict: bool,
    /// What a run would halt with before its first worker.
    pub halt_reason: Option<HaltReason>,
    /// The holdout, which a rehearsal looks at and does not run.
    pub holdout: Option<HoldoutTerms>,
    /// The end of what the check printed: name of the evidence and text. Nothing of a rehearsal is kept.
    pub printed: Vec<(String, String)>,
    /// The failing tests.
    pub failures: Vec<String>,
    /// Whether the base meets the target.
    pub target_met: bool,
    /// How often the check was run.
    pub runs: usize,
    /// How long all its runs took, in seconds.
    pub seconds: f64,
}

/// Runs the check on the base of a contract that is not signed, and records nothing.
pub fn rehearse(opening: Opening<'_>, contract: Contract) -> Result<Rehearsal> {
    let Opening { repo, host, trust, author, id, interrupt, say, .. } = opening;
    let author = author(&contract)?;
    let lock = LoopLock::acquire(repo.common_dir(), &id, At::now().timestamp())?;
    let guards = contract.guards(repo).or_workspace(|| "the contract does not fit the base".to_owned())?;
    let adapter = choose_adapter(repo, &contract)?;
    let places = Places::open(repo, host, &id, &contract)?;
    let tip = Tip::unsigned(repo, contract, &author)?;
    let session = Session {
        repo,
        host,
        tools: Tools::new(host),
        trust,
        author,
        id,
        tip,
        guards,
        adapter,
        output: Output::new(&places.private),
        places,
        stock: Stock::default(),
        ahead: RefCell::default(),
        layers: RefCell::default(),
        cleaner: Cleaner::start(),
        interrupt,
        expected: Expected::default(),
        say,
        minted: RefCell::default(),
        _lock: lock,
    };
    if session.tip.contract.check.external {
        return Err(Error::workspace("the check runs elsewhere: there is nothing to rehearse here")
            .hint(format!("start the loop: git loop start {}", session.id)));
    }
    session.preflight()?;
    (session.say)("running the check on the base …");
    let interrupt = session.interrupt.clone();
    let measured = session.measure_base();
    session.drop_layers();
    let measured = measured?.ok_or_else(|| interrupt.error("the rehearsal"))?;
    let contract = &session.tip.contract;
    let no_verdict = measured.no_verdict(contract).is_some();
    let printed = measured.printed(contract, 20);
    let receipt = measured.observed.receipt;
    let shown = BaselineEvidence {
        flaky: receipt.flaky,
        metric: receipt.metric,
        passing: receipt.passing,
        target_met: measured.target_met,
        holdout: None,
    };
    let halt_reason = after_baseline(contract, shown).0.map(|(halt_reason, _)| halt_reason);
    let first = std::slice::from_ref(&receipt.run);
    let runs: Vec<&RunReceipt> = if receipt.runs.is_empty() {
        first.iter().collect()
    } else {
        receipt.runs.iter().map(|one| &one.run).collect()
    };
    let milliseconds: u64 = runs.iter().map(|run| run.duration_ms).sum();
    Ok(Rehearsal {
        no_verdict,
        halt_reason,
        runs: runs.len(),
        seconds: milliseconds as f64 / 1000.0,
        holdout: contract.holdout.clone(),
        printed,
        metric_name: contract.metric.name.clone(),
        target: contract.metric.target,
        metric: receipt.metric,
        problem: receipt.problem,
        failures: receipt.failures.unwrap_or_default(),
        target_met: measured.target_met,
    })
}

/// The body of a halt record after `tip`.
pub(super) fn halt_body(tip: &Tip, by: HaltedBy, halt_reason: HaltReason, reason: &str) -> HaltBody {
    HaltBody {
        by,
        halt_reason,
        status: status_of(halt_reason),
        reason: reason.to_owned(),
        exit_code: halt_reason.exit_code().get(),
        iteration: tip.state.iteration,
        last_green_commit: tip.state.last_green_commit,
        message: None,
        packet: tip.state.due_halt.as_ref().and_then(|due| due.packet.clone()),
    }
}

/// The verified end of the ledger as it is on disk now.
pub(super) fn verified_tip(repo: &Repo, id: &LoopId, trust: &TrustRoot) -> Result<Tip> {
    Ok(Tip::from(verified_chain(repo, id, trust)?))
}

/// The verified ledger as it is on disk now.
fn verified_chain(repo: &Repo, id: &LoopId, trust: &TrustRoot) -> Result<Chain> {
    Ok(verify_ledger(repo, id, ledger_tip(repo, id)?, trust, At::now(), |_| {})?.into_inner())
}

/// The same, where what this user verified before need not be verified again.
fn continued_chain(repo: &Repo, id: &LoopId, trust: &TrustRoot, file: &WaypointFile) -> Result<Chain> {
    let tip = ledger_tip(repo, id)?;
    let whole = || verify_ledger(repo, id, tip, trust, At::now(), |_| {});
    // If it does not hold from there on, its first fault is what should be told.
    let waypoint = file.read();
    let known = waypoint.as_ref().map(Waypoint::tip);
    let continued =
        waypoint.and_then(|waypoint| verify_ledger_after(repo, id, tip, trust, At::now(), waypoint).ok());
    let chain = match continued {
        Some(chain) => {
            debug_assert!(
                whole().map_or(true, |whole| whole.agrees_with(&chain)),
                "a waypoint changes nothing"
            );
            chain
        }
        None => whole()?,
    };
    if known != Some(chain.tip.id) {
        file.write(&chain);
    }
    Ok(chain.into_inner())
}

fn ledger_tip(repo: &Repo, id: &LoopId) -> Result<gix::ObjectId> {
    let name = id.refs().ledger();
    repo.read_ref(name.as_ref())?
        .ok_or_else(|| Error::usage(format!("there is no loop `{id}` in this repository")))
}

/// The refusal to run a loop whose check runs elsewhere.
pub(super) fn check_is_elsewhere(id: &LoopId) -> Error {
    Error::workspace(format!("the check of loop `{id}` runs elsewhere; it cannot be run here"))
        .hint(format!("ask for an iteration: {}", commands::announce(id.as_str())))
        .hint(format!("and bring what came of it: git loop record {id} --candidate REV --verdict FILE"))
}

/// The strongest adapter that the contract allows and this machine has.
pub(super) fn choose_adapter(repo: &Repo, contract: &Contract) -> Result<sandbox::Adapter> {
    let adapter = strongest_adapter(repo, contract)?;
    // A weaker one is never taken in its place: whoever allowed it meant machines that have no other.
    match adapter {
        sandbox::Adapter::None => Ok(adapter),
        _ if contract.sandbox.worker_history == HistoryTerms::Open => {
            Err(open_history_is_closed(&contract.loop_id, &adapter.to_string()))
        }
        _ => Ok(adapter),
    }
}

/// The words that `loop.minSandbox` may have. Any but `none` forbids it.
const MIN_SANDBOX: [&str; 6] = ["landlock", "bwrap", "docker", "podman", "sandbox-exec", "none"];

/// Whether an adapter that works here can enforce the networks that the contract asks for. What no other part of a sandbox
/// needs is found out by trying it.
fn can_have(adapter: sandbox::Adapter, contract: &Contract) -> std::result::Result<(), String> {
    let SandboxTerms { worker_network, check_network, image, .. } = &contract.sandbox;
    if adapter.has_image() {
        sandbox::has_image(adapter, image.as_deref())?;
    }
    if let Some(count) = contract.check.cpus {
        sandbox::cpus::can_have(count)?;
    }
    if ![worker_network, check_network].iter().any(|terms| matches!(terms, NetworkTerms::Allow(_))) {
        return Ok(());
    }
    sandbox::probe(adapter, sandbox::Network::Allow).map_err(|error| match error {
        sandbox::SandboxError::AdapterUnavailable { why, .. } => why,
        other => other.to_string(),
    })
}

pub(super) fn strongest_adapter(repo: &Repo, contract: &Contract) -> Result<sandbox::Adapter> {
    let minimum = repo.config().loop_min_sandbox();
    if let Some(word) = minimum.as_deref().filter(|word| !MIN_SANDBOX.contains(word)) {
        return Err(Error::workspace(format!("loop.minSandbox = {word:?} names no sandbox that is built"))
            .hint(format!("use {}", any_of(&MIN_SANDBOX.map(str::to_owned)))));
    }
    let mut why = Vec::new();
    for allowed in &contract.sandbox.allowed {
        let Some(adapter) = allowed.built() else { continue };
        if adapter == sandbox::Adapter::None && minimum.as_deref().is_some_and(|minimum| minimum != "none") {
            why.push(format!("none: loop.minSandbox asks for {}", minimum.as_deref().unwrap_or_default()));
            continue;
        }
        match sandbox::available(adapter).and_then(|()| can_have(adapter, contract)) {
            Ok(()) => return Ok(adapter),
            Err(reason) => why.push(format!("{adapter}: {reason}")),
        }
    }
    Err(Error::new(
        crate::error::Kind::Halt(HaltReason::IsolationUnsatisfiable),
        format!(
            "no sandbox that loop `{}` allows works on this machine: {}",
            contract.loop_id,
            why.join("; ")
        ),
    )
    .hint("run it on a Linux with Landlock, or start a loop with sandbox.allowed = [\"landlock\", \"none\"]"))
}
