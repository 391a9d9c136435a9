//! The SSH agent, over its socket (draft-miller-ssh-agent).

#![cfg(unix)]

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ssh_agent_lib::blocking::Client;
use ssh_agent_lib::error::AgentError;
use ssh_agent_lib::proto::signature::RSA_SHA2_512;
use ssh_agent_lib::proto::{ProtoError, PublicCredential, SignRequest};
use ssh_key::public::KeyData;
use ssh_key::{PublicKey, Signature};

use super::pubkey;
use super::wire::Wire;

/// How long an agent may think: it may be asking a person to confirm.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Listing asks nobody anything.
const LISTING_PATIENCE: Duration = Duration::from_secs(10);
/// OpenSSH's own limit for a reply.
const LONGEST_REPLY: usize = 256 * 1024;
const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;

/// What became of a request to sign.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The agent does not answer, or not in time.
    Unreachable(io::Error),
    /// The agent answered something other than a signature.
    Refused(String),
}

/// The agent behind a socket. Every request opens its own connection: agents come and go during a long run.
#[derive(Debug, Clone)]
pub(super) struct Agent {
    socket: PathBuf,
}

impl Agent {
    pub(super) fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    fn connect(&self, patience: Duration) -> io::Result<UnixStream> {
        let stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(stream)
    }

    /// The blobs of all keys and certificates that the agent has.
    ///
    /// Not through the crate: it decodes every key, and one of a type that it does not know would hide all others.
    pub(super) fn blobs(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut stream = self.connect(LISTING_PATIENCE)?;
        stream.write_all(&[0, 0, 0, 1, REQUEST_IDENTITIES])?;
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > LONGEST_REPLY {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its list of keys is too long"));
        }
        let mut reply = vec![0; length];
        stream.read_exact(&mut reply)?;
        parse_identities(&reply)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "its list of keys makes no sense"))
    }

    /// A raw signature over `data`; with SHA-512 if the key is an RSA key.
    pub(super) fn sign(&self, key: &PublicKey, data: &[u8]) -> Result<Signature, Refusal> {
        let stream = self.connect(PATIENCE).map_err(Refusal::Unreachable)?;
        let flags = if matches!(key.key_data(), KeyData::Rsa(_)) { RSA_SHA2_512 } else { 0 };
        let request = SignRequest {
            credential: PublicCredential::Key(key.key_data().clone()),
            data: data.to_vec(),
            flags,
        };
        Client::new(stream).sign(request).map_err(|error| match error {
            AgentError::IO(error) | AgentError::Proto(ProtoError::IO(error)) => Refusal::Unreachable(error),
            AgentError::Proto(ProtoError::UnexpectedResponse) => {
                Refusal::Refused("it is locked, or the request was declined".to_owned())
            }
            other => Refusal::Refused(other.to_string()),
        })
    }

    /// Does the agent have `key`? Also gives the number of keys it has.
    pub(super) fn holds(&self, key: &PublicKey) -> io::Result<(bool, usize)> {
        let blobs = self.blobs()?;
        let wanted = pubkey::to_blob(key);
        Ok((blobs.contains(&wanted), blobs.len()))
    }
}

/// The answer to a request for identities: a count, then a blob and a comment for each.
fn parse_identities(reply: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut wire = Wire::new(reply);
    if wire.u8()? != IDENTITIES_ANSWER {
        return None;
    }
    let count = wire.u32()?;
    let mut blobs = Vec::new();
    for _ in 0..count {
        blobs.push(wire.string()?.to_vec());
        wire.string()?;
    }
    wire.is_empty().then_some(blobs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sign::wire::put_string;

    #[test]
    fn reads_a_list_with_keys_of_unknown_types() {
        let mut reply = vec![IDENTITIES_ANSWER, 0, 0, 0, 2];
        for part in [&b"unknown"[..], b"comment", b"other", b""] {
            put_string(&mut reply, part);
        }
        assert_eq!(parse_identities(&reply), Some(vec![b"unknown".to_vec(), b"other".to_vec()]));
        reply.push(0);
        assert_eq!(parse_identities(&reply), None);
        assert_eq!(parse_identities(&[5]), None);
    }

    proptest! {
        #[test]
        fn is_total(reply in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse_identities(&reply);
        }
    }
}
