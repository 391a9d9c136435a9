//! Who signs in a repository: the person's key, a runner's own key, and the principals that they are known by.

use std::path::{Path, PathBuf};

use ssh_key::PublicKey;

use super::trust::TrustPlace;
use crate::contract::scaffold::Principals;
use crate::error::{Error, Result};
use crate::git::{GitCommand, Repo};
use crate::host::host_name;
use crate::sign::enroll::{self, Enrolled};
use crate::sign::newkey::NewKey;
use crate::sign::{KeyOrigin, KeyRequest, KeySpec, named_public_key};

/// The config key that names the key that signs.
pub const SIGNING_KEY: &str = "loop.signingKey";

/// Who signs here. Nothing is written before [`Runner::write`] and the trust file's own function.
#[derive(Debug)]
pub struct People {
    /// The person, with the key as it was named.
    pub user: Option<(Enrolled, NamedKey)>,
    /// The runner, if it has a key of its own.
    pub runner: Option<Runner>,
}

/// A runner with a key of its own.
#[derive(Debug)]
pub struct Runner {
    /// Its principal.
    pub enrolled: Enrolled,
    /// Where its key is, or will be.
    pub path: PathBuf,
    new: Option<NewKey>,
}

impl People {
    /// Finds out who signs. `text` is that of the trust file at `place`; `flag` is the key that the command line names,
    /// relative to `directory`.
    pub fn find(
        repo: &Repo,
        place: &TrustPlace,
        text: &str,
        flag: Option<&str>,
        directory: &Path,
        runner_key: bool,
    ) -> Result<Self> {
        let at = repo.host().now();
        let known = |key: &PublicKey| {
            Enrolled::known(text, key, at).map_err(|cause| {
                Error::workspace(format!(
                    "the allowed-signers file {} cannot be used",
                    place.path().display()
                ))
                .caused_by(cause)
                .hint("mend the line; the format is that of ALLOWED SIGNERS in ssh-keygen(1)")
            })
        };
        // A repository whose runner has a key of its own keeps it: that key is nobody else's.
        let in_use = repo.config().get(SIGNING_KEY).is_some_and(|key| Path::new(&key) == runner_path(repo));
        let runner = if runner_key || in_use { Some(find_runner(repo, known)?) } else { None };
        let own = runner.as_ref().map(|(_, public)| public);
        let user = match user_key(repo, flag, directory, own)? {
            Some(key) => {
                let enrolled = match known(&key.public)? {
                    Some(enrolled) => enrolled,
                    None => Enrolled::new(&user_email(repo)?, &key.public),
                };
                Some((enrolled, key))
            }
            None => None,
        };
        let runner = runner.map(|(runner, _)| runner);
        if user.is_none() && runner.is_none() {
            return Err(Error::workspace("there is no signing key")
                .hint("git config user.signingkey ~/.ssh/id_ed25519.pub, or pass --key FILE")
                .hint("to make one: ssh-keygen -t ed25519")
                .hint("with a key for the runner alone: git loop init --runner-key"));
        }
        if let (Some((user, _)), Some(runner)) = (&user, &runner)
            && user.principal == runner.enrolled.principal
        {
            return Err(Error::workspace(format!("you and the runner would both be {}", user.principal))
                .hint("git config user.email you@example.org, or correct the allowed-signers file"));
        }
        Ok(Self { user, runner })
    }

    /// Their principals, for the roles of a contract.
    pub fn principals(&self) -> Principals {
        Principals {
            runner: self.runner.as_ref().map(|runner| runner.enrolled.principal.clone()),
            user: self.user.as_ref().map(|(enrolled, _)| enrolled.principal.clone()),
        }
    }

    /// The lines that the trust file lacks.
    pub fn missing_lines(&self) -> Vec<String> {
        let user = self.user.as_ref().map(|(enrolled, _)| enrolled);
        let runner = self.runner.as_ref().map(|runner| &runner.enrolled);
        user.into_iter().chain(runner).filter_map(|enrolled| enrolled.line.clone()).collect()
    }
}

impl Runner {
    /// Writes the key, if it is new. Whether it was.
    pub fn write(&self) -> Result<bool> {
        let Some(key) = &self.new else { return Ok(false) };
        key.write(&self.path)?;
        Ok(true)
    }
}

/// Where a runner's own key is kept: in the git folder that all worktrees share. A sandbox grants that to
/// no worker and no check; without one (adapter `none`) whoever runs as the user can read it.
fn runner_path(repo: &Repo) -> PathBuf {
    repo.common_dir().join("loops").join("keys").join("runner")
}

/// The runner's own key and its public half: the one that was made before, else a new one.
fn find_runner(
    repo: &Repo,
    known: impl Fn(&PublicKey) -> Result<Option<Enrolled>>,
) -> Result<(Runner, PublicKey)> {
    let path = runner_path(repo);
    let Some(value) = path.to_str() else {
        return Err(Error::workspace(format!("the path {} is not UTF-8", path.display()))
            .hint("move the repository to a path of plain characters"));
    };
    let principal = runner_principal(&host_name());
    let (public, new) = if path.exists() {
        let spec = KeySpec::new(value, KeyOrigin::LoopConfig);
        (named_public_key(&KeyRequest::from_environment(spec, repo.common_dir()))?, None)
    } else {
        let key = NewKey::generate(&principal)?;
        (key.public(), Some(key))
    };
    let enrolled = known(&public)?.unwrap_or_else(|| Enrolled::new(&principal, &public));
    Ok((Runner { enrolled, path, new }, public))
}

/// The principal of a runner on the machine of this name.
fn runner_principal(host: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let host: String = host.to_ascii_lowercase().chars().filter(|c| plain(*c)).collect();
    if host.is_empty() { "runner@localhost".to_owned() } else { format!("runner@{host}") }
}

/// A key that the configuration or the command line names.
#[derive(Debug, Clone)]
pub struct NamedKey {
    /// As it was named, to be given to `--key` again.
    pub value: String,
    /// The public key.
    pub public: PublicKey,
}

/// The person's key: `flag`, else `loop.signingKey`, else `user.signingkey`. One that is `runner` is passed over in the
/// configuration, and refused in the flag.
fn user_key(
    repo: &Repo,
    flag: Option<&str>,
    directory: &Path,
    runner: Option<&PublicKey>,
) -> Result<Option<NamedKey>> {
    let config = |name: &str| repo.config().get(name).filter(|value| !value.trim().is_empty());
    let top = repo.worktree_root().unwrap_or(directory);
    let candidates = [
        (flag.map(ToOwned::to_owned), KeyOrigin::Flag, directory),
        (config(SIGNING_KEY), KeyOrigin::LoopConfig, top),
        (config("user.signingkey"), KeyOrigin::UserConfig, top),
    ];
    for (value, origin, base_dir) in candidates {
        let Some(value) = value else { continue };
        let request = KeyRequest::from_environment(KeySpec::new(value.clone(), origin), base_dir);
        let public = named_public_key(&request)?;
        if runner.is_none_or(|runner| runner.key_data() != public.key_data()) {
            return Ok(Some(NamedKey { value, public }));
        }
        if origin == KeyOrigin::Flag {
            return Err(Error::usage("--key names the runner's own key")
                .hint("name the key of the person who reviews, or leave --key out"));
        }
    }
    Ok(None)
}

/// Sets [`SIGNING_KEY`] in the repository's own configuration. None if it names that key already, else what it was.
pub fn set_signing_key(repo: &Repo, path: &Path) -> Result<Option<Option<String>>> {
    let before = repo.config().get(SIGNING_KEY);
    if before.as_deref().is_some_and(|before| Path::new(before) == path) {
        return Ok(None);
    }
    GitCommand::in_repo(repo)?.args(["config", "--local", SIGNING_KEY]).arg(path).run()?;
    Ok(Some(before))
}

/// The address of the user: `user.email`, else what git would take from the environment.
pub fn user_email(repo: &Repo) -> Result<String> {
    let environment = ["GIT_COMMITTER_EMAIL", "GIT_AUTHOR_EMAIL", "EMAIL"];
    let host = repo.host();
    let email = repo
        .config()
        .get("user.email")
        .or_else(|| environment.iter().find_map(|name| host.str_var(name).map(ToOwned::to_owned)))
        .filter(|email| !email.is_empty())
        .ok_or_else(|| {
            Error::workspace("there is no user.email, which the trust file names you by")
                .hint("git config user.email you@example.org")
        })?;
    if enroll::is_principal(&email) {
        return Ok(email);
    }
    Err(Error::workspace(format!("user.email = {email:?} cannot be a principal of the trust file")).hint(
        "a principal has no spaces, commas, quotes or wildcards: git config user.email you@example.org",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_machine_gives_a_principal() {
        for (host, principal) in
            [("Box-1.local", "runner@box-1.local"), ("", "runner@localhost"), ("a b,\"*é", "runner@ab")]
        {
            assert_eq!(runner_principal(host), principal);
            assert!(enroll::is_principal(principal));
        }
    }
}
