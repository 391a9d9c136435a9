//! What a renewed contract says of its parent, compared with the parent's ledger as far as it is here.

use super::load::{LoadError, Loaded, contract_bytes, load};
use super::record::{Kind, Record};
use super::state::{OpenFinding, Phase, State};
use super::trust::TrustRoot;
use super::verify::{Reason, envelope};
use crate::at::At;
use crate::contract::renewal::changed_terms;
use crate::contract::{Class, Contract, ContractError, RenewalTerms};
use crate::decide::ComplexityDelta;
use crate::git::{ObjectError, Repo};
use crate::oid::Oid;

/// Why a contract does not renew what it says it renews.
#[derive(Debug, thiserror::Error)]
pub enum ParentError {
    /// A record of the parent is not what it should be.
    #[error("record {id} of the parent: {why}")]
    Record {
        /// The record.
        id: Oid,
        /// What is wrong with it.
        #[source]
        why: Box<Reason>,
    },
    /// The parent's terms cannot be read.
    #[error("contract.json of the parent: {0}")]
    Contract(#[from] ContractError),
    /// A field is not what the parent's ledger says.
    #[error("`{field}` is {found}, the parent's ledger says {expected}")]
    Differs {
        /// The field.
        field: &'static str,
        /// What the contract says.
        found: String,
        /// What it must be.
        expected: String,
    },
    /// The parent does not allow it.
    #[error("{0}")]
    NotAllowed(String),
}

/// Compares a contract with its parent. A warning says what could not be compared, because the parent's ledger is not here.
///
/// Of the parent the contract record and the record that is named as `tip` are looked at; whether its ledger holds is a
/// verification of its own.
pub(super) fn check(
    repo: &Repo,
    trust: &TrustRoot,
    now: At,
    contract: &Contract,
    record: &Record,
) -> Result<Option<String>, ParentError> {
    let (Some(parent), Some(renewal)) = (contract.parent, &contract.renewal) else { return Ok(None) };
    let mut found = Vec::new();
    for id in [parent, renewal.tip] {
        match load(repo, id.0) {
            Ok(loaded) => found.push(loaded.0),
            Err(LoadError::Object(ObjectError::Missing { .. })) => {
                return Ok(Some(format!(
                    "it renews loop `{}`, whose ledger is not here: that its base, its origin and its changed terms are as it says is not \
                     checked; fetch it: git loop sync <remote>",
                    renewal.loop_id
                )));
            }
            Err(error) => return Err(ParentError::Record { id, why: Box::new(error.into()) }),
        }
    }
    let [root, tip] = <[Loaded; 2]>::try_from(found).expect("two were looked for and none was missing");
    let bytes = contract_bytes(repo, root.contract_blob)
        .map_err(|error| ParentError::Record { id: root.id, why: Box::new(LoadError::from(error).into()) })?;
    let terms = Contract::from_bytes(&bytes)?;
    for loaded in [&root, &tip] {
        envelope(&terms, trust, now, loaded)
            .map_err(|why| ParentError::Record { id: loaded.id, why: Box::new(why) })?;
        same("renewal.loop", &renewal.loop_id, &loaded.record.loop_id)?;
    }
    same("parent", &root.record.kind, &Kind::Contract)?;
    same("renewal.tip", &tip.record.contract, &Some(parent))?;
    same("renewal.tip contract.json", &tip.contract_blob, &root.contract_blob)?;
    if record.at < tip.record.at {
        return Err(ParentError::NotAllowed(format!(
            "it is of {}, before the record that it goes on from ({})",
            record.at, tip.record.at
        )));
    }
    let state = State::from_bytes(&tip.state)
        .map_err(|error| ParentError::NotAllowed(format!("the parent's state cannot be read: {error}")))?;
    same("base", &contract.base.commit, &state.last_green_commit)?;
    let mut expected = terms_of(&terms, tip.id, &state, contract);
    if renewal.unidentified.is_none() {
        // An earlier version said nothing of them; such a loop is never promoted.
        (expected.workers, expected.unidentified) = (Vec::new(), None);
    }
    same("renewal", renewal, &expected)?;
    may_renew(&terms, &state, contract, &record.actor.principal)
        .map_err(ParentError::NotAllowed)
        .map(|()| None)
}

/// What `contract`, which renews `parent` after its record `tip`, has to say of it.
pub fn terms_of(parent: &Contract, tip: Oid, state: &State, contract: &Contract) -> RenewalTerms {
    let lasting = contract.judged_as_lasting().is_some();
    let agents = state.agents.as_ref();
    RenewalTerms {
        loop_id: parent.loop_id.clone(),
        tip,
        origin: parent.origin(),
        submitters: state.submitters.clone(),
        // Nor does a new contract settle what a reviewer found. A record that could not name itself is the tip.
        findings: state
            .findings
            .iter()
            .map(|open| OpenFinding { record: open.record.or(Some(tip)), ..open.clone() })
            .collect(),
        complexity: state
            .counters
            .lasting
            .as_ref()
            .map(|lasting| lasting.complexity)
            .filter(|complexity| *complexity != ComplexityDelta::default()),
        workers: if lasting {
            agents.map_or_else(Vec::new, |agents| agents.workers.clone())
        } else {
            Vec::new()
        },
        unidentified: lasting.then(|| unidentified(parent, state)),
        changed: changed_terms(parent, contract),
    }
}

/// Of how many accepted candidates, the renewed loops' with them, no invocation says whose they are.
pub fn unidentified(contract: &Contract, state: &State) -> u32 {
    let before = contract.renewal.as_ref().map_or(0, |renewal| renewal.unidentified.unwrap_or(1));
    let known = state.agents.as_ref().map_or(0, |agents| agents.identified);
    before.saturating_add(state.counters.accepted.saturating_sub(known))
}

/// Whether `approver` may renew `parent`, which is in `state`, as `contract`; else why not.
pub fn may_renew(
    parent: &Contract,
    state: &State,
    contract: &Contract,
    approver: &str,
) -> Result<(), String> {
    if state.phase != Phase::Halted {
        return Err(format!(
            "loop `{}` has not halted, and a running loop cannot be re-negotiated",
            parent.loop_id
        ));
    }
    if !parent.roles.approver.iter().any(|one| one == approver) {
        return Err(format!("{approver} is not an approver of loop `{}`", parent.loop_id));
    }
    if parent.class == Class::LastingCode && contract.class != Class::LastingCode {
        return Err(format!(
            "loop `{}` is lasting_code, and what it made cannot go on as something else",
            parent.loop_id
        ));
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(
    field: &'static str,
    found: &T,
    expected: &T,
) -> Result<(), ParentError> {
    if found == expected {
        return Ok(());
    }
    let cut = |text: String| {
        if text.len() > 300 { format!("{}…", text.chars().take(300).collect::<String>()) } else { text }
    };
    Err(ParentError::Differs {
        field,
        found: cut(format!("{found:?}")),
        expected: cut(format!("{expected:?}")),
    })
}
