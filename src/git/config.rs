//! git configuration, read as git reads it, from what the host gave us.
//!
//! Precedence, highest first: `git -c` (`GIT_CONFIG_PARAMETERS`), `GIT_CONFIG_COUNT`, the worktree's file, the
//! repository's, the user's two, the system's. Includes are followed. Every value remembers its scope, because some
//! (`safe.directory`, programs to run) mean something only where the repository did not say them.

use std::io;
use std::path::{Path, PathBuf};

use gix::bstr::{BString, ByteSlice, ByteVec};
use gix::config::file::{Metadata, includes, init};
use gix::config::{File, Source};

use super::config_env;
use crate::host::HostEnv;

/// Where a value came from, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The machine's file.
    System,
    /// The user's files.
    Global,
    /// `config` in the common git folder, and what it includes.
    Local,
    /// `config.worktree`, with `extensions.worktreeConfig`.
    Worktree,
    /// The environment: `git -c key=value` and `GIT_CONFIG_COUNT`.
    Command,
}

impl Scope {
    /// Whether whoever wrote the repository can have written it.
    pub fn is_repository(self) -> bool {
        matches!(self, Self::Local | Self::Worktree)
    }
}

/// What `loop.overlay` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlays {
    /// Overlays where they can be had and are worth it.
    Auto,
    /// Overlays, or an error.
    On,
    /// None.
    Off,
}

/// Why configuration could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file exists and cannot be read.
    #[error("cannot read the git configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not valid configuration.
    #[error("the git configuration {} is not valid", path.display())]
    Parse {
        /// The file; the fault may be in one that it includes.
        path: PathBuf,
        /// Why.
        source: Box<gix::Error>,
    },
    /// One of the variables that carry configuration is malformed.
    #[error("{name} {problem}")]
    Environment {
        /// The variable.
        name: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// A value of the wrong kind.
    #[error("{key} = {value:?} in the git configuration is not {expected}")]
    Value {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

impl From<ConfigError> for crate::error::Error {
    fn from(error: ConfigError) -> Self {
        let hint = match &error {
            ConfigError::Read { path, .. } | ConfigError::Parse { path, .. } => {
                format!("mend it: git config --file {} --list", path.display())
            }
            ConfigError::Environment { name, .. } => format!("unset {name} and try again"),
            ConfigError::Value { key, .. } => format!("find it: git config --show-origin --get-all {key}"),
        };
        Self::workspace("the git configuration cannot be used").caused_by(error).hint(hint)
    }
}

/// One value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// `section.subsection.name`, section and name in small letters.
    pub key: BString,
    /// The value; `None` where there is only a key, which as a boolean is true.
    pub value: Option<BString>,
    /// Where it came from.
    pub scope: Scope,
    /// The file, if it is in one.
    pub path: Option<PathBuf>,
}

/// The configuration of one repository, or of none.
#[derive(Debug, Clone)]
pub struct Config {
    /// The weakest first.
    entries: Vec<ConfigEntry>,
    home: Option<PathBuf>,
    /// What relative paths are relative to.
    base: PathBuf,
}

/// The folders a repository's configuration is read from.
#[derive(Debug, Clone, Copy)]
pub(super) struct RepoDirs<'a> {
    pub git_dir: &'a Path,
    pub common_dir: &'a Path,
    /// What relative paths are relative to: git runs in the top folder of the work tree, or in a bare repository.
    pub base: &'a Path,
}

impl Config {
    /// What the machine, the user and the environment say; what no repository can have written.
    pub fn load_protected(host: &HostEnv) -> Result<Self, ConfigError> {
        Self::load_from(host, None)
    }

    pub(super) fn load(host: &HostEnv, dirs: RepoDirs<'_>) -> Result<Self, ConfigError> {
        Self::load_from(host, Some(dirs))
    }

    fn load_from(host: &HostEnv, dirs: Option<RepoDirs<'_>>) -> Result<Self, ConfigError> {
        let branch = dirs.and_then(|dirs| current_branch(dirs.git_dir));
        let includes = includes::Options::follow(
            gix::config::path::interpolate::Context {
                git_install_dir: None,
                home_dir: host.home_dir(),
                home_for_user: Some(gix::config::path::interpolate::home_for_user),
            },
            includes::conditional::Context {
                git_dir: dirs.map(|dirs| dirs.git_dir),
                branch_name: branch.as_ref().map(AsRef::as_ref),
            },
        );
        let options = init::Options { includes, lossy: true, ignore_io_errors: false };

        let mut entries = Vec::new();
        let mut add = |path: &Path, source, scope| {
            let found = read_file(path, source, scope, options)?;
            entries.extend(found);
            Ok(())
        };
        for (path, source, scope) in host_files(host) {
            add(&path, source, scope)?;
        }
        if let Some(dirs) = dirs {
            add(&dirs.common_dir.join("config"), Source::Local, Scope::Local)?;
        }
        let mut config = Self {
            entries,
            home: host.home_dir().map(Path::to_owned),
            base: dirs.map_or(host.current_dir(), |dirs| dirs.base).to_owned(),
        };
        if let Some(dirs) = dirs
            && config.get_bool("extensions.worktreeConfig")? == Some(true)
        {
            let path = dirs.git_dir.join("config.worktree");
            config.entries.extend(read_file(&path, Source::Worktree, Scope::Worktree, options)?);
        }
        for (key, value) in config_env::pairs(host)? {
            let Some(key) = normalise_key(&key) else {
                return Err(ConfigError::Environment {
                    name: format!("configuration key {key:?} in the environment"),
                    problem: "has no section",
                });
            };
            let value = value.map(BString::from);
            config.entries.push(ConfigEntry { key, value, scope: Scope::Command, path: None });
        }
        Ok(config)
    }

    /// The value that wins. A key without value gives an empty one.
    pub fn get(&self, key: &str) -> Option<String> {
        self.entry(key).map(|entry| text(entry.value.as_ref()))
    }

    /// Every value, the one that wins last.
    pub fn get_all(&self, key: &str) -> Vec<String> {
        self.matching(key).map(|entry| text(entry.value.as_ref())).collect()
    }

    /// The entry that wins, with its scope.
    pub fn entry(&self, key: &str) -> Option<&ConfigEntry> {
        self.matching(key).next_back()
    }

    /// Every entry, the weakest first.
    pub fn entries(&self) -> &[ConfigEntry] {
        &self.entries
    }

    fn matching(&self, key: &str) -> impl DoubleEndedIterator<Item = &ConfigEntry> {
        let key = normalise_key(key);
        self.entries.iter().filter(move |entry| Some(&entry.key) == key.as_ref())
    }

    /// A boolean as git reads them: a key without value is true; `yes`, `on`, `true` and numbers but 0 are; `no`,
    /// `off`, `false`, 0 and an empty value are false.
    pub fn get_bool(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        let Some(entry) = self.entry(key) else {
            return Ok(None);
        };
        let Some(value) = &entry.value else {
            return Ok(Some(true));
        };
        let lower = value.to_ascii_lowercase();
        match lower.as_slice() {
            b"true" | b"yes" | b"on" => Ok(Some(true)),
            b"false" | b"no" | b"off" | b"" => Ok(Some(false)),
            number => match number.to_str().ok().and_then(|number| number.parse::<i64>().ok()) {
                Some(number) => Ok(Some(number != 0)),
                None => Err(ConfigError::Value {
                    key: key.to_owned(),
                    value: text(Some(value)),
                    expected: "true or false",
                }),
            },
        }
    }

    /// A path as git reads them: `~/` and `~user/` are expanded, a relative one is relative to the top folder of the
    /// work tree (in a bare repository to the repository), an empty one is none. `:(optional)` drops a path that
    /// does not exist.
    pub fn get_path(&self, key: &str) -> Result<Option<PathBuf>, ConfigError> {
        let Some(value) = self.entry(key).and_then(|entry| entry.value.as_ref()) else {
            return Ok(None);
        };
        let (value, optional) = match value.strip_prefix(b":(optional)") {
            Some(rest) => (rest, true),
            None => (value.as_slice(), false),
        };
        if value.is_empty() {
            return Ok(None);
        }
        let path = self.expand(value).ok_or_else(|| ConfigError::Value {
            key: key.to_owned(),
            value: text(Some(&value.into())),
            expected: "a path whose home folder is known",
        })?;
        Ok((!optional || path.exists()).then_some(path))
    }

    /// Expands `~` and makes the path absolute, as [`Config::get_path`] does.
    pub fn expand(&self, path: &[u8]) -> Option<PathBuf> {
        let context = gix::config::path::interpolate::Context {
            git_install_dir: None,
            home_dir: self.home.as_deref(),
            home_for_user: Some(gix::config::path::interpolate::home_for_user),
        };
        let path = gix::config::Path::from(BString::from(path)).interpolate(context).ok()?;
        Some(self.base.join(path))
    }

    /// `loop.allowedSigners`: the file with the keys that whoever checks a ledger trusts. A path.
    pub fn loop_allowed_signers(&self) -> Result<Option<PathBuf>, ConfigError> {
        self.get_path("loop.allowedSigners")
    }

    /// `loop.signingKey`: the key of the runner, in any form that `user.signingkey` takes (a file, a literal key,
    /// `key::…`), hence text and not a path.
    pub fn loop_signing_key(&self) -> Option<String> {
        self.get("loop.signingKey").filter(|key| !key.is_empty())
    }

    /// `loop.remote`: the remote that `git loop sync` uses when it is told none.
    pub fn loop_remote(&self) -> Option<String> {
        self.get("loop.remote").filter(|remote| !remote.is_empty())
    }

    /// `loop.worktreeDir`: the folder in which the fresh worktrees are made. A path.
    pub fn loop_worktree_dir(&self) -> Result<Option<PathBuf>, ConfigError> {
        self.get_path("loop.worktreeDir")
    }

    /// `loop.fsync`: whether a decision is on the disk before it is announced. On unless it is turned off.
    pub fn loop_fsync(&self) -> Result<bool, ConfigError> {
        Ok(self.get_bool("loop.fsync")?.unwrap_or(true))
    }

    /// `loop.minFreeSpace`: the bytes that must be free where a loop writes. `k`, `m` and `g` stand for powers of 1024, as git has them.
    pub fn loop_min_free_space(&self) -> Result<u64, ConfigError> {
        const DEFAULT: u64 = 64 << 20;
        let Some(value) = self.get("loop.minFreeSpace") else { return Ok(DEFAULT) };
        let wrong = || ConfigError::Value {
            key: "loop.minFreeSpace".to_owned(),
            value: value.clone(),
            expected: "a number of bytes, such as 0, 500m or 2g",
        };
        let text = value.trim();
        let (digits, shift) = match text.as_bytes().last().map(u8::to_ascii_lowercase) {
            Some(b'k') => (&text[..text.len() - 1], 10),
            Some(b'm') => (&text[..text.len() - 1], 20),
            Some(b'g') => (&text[..text.len() - 1], 30),
            _ => (text, 0),
        };
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        number.checked_mul(1 << shift).ok_or_else(wrong)
    }

    /// `loop.overlay`: whether fresh worktrees are overlays over one read-only checkout: `auto` (where it can be had and is
    /// faster), `on` (always) or `off`.
    pub fn loop_overlay(&self) -> Result<Overlays, ConfigError> {
        const KEY: &str = "loop.overlay";
        match self.get(KEY).as_deref() {
            None | Some("" | "auto") => Ok(Overlays::Auto),
            Some("on" | "true") => Ok(Overlays::On),
            Some("off" | "false") => Ok(Overlays::Off),
            Some(other) => Err(ConfigError::Value {
                key: KEY.to_owned(),
                value: other.to_owned(),
                expected: "auto, on or off",
            }),
        }
    }

    /// `loop.minSandbox`: the weakest sandbox adapter under which this machine runs what a contract says. Only the
    /// machine, the user and the command line count: a repository must not lower the bar.
    pub fn loop_min_sandbox(&self) -> Option<String> {
        let protected = self.matching("loop.minSandbox").rfind(|entry| !entry.scope.is_repository());
        protected.map(|entry| text(entry.value.as_ref())).filter(|adapter| !adapter.is_empty())
    }

    /// `loop.protectedBranch`: the branch whose trust file and policy the gate reads.
    pub fn loop_protected_branch(&self) -> Option<String> {
        self.get("loop.protectedBranch").filter(|branch| !branch.is_empty())
    }
}

fn text(value: Option<&BString>) -> String {
    value.map_or_else(String::new, |value| value.to_str_lossy().into_owned())
}

/// Section and name in small letters, a subsection as it is. `None` if there is no section.
fn normalise_key(key: &str) -> Option<BString> {
    let (section, _) = key.split_once('.')?;
    let (rest, name) = key.rsplit_once('.')?;
    if section.is_empty() || name.is_empty() {
        return None;
    }
    let subsection = &rest[section.len()..];
    Some(format!("{}{subsection}.{}", section.to_ascii_lowercase(), name.to_ascii_lowercase()).into())
}

/// The files outside of any repository, the weakest first, as git finds them.
fn host_files(host: &HostEnv) -> Vec<(PathBuf, Source, Scope)> {
    let mut files = Vec::new();
    let no_system = host.str_var("GIT_CONFIG_NOSYSTEM").is_some_and(|value| {
        !matches!(value.to_ascii_lowercase().as_str(), "" | "0" | "false" | "no" | "off")
    });
    if !no_system {
        let path = host.non_empty_var("GIT_CONFIG_SYSTEM").map_or_else(|| system_file(host), PathBuf::from);
        files.push((path, Source::System, Scope::System));
    }
    if let Some(global) = host.var("GIT_CONFIG_GLOBAL") {
        // Set but empty means no user configuration at all.
        if !global.is_empty() {
            files.push((host.absolute(global), Source::User, Scope::Global));
        }
        return files;
    }
    let xdg = host.non_empty_var("XDG_CONFIG_HOME").map(PathBuf::from);
    if let Some(dir) = xdg.or_else(|| host.home_dir().map(|home| home.join(".config"))) {
        files.push((dir.join("git").join("config"), Source::Git, Scope::Global));
    }
    if let Some(home) = host.home_dir() {
        files.push((home.join(".gitconfig"), Source::User, Scope::Global));
    }
    files
}

/// The system file of the git on `PATH`: git compiles the path in, as `/etc/gitconfig` for the prefix `/usr` and
/// `<prefix>/etc/gitconfig` for any other. Asking git would cost a process on every start of every command.
fn system_file(host: &HostEnv) -> PathBuf {
    let prefix = host.find_program("git").and_then(|git| Some(git.parent()?.parent()?.to_owned()));
    match prefix {
        Some(prefix) if prefix != Path::new("/usr") && prefix != Path::new("/") => {
            prefix.join("etc").join("gitconfig")
        }
        _ => PathBuf::from("/etc/gitconfig"),
    }
}

fn read_file(
    path: &Path,
    source: Source,
    scope: Scope,
    options: init::Options<'_>,
) -> Result<Vec<ConfigEntry>, ConfigError> {
    let mut bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(source) => return Err(ConfigError::Read { path: path.to_owned(), source }),
    };
    let file = File::from_bytes_owned(&mut bytes, Metadata::from(source).at(path), options)
        .map_err(|source| ConfigError::Parse { path: path.to_owned(), source: Box::new(source) })?;
    let mut entries = Vec::new();
    for section in file.sections() {
        let header = section.header();
        let body = section.body();
        let mut names: Vec<_> = body.value_names().map(|name| name.to_ascii_lowercase()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let mut key = BString::from(header.name().to_ascii_lowercase());
            if let Some(subsection) = header.subsection_name() {
                key.push(b'.');
                key.push_str(subsection);
            }
            key.push(b'.');
            key.push_str(&name);
            let mut values: Vec<_> = body.values(&name).into_iter().map(Some).collect();
            // Only the last value can win, so only there does it matter that it was not even empty.
            if body.value_implicit(&name) == Some(None)
                && let Some(last) = values.last_mut()
            {
                *last = None;
            }
            let path = section.meta().path.clone();
            entries.extend(values.into_iter().map(|value| ConfigEntry {
                key: key.clone(),
                value,
                scope,
                path: path.clone(),
            }));
        }
    }
    Ok(entries)
}

/// The branch that `HEAD` names, for `includeIf.onbranch`.
fn current_branch(git_dir: &Path) -> Option<gix::refs::FullName> {
    let head = std::fs::read(git_dir.join("HEAD")).ok()?;
    let name = head.strip_prefix(b"ref: ")?.trim();
    gix::refs::FullName::try_from(name.as_bstr()).ok()
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
