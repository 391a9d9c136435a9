//! What the steps of a loop print, in files while they run, and what is left of that when a runner is killed.
//!
//! ```text
//! <common git folder>/loops/<id>/output/worker.log            of the iteration that is under way
//! <common git folder>/loops/<id>/output/3-<environment>/…     of an iteration whose runner was killed
//! <common git folder>/loops/<id>/output/base/…                of a setup or a check on the base, likewise
//! ```
//!
//! Once an iteration is recorded its evidence has all of it, and the files go. No sandbox has this folder, and nobody else may read it. Whoever
//! moves or removes something here holds the lock of the loop.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::session::Session;
use super::step::Step;
use crate::git::LoopId;
use crate::ledger::state::OpenCheckpoint;
use crate::render::line::bytes;
use crate::sandbox::Outcome;
use crate::sandbox::live::{Live, NEW, write_private};

/// How many folders of killed runners are kept of each loop.
const KEPT: usize = 8;
/// How many bytes they may hold together.
const KEPT_BYTES: u64 = 64 << 20;
/// How many bytes of steps that were over at once are held before they are written.
const HELD_BYTES: usize = 1 << 20;
/// The folder of what was killed while it set up or measured the base.
const BASE: &str = "base";

/// The files of one session.
pub(super) struct Output {
    folder: PathBuf,
    /// Whether there may be files of this session.
    made: Cell<bool>,
    /// Whether something could not be written; then nothing more is tried.
    broken: Cell<bool>,
    /// What steps printed that were over before anything was written.
    unwritten: RefCell<Vec<(PathBuf, Vec<u8>)>>,
}

impl Output {
    /// The files of a loop whose private folder this is. Nothing is made.
    pub fn new(private: &Path) -> Self {
        Self {
            folder: private.join(OUTPUT),
            made: Cell::new(false),
            broken: Cell::new(false),
            unwritten: RefCell::default(),
        }
    }

    /// What was printed is recorded, or told: nobody needs it here any more.
    pub fn forget(&self) {
        self.unwritten.borrow_mut().clear();
        if self.made.replace(false) {
            // Those that stay are taken for what they are by the next run, and removed.
            for name in live_names(&self.folder) {
                let _ = fs::remove_file(self.folder.join(name));
            }
        }
    }
}

impl Session<'_> {
    /// Has what a step prints written to files of these names while it runs: standard output, or both streams if they are one, and standard error.
    pub(super) fn stream(&self, step: &mut Step, names: [&str; 2]) {
        // A rehearsal keeps nothing.
        if self.output.broken.get() || self.tip.id.0.is_null() {
            return;
        }
        let [stdout, stderr] = names.map(|name| self.output.folder.join(name));
        let earlier = self.output.unwritten.borrow().clone();
        step.command.live = Some(Live { stdout, stderr, secrets: self.secrets(), earlier });
    }

    /// Looks at what became of the files of a step that is over; without an outcome it may have some.
    pub(super) fn streamed(&self, live: &Live, outcome: Option<&Outcome>) {
        let output = &self.output;
        let Some(outcome) = outcome else {
            output.made.set(true);
            return;
        };
        let written = &outcome.written;
        let mut unwritten = output.unwritten.borrow_mut();
        if written.earlier {
            unwritten.clear();
        }
        if written.earlier || written.stdout || written.stderr || written.problem.is_some() {
            output.made.set(true);
        }
        let streams = [
            (&live.stdout, &outcome.stdout, written.stdout),
            (&live.stderr, &outcome.stderr, written.stderr),
        ];
        for (path, captured, is_written) in streams {
            if !is_written && captured.total > 0 && written.problem.is_none() {
                unwritten.push((path.clone(), self.kept("", captured).content));
            }
        }
        let held: usize = unwritten.iter().map(|(_, text)| text.len()).sum();
        drop(unwritten);
        match &written.problem {
            Some(problem) => self.cannot_stream(problem),
            None if held > HELD_BYTES => self.write_held(),
            None => {}
        }
    }

    /// Writes what earlier steps printed that were over too soon to have files: before something that may take long and writes none itself.
    pub(super) fn write_held(&self) {
        for (path, text) in self.output.unwritten.take() {
            self.output.made.set(true);
            if let Err(error) = write_private(&path, &text) {
                return self.cannot_stream(&format!("{}: {error}", path.display()));
            }
        }
    }

    /// Says, once, that nothing more is written while steps run.
    fn cannot_stream(&self, problem: &str) {
        self.output.broken.set(true);
        self.output.unwritten.borrow_mut().clear();
        (self.say)(&format!(
            "{}: warning: what steps print cannot be written while they run: {problem}; what is recorded is the same",
            self.id
        ));
    }

    /// Puts aside what steps of the iteration that is open, of a setup or of a check on the base had printed, and says where. What is there of
    /// an iteration that is recorded goes.
    pub(super) fn keep_output(&self) {
        let folder = &self.output.folder;
        let open = self.tip.state.checkpoint.as_ref().map(folder_of);
        let mut put_aside = Vec::new();
        for name in live_names(folder) {
            let of_base = name.starts_with("setup.") || name.starts_with("baseline.");
            let to = if of_base { Some(BASE) } else { open.as_deref() };
            let done = match to.filter(|_| !name.ends_with(NEW)) {
                Some(to) => {
                    if !put_aside.contains(&to) {
                        put_aside.push(to);
                    }
                    put(folder, &name, to)
                }
                None => fs::remove_file(folder.join(&name)),
            };
            if let Err(error) = done {
                let path = folder.join(&name);
                (self.say)(&format!("{}: warning: {} cannot be put aside: {error}", self.id, path.display()));
            }
        }
        if !put_aside.is_empty() {
            bound(folder, &put_aside);
        }
        if put_aside.contains(&BASE) {
            self.tell_kept("what was made ready or measured on the base", &folder.join(BASE));
        }
    }

    /// Says where what an iteration had printed is kept, if anything is.
    pub(super) fn tell_output_of(&self, open: &OpenCheckpoint) {
        let folder = self.output.folder.join(folder_of(open));
        self.tell_kept(&format!("iteration {}", open.iteration), &folder);
    }

    fn tell_kept(&self, what: &str, folder: &Path) {
        let size = size_of(folder);
        if size > 0 {
            let (id, folder) = (&self.id, folder.display());
            (self.say)(&format!("{id}: what {what} had printed by then ({}) is in {folder}", bytes(size)));
        }
    }
}

/// The name of the folder for all of this in the private folder of a loop.
pub(super) const OUTPUT: &str = "output";

/// What a loop has here.
#[derive(Debug, Default)]
pub struct Found {
    /// The files of what runs now, or of a runner that has ended and after which nobody has looked.
    pub live: Vec<PathBuf>,
    /// What is kept of killed runners, the oldest first.
    pub kept: Vec<Kept>,
}

/// What is kept of one killed runner.
#[derive(Debug)]
pub struct Kept {
    /// The folder.
    pub path: PathBuf,
    /// The iteration; 0 if there was none yet.
    pub iteration: u32,
    /// What it holds, in bytes.
    pub bytes: u64,
    /// When it was put there.
    pub at: Option<SystemTime>,
}

impl Kept {
    /// Its name in the folder of the loop's output.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What it is of.
    pub fn what(&self) -> String {
        match self.iteration {
            0 => "the setup or the check on the base".to_owned(),
            number => format!("iteration {number}"),
        }
    }
}

/// Looks what there is of loop `id`.
pub fn look(common_dir: &Path, id: &LoopId) -> Found {
    let folder = common_dir.join("loops").join(id.as_str()).join(OUTPUT);
    let live = live_names(&folder).into_iter().filter(|name| !name.ends_with(NEW));
    Found { live: live.map(|name| folder.join(name)).collect(), kept: kept_in(&folder) }
}

fn folder_of(open: &OpenCheckpoint) -> String {
    format!("{}-{}", open.iteration, open.environment_id)
}

/// The iteration of a folder of this name, 0 of the base; `None` if it is none of ours.
fn iteration_of(name: &str) -> Option<u32> {
    if name == BASE {
        return Some(0);
    }
    let (number, environment) = name.split_once('-')?;
    let hex = environment.len() == 16 && environment.bytes().all(|byte| byte.is_ascii_hexdigit());
    number.parse().ok().filter(|_| hex)
}

/// The files of steps in a folder, sorted; those about to take the place of another are among them.
fn live_names(folder: &Path) -> Vec<String> {
    const STEPS: [&str; 4] = ["setup.", "baseline.", "worker.", "check."];
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if let Ok(name) = entry.file_name().into_string()
            && STEPS.iter().any(|step| name.starts_with(step))
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    names
}

/// What is kept in a folder, the oldest first.
fn kept_in(folder: &Path) -> Vec<Kept> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if let Some(iteration) = entry.file_name().to_str().and_then(iteration_of)
            && let Ok(meta) = entry.metadata()
        {
            let path = entry.path();
            kept.push(Kept { iteration, bytes: size_of(&path), at: meta.modified().ok(), path });
        }
    }
    kept.sort_by_key(|one| (one.at, one.iteration));
    kept
}

/// Moves a file into a folder beside it.
fn put(folder: &Path, name: &str, to: &str) -> io::Result<()> {
    let to = folder.join(to);
    let mut make = fs::DirBuilder::new();
    make.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut make, 0o700);
    make.create(&to)?;
    fs::rename(folder.join(name), to.join(name))
}

/// Removes the oldest of what is kept until there is not too much of it; never what has just been put there.
fn bound(folder: &Path, new: &[&str]) {
    let kept = kept_in(folder);
    let mut total: u64 = kept.iter().map(|one| one.bytes).sum();
    let mut count = kept.len();
    for one in kept.iter().filter(|one| !new.contains(&one.name().as_str())) {
        if count <= KEPT && total <= KEPT_BYTES {
            return;
        }
        // One that stays is tried again the next time.
        let _ = crate::worktree::remove_all(&one.path);
        count -= 1;
        total -= one.bytes;
    }
}

/// What the files in a folder hold.
fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_it_is_of() {
        assert_eq!(iteration_of("base"), Some(0));
        assert_eq!(iteration_of("3-0123456789abcdef"), Some(3));
        for other in ["3", "3-0123", "x-0123456789abcdef", "worker.log", "3-0123456789abcdeg"] {
            assert_eq!(iteration_of(other), None, "{other}");
        }
    }

    #[test]
    fn no_more_than_the_newest_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("output");
        fs::create_dir(&folder).unwrap();
        for number in 1..=KEPT + 4 {
            fs::write(folder.join("worker.log"), "text").unwrap();
            assert_eq!(live_names(&folder), ["worker.log"]);
            let name = format!("{number}-0123456789abcdef");
            put(&folder, "worker.log", &name).unwrap();
            let age = std::time::Duration::from_secs(1000 - number as u64);
            fs::File::open(folder.join(&name)).unwrap().set_modified(SystemTime::now() - age).unwrap();
            bound(&folder, &[&name]);
        }
        let numbers: Vec<_> = kept_in(&folder).iter().map(|one| one.iteration).collect();
        assert_eq!(numbers, (5..=12).collect::<Vec<_>>());
        // By bytes, too: what is new stays, whatever it takes.
        fs::File::create(folder.join("worker.log")).unwrap().set_len(KEPT_BYTES - 8).unwrap();
        put(&folder, "worker.log", BASE).unwrap();
        bound(&folder, &[BASE]);
        let names: Vec<_> = kept_in(&folder).iter().map(Kept::name).collect();
        assert_eq!(names, ["11-0123456789abcdef", "12-0123456789abcdef", "base"]);
    }

    #[test]
    fn what_is_recorded_is_forgotten_and_what_is_kept_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let output = Output::new(dir.path());
        fs::create_dir_all(dir.path().join("output/base")).unwrap();
        let file = dir.path().join("output/check.stdout-2");
        fs::write(&file, "text").unwrap();
        output.forget();
        assert!(file.exists(), "nothing is looked for that this session has not made");
        output.made.set(true);
        output.unwritten.borrow_mut().push((file.clone(), Vec::new()));
        output.forget();
        assert!(!file.exists() && dir.path().join("output/base").exists());
        assert!(output.unwritten.borrow().is_empty());
    }
}
