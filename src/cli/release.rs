use clap::Args;
use serde_json::json;

use super::Context;
use super::common::{Proof, author, find_loop, measured_with, result_fields};
use super::ui::Reply;
use crate::at::At;
use crate::contract::Class;
use crate::error::{Error, Kind, Result};
use crate::ledger::append::{Tip, draft, publish};
use crate::ledger::fold::is_dead;
use crate::ledger::record::{Body, ReleaseBody, Role, Status};
use crate::ledger::state::Phase;
use crate::ledger::trust::TrustRoot;

/// How often somebody else may append a record first before we give up.
const ATTEMPTS: usize = 20;

/// Let the content of a loop that goes no further leave without a promotion, on the record.
///
/// The loop must have halted without converging, or its review have rejected it. The key must be a promoter's who did not run the
/// loop. From then on the gate does not look for the loop's content; the loop takes no findings and cannot be resumed. A renewal of
/// it is another loop, whose content is watched again.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// The loop.
    #[arg(value_name = "ID")]
    id: String,
    /// Why this content may leave.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub fn run(context: &Context, args: &ReleaseArgs) -> Result<Reply> {
    if args.reason.trim().is_empty() {
        return Err(Error::usage("--reason is empty; a release says why"));
    }
    let repo = context.repo_to_look_at()?;
    let trust = TrustRoot::open(&repo)?;
    let signer = context.signer(&repo)?;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let found = find_loop(&repo, &args.id)?;
        let mut proof = Proof::default();
        let chain = measured_with(&repo, &found, &trust, |step| proof.see(step))?;
        let tip = Tip::from(chain.into_inner());
        fits(&tip)?;
        let author = author(&signer, &trust, &tip.contract, Role::Promoter)?;
        let body = ReleaseBody { halt: tip.state.halt.unwrap_or(tip.id), reason: args.reason.clone() };
        let next =
            draft(&repo, &author, &tip, Role::Promoter, |_| Body::Release(body), Vec::new(), At::now())?;
        match publish(&repo, found.id.refs(), Some(tip.id), &next, Vec::new(), "loop: release") {
            Ok(()) => {
                repo.settle()?;
                let mut reply = Reply::text(format!("released {} as {}\n", found.id, author.principal))
                    .status(next.state.status.as_str())
                    .fields(result_fields(&next, proof.ids()))
                    .field("record_id", json!(next.id));
                if tip.contract.class == Class::LastingCode {
                    reply = reply.hint(format!(
                        "the gate of a server reads it in the ledger: push refs/loops/{} with the content",
                        found.id.refs().ledger().as_bstr().to_string().trim_start_matches("refs/loops/")
                    ));
                }
                return Ok(reply);
            }
            Err(error) if attempt < ATTEMPTS && error.kind() == Kind::Workspace => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether there is anything to release.
fn fits(tip: &Tip) -> Result<()> {
    let id = &tip.contract.loop_id;
    if tip.state.released {
        return Err(Error::refused(format!("loop `{id}` is released already")));
    }
    if is_dead(&tip.state) {
        return Ok(());
    }
    let refused = |why: &str, hint: String| {
        Err(Error::refused(format!("loop `{id}` cannot be released: {why}")).hint(hint))
    };
    match (tip.state.phase, tip.state.status) {
        (_, Status::Succeeded) => refused("it is promoted", "its content may leave".to_owned()),
        (Phase::Halted, _) => refused(
            "it converged and awaits its review",
            format!("judge it: git loop review {id} --approve (or --reject, after which it can be released)"),
        ),
        _ => refused("it has not halted", format!("end it first: git loop stop {id} --reason TEXT")),
    }
}
