use clap::{ArgGroup, Args};
use serde_json::{Map, Value, json};

use super::Context;
use super::common::{author, find_loop, measured_with, result_fields};
use super::ui::Reply;
use crate::at::At;
use crate::error::{Error, Result};
use crate::exit::{ExitCode, HaltReason};
use crate::ledger::append::{Tip, draft, publish};
use crate::ledger::record::{Body, ReviewBody, Role, Status, Verdict};
use crate::ledger::trust::TrustRoot;
use crate::render::status::next_step;

/// Approve or reject a converged loop, signed and bound to its halt record.
///
/// The reviewer is another principal, with another key, than the one who ran the loop.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("verdict").required(true))]
pub struct ReviewArgs {
    /// The loop.
    #[arg(value_name = "ID")]
    id: String,
    /// It may be promoted.
    #[arg(long, group = "verdict")]
    approve: bool,
    /// It ends here; exit code 16.
    #[arg(long, group = "verdict")]
    reject: bool,
    /// What you want to say.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// In which persona you looked; may be repeated.
    #[arg(long, value_name = "NAME")]
    persona: Vec<String>,
    /// What you attest, or NAME=false if you cannot; may be repeated.
    #[arg(long, value_name = "NAME[=false]")]
    attest: Vec<String>,
}

pub fn run(context: &Context, args: &ReviewArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let trust = TrustRoot::open(&repo)?;
    let found = find_loop(&repo, &args.id)?;
    let tip = Tip::from(measured_with(&repo, &found, &trust, |_| {})?.into_inner());
    awaiting_review(&tip)?;
    let signer = context.signer(&repo)?;
    let author = author(&signer, &trust, &tip.contract, Role::Reviewer)?;
    let verdict = if args.approve { Verdict::Approve } else { Verdict::Reject };
    let body = ReviewBody {
        verdict,
        halt: tip.state.halt.unwrap_or(tip.id),
        candidate: tip.state.last_green_commit,
        personas: args.persona.clone(),
        attestations: attestations(&args.attest)?,
        comment: args.comment.clone(),
        invocation: None,
    };
    let next = draft(&repo, &author, &tip, Role::Reviewer, |_| Body::Review(body), Vec::new(), At::now())?;
    publish(&repo, found.id.refs(), Some(tip.id), &next, Vec::new(), "loop: review")?;
    repo.settle()?;
    let (text, exit) = match verdict {
        Verdict::Approve => (format!("approved {} as {}\n", found.id, author.principal), ExitCode::OK),
        Verdict::Reject => (
            format!("rejected {} as {}\n", found.id, author.principal),
            HaltReason::ReviewerRejected.exit_code(),
        ),
    };
    Ok(Reply::text(text)
        .hint(next_step(&next.contract, &next.record, &next.state))
        .status(next.state.status.as_str())
        .fields(result_fields(&next, &[next.id]))
        .field("record_id", json!(next.id))
        .exit(exit))
}

/// Refuses unless the loop waits for a review.
pub fn awaiting_review(tip: &Tip) -> Result<()> {
    let id = &tip.contract.loop_id;
    match tip.state.status {
        Status::AwaitingReview => Ok(()),
        Status::Succeeded => Err(Error::refused(format!("loop `{id}` is promoted already"))),
        Status::Active => Err(Error::refused(format!("loop `{id}` has not reached its target yet"))
            .hint(next_step(&tip.contract, &tip.record, &tip.state))),
        Status::Stopped | Status::Blocked => {
            let reason = tip.state.halt_reason.map_or("halted", HaltReason::as_str);
            let what =
                if reason == "reviewer_rejected" { "was rejected by a reviewer" } else { "did not converge" };
            Err(Error::refused(format!("loop `{id}` {what}: {reason}"))
                .hint(format!("see why: git loop explain {id}")))
        }
    }
}

fn attestations(list: &[String]) -> Result<Map<String, Value>> {
    let mut map = Map::new();
    for item in list {
        let (name, value) = match item.split_once('=') {
            None => (item.as_str(), true),
            Some((name, "true")) => (name, true),
            Some((name, "false")) => (name, false),
            Some((_, other)) => {
                return Err(Error::usage(format!("--attest {item}: {other:?} is neither true nor false")));
            }
        };
        let valid = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if !valid {
            return Err(Error::usage(format!("--attest {item}: {name:?} is no name of an attestation"))
                .hint("names are like architecture_understandable"));
        }
        map.insert(name.to_owned(), Value::Bool(value));
    }
    Ok(map)
}
