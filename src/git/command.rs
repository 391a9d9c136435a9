//! The only place that starts git.
//!
//! Almost everything is done in this process. What is left for the program (the network, registering worktrees) runs
//! with an environment in which nothing points at a repository, with options that turn off whatever a repository's
//! configuration could make it run, without a terminal to ask at, and with messages in English.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gix::bstr::ByteSlice;

use super::Repo;
use super::config::{Config, Scope};
use crate::host::HostEnv;

/// The oldest git that is used: 2.34 is the first that signs and verifies with SSH keys.
pub const MINIMUM_VERSION: GitVersion = GitVersion(2, 34, 0);

/// A version of git, compared part by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GitVersion(pub u32, pub u32, pub u32);

impl std::fmt::Display for GitVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Why git did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no git on `PATH`.
    #[error("there is no program 'git' on PATH")]
    NotFound,
    /// It does not say its version.
    #[error("{} does not say its version, but {said:?}", program.display())]
    UnknownVersion {
        /// The program.
        program: PathBuf,
        /// What it says.
        said: String,
    },
    /// It is too old.
    #[error("{} is git {version}, and {MINIMUM_VERSION} is the oldest that is supported", program.display())]
    TooOld {
        /// The program.
        program: PathBuf,
        /// Its version.
        version: GitVersion,
    },
    /// It could not be started.
    #[error("cannot run {command}")]
    Spawn {
        /// What was to be run.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// It failed.
    #[error("{command} failed{}: {}", code.map_or_else(String::new, |code| format!(" with exit code {code}")), stderr.trim_end())]
    Failed {
        /// What was run.
        command: String,
        /// The exit code; none if a signal ended it.
        code: Option<i32>,
        /// What it said, at most the last 16 KiB.
        stderr: String,
        /// What it printed, for what reports in both ways.
        stdout: Vec<u8>,
    },
}

impl From<CommandError> for crate::error::Error {
    fn from(error: CommandError) -> Self {
        let message = error.to_string();
        match error {
            CommandError::NotFound => Self::workspace(message).hint("install git, or put its folder on PATH"),
            CommandError::UnknownVersion { program, .. } => {
                Self::workspace(message).hint(format!("try it: {} version", program.display()))
            }
            CommandError::TooOld { .. } => Self::workspace(message).hint("update git"),
            CommandError::Spawn { source, .. } => Self::workspace(message).caused_by(source),
            CommandError::Failed { .. } => Self::workspace(message),
        }
    }
}

/// The git program, found and checked.
#[derive(Debug, Clone)]
pub struct GitProgram {
    path: PathBuf,
    version: GitVersion,
}

impl GitProgram {
    /// Finds git on the host's `PATH` and asks for its version; one that is too old is an error.
    pub fn find(host: &HostEnv) -> Result<Self, CommandError> {
        let path = host.find_program("git").ok_or(CommandError::NotFound)?;
        let unchecked = Self { path, version: MINIMUM_VERSION };
        let said = GitCommand::new(&unchecked, host).arg("version").run()?.stdout;
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        let program = unchecked.path;
        let Some(version) = parse_version(&said) else {
            return Err(CommandError::UnknownVersion { program, said });
        };
        if version < MINIMUM_VERSION {
            return Err(CommandError::TooOld { program, version });
        }
        Ok(Self { path: program, version })
    }

    /// The absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version.
    pub fn version(&self) -> GitVersion {
        self.version
    }
}

/// Reads `git version 2.47.3`, `git version 2.39.5 (Apple Git-154)`, `git version 2.45.2.windows.1`.
fn parse_version(said: &str) -> Option<GitVersion> {
    let version = said.strip_prefix("git version ")?.split_whitespace().next()?;
    let mut parts = version.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.parse().ok()?;
    let digits = parts.next().unwrap_or("0");
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    Some(GitVersion(major, minor, digits[..end].parse().unwrap_or(0)))
}

/// Variables beginning with `GIT_` that reach git. All others are dropped: those that `git rev-parse --local-env-vars`
/// lists would send it to another repository, and the rest changes output, traces or runs programs. What is kept is
/// the user's own choice of configuration files and of how to reach a remote.
const KEPT_GIT_VARIABLES: &[&str] = &[
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_EXEC_PATH",
    "GIT_ASKPASS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_PROXY_COMMAND",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_SSL_CERT",
    "GIT_SSL_KEY",
    "GIT_SSL_NO_VERIFY",
];

/// Settings that win over every configuration file.
const PINNED: &[&str] = &[
    // Programs that a repository's configuration could name.
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.editor=false",
    "sequence.editor=false",
    "protocol.ext.allow=never",
    // Work that nobody asked for.
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.writeCommitGraph=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
    "push.followTags=false",
    "push.gpgSign=false",
    "fetch.prune=false",
    "fetch.pruneTags=false",
    // Output that is parsed.
    "core.quotePath=false",
    "color.ui=false",
    "advice.detachedHead=false",
    // Names that would mean something else on another system.
    "core.protectHFS=true",
    "core.protectNTFS=true",
];

/// The end of what is kept of git's messages.
const MAX_STDERR: usize = 16 * 1024;

/// What a successful git printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitOutput {
    /// Its standard output, whole.
    pub stdout: Vec<u8>,
    /// Its messages, at most the last 16 KiB.
    pub stderr: String,
}

/// One run of git, being put together.
#[derive(Debug)]
pub struct GitCommand {
    command: Command,
    shown: Vec<OsString>,
    stdin: Option<Vec<u8>>,
}

impl GitCommand {
    /// A run in the host's current folder, of no particular repository.
    pub fn new(program: &GitProgram, host: &HostEnv) -> Self {
        let mut command = Command::new(&program.path);
        command.env_clear().envs(host.vars().iter().filter(|(name, _)| is_kept(name)));
        command
            .env("LC_ALL", "C")
            .env("LANGUAGE", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_EDITOR", "false")
            .env("GIT_PAGER", "cat")
            .current_dir(host.current_dir());
        for setting in PINNED {
            command.arg("-c").arg(setting);
        }
        Self { command, shown: Vec::new(), stdin: None }
    }

    /// A run on a repository: its git folder is given explicitly, so that nothing in a work tree can redirect it.
    pub fn in_repo(repo: &Repo) -> Result<Self, CommandError> {
        let mut git = Self::new(repo.git()?, repo.host());
        git.command.arg("--git-dir").arg(repo.git_dir());
        match repo.worktree_root() {
            Some(root) => {
                git.command.arg("--work-tree").arg(root).current_dir(root);
            }
            None => {
                git.command.current_dir(repo.git_dir());
            }
        }
        Ok(git)
    }

    /// Runs in another folder.
    #[must_use]
    pub fn in_dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg.as_ref());
        self.shown.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Sets a variable, over everything else.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Lets objects that are missing in a partial clone be fetched; for what talks to a remote anyway.
    #[must_use]
    pub fn lazy_fetch(mut self) -> Self {
        self.command.env_remove("GIT_NO_LAZY_FETCH");
        self
    }

    /// Passes on what the host's environment says about configuration (`git -c http.proxy=… loop sync`). It wins over
    /// files, but not over what is pinned.
    #[must_use]
    pub fn command_config(mut self, config: &Config) -> Self {
        let entries = config.entries().iter().filter(|entry| entry.scope == Scope::Command);
        let mut count = 0;
        for entry in entries {
            let value =
                entry.value.as_ref().map_or(OsStr::new("true").into(), |value| value.to_os_str_lossy());
            self.command.env(format!("GIT_CONFIG_KEY_{count}"), entry.key.to_os_str_lossy());
            self.command.env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        self.command.env("GIT_CONFIG_COUNT", count.to_string());
        self
    }

    /// Gives it something to read. Without it, its standard input is empty.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Runs it to its end. Any exit code but 0 is an error with what git said.
    pub fn run(mut self) -> Result<GitOutput, CommandError> {
        let shown = self.shown();
        let spawn_error = |source| CommandError::Spawn { command: shown.clone(), source };
        let stdin = if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
        let child = self.command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(spawn_error)?;
        let pipe = child.stdin.take();
        let input = self.stdin.take().unwrap_or_default();
        let output = std::thread::scope(|scope| {
            // Beside reading, so that neither side waits for the other with a full pipe.
            scope.spawn(move || {
                if let Some(mut pipe) = pipe {
                    // A git that has read enough closes its end; its exit code tells whether that was well.
                    let _ = pipe.write_all(&input);
                }
            });
            child.wait_with_output()
        });
        let output = output.map_err(spawn_error)?;
        let stderr = &output.stderr[output.stderr.len().saturating_sub(MAX_STDERR)..];
        let stderr = String::from_utf8_lossy(stderr).into_owned();
        if output.status.success() {
            Ok(GitOutput { stdout: output.stdout, stderr })
        } else {
            Err(CommandError::Failed {
                command: shown,
                code: output.status.code(),
                stderr,
                stdout: output.stdout,
            })
        }
    }

    /// For messages: without the pinned options.
    fn shown(&self) -> String {
        let words = self.shown.iter().map(|word| word.to_string_lossy().into_owned());
        format!("'git {}'", words.collect::<Vec<_>>().join(" "))
    }
}

fn is_kept(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return true;
    };
    // Windows does not tell the case of variables apart.
    let upper = name.to_ascii_uppercase();
    !upper.starts_with("GIT_") || KEPT_GIT_VARIABLES.contains(&upper.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::testing::TestRepo;
    use proptest::prelude::*;

    #[test]
    fn versions_are_read_in_every_form() {
        assert_eq!(parse_version("git version 2.47.3"), Some(GitVersion(2, 47, 3)));
        assert_eq!(parse_version("git version 2.39.5 (Apple Git-154)"), Some(GitVersion(2, 39, 5)));
        assert_eq!(parse_version("git version 2.45.2.windows.1"), Some(GitVersion(2, 45, 2)));
        assert_eq!(parse_version("git version 2.50.0-rc1"), Some(GitVersion(2, 50, 0)));
        assert_eq!(parse_version("git version 2.34"), Some(GitVersion(2, 34, 0)));
        assert_eq!(parse_version("hub version 2.34"), None);
        assert!(GitVersion(2, 9, 9) < MINIMUM_VERSION);
    }

    #[cfg(unix)]
    #[test]
    fn a_git_that_is_too_old_or_none_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let repo = TestRepo::new();
        let dir = repo.outside().join("bin");
        std::fs::create_dir(&dir).unwrap();
        let fake = |script: &str| {
            let path = dir.join("git");
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            GitProgram::find(&repo.host().clone().with_var("PATH", &dir)).unwrap_err()
        };
        let error = fake("echo git version 2.30.2");
        assert!(
            error.to_string().ends_with("is git 2.30.2, and 2.34.0 is the oldest that is supported"),
            "{error}"
        );
        assert!(matches!(fake("echo hello"), CommandError::UnknownVersion { .. }));
        assert!(matches!(fake("exit 3"), CommandError::Failed { code: Some(3), .. }));
        let error = GitProgram::find(&repo.host().clone().with_var("PATH", "/nowhere")).unwrap_err();
        assert!(matches!(error, CommandError::NotFound), "{error}");
    }

    /// Field reports 2.15 and 2.16: what git exports to hooks sent tests to the real repository.
    #[test]
    fn nothing_in_the_environment_points_at_another_repository() {
        let repo = TestRepo::new();
        let git = GitProgram::find(repo.host()).unwrap();
        let local = GitCommand::new(&git, repo.host()).args(["rev-parse", "--local-env-vars"]).run().unwrap();
        let local = String::from_utf8(local.stdout).unwrap();
        assert!(local.lines().count() > 10);
        let mut host = repo.host().clone();
        for name in
            local.lines().chain(["GIT_CONFIG_KEY_0", "GIT_NAMESPACE", "GIT_TRACE", "GIT_EXTERNAL_DIFF"])
        {
            host = host.with_var(name, "/other");
        }
        let shown = "!env | grep '^GIT_' | cut -d= -f1 | sort";
        let global = repo.outside().join("home/.gitconfig");
        std::fs::write(&global, format!("[alias]\nshow-env = \"{shown}\"\n")).unwrap();
        let seen = GitCommand::new(&git, &host).arg("show-env").run().unwrap();
        let seen = String::from_utf8(seen.stdout).unwrap();
        // git itself sets the first of these for `-c`, and GIT_PREFIX for an alias.
        let expected = [
            "GIT_CONFIG_PARAMETERS",
            "GIT_EDITOR",
            "GIT_EXEC_PATH",
            "GIT_NO_LAZY_FETCH",
            "GIT_NO_REPLACE_OBJECTS",
            "GIT_OPTIONAL_LOCKS",
            "GIT_PAGER",
            "GIT_PREFIX",
            "GIT_TERMINAL_PROMPT",
            "GIT_CONFIG_NOSYSTEM",
        ];
        for name in seen.lines() {
            assert!(expected.contains(&name), "{name}");
        }
    }

    /// Field report 1.38: `core.fsmonitor` in the shared configuration is a command.
    #[cfg(unix)]
    #[test]
    fn programs_that_the_repository_names_do_not_run() {
        let repo = TestRepo::new();
        let marker = repo.outside().join("PWNED");
        let touch = format!("touch '{}'", marker.display());
        repo.git(["config", "core.fsmonitor", &format!("sh -c \"{touch}\"")]);
        let hooks = repo.path().join(".git/hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
            use std::os::unix::fs::PermissionsExt;
            std::fs::write(hooks.join(hook), format!("#!/bin/sh\n{touch}\n")).unwrap();
            std::fs::set_permissions(hooks.join(hook), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let open = repo.open();
        let linked = repo.outside().join("linked");
        let add = GitCommand::in_repo(&open).unwrap().args(["worktree", "add", "--detach"]).arg(&linked);
        add.run().unwrap();
        GitCommand::in_repo(&open).unwrap().arg("status").run().unwrap();
        assert!(!marker.exists());
        repo.git(["status"]);
        assert!(marker.exists(), "the trap would have worked");
    }

    #[test]
    fn the_command_lines_own_settings_reach_git_but_not_over_what_is_pinned() {
        let repo = TestRepo::new();
        let settings = "'http.proxy'='http://x' 'core.fsmonitor'='evil' 'a.b'";
        let host = repo.host().clone().with_var("GIT_CONFIG_PARAMETERS", settings);
        let open = Repo::discover(repo.path(), &host).unwrap();
        let get = |key: &str| {
            let git = GitCommand::in_repo(&open).unwrap().command_config(open.config());
            String::from_utf8(git.args(["config", key]).run().unwrap().stdout).unwrap()
        };
        assert_eq!(get("http.proxy"), "http://x\n");
        assert_eq!(get("core.fsmonitor"), "false\n");
        assert_eq!(get("a.b"), "true\n");
        let without = GitCommand::in_repo(&open).unwrap().args(["config", "http.proxy"]).run();
        assert!(matches!(without, Err(CommandError::Failed { code: Some(1), .. })));
    }

    #[test]
    fn input_is_given_and_failures_say_what_git_said() {
        let repo = TestRepo::new();
        let open = repo.open();
        let big = vec![b'x'; 1 << 20];
        let hash =
            GitCommand::in_repo(&open).unwrap().args(["hash-object", "--stdin"]).stdin(big).run().unwrap();
        assert_eq!(hash.stdout.len(), 41);
        let empty = GitCommand::in_repo(&open).unwrap().args(["hash-object", "--stdin"]).run().unwrap();
        assert_eq!(empty.stdout, b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n");
        let error = GitCommand::in_repo(&open).unwrap().args(["cat-file", "-p", "nope"]).run().unwrap_err();
        assert_eq!(
            error.to_string(),
            "'git cat-file -p nope' failed with exit code 128: fatal: Not a valid object name nope"
        );
    }

    proptest! {
        #[test]
        fn reading_a_version_is_total(said in any::<String>()) {
            let _ = parse_version(&said);
            let _ = parse_version(&format!("git version {said}"));
        }
    }
}
