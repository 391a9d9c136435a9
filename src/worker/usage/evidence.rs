//! `usage = "json"`: the `cost` that a worker writes into the file that `GIT_LOOP_EVIDENCE` names.

use super::amount::{dollars, tokens};
use super::{Basis, Usage};
use crate::check::json::{self, Json};

/// Reads the evidence; `None` is a file that was not written.
pub(super) fn read(evidence: Option<&[u8]>) -> Usage {
    cost(evidence).map_or_else(Usage::unknown, |cost| from_cost(&cost))
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
    let prompt_tokens = prompt.and_then(|value| tokens(value, "cost.prompt_tokens", &mut problems));
    let completion_tokens =
        completion.and_then(|value| tokens(value, "cost.completion_tokens", &mut problems));
    let usd = usd.and_then(|value| dollars(value, "cost.usd", &mut problems));
    Usage {
        prompt_tokens,
        completion_tokens,
        usd,
        basis: if usd.is_some() { Basis::Reported } else { Basis::Unknown },
        models: Vec::new(),
        problem: super::problem(problems),
    }
}
