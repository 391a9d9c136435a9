#![cfg(unix)]

use std::fs;
use std::process::Output;

use proptest::prelude::*;

use super::*;
use crate::sign::testing::{Place, both, feed, public, succeed, text};

const PAYLOAD: &[u8] = b"what is signed\n";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A key, a signature with it in namespace `git`, and both questions that one can ask ssh-keygen.
struct Judge {
    place: Place,
    key: PublicKey,
    line: String,
    other: String,
}

impl Judge {
    fn new() -> Self {
        let place = Place::new();
        let path = place.keygen("k", &["ed25519"], "");
        let other = place.keygen("other", &["ecdsa"], "");
        let mut command = place.command("ssh-keygen");
        let output = feed(command.args(["-Y", "sign", "-n", "git", "-f"]).arg(&path), PAYLOAD);
        place.write("signature", output.stdout);
        let key = public(&path);
        Self { line: pubkey::to_line(&key), other: pubkey::to_line(&public(&other)), key, place }
    }

    /// The text of a file: `{K}` is the signing key, `{O}` the other one.
    fn fill(&self, row: &str) -> String {
        row.replace("{K}", &self.line).replace("{O}", &self.other)
    }

    fn ask(&self, file: &str, arguments: &[&str]) -> Output {
        let allowed = self.place.write("allowed", file);
        let signature = text(&self.place.path("signature"));
        let mut command = self.place.command("ssh-keygen");
        command
            .args(["-f", &text(&allowed), "-s", &signature, "-O", "verify-time=20260701120000Z"])
            .args(arguments);
        feed(&mut command, PAYLOAD)
    }

    fn verifies(&self, file: &str, principal: &str) -> bool {
        self.ask(file, &["-Y", "verify", "-n", "git", "-I", principal]).status.success()
    }

    fn principals(&self, file: &str) -> Vec<String> {
        let output = self.ask(file, &["-Y", "find-principals"]);
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

const NOW: &str = "2026-07-01T12:00:00Z";

#[test]
fn odd_files_mean_what_they_mean_to_ssh_keygen() {
    let judge = Judge::new();
    let rows = [
        "a {K}",
        "a {K} a comment # and more",
        "  \t a \t  {K}",
        "a {K}\r",
        "# only a comment",
        "",
        "\n\n# comment\n \t\na {K}\n",
        "a,b,c {K}",
        "b,c {K}",
        "a,,b {K}",
        "\"a\" {K}",
        "\"a,b c\" {K}",
        "x\"y,a\" {K}",
        "\"x\"\"a\" {K}",
        "\"a {K}",
        "a,\"b c\",d {K}",
        "* {K}",
        "? {K}",
        "?? {K}",
        "*,!a {K}",
        "!a,* {K}",
        "!b,* {K}",
        "!a {K}",
        "A {K}",
        "a {O}\na {K}",
        "a {O}",
        "b {K}\na {K}",
        "a namespaces=\"git\" {K}",
        "a namespaces=\"file,git\" {K}",
        "a namespaces=\"g*\" {K}",
        "a namespaces=\"*,!git\" {K}",
        "a namespaces=\"file\" {K}",
        "a namespaces=\"\" {K}",
        "a namespaces=\"file\" {K}\na namespaces=\"git\" {K}",
        "a NameSpaces=\"git\" {K}",
        "a namespaces=\"git \\\" x,git\" {K}",
        "a namespaces=\"git\"\t \tK",
        "a valid-after=\"20260101\" {K}",
        "a valid-after=\"20260701120000Z\" {K}",
        "a valid-after=\"20260701120001Z\" {K}",
        "a valid-after=\"202607011201Z\" {K}",
        "a valid-after=\"202607011159z\" {K}",
        "a valid-before=\"20260701120000Z\" {K}",
        "a valid-before=\"20260701115959Z\" {K}",
        "a valid-before=\"20260701\" {K}",
        "a valid-before=\"20260702utc\" {K}",
        "a valid-before=\"20270101\",valid-after=\"20250101\",namespaces=\"git\" {K}",
        "a namespaces=\"git\",valid-before=\"20250101\" {K}\na {K}",
        "a ,namespaces=\"git\",,valid-after=\"20250101\" {K}",
        "a cert-authority {K}",
        "a cert-authority {K}\na {K}",
        "a cert-authority,namespaces=\"git\" {K}",
        "a CERT-AUTHORITY,cert-authority {K}",
        "a cert-authority {O}\na {K}",
    ];
    let mut accepted = 0;
    for row in rows {
        let file = judge.fill(row) + "\n";
        let theirs = judge.verifies(&file, "a");
        accepted += usize::from(theirs);
        let parsed = AllowedSigners::parse(&file);
        let ours = parsed.as_ref().is_ok_and(|signers| signers.find("a", &judge.key, "git", at(NOW)).is_ok());
        assert_eq!(ours, theirs, "{row:?}: {parsed:?}");

        let Ok(signers) = parsed else { continue };
        if row.contains("amespaces") {
            // ssh-keygen does not look at namespaces when it finds principals.
            continue;
        }
        let found = signers.principals_for(&judge.key, "git", at(NOW));
        // ssh-keygen stops at the first entry with the key, and prints patterns as they stand.
        for name in judge.principals(&file).iter().filter(|name| pattern::is_literal(name)) {
            let excluded = signers.find(name, &judge.key, "git", at(NOW)).is_err();
            assert!(found.contains(name) || excluded, "{row:?}: {found:?} lacks {name}");
        }
    }
    // A table in which both refuse everything would prove nothing.
    assert!(accepted > rows.len() / 2, "only {accepted} of {} rows are accepted", rows.len());
}

#[test]
fn invalid_lines_are_named_and_ssh_keygen_refuses_them_too() {
    let judge = Judge::new();
    for row in [
        "a",
        "{K}",
        "a namespaces=git {K}",
        "a namespaces=\"git {K}",
        "a namespaces=\"git\", {K}",
        "a namespaces=\"git\";cert-authority {K}",
        "a namespaces=\"git\"x {K}",
        "a namespaces=\"git\",namespaces=\"git\" {K}",
        "a namespaces=\"git\"",
        "a cert-authority{K}",
        "a cert-authority,bogus {K}",
        "a bogus {K}",
        "a no-cert-authority {K}",
        "a valid-after=\"\" {K}",
        "a valid-after=\"2026\" {K}",
        "a valid-after=\"20261301\" {K}",
        "a valid-after=\"2026010112\" {K}",
        "a valid-after=\"202601012500\" {K}",
        "a valid-after=\"2026-01-01\" {K}",
        "a valid-after=\"19700101Z\" {K}",
        "a valid-after=\"20260101\",valid-after=\"20260102\" {K}",
        "a valid-before=\"always\" {K}",
        "a valid-after=\"20270101\",valid-before=\"20260101\" {K}",
        "a valid-after=\"20260101\",valid-before=\"20260101\" {K}",
        "a ssh-ed25519",
        "a ssh-ed25519 AAAA",
        "a ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti",
        "a new@example.org AAAA",
        "a namespaces=\"git\" nothing",
    ] {
        let line = judge.fill(row);
        let file = format!("# first\na {}\n{line}\n", judge.other);
        let error = AllowedSigners::parse(&file).unwrap_err();
        assert!(matches!(error, AllowedSignersError::Line { line: 3, .. }), "{row:?}: {error}");
        assert!(!judge.verifies(&format!("{line}\n"), "a"), "{row:?}");
    }
    // Here we are stricter: ssh-keygen has not come to the bad line yet, or counts the days on into March.
    for row in ["a {K}\nb bogus {K}", "a valid-after=\"20250230Z\" {K}"] {
        let file = judge.fill(row) + "\n";
        assert!(judge.verifies(&file, "a"), "{row:?}");
        assert!(AllowedSigners::parse(&file).is_err(), "{row:?}");
    }
}

#[test]
fn a_certificate_in_the_file_is_legal_and_matches_no_plain_key() {
    let judge = Judge::new();
    let ca = judge.place.keygen("ca", &["ed25519"], "");
    succeed(
        judge.place.command("ssh-keygen").arg("-q").arg("-s").arg(ca).args(["-I", "id", "-n", "a", "k.pub"]),
    );
    let certificate = fs::read_to_string(judge.place.path("k-cert.pub")).unwrap();
    let signers = AllowedSigners::parse(&format!("a {certificate}")).unwrap();
    assert!(!signers.is_empty());
    assert_eq!(signers.find("a", &judge.key, "git", at(NOW)), Err(NotAllowed::UnknownKey));
    assert!(!judge.verifies(&format!("a {certificate}"), "a"));
}

#[test]
fn report_2_63_an_empty_trust_file_is_an_error() {
    for file in ["", "\n", "# nobody\n"] {
        let signers = AllowedSigners::parse(file).unwrap();
        assert!(signers.is_empty());
        assert_eq!(signers.require_some(), Err(AllowedSignersError::Empty));
    }
}

#[test]
fn the_reason_is_that_of_the_entry_that_came_closest() {
    let judge = Judge::new();
    let file = judge.fill(
        "ann,bob valid-after=\"20260101Z\",valid-before=\"20261231235959Z\",namespaces=\"git\" {K}\n\
         *@example.org,!eve@example.org {K}\nca cert-authority {K}\n",
    );
    let signers = AllowedSigners::parse(&file).unwrap();
    let find = |principal, namespace, when| signers.find(principal, &judge.key, namespace, at(when));
    assert_eq!(find("ann", "git", NOW), Ok(()));
    assert_eq!(find("ann", "file", NOW), Err(NotAllowed::WrongNamespace));
    let start = at("2026-01-01T00:00:00Z");
    let end = at("2026-12-31T23:59:59Z");
    assert_eq!(find("ann", "git", "2025-12-31T23:59:59Z"), Err(NotAllowed::NotYetValid(start)));
    assert_eq!(find("ann", "git", "2026-01-01T00:00:00Z"), Ok(()));
    assert_eq!(find("ann", "git", "2026-12-31T23:59:59.5Z"), Ok(()));
    assert_eq!(find("ann", "git", "2027-01-01T00:00:00Z"), Err(NotAllowed::Expired(end)));
    assert_eq!(find("carl", "git", NOW), Err(NotAllowed::WrongPrincipal));
    assert_eq!(find("ca", "git", NOW), Err(NotAllowed::WrongPrincipal));
    assert_eq!(find("dora@example.org", "file", "1999-01-01T00:00:00Z"), Ok(()));
    assert_eq!(find("eve@example.org", "git", NOW), Err(NotAllowed::WrongPrincipal));
    let Some(KeyText::Plain(other)) = pubkey::parse(&judge.other) else { panic!("a key") };
    assert_eq!(signers.find("ann", &other, "git", at(NOW)), Err(NotAllowed::UnknownKey));

    assert_eq!(signers.principals_for(&judge.key, "git", at(NOW)), ["ann", "bob"]);
    assert!(signers.principals_for(&judge.key, "file", at(NOW)).is_empty());
    assert_eq!(signers.literal_principals(), ["ann", "bob"]);
}

#[test]
fn literal_principals_come_in_file_order_once_and_without_the_excluded() {
    let judge = Judge::new();
    let file = judge.fill("zoe,ann {O}\n\"ann,my name\" {K}\n*,bob,!b* {O}\ncarl,? {K}\n");
    let signers = AllowedSigners::parse(&file).unwrap();
    assert_eq!(signers.literal_principals(), ["zoe", "ann", "my name", "carl"]);
}

#[test]
fn times_without_a_zone_are_utc_or_in_the_zone_that_the_caller_names() {
    let judge = Judge::new();
    let file = format!("a valid-after=\"20260701120000\" {}\n", judge.line);
    let find = |signers: AllowedSigners, when| signers.find("a", &judge.key, "git", at(when));
    let utc = AllowedSigners::parse(&file).unwrap();
    assert_eq!(find(utc.clone(), "2026-07-01T12:00:00Z"), Ok(()));
    assert!(find(utc, "2026-07-01T11:59:59Z").is_err());
    let east = TimeZone::fixed(jiff::tz::offset(2));
    assert_eq!(find(AllowedSigners::parse_in(&file, &east).unwrap(), "2026-07-01T10:00:00Z"), Ok(()));
    let zulu = file.replace("20260701120000", "20260701120000Z");
    assert!(find(AllowedSigners::parse_in(&zulu, &east).unwrap(), "2026-07-01T10:00:00Z").is_err());
}

#[test]
fn every_type_of_key_parses() {
    let place = Place::new();
    for (name, kind) in
        [("a", &["rsa", "-b", "2048"][..]), ("b", &["ecdsa", "-b", "521"]), ("c", &["ed25519"])]
    {
        let key = public(&place.keygen(name, kind, ""));
        let signers = AllowedSigners::parse(&format!("{name} {}", pubkey::to_line(&key))).unwrap();
        assert_eq!(signers.find(name, &key, "git", at(NOW)), Ok(()));
    }
    // As in PROTOCOL.u2f; no token is needed to write one down.
    let hardware = "a sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqtiAAAABHNzaDo= token";
    assert_eq!(AllowedSigners::parse(hardware).unwrap().literal_principals(), ["a"]);
    let judge = Judge::new();
    let output = judge.ask(hardware, &["-Y", "verify", "-n", "git", "-I", "a"]);
    assert!(!both(&output).contains("invalid key"), "{}", both(&output));
}

proptest! {
    #[test]
    fn is_total(text in ".{0,200}") {
        let _ = AllowedSigners::parse(&text);
    }

    #[test]
    fn lines_of_likely_parts_are_total(parts in proptest::collection::vec(
        prop::sample::select(vec![
            "a", ",", "\"", " ", "\t", "\\", "!", "*", "namespaces=", "valid-after=", "valid-before=", "cert-authority",
            "20260101", "Z", "\r", "\n", "#", "é",
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti",
        ]),
        0..20,
    )) {
        if let Ok(signers) = AllowedSigners::parse(&parts.concat()) {
            for name in signers.literal_principals() {
                prop_assert!(pattern::is_literal(&name));
            }
        }
    }

    #[test]
    fn what_one_writes_one_finds(name in "[a-z@.]{1,12}", namespace in "[a-z]{1,6}") {
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";
        let signers = AllowedSigners::parse(&format!("{name} namespaces=\"{namespace}\" {key}")).unwrap();
        let Some(KeyText::Plain(key)) = pubkey::parse(key) else { panic!("a key") };
        prop_assert_eq!(signers.principals_for(&key, &namespace, Timestamp::UNIX_EPOCH), vec![name]);
    }
}
