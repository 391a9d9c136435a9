//! Loops that somebody else drives: `checkpoint`, `record`, and checks that ran elsewhere.

use serde_json::{Value, json};

use crate::support::TestEnv;
use crate::support::scenario::{HONEST, numbers};

/// A commit on top of green in which `files` are changed.
fn candidate(env: &TestEnv, files: &[(&str, &str)]) -> String {
    env.git(&["checkout", "--quiet", "--detach", "refs/loops/fix/head"]);
    for (path, content) in files {
        env.write(path, content);
    }
    env.git(&["add", "--all", "src"]);
    env.git(&["commit", "--quiet", "--allow-empty", "-m", "An attempt"]);
    let commit = env.git(&["rev-parse", "HEAD"]);
    env.git(&["checkout", "--quiet", "main"]);
    commit
}

fn edit(env: &TestEnv, edits: &[(&str, &str)]) {
    let mut toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    for (old, new) in edits {
        assert!(toml.contains(old), "{old}");
        toml = toml.replace(old, new);
    }
    env.write("loop.toml", toml);
}

#[track_caller]
fn record(env: &TestEnv, code: i32, args: &[&str]) -> Value {
    env.git_loop(&[&["record", "fix", "--json"], args].concat()).expect_code(code).json()
}

fn decisions(env: &TestEnv, count: usize) -> Vec<Value> {
    let show =
        |number: usize| env.git_loop(&["show", "fix", &number.to_string(), "--json"]).expect_code(0).json();
    (1..=count).map(|number| show(number)["record"]["body"]["receipt"]["decision"].clone()).collect()
}

#[test]
fn a_loop_that_is_recorded_is_decided_as_one_that_is_run() {
    let run = TestEnv::new();
    let worker = HONEST.replace("2) echo 2 > src/b", "2) echo 0 > src/a; echo 2 > src/b; echo 3 > src/c");
    let worker = worker.replace("*) echo 3", "3) echo 2 > src/b ;;\n  *) echo 3");
    numbers(&run, &worker, "");
    run.git_loop(&["run", "fix"]).expect_code(10);
    let recorded = TestEnv::new();
    numbers(&recorded, "exit 1\n", "");
    recorded.git_loop(&["start", "fix"]).expect_code(0);
    let before = recorded.git(&["status", "--porcelain"]);
    let steps: [&[(&str, &str)]; 4] = [
        &[("src/a", "1\n")],
        &[("src/a", "0\n"), ("src/b", "2\n"), ("src/c", "3\n")],
        &[("src/b", "2\n")],
        &[("src/c", "3\n")],
    ];
    for (number, files) in steps.iter().enumerate() {
        // `record` alone begins with the baseline.
        let rev = if number == 0 {
            recorded.git_loop(&["checkpoint", "fix"]).expect_code(0);
            candidate(&recorded, files)
        } else {
            candidate(&recorded, files)
        };
        let code = if number == 3 { 10 } else { 0 };
        let json = record(&recorded, code, &["--candidate", &rev]);
        assert_eq!(json["decision"]["exit_code"], code);
        assert_eq!(json["iteration_count"], number + 1);
    }
    assert_eq!(decisions(&recorded, 4), decisions(&run, 4));
    recorded.git_loop(&["verify", "fix"]).expect_code(0);
    assert_eq!(recorded.git(&["status", "--porcelain"]), before);
    // The candidate is a signed commit of the runner's with the tree of what was brought.
    let show = recorded.git_loop(&["show", "fix", "4", "--json"]).expect_code(0).json();
    let receipt = &show["record"]["body"]["receipt"];
    assert_eq!(receipt["worker"], Value::Null);
    let tree =
        |commit: &Value| recorded.git(&["rev-parse", &format!("{}^{{tree}}", commit.as_str().unwrap())]);
    assert_eq!(tree(&receipt["candidate"]), tree(&receipt["outside"]["rev"]));
}

#[test]
fn record_alone_drives_a_loop() {
    let env = TestEnv::new();
    numbers(&env, "exit 1\n", "");
    edit(
        &env,
        &[("usage = \"none\"", "usage = \"json\""), ("no_progress = 3", "no_progress = 3\ncost_usd = 1.0")],
    );
    env.git_loop(&["start", "fix"]).expect_code(0);
    let evidence = env.home().join("evidence.json");
    std::fs::write(
        &evidence,
        r#"{"cost": {"prompt_tokens": 10, "completion_tokens": 5, "usd": 0.25}, "summary": "one"}"#,
    )
    .unwrap();
    let rev = candidate(&env, &[("src/a", "1\n")]);
    let json = record(
        &env,
        0,
        &["--candidate", &rev, "--evidence", evidence.to_str().unwrap(), "--adapter", "landlock"],
    );
    assert_eq!((&json["decision"]["status"], &json["cost_cents"]), (&"accept".into(), &25.into()));
    // What is unknown is not 0: the next is not begun.
    let rev = candidate(&env, &[("src/b", "2\n")]);
    let json = record(&env, 0, &["--candidate", &rev, "--iteration", "2"]);
    assert_eq!(json["decision"]["outcome_reason"], "metric_improved");
    let rev = candidate(&env, &[("src/c", "3\n")]);
    let json = record(&env, 18, &["--candidate", &rev]);
    assert_eq!((&json["halt_reason"], &json["decision"]), (&"budget_exceeded".into(), &Value::Null));
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_recorded() {
    let env = TestEnv::new();
    numbers(&env, "exit 1\n", "");
    env.git_loop(&["start", "fix"]).expect_code(0);
    let first = env.git_loop(&["checkpoint", "fix", "--json"]).expect_code(0).json();
    assert_eq!((&first["open_iteration"], &first["status"]), (&1.into(), &"active".into()));
    let environment = first["environment_id"].as_str().unwrap().to_owned();
    assert!(first["context"].as_str().unwrap().contains("Mend the three numbers"));
    let rev = candidate(&env, &[("src/a", "1\n")]);
    let tip = || env.git(&["rev-parse", "refs/loops/fix/ledger"]);
    let before = tip();
    let refused = |text: &str, args: &[&str]| {
        env.git_loop(&[&["record", "fix"], args].concat()).expect_code(1).expect_stderr(text);
    };
    env.git_loop(&["checkpoint", "fix"])
        .expect_code(1)
        .expect_stderr("iteration 1 of loop `fix` is open already");
    refused("iteration 2 is out of order", &["--candidate", &rev, "--iteration", "2"]);
    refused("is not that of iteration 1", &["--candidate", &rev, "--environment", "0123456789abcdef"]);
    refused("does not allow the adapter none", &["--candidate", &rev, "--adapter", "none"]);
    refused(
        "the check of loop `fix` runs here",
        &["--candidate", &rev, "--verdict", "loop.toml"].map(|arg| {
            if arg == "loop.toml" {
                std::fs::write(env.repo().join("loop.toml.sig"), "").unwrap();
            }
            arg
        }),
    );
    env.git(&["checkout", "--quiet", "--orphan", "other"]);
    env.git(&["commit", "--quiet", "-m", "Elsewhere"]);
    env.git(&["checkout", "--quiet", "main"]);
    refused("is not on top of", &["--candidate", "other"]);
    env.git_loop(&["record", "fix", "--candidate", "nothing"]).expect_code(129);
    env.git_loop(&["record", "fix", "--candidate", &rev, "--evidence", "nowhere"]).expect_code(129);
    assert_eq!(tip(), before);

    record(&env, 0, &["--candidate", &rev, "--environment", &environment]);
    // An environment is used once.
    refused("an environment is used once", &["--candidate", &rev, "--environment", &environment]);
    // The old base is not green any more.
    env.git(&["branch", "stale", "main"]);
    refused("is not on top of", &["--candidate", "stale"]);
    // An iteration that nobody finishes is given up on the record.
    env.git_loop(&["checkpoint", "fix"]).expect_code(0);
    env.git_loop(&["checkpoint", "fix", "--abandon"]).expect_code(0);
    env.git_loop(&["checkpoint", "fix", "--abandon"]).expect_code(1);
    let rev = candidate(&env, &[("src/b", "2\n"), ("src/c", "3\n")]);
    record(&env, 10, &["--candidate", &rev]);
    refused("has halted: success_condition_met", &["--candidate", &rev]);
    let json = env.git_loop(&["checkpoint", "fix", "--json"]).expect_code(10).json();
    assert_eq!(json["halt_reason"], "success_condition_met");
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn a_candidate_that_edits_the_check_is_blocked_wherever_it_comes_from() {
    let env = TestEnv::new();
    numbers(&env, "exit 1\n", "");
    env.git_loop(&["start", "fix"]).expect_code(0);
    env.git(&["checkout", "--quiet", "-b", "cheat"]);
    env.write("check.sh", "echo ok a; echo ok b; echo ok c; echo done 3\n");
    env.commit("Cheat");
    env.git(&["checkout", "--quiet", "main"]);
    let json = record(&env, 13, &["--candidate", "cheat"]);
    assert_eq!(json["halt_reason"], "metric_integrity_violation");
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

/// A loop whose check runs elsewhere; `lead` signs its verdicts.
fn external(metric: &str) -> TestEnv {
    let env = TestEnv::new();
    numbers(
        &env,
        "exit 1\n",
        "\n[roles]\nverifier = [\"lead@example.org\"]\nreviewer = [\"ann@example.org\"]\n",
    );
    edit(&env, &[("format = \"lines\"", "external = true"), ("from = \"failures\"", metric)]);
    env.git_loop(&["start", "fix"]).expect_code(0);
    env
}

/// Announces an iteration, and gives the verdict that would fit a candidate with these files.
fn announced(env: &TestEnv, files: &[(&str, &str)], exit_code: i32, failures: &[&str]) -> (String, Value) {
    let open = env.git_loop(&["checkpoint", "fix", "--json"]).expect_code(0).json();
    let rev = candidate(env, files);
    let tree = env.git(&["rev-parse", &format!("{rev}^{{tree}}")]);
    let verdict = json!({
        "loop": "fix", "checkpoint": open["checkpoint"], "candidate_tree": tree, "check_tree": tree, "frozen": open["frozen"],
        "exit_code": exit_code, "metric_value": null, "failures": failures, "collected": ["a", "b", "c"],
    });
    (rev, verdict)
}

fn sign(env: &TestEnv, verdict: &Value, who: &str) -> String {
    let file = env.home().join("verdict.json");
    // Not in canonical form.
    std::fs::write(&file, verdict.to_string()).unwrap();
    let (file, key) = (file.to_str().unwrap().to_owned(), env.key(who));
    env.git_loop(&["verdict", "sign", &file, "--key", key.to_str().unwrap()]).expect_code(0);
    file
}

#[test]
fn a_check_that_ran_elsewhere_brings_signed_verdicts() {
    let env = external("from = \"failures\"");
    env.git_loop(&["run", "fix"]).expect_code(30).expect_stderr("runs elsewhere");
    let (rev, verdict) = announced(&env, &[("src/a", "1\n")], 1, &["b", "c"]);
    let file = sign(&env, &verdict, "lead");
    let json = record(&env, 0, &["--candidate", &rev, "--verdict", &file]);
    assert_eq!(json["decision"]["outcome_reason"], "metric_improved", "anything is better than no baseline");
    // A test that passed at green does not pass now.
    let (rev, verdict) = announced(&env, &[("src/a", "0\n"), ("src/b", "2\n")], 1, &["a"]);
    let file = sign(&env, &verdict, "lead");
    let json = record(&env, 0, &["--candidate", &rev, "--verdict", &file]);
    assert_eq!(json["decision"]["outcome_reason"], "tests_regressed");
    // The exit code and the tests contradict each other.
    let (rev, verdict) = announced(&env, &[("src/b", "2\n")], 0, &["c"]);
    let file = sign(&env, &verdict, "lead");
    let json = record(&env, 0, &["--candidate", &rev, "--verdict", &file]);
    assert_eq!(json["decision"]["outcome_reason"], "verifier_failed");
    let (rev, verdict) = announced(&env, &[("src/b", "2\n"), ("src/c", "3\n")], 0, &[]);
    let file = sign(&env, &verdict, "lead");
    record(&env, 10, &["--candidate", &rev, "--verdict", &file]);
    let verified = env.git_loop(&["verify", "fix"]).expect_code(0).stdout;
    assert!(verified.contains("4 decisions hold"), "{verified}");
    // Stock OpenSSH says the same of the last verdict.
    let mut keygen = env.command("ssh-keygen", env.repo());
    let trust = env.trust_file();
    keygen.args([
        "-Y",
        "verify",
        "-n",
        "git-loop-verdict",
        "-I",
        "lead@example.org",
        "-s",
        &format!("{file}.sig"),
        "-f",
    ]);
    let output = keygen.arg(trust).stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn without_a_baseline_the_tests_at_green_must_go_on_to_run() {
    let env = external("from = \"failures\"");
    let (rev, verdict) = announced(&env, &[("src/a", "1\n")], 1, &["b", "c"]);
    let file = sign(&env, &verdict, "lead");
    record(&env, 0, &["--candidate", &rev, "--verdict", &file]);
    let (rev, mut verdict) = announced(&env, &[("src/b", "2\n")], 0, &[]);
    verdict["collected"] = json!(["a"]);
    let file = sign(&env, &verdict, "lead");
    let json = record(&env, 13, &["--candidate", &rev, "--verdict", &file]);
    assert_eq!(json["decision"]["outcome_reason"], "metric_integrity_violation");
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn a_verdict_without_its_lists_switches_no_row_off() {
    let env = external("from = \"verdict\"");
    let step = |files: &[(&str, &str)], code: i32, exit_code: i32, metric: f64, lists: [Value; 2]| {
        let (rev, mut verdict) = announced(&env, files, exit_code, &[]);
        let [collected, failures] = lists;
        verdict["metric_value"] = json!(metric);
        verdict["collected"] = collected;
        verdict["failures"] = failures;
        let file = sign(&env, &verdict, "lead");
        record(&env, code, &["--candidate", &rev, "--verdict", &file])["decision"]["outcome_reason"].clone()
    };
    // With nothing to compare with it is a verdict like any other.
    let first = step(&[("src/a", "1\n")], 0, 1, 6.0, [Value::Null, Value::Null]);
    assert_eq!(first, "metric_improved");
    let second = step(&[("src/b", "1\n")], 0, 1, 5.0, [json!(["a", "b", "c"]), json!(["a", "b"])]);
    assert_eq!(second, "metric_improved");
    // Once tests are known, one that names none is compared with nothing, and counts for nothing.
    let third = step(&[("src/b", "2\n")], 0, 1, 4.0, [Value::Null, Value::Null]);
    assert_eq!(third, "verifier_failed");
    // So that what is lost is still seen.
    let fourth = step(&[("src/b", "3\n")], 13, 0, 0.0, [json!(["x"]), json!([])]);
    assert_eq!(fourth, "metric_integrity_violation");
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn a_loop_that_halted_for_a_finding_is_resumed_by_the_next_checkpoint() {
    let env = external("from = \"failures\"");
    let ann = env.key("ann");
    let ann = ann.to_str().unwrap();
    let add = ["finding", "fix", "add", "--severity", "block", "--message", "odd", "--key", ann, "--json"];
    let finding = env.git_loop(&add).expect_code(0).json()["record_id"].as_str().unwrap().to_owned();
    env.git_loop(&["checkpoint", "fix"]).expect_code(11);
    env.git_loop(&["run", "fix"]).expect_code(11);
    env.git_loop(&["finding", "fix", "resolve", &finding, "--message", "even", "--key", ann]).expect_code(0);
    env.git_loop(&["run", "fix"]).expect_code(30).expect_stderr("runs elsewhere");
    env.git_loop(&["checkpoint", "fix"]).expect_code(0);
    env.git_loop(&["stop", "fix", "--key", ann]).expect_code(0);
    env.git_loop(&["checkpoint", "fix"]).expect_code(11);
    env.git_loop(&["checkpoint", "fix", "--resume"]).expect_code(1).expect_stderr("is open already");
    env.git_loop(&["checkpoint", "fix", "--abandon"]).expect_code(11);
    env.git_loop(&["checkpoint", "fix", "--resume"]).expect_code(0);
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn a_verdict_about_anything_else_or_by_anyone_else_is_refused() {
    let env = external("from = \"failures\"");
    let (rev, verdict) = announced(&env, &[("src/a", "1\n")], 1, &["b", "c"]);
    let tip = env.git(&["rev-parse", "refs/loops/fix/ledger"]);
    let refused = |verdict: &Value, who: &str, text: &str| {
        let file = sign(&env, verdict, who);
        env.git_loop(&["record", "fix", "--candidate", &rev, "--verdict", &file])
            .expect_code(1)
            .expect_stderr(text);
        assert_eq!(env.git(&["rev-parse", "refs/loops/fix/ledger"]), tip);
        assert_eq!(env.git(&["rev-parse", "refs/loops/fix/head"]), env.git(&["rev-parse", "main"]));
    };
    let other = env.git(&["rev-parse", "main^{tree}"]);
    let with = |key: &str, value: Value| {
        let mut changed = verdict.clone();
        changed[key] = value;
        changed
    };
    refused(&with("loop", "other".into()), "lead", "the verdict is about loop other");
    refused(&with("checkpoint", other.clone().into()), "lead", "the verdict is about checkpoint");
    refused(&with("candidate_tree", other.clone().into()), "lead", "the verdict is about candidate tree");
    refused(&with("check_tree", other.clone().into()), "lead", "the verdict is about check tree");
    refused(&with("frozen", other.into()), "lead", "the verdict is about frozen paths");
    refused(&verdict, "ann", "which is no verifier's");
    refused(&verdict, "runner", "the key that runs the loop");
    env.git_loop(&["record", "fix", "--candidate", &rev])
        .expect_code(1)
        .expect_stderr("a verdict is missing");
    // A word changed after it was signed.
    let file = sign(&env, &verdict, "lead");
    let text = std::fs::read_to_string(&file).unwrap();
    for changed in [
        text.replace("\"c\"\n", "\"b\"\n"),
        text.replace("\"exit_code\": 1", "\"exit_code\": 0"),
        text.replace('\n', "\r\n"),
        String::new(),
    ] {
        assert_ne!(changed, text);
        std::fs::write(&file, changed).unwrap();
        env.git_loop(&["record", "fix", "--candidate", &rev, "--verdict", &file])
            .expect_code(1)
            .expect_stderr("verdict");
    }
    std::fs::write(&file, &text).unwrap();
    record(&env, 0, &["--candidate", &rev, "--verdict", &file]);
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn a_metric_from_the_verdict() {
    let env = external("from = \"verdict\"");
    let (rev, mut verdict) = announced(&env, &[("src/a", "1\n")], 1, &[]);
    verdict["metric_value"] = 2.5.into();
    verdict["failures"] = Value::Null;
    verdict["collected"] = Value::Null;
    let file = sign(&env, &verdict, "lead");
    let json = record(&env, 0, &["--candidate", &rev, "--verdict", &file]);
    assert_eq!(
        (&json["decision"]["outcome_reason"], &json["metric"]["best"]),
        (&"metric_improved".into(), &2.5.into())
    );
    // The target is met only by a check that passes.
    for (exit_code, code, row) in [(1, 0, "metric_improved"), (0, 10, "target_met")] {
        let content = format!("{exit_code}\n");
        let (rev, mut verdict) = announced(&env, &[("src/b", &content)], exit_code, &[]);
        verdict["metric_value"] = json!(-exit_code);
        verdict["failures"] = Value::Null;
        verdict["collected"] = Value::Null;
        let file = sign(&env, &verdict, "lead");
        let json = record(&env, code, &["--candidate", &rev, "--verdict", &file]);
        assert_eq!(json["decision"]["outcome_reason"], row);
    }
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn a_check_may_write_its_verdict_itself() {
    let env = TestEnv::new();
    numbers(&env, "echo $((4 - GIT_LOOP_ITERATION)) > src/d\n", "");
    env.write(
        "check.sh",
        "value=$(cat src/d 2>/dev/null || echo 9)\n[ $value = 3 ] && exit 0\n\
         printf '{\"metric_value\": %s, \"observed_effect\": \"less\"}' $value > \"$GIT_LOOP_VERDICT\"\n[ $value -le 1 ]\n",
    );
    env.commit("A check that writes a verdict");
    edit(
        &env,
        &[
            ("format = \"lines\"", "format = \"none\""),
            ("from = \"failures\"", "from = \"verdict\""),
            ("target = 0", "target = 1"),
        ],
    );
    env.git_loop(&["run", "fix"]).expect_code(10);
    let rows: Vec<Value> =
        decisions(&env, 3).iter().map(|decision| decision["outcome_reason"].clone()).collect();
    assert_eq!(rows, ["verifier_failed", "metric_improved", "target_met"]);
    env.git_loop(&["verify", "fix"]).expect_code(0);
}
