//! Go, CMake, make, and what nobody knows: templates with lines to fill in.

use super::survey::{Survey, basename, has_extension};
use super::{FILL_IN, Litter, ProjectKind, Proposal, ProposedCommand, Verdict};

pub(super) fn go(survey: &Survey) -> Option<Proposal> {
    if !survey.has("go.mod") {
        return None;
    }
    let command = ProposedCommand::args(&["go", "test", "-json", "-count=1", "./..."]);
    let mut proposal = Proposal::new(ProjectKind::Go, Some("go.mod"), command, Verdict::GoJson);
    "without -count=1 results could be out of Go's cache, which do not count"
        .clone_into(&mut proposal.command_why);
    proposal.mutable("**/*.go", "the code");
    if survey.files().any(|path| path.ends_with("_test.go")) {
        proposal.check("**/*_test.go", "the tests beside the code");
    }
    if survey.files().any(|path| path.split('/').rev().skip(1).any(|name| name == "testdata")) {
        proposal.check("**/testdata/**", "what the tests read");
    }
    proposal.check("go.mod", "the module and its dependencies");
    proposal.check_files(survey, &[("go.sum", "the exact versions"), ("go.work", "the modules")]);
    if survey.has("go.sum") {
        // A fresh HOME has no module cache, and there is no network to fill one.
        let why = || format!("{FILL_IN}: what `go env GOMODCACHE` says");
        proposal.commented.push(("check", "env = { GOMODCACHE = \"/home/you/go/pkg/mod\" }", why()));
        proposal.commented.push(("sandbox", "read_only = [\"/home/you/go/pkg/mod\"]", why()));
        proposal.fill_in.extend(["check.env", "sandbox.read_only"]);
    }
    Some(proposal)
}

pub(super) fn cmake(survey: &Survey) -> Option<Proposal> {
    if !survey.has("CMakeLists.txt") {
        return None;
    }
    let line = "cmake -S . -B \"$TMPDIR/build\" && cmake --build \"$TMPDIR/build\" && ctest --test-dir \
                \"$TMPDIR/build\" --output-on-failure";
    let mut proposal = Proposal::new(
        ProjectKind::Cmake,
        Some("CMakeLists.txt"),
        ProposedCommand::Line(line.to_owned()),
        Verdict::Exit,
    );
    proposal.command_why = format!("{FILL_IN}: how it is built and tested; exit code 0 is success");
    proposal.fill_in.push("check.command");
    code_and_tests(&mut proposal, survey);
    proposal.check("CMakeLists.txt", "what is built and tested, in every folder");
    if survey.files().any(|path| has_extension(path, "cmake")) {
        proposal.check("*.cmake", "what is built and tested");
    }
    proposal.litter.push(Litter { path: "build", is_dir: true });
    Some(proposal)
}

pub(super) fn make(survey: &Survey) -> Option<Proposal> {
    let file = ["GNUmakefile", "makefile", "Makefile"].into_iter().find(|file| survey.has(file))?;
    let text = survey.text(file);
    let target = ["test", "check"].into_iter().find(|target| {
        text.lines().any(|line| {
            let rule = line.strip_prefix(target).map(str::trim_start);
            rule.is_some_and(|rest| rest.starts_with(':') && !rest.starts_with(":="))
        })
    })?;
    let command = ProposedCommand::args(&["make", target]);
    let mut proposal = Proposal::new(ProjectKind::Make, Some(file), command, Verdict::Exit);
    proposal.command_why = format!("{FILL_IN}: is this how it is tested? Exit code 0 is success");
    proposal.fill_in.push("check.command");
    code_and_tests(&mut proposal, survey);
    proposal.check(file, "says what the check runs");
    Some(proposal)
}

pub(super) fn unknown(survey: &Survey) -> Proposal {
    let command = ProposedCommand::args(&["sh", "check.sh"]);
    let mut proposal = Proposal::new(ProjectKind::Unknown, None, command, Verdict::Lines);
    proposal.command_why = format!(
        "{FILL_IN}: prints a line for each test, `ok NAME` or `fail NAME`, and at the end `done COUNT`"
    );
    proposal.fill_in.push("check.command");
    code_and_tests(&mut proposal, survey);
    if survey.has("check.sh") {
        proposal.check("check.sh", "the check itself");
    } else {
        proposal.check("check.sh", format!("{FILL_IN}: the check itself; it must be committed"));
        proposal.fill_in.push("paths.check");
    }
    proposal
}

/// The usual folders of code and tests.
fn code_and_tests(proposal: &mut Proposal, survey: &Survey) {
    for folder in ["src", "lib", "app", "include", "source"] {
        if survey.has_folder(folder) {
            proposal.mutable(format!("{folder}/**"), "the code");
        }
    }
    if proposal.mutable.is_empty() {
        proposal.mutable("src/**", "");
        proposal.fill_in.push("paths.mutable");
    }
    for folder in ["test", "tests", "spec", "t"] {
        if survey.has_folder(folder) {
            proposal.check(format!("{folder}/**"), "the tests, and what lies beside them");
        }
    }
    let scripts = ["run_tests.sh", "test.sh"];
    for script in survey.files().filter(|path| !path.contains('/') && scripts.contains(&basename(path))) {
        proposal.check(script, "runs the tests");
    }
}
