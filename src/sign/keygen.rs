//! Finding and running `ssh-keygen`, for what this process cannot do itself: hardware keys and old file formats.
//!
//! It is only ever found through `PATH`; what `gpg.ssh.program` names is never run.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ssh_key::PublicKey;

use super::error::KeyError;
use super::passphrase::PassphraseSource;
use super::pubkey;

/// How long `ssh-keygen` may take: somebody may have to touch a token or type into a dialog.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The absolute path of the program `name` in the first folder of `path` (the value of `PATH`) that has it.
///
/// Empty and relative entries are skipped: they would mean the current folder, which may be a repository.
pub fn find_program(name: &str, path: &OsStr) -> Option<PathBuf> {
    env::split_paths(path).filter(|folder| folder.is_absolute()).find_map(|folder| {
        let plain = folder.join(name);
        if is_executable(&plain) {
            return Some(plain);
        }
        let exe = cfg!(windows).then(|| folder.join(format!("{name}.exe")))?;
        is_executable(&exe).then_some(exe)
    })
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;

    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file())
}

/// Waits for `child` until `deadline`; kills it then and gives `None`.
pub(super) fn wait_until(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Takes out of `command`'s environment what git tells its children and what would change how a program speaks.
pub(super) fn scrub(command: &mut Command) {
    scrub_names(command, env::vars_os().map(|(name, _)| name));
}

fn scrub_names(command: &mut Command, names: impl Iterator<Item = OsString>) {
    for name in names.filter(|name| name.as_encoded_bytes().starts_with(b"GIT_")) {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C");
}

/// Which key `ssh-keygen` signs with.
#[derive(Debug, Clone)]
pub(super) enum KeygenKey {
    /// A private key file.
    File(PathBuf),
    /// A key of the agent, by its public key.
    Agent,
}

/// `ssh-keygen` as a signer.
#[derive(Debug, Clone)]
pub(super) struct Keygen {
    pub(super) program: PathBuf,
    pub(super) key: KeygenKey,
    pub(super) public: PublicKey,
    pub(super) agent_socket: Option<PathBuf>,
    pub(super) passphrase: PassphraseSource,
}

impl Keygen {
    /// A signature over `payload` in armour, not verified yet.
    pub(super) fn sign(&self, name: &str, namespace: &str, payload: &[u8]) -> Result<String, KeyError> {
        let io = |action| move |source| KeyError::Io { name: name.to_owned(), action, source };
        let folder = tempfile::Builder::new()
            .prefix("git-loop-sign-")
            .tempdir()
            .map_err(io("cannot make a temporary folder"))?;
        let message = folder.path().join("message");
        fs::write(&message, payload).map_err(io("cannot write a temporary file"))?;
        let log = folder.path().join("log");
        let log_file = File::create(&log).map_err(io("cannot write a temporary file"))?;

        let mut command = Command::new(&self.program);
        command.args(["-Y", "sign", "-n", namespace]);
        match &self.key {
            KeygenKey::File(path) => command.arg("-f").arg(path),
            KeygenKey::Agent => {
                let file = folder.path().join("key.pub");
                fs::write(&file, pubkey::to_line(&self.public) + "\n")
                    .map_err(io("cannot write a temporary file"))?;
                command.arg("-U").arg("-f").arg(file)
            }
        };
        command.arg(&message).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file);
        scrub(&mut command);
        match &self.agent_socket {
            Some(socket) => command.env("SSH_AUTH_SOCK", socket),
            None => command.env_remove("SSH_AUTH_SOCK"),
        };
        self.passphrase.apply(&mut command);

        let mut child = command.spawn().map_err(io("cannot start ssh-keygen"))?;
        let status =
            wait_until(&mut child, Instant::now() + PATIENCE).map_err(io("cannot wait for ssh-keygen"))?;
        match status {
            None => Err(KeyError::TimedOut { name: name.to_owned(), seconds: PATIENCE.as_secs() }),
            Some(status) if !status.success() => {
                Err(KeyError::Keygen { name: name.to_owned(), message: last_line(&log, status) })
            }
            Some(_) => fs::read_to_string(folder.path().join("message.sig"))
                .map_err(io("cannot read the signature of ssh-keygen")),
        }
    }
}

/// The last line that says something, with unprintable characters escaped.
fn last_line(log: &Path, status: ExitStatus) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    match text.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        Some(line) => line.chars().take(300).flat_map(char::escape_debug).collect(),
        None => format!("it said nothing ({status})"),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn programs_are_found_in_absolute_folders_only() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("tool");
        fs::write(&program, "").unwrap();
        let path =
            env::join_paths([Path::new(""), Path::new("."), Path::new("/nowhere"), folder.path()]).unwrap();
        assert_eq!(find_program("tool", &path), None);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_program("tool", &path), Some(program));
        assert_eq!(find_program("tool", OsStr::new("")), None);
    }

    #[test]
    fn nothing_of_git_is_passed_on() {
        let mut command = Command::new("true");
        scrub_names(&mut command, ["GIT_DIR", "GIT_CONFIG_COUNT", "PATH"].map(OsString::from).into_iter());
        let changes: Vec<_> =
            command.get_envs().map(|(name, value)| (name.to_str(), value.is_some())).collect();
        assert_eq!(
            changes,
            [(Some("GIT_CONFIG_COUNT"), false), (Some("GIT_DIR"), false), (Some("LC_ALL"), true)]
        );
    }

    #[test]
    fn what_takes_too_long_is_killed() {
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        assert!(wait_until(&mut child, Instant::now() + Duration::from_millis(20)).unwrap().is_none());
        assert!(child.try_wait().unwrap().is_some());
    }
}
