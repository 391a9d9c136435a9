//! Limits from the command line, `KEY=VALUE`: the keys, forms and ranges of `[limits]` in `loop.toml`.

use std::fmt::Write as _;

use serde::Deserialize;
use toml::de::{DeTable, ValueDeserializer};

use super::file::Limits;
use super::frozen::LimitTerms;
use super::parse::syntax_problem;
use super::problem::{Problem, Source};
use super::walk::Walk;
use crate::error::{Error, Result};
use crate::ledger::message::one_line;
use crate::money::MicroUsd;

/// The word for "not limited", where a limit may be absent.
const NONE: &str = "none";

/// The limits that may be absent.
const MAY_BE_ABSENT: [&str; 2] = ["tokens", "unread_diffs"];

/// Limits that replace those of a contract.
#[derive(Debug, Clone, Default)]
pub struct LimitOverrides {
    /// What was given; every other field is a default.
    values: Limits,
    keys: Vec<String>,
}

impl LimitOverrides {
    /// Reads `KEY=VALUE`s. A value is written as in `loop.toml`; quotes may be left out.
    pub fn parse(assignments: &[String]) -> Result<Self> {
        let mut text = "[limits]\n".to_owned();
        let mut keys = Vec::new();
        // One a line, after the line of the table.
        let mut given = Vec::new();
        for assignment in assignments {
            let Some((key, value)) = assignment.split_once('=') else {
                return Err(Error::usage(format!("--limit {assignment:?} is not KEY=VALUE"))
                    .hint("for example: --limit iterations=20 --limit cost_usd=5"));
            };
            let (key, value) = (key.trim(), value.trim());
            let key = key.strip_prefix("limits.").unwrap_or(key);
            if key.is_empty()
                || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
            {
                return Err(Error::usage(format!("--limit {assignment:?} names no key")));
            }
            if keys.iter().any(|known| known == key) {
                return Err(Error::usage(format!("--limit {key} is given twice")));
            }
            keys.push(key.to_owned());
            if value == NONE && MAY_BE_ABSENT.contains(&key) {
                continue;
            }
            let number = value.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
                && value.replace('_', "").parse::<f64>().is_ok();
            let value = if number || value.starts_with('"') {
                value.to_owned()
            } else {
                toml::Value::String(value.to_owned()).to_string()
            };
            let _ = writeln!(text, "{key} = {value}");
            given.push(assignment.as_str());
        }
        let source = Source::new(&text);
        let values = limits(&source).map_err(|errors| told(&errors, &given))?;
        Ok(Self { values, keys })
    }

    /// Whether none is given.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Puts them in the place of those of `terms`.
    pub fn apply(&self, terms: &mut LimitTerms) {
        let values = &self.values;
        for key in &self.keys {
            match key.as_str() {
                "iterations" => terms.iterations = values.iterations,
                "cost_usd" => terms.cost_usd = MicroUsd::from_micros(values.cost_usd.micros()),
                "tokens" => terms.tokens = values.tokens,
                "duration" => terms.duration_seconds = values.duration.get(),
                "no_progress" => terms.no_progress = values.no_progress,
                "regression_limit" => terms.regression_limit = values.regression_limit,
                "oscillation_limit" => terms.oscillation_limit = values.oscillation_limit,
                "cost_sigma" => terms.cost_sigma = values.cost_sigma,
                "unread_diffs" => terms.unread_diffs = values.unread_diffs,
                "unknown_cost" => terms.unknown_cost = values.unknown_cost,
                "evidence_kib" => terms.evidence_kib = values.evidence_kib,
                other => unreachable!("`{other}` is a known key of [limits] and not applied"),
            }
        }
    }
}

/// The faults by the options that they are in, as nobody wrote a file with lines.
fn told(faults: &[Problem], given: &[&str]) -> Error {
    let mut messages = Vec::new();
    let mut hints = Vec::new();
    for Problem { line, message, hint, .. } in faults {
        let option = given.get(line.saturating_sub(2)).or(given.last()).copied().unwrap_or_default();
        messages.push(format!("--limit {}: {message}", one_line(option, 80)));
        hints.extend(hint.clone());
    }
    let error = hints.into_iter().fold(Error::usage(messages.join("; ")), Error::hint);
    error.hint("every limit, its range and its default: the page loop-toml of the reference")
}

fn limits(source: &Source<'_>) -> Result<Limits, Vec<Problem>> {
    let (mut document, errors) = DeTable::parse_recoverable(source.text());
    if !errors.is_empty() {
        return Err(errors.iter().map(|error| syntax_problem(source, error)).collect());
    }
    let mut walk = Walk::section(source, document.get_mut(), "limits");
    if walk.problems.is_empty()
        && let Some(value) = document.get_ref().get("limits")
    {
        return Limits::deserialize(ValueDeserializer::from(value.clone()))
            .map_err(|error| vec![syntax_problem(source, &error)]);
    }
    Err(std::mem::take(&mut walk.problems))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::UnknownCost;
    use crate::decide::testing::contract;

    fn applied(assignments: &[&str]) -> Result<LimitTerms> {
        let assignments: Vec<String> = assignments.iter().map(|one| (*one).to_owned()).collect();
        let mut terms = contract().limits;
        LimitOverrides::parse(&assignments)?.apply(&mut terms);
        Ok(terms)
    }

    #[test]
    fn what_is_given_replaces_what_was_and_nothing_else() {
        let before = contract().limits;
        assert_eq!(applied(&[]).unwrap(), before);
        let after = applied(&["iterations=20", "cost_usd = 2.5", "duration=2h", "tokens=none"]).unwrap();
        assert_eq!(
            after,
            LimitTerms {
                iterations: 20,
                cost_usd: MicroUsd::from_micros(2_500_000),
                duration_seconds: 7200,
                tokens: None,
                ..before
            }
        );
        let all = [
            "tokens=1_000",
            "no_progress=20",
            "regression_limit=3",
            "oscillation_limit=4",
            "cost_sigma=2.5",
            "unread_diffs=7",
            "unknown_cost=allow",
            "evidence_kib=1",
            "limits.iterations=1",
            "duration=\"90s\"",
        ];
        let after = applied(&all).unwrap();
        assert_eq!(
            after,
            LimitTerms {
                iterations: 1,
                tokens: Some(1000),
                duration_seconds: 90,
                no_progress: 20,
                regression_limit: 3,
                oscillation_limit: 4,
                cost_sigma: 2.5,
                unread_diffs: Some(7),
                unknown_cost: UnknownCost::Allow,
                evidence_kib: 1,
                ..before
            }
        );
    }

    #[test]
    fn every_key_of_the_table_can_be_given() {
        let keys = super::super::shape::root().fields().iter().find(|field| field.name == "limits").unwrap();
        for field in keys.node.fields() {
            let value = match field.name.as_str() {
                "unknown_cost" => "stop",
                "duration" => "1m",
                _ => "1",
            };
            applied(&[&format!("{}={value}", field.name)]).unwrap();
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_the_option_that_it_is_in() {
        let told = |assignments: &[&str]| applied(assignments).unwrap_err().to_string();
        for (assignments, message) in [
            (&["iterations"][..], "is not KEY=VALUE"),
            (&["=1"], "names no key"),
            (&["iterations=0"], "a limit of 0 is not \"no limit\""),
            (&["iterations=101"], "is out of range"),
            (&["iterations=ten"], "must be a whole number"),
            (&["iteratons=20"], "unknown key `limits.iteratons`"),
            (&["iterations=none"], "must be a whole number"),
            (&["iterations=1", "iterations=2"], "is given twice"),
            (&["cost_usd=-1"], "--limit cost_usd=-1: "),
            (&["iterations=2", "cost_usd=-1"], "--limit cost_usd=-1: "),
            (&["cost_usd=1\n[worker]\ntimeout=3"], "--limit cost_usd=1"),
            (&["duration=3"], "must be a duration"),
            (&["unknown_cost=maybe"], "cannot be"),
            (&["iterations=\"1"], "not valid TOML"),
        ] {
            let text = told(assignments);
            assert!(text.contains(message), "{assignments:?}: {text}");
        }
    }
}
