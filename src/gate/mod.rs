//! The gate: what refuses to let unpromoted `lasting_code` out, and keeps ledgers append-only.
//!
//! One judgement, three front ends: a client's `pre-push` hook, a server's `pre-receive` or `update` hook, and
//! `git loop gate <old>..<new>` for CI. They differ in how the input is read ([`input`]) and in where it is known what
//! the receiving side has ([`Side`]); the rest is the same code. A client's hook can be bypassed (`--no-verify`, another
//! `core.hooksPath`, `send-pack`) and does not see what `--mirror` deletes; the server's hook is the enforcement.
//!
//! Only the tripwire is built. A repository with a `.loops/policy.toml` asks for the governed mode, and is refused
//! rather than judged by less than its policy.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`input`] | hook input, hook arguments and ranges as [`Update`]s |
//! | [`objects`] | commits, trees and blobs, with a server's quarantine in view |
//! | [`commits`] | which commits a push brings |
//! | [`change`] | the identity of a change to one file |
//! | [`tripwire`] | what unpromoted loops introduced, and whether a commit carries it |
//! | [`ledger_rules`] | the rules for `refs/loops/*` and `refs/notes/loops/*` |
//! | [`receipts`] | the form of `refs/notes/loops/*` |
//! | [`known`] | what the gate has to know of the loops, from their ledgers |
//! | [`unrecorded`] | what heads and receipts name and ledgers do not |
//! | [`verdict`] | the answer |
//! | [`shim`] and [`install`] | the hook scripts, and putting them beside the hooks that are there |

pub mod change;
pub mod commits;
pub mod input;
pub mod install;
pub mod known;
pub mod ledger_rules;
pub mod objects;
pub mod receipts;
pub mod shim;
pub mod tripwire;
pub mod unrecorded;
pub mod verdict;

#[cfg(test)]
mod attack_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice};

pub use commits::Side;
pub use input::Update;
pub use ledger_rules::{LedgerFacts, LedgerJudge};
pub use objects::Objects;
pub use tripwire::{Candidate, LoopContent, Standing};
pub use verdict::{Refusal, Verdict};

use crate::error::Error;
use crate::git::resolve_revision;
use objects::{Target, Unreadable};
use tripwire::{Hit, Tripwire};
use verdict::{Code, shown};

/// Why there is no judgement at all. Whoever asked must refuse.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The input is malformed.
    #[error(transparent)]
    Input(#[from] input::InputError),
    /// The protected side has a policy.
    #[error("governed mode is not built yet, but the protected side has a {POLICY_FILE} (in {commit})")]
    Governed {
        /// The commit that has it.
        commit: ObjectId,
    },
    /// The protected side cannot be read.
    #[error("the protected side cannot be read: {0}")]
    Protected(Unreadable),
    /// A side of a range is no revision of this repository.
    #[error("{text:?} is not a commit of this repository")]
    Revision {
        /// What was given.
        text: String,
    },
    /// Refs, configuration or the object store cannot be read.
    #[error("cannot read {what}")]
    Repository {
        /// What.
        what: &'static str,
        /// Why.
        source: Box<gix::Error>,
    },
}

impl From<GateError> for Error {
    fn from(error: GateError) -> Self {
        let refused = Self::refused(error.to_string());
        match error {
            GateError::Input(input::InputError::Range { .. }) => {
                Self::usage(error.to_string()).hint("name the two sides: git loop gate origin/main..HEAD")
            }
            GateError::Input(_) => refused.hint("the gate reads what git gives its hooks; let git call it"),
            GateError::Governed { .. } => refused.hint(format!(
                "take {POLICY_FILE} out of the protected branch, or use a version that builds it"
            )),
            GateError::Protected(source) => refused.hint(source.unblock(None)),
            GateError::Revision { .. } => refused.hint("fetch it: git fetch"),
            GateError::Repository { source, .. } => refused.caused_by(source).hint("look at it: git fsck"),
        }
    }
}

/// What makes the gate governed.
pub const POLICY_FILE: &str = ".loops/policy.toml";

/// Everything a judgement depends on.
pub struct Gate<'a> {
    /// The repository of the hook or the CI job. Its refs are read, its objects through `objects`.
    pub repo: &'a gix::Repository,
    /// The objects of `repo`, and on a server those in quarantine.
    pub objects: &'a Objects,
    /// Who judges.
    pub side: &'a Side,
    /// The commits whose trees are the protected side, of the protected branch usually ([`commits::protected_tip`]);
    /// for a range its old side, which [`Gate::judge`] adds itself.
    pub protected: Option<ObjectId>,
    /// Every loop known here.
    pub loops: &'a [LoopContent],
    /// Verifies ledgers against the trust root of the protected side.
    pub ledgers: &'a dyn LedgerJudge,
}

impl Gate<'_> {
    /// Judges every update.
    pub fn judge(&self, updates: &[Update]) -> Result<Verdict, GateError> {
        self.refuse_policy(updates)?;
        let remote = self.side.remote().map(shown);
        let is_watched = |content: &&LoopContent| content.lasting && content.standing == Standing::Open;
        let mut watched: Vec<String> =
            self.loops.iter().filter(is_watched).map(|content| content.id.clone()).collect();
        watched.sort_unstable();
        watched.dedup();
        let loop_refs =
            updates.iter().filter(|update| ledger_rules::is_loop_space(update.reference.as_bstr())).count();
        let mut verdict = Verdict { updates: updates.len(), loop_refs, watched, ..Verdict::default() };
        // Deletions and the refs of loops do not need it.
        let watched = |update: &Update| {
            update.new.is_some() && !ledger_rules::is_loop_space(update.reference.as_bstr())
        };
        let loops = if updates.iter().any(watched) { self.loops } else { &[] };
        let tripwire = Tripwire::new(self.objects, loops);
        let pushed = ledger_rules::Pushed::among(updates);
        let judged = match &tripwire {
            Ok(tripwire) if !tripwire.is_empty() => self.judge_commits(
                tripwire,
                updates.iter().filter(|update| watched(update)),
                updates,
                &mut verdict,
            )?,
            _ => Judged::default(),
        };
        for update in updates {
            let reference = update.reference.as_bstr();
            if ledger_rules::is_loop_space(reference) {
                if let Err(broken) =
                    ledger_rules::judge(self.objects, update, &pushed, self.ledgers, remote.as_deref())
                {
                    verdict.refusals.push(Refusal {
                        reference: shown(reference),
                        code: Code::LedgerRule,
                        loop_id: broken.id,
                        path: None,
                        commit: update.new.map(|id| id.to_string()),
                        reason: broken.reason,
                        unblock: broken.unblock,
                    });
                }
                continue;
            }
            // Whom to trust and what is protected may be read from there (`loop.protectedBranch`), so nobody else may
            // write it.
            if *self.side == Side::Server && ledger_rules::is_tracked(reference) {
                verdict.refusals.push(Refusal {
                    reference: shown(reference),
                    code: Code::ProtectedRef,
                    loop_id: None,
                    path: None,
                    commit: update.new.map(|id| id.to_string()),
                    reason:
                        "the remote-tracking refs of a server are what it fetched itself; nobody pushes them"
                            .to_owned(),
                    unblock: "push without --mirror, or to refs/heads".to_owned(),
                });
                continue;
            }
            let Some(new) = update.new else { continue };
            let cannot = |loop_id: Option<String>, source: &Unreadable| Refusal {
                reference: shown(reference),
                code: Code::CannotJudge,
                loop_id,
                path: None,
                commit: Some(new.to_string()),
                reason: format!("it cannot be judged: {source}"),
                unblock: source.unblock(remote.as_deref()),
            };
            let tripwire = match &tripwire {
                Ok(tripwire) if tripwire.is_empty() => continue,
                Ok(tripwire) => tripwire,
                Err(error) => {
                    verdict.refusals.push(cannot(Some(error.id.clone()), &error.source));
                    continue;
                }
            };
            match judged.update(self.objects, tripwire, new) {
                Ok(found) => {
                    let refusals = found.iter().map(|(commit, hit)| Refusal::hit(reference, *commit, hit));
                    verdict.refusals.extend(refusals);
                }
                Err(source) => verdict.refusals.push(cannot(None, &source)),
            }
        }
        verdict.commits = judged.commits.len();
        Ok(verdict)
    }

    /// Judges every commit that the watched updates bring, each once.
    fn judge_commits<'u>(
        &self,
        tripwire: &Tripwire<'_>,
        watched: impl Iterator<Item = &'u Update>,
        updates: &[Update],
        verdict: &mut Verdict,
    ) -> Result<Judged, GateError> {
        let tips: Vec<ObjectId> = watched
            .filter_map(|update| match self.objects.peel(update.new?) {
                Ok(Target::Commit(tip)) => Some(tip),
                // A bare tree or blob has no history, and what cannot be read is told where its ref is judged.
                _ => None,
            })
            .collect();
        if tips.is_empty() {
            return Ok(Judged::default());
        }
        let known = self.known(tripwire, &tips, updates, &mut verdict.notes)?;
        let mut judged = Judged::default();
        let mut judge = |brought: &commits::Brought| {
            for commit in &brought.commits {
                judged.commits.entry(*commit).or_insert_with(|| tripwire.judge_commit(*commit));
            }
        };
        match commits::Brought::by(self.objects, &tips, &known) {
            Ok(brought) => {
                judge(&brought);
                judged.history = tips.iter().map(|tip| (*tip, Ok(0))).collect();
                judged.brought.push(brought);
            }
            // One of them stands on what cannot be read; the others need not.
            Err(_) => {
                let mut each = Vec::new();
                let mut history = HashMap::new();
                for tip in tips {
                    let brought = commits::Brought::by(self.objects, &[tip], &known);
                    history.insert(
                        tip,
                        brought.map(|brought| {
                            judge(&brought);
                            each.push(brought);
                            each.len() - 1
                        }),
                    );
                }
                judged.history = history;
                judged.brought = each;
            }
        }
        judged.clean = judged.commits.values().all(|hits| hits.as_ref().is_ok_and(Vec::is_empty));
        Ok(judged)
    }

    /// What the other side has: what this side knows of its refs, and where the updated ones are.
    fn known(
        &self,
        tripwire: &Tripwire<'_>,
        tips: &[ObjectId],
        updates: &[Update],
        notes: &mut Vec<String>,
    ) -> Result<Vec<ObjectId>, GateError> {
        let open = self.loops.iter().filter(|content| content.lasting && content.standing == Standing::Open);
        let open = open.flat_map(|content| content.candidates.iter().map(|candidate| candidate.id)).collect();
        let mut known = self.told(updates, notes);
        let read = self.side.known(self.repo, self.objects, &open);
        let mut tracked = read.map_err(|source| GateError::Repository { what: "the refs", source })?;
        // Anybody may have moved a remote-tracking ref. They spare a long walk, and hide nothing.
        let is_client = matches!(self.side, Side::Client { .. });
        if is_client && !tracked.is_empty() && self.carry(tripwire, tips, &known) {
            tracked.retain(|tip| !self.carry(tripwire, &[*tip], &known));
            match self.ledgers.remote_tips() {
                Ok(listed) => tracked
                    .extend(listed.iter().filter_map(|tip| commits::had(self.objects, *tip, &open))),
                Err(why) => notes.push(format!(
                    "what the remote has is not known ({why}); remote-tracking refs that have anything of an unpromoted loop do not count"
                )),
            }
        }
        known.append(&mut tracked);
        Ok(known)
    }

    /// Whether `tips` reach what an open loop made, besides what `told` reaches. What cannot be read may be it.
    fn carry(&self, tripwire: &Tripwire<'_>, tips: &[ObjectId], told: &[ObjectId]) -> bool {
        let mut seen = HashSet::new();
        tripwire.bases().any(|base| {
            let had: Vec<ObjectId> = told.iter().copied().chain([base]).collect();
            commits::Brought::by(self.objects, tips, &had).map_or(true, |brought| {
                let mut new = brought.commits.iter().filter(|commit| seen.insert(**commit));
                new.any(|commit| tripwire.judge_commit(*commit).map_or(true, |hits| !hits.is_empty()))
            })
        })
    }

    /// Where the updated refs are on the other side, as it says itself.
    fn told(&self, updates: &[Update], notes: &mut Vec<String>) -> Vec<ObjectId> {
        let mut known = Vec::new();
        for update in updates.iter().filter(|update| !ledger_rules::is_loop_space(update.reference.as_bstr()))
        {
            let Some(old) = update.old else { continue };
            match self.objects.peel(old) {
                // A branch that got past the gate once is nobody's fault now; a ledger under another name is still one.
                Ok(Target::Commit(old)) if *self.side == Side::Range || !is_record(self.objects, old) => known.push(old),
                Ok(_) => {}
                // A force push over what somebody else pushed: what the remote-tracking refs know has to do.
                Err(_) => notes.push(format!(
                    "{}: {old}, where it is on the other side, is not known here; more commits than needed may be judged",
                    shown(update.reference.as_bstr())
                )),
            }
        }
        known
    }

    /// The policy is read from the protected side only: a push must not be able to switch it off or on.
    fn refuse_policy(&self, updates: &[Update]) -> Result<(), GateError> {
        let olds = updates.iter().filter(|_| *self.side == Side::Range).filter_map(|update| update.old);
        for commit in self.protected.into_iter().chain(olds) {
            let tree = self.objects.commit(commit).map_err(GateError::Protected)?.tree;
            let found = self.objects.lookup(tree, BStr::new(POLICY_FILE)).map_err(GateError::Protected)?;
            if found.is_some() {
                return Err(GateError::Governed { commit });
            }
        }
        Ok(())
    }
}

fn is_record(objects: &Objects, id: ObjectId) -> bool {
    matches!(objects.commit_of_a_loop(id), Ok((_, Some(objects::MadeBy::Record))))
}

/// What the tripwire said of the commits of a push.
#[derive(Default)]
struct Judged {
    commits: HashMap<ObjectId, Result<Vec<Hit>, Unreadable>>,
    /// For each tip the number of the walk that went back from it, or why it could not.
    history: HashMap<ObjectId, Result<usize, Unreadable>>,
    brought: Vec<commits::Brought>,
    /// Whether nothing was found and everything could be read.
    clean: bool,
}

impl Judged {
    /// What one update carries: each hit with its commit, or none for a bare tree or blob.
    fn update(
        &self,
        objects: &Objects,
        tripwire: &Tripwire<'_>,
        new: ObjectId,
    ) -> Result<Vec<(Option<ObjectId>, Hit)>, Unreadable> {
        let bare = |ids: HashSet<ObjectId>| {
            Ok(tripwire.judge_objects(&ids)?.into_iter().map(|hit| (None, hit)).collect())
        };
        let tip = match objects.peel(new)? {
            Target::Commit(tip) => tip,
            Target::Tree(tree) => return bare(objects.all_below(tree)?),
            Target::Blob(blob) => return bare(HashSet::from([blob])),
        };
        let walk = match self.history.get(&tip) {
            Some(Ok(walk)) => &self.brought[*walk],
            Some(Err(source)) => return Err(source.clone()),
            // Every commit that is a tip was walked from.
            None => return Err(Unreadable::Missing(tip)),
        };
        let mut found = Vec::new();
        if self.clean {
            return Ok(found);
        }
        let reached = walk.of(tip);
        for commit in walk.commits.iter().filter(|commit| reached.contains(*commit)) {
            let hits = self.commits[commit].as_ref().map_err(Unreadable::clone)?;
            found.extend(hits.iter().map(|hit| (Some(*commit), hit.clone())));
        }
        Ok(found)
    }
}

/// Resolves `<old>..<new>` to the one update that it stands for.
pub fn range_update(repo: &gix::Repository, text: &BStr) -> Result<Update, GateError> {
    let range = input::range(text)?;
    let commit = |side: &BStr| {
        let fail = || GateError::Revision { text: shown(side) };
        let id = resolve_revision(repo, side).map_err(|_| fail())?;
        let object = repo.find_object(id).map_err(|_| fail())?;
        object.peel_to_kind(gix::object::Kind::Commit).map(|object| object.id).map_err(|_| fail())
    };
    let old = range.old.as_ref().map(|old| commit(old.as_bstr())).transpose()?;
    Ok(Update { reference: text.to_owned(), old, new: Some(commit(range.new.as_bstr())?) })
}
