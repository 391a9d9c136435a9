//! Findings: what a reviewer says while a loop runs and after it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::TestEnv;
use crate::support::scenario::{HONEST, numbers};

fn key(env: &TestEnv) -> String {
    env.key("ann").to_str().unwrap().to_owned()
}

fn add(env: &TestEnv, severity: &str) -> String {
    let ann = key(env);
    let args =
        ["finding", "fix", "add", "--severity", severity, "--message", "it is odd", "--key", &ann, "--json"];
    env.git_loop(&args).expect_code(0).json()["record_id"].as_str().unwrap().to_owned()
}

fn resolve(env: &TestEnv, record: &str) {
    let ann = key(env);
    env.git_loop(&["finding", "fix", "resolve", record, "--message", "it is not", "--key", &ann])
        .expect_code(0);
}

#[test]
fn a_finding_that_blocks_stops_the_loop_until_it_is_resolved() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let record = add(&env, "block");
    let listed = env.git_loop(&["finding", "fix", "list"]).expect_code(0).stdout;
    assert!(listed.contains("block ann@example.org: it is odd"), "{listed}");
    let json = env.git_loop(&["run", "fix", "--json"]).expect_code(11).json();
    assert_eq!((&json["halt_reason"], &json["status"]), (&"human_required".into(), &"blocked".into()));
    assert_eq!(json["iteration_count"], 1, "no worker is started for nothing");
    // As long as it is open the loop stays where it is.
    let tip = env.git(&["rev-parse", "refs/loops/fix/ledger"]);
    env.git_loop(&["run", "fix"]).expect_code(11).expect_stderr("finding fix resolve");
    assert_eq!(env.git(&["rev-parse", "refs/loops/fix/ledger"]), tip);
    resolve(&env, &record[..10]);
    env.git_loop(&["finding", "fix", "list"]).expect_code(0);
    env.git_loop(&["run", "fix"]).expect_code(10);
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn a_finding_that_comes_while_a_worker_runs_blocks_its_iteration() {
    let env = TestEnv::new();
    let tmp = env.home().join("tmp");
    let worker = format!(
        "{HONEST}\n[ $GIT_LOOP_ITERATION != 2 ] || {{ : > '{0}/running'; until [ -e '{0}/go' ]; do sleep 0.05; done; }}\n",
        tmp.display()
    );
    numbers(&env, &worker, "\n[sandbox]\nallowed = [\"none\"]\n");
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    let mut child = command.args(["run", "fix"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !tmp.join("running").exists() {
        assert!(begun.elapsed() < Duration::from_secs(300));
        std::thread::sleep(Duration::from_millis(20));
    }
    add(&env, "warn");
    add(&env, "block");
    // Long enough for the runner to have seen it.
    std::thread::sleep(Duration::from_millis(600));
    std::fs::write(tmp.join("go"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(11));
    let show = env.git_loop(&["show", "fix", "2", "--json"]).expect_code(0).json();
    let decision = &show["record"]["body"]["receipt"]["decision"];
    assert_eq!(decision["outcome_reason"], "blocked_finding");
    assert_eq!((&decision["halt_reason"], &decision["exit_code"]), (&"human_required".into(), &11.into()));
    assert_eq!(decision["rollback_required"], true);
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn a_warning_is_on_the_record_and_stops_nothing() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["start", "fix"]).expect_code(0);
    add(&env, "warn");
    env.git_loop(&["run", "fix"]).expect_code(10);
    let log = env.git_loop(&["log", "fix"]).expect_code(0).stdout;
    assert!(log.contains("finding: warn by ann@example.org: it is odd"), "{log}");
    let ann = key(&env);
    env.git_loop(&["review", "fix", "--approve", "--key", &ann]).expect_code(0);
    env.git_loop(&["promote", "fix", "--key", &ann]).expect_code(0);
}

#[test]
fn nothing_is_promoted_while_a_finding_blocks_and_none_is_taken_afterwards() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["run", "fix"]).expect_code(10);
    let record = add(&env, "block");
    let ann = key(&env);
    env.git_loop(&["review", "fix", "--approve", "--key", &ann]).expect_code(0);
    env.git_loop(&["promote", "fix", "--key", &ann])
        .expect_code(1)
        .expect_stderr("a finding that blocks is open");
    resolve(&env, &record);
    env.git_loop(&["promote", "fix", "--key", &ann]).expect_code(0);
    let late = ["finding", "fix", "add", "--severity", "warn", "--message", "late", "--key", &ann];
    env.git_loop(&late).expect_code(1).expect_stderr("promoted");
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn who_ran_it_settles_no_finding_on_it() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "\n[roles]\nreviewer = [\"ann@example.org\", \"runner@example.org\"]\n");
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let record = add(&env, "block");
    let own = ["finding", "fix", "resolve", &record, "--message", "fine"];
    env.git_loop(&own).expect_code(1).expect_stderr("ran the loop and cannot settle a finding on it");
    resolve(&env, &record);
}

#[test]
fn only_reviewers_have_findings_and_only_open_ones_are_resolved() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["start", "fix"]).expect_code(0);
    let mine = ["finding", "fix", "add", "--severity", "block", "--message", "x"];
    env.git_loop(&mine).expect_code(1).expect_stderr("not a reviewer");
    let ann = key(&env);
    let with = |args: &[&str]| env.git_loop(&[&["finding", "fix"], args, &["--key", &ann]].concat());
    with(&["add", "--severity", "block", "--message", " "])
        .expect_code(129)
        .expect_stderr("--message is empty");
    with(&["resolve", "0123456", "--message", "x"]).expect_code(129).expect_stderr("none is open");
    let record = add(&env, "warn");
    with(&["resolve", "0123456", "--message", "x"]).expect_code(129).expect_stderr("finding fix list");
    resolve(&env, &record);
    with(&["resolve", &record, "--message", "x"]).expect_code(129).expect_stderr("none is open");
    env.git_loop(&["verify", "fix"]).expect_code(0);
}
