//! Which key a setting means: every form that git takes for `user.signingkey` with `gpg.format=ssh`.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use ssh_key::PublicKey;

use super::error::KeyError;
use super::keygen::find_program;
use super::passphrase::PassphraseSource;
use super::pubkey::{self, KeyText};

/// Where a key was named; part of every message about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOrigin {
    /// `--key FILE`.
    Flag,
    /// `loop.signingKey` in git config.
    LoopConfig,
    /// `user.signingkey` in git config.
    UserConfig,
    /// What the program named by `gpg.ssh.defaultKeyCommand` printed.
    DefaultKeyCommand,
}

impl fmt::Display for KeyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "--key",
            Self::LoopConfig => "loop.signingKey",
            Self::UserConfig => "user.signingkey",
            Self::DefaultKeyCommand => "gpg.ssh.defaultKeyCommand",
        })
    }
}

/// What a setting said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpec {
    /// The text: a path, a literal public key, or `key::` and a literal public key.
    pub value: String,
    /// Who said it.
    pub origin: KeyOrigin,
}

impl KeySpec {
    /// A spec.
    pub fn new(value: impl Into<String>, origin: KeyOrigin) -> Self {
        Self { value: value.into(), origin }
    }
}

/// Everything that is needed to find and use a key. Nothing is read from the environment behind the caller's back.
#[derive(Debug, Clone)]
pub struct KeyRequest {
    /// Which key.
    pub spec: KeySpec,
    /// What `~` stands for.
    pub home: Option<PathBuf>,
    /// What a relative path is relative to: for git config the top of the worktree, for a flag the current folder.
    pub base_dir: PathBuf,
    /// The agent's socket: `SSH_AUTH_SOCK`.
    pub agent_socket: Option<PathBuf>,
    /// The absolute path of `ssh-keygen`, from [`find_program`].
    pub ssh_keygen: Option<PathBuf>,
    /// How to get a passphrase.
    pub passphrase: PassphraseSource,
}

impl KeyRequest {
    /// A request with home, agent, `ssh-keygen` and ways to ask for a passphrase from this process's environment.
    pub fn from_environment(spec: KeySpec, base_dir: impl Into<PathBuf>) -> Self {
        let home = if cfg!(windows) { env::var_os("USERPROFILE") } else { env::var_os("HOME") };
        Self {
            spec,
            home: home.filter(|home| !home.is_empty()).map(PathBuf::from),
            base_dir: base_dir.into(),
            agent_socket: env::var_os("SSH_AUTH_SOCK").filter(|socket| !socket.is_empty()).map(PathBuf::from),
            ssh_keygen: find_program("ssh-keygen", env::var_os("PATH").as_deref().unwrap_or(OsStr::new(""))),
            passphrase: PassphraseSource::from_environment(),
        }
    }

    /// The key as messages name it.
    pub(super) fn name(&self) -> String {
        match self.literal() {
            Some(literal) => format!("`{}` from {}", shortened(literal), self.spec.origin),
            None => format!("`{}` from {}", self.spec.value.trim(), self.spec.origin),
        }
    }

    fn literal(&self) -> Option<&str> {
        literal_text(first_line(&self.spec.value).trim(), self.spec.origin)
    }

    /// Is it a literal key or a file?
    pub(super) fn resolve(&self) -> Result<Named, KeyError> {
        let origin = || self.spec.origin.to_string();
        // The command prints one key a line, the first is meant; a setting has no second line.
        let value = first_line(&self.spec.value).trim();
        if value.is_empty() {
            return Err(KeyError::Empty { origin: origin() });
        }
        if let Some(literal) = self.literal() {
            return match pubkey::parse(literal) {
                Some(KeyText::Plain(key)) => Ok(Named::Literal(key)),
                _ => Err(KeyError::BadLiteral { origin: origin(), text: shortened(literal) }),
            };
        }
        if self.spec.origin == KeyOrigin::DefaultKeyCommand {
            return Err(KeyError::BadLiteral { origin: origin(), text: shortened(value) });
        }
        let path = expand(value, self.home.as_deref()).map_err(|reason| KeyError::BadPath {
            origin: origin(),
            text: value.to_owned(),
            reason,
        })?;
        Ok(Named::File(self.base_dir.join(path)))
    }
}

/// What a spec resolves to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    Literal(PublicKey),
    File(PathBuf),
}

fn first_line(value: &str) -> &str {
    value.trim_start().lines().next().unwrap_or("")
}

/// The literal key in `value`, if it is one. git knows `key::` and takes everything that starts with `ssh-`; the other types
/// without `key::` (and all of them in a flag, which names a file first) are keys only where key data follows the type.
fn literal_text(value: &str, origin: KeyOrigin) -> Option<&str> {
    if let Some(literal) = value.strip_prefix("key::") {
        return Some(literal.trim_start());
    }
    let (name, rest) = pubkey::split_field(value);
    let key_follows = pubkey::PLAIN_ALGORITHMS.contains(&name) && rest.starts_with("AAAA");
    let as_git = value.starts_with("ssh-") && origin != KeyOrigin::Flag;
    (as_git || key_follows).then_some(value)
}

/// The beginning of a public key, enough to recognise it.
fn shortened(literal: &str) -> String {
    const SHOWN: usize = 40;
    let line: String = literal.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if literal.chars().nth(SHOWN).is_some() { format!("{line}…") } else { line }
}

/// Expands `~/` and `~user/` as git does for paths in its config.
fn expand(value: &str, home: Option<&Path>) -> Result<PathBuf, String> {
    if value.starts_with("%(prefix)/") {
        return Err("git's `%(prefix)/` is not supported for keys".to_owned());
    }
    let Some(rest) = value.strip_prefix('~') else { return Ok(PathBuf::from(value)) };
    let (user, tail) = rest.split_once(['/', std::path::MAIN_SEPARATOR]).unwrap_or((rest, ""));
    let home = if user.is_empty() {
        home.map(Path::to_path_buf).ok_or_else(|| "`~` has no meaning while HOME is not set".to_owned())?
    } else {
        home_of(user).ok_or_else(|| format!("there is no user `{user}`"))?
    };
    Ok(if tail.is_empty() { home } else { home.join(tail) })
}

/// `None` for nobody, and always on Windows.
fn home_of(user: &str) -> Option<PathBuf> {
    gix::config::path::interpolate::home_for_user(user)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";
    const ECDSA: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBHwf2HMM5TRXvo2SQJjsNkiDD5KqiiNjrGVv3UUh+mMT5RHxiRtOnlqvjhQtBq0VpmpCV/PwUdhOig4vkbqAcEc=";

    fn request(value: &str, origin: KeyOrigin) -> KeyRequest {
        KeyRequest {
            spec: KeySpec::new(value, origin),
            home: Some(PathBuf::from("/home/ann")),
            base_dir: PathBuf::from("/repo"),
            agent_socket: None,
            ssh_keygen: None,
            passphrase: PassphraseSource::default(),
        }
    }

    fn resolve(value: &str) -> Result<Named, KeyError> {
        request(value, KeyOrigin::UserConfig).resolve()
    }

    #[test]
    fn report_2_60_every_form_of_signingkey_is_understood() {
        let Some(KeyText::Plain(key)) = pubkey::parse(KEY) else { panic!("a key") };
        for form in [
            KEY.to_owned(),
            format!("key::{KEY}"),
            format!(" {KEY} ann@example.org\n"),
            format!("key:: {KEY}"),
        ] {
            assert_eq!(resolve(&form).unwrap(), Named::Literal(key.clone()), "{form}");
        }
        for form in [ECDSA.to_owned(), format!("key::{ECDSA}")] {
            assert!(matches!(resolve(&form), Ok(Named::Literal(_))), "{form}");
        }
        for (form, path) in [
            ("/keys/a", "/keys/a"),
            ("keys/a.pub", "/repo/keys/a.pub"),
            ("~/.ssh/a", "/home/ann/.ssh/a"),
            ("~", "/home/ann"),
            ("./ssh-key", "/repo/ssh-key"),
            ("sk-key", "/repo/sk-key"),
            ("ecdsa-sha2-nistp256 of mine", "/repo/ecdsa-sha2-nistp256 of mine"),
            (" /a b ", "/a b"),
        ] {
            assert_eq!(resolve(form).unwrap(), Named::File(PathBuf::from(path)), "{form}");
        }
        // On Windows this is absolute; elsewhere it is a strange relative name, and never a literal.
        assert!(
            matches!(resolve(r"C:\Users\ann\.ssh\a"), Ok(Named::File(path)) if path.ends_with(r"C:\Users\ann\.ssh\a") || cfg!(windows))
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_tilde_with_a_user_asks_the_password_database() {
        assert_eq!(resolve("~root/a").unwrap(), Named::File(home_of("root").unwrap().join("a")));
        assert!(matches!(resolve("~no-such-user-here/a"), Err(KeyError::BadPath { .. })));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_origin() {
        for (form, origin) in [("", KeyOrigin::UserConfig), ("  \n", KeyOrigin::DefaultKeyCommand)] {
            assert!(matches!(request(form, origin).resolve(), Err(KeyError::Empty { .. })));
        }
        for form in ["ssh-key", "key::", "key::nothing", "ssh-ed25519 AAAA"] {
            let error = resolve(form).unwrap_err();
            assert!(matches!(error, KeyError::BadLiteral { .. }), "{form}: {error}");
            assert!(error.to_string().starts_with("user.signingkey holds"), "{error}");
        }
        assert!(matches!(resolve("%(prefix)/key"), Err(KeyError::BadPath { .. })));
        assert!(matches!(
            request("/a/file", KeyOrigin::DefaultKeyCommand).resolve(),
            Err(KeyError::BadLiteral { .. })
        ));
        let homeless = KeyRequest { home: None, ..request("~/a", KeyOrigin::Flag) };
        assert!(matches!(homeless.resolve(), Err(KeyError::BadPath { .. })));
        // A flag names a file, so that git's rule for the prefix `ssh-` does not bind it.
        assert!(matches!(request("ssh-key", KeyOrigin::Flag).resolve(), Ok(Named::File(_))));
    }

    #[test]
    fn the_first_line_of_the_default_key_command_counts() {
        let two = format!("{KEY} one\n{ECDSA} two\n");
        let Ok(Named::Literal(key)) = request(&two, KeyOrigin::DefaultKeyCommand).resolve() else {
            panic!("a key")
        };
        assert_eq!(pubkey::to_line(&key), KEY);
    }

    proptest! {
        #[test]
        fn is_total(value in ".{0,60}") {
            let request = request(&value, KeyOrigin::UserConfig);
            let _ = request.resolve();
            request.name();
        }
    }
}
