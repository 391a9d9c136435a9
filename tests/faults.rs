//! What goes wrong on real machines: full and read-only disks, foreign locks, clocks that go back, what killed runners left. Each
//! with its own error, and nothing lost.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::process::Stdio;

use crate::support::crash::{
    PAID, copy_tree, leftovers, paid, receipts, run_killed, sound, tidy, wait_until, walk,
};
use crate::support::scenario::{HONEST, numbers};
use crate::support::{Output, TestEnv, tool};

/// Runs a shell script with mounts of its own, which nobody else sees and which end with it. `None` where that is not allowed.
pub fn with_mounts(env: &TestEnv, script: &str) -> Option<Output> {
    if !tool("unshare") || !tool("mount") {
        return None;
    }
    // SAFETY: takes nothing, cannot fail.
    let flags = if unsafe { libc::geteuid() } == 0 { "-m" } else { "-rm" };
    let may = env.run_command(env.command("unshare", env.repo()).args([flags, "true"]));
    if may.code != 0 {
        assert!(std::env::var_os("GIT_LOOP_CI").is_none(), "mount namespaces are needed in CI: {may:?}");
        eprintln!("skipped: no mount namespace is to be had");
        return None;
    }
    let mut command = env.command("unshare", env.repo());
    command.args([flags, "sh", "-c", script]).env("LOOP", env!("CARGO_BIN_EXE_git-loop"));
    Some(env.run_command(command.env("REPO", env.repo())))
}

/// Lets the worker of [`paid`] do something first, without a sandbox.
fn worker_does(env: &TestEnv, first: &str) {
    env.script("worker.sh", &format!("{first}\n{PAID}"));
    let toml = fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write("loop.toml", toml + "\n[sandbox]\nallowed = [\"none\"]\n");
}

#[track_caller]
fn goes_on(env: &TestEnv, seen: usize) {
    env.git_loop(&["run", "fix"]).expect_code(10);
    let receipts = sound(env, seen, &BTreeMap::new());
    tidy(env, &receipts);
}

// Disks.

#[test]
fn a_full_disk_is_told_and_loses_nothing() {
    let env = TestEnv::new();
    paid(&env);
    // The second worker fills the file system of the repository; the record of its iteration finds no place.
    worker_does(
        &env,
        "[ $GIT_LOOP_ITERATION != 2 ] || [ -e \"$(dirname $0)/enough\" ] || cat /dev/zero > \"$(cat $(dirname $0)/where)/.git/filler\" 2>/dev/null",
    );
    env.git(&["config", "loop.minFreeSpace", "0"]);
    let small = env.root().join("small");
    fs::create_dir(&small).unwrap();
    fs::write(env.root().join("scripts/where"), small.to_str().unwrap()).unwrap();
    let script = format!(
        "set -e; mount -t tmpfs -o size=6m tmpfs '{0}'; cp -a \"$REPO/.\" '{0}'; cd '{0}'
         set +e; $LOOP run fix; echo \"first $?\"
         $LOOP verify fix; echo \"verify $?\"
         rm .git/filler; touch '{1}/enough'
         $LOOP run fix; echo \"second $?\"; $LOOP verify fix; echo \"verify $?\"
         git log --first-parent --format=%s refs/loops/fix/ledger; ls .git/worktrees; find '{2}' -name 'loop-*'",
        small.display(),
        env.root().join("scripts").display(),
        env.home().join("cache").display(),
    );
    let Some(output) = with_mounts(&env, &script) else { return };
    let told = &output.stderr;
    assert!(output.stdout.contains("first 30"), "{output:?}");
    assert!(told.contains("No space left on device"), "{told}");
    assert!(told.contains("hint: check the free space"), "{told}");
    assert!(output.stdout.contains("second 10"), "{output:?}");
    assert_eq!(output.stdout.matches("verify 0").count(), 2, "{output:?}");
    assert!(output.stdout.contains("iteration 2 rejected (abandoned)"), "{output:?}");
    assert!(output.stdout.contains("iteration 3 accepted"), "{output:?}");
    assert!(!output.stdout.contains("loop-fix-"), "a worktree is left: {output:?}");
}

#[test]
fn a_disk_without_room_for_the_work_stops_the_run_before_the_worker() {
    let env = TestEnv::new();
    paid(&env);
    env.git(&["config", "loop.minFreeSpace", "8000000g"]);
    env.git_loop(&["run", "fix"])
        .expect_code(30)
        .expect_stderr("disk_low: ")
        .expect_stderr("hint: make room")
        .expect_stderr("git loop prune");
    let story = env.git(&["log", "--format=%s", "refs/loops/fix/ledger"]);
    assert!(!story.contains("checkpoint"), "{story}");
    env.git(&["config", "loop.minFreeSpace", "10k"]);
    goes_on(&env, 0);
    env.git(&["config", "loop.minFreeSpace", "much"]);
    env.git_loop(&["run", "fix"]).expect_code(10);
    env.git_loop(&["run", "other", "-f", "loop.toml"]).expect_code(30).expect_stderr("loop.minFreeSpace");
}

#[test]
fn a_read_only_file_system_can_be_looked_at_and_refuses_the_rest_by_name() {
    let env = TestEnv::new();
    paid(&env);
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let before = env.git(&["rev-parse", "refs/loops/fix/ledger"]);
    let script = "set -e; mount --bind \"$REPO\" \"$REPO\"; mount -o remount,bind,ro \"$REPO\"; cd \"$REPO\"
        set +e; for word in status verify log show list; do
          case $word in list) $LOOP $word;; *) $LOOP $word fix;; esac >/dev/null || echo \"$word failed\"; done
        $LOOP run fix; echo \"run $?\"; $LOOP stop fix; echo \"stop $?\"; $LOOP start other; echo \"start $?\"";
    let Some(output) = with_mounts(&env, script) else { return };
    assert_eq!(output.stdout.lines().collect::<Vec<_>>(), ["run 30", "stop 30", "start 30"], "{output:?}");
    assert!(output.stderr.matches("Read-only file system").count() >= 3, "{output:?}");
    assert_eq!(env.git(&["rev-parse", "refs/loops/fix/ledger"]), before);
    goes_on(&env, 1);
}

#[test]
fn a_cache_folder_that_is_missing_or_cannot_be_written_is_named() {
    let env = TestEnv::new();
    paid(&env);
    let cache = env.home().join("cache");
    fs::write(&cache, "a file in its place").unwrap();
    env.git_loop(&["run", "fix"]).expect_code(30).expect_stderr(cache.to_str().unwrap());
    fs::remove_file(&cache).unwrap();
    let mut homeless = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    homeless.args(["run", "fix"]).env_remove("HOME").env_remove("XDG_CACHE_HOME");
    env.run_command(&mut homeless)
        .expect_code(30)
        .expect_stderr("neither XDG_CACHE_HOME nor HOME is set")
        .expect_stderr("hint: git config loop.worktreeDir");
    // With a place of its own a loop needs no home.
    let place = env.root().join("worktrees");
    env.git(&["config", "loop.worktreeDir", place.to_str().unwrap()]);
    let mut homeless = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    homeless.args(["run", "fix"]).env_remove("HOME").env_remove("XDG_CACHE_HOME");
    env.run_command(&mut homeless).expect_code(10);
    assert!(
        walk(&place).iter().all(|path| !path.display().to_string().contains("loop-fix")),
        "{:?}",
        walk(&place)
    );
    let script = format!(
        "set -e; mkdir -p '{0}'; mount --bind '{0}' '{0}'; mount -o remount,bind,ro '{0}'; set +e
         git config --unset loop.worktreeDir; $LOOP run again -f loop.toml; echo \"run $?\"",
        cache.display()
    );
    let Some(output) = with_mounts(&env, &script) else { return };
    assert!(output.stdout.contains("run 30"), "{output:?}");
    assert!(output.stderr.contains("Read-only file system") && output.stderr.contains("cache"), "{output:?}");
}

// Locks.

/// A lock of ours that a living process holds.
struct LiveLock {
    file: fs::File,
    paths: [std::path::PathBuf; 2],
}

impl LiveLock {
    fn on(env: &TestEnv, name: &str) -> Self {
        let git = env.repo().join(".git");
        let token = git.join(format!("loops/.refs/{}-1-1-0", std::process::id()));
        let lock = git.join(format!("{name}.lock"));
        let file = fs::File::create(&token).unwrap();
        // SAFETY: the descriptor is open.
        assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0);
        fs::hard_link(&token, &lock).unwrap();
        Self { file, paths: [token, lock] }
    }

    fn release(self) {
        for path in &self.paths {
            fs::remove_file(path).unwrap();
        }
        drop(self.file);
    }
}

#[test]
fn a_ledger_that_a_living_process_has_locked_is_respected_and_the_process_named() {
    let env = TestEnv::new();
    paid(&env);
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let held = LiveLock::on(&env, "refs/loops/fix/ledger");
    let told = format!("locked by git-loop process {} since", std::process::id());
    env.git_loop(&["run", "fix"])
        .expect_code(30)
        .expect_stderr(&told)
        .expect_stderr("hint: run it again when");
    let ann = env.key("ann");
    let stop = ["stop", "fix", "--key", ann.to_str().unwrap()];
    env.git_loop(&stop).expect_code(30).expect_stderr(&told).expect_stderr("hint: run it again when");
    assert!(held.paths[1].exists());
    let kept = env.git_loop(&["prune", "--json"]).expect_code(0).json();
    assert_eq!(kept["removed"], serde_json::json!([]), "{kept}");
    held.release();
    goes_on(&env, 1);
}

#[test]
fn a_lock_of_another_program_is_named_with_its_age_and_never_removed() {
    let env = TestEnv::new();
    paid(&env);
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let lock = env.repo().join(".git/refs/loops/fix/head.lock");
    fs::write(&lock, "").unwrap();
    env.git_loop(&["run", "fix"])
        .expect_code(30)
        .expect_stderr(&format!("{} is locked by another program since", lock.display()))
        .expect_stderr(&format!("rm '{}'", lock.display()));
    env.git_loop(&["prune"]).expect_code(0);
    assert!(lock.exists());
    fs::remove_file(lock).unwrap();
    goes_on(&env, 1);
}

/// The worker is paid by then: what it cost is kept, whatever becomes of its candidate.
#[test]
fn notes_that_cannot_be_written_cost_no_money_twice() {
    let env = TestEnv::new();
    paid(&env);
    let lock = env.repo().join(".git/refs/notes/loops/fix.lock");
    worker_does(&env, &format!("[ $GIT_LOOP_ITERATION != 2 ] || : > '{}'", lock.display()));
    env.git_loop(&["run", "fix"])
        .expect_code(30)
        .expect_stderr("could not be published")
        .expect_stderr(&format!("{} is locked by another program since", lock.display()));
    let noted = crate::support::crash::journalled(&env);
    assert_eq!(noted.values().collect::<Vec<_>>(), [&250_000]);
    fs::remove_file(lock).unwrap();
    env.git_loop(&["run", "fix"]).expect_code(10);
    let receipts = sound(&env, 1, &noted);
    tidy(&env, &receipts);
    assert_eq!(receipts.len(), 3);
    assert_eq!(receipts[1]["decision"]["outcome_reason"], "abandoned");
}

/// Field report 2.14: locks that git left. None of them is needed, so none is in the way, and none is removed.
#[test]
fn stale_locks_of_gits_index_and_config_are_in_nobodys_way() {
    let env = TestEnv::new();
    paid(&env);
    run_killed(&env, &["run", "fix"], "command:running", 2);
    wait_until("the worker to end", || crate::support::crash::processes(&env).is_empty());
    let git = env.repo().join(".git");
    let registration = fs::read_dir(git.join("worktrees")).unwrap().next().unwrap().unwrap().path();
    let locks = [
        git.join("config.lock"),
        git.join("index.lock"),
        git.join("HEAD.lock"),
        git.join("packed-refs.lock"),
    ];
    for lock in locks.iter().chain([&registration.join("index.lock")]) {
        fs::write(lock, "").unwrap();
    }
    env.git_loop(&["run", "fix"]).expect_code(10);
    for lock in locks {
        fs::remove_file(&lock).unwrap_or_else(|error| panic!("{}: {error}", lock.display()));
    }
    let receipts = sound(&env, 0, &BTreeMap::new());
    tidy(&env, &receipts);
}

#[test]
fn a_transaction_that_was_done_by_half_is_repaired_from_the_ledger() {
    let env = TestEnv::new();
    paid(&env);
    env.git_loop(&["start", "fix"]).expect_code(0);
    run_killed(&env, &["run", "fix"], "refs:first-moved", 1);
    assert_ne!(env.try_git(&["rev-parse", "--verify", "--quiet", "refs/notes/loops/fix"]).code, 0);
    let next = env.git_loop(&["run", "fix", "--once"]).expect_code(10);
    assert!(
        next.stderr.contains("fix: 1 receipt was added to refs/notes/loops/fix from the ledger"),
        "{next:?}"
    );
    tidy(&env, &sound(&env, 2, &BTreeMap::new()));
    // All of them, if somebody deleted the notes; and a `head` that somebody moved.
    env.git(&["update-ref", "-d", "refs/notes/loops/fix"]);
    env.git(&["update-ref", "refs/loops/fix/head", "HEAD"]);
    let next = env.git_loop(&["run", "fix"]).expect_code(10);
    assert!(
        next.stderr.contains("2 receipts were added") && next.stderr.contains("head was repaired"),
        "{next:?}"
    );
    tidy(&env, &sound(&env, 2, &BTreeMap::new()));
}

// Clocks.

/// A library that moves the clock of the programs that load it by `CLOCK_OFFSET` seconds.
#[cfg(target_os = "linux")]
fn clock_mover(env: &TestEnv) -> Option<String> {
    if !tool("cc") {
        return None;
    }
    let source = env.script(
        "clock.c",
        "#define _GNU_SOURCE\n#include <stdlib.h>\n#include <time.h>\n#include <unistd.h>\n#include <sys/syscall.h>\n\
         int clock_gettime(clockid_t clock, struct timespec *time) {\n\
         int result = (int)syscall(SYS_clock_gettime, clock, time);\n const char *offset = getenv(\"CLOCK_OFFSET\");\n\
         if (clock == CLOCK_REALTIME && offset) time->tv_sec += atol(offset);\n return result;\n}\n",
    );
    let library = env.root().join("scripts/clock.so");
    let mut command = env.command("cc", env.repo());
    command.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    env.run_command(&mut command).expect_code(0);
    Some(library.to_str().unwrap().to_owned())
}

#[cfg(target_os = "linux")]
#[test]
fn a_clock_that_goes_back_never_takes_a_ledger_back() {
    let env = TestEnv::new();
    paid(&env);
    let Some(library) = clock_mover(&env) else { return };
    let at_offset = |offset: i64, args: &[&str]| {
        let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
        command.args(args).env("LD_PRELOAD", &library).env("CLOCK_OFFSET", offset.to_string());
        env.run_command(&mut command)
    };
    at_offset(0, &["run", "fix", "--once"]).expect_code(0);
    let before = env.git(&["rev-parse", "refs/loops/fix/ledger"]);
    // An hour back: that clock or the records are wrong, and nothing is built on them until it is known which.
    at_offset(-3600, &["run", "fix"])
        .expect_code(20)
        .expect_stderr("which is in the future")
        .expect_stderr("hint: see whether the clock of this machine is right");
    assert_eq!(env.git(&["rev-parse", "refs/loops/fix/ledger"]), before);
    // A few minutes: the records are of the time of the one before them.
    at_offset(-200, &["run", "fix"]).expect_code(10);
    sound(&env, 2, &BTreeMap::new());
    let times = env.git(&["log", "--first-parent", "--reverse", "--format=%ct", "refs/loops/fix/ledger"]);
    let times: Vec<i64> = times.lines().map(|line| line.parse().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let latest = times.iter().max().unwrap();
    assert!(times.iter().filter(|time| *time == latest).count() > 3, "{times:?}");
    // A record from a clock that is ahead is refused by everybody else, until their clocks are there.
    at_offset(3600, &["start", "ahead", "-f", "loop.toml"]).expect_code(0);
    let before = env.git(&["rev-parse", "refs/loops/ahead/ledger"]);
    let verify = env.git_loop(&["verify", "ahead"]).expect_code(20);
    assert!(verify.stdout.contains("which is in the future"), "{verify:?}");
    env.git_loop(&["run", "ahead"]).expect_code(20).expect_stderr("which is in the future");
    assert_eq!(env.git(&["rev-parse", "refs/loops/ahead/ledger"]), before);
    at_offset(3400, &["run", "ahead"]).expect_code(10);
}

// What killed runners left (field reports, section 2).

/// 2.1
#[test]
fn a_leftover_worktree_keeps_no_branch() {
    let env = TestEnv::new();
    paid(&env);
    run_killed(&env, &["run", "fix"], "worktree:filled", 1);
    let list = env.git(&["worktree", "list", "--porcelain"]);
    assert!(list.contains("\ndetached") && list.matches("\nbranch ").count() == 1, "{list}");
    let next = env.git_loop(&["run", "fix"]).expect_code(10);
    assert!(!next.stderr.contains("fatal"), "{next:?}");
    tidy(&env, &sound(&env, 0, &BTreeMap::new()));
}

/// 2.2
#[test]
fn only_our_own_missing_worktrees_are_pruned() {
    let env = TestEnv::new();
    paid(&env);
    let theirs = env.root().join("theirs");
    env.git(&["worktree", "add", "--quiet", "--detach", theirs.to_str().unwrap()]);
    fs::remove_dir_all(&theirs).unwrap();
    run_killed(&env, &["run", "fix"], "command:running", 2);
    fs::remove_dir_all(env.home().join("cache")).unwrap();
    env.git_loop(&["run", "fix"]).expect_code(10);
    let list = env.git(&["worktree", "list", "--porcelain"]);
    assert!(list.contains("theirs") && list.contains("prunable"), "{list}");
    assert!(!list.contains("loop-fix"), "{list}");
}

/// 2.3
#[test]
fn a_registered_worktree_that_is_not_there_is_never_reused() {
    for empty_folder in [false, true] {
        let env = TestEnv::new();
        paid(&env);
        let seen = env.root().join("seen");
        worker_does(&env, &format!("pwd >> '{}'; git rev-parse --show-toplevel >> '{0}'", seen.display()));
        run_killed(&env, &["run", "fix"], "worktree:registered", 2);
        let old =
            env.git(&["worktree", "list"]).lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
        if empty_folder {
            fs::create_dir_all(&old).unwrap();
        }
        goes_on(&env, 0);
        let seen = fs::read_to_string(seen).unwrap();
        let lines: Vec<&str> = seen.lines().collect();
        for pair in lines.chunks(2) {
            assert_eq!(pair[0], pair[1], "the worker starts at the top of its worktree");
            assert_ne!(pair[0], old);
            assert!(pair[0].contains("/loop-fix-"), "{seen}");
        }
    }
}

/// 2.5
#[test]
fn a_hundred_and_twenty_stale_registrations_are_listed_and_removed() {
    let env = TestEnv::new();
    paid(&env);
    run_killed(&env, &["run", "fix"], "worktree:registered", 2);
    fs::remove_dir_all(env.home().join("cache")).unwrap();
    let all = env.repo().join(".git/worktrees");
    let one = fs::read_dir(&all).unwrap().next().unwrap().unwrap().path();
    for number in 0..119 {
        copy_tree(&one, &all.join(format!("loop-fix-{number:016x}")));
    }
    let dry = env.git_loop(&["prune", "--dry-run", "--json"]).expect_code(0).json();
    assert_eq!(dry["removed"].as_array().unwrap().len(), 120, "{dry}");
    assert_eq!(fs::read_dir(&all).unwrap().count(), 120, "nothing was removed");
    let text = env.git_loop(&["prune", "-n"]).expect_code(0);
    assert!(text.stdout.contains("would remove worktree loop-fix-0000000000000000 ("), "{text:?}");
    goes_on(&env, 0);
}

/// 2.6, and the bytes of 2.26
#[test]
fn twenty_killed_runners_leave_no_more_than_one() {
    let env = TestEnv::new();
    paid(&env);
    worker_does(&env, "head -c 300000 /dev/zero > \"$HOME/heap\"; sleep 0.1");
    let toml = fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write(
        "loop.toml",
        toml.replace("iterations = 10", "iterations = 30").replace("cost_usd = 2.0", "cost_usd = 20.0"),
    );
    env.git_loop(&["start", "fix"]).expect_code(0);
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    for _ in 0..20 {
        run_killed(&env, &["run", "fix"], "command:ended", 1);
        assert!(env.git(&["worktree", "list"]).lines().count() <= 2, "{}", env.git(&["worktree", "list"]));
        let size: u64 =
            walk(&env.home().join("cache")).iter().map(|path| path.symlink_metadata().unwrap().len()).sum();
        assert!(size < 600_000, "{size} bytes are left");
    }
    let dry = env.git_loop(&["prune", "--dry-run", "--json"]).expect_code(0).json();
    assert!(dry["bytes"].as_u64().unwrap() > 300_000, "{dry}");
    assert_eq!(dry["removed"].as_array().unwrap().len(), 2, "a worktree and its folder: {dry}");
    let done = env.git_loop(&["prune"]).expect_code(0);
    assert!(done.stdout.contains("removed 2 things, ") && done.stdout.contains("KiB"), "{done:?}");
    assert!(leftovers(&env).iter().all(|left| left.contains(".cost")), "{:?}", leftovers(&env));
    env.git_loop(&["run", "fix"]).expect_code(10);
    assert_eq!(sound(&env, 22, &BTreeMap::new()).len(), 22);
}

/// 2.7
#[test]
fn a_locked_worktree_is_reclaimed_only_if_it_is_ours_and_its_process_is_dead() {
    let env = TestEnv::new();
    paid(&env);
    let theirs = env.root().join("theirs");
    env.git(&["worktree", "add", "--quiet", "--detach", theirs.to_str().unwrap()]);
    env.git(&["worktree", "lock", "--reason", "on a stick", theirs.to_str().unwrap()]);
    fs::remove_dir_all(&theirs).unwrap();
    run_killed(&env, &["run", "fix"], "command:running", 2);
    let all = env.repo().join(".git/worktrees");
    let ours = fs::read_dir(&all)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("loop-"))
        .unwrap();
    // The same reason with a process that is there: this one.
    let live = all.join("loop-fix-00000000000000aa");
    copy_tree(&ours, &live);
    let reason = fs::read_to_string(ours.join("locked")).unwrap();
    let words: Vec<String> = reason
        .split(' ')
        .map(|word| match word.split_once('=') {
            Some(("pid", _)) => format!("pid={}", std::process::id()),
            Some(("start", _)) => "start=0".to_owned(),
            _ => word.to_owned(),
        })
        .collect();
    fs::write(live.join("locked"), words.join(" ")).unwrap();
    env.git_loop(&["run", "fix"]).expect_code(10);
    assert!(!ours.exists());
    assert!(live.exists() && all.join("theirs/locked").exists());
    let kept = env.git_loop(&["prune"]).expect_code(0);
    assert!(kept.stdout.contains("kept loop-fix-00000000000000aa: its process runs"), "{kept:?}");
}

/// 2.8 and 2.10
#[test]
fn rejected_work_and_its_refs_history_outlive_the_worktree_and_gc() {
    let env = TestEnv::new();
    numbers(
        &env,
        "echo wrong > src/a; git add -A; git -c user.name=w -c user.email=w@w commit -qm mine; echo more > src/b\n",
        "",
    );
    env.git_loop(&["run", "fix"]);
    let receipts = receipts(&env);
    assert!(receipts.iter().all(|receipt| receipt["decision"]["status"] != "accept"));
    env.git(&["reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all"]);
    env.git(&["gc", "--quiet", "--prune=now"]);
    for receipt in &receipts {
        let candidate = receipt["candidate"].as_str().unwrap();
        assert_eq!(env.git(&["show", &format!("{candidate}:src/a")]), "wrong");
        assert_eq!(
            env.git(&["show", &format!("{candidate}:src/b")]),
            "more",
            "exactly what the worktree held"
        );
    }
    env.git_loop(&["verify", "fix"]).expect_code(0);
    for name in ["refs/loops/fix/ledger", "refs/loops/fix/head", "refs/notes/loops/fix"] {
        assert!(env.repo().join(".git/logs").join(name).exists(), "{name} has a reflog");
    }
}

/// 2.24
#[test]
fn tidying_up_takes_nothing_from_a_runner_that_lives() {
    let env = TestEnv::new();
    paid(&env);
    let go = env.root().join("go");
    worker_does(&env, &format!("while [ ! -e '{}' ]; do sleep 0.02; done", go.display()));
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    let mut runner =
        command.args(["run", "fix"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let busy = || {
        env.git(&["worktree", "list"]).lines().count() == 2
            && env.git(&["worktree", "list"]).contains("loop-fix-")
    };
    wait_until("a worker", || {
        busy() && env.git(&["log", "--format=%s", "-1", "refs/loops/fix/ledger"]).starts_with("checkpoint")
    });
    for _ in 0..5 {
        let kept = env.git_loop(&["prune", "--json"]).expect_code(0).json();
        assert_eq!(kept["removed"], serde_json::json!([]), "{kept}");
        let why = kept["kept"].to_string();
        assert!(why.contains("its process runs") && why.contains("loop fix is being run"), "{why}");
    }
    fs::write(&go, "").unwrap();
    // Also in the middle of its beginnings and ends.
    while runner.try_wait().unwrap().is_none() {
        env.git_loop(&["prune"]).expect_code(0);
    }
    assert_eq!(runner.wait().unwrap().code(), Some(10));
    tidy(&env, &sound(&env, 2, &BTreeMap::new()));
}

#[test]
fn pruning_takes_what_no_loop_needs_any_more() {
    let env = TestEnv::new();
    let warm = "\n[worktree]\nwarm = [\"target\"]\n";
    numbers(&env, HONEST, warm);
    env.write(".gitignore", "target\n");
    env.write("check.sh", format!("mkdir -p target; echo x > target/x\n{}", crate::support::scenario::CHECK));
    env.commit("A check that leaves something");
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let dry = env.git_loop(&["prune", "-n"]).expect_code(0);
    assert!(dry.stdout.contains("loop fix goes on with it"), "{dry:?}");
    // A loop that was dropped: its refs are gone, and what it kept here is nobody's.
    for name in ["refs/loops/fix/ledger", "refs/loops/fix/head", "refs/notes/loops/fix"] {
        env.git(&["update-ref", "-d", name]);
    }
    let journal = env.repo().join(".git/loops/fix/0123456789abcdef.cost");
    fs::write(&journal, "1\n").unwrap();
    let done = env.git_loop(&["prune", "--json"]).expect_code(0).json();
    let kinds: Vec<&str> =
        done["removed"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["warm", "waypoint", "journal"], "{done}");
    assert!(!journal.exists() && leftovers(&env).is_empty(), "{:?}", leftovers(&env));
    assert_eq!(env.git_loop(&["prune", "--json"]).expect_code(0).json()["removed"], serde_json::json!([]));
}

// Others at the same time.

#[test]
fn twenty_loops_at_once_in_one_repository_all_finish() {
    let env = TestEnv::new();
    paid(&env);
    let runners: Vec<_> = (0..20)
        .map(|number| {
            let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
            command.args(["run", &format!("loop-{number}"), "-f", "loop.toml"]);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for runner in runners {
        let output = runner.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(10), "{}", String::from_utf8_lossy(&output.stderr));
    }
    env.git_loop(&["verify", "--all"]).expect_code(0);
    assert!(leftovers(&env).is_empty(), "{:?}", leftovers(&env));
    env.git(&["fsck", "--strict"]);
}

/// What a user and git's own housekeeping do at any moment.
#[test]
fn gits_housekeeping_beside_a_running_loop_harms_nothing() {
    let env = TestEnv::new();
    paid(&env);
    let remote = env.root().join("remote.git");
    env.git(&["clone", "--quiet", "--bare", ".", remote.to_str().unwrap()]);
    env.git(&["remote", "add", "origin", remote.to_str().unwrap()]);
    env.git(&["config", "gc.worktreePruneExpire", "now"]);
    let commands: [&[&str]; 6] = [
        &["gc", "--quiet", "--prune=now"],
        &["worktree", "prune", "--expire", "now"],
        &["repack", "-adq"],
        &["pack-refs", "--all"],
        &["maintenance", "run", "--quiet"],
        &["fetch", "--quiet", "origin"],
    ];
    let mut rounds = 0;
    for number in 0..4 {
        let id = format!("fix-{number}");
        let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
        command.args(["run", &id, "-f", "loop.toml"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut runner = command.spawn().unwrap();
        while runner.try_wait().unwrap().is_none() {
            for args in &commands {
                // What git removes under our hands is put back a moment later; one of its commands may meet that moment, or another
                // of git's own. What counts is the loop, and the repository in the end.
                let _ = env.try_git(args);
            }
            rounds += 1;
        }
        let output = runner.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(10), "after {rounds} rounds: {said}");
        env.git_loop(&["verify", &id]).expect_code(0);
    }
    assert!(leftovers(&env).is_empty(), "{:?}", leftovers(&env));
    env.git(&["fsck", "--strict"]);
}

/// The worktree in use and the candidate under judgement, held still while git tidies up.
#[test]
fn a_worktree_in_use_and_a_candidate_under_judgement_survive_prune_and_gc() {
    let env = TestEnv::new();
    paid(&env);
    let (marks, go) = (env.root().join("marks"), env.root().join("go"));
    fs::create_dir(&marks).unwrap();
    let hold = format!(
        ": > '{0}'/$GIT_LOOP_ITERATION-$$; while [ ! -e '{1}' ]; do sleep 0.02; done\n",
        marks.display(),
        go.display()
    );
    // The worker waits, then the check of its candidate does; that of the base does not.
    worker_does(&env, &hold);
    let check = fs::read_to_string(env.repo().join("check.sh")).unwrap();
    env.write(
        "check.sh",
        format!(
            "[ \"$(cat src/a)\" != 1 ] || {{ : > '{0}/check'; while [ ! -e '{1}-check' ]; do sleep 0.02; done; }}\n{check}",
            marks.display(),
            go.display()
        ),
    );
    env.commit("A check that waits");
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    let mut runner =
        command.args(["run", "fix"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let housekeeping = || {
        env.git(&["reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all"]);
        env.git(&["worktree", "prune", "--expire", "now"]);
        env.git(&["gc", "--quiet", "--prune=now"]);
        env.git(&["pack-refs", "--all", "--prune"]);
    };
    wait_until("the worker", || fs::read_dir(&marks).unwrap().count() == 1);
    housekeeping();
    let list = env.git(&["worktree", "list"]);
    assert!(list.contains("loop-fix-"), "{list}");
    fs::write(&go, "").unwrap();
    wait_until("the check", || marks.join("check").exists());
    housekeeping();
    let candidate = env.git(&["rev-parse", "refs/loops/fix/head"]);
    assert_eq!(env.git(&["show", &format!("{candidate}:src/a")]), "1");
    fs::write(env.root().join("go-check"), "").unwrap();
    assert_eq!(runner.wait().unwrap().code(), Some(10));
    tidy(&env, &sound(&env, 2, &BTreeMap::new()));
}

#[test]
fn the_second_of_two_runners_says_who_has_the_loop_and_since_when() {
    let env = TestEnv::new();
    paid(&env);
    let go = env.root().join("go");
    worker_does(&env, &format!("while [ ! -e '{}' ]; do sleep 0.02; done", go.display()));
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    let mut runner =
        command.args(["run", "fix"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("a worker", || {
        env.try_git(&["log", "--format=%s", "-1", "refs/loops/fix/ledger"]).stdout.starts_with("checkpoint")
    });
    let second = env.git_loop(&["run", "fix"]).expect_code(30);
    let told = format!("loop 'fix' is being run by process {} on ", runner.id());
    assert!(second.stderr.contains(&told) && second.stderr.contains(" since 2"), "{second:?}");
    fs::write(&go, "").unwrap();
    assert_eq!(runner.wait().unwrap().code(), Some(10));
    tidy(&env, &sound(&env, 2, &BTreeMap::new()));
}
