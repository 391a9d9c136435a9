//! The number that a contract watches: `metric.from`, and how it is read from one run of the check.

use std::cell::RefCell;

use regex::bytes::{Regex, RegexBuilder};

use super::json::{self, Json};
use super::{TestSets, VerdictFile, excerpt, nearest};
use crate::error::Error;

/// The name of the group that holds the number, where a pattern has more than one.
const GROUP: &str = "metric";

/// Longer lines are not searched. It bounds the time that a hostile output can cost.
const MAX_LINE: usize = 64 * 1024;

/// The largest compiled pattern, in bytes.
const MAX_PATTERN: usize = 1024 * 1024;

/// Where the metric comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricSource {
    /// `failures`: the number of failing tests in the report.
    Failures,
    /// `exit`: the exit code of the check.
    Exit,
    /// `regex`: what a group of this pattern matches in stdout.
    ///
    /// stdout is searched line by line (`^` and `$` are the ends of a line, a final carriage return is dropped); the last
    /// match of the last line that has one counts. Lines of more than 64 KiB are not searched. The number is in the group
    /// called `metric`, or else in the only group.
    Regex(String),
    /// `json`: the number at this JSON pointer (RFC 6901) in stdout.
    ///
    /// stdout is one JSON document, or else its last line that is a JSON object counts. A string is not a number.
    Json(String),
    /// `verdict`: `metric_value` of the verdict that the check writes.
    Verdict,
}

/// Why a contract's metric source is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetricSourceError {
    /// No source has this name.
    #[error("unknown metric source `{name}`")]
    Unknown {
        /// The name that was given.
        name: String,
        /// The known name that is most like it.
        nearest: Option<&'static str>,
    },
    /// `regex` without a pattern, or `json` without a pointer.
    #[error("metric source `{from}` needs a {needs}")]
    Needs {
        /// The source.
        from: &'static str,
        /// `pattern` or `pointer`.
        needs: &'static str,
    },
    /// A pattern or a pointer that the source does not use.
    #[error("metric source `{from}` takes no {extra}")]
    Extra {
        /// The source.
        from: &'static str,
        /// `pattern` or `pointer`.
        extra: &'static str,
    },
    /// The pattern is not a regular expression, or too large a one.
    #[error("the metric's pattern is not usable: {why}")]
    Pattern {
        /// What the regex compiler says.
        why: String,
    },
    /// The pattern does not say where the number is.
    #[error("the metric's pattern has {groups} groups, and none is called `metric`")]
    Groups {
        /// The number of its groups.
        groups: usize,
    },
    /// The pointer is not a JSON pointer.
    #[error("the metric's pointer `{pointer}` is not a JSON pointer")]
    Pointer {
        /// The pointer that was given.
        pointer: String,
    },
}

impl From<MetricSourceError> for Error {
    fn from(error: MetricSourceError) -> Self {
        use MetricSourceError as E;
        let hint = match &error {
            E::Unknown { nearest: Some(nearest), .. } => format!("did you mean `{nearest}`?"),
            E::Unknown { nearest: None, .. } => {
                format!("use one of {}", MetricSource::NAMES.join(", "))
            }
            E::Needs { needs, .. } => format!("add the {needs} to [metric]"),
            E::Extra { extra, .. } => format!("remove the {extra} from [metric]"),
            E::Pattern { .. } => "use the syntax of docs.rs/regex".to_owned(),
            E::Groups { .. } => r"put one group around the number, as in `score: (\d+)`".to_owned(),
            E::Pointer { .. } => "write it as RFC 6901 says, such as `/result/score`".to_owned(),
        };
        Self::usage(error.to_string()).hint(hint)
    }
}

impl MetricSource {
    /// The names in `loop.toml` that are built.
    pub const NAMES: &[&str] = &["failures", "exit", "regex", "json", "verdict"];

    /// The source that a contract's `metric.from` and its pattern or pointer name, validated.
    pub fn from_parts(
        from: &str,
        pattern: Option<&str>,
        pointer: Option<&str>,
    ) -> Result<Self, MetricSourceError> {
        use MetricSourceError as E;
        let source = match (from, pattern, pointer) {
            ("failures", ..) => Self::Failures,
            ("exit", ..) => Self::Exit,
            ("regex", Some(pattern), _) => Self::Regex(pattern.to_owned()),
            ("regex", None, _) => return Err(E::Needs { from: "regex", needs: "pattern" }),
            ("json", _, Some(pointer)) => Self::Json(pointer.to_owned()),
            ("json", _, None) => return Err(E::Needs { from: "json", needs: "pointer" }),
            ("verdict", ..) => Self::Verdict,
            (name, ..) => {
                let known = Self::NAMES.iter().copied();
                return Err(E::Unknown { name: name.to_owned(), nearest: nearest(name, known) });
            }
        };
        let from = source.name();
        match (&source, pattern, pointer) {
            (Self::Failures | Self::Exit | Self::Json(_) | Self::Verdict, Some(_), _) => {
                return Err(E::Extra { from, extra: "pattern" });
            }
            (Self::Failures | Self::Exit | Self::Regex(_) | Self::Verdict, _, Some(_)) => {
                return Err(E::Extra { from, extra: "pointer" });
            }
            _ => {}
        }
        source.validate()?;
        Ok(source)
    }

    /// The name in `loop.toml`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Failures => "failures",
            Self::Exit => "exit",
            Self::Regex(_) => "regex",
            Self::Json(_) => "json",
            Self::Verdict => "verdict",
        }
    }

    /// Whether the pattern or the pointer is usable; to be called when a contract is read.
    pub fn validate(&self) -> Result<(), MetricSourceError> {
        match self {
            Self::Failures | Self::Exit | Self::Verdict => Ok(()),
            Self::Regex(pattern) => with_compiled(pattern, |_, _| ()),
            Self::Json(pointer) if is_pointer(pointer) => Ok(()),
            Self::Json(pointer) => Err(MetricSourceError::Pointer { pointer: pointer.clone() }),
        }
    }
}

/// Calls `use_it` with the compiled pattern and the number of the group that holds the metric. The last pattern is kept: a loop reads the
/// output of all its iterations with one.
fn with_compiled<T>(pattern: &str, use_it: impl FnOnce(&Regex, usize) -> T) -> Result<T, MetricSourceError> {
    thread_local!(static LAST: RefCell<Option<(String, Regex, usize)>> = const { RefCell::new(None) });
    LAST.with_borrow_mut(|last| {
        if last.as_ref().is_none_or(|(known, ..)| known != pattern) {
            let (regex, group) = compile(pattern)?;
            *last = Some((pattern.to_owned(), regex, group));
        }
        let (_, regex, group) = last.as_ref().expect("it was just put there");
        Ok(use_it(regex, *group))
    })
}

/// A compiled pattern and the number of the group that holds the metric.
fn compile(pattern: &str) -> Result<(Regex, usize), MetricSourceError> {
    let regex = RegexBuilder::new(pattern)
        .size_limit(MAX_PATTERN)
        .dfa_size_limit(MAX_PATTERN)
        .build()
        .map_err(|error| MetricSourceError::Pattern { why: error.to_string() })?;
    let named = regex.capture_names().position(|name| name == Some(GROUP));
    // The first group is the whole match.
    match (named, regex.captures_len() - 1) {
        (Some(group), _) => Ok((regex, group)),
        (None, 1) => Ok((regex, 1)),
        (None, groups) => Err(MetricSourceError::Groups { groups }),
    }
}

fn is_pointer(pointer: &str) -> bool {
    let escapes_hold = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    escapes_hold && (pointer.is_empty() || pointer.starts_with('/'))
}

/// What one run of the check left for the metric to be read from.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// The exit code; `None` if a signal ended the check.
    pub exit_code: Option<i32>,
    /// All of stdout; `None` if it was too large to be kept.
    pub stdout: Option<&'a [u8]>,
    /// The tests of the report; `None` if there is no usable one.
    pub sets: Option<&'a TestSets>,
    /// The verdict that the check wrote; `None` if there is no usable one.
    pub verdict: Option<&'a VerdictFile>,
}

/// Why a run of the check gave no metric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetricProblem {
    /// The verdict is to be read, and there is none, or it names no metric.
    #[error("the check wrote no verdict with a `metric_value`")]
    NoVerdict,
    /// Failures are to be counted, and there is no usable report.
    #[error("no report to count failures in")]
    NoReport,
    /// The check ended without an exit code.
    #[error("the check ended without an exit code")]
    NoExitCode,
    /// stdout was too large to be kept whole.
    #[error("stdout is too large to read a metric from")]
    OutputTooLarge,
    /// The metric is not where the contract says.
    #[error("no metric: {why}")]
    NotFound {
        /// What was looked for.
        why: String,
    },
    /// What is there is not a finite decimal number.
    #[error("the metric is not a finite decimal number: `{found}`")]
    NotANumber {
        /// What was found.
        found: String,
    },
    /// The source itself is not usable; a validated contract has none such.
    #[error(transparent)]
    Source(#[from] MetricSourceError),
}

/// Reads the metric of one run of the check. The result is finite, and never negative zero.
pub fn extract(source: &MetricSource, seen: &Observation<'_>) -> Result<f64, MetricProblem> {
    let stdout = || seen.stdout.ok_or(MetricProblem::OutputTooLarge);
    match source {
        MetricSource::Failures => {
            seen.sets.map(|sets| sets.failed.len() as f64).ok_or(MetricProblem::NoReport)
        }
        MetricSource::Exit => seen.exit_code.map(f64::from).ok_or(MetricProblem::NoExitCode),
        MetricSource::Regex(pattern) => from_regex(pattern, stdout()?),
        MetricSource::Json(pointer) => from_json(pointer, stdout()?),
        MetricSource::Verdict => {
            seen.verdict.and_then(|verdict| verdict.metric_value).ok_or(MetricProblem::NoVerdict)
        }
    }
}

fn from_regex(pattern: &str, stdout: &[u8]) -> Result<f64, MetricProblem> {
    with_compiled(pattern, |regex, group| last_match(pattern, regex, group, stdout))?
}

fn last_match(pattern: &str, regex: &Regex, group: usize, stdout: &[u8]) -> Result<f64, MetricProblem> {
    let found = stdout.rsplit(|byte| *byte == b'\n').filter(|line| line.len() <= MAX_LINE).find_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        regex.captures_iter(line).last()
    });
    let Some(found) = found else {
        return Err(MetricProblem::NotFound {
            why: format!("no line of stdout matches `{}`", excerpt(pattern)),
        });
    };
    let Some(text) = found.get(group) else {
        return Err(MetricProblem::NotFound {
            why: format!("the last match of `{}` leaves its group out", excerpt(pattern)),
        });
    };
    let text = String::from_utf8_lossy(text.as_bytes());
    decimal(text.trim()).ok_or_else(|| MetricProblem::NotANumber { found: excerpt(&text) })
}

fn from_json(pointer: &str, stdout: &[u8]) -> Result<f64, MetricProblem> {
    if !is_pointer(pointer) {
        return Err(MetricSourceError::Pointer { pointer: pointer.to_owned() }.into());
    }
    // As strict as a report: a key that comes twice says two things, and readers differ in which of them they hear.
    let read = |bytes: &[u8]| std::str::from_utf8(bytes).ok().and_then(|text| json::read(text).ok());
    let is_object = |value: &Json| matches!(value, Json::Map(_));
    let document = read(stdout)
        .or_else(|| stdout.rsplit(|byte| *byte == b'\n').find_map(|line| read(line).filter(is_object)));
    let Some(document) = document else {
        return Err(MetricProblem::NotFound {
            why: "stdout is no JSON document, and none of its lines is a JSON object".to_owned(),
        });
    };
    match at_pointer(&document, pointer) {
        None => Err(MetricProblem::NotFound {
            why: format!("the JSON on stdout has nothing at `{}`", excerpt(pointer)),
        }),
        #[allow(clippy::cast_precision_loss, reason = "a metric is a 64-bit float")]
        Some(Json::Count(count)) => Ok(*count as f64),
        Some(Json::Number(number)) if number.is_finite() => Ok(positive_zero(*number)),
        Some(Json::Text(text)) => Err(MetricProblem::NotANumber { found: excerpt(&format!("{text:?}")) }),
        Some(_) => Err(MetricProblem::NotANumber { found: format!("what is at {}", excerpt(pointer)) }),
    }
}

/// What an RFC 6901 pointer leads to.
fn at_pointer<'a>(document: &'a Json, pointer: &str) -> Option<&'a Json> {
    pointer.split('/').skip(1).try_fold(document, |value, step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        match value {
            Json::Map(map) => map.get(&step),
            Json::List(list) => {
                let digits = step.bytes().all(|byte| byte.is_ascii_digit());
                let plain = digits && (step == "0" || !step.starts_with('0'));
                list.get(step.parse::<usize>().ok().filter(|_| plain)?)
            }
            _ => None,
        }
    })
}

/// Reads a decimal number: sign, digits with at most one point, exponent. `f64::from_str` also takes `inf` and `nan`.
fn decimal(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let well_formed = digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| digits(exponent) && !exponent.is_empty());
    if !well_formed {
        return None;
    }
    text.parse().ok().filter(|number: &f64| number.is_finite()).map(positive_zero)
}

/// One zero: a record shows the metric in its shortest form, and `-0.0` is no better than `0.0`.
fn positive_zero(number: f64) -> f64 {
    number + 0.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stdout(source: &MetricSource, text: impl AsRef<[u8]>) -> Result<f64, MetricProblem> {
        extract(
            source,
            &Observation { exit_code: Some(0), stdout: Some(text.as_ref()), sets: None, verdict: None },
        )
    }

    fn regex(pattern: &str, text: impl AsRef<[u8]>) -> Result<f64, MetricProblem> {
        stdout(&MetricSource::Regex(pattern.to_owned()), text)
    }

    fn json(pointer: &str, text: &str) -> Result<f64, MetricProblem> {
        stdout(&MetricSource::Json(pointer.to_owned()), text)
    }

    fn not_found(result: &Result<f64, MetricProblem>) -> bool {
        matches!(result, Err(MetricProblem::NotFound { .. }))
    }

    fn not_a_number(result: &Result<f64, MetricProblem>) -> bool {
        matches!(result, Err(MetricProblem::NotANumber { .. }))
    }

    #[test]
    fn failures_and_exit() {
        let mut sets = TestSets::default();
        sets.record("a".into(), super::super::Outcome::Failed);
        sets.record("b".into(), super::super::Outcome::Passed);
        let nothing = Observation { exit_code: None, stdout: None, sets: None, verdict: None };
        let seen = Observation { exit_code: Some(3), sets: Some(&sets), ..nothing };
        assert_eq!(extract(&MetricSource::Failures, &seen), Ok(1.0));
        assert_eq!(extract(&MetricSource::Failures, &nothing), Err(MetricProblem::NoReport));
        assert_eq!(extract(&MetricSource::Exit, &seen), Ok(3.0));
        assert_eq!(extract(&MetricSource::Exit, &nothing), Err(MetricProblem::NoExitCode));
        for source in [MetricSource::Regex("(1)".into()), MetricSource::Json(String::new())] {
            assert_eq!(extract(&source, &seen), Err(MetricProblem::OutputTooLarge));
        }
    }

    #[test]
    fn the_last_match_of_the_last_line_counts() {
        let pattern = r"score=(\S+)";
        assert_eq!(regex(pattern, "score=1\nscore=2 score=3\nbye\n"), Ok(3.0));
        assert_eq!(regex(pattern, "score=1\r\n"), Ok(1.0));
        assert_eq!(regex(r"^score: (\d+)$", "x\nscore: 7\r\ny"), Ok(7.0));
        assert_eq!(regex(r"(?<unit>s|ms) (?<metric>[\d.]+)", "ms 4.5"), Ok(4.5));
        assert_eq!(regex(pattern, b"\xff\xfe\nscore=-2.5e1 \xff"), Ok(-25.0));
        assert!(not_found(&regex(pattern, "nothing")));
        assert!(not_found(&regex("score(?:=(\\d+))?", "score=1\nscore")));
        // A line that is too long to be searched is none.
        assert_eq!(regex(pattern, format!("score=1\n{} score=2\n", " ".repeat(MAX_LINE))), Ok(1.0));
    }

    #[test]
    fn only_finite_decimal_numbers_are_metrics() {
        for (text, expected) in [
            ("1", 1.0),
            ("+1.5", 1.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("1E-2", 0.01),
            ("007", 7.0),
        ] {
            assert_eq!(regex("^(.*)$", text), Ok(expected), "{text}");
        }
        for text in [
            "",
            " ",
            "NaN",
            "nan",
            "inf",
            "-infinity",
            "0x10",
            "1_000",
            "1,000",
            "1e",
            "1e+",
            "e5",
            ".",
            "+",
            "--1",
            "1e400",
            "-1e400",
            "1.2.3",
            "12abc",
            "١",
            "1f64",
        ] {
            assert!(not_a_number(&regex("^(.*)$", text)), "{text}");
        }
        assert!(not_a_number(&regex("(?-u)^(.*)$", b"1\xff")));
        assert!(regex("^(.*)$", "-0").unwrap().is_sign_positive());
        assert!(json("/x", r#"{"x": -0.0}"#).unwrap().is_sign_positive());
    }

    #[test]
    fn json_documents_and_json_lines() {
        assert_eq!(json("/a/0/b~1c", r#"{"a": [{"b/c": 2.5}]}"#), Ok(2.5));
        assert_eq!(json("", " 4 \n"), Ok(4.0));
        assert_eq!(json("/x", "log\n{\"x\": 1}\n{\"x\": 2}\n[3]\nnot json\n"), Ok(2.0));
        assert_eq!(json("/x", "{\n  \"x\": 9\n}\n"), Ok(9.0));
        assert!(not_found(&json("/x", "{\"x\": 1}\n{\"y\": 2}\n")));
        assert!(not_found(&json("/x", "")));
        assert!(not_found(&json("/x", "log\n[1]\n")));
        for value in ["\"1\"", "null", "true", "[1]", "{}"] {
            assert!(not_a_number(&json("/x", &format!("{{\"x\": {value}}}"))), "{value}");
        }
        // Neither is JSON: the document does not parse at all.
        for value in ["NaN", "Infinity", "1e400", "0x10"] {
            assert!(not_found(&json("/x", &format!("{{\"x\": {value}}}"))), "{value}");
        }
        assert!(not_found(&json("/x", &"[".repeat(1_000_000))));
    }

    #[test]
    fn sources_are_validated_with_the_contract() {
        use MetricSourceError as E;
        let parts = MetricSource::from_parts;
        assert_eq!(parts("failures", None, None), Ok(MetricSource::Failures));
        assert_eq!(parts("exit", None, None), Ok(MetricSource::Exit));
        assert_eq!(parts("regex", Some("(1)"), None), Ok(MetricSource::Regex("(1)".into())));
        assert_eq!(parts("json", None, Some("/a")), Ok(MetricSource::Json("/a".into())));
        assert_eq!(parts("verdict", None, None), Ok(MetricSource::Verdict));
        assert!(parts("verdict", Some("(1)"), None).is_err() && parts("verdict", None, Some("/a")).is_err());
        assert_eq!(
            parts("regexp", None, None),
            Err(E::Unknown { name: "regexp".into(), nearest: Some("regex") })
        );
        assert_eq!(parts("", None, None), Err(E::Unknown { name: String::new(), nearest: None }));
        assert_eq!(parts("regex", None, None), Err(E::Needs { from: "regex", needs: "pattern" }));
        assert_eq!(parts("json", None, None), Err(E::Needs { from: "json", needs: "pointer" }));
        assert_eq!(parts("exit", Some("(1)"), None), Err(E::Extra { from: "exit", extra: "pattern" }));
        assert_eq!(parts("regex", Some("(1)"), Some("")), Err(E::Extra { from: "regex", extra: "pointer" }));
        assert_eq!(parts("regex", Some("1"), None), Err(E::Groups { groups: 0 }));
        assert_eq!(parts("regex", Some("(1)(2)"), None), Err(E::Groups { groups: 2 }));
        assert!(parts("regex", Some("(1)(?P<metric>2)"), None).is_ok());
        for pattern in ["(", r"(\w{1000}){1000}", "(?P<metric>a)(?P<metric>b)", r"(a)\1"] {
            assert!(matches!(parts("regex", Some(pattern), None), Err(E::Pattern { .. })), "{pattern}");
        }
        for pointer in ["a", "/a~2", "/a~", "~0"] {
            assert!(matches!(parts("json", None, Some(pointer)), Err(E::Pointer { .. })), "{pointer}");
        }
        for pointer in ["", "/", "/a~0b~1c", "/é/0"] {
            assert!(parts("json", None, Some(pointer)).is_ok(), "{pointer}");
        }
        assert!(!Error::from(E::Groups { groups: 0 }).hints().is_empty());
    }

    proptest! {
        #[test]
        fn any_output_is_total_and_finite(bytes: Vec<u8>, number in "[-+.0-9eE]{0,12}") {
            for source in [MetricSource::Regex("(.+)".into()), MetricSource::Json(String::new())] {
                for text in [bytes.as_slice(), number.as_bytes()] {
                    prop_assert!(stdout(&source, text).map_or(true, f64::is_finite));
                }
            }
        }

        #[test]
        fn printed_floats_are_read_back(x in any::<f64>().prop_filter("finite", |x| x.is_finite())) {
            prop_assert_eq!(regex("(.+)", format!("{x:?}")), Ok(x));
            prop_assert_eq!(json("", &serde_json::to_string(&x).unwrap()), Ok(x));
        }

        #[test]
        fn any_pattern_and_pointer_are_total(text: String) {
            let _ = MetricSource::Regex(text.clone()).validate();
            let _ = MetricSource::Json(text).validate();
        }
    }
}
