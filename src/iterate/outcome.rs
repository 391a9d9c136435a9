//! What came of a command, as a receipt says it.

use std::ffi::OsString;

use crate::contract::Usage;
use crate::ledger::receipt::{CostBasis, CostReceipt, RunReceipt};
use crate::ledger::rederive::NOT_STARTED;
use crate::sandbox::{Ended, Exit, Outcome};
use crate::worker::usage::{self, Basis, UsageKind};

/// How the contract's worker says what it used.
pub(super) fn usage_kind(usage: Usage) -> UsageKind {
    match usage {
        Usage::Claude => UsageKind::Claude,
        Usage::Codex => UsageKind::Codex,
        Usage::Gemini => UsageKind::Gemini,
        Usage::Opencode => UsageKind::Opencode,
        Usage::Aider => UsageKind::Aider,
        Usage::Json => UsageKind::Json,
        Usage::None => UsageKind::None,
    }
}

pub(super) fn cost_receipt(usage: usage::Usage) -> CostReceipt {
    CostReceipt {
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        usd: usage.usd,
        basis: match usage.basis {
            Basis::None => CostBasis::None,
            Basis::Reported => CostBasis::Reported,
            Basis::Unknown => CostBasis::Unknown,
        },
        problem: usage.problem,
    }
}

pub(super) fn run_receipt(argv: &[OsString], outcome: &Outcome, is_deadline: bool) -> RunReceipt {
    let (exit_code, signal) = match outcome.exit {
        Exit::Code(code) => (Some(code), None),
        Exit::Signal(signal) => (None, Some(signal)),
    };
    let ended = match outcome.ended {
        Ended::Itself => "itself",
        Ended::TimedOut if is_deadline => "deadline",
        Ended::TimedOut => "timed_out",
        Ended::Idle => "idle_timeout",
        Ended::OutputLimit => "output_limit",
        Ended::DiskLimit => "disk_limit",
        Ended::Interrupted => "interrupted",
    };
    RunReceipt {
        command: argv.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        exit_code,
        signal,
        ended: ended.to_owned(),
        duration_ms: u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
        survivors: outcome.survivors,
    }
}

/// The receipt of a command that could not be started: what a shell says of it.
pub(super) fn not_started(argv: &[OsString]) -> RunReceipt {
    RunReceipt {
        command: argv.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        exit_code: Some(NOT_STARTED),
        signal: None,
        ended: "itself".to_owned(),
        duration_ms: 0,
        survivors: 0,
    }
}

/// Why a worker's run counts as failed.
pub(super) fn failure(run: &RunReceipt) -> Option<String> {
    match (run.ended.as_str(), run.exit_code, run.signal) {
        ("itself", Some(0), _) => None,
        ("itself", Some(code), _) => Some(format!("it exited with {code}")),
        ("itself", None, Some(signal)) => Some(format!("signal {signal} ended it")),
        ("timed_out", ..) => Some("it timed out".to_owned()),
        ("deadline", ..) => Some("it ran into the end of the loop's time".to_owned()),
        ("idle_timeout", ..) => Some("it printed nothing for too long".to_owned()),
        ("output_limit", ..) => Some("it printed too much".to_owned()),
        ("disk_limit", ..) => Some("its folders held more than sandbox.disk".to_owned()),
        _ => Some("it was interrupted".to_owned()),
    }
}
