//! What the gate has to know of the loops here, read from their ledgers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};
use serde_json::Value;

use super::ledger_rules::ledgers;
use super::{Candidate, LedgerFacts, LedgerJudge, LoopContent, Standing, Update, unrecorded};
use crate::at::At;
use crate::canonical::compact_json;
use crate::contract::{Class, Contract};
use crate::error::{Error, Result, ResultExt};
use crate::git::{ASIDE_PREFIX, LOOPS_PREFIX, LoopId, LoopRef, LoopRefKind, Repo};
use crate::ledger::load::{contract_bytes, load};
use crate::ledger::record::{Body, Record, Status};
use crate::ledger::trust::TrustRoot;
use crate::ledger::verify::{record_ids, verify_ledger};

/// The loops whose content matters to the tripwire: the `lasting_code` ones, and, if there are any, what others had
/// promoted. A ledger that does not verify cannot have promoted anything, but its candidates still count.
///
/// Known are the ledgers under `refs/loops`, those that `updates` bring (a push could else bring a candidate to a branch
/// beside the ledger that says what it is), those that a fetch refspec put among the remote-tracking refs, and those that a
/// synchronisation kept aside.
pub fn known_loops(repo: &Repo, trust: Option<&TrustRoot>, updates: &[Update]) -> Result<Known> {
    let refs = repo.list_refs(LOOPS_PREFIX)?;
    let own_refs = unrecorded::own(&refs);
    let mut ledgers = Vec::new();
    for (name, tip) in refs {
        if let Ok(Some(LoopRef { id, kind: LoopRefKind::Ledger })) = LoopRef::parse(name.as_bstr()) {
            let lasting = is_lasting(repo, &id, tip);
            ledgers.push((id, tip, lasting, true));
        }
    }
    let own = ledgers.len();
    let others = others(repo, updates)?;
    unrecorded::refuse_heads_alone(&own_refs, &others.iter().map(|(id, _)| id.clone()).collect())?;
    for (id, tip) in others {
        // One that is here already up to there says nothing new; one that goes on from there says all that it says.
        let same = |(other, known, ..): &(LoopId, ObjectId, bool, bool)| {
            *other == id && has_record(repo, *known, tip)
        };
        if ledgers.iter().any(same) {
            continue;
        }
        ledgers.retain(|(other, known, ..)| *other != id || !has_record(repo, tip, *known));
        let lasting = is_lasting(repo, &id, tip);
        ledgers.push((id, tip, lasting, false));
    }
    let mut known = Known { loops: Vec::new(), ledgers: own };
    if !ledgers.iter().any(|(_, _, lasting, _)| *lasting) {
        return Ok(known);
    }
    for (id, tip, lasting, must_be_read) in ledgers {
        match content(repo, &id, tip, lasting, trust) {
            Ok(content) => known.loops.extend(content),
            // What is pushed and no ledger is refused by its own rule.
            Err(error) if must_be_read => return Err(error),
            Err(_) => {}
        }
    }
    unrecorded::add(repo, &own_refs, &mut known.loops)?;
    Ok(known)
}

/// What is known of the loops.
#[derive(Debug)]
pub struct Known {
    /// Those that matter to the tripwire.
    pub loops: Vec<LoopContent>,
    /// How many ledgers there are under `refs/loops`, of any class.
    pub ledgers: usize,
}

/// Ledgers that are not under `refs/loops` here, by the ids of their loops.
fn others(repo: &Repo, updates: &[Update]) -> Result<Vec<(LoopId, ObjectId)>> {
    let mut found = Vec::new();
    for (id, tip) in ledgers(updates) {
        found.extend(id.parse().ok().map(|id| (id, tip)));
    }
    for (name, tip) in repo.list_refs(ASIDE_PREFIX)? {
        let id =
            name.as_bstr().strip_prefix(ASIDE_PREFIX.as_bytes()).and_then(|rest| rest.split_once_str("/"));
        found.extend(id.and_then(|(id, _)| id.to_str().ok()?.parse().ok()).map(|id| (id, tip)));
    }
    let unreadable = || "the remote-tracking refs cannot be read".to_owned();
    let refs = repo.gix().references().or_workspace(unreadable)?;
    for reference in refs.prefixed("refs/remotes/").or_workspace(unreadable)? {
        // A broken one leads to no ledger, and a symbolic one to another ref that is looked at itself.
        let Ok(reference) = reference else { continue };
        let Some(tip) = reference.try_id().map(gix::Id::detach) else { continue };
        let Some(rest) = reference.name().as_bstr().strip_suffix(b"/ledger") else { continue };
        let id =
            rest.rsplit_once_str("/").and_then(|(_, id)| id.to_str().ok()).and_then(|id| id.parse().ok());
        // A branch may have such a name.
        if let Some(id) = id
            && load(repo, tip).is_ok()
        {
            found.push((id, tip));
        }
    }
    Ok(found)
}

/// Whether the ledger at `tip` has the record `wanted`.
fn has_record(repo: &Repo, tip: ObjectId, wanted: ObjectId) -> bool {
    record_ids(repo, tip).is_ok_and(|ids| ids.contains(&wanted))
}

/// Whether the contract that the ledger began with says `lasting_code`: a later record, which anybody may have put on
/// top, could carry another. What cannot be read, or is the contract of another loop, is taken for it: fail closed.
fn is_lasting(repo: &Repo, id: &LoopId, tip: ObjectId) -> bool {
    let root = record_ids(repo, tip).ok().and_then(|ids| ids.first().copied());
    let contract = root
        .and_then(|root| load(repo, root).ok())
        .and_then(|loaded| contract_bytes(repo, loaded.peek().contract_blob).ok())
        .and_then(|bytes| Contract::from_bytes(&bytes).ok());
    contract.is_none_or(|contract| contract.class == Class::LastingCode || contract.loop_id != id.as_str())
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
            _ if state.released => Standing::Released,
            _ => Standing::Open,
        };
        if !lasting && !matches!(standing, Standing::Promoted(_)) {
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
    let no_ledger = || {
        Error::refused(format!("refs/loops/{id}/ledger cannot be read as a ledger, so nothing can be judged"))
            .hint(format!(
                "fetch it anew, or if it is none of yours: git update-ref -d refs/loops/{id}/ledger"
            ))
    };
    let mut base = None;
    for record in record_ids(repo, tip).map_err(|cause| no_ledger().caused_by(cause))? {
        // What is no record names no candidate; the ones before it still do.
        let Ok(loaded) = load(repo, record) else { continue };
        let record = &loaded.peek().record;
        if let Body::Baseline(body) = &record.body {
            base = Some(body.base.0);
        }
        collect(record, &mut candidates);
    }
    // An ordinary commit, say. What it should tell of the loop is not known.
    let base = base.ok_or_else(no_ledger)?;
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
    repo: &'a Repo,
    trust: std::result::Result<&'a TrustRoot, String>,
    place: Place,
    facts: RefCell<HashMap<(String, ObjectId), Rc<LedgerFacts>>>,
}

/// Where the ledgers of the receiving side are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Under this repository's own `refs/loops`: it is the one that receives, or has what was fetched from there.
    Here,
    /// In the repository that a client pushes to.
    Remote {
        /// The remote, or its address where it has no name.
        name: BString,
        /// The address.
        url: BString,
    },
}

impl<'a> ByTrust<'a> {
    /// `trust` says who is trusted; `Err` says why nobody is.
    pub fn new(repo: &'a Repo, trust: std::result::Result<&'a TrustRoot, String>, place: Place) -> Self {
        Self { repo, trust, place, facts: RefCell::default() }
    }
}

impl LedgerJudge for ByTrust<'_> {
    fn verify(&self, id: &str, tip: ObjectId) -> std::result::Result<Rc<LedgerFacts>, String> {
        let key = (id.to_owned(), tip);
        if let Some(known) = self.facts.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        let trust = self.trust.as_ref().map_err(Clone::clone)?;
        let loop_id: LoopId = id.parse().map_err(|error| format!("{error}"))?;
        let mut facts = LedgerFacts::default();
        let mut unread = None;
        let chain = verify_ledger(self.repo, &loop_id, tip, trust, At::now(), |step| {
            if let Body::Iteration(body) = &step.record.body
                && let Some(candidate) = body.receipt.candidate
            {
                match receipt_line(self.repo, step.id.0) {
                    Some(line) => facts.candidates.entry(candidate.0).or_default().push(line),
                    None => unread = Some(step.id),
                }
            }
        })
        .map_err(|error| error.to_string())?;
        if let Some(record) = unread {
            return Err(format!("the receipt of record {record} cannot be read"));
        }
        facts.base = Some(chain.contract.base.commit.0);
        let facts = Rc::new(facts);
        self.facts.borrow_mut().insert(key, Rc::clone(&facts));
        Ok(facts)
    }

    fn remote_tips(&self) -> std::result::Result<Vec<ObjectId>, String> {
        let Place::Remote { url, .. } = &self.place else { return Err("there is no remote".to_owned()) };
        let url = url.to_str().map_err(|_| "the address of the remote is not UTF-8".to_owned())?;
        let listed = self.repo.list_remote_refs(url, &["refs/heads/*", "refs/tags/*"]);
        Ok(listed.map_err(|error| Error::from(error).chain())?.into_iter().map(|(_, tip)| tip).collect())
    }

    fn received(&self, id: &str) -> std::result::Result<Option<ObjectId>, String> {
        let id: LoopId = id.parse().map_err(|error| format!("{error}"))?;
        let name = id.refs().ledger();
        let Place::Remote { name: remote, url } = &self.place else {
            return self.repo.read_ref(name.as_ref()).map_err(|error| error.to_string());
        };
        let url = url.to_str().map_err(|_| "the address of the remote is not UTF-8".to_owned())?;
        match self.repo.list_remote_refs(url, &[&name.as_bstr().to_string()]) {
            Ok(listed) => {
                Ok(listed.into_iter().find(|(found, _)| found == name.as_bstr()).map(|(_, tip)| tip))
            }
            // Where nobody can be asked (a passphrase is wanted, a program is named by the repository), what was
            // fetched has to do.
            Err(error) => {
                let tracked = format!("refs/remotes/{remote}/loops/{id}/ledger");
                match self.repo.read_ref_peeled(&tracked) {
                    Ok(Some(tip)) => Ok(Some(tip)),
                    _ => Err(format!(
                        "{}, and {tracked} does not exist (git fetch {remote} {name}:{tracked} makes it)",
                        Error::from(error).chain()
                    )),
                }
            }
        }
    }
}

/// The receipt of an iteration record as a line of a note: what the record says, also in fields that only a newer
/// version knows.
pub fn receipt_line(repo: &Repo, record: ObjectId) -> Option<String> {
    let bytes = repo.read_path_at(record, "record.json").ok()??;
    let record: Value = serde_json::from_slice(&bytes).ok()?;
    Some(compact_json(record.get("body")?.get("receipt")?))
}
