//! Why a key cannot sign, told so that a person can mend it.

use std::io;
use std::path::PathBuf;

use super::sshsig::{RSA_MAX_BITS, RSA_MIN_BITS, SignatureError};
use crate::error::Error;

/// Why a key cannot be used. `name` is the key as the setting names it, with the setting.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The setting is there and says nothing.
    #[error("no signing key: {origin} is empty")]
    Empty {
        /// Where the key should have been named.
        origin: String,
    },
    /// A literal key that is none.
    #[error("{origin} holds a literal key that is not a valid SSH public key: `{text}`")]
    BadLiteral {
        /// Where it was named.
        origin: String,
        /// Its beginning.
        text: String,
    },
    /// `~user` names nobody, `~` has no home, or git's `%(prefix)` was used.
    #[error("signing key `{text}` from {origin} cannot be resolved to a file: {reason}")]
    BadPath {
        /// Where it was named.
        origin: String,
        /// As it was written.
        text: String,
        /// What does not resolve.
        reason: String,
    },
    /// There is no such file.
    #[error("signing key {name} does not exist: there is no `{}`", path.display())]
    Missing {
        /// The key.
        name: String,
        /// The file that it resolves to.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("signing key {name} cannot be read from `{}`", path.display())]
    Unreadable {
        /// The key.
        name: String,
        /// The file that it resolves to.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is neither a private nor a public key.
    #[error("signing key {name} is not an SSH key: {reason}")]
    NotAKey {
        /// The key.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Others may read the private key.
    #[error(
        "permissions {mode:04o} for the private key `{}` are too open; it is required that private key files are not \
         accessible by others, this private key is ignored",
        path.display()
    )]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The private key beside a public key file is another key's.
    #[error("the private key `{}` does not belong to the public key {name}", path.display())]
    OtherKey {
        /// The public key.
        name: String,
        /// The private key.
        path: PathBuf,
    },
    /// A type of key whose signatures are not accepted anywhere.
    #[error("signing key {name} is of type `{algorithm}`, which cannot sign here")]
    Unsupported {
        /// The key.
        name: String,
        /// Its type.
        algorithm: String,
    },
    /// An RSA key that is too short or absurdly long.
    #[error("signing key {name} has {bits} bits, accepted are {RSA_MIN_BITS} to {RSA_MAX_BITS}")]
    RsaLength {
        /// The key.
        name: String,
        /// The length of its modulus.
        bits: usize,
    },
    /// An old private key file does not say its public key, and no file beside it does.
    #[error("signing key {name} is in an old file format and there is no `{}` beside it", public.display())]
    NoPublicKey {
        /// The key.
        name: String,
        /// The file that should be there.
        public: PathBuf,
    },
    /// Only an agent can have the key, and there is none.
    #[error("signing key {name} ({fingerprint}) can only be in an SSH agent, and SSH_AUTH_SOCK is not set")]
    NoAgent {
        /// The key.
        name: String,
        /// Its fingerprint.
        fingerprint: String,
    },
    /// The agent does not answer.
    #[error("the SSH agent at SSH_AUTH_SOCK=`{}` does not answer, signing key {name} needs it", socket.display())]
    AgentUnreachable {
        /// The key.
        name: String,
        /// The agent's socket.
        socket: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The agent has other keys, or none.
    #[error(
        "signing key {name} ({fingerprint}) is not among the {held} in the SSH agent at SSH_AUTH_SOCK=`{}`",
        socket.display()
    )]
    NotInAgent {
        /// The key.
        name: String,
        /// Its fingerprint.
        fingerprint: String,
        /// The agent's socket.
        socket: PathBuf,
        /// How many keys the agent has, in words.
        held: String,
    },
    /// The agent has the key and does not sign: locked, or the confirmation was declined.
    #[error("the SSH agent at SSH_AUTH_SOCK=`{}` did not sign with key {name}: {reason}", socket.display())]
    AgentRefused {
        /// The key.
        name: String,
        /// The agent's socket.
        socket: PathBuf,
        /// What it said.
        reason: String,
    },
    /// The private key is encrypted and nobody gave the passphrase.
    #[error("signing key {name} is encrypted and {reason}")]
    Encrypted {
        /// The key.
        name: String,
        /// Why there is no passphrase.
        reason: String,
    },
    /// `ssh-keygen` is needed and is not installed.
    #[error("signing key {name} needs ssh-keygen, which is in no folder of PATH")]
    NoKeygen {
        /// The key.
        name: String,
    },
    /// `ssh-keygen` failed.
    #[error("ssh-keygen could not sign with key {name}: {message}")]
    Keygen {
        /// The key.
        name: String,
        /// The last line that it printed.
        message: String,
    },
    /// `ssh-keygen` or the agent took too long.
    #[error("signing with key {name} took longer than {seconds} seconds")]
    TimedOut {
        /// The key.
        name: String,
        /// How long we waited.
        seconds: u64,
    },
    /// What came back is not a signature by this key: no other key is ever accepted in its place.
    #[error("signing with key {name} gave a signature that does not verify")]
    BadSignature {
        /// The key.
        name: String,
        /// What is wrong with it.
        source: SignatureError,
    },
    /// The signature is by another key.
    #[error("signing with key {name} gave a signature by another key, {found}")]
    SignedByOther {
        /// The key.
        name: String,
        /// The fingerprint of the key that signed.
        found: String,
    },
    /// A temporary file or a program could not be used.
    #[error("signing with key {name} failed: {action}")]
    Io {
        /// The key.
        name: String,
        /// What was being done.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The crate refuses to sign.
    #[error("signing with key {name} failed: {reason}")]
    Crypto {
        /// The key.
        name: String,
        /// What it said.
        reason: String,
    },
}

impl KeyError {
    /// The next steps, in the order to try them.
    pub fn hints(&self) -> Vec<String> {
        const LOAD: &str = "load the key into an SSH agent with `ssh-add FILE`";
        const SOCKET: &str =
            "make sure that SSH_AUTH_SOCK reaches this process: cron, systemd and sudo drop it";
        let hints: &[&str] = match self {
            Self::Empty { .. } => &["name a key with `--key FILE` or `git config user.signingkey FILE`"],
            Self::BadLiteral { .. } => &[
                "write the key as in a .pub file: `ssh-ed25519 AAAA…`; a file whose name starts like a key is `./ssh-…`",
            ],
            Self::BadPath { .. } => &["give the full path of the key file"],
            Self::Missing { .. } => &["check the path, or make a key with `ssh-keygen -t ed25519 -f FILE`"],
            Self::Unreadable { .. } => &["check who owns the file and its folder"],
            Self::NotAKey { .. } => {
                &["name a private key made by ssh-keygen, or its .pub file if the key is in an SSH agent"]
            }
            Self::TooOpen { path, .. } => {
                return vec![format!("run `chmod 600 '{}'`", path.display())];
            }
            Self::OtherKey { path, .. } => {
                return vec![
                    format!(
                        "write the right public key with `ssh-keygen -y -f '{0}' > '{0}.pub'`",
                        path.display()
                    ),
                    LOAD.to_owned(),
                ];
            }
            Self::Unsupported { .. } => &["sign with an ed25519 key: `ssh-keygen -t ed25519 -f FILE`"],
            Self::RsaLength { .. } => {
                &["sign with an ed25519 key, or make a longer one: `ssh-keygen -t rsa -b 3072 -f FILE`"]
            }
            Self::NoPublicKey { .. } => &[
                "convert the file with `ssh-keygen -p -f FILE`",
                "or write its public key with `ssh-keygen -y -f FILE > FILE.pub`",
            ],
            Self::NoAgent { .. } => &[
                "start an agent and load the key: `eval $(ssh-agent)`, then `ssh-add FILE`",
                SOCKET,
                "or name a private key file with `--key FILE` or `git config user.signingkey FILE`; git's \
                 gpg.ssh.defaultKeyCommand only chooses among keys of an agent",
            ],
            Self::AgentUnreachable { .. } => &["check that the agent still runs: `ssh-add -l`", SOCKET],
            Self::NotInAgent { .. } => &[LOAD, "list what the agent has with `ssh-add -l`", SOCKET],
            Self::AgentRefused { .. } => &["unlock the agent with `ssh-add -X`, or confirm when it asks"],
            Self::Encrypted { .. } => &[
                LOAD,
                "or set SSH_ASKPASS to a program that prints the passphrase, with SSH_ASKPASS_REQUIRE=force",
                SOCKET,
            ],
            Self::NoKeygen { .. } => &["install the OpenSSH client programs"],
            Self::Keygen { .. } => &["try it by hand: `ssh-keygen -Y sign -n git -f FILE SOME_FILE`", LOAD],
            Self::TimedOut { .. } => &["answer the prompt or touch the token sooner", LOAD],
            Self::BadSignature { .. } | Self::SignedByOther { .. } => {
                &["check that the .pub file beside the private key is its own"]
            }
            Self::Io { .. } | Self::Crypto { .. } => &[],
        };
        hints.iter().map(|hint| (*hint).to_owned()).collect()
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        let hints = error.hints();
        let outer = Self::workspace("the signing key cannot be used").caused_by(error);
        hints.into_iter().fold(outer, Self::hint)
    }
}
