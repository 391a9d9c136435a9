//! What nobody may learn of a holdout, and where it may lie.

use std::fs;
use std::path::{Path, PathBuf};

use super::{CANARY, MEET, RUN, leftovers, receipt, script, with_holdout};
use crate::support::TestEnv;

/// Report 1.35.
#[test]
fn nothing_that_a_holdout_says_or_leaves_is_anywhere() {
    let env = TestEnv::new();
    let folder = with_holdout(&env, RUN, &[MEET], "");
    env.git_loop(&["run", "fix"]).expect_code(13);
    for object in env.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]).lines() {
        let content = env.try_git(&["cat-file", "-p", object]).stdout;
        assert!(!content.contains(CANARY), "{object}: {content}");
    }
    let mut seen = 0;
    let mut places = vec![env.root()];
    while let Some(place) = places.pop() {
        for entry in fs::read_dir(&place).unwrap().flatten() {
            let path = entry.path();
            if path == folder {
                continue;
            }
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                places.push(path);
            } else if kind.is_file() {
                seen += 1;
                let bytes = fs::read(&path).unwrap();
                assert!(!String::from_utf8_lossy(&bytes).contains(CANARY), "{}", path.display());
            }
        }
    }
    assert!(seen > 20, "the repository and the cache were looked through");
    assert_eq!(leftovers(&env), Vec::<PathBuf>::new());
    let temporary = std::env::temp_dir().join("left");
    assert!(!temporary.exists(), "{}", temporary.display());
    assert!(!folder.join("left").exists(), "it runs in a copy");
}

#[test]
fn neither_the_worker_nor_the_check_can_read_the_holdout() {
    let env = TestEnv::new();
    let place = env.root().join("holdout");
    let look = format!(
        "{{ ls -R {place}; cat {place}/answer; find / -name answer -not -path '/proc/*'; }} 2>/dev/null | grep -q . && echo seen > src/d; {MEET} true",
        place = place.display()
    );
    with_holdout(&env, "#!/bin/sh\nexit 0\n", &[&look], "");
    let check = fs::read_to_string(env.repo().join("check.sh")).unwrap();
    env.write(
        "check.sh",
        format!(
            "if cat {}/answer 2>/dev/null; then echo 'fail saw'; echo 'done 1'; exit 1; fi\n{check}",
            place.display()
        ),
    );
    env.commit("A check that looks for the holdout");
    env.git_loop(&["run", "fix"]).expect_code(10);
    let seen = env.try_git(&["cat-file", "-e", "refs/loops/fix/head:src/d"]);
    assert_ne!(seen.code, 0, "the worker saw something of the holdout");
    // Its objects are not in the repository either, where an open history would show them.
    let tree = receipt(&env, 1)["holdout"]["folder"].as_str().unwrap().to_owned();
    assert_ne!(env.try_git(&["cat-file", "-e", &tree]).code, 0);
}

#[test]
fn a_holdout_may_only_lie_where_no_worker_and_no_check_can_read() {
    let env = TestEnv::new();
    let outside = with_holdout(&env, RUN, &[MEET], "");
    let linked = env.root().join("linked");
    env.git(&["worktree", "add", "--quiet", "--detach", linked.to_str().unwrap()]);
    let toml = fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    let place = |folder: &Path| {
        fs::create_dir_all(folder).unwrap();
        script(&folder.join("run.sh"), "#!/bin/sh\n# nowhere else\n");
        toml.replace(outside.to_str().unwrap(), folder.to_str().unwrap())
    };
    // Makes the folder of the worktrees.
    env.git_loop(&["start", "fix", "--dry-run"]).expect_code(0);
    let link = env.root().join("link");
    #[cfg(unix)]
    std::os::unix::fs::symlink(env.repo().join("kept"), &link).unwrap();
    fs::create_dir_all(env.repo().join("kept")).unwrap();
    for (what, folder) in [
        ("in the work tree", env.repo().join("kept")),
        ("in .git", env.repo().join(".git/holdout")),
        ("in a linked worktree", linked.join("holdout")),
        ("a link into the work tree", link),
        ("above the repository", env.root()),
    ] {
        env.write("loop.toml", place(&folder));
        let said = env.git_loop(&["start", "fix"]).expect_code(129);
        assert!(said.stderr.contains("are not apart"), "{what}: {}", said.stderr);
    }
    let worktrees = fs::read_dir(env.home().join("cache/git-loop")).unwrap().next().unwrap().unwrap().path();
    env.write("loop.toml", place(&worktrees.join("holdout")));
    env.git_loop(&["start", "fix"]).expect_code(129).expect_stderr("the loops' worktrees");
    let shared = format!("{toml}\n[sandbox]\nread_only = [\"{}\"]\n", env.root().join("holdout").display());
    env.write("loop.toml", &shared);
    env.git_loop(&["start", "fix"]).expect_code(129).expect_stderr("sandbox.read_only");
    env.write("loop.toml", shared.replace("/holdout\"]", "/holdout/cases\"]"));
    fs::create_dir_all(outside.join("cases")).unwrap();
    env.git_loop(&["start", "fix"]).expect_code(129).expect_stderr("sandbox.read_only");
    env.write("loop.toml", toml.replace(outside.to_str().unwrap(), "/usr/share"));
    env.git_loop(&["start", "fix"]).expect_code(129).expect_stderr("every worker and check may read");
    env.write("loop.toml", toml.replace(outside.to_str().unwrap(), "/nowhere/at/all"));
    env.git_loop(&["start", "fix"]).expect_code(129).expect_stderr("is not there");
    env.write("loop.toml", &toml);
    fs::remove_file(outside.join("run.sh")).unwrap();
    env.git_loop(&["start", "fix"]).expect_code(30).expect_stderr("the holdout's program ./run.sh is not in");
}

/// Report 1.36.
#[test]
fn a_holdout_that_was_committed_here_once_is_refused() {
    let env = TestEnv::new();
    let folder = with_holdout(&env, RUN, &[MEET], "");
    for name in ["answer", "run.sh"] {
        env.write(&format!("old/{name}"), fs::read(folder.join(name)).unwrap());
    }
    env.commit("The holdout, by mistake");
    env.git(&["rm", "-rq", "old"]);
    env.commit("And away with it");
    env.git_loop(&["start", "fix"]).expect_code(129).expect_stderr("holdout_reachable");
    fs::write(folder.join("answer"), "4 another\n").unwrap();
    env.git_loop(&["start", "fix"]).expect_code(0);
}
