//! Path sets: the patterns of `[paths]` in a contract, in the notation of `.gitignore`.
//!
//! One pattern means what it means in a `.gitignore` at the root (gitignore(5)): without a slash before its end it
//! matches at any depth, else it is anchored; `dir/` matches a folder only; `*`, `?` and `[…]` stop at a slash, `**` does
//! not; `\` escapes. A pattern that matches a folder covers everything below it.
//!
//! Of several patterns **the last one that covers a path decides**, and `!` turns it round. This is where a set differs
//! from a `.gitignore` file: git does not look below an ignored folder, so there `src/**` followed by `!src/secret/**`
//! excludes nothing. In a contract that would silently let a worker change what the text protects; here each pattern is
//! asked about the path and all of its folders, and the order alone decides.

use std::ops::Range;

use gix::bstr::{BStr, BString, ByteSlice};
use gix::glob::{pattern::Case, wildmatch};

use super::fold::{fold_path, fold_text, without_ntfs_suffix};
use super::tree::parents;

/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 4096;
/// The most `*` in a pattern, in runs: the matcher gives up beyond 64 levels, and giving up would mean "no match".
const MAX_STARS: usize = 32;
/// The most `**` in a pattern: each may double the work on a hostile path.
const MAX_DOUBLE_STARS: usize = 8;

/// Why a pattern is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pattern {} `{}` {why}", index + 1, crate::escape::escape_line(pattern))]
pub struct PatternError {
    /// Its place in the list, from 0.
    pub index: usize,
    /// The pattern as written.
    pub pattern: String,
    /// What is wrong, to follow the pattern in a sentence.
    pub why: &'static str,
}

impl From<PatternError> for crate::error::Error {
    fn from(error: PatternError) -> Self {
        Self::usage(error.to_string())
            .hint("correct the pattern in `[paths]` of loop.toml; the notation is gitignore's")
    }
}

/// A list of patterns that says of each repository path whether it is in the set.
#[derive(Debug, Clone)]
pub struct PathSet {
    patterns: Vec<Pattern>,
}

#[derive(Debug, Clone)]
struct Pattern {
    text: String,
    exact: gix::glob::Pattern,
    folded: gix::glob::Pattern,
    /// The path that the pattern names, if it has no wildcard.
    literal: Option<BString>,
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_PATTERN {
            return Err("is longer than 4096 bytes");
        }
        if text.contains('\0') {
            return Err("contains a NUL byte");
        }
        if text.trim().is_empty() {
            return Err("is empty");
        }
        if text.starts_with('#') {
            return Err(
                "would be a comment in a gitignore file; write `\\#` for a name that starts with `#`",
            );
        }
        let body = text.strip_prefix('!').unwrap_or(text);
        check_body(body)?;
        // The parser leaves `!` and a leading `\!` or `\#` to itself; any other text is taken as it is.
        let exact = gix::glob::Pattern::from_bytes(text.as_bytes()).ok_or("is empty")?;
        let folded = if text.len() == body.len() { fold_body(body) } else { format!("!{}", fold_body(body)) };
        // A name of backslashes alone folds to nothing, as it does in a path: only its exact spelling is left.
        let folded = gix::glob::Pattern::from_bytes(folded.as_bytes()).unwrap_or_else(|| exact.clone());
        let literal = literal(body.strip_prefix('/').unwrap_or(body).trim_end_matches('/'));
        Ok(Self { text: text.to_owned(), exact, folded, literal })
    }

    fn covers(&self, path: &BStr, is_dir: bool) -> bool {
        covers(&self.exact, path, is_dir, Case::Sensitive)
    }

    fn covers_folded(&self, folded: &BStr, is_dir: bool) -> bool {
        // Folded letters are matched without case so that `[[:upper:]]` and `[A-Z]` keep their meaning.
        covers(&self.folded, folded, is_dir, Case::Fold)
    }
}

/// Whether `pattern` matches `path` itself or a folder above it.
fn covers(pattern: &gix::glob::Pattern, path: &BStr, is_dir: bool, case: Case) -> bool {
    let matches = |path: &BStr, is_dir| {
        let basename = path.rfind_byte(b'/').map(|slash| slash + 1);
        pattern.matches_repo_relative_path(
            path,
            basename,
            Some(is_dir),
            case,
            wildmatch::Mode::NO_MATCH_SLASH_LITERAL,
        )
    };
    // A name that starts with a backslash folds to a path that starts with a slash; the matcher takes relative ones.
    let path = path.trim_start_with(|c| c == '/').as_bstr();
    parents(path).any(|dir| !dir.is_empty() && matches(dir, true))
        || (!path.is_empty() && matches(path, is_dir))
}

impl PathSet {
    /// Reads a list of patterns. A pattern that could never match what its writer meant is refused with the reason.
    pub fn parse<S: AsRef<str>>(patterns: &[S]) -> Result<Self, PatternError> {
        let parsed = patterns.iter().enumerate().map(|(index, text)| {
            let text = text.as_ref();
            Pattern::parse(text).map_err(|why| PatternError { index, pattern: text.to_owned(), why })
        });
        Ok(Self { patterns: parsed.collect::<Result<_, _>>()? })
    }

    /// The patterns as written.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(|pattern| pattern.text.as_str())
    }

    /// Whether the file, symlink or submodule link `path` is in the set.
    pub fn matches(&self, path: &BStr) -> bool {
        self.decide(|pattern| pattern.covers(path, false))
    }

    /// Whether `path`, or on some machine the same file under another spelling, is in the set: like
    /// [`matches`](Self::matches), or the same after case folding, NFC, without invisible characters, trailing dots and
    /// spaces, on both sides. What is protected is matched like this; what is allowed never is.
    pub fn matches_folded(&self, path: &BStr) -> bool {
        self.matches_folded_as(path, false)
    }

    /// [`matches_folded`](Self::matches_folded) for an entry that is a folder on disk, as a submodule link is: `dir/`
    /// matches it.
    pub fn matches_folded_as(&self, path: &BStr, is_dir: bool) -> bool {
        self.decide(|pattern| pattern.covers(path, is_dir)) || {
            let folded = fold_path(path);
            self.decide(|pattern| pattern.covers_folded(folded.as_bstr(), is_dir))
        }
    }

    /// Whether a pattern without wildcards is exactly this path, and no later one excludes it. `.env` names only the
    /// file at the root here, although it would match at any depth.
    pub fn is_literal(&self, path: &BStr) -> bool {
        self.matches(path)
            && self
                .patterns
                .iter()
                .any(|p| !p.exact.is_negative() && p.literal.as_ref().is_some_and(|l| l == path))
    }

    fn decide(&self, covers: impl Fn(&Pattern) -> bool) -> bool {
        self.patterns
            .iter()
            .rev()
            .find(|pattern| covers(pattern))
            .is_some_and(|pattern| !pattern.exact.is_negative())
    }

    /// The patterns that must find something in the base: those that are not negated and do not begin with a wildcard.
    ///
    /// `**/conftest.py` and `*.cfg` may be there only against what a worker adds; `Cargo.lock` and `tests/**` name
    /// something, and if it does not exist the name is a mistake that would leave the real thing unprotected.
    pub(super) fn naming(&self) -> impl Iterator<Item = Naming<'_>> {
        self.patterns.iter().filter(|p| !p.exact.is_negative()).filter_map(|pattern| {
            let body = pattern.text.strip_prefix('/').unwrap_or(&pattern.text);
            let first = body.split('/').next().unwrap_or(body);
            literal(first).is_some().then_some(Naming { pattern })
        })
    }
}

/// A pattern that names something that must exist.
pub(super) struct Naming<'a> {
    pattern: &'a Pattern,
}

impl<'a> Naming<'a> {
    pub(super) fn text(&self) -> &'a str {
        &self.pattern.text
    }

    pub(super) fn finds(&self, path: &BStr) -> bool {
        self.pattern.covers(path, false)
    }
}

/// Checks the part after `!`.
fn check_body(body: &str) -> Result<(), &'static str> {
    if body.starts_with('!') {
        return Err("is negated twice; write `\\!` for a name that starts with `!`");
    }
    let inner = body.strip_prefix('/').unwrap_or(body);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if inner.trim().is_empty() {
        return Err("names nothing");
    }
    for component in inner.split('/') {
        match component {
            "" => return Err("has an empty component between two slashes and can match nothing"),
            "." | ".." => return Err("has a `.` or `..`; patterns start at the root of the repository"),
            _ => {}
        }
    }
    let bytes = body.as_bytes();
    let (mut at, mut stars, mut doubles) = (0, 0, 0);
    while at < bytes.len() {
        at = match bytes[at] {
            b'\\' if at + 1 == bytes.len() => return Err("ends in a lone backslash and can match nothing"),
            b'\\' if bytes[at + 1] == b'/' => return Err("escapes a slash"),
            b'\\' => at + 2,
            b'*' => {
                let run = bytes[at..].iter().take_while(|b| **b == b'*').count();
                stars += 1;
                doubles += usize::from(run > 1);
                at + run
            }
            b'[' => {
                let class = class_at(bytes, at)
                    .ok_or("has a `[` without its `]`; write `\\[` for a bracket in a name")?;
                if bytes[class.clone()].contains(&b'/') {
                    return Err("has a slash between brackets, which can match nothing");
                }
                class.end
            }
            _ => at + 1,
        };
    }
    if stars > MAX_STARS || doubles > MAX_DOUBLE_STARS {
        return Err("has more wildcards than can be matched in bounded time (32 `*`, 8 of them `**`)");
    }
    // git drops unescaped spaces at the end of a line; TOML shows them. Either reading would surprise somebody.
    if body.ends_with(' ') && !ends_escaped(&body[..body.len() - 1]) {
        return Err("ends in a space; write `\\ ` if the name does");
    }
    Ok(())
}

/// The bracket expression that starts at `bytes[start]`, as fnmatch and git read it.
fn class_at(bytes: &[u8], start: usize) -> Option<Range<usize>> {
    let mut at = start + 1;
    if matches!(bytes.get(at), Some(b'!' | b'^')) {
        at += 1;
    }
    let first = at;
    loop {
        match *bytes.get(at)? {
            b']' if at > first => return Some(start..at + 1),
            b'\\' => at += 2,
            b'[' if bytes.get(at + 1) == Some(&b':') => at += 2 + bytes[at + 2..].find(b":]")? + 2,
            _ => at += 1,
        }
    }
}

/// Whether the character after `text` is escaped.
fn ends_escaped(text: &str) -> bool {
    text.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

/// The name that `text` matches and nothing else, if it has no wildcard.
fn literal(text: &str) -> Option<BString> {
    let mut name = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '*' | '?' | '[' => return None,
            '\\' => name.push(chars.next()?),
            c => name.push(c),
        }
    }
    Some(name.into())
}

/// The pattern that matches the folded forms of what `body` matches: its text folded as [`fold_path`] folds a path. An
/// escaped backslash becomes a separator, as it does there.
fn fold_body(body: &str) -> String {
    let inner = body.trim_matches('/');
    let separated = inner.replace("\\\\", "/");
    let components =
        separated.split('/').filter(|component| !component.is_empty()).map(fold_pattern_component);
    let folded = components.collect::<Vec<_>>().join("/");

    let anchored = body.starts_with('/') || inner.contains('/');
    let front = match (anchored, folded.contains('/')) {
        (true, false) => "/",
        // The name with a backslash matched at any depth.
        (false, true) => "**/",
        _ => "",
    };
    let end = if body.ends_with('/') { "/" } else { "" };
    format!("{front}{folded}{end}")
}

fn fold_pattern_component(component: &str) -> String {
    let whole = match fold_text(component) {
        nothing if nothing.is_empty() => component.to_owned(),
        folded => folded,
    };
    let mut folded = whole.as_str();
    loop {
        let kept = without_ntfs_suffix(folded.as_bytes()).len();
        // The backslash that escaped what was cut off would escape the separator now.
        let kept = if ends_escaped(&folded[..kept]) { kept - 1 } else { kept };
        if kept == 0 {
            return whole;
        }
        if kept == folded.len() {
            return folded.to_owned();
        }
        folded = &folded[..kept];
    }
}

#[cfg(test)]
mod tests;
