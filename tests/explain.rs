//! Why a loop halted, what the decision compared, and going on from there: every verdict by a real loop, and the ledgers of
//! renewals.

use serde_json::{Value, json};

use crate::support::scenario::{HONEST, numbers};
use crate::support::{REVIEWER, RUNNER, TestEnv, tool};
use crate::verify::Forge;

/// The words of `next` that follow `git loop`.
fn next(json: &Value) -> Vec<String> {
    let next = json["next"].as_array().unwrap();
    next.iter().map(|one| one.as_str().unwrap().trim_start_matches("git loop ").to_owned()).collect()
}

/// A repository with a loop.toml whose worker does `steps[n - 1]` in iteration n, after `edits` of the terms.
fn prepare(steps: &[&str], edits: &[(&str, &str)]) -> TestEnv {
    use std::fmt::Write;
    let env = TestEnv::new();
    let mut worker = "case \"$GIT_LOOP_ITERATION\" in\n".to_owned();
    for (step, number) in steps.iter().zip(1..) {
        writeln!(worker, "  {number}) {step} ;;").unwrap();
    }
    worker.push_str("  *) echo \"$GIT_LOOP_ITERATION\" > src/d ;;\nesac\n");
    numbers(&env, &worker, "");
    edit(&env, edits);
    env
}

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

/// Runs the loop `fix` and explains it: the JSON of `explain`.
#[track_caller]
fn explained(env: &TestEnv, code: i32, verdict: &str) -> Value {
    env.git_loop(&["run", "fix"]).expect_code(code);
    explain(env, "fix", verdict)
}

#[track_caller]
fn explain(env: &TestEnv, id: &str, verdict: &str) -> Value {
    let json = env.git_loop(&["explain", id, "--json"]).expect_code(0).json();
    assert_eq!(json["verdict"], verdict, "{json}");
    let text = env.git_loop(&["explain", id]).expect_code(0).stdout;
    assert!(text.contains(&format!("  verdict     {verdict}\n")), "{text}");
    json
}

const MANY: (&str, &str) = ("no_progress = 3", "no_progress = 20");
const PAID: (&str, &str) = ("usage = \"none\"", "usage = \"json\"");

fn cost(usd: &str) -> String {
    format!(
        "printf '{{\"cost\":{{\"usd\":{usd}}}}}' > \"$GIT_LOOP_EVIDENCE\"; echo $GIT_LOOP_ITERATION > src/d"
    )
}

/// What a person reads, with the loop's time left out: the end of each line of the trajectory, and where it is compared.
fn told(text: &str) -> String {
    let shown = |line: &str| {
        let point = line.trim_start().starts_with(|c: char| c.is_ascii_digit()) && !line.contains(':');
        let last = line.rsplit_once(' ').filter(|(_, last)| last.starts_with(|c: char| c.is_ascii_digit()));
        if let Some((before, _)) = last.filter(|_| point) {
            return format!("{before} TIME");
        }
        let Some((before, after)) = line.split_once("the loop's time: ") else { return line.to_owned() };
        let bound = after.split_once(',').map_or("", |(_, bound)| bound);
        format!("{before}the loop's time: TIME,{bound}")
    };
    text.lines().map(shown).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_loop_that_was_still_improving_is_worth_more_iterations() {
    let env = prepare(&["echo 1 > src/a"], &[("iterations = 10", "iterations = 1")]);
    env.git_loop(&["start", "fix"]).expect_code(0);
    // Before it has halted there is no verdict, and the next command is to run it.
    let json = env.git_loop(&["explain", "--json"]).expect_code(0).json();
    assert_eq!((&json["verdict"], &json["status"]), (&Value::Null, &"active".into()));
    assert_eq!(next(&json), ["run fix"]);
    let json = explained(&env, 12, "raise-the-limit");
    assert_eq!(json["trend"], "improving");
    assert_eq!(json["halt_reason"], "max_iterations_reached");
    assert_eq!(next(&json), ["renew fix fix-2 --limit iterations=2", "show fix 1 --why"]);
    let points = json["trajectory"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    assert_eq!((&points[0]["outcome"], &points[0]["metric"]), (&"baseline".into(), &3.0.into()));
    assert_eq!((&points[1]["row"], &points[1]["best"]), (&"metric_improved".into(), &2.0.into()));
    assert_eq!((&points[1]["failing"], &points[1]["cost_basis"]), (&2.into(), &"none".into()));
    assert_eq!(json["decided_by"]["name"], "iteration_limit");
    insta::assert_snapshot!(told(&env.git_loop(&["explain", "fix"]).stdout), @r#"
    fix  stopped: max_iterations_reached (exit 12)
      verdict     raise-the-limit
      because     it was still getting better when the limit cut it off
      trend       still improving: 1 accepted, 0 of 3 in a row not accepted at the end
      decided by  iteration_limit at iteration 1
                  iterations, this one included: 1 >= 1

      n  outcome   row              metric  best  failing  cost  time
      0  baseline  -                     3     3        3     -  TIME
      1  accept    metric_improved       2     2        2     -  TIME
      metric: failing, target 0 (minimize)
    "#);
}

#[test]
fn a_loop_that_was_cut_off_while_it_stood_still_is_to_be_looked_into() {
    // One accepted and two not, of three that end it: more than half.
    let steps = ["echo 1 > src/a", "true", "true"];
    let env = prepare(&steps, &[("iterations = 10", "iterations = 3")]);
    let json = explained(&env, 12, "investigate");
    assert_eq!(json["trend"], "stalled");
    assert_eq!(next(&json), ["show fix 3 --why", "renew fix fix-2 -f NEW.toml"]);
    // Nothing accepted at all.
    let env = prepare(&["true"], &[("iterations = 10", "iterations = 1")]);
    assert_eq!(explained(&env, 12, "investigate")["trend"], "never_improved");
}

#[test]
fn money_and_time_are_raised_as_well() {
    let improving = format!("{}; echo 1 > src/a", cost("0.6"));
    let env = prepare(&[&improving], &[PAID]);
    let json = explained(&env, 18, "raise-the-limit");
    assert_eq!(
        (&json["halt_reason"], &json["decided_by"]["name"]),
        (&"budget_exceeded".into(), &"cost_limit".into())
    );
    // It ended before the second start: what is spent and what is reserved are more than the limit.
    let given = json["decided_by"]["given"].as_array().unwrap();
    assert_eq!(given[0]["value"], "0.600000");
    assert_eq!(given[1]["value"], "0.600000");
    assert_eq!(next(&json)[0], "renew fix fix-2 --limit cost_usd=2.00");
    // A reservation that the limit has no room for.
    let env = prepare(
        &[&improving],
        &[PAID, ("timeout = \"60s\"\n\n[check]", "timeout = \"60s\"\nreserve_usd = 0.9\n\n[check]")],
    );
    let json = explained(&env, 18, "raise-the-limit");
    assert_eq!(json["trend"], "improving");
    // The worker runs into the end of the time: nothing was tried.
    let env = prepare(&["sleep 600"], &[("duration = \"10m\"", "duration = \"1s\"")]);
    let json = explained(&env, 18, "raise-the-limit");
    assert_eq!((&json["trend"], &json["halt_reason"]), (&"untried".into(), &"deadline_exceeded".into()));
    assert_eq!(next(&json)[0], "renew fix fix-2 --limit duration=2s");
}

#[test]
fn a_cost_that_nobody_knows_is_a_matter_of_the_terms() {
    let env = prepare(&["echo 1 > src/a"], &[PAID]);
    let json = explained(&env, 18, "fix-config");
    assert!(json["because"].as_str().unwrap().contains("nobody knows what a run cost"), "{json}");
    assert_eq!(json["trajectory"][1]["usd"], Value::Null);
}

#[test]
fn an_anomaly_comes_with_its_statistics() {
    let costs = ["0.01", "0.02", "0.01", "0.03"].map(cost);
    let steps: Vec<&str> = costs.iter().map(String::as_str).collect();
    let env = prepare(&steps, &[PAID, MANY]);
    let json = explained(&env, 18, "investigate");
    let statistics = &json["costs"];
    assert_eq!((&statistics["known"], &statistics["last_usd"]), (&3.into(), &"0.030000".into()));
    let near = |name: &str, expected: f64| {
        let found = statistics[name].as_f64().unwrap();
        assert!((found - expected).abs() < 1e-9, "{name}: {found}");
    };
    near("mean_usd", 0.04 / 3.0);
    near("deviation_usd", 0.004_714_045_207_910_317);
    near("bound_usd", 0.04 / 3.0 + 3.0 * 0.004_714_045_207_910_317);
    let text = env.git_loop(&["show", "fix", "4", "--why"]).expect_code(0).stdout;
    assert!(text.contains("cost of this iteration: $0.03 > 0.0274"), "{text}");
}

#[test]
fn standing_still_is_looked_into_and_what_cannot_be_is_not_tried_again() {
    // The very same tests.
    let env = prepare(&[], &[]);
    assert_eq!(explained(&env, 17, "investigate")["halt_reason"], "same_failure_repeated");
    // It got better, and then no more.
    let env = prepare(&["echo 1 > src/a", "true", "true", "true"], &[]);
    assert_eq!(explained(&env, 17, "investigate")["halt_reason"], "no_progress_detected");
    // Nothing was ever proposed.
    let env = prepare(&["true", "true", "true"], &[]);
    assert_eq!(explained(&env, 17, "do-not-retry")["halt_reason"], "infeasible_suspected");
    // Nothing was ever measured: that says nothing about the objective.
    let outside = "echo x > elsewhere";
    let env = prepare(&[outside, outside, outside], &[]);
    let json = explained(&env, 17, "fix-config");
    assert_eq!(
        (&json["halt_reason"], &json["trajectory"][3]["row"]),
        (&"infeasible_suspected".into(), &"outside_mutable_paths".into())
    );
}

#[test]
fn two_tests_that_exclude_each_other_are_named_with_what_shows_it() {
    let steps = [
        "echo 1 > src/a; echo 3 > src/c",
        "echo 0 > src/a; echo 2 > src/b",
        "echo x > src/d",
        "echo 0 > src/a; echo 2 > src/b; echo y > src/d",
    ];
    let env = prepare(&steps, &[]);
    let json = explained(&env, 17, "do-not-retry");
    assert_eq!(json["contradiction"]["tests"], json!(["a", "b"]));
    assert_eq!(
        json["contradiction"]["shown_by"],
        json!([
            { "iteration": 1, "fails": "b" }, { "iteration": 2, "fails": "a" },
            { "iteration": 3, "fails": "b" }, { "iteration": 4, "fails": "a" },
        ])
    );
    assert_eq!(json["regressions"], json!([{ "test": "a", "iterations": [2, 4] }]));
    let returned = json["returned"].as_array().unwrap();
    assert_eq!((&returned[0]["iteration"], &returned[0]["first"]), (&3.into(), &1.into()));
    assert_eq!((&returned[1]["iteration"], &returned[1]["first"]), (&4.into(), &2.into()));
    insta::assert_snapshot!(told(&env.git_loop(&["explain", "fix"]).stdout), @r#"
    fix  stopped: unsatisfiable_constraints (exit 17)
      verdict     do-not-retry
      because     two tests fail by turns: what one of them wants, the other forbids
      trend       stalled: 1 accepted, 3 of 3 in a row not accepted at the end
      decided by  unsatisfiable_constraints at iteration 4
                  one test: a
                  the other test: b
                  two tests fail by turns (a b a b): yes
      exclude     a and b
                  iteration 1 fails: b
                  iteration 2 fails: a
                  iteration 3 fails: b
                  iteration 4 fails: a
      regressed   a in 2 iterations: 2, 4
      came back   in iteration 3 the set of iteration 1, 1 failing test
      came back   in iteration 4 the set of iteration 2, 1 failing test

      n  outcome   row                  metric  best  failing  cost  time
      0  baseline  -                         3     3        3     -  TIME
      1  accept    metric_improved           1     1        1     -  TIME
      2  reject    tests_regressed           1     1        1     -  TIME
      3  reject    metric_not_improved       1     1        1     -  TIME
      4  reject    tests_regressed           1     1        1     -  TIME
      metric: failing, target 0 (minimize)
    "#);
}

#[test]
fn sets_that_come_back_and_tests_that_regress_are_counted() {
    let steps = ["echo 1 > src/a", "echo 0 > src/a", "echo x > src/d"];
    let env = prepare(&steps, &[]);
    let json = explained(&env, 17, "investigate");
    assert_eq!(json["halt_reason"], "oscillation_detected");
    // The baseline's set is the first.
    assert_eq!(json["returned"][0]["first"], 0);
    assert_eq!(json["returned"].as_array().unwrap().len(), 2);
    let steps = [
        "echo 1 > src/a",
        "echo 0 > src/a; echo 2 > src/b; echo 3 > src/c",
        "echo 0 > src/a; echo 2 > src/b",
    ];
    let env = prepare(&steps, &[]);
    let json = explained(&env, 17, "investigate");
    assert_eq!(json["halt_reason"], "same_test_regressed");
    assert_eq!(json["regressions"], json!([{ "test": "a", "iterations": [2, 3] }]));
    insta::assert_snapshot!(
        told(&env.git_loop(&["show", "fix", "3", "--why"]).expect_code(0).stdout), @r#"
    iteration 3 rejected (tests_regressed), stopped by same_test_regressed, failing 2
    rows
         abandoned                   no   the iteration was interrupted: no
       1 verifier_drift              no   check paths that are not as frozen: 0, not > 0
       2 blocked_path_modified       no   blocked paths that changed: 0, not > 0; refs, config or hooks that were tampered with: 0, not > 0
       3 blocked_finding             no   open findings that block: 0, not > 0
       4 worker_failed               no   the worker failed: no
       5 no_change                   no   the candidate's tree is green's: no
       6 outside_mutable_paths       no   changed paths outside paths.mutable: 0, not > 0
       7 verifier_failed             no   the check gave a verdict: yes; there is a metric: yes
       8 metric_integrity_violation  no   tests of the baseline that are lost, or failed there and are skipped: 0, not > 0
       9 check_flaky                 no   runs of the check that disagree: no
      10 tests_regressed             yes
           tests that passed at green and do not now: 1 > 0
           a
    stops
         deadline                    no   worker or check ran into the end of limits.duration: no
         worker_failed               no   row 4 applied: no
         cost_limit                  no   money spent: $0.00, not > $1.00
         cost_anomaly                no   cost of this iteration: none; there is no bound yet
         deadline                    no   the loop's time: TIME, not >= 10m00s
         target_met                  no   row 19 applied: no
         unsatisfiable_constraints   no   two tests fail by turns (a b a b): no
         oscillation_detected        no   the failing set is an earlier one: no; times that a failing set came back: 0, not >= 2
         same_test_regressed         yes
           the test that regressed most often: a
           iterations in which it regressed: 2 >= 2
    "#);
}

#[test]
fn a_check_that_disagrees_with_itself_is_mended_first() {
    let env = prepare(&["echo 1 > src/a"], &[("target = 0", "target = 0\nrepeat = 2")]);
    let check = std::fs::read_to_string(env.repo().join("check.sh")).unwrap();
    env.write("check.sh", format!("case \"$PWD\" in *-2) echo 1 > src/b; echo 2 > src/b ;; esac\n{check}"));
    env.commit("A check that disagrees with itself");
    let json = explained(&env, 14, "fix-substrate");
    assert_eq!(
        (&json["decided_by"]["name"], &json["decided_by"]["iteration"]),
        (&"check_flaky".into(), &0.into())
    );
    assert_eq!(json["trajectory"].as_array().unwrap().len(), 1);
}

#[test]
fn a_worker_that_fails_is_a_matter_of_the_set_up() {
    let env = prepare(&["echo no >&2; exit 3"], &[]);
    let json = explained(&env, 40, "fix-config");
    assert_eq!(next(&json)[0], "show fix 1");
}

#[test]
fn a_guard_that_was_violated_is_looked_into_and_renewed_by_the_approver() {
    let env = prepare(&["echo 'a 0' > tests/expected"], &[]);
    let json = explained(&env, 13, "investigate");
    assert_eq!(json["decided_by"]["name"], "verifier_drift");
    insta::assert_snapshot!(
        env.git_loop(&["show", "fix", "1", "--why"]).expect_code(0).stdout, @r#"
    iteration 1 blocked (verifier_drift)
    rows
         abandoned                   no   the iteration was interrupted: no
       1 verifier_drift              yes
           check paths that are not as frozen: 1 > 0
           tests/expected: check_path_edited
    stops
      none was asked: a blocked outcome is final
    "#);
    let ann = env.key("ann");
    env.git_loop(&["renew", "fix", "fix-2", "--key", ann.to_str().unwrap()]).expect_code(1);
    env.git_loop(&["renew", "fix", "fix-2"]).expect_code(0);
    env.git_loop(&["verify", "--all"]).expect_code(0);
}

#[test]
fn what_people_end_is_said_in_their_words() {
    let env = prepare(&[], &[]);
    env.git_loop(&["start", "fix"]).expect_code(0);
    env.git_loop(&["stop", "fix", "--reason", "enough \u{1b}[31mfor today"]).expect_code(0);
    let json = explain(&env, "fix", "investigate");
    assert_eq!(json["said"]["text"], "enough \u{1b}[31mfor today");
    let text = env.git_loop(&["explain", "fix"]).stdout;
    assert!(!text.contains('\u{1b}') && text.contains("enough \\x1b[31mfor today"), "{text}");
    assert_eq!(next(&json), ["log fix", "run fix --resume", "renew fix fix-2"]);
    // Nothing was run: there is no iteration to ask about.
    env.git_loop(&["show", "fix", "--why"]).expect_code(129);
}

#[test]
fn a_base_that_meets_the_target_and_a_promoted_loop_are_done() {
    let env = prepare(&[], &[]);
    for (name, text) in [("a", "1\n"), ("b", "2\n"), ("c", "3\n")] {
        env.write(&format!("src/{name}"), text);
    }
    env.commit("All of it");
    let json = explained(&env, 11, "done");
    assert_eq!(json["decided_by"]["name"], "target_already_met");

    let env = with_reviewer(HONEST);
    let json = explained(&env, 10, "review");
    assert_eq!(next(&json), ["diff fix", "review fix --approve --key KEY"]);
    let key = env.key("ann");
    let key = key.to_str().unwrap();
    env.git_loop(&["review", "fix", "--approve", "--key", key]).expect_code(0);
    assert_eq!(next(&explain(&env, "fix", "review")), ["promote fix --key KEY"]);
    env.git_loop(&["promote", "fix", "--key", key]).expect_code(0);
    let json = explain(&env, "fix", "done");
    assert_eq!(json["next"], json!(["git loop land fix"]));
}

#[test]
fn a_rejection_is_explained_by_the_reviewer() {
    let env = with_reviewer(HONEST);
    env.git_loop(&["run", "fix"]).expect_code(10);
    let key = env.key("ann");
    env.git_loop(&["review", "fix", "--reject", "--comment", "not so", "--key", key.to_str().unwrap()])
        .expect_code(16);
    let json = explain(&env, "fix", "investigate");
    assert_eq!(json["said"]["text"], "not so");
}

#[test]
fn unread_changes_are_read_before_there_are_more() {
    let env = prepare(&["echo 1 > src/a"], &[("no_progress = 3", "no_progress = 3\nunread_diffs = 1")]);
    let json = explained(&env, 19, "review");
    assert_eq!(next(&json), ["diff fix", "renew fix fix-2"]);
}

/// The ready-made loop.
fn with_reviewer(worker: &str) -> TestEnv {
    let env = TestEnv::new();
    numbers(&env, worker, "");
    env
}

#[test]
fn the_hint_of_explain_renews_the_loop_and_it_goes_on_from_green() {
    let env = prepare(&["echo 1 > src/a"], &[("iterations = 10", "iterations = 1")]);
    let json = explained(&env, 12, "raise-the-limit");
    let command = next(&json)[0].clone();
    let words: Vec<&str> = command.split(' ').collect();
    let renewed = env.git_loop(&[&words[..], &["--json"]].concat()).expect_code(0).json();
    assert_eq!(renewed["parent"], json["run_id"]);
    assert_eq!(renewed["last_green_commit"], json["last_green_commit"]);
    let renewal = &renewed["renewal"];
    assert_eq!((&renewal["loop"], &renewal["tip"]), (&"fix".into(), &json["ledger_tip"]));
    assert_eq!(renewal["changed"], json!([{ "term": "limits.iterations", "from": 1, "to": 2 }]));
    // The worker's iterations count anew: 1 does nothing new here, 2 is another file.
    env.git_loop(&["run", "fix-2"]).expect_code(12);
    let text = env.git_loop(&["verify", "fix-2"]).expect_code(0).stdout;
    assert!(text.contains("fix-2: renews fix, whose ledger holds up to there"), "{text}");
    assert!(!env.git_loop(&["verify", "--all"]).expect_code(0).stderr.contains("not here"));
    let text = env.git_loop(&["status", "fix-2"]).expect_code(0).stdout;
    assert!(text.contains("  renews      fix, with other limits.iterations\n"), "{text}");
    // A second one counts on, and its origin is the first base.
    let json = env.git_loop(&["explain", "fix-2", "--json"]).json();
    assert!(next(&json).iter().any(|command| command.starts_with("renew fix-2 fix-3")), "{json}");
    let third = env.git_loop(&["renew", "fix-2", "fix-3", "--json"]).expect_code(0).json();
    let base = env.git(&["rev-parse", "HEAD"]);
    assert_eq!(third["renewal"]["origin"], base.as_str());
    assert_eq!(third["renewal"]["changed"], json!([]));
    env.git_loop(&["verify", "--all"]).expect_code(0);
    // What is reviewed is what all of them did together.
    let diff = env.git_loop(&["diff", "fix-3"]).expect_code(0).stdout;
    assert!(diff.contains("src/a"), "{diff}");
}

#[test]
fn a_renewal_is_refused_while_the_loop_runs_to_others_and_for_what_no_loop_may_have() {
    let env = prepare(&["echo 1 > src/a"], &[("iterations = 10", "iterations = 1")]);
    env.git_loop(&["start", "fix"]).expect_code(0);
    env.git_loop(&["renew", "fix", "fix-2"]).expect_code(1).expect_stderr("has not halted");
    env.git_loop(&["run", "fix"]).expect_code(12);
    let other = env.key("ann");
    env.git_loop(&["renew", "fix", "fix-2", "--key", other.to_str().unwrap()])
        .expect_code(1)
        .expect_stderr("ann@example.org is not an approver of loop `fix`");
    // Nor with a file in which they approve.
    env.git_loop(&["renew", "fix", "fix-2", "-f", "loop.toml", "--key", other.to_str().unwrap()])
        .expect_code(1);
    for (limit, message) in [
        ("iterations=0", "a limit of 0 is not"),
        ("iterations=101", "out of range"),
        ("iteration=5", "unknown key"),
        ("iterations", "is not KEY=VALUE"),
    ] {
        env.git_loop(&["renew", "fix", "fix-2", "--limit", limit]).expect_code(129).expect_stderr(message);
    }
    env.git_loop(&["renew", "fix", "fix"]).expect_code(129).expect_stderr("exists already");
    env.git_loop(&["renew", "fix", "Fix"]).expect_code(129);
    env.git_loop(&["renew", "nothing", "fix-2"]).expect_code(129);
    // Nothing of all that left a loop.
    assert_eq!(env.git_loop(&["list", "--json"]).json()["loops"].as_array().unwrap().len(), 1);
    env.git_loop(&["renew", "fix", "fix-2", "--limit", "iterations=3", "--limit", "duration=2h"])
        .expect_code(0);
}

#[test]
fn other_terms_say_which_they_are() {
    let env = prepare(&["true", "true", "true"], &[]);
    env.git_loop(&["run", "fix"]).expect_code(17);
    let worker = env.script("worker-2.sh", HONEST);
    let toml = crate::support::scenario::loop_toml(&worker, "");
    env.write("loop.toml", toml.replace("Mend the three numbers", "Mend them another way"));
    let json = env
        .git_loop(&["renew", "fix", "fix-2", "-f", "loop.toml", "--limit", "no_progress=5", "--json"])
        .expect_code(0)
        .json();
    let changed = json["renewal"]["changed"].as_array().unwrap();
    let terms: Vec<&str> = changed.iter().map(|one| one["term"].as_str().unwrap()).collect();
    assert_eq!(terms, ["objective", "worker.command", "limits.no_progress"]);
    env.git_loop(&["run", "fix-2"]).expect_code(10);
    env.git_loop(&["verify", "--all"]).expect_code(0);
}

#[test]
fn a_green_that_meets_the_target_is_checked_once_more_and_reviewed_by_another() {
    // The target is met by an iteration that costs more than there is.
    let all = format!("{}; echo 1 > src/a; echo 2 > src/b; echo 3 > src/c", cost("1.5"));
    let env = with_reviewer(&all);
    edit(&env, &[PAID]);
    let json = explained(&env, 18, "raise-the-limit");
    assert_eq!(json["trend"], "met");
    assert_eq!(next(&json)[0], "renew fix fix-2");
    env.git_loop(&["renew", "fix", "fix-2"]).expect_code(0);
    let json = env.git_loop(&["run", "fix-2", "--json"]).expect_code(10).json();
    assert_eq!((&json["status"], &json["iteration_count"]), (&"awaiting_review".into(), &0.into()));
    assert_eq!(json["halt_reason"], "success_condition_met");
    assert_eq!(json["proof"].as_array().unwrap().len(), 1);
    let json = explain(&env, "fix-2", "review");
    assert_eq!(
        (&json["decided_by"]["name"], &json["decided_by"]["iteration"]),
        (&"target_met".into(), &0.into())
    );
    let diff = env.git_loop(&["diff", "fix-2"]).expect_code(0).stdout;
    for file in ["src/a", "src/b", "src/c"] {
        assert!(diff.contains(file), "{diff}");
    }
    // Who ran the first cannot review the second.
    env.git_loop(&["review", "fix-2", "--approve"]).expect_code(1);
    let key = env.key("ann");
    let key = key.to_str().unwrap();
    env.git_loop(&["review", "fix-2", "--approve", "--key", key]).expect_code(0);
    env.git_loop(&["promote", "fix-2", "--key", key]).expect_code(0);
    env.git_loop(&["verify", "--all"]).expect_code(0);
}

/// A finding does not get lost with the loop that it was about.
#[test]
fn an_open_finding_goes_on_with_the_renewal() {
    let env = prepare(&["echo 1 > src/a"], &[("iterations = 10", "iterations = 1")]);
    let key = env.key("ann");
    let key = key.to_str().unwrap();
    env.git_loop(&["run", "fix"]).expect_code(12);
    let add = ["finding", "fix", "add", "--severity", "block", "--message", "not like this", "--key", key];
    let finding = env.git_loop(&[&add[..], &["--json"]].concat()).expect_code(0).json();
    let finding = finding["record_id"].as_str().unwrap().to_owned();
    env.git_loop(&["renew", "fix", "fix-2"]).expect_code(0);
    env.git_loop(&["run", "fix-2"]).expect_code(11);
    let json = explain(&env, "fix-2", "review");
    assert_eq!(
        (&json["decided_by"]["name"], &json["halt_reason"]),
        (&"blocked_finding".into(), &"human_required".into())
    );
    let resolve = format!("finding fix-2 resolve {} --message TEXT", &finding[..12]);
    assert_eq!(next(&json), ["finding fix-2 list", resolve.as_str()]);
    let list = env.git_loop(&["finding", "fix-2", "list"]).expect_code(0).stdout;
    assert!(list.contains("not like this"), "{list}");
    env.git_loop(&["finding", "fix-2", "resolve", &finding, "--message", "it is not", "--key", key])
        .expect_code(0);
    assert_eq!(next(&explain(&env, "fix-2", "review")), ["run fix-2"]);
    env.git_loop(&["run", "fix-2"]).expect_code(12);
    env.git_loop(&["verify", "--all"]).expect_code(0);
}

/// Two keys that may run and approve. The one that ran the parent did not run the renewal, and is still no independent reviewer of it.
#[test]
fn whoever_ran_the_parent_cannot_review_the_renewal() {
    let env = with_reviewer(&format!("{}; echo 1 > src/a; echo 2 > src/b; echo 3 > src/c", cost("1.5")));
    let principal = RUNNER;
    let roles = format!(
        "\n[roles]\napprover = [\"{principal}\", \"ann@example.org\"]\nrunner = [\"{principal}\", \"ann@example.org\"]\n\
         reviewer = [\"{principal}\", \"ann@example.org\"]\n"
    );
    edit(&env, &[PAID, ("no_progress = 3\n", &format!("no_progress = 3\n{roles}"))]);
    env.git_loop(&["run", "fix"]).expect_code(18);
    let key = env.key("ann");
    let key = key.to_str().unwrap();
    env.git_loop(&["renew", "fix", "fix-2", "--key", key]).expect_code(0);
    env.git_loop(&["run", "fix-2", "--key", key]).expect_code(10);
    env.git_loop(&["review", "fix-2", "--approve"])
        .expect_code(1)
        .expect_stderr("ran the loop and cannot review it");
    env.git_loop(&["verify", "--all"]).expect_code(0);
}

#[test]
fn without_the_parent_verify_says_what_it_cannot_check() {
    let env = prepare(&["echo 1 > src/a"], &[("iterations = 10", "iterations = 1")]);
    env.git_loop(&["run", "fix"]).expect_code(12);
    env.git_loop(&["renew", "fix", "fix-2", "--limit", "iterations=2"]).expect_code(0);
    env.git_loop(&["run", "fix-2"]).expect_code(12);
    let clone = env.root().join("clone");
    env.git(&["init", "-q", clone.to_str().unwrap()]);
    let url = format!("file://{}", env.repo().display());
    env.git_in(&clone, &["config", "loop.allowedSigners", env.trust_file().to_str().unwrap()]);
    env.git_in(&clone, &["fetch", "-q", &url, "refs/loops/fix-2/ledger:refs/loops/fix-2/ledger"]);
    let seen = env.git_loop_in(&clone, &["verify", "fix-2"]).expect_code(0);
    assert!(seen.stderr.contains("it renews loop `fix`, whose ledger is not here"), "{}", seen.stderr);
    env.git_in(&clone, &["fetch", "-q", &url, "refs/loops/*:refs/loops/*"]);
    let seen = env.git_loop_in(&clone, &["verify", "--all"]).expect_code(0);
    assert!(!seen.stderr.contains("not here"), "{}", seen.stderr);
}

/// What a contract says of its parent is compared with the parent's ledger, whoever signed it.
#[test]
fn a_renewal_that_lies_about_its_parent_does_not_verify() {
    if !tool("ssh-keygen") {
        return;
    }
    let env = prepare(&["echo 1 > src/a"], &[("iterations = 10", "iterations = 1")]);
    env.git_loop(&["run", "fix"]).expect_code(12);
    env.git_loop(&["renew", "fix", "fix-2", "--limit", "iterations=2"]).expect_code(0);
    let honest = Forge::read(&env, "refs/loops/fix-2/ledger");
    let verify = |forged: &Forge| {
        env.git(&["update-ref", "refs/loops/fix-2/ledger", &forged.commit(&env)]);
        env.git_loop(&["verify", "fix-2"])
    };
    assert_eq!(verify(&honest).code, 0);
    let old = env.git(&["rev-parse", "HEAD"]);
    let old_tree = env.git(&["rev-parse", "HEAD^{tree}"]);
    let list = env.git(&["rev-list", "--first-parent", "--reverse", "refs/loops/fix/ledger"]);
    let records: Vec<&str> = list.lines().collect();
    let approver = json!([{ "term": "limits.iterations", "from": 1, "to": 2 },
        { "term": "roles.approver", "from": [RUNNER], "to": [REVIEWER] }]);
    let ann = ssh_key::PublicKey::from_openssh(&env.public_key("ann")).unwrap();
    let ann = ann.fingerprint(ssh_key::HashAlg::Sha256).to_string();
    for (what, forged, needle) in [
        (
            "another base than green",
            honest
                .clone()
                .contract("/base", json!({ "commit": old, "tree": old_tree }))
                .state("/last_green_commit", json!(old)),
            "renewal: `base` is",
        ),
        (
            "a change that is not told",
            honest.clone().contract("/renewal/changed", json!([])),
            "renewal: `renewal` is",
        ),
        (
            "a change that is told otherwise",
            honest.clone().contract("/renewal/changed/0/from", json!(9)),
            "renewal: `renewal` is",
        ),
        (
            "nobody ran the parent",
            honest.clone().contract("/renewal/submitters", json!([])).state("/submitters", json!([])),
            "renewal: `renewal` is",
        ),
        (
            "a finding that nobody made",
            honest
                .clone()
                .contract(
                    "/renewal/findings",
                    json!([{ "record": records[0], "severity": "warn", "principal": "x" }]),
                )
                .state("/findings", json!([{ "record": records[0], "severity": "warn", "principal": "x" }])),
            "renewal: `renewal` is",
        ),
        (
            "another origin",
            honest.clone().contract("/renewal/origin", json!(records[0])),
            "renewal: `renewal` is",
        ),
        (
            "a record before the halt",
            honest.clone().contract("/renewal/tip", json!(records[records.len() - 2])),
            "has not halted",
        ),
        ("no contract record", honest.clone().contract("/parent", json!(records[1])), "renewal: `parent` is"),
        (
            "another loop",
            honest.clone().contract("/renewal/loop", json!("fox")),
            "renewal: `renewal.loop` is",
        ),
        ("no parent", honest.clone().contract("/parent", Value::Null), "do not fit each other"),
        (
            "an approver of its own",
            honest
                .clone()
                .contract("/roles/approver", json!([REVIEWER]))
                .contract("/renewal/changed", approver)
                .record("/actor/principal", json!(REVIEWER))
                .record("/actor/key", json!(ann))
                .with(|forge| forge.key = Some("ann".to_owned())),
            "ann@example.org is not an approver of loop `fix`",
        ),
    ] {
        let output = verify(&forged);
        assert_eq!(output.code, 20, "{what}: {output:?}");
        assert!(output.stdout.contains(needle), "{what}: {needle:?} not in {}", output.stdout);
    }
    // A parent whose ledger does not hold takes the renewal with it.
    verify(&honest).expect_code(0);
    let halt = Forge::read(&env, records[records.len() - 1]).record("/body/message", json!("another"));
    let forged = halt.commit(&env);
    let forged = honest.clone().contract("/renewal/tip", json!(forged));
    verify(&forged).expect_code(0);
    let iteration =
        Forge::read(&env, records[records.len() - 2]).record("/body/receipt/environment_id", json!("x"));
    let iteration = iteration.commit(&env);
    let mut halt = Forge::read(&env, records[records.len() - 1]).record("/prev", json!(iteration));
    halt.parents = vec![iteration];
    let forged = honest.contract("/renewal/tip", json!(halt.commit(&env)));
    let output = verify(&forged).expect_code(20);
    assert!(output.stdout.contains("of loop `fix`"), "{}", output.stdout);
}
