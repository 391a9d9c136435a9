//! The ways in which a secret is written where it is escaped: in JSON, in XML, in a URL, in base64.
//!
//! What a tool prints is often a document, and what is read out of it has no escapes any more. So a secret is looked for as it is and with
//! any of its characters escaped, once or several times over. Who wants to hide it writes it backwards: that is found by nobody.

/// What came of comparing the start of a text with a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// It is something else.
    No,
    /// The text ends in the middle of it.
    Cut,
    /// It is the secret; so many bytes.
    Whole(usize),
}

/// The bytes that an escape begins with, or that stand for another.
const ESCAPES: &[u8] = b"\\&%+";

/// The longest escape of one byte, but for those that are escaped again.
const LONGEST: usize = 12;

/// Compares the start of `text` with `secret`, however each of its bytes is written.
pub(super) fn spelled(text: &[u8], secret: &[u8]) -> Found {
    let (mut at, mut next) = (0, 0);
    while next < secret.len() {
        let rest = &text[at..];
        match backslashes(rest, &secret[next..]).or_else(|| Some((one(rest, &secret[next..])?, 1))) {
            Some((length, taken)) => {
                at += length;
                next += taken;
            }
            None if is_cut(rest) => return Found::Cut,
            None => return Found::No,
        }
    }
    Found::Whole(at)
}

/// How long the start of `text` is if it stands for the backslashes that `secret` begins with, and how many these are: as many as there are,
/// less the one that what follows is escaped with.
fn backslashes(text: &[u8], secret: &[u8]) -> Option<(usize, usize)> {
    let (run, wanted) = (run_of_backslashes(text), run_of_backslashes(secret));
    if wanted == 0 || run < wanted {
        return None;
    }
    let escapes = run > wanted && one(&text[run - 1..], &secret[wanted..]).is_some();
    Some((run - usize::from(escapes), wanted))
}

fn run_of_backslashes(text: &[u8]) -> usize {
    text.iter().take_while(|byte| **byte == b'\\').count()
}

/// Whether the text may have ended within an escape.
fn is_cut(rest: &[u8]) -> bool {
    let begins = rest.first().is_none_or(|first| ESCAPES.contains(first));
    begins
        && rest.len() < LONGEST
        && rest.iter().all(|byte| byte.is_ascii_alphanumeric() || b"\\&%#".contains(byte))
}

/// How long the start of `text` is if it stands for the first byte of `secret`.
fn one(text: &[u8], secret: &[u8]) -> Option<usize> {
    let (first, byte) = (*text.first()?, *secret.first()?);
    let escaped = match first {
        b'\\' => behind_backslashes(text, byte),
        b'&' => entity(text, byte),
        b'%' => percent(text, byte),
        b'+' if byte == b' ' => Some(1),
        _ => None,
    };
    // What looks like an escape may be the secret itself.
    escaped.filter(|length| !secret.starts_with(&text[..*length])).or_else(|| (first == byte).then_some(1))
}

/// `\/`, `\u002f`, `\x2f`, `\n`.
fn behind_backslashes(text: &[u8], byte: u8) -> Option<usize> {
    let run = run_of_backslashes(text);
    let rest = &text[run..];
    let number = |digits: usize| {
        let digits = rest.get(1..=digits)?;
        (hex(digits)? == u32::from(byte)).then_some(run + 1 + digits.len())
    };
    let letter = match byte {
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => byte,
    };
    match rest.first()? {
        b'u' => number(4),
        b'x' => number(2),
        _ => None,
    }
    .or_else(|| (rest.first() == Some(&letter)).then_some(run + 1))
}

/// `&amp;`, `&#38;`, `&#x26;`; and `&amp;amp;`.
fn entity(text: &[u8], byte: u8) -> Option<usize> {
    let mut at = 1;
    while text[at..].starts_with(b"amp;") {
        at += 4;
    }
    if byte == b'&' && at > 1 {
        return Some(at);
    }
    let rest = &text[at..];
    let end = rest.iter().take(LONGEST).position(|byte| *byte == b';')?;
    let name = &rest[..end];
    let meant = match name {
        b"lt" => Some(u32::from(b'<')),
        b"gt" => Some(u32::from(b'>')),
        b"quot" => Some(u32::from(b'"')),
        b"apos" => Some(u32::from(b'\'')),
        [b'#', b'x' | b'X', digits @ ..] => hex(digits),
        [b'#', digits @ ..] => std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()),
        _ => None,
    };
    (meant == Some(u32::from(byte))).then_some(at + end + 1)
}

/// `%2F`; and `%252F`.
fn percent(text: &[u8], byte: u8) -> Option<usize> {
    let mut at = 1;
    while text[at..].starts_with(b"25") {
        at += 2;
    }
    if byte == b'%' && at > 1 {
        return Some(at);
    }
    (hex(text.get(at..at + 2)?)? == u32::from(byte)).then_some(at + 2)
}

fn hex(digits: &[u8]) -> Option<u32> {
    let valid = !digits.is_empty() && digits.len() <= 8 && digits.iter().all(u8::is_ascii_hexdigit);
    std::str::from_utf8(digits).ok().filter(|_| valid).and_then(|digits| u32::from_str_radix(digits, 16).ok())
}

/// `text` with `to` in the place of `secret`, wherever it is spelled in some way with an escape in it.
pub(super) fn replace_spelled(text: Vec<u8>, secret: &[u8], to: &[u8]) -> Vec<u8> {
    let Some(&first) = secret.first() else { return text };
    if !text.iter().any(|byte| ESCAPES.contains(byte)) {
        return text;
    }
    let mut kept = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        // Of a run of backslashes only the whole begins an escape.
        let begins =
            byte == first || (ESCAPES.contains(&byte) && (byte != b'\\' || at == 0 || text[at - 1] != b'\\'));
        match begins.then(|| spelled(&text[at..], secret)) {
            Some(Found::Whole(length)) => {
                kept.extend_from_slice(to);
                at += length;
            }
            _ => {
                kept.push(byte);
                at += 1;
            }
        }
    }
    kept
}

/// What `secret` looks like in the base64 of a text that it is a part of, in both alphabets: at each of the three places that its first byte
/// can have, without the characters that depend on what is beside it.
pub(super) fn in_base64(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for alphabet in [b"+/", b"-_"] {
        for before in 0..3 {
            let padded = [&[0_u8; 2][..before.min(2)], secret].concat();
            let (start, end) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
            let form: Vec<u8> = (start..end).map(|at| letter(six_bits(&padded, at), *alphabet)).collect();
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
    }
    forms
}

/// The `at`-th six bits.
fn six_bits(bytes: &[u8], at: usize) -> u8 {
    let (byte, bit) = (at * 6 / 8, at * 6 % 8);
    let both = u16::from(bytes[byte]) << 8 | u16::from(bytes.get(byte + 1).copied().unwrap_or(0));
    (both >> (10 - bit) & 0x3f) as u8
}

fn letter(number: u8, last: [u8; 2]) -> u8 {
    match number {
        0..26 => b'A' + number,
        26..52 => b'a' + number - 26,
        52..62 => b'0' + number - 52,
        62 => last[0],
        _ => last[1],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn replaced(text: &str, secret: &str) -> String {
        String::from_utf8(replace_spelled(text.as_bytes().to_vec(), secret.as_bytes(), b"#")).unwrap()
    }

    #[test]
    fn a_secret_is_found_however_its_characters_are_escaped() {
        let secret = r#"a/b&c<d"e\f g%h"#;
        for text in [
            r#"a\/b&c<d\"e\\f g%h"#,
            r#"a/b\u0026c\u003cd\"e\\f g%h"#,
            r#"a\\/b&c<d\\\"e\\\\f g%h"#,
            r"a/b&amp;c&lt;d&quot;e\f g%h",
            r"a/b&#38;c&#x3C;d&#34;e\f&#32;g%h",
            r"a/b&amp;amp;c&amp;lt;d&amp;quot;e\f g%h",
            "a%2Fb%26c%3Cd%22e%5cf+g%25h",
            "a%252Fb%2526c%253Cd%2522e%255Cf%2520g%2525h",
            r#"\u0061/b&c<d"e\f g%h"#,
        ] {
            assert_eq!(replaced(&format!("[{text}]"), secret), "[#]", "{text}");
        }
        assert_eq!(replaced(r"\\\ta\\\\b", "\\\ta\\\\b"), "#");
        assert_eq!(replaced(r#"\"%25&amp;x"#, "\"%25&amp;x"), "#");
        for other in [r"a\/b&c<d", "a/b&c<d\"e f g%h", "", r"\\\\\\", "&amp;&amp;", "%2", "%25252"] {
            assert_eq!(replaced(other, secret), other);
        }
    }

    #[test]
    fn what_is_beside_a_secret_stays() {
        assert_eq!(replaced(r#"{"t":"x\/y","n":"\\"}"#, "x/y"), r##"{"t":"#","n":"\\"}"##);
        assert_eq!(replaced(r"C:\dir\x\/y\n", "x/y"), r"C:\dir#\n");
        assert_eq!(replaced("&lt;x&#47;y&gt;", "x/y"), "&lt;#&gt;");
        assert_eq!(replaced(r"line\nline\tx", "line\nline"), r"#\tx");
    }

    #[test]
    fn a_text_may_end_within_a_secret() {
        for text in ["a", r"a\", r"a\u00", "a/", "a&", "a&#4", "a%2", "a/b"] {
            assert_eq!(spelled(text.as_bytes(), b"a/bc"), Found::Cut, "{text}");
        }
        for text in ["b", "a/c", "a&lt;bc"] {
            assert_eq!(spelled(text.as_bytes(), b"a/bc"), Found::No, "{text}");
        }
        assert_eq!(spelled(b"a/bcd", b"a/bc"), Found::Whole(4));
    }

    #[test]
    fn base64_of_a_text_shows_what_it_is_of() {
        // `user:secret-token`, and with one and two bytes more in front.
        let forms = in_base64(b"secret-token");
        for text in ["dXNlcjpzZWNyZXQtdG9rZW4=", "LXVzZXI6c2VjcmV0LXRva2Vu", "LS11c2VyOnNlY3JldC10b2tlbg=="] {
            let found = forms.iter().any(|form| text.contains(std::str::from_utf8(form).unwrap()));
            assert!(found, "{text}");
        }
        assert!(forms.iter().all(|form| form.len() >= 15), "{forms:?}");
    }

    proptest! {
        #[test]
        fn what_json_writes_is_found(secret in "[ -~\n\t]{6,20}", before in "[ -~]{0,4}") {
            let json = serde_json::to_string(&format!("{before}{secret}")).unwrap();
            let twice = serde_json::to_string(&json).unwrap();
            for text in [json.replace('/', "\\/"), json, twice] {
                let raw = text.replace(&secret, "#");
                let got = replaced(&raw, &secret);
                prop_assert!(got.contains('#'), "{text} {got}");
            }
        }

        #[test]
        fn no_text_is_too_odd(text in proptest::collection::vec(any::<u8>(), 0..200), secret in "[a\\\\&%;#x2]{1,6}") {
            let _ = replace_spelled(text, secret.as_bytes(), b"#");
        }
    }
}
