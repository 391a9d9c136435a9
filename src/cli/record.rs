use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::Context;
use super::checkpoint::with_session;
use super::common::result_fields;
use super::start::named_commit;
use super::ui::Reply;
use crate::error::{Error, Result};
use crate::exit::{ExitCode, HaltReason};
use crate::iterate::outside::Brought;
use crate::ledger::record::Body;
use crate::ledger::trust::TrustRoot;
use crate::oid::Oid;
use crate::render::line::iteration_line;
use crate::render::status::next_step;

/// The largest file that is taken in, in bytes.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Bring the candidate of an iteration whose worker ran elsewhere, and have it judged.
///
/// The candidate is a signed commit of its own, with the tree of REV, which must be on top of green. The same guards, check and decision
/// as in `git loop run`; the exit code is that of the halt, or 0 if the loop goes on. Without an open checkpoint one is made.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// The loop.
    #[arg(value_name = "ID")]
    id: String,
    /// The commit whose tree is the candidate.
    #[arg(long, value_name = "REV")]
    candidate: String,
    /// The environment of the checkpoint that it was made for.
    #[arg(long, value_name = "ID")]
    environment: Option<String>,
    /// The number of the iteration that it was made for.
    #[arg(long, value_name = "N")]
    iteration: Option<u32>,
    /// The sandbox adapter that the worker ran in.
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,
    /// What the worker wrote into its evidence file: cost, summary.
    #[arg(long, value_name = "FILE")]
    evidence: Option<PathBuf>,
    /// The verdict of a check that ran elsewhere; its signature is in FILE.sig.
    #[arg(long, value_name = "FILE")]
    verdict: Option<PathBuf>,
}

pub fn run(context: &Context, args: &RecordArgs) -> Result<Reply> {
    let repo = context.repo()?;
    let trust = TrustRoot::open(&repo)?;
    let rev = Oid(named_commit(&repo, "--candidate", &args.candidate)?);
    let verdict = match &args.verdict {
        None => None,
        Some(file) => {
            let mut signature = file.clone().into_os_string();
            signature.push(".sig");
            Some((read(context, "--verdict", file)?, read(context, "--verdict", Path::new(&signature))?))
        }
    };
    let brought = Brought {
        iteration: args.iteration,
        environment_id: args.environment.clone(),
        adapter: args.adapter.clone(),
        evidence: args.evidence.as_ref().map(|file| read(context, "--evidence", file)).transpose()?,
        verdict,
    };
    with_session(context, &repo, &trust, &args.id, |session| {
        let record = session.record_brought(rev, &brought)?;
        let tip = session.tip();
        let mut text = String::new();
        let mut decision = serde_json::Value::Null;
        let mut proof = Vec::new();
        if let Some(Body::Iteration(body)) = record.as_ref().map(|record| &record.body) {
            text = format!("{}: {}\n", args.id, iteration_line(&tip.contract, &body.receipt));
            decision = json!(body.receipt.decision);
            proof.extend(body.receipt.check.as_ref().and_then(|check| check.report));
        }
        if let Some(reason) = tip.state.halt_reason {
            let _ = writeln!(text, "{}: halted ({reason})", args.id);
        }
        Ok(Reply::text(text)
            .hint(next_step(&tip.contract, &tip.record, &tip.state))
            .status(tip.state.status.as_str())
            .fields(result_fields(tip, &proof))
            .field("decision", decision)
            .exit(tip.state.halt_reason.map_or(ExitCode::OK, HaltReason::exit_code)))
    })
}

/// The content of a file that an option names.
pub fn read(context: &Context, option: &str, file: &Path) -> Result<Vec<u8>> {
    let path = context.directory.join(file);
    let unreadable = |cause: std::io::Error| {
        Error::usage(format!("{option} {} cannot be read", file.display())).caused_by(cause)
    };
    let length = std::fs::metadata(&path).map_err(unreadable)?.len();
    if length > MAX_FILE {
        return Err(Error::usage(format!("{option} {} has more than 16 MiB", file.display())));
    }
    std::fs::read(&path).map_err(unreadable)
}
