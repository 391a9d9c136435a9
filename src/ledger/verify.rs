//! Verification of a whole ledger, offline: signatures, positions, roles, the fold and every decision again.

use std::collections::BTreeSet;

use gix::ObjectId;
use serde::{Deserialize, Serialize};

use super::fold::{self, FoldError};
use super::load::{LoadError, Loaded, Unverified, contract_bytes, load, signed_commit};
use super::message;
use super::parent::{self, ParentError};
use super::record::{Actor, Body, HaltedBy, Kind, Record, Role, Verdict};
use super::rederive::{self, RederiveError};
use super::state::State;
use super::trust::{NotTrusted, TrustRoot};
use super::waypoint::Waypoint;
use crate::at::At;
use crate::contract::{Class, Contract, ContractError, Guards};
use crate::decide::Evidence;
use crate::error::{Error, Result};
use crate::git::{LoopId, Repo};
use crate::oid::Oid;
use crate::sign::sshsig::{self, SignatureError};
use crate::sign::{GIT_NAMESPACE, fingerprint};

/// How far in the future a record may be, in seconds: what clocks of two machines differ by.
pub const CLOCK_SKEW_SECONDS: u64 = 300;

/// A value that was verified against a trust root. Only this module makes one.
#[derive(Debug, Clone)]
pub struct Verified<T>(T);

impl<T> Verified<T> {
    /// The value.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> std::ops::Deref for Verified<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// One record of a ledger, with the state after it.
#[derive(Debug, Clone)]
pub struct Step {
    /// The record commit.
    pub id: Oid,
    /// What it says.
    pub record: Record,
    /// The state after it.
    pub state: State,
    /// The files of `evidence/` by name.
    pub evidence: Vec<(gix::bstr::BString, Oid)>,
    /// Of an iteration: what it was decided by, derived again.
    pub decided_by: Option<Evidence>,
}

/// A ledger up to its tip.
#[derive(Debug, Clone)]
pub struct Chain {
    /// The frozen terms.
    pub contract: Contract,
    /// The contract's patterns and frozen paths, compiled.
    pub guards: Guards,
    /// The contract record.
    pub contract_record: Oid,
    /// The blob of `contract.json`.
    pub contract_blob: Oid,
    /// The last record and the state after it.
    pub tip: Step,
    /// How many records hold.
    pub records: u64,
    /// How many decisions were derived again and hold.
    pub decisions: u64,
    /// What a reader should know, although nothing is wrong.
    pub warnings: Vec<String>,
    pub(super) parent_warnings: Vec<String>,
    pub(super) seen: Seen,
}

impl Chain {
    /// Whether two verifications of one ledger came to the same.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let of = |chain: &Self| {
            let Step { id, state, record, .. } = &chain.tip;
            let counted = (chain.records, chain.decisions, chain.contract_record, chain.contract_blob);
            (*id, state.clone(), record.clone(), counted, chain.seen.clone(), chain.warnings.clone())
        };
        of(self) == of(other)
    }
}

/// What the records so far have used up or given: the part of a verification that is not in the state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// The ids of environments; none is used twice.
    pub environments: BTreeSet<String>,
    /// The approving reviews since the last halt.
    pub approvals: BTreeSet<Oid>,
}

/// Where and why a ledger does not verify.
#[derive(Debug, thiserror::Error)]
#[error("record {position} of loop `{loop_id}`: {reason}")]
pub struct VerifyError {
    /// The loop.
    pub loop_id: String,
    /// `seq`, kind where known, and the commit.
    pub position: String,
    /// What is wrong.
    #[source]
    pub reason: Box<Reason>,
}

/// What is wrong with a record.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// It cannot be read as a record.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// There is no signature.
    #[error("it is not signed")]
    Unsigned,
    /// The signature is not one of this payload.
    #[error("signature: {0}")]
    Signature(#[from] SignatureError),
    /// The key is not that of the actor.
    #[error("it is signed by {signed}, but record.json names key {claimed}")]
    OtherKey {
        /// The fingerprint of the signature's key.
        signed: String,
        /// The fingerprint in the record.
        claimed: String,
    },
    /// The trust root does not know the signer.
    #[error("signer {principal}: {why}")]
    NotTrusted {
        /// The principal.
        principal: String,
        /// Why.
        #[source]
        why: NotTrusted,
    },
    /// The contract does not give the signer the role.
    #[error("role: {principal} is not a {role} of this contract")]
    NotInRole {
        /// The principal.
        principal: String,
        /// The role.
        role: &'static str,
    },
    /// The role may not sign such a record.
    #[error("role: a {role} may not sign a `{kind}` record")]
    RoleMayNot {
        /// The role.
        role: &'static str,
        /// The kind.
        kind: &'static str,
    },
    /// A field does not say where the record stands.
    #[error("position: `{field}` is {found}, it must be {expected}")]
    Position {
        /// The field.
        field: &'static str,
        /// What it says.
        found: String,
        /// What it must say.
        expected: String,
    },
    /// Author or committer date differ from `at`, or are not in UTC.
    #[error("date: the commit's {0} date is not `at` in +0000")]
    Date(&'static str),
    /// Time went back, or the record is from the future.
    #[error("time: {0}")]
    Time(String),
    /// A commit header that no record has.
    #[error("the commit has a header `{0}` that no record has")]
    Header(String),
    /// The message is not the one that the record gives.
    #[error("message: {0}")]
    Message(String),
    /// The contract is malformed or contradicts the base.
    #[error("contract.json: {0}")]
    Contract(#[from] ContractError),
    /// The record may not follow the ones before it.
    #[error("fold: {0}")]
    Fold(#[from] FoldError),
    /// The state is not the fold of the records.
    #[error(".loop_state.json is not the fold of the records: {0}")]
    State(String),
    /// The files under `evidence/` are not those that the record names.
    #[error("evidence: {0}")]
    Evidence(String),
    /// The contract does not renew what it says it renews.
    #[error("renewal: {0}")]
    Parent(#[from] ParentError),
    /// The recorded verdict or decision is not the one that its evidence gives.
    #[error("{0}")]
    Rederive(#[from] RederiveError),
}

impl From<VerifyError> for Error {
    fn from(error: VerifyError) -> Self {
        let id = error.loop_id.clone();
        if let Reason::Time(_) = *error.reason {
            return Self::invariant(error.to_string())
                .hint("see whether the clock of this machine is right: date -u")
                .hint(format!("compare with another clone: git log --first-parent refs/loops/{id}/ledger"));
        }
        Self::invariant(error.to_string()).hint(format!(
            "do not build on it; compare with another clone: git log --first-parent refs/loops/{id}/ledger"
        ))
    }
}

/// Which records a role may sign.
pub fn may_sign(role: Role, record: &Record) -> bool {
    match record.kind {
        Kind::Contract | Kind::Trust => role == Role::Approver,
        Kind::Baseline
        | Kind::Checkpoint
        | Kind::Iteration
        | Kind::Rollback
        | Kind::Resume
        | Kind::Probe
        | Kind::Lease
        | Kind::Escalation => role == Role::Runner,
        Kind::Halt => {
            let operator = matches!(&record.body, Body::Halt(body) if body.by == HaltedBy::Operator);
            role == Role::Runner || (operator && matches!(role, Role::Operator | Role::Promoter))
        }
        Kind::Invocation => matches!(role, Role::Runner | Role::Reviewer),
        Kind::Finding | Kind::Review => role == Role::Reviewer,
        Kind::Promotion | Kind::Release | Kind::Ack => role == Role::Promoter,
        Kind::Attestation => true,
    }
}

/// The ids of a ledger's records, the contract's first. Only parent links are read.
pub fn record_ids(repo: &Repo, tip: ObjectId) -> Result<Vec<ObjectId>, LoadError> {
    record_ids_after(repo, tip, None)
}

/// The same, from `after` on where it is one of them.
fn record_ids_after(repo: &Repo, tip: ObjectId, after: Option<ObjectId>) -> Result<Vec<ObjectId>, LoadError> {
    let mut ids = vec![tip];
    let mut current = tip;
    while Some(current) != after {
        let commit = signed_commit(repo, current)?;
        let Some(parent) = commit.commit.parents.first() else { break };
        current = *parent;
        ids.push(current);
    }
    ids.reverse();
    Ok(ids)
}

/// Verifies the ledger of `id` whose tip is `tip`, calling `visit` for every record that holds, in order.
pub fn verify_ledger(
    repo: &Repo,
    id: &LoopId,
    tip: ObjectId,
    trust: &TrustRoot,
    now: At,
    visit: impl FnMut(&Verified<Step>),
) -> Result<Verified<Chain>, VerifyError> {
    let fail = |error: LoadError| failed(id, format!("at {}", Oid(tip).short()), error.into());
    let ids = record_ids(repo, tip).map_err(fail)?;
    verify_records(repo, id, &ids, trust, now, (None, false), visit)
}

/// The same, and measures every change to lasting code again, where this build can: that parses what the worker wrote, which
/// nobody who only looks or judges a push has to do.
pub fn verify_and_measure(
    repo: &Repo,
    id: &LoopId,
    tip: ObjectId,
    trust: &TrustRoot,
    now: At,
    visit: impl FnMut(&Verified<Step>),
) -> Result<Verified<Chain>, VerifyError> {
    let fail = |error: LoadError| failed(id, format!("at {}", Oid(tip).short()), error.into());
    let ids = record_ids(repo, tip).map_err(fail)?;
    verify_records(repo, id, &ids, trust, now, (None, true), visit)
}

/// The same, of the records after `waypoint` alone, if it is one of this ledger: what is before it was verified then, by the
/// same trust root.
pub fn verify_ledger_after(
    repo: &Repo,
    id: &LoopId,
    tip: ObjectId,
    trust: &TrustRoot,
    now: At,
    waypoint: Waypoint,
) -> Result<Verified<Chain>, VerifyError> {
    let fail = |error: LoadError| failed(id, format!("at {}", Oid(tip).short()), error.into());
    let ids = record_ids_after(repo, tip, Some(waypoint.tip.0)).map_err(fail)?;
    let waypoint = Some(waypoint).filter(|waypoint| ids.first() == Some(&waypoint.tip.0));
    verify_records(repo, id, &ids, trust, now, (waypoint, false), |_| {})
}

fn failed(id: &LoopId, position: String, reason: Reason) -> VerifyError {
    VerifyError { loop_id: id.to_string(), position, reason: Box::new(reason) }
}

/// Verifies records that follow each other: from the contract's on, or, with a waypoint, from its record on, which is only read.
fn verify_records(
    repo: &Repo,
    id: &LoopId,
    ids: &[ObjectId],
    trust: &TrustRoot,
    now: At,
    (mut waypoint, measures): (Option<Waypoint>, bool),
    mut visit: impl FnMut(&Verified<Step>),
) -> Result<Verified<Chain>, VerifyError> {
    let mut walk: Option<Walk<'_>> = None;
    let before = waypoint.as_ref().map_or(0, |waypoint| waypoint.records.saturating_sub(1));
    for (seq, record_id) in (before..).zip(ids) {
        let position = |kind: Option<Kind>| match kind {
            Some(kind) => format!("{seq} ({}, {})", kind.as_str(), Oid(*record_id).short()),
            None => format!("{seq} ({})", Oid(*record_id).short()),
        };
        let loaded = load(repo, *record_id).map_err(|error| failed(id, position(None), error.into()))?;
        let kind = loaded.peek().record.kind;
        let step = match (&mut walk, waypoint.take()) {
            (Some(walk), _) => walk.next(loaded),
            (None, from) => {
                let begun = match from {
                    None => Walk::begin(repo, id, trust, now, loaded),
                    Some(waypoint) => Walk::resume(repo, id, trust, now, loaded, waypoint),
                };
                begun.map(|mut begun| {
                    begun.measures = measures;
                    let step = begun.tip.clone();
                    walk = Some(begun);
                    step
                })
            }
        };
        visit(&Verified(step.map_err(|reason| failed(id, position(Some(kind)), reason))?));
    }
    let walk = walk.expect("a ledger has at least its tip");
    let mut warnings = walk.warnings.clone();
    if walk.contract.trust.allowed_signers != trust.text {
        warnings.push(format!(
            "the contract was frozen with another allowed-signers file than {}; yours was used",
            trust.source
        ));
    }
    Ok(Verified(Chain {
        contract: walk.contract,
        guards: walk.guards,
        contract_record: walk.contract_record,
        contract_blob: walk.contract_blob,
        records: walk.tip.record.seq + 1,
        tip: walk.tip,
        decisions: walk.decisions,
        warnings,
        parent_warnings: walk.warnings,
        seen: walk.seen,
    }))
}

/// What the walk carries from one record to the next. Its size does not depend on the length of the ledger, but for
/// the ids that must not be used twice.
struct Walk<'a> {
    repo: &'a Repo,
    trust: &'a TrustRoot,
    now: At,
    contract: Contract,
    guards: Guards,
    contract_record: Oid,
    contract_blob: Oid,
    tip: Step,
    seen: Seen,
    decisions: u64,
    /// Whether changes to lasting code are measured again.
    measures: bool,
    warnings: Vec<String>,
}

impl<'a> Walk<'a> {
    fn begin(
        repo: &'a Repo,
        id: &LoopId,
        trust: &'a TrustRoot,
        now: At,
        loaded: Unverified<Loaded>,
    ) -> Result<Self, Reason> {
        let loaded = loaded.0;
        let bytes = contract_bytes(repo, loaded.contract_blob).map_err(LoadError::from)?;
        let contract = Contract::from_bytes(&bytes)?;
        position("loop", &loaded.record.loop_id, id.as_str())?;
        position("contract.json loop", &contract.loop_id, id.as_str())?;
        position("kind", loaded.record.kind.as_str(), Kind::Contract.as_str())?;
        position("seq", &loaded.record.seq.to_string(), "0")?;
        position("prev", &optional(loaded.record.prev), "null")?;
        position("contract", &optional(loaded.record.contract), "null")?;
        position("parents", &loaded.commit.commit.parents.len().to_string(), "0")?;
        envelope(&contract, trust, now, &loaded)?;
        if contract.class == Class::LastingCode
            && contract.roles.runner.contains(&loaded.record.actor.principal)
        {
            return Err(Reason::NotInRole {
                principal: loaded.record.actor.principal.clone(),
                role: "approver other than the runner",
            });
        }
        let guards = contract.guards(repo)?;
        position("frozen", &optional(loaded.frozen), &contract.frozen.tree.to_string())?;
        let state = fold::begin(&contract);
        same_state(&state, &loaded.state)?;
        same_evidence(&loaded)?;
        if let Body::Contract(body) = &loaded.record.body {
            position("objective", &body.objective, &contract.objective)?;
        }
        let warnings = parent::check(repo, trust, now, &contract, &loaded.record)?.into_iter().collect();
        Ok(Self {
            repo,
            trust,
            now,
            contract_record: loaded.id,
            contract_blob: loaded.contract_blob,
            tip: Step {
                id: loaded.id,
                record: loaded.record,
                state,
                evidence: loaded.evidence,
                decided_by: None,
            },
            contract,
            guards,
            seen: Seen::default(),
            decisions: 0,
            measures: false,
            warnings,
        })
    }

    /// Goes on from a record that was verified before. That it is that record, its id says; so what it carries holds.
    fn resume(
        repo: &'a Repo,
        id: &LoopId,
        trust: &'a TrustRoot,
        now: At,
        loaded: Unverified<Loaded>,
        waypoint: Waypoint,
    ) -> Result<Self, Reason> {
        let Loaded { id: tip, record, contract_blob, state, evidence, .. } = loaded.0;
        let contract = Contract::from_bytes(&contract_bytes(repo, contract_blob).map_err(LoadError::from)?)?;
        // A waypoint in the wrong place must not make another loop's ledger this one's.
        position("loop", &record.loop_id, id.as_str())?;
        position("seq", &record.seq.to_string(), &waypoint.records.saturating_sub(1).to_string())?;
        let state = State::from_bytes(&state).map_err(|error| Reason::State(error.to_string()))?;
        let guards = contract.guards(repo)?;
        Ok(Self {
            repo,
            trust,
            now,
            contract_record: record.contract.unwrap_or(tip),
            contract_blob,
            tip: Step { id: tip, record, state, evidence, decided_by: None },
            contract,
            guards,
            seen: waypoint.seen,
            decisions: waypoint.decisions,
            measures: false,
            warnings: waypoint.warnings,
        })
    }

    fn next(&mut self, loaded: Unverified<Loaded>) -> Result<Step, Reason> {
        let loaded = loaded.0;
        let record = &loaded.record;
        let before = &self.tip;
        position("loop", &record.loop_id, &self.contract.loop_id)?;
        position("seq", &record.seq.to_string(), &(before.record.seq + 1).to_string())?;
        position("prev", &optional(record.prev), &before.id.to_string())?;
        position("contract", &optional(record.contract), &self.contract_record.to_string())?;
        position("contract.json", &loaded.contract_blob.to_string(), &self.contract_blob.to_string())?;
        let parents: Vec<Oid> = loaded.commit.commit.parents.iter().copied().map(Oid).collect();
        let mut expected = vec![before.id];
        expected.extend(second_parent(record));
        position("parents", &format!("{parents:?}"), &format!("{expected:?}"))?;
        if loaded.frozen.is_some() {
            return Err(LoadError::ForeignEntry("frozen".to_owned()).into());
        }
        envelope(&self.contract, self.trust, self.now, &loaded)?;
        if record.at < before.record.at {
            return Err(Reason::Time(format!(
                "it is of {}, the record before it of {}",
                record.at, before.record.at
            )));
        }
        let state = fold::fold(&self.contract, &before.state, record)?;
        same_state(&state, &loaded.state)?;
        same_evidence(&loaded)?;
        match &record.body {
            Body::Checkpoint(body) if !is_environment_id(&body.environment_id) => {
                return Err(Reason::Position {
                    field: "environment_id",
                    found: crate::escape::escape_line(&body.environment_id).into_owned(),
                    expected: "16 hex digits".to_owned(),
                });
            }
            Body::Checkpoint(body) if !self.seen.environments.insert(body.environment_id.clone()) => {
                return Err(Reason::Position {
                    field: "environment_id",
                    found: body.environment_id.clone(),
                    expected: "one that was never used before".to_owned(),
                });
            }
            Body::Review(body) if body.verdict == Verdict::Approve => {
                self.seen.approvals.insert(loaded.id);
            }
            Body::Promotion(body)
                if body.reviews.is_empty()
                    || !body.reviews.iter().all(|review| self.seen.approvals.contains(review)) =>
            {
                return Err(Reason::Position {
                    field: "reviews",
                    found: format!("{:?}", body.reviews),
                    expected: "approving reviews of this ledger".to_owned(),
                });
            }
            Body::Halt(_) => self.seen.approvals.clear(),
            _ => {}
        }
        let context = rederive::Context {
            repo: self.repo,
            trust: self.trust,
            contract: &self.contract,
            guards: &self.guards,
            contract_record: self.contract_record,
            before: &before.state,
            measures: self.measures,
        };
        let decided_by = rederive::rederive(&context, &loaded.record, &loaded.evidence)?;
        self.decisions += u64::from(decided_by.is_some());
        self.tip =
            Step { id: loaded.id, record: loaded.record, state, evidence: loaded.evidence, decided_by };
        Ok(self.tip.clone())
    }
}

/// Whether a name is that of an environment: it becomes part of paths and messages.
fn is_environment_id(id: &str) -> bool {
    id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The commit that a record carries besides the chain.
pub fn second_parent(record: &Record) -> Option<Oid> {
    match &record.body {
        Body::Baseline(body) => Some(body.base),
        Body::Iteration(body) => body.receipt.candidate,
        _ => None,
    }
}

/// What every record must satisfy by itself: signature, trust, role, dates, message.
pub(super) fn envelope(
    contract: &Contract,
    trust: &TrustRoot,
    now: At,
    loaded: &Loaded,
) -> Result<(), Reason> {
    let record = &loaded.record;
    let commit = &loaded.commit.commit;
    let signature = loaded.commit.signature.as_deref().ok_or(Reason::Unsigned)?;
    let signed = sshsig::verify(signature, GIT_NAMESPACE, &loaded.commit.payload)?;
    let Actor { principal, key, role } = &record.actor;
    let print = fingerprint(&signed.key);
    if print != *key {
        return Err(Reason::OtherKey { signed: print, claimed: key.clone() });
    }
    trust
        .check(principal, &signed.key, record.at)
        .map_err(|why| Reason::NotTrusted { principal: principal.clone(), why })?;
    if !may_sign(*role, record) {
        return Err(Reason::RoleMayNot { role: role.as_str(), kind: record.kind.as_str() });
    }
    if !contract.roles.of(*role).contains(principal) {
        return Err(Reason::NotInRole { principal: principal.clone(), role: role.as_str() });
    }
    if let Some((name, _)) = commit.extra_headers.first() {
        return Err(Reason::Header(name.to_string()));
    }
    for (name, person) in [("author", &commit.author), ("committer", &commit.committer)] {
        if person.seconds != record.at.seconds() || person.offset != 0 {
            return Err(Reason::Date(name));
        }
    }
    if record.at.seconds_since(now) > CLOCK_SKEW_SECONDS {
        return Err(Reason::Time(format!("it is of {}, which is in the future (now {now})", record.at)));
    }
    let expected = message::message(contract, record);
    if commit.message != expected.as_str() {
        return Err(Reason::Message(first_difference(&commit.message.to_string(), &expected)));
    }
    Ok(())
}

fn first_difference(found: &str, expected: &str) -> String {
    let mut found = found.lines();
    for line in expected.lines() {
        match found.next() {
            Some(other) if other == line => {}
            Some(other) => return format!("{other:?} must be {line:?}"),
            None => return format!("{line:?} is missing"),
        }
    }
    found.next().map_or_else(|| "line ends differ".to_owned(), |extra| format!("{extra:?} is too much"))
}

fn same_state(state: &State, bytes: &[u8]) -> Result<(), Reason> {
    let expected = state.to_bytes();
    if expected == bytes {
        return Ok(());
    }
    Err(Reason::State(first_difference(&String::from_utf8_lossy(bytes), &String::from_utf8_lossy(&expected))))
}

fn same_evidence(loaded: &Loaded) -> Result<(), Reason> {
    let named = loaded.record.body.evidence();
    for (name, id) in &loaded.evidence {
        match named.iter().find(|entry| entry.name.as_bytes() == name.as_slice()) {
            None => return Err(Reason::Evidence(format!("{name} is not named in record.json"))),
            Some(entry) if entry.id != *id => {
                return Err(Reason::Evidence(format!("{name} is {id}, record.json names {}", entry.id)));
            }
            Some(_) => {}
        }
    }
    // Names in a tree are unique, so equal numbers leave nothing out.
    if named.len() != loaded.evidence.len() {
        return Err(Reason::Evidence(format!(
            "record.json names {} files, the tree has {}",
            named.len(),
            loaded.evidence.len()
        )));
    }
    Ok(())
}

pub(super) fn position(field: &'static str, found: &str, expected: &str) -> Result<(), Reason> {
    if found == expected {
        return Ok(());
    }
    Err(Reason::Position { field, found: found.to_owned(), expected: expected.to_owned() })
}

pub(super) fn optional(id: Option<Oid>) -> String {
    id.map_or_else(|| "null".to_owned(), |id| id.to_string())
}
