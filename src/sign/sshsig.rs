//! Verifying SSHSIG signatures in this process.
//!
//! The format is OpenSSH's `PROTOCOL.sshsig`. Where OpenSSH is lenient and nothing legitimate needs it, we are not: text around
//! the armour, reserved bytes, certificates, SHA-1, short RSA keys and untouched hardware keys are refused, each by name.

use rsa::pkcs1v15;
use rsa::sha2::{Sha256, Sha512};
use rsa::signature::Verifier as _;
use ssh_key::public::{KeyData, RsaPublicKey};
use ssh_key::{Algorithm, HashAlg, PublicKey, Signature, SshSig};

use super::pubkey;
use super::wire::Wire;

const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----\n";
const END: &str = "-----END SSH SIGNATURE-----";
/// No signature that OpenSSH can make is longer: RSA with 16384 bits needs about 8 KiB.
const LONGEST_PEM: usize = 64 * 1024;
const MAGIC: &[u8] = b"SSHSIG";
/// Shorter RSA keys are no protection today; OpenSSH has refused to make them since 2019.
pub(super) const RSA_MIN_BITS: usize = 2048;
/// OpenSSH's own maximum.
pub(super) const RSA_MAX_BITS: usize = 16384;
/// The bit of a hardware signature's flags that says somebody touched the token.
const USER_PRESENT: u8 = 0x01;

/// Who made a signature that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedBy {
    /// The key, without a comment.
    pub key: PublicKey,
}

/// Why a signature does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The armour around the signature is not exactly what OpenSSH writes.
    #[error("not one armored SSH signature: {0}")]
    Armor(&'static str),
    /// The bytes inside the armour are not an SSHSIG.
    #[error("malformed SSH signature: {0}")]
    Malformed(&'static str),
    /// The SSHSIG has a version other than 1.
    #[error("SSH signature of version {0}, only version 1 is known")]
    Version(u32),
    /// It was made for another purpose.
    #[error("SSH signature was made for namespace `{found}`, not for `{expected}`")]
    Namespace {
        /// What the caller asked for.
        expected: String,
        /// What the signature says, with unprintable characters escaped.
        found: String,
    },
    /// The message was hashed with something other than SHA-256 or SHA-512.
    #[error("SSH signature hashes its message with `{0}`, only sha256 and sha512 are accepted")]
    Hash(String),
    /// The signing key is a certificate.
    #[error("SSH signature was made with a certificate (`{0}`), only plain keys are accepted")]
    Certificate(String),
    /// The signing key is of a kind that is not accepted.
    #[error("SSH signature was made with a key of type `{0}`, which is not accepted")]
    KeyAlgorithm(String),
    /// The signature's algorithm is not one for the key.
    #[error("SSH signature uses `{signature}`, which is not accepted for a key of type `{key}`")]
    SignatureAlgorithm {
        /// The key's type.
        key: String,
        /// The signature's algorithm, with unprintable characters escaped.
        signature: String,
    },
    /// The RSA key has a length outside what is accepted.
    #[error(
        "SSH signature was made with an RSA key of {0} bits, accepted are {RSA_MIN_BITS} to {RSA_MAX_BITS}"
    )]
    RsaLength(usize),
    /// The hardware key signed without a touch.
    #[error("SSH signature was made by a hardware key that nobody touched")]
    UserPresence,
    /// The signature is well formed and wrong: other content, or another key.
    #[error("SSH signature does not match the signed content and key {fingerprint}")]
    Mismatch {
        /// The key that the signature names.
        fingerprint: String,
    },
}

impl From<SignatureError> for crate::error::Error {
    fn from(error: SignatureError) -> Self {
        Self::invariant("a signature does not hold").caused_by(error)
    }
}

/// `SHA256:…`, as `ssh-keygen -l` shows a key.
pub fn fingerprint(key: &PublicKey) -> String {
    pubkey::fingerprint(key)
}

/// Verifies that `pem` is a signature over `payload` made for `namespace`, and says with which key.
///
/// Whether that key means anything is a question for [`super::AllowedSigners`].
pub fn verify(pem: &[u8], namespace: &str, payload: &[u8]) -> Result<SignedBy, SignatureError> {
    let blob = dearmor(pem)?;
    let parts = Parts::decode(&blob)?;
    if parts.namespace != namespace {
        return Err(SignatureError::Namespace {
            expected: namespace.to_owned(),
            found: parts.namespace.escape_debug().to_string(),
        });
    }
    let signed = SshSig::signed_data(namespace, parts.hash, payload)
        .map_err(|_| SignatureError::Malformed("empty namespace"))?;
    let mismatch = || SignatureError::Mismatch { fingerprint: fingerprint(&parts.key) };
    match parts.key.key_data() {
        KeyData::Rsa(key) => verify_rsa(key, &parts, &signed)?.then_some(()).ok_or_else(mismatch)?,
        KeyData::Dsa(_) | KeyData::Other(_) => {
            return Err(SignatureError::KeyAlgorithm(parts.key.algorithm().to_string()));
        }
        data => {
            let signature = parts.simple_signature(&parts.key.algorithm())?;
            SshSig::new(data.clone(), namespace, parts.hash, signature)
                .and_then(|sig| parts.key.verify(namespace, payload, &sig))
                .map_err(|_| mismatch())?;
        }
    }
    Ok(SignedBy { key: parts.key })
}

/// The decoded fields of an SSHSIG.
struct Parts<'a> {
    key: PublicKey,
    namespace: &'a str,
    hash: HashAlg,
    algorithm: &'a str,
    raw: &'a [u8],
    /// Flags and counter of a hardware key.
    touch: Option<[u8; 5]>,
}

impl<'a> Parts<'a> {
    fn decode(blob: &'a [u8]) -> Result<Self, SignatureError> {
        use SignatureError::Malformed;

        let mut wire = Wire::new(blob);
        if wire.bytes(MAGIC.len()) != Some(MAGIC) {
            return Err(Malformed("it does not start with SSHSIG"));
        }
        match wire.u32().ok_or(Malformed("no version"))? {
            1 => {}
            other => return Err(SignatureError::Version(other)),
        }
        let key = decode_key(wire.string().ok_or(Malformed("no public key"))?)?;
        let namespace = wire.text().ok_or(Malformed("no namespace"))?;
        if namespace.is_empty() {
            return Err(Malformed("empty namespace"));
        }
        // OpenSSH ignores these bytes and does not sign them: whoever fills them hides something.
        if !wire.string().ok_or(Malformed("no reserved field"))?.is_empty() {
            return Err(Malformed("the reserved field is not empty"));
        }
        let hash = match wire.text().ok_or(Malformed("no hash algorithm"))? {
            "sha256" => HashAlg::Sha256,
            "sha512" => HashAlg::Sha512,
            other => return Err(SignatureError::Hash(other.escape_debug().to_string())),
        };
        let signature = wire.string().ok_or(Malformed("no signature"))?;
        if !wire.is_empty() {
            return Err(Malformed("bytes after the signature"));
        }

        let mut wire = Wire::new(signature);
        let algorithm = wire.text().ok_or(Malformed("no signature algorithm"))?;
        let raw = wire.string().ok_or(Malformed("no signature bytes"))?;
        let touch = if pubkey::is_hardware(&key) && !wire.is_empty() {
            let trailer = wire.bytes(5).ok_or(Malformed("short flags of a hardware key"))?;
            Some(trailer.try_into().map_err(|_| Malformed("short flags of a hardware key"))?)
        } else {
            None
        };
        if !wire.is_empty() {
            return Err(Malformed("bytes after the signature"));
        }
        Ok(Self { key, namespace, hash, algorithm, raw, touch })
    }

    fn wrong_algorithm(&self) -> SignatureError {
        SignatureError::SignatureAlgorithm {
            key: self.key.algorithm().to_string(),
            signature: self.algorithm.escape_debug().to_string(),
        }
    }

    /// The signature of a key whose type is also the name of its only signature algorithm: all but RSA.
    fn simple_signature(&self, algorithm: &Algorithm) -> Result<Signature, SignatureError> {
        if self.algorithm != algorithm.as_str() {
            return Err(self.wrong_algorithm());
        }
        let mut raw = self.raw.to_vec();
        if pubkey::is_hardware(&self.key) {
            let touch = self.touch.ok_or(SignatureError::Malformed("no flags of a hardware key"))?;
            if touch[0] & USER_PRESENT == 0 {
                return Err(SignatureError::UserPresence);
            }
            raw.extend_from_slice(&touch);
        }
        Signature::new(algorithm.clone(), raw)
            .map_err(|_| SignatureError::Malformed("the signature has the wrong length for its algorithm"))
    }
}

fn decode_key(blob: &[u8]) -> Result<PublicKey, SignatureError> {
    let name = Wire::new(blob).text().ok_or(SignatureError::Malformed("no key type"))?;
    if pubkey::is_certificate_algorithm(name) {
        return Err(SignatureError::Certificate(name.to_owned()));
    }
    if name == "ssh-dss" || !pubkey::PLAIN_ALGORITHMS.contains(&name) {
        return Err(SignatureError::KeyAlgorithm(name.escape_debug().to_string()));
    }
    pubkey::from_blob(blob).ok_or(SignatureError::Malformed("the public key cannot be decoded"))
}

/// RSA goes to the rsa crate directly: ssh-key knows no modulus above 4096 bits.
fn verify_rsa(key: &RsaPublicKey, parts: &Parts<'_>, signed: &[u8]) -> Result<bool, SignatureError> {
    let sha512 = match parts.algorithm {
        "rsa-sha2-256" => false,
        "rsa-sha2-512" => true,
        _ => return Err(parts.wrong_algorithm()),
    };
    let bits = pubkey::rsa_bits(key);
    if !(RSA_MIN_BITS..=RSA_MAX_BITS).contains(&bits) {
        return Err(SignatureError::RsaLength(bits));
    }
    let unusable = SignatureError::Malformed("unusable RSA key");
    let (Ok(n), Ok(e)) = (rsa::BigUint::try_from(&key.n), rsa::BigUint::try_from(&key.e)) else {
        return Err(unusable);
    };
    let key = rsa::RsaPublicKey::new_with_max_size(n, e, RSA_MAX_BITS).map_err(|_| unusable)?;
    let padded =
        pad_rsa(parts.raw, bits).ok_or(SignatureError::Malformed("RSA signature of the wrong length"))?;
    let Ok(signature) = pkcs1v15::Signature::try_from(padded.as_slice()) else { return Ok(false) };
    Ok(if sha512 {
        pkcs1v15::VerifyingKey::<Sha512>::new(key).verify(signed, &signature).is_ok()
    } else {
        pkcs1v15::VerifyingKey::<Sha256>::new(key).verify(signed, &signature).is_ok()
    })
}

/// Some signers drop leading zero bytes; OpenSSH puts them back, and so do we.
fn pad_rsa(raw: &[u8], bits: usize) -> Option<Vec<u8>> {
    let missing = bits.div_ceil(8).checked_sub(raw.len())?;
    let mut padded = vec![0; missing];
    padded.extend_from_slice(raw);
    Some(padded)
}

/// Takes the armour off. Lines may have any length, as for ssh-keygen: signers other than OpenSSH wrap differently, or not at all.
fn dearmor(pem: &[u8]) -> Result<Vec<u8>, SignatureError> {
    use SignatureError::Armor;

    if pem.len() > LONGEST_PEM {
        return Err(Armor("it is longer than any SSH signature"));
    }
    let text = std::str::from_utf8(pem).map_err(|_| Armor("it is not text"))?;
    if text.starts_with("-----BEGIN PGP ") {
        return Err(Armor("it is a PGP signature"));
    }
    if text.starts_with("-----BEGIN SIGNED MESSAGE-----") {
        return Err(Armor("it is an X.509 signature"));
    }
    let body = text.strip_prefix(BEGIN).ok_or(Armor("the first line is not BEGIN SSH SIGNATURE"))?;
    let body = body.strip_suffix('\n').unwrap_or(body);
    let body = body.strip_suffix(END).ok_or(Armor("it does not end with END SSH SIGNATURE"))?;
    let body = body.strip_suffix('\n').ok_or(Armor("the last line is not alone"))?;
    if body.split('\n').any(str::is_empty) {
        return Err(Armor("a line is empty"));
    }
    let encoded: String = body.split('\n').collect();
    pubkey::decode_base64(&encoded).ok_or(Armor("the body is not base64"))
}

/// Puts a raw signature of `key`'s algorithm into armour, as ssh-keygen writes it.
///
/// `None` where the crate cannot encode it: it forgets the trailer of hardware ECDSA signatures.
pub(super) fn armor(key: &PublicKey, namespace: &str, hash: HashAlg, signature: Signature) -> Option<String> {
    if signature.algorithm() == Algorithm::SkEcdsaSha2NistP256 {
        return None;
    }
    SshSig::new(key.key_data().clone(), namespace, hash, signature)
        .and_then(|sig| sig.to_pem(ssh_key::LineEnding::LF))
        .ok()
}

/// A raw RSA signature with `rsa-sha2-512`, padded to the length of the modulus.
pub(super) fn rsa_sha512_signature(key: &RsaPublicKey, raw: &[u8]) -> Option<Signature> {
    let padded = pad_rsa(raw, pubkey::rsa_bits(key))?;
    Signature::new(Algorithm::Rsa { hash: Some(HashAlg::Sha512) }, padded).ok()
}

/// Can signatures of this algorithm be verified here?
pub(super) fn is_accepted(algorithm: &Algorithm) -> bool {
    !matches!(algorithm, Algorithm::Dsa | Algorithm::Other(_))
}

#[cfg(test)]
mod tests;
