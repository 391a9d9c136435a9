use std::fmt::Write as _;

use clap::Args;
use serde_json::json;

use super::Context;
use super::common::{NO_LOOPS, all_loops, verified};
use super::ui::{Reply, Tone};
use crate::error::Result;
use crate::exit::ExitCode;
use crate::ledger::message::one_line;
use crate::ledger::record::Status;
use crate::ledger::trust::TrustRoot;

/// List the loops of this repository.
#[derive(Debug, Args)]
pub struct ListArgs {}

pub fn run(context: &Context, _: &ListArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let loops = all_loops(&repo)?;
    if loops.is_empty() {
        return Ok(Reply::text("no loops\n").field("loops", json!([])).hint(NO_LOOPS));
    }
    let trust = TrustRoot::open(&repo)?;
    let paint = context.ui.out();
    let width = loops.iter().map(|found| found.id.as_str().len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut list = Vec::new();
    let mut failed = Vec::new();
    for found in &loops {
        match verified(&repo, found, &trust) {
            Ok(chain) => {
                let state = &chain.tip.state;
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
                    chain.contract.limits.iterations,
                    one_line(&chain.contract.objective, 70),
                );
                list.push(json!({
                    "loop": found.id.as_str(),
                    "status": state.status,
                    "iteration": state.iteration,
                    "halt_reason": state.halt_reason,
                    "contract_id": chain.contract_record.contract_id(),
                    "run_id": chain.contract_record,
                    "objective": chain.contract.objective,
                    "ledger_tip": found.tip,
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
    let (status, exit) =
        if failed.is_empty() { ("ok", ExitCode::OK) } else { ("error", ExitCode::INVARIANT) };
    Ok(Reply::text(text).paged().status(status).errors(&failed).field("loops", list).exit(exit))
}
