//! Watching the ledger while a command runs, so that an operator's stop is noticed at once and not only when the
//! iteration is recorded.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::interrupt::Interrupt;
use crate::git::{LoopId, Repo};
use crate::ledger::load::RecordCommit;
use crate::ledger::record::Kind;
use crate::oid::Oid;

/// How often the ledger is looked at. An operator waits at most this long before the worker is ended.
const PERIOD: Duration = Duration::from_millis(250);

/// The tips that this runner has published or is about to publish. The earlier ones stay: a watcher that was held up may have read the
/// ledger before the last of them was published.
#[derive(Debug, Clone, Default)]
pub(super) struct Expected(Arc<Mutex<HashSet<Oid>>>, Arc<AtomicBool>);

/// While it lives, wherever the ledger goes is expected: this process moves it.
pub(super) struct Pause(Arc<AtomicBool>);

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Expected {
    /// From here on nothing is unexpected, until what this gives is dropped.
    pub fn pause(&self) -> Pause {
        self.1.store(true, Ordering::SeqCst);
        Pause(Arc::clone(&self.1))
    }

    /// From here on the ledger may be at `before` or at `after`.
    pub fn either(&self, before: Oid, after: Oid) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend([before, after]);
    }

    /// From here on the ledger is at `tip`.
    pub fn only(&self, tip: Oid) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(tip);
    }

    fn has(&self, tip: Oid) -> bool {
        self.1.load(Ordering::SeqCst) || self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&tip)
    }
}

/// A thread that sets an interrupt when somebody else moves the ledger. Ends when it is dropped.
pub(super) struct Watcher {
    quit: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Watches the ledger of `id` with a handle of its own.
    pub fn start(repo: &Repo, id: &LoopId, expected: Expected, interrupt: Interrupt) -> Self {
        let (quit, told) = channel::<()>();
        let (repo, name) = (repo.clone(), id.refs().ledger());
        let thread = std::thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = told.recv_timeout(PERIOD) {
                // What cannot be read now is looked at again; the record's compare-and-swap decides in the end.
                if let Ok(Some(tip)) = repo.read_ref(name.as_ref())
                    && !expected.has(Oid(tip))
                    && !adds_findings(&repo, Oid(tip), &expected)
                {
                    interrupt.set();
                }
            }
        });
        Self { quit: Some(quit), thread: Some(thread) }
    }
}

/// How many records are read to see whether they are findings.
const FINDINGS: usize = 100;

/// Whether nothing but findings came after what is expected. They count when the iteration is recorded; until then its worker may
/// go on.
fn adds_findings(repo: &Repo, tip: Oid, expected: &Expected) -> bool {
    let mut current = tip;
    for _ in 0..FINDINGS {
        let Ok(commit) = RecordCommit::read(repo, current.0) else { return false };
        match commit.prev() {
            Some(prev) if commit.is(Kind::Finding) => current = Oid(prev),
            _ => return false,
        }
        if expected.has(current) {
            return true;
        }
    }
    false
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.quit.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there has nothing to undo.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing was wrong, and an iteration was given up: the watcher had read a tip, was held up, and asked about it only after the runner
    /// had published the next.
    #[test]
    fn a_tip_that_was_read_before_the_next_was_published_is_still_ours() {
        let id = |number: u8| format!("{number:040x}").parse::<Oid>().unwrap();
        let expected = Expected::default();
        expected.only(id(1));
        expected.either(id(1), id(2));
        expected.only(id(2));
        expected.either(id(2), id(3));
        expected.only(id(3));
        for ours in 1..=3 {
            assert!(expected.has(id(ours)), "{ours}");
        }
        assert!(!expected.has(id(4)));
    }
}
