use std::path::PathBuf;

use clap::Args;

use super::Context;
use super::common::{Proof, all_loops, author, find_loop, find_or_only, near, result_fields, verified_with};
use super::start::{Then, start};
use super::ui::Reply;
use crate::contract::Contract;
use crate::error::{Error, Result};
use crate::git::{LoopId, Repo};
use crate::iterate::interrupt::Interrupt;
use crate::iterate::session::Opening;
use crate::iterate::{Session, SessionOptions};
use crate::ledger::record::Role;
use crate::ledger::trust::TrustRoot;
use crate::render::line::plural;
use crate::render::status::{next_step, spent, why};

/// Run a loop until it halts; start it first if it is new.
///
/// Continues a loop that was interrupted. On a loop that has halted it writes nothing and answers with the halt's exit
/// code.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The loop; may be left out if there is only one.
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// The terms of a new loop; loop.toml at the top of the work tree if left out.
    #[arg(short = 'f', long = "file", value_name = "FILE", requires = "id")]
    file: Option<PathBuf>,
    /// The commit a new loop starts from; HEAD if left out.
    #[arg(long, value_name = "REV", requires = "id")]
    base: Option<String>,
    /// End after one iteration.
    #[arg(long)]
    once: bool,
    /// Go on after an operator's stop.
    #[arg(long)]
    resume: bool,
}

pub fn run(context: &Context, args: &RunArgs) -> Result<Reply> {
    let repo = context.repo()?;
    let interrupt = Interrupt::on_signals()?;
    // An id that is none here yet, neither as a name nor as the number of a contract, is a new loop's.
    let new = args.id.as_deref().filter(|id| id.parse::<LoopId>().is_ok() && find_loop(&repo, id).is_err());
    let found = match new {
        // A slip of the finger must not use up an id and start a worker.
        Some(id) if args.file.is_none() && near(&repo, id).is_some() => {
            let like = near(&repo, id).unwrap_or_default();
            return Err(Error::usage(format!("there is no loop `{id}` here; did you mean `{like}`?")).hint(
                format!(
                    "if it is a new one: git loop start {id}, or name its terms: git loop run {id} -f FILE"
                ),
            ));
        }
        Some(id) => {
            if args.file.is_none() {
                hint_of_fetching(context, &repo, id)?;
            }
            start(context, &repo, id, args.file.as_deref(), args.base.as_deref(), Then::Run)?;
            context.ui.say(&format!("{id}: started"));
            find_loop(&repo, id)?
        }
        None => {
            let options = [("-f", args.file.is_some()), ("--base", args.base.is_some())];
            if let Some((option, _)) = options.iter().find(|(_, set)| *set) {
                let id = args.id.as_deref().unwrap_or_default();
                return Err(Error::usage(format!("loop `{id}` exists already; {option} is for a new one"))
                    .hint(format!("its terms are frozen; go on with them: git loop run {id}")));
            }
            find_or_only(&repo, args.id.as_deref())?
        }
    };
    let trust = TrustRoot::open(&repo)?;
    let signer = context.signer(&repo)?;
    let say = |line: &str| context.ui.say(line);
    let warn = |line: &str| context.ui.warn(line);
    let author = |contract: &Contract| author(&signer, &trust, contract, Role::Runner);
    let session = Session::open(Opening {
        repo: &repo,
        host: &context.host,
        trust: &trust,
        author: &author,
        id: found.id.clone(),
        interrupt,
        say: &say,
        warn: &warn,
        keep_open: false,
    })?;
    let end = session.run(SessionOptions { once: args.once, resume: args.resume });
    let settled = repo.settle();
    let end = end?;
    settled?;
    let mut proof = Proof::default();
    // Only the result object has proof in it; people are told the tip.
    if context.ui.json() {
        let found = find_loop(&repo, found.id.as_str())?;
        verified_with(&repo, &found, &trust, |step| proof.see(step))?;
    }
    let tip = &end.tip;
    let text = match tip.state.halt_reason {
        Some(reason) => format!(
            "{}: {} ({reason}) after {} of {}, {}{}\nledger tip {}\n",
            found.id,
            tip.state.status.as_str().replace('_', " "),
            tip.state.iteration,
            plural(u64::from(tip.contract.limits.iterations), "iteration", "iterations"),
            spent(&tip.contract, &tip.state),
            why(&tip.contract, &tip.state).map_or_else(String::new, |why| format!("\n{why}")),
            tip.id,
        ),
        None => format!(
            "{}: {} recorded, not halted\nledger tip {}\n",
            found.id,
            plural(u64::from(tip.state.iteration), "iteration", "iterations"),
            tip.id
        ),
    };
    Ok(Reply::text(text)
        .hint(next_step(&tip.contract, &tip.record, &tip.state))
        .status(tip.state.status.as_str())
        .fields(result_fields(tip, proof.ids()))
        .exit(end.exit))
}

/// Says what may have been meant where a loop would be new only because git does not clone loops.
fn hint_of_fetching(context: &Context, repo: &Repo, id: &str) -> Result<()> {
    let remotes = repo.gix().remote_names();
    let Some(remote) = remotes.iter().find(|name| **name == "origin").or_else(|| remotes.first()) else {
        return Ok(());
    };
    if all_loops(repo)?.is_empty() {
        context.ui.warn(&format!(
            "{id} is new here, and this repository has no loops; git does not clone those of {remote}. If it is one of \
             them, fetch it: git loop sync {remote} {id}",
        ));
    }
    Ok(())
}
