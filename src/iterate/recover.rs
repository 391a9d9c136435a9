//! What a dead runner left: an iteration that was never recorded, a `head` in the wrong place, worktrees. Everything is
//! put right from the ledger before anything new is done.

use std::fs;
use std::path::PathBuf;

use super::iteration::Draft;
use super::session::Session;
use crate::error::{Result, ResultExt};
use crate::git::{Expect, RefChange};
use crate::ledger::rederive::{candidate_message, changes_receipt, fill, guards_receipt, judge_tree};
use crate::money::MicroUsd;
use crate::oid::Oid;
use crate::sign::parse_signed;

/// Why an iteration is abandoned that nobody can go on with.
const RUNNER_ENDED: &str = "the runner ended before it was recorded";

impl Session<'_> {
    /// Closes an iteration that a dead runner left open, repairs `head` and removes leftover worktrees.
    /// With `keep_open` an open iteration is left to whoever announced it.
    pub(super) fn recover(&mut self, keep_open: bool) -> Result<()> {
        for name in self.places.reclaim(self.repo, &self.id)? {
            (self.say)(&format!("{}: removed the worktree {name} of a runner that has ended", self.id));
        }
        self.revoke_left();
        if self.tip.state.checkpoint.is_some() && !keep_open {
            self.close_open_iteration(RUNNER_ENDED)?;
        }
        if let Some(due) = self.tip.state.due_halt.clone() {
            self.halt(due.by, due.halt_reason, &due.reason)?;
        }
        self.repair_head()
    }

    /// Records the open iteration as abandoned, and `why`. Its candidate is read from `head` before `head` is repaired, and kept
    /// only if it is ours.
    pub(super) fn close_open_iteration(&mut self, why: &str) -> Result<()> {
        let Some(open) = self.tip.state.checkpoint.clone() else { return Ok(()) };
        let checkpoint = open.record.unwrap_or(self.tip.id);
        let mut draft = Draft::new(checkpoint, open.iteration, open.environment_id.clone(), open.base);
        draft.context = open.context;
        draft.abandoned = Some(why.to_owned());
        draft.facts.abandoned = true;
        let head = self.id.refs().head();
        let found = self.repo.read_ref(head.as_ref())?.map(Oid);
        if let Some(found) = found
            && let Some(tree) = self.is_candidate_of(found, &draft)
        {
            let judged = judge_tree(self.repo, &self.guards, draft.base, tree)
                .or_internal(|| format!("candidate {found} cannot be judged"))?;
            draft.candidate = Some(found);
            draft.candidate_tree = Some(tree);
            draft.guards = guards_receipt(&judged, &[], &[]);
            draft.changes = changes_receipt(&judged);
            fill(&mut draft.facts, &judged, &draft.guards);
        }
        self.charge_reservation(&mut draft);
        let number = draft.iteration;
        self.record(draft)?;
        (self.say)(&format!("{}: iteration {number}: {why}; recorded as abandoned", self.id));
        Ok(())
    }

    /// The tree of `commit` if it is a runner-signed child of the draft's base that carries its environment id.
    fn is_candidate_of(&self, commit: Oid, draft: &Draft) -> Option<Oid> {
        let raw = self.repo.read_kind(commit.0, gix::object::Kind::Commit).ok()?;
        let signed = parse_signed(&raw, self.repo.hash_kind()).ok()?;
        let message = candidate_message(self.id.as_str(), draft.iteration, &draft.environment_id);
        if signed.commit.parents != [draft.base.0] || signed.commit.message != message.as_str() {
            return None;
        }
        let by = crate::sign::sshsig::verify(
            signed.signature.as_deref()?,
            crate::sign::GIT_NAMESPACE,
            &signed.payload,
        )
        .ok()?;
        let at = crate::at::At::from_seconds(signed.commit.committer.seconds)?;
        let runners = &self.tip.contract.roles.runner;
        runners
            .iter()
            .any(|runner| self.trust.check(runner, &by.key, at).is_ok())
            .then_some(Oid(signed.commit.tree))
    }

    /// Puts `head` where the ledger says, and says so if it was somewhere else.
    pub(super) fn repair_head(&self) -> Result<()> {
        if self.reset_head()? {
            (self.say)(&format!("{}: {} was repaired from the ledger", self.id, self.id.refs().head()));
        }
        Ok(())
    }

    /// Puts `head` where the ledger says: at green, as no iteration is under way. Whether it was somewhere else.
    pub(super) fn reset_head(&self) -> Result<bool> {
        let head = self.id.refs().head();
        let found = self.repo.read_ref(head.as_ref())?;
        let green = self.tip.state.last_green_commit;
        if found == Some(green.0) {
            return Ok(false);
        }
        let change = RefChange {
            name: head.clone(),
            expect: found.map_or(Expect::Absent, Expect::Exactly),
            to: Some(green.0),
            message: "loop: repair".to_owned(),
        };
        self.repo.move_refs(&[change], self.now()).or_workspace(|| format!("{head} cannot be repaired"))?;
        Ok(true)
    }

    /// Notes what an environment has cost as soon as it is known, so that a crash cannot make it cheaper.
    pub(super) fn journal(&self, draft: &Draft) -> Result<()> {
        let Some(usd) = draft.cost.usd.filter(|usd| *usd > MicroUsd::ZERO) else { return Ok(()) };
        let path = self.journal_path(&draft.environment_id);
        fs::write(&path, format!("{}\n", usd.micros()))
            .or_workspace(|| format!("{} cannot be written", path.display()))
    }

    /// What an environment is noted to have cost.
    pub(super) fn journalled(&self, environment_id: &str) -> Option<MicroUsd> {
        let text = fs::read_to_string(self.journal_path(environment_id)).ok()?;
        text.trim().parse().ok().map(MicroUsd::from_micros)
    }

    /// The iteration is recorded; its ledger entry says the same.
    pub(super) fn forget_journal(&self, environment_id: &str) {
        // A journal that stays behind is never read again: environment ids are not used twice.
        let _ = fs::remove_file(self.journal_path(environment_id));
    }

    fn journal_path(&self, environment_id: &str) -> PathBuf {
        self.places.private.join(format!("{environment_id}.cost"))
    }
}
