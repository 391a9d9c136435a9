use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::Context;
use super::common::{find_loop, measured_with, principals, result_fields};
use super::start::{begin_hints, read_file, terms_path};
use super::ui::Reply;
use crate::at::At;
use crate::contract::{LimitOverrides, RenewalTerms};
use crate::error::Result;
use crate::git::LoopId;
use crate::iterate::renew::{Renewed, renew};
use crate::iterate::start::{create, must_be_new};
use crate::ledger::message::one_line;
use crate::ledger::trust::TrustRoot;

/// Start a new loop on the green of one that has halted, on terms that say what changed.
///
/// An approver of the loop signs it. Without -f the terms are the old ones, with the limits that are given in their place.
/// The new loop has its whole limits before it; what the old one spent is on the old ledger. If green already meets
/// the target, `git loop run` checks it once more, and the loop waits for a review.
#[derive(Debug, Args)]
pub struct RenewArgs {
    /// The loop that has halted.
    #[arg(value_name = "ID")]
    id: String,
    /// The id of the new loop.
    #[arg(value_name = "NEW-ID")]
    new_id: String,
    /// Other terms; those of the old loop if left out.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// A limit, as in the table `[limits]` of loop.toml: iterations=20, cost_usd=5, duration=2h; tokens and unread_diffs may be `none`.
    #[arg(long = "limit", value_name = "KEY=VALUE")]
    limits: Vec<String>,
}

pub fn run(context: &Context, args: &RenewArgs) -> Result<Reply> {
    let repo = context.repo()?;
    let id: LoopId = args.new_id.parse()?;
    let limits = LimitOverrides::parse(&args.limits)?;
    let found = find_loop(&repo, &args.id)?;
    must_be_new(&repo, id.refs(), &id)?;
    let path = terms_path(context, &repo, args.file.as_deref());
    let file = match &args.file {
        Some(file) => Some(read_file(context, &path, Some(file))?),
        None => None,
    };
    let trust = TrustRoot::open(&repo)?;
    let parent = measured_with(&repo, &found, &trust, |_| {})?;
    let signer = context.signer(&repo)?;
    let principals = principals(&signer, &trust)?;
    let Renewed { contract, principal, warnings } =
        renew(&repo, &trust, &parent, &id, file.as_ref(), &limits, &principals)?;
    // Not the advice of `start`: the work tree is seldom on green, so that it would be about nothing.
    for warning in &warnings {
        context.ui.warn(warning);
    }
    // Never before what it goes on from, whatever the clocks of two machines say.
    let at = At::now().max(parent.tip.record.at);
    let tip = create(&repo, id.refs(), contract, &signer, principal, at)?;
    let renewal = tip.contract.renewal.as_ref();
    let mut text = format!("renewed {} as {id}: contract {}\n", found.id, tip.id);
    let _ = writeln!(text, "  base        {}", tip.contract.base.commit);
    text.push_str(&changes(renewal));
    let mut reply = Reply::text(text);
    for hint in begin_hints(context, &repo, &tip.contract, &principals)? {
        reply = reply.hint(hint);
    }
    Ok(reply
        .status(tip.state.status.as_str())
        .fields(result_fields(&tip, &[]))
        .field("parent", json!(tip.contract.parent))
        .field("renewal", json!(renewal)))
}

/// A line for each term that changed.
fn changes(renewal: Option<&RenewalTerms>) -> String {
    let changed = renewal.map_or(&[][..], |renewal| &renewal.changed);
    if changed.is_empty() {
        return "  terms       the same, and the limits begin anew\n".to_owned();
    }
    let mut text = String::new();
    for one in changed {
        let _ = writeln!(text, "  changed     {}: {} is now {}", one.term, shown(&one.from), shown(&one.to));
    }
    text
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => one_line(text, 60),
        other => one_line(&other.to_string(), 60),
    }
}
