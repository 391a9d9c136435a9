//! From a setting to something that signs.
//!
//! A key is looked for where git would find it, and nowhere else: an unencrypted file signs in this process; an encrypted one
//! through the agent if that has the key, else after one question for its passphrase; a public key through the private key
//! beside it or the agent. Hardware keys and old file formats go through `ssh-keygen`. Another key than the one that was named
//! never takes its place.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ssh_key::{PrivateKey, PublicKey};
use zeroize::Zeroizing;

#[cfg(unix)]
use super::agent::Agent;
use super::error::KeyError;
use super::keygen::{Keygen, KeygenKey};
use super::openssh;
use super::pubkey::{self, KeyText};
use super::signer::{Signer, Source};
use super::spec::{KeyRequest, Named};
use super::sshsig::{self, RSA_MAX_BITS, RSA_MIN_BITS};

/// No key file is larger; a setting that names something else should not fill the memory.
const LARGEST_KEY_FILE: u64 = 1024 * 1024;

/// Finds the key that `request` means.
pub(super) fn open(request: &KeyRequest) -> Result<Signer, KeyError> {
    let opening = Opening { request, name: request.name() };
    match request.resolve()? {
        Named::Literal(key) => opening.with_agent(key),
        Named::File(path) => {
            let signer = opening.open_file(&path)?;
            Ok(Signer { files: private_parts(&path), ..signer })
        }
    }
}

/// Where the private part of a key may lie that a setting names by this path: there, or beside a public key of this name.
pub fn private_parts(path: &Path) -> Vec<PathBuf> {
    let beside = path.extension().filter(|extension| *extension == "pub").map(|_| path.with_extension(""));
    beside.into_iter().chain([path.to_path_buf()]).collect()
}

/// The public key that `request` means. Nothing is opened that needs a passphrase, and no agent is asked.
pub fn named_public_key(request: &KeyRequest) -> Result<PublicKey, KeyError> {
    let opening = Opening { request, name: request.name() };
    let path = match request.resolve()? {
        Named::Literal(key) => return Ok(key),
        Named::File(path) => path,
    };
    let beside = |opening: &Opening<'_>| opening.read_public_beside(&path);
    let key = match opening.read(&path)? {
        Some(Content::Public(key)) => Some(key),
        Some(Content::OpenSsh(pem)) => match openssh::decode(&pem) {
            Ok(key) => Some(PublicKey::from(key.public_key().key_data().clone())),
            Err(_) => openssh::public_key(&pem),
        },
        Some(Content::OldPem) => beside(&opening)?,
        None => beside(&opening)?
            .ok_or_else(|| KeyError::Missing { name: opening.name.clone(), path: path.clone() })?
            .into(),
    };
    let key =
        key.ok_or_else(|| KeyError::NoPublicKey { name: opening.name.clone(), public: with_pub(&path) })?;
    opening.check_type(&key)?;
    Ok(key)
}

/// A key file's content.
enum Content {
    /// A private key in OpenSSH's own format.
    OpenSsh(Zeroizing<Vec<u8>>),
    /// Some other private key in PEM: only its presence matters, `ssh-keygen` reads it.
    OldPem,
    /// A public key.
    Public(PublicKey),
}

/// One attempt to open a key.
struct Opening<'a> {
    request: &'a KeyRequest,
    name: String,
}

impl Opening<'_> {
    fn open_file(self, path: &Path) -> Result<Signer, KeyError> {
        match self.read(path) {
            Ok(Some(Content::Public(key))) => self.open_public(path, key),
            Ok(Some(private)) => self.open_private(path, private, None),
            // The private part may be in the agent only, and the public part on disk.
            Ok(None) => match self.read_public_beside(path)? {
                Some(key) => self.with_agent(key),
                None => Err(KeyError::Missing { name: self.name, path: path.to_owned() }),
            },
            Err(error) => Err(error),
        }
    }

    /// A public key names its private key: in the file beside it if that can be used, else in the agent.
    fn open_public(self, path: &Path, key: PublicKey) -> Result<Signer, KeyError> {
        let beside =
            (path.extension().is_some_and(|extension| extension == "pub")).then(|| path.with_extension(""));
        let private = match &beside {
            Some(beside) => match self.read(beside) {
                Ok(Some(Content::Public(_)) | None) => None,
                Ok(Some(private)) => Some(Ok((beside, private))),
                Err(error) => Some(Err(error)),
            },
            None => None,
        };
        let Some(private) = private else { return self.with_agent(key) };
        let again = Self { request: self.request, name: self.name.clone() };
        let error = match private.and_then(|(path, content)| self.open_private(path, content, Some(&key))) {
            Ok(signer) => return Ok(signer),
            Err(error) => error,
        };
        // What is wrong with the file is the better explanation, unless the agent helps.
        again.with_agent(key).map_err(|_| error)
    }

    fn open_private(
        self,
        path: &Path,
        content: Content,
        expected: Option<&PublicKey>,
    ) -> Result<Signer, KeyError> {
        let pem = match content {
            Content::OpenSsh(pem) => pem,
            Content::OldPem => return self.open_old_pem(path, expected),
            Content::Public(key) => return self.with_agent(key),
        };
        let decoded = openssh::decode(&pem);
        let public = match &decoded {
            Ok(key) => PublicKey::from(key.public_key().key_data().clone()),
            Err(error) => openssh::public_key(&pem).ok_or_else(|| KeyError::NotAKey {
                name: self.name.clone(),
                reason: format!("`{}`: {error}", path.display()),
            })?,
        };
        self.check_expected(path, &public, expected)?;
        self.check_type(&public)?;
        let key = match decoded {
            Ok(key) if !key.is_encrypted() && !pubkey::is_hardware(&public) => {
                return self.in_process(key, public);
            }
            Ok(key) => Some(key),
            Err(_) => None,
        };
        if self.agent_has(&public) {
            return self.with_agent(public);
        }
        match key.filter(|_| !pubkey::is_hardware(&public)) {
            Some(key) => {
                let key = self.decrypt(path, &key, &pem, &public)?;
                self.in_process(key, public)
            }
            // A token is needed, or the file has a cipher that the crate does not know.
            None => self.with_keygen(KeygenKey::File(path.to_owned()), public),
        }
    }

    /// An old file does not tell its public key without its passphrase, so the file beside it has to, as for ssh-keygen.
    fn open_old_pem(self, path: &Path, expected: Option<&PublicKey>) -> Result<Signer, KeyError> {
        let public = match expected {
            Some(key) => key.clone(),
            None => self
                .read_public_beside(path)?
                .ok_or_else(|| KeyError::NoPublicKey { name: self.name.clone(), public: with_pub(path) })?,
        };
        self.check_type(&public)?;
        if self.agent_has(&public) {
            return self.with_agent(public);
        }
        self.with_keygen(KeygenKey::File(path.to_owned()), public)
    }

    #[cfg(unix)]
    fn with_agent(self, public: PublicKey) -> Result<Signer, KeyError> {
        self.check_type(&public)?;
        let fingerprint = pubkey::fingerprint(&public);
        let Some(socket) = &self.request.agent_socket else {
            return Err(KeyError::NoAgent { name: self.name, fingerprint });
        };
        let agent = Agent::new(socket);
        match agent.holds(&public) {
            Ok((true, _)) if pubkey::is_hardware(&public) => self.with_keygen(KeygenKey::Agent, public),
            Ok((true, _)) => {
                Ok(Signer { name: self.name, public, source: Source::Agent(agent), files: Vec::new() })
            }
            Ok((false, count)) => Err(KeyError::NotInAgent {
                name: self.name,
                fingerprint,
                socket: socket.clone(),
                held: match count {
                    0 => "0 keys (empty or locked)".to_owned(),
                    1 => "1 key".to_owned(),
                    more => format!("{more} keys"),
                },
            }),
            Err(source) => {
                Err(KeyError::AgentUnreachable { name: self.name, socket: socket.clone(), source })
            }
        }
    }

    /// Without Unix sockets `ssh-keygen` talks to the agent; whether it has the key shows at the first signature.
    #[cfg(not(unix))]
    fn with_agent(self, public: PublicKey) -> Result<Signer, KeyError> {
        self.check_type(&public)?;
        self.with_keygen(KeygenKey::Agent, public)
    }

    /// Only a reason to prefer the agent: what is wrong with the agent matters once it is needed.
    #[cfg(unix)]
    fn agent_has(&self, public: &PublicKey) -> bool {
        let socket = self.request.agent_socket.as_ref();
        socket.is_some_and(|socket| Agent::new(socket).holds(public).is_ok_and(|(holds, _)| holds))
    }

    #[cfg(not(unix))]
    #[allow(clippy::unused_self)]
    fn agent_has(&self, _public: &PublicKey) -> bool {
        false
    }

    fn with_keygen(self, key: KeygenKey, public: PublicKey) -> Result<Signer, KeyError> {
        let Some(program) = self.request.ssh_keygen.clone() else {
            return Err(KeyError::NoKeygen { name: self.name });
        };
        let keygen = Keygen {
            program,
            key,
            public: public.clone(),
            agent_socket: self.request.agent_socket.clone(),
            passphrase: self.request.passphrase.clone(),
        };
        Ok(Signer { name: self.name, public, source: Source::Keygen(Box::new(keygen)), files: Vec::new() })
    }

    fn in_process(self, key: PrivateKey, public: PublicKey) -> Result<Signer, KeyError> {
        match Source::in_process(key) {
            Ok(source) => Ok(Signer { name: self.name, public, source, files: Vec::new() }),
            Err(error) => Err(KeyError::NotAKey {
                name: self.name,
                reason: format!("its numbers do not belong together: {error}"),
            }),
        }
    }

    fn decrypt(
        &self,
        path: &Path,
        key: &PrivateKey,
        pem: &[u8],
        public: &PublicKey,
    ) -> Result<PrivateKey, KeyError> {
        let passphrases = &self.request.passphrase;
        let agent = match &self.request.agent_socket {
            Some(socket) => format!("not in the SSH agent at SSH_AUTH_SOCK=`{}`", socket.display()),
            None => "SSH_AUTH_SOCK is not set".to_owned(),
        };
        let refuse = |reason: String| KeyError::Encrypted {
            name: self.name.clone(),
            reason: format!("{reason}; {agent}"),
        };
        for _ in 0..passphrases.attempts() {
            let passphrase = passphrases.ask(path).map_err(|reason| refuse(reason.to_string()))?;
            match openssh::decrypt(key, pem, passphrase.as_bytes()) {
                Ok(decrypted) if decrypted.public_key().key_data() == public.key_data() => {
                    return Ok(decrypted);
                }
                Ok(_) => return Err(refuse("holds another key than it says".to_owned())),
                Err(ssh_key::Error::Crypto) => {}
                Err(error) => return Err(refuse(format!("cannot be decrypted: {error}"))),
            }
        }
        Err(refuse("the passphrase is wrong".to_owned()))
    }

    fn check_expected(
        &self,
        path: &Path,
        found: &PublicKey,
        expected: Option<&PublicKey>,
    ) -> Result<(), KeyError> {
        if expected.is_some_and(|expected| expected.key_data() != found.key_data()) {
            return Err(KeyError::OtherKey { name: self.name.clone(), path: path.to_owned() });
        }
        Ok(())
    }

    fn check_type(&self, public: &PublicKey) -> Result<(), KeyError> {
        if !sshsig::is_accepted(&public.algorithm()) {
            let algorithm = public.algorithm().to_string();
            return Err(KeyError::Unsupported { name: self.name.clone(), algorithm });
        }
        if let Some(rsa) = public.key_data().rsa() {
            let bits = pubkey::rsa_bits(rsa);
            if !(RSA_MIN_BITS..=RSA_MAX_BITS).contains(&bits) {
                return Err(KeyError::RsaLength { name: self.name.clone(), bits });
            }
        }
        Ok(())
    }

    fn read_public_beside(&self, path: &Path) -> Result<Option<PublicKey>, KeyError> {
        match self.read(&with_pub(path))? {
            Some(Content::Public(key)) => Ok(Some(key)),
            _ => Ok(None),
        }
    }

    /// Reads a key file; `None` if there is none. A private key that others may read is refused before it is looked at.
    fn read(&self, path: &Path) -> Result<Option<Content>, KeyError> {
        let unreadable =
            |source| KeyError::Unreadable { name: self.name.clone(), path: path.to_owned(), source };
        let not_a_key = |reason: &str| KeyError::NotAKey {
            name: self.name.clone(),
            reason: format!("`{}` {reason}", path.display()),
        };
        // A FIFO would block, a device could do anything: looked at before it is opened.
        match std::fs::metadata(path) {
            Ok(meta) if !meta.is_file() => return Err(not_a_key("is not a regular file")),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        }
        let file = File::open(path).map_err(unreadable)?;
        let meta = file.metadata().map_err(unreadable)?;
        if meta.len() > LARGEST_KEY_FILE {
            return Err(not_a_key("is too large"));
        }
        let capacity = usize::try_from(meta.len()).unwrap_or(0) + 1;
        // Large enough from the start: a vector that grows leaves copies of the secret behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
        (&file).take(LARGEST_KEY_FILE).read_to_end(&mut bytes).map_err(unreadable)?;

        let text = bytes.trim_ascii_start();
        if text.starts_with(b"-----BEGIN ") {
            check_permissions(path, &meta)?;
            return Ok(Some(if text.starts_with(openssh::BEGIN) {
                Content::OpenSsh(bytes)
            } else {
                Content::OldPem
            }));
        }
        let line = std::str::from_utf8(text).ok().and_then(|text| text.lines().next());
        match line.map(pubkey::parse) {
            Some(Some(KeyText::Plain(key))) => Ok(Some(Content::Public(key))),
            Some(Some(KeyText::Certificate)) => {
                Err(not_a_key("is a certificate, and certificates are not supported"))
            }
            _ => Err(not_a_key("holds neither a private nor a public key")),
        }
    }
}

/// `id` → `id.pub`, `id.old` → `id.old.pub`.
fn with_pub(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".pub");
    PathBuf::from(name)
}

/// ssh's own rule: a private key of ours that others may read is no secret any more.
#[cfg(unix)]
fn check_permissions(path: &Path, meta: &std::fs::Metadata) -> Result<(), KeyError> {
    use std::os::unix::fs::MetadataExt;

    let mode = meta.mode() & 0o7777;
    // SAFETY: getuid takes nothing and cannot fail.
    let ours = meta.uid() == unsafe { libc::getuid() };
    if ours && mode & 0o077 != 0 {
        return Err(KeyError::TooOpen { path: path.to_owned(), mode });
    }
    Ok(())
}

/// Access lists of other systems are not looked at; ssh-keygen there does it for the keys that go through it.
#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps)]
fn check_permissions(_path: &Path, _meta: &std::fs::Metadata) -> Result<(), KeyError> {
    Ok(())
}

#[cfg(test)]
mod tests;
