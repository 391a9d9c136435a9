//! Private key files in OpenSSH's own format (`PROTOCOL.key`).
//!
//! ssh-key reads them, with one fault in version 0.6.7: an ECDSA scalar that starts with a zero byte (every second P-521 key, one P-256 key in
//! 256) is written shorter by OpenSSH, and the crate refuses it. So where the crate fails on an ECDSA key, the
//! scalar is padded and the crate asked again.

use ssh_key::{PrivateKey, PublicKey};
use zeroize::Zeroizing;

use super::pubkey;
use super::wire::{Wire, put_string};

pub(super) const BEGIN: &[u8] = b"-----BEGIN OPENSSH PRIVATE KEY-----";
const END: &str = "-----END OPENSSH PRIVATE KEY-----";
const MAGIC: &[u8] = b"openssh-key-v1\0";
/// What an unencrypted section is padded to.
const BLOCK: usize = 8;
const TAG: usize = 16;

/// Decodes a private key; it may be encrypted still.
pub(super) fn decode(pem: &[u8]) -> Result<PrivateKey, ssh_key::Error> {
    PrivateKey::from_openssh(pem).or_else(|error| {
        let blob = body(pem).ok_or_else(|| error.clone())?;
        let file =
            Container::parse(&blob).filter(|file| file.cipher == "none").ok_or_else(|| error.clone())?;
        repaired(file.public, file.section).ok_or(error)
    })
}

/// Decrypts `key`, which was decoded from `pem`. A wrong passphrase is [`ssh_key::Error::Crypto`].
pub(super) fn decrypt(key: &PrivateKey, pem: &[u8], passphrase: &[u8]) -> Result<PrivateKey, ssh_key::Error> {
    key.decrypt(passphrase).or_else(|error| {
        if error == ssh_key::Error::Crypto || !key.algorithm().is_ecdsa() {
            return Err(error);
        }
        let blob = body(pem).ok_or_else(|| error.clone())?;
        let file = Container::parse(&blob).ok_or_else(|| error.clone())?;
        let (cipher_key, iv) = key.kdf().derive_key_and_iv(key.cipher(), passphrase)?;
        let mut section = Zeroizing::new(file.section.to_vec());
        key.cipher().decrypt(&cipher_key, &iv, &mut section, file.tag)?;
        repaired(file.public, &section).ok_or(error)
    })
}

/// The public key that a file says it has, also where the rest cannot be decoded here.
pub(super) fn public_key(pem: &[u8]) -> Option<PublicKey> {
    let blob = body(pem)?;
    pubkey::from_blob(Container::parse(&blob)?.public)
}

struct Container<'a> {
    cipher: &'a str,
    public: &'a [u8],
    section: &'a [u8],
    tag: Option<[u8; TAG]>,
}

impl<'a> Container<'a> {
    fn parse(blob: &'a [u8]) -> Option<Self> {
        let mut wire = Wire::new(blob.strip_prefix(MAGIC)?);
        let cipher = wire.text()?;
        let (_kdf, _kdf_options) = (wire.string()?, wire.string()?);
        if wire.u32()? != 1 {
            return None;
        }
        let (public, section) = (wire.string()?, wire.string()?);
        let tag = if wire.is_empty() { None } else { Some(wire.bytes(TAG)?.try_into().ok()?) };
        wire.is_empty().then_some(Self { cipher, public, section, tag })
    }
}

/// The bytes inside the armour.
fn body(pem: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let text = std::str::from_utf8(pem.trim_ascii().strip_prefix(BEGIN)?).ok()?.strip_suffix(END)?;
    let mut encoded = Zeroizing::new(String::with_capacity(text.len()));
    encoded.extend(text.chars().filter(|char| !char.is_ascii_whitespace()));
    pubkey::decode_base64(&encoded).map(Zeroizing::new)
}

/// An unencrypted ECDSA key from its decrypted private section, with the scalar at its full length.
fn repaired(public: &[u8], section: &[u8]) -> Option<PrivateKey> {
    let mut wire = Wire::new(section);
    let checks = wire.bytes(8)?;
    if checks[..4] != checks[4..] {
        return None;
    }
    let algorithm = wire.text()?;
    let (curve, point, scalar, comment) = (wire.text()?, wire.string()?, wire.string()?, wire.string()?);
    let length = match (algorithm, curve) {
        ("ecdsa-sha2-nistp256", "nistp256") => 32,
        ("ecdsa-sha2-nistp384", "nistp384") => 48,
        ("ecdsa-sha2-nistp521", "nistp521") => 66,
        _ => return None,
    };
    let scalar = scalar.strip_prefix(&[0]).unwrap_or(scalar);
    let missing = length_missing(length, scalar)?;

    // Room for everything from the start: a vector that grows leaves copies of the secret behind.
    let mut full = Zeroizing::new(Vec::with_capacity(section.len() + length + 4 * BLOCK));
    full.extend_from_slice(checks);
    for part in [algorithm.as_bytes(), curve.as_bytes(), point] {
        put_string(&mut full, part);
    }
    // The crate wants exactly `length` bytes, or one more if the number would be negative.
    let negative = usize::from(missing == 0 && scalar[0] >= 0x80);
    let mut padded = Zeroizing::new(Vec::with_capacity(length + 1));
    padded.resize(missing + negative, 0);
    padded.extend_from_slice(scalar);
    put_string(&mut full, &padded);
    put_string(&mut full, comment);
    for byte in 1..=u8::MAX {
        if full.len().is_multiple_of(BLOCK) {
            break;
        }
        full.push(byte);
    }

    let mut blob = Zeroizing::new(Vec::with_capacity(full.len() + public.len() + 64));
    blob.extend_from_slice(MAGIC);
    for part in [&b"none"[..], b"none", b""] {
        put_string(&mut blob, part);
    }
    blob.extend_from_slice(&1_u32.to_be_bytes());
    put_string(&mut blob, public);
    put_string(&mut blob, &full);
    PrivateKey::from_bytes(&blob).ok()
}

/// How many zero bytes the scalar lacks. The empty scalar is no key.
fn length_missing(length: usize, scalar: &[u8]) -> Option<usize> {
    if scalar.is_empty() { None } else { length.checked_sub(scalar.len()) }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::sign::testing::{Place, public, succeed};

    #[test]
    fn ecdsa_keys_with_short_scalars_are_read() {
        let place = Place::new();
        // About half of these scalars start with a zero byte.
        for index in 0..8 {
            let path = place.keygen(&format!("k{index}"), &["ecdsa", "-b", "521"], "");
            let pem = fs::read(&path).unwrap();
            let key = decode(&pem).unwrap();
            assert_eq!(key.public_key().key_data(), public(&path).key_data());
            assert_eq!(public_key(&pem), Some(public(&path)));
            succeed(
                place
                    .command("ssh-keygen")
                    .args(["-q", "-p", "-a", "1", "-N", "secret words", "-f"])
                    .arg(&path),
            );
            let pem = fs::read(&path).unwrap();
            let encrypted = decode(&pem).unwrap();
            assert!(encrypted.is_encrypted());
            let decrypted = decrypt(&encrypted, &pem, b"secret words").unwrap();
            assert_eq!(decrypted.key_data(), key.key_data());
            assert_eq!(decrypt(&encrypted, &pem, b"other words").unwrap_err(), ssh_key::Error::Crypto);
        }
    }

    #[test]
    fn every_cipher_that_ssh_keygen_offers_for_files_is_understood() {
        let place = Place::new();
        for (index, cipher) in
            ["aes256-ctr", "aes128-cbc", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com"]
                .iter()
                .enumerate()
        {
            for (kind, bits) in [("ed25519", "256"), ("ecdsa", "521")] {
                let path = place.keygen(
                    &format!("{kind}{index}"),
                    &[kind, "-b", bits, "-Z", cipher],
                    "secret words",
                );
                let pem = fs::read(&path).unwrap();
                let key = decode(&pem).unwrap();
                let key = decrypt(&key, &pem, b"secret words")
                    .unwrap_or_else(|error| panic!("{cipher} {kind}: {error}"));
                assert_eq!(key.public_key().key_data(), public(&path).key_data(), "{cipher}");
            }
        }
    }

    proptest! {
        #[test]
        fn is_total(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = body(&bytes);
            let _ = Container::parse(&[MAGIC, &bytes].concat());
            let _ = repaired(&bytes, &bytes);
            let mut section = vec![7; 8];
            for part in [&b"ecdsa-sha2-nistp256"[..], b"nistp256", &bytes, &bytes, b""] {
                put_string(&mut section, part);
            }
            let _ = repaired(&bytes, &section);
        }
    }
}
