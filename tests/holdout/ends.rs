//! The ways in which a holdout ends: with a report, without a verdict, or ended by somebody.

use std::fs;
#[cfg(unix)]
use std::path::PathBuf;

#[cfg(unix)]
use super::leftovers;
use super::{CANARY, MEET, holds, receipt, state, with_holdout};
use crate::support::TestEnv;

#[test]
fn a_holdout_without_a_verdict_is_a_check_without_one() {
    let endings = [
        ("sleep 60", "it timed out"),
        ("kill -9 $$", "a signal ended it"),
        ("no-such-program-here", "a program that it starts is not there, or not executable"),
        ("echo x > answer", "a file of it was changed while it ran"),
        ("rm answer", "a file of it was changed while it ran"),
    ];
    for (ending, problem) in endings {
        let env = TestEnv::new();
        let folder = with_holdout(&env, &format!("#!/bin/sh\n{ending}\n"), &[MEET], "");
        let toml = fs::read_to_string(env.repo().join("loop.toml")).unwrap();
        let quick = format!("folder = \"{}\"\ntimeout = \"60s\"", folder.display());
        let short = if ending.starts_with("sleep") { quick.replace("60s", "1s") } else { quick.clone() };
        env.write("loop.toml", toml.replace(&quick, &short));
        env.git_loop(&["run", "fix", "--once"]).expect_code(0);
        let receipt = receipt(&env, 1);
        assert_eq!(receipt["decision"]["outcome_reason"], "verifier_failed", "{ending}");
        assert_eq!(receipt["holdout"]["verdict"], "no_verdict", "{ending}");
        assert_eq!(receipt["holdout"]["problem"], problem, "{ending}");
        assert_eq!(state(&env)["counters"]["holdout_red"], 0, "{ending}: it is not held to be red");
        holds(&env);
    }
}

#[test]
fn of_a_holdouts_report_the_number_of_failing_tests_is_kept() {
    let env = TestEnv::new();
    let run = "#!/bin/sh\necho \"ok one-canary-5c1f0b\"\n\
               if [ -e \"$GIT_LOOP_CANDIDATE/src/d\" ]; then echo 'ok two'; echo 'done 2'; exit 0; fi\n\
               echo 'fail two-canary-5c1f0b'; echo 'fail three'; echo 'done 3'; exit 1\n";
    with_holdout(&env, run, &[MEET, &format!("{MEET} echo 4 > src/d")], "format = \"lines\"\n");
    env.git_loop(&["run", "fix", "--once"]).expect_code(0).expect_stderr("holdout: red, 2 tests failed");
    assert_eq!(receipt(&env, 1)["holdout"]["failing"], 2);
    env.git_loop(&["run", "fix"]).expect_code(10);
    assert_eq!(receipt(&env, 2)["holdout"]["failing"], 0);
    let told = env.git_loop(&["show", "fix", "2", "--evidence", "context.md"]).expect_code(0).stdout;
    assert!(!told.contains(CANARY), "{told}");
    holds(&env);

    // A report that does not add up is none, and neither is one that the exit code contradicts.
    for (run, problem) in [
        ("echo 'ok one'; exit 0", "it gave no complete report"),
        ("echo 'ok one'; echo 'done 1'; exit 1", "its exit code and its report contradict each other"),
        ("echo 'fail one'; echo 'done 1'; exit 0", "its exit code and its report contradict each other"),
    ] {
        let env = TestEnv::new();
        with_holdout(&env, &format!("#!/bin/sh\n{run}\n"), &[MEET], "format = \"lines\"\n");
        env.git_loop(&["run", "fix", "--once"]).expect_code(0);
        assert_eq!(receipt(&env, 1)["holdout"]["problem"], problem, "{run}");
        assert_eq!(receipt(&env, 1)["decision"]["outcome_reason"], "verifier_failed", "{run}");
        holds(&env);
    }
}

/// A holdout that was started, and is asleep: its runner, and the copy that it runs in.
#[cfg(unix)]
fn asleep(env: &TestEnv) -> (std::process::Child, PathBuf) {
    with_holdout(env, "#!/bin/sh\ntouch running\nsleep 600\n", &[MEET, "true"], "");
    env.git_loop(&["start", "fix"]).expect_code(0);
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    let log = fs::File::create(env.home().join("stderr")).unwrap();
    let child =
        command.args(["run", "fix", "--once"]).stdout(std::process::Stdio::null()).stderr(log).spawn();
    let start = std::time::Instant::now();
    loop {
        let running = leftovers(env).into_iter().find(|path| path.ends_with("holdout/running"));
        if let Some(running) = running {
            return (child.unwrap(), running);
        }
        assert!(
            start.elapsed().as_secs() < 300,
            "{}",
            fs::read_to_string(env.home().join("stderr")).unwrap()
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[cfg(unix)]
#[test]
fn a_holdout_that_somebody_ends_is_an_interruption_and_leaves_nothing() {
    let env = TestEnv::new();
    let (mut child, running) = asleep(&env);
    // SAFETY: a plain system call; the child has not been waited for, so its number is not used again.
    assert_eq!(unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGTERM) }, 0);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(!running.exists());
    assert_eq!(leftovers(&env), Vec::<PathBuf>::new());
    let receipt = receipt(&env, 1);
    assert_eq!(receipt["decision"]["outcome_reason"], "abandoned");
    assert!(receipt["abandoned"].as_str().unwrap().contains("while the holdout ran"), "{receipt}");
    assert!(receipt.get("holdout").is_none() && receipt["check"].is_null());
    assert_eq!(state(&env)["counters"]["holdout_red"], 0);
    holds(&env);
}

#[cfg(unix)]
#[test]
fn what_a_killed_runner_left_of_a_holdout_is_gone_before_the_next_worker_starts() {
    let env = TestEnv::new();
    let (mut child, running) = asleep(&env);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(running.exists(), "it had no time to clear up");
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    assert_eq!(leftovers(&env), Vec::<PathBuf>::new());
    assert_eq!(receipt(&env, 1)["decision"]["outcome_reason"], "abandoned");
    assert_eq!(receipt(&env, 2)["decision"]["outcome_reason"], "no_change");
    holds(&env);
}

#[test]
fn the_end_of_the_loops_time_ends_a_holdout() {
    let env = TestEnv::new();
    // Every other step takes moments. This one has a time-out far beyond the loop's.
    with_holdout(&env, "#!/bin/sh\nsleep 600\n", &[MEET], "");
    let toml = fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let toml = toml.replace("duration = \"10m\"", "duration = \"15s\"");
    env.write("loop.toml", toml.replace("timeout = \"60s\"", "timeout = \"10m\""));
    let output = env.git_loop(&["run", "fix", "--json"]);
    let receipt = receipt(&env, 1);
    let holdout = &receipt["holdout"];
    assert_eq!((&holdout["run"]["ended"], &holdout["verdict"]), (&"deadline".into(), &"no_verdict".into()));
    assert_eq!(holdout["problem"], "it ran into the end of the loop's time");
    assert_eq!(receipt["check"]["passing"], true);
    assert_ne!(receipt["decision"]["status"], "accept");
    assert_eq!(output.json()["halt_reason"], "deadline_exceeded", "{output:?}");
    assert_eq!(state(&env)["counters"]["holdout_red"], 0);
    holds(&env);
}
