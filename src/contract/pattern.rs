//! Patterns and paths of a contract: what is well-formed, and what a list of patterns covers.

use gix::bstr::BStr;
use gix::glob::wildmatch::Mode;
use gix::glob::{Pattern, pattern::Case};

/// What is wrong with a pattern or a path, and what to write in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Fault {
    fn new(message: &str) -> Self {
        Self { message: message.to_owned(), hint: None }
    }

    fn hint(message: &str, hint: impl Into<String>) -> Self {
        Self { message: message.to_owned(), hint: Some(hint.into()) }
    }
}

/// The fault of a gitignore-style pattern. gitignore itself takes a pattern that can match nothing without a word; in a
/// contract it would be a path that its writer believes to be frozen.
pub(super) fn pattern_fault(text: &str) -> Option<Fault> {
    if text.trim().is_empty() {
        return Some(Fault::new("is empty"));
    }
    if text.chars().any(char::is_control) {
        return Some(Fault::new("has a control character"));
    }
    if text.starts_with('#') {
        return Some(Fault::hint(
            "is a comment in gitignore syntax",
            format!("write \\{text} for a name with a #"),
        ));
    }
    if text.starts_with(' ') || (text.ends_with(' ') && !text.ends_with("\\ ")) {
        return Some(Fault::hint("begins or ends with a space", "take the space out"));
    }
    let body = text.strip_prefix('!').unwrap_or(text);
    let inner = body.strip_prefix('/').unwrap_or(body);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if inner.is_empty() {
        return Some(Fault::hint("matches nothing", "write \"**\" for every path"));
    }
    for segment in inner.split('/') {
        match segment {
            "" => return Some(Fault::hint("has an empty folder name", "write one / between two names")),
            "." => {
                return Some(Fault::hint(
                    "has a folder `.`",
                    "write the path from the root of the repository",
                ));
            }
            ".." => {
                return Some(Fault::hint(
                    "leaves the repository",
                    "write the path from the root of the repository",
                ));
            }
            _ => {}
        }
    }
    if is_undelimited(inner) {
        return Some(Fault::hint(
            "has a `**` beside other characters, which git reads in different ways",
            "write `**` as a folder name of its own (a/**, **/b), or a single `*` within a name",
        ));
    }
    escape_fault(inner)
}

/// Whether a `**` stands beside other characters than slashes. git takes the literal start off a pattern before it matches, and so
/// reads `a**/b` in another way than `?**/b`: nobody can tell by looking at such a pattern what it covers.
pub(crate) fn is_undelimited(pattern: &str) -> bool {
    let (mut is_undelimited, mut in_class) = (false, false);
    for segment in pattern.split('/') {
        let (mut stars, mut characters) = (0, segment.chars().peekable());
        while let Some(character) = characters.next() {
            match character {
                '\\' => _ = characters.next(),
                '[' if !in_class => {
                    in_class = true;
                    if characters.peek().is_some_and(|next| matches!(next, '!' | '^')) {
                        characters.next();
                    }
                    if characters.peek() == Some(&']') {
                        characters.next();
                    }
                }
                ']' => in_class = false,
                '*' if !in_class => {
                    stars += 1;
                    is_undelimited |= stars == 2 && segment != "**";
                    continue;
                }
                _ => {}
            }
            stars = 0;
        }
        in_class = false;
    }
    is_undelimited
}

/// The fault of the backslashes and brackets of a pattern.
fn escape_fault(pattern: &str) -> Option<Fault> {
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                None => return Some(Fault::new("ends with a backslash")),
                Some(next) if next == '/' || next.is_alphanumeric() => {
                    return Some(Fault::hint(
                        "has a backslash before an ordinary character",
                        "separate folders with /; a backslash escapes the next character",
                    ));
                }
                Some(_) => {}
            },
            '[' => {
                // The first member of a class may be the bracket itself.
                if matches!(characters.peek(), Some('!' | '^')) {
                    characters.next();
                }
                let mut first = true;
                loop {
                    match characters.next() {
                        None | Some('/') => {
                            return Some(Fault::hint(
                                "has a [ without its ]",
                                "write \\[ for a name with a bracket",
                            ));
                        }
                        Some(']') if !first => break,
                        Some('\\') => drop(characters.next()),
                        Some(_) => {}
                    }
                    first = false;
                }
            }
            _ => {}
        }
    }
    None
}

/// The fault of a plain path that must lie inside the tree.
pub(super) fn inside_fault(path: &str) -> Option<Fault> {
    let from_root = "write it from the root of the repository, with /";
    if path.trim().is_empty() {
        return Some(Fault::new("is empty"));
    }
    if path.chars().any(char::is_control) {
        return Some(Fault::new("has a control character"));
    }
    let bytes = path.as_bytes();
    let drive = bytes.len() > 1 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
    if path.starts_with(['/', '~']) || drive {
        return Some(Fault::hint("is not relative to the repository", from_root));
    }
    if path.contains('\\') {
        return Some(Fault::hint("has a backslash", from_root));
    }
    for segment in path.split('/') {
        if segment.is_empty() || segment == "." {
            return Some(Fault::hint("has an empty folder name or a `.`", "write one / between two names"));
        }
        if segment == ".." {
            return Some(Fault::hint("leaves the repository", from_root));
        }
        if segment.eq_ignore_ascii_case(".git") {
            return Some(Fault::new("is a part of git's own folder"));
        }
    }
    None
}

/// Whether a list of gitignore-style patterns covers a path: the last pattern that matches it, or a folder above it,
/// decides.
pub(super) fn covers(patterns: &[String], path: &str) -> bool {
    let above = path.match_indices('/').map(|(index, _)| (&path[..index], true));
    above.chain(std::iter::once((path, false))).any(|(path, is_folder)| {
        let basename = path.rfind('/').map(|slash| slash + 1);
        patterns
            .iter()
            .rev()
            .filter_map(|pattern| Pattern::from_bytes(pattern.as_bytes()))
            .find(|pattern| {
                let path: &BStr = path.into();
                let mode = Mode::NO_MATCH_SLASH_LITERAL;
                pattern.matches_repo_relative_path(path, basename, Some(is_folder), Case::Sensitive, mode)
            })
            .is_some_and(|pattern| !pattern.is_negative())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(patterns: &[&str]) -> Vec<String> {
        patterns.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn well_formed_patterns() {
        for pattern in [
            "src/**",
            "/src",
            "**/conftest.py",
            "tests/",
            "*.rs",
            "a[bc]d",
            "a[]]d",
            "a[!]]d",
            r"\#note",
            r"odd\ ",
            r"a\[b",
            "!src/generated/**",
            "päth/ü ö",
            ".github/**",
            "**",
            "a/**/b",
            r"a\**",
            "a[**]b",
            "*a*",
        ] {
            assert_eq!(pattern_fault(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn malformed_patterns() {
        for (pattern, message) in [
            ("", "is empty"),
            ("  ", "is empty"),
            ("a\nb", "has a control character"),
            ("# tests", "is a comment in gitignore syntax"),
            ("src ", "begins or ends with a space"),
            ("/", "matches nothing"),
            ("!", "matches nothing"),
            ("a//b", "has an empty folder name"),
            ("./src", "has a folder `.`"),
            ("../x", "leaves the repository"),
            ("a/../b", "leaves the repository"),
            (r"src\auth", "has a backslash before an ordinary character"),
            ("a\\", "ends with a backslash"),
            ("a[b", "has a [ without its ]"),
            ("A**/*.", "has a `**` beside other characters, which git reads in different ways"),
            ("src/**.rs", "has a `**` beside other characters, which git reads in different ways"),
            ("!/a/x**/", "has a `**` beside other characters, which git reads in different ways"),
            ("a/***", "has a `**` beside other characters, which git reads in different ways"),
            ("[a]**", "has a `**` beside other characters, which git reads in different ways"),
            ("a[b/c]", "has a [ without its ]"),
        ] {
            assert_eq!(
                pattern_fault(pattern).map(|fault| fault.message).as_deref(),
                Some(message),
                "{pattern:?}"
            );
        }
    }

    #[test]
    fn paths_inside_the_tree() {
        for path in ["target", "target/nextest/ci/junit.xml", "a b", ".cache/x", "x.git"] {
            assert_eq!(inside_fault(path), None, "{path}");
        }
        for path in [
            "", "/tmp/x", "~/x", "../x", "a/../x", "a//b", "./a", "a/", "C:/x", r"a\b", ".git/x", "a/.GIT",
            "a\u{7f}",
        ] {
            assert!(inside_fault(path).is_some(), "{path:?}");
        }
    }

    #[test]
    fn the_last_matching_pattern_decides() {
        assert!(covers(&list(&["package.json"]), "package.json"));
        assert!(covers(&list(&["package.json"]), "web/package.json"));
        assert!(!covers(&list(&["/package.json"]), "web/package.json"));
        assert!(covers(&list(&["tests"]), "tests/a/b.rs"));
        assert!(covers(&list(&["tests/**"]), "tests/a/b.rs"));
        assert!(covers(&list(&["**/conftest.py"]), "conftest.py"));
        assert!(!covers(&list(&["*.json", "!package.json"]), "package.json"));
        assert!(!covers(&list(&["src/**"]), "package.json"));
    }

    proptest! {
        #[test]
        fn any_text_is_judged(text in "\\PC{0,20}|[a\\[\\]!^\\\\/. #*]{0,20}") {
            let _ = pattern_fault(&text);
            let _ = inside_fault(&text);
            covers(&[text], "a/b/c");
        }
    }
}
