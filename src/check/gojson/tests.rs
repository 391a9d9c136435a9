use std::fmt::Write as _;

use proptest::prelude::*;

use super::super::testing::{
    assert_contradiction, assert_incomplete, assert_malformed, assert_no_cut_passes, holds, ids, mutated,
    passes, real, sets, shuffled,
};
use super::super::{Format, ReportProblem, parse};

const GO: Format = Format::GoJson;

/// An event of the package `p`.
fn event(action: &str, test: &str) -> String {
    format!("{{\"Action\":\"{action}\",\"Package\":\"p\",\"Test\":\"{test}\"}}\n")
}

/// An event of the package `p` as a whole.
fn package(action: &str) -> String {
    format!("{{\"Action\":\"{action}\",\"Package\":\"p\"}}\n")
}

fn output(line: &str) -> String {
    format!("{{\"Action\":\"output\",\"Package\":\"p\",\"Output\":\"{line}\"}}\n")
}

/// One test that passes.
fn green() -> String {
    [event("run", "TestA"), event("pass", "TestA"), output("PASS\\n"), package("pass")].concat()
}

#[test]
fn a_real_red_report() {
    for report in [&real!("go-1.19-red.json")[..], real!("go-1.27-red.json")] {
        let sets = sets(GO, report);
        let sum = |names: &[&str]| {
            ids(&names
                .iter()
                .map(|name| format!("example.com/p/{name}"))
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>())
        };
        assert_eq!(sets.failed, sum(&["sum::TestMax", "sum::TestMax/1_or_2"]));
        assert_eq!(sets.skipped, sum(&["sum::TestLater"]));
        assert_eq!(
            sets.passed,
            sum(&[
                "sum::ExampleAdd",
                "sum::FuzzAdd",
                "sum::FuzzAdd/seed#0",
                "sum::TestAdd",
                "sum::TestMax/2_or_1",
                "sum::TestParallel",
                "sum::TestParallel/a",
                "sum::TestParallel/b",
                "text::TestUp",
            ])
        );
        assert!(!sets.partial);
    }
}

#[test]
fn real_green_reports_and_their_cuts() {
    for (green, less) in [
        (&real!("go-1.19-green.json")[..], &real!("go-1.19-less.json")[..]),
        (real!("go-1.27-green.json"), real!("go-1.27-less.json")),
    ] {
        assert_no_cut_passes(GO, green);
        let whole = sets(GO, green);
        assert_eq!((whole.passed.len(), whole.skipped.len()), (11, 1));
        // Green by testing less.
        assert_eq!(sets(GO, less).failed.len(), 0);
        assert!(!passes(GO, less, &whole));
    }
}

#[test]
fn a_benchmark_passes_with_its_package() {
    let sets = sets(GO, real!("go-1.27-bench.json"));
    assert!(sets.passed.contains("example.com/p/sum::BenchmarkAdd"), "{sets:?}");
    // Old versions do not tell of it.
    let old = [event("bench", "BenchmarkA"), output("PASS\\n"), package("pass")].concat();
    assert!(super::super::testing::sets(GO, old.as_bytes()).passed.contains("p::BenchmarkA"));
    let cut_short = [event("run", "BenchmarkA"), package("fail")].concat();
    assert_incomplete(GO, cut_short.as_bytes(), "without the line `FAIL`");
}

#[test]
fn real_reports_that_say_nothing() {
    // The tests behind a panic are in no event.
    for panic in [&real!("go-1.19-panic.json")[..], real!("go-1.27-panic.json")] {
        assert_incomplete(GO, panic, "without the line `FAIL`");
    }
    // Field report 1.9: the code under test exits with 0, past Go's own guard. Go then takes the end of the package for that of
    // the test.
    for exit in [&real!("go-1.19-exit-zero.json")[..], real!("go-1.27-exit-zero.json")] {
        assert_incomplete(GO, exit, "`example.com/p/text`, of which line 1 is the first, does not end");
    }
    // Field report 2.100.
    assert_incomplete(GO, real!("go-1.19-build-failed.json"), "could not be built");
    assert_incomplete(
        GO,
        real!("go-1.27-build-failed.json"),
        "`example.com/p/text [example.com/p/text.test]`",
    );
    for main in [&real!("go-1.19-main.json")[..], real!("go-1.27-main.json")] {
        assert_incomplete(GO, main, "without the line `FAIL`");
    }
    for cached in [&real!("go-1.19-cached.json")[..], real!("go-1.27-cached.json")] {
        assert_incomplete(GO, cached, "-count=1");
    }
}

#[test]
fn what_a_test_prints_is_no_result() {
    // Go 1.19 takes `--- PASS: TestUp` for what it looks like.
    assert_contradiction(GO, real!("go-1.19-forged.json"), "was not running");
    let sets = sets(GO, real!("go-1.27-forged.json"));
    assert_eq!(sets.failed, ids(&["example.com/p/text::TestUp"]));
}

#[test]
fn results_fit_together() {
    assert_eq!(sets(GO, green().as_bytes()).passed, ids(&["p::TestA"]));
    let join = |parts: &[String]| parts.concat();
    let run = || event("run", "TestA");
    for (report, why) in [
        (join(&[event("pass", "TestA"), output("PASS\\n"), package("pass")]), "was not running"),
        (join(&[run(), event("pass", "TestA"), event("fail", "TestA"), package("fail")]), "was not running"),
        (join(&[run(), run()]), "before it has ended"),
        (join(&[run(), event("fail", "TestA"), output("PASS\\n"), package("pass")]), "a test of it failed"),
        (join(&[green(), run()]), "after its end"),
        (join(&[green(), package("pass")]), "after its end"),
        (join(&[run(), event("skip", "TestA"), package("skip")]), "was skipped"),
    ] {
        assert_contradiction(GO, report.as_bytes(), why);
    }
    for (report, why) in [
        (join(&[run()]), "does not end"),
        (join(&[package("start")]), "does not end"),
        (join(&[run(), package("pass")]), "has no result"),
        (join(&[run(), event("pass", "TestA"), package("pass")]), "without the line `PASS`"),
        (join(&[run(), event("pass", "TestA"), output("FAIL\\n"), package("fail")]), "none of its tests"),
        (join(&[output("FAIL\\n"), package("fail")]), "none of its tests"),
        (join(&[green(), "FAIL\tq [setup failed]\n".into()]), "could not be built"),
        (join(&[green(), "FAIL".into()]), "could not be built"),
        (join(&[green(), "{\"Action\":\"pa".into()]), "cut off"),
    ] {
        assert_incomplete(GO, report.as_bytes(), why);
    }
}

#[test]
fn the_same_tests_several_times() {
    // -count=2.
    let twice = [
        event("run", "A"),
        event("fail", "A"),
        event("run", "A"),
        event("pass", "A"),
        output("FAIL\\n"),
        package("fail"),
    ];
    assert_eq!(sets(GO, twice.concat().as_bytes()).failed, ids(&["p::A"]));
    // A second `go test` in one check.
    let again = [
        package("start"),
        green(),
        package("start"),
        event("run", "B"),
        event("pass", "B"),
        output("PASS\\n"),
        package("pass"),
    ];
    assert_eq!(sets(GO, again.concat().as_bytes()).passed, ids(&["p::B", "p::TestA"]));
}

#[test]
fn lines_that_are_no_events() {
    let noise = format!("go: downloading x\n\n  {{\n\u{1b}[1mFAILED\n{}make: done\n", green());
    assert_eq!(sets(GO, noise.as_bytes()).len(), 1);
    assert_eq!(parse(GO, b""), Err(ReportProblem::NoTests));
    assert_eq!(parse(GO, package("skip").as_bytes()), Err(ReportProblem::NoTests));
    assert_eq!(
        parse(GO, [output("PASS\\n"), package("pass")].concat().as_bytes()),
        Err(ReportProblem::NoTests)
    );
}

#[test]
fn hostile_events() {
    for (event, why) in [
        ("{\"Action\":\"pass\",\"Action\":\"fail\",\"Package\":\"p\"}", "comes twice"),
        ("{\"Action\":\"pass\",\"Elapsed\":NaN}", "expected"),
        ("{\"Action\":\"pass\",\"Output\":\"\\ud800\"}", ""),
        ("{\"Action\":1}", "without an `Action`"),
        ("{}", "without an `Action`"),
        ("{\"Action\":\"pass\",\"Test\":\"A\"}", "a test of no package"),
        ("{\"Action\":\"pass\",\"Package\":{}}", "no text"),
        ("{\"Action\":\"pass\"} x", "trailing"),
    ] {
        assert_malformed(GO, format!("{}{event}\n", green()).as_bytes(), why);
    }
    assert_malformed(GO, b"{\"Action\":\"\xff\"}\n", "not UTF-8");
    let deep = format!("{{\"Action\":\"x\",\"a\":{}\n", "[".repeat(1 << 20));
    assert_malformed(GO, deep.as_bytes(), "nested deeper");
}

proptest! {
    #[test]
    fn any_bytes_are_total(bytes: Vec<u8>, events in "(\\{\"Action\":\"(run|pass|fail|skip|start|output)\",\"Package\":\"p\"(,\"Test\":\"[AB]\")?(,\"Output\":\"(PASS|FAIL)\")?\\}\n){0,8}") {
        holds(GO, &bytes)?;
        holds(GO, events.as_bytes())?;
    }

    #[test]
    fn mutated_reports_are_total(
        old in mutated(real!("go-1.19-red.json")),
        new in mutated(real!("go-1.27-green.json")),
        lines in shuffled(real!("go-1.27-red.json")),
    ) {
        for report in [old, new, lines] {
            holds(GO, &report)?;
        }
    }

    #[test]
    fn without_any_of_its_lines_a_green_report_is_no_pass_or_the_same(lines in shuffled(real!("go-1.27-green.json"))) {
        let whole = sets(GO, real!("go-1.27-green.json"));
        if passes(GO, &lines, &whole) {
            let now = sets(GO, &lines);
            prop_assert!(now.passed.is_superset(&whole.passed));
        }
    }

    #[test]
    fn a_written_report_is_read_back(tests in proptest::collection::btree_map("Test[A-Z][a-z/]{0,4}", 0..3_usize, 1..12)) {
        let mut text = String::new();
        let mut expected = super::super::TestSets::default();
        for (name, outcome) in &tests {
            let outcome = [super::Outcome::Passed, super::Outcome::Skipped, super::Outcome::Failed][*outcome];
            write!(text, "{}{}", event("run", name), event(match outcome {
                super::Outcome::Passed => "pass",
                super::Outcome::Skipped => "skip",
                super::Outcome::Failed => "fail",
            }, name)).unwrap();
            expected.record(format!("p::{name}"), outcome);
        }
        let red = !expected.failed.is_empty();
        write!(text, "{}{}", output(if red { "FAIL\\n" } else { "PASS\\n" }), package(if red { "fail" } else { "pass" })).unwrap();
        prop_assert_eq!(parse(GO, text.as_bytes()), Ok(Some(expected)));
    }
}
