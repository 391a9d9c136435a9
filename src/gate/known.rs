//! What the gate has to know of the loops here, read from their ledgers.

use gix::ObjectId;

use super::{Candidate, LedgerJudge, LoopContent, Standing};
use crate::at::At;
use crate::contract::{Class, Contract};
use crate::error::{Error, Result};
use crate::git::{LOOPS_PREFIX, LoopId, LoopRef, LoopRefKind, Repo};
use crate::ledger::load::{contract_bytes, load};
use crate::ledger::record::{Body, Record, Status};
use crate::ledger::trust::TrustRoot;
use crate::ledger::verify::{record_ids, verify_ledger};

/// The loops whose content matters to the tripwire: the `lasting_code` ones, and, if there are any, what others had
/// promoted. A ledger that does not verify cannot have promoted anything, but its candidates still count.
pub fn known_loops(repo: &Repo, trust: Option<&TrustRoot>) -> Result<Vec<LoopContent>> {
    let refs = repo.list_refs(LOOPS_PREFIX)?;
    let mut ledgers = Vec::new();
    for (name, tip) in refs {
        if let Ok(Some(LoopRef { id, kind: LoopRefKind::Ledger })) = LoopRef::parse(name.as_bstr()) {
            let lasting = is_lasting(repo, tip);
            ledgers.push((id, tip, lasting));
        }
    }
    if !ledgers.iter().any(|(_, _, lasting)| *lasting) {
        return Ok(Vec::new());
    }
    let mut loops = Vec::new();
    for (id, tip, lasting) in ledgers {
        if let Some(content) = content(repo, &id, tip, lasting, trust)? {
            loops.push(content);
        }
    }
    Ok(loops)
}

/// Whether the contract that the ledger began with says `lasting_code`: a later record, which anybody may have put on
/// top, could carry another. What cannot be read is taken for it: fail closed.
fn is_lasting(repo: &Repo, tip: ObjectId) -> bool {
    let root = record_ids(repo, tip).ok().and_then(|ids| ids.first().copied());
    let contract = root
        .and_then(|root| load(repo, root).ok())
        .and_then(|loaded| contract_bytes(repo, loaded.peek().contract_blob).ok())
        .and_then(|bytes| Contract::from_bytes(&bytes).ok());
    contract.is_none_or(|contract| contract.class == Class::LastingCode)
}

fn content(
    repo: &Repo,
    id: &LoopId,
    tip: ObjectId,
    lasting: bool,
    trust: Option<&TrustRoot>,
) -> Result<Option<LoopContent>> {
    let mut candidates = Vec::new();
    let verified = trust.and_then(|trust| {
        verify_ledger(repo, id, tip, trust, At::now(), |step| collect(&step.record, &mut candidates)).ok()
    });
    if let Some(chain) = verified {
        let state = &chain.tip.state;
        let standing = match state.status {
            Status::Succeeded => Standing::Promoted(state.last_green_commit.0),
            _ => Standing::Open,
        };
        if !lasting && standing == Standing::Open {
            return Ok(None);
        }
        let base = chain.contract.base.commit.0;
        return Ok(Some(LoopContent { id: id.to_string(), lasting, standing, base, candidates }));
    }
    if !lasting {
        return Ok(None);
    }
    // Not verified: nothing of it is promoted, and every candidate that it names is watched.
    candidates.clear();
    let unreadable = |cause| {
        Error::refused(format!("refs/loops/{id}/ledger cannot be read as a ledger, so nothing can be judged"))
            .caused_by(cause)
            .hint(format!(
                "fetch it anew, or if it is none of yours: git update-ref -d refs/loops/{id}/ledger"
            ))
    };
    let mut base = None;
    for record in record_ids(repo, tip).map_err(unreadable)? {
        // What is no record names no candidate; the ones before it still do.
        let Ok(loaded) = load(repo, record) else { continue };
        let record = &loaded.peek().record;
        if let Body::Baseline(body) = &record.body {
            base = Some(body.base.0);
        }
        collect(record, &mut candidates);
    }
    let Some(base) = base else { return Ok(None) };
    Ok(Some(LoopContent { id: id.to_string(), lasting, standing: Standing::Open, base, candidates }))
}

fn collect(record: &Record, candidates: &mut Vec<Candidate>) {
    if let Body::Iteration(body) = &record.body
        && let Some(candidate) = body.receipt.candidate
    {
        let receipt = &body.receipt;
        candidates.push(Candidate { iteration: receipt.iteration, parent: receipt.base.0, id: candidate.0 });
    }
}

/// Judges pushed ledgers by the trust root here.
pub struct ByTrust<'a> {
    /// Where the objects are.
    pub repo: &'a Repo,
    /// Who is trusted; `Err` says why nobody is.
    pub trust: std::result::Result<&'a TrustRoot, String>,
}

impl LedgerJudge for ByTrust<'_> {
    fn verify(&self, id: &str, tip: ObjectId) -> std::result::Result<(), String> {
        let trust = self.trust.as_ref().map_err(Clone::clone)?;
        let id: LoopId = id.parse().map_err(|error| format!("{error}"))?;
        verify_ledger(self.repo, &id, tip, trust, At::now(), |_| {})
            .map(|_| ())
            .map_err(|error| error.to_string())
    }
}
