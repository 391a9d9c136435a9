//! The two ends of a ledger: enough to list many loops fast. What lies between them is not looked at, and whoever shows a
//! [`Glance`] has to say so.

use gix::ObjectId;

use super::load::{LoadError, Loaded, contract_bytes, load};
use super::record::{Kind, Record};
use super::state::State;
use super::trust::TrustRoot;
use super::verify::{Reason, VerifyError, envelope, optional, position, second_parent};
use crate::at::At;
use crate::contract::Contract;
use crate::git::{LoopId, Repo};
use crate::oid::Oid;

/// What the last record of a ledger says, under the contract of the first one.
#[derive(Debug, Clone)]
pub struct Glance {
    /// The frozen terms.
    pub contract: Contract,
    /// The contract record that the last record names.
    pub contract_record: Oid,
    /// The last record.
    pub record: Record,
    /// The state after it, as its signer wrote it.
    pub state: State,
}

/// Looks at the last record of the ledger of `id`, and at the contract record that it names: the form of both, signature, signer,
/// role, dates and message, and that they carry the same contract.
///
/// Not looked at are the records between them, and so neither the chain nor whether the state is the fold of the records, nor
/// evidence, candidates and decisions. [`super::verify::verify_ledger`] does all of that.
pub fn glance(
    repo: &Repo,
    id: &LoopId,
    tip: ObjectId,
    trust: &TrustRoot,
    now: At,
) -> Result<Glance, VerifyError> {
    let fail = |position: String, reason: Reason| VerifyError {
        loop_id: id.to_string(),
        position,
        reason: Box::new(reason),
    };
    let at = |record: ObjectId| format!("at {}", Oid(record).short());
    let read = |record: ObjectId| load(repo, record).map_err(|error| fail(at(record), error.into()));
    let last = read(tip)?.0;
    let named = |loaded: &Loaded| {
        format!("{} ({}, {})", loaded.record.seq, loaded.record.kind.as_str(), loaded.id.short())
    };
    let first =
        last.record.contract.filter(|first| *first != last.id).map(|first| read(first.0)).transpose()?;
    let first = first.map_or_else(|| last.clone(), |first| first.0);
    let contract = begin(repo, id, trust, now, &first).map_err(|reason| fail(named(&first), reason))?;
    let state = end(&contract, trust, now, &first, &last).map_err(|reason| fail(named(&last), reason))?;
    Ok(Glance { contract, contract_record: first.id, record: last.record, state })
}

fn begin(repo: &Repo, id: &LoopId, trust: &TrustRoot, now: At, first: &Loaded) -> Result<Contract, Reason> {
    let contract =
        Contract::from_bytes(&contract_bytes(repo, first.contract_blob).map_err(LoadError::from)?)?;
    position("loop", &first.record.loop_id, id.as_str())?;
    position("contract.json loop", &contract.loop_id, id.as_str())?;
    position("kind", first.record.kind.as_str(), Kind::Contract.as_str())?;
    position("seq", &first.record.seq.to_string(), "0")?;
    position("parents", &first.commit.commit.parents.len().to_string(), "0")?;
    envelope(&contract, trust, now, first)?;
    Ok(contract)
}

fn end(
    contract: &Contract,
    trust: &TrustRoot,
    now: At,
    first: &Loaded,
    last: &Loaded,
) -> Result<State, Reason> {
    position("loop", &last.record.loop_id, &contract.loop_id)?;
    if last.id != first.id {
        position("contract.json", &last.contract_blob.to_string(), &first.contract_blob.to_string())?;
        let parents: Vec<Oid> = last.commit.commit.parents.iter().copied().map(Oid).collect();
        position("prev", &optional(last.record.prev), &optional(parents.first().copied()))?;
        position("parents", &optional(parents.get(1).copied()), &optional(second_parent(&last.record)))?;
        envelope(contract, trust, now, last)?;
    }
    let state = State::from_bytes(&last.state).map_err(|error| Reason::State(error.to_string()))?;
    position(".loop_state.json loop", &state.loop_id, &contract.loop_id)?;
    Ok(state)
}
