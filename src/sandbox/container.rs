//! The `docker` and `podman` adapters: one container for each command, from an image that the contract pins by its digest.
//!
//! The tools are the image's: nothing of the host is in the container but the command's own folders and what the contract grants, under the
//! names that they have on the host. The client of the engine is a program like any other that this process starts and ends; the container
//! it speaks of is removed by name whenever the client did not see it end.

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

/// The most processes of one container.
const PROCESSES: u32 = 4096;
/// The most memory of one container, in bytes.
const MEMORY: u64 = 16 << 30;
/// How much of it `/tmp` may take, and `/dev/shm` as well.
const TMP: u64 = 1 << 30;
/// How long an answer of the engine may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// What the client exits with if there was no container to run.
const ENGINE_FAILED: i32 = 125;

/// The variables that the client of an engine needs for itself. A command gets its own of these by their value.
const CLIENTS: [&str; 8] = [
    "PATH",
    "HOME",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "CONTAINER_HOST",
];

/// Who a container runs as.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub user: u32,
    pub group: u32,
}

/// The arguments that start a container, without the client's own name.
pub(super) fn arguments(
    command: &Command,
    policy: &Policy,
    image: &str,
    name: &str,
    owner: Owner,
) -> io::Result<Vec<OsString>> {
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |list: &[&str]| words.extend(list.iter().map(OsString::from));
    add(&["run", "--rm", "--init", "--pull", "never", "--name", name]);
    if !command.stdin.is_empty() {
        add(&["--interactive"]);
    }
    add(&["--network", if policy.network == Network::Host { "host" } else { "none" }]);
    add(&["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"]);
    let memory = policy.disk.map_or(TMP, |disk| disk.min(TMP)).to_string();
    add(&["--tmpfs", &format!("/tmp:rw,nosuid,nodev,size={memory},mode=1777"), "--shm-size", &memory]);
    add(&["--pids-limit", &PROCESSES.to_string(), "--memory", &MEMORY.to_string()]);
    add(&["--ulimit", "core=0"]);
    if let Some(disk) = policy.disk {
        add(&["--ulimit", &format!("fsize={disk}")]);
    }
    let Owner { user, group } = owner;
    if policy.adapter == Adapter::Podman && user != 0 {
        // Without root the engine would show the user as root, and files of the host as somebody else's.
        add(&["--userns", "keep-id"]);
    }
    add(&["--user", &format!("{user}:{group}")]);
    let mounts = policy.writable.iter().map(|path| (path, "")).chain(
        // What is not there is not granted, as elsewhere.
        policy.readable.iter().filter(|path| path.exists()).map(|path| (path, ",readonly")),
    );
    for (path, mode) in mounts {
        let path = mountable(path)?;
        add(&["--mount", &format!("type=bind,src={path},dst={path}{mode}")]);
    }
    add(&["--workdir", mountable(&command.cwd)?]);
    for (variable, value) in &command.env {
        words.push("--env".into());
        let mut word = variable.clone();
        // Any other comes from the client's environment: on a command line everybody could read it.
        if CLIENTS.iter().any(|name| OsStr::new(name) == variable) {
            word.push("=");
            word.push(value);
        }
        words.push(word);
    }
    words.push("--entrypoint".into());
    words.push(command.argv.first().cloned().unwrap_or_default());
    words.push(image.into());
    words.extend(command.argv.iter().skip(1).cloned());
    Ok(words)
}

/// A path as an option of the client can hold it.
fn mountable(path: &Path) -> io::Result<&str> {
    let text = path.to_str().filter(|text| text.starts_with('/') && !text.contains([',', '"', '\n', '\0']));
    text.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "a container cannot be given a path with a comma or a quote in it",
        )
    })
}

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
    let found = ask(adapter, &["image", "inspect", "--format", "{{.Id}}", image])?;
    match found.exit {
        Exit::Code(0) => Ok(()),
        _ => Err(format!("the image {image} is not here; fetch it: {adapter} pull {image}")),
    }
}

fn last_line(outcome: &Outcome) -> String {
    let text = String::from_utf8_lossy(&outcome.stderr.evidence()).into_owned();
    text.lines().last().unwrap_or("it said nothing").chars().take(300).collect()
}

/// Runs the client with these arguments.
fn ask(adapter: Adapter, words: &[&str]) -> Result<Outcome, String> {
    let client = client(adapter)?;
    let argv = std::iter::once(client.into_os_string()).chain(words.iter().map(OsString::from));
    let mut command = Command::new(argv, "/");
    command.env = clients_own();
    command.timeout = PATIENCE;
    let policy = Policy::new(Adapter::None, Network::Host);
    super::run(&command, &policy, &AtomicBool::new(false)).map_err(|error| error.to_string())
}

fn clients_own() -> Vec<(OsString, OsString)> {
    let host = HostEnv::current();
    CLIENTS.iter().filter_map(|name| Some((name.into(), host.get(name)?.to_owned()))).collect()
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
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let number = STARTED.fetch_add(1, Ordering::SeqCst);
    let name = format!("git-loop-{}-{number}-{now}", std::process::id());
    // SAFETY: both only return numbers.
    let owner = unsafe { Owner { user: libc::geteuid(), group: libc::getegid() } };
    let words = arguments(command, policy, image, &name, owner)
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
    let outcome = super::run(&wrapped, &watched, interrupt);
    let seen = outcome.as_ref().is_ok_and(|outcome| {
        outcome.ended == Ended::Itself && matches!(outcome.exit, Exit::Code(code) if code != ENGINE_FAILED)
    });
    if !seen && let Err(why) = ask(adapter, &["rm", "--force", "--volumes", &name]) {
        return Err(unavailable(format!("the container {name} could not be removed: {why}")));
    }
    let mut outcome = outcome?;
    if outcome.ended == Ended::Itself && outcome.exit == Exit::Code(ENGINE_FAILED) {
        let source = io::Error::other(last_line(&outcome));
        return Err(SandboxError::Exec { program: program.into(), source });
    }
    let alone = policy.network != Network::Host;
    outcome.enforced = Enforcement {
        adapter,
        filesystem: true,
        private_root: true,
        network: if alone { NetworkEnforced::NoneNamespace } else { NetworkEnforced::Host },
        unix_sockets: if alone { UnixSockets::Private } else { UnixSockets::Host },
        capabilities_dropped: true,
        process_tree: ProcessTree::Container,
        landlock_abi: None,
    };
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: &str =
        "docker.io/library/debian@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn line(adapter: Adapter, network: Network, user: u32) -> String {
        let mut command = Command::new(["python3", "-m", "pytest", "a b"], "/w/tree");
        command.env = vec![("HOME".into(), "/w/tmp/home".into()), ("TOKEN".into(), "hunter2".into())];
        command.stdin = b"x".to_vec();
        let policy = Policy {
            disk: Some(2 << 30),
            writable: vec!["/w/tree".into(), "/w/tmp".into()],
            readable: vec!["/usr".into(), "/no/such/folder".into()],
            ..Policy::new(adapter, network)
        };
        let words = arguments(&command, &policy, IMAGE, "git-loop-1", Owner { user, group: 100 }).unwrap();
        words
            .iter()
            .map(|word| word.to_str().unwrap())
            .collect::<Vec<_>>()
            .join("\n")
            .replace("\n--", " \\\n--")
    }

    #[test]
    fn the_command_line_of_docker() {
        insta::assert_snapshot!(line(Adapter::Docker, Network::None, 1000), @r"
        run \
        --rm \
        --init \
        --pull
        never \
        --name
        git-loop-1 \
        --interactive \
        --network
        none \
        --cap-drop
        ALL \
        --security-opt
        no-new-privileges \
        --read-only \
        --tmpfs
        /tmp:rw,nosuid,nodev,size=1073741824,mode=1777 \
        --shm-size
        1073741824 \
        --pids-limit
        4096 \
        --memory
        17179869184 \
        --ulimit
        core=0 \
        --ulimit
        fsize=2147483648 \
        --user
        1000:100 \
        --mount
        type=bind,src=/w/tree,dst=/w/tree \
        --mount
        type=bind,src=/w/tmp,dst=/w/tmp \
        --mount
        type=bind,src=/usr,dst=/usr,readonly \
        --workdir
        /w/tree \
        --env
        HOME=/w/tmp/home \
        --env
        TOKEN \
        --entrypoint
        python3
        docker.io/library/debian@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
        -m
        pytest
        a b
        ");
    }

    #[test]
    fn what_podman_and_the_hosts_network_change() {
        let docker = line(Adapter::Docker, Network::None, 1000);
        let rootless = line(Adapter::Podman, Network::None, 1000);
        assert_eq!(rootless, docker.replace("--user\n", "--userns\nkeep-id \\\n--user\n"));
        assert_eq!(line(Adapter::Podman, Network::None, 0), line(Adapter::Docker, Network::None, 0));
        let host = line(Adapter::Docker, Network::Host, 1000);
        assert_eq!(host, docker.replace("--network\nnone", "--network\nhost"));
        for secret in ["hunter2", "docker.sock", "--privileged", "--cap-add", "--volume"] {
            assert!(!docker.contains(secret) && !host.contains(secret), "{secret}");
        }
    }

    #[test]
    fn a_path_that_an_option_cannot_hold_is_refused() {
        let mut policy = Policy::new(Adapter::Docker, Network::None);
        policy.writable = vec!["/a,readonly=false".into()];
        let command = Command::new(["true"], "/w");
        assert!(arguments(&command, &policy, IMAGE, "n", Owner { user: 0, group: 0 }).is_err());
    }

    #[test]
    fn only_a_digest_pins_an_image() {
        let digest = "0123456789abcdef".repeat(4);
        for good in [format!("debian@sha256:{digest}"), format!("ghcr.io:443/a/b-c_d:1.2@sha256:{digest}")] {
            assert!(is_pinned(&good), "{good}");
        }
        for bad in [
            "debian".to_owned(),
            "debian:12".to_owned(),
            format!("@sha256:{digest}"),
            format!("debian@sha256:{}", &digest[1..]),
            format!("debian@sha256:{}", digest.to_uppercase()),
            format!("debian@md5:{digest}"),
            format!("--privileged@sha256:{digest}"),
            format!("de bian@sha256:{digest}"),
        ] {
            assert!(!is_pinned(&bad), "{bad}");
        }
    }
}
