//! The format `tap`: the Test Anything Protocol, versions 12 to 14, on stdout.
//!
//! A test's id is its description, behind those of the subtests it is nested in: `parent > child`. TAP says nothing of files.
//! Points of one name at one place are told apart by their order (`#2`, `#3`, …), and one without a description is `#N` by its place.
//! A point that sums up a subtest is a test of its own, as it may fail by itself.
//!
//! Complete is a report with exactly one plan at every level, at its start or its end, as many points as it says, and a
//! newline at the end of its last line: a description that is cut off, or a directive, looks like another one.
//!
//! Numbers may be left out or come in any order, and are distinct. node gives those tests that are files a number of another count:
//! theirs are not looked at (`line::is_script`). A file that fails, in node's sense, is a process that ended badly, whatever its
//! tests said: it stands for tests that may not have run, and makes the report incomplete.
//!
//! What is no TAP is ignored, as TAP wants it. A program that prints lines like these spoils the count, and one that prints the beginning of a
//! diagnostic block hides nothing: a block is indented, and a line of the report before its end makes the report incomplete.

mod line;

use std::collections::HashSet;

use self::line::{Directive, Line, Point, indentation, is_script, recognise, script_name};
use super::ids::{Gathered, Ordinals};
use super::text::plain_text;
use super::{Outcome, ReportProblem, TestSets, excerpt};

/// Deeper nesting is no report.
const MAX_DEPTH: usize = 64;

/// What stands between the names of nested tests.
const NESTED: &str = " > ";

/// Reads a TAP stream.
pub fn parse(bytes: &[u8]) -> Result<TestSets, ReportProblem> {
    let mut parser = Parser { levels: vec![Level::default()], ..Parser::default() };
    for line in bytes.split(|byte| *byte == b'\n') {
        parser.number += 1;
        parser.line(line)?;
    }
    parser.finish(bytes.last().is_none_or(|last| *last == b'\n'))
}

/// A test point and what it sums up.
#[derive(Debug)]
struct Test {
    name: String,
    ok: bool,
    directive: Option<Directive>,
    children: Vec<Test>,
    /// The name is the path of a script, and there is nothing below it.
    is_script: bool,
    line: u64,
}

/// The points of one indentation, from the first to the plan's last.
#[derive(Debug, Default)]
struct Level {
    tests: Vec<Test>,
    plan: Option<u64>,
    /// The plan came before the points.
    planned_first: bool,
    numbers: HashSet<u64>,
    /// The points of a subtest that is over, and whose own point is to come.
    children: Option<Vec<Test>>,
}

#[derive(Default)]
struct Parser {
    number: u64,
    /// The open levels, the outermost first. Never empty.
    levels: Vec<Level>,
    version: bool,
    /// A line that means something came.
    begun: bool,
    /// The indentation of the point that the last line was, where a diagnostic block may begin.
    point: Option<usize>,
    /// The indentation of an open diagnostic block.
    block: Option<usize>,
}

impl Parser {
    fn line(&mut self, raw: &[u8]) -> Result<(), ReportProblem> {
        let text = plain_text(raw);
        let (indent, rest) = indentation(&text);
        if let Some(block) = self.block {
            if indent == block && rest.trim_end() == "..." {
                self.block = None;
            } else if indent == block && rest.starts_with("exitCode:") {
                return self.script_failed();
            } else if indent < block && indent.is_multiple_of(4) && recognise(rest).is_of_a_report() {
                return Err(ReportProblem::incomplete(
                    self.number,
                    "a line of the report is inside a diagnostic block, which hides what is there",
                ));
            }
            return Ok(());
        }
        if let Some(point) = self.point.take()
            && indent == point + 2
            && rest.trim_end() == "---"
        {
            self.block = Some(indent);
            return Ok(());
        }
        let depth = self.levels.len() - 1;
        let level = indent / 4;
        if !indent.is_multiple_of(4) || level > depth + 1 {
            return Ok(());
        }
        let line = recognise(rest);
        match line {
            Line::Other => return Ok(()),
            // A comment, but for one that opens a level.
            Line::Subtest if level <= depth => return Ok(()),
            _ => {}
        }
        if level > depth {
            if level > MAX_DEPTH {
                return Err(ReportProblem::malformed(
                    self.number,
                    format!("subtests nest deeper than {MAX_DEPTH}"),
                ));
            }
            if self.levels[depth].children.is_some() {
                return Err(self.orphans());
            }
            self.levels.push(Level::default());
        }
        while self.levels.len() - 1 > level {
            let closed = self.levels.pop().expect("there are two or more");
            let tests = self.close(closed)?;
            // The length is that of before, less one.
            self.levels.last_mut().expect("the outermost stays").children = Some(tests);
        }
        let begun = std::mem::replace(&mut self.begun, true);
        match line {
            Line::Version(version) => self.version(version, level, begun),
            Line::Plan(count) => self.plan(count),
            Line::Point(point) => self.test(point, text.contains(char::REPLACEMENT_CHARACTER), indent),
            Line::BailOut(why) => {
                let why = excerpt(&why);
                Err(ReportProblem::incomplete(self.number, format!("the runner bailed out: {why}")))
            }
            Line::Subtest | Line::Other => Ok(()),
        }
    }

    fn version(&mut self, version: u64, level: usize, begun: bool) -> Result<(), ReportProblem> {
        if level > 0 {
            return Ok(());
        }
        if begun || self.version {
            return Err(ReportProblem::contradiction(format!(
                "a second report begins at line {}",
                self.number
            )));
        }
        self.version = true;
        if (12..=14).contains(&version) {
            Ok(())
        } else {
            Err(ReportProblem::malformed(self.number, format!("TAP version {version} is not known")))
        }
    }

    fn plan(&mut self, count: u64) -> Result<(), ReportProblem> {
        let number = self.number;
        let level = self.levels.last_mut().expect("never empty");
        if level.children.is_some() {
            return Err(self.orphans());
        }
        if level.plan.is_some() {
            return Err(ReportProblem::contradiction(format!("a second plan at line {number}")));
        }
        level.plan = Some(count);
        level.planned_first = level.tests.is_empty();
        Ok(())
    }

    fn test(&mut self, point: Point, not_utf8: bool, indent: usize) -> Result<(), ReportProblem> {
        let line = self.number;
        if not_utf8 {
            return Err(ReportProblem::malformed(line, "the description of a test is not UTF-8"));
        }
        if point.opens_brace {
            return Err(ReportProblem::malformed(line, "subtests in braces are not read"));
        }
        let level = self.levels.last_mut().expect("never empty");
        if level.plan.is_some() && !level.planned_first {
            return Err(ReportProblem::contradiction(format!(
                "a test at line {line}, after the plan at the end"
            )));
        }
        let children = level.children.take();
        let is_path = is_script(&point.description);
        // Early versions of node wrapped the tests of a file in one that is called like it.
        let is_script = is_path && children.is_none();
        let place = level.tests.len() as u64 + 1;
        if !is_script {
            let number = point.number.unwrap_or(place);
            if number == 0 || !level.numbers.insert(number) {
                return Err(ReportProblem::contradiction(format!(
                    "the number {number} of the test at line {line} is taken"
                )));
            }
        }
        let name = match point.description {
            name if name.is_empty() => format!("#{place}"),
            path if is_path => script_name(&path).to_owned(),
            name => name,
        };
        level.tests.push(Test {
            name,
            ok: point.ok,
            directive: point.directive,
            children: children.unwrap_or_default(),
            is_script,
            line,
        });
        self.point = Some(indent);
        Ok(())
    }

    /// The diagnostics of the last point tell the exit code of a process.
    fn script_failed(&self) -> Result<(), ReportProblem> {
        match self.levels.last().and_then(|level| level.tests.last()) {
            Some(test) if test.is_script && !test.ok => Err(ReportProblem::incomplete(
                test.line,
                format!("`{}` could not be loaded, or failed outside of its tests", excerpt(&test.name)),
            )),
            _ => Ok(()),
        }
    }

    fn orphans(&self) -> ReportProblem {
        ReportProblem::incomplete(self.number, "a subtest without the test that sums it up")
    }

    /// The tests of a level that is over, if they are all there.
    fn close(&self, level: Level) -> Result<Vec<Test>, ReportProblem> {
        if level.children.is_some() {
            return Err(self.orphans());
        }
        let came = level.tests.len() as u64;
        match level.plan {
            None => {
                Err(ReportProblem::incomplete(self.number, format!("no plan for the {came} tests that came")))
            }
            Some(plan) if plan > came => Err(ReportProblem::incomplete(
                self.number,
                format!("the plan is of {plan} tests, and {came} came"),
            )),
            Some(plan) if plan < came => {
                Err(ReportProblem::contradiction(format!("the plan is of {plan} tests, and {came} came")))
            }
            Some(plan) => match level.numbers.iter().max() {
                Some(number) if *number > plan => Err(ReportProblem::contradiction(format!(
                    "a test has the number {number}, and the plan is of {plan}"
                ))),
                _ => Ok(level.tests),
            },
        }
    }

    fn finish(mut self, ends_with_newline: bool) -> Result<TestSets, ReportProblem> {
        if !self.begun {
            return Ok(TestSets::default());
        }
        if self.block.is_some() {
            return Err(ReportProblem::incomplete(self.number, "a diagnostic block does not end"));
        }
        if self.levels.len() > 1 {
            return Err(self.orphans());
        }
        if !ends_with_newline {
            return Err(ReportProblem::incomplete(self.number, "the last line does not end"));
        }
        let root = self.levels.pop().expect("never empty");
        let tests = self.close(root)?;
        let mut gathered = Gathered::default();
        record(&tests, "", false, &mut gathered)?;
        Ok(gathered.sets)
    }
}

/// Adds tests and what is below them. Says whether one failed.
fn record(tests: &[Test], prefix: &str, todo: bool, gathered: &mut Gathered) -> Result<bool, ReportProblem> {
    let mut names = Ordinals::default();
    let mut failed = false;
    for test in tests {
        let id = format!("{prefix}{}", names.distinct(&test.name));
        // Whatever is to be done may fail, and what is below it as well.
        let todo = todo || test.directive == Some(Directive::Todo);
        let outcome = match (test.ok, test.directive) {
            _ if todo => Outcome::Skipped,
            (true, Some(Directive::Skip)) => Outcome::Skipped,
            (true, _) => Outcome::Passed,
            (false, _) => Outcome::Failed,
        };
        let below = record(&test.children, &format!("{id}{NESTED}"), todo, gathered)?;
        if below && test.ok {
            return Err(ReportProblem::contradiction(format!(
                "`{}` at line {} passed, and a test below it failed",
                excerpt(&id),
                test.line
            )));
        }
        failed |= outcome == Outcome::Failed;
        gathered.record(id, outcome)?;
    }
    Ok(failed)
}

#[cfg(test)]
mod tests;
