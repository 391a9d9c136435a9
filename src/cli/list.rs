use std::fmt::Write as _;

use clap::Args;
use serde_json::json;

use super::Context;
use super::common::{BadRef, LoopHere, NO_LOOPS, all_loops_and_bad_refs, verified};
use super::ui::{Reply, Tone};
use super::verify::told;
use crate::at::At;
use crate::contract::Contract;
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::git::Repo;
use crate::ledger::glance::glance;
use crate::ledger::message::one_line;
use crate::ledger::record::Status;
use crate::ledger::state::State;
use crate::ledger::trust::TrustRoot;
use crate::oid::Oid;

/// List the loops of this repository.
///
/// Each is shown as its last record says. Of a ledger only that record and the contract record are checked (form, signature,
/// signer, role), so that a list of many loops is fast; not the records between them and no decision.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Verify every ledger in full, as git loop verify --all does.
    #[arg(long)]
    verify: bool,
}

/// What a line of the list needs.
struct Line {
    contract: Contract,
    contract_record: Oid,
    state: State,
}

pub fn run(context: &Context, args: &ListArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let (loops, bad) = all_loops_and_bad_refs(&repo)?;
    if loops.is_empty() && bad.is_empty() {
        return Ok(Reply::text("no loops\n").field("loops", json!([])).hint(NO_LOOPS));
    }
    let trust = TrustRoot::open(&repo)?;
    let paint = context.ui.out();
    let width = loops.iter().map(|found| found.id.as_str().len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut list = Vec::new();
    let mut failed = Vec::new();
    let checked = if args.verify { "all" } else { "ends" };
    for found in &loops {
        match line(&repo, found, &trust, args.verify) {
            Ok(Line { contract, contract_record, state }) => {
                let _ = writeln!(
                    text,
                    "{:width$}  {:<26} {:>3}/{:<3} {}",
                    found.id.as_str(),
                    match state.halt_reason {
                        Some(reason) if matches!(state.status, Status::Stopped | Status::Blocked) =>
                            reason.as_str(),
                        _ => state.status.as_str(),
                    }
                    .replace('_', " "),
                    state.iteration,
                    contract.limits.iterations,
                    one_line(&contract.objective, 70),
                );
                list.push(json!({
                    "loop": found.id.as_str(),
                    "status": state.status,
                    "iteration": state.iteration,
                    "halt_reason": state.halt_reason,
                    "contract_id": contract_record.contract_id(),
                    "run_id": contract_record,
                    "objective": contract.objective,
                    "ledger_tip": found.tip,
                    "checked": checked,
                }));
            }
            // One ledger that does not verify must not hide the others.
            Err(error) => {
                let _ = writeln!(
                    text,
                    "{:width$}  {} {}",
                    found.id.as_str(),
                    paint.tone(Tone::Bad, "does not verify:"),
                    error.chain()
                );
                list.push(json!({ "loop": found.id.as_str(), "status": "error", "error": error.chain(), "ledger_tip": found.tip }));
                failed.push(error);
            }
        }
    }
    for BadRef { name, error, .. } in bad {
        let _ = writeln!(text, "{name}  {} {}", paint.tone(Tone::Bad, "bad ref:"), told(&name, &error));
        list.push(json!({ "ref": name, "status": "error", "error": error.chain() }));
        failed.push(error);
    }
    let (status, exit) =
        if failed.is_empty() { ("ok", ExitCode::OK) } else { ("error", ExitCode::INVARIANT) };
    let mut reply = Reply::text(text).paged().status(status).errors(&failed).field("loops", list).exit(exit);
    reply.hints = failed.iter().flat_map(Error::hints).cloned().collect();
    if args.verify {
        return Ok(reply);
    }
    Ok(reply
        .hint("as the last record of each says; to check every record and decision: git loop verify --all"))
}

fn line(repo: &Repo, found: &LoopHere, trust: &TrustRoot, verify: bool) -> Result<Line> {
    if verify {
        let chain = verified(repo, found, trust)?.into_inner();
        return Ok(Line {
            contract: chain.contract,
            contract_record: chain.contract_record,
            state: chain.tip.state,
        });
    }
    let seen = glance(repo, &found.id, found.tip.0, trust, At::now())?;
    Ok(Line { contract: seen.contract, contract_record: seen.contract_record, state: seen.state })
}
