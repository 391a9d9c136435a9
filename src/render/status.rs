//! `STATUS.md`: the state told to a person at 3am.

use std::fmt::Write as _;

use crate::contract::{Class, Contract, UnknownCost};
use crate::decide::reservation;
use crate::exit::HaltReason;
use crate::ledger::message::one_line;
use crate::ledger::receipt::{CostBasis, CostReceipt};
use crate::ledger::record::{Body, Record, Severity, Status};
use crate::ledger::state::State;
use crate::money::MicroUsd;
use crate::render::commands;
use crate::render::line::plural;

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
    let metric = state.best_metric.map_or_else(|| "not measured".to_owned(), |metric| metric.to_string());
    let _ = writeln!(
        text,
        "| {} | {metric} (target {}, {}) |",
        one_line(&contract.metric.name, 60).replace('|', "\\|"),
        contract.metric.target,
        contract.metric.direction.as_str()
    );
    let _ = writeln!(text, "| spent | {} |", spent(contract, state));
    let _ = writeln!(text, "| green | {} |", state.last_green_commit);
    if let Some(red) = state.counters.holdout_red.filter(|red| *red > 0) {
        let _ = writeln!(text, "| holdout | red {} |", plural(u64::from(red), "time", "times"));
    }
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
    let _ = writeln!(text, "\n## Next\n\n{}", next_step(contract, record, state));
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
pub fn next_step(contract: &Contract, record: &Record, state: &State) -> String {
    let id = &state.loop_id;
    match (state.status, state.halt_reason) {
        _ if state.released => format!(
            "A promoter released its content, which may leave. To go on in another loop: `git loop renew {id} NEW-ID`."
        ),
        (Status::Active | Status::AwaitingReview, _) | (_, Some(HaltReason::HumanRequired))
            if state.blocking_findings() > 0 =>
        {
            unresolved(contract, state)
        }
        (Status::Active, _) => go_on(contract, Some(record), state),
        (Status::AwaitingReview, _) if state.approvals.is_empty() => {
            let able = |who: &&String| !state.submitters.iter().any(|one| one.principal == **who);
            let reviewers: Vec<&str> =
                contract.roles.reviewer.iter().filter(able).map(String::as_str).collect();
            if reviewers.is_empty() {
                return "Nobody can review this loop: its contract names no reviewer but who ran it. Add one to the \
                        allowed-signers file, then start another loop."
                    .to_owned();
            }
            format!(
                "Read `git loop diff {id}`, then, as {}: `git loop review {id} --approve --key KEY`, or `--reject`.",
                one_line(&reviewers.join(" or "), 120)
            )
        }
        (Status::AwaitingReview, _) if contract.class == Class::LastingCode => {
            format!("It is approved. What a promotion still needs: `git loop promote {id} --dry-run`.")
        }
        (Status::AwaitingReview, _) => {
            format!(
                "It is approved; as {}: `git loop promote {id} --key KEY`.",
                any_of(&contract.roles.promoter)
            )
        }
        (Status::Succeeded, _) => {
            format!("Land it: `git loop land {id}`, or `git merge {}`.", state.last_green_commit.short())
        }
        (_, Some(HaltReason::HumanRequired)) => go_on(contract, None, state),
        (_, Some(HaltReason::OperatorStopped)) => format!("Go on with `git loop run {id} --resume`."),
        // Green meets the target: a loop with the same terms would end where it begins.
        (_, Some(HaltReason::NoActionableTasks)) => format!(
            "Its target is met where it starts: there is nothing to do. To ask for more, start another loop with a \
             harder target, a stricter check or more tests: `git loop explain {id}`."
        ),
        (_, Some(HaltReason::ReviewerRejected)) => format!(
            "See what the reviewer said: `git loop explain {id}`. Green meets the target of these terms, so the same \
             ones would end at once: start another loop with a check that asks for what was missed, or renew with a \
             harder target: `git loop renew {id} NEW-ID -f NEW.toml`."
        ),
        // Whether a renewal would help depends on the whole trajectory, which the explanation reads.
        (_, Some(_)) => format!("See why, and what to type now: `{}`.", commands::explain(id)),
        (_, None) => format!("See `git loop log {id}`."),
    }
}

/// Whether the next step is to run the loop on this machine.
pub fn is_to_be_run(contract: &Contract, record: &Record, state: &State) -> bool {
    let halted = matches!(
        state.halt_reason,
        Some(HaltReason::HumanRequired | HaltReason::OperatorStopped | HaltReason::WorkspaceInvalid)
    );
    let brought = matches!(&record.body, Body::Iteration(body) if body.receipt.outside.is_some());
    (state.status == Status::Active || halted)
        && state.blocking_findings() == 0
        && state.checkpoint.is_none()
        && !contract.check.external
        && !brought
}

/// How a loop goes on that has not halted: by a runner, or by whoever brings its candidates. `record` is its last one; `None` where
/// that does not say who.
fn go_on(contract: &Contract, record: Option<&Record>, state: &State) -> String {
    let id = &state.loop_id;
    let open = state.checkpoint.as_ref();
    let is_brought = matches!(record.map(|record| &record.body), Some(Body::Iteration(body)) if body.receipt.outside.is_some());
    match open {
        Some(open) if contract.check.external => {
            format!(
                "Iteration {} waits for its candidate: `{}`.",
                open.iteration,
                commands::bring(contract, open)
            )
        }
        Some(open) => format!(
            "Iteration {} is under way. If its worker runs elsewhere: `{}`. If nothing runs any more, give it up: `{}`.",
            open.iteration,
            commands::bring(contract, open),
            commands::run(id)
        ),
        None if stops_for_unknown_cost(contract, state) => {
            let (again, brought) = if is_brought || contract.check.external {
                (format!("git loop checkpoint {id}"), "; next time pass its cost with --evidence FILE")
            } else {
                (commands::run(id), "")
            };
            format!(
                "The cost of iteration {} is not known (`git loop show {id}`), and limits.unknown_cost is \"stop\": no other is \
                 begun{brought}. To go on from green, halt it with `{again}`, then: `{}`.",
                state.iteration,
                commands::renew_at_any_cost(id.as_str(), "NEW-ID")
            )
        }
        None if contract.check.external => {
            format!("Its check runs elsewhere. Ask for an iteration: `{}`.", commands::announce(id))
        }
        None if is_brought => format!(
            "Bring the next candidate: `git loop record {id} --candidate REV`. `git loop run {id}` would start the \
             worker of the contract."
        ),
        None => format!("Go on with `{}`.", commands::run(id)),
    }
}

/// Some of these people, for a sentence.
pub fn any_of(principals: &[String]) -> String {
    if principals.is_empty() { "nobody".to_owned() } else { one_line(&principals.join(" or "), 120) }
}

/// What to do while a finding blocks.
fn unresolved(contract: &Contract, state: &State) -> String {
    let id = &state.loop_id;
    let record = state.findings.iter().rev().find(|finding| finding.severity == Severity::Block);
    let record = record.and_then(|finding| finding.record);
    let record = record.map_or_else(|| "RECORD".to_owned(), crate::oid::Oid::short);
    format!(
        "A finding blocks it: `git loop finding {id} list`. Once it is settled, as {}: `git loop finding {id} resolve {record} --message TEXT --key KEY`.",
        any_of(&contract.roles.reviewer)
    )
}

/// What was spent, of how much.
pub fn spent(contract: &Contract, state: &State) -> String {
    if contract.worker.costs_nothing() {
        return NOTHING.to_owned();
    }
    let unknown = match state.counters.unknown_costs {
        0 => "",
        _ => " known, and what nobody knows",
    };
    format!("${} of ${}{unknown}", dollars(state.cumulative_usd), dollars(contract.limits.cost_usd))
}

/// What a halt reason alone does not say.
pub fn why(contract: &Contract, state: &State) -> Option<String> {
    if state.halt_reason? != HaltReason::BudgetExceeded {
        return None;
    }
    let (id, limits) = (&state.loop_id, &contract.limits);
    if stops_for_unknown_cost(contract, state) {
        let what = if limits.tokens.is_some() { "cost, in money or in tokens," } else { "cost" };
        return Some(format!(
            "the {what} of the last run is not known (git loop show {id}); limits.unknown_cost = \"allow\" would go on"
        ));
    }
    let (spent, next) = (state.cumulative_usd, reservation(contract, state));
    let more = format!("more than the limit of ${}", dollars(limits.cost_usd));
    let mut said = Vec::new();
    if spent > limits.cost_usd {
        said.push(format!("${} is spent, {more}", dollars(spent)));
    } else if spent.saturating_add(next) > limits.cost_usd {
        said.push(format!(
            "${} is spent and the next run may cost ${}, {more}",
            dollars(spent),
            dollars(next)
        ));
    }
    if let Some(limit) = limits.tokens.filter(|limit| state.counters.tokens > *limit) {
        said.push(format!("{} tokens are used, more than the limit of {limit}", state.counters.tokens));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

/// Whether the loop begins no other iteration because nobody knows what one cost.
pub fn stops_for_unknown_cost(contract: &Contract, state: &State) -> bool {
    state.counters.unknown_costs > 0 && contract.limits.unknown_cost == UnknownCost::Stop
}

/// What one iteration cost.
pub fn cost(contract: &Contract, cost: &CostReceipt) -> String {
    match (cost.basis, cost.usd) {
        _ if contract.worker.costs_nothing() => NOTHING.to_owned(),
        (CostBasis::Reserved, Some(usd)) => {
            format!("${}, charged because it was reserved; what it cost is not known", dollars(usd))
        }
        (CostBasis::Unknown, _) | (_, None) => "unknown".to_owned(),
        (_, Some(usd)) => format!("${}", dollars(usd)),
    }
}

/// What a worker costs that is declared to cost nothing.
const NOTHING: &str = "nothing (usage = \"none\")";

/// Money for people: at least two decimals, no more than are needed.
pub fn dollars(usd: MicroUsd) -> String {
    let text = usd.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    format!("{whole}.{:0<2}", fraction.trim_end_matches('0'))
}
