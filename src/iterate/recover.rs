//! What a dead runner left: an iteration that was never recorded, a `head` in the wrong place, worktrees. Everything is
//! put right from the ledger before anything new is done.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::iteration::Draft;
use super::leftovers::{Leftover, is_journal};
use super::places::NOTE;
use super::session::Session;
use crate::crash;
use crate::error::{Error, Result, ResultExt};
use crate::git::{Durability, Expect, RefChange};
use crate::ledger::load::RecordCommit;
use crate::ledger::receipt::CostReceipt;
use crate::ledger::record::{Body, Kind};
use crate::ledger::rederive::{candidate_message, changes_receipt, fill, guards_receipt, judge_tree};
use crate::money::MicroUsd;
use crate::oid::Oid;
use crate::render::line::plural;
use crate::sign::parse_signed;

/// Why an iteration is abandoned that nobody can go on with.
const RUNNER_ENDED: &str = "the runner ended before it was recorded";

impl Session<'_> {
    /// Whether a container of this loop is noted under this name.
    fn has_note(&self, name: &str) -> bool {
        self.places.private.join(format!("{name}{NOTE}")).exists()
    }

    /// Closes an iteration that a dead runner left open, repairs `head` and removes leftover worktrees.
    /// With `keep_open` an open iteration is left to whoever announced it.
    pub(super) fn recover(&mut self, keep_open: bool) -> Result<()> {
        self.repo.sweep_ref_locks();
        let swept = self.places.reclaim(self.repo, &self.id)?;
        for one in swept.removed.iter().filter(|one| matches!(one.kind, "worktree" | "container")) {
            let Leftover { kind, name, .. } = one;
            (self.say)(&format!("{}: removed the {kind} {name} of a runner that has ended", self.id));
        }
        for (name, why) in swept.failed.iter().filter(|(name, _)| self.has_note(name)) {
            (self.say)(&format!(
                "{}: the container {name} of a runner that has ended could not be removed: {why}; it is tried again with the next run",
                self.id
            ));
        }
        let private = &self.places.private;
        self.forget_old_journals().or_workspace(|| format!("{} cannot be tidied", private.display()))?;
        crash::point("recover:reclaimed");
        self.repair_notes()?;
        self.revoke_left();
        if self.tip.state.checkpoint.is_some() && !keep_open {
            self.close_open_iteration(RUNNER_ENDED)?;
            crash::point("recover:closed");
        } else {
            self.keep_output();
            if let Some(open) = &self.tip.state.checkpoint {
                self.tell_output_of(open);
            }
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
        // Before it is recorded: from then on whatever lies there is of an iteration that has its evidence.
        self.keep_output();
        let checkpoint = open.record.unwrap_or(self.tip.id);
        let mut draft = Draft::new(checkpoint, open.iteration, open.environment_id.clone(), open.base);
        draft.context.clone_from(&open.context);
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
        self.tell_output_of(&open);
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

    /// Adds the receipts that the notes lack: a process that was killed between two refs of a transaction has moved the
    /// ledger and not the notes. Receipts before one that is there were added with theirs.
    fn repair_notes(&self) -> Result<()> {
        let unreadable = || "the last records cannot be read".to_owned();
        let name = self.id.refs().notes();
        let before = self.repo.read_ref(name.as_ref())?;
        let mut missing = Vec::new();
        let mut current = Some(self.tip.id);
        while let Some(id) = current {
            let commit = RecordCommit::read(self.repo, id.0).or_workspace(unreadable)?;
            current = commit.prev().map(Oid);
            if !commit.is(Kind::Iteration) {
                continue;
            }
            let (record, _) = commit.record(self.repo).or_workspace(unreadable)?;
            let Body::Iteration(body) = record.body else { continue };
            let Some(candidate) = body.receipt.candidate else { continue };
            let line = crate::canonical::compact_json(&body.receipt);
            // Notes in the middle of a merge by hand, or that are none, are told of where an iteration is about to begin.
            let Ok(lines) = self.repo.read_note_lines(before, candidate.0) else { return Ok(()) };
            if lines.contains(&line) {
                break;
            }
            missing.push((candidate.0, line));
        }
        if missing.is_empty() || self.repo.check_no_notes_merge(name.as_ref()).is_err() {
            return Ok(());
        }
        missing.reverse();
        let lines: Vec<_> = missing.iter().map(|(candidate, line)| (*candidate, line.as_str())).collect();
        let who = crate::git::signature(self.now());
        let to = self.repo.append_note_lines(before, &lines, &who, Durability::Fast)?;
        let change = RefChange {
            name: name.clone(),
            expect: Expect::just(before),
            to: Some(to),
            message: "loop: repair".to_owned(),
        };
        self.repo
            .move_refs(&[change], self.now())
            .map_err(|error| Error::from(error).while_doing(format!("{name} cannot be repaired")))?;
        let count = plural(lines.len() as u64, "receipt was", "receipts were");
        (self.say)(&format!("{}: {count} added to {name} from the ledger", self.id));
        Ok(())
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
        self.repo
            .move_refs(&[change], self.now())
            .map_err(|error| Error::from(error).while_doing(format!("{head} cannot be repaired")))?;
        Ok(true)
    }

    /// Notes what an environment has cost as soon as it is known, so that a crash cannot make it cheaper.
    pub(super) fn journal(&self, draft: &Draft) -> Result<()> {
        let noted = Noted::of(&draft.cost);
        if noted == Noted::default() {
            return Ok(());
        }
        let path = self.journal_path(&draft.environment_id);
        self.repo
            .write_durably(&path, noted.line().as_bytes())
            .or_workspace(|| format!("{} cannot be written", path.display()))
            .map_err(|error| error.hint("check the free space and who may write there"))?;
        crash::point("cost:journalled");
        Ok(())
    }

    /// What an environment is noted to have cost.
    pub(super) fn journalled(&self, environment_id: &str) -> Noted {
        fs::read_to_string(self.journal_path(environment_id))
            .ok()
            .and_then(|text| Noted::read(&text))
            .unwrap_or_default()
    }

    /// Removes what dead runners noted of environments that are recorded by now; whoever calls this holds the loop's lock.
    pub(super) fn forget_old_journals(&self) -> io::Result<()> {
        let open = self.tip.state.checkpoint.as_ref().map(|open| format!("{}.cost", open.environment_id));
        for entry in fs::read_dir(&self.places.private)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if is_journal(&name) && Some(&name) != open.as_ref() {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
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

/// What the runner noted of the cost of an environment: micro-dollars and the two kinds of tokens, each as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Noted {
    pub usd: MicroUsd,
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
}

impl Noted {
    fn of(cost: &CostReceipt) -> Self {
        let known = |count: Option<u64>| count.filter(|count| *count > 0);
        Self {
            usd: cost.usd.unwrap_or(MicroUsd::ZERO),
            prompt_tokens: known(cost.prompt_tokens),
            completion_tokens: known(cost.completion_tokens),
        }
    }

    fn line(self) -> String {
        let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        format!("{} {} {}\n", self.usd.micros(), count(self.prompt_tokens), count(self.completion_tokens))
    }

    /// Earlier versions noted the money alone.
    fn read(text: &str) -> Option<Self> {
        // Without its end the last number may be a smaller one.
        let mut words = text.strip_suffix('\n')?.split(' ');
        let usd = MicroUsd::from_micros(words.next()?.parse().ok()?);
        let mut count = || words.next().and_then(|word| word.parse().ok());
        Some(Self { usd, prompt_tokens: count(), completion_tokens: count() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read_back() {
        let noted = |usd, prompt_tokens, completion_tokens| Noted {
            usd: MicroUsd::from_micros(usd),
            prompt_tokens,
            completion_tokens,
        };
        for (noted, line) in [
            (noted(10_000, Some(90), Some(7)), "10000 90 7\n"),
            (noted(0, None, Some(7)), "0 - 7\n"),
            (noted(5, None, None), "5 - -\n"),
        ] {
            assert_eq!(noted.line(), line);
            assert_eq!(Noted::read(line), Some(noted));
        }
        assert_eq!(Noted::read("12\n"), Some(noted(12, None, None)));
        for cut in ["", "\n", "12", "12 90", "12 90 7", "x 1 1\n"] {
            assert_eq!(Noted::read(cut), None, "{cut:?}");
        }
    }
}
