//! How many records a second an orchestrator gets through `git loop record`, and whether an iteration costs the same after ten
//! thousand of them: `TMPDIR=/dev/shm cargo bench --bench records`.
//!
//! `GIT_LOOP_BENCH_LOOPS` loops (10) of 100 iterations each, the most that one contract may have, run one after the other in one
//! repository; 100 of them are ten thousand iterations.

#[allow(dead_code, reason = "a bench needs less of a place than the tests do")]
#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use support::TestEnv;

/// What an orchestrator must get at least, in records a second.
const WANTED: f64 = 50.0;
/// The most iterations that a contract may ask for.
const MANY: u32 = 100;

const WORKER: &str = "echo \"$GIT_LOOP_ITERATION\" > src/score\n";
const CHECK: &str = "read -r score < src/score\necho \"score: $score\"\n";

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("in {}", std::env::temp_dir().display());
    records();
    successive_loops();
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// A repository of a few files with a number that can always rise.
fn place() -> TestEnv {
    let env = TestEnv::new();
    for at in 0..8 {
        env.write(&format!("doc/{at}"), format!("file {at}\n").repeat(60));
    }
    env.write("src/score", "0\n");
    env.write("check.sh", CHECK);
    env.write(".git/info/exclude", "loop.toml\n");
    env.commit("Begin");
    let worker = env.script("worker.sh", WORKER);
    env.write(
        "loop.toml",
        format!(
            "objective = \"Raise the score\"\nclass = \"mechanical_transformation\"\n\
             [paths]\nmutable = [\"src/**\"]\ncheck = [\"check.sh\"]\n\
             [worker]\ncommand = [\"sh\", \"{worker}\"]\nusage = \"none\"\n\
             [check]\ncommand = [\"sh\", \"check.sh\"]\nformat = \"none\"\n\
             [metric]\nname = \"score\"\ndirection = \"maximize\"\ntarget = 1000000\nfrom = \"regex\"\n\
             pattern = \"score: ([0-9]+)\"\n[limits]\niterations = {MANY}\nduration = \"10h\"\n"
        ),
    );
    env
}

/// The mean of the first and of the last tenth.
fn ends(times: &[Duration]) -> (Duration, Duration) {
    let tenth = (times.len() / 10).max(1);
    let mean = |some: &[Duration]| some.iter().sum::<Duration>() / u32::try_from(some.len()).unwrap_or(1);
    (mean(&times[..tenth]), mean(&times[times.len() - tenth..]))
}

/// One process of `git loop record` after the other, each with a candidate on top of green.
fn records() {
    let env = place();
    assert_eq!(env.git_loop(&["start", "outside"]).code, 0);
    let mut times = Vec::new();
    for number in 1..=MANY {
        env.write("src/score", format!("{number}\n"));
        env.git(&["add", "src/score"]);
        let tree = env.git(&["write-tree"]);
        let rev = env.git(&["commit-tree", "-p", "refs/loops/outside/head", "-m", "An attempt", &tree]);
        let begin = Instant::now();
        let output = env.git_loop(&["record", "outside", "--candidate", &rev]);
        let time = begin.elapsed();
        assert_eq!(output.code, if number < MANY { 0 } else { 12 }, "{output:?}");
        // The first one measures the base as well.
        if number > 1 {
            times.push(time);
        }
    }
    let (first, last) = ends(&times);
    let mean = times.iter().sum::<Duration>() / (MANY - 1);
    println!("{:<44}{:>9.2} ms", "record, a process and a check each", ms(mean));
    println!("{:<44}{:>9.2} ms", "  the first tenth of them", ms(first));
    println!("{:<44}{:>9.2} ms", "  the last tenth of them", ms(last));
    let rate = 1000.0 / ms(last.max(mean));
    println!(
        "{:<44}{:>9.1}      {}",
        "records a second",
        rate,
        if rate >= WANTED { "kept" } else { "MISSED" }
    );
}

/// Loop after loop in one repository, whose objects, refs and notes grow.
fn successive_loops() {
    let loops = std::env::var("GIT_LOOP_BENCH_LOOPS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let env = place();
    let mut times: Vec<Duration> = Vec::new();
    for number in 1..=loops {
        let id = format!("loop-{number}");
        assert_eq!(env.git_loop(&["start", &id]).code, 0);
        let begin = Instant::now();
        let output = env.git_loop(&["run", &id]);
        times.push(begin.elapsed() / MANY);
        assert_eq!(output.code, 12, "{output:?}");
    }
    let (first, last) = ends(&times);
    println!("{} iterations in {loops} loops:", loops * MANY);
    println!("{:<44}{:>9.2} ms", "  an iteration of the first tenth, all in", ms(first));
    println!("{:<44}{:>9.2} ms", "  an iteration of the last tenth, all in", ms(last));
}
