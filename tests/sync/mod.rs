//! Sharing loops: clones of a bare remote over file://, each with a key of its own.

mod hosts;
#[cfg(unix)]
mod kills;
mod leases;
mod merging;
#[cfg(unix)]
mod races;
mod refused;

use crate::support::TestEnv;
use crate::support::clones::{bare, clone, kinds};
use crate::support::scenario::{HONEST, numbers};

const LEDGER: &str = "refs/loops/fix/ledger";
const NOTES: &str = "refs/notes/loops/fix";

#[test]
fn a_loop_is_run_in_one_clone_reviewed_in_another_and_promoted_in_a_third() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let origin = bare(&env);
    env.git_in(&origin, &["config", "loop.allowedSigners", env.trust_file().to_str().unwrap()]);
    env.git_loop_in(&origin, &["hooks", "install", "--server"]).expect_code(0);
    let runner = clone(&env, "runner", "runner");
    let (reviewer, promoter) = (clone(&env, "reviewer", "ann"), clone(&env, "promoter", "lead"));
    for clone in [&runner, &reviewer, &promoter] {
        clone.run(0, &["hooks", "install"]);
    }
    // What a user may have configured, and what a synchronisation must not follow.
    reviewer.git(&["config", "fetch.prune", "true"]);
    reviewer.git(&["config", "remote.origin.tagOpt", "--tags"]);
    runner.git(&["tag", "there"]);
    runner.git(&["push", "--quiet", "origin", "there"]);
    let users = [runner.users_things(), reviewer.users_things(), promoter.users_things()];

    runner.run(10, &["run", "fix"]);
    let out = runner.sync().stdout;
    assert!(out.starts_with("fix: 9 records to origin\n"), "{out}");
    assert_eq!(runner.sync().stdout, "fix: up to date with origin\n");

    let out = reviewer.run(0, &["sync", "origin", "fix", "--json"]).json();
    assert_eq!((&out["loops"][0]["fetched"], &out["loops"][0]["pushed"]), (&9.into(), &0.into()));
    assert_eq!((&out["status"], &out["loops"][0]["status"]), (&"ok".into(), &"synced".into()));
    for name in [LEDGER, "refs/loops/fix/head", NOTES] {
        assert_eq!(reviewer.id(name), runner.id(name), "{name}");
    }
    assert_eq!(reviewer.id("refs/remotes/origin/loops/fix/ledger"), runner.id(LEDGER));
    assert_eq!(reviewer.id("refs/remotes/origin/loops/fix/notes"), runner.id(NOTES));
    reviewer.run(0, &["verify", "fix"]);
    reviewer.run(0, &["review", "fix", "--approve"]);
    assert_eq!(reviewer.sync().stdout, "fix: 1 record to origin\n");

    promoter.sync();
    promoter.run(0, &["promote", "fix"]);
    assert_eq!(promoter.sync().stdout, "fix: 1 record to origin\n");

    runner.sync();
    let status = runner.run(0, &["status", "fix", "--json"]).json();
    assert_eq!(status["status"], "succeeded");
    assert_eq!(
        kinds(&env, &origin, LEDGER),
        "contract baseline checkpoint iteration checkpoint iteration checkpoint iteration halt review promotion"
    );
    env.git_loop_in(&origin, &["verify", "--all"]).expect_code(0);
    assert_eq!([runner.users_things(), reviewer.users_things(), promoter.users_things()], users);
    // A prune of the user's takes the remote-tracking refs away, and nothing is lost by it.
    reviewer.git(&["fetch", "--quiet", "--prune"]);
    assert_eq!(reviewer.sync().stdout, "fix: 1 record from origin\n");
    assert_eq!(reviewer.id("refs/remotes/origin/loops/fix/ledger"), runner.id(LEDGER));
}

/// Field report 2.37: a fresh clone has no loops, and says what to do.
#[test]
fn a_clone_without_a_key_fetches_and_verifies_everything() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    bare(&env);
    env.git_loop(&["run", "fix"]).expect_code(10);
    env.git_loop(&["run", "other"]).expect_code(10);
    assert_eq!(
        env.git_loop(&["sync"]).expect_code(0).stdout,
        "fix: 9 records to origin\nother: 9 records to origin\n"
    );
    let fresh = clone(&env, "fresh", "ann");
    fresh.git(&["config", "--unset", "user.signingkey"]);
    fresh.run(129, &["show", "fix"]).expect_stderr("git loop sync");
    assert_eq!(fresh.sync().stdout, "fix: 9 records from origin\nother: 9 records from origin\n");
    fresh.run(0, &["verify", "--all"]);
    let notes = fresh.git(&["log", "-1", "--format=%N", "--notes=loops/fix", "refs/loops/fix/head"]);
    assert!(notes.contains("\"loop\":\"fix\""), "{notes}");
}

#[test]
fn what_is_named_on_the_command_line_is_a_remote_or_a_loop() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["sync"]).expect_code(129).expect_stderr("git remote add");
    bare(&env);
    assert_eq!(
        env.git_loop(&["sync"]).expect_code(0).stdout,
        "there are no loops, neither here nor on origin\n"
    );
    env.git_loop(&["sync", "fix"])
        .expect_code(129)
        .expect_stderr("there is no loop `fix`, neither here nor on origin");
    env.git_loop(&["sync", "No"])
        .expect_code(129)
        .expect_stderr("neither a remote of this repository nor the id");
    env.git(&["remote", "add", "elsewhere", "file:///nowhere/at/all.git"]);
    env.git_loop(&["sync", "elsewhere"]).expect_code(30).expect_stderr("/nowhere/at/all.git");
    env.git(&["config", "loop.remote", "elsewhere"]);
    env.git_loop(&["sync"]).expect_code(30);
    env.git(&["config", "loop.remote", "nowhere"]);
    env.git_loop(&["sync"]).expect_code(129).expect_stderr("there is no remote \"nowhere\"");
}
