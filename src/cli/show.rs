use std::fmt::Write as _;

use clap::Args;
use serde_json::{Map, Value, json};

use super::Context;
use super::common::{find_loop, iteration_number, said, told_findings, verified_with};
use super::ui::{Reply, Tone};
use crate::contract::Contract;
use crate::decide::Outcome;
use crate::error::{Error, Result, ResultExt};
use crate::escape::escape_terminal;
use crate::explain::{Reasons, Watch, named};
use crate::git::Repo;
use crate::ledger::message::{one_line, subject, verb};
use crate::ledger::outside::VERDICT_NAMESPACE;
use crate::ledger::receipt::{
    CheckReceipt, CostBasis, GuardViolation, HoldoutReceipt, NoReport, Receipt, RunReceipt, SampleReceipt,
};
use crate::ledger::record::{Body, Kind};
use crate::ledger::trust::TrustRoot;
use crate::ledger::verify::{Chain, Step};
use crate::render;
use crate::render::line::plural;
use crate::sandbox::Egress;
use crate::sign::{fingerprint, sshsig};

/// The most entries of a list that are shown to a person.
const LISTED: usize = 20;

/// Show one iteration in full: what the worker did, what the check saw, what was decided and why.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The loop.
    #[arg(value_name = "ID")]
    id: String,
    /// The iteration; 0 is the baseline, the last one if left out.
    #[arg(value_name = "N", allow_hyphen_values = true)]
    iteration: Option<String>,
    /// Print this file of the record's evidence instead, for example worker.log or check.stdout.
    #[arg(long, value_name = "NAME")]
    evidence: Option<String>,
    /// Print instead which row and which stop applied, and the values that were compared.
    #[arg(long, conflicts_with = "evidence")]
    why: bool,
}

pub fn run(context: &Context, args: &ShowArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let trust = TrustRoot::open(&repo)?;
    let found = find_loop(&repo, &args.id)?;
    let asked =
        args.iteration.as_deref().map(|text| iteration_number("show", &found.id, text)).transpose()?;
    let mut wanted: Option<Step> = None;
    let mut watch = Watch::new(asked);
    // Findings as of the iteration that is shown, and what people said after it.
    let (mut findings, mut afterwards) = (Vec::new(), Vec::new());
    let chain = verified_with(&repo, &found, &trust, |step| {
        if args.why {
            watch.see(step);
        }
        let number = match &step.record.body {
            Body::Baseline(_) => 0,
            Body::Iteration(body) => body.receipt.iteration,
            Body::Finding(_) => return findings.push((step.id, step.record.clone())),
            Body::Resume(_) => return afterwards.clear(),
            _ => return afterwards.extend(said(&step.record)),
        };
        afterwards.clear();
        if asked.is_none_or(|iteration| iteration == number) {
            wanted = Some((**step).clone());
        }
    })?;
    let Some(step) = wanted else {
        let last = chain.tip.state.iteration;
        return Err(match asked {
            Some(_) => Error::usage(format!(
                "loop `{}` has no iteration {}",
                found.id,
                args.iteration.as_deref().unwrap_or_default()
            )),
            None => Error::usage(format!("loop `{}` has no iteration yet", found.id)),
        }
        .hint(format!("iterations recorded so far: {last}; see `git loop log {}`", found.id)));
    };
    if let Some(name) = &args.evidence {
        let Some((_, blob)) = step.evidence.iter().find(|(entry, _)| entry == name.as_str()) else {
            let names: Vec<String> = step.evidence.iter().map(|(name, _)| name.to_string()).collect();
            return Err(Error::usage(format!("the record has no evidence {name:?}"))
                .hint(format!("it has: {}", names.join(", "))));
        };
        let bytes = repo.read_blob(blob.0).or_workspace(|| format!("evidence {name} cannot be read"))?;
        let shown = String::from_utf8_lossy(&bytes);
        return Ok(Reply::text(escape_terminal(&shown)).paged().field("evidence", shown.as_ref()));
    }
    let mut fields = about(&chain, &step);
    if args.why {
        let Some(reasons) = watch.reasons(&chain.contract) else {
            return Err(Error::internal("the record was seen, and what it was decided by was not"));
        };
        let text = format!(
            "{}\n{}",
            context.ui.out().tone(Tone::Bold, &subject(&chain.contract, &step.record)),
            render::why::reasons(&reasons, &named_in(&step, &reasons))
        );
        if let Body::Iteration(body) = &step.record.body {
            fields.insert("decision".to_owned(), json!(body.receipt.decision));
            fields.insert("named".to_owned(), json!(named_in(&step, &reasons)));
        }
        return Ok(Reply::text(text)
            .paged()
            .status(chain.tip.state.status.as_str())
            .fields(fields)
            .field("why", json!(reasons)));
    }
    let paint = context.ui.out();
    let mut text = format!("{}\n", paint.tone(Tone::Bold, &subject(&chain.contract, &step.record)));
    let _ = writeln!(text, "  record      {} ({})", step.id, step.record.at);
    match &step.record.body {
        Body::Iteration(body) => {
            receipt(&mut text, &chain.contract, &body.receipt);
            match &body.receipt.check {
                Some(receipt) => {
                    let signer = verdict_signer(&repo, &trust, &chain, &step, receipt);
                    check(&mut text, receipt, signer.as_deref());
                    holdout(&mut text, body.receipt.holdout.as_ref());
                }
                None => {
                    let _ = writeln!(text, "  check       not run: the iteration was decided without it");
                }
            }
        }
        Body::Baseline(body) => {
            let _ = writeln!(text, "  base        {}", body.base);
            check(&mut text, &body.check, None);
            holdout(&mut text, body.holdout.as_ref());
        }
        _ => {}
    }
    for finding in told_findings(&repo, &step.state, step.id, &findings) {
        let record = finding.record_id.short();
        let _ = writeln!(text, "  finding     {} (record {record})", finding.line());
    }
    if step.state.iteration == chain.tip.state.iteration {
        for word in &afterwards {
            let _ = writeln!(text, "  {word}");
        }
    }
    let names: Vec<String> = step.evidence.iter().map(|(name, _)| name.to_string()).collect();
    if !names.is_empty() {
        let _ = writeln!(text, "  evidence    {}", names.join(", "));
    }
    let mut hints = Vec::new();
    if let Body::Iteration(body) = &step.record.body
        && body.receipt.worker.as_ref().is_some_and(|worker| worker.failure.is_some())
    {
        let (name, lines) = last_words(&repo, &step);
        for line in &lines {
            let _ = writeln!(text, "  {name:<13} {line}");
        }
        if !name.is_empty() {
            hints.push(format!("git loop show {} {} --evidence {name}", found.id, step.state.iteration));
        }
    }
    let changed = matches!(&step.record.body, Body::Iteration(body) if body.receipt.changes.count > 0);
    if step.record.kind == Kind::Iteration && changed {
        hints.push(format!("git loop diff {} {}", found.id, step.state.iteration));
    }
    let is_decided = match &step.record.body {
        Body::Iteration(body) => body.receipt.decision.outcome != Outcome::Accept,
        Body::Baseline(body) => body.check.flaky,
        _ => false,
    };
    if is_decided {
        hints.push(format!("what was compared: git loop show {} {} --why", found.id, step.state.iteration));
    }
    let mut reply = Reply::text(text);
    reply.hints = hints;
    Ok(reply
        .paged()
        .status(chain.tip.state.status.as_str())
        .fields(fields)
        .field("record", json!(step.record)))
}

/// What the row is about that gave the outcome of this iteration.
fn named_in(step: &Step, reasons: &Reasons) -> Vec<String> {
    match (&step.record.body, reasons.rows.last()) {
        (Body::Iteration(body), Some(row)) => named(row.name, &body.receipt),
        _ => Vec::new(),
    }
}

/// Which record of which loop it is about.
fn about(chain: &Chain, step: &Step) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    put("loop", json!(chain.contract.loop_id));
    put("run_id", json!(chain.contract_record));
    put("contract_id", json!(chain.contract_record.contract_id()));
    put("iteration", json!(step.state.iteration));
    put("record_id", json!(step.id));
    fields
}

/// The last lines of what a failed worker said: of its stderr, else of its stdout.
fn last_words(repo: &Repo, step: &Step) -> (&'static str, Vec<String>) {
    for name in ["worker.stderr", "worker.log"] {
        let blob = step.evidence.iter().find(|(entry, _)| entry == name).map(|(_, id)| id.0);
        let Some(bytes) = blob.and_then(|id| repo.read_blob(id).ok()) else { continue };
        let lines = render::line::tail(&bytes, 5);
        if !lines.is_empty() {
            return (name, lines);
        }
    }
    ("", Vec::new())
}

fn receipt(text: &mut String, contract: &Contract, receipt: &Receipt) {
    let decision = &receipt.decision;
    let _ = writeln!(text, "  decision    {}", verb(decision));
    if let Some(halt) = decision.halt_reason {
        let _ = writeln!(text, "  halts with  {halt} (exit {})", decision.exit_code);
    }
    let _ = writeln!(text, "  base        {}", receipt.base);
    if let Some(candidate) = receipt.candidate {
        let _ = writeln!(text, "  candidate   {candidate}");
    }
    if let Some(why) = &receipt.abandoned {
        let _ = writeln!(text, "  abandoned   {}", one_line(why, 200));
    }
    if let Some(worker) = &receipt.worker {
        run_line(text, "worker", &worker.run);
        requests_line(text, receipt.sandbox.worker_requests.as_ref());
        if let Some(failure) = &worker.failure {
            let _ = writeln!(text, "              failed: {}", one_line(failure, 200));
        }
        if let Some(summary) = &worker.summary {
            let _ = writeln!(text, "              says: {}", one_line(summary, 200));
        }
    }
    if let Some(outside) = &receipt.outside {
        let _ = writeln!(text, "  worker      ran elsewhere; its candidate was brought as {}", outside.rev);
        if let Some(summary) = &outside.summary {
            let _ = writeln!(text, "              says: {}", one_line(summary, 200));
        }
    }
    let cost = &receipt.cost;
    let _ = writeln!(text, "  cost        {}", render::status::cost(contract, cost));
    // Tokens that nobody counts may be unknown where the money is known.
    let matters = cost.basis != CostBasis::Reported || contract.limits.tokens.is_some();
    if let Some(problem) = cost.problem.as_ref().filter(|_| matters) {
        let _ = writeln!(text, "              {}", one_line(problem, 200));
    }
    let _ = writeln!(text, "  changed     {}", plural(receipt.changes.count, "path", "paths"));
    list(text, "", &receipt.changes.paths, receipt.changes.count);
    let guards = &receipt.guards;
    if guards.guards_intact {
        let _ = writeln!(text, "  guards      intact");
    }
    let more = guards.more.unwrap_or_default();
    let lists = [
        ("drift", &guards.drift, more.drift),
        ("blocked", &guards.blocked, more.blocked),
        ("tampered", &guards.tampered, more.tampered),
    ];
    for (name, list, more) in lists {
        for GuardViolation { path, what } in list.iter().take(LISTED) {
            let _ = writeln!(text, "  {name:<11} {}: {}", one_line(path, 200), one_line(what, 200));
        }
        let more = more + list.len().saturating_sub(LISTED) as u64;
        if more > 0 {
            let _ = writeln!(text, "  {:<11} and {more} more", "");
        }
    }
    list(text, "outside", &guards.outside, guards.outside.len() as u64 + more.outside);
}

/// Who signed the verdict of a check that ran elsewhere: the principal, and the key.
fn verdict_signer(
    repo: &Repo,
    trust: &TrustRoot,
    chain: &Chain,
    step: &Step,
    check: &CheckReceipt,
) -> Option<String> {
    if !chain.contract.check.external {
        return None;
    }
    let signature = step.evidence.iter().find(|(name, _)| name == "report.sig")?.1;
    let signature = repo.read_blob(signature.0).ok()?;
    let verdict = repo.read_blob(check.report?.0).ok()?;
    let by = sshsig::verify(&signature, VERDICT_NAMESPACE, &verdict).ok()?;
    let holds = |who: &&String| trust.check_in(who, &by.key, step.record.at, VERDICT_NAMESPACE).is_ok();
    let who = chain.contract.roles.verifier.iter().find(holds).map_or("?", String::as_str);
    Some(format!("{} with {}", one_line(who, 80), fingerprint(&by.key)))
}

fn check(text: &mut String, check: &CheckReceipt, verdict_signer: Option<&str>) {
    match verdict_signer {
        Some(signer) => {
            let _ = writeln!(text, "  check       ran elsewhere; verdict signed by {signer}");
            if let Some(code) = check.run.exit_code {
                let _ = writeln!(text, "              exit {code}");
            }
        }
        None => run_line(text, "check", &check.run),
    }
    if !check.runs.is_empty() {
        let told = |run: &SampleReceipt| {
            let passing = if run.passing { "passing" } else { "failing" };
            match run.metric {
                Some(metric) => format!("{metric} ({passing})"),
                None => format!("no metric ({passing})"),
            }
        };
        let runs: Vec<String> = check.runs.iter().map(told).collect();
        let _ = writeln!(text, "  runs        {}: {}", check.runs.len(), runs.join(", "));
        if let (Some(median), Some(noise)) = (check.metric, check.noise) {
            let _ = writeln!(text, "              median {median}, noise {noise}");
        }
    }
    if check.flaky {
        let _ = writeln!(
            text,
            "  flaky       the runs do not agree: on one tree they gave another verdict, or other tests"
        );
    }
    match (&check.problem, check.metric) {
        (Some(problem), _) => {
            let _ = writeln!(text, "  no verdict  {}", one_line(problem, 300));
        }
        (None, Some(metric)) => {
            let passing = if check.passing { "passing" } else { "not passing" };
            let _ = writeln!(text, "  metric      {metric}, {passing}");
        }
        (None, None) => {}
    }
    if let Some(why) = check.no_report {
        let _ = writeln!(
            text,
            "  no report   {}",
            match why {
                NoReport::NotWritten => "the check wrote none",
                NoReport::TooLarge => "it is larger than what is kept",
                NoReport::FrozenChanged =>
                    "a frozen file was changed while the check ran, so what it said counts for nothing",
                NoReport::Planted =>
                    "the file was there before the check ran, so it says nothing about this run",
            }
        );
    }
    if let Some(counts) = &check.counts {
        let _ = writeln!(
            text,
            "  tests       {} passed, {} failed, {} skipped",
            counts.passed, counts.failed, counts.skipped
        );
    }
    list(text, "regressed", &check.regressed, check.regressed.len() as u64);
    list(text, "lost", &check.lost, check.lost.len() as u64);
    list(text, "skipped", &check.newly_skipped, check.newly_skipped.len() as u64);
    if let Some(failures) = &check.failures {
        list(text, "failing", failures, failures.len() as u64);
    }
}

fn holdout(text: &mut String, holdout: Option<&HoldoutReceipt>) {
    let Some(holdout) = holdout else { return };
    run_line(text, "holdout", &holdout.run);
    let _ = writeln!(text, "              {}", render::line::holdout_told(holdout));
}

/// A line for each of the first entries, and one that says how many there are besides. The JSON has them all.
fn list(text: &mut String, name: &str, entries: &[String], count: u64) {
    for entry in entries.iter().take(LISTED) {
        let _ = writeln!(text, "  {name:<11} {}", one_line(entry, 200));
    }
    let shown = entries.len().min(LISTED) as u64;
    if count > shown {
        let _ = writeln!(text, "  {:<11} and {} more", "", count - shown);
    }
}

/// Whom a command asked for through a list of hosts.
fn requests_line(text: &mut String, requests: Option<&Egress>) {
    let Some(Egress { requests, more }) = requests else { return };
    let refused = requests.iter().filter(|request| !request.allowed).count() as u64;
    let all = requests.len() as u64 + more;
    let _ = writeln!(text, "              {}, {refused} not allowed", plural(all, "request", "requests"));
}

fn run_line(text: &mut String, name: &str, run: &RunReceipt) {
    let how = match (run.ended.as_str(), run.exit_code, run.signal) {
        ("itself", Some(code), _) => format!("exit {code}"),
        ("itself", None, Some(signal)) => format!("ended by signal {signal}"),
        ("deadline", ..) => "ran into the end of the loop's time".to_owned(),
        (other, _, _) => other.replace('_', " "),
    };
    let survivors = match run.survivors {
        0 => String::new(),
        1 => ", 1 process left behind was ended".to_owned(),
        more => format!(", {more} processes left behind were ended"),
    };
    let _ = writeln!(text, "  {name:<11} {how} after {} ms{survivors}", run.duration_ms);
}
