//! `kill -9` at every boundary between two steps, and at random moments: nothing is lost, counted twice or left.
//!
//! The places are those of `git_loop::crash`. Which of them a command comes to is found out by running it once, so that none can be
//! forgotten; each is then visited with a fresh copy of everything.
#![cfg(unix)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use crate::support::TestEnv;
use crate::support::crash::{Saved, journalled, paid, receipts, run_killed, sound, tidy, trace, wait_until};

/// With `GIT_LOOP_KILLS` every visit of every place is worth a kill.
fn thorough() -> bool {
    std::env::var_os("GIT_LOOP_KILLS").is_some()
}

/// Which visits of the places that a command comes to are worth a kill: the first of each that `chosen` names.
fn visits(passed: &[(String, u32)], chosen: Chosen<'_>) -> Vec<(String, u32)> {
    let mut visits = Vec::new();
    for (name, count) in passed {
        if thorough() {
            visits.extend((1..=*count).map(|visit| (name.clone(), visit)));
        } else if chosen.is_none_or(|chosen| chosen.contains(&name.as_str())) {
            visits.push((name.clone(), 1));
            // The first command is the check on the base; the worker and its check come after it.
            if chosen.is_none() && name.starts_with("command:") {
                visits.extend((2..=3.min(*count)).map(|visit| (name.clone(), visit)));
            }
        }
    }
    visits
}

/// The names of places; all if there are none.
type Chosen<'a> = Option<&'a [&'a str]>;

/// Where a command that appends one record differs from any other.
const APPENDING: Chosen<'static> = Some(&["publish:before", "refs:first-moved", "refs:moved"]);

/// Everything about one command that is killed.
struct Story<'a> {
    env: &'a TestEnv,
    /// How it is without a kill.
    code: i32,
    args: &'a [&'a str],
    /// Which places are visited where not all are.
    chosen: Chosen<'a>,
    /// What is the user's, as it was before anything was killed: what a dead runner left is no part of it.
    users: String,
}

impl Story<'_> {
    /// Kills the command at each of its places, goes on with `next`, and looks whether all is well. Gives the names of the places.
    fn tell(&self, next: impl Fn(&TestEnv)) -> BTreeSet<String> {
        let env = self.env;
        let saved = Saved::of(env);
        let passed = trace(env, self.args, self.code);
        for (place, visit) in visits(&passed, self.chosen) {
            saved.restore();
            run_killed(env, self.args, &place, visit);
            let noted = journalled(env);
            let seen = match env.try_git(&["rev-parse", "--verify", "--quiet", "refs/loops/fix/ledger"]).code
            {
                0 => sound(env, 0, &noted).len(),
                _ => 0,
            };
            next(env);
            let receipts = sound(env, seen, &noted);
            let context = format!("{:?} killed at {place}:{visit}", self.args);
            let calm = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tidy(env, &receipts)));
            assert!(calm.is_ok(), "{context}");
            assert_eq!(env.users_things(), self.users, "{context}");
        }
        saved.restore();
        passed.into_iter().map(|(name, _)| name).collect()
    }
}

/// Goes on with the loop until it halts.
#[track_caller]
fn to_the_end(env: &TestEnv) {
    env.git_loop(&["run", "fix"]).expect_code(10);
}

#[test]
fn a_runner_that_is_killed_at_any_step_is_continued() {
    let env = TestEnv::new();
    paid(&env);
    env.git_loop(&["start", "fix"]).expect_code(0);
    let story = Story { env: &env, code: 10, args: &["run", "fix"], chosen: None, users: env.users_things() };
    let mut names = story.tell(to_the_end);
    // What only a runner comes to that repairs what another left, and what only other commands do.
    names.extend(["recover:closed", "hook:aside"].map(ToOwned::to_owned));
    let sync = ["sync:fetched", "sync:aside", "sync:before", "sync:moved", "sync:pushed"];
    names.extend(sync.map(ToOwned::to_owned));
    let landlock = git_loop::sandbox::Adapter::Landlock;
    let probed = git_loop::sandbox::probe(landlock, git_loop::sandbox::Network::Host);
    if probed.is_err() || !git_loop::sandbox::has_private_root(landlock) {
        // Nothing is made ahead where a command would see it.
        names.extend(["worktree:ahead", "worktree:taken"].map(ToOwned::to_owned));
    }
    let all: BTreeSet<String> = git_loop::crash::POINTS.iter().map(ToString::to_string).collect();
    assert_eq!(names, all, "every place is visited");
}

#[test]
fn a_recovery_that_is_killed_at_any_step_is_continued() {
    let env = TestEnv::new();
    paid(&env);
    env.git_loop(&["start", "fix"]).expect_code(0);
    let users = env.users_things();
    // The first iteration is in the ledger and its receipt not in the notes; and the second had its candidate in `head`.
    run_killed(&env, &["run", "fix", "--once"], "refs:first-moved", 1);
    run_killed(&env, &["run", "fix", "--once"], "head:moved", 1);
    let places =
        ["recover:reclaimed", "note:written", "record:drafted", "refs:first-moved", "recover:closed"];
    let args = &["run", "fix", "--once"];
    let story = Story { env: &env, code: 10, args, chosen: Some(&places), users };
    let names = story.tell(to_the_end);
    assert!(names.contains("recover:closed"), "{names:?}");
}

#[test]
fn a_start_that_is_killed_at_any_step_is_done_or_can_be_done_again() {
    let env = TestEnv::new();
    paid(&env);
    let story =
        Story { env: &env, code: 0, args: &["start", "fix"], chosen: APPENDING, users: env.users_things() };
    story.tell(to_the_end);
}

#[test]
fn a_checkpoint_and_a_record_that_are_killed_at_any_step_are_continued() {
    let env = TestEnv::new();
    paid(&env);
    env.git_loop(&["start", "fix"]).expect_code(0);
    Story { env: &env, code: 0, args: &["checkpoint", "fix"], chosen: APPENDING, users: env.users_things() }
        .tell(to_the_end);
    env.write("src/a", "1\n");
    env.git(&["stash", "--quiet"]);
    let evidence = env.home().join("evidence.json");
    std::fs::write(&evidence, r#"{"cost": {"prompt_tokens": 10, "completion_tokens": 5, "usd": 0.25}}"#)
        .unwrap();
    let args = ["record", "fix", "--candidate", "stash@{0}", "--evidence", evidence.to_str().unwrap()];
    Story { env: &env, code: 0, args: &args, chosen: APPENDING, users: env.users_things() }.tell(to_the_end);
}

#[test]
fn reviews_and_promotions_that_are_killed_at_any_step_are_there_or_can_be_given_again() {
    let env = TestEnv::new();
    paid(&env);
    env.git_loop(&["run", "fix"]).expect_code(10);
    let ann = env.key("ann");
    let key = ann.to_str().unwrap();
    let status =
        |env: &TestEnv| env.git_loop(&["status", "fix", "--json"]).expect_code(0).json()["status"].clone();
    let review = ["review", "fix", "--approve", "--key", key];
    let promote = ["promote", "fix", "--key", key];
    let go_on = |env: &TestEnv| {
        // A review that is there already is no obstacle to another one.
        if status(env) != "succeeded" {
            env.git_loop(&review).expect_code(0);
            env.git_loop(&promote).expect_code(0);
        }
        assert_eq!(status(env), "succeeded");
    };
    Story { env: &env, code: 0, args: &review, chosen: APPENDING, users: env.users_things() }.tell(go_on);
    env.git_loop(&review).expect_code(0);
    Story { env: &env, code: 0, args: &promote, chosen: APPENDING, users: env.users_things() }.tell(go_on);
}

#[test]
fn stops_and_findings_that_are_killed_at_any_step_leave_a_loop_that_goes_on() {
    let env = TestEnv::new();
    paid(&env);
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let ann = env.key("ann");
    let key = ann.to_str().unwrap();
    Story {
        env: &env,
        code: 0,
        args: &["stop", "fix", "--key", key],
        chosen: APPENDING,
        users: env.users_things(),
    }
    .tell(|env| {
        env.git_loop(&["run", "fix", "--resume"]).expect_code(10);
    });
    let args = ["finding", "fix", "add", "--severity", "warn", "--message", "look", "--key", key];
    Story { env: &env, code: 0, args: &args, chosen: APPENDING, users: env.users_things() }.tell(|env| {
        env.git_loop(&["run", "fix", "--resume"]).expect_code(10);
    });
}

/// The runner works while the operator's command dies at each of its steps: it notices the stop that came through, and no other.
#[test]
fn a_stop_that_is_killed_beside_a_runner_is_noticed_or_never_was() {
    for (place, code) in [("publish:before", 10), ("refs:locked", 10), ("refs:moved", 11)] {
        let env = TestEnv::new();
        paid(&env);
        let go = env.home().join("go");
        let worker = format!(
            "{}\necho > '{}/running-'$GIT_LOOP_ITERATION\n[ $GIT_LOOP_ITERATION != 2 ] || while [ ! -e '{}' ]; do sleep 0.02; done\n",
            crate::support::crash::PAID,
            env.home().display(),
            go.display()
        );
        env.script("worker.sh", &worker);
        let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
        env.write("loop.toml", toml + "\n[sandbox]\nallowed = [\"none\"]\n");
        let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
        let mut runner =
            command.args(["run", "fix"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the second worker", || env.home().join("running-2").exists());
        let ann = env.key("ann");
        run_killed(&env, &["stop", "fix", "--key", ann.to_str().unwrap()], place, 1);
        if code == 10 {
            std::fs::write(&go, "").unwrap();
        }
        assert_eq!(runner.wait().unwrap().code(), Some(code), "{place}");
        let receipts = sound(&env, 1, &BTreeMap::new());
        // The dead command's lock is in nobody's way, and gone.
        tidy(&env, &receipts);
    }
}

#[test]
fn an_installation_of_hooks_that_is_killed_loses_no_hook() {
    let env = TestEnv::new();
    paid(&env);
    let hook = env.repo().join(".git/hooks/pre-push");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::copy(env.script("own-hook", "#!/bin/sh\necho mine\n"), &hook).unwrap();
    let saved = Saved::of(&env);
    let passed = trace(&env, &["hooks", "install"], 0);
    let names: BTreeSet<&str> = passed.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains("hook:aside"), "{names:?}");
    for (place, visit) in visits(&passed, None) {
        saved.restore();
        run_killed(&env, &["hooks", "install"], &place, visit);
        assert!(std::fs::read_to_string(&hook).unwrap().contains("echo mine"), "the user's hook is in force");
        env.git_loop(&["hooks", "install"]).expect_code(0);
        let bare = env.root().join("remote.git");
        env.git(&["init", "--quiet", "--bare", bare.to_str().unwrap()]);
        let pushed = env.try_git(&["push", bare.to_str().unwrap(), "HEAD:refs/heads/main"]);
        assert_eq!(pushed.code, 0, "{pushed:?}");
        assert!(pushed.stderr.contains("mine") || pushed.stdout.contains("mine"), "{pushed:?}");
    }
}

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// The slow half: `GIT_LOOP_KILLS` (200) kills at moments that nobody chose, over as many loops as it takes.
#[test]
#[ignore = "takes minutes; .ci/slow runs it"]
fn two_hundred_kills_at_random_moments_lose_nothing() {
    let wanted: u32 =
        std::env::var("GIT_LOOP_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(200);
    let seed = std::env::var("GIT_LOOP_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(0x2545_f491_4f6c_dd1d);
    eprintln!("GIT_LOOP_SEED={seed}");
    let mut random = Random(seed);
    let env = TestEnv::new();
    paid(&env);
    env.git(&["config", "loop.fsync", "true"]);
    let saved = Saved::of(&env);
    let mut killed = 0;
    while killed < wanted {
        saved.restore();
        let users = env.users_things();
        env.git_loop(&["start", "fix"]).expect_code(0);
        let (mut count, mut noted) = (0, BTreeMap::new());
        let code = loop {
            let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
            let mut runner =
                command.args(["run", "fix"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            // A whole run takes about so long; a third of the kills comes while it starts and recovers.
            let wait = if random.below(3) == 0 { random.below(60_000) } else { random.below(900_000) };
            std::thread::sleep(Duration::from_micros(wait));
            let _ = runner.kill();
            let status = runner.wait().unwrap();
            noted.extend(journalled(&env));
            count = sound(&env, count, &noted).len();
            if let Some(code) = status.code() {
                break code;
            }
            killed += 1;
        };
        // The target, the iterations or the money; never an error.
        assert!([10, 12, 17, 18].contains(&code), "{code}");
        let receipts = sound(&env, count, &noted);
        assert!(receipts.len() <= 10);
        tidy(&env, &receipts);
        assert_eq!(env.users_things(), users);
    }
    eprintln!("{killed} kills");
}

/// A runner whose parent never waits for it stays in the table of processes, and is dead all the same.
#[test]
fn a_killed_runner_that_nobody_has_waited_for_is_not_alive() {
    let env = TestEnv::new();
    paid(&env);
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    command.args(["run", "fix"]).env("GIT_LOOP_CRASH_AT", "command:running:2");
    let mut runner = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let stat = format!("/proc/{}/stat", runner.id());
    if !std::path::Path::new(&stat).exists() {
        runner.wait().unwrap();
        return; // Only where /proc says what a process is.
    }
    wait_until("the runner to be dead", || {
        std::fs::read_to_string(&stat).unwrap().rsplit_once(')').unwrap().1.trim_start().starts_with('Z')
    });
    // It is not waited for until all is said and done.
    let next = env.git_loop(&["run", "fix"]).expect_code(10);
    assert!(next.stderr.contains("removed the worktree"), "{next:?}");
    assert!(next.stderr.contains("recorded as abandoned"), "{next:?}");
    let receipts = receipts(&env);
    assert_eq!(receipts[0]["decision"]["outcome_reason"], "abandoned");
    sound(&env, 1, &BTreeMap::new());
    let state = env.git_loop(&["status", "fix", "--json"]).expect_code(0).json();
    assert_eq!(state["status"], "awaiting_review");
    let left = crate::support::crash::leftovers(&env);
    assert!(left.is_empty(), "{left:?}");
    runner.wait().unwrap();
}
