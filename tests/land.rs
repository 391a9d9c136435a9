//! `git loop land`: the one command that moves a branch of the user's.

use crate::support::TestEnv;
use crate::support::scenario::{HONEST, numbers};

/// A loop `fix` that ran to its end.
fn ran(worker: &str, iterations: u32) -> TestEnv {
    let env = TestEnv::new();
    numbers(&env, worker, "");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write("loop.toml", toml.replace("iterations = 10", &format!("iterations = {iterations}")));
    env.git_loop(&["run", "fix"]);
    env
}

fn promoted() -> TestEnv {
    let env = ran(HONEST, 10);
    let ann = env.key("ann");
    env.git_loop(&["review", "fix", "--approve", "--key", ann.to_str().unwrap()]).expect_code(0);
    env.git_loop(&["promote", "fix", "--key", ann.to_str().unwrap()]).expect_code(0);
    env
}

fn candidate(env: &TestEnv) -> String {
    let status = env.git_loop(&["status", "fix", "--json"]).expect_code(0).json();
    status["state"]["last_green_commit"].as_str().unwrap().to_owned()
}

#[test]
fn a_promoted_loop_lands_on_the_branch_that_is_checked_out() {
    let env = promoted();
    let (green, before) = (candidate(&env), env.git(&["rev-parse", "main"]));
    let dry = env.git_loop(&["land", "fix", "--dry-run"]).expect_code(0);
    assert!(dry.stdout.starts_with("would land fix on main: fast-forward to "), "{}", dry.stdout);
    assert_eq!(env.git(&["rev-parse", "main"]), before);
    // What is not committed and is in nobody's way stays.
    env.write("notes", "mine\n");
    let json = env.git_loop(&["land", "fix", "--json"]).expect_code(0).json();
    assert_eq!((json["how"].as_str(), json["branch"].as_str()), (Some("fast_forward"), Some("main")));
    assert_eq!(json["new"].as_str(), Some(green.as_str()));
    assert_eq!(env.git(&["rev-parse", "main"]), green);
    assert_eq!(env.git(&["status", "--porcelain"]), "?? notes");
    assert!(env.git(&["reflog", "-1", "main"]).contains("loop: land fix"));
    let again = env.git_loop(&["land", "fix"]).expect_code(0);
    assert_eq!(again.stdout, "main has the candidate of fix already\n");
}

#[test]
fn what_is_not_committed_is_never_overwritten() {
    let env = promoted();
    let before = env.git(&["rev-parse", "main"]);
    env.write("src/a", "an edit of mine\n");
    env.git_loop(&["land", "fix"]).expect_code(30).expect_stderr("src/a");
    assert_eq!(env.git(&["rev-parse", "main"]), before);
    assert_eq!(std::fs::read_to_string(env.repo().join("src/a")).unwrap(), "an edit of mine\n");
}

#[test]
fn both_sides_are_merged_and_the_merge_is_signed() {
    let env = promoted();
    env.write("elsewhere", "x\n");
    env.commit("Elsewhere");
    let (green, before) = (candidate(&env), env.git(&["rev-parse", "main"]));
    let dry = env.git_loop(&["land", "fix", "--dry-run"]).expect_code(0);
    assert!(dry.stdout.contains("with a merge; the gate agrees"), "{}", dry.stdout);
    let json = env.git_loop(&["land", "fix", "--json"]).expect_code(0).json();
    assert_eq!(json["how"], "merge");
    assert_eq!(env.git(&["rev-parse", "main^1", "main^2"]), format!("{before}\n{green}"));
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    env.git(&[
        "-c",
        &format!("gpg.ssh.allowedSignersFile={}", env.trust_file().display()),
        "verify-commit",
        "main",
    ]);
    assert!(env.git(&["log", "-1", "--format=%B", "main"]).contains("Loop-Id: fix"));
}

#[test]
fn a_conflict_is_refused_and_changes_nothing() {
    let env = promoted();
    env.write("src/a", "7\n");
    env.commit("The same line");
    let before = env.git(&["for-each-ref", "refs/heads"]);
    env.git_loop(&["land", "fix"])
        .expect_code(1)
        .expect_stderr("conflict in src/a")
        .expect_stderr("git merge");
    assert_eq!(env.git(&["for-each-ref", "refs/heads"]), before);
    assert_eq!(env.git(&["status", "--porcelain"]), "");
}

#[test]
fn another_branch_moves_where_no_work_tree_has_it() {
    let env = promoted();
    let (green, before) = (candidate(&env), env.git(&["rev-parse", "main"]));
    env.git(&["branch", "release", "main"]);
    env.git_loop(&["land", "fix", "--onto", "nope"]).expect_code(129).expect_stderr("no branch `nope`");
    env.git_loop(&["land", "fix", "--onto=-x"]).expect_code(129);
    env.git_loop(&["land", "fix", "--onto", "release"]).expect_code(0);
    assert_eq!(env.git(&["rev-parse", "release", "main"]), format!("{green}\n{before}"));
    // One that another work tree has, or that is being rebased, stays.
    env.git(&["branch", "other", "main"]);
    let there = env.root().join("there");
    env.git(&["worktree", "add", "--quiet", there.to_str().unwrap(), "other"]);
    env.git_loop(&["land", "fix", "--onto", "other"]).expect_code(1).expect_stderr("another work tree");
    env.git_loop_in(&there, &["land", "fix"]).expect_code(0);
    assert_eq!(env.git(&["rev-parse", "other"]), green);
    env.git(&["switch", "--quiet", "--detach", "main"]);
    env.git_loop(&["land", "fix"]).expect_code(129).expect_stderr("HEAD is detached");
    let rebase = env.repo().join(".git/rebase-merge");
    std::fs::create_dir(&rebase).unwrap();
    std::fs::write(rebase.join("head-name"), "refs/heads/main\n").unwrap();
    env.git_loop(&["land", "fix", "--onto", "main"]).expect_code(1).expect_stderr("in use");
    assert_eq!(env.git(&["rev-parse", "main"]), before);
}

#[test]
fn without_a_promotion_only_the_green_of_a_halted_loop_lands_and_only_on_request() {
    let env = ran(HONEST, 10);
    let before = env.git(&["rev-parse", "main"]);
    env.git_loop(&["land", "fix"]).expect_code(1).expect_stderr("not promoted").expect_stderr("--partial");
    let ann = env.key("ann");
    env.git_loop(&[
        "finding",
        "fix",
        "add",
        "--severity",
        "block",
        "--message",
        "x",
        "--key",
        ann.to_str().unwrap(),
    ])
    .expect_code(0);
    env.git_loop(&["land", "fix", "--partial"]).expect_code(1).expect_stderr("a finding that blocks");
    assert_eq!(env.git(&["rev-parse", "main"]), before);

    let env = ran(HONEST, 1);
    let before = env.git(&["rev-parse", "main"]);
    env.git_loop(&["land", "fix"]).expect_code(1);
    assert_eq!(env.git(&["rev-parse", "main"]), before);
    env.git_loop(&["land", "fix", "--partial"]).expect_code(0);
    assert_eq!(env.git(&["rev-parse", "main"]), candidate(&env));

    let env = ran("true\n", 1);
    env.git_loop(&["land", "fix", "--partial"]).expect_code(1).expect_stderr("accepted nothing");

    let env = ran(HONEST, 10);
    let ann = env.key("ann");
    env.git_loop(&["review", "fix", "--reject", "--key", ann.to_str().unwrap()]).expect_code(16);
    env.git_loop(&["land", "fix", "--partial"]).expect_code(1).expect_stderr("a reviewer rejected it");
}

#[test]
fn lasting_code_that_is_not_promoted_does_not_land_nor_does_what_carries_it() {
    let (env, _) = crate::gate::converged();
    let before = env.git(&["rev-parse", "main"]);
    for args in [&["land", "keep"][..], &["land", "keep", "--partial"], &["land", "keep", "--pr"]] {
        env.git_loop(args).expect_code(1).expect_stderr("lasting_code");
    }
    // Another loop that began at its candidate carries its content, and the gate does not agree.
    env.git(&["switch", "--quiet", "-c", "side", "refs/loops/keep/head"]);
    env.write("src/a", "9\n");
    env.commit("Red again");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let begin = toml.find("class = ").unwrap();
    let end = toml.find("[paths]").unwrap();
    let plain = format!("{}class = \"mechanical_transformation\"\n{}", &toml[..begin], &toml[end..]);
    env.write("loop.toml", plain.replace("\n[roles]\nrunner = [\"runner@example.org\"]\n", "\n"));
    env.git_loop(&["run", "after"]).expect_code(10);
    env.git_loop(&["land", "after", "--partial", "--onto", "main"]).expect_code(1).expect_stderr("loop keep");
    assert_eq!(env.git(&["rev-parse", "main"]), before);
}

#[test]
fn a_pull_request_is_a_branch_and_a_text() {
    let env = promoted();
    let before = env.git(&["rev-parse", "main"]);
    let output = env.git_loop(&["land", "fix", "--pr"]).expect_code(0);
    let green = candidate(&env);
    assert_eq!(env.git(&["rev-parse", "loop/fix", "main"]), format!("{green}\n{before}"));
    let text = output.stdout.replace(&green, "GREEN");
    let ledger = env.git(&["rev-parse", "refs/loops/fix/ledger"]);
    insta::assert_snapshot!(text.replace(&ledger, "TIP"), @r#"
    # Mend the three numbers

    The candidate `GREEN` of the bounded loop `fix`: 3 iterations, 3 accepted, spent nothing (usage = "none").

    `failing`: 3 at the base, 0 now; the target is 0.

    ```text
    iteration 1: accepted (metric_improved), failing 2
    iteration 2: accepted (metric_improved), failing 1
    iteration 3: accepted (target_met), failing 0
    halted: success_condition_met
    approved by ann@example.org (record 9)
    promoted by ann@example.org (record 10)
    ```

    Check it in a clone, offline after the fetch:

    ```sh
    git fetch REMOTE 'refs/loops/fix/*:refs/loops/fix/*'
    git loop verify fix    # ledger TIP
    ```
    "#);
    // Again is nothing new; a branch with other commits is not overwritten.
    env.git_loop(&["land", "fix", "--pr"]).expect_code(0).expect_stderr("already");
    env.git(&["branch", "taken", "main"]);
    env.git(&["switch", "--quiet", "taken"]);
    env.write("elsewhere", "x\n");
    env.commit("Elsewhere");
    env.git_loop(&["land", "fix", "--pr", "--branch", "taken"]).expect_code(1).expect_stderr("--branch");
}
