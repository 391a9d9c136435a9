//! Reading one record commit: everything that can be said without trust, and nothing that needs it.

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};
use gix::objs::tree::EntryKind;

use super::record::{Kind, Record, RecordError};
use crate::git::{Bound, ObjectError, Repo, TreeEntry, TreeError};
use crate::oid::Oid;
use crate::sign::{CommitError, SignedCommit, parse_signed};

/// A value that nobody has verified yet. Nothing that decides takes one.
#[derive(Debug, Clone)]
pub struct Unverified<T>(pub(super) T);

impl<T> Unverified<T> {
    /// The value, for showing only.
    pub fn peek(&self) -> &T {
        &self.0
    }
}

/// One record commit, taken apart.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The commit.
    pub id: Oid,
    /// The commit object, its payload and its signature.
    pub commit: SignedCommit,
    /// `record.json`.
    pub record: Record,
    /// The blob of `contract.json`.
    pub contract_blob: Oid,
    /// The bytes of `.loop_state.json`.
    pub state: Vec<u8>,
    /// The entries of `evidence/`, in tree order.
    pub evidence: Vec<(BString, Oid)>,
    /// The tree `frozen/`.
    pub frozen: Option<Oid>,
}

/// Why a commit is not a record, whoever signed it.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// An object is missing or corrupt.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A tree is missing, corrupt or malformed.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The commit object is malformed.
    #[error("the commit is malformed: {0}")]
    Commit(#[from] CommitError),
    /// An entry of the tree that should be there is not.
    #[error("the tree has no `{0}`")]
    MissingEntry(&'static str),
    /// An entry of the tree that should not be there is.
    #[error("the tree has an entry `{0}` that no record has")]
    ForeignEntry(String),
    /// An entry of the tree is of another type.
    #[error("the tree entry `{0}` has mode {1}")]
    EntryMode(String, String),
    /// `record.json` is not a record.
    #[error("record.json: {0}")]
    Record(#[from] RecordError),
}

/// Reads the record commit `id`.
pub fn load(repo: &Repo, id: ObjectId) -> Result<Unverified<Loaded>, LoadError> {
    let commit = signed_commit(repo, id)?;
    let mut contract_blob = None;
    let mut record = None;
    let mut state = None;
    let mut status = false;
    let mut evidence = Vec::new();
    let mut frozen = None;
    for entry in repo.read_record_tree(commit.commit.tree)? {
        match entry.name.as_slice() {
            b"contract.json" => contract_blob = Some(blob(&entry)?),
            b"record.json" => record = Some(blob(&entry)?),
            b".loop_state.json" => state = Some(blob(&entry)?),
            b"STATUS.md" => {
                read(repo, blob(&entry)?, Bound::STATUS)?;
                status = true;
            }
            b"evidence" => {
                for file in repo.read_record_tree(tree(&entry)?.0)? {
                    evidence.push((file.name.clone(), blob(&file)?));
                }
                if evidence.is_empty() {
                    return Err(LoadError::ForeignEntry("evidence".to_owned()));
                }
            }
            b"frozen" => frozen = Some(tree(&entry)?),
            other => return Err(LoadError::ForeignEntry(other.as_bstr().to_string())),
        }
    }
    if !status {
        return Err(LoadError::MissingEntry("STATUS.md"));
    }
    let contract_blob = contract_blob.ok_or(LoadError::MissingEntry("contract.json"))?;
    let record = record.ok_or(LoadError::MissingEntry("record.json"))?;
    let state = state.ok_or(LoadError::MissingEntry(".loop_state.json"))?;
    Ok(Unverified(Loaded {
        id: Oid(id),
        commit,
        record: Record::from_bytes(&read(repo, record, Bound::RECORD)?)?,
        contract_blob,
        state: read(repo, state, Bound::STATE)?,
        evidence,
        frozen,
    }))
}

/// The commit object of a record or a candidate.
pub(super) fn signed_commit(repo: &Repo, id: ObjectId) -> Result<SignedCommit, LoadError> {
    let raw = repo.read_at_most(id, gix::object::Kind::Commit, Bound::RECORD_COMMIT)?;
    Ok(parse_signed(&raw, repo.hash_kind())?)
}

/// A blob of a record.
pub(super) fn read(repo: &Repo, blob: Oid, bound: Bound) -> Result<Vec<u8>, ObjectError> {
    repo.read_at_most(blob.0, gix::object::Kind::Blob, bound)
}

/// The bytes of `contract.json`.
pub fn contract_bytes(repo: &Repo, blob: Oid) -> Result<Vec<u8>, ObjectError> {
    read(repo, blob, Bound::CONTRACT)
}

/// A record commit of which only the commit object was read: for a walk back along a ledger that is verified already.
#[derive(Debug)]
pub struct RecordCommit(SignedCommit);

impl RecordCommit {
    /// Reads the commit `id`.
    pub fn read(repo: &Repo, id: ObjectId) -> Result<Self, LoadError> {
        Ok(Self(signed_commit(repo, id)?))
    }

    /// The record before it.
    pub fn prev(&self) -> Option<ObjectId> {
        self.0.commit.parents.first().copied()
    }

    /// Whether it is of this kind, as its message says: in a verified ledger that is what `record.json` says.
    pub fn is(&self, kind: Kind) -> bool {
        super::message::is_of(&self.0.commit.message.to_str_lossy(), kind)
    }

    /// `record.json`, and the tree `evidence/`.
    pub fn record(&self, repo: &Repo) -> Result<(Record, Option<Oid>), LoadError> {
        let entries = repo.read_record_tree(self.0.commit.tree)?;
        let find = |name: &str| entries.iter().find(|entry| entry.name == name);
        let record = blob(find("record.json").ok_or(LoadError::MissingEntry("record.json"))?)?;
        let evidence = find("evidence").map(tree).transpose()?;
        Ok((Record::from_known_bytes(&read(repo, record, Bound::RECORD)?)?, evidence))
    }
}

fn blob(entry: &TreeEntry) -> Result<Oid, LoadError> {
    expect(entry, EntryKind::Blob)
}

fn tree(entry: &TreeEntry) -> Result<Oid, LoadError> {
    expect(entry, EntryKind::Tree)
}

fn expect(entry: &TreeEntry, mode: EntryKind) -> Result<Oid, LoadError> {
    if entry.mode == mode {
        return Ok(Oid(entry.id));
    }
    Err(LoadError::EntryMode(entry.name.to_string(), format!("{:?}", entry.mode)))
}
