use proptest::prelude::*;

use super::super::frozen::{check_tree, freeze};
use super::super::testing::Repo;
use super::super::tree::tests::Memory;
use super::*;

type Files<'a> = &'a [(&'a str, &'a str, &'a str)];

const BASE: Files<'static> = &[
    (".gitattributes", "100644", "*.rs text"),
    ("Makefile", "100644", "test: ; pytest"),
    ("README.md", "100644", "readme"),
    ("readme.md", "100644", "already collides"),
    ("src/a.rs", "100644", "a"),
    ("src/out", "120000", "/usr/include"),
    ("tests/one.py", "100644", "1"),
    ("tests/run.sh", "100755", "run"),
    ("vendor/lib", "160000", "1"),
];

struct Terms {
    mutable: PathSet,
    check: PathSet,
    blocked: PathSet,
}

impl Terms {
    fn new(mutable: &[&str]) -> Self {
        let parse = |patterns: &[&str]| PathSet::parse(patterns).unwrap();
        Self {
            mutable: parse(mutable),
            check: parse(&["tests/**", "Makefile", "**/conftest.py"]),
            blocked: parse(&[".github/**", "src/secret/"]),
        }
    }

    fn paths(&self) -> Paths<'_> {
        Paths { mutable: &self.mutable, check: &self.check, blocked: &self.blocked }
    }
}

/// The base with some files removed and others put in their place.
fn with<'a>(without: &[&str], files: Files<'a>) -> Vec<(&'a str, &'a str, &'a str)> {
    let kept = BASE
        .iter()
        .filter(|(path, ..)| !without.contains(path) && !files.iter().any(|(other, ..)| other == path));
    kept.chain(files).copied().collect()
}

fn judge_in(memory: &Memory, mutable: &[&str], candidate: ObjectId) -> TreeJudgement {
    let terms = Terms::new(mutable);
    let base = memory.tree(BASE);
    let frozen = freeze(memory, &base, &terms.check).unwrap();
    judge(memory, terms.paths(), &frozen, &base, &candidate, &[]).unwrap()
}

fn told(violations: &[Violation]) -> Vec<String> {
    let told = violations.iter().map(|v| match &v.other {
        Some(other) => format!("{} {} ({other})", v.what, v.path),
        None => format!("{} {}", v.what, v.path),
    });
    told.collect()
}

/// Drift and blocked paths of the base with these changes, everything being mutable.
fn faults(without: &[&str], files: Files<'_>) -> (Vec<String>, Vec<String>) {
    let memory = Memory::default();
    let judgement = judge_in(&memory, &["**"], memory.tree(&with(without, files)));
    (told(&judgement.drift), told(&judgement.blocked))
}

const NONE: [String; 0] = [];

#[test]
fn an_honest_change_is_clean() {
    let memory = Memory::default();
    let candidate = memory.tree(&with(&[], &[("src/a.rs", "100644", "b"), ("src/new/b.rs", "100644", "b")]));
    let judgement = judge_in(&memory, &["src/**"], candidate);
    assert_eq!((judgement.drift, judgement.blocked, judgement.outside), (vec![], vec![], vec![]));
    assert!(!judgement.unchanged);
    let paths: Vec<_> = judgement.changes.iter().map(|change| change.path.to_string()).collect();
    assert_eq!(paths, ["src/a.rs", "src/new/b.rs"]);

    let judgement = judge_in(&memory, &["src/**"], memory.tree(BASE));
    assert!(judgement.unchanged && judgement.changes.is_empty());

    let candidate = memory.tree(&with(&["src/a.rs"], &[("doc/x", "100644", "x")]));
    assert_eq!(judge_in(&memory, &["doc/y"], candidate).outside, ["doc/x", "src/a.rs"]);
}

/// Field reports 1.2, 1.3, 1.6 and 1.21: the check itself is changed.
#[test]
fn every_way_to_touch_a_check_path_is_drift() {
    let drift = |without: &[&str], files: Files<'_>| faults(without, files).0;
    assert_eq!(
        drift(&[], &[("Makefile", "100644", "test: ; pytest tests/test_ok.py")]),
        ["check_path_edited Makefile"]
    );
    assert_eq!(drift(&["tests/one.py"], &[]), ["check_path_deleted tests/one.py"]);
    assert_eq!(drift(&[], &[("tests/run.sh", "100644", "run")]), ["check_path_mode_changed tests/run.sh"]);
    assert_eq!(drift(&[], &[("tests/one.py", "120000", "1")]), ["check_path_type_changed tests/one.py"]);
    assert_eq!(drift(&[], &[("tests/one.py", "160000", "1")]), ["check_path_type_changed tests/one.py"]);
    assert_eq!(
        drift(
            &[],
            &[("conftest.py", "100644", ""), ("src/conftest.py", "100644", ""), ("tests/x", "100644", "")]
        ),
        ["check_path_added conftest.py", "check_path_added src/conftest.py", "check_path_added tests/x"]
    );
    assert_eq!(
        drift(&["tests/one.py", "tests/run.sh"], &[("tests", "120000", "src")]),
        ["check_folder_replaced tests", "check_path_deleted tests/one.py", "check_path_deleted tests/run.sh"]
    );
    assert_eq!(
        drift(&["tests/one.py"], &[("tests/one.py/x", "100644", "")]),
        ["check_path_deleted tests/one.py", "check_path_added tests/one.py/x"]
    );
    // A renamed test is a deleted test.
    assert_eq!(
        drift(&["tests/one.py"], &[("src/one.py", "100644", "1")]),
        ["check_path_deleted tests/one.py"]
    );
}

/// Field report 1.57: beside the frozen path, on another machine over it.
#[test]
fn a_check_path_in_another_spelling_is_drift() {
    for path in [
        "Tests/x.py",
        "MAKEFILE",
        "makefile",
        "Conftest.py",
        "con\u{200b}ftest.py",
        "te\u{200b}sts/x",
        "tests./x",
        "tests\\x.py",
        "Makefile::$DATA",
    ] {
        let (drift, _) = faults(&[], &[(path, "100644", "x")]);
        assert_eq!(drift, [format!("check_path_added {}", escape_path(path.into()))]);
    }
    assert_eq!(faults(&[], &[("TESTS", "120000", "src")]).0, ["check_folder_replaced TESTS"]);
}

/// What counts is what was frozen, not what the loop has accepted since.
#[test]
fn drift_is_measured_from_the_base() {
    let memory = Memory::default();
    let terms = Terms::new(&["**"]);
    let frozen = freeze(&memory, &memory.tree(BASE), &terms.check).unwrap();
    let green = memory.tree(&with(&[], &[("tests/one.py", "100644", "weak")]));
    let candidate =
        memory.tree(&with(&[], &[("tests/one.py", "100644", "weak"), ("src/a.rs", "100644", "b")]));
    let judgement = judge(&memory, terms.paths(), &frozen, &green, &candidate, &[]).unwrap();
    assert_eq!(told(&judgement.drift), ["check_path_edited tests/one.py"]);
    assert_eq!(judgement.changes.len(), 1);
}

#[test]
fn blocked_paths_are_blocked_in_every_disguise() {
    let blocked = |without: &[&str], files: Files<'_>| faults(without, files).1;
    for (path, what) in [
        (".loops/policy.toml", "loops_rules"),
        (".LOOPS/policy.toml", "loops_rules"),
        (".gitmodules", "gitmodules"),
        ("src/.gitattributes", "gitattributes"),
        (".env.local", "environment_file"),
        ("src/.git/config", "git_control_name"),
        ("src/git~1/config", "git_control_name"),
        ("src/.. /x", "dot_name"),
        ("a\nb.py", "control_character"),
        ("x\u{1b}[2Jy", "control_character"),
        (".github/workflows/ci.yml", "blocked_path"),
        (".GitHub/workflows/ci.yml", "blocked_path"),
        ("src/secret/key", "blocked_path"),
    ] {
        assert_eq!(blocked(&[], &[(path, "100644", "x")]), [format!("{what} {}", escape_path(path.into()))]);
    }
    assert_eq!(blocked(&[".gitattributes"], &[]), ["gitattributes .gitattributes"]);
    assert_eq!(blocked(&[], &[("-rf", "100644", ""), (":(top)x", "100644", "")]), NONE);
}

/// Field reports 1.53 and 1.54.
#[test]
fn a_changed_submodule_link_is_blocked() {
    let blocked = |without: &[&str], files: Files<'_>| faults(without, files).1;
    assert_eq!(blocked(&[], &[("vendor/lib", "160000", "2")]), ["submodule_link_changed vendor/lib"]);
    assert_eq!(blocked(&["vendor/lib"], &[]), ["submodule_link_changed vendor/lib"]);
    assert_eq!(blocked(&[], &[("vendor/lib", "100644", "2")]), ["submodule_link_changed vendor/lib"]);
    assert_eq!(
        blocked(&[], &[(".claude/worktrees/x", "160000", "1")]),
        ["submodule_link_changed .claude/worktrees/x"]
    );
    assert_eq!(blocked(&[], &[("src/secret", "160000", "1")]), ["blocked_path src/secret"]);
}

#[test]
fn a_symlink_may_not_leave_the_tree() {
    for target in [
        "/etc/passwd",
        "../../x",
        "../src/../../x",
        "\\\\host\\share",
        "..\\..\\x",
        "C:\\x",
        "c:x",
        "out/stdio.h",
        "../src/out",
        "../.git/config",
        "../.GIT/config",
        "../git~1/config",
        "x/.. /.. /y",
        "",
        "link",
        "a\0b",
    ] {
        let (_, blocked) = faults(&[], &[("src/link", "120000", target)]);
        assert_eq!(
            blocked,
            [format!("symlink_leaves_tree src/link ({})", escape_path(target.into()))],
            "{target:?}"
        );
    }
    for target in
        ["a.rs", "../src/a.rs", "./x/../a.rs", "missing", "..", "../tests/one.py", "..x", ".gitignore"]
    {
        assert_eq!(faults(&[], &[("src/link", "120000", target)]).1, NONE, "{target:?}");
    }
    let long = "x/".repeat(2049);
    assert_eq!(faults(&[], &[("src/link", "120000", &long)]).1, ["symlink_leaves_tree src/link"]);
}

#[test]
fn a_symlink_is_followed_through_other_symlinks() {
    let blocked = |files: Files<'_>| faults(&[], files).1;
    // Lexically `src/deep/../..` is `.`, but `deep` leads up already.
    assert_eq!(
        blocked(&[("src/deep", "120000", ".."), ("src/link", "120000", "deep/../x")]),
        ["symlink_leaves_tree src/link (deep/../x)"]
    );
    assert_eq!(
        blocked(&[("src/a", "120000", "b"), ("src/b", "120000", "a")]),
        ["symlink_leaves_tree src/a (b)", "symlink_leaves_tree src/b (a)"]
    );
    assert_eq!(blocked(&[("src/d", "120000", "../tests"), ("src/link", "120000", "d/one.py")]), NONE);
}

#[test]
fn a_collision_counts_if_the_candidate_brings_it() {
    let blocked = |without: &[&str], files: Files<'_>| faults(without, files).1;
    assert_eq!(blocked(&[], &[("src/A.rs", "100644", "x")]), ["path_collision src/A.rs (src/a.rs)"]);
    assert_eq!(
        blocked(&[], &[("src/caf\u{e9}", "100644", "x"), ("src/cafe\u{301}", "100644", "y")]),
        ["path_collision src/cafe\u{301} (src/caf\u{e9})", "path_collision src/caf\u{e9} (src/cafe\u{301})"]
    );
    assert_eq!(blocked(&[], &[("SRC/b.rs", "100644", "x")]), ["path_collision SRC (src)"]);
    assert_eq!(blocked(&["src/a.rs", "src/out"], &[("SRC/a.rs", "100644", "a")]), NONE);
    // The base has README.md and readme.md: changing one is no new collision, a third spelling is.
    assert_eq!(blocked(&[], &[("README.md", "100644", "x")]), NONE);
    assert_eq!(
        blocked(&[], &[("Readme.md", "100644", "x")]),
        ["path_collision Readme.md (README.md)", "path_collision Readme.md (readme.md)"]
    );
}

#[test]
fn what_is_named_exactly_may_change() {
    let memory = Memory::default();
    let candidate = memory.tree(&with(
        &[],
        &[
            (".env", "100644", "x"),
            (".gitattributes", "100644", "x"),
            (".github/dependabot.yml", "100644", "x"),
            ("src/A.rs", "100644", "x"),
            ("src/link", "120000", "/usr"),
            ("tab\t", "100644", "x"),
            ("vendor/lib", "160000", "2"),
        ],
    ));
    let exact =
        [".env", ".gitattributes", ".github/dependabot.yml", "src/A.rs", "src/link", "tab\t", "vendor/lib"];
    let judgement = judge_in(&memory, &exact, candidate);
    assert_eq!((judgement.blocked, judgement.outside), (vec![], vec![]));
    let wild: Vec<String> = exact.iter().map(|path| format!("{path}*")).collect();
    let wild: Vec<&str> = wild.iter().map(String::as_str).collect();
    let judgement = judge_in(&memory, &wild, candidate);
    assert_eq!((judgement.blocked.len(), judgement.outside.len()), (7, 0));

    // Check wins over mutable; and no contract can allow what writes into a repository's control folder.
    let candidate =
        memory.tree(&with(&[], &[("tests/one.py", "100644", "x"), (".git/config", "100644", "x")]));
    let judgement = judge_in(&memory, &["tests/one.py", ".git/config"], candidate);
    assert_eq!(told(&judgement.drift), ["check_path_edited tests/one.py"]);
    assert_eq!(told(&judgement.blocked), ["git_control_name .git/config"]);
}

#[test]
fn a_malformed_candidate_is_a_violation_and_a_malformed_base_an_error() {
    let memory = Memory::default();
    let terms = Terms::new(&["**"]);
    let base = memory.tree(BASE);
    let frozen = freeze(&memory, &base, &terms.check).unwrap();
    let bad = memory.raw(b"100644 b\0aaaaaaaaaaaaaaaaaaaa100644 a\0aaaaaaaaaaaaaaaaaaaa");
    let judgement = judge(&memory, terms.paths(), &frozen, &base, &bad, &[]).unwrap();
    assert_eq!(told(&judgement.blocked), ["malformed_tree  (the entries are not in git's order)"]);
    assert!(judge(&memory, terms.paths(), &frozen, &bad, &base, &[]).is_err());
    assert!(judge(&memory, terms.paths(), &frozen, &base, &memory.blob("missing"), &[]).is_ok());
    assert!(
        judge(&memory, terms.paths(), &frozen, &base, &ObjectId::null(gix::hash::Kind::Sha1), &[]).is_err()
    );
    let found = Violation::new("x".into(), "nested_repository");
    let judgement =
        judge(&memory, terms.paths(), &frozen, &base, &base, std::slice::from_ref(&found)).unwrap();
    assert_eq!(judgement.blocked, [found]);
}

#[test]
fn a_violation_is_written_and_read_back() {
    let violation = Violation::with(b"a\nb\xff".as_bstr(), "path_collision", "A\nb".into());
    let json = serde_json::to_string(&violation).unwrap();
    assert_eq!(json, r#"{"path":"a\\x0ab\\xff","what":"path_collision","other":"A\\x0ab"}"#);
    assert_eq!(serde_json::from_str::<Violation>(&json).unwrap(), violation);
    let plain = Violation::new("a".into(), "blocked_path");
    assert_eq!(serde_json::to_string(&plain).unwrap(), r#"{"path":"a","what":"blocked_path"}"#);
}

/// Field reports 1.55 to 1.58 with trees that real git stores: `git mktree` takes all of these.
#[test]
fn hostile_trees_of_real_git_are_judged() {
    let repo = Repo::new();
    let file = repo.blob("x");
    let hooks = repo.mktree(&[("100755", file, b"pre-commit")]);
    let src = repo.mktree(&[("100644", file, b"a.rs")]);
    let base = repo.mktree(&[("040000", src, b"src"), ("040000", src, b"tests")]);
    let terms = Terms { check: PathSet::parse(&["tests/**"]).unwrap(), ..Terms::new(&["**"]) };
    let frozen = freeze(repo.gix(), &base, &terms.check).unwrap();
    assert_eq!(repo.git(&["ls-tree", "-r", "--name-only", &frozen.tree.to_string()]), "tests/a.rs\n");
    let mut names: Vec<(&[u8], &str)> = vec![
        (b".GIT", "git_control_name"),
        (b".git", "git_control_name"),
        (".g\u{200c}it".as_bytes(), "git_control_name"),
        (b"git~1", "git_control_name"),
        (b".git.", "git_control_name"),
        (b".git::$INDEX_ALLOCATION", "git_control_name"),
        (b"..", "dot_name"),
        (".\u{200c}.".as_bytes(), "dot_name"),
        (b".. ", "dot_name"),
        (b"..::$INDEX_ALLOCATION", "dot_name"),
        (b"a\nb.py", "control_character"),
        (b"x\x1b[2Jy", "control_character"),
        (b"SRC", "path_collision"),
    ];
    for (name, what) in names.drain(..) {
        let mut entries =
            vec![("040000", src, &b"src"[..]), ("040000", src, b"tests"), ("040000", hooks, name)];
        entries.sort_by_key(|entry| entry.2);
        let candidate = repo.mktree(&entries);
        let judgement = judge(repo.gix(), terms.paths(), &frozen, &base, &candidate, &[]).unwrap();
        assert_eq!(judgement.changes.len(), 1, "{name:?}");
        let found: Vec<_> = judgement.blocked.iter().map(|v| v.what.as_str()).collect();
        assert_eq!(found, [what], "{}", escape_path(name.as_bstr()));
    }
    for (name, what) in [
        ("Tests".as_bytes(), "check_path_added Tests/pre-commit"),
        ("te\u{200b}sts".as_bytes(), r"check_path_added te\u{200b}sts/pre-commit"),
    ] {
        let candidate =
            repo.mktree(&[("040000", src, b"src"), ("040000", src, b"tests"), ("040000", hooks, name)]);
        let judgement = judge(repo.gix(), terms.paths(), &frozen, &base, &candidate, &[]).unwrap();
        assert_eq!(told(&judgement.drift), [what]);
        let restored = check_tree(repo.gix(), &candidate, &frozen, &terms.check).unwrap();
        assert_eq!(restored, base);
    }
}

#[test]
fn a_sha256_repository_is_judged_the_same() {
    let repo = Repo::with_format("sha256");
    let tree = |text: &str| {
        repo.mktree(&[("100644", repo.blob(text), b"one.py"), ("120000", repo.blob("/etc"), b"x")])
    };
    let empty = repo.mktree(&[("100644", repo.blob("1"), b"one.py")]);
    let terms = Terms { check: PathSet::parse(&["one.py"]).unwrap(), ..Terms::new(&["**"]) };
    let frozen = freeze(repo.gix(), &empty, &terms.check).unwrap();
    assert_eq!(frozen.tree, empty);
    let judgement = judge(repo.gix(), terms.paths(), &frozen, &empty, &tree("2"), &[]).unwrap();
    assert_eq!(told(&judgement.drift), ["check_path_edited one.py"]);
    assert_eq!(told(&judgement.blocked), ["symlink_leaves_tree x (/etc)"]);
    let seen = check_tree(repo.gix(), &tree("2"), &frozen, &terms.check).unwrap();
    assert_eq!(seen, tree("1"));
}

/// Field report 1.47: a replacement ref gives other content for a tree.
#[test]
fn a_replaced_tree_is_not_judged_by_its_replacement() {
    let repo = Repo::new();
    let tree = |text: &str| {
        let dir = repo.mktree(&[("100644", repo.blob(text), b"one.py")]);
        repo.mktree(&[("040000", dir, b"tests")])
    };
    let (base, weak) = (tree("strong"), tree("weak"));
    repo.git(&["replace", &weak.to_string(), &base.to_string()]);
    let gix = gix::open_opts(repo.path(), gix::open::Options::isolated()).unwrap();
    let terms = Terms { check: PathSet::parse(&["tests/**"]).unwrap(), ..Terms::new(&["**"]) };
    let frozen = freeze(&gix, &base, &terms.check).unwrap();
    match judge(&gix, terms.paths(), &frozen, &base, &weak, &[]) {
        Ok(judgement) => assert_eq!(told(&judgement.drift), ["check_path_edited tests/one.py"]),
        Err(error) => assert!(error.to_string().contains("its content is that of"), "{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// Any bytes as names, any modes, any contents: there is a judgement, it is the same each time, and a tree that
    /// differs shows a change.
    #[test]
    fn judging_is_total(
        names in proptest::collection::btree_map(
            proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'.'), Just(b'a'), Just(b'~')], 1..6), (0..4_usize, "[./a\\\\:]{0,6}"), 0..6)
    ) {
        let memory = Memory::default();
        let terms = Terms::new(&["**"]);
        let base = memory.tree(BASE);
        let frozen = freeze(&memory, &base, &terms.check).unwrap();
        let modes = [Mode::File, Mode::Executable, Mode::Symlink, Mode::Gitlink];
        let entries = names
            .iter()
            .map(|(name, (mode, text))| Entry { mode: modes[*mode], name: name.clone().into(), id: memory.blob(text) })
            .collect();
        let candidate = memory.raw(&tree::serialize(entries));
        let judgement = judge(&memory, terms.paths(), &frozen, &base, &candidate, &[]).unwrap();
        prop_assert_eq!(&judgement, &judge(&memory, terms.paths(), &frozen, &base, &candidate, &[]).unwrap());
        prop_assert!(!judgement.changes.is_empty() || !judgement.blocked.is_empty());
    }
}
