use clap::Args;
use serde_json::json;

use super::Context;
use super::common::{find_loop, iteration_number, verified_with};
use super::ui::Reply;
use crate::error::{Error, Result, ResultExt};
use crate::escape::{escape_path, escape_terminal};
use crate::git::TreesInMemory;
use crate::ledger::record::Body;
use crate::ledger::trust::TrustRoot;
use crate::oid::Oid;
use crate::render::diff::unified;

/// Show what a loop changed: from its base to green, or what one iteration proposed.
///
/// Of a renewal that is from the base of the first loop of the line, as all of them are reviewed together.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The loop.
    #[arg(value_name = "ID")]
    id: String,
    /// The iteration, whether it was accepted or not.
    #[arg(value_name = "N", allow_hyphen_values = true)]
    iteration: Option<String>,
}

pub fn run(context: &Context, args: &DiffArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let trust = TrustRoot::open(&repo)?;
    let found = find_loop(&repo, &args.id)?;
    let asked =
        args.iteration.as_deref().map(|text| iteration_number("diff", &found.id, text)).transpose()?;
    let mut pair: Option<(Oid, Option<Oid>)> = None;
    let chain = verified_with(&repo, &found, &trust, |step| {
        if let Body::Iteration(body) = &step.record.body
            && asked == Some(body.receipt.iteration)
        {
            pair = Some((body.receipt.base, body.receipt.candidate));
        }
    })?;
    let (old, new) = match (asked, pair) {
        (None, _) => (chain.contract.origin(), chain.tip.state.last_green_commit),
        (Some(_), Some((base, Some(candidate)))) => (base, candidate),
        (Some(number), Some((_, None))) => {
            return Err(Error::usage(format!(
                "iteration {number} was interrupted before it had a candidate"
            )));
        }
        (Some(0), None) => {
            return Err(Error::usage("iteration 0 is the baseline, which changed nothing")
                .hint(format!("what it showed: git loop show {} 0", found.id)));
        }
        (Some(_), None) => {
            let number = args.iteration.as_deref().unwrap_or_default();
            return Err(Error::usage(format!("loop `{}` has no iteration {number}", found.id)).hint(
                format!(
                    "iterations recorded so far: {}; see `git loop log {}`",
                    chain.tip.state.iteration, found.id
                ),
            ));
        }
    };
    let unreadable = || format!("the trees of {old} and {new} cannot be compared");
    let old_tree = repo.commit_tree(old.0).or_workspace(unreadable)?;
    let new_tree = repo.commit_tree(new.0).or_workspace(unreadable)?;
    let changes =
        crate::guard::changes(&TreesInMemory::new(&repo), &old_tree, &new_tree).or_workspace(unreadable)?;
    let patch = unified(&repo, &changes, context.ui.out()).or_workspace(unreadable)?;
    let paths: Vec<String> = changes.iter().map(|change| escape_path(change.path.as_ref())).collect();
    if changes.is_empty() {
        context.ui.say(&match asked {
            Some(number) => format!("iteration {number} changed nothing"),
            None => "no difference: green is still the base".to_owned(),
        });
    }
    let plain = unified(&repo, &changes, super::ui::Paint::PLAIN).or_workspace(unreadable)?;
    // Colour codes are ours; everything else that a terminal would act on is content.
    let shown = if context.ui.json() { escape_terminal(&plain).into_owned() } else { patch };
    Ok(Reply::text(shown)
        .paged()
        .status(chain.tip.state.status.as_str())
        .field("loop", found.id.as_str())
        .field("old", json!(old))
        .field("new", json!(new))
        .field("paths", paths)
        .field("patch", plain))
}
