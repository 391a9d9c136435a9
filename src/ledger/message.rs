//! The commit message of a record: one line for people, then trailers for machines. Both are functions of
//! `record.json` and the contract, so that a signed lie in the log does not verify.

use std::fmt::Write as _;

use super::record::{Body, FindingAction, HaltedBy, Kind, Record, Verdict};
use crate::contract::Contract;
use crate::decide::{Decision, DecisionStatus, Outcome};
use crate::escape::escape_terminal;
use crate::review::identity::AgentRole;

/// The longest part of an objective that a subject line repeats, in characters.
const OBJECTIVE_CHARS: usize = 60;

/// The whole commit message of `record`.
pub fn message(contract: &Contract, record: &Record) -> String {
    let mut text = subject(contract, record);
    text.push_str("\n\n");
    for (key, value) in trailers(record) {
        let _ = writeln!(text, "{key}: {value}");
    }
    text
}

/// The line that `git log --oneline` shows.
pub fn subject(contract: &Contract, record: &Record) -> String {
    match &record.body {
        Body::Contract(body) => format!("contract: {}", one_line(&body.objective, OBJECTIVE_CHARS)),
        Body::Baseline(body) => match (body.check.metric, &body.check.problem) {
            (Some(metric), _) if body.target_met => {
                format!(
                    "baseline: {} {metric}, the target is met already",
                    one_line(&contract.metric.name, 40)
                )
            }
            (Some(metric), _) => format!("baseline: {} {metric}", one_line(&contract.metric.name, 40)),
            (None, Some(problem)) => format!("baseline: no metric ({})", one_line(problem, OBJECTIVE_CHARS)),
            (None, None) => "baseline: no metric".to_owned(),
        },
        Body::Checkpoint(body) => format!("checkpoint {}: start from {}", body.iteration, body.base.short()),
        Body::Iteration(body) => {
            let receipt = &body.receipt;
            let mut text = format!("iteration {} {}", receipt.iteration, verb(&receipt.decision));
            if let Some(metric) = receipt.check.as_ref().and_then(|check| check.metric) {
                let _ = write!(text, ", {} {metric}", one_line(&contract.metric.name, 40));
            }
            text
        }
        Body::Halt(body) => {
            let what = match body.by {
                HaltedBy::Operator => "stopped by an operator",
                _ => body.halt_reason.as_str(),
            };
            let plural = if body.iteration == 1 { "" } else { "s" };
            format!("halt: {what} after {} iteration{plural}", body.iteration)
        }
        Body::Resume(_) => "resume: go on".to_owned(),
        Body::Review(body) => {
            let verdict = match body.verdict {
                Verdict::Approve => "approved",
                Verdict::Reject => "rejected",
            };
            format!("review: {verdict} by {}", one_line(&record.actor.principal, OBJECTIVE_CHARS))
        }
        Body::Promotion(body) => {
            format!(
                "promotion: {} by {}",
                body.candidate.short(),
                one_line(&record.actor.principal, OBJECTIVE_CHARS)
            )
        }
        Body::Release(body) => format!(
            "release: {} by {}",
            one_line(&body.reason, OBJECTIVE_CHARS),
            one_line(&record.actor.principal, OBJECTIVE_CHARS)
        ),
        Body::Lease(body) => {
            let who = one_line(&record.actor.principal, OBJECTIVE_CHARS);
            if body.until == record.at {
                format!("lease: given up by {who}")
            } else {
                format!("lease: {who} on {} until {}", body.host, body.until)
            }
        }
        Body::Invocation(body) => {
            let what = match body.role {
                AgentRole::Worker => "worked",
                AgentRole::Reviewer => "reviewed",
            };
            format!("invocation: {} {what}", one_line(&body.agent_id, OBJECTIVE_CHARS))
        }
        Body::Finding(body) => {
            let who = one_line(&record.actor.principal, OBJECTIVE_CHARS);
            match body.action {
                FindingAction::Add => format!("finding: {} by {who}", body.severity.as_str()),
                FindingAction::Resolve => {
                    let which =
                        body.finding.map_or_else(String::new, |finding| format!(" {}", finding.short()));
                    format!("finding{which} resolved by {who}")
                }
            }
        }
    }
}

/// Whether a message is that of a record of this kind.
pub fn is_of(message: &str, kind: Kind) -> bool {
    message.lines().find_map(|line| line.strip_prefix("Loop-Record: ")) == Some(kind.as_str())
}

/// The trailers, in their order.
pub fn trailers(record: &Record) -> Vec<(&'static str, String)> {
    let mut list = vec![
        ("Loop-Id", record.loop_id.clone()),
        ("Loop-Record", record.kind.as_str().to_owned()),
        ("Loop-Seq", record.seq.to_string()),
    ];
    match &record.body {
        Body::Contract(_)
        | Body::Baseline(_)
        | Body::Resume(_)
        | Body::Finding(_)
        | Body::Release(_)
        | Body::Lease(_)
        | Body::Invocation(_) => {}
        Body::Checkpoint(body) => list.push(("Loop-Iteration", body.iteration.to_string())),
        Body::Iteration(body) => {
            let receipt = &body.receipt;
            list.push(("Loop-Iteration", receipt.iteration.to_string()));
            list.push(("Loop-Decision", decision_word(&receipt.decision)));
            if let Some(candidate) = receipt.candidate {
                list.push(("Loop-Candidate", candidate.to_string()));
            }
        }
        Body::Halt(body) => {
            list.push(("Loop-Iteration", body.iteration.to_string()));
            list.push(("Loop-Halt", body.halt_reason.as_str().to_owned()));
        }
        Body::Review(body) => list.push(("Loop-Candidate", body.candidate.to_string())),
        Body::Promotion(body) => list.push(("Loop-Candidate", body.candidate.to_string())),
    }
    list
}

fn decision_word(decision: &Decision) -> String {
    let status = match decision.status {
        DecisionStatus::Accept => "accept",
        DecisionStatus::Reject => "reject",
        DecisionStatus::AwaitingReview => "awaiting_review",
        DecisionStatus::Stopped => "stopped",
        DecisionStatus::Blocked => "blocked",
    };
    format!("{status} {}", decision.reason)
}

/// `accepted (metric_improved)`, `rejected (tests_regressed), stopped by iteration_limit`, …
pub fn verb(decision: &Decision) -> String {
    let outcome = match decision.outcome {
        Outcome::Accept => "accepted",
        Outcome::Reject => "rejected",
        Outcome::Blocked => "blocked",
    };
    let mut text = format!("{outcome} ({})", decision.outcome_reason);
    if decision.status == DecisionStatus::Stopped && decision.reason != decision.outcome_reason {
        let _ = write!(text, ", stopped by {}", decision.reason);
    }
    text
}

/// `text` on one line, without anything a terminal would act on, cut to `limit` characters.
pub fn one_line(text: &str, limit: usize) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let safe = escape_terminal(&flat);
    if safe.chars().count() <= limit {
        return safe.to_string();
    }
    let cut: String = safe.chars().take(limit.saturating_sub(1)).collect();
    format!("{}…", cut.trim_end())
}
