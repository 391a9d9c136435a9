//! A loss of power: whatever was not waited for may be gone, and what was announced must be there.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime};

use crate::support::crash::{paid, remove, sound, tidy, walk};
use crate::support::disk::{CALLS, Disk, Recording, Survives};
use crate::support::{TestEnv, tool};

/// Records a whole loop, from its start to its halt.
fn record(env: &TestEnv) -> Recording {
    let program = env!("CARGO_BIN_EXE_git-loop");
    record_script(env, &format!("'{program}' start fix && '{program}' run fix"), 10)
}

/// Records one command.
fn record_one(env: &TestEnv, args: &[&str], code: i32) -> Recording {
    let words: Vec<String> = args.iter().map(|word| format!("'{word}'")).collect();
    record_script(env, &format!("'{}' {}", env!("CARGO_BIN_EXE_git-loop"), words.join(" ")), code)
}

fn record_script(env: &TestEnv, script: &str, code: i32) -> Recording {
    let git = env.repo().join(".git");
    let before = Disk::of(&git);
    let log = env.root().join("calls");
    let mut command = env.command("strace", env.repo());
    command.args(["-f", "-qq", "-y", "-xx", "-s", "10000000", "-e", "signal=none", "-e", CALLS, "-o"]);
    command.arg(&log).args(["sh", "-c", script]);
    let output = env.run_command(&mut command);
    assert_eq!(output.code, code, "{output:?}");
    let recording = Recording::read(&log, &git, before);
    if let Some(keep) = std::env::var_os("KEEP") {
        fs::copy(&log, keep).unwrap();
    }
    fs::remove_file(log).unwrap();
    // The model ends where the disk did.
    let copy = env.root().join("model");
    recording.at(recording.len()).write(&copy, Survives::Everything);
    let diff = std::process::Command::new("diff")
        .args(["-r", "-x", "worktrees"])
        .arg(&git)
        .arg(&copy)
        .output()
        .unwrap();
    assert!(diff.status.success(), "the model: {}", String::from_utf8_lossy(&diff.stdout));
    remove(&copy);
    recording
}

/// The machine is back: what survived is older than its start, and the folder of the worktrees is empty.
fn reboot(env: &TestEnv, recording: &Recording, moment: usize, survives: Survives) {
    let git = env.repo().join(".git");
    remove(&git);
    recording.at(moment).write(&git, survives);
    let cache = env.home().join("cache");
    if cache.exists() {
        remove(&cache);
    }
    let before = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let registrations =
        fs::read_dir(git.join("worktrees")).into_iter().flatten().flatten().map(|entry| entry.path());
    let locks =
        walk(&git.join("refs")).into_iter().filter(|path| path.extension().is_some_and(|end| end == "lock"));
    for path in registrations.chain(locks) {
        fs::File::open(path).unwrap().set_modified(before).unwrap();
    }
}

/// What must hold after the loss.
fn check(env: &TestEnv, recording: &Recording, moment: usize, survives: Survives) {
    reboot(env, recording, moment, survives);
    let printed = recording.printed(moment);
    // Everything that a ref reaches is there.
    let reached = env.try_git(&["rev-list", "--objects", "--all", "--quiet"]);
    assert_eq!(reached.code, 0, "{reached:?}");
    let there = env.try_git(&["rev-parse", "--verify", "--quiet", "refs/loops/fix/ledger"]).code == 0;
    assert!(there || !printed.contains("started fix"), "the loop was announced: {printed}");
    if !there {
        env.git_loop(&["start", "fix"]).expect_code(0);
    }
    let receipts = sound(env, 0, &BTreeMap::new());
    for number in 1..=9 {
        let announced = printed.lines().find_map(|line| {
            let word = line.strip_prefix(&format!("fix: iteration {number} "))?.split(' ').next()?;
            Some(word.trim_end_matches([':', ',']).to_owned())
        });
        if let Some(word) = announced {
            let receipt = receipts
                .get(number - 1)
                .unwrap_or_else(|| panic!("iteration {number} was announced: {printed}"));
            let status = receipt["decision"]["status"].as_str().unwrap();
            assert_eq!(
                word == "accepted",
                status == "accept" || status == "awaiting_review",
                "{word}: {receipt}"
            );
        }
    }
    if printed.contains("ledger tip ") {
        let tip = printed.rsplit_once("ledger tip ").unwrap().1.lines().next().unwrap();
        assert_eq!(env.git(&["rev-parse", "refs/loops/fix/ledger"]), tip);
    }
    env.git_loop(&["run", "fix"]).expect_code(10);
    let receipts = sound(env, receipts.len(), &BTreeMap::new());
    tidy(env, &receipts);
}

#[test]
fn a_loss_of_power_takes_nothing_that_was_announced() {
    if !tool("strace") {
        return;
    }
    let env = TestEnv::new();
    paid(&env);
    env.git(&["config", "loop.fsync", "true"]);
    let recording = record(&env);
    let decisions = recording.said(|text| text.contains("accepted"));
    assert_eq!(decisions.len(), 2, "{}", recording.printed(recording.len()));
    let mut moments = recording.said(|_| true);
    let syncs = recording.syncs();
    assert!(syncs.len() > 50, "{} syncs", syncs.len());
    // Around everything that became durable there is a moment in which it was not, and something that came before it was.
    let all = std::env::var_os("GIT_LOOP_KILLS").is_some();
    let step = if all { 1 } else { syncs.len() / 5 };
    moments.extend(syncs.iter().step_by(step));
    if !all {
        // What was just announced is the dearest.
        moments.retain(|moment| {
            decisions.contains(moment) || syncs.contains(moment) || *moment == recording.len()
        });
        moments.push(recording.said(|text| text.contains("started fix"))[0]);
    }
    moments.sort_unstable();
    moments.dedup();
    for (count, moment) in moments.iter().enumerate() {
        let some = Survives::Some(count as u64 + 1);
        let kinds: &[Survives] = if all {
            &[Survives::Nothing, Survives::Names, Survives::Everything, some]
        } else {
            &[Survives::Nothing, some]
        };
        for survives in kinds {
            eprintln!("moment {moment} of {}, {survives:?}", recording.len());
            check(&env, &recording, *moment, *survives);
        }
    }
}

/// How many records the ledger has.
fn records(env: &TestEnv) -> usize {
    env.git(&["rev-list", "--first-parent", "--count", "refs/loops/fix/ledger"]).parse().unwrap()
}

/// Records one command, loses the power at each moment at which something became durable or was said, and looks whether all is as before it
/// or as after it: as after it, once it was said. `go_on` finishes what the command is a part of, from either.
fn survives_losses(env: &TestEnv, args: &[&str], code: i32, go_on: impl Fn(&TestEnv, &str)) {
    let before = records(env);
    let recording = record_one(env, args, code);
    let after = records(env);
    assert!(after > before, "{args:?} appends a record");
    let syncs = recording.syncs();
    assert!(!syncs.is_empty(), "{args:?} waits for nothing");
    let all = std::env::var_os("GIT_LOOP_KILLS").is_some();
    let mut moments: Vec<usize> =
        syncs.iter().copied().step_by(if all { 1 } else { syncs.len().div_ceil(3) }).collect();
    moments.extend(recording.said(|_| true).last());
    moments.push(recording.len());
    moments.sort_unstable();
    moments.dedup();
    for (count, moment) in moments.iter().enumerate() {
        let some = Survives::Some(count as u64 + 1);
        let kinds: &[Survives] = if all {
            &[Survives::Nothing, Survives::Names, Survives::Everything, some]
        } else {
            &[Survives::Nothing, some]
        };
        for survives in kinds {
            eprintln!("{args:?}: moment {moment} of {}, {survives:?}", recording.len());
            reboot(env, &recording, *moment, *survives);
            let reached = env.try_git(&["rev-list", "--objects", "--all", "--quiet"]);
            assert_eq!(reached.code, 0, "{reached:?}");
            let seen = sound(env, 0, &BTreeMap::new()).len();
            let now = records(env);
            assert!(now == before || now == after, "{before}, {now}, {after}");
            // What comes last is the announcement.
            let said = recording.printed(*moment) == recording.printed(recording.len());
            assert!(now == after || !said, "it was said to be done: {}", recording.printed(*moment));
            go_on(env, if now == after { "after" } else { "before" });
            sound(env, seen, &BTreeMap::new());
        }
    }
    // For the next command everything is as it was after this one.
    reboot(env, &recording, recording.len(), Survives::Everything);
}

#[test]
fn a_loss_of_power_takes_no_checkpoint_and_no_record_that_was_announced() {
    if !tool("strace") {
        return;
    }
    let env = TestEnv::new();
    paid(&env);
    env.git(&["config", "loop.fsync", "true"]);
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let to_the_end = |env: &TestEnv, _: &str| {
        env.git_loop(&["run", "fix"]).expect_code(10);
    };
    survives_losses(&env, &["checkpoint", "fix"], 0, to_the_end);
    env.git(&["checkout", "--quiet", "--detach", "refs/loops/fix/head"]);
    env.write("src/b", "2\n");
    env.git(&["stash", "--quiet"]);
    let evidence = env.home().join("evidence.json");
    fs::write(&evidence, r#"{"cost": {"prompt_tokens": 10, "completion_tokens": 5, "usd": 0.25}}"#).unwrap();
    let args = ["record", "fix", "--candidate", "stash@{0}", "--evidence", evidence.to_str().unwrap()];
    survives_losses(&env, &args, 10, to_the_end);
}

#[test]
fn a_loss_of_power_takes_no_word_of_a_person_that_was_taken() {
    if !tool("strace") {
        return;
    }
    let env = TestEnv::new();
    paid(&env);
    env.git(&["config", "loop.fsync", "true"]);
    env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    let ann = env.key("ann");
    let key = ann.to_str().unwrap();
    let finding = ["finding", "fix", "add", "--severity", "warn", "--message", "look", "--key", key];
    survives_losses(&env, &finding, 0, |env, _| {
        env.git_loop(&["run", "fix"]).expect_code(10);
    });
    survives_losses(&env, &["stop", "fix", "--key", key], 0, |env, state| {
        // An operator's stop holds after the loss, too.
        let code = if state == "after" { 11 } else { 10 };
        env.git_loop(&["run", "fix"]).expect_code(code);
        env.git_loop(&["run", "fix", "--resume"]).expect_code(10);
    });
    env.git_loop(&["run", "fix", "--resume"]).expect_code(10);
    let review = ["review", "fix", "--approve", "--key", key];
    let promote = ["promote", "fix", "--key", key];
    survives_losses(&env, &review, 0, |env, state| {
        if state == "before" {
            env.git_loop(&review).expect_code(0);
        }
        env.git_loop(&promote).expect_code(0);
    });
    survives_losses(&env, &promote, 0, |env, state| {
        if state == "before" {
            env.git_loop(&promote).expect_code(0);
        }
        let status = env.git_loop(&["status", "fix", "--json"]).expect_code(0).json();
        assert_eq!(status["status"], "succeeded");
    });
}

/// Without waiting for the disk a decision may be lost: the switch does what it says, and the model above can tell.
#[test]
fn without_fsync_nothing_is_waited_for() {
    if !tool("strace") {
        return;
    }
    let env = TestEnv::new();
    paid(&env);
    let recording = record(&env);
    assert_eq!(recording.syncs(), Vec::<usize>::new());
    reboot(&env, &recording, recording.len(), Survives::Nothing);
    assert_ne!(env.try_git(&["rev-parse", "--verify", "--quiet", "refs/loops/fix/ledger"]).code, 0);
    env.git(&["config", "loop.fsync", "maybe"]);
    env.git_loop(&["list"]).expect_code(30).expect_stderr("loop.fsync");
}
