//! What git-loop reads in reports and outputs, held against the readers of `tests/independent`, which were written from the pages of
//! the documentation: both have to find the same tests and numbers also in what nobody prints on purpose.

use std::process::Command;

use git_loop::check::{self, Format, MetricSource, Observation};
use serde_json::{Value, json};

use crate::support::tool;

/// What the other readers say: a JSON object a line, of reports and patterns that are known to be odd and of some made at random.
fn told(seed: u64) -> Vec<Value> {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/independent/odd.py");
    let seed = seed.to_string();
    let output = Command::new("python3")
        .args([program, "--seed", &seed, "--reports", "40", "--patterns", "400"])
        .output()
        .expect("python3 starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it prints text");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().expect("bytes are in hex");
    let pairs = (0..hex.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("bytes are in hex")).collect()
}

/// The tests of a report as they are recorded; null if the report does not count.
fn tests(format: &str, report: &[u8]) -> Value {
    let format = Format::parse_name(format).expect("the other readers know no format that is unknown here");
    match check::parse(format, report) {
        Ok(Some(sets)) if !sets.is_empty() => json!({
            "schema": "git-loop/tests/v1", "passed": sets.passed, "failed": sets.failed, "skipped": sets.skipped,
            "partial": sets.partial,
        }),
        _ => Value::Null,
    }
}

/// The number that a pattern finds, null without one, or that it is refused.
fn number(pattern: &str, output: &[u8]) -> Value {
    let Ok(source) = MetricSource::from_parts("regex", Some(pattern), None) else { return json!("refused") };
    let seen = Observation { exit_code: Some(0), stdout: Some(output), sets: None, verdict: None };
    check::extract(&source, &seen).map_or(Value::Null, |number| json!(number))
}

#[test]
fn odd_reports_and_patterns_are_read_in_the_same_way() {
    if !tool("python3") {
        return;
    }
    let seeds = std::env::var("GIT_LOOP_ODD").ok().and_then(|count| count.parse().ok()).unwrap_or(1);
    for seed in 0..seeds {
        let (mut compared, mut unchecked, mut differences) = (0, 0, Vec::new());
        for one in told(seed) {
            let (what, theirs, ours) = match one["format"].as_str() {
                Some(format) => {
                    let report = bytes(&one["report"]);
                    let what = format!("{format} {:?}", String::from_utf8_lossy(&report));
                    (what, one["tests"].clone(), tests(format, &report))
                }
                None => {
                    let (pattern, output) = (one["pattern"].as_str().unwrap(), bytes(&one["output"]));
                    let what = format!("{pattern:?} in {:?}", String::from_utf8_lossy(&output));
                    (what, one["number"].clone(), number(pattern, &output))
                }
            };
            compared += 1;
            if theirs == json!("unchecked") {
                unchecked += 1;
            } else if theirs != ours {
                differences.push(format!("{what}\n    they: {theirs}\n    we:   {ours}"));
            }
        }
        assert!(differences.is_empty(), "seed {seed}:\n{}", differences.join("\n"));
        // Few patterns may be left unchecked, or nothing is compared.
        assert!(compared > 1000 && unchecked < 40, "{unchecked} of {compared}");
    }
}
