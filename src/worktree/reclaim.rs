//! What dead processes left behind. Only our own is touched, and only if its process is certainly gone.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gix::bstr::ByteSlice;

use super::error::{WorktreeError, to_path};
use super::owner::{Life, Owner, OwnerFile, owner_path};
use super::registration::{NAME_PREFIX, WORK, real, remove_parts, remove_registration};

/// What [`reclaim`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reclaimed {
    /// Names of worktrees that were removed (or would be).
    pub removed: Vec<String>,
    /// Names that stay, and why.
    pub kept: Vec<(String, &'static str)>,
    /// Names that could not be removed, and the error.
    pub failed: Vec<(String, String)>,
}

/// Removes the worktrees in `folder`, and registrations of `repo`, whose process has ended. `folder` is the one that
/// [`worktree_folder`](super::worktree_folder) names for this repository. With `dry_run` nothing is removed.
///
/// Paths are built from names alone. What a registration says about its folder is not believed: a worker may have
/// written it.
pub fn reclaim(repo: &gix::Repository, folder: &Path, dry_run: bool) -> Result<Reclaimed, WorktreeError> {
    let registrations = real(repo.common_dir())?.join("worktrees");
    let folder = real(folder)?;
    let mut done = Reclaimed::default();

    // Those with an owner file: its lock decides, and is held while the rest goes.
    let mut vouched = Vec::new();
    for file in names(&folder)? {
        let Some(name) = file.strip_suffix(".owner").filter(|name| name.starts_with(NAME_PREFIX)) else {
            continue;
        };
        vouched.push(name.to_owned());
        match OwnerFile::take_over(&folder.join(&file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => done.failed.push((name.to_owned(), error.to_string())),
            Ok(Err(why)) => done.kept.push((name.to_owned(), why)),
            Ok(Ok(_)) if dry_run => done.removed.push(name.to_owned()),
            Ok(Ok(owner)) => {
                let gone = remove_parts(&folder.join(name), &registrations.join(name), owner);
                done.note(name, gone);
            }
        }
    }

    // Registrations without one: somebody emptied the cache, or it lies elsewhere now.
    for name in names(&registrations)? {
        if !name.starts_with(NAME_PREFIX) || vouched.contains(&name) {
            continue;
        }
        let admin = registrations.join(&name);
        let Some(owner) =
            fs::read_to_string(admin.join("locked")).ok().and_then(|reason| Owner::parse(&reason))
        else {
            // Whoever made it, it carries no lock of ours; unless a loss of power took what was written.
            if is_hollow(&admin, &folder) && !owner_path(&folder.join(&name)).exists() {
                if dry_run {
                    done.removed.push(name);
                } else {
                    done.note(&name, remove_registration(&admin));
                }
            }
            continue;
        };
        if let Some(elsewhere) = place_of(&admin).filter(|place| owner_path(place).exists())
            && elsewhere.parent() != Some(&folder)
        {
            done.kept.push((name, "its folder lies elsewhere"));
            continue;
        }
        match owner.life() {
            Life::Dead if dry_run => done.removed.push(name),
            Life::Dead => done.note(&name, remove_registration(&admin)),
            Life::Alive => done.kept.push((name, "its process runs")),
            Life::Unknown => done.kept.push((name, "it may belong to a process on another machine")),
        }
    }

    // A loss of power may have taken the last registration and left the folder; git removes it with the last one.
    if !dry_run {
        let _ = fs::remove_dir(&registrations);
    }

    // A folder that nothing vouches for may be anybody's.
    for name in names(&folder)? {
        if name.starts_with(NAME_PREFIX)
            && ![".owner", WORK].iter().any(|end| name.ends_with(end))
            && !vouched.contains(&name)
            && !owner_path(&folder.join(&name)).exists()
            && folder.join(&name).is_dir()
        {
            done.kept.push((name, "its owner file is missing"));
        }
    }
    Ok(done)
}

/// Whether a registration is one of ours whose files lost their content, or never came to be. One that somebody is about
/// to fill is not that old.
fn is_hollow(admin: &Path, folder: &Path) -> bool {
    const OLD: Duration = Duration::from_secs(60);
    let empty = |name: &str| fs::metadata(admin.join(name)).map_or(true, |meta| meta.len() == 0);
    let old = fs::metadata(admin)
        .and_then(|meta| meta.modified())
        .is_ok_and(|at| at.elapsed().is_ok_and(|age| age > OLD));
    let was_ours = empty("gitdir") || place_of(admin).is_some_and(|place| place.parent() == Some(folder));
    old && empty("locked") && was_ours
}

impl Reclaimed {
    fn note(&mut self, name: &str, result: Result<(), WorktreeError>) {
        match result {
            Ok(()) => self.removed.push(name.to_owned()),
            Err(error) => self.failed.push((name.to_owned(), crate::error::Error::from(error).chain())),
        }
    }
}

/// Where a registration says that its folder is; only used to leave it alone.
fn place_of(admin: &Path) -> Option<PathBuf> {
    let text = fs::read(admin.join("gitdir")).ok()?;
    let path = to_path(text.trim_ascii_end().as_bstr());
    (path.file_name() == Some(OsStr::new(".git"))).then(|| path.parent().map(Path::to_owned)).flatten()
}

/// The names in a folder, sorted; those that are not UTF-8 are not ours. A missing folder has none.
fn names(folder: &Path) -> Result<Vec<String>, WorktreeError> {
    let fail = || WorktreeError::io("read the folder", folder);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(fail())?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(fail())?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}
