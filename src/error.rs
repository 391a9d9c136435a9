//! One error type for everything a person can be told: a kind, a message, a cause and hints.
//!
//! Libraries below `cli` may have narrower error enums; they become an [`Error`] where a command first needs to know
//! which exit code a failure deserves. `cli::ui` prints it, and nothing else does.

use std::error::Error as StdError;
use std::fmt;

use crate::exit::{ExitCode, HaltReason};

/// What an [`Error`] is about; it alone picks the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bad arguments or a bad `loop.toml`: exit 129, as git does.
    Usage,
    /// The repository, a key, a program or the machine is not fit: exit 30.
    Workspace,
    /// A gate, a review or a promotion said no: exit 1.
    Refused,
    /// A ledger does not verify: exit 20.
    Invariant,
    /// The command answers with the exit code of a halt.
    Halt(HaltReason),
    /// A signal with this number asked us to stop: exit 128 + number.
    Interrupted(i32),
    /// A fault of ours: exit 50.
    Internal,
}

impl Kind {
    /// The exit code of this kind.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Usage => ExitCode::USAGE,
            Self::Workspace => ExitCode::WORKSPACE,
            Self::Refused => ExitCode::REFUSED,
            Self::Invariant => ExitCode::INVARIANT,
            Self::Halt(reason) => reason.exit_code(),
            Self::Interrupted(signal) => ExitCode::from_signal(signal),
            Self::Internal => ExitCode::INTERNAL,
        }
    }
}

/// An error a person can act on.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
    hints: Vec<String>,
}

/// The result of everything that can fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind`. `message` names the thing and the place; it has no final full stop.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), cause: None, hints: Vec::new() }
    }

    /// [`Kind::Usage`].
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// [`Kind::Workspace`].
    pub fn workspace(message: impl Into<String>) -> Self {
        Self::new(Kind::Workspace, message)
    }

    /// [`Kind::Refused`].
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Kind::Refused, message)
    }

    /// [`Kind::Invariant`].
    pub fn invariant(message: impl Into<String>) -> Self {
        Self::new(Kind::Invariant, message)
    }

    /// [`Kind::Internal`].
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// Adds the next step: a sentence that starts with a verb, or a command to run.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The same failure, told as one of what was being done; its kind and its next steps stay.
    #[must_use]
    pub fn while_doing(mut self, message: impl Into<String>) -> Self {
        let hints = std::mem::take(&mut self.hints);
        Self { kind: self.kind, message: message.into(), hints, cause: Some(Box::new(self)) }
    }

    /// Adds what made it fail.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// What the error is about.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The exit code the process ends with.
    pub fn exit_code(&self) -> ExitCode {
        self.kind.exit_code()
    }

    /// The next steps, in the order to try them.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// The message without its causes.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The message and every cause, joined by `: `.
    pub fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut cause = self.cause.as_deref().map(|cause| cause as &dyn StdError);
        while let Some(error) = cause {
            let part = error.to_string();
            // Wrapping errors often repeat the error they wrap.
            if !text.ends_with(&part) {
                text.push_str(": ");
                text.push_str(&part);
            }
            cause = error.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

/// Turns any failure into an [`Error`] with a message that says what was being done.
pub trait ResultExt<T> {
    /// The failure is one of the repository or the machine.
    fn or_workspace(self, message: impl FnOnce() -> String) -> Result<T>;
    /// The failure should not be possible.
    fn or_internal(self, message: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> ResultExt<T> for std::result::Result<T, E> {
    fn or_workspace(self, message: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|cause| Error::workspace(message()).caused_by(cause))
    }

    fn or_internal(self, message: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|cause| Error::internal(message()).caused_by(cause))
    }
}
