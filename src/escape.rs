//! How hostile text is shown: paths that can be read back, and terminal output that can hide nothing.
//!
//! A path in git is a byte string without NUL. In JSON and on a screen it is shown so that it is one line of valid
//! UTF-8, that no two paths look the same, and that [`unescape_path`] gives the bytes back:
//!
//! | in the path | shown as |
//! | --- | --- |
//! | printable text | itself |
//! | a backslash | `\\` |
//! | an ASCII control character or DEL | `\xNN` |
//! | a byte that is not part of valid UTF-8 | `\xNN` |
//! | C1 controls, bidirectional controls, line separators, invisible characters | `\u{…}` |

use std::borrow::Cow;
use std::fmt::Write as _;

use gix::bstr::{BStr, BString, ByteSlice};

/// Why a text is not what [`escape_path`] gives for any path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnescapeError {
    /// A backslash is not followed by an escape that [`escape_path`] writes.
    #[error("byte {at} of the path `{text}` starts no known escape")]
    UnknownEscape {
        /// Offset of the backslash in bytes.
        at: usize,
        /// The whole text, itself safe to show.
        text: String,
    },
    /// The text denotes a path, but the path has another canonical spelling.
    ///
    /// Two spellings of one path would let two entries of a signed file name the same thing.
    #[error("the path `{text}` is not in canonical form; it is written `{canonical}`")]
    NotCanonical {
        /// The text, safe to show.
        text: String,
        /// What [`escape_path`] writes.
        canonical: String,
    },
}

/// Shows `path` as one line of valid UTF-8 from which [`unescape_path`] restores the bytes.
pub fn escape_path(path: &BStr) -> String {
    let mut out = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if c.is_ascii_control() => push_byte(&mut out, c as u8),
                c if is_deceptive(c) => push_char(&mut out, c),
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            push_byte(&mut out, *byte);
        }
    }
    out
}

/// The bytes that [`escape_path`] has shown as `text`.
pub fn unescape_path(text: &str) -> Result<BString, UnescapeError> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..start]);
        let at = text.len() - rest.len() + start;
        let unknown = || UnescapeError::UnknownEscape { at, text: escape_line(text).into_owned() };
        let escape = &rest[start + 1..];
        rest = if let Some(after) = escape.strip_prefix('\\') {
            out.push(b'\\');
            after
        } else if let Some(after) = escape.strip_prefix('x') {
            let digits = after.get(..2).ok_or_else(unknown)?;
            out.push(parse_hex(digits).and_then(|n| u8::try_from(n).ok()).ok_or_else(unknown)?);
            &after[2..]
        } else if let Some((digits, after)) = escape.strip_prefix("u{").and_then(|body| body.split_once('}'))
        {
            let c = parse_hex(digits).and_then(char::from_u32).ok_or_else(unknown)?;
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            after
        } else {
            return Err(unknown());
        };
    }
    out.extend_from_slice(rest.as_bytes());

    let path = BString::from(out);
    let canonical = escape_path(path.as_bstr());
    if canonical == text {
        Ok(path)
    } else {
        Err(UnescapeError::NotCanonical { text: escape_line(text).into_owned(), canonical })
    }
}

/// Text of several lines for a terminal: newlines and tabs stay, whatever could move the cursor, set a title, turn the
/// reading direction or be invisible is shown as an escape.
///
/// A carriage return is escaped too: alone it overwrites the line. Backslashes stay, so this cannot be reversed.
pub fn escape_terminal(text: &str) -> Cow<'_, str> {
    escape_where(text, |c| c != '\n' && c != '\t')
}

/// Like [`escape_terminal`] for text that must stay on its line: newlines and tabs are escaped as well.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape_where(text, |_| true)
}

fn escape_where(text: &str, also: impl Fn(char) -> bool) -> Cow<'_, str> {
    let hostile = |c: char| (c.is_ascii_control() || is_deceptive(c)) && also(c);
    if !text.contains(hostile) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !hostile(c) => out.push(c),
            c if c.is_ascii() => push_byte(&mut out, c as u8),
            c => push_char(&mut out, c),
        }
    }
    Cow::Owned(out)
}

/// Characters beyond ASCII that a person does not see as what they are: C1 controls, bidirectional controls, line and
/// paragraph separators, and everything that is drawn as nothing.
fn is_deceptive(c: char) -> bool {
    c.is_control() && !c.is_ascii() || matches!(c, '\u{2028}' | '\u{2029}') || is_ignorable(c)
}

/// Unicode's `Default_Ignorable_Code_Point`: drawn as nothing, and skipped by HFS+ (a subset) when it compares names.
/// The bidirectional controls U+202A–E and U+2066–9 are among them.
///
/// Source: DerivedCoreProperties.txt of Unicode 16; unassigned members of the listed blocks included, so that the set
/// is stable. The interlinear annotation characters U+FFF9–B are added: they are drawn as nothing too.
pub(crate) fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

fn push_byte(out: &mut String, byte: u8) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\\x{byte:02x}");
}

fn push_char(out: &mut String, c: char) {
    let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
}

/// Lowercase hexadecimal digits only: `from_str_radix` alone would take a sign.
fn parse_hex(digits: &str) -> Option<u32> {
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if plain { u32::from_str_radix(digits, 16).ok() } else { None }
}

/// A word for a POSIX shell, in quotes where it needs them; what a terminal would act on is escaped.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./~:=@+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", escape_line(word).replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_shown_on_one_line_and_read_back() {
        for (path, shown) in [
            (&b"src/auth/token.rs"[..], "src/auth/token.rs"),
            ("tests/café.py".as_bytes(), "tests/café.py"),
            (b"a\nb.py", r"a\x0ab.py"),
            (b"x\x1b[2Jy", r"x\x1b[2Jy"),
            (b"tab\there\x7f", r"tab\x09here\x7f"),
            (br"back\slash", r"back\\slash"),
            (br"\x41", r"\\x41"),
            (b"latin\xe9.txt", r"latin\xe9.txt"),
            ("c1\u{9b}2J".as_bytes(), r"c1\u{9b}2J"),
            ("gpj.\u{202e}exe".as_bytes(), r"gpj.\u{202e}exe"),
            ("te\u{200b}st.py".as_bytes(), r"te\u{200b}st.py"),
            ("line\u{2028}sep".as_bytes(), r"line\u{2028}sep"),
            (b"", ""),
        ] {
            assert_eq!(escape_path(path.as_bstr()), shown);
            assert_eq!(unescape_path(shown).unwrap(), path);
        }
    }

    #[test]
    fn only_the_canonical_spelling_is_read_back() {
        for text in [
            r"\",
            r"a\q",
            r"\x",
            r"\x4",
            r"\xzz",
            r"\xZZ",
            r"\u{}",
            r"\u{d800}",
            r"\u{110000}",
            r"\u9b",
            r"\x+1",
        ] {
            assert!(matches!(unescape_path(text), Err(UnescapeError::UnknownEscape { .. })), "{text}");
        }
        for text in [r"\x41", r"\u{41}", r"\u{e9}", r"\u{009b}", "raw\u{202e}", "raw\n", r"\xc3\xa9"] {
            assert!(matches!(unescape_path(text), Err(UnescapeError::NotCanonical { .. })), "{text}");
        }
    }

    #[test]
    fn an_error_about_a_hostile_path_is_safe_to_show() {
        let message = unescape_path("\u{1b}[2J\\q").unwrap_err().to_string();
        assert!(!message.contains('\u{1b}'), "{message}");
    }

    /// Field report 1.59: worker output hid a red verdict by moving the cursor.
    #[test]
    fn terminal_text_cannot_move_the_cursor_or_turn_direction() {
        assert_eq!(escape_terminal("\u{1b}[1A\u{1b}[KVERDICT: GREEN"), r"\x1b[1A\x1b[KVERDICT: GREEN");
        assert_eq!(escape_terminal("\u{1b}]0;title\u{7}"), r"\x1b]0;title\x07");
        assert_eq!(escape_terminal("red\rgreen"), r"red\x0dgreen");
        assert_eq!(escape_terminal("a\u{9b}b\u{202e}c\u{2066}d\u{7f}"), r"a\u{9b}b\u{202e}c\u{2066}d\x7f");
        assert_eq!(escape_terminal("two\n\tlines"), "two\n\tlines");
        assert_eq!(escape_line("two\n\tlines"), r"two\x0a\x09lines");
        assert!(matches!(escape_terminal("plain ütf-8 \\ text"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn any_path_comes_back(path in proptest::collection::vec(any::<u8>(), 0..64)) {
            let shown = escape_path(path.as_bstr());
            prop_assert!(!shown.chars().any(|c| c.is_control() || is_deceptive(c)));
            prop_assert_eq!(unescape_path(&shown).unwrap(), BString::from(path));
        }

        #[test]
        fn reading_back_is_total_and_canonical(text in "[\\\\xu{}0-9a-f\u{202e}\u{e9}\n]{0,12}|.{0,12}") {
            if let Ok(path) = unescape_path(&text) {
                prop_assert_eq!(escape_path(path.as_bstr()), text);
            }
        }

        #[test]
        fn nothing_hostile_is_left(text in ".{0,64}|[\u{0}-\u{ff}\u{2000}-\u{2070}]{0,64}") {
            let shown = escape_line(&text);
            prop_assert!(!shown.chars().any(|c| c.is_control() || is_deceptive(c)));
            let shown = escape_terminal(&text);
            prop_assert!(!shown.chars().any(|c| c != '\n' && c != '\t' && (c.is_control() || is_deceptive(c))));
        }
    }
}
