//! The folders of a run: outside the repository, private, and gone when they are not needed any more.

use std::fs;
use std::path::{Path, PathBuf};

use super::leftovers::{Sweep, Swept, sweep_worktrees};
use crate::canonical;
use crate::contract::Contract;
use crate::crash;
use crate::error::{Error, Result, ResultExt};
use crate::git::LoopId;
use crate::git::Repo;
use crate::host::HostEnv;
use crate::worktree::{self, worktree_folder};

/// Where the worktrees of this repository and what belongs to them are.
#[derive(Debug)]
pub struct Places {
    /// The folder of the worktrees.
    pub worktrees: PathBuf,
    /// The folder in the repository's common directory that belongs to this loop: lock, journal, warm layer.
    pub private: PathBuf,
    /// The warm folders of this loop, built from its base.
    pub warm: PathBuf,
    /// The ignored files that every worktree gets.
    pub included: PathBuf,
}

impl Places {
    /// Finds and makes the folders of loop `id`.
    pub fn open(repo: &Repo, host: &HostEnv, id: &LoopId, contract: &Contract) -> Result<Self> {
        let worktrees = Self::folder(repo, host)?;
        let private = repo.common_dir().join("loops").join(id.as_str());
        fs::create_dir_all(&private).or_workspace(|| format!("{} cannot be made", private.display()))?;
        // Beside the worktrees: on the same file system, so that copies can share blocks.
        let layer = canonical::sha256_of(&(
            contract.base,
            &contract.check,
            &contract.worktree,
            &contract.sandbox.presets,
        ));
        let warm = worktrees.join(format!("{id}-{}.warm", &layer[..16]));
        let included = warm.with_extension("include");
        Ok(Self { worktrees, private, warm, included })
    }

    /// The folder of this repository's worktrees, for this user alone; it is made if need be.
    pub fn folder(repo: &Repo, host: &HostEnv) -> Result<PathBuf> {
        let configured = repo.config().loop_worktree_dir()?;
        // Where it is configured nobody needs a home.
        let cache = match &configured {
            Some(folder) => folder.clone(),
            None => cache_home(host)?,
        };
        Ok(worktree_folder(repo.common_dir(), configured.as_deref(), &cache)?)
    }

    /// Removes the worktrees of runners that have ended, and what else runners of this repository left. Whoever calls this holds the
    /// lock of loop `id`. What cannot be removed is in nobody's way: no name is used twice.
    pub fn reclaim(&self, repo: &Repo, id: &LoopId) -> Result<Swept> {
        let how = Sweep { mine: Some(id), ..Sweep::default() };
        sweep_worktrees(repo, &self.worktrees, how)
    }

    /// A fresh folder for everything of one step but its worktree.
    pub fn scratch(&self, name: &str) -> Result<Scratch> {
        let root = self.worktrees.join(format!("{name}{SCRATCH}"));
        make_private(&root)?;
        crash::point("scratch:made");
        Ok(Scratch { name: name.to_owned(), root })
    }
}

/// How the name of a file in the loop's private folder ends that leads to a container.
pub(super) const NOTE: &str = ".container";
/// How the name of a scratch folder ends.
pub(super) const SCRATCH: &str = ".tmp";

/// Whether this is what follows the id of a loop in the name of one of its environments. Ids may hold dashes, so
/// `fix-2` must not be taken for an environment of `fix`.
pub(super) fn is_environment(rest: &str) -> bool {
    // The second and later runs of a check have their number behind it.
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbered = rest.rsplit_once('-').filter(|(name, number)| name.ends_with("-check") && digits(number));
    let rest = numbered.map_or(rest, |(name, _)| name);
    let name = rest.strip_suffix("-check").or_else(|| rest.strip_suffix("-holdout")).unwrap_or(rest);
    name == "baseline"
        || name == "baseline-setup"
        || (name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn cache_home(host: &HostEnv) -> Result<PathBuf> {
    if let Some(folder) =
        host.non_empty_var("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute())
    {
        return Ok(folder);
    }
    match host.home_dir() {
        Some(home) => Ok(home.join(".cache")),
        None => {
            Err(Error::workspace("there is no place for worktrees: neither XDG_CACHE_HOME nor HOME is set")
                .hint("git config loop.worktreeDir <folder>"))
        }
    }
}

/// A private folder that is removed with everything in it.
#[derive(Debug)]
pub struct Scratch {
    name: String,
    root: PathBuf,
}

impl Scratch {
    /// What the step is called that it was made for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// A new folder in it.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        make_private(&path)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What was made read-only inside would keep it; the worktree module knows how to remove such things.
        let _ = worktree::remove_all(&self.root);
    }
}

fn make_private(path: &Path) -> Result<()> {
    #[cfg(unix)]
    let made = std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o700).create(path);
    #[cfg(not(unix))]
    let made = fs::create_dir(path);
    made.or_workspace(|| format!("{} cannot be made", path.display()))
}
