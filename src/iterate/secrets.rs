//! Secrets that a worker was given, taken out of everything that is kept.

use zeroize::Zeroizing;

use super::session::Session;
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
                self.secrets().trim_at_cut(&mut cut.head, &mut cut.tail);
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

    /// `bytes` without the values of the variables that the contract passes through, and without credentials that were made.
    pub(super) fn redact(&self, bytes: Vec<u8>) -> Vec<u8> {
        let mut bytes = bytes;
        for (name, value) in self.secrets().iter() {
            bytes = replace(&bytes, value, format!("[redacted {name}]").as_bytes());
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

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    use gix::bstr::ByteSlice;
    bytes.replace(from, to)
}
