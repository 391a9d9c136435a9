//! What a check says of lasting code in its verdict, besides what any check may say.

use super::json::{self, Json};
use super::verdict_file::{self, VerdictFile};
use super::{ReportProblem, excerpt};
use crate::decide::{ComplexityDelta, InvariantEffect};

/// Everything that a verdict on lasting code may say.
const KEYS: [&str; 7] = [
    "metric_value",
    "observed_effect",
    "failures",
    "collected",
    "invariant_effect",
    "invariant_evidence",
    "complexity_delta",
];

/// The most that a number of `complexity_delta` may be, and its opposite the least.
const MAX_DELTA: f64 = 1e9;

/// What a verdict says of lasting code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Declared {
    /// What became of the invariants.
    pub effect: Option<InvariantEffect>,
    /// By how much the project got larger.
    pub delta: Option<ComplexityDelta>,
}

/// Reads a verdict on lasting code. As [`verdict_file::parse`], and stricter: a key that no check may write makes all of it malformed,
/// also one that is a worker's to write.
pub fn parse(bytes: &[u8]) -> Result<(VerdictFile, Declared), ReportProblem> {
    let verdict = verdict_file::parse(bytes)?;
    let malformed = |why: String| ReportProblem::malformed(1, why);
    // It was read just now: it is an object.
    let Ok(object @ Json::Map(_)) = json::read(&String::from_utf8_lossy(bytes)) else {
        return Err(malformed("no JSON object".to_owned()));
    };
    if let Some(key) = object.keys().into_iter().find(|key| !KEYS.contains(key)) {
        return Err(malformed(format!("`{}` is none of a verdict", excerpt(key))));
    }
    for key in ["observed_effect", "invariant_evidence"] {
        if !matches!(object.get(key), None | Some(Json::Null | Json::Text(_))) {
            return Err(malformed(format!("`{key}` is no string")));
        }
    }
    let effect = match object.get("invariant_effect") {
        None | Some(Json::Null) => None,
        Some(Json::Text(word)) => {
            let known = InvariantEffect::DECLARED.into_iter().find(|effect| effect.as_str() == word);
            Some(known.ok_or_else(|| malformed(format!("`invariant_effect` is `{}`", excerpt(word))))?)
        }
        Some(_) => return Err(malformed("`invariant_effect` is no string".to_owned())),
    };
    let delta = match object.get("complexity_delta") {
        None | Some(Json::Null) => None,
        Some(delta @ Json::Map(_)) => Some(five(delta).map_err(malformed)?),
        Some(_) => return Err(malformed("`complexity_delta` is no object".to_owned())),
    };
    Ok((verdict, Declared { effect, delta }))
}

/// Exactly the five numbers.
fn five(delta: &Json) -> Result<ComplexityDelta, String> {
    if let Some(key) = delta.keys().into_iter().find(|key| !ComplexityDelta::NAMES.contains(key)) {
        return Err(format!("`complexity_delta` has `{}`", excerpt(key)));
    }
    let mut parts = [0; 5];
    for (part, name) in parts.iter_mut().zip(ComplexityDelta::NAMES) {
        let number = match delta.get(name) {
            Some(Json::Count(count)) => *count as f64,
            Some(Json::Number(number)) => *number,
            Some(_) => return Err(format!("`complexity_delta.{name}` is no number")),
            None => return Err(format!("`complexity_delta` has no `{name}`")),
        };
        if number.fract() != 0.0 || number.abs() > MAX_DELTA {
            return Err(format!("`complexity_delta.{name}` is no whole number from -10^9 to 10^9"));
        }
        #[allow(clippy::cast_possible_truncation, reason = "it is a whole number in the range of i64")]
        let whole = number as i64;
        *part = whole;
    }
    Ok(ComplexityDelta::from_parts(parts))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_effect_and_five_numbers() {
        let (verdict, declared) = parse(
            br#"{"metric_value": 2, "observed_effect": "x", "failures": [], "collected": ["a"],
                 "invariant_effect": "preserved", "invariant_evidence": "the test of it",
                 "complexity_delta": {"fallback_branches": 0, "dependencies": -1, "public_interfaces": 2.0,
                                      "cyclomatic_complexity": 1e3, "changed_lines": -0}}"#,
        )
        .unwrap();
        assert_eq!(verdict.metric_value, Some(2.0));
        assert_eq!(declared.effect, Some(InvariantEffect::Preserved));
        assert_eq!(declared.delta.unwrap().parts(), [0, -1, 2, 1000, 0]);
        assert_eq!(parse(b"{}"), Ok((VerdictFile::default(), Declared::default())));
        let nothing = br#"{"invariant_effect": null, "invariant_evidence": null, "complexity_delta": null}"#;
        assert_eq!(parse(nothing).unwrap().1, Declared::default());
        for effect in InvariantEffect::DECLARED {
            let text = format!("{{\"invariant_effect\": \"{}\"}}", effect.as_str());
            assert_eq!(parse(text.as_bytes()).unwrap().1.effect, Some(effect));
        }
    }

    #[test]
    fn what_is_malformed_is_nothing() {
        let delta = |member: &str| {
            format!(
                "{{\"complexity_delta\": {{\"fallback_branches\": 0, \"dependencies\": 0, \"public_interfaces\": 0, \
                 \"cyclomatic_complexity\": 0{member}}}}}"
            )
        };
        assert!(parse(delta(", \"changed_lines\": 1000000000").as_bytes()).is_ok());
        for bad in [
            // What a worker may write is no check's.
            r#"{"promotion_packet": null}"#.to_owned(),
            r#"{"semantic_changes": []}"#.to_owned(),
            r#"{"invariant_efect": "preserved"}"#.to_owned(),
            r#"{"invariant_effect": "broken"}"#.to_owned(),
            r#"{"invariant_effect": "Preserved"}"#.to_owned(),
            r#"{"invariant_effect": true}"#.to_owned(),
            r#"{"invariant_effect": "preserved", "invariant_effect": "unknown"}"#.to_owned(),
            r#"{"invariant_evidence": 1}"#.to_owned(),
            r#"{"observed_effect": []}"#.to_owned(),
            r#"{"complexity_delta": []}"#.to_owned(),
            r#"{"complexity_delta": 0}"#.to_owned(),
            r#"{"complexity_delta": {}}"#.to_owned(),
            delta(""),
            delta(", \"changed_lines\": 0, \"files\": 0"),
            delta(", \"changed_lines\": \"0\""),
            delta(", \"changed_lines\": 0.5"),
            delta(", \"changed_lines\": 1000000001"),
            delta(", \"changed_lines\": -1000000001"),
            delta(", \"changed_lines\": 1e300"),
            delta(", \"changed_lines\": NaN"),
            delta(", \"changed_lines\": 1, \"changed_lines\": 1"),
            "[]".to_owned(),
            String::new(),
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    proptest! {
        /// Whatever the bytes are: what is read is read by the reader of any verdict, too.
        #[test]
        fn total_and_never_more_lenient(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            like in "\\{(\"(invariant_effect|complexity_delta|collected|x)\": ?(null|\"unknown\"|\\{\\}|1)(, )?){0,3}\\}?",
        ) {
            for text in [&bytes[..], like.as_bytes()] {
                if let Ok((verdict, _)) = parse(text) {
                    prop_assert_eq!(verdict_file::parse(text), Ok(verdict));
                }
            }
        }
    }
}
