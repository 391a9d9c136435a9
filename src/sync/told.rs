//! What came of a synchronisation, loop by loop.

use super::reappend::Aside;
use crate::error::Error;
use crate::git::LoopId;
use crate::oid::Oid;

/// What came of one loop.
#[derive(Debug)]
pub struct LoopEnd {
    /// The loop.
    pub id: LoopId,
    /// The end of the ledger here; none if it is not here.
    pub tip: Option<Oid>,
    /// How many records came from the remote.
    pub fetched: u64,
    /// How many records the remote got.
    pub pushed: u64,
    /// Whether the remote got anything else: head, or receipts.
    pub refs_pushed: bool,
    /// Records of ours that were signed anew after those of the remote, with what each became.
    pub carried: Vec<(Oid, Oid)>,
    /// Records that were not.
    pub aside: Vec<Aside>,
    /// The refs of the former ledgers that have them.
    pub aside_refs: Vec<String>,
    /// Whether it is being run here, so that it could not be brought up to date.
    pub is_run: bool,
    /// What is worth knowing.
    pub warnings: Vec<String>,
    /// Why it is not what it should be.
    pub error: Option<Error>,
}

impl LoopEnd {
    /// Nothing happened yet.
    pub fn new(id: LoopId) -> Self {
        Self {
            id,
            tip: None,
            fetched: 0,
            pushed: 0,
            refs_pushed: false,
            carried: Vec::new(),
            aside: Vec::new(),
            aside_refs: Vec::new(),
            is_run: false,
            warnings: Vec::new(),
            error: None,
        }
    }

    /// One word for it.
    pub fn word(&self) -> &'static str {
        match &self.error {
            Some(_) => "refused",
            None if self.fetched == 0 && self.pushed == 0 && !self.refs_pushed => "up_to_date",
            None => "synced",
        }
    }

    pub(super) fn warn(&mut self, text: impl Into<String>) {
        let text = text.into();
        // The same is found again at each attempt.
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }
}
