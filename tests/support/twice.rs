//! Whatever a test verifies is verified twice: by `git loop verify`, and by `tests/independent/verify.py`, which was written from the
//! pages of the documentation alone. Where the two differ the test fails: either one of them is wrong, or the pages are.
//!
//! A comparison is made at every `git loop verify` of a test, and when its place is cleared away, of every repository in it that has
//! a loop. One process of Python serves a thread as long as the tests run; a state that was compared is not compared again.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::{Value, json};

use super::{Output, TestEnv, tool};

/// What is told of one loop or bad ref: whether it holds; of a loop that does not, whose record is at fault, and which.
type Told = BTreeMap<String, (bool, Option<(String, Option<u64>)>)>;

/// A process that verifies what it is asked to.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

/// Those that nobody uses now.
static IDLE: Mutex<Vec<Server>> = Mutex::new(Vec::new());

/// Whether to compare: not in benchmarks, and only where there is a Python. Said once; in CI it has to be there.
fn is_wanted() -> bool {
    static HERE: OnceLock<bool> = OnceLock::new();
    cfg!(test) && *HERE.get_or_init(|| tool("python3") && tool("ssh-keygen"))
}

fn ask(arguments: &[String], env: &BTreeMap<String, String>) -> Value {
    let idle = || IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = idle().pop();
    let mut server = known.unwrap_or_else(|| {
        let mut child = Command::new("python3")
            .args([concat!(env!("CARGO_MANIFEST_DIR"), "/tests/independent/verify.py"), "--serve"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 starts");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("it is piped"));
        Server { child, input, output: BufReader::new(output) }
    });
    let question = json!({ "args": arguments, "env": env }).to_string();
    let input = server.input.as_mut().expect("it is open");
    writeln!(input, "{question}").and_then(|()| input.flush()).expect("the second verifier listens");
    let mut answer = String::new();
    server.output.read_line(&mut answer).expect("the second verifier answers");
    let answer =
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}: {question}"));
    idle().push(server);
    answer
}

/// The git folders in the place of a test that have a loop.
fn repositories(root: &Path) -> Vec<PathBuf> {
    let folders = |at: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(at).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir() && !path.is_symlink()).collect()
    };
    let below = folders(root);
    let deeper: Vec<PathBuf> = below.iter().flat_map(|folder| folders(folder)).collect();
    let mut found: Vec<PathBuf> = below.into_iter().chain(deeper).collect();
    found.retain(|folder| {
        let packed = fs::read_to_string(folder.join("packed-refs")).unwrap_or_default();
        folder.join("HEAD").is_file()
            && (folder.join("refs/loops").is_dir() || packed.contains("refs/loops/"))
    });
    found.sort();
    found
}

/// Everything that a verdict depends on and that changes: refs and the trust file.
fn state(env: &TestEnv, git_dir: &Path) -> String {
    fn refs(at: &Path, out: &mut Vec<String>) {
        for entry in fs::read_dir(at).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                refs(&path, out);
            } else {
                out.push(format!("{} {:?}", path.display(), fs::read(&path).unwrap_or_default()));
            }
        }
    }
    let mut out = Vec::new();
    refs(&git_dir.join("refs/loops"), &mut out);
    out.sort();
    for file in [git_dir.join("packed-refs"), git_dir.join("config"), env.trust_file()] {
        out.push(fs::read_to_string(file).unwrap_or_default());
    }
    out.join("\n")
}

/// What `git loop verify` printed, with `--json` or without.
fn ours(output: &Output) -> Option<Told> {
    let number = |text: &str| -> (Option<String>, Option<u64>) {
        let seq = text.strip_prefix("record ").and_then(|rest| rest.split([' ', ':']).next()?.parse().ok());
        let of = text.split_once(" of loop `").and_then(|(_, rest)| rest.split_once('`'));
        (of.map(|(of, _)| of.to_owned()), seq)
    };
    let mut told = Told::new();
    let mut put = |name: &str, ok: bool, error: &str| {
        let (of, seq) = number(error);
        let at = (!ok && !name.starts_with("refs/")).then(|| (of.unwrap_or_else(|| name.to_owned()), seq));
        told.insert(name.to_owned(), (ok, at));
    };
    if let Ok(json) = serde_json::from_str::<Value>(&output.stdout) {
        for one in json["loops"].as_array()? {
            let name = one["loop"].as_str().or(one["ref"].as_str())?;
            put(name, one["ok"].as_bool()?, one["error"].as_str().unwrap_or_default());
        }
        return Some(told);
    }
    for line in output.stdout.lines() {
        let (ok, rest) = match line.strip_prefix("FAILED ") {
            Some(rest) => (false, rest),
            None => (true, line.strip_prefix("ok ").unwrap_or_default()),
        };
        if let Some((name, error)) = rest.split_once(": ") {
            put(name, ok, error);
        }
    }
    Some(told)
}

fn theirs(answer: &Value) -> Told {
    let list = answer["loops"].as_array().into_iter().flatten();
    list.map(|one| {
        let ok = one["ok"] == true;
        let name = one["loop"].as_str().or(one["ref"].as_str()).unwrap_or_default().to_owned();
        let at = one["of"].as_str().map(|of| (of.to_owned(), one["record"].as_u64()));
        (name, (ok, at))
    })
    .collect()
}

/// Compares what `git loop ARGS` in `dir` said, if that is a verification, with what the second verifier says.
#[track_caller]
pub fn compare(env: &TestEnv, dir: &Path, args: &[&str], output: &Output) {
    let Some(words) = args.strip_prefix(&["verify"]) else { return };
    if output.code != 0 && output.code != 20 || !is_wanted() {
        return;
    }
    let ids: Vec<&str> = words.iter().copied().filter(|word| *word != "--json").collect();
    if ids.iter().any(|word| word.starts_with('-') && *word != "--all") {
        return;
    }
    let git_dir = env.try_git_in(dir, &["rev-parse", "--path-format=absolute", "--git-common-dir"]);
    let key = format!("{ids:?} {}", state(env, Path::new(git_dir.stdout.trim_end())));
    if !env.compared.borrow_mut().insert(key) {
        return;
    }
    let mut question = vec!["-C".to_owned(), dir.to_str().expect("a path of ours").to_owned()];
    question.extend(ids.iter().map(|id| (*id).to_owned()));
    let answer = ask(&question, &env.env);
    let Some(mut ours) = ours(output) else { panic!("no list of loops: {output:?}") };
    let mut theirs = theirs(&answer);
    // A chain that cannot be walked to its beginning has no numbers.
    for (name, (_, at)) in &mut ours {
        if let Some((_, None)) = at {
            *at = None;
            theirs.entry(name.clone()).and_modify(|(_, at)| *at = None);
        }
    }
    let same = answer["code"] == output.code && (ours == theirs || output.stdout.is_empty());
    assert!(
        same || answer["not_checked"].as_array().is_some_and(|notes| !notes.is_empty()),
        "the two verifiers differ in {}:\n{}\n{}\nthe second one: {answer:#}",
        dir.display(),
        output.stdout,
        output.stderr,
    );
}

/// Compares all that a test leaves behind.
pub fn compare_all(env: &TestEnv) {
    if std::thread::panicking() || !is_wanted() {
        return;
    }
    for git_dir in repositories(&env.root()) {
        let output = env.run_command(
            env.command(env!("CARGO_BIN_EXE_git-loop"), &git_dir).args(["verify", "--all", "--json"]),
        );
        compare(env, &git_dir, &["verify", "--all", "--json"], &output);
    }
}

/// What was compared in one place.
pub type Compared = std::cell::RefCell<HashSet<String>>;
