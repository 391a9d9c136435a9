use std::collections::BTreeSet;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::super::Format;
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

/// This many attributes, all different.
fn attributes(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, index| {
        write!(text, "a{index}=\"\" ").unwrap();
        text
    })
}

fn is_contradiction(text: &str) -> bool {
    matches!(read(text), Err(ReportProblem::Contradiction { .. }))
}

fn is_malformed(text: &str) -> bool {
    matches!(read(text), Err(ReportProblem::Malformed { .. }))
}

fn is_incomplete(text: &str) -> bool {
    matches!(read(text), Err(ReportProblem::Incomplete { .. }))
}

#[test]
fn real_pytest() {
    let sets = parse(real!("pytest.xml")).unwrap();
    assert_eq!(
        sets.failed,
        ids(&[
            "test_a::test_bad",
            "test_a::test_fail_and_teardown_error",
            "test_a::test_setup_error",
            "test_a::test_skip_and_teardown",
            "test_a::test_teardown_error",
            "test_a::test_xpass_strict",
        ])
    );
    assert_eq!(sets.skipped, ids(&["test_a::test_skip", "test_a::test_xfail"]));
    assert_eq!(
        sets.passed,
        ids(&[
            "test_a.TestC::test_in_class",
            "test_a::test_ok",
            "test_a::test_param[\\x1b[31m]",
            "test_a::test_param[\\xe9]",
            "test_a::test_param[a/b::c]",
            "test_a::test_param[a<b]",
            "test_a::test_xpass",
        ])
    );
    // The other family of pytest's XML gives the same ids.
    assert_eq!(parse(real!("pytest-xunit1.xml")), Ok(sets));
}

#[test]
fn real_pytest_with_subtests_that_it_counts_and_does_not_write() {
    let sets = parse(real!("pytest-subtests.xml")).unwrap();
    assert_eq!(sets.failed, ids(&["test_s.T::test_sub", "test_s.T::test_two", "test_s::test_fixture"]));
    assert_eq!(sets.skipped, ids(&["test_s.T::test_skip"]));
    assert_eq!(sets.passed, ids(&["test_s.T::test_ok"]));
    // The name of the suite can be configured, that of the root cannot; older versions wrote only the suite's.
    let case = r#"<testcase name="a"/>"#;
    for (root, suite) in [("pytest tests", "mine"), ("", "pytest")] {
        let text = format!(
            r#"<testsuites name="{root}"><testsuite name="{suite}" tests="9">{case}</testsuite></testsuites>"#
        );
        assert!(read(&text).is_ok(), "{text}");
    }
    // Failures are counted by everybody alike, and fewer tests than there are is wrong for everybody.
    assert!(is_contradiction(&format!(
        r#"<testsuite name="pytest" tests="9" failures="1">{case}</testsuite>"#
    )));
    assert!(is_contradiction(&format!(r#"<testsuite name="pytest" tests="0">{case}</testsuite>"#)));
    assert!(is_contradiction(&format!(r#"<testsuite name="other" tests="9">{case}</testsuite>"#)));
}

/// The tests of a report that is incomplete because a test case stands for others, and what is said of that one.
fn read_incomplete(bytes: &[u8]) -> (TestSets, String) {
    let problem = parse(bytes).unwrap_err();
    assert!(matches!(problem, ReportProblem::Incomplete { .. }), "{problem:?}");
    (super::read(bytes).unwrap().0.merged, problem.to_string())
}

#[test]
fn real_pytest_that_collects_nothing() {
    // Field report 2.100: a module that cannot be imported is red, and named.
    let (sets, problem) = read_incomplete(real!("pytest-collection-error.xml"));
    assert_eq!((sets.failed, sets.passed), (ids(&["sub.test_e7"]), ids(&[])));
    assert!(problem.contains("line 1: `sub.test_e7` stands for tests"), "{problem}");
    // Field report 1.7: an empty collection.
    assert_eq!(super::super::parse(Format::Junit, real!("pytest-none.xml")), Err(ReportProblem::NoTests));
}

#[test]
fn real_nextest() {
    let sets = parse(real!("nextest.xml")).unwrap();
    assert_eq!(
        sets.failed,
        ids(&[
            // It failed, then passed: field report 1.27.
            "foo::flaky::flaky",
            "foo::it::fails",
            "foo::tests::fails",
            "foo::tests::panics_not",
            "foo::tests::panics_wrong",
            "foo::tests::returns_err",
        ])
    );
    assert_eq!(
        sets.passed,
        ids(&[
            "foo::bin/foo::in_bin",
            "foo::bin/foo::works",
            "foo::it::works",
            "foo::tests::adds",
            "foo::tests::panics",
            "other::it::works",
            "other::works",
        ])
    );
}

#[test]
fn real_node() {
    let sets = parse(real!("node.xml")).unwrap();
    assert_eq!(sets.failed, ids(&["test::bad", "test::bad in"]));
    assert_eq!(sets.skipped, ids(&["test::skip", "test::todo"]));
    assert_eq!(sets.passed.len(), 4);
}

#[test]
fn other_real_writers() {
    let (sets, problem) = read_incomplete(real!("jest-junit.xml"));
    assert!(problem.contains("`Test suite failed to run::t/broken.test.js`"), "{problem}");
    assert_eq!(sets.failed, ids(&["outer bad::outer bad", "Test suite failed to run::t/broken.test.js"]));
    assert_eq!((sets.passed.len(), sets.skipped.len()), (3, 1));
    let (sets, problem) = read_incomplete(real!("vitest.xml"));
    assert!(problem.contains("`t/broken.test.js::t/broken.test.js`"), "{problem}");
    assert_eq!(sets.failed, ids(&["t/a.test.js::outer > bad", "t/broken.test.js::t/broken.test.js"]));
    assert_eq!((sets.passed.len(), sets.skipped.len()), (2, 2));
    let (sets, problem) = read_incomplete(real!("unittest-xml-reporting.xml"));
    assert!(problem.contains("`setUpClass (tu.S)`"), "{problem}");
    assert_eq!(
        sets.failed,
        ids(&["setUpClass (tu.S)", "tu.T::test_bad", "tu.T::test_err", "tu.T::test_sub", "tu.T::test_xp"])
    );
    assert_eq!((sets.passed.len(), sets.skipped.len()), (1, 2));
}

#[test]
fn a_test_case_that_stands_for_others_is_one_only_if_it_failed() {
    for (attributes, inside) in [
        (r#"classname="" name="tests.test_a""#, r#"<error message="collection failure"/>"#),
        (r#"classname="unittest.loader._FailedTest" name="tests.test_a""#, "<error/>"),
        (r#"classname="unittest.loader._FailedTest.tests" name="test_a""#, "<error/>"),
        (r#"name="unittest.loader._FailedTest.tests.test_a""#, "<error/>"),
        (r#"classname="" name="setUpClass (tests.T)""#, "<error/>"),
        (r#"classname="test" name="/src/a.test.js""#, "<failure/>"),
        (r#"classname="s" name="s""#, "<failure/>"),
    ] {
        let text = |inside: &str| {
            let case = format!("<testcase {attributes}>{inside}</testcase>");
            format!("<testsuite name=\"s\">\n<testcase name=\"x\"/>\n{case}</testsuite>")
        };
        assert!(is_incomplete(&text(inside)), "{attributes}");
        assert!(parse(text(inside).as_bytes()).unwrap_err().to_string().contains("line 3"), "{attributes}");
        assert_eq!(read(&text("")).unwrap().passed.len(), 2, "{attributes}");
    }
    // A test that happens to fail with these words, or in a class of another name.
    for case in [
        r#"<testcase name="a"><failure message="collection failure"/></testcase>"#,
        r#"<testcase classname="t" name="t"><failure/></testcase>"#,
        r#"<testcase classname="test" name="a/b"><failure/></testcase>"#,
    ] {
        assert!(read(&format!(r#"<testsuite name="s">{case}</testsuite>"#)).is_ok(), "{case}");
    }
}

#[test]
fn subtests_are_no_tests_of_their_own() {
    for (name, file, id) in [
        ("test_a (i=1)", "a/t.py", "c::test_a"),
        ("test_a [words] (i=1)", "t.py", "c::test_a"),
        ("test_a (i=1)", "t.js", "c::test_a (i=1)"),
        ("test_a[x y]", "t.py", "c::test_a[x y]"),
        ("test_a[x (y)", "t.py", "c::test_a[x (y)"),
        ("adds (two) numbers", "t.py", "c::adds (two) numbers"),
    ] {
        let text = format!(r#"<testsuite><testcase classname="c" name="{name}" file="{file}"/></testsuite>"#);
        assert_eq!(read(&text).unwrap().passed, ids(&[id]), "{name}");
    }
}

#[test]
fn every_cut_of_a_real_report_is_a_problem() {
    // Every byte of the short one, a sample of the long ones.
    for (report, step) in [(&real!("pytest.xml")[..], 1), (real!("nextest.xml"), 29), (real!("node.xml"), 11)]
    {
        let whole = report.trim_ascii_end();
        for end in (0..whole.len()).step_by(step) {
            assert!(parse(&whole[..end]).is_err(), "{end}");
        }
        assert!(parse(whole).is_ok());
    }
}

#[test]
fn ids_fall_back_from_class_to_file_to_suite() {
    for (attributes, id) in [
        (r#"classname="c" file="f" name="n""#, "c::n"),
        (r#"file="f" name="n""#, "f::n"),
        (r#"file="" name="n""#, "s::n"),
        (r#"name="n""#, "s::n"),
        (r#"classname="" file="f" name="n""#, "n"),
        (r#"classname="a&lt;b" name="&#x6e;&amp;""#, "a<b::n&"),
    ] {
        let text = format!(r#"<testsuite name="s"><testcase {attributes}/></testsuite>"#);
        assert_eq!(read(&text).unwrap().passed, ids(&[id]), "{attributes}");
    }
    let text = r#"<testsuites><testcase name="n"/></testsuites>"#;
    assert_eq!(read(text).unwrap().passed, ids(&["n"]));
    for text in ["<testsuite><testcase/></testsuite>", r#"<testsuite><testcase name=""/></testsuite>"#] {
        assert!(is_malformed(text), "{text}");
    }
}

#[test]
fn outcomes() {
    use Outcome::{Failed, Passed, Skipped};
    for (attributes, inside, outcome) in [
        ("", "", Passed),
        ("", "<system-out>FAILED</system-out>", Passed),
        ("", "<failure/>", Failed),
        ("", "<error/>", Failed),
        ("", "<skipped/>", Skipped),
        ("", "<failure/><skipped/>", Failed),
        ("", "<skipped/><error/>", Failed),
        ("", "<flakyFailure/>", Failed),
        ("", "<flakyError/>", Failed),
        ("", "<rerunFailure/>", Failed),
        ("", "<failure/><rerunFailure/>", Failed),
        ("", r#"<skipped type="todo"/><failure/>"#, Skipped),
        (r#"status="run""#, "", Passed),
        (r#"status="notrun""#, "", Skipped),
        (r#"status="notrun" result="suppressed""#, "", Skipped),
        (r#"status="run" result="completed""#, "<failure/><failure/>", Failed),
        (r#"status="disabled""#, "", Skipped),
        (r#"status="FAIL""#, "", Failed),
        (r#"status="failed""#, "<skipped/>", Failed),
        (r#"status="passed""#, "<failure/>", Failed),
        (r#"status="skipped""#, "<failure/>", Failed),
    ] {
        let text =
            format!(r#"<testsuite name="s"><testcase name="n" {attributes}>{inside}</testcase></testsuite>"#);
        assert_eq!(read(&text).unwrap().outcome("s::n"), Some(outcome), "{attributes} {inside}");
    }
}

#[test]
fn a_repeated_test_keeps_its_worst_outcome() {
    let case = |inside: &str| format!(r#"<testcase classname="c" name="n">{inside}</testcase>"#);
    for (a, b) in [("", "<failure/>"), ("<error/>", ""), ("<skipped/>", "<failure/>")] {
        let sets = read(&format!("<testsuite>{}{}</testsuite>", case(a), case(b))).unwrap();
        assert_eq!((sets.failed.len(), sets.len()), (1, 1), "{a} {b}");
    }
}

#[test]
fn a_suite_that_could_not_be_set_up_is_red() {
    let (sets, problem) =
        read_incomplete(br#"<testsuites><testsuite name="s" errors="1"><error/></testsuite></testsuites>"#);
    assert_eq!(sets.failed, ids(&["s"]));
    assert!(problem.contains("`s`"), "{problem}");
    assert!(is_contradiction(r#"<testsuite name="s" errors="2"><error/></testsuite>"#));
}

#[test]
fn counts_that_real_writers_give() {
    let suite = |attributes: &str, inside: &str| {
        read(&format!(r#"<testsuite name="s" {attributes}>{inside}</testsuite>"#))
    };
    let (ok, bad, err, skip) = (
        r#"<testcase name="ok"/>"#,
        r#"<testcase name="bad"><failure/></testcase>"#,
        r#"<testcase name="err"><error/></testcase>"#,
        r#"<testcase name="skip"><skipped/></testcase>"#,
    );
    let all = [ok, bad, err, skip].concat();
    for (attributes, inside) in [
        // The common meaning.
        (r#"tests="4" failures="1" errors="1" skipped="1""#, all.as_str()),
        // Skipped tests are not in `tests`.
        (r#"tests="3" failures="1" errors="1" skipped="1""#, &all),
        // One number for failures and errors.
        (r#"tests="4" failures="2""#, &all),
        (r#"tests="4" failures="2" errors="0""#, &all),
        // Skipped tests are counted and left out.
        (r#"tests="3" failures="1" skipped="1""#, &[ok, bad].concat()),
        (r#"tests="3" failures="1" disabled="1""#, &[ok, bad].concat()),
        // gtest counts a test with two failures once, others twice.
        (r#"tests="1" failures="1""#, r#"<testcase name="x"><failure/><failure/></testcase>"#),
        (r#"tests="1" failures="2""#, r#"<testcase name="x"><failure/><failure/></testcase>"#),
        // jest-junit does not count a suite that cannot be loaded, and shows it twice.
        (
            r#"tests="0" errors="1""#,
            r#"<testcase name="x"><error/></testcase><testcase name="x"><failure/></testcase>"#,
        ),
        // nextest and surefire do not count what passed in the end.
        (r#"tests="1" failures="0""#, r#"<testcase name="x"><flakyFailure/></testcase>"#),
        // phpunit counts what is below, node its own children, some nothing of either.
        (
            r#"tests="2" failures="1""#,
            r#"<testsuite name="t" tests="2" failures="1"><testcase name="a"/><testcase name="b"><failure/></testcase></testsuite>"#,
        ),
        (
            r#"tests="1" failures="1""#,
            r#"<testsuite name="t" tests="2" failures="1"><testcase name="a"/><testcase name="b"><failure/></testcase></testsuite>"#,
        ),
        (
            r#"tests="0" failures="0""#,
            r#"<testsuite name="t" tests="1" failures="1"><testcase name="b"><failure/></testcase></testsuite>"#,
        ),
        ("", &all),
    ] {
        let result = suite(attributes, inside);
        assert!(result.is_ok(), "{attributes}: {result:?}");
    }
    for (attributes, inside) in [
        // Failures that the counts deny, or that only the counts know.
        (r#"tests="4" failures="0" errors="0" skipped="1""#, all.as_str()),
        (r#"failures="0""#, bad),
        (r#"failures="0""#, r#"<testcase name="x"/><testcase name="x"><failure/></testcase>"#),
        (r#"errors="0""#, err),
        (r#"failures="1" errors="0""#, &all),
        (r#"failures="1""#, ok),
        (r#"errors="1""#, skip),
        (r#"failures="2" errors="1""#, &all),
        (r#"failures="18446744073709551615" errors="18446744073709551615""#, &all),
        // Tests that only the counts know, or that they do not know.
        (r#"tests="6" failures="1" errors="1" skipped="1""#, &all),
        (r#"tests="1" failures="1" errors="1" skipped="1""#, &all),
        (r#"tests="0""#, ok),
        (r#"tests="18446744073709551615""#, ok),
        // A skipped test that is shown as if it ran.
        (r#"tests="1" skipped="1""#, ok),
    ] {
        let result = suite(attributes, inside);
        assert!(matches!(result, Err(ReportProblem::Contradiction { .. })), "{attributes}: {result:?}");
    }
    // The root counts everything.
    assert!(is_contradiction(&format!(
        r#"<testsuites failures="0"><testsuite>{bad}</testsuite></testsuites>"#
    )));
    assert!(is_contradiction(&format!(r#"<testsuites tests="9"><testsuite>{bad}</testsuite></testsuites>"#)));
    for number in ["", "NaN", "-1", "1.0", "+1", " 1", "18446744073709551616", "1e3"] {
        assert!(is_malformed(&format!(r#"<testsuite tests="{number}">{ok}</testsuite>"#)), "{number}");
    }
}

#[test]
fn hostile_and_broken_xml() {
    let suite = r#"<testsuite><testcase name="a"/></testsuite>"#;
    assert!(
        read(&format!("\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- c -->{suite}\n<!-- c -->\n"))
            .is_ok()
    );
    for text in [
        // Document types and entities.
        format!("<!DOCTYPE x>{suite}"),
        format!(r#"<!DOCTYPE x [<!ENTITY a "b">]>{suite}"#),
        r#"<testsuite><testcase name="&lol;"/></testsuite>"#.into(),
        r#"<testsuite><testcase name="a"><system-out>&lol;</system-out></testcase></testsuite>"#.into(),
        r#"<testsuite><testcase name="a" x="&lol;"/></testsuite>"#.into(),
        r#"<testsuite><properties><x y="&lol;"/></properties><testcase name="a"/></testsuite>"#.into(),
        r#"<testsuite><testcase name="a">&#xD800;</testcase></testsuite>"#.into(),
        r#"<testsuite><testcase name="&#0;"/></testsuite>"#.into(),
        // Instructions, declarations and encodings.
        format!("<?php evil ?>{suite}"),
        format!("{suite}<?xml version=\"1.0\"?>"),
        format!(" <?xml version=\"1.0\"?>{suite}"),
        format!("<?xml version=\"1.0\" encoding=\"UTF-16\"?>{suite}"),
        format!("<?xml version=\"1.0\" encoding=\"latin1\"?>{suite}"),
        // Around the root.
        format!("{suite}trailing"),
        format!("{suite}{suite}"),
        format!("{suite}&amp;"),
        format!("{suite}<![CDATA[x]]>"),
        format!("x{suite}"),
        format!("{suite}</testsuite>"),
        "<html/>".into(),
        "ok a\ndone 1\n".into(),
        // Tags and attributes.
        r#"<testsuite><testcase name="a"></testsuite>"#.into(),
        r#"<testsuite><testcase name="a" name="b"/></testsuite>"#.into(),
        "<testsuite><testcase name=a/></testsuite>".into(),
        "<testsuite><testcase name/></testsuite>".into(),
        "<testsuite>& </testsuite>".into(),
        "<testsuite><!x></testsuite>".into(),
        // Test cases where nobody would count them.
        r#"<testsuite><properties><testcase name="a"/></properties></testsuite>"#.into(),
        r#"<testsuite><testcase name="a"><testcase name="b"/></testcase></testsuite>"#.into(),
        r#"<testsuite><testcase name="a"><system-out><testsuite/></system-out></testcase></testsuite>"#
            .into(),
        "<testsuites><testsuites/></testsuites>".into(),
        format!("{}{}", "<testsuite>".repeat(65), "</testsuite>".repeat(65)),
        format!("<testsuite {}/>", attributes(65)),
    ] {
        assert!(is_malformed(&text), "{text}: {:?}", read(&text));
    }
    for text in [
        "",
        " \n",
        "<testsuite>",
        "<testsuite",
        "<testsuite name=\"",
        "<testsuite><!-- ",
        "<testsuite><![CDATA[ ",
        "<?xml ",
    ] {
        assert!(is_incomplete(text), "{text}: {:?}", read(text));
    }
    assert_eq!(
        parse(b"<testsuite>\n<testcase name=\"\xff\"/></testsuite>"),
        Err(ReportProblem::malformed(2, "the file is not UTF-8"))
    );
    assert!(matches!(
        read("<testsuite>\n\n<?x?></testsuite>"),
        Err(ReportProblem::Malformed { line: 3, .. })
    ));
}

#[test]
fn a_hostile_giant_takes_linear_time() {
    assert!(is_malformed(&format!("<testsuite {}/>", attributes(200_000))));
    assert!(is_malformed(&"<testsuite>".repeat(1_000_000)));
    let entities = format!("<testsuite><testcase name=\"{}\"/></testsuite>", "&amp;".repeat(200_000));
    assert_eq!(read(&entities).unwrap().len(), 1);
    let cases = format!("<testsuite>{}</testsuite>", "<testcase name=\"x\"/>".repeat(50_000));
    assert_eq!(read(&cases).unwrap().len(), 1);
}

#[test]
fn names_of_attributes_are_names() {
    for odd in ["class<name='k'", "<x='k'", "a\"b='k'", "a/b='k'", "a&b='k'"] {
        let text = format!("<testsuite><testcase name='k' {odd}/></testsuite>");
        assert!(
            matches!(read(&text), Err(ReportProblem::Malformed { .. } | ReportProblem::Incomplete { .. })),
            "{odd}: {:?}",
            read(&text)
        );
    }
    assert!(read("<testsuite><testcase name='k'><a<b/></testcase></testsuite>").is_err());
    assert!(read("<testsuite><testcase name='k' x:y.z-1='<'/></testsuite>").is_ok());
}

#[test]
fn tests_of_one_id_may_be_tests_of_their_own() {
    let case =
        |name: &str, inside: &str| format!(r#"<testcase classname="c" name="{name}">{inside}</testcase>"#);
    let read = |cases: &[String]| {
        let text = format!("<testsuite>{}</testsuite>", cases.concat());
        super::parse(text.as_bytes(), SameIds::Numbered).unwrap()
    };
    let sets = read(&[case("x", ""), case("y", ""), case("x", "<failure/>")]);
    assert_eq!((sets.failed, sets.passed), (ids(&["c::x"]), ids(&["c::x #2", "c::y"])));
    // What pytest writes where a test fails and cannot be torn down either; in any other order these are two.
    let torn = [case("x", "<failure/>"), case("x", "<error/>")];
    assert_eq!(read(&torn).failed, ids(&["c::x"]));
    assert_eq!(read(&[case("x", "<error/>"), case("x", "<failure/>")]).failed, ids(&["c::x", "c::x #2"]));
    assert_eq!(read(&[case("x", "<failure/>"), case("y", ""), case("x", "<error/>")]).failed.len(), 2);
}

proptest! {
    #[test]
    fn a_written_report_is_read_back(
        tests in proptest::collection::btree_map(("[a-c]?", "\\PC{1,6}"), 0..3_usize, 0..20),
    ) {
        let mut text = String::new();
        let mut expected = TestSets::default();
        let mut counts = [0; 3];
        for ((class, name), outcome) in &tests {
            counts[*outcome] += 1;
            let inside = ["", "<skipped/>", "<failure>&lt;</failure>"][*outcome];
            let escaped = quick_xml::escape::escape(name.as_str());
            write!(text, r#"<testcase classname="{class}" name="{escaped}">{inside}</testcase>"#).unwrap();
            let id = if class.is_empty() { name.clone() } else { format!("{class}::{name}") };
            expected.record(id, [Outcome::Passed, Outcome::Skipped, Outcome::Failed][*outcome]);
        }
        let [_, skipped, failures] = counts;
        let text = format!(
            r#"<testsuites><testsuite name="s" tests="{}" failures="{failures}" errors="0" skipped="{skipped}">{text}</testsuite></testsuites>"#,
            tests.len()
        );
        prop_assert_eq!(read(&text), Ok(expected));
    }

    #[test]
    fn any_bytes_and_any_mix_of_tags_are_total(
        bytes: Vec<u8>,
        tags in proptest::collection::vec(
            prop_oneof![
                Just("<testsuite name=\"s\">"), Just("<testsuite failures=\"1\" tests=\"2\">"), Just("</testsuite>"),
                Just("<testcase name=\"a\">"), Just("</testcase>"), Just("<testcase name=\"b\"/>"), Just("<failure/>"),
                Just("<skipped/>"), Just("<error>"), Just("</error>"), Just("&amp;"), Just("&x;"), Just("<!-- "), Just("-->"),
                Just("<![CDATA["), Just("]]>"), Just("<?xml?>"), Just("<"), Just(">"), Just("\""), Just("<testsuites>"),
            ],
            0..14,
        ),
    ) {
        let _ = parse(&bytes);
        let _ = read(&tags.concat());
    }
}

#[test]
fn a_long_name_that_many_tests_share_is_not_written_out() {
    let cases = "<testcase name=\"a\"/>".repeat(100_000);
    let text = format!("<testsuite name=\"{}\">{cases}</testsuite>", "x".repeat(1 << 20));
    assert!(matches!(parse(text.as_bytes()), Err(ReportProblem::Contradiction { .. })));
}
