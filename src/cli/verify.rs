use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use clap::Args;
use serde_json::json;

use super::Context;
use super::common::{BadRef, LoopHere, NO_LOOPS, all_loops_and_bad_refs, find_loop, head_warning};
use super::ui::{Reply, Tone};
use crate::at::At;
use crate::contract::RenewalTerms;
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::git::{LoopId, Repo};
use crate::ledger::trust::TrustRoot;
use crate::ledger::verify::{Chain, verify_and_measure};
use crate::oid::Oid;
use crate::render::line::plural;

/// Verify signatures, roles, chain, fold and every decision again, offline.
///
/// Nothing but the objects of this repository and your own allowed-signers file is used. Exit code 20 says that a
/// ledger does not verify.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The loops to verify.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Verify every loop of this repository.
    #[arg(long, conflicts_with = "ids")]
    all: bool,
}

/// What the objects alone cannot show.
const BELIEVED: &[&str] = &[
    "how worker and check ended (exit code, signal, duration), and that the report is of that run",
    "that a holdout was run on the candidate, and what it said",
    "how the commands of lasting code ended, and in a build without `measure` what was measured",
    "why an iteration was interrupted, and what could not enter a candidate",
    "what isolation was enforced",
    "what the worker reported as its cost",
    "which agent and model worked on or reviewed lasting code",
    "that refs, config and hooks were left alone while the worker ran",
];

/// The loops to verify, and the refs that are bad.
fn wanted(repo: &Repo, args: &VerifyArgs) -> Result<(Vec<LoopHere>, Vec<BadRef>)> {
    let (all, mut bad) = all_loops_and_bad_refs(repo)?;
    if args.all {
        return Ok((all, bad));
    }
    let (mut loops, mut ids) = (Vec::new(), HashSet::new());
    for argument in &args.ids {
        if let Ok(id) = argument.parse::<LoopId>()
            && bad.iter().any(|bad| id.refs().ledger().as_bstr() == bad.name.as_str())
        {
            ids.insert(id);
            continue;
        }
        let found = find_loop(repo, argument)?;
        if ids.insert(found.id.clone()) {
            loops.push(found);
        }
    }
    bad.retain(|bad| bad.id.as_ref().is_some_and(|id| ids.contains(id)));
    Ok((loops, bad))
}

/// What is wrong with a ref, without its name in front.
pub(super) fn told(name: &str, error: &Error) -> String {
    let text = error.chain();
    text.strip_prefix(name).map_or(text.clone(), |rest| rest.trim_start_matches([':', ' ']).to_owned())
}

pub fn run(context: &Context, args: &VerifyArgs) -> Result<Reply> {
    if args.ids.is_empty() && !args.all {
        return Err(
            Error::usage("which loop?").hint("every loop: git loop verify --all; one: git loop verify ID")
        );
    }
    let repo = context.repo_to_look_at()?;
    let trust = TrustRoot::open(&repo)?;
    let (loops, bad) = wanted(&repo, args)?;
    if loops.is_empty() && bad.is_empty() {
        return Ok(Reply::text("no loops to verify\n").field("loops", json!([])).hint(NO_LOOPS));
    }
    let paint = context.ui.out();
    let mut text = String::new();
    let mut list = Vec::new();
    let mut failed: Vec<Error> = Vec::new();
    let mut said = HashSet::new();
    let mut held = Held::new();
    for found in &loops {
        let whole = verify_and_measure(&repo, &found.id, found.tip.0, &trust, At::now(), |_| {});
        let whole = whole.map_err(Error::from).and_then(|chain| {
            let line = ancestors(&repo, &chain, &trust, &mut held)?;
            Ok((chain, line))
        });
        match whole {
            Ok((chain, line)) => {
                let mut warnings = chain.warnings.clone();
                // A head that is none is told of as a bad ref.
                if !bad.iter().any(|bad| bad.id.as_ref() == Some(&found.id)) {
                    warnings.extend(head_warning(&repo, &found.id, &chain.tip.state));
                }
                for warning in &warnings {
                    // One sentence about the trust file is enough, however many loops it is about.
                    if said.insert(warning.clone()) {
                        context.ui.warn(&format!("{}: {warning}", found.id));
                    }
                }
                let _ = writeln!(
                    text,
                    "{} {}: {} and {}; ledger tip {}",
                    paint.tone(Tone::Good, "ok"),
                    found.id,
                    plural(chain.records, "record", "records"),
                    plural(chain.decisions, "decision holds", "decisions hold"),
                    found.tip
                );
                for parent in &line {
                    let _ =
                        writeln!(text, "   {}: renews {parent}, whose ledger holds up to there", found.id);
                }
                list.push(json!({
                    "loop": found.id.as_str(), "ok": true, "records": chain.records, "decisions": chain.decisions,
                    "ledger_tip": found.tip, "contract_id": chain.contract_record.contract_id(),
                    "run_id": chain.contract_record, "renews": line, "warnings": warnings,
                }));
            }
            Err(error) => {
                let _ = writeln!(text, "{} {}: {}", paint.tone(Tone::Bad, "FAILED"), found.id, error.chain());
                list.push(json!({ "loop": found.id.as_str(), "ok": false, "error": error.chain(), "ledger_tip": found.tip }));
                failed.push(error);
            }
        }
    }
    for BadRef { name, error, .. } in bad {
        let _ = writeln!(text, "{} {name}: {}", paint.tone(Tone::Bad, "FAILED"), told(&name, &error));
        list.push(json!({ "ref": name, "ok": false, "error": error.chain() }));
        failed.push(error);
    }
    if failed.is_empty() {
        return Ok(Reply::text(text)
            .hint(format!(
                "judged by {}; what no object can show is believed: see --json, `believed`",
                trust.source
            ))
            .field("loops", list)
            .field("believed", json!(BELIEVED)));
    }
    let hints: Vec<String> = failed.iter().flat_map(Error::hints).cloned().collect();
    let mut reply = Reply::text(text);
    reply.hints = hints;
    Ok(reply
        .status("error")
        .errors(&failed)
        .field("loops", list)
        .field("believed", json!(BELIEVED))
        .exit(ExitCode::INVARIANT))
}

/// What a ledger says of its own parent, by the record up to which it was verified.
type Held = HashMap<Oid, Option<RenewalTerms>>;

/// Verifies the ledgers that `chain` renews, each up to the record after which it was renewed, as far as they are here. Gives their
/// loops, the parent first.
fn ancestors(repo: &Repo, chain: &Chain, trust: &TrustRoot, held: &mut Held) -> Result<Vec<String>> {
    let mut line = Vec::new();
    let mut renewal = chain.contract.renewal.clone();
    while let Some(RenewalTerms { loop_id, tip, .. }) = renewal {
        if repo.read_kind(tip.0, gix::object::Kind::Commit).is_err() {
            // That it is missing was said when the child was verified.
            break;
        }
        renewal = match held.entry(tip) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(unknown) => {
                let id: LoopId = loop_id.parse()?;
                let parent = verify_and_measure(repo, &id, tip.0, trust, At::now(), |_| {})?;
                unknown.insert(parent.contract.renewal.clone()).clone()
            }
        };
        line.push(loop_id);
    }
    Ok(line)
}
