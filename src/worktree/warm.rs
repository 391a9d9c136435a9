//! Copies of folders that a fresh worktree starts with: dependencies, caches of builds.
//!
//! Blocks are shared where the file system can (copy on write), else copied; never hard-linked to the source, because
//! a worker that writes into its copy would write into everybody's. Modification times and modes are kept: build
//! tools compare them. Files that share an inode in the source share one in the copy.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use gix::bstr::{BStr, BString, ByteSlice};

use super::error::WorktreeError;
use super::manifest::{MAX_DEPTH, join};
use super::names;
use super::overlay::{Below, Marks};
use super::pool;
use super::sys::{self, Dir, FileKind, Stat};

/// What a copy did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyStats {
    /// Regular files in the copy.
    pub files: usize,
    /// How many of them share their blocks with the source.
    pub shared: usize,
    /// Bytes of all regular files, shared or not.
    pub bytes: u64,
}

/// What came of giving a worktree its layers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layered {
    /// All copies together.
    pub stats: CopyStats,
    /// The folders that were not copied: the worktree has something in their place, or a file or a link above it.
    pub left_out: Vec<BString>,
}

/// Folders built from the base commit, to be given to every fresh worktree.
#[derive(Debug, Clone)]
pub struct WarmLayers {
    source: PathBuf,
    folders: Vec<BString>,
}

impl WarmLayers {
    /// `folders` (paths from the top of a worktree) lie in `source`, a worktree of the base commit in which the
    /// setup has run and nothing of a candidate ever does. A folder that the setup did not make is left out.
    pub fn prepare(source: &Path, folders: &[BString]) -> Result<Self, WorktreeError> {
        let root = Dir::open(source).map_err(WorktreeError::io("open the folder", source))?;
        let mut present = Vec::new();
        for folder in folders {
            let folder = folder.trim_end_with(|c| c == '/').as_bstr().to_owned();
            for name in folder.split(|byte| *byte == b'/') {
                if let Some(why) = names::objection(name.as_bstr(), false) {
                    return Err(WorktreeError::UnsafePath { path: folder, why });
                }
            }
            match root.open_path(folder.as_ref()) {
                Ok(_) => present.push(folder),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(WorktreeError::io_below("open the folder", source, folder.as_ref())(error));
                }
            }
        }
        Ok(Self { source: source.to_owned(), folders: present })
    }

    /// Copies every folder into the worktree at `place`, unless something is in its way there. No link on the way is
    /// followed, and nothing that is there is changed. Gives up with [`WorktreeError::Stopped`] soon after `stop` is set.
    pub fn copy_to(&self, place: &Path, stop: Option<&AtomicBool>) -> Result<Layered, WorktreeError> {
        let from_root =
            Dir::open(&self.source).map_err(WorktreeError::io("open the folder", &self.source))?;
        let to_root = Dir::open(place).map_err(WorktreeError::io("open the folder", place))?;
        let mut done = Layered::default();
        for folder in &self.folders {
            let (parent, name) = split(folder.as_ref());
            let fail_from =
                |error| WorktreeError::io_below("open the folder", &self.source, folder.as_ref())(error);
            let fail_to = WorktreeError::io_below("make the folder", place, folder.as_ref());
            let from = from_root.open_path(folder.as_ref()).map_err(fail_from)?;
            let mode = from.stat(b".".as_bstr()).map_err(fail_from)?.mode & 0o7777;
            let opened = make_path(&to_root, parent).and_then(|above| {
                above.make_dir(name, mode | 0o700)?;
                above.open_dir(name)
            });
            let to = match opened {
                Ok(to) => to,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists || sys::is_other_kind(&error) => {
                    done.left_out.push(folder.clone());
                    continue;
                }
                Err(error) => return Err(fail_to(error)),
            };
            let source = self.source.join(super::error::to_path(folder.as_ref()));
            let copied = copy_dir(&from, &to, &source, stop)?;
            done.stats.files += copied.files;
            done.stats.shared += copied.shared;
            done.stats.bytes += copied.bytes;
        }
        Ok(done)
    }
}

/// Whether a folder holds the warm folders `folders` and nothing else, each as a folder, so that it can be the lower layer of an overlay.
pub fn is_nothing_but(source: &Path, folders: &[BString]) -> Result<bool, WorktreeError> {
    let fail = || WorktreeError::io("read the folder", source);
    let root = Dir::open(source).map_err(fail())?;
    nothing_but(&root, b"".as_bstr(), folders).map_err(fail())
}

fn nothing_but(dir: &Dir, path: &BStr, folders: &[BString]) -> io::Result<bool> {
    for entry in dir.entries()? {
        let below = join(path, entry.name.as_ref());
        let above_one = || folders.iter().any(|folder| folder.starts_with(&[&below[..], b"/"].concat()));
        let is_one = folders.contains(&below);
        if dir.stat(entry.name.as_ref())?.kind() != FileKind::Dir || !(is_one || above_one()) {
            return Ok(false);
        }
        if !is_one && !nothing_but(&dir.open_dir(entry.name.as_ref())?, below.as_ref(), folders)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Copies into the upper folder `upper` what shows through it of the folder `below`, which lies in `source`.
pub(super) fn bring_up(upper: &Dir, below: &Dir, marks: Marks, source: &Path) -> Result<(), WorktreeError> {
    let fail = WorktreeError::io("copy what was moved out of", source);
    raise(upper, below, marks, source, 0).map_err(|error| match error {
        Raise::Io(error) => fail(error),
        Raise::Copy(error) => error,
    })
}

enum Raise {
    Io(io::Error),
    Copy(WorktreeError),
}

impl From<io::Error> for Raise {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn raise(upper: &Dir, below: &Dir, marks: Marks, source: &Path, depth: usize) -> Result<(), Raise> {
    if depth > MAX_DEPTH {
        return Err(Raise::Copy(WorktreeError::TooLarge { what: "nested folders", limit: MAX_DEPTH as u64 }));
    }
    let present = upper.entries()?;
    for entry in below.entries()? {
        let name = entry.name.as_bstr();
        // Whatever the command has put there, a mark that it removed it among them.
        if present.iter().any(|seen| seen.name == name) {
            continue;
        }
        let stat = below.stat(name)?;
        match stat.kind() {
            FileKind::File => {
                let (from, to) = (below.open_file(name)?, upper.create_file(name, 0o600)?);
                copy_content(&from, &to, &stat, &AtomicBool::new(true))?;
            }
            FileKind::Link => upper.make_link(&below.read_link(name)?, name)?,
            FileKind::Dir => {
                upper.make_dir(name, stat.mode & 0o777 | 0o700)?;
                copy_dir(&below.open_dir(name)?, &upper.open_dir(name)?, source, None)
                    .map_err(Raise::Copy)?;
            }
            FileKind::Fifo | FileKind::Socket | FileKind::Device => {}
        }
    }
    for entry in present {
        let name = entry.name.as_bstr();
        if upper.stat(name)?.kind() != FileKind::Dir {
            continue;
        }
        let inner = super::access::open_dir(upper, name)?;
        let was = match marks.below(&inner)? {
            Below::SamePlace => name.to_owned(),
            Below::Renamed(old) => old,
            // What was moved here from elsewhere says so itself.
            Below::Nothing | Below::Absolute(_) => continue,
        };
        match below.open_dir(was.as_ref()) {
            Ok(below) => raise(&inner, &below, marks, source, depth + 1)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound || sys::is_other_kind(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Opens the directory at `path`, making what is missing.
pub(super) fn make_path(root: &Dir, path: &BStr) -> io::Result<Dir> {
    let mut dir = root.open_dir(b"".as_bstr())?;
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        let name = name.as_bstr();
        match dir.make_dir(name, 0o777) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => dir = dir.open_dir(name)?,
        }
    }
    Ok(dir)
}

/// Copies the folder `source` to the new folder `target`.
pub fn copy_on_write(source: &Path, target: &Path) -> Result<CopyStats, WorktreeError> {
    let from = Dir::open(source).map_err(WorktreeError::io("open the folder", source))?;
    fs::create_dir(target).map_err(WorktreeError::io("make the folder", target))?;
    let to = Dir::open(target).map_err(WorktreeError::io("open the folder", target))?;
    copy_dir(&from, &to, source, None)
}

/// Copies one file to a new one, with its mode and modification time; blocks are shared where possible.
pub(super) fn copy_file(source: &Path, target: &Path) -> io::Result<()> {
    let from = File::open(source)?;
    let to = File::options().write(true).create_new(true).open(target)?;
    copy_content(&from, &to, &sys::fstat(&from)?, &AtomicBool::new(true)).map(drop)
}

/// Returns whether the blocks are shared.
fn copy_content(mut from: &File, mut to: &File, stat: &Stat, may_share: &AtomicBool) -> io::Result<bool> {
    let share = may_share.load(Ordering::Relaxed) && stat.size > 0;
    let shared = share && sys::clone_blocks(from, to);
    if share && !shared {
        // It will not work for the next file either.
        may_share.store(false, Ordering::Relaxed);
    }
    if !shared {
        // The standard library lets the kernel copy where it can.
        io::copy(&mut from, &mut to)?;
    }
    sys::set_file_mode(to, stat.mode & 0o777)?;
    sys::set_file_mtime(to, stat.mtime)?;
    Ok(shared)
}

/// One directory of the source, to be copied.
struct Folder {
    path: BString,
    stat: Stat,
    files: Vec<BString>,
}

fn copy_dir(
    from: &Dir,
    to: &Dir,
    source: &Path,
    stop: Option<&AtomicBool>,
) -> Result<CopyStats, WorktreeError> {
    let mut folders = Vec::new();
    let mut links = Vec::new();
    plan(from, to, source, b"".as_bstr(), 0, &mut folders, &mut links)?;

    let counts = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicU64::new(0));
    let may_share = AtomicBool::new(true);
    let twins: Mutex<HashMap<(u64, u64), BString>> = Mutex::default();
    let units: Vec<(&Folder, &[BString])> = folders
        .iter()
        .flat_map(|folder| folder.files.chunks(128).map(move |files| (folder, files)))
        .collect();
    let total = folders.iter().map(|folder| folder.files.len()).sum();
    let locals = vec![(); pool::threads_for(total).min(units.len().max(1))];
    let late = pool::each(&units, locals, |(), (folder, files)| {
        let path = folder.path.as_bstr();
        let fail = |error| WorktreeError::io_below("copy the folder", source, path)(error);
        let from = from.open_path(path).map_err(fail)?;
        let to = to.open_path(path).map_err(fail)?;
        let mut twins_here = Vec::new();
        for name in *files {
            if stop.is_some_and(|stop| stop.load(Ordering::SeqCst)) {
                return Err(WorktreeError::Stopped);
            }
            let at = join(path, name.as_ref());
            let fail = |error| WorktreeError::io_below("copy", source, at.as_ref())(error);
            let file = from.open_file(name.as_ref()).map_err(fail)?;
            let stat = sys::fstat(&file).map_err(fail)?;
            counts.0.fetch_add(1, Ordering::Relaxed);
            if stat.nlink > 1 {
                let mut twins = twins.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if let Some(first) = twins.get(&(stat.dev, stat.ino)) {
                    twins_here.push((first.clone(), at));
                    continue;
                }
                twins.insert((stat.dev, stat.ino), at.clone());
            }
            let copy = to.create_file(name.as_ref(), 0o600).map_err(fail)?;
            let shared = copy_content(&file, &copy, &stat, &may_share).map_err(fail)?;
            counts.1.fetch_add(usize::from(shared), Ordering::Relaxed);
            counts.2.fetch_add(stat.size, Ordering::Relaxed);
        }
        Ok(twins_here)
    })?;
    // The first of each family of hard links exists by now.
    for (first, twin) in late.into_iter().flatten() {
        let fail = |error| WorktreeError::io_below("copy", source, twin.as_ref())(error);
        let (first_dir, first_name) = split(first.as_ref());
        let (twin_dir, twin_name) = split(twin.as_ref());
        let first_dir = to.open_path(first_dir).map_err(fail)?;
        first_dir.hard_link(first_name, &to.open_path(twin_dir).map_err(fail)?, twin_name).map_err(fail)?;
    }
    for (path, target, stat) in links {
        let fail = |error| WorktreeError::io_below("copy the link", source, path.as_ref())(error);
        let (dir, name) = split(path.as_ref());
        let dir = to.open_path(dir).map_err(fail)?;
        dir.make_link(&target, name).and_then(|()| dir.set_mtime(name, stat.mtime)).map_err(fail)?;
    }
    // Last, and from the bottom up: making entries moves the time of a folder, and its mode may forbid it.
    for folder in folders.iter().rev() {
        let fail =
            |error| WorktreeError::io_below("set the time of a copy of", source, folder.path.as_ref())(error);
        let dir = to.open_path(folder.path.as_ref()).map_err(fail)?;
        dir.set_mtime(b".".as_bstr(), folder.stat.mtime)
            .and_then(|()| dir.set_mode(folder.stat.mode & 0o777))
            .map_err(fail)?;
    }
    Ok(CopyStats {
        files: counts.0.into_inner(),
        shared: counts.1.into_inner(),
        bytes: counts.2.into_inner(),
    })
}

pub(super) fn split(path: &BStr) -> (&BStr, &BStr) {
    match path.rfind_byte(b'/') {
        Some(slash) => (path[..slash].as_bstr(), path[slash + 1..].as_bstr()),
        None => (b"".as_bstr(), path),
    }
}

/// Makes all folders of the copy and lists what goes into them. Sockets and the like are left out: no build needs an
/// old one.
fn plan(
    from: &Dir,
    to: &Dir,
    source: &Path,
    path: &BStr,
    depth: usize,
    folders: &mut Vec<Folder>,
    links: &mut Vec<(BString, Vec<u8>, Stat)>,
) -> Result<(), WorktreeError> {
    if depth > MAX_DEPTH {
        return Err(WorktreeError::TooLarge { what: "nested folders", limit: MAX_DEPTH as u64 });
    }
    let fail = |error| WorktreeError::io_below("read the folder", source, path)(error);
    let stat = from.stat(b".".as_bstr()).map_err(fail)?;
    let at = folders.len();
    folders.push(Folder { path: path.to_owned(), stat, files: Vec::new() });
    for entry in from.entries().map_err(fail)? {
        let name = entry.name.as_bstr();
        let kind = match entry.kind {
            Some(kind) => kind,
            None => from.stat(name).map_err(fail)?.kind(),
        };
        match kind {
            FileKind::File => folders[at].files.push(entry.name),
            FileKind::Link => {
                let target = from.read_link(name).map_err(fail)?;
                links.push((join(path, name), target, from.stat(name).map_err(fail)?));
            }
            FileKind::Dir => {
                to.make_dir(name, 0o700).map_err(fail)?;
                let (below, copy) = (from.open_dir(name).map_err(fail)?, to.open_dir(name).map_err(fail)?);
                plan(&below, &copy, source, join(path, name).as_ref(), depth + 1, folders, links)?;
            }
            FileKind::Fifo | FileKind::Socket | FileKind::Device => {}
        }
    }
    Ok(())
}
