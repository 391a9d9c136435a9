use super::*;
use crate::git::names::LoopId;
use crate::git::testing::{NOW, TestRepo};

fn id() -> LoopId {
    LoopId::new("fix").unwrap()
}

fn change(name: FullName, expect: Expect, to: ObjectId) -> RefChange {
    RefChange { name, expect, to: Some(to), message: "a\nmessage".into() }
}

fn delete(name: FullName, expect: Expect) -> RefChange {
    RefChange { name, expect, to: None, message: "gone".into() }
}

fn name(name: &str) -> FullName {
    FullName::try_from(name).unwrap()
}

fn read(repo: &Repo, name: &FullName) -> Option<ObjectId> {
    repo.read_ref(name.as_ref()).unwrap()
}

#[test]
fn all_refs_move_or_none() {
    for format in ["sha1", "sha256"] {
        let repo = TestRepo::with(&[&format!("--object-format={format}")]);
        let (first, second) = (repo.id("HEAD"), repo.commit("second"));
        let (open, who) = (repo.open(), repo.signature());
        let (ledger, head, notes) = (id().refs().ledger(), id().refs().head(), id().refs().notes());
        let update = |changes: &[RefChange]| open.update_refs(changes, &who, Durability::Fsync);
        update(&[
            change(ledger.clone(), Expect::Absent, first),
            change(head.clone(), Expect::Absent, first),
            change(notes.clone(), Expect::Absent, first),
        ])
        .unwrap();
        for name in [&ledger, &head, &notes] {
            assert_eq!(read(&open, name), Some(first));
            assert_eq!(repo.id(&name.to_string()), first);
        }
        let error = update(&[
            change(ledger.clone(), Expect::Exactly(first), second),
            change(head.clone(), Expect::Exactly(second), second),
        ])
        .unwrap_err();
        let RefError::Moved { name, expected, found } = &error else { panic!("{error}") };
        assert_eq!((name, *expected, *found), (&head, Some(second), Some(first)));
        assert_eq!(read(&open, &ledger), Some(first), "the first ref did not move either");

        update(&[
            change(ledger.clone(), Expect::Exactly(first), second),
            change(head.clone(), Expect::Any, second),
            delete(notes.clone(), Expect::Exactly(first)),
        ])
        .unwrap();
        assert_eq!((read(&open, &ledger), read(&open, &notes)), (Some(second), None));
        assert!(!open.common_dir().join("refs/notes").exists(), "empty folders go");
        assert_eq!(std::fs::read_dir(open.common_dir().join("loops/.refs")).unwrap().count(), 0);
        repo.git(["fsck"]);
    }
}

#[test]
fn absent_means_absent_even_with_the_same_value() {
    let repo = TestRepo::new();
    let (open, who, first) = (repo.open(), repo.signature(), repo.id("HEAD"));
    let create = [change(id().refs().ledger(), Expect::Absent, first)];
    open.update_refs(&create, &who, Durability::Fast).unwrap();
    let error = open.update_refs(&create, &who, Durability::Fast).unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
    repo.git(["pack-refs", "--all"]);
    assert!(matches!(open.update_refs(&create, &who, Durability::Fast), Err(RefError::Moved { .. })));
}

#[test]
fn packed_refs_are_compared_changed_and_deleted() {
    let repo = TestRepo::new();
    let (open, who, first) = (repo.open(), repo.signature(), repo.id("HEAD"));
    let (ledger, head) = (id().refs().ledger(), id().refs().head());
    let update = |changes: &[RefChange]| open.update_refs(changes, &who, Durability::Fast).unwrap();
    update(&[change(ledger.clone(), Expect::Absent, first), change(head.clone(), Expect::Absent, first)]);
    repo.git(["tag", "-a", "-m", "peeled", "v1"]);
    repo.git(["pack-refs", "--all"]);
    let second = repo.commit("second");
    update(&[change(ledger.clone(), Expect::Exactly(first), second)]);
    assert_eq!(repo.id("refs/loops/fix/ledger"), second);
    update(&[delete(ledger.clone(), Expect::Exactly(second)), delete(head.clone(), Expect::Exactly(first))]);
    assert_eq!((read(&open, &ledger), read(&open, &head)), (None, None));
    assert_eq!(repo.git(["for-each-ref", "refs/loops"]), "");
    assert_eq!(repo.git(["rev-parse", "v1^{commit}"]).trim(), first.to_string(), "other packed refs stay");
    repo.git(["fsck", "--strict"]);
}

#[test]
fn every_change_is_in_the_reflog() {
    let repo = TestRepo::new();
    let (first, second) = (repo.id("HEAD"), repo.commit("second"));
    let (open, who, ledger) = (repo.open(), repo.signature(), id().refs().ledger());
    open.update_refs(&[change(ledger.clone(), Expect::Absent, first)], &who, Durability::Fast).unwrap();
    open.update_refs(&[change(ledger.clone(), Expect::Exactly(first), second)], &who, Durability::Fast)
        .unwrap();
    let log = std::fs::read_to_string(open.common_dir().join("logs/refs/loops/fix/ledger")).unwrap();
    let who = format!("Runner <runner@example.org> {NOW} +0000\ta message\n");
    assert_eq!(log, format!("{} {first} {who}{first} {second} {who}", "0".repeat(40)));
    let shown = repo.git(["reflog", "show", "--format=%H %gs", "refs/loops/fix/ledger"]);
    assert_eq!(shown, format!("{second} a message\n{first} a message\n"));
    open.update_refs(&[delete(ledger, Expect::Any)], &repo.signature(), Durability::Fast).unwrap();
    assert!(!open.common_dir().join("logs/refs/loops").exists());
}

#[test]
fn refs_of_the_user_are_refused() {
    let repo = TestRepo::new();
    let (open, who, first) = (repo.open(), repo.signature(), repo.id("HEAD"));
    for foreign in ["refs/heads/main", "HEAD", "refs/tags/x", "refs/notes/commits", "refs/loopsy/x"] {
        let result = open.update_refs(&[change(name(foreign), Expect::Any, first)], &who, Durability::Fast);
        assert!(matches!(result, Err(RefError::Foreign { .. })), "{foreign}");
    }
    let twice = change(id().refs().head(), Expect::Any, first);
    let result = open.update_refs(&[twice.clone(), twice], &who, Durability::Fast);
    assert!(matches!(result, Err(RefError::Twice { .. })));
    let absent = ObjectId::from_hex(&[b'1'; 40]).unwrap();
    let result = open.update_refs(&[change(id().refs().head(), Expect::Any, absent)], &who, Durability::Fast);
    assert!(matches!(result, Err(RefError::NoObject { .. })));
}

#[test]
fn files_and_folders_in_each_others_way_are_found_before_anything_moves() {
    let repo = TestRepo::new();
    let (open, who, first) = (repo.open(), repo.signature(), repo.id("HEAD"));
    let create = |new: &str| {
        let other = change(name("refs/loops/aa/ledger"), Expect::Any, first);
        open.update_refs(&[other, change(name(new), Expect::Absent, first)], &who, Durability::Fast)
    };
    let conflict = |new: &str, with: &str| {
        let error = create(new).unwrap_err();
        assert!(matches!(&error, RefError::Conflict { other, .. } if *other == with), "{new}: {error}");
        assert_eq!(read(&open, &name("refs/loops/aa/ledger")), None);
    };
    repo.git(["update-ref", "refs/loops/file", &first.to_string()]);
    repo.git(["update-ref", "refs/loops/folder/ledger", &first.to_string()]);
    conflict("refs/loops/file/ledger", "refs/loops/file");
    conflict("refs/loops/folder", "refs/loops/folder/ledger");
    repo.git(["pack-refs", "--all"]);
    conflict("refs/loops/file/ledger", "refs/loops/file");
    conflict("refs/loops/folder", "refs/loops/folder/ledger");
    // Folders without a ref in them are in nobody's way.
    std::fs::create_dir_all(open.common_dir().join("refs/loops/empty/a/b")).unwrap();
    std::fs::create_dir_all(open.common_dir().join("logs/refs/loops/empty/a")).unwrap();
    create("refs/loops/empty").unwrap();
    assert_eq!(repo.id("refs/loops/empty"), first);
}

#[test]
fn symbolic_refs_are_neither_followed_nor_replaced() {
    let repo = TestRepo::new();
    let (open, who, first) = (repo.open(), repo.signature(), repo.id("HEAD"));
    repo.git(["symbolic-ref", "refs/loops/fix/head", "refs/heads/main"]);
    let second = repo.commit("second");
    let result = open.update_refs(&[change(id().refs().head(), Expect::Any, first)], &who, Durability::Fast);
    assert!(matches!(result, Err(RefError::Symbolic { .. })));
    assert_eq!(repo.id("refs/heads/main"), second);
}

/// Field report 2.14: a lock that is somebody else's is reported with its age and never removed.
#[test]
fn locks_of_git_are_waited_for_and_reported() {
    let repo = TestRepo::new();
    let (open, who, first) = (repo.open(), repo.signature(), repo.id("HEAD"));
    let lock = open.common_dir().join("refs/loops/fix/head.lock");
    std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
    std::fs::write(&lock, "").unwrap();
    let changes = [
        change(id().refs().ledger(), Expect::Absent, first),
        change(id().refs().head(), Expect::Absent, first),
    ];
    let update = |patience| open.update_refs_within(&changes, &who, Durability::Fast, patience);
    let error = update(Duration::from_millis(20)).unwrap_err();
    assert!(matches!(&error, RefError::Locked { path, pid: None, .. } if *path == lock), "{error}");
    assert!(lock.exists() && read(&open, &id().refs().ledger()).is_none());
    let folder = std::fs::read_dir(lock.parent().unwrap()).unwrap();
    assert_eq!(folder.count(), 1, "our own locks are gone");
    std::thread::scope(|scope| {
        let waiting = scope.spawn({
            let open = open.clone();
            let (changes, who) = (&changes, &who);
            move || open.update_refs_within(changes, who, Durability::Fast, Duration::from_secs(20))
        });
        std::thread::sleep(Duration::from_millis(30));
        std::fs::remove_file(&lock).unwrap();
        waiting.join().unwrap().unwrap();
    });
}

/// A process that was killed between two renames: the ledger has moved, the lock of the head is left.
#[cfg(unix)]
#[test]
fn what_would_stop_a_change_is_found_without_one() {
    let repo = TestRepo::new();
    let (first, open, who) = (repo.id("HEAD"), repo.open(), repo.signature());
    let all = [id().refs().ledger(), id().refs().head(), id().refs().notes()];
    let check = || open.check_refs_within(&all, Duration::from_millis(10));
    check().unwrap();
    let there = change(all[0].clone(), Expect::Absent, first);
    open.update_refs(&[there], &who, Durability::Fast).unwrap();
    check().unwrap();
    assert_eq!(
        all.each_ref().map(|name| read(&open, name)),
        [Some(first), None, None],
        "nothing was changed"
    );

    let git = open.common_dir().to_owned();
    for name in &all {
        let lock = lock_path(&open.ref_path(name.as_ref()));
        std::fs::write(&lock, "").unwrap();
        assert!(matches!(check().unwrap_err(), RefError::Locked { .. }));
        std::fs::remove_file(lock).unwrap();
    }
    let notes = open.ref_path(all[2].as_ref());
    std::fs::write(&notes, "ref: refs/heads/main\n").unwrap();
    assert!(matches!(check().unwrap_err(), RefError::Symbolic { .. }));
    std::fs::write(&notes, "nonsense").unwrap();
    assert!(matches!(check().unwrap_err(), RefError::Malformed { .. }));
    std::fs::remove_file(&notes).unwrap();
    let log = git.join("logs/refs/notes/loops/fix");
    std::fs::create_dir_all(log.join("empty")).unwrap();
    check().unwrap();
    std::fs::create_dir_all(log.join("other")).unwrap();
    std::fs::write(log.join("other/log"), "").unwrap();
    assert!(matches!(check().unwrap_err(), RefError::Io { path, .. } if path == log));
}

#[test]
fn what_a_killed_process_left_does_not_stop_the_next() {
    let repo = TestRepo::new();
    let (open, who, first) = (repo.open(), repo.signature(), repo.id("HEAD"));
    let tokens = open.common_dir().join("loops/.refs");
    let lock = open.common_dir().join("refs/loops/fix/head.lock");
    std::fs::create_dir_all(&tokens).unwrap();
    std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
    std::fs::write(tokens.join("4000000-1-1"), format!("{first}\n")).unwrap();
    std::fs::hard_link(tokens.join("4000000-1-1"), &lock).unwrap();
    assert!(!repo.try_git(["update-ref", "refs/loops/fix/head", "HEAD"]).status.success());
    open.update_refs(&[change(id().refs().head(), Expect::Absent, first)], &who, Durability::Fast).unwrap();
    assert_eq!(repo.id("refs/loops/fix/head"), first);
    assert!(!lock.exists());
}

/// Writers in threads and `git update-ref` each add a commit on top of what they see; none may be lost.
#[test]
fn racing_writers_lose_nothing() {
    const EACH: usize = 25;
    let repo = TestRepo::new();
    let (base, tree) = (repo.id("HEAD"), repo.id("HEAD^{tree}"));
    let (ledger, head) = (id().refs().ledger(), id().refs().head());
    let first = [change(ledger.clone(), Expect::Absent, base), change(head.clone(), Expect::Absent, base)];
    repo.open().update_refs(&first, &repo.signature(), Durability::Fast).unwrap();
    let commit_on = |open: &Repo, parent: ObjectId, label: &str| {
        let who = repo.signature();
        let bytes = format!("tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\n{label}\n");
        open.write_raw(gix::objs::Kind::Commit, bytes.as_bytes(), Durability::Fast).unwrap()
    };
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (repo, ledger, head, commit_on) = (&repo, &ledger, &head, &commit_on);
            scope.spawn(move || {
                let (open, who) = (repo.open(), repo.signature());
                let mut done = 0;
                while done < EACH {
                    let tip = open.read_ref(ledger.as_ref()).unwrap().unwrap();
                    let next = commit_on(&open, tip, &format!("writer {writer} {done}"));
                    // In another order in each thread.
                    let mut changes = vec![
                        change(ledger.clone(), Expect::Exactly(tip), next),
                        change(head.clone(), Expect::Any, next),
                    ];
                    if writer % 2 == 1 {
                        changes.reverse();
                    }
                    match open.update_refs_within(&changes, &who, Durability::Fast, Duration::from_secs(60)) {
                        Ok(()) => done += 1,
                        Err(RefError::Moved { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        scope.spawn(|| {
            let open = repo.open();
            let mut done = 0;
            while done < EACH {
                let tip = read(&open, &ledger).unwrap();
                let next = commit_on(&open, tip, &format!("git {done}"));
                let args = ["update-ref", "refs/loops/fix/ledger", &next.to_string(), &tip.to_string()];
                if repo.try_git(args).status.success() {
                    done += 1;
                }
            }
        });
        scope.spawn(|| {
            for _ in 0..5 {
                let _ = repo.try_git(["pack-refs", "--all"]);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
    });
    let messages = repo.git(["log", "--format=%s", "refs/loops/fix/ledger"]);
    assert_eq!(messages.lines().count(), 4 * EACH + 1);
    let unique: BTreeSet<_> = messages.lines().collect();
    assert_eq!(unique.len(), 4 * EACH + 1);
    let left: Vec<_> = std::fs::read_dir(repo.path().join(".git/refs/loops/fix")).unwrap().collect();
    assert!(left.len() <= 2, "no lock is left: {left:?}");
}

/// What the process does that the next test kills: it moves both refs back and forth for ever.
#[cfg(unix)]
#[test]
#[ignore = "runs for ever, in a process that is killed"]
fn child_that_writes_for_ever() {
    let dir =
        PathBuf::from(std::env::var_os("GIT_LOOP_TEST_REPO").expect("only run by the test that kills it"));
    let host = crate::host::HostEnv::from_process().unwrap();
    let (open, at) = (Repo::discover(&dir, &host).unwrap(), host.now());
    let who = Signature::new("Child", "child@example.org", at).unwrap();
    let parent = open.require_commit().unwrap();
    let commit = open.gix().find_commit(parent).unwrap();
    let values = [parent, commit.parent_ids().next().unwrap().detach()];
    for value in values.into_iter().cycle() {
        let changes = [id().refs().ledger(), id().refs().head()].map(|name| change(name, Expect::Any, value));
        open.update_refs(&changes, &who, Durability::Fast).unwrap();
    }
}

/// Whenever a writer is killed, the next one gets through at once, and the ledger is never behind the head.
#[cfg(unix)]
#[test]
fn writers_that_are_killed_at_any_moment_leave_nothing_in_the_way() {
    let repo = TestRepo::new();
    let (first, second) = (repo.id("HEAD"), repo.commit("second"));
    let (open, who) = (repo.open(), repo.signature());
    // The log of a ref that is made is written before the ref is there.
    let both = [id().refs().ledger(), id().refs().head()].map(|name| change(name, Expect::Any, first));
    open.update_refs_within(&both, &who, Durability::Fast, Duration::ZERO).unwrap();
    let mut left_over = 0;
    for round in 0..15 {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["git::transaction::tests::child_that_writes_for_ever", "--exact", "--ignored"]);
        command.env_clear().envs(repo.host().vars()).env("GIT_LOOP_TEST_REPO", repo.path());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let begin = std::time::Instant::now();
        let log = open.common_dir().join("logs/refs/loops/fix/head");
        let size = || log.metadata().map_or(0, |meta| meta.len());
        let before = size();
        while size() == before && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(137 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let folder = open.common_dir().join("refs/loops/fix");
        let is_lock = |entry: &std::fs::DirEntry| entry.path().extension().is_some_and(|end| end == "lock");
        left_over += std::fs::read_dir(folder).unwrap().flatten().filter(is_lock).count();
        for name in [id().refs().ledger(), id().refs().head()] {
            assert!([Some(first), Some(second)].contains(&read(&open, &name)));
        }
        let changes = [id().refs().ledger(), id().refs().head()].map(|name| change(name, Expect::Any, first));
        open.update_refs_within(&changes, &who, Durability::Fast, Duration::ZERO).unwrap();
        assert_eq!(repo.id("refs/loops/fix/head"), first);
    }
    // Not asserted: it depends on the moment. It says with --nocapture whether the test still tests something.
    eprintln!("{left_over} locks were left and removed");
}
