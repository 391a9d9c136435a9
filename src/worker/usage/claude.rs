//! `usage = "claude"`: the result of `claude -p --output-format json`, or the last event of `stream-json`.
//!
//! `total_cost_usd` and `modelUsage` cover every call of a session, those of its subagents too, and go on growing when it is
//! resumed; `usage` is the main conversation's last turn alone. The three kinds of input tokens exclude each other.

use super::amount::{add_dollars, add_tokens, dollars, tokens};
use super::tally::{Tally, grown};
use super::{Usage, excerpt_list};
use crate::check::json::Json;
use crate::money::MicroUsd;

const PROVIDER: &str = "anthropic";

/// What one session printed.
struct Session<'a> {
    id: &'a str,
    /// The model of its main conversation.
    model: Option<&'a str>,
    results: Vec<&'a Json>,
}

pub(super) fn read(events: &[Json]) -> Usage {
    let mut sessions: Vec<Session<'_>> = Vec::new();
    for event in events {
        let is_result = event.text("type") == Some("result");
        let is_begin = event.text("type") == Some("system") && event.text("subtype") == Some("init");
        if !is_result && !is_begin {
            continue;
        }
        let id = event.text("session_id").unwrap_or_default();
        let place = sessions.iter().position(|session| session.id == id).unwrap_or_else(|| {
            sessions.push(Session { id, model: None, results: Vec::new() });
            sessions.len() - 1
        });
        let session = &mut sessions[place];
        if is_result {
            session.results.push(event);
        } else {
            session.model = session.model.or(event.text("model"));
        }
    }
    if sessions.is_empty() {
        return Usage::unknown(
            "there is no result of Claude Code on the worker's standard output: run it with --output-format json",
        );
    }
    let mut tally = Tally::new();
    for session in &sessions {
        if let Some(model) = session.model {
            tally.model(Some(PROVIDER), model);
        }
        if session.results.is_empty() {
            tally.unknown("a session of Claude Code ended without a result");
        }
        costs(&session.results, &mut tally);
        counts(&session.results, &mut tally);
    }
    tally.usage()
}

fn costs(results: &[&Json], tally: &mut Tally) {
    let mut totals = Vec::new();
    for result in results {
        match result.get("total_cost_usd") {
            None | Some(Json::Null) => {
                tally.problems.push("the result has no `total_cost_usd`".to_owned());
                tally.usd(None);
            }
            Some(total) => match dollars(total, "total_cost_usd", &mut tally.problems) {
                Some(usd) => totals.push(usd),
                None => tally.usd(None),
            },
        }
        let unpriced: Vec<&str> = models(result)
            .into_iter()
            .filter(|(_, model)| model.text("costBasis") == Some("unknown"))
            .map(|(name, _)| name)
            .collect();
        if !unpriced.is_empty() {
            tally.problems.push(format!("Claude Code knows no price of {}", excerpt_list(&unpriced)));
            tally.usd(None);
        }
    }
    tally.usd(Some(grown(totals, MicroUsd::ZERO, add_dollars)));
}

fn counts(results: &[&Json], tally: &mut Tally) {
    let (mut prompts, mut completions) = (Vec::new(), Vec::new());
    for result in results {
        let models = models(result);
        if models.is_empty() {
            main_conversation(result, tally);
            continue;
        }
        let (mut prompt, mut completion) = (Some(0), Some(0));
        for (name, model) in models {
            tally.model(Some(PROVIDER), model.text("canonicalModel").unwrap_or(name));
            let input = ["inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"];
            prompt = prompt.zip(sum(model, &input, "modelUsage", tally)).map(|(a, b)| add_tokens(a, b));
            let output = sum(model, &["outputTokens"], "modelUsage", tally);
            completion = completion.zip(output).map(|(a, b)| add_tokens(a, b));
        }
        match prompt {
            Some(prompt) => prompts.push(prompt),
            None => tally.prompt(None),
        }
        match completion {
            Some(completion) => completions.push(completion),
            None => tally.completion(None),
        }
    }
    tally.prompt(Some(grown(prompts, 0, add_tokens)));
    tally.completion(Some(grown(completions, 0, add_tokens)));
}

/// What older versions say: the tokens of one turn of the main conversation. More may have been used.
fn main_conversation(result: &Json, tally: &mut Tally) {
    let Some(usage @ Json::Map(_)) = result.get("usage") else {
        tally.problems.push("the result has neither `modelUsage` nor `usage`".to_owned());
        tally.prompt(None);
        tally.completion(None);
        return;
    };
    tally.problems.push("the result has no `modelUsage`: the tokens of subagents are not counted".to_owned());
    let input = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
    let prompt = sum(usage, &input, "usage", tally);
    tally.prompt(prompt);
    let completion = sum(usage, &["output_tokens"], "usage", tally);
    tally.completion(completion);
}

/// The sum of `keys`, of which the first must be there.
fn sum(counts: &Json, keys: &[&str], name: &str, tally: &mut Tally) -> Option<u64> {
    let mut sum = 0;
    for (place, key) in keys.iter().enumerate() {
        let value = match counts.get(key) {
            None | Some(Json::Null) if place > 0 => continue,
            None | Some(Json::Null) => {
                tally.problems.push(format!("`{name}.{key}` is absent"));
                return None;
            }
            Some(value) => tokens(value, &format!("{name}.{key}"), &mut tally.problems)?,
        };
        sum = add_tokens(sum, value);
    }
    Some(sum)
}

/// The members of `modelUsage`, in byte order of their names.
fn models(result: &Json) -> Vec<(&str, &Json)> {
    let Some(models) = result.get("modelUsage") else { return Vec::new() };
    models.keys().into_iter().filter_map(|name| Some((name, models.get(name)?))).collect()
}
