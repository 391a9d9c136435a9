//! Where a ledger was verified up to, so that whoever appends to it need not verify its beginning each time.
//!
//! A waypoint is kept in this user's own cache, never in the repository, and may be deleted at any time. It counts for one tip under
//! one trust root and one version of git-loop. Nothing else is believed on its word: the record at the tip is read again and hashed,
//! and what it carries (contract, state) is what was verified. Where a contract lets commands run without a sandbox none is kept: they
//! could write here what they like. Whoever judges somebody else's ledger (`verify`, reviews, the gate) begins with the first record.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::trust::TrustRoot;
use super::verify::{Chain, Seen, Verified};
use crate::contract::Adapter;
use crate::git::LoopId;
use crate::oid::Oid;

/// The form of the file. Another one is not read.
const SCHEMA: &str = "git-loop/waypoint/v1";
/// A file with more bytes is none of ours: a hundred iterations come to four thousand.
const MAX_BYTES: u64 = 1 << 20;

/// A record up to which a ledger holds, and what a verification that goes on from there must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waypoint {
    schema: String,
    tool: String,
    trust: String,
    #[serde(rename = "loop")]
    loop_id: String,
    pub(super) tip: Oid,
    /// How many records there are up to it, itself included.
    pub(super) records: u64,
    /// How many decisions were derived again.
    pub(super) decisions: u64,
    /// What a reader should know.
    pub(super) warnings: Vec<String>,
    /// What the records have used up or given.
    pub(super) seen: Seen,
}

impl Waypoint {
    /// The record.
    pub fn tip(&self) -> Oid {
        self.tip
    }
}

/// Where the waypoint of one loop is kept.
#[derive(Debug, Clone)]
pub struct WaypointFile {
    path: PathBuf,
    loop_id: String,
    trust: String,
}

impl WaypointFile {
    /// The file of loop `id` in `folder`, which must be writable by this user alone.
    pub fn new(folder: &Path, id: &LoopId, trust: &TrustRoot) -> Self {
        Self {
            path: folder.join(format!("{id}.verified")),
            loop_id: id.to_string(),
            trust: trust.fingerprint(),
        }
    }

    /// The waypoint, if there is one that counts here.
    pub fn read(&self) -> Option<Waypoint> {
        if fs::symlink_metadata(&self.path).ok()?.len() > MAX_BYTES {
            return None;
        }
        let waypoint: Waypoint = serde_json::from_slice(&fs::read(&self.path).ok()?).ok()?;
        let counts = waypoint.schema == SCHEMA
            && waypoint.tool == env!("CARGO_PKG_VERSION")
            && waypoint.trust == self.trust
            && waypoint.loop_id == self.loop_id
            && waypoint.records > 0;
        counts.then_some(waypoint)
    }

    /// Keeps that `chain` holds up to its tip. One that cannot be written costs time and nothing else.
    pub fn write(&self, chain: &Verified<Chain>) {
        if chain.contract.sandbox.allowed.contains(&Adapter::None) {
            let _ = fs::remove_file(&self.path);
            return;
        }
        let waypoint = Waypoint {
            schema: SCHEMA.to_owned(),
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            trust: self.trust.clone(),
            loop_id: self.loop_id.clone(),
            tip: chain.tip.id,
            records: chain.records,
            decisions: chain.decisions,
            warnings: chain.parent_warnings.clone(),
            seen: chain.seen.clone(),
        };
        let _ = self.replace(&waypoint);
    }

    fn replace(&self, waypoint: &Waypoint) -> std::io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().prefix(".verified-").tempfile_in(folder)?;
        file.write_all(&serde_json::to_vec(waypoint)?)?;
        file.persist(&self.path)?;
        Ok(())
    }
}
