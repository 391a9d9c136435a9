//! A first `loop.toml` for the project that a commit holds: what is found becomes commented terms. Nothing here reads a
//! disk; whoever calls gives the paths and the few files that [`Survey::wanted`] names.
//!
//! Every pattern that is proposed matches something in the commit, and nothing is both `mutable` and `check`, so that
//! `git loop start` takes the file as it is wherever the project says how it is tested. What could not be found out is
//! marked with [`FILL_IN`].
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`survey`] | the commit as detection sees it |
//! | `detect`, `cargo`, `python`, `node`, `other` | from a survey to a [`Proposal`] |
//! | `fit` | a proposal's patterns fitted to the paths of the commit |
//! | [`agents`] | the agents that can be proposed as worker |
//! | `text` | the file |

pub mod agents;
mod cargo;
mod detect;
mod fit;
mod node;
mod other;
mod python;
pub mod survey;
#[cfg(test)]
mod tests;
mod text;

pub use agents::Agent;
pub use detect::detect;
pub use survey::Survey;
pub use text::render;

/// What marks the lines that a person has to fill in.
pub const FILL_IN: &str = "FILL IN";

/// The projects that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectKind {
    /// A cargo package or workspace.
    Cargo,
    /// Python with pytest.
    Pytest,
    /// Python with unittest.
    Unittest,
    /// A package of node with a test script.
    Node,
    /// A Go module.
    Go,
    /// CMake.
    Cmake,
    /// A makefile with a test target.
    Make,
    /// Anything else.
    Unknown,
}

impl ProjectKind {
    /// A stable word for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cargo => "cargo",
            Self::Pytest => "pytest",
            Self::Unittest => "unittest",
            Self::Node => "node",
            Self::Go => "go",
            Self::Cmake => "cmake",
            Self::Make => "make",
            Self::Unknown => "unknown",
        }
    }

    /// What people call it, with an article.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Cargo => "a Cargo project",
            Self::Pytest => "a Python project with pytest",
            Self::Unittest => "a Python project with unittest",
            Self::Node => "a Node project",
            Self::Go => "a Go module",
            Self::Cmake => "a CMake project",
            Self::Make => "a project with a makefile",
            Self::Unknown => "a project of an unknown kind",
        }
    }
}

/// A pattern of `[paths]` and why it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The pattern.
    pub text: String,
    /// Why.
    pub why: String,
}

impl Pattern {
    fn new(text: impl Into<String>, why: impl Into<String>) -> Self {
        Self { text: text.into(), why: why.into() }
    }
}

/// A command as it stands in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProposedCommand {
    /// An array.
    Args(Vec<String>),
    /// A line for a shell.
    Line(String),
}

impl ProposedCommand {
    fn args(words: &[&str]) -> Self {
        Self::Args(words.iter().map(ToString::to_string).collect())
    }
}

/// How a check says what it found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The text of `cargo test`.
    Libtest,
    /// JUnit XML in this file.
    Junit(String),
    /// The Test Anything Protocol.
    Tap,
    /// The output of `go test -json`.
    GoJson,
    /// The JSON report of jest or vitest in this file.
    Jest(String),
    /// The format `lines`.
    Lines,
    /// The exit code.
    Exit,
}

/// What a worker may leave at the top of its worktree when it builds or tests, and no preset keeps out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Litter {
    /// The path.
    pub path: &'static str,
    /// Whether it is a folder.
    pub is_dir: bool,
}

/// The terms that fit a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The project.
    pub kind: ProjectKind,
    /// The file that it was recognised by, if any.
    pub found_by: Option<String>,
    /// `paths.mutable`.
    pub mutable: Vec<Pattern>,
    /// `paths.check`.
    pub check: Vec<Pattern>,
    /// `check.command`.
    pub command: ProposedCommand,
    /// Why that command.
    pub command_why: String,
    /// `check.format`, `check.report` and `[metric]`.
    pub verdict: Verdict,
    /// `check.env`, with the reason for each.
    pub env: Vec<(&'static str, String, &'static str)>,
    /// Lines that are only proposed, as comments: the table, the line, the reason.
    pub commented: Vec<(&'static str, &'static str, String)>,
    /// `worktree.warm`, with the reason for each.
    pub warm: Vec<(&'static str, &'static str)>,
    /// Keys that a person has to fill in, besides the worker's command.
    pub fill_in: Vec<&'static str>,
    /// What a person should know besides.
    pub notes: Vec<String>,
    /// What ought to be ignored.
    pub litter: Vec<Litter>,
}

impl Proposal {
    fn new(kind: ProjectKind, found_by: Option<&str>, command: ProposedCommand, verdict: Verdict) -> Self {
        Self {
            kind,
            found_by: found_by.map(ToOwned::to_owned),
            mutable: Vec::new(),
            check: Vec::new(),
            command,
            command_why: String::new(),
            verdict,
            env: Vec::new(),
            commented: Vec::new(),
            warm: Vec::new(),
            fill_in: Vec::new(),
            notes: Vec::new(),
            litter: Vec::new(),
        }
    }

    fn mutable(&mut self, text: impl Into<String>, why: impl Into<String>) {
        push(&mut self.mutable, Pattern::new(text, why));
    }

    fn check(&mut self, text: impl Into<String>, why: impl Into<String>) {
        push(&mut self.check, Pattern::new(text, why));
    }

    /// Freezes each of these files that the commit has.
    fn check_files(&mut self, survey: &Survey, files: &[(&str, &str)]) {
        for (file, why) in files {
            if survey.has(file) {
                self.check(*file, *why);
            }
        }
    }
}

fn push(list: &mut Vec<Pattern>, pattern: Pattern) {
    if !list.iter().any(|known| known.text == pattern.text) {
        list.push(pattern);
    }
}

/// Who the loop belongs to: principals of the trust file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Principals {
    /// Whose key runs the loop, where that is a key of its own.
    pub runner: Option<String>,
    /// The person.
    pub user: Option<String>,
}
