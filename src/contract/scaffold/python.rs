//! Python, with pytest or unittest.

use std::collections::BTreeSet;

use super::survey::{Survey, as_pattern, basename, has_extension};
use super::{ProjectKind, Proposal, ProposedCommand, Verdict};

/// Folders at the top that are not what is worked on.
const NOT_CODE: [&str; 15] = [
    "tests",
    "test",
    "testing",
    "docs",
    "doc",
    "documentation",
    "examples",
    "example",
    "scripts",
    "tools",
    "benchmarks",
    "bench",
    "build",
    "dist",
    "vendor",
];

/// Files at the top that are not what is worked on.
const NOT_MODULES: [&str; 6] =
    ["setup.py", "conftest.py", "noxfile.py", "tasks.py", "fabfile.py", "manage.py"];

/// More folders with tests than these become one pattern.
const FOLDERS_LISTED: usize = 4;

pub(super) fn detect(survey: &Survey) -> Option<Proposal> {
    let marks = ["pyproject.toml", "setup.py", "setup.cfg"];
    let mark = marks.into_iter().find(|file| survey.has(file));
    let test_file = || survey.files().find(|path| is_test_file(path) && basename(path) != "__init__.py");
    let found_by = mark.or_else(test_file)?;
    let has_tests = test_file().is_some();
    let src_layout = survey.files().any(|path| path.starts_with("src/") && is_python(path));
    let uses_pytest = uses_pytest(survey) || !has_tests;

    let mut proposal = if uses_pytest { pytest(survey, found_by) } else { unittest(survey, found_by) };
    mutable(&mut proposal, survey, src_layout);
    for (pattern, why) in test_patterns(survey) {
        proposal.check(pattern, why);
    }
    if uses_pytest {
        proposal.check("**/conftest.py", "pytest runs these; a new one counts too");
    }
    let why = "settings of the tests and of the package";
    let settings = ["pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "pytest.ini"];
    proposal.check_files(survey, &settings.map(|file| (file, why)));
    if src_layout {
        proposal.env.push(("PYTHONPATH", "src".to_owned(), "so that src/ is tested, not an installed copy"));
    }
    if !has_tests {
        proposal.notes.push("no tests were found; a check without any test never passes".to_owned());
    }
    Some(proposal)
}

fn pytest(survey: &Survey, found_by: &str) -> Proposal {
    let report = ["junit.xml", "git-loop-junit.xml"].into_iter().find(|file| !survey.has(file));
    let report = report.unwrap_or(".git-loop-junit.xml");
    let mut proposal = Proposal::new(
        ProjectKind::Pytest,
        Some(found_by),
        ProposedCommand::Args(vec![
            "python3".to_owned(),
            "-m".to_owned(),
            "pytest".to_owned(),
            "-q".to_owned(),
            "-p".to_owned(),
            "no:cacheprovider".to_owned(),
            format!("--junitxml={report}"),
        ]),
        Verdict::Junit(report.to_owned()),
    );
    "the python3 of your PATH, or of the virtual environment that is active when the loop runs"
        .clone_into(&mut proposal.command_why);
    proposal
}

fn unittest(survey: &Survey, found_by: &str) -> Proposal {
    let mut words = vec!["python3", "-m", "unittest", "discover"];
    let folder = ["tests", "test"].into_iter().find(|folder| {
        let prefix = format!("{folder}/");
        survey.files().any(|path| path.starts_with(&prefix) && is_python(path))
    });
    if let Some(folder) = folder {
        words.extend(["-s", folder]);
        if survey.has(&format!("{folder}/__init__.py")) {
            words.extend(["-t", "."]);
        }
    }
    let named = |begin: &str| survey.files().any(|path| is_python(path) && basename(path).starts_with(begin));
    if !named("test") && survey.files().any(|path| path.ends_with("_test.py")) {
        words.extend(["-p", "*_test.py"]);
    }
    let mut proposal =
        Proposal::new(ProjectKind::Unittest, Some(found_by), ProposedCommand::args(&words), Verdict::Exit);
    "exit code 0: every test passed. With pytest the check could count failures"
        .clone_into(&mut proposal.command_why);
    proposal
}

fn mutable(proposal: &mut Proposal, survey: &Survey, src_layout: bool) {
    if src_layout {
        return proposal.mutable("src/**", "the code");
    }
    let code = |path: &&str| is_python(path) && !is_test_file(path);
    let mut packages = Vec::new();
    let mut folders = Vec::new();
    for top in survey.top_folders() {
        let prefix = format!("{top}/");
        if NOT_CODE.contains(&top) || top.starts_with('.') || top.ends_with(".egg-info") {
            continue;
        }
        if survey.has(&format!("{top}/__init__.py")) {
            packages.push(top);
        } else if survey.files().filter(code).any(|path| path.starts_with(&prefix)) {
            folders.push(top);
        }
    }
    let modules: Vec<&str> = survey
        .files()
        .filter(code)
        .filter(|path| !path.contains('/') && !NOT_MODULES.contains(path))
        .collect();
    // Scripts at the top of a project that has a package are rarely what is worked on.
    if !packages.is_empty() || modules.is_empty() {
        let folders = if packages.is_empty() { folders } else { packages };
        for folder in folders {
            proposal.mutable(format!("{}/**", as_pattern(folder)), "the code");
        }
    } else {
        for module in modules {
            proposal.mutable(format!("/{}", as_pattern(module)), "the code");
        }
    }
    if proposal.mutable.is_empty() {
        proposal.mutable("src/**", "");
        proposal.fill_in.push("paths.mutable");
    }
}

/// What freezes the tests: their folders, and the names of those that lie beside the code.
fn test_patterns(survey: &Survey) -> Vec<(String, &'static str)> {
    let mut folders = BTreeSet::new();
    let mut beside = BTreeSet::new();
    for path in survey.files().filter(|path| is_test_file(path)) {
        match test_folder(path) {
            Some(folder) => {
                folders.insert(folder);
            }
            None if basename(path) == "tests.py" => {
                beside.insert("**/tests.py");
            }
            None if basename(path).ends_with("_test.py") => {
                beside.insert("**/*_test.py");
            }
            None => {
                beside.insert("**/test_*.py");
            }
        }
    }
    let why = "the tests, and what lies beside them";
    let mut patterns = Vec::new();
    if folders.len() > FOLDERS_LISTED {
        let names: BTreeSet<&str> = folders.iter().map(|folder| basename(folder)).collect();
        patterns.extend(names.into_iter().map(|name| (format!("**/{name}/**"), why)));
    } else {
        patterns.extend(folders.into_iter().map(|folder| (format!("{}/**", as_pattern(folder)), why)));
    }
    patterns.extend(beside.into_iter().map(|pattern| (pattern.to_owned(), "the tests beside the code")));
    patterns
}

/// The outermost folder of tests that a path lies in. Deeper down `testing` is rather code that helps to test.
fn test_folder(path: &str) -> Option<&str> {
    let mut at = 0;
    for name in path.split('/') {
        let end = at + name.len();
        let is_tests = matches!(name, "tests" | "test") || (at == 0 && name == "testing");
        if is_tests && end < path.len() {
            return Some(&path[..end]);
        }
        at = end + 1;
    }
    None
}

fn is_python(path: &str) -> bool {
    has_extension(path, "py")
}

/// Whether a path is Python that tests, by the names that pytest and unittest look for.
pub(super) fn is_test_file(path: &str) -> bool {
    let name = basename(path);
    is_python(path)
        && (name.starts_with("test_")
            || name.ends_with("_test.py")
            || name == "tests.py"
            || test_folder(path).is_some())
}

/// Whether something says pytest: its configuration, a requirement, a conftest, or tests that only it runs.
fn uses_pytest(survey: &Survey) -> bool {
    let mut files = survey.files();
    if survey.has("pytest.ini") || files.any(|path| basename(path) == "conftest.py") {
        return true;
    }
    survey.texts().any(|(path, text)| {
        if is_python(path) && path != "setup.py" {
            return text.lines().any(|line| {
                ["def test_", "async def test_", "import pytest", "from pytest"]
                    .iter()
                    .any(|begin| line.starts_with(begin))
            });
        }
        !matches!(path, "Cargo.toml" | "package.json") && text.contains("pytest")
    })
}
