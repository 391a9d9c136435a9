//! The runner's side of a supervisor: reports, orders, and what to do when it is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use libc::{c_int, pid_t};

use super::super::SandboxError;
use super::supervisor::{self, REPORT, Report};
use super::{Event, Tree, exit_of, poll, poll_for};

/// How long it may take until the exec: a matter of milliseconds, unless a file system hangs.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// The supervisors that are running, so that they are not taken for orphans.
pub(super) static SUPERVISORS: Mutex<BTreeSet<pid_t>> = Mutex::new(BTreeSet::new());

/// Supervisors that have said that nobody is left, and are about to end. To take its namespaces down costs the kernel about as much as
/// to make them; nobody waits for that. They are reaped when the next one is started.
static LEAVING: Mutex<Vec<pid_t>> = Mutex::new(Vec::new());

/// Reaps the supervisors that have ended since.
pub(super) fn reap_leaving() {
    let mut leaving = LEAVING.lock().unwrap_or_else(PoisonError::into_inner);
    leaving.retain(|&pid| {
        // SAFETY: our own child, reaped by nobody else.
        let gone = unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) } != 0;
        if gone {
            SUPERVISORS.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
        }
        !gone
    });
}

/// A supervisor and what it supervises. Dropping it ends the tree.
pub(super) struct SupervisedTree {
    pid: pid_t,
    pid_namespace: bool,
    reports: File,
    control: Option<File>,
    reaped: bool,
    killed: bool,
    /// It has said that nobody is left.
    done: bool,
}

impl SupervisedTree {
    /// A supervisor that was just forked, and our ends of its pipes, which do not block.
    pub(super) fn new(pid: pid_t, pid_namespace: bool, reports: File, control: File) -> Self {
        Self {
            pid,
            pid_namespace,
            reports,
            control: Some(control),
            reaped: false,
            killed: false,
            done: false,
        }
    }

    /// Waits until the command has started or could not be.
    pub(super) fn first_report(&mut self) -> Result<Report, SandboxError> {
        let until = Instant::now() + START_PATIENCE;
        loop {
            if let Some(report) = self.next_report()? {
                return Ok(report);
            }
            let now = Instant::now();
            if now >= until {
                self.abandon();
                let source = io::ErrorKind::TimedOut.into();
                return Err(SandboxError::Setup { stage: "start", source });
            }
            let mut polled = [poll_for(self.reports.as_raw_fd(), libc::POLLIN)];
            poll(&mut polled, until - now).map_err(|source| SandboxError::Setup { stage: "poll", source })?;
        }
    }

    /// Reports are written whole, so they are read whole.
    fn next_report(&mut self) -> Result<Option<Report>, SandboxError> {
        let mut bytes = [0; REPORT];
        match self.reports.read(&mut bytes) {
            Ok(REPORT) => Report::decode(bytes).map(Some).ok_or(SandboxError::SupervisorLost),
            Ok(_) => {
                self.collect_orphans();
                Err(SandboxError::SupervisorLost)
            }
            Err(error) if super::would_wait(&error) => Ok(None),
            Err(source) => Err(SandboxError::Setup { stage: "supervisor", source }),
        }
    }

    fn order(&mut self, order: u8) {
        if let Some(control) = &mut self.control {
            // If the supervisor is gone, `events` finds out.
            let _ = control.write(&[order]);
        }
    }

    /// Signals what the process table shows below the supervisor; the supervisor itself reaches its own children only.
    fn signal_descendants(&self, signal: c_int) {
        if self.pid_namespace {
            return;
        }
        let mut children: BTreeMap<pid_t, Vec<pid_t>> = BTreeMap::new();
        for process in processes() {
            children.entry(process.parent).or_default().push(process.pid);
        }
        let mut queue = vec![self.pid];
        while let Some(parent) = queue.pop() {
            for child in children.remove(&parent).unwrap_or_default() {
                // SAFETY: takes numbers. The process was a descendant a moment ago.
                unsafe { libc::kill(child, signal) };
                queue.push(child);
            }
        }
    }

    /// After the loss of a supervisor without a namespace: its orphans are our children now. They are told from children that others
    /// started here by their session, which is not ours and which they cannot enter.
    fn collect_orphans(&mut self) {
        if self.pid_namespace || !self.wait(Duration::from_secs(1)) {
            return;
        }
        // SAFETY: both only return numbers.
        let (us, session) = unsafe { (libc::getpid(), libc::getsid(0)) };
        for _ in 0..500 {
            let known = SUPERVISORS.lock().unwrap_or_else(PoisonError::into_inner);
            let table = processes();
            let orphan = |process: &&Process| {
                process.parent == us && process.session != session && !known.contains(&process.pid)
            };
            let orphans: Vec<pid_t> = table.iter().filter(orphan).map(|process| process.pid).collect();
            if orphans.is_empty() {
                return;
            }
            for pid in orphans {
                // SAFETY: it is our child, which only we reap, so the number is still its own.
                unsafe {
                    libc::kill(pid, libc::SIGKILL);
                    libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG);
                }
            }
            drop(known);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Reaps the supervisor; false if it is still there afterwards.
    fn wait(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut handle = None;
        while !self.reaped {
            // SAFETY: our own child, reaped by nobody else.
            let rc = unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), libc::WNOHANG) };
            let now = Instant::now();
            if rc != 0 {
                self.reaped = true;
                SUPERVISORS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.pid);
            } else if now >= until {
                return false;
            } else if let Some(handle) = handle.get_or_insert_with(|| process_handle(self.pid)) {
                let mut polled = [poll_for(handle.as_raw_fd(), libc::POLLIN)];
                let _ = poll(&mut polled, until - now);
            } else {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        true
    }
}

impl Tree for SupervisedTree {
    fn ready(&self) -> Option<RawFd> {
        Some(self.reports.as_raw_fd())
    }

    fn tick(&self) -> Duration {
        Duration::MAX
    }

    fn events(&mut self) -> Result<Vec<Event>, SandboxError> {
        let mut events = Vec::new();
        while let Some(report) = self.next_report()? {
            match report {
                Report::Exited { status } => events.push(Event::Exited(exit_of(status))),
                Report::Done { survivors, .. } => {
                    events.push(Event::Gone { survivors });
                    self.done = true;
                    break;
                }
                Report::Started => {}
                Report::Failed { .. } => return Err(SandboxError::SupervisorLost),
            }
        }
        Ok(events)
    }

    fn terminate(&mut self) {
        self.order(supervisor::TERM);
        self.signal_descendants(libc::SIGTERM);
        self.signal_descendants(libc::SIGCONT);
    }

    fn kill(&mut self) {
        if !self.killed {
            self.killed = true;
            self.order(supervisor::KILL);
        }
        self.signal_descendants(libc::SIGKILL);
    }

    fn abandon(&mut self) {
        // SAFETY: our own child, not yet reaped. In a PID namespace the whole namespace ends with it.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        self.collect_orphans();
    }
}

impl Drop for SupervisedTree {
    fn drop(&mut self) {
        // For the supervisor the end of the control pipe is the order to end everything.
        self.control = None;
        if self.done && !self.wait(Duration::ZERO) {
            LEAVING.lock().unwrap_or_else(PoisonError::into_inner).push(self.pid);
            return;
        }
        if !self.wait(Duration::from_secs(5)) {
            self.abandon();
            self.wait(Duration::from_secs(1));
        }
    }
}

/// A descriptor that becomes readable when our child ends; none before Linux 5.3.
fn process_handle(pid: pid_t) -> Option<OwnedFd> {
    // SAFETY: takes numbers; the new descriptor, which closes on exec, is owned by nobody else.
    unsafe {
        let fd = c_int::try_from(libc::syscall(libc::SYS_pidfd_open, pid, 0)).ok().filter(|fd| *fd >= 0)?;
        Some(OwnedFd::from_raw_fd(fd))
    }
}

struct Process {
    pid: pid_t,
    parent: pid_t,
    session: pid_t,
}

/// The process table.
fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter_map(|pid: pid_t| {
            let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
            // The name in parentheses may hold anything, parentheses too: state, parent, group and session follow the last.
            let after = stat.iter().rposition(|&byte| byte == b')')? + 1;
            let fields = std::str::from_utf8(&stat[after..]).ok()?;
            let mut fields = fields.split_ascii_whitespace();
            let parent = fields.nth(1)?.parse().ok()?;
            let session = fields.nth(1)?.parse().ok()?;
            Some(Process { pid, parent, session })
        })
        .collect()
}
