//! `git loop init`: what it writes is taken by `git loop start` as it is, and it touches nothing else.

use std::fs;

use crate::support::{REVIEWER, TestEnv, tool};

/// A place in which nobody is trusted yet: one person with a key and an address.
fn place() -> TestEnv {
    let env = TestEnv::new();
    env.git(&["config", "--unset", "loop.allowedSigners"]);
    env.git(&["config", "user.signingkey", env.key("ann").to_str().unwrap()]);
    env.git(&["config", "user.email", REVIEWER]);
    env
}

/// A package with one function that is wrong, and a test of it.
fn cargo_project(env: &TestEnv) {
    env.write("Cargo.toml", "[package]\nname = \"sum\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    env.write("Cargo.lock", "version = 3\n\n[[package]]\nname = \"sum\"\nversion = \"0.1.0\"\n");
    env.write(".gitignore", "/target\n");
    env.write("src/lib.rs", "pub fn add(a: i32, b: i32) -> i32 { a - b }\n");
    env.write(
        "tests/all.rs",
        "#[test]\nfn zero() { assert_eq!(sum::add(0, 0), 0); }\n#[test]\nfn two() { assert_eq!(sum::add(1, 1), 2); }\n",
    );
    env.commit("Begin");
}

/// Puts `script` where the file asks for a worker (or has an agent of this machine), and commits what was written.
fn fill_in(env: &TestEnv, script: &str) {
    let script = env.script("worker.sh", script);
    let text = fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let (head, rest) = text.split_once("[worker]").unwrap();
    let (worker, tail) = rest.split_once("\n[").unwrap();
    assert!(worker.contains("FILL IN"), "{text}");
    let kept = worker.lines().filter(|line| !line.starts_with("command = ") && !line.starts_with("env = "));
    let worker: Vec<&str> = kept.collect();
    let command = format!("command = [\"sh\", \"{script}\"]");
    env.write("loop.toml", format!("{head}[worker]{}\n{command}\n\n[{tail}", worker.join("\n")));
    env.git(&["add", "loop.toml"]);
    if env.repo().join(".loops").exists() {
        env.git(&["add", ".loops"]);
    }
    env.git(&["commit", "--quiet", "-m", "Terms of a loop"]);
}

#[test]
fn a_cargo_project_converges_is_reviewed_and_promoted_by_one_person_with_a_key_for_the_runner() {
    if !tool("cargo") {
        return;
    }
    let env = place();
    cargo_project(&env);
    let head = env.git(&["rev-parse", "HEAD"]);
    let output = env.git_loop(&["init", "--runner-key"]).expect_code(0);
    assert_eq!(output.stderr, "", "nothing to warn of");
    assert!(output.stdout.contains("wrote loop.toml for a Cargo project (Cargo.toml)"), "{output:?}");
    let steps = [
        "start fix --dry-run",
        "start fix --key ",
        "run fix",
        "review fix --approve --key ",
        "promote fix --key ",
        "land fix",
    ];
    let mut rest = output.stdout.as_str();
    for step in steps {
        let at = rest.find(&format!("git loop {step}"));
        rest = &rest[at.unwrap_or_else(|| panic!("no {step} in {output:?}"))..];
    }
    assert_eq!(env.git(&["rev-parse", "HEAD"]), head, "nothing is committed");
    assert_eq!(env.git(&["status", "--porcelain"]), "?? .loops/\n?? loop.toml", "nothing else is there");
    let key = env.repo().join(".git/loops/keys/runner");
    assert_eq!(env.git(&["config", "--local", "loop.signingKey"]), key.to_str().unwrap());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    }

    fill_in(&env, "echo 'pub fn add(a: i32, b: i32) -> i32 { a + b }' > src/lib.rs\n");
    let ann = env.key("ann");
    let rehearse = ["start", "fix", "--dry-run", "--json", "--key", ann.to_str().unwrap()];
    let dry = env.git_loop(&rehearse).expect_code(0);
    assert_eq!(dry.json()["failures"][0], "all::two");
    assert!(!dry.stderr.contains("warning"), "{dry:?}");
    // The key that runs, which has no passphrase, signs no terms.
    let ann = env.key("ann");
    env.git_loop(&["run", "fix"]).expect_code(1).expect_stderr("git loop start fix --key FILE");
    let started = env.git_loop(&["start", "fix", "--key", ann.to_str().unwrap()]).expect_code(0);
    assert!(
        started.stderr.ends_with("hint: git loop run fix\n"),
        "the runner's key is configured: {started:?}"
    );
    env.git_loop(&["run", "fix"]).expect_code(10);
    env.git_loop(&["review", "fix", "--approve"]).expect_code(1).expect_stderr("--key FILE");
    env.git_loop(&["review", "fix", "--approve", "--key", ann.to_str().unwrap()]).expect_code(0);
    env.git_loop(&["promote", "fix", "--key", ann.to_str().unwrap()]).expect_code(0);
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

/// A package of Python with a function that is wrong.
fn python_project(env: &TestEnv, test: &str) {
    env.write("pyproject.toml", "[project]\nname = \"calc\"\nversion = \"1\"\n");
    env.write("calc/__init__.py", "");
    env.write("calc/ops.py", "def add(a, b):\n    return a - b\n");
    env.write("tests/test_ops.py", test);
    env.commit("Begin");
}

const MEND_PYTHON: &str = "printf 'def add(a, b):\\n    return a + b\\n' > calc/ops.py\n";

#[test]
fn a_python_project_with_unittest_converges() {
    if !tool("python3") {
        return;
    }
    let env = place();
    let test = "import unittest\n\nfrom calc.ops import add\n\n\nclass Ops(unittest.TestCase):\n    def test_two(self):\n        \
                self.assertEqual(add(1, 1), 2)\n";
    python_project(&env, test);
    let output = env.git_loop(&["init", "--json"]).expect_code(0);
    assert_eq!(output.json()["project"], "unittest");
    output.expect_stderr("nobody reviews what their own key ran");
    fill_in(&env, MEND_PYTHON);
    env.git_loop(&["run", "fix"]).expect_code(10);
}

#[test]
fn a_python_project_with_pytest_converges() {
    let mut env = place();
    // A virtual environment of whoever runs this may have pytest.
    if let Ok(venv) = std::env::var("VIRTUAL_ENV") {
        env.set_env("VIRTUAL_ENV", &venv);
    }
    let python = env.root();
    if !tool("python3")
        || env.run_command(env.command("python3", &python).args(["-c", "import pytest"])).code != 0
    {
        eprintln!("skipped: pytest is not installed");
        return;
    }
    python_project(&env, "from calc.ops import add\n\n\ndef test_two():\n    assert add(1, 1) == 2\n");
    let output = env.git_loop(&["init", "--runner-key", "--json"]).expect_code(0);
    assert_eq!(output.json()["project"], "pytest");
    assert_eq!(output.stderr, "");
    fill_in(&env, MEND_PYTHON);
    let dry = env.git_loop(&["start", "fix", "--dry-run", "--json"]).expect_code(0);
    assert_eq!(dry.json()["failures"][0], "tests.test_ops::test_two");
    env.git_loop(&["start", "fix", "--key", env.key("ann").to_str().unwrap()]).expect_code(0);
    env.git_loop(&["run", "fix"]).expect_code(10);
}

#[cfg(unix)]
#[test]
fn a_pytest_of_another_python_is_said() {
    let mut env = place();
    python_project(&env, "import pytest\n");
    // A python3 without it comes first, and a pytest that names its own.
    let python = env.script("bin/python3", "#!/bin/sh\nexit 1\n");
    let other = env.script("other/python3", "#!/bin/sh\nexit 1\n");
    env.script("bin/pytest", &format!("#!{other}\nprint('pytest')\n"));
    let folder = std::path::Path::new(&python).parent().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap();
    env.set_env("PATH", &format!("{folder}:{path}"));
    let note = format!("pytest is installed for {other}, and the check runs python3, which is {python} here");
    env.git_loop(&["init", "--runner-key"]).expect_code(0).expect_stderr(&note);
    // Not where it is that one's.
    fs::remove_file(env.repo().join("loop.toml")).unwrap();
    env.script("bin/pytest", &format!("#!{python}\nprint('pytest')\n"));
    let quiet = env.git_loop(&["init"]).expect_code(0);
    assert!(!quiet.stderr.contains("pytest is installed"), "{quiet:?}");
}

#[test]
fn an_agent_on_the_path_is_proposed_and_its_folder_named() {
    let mut env = place();
    cargo_project(&env);
    let agent = env.script("bin/claude", "#!/bin/sh\n");
    let folder = std::path::Path::new(&agent).parent().unwrap().to_str().unwrap().to_owned();
    let path = env
        .command("git", env.repo())
        .get_envs()
        .find(|(name, _)| *name == "PATH")
        .unwrap()
        .1
        .unwrap()
        .to_owned();
    env.set_env("PATH", &format!("{folder}:{}", path.to_str().unwrap()));
    env.git_loop(&["init"]).expect_code(0);
    let text = fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    assert!(text.contains("command = [\"claude\", \"-p\""), "{text}");
    assert!(text.contains(&format!("# read_only = [\"{folder}\"]")), "{text}");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Terms"]);
    let start = env.git_loop(&["start", "fix"]).expect_code(0);
    assert!(!start.stderr.contains("usually costs money"), "what it uses is read: {start:?}");
}

#[test]
fn what_is_there_is_never_replaced() {
    let env = place();
    cargo_project(&env);
    env.write("loop.toml", "mine\n");
    let output = env
        .git_loop(&["init", "--runner-key", "--hooks"])
        .expect_code(129)
        .expect_stderr("loop.toml exists already");
    assert!(output.stderr.contains("hint: "), "{output:?}");
    assert_eq!(fs::read_to_string(env.repo().join("loop.toml")).unwrap(), "mine\n");
    assert!(!env.repo().join(".loops").exists() && !env.repo().join(".git/loops/keys").exists());
    assert_eq!(env.try_git(&["config", "loop.signingKey"]).code, 1, "nothing was set");

    // A trust file is added to, once.
    fs::remove_file(env.repo().join("loop.toml")).unwrap();
    let lead = format!("# ours\nlead@example.org {}", env.public_key("lead"));
    env.write(".loops/allowed_signers", &lead);
    env.git_loop(&["init"]).expect_code(0);
    let signers = fs::read_to_string(env.repo().join(".loops/allowed_signers")).unwrap();
    let (begin, added) = signers.split_at(lead.len());
    assert_eq!(begin, lead);
    assert!(added.starts_with(&format!("\n{REVIEWER} namespaces=\"git\" ssh-ed25519 ")), "{added}");
    fs::remove_file(env.repo().join("loop.toml")).unwrap();
    let again = env.git_loop(&["init"]).expect_code(0);
    assert!(again.stdout.contains("kept .loops/allowed_signers"), "{again:?}");
    assert_eq!(fs::read_to_string(env.repo().join(".loops/allowed_signers")).unwrap(), signers);
}

#[test]
fn a_trust_file_that_the_configuration_names_is_the_users() {
    let env = place();
    cargo_project(&env);
    for key in ["loop.allowedSigners", "gpg.ssh.allowedSignersFile"] {
        env.git(&["config", key, env.trust_file().to_str().unwrap()]);
        let before = fs::read_to_string(env.trust_file()).unwrap();
        let json = env.git_loop(&["init", "--runner-key", "--json"]).expect_code(0).json();
        assert_eq!(fs::read_to_string(env.trust_file()).unwrap(), before);
        assert!(!env.repo().join(".loops").exists());
        assert_eq!(json["principals"]["user"], REVIEWER, "the file knows the key");
        let missing = json["allowed_signers"]["missing"].as_array().unwrap();
        assert_eq!(missing.len(), 1, "only the runner's key is new: {missing:?}");
        let step = json["next"]
            .as_array()
            .unwrap()
            .iter()
            .find(|step| step.as_str().unwrap().starts_with("echo "))
            .unwrap();
        assert!(step.as_str().unwrap().contains(missing[0].as_str().unwrap()), "{step}");
        // The step as it is printed is enough.
        env.run_command(env.command("sh", env.repo()).args(["-c", step.as_str().unwrap()])).expect_code(0);
        let ann = env.key("ann");
        let id = if key.starts_with("loop") { "one" } else { "two" };
        env.git_loop(&["start", id, "--key", ann.to_str().unwrap()]).expect_code(0);
        fs::write(env.trust_file(), before).unwrap();
        fs::remove_file(env.repo().join("loop.toml")).unwrap();
        env.git(&["config", "--unset", key]);
    }
}

#[test]
fn keys_that_are_missing_are_said_before_anything_is_written() {
    let env = place();
    cargo_project(&env);
    let before = env.users_things();
    env.git_loop(&["init", "--key", "/nonexistent/key"]).expect_code(30).expect_stderr("/nonexistent/key");
    env.git(&["config", "--unset", "user.signingkey"]);
    env.git_loop(&["init"]).expect_code(30).expect_stderr("git loop init --runner-key");
    env.git(&["config", "user.signingkey", env.key("ann").to_str().unwrap()]);
    env.git(&["config", "user.email", "two words@example.org"]);
    env.git_loop(&["init"]).expect_code(30).expect_stderr("cannot be a principal");
    env.git(&["config", "user.email", REVIEWER]);
    env.write(".loops/allowed_signers", "nonsense\n");
    env.git_loop(&["init"]).expect_code(30).expect_stderr("line 1");
    fs::remove_dir_all(env.repo().join(".loops")).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(env.home(), env.repo().join(".loops")).unwrap();
        env.git_loop(&["init"]).expect_code(30).expect_stderr("is a symlink");
        fs::remove_file(env.repo().join(".loops")).unwrap();
    }
    let after = env.users_things();
    let same = |text: &str| {
        text.lines().filter(|line| !line.contains("signingkey")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(same(&after), same(&before));

    // A runner without a person: the loop can run, and a reviewer is asked for.
    env.git(&["config", "--unset", "user.signingkey"]);
    let output =
        env.git_loop(&["init", "--runner-key", "--json"]).expect_code(0).expect_stderr("nobody could review");
    assert!(output.json()["principals"]["user"].is_null());
    env.commit("Terms");
    env.git_loop(&["start", "fix"]).expect_code(0).expect_stderr("nobody could review");
}

#[test]
fn the_key_of_the_runner_is_kept_and_is_nobody_elses() {
    let env = place();
    cargo_project(&env);
    let first = env.git_loop(&["init", "--runner-key", "--json"]).expect_code(0).json();
    assert_eq!(first["config"][0]["key"], "loop.signingKey");
    let key = env.repo().join(".git/loops/keys/runner");
    let before = fs::read_to_string(&key).unwrap();
    let runners_own = env.git_loop(&["init", "--key", key.to_str().unwrap()]);
    runners_own.expect_code(129);
    // Without the flag the repository still has its runner.
    for arguments in [&["init", "--runner-key", "--json"][..], &["init", "--json"]] {
        fs::remove_file(env.repo().join("loop.toml")).unwrap();
        let again = env.git_loop(arguments).expect_code(0).json();
        assert_eq!(again["principals"], first["principals"]);
        assert_eq!(again["config"], serde_json::json!([]), "it was set already");
        assert_eq!(again["files"].as_array().unwrap().len(), 1, "only loop.toml is new: {again}");
    }
    assert_eq!(fs::read_to_string(&key).unwrap(), before);
    // From a linked worktree it is the same key.
    let linked = env.root().join("linked");
    env.git(&["worktree", "add", "--quiet", "--detach", linked.to_str().unwrap()]);
    fs::create_dir(linked.join("sub")).unwrap();
    let there = env.git_loop_in(&linked.join("sub"), &["init", "--json"]).expect_code(0).json();
    assert_eq!(there["principals"]["runner"], first["principals"]["runner"]);
    assert!(linked.join("loop.toml").is_file() && linked.join(".loops/allowed_signers").is_file());
    assert_eq!(fs::read_to_string(&key).unwrap(), before);
}

#[test]
fn a_repository_that_was_moved_is_told_where_its_key_is_now() {
    let env = place();
    cargo_project(&env);
    env.git_loop(&["init", "--runner-key"]).expect_code(0);
    fill_in(&env, "exit 1\n");
    let moved = env.root().join("moved here");
    fs::rename(env.repo(), &moved).unwrap();
    let started = env.git_loop_in(&moved, &["start", "fix"]).expect_code(30);
    let key = moved.join(".git/loops/keys/runner");
    let hint = format!("git config loop.signingKey '{}'", key.display());
    assert!(started.stderr.contains(&hint), "{started:?}");
    env.git_in(&moved, &["config", "loop.signingKey", key.to_str().unwrap()]);
    env.git_loop_in(&moved, &["start", "fix", "--dry-run"]);
    env.git_loop_in(&moved, &["start", "fix"]).expect_code(1).expect_stderr("may not approve this contract");
}

/// A halt for the check's integrity is left by an approver alone: not by the machine whose worker weakened the tests.
#[test]
fn a_runner_with_a_key_of_its_own_does_not_renew_what_its_worker_did_to_the_check() {
    let env = place();
    env.write("src/a", "0\n");
    env.write(
        "check.sh",
        "if grep -q 1 src/a; then echo ok one; else echo fail one; bad=1; fi\necho done 1\nexit ${bad:-0}\n",
    );
    env.commit("Begin");
    env.git_loop(&["init", "--runner-key"]).expect_code(0);
    fill_in(&env, "printf 'echo ok one\necho done 1\n' > check.sh\n");
    let ann = env.key("ann");
    let ann = ann.to_str().unwrap();
    env.git_loop(&["start", "weak", "--key", ann]).expect_code(0);
    env.git_loop(&["run", "weak"]).expect_code(13);
    env.git_loop(&["renew", "weak", "weak-2"])
        .expect_code(1)
        .expect_stderr("is not an approver of loop `weak`");
    env.git_loop(&["renew", "weak", "weak-2", "--key", ann])
        .expect_code(0)
        .expect_stderr("hint: git loop run weak-2");
}

#[test]
fn where_the_trust_file_counts_is_said() {
    let env = place();
    cargo_project(&env);
    let next = |env: &TestEnv| {
        let json = env.git_loop(&["init", "--json"]).expect_code(0).json();
        fs::remove_file(env.repo().join("loop.toml")).unwrap();
        json["next"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| step.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let has = |steps: &[String], step: &str| steps.iter().any(|one| one == step);
    assert!(has(&next(&env), "git add loop.toml .loops && git commit -m 'Terms of a loop'"));
    env.git(&["switch", "--quiet", "-c", "topic"]);
    assert!(has(&next(&env), "bring .loops/allowed_signers to the branch main"));
    env.git(&["branch", "--quiet", "-m", "main", "trunk"]);
    assert!(has(&next(&env), "git config loop.protectedBranch topic"));
    env.git(&["branch", "--quiet", "-m", "trunk", "main"]);

    let remote = env.root().join("remote.git");
    env.git(&["init", "--quiet", "--bare", remote.to_str().unwrap()]);
    env.git(&["remote", "add", "origin", remote.to_str().unwrap()]);
    env.git(&["push", "--quiet", "origin", "main"]);
    env.git(&["remote", "set-head", "origin", "main"]);
    env.git(&["switch", "--quiet", "main"]);
    assert!(has(&next(&env), "git push"));
    env.commit("Trust");
    env.git(&["push", "--quiet", "origin", "main"]);
    let steps = next(&env);
    assert!(!has(&steps, "git push"), "{steps:?}");
    assert!(has(&steps, "git add loop.toml && git commit -m 'Terms of a loop'"), "{steps:?}");
}

#[test]
fn what_a_loop_would_not_see_or_would_reject_is_said() {
    let env = place();
    env.write("src/lib.rs", "");
    env.commit("Begin");
    env.write("Cargo.toml", "[package]\n");
    env.git_loop(&["init"]).expect_code(0).expect_stderr("Cargo.toml is not committed");
    fs::remove_file(env.repo().join("loop.toml")).unwrap();
    env.commit("Package");
    let output = env.git_loop(&["init"]).expect_code(0);
    assert!(output.stderr.contains("Cargo.lock: tools leave that behind"), "{output:?}");
    assert!(output.stderr.contains("add it to .gitignore"), "{output:?}");
}

#[test]
fn an_unknown_project_gets_a_template_that_start_refuses_until_it_is_filled_in() {
    let env = place();
    env.write("README", "hello\n");
    env.commit("Begin");
    let json = env.git_loop(&["init", "--json"]).expect_code(0).json();
    assert_eq!(json["project"], "unknown");
    assert_eq!(
        json["fill_in"],
        serde_json::json!(["worker.command", "check.command", "paths.mutable", "paths.check"])
    );
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Terms"]);
    env.git_loop(&["start", "fix"]).expect_code(129).expect_stderr("paths.check");
    env.write("src/a", "0\n");
    env.write(
        "check.sh",
        "if grep -q 1 src/a; then echo ok one; else echo fail one; fi\necho done 1\ngrep -q 1 src/a\n",
    );
    env.git(&["add", "."]);
    fill_in(&env, "echo 1 > src/a\n");
    env.git_loop(&["run", "fix"]).expect_code(10);
}

#[test]
fn hooks_on_request_and_only_then() {
    let env = place();
    cargo_project(&env);
    let hook = env.repo().join(".git/hooks/pre-push");
    env.git_loop(&["init"]).expect_code(0);
    assert!(!hook.exists());
    fs::remove_file(env.repo().join("loop.toml")).unwrap();
    let json = env.git_loop(&["init", "--hooks", "--json"]).expect_code(0).json();
    assert_eq!(json["hooks"][0]["action"], "installed");
    assert!(hook.exists());
    env.git_loop(&["hooks", "status"]).expect_code(0);
}
