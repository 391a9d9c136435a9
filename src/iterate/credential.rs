//! A credential for one run of the worker: made before it, revoked after it, whatever happens in between.
//!
//! It lies in a file of the loop's private folder from the moment it exists until it is revoked, so that a runner that was killed leaves what
//! the next one needs to revoke it. It is given to the worker by the name of a variable and to the command that revokes it on standard input:
//! never on a command line, where every user of the machine sees it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use zeroize::Zeroizing;

use super::iteration::random_id;
use super::secrets::SHORTEST_SECRET;
use super::session::Session;
use super::step::{argv, user_path};
use crate::contract::{CommandLine, Contract};
use crate::error::{Error, Kind, Result, ResultExt};
use crate::exit::HaltReason;
use crate::host::HostEnv;
use crate::sandbox::{self, Adapter, Command, Ended, Exit, Network, Outcome, Policy, shell};

/// How long either command may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest credential, in bytes: a variable cannot be much longer.
const LONGEST: usize = 64 << 10;
/// How the name of a file ends that holds a credential that is not revoked yet.
const SUFFIX: &str = ".credential";

/// A credential that is not revoked yet.
pub(super) struct Minted {
    /// The variable that the worker gets it in.
    pub name: String,
    /// The credential.
    pub value: Zeroizing<Vec<u8>>,
    journal: PathBuf,
}

impl Session<'_> {
    /// Makes a credential, if the contract asks for one.
    pub(super) fn mint(&self) -> Result<Option<Minted>> {
        let Some(terms) = &self.tip.contract.worker.credential else { return Ok(None) };
        let outcome = self.run_outside(&terms.mint, "worker.credential.mint", Vec::new())?;
        if outcome.ended != Ended::Itself || outcome.exit != Exit::Code(0) {
            return Err(Error::workspace(format!(
                "the credential of the worker could not be made: worker.credential.mint {}",
                how(&outcome)
            ))
            .hint(format!("run it by hand: {}", terms.mint.display())));
        }
        let mut value = Zeroizing::new(outcome.stdout.whole.unwrap_or_default());
        while value.last().is_some_and(u8::is_ascii_whitespace) {
            value.pop();
        }
        if value.len() < SHORTEST_SECRET || value.len() > LONGEST || value.iter().any(u8::is_ascii_control) {
            return Err(Error::workspace(format!(
                "worker.credential.mint printed no credential: it must be one line of {SHORTEST_SECRET} to {LONGEST} bytes"
            ))
            .hint("let it print the credential alone, and everything else on standard error"));
        }
        let journal = self.places.private.join(format!("{}{SUFFIX}", random_id()));
        write_private(&journal, &value)
            .or_workspace(|| format!("{} cannot be written", journal.display()))?;
        self.minted.borrow_mut().push((terms.env.clone(), value.clone()));
        Ok(Some(Minted { name: terms.env.clone(), value, journal }))
    }

    /// Revokes a credential. One that cannot be revoked now is told, and tried again when the loop is run the next time.
    pub(super) fn revoke(&self, minted: &Minted) {
        self.revoke_file(&minted.journal, &minted.value);
    }

    /// Revokes what an earlier step or a dead runner left.
    pub(super) fn revoke_left(&self) {
        let Ok(entries) = fs::read_dir(&self.places.private) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let ours =
                path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(SUFFIX.as_bytes()));
            if ours && let Ok(value) = fs::read(&path) {
                self.revoke_file(&path, &Zeroizing::new(value));
            }
        }
    }

    fn revoke_file(&self, journal: &Path, value: &[u8]) {
        let Some(terms) = &self.tip.contract.worker.credential else { return };
        let told = match self.run_outside(&terms.revoke, "worker.credential.revoke", value.to_vec()) {
            Ok(outcome) if outcome.ended == Ended::Itself && outcome.exit == Exit::Code(0) => {
                // A file that stays is revoked once more, which says so if it does harm.
                let _ = fs::remove_file(journal);
                return;
            }
            Ok(outcome) => how(&outcome),
            Err(error) => error.to_string(),
        };
        (self.say)(&format!(
            "{}: the credential in {} could not be revoked: worker.credential.revoke {told}; it is tried again with the next run",
            self.id,
            journal.display()
        ));
    }

    /// Runs a command of the contract as the user, outside of every sandbox. An interruption does not reach it.
    fn run_outside(&self, command: &CommandLine, what: &str, stdin: Vec<u8>) -> Result<Outcome> {
        let mut dirs = user_path(self.host);
        dirs.extend(shell::trusted_dirs());
        let place = self.repo.common_dir();
        let argv = argv(command, &dirs, place, what)?;
        let command = Command {
            env: self.host.vars().iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            stdin,
            timeout: PATIENCE,
            keep_whole: LONGEST + 2,
            head_tail: 1024,
            ..Command::new(argv, place)
        };
        let policy = Policy::new(Adapter::None, Network::Host);
        Ok(sandbox::run(&command, &policy, &AtomicBool::new(false))?)
    }
}

/// How a command went wrong. What it printed may hold the credential.
fn how(outcome: &Outcome) -> String {
    match (outcome.ended, outcome.exit) {
        (Ended::Itself, Exit::Code(code)) => format!("exited with {code}"),
        (Ended::Itself, Exit::Signal(signal)) => format!("was ended by signal {signal}"),
        (Ended::TimedOut, _) => format!("took longer than {} s", PATIENCE.as_secs()),
        _ => "printed too much".to_owned(),
    }
}

/// Writes a new file that only this user can read, and waits for the disk.
fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Where people keep credentials in their home folder.
const CREDENTIALS: [&str; 21] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".docker",
    ".kube",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".password-store",
    ".vault-token",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/git/credentials",
    ".local/share/keyrings",
    "Library/Keychains",
    ".terraform.d",
];

/// Refuses a contract that gives worker and check a place of the user's credentials, under whatever name.
pub(super) fn no_credentials_granted(host: &HostEnv, contract: &Contract) -> Result<()> {
    let Some(home) = host.home_dir() else { return Ok(()) };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    for granted in &contract.sandbox.read_only {
        let path = match granted.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => PathBuf::from(granted),
        };
        let path = real(&path);
        for name in CREDENTIALS {
            let kept = home.join(name);
            if fs::symlink_metadata(&kept).is_err() {
                continue;
            }
            let kept = real(&kept);
            if path.starts_with(&kept) || kept.starts_with(&path) {
                return Err(Error::new(
                    Kind::Halt(HaltReason::CredentialScopeInvalid),
                    format!("sandbox.read_only grants {granted}, and with it the credentials in ~/{name}"),
                )
                .hint("name the folders that the command needs, one by one")
                .hint("a worker gets a credential of its own: worker.credential, or worker.env"));
            }
        }
    }
    Ok(())
}
