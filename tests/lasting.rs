//! Loops of `lasting_code` with real checks: every row from 11 to 18, and what they count.

use serde_json::{Value, json};

use crate::support::scenario::{CHECK, loop_toml};
use crate::support::{Output, TestEnv};

/// The terms of a loop; each test changes what it is about.
pub struct Terms {
    pub invariants: &'static str,
    pub independence: &'static str,
    pub budget: &'static str,
    pub defenses: u32,
    pub extra: &'static str,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            invariants: r#"[{ name = "the check is there", command = ["sh", "-c", "test -e check.sh"] }]"#,
            independence: r#"[{ name = "numbers", command = ["sh", "-c", "test -e src/a"] }]"#,
            budget: "fallback_branches = 0, dependencies = 0, public_interfaces = 5, cyclomatic_complexity = 5, changed_lines = 40",
            defenses: 2,
            extra: "",
        }
    }
}

/// What a worker brings that leaves nothing to be desired.
pub fn evidence() -> Value {
    json!({
        "hypothesis": "the number is wrong", "mechanism": "it is put right", "documentation_impact": "none",
        "summary": "one number", "call_graph": ["check.sh reads src/a"], "diagnosis_path": "sh check.sh",
        "rollback_path": "git revert", "maintenance_without_model": "it is one number in one file",
        "semantic_changes": ["the numbers"],
    })
}

/// A packet that fits the candidate.
pub fn packet() -> Value {
    json!({
        "worker_identity": { "agent_id": "scripted", "provider": null, "model": null },
        "changed_behavior": "three numbers", "owning_invariant": "the check is there",
        "bad_state_made_impossible": "a wrong number", "fallbacks_removed": [], "affected_interfaces": [],
        "code_citations": ["src/a:1"], "test_citations": ["tests/expected:1-3"], "test_commands": ["sh check.sh"],
        "build_commands": ["true"], "diagnosis_commands": ["sh check.sh"], "rollback_commands": ["git revert HEAD"],
        "documentation_paths": ["README"],
    })
}

/// The evidence with this packet.
pub fn with_packet(packet: &Value) -> Value {
    let mut evidence = evidence();
    evidence["promotion_packet"] = packet.clone();
    evidence
}

/// What one iteration does: a line of shell, and what it writes as evidence.
type Step = (&'static str, Value);

/// A repository and a started loop `keep` whose worker does these steps, the last one again and again.
#[track_caller]
pub fn started(steps: &[Step], terms: &Terms) -> TestEnv {
    let env = TestEnv::new();
    prepared(&env, steps, terms);
    start(&env).expect_code(0);
    env
}

pub fn prepared(env: &TestEnv, steps: &[Step], terms: &Terms) {
    use std::fmt::Write;
    for name in ["a", "b", "c"] {
        env.write(&format!("src/{name}"), "0\n");
    }
    env.write("tests/expected", "a 1\nb 2\nc 3\n");
    env.write("check.sh", CHECK);
    env.write("README", "a repository\n");
    env.commit("Begin");
    let mut worker = "case \"$GIT_LOOP_ITERATION\" in\n".to_owned();
    for (number, (step, evidence)) in (1..).zip(steps) {
        let pattern = if number == steps.len() { "*".to_owned() } else { number.to_string() };
        let write = if evidence.is_null() {
            String::new()
        } else {
            format!("cat > \"$GIT_LOOP_EVIDENCE\" <<'EVIDENCE'\n{evidence}\nEVIDENCE\n")
        };
        writeln!(worker, "  {pattern}) {step}\n{write} ;;").unwrap();
    }
    worker.push_str("esac\n");
    let script = env.script("worker.sh", &worker);
    let Terms { invariants, independence, budget, defenses, extra } = terms;
    let class = format!(
        "class = \"lasting_code\"\ninvariant_boundaries = {invariants}\nallowed_semantic_changes = [\"the numbers\", \"their order\"]\n\
         forbidden_semantic_changes = [\"the names\"]\nmachine_independence_requirements = {independence}\nreview_risk = \"standard\"\n\
         required_review_personas = [\"maintainer\"]\ncomplexity_budget = {{ {budget} }}\nlocal_defense_limit = {defenses}\n\
         human_promotion_required = true\n"
    );
    let roles = format!("{extra}\n[roles]\nrunner = [\"runner@example.org\"]\n");
    let toml = loop_toml(&script, &roles).replace("class = \"mechanical_transformation\"\n", &class);
    env.write("loop.toml", toml.replace("no_progress = 3", "no_progress = 5"));
    std::fs::write(env.repo().join(".git/info/exclude"), "loop.toml\n").unwrap();
}

pub fn start(env: &TestEnv) -> Output {
    let lead = env.key("lead");
    env.git_loop(&["start", "keep", "--key", lead.to_str().unwrap()])
}

/// The receipt of an iteration.
#[track_caller]
fn receipt(env: &TestEnv, iteration: u32) -> Value {
    let json = env.git_loop(&["show", "keep", &iteration.to_string(), "--json"]).expect_code(0).json();
    json["record"]["body"]["receipt"].clone()
}

/// `outcome_reason` of each of these iterations.
#[track_caller]
fn rows(env: &TestEnv, count: u32) -> Vec<String> {
    let row = |number| receipt(env, number)["decision"]["outcome_reason"].as_str().unwrap().to_owned();
    (1..=count).map(row).collect()
}

/// Runs the loop to its end, and has everything verified.
#[track_caller]
fn run(env: &TestEnv, code: i32, halt_reason: &str) -> Value {
    let json = env.git_loop(&["run", "keep", "--json"]).expect_code(code).json();
    assert_eq!(json["halt_reason"], halt_reason, "{json}");
    env.git_loop(&["verify", "keep"]).expect_code(0);
    json
}

fn state(env: &TestEnv) -> Value {
    let text = env.git(&["cat-file", "blob", "refs/loops/keep/ledger:.loop_state.json"]);
    serde_json::from_str(&text).unwrap()
}

const ALL: &str = "echo 1 > src/a; echo 2 > src/b; echo 3 > src/c";

#[test]
fn with_everything_there_the_target_is_reached_and_the_packet_frozen() {
    let env = started(&[("echo 1 > src/a", evidence()), (ALL, with_packet(&packet()))], &Terms::default());
    run(&env, 10, "success_condition_met");
    assert_eq!(rows(&env, 2), ["metric_improved", "target_met"]);
    let told = receipt(&env, 2)["lasting"].clone();
    assert_eq!(told["incomplete"], Value::Null);
    assert_eq!(told["invariants"][0]["effect"], "preserved");
    assert_eq!(told["independence"][0]["passed"], true);
    assert_eq!(told["delta"]["changed_lines"], 4);
    assert_eq!(told["measured"]["measure"], 1);
    // The blobs of what is cited are in the halt record, and are those of green.
    let halt = env.git(&["cat-file", "blob", "refs/loops/keep/ledger:record.json"]);
    let halt: Value = serde_json::from_str(&halt).unwrap();
    assert_eq!(halt["kind"], "halt");
    assert_eq!(halt["body"]["packet"]["packet"], packet());
    let paths: Vec<&str> =
        halt["body"]["packet"]["cited"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["README", "src/a", "tests/expected"]);
    for one in halt["body"]["packet"]["cited"].as_array().unwrap() {
        let path = format!("refs/loops/keep/head:{}", one["path"].as_str().unwrap());
        assert_eq!(one["id"], env.git(&["rev-parse", &path]));
    }
    let state = state(&env);
    assert_eq!(state["status"], "awaiting_review");
    assert_eq!(state["counters"]["lasting"]["complexity"]["changed_lines"], 6);
    assert_eq!(state["counters"]["lasting"]["awaiting_packet"], false);
    let contract = env.git(&["cat-file", "blob", "refs/loops/keep/ledger:contract.json"]);
    assert_eq!(serde_json::from_str::<Value>(&contract).unwrap()["rules"], 2);
}
