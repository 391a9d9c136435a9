use clap::Args;
use serde_json::{Map, Value, json};

use super::Context;
use super::common::{author, find_loop, result_fields};
use super::ui::Reply;
use crate::contract::Contract;
use crate::error::{Error, Result};
use crate::exit::{ExitCode, HaltReason};
use crate::git::Repo;
use crate::iterate::interrupt::Interrupt;
use crate::iterate::session::Opening;
use crate::iterate::{Session, SessionOptions};
use crate::ledger::append::Tip;
use crate::ledger::record::Role;
use crate::ledger::trust::TrustRoot;
use crate::oid::Oid;
use crate::render::commands;
use crate::render::status::{next_step, why};

/// Announce an iteration whose worker runs elsewhere.
///
/// Signs a checkpoint and says where the worker starts, in which environment, and what it should read. The candidate is brought with
/// `git loop record`. Where the base was not measured yet, that comes first. On a loop that has halted, or that a limit halts now, the
/// exit code is that of the halt.
#[derive(Debug, Args)]
pub struct CheckpointArgs {
    /// The loop.
    #[arg(value_name = "ID")]
    id: String,
    /// Give up the iteration that is open; it is recorded as abandoned.
    #[arg(long)]
    abandon: bool,
    /// Go on after an operator's stop.
    #[arg(long, conflicts_with = "abandon")]
    resume: bool,
}

pub fn run(context: &Context, args: &CheckpointArgs) -> Result<Reply> {
    let repo = context.repo()?;
    let trust = TrustRoot::open(&repo)?;
    with_session(context, &repo, &trust, &args.id, |session| {
        if args.abandon {
            if !session.give_up()? {
                return Err(Error::refused(format!("loop `{}` has no open iteration", args.id)));
            }
            let tip = session.tip();
            return Ok(Reply::text(format!("recorded iteration {} as abandoned\n", tip.state.iteration))
                .hint(next_step(&tip.contract, &tip.record, &tip.state))
                .status(tip.state.status.as_str())
                .fields(result_fields(tip, &[]))
                .exit(tip.state.halt_reason.map_or(ExitCode::OK, HaltReason::exit_code)));
        }
        let announced = session.announce(SessionOptions { once: true, resume: args.resume })?;
        let tip = session.tip();
        let reply = match announced {
            Some(announced) => Reply::text(format!(
                "iteration {} starts from {}\nenvironment {}\ncheckpoint {}\n",
                announced.iteration, announced.base, announced.environment_id, announced.checkpoint
            ))
            .hint(format!(
                "bring its candidate: {}",
                commands::bring_for(&tip.contract, &announced.environment_id)
            ))
            .fields(result_fields(tip, &[]))
            .field("checkpoint", json!(announced.checkpoint))
            .field("open_iteration", json!(announced.iteration))
            .field("environment_id", json!(announced.environment_id))
            .field("base", json!(announced.base))
            .field("frozen", json!(tip.contract.frozen.tree))
            .field("context", json!(announced.context))
            .fields(skeleton(&tip.contract, announced.checkpoint)),
            None => Reply::text(halted(args.id.as_str(), tip))
                .hint(next_step(&tip.contract, &tip.record, &tip.state))
                .fields(result_fields(tip, &[]))
                .exit(tip.state.halt_reason.map_or(ExitCode::OK, HaltReason::exit_code)),
        };
        Ok(reply.status(tip.state.status.as_str()))
    })
}

/// The verdict of a check that runs elsewhere, as far as it is known before there is a candidate: what is null is to be filled in. Nothing of a
/// loop whose check runs here.
fn skeleton(contract: &Contract, checkpoint: Oid) -> Map<String, Value> {
    if !contract.check.external {
        return Map::new();
    }
    let verdict = json!({
        "loop": contract.loop_id,
        "checkpoint": checkpoint,
        "candidate_tree": null,
        "check_tree": null,
        "frozen": contract.frozen.tree,
        "exit_code": null,
        "metric_value": null,
        "failures": null,
        "collected": null,
    });
    Map::from_iter([("verdict".to_owned(), verdict)])
}

/// Says that a loop has halted, and what the reason alone does not say.
pub fn halted(id: &str, tip: &Tip) -> String {
    let reason = tip.state.halt_reason.map_or("halted", HaltReason::as_str);
    let why = why(&tip.contract, &tip.state).map_or_else(String::new, |why| format!(": {why}"));
    format!("{id}: halted ({reason}){why}\n")
}

/// Opens a loop for an orchestrator: an open iteration stays open.
pub fn with_session(
    context: &Context,
    repo: &Repo,
    trust: &TrustRoot,
    id: &str,
    act: impl FnOnce(&mut Session<'_>) -> Result<Reply>,
) -> Result<Reply> {
    let interrupt = Interrupt::on_signals()?;
    let found = find_loop(repo, id)?;
    let signer = context.signer(repo)?;
    let say = |line: &str| context.ui.say(line);
    let warn = |line: &str| context.ui.warn(line);
    let author = |contract: &Contract| author(&signer, trust, contract, Role::Runner);
    let mut session = Session::open(Opening {
        repo,
        host: &context.host,
        trust,
        author: &author,
        id: found.id,
        interrupt,
        say: &say,
        warn: &warn,
        keep_open: true,
    })?;
    let reply = act(&mut session);
    let settled = repo.settle();
    let reply = reply?;
    settled?;
    Ok(reply)
}
