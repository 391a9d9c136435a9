#![cfg(unix)]

use std::fs;

use proptest::prelude::*;

use super::*;
use crate::sign::testing::{Place, both, public, succeed, text};
use crate::sign::wire::put_string;

struct Keys {
    place: Place,
    revoked: PublicKey,
    fine: PublicKey,
}

fn keys() -> Keys {
    let place = Place::new();
    let revoked = public(&place.keygen("revoked", &["ecdsa"], ""));
    let fine = public(&place.keygen("fine", &["ed25519"], ""));
    Keys { place, revoked, fine }
}

impl Keys {
    /// `ssh-keygen -Q` agrees with us about both keys.
    fn agree(&self, list: &Path) {
        let ours = Revocations::load(list).unwrap();
        assert!(ours.is_revoked(&self.revoked));
        assert!(!ours.is_revoked(&self.fine));
        for (key, revoked) in [("revoked.pub", true), ("fine.pub", false)] {
            let output =
                self.place.command("ssh-keygen").args(["-Q", "-f"]).arg(list).arg(key).output().unwrap();
            assert_eq!(!output.status.success(), revoked, "{}", both(&output));
        }
    }
}

#[test]
fn key_revocation_lists_of_ssh_keygen_are_understood() {
    let keys = keys();
    let list = keys.place.path("krl");
    let spec = |content: &str| keys.place.write("spec", content);
    let make = |arguments: &[&str], file: &Path| {
        let _ = fs::remove_file(&list);
        succeed(
            keys.place.command("ssh-keygen").args(["-q", "-k", "-f"]).arg(&list).args(arguments).arg(file),
        );
        assert!(fs::read(&list).unwrap().starts_with(KRL_MAGIC));
        keys.agree(&list);
    };
    make(&[], &keys.place.path("revoked.pub"));
    let line = pubkey::to_line(&keys.revoked);
    make(&[], &spec(&format!("key: {line}\n")));
    make(&[], &spec(&format!("sha1: {line}\n")));
    make(&[], &spec(&format!("sha256: {line}\n")));
    make(&[], &spec(&format!("hash: {}\n", pubkey::fingerprint(&keys.revoked))));
    // With a section about certificates beside it.
    let ca = keys.place.keygen("ca", &["ed25519"], "");
    let ca_public = format!("{}.pub", text(&ca));
    make(&["-s", &ca_public], &spec(&format!("serial: 1-9\nid: someone\nsha256: {line}\n")));
}

#[test]
fn lists_of_public_keys_are_understood() {
    let keys = keys();
    let line = pubkey::to_line(&keys.revoked);
    let list = keys.place.write("list", format!("# these are bad\n\n  {line} a comment\n"));
    let ours = Revocations::load(&list).unwrap();
    assert!(ours.is_revoked(&keys.revoked) && !ours.is_revoked(&keys.fine));
    assert!(!Revocations::parse(b"").unwrap().is_revoked(&keys.fine));
}

#[test]
fn what_cannot_be_read_fails_closed() {
    let keys = keys();
    assert!(matches!(Revocations::load(&keys.place.path("none")), Err(RevocationsError::Unreadable { .. })));
    assert!(matches!(Revocations::parse(b"# ok\nnonsense\n"), Err(RevocationsError::Line { line: 2 })));
    let options = format!("namespaces=\"git\" {}", pubkey::to_line(&keys.fine));
    assert!(matches!(Revocations::parse(options.as_bytes()), Err(RevocationsError::Line { line: 1 })));
    assert!(matches!(Revocations::parse(&[0xff, 0xfe]), Err(RevocationsError::Malformed(_))));
}

fn krl(version: u32, sections: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = KRL_MAGIC.to_vec();
    bytes.extend_from_slice(&version.to_be_bytes());
    bytes.extend_from_slice(&[0; 24]);
    put_string(&mut bytes, b"");
    put_string(&mut bytes, b"comment");
    for (kind, section) in sections {
        bytes.push(*kind);
        put_string(&mut bytes, section);
    }
    bytes
}

#[test]
fn sections_that_may_revoke_and_are_not_understood_stop_everything() {
    let extension = |critical: u8| {
        let mut section = Vec::new();
        put_string(&mut section, b"new@example.org");
        section.push(critical);
        put_string(&mut section, b"");
        section
    };
    assert!(Revocations::parse(&krl(1, &[])).is_ok());
    assert!(Revocations::parse(&krl(1, &[(CERTIFICATES, b"anything")])).is_ok());
    assert!(Revocations::parse(&krl(1, &[(EXTENSION, &extension(0))])).is_ok());
    for bytes in [krl(2, &[]), krl(1, &[(6, b"")]), krl(1, &[(EXTENSION, &extension(1))])] {
        assert!(matches!(Revocations::parse(&bytes), Err(RevocationsError::NotUnderstood(_))));
    }
    let mut short = Vec::new();
    put_string(&mut short, &[0; 19]);
    for bytes in [
        krl(1, &[(SHA1_FINGERPRINTS, &short)]),
        krl(1, &[(SHA256_FINGERPRINTS, &short)]),
        krl(1, &[(EXPLICIT_KEYS, &[0, 0, 0, 9])]),
        krl(1, &[(EXTENSION, b"")]),
        KRL_MAGIC.to_vec(),
        krl(1, &[(EXPLICIT_KEYS, b"")])[..40].to_vec(),
    ] {
        assert!(matches!(Revocations::parse(&bytes), Err(RevocationsError::Malformed(_))));
    }
    let mut signed = krl(1, &[(SIGNATURE, b"key")]);
    put_string(&mut signed, b"signature");
    assert!(Revocations::parse(&signed).is_ok());
    signed.extend_from_slice(&[EXPLICIT_KEYS, 0, 0, 0, 0]);
    assert!(matches!(Revocations::parse(&signed), Err(RevocationsError::Malformed(_))));
}

proptest! {
    #[test]
    fn is_total(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Revocations::parse(&bytes);
        let _ = Revocations::parse(&[KRL_MAGIC, &bytes].concat());
        let mut list = krl(1, &[]);
        list.extend_from_slice(&bytes);
        let _ = Revocations::parse(&list);
    }
}
