//! Registrations that stock git understands, and what is left after every kind of end.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::worktree::owner::{Owner, OwnerFile, owner_path};
use crate::worktree::{LinkedWorktree, WorktreeError, reclaim, worktree_folder, worktree_name};

fn standard() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "a\n");
    sandbox.write("dir/b.sh", "b\n");
    sandbox.write("dir.x", "sorts between dir and its files\n");
    make_executable(&sandbox.path("repo/dir/b.sh"));
    link("a.txt", &sandbox.path("repo/link"));
    sandbox.commit();
    sandbox
}

impl Sandbox {
    fn create(&self, name: &str) -> (LinkedWorktree, Manifest) {
        let repo = self.open();
        let worktree =
            LinkedWorktree::create(&repo, &self.places(), name, self.id("HEAD"), "loop fix, iteration 1")
                .unwrap();
        let (manifest, _) =
            checkout(&repo, self.id("HEAD^{tree}"), worktree.path(), CheckoutOptions::default()).unwrap();
        worktree.link(&manifest).unwrap();
        (worktree, manifest)
    }

    fn worktrees(&self) -> usize {
        self.git(&["worktree", "list"]).lines().count() - 1
    }

    /// A worktree of a process that was killed.
    fn orphan(&self, name: &str) {
        let (worktree, _) = self.create(name);
        // The lock is released as the kernel would; the text names a process that is gone.
        let dead = Owner::parse("git-loop pid=4194304 start=1").unwrap();
        let me = Owner::me().reason("");
        let reason = me
            .split(' ')
            .map(|word| match word.split_once('=') {
                Some(("pid", _)) => "pid=4194304".to_owned(),
                Some(("start", _)) => "start=1".to_owned(),
                _ => word.to_owned(),
            })
            .collect::<Vec<_>>()
            .join(" ");
        assert_ne!(Owner::parse(&reason), Some(dead));
        fs::write(owner_path(worktree.path()), format!("{reason}\n")).unwrap();
        fs::write(worktree.admin_dir().join("locked"), format!("{reason}\n")).unwrap();
        worktree.forget();
    }
}

#[test]
fn git_sees_a_clean_worktree_and_then_none() {
    for format in ["--object-format=sha1", "--object-format=sha256"] {
        let sandbox = Sandbox::with(&[format]);
        sandbox.write("a.txt", "a\n");
        sandbox.write("dir/b", "b\n");
        sandbox.write("dir.x", "x\n");
        link("a.txt", &sandbox.path("repo/link"));
        let head = sandbox.commit();
        let (worktree, _) = sandbox.create("loop-fix-1");
        let list = sandbox.git(&["worktree", "list", "--porcelain"]);
        assert!(list.contains(&format!(
            "worktree {}\nHEAD {head}\ndetached\nlocked git-loop pid=",
            worktree.path().display()
        )));
        assert!(list.contains("loop fix, iteration 1"));

        let inside = |args: &[&str]| sandbox.git_in(worktree.path(), args);
        assert_eq!(inside(&["status", "--porcelain"]), "");
        assert_eq!(inside(&["rev-parse", "HEAD"]), head.to_string());
        assert_eq!(inside(&["write-tree"]), sandbox.id("HEAD^{tree}").to_string());
        assert_eq!(inside(&["ls-files", "--debug"]).matches("size: 0").count(), 0);
        inside(&["fsck"]);
        fs::write(worktree.path().join("a.txt"), "changed\n").unwrap();
        assert_eq!(inside(&["status", "--porcelain"]), "M a.txt".replace('M', " M").trim_end());
        inside(&["commit", "-qam", "work"]);

        // People's housekeeping leaves it alone.
        sandbox.git(&["worktree", "prune", "--expire=now"]);
        sandbox.git(&["gc", "-q", "--prune=now"]);
        assert_eq!(sandbox.worktrees(), 1);
        let place = worktree.path().to_owned();
        worktree.remove().unwrap();
        assert_eq!((sandbox.worktrees(), place.exists(), owner_path(&place).exists()), (0, false, false));
        assert!(!sandbox.path("repo/.git/worktrees").exists());
        assert_eq!(fs::read_dir(sandbox.places()).unwrap().count(), 0);
        assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    }
}

#[test]
fn a_lost_value_removes_too_and_names_are_taken_once() {
    let sandbox = standard();
    let name = worktree_name("fix", "e1");
    let repo = sandbox.open();
    let head = sandbox.id("HEAD");
    let first = LinkedWorktree::create(&repo, &sandbox.places(), &name, head, "").unwrap();
    let again = LinkedWorktree::create(&repo, &sandbox.places(), &name, head, "");
    assert!(matches!(again, Err(WorktreeError::NameTaken { .. })));
    assert!(first.path().exists() && first.admin_dir().join("HEAD").exists());
    drop(first);
    assert_eq!((sandbox.worktrees(), fs::read_dir(sandbox.places()).unwrap().count()), (0, 0));

    // What was there before under that name is not ours to remove.
    put(&sandbox.places(), "loop-fix-e1/precious", "x");
    assert!(LinkedWorktree::create(&repo, &sandbox.places(), &name, head, "").is_err());
    assert!(sandbox.places().join("loop-fix-e1/precious").exists());
    fs::create_dir_all(sandbox.path("repo/.git/worktrees/loop-fix-e2")).unwrap();
    assert!(LinkedWorktree::create(&repo, &sandbox.places(), "loop-fix-e2", head, "").is_err());
    assert!(sandbox.path("repo/.git/worktrees/loop-fix-e2").exists());
    assert!(!sandbox.places().join("loop-fix-e2").exists());
}

/// What a worker may do to its worktree; the path is that of something precious elsewhere.
type Game = fn(&LinkedWorktree, &Path);

/// Field reports 1.45 and 2.25: whatever the worker does to `.git`, its folder or its registration, all of it goes
/// and nothing else does.
#[test]
fn removal_believes_nothing_the_worker_wrote() {
    let sandbox = standard();
    let precious = sandbox.path("precious");
    put(&precious, "file", "x");
    put(&precious, ".git", "gitdir: /x");
    let games: [Game; 6] = [
        |worktree, precious| {
            fs::write(worktree.path().join(".git"), format!("gitdir: {}\n", precious.display())).unwrap();
            fs::write(worktree.admin_dir().join("gitdir"), format!("{}/.git\n", precious.display())).unwrap();
            fs::write(worktree.admin_dir().join("commondir"), format!("{}\n", precious.display())).unwrap();
        },
        |worktree, precious| {
            fs::remove_file(worktree.path().join(".git")).unwrap();
            symlink(precious, worktree.path().join(".git")).unwrap();
            symlink(precious, worktree.admin_dir().join("logs")).unwrap();
        },
        |worktree, _| {
            fs::remove_dir_all(worktree.path()).unwrap();
        },
        |worktree, precious| {
            fs::remove_dir_all(worktree.path()).unwrap();
            symlink(precious, worktree.path()).unwrap();
        },
        |worktree, precious| {
            fs::remove_dir_all(worktree.admin_dir()).unwrap();
            symlink(precious, worktree.admin_dir()).unwrap();
        },
        |worktree, _| {
            fs::write(worktree.admin_dir().join("index.lock"), "").unwrap();
            fs::write(worktree.admin_dir().join("locked"), "mine now\n").unwrap();
            for path in
                [worktree.path().join("dir"), worktree.path().to_owned(), worktree.admin_dir().to_owned()]
            {
                fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
            }
        },
    ];
    for (number, game) in games.into_iter().enumerate() {
        let (worktree, _) = sandbox.create(&format!("loop-game-{number}"));
        let place = worktree.path().to_owned();
        game(&worktree, &precious);
        worktree.remove().unwrap();
        assert!(place.symlink_metadata().is_err(), "game {number}");
        assert_eq!(sandbox.worktrees(), 0, "game {number}");
        assert!(precious.join("file").exists() && precious.join(".git").exists(), "game {number}");
    }
    assert_eq!(fs::read_dir(sandbox.places()).unwrap().count(), 0);
}

/// Field reports 2.2, 2.3, 2.5, 2.6, 2.7, 2.24: leftovers of the dead go, in every state; the living and other
/// people's stay.
#[test]
fn reclaim_matrix() {
    let sandbox = standard();
    let registrations = sandbox.path("repo/.git/worktrees");
    let theirs = sandbox.path("theirs");
    sandbox.git(&["worktree", "add", "-q", "--detach", theirs.to_str().unwrap()]);
    let stale = sandbox.path("stale");
    sandbox.git(&["worktree", "add", "-q", "--detach", stale.to_str().unwrap()]);
    fs::remove_dir_all(&stale).unwrap();
    // Somebody else's with a name like ours, locked for their own reason.
    let lookalike = sandbox.path("loop-lookalike-1");
    sandbox.git(&[
        "worktree",
        "add",
        "-q",
        "--detach",
        "--lock",
        "--reason",
        "usb",
        lookalike.to_str().unwrap(),
    ]);

    let (live, _) = sandbox.create("loop-live-1");
    for name in ["loop-dead-whole", "loop-dead-dir-gone", "loop-dead-reg-gone", "loop-dead-owner-gone"] {
        sandbox.orphan(name);
    }
    fs::remove_dir_all(sandbox.places().join("loop-dead-dir-gone")).unwrap();
    fs::remove_dir_all(registrations.join("loop-dead-reg-gone")).unwrap();
    sandbox.orphan("loop-dead-cache-emptied");
    fs::remove_dir_all(sandbox.places().join("loop-dead-cache-emptied")).unwrap();
    fs::remove_file(owner_path(&sandbox.places().join("loop-dead-cache-emptied"))).unwrap();
    fs::remove_file(owner_path(&sandbox.places().join("loop-dead-owner-gone"))).unwrap();
    // Killed between making the owner file and writing to it.
    fs::write(sandbox.places().join("loop-dead-early.owner"), "").unwrap();
    // A worker of a dead process may have pointed the registration at something precious.
    let precious = sandbox.path("precious");
    put(&precious, ".git", "x");
    fs::write(registrations.join("loop-dead-whole/gitdir"), format!("{}/.git\n", precious.display()))
        .unwrap();

    let repo = sandbox.open();
    let dry = reclaim(&repo, &sandbox.places(), true).unwrap();
    let done = reclaim(&repo, &sandbox.places(), false).unwrap();
    assert_eq!(dry.removed, done.removed);
    assert_eq!(
        done.removed,
        [
            "loop-dead-dir-gone",
            "loop-dead-early",
            "loop-dead-reg-gone",
            "loop-dead-whole",
            "loop-dead-cache-emptied",
            "loop-dead-owner-gone"
        ]
    );
    assert_eq!(done.failed, []);
    assert_eq!(
        done.kept,
        [
            ("loop-live-1".to_owned(), "its process runs"),
            ("loop-dead-owner-gone".to_owned(), "its owner file is missing")
        ]
    );
    assert!(
        live.path().join("a.txt").exists() && theirs.join("a.txt").exists() && precious.join(".git").exists()
    );
    let list = sandbox.git(&["worktree", "list"]);
    for name in ["loop-live-1", "theirs", "stale", "loop-lookalike-1"] {
        assert!(list.contains(name), "{name} is missing in {list}");
    }
    assert_eq!(list.lines().count(), 5);
    live.remove().unwrap();
}

/// Field report 2.6: kill -9 many times, and nothing piles up.
#[test]
fn twenty_kills_leave_nothing() {
    let sandbox = standard();
    for number in 0..20 {
        sandbox.orphan(&format!("loop-killed-{number}"));
    }
    assert_eq!(sandbox.worktrees(), 20);
    assert_eq!(reclaim(&sandbox.open(), &sandbox.places(), false).unwrap().removed.len(), 20);
    assert_eq!((sandbox.worktrees(), fs::read_dir(sandbox.places()).unwrap().count()), (0, 0));
}

/// A loss of power took the last registration and left the folder that it was in.
#[test]
fn an_empty_folder_of_registrations_goes() {
    let sandbox = standard();
    let folder = sandbox.open().common_dir().join("worktrees");
    fs::create_dir(&folder).unwrap();
    reclaim(&sandbox.open(), &sandbox.places(), true).unwrap();
    assert!(folder.exists(), "this was only a look");
    reclaim(&sandbox.open(), &sandbox.places(), false).unwrap();
    assert!(!folder.exists());
}

#[test]
fn owner_files_are_taken_over_from_the_dead_only() {
    let sandbox = standard();
    let place = sandbox.places().join("loop-x-1");
    let me = Owner::me();
    let owner = OwnerFile::create(&place, &me.reason("")).unwrap();
    assert_eq!(OwnerFile::take_over(&owner_path(&place)).unwrap().err(), Some("its process runs"));
    drop(owner);
    // The lock is free, but the process it names is here all the same.
    assert_eq!(OwnerFile::take_over(&owner_path(&place)).unwrap().err(), Some("its process runs"));
    fs::write(owner_path(&place), "not a reason\n").unwrap();
    assert!(OwnerFile::take_over(&owner_path(&place)).unwrap().is_err());
}

#[test]
fn the_folder_for_worktrees_is_private_and_outside() {
    let sandbox = standard();
    let common = sandbox.path("repo/.git");
    let folder = worktree_folder(&common, None, &sandbox.path("home/.cache")).unwrap();
    assert!(folder.starts_with(sandbox.path("home/.cache/git-loop")));
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o7777, 0o700);
    assert_eq!(worktree_folder(&common, None, &sandbox.path("home/.cache")).unwrap(), folder);
    let configured = worktree_folder(&common, Some(&sandbox.path("elsewhere")), Path::new("/x")).unwrap();
    assert!(configured.starts_with(sandbox.path("elsewhere")));

    let refused =
        |path: &Path| worktree_folder(&common, Some(path), Path::new("/x")).unwrap_err().to_string();
    assert!(refused(&sandbox.path("repo/build/wt")).ends_with("it lies inside the repository"));
    assert!(!sandbox.path("repo/build").exists());
    symlink(sandbox.path("repo"), sandbox.path("sneaky")).unwrap();
    assert!(refused(&sandbox.path("sneaky/wt")).ends_with("it lies inside the repository"));
    assert!(refused(Path::new("relative")).ends_with("it is not an absolute path"));
    fs::set_permissions(&configured, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(refused(&sandbox.path("elsewhere")).ends_with("others may write to it"));
}

/// Concurrent loops register and leave at the same time.
#[test]
fn racing_creations_and_removals_do_not_disturb_each_other() {
    let sandbox = standard();
    let head = sandbox.id("HEAD");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (sandbox, repo) = (&sandbox, sandbox.open());
            scope.spawn(move || {
                for round in 0..25 {
                    let name = format!("loop-race-{thread}-{round}");
                    LinkedWorktree::create(&repo, &sandbox.places(), &name, head, "")
                        .unwrap()
                        .remove()
                        .unwrap();
                }
            });
        }
        for _ in 0..10 {
            reclaim(&sandbox.open(), &sandbox.places(), false).unwrap();
        }
    });
    assert_eq!((sandbox.worktrees(), fs::read_dir(sandbox.places()).unwrap().count()), (0, 0));
}
