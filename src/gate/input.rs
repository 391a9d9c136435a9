//! What a hook or a CI job is asked to judge: text in, updates out. Nothing is read here but the text.
//!
//! | from | a line, or the argument |
//! | --- | --- |
//! | `pre-push` | `<local ref> SP <local id> SP <remote ref> SP <remote id> LF` |
//! | `pre-receive` | `<old id> SP <new id> SP <ref> LF` |
//! | `update` | the three arguments `<ref> <old id> <new id>` |
//! | `git loop gate` | `<old>..<new>` |
//!
//! An id of zeros means that there is nothing. It has as many digits as the ids of the repository, but tools that
//! do not know SHA-256 write 40 of them everywhere, so zeros of either length are taken. No input at all is normal:
//! git calls `pre-push` when everything is up to date. No ref may be named twice. Whether a push deletes is said by the ids alone; the word
//! `(delete)` is also the name of a possible branch.

use std::collections::HashSet;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};

/// One ref that a push wants to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The ref on the side that receives; for a range the range itself.
    pub reference: BString,
    /// Where it is there; `None` if it does not exist.
    pub old: Option<ObjectId>,
    /// Where it shall be; `None` deletes it.
    pub new: Option<ObjectId>,
}

/// The two sides of `<old>..<new>`, not resolved yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// What is known to the protected side; `None` for an id of zeros, as CI systems write it for a new branch.
    pub old: Option<BString>,
    /// What is to be judged; an empty right side is `HEAD`, as for git.
    pub new: BString,
}

/// Why the input cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// A line of a hook's input is not what git writes.
    #[error("line {line} of the hook's input is malformed: {why}: {text:?}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        why: &'static str,
        /// The line, at most 200 bytes of it.
        text: String,
    },
    /// The arguments of an `update` hook are not what git passes.
    #[error("the update hook's arguments are malformed: {0}")]
    Arguments(&'static str),
    /// The argument of `git loop gate` is no range.
    #[error("{text:?} is not a range: {why}")]
    Range {
        /// The argument.
        text: String,
        /// What is wrong.
        why: &'static str,
    },
}

/// Reads the standard input of a `pre-push` hook.
pub fn pre_push(input: &[u8]) -> Result<Vec<Update>, InputError> {
    each_line(input, |line| {
        // From the right: what stands first is what the user typed, which may be `main@{1 day ago}`.
        let mut fields = line.rsplitn(4, |byte| *byte == b' ');
        let old = fields.next().ok_or("it is empty")?;
        let reference = fields.next().ok_or("it has fewer than four fields")?;
        let new = fields.next().ok_or("it has fewer than four fields")?;
        fields.next().ok_or("it has fewer than four fields")?;
        update(reference, old, new)
    })
}

/// Reads the standard input of a `pre-receive` (or `post-receive`) hook.
pub fn pre_receive(input: &[u8]) -> Result<Vec<Update>, InputError> {
    each_line(input, |line| {
        let mut fields = line.splitn(3, |byte| *byte == b' ');
        let old = fields.next().ok_or("it is empty")?;
        let new = fields.next().ok_or("it has fewer than three fields")?;
        let reference = fields.next().ok_or("it has fewer than three fields")?;
        update(reference, old, new)
    })
}

/// Reads the arguments of an `update` hook.
pub fn update_hook(reference: &BStr, old: &BStr, new: &BStr) -> Result<Update, InputError> {
    update(reference, old, new).map_err(InputError::Arguments)
}

/// Reads `<old>..<new>`.
pub fn range(text: &BStr) -> Result<Range, InputError> {
    let fail = |why| InputError::Range { text: excerpt(text), why };
    // No revision can hold `..` but in a path or a message search, and those name no commits to push.
    let (old, new) = text.split_once_str("..").ok_or_else(|| fail("it must be <old>..<new>"))?;
    if new.starts_with(b".") {
        return Err(fail("three dots name another set of commits; write <old>..<new>"));
    }
    if old.is_empty() {
        return Err(fail("its left side is empty; name what the protected side has"));
    }
    if old.starts_with(b"-") || new.starts_with(b"-") || new.contains_str("..") {
        return Err(fail("it must be <old>..<new>"));
    }
    let old = (!is_zeros(old)).then(|| old.into());
    if is_zeros(new) {
        return Err(fail("its right side is an id of zeros: a deletion brings nothing to judge"));
    }
    Ok(Range { old, new: if new.is_empty() { "HEAD".into() } else { new.into() } })
}

fn each_line(
    input: &[u8],
    parse: impl Fn(&[u8]) -> Result<Update, &'static str>,
) -> Result<Vec<Update>, InputError> {
    let input = input.strip_suffix(b"\n").unwrap_or(input);
    if input.is_empty() {
        return Ok(Vec::new());
    }
    let line = |(index, line): (usize, &[u8])| {
        parse(line).map_err(|why| InputError::Line { line: index + 1, why, text: excerpt(line) })
    };
    let mut named = HashSet::new();
    let mut updates = Vec::new();
    for (index, text) in input.split(|byte| *byte == b'\n').enumerate() {
        let update = line((index, text))?;
        // git names each once. A client of its own making may move a ref twice in one push, and what the first line
        // says of it would not be what it is in the end.
        if !named.insert(update.reference.clone()) {
            let why = "an earlier line has the same ref";
            return Err(InputError::Line { line: index + 1, why, text: excerpt(text) });
        }
        updates.push(update);
    }
    Ok(updates)
}

fn update(reference: &[u8], old: &[u8], new: &[u8]) -> Result<Update, &'static str> {
    if reference.is_empty() {
        return Err("the name of the ref is empty");
    }
    if reference.iter().any(|byte| byte.is_ascii_control() || *byte == b' ') {
        return Err("the name of the ref has a control character or a space");
    }
    if old.len() != new.len() && !is_zeros(old) && !is_zeros(new) {
        return Err("its ids are of different lengths");
    }
    Ok(Update { reference: reference.into(), old: id(old)?, new: id(new)? })
}

fn id(text: &[u8]) -> Result<Option<ObjectId>, &'static str> {
    if is_zeros(text) {
        return Ok(None);
    }
    ObjectId::from_hex(text).map(Some).map_err(|_| "an id is not 40 or 64 hex digits")
}

fn is_zeros(text: &[u8]) -> bool {
    matches!(text.len(), 40 | 64) && text.iter().all(|byte| *byte == b'0')
}

fn excerpt(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(200)]).into_owned()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    const NONE: &str = "0000000000000000000000000000000000000000";

    fn hex(text: &str) -> Option<ObjectId> {
        ObjectId::from_hex(text.as_bytes()).ok()
    }

    #[test]
    fn a_push_is_read_from_the_right() {
        let input =
            format!("main@{{1 day ago}} {A} refs/heads/x {B}\nrefs/heads/n {B} refs/heads/n {NONE}\n");
        let updates = pre_push(input.as_bytes()).unwrap();
        assert_eq!(updates[0], Update { reference: "refs/heads/x".into(), old: hex(B), new: hex(A) });
        assert_eq!(updates[1], Update { reference: "refs/heads/n".into(), old: None, new: hex(B) });
    }

    /// Field report 2.44: `git push origin :b`.
    #[test]
    fn a_deletion_is_told_by_the_zero_id() {
        let updates = pre_push(format!("(delete) {NONE} refs/heads/b {A}\n").as_bytes()).unwrap();
        assert_eq!(updates, [Update { reference: "refs/heads/b".into(), old: hex(A), new: None }]);
        // A branch may have that name.
        let updates = pre_push(format!("(delete) {B} refs/heads/b {A}\n").as_bytes()).unwrap();
        assert_eq!(updates[0].new, hex(B));
    }

    /// Field report 2.43: all-zero of any length is null.
    #[test]
    fn zeros_of_either_length_are_no_object() {
        let long = "a".repeat(64);
        for zeros in [NONE.to_owned(), "0".repeat(64)] {
            let updates = pre_push(format!("x {long} refs/heads/x {zeros}\n").as_bytes()).unwrap();
            assert_eq!((updates[0].old, updates[0].new), (None, hex(&long)));
            let updates = pre_receive(format!("{long} {zeros} refs/heads/x\n").as_bytes()).unwrap();
            assert_eq!((updates[0].old, updates[0].new), (hex(&long), None));
        }
    }

    #[test]
    fn no_input_is_normal() {
        for input in [&b""[..], b"\n"] {
            assert_eq!(pre_push(input).unwrap(), []);
            assert_eq!(pre_receive(input).unwrap(), []);
        }
    }

    #[test]
    fn a_malformed_line_is_named() {
        let good = format!("refs/heads/x {A} refs/heads/x {B}\n");
        for (bad, why) in [
            ("x".to_owned(), "fewer than four fields"),
            (String::new(), "fewer than four fields"),
            (format!("{A} refs/heads/x {B}"), "fewer than four fields"),
            (format!("x {A} refs/heads/x {B} "), "different lengths"),
            (format!("x {A} refs/heads/x {B}\r"), "different lengths"),
            (format!("x {A}  {B}"), "the ref is empty"),
            (format!("x {A} refs/heads/\x1b {B}"), "control character"),
            (format!("x {A} refs/heads/x {}", "b".repeat(64)), "different lengths"),
            (format!("x HEAD refs/heads/x {NONE}"), "40 or 64 hex digits"),
        ] {
            let error = pre_push(format!("{good}{bad}\n{good}").as_bytes()).unwrap_err().to_string();
            assert!(
                error.starts_with("line 2 of the hook's input is malformed") && error.contains(why),
                "{error}"
            );
        }
        let error = pre_receive(format!("{A} {B}\n").as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("line 1 of") && error.contains("fewer than three"), "{error}");
        assert!(pre_receive(format!("{A} {B} refs/heads/a b\n").as_bytes()).is_err());
        let twice = format!("{NONE} {A} refs/heads/x\n{A} {B} refs/heads/y\n{A} {B} refs/heads/x\n");
        let error = pre_receive(twice.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("line 3 of") && error.contains("the same ref"), "{error}");
    }

    #[test]
    fn ranges() {
        let parsed = |text: &str| range(text.into());
        assert_eq!(parsed("a..b").unwrap(), Range { old: Some("a".into()), new: "b".into() });
        assert_eq!(parsed("a..").unwrap(), Range { old: Some("a".into()), new: "HEAD".into() });
        assert_eq!(parsed(&format!("{NONE}..b")).unwrap(), Range { old: None, new: "b".into() });
        for bad in ["", "a", "..", "..b", "a...b", "a..b..c", "-x..b", "a..--all", &format!("a..{NONE}")] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn parsing_is_total(input in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = pre_push(&input);
            let _ = pre_receive(&input);
            let _ = range(input.as_bstr());
            let _ = update_hook(input.as_bstr(), input.as_bstr(), input.as_bstr());
        }

        #[test]
        fn every_line_is_judged(
            lines in proptest::collection::vec(
                ("[ -~]{0,12}", "[0a]{1}", "refs/[a-z(){}]{1,8}", "[0b]{1}", any::<bool>()), 0..6)
        ) {
            let mut names = HashSet::new();
            let lines: Vec<_> = lines.iter().filter(|line| names.insert(line.2.clone())).collect();
            let mut push = String::new();
            let mut receive = String::new();
            let mut expected = Vec::new();
            for (local, new, reference, old, long) in lines {
                let n = if *long { 64 } else { 40 };
                let (new, old) = (new.repeat(n), old.repeat(n));
                writeln!(push, "{local} {new} {reference} {old}").unwrap();
                writeln!(receive, "{old} {new} {reference}").unwrap();
                let id = |text: &str| ObjectId::from_hex(text.as_bytes()).ok().filter(|id| !id.is_null());
                expected.push(Update { reference: reference.as_str().into(), old: id(&old), new: id(&new) });
            }
            prop_assert_eq!(pre_push(push.as_bytes()).unwrap(), expected.clone());
            prop_assert_eq!(pre_receive(receive.as_bytes()).unwrap(), expected);
        }
    }
}
