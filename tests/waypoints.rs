//! Whoever appends to a ledger verifies what is new of it, from where it was verified before.

use std::fs;
use std::path::PathBuf;

use crate::support::TestEnv;
use crate::support::scenario::{HONEST, numbers};
use crate::verify::{Forge, converged};

/// The waypoints in this user's cache.
fn waypoints(env: &TestEnv) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![env.home()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => folders.push(entry.path()),
                _ if entry.path().extension().is_some_and(|end| end == "verified") => {
                    found.push(entry.path());
                }
                _ => {}
            }
        }
    }
    found
}

/// Opens the loop for running, and does nothing where no iteration is open.
fn open(env: &TestEnv) -> crate::support::Output {
    env.git_loop(&["checkpoint", "fix", "--abandon"])
}

#[test]
fn a_record_that_was_verified_is_not_read_again_by_whoever_appends() {
    let env = TestEnv::new();
    let records = converged(&env);
    env.git_loop(&["run", "fix"]).expect_code(10);
    let [file] = &waypoints(&env)[..] else { panic!("one waypoint") };
    let object = env.repo().join(".git/objects").join(&records[2][..2]).join(&records[2][2..]);
    let elsewhere = env.root().join("object");
    fs::rename(&object, &elsewhere).unwrap();
    env.git_loop(&["verify", "fix"]).expect_code(20);
    // The file alone decides how far back a verification goes.
    let kept = fs::read(file).unwrap();
    fs::remove_file(file).unwrap();
    env.git_loop(&["run", "fix"]).expect_code(20).expect_stderr(&records[2][..12]);
    for bad in [&b""[..], b"{}", b"null", &kept[..kept.len() / 2]] {
        fs::write(file, bad).unwrap();
        env.git_loop(&["run", "fix"]).expect_code(20);
    }
    let older = String::from_utf8(kept.clone()).unwrap().replace(env!("CARGO_PKG_VERSION"), "0.0.1");
    fs::write(file, older).unwrap();
    env.git_loop(&["run", "fix"]).expect_code(20);
    fs::rename(&elsewhere, &object).unwrap();
    env.git_loop(&["run", "fix"]).expect_code(10);
    assert_eq!(fs::read(file).unwrap(), kept);
}

#[test]
fn what_follows_a_waypoint_is_held_against_what_was_before_it() {
    let env = TestEnv::new();
    let records = converged(&env);
    // Records: contract, baseline, checkpoint 1, iteration 1, checkpoint 2, …
    let first = Forge::read(&env, &records[2]).json("record.json")["body"]["environment_id"].clone();
    let forged = Forge::read(&env, &records[4])
        .record("/body/environment_id", first.clone())
        .state("/checkpoint/environment_id", first)
        .commit(&env);
    env.git(&["update-ref", "refs/loops/fix/ledger", &records[3]]);
    open(&env);
    env.git(&["update-ref", "refs/loops/fix/ledger", &forged]);
    open(&env).expect_code(20).expect_stderr("environment_id");
    // A ledger that does not have the record at all is verified from its beginning.
    let broken = Forge::read(&env, &records[3]).state("/iteration", 7.into()).commit(&env);
    env.git(&["update-ref", "refs/loops/fix/ledger", &broken]);
    open(&env).expect_code(20).expect_stderr("loop_state.json");
}

#[test]
fn a_waypoint_counts_under_the_trust_root_that_it_was_made_with() {
    let env = TestEnv::new();
    converged(&env);
    env.git_loop(&["run", "fix"]).expect_code(10);
    let trust = fs::read_to_string(env.trust_file()).unwrap();
    fs::write(env.trust_file(), trust.replace("runner@", "other@")).unwrap();
    env.git_loop(&["run", "fix"]).expect_code(20);
    fs::write(env.trust_file(), trust).unwrap();
    env.git_loop(&["run", "fix"]).expect_code(10);
    env.git(&["config", "gpg.ssh.revocationFile", env.root().join("revoked").to_str().unwrap()]);
    fs::write(env.root().join("revoked"), env.public_key("runner")).unwrap();
    env.git_loop(&["run", "fix"]).expect_code(20).expect_stderr("revoked");
}

#[test]
fn where_commands_may_run_without_a_sandbox_nothing_is_taken_for_verified() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "[sandbox]\nallowed = [\"landlock\", \"none\"]\n");
    env.git_loop(&["run", "fix"]).expect_code(10);
    env.git_loop(&["run", "fix"]).expect_code(10);
    assert!(waypoints(&env).is_empty());
}
