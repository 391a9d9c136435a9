use std::collections::BTreeSet;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

/// A real report, made by the runner that its name says.
macro_rules! real {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/reports/", $name))
    };
}

fn ids(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn parse(bytes: &[u8]) -> Result<TestSets, ReportProblem> {
    super::parse(bytes, SameIds::Merged)
}

fn read(text: &str) -> Result<TestSets, ReportProblem> {
    parse(text.as_bytes())
}

/// The report of one binary.
fn binary(name: &str, source: &str, tests: &[(&str, &str)]) -> String {
    let count = |outcome: &str| tests.iter().filter(|(_, o)| *o == outcome).count();
    let (ok, failed, ignored) = (count("ok"), count("FAILED"), count("ignored"));
    let mut text = format!(
        "     Running {source} (target/debug/deps/{name}-0123456789abcdef)\n\nrunning {} test{}\n",
        tests.len(),
        if tests.len() == 1 { "" } else { "s" }
    );
    for (test, outcome) in tests {
        writeln!(text, "test {test} ... {outcome}").unwrap();
    }
    let status = if failed == 0 { "ok" } else { "FAILED" };
    writeln!(
        text,
        "\ntest result: {status}. {ok} passed; {failed} failed; {ignored} ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
    )
    .unwrap();
    text
}

#[test]
fn a_real_workspace() {
    let sets = parse(real!("libtest-workspace.txt")).unwrap();
    assert_eq!(
        sets.failed,
        ids(&[
            "foo::src/lib.rs - add #2",
            "foo::tests::fails",
            "foo::tests::panics_not",
            "foo::tests::panics_wrong",
            "foo::tests::returns_err",
            "it::fails",
        ])
    );
    assert_eq!(
        sets.passed,
        ids(&[
            "foo (src/main.rs)::in_bin",
            "foo (src/main.rs)::works",
            "foo::src/lib.rs",
            "foo::src/lib.rs - add",
            "foo::src/lib.rs - add #3",
            "foo::src/lib.rs - add #5",
            "foo::src/lib.rs - add #6",
            "foo::tests::adds",
            "foo::tests::panics",
            "it (tests/it.rs)::works",
            "it::works",
            "other::works",
        ])
    );
    assert_eq!(sets.skipped, ids(&["foo::src/lib.rs - add #4", "foo::tests::ign", "foo::tests::ign_reason"]));
    assert!(!sets.partial);
    // Colours change nothing.
    assert_eq!(parse(real!("libtest-colour.txt")), Ok(sets));
}

#[test]
fn fail_fast_is_flagged_and_keeps_the_names() {
    // Field report 2.104.
    let sets = parse(real!("libtest-fail-fast.txt")).unwrap();
    assert!(sets.partial);
    let whole = parse(real!("libtest-workspace.txt")).unwrap();
    assert!(sets.failed.is_subset(&whole.failed) && sets.failed.len() == 4);
    assert!(sets.passed.is_subset(&whole.passed));
}

#[test]
fn other_real_reports() {
    let whole = parse(real!("libtest-verbose.txt")).unwrap();
    // With --verbose cargo does not say where a binary comes from.
    assert!(whole.passed.contains("foo #2::in_bin"), "{whole:?}");
    assert_eq!(whole.len(), 19);
    let shown = parse(real!("libtest-show-output.txt")).unwrap();
    assert_eq!((shown.len(), shown.failed.len()), (19, 6));
    assert_eq!(parse(real!("libtest-nocapture-one-thread.txt")).as_ref(), Ok(&shown));
    // Rustdoc of edition 2024 runs the doc tests of one crate in two batches.
    let doc = parse(real!("libtest-doc-2024.txt")).unwrap();
    assert_eq!(doc.failed, ids(&["foo::src/lib.rs - add #2"]));
    assert_eq!(doc.len(), 7);
}

#[test]
fn real_reports_that_say_nothing() {
    use super::super::{Format, parse};
    let problem = |bytes: &[u8]| parse(Format::Libtest, bytes).unwrap_err();
    // Field report 1.22: nothing matches the filter, exit 0.
    assert_eq!(problem(real!("libtest-filtered-out.txt")), ReportProblem::NoTests);
    let incomplete = |bytes: &[u8], needle: &str| match problem(bytes) {
        ReportProblem::Incomplete { why, .. } => assert!(why.contains(needle), "{why}"),
        other => panic!("{other:?}"),
    };
    incomplete(real!("libtest-build-failed.txt"), "the build failed");
    incomplete(real!("libtest-quiet.txt"), "--quiet");
    incomplete(real!("libtest-abort.txt"), "without a `test result:`");
    // Field report 1.9: the code under test exits with 0.
    incomplete(real!("libtest-exit-zero.txt"), "without a `test result:`");
    assert_eq!(problem(b""), ReportProblem::NoTests);
    incomplete(b"error: failed to parse manifest at `/x/Cargo.toml`\n", "cargo stopped");
}

#[test]
fn every_cut_of_a_real_report_is_a_problem_or_a_smaller_red_one() {
    let text = real!("libtest-workspace.txt");
    let whole = parse(text).unwrap();
    for end in 0..text.len() {
        if let Ok(sets) = super::super::parse(super::super::Format::Libtest, &text[..end]) {
            let sets = sets.unwrap();
            assert!(!sets.failed.is_empty() && sets.failed.is_subset(&whole.failed), "{end}");
        }
    }
}

#[test]
fn names_of_binaries_are_distinct_and_stable() {
    let lib = binary("foo", "unittests src/lib.rs", &[("a", "ok")]);
    let bin = binary("foo", "unittests src/main.rs", &[("a", "FAILED")]);
    let text = format!("{lib}{bin}{bin}{bin}");
    let sets = read(&text).unwrap();
    assert_eq!(sets.passed, ids(&["foo::a"]));
    assert_eq!(
        sets.failed,
        ids(&["foo (src/main.rs)::a", "foo (src/main.rs) #2::a", "foo (src/main.rs) #3::a"])
    );
    // Windows paths give the same ids.
    let windows = text
        .replace("src/", "src\\")
        .replace("target/debug/deps/", "target\\debug\\deps\\")
        .replace("def)", "def.exe)");
    assert_eq!(read(&windows), Ok(sets));
}

#[test]
fn binaries_without_cargo_have_no_name() {
    let text = binary("foo", "x", &[("a", "ok"), ("b", "FAILED")]);
    let text = text.split_once('\n').unwrap().1;
    let sets = read(&format!("{text}{text}")).unwrap();
    assert_eq!((sets.passed, sets.failed), (ids(&["a"]), ids(&["b"])));
}

#[test]
fn what_tests_print_is_no_result() {
    // Captured output may look like anything, even like a whole run of cargo.
    let nested = binary("inner", "tests/inner.rs", &[("x", "ok")]);
    let text = binary("outer", "tests/outer.rs", &[("good", "ok"), ("bad", "FAILED")]).replace(
        "\n\ntest result",
        &format!("\n\nfailures:\n\n---- bad stdout ----\n{nested}error: 1 target failed:\nerror: could not compile `x`\n\nfailures:\n    bad\n\ntest result"),
    );
    let sets = read(&text).unwrap();
    assert_eq!((sets.passed, sets.failed), (ids(&["outer::good"]), ids(&["outer::bad"])));
}

#[test]
fn lies_are_contradictions_or_incomplete() {
    let good = binary("foo", "tests/foo.rs", &[("a", "ok"), ("b", "FAILED")]);
    assert!(read(&good).is_ok());
    for (from, to) in [
        // The wrong numbers.
        ("1 passed", "2 passed"),
        ("1 failed", "0 failed"),
        ("0 ignored", "1 ignored"),
        ("0 measured", "1 measured"),
        ("result: FAILED", "result: ok"),
        ("running 2", "running 1"),
        ("running 2", "running 3"),
        ("test b ... FAILED", "test b ... ok"),
        // One result too many, as a test under --nocapture may print it.
        ("test a ... ok", "test a ... ok\ntest c ... ok"),
        // A second result line.
        (
            "finished in 0.00s\n",
            "finished in 0.00s\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        ),
        ("\ntest result: ", "\ntest resul: "),
        ("test b ... FAILED", "test b ... FAILEDx"),
        ("test b ... FAILED", ""),
        ("test b ... FAILED", "test  ... FAILED"),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good, "{from}");
        let problem = read(&bad);
        assert!(
            matches!(
                problem,
                Err(ReportProblem::Contradiction { .. }
                    | ReportProblem::Incomplete { .. }
                    | ReportProblem::Malformed { .. })
            ),
            "{from:?} to {to:?}: {problem:?}"
        );
    }
    // cargo saw a failure that the binary did not report.
    let green = binary("foo", "tests/foo.rs", &[("a", "ok")]);
    let text = format!("{green}error: test failed, to rerun pass `--test foo`\n");
    assert!(matches!(read(&text), Err(ReportProblem::Contradiction { .. })));
    // A binary that ends before main says anything, or the next starts while one runs.
    let silent = "     Running tests/x.rs (target/debug/deps/x-0123456789abcdef)\n";
    for text in
        [format!("{silent}{good}"), format!("{good}{silent}"), format!("{silent}running 1 test\n{good}")]
    {
        assert!(matches!(read(&text), Err(ReportProblem::Incomplete { .. })), "{text}");
    }
}

#[test]
fn output_between_name_and_outcome() {
    let text = "running 2 tests\ntest a ... hello\ntest b ... ok\nworld\nok\ntest b ... \nFAILED\n\nfailures:\n\nfailures:\n    b\n\n\
                test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
    let sets = read(text).unwrap();
    assert_eq!((sets.passed, sets.failed), (ids(&["a"]), ids(&["b"])));
    // A test that prints `ok` before it fails is found out by the count.
    let forged = "running 1 test\ntest a ... ok\nFAILED\n\nfailures:\n    a\n\n\
                  test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
    assert!(matches!(read(forged), Err(ReportProblem::Contradiction { .. })));
    let glued = "running 1 test\ntest a ... hellook\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
    assert!(matches!(read(glued), Err(ReportProblem::Incomplete { .. })));
}

#[test]
fn benches_are_tests() {
    let text = "running 1 test\ntest speed ... bench:       1,234 ns/iter (+/- 12)\n\n\
                test result: ok. 0 passed; 0 failed; 0 ignored; 1 measured; 0 filtered out; finished in 1.00s\n";
    assert_eq!(read(text).unwrap().passed, ids(&["speed"]));
}

#[test]
fn examples_of_one_item_keep_their_names_when_lines_move() {
    let doc = |lines: [u64; 3]| {
        format!(
            "   Doc-tests foo\n\nrunning 3 tests\ntest src/lib.rs - a (line {}) ... ok\ntest src/lib.rs - a (line {}) ... FAILED\n\
             test src/lib.rs - a (line {}) - compile ... ok\n\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n",
            lines[0], lines[1], lines[2]
        )
    };
    // The order in which they end is not the order in the file, and 10 comes after 9.
    let sets = read(&doc([10, 9, 200])).unwrap();
    assert_eq!(sets.failed, ids(&["foo::src/lib.rs - a"]));
    assert_eq!(sets.passed, ids(&["foo::src/lib.rs - a #2", "foo::src/lib.rs - a #3"]));
    assert_eq!(read(&doc([15, 14, 205])), Ok(sets));
}

#[test]
fn names_that_are_not_utf_8_are_refused() {
    let text = b"running 1 test\ntest a\xff ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
    assert!(matches!(parse(text), Err(ReportProblem::Malformed { line: 2, .. })));
}

#[test]
fn a_hostile_giant_takes_linear_time() {
    let many = "     Running x (a-0123456789abcdef)\nrunning 0 tests\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured\n".repeat(20_000);
    assert!(read(&many).unwrap().is_empty());
    let long = format!("running 1 test\ntest {} ... ok\n", "a ... ".repeat(400_000));
    assert!(read(&long).is_err());
    assert!(read(&"\u{1b}[".repeat(1_000_000)).unwrap().is_empty());
}

proptest! {
    #[test]
    fn a_written_report_is_read_back(
        binaries in proptest::collection::vec(
            ("[a-c]", proptest::collection::btree_map("[a-z]{1,3}(::[a-z]{1,3})?", 0..3_usize, 0..6)),
            1..5,
        ),
    ) {
        let mut text = String::new();
        let (mut passed, mut failed, mut ignored) = (0, 0, 0);
        for (name, tests) in &binaries {
            let tests: Vec<_> = tests.iter().map(|(test, o)| (test.as_str(), ["ok", "FAILED", "ignored"][*o])).collect();
            passed += tests.iter().filter(|(_, o)| *o == "ok").count();
            failed += tests.iter().filter(|(_, o)| *o == "FAILED").count();
            ignored += tests.iter().filter(|(_, o)| *o == "ignored").count();
            text += &binary(name, "tests/same.rs", &tests);
        }
        let sets = read(&text).unwrap();
        prop_assert_eq!((sets.passed.len(), sets.failed.len(), sets.skipped.len()), (passed, failed, ignored));
    }

    #[test]
    fn any_bytes_and_any_mix_of_lines_are_total(
        bytes: Vec<u8>,
        lines in proptest::collection::vec(
            prop_oneof![
                Just("running 1 test\n"), Just("running 2 tests\n"), Just("test a ... ok\n"), Just("test b ... FAILED\n"),
                Just("test a ... "), Just("ok\n"), Just("failures:\n"), Just("error: 1 target failed:\n"),
                Just("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n"),
                Just("test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured\n"),
                Just("     Running x (a-0123456789abcdef)\n"), Just("   Doc-tests a\n"),
                Just("error: test failed, to rerun pass `x`\n"), Just("\u{1b}[1m"), Just("test x (line 3) ... ok\n"),
            ],
            0..12,
        ),
    ) {
        let _ = parse(&bytes);
        let mixed = lines.concat();
        // A failure that was named never becomes a green report.
        if let Ok(sets) = read(&mixed)
            && sets.partial
        {
            prop_assert!(!sets.failed.is_empty());
        }
    }
}
