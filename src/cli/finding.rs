use std::fmt::Write as _;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::Context;
use super::common::{LoopHere, author, find_loop, result_fields, told_findings, verified_with};
use super::ui::Reply;
use crate::at::At;
use crate::error::{Error, Kind, Result};
use crate::git::Repo;
use crate::ledger::append::{Tip, draft, publish};
use crate::ledger::message::one_line;
use crate::ledger::record::{Body, FindingAction, FindingBody, Record, Role, Severity};
use crate::ledger::trust::TrustRoot;
use crate::oid::Oid;
use crate::render::status::next_step;

/// How often a runner may be faster than we are before we give up.
const ATTEMPTS: usize = 20;

/// Say what is wrong with a loop, on the record, or that it is settled.
///
/// While a finding that blocks is open nothing is accepted, no worker is started and nothing is promoted. A loop that halted for it goes
/// on with `git loop run` once it is resolved. Findings are signed by a reviewer.
#[derive(Debug, Args)]
pub struct FindingArgs {
    /// The loop.
    #[arg(value_name = "ID")]
    id: String,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add a finding.
    Add {
        /// Whether it stops the loop.
        #[arg(long, value_enum)]
        severity: Weight,
        /// What is wrong.
        #[arg(long, value_name = "TEXT")]
        message: String,
    },
    /// Resolve a finding.
    Resolve {
        /// The record of the finding: its commit, or the beginning of it.
        #[arg(value_name = "RECORD")]
        record: String,
        /// How it was settled.
        #[arg(long, value_name = "TEXT")]
        message: String,
    },
    /// List the open findings.
    List,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Weight {
    /// Nothing is accepted or promoted while it is open.
    Block,
    /// It is worth knowing.
    Warn,
}

pub fn run(context: &Context, args: &FindingArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let trust = TrustRoot::open(&repo)?;
    match &args.action {
        Action::Add { severity, message } => {
            said(message)?;
            let severity = match severity {
                Weight::Block => Severity::Block,
                Weight::Warn => Severity::Warn,
            };
            append(context, &repo, &trust, &args.id, |_, _| {
                let message = message.clone();
                Ok(FindingBody { action: FindingAction::Add, finding: None, severity, message })
            })
        }
        Action::Resolve { record, message } => {
            said(message)?;
            append(context, &repo, &trust, &args.id, |tip, _| {
                let (finding, severity) = open_finding(tip, record)?;
                let message = message.clone();
                Ok(FindingBody { action: FindingAction::Resolve, finding: Some(finding), severity, message })
            })
        }
        Action::List => list(&repo, &trust, &args.id),
    }
}

fn said(message: &str) -> Result<()> {
    if message.trim().is_empty() {
        return Err(Error::usage("--message is empty").hint("say it in a sentence"));
    }
    Ok(())
}

/// Appends what `body` makes of the tip, after whatever a runner appends meanwhile.
fn append(
    context: &Context,
    repo: &Repo,
    trust: &TrustRoot,
    id: &str,
    body: impl Fn(&Tip, &[(Oid, Record)]) -> Result<FindingBody>,
) -> Result<Reply> {
    let signer = context.signer(repo)?;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let (found, tip, findings) = look(repo, trust, id)?;
        if tip.state.status == crate::ledger::record::Status::Succeeded {
            return Err(Error::refused(format!("loop `{id}` is promoted; no finding is taken any more")));
        }
        if tip.state.released {
            return Err(Error::refused(format!("loop `{id}` is released; no finding is taken any more")));
        }
        let author = author(&signer, trust, &tip.contract, Role::Reviewer)?;
        let body = body(&tip, &findings)?;
        let (action, severity) = (body.action, body.severity);
        let finding = body.finding;
        let next =
            draft(repo, &author, &tip, Role::Reviewer, |_| Body::Finding(body), Vec::new(), At::now())?;
        match publish(repo, found.id.refs(), Some(tip.id), &next, Vec::new(), "loop: finding") {
            Ok(()) => {
                repo.settle()?;
                let text = match (action, finding) {
                    (FindingAction::Resolve, Some(finding)) => {
                        format!(
                            "resolved finding {} of {} as {}\n",
                            finding.short(),
                            found.id,
                            author.principal
                        )
                    }
                    _ => format!(
                        "added finding {} ({}) to {} as {}\n",
                        next.id.short(),
                        severity.as_str(),
                        found.id,
                        author.principal
                    ),
                };
                return Ok(Reply::text(text)
                    .hint(next_step(&next.contract, &next.record, &next.state))
                    .status(next.state.status.as_str())
                    .fields(result_fields(&next, &[next.id]))
                    .field("record_id", json!(next.id)));
            }
            // The runner appended a record between our look and our write; look again.
            Err(error) if attempt < ATTEMPTS && error.kind() == Kind::Workspace => {}
            Err(error) => return Err(error),
        }
    }
}

/// A loop with its verified tip and its findings.
type Looked = (LoopHere, Tip, Vec<(Oid, Record)>);

/// The verified tip of a loop, and its findings.
fn look(repo: &Repo, trust: &TrustRoot, id: &str) -> Result<Looked> {
    let found = find_loop(repo, id)?;
    let mut findings = Vec::new();
    let chain = verified_with(repo, &found, trust, |step| {
        if let Body::Finding(_) = &step.record.body {
            findings.push((step.id, step.record.clone()));
        }
    })?;
    Ok((found, Tip::from(chain.into_inner()), findings))
}

/// The open findings with the id of each one's record.
fn open_findings(tip: &Tip) -> Vec<(Oid, Severity)> {
    tip.state.findings.iter().map(|open| (open.record.unwrap_or(tip.id), open.severity)).collect()
}

fn open_finding(tip: &Tip, named: &str) -> Result<(Oid, Severity)> {
    let id = &tip.contract.loop_id;
    let open = open_findings(tip);
    let enough = named.len() >= 4;
    let mut fitting = open.iter().filter(|(record, _)| enough && record.to_string().starts_with(named));
    match (fitting.next(), fitting.next()) {
        (Some(one), None) => Ok(*one),
        (Some(_), Some(_)) => {
            Err(Error::usage(format!("{named:?} fits more than one open finding of loop `{id}`"))
                .hint(format!("see them: git loop finding {id} list")))
        }
        (None, _) => {
            Err(Error::usage(format!("loop `{id}` has no open finding {named:?}")).hint(if open.is_empty() {
                "none is open".to_owned()
            } else {
                format!("see them: git loop finding {id} list")
            }))
        }
    }
}

fn list(repo: &Repo, trust: &TrustRoot, id: &str) -> Result<Reply> {
    let (found, tip, findings) = look(repo, trust, id)?;
    let mut text = String::new();
    let open = told_findings(repo, &tip.state, tip.id, &findings);
    for told in &open {
        let _ = writeln!(
            text,
            "{} {} {:<5} {}: {}",
            told.record_id.short(),
            told.at,
            told.severity,
            one_line(&told.principal, 60),
            one_line(&told.message, 200)
        );
    }
    if text.is_empty() {
        let _ = writeln!(text, "no finding of {} is open", found.id);
    }
    Ok(Reply::text(text)
        .paged()
        .status(tip.state.status.as_str())
        .field("loop", found.id.as_str())
        .field("run_id", json!(tip.contract_record))
        .field("contract_id", json!(tip.contract_record.contract_id()))
        .field("findings", json!(open)))
}
