//! SSH signatures: making them, verifying them, and knowing whose they are.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`commit`] | commit objects as bytes: build, attach a signature, take one apart again |
//! | [`sshsig`] | SSHSIG verification in this process, never by a program that a config names |
//! | [`spec`] | which key a setting means |
//! | [`signer`] | signing with it: file, agent, `ssh-keygen` |
//! | [`allowed`] | OpenSSH allowed-signers files: who may sign what, and when |
//! | [`enroll`] and [`newkey`] | new principals for such a file; a key pair for a runner |
//! | [`revoked`] | revocation files: lists of public keys and binary KRLs |
//! | [`keygen`] | finding and running `ssh-keygen`, for what this process cannot do itself |

mod agent;
pub mod allowed;
pub mod commit;
pub mod enroll;
mod error;
pub mod keygen;
pub mod newkey;
mod openssh;
mod passphrase;
mod pattern;
mod pubkey;
pub mod revoked;
pub mod signer;
mod source;
pub mod spec;
pub mod sshsig;
#[cfg(all(test, unix))]
mod testing;
mod wire;

pub use allowed::{AllowedSigners, AllowedSignersError, NotAllowed};
pub use commit::{CommitError, CommitObject, Person, SignedCommit, attach_signature, parse_signed};
pub use error::KeyError;
pub use passphrase::{AskpassRequire, PassphraseSource};
pub use revoked::{Revocations, RevocationsError};
pub use signer::Signer;
pub use source::{named_public_key, private_parts};
pub use spec::{KeyOrigin, KeyRequest, KeySpec};
pub use sshsig::{SignatureError, SignedBy, fingerprint};

/// The SSHSIG namespace of everything that git itself signs and verifies.
pub const GIT_NAMESPACE: &str = "git";
