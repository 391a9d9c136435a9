//! What a loop made and its ledger does not say: the candidate of an iteration that is not recorded yet, and what a ledger
//! that somebody moved back does not name any more.
//!
//! A runner points `refs/loops/<id>/head` at a candidate before it judges it, and records it with the decision. Until then,
//! and after a runner that was killed until the next run, only `head` says what it is. So a commit there
//! that is built on something the ledger knows counts as a candidate, and so do the candidates that the loop's receipts
//! name. A head that is neither is told of by nothing that is here: there was more of the ledger once, or somebody moved
//! the ref. Then nothing can be judged.

use std::collections::{BTreeMap, HashSet};

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};
use gix::refs::FullName;

use super::{Candidate, LoopContent, Standing};
use crate::error::{Error, Result};
use crate::git::{LoopId, LoopRef, LoopRefKind, Repo};

/// The refs of one loop here.
#[derive(Debug, Default)]
pub struct Own {
    ledger: bool,
    head: Option<ObjectId>,
}

/// The loops' own refs among `refs`, by loop.
pub fn own(refs: &[(FullName, ObjectId)]) -> BTreeMap<LoopId, Own> {
    let mut found: BTreeMap<LoopId, Own> = BTreeMap::new();
    for (name, tip) in refs {
        match LoopRef::parse(name.as_bstr()) {
            Ok(Some(LoopRef { id, kind: LoopRefKind::Head })) => {
                found.entry(id).or_default().head = Some(*tip);
            }
            Ok(Some(LoopRef { id, kind: LoopRefKind::Ledger })) => found.entry(id).or_default().ledger = true,
            _ => {}
        }
    }
    found
}

/// Refuses a loop of which the head is here and no ledger is: neither its class nor its candidates are known. `elsewhere`
/// are the loops whose ledgers are among the remote-tracking refs or in the push.
pub(super) fn refuse_heads_alone(own: &BTreeMap<LoopId, Own>, elsewhere: &HashSet<LoopId>) -> Result<()> {
    for (id, refs) in own {
        if refs.head.is_some() && !refs.ledger && !elsewhere.contains(id) {
            let refs = id.refs();
            return Err(Error::refused(format!(
                "{} is here and {} is not, so nothing says what the loop made and nothing can be judged",
                refs.head(),
                refs.ledger()
            ))
            .hint(format!(
                "fetch the ledger: git fetch <remote> {0}:{0}; if the head is none of yours: git update-ref -d {1}",
                refs.ledger(),
                refs.head()
            )));
        }
    }
    Ok(())
}

/// Adds to the open `lasting_code` loops in `loops` what their heads and receipts name and their ledgers do not.
pub fn add(repo: &Repo, own: &BTreeMap<LoopId, Own>, loops: &mut [LoopContent]) -> Result<()> {
    for (id, refs) in own {
        let is_watched = |content: &LoopContent| {
            content.id == id.as_str() && content.lasting && content.standing == Standing::Open
        };
        let mut known = HashSet::new();
        let mut last = 0;
        for content in loops.iter().filter(|content| is_watched(content)) {
            known.insert(content.base);
            known.extend(content.candidates.iter().map(|candidate| candidate.id));
            last = content.candidates.iter().map(|candidate| candidate.iteration).fold(last, u32::max);
        }
        let Some(content) = loops.iter_mut().find(|content| is_watched(content)) else { continue };
        let mut more: Vec<Candidate> = with_receipts(repo, id)?
            .into_iter()
            .filter(|named| !known.contains(named))
            .filter_map(|named| candidate(repo, id, named))
            .collect();
        more.sort_unstable_by_key(|candidate| candidate.iteration);
        for candidate in more {
            known.insert(candidate.id);
            last = last.max(candidate.iteration);
            content.candidates.push(candidate);
        }
        let Some(head) = refs.head.filter(|head| !known.contains(head)) else { continue };
        match candidate(repo, id, head) {
            Some(candidate) if known.contains(&candidate.parent) => content.candidates.push(candidate),
            _ => return Err(foreign_head(id, head)),
        }
    }
    Ok(())
}

fn foreign_head(id: &LoopId, head: ObjectId) -> Error {
    let refs = id.refs();
    Error::refused(format!(
        "{} is at {head}, which is neither the base nor a candidate that {} names or that is built on one, so nothing can be judged",
        refs.head(),
        refs.ledger()
    ))
    .hint(format!(
        "if the ledger was moved back, fetch it: git fetch <remote> {0}:{0}; if only the head was moved, `git loop run {id}` puts it back",
        refs.ledger()
    ))
}

/// The commit `id` as a candidate of the loop, by what its message says.
fn candidate(repo: &Repo, loop_id: &LoopId, id: ObjectId) -> Option<Candidate> {
    let raw = repo.read_kind(id, gix::object::Kind::Commit).ok()?;
    let commit = gix::objs::CommitRef::from_bytes(&raw, repo.hash_kind()).ok()?;
    let said =
        |key: &str| commit.message.lines().find_map(|line| line.strip_prefix(key.as_bytes())?.to_str().ok());
    said("Loop-Environment: ")?;
    let iteration = said("Loop-Iteration: ")?.trim().parse().ok()?;
    let parent = commit.parents().next()?;
    (said("Loop-Id: ")?.trim() == loop_id.as_str()).then_some(Candidate { iteration, parent, id })
}

/// What the loop's receipts are on. What is no id is left out; the rules for receipts are another matter.
fn with_receipts(repo: &Repo, id: &LoopId) -> Result<Vec<ObjectId>> {
    let name = id.refs().notes();
    let unreadable = || {
        Error::refused(format!("{name} cannot be read, so nothing can be judged"))
            .hint(format!("git fsck; if it is none of yours: git update-ref -d {name}"))
    };
    let Some(tip) = repo.read_ref(name.as_ref()).map_err(|cause| unreadable().caused_by(cause))? else {
        return Ok(Vec::new());
    };
    let object = repo.gix().find_object(tip).map_err(|cause| unreadable().caused_by(cause))?;
    let tree = object.peel_to_tree().map_err(|cause| unreadable().caused_by(cause))?;
    let entries = tree.traverse().breadthfirst.files().map_err(|cause| unreadable().caused_by(cause))?;
    let mut named = Vec::new();
    for entry in entries {
        let path: BString = entry.filepath.replace("/", "").into();
        named.extend(ObjectId::from_hex(&path).ok());
    }
    Ok(named)
}
