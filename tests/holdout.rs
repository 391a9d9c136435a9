//! The holdout: a second check that no worker can see, asked only when the target is met.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::scenario::numbers;
use crate::support::{TestEnv, tool};
use crate::verify::Forge;

mod ends;
mod secrecy;

/// What is in the holdout and nowhere else.
const CANARY: &str = "canary-5c1f0b";

/// Passes if `src/d` says 4, which nothing that a worker sees asks for; and is as talkative as it can be.
const RUN: &str = r#"#!/bin/sh
cat answer; cat answer >&2
for place in "$HOME" "$TMPDIR" . "$XDG_CACHE_HOME"; do cp answer "$place/left"; done
[ "$(cat "$GIT_LOOP_CANDIDATE/src/d" 2>/dev/null)" = "$(cut -d' ' -f1 answer)" ]
"#;

/// Meets the visible check; `src/d` is what the holdout asks for.
const MEET: &str = "echo 1 > src/a; echo 2 > src/b; echo 3 > src/c; ";

/// A folder outside the repository that holds a holdout.
fn folder(env: &TestEnv, run: &str) -> PathBuf {
    let folder = env.root().join("holdout");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("answer"), format!("4 {CANARY}\n")).unwrap();
    script(&folder.join("run.sh"), run);
    folder
}

fn script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// The terms of a holdout in `folder`.
fn terms(folder: &Path, more: &str) -> String {
    format!(
        "\n[holdout]\ncommand = [\"./run.sh\"]\nfolder = \"{}\"\ntimeout = \"60s\"\n{more}",
        folder.display()
    )
}

/// A loop with a holdout. In iteration n its worker does `steps[n - 1]`, from the last one on that.
fn with_holdout(env: &TestEnv, run: &str, steps: &[&str], more: &str) -> PathBuf {
    use std::fmt::Write;
    let mut worker = "case \"$GIT_LOOP_ITERATION\" in\n".to_owned();
    for (step, number) in steps.iter().zip(1..) {
        let pattern = if number == steps.len() { "*".to_owned() } else { number.to_string() };
        writeln!(worker, "  {pattern}) {step} ;;").unwrap();
    }
    worker.push_str("esac\n");
    let folder = folder(env, run);
    numbers(env, &worker, &terms(&folder, more));
    folder
}

fn receipt(env: &TestEnv, iteration: u32) -> Value {
    let shown = env.git_loop(&["show", "fix", &iteration.to_string(), "--json"]).expect_code(0).json();
    shown["record"]["body"]["receipt"].clone()
}

fn state(env: &TestEnv) -> Value {
    serde_json::from_str(&env.git(&["show", "refs/loops/fix/ledger:.loop_state.json"])).unwrap()
}

/// Both verifiers say that the ledgers hold.
#[track_caller]
fn holds(env: &TestEnv) {
    env.git_loop(&["verify", "--all"]).expect_code(0);
    if tool("python3") && tool("ssh-keygen") {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/independent/verify.py");
        let mut command = env.command("python3", env.repo());
        command.args([program, "--all", "--allowed-signers"]).arg(env.trust_file());
        let output = env.run_command(&mut command);
        assert_eq!(output.code, 0, "{}", output.stderr);
    }
}

/// The files in the folder of the worktrees, but for the note of how far a ledger was verified.
fn leftovers(env: &TestEnv) -> Vec<PathBuf> {
    let (mut files, mut places) = (Vec::new(), vec![env.home().join("cache/git-loop")]);
    while let Some(place) = places.pop() {
        for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_dir { places.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    files.retain(|file| file.extension().is_none_or(|end| end != "verified"));
    files
}

#[test]
fn a_red_holdout_rejects_and_the_next_candidate_that_it_passes_is_accepted() {
    let env = TestEnv::new();
    let folder =
        with_holdout(&env, RUN, &[&format!("{MEET} echo 0 > src/d"), &format!("{MEET} echo 4 > src/d")], "");
    let base = env.git(&["rev-parse", "HEAD"]);
    let rehearsed = env.git_loop(&["start", "fix", "--dry-run"]).expect_code(0);
    assert!(rehearsed.stdout.contains(folder.to_str().unwrap()), "{}", rehearsed.stdout);
    env.git_loop(&["run", "fix", "--once"])
        .expect_code(0)
        .expect_stderr("holdout_failed")
        .expect_stderr("holdout: red");
    let first = receipt(&env, 1);
    assert_eq!(first["decision"]["outcome_reason"], "holdout_failed");
    assert_eq!(first["decision"]["status"], "reject");
    assert_eq!(first["check"]["passing"], true, "the visible check is green");
    let holdout = &first["holdout"];
    assert_eq!(holdout["verdict"], "failed");
    assert_eq!(holdout["run"]["exit_code"], 1);
    assert_eq!(holdout["failing"], Value::Null);
    assert_eq!(holdout["problem"], Value::Null);
    assert_eq!(holdout["sandbox"]["filesystem"], true);
    env.git(&["init", "--quiet", folder.to_str().unwrap()]);
    env.git_in(&folder, &["add", "-A"]);
    assert_eq!(holdout["folder"], env.git_in(&folder, &["write-tree"]), "its tree id as git gives it");
    assert_eq!(env.git(&["rev-parse", "refs/loops/fix/head"]), base, "green did not move");
    assert_eq!(state(&env)["last_green_commit"], base);
    assert_eq!(state(&env)["counters"]["holdout_red"], 1);
    let status = env.git_loop(&["status", "fix"]).expect_code(0);
    assert!(status.stdout.contains("holdout     red 1 time"), "{}", status.stdout);
    let why = env.git_loop(&["show", "fix", "1", "--why"]).expect_code(0).stdout;
    assert!(why.contains("holdout_failed") && why.contains("the holdout passed"), "{why}");
    let log = env.git_loop(&["log", "fix"]).expect_code(0).stdout;
    assert!(log.contains("holdout_failed"), "{log}");
    // That it was red is all that the next worker is told.
    let context = env.git_loop(&["show", "fix", "1", "--json"]).json();
    assert!(!context.to_string().contains(CANARY));

    env.git_loop(&["run", "fix"]).expect_code(10);
    let told = env.git_loop(&["show", "fix", "2", "--evidence", "context.md"]).expect_code(0).stdout;
    assert!(
        told.contains("1: holdout_failed") && told.contains("the second check, which you cannot see, failed"),
        "{told}"
    );
    let second = receipt(&env, 2);
    assert_eq!(second["decision"]["outcome_reason"], "target_met");
    assert_eq!(second["holdout"]["verdict"], "passed");
    let shown = env.git_loop(&["show", "fix", "2"]).expect_code(0).stdout;
    assert!(shown.contains("holdout     exit 0") && shown.contains("green"), "{shown}");
    assert_eq!(state(&env)["counters"]["holdout_red"], 1);
    holds(&env);
    let believed = env.git_loop(&["verify", "fix", "--json"]).json()["believed"].to_string();
    assert!(believed.contains("what it said"), "{believed}");
}

#[test]
fn the_second_red_holdout_ends_the_loop() {
    let env = TestEnv::new();
    with_holdout(&env, RUN, &[MEET, &format!("{MEET} echo 5 > src/d")], "");
    let base = env.git(&["rev-parse", "HEAD"]);
    let end = env.git_loop(&["run", "fix", "--json"]).expect_code(13).json();
    assert_eq!(end["halt_reason"], "reward_hacking_detected");
    assert_eq!(end["status"], "blocked");
    assert_eq!(end["iteration_count"], 2);
    let last = receipt(&env, 2)["decision"].clone();
    let told = (&last["outcome"], &last["status"], &last["reason"], &last["exit_code"]);
    assert_eq!(told, (&json!("reject"), &json!("stopped"), &json!("holdout_failed"), &json!(13)));
    assert_eq!(env.git(&["rev-parse", "refs/loops/fix/head"]), base);
    assert_eq!(state(&env)["last_green_commit"], base, "green never moved");
    let explained = env.git_loop(&["explain", "fix", "--json"]).expect_code(0).json();
    assert_eq!(explained["verdict"], "investigate");
    assert_eq!(explained["decided_by"]["name"], "holdout_failed");
    holds(&env);
}

#[test]
fn a_holdout_is_not_asked_before_the_target_is_met() {
    let env = TestEnv::new();
    let steps = ["echo 1 > src/a; echo 4 > src/d", &format!("{MEET} echo 4 > src/d")];
    with_holdout(&env, RUN, &steps, "");
    env.git_loop(&["run", "fix"]).expect_code(10);
    assert_eq!(receipt(&env, 1)["decision"]["outcome_reason"], "metric_improved");
    assert!(receipt(&env, 1).get("holdout").is_none());
    assert_eq!(receipt(&env, 2)["holdout"]["verdict"], "passed");
    holds(&env);
}

#[test]
fn a_loop_without_a_holdout_says_nothing_of_one() {
    let env = TestEnv::new();
    numbers(&env, MEET, "");
    env.git_loop(&["run", "fix"]).expect_code(10);
    let contract: Value =
        serde_json::from_str(&env.git(&["show", "refs/loops/fix/ledger:contract.json"])).unwrap();
    assert!(contract.get("holdout").is_none());
    assert!(receipt(&env, 1).get("holdout").is_none());
    assert_eq!(state(&env)["counters"]["holdout_red"], Value::Null);
    let why = env.git_loop(&["show", "fix", "1", "--why"]).expect_code(0).stdout;
    assert!(!why.contains("holdout"), "{why}");
}

#[test]
fn a_holdout_that_is_not_what_was_frozen_stops_the_run_before_a_worker_is_paid() {
    let env = TestEnv::new();
    let folder = with_holdout(&env, RUN, &[&format!("{MEET} echo 4 > src/d")], "");
    env.git_loop(&["start", "fix"]).expect_code(0);
    let named = folder.display().to_string();
    let kept = fs::read(folder.join("answer")).unwrap();
    let changes: [(&str, &dyn Fn()); 3] = [
        ("an edit", &|| fs::write(folder.join("answer"), "5\n").unwrap()),
        ("a file more", &|| fs::write(folder.join("more"), "").unwrap()),
        ("a file less", &|| fs::remove_file(folder.join("answer")).unwrap()),
    ];
    for (what, change) in changes {
        change();
        let json = env.git_loop(&["run", "fix", "--json"]).expect_code(30).expect_stderr(&named).json();
        assert!(json.to_string().contains("is not what was frozen"), "{what}: {json}");
        fs::write(folder.join("answer"), &kept).unwrap();
        let _ = fs::remove_file(folder.join("more"));
    }
    assert_eq!(state(&env)["iteration"], 0);
    env.git_loop(&["run", "fix"]).expect_code(10);
    holds(&env);
}

#[test]
fn a_holdout_that_changes_while_the_worker_runs_is_not_held_against_the_candidate() {
    let env = TestEnv::new();
    let answer = env.root().join("holdout/answer");
    // Without a sandbox the worker can reach it: that is warned of.
    let edit = format!("{MEET} echo 4 > src/d; echo '5 x' > {}", answer.display());
    let folder = with_holdout(
        &env,
        RUN,
        &[&edit, &format!("{MEET} echo 4 > src/d")],
        "\n[sandbox]\nallowed = [\"none\"]\ncheck = { network = \"host\" }\n",
    );
    env.git_loop(&["start", "fix"]).expect_code(0).expect_stderr("the worker can read the holdout");
    env.git_loop(&["run", "fix"]).expect_code(30).expect_stderr(&folder.display().to_string());
    let first = receipt(&env, 1);
    assert_eq!(first["decision"]["outcome_reason"], "abandoned");
    assert!(first["abandoned"].as_str().unwrap().contains("is not what was frozen"), "{first}");
    assert!(first.get("holdout").is_none());
    let after = state(&env);
    assert_eq!(
        (&after["counters"]["no_progress"], &after["counters"]["holdout_red"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(after["halt_reason"], Value::Null, "the loop can go on");
    fs::write(&answer, format!("4 {CANARY}\n")).unwrap();
    env.git_loop(&["run", "fix"]).expect_code(10);
    holds(&env);
}

#[test]
fn the_candidate_lies_beside_the_holdout_and_cannot_be_written_to() {
    let env = TestEnv::new();
    let run = "#!/bin/sh\n\
               [ -e \"$GIT_LOOP_CANDIDATE/.git\" ] && exit 2\n\
               [ -e \"$GIT_LOOP_CANDIDATE/README\" ] || exit 3\n\
               echo x 2>/dev/null > \"$GIT_LOOP_CANDIDATE/src/a\" && exit 4\n\
               [ \"$(cat \"$GIT_LOOP_CANDIDATE/src/a\")\" = 1 ] || exit 5\n\
               echo built > here && echo kept > \"$TMPDIR/there\" || exit 6\n";
    with_holdout(&env, run, &[MEET], "");
    env.git_loop(&["run", "fix"]).expect_code(10);
    assert_eq!(receipt(&env, 1)["holdout"]["run"]["exit_code"], 0);
}

#[test]
fn a_candidate_from_an_orchestrator_meets_the_holdout_as_well() {
    let env = TestEnv::new();
    let folder = with_holdout(&env, RUN, &["true"], "");
    for (file, text) in [("src/a", "1\n"), ("src/b", "2\n"), ("src/c", "3\n")] {
        env.write(file, text);
    }
    let cheat = env.commit("The visible numbers");
    env.write("src/d", "4\n");
    let honest = env.commit("All of them");
    env.git(&["reset", "--quiet", "--hard", "HEAD~2"]);
    env.git_loop(&["start", "fix"]).expect_code(0);
    let rejected = env.git_loop(&["record", "fix", "--candidate", &cheat, "--json"]).expect_code(0).json();
    assert_eq!(rejected["decision"]["outcome_reason"], "holdout_failed", "{rejected}");
    // What is no fault of the candidate leaves its iteration open, so that it can be brought again.
    let answer = fs::read(folder.join("answer")).unwrap();
    fs::write(folder.join("answer"), "9\n").unwrap();
    env.git_loop(&["record", "fix", "--candidate", &honest])
        .expect_code(30)
        .expect_stderr("is not what was frozen");
    fs::write(folder.join("answer"), answer).unwrap();
    env.git_loop(&["record", "fix", "--candidate", &honest]).expect_code(10);
    assert_eq!(receipt(&env, 2)["holdout"]["verdict"], "passed");
    holds(&env);
}

#[test]
fn an_outside_verdict_does_not_replace_the_holdout() {
    let env = TestEnv::new();
    with_holdout(&env, RUN, &["true"], "\n[roles]\nverifier = [\"ann@example.org\"]\n");
    let toml = fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write("loop.toml", toml.replace("format = \"lines\"", "external = true"));
    env.git_loop(&["start", "fix"]).expect_code(0);
    for (content, reason, code) in [("3\n", "holdout_failed", 0), ("4\n", "target_met", 10)] {
        env.write("src/d", content);
        let candidate = env.commit("A candidate");
        env.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
        let open = env.git_loop(&["checkpoint", "fix", "--json"]).expect_code(0).json();
        let contract: Value =
            serde_json::from_str(&env.git(&["show", "refs/loops/fix/ledger:contract.json"])).unwrap();
        let tree = env.git(&["rev-parse", &format!("{candidate}^{{tree}}")]);
        let verdict = json!({
            "loop": "fix", "checkpoint": open["checkpoint"], "candidate_tree": tree, "check_tree": tree,
            "frozen": contract["frozen"]["tree"], "exit_code": 0, "metric_value": null, "failures": [], "collected": ["t"],
        });
        let file = env.root().join("verdict.json");
        fs::write(&file, serde_json::to_string_pretty(&verdict).unwrap() + "\n").unwrap();
        let (path, key) = (file.to_str().unwrap(), env.key("ann"));
        env.git_loop(&["verdict", "sign", path, "--key", key.to_str().unwrap()]).expect_code(0);
        let said = env
            .git_loop(&["record", "fix", "--candidate", &candidate, "--verdict", path, "--json"])
            .expect_code(code)
            .json();
        assert_eq!(said["decision"]["outcome_reason"], reason, "{said}");
    }
    holds(&env);
}

#[test]
fn a_renewal_keeps_or_changes_the_holdout() {
    let env = TestEnv::new();
    let folder = with_holdout(&env, RUN, &[&format!("{MEET} echo 4 > src/d")], "");
    let key = env.key("ann");
    env.git_loop(&["run", "fix"]).expect_code(10);
    let reject = ["review", "fix", "--reject", "--comment", "d must be 5", "--key", key.to_str().unwrap()];
    env.git_loop(&reject).expect_code(16);
    // The same terms: green meets them, and the holdout was asked about it once more.
    env.git_loop(&["renew", "fix", "kept"]).expect_code(0);
    env.git_loop(&["run", "kept"]).expect_code(10).expect_stderr("baseline: holdout");
    let base = env.git_loop(&["show", "kept", "0", "--json"]).expect_code(0).json();
    assert_eq!(base["record"]["body"]["holdout"]["verdict"], "passed");

    fs::write(folder.join("answer"), "5 x\n").unwrap();
    env.git_loop(&["renew", "fix", "stale"]).expect_code(0);
    env.git_loop(&["run", "stale"]).expect_code(30).expect_stderr("is not what was frozen");
    let toml = fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let worker = env.script("other.sh", &format!("{MEET} echo 5 > src/d\n"));
    let old = env.root().join("scripts/worker.sh");
    env.write("loop.toml", toml.replace(old.to_str().unwrap(), &worker));
    env.git_loop(&["renew", "fix", "harder", "-f", "loop.toml"]).expect_code(0);
    let contract: Value =
        serde_json::from_str(&env.git(&["show", "refs/loops/harder/ledger:contract.json"])).unwrap();
    let changed = contract["renewal"]["changed"].as_array().unwrap();
    assert!(changed.iter().any(|one| one["term"] == "holdout.tree"), "{changed:?}");
    // Green does not pass the new one: it is no green to be reviewed as it is, but one to go on from.
    env.git_loop(&["run", "harder"])
        .expect_code(10)
        .expect_stderr("the target is met, and the holdout is red");
    assert_eq!(env.git(&["show", "refs/loops/harder/head:src/d"]), "5");

    env.write("loop.toml", toml.split("\n[holdout]").next().unwrap());
    env.git_loop(&["renew", "fix", "without", "-f", "loop.toml"]).expect_code(0);
    let contract: Value =
        serde_json::from_str(&env.git(&["show", "refs/loops/without/ledger:contract.json"])).unwrap();
    let changed = contract["renewal"]["changed"].as_array().unwrap();
    assert!(changed.iter().any(|one| one["term"] == "holdout" && one["to"].is_null()), "{changed:?}");
    holds(&env);
}

#[test]
fn a_ledger_that_says_something_else_of_its_holdout_does_not_verify() {
    let env = TestEnv::new();
    with_holdout(&env, RUN, &[&format!("{MEET} echo 4 > src/d")], "");
    env.git_loop(&["run", "fix"]).expect_code(10);
    let records = env.git(&["rev-list", "--first-parent", "--reverse", "refs/loops/fix/ledger"]);
    let iteration = records.lines().nth(3).unwrap();
    let base = Forge::read(&env, iteration);
    let mut without = base.json("record.json")["body"]["receipt"].clone();
    without.as_object_mut().unwrap().remove("holdout");
    let none = base.clone().record("/body/receipt", without);
    let forged = [
        ("no holdout where the target is met", none),
        ("red, and accepted", base.clone().record("/body/receipt/holdout/verdict", json!("failed"))),
        ("another exit code", base.clone().record("/body/receipt/holdout/run/exit_code", json!(1))),
        ("another folder", base.clone().record("/body/receipt/holdout/folder", json!("1".repeat(40)))),
        ("tests of a format without", base.clone().record("/body/receipt/holdout/failing", json!(0))),
        ("a problem beside a verdict", base.clone().record("/body/receipt/holdout/problem", json!("x"))),
        ("another count", base.clone().state("/counters/holdout_red", json!(1))),
    ];
    for (what, forge) in forged {
        env.git(&["update-ref", "refs/loops/fix/ledger", &forge.commit(&env)]);
        assert_eq!(env.git_loop(&["verify", "fix"]).code, 20, "{what}");
        if tool("python3") && tool("ssh-keygen") {
            let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/independent/verify.py");
            let mut command = env.command("python3", env.repo());
            command.args([program, "fix", "--allowed-signers"]).arg(env.trust_file());
            assert_eq!(env.run_command(&mut command).code, 20, "{what}, the second verifier");
        }
    }
}
