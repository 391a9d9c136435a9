//! `usage = "gemini"`: the object of `gemini --output-format json`, or the last event of `stream-json`.
//!
//! The counts are those of one process. Cached tokens are part of the prompt; thoughts are output beside the candidates, so
//! that where they are not listed the total tells. No cost is reported.

use super::Usage;
use super::amount::{add_tokens, tokens};
use super::tally::Tally;
use crate::check::json::Json;

pub(super) fn read(events: &[Json]) -> Usage {
    let mut tally = Tally::new();
    let mut results = 0;
    for event in events {
        let is_result = match event.text("type") {
            Some(kind) => kind == "result",
            None => event.get("stats").is_some() || event.get("error").is_some(),
        };
        if !is_result {
            continue;
        }
        results += 1;
        let Some(stats) = event.get("stats") else {
            tally.unknown("a result of Gemini has no `stats`");
            continue;
        };
        match stats.get("models") {
            Some(models @ Json::Map(_)) => {
                for name in models.keys() {
                    tally.model(Some("google"), name);
                    if let Some(model) = models.get(name) {
                        counts(model.get("tokens").unwrap_or(model), &mut tally);
                    }
                }
            }
            _ => counts(stats, &mut tally),
        }
    }
    if results == 0 {
        return Usage::unknown(
            "there is no result of Gemini on the worker's standard output: run it with --output-format json",
        );
    }
    tally.usd(None);
    tally.problems.push("Gemini reports no cost".to_owned());
    tally.usage()
}

/// The counts of one model, under the names of either format.
fn counts(counts: &Json, tally: &mut Tally) {
    let mut get = |key: &str| match counts.get(key) {
        None | Some(Json::Null) => None,
        Some(value) => tokens(value, key, &mut tally.problems),
    };
    let prompt = get("prompt").or_else(|| get("input_tokens"));
    let shown = get("candidates").or_else(|| get("output_tokens"));
    let total = get("total").or_else(|| get("total_tokens"));
    let (thoughts, tool) = (get("thoughts"), get("tool"));
    let by_total = prompt
        .zip(total)
        .and_then(|(prompt, total)| total.checked_sub(prompt)?.checked_sub(tool.unwrap_or_default()));
    let completion = match (shown, thoughts) {
        (Some(shown), Some(thoughts)) => Some(add_tokens(shown, thoughts)),
        (shown, None) => shown.max(by_total),
        (None, Some(_)) => by_total,
    };
    for (name, known) in [("prompt", prompt.is_some()), ("output", completion.is_some())] {
        if !known {
            tally.problems.push(format!("a result of Gemini does not say its {name} tokens"));
        }
    }
    tally.prompt(prompt.map(|prompt| add_tokens(prompt, tool.unwrap_or_default())));
    tally.completion(completion);
}
