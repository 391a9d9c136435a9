//! The same loop in unusual repositories and from unusual places.

use crate::support::TestEnv;
use crate::support::scenario::{HONEST, numbers};

/// Runs the three-iteration loop from `dir` and checks what must be the same everywhere.
#[track_caller]
fn converges(env: &TestEnv, dir: &std::path::Path) {
    let file = env.repo().join("loop.toml");
    env.git_loop_in(dir, &["start", "fix", "-f", file.to_str().unwrap()]).expect_code(0);
    env.git_loop_in(dir, &["run", "fix"]).expect_code(10);
    let verify = env.git_loop_in(dir, &["verify", "fix"]).expect_code(0);
    assert!(verify.stdout.contains("9 records and 3 decisions hold"), "{verify:?}");
    for command in [&["status"][..], &["list"], &["log"], &["show", "fix"], &["diff", "fix"]] {
        env.git_loop_in(dir, command).expect_code(0);
    }
    assert_eq!(env.git(&["show", "refs/loops/fix/head:src/c"]), "3");
}

#[test]
fn a_sha256_repository() {
    let env = TestEnv::with(&["--object-format=sha256"], "repo");
    numbers(&env, HONEST, "");
    converges(&env, env.repo());
    assert_eq!(env.git(&["rev-parse", "refs/loops/fix/ledger"]).len(), 64);
}

#[test]
fn a_linked_worktree() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let linked = env.root().join("linked");
    env.git(&["worktree", "add", "--quiet", "--detach", linked.to_str().unwrap()]);
    converges(&env, &linked);
    assert_eq!(env.git(&["worktree", "list"]).lines().count(), 2, "the user's worktree stays");
}

#[test]
fn a_subfolder() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    converges(&env, &env.repo().join("src"));
}

#[test]
fn a_git_dir_in_the_environment() {
    let mut env = TestEnv::new();
    numbers(&env, HONEST, "");
    let elsewhere = env.root().join("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let git_dir = env.repo().join(".git").to_str().unwrap().to_owned();
    let work_tree = env.repo().to_str().unwrap().to_owned();
    env.set_env("GIT_DIR", &git_dir);
    env.set_env("GIT_WORK_TREE", &work_tree);
    converges(&env, &elsewhere);
}

#[test]
fn a_packed_repository_that_is_repacked_between_iterations() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git(&["gc", "--quiet"]);
    env.git(&["pack-refs", "--all"]);
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    env.git(&["gc", "--quiet", "--prune=now"]);
    env.git(&["pack-refs", "--all"]);
    env.git_loop(&["run", "fix"]).expect_code(10);
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn a_path_with_spaces_and_other_letters() {
    let env = TestEnv::with(&[], "mein ordner ü 漢字 'q\"");
    numbers(&env, HONEST, "");
    converges(&env, env.repo());
}

#[test]
fn a_configuration_on_the_command_line_of_git() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git(&["config", "--unset", "user.signingkey"]);
    env.git_loop(&["start", "fix"]).expect_code(30).expect_stderr("signing key");
    // `git loop` is git's own way to call `git-loop`, with `-c` handed on in the environment.
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_git-loop")).parent().unwrap().to_owned();
    let path = std::env::join_paths(
        std::iter::once(bin).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )
    .unwrap();
    let key = format!("user.signingkey={}", env.key("runner").display());
    let output = env.run_command(
        env.command("git", env.repo()).env("PATH", &path).args(["-c", &key, "loop", "run", "fix"]),
    );
    assert_eq!(output.code, 10, "{output:?}");
}

#[test]
fn a_fresh_clone_verifies_what_it_fetched_and_says_so_if_it_fetched_nothing() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["run", "fix"]).expect_code(10);
    let clone = env.root().join("clone");
    env.git_in(&env.root(), &["clone", "--quiet", env.repo().to_str().unwrap(), clone.to_str().unwrap()]);
    env.git_in(&clone, &["config", "loop.allowedSigners", env.trust_file().to_str().unwrap()]);
    env.git_loop_in(&clone, &["verify", "fix"]).expect_code(129).expect_stderr("git loop sync");
    env.git_in(&clone, &["fetch", "--quiet", "origin", "refs/loops/*:refs/loops/*"]);
    env.git_loop_in(&clone, &["verify", "fix"]).expect_code(0);
    // One ref carries every experiment.
    let bare = env.root().join("bare.git");
    env.git_in(
        &env.root(),
        &["clone", "--quiet", "--bare", env.repo().to_str().unwrap(), bare.to_str().unwrap()],
    );
    env.git_in(&bare, &["fetch", "--quiet", "origin", "refs/loops/fix/ledger:refs/loops/fix/ledger"]);
    env.git_in(&bare, &["config", "loop.allowedSigners", env.trust_file().to_str().unwrap()]);
    env.git_loop_in(&bare, &["verify", "fix"]).expect_code(0);
    env.git_loop_in(&bare, &["run", "fix"]).expect_code(30).expect_stderr("bare");
}
