//! What steps print, while they run and after their runner was killed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

use crate::faults::with_mounts;
use crate::support::TestEnv;
use crate::support::crash::{processes, receipts, wait_until, walk};
use crate::support::scenario::{CHECK, numbers};
#[cfg(target_os = "linux")]
use crate::support::tool;

/// The folder of what steps of `fix` print.
fn output(env: &TestEnv) -> PathBuf {
    env.repo().join(".git/loops/fix/output")
}

/// A runner of `fix` that is left to itself.
fn runner(env: &TestEnv, args: &[&str]) -> Child {
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn kill(env: &TestEnv, mut runner: Child) {
    runner.kill().unwrap();
    runner.wait().unwrap();
    wait_until("every process to end", || processes(env).is_empty());
}

/// Waits until a file says `word`, and gives all of it.
#[track_caller]
fn says(path: &Path, word: &str) -> String {
    let read = || fs::read_to_string(path).unwrap_or_default();
    wait_until(&format!("{word} in {}", path.display()), || read().contains(word));
    read()
}

/// The folder that is kept of iteration 1.
#[track_caller]
fn kept(env: &TestEnv) -> PathBuf {
    let environment = receipts(env)[0]["environment_id"].as_str().unwrap().to_owned();
    output(env).join(format!("1-{environment}"))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Nobody could say what a worker had been about when its runner was killed.
#[test]
fn what_a_worker_had_printed_when_its_runner_was_killed_is_kept_and_its_place_is_said() {
    let mut env = TestEnv::new();
    let worker = "if [ $GIT_LOOP_ITERATION = 1 ]; then\n\
                  echo 'first words'; printf 'the key is open-'; sleep 0.3; echo 'sesame, or so'; echo 'oh no' >&2\n\
                  sleep 600\nfi\necho $GIT_LOOP_ITERATION > src/a\nsleep 0.3; echo 'said and done'\n";
    numbers(&env, worker, "");
    let toml = fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write("loop.toml", toml.replacen("usage = \"none\"", "usage = \"none\"\nenv = [\"SECRET_WORD\"]", 1));
    env.set_env("SECRET_WORD", "open-sesame");
    env.git_loop(&["start", "fix"]).expect_code(0);
    let runner = runner(&env, &["run", "fix"]);

    // It can be watched, by this user alone.
    let live = output(&env).join("worker.log");
    let seen = says(&live, "or so");
    assert_eq!(seen, "first words\nthe key is [redacted SECRET_WORD], or so\n");
    assert_eq!(says(&output(&env).join("worker.stderr"), "no"), "oh no\n");
    assert_eq!((mode(&live), mode(&output(&env))), (0o600, 0o700));
    let status = env.git_loop(&["status", "fix"]).expect_code(0);
    let watch = format!("  watch       tail -F {} ", live.display());
    assert!(status.stdout.contains(&watch), "{status:?}");
    let told = env.git_loop(&["prune", "--json"]).expect_code(0).json();
    assert!(live.exists() && told["removed"] == serde_json::json!([]), "{told}");

    kill(&env, runner);
    let status = env.git_loop(&["status", "fix"]).expect_code(0);
    assert!(status.stdout.contains("printed     by a runner that has ended: /"), "{status:?}");

    // The next run puts it aside, and says where; what ran to its end is in the record and nowhere else.
    let next = env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let kept = kept(&env);
    let size = fs::read(kept.join("worker.log")).unwrap().len() + "oh no\n".len();
    let told = format!("fix: what iteration 1 had printed by then ({size} bytes) is in {}\n", kept.display());
    assert!(next.stderr.contains("iteration 1: the runner ended before it was recorded"), "{next:?}");
    assert!(next.stderr.contains(&told), "{told}: {next:?}");
    assert_eq!(fs::read_to_string(kept.join("worker.log")).unwrap(), seen);
    assert_eq!((mode(&kept.join("worker.log")), mode(&kept)), (0o600, 0o700));
    assert_eq!(walk(&output(&env)).len(), 2, "{:?}", walk(&output(&env)));
    assert_eq!(receipts(&env)[0]["decision"]["outcome_reason"], "abandoned");
    let log = env.git_loop(&["show", "fix", "2", "--evidence", "worker.log"]).expect_code(0);
    assert_eq!(log.stdout, "said and done\n");
    let status = env.git_loop(&["status", "fix"]).expect_code(0);
    let told =
        format!("printed     by iteration 1, whose runner was killed ({size} bytes): {}", kept.display());
    assert!(status.stdout.contains(&told), "{told}: {status:?}");
    let status = env.git_loop(&["status", "fix", "--json"]).expect_code(0).json();
    let entry = serde_json::json!({ "iteration": 1, "path": kept.to_str().unwrap(), "bytes": size });
    assert_eq!(status["printed"], serde_json::json!({ "live": [], "kept": [entry] }));
    env.git_loop(&["verify", "fix"]).expect_code(0);

    // It is listed until it is old, and then it goes.
    let name = format!("fix/output/{}", kept.file_name().unwrap().to_str().unwrap());
    let young = env.git_loop(&["prune"]).expect_code(0);
    let why = "what iteration 1 of loop fix had printed when its runner ended; it goes after 7 days";
    assert!(young.stdout.contains(&format!("kept {name}: {why}\n")), "{young:?}");
    assert!(young.stdout.contains("removed 0 things"), "{young:?}");
    let old = SystemTime::now() - Duration::from_secs(8 * 24 * 60 * 60);
    fs::File::open(&kept).unwrap().set_modified(old).unwrap();
    let dry = env.git_loop(&["prune", "-n", "--json"]).expect_code(0).json();
    let entry = serde_json::json!({ "kind": "output", "name": name, "bytes": size });
    assert_eq!(dry["removed"], serde_json::json!([entry]), "{dry}");
    assert!(kept.exists());
    env.git_loop(&["prune"]).expect_code(0);
    assert_eq!(walk(&output(&env)), Vec::<PathBuf>::new());
}

/// A worker that is over in a moment has no file of its own, and its check may take an hour.
#[test]
fn what_a_quick_worker_had_printed_is_kept_when_its_check_is_killed() {
    let env = TestEnv::new();
    numbers(&env, "echo 'all is well'; echo $GIT_LOOP_ITERATION > src/a\n", "");
    let check = format!("if [ \"$(cat src/a)\" = 1 ]; then echo 'ok begun'; sleep 600; fi\n{CHECK}");
    env.write("check.sh", check);
    env.commit("A check that takes its time");
    env.git_loop(&["start", "fix"]).expect_code(0);
    let runner = runner(&env, &["run", "fix"]);
    says(&output(&env).join("check.stdout"), "ok begun\n");
    assert_eq!(says(&output(&env).join("worker.log"), "well"), "all is well\n");
    kill(&env, runner);
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    assert_eq!(fs::read_to_string(kept(&env).join("worker.log")).unwrap(), "all is well\n");
    assert_eq!(fs::read_to_string(kept(&env).join("check.stdout")).unwrap(), "ok begun\n");
    // Of a loop that is not here nobody wants to read anything.
    for name in ["refs/loops/fix/ledger", "refs/loops/fix/head", "refs/notes/loops/fix"] {
        env.git(&["update-ref", "-d", name]);
    }
    env.git_loop(&["prune"]).expect_code(0);
    assert_eq!(walk(&output(&env)), Vec::<PathBuf>::new());
}

/// Before there is an iteration, too: and the check on the base of the next run is not told from this one's files.
#[test]
fn what_the_check_on_the_base_had_printed_is_kept() {
    let env = TestEnv::new();
    numbers(&env, "echo 1 > src/a\n", "");
    env.write("check.sh", format!("echo 'ok begun'; while [ -e tests/slow ]; do sleep 600; done\n{CHECK}"));
    env.write("tests/slow", "");
    env.commit("A check that hangs");
    env.git_loop(&["start", "fix"]).expect_code(0);
    let runner = runner(&env, &["run", "fix"]);
    says(&output(&env).join("baseline.stdout"), "ok begun\n");
    kill(&env, runner);
    let again = self::runner(&env, &["run", "fix"]);
    let base = output(&env).join("base/baseline.stdout");
    says(&base, "ok begun\n");
    let status = env.git_loop(&["status", "fix"]).expect_code(0);
    assert!(status.stdout.contains("printed     by the setup or the check on the base"), "{status:?}");
    kill(&env, again);
}

/// A rehearsal keeps nothing, a holdout's words are nobody's, and what was recorded is not kept twice.
#[test]
fn nothing_is_written_of_a_rehearsal_or_a_holdout() {
    let env = TestEnv::new();
    let holdout = env.root().join("holdout");
    fs::create_dir_all(&holdout).unwrap();
    let run = "echo the-answer; echo the-answer >&2\nsleep 0.5\ntouch asked\nsleep 600\n";
    fs::write(holdout.join("run.sh"), run).unwrap();
    let terms = format!(
        "\n[holdout]\ncommand = [\"sh\", \"run.sh\"]\nfolder = \"{}\"\ntimeout = \"900s\"\n",
        holdout.display()
    );
    numbers(&env, "echo mended; echo 1 > src/a; echo 2 > src/b; echo 3 > src/c\n", &terms);
    env.write("check.sh", format!("sleep 0.2; echo 'ok x' >&2; {CHECK}"));
    env.commit("A check that takes a moment");
    env.git_loop(&["start", "fix", "--dry-run"]).expect_code(0);
    assert!(!output(&env).exists());
    env.git_loop(&["start", "fix"]).expect_code(0);
    let runner = runner(&env, &["run", "fix"]);
    let cache = env.home().join("cache");
    wait_until("the holdout", || walk(&cache).iter().any(|path| path.ends_with("holdout/asked")));
    let mut names: Vec<_> = walk(&output(&env));
    names.sort();
    let names: Vec<_> = names.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["check.stderr", "check.stdout", "worker.log"]);
    for path in walk(&output(&env)) {
        assert!(!fs::read_to_string(&path).unwrap().contains("the-answer"), "{}", path.display());
    }
    kill(&env, runner);
}

/// It could tell the next worker what the check looks for, and a worker could tell lies in it.
#[cfg(target_os = "linux")]
#[test]
fn no_sandbox_has_what_steps_print() {
    for adapter in ["landlock", "bwrap"] {
        if adapter == "bwrap" && !tool("bwrap") {
            continue;
        }
        let env = TestEnv::new();
        let place = output(&env);
        let worker = format!(
            "echo 'first words'; sleep 0.3\n\
             for file in '{0}/worker.log' '{0}/check.stdout' '{0}/1/x'; do cat \"$file\" && echo READ; echo x > \"$file\" && echo WRITTEN; done\n\
             ls '{0}' && echo LISTED; mkdir '{0}/made' && echo MADE; echo 1 > src/a\n",
            place.display()
        );
        numbers(&env, &worker, &format!("\n[sandbox]\nallowed = [\"{adapter}\"]\n"));
        // The check finds what it printed itself no more than what the worker printed.
        let look = format!(
            "sleep 0.3; cat '{0}/worker.log' '{0}/check.stdout' >&2 && echo READ >&2\n",
            place.display()
        );
        env.write("check.sh", format!("{look}{CHECK}"));
        env.commit("A curious check");
        env.git_loop(&["run", "fix", "--once"]).expect_code(0);
        for name in ["worker.log", "worker.stderr", "check.stderr"] {
            let said = env.git_loop(&["show", "fix", "1", "--evidence", name]).expect_code(0).stdout;
            for word in ["READ", "WRITTEN", "LISTED", "MADE"] {
                assert!(!said.contains(word), "{adapter}: {name}: {said}");
            }
            assert_eq!(said.contains("first words"), name == "worker.log", "{adapter}: {name}: {said}");
        }
        assert!(place.exists() && walk(&place).iter().all(|path| path.is_dir()), "{:?}", walk(&place));
    }
}

#[test]
fn a_place_that_cannot_be_written_is_told_once_and_costs_nothing() {
    let slow = "for n in 1 2 3; do echo \"line $n\"; sleep 0.1; done; case $GIT_LOOP_ITERATION in 1) echo 1 > src/a;; 2) echo 2 > src/b;; *) echo 3 > src/c;; esac\n";
    let warning = "fix: warning: what steps print cannot be written while they run: ";
    let env = TestEnv::new();
    numbers(&env, slow, "");
    fs::create_dir_all(output(&env).parent().unwrap()).unwrap();
    fs::write(output(&env), "a file in its place").unwrap();
    let run = env.git_loop(&["run", "fix"]).expect_code(10);
    assert_eq!(run.stderr.matches(warning).count(), 1, "{run:?}");
    let log = env.git_loop(&["show", "fix", "2", "--evidence", "worker.log"]).expect_code(0).stdout;
    assert_eq!(log, "line 1\nline 2\nline 3\n");

    // Full, and read-only.
    for (options, why) in [("size=8k", "No space left on device"), ("ro", "Read-only file system")] {
        let env = TestEnv::new();
        numbers(&env, slow, "");
        let script = format!(
            "set -e; mkdir -p '{0}'; mount -t tmpfs -o {options} tmpfs '{0}'; cd \"$REPO\"; set +e
             cat /dev/zero > '{0}/filler' 2>/dev/null; $LOOP run fix; echo \"run $?\"; $LOOP verify fix; echo \"verify $?\"
             $LOOP show fix 3 --evidence worker.log",
            output(&env).display()
        );
        let Some(run) = with_mounts(&env, &script) else { return };
        assert_eq!(run.stderr.matches(warning).count(), 1, "{run:?}");
        assert!(run.stderr.contains(why), "{run:?}");
        for word in ["run 10\n", "verify 0\n", "line 1\nline 2\nline 3\n"] {
            assert!(run.stdout.contains(word), "{word}: {run:?}");
        }
    }
}
