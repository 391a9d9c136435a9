//! Renewing a loop that has halted: a new contract on the parent's green that says what it changes.

use crate::contract::frozen::{Base, FrozenTerms, rules_of};
use crate::contract::{Contract, LimitOverrides, LoopFile};
use crate::error::{Error, Result, ResultExt};
use crate::git::{LoopId, Repo};
use crate::guard::{self, PathSet};
use crate::ledger::parent::{may_renew, terms_of};
use crate::ledger::state::Phase;
use crate::ledger::trust::TrustRoot;
use crate::ledger::verify::Chain;
use crate::oid::Oid;

use super::start::{Purpose, freeze, no_policy};

/// A contract that renews another one, ready to be signed.
#[derive(Debug)]
pub struct Renewed {
    /// The terms.
    pub contract: Contract,
    /// Who approves them.
    pub principal: String,
    /// What the approver should know.
    pub warnings: Vec<String>,
}

/// The terms of a renewal of `parent` as `id`: those of `file`, else the parent's, with the limits of `limits` in their place.
/// `principals` are those of the signing key.
pub fn renew(
    repo: &Repo,
    trust: &TrustRoot,
    parent: &Chain,
    id: &LoopId,
    file: Option<&LoopFile>,
    limits: &LimitOverrides,
    principals: &[String],
) -> Result<Renewed> {
    let (old, state) = (&parent.contract, &parent.tip.state);
    if state.phase != Phase::Halted {
        return Err(Error::refused(format!(
            "loop `{}` has not halted, and a running loop cannot be re-negotiated",
            old.loop_id
        ))
        .hint(format!("stop it first: git loop stop {}", old.loop_id)));
    }
    let lasting_runner = |one: &String| old.lasting.is_some() && old.roles.runner.contains(one);
    let able: Vec<String> = principals
        .iter()
        .filter(|one| old.roles.approver.contains(one) && !lasting_runner(one))
        .cloned()
        .collect();
    if able.is_empty() {
        return Err(Error::refused(format!(
            "{} is not an approver of loop `{}`",
            principals.join(", "),
            old.loop_id
        ))
        .hint(format!(
            "its approvers: {}; sign with one of their keys: --key FILE",
            old.roles.approver.join(", ")
        )));
    }
    let base = state.last_green_commit;
    let (mut contract, principal, mut warnings) = match file {
        Some(file) => freeze(repo, id, file, base.0, trust, &able, Purpose::ToSign)?,
        None => (on_green(repo, id, old, base, trust)?, able[0].clone(), Vec::new()),
    };
    limits.apply(&mut contract.limits);
    if contract.worker.reserve_usd.is_some_and(|reserve| reserve > contract.limits.cost_usd) {
        return Err(Error::usage(format!(
            "worker.reserve_usd is more than limits.cost_usd = {}: the worker could never start",
            contract.limits.cost_usd
        ))
        .hint("raise it: --limit cost_usd=DOLLARS"));
    }
    contract.parent = Some(parent.contract_record);
    contract.renewal = Some(terms_of(old, parent.tip.id, state, &contract));
    contract.valid_terms().map_err(|error| Error::usage(error.to_string()))?;
    may_renew(old, state, &contract, &principal).map_err(Error::refused)?;
    let ran = |one: &String| {
        contract.roles.runner.contains(one) || state.submitters.iter().any(|who| who.principal == *one)
    };
    if contract.roles.reviewer.iter().all(ran) {
        warnings.push(
            "nobody could review this loop: every reviewer ran it, or the loop that it renews".to_owned(),
        );
    }
    Ok(Renewed { contract, principal, warnings })
}

/// The terms of `old`, on its green.
fn on_green(repo: &Repo, id: &LoopId, old: &Contract, base: Oid, trust: &TrustRoot) -> Result<Contract> {
    no_policy(repo)?;
    let unreadable = || format!("green {base} cannot be read");
    let tree = repo.commit_tree(base.0).or_workspace(unreadable)?;
    let check = PathSet::parse(&old.paths.check).or_workspace(|| "paths.check of the parent".to_owned())?;
    let frozen = guard::freeze(repo.gix(), &tree, &check)?;
    let mut contract = old.clone();
    contract.rules = rules_of(contract.class);
    contract.loop_id = id.to_string();
    contract.base = Base { commit: base, tree: Oid(tree) };
    contract.frozen = FrozenTerms { tree: Oid(frozen.tree), entries: frozen.entries };
    contract.trust.allowed_signers.clone_from(&trust.text);
    Ok(contract)
}
