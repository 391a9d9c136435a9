//! New principals for an allowed-signers file: what has to be added so that a key counts.

use jiff::Timestamp;
use ssh_key::PublicKey;

use super::allowed::{AllowedSigners, AllowedSignersError};
use super::{GIT_NAMESPACE, pubkey};

/// The comment at the head of a new file.
const HEAD: &str = "\
# Who may sign the loops of this repository, a key a line: PRINCIPAL OPTIONS KEY, as in ALLOWED SIGNERS of ssh-keygen(1).
# The copy in the protected branch counts. Whoever may change this file decides who is trusted.
";

/// What has to be added for one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolled {
    /// The principal that the key signs as.
    pub principal: String,
    /// The line that is missing; none if the key counts already.
    pub line: Option<String>,
}

impl Enrolled {
    /// A key that is new, with the line to add for it.
    pub fn new(principal: &str, key: &PublicKey) -> Self {
        let line = format!("{principal} namespaces=\"{GIT_NAMESPACE}\" {}", pubkey::to_line(key));
        Self { principal: principal.to_owned(), line: Some(line) }
    }

    /// A key that signs git objects at the moment `at` already, by the text of an allowed-signers file.
    pub fn known(text: &str, key: &PublicKey, at: Timestamp) -> Result<Option<Self>, AllowedSignersError> {
        let principals = AllowedSigners::parse(text)?.principals_for(key, GIT_NAMESPACE, at);
        Ok(principals.into_iter().next().map(|principal| Self { principal, line: None }))
    }
}

/// What to put at the end of a file of this text so that it has `lines`; a new file gets a head.
pub fn addition(text: &str, lines: &[String]) -> String {
    let mut added = match text {
        "" => HEAD.to_owned(),
        _ if text.ends_with('\n') => String::new(),
        _ => "\n".to_owned(),
    };
    for line in lines {
        added.push_str(line);
        added.push('\n');
    }
    added
}

/// Whether this can stand in an allowed-signers file as one principal, and in a role of a contract.
pub fn is_principal(text: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, ',' | '"' | '*' | '?' | '!');
    !text.is_empty() && !text.starts_with('#') && !text.contains(odd)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ssh_key::rand_core::OsRng;
    use ssh_key::{Algorithm, PrivateKey};

    use super::*;

    fn key() -> PublicKey {
        PrivateKey::random(&mut OsRng, Algorithm::Ed25519).unwrap().public_key().clone()
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    #[test]
    fn a_key_that_is_not_there_is_added_and_then_known() {
        let (ann, bob) = (key(), key());
        assert_eq!(Enrolled::known("", &ann, now()), Ok(None));
        let text = addition("", &[Enrolled::new("ann@example.org", &ann).line.unwrap()]);
        assert!(text.starts_with("# Who may sign"));
        let known = Enrolled { principal: "ann@example.org".into(), line: None };
        assert_eq!(Enrolled::known(&text, &ann, now()), Ok(Some(known)));
        assert_eq!(Enrolled::known(&text, &bob, now()), Ok(None));
        // A file whose last line has no end.
        let cut = text.trim_end();
        let more = addition(cut, &[Enrolled::new("bob@example.org", &bob).line.unwrap()]);
        let signers = AllowedSigners::parse(&format!("{cut}{more}")).unwrap();
        assert_eq!(signers.literal_principals(), ["ann@example.org", "bob@example.org"]);
    }

    #[test]
    fn a_key_that_counts_no_more_or_for_something_else_is_not_known() {
        let ann = key();
        for options in ["valid-before=\"20200101Z\"", "namespaces=\"file\"", "cert-authority"] {
            let text = format!("ann@example.org {options} {}\n", pubkey::to_line(&ann));
            assert_eq!(Enrolled::known(&text, &ann, now()), Ok(None), "{options}");
        }
        assert!(Enrolled::known("nonsense\n", &ann, now()).is_err());
    }

    proptest! {
        #[test]
        fn what_passes_as_a_principal_is_read_back_as_one(name in "[a-z@.#!*?,\" \\\\-]{1,20}") {
            let key = key();
            let text = addition("", &[Enrolled::new(&name, &key).line.unwrap()]);
            if is_principal(&name) {
                let signers = AllowedSigners::parse(&text).unwrap();
                prop_assert_eq!(signers.principals_for(&key, GIT_NAMESPACE, now()), [name]);
            }
        }
    }
}
