//! The format `junit`: JUnit XML as pytest, nextest, node, jest-junit, vitest and unittest-xml-reporting write it
//! (`fixtures/reports` has a report of each), and, by their documentation, surefire, phpunit, gtest and ctest.
//!
//! There is no schema that they all keep to, so this reads what they share: nested suites, test cases, and what a test
//! case holds. Catch2 is not among them: its `tests` counts assertions, which here is a contradiction. The id of a test is `classname::name`. Where there is no `classname`, its `file` or the name of its suite takes that
//! place; where it is empty, as pytest has it when a module cannot be imported, the id is the bare name.
//!
//! The counts that a suite declares are compared with what it holds, as far as the writers agree on their meaning:
//!
//! - `failures` and `errors` together are at least the number of its own tests that failed, and at most the number of
//!   failures in it. (Several failures of one test, also in several test cases, count once or each.)
//! - `tests` is at least the number of its own test cases that ran without an error (jest-junit makes a test case of a
//!   suite that cannot be loaded, and does not count it). It is at most the number of test cases, errors (pytest counts a
//!   failed tear-down as another test), nested suites (node counts them) and tests that were left out as skipped. In a
//!   report of pytest it may be more: since version 9 it counts the subtests that passed, and does not write them.
//! - `skipped` is not more than what is marked as skipped or left out.
//!
//! A test case that stands for tests that could not be loaded (a module with a syntax error, a class whose set-up failed) makes the
//! report incomplete, with its name in the message. It is no test: taken for one, its tests would be missing from the collected
//! set where a candidate broke the module, and it would be missing itself where a candidate mended it.
//!
//! Of XML only what a report needs is taken: a document type, an entity, a processing instruction or another encoding than
//! UTF-8 makes a report malformed. quick-junit's reader was not used: it wants nextest's own shape (a named `testsuites` with one
//! level of suites) and skips what it does not know, where a hostile report must be refused.

use quick_xml::errors::SyntaxError;
use quick_xml::escape::{resolve_xml_entity, unescape_with};
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Error as XmlError, Reader};

use super::ids::{MAX_ID_BYTES, Reports, SameIds};
use super::{Outcome, ReportProblem, TestSets, excerpt};
use names::{stands_for_others, subtest_at};

mod names;

/// Deeper nesting is no report. Real ones nest suites about as deep as people nest folders.
const MAX_DEPTH: usize = 64;

/// More attributes on one element are no report; comparing their names takes quadratic time.
const MAX_ATTRIBUTES: usize = 64;

/// Reads a JUnit XML file.
pub fn parse(bytes: &[u8], same: SameIds) -> Result<TestSets, ReportProblem> {
    let (reports, stand_in) = read(bytes)?;
    match stand_in {
        None => Ok(reports.into_sets(same)),
        Some((line, id)) => {
            let id = excerpt(&id);
            Err(ReportProblem::incomplete(line, format!("`{id}` {}", ReportProblem::NOT_LOADED)))
        }
    }
}

/// The tests of a report, and line and id of the first test case that stands for others.
fn read(bytes: &[u8]) -> Result<(Reports, Option<(u64, String)>), ReportProblem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        ReportProblem::malformed(line_at(bytes, error.valid_up_to()), "the file is not UTF-8")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut parser = Parser::default();
    loop {
        let start = reader.buffer_position();
        let event = reader.read_event().map_err(|error| {
            let line = line_at(text.as_bytes(), position(reader.error_position()));
            if is_cut_off(&error) {
                ReportProblem::incomplete(line, error.to_string())
            } else {
                ReportProblem::malformed(line, error.to_string())
            }
        })?;
        let end = matches!(event, Event::Eof);
        parser.position = position(start);
        parser.event(event).map_err(|fault| {
            let line = || line_at(text.as_bytes(), position(start));
            match fault {
                Fault::Malformed(why) => ReportProblem::malformed(line(), why),
                Fault::Contradiction(why) => ReportProblem::contradiction(why),
                Fault::Incomplete(why) => ReportProblem::incomplete(line(), why),
            }
        })?;
        if end {
            let stand_in = parser.stand_in.map(|(at, id)| (line_at(text.as_bytes(), at), id));
            return Ok((parser.reports, stand_in));
        }
    }
}

fn position(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// The number of the line that holds the byte at `offset`, counted from 1.
fn line_at(bytes: &[u8], offset: usize) -> u64 {
    let before = &bytes[..offset.min(bytes.len())];
    before.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>() + 1
}

/// Whether the end of the file came in the middle of something.
fn is_cut_off(error: &XmlError) -> bool {
    matches!(error, XmlError::Syntax(syntax) if !matches!(syntax, SyntaxError::InvalidBangMarkup))
}

/// A [`ReportProblem`] whose line is not known yet.
enum Fault {
    Malformed(String),
    Contradiction(String),
    Incomplete(String),
}

fn malformed<T>(why: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Malformed(why.into()))
}

/// The attributes that count, of any element.
#[derive(Default)]
struct Attributes {
    name: Option<String>,
    classname: Option<String>,
    file: Option<String>,
    kind: Option<String>,
    message: Option<String>,
    status: Option<String>,
    result: Option<String>,
    declared: Declared,
}

/// What a suite says it holds.
#[derive(Default)]
struct Declared {
    tests: Option<u64>,
    failures: Option<u64>,
    errors: Option<u64>,
    skipped: Option<u64>,
    disabled: Option<u64>,
}

/// What a suite holds.
#[derive(Default, Clone, Copy)]
struct Tally {
    /// Test cases.
    cases: u64,
    /// Test cases that ran without an error, less those whose id was there before.
    ran: u64,
    /// Test cases with a failure or an error, less those whose id had failed before.
    failing: u64,
    /// Failures and errors of every kind.
    failures: u64,
    /// Errors.
    errors: u64,
    /// Test cases that are marked as skipped.
    skipped: u64,
    /// Suites.
    suites: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.cases += other.cases;
        self.ran += other.ran;
        self.failing += other.failing;
        self.failures += other.failures;
        self.errors += other.errors;
        self.skipped += other.skipped;
        self.suites += other.suites;
    }
}

/// An open `testsuites` or `testsuite`.
struct Suite {
    is_root: bool,
    name: String,
    declared: Declared,
    own: Tally,
    whole: Tally,
}

/// An open `testcase`.
struct Case {
    id: String,
    /// Where it begins.
    at: usize,
    /// It looks like one that stands for tests that could not be loaded. It is one if it failed.
    stand_in: bool,
    /// `failure` and `error`, which the counts of a suite know.
    final_failures: u64,
    errors: u64,
    /// `flakyFailure`, `rerunFailure` and their like, which they do not.
    reruns: u64,
    skipped: bool,
    todo: bool,
    status: Option<Outcome>,
}

enum Frame {
    Suite(Suite),
    Case(Case),
    /// Any other element.
    Other,
}

#[derive(Default)]
struct Parser {
    reports: Reports,
    /// The test case before, if it failed: a failure in the test and an error behind it are two test cases of one test for pytest.
    failed_before: Option<String>,
    open: Vec<Frame>,
    started: bool,
    root_seen: bool,
    /// pytest wrote this.
    pytest: bool,
    /// The length of all ids so far, in bytes: a suite lends its name to each test case in it.
    id_bytes: usize,
    /// Where the event begins that is being read.
    position: usize,
    /// The first test case that stands for others: where it begins, and its id.
    stand_in: Option<(usize, String)>,
}

impl Parser {
    fn event(&mut self, event: Event<'_>) -> Result<(), Fault> {
        let first = !std::mem::replace(&mut self.started, true);
        match event {
            Event::Start(element) => self.start(&element),
            // `expand_empty_elements` turns these into a start and an end.
            Event::Empty(_) => malformed("an unexpected empty element"),
            Event::End(_) => self.end(),
            Event::Text(text) => {
                if self.open.is_empty() && !text.trim_ascii().is_empty() {
                    return malformed("text outside of the root element");
                }
                Ok(())
            }
            Event::CData(_) | Event::GeneralRef(_) if self.open.is_empty() => {
                malformed("text outside of the root element")
            }
            Event::GeneralRef(reference) => {
                let known = match reference.decode() {
                    Ok(name) if !name.starts_with('#') => resolve_xml_entity(&name).is_some(),
                    _ => matches!(reference.resolve_char_ref(), Ok(Some(_))),
                };
                if known { Ok(()) } else { malformed("an entity that XML does not define") }
            }
            Event::Decl(declaration) => {
                if !first {
                    return malformed("an XML declaration that is not at the start");
                }
                match declaration.encoding() {
                    None => Ok(()),
                    Some(Ok(name))
                        if [&b"utf-8"[..], b"utf8", b"us-ascii", b"ascii"]
                            .iter()
                            .any(|ours| name.eq_ignore_ascii_case(ours)) =>
                    {
                        Ok(())
                    }
                    Some(_) => malformed("the declared encoding is not UTF-8"),
                }
            }
            Event::DocType(_) => malformed("a document type is refused"),
            Event::PI(_) => malformed("a processing instruction is refused"),
            Event::Eof if !self.open.is_empty() => {
                Err(Fault::Incomplete("the file ends inside of an element".into()))
            }
            Event::Eof if !self.root_seen => Err(Fault::Incomplete("the file has no root element".into())),
            Event::CData(_) | Event::Comment(_) | Event::Eof => Ok(()),
        }
    }

    fn start(&mut self, element: &BytesStart<'_>) -> Result<(), Fault> {
        if self.open.len() >= MAX_DEPTH {
            return malformed(format!("elements nest deeper than {MAX_DEPTH}"));
        }
        let name = String::from_utf8_lossy(element.name().into_inner()).into_owned();
        let attributes = attributes(element)?;
        let frame = match self.open.last_mut() {
            None if self.root_seen => return malformed("a second root element"),
            None if name == "testsuites" || name == "testsuite" => {
                self.root_seen = true;
                self.pytest = attributes.name.as_deref() == Some("pytest tests");
                Frame::Suite(Suite::new(name == "testsuites", attributes))
            }
            None => return malformed(format!("the root element is `{}`, not `testsuites`", excerpt(&name))),
            Some(Frame::Suite(suite)) => match name.as_str() {
                "testsuite" => Frame::Suite(Suite::new(false, attributes)),
                "testcase" => {
                    let case = Case::new(suite, attributes, self.position)?;
                    self.id_bytes = self.id_bytes.saturating_add(case.id.len());
                    if self.id_bytes > MAX_ID_BYTES {
                        return Err(Fault::Contradiction(format!(
                            "the names of its tests take more than {MAX_ID_BYTES} bytes"
                        )));
                    }
                    Frame::Case(case)
                }
                "failure" | "error" => {
                    // A suite that could not be set up. It must not vanish, and it is no test case that could be counted.
                    let tally = Tally { failures: 1, errors: u64::from(name == "error"), ..Tally::default() };
                    suite.own.add(tally);
                    suite.whole.add(tally);
                    let id = if suite.name.is_empty() { "(suite)" } else { &suite.name };
                    self.reports.record(id.to_owned(), Outcome::Failed);
                    self.stand_in.get_or_insert((self.position, id.to_owned()));
                    Frame::Other
                }
                "testsuites" => return malformed("`testsuites` inside of a suite"),
                _ => Frame::Other,
            },
            Some(Frame::Case(_) | Frame::Other) if name.starts_with("testsuite") || name == "testcase" => {
                return malformed(format!("`{}` in a place where it does not count", excerpt(&name)));
            }
            Some(Frame::Case(case)) => {
                case.child(&name, &attributes);
                Frame::Other
            }
            Some(Frame::Other) => Frame::Other,
        };
        self.open.push(frame);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fault> {
        match self.open.pop() {
            // The reader has compared the names already.
            None => malformed("an end without a start"),
            Some(Frame::Other) => Ok(()),
            Some(Frame::Case(case)) => {
                let outcome = case.outcome();
                let mut tally = case.tally(outcome);
                let before = self.reports.merged.outcome(&case.id);
                if case.stand_in && outcome == Outcome::Failed && self.stand_in.is_none() {
                    self.stand_in = Some((case.at, case.id.clone()));
                }
                let goes_on = tally.errors > 0 && self.failed_before.as_deref() == Some(case.id.as_str());
                self.failed_before = (outcome == Outcome::Failed).then(|| case.id.clone());
                if goes_on {
                    self.reports.record_again(case.id, outcome);
                } else {
                    self.reports.record(case.id, outcome);
                }
                tally.ran *= u64::from(before.is_none());
                tally.failing *= u64::from(before != Some(Outcome::Failed));
                // A test case is only ever opened inside of a suite.
                if let Some(Frame::Suite(suite)) = self.open.last_mut() {
                    suite.own.add(tally);
                    suite.whole.add(tally);
                }
                Ok(())
            }
            Some(Frame::Suite(suite)) => {
                // The inner name is that of older versions, and can be configured; the outer cannot.
                suite.check(self.pytest || suite.name == "pytest")?;
                if let Some(Frame::Suite(outer)) = self.open.last_mut() {
                    outer.whole.add(suite.whole);
                    outer.whole.suites += 1;
                }
                Ok(())
            }
        }
    }
}

/// Reads the attributes of an element, all of them, so that bad ones are seen wherever they are.
fn attributes(element: &BytesStart<'_>) -> Result<Attributes, Fault> {
    let mut read = Attributes::default();
    if element.name().into_inner().contains(&b'<') {
        return malformed("a `<` in the name of an element");
    }
    for (index, attribute) in element.attributes().enumerate() {
        if index >= MAX_ATTRIBUTES {
            return malformed(format!("an element with more than {MAX_ATTRIBUTES} attributes"));
        }
        let attribute = attribute.map_err(|error| Fault::Malformed(error.to_string()))?;
        // The parser takes any bytes for a name; others see the start of an element, or of a value, there.
        if attribute.key.into_inner().iter().any(|byte| b"<>/\"'&".contains(byte)) {
            return malformed("an attribute whose name is none");
        }
        let value = String::from_utf8_lossy(&attribute.value);
        let value =
            unescape_with(&value, resolve_xml_entity).map_err(|error| Fault::Malformed(error.to_string()))?;
        let count = |value: &str| match value.parse() {
            Ok(count) if value.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Some(count)),
            _ => {
                let key = String::from_utf8_lossy(attribute.key.into_inner());
                malformed(format!("`{}` is not a number: `{}`", excerpt(&key), excerpt(value)))
            }
        };
        let is_suite = element.name().into_inner().starts_with(b"testsuite");
        match attribute.key.into_inner() {
            b"name" => read.name = Some(value.into_owned()),
            b"classname" => read.classname = Some(value.into_owned()),
            b"file" => read.file = Some(value.into_owned()),
            b"type" => read.kind = Some(value.into_owned()),
            b"message" => read.message = Some(value.into_owned()),
            b"status" => read.status = Some(value.into_owned()),
            b"result" => read.result = Some(value.into_owned()),
            b"tests" if is_suite => read.declared.tests = count(&value)?,
            b"failures" if is_suite => read.declared.failures = count(&value)?,
            b"errors" if is_suite => read.declared.errors = count(&value)?,
            b"skipped" if is_suite => read.declared.skipped = count(&value)?,
            b"disabled" if is_suite => read.declared.disabled = count(&value)?,
            _ => {}
        }
    }
    Ok(read)
}

impl Suite {
    fn new(is_root: bool, attributes: Attributes) -> Self {
        Self {
            is_root,
            name: attributes.name.unwrap_or_default(),
            declared: attributes.declared,
            own: Tally::default(),
            whole: Tally::default(),
        }
    }

    /// Compares what the suite declares with what it holds. `counts_more`: its `tests` are not only test cases.
    fn check(&self, counts_more: bool) -> Result<(), Fault> {
        let Self { declared, whole, .. } = self;
        // `testsuites` always counts all below it; of a suite with suites inside, some writers count its own part.
        let own = if self.is_root { whole } else { &self.own };
        let refuse = |what: &str, says: u64, held: u64| {
            let suite = excerpt(&self.name);
            Err(Fault::Contradiction(format!("suite `{suite}` declares {says} {what} and holds {held}")))
        };
        if declared.failures.is_some() || declared.errors.is_some() {
            let says = declared.failures.unwrap_or(0).saturating_add(declared.errors.unwrap_or(0));
            if says < own.failing {
                return refuse("failures", says, own.failing);
            }
            if says > whole.failures {
                return refuse("failures", says, whole.failures);
            }
        }
        let says_skipped = declared.skipped.unwrap_or(0);
        // Some writers count the tests that they skip and leave them out.
        let left_out =
            says_skipped.saturating_add(declared.disabled.unwrap_or(0)).saturating_sub(whole.skipped);
        if let Some(says) = declared.tests {
            let most = (whole.cases + whole.errors + whole.suites).saturating_add(left_out);
            if says < own.ran {
                return refuse("tests", says, own.ran);
            }
            if says > most && !counts_more {
                return refuse("tests", says, whole.cases);
            }
            let missing = says.saturating_sub(whole.cases);
            if says_skipped > whole.skipped.saturating_add(missing) {
                return refuse("skipped tests", says_skipped, whole.skipped);
            }
        }
        Ok(())
    }
}

impl Case {
    fn new(suite: &Suite, attributes: Attributes, at: usize) -> Result<Self, Fault> {
        let Attributes { name, classname, file, status, result, .. } = attributes;
        let name = name.filter(|name| !name.is_empty());
        let Some(mut name) = name else { return malformed("a test case without a name") };
        let stand_in = stands_for_others(&name, classname.as_deref().unwrap_or_default(), &suite.name);
        if let Some(subtest) = file.as_deref().and_then(|file| subtest_at(&name, file)) {
            name.truncate(subtest);
        }
        let group =
            classname.or_else(|| file.filter(|file| !file.is_empty())).unwrap_or_else(|| suite.name.clone());
        let id = if group.is_empty() { name } else { format!("{group}::{name}") };
        let status = status.into_iter().chain(result).filter_map(|word| said(&word)).max();
        Ok(Self {
            id,
            at,
            stand_in,
            final_failures: 0,
            errors: 0,
            reruns: 0,
            skipped: false,
            todo: false,
            status,
        })
    }

    /// Takes in an element inside of the test case.
    fn child(&mut self, name: &str, attributes: &Attributes) {
        let kind = attributes.kind.as_deref();
        match name {
            "failure" => self.final_failures += 1,
            "error" => {
                self.final_failures += 1;
                self.errors += 1;
                // pytest's word for it.
                self.stand_in |= attributes.message.as_deref() == Some("collection failure");
            }
            // A test that failed and then passed is not one that passes.
            "flakyFailure" | "flakyError" | "rerunFailure" | "rerunError" => self.reruns += 1,
            "skipped" | "ignored" => {
                self.skipped = true;
                self.todo |= kind == Some("todo");
            }
            _ => {}
        }
    }

    fn outcome(&self) -> Outcome {
        // node writes both for a test that is marked as to do: it may fail, and counts as not run.
        if self.todo {
            Outcome::Skipped
        } else if self.final_failures + self.reruns > 0 {
            Outcome::Failed
        } else if self.skipped {
            self.status.map_or(Outcome::Skipped, |status| status.max(Outcome::Skipped))
        } else {
            self.status.unwrap_or(Outcome::Passed)
        }
    }

    fn tally(&self, outcome: Outcome) -> Tally {
        Tally {
            cases: 1,
            ran: u64::from(outcome != Outcome::Skipped && self.errors == 0),
            failing: u64::from(self.final_failures > 0 && !self.todo),
            failures: (self.final_failures + self.reruns).max(u64::from(outcome == Outcome::Failed)),
            errors: self.errors,
            skipped: u64::from(self.skipped || outcome == Outcome::Skipped),
            suites: 0,
        }
    }
}

/// What a `status` or `result` says, where it says more than the elements: gtest and ctest mark tests that did not run so.
fn said(word: &str) -> Option<Outcome> {
    match word.to_ascii_lowercase().as_str() {
        "fail" | "failed" | "failure" | "error" | "errored" | "broken" => Some(Outcome::Failed),
        "notrun" | "disabled" | "skipped" | "skip" | "ignored" | "pending" | "suppressed" | "todo" => {
            Some(Outcome::Skipped)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
