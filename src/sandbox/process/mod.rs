//! Running one command: starting it, feeding and reading it, ending its whole tree. This module has the sandbox's only `unsafe` code
//! (with `landlock`): system calls, and what is done between `fork` and `exec`.

#[cfg(target_os = "linux")]
mod around;
#[cfg(target_os = "linux")]
mod layers;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;
#[cfg(target_os = "linux")]
mod supervisor;
#[cfg(target_os = "linux")]
mod tree;

#[cfg(all(test, target_os = "linux"))]
pub(super) use linux::{Layers, run_layers};
#[cfg(target_os = "linux")]
pub(super) use linux::{has_namespaces, run};
#[cfg(not(target_os = "linux"))]
pub(super) use portable::run;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::capture::Capture;
use super::disk::DiskWatch;
use super::live::{Writer, Written};
use super::{Captured, Command, Ended, Exit, INTERRUPT_GRACE, SETTLE, SandboxError, TERM_GRACE};
use crate::crash;

/// How often the interrupt flag is looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long a tree that was sent SIGKILL may take to go. Longer means a process in an uninterruptible sleep, or a lost supervisor.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// How much longer than [`SETTLE`] what outlived a command may stay until the runner ends it itself.
const SETTLE_PATIENCE: Duration = Duration::from_secs(1);

/// Where the proxy of a command with an allow-list listens, on the command's own loopback.
#[cfg(target_os = "linux")]
pub(super) const GATE_PORT: u16 = 3128;

/// How much is read at a time: little at first, more for who prints much.
const FIRST_READ: usize = 4 << 10;
const FULL_READ: usize = 64 << 10;

/// Whether this process acts as root.
#[cfg(target_os = "linux")]
pub(super) fn is_root() -> bool {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// What a tree tells while it runs.
enum Event {
    /// The command itself has ended.
    Exited(Exit),
    /// Nobody is left; so many had to be killed after the command.
    Gone { survivors: u32 },
}

/// A process tree that was started.
trait Tree {
    /// A descriptor that becomes readable when there is something for `events`.
    fn ready(&self) -> Option<RawFd>;
    /// The longest that `events` may be left uncalled.
    fn tick(&self) -> Duration;
    /// What has happened since the last call.
    fn events(&mut self) -> Result<Vec<Event>, SandboxError>;
    /// Asks the whole tree to end.
    fn terminate(&mut self);
    /// Ends the whole tree. Called again and again until it is gone.
    fn kill(&mut self);
    /// Last resort, when it does not go.
    fn abandon(&mut self);
}

/// Our ends of a command's pipes.
struct Streams {
    stdin: Option<File>,
    stdout: File,
    stderr: Option<File>,
}

/// What was seen of a command.
struct Seen {
    exit: Exit,
    ended: Ended,
    duration: Duration,
    stdout: Captured,
    stderr: Captured,
    survivors: u32,
    written: Written,
}

/// Where the run stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// SIGTERM was sent; SIGKILL follows at this time.
    Terminating(Instant),
    /// SIGKILL was sent; after this time we give up.
    Killing(Instant),
}

/// Feeds, reads and times a tree until it is gone.
fn pump(
    command: &Command,
    started: Instant,
    tree: &mut impl Tree,
    streams: Streams,
    disk: &mut DiskWatch,
    interrupt: &AtomicBool,
) -> Result<Seen, SandboxError> {
    crash::point("command:running");
    let Streams { mut stdin, stdout, stderr } = streams;
    let mut input = command.stdin.as_slice();
    let mut readers = [Some(stdout), stderr];
    let mut captures = [
        Capture::new(command.keep_whole, command.head_tail),
        Capture::new(command.keep_whole_of_stderr(), command.head_tail),
    ];
    let mut live = command.live.as_ref().map(|live| Writer::new(live, started));
    let mut buffer = vec![0_u8; FIRST_READ];
    let mut printed = 0_u64;
    // A time-out beyond what the clock can count is none.
    let deadline = started.checked_add(command.timeout);
    let mut phase = Phase::Running;
    let mut ended = Ended::Itself;
    let mut exit: Option<(Exit, Duration)> = None;
    // When it last printed something, and how much it had printed then.
    let mut heard = (started, 0_u64);
    let _sigpipe = SigpipeBlocked::new();
    if input.is_empty() {
        stdin = None;
    }

    let survivors = loop {
        // Orders first: a tree that prints without end must not keep us from them.
        let now = Instant::now();
        if printed > heard.1 {
            heard = (now, printed);
        }
        let settled = exit.as_ref().map(|(_, duration)| started + *duration + SETTLE + SETTLE_PATIENCE);
        let silent_at = command.idle.and_then(|idle| heard.0.checked_add(idle));
        match phase {
            Phase::Running if exit.is_none() => {
                let stop = if interrupt.load(Ordering::SeqCst) {
                    Some((Ended::Interrupted, INTERRUPT_GRACE))
                } else if printed > command.max_output {
                    Some((Ended::OutputLimit, Duration::ZERO))
                } else if disk.is_over() {
                    Some((Ended::DiskLimit, Duration::ZERO))
                } else if deadline.is_some_and(|deadline| now >= deadline) {
                    Some((Ended::TimedOut, TERM_GRACE))
                } else if silent_at.is_some_and(|silent| now >= silent) {
                    Some((Ended::Idle, TERM_GRACE))
                } else {
                    None
                };
                if let Some((why, grace)) = stop {
                    ended = why;
                    tree.terminate();
                    phase = Phase::Terminating(now + grace);
                }
            }
            Phase::Terminating(until) if now >= until => phase = Phase::Killing(now + KILL_PATIENCE),
            Phase::Killing(until) if now >= until => {
                tree.abandon();
                return Err(SandboxError::SupervisorLost);
            }
            // What outlived the command can print without end too, in its short time to settle; and nobody waits for it who was told to
            // stop, nor if it is still there long after whoever supervises it should have ended it.
            Phase::Running
                if printed > command.max_output
                    || interrupt.load(Ordering::SeqCst)
                    || settled.is_some_and(|settled| now >= settled) =>
            {
                phase = Phase::Killing(now + KILL_PATIENCE);
            }
            _ => {}
        }
        if matches!(phase, Phase::Killing(_)) {
            tree.kill();
        }

        let next = match phase {
            Phase::Running if exit.is_none() => [deadline, silent_at].into_iter().flatten().min(),
            Phase::Running => None,
            Phase::Terminating(until) | Phase::Killing(until) => Some(until),
        };
        let wait = tree.tick().min(TICK);
        let wait = next.map_or(wait, |next| wait.min(next.saturating_duration_since(now)));
        let fd = |file: &Option<File>| file.as_ref().map_or(-1, File::as_raw_fd);
        let mut polled = [
            poll_for(fd(&readers[0]), libc::POLLIN),
            poll_for(fd(&readers[1]), libc::POLLIN),
            poll_for(fd(&stdin), libc::POLLOUT),
            poll_for(tree.ready().unwrap_or(-1), libc::POLLIN),
        ];
        poll(&mut polled, wait).map_err(|source| SandboxError::Setup { stage: "poll", source })?;

        for ((reader, capture), polled) in readers.iter_mut().zip(&mut captures).zip(&polled) {
            if polled.revents != 0
                && let Some(file) = reader
                && !read_some(file, capture, &mut buffer, &mut printed)
            {
                *reader = None;
            }
        }
        if let Some(live) = &mut live {
            live.look(now, &captures);
        }
        if polled[2].revents != 0
            && let Some(file) = &mut stdin
        {
            match file.write(&input[..input.len().min(64 << 10)]) {
                Ok(written) => input = &input[written..],
                Err(error) if would_wait(&error) => {}
                // The command has closed it, or is gone: it does not want the rest.
                Err(_) => input = &[],
            }
            if input.is_empty() {
                stdin = None;
            }
        }
        let mut gone = None;
        for event in tree.events()? {
            match event {
                Event::Exited(how) => exit = Some((how, started.elapsed())),
                Event::Gone { survivors } => gone = Some(survivors),
            }
        }
        if let Some(survivors) = gone {
            break survivors;
        }
    };

    crash::point("command:ended");
    // What is in the pipes now is all there will be. Should anybody hold a pipe that we could not end, it is not waited for.
    for (reader, capture) in readers.iter_mut().zip(&mut captures) {
        if let Some(mut file) = reader.take() {
            while printed <= command.max_output && read_some(&mut file, capture, &mut buffer, &mut printed) {
                let mut more = [poll_for(file.as_raw_fd(), libc::POLLIN)];
                if poll(&mut more, Duration::ZERO).is_err() || more[0].revents == 0 {
                    break;
                }
            }
        }
    }
    let written = live.map_or_else(Written::default, |live| live.finish(Instant::now(), &captures));
    if ended == Ended::Itself && printed > command.max_output {
        ended = Ended::OutputLimit;
    }
    if ended == Ended::Itself && disk.ended_over() {
        ended = Ended::DiskLimit;
    }
    let Some((exit, duration)) = exit else { return Err(SandboxError::SupervisorLost) };
    let [stdout, stderr] = captures.map(Capture::finish);
    Ok(Seen { exit, ended, duration, stdout, stderr, survivors, written })
}

/// Reads once; false at the end of the stream.
fn read_some(file: &mut File, capture: &mut Capture, buffer: &mut Vec<u8>, printed: &mut u64) -> bool {
    match file.read(buffer) {
        Ok(0) => false,
        Ok(count) => {
            *printed += count as u64;
            capture.push(&buffer[..count]);
            if count == buffer.len() {
                buffer.resize(FULL_READ, 0);
            }
            true
        }
        Err(error) => would_wait(&error),
    }
}

fn would_wait(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

pub(super) fn poll_for(fd: RawFd, events: libc::c_short) -> libc::pollfd {
    libc::pollfd { fd, events, revents: 0 }
}

/// Waits for one of them, rounded up to whole milliseconds. A signal ends the wait early.
pub(super) fn poll(fds: &mut [libc::pollfd], wait: Duration) -> io::Result<()> {
    let millis = i32::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
    // SAFETY: the pointer and the length are those of one slice.
    let rc = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis) };
    if rc >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    for fd in fds {
        fd.revents = 0;
    }
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

/// A pipe: read end, write end; both close on exec and are numbered above 2, so that no copy to 0, 1 or 2 can hit them.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = io::pipe()?;
    Ok((above_two(read.into())?, above_two(write.into())?))
}

/// The same file under a number above 2.
fn above_two(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    // SAFETY: the descriptor is open; the new one is owned by nobody else.
    unsafe {
        let copy = libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3);
        if copy < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(copy)) }
    }
}

/// Our end of a pipe must never block us.
fn nonblocking(fd: OwnedFd) -> io::Result<File> {
    // SAFETY: takes an open descriptor and numbers.
    unsafe {
        let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
        if flags < 0 || libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(File::from(fd))
}

fn exit_of(status: i32) -> Exit {
    if libc::WIFSIGNALED(status) {
        Exit::Signal(libc::WTERMSIG(status))
    } else {
        Exit::Code(libc::WEXITSTATUS(status))
    }
}

/// Keeps SIGPIPE from this thread while it writes to a command that may not read: a program that restored the default would be
/// killed by it.
struct SigpipeBlocked {
    before: libc::sigset_t,
}

impl SigpipeBlocked {
    fn new() -> Self {
        let set = sigpipe();
        // SAFETY: `sigset_t` is plain data; both pointers are valid. The call cannot fail with these arguments.
        unsafe {
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            Self { before }
        }
    }
}

impl Drop for SigpipeBlocked {
    fn drop(&mut self) {
        // SAFETY: all sets are valid. The wait happens only if the signal is pending already, so it returns at once.
        unsafe {
            if libc::sigismember(&raw const self.before, libc::SIGPIPE) == 0 {
                let mut pending: libc::sigset_t = std::mem::zeroed();
                libc::sigpending(&raw mut pending);
                if libc::sigismember(&raw const pending, libc::SIGPIPE) == 1 {
                    let set = sigpipe();
                    #[cfg(target_os = "linux")]
                    {
                        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                        libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const now);
                    }
                    #[cfg(not(target_os = "linux"))]
                    {
                        let mut signal = 0;
                        libc::sigwait(&raw const set, &raw mut signal);
                    }
                }
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}

fn sigpipe() -> libc::sigset_t {
    // SAFETY: `sigset_t` is plain data, initialised by `sigemptyset`.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGPIPE);
        set
    }
}
