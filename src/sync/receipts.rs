//! The receipts of both sides as one.
//!
//! The gate of a remote takes nothing but receipts of the loop's ledger, in every commit of the notes. So what is here is held to
//! the same rule before it is merged. Receipts of records that were signed anew are none any more, and are made again from the
//! ledger; anything else that somebody wrote there stays where it is, and is not shared.

use gix::ObjectId;

use crate::at::At;
use crate::error::Result;
use crate::gate::{LedgerFacts, Objects, receipts};
use crate::git::{Durability, Repo, signature};

/// What is to become of the notes here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// They become this, which the remote may have too.
    Into(Option<ObjectId>),
    /// They hold something that is no receipt of the loop, and stay; the remote gets none.
    Kept(String),
    /// Those of the remote hold something that is none; nothing is taken from there.
    Foreign(String),
}

/// The receipts of one ledger, before and after it was brought up to date.
#[derive(Debug)]
pub struct Sources<'a> {
    /// What the ledger says now.
    pub now: &'a LedgerFacts,
    /// The receipts that it says, in its order: candidate and line.
    pub lines: &'a [(ObjectId, String)],
    /// What it said before, where records were signed anew.
    pub before: Option<&'a LedgerFacts>,
}

impl Sources<'_> {
    /// Merges the notes `here` with those `there`, and adds what both lack.
    pub fn merge(
        &self,
        repo: &Repo,
        objects: &Objects,
        here: Option<ObjectId>,
        there: Option<ObjectId>,
        at: At,
    ) -> Result<Merged> {
        if let Some(there) = there
            && let Err(fault) = receipts::judge(objects, None, there, self.now)
        {
            return Ok(Merged::Foreign(told(&fault)));
        }
        let who = signature(at);
        let base = match (here, there) {
            (None, there) => there,
            (Some(here), Some(there)) if here == there || ancestor(repo, here, there) => Some(there),
            (Some(here), there) => match receipts::judge(objects, None, here, self.now) {
                Ok(()) => match there {
                    Some(there) if !ancestor(repo, there, here) => {
                        Some(repo.merge_notes(there, here, &who, Durability::Fast)?)
                    }
                    _ => Some(here),
                },
                Err(fault) => {
                    // Receipts of records that are others now.
                    let mut known = self.now.clone();
                    for (candidate, lines) in self.before.iter().flat_map(|before| &before.candidates) {
                        known.candidates.entry(*candidate).or_default().extend(lines.iter().cloned());
                    }
                    if receipts::judge(objects, None, here, &known).is_err() {
                        return Ok(Merged::Kept(told(&fault)));
                    }
                    there
                }
            },
        };
        let lines: Vec<(ObjectId, &str)> =
            self.lines.iter().map(|(candidate, line)| (*candidate, line.as_str())).collect();
        if base.is_none() && lines.is_empty() {
            return Ok(Merged::Into(None));
        }
        Ok(Merged::Into(Some(repo.append_note_lines(base, &lines, &who, Durability::Fast)?)))
    }
}

/// Whether `old` is before `new`. What cannot be read is taken for no.
fn ancestor(repo: &Repo, old: ObjectId, new: ObjectId) -> bool {
    repo.is_ancestor(old, new).unwrap_or(false)
}

fn told(fault: &receipts::Fault) -> String {
    match fault {
        receipts::Fault::Moved(why) => why.clone(),
        receipts::Fault::Foreign { what, .. } => what.clone(),
        receipts::Fault::Unreadable(error) => error.to_string(),
    }
}
