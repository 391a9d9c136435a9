//! Hosts that refuse refs, and the prefix that they take.

use super::LEDGER;
use crate::support::TestEnv;
use crate::support::clones::{bare, clone};
use crate::support::scenario::{HONEST, numbers};

/// Field report 2.42.
#[test]
fn what_a_host_refuses_is_said_and_a_prefix_that_it_takes_helps() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let origin = bare(&env);
    env.git_loop(&["run", "fix"]).expect_code(10);
    let there = || env.git_in(&origin, &["for-each-ref", "--format=%(refname)"]);
    let here = env.git(&["for-each-ref"]);

    // git's own receiving side is not atomic about refs that it hides; so both kinds are hidden.
    env.git_in(&origin, &["config", "receive.hideRefs", "refs/loops"]);
    env.git_in(&origin, &["config", "--add", "receive.hideRefs", "refs/notes/loops"]);
    let out = env.git_loop(&["sync"]).expect_code(1);
    assert!(out.stdout.contains("fix: origin refused refs/loops/fix/ledger"), "{out:?}");
    assert!(out.stderr.contains("git config loop.refPrefix refs/heads/git-loop"), "{out:?}");
    assert_eq!((there(), env.git(&["for-each-ref"])), ("refs/heads/main".to_owned(), here.clone()));

    env.git_in(&origin, &["config", "--unset-all", "receive.hideRefs"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let hook = origin.join("hooks/update");
        std::fs::write(
            &hook,
            "#!/bin/sh\ncase $1 in refs/heads/*) exit 0 ;; esac\necho branches only >&2\nexit 1\n",
        )
        .unwrap();
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        let out = env.git_loop(&["sync"]).expect_code(1);
        assert!(out.stderr.contains("origin says: branches only"), "{out:?}");
        assert_eq!((there(), env.git(&["for-each-ref"])), ("refs/heads/main".to_owned(), here));
    }

    env.git(&["config", "loop.refPrefix", "refs/heads/git-loop"]);
    assert_eq!(env.git_loop(&["sync"]).expect_code(0).stdout, "fix: 9 records to origin\n");
    assert_eq!(
        there().lines().collect::<Vec<_>>(),
        [
            "refs/heads/git-loop/fix/head",
            "refs/heads/git-loop/fix/ledger",
            "refs/heads/git-loop/fix/notes",
            "refs/heads/main"
        ]
    );
    let other = clone(&env, "other", "ann");
    other.git(&["config", "loop.refPrefix", "refs/heads/git-loop"]);
    assert_eq!(other.sync().stdout, "fix: 9 records from origin\n");
    assert_eq!(other.id(LEDGER), env.git(&["rev-parse", LEDGER]));
    other.run(0, &["review", "fix", "--approve"]);
    other.sync();
    assert_eq!(env.git_loop(&["sync"]).expect_code(0).stdout, "fix: 1 record from origin\n");
    env.git(&["config", "loop.refPrefix", "refs/remotes/x"]);
    env.git_loop(&["sync"]).expect_code(30).expect_stderr("is no place for the refs of loops");
}

/// One loop that the host refuses is in no other's way.
#[cfg(unix)]
#[test]
fn a_loop_that_is_refused_hinders_no_other() {
    use std::os::unix::fs::PermissionsExt;
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let origin = bare(&env);
    env.git_loop(&["run", "fix"]).expect_code(10);
    env.git_loop(&["run", "other"]).expect_code(10);
    let hook = origin.join("hooks/update");
    std::fs::write(&hook, "#!/bin/sh\ncase $1 in refs/loops/fix/*) exit 1 ;; esac\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let out = env.git_loop(&["sync"]).expect_code(1);
    assert!(
        out.stdout.contains("fix: origin refused") && out.stdout.contains("other: 9 records to origin"),
        "{out:?}"
    );
    // All refs of a loop or none.
    let there = env.git_in(&origin, &["for-each-ref", "--format=%(refname)", "refs/loops", "refs/notes"]);
    assert_eq!(there.lines().count(), 3, "{there}");
}

/// A branch of the remote that stands in the way of the remote-tracking refs costs a warning.
#[test]
fn a_branch_called_loops_is_in_nobodys_way() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    bare(&env);
    env.git(&["push", "--quiet", "origin", "HEAD:refs/heads/loops"]);
    let other = clone(&env, "other", "ann");
    env.git_loop(&["run", "fix"]).expect_code(10);
    env.git_loop(&["sync"]).expect_code(0);
    let out = other.sync();
    assert!(out.stderr.contains("not among the remote-tracking refs"), "{out:?}");
    assert_eq!(other.id(LEDGER), env.git(&["rev-parse", LEDGER]));
    other.run(0, &["review", "fix", "--approve"]);
    assert_eq!(other.sync().stdout, "fix: 1 record to origin\n");
}
