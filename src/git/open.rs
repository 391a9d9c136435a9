//! Opening a repository, or saying clearly why not.

use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use gix::ObjectId;
use gix::sec::identity::is_path_owned_by_current_user;

use super::command::{CommandError, GitProgram};
use super::config::{Config, ConfigError, RepoDirs, Scope};
use super::discover::{self, Found};
use super::durable;
use super::objects::Durability;
use super::refs::RefError;
use crate::host::HostEnv;

/// Why there is no repository to work with.
#[derive(Debug, thiserror::Error)]
pub enum RepoError {
    /// Neither this folder nor one above it is in a repository.
    #[error("{} is not in a git repository", dir.display())]
    NotARepository {
        /// Where the search began.
        dir: PathBuf,
    },
    /// There is no such folder to begin in.
    #[error("{} {}", dir.display(), if *is_file { "is a file, not a folder" } else { "does not exist" })]
    NoFolder {
        /// Where the search should have begun.
        dir: PathBuf,
        /// Whether something else is there.
        is_file: bool,
    },
    /// `GIT_DIR` names something else.
    #[error("GIT_DIR names {}, which {problem}", path.display())]
    GitDirVariable {
        /// What it names.
        path: PathBuf,
        /// What is missing there.
        problem: String,
    },
    /// A `.git` that leads nowhere.
    #[error("{} {problem}", path.display())]
    Broken {
        /// The `.git`.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no work tree.
    #[error("{} is a bare repository", git_dir.display())]
    Bare {
        /// The repository.
        git_dir: PathBuf,
    },
    /// History is cut off.
    #[error("{} is a shallow clone: a part of its history is missing", git_dir.display())]
    Shallow {
        /// The repository.
        git_dir: PathBuf,
    },
    /// Refs are not stored as files.
    #[error("{} keeps its refs in the format {format:?}, which is not supported yet", git_dir.display())]
    RefStorage {
        /// The repository.
        git_dir: PathBuf,
        /// The value of `extensions.refStorage`.
        format: String,
    },
    /// A format of the future.
    #[error("{} uses {what}, which this version does not know", git_dir.display())]
    UnknownFormat {
        /// The repository.
        git_dir: PathBuf,
        /// The extension or version.
        what: String,
    },
    /// The repository belongs to somebody else.
    #[error("{} belongs to another user", path.display())]
    ForeignOwner {
        /// What belongs to them.
        path: PathBuf,
        /// What to declare safe.
        repository: PathBuf,
    },
    /// A variable that would send us to two places at once.
    #[error("{name} is set, which is not supported")]
    Environment {
        /// The variable.
        name: &'static str,
    },
    /// The branch has no commit.
    #[error("{} has no commit yet", git_dir.display())]
    NoCommit {
        /// The repository.
        git_dir: PathBuf,
    },
    /// `HEAD` cannot be read.
    #[error(transparent)]
    Head(#[from] RefError),
    /// The configuration cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Something on the way cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// gix cannot open it.
    #[error("cannot open the repository {}", git_dir.display())]
    Open {
        /// The repository.
        git_dir: PathBuf,
        /// Why.
        source: Box<gix::Error>,
    },
}

impl From<RepoError> for crate::error::Error {
    fn from(error: RepoError) -> Self {
        let hint = match &error {
            RepoError::NotARepository { .. } => {
                "run it in a repository, name one with -C DIR, or make one: git init".into()
            }
            RepoError::NoFolder { .. } => {
                "name a folder in the work tree: -C DIR; it is relative to the folder you are in".into()
            }
            RepoError::GitDirVariable { .. } => {
                "unset GIT_DIR, or let it name the '.git' folder of a repository".into()
            }
            RepoError::Broken { path, .. } if path.is_file() => {
                "this work tree was moved or its registration removed: git worktree repair".into()
            }
            RepoError::Broken { .. } => "mend it, or clone the repository again".into(),
            RepoError::Bare { .. } => {
                "a loop needs a work tree beside it: git worktree add ../work, then run it there".into()
            }
            RepoError::Shallow { .. } => "fetch the rest: git fetch --unshallow".into(),
            RepoError::RefStorage { .. } => "convert it: git refs migrate --ref-format=files".into(),
            RepoError::UnknownFormat { .. } => "update git-loop".into(),
            RepoError::ForeignOwner { repository, .. } => format!(
                "if you trust it: git config --global --add safe.directory '{}'",
                repository.display()
            ),
            RepoError::Environment { name } => format!("unset {name} and try again"),
            RepoError::NoCommit { .. } => "make a first commit; a loop starts from one".into(),
            RepoError::Head(_) | RepoError::Config(_) | RepoError::Io { .. } | RepoError::Open { .. } => {
                "look at it: git fsck".into()
            }
        };
        let message = error.to_string();
        match error {
            // These know their own way out.
            RepoError::Config(error) => return error.into(),
            RepoError::Head(error) => return error.into(),
            RepoError::Io { source, .. } => Self::workspace(message).caused_by(source),
            RepoError::Open { source, .. } => Self::workspace(message).caused_by(source),
            _ => Self::workspace(message),
        }
        .hint(hint)
    }
}

/// What a command can do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allow {
    /// No work tree: enough to look, to verify and to judge a push.
    pub bare: bool,
    /// Missing history: enough to look; whoever meets the end of it has to say so.
    pub shallow: bool,
}

/// An open repository.
///
/// Replacement refs and grafts have no effect: an object is what its own id says. No program that the repository's
/// configuration names is ever run. It is `Send` and cheap to clone, but one handle is for one thread.
#[derive(Clone)]
pub struct Repo {
    gix: gix::Repository,
    host: Arc<HostEnv>,
    config: Arc<Config>,
    git_dir: PathBuf,
    common_dir: PathBuf,
    worktree_root: Option<PathBuf>,
    /// `GIT_OBJECT_DIRECTORY`: inside a `pre-receive` hook the quarantine with what is being pushed.
    incoming: Option<gix::odb::Handle>,
    /// The objects once more, for reading what others wrote.
    pub(super) bounded: OnceCell<gix::odb::Handle>,
    git: Arc<OnceLock<GitProgram>>,
    /// Whether moved refs are waited for.
    pub(super) durability: Durability,
    /// Objects that were written, and whether they are on the disk, so that a blob that is in every record is synced once.
    pub(super) written: durable::Shared,
}

impl Repo {
    /// Opens the repository of `dir` (relative to the host's current folder) for a loop to run in: it has a work
    /// tree and its whole history.
    pub fn discover(dir: &Path, host: &HostEnv) -> Result<Self, RepoError> {
        Self::open(dir, host, Allow::default())
    }

    /// Opens the repository of `dir`, bare or not; for hooks of a server, and for what only looks and verifies.
    pub fn open_bare_ok(dir: &Path, host: &HostEnv) -> Result<Self, RepoError> {
        Self::open(dir, host, Allow { bare: true, shallow: false })
    }

    /// Opens the repository of `dir` with what the command can do without.
    pub fn open(dir: &Path, host: &HostEnv, allow: Allow) -> Result<Self, RepoError> {
        for name in ["GIT_COMMON_DIR", "GIT_NAMESPACE"] {
            if host.non_empty_var(name).is_some() {
                return Err(RepoError::Environment { name });
            }
        }
        let dir = host.absolute(dir);
        match dir.metadata() {
            Ok(meta) if !meta.is_dir() => return Err(RepoError::NoFolder { dir, is_file: true }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(RepoError::NoFolder { dir, is_file: false });
            }
            _ => {}
        }
        let found = discover::find(&dir, host)?;
        let git_dir = found.git_dir.clone();
        let common_dir = discover::common_dir(&git_dir)
            .map_err(|source| RepoError::Io { path: git_dir.join("commondir"), source })?;
        check_format(&git_dir, &common_dir)?;
        let worktree_variable = host.non_empty_var("GIT_WORK_TREE").map(|path| dir.join(path));
        check_owner(&found, &common_dir, worktree_variable.as_deref(), host)?;

        let mut repository = gix::open::Options::isolated()
            .with(gix::sec::Trust::Full)
            .open_path_as_is(true)
            // Objects are what their ids say, whatever `git replace` was told.
            .config_overrides(["core.useReplaceRefs=false"])
            .open(&git_dir)
            .map_err(|source| RepoError::Open { git_dir: git_dir.clone(), source: Box::new(source) })?
            .to_thread_local();
        let worktree_root = worktree_variable
            .or_else(|| worktree_root(&repository, &found, &dir))
            .map(|root| root.canonicalize().unwrap_or(root));
        if let Some(root) = &worktree_root {
            repository
                .set_workdir(root.clone())
                .map_err(|source| RepoError::Open { git_dir: git_dir.clone(), source: Box::new(source) })?;
        } else if !allow.bare {
            return Err(RepoError::Bare { git_dir });
        }
        if !allow.shallow && common_dir.join("shallow").metadata().is_ok_and(|meta| meta.len() > 0) {
            return Err(RepoError::Shallow { git_dir });
        }
        // What may run into a packed object many times should not decode it each time.
        repository.object_cache_size_if_unset(4 * 1024 * 1024);

        let base = worktree_root.as_deref().unwrap_or(&git_dir);
        let config = Config::load(host, RepoDirs { git_dir: &git_dir, common_dir: &common_dir, base })?;
        let durability = durable::configured(&config)?;
        let incoming = host
            .non_empty_var("GIT_OBJECT_DIRECTORY")
            .map(|path| dir.join(path))
            .filter(|path| !same_folder(path, &common_dir.join("objects")))
            .map(|path| {
                super::bounds::open_store(&path, repository.object_hash())
                    .map_err(|source| RepoError::Io { path, source })
            })
            .transpose()?;
        Ok(Self {
            gix: repository,
            host: Arc::new(host.clone()),
            config: Arc::new(config),
            git_dir,
            common_dir,
            worktree_root,
            incoming,
            bounded: OnceCell::new(),
            git: Arc::default(),
            durability,
            written: Arc::default(),
        })
    }

    /// The gix handle, for what this module has no words for.
    pub fn gix(&self) -> &gix::Repository {
        &self.gix
    }

    /// The host it was opened with.
    pub fn host(&self) -> &HostEnv {
        &self.host
    }

    /// The configuration, as it was when the repository was opened.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The git folder of this work tree, absolute.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The git folder that all work trees share, absolute. Refs, objects and our locks are there.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// The top folder of the work tree; none in a bare repository.
    pub fn worktree_root(&self) -> Option<&Path> {
        self.worktree_root.as_deref()
    }

    /// Which hash names the objects.
    pub fn hash_kind(&self) -> gix::hash::Kind {
        self.gix.object_hash()
    }

    /// Whether this is not the main work tree.
    pub fn is_linked_worktree(&self) -> bool {
        self.git_dir != self.common_dir
    }

    /// Whether a part of the history is missing.
    pub fn is_shallow(&self) -> bool {
        self.common_dir.join("shallow").metadata().is_ok_and(|meta| meta.len() > 0)
    }

    /// Whether objects may be missing because a remote promised them.
    pub fn is_partial_clone(&self) -> bool {
        self.config.get("extensions.partialClone").is_some()
            || self.config.entries().iter().any(|entry| {
                entry.key.starts_with(b"remote.")
                    && entry.key.ends_with(b".promisor")
                    && entry.value.as_ref().is_none_or(|value| value.eq_ignore_ascii_case(b"true"))
            })
    }

    /// The commit that `HEAD` is at, or the error for a repository that has none yet.
    #[expect(clippy::missing_panics_doc, reason = "HEAD is a valid name")]
    pub fn require_commit(&self) -> Result<ObjectId, RepoError> {
        let head = gix::refs::FullName::try_from("HEAD").expect("a valid name");
        self.read_ref(head.as_ref())?.ok_or_else(|| RepoError::NoCommit { git_dir: self.git_dir.clone() })
    }

    /// The git program, found on `PATH` and asked for its version once.
    pub fn git(&self) -> Result<&GitProgram, CommandError> {
        if let Some(git) = self.git.get() {
            return Ok(git);
        }
        let found = GitProgram::find(&self.host)?;
        // Another clone may have been faster; then both found the same.
        Ok(self.git.get_or_init(|| found))
    }

    /// The store with objects that are being pushed, inside a hook of a server.
    pub fn incoming(&self) -> Option<&gix::odb::Handle> {
        self.incoming.as_ref()
    }
}

impl std::fmt::Debug for Repo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repo").field("git_dir", &self.git_dir).finish_non_exhaustive()
    }
}

/// The top of the work tree in git's order: `core.bare`, `core.worktree`, the folder whose `.git` led here, what gix
/// infers from the git folder, and the current folder for a `GIT_DIR` that says it is not bare.
fn worktree_root(repository: &gix::Repository, found: &Found, dir: &Path) -> Option<PathBuf> {
    let config = repository.config_snapshot();
    let bare = config.boolean("core.bare");
    let is_linked = repository.git_dir() != repository.common_dir();
    if bare == Some(true) && !is_linked {
        return None;
    }
    let inferred = repository.workdir().map(Path::to_owned);
    if config.string("core.worktree").is_some() && inferred.is_some() {
        return inferred;
    }
    found.top.clone().or(inferred).or_else(|| (found.explicit && bare == Some(false)).then(|| dir.to_owned()))
}

fn same_folder(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// Extensions that change nothing we rely on, or that gix and this module handle.
const KNOWN_EXTENSIONS: &[&str] = &[
    "noop",
    "noop-v1",
    "objectformat",
    "partialclone",
    "preciousobjects",
    "refstorage",
    "relativeworktrees",
    "submodulepathconfig",
    "worktreeconfig",
];

/// Refuses what gix would misread. It opens a repository with reftables as one without any ref.
fn check_format(git_dir: &Path, common_dir: &Path) -> Result<(), RepoError> {
    let path = common_dir.join("config");
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(RepoError::Io { path, source }),
    };
    let meta = gix::config::file::Metadata::from(gix::config::Source::Local);
    let file =
        gix::config::File::from_bytes_no_includes(&bytes, meta, gix::config::file::init::Options::default())
            .map_err(|source| ConfigError::Parse { path, source: Box::new(source) })?;
    let unknown = |what: String| RepoError::UnknownFormat { git_dir: git_dir.to_owned(), what };
    let version = match file.string("core.repositoryFormatVersion") {
        Some(version) => match version.to_string().parse::<u32>() {
            Ok(version) if version <= 1 => version,
            _ => return Err(unknown(format!("repository format version {version}"))),
        },
        None => 0,
    };
    if let Some(format) = file.string("extensions.refStorage")
        && format != "files"
    {
        return Err(RepoError::RefStorage { git_dir: git_dir.to_owned(), format: format.to_string() });
    }
    if common_dir.join("reftable").is_dir() {
        return Err(RepoError::RefStorage { git_dir: git_dir.to_owned(), format: "reftable".into() });
    }
    // Before version 1 git ignores extensions that it does not know.
    if version == 1 {
        for section in file.sections_by_name("extensions").into_iter().flatten() {
            for name in section.value_names() {
                if !KNOWN_EXTENSIONS.contains(&name.to_ascii_lowercase().as_str()) {
                    return Err(unknown(format!("the extension '{name}'")));
                }
            }
        }
    }
    Ok(())
}

/// As git does it: everything that says what the repository is has to belong to us, unless it is declared safe by
/// somebody other than the repository, or `GIT_DIR` names it.
fn check_owner(
    found: &Found,
    common_dir: &Path,
    worktree: Option<&Path>,
    host: &HostEnv,
) -> Result<(), RepoError> {
    if found.explicit {
        return Ok(());
    }
    let top = worktree.or(found.top.as_deref());
    let paths = [Some(found.git_dir.as_path()), Some(common_dir), found.git_file.as_deref(), top];
    for path in paths.into_iter().flatten() {
        let owned = is_path_owned_by_current_user(path)
            .map_err(|source| RepoError::Io { path: path.to_owned(), source })?;
        if owned {
            continue;
        }
        let repository = found.top.as_deref().unwrap_or(&found.git_dir);
        if !is_declared_safe(repository, host)? {
            let repository = repository.to_owned();
            return Err(RepoError::ForeignOwner { path: path.to_owned(), repository });
        }
        return Ok(());
    }
    Ok(())
}

/// `safe.directory` of the machine, the user and the command line: a path, a path with `/*` for all below it, `*`
/// for everything; an empty value forgets the ones before it.
fn is_declared_safe(repository: &Path, host: &HostEnv) -> Result<bool, ConfigError> {
    let config = Config::load_protected(host)?;
    let mut safe = false;
    for entry in config.entries().iter().filter(|entry| entry.key == "safe.directory") {
        debug_assert!(matches!(entry.scope, Scope::System | Scope::Global | Scope::Command));
        let value = entry.value.as_ref().map_or(b"".as_slice(), |value| value.as_slice());
        safe = match value {
            b"" => false,
            b"*" => true,
            _ => {
                let (value, below) = match value.strip_suffix(b"/*") {
                    Some(value) => (value, true),
                    None => (value, false),
                };
                safe || config.expand(value).is_some_and(|path| {
                    let path = path.canonicalize().unwrap_or(path);
                    if below {
                        repository != path && repository.starts_with(path)
                    } else {
                        repository == path
                    }
                })
            }
        };
    }
    Ok(safe)
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
