use std::fmt::Write as _;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::Context;
use super::common::{Proof, find_or_only, head_warning, result_fields, said, told_findings, verified_with};
use super::ui::{Reply, Tone};
use crate::at::At;
use crate::decide;
use crate::error::Result;
use crate::escape::shell_word;
use crate::git::LoopLock;
use crate::iterate::advice::{obstacles_in_sight, would_stop};
use crate::iterate::output;
use crate::ledger::append::Tip;
use crate::ledger::message::one_line;
use crate::ledger::record::{Body, Status};
use crate::ledger::state::Phase;
use crate::ledger::trust::TrustRoot;
use crate::render::line::{bytes, plural, span};
use crate::render::status::{is_to_be_run, next_step, spent, why};

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
    let (mut words, mut findings) = (Vec::new(), Vec::new());
    let chain = verified_with(&repo, &found, &trust, |step| {
        proof.see(step);
        match &step.record.body {
            Body::Finding(_) => findings.push((step.id, step.record.clone())),
            // What was said to end it is over once it goes on.
            Body::Resume(_) => words.clear(),
            _ => words.extend(said(&step.record)),
        }
    })?;
    for warning in &chain.warnings {
        context.ui.warn(warning);
    }
    let tip = Tip::from(chain.into_inner());
    let state = &tip.state;
    if let Some(warning) = head_warning(&repo, &found.id, state) {
        context.ui.warn(&warning);
    }
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
    if let Some(renewal) = &tip.contract.renewal {
        let terms: Vec<&str> = renewal.changed.iter().map(|changed| changed.term.as_str()).collect();
        let changed =
            if terms.is_empty() { String::new() } else { format!(", with other {}", terms.join(", ")) };
        let _ = writeln!(text, "  renews      {}{}", renewal.loop_id, one_line(&changed, 200));
    }
    let measured = match state.best_metric {
        Some(best) => {
            format!("{best} (baseline {}, ", number(state.baseline.as_ref().and_then(|base| base.metric)))
        }
        None => "not measured (".to_owned(),
    };
    let _ = writeln!(
        text,
        "  {:<11} {}: {measured}target {} {})",
        "metric",
        one_line(&tip.contract.metric.name, 40),
        tip.contract.metric.target,
        tip.contract.metric.direction.as_str(),
    );
    let _ = writeln!(text, "  iterations  {} of {}", state.iteration, limits.iterations);
    let _ = writeln!(text, "  spent       {}", spent(&tip.contract, state));
    let seconds = limits.duration_seconds;
    let _ = if state.phase == Phase::Halted {
        let used = state.elapsed_seconds(now);
        writeln!(text, "  time used   {} of {}", span(used), span(seconds))
    } else {
        writeln!(text, "  time left   {} of {}", span(left.seconds), span(seconds))
    };
    if let Some(red) = state.counters.holdout_red {
        let said = if red == 0 {
            "not red so far".to_owned()
        } else {
            format!("red {}", plural(u64::from(red), "time", "times"))
        };
        let _ = writeln!(text, "  holdout     {said}");
    }
    let _ = writeln!(text, "  green       {}", state.last_green_commit);
    if let Some(open) = &state.checkpoint {
        let _ = writeln!(
            text,
            "  under way   iteration {} in environment {}",
            open.iteration, open.environment_id
        );
    }
    let printed = output::look(repo.common_dir(), &found.id);
    if !printed.live.is_empty() {
        let runs = LoopLock::holder(repo.common_dir(), &found.id).is_ok_and(|holder| holder.is_some());
        let word = if runs { "watch       tail -F" } else { "printed     by a runner that has ended:" };
        let files: Vec<String> =
            printed.live.iter().map(|path| shell_word(&path.to_string_lossy())).collect();
        let _ = writeln!(text, "  {word} {}", files.join(" "));
    }
    for kept in printed.kept.iter().rev() {
        let (what, size, path) = (kept.what(), bytes(kept.bytes), kept.path.display());
        let _ = writeln!(text, "  printed     by {what}, whose runner was killed ({size}): {path}");
    }
    if let Some(lease) = &state.lease {
        let (who, host) = (one_line(&lease.principal, 60), &lease.host);
        let over = if lease.holds_at(now) { "" } else { ", which is over" };
        let _ = writeln!(text, "  lease       {who} on {host} until {}{over}", lease.until);
    }
    if let Some(reason) = state.halt_reason {
        let _ = writeln!(text, "  halted      {reason} (exit {})", reason.exit_code());
    }
    if let Some(why) = why(&tip.contract, state) {
        let _ = writeln!(text, "              {why}");
    }
    let findings = told_findings(&repo, state, tip.id, &findings);
    for finding in &findings {
        let _ = writeln!(text, "  finding     {} (record {})", finding.line(), finding.record_id.short());
    }
    for word in &words {
        let _ = writeln!(text, "  {word}");
    }
    let _ = writeln!(text, "  ledger tip  {} (record {})", tip.id, tip.seq);
    let mut reply = Reply::text(text);
    if is_to_be_run(&tip.contract, &tip.record, state) {
        // Whoever only looks needs none of it; whoever follows the hint below does.
        let key = context.find_key(&repo).err().map(|error| would_stop(&error));
        for obstacle in key.into_iter().chain(obstacles_in_sight(&repo, &context.host, &tip.contract)) {
            reply = reply.hint(obstacle);
        }
    }
    Ok(reply
        .hint(next_step(&tip.contract, &tip.record, state))
        .status(state.status.as_str())
        .fields(result_fields(&tip, proof.ids()))
        .field("phase", json!(state.phase))
        .field("remaining", json!(left))
        .field("printed", told(&printed))
        .field("findings", json!(findings))
        .field("lease", json!(state.lease))
        .field("state", json!(state)))
}

/// Where what steps printed is, and is not recorded.
fn told(printed: &output::Found) -> Value {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let kept = printed
        .kept
        .iter()
        .map(|one| json!({ "iteration": one.iteration, "path": path(&one.path), "bytes": one.bytes }));
    let live = printed.live.iter().map(|one| path(one));
    json!({ "live": live.collect::<Vec<_>>(), "kept": kept.collect::<Vec<_>>() })
}

fn number(metric: Option<f64>) -> String {
    metric.map_or_else(|| "none".to_owned(), |metric| metric.to_string())
}
