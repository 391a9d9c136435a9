use std::fs;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::Context;
use super::common::{author, find_loop, result_fields, verified};
use super::ui::Reply;
use crate::at::At;
use crate::error::{Error, Result, ResultExt};
use crate::ledger::agents::InvocationBody;
use crate::ledger::append::{Tip, draft, publish};
use crate::ledger::record::{Body, Role};
use crate::ledger::trust::TrustRoot;
use crate::oid::Oid;
use crate::review::identity::{AgentRole, Source, is_name, named};
use crate::worker::usage::{self, Printed, UsageKind};

/// The most bytes of an agent's output that are read.
const MAX_OUTPUT: u64 = 16 << 20;

/// Record which agent and model worked on lasting code, or reviewed it.
///
/// `git loop run` does it for its own workers. For a worker that ran elsewhere it is done between `git loop checkpoint` and `git loop
/// record`, with the runner's key; for a reviewing agent before `git loop review --invocation`, with the reviewer's. Where the agent's
/// own output does not name the model (--output), the model is only assumed, and never shows that two agents have different ones.
#[derive(Debug, Args)]
pub struct InvocationArgs {
    /// The loop.
    #[arg(value_name = "ID")]
    id: String,
    /// What the agent did.
    #[arg(long, value_enum)]
    role: Did,
    /// The agent.
    #[arg(long, value_name = "NAME")]
    agent_id: String,
    /// Who serves its model, as you know it.
    #[arg(long, value_name = "NAME", conflicts_with = "output")]
    provider: Option<String>,
    /// Its model, as you know it.
    #[arg(long, value_name = "NAME", conflicts_with = "output")]
    model: Option<String>,
    /// The tool with its version.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// What the agent printed, which names its model.
    #[arg(long, value_name = "FILE", requires = "usage")]
    output: Option<std::path::PathBuf>,
    /// How the output is read: claude, codex, gemini, opencode or aider.
    #[arg(long, value_name = "NAME", requires = "output")]
    usage: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Did {
    /// It proposed changes.
    Worker,
    /// It reviewed them.
    Reviewer,
}

pub fn run(context: &Context, args: &InvocationArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let trust = TrustRoot::open(&repo)?;
    let found = find_loop(&repo, &args.id)?;
    let (provider, model, source) = model(context, args)?;
    let tip = Tip::from(verified(&repo, &found, &trust)?.into_inner());
    if tip.contract.judged_as_lasting().is_none() {
        return Err(Error::refused(format!(
            "loop `{}` is not lasting_code: whose work it is decides nothing there",
            found.id
        ))
        .hint("review it as it is: git loop review --approve or --reject"));
    }
    let signer = context.signer(&repo)?;
    let (role, agent) = match args.role {
        Did::Worker => (Role::Runner, AgentRole::Worker),
        Did::Reviewer => (Role::Reviewer, AgentRole::Reviewer),
    };
    let author = author(&signer, &trust, &tip.contract, role)?;
    let (checkpoint, halt) = place(&tip, args.role)?;
    let tool = args.tool.clone();
    let body = InvocationBody {
        role: agent,
        agent_id: args.agent_id.clone(),
        provider,
        model,
        tool,
        source,
        checkpoint,
        halt,
    };
    let canonical = body.identity().model;
    let next = draft(&repo, &author, &tip, role, |_| Body::Invocation(body), Vec::new(), At::now())?;
    publish(&repo, found.id.refs(), Some(tip.id), &next, Vec::new(), "loop: invocation")?;
    repo.settle()?;
    let shown = canonical.clone().unwrap_or_else(|| "a model that is not known".to_owned());
    let assumed = if source == Source::Provider { "" } else { ", assumed" };
    let mut reply = Reply::text(format!("recorded {} on {}: {shown}{assumed}\n", next.id, found.id));
    if matches!(args.role, Did::Reviewer) {
        reply = reply.hint(format!(
            "then its review, with the same key: git loop review {} --approve --invocation {}",
            found.id,
            next.id.short()
        ));
    }
    Ok(reply
        .status(next.state.status.as_str())
        .fields(result_fields(&next, &[next.id]))
        .field("record_id", json!(next.id))
        .field("model", json!(canonical))
        .field("assumed", source != Source::Provider))
}

/// The checkpoint or the halt that the invocation belongs to.
fn place(tip: &Tip, role: Did) -> Result<(Option<Oid>, Option<Oid>)> {
    let id = &tip.contract.loop_id;
    match role {
        Did::Worker => match &tip.state.checkpoint {
            Some(open) => Ok((Some(open.record.unwrap_or(tip.id)), None)),
            None => Err(Error::refused(format!(
                "loop `{id}` has no open checkpoint that a worker could belong to"
            ))
            .hint(format!("ask for one before the worker runs: git loop checkpoint {id}"))),
        },
        Did::Reviewer => {
            super::review::awaiting_review(tip)?;
            Ok((None, Some(tip.state.halt.unwrap_or(tip.id))))
        }
    }
}

/// Provider and model, and how they are known.
fn model(context: &Context, args: &InvocationArgs) -> Result<(Option<String>, Option<String>, Source)> {
    let texts = [
        ("--agent-id", Some(&args.agent_id)),
        ("--provider", args.provider.as_ref()),
        ("--model", args.model.as_ref()),
        ("--tool", args.tool.as_ref()),
    ];
    for (flag, text) in texts {
        if text.is_some_and(|text| !is_name(text)) {
            return Err(Error::usage(format!("{flag} is empty, longer than 200 bytes or on several lines")));
        }
    }
    let (Some(output), Some(kind)) = (&args.output, &args.usage) else {
        return Ok((args.provider.clone(), args.model.clone(), Source::Stated));
    };
    let kind = UsageKind::parse_name(kind)?;
    if !kind.reads_output() {
        return Err(Error::usage(format!("--usage {} reads no output", kind.name()))
            .hint("use one of claude, codex, gemini, opencode, aider"));
    }
    let path = context.directory.join(output);
    let told = || format!("the output {} cannot be read", path.display());
    if fs::metadata(&path).or_workspace(told)?.len() > MAX_OUTPUT {
        return Err(Error::usage(format!("the output {} has more than 16 MiB", path.display())));
    }
    let text = fs::read(&path).or_workspace(told)?;
    let read = usage::parse(kind, Printed { text: &text, is_cut: false }, None);
    // The first is that of the main conversation.
    let Some((by, model)) = read.models.first().and_then(named) else {
        return Err(Error::refused(format!("the output {} names no model", path.display()))
            .hint("say it yourself, and it is assumed: --provider NAME --model NAME without --output"));
    };
    Ok((by, Some(model), Source::Provider))
}
