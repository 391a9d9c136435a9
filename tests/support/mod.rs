//! A hermetic place for one test: a home, keys, a repository, and nothing of the machine's configuration.

pub mod clones;
pub mod crash;
pub mod disk;
pub mod engine;
pub mod scenario;
pub mod twice;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use ssh_key::{Algorithm, LineEnding, PrivateKey};
use tempfile::TempDir;

/// What a command printed and how it ended.
#[derive(Debug)]
pub struct Output {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// The one JSON object on stdout.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// Fails the test unless the exit code is `code`.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails the test unless stderr contains `text`.
    #[track_caller]
    pub fn expect_stderr(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "no {text:?} in stderr:\n{}", self.stderr);
        self
    }
}

/// A hermetic place for one test.
pub struct TestEnv {
    dir: TempDir,
    repo: PathBuf,
    env: BTreeMap<String, String>,
    compared: twice::Compared,
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        twice::compare_all(self);
    }
}

/// The principal that runs loops.
pub const RUNNER: &str = "runner@example.org";
/// The principal that reviews and promotes.
pub const REVIEWER: &str = "ann@example.org";
/// The principal that approves.
pub const APPROVER: &str = "lead@example.org";

impl TestEnv {
    /// A repository with one commit, three principals with ed25519 keys, and the runner's key configured.
    pub fn new() -> Self {
        Self::with(&[], "repo")
    }

    /// The same, with more arguments for `git init` and another folder name.
    pub fn with(init: &[&str], folder: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("git-loop-test-").tempdir().expect("a temporary folder");
        // A symlinked temporary folder (macOS) would give every path two names.
        let root = dir.path().canonicalize().expect("the folder exists");
        let repo = root.join(folder);
        let home = root.join("home");
        fs::create_dir_all(home.join("tmp")).unwrap();
        let mut env: BTreeMap<String, String> = BTreeMap::new();
        let path = std::env::var("PATH").unwrap_or_default();
        for (key, value) in [
            ("PATH", path.as_str()),
            ("HOME", home.to_str().unwrap()),
            ("TMPDIR", home.join("tmp").to_str().unwrap()),
            ("XDG_CACHE_HOME", home.join("cache").to_str().unwrap()),
            ("XDG_CONFIG_HOME", home.join("config").to_str().unwrap()),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", home.join("gitconfig").to_str().unwrap()),
            ("GIT_AUTHOR_NAME", "Test"),
            ("GIT_AUTHOR_EMAIL", "test@example.org"),
            ("GIT_COMMITTER_NAME", "Test"),
            ("GIT_COMMITTER_EMAIL", "test@example.org"),
            ("GIT_AUTHOR_DATE", "2026-01-01T00:00:00+0000"),
            ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00+0000"),
            ("LC_ALL", "C.UTF-8"),
            ("TZ", "UTC"),
            ("TERM", "dumb"),
        ] {
            env.insert(key.to_owned(), value.to_owned());
        }
        // Toolchain folders are found by environment where they are not in HOME.
        for key in ["CARGO_HOME", "RUSTUP_HOME", "PYENV_ROOT"] {
            if let Ok(value) = std::env::var(key) {
                env.insert(key.to_owned(), value);
            }
        }
        let this = Self { dir, repo, env, compared: twice::Compared::default() };
        // Waiting for the disk is tested where it matters, in `power`; everywhere else it only takes time.
        let mut config = "[init]\n\tdefaultBranch = main\n[loop]\n\tfsync = false\n".to_owned();
        // The whole suite once more with overlays, which no repository of a test is large enough for.
        if let Ok(overlay) = std::env::var("GIT_LOOP_TEST_OVERLAY") {
            let _ = writeln!(config, "\toverlay = {overlay}");
        }
        fs::write(this.home().join("gitconfig"), config).unwrap();
        fs::create_dir_all(&this.repo).unwrap();
        let mut arguments = vec!["init", "--quiet"];
        arguments.extend(init);
        this.git(&arguments);
        this.make_key("runner");
        this.make_key("ann");
        this.make_key("lead");
        this.write_trust(&[("runner", RUNNER), ("ann", REVIEWER), ("lead", APPROVER)]);
        this.git(&["config", "user.signingkey", this.key("runner").to_str().unwrap()]);
        this.git(&["config", "loop.allowedSigners", this.trust_file().to_str().unwrap()]);
        this
    }

    /// The folder that holds everything of this test.
    pub fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().expect("the folder exists")
    }

    /// The repository's folder.
    pub fn repo(&self) -> &Path {
        &self.repo
    }

    /// The home folder.
    pub fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// The private key of this name.
    pub fn key(&self, name: &str) -> PathBuf {
        self.home().join(format!("keys/{name}"))
    }

    /// The allowed-signers file.
    pub fn trust_file(&self) -> PathBuf {
        self.home().join("allowed_signers")
    }

    /// Sets a variable for all commands from here.
    pub fn set_env(&mut self, key: &str, value: &str) {
        self.env.insert(key.to_owned(), value.to_owned());
    }

    /// Makes an ed25519 key pair.
    pub fn make_key(&self, name: &str) {
        let key = PrivateKey::random(&mut ssh_key::rand_core::OsRng, Algorithm::Ed25519).expect("a key");
        self.write_key(name, &key);
    }

    /// Writes a key pair.
    pub fn write_key(&self, name: &str, key: &PrivateKey) {
        let path = self.key(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        key.write_openssh_file(&path, LineEnding::LF).expect("the key is written");
        fs::write(path.with_extension("pub"), key.public_key().to_openssh().unwrap()).unwrap();
    }

    /// The public key of this name, as in an authorized-keys file.
    pub fn public_key(&self, name: &str) -> String {
        fs::read_to_string(self.key(name).with_extension("pub")).unwrap()
    }

    /// Writes the allowed-signers file from (key name, principal).
    pub fn write_trust(&self, list: &[(&str, &str)]) {
        let mut text = String::new();
        for (key, principal) in list {
            let _ =
                writeln!(text, "{principal} namespaces=\"git,git-loop-verdict\" {}", self.public_key(key));
        }
        fs::write(self.trust_file(), text).unwrap();
    }

    /// Writes a file of the repository's work tree.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.repo.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Writes an executable script outside the repository and gives its path.
    pub fn script(&self, name: &str, content: &str) -> String {
        let path = self.root().join("scripts").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        path.to_str().unwrap().to_owned()
    }

    /// Commits everything in the work tree.
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// A command in `dir` with the hermetic environment.
    pub fn command(&self, program: impl AsRef<OsStr>, dir: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(dir).env_clear().envs(&self.env).stdin(Stdio::null());
        command
    }

    /// Runs git in the repository; it must succeed. Gives stdout without the final newline.
    #[track_caller]
    pub fn git(&self, args: &[&str]) -> String {
        let output = self.try_git(args);
        assert_eq!(output.code, 0, "git {args:?}: {}", output.stderr);
        output.stdout.trim_end().to_owned()
    }

    /// Runs git in the repository.
    pub fn try_git(&self, args: &[&str]) -> Output {
        self.run_command(self.command("git", &self.repo).args(args))
    }

    /// Runs git in another folder.
    pub fn try_git_in(&self, dir: &Path, args: &[&str]) -> Output {
        self.run_command(self.command("git", dir).args(args))
    }

    /// Runs git in another folder; it must succeed.
    #[track_caller]
    pub fn git_in(&self, dir: &Path, args: &[&str]) -> String {
        let output = self.run_command(self.command("git", dir).args(args));
        assert_eq!(output.code, 0, "git {args:?}: {}", output.stderr);
        output.stdout.trim_end().to_owned()
    }

    /// Runs `git-loop` in the repository.
    #[track_caller]
    pub fn git_loop(&self, args: &[&str]) -> Output {
        self.git_loop_in(&self.repo, args)
    }

    /// Runs `git-loop` in another folder. What is verified is verified twice.
    #[track_caller]
    pub fn git_loop_in(&self, dir: &Path, args: &[&str]) -> Output {
        let output = self.run_command(self.command(env!("CARGO_BIN_EXE_git-loop"), dir).args(args));
        twice::compare(self, dir, args, &output);
        output
    }

    /// Runs any command of ours to its end.
    #[allow(clippy::unused_self, reason = "reads as one of the ways to run something in this place")]
    pub fn run_command(&self, command: &mut Command) -> Output {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Output {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Everything of the user's that a loop must not touch, as one text to compare.
    pub fn users_things(&self) -> String {
        let mut text =
            self.git(&["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags"]);
        text.push_str(&self.git(&["status", "--porcelain=v1", "--ignored"]));
        text.push_str(&self.git(&["symbolic-ref", "HEAD"]));
        text.push_str(&fs::read_to_string(self.repo.join(".git/config")).unwrap_or_default());
        text.push_str(&self.git(&["worktree", "list", "--porcelain"]));
        text
    }
}

/// Whether an optional tool is there. Without it a test returns early on a user's machine, with a printed reason; in CI,
/// where `GIT_LOOP_CI=1`, it fails.
pub fn tool(name: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()));
    if !found {
        assert!(std::env::var_os("GIT_LOOP_CI").is_none(), "{name} is needed in CI");
        eprintln!("skipped: {name} is not installed");
    }
    found
}
