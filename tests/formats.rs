//! Loops over the runners and formats that projects have: cargo, a JUnit writer, pytest, and numbers that a check prints.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{TestEnv, tool};

mod reports;

/// The terms of a loop, but for the tables that a test adds.
struct Terms<'a> {
    check_paths: &'a str,
    worker: &'a str,
    check: &'a str,
    metric: &'a str,
    rest: &'a str,
}

/// What the metric is where the report gives it.
const FAILURES: &str = "direction = \"minimize\"\ntarget = 0\nfrom = \"failures\"\n";

impl Terms<'_> {
    /// Commits the work tree and writes `loop.toml` beside it.
    fn write(&self, env: &TestEnv) {
        let Terms { check_paths, worker, check, metric, rest } = self;
        let worker = env.script("worker.sh", worker);
        let toml = format!(
            "objective = \"Mend it\"\nclass = \"mechanical_transformation\"\n\
             [paths]\nmutable = [\"src/**\"]\ncheck = {check_paths}\n\
             [worker]\ncommand = [\"sh\", \"{worker}\"]\nusage = \"none\"\ntimeout = \"5m\"\n\
             [check]\n{check}timeout = \"5m\"\n\
             [metric]\nname = \"failing\"\n{metric}\
             [limits]\niterations = 6\nduration = \"30m\"\nno_progress = 4\n{rest}"
        );
        env.write(".git/info/exclude", "loop.toml\n");
        env.write("loop.toml", toml);
        env.commit("Begin");
    }
}

/// Runs the loop `id` until it has converged, and verifies it.
#[track_caller]
fn converge(env: &TestEnv, id: &str) -> Value {
    let json = env.git_loop(&["run", id, "-f", "loop.toml", "--json"]).expect_code(10).json();
    assert_eq!(json["halt_reason"], "success_condition_met");
    env.git_loop(&["verify", id]).expect_code(0);
    json
}

/// The body of the record of an iteration; 0 is the baseline.
#[track_caller]
fn body(env: &TestEnv, id: &str, iteration: u32) -> Value {
    let number = iteration.to_string();
    let mut json = env.git_loop(&["show", id, &number, "--json"]).expect_code(0).json();
    json["record"]["body"].take()
}

#[track_caller]
fn receipt(env: &TestEnv, id: &str, iteration: u32) -> Value {
    body(env, id, iteration)["receipt"].take()
}

#[track_caller]
fn evidence(env: &TestEnv, id: &str, iteration: u32, name: &str) -> String {
    env.git_loop(&["show", id, &iteration.to_string(), "--evidence", name]).expect_code(0).stdout
}

/// The outcome reasons and metrics of the iterations, one a line.
fn story(env: &TestEnv, id: &str, iterations: u32) -> String {
    let mut text = String::new();
    for iteration in 1..=iterations {
        let receipt = receipt(env, id, iteration);
        let reason = receipt["decision"]["outcome_reason"].as_str().unwrap();
        let _ = writeln!(text, "{reason} {}", receipt["check"]["metric"]);
    }
    text
}

// ----- cargo ---------------------------------------------------------------------------------------------------------

const CRATE: &str = r"//! Three functions, two of them wrong.

/// The sum.
pub fn add(a: i32, b: i32) -> i32 {
    a - b
}

/// The larger one.
pub fn max(a: i32, b: i32) -> i32 {
    a.min(b)
}

/// How far two words are apart.
pub fn apart(a: &str, b: &str) -> usize {
    strsim::levenshtein(a, b)
}

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(super::add(2, 3), 5);
    }
}
";

const CRATE_TESTS: &str = r#"#[test]
fn the_larger_one() {
    assert_eq!(tiny::max(2, 3), 3);
}

#[test]
fn words() {
    assert_eq!(tiny::apart("kitten", "sitting"), 3);
}

#[test]
fn the_place_is_clean() {
    let home = std::path::PathBuf::from(std::env::var_os("HOME").unwrap());
    assert!(!home.join("gitconfig").exists(), "the user's HOME");
    assert!(std::env::var_os("SSH_AUTH_SOCK").is_none());
    let target = std::net::SocketAddr::from(([192, 0, 2, 1], 80));
    assert!(std::net::TcpStream::connect_timeout(&target, std::time::Duration::from_secs(2)).is_err());
}
"#;

/// Mends one function, then the other while it breaks the first, then both.
const CRATE_WORKER: &str = r#"set -e
case "$GIT_LOOP_ITERATION" in
  1) sed -i.old 's/a - b/a + b/' src/lib.rs ;;
  2) sed -i.old 's/a.min(b)/a.max(b)/; s/a + b/a * b/' src/lib.rs ;;
  *) sed -i.old 's/a.min(b)/a.max(b)/' src/lib.rs ;;
esac
rm src/lib.rs.old
cargo test --offline >/dev/null 2>&1 || true
"#;

/// A crate with a dependency from the registry that this test itself was built with. False if cargo cannot have it offline.
fn tiny_crate(env: &TestEnv) -> bool {
    env.write(
        "Cargo.toml",
        "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\nstrsim = \"0.11\"\n",
    );
    env.write("src/lib.rs", CRATE);
    env.write("tests/numbers.rs", CRATE_TESTS);
    let mut command = env.command("cargo", env.repo());
    let output = env.run_command(command.args(["generate-lockfile", "--offline"]));
    if output.code != 0 {
        assert!(std::env::var_os("GIT_LOOP_CI").is_none(), "strsim is needed in CI: {}", output.stderr);
        eprintln!("skipped: strsim cannot be had offline: {}", output.stderr);
    }
    output.code == 0
}

fn crate_terms(rest: &str) -> Terms<'_> {
    Terms {
        check_paths: "[\"tests/**\", \"Cargo.*\"]",
        worker: CRATE_WORKER,
        check: "command = [\"cargo\", \"test\", \"--no-fail-fast\", \"--offline\"]\nformat = \"libtest\"\n",
        metric: FAILURES,
        rest,
    }
}

/// Which crates a check compiled.
fn compiled(report: &str) -> Vec<&str> {
    let lines = report.lines().filter_map(|line| line.trim().strip_prefix("Compiling "));
    lines.filter_map(|line| line.split(' ').next()).collect()
}

#[test]
fn a_twin_that_vanishes_is_missed() {
    let terms = |same: &'static str| {
        let env = TestEnv::new();
        env.write("tests/run.sh", "cat src/out; grep -q '^fail' src/out && exit 1; exit 0\n");
        env.write("src/out", "ok a\nfail a\nok b\ndone 3\n");
        Terms {
            check_paths: "[\"tests/**\"]",
            // The red one is left out first, and mended then.
            worker: "case $GIT_LOOP_ITERATION in\n1) printf 'ok a\\nok b\\ndone 2\\n' > src/out ;;\n*) printf 'ok a\\nok a\\nok b\\ndone 3\\n' > src/out ;;\nesac\n",
            check: &format!("command = [\"sh\", \"tests/run.sh\"]\nformat = \"lines\"\n{same}"),
            metric: FAILURES,
            rest: "[guards]\non_violation = \"reject\"\n",
        }
        .write(&env);
        env
    };
    let env = terms("");
    converge(&env, "fix");
    assert_eq!(story(&env, "fix", 2), "metric_integrity_violation 0.0\ntarget_met 0.0\n");
    assert_eq!(receipt(&env, "fix", 1)["check"]["lost"], json!(["a #2"]));
    let env = terms("same_ids = \"merged\"\n");
    converge(&env, "fix");
    assert_eq!(story(&env, "fix", 1), "target_met 0.0\n");
    let other = env.repo().join("loop.toml");
    let toml = std::fs::read_to_string(&other).unwrap().replace("format = \"lines\"", "format = \"tap\"");
    env.write("loop.toml", toml);
    let refused = env.git_loop(&["start", "other", "-f", "loop.toml"]).expect_code(129).stderr;
    assert!(refused.contains("`check.same_ids` is not read with `check.format = \"tap\"`"), "{refused}");
}

#[test]
fn cargo_test_mends_breaks_and_converges() {
    let env = TestEnv::new();
    if !tool("cargo") || !tiny_crate(&env) {
        return;
    }
    crate_terms("").write(&env);
    let json = converge(&env, "fix");
    assert_eq!(json["iteration_count"], 3);
    assert_eq!(story(&env, "fix", 3), "metric_improved 1.0\ntests_regressed 1.0\ntarget_met 0.0\n");
    let baseline = body(&env, "fix", 0);
    let failures = &baseline["check"]["failures"];
    assert_eq!(failures, &serde_json::json!(["numbers::the_larger_one", "tiny::tests::adds"]));
    let broken = receipt(&env, "fix", 2);
    assert_eq!(broken["check"]["regressed"], serde_json::json!(["tiny::tests::adds"]));
    // The worker built and tested, in a tree that ignores nothing, and left nothing of that in the candidate.
    assert_eq!(broken["changes"]["paths"], serde_json::json!(["src/lib.rs"]));
    for iteration in 0..=3 {
        assert_eq!(compiled(&evidence(&env, "fix", iteration, "report")), ["strsim", "tiny"], "{iteration}");
    }
}

#[test]
fn nextest_writes_junit_mends_breaks_and_converges() {
    let env = TestEnv::new();
    if !tool("cargo") || !tool("cargo-nextest") || !tiny_crate(&env) {
        return;
    }
    env.write(".config/nextest.toml", "[profile.ci]\nfail-fast = false\njunit = { path = \"junit.xml\" }\n");
    // Another target folder than the preset's: the report is looked for in the tree.
    let check = "command = [\"cargo\", \"nextest\", \"run\", \"--offline\", \"--profile\", \"ci\", \"--target-dir\", \"target\"]\n\
                 format = \"junit\"\nreport = \"target/nextest/ci/junit.xml\"\n";
    Terms { check_paths: "[\"tests/**\", \"Cargo.*\", \".config/**\"]", check, ..crate_terms("") }
        .write(&env);
    converge(&env, "fix");
    assert_eq!(story(&env, "fix", 3), "metric_improved 1.0\ntests_regressed 1.0\ntarget_met 0.0\n");
    let failures = &body(&env, "fix", 0)["check"]["failures"];
    assert_eq!(failures, &serde_json::json!(["tiny::numbers::the_larger_one", "tiny::tests::adds"]));
    let counted = &receipt(&env, "fix", 3)["check"]["counts"];
    assert_eq!(counted["passed"], 4, "{counted}");
}

#[test]
fn a_warm_target_folder_spares_the_dependencies_and_not_what_changed() {
    let env = TestEnv::new();
    if !tool("cargo") || !tiny_crate(&env) {
        return;
    }
    crate_terms("[worktree]\nwarm = [\"target\"]\n").write(&env);
    let all = ["strsim", "tiny"];
    // A rehearsal keeps nothing: the baseline of the loop builds everything once more.
    env.git_loop(&["start", "warm", "-f", "loop.toml", "--dry-run"]).expect_code(0);
    converge(&env, "warm");
    assert_eq!(compiled(&evidence(&env, "warm", 0, "report")), all);
    // What changed is built, or else the verdicts were those of the base.
    assert_eq!(story(&env, "warm", 3), "metric_improved 1.0\ntests_regressed 1.0\ntarget_met 0.0\n");
    for iteration in 1..=3 {
        assert_eq!(compiled(&evidence(&env, "warm", iteration, "report")), ["tiny"], "{iteration}");
    }
    assert_eq!(receipt(&env, "warm", 1)["changes"]["paths"], serde_json::json!(["src/lib.rs"]));
    // A second loop builds its own.
    converge(&env, "again");
    assert_eq!(compiled(&evidence(&env, "again", 0, "report")), all);
    assert_eq!(compiled(&evidence(&env, "again", 1, "report")), ["tiny"]);
    let cache = env.home().join("cache/git-loop");
    let left =
        std::fs::read_dir(cache).unwrap().flat_map(|folder| folder.unwrap().path().read_dir().unwrap());
    let folders: Vec<_> = left.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    assert!(folders.is_empty(), "a loop that is over leaves no warm folder: {folders:?}");
}

#[test]
fn code_that_does_not_compile_is_no_verdict_and_the_loop_goes_on() {
    let env = TestEnv::new();
    if !tool("cargo") || !tiny_crate(&env) {
        return;
    }
    let worker = r#"case "$GIT_LOOP_ITERATION" in
  1) echo 'fn broken(' >> src/lib.rs ;;
  *) sed -i.old 's/a - b/a + b/; s/a.min(b)/a.max(b)/' src/lib.rs; rm src/lib.rs.old ;;
esac
"#;
    let terms = Terms { worker, ..crate_terms("[worktree]\nwarm = [\"target\"]\n") };
    terms.write(&env);
    // A rehearsal keeps nothing that could be looked at, so it shows what a check that gave no metric printed.
    env.write("src/lib.rs", "fn broken(\n");
    env.commit("Break");
    let rehearsal = env.git_loop(&["start", "fix", "-f", "loop.toml", "--dry-run"]).expect_code(0);
    assert!(rehearsal.stdout.contains("  error: could not compile `tiny`"), "{rehearsal:?}");
    assert!(
        !rehearsal.stderr.contains("a run would stop"),
        "who writes the tests first begins so: {rehearsal:?}"
    );
    env.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    converge(&env, "fix");
    assert_eq!(story(&env, "fix", 2), "verifier_failed null\ntarget_met 0.0\n");
    let problem = receipt(&env, "fix", 1)["check"]["problem"].take();
    assert!(problem.as_str().unwrap().contains("the build failed"), "{problem}");
}

// ----- JUnit ---------------------------------------------------------------------------------------------------------

/// A runner of its own that writes JUnit XML: unittest and the standard library, nothing else.
const RUNNER: &str = r#"import sys, unittest
import xml.etree.ElementTree as xml

class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.suite = xml.Element("testsuite", name="unittest")
        self.seen = {}

    def case(self, test):
        owner, _, name = test.id().rpartition(".")
        if test.id() not in self.seen:
            self.seen[test.id()] = xml.SubElement(self.suite, "testcase", classname=owner, name=name)
        return self.seen[test.id()]

    def add(self, test, kind, text):
        xml.SubElement(self.case(test), kind).text = text

    def startTest(self, test):
        super().startTest(test)
        self.case(test)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.add(test, "failure", self.failures[-1][1])

    def addError(self, test, error):
        super().addError(test, error)
        self.add(test, "error", self.errors[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.add(test, "skipped", reason)

result = Result()
unittest.defaultTestLoader.discover("tests", top_level_dir=".").run(result)
suite = result.suite
for key, kind in [("failures", "failure"), ("errors", "error"), ("skipped", "skipped")]:
    suite.set(key, str(len(suite.findall("testcase/" + kind))))
suite.set("tests", str(len(suite)))
xml.ElementTree(suite).write(sys.argv[1], encoding="utf-8", xml_declaration=True)
sys.exit(0 if result.wasSuccessful() else 1)
"#;

const PYTHON_TESTS: &str = r#"import unittest
from src import numbers

class Numbers(unittest.TestCase):
    def test_add(self):
        self.assertEqual(numbers.add(2, 3), 5)

    def test_max(self):
        self.assertEqual(numbers.larger(2, 3), 3)

    def test_name(self):
        self.assertEqual(numbers.NAME, "<&> 'n'")

    @unittest.skip("not now")
    def test_later(self):
        self.fail()
"#;

const PYTHON: &str =
    "NAME = \"<&> 'n'\"\n\ndef add(a, b):\n    return a - b\n\ndef larger(a, b):\n    return min(a, b)\n";

/// Mends one, leaves a syntax error, mends the other while it breaks the first, mends it.
const PYTHON_WORKER: &str = r#"set -e
case "$GIT_LOOP_ITERATION" in
  1) sed -i.old 's/a - b/a + b/' src/numbers.py ;;
  2) sed -i.old 's/min(a, b)/max(a, b/' src/numbers.py ;;
  3) sed -i.old 's/min(a, b)/max(a, b)/; s/a + b/a * b/' src/numbers.py ;;
  *) sed -i.old 's/min(a, b)/max(a, b)/' src/numbers.py ;;
esac
rm src/numbers.py.old
"#;

/// What becomes of it, whatever runs the tests; their ids begin with `prefix`.
fn assert_python_story(env: &TestEnv, id: &str, prefix: &str) {
    converge(env, id);
    assert_eq!(
        story(env, id, 4),
        "metric_improved 1.0\nverifier_failed null\ntests_regressed 1.0\ntarget_met 0.0\n"
    );
    let baseline = body(env, id, 0);
    let failures = [format!("{prefix}add"), format!("{prefix}max")];
    assert_eq!(baseline["check"]["failures"], serde_json::json!(failures));
    assert_eq!(baseline["check"]["counts"]["skipped"], 1);
    let problem = receipt(env, id, 2)["check"]["problem"].take();
    let problem = problem.as_str().unwrap();
    assert!(
        problem.contains("could not be loaded") || problem.contains("error during collection"),
        "{problem}"
    );
    let broken = receipt(env, id, 3)["check"]["regressed"].take();
    assert_eq!(broken, serde_json::json!([format!("{prefix}add")]));
}

/// What JUnit's ids of them begin with.
const PYTHON_JUNIT: &str = "tests.test_numbers.Numbers::test_";

fn python_project(env: &TestEnv) {
    env.write("src/__init__.py", "");
    env.write("src/numbers.py", PYTHON);
    env.write("tests/__init__.py", "");
    env.write("tests/test_numbers.py", PYTHON_TESTS);
}

#[test]
fn a_runner_that_writes_junit_mends_breaks_and_converges() {
    if !tool("python3") {
        return;
    }
    let env = TestEnv::new();
    python_project(&env);
    env.write("tests/run.py", RUNNER);
    // The report lies in a warm folder, as nextest's does.
    let terms = Terms {
        check_paths: "[\"tests/**\"]",
        worker: PYTHON_WORKER,
        check: "command = [\"sh\", \"tests/run.sh\"]\nformat = \"junit\"\nreport = \"build/report.xml\"\n",
        metric: FAILURES,
        rest: "[sandbox]\npresets = [\"python\"]\n[worktree]\nwarm = [\"build\"]\n",
    };
    env.write("tests/run.sh", "mkdir -p build\nexec python3 tests/run.py build/report.xml\n");
    terms.write(&env);
    assert_python_story(&env, "fix", PYTHON_JUNIT);
    let report = evidence(&env, "fix", 4, "report");
    assert!(report.starts_with("<?xml"), "{report}");
}

#[test]
fn an_import_that_fails_at_the_baseline_can_be_mended() {
    if !tool("python3") {
        return;
    }
    let env = TestEnv::new();
    python_project(&env);
    env.write("src/numbers.py", "");
    env.write("tests/test_more.py", "from src.more import nothing\n");
    env.write("tests/run.py", RUNNER);
    let worker = format!(
        "cat > src/numbers.py <<'EOF'\n{PYTHON}EOF\nsed -i.old 's/a - b/a + b/; s/min/max/' src/numbers.py\n\
         rm src/numbers.py.old\necho nothing = 0 > src/more.py\n"
    );
    Terms {
        check_paths: "[\"tests/**\"]",
        worker: &worker,
        check: "command = [\"python3\", \"tests/run.py\", \"report.xml\"]\nformat = \"junit\"\nreport = \"report.xml\"\n",
        metric: FAILURES,
        rest: "",
    }
    .write(&env);
    converge(&env, "fix");
    let baseline = body(&env, "fix", 0);
    assert!(baseline["check"]["metric"].is_null(), "{baseline}");
    assert_eq!(story(&env, "fix", 1), "target_met 0.0\n");
}

/// A Python that has pytest.
pub fn python_with_pytest(env: &TestEnv) -> Option<&'static str> {
    // A version manager's Python may come first in PATH, and the system's package belong to the system's Python.
    let has_pytest = |python: &&str| {
        let mut command = env.command(python, &env.root());
        env.run_command(command.args(["-c", "import pytest"])).code == 0
    };
    let python = ["python3", "/usr/bin/python3"]
        .into_iter()
        .filter(|name| Path::new(name).is_relative() || Path::new(name).exists())
        .find(has_pytest);
    if python.is_none() {
        assert!(std::env::var_os("GIT_LOOP_CI").is_none(), "pytest is needed in CI");
        eprintln!("skipped: pytest is not installed");
    }
    python
}

#[test]
fn pytest_mends_breaks_and_converges() {
    if !tool("python3") {
        return;
    }
    let env = TestEnv::new();
    let Some(python) = python_with_pytest(&env) else { return };
    python_project(&env);
    let worker = format!("{PYTHON_WORKER}{python} -m pytest -q >/dev/null || true\n");
    let check = format!(
        "command = [\"{python}\", \"-m\", \"pytest\", \"-q\", \"--junitxml=report.xml\"]\n\
         format = \"junit\"\nreport = \"report.xml\"\n"
    );
    Terms {
        check_paths: "[\"tests/**\", \"**/conftest.py\"]",
        worker: &worker,
        check: &check,
        metric: FAILURES,
        rest: "",
    }
    .write(&env);
    assert_python_story(&env, "fix", PYTHON_JUNIT);
    // The worker ran pytest as well, and left neither cache nor bytecode in the candidate.
    assert_eq!(receipt(&env, "fix", 1)["changes"]["paths"], serde_json::json!(["src/numbers.py"]));
}

// ----- numbers -------------------------------------------------------------------------------------------------------

/// A loop whose check is `check.sh` and whose worker writes the iteration into `src/n`.
fn number_loop(env: &TestEnv, check: &str, metric: &str) {
    env.write("check.sh", check);
    env.write("src/n", "0\n");
    Terms {
        check_paths: "[\"check.sh\"]",
        worker: "echo \"$GIT_LOOP_ITERATION\" > src/n\n",
        check: "command = [\"sh\", \"check.sh\"]\n",
        metric,
        rest: "",
    }
    .write(env);
}

#[test]
fn the_exit_code_is_the_metric() {
    let env = TestEnv::new();
    let check = "n=$(cat src/n)\n[ \"$n\" -ge 3 ] && exit 0\nexit $((9 - n))\n";
    number_loop(&env, check, "direction = \"minimize\"\ntarget = 0\nfrom = \"exit\"\n");
    let json = env.git_loop(&["run", "fix", "-f", "loop.toml", "--json"]).expect_code(10).json();
    assert_eq!(json["iteration_count"], 3);
    // Other codes than the success code are no verdict, so that there is nothing to improve on.
    assert!(body(&env, "fix", 0)["check"]["metric"].is_null());
    assert_eq!(story(&env, "fix", 3), "verifier_failed null\nverifier_failed null\ntarget_met 0.0\n");
    env.git_loop(&["verify", "fix"]).expect_code(0);
}

#[test]
fn a_pattern_finds_the_metric_and_the_largest_wins() {
    let env = TestEnv::new();
    let check = "n=$(cat src/n)\necho 'coverage: 99.0% of nothing'\n[ \"$n\" = 2 ] && n=0\nprintf 'coverage: %s.5%% of all\\n' \"$n\"\n";
    let metric = "direction = \"maximize\"\ntarget = 3\nfrom = \"regex\"\npattern = '^coverage: (?P<metric>[0-9.]+)%'\n";
    number_loop(&env, check, metric);
    converge(&env, "fix");
    assert_eq!(body(&env, "fix", 0)["check"]["metric"], 0.5);
    assert_eq!(story(&env, "fix", 3), "metric_improved 1.5\nmetric_not_improved 0.5\ntarget_met 3.5\n");
}

#[test]
fn a_pointer_finds_the_metric_in_json() {
    let env = TestEnv::new();
    let check = "n=$(cat src/n)\necho measuring\nprintf '{\"a/b\":[{\"ms\":%s}]}\\n' \"$((30 - 10 * n))\"\n";
    let metric = "direction = \"minimize\"\ntarget = 5\nfrom = \"json\"\npointer = \"/a~1b/0/ms\"\n";
    number_loop(&env, check, metric);
    converge(&env, "fix");
    assert_eq!(story(&env, "fix", 3), "metric_improved 20.0\nmetric_improved 10.0\ntarget_met 0.0\n");
}
