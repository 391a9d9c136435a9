//! The golden ledgers of `fixtures/ledgers`: what verified once verifies for ever, by both verifiers and with the same states, and
//! not with anything changed. `tests/independent/golden.py` made them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::TestEnv;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/ledgers")
}

/// The names of all sets.
fn sets() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| {
            entry.unwrap().file_name().to_str()?.strip_suffix(".bundle").map(ToOwned::to_owned)
        })
        .collect();
    names.sort();
    names
}

/// A fresh repository with the ledgers of a set, under its own trust file, and what is expected of them.
fn unbundled(name: &str) -> (TestEnv, Value) {
    let file = |ending: &str| folder().join(format!("{name}.{ending}"));
    let expected: Value = serde_json::from_slice(&fs::read(file("json")).unwrap()).unwrap();
    let format = format!("--object-format={}", expected["object_format"].as_str().unwrap());
    let env = TestEnv::with(&[&format], "repo");
    fs::copy(file("signers"), env.trust_file()).unwrap();
    env.git(&["fetch", "--quiet", file("bundle").to_str().unwrap(), "refs/loops/*:refs/loops/*"]);
    (env, expected)
}

#[test]
fn both_verifiers_accept_them_and_come_to_the_same_states() {
    let sets = sets();
    assert!(sets.len() >= 14, "{sets:?}");
    for name in sets {
        let (env, expected) = unbundled(&name);
        // The second verifier is asked as well: see `support::twice`.
        let mut found = env.git_loop(&["verify", "--all", "--json"]).expect_code(0).json();
        for one in found["loops"].as_array_mut().unwrap() {
            one.as_object_mut().unwrap().remove("warnings");
        }
        assert_eq!(found["loops"], expected["loops"], "{name}");
        for (id, state) in expected["states"].as_object().unwrap() {
            let status = env.git(&["cat-file", "blob", &format!("refs/loops/{id}/ledger:.loop_state.json")]);
            let status: Value = serde_json::from_str(&status).unwrap();
            for (field, value) in state.as_object().unwrap() {
                assert_eq!(&status[field], value, "{name}: {id}: {field}");
            }
        }
    }
}

/// Puts `content` in the place of a file of a record and gives the record anew, with the signature that it had.
fn changed(env: &TestEnv, record: &str, path: &str, content: &[u8]) -> String {
    let file = env.root().join("changed");
    let hash = |content: &[u8], more: &[&str]| {
        fs::write(&file, content).unwrap();
        let mut arguments = vec!["hash-object", "-w", "--no-filters"];
        arguments.extend(more);
        arguments.push(file.to_str().unwrap());
        env.git(&arguments)
    };
    let blob = hash(content, &[]);
    let index = env.root().join("changed.index");
    let _ = fs::remove_file(&index);
    let run = |arguments: &[&str]| {
        let mut command = env.command("git", env.repo());
        let output = env.run_command(command.env("GIT_INDEX_FILE", &index).args(arguments));
        assert_eq!(output.code, 0, "{output:?}");
        output.stdout.trim().to_owned()
    };
    run(&["read-tree", &format!("{record}^{{tree}}")]);
    run(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{path}")]);
    let tree = run(&["write-tree"]);
    let raw = env.git(&["cat-file", "commit", record]) + "\n";
    let (_, rest) = raw.split_once('\n').unwrap();
    hash(format!("tree {tree}\n{rest}").as_bytes(), &["-t", "commit"])
}

#[test]
fn neither_verifier_accepts_them_with_anything_changed() {
    for name in sets() {
        let (env, expected) = unbundled(&name);
        for (number, one) in expected["loops"].as_array().unwrap().iter().enumerate() {
            let id = one["loop"].as_str().unwrap();
            let ledger = format!("refs/loops/{id}/ledger");
            let tip = one["ledger_tip"].as_str().unwrap();
            let path = ["record.json", ".loop_state.json", "contract.json", "STATUS.md"][number % 4];
            let mut show = env.command("git", env.repo());
            let mut content =
                show.args(["cat-file", "blob", &format!("{tip}:{path}")]).output().unwrap().stdout;
            // One digit or letter, somewhere in the middle.
            let at = content.len() / 2;
            let at = at + content[at..].iter().position(u8::is_ascii_alphanumeric).unwrap();
            content[at] = if content[at] == b'1' { b'2' } else { b'1' };
            env.git(&["update-ref", &ledger, &changed(&env, tip, path, &content)]);
            env.git_loop(&["verify", id]).expect_code(20);
            env.git(&["update-ref", &ledger, tip]);
        }
        // Under another name, and by the list of somebody else.
        let tip = expected["loops"][0]["ledger_tip"].as_str().unwrap();
        env.git(&["update-ref", "refs/loops/elsewhere/ledger", tip]);
        env.git_loop(&["verify", "elsewhere"]).expect_code(20);
        env.git(&["update-ref", "-d", "refs/loops/elsewhere/ledger"]);
        let (key, one) = (env.public_key("ann"), &expected["loops"][0]);
        fs::write(env.trust_file(), format!("runner@example.org {key}\n")).unwrap();
        let found = env.git_loop(&["verify", "--all", "--json"]).expect_code(20).json();
        assert_eq!(found["loops"][0]["loop"], one["loop"], "{name}");
        assert_eq!(
            found["loops"].as_array().unwrap().iter().filter(|one| one["ok"] == json!(true)).count(),
            0
        );
    }
}
