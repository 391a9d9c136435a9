//! Packages of node with a test script.

use serde_json::Value;

use super::survey::{Survey, as_pattern, basename};
use super::{Litter, ProjectKind, Proposal, ProposedCommand, Verdict};

/// The folders that hold tests, wherever they lie.
const TEST_FOLDERS: [&str; 4] = ["test", "tests", "__tests__", "spec"];

pub(super) fn detect(survey: &Survey) -> Option<Proposal> {
    let package: Value = serde_json::from_str(survey.text("package.json")).ok()?;
    let script = package["scripts"]["test"].as_str()?;
    // What `npm init` writes.
    if !survey.has("package.json") || script.contains("no test specified") {
        return None;
    }
    let needs_modules = ["dependencies", "devDependencies"]
        .iter()
        .any(|key| package[key].as_object().is_some_and(|list| !list.is_empty()));
    let has_lock = survey.has("package-lock.json") || survey.has("npm-shrinkwrap.json");
    let (words, verdict) = runner(&package["scripts"], script, survey);
    let command = if needs_modules && has_lock {
        ProposedCommand::Line(format!("[ -d node_modules ] || npm ci || exit 1; {}", words.join(" ")))
    } else {
        ProposedCommand::Args(words)
    };
    let why = match verdict {
        Verdict::Exit => "exit code 0: every test passed. A runner that writes JUnit could count failures",
        Verdict::Tap => "what `npm test` runs, with a report that can be read",
        _ => "`npm test`, with a report that can be read",
    };
    let mut proposal = Proposal::new(ProjectKind::Node, Some("package.json"), command, verdict);
    why.clone_into(&mut proposal.command_why);
    if needs_modules {
        proposal.litter.push(Litter { path: "node_modules", is_dir: true });
        if has_lock {
            proposal.warm.push(("node_modules", "what `npm ci` made at the base, given to every worktree"));
            proposal.notes.push(
                "the check has no network: run `npm ci` here once, so that npm's cache has all".to_owned(),
            );
        } else {
            proposal.fill_in.push("check.command");
            proposal.notes.push(
                "node_modules is not committed and there is no package-lock.json: let check.command install the \
                 dependencies from a cache first"
                    .to_owned(),
            );
        }
    }

    for folder in ["src", "lib", "app"].into_iter().filter(|folder| survey.has_folder(folder)) {
        proposal.mutable(format!("{folder}/**"), "the code");
    }
    if proposal.mutable.is_empty() {
        let at_top = survey.files().filter(|path| !path.contains('/') && is_script(path));
        for file in at_top.filter(|file| !is_config(file) && !is_test_name(file)) {
            proposal.mutable(format!("/{}", as_pattern(file)), "the code");
        }
    }
    if proposal.mutable.is_empty() {
        proposal.mutable("src/**", "");
        proposal.fill_in.push("paths.mutable");
    }

    for folder in TEST_FOLDERS {
        if survey.has_folder(folder) {
            proposal.check(format!("{folder}/**"), "the tests, and what lies beside them");
        } else if survey.files().any(|path| path.contains(&format!("/{folder}/"))) {
            proposal.check(format!("**/{folder}/**"), "the tests, and what lies beside them");
        }
    }
    for mark in ["test", "spec"] {
        if survey.files().any(|path| basename(path).contains(&format!(".{mark}."))) {
            proposal.check(format!("**/*.{mark}.*"), "the tests beside the code");
        }
    }
    proposal.check("package.json", "says what `npm test` runs");
    let versions = "the exact versions";
    let locks = ["package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml"];
    proposal.check_files(survey, &locks.map(|lock| (lock, versions)));
    let configs: Vec<&str> = survey.files().filter(|path| !path.contains('/') && is_config(path)).collect();
    for config in configs {
        proposal.check(as_pattern(config), "settings of the tests");
    }
    Some(proposal)
}

/// How the tests are run, and what they leave: a report, where the script is nothing but a call of a runner that writes one.
fn runner(scripts: &Value, script: &str, survey: &Survey) -> (Vec<String>, Verdict) {
    let is_plain = |word: &str| {
        word.chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '=' | ':' | ',' | '@'))
    };
    let words: Vec<&str> = script.split_whitespace().collect();
    let report = ["test-report.json", "git-loop-report.json"].into_iter().find(|file| !survey.has(file));
    let report = report.unwrap_or(".git-loop-report.json");
    let npm = |options: &[&str]| {
        let output = format!("--outputFile={report}");
        let words = ["npm", "test", "--"].iter().chain(options).copied().chain([output.as_str()]);
        (words.map(ToOwned::to_owned).collect(), Verdict::Jest(report.to_owned()))
    };
    // What runs around the tests would be left out, and another reporter is somebody's choice.
    let alone = scripts.get("pretest").is_none() && scripts.get("posttest").is_none();
    let chosen = words.iter().any(|word| word.contains("report") || word.starts_with("--outputFile"));
    match words.as_slice() {
        words if chosen || !words.iter().all(|word| is_plain(word)) => {}
        ["node", ..] if alone && words.contains(&"--test") => {
            let with_reporter = words.iter().flat_map(|word| match *word {
                "--test" => vec!["--test".to_owned(), "--test-reporter=tap".to_owned()],
                word => vec![word.to_owned()],
            });
            return (with_reporter.collect(), Verdict::Tap);
        }
        ["jest", ..] => return npm(&["--json"]),
        // Without `run` it would wait for changes.
        ["vitest", ..] => return npm(&["--run", "--reporter=json"]),
        _ => {}
    }
    (vec!["npm".to_owned(), "test".to_owned()], Verdict::Exit)
}

fn is_script(path: &str) -> bool {
    [".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"].iter().any(|ending| path.ends_with(ending))
}

fn is_test_name(path: &str) -> bool {
    let name = basename(path);
    name.contains(".test.")
        || name.contains(".spec.")
        || matches!(name, "test.js" | "test.mjs" | "test.cjs" | "test.ts")
}

/// Whether a file at the top configures how tests are run or built.
fn is_config(name: &str) -> bool {
    name.contains(".config.")
        || name.starts_with(".mocharc")
        || name.starts_with(".babelrc")
        || name.starts_with(".npmrc")
        || name.starts_with("tsconfig")
}
