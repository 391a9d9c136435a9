//! One loop: what both sides have becomes what both shall have. Nothing here moves before everything that came is verified.

use gix::ObjectId;

use super::exchange::Exchange;
use super::plan::{Plan, Sides};
use super::reappend::{Reappended, reappend};
use super::receipts::{Merged, Sources};
use super::seen::Seen;
use super::told::LoopEnd;
use crate::at::At;
use crate::crash;
use crate::error::{Error, Result, ResultExt};
use crate::gate::known::receipt_line;
use crate::gate::{LedgerFacts, Objects};
use crate::git::{Expect, LoopId, LoopLock, LoopRefKind, PushRef, RefChange, Repo};
use crate::ledger::append::Tip;
use crate::ledger::record::{Body, HaltedBy, Kind};
use crate::ledger::verify::{Chain, Step, record_ids, verify_ledger};
use crate::oid::Oid;

/// Where the three refs of a loop are on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Places {
    pub ledger: Option<ObjectId>,
    pub head: Option<ObjectId>,
    pub notes: Option<ObjectId>,
}

impl Places {
    /// Those of this repository. The notes first: they are never ahead of a ledger that is read after them.
    pub fn here(repo: &Repo, id: &LoopId) -> Result<Self> {
        let refs = id.refs();
        let notes = repo.read_ref(refs.notes().as_ref())?;
        let head = repo.read_ref(refs.head().as_ref())?;
        Ok(Self { ledger: repo.read_ref(refs.ledger().as_ref())?, head, notes })
    }

    pub fn get(&self, kind: LoopRefKind) -> Option<ObjectId> {
        match kind {
            LoopRefKind::Ledger => self.ledger,
            LoopRefKind::Head => self.head,
            LoopRefKind::Notes => self.notes,
        }
    }

    pub fn set(&mut self, kind: LoopRefKind, to: Option<ObjectId>) {
        match kind {
            LoopRefKind::Ledger => self.ledger = to,
            LoopRefKind::Head => self.head = to,
            LoopRefKind::Notes => self.notes = to,
        }
    }
}

/// A ledger that verifies.
struct Examined {
    chain: Chain,
    facts: LedgerFacts,
    lines: Vec<(ObjectId, String)>,
    /// The records from the wanted one on.
    steps: Vec<Step>,
}

/// The right to move a loop's head and notes, and to put its ledger anew.
enum Held {
    Ours { _lock: Option<LoopLock> },
    Running,
}

/// One loop in the middle of it.
pub(super) struct Bringing<'b, 'a> {
    pub exchange: &'b Exchange<'a>,
    pub id: &'b LoopId,
    pub there: Places,
    pub end: &'b mut LoopEnd,
    /// Whether the caller holds the loop's lock.
    pub ours: bool,
}

impl Bringing<'_, '_> {
    /// Brings the loop up to date here, and says what the remote is to get.
    pub fn bring(&mut self) -> Result<Vec<PushRef>> {
        let repo = self.exchange.repo;
        let mut seen = Seen::read(repo, self.id)?;
        let here = Places::here(repo, self.id)?;
        self.end.tip = here.ledger.map(Oid);
        let remote = &self.exchange.remote;
        let known = seen.at(remote);
        // Of many loops nearly all are as they were, and need not be walked through.
        let is_same = here.ledger.is_some()
            && here.ledger == self.there.ledger
            && known.is_none_or(|seen| Some(seen.0) == here.ledger);
        if is_same {
            let at = here.ledger.filter(|_| known.is_none());
            at.map_or(Ok(()), |tip| seen.set(repo, self.id, remote, Oid(tip)))?;
            return self.pushes(here);
        }
        let (mine, theirs) = self.records(here)?;
        let plan = Sides { here: &mine, there: &theirs, seen: known }.plan();
        let moved = match &plan {
            Plan::Refused(fault) => {
                let error = Error::refused(format!("the ledger of `{}`: {fault}", self.id));
                return Err(self.hints(error, known));
            }
            Plan::Same if mine.is_empty() => {
                if self.there.head.is_some() || self.there.notes.is_some() {
                    self.end.warn(format!(
                        "{remote} has refs of `{}` and no ledger of it; they are left alone",
                        self.id
                    ));
                }
                return Ok(Vec::new());
            }
            Plan::Same | Plan::Push => here,
            Plan::FastForward => self.fast_forward(here, mine.len(), theirs.len())?,
            Plan::Reappend { common } => self.reappend(here, *common, theirs.len())?,
        };
        if let Some(tip) = self.there.ledger {
            crash::point("sync:moved");
            seen.set(repo, self.id, remote, Oid(tip))?;
        }
        self.end.tip = moved.ledger.map(Oid);
        self.pushes(moved)
    }

    /// The ids of the records of both sides.
    fn records(&self, here: Places) -> Result<(Vec<Oid>, Vec<Oid>)> {
        let repo = self.exchange.repo;
        let list = |tip: Option<ObjectId>, whose: &str| -> Result<Vec<Oid>> {
            let Some(tip) = tip else { return Ok(Vec::new()) };
            let ids = record_ids(repo, tip).map_err(|why| {
                Error::invariant(format!("the ledger of `{}` {whose} cannot be read: {why}", self.id))
            })?;
            Ok(ids.into_iter().map(Oid).collect())
        };
        let mine = list(here.ledger, "here")?;
        let theirs = if here.ledger == self.there.ledger {
            mine.clone()
        } else {
            list(self.there.ledger, &format!("on {}", self.exchange.remote))?
        };
        Ok((mine, theirs))
    }

    fn hints(&self, error: Error, seen: Option<Oid>) -> Error {
        let (id, remote) = (self.id, &self.exchange.remote);
        let name = self.exchange.names.name(id, LoopRefKind::Ledger);
        let error = error
            .hint(format!("nothing was moved, here or there; ask who may write to {remote} what happened"));
        match seen.filter(|seen| self.exchange.repo.has_object(seen.0)) {
            Some(seen) => error.hint(format!("if it should be as it was: git push {remote} +{seen}:{name}")),
            None => error,
        }
    }

    /// Verifies a ledger from its first record on; keeps the records from number `from` on.
    fn examine(&self, tip: ObjectId, from: usize) -> Result<Examined> {
        let Exchange { repo, trust, .. } = self.exchange;
        let (mut facts, mut lines, mut steps) = (LedgerFacts::default(), Vec::new(), Vec::new());
        let mut unread = None;
        let chain = verify_ledger(repo, self.id, tip, trust, At::now(), |step| {
            if let Body::Iteration(body) = &step.record.body
                && let Some(candidate) = body.receipt.candidate
            {
                match receipt_line(repo, step.id.0) {
                    Some(line) => {
                        facts.candidates.entry(candidate.0).or_default().push(line.clone());
                        lines.push((candidate.0, line));
                    }
                    None => unread = Some(step.id),
                }
            }
            if step.record.seq >= from as u64 {
                steps.push(Step::clone(step));
            }
        })?;
        if let Some(record) = unread {
            return Err(Error::invariant(format!("the receipt of record {record} cannot be read")));
        }
        facts.base = Some(chain.contract.base.commit.0);
        Ok(Examined { chain: chain.into_inner(), facts, lines, steps })
    }

    /// Verifies what came.
    fn examine_theirs(&self, tip: ObjectId, from: usize) -> Result<Examined> {
        self.examine(tip, from).map_err(|error| {
            let what = format!(
                "the ledger of `{}` on {} does not verify; nothing was moved",
                self.id, self.exchange.remote
            );
            error.while_doing(what)
        })
    }

    fn lock(&self) -> Result<Held> {
        if self.ours {
            return Ok(Held::Ours { _lock: None });
        }
        let lock = LoopLock::borrow(self.exchange.repo.common_dir(), self.id)?;
        Ok(lock.map_or(Held::Running, |lock| Held::Ours { _lock: Some(lock) }))
    }

    fn is_run_here(&mut self) -> Error {
        self.end.is_run = true;
        let holder = LoopLock::holder(self.exchange.repo.common_dir(), self.id).ok().flatten();
        let holder = holder.map_or_else(|| "another process".to_owned(), |holder| holder.to_string());
        Error::workspace(format!(
            "loop `{}` is being run by {holder}, and {} has records that must come before its own",
            self.id, self.exchange.remote
        ))
        .hint("synchronise it again when the run has ended")
    }

    /// The remote goes on from here, or nothing is here.
    fn fast_forward(&mut self, here: Places, mine: usize, theirs: usize) -> Result<Places> {
        let Some(tip) = self.there.ledger else { return Ok(here) };
        let examined = self.examine_theirs(tip, mine)?;
        let held = self.lock()?;
        // What a runner takes in its stride.
        let harmless = |step: &Step| match &step.record.body {
            Body::Finding(_) => true,
            Body::Halt(body) => body.by == HaltedBy::Operator,
            _ => false,
        };
        if let Held::Running = held
            && !examined.steps.iter().all(harmless)
        {
            return Err(self.is_run_here());
        }
        let moved = self.adopt(&held, here, tip, &examined, None)?;
        self.end.fetched += (theirs - mine) as u64;
        Ok(moved)
    }

    /// Both went on: what is here comes after what is there.
    fn reappend(&mut self, here: Places, common: usize, theirs: usize) -> Result<Places> {
        let (Some(old), Some(tip)) = (here.ledger, self.there.ledger) else { return Ok(here) };
        let repo = self.exchange.repo;
        let held = self.lock()?;
        if let Held::Running = held {
            return Err(self.is_run_here());
        }
        let before = self.examine(old, common).map_err(|error| {
            error.while_doing(format!("the ledger of `{}` here does not verify", self.id))
        })?;
        let came = self.examine_theirs(tip, theirs)?;
        let signer = (self.exchange.signer)().map_err(|error| {
            error.while_doing(format!(
                "the records of `{}` that only this clone has must be signed anew",
                self.id
            ))
        })?;
        let Reappended { tip: new, carried, aside } =
            reappend(repo, signer, Tip::from(came.chain), &before.steps)?;
        // Whatever was put together is held to the same rules as what comes from elsewhere.
        let examined = self.examine(new.id.0, theirs)?;
        // A lease that somebody else was faster to take is worth nothing to anybody.
        let aside: Vec<_> = aside.into_iter().filter(|aside| aside.kind != Kind::Lease).collect();
        if !aside.is_empty() {
            let name = self.id.refs().aside(old);
            self.put(&name, old, "loop: kept aside")?;
            crash::point("sync:aside");
            self.end.aside_refs.push(name.to_string());
        }
        let moved = self.adopt(&held, here, new.id.0, &examined, Some(&before.facts))?;
        self.end.fetched += (theirs - common) as u64;
        self.end.carried.extend(carried);
        self.end.aside.extend(aside);
        Ok(moved)
    }

    /// Moves the ledger to `tip`, and head and notes to what it says.
    fn adopt(
        &mut self,
        held: &Held,
        here: Places,
        tip: ObjectId,
        examined: &Examined,
        before: Option<&LedgerFacts>,
    ) -> Result<Places> {
        let repo = self.exchange.repo;
        let refs = self.id.refs();
        let at = At::now().max(examined.chain.tip.record.at);
        let mut moved = Places { ledger: Some(tip), ..here };
        if let Held::Ours { .. } = held {
            let state = &examined.chain.tip.state;
            // The candidate of an iteration that a dead runner left open is found by its head.
            let is_open = state.checkpoint.is_some() && here.ledger.is_some();
            if !is_open {
                moved.head = Some(state.last_green_commit.0);
            }
            if repo.check_no_notes_merge(refs.notes().as_ref()).is_err() {
                self.end.warn(format!(
                    "a merge of {} by hand is not finished; receipts are not shared",
                    refs.notes()
                ));
            } else {
                moved.notes = match self.merged(here.notes, examined, before, at)? {
                    Merged::Into(to) => to,
                    Merged::Kept(_) | Merged::Foreign(_) => here.notes,
                };
            }
        }
        let change = |kind: LoopRefKind| RefChange {
            name: refs.name(kind),
            expect: Expect::just(here.get(kind)),
            to: moved.get(kind),
            message: "loop: sync".to_owned(),
        };
        let changes: Vec<RefChange> = LoopRefKind::ALL
            .into_iter()
            .filter(|kind| moved.get(*kind) != here.get(*kind))
            .map(change)
            .collect();
        repo.remember_others(&changes.iter().filter_map(|change| change.to).collect::<Vec<_>>());
        crash::point("sync:before");
        repo.move_refs(&changes, at).map_err(|error| {
            Error::from(error).while_doing(format!("loop `{}` could not be brought up to date", self.id))
        })?;
        Ok(moved)
    }

    /// Where the notes here are to be. What keeps them from being merged is told.
    fn merged(
        &mut self,
        here: Option<ObjectId>,
        examined: &Examined,
        before: Option<&LedgerFacts>,
        at: At,
    ) -> Result<Merged> {
        let repo = self.exchange.repo;
        let objects = Objects::new(repo.gix(), None)
            .map_err(|cause| Error::workspace("the object store cannot be opened").caused_by(cause))?;
        let sources = Sources { now: &examined.facts, lines: &examined.lines, before };
        let merged = sources.merge(repo, &objects, here, self.there.notes, at)?;
        match &merged {
            Merged::Into(_) => {}
            Merged::Kept(why) => {
                let name = self.id.refs().notes();
                self.end.warn(format!(
                    "{name} holds what is no receipt of the loop ({why}); it stays here and is not shared"
                ));
            }
            Merged::Foreign(why) => self.end.warn(format!(
                "the receipts of `{}` on {} are not those of its ledger ({why}); they are left alone",
                self.id, self.exchange.remote
            )),
        }
        Ok(merged)
    }

    /// What the remote is to get, now that this is what is here.
    fn pushes(&mut self, here: Places) -> Result<Vec<PushRef>> {
        let Some(tip) = here.ledger else { return Ok(Vec::new()) };
        let ledger_moves = self.there.ledger != Some(tip);
        if !ledger_moves && self.there.notes == here.notes && self.there.head == here.head {
            return Ok(Vec::new());
        }
        let examined = self.examine(tip, usize::MAX).map_err(|error| {
            error.while_doing(format!("the ledger of `{}` here does not verify; it is not pushed", self.id))
        })?;
        let mut to = Places {
            ledger: Some(tip),
            head: Some(examined.chain.tip.state.last_green_commit.0),
            notes: None,
        };
        let held = self.lock()?;
        if let Held::Ours { .. } = held
            && self.exchange.repo.check_no_notes_merge(self.id.refs().notes().as_ref()).is_ok()
        {
            let at = At::now().max(examined.chain.tip.record.at);
            if let Merged::Into(merged) = self.merged(here.notes, &examined, None, at)? {
                to.notes = merged;
                if let Some(merged) = merged.filter(|merged| Some(*merged) != here.notes) {
                    let name = self.id.refs().notes();
                    let change = RefChange {
                        name: name.clone(),
                        expect: Expect::just(here.notes),
                        to: Some(merged),
                        message: "loop: sync".to_owned(),
                    };
                    self.exchange.repo.move_refs(&[change], at).map_err(Error::from)?;
                }
            }
        }
        drop(held);
        let mut pushes = Vec::new();
        for kind in LoopRefKind::ALL {
            let (Some(new), old) = (to.get(kind), self.there.get(kind)) else { continue };
            if Some(new) == old {
                continue;
            }
            // Nothing is ever forced: a head that somebody put elsewhere stays there.
            if let Some(old) = old
                && !self
                    .exchange
                    .repo
                    .is_ancestor(old, new)
                    .or_workspace(|| format!("{old} cannot be read"))?
            {
                let name = self.exchange.names.name(self.id, kind);
                self.end.warn(format!(
                    "{name} on {} is not before what is here; it is left alone",
                    self.exchange.remote
                ));
                continue;
            }
            pushes.push(PushRef {
                name: self.exchange.names.name(self.id, kind),
                to: Some(new),
                expect: old,
            });
        }
        Ok(pushes)
    }

    /// Sets a ref of ours that is no loop's.
    fn put(&self, name: &gix::refs::FullName, to: ObjectId, message: &str) -> Result<()> {
        let repo = self.exchange.repo;
        let found = repo.read_ref(name.as_ref())?;
        if found == Some(to) {
            return Ok(());
        }
        let change = RefChange {
            name: name.clone(),
            expect: Expect::just(found),
            to: Some(to),
            message: message.to_owned(),
        };
        Ok(repo.move_refs(&[change], At::now())?)
    }
}

/// Remembers for people where the refs of a loop are on a remote. One that is in the way of it (a branch of the remote that
/// is called `loops`, say) is told and nothing else.
pub(super) fn track(repo: &Repo, id: &LoopId, remote: &str, there: Places) -> Result<(), Error> {
    let mut changes = Vec::new();
    for kind in LoopRefKind::ALL {
        let Some(name) = id.refs().tracked(remote, kind) else { continue };
        let found = repo.read_ref(name.as_ref())?;
        if let Some(to) = there.get(kind)
            && found != Some(to)
            && repo.has_object(to)
        {
            changes.push(RefChange {
                name,
                expect: Expect::just(found),
                to: Some(to),
                message: "loop: sync".to_owned(),
            });
        }
    }
    if changes.is_empty() {
        return Ok(());
    }
    Ok(repo.move_refs(&changes, At::now())?)
}
