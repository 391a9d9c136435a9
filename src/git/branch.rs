//! A branch of the user's, for the one command that is asked to move one. git does it, with the user's own filters and merge
//! drivers, as it would by hand; no hook runs.

use std::fs;
use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};
use gix::refs::FullName;

use super::command::{CommandError, GitCommand, GitVersion};
use super::{RefError, Repo};

/// The first git that merges without a work tree.
const MERGE_TREE: GitVersion = GitVersion(2, 38, 0);

/// Why a branch cannot be moved.
#[derive(Debug, thiserror::Error)]
pub enum BranchError {
    /// git failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A ref cannot be read.
    #[error(transparent)]
    Ref(#[from] RefError),
    /// git is too old to merge without a work tree.
    #[error("git {0} cannot merge without a work tree; {MERGE_TREE} is the first that can")]
    NoMergeTree(GitVersion),
    /// The two sides changed the same lines.
    #[error("the two sides conflict in {}", shown(.0))]
    Conflict(Vec<BString>),
    /// git printed something else than it promises.
    #[error("git merge-tree printed something that is not understood")]
    Output,
}

/// How many conflicting paths a message names.
const NAMED: usize = 10;

fn shown(paths: &[BString]) -> String {
    let named: Vec<_> =
        paths.iter().take(NAMED).map(|path| crate::escape::escape_path(path.as_bstr())).collect();
    match paths.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// In which work tree a branch is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InUse {
    /// In none.
    Nowhere,
    /// It is what the work tree at hand has checked out.
    Here,
    /// Another work tree has it checked out, or some work tree is in the middle of a rebase of it: the git folder of that one.
    Elsewhere(PathBuf),
}

impl Repo {
    /// The branch that `HEAD` is on, whether or not it has a commit; `None` if `HEAD` is detached.
    pub fn current_branch(&self) -> Option<FullName> {
        branch_of_head(self.git_dir())
    }

    /// Where `branch` is in use.
    pub fn in_use(&self, branch: &FullName) -> InUse {
        let mut folders = vec![self.common_dir().to_path_buf()];
        if let Ok(list) = fs::read_dir(self.common_dir().join("worktrees")) {
            folders.extend(list.filter_map(Result::ok).map(|entry| entry.path()));
        }
        // A bare repository's HEAD names a branch that nobody works on.
        let works_here = self.worktree_root().is_some();
        for folder in folders {
            let is_here = folder == self.git_dir();
            if rebases(&folder, branch) {
                return InUse::Elsewhere(folder);
            }
            let has_tree = if is_here { works_here } else { !is_bare(self, &folder) };
            if has_tree && branch_of_head(&folder).as_ref() == Some(branch) {
                return if is_here { InUse::Here } else { InUse::Elsewhere(folder) };
            }
        }
        InUse::Nowhere
    }

    /// The tree of a merge of two commits without a conflict.
    pub fn merge_trees(&self, ours: ObjectId, theirs: ObjectId) -> Result<ObjectId, BranchError> {
        let version = self.git()?.version();
        if version < MERGE_TREE {
            return Err(BranchError::NoMergeTree(version));
        }
        let (ours, theirs) = (ours.to_string(), theirs.to_string());
        let args = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", &ours, &theirs];
        match GitCommand::in_repo(self)?.args(args).run() {
            Ok(output) => {
                let id = output.stdout.split_str("\0").next().unwrap_or_default();
                ObjectId::from_hex(id.trim()).map_err(|_| BranchError::Output)
            }
            // The tree with the conflicts, then the paths that have one.
            Err(CommandError::Failed { code: Some(1), stdout, .. }) => Err(BranchError::Conflict(
                stdout.split_str("\0").skip(1).filter(|path| !path.is_empty()).map(Into::into).collect(),
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves a branch that no work tree has from `from` (`None`: it must not exist) to `to`.
    pub fn move_branch(
        &self,
        branch: &FullName,
        from: Option<ObjectId>,
        to: ObjectId,
        why: &str,
    ) -> Result<(), BranchError> {
        let from = from.unwrap_or_else(|| ObjectId::null(self.hash_kind())).to_string();
        let git = GitCommand::in_repo(self)?.args(["update-ref", "--create-reflog", "-m", why, "--"]);
        git.arg(branch.as_bstr().to_string()).args([to.to_string(), from]).run()?;
        Ok(())
    }

    /// Fast-forwards the branch that is checked out here to `to`: branch, index and work tree, or nothing. git refuses if that
    /// would overwrite what is not committed.
    pub fn fast_forward_here(&self, to: ObjectId, why: &str) -> Result<(), BranchError> {
        let args = ["merge", "--ff-only", "--no-stat", "--no-autostash", "--no-verify-signatures", "--quiet"];
        let git = GitCommand::in_repo(self)?.env("GIT_REFLOG_ACTION", why);
        git.args(args).arg(to.to_string()).run()?;
        Ok(())
    }
}

fn is_bare(repo: &Repo, folder: &Path) -> bool {
    folder == repo.common_dir() && repo.gix().main_repo().is_ok_and(|main| main.workdir().is_none())
}

fn branch_of_head(folder: &Path) -> Option<FullName> {
    let head = fs::read(folder.join("HEAD")).ok()?;
    full_name(head.strip_prefix(b"ref:")?)
}

/// Whether the work tree of this git folder is in the middle of a rebase of the branch, which moves it at its end.
fn rebases(folder: &Path, branch: &FullName) -> bool {
    ["rebase-merge/head-name", "rebase-apply/head-name"].iter().any(|file| {
        fs::read(folder.join(file)).ok().and_then(|name| full_name(&name)).as_ref() == Some(branch)
    })
}

fn full_name(bytes: &[u8]) -> Option<FullName> {
    FullName::try_from(bytes.trim().as_bstr().to_owned()).ok()
}

impl From<BranchError> for crate::error::Error {
    fn from(error: BranchError) -> Self {
        let message = error.to_string();
        match error {
            BranchError::Command(error) => error.into(),
            BranchError::Ref(error) => error.into(),
            BranchError::NoMergeTree(_) => Self::workspace(message).hint("update git, or merge by hand"),
            BranchError::Conflict(_) => Self::refused(message),
            BranchError::Output => Self::internal(message),
        }
    }
}
