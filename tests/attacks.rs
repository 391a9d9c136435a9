//! Attacks that once worked, each named after what went wrong.

use serde_json::json;

use crate::support::TestEnv;
use crate::support::scenario::{HONEST, numbers};

#[test]
fn a_link_above_a_warm_folder_does_not_lead_the_runner_out() {
    let env = TestEnv::new();
    let victim = env.root().join("victim");
    std::fs::create_dir_all(victim.join("cache")).unwrap();
    std::fs::write(victim.join("cache/precious"), "x").unwrap();
    numbers(
        &env,
        &format!("rm -rf src; ln -s '{}' src\n", victim.display()),
        "\n[worktree]\nwarm = [\"src/cache\"]\n",
    );
    env.git_loop(&["run", "fix"]).expect_code(13);
    assert!(victim.join("cache/precious").exists(), "what the link leads to is not the runner's to remove");
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn a_candidate_that_rewrites_the_frozen_files_while_the_check_runs_gets_no_verdict() {
    let env = TestEnv::new();
    // A check that runs the candidate as a program of its own, and compares with a golden file afterwards.
    let worker = "printf 'echo wrong > tests/golden\\necho wrong\\n' > src/prog; echo 1 > src/a\n";
    numbers(&env, worker, "");
    env.write("src/prog", "echo no\n");
    env.write("tests/golden", "right\n");
    let check = "sh src/prog > \"$TMPDIR/out\"\nif cmp -s \"$TMPDIR/out\" tests/golden; then echo ok golden; bad=0; else echo fail golden; bad=1; fi\necho done 1\nexit $bad\n";
    env.write("check.sh", check);
    env.commit("A golden file");
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
    let receipt = &show["record"]["body"]["receipt"];
    assert_eq!(receipt["check"]["no_report"], "frozen_changed");
    assert_eq!(receipt["decision"]["outcome_reason"], "verifier_failed");
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn a_link_in_place_of_the_evidence_folder_brings_no_file_of_the_host_in() {
    let env = TestEnv::new();
    let secret = env.root().join("secret");
    std::fs::create_dir_all(&secret).unwrap();
    std::fs::write(secret.join("evidence.json"), "{\"summary\":\"top secret\"}").unwrap();
    let worker = format!(
        "d=$(dirname \"$GIT_LOOP_EVIDENCE\"); mv \"$d\" \"$d.old\"; ln -s '{}' \"$d\"; echo 1 > src/a\n",
        secret.display()
    );
    numbers(&env, &worker, "");
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0);
    assert!(!show.stdout.contains("top secret"), "{show:?}");
}

#[test]
fn a_servers_hook_takes_a_valid_ledger_and_refuses_unpromoted_code() {
    let (env, _) = crate::gate::converged();
    let server = env.root().join("server.git");
    env.git_in(&env.root(), &["init", "--quiet", "--bare", server.to_str().unwrap()]);
    env.git_in(&server, &["config", "loop.allowedSigners", env.trust_file().to_str().unwrap()]);
    env.git_loop(&["hooks", "uninstall"]).expect_code(0);
    let url = server.to_str().unwrap();
    env.git(&["push", "--quiet", url, "main"]);
    env.git_loop_in(&server, &["hooks", "install", "--server"]).expect_code(0);
    // A ledger comes in through the quarantine.
    env.git(&["push", "--quiet", url, "refs/loops/*:refs/loops/*"]);
    env.git_loop_in(&server, &["verify", "--all"]).expect_code(0);
    let push = env.try_git(&["push", url, "refs/loops/keep/head:refs/heads/lasting"]);
    assert_eq!(push.code, 1, "{push:?}");
    assert!(push.stderr.contains("loop keep"), "{push:?}");
    env.write("other", "x\n");
    env.commit("Something else");
    env.git(&["push", "--quiet", url, "HEAD:refs/heads/other"]);
}

#[test]
fn an_unsigned_record_on_top_does_not_make_the_gate_look_away() {
    let (env, _) = crate::gate::converged();
    env.git_loop(&["gate", "main..refs/loops/keep/head"]).expect_code(1);
    // Without any key: another contract on top of the ledger, of a class that is not gated.
    let contract =
        env.git(&["show", "refs/loops/keep/ledger:contract.json"]).replace("lasting_code", "research");
    let file = env.root().join("contract.json");
    std::fs::write(&file, contract + "\n").unwrap();
    let blob = env.git(&["hash-object", "-w", file.to_str().unwrap()]);
    let listing = env.git(&["ls-tree", "refs/loops/keep/ledger"]);
    let tree: String = listing
        .lines()
        .map(|line| {
            if line.ends_with("\tcontract.json") {
                format!("100644 blob {blob}\tcontract.json")
            } else {
                line.to_owned()
            }
        })
        .fold(String::new(), |text, line| text + &line + "\n");
    let input = env.root().join("tree");
    std::fs::write(&input, tree).unwrap();
    let mut command = env.command("git", env.repo());
    command.arg("mktree").stdin(std::fs::File::open(&input).unwrap());
    let tree = env.run_command(&mut command).stdout.trim().to_owned();
    let forged = env.git(&["commit-tree", "-p", "refs/loops/keep/ledger", "-m", "forged", &tree]);
    env.git(&["update-ref", "refs/loops/keep/ledger", &forged]);
    env.git_loop(&["gate", "main..refs/loops/keep/head"]).expect_code(1).expect_stderr("loop keep");
}

#[test]
fn what_a_terminal_would_act_on_is_escaped_wherever_it_comes_from() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["run", "fix"]).expect_code(10);
    // A record that nobody signed, with an escape where the reader names the unknown word.
    let record = env.git(&["show", "refs/loops/fix/ledger:record.json"]);
    let record =
        record.replace("\"kind\": \"halt\"", "\"kind\": \"\\u001b]0;pwned\\u0007\\u001b[2J\\u202e\"");
    let file = env.root().join("record.json");
    std::fs::write(&file, record + "\n").unwrap();
    let blob = env.git(&["hash-object", "-w", file.to_str().unwrap()]);
    let index = env.root().join("index");
    let run = |args: &[&str]| {
        let output = env.run_command(env.command("git", env.repo()).env("GIT_INDEX_FILE", &index).args(args));
        assert_eq!(output.code, 0, "{output:?}");
        output.stdout.trim().to_owned()
    };
    run(&["read-tree", "refs/loops/fix/ledger"]);
    run(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},record.json")]);
    let tree = run(&["write-tree"]);
    let forged = env.git(&["commit-tree", "-p", "refs/loops/fix/ledger", "-m", "forged", &tree]);
    env.git(&["update-ref", "refs/loops/fix/ledger", &forged]);
    for command in [&["status", "fix"][..], &["log", "fix"], &["list"], &["verify", "fix"], &["run", "fix"]] {
        for json in [false, true] {
            let mut args = command.to_vec();
            if json {
                args.push("--json");
            }
            let output = env.git_loop(&args).expect_code(20);
            let all = format!("{}{}", output.stdout, output.stderr);
            assert!(!all.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{args:?}: {output:?}");
        }
    }
}

#[test]
fn a_receipt_that_contradicts_the_contract_or_itself_does_not_verify() {
    if !crate::support::tool("ssh-keygen") {
        return;
    }
    let env = TestEnv::new();
    let records = crate::verify::converged(&env);
    let iteration = crate::verify::Forge::read(&env, &records[7]);
    let body = "/body/receipt";
    let cases = [
        ("check/run/command", json!(["/bin/true"]), "command"),
        ("worker/run/command", json!(["/bin/true"]), "command"),
        ("worker/run/exit_code", json!(1), "failure"),
        ("worker", json!(null), "worker"),
        ("sandbox/check", json!(null), "sandbox"),
        ("sandbox/check/network", json!("host"), "sandbox"),
        ("determinism_confidence", json!(1.0), "determinism"),
        ("worker/agent", json!("somebody else"), "agent"),
        ("worker/run/signal", json!(9), "signal"),
        ("check/run/signal", json!(9), "signal"),
        ("sandbox/check/landlock_abi", json!(0), "sandbox"),
    ];
    for (pointer, value, needle) in cases {
        let forged = iteration.clone().record(&format!("{body}/{pointer}"), value).commit(&env);
        crate::verify::refused(&env, pointer, &forged, needle);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_candidate_cannot_write_into_the_memory_of_what_judges_it() {
    if !crate::support::tool("python3") {
        return;
    }
    let env = TestEnv::new();
    numbers(&env, "echo 1 > src/a\n", "");
    let check = r#"python3 - <<'EOF'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
numbers = {"x86_64": (101, 310, 311), "aarch64": (117, 270, 271)}[os.uname().machine]
for name, number in zip(("ptrace", "readv", "writev"), numbers):
    result = libc.syscall(number, 16, os.getppid(), 0, 0, 0, 0) if name == "ptrace" else libc.syscall(number, os.getppid(), 0, 0, 0, 0, 0)
    print("ok" if result == -1 and ctypes.get_errno() == 1 else "fail", name)
EOF
if [ "$(cat src/a)" = 1 ]; then echo "ok a"; else echo "fail a"; bad=1; fi
echo "done 4"
exit ${bad:-0}
"#;
    env.write("check.sh", check);
    env.commit("A check that tries");
    env.git_loop(&["run", "fix", "--once", "--json"]);
    let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
    let check = &show["record"]["body"]["receipt"]["check"];
    assert_eq!(check["counts"]["passed"], 4, "{check}");
}

#[test]
fn a_report_whose_names_no_record_could_hold_ends_no_run_and_wins_nothing() {
    let env = TestEnv::new();
    // Of \x01, a name gets six times as long in JSON.
    let worker = "case \"$GIT_LOOP_ITERATION\" in 3) echo 1 > src/a ;; *) echo \"$GIT_LOOP_ITERATION\" > src/bloat ;; esac\n";
    numbers(&env, worker, "");
    let bloat = "awk 'BEGIN { s = \"\"; for (i = 0; i < 120; i++) s = s \"\\001\"; \
        for (i = 0; i < 36000; i++) printf \"fail %s%d\\n\", s, i; printf \"done %d\\n\", 36000 }'; exit 1";
    env.write(
        "check.sh",
        format!("if [ -e src/bloat ]; then {bloat}; fi\n{}", crate::support::scenario::CHECK),
    );
    env.commit("A check that the candidate makes talk");
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let show = |number: &str| env.git_loop(&["show", "fix", number, "--json"]).expect_code(0).json();
    for number in ["1", "2"] {
        let receipt = &show(number)["record"]["body"]["receipt"];
        assert_eq!(receipt["decision"]["outcome_reason"], "verifier_failed");
        assert_eq!(receipt["check"]["no_report"], "too_large");
        assert_eq!(receipt["abandoned"], json!(null));
    }
    assert_eq!(show("3")["record"]["body"]["receipt"]["decision"]["outcome_reason"], "metric_improved");
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn drift_of_more_paths_than_a_record_lists_is_drift_all_the_same() {
    let env = TestEnv::new();
    numbers(
        &env,
        "seq 1 250 | sed 's|.*|tests/new-&|' | xargs touch; seq 1 7 | sed 's|.*|other-&|' | xargs touch\n",
        "",
    );
    env.git_loop(&["run", "fix"]).expect_code(13);
    let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
    let receipt = &show["record"]["body"]["receipt"];
    assert_eq!(receipt["decision"]["outcome_reason"], "verifier_drift");
    let guards = &receipt["guards"];
    assert_eq!(guards["drift"].as_array().unwrap().len(), 200);
    assert_eq!(guards["outside"].as_array().unwrap().len(), 200);
    let more = json!({ "drift": 50, "blocked": 0, "tampered": 0, "left_out": 0, "outside": 57 });
    assert_eq!(guards["more"], more);
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn a_reservation_is_charged_for_what_was_abandoned_only_and_never_less_than_it() {
    if !crate::support::tool("ssh-keygen") {
        return;
    }
    let env = TestEnv::new();
    crate::support::crash::paid(&env);
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let tip = env.git(&["rev-parse", "refs/loops/fix/ledger"]);
    // What was reported, and is passed off for a guess: neither the next reservation nor an anomaly would know of it.
    let forged = crate::verify::Forge::read(&env, &tip)
        .record("/body/receipt/cost/basis", json!("reserved"))
        .state("/counters/largest_usd", json!("0.000000"))
        .state("/counters/costs", json!({ "known": 0, "sum": "0.000000", "squares": "0" }))
        .commit(&env);
    crate::verify::refused(&env, "a reservation of an iteration that ended", &forged, "receipt.abandoned");
    env.git(&["update-ref", "refs/loops/fix/ledger", &tip]);
    env.git_loop(&["checkpoint", "fix"]).expect_code(0);
    env.git_loop(&["checkpoint", "fix", "--abandon"]).expect_code(0);
    let tip = env.git(&["rev-parse", "refs/loops/fix/ledger"]);
    let abandoned = crate::verify::Forge::read(&env, &tip);
    assert_eq!(abandoned.json("record.json")["body"]["receipt"]["cost"]["usd"], "0.250000");
    let forged = abandoned
        .record("/body/receipt/cost/usd", json!("0.249999"))
        .state("/cumulative_usd", json!("0.499999"))
        .commit(&env);
    crate::verify::refused(&env, "less than was reserved", &forged, "receipt.cost.usd");
    // No worker ran that could have reported that it was free.
    let forged = crate::verify::Forge::read(&env, &tip)
        .record("/body/receipt/cost/basis", json!("reported"))
        .record("/body/receipt/cost/usd", json!("0.000000"))
        .state("/cumulative_usd", json!("0.250000"))
        .state("/counters/costs/known", json!(2))
        .commit(&env);
    crate::verify::refused(&env, "free, and nobody to say so", &forged, "receipt.cost.basis");
}

#[test]
fn tokens_of_a_run_that_was_killed_count_against_their_limit() {
    use crate::support::crash;
    let env = TestEnv::new();
    crash::paid(&env);
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write("loop.toml", toml.replace("cost_usd = 2.0\n", "cost_usd = 2.0\ntokens = 20\n"));
    crash::run_killed(&env, &["run", "fix"], "cost:journalled", 1);
    // 15 that were noted, and 15 of the next iteration.
    let json = env.git_loop(&["run", "fix", "--json"]).expect_code(18).json();
    assert_eq!(json["halt_reason"], "budget_exceeded");
    let receipts = crash::receipts(&env);
    assert_eq!(receipts.len(), 2);
    let cost = &receipts[0]["cost"];
    assert_eq!((&cost["prompt_tokens"], &cost["completion_tokens"]), (&json!(10), &json!(5)));
    assert_eq!(cost["basis"], "reserved");
    env.git_loop(&["verify", "fix"]).expect_code(0);
}
