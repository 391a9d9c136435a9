//! Places at which a test may have this process killed, as by `kill -9`: the boundaries between the steps that change
//! something on the disk.
//!
//! `GIT_LOOP_CRASH_AT=name` kills the process when it comes to the place of this name for the first time,
//! `GIT_LOOP_CRASH_AT=name:n` for the n-th time. With `GIT_LOOP_CRASH_LOG=FILE` the name of every place that is passed is
//! appended to that file, so that a test can find out where there is something to kill.
//!
//! Both exist in builds with debug assertions only. In any other [`point`] is a constant expression, which the compiler
//! evaluates below: what is evaluated there cannot read an environment, nor end a process.

/// The name of every place. Tests go through all of them, and fail for one that is never reached.
pub const POINTS: &[&str] = &[
    "objects:written",
    "objects:synced",
    "ref:token",
    "refs:locked",
    "refs:logged",
    "refs:first-moved",
    "refs:moved",
    "record:drafted",
    "publish:before",
    "publish:after",
    "note:written",
    "scratch:made",
    "worktree:owned",
    "worktree:registering",
    "worktree:registered",
    "worktree:made",
    "worktree:filled",
    "worktree:ahead",
    "worktree:taken",
    "command:running",
    "command:ended",
    "cost:unnamed",
    "cost:journalled",
    "candidate:snapshot",
    "candidate:made",
    "head:moved",
    "check:judged",
    "worktree:emptied",
    "worktree:unregistered",
    "worktree:removed",
    "recover:reclaimed",
    "recover:closed",
    "hook:aside",
    "sync:fetched",
    "sync:aside",
    "sync:before",
    "sync:moved",
    "sync:pushed",
];

/// A place at which a test may have this process killed. `name` is one of [`POINTS`].
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn point(_name: &'static str) {}

#[cfg(not(debug_assertions))]
const _: () = point("any");

/// A place at which a test may have this process killed. `name` is one of [`POINTS`].
#[cfg(debug_assertions)]
pub fn point(name: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static WANTED: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static PASSED: AtomicU32 = AtomicU32::new(0);
    debug_assert!(POINTS.contains(&name), "{name} is not in the list of crash points");
    if let Some(log) = std::env::var_os("GIT_LOOP_CRASH_LOG") {
        use std::io::Write as _;
        // One write each: several threads and processes may share the file.
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(log);
        let _ = opened.and_then(|mut file| file.write_all(format!("{name}\n").as_bytes()));
    }
    let wanted = WANTED.get_or_init(|| {
        let wanted = std::env::var("GIT_LOOP_CRASH_AT").ok()?;
        // Names have a colon in them.
        Some(match wanted.rsplit_once(':') {
            Some((name, count)) if count.parse::<u32>().is_ok() => (name.to_owned(), count.parse().ok()?),
            _ => (wanted, 1),
        })
    });
    if let Some((at, count)) = wanted
        && at == name
        && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *count
    {
        die();
    }
}

#[cfg(all(debug_assertions, unix))]
fn die() {
    // SAFETY: plain system calls. Nobody survives the signal; the pause is for the moment until it arrives.
    unsafe {
        libc::kill(libc::getpid(), libc::SIGKILL);
        loop {
            libc::pause();
        }
    }
}

#[cfg(all(debug_assertions, not(unix)))]
fn die() {
    std::process::abort();
}
