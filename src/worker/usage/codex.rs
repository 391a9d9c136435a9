//! `usage = "codex"`: the events of `codex exec --json`.
//!
//! The counts of a completed turn are those of its thread so far. Cached tokens are part of the input, reasoning is part of
//! the output. The events name neither a cost nor a model.

use super::Usage;
use super::amount::{add_tokens, tokens};
use super::tally::{Tally, grown};
use crate::check::json::Json;

#[derive(Default)]
struct Thread<'a> {
    id: &'a str,
    begun: usize,
    completed: Vec<&'a Json>,
}

pub(super) fn read(events: &[Json]) -> Usage {
    let mut threads: Vec<Thread<'_>> = Vec::new();
    let mut current = 0;
    for event in events {
        let Some(kind) = event.text("type") else { continue };
        if kind == "thread.started" {
            let id = event.text("thread_id").unwrap_or_default();
            current = threads.iter().position(|thread| thread.id == id).unwrap_or(threads.len());
            if current == threads.len() {
                threads.push(Thread { id, ..Thread::default() });
            }
        } else if matches!(kind, "turn.started" | "turn.completed") {
            if threads.is_empty() {
                threads.push(Thread::default());
            }
            let thread = &mut threads[current];
            if kind == "turn.started" {
                thread.begun += 1;
            } else {
                thread.completed.push(event);
            }
        }
    }
    if threads.is_empty() {
        return Usage::unknown(
            "there is no event of Codex on the worker's standard output: run it with `codex exec --json`",
        );
    }
    let mut tally = Tally::new();
    for thread in &threads {
        if thread.completed.is_empty() || thread.completed.len() < thread.begun {
            tally.unknown("a turn of Codex did not complete");
        }
        let (mut input, mut output) = (Vec::new(), Vec::new());
        for turn in &thread.completed {
            match count(turn, "input_tokens", &mut tally) {
                Some(count) => input.push(count),
                None => tally.prompt(None),
            }
            match count(turn, "output_tokens", &mut tally) {
                Some(count) => output.push(count),
                None => tally.completion(None),
            }
        }
        tally.prompt(Some(grown(input, 0, add_tokens)));
        tally.completion(Some(grown(output, 0, add_tokens)));
    }
    tally.usd(None);
    tally.problems.push("Codex reports no cost".to_owned());
    tally.usage()
}

fn count(turn: &Json, key: &str, tally: &mut Tally) -> Option<u64> {
    match turn.get("usage").and_then(|usage| usage.get(key)) {
        None | Some(Json::Null) => {
            tally.problems.push(format!("`usage.{key}` is absent"));
            None
        }
        Some(value) => tokens(value, &format!("usage.{key}"), &mut tally.problems),
    }
}
