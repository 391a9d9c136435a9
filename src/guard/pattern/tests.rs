use super::super::testing::Repo;
use super::*;
use crate::contract::pattern::is_undelimited;
use proptest::prelude::*;

fn set(patterns: &[&str]) -> PathSet {
    PathSet::parse(patterns).unwrap()
}

#[test]
fn the_last_pattern_that_covers_a_path_decides() {
    for (patterns, inside, outside) in [
        (
            &["src/auth/**"][..],
            &["src/auth/a.rs", "src/auth/x/y.rs"][..],
            &["src/auth", "src/a.rs", "x/src/auth/a"][..],
        ),
        (&["tests/"], &["tests/a", "x/tests/a/b"], &["tests", "tests.rs"]),
        (&["/tests/"], &["tests/a"], &["x/tests/a"]),
        (
            &["Cargo.lock"],
            &["Cargo.lock", "crates/x/Cargo.lock", "Cargo.lock/below"],
            &["cargo.lock", "Cargo.lock2"],
        ),
        (&["/Cargo.lock"], &["Cargo.lock"], &["crates/x/Cargo.lock"]),
        (&["**/conftest.py"], &["conftest.py", "a/b/conftest.py"], &["a/xconftest.py", "conftest.pyc"]),
        (&["a/**/z"], &["a/z", "a/b/z", "a/b/c/z", "a/z/below"], &["a/zz", "b/a/z"]),
        (&["*.rs"], &["a.rs", "x/y.rs", "x.rs/below"], &["a.rsx"]),
        (&["src/*.rs"], &["src/a.rs"], &["src/x/a.rs", "x/src/a.rs"]),
        (&["**"], &["a", "a/b/c"], &[]),
        (&["src"], &["src/a/b", "x/src/a", "src"], &["srcs/a"]),
        (&["**", "!tests/**"], &["src/a"], &["tests/a", "tests/x/y"]),
        (&["src/**", "!src/secret/**", "src/secret/ok"], &["src/a", "src/secret/ok"], &["src/secret/key"]),
        (&["*", "!src/"], &["a", "b/c"], &["src/x", "b/src/x"]),
        (&["!a", "a"], &["a"], &["b"]),
        (&["a", "!a"], &[], &["a", "a/b"]),
        (&[r"\!x", r"\#y", r"a\ ", r"\*"], &["!x", "#y", "a ", "*"], &["x", "y", "a", "b"]),
        (&["[a-c]?.[!x]"], &["bq.y"], &["dq.y", "bq.x", "b/.y"]),
        (&["a\nb.py"], &["a\nb.py"], &["a", "b.py"]),
        (&["-rf", ":(top)x"], &["-rf", ":(top)x"], &["x"]),
        (&["tests/é*"], &["tests/éa"], &["tests/e\u{301}a"]),
    ] {
        let set = set(patterns);
        for path in inside {
            assert!(set.matches((*path).into()), "{patterns:?} {path}");
        }
        for path in outside {
            assert!(!set.matches((*path).into()), "{patterns:?} {path}");
        }
    }
    assert!(!PathSet::parse::<&str>(&[]).unwrap().matches("a".into()));
    assert!(set(&["tests/*"]).matches(b"tests/\xff\n".as_bstr()));
}

#[test]
fn a_pattern_that_can_only_be_a_mistake_is_refused() {
    for (pattern, why) in [
        ("", "is empty"),
        (" \t", "is empty"),
        ("#x", "comment"),
        ("!", "names nothing"),
        ("/", "names nothing"),
        ("!/", "names nothing"),
        ("//", "names nothing"),
        ("!!a", "negated twice"),
        ("./src/**", "start at the root"),
        ("src/../x", "start at the root"),
        ("a//b", "empty component"),
        ("a//", "empty component"),
        ("a\\", "lone backslash"),
        ("a\\/b", "escapes a slash"),
        ("[ab", "without its `]`"),
        ("[]", "without its `]`"),
        ("[[:alpha:]", "without its `]`"),
        ("a[/]b", "slash between brackets"),
        ("a ", "ends in a space"),
        ("a\\\\ ", "ends in a space"),
        ("a\0b", "NUL"),
        ("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a", "more wildcards"),
        ("**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**", "more wildcards"),
    ] {
        let error = PathSet::parse(&["ok", pattern]).unwrap_err();
        assert_eq!((error.index, error.pattern.as_str()), (1, pattern));
        assert!(error.why.contains(why), "{pattern:?}: {}", error.why);
    }
    let error = PathSet::parse(&["\u{1b}[2J ["]).unwrap_err().to_string();
    assert!(error.starts_with(r"pattern 1 `\x1b[2J [` has a `[`"), "{error}");
}

/// Field report 1.57.
#[test]
fn a_folded_match_sees_through_spellings() {
    let check =
        set(&["tests/**", "Makefile", "**/conftest.py", "caf\u{e9}/", "src/[A-C]x.rs", r"dot\.", "*.Cfg. "]
            .map(|pattern| if pattern == "*.Cfg. " { r"*.Cfg.\ " } else { pattern }));
    for path in [
        "Tests/x.py",
        "TESTS",
        "makefile",
        "MAKEFILE.",
        "a/Conftest.py",
        "a/con\u{200b}ftest.py",
        "conftest.py::$DATA",
        "cafe\u{301}/x",
        "CAF\u{c9}/x",
        "tests ./x",
        "tests\\x",
        "te\u{17f}ts/x",
        "src/bx.rs",
        "src/BX.rs",
        "dot",
        "a.cfg",
    ] {
        assert!(check.matches_folded(path.into()) != (path == "TESTS"), "{path:?}");
        assert!(path == "src/BX.rs" || !check.matches(path.into()), "{path:?}");
    }
    assert!(!check.matches_folded("src/dx.rs".into()));
    assert!(!check.matches_folded("caf\u{e9}".into()));
    assert!(check.matches_folded_as("caf\u{e9}".into(), true));
    // An exclusion only counts under the very spelling that it has.
    let check = set(&["tests/**", "!tests/local.py"]);
    assert!(!check.matches_folded("tests/local.py".into()));
    assert!(check.matches_folded("tests/LOCAL.py".into()));
    assert!(check.matches_folded("tests/other.py".into()));
}

#[test]
fn a_literal_names_one_path_exactly() {
    let mutable =
        set(&[".env", "/sub/.gitattributes", "src/**", r"a\*b", "dir/", ".loops/x", "!.loops/x", "e\u{301}"]);
    for path in [".env", "sub/.gitattributes", "a*b", "e\u{301}"] {
        assert!(mutable.is_literal(path.into()), "{path}");
    }
    for path in ["x/.env", ".ENV", "src/a", "src/**", "dir", "dir/a", ".loops/x", "sub", "\u{e9}", r"a\*b"] {
        assert!(!mutable.is_literal(path.into()), "{path}");
    }
}

/// Whether real git ignores each path when `.gitignore` holds only this pattern.
fn git_covers(repo: &Repo, pattern: &str, paths: &[String]) -> Vec<bool> {
    std::fs::write(repo.path().join(".gitignore"), format!("{pattern}\n")).unwrap();
    let input = paths.join("\0") + "\0";
    let args = ["check-ignore", "--no-index", "-z", "--stdin", "-v", "-n"];
    let output = repo.git_with(&args, input.as_bytes(), &[0, 1]);
    // Four fields for each path: source, line, pattern, path.
    let fields: Vec<&[u8]> = output.split(|b| *b == 0).collect();
    fields.chunks_exact(4).map(|line| !line[0].is_empty()).collect()
}

/// The set's meaning, with git as the judge of each single pattern.
fn git_matches(repo: &Repo, patterns: &[String], paths: &[String]) -> Vec<bool> {
    let mut matched = vec![false; paths.len()];
    for pattern in patterns {
        let body = pattern.strip_prefix('!').unwrap_or(pattern);
        for (matched, covered) in matched.iter_mut().zip(git_covers(repo, body, paths)) {
            if covered {
                *matched = body.len() == pattern.len();
            }
        }
    }
    matched
}

#[test]
fn agrees_with_git_on_a_table() {
    let repo = Repo::new();
    let paths: Vec<String> = [
        "a",
        "b",
        "a/b",
        "a/b/c",
        "a/b/c/d",
        "x/a",
        "x/a/b",
        "src/a.rs",
        "src/x/a.rs",
        "a.rs",
        "a.b.rs",
        "tests/a",
        "x/tests/y",
        "!a",
        "#a",
        "a b",
        "a ",
        "*",
        "a*b",
        "aXb",
        "[a]",
        "abc/def/ghi",
        "foo/bar/baz",
        "a\\b",
        "-a",
        "é",
        "a/é",
        "a]b",
        "a-b",
        ".a",
        "x/.a/b",
        "A",
        "A/B",
        "a:b",
        "tests.",
        "a\nb",
        "**",
        "foobar",
        "a/x/b",
        "a/x/y/b",
    ]
    .map(String::from)
    .into();
    for pattern in [
        "a",
        "/a",
        "a/",
        "/a/",
        "*",
        "/*",
        "**",
        "/**",
        "**/",
        "*/",
        "*/*",
        "a/*",
        "a/**",
        "a/**/",
        "**/a",
        "**/a/",
        "**/a/**",
        "a/**/b",
        "a**b",
        "a/**b",
        "a/b**",
        "**a",
        "a*",
        "*a",
        "*.rs",
        "src/*.rs",
        "src/**/*.rs",
        "a?b",
        "?",
        "[a]",
        "[!a]",
        "[^a]",
        "[a-b]",
        "[]a]",
        "[]-]",
        "[a-]",
        r"\[a\]",
        r"\*",
        r"a\*b",
        r"\!a",
        r"\#a",
        r"a\ ",
        "a b",
        r"a\\b",
        "-a",
        "é",
        "a/é",
        "?é",
        "[é]",
        "a/b/c",
        "/a/b",
        "b/c",
        "[[:alpha:]]",
        "[[:upper:]]",
        "[[:alpha:][:digit:]]",
        "[[:space:]]",
        "***",
        "a/***/b",
        "foo/**bar",
        "foo*/**",
        "**/**",
        "**/*",
        "a[]]b",
        "a[!]]b",
        "a[\\]]b",
        "[[a]",
        "a:b",
        "tests.",
    ] {
        let ours = set(&[pattern]);
        let theirs = git_covers(&repo, pattern, &paths);
        // A newline cannot stand in a line of .gitignore, but the path with one can be asked about.
        for (path, theirs) in paths.iter().zip(theirs) {
            assert_eq!(ours.matches(path.as_str().into()), theirs, "pattern {pattern:?}, path {path:?}");
        }
    }
}

fn patterns() -> impl Strategy<Value = Vec<String>> {
    let piece = prop_oneof![
        4 => "[abAB.]".boxed(),
        2 => Just("/".to_owned()).boxed(),
        2 => Just("*".to_owned()).boxed(),
        2 => Just("**".to_owned()).boxed(),
        1 => Just("?".to_owned()).boxed(),
        1 => "\\[[!^]?[ab\\]]?[ab.-]{0,3}\\]".boxed(),
        1 => "\\\\[ab*\\[!]".boxed(),
        1 => "[é\\] -]".boxed(),
    ];
    let pattern = (any::<bool>(), proptest::collection::vec(piece, 1..7))
        .prop_map(|(negated, pieces)| format!("{}{}", if negated { "!" } else { "" }, pieces.concat()));
    proptest::collection::vec(pattern, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn agrees_with_git_on_generated_patterns(
        patterns in patterns(),
        paths in proptest::collection::vec("[abABé.*\\]-]{1,3}(/[abAB.]{1,2}){0,3}", 1..12),
    ) {
        let usable = |path: &String| path.split('/').all(|c| c != "." && c != "..");
        let paths: Vec<String> = paths.into_iter().filter(usable).collect();
        let patterns: Vec<String> =
            // git's own reading of `a**` depends on what stands before it; no new contract may have one.
            patterns.into_iter().filter(|p| PathSet::parse(&[p]).is_ok() && !is_undelimited(p)).collect();
        if !paths.is_empty() {
            let ours = PathSet::parse(&patterns).unwrap();
            let theirs = git_matches(Repo::shared(), &patterns, &paths);
            for (path, theirs) in paths.iter().zip(theirs) {
                prop_assert_eq!(ours.matches(path.as_str().into()), theirs, "{:?} {:?}", patterns, path);
            }
        }
    }
}

proptest! {
    #[test]
    fn parsing_and_matching_are_total(
        patterns in proptest::collection::vec("[a*?/\\[\\]!\\\\.: ^é\u{200b}-]{0,12}|.{0,12}", 0..4),
        path in proptest::collection::vec(any::<u8>(), 0..24),
    ) {
        let usable: Vec<&String> = patterns.iter().filter(|p| PathSet::parse(&[p]).is_ok()).collect();
        let set = PathSet::parse(&usable).unwrap();
        let path = path.as_bstr();
        // Whatever matches exactly matches folded.
        prop_assert!(!set.matches(path) || set.matches_folded(path));
        prop_assert!(!set.is_literal(path) || set.matches(path));
    }

    #[test]
    fn a_literal_pattern_matches_its_path(path in "[a-z*?\\[!# \\\\]{1,4}(/[a-z*\\[]{1,4}){0,2}") {
        let escaped: String = path.chars().flat_map(|c| (c != '/').then_some('\\').into_iter().chain([c])).collect();
        let set = PathSet::parse(&[escaped]).unwrap();
        prop_assert!(set.matches(path.as_str().into()));
        prop_assert!(set.is_literal(path.as_str().into()));
        prop_assert!(set.matches_folded(path.to_uppercase().as_str().into()));
    }
}

/// A worker chooses the path: matching it must not take exponential time, or this test never ends.
#[test]
fn hostile_paths_are_matched_in_bounded_time() {
    let set = PathSet::parse(&["**/a/**/a/**/a/**/a/**/b", "*a*a*a*a*a*a*a*a*a*a*a*b"]).unwrap();
    assert!(!set.matches_folded(vec!["a"; 500].join("/").as_str().into()));
    assert!(!set.matches_folded("a".repeat(4000).as_str().into()));
}
