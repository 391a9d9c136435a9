//! Removing what a command used while the iteration goes on: nothing waits for it but the end of the iteration.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::places::Scratch;
use crate::error::{Error, Result};
use crate::worktree::{LinkedWorktree, WorktreeError};

/// A thread that removes worktrees and scratch folders in the order in which it gets them.
pub(super) struct Cleaner {
    jobs: Option<Sender<(LinkedWorktree, Option<Scratch>)>>,
    done: Receiver<std::result::Result<(), WorktreeError>>,
    thread: Option<JoinHandle<()>>,
    /// How many were given and not yet seen to be removed.
    open: std::cell::Cell<usize>,
}

impl Cleaner {
    pub fn start() -> Self {
        let (jobs, given) = channel::<(LinkedWorktree, Option<Scratch>)>();
        let (say, done) = channel();
        let thread = std::thread::spawn(move || {
            for (linked, scratch) in given {
                let removed = linked.remove();
                drop(scratch);
                // Whoever does not wait any more does not want to know.
                let _ = say.send(removed);
            }
        });
        Self { jobs: Some(jobs), done, thread: Some(thread), open: std::cell::Cell::new(0) }
    }

    /// Removes both soon.
    pub fn remove(&self, linked: LinkedWorktree, scratch: Option<Scratch>) {
        // What cannot be sent comes back in the error, and is removed as that is dropped.
        if self.jobs.as_ref().is_some_and(|jobs| jobs.send((linked, scratch)).is_ok()) {
            self.open.set(self.open.get() + 1);
        }
    }

    /// Waits until everything is removed, and gives the first failure.
    pub fn wait(&self) -> Result<()> {
        let mut result = Ok(());
        for _ in 0..self.open.replace(0) {
            let removed = match self.done.recv() {
                Ok(removed) => removed.map_err(Error::from),
                Err(_) => Err(Error::internal("the thread that removes worktrees has ended")),
            };
            result = result.and(removed);
        }
        result
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there leaves what `reclaim` finds later.
            let _ = thread.join();
        }
    }
}
