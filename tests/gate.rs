//! What the installed hook lets out, and what it does not.

use std::path::PathBuf;

use crate::support::scenario::numbers;
use crate::support::{Output, TestEnv};

/// The fields that lasting code asks for, as the end of a `loop.toml`'s top level.
const LASTING: &str = r#"class = "lasting_code"
invariant_boundaries = [{ name = "numbers", command = ["sh", "check.sh"] }]
allowed_semantic_changes = ["the numbers"]
forbidden_semantic_changes = []
machine_independence_requirements = [{ name = "check", command = ["sh", "check.sh"] }]
review_risk = "standard"
required_review_personas = ["maintainer"]
complexity_budget = { fallback_branches = 0, dependencies = 0, public_interfaces = 0, cyclomatic_complexity = 0, changed_lines = 10 }
local_defense_limit = 2
human_promotion_required = true
"#;

/// Three lines in `src/long` are changed, and the three numbers are mended.
const WORKER: &str = r"echo 1 > src/a; echo 2 > src/b; echo 3 > src/c
sed 's/^line 5$/line five/' src/long > src/new && cat src/new > src/long && rm src/new
";

/// A converged `lasting_code` loop `keep`, a bare remote that has its base, and the hook installed.
pub fn converged() -> (TestEnv, PathBuf) {
    let env = TestEnv::new();
    let long = (1..=20).fold(String::new(), |text, number| text + &format!("line {number}\n"));
    env.write("src/long", long);
    numbers(&env, WORKER, "\n[roles]\nrunner = [\"runner@example.org\"]\n");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write("loop.toml", toml.replace("class = \"mechanical_transformation\"\n", LASTING));
    let remote = env.root().join("remote.git");
    env.git_in(&env.root(), &["init", "--quiet", "--bare", remote.to_str().unwrap()]);
    env.git(&["remote", "add", "origin", remote.to_str().unwrap()]);
    env.git(&["push", "--quiet", "origin", "main"]);
    let lead = env.key("lead");
    env.git_loop(&["start", "keep", "--key", lead.to_str().unwrap()]).expect_code(0);
    env.git_loop(&["run", "keep"]).expect_code(10);
    env.git_loop(&["hooks", "install"]).expect_code(0);
    (env, remote)
}

#[track_caller]
fn refused(output: Output) {
    let output = output.expect_code(1);
    for needle in ["loop keep", "src/", "not promoted", "unblock"] {
        assert!(output.stderr.contains(needle), "{needle:?} not in {}", output.stderr);
    }
}

#[test]
fn content_of_an_unpromoted_lasting_loop_does_not_leave_in_any_form() {
    let (env, remote) = converged();
    let head = "refs/loops/keep/head";
    let before = env.git_in(&remote, &["for-each-ref"]);

    // The candidate itself, to a new branch, to main, as a tag.
    refused(env.try_git(&["push", "origin", &format!("{head}:refs/heads/new")]));
    refused(env.try_git(&["push", "origin", &format!("{head}:refs/heads/main")]));
    env.git(&["tag", "-a", "-m", "a tag", "v1", head]);
    refused(env.try_git(&["push", "origin", "v1"]));

    // A squash of it.
    env.git(&["switch", "--quiet", "-c", "squash", "main"]);
    env.git(&["merge", "--squash", "--quiet", head]);
    env.git(&["commit", "--quiet", "-m", "All at once"]);
    refused(env.try_git(&["push", "origin", "squash"]));

    // A cherry-pick onto a branch where the same files have other edits.
    env.git(&["switch", "--quiet", "-c", "picked", "main"]);
    let long = std::fs::read_to_string(env.repo().join("src/long")).unwrap();
    env.write("src/long", long.replace("line 18\n", "line eighteen\n"));
    env.commit("Another edit of the same file");
    env.git(&["cherry-pick", head]);
    refused(env.try_git(&["push", "origin", "picked"]));

    // A rebase and a merge.
    env.git(&["switch", "--quiet", "-c", "merged", "main"]);
    env.write("elsewhere", "x\n");
    env.commit("Elsewhere");
    env.git(&["merge", "--quiet", "--no-edit", head]);
    refused(env.try_git(&["push", "origin", "merged"]));

    assert_eq!(env.git_in(&remote, &["for-each-ref"]), before, "nothing got through");

    // The ledgers themselves may be shared, and what has nothing to do with any loop passes.
    env.git(&["switch", "--quiet", "-c", "unrelated", "main"]);
    env.write("notes", "x\n");
    env.commit("A note");
    env.git(&["push", "--quiet", "origin", "unrelated"]);
    env.git(&[
        "push",
        "--quiet",
        "origin",
        "refs/loops/*:refs/loops/*",
        "refs/notes/loops/*:refs/notes/loops/*",
    ]);

    // It cannot be promoted yet, so it stays.
    let ann = env.key("ann");
    env.git_loop(&["review", "keep", "--approve", "--key", ann.to_str().unwrap()]).expect_code(0);
    env.git_loop(&["promote", "keep", "--key", ann.to_str().unwrap()])
        .expect_code(1)
        .expect_stderr("lasting_code");

    // The same code judges for CI.
    env.git_loop(&["gate", "main..squash"]).expect_code(1).expect_stderr("loop keep");
    env.git_loop(&["gate", "main..unrelated"]).expect_code(0);
    let json = env.git_loop(&["gate", "main..picked", "--json"]).expect_code(1).json();
    assert_eq!(json["status"], "refused");
    assert_eq!(json["verdict"]["refusals"][0]["loop"], "keep");
}

#[test]
fn a_ledger_on_a_remote_only_fast_forwards_and_is_never_deleted() {
    let (env, remote) = converged();
    env.git(&["push", "--quiet", "origin", "refs/loops/*:refs/loops/*"]);
    let before = env.git_in(&remote, &["for-each-ref"]);
    let ledger = "refs/loops/keep/ledger";
    env.try_git(&["push", "origin", &format!(":{ledger}")]).expect_code(1).expect_stderr("ledger");
    env.try_git(&["push", "--force", "origin", &format!("{ledger}~1:{ledger}")])
        .expect_code(1)
        .expect_stderr("ledger");
    env.try_git(&["push", "--force", "origin", &format!("main:{ledger}")])
        .expect_code(1)
        .expect_stderr("ledger");
    // A forged continuation: not signed.
    let forged = env.git(&["commit-tree", "-p", ledger, "-m", "forged", &format!("{ledger}^{{tree}}")]);
    env.try_git(&["push", "origin", &format!("{forged}:{ledger}")]).expect_code(1).expect_stderr("ledger");
    assert_eq!(env.git_in(&remote, &["for-each-ref"]), before);
}

#[cfg(unix)]
#[test]
fn an_existing_pre_push_hook_still_runs_and_comes_back() {
    use std::os::unix::fs::PermissionsExt;
    let env = TestEnv::new();
    env.write("file", "x\n");
    env.commit("Begin");
    let remote = env.root().join("remote.git");
    env.git_in(&env.root(), &["init", "--quiet", "--bare", remote.to_str().unwrap()]);
    env.git(&["remote", "add", "origin", remote.to_str().unwrap()]);
    let seen = env.root().join("seen");
    let hook = env.repo().join(".git/hooks/pre-push");
    let script = format!("#!/bin/sh\ncat > '{}'\nexit ${{HOOK_CODE:-0}}\n", seen.display());
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, &script).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();

    env.git_loop(&["hooks", "install"]).expect_code(0);
    env.git(&["push", "--quiet", "origin", "main"]);
    assert!(std::fs::read_to_string(&seen).unwrap().contains("refs/heads/main"), "it got its input");
    let status = env.git_loop(&["hooks", "status"]).expect_code(0);
    assert!(status.stdout.contains("active"), "{status:?}");
    // Its refusal stops the push.
    env.write("file", "y\n");
    env.commit("Next");
    let output = env
        .run_command(env.command("git", env.repo()).env("HOOK_CODE", "3").args(["push", "origin", "main"]));
    assert_ne!(output.code, 0);

    env.git_loop(&["hooks", "uninstall"]).expect_code(0);
    assert_eq!(std::fs::read_to_string(&hook).unwrap(), script, "byte for byte");
}

#[test]
fn lasting_code_needs_an_approver_other_than_the_runner() {
    let env = TestEnv::new();
    numbers(&env, WORKER, "\n[roles]\nrunner = [\"runner@example.org\"]\n");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write("loop.toml", toml.replace("class = \"mechanical_transformation\"\n", LASTING));
    env.git_loop(&["start", "keep"]).expect_code(1).expect_stderr("approver other than its runner");
}
