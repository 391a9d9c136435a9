//! The format `libtest`: what `cargo test` prints, stdout and stderr in one pipe.
//!
//! A test's id is `binary::name`. The binary is named as its file without cargo's hash; where two binaries of one run
//! share a name (the library and the program `foo`, `tests/it.rs` of two packages), the first keeps it, the second is
//! `foo (src/main.rs)`, and if that is taken too, `foo (src/main.rs) #2`. cargo runs them in a fixed order, so the names
//! are stable, also when it stops early. Doc tests are `crate::file - item`; the examples of one item are told apart by
//! their order (`#2`, `#3`, …), since their line numbers change with every edit above them.
//!
//! What a test prints is captured by libtest and shown between `failures:` and the binary's `test result:` line, where
//! it is skipped. With `--nocapture` it lands between the results; what then cannot be told apart makes the report
//! incomplete or a contradiction. Every binary must report as many results as it announced, and its `test result:`
//! line must say the same.
//!
//! A test binary without libtest's harness (`harness = false`) reports nothing, so a run that has one is incomplete:
//! leave it out with `--lib`, `--test NAME` and the like.

mod line;

use std::collections::{BTreeMap, HashMap};

use self::line::{Line, Summary, Target};
use super::ids::{Reports, SameIds};
use super::text::plain_text;
use super::{Outcome, ReportProblem, TestSets, excerpt};

/// Reads the output of `cargo test`, or of test binaries that were run by themselves.
pub fn parse(bytes: &[u8], same: SameIds) -> Result<TestSets, ReportProblem> {
    let mut parser = Parser::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        parser.number += 1;
        parser.line(line)?;
    }
    parser.finish(same)
}

/// One `running N tests` and what follows it, up to its `test result:`.
#[derive(Debug, Default)]
struct Run {
    announced: u64,
    counted: Summary,
    /// The test whose name was printed, and whose outcome follows its output.
    pending: Option<String>,
    /// All results are in; what follows is captured output.
    tail: bool,
    /// The last `test result:` line that does not fit what was counted.
    misfit: Option<String>,
}

impl Run {
    fn seen(&self) -> u64 {
        self.counted.passed + self.counted.failed + self.counted.ignored + self.counted.measured
    }

    fn count(&mut self, outcome: Outcome, measured: bool) {
        *match outcome {
            Outcome::Passed if measured => &mut self.counted.measured,
            Outcome::Passed => &mut self.counted.passed,
            Outcome::Failed => &mut self.counted.failed,
            Outcome::Skipped => &mut self.counted.ignored,
        } += 1;
    }
}

/// A test binary, or the doc tests of a crate.
#[derive(Debug)]
struct Section {
    label: String,
    runs: u64,
    failed: u64,
    line: u64,
}

/// One example of an item in a doc comment.
struct DocTest {
    line: u64,
    outcome: Outcome,
}

#[derive(Default)]
struct Parser {
    number: u64,
    section: Option<Section>,
    run: Option<Run>,
    reports: Reports,
    labels: HashMap<String, u64>,
    doc_tests: BTreeMap<String, Vec<DocTest>>,
    runs: u64,
    failed_targets: bool,
    failed_targets_listed: bool,
    first_error: Option<u64>,
}

impl Parser {
    fn line(&mut self, raw: &[u8]) -> Result<(), ReportProblem> {
        let text = plain_text(raw);
        let line = line::recognise(&text);
        match self.run.take() {
            Some(run) => self.inside(run, &text, &line),
            None => self.between(line),
        }
    }

    /// A line after `running N tests` and before its `test result:`.
    fn inside(&mut self, mut run: Run, text: &str, line: &Line<'_>) -> Result<(), ReportProblem> {
        match line {
            Line::Summary(summary) => {
                let fits = run.pending.is_none()
                    && run.seen() == run.announced
                    && *summary == Summary { ok: run.counted.failed == 0, ..run.counted };
                if fits {
                    return Ok(());
                }
                run.misfit = Some(text.to_owned());
            }
            // What a failed test printed may look like anything, also like cargo. Nothing but the result ends it.
            _ if run.tail && run.counted.failed > 0 => {}
            Line::Binary(_)
            | Line::DocTests(_)
            | Line::Running(_)
            | Line::TargetFailed
            | Line::FailedTargets => {
                return Err(self.cut_off(&run));
            }
            _ if run.tail => {}
            Line::Section => run.tail = run.pending.is_none() && run.seen() == run.announced,
            Line::Test { name, rest } if run.pending.is_none() => match line::outcome(rest) {
                Some((outcome, measured)) => {
                    self.result(name, outcome)?;
                    run.count(outcome, measured);
                }
                None => run.pending = Some((*name).to_owned()),
            },
            // libtest prints no other result while it waits for this one: any other line is output of the test.
            _ => {
                if let Some((outcome, measured)) = line::outcome(text)
                    && let Some(name) = run.pending.take()
                {
                    self.result(&name, outcome)?;
                    run.count(outcome, measured);
                }
            }
        }
        self.run = Some(run);
        Ok(())
    }

    /// A line outside of any run.
    fn between(&mut self, line: Line<'_>) -> Result<(), ReportProblem> {
        match line {
            Line::Binary(target) => {
                let label = self.label(&target);
                self.open(label)?;
            }
            // A doc test's name holds its file, so that it cannot be taken for a test of the library of that name.
            Line::DocTests(name) => self.open(name.to_owned())?,
            Line::Running(announced) => {
                self.runs += 1;
                if let Some(section) = &mut self.section {
                    section.runs += 1;
                }
                self.run = Some(Run { announced, ..Run::default() });
            }
            Line::Summary(_) => {
                return Err(ReportProblem::contradiction(format!(
                    "line {} is a result of tests that were not announced",
                    self.number
                )));
            }
            Line::TargetFailed => {
                self.close()?;
                if self.section.take().is_some_and(|section| section.failed == 0) {
                    return Err(ReportProblem::contradiction(format!(
                        "cargo says at line {} that a test binary failed, which reported no failure",
                        self.number
                    )));
                }
                self.failed_targets = true;
            }
            Line::FailedTargets => self.failed_targets_listed = true,
            Line::BuildFailed => {
                return Err(ReportProblem::incomplete(self.number, ReportProblem::NOT_BUILT));
            }
            Line::Error => self.first_error = self.first_error.or(Some(self.number)),
            Line::Test { .. } | Line::Section | Line::Other => {}
        }
        Ok(())
    }

    fn open(&mut self, label: String) -> Result<(), ReportProblem> {
        self.close()?;
        self.section = Some(Section { label, runs: 0, failed: 0, line: self.number });
        Ok(())
    }

    /// A binary that was started must have reported something.
    fn close(&self) -> Result<(), ReportProblem> {
        match &self.section {
            Some(section) if section.runs == 0 => Err(ReportProblem::incomplete(
                section.line,
                format!("`{}` was started and announced no tests", excerpt(&section.label)),
            )),
            _ => Ok(()),
        }
    }

    /// The name of a binary in ids: see the module's comment.
    fn label(&mut self, target: &Target<'_>) -> String {
        let taken = self.labels.entry(target.name.to_owned()).or_insert(0);
        *taken += 1;
        if *taken == 1 {
            return target.name.to_owned();
        }
        let longer = match target.source {
            Some(source) => format!("{} ({})", target.name, source.replace('\\', "/")),
            None => target.name.to_owned(),
        };
        let number = match target.source {
            Some(_) => {
                let taken = self.labels.entry(longer.clone()).or_insert(0);
                *taken += 1;
                *taken
            }
            None => *taken,
        };
        if number == 1 { longer } else { format!("{longer} #{number}") }
    }

    fn result(&mut self, name: &str, outcome: Outcome) -> Result<(), ReportProblem> {
        let (name, doc_line) = line::bare_name(name);
        if name.is_empty() {
            return Err(ReportProblem::malformed(self.number, "a test without a name"));
        }
        if name.contains(char::REPLACEMENT_CHARACTER) {
            return Err(ReportProblem::malformed(self.number, "the name of a test is not UTF-8"));
        }
        let id = match &mut self.section {
            Some(section) => {
                section.failed += u64::from(outcome == Outcome::Failed);
                format!("{}::{name}", section.label)
            }
            None => name.to_owned(),
        };
        match doc_line {
            Some(line) => self.doc_tests.entry(id).or_default().push(DocTest { line, outcome }),
            None => {
                self.reports.record(id, outcome);
            }
        }
        Ok(())
    }

    /// Why a run without a fitting result line is a problem.
    fn cut_off(&self, run: &Run) -> ReportProblem {
        let (seen, announced) = (run.seen(), run.announced);
        let binary = self.section.as_ref().map_or("the test binary", |section| &section.label);
        let binary = excerpt(binary);
        if let Some(name) = &run.pending {
            let name = excerpt(name);
            return ReportProblem::incomplete(
                self.number,
                format!(
                    "the outcome of `{name}` of `{binary}` cannot be told from its output (is --nocapture used?)"
                ),
            );
        }
        match &run.misfit {
            Some(_) if seen < announced => ReportProblem::incomplete(
                self.number,
                format!(
                    "`{binary}` announced {announced} tests and named {seen} (is --quiet or --nocapture used?)"
                ),
            ),
            Some(misfit) => ReportProblem::contradiction(format!(
                "`{binary}` announced {announced} tests and named {seen}, but says `{}`",
                excerpt(misfit)
            )),
            None => ReportProblem::incomplete(
                self.number,
                format!("`{binary}` ended without a `test result:` line, after {seen} of {announced} tests"),
            ),
        }
    }

    fn finish(mut self, same: SameIds) -> Result<TestSets, ReportProblem> {
        if let Some(run) = self.run.take() {
            return Err(self.cut_off(&run));
        }
        self.close()?;
        if let (0, Some(line)) = (self.runs, self.first_error) {
            return Err(ReportProblem::incomplete(line, "cargo stopped before any test"));
        }
        for (id, mut tests) in self.doc_tests {
            tests.sort_by_key(|test| test.line);
            let mut ordinal = 0;
            let mut last = None;
            for DocTest { line, outcome } in tests {
                ordinal += u64::from(last != Some(line));
                last = Some(line);
                let id = if ordinal == 1 { id.clone() } else { format!("{id} #{ordinal}") };
                self.reports.record(id, outcome);
            }
        }
        if self.failed_targets && self.reports.merged.failed.is_empty() {
            return Err(ReportProblem::contradiction(
                "cargo says that a test binary failed, but no test did",
            ));
        }
        self.reports.merged.partial = self.failed_targets && !self.failed_targets_listed;
        Ok(self.reports.into_sets(same))
    }
}

#[cfg(test)]
mod tests;
