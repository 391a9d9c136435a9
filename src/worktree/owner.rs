//! Who made a worktree, and whether that process is still there.
//!
//! The word of a process id is weak: ids are reused, other containers count for themselves, and a cache may be
//! shared between machines. So each worktree has, beside its folder, an owner file that the process keeps locked
//! (`flock`): the kernel drops the lock when the process ends, however it ends. The text in that file, repeated as
//! the reason of git's own worktree lock, decides where the lock file is gone or cannot be locked.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::error::WorktreeError;
use super::sys;

/// How the lock reason of a worktree of ours begins.
pub(super) const MARK: &str = "git-loop ";

/// A process, as one that ended can be told from one that runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Owner {
    pid: u32,
    /// When the process started, in clock ticks since boot; 0 where the system does not say.
    start: u64,
    /// This boot of the machine; empty where unknown.
    boot: String,
    /// The process id namespace; empty where there are none.
    space: String,
    host: String,
}

/// What can be said about the process that made something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Alive,
    Dead,
    Unknown,
}

impl Owner {
    /// This process.
    pub fn me() -> Self {
        static ME: OnceLock<Owner> = OnceLock::new();
        let pid = std::process::id();
        let ask =
            || Self { pid, start: start_of(pid).unwrap_or(0), boot: boot(), space: space(), host: host() };
        let me = ME.get_or_init(ask);
        // Whoever forks this process without a new program is another.
        if me.pid == pid { me.clone() } else { ask() }
    }

    /// One line: [`MARK`], this owner, and what the caller adds for people.
    pub fn reason(&self, remark: &str) -> String {
        let Self { pid, start, boot, space, host } = self;
        let remark: String = remark.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("{MARK}pid={pid} start={start} boot={boot} space={space} host={host} {remark}")
            .trim_end()
            .to_owned()
    }

    /// Reads [`Owner::reason`]; `None` for what is not ours.
    pub fn parse(reason: &str) -> Option<Self> {
        let mut owner = Self::default();
        let mut known = false;
        for word in reason.strip_prefix(MARK)?.split_ascii_whitespace().take(5) {
            let Some((key, value)) = word.split_once('=') else { continue };
            match key {
                "pid" => {
                    owner.pid = value.parse().ok()?;
                    known = true;
                }
                "start" => owner.start = value.parse().ok()?,
                "boot" => value.clone_into(&mut owner.boot),
                "space" => value.clone_into(&mut owner.space),
                "host" => value.clone_into(&mut owner.host),
                _ => {}
            }
        }
        known.then_some(owner)
    }

    /// Judges by the text alone. Only what is certain is called dead.
    pub fn life(&self) -> Life {
        let me = Self::me();
        if self.boot != me.boot {
            // Another boot of this machine is over; another machine may be up.
            return if self.host == me.host && !self.boot.is_empty() { Life::Dead } else { Life::Unknown };
        }
        if self.boot.is_empty() && self.host != me.host || self.space != me.space {
            return Life::Unknown;
        }
        match start_of(self.pid) {
            // Ended, and only not waited for by its parent yet.
            _ if is_zombie(self.pid) => Life::Dead,
            Some(start) if self.start != 0 => {
                if start == self.start {
                    Life::Alive
                } else {
                    Life::Dead
                }
            }
            _ if sys::process_exists(self.pid) => Life::Alive,
            _ => Life::Dead,
        }
    }

    /// Judges the owner of a lock file that could be locked: nobody holds it, so only a process that is provably
    /// there counts. On another machine the lock may not have reached us.
    pub fn life_without_lock(&self) -> Life {
        let me = Self::me();
        match self.life() {
            Life::Unknown if !me.boot.is_empty() && self.boot == me.boot => Life::Dead,
            life => life,
        }
    }
}

/// The namespace that the ids of processes here belong to; empty where there is one only.
pub(crate) fn process_space() -> String {
    Owner::me().space
}

/// Whether the process `pid` of this machine and namespace has ended: it is not there, or only not waited for.
pub(crate) fn has_ended(pid: u32) -> bool {
    is_zombie(pid) || !sys::process_exists(pid)
}

fn host() -> String {
    sys::host_name().split_ascii_whitespace().collect()
}

#[cfg(target_os = "linux")]
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(target_os = "linux")]
fn space() -> String {
    std::fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string()).unwrap_or_default()
}

/// Field 22 of `/proc/PID/stat`, proc(5).
#[cfg(target_os = "linux")]
fn start_of(pid: u32) -> Option<u64> {
    stat(pid)?.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(target_os = "linux")]
fn is_zombie(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields.trim_start().starts_with(['Z', 'X']))
}

/// The fields of `/proc/PID/stat` from the third on. The second may hold spaces and parentheses.
#[cfg(target_os = "linux")]
fn stat(pid: u32) -> Option<String> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    Some(String::from_utf8_lossy(&stat[after..]).into_owned())
}

#[cfg(not(target_os = "linux"))]
fn boot() -> String {
    String::new()
}

#[cfg(not(target_os = "linux"))]
fn space() -> String {
    String::new()
}

#[cfg(not(target_os = "linux"))]
fn start_of(_: u32) -> Option<u64> {
    None
}

#[cfg(not(target_os = "linux"))]
fn is_zombie(_: u32) -> bool {
    false
}

/// The owner file of a worktree, locked by this process as long as the value lives.
#[derive(Debug)]
pub(super) struct OwnerFile {
    path: PathBuf,
    /// Held for its lock.
    file: File,
}

/// The owner file of the worktree in the folder `place`.
pub(super) fn owner_path(place: &Path) -> PathBuf {
    let mut path = place.as_os_str().to_owned();
    path.push(".owner");
    PathBuf::from(path)
}

impl OwnerFile {
    /// Makes the owner file of `place` and locks it.
    pub fn create(place: &Path, reason: &str) -> Result<Self, WorktreeError> {
        const PATIENCE: Duration = Duration::from_secs(10);
        let path = owner_path(place);
        // Whoever reclaims may see the file before it is locked, take it for an old one, and remove it once it has removed what it is
        // about, of which there is nothing. Until then the name is taken.
        let begin = Instant::now();
        let mut lost = false;
        while begin.elapsed() < PATIENCE {
            let mut file = match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && lost => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    return Err(WorktreeError::NameTaken { name });
                }
                Err(error) => return Err(WorktreeError::io("make", &path)(error)),
            };
            let fail = || WorktreeError::io("lock", &path);
            // A file system without locks leaves the text to decide.
            let locked = sys::try_lock(&file).unwrap_or(true);
            if locked && is_still_at(&file, &path).map_err(fail())? {
                file.write_all(reason.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(fail())?;
                return Ok(Self { path, file });
            }
            lost = true;
        }
        Err(WorktreeError::io("lock", &path)(io::ErrorKind::WouldBlock.into()))
    }

    /// Takes over the owner file of a process that is gone. `Err(why)` if it is not, or if that cannot be said.
    pub fn take_over(path: &Path) -> io::Result<Result<Self, &'static str>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let locked = sys::try_lock(&file);
        if matches!(locked, Ok(false)) {
            return Ok(Err("its process runs"));
        }
        if !is_still_at(&file, path)? {
            return Ok(Err("its process has just ended"));
        }
        let mut text = String::new();
        (&file).take(4096).read_to_string(&mut text)?;
        // A process that was killed between making the file and writing to it got no further.
        let life = match (Owner::parse(text.trim_end()), &locked) {
            (Some(owner), Ok(_)) => owner.life_without_lock(),
            (Some(owner), Err(_)) => owner.life(),
            (None, Ok(_)) if text.is_empty() => Life::Dead,
            (None, _) => Life::Unknown,
        };
        Ok(match life {
            Life::Dead => Ok(Self { path: path.to_owned(), file }),
            Life::Alive => Err("its process runs"),
            Life::Unknown => Err("it may belong to a process on another machine"),
        })
    }

    /// Removes the file. The lock ends after that, so nobody can mistake it for one of a dead process.
    pub fn remove(self) -> Result<(), WorktreeError> {
        let removed = match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(WorktreeError::io("remove", &self.path)(error))
            }
            _ => Ok(()),
        };
        drop(self.file);
        removed
    }
}

/// Whether an open file is the one that its path names now.
pub(super) fn is_still_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = sys::fstat(file)?;
    match sys::lstat(path) {
        Ok(named) => Ok(open.nlink > 0 && (open.dev, open.ino) == (named.dev, named.ino)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Life, Owner};

    #[test]
    fn this_process_is_alive_and_one_that_ended_is_not() {
        let me = Owner::me();
        assert_eq!(Owner::parse(&me.reason("loop fix\niteration 1")), Some(me.clone()));
        if cfg!(unix) {
            assert_eq!(me.life(), Life::Alive);
        }
        if cfg!(target_os = "linux") {
            // The same id, another process.
            assert_eq!(Owner { start: me.start + 1, ..me.clone() }.life(), Life::Dead);
            // Another boot of this machine; another machine.
            assert_eq!(Owner { boot: "other".into(), ..me.clone() }.life(), Life::Dead);
            let far = Owner { boot: "other".into(), host: "far".into(), ..me.clone() };
            assert_eq!((far.life(), far.life_without_lock()), (Life::Unknown, Life::Unknown));
            // A container: its ids say nothing here, its lock does.
            let boxed = Owner { space: "pid:[1]".into(), ..me };
            assert_eq!((boxed.life(), boxed.life_without_lock()), (Life::Unknown, Life::Dead));
        }
    }

    /// Twenty loops began at the same moment, and one of them was told that its worktree was somebody's.
    #[test]
    fn a_file_that_is_taken_for_an_old_one_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let path = super::owner_path(&dir.path().join("loop-x"));
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    if let Ok(Ok(taken)) = super::OwnerFile::take_over(&path) {
                        std::thread::sleep(std::time::Duration::from_micros(300));
                        taken.remove().unwrap();
                    }
                }
            });
            let made: Result<Vec<()>, _> = (0..500)
                .map(|_| {
                    super::OwnerFile::create(&dir.path().join("loop-x"), &Owner::me().reason(""))?.remove()
                })
                .collect();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            made.unwrap();
        });
    }

    /// A killed runner whose shell has not waited for it yet: its worktree was left to the next command but one.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_nobody_has_waited_for_is_not_alive() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while !super::is_zombie(child.id()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let start = super::start_of(child.id()).unwrap();
        assert_eq!(Owner { pid: child.id(), start, ..Owner::me() }.life(), Life::Dead);
        child.wait().unwrap();
    }

    proptest! {
        #[test]
        fn any_reason_is_read_without_panic(text in "(git-loop )?[ -~]{0,60}") {
            if let Some(owner) = Owner::parse(&text) {
                prop_assert_eq!(Owner::parse(&owner.reason("")), Some(owner));
            }
        }

        #[test]
        fn reasons_round_trip(pid: u32, start: u64, boot in "[a-f0-9-]{0,36}", host in "[a-z0-9.]{0,20}") {
            let owner = Owner { pid, start, boot, space: "pid:[4026531836]".into(), host };
            prop_assert_eq!(Owner::parse(&owner.reason("x y=z")), Some(owner));
        }
    }
}
