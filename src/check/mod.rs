//! The check's capture, read: bytes in, facts out. Nothing here does I/O or reads a clock.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`sets`] | which tests passed, failed and were skipped |
//! | [`lines`], [`libtest`], [`junit`], [`pytest`], [`tap`], [`gojson`], [`jest`] | the report formats |
//! | [`metric`] | the number that a contract watches |
//! | [`repeat`] | several runs as one measurement |
//! | [`verdict_file`] | the verdict that a check writes itself |
//! | [`lasting_verdict`] | what it may say of lasting code besides |
//! | [`verdict`] | what one run of the check is worth: DESIGN sections 4.7 and 5, row 7 |
//!
//! A report that is missing, cut off, at odds with itself or hostile is a [`ReportProblem`], never a pass and never a
//! panic. Every parser is total and takes time linear in its input (but for the sorting of ids).

pub mod gojson;
mod ids;
pub mod jest;
pub(crate) mod json;
pub mod junit;
pub mod lasting_verdict;
pub mod libtest;
pub mod lines;
pub mod metric;
pub mod pytest;
pub mod repeat;
pub mod sets;
pub mod tap;
#[cfg(test)]
mod testing;
mod text;
pub mod verdict;
pub mod verdict_file;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use ids::SameIds;
pub use metric::{MetricProblem, MetricSource, Observation, extract};
pub use sets::{Outcome, TestSets};
pub use verdict::{CheckFacts, CheckProblem, Judgement, judge, lost, newly_skipped, regressed};
pub use verdict_file::VerdictFile;

use crate::error::Error;

/// The largest report that is read, in bytes.
pub const MAX_REPORT: usize = 16 * 1024 * 1024;

/// How the check tells which tests it ran: `check.format` of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// It does not: only the exit code and the metric count.
    #[default]
    None,
    /// `ok ID`, `fail ID`, `skip ID` and `done N` on stdout.
    Lines,
    /// What `cargo test` prints, stdout and stderr in one pipe.
    Libtest,
    /// A JUnit XML file.
    Junit,
    /// What `pytest -rA` prints on stdout.
    Pytest,
    /// The Test Anything Protocol on stdout.
    Tap,
    /// What `go test -json` prints on stdout.
    #[serde(rename = "go-json")]
    GoJson,
    /// The JSON file of jest or vitest.
    Jest,
}

impl Format {
    /// Every format.
    pub const ALL: &[Self] = &[
        Self::None,
        Self::Lines,
        Self::Libtest,
        Self::Junit,
        Self::Pytest,
        Self::Tap,
        Self::GoJson,
        Self::Jest,
    ];

    /// The name in `loop.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lines => "lines",
            Self::Libtest => "libtest",
            Self::Junit => "junit",
            Self::Pytest => "pytest",
            Self::Tap => "tap",
            Self::GoJson => "go-json",
            Self::Jest => "jest",
        }
    }

    /// Whether the report is a file that `check.report` names, not the output of the check.
    pub fn is_file(self) -> bool {
        matches!(self, Self::Junit | Self::Jest)
    }

    /// The format of that name.
    pub fn parse_name(name: &str) -> Result<Self, FormatError> {
        if let Some(format) = Self::ALL.iter().find(|format| format.name() == name) {
            return Ok(*format);
        }
        let known = Self::ALL.iter().map(|format| format.name());
        Err(FormatError::Unknown { name: name.to_owned(), nearest: nearest(name, known) })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a name is not a usable [`Format`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// No format has this name.
    #[error("unknown report format `{name}`")]
    Unknown {
        /// The name that was given.
        name: String,
        /// The known name that is most like it.
        nearest: Option<&'static str>,
    },
}

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Self {
        let message = error.to_string();
        match error {
            FormatError::Unknown { nearest: Some(nearest), .. } => {
                Self::usage(message).hint(format!("did you mean `{nearest}`?"))
            }
            FormatError::Unknown { nearest: None, .. } => Self::usage(message)
                .hint("use one of none, lines, libtest, junit, pytest, tap, go-json, jest"),
        }
    }
}

/// Why a report says nothing that counts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportProblem {
    /// The check wrote no report.
    #[error("the check wrote no report")]
    Missing,
    /// The report is larger than what is read.
    #[error("the report is larger than {limit} bytes")]
    TooLarge {
        /// The largest size in bytes.
        limit: usize,
    },
    /// The report ends before all results are in.
    #[error("the report is incomplete at line {line}: {why}")]
    Incomplete {
        /// What is missing.
        why: String,
        /// Where that was noticed, counted from 1.
        line: u64,
    },
    /// The report says two things that cannot both be so.
    #[error("the report contradicts itself: {why}")]
    Contradiction {
        /// Which two.
        why: String,
    },
    /// The report is not of its format.
    #[error("the report is malformed at line {line}: {why}")]
    Malformed {
        /// What is wrong.
        why: String,
        /// Where, counted from 1.
        line: u64,
    },
    /// The report is complete and holds no test.
    #[error("no test ran")]
    NoTests,
}

impl ReportProblem {
    const NOT_BUILT: &str = "the build failed";
    const NOT_LOADED: &str = "stands for tests that could not be loaded";

    /// Whether the report itself says that the code did not get as far as its tests: it does not compile, or a module of
    /// tests cannot be loaded. There is no verdict on the tests then, but nothing is wrong with the check.
    pub fn is_of_the_code(&self) -> bool {
        matches!(self, Self::Incomplete { why, .. } if why == Self::NOT_BUILT || why.ends_with(Self::NOT_LOADED))
    }

    fn incomplete(line: u64, why: impl Into<String>) -> Self {
        Self::Incomplete { why: why.into(), line }
    }

    fn malformed(line: u64, why: impl Into<String>) -> Self {
        Self::Malformed { why: why.into(), line }
    }

    fn contradiction(why: impl Into<String>) -> Self {
        Self::Contradiction { why: why.into() }
    }
}

/// Reads a report. `Ok(None)` where the format has none.
///
/// `same` says what tests of one id are; it makes a difference for [`Format::Lines`], [`Format::Libtest`] and [`Format::Junit`] only.
///
/// `bytes` is the file for [`Format::Junit`] and [`Format::Jest`], stdout and stderr in the order they came for
/// [`Format::Libtest`], and stdout for the others.
pub fn parse_as(format: Format, same: SameIds, bytes: &[u8]) -> Result<Option<TestSets>, ReportProblem> {
    if format == Format::None {
        return Ok(None);
    }
    if bytes.len() > MAX_REPORT {
        return Err(ReportProblem::TooLarge { limit: MAX_REPORT });
    }
    let sets = match format {
        Format::None => return Ok(None),
        Format::Lines => lines::parse(bytes, same)?,
        Format::Libtest => libtest::parse(bytes, same)?,
        Format::Junit => junit::parse(bytes, same)?,
        Format::Pytest => pytest::parse(bytes)?,
        Format::Tap => tap::parse(bytes)?,
        Format::GoJson => gojson::parse(bytes)?,
        Format::Jest => jest::parse(bytes)?,
    };
    if sets.is_empty() { Err(ReportProblem::NoTests) } else { Ok(Some(sets)) }
}

/// The same, where tests of one id are one test.
pub fn parse(format: Format, bytes: &[u8]) -> Result<Option<TestSets>, ReportProblem> {
    parse_as(format, SameIds::Merged, bytes)
}

/// The name among `known` that `name` is most likely a slip of.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A name from a file may be of any length, and the distance takes quadratic time.
    if name.len() > 64 {
        return None;
    }
    let name = name.to_lowercase();
    known
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(&name, known), known))
        .filter(|(distance, known)| *distance <= (known.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// The start of a text from a report, fit for one line of a message: it may be long and hold control characters.
pub(crate) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut short: String =
        text.chars().take(LONGEST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn format_names() {
        for format in Format::ALL {
            assert_eq!(Format::parse_name(format.name()), Ok(*format));
            assert_eq!(serde_json::to_value(format).unwrap(), format.name());
        }
        let nearest = |name: &str| match Format::parse_name(name) {
            Err(FormatError::Unknown { nearest, .. }) => nearest,
            other => panic!("{other:?}"),
        };
        assert_eq!(nearest("libtests"), Some("libtest"));
        assert_eq!(nearest("JUnit"), Some("junit"));
        assert_eq!(nearest("gojson"), Some("go-json"));
        assert_eq!(nearest("xyzzy"), None);
        assert_eq!(nearest(&"l".repeat(1 << 20)), None);
    }

    #[test]
    fn a_giant_report_is_not_read() {
        let giant = vec![b'\n'; MAX_REPORT + 1];
        for format in Format::ALL.iter().filter(|format| **format != Format::None) {
            assert_eq!(parse(*format, &giant), Err(ReportProblem::TooLarge { limit: MAX_REPORT }));
        }
        assert_eq!(parse(Format::None, &giant), Ok(None));
    }

    #[test]
    fn excerpts_are_short_and_plain() {
        assert_eq!(excerpt("a\u{1b}[31mb\n"), "a\u{fffd}[31mb\u{fffd}");
        assert_eq!(excerpt(&"é".repeat(100)).chars().count(), 81);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_and_never_pass_empty(bytes: Vec<u8>) {
            for format in Format::ALL {
                if let Ok(Some(sets)) = parse(*format, &bytes) {
                    prop_assert!(!sets.is_empty());
                }
            }
        }
    }
}
