//! The form in which two names are one file on some machine that may run the check.
//!
//! git keeps `Makefile` and `makefile`, `café` composed and decomposed, `test.py` and `te<ZWSP>st.py` apart; APFS, HFS+
//! and NTFS do not. A worker that may not touch the first of each must not get the second past the guard either.

use std::borrow::Cow;

use gix::bstr::{BStr, BString, ByteSlice};
use unicode_normalization::UnicodeNormalization;

use crate::escape::is_ignorable;

/// The folded form of a whole repository path: every component folded, a backslash read as a separator as Windows
/// does, several separators as one.
pub fn fold_path(path: &BStr) -> BString {
    let mut out = Vec::with_capacity(path.len());
    for component in path.split(|b| matches!(b, b'/' | b'\\')).filter(|component| !component.is_empty()) {
        if !out.is_empty() {
            out.push(b'/');
        }
        out.extend_from_slice(&fold_component(component.as_bstr()));
    }
    out.into()
}

/// The folded form of one component: invisible characters dropped, full Unicode case folding, NFC, the trailing dots and
/// spaces and the stream suffixes that NTFS drops removed. Bytes that are not UTF-8 stay as they are.
///
/// What would be removed whole stays (`...`, an invisible name): what is left must still be a name.
pub fn fold_component(component: &BStr) -> Cow<'_, BStr> {
    let plain = |b: &u8| b.is_ascii() && !b.is_ascii_uppercase() && *b != b':';
    if component.iter().all(plain) && !component.ends_with(b".") && !component.ends_with(b" ") {
        return Cow::Borrowed(component);
    }
    let mut out = Vec::with_capacity(component.len());
    for chunk in component.utf8_chunks() {
        out.extend_from_slice(fold_text(chunk.valid()).as_bytes());
        out.extend_from_slice(chunk.invalid());
    }
    if out.is_empty() {
        return Cow::Borrowed(component);
    }
    let kept = without_ntfs_suffix(&out).len();
    if kept > 0 {
        out.truncate(kept);
    }
    Cow::Owned(out.into())
}

/// Case and normalisation: NFC(casefold(NFD(text))) without invisible characters, Unicode's canonical caseless match.
pub fn fold_text(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let decomposed: String = text.chars().filter(|c| !is_ignorable(*c)).nfd().collect();
    unicase::UniCase::unicode(decomposed).to_folded_case().nfc().collect()
}

/// What NTFS keeps of a name: `file.`, `file `, `file::$DATA` and `dir:$I30:$INDEX_ALLOCATION` open `file` and `dir`.
/// A named stream (`file:extra`) is something beside the file and is kept.
pub fn without_ntfs_suffix(name: &[u8]) -> &[u8] {
    let name = match name.find_byte(b':') {
        Some(colon) if name[colon..].contains_str(":$") => &name[..colon],
        _ => name,
    };
    name.trim_end_with(|c| c == '.' || c == ' ')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Field report 1.57: git stores all of these beside the frozen one.
    #[test]
    fn spellings_of_one_file_fold_together() {
        for (a, b) in [
            ("Tests/x.py", "tests/x.py"),
            ("MAKEFILE", "makefile"),
            ("Conftest.py", "conftest.py"),
            ("cafe\u{301}", "caf\u{e9}"),
            ("CAFE\u{301}", "caf\u{e9}"),
            ("te\u{200b}st.py", "test.py"),
            ("tests./x.py. ", "tests/x.py"),
            ("tests::$INDEX_ALLOCATION/x.py", "tests/x.py"),
            ("tests:$I30:$INDEX_ALLOCATION/x.py", "tests/x.py"),
            ("x.py::$DATA", "x.py"),
            ("tests\\x.py", "tests/x.py"),
            ("stra\u{df}e", "STRASSE"),
            ("\u{212a}ey", "key"),
            ("te\u{17f}t", "test"),
        ] {
            assert_eq!(fold_path(a.into()), fold_path(b.into()), "{a} {b}");
        }
    }

    #[test]
    fn different_files_stay_different() {
        for (a, b) in
            [("a", "b"), ("x.py:extra", "x.py"), ("...", "."), ("a/b", "ab"), (".", ".."), ("café", "cafe")]
        {
            assert_ne!(fold_path(a.into()), fold_path(b.into()), "{a} {b}");
        }
        assert_ne!(fold_path(b"\xff".as_bstr()), fold_path(b"\xfe".as_bstr()));
    }

    proptest! {
        #[test]
        fn folding_is_total_and_keeps_components(path in proptest::collection::vec(any::<u8>(), 0..48)) {
            let components = path.split(|b| matches!(b, b'/' | b'\\')).filter(|c| !c.is_empty()).count();
            prop_assert_eq!(fold_path(path.as_bstr()).split(|b| *b == b'/').filter(|c| !c.is_empty()).count(), components);
        }

        #[test]
        fn case_never_matters(path in "[a-zA-Z./ _\u{c0}-\u{17f}]{0,24}") {
            prop_assert_eq!(fold_path(path.as_str().into()), fold_path(path.to_lowercase().as_str().into()));
        }
    }
}
