//! Worktrees against stock git, in repositories of their own.

mod linked;
#[cfg(target_os = "linux")]
mod overlays;
mod sealed_history;
mod snapshots;
mod sparse;
mod trees;
mod warm_layers;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gix::ObjectId;
use tempfile::TempDir;

use super::{
    BaseIgnores, CheckoutOptions, Manifest, Snapshot, SnapshotOptions, Violation, checkout, snapshot,
};

/// A repository that no config of this machine reaches.
struct Sandbox {
    temp: TempDir,
}

impl Sandbox {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(init: &[&str]) -> Self {
        Self::inside(tempfile::tempdir().unwrap(), init)
    }

    fn inside(temp: TempDir, init: &[&str]) -> Self {
        let sandbox = Self { temp };
        fs::create_dir(sandbox.path("home")).unwrap();
        fs::create_dir(sandbox.path("repo")).unwrap();
        fs::create_dir(sandbox.path("places")).unwrap();
        sandbox.git(&[&["init", "-q", "-b", "main"], init].concat());
        // No housekeeping of git's own in the background of a test.
        sandbox.git(&["config", "gc.auto", "0"]);
        sandbox.git(&["config", "maintenance.auto", "false"]);
        sandbox
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(name)
    }

    fn places(&self) -> PathBuf {
        self.path("places")
    }

    fn command(&self, dir: &Path, args: &[impl AsRef<OsStr>]) -> Output {
        Command::new("git")
            .args(args)
            .current_dir(dir)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path("home"))
            .envs([
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("GIT_AUTHOR_NAME", "A"),
                ("GIT_AUTHOR_EMAIL", "a@example.org"),
                ("GIT_AUTHOR_DATE", "1700000000 +0000"),
                ("GIT_COMMITTER_NAME", "C"),
                ("GIT_COMMITTER_EMAIL", "c@example.org"),
                ("GIT_COMMITTER_DATE", "1700000000 +0000"),
                ("GIT_TERMINAL_PROMPT", "0"),
                ("LC_ALL", "C"),
            ])
            .output()
            .unwrap()
    }

    fn git_in(&self, dir: &Path, args: &[&str]) -> String {
        let output = self.command(dir, args);
        assert!(
            output.status.success(),
            "git {args:?} in {}: {}{}",
            dir.display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.path("repo"), args)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        put(&self.path("repo"), path, content);
    }

    fn commit(&self) -> ObjectId {
        self.git(&["add", "-A", "--force"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "c"]);
        self.id("HEAD")
    }

    fn id(&self, rev: &str) -> ObjectId {
        self.git(&["rev-parse", rev]).parse().unwrap()
    }

    fn open(&self) -> gix::Repository {
        gix::open_opts(self.path("repo"), gix::open::Options::isolated()).unwrap()
    }

    /// A fresh folder with a tree in it.
    fn check_out(&self, rev: &str) -> (PathBuf, Manifest) {
        let place = tempfile::tempdir_in(self.places()).unwrap().keep();
        let options = CheckoutOptions { verify: true, ..CheckoutOptions::default() };
        let (manifest, _) = checkout(&self.open(), self.id(rev), &place, options).unwrap();
        (place, manifest)
    }

    /// The snapshot of a folder that was checked out, by the ignore rules of the same tree. What `stat` seems to show
    /// makes no difference.
    fn snapshot(&self, place: &Path, manifest: &Manifest) -> Snapshot {
        let repo = self.open();
        let ignores = BaseIgnores::of(&repo, manifest).unwrap();
        let quick = snapshot(&repo, manifest, place, &ignores, SnapshotOptions::default()).unwrap();
        let thorough = SnapshotOptions { read_all: true, ..Default::default() };
        let full = snapshot(&repo, manifest, place, &ignores, thorough).unwrap();
        assert_eq!((quick.tree, &quick.violations), (full.tree, &full.violations));
        quick
    }

    fn list(&self, tree: ObjectId) -> Vec<String> {
        let listing =
            self.git(&["-c", "core.quotePath=true", "ls-tree", "-r", "--name-only", &tree.to_string()]);
        listing.lines().map(ToOwned::to_owned).collect()
    }

    /// Config, attributes and hooks that would leave a mark if anything of them ran or took effect.
    fn make_hostile(&self) -> PathBuf {
        let marker = self.path("MARKER");
        let run = format!("touch '{}'", marker.display());
        for (key, value) in [
            ("filter.evil.clean", run.as_str()),
            ("filter.evil.smudge", &run),
            ("filter.evil.process", &run),
            ("filter.evil.required", "true"),
            ("core.fsmonitor", &run),
            ("diff.evil.textconv", &run),
            ("core.autocrlf", "true"),
            ("core.eol", "crlf"),
            ("core.symlinks", "false"),
            ("core.filemode", "false"),
            ("core.ignorecase", "true"),
            ("core.sparseCheckout", "true"),
            ("core.hooksPath", self.path("hooks").to_str().unwrap()),
            ("core.excludesFile", self.path("excludes").to_str().unwrap()),
        ] {
            self.git(&["config", key, value]);
        }
        fs::write(self.path("excludes"), "*\n").unwrap();
        fs::create_dir_all(self.path("repo/.git/info")).unwrap();
        fs::write(self.path("repo/.git/info/exclude"), "*\n").unwrap();
        fs::write(self.path("repo/.git/info/attributes"), "* filter=evil ident text eol=crlf diff=evil\n")
            .unwrap();
        fs::create_dir(self.path("hooks")).unwrap();
        for hook in
            ["post-checkout", "post-index-change", "reference-transaction", "pre-commit", "post-commit"]
        {
            let path = self.path("hooks").join(hook);
            fs::write(&path, format!("#!/bin/sh\n{run}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        marker
    }
}

fn put(root: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn make_executable(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn link(target: &str, path: &Path) {
    symlink(target, path).unwrap();
}

fn violations(snapshot: &Snapshot) -> Vec<String> {
    snapshot.violations.iter().map(|Violation { path, what }| format!("{path}: {what}")).collect()
}
