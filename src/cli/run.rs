use std::path::PathBuf;

use clap::Args;

use super::Context;
use super::common::{Proof, author, find_loop, find_or_only, result_fields, verified_with};
use super::start::start;
use super::ui::Reply;
use crate::contract::Contract;
use crate::error::{Error, Result, ResultExt};
use crate::git::LoopId;
use crate::iterate::interrupt::Interrupt;
use crate::iterate::session::Opening;
use crate::iterate::{Session, SessionOptions};
use crate::ledger::record::Role;
use crate::ledger::trust::TrustRoot;
use crate::render::status::next_step;

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
    let known = match &args.id {
        Some(id) => id
            .parse::<LoopId>()
            .ok()
            .map(|id| id.refs().ledger())
            .map(|ledger| repo.read_ref(ledger.as_ref()).or_workspace(|| format!("{ledger} cannot be read")))
            .transpose()?
            .flatten()
            .is_some(),
        None => true,
    };
    let found = match &args.id {
        Some(id) if !known && id.parse::<u64>().is_err() => {
            start(context, &repo, id, args.file.as_deref(), args.base.as_deref())?;
            context.ui.say(&format!("{id}: started"));
            find_loop(&repo, id)?
        }
        _ => {
            if let Some(option) =
                [("-f", args.file.is_some()), ("--base", args.base.is_some())].iter().find(|(_, set)| *set)
            {
                let id = args.id.as_deref().unwrap_or_default();
                return Err(Error::usage(format!(
                    "loop `{id}` exists already; {} is for a new one",
                    option.0
                ))
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
    })?;
    let end = session.run(SessionOptions { once: args.once, resume: args.resume })?;
    let mut proof = Proof::default();
    // Only the result object has proof in it; people are told the tip.
    if context.ui.json() {
        let found = find_loop(&repo, found.id.as_str())?;
        verified_with(&repo, &found, &trust, |step| proof.see(step))?;
    }
    let tip = &end.tip;
    let text = match tip.state.halt_reason {
        Some(reason) => format!(
            "{}: {} ({reason}) after {} of {} iterations, ${} spent\nledger tip {}\n",
            found.id,
            tip.state.status.as_str().replace('_', " "),
            tip.state.iteration,
            tip.contract.limits.iterations,
            tip.state.cumulative_usd,
            tip.id,
        ),
        None => format!(
            "{}: {} iterations recorded, not halted\nledger tip {}\n",
            found.id, tip.state.iteration, tip.id
        ),
    };
    context.ui.hint(&next_step(&tip.record, &tip.state));
    Ok(Reply::text(text)
        .status(tip.state.status.as_str())
        .fields(result_fields(tip, proof.ids()))
        .exit(end.exit))
}
