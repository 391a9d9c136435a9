//! Starting a command on Linux: choosing the layers, making the plan, forking the supervisor, talking to it.

use std::collections::BTreeSet;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Instant;

use libc::{c_int, c_uint, pid_t};

use super::super::disk::DiskWatch;
use super::super::proxy::Proxy;
use super::super::root::{self, Grants, c_text};
use super::super::seccomp::{self, Closed, Others, Runner};
use super::super::{
    Adapter, Command, Enforcement, Exit, Network, NetworkEnforced, Outcome, Policy, ProcessTree, SETTLE,
    SandboxError, UnixSockets, bwrap, cpus, landlock, sockets,
};
use super::around::{Wrapper, proxy_variables, root_maps};
use super::layers::receive_descriptor;
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
    /// How many processors it is held to.
    pub cpus: Option<u32>,
}

impl Layers {
    fn landlock(self) -> bool {
        self.adapter == Adapter::Landlock
    }

    fn bwrap(self) -> bool {
        self.adapter == Adapter::Bwrap
    }

    /// Whether the command has a network of its own, with nothing in it but loopback.
    fn own_network(self) -> bool {
        self.namespaces && self.network != Network::Host
    }

    fn enforcement(self) -> Enforcement {
        let abi = self.abi;
        let network = match self.network {
            Network::Host => NetworkEnforced::Host,
            Network::Allow => NetworkEnforced::AllowNamespace,
            Network::None if self.namespaces => NetworkEnforced::NoneNamespace,
            Network::None => NetworkEnforced::NoneSeccomp,
        };
        // Two kinds of sockets lead out: files (closed by the private root, or by Landlock), and abstract names, which belong to the
        // network namespace (closed by a new one, or by Landlock).
        let files = self.namespaces || abi >= landlock::ABI_SOCKET_FILES;
        let names = self.own_network() || abi >= landlock::ABI_SCOPES;
        let isolated = self.landlock() || self.bwrap();
        let unix_sockets = match (isolated, files && names) {
            (false, _) => UnixSockets::Host,
            (true, true) => UnixSockets::Private,
            (true, false) => UnixSockets::Closed,
        };
        let scopes = self.bwrap() && abi >= landlock::ABI_SCOPES;
        Enforcement {
            adapter: self.adapter,
            filesystem: isolated,
            private_root: self.namespaces,
            network,
            unix_sockets,
            capabilities_dropped: isolated,
            process_tree: if self.namespaces { ProcessTree::PidNamespace } else { ProcessTree::Subreaper },
            landlock_abi: (self.landlock() || scopes).then_some(abi),
            cpus: self.cpus,
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
            hardening: enforcement.filesystem,
            ipc: alone,
            signals: (alone && self.abi < landlock::ABI_SCOPES).then_some(Runner { pid, group }),
            limits: match (enforcement.filesystem, alone) {
                (false, _) => Others::None,
                (true, false) => Others::First,
                (true, true) => Others::All,
            },
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
    let with = |namespaces| {
        run_with(
            command,
            file,
            policy,
            interrupt,
            Layers { adapter, namespaces, network, abi, cpus: policy.cpus },
        )
    };
    let told = |refused: Refused| refused.told(command, file);
    if !matches!(adapter, Adapter::Landlock | Adapter::Bwrap | Adapter::None) {
        let why = "it is none of this system".to_owned();
        return Err(SandboxError::AdapterUnavailable { adapter, why });
    }
    // What cannot be had without namespaces is not tried without them.
    let needs = if adapter == Adapter::Bwrap {
        Some("bubblewrap needs namespaces")
    } else if adapter == Adapter::Landlock && network == Network::Allow {
        Some("a network allow-list needs a network namespace")
    } else {
        None
    };
    if let Some(needs) = needs {
        return match with(true) {
            Err(Refused::At { stage, errno }) if stage.is_namespaces() => {
                let source = io::Error::from_raw_os_error(errno);
                let why = format!("{needs}, and this machine gives none ({}: {source})", stage.name());
                Err(SandboxError::AdapterUnavailable { adapter, why })
            }
            other => other.map_err(told),
        };
    }
    if adapter == Adapter::None && network == Network::Allow {
        let why = "a network allow-list needs a sandbox, and this adapter is none".to_owned();
        return Err(SandboxError::AdapterUnavailable { adapter, why });
    }
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
    let (mut tree, streams, gate) = start(command, file, policy, layers)?;
    if layers.namespaces {
        NAMESPACES.store(GRANTED, Ordering::SeqCst);
    }
    let proxy = gate.map(|listener| Proxy::start(listener, policy.allow.clone())).transpose();
    let proxy = proxy.map_err(|source| SandboxError::Setup { stage: "proxy", source })?;
    let mut disk = DiskWatch::start(policy.disk, &policy.writable);
    let seen = pump(command, started, &mut tree, streams, &mut disk, interrupt)?;
    let egress = proxy.map(Proxy::finish);
    if layers.bwrap() && seen.exit == Exit::Code(1) {
        let said = if command.merge_streams { &seen.stdout } else { &seen.stderr };
        let said = said.whole.as_deref().unwrap_or_default();
        let program = file.to_string_lossy();
        if let Some(why) = bwrap::exec_failure(said, &program) {
            // It gives the words of an error, and the number is what counts here.
            let words = |number: &i32| io::Error::from_raw_os_error(*number).to_string();
            let number = (1..134)
                .find(|number| words(number).strip_prefix(why).is_some_and(|rest| rest.starts_with(" (")));
            let source =
                number.map_or_else(|| io::Error::other(why.to_owned()), io::Error::from_raw_os_error);
            return Err(SandboxError::Exec { program: file.to_path_buf(), source }.into());
        }
    }
    Ok(Outcome {
        egress,
        exit: seen.exit,
        ended: seen.ended,
        duration: seen.duration,
        stdout: seen.stdout,
        stderr: seen.stderr,
        survivors: seen.survivors,
        written: seen.written,
        enforced: layers.enforcement(),
    })
}

/// Starts a command; comes back once it has exec'ed.
fn start(
    command: &Command,
    file: &Path,
    policy: &Policy,
    layers: Layers,
) -> Result<(SupervisedTree, Streams, Option<TcpListener>), Refused> {
    let setup = |stage| move |source| Refused::Other(SandboxError::Setup { stage, source });
    let adapter = layers.adapter;
    let (mut root, mut ruleset) = (None, None);
    let mut overlay = None;
    if command.overlay.is_some() && !(layers.landlock() && layers.namespaces) {
        return Err(Refused::At { stage: Stage::Overlay, errno: libc::EOPNOTSUPP });
    }
    let memory = policy.disk.map_or(root::MEMORY, |disk| disk.min(root::MEMORY));
    let filters = seccomp::programs(&layers.closed());
    let mut filters = filters.map_err(|why| SandboxError::AdapterUnavailable { adapter, why })?;
    let grants = || {
        let grants = Grants::new(&policy.readable, &policy.writable, &policy.hidden);
        let mut grants = grants.map_err(|(path, source)| SandboxError::Path { path, source })?;
        // Without a root of its own a command has no sockets that are files.
        if layers.namespaces && layers.abi < landlock::ABI_SOCKET_FILES {
            grants.hide_sockets(&sockets::bound());
        }
        Ok::<_, SandboxError>(grants)
    };
    let mut wrapper = None;
    if layers.landlock() {
        let grants = grants()?;
        if layers.namespaces {
            if let Some(wanted) = &command.overlay {
                let planned = root::plan_overlay(wanted, &grants);
                overlay = Some(planned.ok_or(Refused::At { stage: Stage::Overlay, errno: libc::EINVAL })?);
            }
            let plan = root::plan(&grants, memory, overlay.as_ref());
            root = Some(plan.ok_or(Refused::At { stage: Stage::Root, errno: libc::ENOENT })?);
        }
        let set = landlock::ruleset(&grants, layers.namespaces, layers.abi).map_err(setup("landlock"))?;
        ruleset = Some(above_two(set).map_err(setup("landlock"))?);
    } else if layers.bwrap() {
        wrapper = Some(Wrapper::new(command, &grants()?, memory, &filters).map_err(setup("pipes"))?);
        // Bubblewrap loads them when it has done what they forbid.
        filters = Vec::new();
        if layers.abi >= landlock::ABI_SCOPES {
            let set = landlock::scopes(layers.abi).map_err(setup("landlock"))?;
            ruleset = Some(above_two(set).map_err(setup("landlock"))?);
        }
    }

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
    if let Some(wrapper) = &wrapper {
        // The program of the command is named by where it was found: bubblewrap would look for it in its own way.
        strings[0] = text(file.as_os_str(), &|| "the program's path".into())?;
        let before: Result<Vec<CString>, SandboxError> =
            wrapper.words.iter().map(|word| text(word, &|| "a granted path".into())).collect();
        strings.splice(0..0, before?);
    }
    let words = strings.len();
    let proxied = if layers.network == Network::Allow { proxy_variables(&policy.allow) } else { Vec::new() };
    let own = command.env.iter().filter(|(name, _)| proxied.iter().all(|(other, _)| other != name));
    for (name, value) in own.chain(&proxied) {
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
    let (argv, envp) = strings.split_at(words);
    let (argv, envp) = (pointers(argv), pointers(envp));

    let raw = |fd: &OwnedFd| fd.as_raw_fd();
    let descriptors = [raw(&stdin), raw(&out), err.as_ref().map_or(raw(&out), raw)];
    let mut keep: BTreeSet<RawFd> = descriptors.into();
    keep.extend([raw(&report), raw(&control)]);
    keep.extend(ruleset.as_ref().map(raw));
    keep.extend(wrapper.iter().flat_map(Wrapper::descriptors));
    let gate = if layers.network == Network::Allow && layers.namespaces {
        let (ours, theirs) = UnixStream::pair().map_err(setup("pipes"))?;
        Some((
            above_two(ours.into()).map_err(setup("pipes"))?,
            above_two(theirs.into()).map_err(setup("pipes"))?,
        ))
    } else {
        None
    };
    keep.extend(gate.as_ref().map(|(_, theirs)| raw(theirs)));
    let mut flags = libc::SIGCHLD;
    let mut maps = None;
    if layers.namespaces {
        flags |= libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC;
        if layers.own_network() {
            flags |= libc::CLONE_NEWNET;
        }
        if !is_administrator() {
            flags |= libc::CLONE_NEWUSER;
            // To bubblewrap, who has capabilities without being root is a mistake.
            maps = Some(if layers.bwrap() { root_maps() } else { identity_maps() });
        }
    }
    let cpus = policy.cpus.map(cpus::choose).transpose();
    let cpus = cpus.map_err(|why| SandboxError::AdapterUnavailable { adapter: layers.adapter, why })?;
    let cpus = cpus.map(|cpus| cpus::set_of(&cpus));
    let mut plan = Plan {
        program: match wrapper.as_ref().and_then(|wrapper| wrapper.words.first()) {
            Some(bwrap) => text(bwrap, &|| "bubblewrap's path".into())?,
            None => text(file.as_os_str(), &|| "the program's path".into())?,
        },
        argv,
        envp,
        _strings: strings,
        cwd: text(command.cwd.as_os_str(), &|| "the working folder".into())?,
        streams: descriptors,
        report: raw(&report),
        control: raw(&control),
        close: gaps(&keep),
        maps,
        loopback: layers.own_network(),
        gate: gate.as_ref().map(|(_, theirs)| raw(theirs)),
        wrapped: wrapper.as_ref().map(Wrapper::plan),
        file_size: policy.disk,
        cpus,
        trees: vec![-1; root.as_ref().map_or(0, |root| root.binds().count())],
        late_rules: if root.is_some() { landlock::late_rules(layers.abi).to_vec() } else { Vec::new() },
        root,
        overlay,
        overlay_access: landlock::late_write(layers.abi),
        pid_namespace: layers.namespaces,
        drop_capabilities: layers.landlock(),
        no_new_privs: layers.landlock() || layers.bwrap() || !filters.is_empty(),
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
    let gate = gate.map(|(ours, _)| ours);
    drop((stdin, out, err, report, control, ruleset, wrapper, plan));
    let mut tree = SupervisedTree::new(pid, layers.namespaces, ours(report_read)?, ours(control_write)?);
    match tree.first_report()? {
        Report::Started => {
            let listener = gate.map(|gate| receive_descriptor(gate.as_raw_fd()).map(TcpListener::from));
            if matches!(listener, Some(None)) {
                return Err(Refused::At { stage: Stage::Gate, errno: libc::ECONNRESET });
            }
            Ok((tree, streams, listener.flatten()))
        }
        Report::Failed { stage: Stage::Bwrap, .. } => {
            // Before the command, nobody but bubblewrap writes here.
            let said = streams.stderr.as_mut().unwrap_or(&mut streams.stdout);
            let mut text = Vec::new();
            let _ = io::Read::read_to_end(&mut io::Read::take(said, 4096), &mut text);
            let text = String::from_utf8_lossy(&text).trim().to_owned();
            let source = io::Error::other(if text.is_empty() { "it ended".to_owned() } else { text });
            Err(SandboxError::Setup { stage: Stage::Bwrap.name(), source }.into())
        }
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
