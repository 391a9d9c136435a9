//! The format `pytest`: the text of `pytest -rA` on stdout. JUnit XML says more, and is written beside what the tests print; use that
//! where it can be had.
//!
//! Only the end counts: the section `short test summary info`, which with `-rA` names every test, and the last line, which
//! counts them. Both must be there once, the last line at the end, and the counts must be those of the names. What tests print comes before, in any
//! case where pytest captures it; a second section or a second last line, as tests of pytest plugins print them, makes
//! the report a contradiction.
//!
//! A test's id is its node id, `path::name`, without the addresses that Python writes into the names of objects. Tests that differ in
//! nothing else are told apart by their order (`#2`, `#3`, …), or one of them could go and not be missed.
//!
//! | word | outcome |
//! | --- | --- |
//! | `PASSED`, `XPASS` | passed |
//! | `FAILED`, `SUBFAILED`, `ERROR` of a test | failed |
//! | `ERROR` of a file | none: its tests could not be loaded, and the report is incomplete |
//! | `SKIPPED`, `XFAIL` | skipped |
//!
//! Unless told `--no-fold-skipped` pytest names no skipped tests, only how many a file has: `path (skipped)`, and `#2`, `#3`, ….
//! A test that fails and is run again until it passes does not pass: with `rerun` in the counts the report is incomplete.

mod line;

use std::collections::{BTreeMap, HashMap};

use self::line::{Line, behind_message, folded, is_test, node_id, recognise, stable};
use super::ids::{Gathered, Ordinals};
use super::text::plain_text;
use super::{Outcome, ReportProblem, TestSets, excerpt};

/// Reads the output of `pytest -rA`.
pub fn parse(bytes: &[u8]) -> Result<TestSets, ReportProblem> {
    let mut parser = Parser::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        parser.number += 1;
        parser.line(&plain_text(line))?;
    }
    parser.finish()
}

/// Where in the output a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    #[default]
    Before,
    Summary,
    Behind,
}

/// The words of the summary that are counted, as the last line calls them.
const COUNTED: [&str; 6] = ["passed", "failed", "errors", "skipped", "xfailed", "xpassed"];

/// What a line of the summary says of a test.
struct Said {
    line: u64,
    /// The node id, with its addresses.
    id: String,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// What became of it. A test has one such line, if it came to run.
    Result(Outcome),
    /// `ERROR`: its setup or what comes after it failed; the latter beside a result.
    Error,
    /// A subtest of it failed.
    Subtest,
}

/// What the summary says of one node id.
#[derive(Default)]
struct Node {
    results: u64,
    errors: u64,
    subtest: bool,
    /// An error is already counted as a test.
    counted: bool,
}

#[derive(Default)]
struct Parser {
    number: u64,
    place: Place,
    header_seen: bool,
    /// What the summary names.
    held: BTreeMap<&'static str, u64>,
    /// What the summary says of tests, in its order.
    tests: Vec<Said>,
    gathered: Gathered,
    /// How many skipped tests a file has.
    skipped: Vec<(u64, String)>,
    /// The first file that could not be collected.
    uncollected: Option<(u64, String)>,
    stopped: bool,
    /// The last line: what it counts, and where it is.
    counts: Option<(u64, BTreeMap<&'static str, u64>)>,
}

impl Parser {
    fn line(&mut self, text: &str) -> Result<(), ReportProblem> {
        let number = self.number;
        let twice = |what: &str| {
            Err(ReportProblem::contradiction(format!("{what} comes a second time at line {number}")))
        };
        match recognise(text) {
            Line::Header if self.header_seen => return twice("the summary"),
            Line::Header if self.counts.is_some() => {
                return Err(ReportProblem::contradiction(format!(
                    "a summary at line {number}, behind the last line"
                )));
            }
            Line::Header => {
                self.header_seen = true;
                self.place = Place::Summary;
            }
            Line::Counts(_) if self.counts.is_some() => return twice("the last line"),
            Line::Counts(counts) => {
                self.counts = Some((number, self.known(&counts)?));
                self.place = Place::Behind;
            }
            Line::Interrupted(why) if self.header_seen || self.counts.is_some() => {
                let why = excerpt(why);
                return Err(ReportProblem::incomplete(number, format!("the run ended early: {why}")));
            }
            // pytest says so before the last line; behind it, it is output like any other.
            Line::Stopped if self.header_seen && self.counts.is_none() => {
                self.stopped = true;
                self.place = Place::Behind;
            }
            Line::Title if self.place == Place::Summary => self.place = Place::Behind,
            _ if self.counts.is_some() && !text.trim().is_empty() => {
                return Err(ReportProblem::incomplete(number, "there is output behind the last line"));
            }
            _ if self.place == Place::Summary => return self.summary(text),
            _ => {}
        }
        Ok(())
    }

    /// The counts of the last line that are counts of tests.
    fn known(&self, counts: &[(u64, &str)]) -> Result<BTreeMap<&'static str, u64>, ReportProblem> {
        let mut known = BTreeMap::new();
        for (count, word) in counts {
            let word = match *word {
                "error" => "errors",
                "rerun" if *count > 0 => {
                    return Err(ReportProblem::incomplete(
                        self.number,
                        "a test was run again until it passed, and is not named (leave out --reruns)",
                    ));
                }
                word => word,
            };
            let Some(word) = COUNTED.into_iter().find(|counted| *counted == word) else { continue };
            if known.insert(word, *count).is_some() {
                return Err(ReportProblem::contradiction(format!("the last line counts `{word}` twice")));
            }
        }
        Ok(known)
    }

    /// A line of the summary. One that begins with none of the words belongs to a message of several lines.
    fn summary(&mut self, text: &str) -> Result<(), ReportProblem> {
        let word = text.split(|c: char| !c.is_ascii_uppercase()).next().unwrap_or_default();
        let rest = &text[word.len()..];
        let (word, outcome) = match word {
            // The words of subtests have their message right behind.
            "SUBFAILED" | "SUBFAIL" => {
                self.hold("failed", 1);
                let id = self.id(node_id(behind_message(rest)))?;
                self.say(id, What::Subtest);
                return Ok(());
            }
            "SUBSKIPPED" => {
                self.hold("skipped", folded(behind_message(rest)).map_or(1, |(count, _)| count));
                return Ok(());
            }
            "SUBXFAIL" => {
                self.hold("xfailed", 1);
                return Ok(());
            }
            "PASSED" => ("passed", Outcome::Passed),
            "FAILED" => ("failed", Outcome::Failed),
            "ERROR" => ("errors", Outcome::Failed),
            "SKIPPED" => ("skipped", Outcome::Skipped),
            "XFAIL" => ("xfailed", Outcome::Skipped),
            "XPASS" => ("xpassed", Outcome::Passed),
            _ => return Ok(()),
        };
        let Some(rest) = rest.strip_prefix(' ') else { return Ok(()) };
        if word == "skipped"
            && let Some((count, path)) = folded(rest)
        {
            self.hold(word, count);
            let path = stable(&self.id(path)?);
            self.skipped.push((count, path));
            return Ok(());
        }
        self.hold(word, 1);
        let id = self.id(node_id(rest))?;
        if word == "errors" && !is_test(&id) {
            self.uncollected.get_or_insert((self.number, id));
            return Ok(());
        }
        self.say(id, if word == "errors" { What::Error } else { What::Result(outcome) });
        Ok(())
    }

    fn say(&mut self, id: String, what: What) {
        self.tests.push(Said { line: self.number, id, what });
    }

    fn hold(&mut self, word: &'static str, count: u64) {
        let held = self.held.entry(word).or_default();
        *held = held.saturating_add(count);
    }

    fn id(&self, text: &str) -> Result<String, ReportProblem> {
        if text.is_empty() {
            return Err(ReportProblem::malformed(self.number, "a test without a name"));
        }
        if text.contains(char::REPLACEMENT_CHARACTER) {
            return Err(ReportProblem::malformed(self.number, "the name of a test is not UTF-8"));
        }
        Ok(text.to_owned())
    }

    fn finish(mut self) -> Result<TestSets, ReportProblem> {
        let Some((line, counts)) = self.counts.take() else {
            let why = if self.header_seen {
                "the last line, with the counts, is missing"
            } else {
                "neither a summary nor counts (is -rA given?)"
            };
            return Err(ReportProblem::incomplete(self.number, why));
        };
        for word in COUNTED {
            let says = counts.get(word).copied().unwrap_or(0);
            let held = self.held.get(word).copied().unwrap_or(0);
            if says > held {
                return Err(ReportProblem::incomplete(
                    line,
                    format!("{says} {word}, of which the summary names {held} (is -rA given?)"),
                ));
            }
            if says < held {
                return Err(ReportProblem::contradiction(format!(
                    "{says} {word}, and the summary names {held}"
                )));
            }
        }
        if let Some((line, id)) = self.uncollected {
            let id = excerpt(&id);
            return Err(ReportProblem::incomplete(
                line,
                format!("`{id}` stands for tests that could not be loaded"),
            ));
        }
        let mut names = Ordinals::default();
        for (count, path) in self.skipped {
            for _ in 0..count {
                self.gathered.record(names.distinct(&format!("{path} (skipped)")), Outcome::Skipped)?;
            }
        }
        record(&self.tests, &mut self.gathered)?;
        let mut sets = self.gathered.sets;
        if self.stopped && sets.failed.is_empty() {
            return Err(ReportProblem::contradiction("it stopped after failures, and no test failed"));
        }
        sets.partial = self.stopped;
        Ok(sets)
    }
}

/// Adds the tests of a summary.
///
/// Node ids are distinct but for plugins that run a test twice or make tests of their own. With several results of one node id nobody knows
/// to which an error belongs, and it counts as a test of its own: nothing that was there can go and not be missed.
fn record(tests: &[Said], gathered: &mut Gathered) -> Result<(), ReportProblem> {
    let mut nodes = HashMap::<&str, Node>::new();
    for said in tests {
        let node = nodes.entry(&said.id).or_default();
        match said.what {
            What::Result(_) => node.results += 1,
            What::Error => node.errors += 1,
            What::Subtest => node.subtest = true,
        }
    }
    let mut names = Ordinals::default();
    for said in tests {
        let node = nodes.entry(&said.id).or_default();
        let outcome = match said.what {
            What::Result(_) if node.subtest || (node.results == 1 && node.errors > 0) => Outcome::Failed,
            What::Result(outcome) => outcome,
            What::Error if node.results > 1 || (node.results == 0 && !node.counted) => Outcome::Failed,
            What::Subtest if node.results == 0 && node.errors == 0 => {
                let id = excerpt(&said.id);
                return Err(ReportProblem::incomplete(
                    said.line,
                    format!("a subtest of `{id}`, which is not named"),
                ));
            }
            What::Error | What::Subtest => continue,
        };
        node.counted = true;
        gathered.record(names.distinct(&stable(&said.id)), outcome)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
