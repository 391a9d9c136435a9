//! Worktrees that are made while the worker thinks: the one of this iteration's check, on the tree that the check of green would have,
//! and the one of the next worker, on green. When they are wanted they are moved to the right tree by what differs.
//!
//! It is only a faster way: whatever fails here, or is not as it was made, is thrown away and the worktree is made when it is wanted. Nothing is
//! made ahead where a command could see it: only where every command has a root of its own with nothing on it but what it was granted.
//! A prepared worktree has its owner file like any other, so what a killed runner leaves of it is reclaimed the same way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use gix::bstr::BString;

use super::fresh::{Filled, For, Supplies};
use super::iteration::{Draft, random_id};
use super::session::Session;
use crate::contract::Guards;
use crate::crash;
use crate::error::{Error, Result, ResultExt};
use crate::ledger::rederive::check_tree_in;
use crate::oid::Oid;
use crate::sandbox;
use crate::worktree::{self, LinkedWorktree, Manifest};

/// A worktree that has everything but, perhaps, the right tree.
struct Prepared {
    linked: LinkedWorktree,
    filled: Filled,
    /// The commit that git shows in it.
    head: Oid,
    /// What was left out of the layers.
    left_out: Vec<BString>,
}

/// What is made ahead, and by whom.
#[derive(Default)]
pub(super) struct Ahead {
    /// Whether an iteration may follow the one that is under way.
    pub goes_on: bool,
    work: Option<Work>,
}

struct Work {
    check: Option<Receiver<Prepared>>,
    worker: Option<Receiver<Prepared>>,
    /// The id of the environment that the worker's is made for, until an iteration has it.
    environment: Option<String>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// The id of the environment that the next worker's worktree is made for. No other iteration gets it.
    pub fn take_environment(&mut self) -> Option<String> {
        self.work.as_mut()?.environment.take()
    }

    /// Nothing of it is wanted any more; what is being made is given up soon.
    pub fn give_up(&self) {
        if let Some(work) = &self.work {
            work.stop.store(true, Ordering::SeqCst);
        }
    }
}

impl Work {
    /// What nobody has taken.
    fn left(mut self) -> Vec<LinkedWorktree> {
        self.end();
        let left = [self.check.take(), self.worker.take()];
        left.into_iter().flatten().filter_map(|one| one.try_recv().ok()).map(|one| one.linked).collect()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A panic in there leaves what `reclaim` finds later.
            let _ = thread.join();
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What is made already goes with the receivers, once nobody adds to them.
        self.end();
    }
}

/// What the thread goes by.
struct Plan {
    worktrees: std::path::PathBuf,
    supplies: Supplies,
    stop: Arc<AtomicBool>,
    /// The least that must be free on the disk, in bytes.
    least_free: u64,
    /// What a checkout takes, about, in bytes.
    size: u64,
}

impl Plan {
    /// Makes the worktree `name` with `tree`, which `repo` has, if it can be had.
    fn prepare(
        &self,
        repo: &gix::Repository,
        (name, remark): (&str, &str),
        head: Oid,
        tree: Oid,
        whose: For,
    ) -> Result<Prepared> {
        let stop = Some(&*self.stop);
        self.has_room(self.size)?;
        let linked = self.supplies.register(repo, &self.worktrees, name, head, remark)?;
        crash::point("worktree:ahead");
        let filled = self.supplies.fill(repo, &linked, tree, whose, stop)?;
        if whose == For::Worker {
            self.supplies.open_history(repo, &linked, head, &filled.manifest)?;
        }
        let left_out = self.supplies.give_layers(linked.path(), &filled, stop)?;
        self.has_room(0)?;
        Ok(Prepared { linked, filled, head, left_out })
    }

    /// Makes the worktree of a check of `green`: what a candidate changes is put there later.
    fn prepare_check(
        &self,
        repo: &gix::Repository,
        guards: &Guards,
        names: (&str, &str),
        head: Oid,
        green: Oid,
    ) -> Result<Prepared> {
        let trees = crate::guard::tree::in_memory(repo);
        let tree = check_tree_in(&trees, guards, green)
            .or_internal(|| "the tree of the check cannot be made".to_owned())?;
        self.prepare(&trees, names, head, tree, For::Check)
    }

    fn has_room(&self, wanted: u64) -> Result<()> {
        match worktree::free_bytes(&self.worktrees) {
            Some(free) if free < self.least_free.saturating_add(wanted) => {
                Err(Error::workspace("there is no room to prepare a worktree"))
            }
            _ => Ok(()),
        }
    }
}

impl Session<'_> {
    /// Begins to make the worktrees of this iteration's check and of the next worker, while the worker runs. `tree` is green's,
    /// `manifest` what the worker got.
    pub(super) fn prepare_ahead(&self, draft: &Draft, tree: Oid, manifest: &Manifest) -> Result<()> {
        let mut ahead = self.ahead.borrow_mut();
        for linked in ahead.work.take().into_iter().flat_map(Work::left) {
            self.cleaner.remove(linked, None);
        }
        if !sandbox::has_private_root(self.adapter) {
            return Ok(());
        }
        let supplies = self.supplies()?;
        // Where the check's tree is an overlay there is nothing to gain.
        let check = !supplies.overlays(For::Check);
        if !check && !ahead.goes_on {
            return Ok(());
        }
        let (give_check, checks) = channel();
        let (give_worker, workers) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let name = |environment: &str| worktree::worktree_name(self.id.as_str(), environment);
        let environment = ahead.goes_on.then(random_id);
        let check = check.then(|| name(&format!("{}-check", draft.environment_id)));
        let worker = environment.as_deref().map(name);
        let plan = Plan {
            worktrees: self.places.worktrees.clone(),
            supplies,
            stop: Arc::clone(&stop),
            least_free: self.repo.config().loop_min_free_space()?,
            size: manifest.bytes(),
        };
        let (repo, guards, head) = (self.repo.gix().clone(), self.guards.clone(), draft.base);
        let remarks = (
            format!("git-loop {} check", self.id),
            format!("git-loop {} iteration {}", self.id, draft.iteration + 1),
        );
        let thread = std::thread::spawn(move || {
            // Whoever waits for one is told of a failure by a sender that is gone.
            if let Some(name) = check
                && let Ok(prepared) = plan.prepare_check(&repo, &guards, (&name, &remarks.0), head, tree)
            {
                let _ = give_check.send(prepared);
            }
            drop(give_check);
            if let Some(name) = worker
                && let Ok(prepared) = plan.prepare(&repo, (&name, &remarks.1), head, tree, For::Worker)
            {
                let _ = give_worker.send(prepared);
            }
        });
        ahead.work = Some(Work {
            check: Some(checks),
            worker: environment.is_some().then_some(workers),
            environment,
            stop,
            thread: Some(thread),
        });
        Ok(())
    }

    /// The worktree `name` of a check, with `tree` and all layers, if one was made ahead.
    pub(super) fn take_checks(
        &self,
        name: &str,
        tree: Oid,
        trees: &gix::Repository,
    ) -> Result<Option<(LinkedWorktree, Filled)>> {
        let checks = self.ahead.borrow_mut().work.as_mut().and_then(|work| work.check.take());
        let Some(prepared) = checks.and_then(|checks| checks.recv().ok()) else { return Ok(None) };
        if prepared.linked.name() != name {
            return Ok(None);
        }
        self.settle(prepared, tree, trees, For::Check)
    }

    /// The worktree `name` of a worker, with the tree `tree` of green, its history and all layers, if one was made ahead.
    pub(super) fn take_workers(
        &self,
        name: &str,
        green: Oid,
        tree: Oid,
    ) -> Result<Option<(LinkedWorktree, Filled)>> {
        let workers = self.ahead.borrow_mut().work.as_mut().and_then(|work| work.worker.take());
        let Some(prepared) = workers.and_then(|workers| workers.recv().ok()) else { return Ok(None) };
        if prepared.linked.name() != name {
            return Ok(None);
        }
        let repo = self.repo.gix();
        let was = prepared.head;
        if was != green && prepared.filled.overlay().is_some() {
            // Another upper folder is made as fast as this one is mended.
            prepared.linked.remove()?;
            return Ok(None);
        }
        let Some((linked, filled)) = self.settle(prepared, tree, repo, For::Worker)? else { return Ok(None) };
        if was != green {
            linked.move_to(green.0)?;
            self.supplies()?.open_history(repo, &linked, green, &filled.manifest)?;
        }
        Ok(Some((linked, filled)))
    }

    /// Moves a prepared worktree to the right tree. `None`, and it is gone, if it is not as it was made or cannot be moved.
    fn settle(
        &self,
        prepared: Prepared,
        tree: Oid,
        trees: &gix::Repository,
        whose: For,
    ) -> Result<Option<(LinkedWorktree, Filled)>> {
        let Prepared { linked, filled, left_out, .. } = prepared;
        let supplies = self.supplies()?;
        let settled = || -> Result<Option<Filled>> {
            if filled.overlay().is_some() {
                return Ok(Some(filled));
            }
            let given = supplies.given()?;
            if !worktree::is_as_made(&filled.manifest, linked.path(), &given)? {
                return Ok(None);
            }
            if filled.manifest.tree() == tree.0 {
                return Ok(Some(filled));
            }
            if !left_out.is_empty() {
                return Ok(None); // This tree may have room for it.
            }
            let verify = whose == For::Check;
            let moved = worktree::advance(trees, &filled.manifest, tree.0, linked.path(), verify)?;
            let same = supplies.are_given(linked.path(), &moved)?;
            Ok(same.then(|| Filled::whole(moved)))
        };
        match settled() {
            Ok(Some(filled)) => {
                crash::point("worktree:taken");
                self.tell_left_out(&left_out);
                Ok(Some((linked, filled)))
            }
            // What is wrong with the tree itself is met again, and told, where it is checked out.
            Ok(None) | Err(_) => {
                linked.remove()?;
                Ok(None)
            }
        }
    }
}
