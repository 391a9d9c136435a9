use clap::Args;
use serde_json::json;

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
use crate::ledger::record::Role;
use crate::ledger::trust::TrustRoot;
use crate::render::status::next_step;

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
                "bring its candidate: git loop record {} --candidate REV --environment {}{}",
                args.id,
                announced.environment_id,
                if tip.contract.check.external { " --verdict FILE" } else { "" }
            ))
            .fields(result_fields(tip, &[]))
            .field("checkpoint", json!(announced.checkpoint))
            .field("open_iteration", json!(announced.iteration))
            .field("environment_id", json!(announced.environment_id))
            .field("base", json!(announced.base))
            .field("frozen", json!(tip.contract.frozen.tree))
            .field("context", json!(announced.context)),
            None => {
                let reason = tip.state.halt_reason.map_or("halted", HaltReason::as_str);
                Reply::text(format!("{}: halted ({reason})\n", args.id))
                    .hint(next_step(&tip.contract, &tip.record, &tip.state))
                    .fields(result_fields(tip, &[]))
                    .exit(tip.state.halt_reason.map_or(ExitCode::OK, HaltReason::exit_code))
            }
        };
        Ok(reply.status(tip.state.status.as_str()))
    })
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
