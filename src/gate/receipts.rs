//! The receipts that a push brings: whether `refs/notes/loops/<id>` has nothing but what the loop's ledger says.
//!
//! A notes ref is a branch of its own that the tripwire does not look at, so its whole new history is held to one form:
//! a tree of notes (object ids, flat or fanned out), each the note of a candidate, each line a receipt of that candidate,
//! byte for byte as the ledger has it. Repeated and empty lines are what a merge of two notes leaves.

use std::collections::HashSet;

use gix::ObjectId;
use gix::bstr::ByteSlice;

use super::ledger_rules::LedgerFacts;
use super::objects::{EntryKind, Objects, Unreadable};

/// Why the receipts are refused.
#[derive(Debug, Clone)]
pub enum Fault {
    /// They do not go on from those on the other side.
    Moved(String),
    /// Something is no receipt of the loop.
    Foreign {
        /// The commit that has it.
        commit: ObjectId,
        /// What it is.
        what: String,
    },
    /// Something cannot be read.
    Unreadable(Unreadable),
}

impl From<Unreadable> for Fault {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error)
    }
}

/// A note is not read beyond this many bytes: a receipt is a few thousand.
const MAX_NOTE: usize = 16 * 1024 * 1024;

/// Judges every commit that `new` reaches and `old` does not.
pub fn judge(
    objects: &Objects,
    old: Option<ObjectId>,
    new: ObjectId,
    facts: &LedgerFacts,
) -> Result<(), Fault> {
    let before = match old {
        None => HashSet::new(),
        Some(old) if !objects.has(old) => {
            return Err(Fault::Moved(format!("its tip on the other side, {old}, is not known here")));
        }
        Some(old) => history(objects, old, &HashSet::new())?,
    };
    let brought = history(objects, new, &before)?;
    let goes_on = |old: &ObjectId| {
        new == *old
            || brought.iter().any(|id| objects.commit(*id).is_ok_and(|commit| commit.parents.contains(old)))
    };
    if let Some(old) = old.filter(|old| !goes_on(old)) {
        return Err(Fault::Moved(format!("receipts only fast-forward: {new} is not built on {old}")));
    }
    let mut judged = Judged { objects, facts, trees: HashSet::new(), notes: HashSet::new() };
    for id in brought {
        let tree = objects.commit(id)?.tree;
        judged.tree(tree, "").map_err(|fault| fault.into_fault(id))?;
    }
    Ok(())
}

/// What `tip` reaches, without going through `known`.
fn history(
    objects: &Objects,
    tip: ObjectId,
    known: &HashSet<ObjectId>,
) -> Result<HashSet<ObjectId>, Unreadable> {
    let mut found = HashSet::new();
    let mut open = vec![(None, tip)];
    while let Some((child, id)) = open.pop() {
        if known.contains(&id) || !found.insert(id) {
            continue;
        }
        let commit = match child {
            Some(child) => objects.parent(child, id)?,
            None => objects.commit(id)?,
        };
        open.extend(commit.parents.into_iter().map(|parent| (Some(id), parent)));
    }
    Ok(found)
}

enum InTree {
    Foreign(String),
    Unreadable(Unreadable),
}

impl From<Unreadable> for InTree {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error)
    }
}

impl InTree {
    fn into_fault(self, commit: ObjectId) -> Fault {
        match self {
            Self::Foreign(what) => Fault::Foreign { commit, what },
            Self::Unreadable(error) => Fault::Unreadable(error),
        }
    }
}

/// What was found to be in order already: each commit has nearly the tree of the one before.
struct Judged<'a> {
    objects: &'a Objects,
    facts: &'a LedgerFacts,
    trees: HashSet<(ObjectId, String)>,
    notes: HashSet<(ObjectId, ObjectId)>,
}

impl Judged<'_> {
    fn tree(&mut self, id: ObjectId, prefix: &str) -> Result<(), InTree> {
        if !self.trees.insert((id, prefix.to_owned())) {
            return Ok(());
        }
        let digits = self.objects.hash().len_in_hex();
        for (name, entry) in self.objects.tree(id)? {
            let foreign = |what: &str| {
                InTree::Foreign(format!("{prefix}{} {what}", super::verdict::shown(name.as_bstr())))
            };
            let hex = name
                .to_str()
                .ok()
                .filter(|name| name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
            let Some(hex) = hex else { return Err(foreign("is no part of the id of an object")) };
            let path = format!("{prefix}{hex}");
            match entry.kind {
                EntryKind::Tree if hex.len() == 2 && path.len() < digits => self.tree(entry.id, &path)?,
                EntryKind::File if path.len() == digits => {
                    let target = ObjectId::from_hex(path.as_bytes()).map_err(|_| foreign("is no id"))?;
                    self.note(target, entry.id)?;
                }
                _ => return Err(foreign("is no note")),
            }
        }
        Ok(())
    }

    fn note(&mut self, target: ObjectId, note: ObjectId) -> Result<(), InTree> {
        if !self.notes.insert((target, note)) {
            return Ok(());
        }
        let Some(receipts) = self.facts.candidates.get(&target) else {
            return Err(InTree::Foreign(format!(
                "it has a note on {target}, which is no candidate of the ledger"
            )));
        };
        let Some(content) = self.objects.blob(note, MAX_NOTE)? else {
            return Err(InTree::Foreign(format!("the note on {target} is too long")));
        };
        for (number, line) in content.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() && !receipts.iter().any(|receipt| receipt.as_bytes() == line) {
                let number = number + 1;
                return Err(InTree::Foreign(format!(
                    "line {number} of the note on {target} is no receipt that the ledger has of it"
                )));
            }
        }
        Ok(())
    }
}
