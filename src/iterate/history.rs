//! What the context slice tells of earlier iterations, read back from the ledger.

use super::context::{self, CheckOutput};
use super::session::Session;
use crate::decide::Outcome;
use crate::error::{Result, ResultExt};
use crate::ledger::load::RecordCommit;
use crate::ledger::receipt::Receipt;
use crate::ledger::record::{Body, Kind};
use crate::oid::Oid;

/// What the context slice tells of earlier iterations.
pub(super) struct History {
    pub earlier: Vec<Receipt>,
    pub output: Option<CheckOutput>,
}

impl Session<'_> {
    /// Reads the last few iterations back from the ledger.
    pub(super) fn history(&self) -> Result<History> {
        let unreadable = || "the last records cannot be read".to_owned();
        let mut history = History { earlier: Vec::new(), output: None };
        let mut current = Some(self.tip.id);
        while let Some(id) = current
            && history.earlier.len() < context::earlier_wanted()
        {
            // Our own chain up to the tip was verified when the session was opened; that what is read is what was
            // verified, its hash says. So the commit tells which records are worth reading.
            let commit = RecordCommit::read(self.repo, id.0).or_workspace(unreadable)?;
            current = commit.prev().map(Oid);
            if !commit.is(Kind::Iteration) && !commit.is(Kind::Baseline) {
                continue;
            }
            let (record, evidence) = commit.record(self.repo).or_workspace(unreadable)?;
            if history.output.is_none()
                && let Some(evidence) = evidence
            {
                let files = self.repo.read_tree(evidence.0).or_workspace(unreadable)?;
                let read = |names: &[&str]| {
                    let file = names.iter().find_map(|name| files.iter().find(|file| file.name == *name));
                    let bytes = file.map(|file| self.repo.read_blob(file.id).or_workspace(unreadable));
                    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                    bytes.transpose().map(|bytes| bytes.map(text))
                };
                let (stdout, stderr) = (read(&["check.stdout", "report"])?, read(&["check.stderr"])?);
                if stdout.is_some() || stderr.is_some() {
                    let iteration = match &record.body {
                        Body::Iteration(body) => {
                            Some((body.receipt.iteration, body.receipt.decision.outcome == Outcome::Accept))
                        }
                        _ => None,
                    };
                    let (stdout, stderr) = (stdout.unwrap_or_default(), stderr.unwrap_or_default());
                    history.output = Some(CheckOutput { iteration, stdout, stderr });
                }
            }
            if let Body::Iteration(body) = record.body {
                history.earlier.push(body.receipt);
            }
        }
        history.earlier.reverse();
        Ok(history)
    }
}
