//! How a fault of `loop.toml` is told: the place, the key, what was expected, the line itself and the next step.

use std::fmt;
use std::ops::Range;

use crate::error::Error;

/// The most columns of a source line that an excerpt shows.
const EXCERPT_WIDTH: usize = 100;

/// One fault of a `loop.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The path of the key, such as `paths.mutable[1]`; empty where the fault is one of syntax.
    pub key: String,
    /// What is wrong and what was expected.
    pub message: String,
    /// The next step.
    pub hint: Option<String>,
    /// The line with the fault marked; `None` where the file has no such line.
    pub excerpt: Option<Excerpt>,
}

/// A source line, made fit for a terminal, with the part that a [`Problem`] is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The line, or the part of it around the fault.
    pub text: String,
    /// How many characters of `text` come before the fault.
    pub start: usize,
    /// How many characters the fault covers; at least 1.
    pub width: usize,
}

/// Something in a valid `loop.toml` that is probably not what its writer wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The stable name of the warning, such as `shell_pipeline`.
    pub code: &'static str,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The path of the key.
    pub key: String,
    /// What is doubtful, and what to do about it.
    pub message: String,
}

/// Everything that is wrong with a `loop.toml`, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopFileError {
    /// The name of the file, as the person gave it.
    pub file: String,
    /// The faults; never empty.
    pub errors: Vec<Problem>,
    /// How many more there are: of very many only the first are told.
    pub omitted: usize,
}

impl fmt::Display for LoopFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            let Problem { line, column, message, .. } = problem;
            write!(f, "{}:{line}:{column}: {message}", self.file)?;
            let gutter = line.to_string().len();
            if let Some(Excerpt { text, start, width }) = &problem.excerpt {
                write!(f, "\n{:gutter$} |\n{line} | {text}\n{:gutter$} | {:start$}", "", "", "")?;
                write!(f, "{:^<width$}", "")?;
            }
            if let Some(hint) = &problem.hint {
                write!(f, "\n{:gutter$} = {hint}", "")?;
            }
        }
        if self.omitted > 0 {
            write!(f, "\n\n{}: and {} more", self.file, self.omitted)?;
        }
        Ok(())
    }
}

impl std::error::Error for LoopFileError {}

impl From<LoopFileError> for Error {
    fn from(error: LoopFileError) -> Self {
        Self::usage(error.to_string())
            .hint("every key, its range and its default: the page loop-toml of the reference; an example for this project: git loop init")
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} ({})", self.line, self.column, self.message, self.code)
    }
}

/// The text of a file, to find places in.
pub(super) struct Source<'t> {
    text: &'t str,
    line_starts: Vec<usize>,
}

impl<'t> Source<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let line_starts =
            std::iter::once(0).chain(text.match_indices('\n').map(|(index, _)| index + 1)).collect();
        Self { text, line_starts }
    }

    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    /// Line and column of a byte offset, both from 1. An offset inside a character belongs to that character.
    pub(super) fn place(&self, offset: usize) -> (usize, usize) {
        let offset = self.floor(offset);
        let line = self.line_starts.partition_point(|start| *start <= offset);
        (line, self.text[self.line_starts[line - 1]..offset].chars().count() + 1)
    }

    /// The fault at `span`.
    pub(super) fn problem(
        &self,
        span: &Range<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Problem {
        let (line, column) = self.place(span.start);
        let (start, end) = (self.floor(span.start), self.floor(span.end));
        let width = self.text[start..end.max(start)].lines().next().unwrap_or_default().chars().count();
        let excerpt = self.excerpt(line, column - 1, width);
        Problem { line, column, key: key.into(), message: message.into(), hint, excerpt }
    }

    fn floor(&self, offset: usize) -> usize {
        // `str::floor_char_boundary` is younger than our minimum Rust.
        let offset = offset.min(self.text.len());
        (0..=offset).rev().find(|index| self.text.is_char_boundary(*index)).unwrap_or(0)
    }

    fn excerpt(&self, line: usize, before: usize, width: usize) -> Option<Excerpt> {
        let start = self.line_starts[line - 1];
        let source = self.text[start..].lines().next()?;
        // A line that is longer than the excerpt is shown from a little before the fault.
        let skipped = if before > EXCERPT_WIDTH * 3 / 4 { before - EXCERPT_WIDTH / 4 } else { 0 };
        let text: String = source.chars().skip(skipped).take(EXCERPT_WIDTH).map(printable).collect();
        let room = EXCERPT_WIDTH.saturating_sub(before - skipped);
        Some(Excerpt {
            text: text.trim_end().to_owned(),
            start: before - skipped,
            width: width.clamp(1, room.max(1)),
        })
    }
}

/// One character for one character, so that the marks stay below what they mark and a terminal obeys nothing.
fn printable(character: char) -> char {
    match character {
        '\t' => ' ',
        // Overrides of the writing direction would let a line read as another one.
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        other if other.is_control() => '\u{fffd}',
        other => other,
    }
}

/// A value as a message shows it: quoted, escaped, cut.
pub(super) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_count_characters_from_one() {
        let source = Source::new("a\nbé = 1\r\n");
        assert_eq!(source.place(0), (1, 1));
        assert_eq!(source.place(2), (2, 1));
        assert_eq!(source.place(5), (2, 3));
        assert_eq!(source.place(4), (2, 2));
        assert_eq!(source.place(999), (3, 1));
    }

    #[test]
    fn an_excerpt_never_carries_terminal_escapes() {
        let source = Source::new("x = \"\u{1b}[31m\u{202e}\"\t# é");
        let problem = source.problem(&(4..10), "x", "m", None);
        assert_eq!(problem.excerpt.unwrap().text, "x = \"\u{fffd}[31m\u{fffd}\" # é");
        assert_eq!(quoted("\u{1b}[31m"), "\"\\u{1b}[31m\"");
    }

    #[test]
    fn a_long_line_is_cut_around_the_fault() {
        let text = format!("k = \"{}\" !", "y".repeat(5000));
        let excerpt = Source::new(&text).problem(&(5007..5008), "k", "m", None).excerpt.unwrap();
        assert_eq!(excerpt.text.chars().nth(excerpt.start), Some('!'));
        assert!(excerpt.text.chars().count() <= EXCERPT_WIDTH);
    }

    proptest! {
        #[test]
        fn any_span_of_any_text_has_a_place(text in "(\\PC|[\n\r\t]){0,40}", start in 0_usize..80, end in 0_usize..80) {
            let source = Source::new(&text);
            let problem = source.problem(&(start..end), "k", "m", None);
            let error = LoopFileError { file: "loop.toml".into(), errors: vec![problem], omitted: 0 };
            prop_assert!(error.to_string().starts_with("loop.toml:"));
        }
    }
}
