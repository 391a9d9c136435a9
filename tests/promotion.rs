//! Review and promotion of lasting code: every condition of it with its own message, and one promotion with everything right.

use std::fs;

use serde_json::Value;

use crate::lasting::{Terms, packet, prepared, start, with_packet};
use crate::support::TestEnv;
use crate::verify::promote_by_hand;

const ALL: &str = "echo 1 > src/a; echo 2 > src/b; echo 3 > src/c";

const ATTESTATIONS: [&str; 5] = [
    "architecture_understandable",
    "complexity_proportional",
    "invariants_mechanical",
    "longevity_justified",
    "ownership_accepted",
];

/// What Claude Code prints at the end, which names its model.
fn claude(model: &str) -> String {
    format!(
        r#"{{"type":"result","subtype":"success","session_id":"s","total_cost_usd":0.01,"usage":{{"input_tokens":1,"output_tokens":1}},"modelUsage":{{"{model}":{{"inputTokens":1,"outputTokens":1,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.01}}}}}}"#
    )
}

/// A converged loop `keep` at this risk whose worker's output names `Worker-1`. The packet and the contract say otherwise.
fn converged(risk: &str) -> TestEnv {
    let env = TestEnv::new();
    let mut packet = packet();
    packet["worker_identity"]["model"] = "another".into();
    let step = format!("{ALL}; echo '{}'", claude("Worker-1")).leak() as &'static str;
    prepared(&env, &[(step, with_packet(&packet))], &Terms::default());
    let toml = fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let toml = toml
        .replace("\"standard\"", &format!("{risk:?}"))
        .replace(
            "usage = \"none\"",
            "usage = \"claude\"\nmodel = { provider = \"declared\", model_id = \"declared-1\" }",
        )
        .replace(
            "runner = [\"runner@example.org\"]",
            "runner = [\"runner@example.org\"]\npeople = [\"ann@example.org\"]",
        );
    env.write("loop.toml", toml);
    start(&env).expect_code(0);
    env.git_loop(&["run", "keep"]).expect_code(10);
    env
}

fn key(env: &TestEnv, name: &str) -> String {
    env.key(name).to_str().unwrap().to_owned()
}

/// An approval by `who`, with every attestation but these.
#[track_caller]
fn approve(env: &TestEnv, who: &str, without: &[&str], more: &[&str]) {
    let key = key(env, who);
    let mut args = vec!["review", "keep", "--approve", "--key", &key];
    for name in ATTESTATIONS.iter().filter(|name| !without.contains(name)) {
        args.extend(["--attest", name]);
    }
    args.extend(more);
    env.git_loop(&args).expect_code(0);
}

/// A promotion by ann that is refused, and why.
#[track_caller]
fn refused(env: &TestEnv, why: &str) {
    let ann = key(env, "ann");
    env.git_loop(&["promote", "keep", "--key", &ann]).expect_code(1).expect_stderr(why);
    let json = env.git_loop(&["promote", "keep", "--dry-run", "--json", "--key", &ann]).expect_code(1).json();
    assert_eq!(json["promotable"], false);
    let told = json["conditions"].as_array().unwrap();
    assert!(told.iter().any(|one| one["missing"].as_str().is_some_and(|text| text.contains(why))), "{json}");
    let tip = env.git(&["log", "-1", "--format=%s", "refs/loops/keep/ledger"]);
    if tip.starts_with("review: approved") && !why.starts_with("evidence") {
        // Made by hand it does not verify, and the second verifier says the same.
        let review = promote_by_hand(env);
        env.git_loop(&["verify", "keep"]).expect_code(20);
        env.git(&["update-ref", "refs/loops/keep/ledger", &review]);
    }
}

/// The agent `agent` with the model that its output names, recorded with lead's key.
#[track_caller]
fn reviewing_agent(env: &TestEnv, agent: &str, model: &str) -> String {
    let output = env.home().join("review.json");
    fs::write(&output, claude(model)).unwrap();
    let lead = key(env, "lead");
    let args =
        ["invocation", "keep", "--role", "reviewer", "--agent-id", agent, "--usage", "claude", "--output"];
    let args = [&args[..], &[output.to_str().unwrap(), "--key", &lead, "--json"]].concat();
    let json = env.git_loop(&args).expect_code(0).json();
    json["record_id"].as_str().unwrap().to_owned()
}

#[test]
fn with_everything_right_lasting_code_succeeds() {
    let env = converged("critical");
    refused(&env, "it has no approving review");
    approve(&env, "ann", &[], &["--persona", "maintainer"]);
    let ann = key(&env, "ann");
    let json = env.git_loop(&["promote", "keep", "--dry-run", "--json", "--key", &ann]).expect_code(0).json();
    assert_eq!(json["promotable"], true);
    assert!(json["conditions"].as_array().unwrap().iter().all(|one| one["met"] == true), "{json}");
    let output = env.git_loop(&["promote", "keep", "--dry-run", "--key", &ann]).expect_code(0);
    assert!(output.stdout.contains("yes  model_diversity\n"), "{output:?}");
    // Only a promoter who is a person promotes it.
    let lead = key(&env, "lead");
    env.git_loop(&["promote", "keep", "--key", &lead])
        .expect_code(1)
        .expect_stderr("a person promotes lasting code");
    let json = env.git_loop(&["promote", "keep", "--key", &ann, "--json"]).expect_code(0).json();
    assert_eq!(json["status"], "succeeded");
    env.git_loop(&["verify", "keep"]).expect_code(0);
    env.git_loop(&["review", "keep", "--reject", "--key", &ann]).expect_code(1);
}

#[test]
fn terms_under_which_nobody_could_promote_are_told_at_the_start() {
    let env = TestEnv::new();
    prepared(&env, &[("true", Value::Null)], &Terms::default());
    start(&env).expect_code(0).expect_stderr("no promoter is in roles.people");
    let env = converged("standard");
    let lead = key(&env, "lead");
    let output = env.git_loop(&["start", "other", "--key", &lead]).expect_code(0);
    assert!(!output.stderr.contains("nobody could"), "{output:?}");
}

#[test]
fn every_attestation_and_every_persona_is_asked_for() {
    let env = converged("standard");
    approve(&env, "ann", &ATTESTATIONS, &["--persona", "maintainer"]);
    refused(&env, "does not attest architecture_understandable, complexity_proportional");
    approve(
        &env,
        "ann",
        &["ownership_accepted"],
        &["--attest", "ownership_accepted=false", "--persona", "maintainer"],
    );
    refused(&env, "attests that these are false: ownership_accepted");
    approve(&env, "ann", &[], &["--persona", "security"]);
    refused(&env, "nobody reviewed it as maintainer");
    let ann = key(&env, "ann");
    env.git_loop(&["review", "keep", "--approve", "--attest", "all", "--key", &ann])
        .expect_code(129)
        .expect_stderr("is no attestation of lasting code");
    // A reviewer's last word counts.
    approve(&env, "ann", &[], &["--persona", "maintainer"]);
    env.git_loop(&["promote", "keep", "--key", &ann]).expect_code(0);
    env.git_loop(&["verify", "keep"]).expect_code(0);
}

#[test]
fn a_review_is_of_the_halt_that_is_promoted() {
    let env = converged("standard");
    let (ann, halt) = (key(&env, "ann"), env.git(&["rev-parse", "refs/loops/keep/ledger"]));
    let older = env.git(&["rev-parse", "refs/loops/keep/ledger~1"]);
    env.git_loop(&["review", "keep", "--approve", "--halt", &older, "--key", &ann])
        .expect_code(1)
        .expect_stderr("you looked at the halt record");
    env.git_loop(&["review", "keep", "--approve", "--halt", &halt, "--key", &ann]).expect_code(0);
}

#[test]
fn neither_the_workers_agent_nor_its_key_reviews_it() {
    let env = converged("standard");
    env.git_loop(&["review", "keep", "--approve"]).expect_code(1).expect_stderr("not a reviewer");
    // Not even if the trust file gives the runner's key a reviewer's name as well.
    let before = fs::read(env.trust_file()).unwrap();
    env.write_trust(&[
        ("runner", "runner@example.org"),
        ("runner", "ann@example.org"),
        ("lead", "lead@example.org"),
    ]);
    env.git_loop(&["review", "keep", "--approve"]).expect_code(1).expect_stderr("cannot review");
    fs::write(env.trust_file(), before).unwrap();
    // By neither person nor agent.
    approve(&env, "lead", &[], &["--persona", "maintainer"]);
    refused(
        &env,
        "lead@example.org is not in roles.people of the contract, and the review names no invocation",
    );
    let same = reviewing_agent(&env, "scripted", "other-1");
    approve(&env, "lead", &[], &["--persona", "maintainer", "--invocation", &same]);
    refused(&env, "the agent scripted worked on it and reviewed it");
    // An invocation that another key recorded is nobody else's.
    let ann = key(&env, "ann");
    env.git_loop(&["review", "keep", "--approve", "--invocation", &same, "--key", &ann])
        .expect_code(129)
        .expect_stderr("that this key recorded");
    let other = reviewing_agent(&env, "critic", "Worker-1");
    approve(&env, "lead", &[], &["--persona", "maintainer", "--invocation", &other]);
    env.git_loop(&["promote", "keep", "--key", &ann]).expect_code(0);
    env.git_loop(&["verify", "keep"]).expect_code(0);
}

#[test]
fn the_same_model_does_not_suffice_where_much_is_at_risk() {
    let env = converged("high");
    let run = reviewing_agent(&env, "critic", "WORKER-1");
    approve(&env, "lead", &[], &["--persona", "maintainer", "--invocation", &run]);
    refused(&env, "at risk high a reviewer has to have another model than the worker");
    let other = reviewing_agent(&env, "critic", "other-1");
    approve(&env, "lead", &[], &["--persona", "maintainer", "--invocation", &other]);
    let ann = key(&env, "ann");
    env.git_loop(&["promote", "keep", "--key", &ann]).expect_code(0);
    env.git_loop(&["verify", "keep"]).expect_code(0);

    let env = converged("critical");
    let run = reviewing_agent(&env, "critic", "worker-1");
    approve(&env, "lead", &[], &["--persona", "maintainer", "--invocation", &run]);
    approve(&env, "ann", &[], &[]);
    refused(&env, "at risk critical no reviewer may have the worker's model");
    // A model that is only assumed shows nothing.
    let lead = key(&env, "lead");
    let args = [
        "invocation",
        "keep",
        "--role",
        "reviewer",
        "--agent-id",
        "critic",
        "--provider",
        "p",
        "--model",
        "m",
    ];
    let json = env.git_loop(&[&args[..], &["--key", &lead, "--json"]].concat()).expect_code(0).json();
    assert_eq!((&json["model"], &json["assumed"]), (&Value::from("p/m"), &Value::from(true)));
    approve(
        &env,
        "lead",
        &[],
        &["--persona", "maintainer", "--invocation", json["record_id"].as_str().unwrap()],
    );
    refused(&env, "at risk critical no reviewer may have the worker's model");
    let run = reviewing_agent(&env, "critic", "other-1");
    approve(&env, "lead", &[], &["--persona", "maintainer", "--invocation", &run]);
    let ann = key(&env, "ann");
    env.git_loop(&["promote", "keep", "--key", &ann]).expect_code(0);
    env.git_loop(&["verify", "keep"]).expect_code(0);
}

#[test]
fn a_model_is_what_the_invocation_says_whatever_packet_and_contract_claim() {
    let env = converged("standard");
    let state = env.git(&["cat-file", "blob", "refs/loops/keep/ledger:.loop_state.json"]);
    let state: Value = serde_json::from_str(&state).unwrap();
    let workers = &state["agents"]["workers"];
    assert_eq!(workers.as_array().unwrap().len(), 1);
    assert_eq!(workers[0]["agent_id"], "scripted");
    assert_eq!(workers[0]["model"], "anthropic/worker-1");
    assert_eq!(workers[0]["assumed"], false);
    assert_eq!(state["agents"]["identified"], 1);
}

#[test]
fn one_rejection_ends_it_and_a_renewal_remembers_who_worked() {
    let env = converged("standard");
    let ann = key(&env, "ann");
    approve(&env, "ann", &[], &["--persona", "maintainer"]);
    env.git_loop(&["review", "keep", "--reject", "--comment", "no", "--key", &ann]).expect_code(16);
    env.git_loop(&["promote", "keep", "--key", &ann]).expect_code(1).expect_stderr("reviewer_rejected");
    let lead = key(&env, "lead");
    let json = env.git_loop(&["renew", "keep", "again", "--key", &lead, "--json"]).expect_code(0).json();
    assert_eq!(json["renewal"]["workers"][0]["model"], "anthropic/worker-1");
    assert_eq!(json["renewal"]["unidentified"], 0);
    env.git_loop(&["verify", "again"]).expect_code(0);
}

#[test]
fn evidence_that_is_gone_is_not_promoted() {
    let env = converged("standard");
    approve(&env, "ann", &[], &["--persona", "maintainer"]);
    let blob = env.git(&["rev-parse", "refs/loops/keep/head:README"]);
    let file = env.repo().join(".git/objects").join(&blob[..2]).join(&blob[2..]);
    let content = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    refused(&env, "evidence of the packet is not there any more: README");
    // Another content under the same name is no better.
    let other = env.git(&["rev-parse", "refs/loops/keep/head:tests/expected"]);
    let other = fs::read(env.repo().join(".git/objects").join(&other[..2]).join(&other[2..])).unwrap();
    fs::write(&file, other).unwrap();
    refused(&env, "evidence of the packet is not there any more: README");
    fs::remove_file(&file).unwrap();
    fs::write(&file, content).unwrap();
    let ann = key(&env, "ann");
    env.git_loop(&["promote", "keep", "--key", &ann]).expect_code(0);
}

/// A loop that an orchestrator drove, with these records between its checkpoint and its candidate.
fn driven(between: &[&str]) -> TestEnv {
    let env = TestEnv::new();
    prepared(&env, &[("true", Value::Null)], &Terms::default());
    let toml = fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let people = "runner = [\"runner@example.org\"]\npeople = [\"ann@example.org\"]";
    env.write("loop.toml", toml.replace("runner = [\"runner@example.org\"]", people));
    start(&env).expect_code(0);
    let announced = env.git_loop(&["checkpoint", "keep", "--json"]).expect_code(0).json();
    env.git(&["switch", "--quiet", "-c", "work", announced["base"].as_str().unwrap()]);
    for (name, number) in [("a", 1), ("b", 2), ("c", 3)] {
        env.write(&format!("src/{name}"), format!("{number}\n"));
    }
    env.commit("Mended");
    let file = env.root().join("evidence.json");
    fs::write(&file, with_packet(&packet()).to_string()).unwrap();
    if !between.is_empty() {
        env.git_loop(between).expect_code(0);
    }
    let environment = announced["environment_id"].as_str().unwrap();
    let args = ["record", "keep", "--candidate", "work", "--environment", environment, "--evidence"];
    env.git_loop(&[&args[..], &[file.to_str().unwrap()]].concat()).expect_code(10);
    env
}

#[test]
fn work_that_nobody_says_whose_it_is_is_not_promoted() {
    let env = driven(&[]);
    approve(&env, "ann", &[], &["--persona", "maintainer"]);
    refused(&env, "no invocation says which agent made 1 of the accepted candidates");
    let ann = key(&env, "ann");
    env.git_loop(&["review", "keep", "--reject", "--key", &ann]).expect_code(16);
    let lead = key(&env, "lead");
    let json = env.git_loop(&["renew", "keep", "again", "--key", &lead, "--json"]).expect_code(0).json();
    assert_eq!(json["renewal"]["unidentified"], 1);
    env.git_loop(&["verify", "again"]).expect_code(0);

    let args = [
        "invocation",
        "keep",
        "--role",
        "worker",
        "--agent-id",
        "outside",
        "--provider",
        "P",
        "--model",
        "M 1",
    ];
    let env = driven(&args);
    approve(&env, "ann", &[], &["--persona", "maintainer"]);
    env.git_loop(&["promote", "keep", "--key", &key(&env, "ann")]).expect_code(0);
    env.git_loop(&["verify", "keep"]).expect_code(0);
    env.git_loop(&args).expect_code(1).expect_stderr("no open checkpoint");
}

#[test]
fn a_form_in_the_editor_attests_what_was_written_and_nothing_else() {
    let mut env = converged("standard");
    let ann = key(&env, "ann");
    let page = env.git_loop(&["review", "keep"]).expect_code(0);
    for told in [
        "anthropic/worker-1",
        "owning invariant: the check is there",
        "--attest ownership_accepted",
        "changed_lines 6 of 40",
    ] {
        assert!(page.stdout.contains(told), "{told}: {page:?}");
    }
    // Saved as it is, it says nothing.
    env.set_env("GIT_EDITOR", "true");
    env.git_loop(&["review", "keep", "--edit", "--key", &ann]).expect_code(1).expect_stderr("has no verdict");
    let some = "verdict: approve\nattest: ownership_accepted\npersona: maintainer\ncomment: read it";
    let some = env.script("editor.sh", &format!("cat >> \"$1\" <<'FORM'\n{some}\nFORM\n"));
    env.set_env("GIT_EDITOR", &format!("sh {some}"));
    env.git_loop(&["review", "keep", "--edit", "--key", &ann])
        .expect_code(0)
        .expect_stderr("does not attest");
    refused(&env, "does not attest architecture_understandable");
    let all = format!("attest: {}\n", ATTESTATIONS.join("\nattest: "));
    let all = env.script(
        "editor.sh",
        &format!("cat >> \"$1\" <<'FORM'\nverdict: approve\npersona: maintainer\n{all}FORM\n"),
    );
    env.set_env("GIT_EDITOR", &format!("sh {all}"));
    env.git_loop(&["review", "keep", "--edit", "--key", &ann]).expect_code(0);
    env.git_loop(&["promote", "keep", "--key", &ann]).expect_code(0);
}
