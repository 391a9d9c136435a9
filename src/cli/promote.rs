use clap::Args;
use serde_json::json;

use super::Context;
use super::common::{Proof, author, find_loop, measured_with, result_fields};
use super::review::awaiting_review;
use super::ui::Reply;
use crate::at::At;
use crate::contract::Class;
use crate::error::{Error, Result, ResultExt};
use crate::ledger::append::{Tip, draft, publish};
use crate::ledger::record::{Body, PromotionBody, Role};
use crate::ledger::trust::TrustRoot;
use crate::oid::Oid;
use crate::render::status::next_step;

/// Record that a loop which met its target and was approved by somebody else has succeeded.
///
/// The loop must await its review and have an approving one. The key must be a promoter's; reviewer and promoter may be one person.
/// Nothing is merged; `git loop land` does that. A loop of class lasting_code cannot be promoted by this version.
#[derive(Debug, Args)]
pub struct PromoteArgs {
    /// The loop.
    #[arg(value_name = "ID")]
    id: String,
}

pub fn run(context: &Context, args: &PromoteArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let trust = TrustRoot::open(&repo)?;
    let found = find_loop(&repo, &args.id)?;
    let mut proof = Proof::default();
    let mut by_seq = Vec::new();
    let chain = measured_with(&repo, &found, &trust, |step| {
        proof.see(step);
        by_seq.push(step.id);
    })?;
    let tip = Tip::from(chain.into_inner());
    awaiting_review(&tip)?;
    let id = &found.id;
    if tip.contract.class == Class::LastingCode {
        return Err(Error::refused(format!("loop `{id}` is lasting_code, which this version cannot promote yet"))
            .hint("its packet, its independent review and its mechanical evidence are not built; until then its content stays here"));
    }
    if tip.state.approvals.is_empty() {
        return Err(Error::refused(format!("loop `{id}` has no approving review yet")).hint(next_step(
            &tip.contract,
            &tip.record,
            &tip.state,
        )));
    }
    if tip.state.blocking_findings() > 0 {
        return Err(Error::refused(format!("loop `{id}` cannot be promoted: a finding that blocks is open"))
            .hint(next_step(&tip.contract, &tip.record, &tip.state)));
    }
    let reviews: Vec<Oid> = tip
        .state
        .approvals
        .iter()
        .filter_map(|approval| by_seq.get(usize::try_from(approval.seq).ok()?).copied())
        .collect();
    let candidate = tip.state.last_green_commit;
    let candidate_tree = Oid(repo
        .commit_tree(candidate.0)
        .or_workspace(|| format!("the candidate {candidate} of loop `{id}` cannot be read"))?);
    let signer = context.signer(&repo)?;
    let author = author(&signer, &trust, &tip.contract, Role::Promoter)?;
    let body = PromotionBody {
        halt: tip.state.halt.unwrap_or(tip.id),
        reviews,
        candidate,
        candidate_tree,
        tip: tip.id,
    };
    let next = draft(&repo, &author, &tip, Role::Promoter, |_| Body::Promotion(body), Vec::new(), At::now())?;
    publish(&repo, found.id.refs(), Some(tip.id), &next, Vec::new(), "loop: promotion")?;
    repo.settle()?;
    Ok(Reply::text(format!("promoted {id}: {candidate} may leave\n"))
        .hint(format!(
            "land it on the branch that is checked out: git loop land {id} (or git merge {})",
            candidate.short()
        ))
        .status(next.state.status.as_str())
        .fields(result_fields(&next, proof.ids()))
        .field("record_id", json!(next.id)))
}
