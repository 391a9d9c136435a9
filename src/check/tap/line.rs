//! The lines of the Test Anything Protocol that mean something, one at a time.

/// What one line says, its indentation aside.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// `TAP version N`.
    Version(u64),
    /// `1..N`.
    Plan(u64),
    /// `ok`, `not ok` and what follows.
    Point(Point),
    /// `# Subtest: NAME`.
    Subtest,
    /// `Bail out!`.
    BailOut(String),
    /// A comment, a pragma, or output of the program under test.
    Other,
}

impl Line {
    /// Whether only a report says so: not a comment, and not anything else.
    pub fn is_of_a_report(&self) -> bool {
        matches!(self, Self::Version(_) | Self::Plan(_) | Self::Point(_) | Self::BailOut(_))
    }
}

/// What a test is marked as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Directive {
    Skip,
    Todo,
}

/// A test point.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub ok: bool,
    pub number: Option<u64>,
    /// The description without its directive, and with its escapes undone.
    pub description: String,
    pub directive: Option<Directive>,
    /// It ends with `{`: node-tap's own way to write subtests, which is not read.
    pub opens_brace: bool,
}

/// The number of spaces that a line begins with, and the rest.
pub(super) fn indentation(line: &str) -> (usize, &str) {
    let rest = line.trim_start_matches(' ');
    (line.len() - rest.len(), rest)
}

/// Says what a line without its indentation means.
pub(super) fn recognise(text: &str) -> Line {
    let text = text.trim_end();
    if let Some(rest) = text.strip_prefix("TAP version ") {
        return number(rest).map_or(Line::Other, Line::Version);
    }
    if let Some(rest) = text.strip_prefix("1..") {
        let count = rest.split_once(|c: char| c == '#' || c.is_whitespace()).map_or(rest, |(count, _)| count);
        let after = rest[count.len()..].trim_start();
        return match number(count) {
            Some(count) if after.is_empty() || after.starts_with('#') => Line::Plan(count),
            _ => Line::Other,
        };
    }
    if text.starts_with("# Subtest") {
        return Line::Subtest;
    }
    if text.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("bail out!")) {
        return Line::BailOut(text[9..].trim().to_owned());
    }
    let (ok, rest) = match text.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => match text.strip_prefix("ok") {
            Some(rest) => (true, rest),
            None => return Line::Other,
        },
    };
    if rest.is_empty() || rest.starts_with([' ', '\t']) { Line::Point(point(ok, rest)) } else { Line::Other }
}

fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// What follows `ok` or `not ok`.
fn point(ok: bool, rest: &str) -> Point {
    let rest = rest.trim_start();
    let word = rest.split(char::is_whitespace).next().unwrap_or_default();
    let (number, rest) = match number(word) {
        Some(number) => (Some(number), rest[word.len()..].trim_start()),
        None => (None, rest),
    };
    let rest = match rest.strip_prefix('-') {
        Some(after) if after.is_empty() || after.starts_with([' ', '\t']) => after,
        _ => rest,
    };
    let (description, directive) = directive(rest);
    let opens_brace = rest.ends_with(" {");
    Point { ok, number, description: plain(without_time(description).trim()), directive, opens_brace }
}

/// Cuts at the first `#` that is not escaped and is followed by `TODO` or `SKIP`, in letters of any case. `SKIPPED` and the like
/// are skips as well.
fn directive(text: &str) -> (&str, Option<Directive>) {
    for at in hashes(text) {
        let word: String =
            text[at + 1..].trim_start().chars().take_while(char::is_ascii_alphabetic).take(16).collect();
        let word = word.to_ascii_lowercase();
        let found = match word.as_str() {
            "todo" => Directive::Todo,
            word if word.starts_with("skip") => Directive::Skip,
            _ => continue,
        };
        return (&text[..at], Some(found));
    }
    (text, None)
}

/// The offsets of the `#` in a text that no backslash escapes.
fn hashes(text: &str) -> impl Iterator<Item = usize> {
    let mut escaped = false;
    text.bytes().enumerate().filter_map(move |(at, byte)| {
        let plain = !escaped;
        escaped = plain && byte == b'\\';
        (plain && byte == b'#').then_some(at)
    })
}

/// A description without the time that node-tap writes behind it, as in `name # time=1.5ms`.
fn without_time(text: &str) -> &str {
    let is_time = |after: &str| {
        let time = after.trim().strip_prefix("time=").and_then(|time| time.strip_suffix('s'));
        time.is_some_and(|time| {
            time.trim_end_matches('m').bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
    };
    match hashes(text).last() {
        Some(at) if is_time(&text[at + 1..]) => &text[..at],
        _ => text,
    }
}

/// A description with `\#` and `\\` undone.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(next @ ('#' | '\\'))) => {
                plain.push(*next);
                chars.next();
            }
            _ => plain.push(c),
        }
    }
    plain
}

/// Whether a description is the path of a script: what node calls a file that has no tests, or that failed around them.
pub(super) fn is_script(description: &str) -> bool {
    const ENDINGS: [&str; 8] = [".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"];
    ENDINGS.iter().any(|ending| description.ends_with(ending))
        && (is_absolute(description) || !description.contains(char::is_whitespace))
}

fn is_absolute(path: &str) -> bool {
    let drive = matches!(path.as_bytes(), [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    path.starts_with('/') || drive
}

/// The name of a script that does not change with the folder of the worktree.
pub(super) fn script_name(path: &str) -> &str {
    if is_absolute(path) { path.rsplit(['/', '\\']).next().unwrap_or(path) } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(text: &str) -> (bool, Option<u64>, String, Option<Directive>) {
        match recognise(text) {
            Line::Point(Point { ok, number, description, directive, .. }) => {
                (ok, number, description, directive)
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn points() {
        for (text, expected) in [
            ("ok", (true, None, "", None)),
            ("not ok", (false, None, "", None)),
            ("ok 1", (true, Some(1), "", None)),
            ("ok 1 - a b", (true, Some(1), "a b", None)),
            ("not ok 12 a b  ", (false, Some(12), "a b", None)),
            ("ok - a", (true, None, "a", None)),
            ("ok -1", (true, None, "-1", None)),
            ("ok 5x", (true, None, "5x", None)),
            ("ok 3 # skip no", (true, Some(3), "", Some(Directive::Skip))),
            ("ok 3 - a # SKIPPED: no", (true, Some(3), "a", Some(Directive::Skip))),
            ("ok 3 - a #Skip", (true, Some(3), "a", Some(Directive::Skip))),
            ("not ok 3 - a # TODO b", (false, Some(3), "a", Some(Directive::Todo))),
            ("not ok 3 - a # todos", (false, Some(3), "a # todos", None)),
            ("ok 3 - a \\# SKIP b", (true, Some(3), "a # SKIP b", None)),
            ("ok 3 - a \\\\# SKIP b", (true, Some(3), "a \\", Some(Directive::Skip))),
            ("ok 3 - a # b # TODO c", (true, Some(3), "a # b", Some(Directive::Todo))),
            ("ok 3 - a # time=12.5ms", (true, Some(3), "a", None)),
            ("ok 3 - a # timely", (true, Some(3), "a # timely", None)),
            ("ok 3 - a \\n \\\\ \\", (true, Some(3), "a \\n \\ \\", None)),
            ("ok 99999999999999999999 - a", (true, None, "99999999999999999999 - a", None)),
        ] {
            let (ok, number, description, directive) = expected;
            assert_eq!(point(text), (ok, number, description.to_owned(), directive), "{text}");
        }
        assert!(matches!(recognise("ok 1 - a # time=1ms {"), Line::Point(Point { opens_brace: true, .. })));
    }

    #[test]
    fn the_other_lines() {
        assert_eq!(recognise("TAP version 13"), Line::Version(13));
        assert_eq!(recognise("1..3"), Line::Plan(3));
        assert_eq!(recognise("1..0 # SKIP why"), Line::Plan(0));
        assert_eq!(recognise("1..0#skip"), Line::Plan(0));
        assert_eq!(recognise("bail out! the disk is full "), Line::BailOut("the disk is full".into()));
        assert_eq!(recognise("# Subtest: a"), Line::Subtest);
        for text in
            ["", "okay", "not okay", "OK 1", "1..", "1..x", "1..3 tests", "1..99999999999999999999", "# 1..2"]
        {
            assert_eq!(recognise(text), Line::Other, "{text}");
        }
        assert_eq!(indentation("    ok 1"), (4, "ok 1"));
        assert_eq!(indentation("\tok 1"), (0, "\tok 1"));
    }

    #[test]
    fn scripts() {
        for (path, name) in [
            ("/w/1/a b/c.test.js", "c.test.js"),
            ("test/c.test.mjs", "test/c.test.mjs"),
            ("C:\\w\\c.ts", "c.ts"),
        ] {
            assert!(is_script(path));
            assert_eq!(script_name(path), name);
        }
        for text in ["/users returns 200", "loads config.js", "c", "c.json"] {
            assert!(!is_script(text), "{text}");
        }
    }
}
