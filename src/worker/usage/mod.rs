//! What a worker run used: `worker.usage` of the contract, and how it is read.
//!
//! Absent is not zero: what cannot be read is unknown, and the contract says what an unknown cost means. An explicit
//! zero is a known amount.

mod aider;
mod amount;
mod claude;
mod codex;
mod events;
mod evidence;
mod gemini;
mod opencode;
mod tally;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::check::{excerpt, nearest};
use crate::error::Error;
use crate::money::MicroUsd;

/// How a worker tells what it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsageKind {
    /// The contract declares that the worker costs nothing.
    #[default]
    None,
    /// `cost = { prompt_tokens, completion_tokens, usd }` in the evidence file.
    Json,
    /// The output of `claude -p --output-format json` or `stream-json`.
    Claude,
    /// The output of `codex exec --json`.
    Codex,
    /// The output of `gemini --output-format json` or `stream-json`.
    Gemini,
    /// The output of `opencode run --format json`.
    Opencode,
    /// The output of aider, or its analytics log.
    Aider,
}

impl UsageKind {
    /// Every kind.
    pub const ALL: &[Self] =
        &[Self::None, Self::Json, Self::Claude, Self::Codex, Self::Gemini, Self::Opencode, Self::Aider];

    /// The name in `loop.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Json => "json",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Aider => "aider",
        }
    }

    /// The kind of that name.
    pub fn parse_name(name: &str) -> Result<Self, UsageKindError> {
        if let Some(kind) = Self::ALL.iter().find(|kind| kind.name() == name) {
            return Ok(*kind);
        }
        let known = Self::ALL.iter().map(|kind| kind.name());
        Err(UsageKindError::Unknown { name: name.to_owned(), nearest: nearest(name, known) })
    }

    /// Whether the worker's standard output is read for it.
    pub fn reads_output(self) -> bool {
        !matches!(self, Self::None | Self::Json)
    }
}

/// Why a name is not a usable [`UsageKind`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UsageKindError {
    /// No kind has this name.
    #[error("unknown usage parser `{name}`")]
    Unknown {
        /// The name that was given.
        name: String,
        /// The known name that is most like it.
        nearest: Option<&'static str>,
    },
}

impl From<UsageKindError> for Error {
    fn from(error: UsageKindError) -> Self {
        let hint = match &error {
            UsageKindError::Unknown { nearest: Some(nearest), .. } => format!("did you mean `{nearest}`?"),
            UsageKindError::Unknown { nearest: None, .. } => {
                let names: Vec<_> = UsageKind::ALL.iter().map(|kind| kind.name()).collect();
                format!("use one of {}", names.join(", "))
            }
        };
        Self::usage(error.to_string()).hint(hint)
    }
}

/// Where the cost of a worker run comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The contract declares that there is none.
    None,
    /// The worker said so.
    Reported,
    /// It is not known.
    Unknown,
}

/// What a worker run used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// Tokens that went in; `None` if that is not known.
    pub prompt_tokens: Option<u64>,
    /// Tokens that came out; `None` if that is not known.
    pub completion_tokens: Option<u64>,
    /// The cost; `None` exactly if `basis` is [`Basis::Unknown`].
    pub usd: Option<MicroUsd>,
    /// Where the cost comes from.
    pub basis: Basis,
    /// The models that the agent's own output names, that of the main conversation first.
    pub models: Vec<NamedModel>,
    /// Why something is not known.
    pub problem: Option<String>,
}

impl Usage {
    /// Nothing is known, and `problem` says why.
    fn unknown(problem: impl Into<String>) -> Self {
        Self {
            prompt_tokens: None,
            completion_tokens: None,
            usd: None,
            basis: Basis::Unknown,
            models: Vec::new(),
            problem: Some(problem.into()),
        }
    }
}

/// A model as an agent's output names it. Nothing is derived from it yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedModel {
    /// Who serves it, where the format of the output tells.
    pub provider: Option<String>,
    /// The name.
    pub model: String,
}

/// What a worker printed on its standard output.
#[derive(Debug, Clone, Copy)]
pub struct Printed<'a> {
    /// The bytes that are kept.
    pub text: &'a [u8],
    /// Whether bytes between them were not kept.
    pub is_cut: bool,
}

impl Printed<'_> {
    /// No output at all.
    pub const fn nothing() -> Self {
        Self { text: b"", is_cut: false }
    }
}

/// Reads what a worker run used.
pub fn parse(kind: UsageKind, stdout: Printed<'_>, evidence_json: Option<&[u8]>) -> Usage {
    let events = if kind.reads_output() { events::events(stdout.text) } else { Vec::new() };
    let mut usage = match kind {
        UsageKind::None => {
            return Usage {
                prompt_tokens: Some(0),
                completion_tokens: Some(0),
                usd: Some(MicroUsd::ZERO),
                basis: Basis::None,
                models: Vec::new(),
                problem: None,
            };
        }
        UsageKind::Json => return evidence::read(evidence_json),
        UsageKind::Claude => claude::read(&events),
        UsageKind::Codex => codex::read(&events),
        UsageKind::Gemini => gemini::read(&events),
        UsageKind::Opencode => opencode::read(&events),
        UsageKind::Aider => aider::read(stdout.text, &events),
    };
    // The first three report totals at their end, which is kept; the others each step's own.
    if stdout.is_cut && matches!(kind, UsageKind::Opencode | UsageKind::Aider) {
        let models = std::mem::take(&mut usage.models);
        usage = Usage {
            models,
            ..Usage::unknown("the worker printed too much: reports in the middle of it were not kept")
        };
    }
    usage
}

/// The problems as one text, each once, and not more than a reader takes in.
fn problem(problems: Vec<String>) -> Option<String> {
    const MOST: usize = 5;
    let mut distinct: Vec<String> = Vec::new();
    for problem in problems {
        if !distinct.contains(&problem) && distinct.len() < MOST {
            distinct.push(problem);
        }
    }
    if distinct.is_empty() { None } else { Some(distinct.join("; ")) }
}

/// Names that an agent printed, for a message.
fn excerpt_list(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().take(3).map(|name| format!("`{}`", excerpt(name))).collect();
    names.join(", ")
}
