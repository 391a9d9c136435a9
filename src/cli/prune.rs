use std::fmt::Write as _;

use clap::Args;
use serde_json::json;

use super::Context;
use super::ui::Reply;
use crate::error::Result;
use crate::exit::ExitCode;
use crate::iterate::Places;
use crate::iterate::leftovers::{Swept, sweep};
use crate::ledger::trust::TrustRoot;
use crate::render::line::{bytes, plural};

/// Remove what runners that have ended left on this machine.
///
/// Containers that still run, worktrees and their registrations, folders of steps, warm folders of loops that are over, locks of refs, what killed steps had printed a week ago. Only what git-loop made, and
/// only where the process that made it is certainly gone: a loop that is being run loses nothing. Ledgers, candidates and notes are
/// never touched. The next run of a loop does the same for worktrees and folders.
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Only say what would be removed.
    #[arg(short = 'n', long)]
    dry_run: bool,
}

pub fn run(context: &Context, args: &PruneArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let worktrees = Places::folder(&repo, &context.host)?;
    let trust = TrustRoot::open(&repo)?;
    let Swept { removed, kept, failed } = sweep(&repo, &worktrees, &trust, args.dry_run)?;
    let mut text = String::new();
    let done = if args.dry_run { "would remove" } else { "removed" };
    for one in &removed {
        let _ = writeln!(text, "{done} {} {} ({})", one.kind, one.name, bytes(one.bytes));
    }
    for (name, why) in &kept {
        let _ = writeln!(text, "kept {name}: {why}");
    }
    for (name, why) in &failed {
        let _ = writeln!(text, "could not remove {name}: {why}");
    }
    let all: u64 = removed.iter().map(|one| one.bytes).sum();
    let count = plural(removed.len() as u64, "thing", "things");
    let _ = writeln!(text, "{done} {count}, {} in {}", bytes(all), worktrees.display());
    let (status, exit) =
        if failed.is_empty() { ("ok", ExitCode::OK) } else { ("error", ExitCode::WORKSPACE) };
    let pair = |(name, why): &(String, String)| json!({ "name": name, "why": why });
    Ok(Reply::text(text)
        .status(status)
        .exit(exit)
        .field("dry_run", args.dry_run)
        .field(
            "removed",
            removed
                .iter()
                .map(|one| json!({ "kind": one.kind, "name": one.name, "bytes": one.bytes }))
                .collect::<Vec<_>>(),
        )
        .field("kept", kept.iter().map(pair).collect::<Vec<_>>())
        .field("failed", failed.iter().map(pair).collect::<Vec<_>>())
        .field("bytes", json!(all)))
}
