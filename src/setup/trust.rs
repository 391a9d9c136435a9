//! The file that says who is trusted: where it is, what is added to it, and when it counts.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, ResultExt};
use crate::git::Repo;
use crate::ledger::trust::{TRUST_PATH, protected_branch};
use crate::sign::enroll;

/// Where the list of trusted signers is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustPlace {
    /// `.loops/allowed_signers` in the work tree; it counts once the protected branch has it.
    Repository(PathBuf),
    /// A file that the configuration names. It is the user's, and not written to.
    Configured {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
    },
}

impl TrustPlace {
    /// The place that counts for this repository.
    pub fn find(repo: &Repo, top: &Path) -> Result<Self> {
        let in_repository = top.join(TRUST_PATH);
        for key in ["loop.allowedSigners", "gpg.ssh.allowedSignersFile"] {
            match repo.config().get_path(key)? {
                Some(path) if path == in_repository => break,
                Some(path) => return Ok(Self::Configured { key, path }),
                None => {}
            }
        }
        Ok(Self::Repository(in_repository))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Repository(path) | Self::Configured { path, .. } => path,
        }
    }

    /// The text of the file, empty where there is none.
    pub fn read(&self) -> Result<String> {
        let path = self.path();
        if matches!(self, Self::Repository(_)) {
            // A repository must not choose which file of the user's is written to.
            for part in [path.parent().unwrap_or(path), path] {
                if part.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
                    return Err(Error::workspace(format!("{} is a symlink", part.display()))
                        .hint("remove it: the trust file is a file of the repository itself"));
                }
            }
        }
        match fs::read_to_string(path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(cause) => Err(Error::workspace(format!("{} cannot be read", path.display()))
                .caused_by(cause)
                .hint("it must be an allowed-signers file in UTF-8")),
        }
    }
}

/// Puts `lines` at the end of the trust file, whose text is `text`.
pub fn add_signers(path: &Path, text: &str, lines: &[String]) -> Result<()> {
    let failed = |cause: io::Error| {
        Error::workspace(format!("{} cannot be written", path.display()))
            .caused_by(cause)
            .hint("check who may write there")
    };
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
    file.write_all(enroll::addition(text, lines).as_bytes()).map_err(failed)
}

/// What has to happen before the trust file of the work tree counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trusted {
    /// It is on the protected branch as it is.
    Already,
    /// It is to be committed to the branch that is checked out.
    Commit,
    /// It is to be committed to another branch.
    OtherBranch(String),
    /// It is to be committed and pushed; this ref of the remote counts.
    Push(String),
    /// There is no protected branch. The branch that is checked out, if any.
    NoBranch(Option<String>),
}

/// What has to happen before a trust file of this text counts.
pub fn trusted(repo: &Repo, text: &str) -> Result<Trusted> {
    let head = repo.gix().head_name().ok().flatten().map(|name| name.as_bstr().to_string());
    let Some((name, commit)) = protected_branch(repo)? else {
        let branch = head.and_then(|head| head.strip_prefix("refs/heads/").map(ToOwned::to_owned));
        return Ok(Trusted::NoBranch(branch));
    };
    let there = repo
        .read_path_at(commit, TRUST_PATH)
        .or_workspace(|| format!("{name}:{TRUST_PATH} cannot be read"))?;
    Ok(if there.is_some_and(|there| there == text.as_bytes()) {
        Trusted::Already
    } else if name.starts_with("refs/remotes/") {
        Trusted::Push(name)
    } else if head.as_deref() == Some(name.as_str()) {
        Trusted::Commit
    } else {
        Trusted::OtherBranch(name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned())
    })
}
