//! Sharing loops: three clones of a bare remote, three keys.

use crate::support::TestEnv;
use crate::support::clones::{bare, clone, kinds};
use crate::support::scenario::{HONEST, numbers};

const LEDGER: &str = "refs/loops/fix/ledger";

#[test]
fn a_loop_is_run_in_one_clone_reviewed_in_another_and_promoted_in_a_third() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let origin = bare(&env);
    let runner = clone(&env, "runner", "runner");
    let (reviewer, promoter) = (clone(&env, "reviewer", "ann"), clone(&env, "promoter", "lead"));
    let users = [runner.users_things(), reviewer.users_things(), promoter.users_things()];

    runner.run(10, &["run", "fix"]);
    let out = runner.sync().stdout;
    assert!(out.starts_with("fix: 9 records to origin\n"), "{out}");
    assert_eq!(runner.sync().stdout, "fix: up to date with origin\n");

    let out = reviewer.run(0, &["sync", "origin", "fix", "--json"]).json();
    assert_eq!((&out["loops"][0]["fetched"], &out["loops"][0]["pushed"]), (&9.into(), &0.into()));
    for name in [LEDGER, "refs/loops/fix/head", "refs/notes/loops/fix"] {
        assert_eq!(reviewer.id(name), runner.id(name), "{name}");
    }
    assert_eq!(reviewer.id("refs/remotes/origin/loops/fix/ledger"), runner.id(LEDGER));
    assert_eq!(reviewer.id("refs/remotes/origin/loops/fix/notes"), runner.id("refs/notes/loops/fix"));
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
    env.git_in(&origin, &["config", "loop.allowedSigners", env.trust_file().to_str().unwrap()]);
    env.git_loop_in(&origin, &["verify", "--all"]).expect_code(0);
    assert_eq!([runner.users_things(), reviewer.users_things(), promoter.users_things()], users);
}
