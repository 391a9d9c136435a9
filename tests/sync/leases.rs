//! Only one machine runs a shared loop.

use std::process::Stdio;

use super::LEDGER;
use crate::support::TestEnv;
use crate::support::clones::{bare, clone, kinds};
use crate::support::scenario::{HONEST, numbers};

/// A worker that mends the next wrong number, whatever iterations went before.
pub const NEXT: &str = r#"if [ "$(cat src/a)" != 1 ]; then echo 1 > src/a
elif [ "$(cat src/b)" != 2 ]; then echo 2 > src/b
else echo 3 > src/c; fi
"#;

#[test]
fn a_loop_goes_on_in_another_clone_when_the_first_has_let_go() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let origin = bare(&env);
    let (one, two) = (clone(&env, "one", "runner"), clone(&env, "two", "runner"));
    // Nobody shares it yet, and nobody is asked.
    one.run(0, &["run", "fix", "--once"]);
    assert_eq!(one.kinds(LEDGER), "contract baseline checkpoint iteration");
    one.sync();
    two.sync();
    two.run(0, &["run", "fix", "--once"]);
    assert_eq!(two.kinds(LEDGER), "contract baseline checkpoint iteration lease checkpoint iteration lease");
    let log = two.run(0, &["log", "fix"]).stdout;
    assert!(log.contains("lease: runner@example.org on "), "{log}");
    assert!(log.contains("lease: given up by runner@example.org"), "{log}");
    // The run pushed what it did, and the next one begins with it. A halt ends a lease.
    one.run(10, &["run", "fix"]);
    assert_eq!(
        kinds(&env, &origin, LEDGER),
        "contract baseline checkpoint iteration lease checkpoint iteration lease lease checkpoint iteration halt"
    );
    two.sync();
    two.run(0, &["verify", "fix"]);
    assert_eq!(one.id(LEDGER), two.id(LEDGER));
    // A halted loop asks nobody.
    std::fs::rename(&origin, env.root().join("away.git")).unwrap();
    one.run(10, &["run", "fix"]);
}

/// The runner was killed: its lease is in the way until it ends, or until somebody stops the loop.
#[cfg(unix)]
#[test]
fn another_machine_is_told_who_runs_a_loop_and_until_when() {
    let env = TestEnv::new();
    numbers(&env, NEXT, "");
    bare(&env);
    let (one, two) = (clone(&env, "one", "runner"), clone(&env, "two", "runner"));
    one.run(0, &["run", "fix", "--once"]);
    one.sync();
    two.sync();
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), &one.path);
    command.args(["run", "fix"]).env("GIT_LOOP_CRASH_AT", "candidate:made:1");
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    let held = two.run(30, &["run", "fix"]);
    let lease = &two.git(&["log", "-1", "--format=%s", "refs/remotes/origin/loops/fix/ledger"]);
    let until = lease.rsplit(' ').next().unwrap();
    assert!(held.stderr.contains("loop `fix` is run by runner@example.org on "), "{held:?}");
    assert!(held.stderr.contains(&format!("until {until}")), "{held:?} {lease}");
    let status = two.run(0, &["status", "fix", "--json"]).json();
    assert_eq!(status["lease"]["until"], until);
    assert!(two.run(0, &["status", "fix"]).stdout.contains(until));
    // The clone that has it goes on at once.
    one.run(0, &["run", "fix", "--once"]);
    assert_eq!(one.run(0, &["status", "fix", "--json"]).json()["iteration_count"], 3);
    // And somebody may stop it, which ends the lease; the next takes over on the record.
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), &one.path);
    command.args(["run", "fix"]).env("GIT_LOOP_CRASH_AT", "candidate:made:1");
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    two.run(30, &["run", "fix"]);
    let ann = env.key("ann");
    two.run(0, &["stop", "fix", "--reason", "that machine is gone", "--key", ann.to_str().unwrap()]);
    two.sync();
    two.run(10, &["run", "fix", "--resume"]);
    let all = two.kinds(LEDGER);
    assert!(all.ends_with("halt resume lease checkpoint iteration halt"), "{all}");
    // What the first one had begun meanwhile is kept, and named.
    let out = one.sync();
    assert!(
        out.stdout.contains("kept aside") && out.stdout.contains("a checkpoint by runner@example.org"),
        "{out:?}"
    );
    assert_eq!(one.id(LEDGER), two.id(LEDGER));
    one.run(10, &["run", "fix"]);
    one.run(0, &["verify", "fix"]);
}

#[test]
fn without_the_remote_nobody_begins_to_run_a_shared_loop() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let origin = bare(&env);
    let one = clone(&env, "one", "runner");
    one.run(0, &["run", "fix", "--once"]);
    one.sync();
    let before = one.git(&["for-each-ref"]);
    std::fs::rename(&origin, env.root().join("away.git")).unwrap();
    one.run(30, &["run", "fix"]).expect_stderr("is shared with origin, which has to say who runs it");
    assert_eq!(one.git(&["for-each-ref"]), before, "no worker was paid, and nothing was recorded");
    // A remote that is none any more shares nothing.
    one.git(&["remote", "remove", "origin"]);
    one.run(10, &["run", "fix"]);
}
