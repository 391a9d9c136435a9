//! A key that signs: in this process, through the agent, or through `ssh-keygen`.
//!
//! Whatever signs, the result is verified against the key that was asked for before anyone sees it.

use std::fmt;
#[cfg(unix)]
use std::io;
use std::path::PathBuf;

use rsa::pkcs1v15;
use rsa::sha2::Sha512;
use rsa::signature::{RandomizedSigner as _, SignatureEncoding as _};
use ssh_key::private::{KeypairData, RsaKeypair};
use ssh_key::rand_core::OsRng;
use ssh_key::{HashAlg, PrivateKey, PublicKey, SshSig};

use super::GIT_NAMESPACE;
#[cfg(unix)]
use super::agent::{self, Agent, Refusal};
use super::error::KeyError;
use super::keygen::Keygen;
use super::pubkey;
use super::source;
use super::spec::KeyRequest;
use super::sshsig;

/// git and ssh-keygen hash with SHA-512 when nobody says otherwise.
const HASH: HashAlg = HashAlg::Sha512;

/// A key that can sign.
pub struct Signer {
    pub(super) name: String,
    pub(super) public: PublicKey,
    pub(super) source: Source,
    /// The files that the private key may lie in.
    pub(super) files: Vec<PathBuf>,
}

/// What signs.
pub(super) enum Source {
    /// ed25519 and ECDSA, in this process.
    File(Box<PrivateKey>),
    /// RSA, in this process but not through ssh-key: version 0.6.7 builds the key from `p` twice.
    Rsa(Box<pkcs1v15::SigningKey<Sha512>>),
    #[cfg(unix)]
    Agent(Agent),
    Keygen(Box<Keygen>),
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("name", &self.name)
            .field("fingerprint", &self.fingerprint())
            .field("source", &self.source_name())
            .finish_non_exhaustive()
    }
}

impl Source {
    /// A decrypted key of a type that this process can sign with. The error says what is wrong with an RSA key.
    pub(super) fn in_process(key: PrivateKey) -> Result<Self, String> {
        Ok(match key.key_data() {
            KeypairData::Rsa(pair) => Self::Rsa(Box::new(pkcs1v15::SigningKey::new(rsa_key(pair)?))),
            _ => Self::File(Box::new(key)),
        })
    }
}

impl Signer {
    /// Finds the key that `request` means. May ask for a passphrase, never waits for one that nobody can give.
    pub fn open(request: &KeyRequest) -> Result<Self, KeyError> {
        source::open(request)
    }

    /// Signs `payload` for `namespace`; the signature is in armour and has been verified.
    pub fn sign(&self, namespace: &str, payload: &[u8]) -> Result<String, KeyError> {
        let crypto = |reason: String| KeyError::Crypto { name: self.name.clone(), reason };
        let signed_data = || {
            SshSig::signed_data(namespace, HASH, payload).map_err(|_| crypto("empty namespace".to_owned()))
        };
        let pem = match &self.source {
            Source::File(key) => key
                .sign(namespace, HASH, payload)
                .and_then(|sig| sig.to_pem(ssh_key::LineEnding::LF))
                .map_err(|error| crypto(error.to_string()))?,
            Source::Rsa(key) => {
                // Blinded with fresh randomness, so that timing tells nothing about the key.
                let raw = key
                    .try_sign_with_rng(&mut OsRng, &signed_data()?)
                    .map_err(|error| crypto(error.to_string()))?;
                let public = self.public.key_data().rsa();
                public
                    .and_then(|public| sshsig::rsa_sha512_signature(public, &raw.to_bytes()))
                    .and_then(|signature| sshsig::armor(&self.public, namespace, HASH, signature))
                    .ok_or_else(|| crypto("the signature cannot be encoded".to_owned()))?
            }
            #[cfg(unix)]
            Source::Agent(agent) => {
                let signature = agent
                    .sign(&self.public, &signed_data()?)
                    .map_err(|refusal| agent_error(&self.name, agent, refusal))?;
                let signature = match self.public.key_data().rsa() {
                    Some(public) if signature.algorithm().as_str() == "rsa-sha2-512" => {
                        sshsig::rsa_sha512_signature(public, signature.as_bytes())
                    }
                    _ => Some(signature),
                };
                signature
                    .and_then(|signature| sshsig::armor(&self.public, namespace, HASH, signature))
                    .ok_or_else(|| crypto("the agent's signature cannot be encoded".to_owned()))?
            }
            Source::Keygen(keygen) => keygen.sign(&self.name, namespace, payload)?,
        };
        let by = sshsig::verify(pem.as_bytes(), namespace, payload)
            .map_err(|source| KeyError::BadSignature { name: self.name.clone(), source })?;
        if by.key.key_data() != self.public.key_data() {
            return Err(KeyError::SignedByOther {
                name: self.name.clone(),
                found: pubkey::fingerprint(&by.key),
            });
        }
        Ok(pem)
    }

    /// Makes and verifies a test signature. To be called before anything costs money.
    pub fn preflight(&self) -> Result<(), KeyError> {
        self.sign(GIT_NAMESPACE, b"git-loop: can this key sign?\n").map(drop)
    }

    /// The public key, without a comment.
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// `SHA256:…`
    pub fn fingerprint(&self) -> String {
        pubkey::fingerprint(&self.public)
    }

    /// The key as the setting names it, with the setting.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The files that its private key may lie in, whether it does or an agent has it; none if the setting is no path.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// What signs: `file`, `agent` or `ssh-keygen`.
    pub fn source_name(&self) -> &'static str {
        match &self.source {
            Source::File(_) | Source::Rsa(_) => "file",
            #[cfg(unix)]
            Source::Agent(_) => "agent",
            Source::Keygen(_) => "ssh-keygen",
        }
    }
}

#[cfg(unix)]
fn agent_error(name: &str, agent: &Agent, refusal: Refusal) -> KeyError {
    let (name, socket) = (name.to_owned(), agent.socket().to_owned());
    match refusal {
        Refusal::Unreachable(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
        {
            KeyError::TimedOut { name, seconds: agent::PATIENCE.as_secs() }
        }
        Refusal::Unreachable(source) => KeyError::AgentUnreachable { name, socket, source },
        Refusal::Refused(reason) => KeyError::AgentRefused { name, socket, reason },
    }
}

fn rsa_key(pair: &RsaKeypair) -> Result<rsa::RsaPrivateKey, String> {
    let number = |number: &ssh_key::Mpint| rsa::BigUint::try_from(number).map_err(|error| error.to_string());
    rsa::RsaPrivateKey::from_components(
        number(&pair.public.n)?,
        number(&pair.public.e)?,
        number(&pair.private.d)?,
        vec![number(&pair.private.p)?, number(&pair.private.q)?],
    )
    .map_err(|error| error.to_string())
}
