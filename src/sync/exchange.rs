//! One synchronisation with one remote: all loops in one fetch and one atomic push, and again if somebody was faster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gix::ObjectId;

use super::bring::{Bringing, Places, track};
use super::seen::Seen;
use super::told::LoopEnd;
use crate::crash;
use crate::error::{Error, Kind, Result};
use crate::git::{LOOPS_PREFIX, LoopId, LoopRef, LoopRefKind, PushEnd, PushRef, Pushed, RemoteNames, Repo};
use crate::ledger::trust::TrustRoot;
use crate::oid::Oid;
use crate::sign::Signer;

/// How often others may be faster before we give up.
const ATTEMPTS: u32 = 30;
/// How often a push may fail without a word of the remote about any ref.
const BROKEN: u32 = 3;
/// The longest pause before another attempt.
const LONGEST_PAUSE: u64 = 400;

/// What a synchronisation needs.
pub struct Exchange<'a> {
    /// The repository.
    pub repo: &'a Repo,
    /// Who is trusted.
    pub trust: &'a TrustRoot,
    /// The name of the remote.
    pub remote: String,
    /// How the refs of loops are called there.
    pub names: RemoteNames,
    /// The key at hand; asked for only where records have to be signed anew.
    pub signer: &'a dyn Fn() -> Result<&'a Signer>,
}

/// What is to be synchronised.
#[derive(Debug, Default)]
pub struct Request<'a> {
    /// These loops; all that either side has if there are none.
    pub ids: Vec<LoopId>,
    /// The loop whose lock the caller holds.
    pub held: Option<&'a LoopId>,
}

/// The name of the remote that loops are shared with if nobody says another: `loop.remote`, else `origin`, else the only one.
pub fn default_remote(repo: &Repo) -> Result<String> {
    if let Some(name) = repo.config().get("loop.remote").filter(|name| !name.is_empty()) {
        return Ok(name);
    }
    let names: Vec<String> = repo.gix().remote_names().iter().map(ToString::to_string).collect();
    match &names[..] {
        [] => Err(Error::usage("this repository has no remote to share loops with")
            .hint("add one: git remote add origin URL")),
        [only] => Ok(only.clone()),
        _ if names.iter().any(|name| name == "origin") => Ok("origin".to_owned()),
        _ => Err(Error::usage("which remote?")
            .hint(format!("there are {}: git loop sync REMOTE", names.join(", ")))),
    }
}

impl<'a> Exchange<'a> {
    /// With the remote `remote`, which must be one of the repository's.
    pub fn new(
        repo: &'a Repo,
        trust: &'a TrustRoot,
        remote: String,
        signer: &'a dyn Fn() -> Result<&'a Signer>,
    ) -> Result<Self> {
        if !repo.gix().remote_names().iter().any(|name| *name == remote.as_str()) {
            return Err(Error::usage(format!("there is no remote {remote:?} in this repository"))
                .hint("see them: git remote -v; add one: git remote add NAME URL"));
        }
        let names = RemoteNames::new(
            repo.config().get("loop.refPrefix").filter(|prefix| !prefix.is_empty()).as_deref(),
        )?;
        Ok(Self { repo, trust, remote, names, signer })
    }

    /// Fetches, brings together and pushes. An error is what kept the remote from being asked, or from answering; what is wrong with
    /// one loop stands in its end, and hinders no other.
    pub fn run(&self, request: &Request<'_>) -> Result<Vec<LoopEnd>> {
        let mut ends: BTreeMap<LoopId, LoopEnd> = BTreeMap::new();
        let mut broken = 0;
        for attempt in 1..=ATTEMPTS {
            let listed = self.listed()?;
            let ids = self.ids(request, &listed)?;
            self.fetch(&ids, &listed)?;
            crash::point("sync:fetched");
            let mut pushes: Vec<(LoopId, PushRef)> = Vec::new();
            let mut again = false;
            for id in &ids {
                let end = ends.entry(id.clone()).or_insert_with(|| LoopEnd::new(id.clone()));
                // What is wrong with it was found out before; it is wrong still.
                if end.error.is_some() {
                    continue;
                }
                let there = listed.get(id).copied().unwrap_or_default();
                let ours = request.held == Some(id);
                match (Bringing { exchange: self, id, there, end: &mut *end, ours }).bring() {
                    Ok(refs) => {
                        if let Err(error) = track(self.repo, id, &self.remote, there) {
                            end.warn(format!(
                                "what {} has of `{id}` is not among the remote-tracking refs: {}",
                                self.remote,
                                error.chain()
                            ));
                        }
                        pushes.extend(refs.into_iter().map(|push| (id.clone(), push)));
                    }
                    // Something moved here while we looked.
                    Err(error) if error.kind() == Kind::Workspace && !end.is_run && self.moved(id, end) => {
                        again = true;
                    }
                    Err(error) => end.error = Some(error),
                }
            }
            match self.push(&pushes, &listed, &mut ends) {
                Ok(true) if !again => return Ok(ends.into_values().collect()),
                Ok(_) => {}
                Err(error) => {
                    broken += 1;
                    if broken >= BROKEN {
                        return Err(error);
                    }
                }
            }
            pause(attempt);
        }
        Err(Error::workspace(format!(
            "others changed the loops on {} at every one of {ATTEMPTS} attempts",
            self.remote
        ))
        .hint("nothing is lost; run it again"))
    }

    /// Whether the ledger here is not where it was when the loop was looked at.
    fn moved(&self, id: &LoopId, end: &LoopEnd) -> bool {
        let now = self.repo.read_ref(id.refs().ledger().as_ref()).ok().flatten().map(Oid);
        now != end.tip
    }

    /// Where the refs of loops are on the remote.
    fn listed(&self) -> Result<BTreeMap<LoopId, Places>> {
        let patterns = self.names.patterns();
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let mut listed: BTreeMap<LoopId, Places> = BTreeMap::new();
        for (name, target) in self.repo.list_remote_refs(&self.remote, &patterns)? {
            // A pattern fits the end of any name; what is no loop's is not ours.
            if let Some(LoopRef { id, kind }) = self.names.parse(name.as_ref()) {
                listed.entry(id).or_default().set(kind, Some(target));
            }
        }
        Ok(listed)
    }

    fn ids(&self, request: &Request<'_>, listed: &BTreeMap<LoopId, Places>) -> Result<BTreeSet<LoopId>> {
        let mut ids: BTreeSet<LoopId> = request.ids.iter().cloned().collect();
        if ids.is_empty() {
            ids.extend(listed.keys().cloned());
            for (name, _) in self.repo.list_each_ref(LOOPS_PREFIX)? {
                if let Ok(Some(LoopRef { id, kind: LoopRefKind::Ledger })) = LoopRef::parse(name.as_bstr()) {
                    ids.insert(id);
                }
            }
            return Ok(ids);
        }
        for id in &ids {
            let here = self.repo.read_ref(id.refs().ledger().as_ref())?;
            if here.is_none()
                && !listed.contains_key(id)
                && Seen::read(self.repo, id)?.at(&self.remote).is_none()
            {
                return Err(Error::usage(format!(
                    "there is no loop `{id}`, neither here nor on {}",
                    self.remote
                ))
                .hint("see those that are here: git loop list"));
            }
        }
        Ok(ids)
    }

    /// Fetches what the refs of these loops reach, unless refs here reach it.
    fn fetch(&self, ids: &BTreeSet<LoopId>, listed: &BTreeMap<LoopId, Places>) -> Result<()> {
        let mut wanted = Vec::new();
        for id in ids {
            let Some(there) = listed.get(id) else { continue };
            let here = Places::here(self.repo, id)?;
            for kind in LoopRefKind::ALL {
                let tracked = match id.refs().tracked(&self.remote, kind) {
                    Some(name) => self.repo.read_ref(name.as_ref())?,
                    None => None,
                };
                let known = |target: ObjectId| Some(target) == here.get(kind) || Some(target) == tracked;
                if there.get(kind).is_some_and(|target| !known(target)) {
                    wanted.push(self.names.name(id, kind));
                }
            }
        }
        Ok(self.repo.fetch_objects(&self.remote, &wanted)?)
    }

    /// One push of everything. True if there is nothing to be tried again.
    fn push(
        &self,
        pushes: &[(LoopId, PushRef)],
        listed: &BTreeMap<LoopId, Places>,
        ends: &mut BTreeMap<LoopId, LoopEnd>,
    ) -> Result<bool> {
        if pushes.is_empty() {
            return Ok(true);
        }
        let refs: Vec<PushRef> = pushes.iter().map(|(_, push)| push.clone()).collect();
        let PushEnd { refs: results, said } = self.repo.push_refs(&self.remote, &refs)?;
        crash::point("sync:pushed");
        if results.iter().all(|result| !matches!(result, Pushed::Refused(_))) {
            for id in pushes.iter().map(|(id, _)| id).collect::<BTreeSet<_>>() {
                let mut there = listed.get(id).copied().unwrap_or_default();
                for (_, push) in pushes.iter().filter(|(other, _)| other == id) {
                    if let Some(LoopRef { kind, .. }) = self.names.parse(push.name.as_bstr()) {
                        there.set(kind, push.to);
                    }
                }
                if let Some(end) = ends.get_mut(id) {
                    self.arrived(end, listed.get(id).and_then(|before| before.ledger), there)?;
                }
            }
            return Ok(true);
        }
        // Without those that the host refuses the others may get through; and after a new fetch those that came too late.
        for ((id, push), result) in pushes.iter().zip(&results) {
            let Pushed::Refused(why) = result else { continue };
            if refusal(why) == Refusal::Host
                && let Some(end) = ends.get_mut(id)
            {
                end.error.get_or_insert_with(|| self.refused(push, why, &said));
            }
        }
        Ok(false)
    }

    /// The remote has it.
    fn arrived(&self, end: &mut LoopEnd, before: Option<ObjectId>, there: Places) -> Result<()> {
        if let Some(tip) = there.ledger {
            let count = |tip: ObjectId| {
                crate::ledger::verify::record_ids(self.repo, tip).map_or(0, |ids| ids.len() as u64)
            };
            let pushed = if before == Some(tip) { 0 } else { count(tip) - before.map_or(0, count) };
            end.pushed += pushed;
            end.refs_pushed |= pushed == 0;
            Seen::read(self.repo, &end.id)?.set(self.repo, &end.id, &self.remote, Oid(tip))?;
        }
        if let Err(error) = track(self.repo, &end.id, &self.remote, there) {
            end.warn(format!(
                "what {} has of `{}` is not among the remote-tracking refs: {}",
                self.remote,
                end.id,
                error.chain()
            ));
        }
        Ok(())
    }

    fn refused(&self, push: &PushRef, why: &str, said: &[String]) -> Error {
        let remote = &self.remote;
        let mut error = Error::refused(format!("{remote} refused {}: {why}", push.name));
        for line in said.iter().take(10) {
            error = error.hint(format!("{remote} says: {}", crate::escape::escape_terminal(line)));
        }
        let plain = self.names == RemoteNames::default();
        if plain {
            error = error.hint(
                "if this host takes no refs but branches and tags, share loops under a prefix that it takes, in every clone: git config loop.refPrefix refs/heads/git-loop",
            );
        }
        error
    }
}

/// Why a ref was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// Somebody else was faster.
    Race,
    /// Because another ref was.
    Collateral,
    /// The host does not want it.
    Host,
}

/// Reads the reason that git gives in parentheses. A word that is not known is the host's own.
fn refusal(why: &str) -> Refusal {
    const RACES: &[&str] = &[
        "stale info",
        "fetch first",
        "non-fast-forward",
        "already exists",
        "failed to update ref",
        "failed to lock",
        "cannot lock ref",
        "incorrect old value",
        "remote ref updated",
    ];
    let has = |words: &[&str]| words.iter().any(|word| why.contains(word));
    match () {
        () if has(RACES) => Refusal::Race,
        () if has(&["atomic", "another ref of the same push", "transaction failed"]) => Refusal::Collateral,
        () => Refusal::Host,
    }
}

/// Waits a little, longer each time, and not as long as others do.
fn pause(attempt: u32) {
    use ssh_key::rand_core::{OsRng, RngCore};
    let most = (20 * u64::from(attempt)).min(LONGEST_PAUSE);
    std::thread::sleep(Duration::from_millis(OsRng.next_u64() % most + 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_of_a_ref_is_told_apart() {
        for (why, refusal_of) in [
            ("[rejected] (stale info)", Refusal::Race),
            ("[remote rejected] (incorrect old value provided)", Refusal::Race),
            ("[rejected] (fetch first)", Refusal::Race),
            ("[remote rejected] (atomic transaction failed)", Refusal::Collateral),
            ("[rejected] (atomic push failed)", Refusal::Collateral),
            ("another ref of the same push was refused", Refusal::Collateral),
            ("[remote rejected] (hook declined)", Refusal::Host),
            ("[remote rejected] (pre-receive hook declined)", Refusal::Host),
            ("[remote rejected] (deny updating a hidden ref)", Refusal::Host),
            ("[remote rejected] (protected branch hook declined)", Refusal::Host),
        ] {
            assert_eq!(refusal(why), refusal_of, "{why}");
        }
    }
}
