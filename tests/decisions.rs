//! Every row, limit and halt reason that a number can decide, reached by a real loop with a real check.

use serde_json::Value;

use crate::support::TestEnv;
use crate::support::scenario::numbers;

/// What a loop came to.
struct Ended {
    env: TestEnv,
    json: Value,
}

impl Ended {
    /// The receipt of an iteration.
    fn receipt(&self, iteration: u32) -> Value {
        let json =
            self.env.git_loop(&["show", "fix", &iteration.to_string(), "--json"]).expect_code(0).json();
        json["record"]["body"]["receipt"].clone()
    }

    /// `outcome_reason` of each iteration.
    fn rows(&self) -> Vec<String> {
        let count = u32::try_from(self.json["iteration_count"].as_u64().unwrap()).unwrap();
        let row = |number| self.receipt(number)["decision"]["outcome_reason"].as_str().unwrap().to_owned();
        (1..=count).map(row).collect()
    }
}

/// Runs a loop whose worker does `steps[n - 1]` in iteration n, after `edits` of its terms, until it halts.
#[track_caller]
fn run(steps: &[&str], edits: &[(&str, &str)], halt_reason: &str, code: i32) -> Ended {
    run_in(TestEnv::new(), steps, edits, halt_reason, code)
}

#[track_caller]
fn run_in(env: TestEnv, steps: &[&str], edits: &[(&str, &str)], halt_reason: &str, code: i32) -> Ended {
    use std::fmt::Write;
    let mut worker = "case \"$GIT_LOOP_ITERATION\" in\n".to_owned();
    for (step, number) in steps.iter().zip(1..) {
        writeln!(worker, "  {number}) {step} ;;").unwrap();
    }
    worker.push_str("  *) echo \"$GIT_LOOP_ITERATION\" > src/d ;;\nesac\n");
    if env.repo().join("check.sh").exists() {
        let script = env.script("worker.sh", &worker);
        env.write("loop.toml", crate::support::scenario::loop_toml(&script, ""));
    } else {
        numbers(&env, &worker, "");
    }
    let mut toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    for (old, new) in edits {
        assert!(toml.contains(old), "{old}");
        toml = toml.replace(old, new);
    }
    env.write("loop.toml", toml);
    let json = env.git_loop(&["run", "fix", "-f", "loop.toml", "--json"]).expect_code(code).json();
    assert_eq!(json["halt_reason"], halt_reason, "{json}");
    env.git_loop(&["verify", "fix"]).expect_code(0);
    Ended { env, json }
}

/// A repository whose check is `script`.
fn with_check(script: &str) -> TestEnv {
    let env = TestEnv::new();
    numbers(&env, "", "");
    env.write("check.sh", script);
    env.commit("Another check");
    env
}

const MANY: (&str, &str) = ("no_progress = 3", "no_progress = 20");
const NUMBER: &[(&str, &str)] = &[
    ("format = \"lines\"", "format = \"none\""),
    ("from = \"failures\"", "from = \"regex\"\npattern = 'metric (\\S+)'"),
    MANY,
];

fn cost(usd: &str) -> String {
    format!(
        "printf '{{\"cost\":{{\"usd\":{usd}}}}}' > \"$GIT_LOOP_EVIDENCE\"; echo $GIT_LOOP_ITERATION > src/d"
    )
}

const PAID: (&str, &str) = ("usage = \"none\"", "usage = \"json\"");

#[test]
fn one_test_that_regresses_twice_ends_it() {
    let steps = [
        "echo 1 > src/a",
        "echo 0 > src/a; echo 2 > src/b; echo 3 > src/c",
        "echo 0 > src/a; echo 2 > src/b",
    ];
    let ended = run(&steps, &[], "same_test_regressed", 17);
    assert_eq!(ended.rows(), ["metric_improved", "tests_regressed", "tests_regressed"]);
    assert_eq!(ended.receipt(3)["decision"]["reason"], "same_test_regressed");
    let state = ended.env.git_loop(&["status", "fix", "--json"]).json();
    assert_eq!(state["status"], "stopped");
    // One time more is allowed where the contract says so.
    let steps = [steps[0], steps[1], steps[2], "echo 0 > src/a; echo 3 > src/c"];
    let edits = [("no_progress = 3", "no_progress = 20\nregression_limit = 3")];
    let ended = run(&steps, &edits, "same_test_regressed", 17);
    assert_eq!(ended.json["iteration_count"], 4);
}

#[test]
fn a_failing_set_that_comes_back_twice_ends_it() {
    let steps = ["echo 1 > src/a", "echo 0 > src/a", "echo x > src/d"];
    let ended = run(&steps, &[], "oscillation_detected", 17);
    assert_eq!(ended.rows(), ["metric_improved", "tests_regressed", "metric_not_improved"]);
    // The baseline's set is the first, so that one return is enough where one is the limit.
    let edits = [("no_progress = 3", "no_progress = 20\noscillation_limit = 1")];
    let ended = run(&steps, &edits, "oscillation_detected", 17);
    assert_eq!(ended.json["iteration_count"], 2);
}

#[test]
fn two_tests_that_exclude_each_other_end_it() {
    let steps = [
        "echo 1 > src/a; echo 3 > src/c",
        "echo 0 > src/a; echo 2 > src/b",
        "echo x > src/d",
        "echo 0 > src/a; echo 2 > src/b; echo y > src/d",
    ];
    // Everything else that goes round in circles holds at the same time, and comes after it.
    let ended = run(&steps, &[], "unsatisfiable_constraints", 17);
    assert_eq!(ended.json["iteration_count"], 4);
}

#[test]
fn standing_still_has_three_names() {
    let ended = run(&[], &[], "same_failure_repeated", 17);
    assert_eq!(ended.json["iteration_count"], 3);
    let idle = ["true", "true", "true"];
    run(&idle, &[], "infeasible_suspected", 17);
    let steps = ["echo 1 > src/a", "true", "true", "true"];
    let ended = run(&steps, &[], "no_progress_detected", 17);
    assert_eq!(ended.rows(), ["metric_improved", "no_change", "no_change", "no_change"]);
}

#[test]
fn a_cost_far_over_those_before_it_ends_it() {
    let costs = ["0.01", "0.02", "0.01", "0.03"].map(cost);
    let steps: Vec<&str> = costs.iter().map(String::as_str).collect();
    // Mean 0.0133…, standard deviation 0.0047…: 0.03 is more than three above.
    let ended = run(&steps, &[PAID, MANY], "cost_anomaly", 18);
    assert_eq!(ended.json["iteration_count"], 4);
    // And not more than four above.
    let edits = [PAID, ("no_progress = 3", "no_progress = 4\ncost_sigma = 4.0")];
    let ended = run(&steps, &edits, "same_failure_repeated", 17);
    assert_eq!(ended.json["iteration_count"], 4);
    // The worker that costs the same each time is no anomaly, whatever it costs.
    let flat = ["0.1", "0.1", "0.1", "0.1"].map(cost);
    let flat: Vec<&str> = flat.iter().map(String::as_str).collect();
    let edits = [PAID, ("no_progress = 3", "no_progress = 4")];
    run(&flat, &edits, "same_failure_repeated", 17);
}

#[test]
fn a_hard_limit_of_money_wins_over_a_met_target() {
    let all = format!("{}; echo 1 > src/a; echo 2 > src/b; echo 3 > src/c", cost("1.5"));
    let ended = run(&[&all], &[PAID], "budget_exceeded", 18);
    let decision = &ended.receipt(1)["decision"];
    assert_eq!(decision["outcome_reason"], "target_met");
    assert_eq!(decision["reason"], "cost_limit");
    assert_eq!(
        (decision["improved"].as_bool(), decision["rollback_required"].as_bool()),
        (Some(true), Some(false))
    );
    // The good part is kept.
    assert_eq!(ended.env.git(&["show", "refs/loops/fix/head:src/c"]), "3");
}

#[test]
fn a_limit_on_an_iteration_that_is_no_better_rolls_it_back() {
    let ended =
        run(&["echo x > src/d"], &[("iterations = 10", "iterations = 1")], "max_iterations_reached", 12);
    let decision = &ended.receipt(1)["decision"];
    assert_eq!((&decision["outcome"], &decision["status"]), (&"reject".into(), &"stopped".into()));
    assert_eq!(decision["rollback_required"], true);
    ended.env.try_git(&["cat-file", "-e", "refs/loops/fix/head:src/d"]).expect_code(128);
}

#[test]
fn an_accepted_change_at_the_last_iteration_is_kept() {
    let ended =
        run(&["echo 1 > src/a"], &[("iterations = 10", "iterations = 1")], "max_iterations_reached", 12);
    assert_eq!(ended.receipt(1)["decision"]["outcome"], "accept");
    assert_eq!(ended.env.git(&["show", "refs/loops/fix/head:src/a"]), "1");
}

#[test]
fn changes_that_nobody_has_read_pile_up_to_the_limit() {
    let steps = ["echo 1 > src/a", "echo 2 > src/b"];
    let edits = [("no_progress = 3", "no_progress = 3\nunread_diffs = 2")];
    let ended = run(&steps, &edits, "comprehension_debt_exceeded", 19);
    assert_eq!(ended.json["iteration_count"], 2);
    assert_eq!(ended.receipt(2)["decision"]["reason"], "unread_diffs_limit");
    // The target comes first.
    let steps = [steps[0], "echo 2 > src/b; echo 3 > src/c"];
    run(&steps, &edits, "success_condition_met", 10);
}

/// Prints the content of `src/metric`, or 5.
const PRINTS: &str = "echo \"metric $(cat src/metric 2>/dev/null || echo 5)\"\n";

#[test]
fn the_metric_must_get_better_than_the_best_by_the_minimum() {
    let steps = [
        "echo 5 > src/metric",
        "echo 4.5 > src/metric",
        "echo 4 > src/metric",
        "echo 4.0 > src/metric",
        "echo -1 > src/metric",
    ];
    let edits = [NUMBER, &[("target = 0", "target = 0\nmin_improvement = 1.0")]].concat();
    let ended = run_in(with_check(PRINTS), &steps, &edits, "success_condition_met", 10);
    // The baseline's 5 is the first best; 4.5 is not better by 1.
    assert_eq!(
        ended.rows(),
        [
            "metric_not_improved",
            "metric_not_improved",
            "metric_improved",
            "metric_not_improved",
            "target_met"
        ]
    );
    // The other way round.
    let steps = [
        "echo 4 > src/metric",
        "echo 6 > src/metric",
        "echo 6 > src/metric; : > src/d",
        "echo 10 > src/metric",
    ];
    let edits = [NUMBER, &[("minimize", "maximize"), ("target = 0", "target = 10")]].concat();
    let ended = run_in(with_check(PRINTS), &steps, &edits, "success_condition_met", 10);
    assert_eq!(ended.rows(), ["metric_not_improved", "metric_improved", "metric_not_improved", "target_met"]);
}

/// Prints `src/metric`, or 50, and one more or less as the run is. The names of the worktrees of repeated runs end in their number.
const NOISY: &str = r#"value=$(cat src/metric 2>/dev/null || echo 50)
case "$PWD" in *-2) value=$((value + 4)) ;; *-3) value=$((value + 2)) ;; esac
echo "metric $value"
"#;

#[test]
fn the_median_of_several_runs_must_beat_the_noise() {
    let steps = ["echo 48 > src/metric", "echo 47 > src/metric", "echo -2 > src/metric"];
    let edits = [NUMBER, &[("target = 0", "target = 0\nrepeat = 3")]].concat();
    let ended = run_in(with_check(NOISY), &steps, &edits, "success_condition_met", 10);
    // 50, 54, 52: median 52, and the deviations 2, 2, 0 have the median 2. So 50 is not better than 52, and 49 is.
    assert_eq!(ended.rows(), ["metric_not_improved", "metric_improved", "target_met"]);
    let check = &ended.receipt(2)["check"];
    assert_eq!((check["metric"].as_f64(), check["noise"].as_f64()), (Some(49.0), Some(2.0)));
    let runs: Vec<f64> =
        check["runs"].as_array().unwrap().iter().map(|run| run["metric"].as_f64().unwrap()).collect();
    assert_eq!(runs, [47.0, 51.0, 49.0]);
    let files = ended.env.git(&["ls-tree", "--name-only", "-r", "refs/loops/fix/ledger^:evidence"]);
    for name in ["report", "report-2", "report-3"] {
        assert!(files.lines().any(|file| file == name), "{files}");
    }
}

#[test]
fn runs_with_no_finite_median_or_noise_say_nothing() {
    // Their median is 0 and its noise infinite, or the median itself is.
    let check = "sign=; case \"$PWD\" in *-2) [ -e src/wild ] && sign=- ;; esac\n\
        if [ -e src/wild ] || [ -e src/high ]; then echo \"metric ${sign}1.7e308\"; else echo metric 50; fi\n";
    let edits =
        [NUMBER, &[("target = 0", "target = 0\nrepeat = 2"), ("iterations = 10", "iterations = 2")]].concat();
    let steps = [": > src/wild", ": > src/high"];
    let ended = run_in(with_check(check), &steps, &edits, "max_iterations_reached", 12);
    assert_eq!(ended.rows(), ["verifier_failed", "verifier_failed"]);
    for iteration in [1, 2] {
        let check = &ended.receipt(iteration)["check"];
        assert!(check["problem"].as_str().unwrap().contains("finite"), "{check}");
        assert_eq!((&check["metric"], &check["noise"]), (&Value::Null, &Value::Null));
    }
}

#[test]
fn a_suite_that_gets_better_by_testing_less_is_blocked() {
    // The check runs what the code says is there to be run: a test is left out, or skipped.
    let check = crate::support::scenario::CHECK.replace(
        "  n=$((n + 1))\n",
        "  grep -qx $name src/without 2>/dev/null && continue\n  n=$((n + 1))\n  grep -qx $name src/skipped 2>/dev/null && { echo \"skip $name\"; continue; }\n",
    );
    for step in ["echo a > src/without", "echo a > src/skipped"] {
        let ended = run_in(with_check(&check), &[step], &[], "metric_integrity_violation", 13);
        assert_eq!(ended.rows(), ["metric_integrity_violation"], "{step}");
    }
    // Where it may be softened it is a rejection, and what passed at green and is skipped is a regression.
    let edits = [MANY, ("\n[limits]", "\n[guards]\non_violation = \"reject\"\n\n[limits]")];
    let steps = [
        "echo a > src/skipped",
        "echo 1 > src/a",
        "echo a > src/skipped; echo 2 > src/b",
        "echo 2 > src/b; echo 3 > src/c",
    ];
    let ended = run_in(with_check(&check), &steps, &edits, "success_condition_met", 10);
    assert_eq!(
        ended.rows(),
        ["metric_integrity_violation", "metric_improved", "tests_regressed", "target_met"]
    );
}

/// The check of the three numbers; where there is a file `src/flaky`, test `a` fails in the second run.
const FLAKY: &str = r#"[ -e src/flaky ] && case "$PWD" in *-2) echo 0 > src/a ;; esac
n=0
while read -r name want; do
  n=$((n + 1))
  if [ "$(cat "src/$name" 2>/dev/null)" = "$want" ]; then echo "ok $name"; else echo "fail $name"; bad=1; fi
done < tests/expected
echo "done $n"
exit ${bad:-0}
"#;

#[test]
fn runs_that_disagree_block_the_loop() {
    let edits = [("target = 0", "target = 0\nrepeat = 2")];
    let steps = ["echo 1 > src/a", "echo 2 > src/b; : > src/flaky"];
    let ended = run_in(with_check(FLAKY), &steps, &edits, "check_flaky", 14);
    assert_eq!(ended.rows(), ["metric_improved", "check_flaky"]);
    assert_eq!(ended.json["status"], "blocked");
    assert_eq!(ended.receipt(2)["check"]["flaky"], true);
    // Nobody is paid for a check that disagrees with itself on the base.
    let env = with_check(FLAKY);
    env.write("src/flaky", "");
    env.write("src/a", "1\n");
    env.commit("A base on which it is flaky");
    let ended = run_in(env, &steps, &edits, "check_flaky", 14);
    assert_eq!(ended.json["iteration_count"], 0);
}

#[test]
fn a_repeated_run_without_a_verdict_is_the_last() {
    let check = FLAKY.replace("echo 0 > src/a", "exit 1").replace("repeat", "");
    let edits = [("target = 0", "target = 0\nrepeat = 3")];
    let steps = ["echo 1 > src/a; : > src/flaky", "echo 1 > src/a; echo 2 > src/b; echo 3 > src/c"];
    let ended = run_in(with_check(&check), &steps, &edits, "success_condition_met", 10);
    assert_eq!(ended.rows(), ["verifier_failed", "target_met"]);
    let check = ended.receipt(1)["check"].clone();
    assert_eq!(check["runs"].as_array().unwrap().len(), 2);
    assert!(check["problem"].as_str().unwrap().starts_with("run 2: "), "{check}");
}

#[test]
fn a_candidate_that_puts_a_pipe_in_the_place_of_a_frozen_file_hangs_nobody() {
    // The check runs code of the candidate's, which changes what judges while it runs.
    let check = format!("sh src/run.sh\n{}", crate::support::scenario::CHECK);
    let mend = "echo 1 > src/a; echo 2 > src/b; echo 3 > src/c;";
    for swap in
        ["rm tests/expected; mkfifo tests/expected", "cp tests/expected e; truncate -s 9G tests/expected"]
    {
        let env = with_check(&check);
        env.write("src/run.sh", "true\n");
        env.commit("Something to run");
        // What is frozen was read by then.
        let steps = [format!("{mend} echo '({swap}) 2>/dev/null; cat src/[abc] > /dev/null' > src/run.sh")];
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let edits = [
            ("timeout = \"60s\"\n\n[metric]", "timeout = \"3s\"\n\n[metric]"),
            ("iterations = 10", "iterations = 1"),
        ];
        let ended = run_in(env, &steps, &edits, "max_iterations_reached", 12);
        assert_eq!(ended.rows(), ["verifier_failed"], "{swap}");
    }
}
