//! Places in the candidate's tree that a promotion packet cites. Nothing is looked up in a work tree: what counts is the tree that was
//! judged.

use gix::ObjectId;
use gix::bstr::BStr;
use gix::objs::Kind;
use gix::objs::tree::EntryKind;

use crate::check::excerpt;
use crate::git::{ObjectError, Repo, TreeError};

/// The most bytes of a file that may be cited.
pub const MAX_BYTES: u64 = 16 << 20;

/// Why a place cannot be cited, or could not be looked up.
#[derive(Debug, thiserror::Error)]
pub enum CitationError {
    /// It is no place of the tree.
    #[error("{0}")]
    Bad(String),
    /// An object is missing or corrupt: a fault of the repository, not of the citation.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A tree is malformed.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// A citation, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Citation<'a> {
    /// The file.
    pub path: &'a str,
    /// The first line, from 1.
    pub start: u32,
    /// The last line.
    pub end: u32,
}

impl<'a> Citation<'a> {
    /// Takes `path:line` or `path:start-end` apart.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let told = || format!("`{}` is not `path:line` or `path:start-end`", excerpt(text));
        let (path, lines) = text.rsplit_once(':').ok_or_else(told)?;
        let (start, end) = lines.split_once('-').unwrap_or((lines, lines));
        let (start, end) = (number(start).ok_or_else(told)?, number(end).ok_or_else(told)?);
        if start > end {
            return Err(format!("`{}` ends before it begins", excerpt(text)));
        }
        is_relative(path)?;
        Ok(Self { path, start, end })
    }
}

/// A line number: up to nine digits, the first of which is not 0.
fn number(digits: &str) -> Option<u32> {
    let well = (1..=9).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.starts_with('0');
    digits.parse().ok().filter(|_| well)
}

/// Whether a path leads down from the root of the tree and nowhere else.
fn is_relative(path: &str) -> Result<(), String> {
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(format!("`{}` is no relative path without empty parts, `.` and `..`", excerpt(path)));
    }
    Ok(())
}

/// The blob of the file at `path` in the tree `tree`.
pub fn file(repo: &Repo, tree: ObjectId, path: &str) -> Result<ObjectId, CitationError> {
    let bad = |why: &str| CitationError::Bad(format!("`{}` {why}", excerpt(path)));
    is_relative(path).map_err(CitationError::Bad)?;
    let mut folder = tree;
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        let entries = repo.read_tree(folder)?;
        let entry = entries.iter().find(|entry| entry.name == BStr::new(part.as_bytes()));
        let entry = entry.ok_or_else(|| bad("is not in the candidate"))?;
        match (entry.mode, parts.peek().is_some()) {
            (EntryKind::Tree, true) => folder = entry.id,
            (EntryKind::Tree, false) => return Err(bad("is a folder")),
            (EntryKind::Link, true) => return Err(bad("leads through a symlink")),
            (EntryKind::Link, false) => return Err(bad("is a symlink")),
            (EntryKind::Commit, _) => return Err(bad("is in a submodule")),
            (EntryKind::Blob | EntryKind::BlobExecutable, true) => {
                return Err(bad("is not in the candidate"));
            }
            (EntryKind::Blob | EntryKind::BlobExecutable, false) => return Ok(entry.id),
        }
    }
    Err(bad("is not in the candidate"))
}

/// The path and blob that `text` cites in the tree `tree`, if it is a place there.
pub fn cited<'a>(repo: &Repo, tree: ObjectId, text: &'a str) -> Result<(&'a str, ObjectId), CitationError> {
    let citation = Citation::parse(text).map_err(CitationError::Bad)?;
    let id = file(repo, tree, citation.path)?;
    let (kind, size) = repo.object_header(id)?;
    if kind == Kind::Blob && size > MAX_BYTES {
        return Err(CitationError::Bad(format!("`{}` has more than 16 MiB", excerpt(citation.path))));
    }
    let lines = lines(&repo.read_blob(id)?);
    if u64::from(citation.end) > lines {
        return Err(CitationError::Bad(format!(
            "`{}` is past the end of the file, which has {lines} lines",
            excerpt(text)
        )));
    }
    Ok((citation.path, id))
}

/// How many lines a file has; what stands behind the last newline is one.
fn lines(content: &[u8]) -> u64 {
    let parts = content.split(|byte| *byte == b'\n').count() as u64;
    parts - u64::from(content.last().is_none_or(|last| *last == b'\n'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn citations() {
        let of = |text| Citation::parse(text).map(|it| (it.path, it.start, it.end));
        assert_eq!(of("src/a.rs:1"), Ok(("src/a.rs", 1, 1)));
        assert_eq!(of("src/a.rs:3-7"), Ok(("src/a.rs", 3, 7)));
        assert_eq!(of("src/a.rs:3-3"), Ok(("src/a.rs", 3, 3)));
        assert_eq!(of("a:b:12"), Ok(("a:b", 12, 12)));
        assert_eq!(of("a\\b:1"), Ok(("a\\b", 1, 1)));
        assert_eq!(of("a:999999999"), Ok(("a", 999_999_999, 999_999_999)));
        for bad in [
            "",
            "a",
            "a:",
            ":1",
            "a:0",
            "a:01",
            "a:+1",
            "a:-1",
            "a:1-",
            "a:-",
            "a:1-0",
            "a:7-3",
            "a:1-2-3",
            "a:1 ",
            "a: 1",
            "a:1000000000",
            "a:99999999999999999999",
            "../x:1",
            "a/../b:1",
            "./a:1",
            "/a:1",
            "a//b:1",
            "a/:1",
            "a:x",
            "a:1:",
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lines_are_counted_as_editors_do() {
        for (content, count) in
            [("", 0), ("\n", 1), ("a", 1), ("a\n", 1), ("a\nb", 2), ("a\n\n", 2), ("a\r\nb\r\n", 2)]
        {
            assert_eq!(lines(content.as_bytes()), count, "{content:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_apart_can_be_put_together(text in "[a-c./:0-9-]{0,12}", any in any::<String>()) {
            let _ = Citation::parse(&any);
            if let Ok(Citation { path, start, end }) = Citation::parse(&text) {
                prop_assert!(start >= 1 && start <= end);
                prop_assert!(!path.starts_with('/') && !path.split('/').any(|part| part == ".." || part.is_empty()));
                let short = format!("{path}:{start}");
                let long = format!("{path}:{start}-{end}");
                prop_assert!(text == long || (text == short && start == end), "{}", text);
            }
        }
    }
}
