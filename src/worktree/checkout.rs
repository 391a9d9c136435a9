//! From a tree to files, byte for byte: no filter, no attribute, no config of anybody takes part.
//!
//! Nothing can be written outside the folder or through a link: the folder is empty, every name is checked, all
//! directories are made before any file, all files are made anew, and links come last.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice};
use gix::objs::Kind;
use gix::objs::tree::EntryKind;

use super::error::WorktreeError;
use super::manifest::{Entry, Manifest, join, read_object, verify_object};
use super::pool;
use super::selection::Selection;
use super::sys::{self, Dir, Stat, Time};

/// How to check a tree out.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckoutOptions<'a> {
    /// Hash every object again and refuse what does not match its name. A check's tree wants it.
    pub verify: bool,
    /// Files that are as in this tree get this modification time, all others the present.
    ///
    /// Cargo, make and their like rebuild what is newer than the last build. With the tree that warm layers were built
    /// from, and a time before that build, they rebuild exactly what differs. One old time for *every* file would be
    /// a trap: a changed source would look built already, and a check would judge the code of before.
    pub unchanged: Option<(&'a Manifest, SystemTime)>,
    /// What of the tree is checked out; all if there is none.
    pub selection: Option<&'a Selection>,
    /// Give up with [`WorktreeError::Stopped`] soon after this is set.
    pub stop: Option<&'a AtomicBool>,
}

/// What a checkout did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckoutStats {
    /// Regular files made.
    pub files: usize,
    /// Symbolic links made.
    pub links: usize,
    /// Directories made, those of submodules among them.
    pub dirs: usize,
    /// Bytes of all regular files.
    pub bytes: u64,
}

/// Files of one directory that one thread makes in one go.
struct Unit {
    dir: usize,
    entries: std::ops::Range<usize>,
}

/// A directory with this many files is shared between threads.
const UNIT: usize = 256;

/// What one thread needs of its own.
struct Local {
    objects: gix::OdbHandle,
    buf: Vec<u8>,
}

/// Fills the empty folder `dest` with `tree`. The returned manifest knows what was left on disk, for
/// [`write_index`](super::write_index) and [`snapshot`](super::snapshot()). A `.git` in `dest` does not count as
/// content, and a tree cannot hold one.
pub fn checkout(
    repo: &gix::Repository,
    tree: ObjectId,
    dest: &Path,
    options: CheckoutOptions<'_>,
) -> Result<(Manifest, CheckoutStats), WorktreeError> {
    let mut manifest = Manifest::read_selected(repo, tree, options.verify, options.selection)?;
    let stats = materialise(repo, &mut manifest, dest, options)?;
    Ok((manifest, stats))
}

fn materialise(
    repo: &gix::Repository,
    manifest: &mut Manifest,
    dest: &Path,
    options: CheckoutOptions<'_>,
) -> Result<CheckoutStats, WorktreeError> {
    let root = Dir::open(dest).map_err(WorktreeError::io("open the folder", dest))?;
    let present = root.entries().map_err(WorktreeError::io("read the folder", dest))?;
    if present.iter().any(|entry| entry.name != ".git") {
        return Err(WorktreeError::NotEmpty { path: dest.to_owned() });
    }

    let mut stats = CheckoutStats { dirs: make_dirs(manifest, &root, dest)?, ..Default::default() };
    let units = units(manifest);
    let locals = (0..pool::threads_for(manifest.file_count()).min(units.len().max(1)))
        .map(|_| Local { objects: repo.objects.clone(), buf: Vec::new() })
        .collect();
    let times = Times::new(manifest, options.unchanged);
    let making = &*manifest;
    let made = pool::each(&units, locals, |local, unit| {
        if options.stop.is_some_and(|stop| stop.load(Ordering::SeqCst)) {
            return Err(WorktreeError::Stopped);
        }
        make_files(local, making, unit, &root, dest, options.verify, &times)
    })?;
    let links = make_links(repo, making, &root, dest, options.verify, &times)?;
    stats.links = links.len();
    for (dir, files) in made {
        stats.files += files.len();
        for (index, stat) in files {
            stats.bytes += stat.size;
            manifest.dirs[dir].entries[index].stat = Some(stat);
        }
    }
    for (dir, index, stat) in links {
        manifest.dirs[dir].entries[index].stat = Some(stat);
    }
    manifest.note_times();
    Ok(stats)
}

/// Which files get an old modification time.
struct Times<'a> {
    old: Option<(&'a Manifest, Time)>,
    /// For each directory of the new manifest, the one at the same path in the old.
    dirs: Vec<Option<usize>>,
}

impl<'a> Times<'a> {
    fn new(manifest: &Manifest, unchanged: Option<(&'a Manifest, SystemTime)>) -> Self {
        Self {
            old: unchanged.map(|(old, time)| (old, file_time(time))),
            dirs: unchanged.map(|(old, _)| manifest.matching_dirs(old)).unwrap_or_default(),
        }
    }

    fn of(&self, dir: usize, entry: &Entry) -> Option<Time> {
        let (old, time) = self.old?;
        let was = old.find((*self.dirs.get(dir)?)?, entry.name.as_ref())?;
        (was.id == entry.id && was.mode == entry.mode).then_some(time)
    }
}

fn file_time(time: SystemTime) -> Time {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Time { secs: i64::try_from(after.as_secs()).unwrap_or(0), nanos: after.subsec_nanos() },
        Err(_) => Time { secs: 0, nanos: 0 },
    }
}

/// An entry that exists already can only be another name for the same thing: the folder was empty.
pub(super) fn collision(
    doing: &'static str,
    dest: &Path,
    path: &BStr,
) -> impl FnOnce(std::io::Error) -> WorktreeError {
    move |error| {
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            WorktreeError::Collision { path: path.to_owned() }
        } else {
            WorktreeError::io_below(doing, dest, path)(error)
        }
    }
}

fn make_dirs(manifest: &Manifest, root: &Dir, dest: &Path) -> Result<usize, WorktreeError> {
    let mut made = 0;
    for dir in &manifest.dirs {
        if !dir.path.is_empty() {
            root.make_dir(dir.path.as_ref(), 0o777).map_err(collision(
                "make the folder",
                dest,
                dir.path.as_ref(),
            ))?;
            made += 1;
        }
    }
    // An empty folder stands for a submodule, as after `git worktree add`.
    for dir in &manifest.dirs {
        for entry in dir.entries.iter().filter(|entry| entry.mode.is_commit()) {
            let path = join(dir.path.as_ref(), entry.name.as_ref());
            root.make_dir(path.as_ref(), 0o777).map_err(collision("make the folder", dest, path.as_ref()))?;
            made += 1;
        }
    }
    Ok(made)
}

fn units(manifest: &Manifest) -> Vec<Unit> {
    let mut units = Vec::new();
    for (at, dir) in manifest.dirs.iter().enumerate() {
        if !dir.entries.iter().any(|entry| entry.mode.is_blob()) {
            continue;
        }
        for start in (0..dir.entries.len()).step_by(UNIT) {
            units.push(Unit { dir: at, entries: start..(start + UNIT).min(dir.entries.len()) });
        }
    }
    units
}

/// The regular files of one unit, and what `stat` says of each.
fn make_files(
    local: &mut Local,
    manifest: &Manifest,
    unit: &Unit,
    root: &Dir,
    dest: &Path,
    verify: bool,
    times: &Times<'_>,
) -> Result<(usize, Vec<(usize, Stat)>), WorktreeError> {
    let directory = &manifest.dirs[unit.dir];
    let path = directory.path.as_bstr();
    // All of `path` was made here, and no link exists yet: one call may resolve it.
    let dir = root.open_dir(path).map_err(WorktreeError::io_below("open the folder", dest, path))?;
    let mut files = Vec::with_capacity(unit.entries.len());
    for index in unit.entries.clone() {
        let entry = &directory.entries[index];
        let mode = match entry.mode.kind() {
            EntryKind::Blob => 0o644,
            EntryKind::BlobExecutable => 0o755,
            EntryKind::Tree | EntryKind::Link | EntryKind::Commit => continue,
        };
        let data = blob(&local.objects, manifest.hash, path, entry, verify, &mut local.buf)?;
        let at = || join(path, entry.name.as_ref());
        let stat = make_file(&dir, entry.name.as_ref(), mode, data, times.of(unit.dir, entry))
            .map_err(|error| collision("write", dest, at().as_ref())(error))?;
        files.push((index, stat));
    }
    Ok((unit.dir, files))
}

pub(super) fn blob<'b>(
    objects: &gix::OdbHandle,
    hash: gix::hash::Kind,
    dir: &BStr,
    entry: &Entry,
    verify: bool,
    buf: &'b mut Vec<u8>,
) -> Result<&'b [u8], WorktreeError> {
    let data = read_object(objects, entry.id, Kind::Blob, None, buf);
    let checked = data.and_then(|data| {
        if verify {
            verify_object(hash, Kind::Blob, entry.id, None, data)?;
        }
        Ok(data)
    });
    // The path is only put together for the message.
    checked.map_err(|error| match error {
        WorktreeError::Object { id, source, .. } => {
            WorktreeError::Object { id, path: Some(join(dir, entry.name.as_ref())), source }
        }
        WorktreeError::Corrupt { id, actual, .. } => {
            WorktreeError::Corrupt { id, actual, path: Some(join(dir, entry.name.as_ref())) }
        }
        other => other,
    })
}

pub(super) fn make_file(
    dir: &Dir,
    name: &BStr,
    mode: u32,
    data: &[u8],
    mtime: Option<Time>,
) -> std::io::Result<Stat> {
    let mut file = dir.create_file(name, mode)?;
    file.write_all(data)?;
    let mut stat = sys::fstat(&file)?;
    let masked = stat.mode & 0o7777 != mode;
    if masked {
        // The umask took bits away; the tree's mode is exact.
        sys::set_file_mode(&file, mode)?;
    }
    if let Some(mtime) = mtime {
        sys::set_file_mtime(&file, mtime)?;
    }
    if masked || mtime.is_some() {
        stat = sys::fstat(&file)?;
    }
    Ok(stat)
}

fn make_links(
    repo: &gix::Repository,
    manifest: &Manifest,
    root: &Dir,
    dest: &Path,
    verify: bool,
    times: &Times<'_>,
) -> Result<Vec<(usize, usize, Stat)>, WorktreeError> {
    // `open_path` follows no link, so one made here cannot lead the way to the place of another.
    let mut buf = Vec::new();
    let mut links = Vec::new();
    for (at, directory) in manifest.dirs.iter().enumerate() {
        if !directory.entries.iter().any(|entry| entry.mode.is_link()) {
            continue;
        }
        let path = directory.path.as_bstr();
        let dir = root.open_path(path).map_err(WorktreeError::io_below("open the folder", dest, path))?;
        for (index, entry) in directory.entries.iter().enumerate().filter(|(_, entry)| entry.mode.is_link()) {
            let target = blob(&repo.objects, manifest.hash, path, entry, verify, &mut buf)?;
            let name = entry.name.as_bstr();
            let made = dir.make_link(target, name).and_then(|()| {
                if let Some(mtime) = times.of(at, entry) {
                    dir.set_mtime(name, mtime)?;
                }
                dir.stat(name)
            });
            let stat = made.map_err(collision("make the link", dest, join(path, name).as_ref()))?;
            links.push((at, index, stat));
        }
    }
    Ok(links)
}
