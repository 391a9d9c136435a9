//! What whoever starts a loop should know before it runs, and what no contract can say: what is missing on this machine,
//! what is not in the base. Nothing here refuses anything, and nothing that configuration names is run.

use std::collections::BTreeMap;
use std::path::Path;

use gix::bstr::{BString, ByteSlice};
use gix::index::entry::{Flags, Mode};

use super::preflight::{missing_presets, missing_programs};
use super::session::strongest_adapter;
use super::start::history_needs;
use crate::contract::Contract;
use crate::contract::file::Adapter;
use crate::error::{Error, Result, ResultExt};
use crate::escape::escape_path;
use crate::git::{GitCommand, Repo};
use crate::guard::PathSet;
use crate::host::HostEnv;
use crate::ledger::observe::blob_id;
use crate::setup::litter;

/// The most paths that one message lists.
const LISTED: usize = 3;

/// Everything, each as one message. `terms` is the file that the terms were read from: that it is not committed is no
/// matter.
pub fn advice(repo: &Repo, host: &HostEnv, contract: &Contract, terms: &Path) -> Result<Vec<String>> {
    let mut list: Vec<String> = history_needs(contract).into_iter().collect();
    for preset in missing_presets(host, contract) {
        list.push(format!("the tools of the preset {preset} are not found on this machine"));
    }
    let changed = uncommitted(repo, contract, terms)?;
    if let Some((first, rest)) = named(&changed) {
        list.push(format!(
            "the loop starts from the commit {}; what you have not committed is not in it: {first}{rest}",
            contract.base.commit.short(),
        ));
    }
    let (mutable, check) = (&contract.paths.mutable, &contract.paths.check);
    let litter = litter::of_tree(repo, contract.base.tree.0, mutable, check, &contract.worktree.warm)?;
    if let Some((first, rest)) = named(&litter) {
        list.push(format!("{first}{rest}: {}", litter::ADVICE));
    }
    Ok(list)
}

/// Why `git loop run` would stop on this machine before it pays a worker, each as one message.
pub fn obstacles(repo: &Repo, host: &HostEnv, contract: &Contract) -> Vec<String> {
    // Nothing of a loop whose check runs elsewhere is run here.
    if contract.check.external {
        return Vec::new();
    }
    let (programs, sandbox) = match strongest_adapter(repo, contract) {
        // In an image nothing can be looked for from outside.
        Ok(adapter) if adapter.has_image() => (Vec::new(), None),
        Ok(_) => (missing_programs(repo, host, contract), None),
        Err(error) => (missing_programs(repo, host, contract), Some(error)),
    };
    sandbox.into_iter().chain(programs).map(|error| would_stop(&error)).collect()
}

/// The same as far as it can be seen at a glance: no sandbox is tried, and nothing is started.
pub fn obstacles_in_sight(repo: &Repo, host: &HostEnv, contract: &Contract) -> Vec<String> {
    let in_image = |adapter: &Adapter| adapter.built().is_some_and(crate::sandbox::Adapter::has_image);
    if contract.sandbox.allowed.iter().any(in_image) {
        return Vec::new();
    }
    missing_programs(repo, host, contract).iter().map(would_stop).collect()
}

/// What is told of an error that a run would end with.
pub fn would_stop(error: &Error) -> String {
    format!("`git loop run` would stop here: {}", with_hint(error))
}

fn with_hint(error: &Error) -> String {
    let hint = error.hints().last().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{}{hint}", error.chain())
}

/// The first paths and how many more there are; nothing if there are none.
fn named(paths: &[BString]) -> Option<(String, String)> {
    let shown: Vec<String> = paths.iter().take(LISTED).map(|path| escape_path(path.as_bstr())).collect();
    let more = paths.len().saturating_sub(LISTED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!shown.is_empty()).then(|| (shown.join(", "), rest))
}

/// The blobs of a tree by path.
type Files = BTreeMap<BString, gix::ObjectId>;

/// The paths of the work tree that are neither as in `HEAD` nor as in the base: changed, staged, deleted, or new where the contract
/// looks, and not ignored.
///
/// Content is compared without filters, as they are programs: a file that a filter or a line-end conversion changes may
/// be listed although git would not, if its time differs from what the index knows.
fn uncommitted(repo: &Repo, contract: &Contract, terms: &Path) -> Result<Vec<BString>> {
    let Some(root) = repo.worktree_root() else { return Ok(Vec::new()) };
    let unreadable = || "the index cannot be read".to_owned();
    let index = repo.gix().index_or_empty().or_workspace(unreadable)?;
    let files = |tree| {
        let tree = repo.list_tree_recursive(tree).or_workspace(|| "the tree cannot be read".to_owned())?;
        Ok::<Files, Error>(tree.into_iter().map(|entry| (entry.path, entry.id)).collect())
    };
    let base = files(contract.base.tree.0)?;
    // What is committed but not in an older base is left out on purpose.
    let mut head = match repo.gix().head_id() {
        Ok(head) if head != contract.base.commit.0 => {
            files(repo.commit_tree(head.detach()).or_workspace(|| "HEAD cannot be read".to_owned())?)?
        }
        _ => base.clone(),
    };
    let mut changed = Vec::new();
    for entry in index.entries() {
        let path = entry.path(&index);
        // A sparse index stands for what it does not list.
        if entry.mode == Mode::DIR {
            let kept = |known: &BString| !known.starts_with(path.as_bytes());
            head.retain(|known, _| kept(known));
            continue;
        }
        let committed = head.remove(path) == Some(entry.id) || base.get(path) == Some(&entry.id);
        let untouched = entry.mode == Mode::COMMIT || entry.flags.contains(Flags::SKIP_WORKTREE) || {
            gix::path::from_bstr(path).is_ok_and(|path| is_as_staged(repo, &root.join(path), entry))
        };
        if !committed || !untouched {
            changed.push(path.to_owned());
        }
    }
    changed.extend(head.into_keys().filter(|path| base.contains_key(path)));
    let listed =
        GitCommand::in_repo(repo)?.args(["ls-files", "--others", "--exclude-standard", "-z"]).run()?;
    // A new file matters where the worker may write or the check looks; what else lies about is nobody's business.
    let sets = [&contract.paths.mutable, &contract.paths.check].map(|list| PathSet::parse(list).ok());
    let matters =
        |path: &&[u8]| sets.iter().flatten().any(|set| !path.is_empty() && set.matches(path.as_bstr()));
    changed.extend(listed.stdout.split_str("\0").filter(matters).map(BString::from));
    let terms =
        terms.strip_prefix(root).ok().and_then(|path| Some(gix::path::into_bstr(path).ok()?.into_owned()));
    changed.retain(|path| Some(path) != terms.as_ref());
    changed.sort();
    changed.dedup();
    Ok(changed)
}

/// Whether a file is what the index has of it, by its time and length, else by its bytes.
fn is_as_staged(repo: &Repo, file: &Path, entry: &gix::index::Entry) -> bool {
    let Ok(meta) = gix::index::fs::Metadata::from_path_no_follow(file) else { return false };
    if u64::from(entry.stat.size) != meta.len() & u64::from(u32::MAX) {
        return false;
    }
    let same_time = gix::index::entry::Stat::from_fs(&meta).is_ok_and(|now| now.mtime == entry.stat.mtime);
    if same_time {
        return true;
    }
    let bytes = if meta.is_symlink() {
        let target = std::fs::read_link(file).ok();
        target.and_then(|target| Some(Vec::from(gix::path::into_bstr(target).ok()?.into_owned())))
    } else {
        std::fs::read(file).ok()
    };
    bytes.is_some_and(|bytes| blob_id(repo.hash_kind(), &bytes).0 == entry.id)
}
