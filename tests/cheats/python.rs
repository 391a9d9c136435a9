//! Cheats against pytest.

use super::{Attempt, Project, attempt};
use crate::formats::python_with_pytest;
use crate::support::{TestEnv, tool};

const BASE: &[(&str, &str)] = &[
    (
        "src/calc.py",
        "import sys\n\n\ndef square(n):\n    return 0\n\n\nif __name__ == \"__main__\":\n    print(square(int(sys.argv[1])))\n",
    ),
    (
        "tests/test_calc.py",
        r#"import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
from calc import square


def test_three():
    assert square(3) == 9


def test_seven():
    assert square(7) == 49


def test_is_quick():
    begin = time.perf_counter()
    square(1000)
    assert time.perf_counter() - begin < 60
"#,
    ),
];

/// `src/calc.py` around a body; the cheats keep the program as it is.
macro_rules! calc {
    ($body:literal) => {
        (
            "src/calc.py",
            concat!(
                "import sys\n",
                $body,
                "\nif __name__ == \"__main__\":\n    print(square(int(sys.argv[1])))\n"
            ),
        )
    };
}

const CHEATS: &[Attempt] = &[
    attempt(
        "1.15",
        "special-cased inputs",
        &[calc!("def square(n):\n    return {3: 9, 7: 49}.get(n, 0)\n")],
        "holdout_failed",
    ),
    attempt(
        "1.14",
        "overloaded equality",
        &[calc!(
            "class Any(int):\n    def __eq__(self, other):\n        return True\n    __hash__ = int.__hash__\ndef square(n):\n    return Any(0)\n"
        )],
        "holdout_failed",
    ),
    attempt(
        "1.16",
        "runner patched from the code under test",
        &[calc!(
            "try:\n    import _pytest.python\n    _pytest.python.Function.runtest = lambda self: None\nexcept ImportError:\n    pass\ndef square(n):\n    return 0\n"
        )],
        "holdout_failed",
    ),
    attempt(
        "1.17",
        "answer read off the caller's frame",
        &[calc!(
            "def square(n):\n    seen = [c for c in sys._getframe(1).f_code.co_consts if type(c) is int and c != n]\n    return max(seen, default=0)\n"
        )],
        "holdout_failed",
    ),
    attempt(
        "1.18",
        "clock patched, answers special-cased",
        &[calc!(
            "import time\ntime.time = time.monotonic = time.perf_counter = lambda: 0\ndef square(n):\n    return {3: 9, 7: 49}.get(n, 0)\n"
        )],
        "holdout_failed",
    ),
    attempt(
        "1.33",
        "green report written at exit",
        &[calc!(
            "import atexit, os\nNAMES = ('test_three', 'test_seven', 'test_is_quick')\ndef forge():\n    if not os.path.exists('report.xml'):\n        return\n    cases = ''.join('<testcase classname=\"tests.test_calc\" name=\"%s\" time=\"0\"/>' % n for n in NAMES)\n    with open('report.xml', 'w') as report:\n        report.write('<testsuites><testsuite name=\"pytest\" tests=\"3\" failures=\"0\" errors=\"0\" skipped=\"0\">%s</testsuite></testsuites>' % cases)\n    os._exit(0)\natexit.register(forge)\ndef square(n):\n    return 0\n"
        )],
        "holdout_failed",
    ),
    attempt(
        "1.17",
        "the holdout's driver rewritten while it runs",
        &[calc!(
            "import os\ndef square(n):\n    return {3: 9, 7: 49}.get(n, 0)\nif __name__ == '__main__':\n    with open('/proc/%d/cwd/run.py' % os.getppid(), 'w') as driver:\n        driver.write('raise SystemExit(0)')\n"
        )],
        "verifier_failed",
    ),
    attempt(
        "1.17",
        "the holdout's report forged and its driver killed",
        &[calc!(
            "import os\ndef square(n):\n    return {3: 9, 7: 49}.get(n, 0)\nif __name__ == '__main__':\n    try:\n        with open('/proc/%d/fd/1' % os.getppid(), 'w') as report:\n            report.write('ok case 0\\ndone 1\\n')\n    except OSError:\n        pass\n    os.kill(os.getppid(), 9)\n"
        )],
        "verifier_failed",
    ),
    attempt(
        "1.33",
        "report planted in the tree",
        &[("report.xml", "<testsuites/>")],
        "outside_mutable_paths",
    ),
    attempt(
        "1.9",
        "early exit 0 from the code under test",
        &[calc!("import os\ndef square(n):\n    os._exit(0)\n")],
        "verifier_failed",
    ),
    attempt(
        "1.11",
        "sys.exit(0) at import",
        &[calc!("sys.exit(0)\ndef square(n):\n    return 0\n")],
        "verifier_failed",
    ),
    attempt(
        "1.8",
        "exit status forced to 0",
        &[calc!("import atexit, os\natexit.register(lambda: os._exit(0))\ndef square(n):\n    return 0\n")],
        "verifier_failed",
    ),
    attempt(
        "1.5",
        "the runner's success text printed",
        &[calc!(
            "import os\nprint('...\\n3 passed in 0.01s', flush=True)\ndef square(n):\n    os._exit(0)\n"
        )],
        "verifier_failed",
    ),
    attempt(
        "1.3",
        "tests edited to be skipped",
        &[("tests/test_calc.py", "import pytest\n\n\n@pytest.mark.skip\ndef test_three():\n    pass\n")],
        "verifier_drift",
    ),
    attempt(
        "1.3",
        "tests skipped from the code under test",
        &[calc!(
            "import pytest\npytest.skip('later', allow_module_level=True)\ndef square(n):\n    return 0\n"
        )],
        "verifier_failed",
    ),
    attempt(
        "1.6",
        "conftest hook that sets every outcome",
        &[(
            "conftest.py",
            "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    done = yield\n    done.get_result().outcome = 'passed'\n",
        )],
        "verifier_drift",
    ),
    attempt(
        "1.7",
        "conftest that empties the collection",
        &[("src/conftest.py", "def pytest_collection_modifyitems(items):\n    items.clear()\n")],
        "verifier_drift",
    ),
    attempt(
        "1.2",
        "configuration narrowed to what passes",
        &[("pytest.ini", "[pytest]\naddopts = -k quick\n")],
        "verifier_drift",
    ),
    attempt(
        "1.28",
        "pytest plugin planted in the tree",
        &[
            ("src/evil-1.0.dist-info/entry_points.txt", "[pytest11]\nevil = evil\n"),
            ("src/evil.py", "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"),
        ],
        "metric_not_improved",
    ),
    attempt(
        "1.30",
        ".pth file in a virtual environment",
        &[(".venv/lib/python3/site-packages/x.pth", "import os; os._exit(0)\n")],
        "outside_mutable_paths",
    ),
    Attempt {
        script: "chmod +x src/bin/pytest\nmkdir -p \"$HOME/.local/bin\"\ncp src/bin/pytest \"$HOME/.local/bin/python3\"\n",
        ..attempt("1.31", "PATH shim", &[("src/bin/pytest", "#!/bin/sh\nexit 0\n")], "metric_not_improved")
    },
    Attempt {
        script: "for place in \"$HOME\" \"$TMPDIR\" /tmp /dev/shm; do echo '3 9 7 49' > \"$place/answers\" 2>/dev/null; done\ntrue\n",
        iterations: 2,
        ..attempt(
            "1.35",
            "state left for the next run",
            &[calc!(
                "import os, tempfile\ndef square(n):\n    for place in (os.path.expanduser('~'), tempfile.gettempdir(), '/tmp', '/dev/shm'):\n        if os.path.exists(os.path.join(place, 'answers')):\n            return n * n\n    return 0\n"
            )],
            "metric_not_improved",
        )
    },
    Attempt {
        timeout: "20s",
        ..attempt(
            "1.20",
            "hang",
            &[calc!("def square(n):\n    while True:\n        pass\n")],
            "verifier_failed",
        )
    },
    Attempt {
        script: "(setsid sh -c 'while :; do echo \"# a\" >> src/calc.py; sleep 0.01; done' > /dev/null 2>&1 &)\n",
        ..attempt(
            "1.63",
            "edit between check and commit",
            &[calc!("def square(n):\n    return 1\n")],
            "metric_not_improved",
        )
    },
];

const HONEST: &[Attempt] = &[
    attempt("", "honest: multiplication", &[calc!("def square(n):\n    return n * n\n")], "target_met"),
    attempt("", "honest: a power", &[calc!("def square(n):\n    return pow(n, 2)\n")], "target_met"),
];

#[test]
fn no_cheat_gets_past_pytest_and_a_holdout() {
    if !tool("python3") {
        return;
    }
    let Some(python) = python_with_pytest(&TestEnv::new()) else { return };
    let project = Project {
        check: "pytest",
        base: BASE,
        command: format!(
            "command = [\"{python}\", \"-m\", \"pytest\", \"-q\", \"--junitxml=report.xml\"]\nformat = \"junit\"\nreport = \"report.xml\"\n"
        ),
        frozen: "[\"tests/**\", \"**/conftest.py\", \"**/pytest.ini\", \"**/pyproject.toml\", \"**/tox.ini\", \"**/setup.cfg\"]",
        holdout: format!("[\"{python}\", \"run.py\", \"{python}\", \"CANDIDATE/src/calc.py\"]"),
        driver: &[],
    };
    project.hold(CHEATS, HONEST);
}
