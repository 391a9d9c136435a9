//! `<ref>.lock` files that git respects and that a later process can tell are ours and left over.
//!
//! git's protocol is: whoever creates `<ref>.lock` may change the ref. A process that is killed leaves the file, and
//! from then on nobody may. Removing a lock that is merely old is not safe: git holds one for as long as a hook runs.
//! So a lock of ours has two names: a *token* in `loops/.refs/` of the common git folder, made first, and the lock,
//! which is a hard link to it. And the process holds an advisory lock on that file while it lives. A lock is left
//! over if it is the same file as one of our tokens and the advisory lock on it is free; then it is removed.
//! git's locks and those of file systems without hard links are not touched.
//!
//! A loss of power may leave the lock and take the token. So the lock of a loop's ref that is older than the start of this
//! machine is left over, too, whoever made it: nobody who runs can have it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use super::lock::{LOOPS_DIR, try_lock};
use crate::crash;
use crate::worktree::{has_ended, process_space};

/// What is known about a lock that somebody else has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ForeignLock {
    pub path: PathBuf,
    pub age: Duration,
    /// The process, if it is one of ours.
    pub pid: Option<u32>,
}

#[derive(Debug)]
pub(super) enum AcquireError {
    Held(ForeignLock),
    Io(io::Error),
}

impl From<io::Error> for AcquireError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A held `<file>.lock`. Dropping it gives the file up unchanged.
#[derive(Debug)]
pub(super) struct FileLock {
    file: File,
    target: PathBuf,
    lock: PathBuf,
    /// None where the file system has no hard links.
    token: Option<PathBuf>,
    committed: bool,
}

impl FileLock {
    /// Locks `target`, waiting at most `patience`. Removes what a dead process of ours left in the way.
    pub(super) fn acquire(
        common_dir: &Path,
        target: &Path,
        patience: Duration,
    ) -> Result<Self, AcquireError> {
        let lock = lock_path(target);
        let tokens = common_dir.join(LOOPS_DIR).join(".refs");
        let begin = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            match try_acquire(&tokens, &lock) {
                Ok((file, token)) => {
                    return Ok(Self { file, target: target.to_owned(), lock, token, committed: false });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
            match judge(&tokens, &lock)? {
                Judgement::Free => {}
                Judgement::Held(held) if begin.elapsed() >= patience => return Err(AcquireError::Held(held)),
                Judgement::Held(_) => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
            }
        }
    }

    /// Writes what the file shall hold; `sync` before it gets its name, so that no crash leaves an empty ref.
    pub(super) fn write(&mut self, content: &[u8], sync: bool) -> io::Result<()> {
        self.file.write_all(content)?;
        if sync { self.file.sync_all() } else { Ok(()) }
    }

    /// Puts what was written in the place of the locked file, and unlocks it.
    pub(super) fn commit(mut self) -> io::Result<()> {
        std::fs::rename(&self.lock, &self.target)?;
        // The lock has become the file; from here on there is nothing to give up.
        self.committed = true;
        Ok(())
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if !self.committed {
            let _ = std::fs::remove_file(&self.lock);
        }
        if let Some(token) = &self.token {
            let _ = std::fs::remove_file(token);
        }
    }
}

/// `<target>.lock`, as git names it.
pub(super) fn lock_path(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

fn try_acquire(tokens: &Path, lock: &Path) -> io::Result<(File, Option<PathBuf>)> {
    // Only to be unique within this process.
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let pid = std::process::id();
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |at| at.subsec_nanos());
    let token = tokens.join(format!("{pid}-{nanos}-{count}-{}", space()));
    let create = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
    let file = with_parent(&token, || create(&token))?;
    // Without advisory locks nobody could tell whether we live: then the lock is a plain one.
    let linked = if matches!(try_lock(&file), Ok(true)) {
        crash::point("ref:token");
        with_parent(lock, || std::fs::hard_link(&token, lock))
    } else {
        Err(io::ErrorKind::Unsupported.into())
    };
    match linked {
        Ok(()) => Ok((file, Some(token))),
        Err(error) => {
            let _ = std::fs::remove_file(&token);
            match error.kind() {
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
                    Err(error)
                }
                io::ErrorKind::NotFound => Err(error),
                // EPERM, EOPNOTSUPP, EXDEV, EMLINK, …: no hard links here.
                _ => Ok((with_parent(lock, || create(lock))?, None)),
            }
        }
    }
}

/// The namespace of this process's id, as a name may hold it.
fn space() -> String {
    process_space().chars().filter(char::is_ascii_digit).collect()
}

/// Whether the process that made a token of this name has certainly ended.
fn maker_has_ended(token: &Path) -> bool {
    let name = token.file_name().unwrap_or_default().to_string_lossy();
    let mut words = name.splitn(4, '-');
    let pid = words.next().and_then(|pid| pid.parse().ok());
    pid.is_some_and(has_ended) && words.nth(2).is_some_and(|made_in| made_in == space())
}

/// Does `make`, and again after making the folder of `path` if it was missing. git removes empty folders of refs at
/// any time, hence more than once.
fn with_parent<T>(path: &Path, make: impl Fn() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..8 {
        match make() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match path.parent() {
                Some(dir) => std::fs::create_dir_all(dir)?,
                None => return Err(error),
            },
            done => return done,
        }
    }
    make()
}

enum Judgement {
    /// It is gone: somebody let go of it, or it was left over and is removed now.
    Free,
    Held(ForeignLock),
}

/// What there is at the path of a lock.
enum Look {
    Nothing,
    Held(ForeignLock),
    /// Its process is dead. The advisory lock on the file is ours, so that nobody else removes it at the same time.
    LeftOver {
        _file: File,
        identity: (u64, u64),
        token: Option<PathBuf>,
    },
}

fn judge(tokens: &Path, lock: &Path) -> io::Result<Judgement> {
    match look(tokens, lock)? {
        Look::Nothing => Ok(Judgement::Free),
        Look::Held(held) => Ok(Judgement::Held(held)),
        Look::LeftOver { _file, identity, token } => {
            // What is at the path may have changed since it was opened: whoever had the advisory lock before us may
            // have removed it.
            let now = std::fs::symlink_metadata(lock);
            if now.is_ok_and(|now| self::identity(&now) == Some(identity)) {
                std::fs::remove_file(lock)?;
            }
            if let Some(token) = token {
                let _ = std::fs::remove_file(token);
            }
            Ok(Judgement::Free)
        }
    }
}

fn look(tokens: &Path, lock: &Path) -> io::Result<Look> {
    let file = match File::open(lock) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Look::Nothing),
        Err(error) => return Err(error),
    };
    let meta = file.metadata()?;
    let age =
        meta.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok()).unwrap_or_default();
    let held = |pid| Ok(Look::Held(ForeignLock { path: lock.to_owned(), age, pid }));
    let Some(identity) = identity(&meta) else {
        return held(None);
    };
    let Some(token) = find_token(tokens, identity)? else {
        // Not one that anybody here can have. Only the refs of loops are ours to say that of.
        if is_of_a_loop(lock) && meta.modified().is_ok_and(is_before_boot) {
            return Ok(Look::LeftOver { _file: file, identity, token: None });
        }
        return held(None);
    };
    let pid = token.file_name().and_then(|name| name.to_str()?.split('-').next()?.parse().ok());
    if !try_lock(&file)? {
        return held(pid);
    }
    Ok(Look::LeftOver { _file: file, identity, token: Some(token) })
}

/// The locks of refs of loops that dead processes left, removed unless this is only a look.
pub(super) fn left_over(common_dir: &Path, dry_run: bool) -> io::Result<Vec<PathBuf>> {
    let tokens = common_dir.join(LOOPS_DIR).join(".refs");
    let mut found = Vec::new();
    for lock in locks_of_loops(common_dir) {
        if matches!(look(&tokens, &lock)?, Look::LeftOver { .. }) {
            if !dry_run {
                judge(&tokens, &lock)?;
            }
            found.push(lock);
        }
    }
    Ok(found)
}

/// The paths of all locks of refs of loops.
fn locks_of_loops(common_dir: &Path) -> Vec<PathBuf> {
    let mut folders = vec![common_dir.join("refs/loops"), common_dir.join("refs/notes/loops")];
    let mut locks = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "lock") {
                locks.push(path);
            }
        }
    }
    locks.sort_unstable();
    locks
}

/// Whether it is the lock of a ref of a loop: no other ref is ever locked here, but the file with all packed ones is.
fn is_of_a_loop(lock: &Path) -> bool {
    lock.file_name().is_some_and(|name| name != "packed-refs.lock")
}

/// Whether a moment lies before the start of this machine, as far as that is known.
fn is_before_boot(at: SystemTime) -> bool {
    // `proc_stat(5)`: seconds since 1970.
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
    seconds.is_some_and(|seconds| {
        at + Duration::from_secs(1) < SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    })
}

/// Our token that is the same file.
fn find_token(tokens: &Path, wanted: (u64, u64)) -> io::Result<Option<PathBuf>> {
    let entries = match std::fs::read_dir(tokens) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        // It may be gone by now.
        if entry.metadata().is_ok_and(|meta| identity(&meta) == Some(wanted)) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// Removes the tokens of dead processes that hold no lock any more. A crash between two steps leaves one; they do no
/// harm but to be looked at whenever a lock is judged.
pub(super) fn sweep_tokens(common_dir: &Path) {
    let Ok(entries) = std::fs::read_dir(common_dir.join(LOOPS_DIR).join(".refs")) else {
        return;
    };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let Ok(file) = File::open(&path) else { continue };
        // Between making a token and locking it lies a moment: one of a process that may be there has to be old.
        let over = maker_has_ended(&path)
            || file.metadata().is_ok_and(|meta| {
                meta.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > Duration::from_secs(60)))
            });
        // One that still is a lock, or has become a ref, has two names. The former is for `judge`, and it needs the token.
        if over && matches!(try_lock(&file), Ok(true)) && !is_a_lock(common_dir, &file) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether the file of a token is a lock as well. One that has become the ref is none any more.
fn is_a_lock(common_dir: &Path, file: &File) -> bool {
    let Ok(meta) = file.metadata() else { return true };
    let Some(wanted) = identity(&meta) else { return true };
    if link_count(&meta) == 1 {
        return false;
    }
    let mut locks = locks_of_loops(common_dir);
    locks.push(lock_path(&common_dir.join("packed-refs")));
    locks.iter().any(|lock| std::fs::symlink_metadata(lock).is_ok_and(|meta| identity(&meta) == Some(wanted)))
}

#[cfg(unix)]
fn link_count(meta: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(meta)
}

#[cfg(not(unix))]
fn link_count(_meta: &std::fs::Metadata) -> u64 {
    1
}

/// Device and inode.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems do not tell")]
fn identity(meta: &std::fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((meta.dev(), meta.ino()))
}

#[cfg(not(unix))]
fn identity(_meta: &std::fs::Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn acquire(dir: &Path, target: &Path) -> Result<FileLock, AcquireError> {
        FileLock::acquire(dir, target, Duration::from_millis(20))
    }

    /// A lock as a killed process leaves it: both names are there, and nobody has the advisory lock.
    fn leave_behind(dir: &Path, target: &Path) {
        let tokens = dir.join("loops/.refs");
        std::fs::create_dir_all(&tokens).unwrap();
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::write(tokens.join("999-1-1"), "half").unwrap();
        std::fs::hard_link(tokens.join("999-1-1"), lock_path(target)).unwrap();
    }

    #[test]
    fn the_content_takes_the_place_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("refs/a/b");
        let mut lock = acquire(dir.path(), &target).unwrap();
        assert!(lock_path(&target).exists());
        lock.write(b"new\n", true).unwrap();
        lock.commit().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"new\n");
        assert!(!lock_path(&target).exists());
        drop(acquire(dir.path(), &target).unwrap());
        assert_eq!(std::fs::read(&target).unwrap(), b"new\n", "dropping a lock changes nothing");
        assert_eq!(std::fs::read_dir(dir.path().join("loops/.refs")).unwrap().count(), 0);
    }

    #[test]
    fn what_a_dead_process_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("refs/a");
        leave_behind(dir.path(), &target);
        assert!(lock_path(&target).exists());
        let mut lock = acquire(dir.path(), &target).unwrap();
        lock.write(b"x", false).unwrap();
        lock.commit().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"x");
        assert_eq!(std::fs::read_dir(dir.path().join("loops/.refs")).unwrap().count(), 0);
    }

    #[test]
    fn locks_of_the_living_and_of_others_are_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("refs/a");
        let ours = acquire(dir.path(), &target).unwrap();
        let AcquireError::Held(held) = acquire(dir.path(), &target).unwrap_err() else { panic!() };
        assert_eq!((held.path.as_path(), held.pid), (lock_path(&target).as_path(), Some(std::process::id())));
        drop(ours);
        // One of git's, empty and not new.
        let foreign = File::create(lock_path(&target)).unwrap();
        foreign.set_modified(SystemTime::now() - Duration::from_secs(20)).unwrap();
        let AcquireError::Held(held) = acquire(dir.path(), &target).unwrap_err() else { panic!() };
        assert_eq!(held.pid, None);
        assert!(held.age > Duration::from_secs(19));
        assert!(lock_path(&target).exists());
        // From before the machine's start: nobody who runs has it, whoever made it.
        if Path::new("/proc/stat").exists() {
            foreign.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
            drop(acquire(dir.path(), &target).unwrap());
            assert!(!lock_path(&target).exists());
        }
    }

    #[test]
    fn many_processes_remove_one_left_over_lock_once() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("refs/a");
        for _ in 0..50 {
            leave_behind(dir.path(), &target);
            let inside = AtomicU32::new(0);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        let lock = FileLock::acquire(dir.path(), &target, Duration::from_secs(20)).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two held the lock at once");
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    });
                }
            });
        }
    }

    #[test]
    fn tokens_without_a_lock_are_swept_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("refs/a");
        leave_behind(dir.path(), &target);
        let tokens = dir.path().join("loops/.refs");
        let alone = File::create(tokens.join("1-2-3")).unwrap();
        alone.set_modified(SystemTime::now() - Duration::from_secs(100)).unwrap();
        drop(alone);
        sweep_tokens(dir.path());
        assert_eq!(std::fs::read_dir(tokens).unwrap().count(), 1);
    }
}
