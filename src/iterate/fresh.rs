//! What fills the fresh worktrees of a session: an overlay over one layer of the base's tree where that can be had and
//! is worth it, else a checkout.
//!
//! There is one layer for the whole loop, that of its base. What green or a candidate has otherwise lies in the upper
//! folder of each worktree, made anew, with the times of now: a build tool that compares times (warm folders are older than
//! all of it) never takes a changed file for one that it has built already.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::iteration::random_id;
use super::session::Session;
use crate::error::{Error, Result};
use crate::git::Overlays;
use crate::oid::Oid;
use crate::sandbox::{self, Adapter, Command, Network, Policy, shell};
use crate::worktree::{
    self, BaseIgnores, CheckoutOptions, Holds, Layer, LinkedWorktree, Manifest, Marks, Overlaid, Probe,
    Snapshot, SnapshotOptions,
};

/// From so many files on a mount costs less than making the files (measured: `benches/worktree.rs`).
const WORTH_AN_OVERLAY: usize = 250;
/// Of the files of a layer at most this part may differ before a whole checkout is made.
const DIFFERING: usize = 4;

/// What all worktrees of a session share; found out when the first one is made.
#[derive(Default)]
pub(super) struct Stock {
    base: OnceCell<Option<Base>>,
}

struct Base {
    layer: Layer,
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
pub(super) struct Filled {
    /// What was put there.
    pub manifest: Arc<Manifest>,
    overlay: Option<(Overlaid, sandbox::Overlay)>,
}

impl Filled {
    /// The overlay that the command is to be run with.
    pub fn overlay(&self) -> Option<sandbox::Overlay> {
        self.overlay.as_ref().map(|(_, overlay)| overlay.clone())
    }

    /// The overlay's parts on disk.
    pub fn overlaid(&self) -> Option<&Overlaid> {
        self.overlay.as_ref().map(|(overlaid, _)| overlaid)
    }

    /// The tree of what `place` holds now.
    pub fn snapshot(&self, repo: &gix::Repository, place: &Path) -> Result<Snapshot> {
        let ignores = BaseIgnores::of(repo, &self.manifest)?;
        let options = SnapshotOptions::default();
        Ok(match self.overlaid() {
            Some(overlaid) => worktree::snapshot_overlaid(repo, &self.manifest, overlaid, &ignores, options)?,
            None => worktree::snapshot(repo, &self.manifest, place, &ignores, options)?,
        })
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
        let verify = whose == For::Check;
        if let Some(base) = self.base_layer()?
            // Without redirects a worker could not rename a folder, as between two disks; a check need not.
            && (whose == For::Check || base.marks == Marks::Trusted)
        {
            let limit = base.layer.manifest().file_count() / DIFFERING + DIFFERING;
            let (layer, place) = (&base.layer, linked.path());
            let filled = Overlaid::fill(trees, layer, tree.0, place, base.marks, verify, limit)?;
            if let Some((overlaid, manifest)) = filled.filter(|(_, manifest)| self.suits_overlay(manifest)) {
                let overlay = sandbox::Overlay {
                    upper: place.to_path_buf(),
                    lower: vec![layer.path().to_path_buf()],
                    work: linked.make_work()?,
                    user_marks: base.marks == Marks::User,
                };
                return Ok(Filled { manifest, overlay: Some((overlaid, overlay)) });
            }
            linked.clear()?;
        }
        let options = CheckoutOptions { verify, unchanged: None };
        let (manifest, _) = worktree::checkout(trees, tree.0, linked.path(), options)?;
        Ok(Filled { manifest: Arc::new(manifest), overlay: None })
    }

    /// Whether what is done to the worktree from outside can be done to its upper folder alone: nothing lies in the place of a
    /// warm folder or on the way to one, and no link on the way to the report.
    fn suits_overlay(&self, manifest: &Manifest) -> bool {
        let contract = &self.tip.contract;
        let holds = |path: &String| manifest.holds(path.as_str().into());
        contract.worktree.warm.iter().all(|folder| holds(folder) == Holds::Nothing)
            && contract.check.report.iter().all(|report| holds(report) != Holds::Blocked)
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
        if wanted == Overlays::Auto && Manifest::read(repo, tree, false)?.file_count() < WORTH_AN_OVERLAY {
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
        let layer = Layer::obtain(repo, &self.places.worktrees, tree)?;
        if layer.is_none() && wanted == Overlays::On {
            let folder = self.places.worktrees.join("layers").join(tree.to_string());
            return Err(Error::workspace(format!(
                "loop.overlay = on, but the layer {} is damaged, and another loop uses it",
                folder.display()
            ))
            .hint("wait until no loop runs; the next one makes it anew"));
        }
        Ok(layer.map(|layer| Base { layer, marks }))
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
