use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::testing::{
    assert_contradiction, assert_incomplete, assert_malformed, assert_no_cut_passes, holds, ids, mutated,
    passes, real, sets,
};
use super::super::{Format, ReportProblem, parse};

const JEST: Format = Format::Jest;

/// A report of one file with tests of these titles and statuses, as jest writes it.
fn report(tests: &[(&str, &str)]) -> Value {
    let count = |status: &str| tests.iter().filter(|(_, s)| *s == status).count();
    let failed = count("failed");
    json!({
        "numFailedTestSuites": u8::from(failed > 0),
        "numFailedTests": failed,
        "numPassedTests": count("passed"),
        "numPendingTests": count("pending"),
        "numRuntimeErrorTestSuites": 0,
        "numTodoTests": count("todo"),
        "numTotalTestSuites": 1,
        "numTotalTests": tests.len(),
        "success": failed == 0,
        "testResults": [{
            "name": "/w/1/a.test.js",
            "status": if failed > 0 { "failed" } else { "passed" },
            "message": "",
            "assertionResults": tests.iter().map(|(title, status)| json!({
                "ancestorTitles": ["s"], "title": title, "status": status, "failureMessages": [],
            })).collect::<Vec<_>>(),
        }],
    })
}

fn green() -> Value {
    report(&[("a", "passed"), ("b", "pending")])
}

/// A report with the value at a pointer replaced.
fn with(mut report: Value, pointer: &str, value: Value) -> Vec<u8> {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match report.pointer_mut(parent).unwrap() {
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
        place => place[key] = value,
    }
    report.to_string().into_bytes()
}

#[test]
fn real_red_reports() {
    for report in [&real!("jest-red.json")[..], real!("vitest-red.json")] {
        let sets = sets(JEST, report);
        assert_eq!(sets.failed, ids(&["a/sum.test.js::sum > adds"]));
        assert_eq!(sets.skipped, ids(&["a/sum.test.js::sum > later", "a/sum.test.js::sum > some day"]));
        assert_eq!(
            sets.passed,
            ids(&[
                "a/sum.test.js::at the top",
                "a/sum.test.js::sum > bad",
                "a/sum.test.js::sum > same 1",
                "a/sum.test.js::sum > same 1 #2",
                "a/sum.test.js::sum > zero",
                "b/sum.test.js::other",
            ])
        );
    }
}

#[test]
fn real_green_reports_and_their_cuts() {
    for (green, less) in [
        (&real!("jest-green.json")[..], &real!("jest-less.json")[..]),
        (real!("vitest-green.json"), real!("vitest-less.json")),
    ] {
        assert_no_cut_passes(JEST, green);
        let whole = sets(JEST, green);
        assert_eq!((whole.passed.len(), whole.skipped.len()), (7, 2));
        // Green by skipping.
        assert!(sets(JEST, less).failed.is_empty());
        assert!(!passes(JEST, less, &whole));
    }
}

#[test]
fn real_reports_that_say_nothing() {
    // Field report 2.100, and hooks that fail.
    for broken in [
        &real!("jest-bad.json")[..],
        real!("jest-after.json"),
        real!("vitest-bad.json"),
        real!("vitest-after.json"),
        // vitest calls the tests behind a hook that failed skipped.
        real!("vitest-before.json"),
    ] {
        assert_incomplete(JEST, broken, "could not be loaded, or failed outside of its tests");
    }
    // jest calls them failed.
    assert_eq!(sets(JEST, real!("jest-before.json")).failed, ids(&["before.test.js::d > y"]));
    // Field report 1.22: --passWithNoTests.
    assert_eq!(parse(JEST, real!("jest-none.json")), Err(ReportProblem::NoTests));
    // An error outside of any test: vitest exits with 1 and writes a green report, so that the two contradict each other.
    assert!(sets(JEST, real!("vitest-unhandled.json")).failed.is_empty());
}

#[test]
fn a_retry_that_passes_does_not_pass() {
    // Field report 1.27.
    for flaky in [&real!("jest-retry.json")[..], real!("vitest-retry.json")] {
        assert_eq!(sets(JEST, flaky).failed, ids(&["retry.test.js::flaky"]));
    }
    let reasons = with(green(), "/testResults/0/assertionResults/0/retryReasons", json!(["x"]));
    assert_eq!(sets(JEST, &reasons).failed, ids(&["a.test.js::s > a"]));
}

#[test]
fn counts_and_flags_must_fit() {
    let good = green().to_string();
    assert_eq!(sets(JEST, good.as_bytes()).len(), 2);
    assert_eq!(sets(JEST, format!("\u{feff} {good}\n").as_bytes()).len(), 2);
    for key in [
        "numTotalTests",
        "numPassedTests",
        "numFailedTests",
        "numPendingTests",
        "numTodoTests",
        "numTotalTestSuites",
        "numFailedTestSuites",
    ] {
        let red = report(&[("a", "passed"), ("b", "pending"), ("c", "todo"), ("d", "failed")]);
        assert_incomplete(JEST, &with(red.clone(), &format!("/{key}"), json!(99)), key);
        assert_contradiction(JEST, &with(red.clone(), &format!("/{key}"), json!(0)), key);
        for bad in [json!(-1), json!(1.0), json!("1"), json!(null), json!(1e3)] {
            assert_malformed(JEST, &with(red.clone(), &format!("/{key}"), bad), key);
        }
    }
    let red = || report(&[("a", "passed"), ("b", "failed")]);
    assert_contradiction(JEST, &with(red(), "/success", json!(true)), "a success");
    assert_contradiction(JEST, &with(red(), "/testResults/0/status", json!("passed")), "a test of it failed");
    assert_incomplete(JEST, &with(green(), "/success", json!(false)), "no success");
    assert_incomplete(JEST, &with(green(), "/numRuntimeErrorTestSuites", json!(1)), "could not be loaded");
    for bad in [json!(-1), json!(0.0), json!("0"), json!(null), json!(1e25)] {
        let report = with(green(), "/numRuntimeErrorTestSuites", bad);
        assert_malformed(JEST, &report, "numRuntimeErrorTestSuites");
    }
    let large = green().to_string().replace(
        "\"numRuntimeErrorTestSuites\":0",
        "\"numRuntimeErrorTestSuites\":10000000000000000000000000",
    );
    assert_malformed(JEST, large.as_bytes(), "numRuntimeErrorTestSuites");
    assert_incomplete(JEST, &with(green(), "/wasInterrupted", json!(true)), "interrupted");
}

#[test]
fn hostile_reports() {
    let text = green().to_string();
    assert_malformed(
        JEST,
        text.replace("\"success\":true", "\"success\":false,\"success\":true").as_bytes(),
        "comes twice",
    );
    assert_malformed(JEST, text.replace("\"success\":true", "\"success\":NaN").as_bytes(), "expected");
    assert_malformed(JEST, text.replace("\"title\":\"a\"", "\"title\":\"\\ud800\"").as_bytes(), "");
    assert_malformed(JEST, format!("{text}{text}").as_bytes(), "trailing");
    assert_malformed(JEST, b"\xff", "not UTF-8");
    assert_malformed(JEST, "[".repeat(1 << 20).as_bytes(), "nested deeper");
    assert_malformed(JEST, b"[]", "`success`");
    assert_malformed(JEST, b"{\"success\":true}", "`testResults`");
    assert_incomplete(JEST, b"", "ends inside");
    assert_incomplete(JEST, &text.as_bytes()[..text.len() - 1], "ends inside");
    for (pointer, value, why) in [
        ("/testResults/0/name", json!(""), "usable `name`"),
        ("/testResults/0/name", json!("/x".repeat(4096)), "usable `name`"),
        ("/testResults/0/status", json!(1), "no text"),
        ("/testResults/0/assertionResults", json!({}), "no list `assertionResults`"),
        ("/testResults/0/assertionResults/0/status", json!("green"), "is `green`"),
        ("/testResults/0/assertionResults/0/status", json!(null), "no status"),
        ("/testResults/0/assertionResults/0/title", json!(1), "no `title`"),
        ("/testResults/0/assertionResults/0/ancestorTitles", json!([1]), "an ancestor"),
        ("/testResults/0", json!(1), "usable `name`"),
    ] {
        assert_malformed(JEST, &with(green(), pointer, value), why);
    }
    // A name that takes much for each of many tests.
    let mut many = report(&vec![("a", "passed"); 40_000]);
    let one = many["testResults"][0]["assertionResults"][0].clone();
    many["testResults"][0]["assertionResults"] = Value::Array(vec![one; 40_000]);
    assert_contradiction(
        JEST,
        &with(many, "/testResults/0/name", json!(format!("/{}.js", "x".repeat(4000)))),
        "the names of its tests",
    );
}

proptest! {
    #[test]
    fn any_bytes_are_total(bytes: Vec<u8>) {
        holds(JEST, &bytes)?;
    }

    #[test]
    fn mutated_reports_are_total(jest in mutated(real!("jest-red.json")), vitest in mutated(real!("vitest-green.json"))) {
        holds(JEST, &jest)?;
        holds(JEST, &vitest)?;
        let whole = sets(JEST, real!("vitest-green.json"));
        if passes(JEST, &vitest, &whole) {
            prop_assert!(sets(JEST, &vitest).passed.is_superset(&whole.passed));
        }
    }

    #[test]
    fn any_value_at_any_place_is_total(
        place in prop::sample::select(vec![
            "/success", "/testResults", "/testResults/0", "/testResults/0/name", "/testResults/0/status",
            "/testResults/0/assertionResults", "/testResults/0/assertionResults/0",
            "/testResults/0/assertionResults/0/title", "/testResults/0/assertionResults/0/ancestorTitles",
            "/testResults/0/assertionResults/0/status", "/numTotalTests", "/numRuntimeErrorTestSuites",
        ]),
        value in prop::sample::select(vec![
            json!(null), json!(true), json!(0), json!(-1), json!(1e300), json!(""), json!("passed"), json!([]), json!([[]]), json!({}),
        ]),
    ) {
        holds(JEST, &with(green(), place, value))?;
    }
}
