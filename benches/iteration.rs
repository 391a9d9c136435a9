//! What an iteration costs besides its worker and its check, whether memory grows with the number of iterations, and
//! what reading a ledger costs.
//!
//! The repository has 10 files; the worker changes one of them, the check prints a number that rises, the target is out
//! of reach. Everything lies in `GIT_LOOP_BENCH_DIR` (a tmpfs such as `/dev/shm` takes the disk out of the numbers), else
//! in the system's temporary folder. What the two processes cost by themselves is measured with the same scripts
//! started in the plainest way, and taken off.
//!
//! ```text
//! GIT_LOOP_BENCH_DIR=/dev/shm cargo bench --bench iteration
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ssh_key::{Algorithm, LineEnding, PrivateKey};

/// The acceptance limit, in milliseconds an iteration.
const LIMIT_MS: f64 = 15.0;
/// What an iteration may cost at most, in parts of the same steps done with git commands.
const GIT_LIMIT: f64 = 0.25;
/// The most iterations that a contract may ask for.
const MANY: u32 = 100;
const FEW: u32 = 10;
/// How often each thing is timed; the least counts, the median is shown too.
const ROUNDS: usize = 5;

fn main() {
    // `cargo test --benches` and `cargo bench -- NAME` pass arguments; there is only one thing to run.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let place = std::env::var_os("GIT_LOOP_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let dir =
        tempfile::Builder::new().prefix("git-loop-bench-").tempdir_in(&place).expect("a temporary folder");
    let bench = Bench::new(dir.path().canonicalize().expect("the folder exists"));

    println!(
        "in {}, git-loop of profile {}",
        place.display(),
        if cfg!(debug_assertions) { "dev" } else { "bench" }
    );
    let bare = bench.bare_processes();
    println!("{:<44}{:>9.2} ms", "worker and check, bare", ms(bare));
    let nothing = least(ROUNDS * 4, || bench.time(&["--version"]));
    println!("{:<44}{:>9.2} ms", "git-loop --version", ms(nothing.0));

    let few = bench.run_rounds(FEW);
    let many = bench.run_rounds(MANY);
    for (iterations, run) in [(FEW, &few), (MANY, &many)] {
        let per = run.0 / iterations;
        println!("run of {iterations}:");
        println!(
            "{:<44}{:>9.2} ms   median {:.2}",
            "  wall an iteration, all included",
            ms(per),
            ms(run.1 / iterations)
        );
        println!(
            "{:<44}{:>9.2} ms   median {:.2}",
            "  our own share of it",
            ms(per.saturating_sub(bare)),
            ms((run.1 / iterations).saturating_sub(bare))
        );
    }
    let slope = many.0.saturating_sub(few.0) / (MANY - FEW);
    println!("{:<44}{:>9.2} ms", "one more iteration, our own share", ms(slope.saturating_sub(bare)));
    let (worker, check) = bench.sandboxed();
    println!("{:<44}{:>9.2} ms", "worker in its sandbox (median, receipts)", worker);
    println!("{:<44}{:>9.2} ms", "check in its sandbox (median, receipts)", check);

    let records = bench.records();
    for (what, args) in [
        ("verify", &["verify", "bench"][..]),
        ("status", &["status", "bench"]),
        ("list", &["list"]),
        ("log", &["log", "bench"]),
        ("run, halted already", &["run", "bench"]),
    ] {
        let (time, median) = least(ROUNDS * 2, || bench.time(args));
        let per = ms(time.saturating_sub(nothing.0)) / f64::from(records);
        println!(
            "{:<44}{:>9.2} ms   median {:.2}, {per:.3} a record ({records})",
            format!("{what}, all included"),
            ms(time),
            ms(median),
        );
    }

    match (bench.watch_run(FEW), bench.watch_run(MANY)) {
        (Some(few), Some(many)) => {
            println!("{:<44}{:>9} KiB", format!("peak memory of a run of {FEW}"), few.peak_kib);
            println!("{:<44}{:>9} KiB", format!("peak memory of a run of {MANY}"), many.peak_kib);
            println!("{:<44}{:>9} of {}", "most open files in them", few.most_files, many.most_files);
            println!("{:<44}{:>9} of {}", "most children in them", few.most_children, many.most_children);
        }
        _ => println!("peak memory: only measured on Linux"),
    }
    let own = ms((many.0 / MANY).saturating_sub(bare));
    println!("limit {LIMIT_MS} ms an iteration: {}", if own <= LIMIT_MS { "kept" } else { "MISSED" });
    let (by_git, _) = least(ROUNDS * 4, || bench.git_steps());
    println!("{:<44}{:>9.2} ms", "the same steps with git commands", ms(by_git));
    let part = own / ms(by_git);
    let kept = if part <= GIT_LIMIT { "kept" } else { "MISSED" };
    println!("an iteration in parts of that: {part:.3}, limit {GIT_LIMIT}: {kept}");
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The least and the median of several measurements.
fn least(rounds: usize, mut measure: impl FnMut() -> Duration) -> (Duration, Duration) {
    let mut times: Vec<Duration> = (0..rounds).map(|_| measure()).collect();
    times.sort_unstable();
    (times[0], times[times.len() / 2])
}

/// What was seen of a run from outside.
struct Watched {
    peak_kib: u64,
    most_files: usize,
    most_children: usize,
}

struct Bench {
    root: PathBuf,
    repo: PathBuf,
}

impl Bench {
    fn new(root: PathBuf) -> Self {
        let this = Self { repo: root.join("repo"), root };
        for folder in ["home/tmp", "repo/src", "repo/doc"] {
            fs::create_dir_all(this.root.join(folder)).expect("a folder");
        }
        let home = this.root.join("home");
        fs::write(home.join("gitconfig"), "[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n")
            .expect("a file");
        let key = PrivateKey::random(&mut ssh_key::rand_core::OsRng, Algorithm::Ed25519).expect("a key");
        key.write_openssh_file(&home.join("key"), LineEnding::LF).expect("the key is written");
        let public = key.public_key().to_openssh().expect("the public key can be written");
        let trust =
            format!("runner@example.org namespaces=\"git\" {public}\nann@example.org {}\n", other_key());
        fs::write(home.join("allowed_signers"), trust).expect("a file");

        for at in 0..8 {
            let folder = if at % 2 == 0 { "src" } else { "doc" };
            let text = format!("file {at}\n").repeat(60);
            fs::write(this.repo.join(folder).join(format!("file{at}.txt")), text).expect("a file");
        }
        fs::write(this.repo.join("src/score"), "0\n").expect("a file");
        fs::write(this.repo.join("check.sh"), CHECK).expect("a file");
        fs::write(this.root.join("worker.sh"), WORKER).expect("a file");
        this.git(&["init", "--quiet"]);
        this.git(&["config", "user.signingkey", home.join("key").to_str().expect("UTF-8")]);
        this.git(&["config", "loop.allowedSigners", home.join("allowed_signers").to_str().expect("UTF-8")]);
        this.git(&["add", "-A"]);
        this.git(&["commit", "--quiet", "-m", "Begin"]);
        this
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let home = self.root.join("home");
        let mut command = Command::new(program);
        command
            .current_dir(&self.repo)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", &home);
        command.env("TMPDIR", home.join("tmp")).env("XDG_CACHE_HOME", home.join("cache"));
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", home.join("gitconfig"));
        for person in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{person}_NAME"), "Bench")
                .env(format!("GIT_{person}_EMAIL"), "b@example.org");
        }
        command
    }

    fn git(&self, args: &[&str]) -> String {
        let output = self.command("git").args(args).stdout(Stdio::piped()).output().expect("git runs");
        assert!(output.status.success(), "git {args:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn git_loop(&self, args: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_git-loop"));
        command.args(args);
        command
    }

    fn time(&self, args: &[&str]) -> Duration {
        let begin = Instant::now();
        self.git_loop(args).status().expect("git-loop runs");
        begin.elapsed()
    }

    /// The least time that the worker and the check take one after the other, without anything around them.
    fn bare_processes(&self) -> Duration {
        let place = self.root.join("bare");
        fs::create_dir_all(place.join("src")).expect("a folder");
        fs::write(place.join("check.sh"), CHECK).expect("a file");
        let worker = self.root.join("worker.sh");
        let both = || {
            let begin = Instant::now();
            for script in [worker.as_path(), Path::new("check.sh")] {
                let mut command = self.command("sh");
                command.arg(script).current_dir(&place).env("GIT_LOOP_ITERATION", "1").stdout(Stdio::piped());
                assert!(command.output().expect("sh runs").status.success());
            }
            begin.elapsed()
        };
        least(200, both).0
    }

    /// What an iteration does to the repository, with git commands: two worktrees added and removed, three signed
    /// commits (checkpoint, candidate, record), the refs moved, a note.
    fn git_steps(&self) -> Duration {
        let key = format!("user.signingkey={}", self.root.join("home/key").display());
        let signed = |args: &[&str]| self.git(&[&["-c", "gpg.format=ssh", "-c", &key], args].concat());
        let places = [self.root.join("by-git-1"), self.root.join("by-git-2")];
        let begin = Instant::now();
        for place in &places {
            self.git(&["worktree", "add", "--quiet", "--detach", place.to_str().expect("UTF-8"), "main"]);
        }
        let tree = self.git(&["rev-parse", "main^{tree}"]);
        let mut parent = self.git(&["rev-parse", "main"]);
        for what in ["checkpoint", "candidate", "record"] {
            parent = signed(&["commit-tree", "-S", "-p", &parent, "-m", what, &tree]);
        }
        self.git(&["update-ref", "refs/by-git", &parent]);
        self.git(&["notes", "--ref", "by-git", "add", "-f", "-m", "receipt", "main"]);
        for place in &places {
            self.git(&["worktree", "remove", "--force", place.to_str().expect("UTF-8")]);
        }
        let time = begin.elapsed();
        self.git(&["update-ref", "-d", "refs/by-git"]);
        self.git(&["update-ref", "-d", "refs/notes/by-git"]);
        time
    }

    /// Starts the loop anew.
    fn start(&self, iterations: u32) {
        for name in
            self.git(&["for-each-ref", "--format=%(refname)", "refs/loops", "refs/notes/loops"]).lines()
        {
            self.git(&["update-ref", "-d", name]);
        }
        // Every round begins with the objects of the base alone.
        self.git(&["reflog", "expire", "--expire=now", "--all"]);
        self.git(&["prune", "--expire=now"]);
        let terms = loop_toml(&self.root.join("worker.sh"), iterations);
        fs::write(self.root.join("loop.toml"), terms).expect("a file");
        let file = self.root.join("loop.toml");
        let output = self.git_loop(&["start", "bench", "-f"]).arg(file).stderr(Stdio::piped()).output();
        let output = output.expect("git-loop runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn run_rounds(&self, iterations: u32) -> (Duration, Duration) {
        least(ROUNDS, || {
            self.start(iterations);
            let begin = Instant::now();
            let output =
                self.git_loop(&["run", "bench"]).stderr(Stdio::piped()).output().expect("git-loop runs");
            let time = begin.elapsed();
            // 12: the limit of iterations.
            assert_eq!(output.status.code(), Some(12), "{}", String::from_utf8_lossy(&output.stderr));
            time
        })
    }

    fn records(&self) -> u32 {
        let count = self.git(&["rev-list", "--count", "--first-parent", "refs/loops/bench/ledger"]);
        count.parse().expect("a number")
    }

    /// The median durations of worker and check, as the receipts have them: with their sandboxes, in milliseconds.
    fn sandboxed(&self) -> (f64, f64) {
        let mut times = [Vec::new(), Vec::new()];
        let ids = self.git(&["rev-list", "--first-parent", "refs/loops/bench/ledger"]);
        for id in ids.lines() {
            let record: serde_json::Value =
                serde_json::from_str(&self.git(&["cat-file", "blob", &format!("{id}:record.json")]))
                    .expect("JSON");
            let receipt = &record["body"]["receipt"];
            let found =
                [&receipt["worker"]["run"], &receipt["check"]["run"]].map(|run| run["duration_ms"].as_f64());
            for (list, time) in times.iter_mut().zip(found) {
                list.extend(time);
            }
        }
        let [worker, check] = times.map(|mut list| {
            list.sort_by(f64::total_cmp);
            list.get(list.len() / 2).copied().unwrap_or(f64::NAN)
        });
        (worker, check)
    }

    /// Looks at a run from outside while it lasts.
    #[cfg(target_os = "linux")]
    #[allow(clippy::unnecessary_wraps, reason = "None where the system tells nothing of another process")]
    fn watch_run(&self, iterations: u32) -> Option<Watched> {
        self.start(iterations);
        let mut child = self.git_loop(&["run", "bench"]).spawn().expect("git-loop runs");
        let proc = PathBuf::from(format!("/proc/{}", child.id()));
        let mut seen = Watched { peak_kib: 0, most_files: 0, most_children: 0 };
        while child.try_wait().expect("our own child").is_none() {
            // Not `ru_maxrss`: that begins with what this process had when it started the other.
            let status = fs::read_to_string(proc.join("status")).unwrap_or_default();
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let peak = peak.and_then(|line| line.split_whitespace().next()?.parse().ok());
            seen.peak_kib = seen.peak_kib.max(peak.unwrap_or(0));
            let files = fs::read_dir(proc.join("fd")).map_or(0, Iterator::count);
            seen.most_files = seen.most_files.max(files);
            let children =
                fs::read_to_string(proc.join(format!("task/{}/children", child.id()))).unwrap_or_default();
            seen.most_children = seen.most_children.max(children.split_whitespace().count());
            std::thread::sleep(Duration::from_millis(2));
        }
        Some(seen)
    }

    #[cfg(not(target_os = "linux"))]
    fn watch_run(&self, _: u32) -> Option<Watched> {
        None
    }
}

fn other_key() -> String {
    let key = PrivateKey::random(&mut ssh_key::rand_core::OsRng, Algorithm::Ed25519).expect("a key");
    key.public_key().to_openssh().expect("the public key can be written")
}

const WORKER: &str = "echo \"$GIT_LOOP_ITERATION\" > src/score\n";
const CHECK: &str = "read -r score < src/score\necho \"score: $score\"\n";

fn loop_toml(worker: &Path, iterations: u32) -> String {
    format!(
        r#"objective = "Raise the score"
class = "mechanical_transformation"

[paths]
mutable = ["src/**"]
check = ["check.sh"]

[worker]
command = ["sh", "{}"]
usage = "none"
timeout = "60s"

[check]
command = ["sh", "check.sh"]
format = "none"
timeout = "60s"

[metric]
name = "score"
direction = "maximize"
target = 1000000
from = "regex"
pattern = "score: ([0-9]+)"

[limits]
iterations = {iterations}
duration = "1h"
"#,
        worker.display()
    )
}
