//! What is found out before a worker is paid, and what a candidate can do that must not stop the loop for ever.

use crate::support::scenario::{HONEST, loop_toml, numbers};
use crate::support::{APPROVER, Output, RUNNER, TestEnv};

/// A worker that leaves a mark in the evidence that it ran: nothing else could.
fn worker_ran(env: &TestEnv, id: &str) -> bool {
    if env.git(&["for-each-ref", &format!("refs/loops/{id}/")]).is_empty() {
        return false;
    }
    let kinds = env.git(&["log", "--first-parent", "--format=%s", &format!("refs/loops/{id}/ledger")]);
    kinds.lines().any(|subject| subject.starts_with("checkpoint"))
}

fn replace_in_terms(env: &TestEnv, from: &str, to: &str) {
    let terms = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    assert!(terms.contains(from), "{from}");
    env.write("loop.toml", terms.replace(from, to));
}

#[track_caller]
fn stops_unpaid(env: &TestEnv, id: &str, needle: &str) -> Output {
    let output = env.git_loop(&["run", id]).expect_code(30).expect_stderr(needle).expect_stderr("hint: ");
    assert!(!worker_ran(env, id), "{output:?}");
    output
}

#[test]
fn an_open_history_in_a_sandbox_is_refused_and_not_a_dangling_link() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "\n[sandbox]\nworker = { history = \"open\" }\n");
    env.git_loop(&["start", "fix"])
        .expect_code(30)
        .expect_stderr("history = \"open\"")
        .expect_stderr("sealed");
    let json = env.git_loop(&["start", "fix", "--dry-run", "--json"]).expect_code(30).json();
    assert_eq!(json["errors"][0]["exit_code"], 30, "{json}");
    assert_eq!(env.git(&["for-each-ref", "refs/loops"]), "", "nothing was written");

    // Where none is allowed it works, and elsewhere nothing weaker is taken in place of the sandbox.
    numbers(
        &env,
        "git log --format=%s -1 > src/a\n",
        "\n[sandbox]\nallowed = [\"none\"]\nworker = { history = \"open\" }\n",
    );
    env.git_loop(&["run", "open", "--once"]).expect_code(0);
    let show = env.git_loop(&["show", "open", "1", "--json"]).expect_code(0).json();
    let candidate = show["record"]["body"]["receipt"]["candidate"].as_str().unwrap().to_owned();
    assert_eq!(env.git(&["show", &format!("{candidate}:src/a")]), "Begin");
    replace_in_terms(&env, "allowed = [\"none\"]", "allowed = [\"landlock\", \"none\"]");
    env.git_loop(&["start", "both"]).expect_code(0).expect_stderr("refused (30) wherever a sandbox works");
    #[cfg(target_os = "linux")]
    {
        stops_unpaid(&env, "both", "closes the repository");
    }
}

#[test]
fn a_ref_that_cannot_take_the_record_stops_the_run_before_the_worker() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let blob = env.git(&["rev-parse", "HEAD:README"]);
    env.git(&["tag", "-a", "-m", "x", "annotated"]);
    let tag = env.git(&["rev-parse", "annotated"]);
    let notes = env.repo().join(".git/refs/notes/loops");
    std::fs::create_dir_all(&notes).unwrap();
    let missing = "1234567890123456789012345678901234567890";
    let cases = [
        ("blob", blob.as_str(), "is no ref of notes"),
        ("tag", &tag, "is no ref of notes"),
        ("absent", missing, "is no ref of notes"),
        ("symbolic", "ref: refs/heads/main", "symbolic"),
        ("garbage", "not an id", "damaged"),
    ];
    for (id, content, needle) in cases {
        env.git_loop(&["start", id]).expect_code(0);
        std::fs::write(notes.join(id), format!("{content}\n")).unwrap();
        stops_unpaid(&env, id, needle);
        std::fs::remove_file(notes.join(id)).unwrap();
        env.git_loop(&["run", id]).expect_code(10);
    }

    // A lock of git's that stays, on each of the three; a reflog that is none.
    for name in ["loops/locked/ledger", "loops/locked/head", "notes/loops/locked"] {
        let _ = env.git_loop(&["start", "locked"]);
        let lock = env.repo().join(format!(".git/refs/{name}.lock"));
        std::fs::write(&lock, "").unwrap();
        stops_unpaid(&env, "locked", "locked");
        std::fs::remove_file(&lock).unwrap();
    }
    let log = env.repo().join(".git/logs/refs/notes/loops/locked");
    std::fs::create_dir_all(log.join("x")).unwrap();
    std::fs::write(log.join("x/y"), "").unwrap();
    stops_unpaid(&env, "locked", "logs/refs/notes/loops/locked");
    std::fs::remove_dir_all(log).unwrap();
    env.git_loop(&["run", "locked"]).expect_code(10);
}

#[test]
fn a_notes_ref_that_is_spoilt_between_iterations_costs_no_worker() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let blob = env.git(&["rev-parse", "HEAD:README"]);
    std::fs::write(env.repo().join(".git/refs/notes/loops/fix"), format!("{blob}\n")).unwrap();
    env.git_loop(&["run", "fix"]).expect_code(30).expect_stderr("git update-ref -d refs/notes/loops/fix");
    let subjects = env.git(&["log", "--first-parent", "--format=%s", "refs/loops/fix/ledger"]);
    assert_eq!(subjects.lines().filter(|line| line.starts_with("checkpoint")).count(), 1, "{subjects}");
    env.git(&["update-ref", "-d", "refs/notes/loops/fix"]);
    env.git_loop(&["run", "fix"]).expect_code(10);
}

/// A check that makes the warm folder, as a build would, and then judges as ever.
const WARMING: &str = "mkdir -p web/cache && echo warm > web/cache/x || echo 'no cache'\n";

#[cfg(unix)]
#[test]
fn whatever_lies_in_the_place_of_a_warm_folder_no_run_fails_for_ever() {
    // What the first iteration leaves; the second and third mend the numbers in what became green.
    let cases = [
        ("a link above", "rm -rf web; ln -s src web; echo 1 > src/a", Some("120000 blob")),
        ("a file above", "rm -rf web; echo x > web; echo 1 > src/a", Some("100644 blob")),
        ("a link in its place", "rm -rf web/cache; ln -s ../src web/cache; echo 1 > src/a", None),
        ("a file in its place", "rm -rf web/cache; echo x > web/cache; echo 1 > src/a", None),
        ("a broken link", "rm -rf web/cache; ln -s nowhere web/cache; echo 1 > src/a", None),
    ];
    for (what, first, left) in cases {
        let env = TestEnv::new();
        let worker = format!(
            "case $GIT_LOOP_ITERATION in 1) {first} ;; 2) echo 2 > src/b ;; *) echo 3 > src/c ;; esac\n"
        );
        numbers(&env, &worker, "\n[worktree]\nwarm = [\"web/cache\"]\n");
        replace_in_terms(&env, "mutable = [\"src/**\"]", "mutable = [\"src/**\", \"web\", \"web/**\"]");
        let check = std::fs::read_to_string(env.repo().join("check.sh")).unwrap();
        env.write("check.sh", format!("{WARMING}{check}"));
        env.write("web/index", "1\n");
        env.commit("A web folder");
        let output = env.git_loop(&["run", "fix"]).expect_code(10);
        let entry = env.git(&["ls-tree", "refs/loops/fix/head", "web"]);
        match left {
            Some(mode) => {
                assert!(entry.starts_with(mode), "{what}: {entry}");
                assert!(output.stderr.contains("warm folder web/cache is left out"), "{what}: {output:?}");
            }
            None => {
                assert_eq!(env.git(&["ls-tree", "refs/loops/fix/head", "web/"]).lines().count(), 1, "{what}");
            }
        }
        assert_eq!(
            env.git(&["ls-tree", "-r", "--name-only", "refs/loops/fix/head", "src"]).lines().count(),
            3
        );
        env.git_loop(&["verify", "fix"]).expect_code(0);
    }
}

/// An id, the end of the check, what is replaced in the terms, what the refusal says.
type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str);

#[test]
fn a_check_that_shows_nothing_on_the_base_stops_the_run_before_the_worker() {
    let exit = ("from = \"failures\"", "from = \"exit\"");
    let none = ("format = \"lines\"", "format = \"none\"");
    let cases: [Case<'_>; 8] = [
        ("silent", "exit 1\n", &[], "no verdict"),
        ("cut", "echo 'fail a'\nexit 1\n", &[], "no verdict"),
        ("lying", "echo 'fail a'\necho 'done 1'\n", &[], "no verdict"),
        ("missing", "no-such-program\n", &[exit, none], "exited with 127"),
        ("noreport", "exit 1\n", &[exit], "no verdict"),
        (
            "slow",
            "sleep 60\n",
            &[exit, none, ("format = \"none\"\ntimeout = \"60s\"", "format = \"none\"\ntimeout = \"1s\"")],
            "timed out",
        ),
        ("killed", "kill -9 $$\n", &[exit, none], "signal 9"),
        (
            "number",
            "echo score 7\nexit 1\n",
            &[none, ("from = \"failures\"", "from = \"regex\"\npattern = \"score ([0-9]+)\"")],
            "check.success_exit_code",
        ),
    ];
    for (id, check, changes, needle) in cases {
        let env = TestEnv::new();
        numbers(&env, HONEST, "");
        for (from, to) in changes {
            replace_in_terms(&env, from, to);
        }
        env.write("check.sh", format!("echo 'a word of explanation' >&2\n{check}"));
        env.commit("A check");
        let output = stops_unpaid(&env, id, needle);
        assert!(output.stderr.contains("a word of explanation"), "{id}: {output:?}");
        env.git_loop(&["start", "try", "--dry-run"])
            .expect_code(30)
            .expect_stderr("a run would stop before its first worker");
        assert_eq!(env.git(&["rev-list", "--count", &format!("refs/loops/{id}/ledger")]), "1", "{id}");
    }
}

#[test]
fn a_red_base_is_a_verdict_where_the_exit_code_is_the_metric() {
    for (red, format) in
        [("exit 1", "none"), ("kill -ABRT $$", "none"), ("echo 'fail a'; echo 'done 1'; exit 1", "lines")]
    {
        let env = TestEnv::new();
        numbers(&env, HONEST, "");
        replace_in_terms(&env, "from = \"failures\"", "from = \"exit\"");
        replace_in_terms(&env, "format = \"lines\"", &format!("format = \"{format}\""));
        let green = if format == "lines" { "echo 'ok a'; echo 'done 1'" } else { "true" };
        env.write("check.sh", format!("if [ \"$(cat src/a)\" = 1 ]; then {green}; else {red}; fi\n"));
        env.commit("A check");
        env.git_loop(&["run", "fix"]).expect_code(10);
        env.git_loop(&["verify", "fix"]).expect_code(0);
    }
}

#[test]
fn start_says_what_is_missing_and_run_refuses_it() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let good = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let worker = good.lines().find(|line| line.starts_with("command = [\"sh\", \"/")).unwrap().to_owned();
    let cases = [
        (
            "program",
            worker.as_str(),
            "command = [\"no-such-worker\"]",
            "the worker's program no-such-worker is not found",
        ),
        (
            "script",
            worker.as_str(),
            "command = [\"sh\", \"worker.sh\"]",
            "the worker's script worker.sh is not in the tree",
        ),
        (
            "own",
            worker.as_str(),
            "command = [\"./worker\"]",
            "the worker's program ./worker is not in the tree",
        ),
        (
            "check",
            "\"sh\", \"check.sh\"",
            "\"no-such-check\"",
            "the check's program no-such-check is not found",
        ),
    ];
    for (id, from, to, needle) in cases {
        env.write("loop.toml", good.replace(from, to));
        env.git_loop(&["start", id]).expect_code(0).expect_stderr(&format!("would stop here: {needle}"));
        let said = stops_unpaid(&env, id, needle);
        assert_eq!(said.stderr.contains("frozen"), needle.contains("not in the tree"), "{said:?}");
        // Whoever asks what to do next is not sent to run it first.
        let status = env.git_loop(&["status", id]).expect_code(0);
        assert!(status.stderr.contains(&format!("would stop here: {needle}")), "{status:?}");
        // A run that is new starts nothing, and a rehearsal tells one fault once and runs nothing.
        let new = format!("new-{id}");
        stops_unpaid(&env, &new, needle);
        let dry = env.git_loop(&["start", &new, "--dry-run"]).expect_code(30);
        assert_eq!(dry.stderr.matches(needle).count(), 1, "{dry:?}");
        assert!(!dry.stderr.contains("running the check"), "{dry:?}");
        assert_eq!(env.git(&["for-each-ref", &format!("refs/loops/{new}/")]), "", "{id}");
    }
}

#[test]
fn a_script_that_is_nowhere_is_missed_and_a_program_without_its_bit_is_named() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let good = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let worker = good.lines().find(|line| line.starts_with("command = [\"sh\", \"/")).unwrap().to_owned();
    let plain = env.root().join("plain");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    let plain = plain.to_str().unwrap();
    let cases = [
        (
            worker.as_str(),
            "[\"sh\", \"/nowhere/w.sh\"]",
            "the worker's script /nowhere/w.sh is not there".to_owned(),
        ),
        (
            &worker,
            "[\"sh\", \"../w.sh\"]",
            "the worker's script ../w.sh leads out of the worktree".to_owned(),
        ),
        (
            "command = [\"sh\", \"check.sh\"]",
            "[\"sh\", \"/nowhere/c.sh\"]",
            "the check's script /nowhere/c.sh".to_owned(),
        ),
        #[cfg(unix)]
        (&worker, &format!("[\"{plain}\"]"), format!("the worker's program {plain} is not executable")),
    ];
    for (number, (from, to, needle)) in cases.iter().enumerate() {
        env.write("loop.toml", good.replace(from, &format!("command = {to}")));
        env.git_loop(&["start", &format!("at{number}")]).expect_code(0).expect_stderr(needle);
        stops_unpaid(&env, &format!("new{number}"), needle);
    }
    assert!(!env.git(&["for-each-ref", "refs/loops"]).contains("new"));
}

#[test]
fn what_a_run_would_be_refused_for_is_refused_before_the_contract_is_signed() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    // Weaker than the machine's owner allows.
    env.git(&["config", "--global", "loop.minSandbox", "landlock"]);
    let terms = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write("loop.toml", format!("{terms}\n[sandbox]\nallowed = [\"none\"]\n"));
    stops_unpaid(&env, "weak", "loop.minSandbox asks for landlock")
        .expect_stderr("nothing but \"none\": worker and check run with your own rights");
    env.git_loop(&["start", "warned"])
        .expect_code(0)
        .expect_stderr("`git loop run` would stop here: no sandbox");
    env.git(&["config", "--global", "--unset", "loop.minSandbox"]);
    env.write("loop.toml", &terms);
    // No runner.
    let lead = env.key("lead");
    env.write("loop.toml", format!("{terms}\n[roles]\nrunner = [\"{RUNNER}\"]\n"));
    let key = lead.to_str().unwrap();
    env.git_loop(&["run", "other", "--key", key])
        .expect_code(1)
        .expect_stderr("is not a runner of loop `other`");
    // The key that is configured may run what the other one signed.
    let signed = env.git_loop(&["start", "signed", "--key", key]).expect_code(0);
    assert!(signed.stderr.ends_with("hint: git loop run signed\n"), "{signed:?}");
    env.git(&["config", "user.signingkey", key]);
    for arguments in [&["start", "theirs"][..], &["start", "theirs-too", "--key", key]] {
        let id = arguments[1];
        env.git_loop(arguments)
            .expect_code(0)
            .expect_stderr(&format!("{APPROVER} may not run it; {RUNNER} may: git loop run {id} --key FILE"));
    }
    let loops = env.git(&["for-each-ref", "--format=%(refname)", "refs/loops"]);
    assert!(!loops.contains("weak") && !loops.contains("other"), "{loops}");
}

#[test]
fn a_clone_without_loops_is_told_to_fetch_them() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let terms = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let fetch = "git loop sync upstream fix";
    env.git(&["remote", "add", "upstream", "/nowhere"]);
    env.write("loop.toml", terms.replace("from = \"failures\"", "from = \"nothing\""));
    env.git_loop(&["run", "fix"]).expect_code(129).expect_stderr(fetch);
    env.write("loop.toml", &terms);
    env.git_loop(&["run", "fix"]).expect_code(10).expect_stderr(fetch);
    let second = env.git_loop(&["run", "again"]).expect_code(10);
    assert!(!second.stderr.contains("git fetch"), "{second:?}");
}

#[test]
fn what_is_committed_after_the_base_is_not_called_uncommitted() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let base = env.git(&["rev-parse", "HEAD"]);
    env.write("later", "x\n");
    env.write("README", "changed\n");
    std::fs::remove_file(env.repo().join("src/c")).unwrap();
    env.commit("Later");
    let clean = env.git_loop(&["start", "clean", "--base", &base]).expect_code(0);
    assert!(!clean.stderr.contains("not committed"), "{clean:?}");
    env.write("src/a", "5\n");
    env.git_loop(&["start", "dirty", "--base", &base]).expect_code(0).expect_stderr("is not in it: src/a\n");
}

#[test]
fn start_says_what_is_not_committed() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    // The terms themselves need not be; ignored files are nobody's work.
    std::fs::write(env.repo().join(".git/info/exclude"), "*.tmp\n").unwrap();
    env.write("x.tmp", "x");
    let clean = env.git_loop(&["start", "one"]).expect_code(0);
    assert!(!clean.stderr.contains("committed"), "{clean:?}");
    // Only touched.
    let now = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    std::fs::File::options().write(true).open(env.repo().join("src/c")).unwrap().set_modified(now).unwrap();
    let clean = env.git_loop(&["start", "two"]).expect_code(0);
    assert!(!clean.stderr.contains("committed"), "{clean:?}");

    env.write("src/a", "changed\n");
    env.write("src/new/file", "x\n");
    env.write("notes/of-mine", "x\n");
    env.write("staged", "x\n");
    env.git(&["add", "staged"]);
    std::fs::remove_file(env.repo().join("src/b")).unwrap();
    let before = env.users_things();
    let head = env.git(&["rev-parse", "--short=12", "HEAD"]);
    let said = env.git_loop(&["start", "three"]).expect_code(0);
    assert!(said.stderr.contains(&format!("the loop starts from the commit {head}")), "{said:?}");
    assert!(said.stderr.contains("is not in it: src/a, src/b, src/new/file and 1 more"), "{said:?}");
    assert_eq!(env.users_things(), before);
    env.git_loop(&["start", "four", "--dry-run"]).expect_code(0).expect_stderr("is not in it: src/a");
}

#[test]
fn a_lock_file_that_is_neither_committed_nor_ignored_is_told_before_and_after() {
    let env = TestEnv::new();
    numbers(&env, "echo 1 > src/a; echo 1 > other; echo x > Cargo.lock\n", "");
    env.write("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\n");
    env.commit("A package");
    env.git_loop(&["start", "fix"])
        .expect_code(0)
        .expect_stderr("Cargo.lock: tools leave that behind")
        .expect_stderr("Commit it, or add it to .gitignore");
    let run = env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    assert!(
        run.stderr.contains("rejected (outside_mutable_paths): Cargo.lock and 1 other path (a tool left it; commit it or add it to .gitignore"),
        "{run:?}"
    );
    env.write(".gitignore", "Cargo.lock\n");
    env.commit("Ignore it");
    let quiet = env.git_loop(&["start", "again"]).expect_code(0);
    assert!(!quiet.stderr.contains("Cargo.lock"), "{quiet:?}");
}

#[test]
fn tokens_that_are_not_told_are_not_zero() {
    let worker = |cost: &str| format!("{HONEST}\nprintf '{{\"cost\":{cost}}}' > \"$GIT_LOOP_EVIDENCE\"\n");
    let terms = |env: &TestEnv, cost: &str, limits: &str| {
        numbers(env, &worker(cost), "");
        replace_in_terms(env, "usage = \"none\"", "usage = \"json\"");
        replace_in_terms(env, "no_progress = 3", &format!("no_progress = 3\n{limits}"));
    };
    let env = TestEnv::new();
    for (id, cost) in [("none", "{\"usd\":0}"), ("half", "{\"usd\":0,\"prompt_tokens\":1}")] {
        terms(&env, cost, "tokens = 1000");
        let run = env.git_loop(&["run", id, "--json"]).expect_code(18);
        let json = run.json();
        assert_eq!((&json["halt_reason"], &json["iteration_count"]), (&"budget_exceeded".into(), &1.into()));
        let status = env.git_loop(&["run", id]).expect_code(18);
        assert!(status.stdout.contains("in tokens, of the last run is not known"), "{status:?}");
        env.git_loop(&["verify", id]).expect_code(0);
    }
    terms(&env, "{\"usd\":0}", "tokens = 1000\nunknown_cost = \"allow\"");
    env.git_loop(&["run", "allowed"]).expect_code(10);
    terms(&env, "{\"usd\":0}", "");
    env.git_loop(&["run", "unlimited"]).expect_code(10);
    terms(&env, "{\"usd\":0.25,\"prompt_tokens\":1,\"completion_tokens\":2}", "tokens = 1000");
    env.git_loop(&["run", "known"]).expect_code(10).expect_stderr("failing 2; it cost $0.25");
    // A worker that is declared to cost nothing has no tokens to count, and the limit no meaning.
    let script = env.script("worker.sh", HONEST);
    env.write("loop.toml", loop_toml(&script, "tokens = 1000\n"));
    env.git_loop(&["run", "free", "-f", "loop.toml"]).expect_code(10).expect_stderr("never stops anything");
}

#[cfg(target_os = "linux")]
#[test]
fn a_check_sees_as_many_processors_as_the_contract_says() {
    let env = TestEnv::new();
    numbers(&env, "echo 1 > src/a\n", "");
    let check = "n=$(env -u OMP_NUM_THREADS nproc); echo \"fail nproc-$n\"; echo \"fail jobs-$CARGO_BUILD_JOBS\"; echo \"fail mine-$GOMAXPROCS\"; echo fail it; echo done 4; exit 1\n";
    env.write("check.sh", check);
    env.commit("A check that counts");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let at = toml.rfind("timeout = \"60s\"").unwrap();
    let with = |count: u32| {
        format!("{}cpus = {count}\nenv = {{ GOMAXPROCS = \"3\" }}\n{}", &toml[..at], &toml[at..])
    };
    env.write("loop.toml", with(1));
    // A rehearsal runs the check and keeps nothing.
    let told = env.git_loop(&["start", "fix", "--dry-run", "--json"]).expect_code(0);
    for test in ["nproc-1", "jobs-1", "mine-3"] {
        assert!(told.stdout.contains(test), "{told:?}");
    }
    env.write("loop.toml", with(1024));
    let refused = env.git_loop(&["run", "fix"]).expect_code(30);
    assert!(refused.stderr.contains("check.cpus = 1024, and the runner has"), "{refused:?}");
    env.write("loop.toml", with(0));
    env.git_loop(&["start", "fix"]).expect_code(129).expect_stderr("check.cpus");
}

#[test]
fn a_status_says_that_the_key_is_gone_which_the_next_run_needs() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["start", "fix"]).expect_code(0);
    let fine = env.git_loop(&["status", "fix"]).expect_code(0);
    assert!(!fine.stderr.contains("would stop"), "{fine:?}");
    let gone = env.home().join("gone");
    env.git(&["config", "loop.signingKey", gone.to_str().unwrap()]);
    let status =
        env.git_loop(&["status", "fix"]).expect_code(0).expect_stderr("`git loop run` would stop here: ");
    assert!(status.stderr.contains(gone.to_str().unwrap()), "{status:?}");
    env.git(&["config", "--unset", "loop.signingKey"]);
    env.git(&["config", "--unset", "user.signingkey"]);
    env.git_loop(&["status", "fix"]).expect_code(0).expect_stderr("there is no signing key");
    // Nobody needs it who has nothing to run.
    env.git_loop(&["stop", "fix", "--key", env.key("ann").to_str().unwrap()]).expect_code(0);
    env.git_loop(&["run", "fix", "--resume", "--key", env.key("runner").to_str().unwrap()]).expect_code(10);
    let over = env.git_loop(&["status", "fix"]).expect_code(0);
    assert!(!over.stderr.contains("signing key"), "{over:?}");
}
