//! `usage = "opencode"`: the events of `opencode run --format json`.
//!
//! Each finished step reports its own cost and tokens; the three kinds of input exclude each other, and reasoning is apart
//! from the output. The events name no model.

use std::collections::BTreeSet;

use super::Usage;
use super::amount::{add_tokens, dollars, tokens};
use super::tally::Tally;
use crate::check::json::Json;

pub(super) fn read(events: &[Json]) -> Usage {
    let mut tally = Tally::new();
    let mut seen = BTreeSet::new();
    let (mut begun, mut finished) = (0_usize, 0_usize);
    for event in events {
        match event.text("type") {
            Some("step_start") => begun += 1,
            Some("step_finish") => {
                let part = event.get("part").unwrap_or(event);
                if part.text("id").is_some_and(|id| !seen.insert(id)) {
                    continue;
                }
                finished += 1;
                step(part, &mut tally);
            }
            _ => {}
        }
    }
    if finished == 0 && begun == 0 {
        return Usage::unknown(
            "there is no step of opencode on the worker's standard output: run it with --format json",
        );
    }
    if finished < begun || finished == 0 {
        tally.unknown("a step of opencode did not finish");
    }
    tally.usage()
}

fn step(part: &Json, tally: &mut Tally) {
    let usd = match part.get("cost") {
        None | Some(Json::Null) => {
            tally.problems.push("a step of opencode has no `cost`".to_owned());
            None
        }
        Some(cost) => dollars(cost, "cost", &mut tally.problems),
    };
    tally.usd(usd);
    let counts = part.get("tokens");
    let cache = counts.and_then(|counts| counts.get("cache"));
    let mut count = |place: Option<&Json>, key: &str, must_be: bool| match place.and_then(|at| at.get(key)) {
        None | Some(Json::Null) if must_be => {
            tally.problems.push(format!("a step of opencode has no `tokens.{key}`"));
            None
        }
        None | Some(Json::Null) => Some(0),
        Some(value) => tokens(value, &format!("tokens.{key}"), &mut tally.problems),
    };
    let prompt = [count(counts, "input", true), count(cache, "read", false), count(cache, "write", false)];
    let completion = [count(counts, "output", true), count(counts, "reasoning", false)];
    tally.prompt(prompt.into_iter().try_fold(0, |sum, count| Some(add_tokens(sum, count?))));
    tally.completion(completion.into_iter().try_fold(0, |sum, count| Some(add_tokens(sum, count?))));
}
