//! The format `jest`: the JSON report of jest (`--json --outputFile=FILE`) and of vitest (`--reporter=json`).
//!
//! A test's id is `file::describe > test`. The report names files by their absolute paths, and every run has its own
//! worktree: of a path that alone has its last name, only that name counts, and of several with the same name as many
//! folders as tell them apart (`paths`). Tests of one title in one file are told apart by their order (`#2`, `#3`, …).
//!
//! | status | outcome |
//! | --- | --- |
//! | `passed` | passed; failed if it took more than one attempt (`invocations`, `retryReasons`, `failureMessages`) |
//! | `failed` | failed |
//! | `pending`, `skipped`, `disabled`, `todo` | skipped |
//!
//! A file that failed and has no failed test could not be loaded, or failed around its tests: the tests that are behind that are
//! not in the report, which is incomplete. So is one that says that it is no success while no test failed.
//!
//! The counts must be those of the tests. vitest counts suites by its own rule and has no `numRuntimeErrorTestSuites`, so the
//! counts of suites are compared only where that is there.

mod paths;

use super::ids::{Gathered, Ordinals};
use super::json::{self, Json};
use super::{Outcome, ReportProblem, TestSets, excerpt};

/// How many files could not be loaded; only jest says it.
const NOT_LOADED: &str = "numRuntimeErrorTestSuites";

/// What stands between the titles of nested suites.
const NESTED: &str = " > ";

/// Reads a JSON report.
pub fn parse(bytes: &[u8]) -> Result<TestSets, ReportProblem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = before.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>() + 1;
        ReportProblem::malformed(line, "the file is not UTF-8")
    })?;
    let report = json::read(text.strip_prefix('\u{feff}').unwrap_or(text)).map_err(|bad| {
        if bad.cut_off {
            ReportProblem::incomplete(bad.line, "the file ends inside of a value")
        } else {
            ReportProblem::malformed(bad.line, bad.why)
        }
    })?;
    read(&report)
}

/// The tests of a report by what its counts call them.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    pending: u64,
    todo: u64,
    all: u64,
}

fn malformed<T>(why: impl Into<String>) -> Result<T, ReportProblem> {
    // The place of a value is not kept, and the writers put all in one line.
    Err(ReportProblem::malformed(1, why))
}

fn incomplete<T>(why: impl Into<String>) -> Result<T, ReportProblem> {
    Err(ReportProblem::incomplete(1, why))
}

fn read(report: &Json) -> Result<TestSets, ReportProblem> {
    let Some(success) = report.flag("success") else {
        return malformed("`success` is missing or no truth value");
    };
    let Some(files) = report.list("testResults") else {
        return malformed("`testResults` is missing or no list");
    };
    let mut names = Vec::with_capacity(files.len());
    for file in files {
        match file.text("name") {
            Some(name) if !name.is_empty() && name.len() <= paths::LONGEST => names.push(name),
            _ => return malformed("a file without a usable `name`"),
        }
    }
    let names = paths::short(&names);

    let mut gathered = Gathered::default();
    let mut tally = Tally::default();
    let mut failed_files = 0;
    let mut broken = None;
    for (file, name) in files.iter().zip(&names) {
        let failed_before = tally.failed;
        tests(file, name, &mut tally, &mut gathered)?;
        let has_failures = tally.failed > failed_before;
        match file.get("status") {
            Some(Json::Text(status)) if status == "failed" => {
                failed_files += 1;
                if !has_failures {
                    broken = broken.or(Some(name));
                }
            }
            Some(Json::Text(status)) if status == "passed" && has_failures => {
                return Err(ReportProblem::contradiction(format!(
                    "`{}` passed and a test of it failed",
                    excerpt(name)
                )));
            }
            None | Some(Json::Text(_)) => {}
            Some(_) => return malformed(format!("the status of `{}` is no text", excerpt(name))),
        }
    }
    counts(report, &tally, files.len() as u64, failed_files)?;
    if let Some(name) = broken {
        let name = excerpt(name);
        return incomplete(format!("`{name}` could not be loaded, or failed outside of its tests"));
    }
    if report.count(NOT_LOADED).is_some_and(|count| count > 0) {
        return incomplete("a file could not be loaded, or failed outside of its tests");
    }
    if report.flag("wasInterrupted") == Some(true) {
        return incomplete("the run was interrupted");
    }
    if success && tally.failed > 0 {
        return Err(ReportProblem::contradiction(format!(
            "it calls {} failed tests a success",
            tally.failed
        )));
    }
    if !success && tally.failed == 0 && tally.all > 0 {
        return incomplete("it is no success, and no test failed");
    }
    Ok(gathered.sets)
}

/// Takes in the tests of one file.
fn tests(file: &Json, name: &str, tally: &mut Tally, gathered: &mut Gathered) -> Result<(), ReportProblem> {
    let Some(tests) = file.list("assertionResults") else {
        return malformed(format!("`{}` has no list `assertionResults`", excerpt(name)));
    };
    let mut ordinals = Ordinals::default();
    for test in tests {
        let mut id = format!("{name}::");
        let (Some(title), Some(ancestors)) = (test.text("title"), test.list("ancestorTitles")) else {
            return malformed(format!(
                "a test of `{}` has no `title` or no list `ancestorTitles`",
                excerpt(name)
            ));
        };
        for ancestor in ancestors {
            let Json::Text(ancestor) = ancestor else {
                return malformed(format!("an ancestor of a test of `{}` is no text", excerpt(name)));
            };
            id.push_str(ancestor);
            id.push_str(NESTED);
        }
        id.push_str(title);
        let outcome = match test.text("status") {
            Some("passed") => {
                tally.passed += 1;
                // A test that failed and then passed is not one that passes.
                if took_more_than_one(test) { Outcome::Failed } else { Outcome::Passed }
            }
            Some("failed") => {
                tally.failed += 1;
                Outcome::Failed
            }
            Some("pending" | "skipped" | "disabled") => {
                tally.pending += 1;
                Outcome::Skipped
            }
            Some("todo") => {
                tally.todo += 1;
                Outcome::Skipped
            }
            Some(other) => {
                let (id, other) = (excerpt(&id), excerpt(other));
                return malformed(format!("the status of `{id}` is `{other}`"));
            }
            None => return malformed(format!("`{}` has no status", excerpt(&id))),
        };
        tally.all += 1;
        gathered.record(ordinals.distinct(&id), outcome)?;
    }
    Ok(())
}

/// Whether a test that passed had failed before.
fn took_more_than_one(test: &Json) -> bool {
    let listed = |key: &str| test.list(key).is_some_and(|list| !list.is_empty());
    test.count("invocations").is_some_and(|count| count > 1)
        || listed("retryReasons")
        || listed("failureMessages")
}

/// Compares what the report declares with what it holds.
fn counts(report: &Json, tally: &Tally, files: u64, failed_files: u64) -> Result<(), ReportProblem> {
    // Only jest's counts of suites are counts of files.
    let is_jest = report.get(NOT_LOADED).is_some();
    if is_jest && report.count(NOT_LOADED).is_none() {
        return malformed(format!("`{NOT_LOADED}` is no count"));
    }
    for (key, held, required) in [
        ("numTotalTests", tally.all, true),
        ("numPassedTests", tally.passed, true),
        ("numFailedTests", tally.failed, true),
        ("numPendingTests", tally.pending, true),
        ("numTodoTests", tally.todo, false),
        ("numTotalTestSuites", files, is_jest),
        ("numFailedTestSuites", failed_files, is_jest),
    ] {
        let says = match report.get(key) {
            None if !required => continue,
            Some(_) if !is_jest && key.ends_with("Suites") => continue,
            Some(Json::Count(count)) => *count,
            _ => return malformed(format!("`{key}` is missing or no count")),
        };
        if says < held {
            return Err(ReportProblem::contradiction(format!("`{key}` is {says}, and {held} are there")));
        }
        if says > held {
            return incomplete(format!("`{key}` is {says}, and only {held} are there"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
