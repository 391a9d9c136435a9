use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use super::*;

struct Setup {
    _dir: tempfile::TempDir,
    root: PathBuf,
    places: Places,
}

impl Setup {
    /// A real repository with a work tree, and a program that exists.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (top, binary) = (root.join("a repo"), root.join("bin").join("git-loop"));
        fs::create_dir(root.join("bin")).unwrap();
        executable(&binary, "#!/bin/sh\ncat >/dev/null\nexit 0\n");
        fs::create_dir(&top).unwrap();
        let places = Places {
            common_dir: top.join(".git"),
            worktrees: vec![top.clone()],
            worktree_top: Some(top),
            hooks_path: None,
            binary,
            search_path: Some("/nonexistent".into()),
        };
        let setup = Self { _dir: dir, root, places };
        setup.git(&["init", "-q", "-b", "main", "--template="]);
        setup.git(&["commit", "-q", "--allow-empty", "-m", "base"]);
        setup
    }

    fn top(&self) -> &Path {
        self.places.worktree_top.as_deref().unwrap()
    }

    fn hook(&self) -> PathBuf {
        self.places.common_dir.join("hooks/pre-push")
    }

    fn chained(&self) -> PathBuf {
        self.places.common_dir.join("hooks/pre-push.git-loop-chained")
    }

    fn try_git(&self, cwd: &Path, args: &[&str]) -> std::process::Output {
        Command::new("git")
            .args(["-c", "user.name=T", "-c", "user.email=t@example.org"])
            .args(args)
            .env_clear()
            .envs([("PATH", std::env::var("PATH").unwrap()), ("HOME", self.root.display().to_string())])
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(cwd)
            .output()
            .unwrap()
    }

    fn git(&self, args: &[&str]) {
        let output = self.try_git(self.top(), args);
        assert!(output.status.success(), "{output:?}");
    }

    fn user_hook(&self, script: &str, mode: u32) {
        fs::create_dir_all(self.hook().parent().unwrap()).unwrap();
        fs::write(self.hook(), script).unwrap();
        fs::set_permissions(self.hook(), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn with_hooks_path(mut self, value: impl Into<PathBuf>, scope: Scope) -> Self {
        self.places.hooks_path = Some(HooksPath { value: value.into(), scope });
        self
    }

    fn install(&self) -> Done {
        install(Kind::Client, &self.places).unwrap().remove(0)
    }

    fn refused(&self) -> String {
        let error = install(Kind::Client, &self.places).unwrap_err();
        let error = Error::from(error);
        format!("{} | {}", error.message(), error.hints().join(" "))
    }

    fn status(&self) -> Status {
        status_hook(HookName::PrePush, &self.places).unwrap()
    }
}

fn executable(path: &Path, script: &str) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

fn listing(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn installing_twice_changes_nothing_and_git_runs_it() {
    let setup = Setup::new();
    assert!(matches!(setup.status(), Status::NotInstalled { file, .. } if file == setup.hook()));
    assert_eq!(setup.install().action, Action::Installed);
    assert_eq!(setup.install().action, Action::Unchanged);
    assert_eq!(mode(&setup.hook()), 0o755);
    assert_eq!(setup.status(), Status::Active { file: setup.hook(), chained: false, current: true });

    let remote = setup.root.join("remote.git");
    setup.git(&["init", "-q", "--bare", remote.to_str().unwrap()]);
    setup.git(&["push", "-q", remote.to_str().unwrap(), "main"]);
    executable(&setup.places.binary, "#!/bin/sh\necho \"$*\" >&2\nexit 1\n");
    let output = setup.try_git(setup.top(), &["push", "-q", remote.to_str().unwrap(), "main:x"]);
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains(&format!("hook pre-push {0} {0}", remote.display())), "{error}");
}

/// Field report 2.52: an existing hook is neither kept silently nor overwritten.
#[test]
fn an_existing_hook_is_chained_and_comes_back_byte_for_byte() {
    for mode_before in [0o755, 0o700, 0o644] {
        let setup = Setup::new();
        let script = "#!/bin/sh\n# mine \u{e4}\nexit 0\n\n\n";
        setup.user_hook(script, mode_before);
        let done = setup.install();
        assert!(done.chained && done.action == Action::Installed);
        assert_eq!(fs::read_to_string(setup.chained()).unwrap(), script);
        assert_eq!(mode(&setup.chained()), mode_before);
        assert_eq!(setup.install().action, Action::Unchanged);
        assert_eq!(fs::read_to_string(setup.chained()).unwrap(), script, "ours is never chained to itself");
        assert!(matches!(setup.status(), Status::Active { chained: true, .. }));

        let done = uninstall(Kind::Client, &setup.places).unwrap().remove(0).unwrap();
        assert!(done.chained && done.action == Action::Removed);
        assert_eq!(fs::read_to_string(setup.hook()).unwrap(), script);
        assert_eq!(mode(&setup.hook()), mode_before);
        assert_eq!(listing(setup.hook().parent().unwrap()), ["pre-push"]);
        assert_eq!(uninstall(Kind::Client, &setup.places).unwrap(), [None]);
    }
}

#[test]
fn a_symlink_stays_a_symlink() {
    let setup = Setup::new();
    let script = setup.top().join("script");
    executable(&script, "#!/bin/sh\nexit 9\n");
    fs::create_dir_all(setup.hook().parent().unwrap()).unwrap();
    for target in ["../../script", "dangling"] {
        symlink(target, setup.hook()).unwrap();
        setup.install();
        assert_eq!(fs::read_link(setup.chained()).unwrap(), Path::new(target));
        assert!(!setup.hook().is_symlink());
        uninstall(Kind::Client, &setup.places).unwrap();
        assert_eq!(fs::read_link(setup.hook()).unwrap(), Path::new(target));
        fs::remove_file(setup.hook()).unwrap();
    }
    assert_eq!(
        fs::read_to_string(script).unwrap(),
        "#!/bin/sh\nexit 9\n",
        "what a link leads to is never written"
    );
}

#[test]
fn an_interrupted_installation_is_completed() {
    let setup = Setup::new();
    setup.user_hook("#!/bin/sh\nexit 5\n", 0o755);
    fs::hard_link(setup.hook(), setup.chained()).unwrap();
    assert!(setup.install().chained);
    assert_eq!(fs::read_to_string(setup.chained()).unwrap(), "#!/bin/sh\nexit 5\n");
    // Our script is gone: what was there before can still be brought back.
    fs::remove_file(setup.hook()).unwrap();
    assert!(matches!(setup.status(), Status::NotInstalled { file, .. } if file == setup.hook()));
    uninstall(Kind::Client, &setup.places).unwrap();
    assert_eq!(fs::read_to_string(setup.hook()).unwrap(), "#!/bin/sh\nexit 5\n");
}

#[test]
fn a_tool_that_writes_over_ours_is_noticed_and_nothing_is_lost() {
    let setup = Setup::new();
    setup.user_hook("#!/bin/sh\nexit 5\n", 0o755);
    setup.install();
    executable(&setup.hook(), "#!/bin/sh\nlefthook run pre-push\n");
    assert!(matches!(setup.status(), Status::NotEffective { why, .. } if why.contains("another tool")));
    let error = setup.refused();
    assert!(error.contains("is there already, and differs") && error.contains("install again"), "{error}");
    assert!(uninstall(Kind::Client, &setup.places).is_err());
    assert_eq!(fs::read_to_string(setup.chained()).unwrap(), "#!/bin/sh\nexit 5\n");
}

#[test]
fn tools_that_generate_hooks_are_recognised() {
    for (content, word) in [
        ("#!/bin/sh\n# lefthook\ncall_lefthook run pre-push\n", "lefthook.yml"),
        ("#!/usr/bin/env bash\n# File generated by pre-commit: https://pre-commit.com\n", "pre-push.legacy"),
    ] {
        let setup = Setup::new();
        setup.user_hook(content, 0o755);
        let notes = setup.install().notes.join("");
        assert!(notes.contains(word), "{notes}");
    }
}

/// Field report 2.20: hooks of a linked worktree are those of the repository.
#[test]
fn a_linked_worktree_uses_the_shared_folder() {
    let mut setup = Setup::new();
    let linked = setup.root.join("linked");
    setup.git(&["worktree", "add", "-q", "--detach", linked.to_str().unwrap()]);
    setup.places.worktree_top = Some(linked.clone());
    assert_eq!(setup.install().file, setup.hook());
    let remote = setup.root.join("remote.git");
    setup.git_at(&linked, &["init", "-q", "--bare", remote.to_str().unwrap()]);
    executable(&setup.places.binary, "#!/bin/sh\nexit 1\n");
    assert!(
        !setup
            .try_git(&linked, &["push", "-q", remote.to_str().unwrap(), "HEAD:refs/heads/x"])
            .status
            .success()
    );
}

impl Setup {
    fn git_at(&self, cwd: &Path, args: &[&str]) {
        assert!(self.try_git(cwd, args).status.success());
    }
}

/// Field report 2.17: a relative core.hooksPath is silently off in other worktrees.
#[test]
fn a_relative_hooks_path_is_judged_in_every_work_tree() {
    let mut setup = Setup::new().with_hooks_path(".githooks", Scope::Local);
    let error = setup.refused();
    assert!(
        error.contains("it is relative") && error.contains("first command of .githooks/pre-push"),
        "{error}"
    );
    assert!(!setup.top().join(".githooks").exists(), "nothing was written");
    let Status::NotInstalled { file, unblock } = setup.status() else { panic!("{:?}", setup.status()) };
    assert_eq!(file, setup.top().join(".githooks/pre-push"));
    assert!(unblock.contains("first command of .githooks/pre-push"), "not what would be refused: {unblock}");

    // With the line in place git runs it here.
    setup.places.search_path = setup.places.binary.parent().map(Into::into);
    let with_the_line = |top: &Path| {
        fs::create_dir(top.join(".githooks")).unwrap();
        executable(&top.join(".githooks/pre-push"), "#!/bin/sh\ngit-loop hook pre-push \"$@\" || exit $?\n");
    };
    let main = setup.top().to_owned();
    with_the_line(&main);
    assert!(matches!(setup.status(), Status::Active { file, .. } if file == main.join(".githooks/pre-push")));

    // It is off in a worktree without that folder, and both sides are told of the other.
    let linked = setup.root.join("linked");
    setup.git(&["worktree", "add", "-q", linked.to_str().unwrap()]);
    setup.places.worktrees.push(linked.clone());
    let Status::NotEffective { why, .. } = setup.status() else { panic!("{:?}", setup.status()) };
    assert!(why.contains("runs it here") && why.ends_with(linked.to_str().unwrap()), "{why}");
    setup.places.worktree_top = Some(linked.clone());
    let Status::NotEffective { file, why, .. } = setup.status() else { panic!("{:?}", setup.status()) };
    assert_eq!(file, linked.join(".githooks/pre-push"));
    assert!(why.contains("asks the gate here") && why.ends_with(main.to_str().unwrap()), "{why}");

    with_the_line(&linked);
    assert!(
        matches!(setup.status(), Status::Active { file, .. } if file == linked.join(".githooks/pre-push"))
    );
    fs::set_permissions(main.join(".githooks/pre-push"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(setup.status(), Status::NotEffective { why, .. } if why.contains("runs it here")));
}

#[test]
fn ours_in_the_shared_folder_is_not_in_force_once_git_looks_elsewhere() {
    let setup = Setup::new();
    setup.install();
    let setup = setup.with_hooks_path(".githooks", Scope::Local);
    let Status::NotEffective { file, why, .. } = setup.status() else { panic!("{:?}", setup.status()) };
    assert_eq!(file, setup.hook());
    assert!(why.contains(".githooks/pre-push"), "{why}");
    assert!(uninstall(Kind::Client, &setup.places).unwrap()[0].is_some());
    assert!(!setup.hook().exists());
}

#[test]
fn husky_gets_a_line_and_no_file_of_the_project_is_touched() {
    let mut setup = Setup::new().with_hooks_path(".husky/_", Scope::Local);
    fs::create_dir_all(setup.top().join(".husky/_")).unwrap();
    executable(&setup.top().join(".husky/_/pre-push"), "#!/usr/bin/env sh\n. \"${0%/*}/h\"\n");
    let error = setup.refused();
    assert!(
        error.contains("first command of .husky/pre-push: git-loop hook pre-push \"$@\" || exit $?"),
        "{error}"
    );
    assert!(matches!(setup.status(), Status::NotInstalled { .. }));
    fs::write(setup.top().join(".husky/pre-push"), "git-loop hook pre-push \"$@\" || exit $?\n").unwrap();
    assert!(matches!(setup.status(), Status::BinaryMissing { .. }));
    setup.places.search_path = setup.places.binary.parent().map(Into::into);
    assert!(matches!(setup.status(), Status::Active { .. }));
    assert_eq!(listing(&setup.top().join(".husky/_")), ["pre-push"]);
}

#[test]
fn folders_that_hold_for_more_or_less_than_this_repository_are_refused() {
    for (scope, word) in [
        (Scope::Global, "all repositories of the user"),
        (Scope::System, "whole machine"),
        (Scope::Worktree, "one worktree only"),
        (Scope::Command, "one command only"),
    ] {
        let setup = Setup::new();
        let dir = setup.root.join("shared hooks");
        let setup = setup.with_hooks_path(&dir, scope);
        assert!(setup.refused().contains(word), "{}", setup.refused());
        assert!(!dir.exists());
    }
}

#[test]
fn an_absolute_folder_of_this_repository_is_used() {
    let setup = Setup::new();
    let dir = setup.root.join("own hooks");
    let setup = setup.with_hooks_path(&dir, Scope::Local);
    assert_eq!(setup.install().file, dir.join("pre-push"));
    assert!(matches!(setup.status(), Status::Active { .. }));

    // Inside the work tree it is the project's, also behind a symlink.
    let inside = setup.top().join("scripts");
    fs::create_dir(&inside).unwrap();
    let link = setup.root.join("link");
    symlink(&inside, &link).unwrap();
    for dir in [inside, link] {
        let setup = Setup {
            places: setup.places.clone(),
            _dir: tempfile::tempdir().unwrap(),
            root: setup.root.clone(),
        };
        let setup = setup.with_hooks_path(dir, Scope::Local);
        assert!(setup.refused().contains("inside the work tree"), "{}", setup.refused());
    }
}

#[test]
fn a_shared_folder_that_links_into_the_work_tree_is_refused() {
    let setup = Setup::new();
    fs::create_dir(setup.top().join("scripts")).unwrap();
    let hooks = setup.places.common_dir.join("hooks");
    let _ = fs::remove_dir_all(&hooks);
    symlink("../scripts", &hooks).unwrap();
    assert!(setup.refused().contains("is a symlink into the work tree"), "{}", setup.refused());
    assert_eq!(listing(&setup.top().join("scripts")), Vec::<String>::new());
}

#[test]
fn status_says_what_is_wrong() {
    let mut setup = Setup::new();
    setup.install();
    fs::set_permissions(setup.hook(), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(setup.status(), Status::NotEffective { why, .. } if why.contains("not executable")));
    assert_eq!(setup.install().action, Action::Updated);

    fs::remove_file(&setup.places.binary).unwrap();
    let gone = setup.places.binary.clone();
    assert_eq!(setup.status(), Status::BinaryMissing { file: setup.hook(), binary: gone.clone() });
    let bin = setup.root.join("other");
    fs::create_dir(&bin).unwrap();
    executable(&bin.join("git-loop"), "#!/bin/sh\n");
    setup.places.search_path = Some(std::env::join_paths([Path::new("/nonexistent"), &bin]).unwrap());
    assert!(matches!(setup.status(), Status::Active { current: true, .. }));

    // Another version, or the program has moved: still in force, and installing again brings it up to date.
    setup.places.binary = bin.join("git-loop");
    assert!(matches!(setup.status(), Status::Active { current: false, .. }));
    assert_eq!(setup.install().action, Action::Updated);
    assert!(matches!(setup.status(), Status::Active { current: true, chained: false, .. }));
    let json = serde_json::to_value(setup.status()).unwrap();
    assert_eq!(json["state"], "active");
}

#[test]
fn a_line_in_a_hook_of_ones_own_counts_if_it_finds_the_program() {
    let mut setup = Setup::new();
    setup.user_hook("#!/bin/sh\n# git-loop hook pre-push is what we want\n", 0o755);
    assert!(matches!(setup.status(), Status::NotInstalled { .. }));
    setup.user_hook("#!/bin/sh\ngit loop hook pre-push \"$@\" || exit $?\n", 0o755);
    assert!(matches!(setup.status(), Status::BinaryMissing { .. }));
    setup.places.search_path = setup.places.binary.parent().map(Into::into);
    assert!(matches!(setup.status(), Status::Active { chained: false, .. }));
}

#[test]
fn a_server_gets_pre_receive() {
    let mut setup = Setup::new();
    let bare = setup.root.join("bare.git");
    setup.git(&["init", "-q", "--bare", bare.to_str().unwrap()]);
    setup.places = Places { common_dir: bare.clone(), worktree_top: None, ..setup.places.clone() };
    let done = install(Kind::Server, &setup.places).unwrap();
    assert_eq!(done.len(), 1);
    assert_eq!(done[0].file, bare.join("hooks/pre-receive"));
    assert!(matches!(status(Kind::Server, &setup.places).unwrap()[0].1, Status::Active { .. }));
    let top = setup.root.join("a repo");
    setup.git_at(&top, &["push", "-q", bare.to_str().unwrap(), "main"]);
    executable(&setup.places.binary, "#!/bin/sh\nexit 1\n");
    assert!(
        !setup
            .try_git(&top, &["push", "-q", "--no-verify", bare.to_str().unwrap(), "main:x"])
            .status
            .success()
    );
}

#[test]
fn a_folder_in_the_place_of_a_hook_is_refused() {
    let setup = Setup::new();
    fs::create_dir_all(setup.hook()).unwrap();
    assert!(setup.refused().contains("it is a folder"));
}
