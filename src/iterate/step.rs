//! One step of an iteration as a process: its program, its environment, what it may touch and how long it may take.
//!
//! The worker, the check, the setup and the holdout all go through [`Session::step`]. What differs between them is a [`Role`], and every
//! question whose answer depends on the adapter (is the program looked for here or in an image, which `PATH`, whose tools) is asked here and
//! nowhere else.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

#[cfg(unix)]
use super::iteration::random_id;
use super::left::is_relative;
#[cfg(unix)]
use super::places::NOTE;
use super::places::Scratch;
use super::session::Session;
use crate::contract::{CommandLine, Contract, NetworkTerms, Preset};
use crate::error::{Error, Result, ResultExt};
use crate::host::HostEnv;
use crate::sandbox::environment::{self, Home, Request};
use crate::sandbox::toolchain::{self, Toolchain};
use crate::sandbox::{self, Adapter, Command, Network, Outcome, Policy, SandboxError, shell};

/// The fixed moment that tools which embed a date are told, for checks that are the same every day.
const SOURCE_DATE_EPOCH: i64 = 946_684_800;

/// Whose command it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It proposes a change: the user's own tool, with what the contract passes through.
    Worker,
    /// It judges: the same environment everywhere.
    Check,
    /// It makes what the worktrees get besides their trees, in the environment of a check.
    Setup,
    /// It judges from outside of the candidate, in the environment of a check.
    Holdout,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Worker => "worker",
            Self::Check => "check",
            Self::Setup => "setup",
            Self::Holdout => "holdout",
        })
    }
}

/// The tools of this machine that steps are given.
pub(super) struct Tools {
    host: environment::HostEnv,
    toolchain: OnceCell<Toolchain>,
    hidden: OnceCell<Vec<PathBuf>>,
}

impl Tools {
    pub fn new(host: &HostEnv) -> Self {
        let host = host.vars().iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { host, toolchain: OnceCell::new(), hidden: OnceCell::new() }
    }

    /// The tools of a contract's presets, as they were found when they were first wanted: all iterations of a session
    /// have the same.
    pub fn toolchain(&self, contract: &Contract) -> Result<&Toolchain> {
        if let Some(found) = self.toolchain.get() {
            return Ok(found);
        }
        let presets: Vec<toolchain::Preset> =
            contract.sandbox.presets.iter().copied().map(Into::into).collect();
        let found = toolchain::resolve(&presets, &self.host, None)?;
        Ok(self.toolchain.get_or_init(|| found))
    }

    /// What is hidden from all steps, found with `look` when it is first wanted.
    pub fn hidden(&self, look: impl FnOnce() -> Result<Vec<PathBuf>>) -> Result<&[PathBuf]> {
        if let Some(found) = self.hidden.get() {
            return Ok(found);
        }
        let found = look()?;
        Ok(self.hidden.get_or_init(|| found))
    }
}

/// What a caller says of its step.
pub(super) struct Wanted<'a> {
    pub role: Role,
    pub command: &'a CommandLine,
    /// Its working folder, which it may change.
    pub place: &'a Path,
    /// Where its `HOME` and everything else of its own is made.
    pub scratch: &'a Scratch,
    pub network: &'a NetworkTerms,
    /// Its time-out, in seconds.
    pub seconds: u64,
}

/// A step that is ready to run.
pub(super) struct Step {
    pub command: Command,
    pub policy: Policy,
    /// Whether its time-out is the end of the loop's time.
    pub is_deadline: bool,
}

impl Step {
    /// Gives it a variable, in the place of one of the same name.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        let name = name.into();
        self.command.env.retain(|(there, _)| *there != name);
        self.command.env.push((name, value.into()));
    }

    /// Program and arguments.
    pub fn argv(&self) -> &[OsString] {
        &self.command.argv
    }
}

impl Session<'_> {
    /// Makes ready what `wanted` says.
    pub(super) fn step(&self, wanted: &Wanted<'_>) -> Result<Step> {
        let &Wanted { role, place, scratch, .. } = wanted;
        let contract = &self.tip.contract;
        let toolchain = tools_of(self.toolchain()?, self.host, role);
        let homes = scratch.path().join("home");
        let home = make_home(&homes, &toolchain)?;
        let system_dirs = shell::trusted_dirs();
        let request = Request {
            home: &home,
            toolchain: &toolchain,
            worktree: place,
            system_dirs: &system_dirs,
            pass: if role == Role::Worker { &contract.worker.env } else { &[] },
            host: &self.tools.host,
        };
        let mut env = match role {
            Role::Worker => environment::worker_env(&request)?,
            Role::Check | Role::Setup | Role::Holdout => environment::check_env(&request, SOURCE_DATE_EPOCH)?,
        }
        .vars;
        if self.adapter.has_image() {
            // The image has its own.
            env.retain(|(name, _)| name != "PATH");
        }
        let argv = program(self.adapter, wanted.command, &search_dirs(&toolchain), place, role)?;
        let mut readable = toolchain.readable;
        readable.extend(read_only(self.host, contract));
        if role == Role::Worker && !self.adapter.has_image() {
            readable.extend(sandbox::readable_arguments(&argv));
        }
        let mut writable = vec![place.to_path_buf()];
        // A holdout's candidate lies in its scratch folder, and nothing can be built in there.
        writable.push(if role == Role::Holdout { homes } else { scratch.path().to_path_buf() });
        let mut wanted_too = Vec::new();
        if role != Role::Setup
            && !has_warm_target(contract)
            && contract.sandbox.presets.contains(&Preset::Cargo)
        {
            // Cargo builds outside of the tree, so that nothing of it is judged or becomes part of a candidate.
            let target = scratch.folder("target")?;
            if role == Role::Holdout {
                writable.push(target.clone());
            }
            wanted_too.push(("CARGO_TARGET_DIR".into(), target.into()));
        }
        if role == Role::Worker {
            wanted_too.extend(caches(contract, &home));
        }
        // A worker and a setup are not compared with anything.
        let cpus = contract.check.cpus.filter(|_| matches!(role, Role::Check | Role::Holdout));
        wanted_too.extend(cpus.map(sandbox::cpus::variables).unwrap_or_default());
        wanted_too.retain(|(name, _): &(OsString, OsString)| env.iter().all(|(there, _)| there != name));
        env.extend(wanted_too);
        let left = self.seconds_left().max(1);
        Ok(Step {
            command: Command {
                env,
                timeout: Duration::from_secs(wanted.seconds.min(left)),
                head_tail: self.head_tail(),
                ..Command::new(argv, place)
            },
            policy: Policy {
                allow: wanted.network.rules(),
                disk: Some(contract.sandbox.disk_bytes),
                cpus,
                writable,
                readable,
                hidden: self.hidden()?.to_vec(),
                image: contract.sandbox.image.clone(),
                #[cfg(unix)]
                container: Some(self.container(scratch)),
                ..Policy::new(self.adapter, network(wanted.network))
            },
            is_deadline: left <= wanted.seconds,
        })
    }

    /// What the container of a step is called: by its environment, and a number that no other container has.
    #[cfg(unix)]
    fn container(&self, scratch: &Scratch) -> sandbox::Named {
        let name = format!("{}-{}", scratch.name(), random_id());
        let note = self.places.private.join(format!("{name}{NOTE}"));
        sandbox::Named { name, step: scratch.name().to_owned(), note: Some(note) }
    }

    /// Runs a step to its end.
    pub(super) fn run_step(&self, step: &Step) -> std::result::Result<Outcome, SandboxError> {
        let outcome = sandbox::run(&step.command, &step.policy, self.interrupt.flag());
        if let Some(live) = &step.command.live {
            self.streamed(live, outcome.as_ref().ok());
        }
        outcome
    }

    /// The tools of the contract's presets. An image has its own.
    pub(super) fn toolchain(&self) -> Result<&Toolchain> {
        static NONE: LazyLock<Toolchain> = LazyLock::new(Toolchain::default);
        if self.adapter.has_image() {
            return Ok(&NONE);
        }
        self.tools.toolchain(&self.tip.contract)
    }

    /// How many bytes are kept of the start, and of the end, of what a command prints.
    pub(super) fn head_tail(&self) -> usize {
        self.tip.contract.limits.evidence_kib as usize * 1024
    }
}

/// The tools of one role. A worker is the user's own tool: it is found where the user would find it.
fn tools_of(toolchain: &Toolchain, host: &HostEnv, role: Role) -> Toolchain {
    let mut tools = toolchain.clone();
    if role == Role::Worker {
        tools.path_dirs.extend(user_path(host));
    }
    tools
}

/// The folders in which the program of a role is looked for on this machine.
pub(super) fn dirs_of(toolchain: &Toolchain, host: &HostEnv, role: Role) -> Vec<PathBuf> {
    search_dirs(&tools_of(toolchain, host, role))
}

/// Program and arguments: as they are where an image has the program, else with the program that is found here.
pub(super) fn program(
    adapter: Adapter,
    command: &CommandLine,
    dirs: &[PathBuf],
    place: &Path,
    role: Role,
) -> Result<Vec<OsString>> {
    match command {
        _ if !adapter.has_image() => argv(command, dirs, place, &role.to_string()),
        CommandLine::Exec(words) => Ok(words.iter().map(OsString::from).collect()),
        // Which shell the image has, and what it knows, is not known here.
        CommandLine::Shell(line) if line.contains('|') => {
            Err(shell::ShellError::NoPipefail { command: line.clone() }.into())
        }
        CommandLine::Shell(line) => Ok(vec!["sh".into(), "-c".into(), line.into()]),
    }
}

/// Program and arguments; the program by its absolute path, unless it lies in the worktree itself.
pub(super) fn argv(
    command: &CommandLine,
    dirs: &[PathBuf],
    place: &Path,
    what: &str,
) -> Result<Vec<OsString>> {
    let words = match command {
        CommandLine::Shell(line) => return Ok(shell::shell_argv(line)?),
        CommandLine::Exec(words) => words,
    };
    let mut argv: Vec<OsString> = words.iter().map(OsString::from).collect();
    let program = argv.first().cloned().unwrap_or_default();
    if words.first().is_some_and(|word| is_relative(word)) {
        // A script of the repository: there in the base when the session was opened.
        return Ok(argv);
    }
    let Some(path) = shell::resolve_program(&program, dirs, place) else {
        if Path::new(&program).is_file() {
            return Err(Error::workspace(format!(
                "the {what}'s program {} is not executable",
                program.display()
            ))
            .hint(format!("chmod +x {}, or run it with its interpreter", program.display())));
        }
        // A folder may be on PATH and one of a toolchain; it is looked in once.
        let mut shown: Vec<String> = Vec::new();
        for dir in dirs.iter().map(|dir| dir.display().to_string()) {
            if !shown.contains(&dir) {
                shown.push(dir);
            }
        }
        return Err(Error::workspace(format!("the {what}'s program {} is not found", program.display()))
            .hint(format!("looked in {}", shown.join(", ")))
            .hint("install it, or start a loop with its absolute path, its toolchain in sandbox.presets or its folder in sandbox.read_only"));
    };
    argv[0] = path.into();
    Ok(argv)
}

/// What the contract lets worker and check read besides, on this machine.
pub(super) fn read_only(host: &HostEnv, contract: &Contract) -> Vec<PathBuf> {
    let expand = |path: &String| match (path.strip_prefix("~/"), host.home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => host.absolute(path),
    };
    contract.sandbox.read_only.iter().map(expand).collect()
}

/// The absolute folders of the user's own `PATH`.
pub(super) fn user_path(host: &HostEnv) -> Vec<PathBuf> {
    let path = host.var("PATH").unwrap_or_default();
    std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect()
}

/// The folders in which a program is looked for: the toolchain's, then the system's.
fn search_dirs(toolchain: &Toolchain) -> Vec<PathBuf> {
    toolchain.path_dirs.iter().cloned().chain(shell::trusted_dirs()).collect()
}

/// A fresh `HOME` with what the toolchain wants in it.
fn make_home(place: &Path, toolchain: &Toolchain) -> Result<Home> {
    let home =
        environment::fresh_home(place).or_workspace(|| format!("{} cannot be made", place.display()))?;
    environment::link_home(&home, toolchain).or_workspace(|| "the toolchain cannot be linked".to_owned())?;
    Ok(home)
}

/// Whether cargo's folder in the tree is a warm one, and is to be used.
fn has_warm_target(contract: &Contract) -> bool {
    contract.worktree.warm.iter().any(|folder| folder == "target")
}

/// What sends the leftovers of a worker's tools out of its worktree. A check's tree is thrown away, and its options are not touched.
fn caches(contract: &Contract, home: &Home) -> Vec<(OsString, OsString)> {
    if !contract.sandbox.presets.contains(&Preset::Python) {
        return Vec::new();
    }
    let at = |folder: &str| home.home.join(".cache").join(folder).into();
    vec![
        // pytest expands the variable itself; a path with a space would have to be quoted here.
        ("PYTEST_ADDOPTS".into(), "-o cache_dir=$XDG_CACHE_HOME/pytest".into()),
        ("MYPY_CACHE_DIR".into(), at("mypy")),
        ("RUFF_CACHE_DIR".into(), at("ruff")),
    ]
}

fn network(terms: &NetworkTerms) -> Network {
    match terms {
        NetworkTerms::Allow(_) => Network::Allow,
        NetworkTerms::None => Network::None,
        NetworkTerms::Host => Network::Host,
    }
}
