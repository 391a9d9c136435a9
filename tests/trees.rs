//! Fresh worktrees: what fills them, what comes of it, and the field reports on trees and paths, each test named after what went wrong.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::support::TestEnv;
use crate::support::scenario::{HONEST, numbers};

/// Whether overlays can be mounted here; where they must be, a machine without them fails the test.
pub fn overlays(env: &TestEnv) -> bool {
    env.git(&["config", "loop.overlay", "on"]);
    let output = env.git_loop(&["start", "try", "-f", "loop.toml", "--dry-run"]);
    if output.code == 30 && output.stderr.contains("no overlay mounts") {
        assert!(std::env::var_os("GIT_LOOP_CI").is_none(), "no overlays here: {}", output.stderr);
        println!("skipped: this machine gives no overlay mounts");
        return false;
    }
    output.expect_code(0);
    true
}

/// The one folder that holds the worktrees.
fn places(env: &TestEnv) -> PathBuf {
    let all: Vec<_> = fs::read_dir(env.home().join("cache/git-loop")).unwrap().flatten().collect();
    assert_eq!(all.len(), 1);
    all[0].path()
}

/// What lies there besides layers and what is remembered of verified ledgers.
fn left(env: &TestEnv) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(places(env))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "layers" && !name.contains(".verified"))
        .collect();
    names.sort();
    names
}

fn receipt(env: &TestEnv, iteration: u32) -> serde_json::Value {
    let output = env.git_loop(&["show", "fix", &iteration.to_string(), "--json"]).expect_code(0);
    let shown = output.json();
    find(&shown, "receipt").unwrap_or_else(|| panic!("no receipt in {shown}")).clone()
}

/// The first value of this key, at any depth.
fn find<'v>(value: &'v serde_json::Value, key: &str) -> Option<&'v serde_json::Value> {
    match value {
        serde_json::Value::Object(map) => {
            map.get(key).or_else(|| map.values().find_map(|inner| find(inner, key)))
        }
        serde_json::Value::Array(list) => list.iter().find_map(|inner| find(inner, key)),
        _ => None,
    }
}

#[test]
fn a_loop_in_overlays_is_the_same_as_one_in_copies() {
    let mut trees = Vec::new();
    for overlay in ["on", "off"] {
        let env = TestEnv::new();
        numbers(&env, HONEST, "");
        if overlay == "on" && !overlays(&env) {
            return;
        }
        env.git(&["config", "loop.overlay", overlay]);
        env.git_loop(&["run", "fix", "-f", "loop.toml"]).expect_code(10);
        env.git_loop(&["verify", "fix"]).expect_code(0);
        trees.push(env.git(&["rev-parse", "refs/loops/fix/head^{tree}"]));
        assert_eq!(left(&env), [""; 0]);
        assert_eq!(places(&env).join("layers").exists(), overlay == "on");
        assert_eq!(env.git(&["worktree", "list"]).lines().count(), 1);
    }
    assert_eq!(trees[0], trees[1]);
}

#[test]
fn whatever_a_worker_does_in_an_overlay_the_candidate_is_what_it_left() {
    let env = TestEnv::new();
    let worker = "set -e
        git mv src lib && git mv lib src
        mkdir -p src/new/deep && echo new > src/new/deep/file && rm -r src/new && mkdir src/new && echo x > src/new/file
        rm src/a && mkdir src/a && echo inner > src/a/inner
        ln -s new src/link && chmod +x src/b
        git add -A && git commit -qm mine && git rm -q -r --cached src
        echo 3 > src/c";
    numbers(&env, worker, "");
    if !overlays(&env) {
        return;
    }
    env.git_loop(&["run", "fix", "-f", "loop.toml", "--once"]);
    let shown = env.git(&["ls-tree", "-r", receipt(&env, 1)["candidate"].as_str().unwrap(), "src/"]);
    let lines: Vec<String> =
        shown.lines().map(|line| format!("{} {}", &line[..6], line.split('\t').nth(1).unwrap())).collect();
    for wanted in
        ["100644 src/a/inner", "100755 src/b", "100644 src/c", "120000 src/link", "100644 src/new/file"]
    {
        assert!(lines.iter().any(|line| line == wanted), "{wanted}: {lines:?}");
    }
    assert!(!shown.contains("deep"), "{shown}");
}

#[test]
fn a_check_that_writes_to_what_judges_it_gives_no_verdict_in_an_overlay_either() {
    for (change, code) in [
        ("echo 'd 4' >> tests/expected", 30),
        ("rm tests/expected", 30),
        ("rm tests/expected && ln -s /etc/passwd tests/expected", 30),
        ("mv tests moved && mkdir tests && cp moved/expected tests/ && echo >> tests/expected", 30),
        ("mv tests moved", 30),
        ("rm -r tests", 30),
        // Nothing of it is another afterwards.
        ("touch tests/expected && chmod 755 tests/expected", 10),
        ("mv tests moved && mv moved tests", 10),
        ("mv tests/expected x && mv x tests/expected", 10),
    ] {
        for overlay in ["on", "off"] {
            let env = TestEnv::new();
            numbers(&env, HONEST, "");
            if overlay == "on" && !overlays(&env) {
                return;
            }
            env.git(&["config", "loop.overlay", overlay]);
            let check = fs::read_to_string(env.repo().join("check.sh")).unwrap();
            env.write("check.sh", check.replace("exit $", &format!("{change}\nexit $")));
            env.commit("A check that changes what judges");
            let output = env.git_loop(&["run", "fix", "-f", "loop.toml"]);
            assert_eq!(output.code, code, "{change}, overlay {overlay}: {}", output.stderr);
        }
    }
}

#[test]
fn an_overlay_that_is_demanded_and_cannot_be_had_is_an_error_and_not_a_copy() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git(&["config", "loop.overlay", "sometimes"]);
    env.git_loop(&["run", "fix", "-f", "loop.toml"]).expect_stderr("auto, on or off");
}

fn with_setup(env: &TestEnv, setup: &str, worker: &str) {
    numbers(env, worker, "");
    env.write(".gitignore", "deps/\n.env.local\n");
    env.write(
        "install.sh",
        "mkdir deps && echo \"installed: $(cat src/c)\" > deps/lib && ln -s lib deps/link\n",
    );
    env.commit("Dependencies");
    let terms = fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    fs::write(env.repo().join("loop.toml"), format!("{terms}\n[worktree]\n{setup}\n")).unwrap();
}

#[test]
fn checkouts_of_bases_go_when_somebody_tidies_up() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    if !overlays(&env) {
        return;
    }
    env.git_loop(&["run", "fix"]).expect_code(10);
    let layers = places(&env).join("layers");
    let checkouts =
        || fs::read_dir(&layers).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
    assert_eq!(checkouts(), 1);
    let dry = env.git_loop(&["prune", "-n", "--json"]).expect_code(0).json();
    assert_eq!((&dry["removed"][0]["kind"], checkouts()), (&serde_json::json!("checkout"), 1), "{dry}");
    let done = env.git_loop(&["prune", "--json"]).expect_code(0).json();
    assert!(done["removed"][0]["bytes"].as_u64().unwrap() > 0, "{done}");
    assert_eq!(checkouts(), 0);
    env.git_loop(&["start", "again"]).expect_code(0);
    env.git_loop(&["run", "again"]).expect_code(10);
}

#[test]
fn a_setup_runs_once_on_the_base_and_every_worktree_gets_what_it_made() {
    for overlay in ["auto", "on"] {
        let env = TestEnv::new();
        let log =
            "test -L deps/link && test \"$(cat deps/lib)\" = 'installed: 0' && echo worker >> deps/lib &&";
        with_setup(&env, "setup = \"sh install.sh\"\nwarm = [\"deps\"]", &format!("{log} {HONEST}"));
        if overlay == "on" && !overlays(&env) {
            return;
        }
        env.git(&["config", "loop.overlay", overlay]);
        let output = env.git_loop(&["run", "fix", "-f", "loop.toml"]).expect_code(10);
        assert_eq!(output.stderr.matches("setup of the worktrees").count(), 1, "{}", output.stderr);
        let layers = &receipt(&env, 1)["layers"];
        assert_eq!(layers["warm"][0]["folder"], "deps");
        assert_eq!(layers["warm"][0]["files"], 2);
        assert_eq!(layers["warm"][0]["sha256"].as_str().unwrap().len(), 64);
        assert_eq!(receipt(&env, 3)["layers"], *layers);
        assert!(!env.git(&["ls-tree", "-r", "--name-only", "refs/loops/fix/head"]).contains("deps"));
        env.git_loop(&["verify", "fix"]).expect_code(0);
        assert_eq!(left(&env), [""; 0]);
    }
}

#[test]
fn a_setup_that_fails_stops_before_any_money_is_spent_and_says_why() {
    let env = TestEnv::new();
    with_setup(&env, "setup = \"echo no such package >&2; exit 3\"\nwarm = [\"deps\"]", HONEST);
    let output = env.git_loop(&["run", "fix", "-f", "loop.toml"]).expect_code(30);
    assert!(
        output.stderr.contains("worktree.setup failed on the base: it exited with 3"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("no such package"), "{}", output.stderr);
    assert_eq!(env.git(&["rev-list", "--count", "--first-parent", "refs/loops/fix/ledger"]), "1");
    assert_eq!(left(&env), [""; 0]);
}

#[test]
fn warm_folders_that_somebody_changed_are_built_anew() {
    let env = TestEnv::new();
    with_setup(&env, "setup = [\"sh\", \"install.sh\"]\nwarm = [\"deps\"]", HONEST);
    env.git_loop(&["run", "fix", "-f", "loop.toml", "--once"]).expect_code(0);
    let before = receipt(&env, 1)["layers"].clone();
    let warm = places(&env).join(left(&env).iter().find(|name| name.contains(".warm")).unwrap());
    fs::write(warm.join("deps/lib"), "planted\n").unwrap();
    let output = env.git_loop(&["run", "fix", "--once"]).expect_code(0);
    assert!(output.stderr.contains("building what the worktrees get"), "{}", output.stderr);
    assert_eq!(receipt(&env, 2)["layers"], before);
}

#[test]
fn ignored_files_that_the_base_names_are_given_and_never_become_part_of_a_candidate() {
    let env = TestEnv::new();
    // A worker that takes the ignore rule away: the file it was given must not be committed in the next iteration.
    let worker = format!("test \"$(cat .env.local)\" = secret && test ! -e other.local && {HONEST}");
    with_setup(&env, "include = \".worktreeinclude\"", &worker);
    env.write(".worktreeinclude", "*.local\n!never.local\n");
    env.write(".gitignore", "deps/\n.env.local\nnever.local\n");
    env.commit("Include");
    fs::write(env.repo().join(".env.local"), "secret\n").unwrap();
    fs::write(env.repo().join("other.local"), "not ignored\n").unwrap();
    fs::write(env.repo().join("never.local"), "taken back\n").unwrap();
    let outside = env.root().join("outside");
    fs::write(&outside, "key\n").unwrap();
    symlink(&outside, env.repo().join("link.local")).unwrap();
    let output = env.git_loop(&["run", "fix", "-f", "loop.toml"]).expect_code(10);
    assert!(output.stderr.contains("names other.local, which the base does not ignore"), "{}", output.stderr);
    let included = &receipt(&env, 2)["layers"]["included"];
    assert_eq!(included.as_array().unwrap().len(), 1);
    assert_eq!(included[0]["path"], ".env.local");
    assert!(
        !env.git(&["log", "--format=", "--name-only", "refs/loops/fix/head"]).contains("local\n.env.local")
    );
    for number in 1..=3 {
        let candidate = receipt(&env, number)["candidate"].as_str().unwrap().to_owned();
        assert!(!env.git(&["ls-tree", "-r", "--name-only", &candidate]).contains(".local"));
    }
    assert_eq!(left(&env), [""; 0]);
}

#[test]
fn an_include_file_that_the_base_does_not_have_is_refused() {
    let env = TestEnv::new();
    with_setup(&env, "include = \".worktreeinclude\"", HONEST);
    env.git_loop(&["start", "fix", "-f", "loop.toml"])
        .expect_code(129)
        .expect_stderr("the base commit does not have");
}

/// Field report 1.45: the worker makes `.git` lead to another repository.
#[test]
fn a_git_file_that_leads_elsewhere_changes_neither_the_candidate_nor_the_removal() {
    let env = TestEnv::new();
    let other = env.root().join("other");
    env.git_in(&env.root(), &["init", "--quiet", other.to_str().unwrap()]);
    let worker = format!(
        "{HONEST}
rm -rf .git; echo 'gitdir: {}/.git' > .git",
        other.display()
    );
    numbers(&env, &worker, "");
    env.git_loop(&["run", "fix", "-f", "loop.toml"]).expect_code(10);
    assert_eq!(env.git(&["show", "refs/loops/fix/head:src/c"]), "3");
    assert_eq!(env.git(&["worktree", "list"]).lines().count(), 1);
    assert!(other.join(".git/HEAD").exists());
    assert_eq!(left(&env), [""; 0]);
}

/// Field report 1.54: an agent's own worktree became a gitlink.
#[test]
fn a_repository_inside_the_worktree_blocks_and_never_becomes_a_gitlink() {
    let env = TestEnv::new();
    let worker = format!(
        "{HONEST}
git init -q src/x && git -C src/x -c user.name=a -c user.email=a@b commit -q --allow-empty -m n"
    );
    numbers(&env, &worker, "");
    env.git_loop(&["run", "fix", "-f", "loop.toml"]).expect_code(13);
    let shown = receipt(&env, 1);
    assert!(shown["guards"]["left_out"].to_string().contains("src/x/.git"), "{shown}");
    let candidate = shown["candidate"].as_str().unwrap().to_owned();
    assert!(!env.git(&["ls-tree", "-r", &candidate]).contains("160000"));
}

/// Field reports 1.55 and 1.56: names that HFS+ or NTFS would fold to `.git` or `..`, on every platform.
#[test]
fn names_that_another_system_takes_for_dot_git_block_on_this_one() {
    for name in [".GIT", "git~1", ".git.", ".g\u{200c}it", ".git::$INDEX_ALLOCATION", ".git ", ".\u{200c}."] {
        let env = TestEnv::new();
        numbers(
            &env,
            &format!(
                "{HONEST}
mkdir -p 'src/{name}' && echo x > 'src/{name}/config'"
            ),
            "",
        );
        let output = env.git_loop(&["run", "fix", "-f", "loop.toml"]);
        assert_eq!(output.code, 13, "{name:?}: {}", output.stderr);
    }
}

/// Field report 1.57: a twin of a frozen path, in other letters.
#[test]
fn a_twin_of_a_frozen_path_in_other_letters_is_no_way_around_it() {
    for twin in ["CHECK.SH", "Check.sh", "check\u{200b}.sh"] {
        let env = TestEnv::new();
        numbers(
            &env,
            &format!(
                "{HONEST}
echo exit 0 > '{twin}'"
            ),
            "",
        );
        let output = env.git_loop(&["run", "fix", "-f", "loop.toml"]);
        assert_eq!(output.code, 13, "{twin:?}: {}", output.stderr);
    }
}

/// Field report 1.58: one hostile name is one path, and is shown escaped.
#[test]
fn a_newline_in_a_name_makes_no_second_path() {
    let env = TestEnv::new();
    numbers(
        &env,
        &format!(
            "{HONEST}
echo x > \"$(printf 'src/a\\nb.py')\"; echo x > \"$(printf 'src/x\\033[2Jy')\""
        ),
        "",
    );
    let output = env.git_loop(&["run", "fix", "-f", "loop.toml"]).expect_code(13);
    assert!(!output.stderr.contains('\u{1b}'), "{:?}", output.stderr);
    let shown = receipt(&env, 1);
    let blocked = shown["guards"]["blocked"].to_string();
    assert!(blocked.contains("src/a\\\\x0ab.py"), "{blocked}");
}

/// Field report 1.62: a process that left its group edits files after the worker has ended.
#[test]
fn a_late_edit_by_a_process_that_got_away_is_in_no_candidate() {
    let env = TestEnv::new();
    numbers(&env, &format!("setsid sh -c 'sleep 2; echo evil > src/evil' >/dev/null 2>&1 & {HONEST}"), "");
    env.git_loop(&["run", "fix", "-f", "loop.toml"]).expect_code(10);
    for number in 1..=3 {
        let shown = receipt(&env, number);
        assert!(
            !env.git(&["ls-tree", "-r", "--name-only", shown["candidate"].as_str().unwrap()])
                .contains("evil")
        );
    }
}

/// Field report 1.63: what is promoted is what was judged.
#[test]
fn the_tree_that_is_kept_is_the_tree_that_was_judged() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    env.git_loop(&["run", "fix", "-f", "loop.toml"]).expect_code(10);
    let shown = receipt(&env, 3);
    let head = env.git(&["rev-parse", "refs/loops/fix/head^{tree}"]);
    assert_eq!(shown["candidate_tree"], head.as_str());
    // No frozen path changed, so the check's tree is the candidate's.
    assert_eq!(shown["check"]["tree"], head.as_str());
}

/// Field reports 1.65 and 2.28: configuration that alters what a checkout produces.
#[test]
fn configuration_that_alters_checkouts_alters_no_worktree() {
    let mut env = TestEnv::new();
    let worker =
        format!("test \"$(od -An -c src/crlf | tr -d ' \\n')\" = 'a\\r\\n' && test -L src/l && {HONEST}");
    numbers(&env, &worker, "");
    fs::write(env.repo().join("src/crlf"), "a\r\n").unwrap();
    symlink("crlf", env.repo().join("src/l")).unwrap();
    env.commit("Line ends");
    for (key, value) in [
        ("core.symlinks", "false"),
        ("core.eol", "lf"),
        ("core.filemode", "false"),
        ("core.sparseCheckout", "true"),
    ] {
        env.git(&["config", key, value]);
    }
    env.set_env("GIT_CONFIG_COUNT", "1");
    env.set_env("GIT_CONFIG_KEY_0", "core.autocrlf");
    env.set_env("GIT_CONFIG_VALUE_0", "input");
    env.git_loop(&["run", "fix", "-f", "loop.toml"]).expect_code(10);
    assert_eq!(env.git(&["cat-file", "-s", "refs/loops/fix/head:src/crlf"]), "3");
}

/// Field reports 1.53 and 2.13: a submodule stays a link, and its folder does not keep a worktree from being removed.
#[test]
fn a_submodule_is_never_followed_and_does_not_block_removal() {
    let env = TestEnv::new();
    numbers(
        &env,
        &format!(
            "{HONEST}
git init -q sub; echo x > sub/file"
        ),
        "",
    );
    let head = env.git(&["rev-parse", "HEAD"]);
    env.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},sub")]);
    env.git(&["commit", "--quiet", "-m", "A submodule"]);
    env.git_loop(&["run", "fix", "-f", "loop.toml"]).expect_code(13);
    let shown = receipt(&env, 1);
    assert!(shown["guards"]["left_out"].to_string().contains("submodule"), "{shown}");
    assert_eq!(left(&env), [""; 0]);
    assert_eq!(env.git(&["worktree", "list"]).lines().count(), 1);
}

/// Field report 2.25: a teardown that followed a link emptied the shared folder.
#[test]
fn removal_does_not_follow_a_link_into_a_shared_folder() {
    let env = TestEnv::new();
    let shared = env.root().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::write(shared.join("keep"), "k").unwrap();
    numbers(
        &env,
        &format!(
            "{HONEST}
ln -s '{}' src/node_modules",
            shared.display()
        ),
        "",
    );
    env.git_loop(&["run", "fix", "-f", "loop.toml"]);
    assert!(shared.join("keep").exists());
    assert_eq!(left(&env), [""; 0]);
}

/// Field report 2.30: an extension that newer gits write.
#[test]
fn relative_worktrees_are_no_reason_to_refuse() {
    let env = TestEnv::new();
    numbers(&env, HONEST, "");
    let plain = env.git(&["config", "core.repositoryformatversion"]);
    env.git(&["config", "core.repositoryformatversion", "1"]);
    env.git(&["config", "extensions.relativeWorktrees", "true"]);
    let file = env.repo().join("loop.toml");
    let output = env.git_loop(&["run", "fix", "-f", file.to_str().unwrap()]);
    env.git_in(
        &env.root(),
        &[
            "config",
            "--file",
            env.repo().join(".git/config").to_str().unwrap(),
            "--unset",
            "extensions.relativeWorktrees",
        ],
    );
    env.git_in(
        &env.root(),
        &[
            "config",
            "--file",
            env.repo().join(".git/config").to_str().unwrap(),
            "core.repositoryformatversion",
            &plain,
        ],
    );
    output.expect_code(10);
}

/// A tree that is larger than what a loop is about: the worktrees hold a part of it, and the candidate all of it.
#[test]
fn a_part_of_a_tree_is_checked_out_and_the_rest_stays_as_it_is_in_every_candidate() {
    let worker = r#"find . -name .git -prune -o -type f -print > "$HOME/seen"; sort "$HOME/seen" > src/seen-$GIT_LOOP_ITERATION
test -z "$(git status --porcelain -uno)" || echo dirty > src/dirty
case "$GIT_LOOP_ITERATION" in
  1) echo 1 > src/a; mkdir -p docs/deep; echo new > docs/new; echo changed > docs/deep/b ;;
  2) test "$(cat docs/deep/b)" = changed || exit 1; rm docs/new; echo 2 > src/b ;;
  *) echo 3 > src/c; rm -r docs; ls -R . > src/listing ;;
esac"#;
    let mut trees = Vec::new();
    for overlay in ["on", "off"] {
        let env = TestEnv::new();
        numbers(&env, worker, "\n[worktree]\nsparse = [\"src/**\", \"!src/large/**\"]\n");
        for path in ["docs/deep/b", "docs/c", "src/large/d", "src/large/e", "lib/x", "tests/deep/frozen"] {
            env.write(path, format!("{path}\n"));
        }
        env.commit("More");
        let toml = fs::read_to_string(env.repo().join("loop.toml")).unwrap();
        env.write("loop.toml", toml.replace("mutable = [\"src/**\"]", "mutable = [\"src/**\", \"docs/**\"]"));
        let check = fs::read_to_string(env.repo().join("check.sh")).unwrap();
        env.write(
            "check.sh",
            format!("test ! -e lib && test ! -e src/large && test -e tests/deep/frozen || exit 3\n{check}"),
        );
        env.commit("A check that looks around");
        if overlay == "on" && !overlays(&env) {
            return;
        }
        env.git(&["config", "loop.overlay", overlay]);
        let output = env.git_loop(&["run", "fix", "-f", "loop.toml"]).expect_code(10);
        assert!(output.stderr.contains("worktree.sparse leaves out"), "{output:?}");
        env.git_loop(&["verify", "fix"]).expect_code(0);
        let head = |path: &str| env.git(&["show", &format!("refs/loops/fix/head:{path}")]);
        assert_eq!(
            head("src/seen-1"),
            "./check.sh\n./src/a\n./src/b\n./src/c\n./tests/deep/frozen\n./tests/expected"
        );
        // What was changed since the base is in sight, wherever it lies.
        assert!(head("src/seen-2").contains("./docs/deep/b\n./docs/new\n"), "{}", head("src/seen-2"));
        assert_eq!(head("lib/x"), "lib/x");
        let files = env.git(&["ls-tree", "-r", "--name-only", "refs/loops/fix/head"]);
        // The last iteration removed all that it saw of `docs`.
        assert!(
            files.contains("docs/c\n") && !files.contains("docs/deep") && !files.contains("dirty"),
            "{files}"
        );
        assert!(files.contains("src/large/d\nsrc/large/e\n"), "{files}");
        let context = env.git(&["show", "refs/loops/fix/ledger~1:evidence/context.md"]);
        assert!(context.contains("files that are not here stay as they are"), "{context}");
        trees.push(format!(
            "{}\n{}",
            env.git(&["ls-tree", "-r", "refs/loops/fix/head"]),
            head("src/listing")
        ));
        env.git_loop(&["prune"]).expect_code(0);
        assert_eq!(left(&env), [""; 0]);
    }
    assert_eq!(trees[0], trees[1]);
}

#[test]
fn a_file_beside_the_part_that_is_checked_out_is_a_change_like_any_other() {
    let env = TestEnv::new();
    numbers(&env, "echo 1 > src/a; mkdir lib; echo mine > lib/x", "\n[worktree]\nsparse = [\"src/**\"]\n");
    env.write("lib/x", "theirs\n");
    env.commit("Library");
    env.git_loop(&["run", "fix", "-f", "loop.toml", "--once"]);
    let receipt = receipt(&env, 1);
    assert_eq!(receipt["decision"]["outcome_reason"], "outside_mutable_paths", "{receipt}");
    assert!(receipt["guards"]["outside"].to_string().contains("lib/x"), "{receipt}");
}

/// Where worktrees are overlays their warm folders are one folder for all of them, that none can change.
#[test]
fn warm_folders_below_an_overlay_are_the_same_for_every_worktree() {
    let mut candidates = Vec::new();
    for overlay in ["on", "off"] {
        let env = TestEnv::new();
        let worker = r#"cat deps/lib > src/seen-$GIT_LOOP_ITERATION
case "$GIT_LOOP_ITERATION" in
  1) echo 1 > src/a; echo spoilt > deps/lib; rm deps/link ;;
  2) echo 2 > src/b; mv deps/lib src/kept; mv deps src/moved ;;
  *) echo 3 > src/c; rm -r deps; mkdir deps; echo x > deps/x ;;
esac"#;
        with_setup(&env, "setup = [\"sh\", \"install.sh\"]\nwarm = [\"deps\"]", worker);
        let check = fs::read_to_string(env.repo().join("check.sh")).unwrap();
        let look = "test \"$(cat deps/link)\" = 'installed: 0' || exit 3; test ! -e deps/x || exit 3\n";
        env.write("check.sh", format!("{look}echo spoilt > deps/lib\n{check}"));
        env.commit("A check that needs what is installed");
        if overlay == "on" && !overlays(&env) {
            return;
        }
        env.git(&["config", "loop.overlay", overlay]);
        env.git_loop(&["run", "fix", "-f", "loop.toml"]).expect_code(10);
        env.git_loop(&["verify", "fix"]).expect_code(0);
        let head = |path: &str| env.git(&["show", &format!("refs/loops/fix/head:{path}")]);
        for iteration in 1..=3 {
            assert_eq!(head(&format!("src/seen-{iteration}")), "installed: 0");
        }
        assert_eq!(head("src/kept"), "installed: 0");
        let files = env.git(&["ls-tree", "-r", "--name-only", "refs/loops/fix/head"]);
        // What was moved out of its place is the candidate's.
        assert!(files.contains("src/moved/link") && !files.contains("deps"), "{files}");
        candidates.push(env.git(&["rev-parse", "refs/loops/fix/head^{tree}"]));
        assert_eq!(left(&env), [""; 0]);
    }
    assert_eq!(candidates[0], candidates[1]);
}
