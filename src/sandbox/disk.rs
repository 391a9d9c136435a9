//! How much a command's folders hold, looked at while it runs.
//!
//! There is no quota that every machine and file system has, so this is a watch and not a wall: between two looks a command may write more.
//! Whoever ended before the first look is looked at if the file system has less room than before, as far as one system call before and one
//! after can tell: to look at every file would take longer than a short check.
//! What it writes into one file has a wall of its own (`RLIMIT_FSIZE`), and what it has in memory another (the size of its `/tmp`).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::worktree::{free_bytes, holds_more};

/// The least time between two looks.
const PERIOD: Duration = Duration::from_millis(250);
/// A look may take one part in so many of the time.
const SHARE: u32 = 20;
/// A command after which the file system has so many bytes less than before is looked at, however short it was.
const GROWN: u64 = 1 << 20;

/// A thread that looks at folders until it is dropped. A command that is over before the first look is due has none.
pub(super) struct DiskWatch {
    begun: Instant,
    over: Arc<AtomicBool>,
    looked: Arc<AtomicBool>,
    most: Option<u64>,
    places: Vec<PathBuf>,
    /// The free bytes of each place when the command began.
    free: Vec<Option<u64>>,
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl DiskWatch {
    /// Looks at `places` again and again until they hold more than `most` bytes together. Without a number nothing is looked at.
    pub(super) fn start(most: Option<u64>, places: &[PathBuf]) -> Self {
        let look_at = if most.is_some() { places } else { &[] };
        let free = look_at.iter().map(|place| free_bytes(place)).collect();
        let (over, looked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        Self { begun: Instant::now(), over, looked, most, places: places.to_vec(), free, running: None }
    }

    /// Whether they held too much, as far as is known. To be asked again and again: this is what begins the looking.
    pub(super) fn is_over(&mut self) -> bool {
        if let (Some(most), None) = (self.most, &self.running)
            && self.begun.elapsed() >= PERIOD
        {
            self.running = Some(self.look_on(most));
        }
        self.over.load(Ordering::SeqCst)
    }

    fn look_on(&self, most: u64) -> (Sender<()>, JoinHandle<()>) {
        let (quit, told) = channel::<()>();
        let (places, flag, looked) = (self.places.clone(), Arc::clone(&self.over), Arc::clone(&self.looked));
        let thread = std::thread::spawn(move || {
            let mut pause = Duration::ZERO;
            while let Err(RecvTimeoutError::Timeout) = told.recv_timeout(pause) {
                let began = Instant::now();
                looked.store(true, Ordering::SeqCst);
                if holds_more(&places, most, false) {
                    flag.store(true, Ordering::SeqCst);
                    return;
                }
                pause = PERIOD.max(began.elapsed() * SHARE);
            }
        });
        (quit, thread)
    }

    /// Whether they hold too much now that nobody writes any more.
    pub(super) fn ended_over(&mut self) -> bool {
        self.stop();
        let late = || self.most.is_some_and(|most| holds_more(&self.places, most, true));
        self.over.load(Ordering::SeqCst)
            || ((self.looked.load(Ordering::SeqCst) || self.has_grown()) && late())
    }

    /// Whether a file system has clearly less room than when the command began. Somebody else may have taken it, and one look too many does
    /// no harm.
    fn has_grown(&self) -> bool {
        self.places.iter().zip(&self.free).any(|(place, before)| match (before, free_bytes(place)) {
            (Some(before), Some(now)) => before.saturating_sub(now) >= GROWN,
            _ => true,
        })
    }

    fn stop(&mut self) {
        if let Some((quit, thread)) = self.running.take() {
            drop(quit);
            // A panic in there has nothing to undo.
            let _ = thread.join();
        }
    }
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        self.stop();
    }
}
