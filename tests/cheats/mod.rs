//! The public list of cheats against real checks: pytest, cargo and node. Each is tried in a loop of its own that also has a holdout, and none may be
//! accepted; honest fixes all are. The holdout is the example of `docs/src/guide/holdout.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::support::TestEnv;

mod node;
mod python;
mod rust;

/// A project with a function that squares a number, wrongly, and its check.
struct Project {
    /// The check, for the table.
    check: &'static str,
    /// The files of the base.
    base: &'static [(&'static str, &'static str)],
    /// `[check]`, but for its time-out.
    command: String,
    /// `paths.check`.
    frozen: &'static str,
    /// The command of the holdout, in TOML.
    holdout: String,
    /// Further files of the holdout.
    driver: &'static [(&'static str, &'static str)],
}

/// One attempt of a worker.
struct Attempt {
    /// The field report that it is of; empty for an honest fix.
    report: &'static str,
    name: &'static str,
    /// The files that the worker writes.
    files: &'static [(&'static str, &'static str)],
    /// What else it does, in each iteration.
    script: &'static str,
    iterations: u32,
    /// The time-out of the check.
    timeout: &'static str,
    /// The row that decides on the last iteration.
    row: &'static str,
}

/// A worker that writes these files, once.
const fn attempt(
    report: &'static str,
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    row: &'static str,
) -> Attempt {
    Attempt { report, name, files, script: "", iterations: 1, timeout: "5m", row }
}

/// The driver of the guide.
fn guide(language: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/src/guide/holdout.md");
    let text = fs::read_to_string(page).unwrap();
    let (_, block) = text.split_once(&format!("```{language}\n")).expect("the page has an example");
    block.split_once("```").expect("the example ends").0.to_owned()
}

impl Project {
    /// Makes the repository and its holdout, with `attempt` as what its worker does.
    fn prepare(&self, attempt: &Attempt) -> TestEnv {
        let env = TestEnv::new();
        for (path, text) in self.base {
            env.write(path, text);
        }
        env.commit("Begin");
        env.write(".git/info/exclude", "loop.toml\n");
        let folder = env.root().join("holdout");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("run.py"), guide("python")).unwrap();
        for (name, text) in self.driver {
            fs::write(folder.join(name), text).unwrap();
        }
        let mut worker = String::new();
        for (path, text) in attempt.files {
            let above = Path::new(path).parent().unwrap().display().to_string();
            writeln!(worker, "mkdir -p './{above}'\ncat > '{path}' <<'END-OF-FILE'\n{text}\nEND-OF-FILE")
                .unwrap();
        }
        worker.push_str(attempt.script);
        let worker = env.script("worker.sh", &worker);
        let Self { command, frozen, holdout, .. } = self;
        let Attempt { iterations, timeout, .. } = attempt;
        // The guide's own lines, with this project's command and place in them.
        let terms = guide("toml")
            .replace("[\"python3\", \"run.py\", \"python3\", \"CANDIDATE/src/calc.py\"]", holdout)
            .replace("/srv/holdout/calc", folder.to_str().unwrap())
            .replace("timeout = \"2m\"", "timeout = \"5m\"");
        assert!(terms.contains(holdout) && terms.contains(folder.to_str().unwrap()), "{terms}");
        env.write(
            "loop.toml",
            format!(
                "objective = \"Square any whole number\"\nclass = \"mechanical_transformation\"\n\
                 [paths]\nmutable = [\"src/**\"]\ncheck = {frozen}\n\
                 [worker]\ncommand = [\"sh\", \"{worker}\"]\nusage = \"none\"\ntimeout = \"5m\"\n\
                 [check]\n{command}timeout = \"{timeout}\"\n\
                 [metric]\nname = \"failing\"\ndirection = \"minimize\"\ntarget = 0\nfrom = \"failures\"\n\
                 [limits]\niterations = {iterations}\nduration = \"1h\"\n\
                 {terms}"
            ),
        );
        env
    }

    /// What a loop with this worker comes to: the outcome and the row of its last iteration, and how.
    fn run(&self, attempt: &Attempt) -> Told {
        let env = self.prepare(attempt);
        let base = env.git(&["rev-parse", "HEAD"]);
        let ran = env.git_loop(&["run", "try", "-f", "loop.toml", "--json"]);
        let number = attempt.iterations.to_string();
        let shown = env.git_loop(&["show", "try", &number, "--json"]);
        assert_eq!(shown.code, 0, "{}: {}\n{}", attempt.name, shown.stderr, ran.stderr);
        let receipt = shown.json()["record"]["body"]["receipt"].clone();
        let word = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
        env.git_loop(&["verify", "try"]).expect_code(0);
        Told {
            accepted: env.git(&["rev-parse", "refs/loops/try/head"]) != base,
            outcome: word(&receipt["decision"]["outcome"]),
            row: word(&receipt["decision"]["outcome_reason"]),
            visible: match receipt["check"]["passing"].as_bool() {
                Some(true) => "green",
                Some(false) => "red",
                None => "not run",
            },
            holdout: receipt["holdout"]["verdict"].as_str().unwrap_or("not asked").to_owned(),
            code: ran.code,
            why: format!("{}\n{}", ran.stderr, receipt["check"]),
        }
    }

    /// What all of them come to, in their order; two at a time.
    fn run_all(&self, attempts: &[&Attempt]) -> Vec<Told> {
        let (even, odd) = std::thread::scope(|scope| {
            let half = |first: usize| {
                scope.spawn(move || -> Vec<Told> {
                    attempts.iter().skip(first).step_by(2).map(|one| self.run(one)).collect()
                })
            };
            let (even, odd) = (half(0), half(1));
            (even.join(), odd.join())
        });
        let told = |half: std::thread::Result<Vec<Told>>| {
            half.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).into_iter()
        };
        let (mut even, mut odd) = (told(even), told(odd));
        (0..attempts.len()).filter_map(|at| if at % 2 == 0 { even.next() } else { odd.next() }).collect()
    }

    /// Tries everything, prints what came of it, and fails unless every cheat was turned down in the way that is expected and every
    /// honest fix accepted.
    fn hold(&self, cheats: &[Attempt], honest: &[Attempt]) {
        let mut table = String::new();
        let mut wrong = String::new();
        let mut succeeded = 0;
        let attempts: Vec<&Attempt> = cheats.iter().chain(honest).collect();
        for (attempt, told) in attempts.iter().zip(self.run_all(&attempts)) {
            let cheat = !attempt.report.is_empty();
            let good = told.accepted != cheat && told.row == attempt.row && (cheat || told.code == 10);
            succeeded += usize::from(cheat && told.accepted);
            let Told { outcome, row, visible, holdout, .. } = &told;
            let _ = writeln!(
                table,
                "| {:<5} | {:<52} | {:<6} | {outcome}, {row} (check {visible}, holdout {holdout}) |",
                attempt.report, attempt.name, self.check
            );
            if !good {
                let _ = writeln!(
                    wrong,
                    "{}: expected {}, got {row}, exit {}\n{}",
                    attempt.name, attempt.row, told.code, told.why
                );
            }
        }
        println!(
            "\n| case  | {:<52} | check  | outcome |\n| ----- | {} | ------ | ------- |\n{table}attack success: {succeeded} of {}; honest fixes: {}\n",
            "attempt",
            "-".repeat(52),
            cheats.len(),
            honest.len()
        );
        assert!(wrong.is_empty(), "{wrong}");
    }
}

/// What came of an attempt.
struct Told {
    accepted: bool,
    outcome: String,
    row: String,
    visible: &'static str,
    holdout: String,
    code: i32,
    why: String,
}
