use std::fs;

use gix::bstr::ByteSlice;
use proptest::prelude::*;

use super::*;
use crate::sign::testing::{Place, both, feed, public, succeed, text};
use crate::sign::{Signer, pubkey, sshsig};

fn id(hash: Kind, byte: u8) -> ObjectId {
    ObjectId::from_hex(format!("{byte:02x}").repeat(hash.len_in_bytes()).as_bytes()).unwrap()
}

fn person(name: &str, offset: i32) -> Person {
    Person { name: name.into(), email: "ann@example.org".into(), seconds: 1_700_000_000, offset }
}

fn commit(hash: Kind) -> CommitObject {
    CommitObject {
        tree: id(hash, 1),
        parents: vec![id(hash, 2), id(hash, 3)],
        author: person("Ann Author", -90),
        committer: person("", 345),
        extra_headers: vec![
            ("encoding".into(), "ISO-8859-1".into()),
            ("x-note".into(), "one\n\n two".into()),
        ],
        message: "subject\n\nbody\n\nLoop-Id: a\n".into(),
    }
}

const PEM: &str = "-----BEGIN SSH SIGNATURE-----\nAAAA\n\nBBBB\n-----END SSH SIGNATURE-----\n";

#[test]
fn what_is_written_is_read_again() {
    for hash in [Kind::Sha1, Kind::Sha256] {
        let commit = commit(hash);
        let payload = commit.to_bytes().unwrap();
        let parsed = parse_signed(&payload, hash).unwrap();
        assert_eq!(parsed.commit, commit);
        assert_eq!((parsed.payload.as_bstr(), parsed.signature), (payload.as_bstr(), None));

        let signed = attach_signature(&payload, PEM, hash);
        assert!(signed.contains_str(format!("\n{} -----BEGIN", signature_header(hash))));
        let parsed = parse_signed(&signed, hash).unwrap();
        assert_eq!(parsed.commit, commit);
        assert_eq!(parsed.payload, payload);
        assert_eq!(parsed.signature.as_deref(), Some(PEM.as_bytes()));
    }
}

#[test]
fn the_bytes_are_those_of_git() {
    let payload = commit(Kind::Sha1).to_bytes().unwrap();
    let expected = format!(
        "tree {}\nparent {}\nparent {}\nauthor Ann Author <ann@example.org> 1700000000 -0130\ncommitter  <ann@example.org> \
         1700000000 +0545\nencoding ISO-8859-1\nx-note one\n \n  two\n\nsubject\n\nbody\n\nLoop-Id: a\n",
        "01".repeat(20),
        "02".repeat(20),
        "03".repeat(20)
    );
    assert_eq!(payload.as_bstr(), expected.as_str());
}

#[test]
fn fields_cannot_break_out_of_their_headers() {
    let change = |change: fn(&mut CommitObject)| {
        let mut commit = commit(Kind::Sha1);
        change(&mut commit);
        commit.to_bytes().unwrap_err()
    };
    for error in [
        change(|commit| commit.author.name = "a\nparent x".into()),
        change(|commit| commit.author.email = "a> 1 +0000\ncommitter <b".into()),
        change(|commit| commit.committer.name = "a <b".into()),
        change(|commit| commit.committer.seconds = -1),
        change(|commit| commit.committer.offset = 6000),
        change(|commit| commit.extra_headers[1].0 = "x y".into()),
        change(|commit| commit.extra_headers[1].0 = "".into()),
        change(|commit| commit.extra_headers[1].0 = "gpgsig".into()),
        change(|commit| commit.extra_headers[1].0 = "gpgsig-sha256".into()),
        change(|commit| commit.extra_headers[1].0 = "parent".into()),
        change(|commit| commit.extra_headers.swap(0, 1)),
    ] {
        assert!(matches!(error, CommitError::Header { .. }), "{error}");
    }
    assert_eq!(change(|commit| commit.message = "a\0b".into()), CommitError::Nul);
    assert_eq!(change(|commit| commit.parents[1] = id(Kind::Sha256, 1)), CommitError::ObjectId("parent"));
    let twice = change(|commit| commit.extra_headers.push(("x-note".into(), "again".into())));
    assert_eq!(twice, CommitError::Duplicate("x-note".into()));
    let mut merged = commit(Kind::Sha1);
    merged.extra_headers = vec![("mergetag".into(), "a".into()), ("mergetag".into(), "b".into())];
    assert!(parse_signed(&merged.to_bytes().unwrap(), Kind::Sha1).is_ok());
}

#[test]
fn what_git_would_not_write_is_refused() {
    let signed = attach_signature(&commit(Kind::Sha1).to_bytes().unwrap(), PEM, Kind::Sha1);
    assert!(parse_signed(&signed, Kind::Sha1).is_ok());
    let signed = String::from_utf8(signed).unwrap();
    let two = "02".repeat(20);
    let tree = format!("tree {}\n", "01".repeat(20));
    let edit = |from: &str, to: &str| {
        let edited = signed.replacen(from, to, 1);
        assert_ne!(edited, signed, "{from:?} is not there");
        (from.to_owned(), to.to_owned(), parse_signed(edited.as_bytes(), Kind::Sha1))
    };
    for (from, to, result) in [
        edit("gpgsig -----", "gpgsig-sha256 -----"),
        edit("gpgsig -----", "gpgsig-x -----"),
        edit("gpgsig -----", "gpgsigx -----"),
        edit("gpgsig -----", "gpgsig AAAA\ngpgsig -----"),
        edit("gpgsig -----", "gpgsig-sha256 AAAA\ngpgsig -----"),
        edit("\n\nsubject", "\nx-late a\n\nsubject"),
        edit("\n\nsubject", "\ngpgsig-sha256 AAAA\n\nsubject"),
        edit("\n\nsubject", "\ngpgsig AAAA\n\nsubject"),
        edit("encoding ", "encoding"),
        edit("x-note ", "x-note\n"),
        edit(&tree, ""),
        edit(&tree, &tree.repeat(2)),
        edit(&tree, &tree.to_uppercase()),
        edit(&tree, &format!(" {tree}")),
        edit(&two, &two[..38]),
        edit(&two, &"02".repeat(32)),
        edit(&two, &"0G".repeat(20)),
        edit(&two, &"ab".repeat(20).to_uppercase()),
        edit("author Ann", &format!("encoding x\nparent {two}\nauthor Ann")),
        edit("committer ", &format!("parent {two}\ncommitter ")),
        edit("committer ", "author Bob <b@example.org> 1 +0000\ncommitter "),
        edit("encoding", "committer Bob <b@example.org> 1 +0000\nencoding"),
        edit("author ", "x-author "),
        edit("committer ", "x-committer "),
        edit("Ann Author <", "Ann Author<"),
        edit("Ann Author <", "Ann <Author <"),
        edit("example.org> ", "example.org>"),
        edit("1700000000 -0130", "01700000000 -0130"),
        edit("1700000000 -0130", "+1700000000 -0130"),
        edit("1700000000 -0130", "99999999999999999999 -0130"),
        edit("1700000000 -0130", "1700000000 -0000"),
        edit("1700000000 -0130", "1700000000 -0190"),
        edit("1700000000 -0130", "1700000000 0130"),
        edit("1700000000 -0130", "1700000000 -01300"),
        edit("1700000000 -0130", "1700000000 -0130 "),
        edit("1700000000 -0130", "1700000000 -0130\n x"),
        edit("x-note one", "x-note o\0ne"),
        edit("subject", "sub\0ject"),
    ] {
        assert!(result.is_err(), "{from:?} -> {to:?} was accepted");
    }
    for end in 0..=signed.find("\n\n").unwrap() {
        assert!(parse_signed(&signed.as_bytes()[..end], Kind::Sha1).is_err(), "cut at {end}");
    }
    assert!(matches!(
        parse_signed(signed.as_bytes(), Kind::Sha256),
        Err(CommitError::ForeignSignature { expected: "gpgsig-sha256", .. } | CommitError::ObjectId(_))
    ));
}

#[test]
fn a_foreign_signature_header_is_named() {
    for (hash, foreign) in [(Kind::Sha1, Kind::Sha256), (Kind::Sha256, Kind::Sha1)] {
        let signed = attach_signature(&commit(hash).to_bytes().unwrap(), PEM, foreign);
        let error = parse_signed(&signed, hash).unwrap_err();
        let expected = signature_header(hash);
        assert_eq!(
            error,
            CommitError::ForeignSignature { found: signature_header(foreign).into(), expected }
        );
    }
}

#[test]
fn git_and_we_accept_each_others_commits_in_repositories_of_both_hashes() {
    for (format, hash) in [("sha1", Kind::Sha1), ("sha256", Kind::Sha256)] {
        let place = Place::new();
        succeed(place.command("git").args(["init", "-q", "--object-format", format, "."]));
        let tree = succeed(place.command("git").args(["write-tree"]));
        for (name, kind) in [
            ("ed", &["ed25519"][..]),
            ("ec", &["ecdsa", "-b", "384"][..]),
            ("rsa", &["rsa", "-b", "2048"][..]),
        ] {
            let key = place.keygen(name, kind, "");
            let allowed =
                place.write("allowed", format!("ann@example.org {}\n", pubkey::to_line(&public(&key))));
            let git = |args: &[&str]| {
                let mut command = place.command("git");
                command.args(["-c", "gpg.format=ssh", "-c"]);
                command.arg(format!("user.signingkey={}", text(&key)));
                command.arg("-c").arg(format!("gpg.ssh.allowedSignersFile={}", text(&allowed))).args(args);
                command
            };

            let theirs = succeed(&mut git(&["commit-tree", "-S", "-m", "with git", &tree]));
            let raw = git(&["cat-file", "commit", &theirs]).output().unwrap().stdout;
            let parsed = parse_signed(&raw, hash).unwrap();
            let by = sshsig::verify(parsed.signature.as_ref().unwrap(), "git", &parsed.payload).unwrap();
            assert_eq!(by.key, public(&key));
            assert_eq!(parsed.commit.committer.seconds, 1_700_000_000);
            let pem = String::from_utf8(parsed.signature.unwrap()).unwrap();
            assert_eq!(attach_signature(&parsed.payload, &pem, hash).as_bstr(), raw.as_bstr());

            let ours = CommitObject {
                tree: ObjectId::from_hex(tree.as_bytes()).unwrap(),
                parents: vec![ObjectId::from_hex(theirs.as_bytes()).unwrap()],
                extra_headers: vec![],
                ..commit(hash)
            };
            let payload = ours.to_bytes().unwrap();
            let signer = Signer::open(&place.request(text(&key))).unwrap();
            let raw = attach_signature(&payload, &signer.sign("git", &payload).unwrap(), hash);
            let written = feed(&mut git(&["hash-object", "-t", "commit", "-w", "--stdin"]), &raw);
            assert!(written.status.success(), "{}", both(&written));
            let id = String::from_utf8(written.stdout).unwrap();
            let verified = git(&["verify-commit", id.trim()]).output().unwrap();
            assert!(verified.status.success(), "{}", both(&verified));
            assert!(both(&verified).contains("Good \"git\" signature for ann@example.org"));
            succeed(&mut git(&["fsck", "--strict"]));
        }
        assert!(fs::metadata(place.path(".git")).is_ok());
    }
}

fn arb_commit() -> impl Strategy<Value = CommitObject> {
    let text = || "[^\\x00<>\n]{0,12}";
    let arb_person = move || {
        (text(), text(), 0..i64::MAX, -5999..6000).prop_map(|(name, email, seconds, offset)| Person {
            name: name.into(),
            email: email.into(),
            seconds,
            offset,
        })
    };
    (
        any::<u8>(),
        proptest::collection::vec(any::<u8>(), 0..3),
        arb_person(),
        arb_person(),
        proptest::option::of("[^\\x00]{0,20}"),
        "[^\\x00]{0,40}",
    )
        .prop_map(|(tree, parents, author, committer, extra, message)| CommitObject {
            tree: id(Kind::Sha1, tree),
            parents: parents.into_iter().map(|byte| id(Kind::Sha1, byte)).collect(),
            author,
            committer,
            extra_headers: extra.map(|value| ("x-extra".into(), value.into())).into_iter().collect(),
            message: message.into(),
        })
}

proptest! {
    #[test]
    fn commits_round_trip(commit in arb_commit(), body in "[A-Za-z\n]{1,40}") {
        let payload = commit.to_bytes().unwrap();
        let pem = body.trim_end_matches('\n').to_owned() + "\n";
        let raw = attach_signature(&payload, &pem, Kind::Sha1);
        let parsed = parse_signed(&raw, Kind::Sha1).unwrap();
        prop_assert_eq!(parsed.commit, commit);
        prop_assert_eq!(parsed.payload, payload);
        prop_assert_eq!(parsed.signature, Some(pem.into_bytes()));
    }

    #[test]
    fn is_total(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_signed(&raw, Kind::Sha1);
        let _ = attach_signature(&raw, "x", Kind::Sha256);
    }

    #[test]
    fn a_changed_commit_is_refused_or_reads_differently(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut raw = attach_signature(&commit(Kind::Sha1).to_bytes().unwrap(), PEM, Kind::Sha1);
        let before = parse_signed(&raw, Kind::Sha1).unwrap();
        let at = at.index(raw.len());
        prop_assume!(raw[at] != byte);
        raw[at] = byte;
        if let Ok(after) = parse_signed(&raw, Kind::Sha1) {
            prop_assert_ne!(after, before);
        }
    }
}
