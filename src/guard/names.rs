//! Names that git or a file system would take for something else.
//!
//! On Linux git stores and checks out nearly any bytes as a name. Elsewhere `.git ` is `.git`, `git~1` is its short
//! name, `.g<U+200C>it` is it for HFS+, and a backslash separates folders. A candidate is judged by all of these rules on
//! every machine, because the machine that merges it is not the one that judged it.

use std::collections::HashMap;

use gix::bstr::{BStr, BString, ByteSlice};
use gix::validate::path::component;

use super::fold::{fold_component, fold_path};
use super::tree::parents;

/// Why a name is blocked unless a contract allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnsafeName {
    /// The path or one of its components is empty.
    Empty,
    /// A component is `.` or `..`, plain or in a form that some file system reads as that.
    DotComponent,
    /// A component is `.git` or is read as that.
    DotGit,
    /// A component has a control character.
    Control,
    /// A component is `.gitmodules` or is read as that.
    GitModules,
    /// A component is `.gitattributes` or is read as that.
    GitAttributes,
    /// A component starts with `.env`.
    Environment,
    /// The path is in `.loops`, where the rules of the loops themselves are.
    Loops,
}

impl UnsafeName {
    /// A stable word for records and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty_name",
            Self::DotComponent => "dot_name",
            Self::DotGit => "git_control_name",
            Self::Control => "control_character",
            Self::GitModules => "gitmodules",
            Self::GitAttributes => "gitattributes",
            Self::Environment => "environment_file",
            Self::Loops => "loops_rules",
        }
    }

    /// Whether a contract may allow the path by naming it. What git itself refuses to check out, or what would write
    /// into a repository's own control folder, cannot be allowed.
    pub fn can_be_allowed(self) -> bool {
        !matches!(self, Self::Empty | Self::DotComponent | Self::DotGit)
    }
}

/// The gravest reason why `path` is no name for a worker to touch, if there is one.
pub fn classify(path: &BStr) -> Option<UnsafeName> {
    let worst = |found: Option<UnsafeName>, next: Option<UnsafeName>| match (found, next) {
        (Some(a), Some(b)) => Some(if severity(b) < severity(a) { b } else { a }),
        (a, b) => a.or(b),
    };
    let components = path.split(|b| matches!(b, b'/' | b'\\')).map(BStr::new);
    // Components between slashes are what git sees; those between backslashes are what Windows sees beside them.
    let empty = path.split(|b| *b == b'/').any(<[u8]>::is_empty).then_some(UnsafeName::Empty);
    components.enumerate().map(|(depth, component)| classify_component(component, depth)).fold(empty, worst)
}

fn severity(name: UnsafeName) -> u8 {
    match name {
        UnsafeName::Empty => 0,
        UnsafeName::DotComponent => 1,
        UnsafeName::DotGit => 2,
        UnsafeName::Loops => 3,
        UnsafeName::GitModules => 4,
        UnsafeName::GitAttributes => 5,
        UnsafeName::Environment => 6,
        UnsafeName::Control => 7,
    }
}

fn classify_component(name: &BStr, depth: usize) -> Option<UnsafeName> {
    if name.is_empty() {
        // Between two backslashes: a slash would have been found empty already.
        return None;
    }
    let folded = fold_component(name);
    let folded = folded.as_ref();
    if is_dot(name, folded) {
        Some(UnsafeName::DotComponent)
    } else if is_dot_git(name) {
        Some(UnsafeName::DotGit)
    } else if depth == 0 && (stem(folded) == ".loops" || is_short_name(folded, "loops", None)) {
        Some(UnsafeName::Loops)
    } else if stem(folded) == ".gitmodules" || is_short_name(folded, "gitmod", Some("gi7eba")) {
        Some(UnsafeName::GitModules)
    } else if stem(folded) == ".gitattributes" || is_short_name(folded, "gitatt", Some("gi7d29")) {
        Some(UnsafeName::GitAttributes)
    } else if folded.starts_with(b".env") || is_short_name(folded, "env", None) {
        Some(UnsafeName::Environment)
    } else if has_control(name) {
        Some(UnsafeName::Control)
    } else {
        None
    }
}

/// Whether git, HFS+ or NTFS takes this component for `.git`.
pub fn is_dot_git(name: &BStr) -> bool {
    // git's own rules, as gix has them: trailing dots and spaces, `git~1`, streams, ignorable code points.
    let rules = component::Options { protect_windows: false, protect_hfs: true, protect_ntfs: true };
    if matches!(component(name, None, rules), Err(component::Error::DotGitDir)) {
        return true;
    }
    // Ours besides: other invisible characters and letters that fold to these, any short name's number.
    let folded = fold_component(name);
    stem(&folded) == ".git" || is_short_name(&folded, "git", None)
}

/// `.` and `..`, also with invisible characters or with the dots, spaces and streams that NTFS drops behind them.
fn is_dot(name: &BStr, folded: &BStr) -> bool {
    let visible = stem(folded);
    // A name of dots and spaces alone (`...`, `.. `) is a dot name for Win32, whatever their number.
    !visible.is_empty() && visible.iter().all(|b| matches!(b, b'.' | b' ')) || name == "." || name == ".."
}

/// The file of which `name` is an NTFS stream, as `.git:x` writes beside `.git`.
fn stem(name: &BStr) -> &BStr {
    let stem = match name.find_byte(b':') {
        Some(colon) if colon > 0 => &name[..colon],
        _ => name,
    };
    let trimmed = stem.trim_end_with(|c| c == '.' || c == ' ');
    if trimmed.is_empty() { stem.as_bstr() } else { trimmed.as_bstr() }
}

/// Whether `name` can be an NTFS 8.3 short name of a file whose name starts with `start`: `start~1`, or from the fifth
/// such file on a hash, of which `hash` is the beginning.
fn is_short_name(name: &BStr, start: &str, hash: Option<&str>) -> bool {
    // `env~1.loc` is `.env.local`: the extension does not matter.
    let base = stem(name);
    let base = base.split(|b| *b == b'.').next().unwrap_or(base);
    let Some((front, number)) = base.split_once_str("~") else { return false };
    let numbered =
        number.first().is_some_and(|d| (b'1'..=b'9').contains(d)) && number.iter().all(u8::is_ascii_digit);
    let hashed = hash.is_some_and(|hash| front.len() >= 2 && hash.as_bytes().starts_with(front));
    numbered && (front == start.as_bytes() || hashed)
}

fn has_control(name: &BStr) -> bool {
    name.utf8_chunks().any(|chunk| chunk.valid().chars().any(char::is_control))
}

/// Why Windows could not check `path` out: worth a warning, not a violation.
pub fn windows_warning(path: &BStr) -> Option<&'static str> {
    path.split(|b| *b == b'/').find_map(|name| {
        let name = name.as_bstr();
        if component::Options::default().protect_windows
            && gix::validate::path::component_is_windows_device(name)
        {
            Some("a name that Windows reserves for a device")
        } else if name.iter().any(|b| b"\\:<>\"|?*".contains(b)) {
            Some("a character that Windows does not allow in names")
        } else if name.ends_with(b".") || name.ends_with(b" ") {
            Some("a name that ends in a dot or a space, which Windows drops")
        } else {
            None
        }
    })
}

/// The pairs of different paths, or of different folders above them, that are one on some machine: equal after case
/// folding, NFC and what else [`fold_path`] does. Each pair is told once, in order; below a colliding folder nothing more
/// is told.
pub fn collisions<'a>(paths: impl IntoIterator<Item = &'a BStr>) -> Vec<(BString, BString)> {
    let mut spellings: HashMap<BString, Vec<&'a BStr>> = HashMap::new();
    let mut pairs = Vec::new();
    for path in paths {
        for prefix in parents(path).chain([path]).filter(|prefix| !prefix.is_empty()) {
            let known = spellings.entry(fold_path(prefix)).or_default();
            if known.contains(&prefix) {
                continue;
            }
            let parent = parent(prefix);
            for other in known.iter() {
                let other_parent = self::parent(other);
                if parent == other_parent || fold_path(parent) != fold_path(other_parent) {
                    pairs.push(((*other).min(prefix).to_owned(), (*other).max(prefix).to_owned()));
                }
            }
            known.push(prefix);
        }
    }
    pairs.sort();
    pairs.dedup();
    pairs
}

fn parent(path: &BStr) -> &BStr {
    path.rfind_byte(b'/').map_or(BStr::new(""), |slash| path[..slash].as_bstr())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Field reports 1.55, 1.56, 1.58 and the built-in list.
    #[test]
    fn unsafe_names_are_seen_in_every_disguise() {
        use UnsafeName::{
            Control, DotComponent, DotGit, Empty, Environment, GitAttributes, GitModules, Loops,
        };
        for (class, paths) in [
            (
                DotGit,
                &[
                    ".git",
                    ".git/config",
                    "a/.git/hooks/x",
                    ".GIT/hooks",
                    ".Git",
                    ".g\u{200c}it",
                    "\u{feff}.git/x",
                    ".git\u{200b}",
                    ".git.",
                    ".git ",
                    ".git . .",
                    ".git::$INDEX_ALLOCATION/x",
                    ".git:$I30:$INDEX_ALLOCATION",
                    ".git:stream",
                    "git~1",
                    "GIT~1/config",
                    "git~2",
                    "git~1.",
                    "git~1::$INDEX_ALLOCATION",
                    "a\\.git\\config",
                    ".git\\config",
                ][..],
            ),
            (
                DotComponent,
                &[
                    "..",
                    ".",
                    "a/../b",
                    "a/./b",
                    ".\u{200c}.",
                    ".. ",
                    "..::$INDEX_ALLOCATION",
                    "..\\x",
                    "a\\..\\b",
                    "...",
                    ". .",
                    "\u{200b}..",
                    ". ",
                ],
            ),
            (Empty, &["", "/a", "a//b", "a/"]),
            (Control, &["a\nb.py", "x\u{1b}[2Jy", "tab\t", "del\u{7f}", "c1\u{9b}", "dir\r/x"]),
            (
                GitModules,
                &[
                    ".gitmodules",
                    "a/.GitModules",
                    ".gitmod\u{200d}ules",
                    ".gitmodules ",
                    "gitmod~1",
                    "GITMOD~4",
                    "gi7eba~1",
                    "gi7eb~12",
                    ".gitmodules:x",
                ],
            ),
            (
                GitAttributes,
                &[
                    ".gitattributes",
                    "sub/.gitattributes",
                    ".GITATTRIBUTES.",
                    "gitatt~1",
                    "gi7d29~1",
                    ".gitattributes::$DATA",
                ],
            ),
            (
                Environment,
                &[
                    ".env",
                    ".env.local",
                    "a/.ENV",
                    ".envrc",
                    ".env.d/secret",
                    ".e\u{200b}nv",
                    "env~1",
                    "ENV~1.LOC",
                ],
            ),
            (
                Loops,
                &[
                    ".loops",
                    ".loops/policy.toml",
                    ".LOOPS/x",
                    ".loops./x",
                    ".loop\u{17f}/x",
                    "LOOPS~1/x",
                    ".loops\\policy.toml",
                    ".loops:x/y",
                ],
            ),
        ] {
            for path in paths {
                assert_eq!(classify((*path).into()), Some(class), "{path:?}");
            }
        }
    }

    #[test]
    fn ordinary_names_are_safe() {
        for path in [
            "src/auth/token.rs",
            ".gitignore",
            ".github/workflows/ci.yml",
            "a/.loops/x",
            "git",
            "git~",
            "git~x",
            "env",
            "env~",
            "environment.py",
            "loops/x",
            "digit~1",
            ".gitkeep",
            ".mailmap",
            "..a",
            "a..",
            "a b",
            "-rf",
            ":(top)x",
            "café",
            "[x]*?",
            "a\\b",
            "gitmodules",
            "gi7eba",
            "xgi7eba~1",
            "g~1",
            "a:b",
            "~1",
            "con",
        ] {
            assert_eq!(classify(path.into()), None, "{path:?}");
        }
        assert_eq!(classify(b"latin\xe9".as_bstr()), None);
    }

    #[test]
    fn windows_only_warns() {
        for path in ["con", "a/NUL.txt", "lpt1", "a:b", "what?", "end.", "end ", "a\\b"] {
            assert!(windows_warning(path.into()).is_some(), "{path}");
        }
        for path in ["console", "src/a.rs", ".gitignore", "-rf"] {
            assert_eq!(windows_warning(path.into()), None, "{path}");
        }
    }

    #[test]
    fn collisions_name_the_first_point_where_two_paths_meet() {
        let check = |paths: &[&str]| -> Vec<String> {
            let pairs = collisions(paths.iter().map(|path| BStr::new(*path)));
            pairs.iter().map(|(a, b)| format!("{a} = {b}")).collect()
        };
        assert_eq!(
            check(&["Makefile", "makefile", "MAKEFILE"]),
            ["MAKEFILE = Makefile", "MAKEFILE = makefile", "Makefile = makefile"]
        );
        assert_eq!(check(&["Tests/x.py", "tests/x.py", "tests/y.py"]), ["Tests = tests"]);
        assert_eq!(check(&["a/Tests", "a/tests/y"]), ["a/Tests = a/tests"]);
        assert_eq!(check(&["caf\u{e9}", "cafe\u{301}"]), ["cafe\u{301} = caf\u{e9}"]);
        assert_eq!(check(&["te\u{200b}st.py", "test.py"]), ["test.py = te\u{200b}st.py"]);
        assert_eq!(check(&["a\\b", "a/b"]), ["a/b = a\\b"]);
        assert_eq!(check(&["a/b", "a/c", "a", "A2/b", "a/b"]), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn classifying_is_total(path in proptest::collection::vec(any::<u8>(), 0..32)) {
            let _ = (classify(path.as_bstr()), windows_warning(path.as_bstr()));
        }

        /// Whatever gix would refuse to check out as `.git`, for HFS+ and NTFS alike, is refused here.
        #[test]
        fn never_laxer_than_git(name in "[.gGitT~1: \u{200c}\u{feff}$]{1,8}") {
            let rules = component::Options { protect_windows: false, protect_hfs: true, protect_ntfs: true };
            if component(name.as_str().into(), None, rules).is_err() {
                prop_assert!(matches!(classify(name.as_str().into()), Some(UnsafeName::DotGit | UnsafeName::DotComponent)));
            }
        }

        #[test]
        fn collisions_are_found_whatever_the_order(
            mut paths in proptest::collection::vec("[aA\u{e9}\u{c9}]{1,2}(/[bB.]{1,2}){0,2}", 0..8)
        ) {
            let forward = collisions(paths.iter().map(|path| BStr::new(path.as_str())));
            let unique: std::collections::HashSet<_> =
                paths.iter().flat_map(|p| parents(BStr::new(p.as_str())).chain([BStr::new(p.as_str())])).collect();
            let folded: std::collections::HashSet<_> = unique.iter().map(|path| fold_path(path)).collect();
            prop_assert_eq!(forward.is_empty(), unique.len() == folded.len());
            paths.reverse();
            prop_assert_eq!(forward, collisions(paths.iter().map(|path| BStr::new(path.as_str()))));
        }
    }
}
