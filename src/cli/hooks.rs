use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use super::Context;
use super::ui::{Reply, Tone};
use crate::error::{Result, ResultExt};
use crate::gate::install::{self, Action, Done, HooksPath, Kind, Places, Scope, Status};
use crate::git::Repo;

/// Install, remove or look at the hooks that ask the gate.
///
/// A hook that is there already is kept and runs first. A client's hook can be bypassed (git push --no-verify); the
/// server's hook is the enforcement.
#[derive(Debug, Args)]
pub struct HooksArgs {
    #[command(subcommand)]
    action: HooksAction,
    /// The hook of a server, pre-receive, instead of a client's pre-push.
    #[arg(long, global = true)]
    server: bool,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum HooksAction {
    /// Put the hook in place, beside any hook that is there.
    Install,
    /// Remove it and bring back what was there before.
    Uninstall,
    /// Say whether it is in force.
    Status,
}

pub fn run(context: &Context, args: &HooksArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let places = places(context, &repo)?;
    let kind = if args.server { Kind::Server } else { Kind::Client };
    match args.action {
        HooksAction::Install => put_in(context, kind, &places),
        HooksAction::Uninstall => take_out(kind, &places),
        HooksAction::Status => look(context, kind, &places),
    }
}

fn put_in(context: &Context, kind: Kind, places: &Places) -> Result<Reply> {
    let done = install::install(kind, places)?;
    let text = tell(context, &done);
    let reply = Reply::text(text).field("hooks", json!(done));
    Ok(match kind {
        Kind::Client => reply.hint(
            "a client's hook can be bypassed with --no-verify; on the server: git loop hooks install --server",
        ),
        Kind::Server => reply,
    })
}

/// Installs the client's hook; also what `git loop init --hooks` does. What was done, and a line for people on each.
pub(super) fn install_client(context: &Context, repo: &Repo) -> Result<(Vec<Done>, String)> {
    let done = install::install(Kind::Client, &places(context, repo)?)?;
    let text = tell(context, &done);
    Ok((done, text))
}

fn tell(context: &Context, done: &[Done]) -> String {
    let mut text = String::new();
    for one in done {
        let what = match one.action {
            Action::Unchanged => "is in place already",
            Action::Updated => "updated",
            _ => "installed",
        };
        let chained = if one.chained { "; the hook that was there runs first" } else { "" };
        let _ = writeln!(text, "{} {what}: {}{chained}", one.hook.as_str(), one.file.display());
        for note in &one.notes {
            context.ui.warn(note);
        }
    }
    text
}

fn take_out(kind: Kind, places: &Places) -> Result<Reply> {
    let done = install::uninstall(kind, places)?;
    let mut text = String::new();
    for one in done.iter().flatten() {
        let back = if one.chained { ", and what was there before is back" } else { "" };
        let _ = writeln!(text, "{} removed: {}{back}", one.hook.as_str(), one.file.display());
    }
    if text.is_empty() {
        text.push_str("no hook of git-loop was installed\n");
    }
    Ok(Reply::text(text).field("hooks", json!(done)))
}

fn look(context: &Context, kind: Kind, places: &Places) -> Result<Reply> {
    let paint = context.ui.out();
    let list = install::status(kind, places)?;
    let mut text = String::new();
    for (hook, status) in &list {
        let line = match status {
            Status::Active { file, chained, current } => {
                let chained = if *chained { ", a hook that was there before runs first" } else { "" };
                let old = if *current { "" } else { ", of another version: git loop hooks install" };
                let each = places.relative_to_worktrees().map_or_else(String::new, |(relative, _)| {
                    let relative = relative.display();
                    format!("; in every work tree that is there, but core.hooksPath = {relative} is relative: where that folder is missing git runs no hook")
                });
                format!("{} ({}{chained}{old}){each}", paint.tone(Tone::Good, "active"), file.display())
            }
            Status::NotInstalled { unblock, .. } => {
                format!("{}: {unblock}", paint.tone(Tone::Warn, "not installed"))
            }
            Status::NotEffective { file, why, unblock } => {
                format!("{} ({}): {why}; {unblock}", paint.tone(Tone::Bad, "not in force"), file.display())
            }
            Status::BinaryMissing { file, binary } => format!(
                "{} ({}): the program is not at {}; nothing passes until `git loop hooks install`",
                paint.tone(Tone::Bad, "program missing"),
                file.display(),
                binary.display()
            ),
        };
        let _ = writeln!(text, "{} {line}", hook.as_str());
    }
    let json: Vec<_> = list.iter().map(|(hook, status)| json!({ "hook": hook, "status": status })).collect();
    Ok(Reply::text(text).field("hooks", json))
}

fn places(context: &Context, repo: &Repo) -> Result<Places> {
    use crate::git::Scope as From;
    let hooks_path = match repo.config().entry("core.hooksPath") {
        None => None,
        Some(entry) => {
            let value = entry.value.as_ref().map(|value| value.as_slice()).unwrap_or_default();
            // Only a tilde is resolved: where a relative path leads to depends on where git runs.
            let plain = || PathBuf::from(String::from_utf8_lossy(value).as_ref());
            let value = if value.starts_with(b"~") {
                repo.config().expand(value).unwrap_or_else(plain)
            } else {
                plain()
            };
            let scope = match entry.scope {
                From::System => Scope::System,
                From::Global => Scope::Global,
                From::Local => Scope::Local,
                From::Worktree => Scope::Worktree,
                From::Command => Scope::Command,
            };
            Some(HooksPath { value, scope })
        }
    };
    Ok(Places {
        common_dir: repo.common_dir().to_path_buf(),
        worktree_top: repo.worktree_root().map(ToOwned::to_owned),
        worktrees: worktrees(repo),
        hooks_path,
        binary: std::env::current_exe().or_internal(|| "the running program cannot be found".to_owned())?,
        search_path: context.host.var("PATH").map(ToOwned::to_owned),
    })
}

/// The top folders of the work trees that are there: the main one and the linked ones.
fn worktrees(repo: &Repo) -> Vec<PathBuf> {
    let gix = repo.gix();
    let main = gix.main_repo().ok().and_then(|main| main.workdir().map(ToOwned::to_owned));
    let linked = gix.worktrees().unwrap_or_default();
    let linked = linked.into_iter().filter_map(|worktree| worktree.base().ok());
    main.into_iter().chain(linked).filter(|top| top.is_dir()).collect()
}
