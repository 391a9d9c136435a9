//! How much a command's folders hold, looked at while it runs.
//!
//! There is no quota that every machine and file system has, so this is a watch and not a wall: between two looks a command may write more.
//! What it writes into one file has a wall of its own (`RLIMIT_FSIZE`), and what it has in memory another (the size of its `/tmp`).

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The least time between two looks.
const PERIOD: Duration = Duration::from_millis(250);
/// A look may take one part in so many of the time.
const SHARE: u32 = 20;

/// A thread that looks at folders until it is dropped. A command that is over before the first look is due has none.
pub(super) struct DiskWatch {
    begun: Instant,
    over: Arc<AtomicBool>,
    looked: Arc<AtomicBool>,
    most: Option<u64>,
    places: Vec<PathBuf>,
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl DiskWatch {
    /// Looks at `places` again and again until they hold more than `most` bytes together. Without a number nothing is looked at.
    pub(super) fn start(most: Option<u64>, places: &[PathBuf]) -> Self {
        let (over, looked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        Self { begun: Instant::now(), over, looked, most, places: places.to_vec(), running: None }
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
                if holds_more(&places, most) {
                    flag.store(true, Ordering::SeqCst);
                    return;
                }
                pause = PERIOD.max(began.elapsed() * SHARE);
            }
        });
        (quit, thread)
    }

    /// Whether they hold too much now that nobody writes any more. What ended before the first look cannot have written much.
    pub(super) fn ended_over(&mut self) -> bool {
        self.stop();
        let late = || self.most.is_some_and(|most| holds_more(&self.places, most));
        self.over.load(Ordering::SeqCst) || (self.looked.load(Ordering::SeqCst) && late())
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

/// Whether folders hold more than `most` bytes on their disk. A file with several names counts once; what cannot be looked into, or goes
/// away meanwhile, counts nothing.
fn holds_more(places: &[PathBuf], most: u64) -> bool {
    let mut seen = BTreeSet::new();
    let mut total = 0_u64;
    let mut folders: Vec<PathBuf> = places.to_vec();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            // Of the entry itself, not of what a link leads to.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                folders.push(entry.path());
            }
            if meta.nlink() > 1 && !meta.is_dir() && !seen.insert((meta.dev(), meta.ino())) {
                continue;
            }
            total = total.saturating_add(meta.blocks().saturating_mul(512));
        }
        if total > most {
            return true;
        }
    }
    false
}

/// Whether a folder holds more than `most` bytes, for tests.
#[cfg(test)]
fn holds(place: &std::path::Path, most: u64) -> bool {
    holds_more(&[place.to_path_buf()], most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_the_disk_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("file"), vec![1; 200_000]).unwrap();
        assert!(holds(dir.path(), 199_999));
        assert!(!holds(dir.path(), 300_000));
        for name in ["x", "y", "z"] {
            std::fs::hard_link(deep.join("file"), dir.path().join(name)).unwrap();
        }
        assert!(!holds(dir.path(), 300_000), "one file with four names");
        std::os::unix::fs::symlink("/usr", dir.path().join("usr")).unwrap();
        assert!(!holds(dir.path(), 300_000), "a link is not followed");
        let sparse = std::fs::File::create(dir.path().join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        assert!(!holds(dir.path(), 300_000), "a hole takes no place");
    }
}
