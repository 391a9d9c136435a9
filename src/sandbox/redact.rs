//! Values that must not be in what is kept of a command's output, found while the output comes.

use std::fmt;

use zeroize::Zeroizing;

/// The values of variables that are secrets, each with its variable's name.
#[derive(Clone, Default)]
pub struct Secrets {
    values: Vec<(String, Zeroizing<Vec<u8>>)>,
}

// The values are in no message.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values.iter().map(|(name, _)| name)).finish()
    }
}

impl FromIterator<(String, Zeroizing<Vec<u8>>)> for Secrets {
    fn from_iter<I: IntoIterator<Item = (String, Zeroizing<Vec<u8>>)>>(values: I) -> Self {
        // An empty value is everywhere and tells nothing.
        Self { values: values.into_iter().filter(|(_, value)| !value.is_empty()).collect() }
    }
}

impl Secrets {
    /// Each with its variable's name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// Appends `bytes` to `text` with each value replaced by `[redacted NAME]`, and says how many bytes at the end it left out
    /// because a value may begin in them. With `is_end` nothing comes any more, and none is left out.
    ///
    /// What two values share is taken for the one that begins first, of two that begin at the same place for the longer. So
    /// no value is ever whole in `text`, however the bytes were cut into pieces: those left out are to come first in the next piece.
    #[cfg_attr(not(unix), allow(dead_code))]
    pub(super) fn scrub(&self, bytes: &[u8], is_end: bool, text: &mut Vec<u8>) -> usize {
        let mut begins = [false; 256];
        for (_, value) in self.iter() {
            begins[usize::from(value[0])] = true;
        }
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|&byte| begins[usize::from(byte)]) {
            text.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            let may_come = |(_, value): (&str, &[u8])| value.len() > rest.len() && value.starts_with(rest);
            if !is_end && self.iter().any(may_come) {
                return rest.len();
            }
            let here = self.iter().filter(|(_, value)| rest.starts_with(value));
            if let Some((name, value)) = here.max_by_key(|(_, value)| value.len()) {
                text.extend_from_slice(format!("[redacted {name}]").as_bytes());
                rest = &rest[value.len()..];
            } else {
                text.push(rest[0]);
                rest = &rest[1..];
            }
        }
        text.extend_from_slice(rest);
        0
    }

    /// Takes away what may be parts of a value on both sides of a cut: what begins one at the end of `before`, and what ends one at
    /// the start of `after`.
    pub(crate) fn trim_at_cut(&self, before: &mut Vec<u8>, after: &mut Vec<u8>) {
        for (_, value) in self.iter() {
            if let Some(length) = (1..value.len()).rev().find(|length| before.ends_with(&value[..*length])) {
                before.truncate(before.len() - length);
            }
            if let Some(length) =
                (1..value.len()).rev().find(|length| after.starts_with(&value[value.len() - length..]))
            {
                after.drain(..length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secrets(values: &[&str]) -> Secrets {
        let named = values.iter().zip(b'A'..);
        named
            .map(|(value, name)| (char::from(name).to_string(), Zeroizing::new(value.as_bytes().to_vec())))
            .collect()
    }

    /// What comes of the pieces, as a writer that keeps what is left out sees them.
    fn in_pieces(secrets: &Secrets, pieces: &[Vec<u8>]) -> Vec<u8> {
        let (mut text, mut held) = (Vec::new(), Vec::new());
        for piece in pieces {
            held.extend_from_slice(piece);
            let left = secrets.scrub(&held, false, &mut text);
            held.drain(..held.len() - left);
        }
        assert_eq!(secrets.scrub(&held, true, &mut text), 0);
        text
    }

    fn whole(secrets: &Secrets, text: &str) -> String {
        String::from_utf8(in_pieces(secrets, &[text.as_bytes().to_vec()])).unwrap()
    }

    #[test]
    fn a_value_is_replaced_wherever_it_is() {
        let one = secrets(&["open-sesame"]);
        assert_eq!(whole(&one, "open-sesame"), "[redacted A]");
        assert_eq!(whole(&one, "say open-sesame, open-sesame!"), "say [redacted A], [redacted A]!");
        assert_eq!(whole(&one, "open-open-sesameopen-sesam"), "open-[redacted A]open-sesam");
        assert_eq!(whole(&Secrets::default(), "open-sesame"), "open-sesame");
        let several = secrets(&["abcdef", "abcdefgh", "efghij"]);
        assert_eq!(
            whole(&several, "abcdefgh abcdefg abcdefghij"),
            "[redacted B] [redacted A]g [redacted B]ij"
        );
        assert_eq!(whole(&several, "efghij"), "[redacted C]");
        assert_eq!(format!("{several:?}"), r#"["A", "B", "C"]"#, "no value is in a message");
        assert_eq!(secrets(&["", "x"]).iter().count(), 1);
    }

    #[test]
    fn what_may_become_a_value_is_left_out_until_it_is_known() {
        let secrets = secrets(&["open-sesame"]);
        let mut text = Vec::new();
        assert_eq!(secrets.scrub(b"now open-ses", false, &mut text), 8);
        assert_eq!(text, b"now ");
        assert_eq!(secrets.scrub(b"open-sesame and o", false, &mut text), 1);
        assert_eq!(text, b"now [redacted A] and ");
        assert_eq!(secrets.scrub(b"o", true, &mut text), 0);
        assert_eq!(text, b"now [redacted A] and o");
    }

    #[test]
    fn a_cut_leaves_no_part_of_a_value() {
        let secrets = secrets(&["open-sesame"]);
        let (mut before, mut after) = (b"say open-".to_vec(), b"same to it".to_vec());
        secrets.trim_at_cut(&mut before, &mut after);
        assert_eq!((&before[..], &after[..]), (&b"say "[..], &b" to it"[..]));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter_and_no_value_stays(
            values in prop::collection::vec("[ab]{3,6}", 0..3),
            pieces in prop::collection::vec("[abc]{0,9}", 0..9),
        ) {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let secrets = secrets(&values);
            let all = pieces.concat();
            let pieces: Vec<Vec<u8>> = pieces.into_iter().map(String::into_bytes).collect();
            let text = String::from_utf8(in_pieces(&secrets, &pieces)).unwrap();
            prop_assert_eq!(&text, &whole(&secrets, &all));
            // The marks have letters of the values in them.
            let mut between = text.clone();
            for name in ["A", "B", "C"] {
                between = between.replace(&format!("[redacted {name}]"), "|");
            }
            for value in &values {
                prop_assert!(!between.contains(value), "{value} in {text}");
            }
            if values.iter().all(|value| !all.contains(value)) {
                prop_assert_eq!(text, all);
            }
        }
    }
}
