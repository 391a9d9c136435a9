//! The command line that starts a container: a function of what is run and what it may touch, so that a test can hold it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use super::{CLIENTS, Named};
use crate::sandbox::{Adapter, Command, Network, Policy, cpus};

/// The most processes of one container.
const PROCESSES: u32 = 4096;
/// The most memory of one container, in bytes.
const MEMORY: u64 = 16 << 30;
/// How much of it `/tmp` may take, and `/dev/shm` as well.
const TMP: u64 = 1 << 30;
/// The most files that a process of a container may have open.
const FILES: u64 = 1 << 20;
/// The most processes of the user, in all containers and outside of them: what podman lowers its own limit to.
const USERS_PROCESSES: u64 = 32 << 10;

/// Who a container runs as, and with which limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub user: u32,
    pub group: u32,
    /// How many files one process may have open.
    pub files: u64,
    /// How many processes the user may have.
    pub processes: u64,
}

impl Owner {
    /// This process's.
    pub fn current() -> Self {
        let limit = |resource, most: u64| {
            let mut found = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the structure lives through the call.
            let known = unsafe { libc::getrlimit(resource, &raw mut found) } == 0;
            if known { found.rlim_max.min(most) } else { most }
        };
        // SAFETY: both only return numbers.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        let (files, processes) =
            (limit(libc::RLIMIT_NOFILE, FILES), limit(libc::RLIMIT_NPROC, USERS_PROCESSES));
        Self { user, group, files, processes }
    }
}

/// The arguments that start a container, without the client's own name.
pub(super) fn arguments(
    command: &Command,
    policy: &Policy,
    image: &str,
    name: &Named,
    owner: Owner,
) -> io::Result<Vec<OsString>> {
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |list: &[&str]| words.extend(list.iter().map(OsString::from));
    add(&["run", "--rm", "--init", "--pull", "never", "--name", &name.name]);
    add(&["--label", &format!("git-loop.step={}", name.step)]);
    // The same on every run and every machine; an engine would take a random one.
    add(&["--hostname", "git-loop"]);
    if !command.stdin.is_empty() {
        add(&["--interactive"]);
    }
    add(&["--network", if policy.network == Network::Host { "host" } else { "none" }]);
    add(&["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"]);
    let memory = policy.disk.map_or(TMP, |disk| disk.min(TMP)).to_string();
    add(&["--tmpfs", &format!("/tmp:rw,nosuid,nodev,size={memory},mode=1777"), "--shm-size", &memory]);
    add(&["--pids-limit", &PROCESSES.to_string(), "--memory", &MEMORY.to_string()]);
    add(&["--stop-timeout", "0", "--ulimit", "core=0"]);
    // An engine without the right to raise limits cannot give its own defaults; what the runner has itself, it has too.
    let Owner { user, group, files, processes } = owner;
    add(&[
        "--ulimit",
        &format!("nofile={files}:{files}"),
        "--ulimit",
        &format!("nproc={processes}:{processes}"),
    ]);
    if let Some(disk) = policy.disk {
        add(&["--ulimit", &format!("fsize={disk}")]);
    }
    if let Some(count) = policy.cpus {
        let chosen = cpus::choose(count).map_err(io::Error::other)?;
        add(&["--cpuset-cpus", &cpus::list_of(&chosen)]);
    }
    if policy.adapter == Adapter::Podman {
        // Besides `/tmp` it makes these writable, as large as the memory; and volumes that an image declares on the host's disk.
        for place in ["/run", "/var/tmp"] {
            add(&["--tmpfs", &format!("{place}:rw,nosuid,nodev,size={memory},mode=1777")]);
        }
        add(&["--image-volume", "ignore"]);
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::is_pinned;

    const IMAGE: &str =
        "docker.io/library/debian@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn name() -> Named {
        Named { name: "loop-fix-1".into(), step: "loop-fix".into(), note: None }
    }

    fn owner(user: u32) -> Owner {
        Owner { user, group: 100, files: 1024, processes: 2048 }
    }

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
        let words = arguments(&command, &policy, IMAGE, &name(), owner(user)).unwrap();
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
        loop-fix-1 \
        --label
        git-loop.step=loop-fix \
        --hostname
        git-loop \
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
        --stop-timeout
        0 \
        --ulimit
        core=0 \
        --ulimit
        nofile=1024:1024 \
        --ulimit
        nproc=2048:2048 \
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
        let places = "--tmpfs\n/run:rw,nosuid,nodev,size=1073741824,mode=1777 \\\n\
                      --tmpfs\n/var/tmp:rw,nosuid,nodev,size=1073741824,mode=1777 \\\n--image-volume\nignore \\\n";
        assert_eq!(rootless, docker.replace("--user\n", &format!("{places}--userns\nkeep-id \\\n--user\n")));
        let root = line(Adapter::Docker, Network::None, 0).replace("--user\n", &format!("{places}--user\n"));
        assert_eq!(line(Adapter::Podman, Network::None, 0), root);
        let host = line(Adapter::Docker, Network::Host, 1000);
        assert_eq!(host, docker.replace("--network\nnone", "--network\nhost"));
        for secret in ["hunter2", "docker.sock", "--privileged", "--cap-add", "--volume"] {
            assert!(!docker.contains(secret) && !host.contains(secret), "{secret}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_number_of_processors_is_a_set_of_them() {
        let mut policy = Policy::new(Adapter::Docker, Network::None);
        policy.cpus = Some(1);
        let words = arguments(&Command::new(["true"], "/w"), &policy, IMAGE, &name(), owner(0)).unwrap();
        let at = words.iter().position(|word| word == "--cpuset-cpus").unwrap();
        assert!(words[at + 1].to_str().unwrap().parse::<usize>().is_ok());
        policy.cpus = Some(1 << 20);
        assert!(arguments(&Command::new(["true"], "/w"), &policy, IMAGE, &name(), owner(0)).is_err());
    }

    #[test]
    fn a_path_that_an_option_cannot_hold_is_refused() {
        let mut policy = Policy::new(Adapter::Docker, Network::None);
        policy.writable = vec!["/a,readonly=false".into()];
        let command = Command::new(["true"], "/w");
        assert!(arguments(&command, &policy, IMAGE, &name(), owner(0)).is_err());
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
