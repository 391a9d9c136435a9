//! Ctrl-C, SIGTERM, an operator's stop and `kill -9` while a loop runs: recorded or repaired, nothing lost or left.
#![cfg(unix)]

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::TestEnv;
use crate::support::scenario::{HONEST, numbers};

/// A worker that says that it runs and then takes its time in the second iteration.
fn slow_worker(env: &TestEnv) -> String {
    format!(
        "{HONEST}\necho $$ > '{0}/running-'$GIT_LOOP_ITERATION\n[ $GIT_LOOP_ITERATION != 2 ] || [ -e '{0}/go' ] || sleep 600\n",
        env.home().join("tmp").display()
    )
}

/// A loop with that worker, which may write where the test can see it.
fn slow_loop(env: &TestEnv) {
    numbers(env, &slow_worker(env), "\n[sandbox]\nallowed = [\"none\"]\n");
}

fn spawn(env: &TestEnv, args: &[&str]) -> Child {
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    let log = std::fs::File::create(env.home().join("stderr")).unwrap();
    command.args(args).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(300), "waited for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: a plain system call; the child has not been waited for, so its number is not used again.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

fn alive(env: &TestEnv, iteration: u32) -> bool {
    let file = env.home().join("tmp").join(format!("running-{iteration}"));
    let pid: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
    // SAFETY: signal 0 only asks.
    unsafe { libc::kill(pid, 0) == 0 }
}

fn in_second_iteration(env: &TestEnv) -> bool {
    env.home().join("tmp/running-2").exists()
}

/// What must hold after any end: no worktree, no lock, `head` at green, the ledger verifies.
#[track_caller]
fn tidy(env: &TestEnv) {
    assert_eq!(env.git(&["worktree", "list"]).lines().count(), 1);
    env.git_loop(&["verify", "fix"]).expect_code(0);
    let state = env.git_loop(&["status", "fix", "--json"]).expect_code(0).json();
    assert_eq!(env.git(&["rev-parse", "refs/loops/fix/head"]), state["last_green_commit"].as_str().unwrap());
    let leftover: Vec<_> = walk(&env.home().join("cache/git-loop"));
    assert!(leftover.is_empty(), "{leftover:?}");
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .flat_map(|entry| {
            let path = entry.path();
            if path.is_dir() {
                let inside = walk(&path);
                // The folder of the repository itself stays.
                if inside.is_empty() && path.parent() != Some(folder) { vec![path] } else { inside }
            } else if path.extension().is_some_and(|end| end == "verified") {
                // Up to where the ledger was verified is no leftover.
                Vec::new()
            } else {
                vec![path]
            }
        })
        .collect()
}

#[test]
fn signals_roll_the_iteration_back_and_record_it() {
    for (number, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let env = TestEnv::new();
        slow_loop(&env);
        let mut child = spawn(&env, &["run", "fix"]);
        wait_for("the second iteration", || in_second_iteration(&env));
        signal(&child, number);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(code));
        assert!(!alive(&env, 2), "the worker is gone");
        tidy(&env);
        let show = env.git_loop(&["show", "fix", "2", "--json"]).expect_code(0).json();
        let receipt = &show["record"]["body"]["receipt"];
        assert_eq!(receipt["decision"]["outcome_reason"], "abandoned");
        assert_eq!(receipt["decision"]["status"], "reject");
        // It counts as an iteration; the loop goes on with the next number.
        std::fs::write(env.home().join("tmp/go"), "").unwrap();
        let json = env.git_loop(&["run", "fix", "--json"]).json();
        assert_eq!(
            json["iteration_count"].as_u64().unwrap(),
            10.min(json["iteration_count"].as_u64().unwrap())
        );
        assert!(json["iteration_count"].as_u64().unwrap() >= 3);
        tidy(&env);
    }
}

#[test]
fn an_operators_stop_ends_the_worker_and_one_closing_record_follows() {
    let env = TestEnv::new();
    slow_loop(&env);
    let mut child = spawn(&env, &["run", "fix"]);
    wait_for("the second iteration", || in_second_iteration(&env));
    let ann = env.key("ann");
    env.git_loop(&["stop", "fix", "--reason", "enough", "--key", ann.to_str().unwrap()]).expect_code(0);
    assert_eq!(child.wait().unwrap().code(), Some(11));
    assert!(!alive(&env, 2));
    tidy(&env);
    let story = env.git(&["log", "--first-parent", "--reverse", "--format=%s", "refs/loops/fix/ledger"]);
    let lines: Vec<&str> = story.lines().collect();
    assert_eq!(lines[lines.len() - 2], "halt: stopped by an operator after 1 iteration", "{story}");
    assert_eq!(lines[lines.len() - 1], "iteration 2 rejected (abandoned)", "{story}");
    // Nothing more follows until it is resumed.
    env.git_loop(&["run", "fix"]).expect_code(11);
    std::fs::write(env.home().join("tmp/go"), "").unwrap();
    env.git_loop(&["run", "fix", "--resume"]);
    tidy(&env);
}

#[test]
fn a_killed_runner_loses_nothing_wherever_it_was() {
    let env = TestEnv::new();
    // The worker needs many iterations, so that there is always something to kill.
    let worker = "echo \"$GIT_LOOP_ITERATION\" > src/d\n";
    numbers(&env, worker, "");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let check = "echo ok one\ncat src/d 2>/dev/null | sed 's/^/metric /'\necho done 1\n";
    env.write("check.sh", check);
    env.write("src/d", "0\n");
    env.commit("A check that prints a number");
    let toml = toml
        .replace("from = \"failures\"", "from = \"regex\"\npattern = 'metric (\\d+)'")
        .replace("direction = \"minimize\"\ntarget = 0", "direction = \"maximize\"\ntarget = 1000")
        .replace("iterations = 10", "iterations = 100")
        .replace("no_progress = 3", "no_progress = 20");
    env.write("loop.toml", toml);
    env.git_loop(&["start", "fix"]).expect_code(0);
    let mut seen = 0;
    for round in 0..25_u64 {
        let mut child = spawn(&env, &["run", "fix"]);
        // Moments that spread over all steps of an iteration.
        std::thread::sleep(Duration::from_millis(60 + (round * 37) % 300));
        signal(&child, libc::SIGKILL);
        let code = child.wait().unwrap().code();
        let said = std::fs::read_to_string(env.home().join("stderr")).unwrap();
        assert!(code.is_none() || code == Some(12), "{code:?}: {said}");
        let output = env.git_loop(&["verify", "fix"]);
        assert_eq!(output.code, 0, "round {round}: {output:?}");
        let json = env.git_loop(&["status", "fix", "--json"]).expect_code(0).json();
        let count = json["iteration_count"].as_u64().unwrap();
        assert!(count >= seen, "round {round}: an iteration was lost");
        seen = count;
    }
    env.git_loop(&["run", "fix", "--once"]);
    tidy(&env);
    // Every number comes once, in order.
    let story = env.git(&["log", "--first-parent", "--reverse", "--format=%s", "refs/loops/fix/ledger"]);
    let numbers: Vec<&str> = story
        .lines()
        .filter_map(|line| line.strip_prefix("iteration "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let expected: Vec<String> = (1..=numbers.len()).map(|number| number.to_string()).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn an_iteration_whose_runner_was_killed_is_recorded_as_abandoned_by_the_next() {
    let env = TestEnv::new();
    slow_loop(&env);
    let mut child = spawn(&env, &["run", "fix"]);
    wait_for("the second iteration", || in_second_iteration(&env));
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    wait_for("the worker to be ended", || !alive(&env, 2));
    let next = env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    assert!(
        next.stderr.contains("iteration 2: the runner ended before it was recorded; recorded as abandoned"),
        "{next:?}"
    );
    tidy(&env);
    let show = env.git_loop(&["show", "fix", "2", "--json"]).expect_code(0).json();
    let receipt = &show["record"]["body"]["receipt"];
    assert_eq!(receipt["decision"]["outcome_reason"], "abandoned");
    // It counts: the next one has the next number.
    let story = env.git(&["log", "--first-parent", "--format=%s", "refs/loops/fix/ledger"]);
    assert!(story.lines().next().unwrap().starts_with("iteration 3 accepted"), "{story}");
}

#[test]
fn two_runners_of_one_loop_do_not_both_work() {
    let env = TestEnv::new();
    slow_loop(&env);
    let mut child = spawn(&env, &["run", "fix"]);
    wait_for("the second iteration", || in_second_iteration(&env));
    let second = env.git_loop(&["run", "fix"]).expect_code(30);
    assert!(second.stderr.contains(&child.id().to_string()), "it says who holds it: {second:?}");
    signal(&child, libc::SIGTERM);
    child.wait().unwrap();
    tidy(&env);
}
