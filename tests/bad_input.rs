//! Bad input: one clear error, a next step, the right exit code, and nothing lost.

use crate::support::scenario::{HONEST, loop_toml, numbers};
use crate::support::{Output, TestEnv};

/// One error line, at least one hint, nothing on stdout, this exit code.
#[track_caller]
fn clear(output: Output, code: i32, needle: &str) {
    let output = output.expect_code(code).expect_stderr(needle);
    assert_eq!(output.stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{output:?}");
    assert!(output.stderr.contains("hint: "), "a next step is named: {output:?}");
    assert_eq!(output.stdout, "", "{output:?}");
}

#[test]
fn not_a_repository() {
    let env = TestEnv::new();
    let nowhere = env.root().join("nowhere");
    std::fs::create_dir_all(&nowhere).unwrap();
    for command in [&["start", "fix"][..], &["run", "fix"], &["status"], &["list"], &["verify", "--all"]] {
        clear(env.git_loop_in(&nowhere, command), 30, "not in a git repository");
    }
}

#[test]
fn a_bare_repository_can_be_looked_at_but_not_run_in() {
    let env = TestEnv::new();
    let bare = env.root().join("bare.git");
    env.git_in(&env.root(), &["init", "--quiet", "--bare", bare.to_str().unwrap()]);
    clear(env.git_loop_in(&bare, &["start", "fix"]), 30, "bare");
    env.git_loop_in(&bare, &["list"]).expect_code(0);
}

#[test]
fn a_shallow_repository() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.commit("Another");
    let shallow = env.root().join("shallow");
    let url = format!("file://{}", env.repo().display());
    env.git_in(&env.root(), &["clone", "--quiet", "--depth=1", &url, shallow.to_str().unwrap()]);
    clear(env.git_loop_in(&shallow, &["start", "fix"]), 30, "shallow");
}

/// Field report 2.29.
#[test]
fn a_reftable_repository_is_refused_and_not_read_as_empty() {
    let env = TestEnv::new();
    let repo = env.root().join("reftable");
    let init = env.run_command(env.command("git", &env.root()).args([
        "init",
        "--quiet",
        "--ref-format=reftable",
        repo.to_str().unwrap(),
    ]));
    if init.code != 0 {
        eprintln!("skipped: this git has no reftable");
        return;
    }
    for command in [&["start", "fix"][..], &["list"], &["verify", "--all"]] {
        clear(env.git_loop_in(&repo, command), 30, "reftable");
    }
}

#[test]
fn no_commit_yet() {
    let env = TestEnv::new();
    env.write("loop.toml", loop_toml("worker.sh", ""));
    clear(env.git_loop(&["start", "fix"]), 30, "no commit");
}

#[test]
fn a_dirty_work_tree_is_allowed_and_left_alone() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.write("src/a", "dirty\n");
    env.write("untracked", "x\n");
    env.git(&["add", "src/a"]);
    env.write("src/b", "dirtier\n");
    let before = env.users_things();
    env.git_loop(&["run", "fix"]).expect_code(10);
    assert_eq!(env.users_things(), before);
    assert_eq!(env.git(&["diff", "--stat"]).lines().count(), 2, "the index is untouched");
}

#[test]
fn keys_that_do_not_work() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git(&["config", "--unset", "user.signingkey"]);
    clear(env.git_loop(&["start", "fix"]), 30, "no signing key");
    clear(env.git_loop(&["start", "fix", "--key", "/nonexistent/key"]), 30, "/nonexistent/key");
    let broken = env.home().join("keys/broken");
    std::fs::write(
        &broken,
        "-----BEGIN OPENSSH PRIVATE KEY-----\nbroken\n-----END OPENSSH PRIVATE KEY-----\n",
    )
    .unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&broken, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    clear(env.git_loop(&["start", "fix", "--key", broken.to_str().unwrap()]), 30, "broken");
    env.make_key("stranger");
    let stranger = env.key("stranger");
    clear(env.git_loop(&["start", "fix", "--key", stranger.to_str().unwrap()]), 30, "not known");
    // Only the public half: there is no agent that could sign.
    let public = env.root().join("only.pub");
    std::fs::write(&public, env.public_key("runner")).unwrap();
    clear(env.git_loop(&["start", "fix", "--key", public.to_str().unwrap()]), 30, "only.pub");
    assert_eq!(env.git(&["for-each-ref", "refs/loops"]), "", "nothing was written");
}

#[test]
fn no_one_is_trusted() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git(&["config", "--unset", "loop.allowedSigners"]);
    clear(env.git_loop(&["start", "fix"]), 30, "nobody is trusted");
}

#[test]
fn mistakes_in_loop_toml_name_the_place_and_the_nearest_key() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let good = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let cases = [
        ("iterations = 10", "iteratons = 10", "iteratons", 129),
        ("iterations = 10", "iterations = 0", "iterations", 129),
        ("iterations = 10", "iterations = 101", "100", 129),
        ("check = [\"tests/**\"", "check = [\"tests/missing.py\"", "missing.py", 129),
        ("mutable = [\"src/**\"]", "mutable = [\"src/**\", \"tests/expected\"]", "tests/expected", 129),
        ("usage = \"none\"", "usage = \"cluade\"", "claude", 129),
        ("objective =", "objective", "loop.toml:1", 129),
        ("class = \"mechanical_transformation\"", "class = \"lasting_code\"", "complexity_budget", 129),
    ];
    for (from, to, needle, code) in cases {
        assert!(good.contains(from), "{from}");
        env.write("loop.toml", good.replacen(from, to, 1));
        let output = env.git_loop(&["start", "fix"]).expect_code(code);
        assert!(output.stderr.contains(needle), "{to}: {needle:?} not in {}", output.stderr);
    }
    assert_eq!(env.git(&["for-each-ref", "refs/loops"]), "", "nothing was written");
}

#[test]
fn ids_that_are_taken_malformed_or_unknown() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["start", "fix"]).expect_code(0);
    clear(env.git_loop(&["start", "fix"]), 129, "exists already");
    clear(env.git_loop(&["run", "fix", "-f", "loop.toml"]), 129, "exists already");
    for id in ["Fix", "a..b", "a.lock", "-x", "a/b", "", "ü"] {
        let output = env.git_loop(&["start", "--", id]);
        assert_eq!(output.code, 129, "{id:?}: {output:?}");
    }
    clear(env.git_loop(&["status", "fox"]), 129, "no loop `fox`");
    env.git_loop(&["status", "fox"]).expect_stderr("did you mean `fix`?");
}

#[test]
fn a_missing_program_is_found_out_before_any_record_of_an_iteration() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let good = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write("loop.toml", good.replace("command = [\"sh\", \"check.sh\"]", "command = [\"no-such-check\"]"));
    env.git_loop(&["start", "one"]).expect_code(0);
    clear(env.git_loop(&["run", "one"]), 30, "no-such-check");
    let worker = good.lines().find(|line| line.starts_with("command = [\"sh\", \"/")).unwrap().to_owned();
    env.write("loop.toml", good.replace(&worker, "command = [\"no-such-worker\"]"));
    env.git_loop(&["start", "two"]).expect_code(0);
    clear(env.git_loop(&["run", "two"]), 30, "no-such-worker");
    for id in ["one", "two"] {
        assert_eq!(
            env.git(&["rev-list", "--count", "--first-parent", &format!("refs/loops/{id}/ledger")]),
            "1"
        );
    }
}

#[test]
fn gigabytes_invalid_utf8_and_terminal_escapes() {
    let env = TestEnv::new();
    let worker = "printf 'evil \\033[2J\\033]0;title\\007 \\377\\376 \\n'\nhead -c 300000000 /dev/zero\necho 1 > src/a\n";
    numbers(&env, worker, "");
    let output = env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    assert!(!output.stderr.contains('\u{1b}') && !output.stdout.contains('\u{1b}'), "{output:?}");
    for command in [
        &["log", "fix"][..],
        &["show", "fix"],
        &["status", "fix"],
        &["show", "fix", "--evidence", "worker.log"],
    ] {
        let output = env.git_loop(command).expect_code(0);
        assert!(!output.stdout.contains('\u{1b}'), "{command:?}: {output:?}");
    }
    let log = env.git_loop(&["show", "fix", "--evidence", "worker.log"]).expect_code(0).stdout;
    assert!(log.len() < 600_000, "cut, and it says so");
    assert!(log.contains("bytes cut"), "{}", &log[..200]);
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn a_corrupt_record_is_named() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["run", "fix"]).expect_code(10);
    let record = env.git(&["rev-parse", "refs/loops/fix/ledger:record.json"]);
    let object = env.repo().join(".git/objects").join(&record[..2]).join(&record[2..]);
    let mut bytes = std::fs::read(&object).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    let _ = std::fs::remove_file(&object);
    std::fs::write(&object, bytes).unwrap();
    for command in [&["status", "fix"][..], &["run", "fix"], &["log", "fix"]] {
        let output = env.git_loop(command).expect_code(20);
        assert!(output.stderr.contains("record "), "{output:?}");
    }
    let output = env.git_loop(&["verify", "fix"]).expect_code(20);
    assert!(output.stdout.contains(&record[..12]) || output.stdout.contains("record 8"), "{output:?}");
}

#[test]
fn a_policy_is_refused_and_not_ignored() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.write(".loops/policy.toml", "class = { \"src/**\" = \"lasting_code\" }\n");
    env.commit("A policy");
    clear(env.git_loop(&["start", "fix"]), 1, "policies are not built yet");
}

#[test]
fn notes_in_the_middle_of_a_merge_are_found_out_before_a_worker_runs() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["start", "fix"]).expect_code(0);
    let git_dir = env.repo().join(".git");
    std::fs::create_dir_all(git_dir.join("NOTES_MERGE_WORKTREE")).unwrap();
    std::fs::write(git_dir.join("NOTES_MERGE_WORKTREE/x"), "conflict\n").unwrap();
    std::fs::write(git_dir.join("NOTES_MERGE_REF"), "ref: refs/notes/loops/fix\n").unwrap();
    std::fs::write(git_dir.join("NOTES_MERGE_PARTIAL"), format!("{}\n", env.git(&["rev-parse", "HEAD"])))
        .unwrap();
    clear(env.git_loop(&["run", "fix"]), 30, "notes");
}

#[test]
fn a_check_that_prints_more_than_is_kept_gives_no_verdict() {
    let env = TestEnv::new();
    numbers(&env, "echo 1 > src/a; touch src/big\n", "");
    env.write("check.sh", "[ ! -e src/big ] || head -c 20000000 /dev/zero | tr '\\0' x\necho\necho fail a\necho done 1\nexit 1\n");
    env.commit("A check that shouts");
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
    let receipt = &show["record"]["body"]["receipt"];
    assert_eq!(receipt["decision"]["outcome_reason"], "verifier_failed");
    assert_eq!(receipt["check"]["no_report"], "too_large");
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn bad_arguments_end_as_gits_do() {
    let env = TestEnv::new();
    for args in [
        &["frobnicate"][..],
        &["start"],
        &["review", "fix"],
        &["review", "fix", "--approve", "--reject"],
        &["verify"],
    ] {
        env.git_loop(args).expect_code(129);
    }
    let json = env.git_loop(&["frobnicate", "--json"]).expect_code(129).json();
    assert_eq!(json["status"], "error");
    env.git_loop(&["--version"]).expect_code(0);
    env.git_loop(&["--help"]).expect_code(0);
}

#[test]
fn faults_of_usage_are_told_whole_and_send_nobody_to_a_manual_page() {
    let env = TestEnv::new();
    let json = env.git_loop(&["start", "--json"]).expect_code(129).json();
    let message = json["errors"][0]["message"].as_str().unwrap();
    assert_eq!(message, "the following required arguments were not provided: <ID>");
    let hints = json["errors"][0]["hints"].as_array().unwrap();
    assert_eq!(hints.last().unwrap(), "git loop help start", "{hints:?}");
    let text = env.git_loop(&["start"]).expect_code(129);
    assert!(text.stderr.ends_with("For more information: git loop help start\n"), "{text:?}");
    let text = env.git_loop(&["frobnicate"]).expect_code(129);
    assert!(text.stderr.ends_with("For more information: git loop help\n"), "{text:?}");
    let short = env.git_loop(&["-h"]).expect_code(0);
    assert!(short.stdout.contains("see more with 'git loop help'"), "{short:?}");
    assert!(!short.stdout.contains("'--help'"), "{short:?}");
}

#[test]
fn a_trust_file_that_the_protected_branch_lacks_is_pushed_and_not_committed_again() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let first = env.git(&["rev-parse", "HEAD"]);
    env.git(&["config", "--unset", "loop.allowedSigners"]);
    env.git(&["update-ref", "refs/remotes/origin/main", &first]);
    env.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    env.write(".loops/allowed_signers", std::fs::read(env.trust_file()).unwrap());
    env.git_loop(&["start", "fix"]).expect_code(30).expect_stderr("git commit");
    env.commit("Trust");
    let said = env.git_loop(&["start", "fix"]).expect_code(30).expect_stderr("git push");
    assert!(!said.stderr.contains("git commit"), "{said:?}");
    let hint = "git config loop.protectedBranch refs/heads/main";
    assert!(said.stderr.contains(hint), "{said:?}");
    env.git(&["config", "loop.protectedBranch", "refs/heads/main"]);
    env.git_loop(&["start", "fix"]).expect_code(0);
}
