//! Drafting and signing records, and publishing them by compare-and-swap. Objects are written first; nothing refers to
//! them until one ref transaction moves the ledger, so a killed process leaves the state before or the state after.

use std::sync::Arc;

use gix::ObjectId;
use gix::bstr::BString;
use gix::objs::tree::EntryKind;
use gix::refs::FullName;

use super::fold;
use super::message::message;
use super::record::{Actor, Body, EvidenceEntry, RECORD_SCHEMA, Record, Role};
use super::state::State;
use super::verify::{Chain, Step, second_parent};
use crate::at::At;
use crate::contract::Contract;
use crate::crash;
use crate::error::{Error, Result, ResultExt};
use crate::git::{Bound, Expect, LoopRefs, RefChange, Repo};
use crate::oid::Oid;
use crate::render::status::status_md;
use crate::sign::{CommitObject, Person, attach_signature};
use crate::sign::{GIT_NAMESPACE, Signer};

/// Who signs from here on.
#[derive(Debug)]
pub struct Author<'a> {
    /// The key.
    pub signer: &'a Signer,
    /// The principal that the trust root gives the key.
    pub principal: String,
}

/// A file that goes under `evidence/`.
#[derive(Debug, Clone)]
pub struct EvidenceFile {
    /// Its name there.
    pub name: String,
    /// What is kept.
    pub content: Vec<u8>,
    /// How many bytes there were.
    pub bytes: u64,
    /// Whether `content` is less than all of it.
    pub truncated: bool,
}

impl EvidenceFile {
    /// A file that is kept whole.
    pub fn whole(name: impl Into<String>, content: Vec<u8>) -> Self {
        Self { name: name.into(), bytes: content.len() as u64, content, truncated: false }
    }
}

/// The end of a ledger as this process knows it, drafted records included.
#[derive(Debug, Clone)]
pub struct Tip {
    /// The frozen terms.
    pub contract: Arc<Contract>,
    /// The contract record.
    pub contract_record: Oid,
    /// The blob of `contract.json`.
    pub contract_blob: Oid,
    /// The last record.
    pub id: Oid,
    /// Its position.
    pub seq: u64,
    /// When it was signed.
    pub at: At,
    /// The state after it.
    pub state: State,
    /// What it says.
    pub record: Record,
    /// The files of its `evidence/`.
    pub evidence: Vec<(String, Oid)>,
}

impl From<Chain> for Tip {
    fn from(chain: Chain) -> Self {
        let Step { id, record, state, evidence, .. } = chain.tip;
        Self {
            contract: Arc::new(chain.contract),
            contract_record: chain.contract_record,
            contract_blob: chain.contract_blob,
            id,
            seq: record.seq,
            at: record.at,
            state,
            record,
            evidence: evidence.into_iter().map(|(name, id)| (name.to_string(), id)).collect(),
        }
    }
}

/// Writes the contract record of a new loop; nothing refers to it yet.
pub fn draft_contract(
    repo: &Repo,
    author: &Author<'_>,
    contract: Contract,
    body: Body,
    now: At,
) -> Result<Tip> {
    // Whoever made the base may not have waited for the disk, and the frozen trees were just written.
    let unreadable = || format!("the base {} cannot be read", contract.base.commit);
    repo.restore_lost().or_workspace(unreadable)?;
    repo.remember_tree(contract.frozen.tree.0, None).or_workspace(unreadable)?;
    repo.remember_tree(contract.base.tree.0, None).or_workspace(unreadable)?;
    repo.remember_others(&[contract.base.commit.0]);
    let contract_blob = write(repo, &contract.to_bytes(), Bound::CONTRACT)?;
    let record = Record {
        schema: RECORD_SCHEMA.to_owned(),
        kind: body.kind(),
        loop_id: contract.loop_id.clone(),
        contract: None,
        seq: 0,
        prev: None,
        at: now,
        actor: actor(author, Role::Approver),
        body,
    };
    let state = fold::begin(&contract);
    let mut files = tree_files(repo, &contract, contract_blob, &record, &state)?;
    files.push(("frozen".into(), EntryKind::Tree, contract.frozen.tree.0));
    let id = commit(repo, author, &contract, &record, &files, &[])?;
    Ok(Tip {
        contract_record: id,
        contract_blob: Oid(contract_blob),
        id,
        seq: 0,
        at: now,
        state,
        record,
        evidence: Vec::new(),
        contract: Arc::new(contract),
    })
}

impl Tip {
    /// A tip for a rehearsal: a contract that nobody signed, which no record can follow.
    pub fn unsigned(repo: &Repo, contract: Contract, author: &Author<'_>) -> Result<Self> {
        let blob =
            Oid(gix::objs::compute_hash(repo.hash_kind(), gix::object::Kind::Blob, &contract.to_bytes())
                .or_internal(|| "the contract cannot be hashed".to_owned())?);
        let null = Oid(ObjectId::null(repo.hash_kind()));
        let body = Body::Contract(super::record::ContractBody {
            tool: String::new(),
            objective: contract.objective.clone(),
        });
        let at = At::now();
        let record = Record {
            schema: RECORD_SCHEMA.to_owned(),
            kind: body.kind(),
            loop_id: contract.loop_id.clone(),
            contract: None,
            seq: 0,
            prev: None,
            at,
            actor: actor(author, Role::Approver),
            body,
        };
        let state = fold::begin(&contract);
        Ok(Self {
            contract: Arc::new(contract),
            contract_record: null,
            contract_blob: blob,
            id: null,
            seq: 0,
            at,
            state,
            record,
            evidence: Vec::new(),
        })
    }
}

/// Writes the next record after `tip`; nothing refers to it yet. `now` is moved forward to the time of the tip if the
/// clock went back.
pub fn draft(
    repo: &Repo,
    author: &Author<'_>,
    tip: &Tip,
    role: Role,
    body: impl FnOnce(Vec<EvidenceEntry>) -> Body,
    evidence: Vec<EvidenceFile>,
    now: At,
) -> Result<Tip> {
    let mut entries = Vec::with_capacity(evidence.len());
    let mut names = Vec::with_capacity(evidence.len());
    for file in evidence {
        let id = Oid(write(repo, &file.content, Bound::EVIDENCE)?);
        entries.push(EvidenceEntry {
            name: file.name.clone(),
            id,
            bytes: file.bytes,
            truncated: file.truncated,
        });
        names.push((file.name.clone(), id));
    }
    let body = body(entries);
    let record = Record {
        schema: RECORD_SCHEMA.to_owned(),
        kind: body.kind(),
        loop_id: tip.contract.loop_id.clone(),
        contract: Some(tip.contract_record),
        seq: tip.seq + 1,
        prev: Some(tip.id),
        at: now.max(tip.at),
        actor: actor(author, role),
        body,
    };
    let state =
        fold::fold(&tip.contract, &tip.state, &record).map_err(|error| Error::refused(error.to_string()))?;
    let mut files = tree_files(repo, &tip.contract, tip.contract_blob.0, &record, &state)?;
    for (name, id) in &names {
        files.push((format!("evidence/{name}").into(), EntryKind::Blob, id.0));
    }
    let mut parents = vec![tip.id.0];
    parents.extend(second_parent(&record).map(|id| id.0));
    let id = commit(repo, author, &tip.contract, &record, &files, &parents)?;
    crash::point("record:drafted");
    Ok(Tip {
        contract: Arc::clone(&tip.contract),
        contract_record: tip.contract_record,
        contract_blob: tip.contract_blob,
        id,
        seq: record.seq,
        at: record.at,
        state,
        record,
        evidence: names,
    })
}

fn actor(author: &Author<'_>, role: Role) -> Actor {
    Actor { principal: author.principal.clone(), key: author.signer.fingerprint(), role }
}

/// The files of a record's tree.
type Files = Vec<(BString, EntryKind, ObjectId)>;

fn tree_files(
    repo: &Repo,
    contract: &Contract,
    contract_blob: ObjectId,
    record: &Record,
    state: &State,
) -> Result<Files> {
    let status = status_md(contract, record, state);
    Ok(vec![
        (".loop_state.json".into(), EntryKind::Blob, write(repo, &state.to_bytes(), Bound::STATE)?),
        ("STATUS.md".into(), EntryKind::Blob, write(repo, status.as_bytes(), Bound::STATUS)?),
        ("contract.json".into(), EntryKind::Blob, contract_blob),
        ("record.json".into(), EntryKind::Blob, write(repo, &record.to_bytes(), Bound::RECORD)?),
    ])
}

/// Writes a blob of a record, unless it is larger than what anybody would read.
fn write(repo: &Repo, bytes: &[u8], bound: Bound) -> Result<ObjectId> {
    if bytes.len() as u64 > bound.bytes {
        return Err(Error::workspace(format!(
            "{} would have {} bytes, more than the {} that are read of one",
            bound.what,
            bytes.len(),
            bound.bytes
        ))
        .hint("report fewer tests, or with shorter names"));
    }
    Ok(repo.write_blob(bytes)?)
}

fn commit(
    repo: &Repo,
    author: &Author<'_>,
    contract: &Contract,
    record: &Record,
    files: &Files,
    parents: &[ObjectId],
) -> Result<Oid> {
    let tree = repo.write_files(files)?;
    let person = person(&author.principal, record.at);
    let object = CommitObject {
        tree,
        parents: parents.to_vec(),
        author: person.clone(),
        committer: person,
        extra_headers: Vec::new(),
        message: message(contract, record).into(),
    };
    write_signed(repo, author.signer, &object)
}

/// A principal as git writes people, at a time in UTC.
pub fn person(principal: &str, at: At) -> Person {
    Person { name: principal.into(), email: principal.into(), seconds: at.seconds(), offset: 0 }
}

/// Signs a commit object and writes it.
pub fn write_signed(repo: &Repo, signer: &Signer, object: &CommitObject) -> Result<Oid> {
    let payload = object.to_bytes()?;
    let pem = signer.sign(GIT_NAMESPACE, &payload)?;
    let raw = attach_signature(&payload, &pem, repo.hash_kind());
    Ok(Oid(repo.write_commit(&raw)?))
}

/// One more ref that moves together with the ledger.
#[derive(Debug)]
pub struct Move {
    /// The full name.
    pub name: FullName,
    /// What it must be now.
    pub expect: Expect,
    /// What it will be.
    pub to: Oid,
}

/// Moves the ledger from `from` (`None`: it must not exist) to `tip`, together with the other refs, or nothing.
pub fn publish(
    repo: &Repo,
    refs: LoopRefs<'_>,
    from: Option<Oid>,
    tip: &Tip,
    others: Vec<Move>,
    why: &str,
) -> Result<()> {
    // The ledger comes first: it is the authority, and the others are repaired from it if the process dies in between.
    let mut changes = vec![RefChange {
        name: refs.ledger(),
        expect: from.map_or(Expect::Absent, |id| Expect::Exactly(id.0)),
        to: Some(tip.id.0),
        message: why.to_owned(),
    }];
    changes.extend(others.into_iter().map(|other| RefChange {
        name: other.name,
        expect: other.expect,
        to: Some(other.to.0),
        message: why.to_owned(),
    }));
    crash::point("publish:before");
    let published = repo.move_refs(&changes, tip.at).map_err(|error| {
        let what = format!("the records of loop `{}` could not be published", tip.contract.loop_id);
        Error::from(error).while_doing(what)
    });
    crash::point("publish:after");
    published
}
