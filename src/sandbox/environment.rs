//! The environment of a worker and of a check: an allow-list, on top of folders made for this one run.
//!
//! Nothing of the user's environment gets through but what is named here or in the contract. The functions are pure: the host's
//! environment is an argument; only [`fresh_home`] and [`link_home`] touch the disk.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::toolchain::Toolchain;

/// The environment of whoever started us, as a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostEnv(BTreeMap<OsString, OsString>);

impl HostEnv {
    /// This process's own.
    pub fn current() -> Self {
        std::env::vars_os().collect()
    }

    /// A variable that is set and not empty.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.0.get(name.as_ref()).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// The user's home folder.
    pub fn home(&self) -> Option<PathBuf> {
        self.get("HOME").map(PathBuf::from)
    }

    /// The absolute folders of `PATH`.
    pub fn path_dirs(&self) -> Vec<PathBuf> {
        let path = self.get("PATH").unwrap_or_default();
        std::env::split_paths(path).filter(|dir| dir.is_absolute()).collect()
    }
}

impl FromIterator<(OsString, OsString)> for HostEnv {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

/// The folders of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// `HOME`.
    pub home: PathBuf,
    /// `TMPDIR`.
    pub tmp: PathBuf,
    /// `XDG_RUNTIME_DIR`.
    pub runtime: PathBuf,
}

/// Makes the folders of one run below `scratch`, for this user only. They must not exist: nothing of an earlier run is used again.
pub fn fresh_home(scratch: &Path) -> io::Result<Home> {
    let at = |name: &str| scratch.join(name);
    let home = Home { home: at("home"), tmp: at("tmp"), runtime: at("run") };
    std::fs::create_dir_all(scratch)?;
    for dir in [&home.home, &home.tmp, &home.runtime] {
        #[cfg_attr(not(unix), allow(unused_mut))]
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(dir)?;
    }
    for dir in [".cache", ".config", ".local/share", ".local/state"] {
        std::fs::create_dir_all(home.home.join(dir))?;
    }
    Ok(home)
}

/// Puts the links that a toolchain wants into a fresh home. What does not exist on this host is left out.
pub fn link_home(home: &Home, toolchain: &Toolchain) -> io::Result<()> {
    for link in toolchain.home_links.iter().filter(|link| link.target.exists()) {
        let at = home.home.join(&link.link);
        if let Some(above) = at.parent() {
            std::fs::create_dir_all(above)?;
        }
        symlink(&link.target, &at)?;
    }
    Ok(())
}

#[cfg(unix)]
fn symlink(target: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
fn symlink(_target: &Path, _at: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "no symlinks on this system"))
}

/// Why a variable cannot be passed through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// Its name is none.
    #[error("{name:?} is not the name of an environment variable")]
    BadName {
        /// The name.
        name: String,
    },
    /// It is one of those that the sandbox sets or keeps out.
    #[error("environment variable {name} cannot be passed through: {why}")]
    Refused {
        /// The name.
        name: String,
        /// Why.
        why: &'static str,
    },
}

impl From<EnvironmentError> for crate::error::Error {
    fn from(error: EnvironmentError) -> Self {
        Self::usage(error.to_string()).hint("remove it from `env` in loop.toml")
    }
}

/// Whether a contract may name this variable in `env`.
pub fn passable(name: &str) -> Result<(), EnvironmentError> {
    let mut letters = name.bytes();
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !letters.next().is_some_and(|first| word(first) && !first.is_ascii_digit()) || !letters.all(word) {
        return Err(EnvironmentError::BadName { name: name.into() });
    }
    let starts = |prefix: &str| name.starts_with(prefix);
    let why = if starts("GIT_") {
        "it would lead git out of the worktree, or name this loop"
    } else if starts("SSH_") || starts("GPG_") || name == "GNUPGHOME" {
        "it leads to the user's keys"
    } else if starts("LD_") || starts("DYLD_") || name == "BASH_ENV" || name == "ENV" || starts("BASH_FUNC_")
    {
        "it runs code in every program"
    } else if starts("XDG_") || ["HOME", "PATH", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"].contains(&name) {
        "the sandbox sets it"
    } else {
        return Ok(());
    };
    Err(EnvironmentError::Refused { name: name.into(), why })
}

/// What an environment is made from.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The folders of this run.
    pub home: &'a Home,
    /// The tools.
    pub toolchain: &'a Toolchain,
    /// The top of the worktree.
    pub worktree: &'a Path,
    /// The system's program folders, see [`trusted_dirs`](super::shell::trusted_dirs).
    pub system_dirs: &'a [PathBuf],
    /// Variables that the contract passes through by name.
    pub pass: &'a [String],
    /// Where their values come from.
    pub host: &'a HostEnv,
}

/// A whole environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Names and values, sorted, no name twice.
    pub vars: Vec<(OsString, OsString)>,
    /// The values that were passed through, to be redacted in what is kept.
    pub secrets: Vec<OsString>,
    /// Names to be passed through that the host does not have.
    pub missing: Vec<String>,
}

/// What a worker sees: the user's language, no terminal, its own `HOME`.
pub fn worker_env(request: &Request<'_>) -> Result<Environment, EnvironmentError> {
    let mut vars = common(request);
    set(&mut vars, "TERM", "dumb");
    set(&mut vars, "LANG", "C.UTF-8");
    for name in ["LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ"] {
        if let Some(value) = request.host.get(name) {
            set(&mut vars, name, value);
        }
    }
    finish(vars, request)
}

/// What a check sees: the same on every machine, as far as an environment can do that. `source_date_epoch` is in seconds since 1970,
/// and taken from the contract so that it is the same in every iteration.
pub fn check_env(request: &Request<'_>, source_date_epoch: i64) -> Result<Environment, EnvironmentError> {
    let mut vars = common(request);
    for (name, value) in
        [("TZ", "UTC"), ("LC_ALL", "C.UTF-8"), ("LANG", "C.UTF-8"), ("PYTHONHASHSEED", "0"), ("CI", "true")]
    {
        set(&mut vars, name, value);
    }
    set(&mut vars, "SOURCE_DATE_EPOCH", source_date_epoch.to_string());
    finish(vars, request)
}

type Vars = BTreeMap<OsString, OsString>;

fn set(vars: &mut Vars, name: impl Into<OsString>, value: impl Into<OsString>) {
    vars.insert(name.into(), value.into());
}

fn common(request: &Request<'_>) -> Vars {
    let Request { home, toolchain, worktree, .. } = request;
    let mut vars = Vars::new();
    let at = |name: &str| home.home.join(name);
    set(&mut vars, "HOME", &home.home);
    set(&mut vars, "TMPDIR", &home.tmp);
    set(&mut vars, "XDG_RUNTIME_DIR", &home.runtime);
    set(&mut vars, "XDG_CACHE_HOME", at(".cache"));
    set(&mut vars, "XDG_CONFIG_HOME", at(".config"));
    set(&mut vars, "XDG_DATA_HOME", at(".local/share"));
    set(&mut vars, "XDG_STATE_HOME", at(".local/state"));

    set(&mut vars, "GIT_CONFIG_NOSYSTEM", "1");
    set(&mut vars, "GIT_CONFIG_GLOBAL", at(".gitconfig"));
    set(&mut vars, "GIT_TERMINAL_PROMPT", "0");
    // A check's worktree is no repository: git must not take one further up for it.
    if let Some(above) = worktree.parent() {
        set(&mut vars, "GIT_CEILING_DIRECTORIES", above);
    }

    for (name, value) in &toolchain.env {
        set(&mut vars, name, value);
    }
    let mut dirs: Vec<&PathBuf> = Vec::new();
    // Where a worktree lies inside a toolchain's folder nothing is gained by refusing it; a program folder inside a worktree is another matter.
    for dir in toolchain.path_dirs.iter().chain(request.system_dirs) {
        if !dirs.contains(&dir) && !dir.starts_with(worktree) {
            dirs.push(dir);
        }
    }
    // The only way this fails is a colon in a folder's name, and such a folder cannot be in any PATH.
    dirs.retain(|dir| !dir.as_os_str().as_encoded_bytes().contains(&b':'));
    set(&mut vars, "PATH", std::env::join_paths(dirs).unwrap_or_default());
    vars
}

fn finish(mut vars: Vars, request: &Request<'_>) -> Result<Environment, EnvironmentError> {
    let (mut secrets, mut missing) = (Vec::new(), Vec::new());
    for name in request.pass {
        passable(name)?;
        match request.host.get(name) {
            Some(value) => {
                set(&mut vars, name, value);
                secrets.push(value.to_owned());
            }
            None => missing.push(name.clone()),
        }
    }
    Ok(Environment { vars: vars.into_iter().collect(), secrets, missing })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn host(pairs: &[(&str, &str)]) -> HostEnv {
        pairs.iter().map(|&(name, value)| (name.into(), value.into())).collect()
    }

    fn home() -> Home {
        Home { home: "/s/home".into(), tmp: "/s/tmp".into(), runtime: "/s/run".into() }
    }

    fn names(environment: &Environment) -> Vec<String> {
        environment.vars.iter().map(|(name, _)| name.to_str().unwrap().to_owned()).collect()
    }

    fn value<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
        environment.vars.iter().find(|(key, _)| key == name).map(|(_, value)| value.to_str().unwrap())
    }

    #[test]
    fn field_report_1_43_nothing_gets_through_that_was_not_named() {
        let host = host(&[
            ("SECRET", "hunter2"),
            ("TOKEN", "t0ken"),
            ("SSH_AUTH_SOCK", "/tmp/agent"),
            ("GIT_DIR", "/elsewhere"),
            ("GIT_CONFIG_COUNT", "1"),
            ("LD_PRELOAD", "/evil.so"),
            ("PYTHONPATH", "/evil"),
            ("PATH", "/evil/bin"),
            ("HOME", "/root"),
            ("TERM", "xterm"),
            ("LANG", "de_DE.UTF-8"),
        ]);
        let toolchain = Toolchain {
            env: vec![("CARGO_NET_OFFLINE".into(), "true".into())],
            path_dirs: vec!["/t/bin".into(), "/wt/tree/bin".into(), "/usr/bin".into()],
            ..Toolchain::default()
        };
        let (home, system, pass) =
            (home(), ["/usr/bin".into(), "/bin".into()], ["TOKEN".into(), "ABSENT".into()]);
        let request = Request {
            home: &home,
            toolchain: &toolchain,
            worktree: Path::new("/wt/tree"),
            system_dirs: &system,
            pass: &pass,
            host: &host,
        };
        let check = check_env(&request, 1_700_000_000).unwrap();
        let want = [
            "CARGO_NET_OFFLINE",
            "CI",
            "GIT_CEILING_DIRECTORIES",
            "GIT_CONFIG_GLOBAL",
            "GIT_CONFIG_NOSYSTEM",
            "GIT_TERMINAL_PROMPT",
            "HOME",
            "LANG",
            "LC_ALL",
            "PATH",
            "PYTHONHASHSEED",
            "SOURCE_DATE_EPOCH",
            "TMPDIR",
            "TOKEN",
            "TZ",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_RUNTIME_DIR",
            "XDG_STATE_HOME",
        ];
        assert_eq!(names(&check), want);
        assert_eq!(value(&check, "PATH"), Some("/t/bin:/usr/bin:/bin"));
        assert_eq!(value(&check, "HOME"), Some("/s/home"));
        assert_eq!(value(&check, "GIT_CEILING_DIRECTORIES"), Some("/wt"));
        assert_eq!(value(&check, "SOURCE_DATE_EPOCH"), Some("1700000000"));
        assert_eq!(check.secrets, ["t0ken"]);
        assert_eq!(check.missing, ["ABSENT"]);

        let worker = worker_env(&request).unwrap();
        assert_eq!(value(&worker, "TERM"), Some("dumb"));
        assert_eq!(value(&worker, "LANG"), Some("de_DE.UTF-8"));
        assert_eq!(value(&worker, "SECRET"), None);
        assert_eq!(value(&worker, "CI"), None);
    }

    #[test]
    fn field_report_1_70_keys_and_loaders_cannot_be_passed() {
        for name in [
            "SSH_AUTH_SOCK",
            "GPG_AGENT_INFO",
            "GIT_DIR",
            "GIT_LOOP_ID",
            "LD_PRELOAD",
            "BASH_ENV",
            "HOME",
            "PATH",
        ] {
            assert!(matches!(passable(name), Err(EnvironmentError::Refused { .. })), "{name}");
        }
        for name in ["", "1A", "A B", "A=B", "Ä", "A\0"] {
            assert!(matches!(passable(name), Err(EnvironmentError::BadName { .. })), "{name}");
        }
        for name in ["ANTHROPIC_API_KEY", "_x", "HTTPS_PROXY"] {
            assert_eq!(passable(name), Ok(()));
        }
    }

    #[test]
    fn a_home_is_fresh_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = dir.path().join("a/b");
        let home = fresh_home(&scratch).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&home.home.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(fresh_home(&scratch).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
