//! Loops from start to halt, with every step read back by stock git.

use crate::support::scenario::{HONEST, numbers};
use crate::support::{RUNNER, TestEnv, tool};

#[test]
fn a_worker_that_needs_three_iterations_converges_and_stock_git_reads_it_all() {
    if !tool("ssh-keygen") {
        return;
    }
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let before = env.users_things();
    env.git_loop(&["start", "fix", "-f", "loop.toml"]).expect_code(0);
    let run = env.git_loop(&["run", "fix"]).expect_code(10);
    assert!(run.stdout.contains("awaiting review"), "{run:?}");
    assert_eq!(env.users_things(), before, "the user's things are untouched");

    let story = env.git(&["log", "--first-parent", "--reverse", "--format=%s", "refs/loops/fix/ledger"]);
    let lines: Vec<&str> = story.lines().collect();
    assert_eq!(lines[0], "contract: Mend the three numbers");
    assert_eq!(lines[1], "baseline: failing 3");
    assert!(lines[2].starts_with("checkpoint 1: start from "), "{story}");
    assert_eq!(lines[3], "iteration 1 accepted (metric_improved), failing 2");
    assert_eq!(lines[5], "iteration 2 accepted (metric_improved), failing 1");
    assert_eq!(lines[7], "iteration 3 accepted (target_met), failing 0");
    assert_eq!(lines[8], "halt: success_condition_met after 3 iterations");
    assert_eq!(lines.len(), 9, "{story}");

    // Stock git verifies every record and every candidate with a plain allowed-signers file.
    let trust = format!("gpg.ssh.allowedSignersFile={}", env.trust_file().display());
    let all = env.git(&["rev-list", "refs/loops/fix/ledger"]);
    let mut verified = 0;
    for commit in all.lines() {
        let subject = env.git(&["log", "-1", "--format=%s", commit]);
        if subject == "Begin" {
            continue;
        }
        let output = env.try_git(&["-c", &trust, "verify-commit", commit]).expect_code(0);
        assert!(output.stderr.contains(&format!("Good \"git\" signature for {RUNNER}")), "{output:?}");
        verified += 1;
    }
    assert_eq!(verified, 9 + 3, "nine records and three candidates");

    // Each candidate has its receipt as a note.
    let notes = env.git(&["log", "--notes=loops/fix", "--format=%s%n%N", "refs/loops/fix/ledger"]);
    assert_eq!(notes.matches("\"schema\":\"git-loop/receipt/v1\"").count(), 3, "{notes}");

    let verify = env.git_loop(&["verify", "fix"]).expect_code(0);
    assert!(verify.stdout.contains("9 records and 3 decisions hold"), "{verify:?}");

    // The line of work is at green, which holds all three mended files.
    assert_eq!(env.git(&["show", "refs/loops/fix/head:src/c"]), "3");
    assert_eq!(env.git(&["rev-list", "--count", "HEAD..refs/loops/fix/head"]), "3");

    // Running again writes nothing and answers with the halt's code.
    let tip = env.git(&["rev-parse", "refs/loops/fix/ledger"]);
    env.git_loop(&["run", "fix"]).expect_code(10);
    assert_eq!(env.git(&["rev-parse", "refs/loops/fix/ledger"]), tip);

    // And nothing else is left behind.
    assert_eq!(env.git(&["worktree", "list"]).lines().count(), 1);
    env.git(&["fsck", "--strict"]);
}

#[test]
fn a_regression_is_rolled_back_and_the_attempt_stays_reachable() {
    let env = TestEnv::new();
    let worker = r#"case "$GIT_LOOP_ITERATION" in
  1) echo 1 > src/a ;;
  2) echo 0 > src/a; echo 2 > src/b; echo 3 > src/c ;;
  3) echo 2 > src/b; echo 3 > src/c ;;
esac
"#;
    numbers(&env, worker, "");
    env.git_loop(&["run", "fix"]).expect_code(10);
    let story = env.git(&["log", "--first-parent", "--reverse", "--format=%s", "refs/loops/fix/ledger"]);
    assert!(story.contains("iteration 2 rejected (tests_regressed), failing 1"), "{story}");
    let show = env.git_loop(&["show", "fix", "2", "--json"]).expect_code(0).json();
    let receipt = &show["record"]["body"]["receipt"];
    assert_eq!(receipt["decision"]["rollback_required"], true);
    assert_eq!(receipt["check"]["regressed"][0], "a");
    let candidate = receipt["candidate"].as_str().unwrap();
    env.git(&["reflog", "expire", "--expire=now", "--all"]);
    env.git(&["gc", "--quiet", "--prune=now"]);
    assert_eq!(env.git(&["show", &format!("{candidate}:src/c")]), "3", "gc cannot drop a rejected attempt");
    env.git_loop(&["verify", "--all"]).expect_code(0);
}

#[test]
fn each_hard_limit_stops_with_its_own_reason_and_code() {
    let idle = "true\n";
    let cases: &[(&str, &str, &str, i32)] = &[
        // worker, more limits, halt reason, exit code
        (idle, "", "infeasible_suspected", 17),
        ("echo $GIT_LOOP_ITERATION > src/d\n", "", "same_failure_repeated", 17),
        ("exit 3\n", "", "execution_failure", 40),
    ];
    for (index, (worker, extra, reason, code)) in cases.iter().enumerate() {
        let env = TestEnv::new();
        numbers(&env, worker, extra);
        let output = env.git_loop(&["run", "fix", "--json"]).expect_code(*code);
        assert_eq!(output.json()["halt_reason"], *reason, "case {index}");
        env.git_loop(&["verify", "fix"]).expect_code(0);
    }
}

#[test]
fn the_iteration_limit_stops_after_exactly_that_many_worker_starts() {
    let env = TestEnv::new();
    let log = env.home().join("starts");
    std::fs::write(&log, "").unwrap();
    numbers(&env, HONEST, "");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml"))
        .unwrap()
        .replace("iterations = 10", "iterations = 2");
    env.write("loop.toml", toml);
    let output = env.git_loop(&["run", "fix", "--json"]).expect_code(12);
    let json = output.json();
    assert_eq!(json["halt_reason"], "max_iterations_reached");
    assert_eq!(json["iteration_count"], 2);
    assert_eq!(json["status"], "stopped");
}

#[test]
fn money_that_the_worker_reports_is_counted_and_limited() {
    let env = TestEnv::new();
    let worker = r#"printf '{"cost":{"prompt_tokens":10,"completion_tokens":5,"usd":0.4},"summary":"one"}' > "$GIT_LOOP_EVIDENCE"
echo "$GIT_LOOP_ITERATION" > src/d
"#;
    numbers(&env, worker, "cost_usd = 1.0\n");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml"))
        .unwrap()
        .replace("usage = \"none\"", "usage = \"json\"");
    env.write("loop.toml", toml.replace("no_progress = 3", "no_progress = 20"));
    let json = env.git_loop(&["run", "fix", "--json"]).expect_code(18).json();
    assert_eq!(json["halt_reason"], "budget_exceeded");
    // Two runs cost 0.80; a third would need a reservation of 0.40 more than there is.
    assert_eq!(json["iteration_count"], 2);
    assert_eq!(json["cost_cents"], 80);
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn what_an_agent_prints_of_its_cost_is_counted_and_limited() {
    let env = TestEnv::new();
    let worker = r#"echo 'Starting...'
echo '{"type":"system","subtype":"init","session_id":"s","model":"claude-opus-4-8"}'
echo "$GIT_LOOP_ITERATION" > src/d
# More than is kept as evidence.
i=0; while [ $i -lt 3000 ]; do echo '{"type":"assistant","session_id":"s","message":{"content":"word word word word"}}'; i=$((i+1)); done
printf '{"type":"result","session_id":"s","total_cost_usd":0.4,"modelUsage":{"claude-opus-4-8":{"inputTokens":7,"cacheReadInputTokens":3,"outputTokens":5}}}'
"#;
    numbers(&env, worker, "cost_usd = 1.0\nevidence_kib = 8\n");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml"))
        .unwrap()
        .replace("usage = \"none\"", "usage = \"claude\"");
    env.write("loop.toml", toml.replace("no_progress = 3", "no_progress = 20"));
    let json = env.git_loop(&["run", "fix", "--json"]).expect_code(18).json();
    assert_eq!(json["halt_reason"], "budget_exceeded");
    assert_eq!((&json["iteration_count"], &json["cost_cents"]), (&2.into(), &80.into()));
    let shown = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
    let cost = &shown["record"]["body"]["receipt"]["cost"];
    assert_eq!((&cost["prompt_tokens"], &cost["completion_tokens"]), (&10.into(), &5.into()), "{shown}");
    assert_eq!(cost["basis"], "reported");
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn an_agent_that_names_no_cost_goes_on_under_a_limit_on_tokens() {
    let env = TestEnv::new();
    let worker = r#"echo "$GIT_LOOP_ITERATION" > src/d
echo '{"type":"thread.started","thread_id":"t"}'
echo '{"type":"turn.started"}'
echo '{"type":"turn.completed","usage":{"input_tokens":40,"cached_input_tokens":30,"output_tokens":20}}'
"#;
    numbers(&env, worker, "tokens = 100\nunknown_cost = \"allow\"\n");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml"))
        .unwrap()
        .replace("usage = \"none\"", "usage = \"codex\"");
    env.write("loop.toml", toml.replace("no_progress = 3", "no_progress = 20"));
    let json = env.git_loop(&["run", "fix", "--json"]).expect_code(18).json();
    assert_eq!(json["halt_reason"], "budget_exceeded");
    assert_eq!((&json["iteration_count"], &json["cost_cents"]), (&2.into(), &0.into()));
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn an_unknown_cost_is_not_zero() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml"))
        .unwrap()
        .replace("usage = \"none\"", "usage = \"json\"");
    env.write("loop.toml", toml);
    let json = env.git_loop(&["run", "fix", "--json"]).expect_code(18).json();
    assert_eq!(json["halt_reason"], "budget_exceeded");
    assert_eq!(json["iteration_count"], 1);
}

#[test]
fn a_base_that_meets_the_target_halts_before_the_first_worker() {
    let env = TestEnv::new();
    numbers(&env, "touch started\n", "");
    env.write("src/a", "1\n");
    env.write("src/b", "2\n");
    env.write("src/c", "3\n");
    env.commit("All is well");
    let json = env.git_loop(&["run", "fix", "--json"]).expect_code(11).json();
    assert_eq!(json["halt_reason"], "no_actionable_tasks");
    assert_eq!(json["status"], "stopped");
    assert_eq!(json["iteration_count"], 0);
}

#[test]
fn once_ends_after_one_iteration_and_the_next_run_goes_on() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let json = env.git_loop(&["run", "fix", "--once", "--json"]).expect_code(0).json();
    assert_eq!(json["iteration_count"], 1);
    assert_eq!(json["status"], "active");
    env.git_loop(&["run", "fix"]).expect_code(10);
    let status = env.git_loop(&["status", "fix", "--json"]).expect_code(0).json();
    assert_eq!(status["iteration_count"], 3);
}

#[test]
fn an_operators_stop_is_on_the_record_and_can_be_resumed() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    env.git_loop(&["stop", "fix", "--reason", "lunch"]).expect_code(0);
    let json = env.git_loop(&["run", "fix", "--json"]).expect_code(11).json();
    assert_eq!(json["halt_reason"], "operator_stopped");
    env.git_loop(&["run", "fix", "--resume"]).expect_code(10);
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn short_ids_name_objects_in_repositories_of_either_format() {
    for format in ["sha1", "sha256"] {
        let env = TestEnv::with(&[&format!("--object-format={format}")], "repo");
        numbers(&env, HONEST, "");
        let first = env.git(&["rev-parse", "HEAD"]);
        env.write("README", "more\n");
        let second = env.commit("More");
        for (number, length) in [6, 12, 39].into_iter().enumerate() {
            let id = format!("at{number}");
            env.git_loop(&["start", &id, "--base", &second[..length]]).expect_code(0);
            assert_eq!(env.git(&["rev-parse", &format!("refs/loops/{id}/head")]), second, "{format}");
        }
        let parent = format!("{}~1", &second[..12]);
        env.git_loop(&["start", "parent", "--base", &parent]).expect_code(0);
        assert_eq!(env.git(&["rev-parse", "refs/loops/parent/head"]), first, "{format}");
        env.git_loop(&["gate", &format!("{}..HEAD", &first[..7])]).expect_code(0);
        // A ref of that name goes first, and what names nothing still does.
        env.git(&["branch", &second[..8], &first]);
        env.git_loop(&["start", "branch", "--base", &second[..8]]).expect_code(0);
        assert_eq!(env.git(&["rev-parse", "refs/loops/branch/head"]), first, "{format}");
        env.git_loop(&["start", "none", "--base", "0123456789"])
            .expect_code(129)
            .expect_stderr("names nothing");
    }
}
