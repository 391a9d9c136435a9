//! A credential for one run of the worker: made before it, revoked after it, whatever happens in between.
//!
//! It lies in a file of the loop's private folder from the moment it exists until it is revoked, so that a runner that was killed leaves what
//! the next one needs to revoke it. It is given to the worker by the name of a variable and to the command that revokes it on standard input:
//! never on a command line, where every user of the machine sees it.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

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

/// How the name of a file ends that a credential is about to be written to.
const RESERVED: &str = ".credential.new";
/// How many lines are tried to be revoked of what was no credential.
const LINES: usize = 8;
/// How long either command may go on once the run is to stop: it gets SIGTERM then, and the journal is for the next run.
const STOP_PATIENCE: Duration = Duration::from_millis(500);
/// How often it is looked whether the run is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A credential that is not revoked yet.
pub(super) struct Minted {
    /// The variable that the worker gets it in.
    pub name: String,
    /// The credential.
    pub value: Zeroizing<Vec<u8>>,
    journal: PathBuf,
}

impl Session<'_> {
    /// Makes a credential, if the contract asks for one. What was made and cannot be used is revoked.
    pub(super) fn mint(&self) -> Result<Option<Minted>> {
        let Some(terms) = &self.tip.contract.worker.credential else { return Ok(None) };
        // Room for it before it exists: what cannot be written down cannot be revoked by the next runner.
        let reserved = Reserved::make(&self.places.private).or_workspace(|| {
            format!("there is no room for a credential in {}", self.places.private.display())
        })?;
        let outcome = self.run_outside(&terms.mint, "worker.credential.mint", Vec::new())?;
        let printed = Zeroizing::new(outcome.stdout.whole.clone().unwrap_or_default());
        let whole = outcome.ended == Ended::Itself && outcome.stdout.whole.is_some();
        if outcome.ended == Ended::Interrupted {
            let error = self.interrupt.error("worker.credential.mint");
            return Err(self.take_back(&printed, whole, error));
        }
        if outcome.ended != Ended::Itself || outcome.exit != Exit::Code(0) {
            let error = Error::workspace(format!(
                "the credential of the worker could not be made: worker.credential.mint {}",
                how(&outcome)
            ))
            .hint(format!("run it by hand: {}", terms.mint.display()));
            return Err(self.take_back(&printed, whole, error));
        }
        let value = Zeroizing::new(printed.trim_ascii_end().to_vec());
        if !is_credential(&value) {
            let error = Error::workspace(format!(
                "worker.credential.mint printed no credential: it must be one line of {SHORTEST_SECRET} to {LONGEST} bytes"
            ))
            .hint("let it print the credential alone, and everything else on standard error");
            return Err(self.take_back(&printed, whole, error));
        }
        let journal = match reserved.keep(&value) {
            Ok(journal) => journal,
            Err(error) => {
                let place = self.places.private.display();
                let error =
                    Error::workspace(format!("the credential cannot be written in {place}")).caused_by(error);
                return Err(self.take_back(&value, true, error));
            }
        };
        self.minted.borrow_mut().push((terms.env.clone(), value.clone()));
        Ok(Some(Minted { name: terms.env.clone(), value, journal }))
    }

    /// Revokes what `worker.credential.mint` printed and nobody will use, out of memory, and adds to the error what came of it. Each line is
    /// tried by itself, as which of them is the credential is not known.
    fn take_back(&self, printed: &[u8], whole: bool, error: Error) -> Error {
        if printed.trim_ascii().is_empty() {
            return error;
        }
        let lines: Vec<&[u8]> = printed
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::trim_ascii)
            .filter(|line| is_credential(line))
            .collect();
        // What is cut is no credential, and to revoke a part of one would say that it is done.
        if !whole || lines.is_empty() || lines.len() > LINES {
            return error.hint("what it printed is not kept, and it was not revoked: if it made a credential, revoke that by hand");
        }
        let revoked = lines.iter().filter(|line| self.revoke_value(line).is_ok()).count();
        error.hint(if revoked == lines.len() {
            "what it printed was given to worker.credential.revoke".to_owned()
        } else {
            format!(
                "worker.credential.revoke took {revoked} of the {} lines that it printed: if a credential is left, revoke it by hand",
                lines.len()
            )
        })
    }

    /// Revokes a credential. One that cannot be revoked now is told, and tried again when the loop is run the next time.
    pub(super) fn revoke(&self, minted: &Minted) {
        self.revoke_file(&minted.journal, &minted.value);
    }

    /// Revokes what an earlier step or a dead runner left.
    pub(super) fn revoke_left(&self) {
        let Ok(entries) = fs::read_dir(&self.places.private) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let ends = |suffix: &str| {
                path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(suffix.as_bytes()))
            };
            let reserved = ends(RESERVED);
            if !reserved && !ends(SUFFIX) {
                continue;
            }
            let Ok(content) = fs::read(&path).map(Zeroizing::new) else { continue };
            match written(&content, reserved) {
                Some(value) => self.revoke_file(&path, value),
                // To revoke nothing, or a part, would say that it is done.
                None => {
                    let _ = fs::remove_file(&path);
                    (self.say)(&format!(
                        "{}: the runner before ended while a credential was made; if there is one, it is not known here and was not revoked",
                        self.id
                    ));
                }
            }
        }
    }

    fn revoke_file(&self, journal: &Path, value: &[u8]) {
        match self.revoke_value(value) {
            // A file that stays is revoked once more, which says so if it does harm.
            Ok(()) => {
                let _ = fs::remove_file(journal);
            }
            Err(told) => (self.say)(&format!(
                "{}: the credential in {} could not be revoked: worker.credential.revoke {told}; it is tried again with the next run",
                self.id,
                journal.display()
            )),
        }
    }

    /// Gives one credential to the command that revokes it; the error says what that did instead.
    fn revoke_value(&self, value: &[u8]) -> std::result::Result<(), String> {
        let Some(terms) = &self.tip.contract.worker.credential else {
            return Err("is no part of the contract".to_owned());
        };
        match self.run_outside(&terms.revoke, "worker.credential.revoke", value.to_vec()) {
            Ok(outcome) if outcome.ended == Ended::Itself && outcome.exit == Exit::Code(0) => Ok(()),
            Ok(outcome) => Err(how(&outcome)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Runs a command of the contract as the user, outside of every sandbox. Once the run is to stop it has only a moment left.
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
        let (interrupt, stop) = (self.interrupt.clone(), AtomicBool::new(false));
        let (quit, told) = channel::<()>();
        let outcome = std::thread::scope(|scope| {
            let stop = &stop;
            scope.spawn(move || {
                let mut since = None;
                while matches!(told.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout)) {
                    if interrupt.is_set() && since.get_or_insert_with(Instant::now).elapsed() >= STOP_PATIENCE
                    {
                        stop.store(true, Ordering::SeqCst);
                        return;
                    }
                }
            });
            let outcome = sandbox::run(&command, &policy, stop);
            drop(quit);
            outcome
        });
        Ok(outcome?)
    }
}

/// How a command went wrong. What it printed may hold the credential.
fn how(outcome: &Outcome) -> String {
    match (outcome.ended, outcome.exit) {
        (Ended::Itself, Exit::Code(code)) => format!("exited with {code}"),
        (Ended::Itself, Exit::Signal(signal)) => format!("was ended by signal {signal}"),
        (Ended::TimedOut, _) => format!("took longer than {} s", PATIENCE.as_secs()),
        (Ended::Interrupted, _) => "was ended with the run".to_owned(),
        _ => "printed too much".to_owned(),
    }
}

/// Whether this can be a credential.
fn is_credential(value: &[u8]) -> bool {
    (SHORTEST_SECRET..=LONGEST).contains(&value.len()) && !value.iter().any(u8::is_ascii_control)
}

/// The credential in a file, if all of it is there. Where one was about to be written, the end of the line shows that it was.
fn written(content: &[u8], reserved: bool) -> Option<&[u8]> {
    let line = match content.iter().position(|byte| *byte == b'\n') {
        Some(end) => &content[..end],
        None if reserved => return None,
        None => content,
    };
    is_credential(line).then_some(line)
}

/// A file with room for a credential, which only this user can read. It goes away unless something is kept in it.
struct Reserved {
    path: PathBuf,
    file: fs::File,
}

impl Reserved {
    /// Makes one in `folder`, and waits for the disk.
    fn make(folder: &Path) -> std::io::Result<Self> {
        let path = folder.join(format!("{}{RESERVED}", random_id()));
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut reserved = Self { file: options.open(&path)?, path };
        reserved.file.write_all(&vec![0; LONGEST + 1])?;
        reserved.file.sync_all()?;
        Ok(reserved)
    }

    /// Writes a credential down, and says where. The name of a file that a credential lies in is only given to one that holds all of it.
    fn keep(mut self, value: &[u8]) -> std::io::Result<PathBuf> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&Zeroizing::new([value, b"\n"].concat()))?;
        self.file.set_len(value.len() as u64 + 1)?;
        self.file.sync_all()?;
        let kept = self.path.with_extension("");
        fs::rename(&self.path, &kept)?;
        Ok(kept)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // After it got its name there is none of the old one.
        let _ = fs::remove_file(&self.path);
    }
}

/// Where people keep credentials in their home folder.
pub(super) const CREDENTIALS: [&str; 21] = [
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_written_whole_is_no_credential() {
        let cases: [(&[u8], bool, bool); 9] = [
            (b"token-1234", false, true),
            (b"token-1234\n", false, true),
            (b"", false, false),
            (b"\0\0\0\0\0\0\0\0", false, false),
            (b"token-1234\n\0\0\0", true, true),
            (b"token-12\0\0\0\0\0", true, false),
            (b"token-1\0\0\0\n", true, false),
            (b"\0\0\0\0\0\0\0\0", true, false),
            (b"", true, false),
        ];
        for (content, reserved, whole) in cases {
            let expected = whole.then_some(&b"token-1234"[..]);
            assert_eq!(written(content, reserved), expected, "{content:?} {reserved}");
        }
    }

    #[test]
    fn a_file_has_the_name_of_a_credential_only_with_all_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let names = || -> Vec<String> {
            let entries = fs::read_dir(dir.path()).unwrap().flatten();
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
        };
        let reserved = Reserved::make(dir.path()).unwrap();
        assert!(names()[0].ends_with(RESERVED), "{:?}", names());
        let kept = reserved.keep(b"token-1234").unwrap();
        assert_eq!(fs::read(&kept).unwrap(), b"token-1234\n");
        assert_eq!(names().len(), 1);
        assert!(names()[0].ends_with(SUFFIX), "{:?}", names());
        drop(Reserved::make(dir.path()).unwrap());
        assert_eq!(names().len(), 1);
    }
}
