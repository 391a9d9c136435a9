//! The lines of pytest's summary, one at a time.

/// What a line says that stands on its own.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// `=== short test summary info ===`.
    Header,
    /// Another title between equals signs.
    Title,
    /// The last line, with what was counted: `=== 1 failed, 2 passed in 0.12s ===`, without the signs under `-q`.
    Counts(Vec<(u64, &'a str)>),
    /// `!!! stopping after 1 failures !!!`.
    Stopped,
    /// Another text between exclamation marks: the run was interrupted.
    Interrupted(&'a str),
    /// Anything else.
    Other,
}

/// Says what a line means, its white space at the end aside.
pub(super) fn recognise(text: &str) -> Line<'_> {
    let text = text.trim_end();
    if let Some(inner) = between(text, '!') {
        let inner_text = inner.strip_prefix("xdist.dsession.Interrupted: ").unwrap_or(inner);
        let stopped = inner_text
            .strip_prefix("stopping after ")
            .and_then(|rest| rest.strip_suffix(" failures"))
            .is_some_and(|count| number(count).is_some());
        return if stopped { Line::Stopped } else { Line::Interrupted(inner) };
    }
    let title = between(text, '=');
    if title == Some("short test summary info") {
        return Line::Header;
    }
    match counts(title.unwrap_or(text)) {
        Some(counts) => Line::Counts(counts),
        None if title.is_some() => Line::Title,
        None => Line::Other,
    }
}

/// The text between two runs of `sign` and a space each.
fn between(text: &str, sign: char) -> Option<&str> {
    let inner = text.strip_prefix(sign)?.trim_start_matches(sign).strip_prefix(' ')?;
    inner.strip_suffix(sign)?.trim_end_matches(sign).strip_suffix(' ')
}

pub(super) fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// What the last line counts. `warnings` and `errors` also come in the singular.
const WORDS: [&str; 12] = [
    "passed",
    "failed",
    "error",
    "errors",
    "skipped",
    "xfailed",
    "xpassed",
    "deselected",
    "warning",
    "warnings",
    "rerun",
    "subtests passed",
];

/// `1 failed, 2 passed in 0.12s`, also `no tests ran in 0.01s` and `… in 62.00s (0:01:02)`.
fn counts(text: &str) -> Option<Vec<(u64, &str)>> {
    let (counts, time) = text.rsplit_once(" in ")?;
    let seconds = match time.split_once(" (") {
        Some((seconds, clock)) => {
            let clock = clock.strip_suffix(')')?;
            // `0:01:02`, and of more than a day `1 day, 0:01:02`.
            if !clock.contains(':') {
                return None;
            }
            seconds
        }
        None => time,
    };
    let (whole, part) = seconds.strip_suffix('s')?.split_once('.')?;
    number(whole).and(number(part))?;
    if counts == "no tests ran" {
        return Some(Vec::new());
    }
    counts
        .split(", ")
        .map(|part| part.split_once(' ').filter(|(_, word)| WORDS.contains(word)))
        .map(|part| part.and_then(|(count, word)| Some((number(count)?, word))))
        .collect()
}

/// The node id that a text of the summary begins with: `path::name`, and behind it ` - ` and a message.
///
/// A path may hold ` - `, and so may the parameters of a test; where they end cannot always be told, and is told in the same way
/// for every outcome.
pub(super) fn node_id(text: &str) -> &str {
    const DASH: &str = " - ";
    let text = text.trim_end();
    let dash = text.find(DASH);
    let Some(colons) =
        text.find("::").filter(|colons| dash.is_none_or(|dash| *colons < dash) || is_path(&text[..*colons]))
    else {
        return &text[..dash.unwrap_or(text.len())];
    };
    let name = &text[colons..];
    let dash = name.find(DASH);
    match name.find('[').filter(|bracket| dash.is_none_or(|dash| *bracket < dash)) {
        Some(bracket) => match name[bracket..].find("] - ") {
            Some(end) => &text[..=colons + bracket + end],
            None => text,
        },
        None => &text[..colons + dash.unwrap_or(name.len())],
    }
}

/// Whether what stands before `::` can only be a path: it ends like a file of Python, and there is one such ending in it.
fn is_path(text: &str) -> bool {
    text.find(".py").is_some_and(|at| at + 3 == text.len())
}

/// Whether a node id is that of a test, and not of a file or a folder that could not be collected.
pub(super) fn is_test(node_id: &str) -> bool {
    node_id.contains("::")
}

/// A node id without the addresses that Python writes into the names of objects: `<app.Thing object at 0x7f3a1c>`.
pub(super) fn stable(node_id: &str) -> String {
    const AT: &str = " at 0x";
    let mut stable = String::with_capacity(node_id.len());
    let mut rest = node_id;
    while let Some((before, after)) = rest.split_once(AT) {
        stable.push_str(before);
        stable.push_str(AT);
        rest = after.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    stable.push_str(rest);
    stable
}

/// `[N] path:line: reason` behind `SKIPPED`: how many tests, and the file. pytest does not name them.
pub(super) fn folded(text: &str) -> Option<(u64, &str)> {
    let (count, rest) = text.strip_prefix('[')?.split_once("] ")?;
    let place = rest.split_once(": ").map_or(rest, |(place, _)| place).trim_end_matches(':');
    let path = match place.rsplit_once(':') {
        Some((path, line)) if number(line).is_some() => path,
        _ => place,
    };
    Some((number(count)?, path))
}

/// What is behind the word of a subtest, where first come a message in brackets and parameters in parentheses, or neither.
pub(super) fn behind_message(text: &str) -> &str {
    let text = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(_, rest)| rest),
        None => text,
    };
    let text = text.trim_start();
    let text = match text.strip_prefix('(') {
        Some(rest) => rest.split_once(") ").map_or(rest, |(_, rest)| rest),
        None => text,
    };
    text.trim_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines() {
        for (text, expected) in [
            ("= 3 failed, 8 passed, 2 errors in 0.05s =", &[(3, "failed"), (8, "passed"), (2, "errors")][..]),
            ("1 passed in 0.01s", &[(1, "passed")]),
            (
                "==== 1 passed, 3 subtests passed in 62.11s (0:01:02) ====",
                &[(1, "passed"), (3, "subtests passed")],
            ),
            ("=== 1 passed in 90061.00s (1 day, 1:01:01) ===", &[(1, "passed")]),
            ("==== no tests ran in 0.00s ====", &[]),
            ("= 4 deselected in 0.01s =", &[(4, "deselected")]),
        ] {
            assert_eq!(recognise(text), Line::Counts(expected.to_vec()), "{text}");
        }
        for text in [
            "1 passed",
            "passed in 0.01s",
            "1 passed in 1s",
            "x passed in 0.01s",
            "1 passed in 0.01s (x)",
            "a in b",
        ] {
            assert_eq!(recognise(text), Line::Other, "{text}");
        }
        assert_eq!(recognise("==== 1 passed in 0.01s"), Line::Other);
        assert_eq!(recognise("= PASSES ="), Line::Title);
        assert_eq!(recognise("=== short test summary info ==="), Line::Header);
        assert_eq!(recognise("====="), Line::Other);
        assert_eq!(recognise("!!!! stopping after 3 failures !!!!"), Line::Stopped);
        assert_eq!(recognise("!! xdist.dsession.Interrupted: stopping after 1 failures !!"), Line::Stopped);
        assert_eq!(recognise("!! KeyboardInterrupt !!"), Line::Interrupted("KeyboardInterrupt"));
    }

    #[test]
    fn node_ids() {
        for (text, expected) in [
            ("a.py::test", "a.py::test"),
            ("a.py::T::test - AssertionError: x::y - z", "a.py::T::test"),
            ("a.py::test[x - y]", "a.py::test[x - y]"),
            ("a.py::test[x - y] - AssertionError: [1] - [2]", "a.py::test[x - y]"),
            ("a.py::test - [XPASS(strict)] ", "a.py::test"),
            ("a.py::test[b] - c] - d", "a.py::test[b]"),
            ("a.py::test[b] - c]", "a.py::test[b]"),
            ("a - b/c.py::test - d", "a - b/c.py::test"),
            ("a.py - ModuleNotFoundError: b::c", "a.py"),
            ("a.py - File d.py::c", "a.py"),
            ("a - b::c", "a"),
            ("a.py", "a.py"),
            ("", ""),
        ] {
            assert_eq!(node_id(text), expected, "{text}");
        }
        assert_eq!(
            stable("a.py::t[<x.O object at 0x7f42f7457c50>-<y at 0x1>]"),
            "a.py::t[<x.O object at 0x>-<y at 0x>]"
        );
        assert_eq!(folded("[2] a b/c.py:12: not: now"), Some((2, "a b/c.py")));
        assert_eq!(folded("[1] c.py: no line"), Some((1, "c.py")));
        assert_eq!(folded("[x] c.py:1: no"), None);
        assert_eq!(folded("c.py::test - no"), None);
        for text in ["[m] (i=1) a.py::t - x", "(i=1) a.py::t - x", " a.py::t", "[m] a.py::t - (x) y"] {
            assert_eq!(node_id(behind_message(text)), "a.py::t", "{text}");
        }
    }
}
