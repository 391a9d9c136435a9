//! Killing a command at a named place, and what must hold after that.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::TestEnv;
use super::scenario::{CHECK, loop_toml};

/// A worker that mends the next wrong number, whatever iterations went before, and says that it cost a quarter.
pub const PAID: &str = r#"if [ "$(cat src/a)" != 1 ]; then echo 1 > src/a
else echo 2 > src/b; fi
echo '{"cost": {"prompt_tokens": 10, "completion_tokens": 5, "usd": 0.25}}' > "$GIT_LOOP_EVIDENCE"
sleep 0.02
"#;

/// The limit of [`paid`], in micro-dollars.
pub const LIMIT: u64 = 2_000_000;

/// A repository with two wrong numbers and a loop whose worker costs money.
pub fn paid(env: &TestEnv) {
    env.write("src/a", "0\n");
    env.write("src/b", "0\n");
    env.write("tests/expected", "a 1\nb 2\n");
    env.write("check.sh", CHECK);
    env.commit("Begin");
    let script = env.script("worker.sh", PAID);
    let toml = loop_toml(&script, "cost_usd = 2.0\n")
        .replace("usage = \"none\"", "usage = \"json\"\nreserve_usd = 0.25")
        // A story of many kills takes long.
        .replace("duration = \"10m\"", "duration = \"20h\"");
    env.write("loop.toml", toml);
    fs::write(env.repo().join(".git/info/exclude"), "loop.toml\n").unwrap();
}

/// Everything of a test as it was at one moment, to begin there again.
pub struct Saved {
    root: PathBuf,
    copy: tempfile::TempDir,
}

impl Saved {
    /// Copies the folder of the test.
    pub fn of(env: &TestEnv) -> Self {
        let copy = tempfile::Builder::new().prefix("git-loop-saved-").tempdir().unwrap();
        copy_tree(&env.root(), &copy.path().join("all"));
        Self { root: env.root(), copy }
    }

    /// Makes it what it was.
    pub fn restore(&self) {
        for entry in fs::read_dir(&self.root).unwrap() {
            remove(&entry.unwrap().path());
        }
        for entry in fs::read_dir(self.copy.path().join("all")).unwrap() {
            let from = entry.unwrap().path();
            copy_tree(&from, &self.root.join(from.file_name().unwrap()));
        }
    }
}

/// Copies with modes and times.
pub fn copy_tree(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg("--").arg(from).arg(to).status().unwrap();
    assert!(status.success(), "cp -a {} {}", from.display(), to.display());
}

/// Removes a file or a folder.
pub fn remove(path: &Path) {
    let removed =
        if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Runs a command that ends with `code` and gives how often it came to each place, in the order of first visits.
#[track_caller]
pub fn trace(env: &TestEnv, args: &[&str], code: i32) -> Vec<(String, u32)> {
    let log = env.root().join("passed");
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    let output = env.run_command(command.args(args).env("GIT_LOOP_CRASH_LOG", &log));
    assert_eq!(output.code, code, "{args:?} without a kill\n{}\n{}", output.stdout, output.stderr);
    let mut passed: Vec<(String, u32)> = Vec::new();
    for name in fs::read_to_string(&log).unwrap_or_default().lines() {
        match passed.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => passed.push((name.to_owned(), 1)),
        }
    }
    let _ = fs::remove_file(log);
    passed
}

/// Runs a command that is killed when it comes to a place for the `count`-th time.
#[track_caller]
pub fn run_killed(env: &TestEnv, args: &[&str], place: &str, count: u32) -> String {
    use std::os::unix::process::ExitStatusExt;
    let mut command = env.command(env!("CARGO_BIN_EXE_git-loop"), env.repo());
    command.args(args).env("GIT_LOOP_CRASH_AT", format!("{place}:{count}"));
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{args:?} never came to {place}:{count}: {said}");
    said
}

/// Waits for something that other processes do.
#[track_caller]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(300), "waited for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The processes that work in the folder of this test or were started with a path in it.
pub fn processes(env: &TestEnv) -> Vec<String> {
    let root = env.root();
    let mark = root.to_str().unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let folder = entry.path();
        let Some(pid) = folder.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()) else {
            continue;
        };
        let cwd = fs::read_link(folder.join("cwd")).unwrap_or_default();
        let line = fs::read(folder.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if pid != std::process::id() && (cwd.starts_with(&root) || line.contains(mark)) {
            found.push(format!("{pid} in {}: {line}", cwd.display()));
        }
    }
    found
}

/// Everything below a folder that is no folder, and folders without anything in them.
pub fn walk(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() && !path.is_symlink() {
            let inside = walk(&path);
            if inside.is_empty() { found.push(path) } else { found.extend(inside) }
        } else {
            found.push(path);
        }
    }
    found
}

/// What is there of ours that should not be while nothing runs.
pub fn leftovers(env: &TestEnv) -> Vec<String> {
    let git = env.repo().join(".git");
    let mut found = Vec::new();
    let lines = env.git(&["worktree", "list"]);
    found.extend(lines.lines().skip(1).map(|line| format!("worktree {line}")));
    if git.join("worktrees").exists() {
        found.push("the folder of worktrees".to_owned());
    }
    // The folder of the repository stays, and the warm layer of a loop that goes on.
    for folder in fs::read_dir(env.home().join("cache/git-loop")).into_iter().flatten().flatten() {
        let inside = walk(&folder.path()).into_iter().map(|path| path.display().to_string());
        // Where a ledger was verified up to is kept, and written beside before it has its name.
        found.extend(inside.filter(|path| !path.ends_with(".verified") && !path.contains("/.verified-")));
    }
    for path in walk(&git) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let inside = path.strip_prefix(&git).unwrap().display().to_string();
        let lock = path.extension().is_some_and(|end| end == "lock")
            && !matches!(name.as_str(), "run.lock" | ".worktrees.lock");
        let token = inside.starts_with("loops/.refs/");
        let noted = path.extension().is_some_and(|end| end == "cost" || end == "new") || name == "probe";
        // What steps print while they run; what is kept of killed ones lies in folders of its own.
        let printed =
            inside.starts_with("loops/") && path.parent().is_some_and(|dir| dir.ends_with("output"));
        let printed = printed && path.is_file();
        if lock || token || noted || printed {
            found.push(inside);
        }
    }
    found.extend(walk(&env.home().join("tmp")).iter().map(|path| path.display().to_string()));
    found
}

/// What dead and living runners of `fix` have noted: environment and micro-dollars.
pub fn journalled(env: &TestEnv) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(env.repo().join(".git/loops/fix")).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if let Some(environment) = name.strip_suffix(".cost")
            && let Some(number) = fs::read_to_string(entry.path()).unwrap().strip_suffix('\n')
        {
            // Money, then the two kinds of tokens.
            let money = number.split(' ').next().unwrap_or_default();
            found.insert(environment.to_owned(), money.parse().unwrap());
        }
    }
    found
}

/// The receipts of `fix`, in order.
pub fn receipts(env: &TestEnv) -> Vec<Value> {
    let list = env.git(&["log", "--first-parent", "--reverse", "--format=%H %s", "refs/loops/fix/ledger"]);
    let mut receipts = Vec::new();
    for line in list.lines() {
        let (commit, subject) = line.split_once(' ').unwrap();
        if subject.starts_with("iteration ") {
            let record: Value =
                serde_json::from_str(&env.git(&["show", &format!("{commit}:record.json")])).unwrap();
            receipts.push(record["body"]["receipt"].clone());
        }
    }
    receipts
}

/// Micro-dollars as the state shows them.
pub fn micros(usd: &Value) -> u64 {
    let text = usd.as_str().map_or_else(|| usd.to_string(), ToOwned::to_owned);
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    whole.parse::<u64>().unwrap() * 1_000_000 + format!("{part:0<6}")[..6].parse::<u64>().unwrap()
}

/// What must hold whenever `fix` is at rest, complete or not: it verifies, each number comes once and in order, no limit
/// is exceeded, and what was noted to have been spent is in the record or still noted.
#[track_caller]
pub fn sound(env: &TestEnv, seen: usize, noted: &BTreeMap<String, u64>) -> Vec<Value> {
    env.git_loop(&["verify", "fix"]).expect_code(0);
    let receipts = receipts(env);
    assert!(receipts.len() >= seen, "an iteration was lost: {} of {seen}", receipts.len());
    let numbers: Vec<u64> = receipts.iter().map(|receipt| receipt["iteration"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "each once, in order");
    let mut environments: Vec<&str> =
        receipts.iter().map(|receipt| receipt["environment_id"].as_str().unwrap()).collect();
    environments.sort_unstable();
    environments.dedup();
    assert_eq!(environments.len(), receipts.len(), "an environment was used twice");
    let now = journalled(env);
    for (environment, usd) in noted {
        match receipts.iter().find(|receipt| receipt["environment_id"] == environment.as_str()) {
            Some(receipt) => assert!(micros(&receipt["cost"]["usd"]) >= *usd, "{environment}: {receipt}"),
            None => assert_eq!(now.get(environment), Some(usd), "a cost was forgotten"),
        }
    }
    receipts
}

/// What must hold once a runner has gone on and ended by itself: besides [`sound`], nothing is left, `head` is at green,
/// and every candidate has its receipt as a note, once.
#[track_caller]
pub fn tidy(env: &TestEnv, receipts: &[Value]) {
    let state = env.git_loop(&["status", "fix", "--json"]).expect_code(0).json();
    assert_eq!(env.git(&["rev-parse", "refs/loops/fix/head"]), state["last_green_commit"].as_str().unwrap());
    let spent: u64 = receipts.iter().map(|receipt| micros(&receipt["cost"]["usd"])).sum();
    assert_eq!(spent, micros(&state["usd"]), "{state}");
    assert!(spent <= LIMIT, "{spent} were spent");
    for receipt in receipts {
        let Some(candidate) = receipt["candidate"].as_str() else { continue };
        let notes = env.git(&["notes", "--ref", "loops/fix", "show", candidate]);
        let same: Vec<_> = notes
            .lines()
            .filter(|line| serde_json::from_str::<Value>(line).is_ok_and(|line| line == *receipt))
            .collect();
        assert_eq!(same.len(), 1, "{candidate}: {notes}");
    }
    wait_until("every process to end", || processes(env).is_empty());
    let left = leftovers(env);
    assert!(left.is_empty(), "{left:#?}");
}
