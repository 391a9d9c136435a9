//! What runners that have ended left on this machine: found, counted and removed. Only what is certainly ours and certainly
//! nobody's any more is touched: worktrees by their owner files, everything else under the lock of its loop, looked at again once
//! that is held.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::output::{self, OUTPUT};
use super::places::{NOTE, SCRATCH, is_environment};
use crate::at::At;
use crate::error::{Error, Result, ResultExt};
use crate::git::{LoopId, LoopLock, Repo};
use crate::ledger::glance::glance;
use crate::ledger::state::Phase;
use crate::ledger::trust::TrustRoot;
use crate::worktree::{self, NAME_PREFIX};

/// One thing that was left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// `container`, `worktree`, `folder`, `warm`, `checkout`, `waypoint`, `lock`, `journal` or `output`.
    pub kind: &'static str,
    /// Its name: of a worktree as git lists it, else of the file or folder.
    pub name: String,
    /// What it takes on the disk, in bytes; 0 if that was not asked for.
    pub bytes: u64,
}

/// What was done about what was left.
#[derive(Debug, Default)]
pub struct Swept {
    /// Removed, or to be removed.
    pub removed: Vec<Leftover>,
    /// Left alone: name and why.
    pub kept: Vec<(String, String)>,
    /// What could not be removed: name and why.
    pub failed: Vec<(String, String)>,
}

/// How to sweep.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sweep<'a> {
    /// The loop whose lock the caller holds.
    pub mine: Option<&'a LoopId>,
    /// Remove nothing.
    pub dry_run: bool,
    /// Count bytes.
    pub measure: bool,
}

/// Sweeps the folder of worktrees: worktrees with their registrations, and the folders of steps. Before that the containers that
/// may still write in them are ended.
pub fn sweep_worktrees(repo: &Repo, worktrees: &Path, how: Sweep<'_>) -> Result<Swept> {
    let mut swept = Swept::default();
    sweep_containers(repo, how, &mut swept)?;
    // Counted before, as nothing is there to be counted after.
    let sizes = |name: &str| if how.measure { size_of(&worktrees.join(name)) } else { 0 };
    let seen: Vec<(String, u64)> = if how.measure {
        worktree::reclaim(repo.gix(), worktrees, true)?
            .removed
            .into_iter()
            .map(|name| (name.clone(), sizes(&name)))
            .collect()
    } else {
        Vec::new()
    };
    let reclaimed = worktree::reclaim(repo.gix(), worktrees, how.dry_run)?;
    for name in reclaimed.removed {
        let bytes = seen.iter().find(|(known, _)| *known == name).map_or(0, |(_, bytes)| *bytes);
        swept.removed.push(Leftover { kind: "worktree", name, bytes });
    }
    swept.kept.extend(reclaimed.kept.into_iter().map(|(name, why)| (name, why.to_owned())));
    swept.failed.extend(reclaimed.failed);
    // Scratch folders look like worktrees without an owner file; they are judged below.
    swept.kept.retain(|(name, _)| !name.ends_with(SCRATCH));
    for name in names(worktrees)? {
        // A waypoint that was never finished; nobody takes a minute to write one.
        if name.starts_with(".verified-") && is_old(&worktrees.join(&name)) {
            remove("waypoint", worktrees, &name, how, &mut swept);
            continue;
        }
        let Some(id) = loop_of_scratch(&name).or_else(|| loop_of_unfinished(&name)) else { continue };
        with_lock(repo, &id, how, &name, &mut swept, |swept| {
            remove("folder", worktrees, &name, how, swept);
        });
    }
    Ok(swept)
}

/// Ends the containers that dead runners left: those that their notes name, and nobody else's.
fn sweep_containers(repo: &Repo, how: Sweep<'_>, swept: &mut Swept) -> Result<()> {
    let loops = repo.common_dir().join("loops");
    for folder in names(&loops)? {
        let Ok(id) = folder.parse::<LoopId>() else { continue };
        for name in names(&loops.join(&folder))? {
            let Some(container) = name.strip_suffix(NOTE) else { continue };
            let note = loops.join(&folder).join(&name);
            with_lock(repo, &id, how, container, swept, |swept| {
                // Whoever had the lock before us may have ended it.
                if !note.exists() {
                    return;
                }
                match if how.dry_run { Ok(()) } else { end_noted(&note) } {
                    Ok(()) => {
                        swept.removed.push(Leftover {
                            kind: "container",
                            name: container.to_owned(),
                            bytes: 0,
                        });
                    }
                    Err(why) => swept.failed.push((container.to_owned(), why)),
                }
            });
        }
    }
    Ok(())
}

#[cfg(unix)]
fn end_noted(note: &Path) -> std::result::Result<(), String> {
    crate::sandbox::end_noted(note)
}

#[cfg(not(unix))]
fn end_noted(_note: &Path) -> std::result::Result<(), String> {
    Err("containers are not supported on this system".to_owned())
}

/// Sweeps everything: besides [`sweep_worktrees`] warm and included files of loops that are over or not here, checkouts of bases
/// that nobody uses, locks of refs, tokens of locks, what killed steps had printed once that is old, and
/// the cost journals of loops that are not here.
pub fn sweep(repo: &Repo, worktrees: &Path, trust: &TrustRoot, dry_run: bool) -> Result<Swept> {
    let how = Sweep { mine: None, dry_run, measure: true };
    let mut swept = sweep_worktrees(repo, worktrees, how)?;
    for name in names(worktrees)? {
        let Some(id) = loop_of_warm(&name) else { continue };
        if is_needed(repo, &id, trust) {
            swept.kept.push((name, format!("loop {id} goes on with it")));
            continue;
        }
        with_lock(repo, &id, how, &name, &mut swept, |swept| remove("warm", worktrees, &name, how, swept));
    }
    for layer in worktree::reclaim_layers(worktrees, dry_run)? {
        swept.removed.push(Leftover { kind: "checkout", name: layer.tree, bytes: layer.bytes });
    }
    for path in repo.left_over_locks(dry_run)? {
        let name = path.strip_prefix(repo.common_dir()).unwrap_or(&path).display().to_string();
        swept.removed.push(Leftover { kind: "lock", name, bytes: 0 });
    }
    for name in names(worktrees)? {
        // Where a ledger was verified up to: of a loop that is not here it is of no use to anybody.
        let Some(id) = name.strip_suffix(".verified").and_then(|id| id.parse::<LoopId>().ok()) else {
            continue;
        };
        if matches!(repo.read_ref(id.refs().ledger().as_ref()), Ok(None)) {
            remove("waypoint", worktrees, &name, how, &mut swept);
        }
    }
    let loops = repo.common_dir().join("loops");
    for folder in names(&loops)? {
        let Ok(id) = folder.parse::<LoopId>() else { continue };
        let place = loops.join(&folder);
        let is_gone = matches!(repo.read_ref(id.refs().ledger().as_ref()), Ok(None));
        sweep_output(repo, &id, is_gone, how, &mut swept);
        for name in names(&place)? {
            // A loop that is here forgets its own when it goes on.
            if is_gone && is_journal(&name) {
                with_lock(repo, &id, how, &name, &mut swept, |swept| {
                    remove("journal", &place, &name, how, swept);
                });
            }
        }
    }
    Ok(swept)
}

/// How long it is kept what a killed step had printed.
pub const OUTPUT_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Removes what steps of killed runners had printed: what is old, and all of a loop that is not here. What may still be read is listed.
fn sweep_output(repo: &Repo, id: &LoopId, is_gone: bool, how: Sweep<'_>, swept: &mut Swept) {
    let loops = repo.common_dir().join("loops");
    let named = |name: String| format!("{id}/{OUTPUT}/{name}");
    let found = output::look(repo.common_dir(), id);
    for kept in found.kept {
        let name = named(kept.name());
        let is_old = kept.at.is_some_and(|at| at.elapsed().is_ok_and(|age| age > OUTPUT_AGE));
        if is_gone || is_old {
            with_lock(repo, id, how, &name, swept, |swept| remove("output", &loops, &name, how, swept));
        } else {
            let why = format!(
                "what {} of loop {id} had printed when its runner ended; it goes after {} days",
                kept.what(),
                OUTPUT_AGE.as_secs() / (24 * 60 * 60)
            );
            swept.kept.push((name, why));
        }
    }
    // A loop that is here puts its own aside when it goes on.
    for path in found.live.iter().filter(|_| is_gone) {
        let name = named(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        with_lock(repo, id, how, &name, swept, |swept| remove("output", &loops, &name, how, swept));
    }
}

/// Does `act` under the lock of a loop, or says who has it.
fn with_lock(
    repo: &Repo,
    id: &LoopId,
    how: Sweep<'_>,
    name: &str,
    swept: &mut Swept,
    act: impl FnOnce(&mut Swept),
) {
    if how.mine == Some(id) {
        return act(swept);
    }
    let lock = if how.dry_run {
        // Nothing is made, not even the file of a lock.
        LoopLock::holder(repo.common_dir(), id).map(|holder| holder.is_none().then_some(None))
    } else {
        LoopLock::borrow(repo.common_dir(), id).map(|lock| lock.map(Some))
    };
    match lock {
        Ok(Some(_lock)) => act(swept),
        Ok(None) => swept.kept.push((name.to_owned(), format!("loop {id} is being run"))),
        Err(error) => swept.failed.push((name.to_owned(), Error::from(error).chain())),
    }
}

fn remove(kind: &'static str, folder: &Path, name: &str, how: Sweep<'_>, swept: &mut Swept) {
    let path = folder.join(name);
    // Whoever had the lock before us may have removed it.
    if path.symlink_metadata().is_err() {
        return;
    }
    let bytes = if how.measure { size_of(&path) } else { 0 };
    match if how.dry_run { Ok(()) } else { worktree::remove_all(&path) } {
        Ok(()) => swept.removed.push(Leftover { kind, name: name.to_owned(), bytes }),
        Err(error) => swept.failed.push((name.to_owned(), Error::from(error).chain())),
    }
}

/// Whether a file of a loop's folder is the note of what an environment has cost, finished or not.
pub(super) fn is_journal(name: &str) -> bool {
    let name = name.strip_suffix(".new").unwrap_or(name);
    Path::new(name).extension().is_some_and(|end| end == "cost")
}

/// Whether a loop may go on. One that cannot be read is nothing to decide by.
fn is_needed(repo: &Repo, id: &LoopId, trust: &TrustRoot) -> bool {
    match repo.read_ref(id.refs().ledger().as_ref()) {
        Ok(None) => false,
        Ok(Some(tip)) => {
            glance(repo, id, tip, trust, At::now()).map_or(true, |seen| seen.state.phase != Phase::Halted)
        }
        Err(_) => true,
    }
}

/// The loop of `loop-<id>-<environment>.tmp`.
fn loop_of_scratch(name: &str) -> Option<LoopId> {
    let rest = name.strip_prefix(NAME_PREFIX)?.strip_suffix(SCRATCH)?;
    // Ids may hold dashes, and so do the names of a check's environments: the first cut that fits is the longest environment.
    rest.match_indices('-')
        .find(|(at, _)| is_environment(&rest[at + 1..]))
        .and_then(|(at, _)| rest[..at].parse().ok())
}

/// The loop of `<id>-<hash>.warm` and `<id>-<hash>.include`.
fn loop_of_warm(name: &str) -> Option<LoopId> {
    let (id, hash) =
        name.strip_suffix(".warm").or_else(|| name.strip_suffix(".include"))?.rsplit_once('-')?;
    (hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.parse().ok())?
}

/// The loop of `<id>-<hash>.new`, a warm layer that was never finished.
fn loop_of_unfinished(name: &str) -> Option<LoopId> {
    loop_of_warm(&format!("{}.warm", name.strip_suffix(".new")?))
}

/// The names in a folder, sorted; a folder that is missing has none.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.or_workspace(|| format!("{} cannot be read", folder.display()))?,
    };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Ok(names)
}

fn is_old(path: &Path) -> bool {
    const MINUTE: Duration = Duration::from_secs(60);
    let modified = path.symlink_metadata().and_then(|meta| meta.modified());
    modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > MINUTE))
}

/// What a file or folder holds, in bytes. No link is followed, and what cannot be looked at counts nothing.
fn size_of(path: &Path) -> u64 {
    let mut open: Vec<PathBuf> = vec![path.to_owned()];
    let mut bytes = 0_u64;
    while let Some(path) = open.pop() {
        match path.symlink_metadata() {
            Ok(meta) if meta.is_dir() => {
                open.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
            }
            Ok(meta) => bytes = bytes.saturating_add(meta.len()),
            Err(_) => {}
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::{loop_of_scratch, loop_of_unfinished, loop_of_warm};

    #[test]
    fn a_name_says_whose_it_is() {
        let scratch = |name: &str| loop_of_scratch(name).map(|id| id.to_string());
        let of = |id: &str| Some(id.to_owned());
        assert_eq!(scratch("loop-fix-0123456789abcdef.tmp"), of("fix"));
        assert_eq!(scratch("loop-fix-2-0123456789abcdef-check.tmp"), of("fix-2"));
        assert_eq!(scratch("loop-fix-0123456789abcdef-check-3.tmp"), of("fix"));
        assert_eq!(scratch("loop-fix-baseline-check.tmp"), of("fix"));
        for other in
            ["loop-fix.tmp", "loop-fix-0123.tmp", "fix-0123456789abcdef.tmp", "loop-fix-0123456789abcdef"]
        {
            assert_eq!(scratch(other), None, "{other}");
        }
        assert_eq!(loop_of_warm("a-b-0123456789abcdef.warm").map(|id| id.to_string()), of("a-b"));
        assert_eq!(loop_of_warm("a-b-0123456789abcdef.include").map(|id| id.to_string()), of("a-b"));
        assert_eq!(loop_of_unfinished("a-0123456789abcdef.new").map(|id| id.to_string()), of("a"));
        assert_eq!(loop_of_warm("a-0123456789abcdeg.warm"), None);
    }
}
