use std::fmt::Write as _;

use proptest::prelude::*;

use super::super::testing::{
    assert_contradiction, assert_incomplete, assert_malformed, assert_no_cut_passes, holds, ids, mutated,
    passes, real, sets, shuffled,
};
use super::super::{Format, ReportProblem, TestSets, parse};
use super::Outcome;

const TAP: Format = Format::Tap;

#[test]
fn real_reports_of_node() {
    let old = sets(TAP, real!("node-20.tap"));
    assert_eq!(
        old.failed,
        ids(&[
            "fails # SKIP not",
            "hooked",
            "hooked > never",
            "parent",
            "parent > bad child",
            "suite",
            "suite > bad in"
        ])
    );
    assert_eq!(old.skipped, ids(&["later", "some day", "todo passes"]));
    assert_eq!(
        old.passed,
        ids(&[
            "adds",
            "c.test.js",
            "parent > child",
            "same",
            "same #2",
            "suite > deep",
            "suite > deep > er",
            "suite > in"
        ])
    );
    assert_eq!(sets(TAP, real!("node-18.tap")), old);
    // Newer versions give a file that has no tests by its relative path.
    let new = sets(TAP, real!("node-24.tap"));
    assert_eq!((&new.failed, &new.skipped), (&old.failed, &old.skipped));
    assert_eq!(new.passed.difference(&old.passed).collect::<Vec<_>>(), ["test/c.test.js"]);
}

#[test]
fn a_file_that_fails_as_a_whole() {
    // Field report 2.100.
    assert_incomplete(TAP, real!("node-20-broken.tap"), "`d.test.js` could not be loaded");
    assert_incomplete(TAP, real!("node-24-broken.tap"), "`test/d.test.js` could not be loaded");
    // Its tests may be in it, whatever the folder is.
    for place in ["/w/1", "/v/22"] {
        let text = format!("1..1\n    1..1\n    ok 1 - a\nok 1 - {place}/x.test.js\n");
        assert_eq!(sets(TAP, text.as_bytes()).passed, ids(&["x.test.js", "x.test.js > a"]));
    }
    // A test that is called so.
    let sets = sets(TAP, b"1..1\nnot ok 1 - index.js\n");
    assert_eq!(sets.failed, ids(&["index.js"]));
}

#[test]
fn real_reports_of_others() {
    let perl = sets(TAP, real!("perl.tap"));
    assert_eq!(perl.failed, ids(&["# compared"]));
    assert_eq!(perl.skipped, ids(&["#3", "#5", "to do"]));
    assert_eq!(perl.passed, ids(&["outer", "outer > in", "outer > inner", "outer > inner > deep"]));
    let tape = sets(TAP, real!("tape.tap"));
    assert_eq!(tape.failed, ids(&["eq", "should be deeply equivalent"]));
    assert_eq!((tape.passed, tape.skipped), (ids(&["should be truthy"]), ids(&["x"])));
}

/// Passes, skips and nests, the plan at the start or the end.
const GREEN: [&str; 2] = [
    "TAP version 14\n1..4\nok 1 - a\n# Subtest: b\n    ok 1 - in # SKIP no\n    ok 2 - out\n    1..2\nok 2 - b\n  ---\n  x: 1\n  ...\nok 3 - c # skip why\nok 4 - d\n",
    "noise\nok 1 - a\n# Subtest: b\n    1..2\n    ok 1 - in # SKIP no\n    ok 2 - out\nok 2 - b\nok 3 - c # skip why\nok 4 - d\n1..4\n# tests 4\n",
];

#[test]
fn no_cut_of_a_green_report_passes() {
    for green in GREEN {
        assert_no_cut_passes(TAP, green.as_bytes());
        let sets = sets(TAP, green.as_bytes());
        assert_eq!(sets.passed, ids(&["a", "b", "b > out", "d"]));
        assert_eq!(sets.skipped, ids(&["b > in", "c"]));
    }
}

#[test]
fn plans() {
    for text in ["1..2\nok\nok\n", "ok\nok\n1..2\n", "TAP version 12\n1..2\nok 2\nok 1\n", "1..2\nok 1\nok\n"]
    {
        assert_eq!(sets(TAP, text.as_bytes()).passed.len(), 2, "{text}");
    }
    for (text, why) in [
        ("ok 1\n", "no plan"),
        ("TAP version 13\n", "no plan"),
        ("1..2\nok 1\n", "2 tests, and 1 came"),
        ("1..1\n    ok 1\nok 1\n", "no plan"),
        ("1..1\n    1..2\n    ok 1\nok 1\n", "2 tests, and 1 came"),
        ("1..1\nok 1\n    1..1\n    ok 1\n", "without the test that sums it up"),
        ("    1..1\n    ok 1\n1..0\n", "without the test that sums it up"),
        ("1..1\n        1..1\n    ok 1\nok 1\n", "no plan"),
        ("1..1\nok 1\n  ---\n  x: 1\n", "does not end"),
        ("1..1\nok 1 - a", "last line does not end"),
        ("1..1\nBail out! no disk\nok 1\n", "bailed out: no disk"),
        ("1..1\n    bail out!\n", "bailed out"),
    ] {
        assert_incomplete(TAP, text.as_bytes(), why);
    }
    for (text, why) in [
        ("1..1\nok 1\nok 2\n", "1 tests, and 2 came"),
        ("1..2\nok 1\nok 1\n", "the number 1"),
        ("1..2\nok 1\nok 3\n", "the number 3"),
        ("1..1\nok 0\n", "the number 0"),
        ("1..2\nok 2\nok\n", "the number 2"),
        ("1..1\nok 1\n1..1\n", "a second plan"),
        ("ok 1\n1..1\nok 2\n", "after the plan at the end"),
        ("ok 1\n1..2\nok 2\n", "after the plan at the end"),
        ("TAP version 13\n1..1\nok 1\nTAP version 13\n1..1\nok 1\n", "a second report"),
        ("1..1\nok 1\nTAP version 13\n", "a second report"),
        ("1..1\n    not ok 1 - b\n    1..1\nok 1 - a\n", "a test below it failed"),
    ] {
        assert_contradiction(TAP, text.as_bytes(), why);
    }
    assert_eq!(parse(TAP, b""), Err(ReportProblem::NoTests));
    assert_eq!(parse(TAP, b"nothing\n"), Err(ReportProblem::NoTests));
    assert_eq!(parse(TAP, b"TAP version 14\n1..0 # SKIP all\n"), Err(ReportProblem::NoTests));
}

#[test]
fn directives() {
    let text = "1..6\nok 1 - a # TODO x\nnot ok 2 - b # todo\nok 3 - c # skip\nnot ok 4 - d # SKIP\n    1..1\n    not ok 1 - f\nnot ok 5 - e # TODO\nok 6 - g \\# SKIP\n";
    let sets = sets(TAP, text.as_bytes());
    assert_eq!(sets.skipped, ids(&["a", "b", "c", "e", "e > f"]));
    assert_eq!((sets.failed, sets.passed), (ids(&["d"]), ids(&["g # SKIP"])));
}

#[test]
fn what_a_program_prints_is_no_result_or_spoils_the_count() {
    let quiet = "1..1\nhello\n   ok 7\n\tok 7\n        ok 7 - deep\nokay\n1..x\n# ok 3\npragma +strict\nok 1 - a\n  ---\n  ok 9\n    1..9\nokay\n# Subtest: x\n   ok 7\n  ...\n";
    assert_eq!(sets(TAP, quiet.as_bytes()).passed, ids(&["a"]));
    for forged in [
        "1..1\nok 1 - forged\nnot ok 1 - a\n",
        "ok 1 - forged\nnot ok 1 - a\n1..1\n",
        "1..1\nok 1 - forged\n1..1\nnot ok 1 - a\n",
    ] {
        assert!(parse(TAP, forged.as_bytes()).is_err(), "{forged}");
    }
    // Colours mean nothing.
    assert_eq!(sets(TAP, b"1..1\r\n\x1b[31mnot ok\x1b[0m 1 - \x1b[1ma\x1b[0m\r\n").failed, ids(&["a"]));
}

#[test]
fn a_block_hides_no_result() {
    // A test prints the beginning of a block, and another one its end and results of its own.
    for hidden in [
        "1..3\nok 1 - a\n  ---\nnot ok 2 - b\nnot ok 3 - c\n  ...\nok 2 - b\nok 3 - c\n",
        "ok 1 - a\n  ---\n1..1\n  ...\n1..1\n",
        "1..1\nok 1 - a\n  ---\nBail out!\n  ...\n",
        "1..1\nok 1 - a\n  ---\nTAP version 13\n  ...\n",
        "1..1\n    ok 1 - a\n      ---\n    not ok 2 - b\n      ...\n    1..1\nok 1 - c\n",
        "1..1\n    ok 1 - a\n      ---\nok 1 - c\n      ...\n    1..1\nok 1 - c\n",
    ] {
        assert_incomplete(TAP, hidden.as_bytes(), "inside a diagnostic block");
    }
    // What is indented as the block or more is its content.
    let content = "1..1\nok 1 - a\n  ---\n  not ok 2\n    not ok 3\n  x\n\n  ...\n";
    assert_eq!(sets(TAP, content.as_bytes()).passed, ids(&["a"]));
}

#[test]
fn hostile_reports() {
    assert_malformed(TAP, b"1..1\nok 1 - \xff\n", "not UTF-8");
    assert_malformed(TAP, b"TAP version 15\n1..1\nok 1\n", "version 15");
    assert_malformed(TAP, b"1..1\nok 1 - a # time=1ms {\n    ok 1\n    1..1\n}\n", "braces");
    let mut deep = String::new();
    for level in 0..80 {
        writeln!(deep, "{}# Subtest: x", "    ".repeat(level)).unwrap();
    }
    assert_malformed(TAP, deep.as_bytes(), "nest deeper");
    assert_incomplete(TAP, b"1..18446744073709551615\nok 1\n", "and 1 came");
    // A name that takes much for each of many tests.
    let mut wide = String::new();
    for number in 1..=100_000 {
        writeln!(wide, "    ok {number}").unwrap();
    }
    write!(wide, "    1..100000\nok 1 - {}\n1..1\n", "x".repeat(1 << 20)).unwrap();
    assert_contradiction(TAP, wide.as_bytes(), "the names of its tests");
}

proptest! {
    #[test]
    fn any_bytes_are_total(bytes: Vec<u8>, lines in "((    ){0,3}((not )?ok( [0-4])?( - [ab])?( # (TODO|SKIP))?|1\\.\\.[0-4]|# Subtest|  ---|  \\.\\.\\.)\n){0,12}") {
        holds(TAP, &bytes)?;
        holds(TAP, lines.as_bytes())?;
    }

    #[test]
    fn mutated_reports_are_total(
        node in mutated(real!("node-20.tap")),
        perl in mutated(real!("perl.tap")),
        lines in shuffled(real!("node-24.tap")),
    ) {
        for report in [node, perl, lines] {
            holds(TAP, &report)?;
        }
    }

    #[test]
    fn without_any_of_its_lines_a_green_report_is_no_pass_or_the_same(lines in shuffled(GREEN[1].as_bytes())) {
        let whole = sets(TAP, GREEN[1].as_bytes());
        if passes(TAP, &lines, &whole) {
            let now = sets(TAP, &lines);
            prop_assert!(now.passed.is_superset(&whole.passed), "{:?}", String::from_utf8_lossy(&lines));
        }
    }

    #[test]
    fn a_written_report_is_read_back(tests in proptest::collection::btree_map("[a-z#\\\\]{1,6}", 0..4_usize, 1..12), at_end: bool) {
        let mut text = String::new();
        let mut expected = TestSets::default();
        for (index, (name, kind)) in tests.iter().enumerate() {
            let (word, directive, outcome) = [
                ("ok", "", Outcome::Passed),
                ("not ok", "", Outcome::Failed),
                ("ok", " # SKIP", Outcome::Skipped),
                ("not ok", " # TODO later", Outcome::Skipped),
            ][*kind];
            let escaped = name.replace('\\', "\\\\").replace('#', "\\#");
            writeln!(text, "{word} {} - {escaped}{directive}", index + 1).unwrap();
            expected.record(name.clone(), outcome);
        }
        let plan = format!("1..{}\n", tests.len());
        let text = if at_end { text + &plan } else { plan + &text };
        prop_assert_eq!(parse(TAP, text.as_bytes()), Ok(Some(expected)));
    }
}
