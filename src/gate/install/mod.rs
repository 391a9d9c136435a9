//! Puts the hook scripts where git looks for hooks, beside what is there, and says whether they are in force.
//!
//! git takes hooks from `core.hooksPath`, else from `hooks` of the git folder that all worktrees share. Nothing is
//! installed where it would be in force only sometimes, or in a file that others own:
//!
//! | where git looks | what happens |
//! | --- | --- |
//! | no `core.hooksPath` | the shared `hooks` folder, also from a linked worktree |
//! | an absolute path, set for this repository | that folder |
//! | a relative path | refused: git resolves it in each worktree anew, so it is silently off where the folder is missing. The status is that of a line in such a hook, in every work tree |
//! | a folder inside the work tree (`.husky`, …) | refused: tracked files are the project's; the line to add is told |
//! | set for one worktree, for the user, the system or one command | refused: it holds for more or for less than this repository |
//!
//! A hook that is there is renamed to `<hook>.git-loop-chained`, so mode, symlink and bytes stay, and ours runs it. A
//! hook that asks `$0` for its own name gets the new one.

mod files;
mod places;
#[cfg(all(test, unix))]
mod tests;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::shim::{HookName, installed_binary};
use crate::error::Error;
use files::{
    Found, called_from, calls_the_gate, exists, is_executable, is_script_of_ours, manager_note, os_path,
    put_aside, write_script,
};
use places::Effective;

/// Which hooks belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A clone that pushes.
    Client,
    /// A repository that receives.
    Server,
}

impl Kind {
    /// The hooks. `pre-receive` judges whole pushes, so `update` is left to hosts that run nothing else.
    pub fn hooks(self) -> &'static [HookName] {
        match self {
            Self::Client => &[HookName::PrePush],
            Self::Server => &[HookName::PreReceive],
        }
    }
}

/// Where a value of the configuration was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// For the machine.
    System,
    /// For the user.
    Global,
    /// For this repository.
    Local,
    /// For one worktree.
    Worktree,
    /// For one command: `-c`, `GIT_CONFIG_COUNT`.
    Command,
}

impl Scope {
    fn described(self) -> &'static str {
        match self {
            Self::System => "for the whole machine",
            Self::Global => "for all repositories of the user",
            Self::Local => "for this repository",
            Self::Worktree => "for one worktree only",
            Self::Command => "for one command only",
        }
    }
}

/// `core.hooksPath`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HooksPath {
    /// The value, with a leading `~` already resolved.
    pub value: PathBuf,
    /// Where it was set.
    pub scope: Scope,
}

/// What the installer has to know of a repository and the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The git folder that all worktrees share, absolute.
    pub common_dir: PathBuf,
    /// The top folder of the work tree, absolute; none in a bare repository.
    pub worktree_top: Option<PathBuf>,
    /// The top folders of all work trees that are there, this one's too.
    pub worktrees: Vec<PathBuf>,
    /// `core.hooksPath`, if it is set. An empty value is set: git then runs no hook.
    pub hooks_path: Option<HooksPath>,
    /// This program, absolute; the scripts use it where `git-loop` is not on `PATH`.
    pub binary: PathBuf,
    /// `PATH`.
    pub search_path: Option<OsString>,
}

/// What was done for one hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Done {
    /// The hook.
    pub hook: HookName,
    /// Its file.
    pub file: PathBuf,
    /// What happened.
    pub action: Action,
    /// Whether a hook that was there before is chained.
    pub chained: bool,
    /// What the user should know: another tool that writes this file, and how to live with it.
    pub notes: Vec<String>,
}

/// What happened to a hook's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The script was put there.
    Installed,
    /// A script of ours was replaced by this version.
    Updated,
    /// Nothing had to be done.
    Unchanged,
    /// The script was removed, and what was there before is back.
    Removed,
}

/// Whether a hook is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Status {
    /// git runs it, and it finds the program.
    Active {
        /// Its file.
        file: PathBuf,
        /// Whether a hook that was there before is chained.
        chained: bool,
        /// Whether it is the script that this version would write.
        current: bool,
    },
    /// There is no script of ours where git looks.
    NotInstalled {
        /// Where it would be.
        file: PathBuf,
        /// What to do.
        unblock: String,
    },
    /// There is a script of ours, or a line that calls the gate, but git does not run it everywhere.
    NotEffective {
        /// Its file.
        file: PathBuf,
        /// Why it is not in force.
        why: String,
        /// What to do.
        unblock: String,
    },
    /// git runs it, but the program is gone: nothing passes.
    BinaryMissing {
        /// Its file.
        file: PathBuf,
        /// Where the program was.
        binary: PathBuf,
    },
}

/// Why a hook was not installed or removed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// git looks for hooks where ours would not always be in force, or in files of others.
    #[error("the {} hook is not installed: {why}", hook.as_str())]
    Unfit {
        /// The hook.
        hook: HookName,
        /// Why.
        why: String,
        /// What to do instead.
        unblock: String,
    },
    /// There is a hook that cannot be put aside.
    #[error("{} is there and cannot be chained: {why}", file.display())]
    HookExists {
        /// The file.
        file: PathBuf,
        /// Why.
        why: String,
        /// What to do.
        unblock: String,
    },
    /// A path cannot be written into a script.
    #[error("the path of the program cannot be written into a script: {}", .0.display())]
    Binary(PathBuf),
    /// A file cannot be read, written or renamed.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was being done.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl From<InstallError> for Error {
    fn from(error: InstallError) -> Self {
        let message = error.to_string();
        match error {
            InstallError::Unfit { unblock, .. } | InstallError::HookExists { unblock, .. } => {
                Self::workspace(message).hint(unblock)
            }
            InstallError::Binary(_) => {
                Self::workspace(message).hint("move the program to a path of plain characters")
            }
            InstallError::Io { source, .. } => {
                Self::workspace(message).caused_by(source).hint("check who may write there")
            }
        }
    }
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> InstallError {
    let path = path.to_owned();
    move |source| InstallError::Io { what, path, source }
}

/// Installs the hooks of `kind`. Doing it again changes nothing.
pub fn install(kind: Kind, places: &Places) -> Result<Vec<Done>, InstallError> {
    kind.hooks().iter().map(|hook| install_hook(*hook, places)).collect()
}

/// Installs one hook.
pub fn install_hook(hook: HookName, places: &Places) -> Result<Done, InstallError> {
    let Effective { dir, unfit } = places.effective(hook);
    if let Some((why, unblock)) = unfit {
        return Err(InstallError::Unfit { hook, why, unblock });
    }
    let script = hook.script(&places.binary).ok_or_else(|| InstallError::Binary(places.binary.clone()))?;
    fs::create_dir_all(&dir).map_err(io_error("create", &dir))?;
    let (file, chained) = (dir.join(hook.as_str()), dir.join(hook.chained()));
    let found = Found::at(&file)?;
    let mut notes = Vec::new();
    let action = match &found {
        Found::Ours(content) if *content == script && is_executable(&file) => Action::Unchanged,
        Found::Ours(_) => Action::Updated,
        Found::Nothing => Action::Installed,
        Found::Other(content) => {
            put_aside(&file, &chained, content.as_deref())?;
            notes.extend(manager_note(hook, content.as_deref()));
            Action::Installed
        }
    };
    if action != Action::Unchanged {
        write_script(&dir, &file, &script)?;
    }
    Ok(Done { hook, chained: exists(&chained), file, action, notes })
}

/// Removes the hooks of `kind` and brings back what was there before. `None` for a hook that was not installed.
pub fn uninstall(kind: Kind, places: &Places) -> Result<Vec<Option<Done>>, InstallError> {
    kind.hooks().iter().map(|hook| uninstall_hook(*hook, places)).collect()
}

/// Removes one hook.
pub fn uninstall_hook(hook: HookName, places: &Places) -> Result<Option<Done>, InstallError> {
    // What was installed before core.hooksPath was set lies in the shared folder.
    let dirs = [places.effective(hook).dir, places.common_dir.join("hooks")];
    let Some(dir) = dirs
        .iter()
        .find(|dir| is_script_of_ours(&dir.join(hook.as_str())) || exists(&dir.join(hook.chained())))
    else {
        return Ok(None);
    };
    let (file, chained) = (dir.join(hook.as_str()), dir.join(hook.chained()));
    if let Found::Other(_) = Found::at(&file)? {
        return Err(InstallError::HookExists {
            why: format!("it is not ours, and {} is what it replaced", chained.display()),
            unblock: format!("keep one of the two as {}, then delete the other", file.display()),
            file,
        });
    }
    let had = exists(&chained);
    if had {
        // A rename replaces ours in one step, so there is no moment without a hook.
        fs::rename(&chained, &file).map_err(io_error("bring back", &file))?;
    } else {
        fs::remove_file(&file).map_err(io_error("remove", &file))?;
    }
    Ok(Some(Done { hook, file, action: Action::Removed, chained: had, notes: Vec::new() }))
}

/// Says for each hook of `kind` whether it is in force.
pub fn status(kind: Kind, places: &Places) -> Result<Vec<(HookName, Status)>, InstallError> {
    kind.hooks().iter().map(|hook| Ok((*hook, status_hook(*hook, places)?))).collect()
}

/// Says whether one hook is in force.
pub fn status_hook(hook: HookName, places: &Places) -> Result<Status, InstallError> {
    let Effective { dir, unfit } = places.effective(hook);
    let file = dir.join(hook.as_str());
    if let Some((relative, top)) = places.relative_to_worktrees()
        && let Some((_, unblock)) = unfit
    {
        return status_in_each(hook, places, relative, top, unblock);
    }
    let found = Found::at(&file)?;
    if let Some((why, unblock)) = unfit {
        let ours = matches!(found, Found::Ours(_)) || called_from(hook, &dir);
        return Ok(if ours {
            Status::NotEffective { file, why, unblock }
        } else {
            elsewhere(hook, places, file, &why, unblock)
        });
    }
    status_in(hook, places, &dir)
}

/// Where git takes hooks from a relative folder, each work tree has its own, and each has to be looked at.
fn status_in_each(
    hook: HookName,
    places: &Places,
    relative: &Path,
    here: &Path,
    unblock: String,
) -> Result<Status, InstallError> {
    let status = status_in(hook, places, &here.join(relative))?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for top in places.worktrees.iter().filter(|top| !files::same_place(top, here)) {
        let in_force = matches!(status_in(hook, places, &top.join(relative))?, Status::Active { .. });
        let list = if in_force { &mut with } else { &mut without };
        list.push(top.display().to_string());
    }
    let set = format!(
        "core.hooksPath = {} is relative, so each work tree has hooks of its own",
        relative.display()
    );
    Ok(match status {
        Status::Active { file, .. } if !without.is_empty() => Status::NotEffective {
            file,
            why: format!("{set}: git runs it here, but nothing asks the gate in {}", without.join(", ")),
            unblock: format!("bring {} there, or {unblock}", relative.join(hook.as_str()).display()),
        },
        Status::NotInstalled { file, .. } if !with.is_empty() => Status::NotEffective {
            file,
            why: format!("{set}: nothing asks the gate here, only in {}", with.join(", ")),
            unblock,
        },
        Status::NotInstalled { file, .. } => elsewhere(hook, places, file, &set, unblock),
        other => other,
    })
}

/// Whether the hook in `dir`, where git looks for it, asks the gate.
fn status_in(hook: HookName, places: &Places, dir: &Path) -> Result<Status, InstallError> {
    let file = dir.join(hook.as_str());
    match Found::at(&file)? {
        Found::Ours(script) => {
            if !is_executable(&file) {
                let unblock = format!("chmod +x {}", file.display());
                return Ok(Status::NotEffective {
                    file,
                    why: "it is not executable, so git does not run it".to_owned(),
                    unblock,
                });
            }
            let binary = installed_binary(&script).map(os_path).unwrap_or_default();
            if !places.on_search_path() && !is_executable(&binary) {
                return Ok(Status::BinaryMissing { file, binary });
            }
            let current = hook.script(&places.binary).is_some_and(|current| current == script);
            Ok(Status::Active { chained: exists(&dir.join(hook.chained())), current, file })
        }
        Found::Other(_) if exists(&dir.join(hook.chained())) => Ok(Status::NotEffective {
            why: "another tool has written over it".to_owned(),
            unblock: format!(
                "keep one of it and {}, then: git loop hooks install",
                dir.join(hook.chained()).display()
            ),
            file,
        }),
        Found::Other(Some(content)) if calls_the_gate(hook, &content) || called_from(hook, dir) => {
            // A line in a hook of somebody else does what ours does, if git runs it and it finds the program.
            if !is_executable(&file) {
                let unblock = format!("chmod +x {}", file.display());
                return Ok(Status::NotEffective {
                    file,
                    why: "it is not executable, so git does not run it".to_owned(),
                    unblock,
                });
            }
            if !places.on_search_path() {
                return Ok(Status::BinaryMissing { file, binary: PathBuf::from("git-loop") });
            }
            Ok(Status::Active { file, chained: false, current: true })
        }
        Found::Other(_) | Found::Nothing => {
            let why = "core.hooksPath makes git look elsewhere";
            let unblock = "git loop hooks install".to_owned();
            Ok(elsewhere(hook, places, file, why, unblock))
        }
    }
}

/// Nothing of ours is where git looks; but perhaps it is in the shared folder.
fn elsewhere(hook: HookName, places: &Places, file: PathBuf, why: &str, unblock: String) -> Status {
    let shared = places.common_dir.join("hooks").join(hook.as_str());
    if shared != file && is_script_of_ours(&shared) {
        return Status::NotEffective {
            file: shared,
            why: format!("git looks for it at {}: {why}", file.display()),
            unblock,
        };
    }
    Status::NotInstalled { file, unblock }
}
