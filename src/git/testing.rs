//! Repositories made by the real git in temporary folders, with nothing of the machine's configuration.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use jiff::Timestamp;

use super::{Repo, Signature};
use crate::host::{Clock, HostEnv};

/// A moment for everything that has a date.
pub(crate) const NOW: i64 = 1_700_000_000;

/// A repository with one commit, in a folder of its own that also holds its `HOME`.
pub(crate) struct TestRepo {
    // Removed when the test ends.
    _dir: tempfile::TempDir,
    path: PathBuf,
    host: HostEnv,
}

impl TestRepo {
    /// SHA-1, a work tree, one commit.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// With arguments for `git init`, and one commit.
    pub(crate) fn with(init: &[&str]) -> Self {
        let repo = Self::without_commit(init);
        repo.commit("base");
        repo
    }

    /// With arguments for `git init`, without a commit. The path has a space and a letter outside of ASCII.
    pub(crate) fn without_commit(init: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (home, path) = (root.join("home"), root.join("with späce"));
        std::fs::create_dir(&home).unwrap();
        std::fs::create_dir(&path).unwrap();
        let search = std::env::var_os("PATH").unwrap();
        let vars = [
            ("PATH", search.as_os_str()),
            ("HOME", home.as_os_str()),
            ("GIT_CONFIG_NOSYSTEM", OsStr::new("1")),
        ];
        let at = Timestamp::from_second(NOW).unwrap();
        let host = HostEnv::new(vars, &path).with_clock(Clock::Fixed(at));
        let repo = Self { _dir: dir, path, host };
        let mut args = vec!["init", "-q", "-b", "main"];
        args.extend(init);
        repo.git(args);
        repo.git(["config", "--global", "user.name", "Test"]);
        repo.git(["config", "--global", "user.email", "test@example.org"]);
        repo
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder that holds the repository and nothing that matters.
    pub(crate) fn outside(&self) -> &Path {
        self.path.parent().unwrap()
    }

    pub(crate) fn host(&self) -> &HostEnv {
        &self.host
    }

    pub(crate) fn open(&self) -> Repo {
        Repo::discover(&self.path, &self.host).unwrap()
    }

    pub(crate) fn signature(&self) -> Signature {
        Signature::new("Runner", "runner@example.org", self.host.now()).unwrap()
    }

    /// Makes an empty commit and returns its id.
    pub(crate) fn commit(&self, message: &str) -> gix::ObjectId {
        self.git(["commit", "-q", "--allow-empty", "-m", message]);
        self.id("HEAD")
    }

    pub(crate) fn id(&self, rev: &str) -> gix::ObjectId {
        self.git(["rev-parse", "--verify", "-q", rev]).trim().parse().unwrap()
    }

    /// Runs git, which must succeed, and returns what it printed.
    pub(crate) fn git<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        let output = self.try_git(args);
        assert!(output.status.success(), "git failed: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn try_git<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        self.command().args(args).output().unwrap()
    }

    /// Runs git with something on its standard input.
    pub(crate) fn git_with_input<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: impl AsRef<[u8]>,
    ) -> String {
        use std::io::Write;
        use std::process::Stdio;
        let mut command = self.command();
        let mut child = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_ref()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }

    fn command(&self) -> Command {
        let mut command = Command::new("git");
        command.env_clear().envs(self.host.vars()).current_dir(&self.path);
        let date = format!("{NOW} +0000");
        command.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
        command
    }
}
