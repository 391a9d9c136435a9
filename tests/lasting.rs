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
    let paths: Vec<&str> = halt["body"]["packet"]["cited"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["path"].as_str().unwrap())
        .collect();
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

#[test]
fn evidence_that_is_missing_or_from_the_wrong_side_is_no_evidence() {
    let mut of_the_check = evidence();
    of_the_check["invariant_effect"] = json!("preserved");
    let mut short = evidence();
    short.as_object_mut().unwrap().remove("rollback_path");
    let steps = [
        ("echo 1 > src/a", Value::Null),
        ("echo 1 > src/a", of_the_check),
        ("echo 1 > src/a", short),
        ("echo 1 > src/a", evidence()),
        ("echo 2 > src/b", json!("x")),
    ];
    let env = started(
        &steps,
        &Terms { extra: "[sandbox]\nallowed = [\"landlock\", \"none\"]\n", ..Terms::default() },
    );
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    assert!(toml.contains("iterations = 10"));
    for _ in 0..5 {
        env.git_loop(&["run", "keep", "--once"]).expect_code(0);
    }
    let missing = "evidence_incomplete";
    assert_eq!(rows(&env, 5), [missing, missing, missing, "metric_improved", missing]);
    let told = receipt(&env, 2)["lasting"].clone();
    assert!(told["incomplete"].as_str().unwrap().contains("invariant_effect"), "{told}");
    assert_eq!((&told["invariants"], &told["independence"]), (&Value::Null, &Value::Null));
    assert!(receipt(&env, 3)["lasting"]["incomplete"].as_str().unwrap().contains("rollback_path"));
    // What was measured is there whatever decides.
    assert_eq!(told["delta"]["changed_lines"], 2);
    env.git_loop(&["verify", "keep"]).expect_code(0);
    let why = env.git_loop(&["show", "keep", "1", "--why"]).expect_code(0).stdout;
    assert!(why.contains("11 evidence_incomplete"), "{why}");
}

#[test]
fn a_verdict_of_the_check_counts_and_a_malformed_one_is_no_verdict() {
    // The check says what src/say holds, as its verdict.
    let env = TestEnv::new();
    let say = |word: &str| format!("echo '{word}' > src/say; echo 1 > src/a");
    let verdict = |member: &str| say(&format!("{{{member}}}")).leak() as &'static str;
    let delta = r#""complexity_delta": {"fallback_branches": 0, "dependencies": 1, "public_interfaces": 0, "cyclomatic_complexity": 0, "changed_lines": 0}"#;
    let steps: Vec<Step> = vec![
        (verdict(r#""semantic_changes": []"#), evidence()),
        (verdict(r#""invariant_effect": "unknown", "invariant_evidence": "who knows""#), evidence()),
        (verdict(r#""invariant_effect": "local_defense_added""#), evidence()),
        (verdict(delta), evidence()),
        (verdict(r#""invariant_effect": "preserved", "observed_effect": "one number""#), evidence()),
    ];
    prepared(&env, &steps, &Terms { defenses: 3, extra: "", ..Terms::default() });
    env.write("check.sh", format!("[ ! -e src/say ] || cat src/say > \"$GIT_LOOP_VERDICT\"\n{CHECK}"));
    env.commit("A check that speaks");
    start(&env).expect_code(0);
    for _ in 0..5 {
        env.git_loop(&["run", "keep", "--once"]).expect_code(0);
    }
    assert_eq!(
        rows(&env, 5),
        [
            "verifier_failed",
            "invariant_effect_unknown",
            "local_defense_added",
            "complexity_budget_exceeded",
            "metric_improved"
        ]
    );
    let told = receipt(&env, 2)["lasting"].clone();
    assert_eq!(
        (&told["declared_effects"], &told["invariants"][0]["effect"]),
        (&json!(["unknown"]), &json!("unknown"))
    );
    assert_eq!(told["invariants"][0]["command"]["passed"], true);
    assert_eq!(told["independence"], Value::Null);
    assert_eq!(receipt(&env, 3)["lasting"]["invariants"][0]["effect"], "local_defense_added");
    // The larger of what was declared and what was measured counts.
    let told = receipt(&env, 4)["lasting"].clone();
    assert_eq!((&told["delta"]["dependencies"], &told["delta"]["changed_lines"]), (&json!(1), &json!(3)));
    assert_eq!(state(&env)["counters"]["local_defenses"], 1);
    env.git_loop(&["verify", "keep"]).expect_code(0);
}

#[test]
fn a_change_of_meaning_must_be_declared_and_allowed() {
    let declaring = |changes: Value| {
        let mut evidence = evidence();
        evidence["semantic_changes"] = changes;
        evidence
    };
    let steps = [
        ("echo 1 > src/a", declaring(json!(["the names"]))),
        ("echo 1 > src/a", declaring(json!(["the numbers", "The numbers"]))),
        ("echo 1 > src/a", declaring(json!(["their order", "the numbers"]))),
    ];
    let env = started(&steps, &Terms::default());
    for _ in 0..3 {
        env.git_loop(&["run", "keep", "--once"]).expect_code(0);
    }
    let no = "semantic_change_not_allowed";
    assert_eq!(rows(&env, 3), [no, no, "metric_improved"]);
    env.git_loop(&["verify", "keep"]).expect_code(0);
}

#[test]
fn an_invariant_that_breaks_rejects_and_one_that_is_mended_is_strengthened() {
    let terms = Terms {
        invariants: r#"[{ name = "c is there", command = "test -s src/c" }, { name = "a is one", command = ["grep", "-q", "1", "src/a"] }]"#,
        ..Terms::default()
    };
    let steps = [
        ("echo 2 > src/b", evidence()),
        ("echo 1 > src/a; rm src/c", evidence()),
        ("echo 1 > src/a", evidence()),
    ];
    let env = started(&steps, &terms);
    for _ in 0..3 {
        env.git_loop(&["run", "keep", "--once"]).expect_code(0);
    }
    let broken = "invariant_effect_unknown";
    assert_eq!(rows(&env, 3), [broken, broken, "metric_improved"]);
    let effects = |iteration| -> Vec<Value> {
        let told = receipt(&env, iteration);
        told["lasting"]["invariants"].as_array().unwrap().iter().map(|one| one["effect"].clone()).collect()
    };
    assert_eq!(effects(1), ["preserved", "broken"]);
    assert_eq!(effects(2), ["broken", "strengthened"]);
    assert_eq!(effects(3), ["preserved", "strengthened"]);
    assert_eq!(state(&env)["counters"]["lasting"]["failed_at_baseline"], json!(["a is one"]));
    // What a command printed that failed is kept.
    let names = env.git(&["ls-tree", "--name-only", "refs/loops/keep/ledger~3:evidence"]);
    assert!(names.contains("invariant-1.log"), "{names}");
    env.git_loop(&["verify", "keep"]).expect_code(0);
}

/// A program with a branch that hides a fault.
const DEFENSE: &str = "printf 'def read():\\n    try:\\n        return 1\\n    except Exception:\\n        return 0\\n' > src/code.py";

#[test]
fn a_measured_fallback_branch_is_a_local_defense_whatever_the_check_says() {
    let step = |more: &str| {
        format!("{DEFENSE}; echo '{{\"invariant_effect\": \"unknown\"}}' > src/say; {more}").leak()
            as &'static str
    };
    let env = TestEnv::new();
    let steps = [(step("echo 1 > src/a"), evidence()), (step("echo 2 > src/b"), evidence())];
    prepared(&env, &steps, &Terms::default());
    env.write("check.sh", format!("[ ! -e src/say ] || cat src/say > \"$GIT_LOOP_VERDICT\"\n{CHECK}"));
    env.commit("A check that speaks");
    start(&env).expect_code(0);
    // Rejected once, stopped at the limit.
    env.git_loop(&["run", "keep", "--once"]).expect_code(0);
    assert_eq!(rows(&env, 1), ["local_defense_added"]);
    let json = run(&env, 17, "local_defense_limit");
    assert_eq!(json["iteration_count"], 2);
    let second = receipt(&env, 2);
    assert_eq!(second["decision"]["outcome_reason"], "local_defense_added");
    assert_eq!(second["decision"]["reason"], "local_defense_limit");
    assert_eq!(second["lasting"]["measured"]["fallbacks_added"], 1);
    assert_eq!(second["lasting"]["invariants"][0]["effect"], "local_defense_added");
    assert_eq!(second["lasting"]["independence"], Value::Null);
    let state = state(&env);
    assert_eq!((&state["counters"]["local_defenses"], &state["status"]), (&json!(2), &json!("stopped")));
    let explained = env.git_loop(&["explain", "keep", "--json"]).expect_code(0).json();
    assert_eq!(explained["verdict"], "investigate");
    let why = env.git_loop(&["show", "keep", "2", "--why"]).expect_code(0).stdout;
    assert!(why.contains("local_defense_limit") && why.contains("14 local_defense_added"), "{why}");
}

#[test]
fn what_needs_a_network_or_a_provider_is_rejected_before_the_target_counts() {
    // Whatever reaches out, or finds a provider, fails.
    let terms = Terms {
        independence: r#"[{ name = "alone", command = "test -z \"$OPENAI_API_KEY\" && test -z \"$MODEL_TOKEN\" && test \"$PLAIN\" = 1 && ! grep -q network src/need" }]"#,
        extra: "\n[check.env]\nMODEL_TOKEN = \"x\"\nPLAIN = \"1\"\n",
        ..Terms::default()
    };
    let needs = format!("{ALL}; echo network > src/need").leak() as &'static str;
    let free = format!("{ALL}; echo nothing > src/need").leak() as &'static str;
    let steps = [(needs, with_packet(&packet())), (free, with_packet(&packet()))];
    let env = started(&steps, &terms);
    run(&env, 10, "success_condition_met");
    assert_eq!(rows(&env, 2), ["machine_independence_failed", "target_met"]);
    let told = receipt(&env, 1)["lasting"].clone();
    assert_eq!(told["independence"][0]["passed"], false);
    assert!(told["independence"][0]["sandbox"]["network"].as_str().unwrap().starts_with("none"), "{told}");
}

#[test]
fn accepted_growth_counts_against_the_budget() {
    let terms = Terms {
        budget: "fallback_branches = 0, dependencies = 0, public_interfaces = 1, cyclomatic_complexity = 50, changed_lines = 20",
        ..Terms::default()
    };
    let function = |name: &str| format!("printf 'def {name}():\\n    return 1\\n' > src/{name}.py");
    let both = format!("{}; {}; echo 1 > src/a", function("one"), function("two")).leak() as &'static str;
    let one = format!("{}; echo 1 > src/a", function("one")).leak() as &'static str;
    let two = format!("{}; echo 2 > src/b", function("two")).leak() as &'static str;
    let instead = format!("rm src/one.py; {}; echo 2 > src/b", function("two")).leak() as &'static str;
    let long = "seq 1 30 > src/long; echo 3 > src/c";
    let steps =
        [(both, evidence()), (one, evidence()), (two, evidence()), (instead, evidence()), (long, evidence())];
    let env = started(&steps, &terms);
    for _ in 0..5 {
        env.git_loop(&["run", "keep", "--once"]).expect_code(0);
    }
    let over = "complexity_budget_exceeded";
    assert_eq!(rows(&env, 5), [over, "metric_improved", over, "metric_improved", over]);
    let used = state(&env)["counters"]["lasting"]["complexity"].clone();
    assert_eq!((&used["public_interfaces"], &used["changed_lines"]), (&json!(1), &json!(10)), "{used}");
    let why = env.git_loop(&["show", "keep", "3", "--why"]).expect_code(0).stdout;
    assert!(why.contains("public interfaces, accepted ones and this candidate's: 2 > 1"), "{why}");
    env.git_loop(&["verify", "keep"]).expect_code(0);
}

#[test]
fn what_a_loop_has_grown_by_counts_in_its_renewal() {
    let terms = Terms {
        budget: "fallback_branches = 0, dependencies = 0, public_interfaces = 9, cyclomatic_complexity = 9, changed_lines = 10",
        ..Terms::default()
    };
    let env = started(&[("echo 1 > src/a; seq 1 6 > src/long", evidence())], &terms);
    env.git_loop(&["run", "keep", "--once"]).expect_code(0);
    let lead = env.key("lead");
    let lead = lead.to_str().unwrap();
    env.git_loop(&["stop", "keep", "--key", lead]).expect_code(0);
    env.git_loop(&["renew", "keep", "kept", "--key", lead]).expect_code(0);
    let terms: Value =
        serde_json::from_str(&env.git(&["cat-file", "blob", "refs/loops/kept/ledger:contract.json"]))
            .unwrap();
    assert_eq!(terms["renewal"]["complexity"]["changed_lines"], 8, "{terms}");
    // Two lines more are ten, and four would be too many.
    for (worker, reason) in [
        ("echo 2 > src/b; echo 3 > src/c", "complexity_budget_exceeded"),
        ("echo 2 > src/b", "metric_improved"),
    ] {
        let evidence = evidence();
        env.script(
            "worker.sh",
            &format!("{worker}\ncat > \"$GIT_LOOP_EVIDENCE\" <<'EVIDENCE'\n{evidence}\nEVIDENCE\n"),
        );
        env.git_loop(&["run", "kept", "--once"]).expect_code(0);
        let json = env.git_loop(&["show", "kept", "--json"]).expect_code(0).json();
        assert_eq!(json["record"]["body"]["receipt"]["decision"]["outcome_reason"], reason, "{json}");
    }
    env.git_loop(&["verify", "kept"]).expect_code(0);
    let records = env.git(&["rev-list", "--first-parent", "--reverse", "refs/loops/kept/ledger"]);
    let contract = records.lines().next().unwrap();
    env.git(&["update-ref", "refs/loops/kept/ledger", contract]);
    let mut forged = crate::verify::Forge::read(&env, contract)
        .contract("/renewal/complexity/changed_lines", json!(1))
        .state("/counters/lasting/complexity/changed_lines", json!(1));
    forged.key = Some("lead".to_owned());
    env.git(&["update-ref", "refs/loops/kept/ledger", &forged.commit(&env)]);
    let output = env.git_loop(&["verify", "kept"]).expect_code(20);
    assert!(output.stdout.contains("renewal"), "{output:?}");
}

#[test]
fn growth_that_is_hidden_from_the_measure_is_found() {
    let terms = Terms {
        budget: "fallback_branches = 0, dependencies = 0, public_interfaces = 9, cyclomatic_complexity = 3, changed_lines = 90000",
        ..Terms::default()
    };
    let grow = "printf 'def f(a):\\n    if a and a.b or a.c:\\n        return 1\\n    return 2\\n'";
    let hidden = |how: &str, target: &str| format!("{grow} > src/{how}; {target}").leak() as &'static str;
    let steps = [
        // A NUL makes it no text for git.
        (hidden("x.py; printf '# \\0\\n' >> src/x.py", "echo 1 > src/a"), evidence()),
        // So large that it is not parsed.
        (
            hidden("x.py; yes '# a comment of some length' | head -50000 >> src/x.py", "echo 1 > src/a"),
            evidence(),
        ),
        // An ending that is written otherwise, and none at all.
        (hidden("x.PY", "echo 1 > src/a"), evidence()),
        (
            format!("{{ echo '#!/usr/bin/python3'; {grow}; }} > src/x; echo 1 > src/a").leak()
                as &'static str,
            evidence(),
        ),
        // A symlink is kept, and becomes a file in the next iteration.
        ("ln -s a src/x.py; echo 1 > src/a", evidence()),
        (hidden("y.py; rm src/x.py; mv src/y.py src/x.py", "echo 2 > src/b"), evidence()),
    ];
    let env = started(&steps, &terms);
    for _ in 0..6 {
        env.git_loop(&["run", "keep", "--once"]).expect_code(0);
    }
    let over = "complexity_budget_exceeded";
    assert_eq!(rows(&env, 6), [over, over, over, over, "metric_improved", over]);
    assert_eq!(receipt(&env, 2)["lasting"]["measured"]["unmeasurable"], 1);
    let why = env.git_loop(&["show", "keep", "2", "--why"]).expect_code(0).stdout;
    assert!(why.contains("changed files that should be measured and cannot be: 1 > 0"), "{why}");
    env.git_loop(&["verify", "keep"]).expect_code(0);
}

#[test]
fn a_target_without_a_packet_is_kept_and_not_reached() {
    let mut wrong = packet();
    wrong["owning_invariant"] = json!("another one");
    let steps = [
        (ALL, evidence()),
        // Nothing is changed and no packet is brought.
        ("true", evidence()),
        ("true", with_packet(&wrong)),
        ("echo x > src/d", evidence()),
        ("true", with_packet(&packet())),
    ];
    let env = started(&steps, &Terms::default());
    env.git_loop(&["run", "keep", "--once"]).expect_code(0);
    let state_then = state(&env);
    assert_eq!((&state_then["status"], &state_then["halt_reason"]), (&json!("active"), &Value::Null));
    assert_eq!(state_then["counters"]["lasting"]["awaiting_packet"], true);
    let head = env.git(&["rev-parse", "refs/loops/keep/head"]);
    assert_eq!(receipt(&env, 1)["candidate"], head.as_str(), "it is kept");
    let context = env.git(&["cat-file", "blob", "refs/loops/keep/ledger:evidence/context.md"]);
    assert!(
        context.contains("promotion_packet")
            && !context.contains("only a valid `promotion_packet` is missing")
    );
    run(&env, 10, "success_condition_met");
    let invalid = "promotion_packet_invalid";
    assert_eq!(rows(&env, 5), ["packet_missing", "no_change", invalid, invalid, "target_met"]);
    assert_eq!(receipt(&env, 1)["decision"]["outcome"], "accept");
    assert!(receipt(&env, 3)["lasting"]["packet_problem"].as_str().unwrap().contains("another one"));
    let context = env.git(&["cat-file", "blob", "refs/loops/keep/ledger~1:evidence/context.md"]);
    assert!(context.contains("only a valid `promotion_packet` is missing"), "{context}");
    assert_eq!(receipt(&env, 5)["candidate_tree"], receipt(&env, 1)["candidate_tree"]);
    // Whoever goes on from it brings a packet for the new terms.
    let (lead, id) = (env.key("lead"), "keep-2");
    env.git_loop(&["renew", "keep", id, "--key", lead.to_str().unwrap()]).expect_code(0);
    env.git_loop(&["run", id]).expect_code(10);
    let told = env.git_loop(&["show", id, "1", "--json"]).expect_code(0).json();
    // The worker of the parent's first iteration brings none, and changes nothing.
    assert_eq!(told["record"]["body"]["receipt"]["decision"]["outcome_reason"], "no_change");
    env.git_loop(&["verify", "--all"]).expect_code(0);
}

#[test]
fn citations_and_documents_are_those_of_the_candidate() {
    use std::os::unix::fs::symlink;
    let with = |field: &str, value: Value| {
        let mut packet = packet();
        packet[field] = value;
        with_packet(&packet)
    };
    let bad = [
        ("code_citations", json!(["../x:1"]), "../x"),
        ("code_citations", json!(["/src/a:1"]), "/src/a"),
        ("code_citations", json!(["src/a:2"]), "past the end"),
        ("code_citations", json!(["src/a:1", "src/a:1-2"]), "past the end"),
        ("code_citations", json!(["src/link:1"]), "symlink"),
        ("test_citations", json!(["links/expected:1"]), "symlink"),
        ("test_citations", json!(["tests:1"]), "folder"),
        ("test_citations", json!(["tests/missing:1"]), "not in the candidate"),
        ("test_citations", json!([]), "test_citations"),
        ("documentation_paths", json!(["docs/how.md"]), "not in the candidate"),
        ("documentation_paths", json!(["src"]), "folder"),
        ("documentation_paths", json!(["src/link"]), "symlink"),
    ];
    let mut steps: Vec<Step> = vec![(ALL, evidence())];
    steps.extend(bad.iter().map(|(field, value, _)| ("true", with(field, value.clone()))));
    steps.push(("true", with("documentation_paths", json!(["README", "src/c"]))));
    let env = TestEnv::new();
    env.write("src/file", "x\n");
    symlink("file", env.repo().join("src/link")).unwrap();
    symlink("tests", env.repo().join("links")).unwrap();
    prepared(&env, &steps, &Terms::default());
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write(
        "loop.toml",
        toml.replace("iterations = 10", "iterations = 20")
            .replace("no_progress = 5", "no_progress = 20")
            .replace("[limits]\n", "[limits]\noscillation_limit = 20\n"),
    );
    start(&env).expect_code(0);
    run(&env, 10, "success_condition_met");
    for (number, (field, value, why)) in (2..).zip(&bad) {
        let told = receipt(&env, number);
        assert_eq!(told["decision"]["outcome_reason"], "promotion_packet_invalid", "{field} {value}");
        let problem = told["lasting"]["packet_problem"].as_str().unwrap();
        assert!(problem.contains(field) && problem.contains(why), "{field} {value}: {problem}");
    }
    let last = u32::try_from(bad.len()).unwrap() + 2;
    assert_eq!(receipt(&env, last)["decision"]["outcome_reason"], "target_met");
}

#[test]
fn terms_that_cannot_be_kept_are_refused_at_the_start() {
    let env = TestEnv::new();
    prepared(&env, &[("true", evidence())], &Terms::default());
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    for (old, new, needle) in [
        ("format = \"lines\"", "format = \"none\"\nexternal = true", "check.external"),
        ("class = \"lasting_code\"", "class = \"lasting_codes\"", "lasting_codes"),
        ("local_defense_limit = 2\n", "", "local_defense_limit"),
        ("human_promotion_required = true", "human_promotion_required = false", "human_promotion_required"),
    ] {
        assert!(toml.contains(old), "{old}");
        env.write("loop.toml", toml.replace(old, new));
        start(&env).expect_code(129).expect_stderr(needle);
    }
    // A program that is missing is told before anybody is paid.
    let missing = toml.replace("[\"sh\", \"-c\", \"test -e src/a\"]", "[\"no-such-program\"]");
    assert_ne!(missing, toml);
    env.write("loop.toml", missing);
    start(&env).expect_code(0);
    let said = env.git_loop(&["run", "keep"]).expect_code(30);
    assert!(
        said.stderr.contains("no-such-program") && said.stderr.contains("machine-independence"),
        "{said:?}"
    );
}

/// Ledgers that somebody changed after they were signed anew: both verifiers find out, but for what only one can measure.
#[test]
fn what_is_told_of_lasting_code_must_follow() {
    use crate::verify::Forge;
    let env = started(&[("echo 1 > src/a", evidence()), (ALL, with_packet(&packet()))], &Terms::default());
    run(&env, 10, "success_condition_met");
    let tip = env.git(&["rev-parse", "refs/loops/keep/ledger"]);
    let iteration = env.git(&["rev-parse", "refs/loops/keep/ledger~1"]);
    let baseline = env.git(&["rev-list", "--first-parent", "--reverse", "refs/loops/keep/ledger"]);
    let baseline = baseline.lines().nth(1).unwrap().to_owned();
    let lasting = "/body/receipt/lasting";
    let at = |member: &str| format!("{lasting}/{member}");
    let mut forged = vec![
        ("no packet at the halt", Forge::read(&env, &tip).record("/body/packet", Value::Null)),
        (
            "another packet",
            Forge::read(&env, &tip).record("/body/packet/packet/changed_behavior", json!("none")),
        ),
        ("another blob", Forge::read(&env, &tip).record("/body/packet/cited/0/id", json!("0".repeat(40)))),
        (
            "invariants on the base that fail",
            Forge::read(&env, &baseline).record("/body/invariants/0/passed", json!(false)),
        ),
        ("no invariants on the base", Forge::read(&env, &baseline).record("/body/invariants", Value::Null)),
    ];
    for (member, value) in [
        ("incomplete", json!("x")),
        ("semantic_changes", json!([])),
        ("declared_effects", json!(["preserved"])),
        (
            "declared_delta",
            json!({ "fallback_branches": 0, "dependencies": 0, "public_interfaces": 0, "cyclomatic_complexity": 0, "changed_lines": 0 }),
        ),
        ("delta/changed_lines", json!(1)),
        ("invariants/0/effect", json!("strengthened")),
        ("invariants/0/command/passed", json!(false)),
        ("invariants/0/command/name", json!("another")),
        ("invariants/0/command/run/command/2", json!("true")),
        ("invariants", Value::Null),
        ("independence/0/frozen_changed", json!(true)),
        ("independence/0/sandbox/network", json!("host")),
        ("independence", Value::Null),
        ("packet", Value::Null),
        ("packet/cited/0/path", json!("README2")),
        ("packet_problem", json!("x")),
        ("measured/not_measured", json!([])),
        ("measured/measure", json!(2)),
    ] {
        forged.push((member, Forge::read(&env, &iteration).record(&at(member), value)));
    }
    forged.push(("no word of it", Forge::read(&env, &iteration).record(lasting, Value::Null)));
    forged.push((
        "complexity",
        Forge::read(&env, &iteration).state("/counters/lasting/complexity/changed_lines", json!(0)),
    ));
    for (what, forge) in forged {
        env.git(&["update-ref", "refs/loops/keep/ledger", &forge.commit(&env)]);
        let output = env.git_loop(&["verify", "keep"]);
        assert_eq!(output.code, 20, "{what}: {output:?}");
    }
    // More paths that should be measured than are not.
    let read = || Forge::read(&env, &iteration);
    let mut told = read().json("record.json")["body"]["receipt"]["lasting"]["measured"].clone();
    let members = told.as_object_mut().unwrap();
    let rest = ["unmeasured", "not_measured"].map(|name| (name.to_owned(), members.remove(name).unwrap()));
    members.insert("unmeasurable".to_owned(), json!(1));
    members.extend(rest);
    env.git(&["update-ref", "refs/loops/keep/ledger", &read().record(&at("measured"), told).commit(&env)]);
    env.git_loop(&["verify", "keep"]).expect_code(20);
    // What was measured is measured again by who can; `-q` is not compared with the second verifier, which cannot.
    let measured = Forge::read(&env, &iteration).record(&at("measured/fallbacks_added"), json!(1));
    env.git(&["update-ref", "refs/loops/keep/ledger", &measured.commit(&env)]);
    let output = env.git_loop(&["verify", "keep", "-q"]).expect_code(20);
    assert!(output.stdout.contains("measured"), "{output:?}");
    // Nor does anybody vouch for it.
    let reviewer = env.key("reviewer");
    let review = ["review", "keep", "--approve", "--key", reviewer.to_str().unwrap()];
    let output = env.git_loop(&review).expect_code(20);
    assert!(output.stderr.contains("measured"), "{output:?}");
    env.git(&["update-ref", "refs/loops/keep/ledger", &tip]);
    env.git_loop(&["verify", "keep"]).expect_code(0);
}

#[test]
fn an_orchestrator_brings_the_same_evidence() {
    let env = started(&[("true", evidence())], &Terms::default());
    let announced = env.git_loop(&["checkpoint", "keep", "--json"]).expect_code(0).json();
    let base = announced["base"].as_str().unwrap().to_owned();
    env.git(&["switch", "--quiet", "-c", "work", &base]);
    for (name, number) in [("a", 1), ("b", 2), ("c", 3)] {
        env.write(&format!("src/{name}"), format!("{number}\n"));
    }
    env.commit("Mended");
    let file = env.root().join("evidence.json");
    std::fs::write(&file, with_packet(&packet()).to_string()).unwrap();
    let environment = announced["environment_id"].as_str().unwrap();
    env.git_loop(&[
        "record",
        "keep",
        "--candidate",
        "work",
        "--environment",
        environment,
        "--evidence",
        file.to_str().unwrap(),
    ])
    .expect_code(10);
    assert_eq!(rows(&env, 1), ["target_met"]);
    env.git_loop(&["verify", "keep"]).expect_code(0);
}
