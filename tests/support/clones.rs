//! Several clones of one bare repository, each with a key of its own.

use std::path::{Path, PathBuf};

use super::{Output, TestEnv};

/// A bare repository `origin.git` that has the branch `main` of the test's repository.
pub fn bare(env: &TestEnv) -> PathBuf {
    let path = env.root().join("origin.git");
    let url = format!("file://{}", path.display());
    env.git(&["init", "--quiet", "--bare", path.to_str().unwrap()]);
    env.git(&["remote", "add", "origin", &url]);
    env.git(&["push", "--quiet", "origin", "HEAD:refs/heads/main"]);
    path
}

/// A clone of it that signs with the key `key`.
pub fn clone<'a>(env: &'a TestEnv, name: &str, key: &str) -> Clone<'a> {
    let path = env.root().join(name);
    let url = format!("file://{}", env.root().join("origin.git").display());
    env.git_in(&env.root(), &["clone", "--quiet", &url, path.to_str().unwrap()]);
    let clone = Clone { env, path };
    clone.git(&["config", "user.signingkey", env.key(key).to_str().unwrap()]);
    clone.git(&["config", "loop.allowedSigners", env.trust_file().to_str().unwrap()]);
    let toml = std::fs::read(env.repo().join("loop.toml")).unwrap();
    std::fs::write(clone.path.join("loop.toml"), toml).unwrap();
    std::fs::write(clone.path.join(".git/info/exclude"), "loop.toml\n").unwrap();
    clone
}

/// One clone.
pub struct Clone<'a> {
    /// Where everything is.
    pub env: &'a TestEnv,
    /// Its work tree.
    pub path: PathBuf,
}

impl Clone<'_> {
    /// Runs git; it must succeed.
    #[track_caller]
    pub fn git(&self, args: &[&str]) -> String {
        self.env.git_in(&self.path, args)
    }

    /// Runs `git-loop`; its exit code must be `code`.
    #[track_caller]
    pub fn run(&self, code: i32, args: &[&str]) -> Output {
        self.env.git_loop_in(&self.path, args).expect_code(code)
    }

    /// Synchronises everything.
    #[track_caller]
    pub fn sync(&self) -> Output {
        self.run(0, &["sync"])
    }

    /// Where a ref is.
    pub fn id(&self, name: &str) -> String {
        self.env.try_git_in(&self.path, &["rev-parse", "--verify", "--quiet", name]).stdout.trim().to_owned()
    }

    /// The kinds of the records of a ledger, the oldest first.
    pub fn kinds(&self, name: &str) -> String {
        kinds(self.env, &self.path, name)
    }

    /// Everything that no synchronisation may touch, as one text to compare.
    pub fn users_things(&self) -> String {
        let mut text = self.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        let ours = |line: &&str| {
            line.starts_with("refs/loops/")
                || line.starts_with("refs/loops-aside/")
                || line.starts_with("refs/notes/loops/")
                || line.starts_with("refs/remotes/origin/loops/")
        };
        text = text.lines().filter(|line| !ours(line)).collect::<Vec<_>>().join("\n");
        text.push_str(&self.git(&["status", "--porcelain=v1", "--ignored"]));
        text.push_str(&self.git(&["symbolic-ref", "HEAD"]));
        text.push_str(&self.git(&["ls-files", "--stage"]));
        text.push_str(&self.git(&["stash", "list"]));
        for name in ["config", "FETCH_HEAD", "packed-refs", "ORIG_HEAD"] {
            text.push_str(&std::fs::read_to_string(self.path.join(".git").join(name)).unwrap_or_default());
        }
        text
    }
}

/// The kinds of the records of a ledger in any repository, the oldest first.
pub fn kinds(env: &TestEnv, dir: &Path, name: &str) -> String {
    let format = "--format=%(trailers:key=Loop-Record,valueonly,separator=)";
    let log = env.git_in(dir, &["log", "--first-parent", "--reverse", format, name]);
    log.split_whitespace().collect::<Vec<_>>().join(" ")
}
