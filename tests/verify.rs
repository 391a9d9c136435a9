//! Verification against forged ledgers: records made with stock git plumbing, correct and with one thing wrong.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::scenario::{HONEST, numbers};
use crate::support::{TestEnv, tool};

/// One record commit, taken apart so that any piece can be changed and the rest put together with stock git.
#[derive(Clone)]
pub struct Forge {
    files: BTreeMap<String, (String, Vec<u8>)>,
    pub parents: Vec<String>,
    message: String,
    author_date: String,
    committer_date: String,
    pub key: Option<String>,
}

impl Forge {
    pub fn read(env: &TestEnv, commit: &str) -> Self {
        let mut files = BTreeMap::new();
        for line in env.git(&["ls-tree", "-r", commit]).lines() {
            let (meta, path) = line.split_once('\t').unwrap();
            let mut meta = meta.split(' ');
            let (mode, _, id) = (meta.next().unwrap(), meta.next(), meta.next().unwrap());
            let content =
                env.command("git", env.repo()).args(["cat-file", "blob", id]).output().unwrap().stdout;
            files.insert(path.to_owned(), (mode.to_owned(), content));
        }
        let parents = env.git(&["log", "-1", "--format=%P", commit]);
        let raw = env.git(&["cat-file", "commit", commit]);
        let message = raw.split_once("\n\n").unwrap().1.to_owned() + "\n";
        let date = env.git(&["log", "-1", "--format=%at", commit]);
        Self {
            files,
            parents: parents.split_whitespace().map(ToOwned::to_owned).collect(),
            message,
            author_date: format!("{date} +0000"),
            committer_date: format!("{date} +0000"),
            key: Some("runner".to_owned()),
        }
    }

    pub fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.files[path].1).unwrap()
    }

    fn set_json(&mut self, path: &str, value: &Value) {
        let text = serde_json::to_string_pretty(value).unwrap() + "\n";
        self.files.get_mut(path).unwrap().1 = text.into_bytes();
    }

    /// Changes `record.json` at a JSON pointer.
    pub fn record(mut self, pointer: &str, value: Value) -> Self {
        let mut record = self.json("record.json");
        *record.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        self.set_json("record.json", &record);
        self
    }

    /// Changes `contract.json` at a JSON pointer.
    pub fn contract(mut self, pointer: &str, value: Value) -> Self {
        let mut contract = self.json("contract.json");
        *contract.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        self.set_json("contract.json", &contract);
        self
    }

    /// Changes `.loop_state.json` at a JSON pointer.
    pub fn state(mut self, pointer: &str, value: Value) -> Self {
        let mut state = self.json(".loop_state.json");
        *state.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        self.set_json(".loop_state.json", &state);
        self
    }

    fn replace(mut self, path: &str, from: &str, to: &str) -> Self {
        let content = String::from_utf8(self.files[path].1.clone()).unwrap();
        assert!(content.contains(from), "{path} has no {from:?}");
        self.files.get_mut(path).unwrap().1 = content.replacen(from, to, 1).into_bytes();
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Puts it together with `git hash-object`, an index of its own and `git commit-tree -S`.
    pub fn commit(&self, env: &TestEnv) -> String {
        let index = env.root().join("forge.index");
        let _ = std::fs::remove_file(&index);
        for (path, (mode, content)) in &self.files {
            let file = env.root().join("forge.blob");
            std::fs::write(&file, content).unwrap();
            let id = env.git(&["hash-object", "-w", "--no-filters", file.to_str().unwrap()]);
            let info = format!("{mode},{id},{path}");
            let output =
                env.run_command(env.command("git", env.repo()).env("GIT_INDEX_FILE", &index).args([
                    "update-index",
                    "--add",
                    "--cacheinfo",
                    &info,
                ]));
            assert_eq!(output.code, 0, "{output:?}");
        }
        let tree =
            env.run_command(env.command("git", env.repo()).env("GIT_INDEX_FILE", &index).arg("write-tree"));
        let message = env.root().join("forge.message");
        std::fs::write(&message, &self.message).unwrap();
        let mut command = env.command("git", env.repo());
        command.env("GIT_AUTHOR_DATE", &self.author_date).env("GIT_COMMITTER_DATE", &self.committer_date);
        command.args(["-c", "gpg.format=ssh"]);
        if let Some(key) = &self.key {
            command.arg("-c").arg(format!("user.signingkey={}", env.key(key).display()));
        }
        command.args(["commit-tree", "-F", message.to_str().unwrap()]);
        if self.key.is_some() {
            command.arg("-S");
        }
        for parent in &self.parents {
            command.args(["-p", parent]);
        }
        command.arg(tree.stdout.trim());
        let output = env.run_command(&mut command);
        assert_eq!(output.code, 0, "{output:?}");
        output.stdout.trim().to_owned()
    }
}

/// A converged loop `fix`; its ledger's records, the contract's first.
pub fn converged(env: &TestEnv) -> Vec<String> {
    numbers(env, HONEST, "");
    env.git_loop(&["run", "fix"]).expect_code(10);
    let list = env.git(&["rev-list", "--first-parent", "--reverse", "refs/loops/fix/ledger"]);
    list.lines().map(ToOwned::to_owned).collect()
}

#[track_caller]
pub fn refused(env: &TestEnv, what: &str, forged: &str, needle: &str) {
    env.git(&["update-ref", "refs/loops/fix/ledger", forged]);
    let output = env.git_loop(&["verify", "fix"]);
    assert_eq!(output.code, 20, "{what}: {output:?}");
    assert!(output.stdout.contains("record "), "{what}: names the record: {output:?}");
    assert!(output.stdout.contains(needle), "{what}: {needle:?} not in {}", output.stdout);
}

#[test]
fn a_record_made_with_stock_git_is_accepted_and_thirty_mutations_are_refused() {
    if !tool("ssh-keygen") {
        return;
    }
    let env = TestEnv::new();
    let records = converged(&env);
    let halt = Forge::read(&env, &records[8]);
    let iteration = Forge::read(&env, &records[7]);
    let checkpoint = Forge::read(&env, &records[6]);

    // Correct in every field, other author, other signature bytes.
    for forge in [&halt, &iteration, &checkpoint] {
        let forged = forge.commit(&env);
        env.git(&["update-ref", "refs/loops/fix/ledger", &forged]);
        env.git_loop(&["verify", "fix"]).expect_code(0);
    }
    // The wording of a validly signed STATUS.md is nobody's business.
    let reworded = halt.clone().replace("STATUS.md", "Loop fix", "Loop fix (reworded)").commit(&env);
    env.git(&["update-ref", "refs/loops/fix/ledger", &reworded]);
    env.git_loop(&["verify", "fix"]).expect_code(0);

    let zero = "0".repeat(40);
    let mut mutations: Vec<(&str, Forge, &str)> = Vec::new();
    let mut add =
        |what: &'static str, forge: Forge, needle: &'static str| mutations.push((what, forge, needle));
    // Signature and signer.
    add("unsigned", halt.clone().with(|forge| forge.key = None), "not signed");
    add("a reviewer's key", halt.clone().with(|forge| forge.key = Some("ann".to_owned())), "signed by");
    add(
        "a key nobody knows",
        halt.clone().with(|forge| forge.key = Some("stranger".to_owned())),
        "signed by",
    );
    env.make_key("stranger");
    let stranger = ssh_key::PublicKey::from_openssh(&env.public_key("stranger")).unwrap();
    let stranger = stranger.fingerprint(ssh_key::HashAlg::Sha256).to_string();
    add(
        "a key nobody knows, named in the record",
        halt.clone()
            .record("/actor/key", json!(stranger))
            .with(|forge| forge.key = Some("stranger".to_owned())),
        "signer",
    );
    add("another principal", halt.clone().record("/actor/principal", json!("ann@example.org")), "signer");
    add("a role that may not", halt.clone().record("/actor/role", json!("reviewer")), "role");
    add("a role that the signer lacks", halt.clone().record("/actor/role", json!("approver")), "role");
    // What becomes part of a path, and of a message, on somebody's machine.
    for (what, id) in [
        ("a path for an environment", "/tmp/x"),
        ("a line more for one", "x\nLoop-Promoted: yes"),
        ("no environment", ""),
    ] {
        add(what, checkpoint.clone().record("/body/environment_id", json!(id)), "environment_id");
    }
    // Evidence that is said to be cut, or has another size.
    let files = iteration.json("record.json")["body"]["evidence"].as_array().unwrap().clone();
    let report = files.iter().position(|file| file["name"] == "report").unwrap();
    let of_report = |field: &str| format!("/body/evidence/{report}/{field}");
    let cut = iteration.clone().record(&of_report("truncated"), json!(true));
    add("a cut report", cut, "evidence.truncated");
    add("another size", iteration.clone().record(&of_report("bytes"), json!(1)), "evidence.bytes");
    // Position.
    add("another loop", halt.clone().record("/loop", json!("fox")), "loop");
    add("another contract", halt.clone().record("/contract", json!(zero)), "contract");
    add("another seq", halt.clone().record("/seq", json!(9)), "seq");
    add("another prev", halt.clone().record("/prev", json!(zero)), "prev");
    add("a null prev", halt.clone().record("/prev", json!(null)), "prev");
    add("another parent", halt.clone().with(|forge| forge.parents = vec![records[6].clone()]), "");
    add("one parent more", halt.clone().with(|forge| forge.parents.push(records[0].clone())), "parents");
    add("a lost candidate", iteration.clone().with(|forge| forge.parents.truncate(1)), "parents");
    add(
        "a skipped record",
        halt.clone().record("/seq", json!(7)).with(|forge| forge.parents = vec![records[6].clone()]),
        "",
    );
    // Time.
    add("another time", halt.clone().record("/at", json!("2026-01-01T00:00:00Z")), "date");
    add("time with a fraction", halt.clone().record("/at", json!("2026-01-01T00:00:00.0Z")), "record.json");
    add(
        "another author date",
        halt.clone().with(|forge| forge.author_date = "1790000000 +0000".to_owned()),
        "date",
    );
    add(
        "another offset",
        halt.clone().with(|forge| forge.committer_date = forge.committer_date.replace("+0000", "+0100")),
        "date",
    );
    add(
        "the past",
        halt.clone().record("/at", json!("2020-01-01T00:00:00Z")).with(|forge| {
            forge.author_date = "1577836800 +0000".to_owned();
            forge.committer_date = "1577836800 +0000".to_owned();
        }),
        "time",
    );
    add(
        "the future",
        halt.clone().record("/at", json!("2090-01-01T00:00:00Z")).with(|forge| {
            forge.author_date = "3786912000 +0000".to_owned();
            forge.committer_date = "3786912000 +0000".to_owned();
        }),
        "time",
    );
    // Form.
    add("another schema", halt.clone().record("/schema", json!("git-loop/record/v2")), "schema");
    add("another kind", halt.clone().record("/kind", json!("review")), "record.json");
    add("white space", halt.clone().replace("record.json", "{\n", "{ \n"), "record.json");
    add(
        "no final newline",
        halt.clone().with(|forge| {
            forge.files.get_mut("record.json").unwrap().1.pop();
        }),
        "record.json",
    );
    add(
        "a key twice",
        halt.clone().replace("record.json", "\"seq\": 8,", "\"seq\": 8,\n  \"seq\": 8,"),
        "record.json",
    );
    add(
        "a missing field",
        halt.clone().replace("record.json", "    \"message\": null\n", "").replace(
            "record.json",
            "\",\n  }",
            "\"\n  }",
        ),
        "record.json",
    );
    add(
        "a foreign file",
        halt.clone().with(|forge| {
            forge.files.insert("notes.txt".to_owned(), ("100644".to_owned(), b"x".to_vec()));
        }),
        "notes.txt",
    );
    add(
        "an executable record",
        halt.clone().with(|forge| forge.files.get_mut("record.json").unwrap().0 = "100755".to_owned()),
        "record.json",
    );
    add(
        "no STATUS.md",
        halt.clone().with(|forge| {
            forge.files.remove("STATUS.md");
        }),
        "STATUS.md",
    );
    add("another contract.json", halt.clone().replace("contract.json", "Mend", "Bend"), "contract.json");
    add(
        "another subject",
        halt.clone().with(|forge| forge.message = forge.message.replace("halt:", "Halt:")),
        "message",
    );
    add(
        "another trailer",
        halt.clone().with(|forge| forge.message = forge.message.replace("Loop-Seq: 8", "Loop-Seq: 7")),
        "message",
    );
    add("one trailer more", halt.clone().with(|forge| forge.message.push_str("Loop-Halt: x\n")), "message");
    // State and fold.
    add("another status in the state", halt.clone().state("/status", json!("succeeded")), "loop_state");
    add("another best metric", iteration.clone().state("/best_metric", json!(5.0)), "loop_state");
    add("another green", iteration.clone().state("/last_green_commit", json!(zero)), "loop_state");
    add("a counter", iteration.clone().state("/counters/no_progress", json!(1)), "loop_state");
    add("another halt reason", halt.clone().record("/body/halt_reason", json!("max_iterations_reached")), "");
    add("another exit code", halt.clone().record("/body/exit_code", json!(0)), "fold");
    add("another iteration count", halt.clone().record("/body/iteration", json!(2)), "");
    // Verdict and decision.
    add("another metric", iteration.clone().record("/body/receipt/check/metric", json!(0.5)), "");
    add(
        "a decision",
        iteration.clone().record("/body/receipt/decision/outcome_reason", json!("metric_improved")),
        "",
    );
    add(
        "a failing test less",
        iteration.clone().record("/body/receipt/check/counts/failed", json!(1)),
        "check",
    );
    add(
        "another check tree",
        iteration.clone().record("/body/receipt/check/tree", json!(zero)),
        "check.tree",
    );
    add(
        "another candidate tree",
        iteration.clone().record("/body/receipt/candidate_tree", json!(zero)),
        "candidate",
    );
    add(
        "guards that saw nothing",
        iteration.clone().record("/body/receipt/guards/guards_intact", json!(false)),
        "guards",
    );
    add("another change list", iteration.clone().record("/body/receipt/changes/count", json!(2)), "changes");
    add(
        "a shorter time",
        iteration.clone().record("/body/receipt/elapsed_seconds", json!(100_000)),
        "elapsed",
    );
    add(
        "a report that says otherwise",
        iteration.clone().replace("evidence/report", "ok a", "ok b"),
        "evidence",
    );
    add(
        "an evidence file more",
        iteration.clone().with(|forge| {
            forge.files.insert("evidence/more".to_owned(), ("100644".to_owned(), b"x".to_vec()));
        }),
        "evidence",
    );
    add(
        "an evidence file less",
        iteration.clone().with(|forge| {
            forge.files.remove("evidence/report");
        }),
        "evidence",
    );
    add(
        "an environment used twice",
        checkpoint.clone().with(|forge| {
            let first = Forge::read(&env, &records[2]).json("record.json")["body"]["environment_id"].clone();
            let mut record = forge.json("record.json");
            record["body"]["environment_id"] = first.clone();
            forge.set_json("record.json", &record);
            let mut state = forge.json(".loop_state.json");
            state["checkpoint"]["environment_id"] = first;
            forge.set_json(".loop_state.json", &state);
        }),
        "environment_id",
    );

    assert!(mutations.len() >= 30);
    for (what, forge, needle) in mutations {
        let forged = forge.commit(&env);
        refused(&env, what, &forged, needle);
    }
}

#[test]
fn evidence_on_which_no_verdict_rests_has_no_name_of_one() {
    if !tool("ssh-keygen") {
        return;
    }
    let env = TestEnv::new();
    let records = converged(&env);
    let iteration = Forge::read(&env, &records[7]);
    env.write("more", "x");
    let id = env.git(&["hash-object", "-w", "more"]);
    for name in [
        "report-",
        "report-1",
        "report-02",
        "report-2",
        "tests.json-2",
        "metric-source",
        "verdict",
        "report.sig",
    ] {
        let mut files = iteration.json("record.json")["body"]["evidence"].as_array().unwrap().clone();
        files.push(json!({ "name": name, "id": id, "bytes": 1, "truncated": false }));
        let forged = iteration.clone().record("/body/evidence", json!(files)).with(|forge| {
            forge.files.insert(format!("evidence/{name}"), ("100644".to_owned(), b"x".to_vec()));
        });
        refused(&env, name, &forged.commit(&env), "this contract has no such evidence");
    }
}

#[test]
fn a_baseline_is_that_of_the_contracts_check() {
    if !tool("ssh-keygen") {
        return;
    }
    let env = TestEnv::new();
    let records = converged(&env);
    let baseline = Forge::read(&env, &records[1]);
    let other = baseline.clone().record("/body/check/run/command/1", json!("other.sh"));
    refused(&env, "another command", &other.commit(&env), "check.run.command");
    let worker = baseline.json("record.json")["body"]["sandbox"]["check"].clone();
    let worker = baseline.record("/body/sandbox/worker", worker);
    refused(&env, "the sandbox of a worker", &worker.commit(&env), "sandbox.worker");
}

#[test]
fn a_contract_that_no_loop_was_started_with_does_not_verify() {
    if !tool("ssh-keygen") {
        return;
    }
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["start", "fix"]).expect_code(0);
    let contract = Forge::read(&env, &env.git(&["rev-parse", "refs/loops/fix/ledger"]));
    for (pointer, value, needle) in [
        ("/limits/evidence_kib", json!(0), "limits.evidence_kib"),
        ("/limits/evidence_kib", json!(4097), "limits.evidence_kib"),
        ("/limits/unread_diffs", json!(101), "limits.unread_diffs"),
        ("/worker/command/exec", json!([]), "worker.command"),
        ("/worker/usage", json!("copilot"), "of its schema"),
        ("/worker/reserve_usd", json!("10000.000001"), "worker.reserve_usd"),
        ("/metric/name", json!("x".repeat(65)), "metric.name"),
        ("/metric/target", json!(-0.5), "metric.from"),
        ("/metric/pattern", json!("(x)"), "metric.pattern"),
        ("/paths/mutable", json!([]), "paths.mutable"),
        ("/paths/mutable", json!(["tests/**"]), "paths.mutable"),
        ("/paths/mutable", json!(["src/[a"]), "pattern"),
        ("/sandbox/allowed", json!(["e2b"]), "sandbox.allowed"),
        ("/roles/runner", json!([]), "roles.runner"),
        ("/class", json!("lasting_code"), "lasting"),
        ("/objective", json!(""), "objective"),
    ] {
        let forged = contract.clone().contract(pointer, value.clone());
        refused(&env, &format!("{pointer} = {value}"), &forged.commit(&env), needle);
    }
}

#[test]
fn a_runner_cannot_sign_an_end_that_no_record_calls_for() {
    let env = TestEnv::new();
    let records = converged(&env);
    let halt = Forge::read(&env, &records[8]);
    let first = Forge::read(&env, &records[3]).json(".loop_state.json");
    // After the first of three iterations, with the runner's own key: "the target is met", called a limit.
    let early = halt
        .clone()
        .record("/seq", json!(4))
        .record("/prev", json!(records[3]))
        .record("/body/by", json!("limit"))
        .record("/body/iteration", json!(1))
        .record("/body/last_green_commit", first["last_green_commit"].clone())
        .with(|forge| {
            forge.parents = vec![records[3].clone()];
            forge.message = forge.message.replace("after 3 iterations", "after 1 iteration");
            forge.message = forge.message.replace("Loop-Seq: 8", "Loop-Seq: 4");
            forge.message = forge.message.replace("Loop-Iteration: 3", "Loop-Iteration: 1");
        });
    refused(&env, "a limit that is not reached", &early.commit(&env), "no limit is reached");
    let decided = early.record("/body/by", json!("decision"));
    refused(&env, "a decision that was not made", &decided.commit(&env), "calls for no halt");
}

fn fingerprint_of_ann(env: &TestEnv) -> String {
    let key = ssh_key::PublicKey::read_openssh_file(&env.key("ann").with_extension("pub")).unwrap();
    key.fingerprint(ssh_key::HashAlg::Sha256).to_string()
}

/// A promotion of the loop `keep` by ann after the review that its ledger ends with, made without asking; the review.
pub fn promote_by_hand(env: &TestEnv) -> String {
    let review = env.git(&["rev-parse", "refs/loops/keep/ledger"]);
    let forge = Forge::read(env, &review);
    let record = forge.json("record.json");
    let seq = record["seq"].as_u64().unwrap() + 1;
    let candidate = record["body"]["candidate"].as_str().unwrap().to_owned();
    let tree = env.git(&["rev-parse", &format!("{candidate}^{{tree}}")]);
    let body = json!({
        "halt": record["body"]["halt"], "reviews": [review], "candidate": candidate,
        "candidate_tree": tree, "tip": review,
    });
    let promotion = forge
        .record("/kind", json!("promotion"))
        .record("/seq", json!(seq))
        .record("/prev", json!(review))
        .record("/actor/principal", json!("ann@example.org"))
        .record("/actor/key", json!(fingerprint_of_ann(env)))
        .record("/actor/role", json!("promoter"))
        .record("/body", body)
        .state("/status", json!("succeeded"))
        .with(|forge| {
            forge.key = Some("ann".to_owned());
            forge.parents = vec![review.clone()];
            forge.message = format!(
                "promotion: {} by ann@example.org\n\nLoop-Id: keep\nLoop-Record: promotion\nLoop-Seq: {seq}\nLoop-Candidate: {candidate}\n",
                &candidate[..12]
            );
        });
    env.git(&["update-ref", "refs/loops/keep/ledger", &promotion.commit(env)]);
    review
}

#[test]
fn lasting_code_cannot_be_promoted_by_hand_either() {
    let (env, _) = crate::gate::converged();
    let ann = env.key("ann");
    env.git_loop(&["review", "keep", "--approve", "--key", ann.to_str().unwrap()]).expect_code(0);
    promote_by_hand(&env);
    let output = env.git_loop(&["verify", "keep"]).expect_code(20);
    assert!(output.stdout.contains("is not in roles.people"), "{output:?}");
    // And the gate does not believe it.
    let candidate = env.git(&["rev-parse", "refs/loops/keep/head"]);
    env.git_loop(&["gate", &format!("main..{candidate}")]).expect_code(1).expect_stderr("loop keep");
}

#[test]
fn every_bit_of_a_signature_and_of_the_commit_counts() {
    let env = TestEnv::new();
    let records = converged(&env);
    let raw =
        env.command("git", env.repo()).args(["cat-file", "commit", &records[8]]).output().unwrap().stdout;
    // Flip one bit every few bytes, everywhere in the commit object.
    for position in (0..raw.len()).step_by(37) {
        let mut bytes = raw.clone();
        bytes[position] ^= 1;
        let file = env.root().join("flipped");
        std::fs::write(&file, &bytes).unwrap();
        let hash = env.try_git(&["hash-object", "-w", "-t", "commit", "--literally", file.to_str().unwrap()]);
        assert_eq!(hash.code, 0, "{hash:?}");
        let written = std::fs::write(env.repo().join(".git/refs/loops/fix/ledger"), &hash.stdout);
        written.unwrap();
        let output = env.git_loop(&["verify", "fix"]);
        assert_eq!(output.code, 20, "bit {position}: {output:?}");
    }
}

#[test]
fn a_chain_under_another_name_or_with_a_missing_object_does_not_verify() {
    let env = TestEnv::new();
    let records = converged(&env);
    env.git(&["update-ref", "refs/loops/other/ledger", &records[8]]);
    env.git_loop(&["verify", "other"]).expect_code(20);
    env.git_loop(&["verify", "--all"]).expect_code(20);
    env.git(&["update-ref", "-d", "refs/loops/other/ledger"]);

    let report = env.git(&["rev-parse", &format!("{}:evidence/report", records[7])]);
    let object = env.repo().join(".git/objects").join(&report[..2]).join(&report[2..]);
    std::fs::remove_file(&object).unwrap();
    let output = env.git_loop(&["verify", "fix"]).expect_code(20);
    assert!(output.stdout.contains(&report), "names the missing object: {output:?}");
}

#[test]
fn whoever_checks_judges_by_their_own_list() {
    let env = TestEnv::new();
    converged(&env);
    env.git_loop(&["verify", "fix"]).expect_code(0);
    // The runner is not known to this reader.
    env.write_trust(&[("ann", "ann@example.org")]);
    env.git_loop(&["verify", "fix"]).expect_code(20);
    // An empty or missing list fails closed.
    std::fs::write(env.trust_file(), "# nobody\n").unwrap();
    env.git_loop(&["verify", "fix"]).expect_code(30);
    std::fs::remove_file(env.trust_file()).unwrap();
    env.git_loop(&["verify", "fix"]).expect_code(30);
}

#[test]
fn a_revoked_key_is_not_trusted_and_a_missing_revocation_file_fails() {
    let env = TestEnv::new();
    converged(&env);
    let revoked = env.home().join("revoked");
    std::fs::write(&revoked, env.public_key("runner")).unwrap();
    env.git(&["config", "gpg.ssh.revocationFile", revoked.to_str().unwrap()]);
    env.git_loop(&["verify", "fix"]).expect_code(20);
    std::fs::remove_file(&revoked).unwrap();
    env.git_loop(&["verify", "fix"]).expect_code(30);
}

#[cfg(target_os = "linux")]
#[test]
fn how_many_processors_a_check_had_is_what_the_contract_says() {
    if !tool("ssh-keygen") {
        return;
    }
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let at = toml.rfind("timeout = \"60s\"").unwrap();
    env.write("loop.toml", format!("{}cpus = 1\n{}", &toml[..at], &toml[at..]));
    env.git_loop(&["run", "fix"]).expect_code(10);
    env.git_loop(&["verify", "fix"]).expect_code(0);
    let records = env.git(&["rev-list", "--first-parent", "--reverse", "refs/loops/fix/ledger"]);
    let records: Vec<&str> = records.lines().collect();
    for (at, pointer) in [(1, "/body/sandbox/check/cpus"), (3, "/body/receipt/sandbox/check/cpus")] {
        let base = Forge::read(&env, records[at]);
        assert_eq!(base.json("record.json").pointer(pointer), Some(&json!(1)));
        refused(&env, "more of them", &base.clone().record(pointer, json!(2)).commit(&env), "");
        let (sandbox, key) = pointer.rsplit_once('/').unwrap();
        let mut told = base.json("record.json").pointer(sandbox).unwrap().clone();
        told.as_object_mut().unwrap().remove(key);
        refused(&env, "none told", &base.clone().record(sandbox, told).commit(&env), "");
    }
    let worker = "/body/receipt/sandbox/worker";
    let base = Forge::read(&env, records[3]);
    let mut told = base.json("record.json").pointer(worker).unwrap().clone();
    told.as_object_mut().unwrap().insert("cpus".to_owned(), json!(1));
    refused(&env, "a worker is not held", &base.record(worker, told).commit(&env), "");
}
