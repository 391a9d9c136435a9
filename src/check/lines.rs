//! The format `lines`: what a home-made check prints on stdout.
//!
//! One of `ok ID`, `fail ID`, `skip ID` a line, and a last line `done N` with the number of those lines. Other lines
//! are ignored, wherever they stand; an id is the rest of its line, without the white space around it.

use super::ids::{Reports, SameIds};
use super::{Outcome, ReportProblem, TestSets};

/// What a line says, if it is one of ours.
enum Line<'a> {
    Result(Outcome, &'a [u8]),
    Done(u64),
}

/// Reads a report in the format `lines`.
pub fn parse(bytes: &[u8], same: SameIds) -> Result<TestSets, ReportProblem> {
    let mut reports = Reports::default();
    let mut results = 0;
    let mut done = None;
    let mut number = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        number += 1;
        match recognise(line) {
            None => {}
            Some(_) if done.is_some() => {
                return Err(ReportProblem::contradiction(format!(
                    "line {number} reports something after the last line, `done`"
                )));
            }
            Some(Line::Done(count)) => done = Some(count),
            Some(Line::Result(outcome, id)) => {
                let id = std::str::from_utf8(id)
                    .map_err(|_| ReportProblem::malformed(number, "the id of a test is not UTF-8"))?;
                results += 1;
                reports.record(id.to_owned(), outcome);
            }
        }
    }
    match done {
        None => Err(ReportProblem::incomplete(number, "the last line, `done N`, is missing")),
        Some(count) if count != results => Err(ReportProblem::incomplete(
            number,
            format!("`done {count}`, but {results} results were printed"),
        )),
        Some(_) => Ok(reports.into_sets(same)),
    }
}

fn recognise(line: &[u8]) -> Option<Line<'_>> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    let (word, rest) = line.split_at(space);
    let rest = rest.trim_ascii();
    let outcome = match word {
        b"ok" => Outcome::Passed,
        b"fail" => Outcome::Failed,
        b"skip" => Outcome::Skipped,
        b"done" if rest.iter().all(u8::is_ascii_digit) => {
            return std::str::from_utf8(rest).ok()?.parse().ok().map(Line::Done);
        }
        _ => return None,
    };
    if rest.is_empty() { None } else { Some(Line::Result(outcome, rest)) }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<TestSets, ReportProblem> {
        super::parse(text.as_bytes(), SameIds::Merged)
    }

    #[test]
    fn a_complete_report() {
        let sets =
            parse("building…\nok a\nfail b c  \nskip d::e\r\nok\nokay x\n ok y\ndone many\ndone 3\nbye\n")
                .unwrap();
        assert_eq!(sets.passed, ["a".to_owned()].into());
        assert_eq!(sets.failed, ["b c".to_owned()].into());
        assert_eq!(sets.skipped, ["d::e".to_owned()].into());
        assert!(!sets.partial);
        assert!(parse("ok a\ndone 1").is_ok());
    }

    #[test]
    fn tests_of_one_id_may_be_tests_of_their_own() {
        let sets = super::parse(b"ok a\nfail a\nok b\ndone 3\n", SameIds::Numbered).unwrap();
        assert_eq!(sets.failed, ["a".to_owned()].into());
        assert_eq!(sets.passed, ["a #2".to_owned(), "b".to_owned()].into());
    }

    #[test]
    fn an_incomplete_report_is_never_a_pass() {
        for text in [
            "",
            "ok a\n",
            "ok a\ndone 2\n",
            "ok a\ndone 0\n",
            "ok a\ndone",
            "ok a\ndone -1",
            "ok a\ndone 18446744073709551616",
        ] {
            assert!(matches!(parse(text), Err(ReportProblem::Incomplete { .. })), "{text:?}");
        }
        // Every cut of a report is a problem, but for the loss of its last newline.
        let whole = "ok a\nfail b\nok c\nok d\nok e\nok f\nok g\nok h\nok i\nok j\nskip k\ndone 11\n";
        for end in 0..whole.len() - 1 {
            assert!(parse(&whole[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn nothing_is_reported_after_done() {
        for text in ["ok a\ndone 1\nfail b\n", "done 0\nok a\ndone 1\n"] {
            assert!(matches!(parse(text), Err(ReportProblem::Contradiction { .. })), "{text:?}");
        }
    }

    #[test]
    fn a_repeated_id_keeps_its_worst_outcome_and_each_line_counts() {
        let sets = parse("fail a\nok a\ndone 2\n").unwrap();
        assert_eq!((sets.failed.len(), sets.len()), (1, 1));
        assert!(parse("fail a\nok a\ndone 1\n").is_err());
    }

    #[test]
    fn only_ids_must_be_utf_8() {
        assert!(super::parse(b"\xff\xfe noise\nok a\ndone 1\n", SameIds::Merged).is_ok());
        let problem = super::parse(b"ok a\nfail \xff\ndone 2\n", SameIds::Merged);
        assert_eq!(problem, Err(ReportProblem::malformed(2, "the id of a test is not UTF-8")));
    }

    #[test]
    fn done_and_nothing_else_is_no_test() {
        assert_eq!(
            super::super::parse(super::super::Format::Lines, b"done 0\n"),
            Err(ReportProblem::NoTests)
        );
    }

    proptest! {
        #[test]
        fn a_written_report_is_read_back(tests in proptest::collection::btree_map("[a-z:]([a-z ]{0,8}[a-z])?", 0..3_usize, 0..30)) {
            let mut text = String::new();
            let mut expected = TestSets::default();
            for (id, outcome) in &tests {
                writeln!(text, "{} {id}", ["ok", "skip", "fail"][*outcome]).unwrap();
                expected.record(id.clone(), [Outcome::Passed, Outcome::Skipped, Outcome::Failed][*outcome]);
            }
            writeln!(text, "done {}", tests.len()).unwrap();
            prop_assert_eq!(parse(&text), Ok(expected));
        }

        #[test]
        fn any_bytes_are_total(bytes: Vec<u8>, lines in "((ok|fail|skip|done) ?[a1 ]{0,3}\n){0,6}") {
            let _ = super::parse(&bytes, SameIds::Merged);
            let _ = parse(&lines);
        }
    }
}
