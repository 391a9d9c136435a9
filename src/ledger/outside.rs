//! The verdict of a check that ran elsewhere: a signed file that names exactly what it judged.

use serde::{Deserialize, Serialize};

use super::trust::{NotTrusted, TrustRoot};
use crate::at::At;
use crate::canonical::{self, CanonicalError};
use crate::contract::Contract;
use crate::oid::Oid;
use crate::sign::sshsig::{self, SignatureError};

/// The namespace in which outside verdicts are signed.
pub const VERDICT_NAMESPACE: &str = "git-loop-verdict";

/// An outside verdict. The file is its canonical JSON; the signature lies beside it in `FILE.sig`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutsideVerdict {
    /// The id of the loop.
    #[serde(rename = "loop")]
    pub loop_id: String,
    /// The checkpoint record of the iteration.
    pub checkpoint: Oid,
    /// The tree of the candidate.
    pub candidate_tree: Oid,
    /// The tree that was checked: the candidate's with every check path replaced by its frozen object.
    pub check_tree: Oid,
    /// The tree of the frozen check paths: `frozen.tree` of the contract.
    pub frozen: Oid,
    /// The exit code of the check.
    pub exit_code: i32,
    /// The metric, where `metric.from` is `verdict`.
    pub metric_value: Option<f64>,
    /// The failing tests.
    pub failures: Option<Vec<String>>,
    /// All tests that ran.
    pub collected: Option<Vec<String>>,
}

/// Why a file is no verdict on what it is brought for.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// Not canonical, or a field is missing or of another type.
    #[error("the verdict is not canonical JSON with its fields in order: {0}")]
    Canonical(#[from] CanonicalError),
    /// It is about something else.
    #[error("the verdict is about {field} {found}, not {expected}")]
    Other {
        /// The field.
        field: &'static str,
        /// What it names.
        found: String,
        /// What it must name.
        expected: String,
    },
    /// Its signature does not hold.
    #[error("the verdict's signature: {0}")]
    Signature(#[from] SignatureError),
    /// The signer is no verifier.
    #[error("the verdict is signed by {key}, which is no verifier's: {why}")]
    NoVerifier {
        /// The fingerprint.
        key: String,
        /// Why not.
        why: String,
        /// Whether it is a verifier's, and only not for verdicts.
        namespace: bool,
    },
    /// Who runs the loop cannot judge it.
    #[error("the verdict is signed with the key that runs the loop")]
    Runner,
}

/// What a verdict must be about.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    /// The checkpoint record.
    pub checkpoint: Oid,
    /// The tree of the candidate.
    pub candidate_tree: Oid,
    /// The tree of the check.
    pub check_tree: Oid,
}

impl OutsideVerdict {
    /// Reads the bytes of a verdict.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, OutsideError> {
        Ok(canonical::read_canonical(bytes)?)
    }

    /// The bytes that are signed.
    pub fn to_bytes(&self) -> Vec<u8> {
        canonical::canonical_json(self).into_bytes()
    }

    /// Reads a verdict and its armored signature, and refuses one that is not about `subject`, or not by a verifier of the contract
    /// whom `trust` knew at `at`. `runner` is the fingerprint of the key that signs the iteration.
    pub fn verified(
        bytes: &[u8],
        signature: &[u8],
        contract: &Contract,
        subject: Subject,
        trust: &TrustRoot,
        at: At,
        runner: &str,
    ) -> Result<Self, OutsideError> {
        let verdict = Self::from_bytes(bytes)?;
        let names = |field: &'static str, found: String, expected: String| {
            if found == expected { Ok(()) } else { Err(OutsideError::Other { field, found, expected }) }
        };
        names("loop", verdict.loop_id.clone(), contract.loop_id.clone())?;
        names("checkpoint", verdict.checkpoint.to_string(), subject.checkpoint.to_string())?;
        names("candidate tree", verdict.candidate_tree.to_string(), subject.candidate_tree.to_string())?;
        names("check tree", verdict.check_tree.to_string(), subject.check_tree.to_string())?;
        names("frozen paths", verdict.frozen.to_string(), contract.frozen.tree.to_string())?;
        let by = sshsig::verify(signature, VERDICT_NAMESPACE, bytes)?;
        let key = crate::sign::fingerprint(&by.key);
        if key == runner {
            return Err(OutsideError::Runner);
        }
        let mut refused: Option<NotTrusted> = None;
        let mut namespace = false;
        for verifier in &contract.roles.verifier {
            match trust.check_in(verifier, &by.key, at, VERDICT_NAMESPACE) {
                Ok(()) => return Ok(verdict),
                Err(why) => refused = Some(why),
            }
            namespace |= trust.check(verifier, &by.key, at).is_ok();
        }
        let why = refused.map_or_else(|| "the contract names no verifier".to_owned(), |why| why.to_string());
        Err(OutsideError::NoVerifier { key, why, namespace })
    }
}
