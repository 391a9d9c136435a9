//! Two clones race `run` and `sync` on one loop. `GIT_LOOP_RACES` says how often; `.ci/slow` asks for a hundred.

use std::collections::BTreeSet;
use std::path::Path;

use super::leases::NEXT;
use crate::support::TestEnv;
use crate::support::clones::{bare, clone};
use crate::support::scenario::numbers;

/// The environments of all iterations that the reflog of a ledger, or what was kept aside of it, has.
fn environments(env: &TestEnv, dir: &Path, revisions: &[&str]) -> BTreeSet<String> {
    let mut args =
        vec!["log", "--first-parent", "--format=%H %(trailers:key=Loop-Record,valueonly,separator=)"];
    args.extend(revisions);
    let log = env.git_in(dir, &args);
    let records = log.lines().filter_map(|line| line.strip_suffix(" iteration"));
    let environment = |record: &str| {
        let text = env.git_in(dir, &["cat-file", "blob", &format!("{record}:record.json")]);
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        record["body"]["receipt"]["environment_id"].as_str().unwrap().to_owned()
    };
    records.map(environment).collect()
}

#[test]
fn two_clones_that_race_lose_nothing_and_never_share_a_place() {
    let rounds: u32 = std::env::var("GIT_LOOP_RACES").ok().and_then(|count| count.parse().ok()).unwrap_or(4);
    let env = TestEnv::new();
    numbers(&env, NEXT, "");
    let origin = bare(&env);
    env.git_in(&origin, &["config", "core.logAllRefUpdates", "always"]);
    env.git_in(&origin, &["config", "loop.allowedSigners", env.trust_file().to_str().unwrap()]);
    let clones = [clone(&env, "one", "runner"), clone(&env, "two", "runner")];
    for round in 0..rounds {
        let id = format!("race-{round}");
        let ledger = format!("refs/loops/{id}/ledger");
        clones[0].run(0, &["start", &id]);
        clones[0].sync();
        clones[1].sync();
        std::thread::scope(|scope| {
            for path in clones.each_ref().map(|clone| clone.path.clone()) {
                let (env, id) = (SharedEnv::of(&env), id.clone());
                scope.spawn(move || {
                    for step in 0..3 {
                        // Whoever comes second is told who runs it, or finds that it has ended.
                        let code = env.run(&path, &["run", &id, "--once"]);
                        assert!([0, 10, 30].contains(&code), "run in {path:?}, step {step}: {code}");
                        let code = env.run(&path, &["sync", "origin", &id]);
                        assert_eq!(code, 0, "sync in {path:?}, step {step}");
                    }
                });
            }
        });
        for clone in &clones {
            let end = clone.run(10, &["run", &id, "--json"]);
            assert_eq!(end.json()["status"], "awaiting_review");
            clone.sync();
        }
        clones[0].sync();
        let tip = env.git_in(&origin, &["rev-parse", &ledger]);
        assert_eq!([clones[0].id(&ledger), clones[1].id(&ledger)], [tip.clone(), tip.clone()]);
        // Whatever the remote ever had, it still has: so no place was given twice.
        let history = env.git_in(&origin, &["rev-list", "--first-parent", &tip]);
        for was in env.git_in(&origin, &["log", "-g", "--format=%H", &ledger]).lines() {
            assert!(history.lines().any(|record| record == was), "{id}: {was} was on the remote");
        }
        env.git_loop_in(&origin, &["verify", &id]).expect_code(0);
        // And whatever was run is in the ledger or beside it.
        for clone in &clones {
            let reflog = clone.git(&["log", "-g", "--format=%H", &ledger]);
            let ran = environments(&env, &clone.path, &reflog.lines().collect::<Vec<_>>());
            let aside = format!("--glob=refs/loops-aside/{id}/*");
            let kept = environments(&env, &clone.path, &[&tip, &aside]);
            assert!(ran.is_subset(&kept), "{id}: {:?}", ran.difference(&kept));
        }
    }
}

/// What a thread needs to run a command.
struct SharedEnv {
    program: &'static str,
    env: Vec<(std::ffi::OsString, std::ffi::OsString)>,
}

impl SharedEnv {
    fn of(env: &TestEnv) -> Self {
        let command = env.command("git", env.repo());
        let env =
            command.get_envs().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned()))).collect();
        Self { program: env!("CARGO_BIN_EXE_git-loop"), env }
    }

    fn run(&self, dir: &Path, args: &[&str]) -> i32 {
        let mut command = std::process::Command::new(self.program);
        command.args(args).current_dir(dir).env_clear().envs(self.env.iter().cloned());
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        let code = output.status.code().unwrap_or(-1);
        if ![0, 10, 30].contains(&code) {
            eprintln!("{args:?} in {}: {}", dir.display(), String::from_utf8_lossy(&output.stderr));
        }
        code
    }
}
