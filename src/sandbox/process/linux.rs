//! Starting a command on Linux: choosing the layers, making the plan, forking the supervisor, talking to it.

use std::collections::BTreeSet;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Instant;

use libc::{c_int, c_uint, pid_t};

use super::super::root::{self, Grants, c_text};
use super::super::seccomp::{self, Closed, Runner};
use super::super::{
    Adapter, Command, Enforcement, Network, NetworkEnforced, Outcome, Policy, ProcessTree, SETTLE,
    SandboxError, UnixSockets, landlock,
};
use super::supervisor::{self, Plan, Report, Stage};
use super::tree::{SUPERVISORS, SupervisedTree, reap_leaving};
use super::{Streams, above_two, nonblocking, pipe, pump};

/// Enough for a few system calls.
const STACK: usize = 64 << 10;

/// Whether this machine gives us namespaces: found out by the first command, and then fixed. A machine that gave them once and
/// refuses them later is an error, not a reason to do with less.
static NAMESPACES: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const GRANTED: u8 = 1;
const DENIED: u8 = 2;

/// Whether a command had namespaces, so that from here on every one has them or is not run.
pub(in super::super) fn has_namespaces() -> bool {
    NAMESPACES.load(Ordering::SeqCst) == GRANTED
}

/// The layers around one command.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Layers {
    pub adapter: Adapter,
    pub namespaces: bool,
    pub network: Network,
    /// The Landlock ABI to use, the kernel's or (in tests) an older one.
    pub abi: u32,
}

impl Layers {
    fn landlock(self) -> bool {
        self.adapter == Adapter::Landlock
    }

    fn enforcement(self) -> Enforcement {
        let abi = self.abi;
        let network = match self.network {
            Network::Host => NetworkEnforced::Host,
            Network::None if self.namespaces => NetworkEnforced::NoneNamespace,
            Network::None => NetworkEnforced::NoneSeccomp,
        };
        // Two kinds of sockets lead out: files (closed by the private root, or by Landlock), and abstract names, which belong to the
        // network namespace (closed by a new one, or by Landlock).
        let files = self.namespaces || abi >= landlock::ABI_SOCKET_FILES;
        let names = network == NetworkEnforced::NoneNamespace || abi >= landlock::ABI_SCOPES;
        let unix_sockets = match self.adapter {
            Adapter::None => UnixSockets::Host,
            Adapter::Landlock if files && names => UnixSockets::Private,
            Adapter::Landlock => UnixSockets::Closed,
        };
        Enforcement {
            adapter: self.adapter,
            filesystem: self.landlock(),
            private_root: self.namespaces,
            network,
            unix_sockets,
            capabilities_dropped: self.landlock(),
            process_tree: if self.namespaces { ProcessTree::PidNamespace } else { ProcessTree::Subreaper },
            landlock_abi: self.landlock().then_some(abi),
        }
    }

    fn closed(self) -> Closed {
        let enforcement = self.enforcement();
        let alone = self.landlock() && !self.namespaces;
        // SAFETY: both only return numbers.
        let (pid, group) = unsafe { (libc::getpid(), libc::getpgrp()) };
        Closed {
            inet: enforcement.network == NetworkEnforced::NoneSeccomp,
            unix: enforcement.unix_sockets == UnixSockets::Closed,
            hardening: self.landlock(),
            ipc: alone,
            signals: (alone && self.abi < landlock::ABI_SCOPES).then_some(Runner { pid, group }),
        }
    }
}

/// Why a command did not start.
enum Refused {
    At { stage: Stage, errno: i32 },
    Other(SandboxError),
}

impl Refused {
    fn told(self, command: &Command, file: &Path) -> SandboxError {
        let (stage, errno) = match self {
            Self::At { stage, errno } => (stage, errno),
            Self::Other(error) => return error,
        };
        let source = io::Error::from_raw_os_error(errno);
        match stage {
            Stage::Exec => SandboxError::Exec { program: file.to_path_buf(), source },
            Stage::Cwd => SandboxError::Cwd { path: command.cwd.clone(), source },
            _ => SandboxError::Setup { stage: stage.name(), source },
        }
    }
}

impl From<SandboxError> for Refused {
    fn from(error: SandboxError) -> Self {
        Self::Other(error)
    }
}

pub(in super::super) fn run(
    command: &Command,
    file: &Path,
    policy: &Policy,
    interrupt: &AtomicBool,
) -> Result<Outcome, SandboxError> {
    let (adapter, network, abi) = (policy.adapter, policy.network, landlock::abi());
    let with =
        |namespaces| run_with(command, file, policy, interrupt, Layers { adapter, namespaces, network, abi });
    let told = |refused: Refused| refused.told(command, file);
    if adapter == Adapter::Landlock && NAMESPACES.load(Ordering::SeqCst) != DENIED {
        match with(true) {
            Err(Refused::At { stage, .. })
                if stage.is_namespaces() && NAMESPACES.load(Ordering::SeqCst) != GRANTED =>
            {
                NAMESPACES.store(DENIED, Ordering::SeqCst);
            }
            other => return other.map_err(told),
        }
    }
    if adapter == Adapter::Landlock && abi < landlock::MIN_ABI_ALONE {
        let why = format!(
            "this kernel has Landlock ABI {abi}; where namespaces are refused, as here, at least {} (Linux 6.2) is needed",
            landlock::MIN_ABI_ALONE
        );
        return Err(SandboxError::AdapterUnavailable { adapter, why });
    }
    with(false).map_err(told)
}

/// Runs a command under exactly these layers.
#[cfg(test)]
pub(in super::super) fn run_layers(
    command: &Command,
    policy: &Policy,
    interrupt: &AtomicBool,
    layers: Layers,
) -> Result<Outcome, SandboxError> {
    let file = super::super::program_of(command)?;
    run_with(command, &file, policy, interrupt, layers).map_err(|refused| refused.told(command, &file))
}

fn run_with(
    command: &Command,
    file: &Path,
    policy: &Policy,
    interrupt: &AtomicBool,
    layers: Layers,
) -> Result<Outcome, Refused> {
    let started = Instant::now();
    let (mut tree, streams) = start(command, file, policy, layers)?;
    if layers.namespaces {
        NAMESPACES.store(GRANTED, Ordering::SeqCst);
    }
    let seen = pump(command, started, &mut tree, streams, interrupt)?;
    Ok(Outcome {
        exit: seen.exit,
        ended: seen.ended,
        duration: seen.duration,
        stdout: seen.stdout,
        stderr: seen.stderr,
        survivors: seen.survivors,
        enforced: layers.enforcement(),
    })
}

/// Starts a command; comes back once it has exec'ed.
fn start(
    command: &Command,
    file: &Path,
    policy: &Policy,
    layers: Layers,
) -> Result<(SupervisedTree, Streams), Refused> {
    let setup = |stage| move |source| Refused::Other(SandboxError::Setup { stage, source });
    let adapter = layers.adapter;
    let (mut root, mut ruleset) = (None, None);
    if layers.landlock() {
        let grants = Grants::new(&policy.readable, &policy.writable);
        let grants = grants.map_err(|(path, source)| SandboxError::Path { path, source })?;
        if layers.namespaces {
            let plan = root::plan(&grants);
            root = Some(plan.ok_or(Refused::At { stage: Stage::Root, errno: libc::ENOENT })?);
        }
        let set = landlock::ruleset(&grants, layers.namespaces, layers.abi).map_err(setup("landlock"))?;
        ruleset = Some(above_two(set).map_err(setup("landlock"))?);
    }
    let filters = seccomp::programs(&layers.closed());
    let filters = filters.map_err(|why| SandboxError::AdapterUnavailable { adapter, why })?;

    let (report_read, report) = pipe().map_err(setup("pipes"))?;
    let (control, control_write) = pipe().map_err(setup("pipes"))?;
    let ours = |fd: OwnedFd| nonblocking(fd).map_err(setup("pipes"));
    let (out_read, out) = pipe().map_err(setup("pipes"))?;
    let mut streams = Streams { stdin: None, stdout: ours(out_read)?, stderr: None };
    let mut err = None;
    if !command.merge_streams {
        let (err_read, write) = pipe().map_err(setup("pipes"))?;
        streams.stderr = Some(ours(err_read)?);
        err = Some(write);
    }
    let stdin = if command.stdin.is_empty() {
        let null = File::open("/dev/null").map_err(setup("pipes"))?;
        above_two(null.into()).map_err(setup("pipes"))?
    } else {
        let (read, write) = pipe().map_err(setup("pipes"))?;
        streams.stdin = Some(ours(write)?);
        read
    };

    let text = |text: &std::ffi::OsStr, what: &dyn Fn() -> String| {
        c_text(text).ok_or_else(|| SandboxError::Nul { what: what() })
    };
    let mut strings = Vec::new();
    for (at, argument) in command.argv.iter().enumerate() {
        strings.push(text(argument, &|| format!("argument {at} of the command"))?);
    }
    for (name, value) in &command.env {
        let mut pair = OsString::from(name);
        pair.push("=");
        pair.push(value);
        strings.push(text(&pair, &|| format!("environment variable {}", name.display()))?);
    }
    let pointers = |part: &[CString]| {
        let mut pointers: Vec<_> = part.iter().map(|text| text.as_ptr()).collect();
        pointers.push(std::ptr::null());
        pointers
    };
    // The strings' buffers stay where they are when the vector moves into the plan.
    let (argv, envp) = strings.split_at(command.argv.len());
    let (argv, envp) = (pointers(argv), pointers(envp));

    let raw = |fd: &OwnedFd| fd.as_raw_fd();
    let descriptors = [raw(&stdin), raw(&out), err.as_ref().map_or(raw(&out), raw)];
    let mut keep: BTreeSet<RawFd> = descriptors.into();
    keep.extend([raw(&report), raw(&control)]);
    keep.extend(ruleset.as_ref().map(raw));
    let no_network = layers.namespaces && layers.network == Network::None;
    let mut flags = libc::SIGCHLD;
    let mut maps = None;
    if layers.namespaces {
        flags |= libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
        if no_network {
            flags |= libc::CLONE_NEWNET;
        }
        if !is_administrator() {
            flags |= libc::CLONE_NEWUSER;
            maps = Some(identity_maps());
        }
    }
    let mut plan = Plan {
        program: text(file.as_os_str(), &|| "the program's path".into())?,
        argv,
        envp,
        _strings: strings,
        cwd: text(command.cwd.as_os_str(), &|| "the working folder".into())?,
        streams: descriptors,
        report: raw(&report),
        control: raw(&control),
        close: gaps(&keep),
        maps,
        loopback: no_network,
        trees: vec![-1; root.as_ref().map_or(0, |root| root.binds.len())],
        late_rules: if root.is_some() { landlock::late_rules(layers.abi).to_vec() } else { Vec::new() },
        root,
        pid_namespace: layers.namespaces,
        drop_capabilities: layers.landlock(),
        no_new_privs: layers.landlock() || !filters.is_empty(),
        ruleset: ruleset.as_ref().map(raw),
        filters,
        stack: vec![MaybeUninit::uninit(); STACK],
        settle_ms: i32::try_from(SETTLE.as_millis()).unwrap_or(i32::MAX),
    };
    if !layers.namespaces {
        // Should the supervisor be killed, its orphans come to us.
        // SAFETY: takes numbers; changes who our orphaned descendants fall to.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1 as libc::c_ulong, 0 as libc::c_ulong) };
    }
    let pid = fork(&mut plan, flags).map_err(|error| Refused::At {
        stage: Stage::Clone,
        errno: error.raw_os_error().unwrap_or(libc::EAGAIN),
    })?;
    drop((stdin, out, err, report, control, ruleset, plan));
    let mut tree = SupervisedTree::new(pid, layers.namespaces, ours(report_read)?, ours(control_write)?);
    match tree.first_report()? {
        Report::Started => Ok((tree, streams)),
        Report::Failed { stage, errno } => Err(Refused::At { stage, errno }),
        Report::Exited { .. } | Report::Done { .. } => Err(SandboxError::SupervisorLost.into()),
    }
}

/// Forks the supervisor. In a thread: the copy has only this one, which is why it runs nothing but `supervise`.
fn fork(plan: &mut Plan, flags: c_int) -> io::Result<pid_t> {
    reap_leaving();
    let mut known = SUPERVISORS.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: signal sets are plain data. No handler of ours runs in the copy, because all signals are blocked before it exists and stay
    // so. With no stack given, the clone is a fork, on every architecture that `seccomp::architecture` lets through with flags as the
    // first argument. The child calls `supervise`, which upholds what is allowed after a fork and never returns.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let pid =
            libc::syscall(libc::SYS_clone, libc::c_long::from(flags), 0_usize, 0_usize, 0_usize, 0_usize);
        if pid == 0 {
            supervisor::supervise(plan);
        }
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        let pid = pid_t::try_from(pid).unwrap_or(-1);
        if pid < 0 {
            return Err(error);
        }
        known.insert(pid);
        Ok(pid)
    }
}

/// The ranges of descriptors that are not kept.
fn gaps(keep: &BTreeSet<RawFd>) -> Vec<(c_uint, c_uint)> {
    let mut ranges = Vec::new();
    let mut next = 0;
    for fd in keep.iter().map(|fd| fd.cast_unsigned()) {
        if next < fd {
            ranges.push((next, fd - 1));
        }
        next = fd + 1;
    }
    ranges.push((next, c_uint::MAX));
    ranges
}

/// Whether namespaces can be had without a user namespace (`CAP_SYS_ADMIN`).
fn is_administrator() -> bool {
    const SYS_ADMIN: u32 = 21;
    let header = [0x2008_0522_u32, 0];
    let mut data = [0_u32; 6];
    // SAFETY: the arrays have the layout of the kernel's header and data, version 3.
    let rc = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), data.as_mut_ptr()) };
    rc == 0 && data[0] & (1 << SYS_ADMIN) != 0
}

/// The user and the group stay what they are; no other exists in the user namespace.
fn identity_maps() -> [CString; 2] {
    // SAFETY: both only return numbers.
    let ids = unsafe { [libc::geteuid(), libc::getegid()] };
    ids.map(|id| CString::new(format!("{id} {id} 1")).expect("digits and spaces have no NUL byte"))
}
