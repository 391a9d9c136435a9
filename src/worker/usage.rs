//! What a worker run used: `worker.usage` of the contract, and how it is read.
//!
//! Absent is not zero: what cannot be read is unknown, and the contract says what an unknown cost means. An explicit
//! zero is a known amount.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::json::{self, Json};
use crate::check::nearest;
use crate::error::Error;
use crate::money::{MicroUsd, MoneyError};

/// A larger cost of one run counts as this one: it is over any limit, and no sum of such overflows.
const MAX_USD: MicroUsd = MicroUsd::from_micros(1_000_000_000 * 1_000_000);

/// A larger number of tokens of one run counts as this one: the first that is over any limit.
const MAX_TOKENS: u64 = 1_000_000_000_001;

/// How a worker tells what it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsageKind {
    /// The contract declares that the worker costs nothing.
    #[default]
    None,
    /// `cost = { prompt_tokens, completion_tokens, usd }` in the evidence file.
    Json,
}

impl UsageKind {
    /// Every kind that is built.
    pub const ALL: &[Self] = &[Self::None, Self::Json];

    /// Names that DESIGN section 3 lists and that are not built yet.
    pub const NOT_BUILT_YET: &[&str] = &["claude", "codex", "gemini", "opencode", "aider"];

    /// The name in `loop.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Json => "json",
        }
    }

    /// The kind of that name.
    pub fn parse_name(name: &str) -> Result<Self, UsageKindError> {
        if let Some(kind) = Self::ALL.iter().find(|kind| kind.name() == name) {
            return Ok(*kind);
        }
        if Self::NOT_BUILT_YET.contains(&name) {
            return Err(UsageKindError::NotBuiltYet { name: name.to_owned() });
        }
        let known = Self::ALL.iter().map(|kind| kind.name()).chain(Self::NOT_BUILT_YET.iter().copied());
        Err(UsageKindError::Unknown { name: name.to_owned(), nearest: nearest(name, known) })
    }
}

/// Why a name is not a usable [`UsageKind`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UsageKindError {
    /// No kind has this name.
    #[error("unknown usage parser `{name}`")]
    Unknown {
        /// The name that was given.
        name: String,
        /// The known name that is most like it.
        nearest: Option<&'static str>,
    },
    /// A parser that this version does not have.
    #[error("usage parser `{name}` is not built yet")]
    NotBuiltYet {
        /// The name that was given.
        name: String,
    },
}

impl From<UsageKindError> for Error {
    fn from(error: UsageKindError) -> Self {
        let hint = match &error {
            UsageKindError::Unknown { nearest: Some(nearest), .. } => format!("did you mean `{nearest}`?"),
            UsageKindError::Unknown { nearest: None, .. } => "use one of none, json".to_owned(),
            UsageKindError::NotBuiltYet { .. } => {
                "use usage = \"json\" and let the worker write `cost` into the file that GIT_LOOP_EVIDENCE names".to_owned()
            }
        };
        Self::usage(error.to_string()).hint(hint)
    }
}

/// Where the cost of a worker run comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The contract declares that there is none.
    None,
    /// The worker said so.
    Reported,
    /// It is not known.
    Unknown,
}

/// What a worker run used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// Tokens that went in; `None` if that is not known.
    pub prompt_tokens: Option<u64>,
    /// Tokens that came out; `None` if that is not known.
    pub completion_tokens: Option<u64>,
    /// The cost; `None` exactly if `basis` is [`Basis::Unknown`].
    pub usd: Option<MicroUsd>,
    /// Where the cost comes from.
    pub basis: Basis,
    /// Why something is not known.
    pub problem: Option<String>,
}

/// Reads what a worker run used. `worker_stdout` is for the parsers of agents' own output; none is built yet.
pub fn parse(kind: UsageKind, _worker_stdout: &[u8], evidence_json: Option<&[u8]>) -> Usage {
    match kind {
        UsageKind::None => Usage {
            prompt_tokens: Some(0),
            completion_tokens: Some(0),
            usd: Some(MicroUsd::ZERO),
            basis: Basis::None,
            problem: None,
        },
        UsageKind::Json => match cost(evidence_json) {
            Ok(cost) => from_cost(&cost),
            Err(problem) => Usage {
                prompt_tokens: None,
                completion_tokens: None,
                usd: None,
                basis: Basis::Unknown,
                problem: Some(problem),
            },
        },
    }
}

/// The `cost` of an evidence file. One that says a thing twice says nothing.
fn cost(evidence: Option<&[u8]>) -> Result<Json, String> {
    let bytes = evidence.ok_or("the worker wrote no evidence file")?;
    let text =
        std::str::from_utf8(bytes).map_err(|error| format!("the evidence file is not UTF-8: {error}"))?;
    let evidence = json::read(text).map_err(|bad| format!("the evidence file is not JSON: {}", bad.why))?;
    match evidence.get("cost") {
        None | Some(Json::Null) => Err("the evidence file has no `cost`".to_owned()),
        Some(cost @ Json::Map(_)) => Ok(cost.clone()),
        Some(_) => Err("`cost` of the evidence file is not an object".to_owned()),
    }
}

fn from_cost(cost: &Json) -> Usage {
    let mut problems = Vec::new();
    let mut field = |name: &str| match cost.get(name) {
        None | Some(Json::Null) => {
            problems.push(format!("`cost.{name}` is absent"));
            None
        }
        Some(value) => Some(value),
    };
    let (prompt, completion, usd) = (field("prompt_tokens"), field("completion_tokens"), field("usd"));
    let mut tokens = |name: &str, value: Option<&Json>| {
        #[allow(clippy::cast_precision_loss, reason = "what matters is that it is far too large")]
        let too_many = match value? {
            Json::Count(count) if *count < MAX_TOKENS => return Some(*count),
            Json::Count(_) => true,
            Json::Number(number) => *number >= MAX_TOKENS as f64,
            _ => false,
        };
        if too_many {
            // Unknown it would be no limit's business until the next start.
            problems.push(format!("`cost.{name}` is {MAX_TOKENS} or more, and counts as that"));
            return Some(MAX_TOKENS);
        }
        problems.push(format!("`cost.{name}` is not a number of tokens"));
        None
    };
    let prompt_tokens = tokens("prompt_tokens", prompt);
    let completion_tokens = tokens("completion_tokens", completion);
    let usd = usd.and_then(|value| match money(value) {
        Ok(usd) if usd < MAX_USD => Some(usd),
        Ok(_) | Err(MoneyError::TooLarge) => {
            problems.push(format!("`cost.usd` is {MAX_USD} or more, and counts as that"));
            Some(MAX_USD)
        }
        Err(error) => {
            problems.push(format!("`cost.usd`: {error}"));
            None
        }
    });
    Usage {
        prompt_tokens,
        completion_tokens,
        usd,
        basis: if usd.is_some() { Basis::Reported } else { Basis::Unknown },
        problem: if problems.is_empty() { None } else { Some(problems.join("; ")) },
    }
}

/// An amount written as a number or as a string that holds one.
fn money(value: &Json) -> Result<MicroUsd, MoneyError> {
    match value {
        Json::Count(dollars) => MicroUsd::from_decimal(&dollars.to_string()),
        Json::Number(dollars) => MicroUsd::from_f64(*dollars),
        Json::Text(text) => MicroUsd::from_decimal(text),
        _ => Err(MoneyError::Syntax),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(evidence: &str) -> Usage {
        parse(UsageKind::Json, b"", Some(evidence.as_bytes()))
    }

    fn cost(cost: &str) -> Usage {
        json(&format!(r#"{{"hypothesis": "x", "cost": {cost}}}"#))
    }

    #[test]
    fn a_worker_that_costs_nothing() {
        let usage = parse(UsageKind::None, b"total_cost_usd: 5", Some(br#"{"cost": {"usd": 5}}"#));
        assert_eq!((usage.usd, usage.basis, usage.problem), (Some(MicroUsd::ZERO), Basis::None, None));
    }

    #[test]
    fn a_reported_cost() {
        assert_eq!(
            cost(r#"{"prompt_tokens": 1204, "completion_tokens": 6120, "usd": 0.412345, "more": []}"#),
            Usage {
                prompt_tokens: Some(1204),
                completion_tokens: Some(6120),
                usd: Some(MicroUsd::from_micros(412_345)),
                basis: Basis::Reported,
                problem: None,
            }
        );
        assert_eq!(cost(r#"{"usd": "0.1"}"#).usd, Some(MicroUsd::from_micros(100_000)));
        assert_eq!(cost(r#"{"usd": 999999999}"#).usd, Some(MicroUsd::from_micros(999_999_999_000_000)));
    }

    #[test]
    fn an_explicit_zero_is_known() {
        // Field report 2.76.
        for zero in ["0", "0.0", "\"0.000000\"", "-0.0"] {
            let usage = cost(&format!(r#"{{"prompt_tokens": 0, "completion_tokens": 0, "usd": {zero}}}"#));
            assert_eq!(
                (usage.usd, usage.basis, usage.problem),
                (Some(MicroUsd::ZERO), Basis::Reported, None),
                "{zero}"
            );
            assert_eq!(usage.prompt_tokens, Some(0));
        }
    }

    #[test]
    fn absent_is_not_zero() {
        // Field report 2.75: a cost under another name is unknown.
        for evidence in [
            "",
            "null",
            "[]",
            "{}",
            "{\"cost\": null}",
            "{\"cost\": 5}",
            "{\"cost\": []}",
            "{\"cost\": {}}",
            "{\"cost\": {\"usd\": null}}",
            "{\"cost_usd\": 5}",
            "{\"cost\": {\"total_usd\": 5}}",
            "{\"cost\": {\"usd\": 5}",
            "{\"cost\": {\"usd\": NaN}}",
            "\u{feff}{}",
        ] {
            let usage = json(evidence);
            assert_eq!((usage.usd, usage.basis), (None, Basis::Unknown), "{evidence}");
            assert!(usage.problem.is_some(), "{evidence}");
        }
        let missing = parse(UsageKind::Json, b"", None);
        assert_eq!((missing.usd, missing.prompt_tokens, missing.basis), (None, None, Basis::Unknown));
        assert_eq!(parse(UsageKind::Json, b"", Some(b"\xff")).basis, Basis::Unknown);
    }

    #[test]
    fn impossible_amounts_are_unknown() {
        for usd in ["-1", "-0.01", "-1e300", "1e400", "\"NaN\"", "\"inf\"", "\"$1\"", "true", "{}", "[1]"] {
            let usage = cost(&format!(r#"{{"prompt_tokens": 1, "completion_tokens": 1, "usd": {usd}}}"#));
            assert_eq!((usage.usd, usage.basis), (None, Basis::Unknown), "{usd}");
            assert!(usage.problem.is_some(), "{usd}");
        }
        for tokens in ["-1", "1.5", "\"1\"", "-1e30", "true"] {
            let usage = cost(&format!(r#"{{"prompt_tokens": {tokens}, "completion_tokens": 2, "usd": 1}}"#));
            assert_eq!((usage.prompt_tokens, usage.completion_tokens), (None, Some(2)), "{tokens}");
            assert_eq!(usage.basis, Basis::Reported);
            assert!(usage.problem.unwrap().contains("prompt_tokens"), "{tokens}");
        }
        // What is known of the tokens stays known.
        assert_eq!(cost(r#"{"prompt_tokens": 7}"#).prompt_tokens, Some(7));
    }

    #[test]
    fn an_amount_far_over_any_limit_is_no_unknown_one() {
        for usd in ["1000000000", "1000000000.000001", "1e18", "1e300", "\"1e999\"", "18446744073709551616"] {
            let usage = cost(&format!(r#"{{"prompt_tokens": 1, "completion_tokens": 1, "usd": {usd}}}"#));
            assert_eq!((usage.usd, usage.basis), (Some(MAX_USD), Basis::Reported), "{usd}");
            assert!(usage.problem.unwrap().contains("counts as that"), "{usd}");
        }
        for tokens in ["1000000000001", "18446744073709551615", "18446744073709551616", "1e30"] {
            let usage = cost(&format!(r#"{{"prompt_tokens": {tokens}, "completion_tokens": 2, "usd": 1}}"#));
            assert_eq!(
                (usage.prompt_tokens, usage.completion_tokens),
                (Some(MAX_TOKENS), Some(2)),
                "{tokens}"
            );
        }
        assert_eq!(cost(r#"{"prompt_tokens": 1000000000000}"#).prompt_tokens, Some(1_000_000_000_000));
    }

    #[test]
    fn what_is_said_twice_is_not_known() {
        for evidence in [
            r#"{"cost": {"usd": 5}, "cost": {"usd": 0}}"#,
            r#"{"cost": {"usd": 5, "usd": 0}}"#,
            r#"{"cost": {"usd": 0}, "more": {"a": 1, "a": 1}}"#,
        ] {
            let usage = json(evidence);
            assert_eq!((usage.usd, usage.basis), (None, Basis::Unknown), "{evidence}");
        }
    }

    #[test]
    fn names() {
        for kind in UsageKind::ALL {
            assert_eq!(UsageKind::parse_name(kind.name()), Ok(*kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        for name in UsageKind::NOT_BUILT_YET {
            let error = UsageKind::parse_name(name).unwrap_err();
            assert_eq!(error, UsageKindError::NotBuiltYet { name: (*name).into() });
            assert!(!Error::from(error).hints().is_empty());
        }
        assert_eq!(
            UsageKind::parse_name("cluade"),
            Err(UsageKindError::Unknown { name: "cluade".into(), nearest: Some("claude") })
        );
    }

    proptest! {
        #[test]
        fn any_evidence_is_total(bytes: Vec<u8>, usd in "[-+.0-9eE\"]{0,8}") {
            let _ = parse(UsageKind::Json, &bytes, Some(&bytes));
            let usage = cost(&format!("{{\"usd\": {usd}}}"));
            prop_assert_eq!(usage.usd.is_none(), usage.basis == Basis::Unknown);
        }
    }
}
