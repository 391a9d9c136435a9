//! Worktrees that are made while the worker thinks: right whatever the iteration comes to, out of the worker's reach, and gone at the end.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::support::TestEnv;
use crate::support::crash::{leftovers, wait_until, walk};
use crate::support::scenario::numbers;
use crate::trees::overlays;

/// A loop whose worker waits for a sign of the test, then does what `then` says; `cache` is a warm folder.
fn waiting(env: &TestEnv, then: &str) {
    let signs = env.home().join("signs");
    fs::create_dir_all(&signs).unwrap();
    let signs = signs.display();
    let worker = format!("while [ ! -e '{signs}/go-'$GIT_LOOP_ITERATION ]; do sleep 0.02; done\n{then}\n");
    let toml = format!("\n[sandbox]\nread_only = [\"{signs}\"]\n\n[worktree]\nwarm = [\"cache\"]\n");
    numbers(env, &worker, &toml);
    env.write(".gitignore", "cache/\n");
    let check = fs::read_to_string(env.repo().join("check.sh")).unwrap();
    env.write("check.sh", format!("mkdir -p cache; echo warm > cache/made\n{check}"));
    env.commit("Cache");
}

fn run(env: &TestEnv) -> Child {
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    command.args(["run", "fix", "-f", "loop.toml"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn go(env: &TestEnv, iteration: u32) {
    fs::write(env.home().join(format!("signs/go-{iteration}")), "").unwrap();
}

/// The worktrees that there are, as git lists them, without the user's.
fn worktrees(env: &TestEnv) -> Vec<PathBuf> {
    let list = env.git(&["worktree", "list", "--porcelain"]);
    list.lines().filter_map(|line| line.strip_prefix("worktree ")).skip(1).map(PathBuf::from).collect()
}

fn at_checkpoint(env: &TestEnv, iteration: u32) -> bool {
    let tip = env.try_git(&["log", "-1", "--format=%s", "refs/loops/fix/ledger"]);
    tip.stdout.contains(&format!("checkpoint {iteration}:"))
}

/// Waits until the check's worktree and the next worker's are complete: the warm folder comes last.
fn prepared(env: &TestEnv, iteration: u32) -> (PathBuf, PathBuf) {
    wait_until("the checkpoint", || at_checkpoint(env, iteration));
    wait_until("three worktrees with everything", || {
        let all = worktrees(env);
        all.len() == 3 && all.iter().all(|place| place.join("cache/made").exists())
    });
    let all = worktrees(env);
    let name = |place: &Path| place.file_name().unwrap().to_str().unwrap().to_owned();
    let check = all.iter().find(|place| name(place).ends_with("-check")).unwrap().clone();
    // The one that no check belongs to is the next worker's.
    let own = name(&check).trim_end_matches("-check").to_owned();
    let next = all.iter().find(|place| **place != check && name(place) != own).unwrap().clone();
    (check, next)
}

#[test]
fn what_was_prepared_is_right_whether_the_iteration_is_accepted_or_not() {
    let env = TestEnv::new();
    let then = r#"case "$GIT_LOOP_ITERATION" in
  1) echo 1 > src/a; mkdir src/new; echo x > src/new/x; chmod +x src/b ;;
  2) test -x src/b && test -e src/new/x && test -e cache/made && git diff --quiet HEAD && echo 0 > src/a ;;
  *) test "$(cat src/a)" = 1 && test -e cache/made && rm -r src/new && echo 2 > src/b && echo 3 > src/c ;;
esac"#;
    waiting(&env, then);
    let mut runner = run(&env);
    for iteration in 1..=3 {
        let (check, next) = prepared(&env, iteration);
        assert!(!check.join(".git").exists() && next.join(".git").is_dir());
        let inode = fs::metadata(next.join("tests/expected")).unwrap().ino();
        go(&env, iteration);
        if iteration < 3 {
            // The very worktree that was prepared is the one that the next worker has.
            let environment =
                next.file_name().unwrap().to_str().unwrap().trim_start_matches("loop-fix-").to_owned();
            prepared(&env, iteration + 1);
            let record = env.git(&["show", "refs/loops/fix/ledger:record.json"]);
            assert!(record.contains(&environment), "{environment}: {record}");
            let now = fs::metadata(next.join("tests/expected")).unwrap().ino();
            assert_eq!(now, inode);
        }
    }
    assert_eq!(runner.wait().unwrap().code(), Some(10));
    env.git_loop(&["verify", "fix"]).expect_code(0);
    let tree = env.git(&["ls-tree", "-r", "--name-only", "refs/loops/fix/head"]);
    assert!(!tree.contains("src/new") && !tree.contains("cache"), "{tree}");
    assert_eq!(env.git(&["show", "refs/loops/fix/head:src/c"]), "3");
    let left = leftovers(&env);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_somebody_changed_in_a_prepared_worktree_is_not_judged() {
    let env = TestEnv::new();
    let then = "echo 1 > src/a; echo 2 > src/b; echo 3 > src/c; test ! -e stray";
    waiting(&env, then);
    let mut runner = run(&env);
    let (check, next) = prepared(&env, 1);
    // The target would be met by this.
    fs::write(check.join("tests/expected"), "a 9\nb 2\nc 3\n").unwrap();
    fs::write(next.join("stray"), "").unwrap();
    go(&env, 1);
    assert_eq!(runner.wait().unwrap().code(), Some(10));
    env.git_loop(&["verify", "fix"]).expect_code(0);
    let left = leftovers(&env);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_worker_sees_none_of_what_is_prepared() {
    let env = TestEnv::new();
    let then =
        "ls .. > src/a; find / -name made -path '*cache*' 2>/dev/null | grep -v \"^$PWD/\" > src/b; true";
    waiting(&env, then);
    let mut runner = run(&env);
    prepared(&env, 1);
    go(&env, 1);
    prepared(&env, 2);
    let candidate = env.git(&["log", "-1", "--format=%P", "refs/loops/fix/ledger~1"]);
    let candidate = candidate.split(' ').nth(1).unwrap();
    assert_eq!(env.git(&["show", &format!("{candidate}:src/b")]), "");
    assert_eq!(env.git(&["show", &format!("{candidate}:src/a")]).lines().count(), 2, "its own two folders");
    // A stop is noticed, and nothing of what was prepared is left.
    env.git_loop(&["stop", "fix", "--key", env.key("ann").to_str().unwrap()]).expect_code(0);
    assert_eq!(runner.wait().unwrap().code(), Some(11));
    // The loop may be resumed, and its warm folder is kept for that.
    let left: Vec<_> = leftovers(&env).into_iter().filter(|path| !path.contains(".warm/")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_runner_that_is_killed_while_worktrees_are_prepared_leaves_nothing_that_stays() {
    let env = TestEnv::new();
    waiting(&env, "echo 1 > src/a; echo 2 > src/b; echo 3 > src/c");
    let mut runner = run(&env);
    prepared(&env, 1);
    runner.kill().unwrap();
    runner.wait().unwrap();
    assert_eq!(worktrees(&env).len(), 3);
    go(&env, 2);
    go(&env, 1);
    env.git_loop(&["run", "fix"]).expect_code(10);
    let left = leftovers(&env);
    assert!(left.is_empty(), "{left:?}");
    assert!(walk(&env.repo().join(".git/worktrees")).is_empty());
}

#[test]
fn in_overlays_only_the_next_worker_is_prepared() {
    let env = TestEnv::new();
    let then = r#"case "$GIT_LOOP_ITERATION" in
  1) echo 0 > src/a ;;
  2) echo 1 > src/a ;;
  *) test "$(cat src/a)" = 1 && git diff --quiet HEAD && echo 2 > src/b && echo 3 > src/c ;;
esac"#;
    waiting(&env, then);
    if !overlays(&env) {
        return;
    }
    let mut runner = run(&env);
    for iteration in 1..=3 {
        wait_until("the worker and what is prepared", || {
            at_checkpoint(&env, iteration) && worktrees(&env).len() == 2
        });
        assert!(worktrees(&env).iter().all(|place| !place.ends_with("-check")));
        go(&env, iteration);
    }
    assert_eq!(runner.wait().unwrap().code(), Some(10));
    env.git_loop(&["verify", "fix"]).expect_code(0);
    let left: Vec<_> = leftovers(&env).into_iter().filter(|path| !path.contains("/layers/")).collect();
    assert!(left.is_empty(), "{left:?}");
}
