use std::fmt::Write as _;

use clap::Args;
use serde_json::json;

use super::Context;
use super::common::{Proof, author, find_loop, measured_with, result_fields};
use super::review::awaiting_review;
use super::ui::Reply;
use crate::at::At;
use crate::error::{Error, Result, ResultExt};
use crate::exit::ExitCode;
use crate::git::Repo;
use crate::ledger::append::{Tip, draft, publish};
use crate::ledger::record::{Body, PromotionBody, Role};
use crate::ledger::trust::TrustRoot;
use crate::oid::Oid;
use crate::render::status::next_step;
use crate::review::packet::{self, FrozenPacket};
use crate::review::policy::{self, Condition};

/// Record that a loop which met its target and was approved by somebody else has succeeded.
///
/// The loop must await its review and have an approving one. The key must be a promoter's; reviewer and promoter may be one person.
/// Nothing is merged; `git loop land` does that. A loop of class lasting_code needs more: reviews by others than its workers, with every
/// attestation and persona, and a person who promotes it; `--dry-run` says what is there and what is missing.
#[derive(Debug, Args)]
pub struct PromoteArgs {
    /// The loop.
    #[arg(value_name = "ID")]
    id: String,
    /// Say of each condition whether it holds, and record nothing; 1 if one does not.
    #[arg(long)]
    dry_run: bool,
}

pub fn run(context: &Context, args: &PromoteArgs) -> Result<Reply> {
    let repo = context.repo_to_look_at()?;
    let trust = TrustRoot::open(&repo)?;
    let found = find_loop(&repo, &args.id)?;
    let mut proof = Proof::default();
    let mut by_seq = Vec::new();
    let mut packet = None;
    let chain = measured_with(&repo, &found, &trust, |step| {
        proof.see(step);
        by_seq.push(step.id);
        if let Body::Halt(halt) = &step.record.body {
            packet.clone_from(&halt.packet);
        }
    })?;
    let tip = Tip::from(chain.into_inner());
    let id = &found.id;
    if args.dry_run {
        let signer = context.signer(&repo);
        let who =
            signer.and_then(|signer| Ok(author(&signer, &trust, &tip.contract, Role::Promoter)?.principal));
        return Ok(dry_run(&tip, &all_conditions(&repo, &tip, packet.as_deref(), who.as_ref())));
    }
    awaiting_review(&tip)?;
    let signer = context.signer(&repo);
    let who =
        signer.as_ref().map_err(|error| Error::refused(error.message().to_owned())).and_then(|signer| {
            author(signer, &trust, &tip.contract, Role::Promoter).map(|author| author.principal)
        });
    // Whose key it is comes after what is missing for everybody.
    let asked = conditions(&repo, &tip, packet.as_deref(), who.as_deref().ok());
    let missing: Vec<&str> = asked.iter().filter_map(|one| one.missing.as_deref()).collect();
    if !missing.is_empty() {
        return Err(Error::refused(format!("loop `{id}` cannot be promoted: {}", missing.join("; ")))
            .hint(next_step(&tip.contract, &tip.record, &tip.state))
            .hint(format!("every condition: git loop promote {id} --dry-run")));
    }
    let reviews: Vec<Oid> = tip
        .state
        .counted_approvals()
        .into_iter()
        .filter_map(|seq| by_seq.get(usize::try_from(seq).ok()?).copied())
        .collect();
    let candidate = tip.state.last_green_commit;
    let candidate_tree = Oid(repo
        .commit_tree(candidate.0)
        .or_workspace(|| format!("the candidate {candidate} of loop `{id}` cannot be read"))?);
    let signer = signer?;
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

/// What a promotion needs, apart from the promoter's role.
fn conditions(
    repo: &Repo,
    tip: &Tip,
    packet: Option<&FrozenPacket>,
    promoter: Option<&str>,
) -> Vec<Condition> {
    let state = &tip.state;
    if tip.contract.judged_as_lasting().is_none() {
        let approved = state.approvals.is_empty().then(|| "it has no approving review yet".to_owned());
        let open = (state.blocking_findings() > 0).then(|| "a finding that blocks is open".to_owned());
        return vec![Condition::new("approved", approved), Condition::new("findings_resolved", open)];
    }
    let evidence = match (packet, repo.commit_tree(state.last_green_commit.0)) {
        (None, _) => Some("its halt record holds no promotion packet".to_owned()),
        (Some(_), Err(error)) => {
            Some(format!("the candidate {} cannot be read: {error}", state.last_green_commit))
        }
        (Some(packet), Ok(tree)) => packet::changed(repo, tree, packet),
    };
    let mut list = vec![Condition::new("evidence", evidence)];
    list.extend(policy::conditions(&tip.contract, state, promoter));
    list
}

/// The same, with where the loop stands and whether the key at hand is a promoter's.
fn all_conditions(
    repo: &Repo,
    tip: &Tip,
    packet: Option<&FrozenPacket>,
    who: std::result::Result<&String, &Error>,
) -> Vec<Condition> {
    let waits = awaiting_review(tip).err().map(|error| error.message().to_owned());
    let promoter = who.ok().map(String::as_str);
    let mut list = vec![Condition::new("awaiting_review", waits)];
    list.extend(conditions(repo, tip, packet, promoter));
    list.push(Condition::new("promoter", who.err().map(|error| error.message().to_owned())));
    list
}

fn dry_run(tip: &Tip, list: &[Condition]) -> Reply {
    let mut text = String::new();
    for one in list {
        let _ = match &one.missing {
            None => writeln!(text, "yes  {}", one.name),
            Some(why) => writeln!(text, "no   {}: {why}", one.name),
        };
    }
    let all = list.iter().all(|one| one.missing.is_none());
    let told: Vec<_> = list
        .iter()
        .map(|one| json!({ "name": one.name, "met": one.missing.is_none(), "missing": one.missing }))
        .collect();
    Reply::text(text)
        .status(tip.state.status.as_str())
        .fields(result_fields(tip, &[]))
        .field("promotable", all)
        .field("conditions", json!(told))
        .exit(if all { ExitCode::OK } else { ExitCode::REFUSED })
}
