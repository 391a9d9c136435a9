//! `kill -9` at every step of a synchronisation: it is as it was, or as it should be, and the next one ends it.

use super::LEDGER;
use crate::support::TestEnv;
use crate::support::clones::{bare, clone, kinds};
use crate::support::crash::{Saved, run_killed, trace};
use crate::support::scenario::{HONEST, numbers};

#[test]
fn a_synchronisation_that_is_killed_at_any_step_is_ended_by_the_next() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let origin = bare(&env);
    env.git_loop(&["run", "fix"]).expect_code(10);
    env.git_loop(&["sync"]).expect_code(0);
    let find = |key: &str, message: &str| {
        let key = env.key(key);
        let args = [
            "finding",
            "fix",
            "add",
            "--severity",
            "warn",
            "--message",
            message,
            "--key",
            key.to_str().unwrap(),
        ];
        env.git_loop(&args).expect_code(0);
    };
    // There is one finding on the remote; here are one of this key, and one of another.
    let other = clone(&env, "other", "ann");
    other.sync();
    other.run(0, &["finding", "fix", "add", "--severity", "warn", "--message", "first"]);
    other.sync();
    find("lead", "mine");
    find("ann", "hers");
    env.git(&["config", "user.signingkey", env.key("lead").to_str().unwrap()]);
    let old = env.git(&["rev-parse", LEDGER]);
    let users = env.users_things();
    let saved = Saved::of(&env);
    let passed = trace(&env, &["sync"], 0);
    let names: Vec<&str> = passed.iter().map(|(name, _)| name.as_str()).collect();
    for place in ["sync:fetched", "sync:aside", "sync:before", "sync:moved", "sync:pushed"] {
        assert!(names.contains(&place), "{names:?}");
    }
    let messages = |env: &TestEnv| {
        let list = env.git_loop(&["finding", "fix", "list", "--json"]).expect_code(0).json();
        let said = |one: &serde_json::Value| one["message"].as_str().unwrap().to_owned();
        list["findings"].as_array().unwrap().iter().map(said).collect::<Vec<_>>()
    };
    for (place, count) in &passed {
        for visit in 1..=*count {
            saved.restore();
            run_killed(&env, &["sync"], place, visit);
            env.git_loop(&["verify", "fix"]).expect_code(0);
            let here = messages(&env);
            assert!(here == ["mine", "hers"] || here == ["first", "mine"], "{place}:{visit}: {here:?}");
            env.git_loop(&["sync"]).expect_code(0);
            assert_eq!(messages(&env), ["first", "mine"], "{place}:{visit}");
            let aside = format!("refs/loops-aside/fix/{}", &old[..12]);
            assert_eq!(env.git(&["rev-parse", &aside]), old, "{place}:{visit}");
            assert_eq!(env.git(&["rev-parse", LEDGER]), env.git_in(&origin, &["rev-parse", LEDGER]));
            assert!(kinds(&env, &origin, LEDGER).ends_with("halt finding finding"), "{place}:{visit}");
            assert_eq!(env.users_things(), users, "{place}:{visit}");
            assert_eq!(env.git_loop(&["sync"]).expect_code(0).stdout, "fix: up to date with origin\n");
        }
    }
}
