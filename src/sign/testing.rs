//! Real keys, a real agent and real git for the tests of this module, all in a temporary folder of their own.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ssh_key::PublicKey;
use tempfile::TempDir;

use super::pubkey::{self, KeyText};
use super::{KeyOrigin, KeyRequest, KeySpec, PassphraseSource};

/// A temporary folder that is home, repository and key store at once.
pub(super) struct Place {
    folder: TempDir,
}

impl Place {
    pub(super) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes an executable shell script. Another process does it: if this one had the file open for writing while another thread
    /// starts a program, running the script could fail with "text file busy".
    pub(super) fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.path(name);
        let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod 755 \"$2\"";
        succeed(self.command("sh").args(["-c", write, "sh", body]).arg(&path));
        path
    }

    /// A command in the folder, with nothing of the environment but `PATH`.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path())
            .env("TZ", "UTC")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_AUTHOR_NAME", "Ann Author")
            .env("GIT_AUTHOR_EMAIL", "ann@example.org")
            .env("GIT_COMMITTER_NAME", "Ann Author")
            .env("GIT_COMMITTER_EMAIL", "ann@example.org")
            .env("GIT_AUTHOR_DATE", "1700000000 +0000")
            .env("GIT_COMMITTER_DATE", "1700000000 +0000")
            .stdin(Stdio::null());
        command
    }

    /// Makes a key with `ssh-keygen`, encrypted if `passphrase` is not empty.
    pub(super) fn keygen(&self, name: &str, kind: &[&str], passphrase: &str) -> PathBuf {
        let path = self.path(name);
        let mut command = self.command("ssh-keygen");
        // Few rounds of bcrypt: the tests are built without optimisation.
        command
            .args(["-q", "-a", "1", "-N", passphrase, "-C", "a comment", "-f"])
            .arg(&path)
            .arg("-t")
            .args(kind);
        succeed(&mut command);
        path
    }

    pub(super) fn request(&self, value: impl Into<String>) -> KeyRequest {
        KeyRequest {
            spec: KeySpec::new(value, KeyOrigin::UserConfig),
            home: Some(self.folder.path().to_owned()),
            base_dir: self.folder.path().to_owned(),
            agent_socket: None,
            ssh_keygen: super::keygen::find_program("ssh-keygen", &std::env::var_os("PATH").unwrap()),
            passphrase: PassphraseSource::default(),
        }
    }
}

pub(super) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Runs a command that must succeed, and gives its output without the final newline.
pub(super) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", both(&output));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

pub(super) fn both(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a command with `input` on its standard input.
pub(super) fn feed(command: &mut Command, input: &[u8]) -> Output {
    use std::io::Write;

    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A program that fails early may not read its input at all.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

pub(super) fn public(path: &Path) -> PublicKey {
    let file = fs::read_to_string(format!("{}.pub", path.display())).unwrap();
    match pubkey::parse(&file) {
        Some(KeyText::Plain(key)) => key,
        other => panic!("{other:?}"),
    }
}

/// A real `ssh-agent`, ended on drop.
pub(super) struct AgentProcess {
    child: Child,
    pub(super) socket: PathBuf,
}

impl AgentProcess {
    pub(super) fn start(place: &Place) -> Self {
        let socket = place.path("agent.sock");
        let child = place
            .command("ssh-agent")
            .arg("-D")
            .arg("-a")
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        // The file is there before anyone listens.
        while UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < deadline, "ssh-agent did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { child, socket }
    }

    pub(super) fn add(&self, place: &Place, key: &Path) {
        succeed(place.command("ssh-add").arg("-q").arg(key).env("SSH_AUTH_SOCK", &self.socket));
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
