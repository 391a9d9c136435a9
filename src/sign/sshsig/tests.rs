#![cfg(unix)]

use proptest::prelude::*;
use rsa::signature::Signer as _;
use ssh_agent_lib::ssh_encoding::{Base64Writer, Writer};
use ssh_key::PrivateKey;
use ssh_key::public::{EcdsaPublicKey, SkEcdsaSha2NistP256, SkEd25519};
use ssh_key::sha2::Digest;

use super::*;
use crate::sign::pubkey;
use crate::sign::testing::{Place, both, feed, public, text};
use crate::sign::wire::put_string;

const PAYLOAD: &[u8] = b"what is signed\n";

/// The fields of an SSHSIG, to be spoiled one by one.
#[derive(Clone)]
struct Fields {
    version: u32,
    key: Vec<u8>,
    namespace: String,
    reserved: Vec<u8>,
    hash: String,
    algorithm: String,
    raw: Vec<u8>,
    trailer: Vec<u8>,
}

impl Fields {
    fn pem(&self) -> String {
        let mut blob = MAGIC.to_vec();
        blob.extend_from_slice(&self.version.to_be_bytes());
        put_string(&mut blob, &self.key);
        put_string(&mut blob, self.namespace.as_bytes());
        put_string(&mut blob, &self.reserved);
        put_string(&mut blob, self.hash.as_bytes());
        let mut signature = Vec::new();
        put_string(&mut signature, self.algorithm.as_bytes());
        put_string(&mut signature, &self.raw);
        signature.extend_from_slice(&self.trailer);
        put_string(&mut blob, &signature);
        armored(&blob, 70)
    }
}

fn armored(blob: &[u8], width: usize) -> String {
    let mut buffer = vec![0; blob.len() * 2 + 4];
    let mut writer = Base64Writer::new(&mut buffer).unwrap();
    writer.write(blob).unwrap();
    let encoded = writer.finish().unwrap();
    let lines: Vec<&str> =
        encoded.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("{BEGIN}{}\n{END}\n", lines.join("\n"))
}

fn signed_data(namespace: &str) -> Vec<u8> {
    SshSig::signed_data(namespace, HashAlg::Sha512, PAYLOAD).unwrap()
}

/// What a hardware key signs: application, flags, counter and message, the outer two hashed.
fn touched(key: &PrivateKey, application: &str, trailer: [u8; 5]) -> Vec<u8> {
    let mut data = Sha256::digest(application).to_vec();
    data.extend_from_slice(&trailer);
    data.extend_from_slice(&Sha256::digest(signed_data("git")));
    key.try_sign(&data).unwrap().as_bytes().to_vec()
}

fn private(place: &Place, name: &str, kind: &[&str]) -> PrivateKey {
    PrivateKey::read_openssh_file(&place.keygen(name, kind, "")).unwrap()
}

fn ed25519(place: &Place) -> Fields {
    let key = private(place, "ed", &["ed25519"]);
    Fields {
        version: 1,
        key: key.public_key().to_bytes().unwrap(),
        namespace: "git".into(),
        reserved: vec![],
        hash: "sha512".into(),
        algorithm: "ssh-ed25519".into(),
        raw: key.try_sign(&signed_data("git")).unwrap().as_bytes().to_vec(),
        trailer: vec![],
    }
}

fn openssh_verifies(place: &Place, key: &PublicKey, pem: &str) -> bool {
    let allowed = place.write("allowed", format!("a {}\n", pubkey::to_line(key)));
    let signature = place.write("signature", pem);
    let mut command = place.command("ssh-keygen");
    command.args(["-Y", "verify", "-n", "git", "-I", "a", "-f", &text(&allowed), "-s", &text(&signature)]);
    feed(&mut command, PAYLOAD).status.success()
}

#[test]
fn each_field_is_checked_and_the_refusal_says_which() {
    use SignatureError as E;

    let place = Place::new();
    let good = ed25519(&place);
    let verified = |fields: &Fields| verify(fields.pem().as_bytes(), "git", PAYLOAD);
    assert!(verified(&good).is_ok());
    let spoil = |change: fn(&mut Fields)| {
        let mut fields = good.clone();
        change(&mut fields);
        verified(&fields).unwrap_err()
    };
    assert_eq!(spoil(|fields| fields.version = 2), E::Version(2));
    assert_eq!(spoil(|fields| fields.hash = "sha1".into()), E::Hash("sha1".into()));
    assert!(matches!(spoil(|fields| fields.hash = "sha256".into()), E::Mismatch { .. }));
    assert!(matches!(spoil(|fields| fields.namespace = "file\n".into()), E::Namespace { .. }));
    assert!(matches!(spoil(|fields| fields.namespace = String::new()), E::Malformed(_)));
    assert!(matches!(spoil(|fields| fields.reserved = vec![1]), E::Malformed(_)));
    assert!(matches!(spoil(|fields| fields.raw[0] ^= 1), E::Mismatch { .. }));
    assert!(matches!(spoil(|fields| fields.raw.truncate(63)), E::Malformed(_)));
    assert!(matches!(spoil(|fields| fields.trailer = vec![1]), E::Malformed(_)));
    assert!(matches!(spoil(|fields| fields.trailer = vec![1, 0, 0, 0, 1]), E::Malformed(_)));
    assert!(matches!(spoil(|fields| fields.algorithm = "rsa-sha2-512".into()), E::SignatureAlgorithm { .. }));
    assert!(matches!(spoil(|fields| fields.key.push(0)), E::Malformed(_)));
    let name = |name: &str| {
        let mut fields = good.clone();
        fields.key = Vec::new();
        put_string(&mut fields.key, name.as_bytes());
        verified(&fields).unwrap_err()
    };
    assert_eq!(name("ssh-dss"), E::KeyAlgorithm("ssh-dss".into()));
    assert_eq!(name("new@example.org"), E::KeyAlgorithm("new@example.org".into()));
    let certificate = "ssh-ed25519-cert-v01@openssh.com";
    assert_eq!(name(certificate), E::Certificate(certificate.into()));
}

#[test]
fn the_armor_is_exactly_one_block() {
    let place = Place::new();
    let pem = ed25519(&place).pem();
    let outcome = |pem: &str| verify(pem.as_bytes(), "git", PAYLOAD);
    assert!(outcome(&pem).is_ok());
    assert!(outcome(pem.trim_end()).is_ok());
    for bad in [
        format!("{pem}\n"),
        format!("{pem} "),
        format!("\n{pem}"),
        format!("note\n{pem}"),
        format!("{pem}{pem}"),
        pem.replace('\n', "\r\n"),
        pem.replacen("SSH SIGNATURE-----\n", "SSH SIGNATURE-----\n\n", 1),
        pem.replacen("U1NIU0lH", "U1NI U0lH", 1),
        pem.replacen("U1NIU0lH", "U1NIU0l\u{e9}", 1),
        pem.replacen("BEGIN SSH", "BEGIN PGP", 1),
        pem.replacen("\n-----END", "-----END", 1),
        pem.replace("-----END SSH SIGNATURE-----", "-----END SSH SIGNATURE----"),
        String::new(),
        format!("{BEGIN}{END}"),
        format!("{BEGIN}\n{END}"),
        "-----BEGIN PGP SIGNATURE-----\n\nAAAA\n-----END PGP SIGNATURE-----\n".into(),
        "x".repeat(LONGEST_PEM + 1),
    ] {
        let error = outcome(&bad).unwrap_err();
        assert!(matches!(error, SignatureError::Armor(_)), "{bad:?}: {error}");
    }
    // Others wrap lines elsewhere.
    let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let blob = pubkey::decode_base64(&body).unwrap();
    assert!(outcome(&armored(&blob, 64)).is_ok());
    assert!(outcome(&armored(&blob, 76)).is_ok());
    // ssh-keygen takes a body that is not wrapped at all, and so do git and we.
    assert!(outcome(&armored(&blob, 100_000)).is_ok());
    assert!(outcome(&armored(&blob[..blob.len() - 1], 70)).is_err());
    assert!(outcome(&armored(&[&blob[..], &[0]].concat(), 70)).is_err());
}

#[test]
fn hardware_keys_verify_as_openssh_verifies_them_and_must_be_touched() {
    let place = Place::new();
    let ed = private(&place, "ed", &["ed25519"]);
    let ec = private(&place, "ec", &["ecdsa", "-b", "256"]);
    let ed_key = *ed.public_key().key_data().ed25519().unwrap();
    let Some(EcdsaPublicKey::NistP256(point)) = ec.public_key().key_data().ecdsa() else { panic!("P-256") };
    for (private, key) in [
        (&ed, KeyData::SkEd25519(SkEd25519::new(ed_key, "ssh:"))),
        (&ec, KeyData::SkEcdsaSha2NistP256(SkEcdsaSha2NistP256::new(*point, "ssh:git"))),
    ] {
        let key = PublicKey::from(key);
        let application = if key.algorithm() == Algorithm::SkEd25519 { "ssh:" } else { "ssh:git" };
        let trailer = [1, 0, 0, 0, 9];
        let good = Fields {
            key: key.to_bytes().unwrap(),
            algorithm: key.algorithm().to_string(),
            raw: touched(private, application, trailer),
            trailer: trailer.to_vec(),
            ..ed25519(&Place::new())
        };
        let outcome = |fields: &Fields| verify(fields.pem().as_bytes(), "git", PAYLOAD);
        assert_eq!(outcome(&good).unwrap().key, key);
        assert!(openssh_verifies(&place, &key, &good.pem()), "{key:?}");

        let untouched = [0, 0, 0, 0, 9];
        let fields = Fields {
            raw: touched(private, application, untouched),
            trailer: untouched.to_vec(),
            ..good.clone()
        };
        assert_eq!(outcome(&fields), Err(SignatureError::UserPresence));
        let counted = Fields { trailer: vec![1, 0, 0, 0, 8], ..good.clone() };
        assert!(matches!(outcome(&counted), Err(SignatureError::Mismatch { .. })));
        for trailer in [vec![], vec![1, 0, 0, 0], vec![1, 0, 0, 0, 9, 0]] {
            let fields = Fields { trailer, ..good.clone() };
            assert!(matches!(outcome(&fields), Err(SignatureError::Malformed(_))));
        }
        let plain = Fields { algorithm: private.algorithm().to_string(), ..good };
        assert!(matches!(outcome(&plain), Err(SignatureError::SignatureAlgorithm { .. })));
    }
}

#[test]
fn rsa_is_accepted_with_sha2_and_enough_bits_only() {
    let place = Place::new();
    let sign = |name: &str, bits: &str| {
        let path = place.keygen(name, &["rsa", "-b", bits], "");
        let mut command = place.command("ssh-keygen");
        let output = feed(command.args(["-Y", "sign", "-n", "git", "-f"]).arg(&path), PAYLOAD);
        assert!(output.status.success(), "{}", both(&output));
        (public(&path), output.stdout)
    };
    let (_, short) = sign("short", "1024");
    assert_eq!(verify(&short, "git", PAYLOAD), Err(SignatureError::RsaLength(1024)));
    // Longer than the 4096 bits that ssh-key can do.
    let (key, long) = sign("long", "4160");
    assert_eq!(verify(&long, "git", PAYLOAD).unwrap().key, key);

    let (key, _) = sign("plain", "2048");
    let fields = Fields {
        key: key.to_bytes().unwrap(),
        algorithm: "ssh-rsa".into(),
        raw: vec![1; 256],
        ..ed25519(&Place::new())
    };
    let outcome = |fields: &Fields| verify(fields.pem().as_bytes(), "git", PAYLOAD);
    assert!(matches!(outcome(&fields), Err(SignatureError::SignatureAlgorithm { .. })));
    let fields = Fields { algorithm: "rsa-sha2-256".into(), ..fields };
    assert!(matches!(outcome(&fields), Err(SignatureError::Mismatch { .. })));
    let fields = Fields { raw: vec![1; 257], ..fields };
    assert!(matches!(outcome(&fields), Err(SignatureError::Malformed(_))));
    let fields = Fields { raw: vec![], ..fields };
    assert!(outcome(&fields).is_err());
}

#[test]
fn leading_zeros_that_a_signer_dropped_are_put_back() {
    assert_eq!(pad_rsa(&[1, 2], 25), Some(vec![0, 0, 1, 2]));
    assert_eq!(pad_rsa(&[1, 2, 3], 16), None);
}

proptest! {
    #[test]
    fn is_total(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = verify(&bytes, "git", PAYLOAD);
        let _ = verify(armored(&bytes, 70).as_bytes(), "git", PAYLOAD);
        let mut blob = MAGIC.to_vec();
        blob.extend_from_slice(&[0, 0, 0, 1]);
        blob.extend_from_slice(&bytes);
        let _ = verify(armored(&blob, 70).as_bytes(), "git", PAYLOAD);
    }
}
