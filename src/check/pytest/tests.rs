use std::fmt::Write as _;

use proptest::prelude::*;

use super::super::testing::{
    assert_contradiction, assert_incomplete, assert_malformed, assert_no_cut_passes, holds, ids, mutated,
    passes, real, sets, shuffled,
};
use super::super::{Format, ReportProblem, TestSets, parse};
use super::Outcome;

const PYTEST: Format = Format::Pytest;

/// A summary with its header, and the last line that counts `counts`.
fn report(summary: &str, counts: &str) -> String {
    format!("..F\n=== short test summary info ===\n{summary}\n=== {counts} in 0.05s ===\n")
}

#[test]
fn real_red_reports() {
    let failed = ids(&[
        "test_a.py::test_fail",
        "test_a.py::test_param[a - b]",
        "test_a.py::test_setup",
        "test_a.py::test_strict",
        "test_a.py::test_teardown",
    ]);
    let passed = ids(&[
        "sub/test_b.py::test_b",
        "test_a.py::TestC::test_m",
        "test_a.py::test_param[\\x1b[31m]",
        "test_a.py::test_param[\\xe9]",
        "test_a.py::test_param[c] - d]",
        "test_a.py::test_pass",
        "test_a.py::test_warn",
        "test_a.py::test_xpass",
    ]);
    for report in [&real!("pytest-7.txt")[..], real!("pytest-9-quiet.txt"), real!("pytest-9-colour.txt")] {
        let sets = sets(PYTEST, report);
        assert_eq!(sets.failed, failed);
        let cut = |id: &String| id.replace("test_param[c] - d]", "test_param[c]");
        assert_eq!(sets.passed, passed.iter().map(cut).collect());
        assert_eq!(
            sets.skipped,
            ids(&[
                "test_a.py (skipped)",
                "test_a.py (skipped) #2",
                "test_a.py (skipped) #3",
                "test_a.py::test_xfail",
                "test_skip.py (skipped)",
            ])
        );
        assert!(!sets.partial);
    }
    let xdist = sets(PYTEST, real!("pytest-9-xdist.txt"));
    assert_eq!(xdist.failed, failed);
    assert_eq!(
        xdist.skipped,
        ids(&[
            "test_a.py::test_skip",
            "test_a.py::test_skip2",
            "test_a.py::test_skip_inside",
            "test_a.py::test_xfail",
            "test_skip.py",
        ])
    );
}

#[test]
fn a_subtest_that_fails_fails_its_test() {
    let sets = sets(PYTEST, real!("pytest-9-subtests.txt"));
    assert_eq!(sets.failed, ids(&["test_a.py::test_fail", "test_a.py::test_sub", "test_u.py::T::test_0"]));
    assert_eq!(sets.passed, ids(&["test_a.py::test_pass", "test_a.py::test_sub_ok"]));
    let lone = report("SUBFAILED(i=1) a.py::t - x", "1 failed");
    assert_incomplete(PYTEST, lone.as_bytes(), "a subtest of `a.py::t`");
}

#[test]
fn a_run_that_stops_at_the_first_failure_is_partial() {
    // Field report 2.104.
    let sets = sets(PYTEST, real!("pytest-9-stopped.txt"));
    assert!(sets.partial && sets.failed.len() == 1);
    let odd = "=== short test summary info ===\nPASSED a.py::t\n!!! stopping after 1 failures !!!\n1 passed in 0.01s\n";
    assert_contradiction(PYTEST, odd.as_bytes(), "no test failed");
}

#[test]
fn real_reports_that_say_nothing() {
    // Field report 2.100.
    assert_incomplete(PYTEST, real!("pytest-9-collection.txt"), "Interrupted: 1 error during collection");
    assert_incomplete(PYTEST, real!("pytest-9-collection-continued.txt"), "`test_bad.py` stands for tests");
    // Field report 1.9.
    assert_incomplete(PYTEST, real!("pytest-9-exit-zero.txt"), "is -rA given?");
    assert_incomplete(PYTEST, real!("pytest-9-interrupted.txt"), "KeyboardInterrupt");
    // Field report 1.27.
    assert_incomplete(PYTEST, real!("pytest-9-rerun.txt"), "leave out --reruns");
    // Field report 1.7: all tests are deselected. One file skips itself while it is collected.
    assert_eq!(sets(PYTEST, real!("pytest-9-none.txt")).ran(), 0);
    assert_incomplete(
        PYTEST,
        real!("pytest-9-plain.txt"),
        "8 passed, of which the summary names 0 (is -rA given?)",
    );
    assert_incomplete(PYTEST, real!("pytest-9-qq.txt"), "the last line, with the counts, is missing");
    assert_contradiction(PYTEST, real!("pytest-9-forged.txt"), "second time");
    assert_eq!(parse(PYTEST, b"no tests ran in 0.01s\n"), Err(ReportProblem::NoTests));
    assert_incomplete(PYTEST, b"", "neither a summary nor counts");
}

#[test]
fn no_cut_of_a_green_report_passes() {
    let quiet = "..\n=== short test summary info ===\nPASSED a.py::one\nXPASS a.py::two - why\nSKIPPED [2] a.py:3: no\nXFAIL a.py::four\n1 passed, 2 skipped, 1 xfailed, 1 xpassed, 1 warning in 0.01s\n";
    assert_no_cut_passes(PYTEST, quiet.as_bytes());
    let loud = quiet.replace("1 passed,", "=== 1 passed,").replace("0.01s", "0.01s ===");
    assert_no_cut_passes(PYTEST, loud.as_bytes());
}

#[test]
fn the_counts_are_those_of_the_names() {
    let summary = "PASSED a.py::a\nPASSED a.py::b\nFAILED a.py::c - x\nSKIPPED [1] a.py:1: no";
    assert_eq!(sets(PYTEST, report(summary, "1 failed, 2 passed, 1 skipped").as_bytes()).len(), 4);
    for counts in [
        "1 failed, 3 passed, 1 skipped",
        "1 failed, 2 passed, 2 skipped",
        "2 failed, 2 passed, 1 skipped",
        "1 failed, 2 passed, 1 skipped, 1 error",
    ] {
        assert_incomplete(PYTEST, report(summary, counts).as_bytes(), "of which the summary names");
    }
    for counts in ["1 failed, 1 passed, 1 skipped", "2 passed, 1 skipped", "no tests ran"] {
        assert_contradiction(PYTEST, report(summary, counts).as_bytes(), "and the summary names");
    }
    assert_contradiction(
        PYTEST,
        report(summary, "2 passed, 1 failed, 1 skipped, 2 passed").as_bytes(),
        "twice",
    );
    // Counts that this version does not know make it another line.
    assert_incomplete(
        PYTEST,
        report(summary, "1 failed, 2 passed, 1 skipped, 1 odd").as_bytes(),
        "is missing",
    );
    let huge = report("SKIPPED [18446744073709551615] a.py:1: no", "18446744073709551615 skipped");
    assert_contradiction(PYTEST, huge.as_bytes(), "the names of its tests");
}

#[test]
fn the_end_is_the_end() {
    let good = report("PASSED a.py::a", "1 passed");
    assert_eq!(sets(PYTEST, format!("{good}\n\n").as_bytes()).passed, ids(&["a.py::a"]));
    // pytest shows late warnings between the summary and the last line.
    let late = good.replace("\n=== 1", "\n=== warnings summary ===\nPASSED a.py::b\n=== 1");
    assert_eq!(sets(PYTEST, late.as_bytes()).passed, ids(&["a.py::a"]));
    assert_incomplete(PYTEST, format!("{good}bye\n").as_bytes(), "behind the last line");
    assert_incomplete(PYTEST, format!("{good}{good}").as_bytes(), "behind the last line");
    let summaries =
        good.replace("\n=== 1 passed", "\n=== short test summary info ===\nPASSED a.py::a\n=== 1 passed");
    assert_contradiction(PYTEST, summaries.as_bytes(), "second time");
    assert_contradiction(PYTEST, format!("{good}1 passed in 0.01s\n").as_bytes(), "second time");
    assert_incomplete(
        PYTEST,
        format!("{good}!!! _pytest.outcomes.Exit: bye !!!\n").as_bytes(),
        "ended early",
    );
    let reversed = "1 passed in 0.01s\n=== short test summary info ===\nPASSED a.py::a\n";
    assert_contradiction(PYTEST, reversed.as_bytes(), "behind the last line");
}

#[test]
fn ids_are_stable() {
    let one = report("PASSED a.py::t[<x.O object at 0x7f42f7457c50>]", "1 passed");
    let other = report("PASSED a.py::t[<x.O object at 0x10b1>]", "1 passed");
    assert_eq!(parse(PYTEST, one.as_bytes()), parse(PYTEST, other.as_bytes()));
    let mut bytes = report("PASSED a.py::t[X]", "1 passed").into_bytes();
    let at = bytes.iter().position(|byte| *byte == b'X').unwrap();
    bytes[at] = 0xff;
    assert_malformed(PYTEST, &bytes, "not UTF-8");
    assert_malformed(PYTEST, report("PASSED  - x", "1 passed").as_bytes(), "without a name");
}

#[test]
fn tests_that_differ_in_an_address_are_all_counted() {
    let green = report(
        "PASSED a.py::b[<X at 0x14>]\nFAILED a.py::b[<X at 0x12>] - no\nFAILED a.py::b[<X at 0x13>]",
        "2 failed, 1 passed",
    );
    let three = sets(PYTEST, green.as_bytes());
    assert_eq!(three.passed, ids(&["a.py::b[<X at 0x>]"]));
    assert_eq!(three.failed, ids(&["a.py::b[<X at 0x>] #2", "a.py::b[<X at 0x>] #3"]));
    // A candidate that has only the one that passes has lost two.
    let one = report("PASSED a.py::b[<X at 0x77>]", "1 passed");
    assert!(!passes(PYTEST, one.as_bytes(), &three));
    let mended = report(
        "PASSED a.py::b[<X at 0x1>]\nPASSED a.py::b[<X at 0x2>]\nPASSED a.py::b[<X at 0x3>]",
        "3 passed",
    );
    assert!(passes(PYTEST, mended.as_bytes(), &three));
    // A node id that comes twice as it is: two tests of a plugin.
    let twice = report("PASSED a.py::t\nPASSED a.py::t\nERROR a.py::t - x", "2 passed, 1 error");
    let twice = sets(PYTEST, twice.as_bytes());
    assert_eq!(twice.passed, ids(&["a.py::t", "a.py::t #2"]));
    assert_eq!(twice.failed, ids(&["a.py::t #3"]));
}

#[test]
fn an_error_beside_a_result_is_of_the_same_test() {
    for summary in [
        "PASSED a.py::t[<X at 0x1>]\nERROR a.py::t[<X at 0x1>] - x",
        "ERROR a.py::t[<X at 0x1>]\nPASSED a.py::t[<X at 0x1>]",
    ] {
        let teardown = sets(PYTEST, report(summary, "1 passed, 1 error").as_bytes());
        assert_eq!((teardown.failed, teardown.passed), (ids(&["a.py::t[<X at 0x>]"]), ids(&[])));
    }
    let both = sets(PYTEST, report("ERROR a.py::t - x\nERROR a.py::t - y", "2 errors").as_bytes());
    assert_eq!(both.failed, ids(&["a.py::t"]));
    // The error is that of the second of two.
    let second = "PASSED a.py::t[<X at 0x1>]\nPASSED a.py::t[<X at 0x2>]\nERROR a.py::t[<X at 0x2>]";
    let second = sets(PYTEST, report(second, "2 passed, 1 error").as_bytes());
    assert_eq!(
        (second.passed, second.failed),
        (ids(&["a.py::t[<X at 0x>]"]), ids(&["a.py::t[<X at 0x>] #2"]))
    );
    let subtest =
        "PASSED a.py::t[<X at 0x1>]\nPASSED a.py::t[<X at 0x2>]\nSUBFAILED(i=1) a.py::t[<X at 0x2>] - x";
    let subtest = sets(PYTEST, report(subtest, "1 failed, 2 passed").as_bytes());
    assert_eq!(
        (subtest.passed, subtest.failed),
        (ids(&["a.py::t[<X at 0x>]"]), ids(&["a.py::t[<X at 0x>] #2"]))
    );
}

proptest! {
    #[test]
    fn any_bytes_are_total(bytes: Vec<u8>, lines in "((PASSED|FAILED|ERROR|SKIPPED|SUBFAILED|SUBSKIPPED)[ \\[(]([1-3]\\] )?a.py(::[ab])?( - x)?\n|=== short test summary info ===\n|[0-2] (passed|failed|skipped) in 0.1s\n|!! x !!\n){0,8}") {
        holds(PYTEST, &bytes)?;
        holds(PYTEST, lines.as_bytes())?;
    }

    #[test]
    fn mutated_reports_are_total(
        old in mutated(real!("pytest-7.txt")),
        new in mutated(real!("pytest-9-subtests.txt")),
        lines in shuffled(real!("pytest-9-xdist.txt")),
    ) {
        for report in [old, new, lines] {
            holds(PYTEST, &report)?;
        }
    }

    #[test]
    fn a_written_report_is_read_back(tests in proptest::collection::btree_map("[a-z]{1,6}(\\[[a-z -]{1,4}\\])?", 0..4_usize, 1..12), quiet: bool) {
        let mut summary = String::new();
        let mut expected = TestSets::default();
        let mut counts = std::collections::BTreeMap::<&str, u32>::new();
        for (name, kind) in &tests {
            let (word, message, count, outcome) = [
                ("PASSED", "", "passed", Outcome::Passed),
                ("FAILED", " - assert 1 == [2] - 3", "failed", Outcome::Failed),
                ("XFAIL", " - later", "xfailed", Outcome::Skipped),
                ("SKIPPED", " - Skipped: no", "skipped", Outcome::Skipped),
            ][*kind];
            writeln!(summary, "{word} t/a.py::{name}{message}").unwrap();
            *counts.entry(count).or_default() += 1;
            expected.record(format!("t/a.py::{name}"), outcome);
        }
        let counts: Vec<_> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
        let mut text = report(summary.trim_end(), &counts.join(", "));
        if quiet {
            let at = text.rfind("\n=== ").unwrap();
            text = format!("{}\n{} in 0.05s\n", &text[..at], counts.join(", "));
        }
        prop_assert_eq!(parse(PYTEST, text.as_bytes()), Ok(Some(expected)));
    }

    #[test]
    fn without_any_of_its_lines_a_green_report_is_no_pass_or_the_same(
        lines in shuffled(b"..\n=== short test summary info ===\nPASSED a.py::a\nPASSED a.py::b\nSKIPPED [1] a.py:3: no\n2 passed, 1 skipped in 0.01s\n"),
    ) {
        let green = b"=== short test summary info ===\nPASSED a.py::a\nPASSED a.py::b\nSKIPPED [1] a.py:3: no\n2 passed, 1 skipped in 0.01s\n";
        let whole = sets(PYTEST, green);
        if passes(PYTEST, &lines, &whole) {
            prop_assert_eq!(parse(PYTEST, &lines), Ok(Some(whole)));
        }
    }
}
