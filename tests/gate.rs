//! What the installed hook lets out, and what it does not.

use std::path::PathBuf;

use crate::support::scenario::numbers;
use crate::support::{Output, TestEnv};

/// The fields that lasting code asks for, as the end of a `loop.toml`'s top level.
const LASTING: &str = r#"class = "lasting_code"
invariant_boundaries = [{ name = "numbers", command = ["sh", "check.sh"] }]
allowed_semantic_changes = ["the numbers"]
forbidden_semantic_changes = []
machine_independence_requirements = [{ name = "check", command = ["sh", "check.sh"] }]
review_risk = "standard"
required_review_personas = ["maintainer"]
complexity_budget = { fallback_branches = 0, dependencies = 0, public_interfaces = 0, cyclomatic_complexity = 0, changed_lines = 10 }
local_defense_limit = 2
human_promotion_required = true
"#;

/// A line in `src/long` is changed, and the three numbers are mended; with what lasting code has to bring.
fn worker() -> String {
    let mut packet = crate::lasting::packet();
    packet["owning_invariant"] = serde_json::json!("numbers");
    let evidence = crate::lasting::with_packet(&packet);
    format!(
        "echo 1 > src/a; echo 2 > src/b; echo 3 > src/c\n\
         sed 's/^line 5$/line five/' src/long > src/new && cat src/new > src/long && rm src/new\n\
         cat > \"$GIT_LOOP_EVIDENCE\" <<'EVIDENCE'\n{evidence}\nEVIDENCE\n"
    )
}

/// A converged `lasting_code` loop `keep`, a bare remote that has its base, and the hook installed.
pub fn converged() -> (TestEnv, PathBuf) {
    let env = TestEnv::new();
    let long = (1..=20).fold(String::new(), |text, number| text + &format!("line {number}\n"));
    env.write("src/long", long);
    numbers(&env, &worker(), "\n[roles]\nrunner = [\"runner@example.org\"]\n");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write("loop.toml", toml.replace("class = \"mechanical_transformation\"\n", LASTING));
    let remote = env.root().join("remote.git");
    env.git_in(&env.root(), &["init", "--quiet", "--bare", remote.to_str().unwrap()]);
    env.git(&["remote", "add", "origin", remote.to_str().unwrap()]);
    env.git(&["push", "--quiet", "origin", "main"]);
    let lead = env.key("lead");
    env.git_loop(&["start", "keep", "--key", lead.to_str().unwrap()]).expect_code(0);
    env.git_loop(&["run", "keep"]).expect_code(10);
    env.git_loop(&["hooks", "install"]).expect_code(0);
    (env, remote)
}

#[track_caller]
fn refused(output: Output) {
    let output = output.expect_code(1);
    for needle in ["loop keep", "src/", "not promoted", "unblock"] {
        assert!(output.stderr.contains(needle), "{needle:?} not in {}", output.stderr);
    }
}

#[test]
fn content_of_an_unpromoted_lasting_loop_does_not_leave_in_any_form() {
    let (env, remote) = converged();
    let head = "refs/loops/keep/head";
    let before = env.git_in(&remote, &["for-each-ref"]);

    // The candidate itself, to a new branch, to main, as a tag.
    refused(env.try_git(&["push", "origin", &format!("{head}:refs/heads/new")]));
    refused(env.try_git(&["push", "origin", &format!("{head}:refs/heads/main")]));
    env.git(&["tag", "-a", "-m", "a tag", "v1", head]);
    refused(env.try_git(&["push", "origin", "v1"]));

    // A squash of it.
    env.git(&["switch", "--quiet", "-c", "squash", "main"]);
    env.git(&["merge", "--squash", "--quiet", head]);
    env.git(&["commit", "--quiet", "-m", "All at once"]);
    refused(env.try_git(&["push", "origin", "squash"]));

    // A cherry-pick onto a branch where the same files have other edits.
    env.git(&["switch", "--quiet", "-c", "picked", "main"]);
    let long = std::fs::read_to_string(env.repo().join("src/long")).unwrap();
    env.write("src/long", long.replace("line 18\n", "line eighteen\n"));
    env.commit("Another edit of the same file");
    env.git(&["cherry-pick", head]);
    refused(env.try_git(&["push", "origin", "picked"]));

    // A rebase and a merge.
    env.git(&["switch", "--quiet", "-c", "merged", "main"]);
    env.write("elsewhere", "x\n");
    env.commit("Elsewhere");
    env.git(&["merge", "--quiet", "--no-edit", head]);
    refused(env.try_git(&["push", "origin", "merged"]));

    assert_eq!(env.git_in(&remote, &["for-each-ref"]), before, "nothing got through");

    // The ledgers themselves may be shared, and what has nothing to do with any loop passes.
    env.git(&["switch", "--quiet", "-c", "unrelated", "main"]);
    env.write("notes", "x\n");
    env.commit("A note");
    env.git(&["push", "--quiet", "origin", "unrelated"]);
    env.git(&[
        "push",
        "--quiet",
        "origin",
        "refs/loops/*:refs/loops/*",
        "refs/notes/loops/*:refs/notes/loops/*",
    ]);

    // An approval alone promotes no lasting code, so it stays.
    let ann = env.key("ann");
    env.git_loop(&["review", "keep", "--approve", "--key", ann.to_str().unwrap()]).expect_code(0);
    env.git_loop(&["promote", "keep", "--key", ann.to_str().unwrap()])
        .expect_code(1)
        .expect_stderr("a person promotes lasting code");

    // The same code judges for CI.
    env.git_loop(&["gate", "main..squash"]).expect_code(1).expect_stderr("loop keep");
    env.git_loop(&["gate", "main..unrelated"]).expect_code(0);
    let json = env.git_loop(&["gate", "main..picked", "--json"]).expect_code(1).json();
    assert_eq!(json["status"], "refused");
    assert_eq!(json["verdict"]["refusals"][0]["loop"], "keep");
}

#[test]
fn a_ledger_on_a_remote_only_fast_forwards_and_is_never_deleted() {
    let (env, remote) = converged();
    env.git(&["push", "--quiet", "origin", "refs/loops/*:refs/loops/*"]);
    let before = env.git_in(&remote, &["for-each-ref"]);
    let ledger = "refs/loops/keep/ledger";
    env.try_git(&["push", "origin", &format!(":{ledger}")]).expect_code(1).expect_stderr("ledger");
    env.try_git(&["push", "--force", "origin", &format!("{ledger}~1:{ledger}")])
        .expect_code(1)
        .expect_stderr("ledger");
    env.try_git(&["push", "--force", "origin", &format!("main:{ledger}")])
        .expect_code(1)
        .expect_stderr("ledger");
    // A forged continuation: not signed.
    let forged = env.git(&["commit-tree", "-p", ledger, "-m", "forged", &format!("{ledger}^{{tree}}")]);
    env.try_git(&["push", "origin", &format!("{forged}:{ledger}")]).expect_code(1).expect_stderr("ledger");
    assert_eq!(env.git_in(&remote, &["for-each-ref"]), before);
}

#[cfg(unix)]
#[test]
fn an_existing_pre_push_hook_still_runs_and_comes_back() {
    use std::os::unix::fs::PermissionsExt;
    let env = TestEnv::new();
    env.write("file", "x\n");
    env.commit("Begin");
    let remote = env.root().join("remote.git");
    env.git_in(&env.root(), &["init", "--quiet", "--bare", remote.to_str().unwrap()]);
    env.git(&["remote", "add", "origin", remote.to_str().unwrap()]);
    let seen = env.root().join("seen");
    let hook = env.repo().join(".git/hooks/pre-push");
    let script = format!("#!/bin/sh\ncat > '{}'\nexit ${{HOOK_CODE:-0}}\n", seen.display());
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, &script).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();

    env.git_loop(&["hooks", "install"]).expect_code(0);
    env.git(&["push", "--quiet", "origin", "main"]);
    assert!(std::fs::read_to_string(&seen).unwrap().contains("refs/heads/main"), "it got its input");
    let status = env.git_loop(&["hooks", "status"]).expect_code(0);
    assert!(status.stdout.contains("active"), "{status:?}");
    // Its refusal stops the push.
    env.write("file", "y\n");
    env.commit("Next");
    let output = env
        .run_command(env.command("git", env.repo()).env("HOOK_CODE", "3").args(["push", "origin", "main"]));
    assert_ne!(output.code, 0);

    env.git_loop(&["hooks", "uninstall"]).expect_code(0);
    assert_eq!(std::fs::read_to_string(&hook).unwrap(), script, "byte for byte");
}

#[test]
fn lasting_code_needs_an_approver_other_than_the_runner() {
    let env = TestEnv::new();
    numbers(&env, &worker(), "\n[roles]\nrunner = [\"runner@example.org\"]\n");
    let toml = std::fs::read_to_string(env.repo().join("loop.toml")).unwrap();
    env.write("loop.toml", toml.replace("class = \"mechanical_transformation\"\n", LASTING));
    env.git_loop(&["start", "keep"]).expect_code(1).expect_stderr("approver other than its runner");
}

/// git resolves a relative `core.hooksPath` at the top of each work tree, wherever it is called there.
#[cfg(unix)]
#[test]
fn the_status_of_hooks_in_a_relative_folder_is_right_from_everywhere() {
    use std::os::unix::fs::PermissionsExt;
    let env = TestEnv::new();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_git-loop"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let line = "#!/bin/sh\ngit-loop hook pre-push \"$@\" || exit $?\n";
    env.write(".githooks/pre-push", line);
    let hook = env.repo().join(".githooks/pre-push");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    env.write("sub/folder/file", "x\n");
    env.git(&["add", "sub"]);
    env.git(&["commit", "--quiet", "-m", "Begin"]);
    env.git(&["config", "core.hooksPath", ".githooks"]);
    let linked = env.root().join("linked");
    let status = |dir: &std::path::Path| {
        let mut command = env.command(&program, dir);
        let output = env.run_command(command.env("PATH", &path).args(["hooks", "status", "--json"]));
        let status = output.expect_code(0).json()["hooks"][0]["status"].clone();
        let told = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        (told("state"), told("file"), told("why"))
    };
    for dir in [env.repo().to_owned(), env.repo().join("sub/folder")] {
        let (state, file, _) = status(&dir);
        assert_eq!((&*state, &*file), ("active", hook.to_str().unwrap()), "{}", dir.display());
    }
    // The folder is not tracked, so another work tree has none, and git says nothing there.
    env.git(&["worktree", "add", "--quiet", linked.to_str().unwrap()]);
    for (dir, file) in [
        (env.repo().to_owned(), &hook),
        (env.repo().join("sub"), &hook),
        (linked.clone(), &linked.join(".githooks/pre-push")),
        (linked.join("sub/folder"), &linked.join(".githooks/pre-push")),
    ] {
        let (state, told, why) = status(&dir);
        assert_eq!((&*state, &*told), ("not_effective", file.to_str().unwrap()), "{}", dir.display());
        let other = if dir.starts_with(&linked) { env.repo() } else { &linked };
        assert!(why.ends_with(other.to_str().unwrap()), "{why}");
    }
    env.git(&["add", ".githooks"]);
    env.git(&["commit", "--quiet", "-m", "Track the hooks"]);
    env.git_in(&linked, &["merge", "--quiet", "main"]);
    for dir in [env.repo().join("sub"), linked.join("sub/folder")] {
        assert_eq!(status(&dir).0, "active", "{}", dir.display());
    }
}

/// Without a ledger nothing says what the refs beside it are, and the tripwire does not look at them.
#[test]
fn head_and_receipts_are_no_way_out_beside_the_ledger() {
    let (env, remote) = converged();
    let before = env.git_in(&remote, &["for-each-ref"]);
    let head = "refs/loops/keep/head";
    let push = |specs: &[&str]| env.try_git(&[&["push", "origin"][..], specs].concat());
    // What a remote without the ledger is offered: the loop's own refs, refs of a made-up loop.
    for specs in [
        &[head][..],
        &["refs/notes/loops/keep"],
        &["refs/loops/keep/head:refs/loops/other/head"],
        &["refs/loops/keep/head:refs/notes/loops/other"],
        &["refs/loops/keep/head:refs/notes/loops/keep", "refs/loops/keep/ledger"],
        &["main:refs/loops/other/head"],
        &["refs/loops/keep/ledger:refs/loops/other/ledger", "refs/loops/keep/head:refs/loops/other/head"],
        &["refs/loops/keep/head:refs/loops/keep/green"],
        &["refs/loops/keep/head:refs/loops/keep"],
    ] {
        push(specs).expect_code(1).expect_stderr("unblock");
    }
    push(&[head]).expect_stderr(&format!("git push origin refs/loops/keep/ledger {head}"));
    assert_eq!(env.git_in(&remote, &["for-each-ref"]), before, "nothing got through");

    // With its ledger, at once or after it; then only where the ledger says.
    push(&["refs/loops/keep/ledger", "refs/notes/loops/keep"]).expect_code(0);
    push(&[head]).expect_code(0);
    push(&[&format!("+{head}~1:{head}")]).expect_code(0);
    env.write("src/a", "7\n");
    let other = env.commit("Something else");
    push(&[&format!("+{}:{head}", other.trim())])
        .expect_code(1)
        .expect_stderr("neither the base nor a candidate");
    push(&[&format!("+{}:refs/notes/loops/keep", other.trim())]).expect_code(1).expect_stderr("loop keep");
}

/// A server knows the loops that it has. A push that brings a ledger and a branch at once is judged by both.
#[test]
fn a_ledger_and_its_content_in_one_push_do_not_pass_a_server() {
    let (env, remote) = converged();
    env.git_loop(&["hooks", "uninstall"]).expect_code(0);
    env.git_in(&remote, &["config", "loop.allowedSigners", env.trust_file().to_str().unwrap()]);
    env.run_command(
        env.command(env!("CARGO_BIN_EXE_git-loop"), &remote).args(["hooks", "install", "--server"]),
    )
    .expect_code(0);
    let before = env.git_in(&remote, &["for-each-ref"]);
    let (head, ledger) = ("refs/loops/keep/head", "refs/loops/keep/ledger");
    let branch = format!("{head}:refs/heads/lasting");
    for specs in [&[ledger, &branch][..], &[ledger, head, &branch], &[head], &["refs/notes/loops/keep"]] {
        env.try_git(&[&["push", "origin"][..], specs].concat()).expect_code(1).expect_stderr("loop keep");
        assert_eq!(env.git_in(&remote, &["for-each-ref"]), before);
    }
    env.git(&[
        "push",
        "--quiet",
        "origin",
        "refs/loops/*:refs/loops/*",
        "refs/notes/loops/*:refs/notes/loops/*",
    ]);
    refused(env.try_git(&["push", "origin", &branch]));
    env.git(&["push", "--quiet", "origin", "main:other"]);
}

/// `git loop gate --stdin` with this input.
fn lines(env: &TestEnv, input: &str) -> Output {
    let file = env.root().join("input");
    std::fs::write(&file, input).unwrap();
    let mut shell = env.command("sh", env.repo());
    let program = env!("CARGO_BIN_EXE_git-loop");
    env.run_command(shell.arg("-c").arg(format!("exec '{program}' gate --stdin <'{}'", file.display())))
}

/// What the gate says when it lets something pass: what it judged, and why.
#[test]
fn the_gate_says_what_it_judged_and_why_it_passes() {
    let env = TestEnv::new();
    env.write("file", "x\n");
    env.commit("Begin");
    env.write("file", "y\n");
    env.commit("Next");
    let said = |env: &TestEnv, range: &str| {
        let output = env.git_loop(&["gate", range]).expect_code(0);
        (output.stdout.trim_end().to_owned(), output.stderr)
    };
    let (text, hint) = said(&env, "HEAD~1..HEAD");
    assert_eq!(
        text,
        "ok HEAD~1..HEAD passes: no loop is known in this repository, so there is nothing to hold back"
    );
    assert!(hint.contains("refs/loops/*:refs/loops/*"), "{hint}");
    let output = lines(&env, "");
    assert_eq!(output.expect_code(0).stdout, "ok nothing to judge: the input names no ref\n");

    let (env, _) = converged();
    env.git(&["switch", "--quiet", "-c", "unrelated", "main"]);
    env.write("notes", "x\n");
    let new = env.commit("A note");
    assert_eq!(
        said(&env, "main..unrelated").0,
        "ok main..unrelated passes: 1 commit judged, none with anything that is held back for the unpromoted lasting_code loop keep"
    );
    assert_eq!(
        said(&env, "main..main").0,
        "ok main..main passes: it brings no commit that the protected side does not have"
    );
    let json = env.git_loop(&["gate", "main..unrelated", "--json"]).expect_code(0).json();
    assert_eq!(json["verdict"]["watched"], serde_json::json!(["keep"]));
    assert_eq!(json["verdict"]["ledgers"], 1);

    // A branch that is here says nothing about what the protected side has.
    env.git(&["branch", "copied", "refs/loops/keep/head"]);
    let main = env.git(&["rev-parse", "main"]);
    let copied = env.git(&["rev-parse", "copied"]);
    let line = format!("{} {} refs/heads/copied\n", main.trim(), copied.trim());
    refused(lines(&env, &line));
    let line = format!("{} {} refs/heads/unrelated\n", main.trim(), new.trim());
    let output = lines(&env, &line).expect_code(0);
    assert!(output.stdout.starts_with("ok the push passes: 1 commit judged"), "{output:?}");

    let mechanical = TestEnv::new();
    numbers(&mechanical, &worker(), "");
    mechanical.git_loop(&["run", "numbers", "-f", "loop.toml"]);
    assert_eq!(
        said(&mechanical, "main..main").0,
        "ok main..main passes: 1 loop is known in this repository, and none is an unpromoted lasting_code loop, so there is nothing to hold back"
    );
}

/// Whom a server trusts is not for a pusher to say.
#[test]
fn a_pusher_cannot_bring_the_trust_root_of_a_server_along() {
    let (env, remote) = converged();
    env.git_loop(&["hooks", "uninstall"]).expect_code(0);
    let server =
        |args: &[&str]| env.run_command(env.command(env!("CARGO_BIN_EXE_git-loop"), &remote).args(args));
    server(&["hooks", "install", "--server"]).expect_code(0);
    // The server has no list of its own, and its protected branch has none. A pusher brings one.
    env.git_in(&remote, &["symbolic-ref", "HEAD", "refs/heads/trunk"]);
    env.git(&["push", "--quiet", "origin", "main:trunk"]);
    env.git(&["switch", "--quiet", "-c", "mine", "main"]);
    env.write(".loops/allowed_signers", std::fs::read_to_string(env.trust_file()).unwrap());
    env.commit("My list");
    let ledger = "refs/loops/keep/ledger";
    env.try_git(&["push", "origin", "mine:refs/remotes/origin/HEAD"])
        .expect_code(1)
        .expect_stderr("nobody pushes");
    env.git(&["push", "--quiet", "--force", "origin", "mine:refs/heads/main"]);
    env.try_git(&["push", "origin", ledger]).expect_code(1).expect_stderr("nobody is trusted here");
    // The one in the server's own branch counts.
    env.git(&["push", "--quiet", "origin", "mine:trunk"]);
    env.git(&["push", "--quiet", "origin", ledger]);
}

/// A ledger that was fetched beside the branches of the remote is known, too.
#[test]
fn loops_that_were_fetched_under_another_name_are_known() {
    let (env, remote) = converged();
    env.git(&["push", "--quiet", "origin", "refs/loops/*:refs/loops/*"]);
    let clone = env.root().join("clone");
    env.git_in(&env.root(), &["clone", "--quiet", remote.to_str().unwrap(), clone.to_str().unwrap()]);
    env.git_in(&clone, &["config", "loop.allowedSigners", env.trust_file().to_str().unwrap()]);
    env.git_in(
        &clone,
        &["config", "--add", "remote.origin.fetch", "+refs/loops/*:refs/remotes/origin/foo/*"],
    );
    env.git_in(&clone, &["fetch", "--quiet"]);
    env.git_loop_in(&clone, &["hooks", "install"]).expect_code(0);
    let head = "refs/remotes/origin/foo/keep/head";
    refused(env.run_command(env.command("git", &clone).args([
        "push",
        "origin",
        &format!("{head}:refs/heads/lasting"),
    ])));
    refused(env.git_loop_in(&clone, &["gate", &format!("origin/main..{head}")]));
    env.git_in(&clone, &["push", "--quiet", "origin", "origin/main:refs/heads/other"]);
}

/// A lasting loop `keep` that is started, with a commit as a runner makes a candidate of iteration 1: while its check
/// runs, and after it was killed there, only `head` says what that is.
fn open_iteration() -> (TestEnv, String) {
    let (env, _) = converged();
    let (head, ledger) = ("refs/loops/keep/head", "refs/loops/keep/ledger");
    let candidate = env.git(&["rev-parse", head]).trim().to_owned();
    let records = env.git(&["rev-list", "--first-parent", ledger]);
    let contract = records.lines().last().unwrap();
    env.git(&["update-ref", ledger, contract]);
    env.git(&["update-ref", "-d", "refs/notes/loops/keep"]);
    (env, candidate)
}

#[test]
fn the_candidate_of_an_open_iteration_does_not_leave() {
    let (env, candidate) = open_iteration();
    let tree = format!("{candidate}^{{tree}}");
    let squash = env.git(&["commit-tree", "-p", "main", "-m", "All at once", &tree]).trim().to_owned();
    for commit in [&candidate, &squash] {
        refused(env.try_git(&["push", "origin", &format!("{commit}:refs/heads/leak")]));
        refused(env.git_loop(&["gate", &format!("main..{commit}")]));
    }
    env.git(&["push", "--quiet", "origin", "main:refs/heads/other"]);
}

/// What the ledger does not name any more, head and receipts still do.
#[test]
fn a_ledger_that_was_moved_back_or_away_hides_nothing() {
    let (env, _) = converged();
    let (head, ledger) = ("refs/loops/keep/head", "refs/loops/keep/ledger");
    let tip = env.git(&["rev-parse", ledger]).trim().to_owned();
    let candidate = env.git(&["rev-parse", head]).trim().to_owned();
    let contract = env.git(&["rev-list", "--first-parent", ledger]).lines().last().unwrap().to_owned();
    let leak = format!("{candidate}:refs/heads/leak");
    let push = |text: &str| {
        env.try_git(&["push", "origin", &leak]).expect_code(1).expect_stderr(text);
    };
    // Only the receipts name it.
    env.git(&["update-ref", ledger, &contract]);
    env.git(&["update-ref", head, "main"]);
    refused(env.try_git(&["push", "origin", &leak]));
    // The head is nothing that follows from the ledger.
    env.write("elsewhere", "x\n");
    let other = env.commit("Something else");
    env.git(&["update-ref", head, other.trim()]);
    push("neither the base nor a candidate");
    env.git(&["update-ref", head, &candidate]);
    // An ordinary commit is no ledger.
    env.git(&["update-ref", ledger, "main"]);
    push("cannot be read as a ledger");
    env.git(&["update-ref", "-d", ledger]);
    push("refs/loops/keep/ledger is not");
    env.git(&["update-ref", ledger, &tip]);
    refused(env.try_git(&["push", "origin", &leak]));
    // What a ref here says of the remote is not what the remote has.
    let squash = env.git(&["commit-tree", "-p", "main", "-m", "x", &format!("{candidate}^{{tree}}")]);
    env.git(&["branch", "tmp", squash.trim()]);
    env.git(&["fetch", "--quiet", ".", "tmp:refs/remotes/origin/tmp"]);
    refused(env.try_git(&["push", "origin", &format!("{}:refs/heads/leak", squash.trim())]));
    env.git(&["push", "--quiet", "origin", "main:refs/heads/other"]);
}

#[test]
fn what_a_promoter_released_may_leave() {
    let (env, remote) = converged();
    let (ann, lead) = (env.key("ann"), env.key("lead"));
    let (ann, lead) = (ann.to_str().unwrap(), lead.to_str().unwrap());
    let head = "refs/loops/keep/head:refs/heads/new";
    let release = |key: &str| env.git_loop(&["release", "keep", "--reason", "Superseded", "--key", key]);

    // What may still be approved is not dead, and only its reviewer can end it.
    release(ann).expect_code(1).expect_stderr("awaits its review");
    env.git_loop(&["review", "keep", "--reject", "--key", ann]).expect_code(16);
    refused(env.try_git(&["push", "origin", head]));
    env.git_loop(&["release", "keep", "--reason", " \t", "--key", ann]).expect_code(129);
    env.git_loop(&["release", "keep", "--reason", "Mine"]).expect_code(1).expect_stderr("not a promoter");
    let json = env.git_loop(&["release", "keep", "--reason", "Superseded", "--key", lead, "--json"]);
    assert_eq!(json.expect_code(0).json()["status"], "stopped");
    env.git_loop(&["verify", "keep"]).expect_code(0);
    release(ann).expect_code(1).expect_stderr("released already");
    env.git_loop(&["finding", "keep", "add", "--severity", "warn", "--message", "x", "--key", ann])
        .expect_code(1)
        .expect_stderr("is released");
    let status = env.git_loop(&["status", "keep"]).expect_code(0);
    assert!(
        status.stdout.contains("released    by lead@example.org (record 7): Superseded"),
        "{}",
        status.stdout
    );
    let log = env.git_loop(&["log", "keep"]).expect_code(0);
    assert!(log.stdout.contains("release: Superseded by lead@example.org"), "{}", log.stdout);

    // Its own gate and that of a server, which has only what is pushed, let it pass.
    env.git_in(&remote, &["config", "loop.allowedSigners", env.trust_file().to_str().unwrap()]);
    env.git_loop_in(&remote, &["hooks", "install", "--server"]).expect_code(0);
    env.git(&["push", "--quiet", "origin", head, "refs/loops/keep/ledger"]);
}

#[test]
fn a_loop_that_was_released_does_not_go_on() {
    let (env, _) = converged();
    let ann = env.key("ann");
    let ann = ann.to_str().unwrap();
    env.git_loop(&["start", "again", "--key", env.key("lead").to_str().unwrap()]).expect_code(0);
    env.git_loop(&["release", "again", "--reason", "x", "--key", ann])
        .expect_code(1)
        .expect_stderr("has not halted");
    env.git_loop(&["stop", "again", "--key", ann]).expect_code(0);
    env.git_loop(&["release", "again", "--reason", "Given up", "--key", ann]).expect_code(0);
    let tip = env.git(&["rev-parse", "refs/loops/again/ledger"]);
    env.git_loop(&["run", "again", "--resume"]).expect_code(11);
    assert_eq!(env.git(&["rev-parse", "refs/loops/again/ledger"]), tip);
    env.git_loop(&["verify", "again"]).expect_code(0);
}
