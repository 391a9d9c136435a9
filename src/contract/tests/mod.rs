//! Whole files: what is refused and in which words, what is accepted, and that nothing panics.

mod accepted;
mod form;
mod rules;
mod unbuilt;

use super::parse;

/// A small valid file; most tests change one thing in it.
const VALID: &str = r#"objective = "Make the token tests pass"
class = "research"

[paths]
mutable = ["src/**"]
check = ["tests/**"]

[worker]
command = ["./worker.sh"]

[check]
command = ["cargo", "test", "--no-fail-fast"]
format = "libtest"

[metric]
name = "failing_tests"
direction = "minimize"
target = 0
from = "failures"

[limits]
iterations = 10
"#;

/// The same for lasting code.
const LASTING: &str = r#"objective = "Make the token tests pass"
class = "lasting_code"
invariant_boundaries = [{ name = "tokens expire", command = ["cargo", "test", "expiry"] }]
allowed_semantic_changes = ["expired tokens are refused"]
forbidden_semantic_changes = ["a valid token is refused"]
machine_independence_requirements = [{ name = "builds offline", command = "cargo build --offline" }]
review_risk = "high"
required_review_personas = ["security"]
complexity_budget = { fallback_branches = 0, dependencies = 0, public_interfaces = 1, cyclomatic_complexity = 10, changed_lines = 200 }
local_defense_limit = 3
human_promotion_required = true

[paths]
mutable = ["src/**"]
check = ["tests/**"]

[worker]
command = ["./worker.sh"]

[check]
command = ["cargo", "test", "--no-fail-fast"]
format = "libtest"

[metric]
name = "failing_tests"
direction = "minimize"
target = 0
from = "failures"
"#;

/// `text` with one part of it replaced.
fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from:?} is not in the file");
    text.replacen(from, to, 1)
}

/// What is told of a bad file.
fn told(text: &str) -> String {
    match parse("loop.toml", text) {
        Ok(parsed) => panic!("accepted: {parsed:?}"),
        Err(error) => error.to_string(),
    }
}

/// What is told of the valid file with one part of it replaced.
fn bad(from: &str, to: &str) -> String {
    told(&changed(VALID, from, to))
}

/// The same for lasting code.
fn bad_lasting(from: &str, to: &str) -> String {
    told(&changed(LASTING, from, to))
}

/// The names of the warnings about a valid file.
fn warned(text: &str) -> Vec<&'static str> {
    match parse("loop.toml", text) {
        Ok(parsed) => parsed.warnings.iter().map(|warning| warning.code).collect(),
        Err(error) => panic!("refused: {error}"),
    }
}
