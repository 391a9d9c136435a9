//! What the fresh worktrees get besides their trees: warm folders, and the ignored files that the contract includes.
//!
//! Both are made once, from the base commit and from the user's work tree, in a place of the loop's own; every worktree gets copies.
//! Nothing of a candidate ever runs where they are made. What was kept is hashed: whatever is not as it was kept is made anew.

use std::fs;
use std::path::Path;

use gix::bstr::{BString, ByteSlice};

use super::commands::BASELINE;
use super::fresh::{Filled, For};
use super::left::{is_inside, is_plain};
use super::outcome::{failure, run_receipt};
use super::session::Session;
use super::step::{Role, Wanted};
use crate::contract::SetupTerms;
use crate::error::{Error, Result, ResultExt};
use crate::escape::escape_path;
use crate::ledger::message::one_line;
use crate::ledger::receipt::{IncludedReceipt, LayersReceipt, WarmReceipt};
use crate::sandbox::Ended;
use crate::worktree::{self, Included, Manifest};

/// The lines of a failed setup's output that are told.
const LINES: usize = 15;

impl Session<'_> {
    /// Whether the worktrees of this loop get anything besides their trees.
    fn has_layers(&self) -> bool {
        let terms = &self.tip.contract.worktree;
        !terms.warm.is_empty() || terms.include.is_some()
    }

    /// Makes what can be made before the check runs on the base: nothing that lies there counts. False if it was interrupted.
    pub(super) fn build_layers(&self) -> Result<bool> {
        let terms = &self.tip.contract.worktree;
        worktree::remove_all(&self.places.warm)?;
        worktree::remove_all(&self.places.included)?;
        self.layers.replace(None);
        if let Some(file) = &terms.include {
            self.keep_included(file)?;
        }
        match &terms.setup {
            Some(setup) => self.run_setup(setup),
            None => Ok(true),
        }
    }

    /// Sees to it that the layers are there and as they were kept: on a machine that did not measure the baseline they are built. False if
    /// that was interrupted.
    pub(super) fn ensure_layers(&self) -> Result<bool> {
        if !self.has_layers() || self.layers.borrow().is_some() {
            return Ok(true);
        }
        let kept = fs::read(self.kept_layers()).ok();
        let kept: Option<LayersReceipt> = kept.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let there = self.look_at_layers()?;
        if kept.is_some_and(|kept| kept.warm == there.warm && kept.included == there.included) {
            self.layers.replace(Some(there));
            return Ok(true);
        }
        (self.say)(&format!("{}: building what the worktrees get from the base", self.id));
        let from_check =
            self.tip.contract.worktree.setup.is_none() && !self.tip.contract.worktree.warm.is_empty();
        let built = if from_check {
            self.measure_base().map(|measured| measured.is_some())
        } else {
            self.build_layers()
        };
        // Whatever came of it, it was told.
        self.output.forget();
        let built = built?;
        if !built || from_check {
            return Ok(built);
        }
        self.note_layers()?;
        Ok(true)
    }

    /// What the layers are now; nothing where the contract names none.
    pub(super) fn layers(&self) -> Option<LayersReceipt> {
        self.layers.borrow().clone()
    }

    /// Hashes the layers and writes down what they are.
    pub(super) fn note_layers(&self) -> Result<()> {
        if !self.has_layers() {
            return Ok(());
        }
        let mut there = self.look_at_layers()?;
        let path = self.kept_layers();
        let written = fs::write(&path, crate::canonical::canonical_json(&there));
        written.or_workspace(|| format!("{} cannot be written", path.display()))?;
        there.setup = self.layers.take().and_then(|before| before.setup);
        self.layers.replace(Some(there));
        Ok(())
    }

    fn kept_layers(&self) -> std::path::PathBuf {
        self.places.private.join("layers.json")
    }

    fn look_at_layers(&self) -> Result<LayersReceipt> {
        let mut receipt = LayersReceipt { setup: None, warm: Vec::new(), included: Vec::new() };
        for folder in &self.tip.contract.worktree.warm {
            let path = self.places.warm.join(folder);
            if path.is_dir() {
                let digest = worktree::digest_folder(&path)?;
                receipt.warm.push(WarmReceipt {
                    folder: folder.clone(),
                    files: digest.files,
                    sha256: digest.sha256,
                });
            }
        }
        for (path, sha256) in Included::find(&self.places.included)?.digests()? {
            receipt.included.push(IncludedReceipt { path: escape_path(path.as_ref()), sha256 });
        }
        Ok(receipt)
    }

    /// Gives a fresh worktree its copies of everything, and says what is left out.
    pub(super) fn give_layers(&self, place: &Path, filled: &Filled) -> Result<()> {
        self.tell_left_out(&self.supplies()?.give_layers(place, filled, None)?);
        Ok(())
    }

    /// Whether a path is that of an included file.
    pub(super) fn is_included(&self, path: &str) -> Result<bool> {
        Ok(self.tip.contract.worktree.include.is_some()
            && Included::find(&self.places.included)?.paths().any(|included| included == path))
    }

    /// Says what a worktree was not given.
    pub(super) fn tell_left_out(&self, paths: &[BString]) {
        for path in paths {
            let path = escape_path(path.as_ref());
            let what =
                if self.tip.contract.worktree.warm.contains(&path) { "warm folder" } else { "included file" };
            (self.say)(&format!(
                "{}: the {what} {path} is left out: the candidate has something else in its place",
                self.id
            ));
        }
    }

    /// Removes from a worker's worktree what it was given: it is no part of a candidate.
    pub(super) fn take_layers(&self, place: &Path) -> Result<()> {
        for folder in &self.tip.contract.worktree.warm {
            take(place, folder)?;
        }
        if self.tip.contract.worktree.include.is_some() {
            for path in Included::find(&self.places.included)?.paths() {
                if let Ok(path) = path.to_str() {
                    take(place, path)?;
                }
            }
        }
        Ok(())
    }

    /// Runs the setup in a fresh worktree of the base and keeps what it made. False if it was interrupted.
    fn run_setup(&self, setup: &SetupTerms) -> Result<bool> {
        (self.say)(&format!("{}: setup of the worktrees", self.id));
        let contract = &self.tip.contract;
        let name = worktree::worktree_name(self.id.as_str(), &format!("{BASELINE}-setup"));
        let scratch = self.places.scratch(&name)?;
        let remark = format!("git-loop {} setup", self.id);
        let (repo, folder) = (self.repo.gix(), &self.places.worktrees);
        let linked = self.supplies()?.register(repo, folder, &name, contract.base.commit, &remark)?;
        let filled = self.supplies()?.fill(repo, &linked, contract.base.tree, For::Check, None)?;
        self.give_layers(linked.path(), &filled)?;
        let mut step = self.step(&Wanted {
            role: Role::Setup,
            command: &setup.command,
            place: linked.path(),
            scratch: &scratch,
            network: &setup.network,
            seconds: setup.timeout_seconds,
        })?;
        step.command.overlay = filled.overlay();
        step.command.merge_streams = true;
        step.command.keep_whole = self.head_tail() * 2;
        self.stream(&mut step, ["setup.log", "setup.stderr"]);
        let outcome = self.run_step(&step)?;
        if outcome.ended == Ended::Interrupted {
            linked.remove()?;
            return Ok(false);
        }
        let receipt = run_receipt(step.argv(), &outcome, step.is_deadline);
        if let Some(why) = failure(&receipt) {
            let printed = self.redact(outcome.stdout.evidence());
            let text = String::from_utf8_lossy(&printed);
            let lines: Vec<&str> = text.trim_end().lines().collect();
            for line in &lines[lines.len().saturating_sub(LINES)..] {
                (self.say)(&format!("{}:   setup: {}", self.id, one_line(line, 200)));
            }
            return Err(Error::workspace(format!("worktree.setup failed on the base: {why}"))
                .hint("it runs in a sandbox, with a fresh HOME; its network is worktree.setup_network")
                .hint(format!(
                    "mend what is missing on this machine, then go on: git loop run {}",
                    self.id
                )));
        }
        self.keep_warm(linked.path())?;
        for folder in contract.worktree.warm.iter().filter(|folder| !self.places.warm.join(folder).is_dir()) {
            (self.say)(&format!("{}: worktree.setup made no folder {folder}", self.id));
        }
        self.cleaner.remove(linked, Some(scratch));
        self.cleaner.wait()?;
        self.layers.replace(Some(LayersReceipt {
            setup: Some(receipt),
            warm: Vec::new(),
            included: Vec::new(),
        }));
        Ok(true)
    }

    /// Keeps the warm folders of a worktree in which nothing of a candidate ran.
    pub(super) fn keep_warm(&self, place: &Path) -> Result<()> {
        let unfinished = self.places.warm.with_extension("new");
        worktree::remove_all(&unfinished)?;
        fs::create_dir_all(&unfinished)
            .or_workspace(|| format!("{} cannot be made", unfinished.display()))?;
        // A warm folder may hold the report (nextest writes into target), and it must not be there before a check runs.
        if let Some(report) = self.tip.contract.check.report.as_ref().map(|report| place.join(report))
            && is_inside(place, &report)
        {
            worktree::remove_all(&report)?;
        }
        for folder in &self.tip.contract.worktree.warm {
            let (from, to) = (place.join(folder), unfinished.join(folder));
            if !is_plain(place, folder) || !from.is_dir() {
                continue;
            }
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).or_workspace(|| format!("{} cannot be made", parent.display()))?;
            }
            fs::rename(&from, &to).or_workspace(|| format!("the warm folder {folder} cannot be kept"))?;
        }
        fs::rename(&unfinished, &self.places.warm)
            .or_workspace(|| "the warm folders cannot be kept".to_owned())
    }

    /// Copies the ignored files that the base's `file` names out of the user's work tree.
    fn keep_included(&self, file: &str) -> Result<()> {
        let repo = self.repo.gix();
        let top = self.repo.worktree_root().ok_or_else(|| {
            Error::workspace("worktree.include needs a repository with a work tree to copy from")
        })?;
        let base = Manifest::read(repo, self.tip.contract.base.tree.0, false)?;
        let folders = self.warm_folders();
        let found = Included::collect(repo, &base, file.into(), top, &folders, &self.places.included)?;
        for path in found.not_ignored {
            (self.say)(&format!(
                "{}: {file} names {}, which the base does not ignore: it is not copied",
                self.id,
                escape_path(path.as_ref())
            ));
        }
        Ok(())
    }

    pub(super) fn warm_folders(&self) -> Vec<BString> {
        self.tip.contract.worktree.warm.iter().map(|folder| folder.as_str().into()).collect()
    }
}

/// Removes what lies at `path` in a worktree.
fn take(place: &Path, path: &str) -> Result<()> {
    let above = path.trim_end_matches('/').rsplit_once('/').map_or("", |(above, _)| above);
    // A worker may have put a link or a file on the way; what it leads to is not ours to remove. What lies in the
    // very place is, whatever it is: no candidate has anything there.
    if is_plain(place, above) && place.join(above).is_dir() {
        worktree::remove_all(&place.join(path))?;
    }
    Ok(())
}
