//! Running a command on unix systems other than Linux: no isolation, and the process group as the tree.
//!
//! There is neither a subreaper nor a PID namespace here. What leaves the group is found through the process table (macOS), which is
//! looked at again and again while the command runs: a process that leaves its group *and* loses its parent between two
//! looks escapes. The receipt says `process-group`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use libc::{c_int, pid_t};

use super::super::disk::DiskWatch;
use super::super::profile;
use super::super::{
    Adapter, Command, Enforcement, Network, NetworkEnforced, Outcome, Policy, ProcessTree, SETTLE,
    SandboxError, UnixSockets,
};
use super::{Event, Streams, Tree, exit_of, nonblocking, pipe, pump};

pub(in super::super) fn run(
    command: &Command,
    file: &Path,
    policy: &Policy,
    interrupt: &AtomicBool,
) -> Result<Outcome, SandboxError> {
    let adapter = policy.adapter;
    let unavailable = |why: &str| SandboxError::AdapterUnavailable { adapter, why: why.to_owned() };
    let confined = adapter == Adapter::SandboxExec;
    match (adapter, policy.network) {
        (Adapter::SandboxExec, Network::None | Network::Host) | (Adapter::None, Network::Host) => {}
        (_, Network::Allow) => {
            return Err(unavailable("this system has no means to hold a command to a list of hosts"));
        }
        (Adapter::None, _) => {
            return Err(unavailable("this system has no means to keep a command from the network"));
        }
        _ => return Err(unavailable("it is none of this system")),
    }
    let wrapped = if confined { Some(under_profile(command, file, policy)?) } else { None };
    let (run, program) = match &wrapped {
        Some(wrapped) => (wrapped, Path::new(profile::PROGRAM)),
        None => (command, file),
    };
    let started = Instant::now();
    let (mut tree, streams) = start(run, program, policy.disk)?;
    let mut disk = DiskWatch::start(policy.disk, &policy.writable);
    let seen = pump(command, started, &mut tree, streams, &mut disk, interrupt)?;
    Ok(Outcome {
        exit: seen.exit,
        ended: seen.ended,
        duration: seen.duration,
        stdout: seen.stdout,
        stderr: seen.stderr,
        survivors: seen.survivors,
        written: seen.written,
        egress: None,
        enforced: Enforcement {
            adapter,
            filesystem: confined,
            private_root: false,
            network: match policy.network {
                Network::Host => NetworkEnforced::Host,
                _ => NetworkEnforced::NoneProfile,
            },
            unix_sockets: match policy.network {
                Network::Host => UnixSockets::Host,
                _ => UnixSockets::Closed,
            },
            capabilities_dropped: false,
            process_tree: ProcessTree::ProcessGroup,
            landlock_abi: None,
            cpus: None,
        },
    })
}

/// The command as `sandbox-exec` is told to run it.
fn under_profile(command: &Command, file: &Path, policy: &Policy) -> Result<Command, SandboxError> {
    let real = |path: &PathBuf| {
        path.canonicalize().map_err(|source| SandboxError::Path { path: path.clone(), source })
    };
    let writable = policy.writable.iter().map(real).collect::<Result<Vec<_>, _>>()?;
    // What may be read and is not there is not granted.
    let readable: Vec<PathBuf> = policy.readable.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let hidden: Vec<PathBuf> = policy.hidden.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let text = profile::profile(&writable, &readable, &hidden, policy.network).ok_or_else(|| {
        SandboxError::Path {
            path: command.cwd.clone(),
            source: io::Error::new(
                io::ErrorKind::InvalidInput,
                "a profile cannot name this path, or one beside it",
            ),
        }
    })?;
    let mut argv: Vec<OsString> = vec![profile::PROGRAM.into(), "-p".into(), text.into(), file.into()];
    argv.extend(command.argv.iter().skip(1).cloned());
    Ok(Command { argv, ..command.clone() })
}

fn start(
    command: &Command,
    file: &Path,
    file_size: Option<u64>,
) -> Result<(GroupTree, Streams), SandboxError> {
    let setup = |source| SandboxError::Setup { stage: "pipes", source };
    if !command.cwd.is_dir() {
        let source = command.cwd.read_dir().err().unwrap_or_else(|| io::ErrorKind::NotADirectory.into());
        return Err(SandboxError::Cwd { path: command.cwd.clone(), source });
    }
    let (out_read, out) = pipe().map_err(setup)?;
    let mut streams = Streams { stdin: None, stdout: nonblocking(out_read).map_err(setup)?, stderr: None };
    let err = if command.merge_streams {
        out.try_clone().map_err(setup)?
    } else {
        let (err_read, err) = pipe().map_err(setup)?;
        streams.stderr = Some(nonblocking(err_read).map_err(setup)?);
        err
    };
    let stdin = if command.stdin.is_empty() {
        Stdio::from(File::open("/dev/null").map_err(setup)?)
    } else {
        let (read, write) = pipe().map_err(setup)?;
        streams.stdin = Some(nonblocking(write).map_err(setup)?);
        Stdio::from(read)
    };
    let mut child = std::process::Command::new(file);
    child.arg0(&command.argv[0]).args(&command.argv[1..]).current_dir(&command.cwd);
    child.env_clear().envs(command.env.iter().map(|(name, value)| (name, value)));
    child.stdin(stdin).stdout(out).stderr(err);
    // SAFETY: only system calls that are safe after a fork; nothing is allocated.
    unsafe {
        child.pre_exec(move || {
            for signal in 1..32 {
                libc::signal(signal, libc::SIG_DFL);
            }
            libc::umask(0o022);
            let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
            if let Some(most) = file_size {
                let most = libc::rlimit { rlim_cur: most, rlim_max: most };
                if libc::setrlimit(libc::RLIMIT_FSIZE, &raw const most) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            if libc::setsid() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        });
    }
    let spawned = child.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::InvalidInput => {
            SandboxError::Nul { what: "an argument or a variable of the command".into() }
        }
        _ => SandboxError::Exec { program: file.to_path_buf(), source },
    })?;
    // `child` holds our copies of the command's ends of the pipes.
    drop(child);
    Ok((GroupTree { child: spawned, known: BTreeMap::new(), exited: None, killed: 0 }, streams))
}

/// A command and what it was seen to have started. Dropping it ends all of them.
struct GroupTree {
    child: Child,
    /// Descendants, with the time of their start: a number that was given to somebody else since is not ours.
    known: BTreeMap<pid_t, u64>,
    exited: Option<Instant>,
    killed: u32,
}

impl GroupTree {
    fn group(&self) -> pid_t {
        self.child.id().cast_signed()
    }

    /// Looks at the process table; returns who of the tree is alive, besides the command itself.
    fn look(&mut self) -> Vec<pid_t> {
        let table = processes();
        let mut grown = true;
        while grown {
            grown = false;
            for process in &table {
                let below = process.parent == self.group() || self.known.contains_key(&process.parent);
                if below
                    && process.pid != self.group()
                    && self.known.get(&process.pid) != Some(&process.start)
                {
                    self.known.insert(process.pid, process.start);
                    grown = true;
                }
            }
        }
        let alive =
            |pid: pid_t, start: u64| table.iter().any(|process| process.pid == pid && process.start == start);
        self.known.retain(|&pid, &mut start| alive(pid, start));
        self.known.keys().copied().collect()
    }

    fn signal(&mut self, signal: c_int) {
        let others = self.look();
        // SAFETY: takes numbers. The group's number is not reused while the group has a member.
        unsafe {
            libc::kill(-self.group(), signal);
            for pid in others {
                libc::kill(pid, signal);
            }
        }
    }

    fn group_alive(&self) -> bool {
        // SAFETY: takes numbers; signal 0 only asks.
        unsafe { libc::kill(-self.group(), 0) == 0 }
    }
}

impl Tree for GroupTree {
    fn ready(&self) -> Option<RawFd> {
        None
    }

    fn tick(&self) -> Duration {
        Duration::from_millis(if self.exited.is_some() { 2 } else { 10 })
    }

    fn events(&mut self) -> Result<Vec<Event>, SandboxError> {
        let mut events = Vec::new();
        let others = self.look();
        if self.exited.is_none()
            && let Some(status) = self.child.try_wait().map_err(|_| SandboxError::SupervisorLost)?
        {
            self.exited = Some(Instant::now());
            events.push(Event::Exited(exit_of(status.into_raw())));
        }
        if let Some(exited) = self.exited {
            if others.is_empty() && !self.group_alive() {
                events.push(Event::Gone { survivors: self.killed });
            } else if exited.elapsed() > SETTLE {
                if self.killed == 0 {
                    self.killed = u32::try_from(others.len()).unwrap_or(u32::MAX).max(1);
                }
                self.signal(libc::SIGKILL);
            }
        }
        Ok(events)
    }

    fn terminate(&mut self) {
        self.signal(libc::SIGTERM);
        self.signal(libc::SIGCONT);
    }

    fn kill(&mut self) {
        self.signal(libc::SIGKILL);
    }

    fn abandon(&mut self) {
        self.signal(libc::SIGKILL);
    }
}

impl Drop for GroupTree {
    fn drop(&mut self) {
        if self.exited.is_none() || self.group_alive() {
            self.signal(libc::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

struct Process {
    pid: pid_t,
    parent: pid_t,
    /// Microseconds since 1970.
    start: u64,
}

#[cfg(target_vendor = "apple")]
fn processes() -> Vec<Process> {
    let mut pids = vec![0 as pid_t; 16_384];
    // SAFETY: the pointer and the size in bytes are those of one buffer.
    let count = unsafe {
        let bytes = c_int::try_from(size_of_val(pids.as_slice())).unwrap_or(c_int::MAX);
        libc::proc_listallpids(pids.as_mut_ptr().cast(), bytes)
    };
    pids.truncate(usize::try_from(count).unwrap_or(0));
    pids.into_iter()
        .filter_map(|pid| {
            // SAFETY: `proc_bsdinfo` is plain data, and its size is given.
            unsafe {
                let mut info: libc::proc_bsdinfo = std::mem::zeroed();
                let size = c_int::try_from(size_of::<libc::proc_bsdinfo>()).unwrap_or(0);
                let got = libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, (&raw mut info).cast(), size);
                (got == size).then_some(Process {
                    pid,
                    parent: info.pbi_ppid.cast_signed(),
                    start: info.pbi_start_tvsec * 1_000_000 + info.pbi_start_tvusec,
                })
            }
        })
        .collect()
}

/// Without a process table that can be read the group is all there is.
#[cfg(not(target_vendor = "apple"))]
fn processes() -> Vec<Process> {
    Vec::new()
}
