//! Running the worker and the check of an iteration: what they may touch, what they see, and that nothing of them stays.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`capture`] | output that was printed, bounded in memory |
//! | [`live`], [`redact`] | the same in files while the command runs, without secrets |
//! | [`environment`] | the allow-listed environment and the fresh `HOME` of a worker and of a check |
//! | [`toolchain`] | cargo, Python and node from where the user has them, read-only |
//! | [`shell`] | string commands with pipefail; which file a program name means |
//! | `process` | fork, supervise, feed, read, end; the only code between `fork` and `exec` |
//! | `root`, `landlock`, `seccomp` | the three layers of the `landlock` adapter |
//! | `bwrap` | the root of the `bwrap` adapter, as bubblewrap's arguments |
//! | `container`, `profile` | the command lines of docker and podman; the profile of macOS's `sandbox-exec` |
//! | [`egress`] and `proxy` | a network of named hosts only |
//! | `disk` | what a command's folders hold |
//! | `sockets` | the socket files that a granted folder must not lead to |
//! | [`cpus`] | how many processors a command sees |
//!
//! # What the `landlock` adapter does
//!
//! Landlock is the floor: files that were not granted cannot be opened, whatever else holds. It does not cover `stat`,
//! `chmod`, connecting to a socket file or signalling (before ABI 6), so where the kernel lets us the command also runs in new
//! PID, mount, IPC and (for no network) network namespaces, on a root that contains the granted paths only, everything
//! but the writable ones mounted read-only. Where it does not (user namespaces switched off, no `CAP_SYS_ADMIN`), a seccomp
//! filter closes sockets and signals to us instead, and [`Enforcement`] says so: it goes into the receipt.
//! In both cases all capabilities are dropped, root included, and no privilege can be regained.
//!
//! In a private root `/tmp` and `/dev/shm` are the command's own, in memory, 1 GiB together; `TMPDIR` is the place for
//! more. Two writable paths are two mounts: a rename from one to the other fails as between two disks, so what belongs together is
//! granted as one folder.
//!
//! Measured, least of 300 runs of `true` by a debug build on a busy 2-core machine: plain spawn 0.8 ms; adapter `none` 1.2 ms; `landlock` 2.2 ms
//! with the host's network, 2.6 ms with a network namespace.
//!
//! Not covered: CPU and memory beyond the time-out and the output cap; files that root may read although the
//! world may not, outside of `/etc`, in a folder that was granted.

pub mod capture;
pub mod cpus;
pub mod egress;
pub mod environment;
pub mod live;
pub mod redact;
pub mod shell;
pub mod toolchain;

#[cfg(target_os = "linux")]
mod bwrap;
#[cfg(unix)]
mod container;
#[cfg(unix)]
mod disk;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(unix)]
mod process;
#[cfg_attr(not(target_os = "macos"), allow(dead_code))]
mod profile;
#[cfg(target_os = "linux")]
mod proxy;
#[cfg(target_os = "linux")]
mod root;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use capture::Captured;
#[cfg(unix)]
pub use container::{Named, end_noted};
pub use egress::Egress;

/// What to run. Nothing is inherited from this process: no variable, no file, no signal setting, no terminal.
#[derive(Debug, Clone)]
pub struct Command {
    /// Program and arguments. A name without a slash is looked up in the `PATH` of `env`, never inside `cwd`.
    pub argv: Vec<OsString>,
    /// The working folder.
    pub cwd: PathBuf,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// What lies below a writable folder, if it is the upper layer of an overlay.
    pub overlay: Option<Overlay>,
    /// Standard input; empty means `/dev/null`.
    pub stdin: Vec<u8>,
    /// How long it may run; afterwards it gets SIGTERM, and SIGKILL after [`TERM_GRACE`].
    pub timeout: Duration,
    /// How long it may print nothing; then it is ended in the same way.
    pub idle: Option<Duration>,
    /// One pipe for stdout and stderr, in the order of the writes; it is found in [`Outcome::stdout`].
    pub merge_streams: bool,
    /// Standard output of up to this many bytes is kept whole. Nothing is read from standard error: of it no more is kept whole than head and tail hold.
    pub keep_whole: usize,
    /// How many bytes of the start, and of the end, of a longer stream are kept.
    pub head_tail: usize,
    /// Past this many bytes, both streams together, the process tree is ended ([`Ended::OutputLimit`]).
    pub max_output: u64,
    /// Where what it prints is written while it runs, if anywhere: as much as `head_tail` says.
    pub live: Option<live::Live>,
}

impl Command {
    /// A command with the defaults: no variables, no input, 10 minutes, 16 MiB whole, 64 KiB head and tail, 1 GiB of output.
    pub fn new(argv: impl IntoIterator<Item = impl Into<OsString>>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: cwd.into(),
            env: Vec::new(),
            overlay: None,
            stdin: Vec::new(),
            timeout: Duration::from_secs(600),
            idle: None,
            merge_streams: false,
            keep_whole: 16 << 20,
            head_tail: 64 << 10,
            max_output: 1 << 30,
            live: None,
        }
    }
}

#[cfg_attr(not(unix), allow(dead_code))]
impl Command {
    /// Up to how many bytes standard error is kept whole: never less than the message of an engine or of bubblewrap takes.
    fn keep_whole_of_stderr(&self) -> usize {
        self.keep_whole.min(self.head_tail.saturating_mul(2)).max(4 << 10)
    }
}

/// A folder that the command sees with other layers below it (overlayfs). Only the command does: the mount is one of its own
/// mount namespace, so this needs a private root, and without one the command is not run.
#[derive(Debug, Clone)]
pub struct Overlay {
    /// The folder: one of the policy's writable ones. What the command changes in it lies there afterwards, with the kernel's
    /// marks for what it removed.
    pub upper: PathBuf,
    /// The layers below, the uppermost first. Nothing is written to them.
    pub lower: Vec<PathBuf>,
    /// An empty folder on the file system of `upper`, out of the command's reach.
    pub work: PathBuf,
    /// Whether the marks go into `user.overlay.*`. Else they go into `trusted.overlay.*`, which needs an administrator,
    /// and folders of the lower layers can be renamed.
    pub user_marks: bool,
}

impl Overlay {
    /// Where on the host a path lies that the command names, as far as that can be said without a mount.
    fn on_host(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.upper).ok()?;
        let mut layers = std::iter::once(&self.upper).chain(&self.lower).map(|layer| layer.join(below));
        layers.find(|file| file.symlink_metadata().is_ok())
    }
}

/// Between SIGTERM and SIGKILL after a time-out.
pub const TERM_GRACE: Duration = Duration::from_secs(2);
/// Between SIGTERM and SIGKILL after an interruption: `run` is back within two seconds.
pub const INTERRUPT_GRACE: Duration = Duration::from_secs(1);
/// How long what a command left behind may finish by itself (a `tee` at the end of a pipe) before it is ended.
pub const SETTLE: Duration = Duration::from_millis(200);

/// What isolates a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Adapter {
    /// Landlock, seccomp and, where they can be had, namespaces. Linux.
    Landlock,
    /// bubblewrap, with the same namespaces and seccomp filter. Linux.
    Bwrap,
    /// A container of Docker, from an image that is pinned by its digest.
    Docker,
    /// The same of Podman.
    Podman,
    /// The sandbox of macOS, with a profile for each command.
    SandboxExec,
    /// Nothing, except that the process tree is ended and `Network::None` still holds or is refused.
    None,
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Landlock => "landlock",
            Self::Bwrap => "bwrap",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::SandboxExec => "sandbox-exec",
            Self::None => "none",
        })
    }
}

impl Adapter {
    /// Whether its commands run in an image that has their programs, and see none of the host's.
    pub fn has_image(self) -> bool {
        matches!(self, Self::Docker | Self::Podman)
    }
}

/// What network a command has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// None but loopback, or no sockets at all: [`Enforcement::network`] says which.
    None,
    /// The hosts that [`Policy::allow`] lists, through a proxy, and loopback.
    Allow,
    /// The host's.
    Host,
}

/// What a command may touch.
#[derive(Debug, Clone)]
pub struct Policy {
    /// What enforces it.
    pub adapter: Adapter,
    /// The image of an adapter that [has one](Adapter::has_image), pinned by its digest.
    pub image: Option<String>,
    /// The name of its container, for such an adapter; without one it gets a name that nobody needs to know.
    #[cfg(unix)]
    pub container: Option<Named>,
    /// Its network.
    pub network: Network,
    /// Whom it may speak to, with [`Network::Allow`].
    pub allow: Vec<egress::Rule>,
    /// How many bytes its writable folders may hold together; past that it is ended ([`Ended::DiskLimit`]). No file that it
    /// writes becomes larger, and what it has in memory in the place of folders does not, either.
    pub disk: Option<u64>,
    /// How many processors it sees; without a number those of this process.
    pub cpus: Option<u32>,
    /// Folders and files it may change. Each must exist; symlinks are followed.
    pub writable: Vec<PathBuf>,
    /// Folders and files it may read and execute, besides the system's. Those that do not exist, and those below a
    /// writable folder, are left out.
    pub readable: Vec<PathBuf>,
    /// Folders and files that it must not see although they lie in a folder that it may read. What is granted below one of them is
    /// seen all the same. Not for an adapter that [has an image](Adapter::has_image).
    pub hidden: Vec<PathBuf>,
}

impl Policy {
    /// A policy that grants nothing but the system's folders.
    pub fn new(adapter: Adapter, network: Network) -> Self {
        Self {
            adapter,
            image: None,
            #[cfg(unix)]
            container: None,
            network,
            allow: Vec::new(),
            disk: None,
            cpus: None,
            writable: Vec::new(),
            readable: Vec::new(),
            hidden: Vec::new(),
        }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// The code a shell would show: the exit code, or 128 plus the signal.
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// Why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// By itself (or somebody outside sent a signal).
    Itself,
    /// We ended it at its time-out.
    TimedOut,
    /// We ended it because it printed nothing for too long.
    Idle,
    /// We ended it because it printed too much.
    OutputLimit,
    /// We ended it because its folders held too much.
    DiskLimit,
    /// We ended it because we were told to stop.
    Interrupted,
}

/// What came of a command.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended.
    pub exit: Exit,
    /// Why it ended.
    pub ended: Ended,
    /// From its start to its end by our monotonic clock, without the clearing up.
    pub duration: Duration,
    /// Its standard output, or both streams if they were merged.
    pub stdout: Captured,
    /// Its standard error; empty if the streams were merged.
    pub stderr: Captured,
    /// Descendants that were still there after the command itself had gone and had to be killed.
    pub survivors: u32,
    /// What became of [`Command::live`].
    pub written: live::Written,
    /// What it asked for with [`Network::Allow`]; else `None`.
    pub egress: Option<Egress>,
    /// What was enforced.
    pub enforced: Enforcement,
}

/// How "no network" was enforced, if it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkEnforced {
    /// A network namespace of its own with nothing but loopback.
    NoneNamespace,
    /// Sockets cannot be created; there is no loopback either.
    NoneSeccomp,
    /// Sockets cannot be used, by the profile of `sandbox-exec`; there is no loopback either.
    NoneProfile,
    /// A network namespace of its own with loopback and a proxy to the listed hosts.
    AllowNamespace,
    /// The host's network.
    Host,
}

/// What sees to it that no descendant stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessTree {
    /// The kernel: the tree is a PID namespace, and ends with its first process.
    PidNamespace,
    /// A supervising process that every orphan falls to, and which kills until it has no child.
    Subreaper,
    /// The engine: the tree is a container, and is removed with it.
    Container,
    /// The process group is killed, and what the process table showed as a descendant while the command ran. A process that
    /// leaves the group and its parent between two looks escapes.
    ProcessGroup,
}

/// What becomes of unix sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UnixSockets {
    /// They work, between processes of this command only.
    Private,
    /// They cannot be created; `socketpair` works.
    Closed,
    /// The host's can be reached.
    Host,
}

/// What was enforced for one command; part of the receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Enforcement {
    /// Who enforced it.
    pub adapter: Adapter,
    /// Files that were not granted cannot be opened.
    pub filesystem: bool,
    /// Files that were not granted are not there at all, and what is not writable is mounted read-only.
    pub private_root: bool,
    /// The network.
    pub network: NetworkEnforced,
    /// Unix sockets.
    pub unix_sockets: UnixSockets,
    /// Every capability is gone and cannot come back, also for root.
    pub capabilities_dropped: bool,
    /// What ends the tree.
    pub process_tree: ProcessTree,
    /// The Landlock ABI in force.
    pub landlock_abi: Option<u32>,
    /// How many processors it was held to; absent if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
}

/// Why a command could not be run. A command that ran and failed is an [`Outcome`].
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// There is nothing to run.
    #[error("the command is empty")]
    EmptyCommand,
    /// No such program. `path` is the `PATH` that was searched, or the file that was looked for.
    #[error("program {program:?} was not found in {path:?}")]
    ProgramNotFound {
        /// As it was written.
        program: OsString,
        /// Where it was looked for.
        path: OsString,
    },
    /// The program exists and could not be started.
    #[error("program {program:?} could not be started in the sandbox")]
    Exec {
        /// The file.
        program: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The working folder cannot be entered.
    #[error("working folder {path:?} cannot be entered in the sandbox")]
    Cwd {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The adapter, or a part of it that was asked for, cannot be had here. Nothing weaker is tried.
    #[error("sandbox adapter {adapter} is not available: {why}")]
    AdapterUnavailable {
        /// Which.
        adapter: Adapter,
        /// Why not.
        why: String,
    },
    /// A path to be granted is not fit.
    #[error("path {path:?} cannot be granted to the sandbox")]
    Path {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A NUL byte where the system takes none.
    #[error("{what} contains a NUL byte")]
    Nul {
        /// An argument, a variable, a path.
        what: String,
    },
    /// A layer could not be set up; the command was not started.
    #[error("the sandbox could not be set up ({stage})")]
    Setup {
        /// Which layer.
        stage: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The supervising process was ended by somebody else. What the command started was killed as far as it could be found; there is no result.
    #[error("the process that supervises the command was ended from outside")]
    SupervisorLost,
}

impl From<SandboxError> for crate::error::Error {
    fn from(error: SandboxError) -> Self {
        let hint = match &error {
            SandboxError::EmptyCommand => {
                "write the command in loop.toml as an array of program and arguments"
            }
            SandboxError::ProgramNotFound { .. } => {
                "install it, or write its absolute path in loop.toml; the sandbox has its own PATH"
            }
            SandboxError::Exec { .. } => {
                "check that it is executable, has a valid first line if it is a script, and lies in a system folder, \
                 in the worktree or in `sandbox.read_only`"
            }
            SandboxError::Cwd { .. } | SandboxError::Path { .. } => {
                "check that the path exists and who may read it"
            }
            SandboxError::AdapterUnavailable { adapter: Adapter::Landlock, .. } => {
                "run on Linux 6.2 or later with Landlock enabled (5.19 where namespaces are allowed), or allow another adapter in `sandbox.allowed`"
            }
            SandboxError::AdapterUnavailable { adapter: Adapter::Bwrap, .. } => {
                "install bubblewrap, and allow user namespaces if you are not root; or allow another adapter in `sandbox.allowed`"
            }
            SandboxError::AdapterUnavailable { adapter: Adapter::Docker | Adapter::Podman, .. } => {
                "start the engine and fetch the image that the contract pins, or allow another adapter in `sandbox.allowed`"
            }
            SandboxError::AdapterUnavailable { adapter: Adapter::SandboxExec, .. } => {
                "use it on macOS, without a network allow-list, or allow another adapter in `sandbox.allowed`"
            }
            SandboxError::AdapterUnavailable { adapter: Adapter::None, .. } => {
                "use `network = \"host\"` with the adapter `none`, or another adapter"
            }
            SandboxError::Nul { .. } => "remove the NUL byte",
            SandboxError::Setup { .. } => {
                "the message names what the kernel refused; a container or a security module often is the reason"
            }
            SandboxError::SupervisorLost => {
                "run again; if it repeats, the command ends processes that are not its own"
            }
        };
        let usage = matches!(error, SandboxError::EmptyCommand | SandboxError::Nul { .. });
        let kind = match error {
            _ if usage => crate::error::Kind::Usage,
            SandboxError::AdapterUnavailable { .. } => {
                crate::error::Kind::Halt(crate::exit::HaltReason::IsolationUnsatisfiable)
            }
            _ => crate::error::Kind::Workspace,
        };
        let mut told = Self::new(kind, error.to_string());
        if let SandboxError::Exec { program, source } = &error
            && source.kind() == io::ErrorKind::NotFound
            && let Ok(real) = program.canonicalize()
        {
            // It is there, so the sandbox does not see it, or not what it is a link to.
            let shown = if real == *program { String::new() } else { format!(" and {}", real.display()) };
            told = told.hint(format!(
                "name the folders of {}{shown} in `sandbox.read_only`, if it is no script whose interpreter is missing",
                program.display()
            ));
        }
        told = told.hint(hint);
        if let Some(source) = std::error::Error::source(&error) {
            told = told.caused_by(source.to_string());
        }
        told
    }
}

/// Runs a command to its end, or ends it: at its time-out, past its output limit, or once `interrupt` is true.
///
/// When this returns nothing that the command started is alive, and what it printed has been read, without waiting for
/// anybody who still holds the pipes. Several threads may run commands at the same time.
pub fn run(command: &Command, policy: &Policy, interrupt: &AtomicBool) -> Result<Outcome, SandboxError> {
    available(policy.adapter)
        .map_err(|why| SandboxError::AdapterUnavailable { adapter: policy.adapter, why })?;
    if cfg!(not(target_os = "linux")) && command.overlay.is_some() {
        let why = "overlays are a feature of Linux".into();
        return Err(SandboxError::AdapterUnavailable { adapter: policy.adapter, why });
    }
    if let Some(count) = policy.cpus {
        cpus::can_have(count)
            .map_err(|why| SandboxError::AdapterUnavailable { adapter: policy.adapter, why })?;
    }
    #[cfg(unix)]
    if policy.adapter.has_image() {
        return container::run(command, policy, interrupt);
    }
    start(command, &program_of(command)?, policy, interrupt)
}

/// The file that a command's first word means.
fn program_of(command: &Command) -> Result<PathBuf, SandboxError> {
    let Some(program) = command.argv.first() else { return Err(SandboxError::EmptyCommand) };
    let path = command.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let path = path.unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if shell::has_slash(program)
        && let Some(overlay) = &command.overlay
    {
        let file = command.cwd.join(program);
        if overlay.on_host(&file).is_some_and(|there| shell::is_program(&there)) {
            return Ok(file);
        }
    }
    let Some(file) = shell::resolve_program(program, &dirs, &command.cwd) else {
        let path = if shell::has_slash(program) { command.cwd.join(program).into_os_string() } else { path };
        return Err(SandboxError::ProgramNotFound { program: program.clone(), path });
    };
    Ok(file)
}

#[cfg(unix)]
fn start(
    command: &Command,
    file: &Path,
    policy: &Policy,
    interrupt: &AtomicBool,
) -> Result<Outcome, SandboxError> {
    process::run(command, file, policy, interrupt)
}

#[cfg(not(unix))]
fn start(
    _command: &Command,
    _file: &Path,
    policy: &Policy,
    _interrupt: &AtomicBool,
) -> Result<Outcome, SandboxError> {
    // `available` has refused every adapter before this is reached.
    Err(SandboxError::AdapterUnavailable {
        adapter: policy.adapter,
        why: "this system is not supported".into(),
    })
}

/// Whether an adapter can be used on this machine, and if not, why.
pub fn available(adapter: Adapter) -> Result<(), String> {
    match adapter {
        Adapter::None if cfg!(unix) => Ok(()),
        Adapter::None => Err("running commands is supported on Linux and macOS only".into()),
        #[cfg(target_os = "linux")]
        Adapter::Landlock => landlock::available(),
        #[cfg(target_os = "linux")]
        Adapter::Bwrap => bwrap_works(),
        #[cfg(not(target_os = "linux"))]
        Adapter::Landlock | Adapter::Bwrap => Err(format!("{adapter} is for Linux")),
        #[cfg(unix)]
        Adapter::Docker | Adapter::Podman => container::is_installed(adapter),
        #[cfg(not(unix))]
        Adapter::Docker | Adapter::Podman => Err(format!("{adapter} is not supported on this system")),
        Adapter::SandboxExec if !cfg!(target_os = "macos") => Err("sandbox-exec is for macOS".into()),
        Adapter::SandboxExec if Path::new(profile::PROGRAM).exists() => Ok(()),
        Adapter::SandboxExec => Err(format!("there is no {}", profile::PROGRAM)),
    }
}

/// Whether bubblewrap is there and can do its work here: found out by running it once.
#[cfg(target_os = "linux")]
fn bwrap_works() -> Result<(), String> {
    static FOUND: std::sync::OnceLock<Result<(), String>> = std::sync::OnceLock::new();
    let find = || {
        seccomp::architecture()?;
        if bwrap::program().is_none() {
            return Err("bubblewrap (bwrap) is not installed".into());
        }
        probe(Adapter::Bwrap, Network::None).map_err(|error| match &error {
            SandboxError::AdapterUnavailable { why, .. } => why.clone(),
            error => match std::error::Error::source(error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
        })
    };
    FOUND.get_or_init(find).clone()
}

/// Whether `image` is a name and the digest of exactly one image, as a contract must name one.
pub fn is_pinned(image: &str) -> bool {
    let Some((name, digest)) = image.split_once("@sha256:") else { return false };
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:".contains(&byte);
    let starts = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    starts
        && name.bytes().all(letter)
        && digest.len() == 64
        && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether the engine of an adapter that has an image answers here, and has this one.
pub fn has_image(adapter: Adapter, image: Option<&str>) -> Result<(), String> {
    #[cfg(unix)]
    return container::ready(adapter, image);
    #[cfg(not(unix))]
    Err(format!("{adapter} is not supported on this system, with {image:?} or without"))
}

/// Runs a command that does nothing under an adapter with this network, to see whether that can be had here.
pub fn probe(adapter: Adapter, network: Network) -> Result<(), SandboxError> {
    let policy = Policy::new(adapter, network);
    let mut command = Command::new(["true"], "/");
    command.timeout = Duration::from_secs(60);
    let dirs = shell::trusted_dirs();
    let path = std::env::join_paths(dirs).unwrap_or_default();
    command.env = vec![("PATH".into(), path)];
    start(&command, &program_of(&command)?, &policy, &AtomicBool::new(false)).map(drop)
}

/// To be called where commands will be run soon: begins what the first of them would wait for.
pub fn get_ready() {
    #[cfg(target_os = "linux")]
    root::look_ahead();
}

/// Whether every command of this adapter sees a root with nothing on it but what was granted: one in this process had it, and without it
/// none is run from then on.
pub fn has_private_root(adapter: Adapter) -> bool {
    if adapter.has_image() {
        return true;
    }
    #[cfg(target_os = "linux")]
    return adapter == Adapter::Bwrap || (adapter == Adapter::Landlock && process::has_namespaces());
    #[cfg(not(target_os = "linux"))]
    {
        let _ = adapter;
        false
    }
}

/// The folders of the system that every sandboxed command may read.
pub fn always_readable() -> &'static [&'static str] {
    #[cfg(target_os = "linux")]
    return root::BASE;
    #[cfg(target_os = "macos")]
    return &profile::BASE;
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    return &[];
}

/// The arguments that name existing files by absolute path: a worker command such as `["python3", "/opt/agent/run.py"]`
/// needs to read them, and whoever wrote the contract has named them.
pub fn readable_arguments(argv: &[OsString]) -> Vec<PathBuf> {
    let named = argv.iter().map(Path::new).filter(|path| path.is_absolute() && path.is_file());
    named.map(Path::to_path_buf).collect()
}
