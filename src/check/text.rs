//! Lines of a capture that a person could have read on a terminal.

use std::borrow::Cow;

/// A line of the capture without its newline and without terminal escapes.
pub(in crate::check) fn plain_text(line: &[u8]) -> Cow<'_, str> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    if text.contains('\u{1b}') { Cow::Owned(without_escapes(&text)) } else { text }
}

/// Drops ECMA-48 control sequences, operating system commands and two-character escapes.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('[') => {
                let _final = chars.find(|c| ('\u{40}'..='\u{7e}').contains(c));
            }
            Some(']') => while chars.next().is_some_and(|c| c != '\u{7}' && c != '\u{1b}') {},
            Some(' '..='/') => {
                let _final = chars.find(|c| !(' '..='/').contains(c));
            }
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_dropped() {
        assert_eq!(plain_text(b"test a ... \x1b[32mok\x1b(B\x1b[m\r"), "test a ... ok");
        assert_eq!(plain_text(b"\x1b]8;;http://x\x07link\x1b]8;;\x07"), "link");
        assert_eq!(plain_text(b"a\x1b"), "a");
        assert_eq!(plain_text(b"a\x1b[3"), "a");
    }
}
