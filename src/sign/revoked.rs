//! Revocation files (`gpg.ssh.revocationFile`): a list of public keys, or a binary key revocation list (OpenSSH's `PROTOCOL.krl`).

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use ssh_key::PublicKey;

use super::pubkey::{self, KeyText};
use super::wire::Wire;

const KRL_MAGIC: &[u8] = b"SSHKRL\n\0";
const KRL_FORMAT: u32 = 1;
/// The kinds of sections.
const CERTIFICATES: u8 = 1;
const EXPLICIT_KEYS: u8 = 2;
const SHA1_FINGERPRINTS: u8 = 3;
const SIGNATURE: u8 = 4;
const SHA256_FINGERPRINTS: u8 = 5;
const EXTENSION: u8 = 255;

/// Why a revocation file cannot be used. All of these fail closed: nothing is verified against a list that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RevocationsError {
    /// The file is missing or cannot be read.
    #[error("revocation file `{}` cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of a list of keys is not a key.
    #[error("line {line} of the revocation file is not a public key")]
    Line {
        /// Counted from 1.
        line: usize,
    },
    /// The bytes are neither text nor a KRL that follows its format.
    #[error("malformed revocation file: {0}")]
    Malformed(&'static str),
    /// The KRL has something in it that may revoke keys and that we do not understand.
    #[error("the revocation file has {0} that is not understood and may revoke keys")]
    NotUnderstood(String),
}

impl From<RevocationsError> for crate::error::Error {
    fn from(error: RevocationsError) -> Self {
        Self::workspace("the revocation file cannot be used").caused_by(error).hint(
            "check the file that `git config gpg.ssh.revocationFile` names: public keys, one a line, or a KRL of `ssh-keygen -k`",
        )
    }
}

/// The keys that a revocation file revokes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Revocations {
    blobs: HashSet<Vec<u8>>,
    sha1: HashSet<Vec<u8>>,
    sha256: HashSet<Vec<u8>>,
    digest: String,
}

impl Revocations {
    /// Reads a revocation file. A file that is configured and missing is an error.
    pub fn load(path: &Path) -> Result<Self, RevocationsError> {
        let bytes = fs::read(path)
            .map_err(|source| RevocationsError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&bytes)
    }

    /// Parses the content of a revocation file of either kind.
    pub fn parse(bytes: &[u8]) -> Result<Self, RevocationsError> {
        let mut revoked = match bytes.strip_prefix(KRL_MAGIC) {
            Some(rest) => Self::parse_krl(rest)?,
            None => Self::parse_list(bytes)?,
        };
        revoked.digest = crate::canonical::sha256_hex(bytes);
        Ok(revoked)
    }

    /// SHA-256 of the file, in hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Is this key revoked?
    pub fn is_revoked(&self, key: &PublicKey) -> bool {
        let blob = pubkey::to_blob(key);
        if self.blobs.contains(&blob) {
            return true;
        }
        if !self.sha256.is_empty() && self.sha256.contains(Sha256::digest(&blob).as_slice()) {
            return true;
        }
        // A blob that attacks SHA-1 has no trustworthy fingerprint: it counts as revoked.
        !self.sha1.is_empty() && sha1(&blob).is_none_or(|digest| self.sha1.contains(&digest))
    }

    fn parse_list(bytes: &[u8]) -> Result<Self, RevocationsError> {
        let text = std::str::from_utf8(bytes)
            .map_err(|_| RevocationsError::Malformed("it is neither text nor a KRL"))?;
        let mut revoked = Self::default();
        for (index, line) in text.split('\n').enumerate() {
            let line = line.trim_matches([' ', '\t', '\r']);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match pubkey::parse(line) {
                Some(KeyText::Plain(key)) => {
                    revoked.blobs.insert(pubkey::to_blob(&key));
                }
                // Revokes that certificate, and certificates are not accepted in the first place.
                Some(KeyText::Certificate) => {}
                None => return Err(RevocationsError::Line { line: index + 1 }),
            }
        }
        Ok(revoked)
    }

    fn parse_krl(bytes: &[u8]) -> Result<Self, RevocationsError> {
        use RevocationsError::Malformed;

        let mut wire = Wire::new(bytes);
        if wire.u32().ok_or(Malformed("no version"))? != KRL_FORMAT {
            return Err(RevocationsError::NotUnderstood("a format version".to_owned()));
        }
        // Version, date and flags of the list, a reserved field, a comment.
        let header = (wire.u64(), wire.u64(), wire.u64(), wire.string(), wire.string());
        let (Some(_), Some(_), Some(_), Some(_), Some(_)) = header else {
            return Err(Malformed("its header is cut off"));
        };
        let mut revoked = Self::default();
        let mut signed = false;
        while !wire.is_empty() {
            let kind = wire.u8().ok_or(Malformed("a section is cut off"))?;
            let section = wire.string().ok_or(Malformed("a section is cut off"))?;
            if signed && kind != SIGNATURE {
                return Err(Malformed("a section follows its signature"));
            }
            match kind {
                // Names certificates by their authority and serial number or key id; a plain key has neither.
                CERTIFICATES => {}
                EXPLICIT_KEYS => revoked.blobs.extend(strings(section)?),
                SHA1_FINGERPRINTS => revoked.sha1.extend(digests(section, 20)?),
                SHA256_FINGERPRINTS => revoked.sha256.extend(digests(section, 32)?),
                // The key that signed, then (a string without a kind of its own) the signature. Nobody says whom to trust for it.
                SIGNATURE => {
                    wire.string().ok_or(Malformed("a signature is cut off"))?;
                    signed = true;
                }
                EXTENSION => check_extension(section)?,
                other => return Err(RevocationsError::NotUnderstood(format!("a section of kind {other}"))),
            }
        }
        Ok(revoked)
    }
}

/// An extension says itself whether one may ignore it.
fn check_extension(section: &[u8]) -> Result<(), RevocationsError> {
    let mut wire = Wire::new(section);
    match (wire.text(), wire.u8(), wire.string()) {
        (Some(_), Some(0), Some(_)) => Ok(()),
        (Some(name), Some(_), Some(_)) => {
            let name: String = name.chars().take(64).flat_map(char::escape_debug).collect();
            Err(RevocationsError::NotUnderstood(format!("a critical extension `{name}`")))
        }
        _ => Err(RevocationsError::Malformed("an extension is cut off")),
    }
}

fn strings(section: &[u8]) -> Result<Vec<Vec<u8>>, RevocationsError> {
    let mut wire = Wire::new(section);
    let mut found = Vec::new();
    while !wire.is_empty() {
        let value = wire.string().ok_or(RevocationsError::Malformed("a key is cut off"))?;
        found.push(value.to_vec());
    }
    Ok(found)
}

fn digests(section: &[u8], length: usize) -> Result<Vec<Vec<u8>>, RevocationsError> {
    let found = strings(section)?;
    if found.iter().any(|digest| digest.len() != length) {
        return Err(RevocationsError::Malformed("a fingerprint has the wrong length"));
    }
    Ok(found)
}

fn sha1(blob: &[u8]) -> Option<Vec<u8>> {
    let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
    hasher.update(blob);
    hasher.try_finalize().ok().map(|id| id.as_slice().to_vec())
}

#[cfg(test)]
mod tests;
