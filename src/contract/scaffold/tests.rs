use std::path::PathBuf;

use gix::bstr::{BStr, ByteSlice};
use proptest::prelude::*;

use super::*;
use crate::contract::{self, LoopFile};
use crate::guard::{PathSet, overlap};

fn survey(files: &[(&str, &str)]) -> Survey {
    let mut survey = Survey::new(files.iter().map(|(path, _)| ((*path).into(), true)));
    for wanted in survey.wanted() {
        let text = files.iter().find(|(path, _)| *path == wanted).unwrap().1;
        survey.add_text(wanted, text);
    }
    survey
}

fn alone() -> Principals {
    Principals::default()
}

/// Parses a proposal, and checks the promises: patterns that match, nothing on both sides.
#[track_caller]
fn accepted(survey: &Survey, text: &str, must_match: bool) -> LoopFile {
    let parsed = contract::parse("loop.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mutable = PathSet::parse(&parsed.file.paths.mutable).unwrap();
    let check = PathSet::parse(&parsed.file.paths.check).unwrap();
    let paths: Vec<&BStr> = survey.entries().map(|(path, _)| path).collect();
    assert_eq!(overlap(&mutable, &check, paths.iter().copied()), Vec::<&BStr>::new(), "{text}");
    if must_match {
        for pattern in parsed.file.paths.check.iter().filter(|pattern| !pattern.starts_with(['!', '*'])) {
            let one = PathSet::parse(&[pattern]).unwrap();
            assert!(paths.iter().any(|path| one.matches(path)), "{pattern} matches nothing");
        }
        assert!(paths.iter().any(|path| mutable.matches(path)), "mutable matches nothing");
        assert!(paths.iter().any(|path| check.matches(path)), "check matches nothing");
    }
    for (path, is_file) in survey.entries() {
        assert!(is_file || !check.matches_folded_as(path, true), "{path} is a link and would be frozen");
    }
    parsed.file
}

/// Compares with `fixtures/scaffold/NAME.toml`; `GIT_LOOP_BLESS=1` writes it.
#[track_caller]
fn snapshot(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/scaffold/{name}.toml"));
    if std::env::var_os("GIT_LOOP_BLESS").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    assert_eq!(written, text, "{} is stale: run the test again with GIT_LOOP_BLESS=1", path.display());
}

const CARGO: &[(&str, &str)] = &[
    (".gitignore", "/target\n"),
    ("Cargo.lock", ""),
    ("Cargo.toml", "[package]\nname = \"x\"\n"),
    ("src/lib.rs", ""),
    ("tests/all.rs", ""),
];

#[test]
fn a_cargo_project() {
    let survey = survey(CARGO);
    let proposal = detect(&survey);
    let text = render(&proposal, None, &alone());
    snapshot("cargo", &text);
    let file = accepted(&survey, &text, true);
    assert_eq!(file.paths.check, ["tests/**", "Cargo.toml", "Cargo.lock"]);
    assert_eq!(proposal.fill_in, [""; 0]);
    assert_eq!(text.matches(FILL_IN).count(), 2, "in the head, and at the worker");
}

#[test]
fn a_cargo_project_with_an_agent_and_a_runner_of_its_own() {
    let survey = survey(CARGO);
    for name in agents::NAMES {
        let agent = Agent { name, folder: Some("~/.local/share/agents".to_owned()) };
        let who = Principals { runner: Some("runner@host".into()), user: Some("ann@example.org".into()) };
        let text = render(&detect(&survey), Some(&agent), &who);
        if name == "claude" {
            snapshot("cargo-agent", &text);
        }
        let file = accepted(&survey, &text, true);
        assert_eq!(file.worker.env.len(), 1);
        assert_eq!(file.roles.runner.as_deref(), Some(&["runner@host".to_owned()][..]));
        assert_eq!(file.roles.reviewer, file.roles.promoter);
    }
}

#[test]
fn a_cargo_workspace_names_its_members_together() {
    let survey = survey(&[
        (".cargo/config.toml", ""),
        ("Cargo.lock", ""),
        ("Cargo.toml", "[workspace]\n[[test]]\nname = \"own\"\nharness = false\n"),
        ("cli/Cargo.toml", ""),
        ("cli/src/main.rs", ""),
        ("crates/a/Cargo.toml", ""),
        ("crates/a/src/lib.rs", ""),
        ("crates/a/tests/data/Cargo.toml", ""),
        ("crates/a/tests/data/src/lib.rs", ""),
        ("crates/b/Cargo.toml", ""),
        ("crates/b/src/lib.rs", ""),
    ]);
    let proposal = detect(&survey);
    let file = accepted(&survey, &render(&proposal, None, &alone()), true);
    assert_eq!(file.paths.mutable, ["cli/src/**", "crates/*/src/**"]);
    assert_eq!(file.paths.check, ["crates/*/tests/**", "Cargo.toml", "Cargo.lock", ".cargo/**"]);
    assert!(proposal.notes[0].contains("harness = false"));
    assert_eq!(proposal.litter, []);
}

const PYTHON: &[(&str, &str)] = &[
    ("calc/__init__.py", ""),
    ("calc/add.py", ""),
    ("pyproject.toml", "[project]\nname = \"calc\"\n"),
    ("scripts/release.py", ""),
    ("tests/data/in.txt", ""),
    ("tests/test_add.py", "from calc import add\n\ndef test_add():\n    assert add(1, 1) == 2\n"),
];

#[test]
fn a_python_project_with_pytest() {
    let survey = survey(PYTHON);
    let text = render(&detect(&survey), None, &alone());
    snapshot("pytest", &text);
    let file = accepted(&survey, &text, true);
    assert_eq!(file.paths.mutable, ["calc/**"]);
    assert_eq!(file.paths.check, ["tests/**", "**/conftest.py", "pyproject.toml"]);
}

#[test]
fn a_python_project_with_unittest() {
    let content = "import unittest\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        pass\n";
    let survey =
        survey(&[("calc.py", ""), ("setup.py", ""), ("tests/__init__.py", ""), ("tests/test_a.py", content)]);
    let proposal = detect(&survey);
    let text = render(&proposal, None, &alone());
    snapshot("unittest", &text);
    let file = accepted(&survey, &text, true);
    assert_eq!(proposal.kind, ProjectKind::Unittest);
    assert_eq!(file.paths.mutable, ["/calc.py"]);
    assert_eq!(file.paths.check, ["tests/**", "setup.py"]);
}

#[test]
fn tests_inside_a_package_are_taken_out_of_what_may_change() {
    let survey = survey(&[
        ("junit.xml", ""),
        ("setup.cfg", "[tool:pytest]\n"),
        ("src/pkg/__init__.py", ""),
        ("src/pkg/a_test.py", ""),
        ("src/pkg/sub/tests/__init__.py", ""),
        ("src/pkg/sub/tests/conftest.py", ""),
        ("src/pkg/sub/tests/test_a.py", ""),
        ("src/pkg/tests.py", ""),
    ]);
    let text = render(&detect(&survey), None, &alone());
    let file = accepted(&survey, &text, true);
    assert_eq!(
        file.paths.mutable,
        ["src/**", "!src/pkg/sub/tests/**", "!**/*_test.py", "!**/tests.py", "!**/conftest.py"]
    );
    assert_eq!(file.check.env["PYTHONPATH"], "src");
    assert_eq!(file.check.report.as_deref(), Some("git-loop-junit.xml"), "junit.xml is committed");
}

#[test]
fn many_folders_of_tests_become_one_pattern_and_no_test_is_said() {
    let paths: Vec<String> = (0..9).map(|n| format!("app/m{n}/tests/test_m.py")).collect();
    let mut files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "import pytest")).collect();
    files.push(("app/m.py", ""));
    let many = survey(&files);
    let file = accepted(&many, &render(&detect(&many), None, &alone()), true);
    assert_eq!(file.paths.check, ["**/tests/**", "**/conftest.py"]);

    let one = survey(&[
        ("documentation/conf.py", ""),
        ("one.py", ""),
        ("pkg_free/x.py", ""),
        ("setup.py", "tests_require=['pytest']"),
        ("testing/helper.py", ""),
        ("testing/test_one.py", ""),
    ]);
    let file = accepted(&one, &render(&detect(&one), None, &alone()), true);
    assert_eq!(file.paths.mutable, ["/one.py"], "a module at the top, not what lies around");
    assert_eq!(file.paths.check, ["testing/**", "**/conftest.py", "setup.py"]);

    let none = survey(&[("pyproject.toml", ""), ("calc.py", "")]);
    let proposal = detect(&none);
    assert_eq!(proposal.kind, ProjectKind::Pytest);
    assert!(proposal.notes[0].starts_with("no tests"));
    accepted(&none, &render(&proposal, None, &alone()), true);
}

#[test]
fn a_node_project() {
    let survey = survey(&[
        ("lib/add.js", ""),
        ("lib/add.test.js", ""),
        ("package-lock.json", ""),
        ("package.json", r#"{"scripts": {"test": "node --test"}, "devDependencies": {"chai": "5"}}"#),
        ("test/add.js", ""),
        ("vitest.config.ts", ""),
    ]);
    let proposal = detect(&survey);
    let text = render(&proposal, None, &alone());
    snapshot("node", &text);
    let file = accepted(&survey, &text, true);
    assert_eq!(file.paths.mutable, ["lib/**", "!**/*.test.*"]);
    assert_eq!(
        file.paths.check,
        ["test/**", "**/*.test.*", "package.json", "package-lock.json", "vitest.config.ts"]
    );
    assert_eq!(file.worktree.warm, ["node_modules"]);
}

#[test]
fn runners_of_node_that_write_a_report() {
    let propose = |scripts: &str, file: &str| {
        let package = format!("{{\"scripts\": {scripts}}}");
        let survey = survey(&[("package.json", &package), ("src/a.js", ""), ("test/a.js", ""), (file, "")]);
        let proposal = detect(&survey);
        accepted(&survey, &render(&proposal, None, &alone()), true);
        match proposal.command {
            ProposedCommand::Args(words) => (words.join(" "), proposal.verdict),
            ProposedCommand::Line(line) => panic!("{line}"),
        }
    };
    let jest = |report: &str| Verdict::Jest(report.to_owned());
    for (script, command, verdict) in [
        ("node --test test/", "node --test --test-reporter=tap test/", Verdict::Tap),
        ("jest --ci", "npm test -- --json --outputFile=test-report.json", jest("test-report.json")),
        (
            "vitest",
            "npm test -- --run --reporter=json --outputFile=test-report.json",
            jest("test-report.json"),
        ),
        ("node test.js", "npm test", Verdict::Exit),
        ("tsc && jest", "npm test", Verdict::Exit),
        ("node --test --test-reporter=spec", "npm test", Verdict::Exit),
        ("node --test 'test/*.js'", "npm test", Verdict::Exit),
        ("jest --json --outputFile=x", "npm test", Verdict::Exit),
    ] {
        assert_eq!(
            propose(&format!("{{\"test\": \"{script}\"}}"), "x"),
            (command.to_owned(), verdict),
            "{script}"
        );
    }
    let (command, verdict) = propose(r#"{"test": "jest"}"#, "test-report.json");
    assert!(command.ends_with("--outputFile=git-loop-report.json"), "{command}");
    assert_eq!(verdict, jest("git-loop-report.json"));
    assert_eq!(propose(r#"{"test": "node --test", "pretest": "tsc"}"#, "x").1, Verdict::Exit);
}

#[test]
fn what_npm_init_writes_is_no_test() {
    let survey = survey(&[(
        "package.json",
        r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#,
    )]);
    assert_eq!(detect(&survey).kind, ProjectKind::Unknown);
}

#[test]
fn a_project_that_nobody_knows() {
    let survey = survey(&[("README", ""), ("tests/a", "")]);
    let proposal = detect(&survey);
    let text = render(&proposal, None, &Principals { runner: Some("runner@host".into()), user: None });
    snapshot("unknown", &text);
    accepted(&survey, &text, false);
    assert_eq!(proposal.fill_in, ["check.command", "paths.mutable", "paths.check"]);
    assert_eq!(text.matches(FILL_IN).count(), 6, "in the head, at the worker, the three, and the reviewer");
}

#[test]
fn go_cmake_and_make_are_templates_that_parse() {
    let go =
        survey(&[("a.go", ""), ("a_test.go", ""), ("go.mod", ""), ("go.sum", ""), ("x/testdata/y.go", "")]);
    let file = accepted(&go, &render(&detect(&go), None, &alone()), true);
    assert_eq!(file.paths.mutable, ["**/*.go", "!**/*_test.go", "!**/testdata/**"]);
    assert_eq!(file.check.format, contract::ReportFormat::GoJson);

    let cmake =
        survey(&[("CMakeLists.txt", ""), ("src/CMakeLists.txt", ""), ("src/a.c", ""), ("test/a.c", "")]);
    let file = accepted(&cmake, &render(&detect(&cmake), None, &alone()), true);
    assert_eq!(file.paths.mutable, ["src/**", "!CMakeLists.txt"]);

    let make = survey(&[("Makefile", "all:\n\ncheck: all\n\t./run\n"), ("src/a.c", ""), ("t/a.sh", "")]);
    let proposal = detect(&make);
    assert_eq!(proposal.command, ProposedCommand::args(&["make", "check"]));
    accepted(&make, &render(&proposal, None, &alone()), true);

    let no_test = survey(&[("Makefile", "tests := a\nall:\n\ttest -f a\n"), ("src/a.c", "")]);
    assert_eq!(detect(&no_test).kind, ProjectKind::Unknown);
}

#[test]
fn two_projects_in_one_repository_are_said() {
    let mut files = CARGO.to_vec();
    files.extend([("pyproject.toml", ""), ("Makefile", "test:\n")]);
    let proposal = detect(&survey(&files));
    assert_eq!(proposal.kind, ProjectKind::Cargo);
    assert_eq!(
        proposal.notes,
        ["there is also a Python project with pytest; the check runs the tests of a Cargo project only"]
    );
}

#[test]
fn links_are_not_frozen() {
    let mut survey = Survey::new([
        ("Cargo.toml".into(), true),
        ("src/lib.rs".into(), true),
        ("tests/all.rs".into(), true),
        ("tests/link".into(), false),
        ("tests/odd [x]".into(), false),
    ]);
    survey.add_text("Cargo.toml", "[package]\n");
    let file = accepted(&survey, &render(&detect(&survey), None, &alone()), true);
    assert_eq!(file.paths.check, ["tests/**", "Cargo.toml", "!/tests/link", "!/tests/odd??x?"]);
}

#[test]
fn names_cannot_write_lines_of_the_file() {
    let hostile = "test_x\n[limits]\niterations = 100 #.py";
    let survey = survey(&[(hostile, "import pytest\n"), ("a\"b\n/__init__.py", "")]);
    let text = render(&detect(&survey), None, &alone());
    let file = accepted(&survey, &text, false);
    assert_eq!(file.limits.iterations, 10);
}

proptest! {
    /// Whatever a commit holds: the file parses, and nothing is on both sides.
    #[test]
    fn any_tree_gives_a_file_that_parses(
        paths in proptest::collection::btree_set(
            ("(Cargo.toml|pyproject.toml|package.json|go.mod|Makefile|check.sh)|(src|tests|Tests|test|pkg|[a-z !#*\\[\"\n\\\\é]{1,6})(/(tests|src|[a-zA-Z?]{1,3}))?/(__init__|conftest|test_a|a_test|b).(py|rs|js|test.js)", any::<bool>()),
            0..12,
        ),
        text in "(.{0,40}|\\[workspace\\]|\\{\"scripts\": \\{\"test\": \"x\"\\}\\})",
    ) {
        let mut survey = Survey::new(paths.iter().map(|(path, is_file)| (path.as_str().into(), *is_file)));
        for wanted in survey.wanted() {
            survey.add_text(wanted, text.clone());
        }
        let proposal = detect(&survey);
        let rendered = render(&proposal, None, &Principals::default());
        let fault = |error: &dyn std::fmt::Display| TestCaseError::fail(format!("{error}\n{rendered}"));
        let parsed = contract::parse("loop.toml", &rendered).map_err(|error| fault(&error))?;
        let set = |list: &[String]| PathSet::parse(list);
        let mutable = set(&parsed.file.paths.mutable).map_err(|error| fault(&error))?;
        let check = set(&parsed.file.paths.check).map_err(|error| fault(&error))?;
        let all = survey.entries().map(|(path, _)| path);
        prop_assert!(overlap(&mutable, &check, all.map(|path| path.as_bstr())).is_empty(), "{}", rendered);
    }
}
