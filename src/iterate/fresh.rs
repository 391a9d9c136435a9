//! What fills the fresh worktrees of a session: an overlay over one layer of the base's tree where that can be had and
//! is worth it, else a checkout.
//!
//! There is one layer for the whole loop, that of its base. What green or a candidate has otherwise lies in the upper
//! folder of each worktree, made anew, with the times of now: a build tool that compares times (warm folders are older than
//! all of it) never takes a changed file for one that it has built already.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gix::bstr::{BStr, BString, ByteSlice};

use super::iteration::random_id;
use super::left::is_plain;
use super::session::Session;
use crate::contract::file::History;
use crate::contract::{CommandLine, Contract};
use crate::error::{Error, Result};
use crate::git::Overlays;
use crate::guard::PathSet;
use crate::oid::Oid;
use crate::sandbox::{self, Adapter, Command, Network, Policy, shell};
use crate::worktree::{
    self, BaseIgnores, CheckoutOptions, Holds, Included, Layer, LinkedWorktree, Manifest, Marks, Overlaid,
    Probe, SealOptions, Selection, Snapshot, SnapshotOptions, WarmLayers, WorktreeError,
};

/// From so many files on a mount costs less than making the files (measured: `benches/worktree.rs`).
const WORTH_AN_OVERLAY: usize = 250;
/// Of the files of a layer at most this part may differ before a whole checkout is made.
const DIFFERING: usize = 4;

/// What all worktrees of a session share; found out when the first one is made.
#[derive(Default)]
pub(super) struct Stock {
    base: OnceCell<Option<Base>>,
    selection: OnceCell<Option<Selection>>,
}

/// One checkout of the base that many worktrees lie on.
#[derive(Debug, Clone)]
struct Base {
    layer: Arc<Layer>,
    marks: Marks,
}

/// Whose worktree it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// Nothing of it is trusted, and a candidate is made of it.
    Worker,
    /// Byte for byte the tree that is judged.
    Check,
}

/// A worktree that has its content.
#[derive(Debug)]
pub(super) struct Filled {
    /// What was put there.
    pub manifest: Arc<Manifest>,
    overlay: Option<(Overlaid, sandbox::Overlay)>,
}

impl Filled {
    /// A checkout.
    pub fn whole(manifest: Manifest) -> Self {
        Self { manifest: Arc::new(manifest), overlay: None }
    }

    /// The overlay that the command is to be run with.
    pub fn overlay(&self) -> Option<sandbox::Overlay> {
        self.overlay.as_ref().map(|(_, overlay)| overlay.clone())
    }

    /// The overlay's parts on disk.
    pub fn overlaid(&self) -> Option<&Overlaid> {
        self.overlay.as_ref().map(|(overlaid, _)| overlaid)
    }

    /// The tree of what `place` holds now; nothing if it is not wanted any more, because `stop` was set.
    pub fn snapshot(
        &self,
        repo: &gix::Repository,
        place: &Path,
        stop: &AtomicBool,
    ) -> Result<Option<Snapshot>> {
        let ignores = BaseIgnores::of(repo, &self.manifest)?;
        let options = SnapshotOptions { stop: Some(stop), ..SnapshotOptions::default() };
        let taken = match self.overlaid() {
            Some(overlaid) => worktree::snapshot_overlaid(repo, &self.manifest, overlaid, &ignores, options),
            None => worktree::snapshot(repo, &self.manifest, place, &ignores, options),
        };
        match taken {
            Err(WorktreeError::Stopped) => Ok(None),
            taken => Ok(Some(taken?)),
        }
    }
}

/// What the fresh worktrees of a loop are made of and get; any thread can make one with it.
#[derive(Debug, Clone)]
pub(super) struct Supplies {
    base: Option<Base>,
    /// What of a tree is checked out, where not all is.
    selection: Option<Selection>,
    /// The warm folders by their names in a worktree.
    folders: Vec<BString>,
    warm: PathBuf,
    /// The included files, if the contract has any.
    included: Option<PathBuf>,
    report: Option<String>,
    history: History,
    /// Where packs of bases are kept.
    packs: PathBuf,
    /// `loop.fsync`.
    sync: bool,
}

impl Supplies {
    /// Registers a fresh worktree.
    pub fn register(
        &self,
        repo: &gix::Repository,
        folder: &Path,
        name: &str,
        head: Oid,
        remark: &str,
    ) -> Result<LinkedWorktree> {
        Ok(LinkedWorktree::create_durably(repo, folder, name, head.0, remark, self.sync)?)
    }

    /// Fills the fresh worktree `linked` with `tree`, whose objects `trees` has. Gives up soon after `stop` is set.
    pub fn fill(
        &self,
        trees: &gix::Repository,
        linked: &LinkedWorktree,
        tree: Oid,
        whose: For,
        stop: Option<&AtomicBool>,
    ) -> Result<Filled> {
        let verify = whose == For::Check;
        if let Some(base) = self.base_for(whose) {
            let limit = base.layer.manifest().file_count() / DIFFERING + DIFFERING;
            let (layer, place) = (&base.layer, linked.path());
            let filled = Overlaid::fill(trees, layer, tree.0, place, base.marks, verify, limit)?;
            if let Some((overlaid, manifest)) = filled.filter(|(_, manifest)| self.suits_overlay(manifest)) {
                let below = base.marks == Marks::Trusted && self.may_lie_below(&overlaid, &manifest)?;
                let overlaid = if below { overlaid.with_warm(&self.warm) } else { overlaid };
                let overlay = sandbox::Overlay {
                    upper: place.to_path_buf(),
                    lower: overlaid.layers(),
                    work: linked.make_work()?,
                    user_marks: base.marks == Marks::User,
                };
                return Ok(Filled { manifest, overlay: Some((overlaid, overlay)) });
            }
            linked.clear()?;
        }
        let selection = self.selection.as_ref();
        let options = CheckoutOptions { verify, unchanged: None, selection, stop };
        Ok(Filled::whole(worktree::checkout(trees, tree.0, linked.path(), options)?.0))
    }

    /// The layer that worktrees of this kind lie on.
    fn base_for(&self, whose: For) -> Option<&Base> {
        // Without redirects a worker could not rename a folder, as between two disks; a check need not.
        self.base.as_ref().filter(|base| whose == For::Check || base.marks == Marks::Trusted)
    }

    /// Whether worktrees of this kind are overlays, if nothing speaks against it.
    pub fn overlays(&self, whose: For) -> bool {
        self.base_for(whose).is_some()
    }

    /// Whether the warm folders can be the lowest layer of an overlay, so that nobody need copy them: nothing else lies there, nothing hides
    /// them, and the way to the report leads through no link of theirs. Without redirects a folder of theirs could not be renamed.
    fn may_lie_below(&self, overlaid: &Overlaid, tree: &Manifest) -> Result<bool> {
        Ok(!self.folders.is_empty()
            && self.warm.exists()
            && worktree::is_nothing_but(&self.warm, &self.folders)?
            && self.folders.iter().all(|folder| overlaid.shows_below(folder.as_ref(), tree))
            && self.report.iter().all(|report| is_plain(&self.warm, report)))
    }

    /// Whether what is done to the worktree from outside can be done to its upper folder alone: nothing lies in the place of a
    /// warm folder or on the way to one, and no link on the way to the report.
    fn suits_overlay(&self, manifest: &Manifest) -> bool {
        let holds = |path: &BString| manifest.holds(path.as_ref());
        self.folders.iter().all(|folder| holds(folder) == Holds::Nothing)
            && self.report.iter().all(|report| manifest.holds(report.as_str().into()) != Holds::Blocked)
    }

    /// Makes git work in the worker's worktree: on a throw-away repository, or on the real one, as the contract says.
    pub fn open_history(
        &self,
        repo: &gix::Repository,
        linked: &LinkedWorktree,
        base: Oid,
        manifest: &Manifest,
    ) -> Result<()> {
        match self.history {
            History::Sealed => {
                let options = SealOptions {
                    cache: Some(&self.packs),
                    identity: Some(("worker", "worker@git-loop.invalid")),
                };
                linked.seal(repo, base.0, manifest, &options)?;
            }
            History::Open => linked.link(manifest)?,
        }
        Ok(())
    }

    /// Gives a fresh worktree its copies of everything that is not mounted below it, and gives what is left out. Where its tree has something in the
    /// place of a folder or file, or a file or a link in the place of a folder above it, that one is: what it is worth then, the check
    /// says.
    pub fn give_layers(
        &self,
        place: &Path,
        filled: &Filled,
        stop: Option<&AtomicBool>,
    ) -> Result<Vec<BString>> {
        let tree = &filled.manifest;
        let mut left_out: Vec<BString> = Vec::new();
        let mounted = filled.overlaid().is_some_and(|overlaid| overlaid.warm().is_some());
        if !mounted && !self.folders.is_empty() && self.warm.exists() {
            left_out.extend(WarmLayers::prepare(&self.warm, &self.folders)?.copy_to(place, stop)?.left_out);
        }
        if let Some(included) = &self.included {
            left_out.extend(Included::find(included)?.copy_to(place, tree)?);
        }
        Ok(left_out)
    }

    /// Whether a worktree that was moved to `tree` still has all that [`Self::give_layers`] would give it, and nothing of the tree is in the place
    /// of any.
    pub fn are_given(&self, place: &Path, tree: &Manifest) -> Result<bool> {
        let there = |path: &BStr| {
            let on_disk =
                gix::path::from_bstr(path).is_ok_and(|path| place.join(path).symlink_metadata().is_ok());
            on_disk && tree.holds(path) == Holds::Nothing
        };
        let is_kept = |folder: &BString| {
            gix::path::from_bstr(folder.as_bstr()).is_ok_and(|folder| self.warm.join(folder).is_dir())
        };
        if !self.folders.iter().filter(|folder| is_kept(folder)).all(|folder| there(folder.as_ref())) {
            return Ok(false);
        }
        Ok(match &self.included {
            Some(included) => Included::find(included)?.paths().all(there),
            None => true,
        })
    }

    /// Where a worktree may have something that its tree has not, of what it was given.
    pub fn given(&self) -> Result<Vec<BString>> {
        let mut given = self.folders.clone();
        given.push(".git".into());
        if let Some(included) = &self.included {
            given.extend(Included::find(included)?.paths().map(ToOwned::to_owned));
        }
        Ok(given)
    }
}

impl Session<'_> {
    /// Fills the fresh worktree `linked` with `tree`, whose objects `trees` has.
    pub(super) fn fill(
        &self,
        trees: &gix::Repository,
        linked: &LinkedWorktree,
        tree: Oid,
        whose: For,
    ) -> Result<Filled> {
        let filled = self.supplies()?.fill(trees, linked, tree, whose, Some(self.interrupt.flag()));
        // Why it was given up is what counts.
        filled.map_err(|error| if self.interrupt.is_set() { self.interrupt.error("the run") } else { error })
    }

    /// What the fresh worktrees of this session are made with.
    pub(super) fn supplies(&self) -> Result<Supplies> {
        let Contract { worktree, check, sandbox, .. } = &*self.tip.contract;
        Ok(Supplies {
            base: self.base_layer()?.cloned(),
            selection: self.selection()?.cloned(),
            folders: self.warm_folders(),
            warm: self.places.warm.clone(),
            included: worktree.include.as_ref().map(|_| self.places.included.clone()),
            report: check.report.clone(),
            history: sandbox.worker_history,
            packs: self.places.private.clone(),
            sync: self.repo.config().loop_fsync()?,
        })
    }

    /// What worktrees hold of their trees, where the contract does not let them hold everything: what its patterns match, and what the check needs.
    fn selection(&self) -> Result<Option<&Selection>> {
        if let Some(found) = self.stock.selection.get() {
            return Ok(found.as_ref());
        }
        let found = self.make_selection()?;
        Ok(self.stock.selection.get_or_init(|| found).as_ref())
    }

    fn make_selection(&self) -> Result<Option<Selection>> {
        let contract = &self.tip.contract;
        let patterns = &contract.worktree.sparse;
        if patterns.is_empty() {
            return Ok(None);
        }
        let named = named_files(contract);
        let name = crate::canonical::sha256_of(&(contract.base, &contract.paths.check, patterns, &named));
        let sparse = PathSet::parse(patterns)?;
        let check = self.guards.sets.check.clone();
        let frozen: HashSet<BString> = self.guards.frozen.paths().map(ToOwned::to_owned).collect();
        let base = Manifest::read(self.repo.gix(), contract.base.tree.0, false)?;
        Ok(Some(Selection::new(&name[..16], base, move |path| {
            sparse.matches(path)
                || check.matches_folded(path)
                || frozen.contains(path)
                || path.to_str().is_ok_and(|path| named.contains(path))
        })))
    }

    /// The layer below all worktrees of this session, if there is one.
    fn base_layer(&self) -> Result<Option<&Base>> {
        if let Some(found) = self.stock.base.get() {
            return Ok(found.as_ref());
        }
        let found = self.find_base_layer()?;
        Ok(self.stock.base.get_or_init(|| found).as_ref())
    }

    fn find_base_layer(&self) -> Result<Option<Base>> {
        let wanted = self.repo.config().loop_overlay()?;
        if wanted == Overlays::Off || self.adapter != Adapter::Landlock {
            return Ok(None);
        }
        let tree = self.tip.contract.base.tree.0;
        let repo = self.repo.gix();
        let selection = self.selection()?;
        if wanted == Overlays::Auto
            && Manifest::read_selected(repo, tree, false, selection)?.file_count() < WORTH_AN_OVERLAY
        {
            return Ok(None);
        }
        let Some(marks) = self.overlay_marks()? else {
            if wanted == Overlays::On {
                return Err(Error::workspace(
                    "loop.overlay = on, but this machine gives no overlay mounts here",
                )
                .hint(format!("they were tried in {}", self.places.worktrees.display()))
                .hint("git config loop.overlay auto: worktrees are then copied where there are none"));
            }
            return Ok(None);
        };
        let layer = Layer::obtain(repo, &self.places.worktrees, tree, selection)?;
        if layer.is_none() && wanted == Overlays::On {
            let folder = self.places.worktrees.join("layers").join(tree.to_string());
            return Err(Error::workspace(format!(
                "loop.overlay = on, but the layer {} is damaged, and another loop uses it",
                folder.display()
            ))
            .hint("wait until no loop runs; the next one makes it anew"));
        }
        Ok(layer.map(|layer| Base { layer: Arc::new(layer), marks }))
    }

    /// Tries an overlay out, in the folder where the worktrees will be, with everything that is relied on.
    fn overlay_marks(&self) -> Result<Option<Marks>> {
        let dirs = shell::trusted_dirs();
        let Ok(path) = std::env::join_paths(&dirs) else { return Ok(None) };
        for marks in [Marks::Trusted, Marks::User] {
            let name = worktree::worktree_name(self.id.as_str(), &random_id());
            let scratch = self.places.scratch(&name)?;
            let probe = Probe::prepare(scratch.path())?;
            let command = Command {
                env: vec![("PATH".into(), path.clone())],
                overlay: Some(sandbox::Overlay {
                    upper: probe.upper.clone(),
                    lower: vec![probe.lower.clone()],
                    work: probe.work.clone(),
                    user_marks: marks == Marks::User,
                }),
                timeout: Duration::from_secs(10),
                ..Command::new(shell::shell_argv(Probe::SCRIPT)?, &probe.upper)
            };
            let policy =
                Policy { writable: vec![probe.upper.clone()], ..Policy::new(self.adapter, Network::Host) };
            // Whatever is in the way: without an overlay everything works as well.
            if sandbox::run(&command, &policy, self.interrupt.flag()).is_ok() && probe.shows(marks) {
                return Ok(Some(marks));
            }
        }
        Ok(None)
    }
}

/// The words of a contract's commands that may name a file of the tree, and where the report is to be.
fn named_files(contract: &Contract) -> BTreeSet<String> {
    let setup = contract.worktree.setup.as_ref().map(|setup| &setup.command);
    let commands = [&contract.worker.command, &contract.check.command].into_iter().chain(setup);
    let words = commands.flat_map(|command| match command {
        CommandLine::Exec(words) => words.clone(),
        CommandLine::Shell(line) => line.split_whitespace().map(ToOwned::to_owned).collect(),
    });
    let named = words.map(|word| word.strip_prefix("./").map_or_else(|| word.clone(), ToOwned::to_owned));
    named.chain(contract.check.report.clone()).collect()
}
