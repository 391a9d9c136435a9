//! The second verifier, `tests/independent/verify.py`, was written from the pages of the documentation alone: where it agrees with
//! `git loop verify`, the format is a format.

use serde_json::json;

use crate::support::scenario::{HONEST, numbers};
use crate::support::{TestEnv, tool};
use crate::verify::{Forge, converged};

/// What both verifiers say of every loop of the repository.
#[track_caller]
pub fn both(env: &TestEnv, code: i32, what: &str) {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/independent/verify.py");
    let mut command = env.command("python3", env.repo());
    command.args([program, "-C", env.repo().to_str().unwrap(), "--all", "--allowed-signers"]);
    let output = command.arg(env.trust_file()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{what}: {said}");
    env.git_loop(&["verify", "--all"]).expect_code(code);
}

fn have_tools() -> bool {
    tool("python3") && tool("ssh-keygen")
}

#[test]
fn the_second_verifier_agrees_on_what_is_right() {
    if !have_tools() {
        return;
    }
    let env = TestEnv::new();
    let worker = HONEST.replace("2) echo 2 > src/b", "2) echo 0 > src/a; echo 2 > src/b; echo 3 > src/c");
    numbers(&env, &worker, "");
    let key = env.key("ann");
    let ann = key.to_str().unwrap();
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write("loop.toml", toml.replace("iterations = 10", "iterations = 2"));
    env.git_loop(&["run", "fix"]).expect_code(12);
    env.git_loop(&["renew", "fix", "fix-2", "--limit", "iterations=9"]).expect_code(0);
    env.git_loop(&["run", "fix-2", "--once"]).expect_code(0);
    let add = ["finding", "fix-2", "add", "--severity", "block", "--message", "odd", "--key", ann, "--json"];
    let finding = env.git_loop(&add).expect_code(0).json()["record_id"].as_str().unwrap().to_owned();
    env.git_loop(&["run", "fix-2"]).expect_code(11);
    env.git_loop(&["finding", "fix-2", "resolve", &finding, "--message", "even", "--key", ann])
        .expect_code(0);
    env.git_loop(&["stop", "fix-2", "--key", ann]);
    env.git_loop(&["run", "fix-2", "--resume"]);
    both(&env, 0, "loops that were renewed, stopped and resumed");
    let done = TestEnv::new();
    converged(&done);
    let key = done.key("ann");
    done.git_loop(&["review", "fix", "--approve", "--key", key.to_str().unwrap()]).expect_code(0);
    done.git_loop(&["promote", "fix", "--key", key.to_str().unwrap()]).expect_code(0);
    both(&done, 0, "a promoted loop");
}

#[test]
fn the_second_verifier_refuses_what_the_first_does() {
    if !have_tools() {
        return;
    }
    let env = TestEnv::new();
    let records = converged(&env);
    let (iteration, halt) = (Forge::read(&env, &records[7]), Forge::read(&env, &records[8]));
    let forged = [
        (
            "a halt that nothing calls for",
            halt.clone().record("/body/halt_reason", json!("deadline_exceeded")),
        ),
        ("another state", halt.clone().state("/counters/accepted", json!(4))),
        ("another metric", iteration.clone().record("/body/receipt/check/metric", json!(1.0))),
        ("another decision", iteration.clone().record("/body/receipt/decision/improved", json!(false))),
        ("a failing set less", iteration.clone().state("/counters/failing_sets/count", json!(1))),
        ("a reviewer's key", halt.clone().with(|forge| forge.key = Some("ann".to_owned()))),
        ("no signature", halt.clone().with(|forge| forge.key = None)),
    ];
    for (what, forge) in forged {
        let forged = forge.commit(&env);
        env.git(&["update-ref", "refs/loops/fix/ledger", &forged]);
        both(&env, 20, what);
    }
}
