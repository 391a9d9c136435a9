//! The lines of `cargo test` that mean something, one at a time.

use super::super::Outcome;

/// What one line says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// `     Running unittests src/lib.rs (target/debug/deps/foo-0123456789abcdef)`: a test binary starts.
    Binary(Target<'a>),
    /// `   Doc-tests foo`.
    DocTests(&'a str),
    /// `running N tests`.
    Running(u64),
    /// `test NAME ... REST`; the rest is an outcome, or output of the test.
    Test { name: &'a str, rest: &'a str },
    /// `test result: …`.
    Summary(Summary),
    /// `failures:` or `successes:`: what follows is captured output.
    Section,
    /// `error: test failed, to rerun pass …`: cargo saw a test binary fail.
    TargetFailed,
    /// `error: N targets failed:`: cargo went on after failures and lists them at the end.
    FailedTargets,
    /// `error: could not compile …`.
    BuildFailed,
    /// Another `error…`.
    Error,
    /// Anything else.
    Other,
}

/// A test binary as cargo announces it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target<'a> {
    /// The name of the binary, without its hash.
    pub name: &'a str,
    /// The path of its source, where cargo says it.
    pub source: Option<&'a str>,
}

/// The numbers of a `test result:` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Summary {
    pub passed: u64,
    pub failed: u64,
    pub ignored: u64,
    pub measured: u64,
    /// Whether it says `ok`.
    pub ok: bool,
}

/// Says what a line means. It holds no newline and no escape sequence.
pub(super) fn recognise(line: &str) -> Line<'_> {
    // cargo sets its words flush right in twelve columns. A test that prints such a line can only spoil its report.
    if let Some(rest) = line.strip_prefix("     Running ") {
        return target(rest).map_or(Line::Other, Line::Binary);
    }
    if let Some(name) = line.strip_prefix("   Doc-tests ") {
        return Line::DocTests(name);
    }
    if let Some(count) = line.strip_prefix("running ") {
        let count = count.strip_suffix(" tests").or_else(|| count.strip_suffix(" test"));
        return count.and_then(number).map_or(Line::Other, Line::Running);
    }
    if let Some(rest) = line.strip_prefix("test result: ") {
        return summary(rest).map_or(Line::Other, Line::Summary);
    }
    if let Some(rest) = line.strip_prefix("test ") {
        return match rest.split_once(" ... ").or_else(|| rest.strip_suffix(" ...").map(|name| (name, ""))) {
            Some((name, rest)) => Line::Test { name: name.trim_end(), rest },
            None => Line::Other,
        };
    }
    if let Some(rest) = line.strip_prefix("error") {
        return error(rest);
    }
    if line == "failures:" || line == "successes:" { Line::Section } else { Line::Other }
}

fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// What cargo says after `Running`: `unittests src/lib.rs (path)`, `tests/it.rs (path)`, `path` of old, and with
/// `--verbose` a command line between back-ticks, which may also be one of rustc or rustdoc.
fn target(text: &str) -> Option<Target<'_>> {
    if let Some(command) = text.strip_prefix('`') {
        // With -vv the command line starts with variables; program paths with spaces are quoted, which is not undone.
        let program = command.trim_end_matches('`').split(' ').find(|word| !word.contains('='))?;
        let (name, hashed) = binary_name(program);
        return hashed.then_some(Target { name, source: None });
    }
    if let Some((source, path)) = text.strip_suffix(')').and_then(|text| text.rsplit_once('(')) {
        let source = source.trim_end();
        let source = source.strip_prefix("unittests").map_or(source, str::trim_start);
        return Some(Target {
            name: binary_name(path).0,
            source: Some(source).filter(|text| !text.is_empty()),
        });
    }
    let (name, hashed) = binary_name(text);
    hashed.then_some(Target { name, source: None })
}

/// The file name of a test binary without `.exe` and without cargo's hash, and whether it had one.
fn binary_name(path: &str) -> (&str, bool) {
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let file = file.strip_suffix(".exe").unwrap_or(file);
    match file.rsplit_once('-') {
        Some((name, hash))
            if !name.is_empty() && hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            (name, true)
        }
        _ => (file, false),
    }
}

fn summary(text: &str) -> Option<Summary> {
    let (status, counts) = text.split_once(". ")?;
    let mut summary = Summary {
        ok: match status {
            "ok" => true,
            "FAILED" => false,
            _ => return None,
        },
        ..Summary::default()
    };
    let mut seen = 0;
    for part in counts.split("; ") {
        let Some((count, word)) = part.split_once(' ') else { continue };
        let field = match word {
            "passed" => &mut summary.passed,
            "failed" => &mut summary.failed,
            "ignored" => &mut summary.ignored,
            "measured" => &mut summary.measured,
            _ => continue,
        };
        *field = number(count)?;
        seen += 1;
    }
    (seen == 4).then_some(summary)
}

/// What follows `error`.
fn error(rest: &str) -> Line<'_> {
    let Some(rest) = rest.strip_prefix(": ") else {
        return if rest.starts_with('[') { Line::Error } else { Line::Other };
    };
    let rerun =
        |what: &str| rest.strip_prefix(what).is_some_and(|rest| rest.starts_with(" failed, to rerun pass "));
    if ["test", "doctest", "bench"].into_iter().any(rerun) {
        Line::TargetFailed
    } else if rest.starts_with("could not compile ") {
        Line::BuildFailed
    } else if rest
        .strip_suffix(" failed:")
        .and_then(|rest| rest.split_once(' '))
        .is_some_and(|(count, word)| number(count).is_some() && (word == "target" || word == "targets"))
    {
        Line::FailedTargets
    } else {
        Line::Error
    }
}

/// What the text after `NAME ... ` says became of the test, if it says only that.
pub(super) fn outcome(rest: &str) -> Option<(Outcome, bool)> {
    let rest = rest.trim_end();
    // `--report-time` adds `<0.123s>`.
    let rest =
        rest.strip_suffix('>').and_then(|timed| timed.rsplit_once(" <")).map_or(rest, |(rest, _)| rest);
    if rest == "ok" {
        Some((Outcome::Passed, false))
    } else if rest == "FAILED" || rest == "FAILED (time limit exceeded)" {
        Some((Outcome::Failed, false))
    } else if rest == "ignored" || rest.starts_with("ignored, ") {
        Some((Outcome::Skipped, false))
    } else if rest.starts_with("bench: ") {
        Some((Outcome::Passed, true))
    } else {
        None
    }
}

/// The name of a test without what libtest and rustdoc add to it, and the line of a doc test.
///
/// The line of a doc test changes with every edit above it, so it is no part of the id.
pub(super) fn bare_name(name: &str) -> (&str, Option<u64>) {
    let plain = [" - should panic", " - compile fail", " - compile"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name);
    let doc = plain.strip_suffix(')').and_then(|text| text.rsplit_once(" (line "));
    match doc.and_then(|(item, line)| Some((item, number(line)?))) {
        Some((item, line)) => (item.strip_suffix(" -").unwrap_or(item), Some(line)),
        // Only doc tests are marked `- compile`; elsewhere that is part of a name.
        None => (name.strip_suffix(" - should panic").unwrap_or(name), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries() {
        let name = |line: &str| match recognise(line) {
            Line::Binary(Target { name, source }) => Some((name.to_owned(), source.map(str::to_owned))),
            Line::Other => None,
            other => panic!("{other:?}"),
        };
        for (line, expected) in [
            (
                "     Running unittests src/lib.rs (target/debug/deps/foo-0123456789abcdef)",
                Some(("foo", Some("src/lib.rs"))),
            ),
            (
                "     Running tests/a (b).rs (target/debug/deps/a_b-0123456789abcdef)",
                Some(("a_b", Some("tests/a (b).rs"))),
            ),
            ("     Running unittests (target/debug/deps/foo-0123456789abcdef)", Some(("foo", None))),
            (
                r"     Running unittests src\lib.rs (target\debug\deps\foo-0123456789abcdef.exe)",
                Some(("foo", Some(r"src\lib.rs"))),
            ),
            ("     Running target/debug/deps/foo-0123456789abcdef", Some(("foo", None))),
            ("     Running `/t/target/debug/deps/foo-0123456789abcdef --nocapture`", Some(("foo", None))),
            ("     Running `A=1 B='x' /t/target/debug/deps/foo-0123456789abcdef`", Some(("foo", None))),
            ("     Running `rustc --crate-name foo`", None),
            ("     Running `/bin/rustdoc --test src/lib.rs`", None),
            ("     Running tests/x.rs (target/debug/deps/x-nohash)", Some(("x-nohash", Some("tests/x.rs")))),
            ("     Running tests/x.rs (-0123456789abcdef)", Some(("-0123456789abcdef", Some("tests/x.rs")))),
            ("    Running unittests src/lib.rs (target/debug/deps/foo-0123456789abcdef)", None),
            ("     Running away", None),
        ] {
            let expected = expected.map(|(name, source)| (name.to_owned(), source.map(str::to_owned)));
            assert_eq!(name(line), expected, "{line}");
        }
        assert_eq!(recognise("   Doc-tests foo"), Line::DocTests("foo"));
    }

    #[test]
    fn the_other_lines() {
        assert_eq!(recognise("running 1 test"), Line::Running(1));
        assert_eq!(recognise("running 12 tests"), Line::Running(12));
        assert_eq!(recognise("running -1 tests"), Line::Other);
        assert_eq!(recognise("running 99999999999999999999 tests"), Line::Other);
        assert_eq!(recognise("test a::b ... ok"), Line::Test { name: "a::b", rest: "ok" });
        assert_eq!(recognise("test a    ... ok"), Line::Test { name: "a", rest: "ok" });
        assert_eq!(recognise("test a ... "), Line::Test { name: "a", rest: "" });
        assert_eq!(recognise("test a has been running for over 60 seconds"), Line::Other);
        assert_eq!(recognise("error: test failed, to rerun pass `--lib`"), Line::TargetFailed);
        assert_eq!(recognise("error: doctest failed, to rerun pass `--doc`"), Line::TargetFailed);
        assert_eq!(recognise("error: 1 target failed:"), Line::FailedTargets);
        assert_eq!(recognise("error: 3 targets failed:"), Line::FailedTargets);
        assert_eq!(
            recognise("error: could not compile `foo` (lib) due to 1 previous error"),
            Line::BuildFailed
        );
        assert_eq!(recognise("error[E0308]: mismatched types"), Line::Error);
        assert_eq!(recognise("errors are fine"), Line::Other);
        assert_eq!(recognise("failures:"), Line::Section);
        assert_eq!(
            recognise(
                "test result: FAILED. 2 passed; 4 failed; 1 ignored; 3 measured; 0 filtered out; finished in 0.17s"
            ),
            Line::Summary(Summary { passed: 2, failed: 4, ignored: 1, measured: 3, ok: false })
        );
        for bad in [
            "ok. 1 passed; 0 failed; 0 ignored",
            "OK. 1 passed; 0 failed; 0 ignored; 0 measured",
            "ok. x passed; 0 failed; 0 ignored; 0 measured",
        ] {
            assert_eq!(recognise(&format!("test result: {bad}")), Line::Other, "{bad}");
        }
    }

    #[test]
    fn outcomes() {
        assert_eq!(outcome("ok"), Some((Outcome::Passed, false)));
        assert_eq!(outcome("ok <0.001s>"), Some((Outcome::Passed, false)));
        assert_eq!(outcome("FAILED"), Some((Outcome::Failed, false)));
        assert_eq!(outcome("ignored, not <yet>"), Some((Outcome::Skipped, false)));
        assert_eq!(outcome("bench:       1,234 ns/iter (+/- 12)"), Some((Outcome::Passed, true)));
        for rest in ["", "okay", "failed", "hello", "ignoredx"] {
            assert_eq!(outcome(rest), None, "{rest}");
        }
    }

    #[test]
    fn names() {
        assert_eq!(bare_name("tests::a"), ("tests::a", None));
        assert_eq!(bare_name("tests::a - should panic"), ("tests::a", None));
        assert_eq!(bare_name("src/lib.rs - add (line 12)"), ("src/lib.rs - add", Some(12)));
        assert_eq!(bare_name("src/lib.rs - (line 1)"), ("src/lib.rs", Some(1)));
        assert_eq!(bare_name("src/lib.rs - add (line 12) - compile"), ("src/lib.rs - add", Some(12)));
        assert_eq!(bare_name("src/lib.rs - add (line 12) - compile fail"), ("src/lib.rs - add", Some(12)));
        assert_eq!(bare_name("ui/a - compile fail"), ("ui/a - compile fail", None));
        assert_eq!(bare_name("a (line x)"), ("a (line x)", None));
    }
}
