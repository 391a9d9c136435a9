//! A remote that does what no ledger does: nothing here moves, and it is said what happened.

use std::path::PathBuf;

use super::LEDGER;
use crate::support::TestEnv;
use crate::support::clones::{Clone, bare, clone};
use crate::support::scenario::{HONEST, numbers};

/// A halted loop on a remote, and a clone that has it.
fn shared(env: &TestEnv) -> (PathBuf, Clone<'_>) {
    numbers(env, HONEST, "");
    let origin = bare(env);
    env.git_loop(&["run", "fix"]).expect_code(10);
    env.git_loop(&["sync"]).expect_code(0);
    let clone = clone(env, "clone", "ann");
    clone.sync();
    (origin, clone)
}

/// Synchronises, which must be refused with `code` and `text`, and move nothing on either side.
#[track_caller]
fn refused(env: &TestEnv, clone: &Clone<'_>, code: i32, text: &str) {
    let origin = env.root().join("origin.git");
    let refs = || (clone.git(&["for-each-ref"]), env.git_in(&origin, &["for-each-ref"]));
    let before = refs();
    let out = clone.run(code, &["sync", "fix"]);
    assert!(out.stdout.contains(text) || out.stderr.contains(text), "no {text:?} in {out:?}");
    assert_eq!(refs(), before);
    let json = clone.run(code, &["sync", "--json"]).json();
    assert_eq!(json["loops"][0]["status"], "refused");
    assert_eq!(json["errors"].as_array().unwrap().len(), 1, "{json}");
    assert_eq!(refs(), before);
}

#[test]
fn a_ledger_that_went_back_is_gone_or_was_replaced() {
    let env = TestEnv::new();
    let (origin, clone) = shared(&env);
    let tip = clone.id(LEDGER);
    env.git_in(&origin, &["update-ref", LEDGER, &format!("{LEDGER}~2")]);
    refused(&env, &clone, 1, "it went back on the remote");
    // Also if this clone has something to push.
    clone.run(0, &["review", "fix", "--approve"]);
    refused(&env, &clone, 1, "it went back on the remote");
    // Field report 2.41: a mirror push of somebody who has no loops.
    env.git_in(&origin, &["update-ref", "-d", LEDGER]);
    refused(&env, &clone, 1, "it is gone from the remote");
    // Another loop under the same name, by the same people.
    let other = TestEnv::new();
    numbers(&other, HONEST, "");
    other.git_loop(&["run", "fix"]).expect_code(10);
    other.git(&["push", "--quiet", origin.to_str().unwrap(), LEDGER]);
    refused(&env, &clone, 1, "it was replaced on the remote");
    // As it was, it goes on.
    env.git_in(&origin, &["update-ref", LEDGER, &tip]);
    assert_eq!(clone.sync().stdout, "fix: 1 record to origin\n");
}

#[test]
fn another_loop_of_the_same_id_is_no_continuation() {
    let env = TestEnv::new();
    let (_, clone) = shared(&env);
    for name in [LEDGER, "refs/loops/fix/head", "refs/notes/loops/fix"] {
        clone.git(&["update-ref", "-d", name]);
    }
    std::fs::remove_file(clone.path.join(".git/loops/fix/remotes")).unwrap();
    clone.git(&["config", "user.signingkey", env.key("runner").to_str().unwrap()]);
    clone.run(0, &["start", "fix"]);
    refused(&env, &clone, 1, "the remote has another loop of this id");
}

#[test]
fn what_does_not_verify_is_not_taken() {
    let env = TestEnv::new();
    let (origin, clone) = shared(&env);
    let tip = clone.id(LEDGER);
    // Unsigned, with the very tree of the record before it.
    let tree = format!("{tip}^{{tree}}");
    let forged = env.git_in(&origin, &["commit-tree", "-p", &tip, "-m", "more", &tree]);
    env.git_in(&origin, &["update-ref", LEDGER, &forged]);
    refused(&env, &clone, 20, "does not verify; nothing was moved");
    // Signed by somebody whom only the remote knows: field report 1.72.
    env.git_in(&origin, &["update-ref", LEDGER, &tip]);
    env.make_key("stranger");
    let stranger = env.public_key("stranger");
    let theirs = env.root().join("their-trust");
    let known = std::fs::read_to_string(env.trust_file()).unwrap();
    let line = format!("{known}ann@example.org namespaces=\"git\" {stranger}");
    std::fs::write(&theirs, line).unwrap();
    env.git(&["config", "loop.allowedSigners", theirs.to_str().unwrap()]);
    let key = env.key("stranger");
    env.git_loop(&["review", "fix", "--approve", "--key", key.to_str().unwrap()]).expect_code(0);
    env.git_loop(&["sync"]).expect_code(0);
    refused(&env, &clone, 20, "does not verify; nothing was moved");
    // One that is wrong hinders no other.
    env.git_loop(&["run", "good"]).expect_code(10);
    env.git_loop(&["sync"]).expect_code(0);
    let out = clone.run(20, &["sync"]);
    assert!(out.stdout.contains("good: 9 records from origin"), "{out:?}");
}

/// What this clone has is not pushed if it does not hold.
#[test]
fn a_ledger_here_that_does_not_verify_is_not_pushed() {
    let env = TestEnv::new();
    let (_, clone) = shared(&env);
    let tip = clone.id(LEDGER);
    let forged = clone.git(&["commit-tree", "-p", &tip, "-m", "more", &format!("{tip}^{{tree}}")]);
    clone.git(&["update-ref", LEDGER, &forged]);
    refused(&env, &clone, 20, "it is not pushed");
}
