//! A key pair for a runner: ed25519, without a passphrase, for nobody but its owner to read.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ssh_key::rand_core::OsRng;
use ssh_key::{Algorithm, LineEnding, PrivateKey, PublicKey};

/// Why there is no key pair.
#[derive(Debug, thiserror::Error)]
pub enum NewKeyError {
    /// The system gives no randomness, or the key cannot be encoded.
    #[error("an ed25519 key cannot be made")]
    Make(#[source] ssh_key::Error),
    /// A file or its folder cannot be made.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl From<NewKeyError> for crate::error::Error {
    fn from(error: NewKeyError) -> Self {
        let hint = match &error {
            NewKeyError::Make(_) => "make one with: ssh-keygen -t ed25519",
            NewKeyError::Write { .. } => "check who may write there",
        };
        Self::workspace("there is no key for the runner").caused_by(error).hint(hint)
    }
}

/// A key pair that is not on the disk yet.
#[derive(Debug)]
pub struct NewKey(PrivateKey);

impl NewKey {
    /// A fresh key with this comment.
    pub fn generate(comment: &str) -> Result<Self, NewKeyError> {
        let mut key = PrivateKey::random(&mut OsRng, Algorithm::Ed25519).map_err(NewKeyError::Make)?;
        key.set_comment(comment);
        Ok(Self(key))
    }

    /// Its public half.
    pub fn public(&self) -> PublicKey {
        PublicKey::from(self.0.public_key().key_data().clone())
    }

    /// Writes it to `path` and its public half to `path` with `.pub`. A private key that is there is never replaced.
    pub fn write(&self, path: &Path) -> Result<(), NewKeyError> {
        let private = self.0.to_openssh(LineEnding::LF).map_err(NewKeyError::Make)?;
        let public = self.0.public_key().to_openssh().map_err(NewKeyError::Make)? + "\n";
        if let Some(folder) = path.parent() {
            make_private_folder(folder)
                .map_err(|source| NewKeyError::Write { path: folder.to_owned(), source })?;
        }
        let mut public_path = path.as_os_str().to_owned();
        public_path.push(".pub");
        for (path, content, secret) in
            [(path, private.as_bytes(), true), (Path::new(&public_path), public.as_bytes(), false)]
        {
            write_file(path, content, secret)
                .map_err(|source| NewKeyError::Write { path: path.to_owned(), source })?;
        }
        Ok(())
    }
}

fn write_file(path: &Path, content: &[u8], secret: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // With `create_new` a link is not followed either. A public half without its private one may be left over.
    if secret {
        options.write(true).create_new(true);
    } else {
        options.write(true).create(true).truncate(true);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(if secret { 0o600 } else { 0o644 });
    }
    let mut file = options.open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(unix)]
fn make_private_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn make_private_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::sign::{KeyOrigin, KeyRequest, KeySpec, PassphraseSource, Signer};

    #[test]
    fn the_key_signs_is_private_and_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys/runner");
        let key = NewKey::generate("runner@host").unwrap();
        key.write(&path).unwrap();
        let public = key.public();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let request = KeyRequest {
            spec: KeySpec::new(path.to_str().unwrap(), KeyOrigin::LoopConfig),
            home: None,
            base_dir: dir.path().to_owned(),
            agent_socket: None,
            ssh_keygen: None,
            passphrase: PassphraseSource::default(),
        };
        let signer = Signer::open(&request).unwrap();
        signer.preflight().unwrap();
        assert_eq!(signer.public_key().key_data(), public.key_data());
        assert_eq!(crate::sign::named_public_key(&request).unwrap().key_data(), public.key_data());
        let line = fs::read_to_string(dir.path().join("keys/runner.pub")).unwrap();
        assert!(line.ends_with(" runner@host\n"), "{line}");
        assert!(matches!(NewKey::generate("x").unwrap().write(&path), Err(NewKeyError::Write { .. })));
        Signer::open(&request).unwrap().preflight().unwrap();
    }
}
