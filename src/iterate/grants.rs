//! What worker and check must not see although a folder that they may read holds it: the repository, the loops' worktrees, the keys.
//!
//! A folder is granted for what is in it: the system's programs, a toolchain, what a contract names. Where the repository happens to lie in
//! such a folder (`/opt/app`, `/usr/src/app`), the grant would open every ref to a worker whose history is sealed. So every grant is compared
//! with every guarded place, by real paths: a place inside a grant is hidden, and a grant inside a place is refused, as it would be empty.

use std::fs;
use std::path::{Path, PathBuf};

use super::credential::CREDENTIALS;
use super::places::Places;
use super::session::Session;
use super::step::read_only;
use crate::contract::Contract;
use crate::error::{Error, Kind, Result};
use crate::exit::HaltReason;
use crate::git::Repo;
use crate::host::HostEnv;
use crate::sandbox::toolchain::Toolchain;
use crate::sandbox::{self, Adapter};

/// Who grants a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// Every sandbox does.
    System,
    /// A preset of the contract.
    Preset,
    /// `sandbox.read_only`.
    Contract,
}

/// What a place is guarded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// A git folder, or objects that it borrows.
    Repository,
    /// A checkout: who asks for a folder in it gets that.
    Checkout,
    /// The folder of the loops' worktrees.
    Worktrees,
    /// The file of a signing key.
    Key,
    /// The home of the user, which the system's folders do not stand for.
    Home,
    /// A place of the user's credentials.
    Credential,
}

/// A place that a grant may hold and must not give.
#[derive(Debug)]
struct Guarded {
    what: What,
    path: PathBuf,
}

/// The folders of a repository.
pub(super) struct Folders {
    /// Its git folders, and where it borrows objects.
    pub git: Vec<PathBuf>,
    /// Its worktrees, as far as they are registered.
    pub checkouts: Vec<PathBuf>,
}

impl Folders {
    /// Looks for them. All paths are real ones.
    pub fn of(repo: &Repo) -> Self {
        let common = repo.common_dir();
        let mut git = vec![common.to_path_buf(), repo.git_dir().to_path_buf()];
        let borrowed = fs::read_to_string(common.join("objects/info/alternates")).unwrap_or_default();
        for line in borrowed.lines().filter(|line| !line.is_empty()) {
            let objects = common.join("objects").join(line);
            match objects.parent().filter(|parent| parent.join("HEAD").is_file()) {
                Some(parent) => git.push(parent.to_path_buf()),
                None => git.push(objects),
            }
        }
        let mut checkouts: Vec<PathBuf> = repo.worktree_root().map(Path::to_path_buf).into_iter().collect();
        // The main worktree of a linked one: `.git` lies in it.
        if common.file_name() == Some(".git".as_ref()) {
            checkouts.extend(common.parent().map(Path::to_path_buf));
        }
        for entry in fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten() {
            let Ok(text) = fs::read_to_string(entry.path().join("gitdir")) else { continue };
            checkouts.extend(Path::new(text.trim_end()).parent().map(Path::to_path_buf));
        }
        Self { git: real(git), checkouts: real(checkouts) }
    }

    /// All of them.
    pub fn all(self) -> Vec<PathBuf> {
        self.git.into_iter().chain(self.checkouts).collect()
    }
}

impl Session<'_> {
    /// What no step of this session may see, whatever folder it lies in.
    pub(super) fn hidden(&self) -> Result<&[PathBuf]> {
        let of_signer = self.author.signer.files();
        let look = || {
            let toolchain = self.toolchain()?;
            hidden(self.repo, self.host, toolchain, &self.tip.contract, self.adapter, of_signer)
        };
        self.tools.hidden(look)
    }
}

/// What is to be hidden from every command of a contract. Fails if a grant cannot be given without it.
pub(super) fn hidden(
    repo: &Repo,
    host: &HostEnv,
    toolchain: &Toolchain,
    contract: &Contract,
    adapter: Adapter,
    keys: &[PathBuf],
) -> Result<Vec<PathBuf>> {
    // Without a sandbox nothing is granted, nor hidden.
    if adapter == Adapter::None {
        return Ok(Vec::new());
    }
    let worktrees = Places::folder(repo, host)?;
    let mut guarded = guarded(repo, host, &worktrees);
    guarded.extend(real(keys.to_vec()).into_iter().map(|path| Guarded { what: What::Key, path }));
    // Where there is an image nothing of this machine's is given to anybody but what the contract names.
    let (system, tools) = if adapter.has_image() {
        (&[][..], &[][..])
    } else {
        (sandbox::always_readable(), &*toolchain.readable)
    };
    let system = system.iter().map(|path| (By::System, PathBuf::from(path)));
    let grants = system
        .chain(tools.iter().map(|path| (By::Preset, path.clone())))
        .chain(read_only(host, contract).into_iter().map(|path| (By::Contract, path)));
    let mut hidden = Vec::new();
    for (by, path) in grants {
        let Ok(grant) = path.canonicalize() else { continue };
        for place in &guarded {
            match judge(by, &grant, place) {
                Verdict::Apart => {}
                Verdict::Hide if adapter.has_image() => return Err(refusal(by, &path, place, Some(adapter))),
                Verdict::Hide => hidden.push(place.path.clone()),
                Verdict::Refuse => return Err(refusal(by, &path, place, None)),
            }
        }
    }
    hidden.sort();
    hidden.dedup();
    Ok(hidden)
}

/// What must stay out of every sandbox on this machine, but for the keys of the session.
fn guarded(repo: &Repo, host: &HostEnv, worktrees: &Path) -> Vec<Guarded> {
    let mut found = Vec::new();
    let mut add = |what, paths: Vec<PathBuf>| {
        found.extend(real(paths).into_iter().map(|path| Guarded { what, path }));
    };
    let Folders { git, checkouts } = Folders::of(repo);
    add(What::Repository, git);
    add(What::Checkout, checkouts.into_iter().filter(|path| !path.starts_with(worktrees)).collect());
    add(What::Worktrees, vec![worktrees.to_path_buf()]);
    // The folders beside it belong to the loops of other repositories.
    add(What::Checkout, worktrees.parent().map(Path::to_path_buf).into_iter().collect());
    add(What::Key, configured_keys(repo, host));
    if let Some(home) = host.home_dir() {
        add(What::Credential, CREDENTIALS.iter().map(|name| home.join(name)).collect());
        add(What::Home, vec![home.to_path_buf()]);
    }
    found
}

enum Verdict {
    Apart,
    Hide,
    Refuse,
}

/// What becomes of a guarded place beside a grant. Both are real paths.
fn judge(by: By, grant: &Path, place: &Guarded) -> Verdict {
    let holds = place.path.starts_with(grant) && place.path != grant;
    let lies_in = grant.starts_with(&place.path);
    match place.what {
        // A folder of the user's home is what the contract may well name: it was looked at for credentials.
        What::Home if by != By::System => Verdict::Apart,
        _ if holds => Verdict::Hide,
        What::Repository | What::Worktrees | What::Key | What::Credential if lies_in => Verdict::Refuse,
        _ => Verdict::Apart,
    }
}

fn refusal(by: By, grant: &Path, place: &Guarded, image: Option<Adapter>) -> Error {
    let (halt, what) = match place.what {
        What::Repository => (HaltReason::IsolationUnsatisfiable, "the repository"),
        What::Checkout => (HaltReason::IsolationUnsatisfiable, "a worktree of the repository,"),
        What::Worktrees => (HaltReason::IsolationUnsatisfiable, "the folder of the loops' worktrees,"),
        What::Key => (HaltReason::CredentialScopeInvalid, "the signing key"),
        What::Home | What::Credential => (HaltReason::CredentialScopeInvalid, "the credentials in"),
    };
    let who = match by {
        By::System => "what every sandbox may read,",
        By::Preset => "what sandbox.presets gives to worker and check,",
        By::Contract => "what sandbox.read_only gives to worker and check,",
    };
    let (grant, place) = (grant.display(), place.path.display());
    let error = match image {
        None => Error::new(Kind::Halt(halt), format!("{who} {grant}, lies in {what} {place}")),
        Some(adapter) => Error::new(
            Kind::Halt(halt),
            format!("{who} {grant}, holds {what} {place}, which {adapter} cannot leave out"),
        ),
    };
    error.hint(
        "name the folders that the command needs, one by one, and none that holds the repository or a key",
    )
}

/// The files of the keys that are configured. What is no path of a file that is there is a literal key, or one of the agent.
fn configured_keys(repo: &Repo, host: &HostEnv) -> Vec<PathBuf> {
    let config = repo.config();
    let base = repo.worktree_root().unwrap_or_else(|| repo.common_dir());
    let mut files = Vec::new();
    for name in ["loop.signingKey", "user.signingkey"] {
        let Some(value) = config.get(name) else { continue };
        let path = match (value.trim().strip_prefix("~/"), host.home_dir()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => base.join(value.trim()),
        };
        files.extend(crate::sign::private_parts(&path));
    }
    files
}

/// Those that are there, without links.
fn real(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.into_iter().filter_map(|path| path.canonicalize().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_inside_a_grant_is_hidden_and_a_grant_inside_a_place_is_refused() {
        use By::{Contract, Preset, System};
        use What::{Checkout, Credential, Home, Key, Repository, Worktrees};
        let cases = [
            (System, "/opt", Repository, "/opt/app/.git", "hide"),
            (System, "/opt", Checkout, "/opt/app", "hide"),
            (System, "/opt", Worktrees, "/opt/wt", "hide"),
            (System, "/opt", Home, "/opt/ann", "hide"),
            (System, "/opt", Home, "/opt", "apart"),
            (System, "/opt", Home, "/", "apart"),
            (System, "/etc", Key, "/etc/loops/runner", "hide"),
            (Contract, "/srv/app", Repository, "/srv/app/.git", "hide"),
            (Contract, "/srv/app", Checkout, "/srv/app", "apart"),
            (Contract, "/srv/app/venv", Checkout, "/srv/app", "apart"),
            (Contract, "/srv", Checkout, "/srv/app", "hide"),
            (Contract, "/srv/app/.git", Repository, "/srv/app/.git", "refuse"),
            (Contract, "/srv/app/.git/hooks", Repository, "/srv/app/.git", "refuse"),
            (Contract, "/home/ann", Home, "/home/ann", "apart"),
            (Contract, "/home", Home, "/home/ann", "apart"),
            (Contract, "/keys", Key, "/keys/runner", "hide"),
            (Contract, "/keys/runner", Key, "/keys/runner", "refuse"),
            (Contract, "/wt/1234/loop-a-1", Worktrees, "/wt/1234", "refuse"),
            (Preset, "/srv/app", Repository, "/srv/app/.git", "hide"),
            (Preset, "/home/ann", Credential, "/home/ann/.ssh", "hide"),
            (Preset, "/srv/apple", Checkout, "/srv/app", "apart"),
        ];
        for (by, grant, what, place, expected) in cases {
            let guarded = Guarded { what, path: place.into() };
            let got = match judge(by, Path::new(grant), &guarded) {
                Verdict::Apart => "apart",
                Verdict::Hide => "hide",
                Verdict::Refuse => "refuse",
            };
            assert_eq!(got, expected, "{by:?} {grant} {what:?} {place}");
        }
    }
}
