//! `STATUS.md`: the state told to a person at 3am.

use std::fmt::Write as _;

use crate::contract::Contract;
use crate::exit::HaltReason;
use crate::ledger::message::one_line;
use crate::ledger::record::{Body, Record, Status};
use crate::ledger::state::State;

/// How many failing tests are named before the rest is only counted.
const NAMED_FAILURES: usize = 10;

/// The text of `STATUS.md` after `record`. Advisory: its wording is not part of verification.
pub fn status_md(contract: &Contract, record: &Record, state: &State) -> String {
    let mut text = String::new();
    let id = &state.loop_id;
    let _ = writeln!(text, "# Loop {id}: {}\n", headline(state));
    let _ = writeln!(text, "{}\n", one_line(&contract.objective, 400));
    let _ = writeln!(text, "| | |\n| --- | --- |");
    let _ = writeln!(text, "| as of | {}, record {} ({}) |", record.at, record.seq, record.kind.as_str());
    let _ = writeln!(text, "| iterations | {} of {} |", state.iteration, contract.limits.iterations);
    let metric = state.best_metric.map_or_else(|| "none yet".to_owned(), |metric| metric.to_string());
    let _ = writeln!(
        text,
        "| {} | {metric} (target {}, {}) |",
        one_line(&contract.metric.name, 60).replace('|', "\\|"),
        contract.metric.target,
        contract.metric.direction.as_str()
    );
    let _ = writeln!(text, "| spent | ${} of ${} |", state.cumulative_usd, contract.limits.cost_usd);
    let _ = writeln!(text, "| green | {} |", state.last_green_commit);
    if let Some(reason) = state.halt_reason {
        let _ = writeln!(text, "| halted | {reason}, exit {} |", reason.exit_code());
    }
    if let Some(failures) = state.open_failures.as_ref().filter(|failures| !failures.is_empty()) {
        let _ = writeln!(text, "\n## Still failing at green: {}\n", failures.len());
        for failure in failures.iter().take(NAMED_FAILURES) {
            let _ = writeln!(text, "- {}", one_line(failure, 160));
        }
        if failures.len() > NAMED_FAILURES {
            let _ = writeln!(text, "- … and {} more", failures.len() - NAMED_FAILURES);
        }
    }
    let _ = writeln!(text, "\n## Next\n\n{}", next_step(record, state));
    text
}

fn headline(state: &State) -> String {
    match (state.status, state.halt_reason) {
        (Status::Active, _) => "active".to_owned(),
        (Status::AwaitingReview, _) => "target met, waiting for a review".to_owned(),
        (Status::Succeeded, _) => "succeeded".to_owned(),
        (status, Some(reason)) => format!("{}, {reason}", status.as_str()),
        (status, None) => status.as_str().to_owned(),
    }
}

/// What to do next, as a sentence with a command.
pub fn next_step(record: &Record, state: &State) -> String {
    let id = &state.loop_id;
    match (state.status, state.halt_reason) {
        (Status::Active, _) => match &record.body {
            Body::Checkpoint(body) => {
                format!(
                    "Iteration {} is under way. If nothing runs any more: `git loop run {id}`.",
                    body.iteration
                )
            }
            _ => format!("Go on with `git loop run {id}`."),
        },
        (Status::AwaitingReview, _) if state.approvals.is_empty() => {
            format!("Read `git loop diff {id}`, then `git loop review {id} --approve` or `--reject`.")
        }
        (Status::AwaitingReview, _) => format!("It is approved: `git loop promote {id}`."),
        (Status::Succeeded, _) => {
            format!("Land it: `git merge {}`.", state.last_green_commit.short())
        }
        (_, Some(HaltReason::OperatorStopped)) => format!("Go on with `git loop run {id} --resume`."),
        (_, Some(_)) => {
            let green = state.last_green_commit.short();
            format!(
                "See why: `git loop log {id}`. To go on, start another loop: `git loop start <new-id> --base {green}`."
            )
        }
        (_, None) => format!("See `git loop log {id}`."),
    }
}
