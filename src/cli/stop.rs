use clap::Args;
use serde_json::json;

use super::Context;
use super::common::{Proof, author, find_loop, result_fields, verified_with};
use super::ui::Reply;
use crate::at::At;
use crate::error::{Error, Kind, Result};
use crate::exit::HaltReason;
use crate::ledger::append::{Tip, draft, publish};
use crate::ledger::fold::status_of;
use crate::ledger::record::{Body, HaltBody, HaltedBy, Role};
use crate::ledger::state::Phase;
use crate::ledger::trust::TrustRoot;

/// How often a runner may be faster than we are before we give up.
const ATTEMPTS: usize = 20;

/// Halt a loop on the record. A runner that is in the middle of an iteration rolls it back.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// The loop.
    #[arg(value_name = "ID")]
    id: String,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub fn run(context: &Context, args: &StopArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let trust = TrustRoot::open(&repo)?;
    let signer = context.signer(&repo)?;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let found = find_loop(&repo, &args.id)?;
        let mut proof = Proof::default();
        let chain = verified_with(&repo, &found, &trust, |step| proof.see(step))?;
        let tip = Tip::from(chain.into_inner());
        if tip.state.phase == Phase::Halted {
            let reason = tip.state.halt_reason.map_or("promoted", HaltReason::as_str);
            return Err(Error::refused(format!("loop `{}` has halted already: {reason}", found.id)));
        }
        let roles = [Role::Operator, Role::Promoter, Role::Runner];
        let (role, author) = roles
            .iter()
            .find_map(|role| author(&signer, &trust, &tip.contract, *role).ok().map(|author| (*role, author)))
            .map_or_else(
                || {
                    author(&signer, &trust, &tip.contract, Role::Operator)
                        .map(|author| (Role::Operator, author))
                },
                Ok,
            )?;
        let halt_reason = HaltReason::OperatorStopped;
        let body = HaltBody {
            by: HaltedBy::Operator,
            halt_reason,
            status: status_of(halt_reason),
            reason: halt_reason.as_str().to_owned(),
            exit_code: halt_reason.exit_code().get(),
            iteration: tip.state.iteration,
            last_green_commit: tip.state.last_green_commit,
            message: args.reason.clone(),
            packet: None,
        };
        let next = draft(&repo, &author, &tip, role, |_| Body::Halt(body), Vec::new(), At::now())?;
        match publish(&repo, found.id.refs(), Some(tip.id), &next, Vec::new(), "loop: stop") {
            Ok(()) => {
                repo.settle()?;
                return Ok(Reply::text(format!("stopped {} as {}\n", found.id, author.principal))
                    .hint(format!("go on later: git loop run {} --resume", found.id))
                    .status(next.state.status.as_str())
                    .fields(result_fields(&next, proof.ids()))
                    .field("record_id", json!(next.id)));
            }
            // The runner appended a record between our look and our write; look again.
            Err(error) if attempt < ATTEMPTS && error.kind() == Kind::Workspace => {}
            Err(error) => return Err(error),
        }
    }
}
