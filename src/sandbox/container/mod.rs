//! The `docker` and `podman` adapters: one container for each command, from an image that the contract pins by its digest.
//!
//! The tools are the image's: nothing of the host is in the container but the command's own folders and what the contract grants, under the
//! names that they have on the host. The client of the engine is a program like any other that this process starts and ends; the container
//! it speaks of is removed by name whenever the client did not see it end. A [note](Named::note) on the disk says the name for as long as there may be such
//! a container, so that whoever comes after a process that was killed can end it.

mod line;
mod note;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::environment::HostEnv;
use super::{
    Adapter, Command, Ended, Enforcement, Exit, Network, NetworkEnforced, Outcome, Policy, ProcessTree,
    SandboxError, UnixSockets, is_pinned, shell,
};
use line::{Owner, arguments};
use note::Note;
pub use note::{Named, end_noted};

/// How long an answer of the engine may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a container that cannot be removed is tried again, and after which time.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(300);
/// What the client exits with if there was no container to run.
const ENGINE_FAILED: i32 = 125;

/// The variables that the client of an engine needs for itself. A command gets its own of these by their value.
const CLIENTS: [&str; 11] = [
    "PATH",
    "HOME",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "CONTAINER_HOST",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
];

/// The client of an engine, from a folder of the system.
fn client(adapter: Adapter) -> Result<std::path::PathBuf, String> {
    let name = adapter.to_string();
    shell::resolve_program(name.as_ref(), &shell::trusted_dirs(), Path::new("/nonexistent"))
        .ok_or_else(|| format!("{name} is not installed"))
}

/// Whether the client is there.
pub(super) fn is_installed(adapter: Adapter) -> Result<(), String> {
    client(adapter).map(drop)
}

/// Whether an engine answers here, and has the image.
pub(super) fn ready(adapter: Adapter, image: Option<&str>) -> Result<(), String> {
    client(adapter)?;
    let server = ask(adapter, &["version", "--format", "{{.Server.Version}}"])?;
    if server.exit != Exit::Code(0) {
        return Err(format!("its engine does not answer: {}", last_line(&server)));
    }
    let Some(image) = image else { return Err("the contract names no image".to_owned()) };
    let found = ask(adapter, &["image", "inspect", "--format", "{{len .Config.Volumes}}", image])?;
    if found.exit != Exit::Code(0) {
        return Err(format!("the image {image} is not here; fetch it: {adapter} pull {image}"));
    }
    // Podman is told to leave them out, and docker cannot be.
    if adapter == Adapter::Docker && found.stdout.evidence().trim_ascii() != b"0" {
        return Err(format!(
            "the image {image} declares volumes, in which a command could write without a limit"
        ));
    }
    Ok(())
}

fn last_line(outcome: &Outcome) -> String {
    let text = String::from_utf8_lossy(&outcome.stderr.evidence()).into_owned();
    text.lines().last().unwrap_or("it said nothing").chars().take(300).collect()
}

/// Runs the client with these arguments.
fn ask(adapter: Adapter, words: &[&str]) -> Result<Outcome, String> {
    ask_with(adapter, words, clients_own())
}

/// The same with these variables.
fn ask_with(adapter: Adapter, words: &[&str], env: Vec<(OsString, OsString)>) -> Result<Outcome, String> {
    let client = client(adapter)?;
    let argv = std::iter::once(client.into_os_string()).chain(words.iter().map(OsString::from));
    let mut command = Command::new(argv, "/");
    command.env = env;
    command.timeout = PATIENCE;
    let policy = Policy::new(Adapter::None, Network::Host);
    super::run(&command, &policy, &AtomicBool::new(false)).map_err(|error| error.to_string())
}

fn clients_own() -> Vec<(OsString, OsString)> {
    let host = HostEnv::current();
    CLIENTS.iter().filter_map(|name| Some((name.into(), host.get(name)?.to_owned()))).collect()
}

/// Sees to it that there is no container of this name.
fn remove(adapter: Adapter, name: &str, env: &[(OsString, OsString)]) -> Result<(), String> {
    let filter = format!("name=^{name}$");
    let mut tries = 0;
    loop {
        let removed = ask_with(adapter, &["rm", "--force", "--volumes", name], env.to_vec())?;
        if removed.exit == Exit::Code(0) {
            return Ok(());
        }
        // Some say so if there is none, or if it is being removed already.
        let there = ask_with(adapter, &["ps", "--all", "--quiet", "--filter", &filter], env.to_vec())?;
        if there.exit == Exit::Code(0) && there.stdout.evidence().trim_ascii().is_empty() {
            return Ok(());
        }
        tries += 1;
        if tries == TRIES {
            return Err(last_line(&removed));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Runs a command in a container of its own.
pub(super) fn run(
    command: &Command,
    policy: &Policy,
    interrupt: &AtomicBool,
) -> Result<Outcome, SandboxError> {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let adapter = policy.adapter;
    let unavailable = |why: String| SandboxError::AdapterUnavailable { adapter, why };
    if policy.network == Network::Allow {
        return Err(unavailable("a container has no proxy for a network allow-list".into()));
    }
    let image = policy.image.as_deref().filter(|image| is_pinned(image));
    let image = image.ok_or_else(|| unavailable("the contract pins no image".into()))?;
    let Some(program) = command.argv.first() else { return Err(SandboxError::EmptyCommand) };
    let client = client(adapter).map_err(unavailable)?;
    let name = policy.container.clone().unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let number = STARTED.fetch_add(1, Ordering::SeqCst);
        Named::without_note(format!("git-loop-{}-{number}-{now}", std::process::id()))
    });
    let words = arguments(command, policy, image, &name, Owner::current())
        .map_err(|source| SandboxError::Path { path: command.cwd.clone(), source })?;
    let own = clients_own();
    let of_command =
        command.env.iter().filter(|(name, _)| CLIENTS.iter().all(|other| OsStr::new(other) != name));
    let wrapped = Command {
        argv: std::iter::once(client.into_os_string()).chain(words).collect(),
        cwd: "/".into(),
        env: own.into_iter().chain(of_command.cloned()).collect(),
        ..command.clone()
    };
    // The client itself is confined by nothing; over the command's folders there is the same watch.
    let watched = Policy {
        disk: policy.disk,
        writable: policy.writable.clone(),
        ..Policy::new(Adapter::None, Network::Host)
    };
    let note = Note::write(adapter, &name)
        .map_err(|source| SandboxError::Setup { stage: "the note of a container's name", source })?;
    let outcome = super::run(&wrapped, &watched, interrupt);
    let seen = outcome.as_ref().is_ok_and(|outcome| {
        outcome.ended == Ended::Itself && matches!(outcome.exit, Exit::Code(code) if code != ENGINE_FAILED)
    });
    if !seen && let Err(why) = remove(adapter, &name.name, &clients_own()) {
        return Err(unavailable(format!("the container {} could not be removed: {why}", name.name)));
    }
    note.close();
    let mut outcome = outcome?;
    if outcome.ended == Ended::Itself && outcome.exit == Exit::Code(ENGINE_FAILED) {
        let source = io::Error::other(last_line(&outcome));
        return Err(SandboxError::Exec { program: program.into(), source });
    }
    let alone = policy.network != Network::Host;
    // What had to be ended after the client is of the engine's own; what the command left has gone with its container.
    outcome.survivors = 0;
    outcome.enforced = Enforcement {
        adapter,
        filesystem: true,
        private_root: true,
        network: if alone { NetworkEnforced::NoneNamespace } else { NetworkEnforced::Host },
        unix_sockets: if alone { UnixSockets::Private } else { UnixSockets::Host },
        capabilities_dropped: true,
        process_tree: ProcessTree::Container,
        landlock_abi: None,
        cpus: policy.cpus,
    };
    Ok(outcome)
}
