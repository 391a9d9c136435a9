//! What is told where a loop ends, stands still or cannot begin: to the worker in its context, to people in hints and reasons. Each
//! test is named after what was told wrongly once.

use serde_json::Value;

use crate::support::scenario::{HONEST, numbers};
use crate::support::{APPROVER, TestEnv};

/// Changes the terms.
#[track_caller]
fn edit(env: &TestEnv, edits: &[(&str, &str)]) {
    let mut toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    for (old, new) in edits {
        assert!(toml.contains(old), "{old}");
        toml = toml.replace(old, new);
    }
    env.write("loop.toml", toml);
}

/// A loop whose check is judged by its exit code alone.
const BY_EXIT: [(&str, &str); 2] =
    [("format = \"lines\"", "format = \"none\""), ("from = \"failures\"", "from = \"exit\"")];
const PAID: (&str, &str) = ("usage = \"none\"", "usage = \"json\"");

fn context(env: &TestEnv, iteration: &str) -> String {
    env.git_loop(&["show", "fix", iteration, "--evidence", "context.md"]).expect_code(0).stdout
}

/// The commit with `files` changed, on top of green.
fn candidate(env: &TestEnv, id: &str, files: &[(&str, &str)]) -> String {
    env.git(&["checkout", "--quiet", "--detach", &format!("refs/loops/{id}/head")]);
    for (path, content) in files {
        env.write(path, content);
    }
    env.git(&["add", "--all", "src"]);
    env.git(&["commit", "--quiet", "--allow-empty", "-m", "An attempt"]);
    let commit = env.git(&["rev-parse", "HEAD"]);
    env.git(&["checkout", "--quiet", "main"]);
    commit
}

fn cost(usd: &str, prompt: u32) -> String {
    format!(
        "printf '{{\"cost\":{{\"usd\":{usd},\"prompt_tokens\":{prompt},\"completion_tokens\":0}}}}' > \"$GIT_LOOP_EVIDENCE\""
    )
}

#[test]
fn what_a_check_says_on_stderr_reaches_the_worker() {
    let env = TestEnv::new();
    numbers(&env, "echo $GIT_LOOP_ITERATION > src/d\n", "");
    env.write("check.sh", "echo 'FAIL: test_add (AssertionError)' >&2\nexit 1\n");
    env.commit("A check that talks on stderr");
    edit(&env, &BY_EXIT);
    env.git_loop(&["run", "fix"]).expect_code(17);
    for iteration in ["1", "2"] {
        let text = context(&env, iteration);
        assert!(text.contains("FAIL: test_add (AssertionError)"), "{text}");
    }
    // Both streams where there are both, and the metric of a check that prints one is nothing to hide the reason behind.
    let env = TestEnv::new();
    numbers(&env, "echo $GIT_LOOP_ITERATION > src/d\n", "");
    env.write("check.sh", "echo score 1\necho 'the reason is on stderr' >&2\n");
    env.commit("A score");
    edit(
        &env,
        &[
            ("format = \"lines\"", "format = \"none\""),
            ("from = \"failures\"", "from = \"regex\"\npattern = 'score (\\d+)'"),
        ],
    );
    env.git_loop(&["run", "fix"]).expect_code(17);
    let text = context(&env, "2");
    assert!(text.contains("score 1") && text.contains("the reason is on stderr"), "{text}");
}

#[test]
fn a_worker_is_told_which_tree_the_output_is_of() {
    let env = TestEnv::new();
    let worker = "case $GIT_LOOP_ITERATION in 1) echo 1 > src/a ;; 2) echo 0 > src/a; echo 2 > src/b ;; *) exit 1 ;; esac\n";
    numbers(&env, worker, "");
    edit(&env, &[("timeout = \"60s\"\n\n[check]", "timeout = \"60s\"\non_failure = \"reject\"\n\n[check]")]);
    env.git_loop(&["run", "fix"]).expect_code(17);
    for (iteration, heading) in [
        ("1", "# Output of the check of the base"),
        ("2", "# Output of the check of iteration 1 (accepted; the folder is as it was then)"),
        ("3", "# Output of the check of iteration 2 (rejected; its changes are not here)"),
        // An attempt that was not checked has none.
        ("4", "# Output of the check of iteration 2 (rejected; its changes are not here)"),
    ] {
        let text = context(&env, iteration);
        assert!(text.contains(heading), "{iteration}: {text}");
    }
}

#[test]
fn attempts_that_an_exit_code_calls_red_were_measured() {
    let env = TestEnv::new();
    numbers(&env, "echo $GIT_LOOP_ITERATION > src/d\n", "");
    env.write("check.sh", "exit 1\n");
    env.commit("Red");
    edit(&env, &BY_EXIT);
    let dry = env.git_loop(&["start", "fix", "--dry-run"]).expect_code(0);
    assert!(
        dry.stdout.contains("red at the base, without a metric: the check exited with 1, not with 0"),
        "{dry:?}"
    );
    env.git_loop(&["run", "fix"])
        .expect_code(17)
        .expect_stderr("baseline: red, without a metric: the check exited with 1, not with 0");
    let json = env.git_loop(&["explain", "fix", "--json"]).expect_code(0).json();
    assert_eq!(json["verdict"], "investigate", "{json}");
    assert!(json["because"].as_str().unwrap().contains("the check ran and was red each time"), "{json}");
    // A check that could not even be started said nothing, red or green.
    let env = TestEnv::new();
    numbers(&env, "echo 'exit 127' > src/d\n", "");
    env.write("check.sh", "[ -e src/d ] && exit 127\nexit 1\n");
    env.commit("Red");
    edit(&env, &BY_EXIT);
    env.git_loop(&["run", "fix"]).expect_code(17);
    let json = env.git_loop(&["explain", "fix", "--json"]).expect_code(0).json();
    assert_eq!(json["verdict"], "fix-config", "{json}");
}

#[test]
fn a_halt_for_tokens_is_not_told_as_one_for_money() {
    let env = TestEnv::new();
    let worker = format!("echo $GIT_LOOP_ITERATION > src/a; {}\n", cost("0.1", 1200));
    numbers(&env, &worker, "tokens = 2500\ncost_usd = 5\n");
    edit(&env, &[PAID, ("no_progress = 3", "no_progress = 9")]);
    let wanted = "3600 tokens are used, more than the limit of 2500";
    let run = env.git_loop(&["run", "fix"]).expect_code(18);
    let status = env.git_loop(&["status", "fix"]).expect_code(0);
    for told in [&run.stdout, &status.stdout] {
        assert!(told.contains(wanted) && !told.contains("the next run may cost"), "{told}");
    }
    // Money, both ways: before the next start, and after the last.
    for (limit, wanted) in [
        ("0.25", "$0.20 is spent and the next run may cost $0.10, more than the limit of $0.25"),
        ("0.05", "$0.10 is spent, more than the limit of $0.05"),
    ] {
        let env = TestEnv::new();
        numbers(&env, &worker, &format!("cost_usd = {limit}\n"));
        edit(&env, &[PAID, ("no_progress = 3", "no_progress = 9")]);
        let run = env.git_loop(&["run", "fix"]).expect_code(18);
        assert!(run.stdout.contains(wanted), "{run:?}");
    }
}

#[test]
fn a_rehearsal_ends_as_the_run_would() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.write(
        "check.sh",
        "echo ok a; if date +%N | grep -q '[02468]$'; then echo ok b; else echo fail b; bad=1; fi; echo done 2; exit ${bad:-0}\n",
    );
    env.commit("A coin");
    edit(&env, &[("from = \"failures\"", "from = \"failures\"\nrepeat = 9")]);
    // Nine throws are the same once in 256 times; then the next are not.
    let flaky = (0..4).any(|_| {
        let dry = env.git_loop(&["start", "fix", "--dry-run", "--json"]);
        if dry.code != 14 {
            return false;
        }
        let json = dry.json();
        assert_eq!((&json["status"], &json["halt_reason"]), (&"refused".into(), &"check_flaky".into()));
        assert_eq!(json["errors"][0]["exit_code"], 14, "{json}");
        true
    });
    assert!(flaky, "a check that disagrees with itself is not reported");

    // Met already.
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.write("check.sh", "echo ok a; echo done 1\n");
    env.commit("Met");
    let json = env.git_loop(&["start", "fix", "--dry-run", "--json"]).expect_code(11).json();
    assert_eq!(
        (&json["status"], &json["halt_reason"], &json["target_met"]),
        (&"refused".into(), &"no_actionable_tasks".into(), &true.into())
    );

    // No verdict: what is wrong is among the errors.
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.write("check.sh", "echo ok a\n");
    env.commit("Incomplete");
    let json = env.git_loop(&["start", "fix", "--dry-run", "--json"]).expect_code(30).json();
    assert_eq!(json["status"], "error", "{json}");
    let error = &json["errors"][0];
    assert_eq!(error["exit_code"], 30, "{json}");
    assert!(error["message"].as_str().unwrap().contains(json["problem"].as_str().unwrap()), "{json}");
}

#[test]
fn a_rehearsal_signs_nothing_and_needs_no_approver() {
    let env = TestEnv::new();
    numbers(&env, HONEST, &format!("\n[roles]\napprover = [\"{APPROVER}\"]\n"));
    env.git_loop(&["start", "fix", "--dry-run"])
        .expect_code(0)
        .expect_stderr("may not approve this contract");
    env.git_loop(&["start", "fix"]).expect_code(1).expect_stderr("may not approve this contract");
}

#[test]
fn the_runs_of_a_rehearsed_check_are_all_counted() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    edit(
        &env,
        &[
            ("from = \"failures\"", "from = \"failures\"\nrepeat = 3"),
            ("no_progress = 3", "no_progress = 3\ntokens = 9000"),
        ],
    );
    let dry = env.git_loop(&["start", "fix", "--dry-run"]).expect_code(0).stdout;
    assert!(dry.contains(" s (3 runs);"), "{dry}");
    // Every limit that there is.
    assert!(dry.contains("at most 10 iterations, 9000 tokens in 10m00s"), "{dry}");
}

#[test]
fn nobody_is_sent_to_abandon_an_iteration_of_their_own() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    edit(&env, &[("[worker]\ncommand = [\"sh\", ", "[worker]\ncommand = [\"orchestrator-of-mine\", ")]);
    let started = env.git_loop(&["start", "orch"]).expect_code(0);
    started.expect_stderr("git loop checkpoint orch --json");
    let open = env.git_loop(&["checkpoint", "orch", "--json"]).expect_code(0).json();
    let environment = open["environment_id"].as_str().unwrap();
    let bring = format!("git loop record orch --candidate REV --environment {environment}");
    assert!(next(&open)[0].ends_with(&bring), "{open}");
    for command in ["explain", "status"] {
        let json = env.git_loop(&[command, "orch", "--json"]).expect_code(0).json();
        assert!(next(&json)[0].contains(&bring), "{json}");
    }
    // What cannot be run gives up nothing.
    let tip = env.git(&["rev-parse", "refs/loops/orch/ledger"]);
    env.git_loop(&["run", "orch"])
        .expect_code(30)
        .expect_stderr("orchestrator-of-mine is not found")
        .expect_stderr(&bring);
    assert_eq!(env.git(&["rev-parse", "refs/loops/orch/ledger"]), tip, "nothing is abandoned");
}

fn next(json: &Value) -> Vec<String> {
    let next = json["next"].as_array().map_or(&[][..], Vec::as_slice);
    next.iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_check_that_runs_elsewhere_is_not_looked_for_here() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "\n[roles]\nverifier = [\"lead@example.org\"]\nreviewer = [\"ann@example.org\"]\n");
    edit(
        &env,
        &[
            ("format = \"lines\"", "external = true"),
            ("\"sh\", \"check.sh\"", "\"check-of-mine\""),
            ("command = [\"sh\", ", "command = [\"worker-of-mine\", "),
        ],
    );
    let started = env.git_loop(&["start", "fix"]).expect_code(0);
    assert!(!started.stderr.contains("would stop here"), "{started:?}");
    started.expect_stderr("hint: git loop checkpoint fix --json");
    let open = env.git_loop(&["checkpoint", "fix", "--json"]).expect_code(0).json();
    // Whoever starts a runner by mistake loses nothing.
    let tip = env.git(&["rev-parse", "refs/loops/fix/ledger"]);
    env.git_loop(&["run", "fix"]).expect_code(30).expect_stderr("runs elsewhere");
    assert_eq!(env.git(&["rev-parse", "refs/loops/fix/ledger"]), tip);
    // The verdict needs only to be filled in.
    let mut verdict = open["verdict"].clone();
    let rev = candidate(&env, "fix", &[("src/a", "1\n")]);
    let tree = env.git(&["rev-parse", &format!("{rev}^{{tree}}")]);
    assert_eq!((&verdict["loop"], &verdict["checkpoint"]), (&"fix".into(), &open["checkpoint"]));
    assert_eq!(verdict["frozen"], open["frozen"]);
    for (key, value) in [
        ("candidate_tree", Value::from(tree.clone())),
        ("check_tree", tree.into()),
        ("exit_code", 1.into()),
        ("failures", serde_json::json!(["b", "c"])),
        ("collected", serde_json::json!(["a", "b", "c"])),
    ] {
        assert_eq!(verdict[key], Value::Null, "{key}");
        verdict[key] = value;
    }
    let file = env.home().join("verdict.json");
    std::fs::write(&file, verdict.to_string()).unwrap();
    let (file, key) = (file.to_str().unwrap().to_owned(), env.key("lead"));
    env.git_loop(&["verdict", "sign", &file, "--key", key.to_str().unwrap()]).expect_code(0);
    env.git_loop(&["record", "fix", "--candidate", &rev, "--verdict", &file]).expect_code(0);
    // It was run, if not here.
    let text = env.git_loop(&["explain", "fix"]).expect_code(0).stdout;
    assert!(text.contains("it has not halted, and can go on") && !text.contains("nothing was run"), "{text}");
    env.git_loop(&["stop", "fix", "--key", env.key("ann").to_str().unwrap()]).expect_code(0);
    env.git_loop(&["renew", "fix", "fix-2"])
        .expect_code(0)
        .expect_stderr("hint: git loop checkpoint fix-2 --json");
}

#[test]
fn an_unknown_cost_is_told_when_it_comes_and_when_it_ends_the_loop() {
    let env = TestEnv::new();
    numbers(&env, "exit 1\n", "");
    edit(&env, &[PAID]);
    env.git_loop(&["start", "fix"]).expect_code(0);
    let rev = candidate(&env, "fix", &[("src/a", "1\n")]);
    let first = env.git_loop(&["record", "fix", "--candidate", &rev]).expect_code(0);
    assert!(!first.stderr.contains("Bring the next candidate"), "{first:?}");
    first
        .expect_stderr("pass its cost with --evidence FILE")
        .expect_stderr("git loop renew fix NEW-ID --limit unknown_cost=allow");
    let rev = candidate(&env, "fix", &[("src/b", "2\n")]);
    let second = env.git_loop(&["record", "fix", "--candidate", &rev]).expect_code(18);
    assert!(second.stdout.contains("the cost of the last run is not known"), "{second:?}");
    assert!(second.stdout.contains("was not taken"), "{second:?}");
    let json = env.git_loop(&["explain", "fix", "--json"]).expect_code(0).json();
    assert_eq!(next(&json)[1], "git loop renew fix fix-2 --limit unknown_cost=allow");
    env.git_loop(&["renew", "fix", "fix-2", "--limit", "unknown_cost=allow"]).expect_code(0);
}

#[test]
fn no_hint_contradicts_the_explanation() {
    let renews = |env: &TestEnv, code: i32, verdict: &str| {
        let run = env.git_loop(&["run", "fix"]).expect_code(code);
        let status = env.git_loop(&["status", "fix"]).expect_code(0);
        let json = env.git_loop(&["explain", "fix", "--json"]).expect_code(0).json();
        assert_eq!(json["verdict"], verdict);
        let tip = env.git(&["show", "refs/loops/fix/ledger:STATUS.md"]);
        for told in [run.stderr, status.stderr, tip] {
            assert!(told.contains("git loop explain fix") && !told.contains("renew fix NEW-ID"), "{told}");
        }
    };
    let env = TestEnv::new();
    numbers(&env, "true\n", "");
    renews(&env, 17, "do-not-retry");
    let env = TestEnv::new();
    numbers(&env, "echo 1 > src/a\n", "");
    edit(&env, &[PAID]);
    renews(&env, 18, "fix-config");
}

#[test]
fn attempts_that_never_counted_name_what_they_have_in_common() {
    for (worker, terms, wanted) in [
        (
            "echo 'echo ok a; echo done 1' > check.sh; echo $GIT_LOOP_ITERATION > src/d\n",
            "\n[guards]\non_violation = \"reject\"\n",
            "each attempt changed the check: check.sh",
        ),
        ("echo x > elsewhere\n", "", "each attempt changed what is not mutable: elsewhere"),
        ("exit 3\n", "", "the worker failed each time: it exited with 3"),
    ] {
        let env = TestEnv::new();
        numbers(&env, worker, terms);
        edit(
            &env,
            &[
                ("iterations = 10", "iterations = 3"),
                ("timeout = \"60s\"\n\n[check]", "timeout = \"60s\"\non_failure = \"reject\"\n\n[check]"),
            ],
        );
        env.git_loop(&["run", "fix"]).expect_code(12);
        let json = env.git_loop(&["explain", "fix", "--json"]).expect_code(0).json();
        assert_eq!(
            (&json["verdict"], &json["halt_reason"]),
            (&"fix-config".into(), &"max_iterations_reached".into())
        );
        let because = json["because"].as_str().unwrap();
        assert!(because.contains(wanted) && !because.contains("getting better"), "{because}");
    }
}

#[test]
fn a_reason_names_the_paths_the_tests_and_the_problem() {
    let why = |worker: &str, code: i32, wanted: &[&str]| {
        let env = TestEnv::new();
        numbers(&env, worker, "");
        edit(&env, &[("iterations = 10", "iterations = 1")]);
        env.git_loop(&["run", "fix"]).expect_code(code);
        let text = env.git_loop(&["show", "fix", "1", "--why"]).expect_code(0).stdout;
        for wanted in wanted {
            assert!(text.contains(wanted), "no {wanted:?} in {text}");
        }
        text
    };
    let text = why("echo > check.sh\n", 13, &["check paths that are not as frozen: 1 > 0", "check.sh: "]);
    assert!(!text.lines().last().unwrap().contains("interrupted"), "{text}");
    why("mkdir .loops; echo > .loops/policy.toml\n", 13, &[".loops/policy.toml: "]);
    why("echo > elsewhere\n", 12, &["       elsewhere\n"]);
    let env = TestEnv::new();
    numbers(
        &env,
        "case $GIT_LOOP_ITERATION in 1) echo 1 > src/a ;; *) echo 0 > src/a; echo 2 > src/b ;; esac\n",
        "",
    );
    edit(&env, &[("iterations = 10", "iterations = 2")]);
    env.git_loop(&["run", "fix"]).expect_code(12);
    let text = env.git_loop(&["show", "fix", "2", "--why"]).expect_code(0).stdout;
    assert!(text.contains("tests that passed at green and do not now: 1 > 0\n       a\n"), "{text}");
    let env = TestEnv::new();
    numbers(&env, "echo x > src/d\n", "");
    env.write("check.sh", "[ -e src/d ] || { echo fail a; echo done 1; exit 1; }\necho fail a\n");
    env.commit("Incomplete where there is a src/d");
    edit(&env, &[("iterations = 10", "iterations = 1")]);
    env.git_loop(&["run", "fix"]).expect_code(12);
    let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
    let problem = show["record"]["body"]["receipt"]["check"]["problem"].as_str().unwrap().to_owned();
    let text = env.git_loop(&["show", "fix", "1", "--why"]).expect_code(0).stdout;
    assert!(text.contains(&problem), "no {problem:?} in {text}");
    // What ends a run at a row is explained in the same words.
    let env = TestEnv::new();
    numbers(&env, "echo > check.sh\n", "");
    env.git_loop(&["run", "fix"]).expect_code(13);
    let json = env.git_loop(&["explain", "fix", "--json"]).expect_code(0).json();
    assert!(json["decided_by"]["named"][0].as_str().unwrap().starts_with("check.sh: "), "{json}");
    let text = env.git_loop(&["explain", "fix"]).expect_code(0).stdout;
    assert!(text.contains("              check.sh: "), "{text}");
}

#[test]
fn a_candidate_is_moved_onto_the_green_that_the_ledger_names() {
    let env = TestEnv::new();
    numbers(&env, "exit 1\n", "");
    env.git_loop(&["start", "fix"]).expect_code(0);
    let rev = candidate(&env, "fix", &[("src/a", "1\n")]);
    let json = env.git_loop(&["record", "fix", "--candidate", &rev, "--json"]).expect_code(0).json();
    let green = json["last_green_commit"].as_str().unwrap();
    let refused = env.git_loop(&["record", "fix", "--candidate", &rev]).expect_code(1);
    assert!(!refused.stderr.contains("refs/loops/fix/head"), "{refused:?}");
    refused.expect_stderr(&format!("git rebase --onto {green} FIRST~"));
}

#[test]
fn a_loop_that_cannot_be_satisfied_is_not_called_improving() {
    let env = TestEnv::new();
    let steps = "case $GIT_LOOP_ITERATION in
      1) echo 1 > src/a; echo 3 > src/c ;;
      2) echo 0 > src/a; echo 2 > src/b ;;
      3) echo x > src/d ;;
      *) echo 0 > src/a; echo 2 > src/b; echo y > src/d ;;
    esac\n";
    numbers(&env, steps, "");
    edit(&env, &[("no_progress = 3", "no_progress = 20")]);
    env.git_loop(&["run", "fix"]).expect_code(17);
    let text = env.git_loop(&["explain", "fix"]).expect_code(0).stdout;
    assert!(text.contains("verdict     do-not-retry"), "{text}");
    assert!(text.contains("trend       1 accepted, 3 of 20 in a row not accepted at the end"), "{text}");
}

#[test]
fn money_is_written_in_one_way() {
    let env = TestEnv::new();
    let worker = format!("echo $GIT_LOOP_ITERATION > src/a; {}\n", cost("0.1", 5));
    numbers(&env, &worker, "cost_usd = 1.5\n");
    edit(&env, &[PAID, ("no_progress = 3", "no_progress = 1")]);
    let dry = env.git_loop(&["start", "fix", "--dry-run"]).expect_code(0).stdout;
    assert!(dry.contains("$1.50") && !dry.contains("$1.500000"), "{dry}");
    env.git_loop(&["run", "fix"]).expect_code(17);
    let show = env.git_loop(&["show", "fix", "1"]).expect_code(0).stdout;
    assert!(show.contains("  cost        $0.10\n"), "{show}");
    assert!(context(&env, "1").contains("; $1.50, "), "{}", context(&env, "1"));
    // What nobody is asked to report is nothing, and not a sum.
    let env = TestEnv::new();
    numbers(&env, "true\n", "");
    env.git_loop(&["run", "fix"]).expect_code(17);
    let show = env.git_loop(&["show", "fix", "1"]).expect_code(0).stdout;
    assert!(show.contains("  cost        nothing (usage = \"none\")\n"), "{show}");
    assert!(context(&env, "1").contains("Iteration 1 of 10; "), "{}", context(&env, "1"));
}

#[test]
fn what_an_interrupted_iteration_is_charged_is_not_told_as_paid() {
    let env = TestEnv::new();
    numbers(&env, "exit 1\n", "cost_usd = 0.1\n");
    edit(&env, &[PAID]);
    env.git_loop(&["start", "fix"]).expect_code(0);
    env.git_loop(&["checkpoint", "fix"]).expect_code(0);
    env.git_loop(&["checkpoint", "fix", "--abandon"]).expect_code(0);
    let show = env.git_loop(&["show", "fix", "1"]).expect_code(0).stdout;
    assert!(
        show.contains("  cost        $0.01, charged because it was reserved; what it cost is not known\n"),
        "{show}"
    );
    assert!(!show.lines().any(|line| line.trim_end() == "  evidence"), "{show}");
}

#[test]
fn tokens_that_nobody_limits_are_not_missed() {
    let env = TestEnv::new();
    numbers(
        &env,
        "echo $GIT_LOOP_ITERATION > src/a; printf '{\"cost\":{\"usd\":0.1}}' > \"$GIT_LOOP_EVIDENCE\"\n",
        "",
    );
    edit(&env, &[PAID, ("no_progress = 3", "no_progress = 1")]);
    env.git_loop(&["run", "fix"]).expect_code(17);
    let show = env.git_loop(&["show", "fix", "1"]).expect_code(0).stdout;
    assert!(show.contains("  cost        $0.10\n") && !show.contains("is absent"), "{show}");
}

#[test]
fn a_slip_in_the_arguments_is_told_with_the_whole_usage() {
    let env = TestEnv::new();
    for arguments in [&["start", "-f", "loop.toml"][..], &["start", "-f", "loop.toml", "--json"]] {
        let told = env.git_loop(arguments).expect_code(129);
        let told = format!("{}{}", told.stdout, told.stderr);
        assert!(told.contains("Usage: git loop start [OPTIONS] <ID>"), "{told}");
    }
    // What is a command's own stands by itself.
    let help = env.git_loop(&["start", "--help"]).expect_code(0).stdout;
    let (own, every) = help.split_once("Options of every command:").unwrap();
    assert!(own.contains("--dry-run") && !own.contains("--color") && every.contains("--color"), "{help}");
}

#[test]
fn of_many_loops_the_first_few_are_named() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    for number in 10..20 {
        env.git_loop(&["start", &format!("loop-{number}")]).expect_code(0);
    }
    for arguments in [&["status"][..], &["status", "nothing-like-it"]] {
        env.git_loop(arguments)
            .expect_code(129)
            .expect_stderr("loop-17 and 2 more; all of them: git loop list\n");
    }
}
