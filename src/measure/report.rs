//! What a measurement says: five numbers, what made them, and what they leave out.

use serde::Serialize;

use super::packages::PackageChanges;
use super::source::FallbackKind;

/// The version of the definitions. The numbers of one version never change; other definitions are another version.
pub const VERSION: u32 = 1;

/// How the tree `new` differs from the tree `old` in what is kept up for years. Every delta is that of the whole change: what came
/// less what went, but for [`Measured::changed_lines`], which counts both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Measured {
    /// The version of the definitions: [`VERSION`].
    pub measure: u32,
    /// Fallback branches, added less removed.
    pub fallback_branches: i64,
    /// Packages that are depended on, added less removed.
    pub dependencies: i64,
    /// Names that other code can use, added less removed.
    pub public_interfaces: i64,
    /// The sum of McCabe's numbers of all functions, of the new less that of the old.
    pub cyclomatic_complexity: i64,
    /// Lines added and lines removed.
    pub changed_lines: i64,
    /// What made [`Measured::changed_lines`].
    pub lines: LineCount,
    /// What made [`Measured::fallback_branches`].
    pub fallbacks: FallbackChanges,
    /// What made [`Measured::cyclomatic_complexity`]: functions whose number changed, those that rose most first.
    pub functions: Vec<FunctionChange>,
    /// What made [`Measured::public_interfaces`].
    pub interfaces: InterfaceChanges,
    /// What made [`Measured::dependencies`].
    pub packages: PackageChanges,
    /// Paths whose new side is of a kind that is measured, and could not be: the numbers may be too small.
    pub unmeasurable: Vec<String>,
    /// What the numbers leave out, by path.
    pub not_measured: Vec<NotMeasured>,
}

/// By how much a count rose. A list of more than `i64::MAX` entries fits in no memory.
pub fn rise(old: usize, new: usize) -> i64 {
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    count(new) - count(old)
}

/// Files and lines that changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LineCount {
    /// Paths that changed, binary ones and changes of mode too.
    pub files: u64,
    /// Lines that came.
    pub added: u64,
    /// Lines that went.
    pub removed: u64,
    /// Paths whose content is binary on a side: they have no lines.
    pub binary: Vec<String>,
}

/// A fallback branch and its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlacedFallback {
    /// The file.
    pub path: String,
    /// The line, from 1, in the tree it is in.
    pub line: usize,
    /// Its kind.
    pub kind: FallbackKind,
    /// The function it stands in.
    pub within: String,
    /// Its first line, shortened.
    pub text: String,
}

/// Fallback branches that came and went. One that stays in its function is neither, wherever in the file that is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FallbackChanges {
    /// Those of the new tree.
    pub added: Vec<PlacedFallback>,
    /// Those of the old tree.
    pub removed: Vec<PlacedFallback>,
}

/// A function whose number changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionChange {
    /// The file.
    pub path: String,
    /// Its line in the new tree; in the old one if it went.
    pub line: usize,
    /// Its name.
    pub name: String,
    /// Its number before; null if it is new.
    pub old: Option<u32>,
    /// Its number now; null if it went.
    pub new: Option<u32>,
}

impl FunctionChange {
    /// By how much it rose.
    pub fn delta(&self) -> i64 {
        i64::from(self.new.unwrap_or(0)) - i64::from(self.old.unwrap_or(0))
    }
}

/// A name that other code can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlacedInterface {
    /// The file.
    pub path: String,
    /// The line, from 1, in the tree it is in.
    pub line: usize,
    /// What it is, in the words of its language.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
}

/// A name that promises something else than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedInterface {
    /// The file.
    pub path: String,
    /// The line, from 1, in the new tree.
    pub line: usize,
    /// What it is.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// What it promised.
    pub old: String,
    /// What it promises.
    pub new: String,
}

/// Names that came, went and changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct InterfaceChanges {
    /// Those that only the new tree has.
    pub added: Vec<PlacedInterface>,
    /// Those that only the old tree had.
    pub removed: Vec<PlacedInterface>,
    /// Those of both trees with another signature. They count as none.
    pub changed: Vec<ChangedInterface>,
}

/// One of the five numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Delta {
    /// [`Measured::fallback_branches`]
    FallbackBranches,
    /// [`Measured::dependencies`]
    Dependencies,
    /// [`Measured::public_interfaces`]
    PublicInterfaces,
    /// [`Measured::cyclomatic_complexity`]
    CyclomaticComplexity,
    /// [`Measured::changed_lines`]
    ChangedLines,
}

impl Delta {
    /// Those that need the source to be parsed.
    pub const OF_SOURCE: &[Self] =
        &[Self::FallbackBranches, Self::PublicInterfaces, Self::CyclomaticComplexity];
}

/// Why something was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Its language is none of those that are parsed; documents and data are among these, too.
    UnknownLanguage,
    /// It is no text, and has no lines.
    Binary,
    /// It is source in another encoding than UTF-8.
    NotUtf8,
    /// It is larger than what is read or parsed.
    TooLarge,
    /// Parsing it takes more work than is done for one file.
    TooComplex,
    /// The change is larger than what is parsed of one.
    ChangeTooLarge,
    /// A part of it could not be parsed: the numbers have the rest of it.
    ParseErrors,
    /// The two sides are too different to look for the shortest difference: the number is more than that.
    TooDifferent,
    /// It is a manifest or a lock file and cannot be read: its packages are left out.
    Unreadable,
    /// It names packages in a way that is not read.
    UnreadFormat,
}

impl Why {
    /// What people are told.
    pub fn told(self) -> &'static str {
        match self {
            Self::UnknownLanguage => "of a language that is not parsed, or no code",
            Self::Binary => "binary: it has no lines",
            Self::NotUtf8 => "not parsed: it is not UTF-8",
            Self::TooLarge => "too large",
            Self::TooComplex => "too complex to parse",
            Self::ChangeTooLarge => "not parsed: the change is too large",
            Self::ParseErrors => "measured in part: it does not parse everywhere",
            Self::TooDifferent => "too different to count exactly: more lines are counted than changed",
            Self::Unreadable => "cannot be read",
            Self::UnreadFormat => "names packages in a way that is not read",
        }
    }
}

/// A path that some of the numbers leave out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotMeasured {
    /// The path.
    pub path: String,
    /// The numbers.
    pub of: Vec<Delta>,
    /// Why.
    pub why: Why,
    /// What exactly is wrong with it, where there is more to say.
    pub detail: Option<String>,
}
