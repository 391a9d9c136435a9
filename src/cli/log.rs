use std::fmt::Write as _;

use clap::Args;
use serde_json::json;

use super::Context;
use super::common::{find_or_only, verified_with};
use super::ui::{Paint, Reply, Tone};
use crate::decide::Outcome;
use crate::error::Result;
use crate::ledger::message::{one_line, subject};
use crate::ledger::record::{Body, FindingAction, Record, Severity, Verdict};
use crate::ledger::trust::TrustRoot;

/// Tell what happened, record by record.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// The loop; may be left out if there is only one.
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Newest first, as git log.
    #[arg(long)]
    reverse: bool,
    /// Only the last N records. The whole ledger is verified all the same.
    #[arg(short = 'n', long, value_name = "N")]
    max_count: Option<usize>,
}

pub fn run(context: &Context, args: &LogArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let trust = TrustRoot::open(&repo)?;
    let found = find_or_only(&repo, args.id.as_deref())?;
    let mut steps = Vec::new();
    let chain = verified_with(&repo, &found, &trust, |step| steps.push((step.id, step.record.clone())))?;
    let left_out = steps.len().saturating_sub(args.max_count.unwrap_or(usize::MAX));
    steps.drain(..left_out);
    if args.reverse {
        steps.reverse();
    }
    let paint = context.ui.out();
    let mut text = String::new();
    let mut records = Vec::new();
    for (id, record) in &steps {
        let mut line = subject(&chain.contract, record);
        let words = match &record.body {
            Body::Review(body) => body.comment.as_deref(),
            Body::Halt(body) => body.message.as_deref(),
            Body::Finding(body) => Some(body.message.as_str()),
            _ => None,
        };
        if let Some(words) = words {
            let _ = write!(line, ": {}", one_line(words, 200));
        }
        let _ = writeln!(
            text,
            "{} {} {:>3}  {}",
            paint.tone(Tone::Dim, &id.short()),
            paint.tone(Tone::Dim, &record.at.to_string()),
            record.seq,
            tint(paint, record, &line)
        );
        records.push(json!({
            "seq": record.seq, "id": id, "kind": record.kind, "at": record.at, "actor": record.actor, "subject": line,
        }));
    }
    Ok(Reply::text(text)
        .paged()
        .status(chain.tip.state.status.as_str())
        .field("loop", found.id.as_str())
        .field("run_id", json!(chain.contract_record))
        .field("contract_id", json!(chain.contract_record.contract_id()))
        .field("left_out", left_out)
        .field("records", records))
}

fn tint(paint: Paint, record: &Record, line: &str) -> String {
    let tone = match &record.body {
        Body::Iteration(body) => match body.receipt.decision.outcome {
            Outcome::Accept => Tone::Good,
            Outcome::Reject => Tone::Warn,
            Outcome::Blocked => Tone::Bad,
        },
        Body::Halt(_) => Tone::Bold,
        Body::Review(body) if body.verdict == Verdict::Reject => Tone::Bad,
        Body::Review(_) | Body::Promotion(_) | Body::Release(_) => Tone::Good,
        Body::Finding(body) => match (body.action, body.severity) {
            (FindingAction::Resolve, _) => Tone::Good,
            (FindingAction::Add, Severity::Block) => Tone::Bad,
            (FindingAction::Add, Severity::Warn) => Tone::Warn,
        },
        _ => return line.to_owned(),
    };
    paint.tone(tone, line)
}
