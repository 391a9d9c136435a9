//! Both sides went on: whoever comes second goes after the others.

use std::process::Stdio;

use super::{LEDGER, NOTES};
use crate::support::TestEnv;
use crate::support::clones::{Clone, bare, clone, kinds};
use crate::support::crash::wait_until;
use crate::support::scenario::{HONEST, numbers};

/// A loop that has halted, in a bare repository and two clones of reviewers.
fn halted(env: &TestEnv) -> (Clone<'_>, Clone<'_>) {
    numbers(env, HONEST, "");
    bare(env);
    env.git_loop(&["run", "fix"]).expect_code(10);
    env.git_loop(&["sync"]).expect_code(0);
    let (one, two) = (clone(env, "one", "ann"), clone(env, "two", "lead"));
    one.sync();
    two.sync();
    (one, two)
}

fn find(clone: &Clone<'_>, message: &str, more: &[&str]) -> String {
    let mut args = vec!["finding", "fix", "add", "--severity", "warn", "--message", message, "--json"];
    args.extend(more);
    clone.run(0, &args).json()["record_id"].as_str().unwrap().to_owned()
}

fn messages(clone: &Clone<'_>) -> Vec<String> {
    let list = clone.run(0, &["finding", "fix", "list", "--json"]).json();
    list["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["message"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn own_records_come_after_those_that_were_there_first() {
    let env = TestEnv::new();
    let (one, two) = halted(&env);
    find(&one, "first", &[]);
    one.sync();
    // Its own is resolved again, under the name that it has then.
    let second = find(&two, "second", &[]);
    let third = find(&two, "third", &[]);
    two.run(0, &["finding", "fix", "resolve", &second, "--message", "well"]);
    let old = two.id(LEDGER);
    let out = two.run(0, &["sync", "--json"]).json();
    let done = &out["loops"][0];
    assert_eq!((&done["fetched"], &done["pushed"]), (&1.into(), &3.into()));
    assert_eq!(done["carried"].as_array().unwrap().len(), 3);
    assert_eq!(done["carried"][1]["from"], third);
    assert_eq!((&done["aside"], &done["aside_refs"]), (&serde_json::json!([]), &serde_json::json!([])));
    assert_eq!(messages(&two), ["first", "third"]);
    two.run(0, &["verify", "fix"]);
    assert_eq!(two.id("refs/loops/fix/ledger@{1}"), old, "the reflog still has what it was");
    one.sync();
    assert_eq!(one.id(LEDGER), two.id(LEDGER));
    assert_eq!(kinds(&env, &one.path, &format!("{LEDGER}~4..{LEDGER}")), "finding finding finding finding");
}

#[test]
fn a_promotion_of_what_was_not_seen_is_given_again() {
    let env = TestEnv::new();
    let (one, two) = halted(&env);
    one.run(0, &["review", "fix", "--approve"]);
    one.sync();
    two.sync();
    two.run(0, &["promote", "fix"]);
    let promoted = two.id(LEDGER);
    find(&one, "late", &[]);
    one.sync();
    let out = two.run(0, &["sync", "--json"]).json();
    let aside = &out["loops"][0]["aside"][0];
    assert_eq!((&aside["kind"], &aside["record"]), (&"promotion".into(), &promoted.clone().into()));
    assert!(aside["why"].as_str().unwrap().contains("promote it again"), "{aside}");
    let name = out["loops"][0]["aside_refs"][0].as_str().unwrap();
    assert_eq!(two.id(name), promoted);
    assert_eq!(two.run(0, &["status", "fix", "--json"]).json()["status"], "awaiting_review");
    two.run(0, &["promote", "fix"]);
    two.sync();
    one.sync();
    assert_eq!(one.run(0, &["status", "fix", "--json"]).json()["status"], "succeeded");
}

#[test]
fn records_of_others_are_kept_aside_and_named() {
    let env = TestEnv::new();
    let (one, two) = halted(&env);
    find(&one, "first", &[]);
    one.sync();
    let lead = find(&two, "mine", &[]);
    let ann = find(&two, "somebody else's", &["--key", env.key("ann").to_str().unwrap()]);
    let old = two.id(LEDGER);
    let out = two.run(0, &["sync"]);
    assert!(out.stdout.contains(&format!("record {} is", &lead[..12])), "{out:?}");
    assert!(
        out.stdout.contains(&format!("{}, a finding by ann@example.org: the key at hand is not", &ann[..12])),
        "{out:?}"
    );
    assert_eq!(two.id(&format!("refs/loops-aside/fix/{}", &old[..12])), old);
    assert_eq!(messages(&two), ["first", "mine"]);
    // Nothing of it is pushed, and another synchronisation has nothing to add.
    assert_eq!(two.sync().stdout, "fix: up to date with origin\n");
    let there = env.git_in(&env.root().join("origin.git"), &["for-each-ref", "--format=%(refname)"]);
    assert!(!there.contains("aside"), "{there}");
}

#[test]
fn without_its_key_nothing_is_signed_anew_and_nothing_moves() {
    let env = TestEnv::new();
    let (one, two) = halted(&env);
    find(&one, "first", &[]);
    one.sync();
    find(&two, "mine", &[]);
    let before = two.git(&["for-each-ref"]);
    two.git(&["config", "user.signingkey", env.home().join("gone").to_str().unwrap()]);
    two.run(30, &["sync"]).expect_stderr("must be signed anew");
    assert_eq!(two.git(&["for-each-ref"]), before);
    two.git(&["config", "user.signingkey", env.key("lead").to_str().unwrap()]);
    two.sync();
    assert_eq!(messages(&two), ["first", "mine"]);
}

/// The iteration was accepted here; there a finding that blocks was first.
#[test]
fn an_iteration_is_decided_again_after_a_new_finding() {
    let env = TestEnv::new();
    let tmp = env.home().join("tmp");
    let worker = format!(
        "{HONEST}\n[ $GIT_LOOP_ITERATION != 2 ] || {{ : > '{0}/running'; until [ -e '{0}/go' ]; do sleep 0.05; done; }}\n",
        tmp.display()
    );
    numbers(&env, &worker, "\n[sandbox]\nallowed = [\"none\"]\n");
    let origin = bare(&env);
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    env.git_loop(&["sync"]).expect_code(0);
    let one = clone(&env, "one", "ann");
    one.sync();
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    let mut child =
        command.args(["run", "fix", "--once"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the worker", || tmp.join("running").exists());
    // What is being run is pushed as well; nothing may begin after a finding that blocks.
    env.git_loop(&["sync"]).expect_code(0);
    one.sync();
    let args = ["finding", "fix", "add", "--severity", "block", "--message", "wait"];
    one.run(0, &args);
    one.sync();
    std::fs::write(tmp.join("go"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(11));
    let show = env.git_loop(&["show", "fix", "2", "--json"]).expect_code(0).json();
    let decision = &show["record"]["body"]["receipt"]["decision"];
    assert_eq!(decision["outcome_reason"], "blocked_finding", "{decision}");
    assert_eq!((&decision["improved"], &decision["halt_reason"]), (&false.into(), &"human_required".into()));
    let list = kinds(&env, &origin, LEDGER);
    assert_eq!(list, "contract baseline checkpoint iteration lease checkpoint finding iteration halt");
    assert_eq!(
        env.git(&["rev-parse", "refs/loops/fix/head"]),
        env.git(&["rev-parse", "refs/loops/fix/ledger~5^2"])
    );
    env.git_loop(&["verify", "fix"]).expect_code(0);
    // The receipts are those of the records that there are.
    one.sync();
    assert_eq!(one.id(NOTES), env.git(&["rev-parse", NOTES]));
}

/// Field reports 2.31 and 2.34.
#[test]
fn receipts_of_both_sides_are_merged_and_what_is_none_stays() {
    let env = TestEnv::new();
    let (one, two) = halted(&env);
    // Another history of the same receipts: what two rebuilt indexes come to.
    let candidate = two.id("refs/loops/fix/head");
    let note = two.git(&["rev-parse", &format!("{NOTES}:{candidate}")]);
    two.git(&["update-ref", "-d", NOTES]);
    two.git(&["notes", "--ref=loops/fix", "add", "-C", &note, &candidate]);
    let rebuilt = two.id(NOTES);
    two.sync();
    let merged = two.git(&["rev-list", "--parents", "-1", NOTES]);
    assert_eq!(merged.split(' ').skip(1).collect::<Vec<_>>(), [one.id(NOTES).as_str(), rebuilt.as_str()]);
    assert_eq!(two.git(&["notes", "--ref=loops/fix", "list"]).lines().count(), 3);
    one.sync();
    assert_eq!(one.id(NOTES), two.id(NOTES));
    // A person's own note is nobody else's.
    one.git(&["notes", "--ref=loops/fix", "append", "-m", "look at this", &candidate]);
    let own = one.id(NOTES);
    find(&one, "first", &[]);
    let out = one.sync();
    assert!(out.stderr.contains("no receipt of the loop"), "{out:?}");
    assert_eq!(one.id(NOTES), own);
    assert_eq!(two.sync().stdout, "fix: 1 record from origin\n");
    assert_ne!(two.id(NOTES), own);
    // A merge by hand that is not finished is left alone: field report 2.35.
    two.git(&["update-ref", "refs/notes/other", &rebuilt]);
    std::fs::create_dir_all(two.path.join(".git/NOTES_MERGE_WORKTREE")).unwrap();
    std::fs::write(two.path.join(".git/NOTES_MERGE_WORKTREE/x"), "x").unwrap();
    find(&two, "second", &[]);
    let out = two.sync();
    assert!(out.stdout.contains("1 record to origin"), "{out:?}");
}
