//! Finding the repository of a folder, as git finds it.
//!
//! gix skips a `.git` file that leads nowhere and may then open a repository further up; git refuses. A worktree
//! whose registration was pruned must not make us work in the repository around it, so the search is our own.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::open::RepoError;
use crate::host::HostEnv;

/// What the search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The git folder of this work tree.
    pub git_dir: PathBuf,
    /// The folder whose `.git` led there, unless the environment or a bare repository did.
    pub top: Option<PathBuf>,
    /// A `.git` file, if there was one. Its owner counts too.
    pub git_file: Option<PathBuf>,
    /// Whether `GIT_DIR` said so; then git trusts it whoever owns it.
    pub explicit: bool,
}

/// A `.git` file that is longer is none.
const MAX_GIT_FILE: u64 = 1 << 16;

/// Finds the repository of `dir`, which must be absolute: `GIT_DIR`, else the nearest one at or above `dir` within
/// `GIT_CEILING_DIRECTORIES` and one file system.
pub(super) fn find(dir: &Path, host: &HostEnv) -> Result<Found, RepoError> {
    if let Some(git_dir) = host.non_empty_var("GIT_DIR") {
        return explicit(&dir.join(git_dir));
    }
    let start = dir.canonicalize().map_err(|source| RepoError::Io { path: dir.to_owned(), source })?;
    let ceilings = ceilings(host);
    let cross = host.str_var("GIT_DISCOVERY_ACROSS_FILESYSTEM").is_some_and(|value| {
        !matches!(value.to_ascii_lowercase().as_str(), "" | "0" | "false" | "no" | "off")
    });
    let device = device(&start);
    let mut broken = None;
    for at in start.ancestors() {
        // A ceiling stops the search before it is looked at, unless the search starts there.
        if at != start
            && (ceilings.iter().any(|ceiling| ceiling == at) || (!cross && self::device(at) != device))
        {
            break;
        }
        let dot_git = at.join(".git");
        match dot_git.symlink_metadata() {
            Ok(meta) if meta.is_file() => {
                let git_dir = follow_git_file(&dot_git)?;
                let git_dir = git_dir.canonicalize().unwrap_or(git_dir);
                let found =
                    Found { git_dir, top: Some(at.to_owned()), git_file: Some(dot_git), explicit: false };
                return Ok(found);
            }
            Ok(_) => match check_git_dir(&dot_git) {
                Ok(()) => {
                    let git_dir = dot_git.canonicalize().unwrap_or(dot_git);
                    return Ok(Found { git_dir, top: Some(at.to_owned()), git_file: None, explicit: false });
                }
                // As git does it, the search goes on; if it ends with nothing, this is what to tell.
                Err(problem) if dot_git.join("objects").exists() || dot_git.join("HEAD").exists() => {
                    broken.get_or_insert((dot_git, problem));
                }
                Err(_) => {}
            },
            Err(_) => {}
        }
        if check_git_dir(at).is_ok() {
            let git_dir = at.to_owned();
            return Ok(Found { git_dir, top: None, git_file: None, explicit: false });
        }
    }
    Err(match broken {
        Some((path, problem)) => RepoError::Broken { path, problem },
        None => RepoError::NotARepository { dir: dir.to_owned() },
    })
}

fn explicit(path: &Path) -> Result<Found, RepoError> {
    let is_file = path.is_file();
    let git_dir = if is_file { follow_git_file(path)? } else { path.to_owned() };
    if let Err(problem) = check_git_dir(&git_dir) {
        return Err(RepoError::GitDirVariable { path: git_dir, problem });
    }
    let git_dir = git_dir.canonicalize().unwrap_or(git_dir);
    let git_file = is_file.then(|| path.to_owned());
    Ok(Found { git_dir, top: None, git_file, explicit: true })
}

/// Follows `gitdir: PATH`.
fn follow_git_file(file: &Path) -> Result<PathBuf, RepoError> {
    let broken = |problem: String| RepoError::Broken { path: file.to_owned(), problem };
    let size = file.metadata().map_err(|source| RepoError::Io { path: file.to_owned(), source })?.len();
    if size > MAX_GIT_FILE {
        return Err(broken("is too long to be the '.git' file of a work tree".into()));
    }
    let content = std::fs::read(file).map_err(|source| RepoError::Io { path: file.to_owned(), source })?;
    let target =
        content.strip_prefix(b"gitdir: ").ok_or_else(|| broken("does not say 'gitdir: PATH'".into()))?;
    let end = target.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    let target = gix::path::from_byte_slice(&target[..end])
        .map_err(|_| broken("names a path that this system cannot express".into()))?;
    let target = file.parent().unwrap_or(Path::new("")).join(target);
    match check_git_dir(&target) {
        Ok(()) => Ok(target),
        Err(problem) => Err(broken(format!("names {}, which {problem}", target.display()))),
    }
}

/// Whether `dir` is what git takes for a git folder; the error says what is missing.
fn check_git_dir(dir: &Path) -> Result<(), String> {
    let head = dir.join("HEAD");
    match std::fs::symlink_metadata(&head) {
        Ok(meta) if meta.is_symlink() => {
            // Ancient repositories have HEAD as a symlink to the branch.
            if !std::fs::read_link(&head).is_ok_and(|target| target.starts_with("refs")) {
                return Err("has a HEAD that is a symlink to something else than a ref".into());
            }
        }
        Ok(_) => {
            let content =
                std::fs::read(&head).map_err(|error| format!("has a HEAD that cannot be read: {error}"))?;
            let valid = match content.strip_prefix(b"ref:") {
                Some(name) => name.trim_ascii_start().starts_with(b"refs/"),
                None => matches!(content.trim_ascii().len(), 40 | 64) && content.trim_ascii().is_ascii_hex(),
            };
            if !valid {
                return Err("has a HEAD that names neither a branch nor a commit".into());
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err("has no HEAD".into()),
        Err(error) => return Err(format!("has a HEAD that cannot be read: {error}")),
    }
    let common =
        common_dir(dir).map_err(|error| format!("has a 'commondir' that cannot be read: {error}"))?;
    for needed in ["objects", "refs"] {
        if !common.join(needed).is_dir() {
            return Err(format!("has no folder '{needed}'"));
        }
    }
    Ok(())
}

trait IsAsciiHex {
    fn is_ascii_hex(&self) -> bool;
}

impl IsAsciiHex for [u8] {
    fn is_ascii_hex(&self) -> bool {
        self.iter().all(u8::is_ascii_hexdigit)
    }
}

/// The folder that all work trees share: what `commondir` in a linked work tree's git folder names, else itself.
pub(super) fn common_dir(git_dir: &Path) -> io::Result<PathBuf> {
    let content = match std::fs::read(git_dir.join("commondir")) {
        Ok(content) => content,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(git_dir.to_owned());
        }
        Err(error) => return Err(error),
    };
    let target = gix::path::from_byte_slice(content.trim_ascii_end())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let dir = git_dir.join(target);
    Ok(dir.canonicalize().unwrap_or(dir))
}

/// `GIT_CEILING_DIRECTORIES`. An empty entry says that the ones after it have no symlinks to resolve.
fn ceilings(host: &HostEnv) -> Vec<PathBuf> {
    let Some(list) = host.var("GIT_CEILING_DIRECTORIES") else {
        return Vec::new();
    };
    let mut resolve = true;
    let mut ceilings = Vec::new();
    for dir in std::env::split_paths(list) {
        if dir.as_os_str() == OsStr::new("") {
            resolve = false;
        } else if dir.is_absolute() {
            ceilings.push(if resolve { dir.canonicalize().unwrap_or(dir) } else { dir });
        }
    }
    ceilings
}

#[cfg(unix)]
fn device(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    path.metadata().ok().map(|meta| meta.dev())
}

#[cfg(not(unix))]
fn device(_path: &Path) -> Option<u64> {
    None
}
