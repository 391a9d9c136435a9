//! The trust root: whoever checks a ledger judges by their own list of signers, at the time of the record.

use std::path::Path;

use ssh_key::PublicKey;

use crate::at::At;
use crate::error::{Error, Result, ResultExt};
use crate::git::Repo;
use crate::sign::AllowedSigners;
use crate::sign::Revocations;
use crate::sign::{GIT_NAMESPACE, fingerprint};

/// The file in a repository that names its signers.
pub const TRUST_PATH: &str = ".loops/allowed_signers";

/// Who is known here.
#[derive(Debug)]
pub struct TrustRoot {
    /// Where the list comes from, for messages.
    pub source: String,
    /// The text of the list.
    pub text: String,
    allowed: AllowedSigners,
    revoked: Option<Revocations>,
}

/// Why a signer is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTrusted {
    /// The key is on the revocation list.
    #[error("key {0} is revoked")]
    Revoked(String),
    /// The list does not let this key sign for this principal.
    #[error("{0}")]
    Refused(String),
}

impl TrustRoot {
    /// The trust root of this repository: `loop.allowedSigners`, else `gpg.ssh.allowedSignersFile`, else
    /// `.loops/allowed_signers` of the protected branch. A missing or empty list, and a missing revocation file, fail.
    pub fn open(repo: &Repo) -> Result<Self> {
        let config = repo.config();
        let revoked = match config.get_path("gpg.ssh.revocationFile")? {
            Some(path) => Some(Revocations::load(&path).or_workspace(|| {
                format!("the revocation file {} (gpg.ssh.revocationFile) cannot be used", path.display())
            })?),
            None => None,
        };
        for key in ["loop.allowedSigners", "gpg.ssh.allowedSignersFile"] {
            if let Some(path) = config.get_path(key)? {
                return Self::from_file(&path, key, revoked);
            }
        }
        let branch = protected_branch(repo)?;
        let Some((name, commit)) = branch else {
            return Err(no_trust_root(repo, "there is no protected branch either"));
        };
        let Some(text) =
            repo.read_path_at(commit, TRUST_PATH).or_workspace(|| format!("{TRUST_PATH} cannot be read"))?
        else {
            return Err(no_trust_root(repo, &format!("{name} has no {TRUST_PATH} either")));
        };
        let text = String::from_utf8(text).or_workspace(|| format!("{name}:{TRUST_PATH} is not UTF-8"))?;
        Self::parse(text, format!("{name}:{TRUST_PATH}"), revoked)
    }

    fn from_file(path: &Path, key: &str, revoked: Option<Revocations>) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|cause| {
            Error::workspace(format!("the allowed-signers file {} ({key}) cannot be read", path.display()))
                .caused_by(cause)
                .hint(format!(
                    "put lines of `principal ssh-ed25519 AAAA…` into it, or set {key} to another file"
                ))
        })?;
        Self::parse(text, path.display().to_string(), revoked)
    }

    /// A trust root from the text of an allowed-signers file.
    pub fn parse(text: String, source: String, revoked: Option<Revocations>) -> Result<Self> {
        let allowed = AllowedSigners::parse(&text)
            .and_then(AllowedSigners::require_some)
            .or_workspace(|| format!("the allowed-signers file {source} cannot be used"))?;
        Ok(Self { source, text, allowed, revoked })
    }

    /// SHA-256, in hex, of everything that its answers depend on.
    pub fn fingerprint(&self) -> String {
        crate::canonical::sha256_of(&(&self.text, self.revoked.as_ref().map(Revocations::digest)))
    }

    /// Whether `key` may sign as `principal` in git objects at `at`.
    pub fn check(&self, principal: &str, key: &PublicKey, at: At) -> std::result::Result<(), NotTrusted> {
        self.check_in(principal, key, at, GIT_NAMESPACE)
    }

    /// Whether `key` may sign as `principal` in this namespace at `at`.
    pub fn check_in(
        &self,
        principal: &str,
        key: &PublicKey,
        at: At,
        namespace: &str,
    ) -> std::result::Result<(), NotTrusted> {
        if self.revoked.as_ref().is_some_and(|list| list.is_revoked(key)) {
            return Err(NotTrusted::Revoked(fingerprint(key)));
        }
        self.allowed
            .find(principal, key, namespace, at.timestamp())
            .map_err(|why| NotTrusted::Refused(format!("{why} ({})", self.source)))
    }

    /// The principals that `key` may sign as at `at`.
    pub fn principals(&self, key: &PublicKey, at: At) -> Vec<String> {
        if self.revoked.as_ref().is_some_and(|list| list.is_revoked(key)) {
            return Vec::new();
        }
        self.allowed.principals_for(key, GIT_NAMESPACE, at.timestamp())
    }

    /// Every principal that is named without a wildcard, in file order.
    pub fn everyone(&self) -> Vec<String> {
        self.allowed.literal_principals()
    }
}

/// The branch whose word counts: `loop.protectedBranch`, else the remote's HEAD, else `main`; with its commit. In a bare
/// repository, which is what others push to, its own branches count, and its own `HEAD` says which one is the protected:
/// a pusher could make a remote-tracking ref, or a `main` where there is none.
pub fn protected_branch(repo: &Repo) -> Result<Option<(String, gix::ObjectId)>> {
    let config = repo.config();
    let remote = config.get("loop.remote").unwrap_or_else(|| "origin".to_owned());
    let mut candidates = Vec::new();
    match config.get("loop.protectedBranch") {
        Some(name) if name.starts_with("refs/") => candidates.push(name),
        Some(name) if repo.worktree_root().is_none() => candidates.push(format!("refs/heads/{name}")),
        None if repo.worktree_root().is_none() => candidates.push("HEAD".to_owned()),
        Some(name) => {
            // What the remote has counts more than what somebody committed here.
            candidates.push(format!("refs/remotes/{remote}/{name}"));
            candidates.push(format!("refs/heads/{name}"));
        }
        None => {
            candidates.push(format!("refs/remotes/{remote}/HEAD"));
            candidates.push("refs/heads/main".to_owned());
        }
    }
    for name in candidates {
        if let Some(id) = repo.read_ref_peeled(&name).or_workspace(|| format!("{name} cannot be read"))? {
            return Ok(Some((name, id)));
        }
    }
    Ok(None)
}

fn no_trust_root(repo: &Repo, why: &str) -> Error {
    let error =
        Error::workspace(format!("nobody is trusted here: no allowed-signers file is configured, and {why}"));
    let committed = repo
        .gix()
        .head_id()
        .is_ok_and(|head| repo.read_path_at(head.detach(), TRUST_PATH).is_ok_and(|found| found.is_some()));
    if committed {
        let branch = repo.gix().head_name().ok().flatten();
        let branch = branch.map_or_else(|| "refs/heads/main".to_owned(), |name| name.to_string());
        return error
            .hint(format!(
                "{branch} has it; it counts once the protected branch of the remote has it: git push"
            ))
            .hint(format!("or go by the branch that is here: git config loop.protectedBranch {branch}"));
    }
    if repo.worktree_root().is_some_and(|top| top.join(TRUST_PATH).is_file()) {
        return error
            .hint(format!("the one in the work tree counts once the protected branch has it: git add {TRUST_PATH} && git commit"))
            .hint("which branch that is says loop.protectedBranch; else it is the remote's HEAD, else main");
    }
    error.hint("git loop init writes one, or: git config loop.allowedSigners <file>")
}
