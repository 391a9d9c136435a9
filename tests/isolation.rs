//! What a worker must not reach, and what a check must not see.

use crate::support::TestEnv;
use crate::support::scenario::{HONEST, numbers};

#[test]
fn a_worker_that_edits_deletes_or_adds_a_check_file_is_blocked() {
    let attempts = [
        ("edits", "echo 'a 0' > tests/expected\n"),
        ("deletes", "rm check.sh\n"),
        ("adds", "echo x > tests/extra\n"),
        ("replaces by a link", "rm check.sh; ln -s src/a check.sh\n"),
        ("makes executable", "chmod +x check.sh\n"),
        ("replaces the folder", "rm -r tests; ln -s src tests\n"),
    ];
    for (what, worker) in attempts {
        let env = TestEnv::new();
        numbers(&env, worker, "");
        let json = env.git_loop(&["run", "fix", "--json"]).expect_code(13).json();
        assert_eq!(json["halt_reason"], "metric_integrity_violation", "{what}");
        assert_eq!(json["status"], "blocked", "{what}");
        let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
        let receipt = &show["record"]["body"]["receipt"];
        assert_eq!(receipt["decision"]["reason"], "verifier_drift", "{what}");
        assert!(receipt["check"].is_null(), "{what}: the check was not run");
        let head = env.git(&["rev-parse", "refs/loops/fix/head"]);
        assert_eq!(head, env.git(&["rev-parse", "HEAD"]), "{what}: head is back at green");
        let candidate = receipt["candidate"].as_str().unwrap();
        let reachable = env.git(&["rev-list", "refs/loops/fix/ledger"]);
        assert!(reachable.contains(candidate), "{what}: the attempt stays reachable");
        env.git_loop(&["verify", "fix"]).expect_code(0);
    }
}

#[test]
fn blocked_paths_block_and_outside_paths_reject() {
    let cases = [
        ("mkdir -p .loops; echo me >> .loops/allowed_signers\n", "blocked_path_modified", 13),
        ("echo '* -text' > .gitattributes\n", "blocked_path_modified", 13),
        ("ln -s /etc/passwd src/link\n", "blocked_path_modified", 13),
        ("mkdir -p src/sub; git init -q src/sub; echo x > src/sub/y\n", "blocked_path_modified", 13),
        ("mkfifo src/pipe; echo 1 > src/a\n", "blocked_path_modified", 13),
        ("echo x > README\n", "outside_mutable_paths", 17),
    ];
    for (worker, reason, code) in cases {
        let env = TestEnv::new();
        numbers(&env, worker, "");
        env.git_loop(&["run", "fix"]).expect_code(code);
        let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
        assert_eq!(show["record"]["body"]["receipt"]["decision"]["outcome_reason"], reason, "{worker}");
        env.git_loop(&["verify", "fix"]).expect_code(0);
    }
}

#[test]
fn the_check_sees_nothing_of_the_workers_but_the_candidates_tree() {
    let env = TestEnv::new();
    // The worker leaves ignored files, a HOME, a config, a hook, a variable and a process behind.
    let worker = r#"echo 1 > src/a
echo secret > src/ignored.tmp
echo x > "$HOME/.profile"
git config --global alias.x y || true
mkdir -p .git/hooks 2>/dev/null && echo 'exit 1' > .git/hooks/pre-commit
(setsid sh -c 'sleep 30; echo late > src/b' >/dev/null 2>&1 &)
export LEAK=1
"#;
    numbers(&env, worker, "");
    env.write(".gitignore", "*.tmp\n");
    // A check that fails whatever it can see of that.
    let check = r#"if [ -e src/ignored.tmp ] || [ -e .git ] || [ -n "$LEAK$GIT_DIR$SSH_AUTH_SOCK" ] || [ -e "$HOME/.profile" ] \
  || git config --global alias.x >/dev/null 2>&1; then echo "fail hygiene"; echo "done 1"; exit 1; fi
echo "ok hygiene"
if [ "$(cat src/a)" = 1 ]; then echo "ok a"; else echo "fail a"; bad=1; fi
echo "done 2"
exit ${bad:-0}
"#;
    env.write("check.sh", check);
    env.commit("A check that looks around");
    let output = env.git_loop(&["run", "fix", "--json"]).expect_code(10);
    let json = output.json();
    assert_eq!(json["iteration_count"], 1, "{}", output.stderr);
    let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
    assert!(show["record"]["body"]["receipt"]["worker"]["run"]["survivors"].as_u64().unwrap() >= 1);
}

#[test]
fn a_report_that_the_candidate_brings_along_is_not_believed() {
    let env = TestEnv::new();
    numbers(&env, "echo 'import os' > src/a; mkdir -p src; printf '<testsuites/>' > src/junit.xml\n", "");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml"))
        .unwrap()
        .replace("format = \"lines\"", "format = \"junit\"\nreport = \"src/junit.xml\"");
    env.write("loop.toml", toml);
    let check = "printf '<testsuites><testsuite name=\"s\"><testcase name=\"a\"><failure/></testcase></testsuite></testsuites>' \
                 > src/junit.xml\nexit 1\n";
    env.write("check.sh", check);
    env.commit("A check that writes a report");
    env.git_loop(&["run", "fix"]).expect_code(17);
    let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
    let receipt = &show["record"]["body"]["receipt"];
    assert_eq!(receipt["decision"]["outcome_reason"], "verifier_failed");
    assert_eq!(receipt["check"]["no_report"], "planted");
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn secrets_that_are_passed_through_are_redacted_everywhere() {
    let mut env = TestEnv::new();
    env.set_env("MY_API_KEY", "hunter2-hunter2-hunter2");
    let worker = r#"echo "key is $MY_API_KEY"
echo "$MY_API_KEY" >&2
printf '{"summary":"used %s"}' "$MY_API_KEY" > "$GIT_LOOP_EVIDENCE"
echo 1 > src/a; echo 2 > src/b; echo 3 > src/c
"#;
    numbers(&env, worker, "");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml"))
        .unwrap()
        .replace("usage = \"none\"", "usage = \"none\"\nenv = [\"MY_API_KEY\"]");
    env.write("loop.toml", toml);
    env.git_loop(&["run", "fix"]).expect_code(10);
    let all = env.git(&["rev-list", "--objects", "refs/loops/fix/ledger", "refs/notes/loops/fix"]);
    let mut redacted = false;
    for object in all.lines().filter_map(|line| line.split_whitespace().next()) {
        let content = env.try_git(&["cat-file", "-p", object]).stdout;
        assert!(!content.contains("hunter2"), "the secret is in {object}: {content}");
        redacted |= content.contains("[redacted MY_API_KEY]");
    }
    assert!(redacted, "it says that something was redacted");
}

#[test]
fn a_hostile_configuration_runs_nothing() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let marker = env.root().join("pwned");
    let command = format!("touch {}", marker.display());
    for key in [
        "core.fsmonitor",
        "filter.evil.clean",
        "filter.evil.smudge",
        "diff.evil.textconv",
        "gpg.ssh.program",
        "core.pager",
    ] {
        env.git(&["config", key, &command]);
    }
    std::fs::create_dir_all(env.repo().join(".git/info")).unwrap();
    std::fs::write(env.repo().join(".git/info/attributes"), "* filter=evil diff=evil\n").unwrap();
    let hook = env.repo().join(".git/hooks/post-checkout");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, format!("#!/bin/sh\n{command}\n")).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    env.git_loop(&["run", "fix"]).expect_code(10);
    for command in [
        &["status", "fix"][..],
        &["log", "fix"],
        &["diff", "fix"],
        &["verify", "fix"],
        &["list"],
        &["show", "fix"],
    ] {
        env.git_loop(command).expect_code(0);
    }
    assert!(!marker.exists(), "a program that config names was run");
}
