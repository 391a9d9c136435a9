//! Standard output that cannot be written, arguments that name nothing.

#[cfg(target_os = "linux")]
use std::fs::File;
use std::process::Stdio;

use crate::support::TestEnv;
use crate::verify::converged;

/// Every command, the help and the version: what cannot be written is an error, and says so.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_stdout_is_an_error_of_every_command() {
    let env = TestEnv::new();
    converged(&env);
    let full = |args: &[&str]| {
        let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
        let child = command.args(args).stdout(File::create("/dev/full").unwrap()).stderr(Stdio::piped());
        let output = child.spawn().unwrap().wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let commands: &[&[&str]] = &[
        &["list"],
        &["status", "fix"],
        &["log", "fix"],
        &["show", "fix"],
        &["show", "fix", "--evidence", "report"],
        &["diff", "fix"],
        &["verify", "fix"],
        &["verify", "--all"],
        &["gate", "HEAD..HEAD"],
        &["hooks", "status"],
        &["run", "fix"],
    ];
    for command in commands {
        for json in [&[][..], &["--json"]] {
            let args = [command, json].concat();
            let (code, stderr) = full(&args);
            assert_eq!(code, Some(30), "{args:?}: {stderr}");
            assert!(
                stderr.contains("error: the answer cannot be written to standard output"),
                "{args:?}: {stderr}"
            );
        }
    }
    // What the command itself came to is not lost.
    assert!(full(&["run", "fix"]).1.contains("exit code 10"));
    assert!(full(&["status", "nix", "--json"]).1.contains("exit code 129"));
    for args in [&["--help"][..], &["help", "run"], &["--version"], &["run", "-h"]] {
        let (code, stderr) = full(args);
        assert_eq!(code, Some(30), "{args:?}: {stderr}");
    }
    // Without anything to write there is nothing to fail: the fault of usage keeps its code.
    assert_eq!(full(&["status", "nix"]).0, Some(129));
}

/// `git loop log | head -1`.
#[cfg(unix)]
#[test]
fn a_reader_that_went_away_is_no_error() {
    let env = TestEnv::new();
    converged(&env);
    for args in [&["log", "fix"][..], &["log", "fix", "--json"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
        let child = command.args(args).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}

#[test]
fn the_log_can_be_cut() {
    let env = TestEnv::new();
    converged(&env);
    let whole = env.git_loop(&["log", "fix"]).stdout;
    let whole: Vec<&str> = whole.lines().collect();
    let last = env.git_loop(&["log", "fix", "-n", "2"]).expect_code(0).stdout;
    assert_eq!(last.lines().collect::<Vec<_>>(), whole[whole.len() - 2..]);
    let reversed = env.git_loop(&["log", "fix", "-n2", "--reverse"]).stdout;
    assert_eq!(reversed.lines().rev().collect::<Vec<_>>(), whole[whole.len() - 2..]);
    assert_eq!(env.git_loop(&["log", "--max-count", "99"]).stdout.lines().count(), whole.len());
    assert_eq!(env.git_loop(&["log", "fix", "-n", "0"]).expect_code(0).stdout, "");
    let json = env.git_loop(&["log", "fix", "-n", "1", "--json"]).json();
    assert_eq!(json["records"].as_array().unwrap().len(), 1);
    assert_eq!(json["left_out"], whole.len() - 1);
}

#[test]
fn an_iteration_or_a_base_that_is_none_is_told_in_plain_words() {
    let env = TestEnv::new();
    converged(&env);
    let usage = |args: &[&str], message: &str, hint: &str| {
        let output = env.git_loop(args).expect_code(129);
        let lines: Vec<&str> = output.stderr.lines().collect();
        assert_eq!(lines[0], format!("error: {message}"), "{args:?}");
        assert!(lines[1].starts_with("hint: ") && lines[1].contains(hint), "{args:?}: {output:?}");
    };
    let none = |word: &str| format!("{word:?} is not the number of an iteration");
    usage(&["show", "fix", "fail"], &none("fail"), "git loop log fix");
    usage(&["diff", "fix", "fail"], &none("fail"), "git loop log fix");
    usage(&["show", "fix", "-1"], &none("-1"), "git loop log fix");
    usage(&["show", "fix", "worker.log"], &none("worker.log"), "git loop show fix --evidence worker.log");
    for number in ["7", "4294967296", "18446744073709551615"] {
        usage(
            &["show", "fix", number],
            &format!("loop `fix` has no iteration {number}"),
            "recorded so far: 3",
        );
        usage(
            &["diff", "fix", number],
            &format!("loop `fix` has no iteration {number}"),
            "recorded so far: 3",
        );
    }
    usage(&["diff", "fix", "0"], "iteration 0 is the baseline, which changed nothing", "git loop show fix 0");
    let bases = [
        ("HEAD~99", "names nothing in this repository"),
        ("nope", "names nothing in this repository"),
        ("HEAD:README", "names a blob that is no commit"),
        ("HEAD^{tree}", "names a tree that is no commit"),
    ];
    for (base, why) in bases {
        usage(&["start", "new", "--base", base], &format!("--base {base:?} {why}"), "name a commit");
    }
}

#[test]
fn a_folder_that_is_none_is_told_as_such() {
    let env = TestEnv::new();
    let none = env.root().join("none");
    let output = env.git_loop(&["-C", none.to_str().unwrap(), "list"]).expect_code(30);
    assert!(output.stderr.starts_with(&format!("error: {} does not exist\n", none.display())), "{output:?}");
    assert!(output.stderr.contains("hint: name a folder in the work tree: -C DIR"), "{output:?}");
    let file = env.trust_file();
    env.git_loop(&["-C", file.to_str().unwrap(), "list"])
        .expect_code(30)
        .expect_stderr("is a file, not a folder");
}

#[test]
fn a_program_that_is_not_found_was_looked_for_in_each_folder_once() {
    let mut env = TestEnv::new();
    crate::support::scenario::numbers(&env, "true", "");
    let path = std::env::var("PATH").unwrap();
    env.set_env("PATH", &format!("{path}:{path}:/nowhere:/nowhere"));
    let terms = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write(
        "loop.toml",
        terms.replace("command = [\"sh\", \"check.sh\"]", "command = [\"no-such-program\"]"),
    );
    let output = env.git_loop(&["run", "fix"]).expect_code(30).expect_stderr("no-such-program is not found");
    let looked = output.stderr.lines().find_map(|line| line.strip_prefix("hint: looked in ")).unwrap();
    let mut folders: Vec<&str> = looked.split(", ").collect();
    let all = folders.len();
    folders.sort_unstable();
    folders.dedup();
    assert_eq!(folders.len(), all, "{looked}");
}

/// What a command prints is read as fast as it comes, and what is not kept is not held: a gigabyte costs no gigabyte of memory.
#[cfg(target_os = "linux")]
#[test]
fn a_gigabyte_of_output_costs_little_memory() {
    let env = TestEnv::new();
    // Whole lines, of 34 bytes: a secret lies across the borders of what is read at a time, and of what is kept.
    let loud = |fd: u8| format!("yes \"a line that has $SECRET_WORD in it\" | head -c 999999976 >&{fd}\n");
    crate::support::scenario::numbers(&env, &format!("{}echo 1 > src/a\n", loud(1)), "");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write("loop.toml", toml.replacen("usage = \"none\"", "usage = \"none\"\nenv = [\"SECRET_WORD\"]", 1));
    let check = format!("{}{}", loud(2), crate::support::scenario::CHECK);
    env.write("check.sh", check);
    env.commit("A loud check");
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    command.args(["run", "fix", "--once"]).env("SECRET_WORD", "open-sesame").stderr(Stdio::null());
    #[expect(clippy::zombie_processes, reason = "it is waited for below, with what it has used")]
    let child = command.stdout(Stdio::null()).spawn().unwrap();
    let (mut status, pid) = (0, i32::try_from(child.id()).unwrap());
    // SAFETY: plain data, for the child that is ours and that nobody else waits for.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::wait4(pid, &raw mut status, 0, &raw mut used), pid);
        used
    };
    assert_eq!(status, 0);
    assert!(used.ru_maxrss < 256 << 10, "{} KiB at most", used.ru_maxrss);
    let show = env.git_loop(&["show", "fix", "1", "--json"]).expect_code(0).json();
    let evidence = show["record"]["body"]["evidence"].as_array().unwrap();
    for (name, secret) in [("worker.log", true), ("check.stderr", false)] {
        let file = evidence.iter().find(|file| file["name"] == name).unwrap();
        assert_eq!((&file["bytes"], &file["truncated"]), (&999_999_976.into(), &true.into()), "{name}");
        let kept = env.git(&["cat-file", "blob", file["id"].as_str().unwrap()]);
        assert!(kept.contains(" bytes cut …]") && kept.len() < 300_000, "{name}: {}", kept.len());
        assert_eq!(kept.contains("has [redacted SECRET_WORD] in it"), secret, "{name}");
        for part in ["sesame", "open-"] {
            assert!(!kept.contains(part), "{name}: a part of the secret is left");
        }
    }
}
