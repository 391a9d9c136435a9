//! Secrets that a worker was given, taken out of everything that is kept.

use zeroize::Zeroizing;

use super::session::Session;
use super::spelling::{Found, in_base64, replace_spelled, spelled};
use crate::ledger::append::EvidenceFile;
use crate::sandbox::Captured;
use crate::sandbox::redact::Secrets;

impl Session<'_> {
    /// A captured stream as evidence, cut in the middle if it is long, without secrets.
    pub(super) fn kept(&self, name: &str, captured: &Captured) -> EvidenceFile {
        let truncated = captured.total > (self.head_tail() * 2) as u64;
        let content = match &captured.whole {
            Some(whole) if !truncated => whole.clone(),
            _ => {
                // A secret that the cut goes through would be left in part on both of its sides.
                let mut cut = captured.clone();
                for (_, secret) in self.secrets().iter() {
                    trim_secret_at_end(&mut cut.head, secret);
                    trim_secret_at_start(&mut cut.tail, secret);
                }
                cut.evidence()
            }
        };
        EvidenceFile {
            name: name.to_owned(),
            content: self.redact(content),
            bytes: captured.total,
            truncated,
        }
    }

    /// `bytes` without the values of the variables that the contract passes through, and without credentials that were made: as they are, as
    /// JSON, XML and URLs escape them, and in base64. This comes before anything is parsed, so that what is parsed out of the
    /// evidence by whoever verifies it is the same.
    pub(super) fn redact(&self, bytes: Vec<u8>) -> Vec<u8> {
        let mut bytes = bytes;
        let secrets = self.secrets();
        // The longest first: one may be the start of another.
        let mut values: Vec<(&str, &[u8])> = secrets.iter().collect();
        values.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        for (name, value) in values {
            bytes = without(&bytes, value, format!("[redacted {name}]").as_bytes());
        }
        bytes
    }

    /// The variables that a worker gets secrets in, with their values.
    pub(super) fn secrets(&self) -> Secrets {
        let value = |name: &String| self.host.var(name).map(|value| value.as_encoded_bytes().to_vec());
        let names = self.tip.contract.worker.env.iter();
        let passed = names.filter_map(|name| Some((name.clone(), Zeroizing::new(value(name)?))));
        // Shorter values are words that would be found everywhere.
        let passed = passed.filter(|(_, value)| value.len() >= SHORTEST_SECRET);
        passed.chain(self.minted.borrow().iter().cloned()).collect()
    }
}

/// The length from which a value is taken for a secret.
pub(super) const SHORTEST_SECRET: usize = 6;

/// Takes away what the start of `secret` may be at the end of `bytes`.
fn trim_secret_at_end(bytes: &mut Vec<u8>, secret: &[u8]) {
    // Each of its bytes may be an escape of several.
    let window = secret.len().saturating_mul(ESCAPED);
    let first = bytes.len().saturating_sub(window);
    if let Some(start) = (first..bytes.len()).find(|&start| spelled(&bytes[start..], secret) == Found::Cut) {
        bytes.truncate(start);
    }
}

/// Takes away what the end of `secret` may be at the start of `bytes`.
fn trim_secret_at_start(bytes: &mut Vec<u8>, secret: &[u8]) {
    // The cut may go through an escape. What is left of that is skipped if enough of the secret follows to know it.
    let ends = (1..secret.len()).flat_map(|start| (0..ESCAPED).map(move |skipped| (start, skipped)));
    let found = ends.filter(|(start, skipped)| *skipped == 0 || secret.len() - start >= KNOWN).find_map(
        |(start, skipped)| match spelled(bytes.get(skipped..)?, &secret[start..]) {
            Found::Whole(length) => Some(skipped + length),
            _ => None,
        },
    );
    if let Some(length) = found {
        bytes.drain(..length);
    }
}

/// `bytes` with `to` in the place of `secret`.
fn without(bytes: &[u8], secret: &[u8], to: &[u8]) -> Vec<u8> {
    use gix::bstr::ByteSlice;
    let mut bytes = replace_spelled(bytes.replace(secret, to), secret, to);
    for form in in_base64(secret) {
        if bytes.find(&form).is_some() {
            bytes = bytes.replace(&form, to);
        }
    }
    bytes
}

/// How many bytes an escape of one byte takes at most.
const ESCAPED: usize = 6;
/// How many bytes at the end of a secret are more than a coincidence.
const KNOWN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_through_a_secret_leaves_nothing_of_it() {
        let secret = b"ab/cdefgh";
        for written in ["ab/cdefgh", r"ab\/cdefgh", r"ab\u002fcdefgh", "ab&#47;cdefgh", "ab%2Fcdefgh"] {
            for cut in 1..written.len() {
                let mut head = format!("before {}", &written[..cut]).into_bytes();
                let mut tail = format!("{} after", &written[cut..]).into_bytes();
                trim_secret_at_end(&mut head, secret);
                trim_secret_at_start(&mut tail, secret);
                assert_eq!(head, b"before ", "{written} {cut}");
                assert_eq!(String::from_utf8(tail).unwrap(), " after", "{written} {cut}");
            }
        }
        let mut text = b"nothing of it".to_vec();
        trim_secret_at_end(&mut text, secret);
        trim_secret_at_start(&mut text, secret);
        assert_eq!(text, b"nothing of it");
    }

    #[test]
    fn a_secret_goes_in_every_form() {
        let secret = b"tok/en&1";
        for text in [
            "tok/en&1",
            r#"{"a":"tok\/en\u00261"}"#,
            "<a>tok/en&amp;1</a>",
            "dG9rL2VuJjE=",
            "?t=tok%2Fen%261",
        ] {
            let got = String::from_utf8(without(text.as_bytes(), secret, b"[redacted T]")).unwrap();
            assert!(got.contains("[redacted T]") && !got.contains("en"), "{got}");
        }
    }
}
