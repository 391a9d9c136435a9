use std::cell::OnceCell;
use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};

use super::Context;
use super::ui::Reply;
use crate::error::{Error, Kind, Result};
use crate::git::{LoopId, Repo};
use crate::ledger::trust::TrustRoot;
use crate::render::line::plural;
use crate::sync::exchange::default_remote;
use crate::sync::{Exchange, LoopEnd, Request};

/// Share loops through a remote: fetch, verify, bring together, push.
///
/// Ledgers, heads and receipts of the remote are fetched and verified before anything here moves. What is only here goes after what
/// is there: records that your key signed are signed anew and decided again; those of others are kept aside and named. Then the remote
/// gets everything in one atomic push with a lease for each ref; nothing is ever forced. Branches, tags and configuration stay as they are.
#[derive(Debug, Args)]
pub struct SyncArgs {
    /// The remote (loop.remote if left out, else origin, else the only one), then loops; all if none is named.
    #[arg(value_name = "REMOTE] [ID")]
    names: Vec<String>,
}

pub fn run(context: &Context, args: &SyncArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let (remote, ids) = names(&repo, &args.names)?;
    let trust = TrustRoot::open(&repo)?;
    // Asked for only where records have to be signed anew: a reviewer without a key may fetch.
    let key = OnceCell::new();
    let signer = || match key.get() {
        Some(signer) => Ok(signer),
        None => context.signer(&repo).map(|signer| key.get_or_init(|| signer)),
    };
    let exchange = Exchange::new(&repo, &trust, remote, &signer)?;
    let ends = exchange.run(&Request { ids, held: None });
    let settled = repo.settle();
    let ends = ends?;
    settled?;
    Ok(reply(context, &exchange.remote, &ends))
}

/// The remote and the loops that are named. The first word is a remote if there is one of that name.
fn names(repo: &Repo, names: &[String]) -> Result<(String, Vec<LoopId>)> {
    let is_remote = |name: &String| repo.gix().remote_names().iter().any(|known| *known == name.as_str());
    let (remote, ids) = match names.split_first() {
        Some((first, rest)) if is_remote(first) => (first.clone(), rest),
        _ => (default_remote(repo)?, names),
    };
    let id = |name: &String| {
        name.parse::<LoopId>().map_err(|why| {
            Error::usage(format!(
                "{name:?} is neither a remote of this repository nor the id of a loop: {why}"
            ))
            .hint("see the remotes: git remote -v; the loops: git loop list")
        })
    };
    Ok((remote, ids.iter().map(id).collect::<Result<_>>()?))
}

fn reply(context: &Context, remote: &str, ends: &[LoopEnd]) -> Reply {
    let mut text = String::new();
    let mut hints = Vec::new();
    for end in ends {
        for warning in &end.warnings {
            context.ui.warn(warning);
        }
        let _ = writeln!(text, "{}: {}", end.id, line(remote, end));
        for (was, now) in &end.carried {
            let _ = writeln!(text, "  record {} is {} now, signed anew", was.short(), now.short());
        }
        for aside in &end.aside {
            let (kind, who) = (aside.kind.as_str(), crate::ledger::message::one_line(&aside.principal, 60));
            let _ = writeln!(
                text,
                "  kept aside: {} {}, a {kind} by {who}: {}",
                aside.seq,
                aside.record.short(),
                aside.why
            );
        }
        for name in &end.aside_refs {
            let _ = writeln!(text, "  what was kept aside is in {name}: git log --first-parent {name}");
        }
        if let Some(error) = &end.error {
            context.ui.warn(&error.chain());
            for hint in error.hints() {
                if !hints.contains(hint) {
                    hints.push(hint.clone());
                }
            }
        }
    }
    if ends.is_empty() {
        let _ = writeln!(text, "there are no loops, neither here nor on {remote}");
    }
    let errors: Vec<&Error> = ends.iter().filter_map(|end| end.error.as_ref()).collect();
    // What does not verify is worse than what was refused, and that worse than what has to wait.
    let rank = |error: &&&Error| match error.kind() {
        Kind::Internal => 4,
        Kind::Invariant => 3,
        Kind::Refused => 2,
        _ => 1,
    };
    let worst = errors.iter().max_by_key(rank).map(|error| error.exit_code());
    let reply = hints.into_iter().fold(Reply::text(text), Reply::hint);
    let reply = match worst {
        Some(exit) => reply.status(if exit.get() == 1 { "refused" } else { "error" }).exit(exit),
        None => reply,
    };
    reply.errors(errors).field("remote", remote).field("loops", ends.iter().map(object).collect::<Vec<_>>())
}

/// What happened to one loop.
fn line(remote: &str, end: &LoopEnd) -> String {
    let records = |count: u64| plural(count, "record", "records");
    let mut done = Vec::new();
    if end.fetched > 0 {
        done.push(format!("{} from {remote}", records(end.fetched)));
    }
    if end.pushed > 0 {
        done.push(format!("{} to {remote}", records(end.pushed)));
    } else if end.refs_pushed {
        done.push(format!("head or receipts to {remote}"));
    }
    match (&end.error, done.is_empty()) {
        (Some(error), true) => error.message().to_owned(),
        (Some(error), false) => format!("{}; {}", done.join(", "), error.message()),
        (None, true) => format!("up to date with {remote}"),
        (None, false) => done.join(", "),
    }
}

fn object(end: &LoopEnd) -> Value {
    json!({
        "loop": end.id,
        "status": end.word(),
        "ledger_tip": end.tip,
        "fetched": end.fetched,
        "pushed": end.pushed,
        "carried": end.carried.iter().map(|(was, now)| json!({ "from": was, "to": now })).collect::<Vec<_>>(),
        "aside": end.aside.iter().map(|aside| json!({
            "seq": aside.seq, "record": aside.record, "kind": aside.kind, "principal": aside.principal, "why": aside.why,
        })).collect::<Vec<_>>(),
        "aside_refs": end.aside_refs,
        "warnings": end.warnings,
    })
}
