//! The verdict that a check writes itself: the JSON file that `GIT_LOOP_VERDICT` names, or the one of an outside check.

use std::collections::BTreeSet;

use super::json::{self, Json};
use super::{Outcome, ReportProblem, TestSets, excerpt};

/// What a verdict says, as far as the decision reads it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VerdictFile {
    /// `metric_value`: a finite number.
    pub metric_value: Option<f64>,
    /// The tests of `collected`, failed where `failures` has them and passed where not; `None` where both are absent or null.
    pub sets: Option<TestSets>,
}

/// Reads a verdict: one JSON object, as strict as any report. What it says besides `metric_value`, `failures` and `collected` is not
/// read here.
pub fn parse(bytes: &[u8]) -> Result<VerdictFile, ReportProblem> {
    let malformed = |why: String| ReportProblem::malformed(1, why);
    let text = std::str::from_utf8(bytes).map_err(|error| malformed(format!("no UTF-8: {error}")))?;
    let object = json::read(text)
        .map_err(|bad| ReportProblem::malformed(bad.line, format!("no JSON object: {}", bad.why)))?;
    if !matches!(object, Json::Map(_)) {
        return Err(malformed("no JSON object".to_owned()));
    }
    let metric_value = match object.get("metric_value") {
        None | Some(Json::Null) => None,
        #[allow(clippy::cast_precision_loss, reason = "a metric is a 64-bit float")]
        Some(Json::Count(count)) => Some(*count as f64),
        // One zero, as everywhere.
        Some(Json::Number(number)) if number.is_finite() => Some(number + 0.0),
        Some(Json::Number(_)) => return Err(malformed("`metric_value` is not finite".to_owned())),
        Some(_) => return Err(malformed("`metric_value` is no number".to_owned())),
    };
    let sets = match (ids(&object, "collected")?, ids(&object, "failures")?) {
        (None, None) => None,
        (None, Some(_)) => return Err(malformed("`failures` without `collected`".to_owned())),
        (Some(_), None) => return Err(malformed("`collected` without `failures`".to_owned())),
        (Some(collected), Some(failures)) => {
            if let Some(id) = failures.difference(&collected).next() {
                return Err(ReportProblem::contradiction(format!(
                    "`{}` is among the failures and not among the collected",
                    excerpt(id)
                )));
            }
            let mut sets = TestSets::default();
            for id in collected {
                let outcome = if failures.contains(&id) { Outcome::Failed } else { Outcome::Passed };
                sets.record(id, outcome);
            }
            Some(sets)
        }
    };
    Ok(VerdictFile { metric_value, sets })
}

fn ids(object: &Json, key: &str) -> Result<Option<BTreeSet<String>>, ReportProblem> {
    let list = match object.get(key) {
        None | Some(Json::Null) => return Ok(None),
        Some(Json::List(list)) => list,
        Some(_) => return Err(ReportProblem::malformed(1, format!("`{key}` is no list"))),
    };
    let mut ids = BTreeSet::new();
    for item in list {
        let Json::Text(id) = item else {
            return Err(ReportProblem::malformed(1, format!("`{key}` has something that is no string")));
        };
        if id.is_empty() {
            return Err(ReportProblem::malformed(1, format!("`{key}` has an empty name")));
        }
        if !ids.insert(id.clone()) {
            return Err(ReportProblem::contradiction(format!("`{key}` has `{}` twice", excerpt(id))));
        }
    }
    Ok(Some(ids))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_and_tests() {
        let read = parse(
            br#"{"metric_value": -0.0, "observed_effect": "x", "failures": ["b"], "collected": ["a", "b"]}"#,
        );
        let read = read.unwrap();
        assert_eq!(read.metric_value.map(f64::to_bits), Some(0));
        let sets = read.sets.unwrap();
        assert_eq!((sets.outcome("a"), sets.outcome("b")), (Some(Outcome::Passed), Some(Outcome::Failed)));
        assert_eq!(parse(b"{}"), Ok(VerdictFile::default()));
        assert_eq!(
            parse(br#"{"metric_value": null, "failures": null, "collected": null}"#),
            Ok(VerdictFile::default())
        );
    }

    #[test]
    fn what_is_no_verdict() {
        for bad in [
            "",
            "[]",
            "1",
            "{",
            "null",
            "{} {}",
            "\u{feff}{}",
            r#"{"metric_value": "1"}"#,
            r#"{"metric_value": 1e999}"#,
            r#"{"metric_value": true}"#,
            r#"{"failures": []}"#,
            r#"{"collected": ["a"]}"#,
            r#"{"failures": ["a"], "collected": []}"#,
            r#"{"failures": [], "collected": ["a", "a"]}"#,
            r#"{"failures": [], "collected": [1]}"#,
            r#"{"failures": {}, "collected": []}"#,
            r#"{"failures": [], "collected": [""]}"#,
            // Readers differ in which of two they hear.
            r#"{"metric_value": 1, "metric_value": 2}"#,
            r#"{"metric_value": 1, "metric\u005fvalue": 1}"#,
            r#"{"x": [{"a": 1, "a": 1}]}"#,
            r#"{"metric_value": NaN}"#,
            r#"{"metric_value": -Infinity}"#,
            r#"{"x": 1e999}"#,
            r#"{"x": "\ud800"}"#,
            r#"{"x": "\udc00"}"#,
            "{\"x\": \"\u{1}\"}",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(parse(b"{\"x\": \"\xff\"}").is_err());
        let nested = |depth: usize| format!("{{\"x\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(nested(63).as_bytes()).is_ok());
        for depth in [64, 100, 100_000] {
            assert!(parse(nested(depth).as_bytes()).is_err(), "{depth}");
        }
    }

    #[test]
    fn numbers() {
        for (written, value) in [
            ("18446744073709551615", 18_446_744_073_709_551_615.0),
            ("184467440737095516160", 184_467_440_737_095_516_160.0),
            ("-3", -3.0),
            ("0.1", 0.1),
            ("1e3", 1000.0),
            ("-0", 0.0),
        ] {
            let read = parse(format!("{{\"metric_value\": {written}}}").as_bytes()).unwrap();
            assert_eq!(read.metric_value.map(f64::to_bits), Some(f64::to_bits(value)), "{written}");
        }
    }

    proptest! {
        #[test]
        fn total(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn total_on_what_resembles_one(value in "(\\{\"(metric_value|failures|collected)\": ?(1|null|\\[\\]|\\[\"a\"\\]|\"x\")(, )?){0,3}\\}?") {
            let _ = parse(value.as_bytes());
        }
    }
}
