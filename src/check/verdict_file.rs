//! The verdict that a check writes itself: the JSON file that `GIT_LOOP_VERDICT` names, or the one of an outside check.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Outcome, ReportProblem, TestSets, excerpt};

/// What a verdict says, as far as the decision reads it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VerdictFile {
    /// `metric_value`: a finite number.
    pub metric_value: Option<f64>,
    /// The tests of `collected`, failed where `failures` has them and passed where not; `None` where both are absent or null.
    pub sets: Option<TestSets>,
}

/// Reads a verdict: one JSON object. What it says besides `metric_value`, `failures` and `collected` is not read here.
pub fn parse(bytes: &[u8]) -> Result<VerdictFile, ReportProblem> {
    let malformed = |why: String| ReportProblem::malformed(1, why);
    let object: Map<String, Value> =
        serde_json::from_slice(bytes).map_err(|error| malformed(format!("no JSON object: {error}")))?;
    let metric_value = match object.get("metric_value") {
        None | Some(Value::Null) => None,
        Some(Value::Number(number)) => match number.as_f64().filter(|number| number.is_finite()) {
            // One zero, as everywhere.
            Some(number) => Some(number + 0.0),
            None => return Err(malformed("`metric_value` is not finite".to_owned())),
        },
        Some(other) => {
            return Err(malformed(format!("`metric_value` is no number: {}", excerpt(&other.to_string()))));
        }
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

fn ids(object: &Map<String, Value>, key: &str) -> Result<Option<BTreeSet<String>>, ReportProblem> {
    let list = match object.get(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(ReportProblem::malformed(1, format!("`{key}` is no list"))),
    };
    let mut ids = BTreeSet::new();
    for item in list {
        let Value::String(id) = item else {
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
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        let deep = format!("{{\"x\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse(deep.as_bytes()).is_err());
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
