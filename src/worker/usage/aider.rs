//! `usage = "aider"`: what aider prints after each message, rounded as it prints it, or the events of its `--analytics-log`
//! where the worker prints them, which are exact.

use super::Usage;
use super::amount::{add_dollars, dollars, tokens};
use super::tally::{Tally, grown};
use crate::check::json::Json;
use crate::money::MicroUsd;

/// A price below this many micro-dollars for a million tokens is a mistake of the price table: some give prices by the million
/// where aider expects them by the token.
const LEAST_PRICE: u64 = 1000;

/// Fewer tokens than this say nothing about a price.
const ENOUGH_TOKENS: u64 = 1000;

pub(super) fn read(text: &[u8], events: &[Json]) -> Usage {
    let sent: Vec<&Json> =
        events.iter().filter(|event| event.text("event") == Some("message_send")).collect();
    let tally = if sent.is_empty() { printed(text) } else { Some(logged(&sent)) };
    let Some(mut tally) = tally else {
        return Usage::unknown(
            "there is no report of aider (`Tokens: … sent, … received.`) on the worker's standard output",
        );
    };
    if tally.is_too_cheap(ENOUGH_TOKENS, LEAST_PRICE) {
        tally
            .problems
            .push("the cost that aider reports is that of no model: its price table is wrong".to_owned());
        tally.usd(None);
    }
    tally.usage()
}

/// The events of the log: one a message.
fn logged(events: &[&Json]) -> Tally {
    let mut tally = Tally::new();
    for event in events {
        let get = |key: &str| event.get("properties").and_then(|properties| properties.get(key));
        if let Some(Json::Text(model)) = get("main_model") {
            tally.model(None, model);
        }
        let mut known = |key: &str| match get(key) {
            None | Some(Json::Null) => {
                tally.problems.push(format!("a message of aider has no `{key}`"));
                None
            }
            Some(value) => Some(value),
        };
        let (prompt, completion, cost) = (known("prompt_tokens"), known("completion_tokens"), known("cost"));
        let prompt = prompt.and_then(|value| tokens(value, "prompt_tokens", &mut tally.problems));
        tally.prompt(prompt);
        let completion = completion.and_then(|value| tokens(value, "completion_tokens", &mut tally.problems));
        tally.completion(completion);
        let usd = cost.and_then(|value| dollars(value, "cost", &mut tally.problems));
        tally.usd(usd);
    }
    tally
}

/// The reports in the text. They may be wrapped anywhere between words.
fn printed(text: &[u8]) -> Option<Tally> {
    let text = String::from_utf8_lossy(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut tally = Tally::new();
    let mut sessions = Vec::new();
    let mut reports = 0;
    let mut at = 0;
    while at < words.len() {
        if let Some(model) = model(&words[at..]) {
            tally.model(None, model);
        }
        let report = if words[at] == "Tokens:" { report(&words[at + 1..]) } else { None };
        let Some(report) = report else {
            at += 1;
            continue;
        };
        at += 1 + report.words;
        reports += 1;
        tally.prompt(Some(report.sent));
        tally.completion(Some(report.received));
        match cost(&words[at..]) {
            Some((usd, length)) => {
                sessions.push(usd);
                at += length;
            }
            None => {
                tally.problems.push("aider knows no price of the model".to_owned());
                tally.usd(None);
            }
        }
    }
    tally.usd(Some(grown(sessions, MicroUsd::ZERO, add_dollars)));
    (reports > 0).then_some(tally)
}

struct Report {
    sent: u64,
    received: u64,
    words: usize,
}

/// `12k sent, 3.1k cache write, 9.8k cache hit, 1.2k received.`
fn report(words: &[&str]) -> Option<Report> {
    let (mut sent, mut at) = (None, 0);
    while at < words.len() {
        let count = rounded(words[at])?;
        let label = words[at + 1..].iter().take(2).position(|word| word.ends_with([',', '.']))?;
        let label = &words[at + 1..=at + 1 + label];
        at += 1 + label.len();
        match label {
            ["sent,"] => sent = Some(count),
            ["cache", "write," | "hit,"] => {}
            ["received."] => return Some(Report { sent: sent?, received: count, words: at }),
            _ => return None,
        }
    }
    None
}

/// `Cost: $0.05 message, $0.12 session.`: what the session has cost so far, and how many words said it.
fn cost(words: &[&str]) -> Option<(MicroUsd, usize)> {
    match words {
        ["Cost:", _, "message,", session, "session.", ..] => {
            Some((MicroUsd::from_decimal(session.strip_prefix('$')?).ok()?, 5))
        }
        _ => None,
    }
}

/// `Main model: NAME with …`, as aider announces itself.
fn model<'a>(words: &[&'a str]) -> Option<&'a str> {
    match words {
        ["Main", "model:", name, "with", ..] | ["Model:", name, "with", ..] => Some(name),
        _ => None,
    }
}

/// A number of tokens: `999`, `9.8k` or `12k`.
fn rounded(word: &str) -> Option<u64> {
    let Some(thousands) = word.strip_suffix('k') else { return plain(word) };
    match thousands.split_once('.') {
        None => plain(thousands)?.checked_mul(1000),
        Some((whole, tenths)) if tenths.len() == 1 => {
            plain(whole)?.checked_mul(1000)?.checked_add(plain(tenths)? * 100)
        }
        Some(_) => None,
    }
}

fn plain(digits: &str) -> Option<u64> {
    // At most what a sum of many cannot overflow.
    let is_plain = (1..=12).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { digits.parse().ok() } else { None }
}
