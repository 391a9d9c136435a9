//! Locks of this machine: one for each loop, one for the registration of worktrees.
//!
//! They are advisory locks of the operating system (`flock`) on files in the common git folder. The system releases
//! them when the process ends, however it ends, so that none is ever stale. The files stay: removing one while
//! somebody else waits for it would give two processes the same lock.
//!
//! ```text
//! <common git folder>/loops/<id>/run.lock       LoopLock
//! <common git folder>/loops/.worktrees.lock     WorktreesLock
//! <common git folder>/loops/.refs/              see reflock
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::names::LoopId;
use crate::host::host_name;

/// Our folder in the common git folder. Loop ids start with a letter or a digit, so names with a dot are free.
pub(super) const LOOPS_DIR: &str = "loops";

/// How long a lock may outlive its process, as copies of the open file do.
const AFTERGLOW: Duration = Duration::from_secs(5);

/// Who runs, as far as the lock file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: Option<u32>,
    /// Its machine.
    pub host: String,
    /// Since when.
    pub since: Option<Timestamp>,
}

impl Holder {
    /// Whether it is a process of this machine that is not there any more.
    fn has_ended(&self) -> bool {
        self.host == host_name() && self.pid.is_some_and(crate::worktree::has_ended)
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}")?,
            None => f.write_str("another process")?,
        }
        if !self.host.is_empty() {
            write!(f, " on {}", self.host)?;
        }
        match self.since {
            Some(since) => write!(f, " since {since}"),
            None => Ok(()),
        }
    }
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else has it.
    #[error("loop '{id}' is being run by {holder}")]
    Held {
        /// The loop.
        id: LoopId,
        /// Who has it.
        holder: Holder,
    },
    /// The lock for the registration of worktrees was not free in time.
    #[error("{} is held by another process for more than {} s", path.display(), waited.as_secs())]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// The lock file cannot be used.
    #[error("cannot lock {}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl From<LockError> for crate::error::Error {
    fn from(error: LockError) -> Self {
        let message = error.to_string();
        match error {
            LockError::Held { id, .. } => Self::workspace(message)
                .hint("wait until it ends, or stop it from another terminal")
                .hint(format!("look at it: git loop status {id}")),
            LockError::Busy { .. } => {
                Self::workspace(message).hint("run it again when the other process is done")
            }
            LockError::Io { path, source } => Self::workspace(message)
                .caused_by(source)
                .hint(format!("check who may write {}, and the free space", path.display())),
        }
    }
}

/// The right to run one loop on this machine. Dropping it gives it back.
#[derive(Debug)]
pub struct LoopLock {
    // The lock is the open file.
    _file: File,
    path: PathBuf,
}

impl LoopLock {
    /// Takes the lock of a loop, or says who has it. Does not wait.
    pub fn acquire(common_dir: &Path, id: &LoopId, now: Timestamp) -> Result<Self, LockError> {
        let path = common_dir.join(LOOPS_DIR).join(id.as_str()).join("run.lock");
        let io_error = |source| LockError::Io { path: path.clone(), source };
        let mut file = open(&path).map_err(io_error)?;
        let begin = Instant::now();
        while !try_lock(&file).map_err(io_error)? {
            let holder = read_holder(&mut file);
            // What a killed runner had just forked has the open file for a moment longer, until it has closed it.
            if !holder.has_ended() || begin.elapsed() >= AFTERGLOW {
                return Err(LockError::Held { id: id.clone(), holder });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        // For people and error messages; nothing decides by it.
        let text = format!("{} {} {now}\n", std::process::id(), host_name());
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(text.as_bytes()))
            .map_err(io_error)?;
        Ok(Self { _file: file, path })
    }

    /// Takes the lock of a loop to tidy up, for a moment and without a word in the file: a runner that comes meanwhile finds who was
    /// there last, sees that they have ended, and waits. `None` if somebody has it.
    pub fn borrow(common_dir: &Path, id: &LoopId) -> Result<Option<Self>, LockError> {
        let path = common_dir.join(LOOPS_DIR).join(id.as_str()).join("run.lock");
        let io_error = |source| LockError::Io { path: path.clone(), source };
        let file = open(&path).map_err(io_error)?;
        Ok(try_lock(&file).map_err(io_error)?.then_some(Self { _file: file, path }))
    }

    /// Who has the lock of a loop now; none if nobody runs it.
    pub fn holder(common_dir: &Path, id: &LoopId) -> Result<Option<Holder>, LockError> {
        let path = common_dir.join(LOOPS_DIR).join(id.as_str()).join("run.lock");
        let mut file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(LockError::Io { path, source }),
        };
        let free = try_lock(&file).map_err(|source| LockError::Io { path, source })?;
        Ok((!free).then(|| read_holder(&mut file)))
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The right to register and remove worktrees of a repository, for the short time that takes: concurrent
/// `git worktree add` race on `config.lock`.
#[derive(Debug)]
pub struct WorktreesLock {
    _file: File,
}

impl WorktreesLock {
    /// Takes the lock, waiting at most `patience` for others.
    pub fn acquire(common_dir: &Path, patience: Duration) -> Result<Self, LockError> {
        let path = common_dir.join(LOOPS_DIR).join(".worktrees.lock");
        let io_error = |source| LockError::Io { path: path.clone(), source };
        let file = open(&path).map_err(io_error)?;
        let begin = Instant::now();
        let mut pause = Duration::from_millis(1);
        while !try_lock(&file).map_err(io_error)? {
            if begin.elapsed() >= patience {
                return Err(LockError::Busy { path, waited: patience });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        Ok(Self { _file: file })
    }
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

fn read_holder(file: &mut File) -> Holder {
    let mut text = String::new();
    // The holder may be about to write it; then it is unknown.
    let _ = file.rewind().and_then(|()| file.take(1024).read_to_string(&mut text));
    parse_holder(&text)
}

fn parse_holder(text: &str) -> Holder {
    let mut words = text.split_whitespace();
    Holder {
        pid: words.next().and_then(|pid| pid.parse().ok()),
        host: words.next().unwrap_or_default().to_owned(),
        since: words.next().and_then(|since| since.parse().ok()),
    }
}

/// Takes an exclusive lock on an open file. False if another open file has it.
#[cfg(unix)]
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    use std::os::fd::AsRawFd;
    loop {
        // SAFETY: the descriptor is open for as long as `file` is borrowed.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock => return Ok(false),
            io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
}

/// Takes an exclusive lock on an open file. False if another open file has it.
#[cfg(not(unix))]
pub(super) fn try_lock(_file: &File) -> io::Result<bool> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "locks are supported on Linux and macOS only"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id() -> LoopId {
        LoopId::new("fix").unwrap()
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_700_000_000).unwrap()
    }

    #[test]
    fn one_at_a_time_and_the_other_learns_who() {
        let dir = tempfile::tempdir().unwrap();
        let lock = LoopLock::acquire(dir.path(), &id(), now()).unwrap();
        assert_eq!(lock.path(), dir.path().join("loops/fix/run.lock"));
        let error = LoopLock::acquire(dir.path(), &id(), now()).unwrap_err();
        let LockError::Held { holder, .. } = &error else { panic!("{error}") };
        assert_eq!((holder.pid, holder.since), (Some(std::process::id()), Some(now())));
        assert!(error.to_string().ends_with("since 2023-11-14T22:13:20Z"), "{error}");
        assert!(LoopLock::acquire(dir.path(), &LoopId::new("other").unwrap(), now()).is_ok());
        assert_eq!(LoopLock::holder(dir.path(), &id()).unwrap().as_ref(), Some(holder));
        drop(lock);
        // A process that another test is starting has the lock's file as well until it runs its program.
        let begin = Instant::now();
        while LoopLock::holder(dir.path(), &id()).unwrap().is_some() {
            assert!(begin.elapsed().as_secs() < 60, "the lock is still held");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(LoopLock::holder(dir.path(), &LoopId::new("never").unwrap()).unwrap(), None);
        LoopLock::acquire(dir.path(), &id(), now()).unwrap();
    }

    #[test]
    fn the_lock_ends_with_its_process() {
        // Without util-linux there is nothing to hold the lock with.
        if std::process::Command::new("flock").arg("--version").output().is_err() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("loops/fix/run.lock");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut command = std::process::Command::new("flock");
        // `flock` has a child of its own that inherits the file; it ends when its input does.
        let child = command.arg(&path).args(["sh", "-c", "echo locked; cat"]);
        let child = child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = child.spawn().unwrap();
        let mut said = [0; 7];
        child.stdout.take().unwrap().read_exact(&mut said).unwrap();
        let held = LoopLock::acquire(dir.path(), &id(), now()).unwrap_err();
        assert!(matches!(&held, LockError::Held { holder: Holder { pid: None, .. }, .. }), "{held}");
        child.kill().unwrap();
        child.wait().unwrap();
        let begin = Instant::now();
        let mut lock = LoopLock::acquire(dir.path(), &id(), now());
        while lock.is_err() && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
            lock = LoopLock::acquire(dir.path(), &id(), now());
        }
        lock.unwrap();
    }

    #[test]
    fn registration_waits_and_gives_up() {
        let dir = tempfile::tempdir().unwrap();
        let lock = WorktreesLock::acquire(dir.path(), Duration::ZERO).unwrap();
        let busy = WorktreesLock::acquire(dir.path(), Duration::from_millis(30)).unwrap_err();
        assert!(matches!(busy, LockError::Busy { .. }), "{busy}");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| WorktreesLock::acquire(dir.path(), Duration::from_secs(10)).is_ok());
            std::thread::sleep(Duration::from_millis(20));
            drop(lock);
            assert!(waiter.join().unwrap());
        });
    }

    proptest! {
        #[test]
        fn reading_a_holder_is_total(text in any::<String>()) {
            let _ = parse_holder(&text).to_string();
        }
    }
}
