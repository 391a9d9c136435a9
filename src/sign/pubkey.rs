//! Public keys as text: `ssh-ed25519 AAAA… comment`.
//!
//! ssh-key's own parser wants exactly one space between the fields and accepts names of algorithms nobody knows; files of
//! OpenSSH are more liberal in the first and stricter in the second.

use ssh_agent_lib::ssh_encoding::{Base64Reader, Reader};
use ssh_key::public::KeyData;
use ssh_key::{HashAlg, PublicKey};

use super::wire::Wire;

/// The names of plain (not certified) keys that OpenSSH writes.
pub(super) const PLAIN_ALGORITHMS: [&str; 8] = [
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
    "ssh-dss",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

const CERTIFICATE_SUFFIX: &str = "-cert-v01@openssh.com";

/// A key that a file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyText {
    /// A plain key, without its comment.
    Plain(PublicKey),
    /// A certificate: legal in such files, but it never equals the plain key that a signature of ours carries.
    Certificate,
}

/// Is `name` the name of a certificate of a key type we know?
pub(super) fn is_certificate_algorithm(name: &str) -> bool {
    name.strip_suffix(CERTIFICATE_SUFFIX).is_some_and(|plain| {
        PLAIN_ALGORITHMS.iter().any(|known| known.strip_suffix("@openssh.com").unwrap_or(known) == plain)
    })
}

/// Splits `text` after its first run of bytes that are neither space nor tab; the rest starts at the next field.
pub(super) fn split_field(text: &str) -> (&str, &str) {
    let end = text.find([' ', '\t']).unwrap_or(text.len());
    let (field, rest) = text.split_at(end);
    (field, rest.trim_start_matches([' ', '\t']))
}

/// Reads a key at the start of `text`; what follows it is a comment and not looked at. `None`: there is no key there.
pub(super) fn parse(text: &str) -> Option<KeyText> {
    let (name, rest) = split_field(text);
    let (encoded, _comment) = split_field(rest);
    if is_certificate_algorithm(name) {
        let blob = decode_base64(encoded)?;
        return (Wire::new(&blob).text() == Some(name)).then_some(KeyText::Certificate);
    }
    if !PLAIN_ALGORITHMS.contains(&name) {
        return None;
    }
    PublicKey::from_openssh(&format!("{name} {encoded}")).ok().map(KeyText::Plain)
}

/// Decodes standard padded base64 without white space.
pub(super) fn decode_base64(encoded: &str) -> Option<Vec<u8>> {
    if encoded.is_empty() {
        return None;
    }
    let mut reader = Base64Reader::new(encoded.as_bytes()).ok()?;
    let mut bytes = vec![0; reader.remaining_len()];
    reader.read(&mut bytes).ok()?;
    Some(bytes)
}

/// Decodes a key blob, whole and of a plain algorithm we know. The check of the name comes first because the crate
/// allocates whatever length a key of an unknown algorithm claims.
pub(super) fn from_blob(blob: &[u8]) -> Option<PublicKey> {
    let name = Wire::new(blob).text()?;
    if !PLAIN_ALGORITHMS.contains(&name) {
        return None;
    }
    PublicKey::from_bytes(blob).ok()
}

/// The blob that fingerprints, agents and revocation lists are about.
pub(super) fn to_blob(key: &PublicKey) -> Vec<u8> {
    key.to_bytes().expect("a parsed key encodes again")
}

/// `SHA256:…` as `ssh-keygen -l` shows it.
pub(super) fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// `ssh-ed25519 AAAA…` without a comment.
pub(super) fn to_line(key: &PublicKey) -> String {
    PublicKey::from(key.key_data().clone()).to_string()
}

/// Is this a key in a hardware token?
pub(super) fn is_hardware(key: &PublicKey) -> bool {
    matches!(key.key_data(), KeyData::SkEd25519(_) | KeyData::SkEcdsaSha2NistP256(_))
}

/// The length of an RSA modulus in bits.
pub(super) fn rsa_bits(key: &ssh_key::public::RsaPublicKey) -> usize {
    key.n.as_positive_bytes().map_or(0, |bytes| {
        let zeros = bytes.first().map_or(0, |byte| byte.leading_zeros() as usize);
        (bytes.len() * 8).saturating_sub(zeros)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ED25519: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti ann@example.org";

    #[test]
    fn accepts_tabs_runs_of_spaces_and_comments() {
        let Some(KeyText::Plain(key)) = parse(ED25519) else { panic!("a key") };
        let spread = ED25519.replacen(' ', " \t  ", 1);
        assert_eq!(parse(&spread), Some(KeyText::Plain(key.clone())));
        assert_eq!(fingerprint(&key), "SHA256:UCUiLr7Pjs9wFFJMDByLgc3NrtdU344OgUM45wZPcIQ");
        assert_eq!(from_blob(&to_blob(&key)), Some(key.clone()));
        assert_eq!(parse(&to_line(&key)), Some(KeyText::Plain(key)));
    }

    #[test]
    fn refuses_other_algorithms_and_names_that_differ_from_the_blob() {
        assert_eq!(parse(&ED25519.replacen("ssh-ed25519", "ssh-rsa", 1)), None);
        assert_eq!(parse(&ED25519.replacen("ssh-ed25519", "x@example.org", 1)), None);
        assert_eq!(parse("ssh-ed25519"), None);
        assert_eq!(parse(""), None);
        assert!(is_certificate_algorithm("ssh-ed25519-cert-v01@openssh.com"));
        assert!(is_certificate_algorithm("sk-ssh-ed25519-cert-v01@openssh.com"));
        assert!(!is_certificate_algorithm("nothing-cert-v01@openssh.com"));
    }

    proptest! {
        #[test]
        fn is_total(text in ".{0,80}", blob in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(&text);
            let _ = parse(&format!("ssh-ed25519 {text}"));
            let _ = from_blob(&blob);
            let _ = decode_base64(&text);
        }
    }
}
