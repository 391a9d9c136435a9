//! Every source of a key, against the real programs.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use super::*;
use crate::sign::testing::{AgentProcess, Place, both, feed, public, succeed, text};
use crate::sign::{AskpassRequire, PassphraseSource};

const PAYLOAD: &[u8] = b"tree 0\n\nsomething to sign\n";

const KINDS: [(&str, &[&str]); 5] = [
    ("ed25519", &["ed25519"]),
    ("p256", &["ecdsa", "-b", "256"]),
    ("p384", &["ecdsa", "-b", "384"]),
    ("p521", &["ecdsa", "-b", "521"]),
    ("rsa", &["rsa", "-b", "3072"]),
];

/// Signs, and lets `ssh-keygen -Y verify` judge.
fn signs(place: &Place, signer: &Signer) {
    let pem = signer.sign("git", PAYLOAD).unwrap();
    let signature = place.write("signature", pem);
    let line = pubkey::to_line(signer.public_key());
    let allowed = place.write("allowed", format!("ann@example.org {line}\n"));
    let mut command = place.command("ssh-keygen");
    command
        .args(["-Y", "verify", "-n", "git", "-I", "ann@example.org", "-f"])
        .arg(allowed)
        .arg("-s")
        .arg(signature);
    let output = feed(&mut command, PAYLOAD);
    assert!(output.status.success(), "{signer:?}: {}", both(&output));
    signer.preflight().unwrap();
}

fn refused(request: &KeyRequest) -> KeyError {
    match Signer::open(request) {
        Ok(signer) => panic!("{signer:?} should not open"),
        Err(error) => error,
    }
}

fn chain(error: KeyError) -> String {
    crate::error::Error::from(error).chain()
}

#[test]
fn files_of_every_type_sign_and_ssh_keygen_agrees() {
    let place = Place::new();
    for (name, kind) in KINDS {
        let path = place.keygen(name, kind, "");
        for form in [text(&path), format!("{name}.pub"), format!("~/{name}")] {
            let signer = Signer::open(&place.request(form)).unwrap();
            assert_eq!(signer.source_name(), "file");
            assert_eq!(signer.public_key(), &public(&path));
            signs(&place, &signer);
        }
    }
}

#[test]
fn what_ssh_keygen_signs_verifies_here_and_a_changed_byte_does_not() {
    let place = Place::new();
    for (name, kind) in KINDS {
        let path = place.keygen(name, kind, "");
        for hash in ["sha256", "sha512"] {
            let mut command = place.command("ssh-keygen");
            command.args(["-Y", "sign", "-n", "git", "-O", &format!("hashalg={hash}"), "-f"]).arg(&path);
            let output = feed(&mut command, PAYLOAD);
            assert!(output.status.success(), "{}", both(&output));
            let by = sshsig::verify(&output.stdout, "git", PAYLOAD).unwrap();
            assert_eq!(by.key, public(&path), "{name} {hash}");
            assert!(matches!(
                sshsig::verify(&output.stdout, "git", b"other"),
                Err(sshsig::SignatureError::Mismatch { .. })
            ));
            assert!(matches!(
                sshsig::verify(&output.stdout, "file", PAYLOAD),
                Err(sshsig::SignatureError::Namespace { .. })
            ));
        }
    }
}

#[test]
fn report_2_57_a_key_that_only_an_agent_can_have_is_refused_without_one() {
    let place = Place::new();
    let path = place.keygen("k", &["ed25519"], "");
    let literal = fs::read_to_string(place.path("k.pub")).unwrap();
    fs::remove_file(&path).unwrap();
    for form in [literal.clone(), format!("key::{literal}"), "k.pub".to_owned(), "k".to_owned()] {
        let error = refused(&place.request(&form));
        assert!(matches!(error, KeyError::NoAgent { .. }), "{form}: {error}");
        let told = chain(error);
        assert!(told.contains("SSH_AUTH_SOCK is not set") && told.contains("from user.signingkey"), "{told}");
        assert!(told.contains(&pubkey::fingerprint(&pubkey_of(&literal))), "{told}");
    }
}

fn pubkey_of(line: &str) -> PublicKey {
    let Some(KeyText::Plain(key)) = pubkey::parse(line) else { panic!("a key") };
    key
}

#[test]
fn report_2_59_keys_in_the_agent_sign_with_only_the_public_key_on_disk() {
    let place = Place::new();
    let agent = AgentProcess::start(&place);
    for (name, kind) in KINDS {
        let path = place.keygen(name, kind, "");
        agent.add(&place, &path);
        fs::remove_file(&path).unwrap();
        let literal = fs::read_to_string(place.path(&format!("{name}.pub"))).unwrap();
        for form in [format!("{name}.pub"), name.to_owned(), format!("key::{literal}"), literal] {
            let request = KeyRequest { agent_socket: Some(agent.socket.clone()), ..place.request(form) };
            let signer = Signer::open(&request).unwrap();
            assert_eq!(signer.source_name(), "agent");
            signs(&place, &signer);
        }
    }
}

#[test]
fn report_2_61_an_agent_that_does_not_help_is_named() {
    let place = Place::new();
    let path = place.keygen("k", &["ed25519"], "");
    fs::remove_file(&path).unwrap();
    let agent = AgentProcess::start(&place);
    let with = |socket: PathBuf| KeyRequest { agent_socket: Some(socket), ..place.request("k.pub") };

    let error = refused(&with(agent.socket.clone()));
    assert!(matches!(error, KeyError::NotInAgent { .. }), "{error}");
    assert!(error.to_string().contains("SSH_AUTH_SOCK=`"), "{error}");

    let error = refused(&with(place.path("nobody.sock")));
    assert!(matches!(error, KeyError::AgentUnreachable { .. }), "{error}");
    assert!(error.hints().iter().any(|hint| hint.contains("SSH_AUTH_SOCK")), "{error}");

    let hints = refused(&place.request("k.pub")).hints();
    assert!(hints.iter().any(|hint| hint.contains("gpg.ssh.defaultKeyCommand")), "{hints:?}");
}

#[test]
fn an_agent_that_speaks_nonsense_is_an_error_and_no_hang() {
    use std::io::{Read, Write};

    let place = Place::new();
    let path = place.keygen("k", &["ed25519"], "");
    fs::remove_file(&path).unwrap();
    let socket = place.path("liar.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let liar = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 5]).unwrap();
        stream.write_all(&[0xff, 0xff, 0xff, 0xff, 12]).unwrap();
    });
    let error = refused(&KeyRequest { agent_socket: Some(socket), ..place.request("k.pub") });
    assert!(matches!(error, KeyError::AgentUnreachable { .. }), "{error}");
    liar.join().unwrap();
}

#[test]
fn a_key_that_leaves_the_agent_does_not_sign_any_more() {
    let place = Place::new();
    let path = place.keygen("k", &["ed25519"], "");
    let agent = AgentProcess::start(&place);
    agent.add(&place, &path);
    fs::remove_file(&path).unwrap();
    let request = KeyRequest { agent_socket: Some(agent.socket.clone()), ..place.request("k.pub") };
    let signer = Signer::open(&request).unwrap();
    signer.preflight().unwrap();
    succeed(place.command("ssh-add").args(["-q", "-D"]).env("SSH_AUTH_SOCK", &agent.socket));
    assert!(matches!(signer.preflight(), Err(KeyError::AgentRefused { .. })));
    drop(agent);
    assert!(matches!(signer.preflight(), Err(KeyError::AgentUnreachable { .. })));
}

#[test]
fn report_2_58_an_encrypted_key_never_hangs() {
    let place = Place::new();
    let path = place.keygen("k", &["ed25519"], "secret words");
    let error = refused(&place.request("k"));
    assert!(matches!(error, KeyError::Encrypted { .. }), "{error}");
    let told = chain(error);
    assert!(told.contains("is encrypted") && told.contains("SSH_AUTH_SOCK is not set"), "{told}");

    let forced = |program: PathBuf| KeyRequest {
        passphrase: PassphraseSource {
            askpass: Some(program),
            require: AskpassRequire::Force,
            ..PassphraseSource::default()
        },
        ..place.request("k")
    };
    let error = refused(&forced("/bin/false".into()));
    assert!(error.to_string().contains("askpass program `/bin/false`"), "{error}");
    assert!(error.hints()[0].contains("ssh-add"), "{error:?}");

    let error = refused(&forced(place.script("wrong", "echo other words")));
    assert!(error.to_string().contains("the passphrase is wrong"), "{error}");
    assert!(!format!("{error:?}").contains("other words"), "a passphrase is never shown");

    // What an askpass program leaves behind holds its output open; the answer is a line, so nobody waits for the end.
    let signer = Signer::open(&forced(place.script("right", "sleep 3 & echo 'secret words'"))).unwrap();
    assert_eq!(signer.source_name(), "file");
    assert_eq!(signer.public_key(), &public(&path));
    signs(&place, &signer);
    assert!(!format!("{signer:?}").contains("secret"), "{signer:?}");
}

#[test]
fn an_encrypted_key_prefers_the_agent() {
    let place = Place::new();
    let path = place.keygen("plain", &["ed25519"], "");
    let agent = AgentProcess::start(&place);
    agent.add(&place, &path);
    succeed(place.command("ssh-keygen").args(["-q", "-p", "-a", "1", "-N", "secret words", "-f"]).arg(&path));
    for form in ["plain", "plain.pub"] {
        let request = KeyRequest { agent_socket: Some(agent.socket.clone()), ..place.request(form) };
        let signer = Signer::open(&request).unwrap();
        assert_eq!(signer.source_name(), "agent");
        signs(&place, &signer);
    }
}

#[test]
fn old_file_formats_go_through_ssh_keygen() {
    let place = Place::new();
    for (name, kind) in [
        ("pkcs1", &["rsa", "-b", "2048", "-m", "PEM"][..]),
        ("pkcs8", &["rsa", "-b", "2048", "-m", "PKCS8"][..]),
        ("sec1", &["ecdsa", "-m", "PEM"][..]),
    ] {
        let path = place.keygen(name, kind, "");
        let signer = Signer::open(&place.request(name)).unwrap();
        assert_eq!(signer.source_name(), "ssh-keygen");
        signs(&place, &signer);
        let signer = Signer::open(&place.request(format!("{name}.pub"))).unwrap();
        assert_eq!(signer.source_name(), "ssh-keygen");

        let without = KeyRequest { ssh_keygen: None, ..place.request(name) };
        assert!(matches!(refused(&without), KeyError::NoKeygen { .. }));
        fs::remove_file(place.path(&format!("{name}.pub"))).unwrap();
        assert!(matches!(refused(&place.request(name)), KeyError::NoPublicKey { .. }));
        assert!(path.exists());
    }
}

#[test]
fn an_encrypted_old_file_fails_at_once_when_nobody_can_be_asked() {
    let place = Place::new();
    place.keygen("k", &["rsa", "-b", "2048", "-m", "PEM"], "secret words");
    let signer = Signer::open(&place.request("k")).unwrap();
    let error = signer.preflight().unwrap_err();
    assert!(matches!(error, KeyError::Keygen { .. }), "{error}");

    let askpass = place.script("askpass", "echo 'secret words'");
    let passphrase = PassphraseSource {
        askpass: Some(askpass),
        require: AskpassRequire::Force,
        ..PassphraseSource::default()
    };
    signs(&place, &Signer::open(&KeyRequest { passphrase, ..place.request("k") }).unwrap());
}

#[test]
fn report_2_68_a_private_key_that_others_may_read_is_refused_as_ssh_does() {
    let place = Place::new();
    for passphrase in ["", "secret words"] {
        let name = format!("k{}", passphrase.len());
        let path = place.keygen(&name, &["ed25519"], passphrase);
        for mode in [0o644, 0o640, 0o602] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            for form in [name.clone(), format!("{name}.pub")] {
                let error = refused(&place.request(form));
                let told = error.to_string();
                assert!(told.starts_with(&format!("permissions {mode:04o}")), "{told}");
                assert!(told.contains("too open"), "{told}");
                assert!(error.hints()[0].starts_with("run `chmod 600"), "{error:?}");
            }
        }
    }
    // ssh-keygen goes on with the agent, if that has the key.
    let agent = AgentProcess::start(&place);
    let path = place.keygen("open", &["ed25519"], "");
    agent.add(&place, &path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let request = KeyRequest { agent_socket: Some(agent.socket.clone()), ..place.request("open.pub") };
    signs(&place, &Signer::open(&request).unwrap());
}

#[test]
fn another_key_never_takes_the_place_of_the_one_that_was_named() {
    let place = Place::new();
    let a = place.keygen("a", &["ed25519"], "");
    let b = place.keygen("b", &["ed25519"], "");
    fs::copy(place.path("b.pub"), place.path("a.pub")).unwrap();
    assert!(matches!(refused(&place.request("a.pub")), KeyError::OtherKey { .. }));
    // The private file itself says which key it is.
    assert_eq!(Signer::open(&place.request("a")).unwrap().public_key().algorithm().as_str(), "ssh-ed25519");

    // An old file next to a wrong public key: ssh-keygen refuses or signs with the wrong one, and neither gets through.
    let old = place.keygen("old", &["ecdsa", "-m", "PEM"], "");
    place.keygen("other", &["ecdsa"], "");
    fs::copy(place.path("other.pub"), place.path("old.pub")).unwrap();
    let error = Signer::open(&place.request("old")).unwrap().preflight().unwrap_err();
    assert!(
        matches!(
            error,
            KeyError::Keygen { .. } | KeyError::SignedByOther { .. } | KeyError::BadSignature { .. }
        ),
        "{error}"
    );
    assert!(a.exists() && b.exists() && old.exists());
}

#[test]
fn files_that_are_no_keys_are_told_apart() {
    let place = Place::new();
    assert!(matches!(refused(&place.request("missing")), KeyError::Missing { .. }));
    assert!(matches!(refused(&place.request("missing.pub")), KeyError::Missing { .. }));
    place.write("empty", "");
    place.write("prose", "this is not a key\n");
    place.write("binary", [0xff, 0xfe, 0]);
    let broken = place
        .write("broken", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n");
    fs::set_permissions(broken, fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(place.path("folder")).unwrap();
    for name in ["empty", "prose", "binary", "broken", "folder"] {
        let error = refused(&place.request(name));
        assert!(matches!(error, KeyError::NotAKey { .. }), "{name}: {error}");
    }
    succeed(place.command("mkfifo").arg("pipe"));
    assert!(matches!(refused(&place.request("pipe")), KeyError::NotAKey { .. }));
}

const DSA: &str = "ssh-dss AAAAB3NzaC1kc3MAAACBAL9fbNSZMekeC11ru15SUsrpZZ61rU3YuEP2kenAa90sM+1O6wpPvkvLcO2QaTo1VY1ieQVf2SCdE/T9vK62Zuz9drsMYoHJvr8+bwpXyzTyB04XoYB3jhCxjMNCR/V9q+6KIIr2u0hXl/SMDetWJnka7KEVXxj9ElGm0hBQc71ZAAAAFQD2CV2El7aeeXGp6DrwuRIkt8lxNQAAAIEAqaT+/7irwBT7ahq2bw8TM8gwa7BT4EXf7ghDD9MywRbvCcoBRFb/RojXf80uveWfJTfVFZAwyWAZKFRvybYFa/c/EE4BDFHTj4TzhBAArzRttfnMHel/lPjXooWrYzmniTHxJQCmMOh44Uhg74tADijFmkRdKfOZc92ELLmoL60AAACAM6YnixJyvka53OHtRA7r3GeCNX3dJ6SQh1y4N09ojsn8XjzjzwK9OzAvoP50/yWdILJ0KhbOyAO+s6NQQtbN5KjlrR1ORFWElc3N2RYM3dKLtKa5xZ7BFT4gyt534C5Mm86dHkNtkuH8RLHAYv/xfTgkpVJ+/4msrRUQzCpBcVU=";

#[test]
fn types_that_nobody_would_accept_are_refused_before_they_sign() {
    let place = Place::new();
    // Newer versions of ssh-keygen do not make such keys any more.
    place.write("dsa.pub", DSA);
    assert!(matches!(refused(&place.request("dsa.pub")), KeyError::Unsupported { .. }));
    place.keygen("short", &["rsa", "-b", "1024"], "");
    assert!(matches!(refused(&place.request("short")), KeyError::RsaLength { bits: 1024, .. }));
    let ca = place.keygen("ca", &["ed25519"], "");
    place.keygen("k", &["ed25519"], "");
    succeed(place.command("ssh-keygen").arg("-q").arg("-s").arg(ca).args(["-I", "id", "-n", "ann", "k.pub"]));
    let error = refused(&place.request("k-cert.pub"));
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn what_ssh_keygen_says_when_it_fails_is_told() {
    let place = Place::new();
    let path = place.keygen("k", &["ecdsa", "-m", "PEM"], "");
    let fake = place.script("fake", "echo 'first line' >&2; echo 'it broke' >&2; exit 3");
    let request = KeyRequest { ssh_keygen: Some(fake), ..place.request(text(&path)) };
    let error = Signer::open(&request).unwrap().preflight().unwrap_err();
    assert!(error.to_string().ends_with(": it broke"), "{error}");
}
