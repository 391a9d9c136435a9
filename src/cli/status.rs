use std::fmt::Write as _;

use clap::Args;
use serde_json::json;

use super::Context;
use super::common::{Proof, find_or_only, result_fields, verified_with};
use super::ui::{Reply, Tone};
use crate::at::At;
use crate::decide;
use crate::error::Result;
use crate::ledger::append::Tip;
use crate::ledger::message::one_line;
use crate::ledger::record::Status;
use crate::ledger::trust::TrustRoot;
use crate::render::status::next_step;

/// Show where a loop stands, why, and what to do next.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The loop; may be left out if there is only one.
    #[arg(value_name = "ID")]
    id: Option<String>,
}

pub fn run(context: &Context, args: &StatusArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let trust = TrustRoot::open(&repo)?;
    let found = find_or_only(&repo, args.id.as_deref())?;
    let mut proof = Proof::default();
    let chain = verified_with(&repo, &found, &trust, |step| proof.see(step))?;
    for warning in &chain.warnings {
        context.ui.warn(warning);
    }
    let tip = Tip::from(chain.into_inner());
    let state = &tip.state;
    let paint = context.ui.out();
    let tone = match state.status {
        Status::Active | Status::AwaitingReview => Tone::Warn,
        Status::Succeeded => Tone::Good,
        Status::Stopped | Status::Blocked => Tone::Bad,
    };
    let now = At::now();
    let left = decide::remaining(&tip.contract, state, state.elapsed_seconds(now));
    let limits = &tip.contract.limits;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}  {}",
        paint.tone(Tone::Bold, &tip.contract.loop_id),
        paint.tone(tone, &state.status.as_str().replace('_', " "))
    );
    let _ = writeln!(text, "  objective   {}", one_line(&tip.contract.objective, 200));
    let _ = writeln!(
        text,
        "  {:<11} {} (baseline {}, target {} {})",
        one_line(&tip.contract.metric.name, 30),
        number(state.best_metric),
        number(state.baseline.as_ref().and_then(|baseline| baseline.metric)),
        tip.contract.metric.target,
        tip.contract.metric.direction.as_str(),
    );
    let _ = writeln!(text, "  iterations  {} of {}", state.iteration, limits.iterations);
    let _ = writeln!(text, "  spent       ${} of ${}", state.cumulative_usd, limits.cost_usd);
    let _ = writeln!(text, "  time left   {} of {}", span(left.seconds), span(limits.duration_seconds));
    let _ = writeln!(text, "  green       {}", state.last_green_commit);
    if let Some(open) = &state.checkpoint {
        let _ = writeln!(
            text,
            "  under way   iteration {} in environment {}",
            open.iteration, open.environment_id
        );
    }
    if let Some(reason) = state.halt_reason {
        let _ = writeln!(
            text,
            "  halted      {reason} (exit {}), left by: {}",
            reason.exit_code(),
            reason.left_by()
        );
    }
    for approval in &state.approvals {
        let _ = writeln!(
            text,
            "  approved    by {} (record {})",
            one_line(&approval.principal, 80),
            approval.seq
        );
    }
    let _ = writeln!(text, "  ledger tip  {} (record {})", tip.id, tip.seq);
    context.ui.hint(&next_step(&tip.record, state));
    Ok(Reply::text(text)
        .status(state.status.as_str())
        .fields(result_fields(&tip, proof.ids()))
        .field("phase", json!(state.phase))
        .field("remaining", json!(left))
        .field("state", json!(state)))
}

fn number(metric: Option<f64>) -> String {
    metric.map_or_else(|| "none".to_owned(), |metric| metric.to_string())
}

/// Seconds as people say them.
pub fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}
