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
pub mod verdict;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice};

pub use commits::Side;
pub use input::Update;
pub use ledger_rules::{LedgerFacts, LedgerJudge};
pub use objects::Objects;
pub use tripwire::{Candidate, LoopContent, Standing};
pub use verdict::{Refusal, Verdict};

use crate::error::Error;
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
        let mut judged: HashMap<ObjectId, Rc<Vec<Hit>>> = HashMap::new();
        let mut known: Option<Vec<ObjectId>> = None;
        // Deletions and the refs of loops do not need it.
        let watched = |update: &Update| {
            update.new.is_some() && !ledger_rules::is_loop_space(update.reference.as_bstr())
        };
        let loops = if updates.iter().any(watched) { self.loops } else { &[] };
        let tripwire = Tripwire::new(self.objects, loops);
        let pushed = ledger_rules::Pushed::among(updates);
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
            if known.is_none() {
                known = Some(self.known(updates, &mut verdict.notes)?);
            }
            let known = known.as_deref().unwrap_or_default();
            match self.judge_update(tripwire, known, new, &mut judged) {
                Ok(found) => {
                    let refusals = found.iter().map(|(commit, hit)| Refusal::hit(reference, *commit, hit));
                    verdict.refusals.extend(refusals);
                }
                Err(source) => verdict.refusals.push(cannot(None, &source)),
            }
        }
        verdict.commits = judged.len();
        Ok(verdict)
    }

    fn judge_update(
        &self,
        tripwire: &Tripwire<'_>,
        known: &[ObjectId],
        new: ObjectId,
        judged: &mut HashMap<ObjectId, Rc<Vec<Hit>>>,
    ) -> Result<Vec<(Option<ObjectId>, Hit)>, Unreadable> {
        let bare = |ids: HashSet<ObjectId>| {
            Ok(tripwire.judge_objects(&ids)?.into_iter().map(|hit| (None, hit)).collect())
        };
        let tip = match self.objects.peel(new)? {
            Target::Commit(tip) => tip,
            Target::Tree(tree) => return bare(self.objects.all_below(tree)?),
            Target::Blob(blob) => return bare(HashSet::from([blob])),
        };
        let mut found = Vec::new();
        for commit in commits::brought(self.objects, tip, known)? {
            let hits = if let Some(hits) = judged.get(&commit) {
                Rc::clone(hits)
            } else {
                let hits = Rc::new(tripwire.judge_commit(commit)?);
                judged.insert(commit, Rc::clone(&hits));
                hits
            };
            found.extend(hits.iter().map(|hit| (Some(commit), hit.clone())));
        }
        Ok(found)
    }

    /// What the other side has: what this side knows of its refs, and where the updated ones are.
    fn known(&self, updates: &[Update], notes: &mut Vec<String>) -> Result<Vec<ObjectId>, GateError> {
        let open = self.loops.iter().filter(|content| content.lasting && content.standing == Standing::Open);
        let open = open.flat_map(|content| content.candidates.iter().map(|candidate| candidate.id)).collect();
        let read = self.side.known(self.repo, self.objects, &open);
        let mut known = read.map_err(|source| GateError::Repository { what: "the refs", source })?;
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
        Ok(known)
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

/// Resolves `<old>..<new>` to the one update that it stands for.
pub fn range_update(repo: &gix::Repository, text: &BStr) -> Result<Update, GateError> {
    let range = input::range(text)?;
    let commit = |side: &BStr| {
        let fail = || GateError::Revision { text: shown(side) };
        let id = repo.rev_parse_single(side).map_err(|_| fail())?;
        let object = id.object().map_err(|_| fail())?;
        object.peel_to_kind(gix::object::Kind::Commit).map(|object| object.id).map_err(|_| fail())
    };
    let old = range.old.as_ref().map(|old| commit(old.as_bstr())).transpose()?;
    Ok(Update { reference: text.to_owned(), old, new: Some(commit(range.new.as_bstr())?) })
}
