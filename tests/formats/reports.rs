//! The report formats that came later: pytest's text and node's TAP from the real runners, and what go, jest and vitest wrote
//! for a small project (`fixtures/reports`), as a check prints it.
//!
//! Each has a loop that mends what is red, and one whose worker goes green by testing less.

use serde_json::json;

use super::{
    FAILURES, PYTHON_WORKER, Terms, assert_python_story, body, converge, evidence, python_project,
    python_with_pytest, receipt,
};
use crate::support::{TestEnv, tool};

// ----- pytest's text -------------------------------------------------------------------------------------------------

fn pytest_check(python: &str) -> String {
    format!(
        "command = [\"{python}\", \"-m\", \"pytest\", \"-rA\", \"-p\", \"no:cacheprovider\"]\nformat = \"pytest\"\n"
    )
}

#[test]
fn the_text_of_pytest_mends_breaks_and_converges() {
    let env = TestEnv::new();
    let Some(python) = python_with_pytest(&env).filter(|_| tool("python3")) else { return };
    python_project(&env);
    Terms {
        check_paths: "[\"tests/**\", \"**/conftest.py\"]",
        worker: PYTHON_WORKER,
        check: &pytest_check(python),
        metric: FAILURES,
        rest: "",
    }
    .write(&env);
    assert_python_story(&env, "fix", "tests/test_numbers.py::Numbers::test_");
    let report = evidence(&env, "fix", 4, "report");
    assert!(report.contains("short test summary info"), "{report}");
}

#[test]
fn pytest_goes_green_by_a_case_less() {
    let env = TestEnv::new();
    let Some(python) = python_with_pytest(&env).filter(|_| tool("python3")) else { return };
    env.write("src/__init__.py", "");
    env.write("src/cases.py", "CASES = [1, 2, 3]\n");
    env.write("tests/__init__.py", "");
    env.write(
        "tests/test_cases.py",
        "import pytest\nfrom src.cases import CASES\n\n@pytest.mark.parametrize('n', CASES)\ndef test_n(n):\n    assert n != 2\n",
    );
    Terms {
        check_paths: "[\"tests/**\", \"**/conftest.py\"]",
        worker: "echo 'CASES = [1, 3]' > src/cases.py\n",
        check: &pytest_check(python),
        metric: FAILURES,
        rest: "",
    }
    .write(&env);
    assert_tests_less(&env, "less", &["tests/test_cases.py::test_n[2]"]);
}

// ----- node's TAP ----------------------------------------------------------------------------------------------------

const NODE_TESTS: &str = "const test = require('node:test');
const assert = require('node:assert');
const numbers = require('../src/numbers.js');

test('adds', () => assert.strictEqual(numbers.add(2, 3), 5));
test('numbers', async (t) => {
  await t.test('the larger one', { skip: numbers.skip }, () => assert.strictEqual(numbers.larger(2, 3), 3));
});
test('later', { todo: true }, () => assert.fail('not yet'));
";

const NODE_CODE: &str = "exports.add = (a, b) => a - b;
exports.larger = (a, b) => Math.min(a, b);
exports.skip = false;
";

fn node_loop(env: &TestEnv, worker: &str) {
    env.write("src/numbers.js", NODE_CODE);
    env.write("tests/numbers.test.js", NODE_TESTS);
    env.write("tests/print.test.js", "console.log('1..1');\nconsole.log('not ok 1 - printed');\n");
    let files = "\"tests/numbers.test.js\", \"tests/print.test.js\"";
    Terms {
        check_paths: "[\"tests/**\"]",
        worker,
        check: &format!(
            "command = [\"node\", \"--test\", \"--test-reporter=tap\", {files}]\nformat = \"tap\"\n"
        ),
        metric: FAILURES,
        rest: "[sandbox]\npresets = [\"node\"]\n",
    }
    .write(env);
}

#[test]
fn node_mends_breaks_and_converges() {
    if !tool("node") {
        return;
    }
    let env = TestEnv::new();
    let worker = r#"set -e
case "$GIT_LOOP_ITERATION" in
  1) sed -i.old 's/a - b/a + b/' src/numbers.js ;;
  2) echo 'nothing(' >> src/numbers.js; exit 0 ;;
  3) sed -i.old 's/Math.min/Math.max/; s/a + b/a * b/' src/numbers.js ;;
  *) sed -i.old 's/Math.min/Math.max/' src/numbers.js ;;
esac
rm src/numbers.js.old
"#;
    node_loop(&env, worker);
    converge(&env, "fix");
    assert_eq!(
        super::story(&env, "fix", 4),
        "metric_improved 2.0\nverifier_failed null\ntests_regressed 1.0\ntarget_met 0.0\n"
    );
    let baseline = body(&env, "fix", 0)["check"].take();
    assert_eq!(baseline["failures"], json!(["adds", "numbers", "numbers > the larger one"]));
    assert_eq!(baseline["counts"]["skipped"], 1);
    let problem = receipt(&env, "fix", 2)["check"]["problem"].take();
    assert!(problem.as_str().unwrap().contains("could not be loaded"), "{problem}");
    assert_eq!(receipt(&env, "fix", 3)["check"]["regressed"], json!(["adds"]));
}

#[test]
fn node_goes_green_by_a_skip() {
    if !tool("node") {
        return;
    }
    let env = TestEnv::new();
    node_loop(
        &env,
        "sed -i.old 's/a - b/a + b/; s/skip = false/skip = true/' src/numbers.js\nrm src/numbers.js.old\n",
    );
    assert_skips(&env, "less", &["numbers > the larger one"]);
}

// ----- reports that other machines made --------------------------------------------------------------------------------

/// A project whose check hands out reports of real runners: the one that `src/state` names.
fn canned(env: &TestEnv, reports: &[(&str, &[u8])], check: &str, worker_state: &str) {
    for (name, report) in reports {
        env.write(&format!("tests/{name}"), report);
    }
    env.write("src/state", "red\n");
    let to = if check.contains("report =") { " > report.json" } else { "" };
    env.write(
        "tests/run.sh",
        format!("state=$(cat src/state)\ncat \"tests/$state\"{to}\n[ \"$state\" != red ]\n"),
    );
    Terms {
        check_paths: "[\"tests/**\"]",
        worker: &format!("echo {worker_state} > src/state\n"),
        check: &format!("command = [\"sh\", \"tests/run.sh\"]\n{check}"),
        metric: FAILURES,
        rest: "",
    }
    .write(env);
}

macro_rules! real {
    ($name:literal) => {
        (
            $name.rsplit_once('-').unwrap().1.trim_end_matches(".json"),
            &include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/reports/", $name))[..],
        )
    };
}

const GO: &str = "format = \"go-json\"\n";

const JEST: &str = "format = \"jest\"\nreport = \"report.json\"\n";

#[test]
fn what_go_writes_converges() {
    for reports in [
        [real!("go-1.19-red.json"), real!("go-1.19-green.json")],
        [real!("go-1.27-red.json"), real!("go-1.27-green.json")],
    ] {
        let env = TestEnv::new();
        canned(&env, &reports, GO, "green");
        converge(&env, "fix");
        assert_eq!(super::story(&env, "fix", 1), "target_met 0.0\n");
        let failures = body(&env, "fix", 0)["check"]["failures"].take();
        assert_eq!(failures, json!(["example.com/p/sum::TestMax", "example.com/p/sum::TestMax/1_or_2"]));
    }
}

#[test]
fn what_go_writes_of_a_subtest_less() {
    let env = TestEnv::new();
    canned(&env, &[real!("go-1.27-red.json"), real!("go-1.27-less.json")], GO, "less");
    assert_tests_less(&env, "less", &["example.com/p/sum::TestMax/1_or_2"]);
}

#[test]
fn what_go_writes_of_a_panic_is_no_verdict() {
    let env = TestEnv::new();
    let reports = [real!("go-1.27-red.json"), real!("go-1.27-panic.json")];
    canned(&env, &reports, GO, "panic");
    let json = env.git_loop(&["run", "panic", "-f", "loop.toml", "--json"]).json();
    assert_eq!((&json["status"], &json["metric"]["best"]), (&json!("stopped"), &json!(2.0)), "{json}");
    let first = receipt(&env, "panic", 1);
    assert_eq!(first["decision"]["outcome_reason"], "verifier_failed");
    assert_eq!(first["check"]["lost"], json!([]));
}

#[test]
fn what_jest_and_vitest_write_converges() {
    for reports in [
        [real!("jest-red.json"), real!("jest-green.json")],
        [real!("vitest-red.json"), real!("vitest-green.json")],
    ] {
        let env = TestEnv::new();
        canned(&env, &reports, JEST, "green");
        converge(&env, "fix");
        assert_eq!(super::story(&env, "fix", 1), "target_met 0.0\n");
        let check = body(&env, "fix", 0)["check"].take();
        assert_eq!(check["failures"], json!(["a/sum.test.js::sum > adds"]));
        assert_eq!(check["counts"]["skipped"], 2);
    }
}

#[test]
fn what_jest_and_vitest_write_of_a_skip() {
    for reports in [
        [real!("jest-red.json"), real!("jest-less.json")],
        [real!("vitest-red.json"), real!("vitest-less.json")],
    ] {
        let env = TestEnv::new();
        canned(&env, &reports, JEST, "less");
        assert_skips(&env, "less", &["a/sum.test.js::sum > adds"]);
    }
}

// ----- testing less --------------------------------------------------------------------------------------------------

/// A worker's first candidate has no failure and lost tests: the loop is blocked.
#[track_caller]
fn assert_tests_less(env: &TestEnv, id: &str, lost: &[&str]) {
    let json = env.git_loop(&["run", id, "-f", "loop.toml", "--json"]).expect_code(13).json();
    assert_eq!(json["halt_reason"], "metric_integrity_violation");
    let receipt = receipt(env, id, 1);
    assert_eq!(receipt["check"]["lost"], json!(lost));
    assert_eq!(receipt["check"]["counts"]["failed"], 0, "{receipt}");
    env.git_loop(&["verify", id]).expect_code(0);
}

/// A worker's first candidate has no failure and skips tests that ran at the baseline: the target is never met.
#[track_caller]
fn assert_skips(env: &TestEnv, id: &str, skipped: &[&str]) {
    let json = env.git_loop(&["run", id, "-f", "loop.toml", "--json"]).json();
    assert_ne!(json["halt_reason"], "success_condition_met", "{json}");
    let receipt = receipt(env, id, 1);
    assert_eq!(receipt["check"]["newly_skipped"], json!(skipped));
    assert_eq!(receipt["check"]["counts"]["failed"], 0, "{receipt}");
    assert_ne!(receipt["decision"]["outcome_reason"], "target_met");
    env.git_loop(&["verify", id]).expect_code(0);
}
