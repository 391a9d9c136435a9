//! A throw-away repository with real git, for the tests that compare with it.

use std::io::Write as _;
use std::process::{Command, Stdio};

pub struct Repo {
    dir: tempfile::TempDir,
    gix: gix::Repository,
}

impl Repo {
    pub fn new() -> Self {
        Self::with_format("sha1")
    }

    pub fn with_format(hash: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let format = format!("--object-format={hash}");
        run(Command::new("git").args(["init", "-q", "-b", "main", &format]).current_dir(dir.path()), b"");
        let gix = gix::open_opts(dir.path(), gix::open::Options::isolated()).unwrap();
        Self { dir, gix }
    }

    /// One repository for all the cases of a test's thread.
    pub fn shared() -> &'static Self {
        thread_local!(static REPO: &'static Repo = Box::leak(Box::new(Repo::new())));
        REPO.with(|repo| *repo)
    }

    pub fn gix(&self) -> &gix::Repository {
        &self.gix
    }

    pub fn path(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// What git prints; panics if it fails.
    pub fn git(&self, args: &[&str]) -> String {
        String::from_utf8(self.git_with(args, b"", &[0])).unwrap()
    }

    /// What git prints when it is given `input` and exits with one of `codes`.
    pub fn git_with(&self, args: &[&str], input: &[u8], codes: &[i32]) -> Vec<u8> {
        let output = run(Command::new("git").args(args).current_dir(self.path()), input);
        assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "git {args:?}: {output:?}");
        output.stdout
    }

    /// The tree that `git mktree` makes of lines `<mode> <type> <id>\t<name>`, NUL-ended: it takes any name.
    pub fn mktree(&self, entries: &[(&str, gix::ObjectId, &[u8])]) -> gix::ObjectId {
        let mut input = Vec::new();
        for (mode, id, name) in entries {
            let kind = match *mode {
                "040000" => "tree",
                "160000" => "commit",
                _ => "blob",
            };
            write!(input, "{mode} {kind} {id}\t").unwrap();
            input.extend_from_slice(name);
            input.push(0);
        }
        let id = self.git_with(&["mktree", "-z", "--missing"], &input, &[0]);
        gix::ObjectId::from_hex(id.trim_ascii()).unwrap()
    }

    pub fn blob(&self, data: &str) -> gix::ObjectId {
        self.gix.write_blob(data).unwrap().detach()
    }
}

fn run(command: &mut Command, input: &[u8]) -> std::process::Output {
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"GIT_") {
            command.env_remove(name);
        }
    }
    let mut child = command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Dropping the handle closes the pipe; the inputs are smaller than a pipe holds.
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}
