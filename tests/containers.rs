//! Containers: what an engine is asked for each step of a loop, and what becomes of a container whose runner was killed. The engine is
//! a script that writes down how it was called and runs the command on this machine; tests with a real one are in `sandboxes`.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use insta::assert_snapshot;

use crate::support::crash::wait_until;
use crate::support::scenario::numbers;
use crate::support::{Output, TestEnv, tool};

const IMAGE: &str =
    "docker.io/library/debian@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The engine. `$LOG` gets each call: a number of words, then one a line.
const ENGINE: &str = r#"#!/bin/sh
{ echo "$#"; printf '%s\n' "$@"; } >> LOG
case $1 in
  version) echo 1 ;;
  image) cat LOG.volumes 2>/dev/null || echo 0 ;;
  rm) cat LOG.rm 2>/dev/null && exit 1 ;;
  ps) cat LOG.ps 2>/dev/null ;;
  run)
    shift
    while :; do
      case $1 in
        --workdir) cd "$2" || exit 125; shift 2 ;;
        --env) case $2 in *=*) export "$2" ;; esac; shift 2 ;;
        --entrypoint) entry=$2; shift 2 ;;
        --rm | --init | --interactive | --read-only) shift ;;
        --*) shift 2 ;;
        *) break ;;
      esac
    done
    shift
    exec "$entry" "$@" ;;
esac
exit 0
"#;

/// The terms of a sandbox whose engine is the script.
fn terms(adapter: &str) -> String {
    format!("\n[sandbox]\nallowed = [\"{adapter}\"]\nimage = \"{IMAGE}\"\n")
}

/// A command of ours in a mount namespace in which docker and podman are the script; nothing where none can be had.
fn with_engine(env: &TestEnv, args: &str) -> Option<Command> {
    if !tool("unshare") || !tool("mount") {
        return None;
    }
    // SAFETY: takes nothing, cannot fail.
    let flags = if unsafe { libc::geteuid() } == 0 { "-m" } else { "-rm" };
    let may = env.run_command(env.command("unshare", env.repo()).args([flags, "true"]));
    if may.code != 0 {
        assert!(std::env::var_os("GIT_LOOP_CI").is_none(), "mount namespaces are needed in CI: {may:?}");
        eprintln!("skipped: no mount namespace is to be had");
        return None;
    }
    let engine = ENGINE.replace("LOG", &log(env).display().to_string());
    for name in ["docker", "podman"] {
        env.script(&format!("engine/{name}"), &engine);
    }
    let place = env.root().join("scripts/engine");
    // The first folder of the system in which programs are looked for.
    let script = format!(
        "mount --bind '{}' /usr/local/sbin && exec '{}' {args}",
        place.display(),
        env!("CARGO_BIN_EXE_git-loop")
    );
    let mut command = env.command("unshare", env.repo());
    command.args([flags, "sh", "-c", &script]);
    Some(command)
}

fn run(env: &TestEnv, args: &str) -> Option<Output> {
    Some(env.run_command(&mut with_engine(env, args)?))
}

fn log(env: &TestEnv) -> PathBuf {
    env.root().join("engine.log")
}

/// How the engine was called.
fn calls(env: &TestEnv) -> Vec<Vec<String>> {
    let text = fs::read_to_string(log(env)).unwrap_or_default();
    let mut lines = text.lines();
    let mut calls = Vec::new();
    while let Some(count) = lines.next() {
        calls.push(lines.by_ref().take(count.parse().unwrap()).map(str::to_owned).collect());
    }
    calls
}

/// The containers of one run of a loop with a setup, a worker, a check and a holdout, in the order of their starts.
fn containers(adapter: &str) -> Option<Vec<Vec<String>>> {
    let env = TestEnv::new();
    let holdout = env.root().join("holdout");
    fs::create_dir(&holdout).unwrap();
    fs::write(holdout.join("judge.sh"), "[ \"$(cat \"$GIT_LOOP_CANDIDATE/src/a\")\" = 1 ]\n").unwrap();
    let terms = format!(
        "{}read_only = [\"{}\"]\n\n[worktree]\nsetup = \"mkdir -p deps; echo kept > deps/one\"\nwarm = [\"deps\"]\n\n\
         [holdout]\ncommand = [\"sh\", \"judge.sh\"]\nfolder = \"{}\"\ntimeout = \"60s\"\n",
        terms(adapter),
        env.root().join("scripts").display(),
        holdout.display()
    );
    numbers(&env, "echo 1 > src/a; echo 2 > src/b; echo 3 > src/c; cat deps/one\n", &terms);
    env.write(".gitignore", "deps/\n");
    env.commit("Ignore what the setup makes");
    let output = run(&env, "run fix")?.expect_code(10);
    assert!(output.stderr.contains("holdout: green") || output.stderr.contains("holdout"), "{output:?}");
    env.git_loop(&["verify", "fix"]).expect_code(0);
    assert!(notes(&env).is_empty(), "every container ended, and none is noted any more");
    let root = env.root().display().to_string();
    let mut folder = env.home().join("cache/git-loop");
    folder = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let folder = folder.display().to_string();
    let tell = |word: String| hide_ids(&word.replace(&folder, "TREES").replace(&root, "ROOT"));
    let runs = calls(&env).into_iter().filter(|words| words[0] == "run");
    Some(runs.map(|words| words.into_iter().map(tell).collect()).collect())
}

/// The notes of containers that a loop has.
fn notes(env: &TestEnv) -> Vec<String> {
    let entries = fs::read_dir(env.repo().join(".git/loops/fix")).unwrap().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.ends_with(".container")).collect()
}

/// Words of 16 hexadecimal digits, each by the same letters.
fn hide_ids(text: &str) -> String {
    let is_id = |part: &str| part.len() == 16 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric());
    let hide = |part: &str| {
        let word = part.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
        if is_id(word) { part.replace(word, "ID") } else { part.to_owned() }
    };
    parts.map(hide).collect()
}

/// What is asked for one step, one option a line: what is the same for all steps, then what is of this one. Numbers that are of the machine are
/// left out.
fn shown(words: &[String]) -> [String; 2] {
    let text = words.join(" ").replace(" --", "\n--").replace(&format!(" {IMAGE}"), "\nIMAGE");
    let is_own = |line: &&str| {
        let own = [
            "--name",
            "--label",
            "--interactive",
            "--network",
            "--mount",
            "--workdir",
            "--env",
            "--entrypoint",
            "IMAGE",
        ];
        own.iter().any(|option| line.starts_with(option))
    };
    let (own, same): (Vec<&str>, Vec<&str>) = text.lines().partition(is_own);
    let plain = |line: &str| match line.split_once('=') {
        Some(("--ulimit nofile" | "--ulimit nproc", _)) => format!("{}=N:N", line.split_once('=').unwrap().0),
        _ if line.starts_with("--user ") => "--user U:G".to_owned(),
        _ => line.to_owned(),
    };
    [same.into_iter().map(plain).collect::<Vec<_>>().join("\n"), own.join("\n")]
}

#[test]
fn every_step_of_a_loop_is_a_container_of_the_same_kind() {
    let (Some(docker), Some(podman)) = (containers("docker"), containers("podman")) else { return };
    let docker: Vec<[String; 2]> = docker.iter().map(|words| shown(words)).collect();
    let podman: Vec<[String; 2]> = podman.iter().map(|words| shown(words)).collect();
    assert_eq!(docker.len(), 5);
    let same = &docker[0][0];
    assert!(docker.iter().all(|[its, _]| its == same), "{docker:?}");
    assert_snapshot!(same, @r"
    run
    --rm
    --init
    --pull never
    --hostname git-loop
    --cap-drop ALL
    --security-opt no-new-privileges
    --read-only
    --tmpfs /tmp:rw,nosuid,nodev,size=1073741824,mode=1777
    --shm-size 1073741824
    --pids-limit 4096
    --memory 17179869184
    --stop-timeout 0
    --ulimit core=0
    --ulimit nofile=N:N
    --ulimit nproc=N:N
    --ulimit fsize=34359738368
    --user U:G
    ");
    let [_, [_, baseline], ..] = &docker[..] else { unreachable!() };
    let [setup, _, worker, check, holdout] = &docker[..] else { unreachable!() };
    assert_eq!(&baseline.replace("baseline", "ID"), &check[1]);
    assert_snapshot!(setup[1], @r"
    --name loop-fix-baseline-setup-ID
    --label git-loop.step=loop-fix-baseline-setup
    --network host
    --mount type=bind,src=TREES/loop-fix-baseline-setup,dst=TREES/loop-fix-baseline-setup
    --mount type=bind,src=TREES/loop-fix-baseline-setup.tmp,dst=TREES/loop-fix-baseline-setup.tmp
    --mount type=bind,src=ROOT/scripts,dst=ROOT/scripts,readonly
    --workdir TREES/loop-fix-baseline-setup
    --env CI
    --env GIT_CEILING_DIRECTORIES
    --env GIT_CONFIG_GLOBAL
    --env GIT_CONFIG_NOSYSTEM
    --env GIT_TERMINAL_PROMPT
    --env HOME=TREES/loop-fix-baseline-setup.tmp/home/home
    --env LANG
    --env LC_ALL
    --env PYTHONHASHSEED
    --env SOURCE_DATE_EPOCH
    --env TMPDIR
    --env TZ
    --env XDG_CACHE_HOME
    --env XDG_CONFIG_HOME=TREES/loop-fix-baseline-setup.tmp/home/home/.config
    --env XDG_DATA_HOME=TREES/loop-fix-baseline-setup.tmp/home/home/.local/share
    --env XDG_RUNTIME_DIR=TREES/loop-fix-baseline-setup.tmp/home/run
    --env XDG_STATE_HOME
    --entrypoint sh
    IMAGE -c mkdir -p deps; echo kept > deps/one
    ");
    assert_snapshot!(worker[1], @r"
    --name loop-fix-ID-ID
    --label git-loop.step=loop-fix-ID
    --interactive
    --network host
    --mount type=bind,src=TREES/loop-fix-ID,dst=TREES/loop-fix-ID
    --mount type=bind,src=TREES/loop-fix-ID.tmp,dst=TREES/loop-fix-ID.tmp
    --mount type=bind,src=ROOT/scripts,dst=ROOT/scripts,readonly
    --workdir TREES/loop-fix-ID
    --env GIT_CEILING_DIRECTORIES
    --env GIT_CONFIG_GLOBAL
    --env GIT_CONFIG_NOSYSTEM
    --env GIT_TERMINAL_PROMPT
    --env HOME=TREES/loop-fix-ID.tmp/home/home
    --env LANG
    --env LC_ALL
    --env TERM
    --env TMPDIR
    --env TZ
    --env XDG_CACHE_HOME
    --env XDG_CONFIG_HOME=TREES/loop-fix-ID.tmp/home/home/.config
    --env XDG_DATA_HOME=TREES/loop-fix-ID.tmp/home/home/.local/share
    --env XDG_RUNTIME_DIR=TREES/loop-fix-ID.tmp/home/run
    --env XDG_STATE_HOME
    --env GIT_LOOP_ID
    --env GIT_LOOP_ITERATION
    --env GIT_LOOP_CONTEXT
    --env GIT_LOOP_EVIDENCE
    --entrypoint sh
    IMAGE ROOT/scripts/worker.sh
    ");
    assert_snapshot!(check[1], @r"
    --name loop-fix-ID-check-ID
    --label git-loop.step=loop-fix-ID-check
    --network none
    --mount type=bind,src=TREES/loop-fix-ID-check,dst=TREES/loop-fix-ID-check
    --mount type=bind,src=TREES/loop-fix-ID-check.tmp,dst=TREES/loop-fix-ID-check.tmp
    --mount type=bind,src=ROOT/scripts,dst=ROOT/scripts,readonly
    --workdir TREES/loop-fix-ID-check
    --env CI
    --env GIT_CEILING_DIRECTORIES
    --env GIT_CONFIG_GLOBAL
    --env GIT_CONFIG_NOSYSTEM
    --env GIT_TERMINAL_PROMPT
    --env HOME=TREES/loop-fix-ID-check.tmp/home/home
    --env LANG
    --env LC_ALL
    --env PYTHONHASHSEED
    --env SOURCE_DATE_EPOCH
    --env TMPDIR
    --env TZ
    --env XDG_CACHE_HOME
    --env XDG_CONFIG_HOME=TREES/loop-fix-ID-check.tmp/home/home/.config
    --env XDG_DATA_HOME=TREES/loop-fix-ID-check.tmp/home/home/.local/share
    --env XDG_RUNTIME_DIR=TREES/loop-fix-ID-check.tmp/home/run
    --env XDG_STATE_HOME
    --env GIT_LOOP_VERDICT
    --entrypoint sh
    IMAGE check.sh
    ");
    assert_snapshot!(holdout[1], @r"
    --name loop-fix-ID-holdout-ID
    --label git-loop.step=loop-fix-ID-holdout
    --network none
    --mount type=bind,src=TREES/loop-fix-ID-holdout.tmp/holdout,dst=TREES/loop-fix-ID-holdout.tmp/holdout
    --mount type=bind,src=TREES/loop-fix-ID-holdout.tmp/home,dst=TREES/loop-fix-ID-holdout.tmp/home
    --mount type=bind,src=ROOT/scripts,dst=ROOT/scripts,readonly
    --mount type=bind,src=TREES/loop-fix-ID-holdout.tmp/candidate,dst=TREES/loop-fix-ID-holdout.tmp/candidate,readonly
    --workdir TREES/loop-fix-ID-holdout.tmp/holdout
    --env CI
    --env GIT_CEILING_DIRECTORIES
    --env GIT_CONFIG_GLOBAL
    --env GIT_CONFIG_NOSYSTEM
    --env GIT_TERMINAL_PROMPT
    --env HOME=TREES/loop-fix-ID-holdout.tmp/home/home
    --env LANG
    --env LC_ALL
    --env PYTHONHASHSEED
    --env SOURCE_DATE_EPOCH
    --env TMPDIR
    --env TZ
    --env XDG_CACHE_HOME
    --env XDG_CONFIG_HOME=TREES/loop-fix-ID-holdout.tmp/home/home/.config
    --env XDG_DATA_HOME=TREES/loop-fix-ID-holdout.tmp/home/home/.local/share
    --env XDG_RUNTIME_DIR=TREES/loop-fix-ID-holdout.tmp/home/run
    --env XDG_STATE_HOME
    --env GIT_LOOP_CANDIDATE
    --entrypoint sh
    IMAGE judge.sh
    ");
    // Podman is asked for the same, and for what it would otherwise do by itself.
    let extra = "--tmpfs /run:rw,nosuid,nodev,size=1073741824,mode=1777\n\
                 --tmpfs /var/tmp:rw,nosuid,nodev,size=1073741824,mode=1777\n--image-volume ignore\n";
    for ([docker_same, docker_own], [podman_same, podman_own]) in docker.iter().zip(&podman) {
        let podman_same = podman_same.replacen("--userns keep-id\n", "", 1);
        assert_eq!(podman_same, docker_same.replace("--user ", &format!("{extra}--user ")));
        assert_eq!(podman_own, docker_own);
    }
}

/// A loop of which the worker of the first iteration kills the runner. Gives the name of the container that it ran in.
fn killed(env: &TestEnv) -> Option<String> {
    let terms = format!("{}read_only = [\"{}\"]\n", terms("docker"), env.root().join("scripts").display());
    let runner = env.root().join("runner");
    let worker = format!(
        "echo 1 > src/a; [ $GIT_LOOP_ITERATION != 1 ] || while :; do kill -9 $(cat '{}') && sleep 60; done\n",
        runner.display()
    );
    numbers(env, &worker, &terms);
    let mut command = with_engine(env, "run fix --once")?;
    let mut child =
        command.stderr(std::process::Stdio::null()).stdout(std::process::Stdio::null()).spawn().unwrap();
    fs::write(&runner, child.id().to_string()).unwrap();
    assert_eq!(child.wait().unwrap().code(), None, "it was killed");
    let [note] = &notes(env)[..] else { panic!("one container is noted: {:?}", notes(env)) };
    let name = note.strip_suffix(".container").unwrap().to_owned();
    let started: Vec<String> =
        calls(env).into_iter().filter(|words| words[0] == "run").map(|words| words[6].clone()).collect();
    assert_eq!(started.last(), Some(&name), "the last one that was asked for");
    Some(name)
}

/// What the engine was asked to remove.
fn removed(env: &TestEnv) -> Vec<Vec<String>> {
    calls(env).into_iter().filter(|words| words[0] == "rm").collect()
}

#[test]
fn a_container_that_a_dead_runner_left_is_ended_by_the_next_run() {
    let env = TestEnv::new();
    let Some(name) = killed(&env) else { return };
    assert!(removed(&env).is_empty());
    // The engine cannot end it at first.
    let log = log(&env).display().to_string();
    fs::write(format!("{log}.rm"), "").unwrap();
    fs::write(format!("{log}.ps"), "0123456789ab\n").unwrap();
    let output = run(&env, "run fix --once").unwrap().expect_code(0);
    let told = format!("the container {name} of a runner that has ended could not be removed");
    assert!(output.stderr.contains(&told), "{output:?}");
    assert_eq!(notes(&env), [format!("{name}.container")]);
    // Then it says that there is none of this name, as old ones do for what is gone.
    fs::remove_file(format!("{log}.ps")).unwrap();
    let output = run(&env, "run fix --once").unwrap();
    assert!(
        output.stderr.contains(&format!("removed the container {name} of a runner that has ended")),
        "{output:?}"
    );
    assert!(notes(&env).is_empty());
    let wanted = ["rm", "--force", "--volumes", &name].map(str::to_owned);
    assert!(
        removed(&env).len() >= 2 && removed(&env).iter().all(|words| *words == wanted),
        "{:?}",
        removed(&env)
    );
    // It is asked for what is certainly of that name and nothing like it.
    let filter = format!("name=^{name}$");
    assert!(calls(&env).iter().any(|words| words[0] == "ps" && words.contains(&filter)));
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn prune_ends_containers_of_dead_runners_and_of_nobody_else() {
    let env = TestEnv::new();
    let Some(name) = killed(&env) else { return };
    let listed = run(&env, "prune --dry-run --json").unwrap().expect_code(0).json();
    let is_it = |one: &serde_json::Value| one["kind"] == "container" && one["name"] == name.as_str();
    assert!(listed["removed"].as_array().unwrap().iter().any(is_it), "{listed}");
    assert!(removed(&env).is_empty() && notes(&env).len() == 1);
    // While somebody runs the loop it is theirs.
    let pruned = env.root().join("pruned.json");
    let ready = env.root().join("ready");
    env.script(
        "worker.sh",
        &format!(
            "touch '{}'; until [ -s '{}' ]; do sleep 0.1; done; echo 2 > src/b\n",
            ready.display(),
            pruned.display()
        ),
    );
    let mut running = with_engine(&env, "run fix --once").unwrap();
    let mut running =
        running.stderr(std::process::Stdio::null()).stdout(std::process::Stdio::null()).spawn().unwrap();
    wait_until("the worker runs", || ready.exists());
    let before = removed(&env);
    let kept = run(&env, "prune --json").unwrap().expect_code(0);
    fs::write(&pruned, &kept.stdout).unwrap();
    let kept = kept.json();
    assert_eq!(removed(&env), before, "{kept}");
    let why = kept["kept"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"].as_str().unwrap().starts_with("loop-fix-"));
    assert_eq!(why.unwrap()["why"], "loop fix is being run", "{kept}");
    assert!(running.wait().unwrap().success());
    // The run itself had ended what was left before it.
    assert_eq!(before, [["rm", "--force", "--volumes", &name].map(str::to_owned).to_vec()]);
    assert!(notes(&env).is_empty());
}

#[test]
fn prune_alone_ends_a_container() {
    let env = TestEnv::new();
    let Some(name) = killed(&env) else { return };
    let pruned = run(&env, "prune").unwrap().expect_code(0);
    assert!(pruned.stdout.contains(&format!("removed container {name}")), "{pruned:?}");
    assert_eq!(removed(&env), [["rm", "--force", "--volumes", &name].map(str::to_owned).to_vec()]);
    assert!(notes(&env).is_empty());
}

#[test]
fn an_image_with_volumes_is_no_wall_and_refused() {
    let env = TestEnv::new();
    numbers(&env, "echo 1 > src/a\n", &terms("docker"));
    fs::write(format!("{}.volumes", log(&env).display()), "1\n").unwrap();
    let Some(output) = run(&env, "run fix") else { return };
    let output = output.expect_code(30);
    assert!(output.stderr.contains("declares volumes"), "{output:?}");
    assert!(calls(&env).iter().all(|words| words[0] != "run"));
}
