//! The format `go-json`: what `go test -json` prints on stdout, one event a line.
//!
//! A test's id is `package::Test`, with the name as Go gives it, subtests included (`TestMax/1_or_2`). A test and its
//! subtests are tests of their own: Go reports both.
//!
//! The stream has no end mark and no counts, so what makes it complete is that every package that says anything ends, that
//! every test that was started has a result, and that the test binary came to its end: then, and only then, the `testing`
//! package prints a line `PASS` or `FAIL` of its own. A panic, a time-out, `os.Exit` and `log.Fatal` leave that line out; the
//! tests behind them are not in the stream at all, so that such a report is incomplete and not one with tests missing.
//!
//! | what a package's last event says | what must be so |
//! | --- | --- |
//! | `pass` | no test failed; where there were tests, the last line of its own is `PASS` |
//! | `fail` | a test failed, the last line of its own is `FAIL`, and it was built |
//! | `skip` | there were no tests |
//!
//! Results that Go took out of its cache are of another run, and make the report incomplete: `-count=1`.
//!
//! Lines that do not begin with `{` are no events. Old versions print `FAIL package [build failed]` so.

use std::collections::{BTreeMap, HashMap};

use super::ids::Gathered;
use super::json::{self, Json};
use super::{Outcome, ReportProblem, TestSets, excerpt};

/// Reads the output of `go test -json`.
pub fn parse(bytes: &[u8]) -> Result<TestSets, ReportProblem> {
    let mut parser = Parser::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        parser.number += 1;
        parser.line(line)?;
    }
    parser.finish()
}

/// What became of a test, or will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Running,
    Done,
}

/// The lines that the `testing` package prints when all tests of a binary have run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    Fail,
}

#[derive(Debug, Default)]
struct Package {
    tests: HashMap<String, Test>,
    failed: u64,
    verdict: Option<Verdict>,
    ended: bool,
    /// Where it was heard of first.
    line: u64,
}

#[derive(Default)]
struct Parser {
    number: u64,
    packages: BTreeMap<String, Package>,
    gathered: Gathered,
}

impl Parser {
    fn line(&mut self, line: &[u8]) -> Result<(), ReportProblem> {
        if line.first() != Some(&b'{') {
            // What was not built before Go 1.24.
            return match line.strip_prefix(b"FAIL") {
                Some([] | [b'\t' | b' ' | b'\r', ..]) => {
                    Err(ReportProblem::incomplete(self.number, "a package could not be built or set up"))
                }
                _ => Ok(()),
            };
        }
        let event = std::str::from_utf8(line)
            .map_err(|_| ReportProblem::malformed(self.number, "an event that is not UTF-8"))?;
        let event = json::read(event).map_err(|bad| {
            if bad.cut_off {
                ReportProblem::incomplete(self.number, "an event is cut off")
            } else {
                ReportProblem::malformed(self.number, bad.why)
            }
        })?;
        let Some(action) = event.text("Action") else {
            return Err(ReportProblem::malformed(self.number, "an event without an `Action`"));
        };
        if action == "build-fail" {
            let what = excerpt(event.text("ImportPath").unwrap_or_default());
            return Err(ReportProblem::incomplete(self.number, format!("`{what}` could not be built")));
        }
        let test = self.name(&event, "Test")?;
        let Some(package) = self.name(&event, "Package")? else {
            return match test {
                Some(_) => Err(ReportProblem::malformed(self.number, "a test of no package")),
                None => Ok(()),
            };
        };
        match test {
            Some(test) => self.test(package, test, action),
            None => self.package(package, action, &event),
        }
    }

    /// A name in an event; one that is there and no text is no name.
    fn name<'a>(&self, event: &'a Json, key: &str) -> Result<Option<&'a str>, ReportProblem> {
        match event.get(key) {
            None => Ok(None),
            Some(Json::Text(name)) if name.is_empty() => Ok(None),
            Some(Json::Text(name)) => Ok(Some(name)),
            Some(_) => Err(ReportProblem::malformed(self.number, format!("a `{key}` that is no text"))),
        }
    }

    /// The package of an event. Nothing but a new start comes after its end.
    fn entry(&mut self, name: &str, starts: bool) -> Result<&mut Package, ReportProblem> {
        let number = self.number;
        if !self.packages.contains_key(name) {
            self.packages.insert(name.to_owned(), Package { line: number, ..Package::default() });
        }
        let package = self.packages.get_mut(name).expect("it was just put there");
        if package.ended && !starts {
            return Err(ReportProblem::contradiction(format!(
                "line {number} tells something of `{}` after its end",
                excerpt(name)
            )));
        }
        if starts && (package.ended || package.tests.is_empty()) {
            *package = Package { line: number, ..Package::default() };
        }
        Ok(package)
    }

    /// An event of a test.
    fn test(&mut self, package_name: &str, name: &str, action: &str) -> Result<(), ReportProblem> {
        let number = self.number;
        let package = self.entry(package_name, false)?;
        let id = || format!("{package_name}::{name}");
        let outcome = match action {
            "run" => {
                return match package.tests.insert(name.to_owned(), Test::Running) {
                    Some(Test::Running) => Err(ReportProblem::contradiction(format!(
                        "`{}` starts at line {number} before it has ended",
                        excerpt(&id())
                    ))),
                    _ => Ok(()),
                };
            }
            "pass" | "bench" => Outcome::Passed,
            "fail" => Outcome::Failed,
            "skip" => Outcome::Skipped,
            _ => return Ok(()),
        };
        // Old versions do not say that a benchmark starts.
        let started = package.tests.insert(name.to_owned(), Test::Done);
        if started != Some(Test::Running) && !(started.is_none() && is_benchmark(name)) {
            // A line that the test itself printed, or that another one did.
            return Err(ReportProblem::contradiction(format!(
                "`{}` has a result at line {number} and was not running",
                excerpt(&id())
            )));
        }
        package.failed += u64::from(outcome == Outcome::Failed);
        self.gathered.record(id(), outcome)
    }

    /// An event of a package as a whole.
    fn package(&mut self, name: &str, action: &str, event: &Json) -> Result<(), ReportProblem> {
        let number = self.number;
        let shown = || excerpt(name);
        let package = self.entry(name, action == "start")?;
        match action {
            "output" => {
                let output = event.text("Output").unwrap_or_default();
                match output.strip_suffix('\n').unwrap_or(output) {
                    "PASS" => package.verdict = Some(Verdict::Pass),
                    "FAIL" => package.verdict = Some(Verdict::Fail),
                    line if line.starts_with("ok ") && line.contains("\t(cached)") => {
                        return Err(ReportProblem::incomplete(
                            number,
                            format!(
                                "the results of `{}` are out of Go's cache (-count=1 runs the tests)",
                                shown()
                            ),
                        ));
                    }
                    _ => {}
                }
                return Ok(());
            }
            "pass" | "fail" | "skip" => {}
            _ => return Ok(()),
        }
        package.ended = true;
        let unfinished: Vec<String> = package
            .tests
            .iter()
            .filter(|(_, state)| **state == Test::Running)
            .map(|(test, _)| test.clone())
            .collect();
        let (benchmarks, unfinished): (Vec<_>, Vec<_>) =
            unfinished.into_iter().partition(|test| is_benchmark(test));
        let incomplete = |why: &str| Err(ReportProblem::incomplete(number, format!("`{}` {why}", shown())));
        match action {
            "fail" if event.get("FailedBuild").is_some() => incomplete("could not be built"),
            "skip" if package.tests.is_empty() => Ok(()),
            "skip" => Err(ReportProblem::contradiction(format!("`{}` has tests and was skipped", shown()))),
            _ if !unfinished.is_empty() => {
                let first = unfinished.iter().min().map(String::as_str).unwrap_or_default();
                Err(ReportProblem::incomplete(
                    number,
                    format!("`{}` has no result", excerpt(&format!("{name}::{first}"))),
                ))
            }
            "pass" if package.failed > 0 => {
                Err(ReportProblem::contradiction(format!("`{}` passed and a test of it failed", shown())))
            }
            "pass" if !package.tests.is_empty() && package.verdict != Some(Verdict::Pass) => {
                incomplete("ended without the line `PASS`: not all of its tests may have run")
            }
            // A benchmark that is well has output and no result.
            "pass" => benchmarks
                .into_iter()
                .try_for_each(|test| self.gathered.record(format!("{name}::{test}"), Outcome::Passed)),
            _ if package.verdict != Some(Verdict::Fail) => {
                incomplete("ended without the line `FAIL`: not all of its tests have run")
            }
            _ if package.failed == 0 => incomplete("failed and none of its tests did"),
            _ => benchmarks
                .into_iter()
                .try_for_each(|test| self.gathered.record(format!("{name}::{test}"), Outcome::Passed)),
        }
    }

    fn finish(self) -> Result<TestSets, ReportProblem> {
        match self.packages.iter().find(|(_, package)| !package.ended) {
            Some((name, package)) => Err(ReportProblem::incomplete(
                self.number,
                format!("`{}`, of which line {} is the first, does not end", excerpt(name), package.line),
            )),
            None => Ok(self.gathered.sets),
        }
    }
}

/// Benchmarks have their own ways: see [`Parser::package`].
fn is_benchmark(name: &str) -> bool {
    name.starts_with("Benchmark")
}

#[cfg(test)]
mod tests;
