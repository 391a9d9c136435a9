use std::fmt::Write as _;

use clap::Args;
use gix::bstr::BString;
use gix::refs::FullName;
use serde_json::json;

use super::Context;
use super::common::{Proof, find_loop, measured_with, result_fields, said};
use super::gate::judge;
use super::ui::Reply;
use crate::at::At;
use crate::contract::{Class, Contract};
use crate::error::{Error, Result};
use crate::exit::HaltReason;
use crate::gate::known::Place;
use crate::gate::{Side, Update};
use crate::git::{BranchError, InUse, Repo};
use crate::ledger::append::{Tip, person, write_signed};
use crate::ledger::message::one_line;
use crate::ledger::record::{Body, Status};
use crate::ledger::state::Phase;
use crate::ledger::trust::TrustRoot;
use crate::oid::Oid;
use crate::render::line::{iteration_line, plural};
use crate::render::status::{next_step, spent};
use crate::sign::{CommitObject, Person};

/// Bring the promoted candidate of a loop onto a branch, once the gate agrees.
///
/// The branch is fast-forwarded where that can be, else a signed merge commit is made; a conflict is refused and yours to solve. A
/// branch that is checked out here moves with its index and work tree, and git refuses where that would overwrite what you have not
/// committed. Nothing is pushed, and no hook of git runs.
#[derive(Debug, Args)]
pub struct LandArgs {
    /// The loop.
    #[arg(value_name = "ID")]
    id: String,
    /// The branch that moves, instead of the one that is checked out.
    #[arg(long, value_name = "BRANCH", conflicts_with = "pr")]
    onto: Option<String>,
    /// Land the green of a loop that halted without a promotion; not of lasting_code, and not what a reviewer rejected.
    #[arg(long)]
    partial: bool,
    /// Move none of your branches: make a branch with the candidate for a pull request, and print its description as Markdown.
    #[arg(long)]
    pr: bool,
    /// The branch that --pr makes; without it loop/ID.
    #[arg(long, value_name = "NAME", requires = "pr")]
    branch: Option<String>,
    /// Say what would be done, and whether the gate agrees.
    #[arg(long)]
    dry_run: bool,
}

/// How the candidate gets onto the branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// It is there already.
    There,
    /// A new branch.
    New,
    /// The branch is an ancestor of it.
    FastForward,
    /// Both sides have commits of their own.
    Merge,
}

impl How {
    fn as_str(self) -> &'static str {
        match self {
            Self::There => "there",
            Self::New => "new",
            Self::FastForward => "fast_forward",
            Self::Merge => "merge",
        }
    }
}

pub fn run(context: &Context, args: &LandArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let trust = TrustRoot::open(&repo)?;
    let found = find_loop(&repo, &args.id)?;
    let mut proof = Proof::default();
    let mut story = Story::default();
    let chain = measured_with(&repo, &found, &trust, |step| {
        proof.see(step);
        story.see(&step.record);
    })?;
    let tip = Tip::from(chain.into_inner());
    may_land(&tip, args.partial)?;
    let candidate = tip.state.last_green_commit;

    let branch = branch(&repo, &tip, args)?;
    let short = branch.shorten().to_string();
    let old = repo.read_ref(branch.as_ref())?.map(Oid);
    let how = match old {
        None if args.pr => How::New,
        None => {
            return Err(Error::usage(format!("there is no branch `{short}`"))
                .hint(format!("make it first: git branch {short} COMMIT")));
        }
        Some(old) if repo.is_ancestor(candidate.0, old.0)? => How::There,
        Some(old) if repo.is_ancestor(old.0, candidate.0)? => How::FastForward,
        Some(_) if args.pr => {
            return Err(Error::refused(format!("branch `{short}` exists and has other commits"))
                .hint("name another one: --branch NAME"));
        }
        Some(_) => How::Merge,
    };
    let in_use = repo.in_use(&branch);
    if let (InUse::Elsewhere(folder), false) = (&in_use, how == How::There) {
        return Err(Error::refused(format!(
            "branch `{short}` is in use in another work tree ({})",
            folder.display()
        ))
        .hint("land it from there, or once it has another branch"));
    }
    let new = match (how, old) {
        (How::There, Some(old)) => old,
        (How::Merge, Some(old)) => merge(context, &repo, &trust, &tip, (&short, old), args.dry_run)?,
        _ => candidate,
    };
    if how != How::There {
        let update =
            Update { reference: branch.as_bstr().to_owned(), old: old.map(|id| id.0), new: Some(new.0) };
        // What is new is judged against what the branch has, as a server would.
        let verdict = judge(&repo, &Side::Range, Place::Here, &[update])?;
        verdict.notes.iter().for_each(|note| context.ui.warn(note));
        if let Some(error) = verdict.error() {
            return Err(error);
        }
        if !args.dry_run {
            let why = format!("loop: land {}", found.id);
            match in_use {
                InUse::Here => repo.fast_forward_here(new.0, &why)?,
                _ => repo.move_branch(&branch, old.map(|id| id.0), new.0, &why)?,
            }
        }
    }
    let text = told(found.id.as_str(), &short, how, new, args.dry_run);
    let mut reply = if args.pr {
        context.ui.say(text.trim_end());
        let description = story.markdown(&tip, candidate);
        Reply::text(&description).field("description", json!(description))
    } else {
        Reply::text(text)
    };
    if how != How::There && !args.dry_run {
        reply = reply.hint(format!("push it: git push REMOTE {short}"));
    }
    Ok(reply
        .status(tip.state.status.as_str())
        .fields(result_fields(&tip, proof.ids()))
        .field("branch", json!(short))
        .field("how", json!(how.as_str()))
        .field("old", json!(old))
        .field("new", json!(new)))
}

fn told(id: &str, branch: &str, how: How, new: Oid, dry_run: bool) -> String {
    let new = new.short();
    match (how, dry_run) {
        (How::There, _) => format!("{branch} has the candidate of {id} already\n"),
        (How::New, false) => format!("made branch {branch} at {new}, the candidate of {id}\n"),
        (How::New, true) => {
            format!("would make branch {branch} at {new}, the candidate of {id}; the gate agrees\n")
        }
        (How::FastForward, false) => format!("landed {id} on {branch}: fast-forward to {new}\n"),
        (How::FastForward, true) => {
            format!("would land {id} on {branch}: fast-forward to {new}; the gate agrees\n")
        }
        (How::Merge, false) => format!("landed {id} on {branch}: merge {new}\n"),
        (How::Merge, true) => format!("would land {id} on {branch} with a merge; the gate agrees\n"),
    }
}

/// Whether green may be landed at all.
fn may_land(tip: &Tip, partial: bool) -> Result<()> {
    let (id, state, contract) = (&tip.contract.loop_id, &tip.state, &*tip.contract);
    if state.status == Status::Succeeded {
        return Ok(());
    }
    let refused = |why: &str| Error::refused(format!("loop `{id}` cannot land: {why}"));
    let next = || next_step(contract, &tip.record, state);
    if contract.class == Class::LastingCode {
        return Err(refused("it is lasting_code and not promoted").hint(next()));
    }
    if state.phase != Phase::Halted {
        return Err(refused("it has not halted").hint(next()));
    }
    if !partial {
        let partly = format!("or land its green as it is: git loop land {id} --partial");
        return Err(refused("it is not promoted").hint(next()).hint(partly));
    }
    if state.halt_reason == Some(HaltReason::ReviewerRejected) {
        return Err(refused("a reviewer rejected it").hint(format!("see why: git loop explain {id}")));
    }
    if state.blocking_findings() > 0 {
        return Err(
            refused("a finding that blocks is open").hint(format!("see it: git loop finding {id} list"))
        );
    }
    if state.last_green_commit == contract.origin() {
        return Err(refused("it accepted nothing").hint(format!("see why: git loop explain {id}")));
    }
    Ok(())
}

/// The branch that is meant.
fn branch(repo: &Repo, tip: &Tip, args: &LandArgs) -> Result<FullName> {
    let name = match (&args.onto, &args.branch) {
        (Some(name), _) | (None, Some(name)) => name.clone(),
        (None, None) if args.pr => format!("loop/{}", tip.contract.loop_id),
        (None, None) => {
            return repo.current_branch().ok_or_else(|| {
                Error::usage("HEAD is detached, so there is no branch to land on")
                    .hint(format!("name one: git loop land {} --onto BRANCH", tip.contract.loop_id))
            });
        }
    };
    let full = match name.strip_prefix("refs/heads/") {
        Some(_) => name.clone(),
        None => format!("refs/heads/{name}"),
    };
    match FullName::try_from(BString::from(full)) {
        Ok(full) if !name.starts_with('-') => Ok(full),
        _ => Err(Error::usage(format!("{name:?} is not the name of a branch"))),
    }
}

/// A signed merge of the candidate into the branch; nothing refers to it yet.
fn merge(
    context: &Context,
    repo: &Repo,
    trust: &TrustRoot,
    tip: &Tip,
    (branch, old): (&str, Oid),
    dry_run: bool,
) -> Result<Oid> {
    let candidate = tip.state.last_green_commit;
    let tree = repo.merge_trees(old.0, candidate.0).map_err(|error| {
        let conflict = matches!(error, BranchError::Conflict(_));
        let error =
            Error::from(error).while_doing(format!("{} cannot be merged into {branch}", candidate.short()));
        if conflict {
            error.hint(format!("solve it by hand: git switch {branch}; git merge {candidate}"))
        } else {
            error
        }
    })?;
    let mut message =
        format!("Land loop {}: {}\n\n", tip.contract.loop_id, one_line(&tip.contract.objective, 60));
    let _ = write!(message, "Loop-Id: {}\nLoop-Candidate: {candidate}\n", tip.contract.loop_id);
    let mut object = CommitObject {
        tree,
        parents: vec![old.0, candidate.0],
        author: nobody(),
        committer: nobody(),
        extra_headers: Vec::new(),
        message: message.into(),
    };
    if dry_run {
        // For the gate alone: which key would sign is not asked.
        return Ok(Oid(repo.write_commit(&object.to_bytes()?)?));
    }
    let signer = context.signer(repo)?;
    let known = trust.principals(signer.public_key(), At::now());
    object.author = merger(repo, known.first().map(String::as_str));
    object.committer = object.author.clone();
    let merged = write_signed(repo, &signer, &object)?;
    repo.sync_written()?;
    Ok(merged)
}

fn nobody() -> Person {
    person("git-loop", At::now())
}

/// Who makes the merge commit: as git would call them, else by the name that the trust root gives the key.
fn merger(repo: &Repo, principal: Option<&str>) -> Person {
    let config = repo.config();
    let mut who = person(principal.unwrap_or("git-loop"), At::now());
    if let (Some(name), Some(email)) = (config.get("user.name"), config.get("user.email")) {
        (who.name, who.email) = (name.into(), email.into());
    }
    who
}

/// What a pull request says of a loop.
#[derive(Debug, Default)]
struct Story {
    records: Vec<crate::ledger::record::Record>,
}

impl Story {
    fn see(&mut self, record: &crate::ledger::record::Record) {
        if matches!(record.body, Body::Iteration(_) | Body::Halt(_) | Body::Review(_) | Body::Promotion(_)) {
            self.records.push(record.clone());
        }
    }

    fn markdown(&self, tip: &Tip, candidate: Oid) -> String {
        let (contract, state): (&Contract, _) = (&tip.contract, &tip.state);
        let id = &contract.loop_id;
        let mut text = format!("# {}\n\n", escaped(&one_line(&contract.objective, 200)));
        let _ = writeln!(
            text,
            "The candidate `{candidate}` of the bounded loop `{id}`: {}, {} accepted, spent {}.\n",
            plural(u64::from(state.iteration), "iteration", "iterations"),
            state.counters.accepted,
            escaped(&spent(contract, state)),
        );
        let metric = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |value| value.to_string());
        let _ = writeln!(
            text,
            "`{}`: {} at the base, {} now; the target is {}.\n\n```text",
            one_line(&contract.metric.name, 60).replace('`', "'"),
            metric(state.baseline.as_ref().and_then(|baseline| baseline.metric)),
            metric(state.best_metric),
            contract.metric.target,
        );
        for record in &self.records {
            let line = match &record.body {
                Body::Iteration(body) => iteration_line(contract, &body.receipt),
                Body::Halt(body) => format!("halted: {}", body.halt_reason.as_str()),
                _ => one_line(&said(record).unwrap_or_default(), 300),
            };
            // The fence ends with a line of its own only.
            let _ = writeln!(text, "{}", line.replace("```", "'''"));
        }
        let _ = writeln!(
            text,
            "```\n\nCheck it in a clone, offline after the fetch:\n\n```sh\ngit fetch REMOTE 'refs/loops/{id}/*:refs/loops/{id}/*'\n\
             git loop verify {id}    # ledger {}\n```",
            tip.id
        );
        text
    }
}

/// Text on one line that Markdown takes for text.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '@' | '!' | '~') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
