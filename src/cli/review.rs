use clap::{ArgGroup, Args};
use serde_json::{Map, Value, json};

use super::Context;
use super::common::{author, find_loop, measured_with, result_fields};
use super::ui::Reply;
use crate::at::At;
use crate::error::{Error, Result};
use crate::escape::escape_line;
use crate::exit::{ExitCode, HaltReason};
use crate::ledger::append::{Tip, draft, publish};
use crate::ledger::record::{Body, ReviewBody, Role, Status, Verdict};
use crate::ledger::trust::TrustRoot;
use crate::oid::Oid;
use crate::render::review::page;
use crate::render::status::next_step;
use crate::review::form::{self, Form};
use crate::review::policy;

/// Approve or reject a converged loop, signed and bound to its halt record.
///
/// Without a verdict it shows what there is to be reviewed, and --edit has it filled in with your editor ($GIT_EDITOR, $VISUAL, $EDITOR).
/// The reviewer is another principal, with another key, than the one who ran the loop.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("verdict"))]
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
    /// Write it in your editor.
    #[arg(long, group = "verdict", conflicts_with_all = ["comment", "persona", "attest"])]
    edit: bool,
    /// What you want to say.
    #[arg(long, value_name = "TEXT", requires = "verdict")]
    comment: Option<String>,
    /// In which persona you looked; may be repeated.
    #[arg(long, value_name = "NAME", requires = "verdict")]
    persona: Vec<String>,
    /// What you attest, or NAME=false if you cannot; may be repeated.
    #[arg(long, value_name = "NAME[=false]", requires = "verdict")]
    attest: Vec<String>,
    /// The record of the agent's run that this review is; a person gives none.
    #[arg(long, value_name = "RECORD", requires = "verdict")]
    invocation: Option<String>,
    /// The halt record that you looked at; refused if the loop halted with another.
    #[arg(long, value_name = "RECORD")]
    halt: Option<String>,
}

pub fn run(context: &Context, args: &ReviewArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let trust = TrustRoot::open(&repo)?;
    let found = find_loop(&repo, &args.id)?;
    let mut packet = None;
    let tip = Tip::from(
        measured_with(&repo, &found, &trust, |step| {
            if let Body::Halt(halt) = &step.record.body {
                packet.clone_from(&halt.packet);
            }
        })?
        .into_inner(),
    );
    awaiting_review(&tip)?;
    let form = if args.edit {
        let text = super::editor::edit(&context.host, &form::empty(&page(&tip, packet.as_deref())))?;
        form::parse(&text).map_err(|why| Error::usage(why).hint("nothing is recorded; review it again"))?
    } else {
        Form {
            approve: (args.approve || args.reject).then_some(args.approve),
            personas: args.persona.clone(),
            attest: args.attest.clone(),
            comment: args.comment.clone(),
        }
    };
    let Some(approve) = form.approve else {
        if args.edit {
            return Err(Error::refused("the form has no verdict; nothing is recorded"));
        }
        return Ok(Reply::text(page(&tip, packet.as_deref()))
            .paged()
            .hint(next_step(&tip.contract, &tip.record, &tip.state))
            .status(tip.state.status.as_str())
            .fields(result_fields(&tip, &[]))
            .field("halt", json!(tip.state.halt.unwrap_or(tip.id)))
            .field("packet", json!(packet)));
    };
    let signer = context.signer(&repo)?;
    let author = author(&signer, &trust, &tip.contract, Role::Reviewer)?;
    let halt = tip.state.halt.unwrap_or(tip.id);
    if let Some(named) = &args.halt
        && !(named.len() >= 4 && halt.to_string().starts_with(named.as_str()))
    {
        return Err(Error::refused(format!(
            "you looked at the halt record {}, and loop `{}` halted with {halt}",
            escape_line(named),
            found.id
        ))
        .hint(format!("look again: git loop show {}", found.id)));
    }
    let verdict = if approve { Verdict::Approve } else { Verdict::Reject };
    let body = ReviewBody {
        verdict,
        halt,
        candidate: tip.state.last_green_commit,
        attestations: attestations(&tip, &form.attest)?,
        personas: form.personas,
        comment: form.comment,
        invocation: args
            .invocation
            .as_deref()
            .map(|named| invocation(&tip, named, &signer.fingerprint()))
            .transpose()?,
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
    let mut reply = Reply::text(text);
    if verdict == Verdict::Approve {
        for lack in lacks(&next) {
            reply = reply.hint(lack);
        }
    }
    Ok(reply
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

/// What a promotion of lasting code will miss of this review.
fn lacks(tip: &Tip) -> Vec<String> {
    let relevant = ["attestations", "personas", "reviewers_identified", "other_agent", "model_diversity"];
    policy::conditions(&tip.contract, &tip.state, None)
        .into_iter()
        .filter(|one| relevant.contains(&one.name))
        .filter_map(|one| Some(format!("a promotion still misses this: {}", one.missing?)))
        .collect()
}

/// The invocation of a reviewing agent that this key recorded.
fn invocation(tip: &Tip, named: &str, key: &str) -> Result<Oid> {
    let id = &tip.contract.loop_id;
    let runs = tip.state.agents.as_ref().map_or(&[][..], |agents| &agents.reviewers);
    // The last one cannot name itself; it is the tip.
    let ours = runs.iter().filter(|run| run.key == key).map(|run| run.record.unwrap_or(tip.id));
    let fitting: Vec<Oid> =
        ours.filter(|record| named.len() >= 4 && record.to_string().starts_with(named)).collect();
    match fitting[..] {
        [one] => Ok(one),
        _ => Err(Error::usage(format!(
            "loop `{id}` has no invocation {:?} of a reviewing agent that this key recorded",
            escape_line(named)
        ))
        .hint(format!("record one: git loop invocation {id} --role reviewer --agent-id AGENT"))),
    }
}

fn attestations(tip: &Tip, list: &[String]) -> Result<Map<String, Value>> {
    let lasting = tip.contract.judged_as_lasting().is_some();
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
        if lasting && !policy::ATTESTATIONS.contains(&name) {
            return Err(Error::usage(format!("--attest {item}: {name:?} is no attestation of lasting code"))
                .hint(format!("they are {}", policy::ATTESTATIONS.join(", "))));
        }
        map.insert(name.to_owned(), Value::Bool(value));
    }
    Ok(map)
}
