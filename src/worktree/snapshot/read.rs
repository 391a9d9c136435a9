//! The second pass, on several threads: what is in the files.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::objs::Kind;
use gix::objs::tree::{EntryKind, EntryMode};

use super::{Node, SnapshotOptions, What, go_on};
use crate::worktree::error::WorktreeError;
use crate::worktree::manifest::{Entry, Manifest, join};
use crate::worktree::pool;
use crate::worktree::sys::{self, Dir, FileKind, Stat};

/// So many bytes are read or hashed between two looks at whether they are still wanted.
const PIECE: usize = 4 << 20;

pub(super) struct Reader<'a> {
    known: &'a Manifest,
    place: &'a Path,
    root: &'a Dir,
    options: SnapshotOptions<'a>,
    /// Bytes of new content so far.
    stored: AtomicU64,
}

/// What became of one file that had to be read.
pub(super) enum Content {
    Stored(EntryMode, ObjectId),
    Vanished,
    TooLarge,
}

/// A node, and what became of its unread entries.
pub(super) type NodeContent = (usize, Vec<(usize, Content)>);

struct Local {
    objects: gix::OdbHandle,
    buf: Vec<u8>,
}

impl<'a> Reader<'a> {
    pub fn new(known: &'a Manifest, place: &'a Path, root: &'a Dir, options: SnapshotOptions<'a>) -> Self {
        Self { known, place, root, options, stored: AtomicU64::new(0) }
    }

    pub fn read_all(
        &self,
        repo: &gix::Repository,
        nodes: &[Node],
    ) -> Result<Vec<NodeContent>, WorktreeError> {
        const UNIT: usize = 256;
        let mut units: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut count = 0;
        for (at, node) in nodes.iter().enumerate() {
            let unread: Vec<usize> = (0..node.entries.len())
                .filter(|index| matches!(node.entries[*index].what, What::Read))
                .collect();
            count += unread.len();
            units.extend(unread.chunks(UNIT).map(|indices| (at, indices.to_vec())));
        }
        let locals = (0..pool::threads_for(count).min(units.len().max(1)))
            .map(|_| Local { objects: repo.objects.clone(), buf: Vec::new() })
            .collect();
        pool::each(&units, locals, |local, (at, indices)| {
            let node = &nodes[*at];
            let dir = self.root.open_path(node.path.as_ref()).map_err(WorktreeError::io_below(
                "open the folder",
                self.place,
                node.path.as_ref(),
            ))?;
            let mut read = Vec::with_capacity(indices.len());
            for index in indices {
                let name = node.entries[*index].name.as_bstr();
                let known = node.known.and_then(|dir| self.known.find(dir, name));
                read.push((*index, self.read(local, &dir, node.path.as_ref(), name, known)?));
            }
            Ok((*at, read))
        })
    }

    fn read(
        &self,
        local: &mut Local,
        dir: &Dir,
        parent: &BStr,
        name: &BStr,
        known: Option<&Entry>,
    ) -> Result<Content, WorktreeError> {
        go_on(self.options.stop)?;
        let path = || join(parent, name);
        let fail = |error| WorktreeError::io_below("read", self.place, path().as_ref())(error);
        let file = match dir.open_file(name) {
            Err(error) if sys::is_permission(&error) => {
                // The worker ran as this user and took the right to read away; the file is not kept anyway.
                let mode = dir.stat(name).map_err(fail)?.mode & 0o777 | 0o400;
                dir.set_mode_of(name, mode).and_then(|()| dir.open_file(name)).map_err(fail)?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Content::Vanished),
            Err(error) if sys::is_other_kind(&error) => {
                local.buf = match dir.read_link(name) {
                    Ok(target) => target,
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                        return Ok(Content::Vanished);
                    }
                    Err(_) => return Err(WorktreeError::Changed { path: path() }),
                };
                return self.store(local, EntryKind::Link, known, path);
            }
            other => other.map_err(fail)?,
        };
        let stat = sys::fstat(&file).map_err(fail)?;
        if stat.kind() != FileKind::File {
            return Err(WorktreeError::Changed { path: path() });
        }
        let kind = if stat.is_executable() { EntryKind::BlobExecutable } else { EntryKind::Blob };
        if stat.size > self.options.max_file_bytes {
            return self.compare_large(file, &stat, kind, known, path);
        }
        if !read_whole(file, stat.size, self.options, &mut local.buf).map_err(fail)? {
            go_on(self.options.stop)?;
            return Ok(Content::TooLarge);
        }
        self.store(local, kind, known, path)
    }

    fn store(
        &self,
        local: &mut Local,
        kind: EntryKind,
        known: Option<&Entry>,
        path: impl Fn() -> BString,
    ) -> Result<Content, WorktreeError> {
        let fail = |source: gix::Error| WorktreeError::Store { path: path(), source: source.into() };
        let id = self.hash(&local.buf)?.map_err(fail)?;
        if let Some(known) = known.filter(|known| known.id == id && known.mode.is_blob_or_symlink()) {
            let mode = if known.mode.kind() == kind { known.mode } else { kind.into() };
            return Ok(Content::Stored(mode, id));
        }
        let length = local.buf.len() as u64;
        let limit = self.options.max_total_bytes;
        if self.stored.fetch_add(length, Ordering::Relaxed).saturating_add(length) > limit {
            return Err(WorktreeError::TooLarge { what: "bytes of new content", limit });
        }
        let is_wanted = || go_on(self.options.stop).is_ok();
        crate::git::loose::store_while(&local.objects, Kind::Blob, &local.buf, id, &is_wanted).or_else(
            |error| {
                go_on(self.options.stop)?;
                Err(fail(error))
            },
        )?;
        Ok(Content::Stored(kind.into(), id))
    }

    /// The id of a blob. Of a large one it is asked again and again whether it is wanted.
    fn hash(&self, bytes: &[u8]) -> Result<gix::Result<ObjectId>, WorktreeError> {
        if bytes.len() <= PIECE {
            return Ok(gix::objs::compute_hash(self.known.hash, Kind::Blob, bytes));
        }
        let mut hasher = gix::hash::hasher(self.known.hash);
        hasher.update(&gix::objs::encode::loose_header(Kind::Blob, bytes.len() as u64));
        for piece in bytes.chunks(PIECE) {
            go_on(self.options.stop)?;
            hasher.update(piece);
        }
        Ok(hasher.try_finalize())
    }

    /// A file over the limit may be one that the base holds: hashed in pieces, never held in memory.
    fn compare_large(
        &self,
        mut file: std::fs::File,
        stat: &Stat,
        kind: EntryKind,
        known: Option<&Entry>,
        path: impl Fn() -> BString,
    ) -> Result<Content, WorktreeError> {
        let same_size = known.is_some_and(|known| known.stat.is_some_and(|made| made.size == stat.size));
        let Some(known) = known.filter(|known| same_size && known.mode.is_blob()) else {
            return Ok(Content::TooLarge);
        };
        let mut hasher = gix::hash::hasher(self.known.hash);
        hasher.update(&gix::objs::encode::loose_header(Kind::Blob, stat.size));
        let mut piece = vec![0; 1 << 16];
        loop {
            let got = file.read(&mut piece).map_err(WorktreeError::io_below(
                "read",
                self.place,
                path().as_ref(),
            ))?;
            if got == 0 {
                break;
            }
            go_on(self.options.stop)?;
            hasher.update(&piece[..got]);
        }
        let mode = if known.mode.kind() == kind { known.mode } else { kind.into() };
        match hasher.try_finalize() {
            Ok(id) if id == known.id => Ok(Content::Stored(mode, id)),
            _ => Ok(Content::TooLarge),
        }
    }
}

/// Reads a file that was `size` bytes long into `buf`. `false`: it has grown beyond the limit since, or nobody wants it any more.
fn read_whole(
    mut file: std::fs::File,
    size: u64,
    options: SnapshotOptions<'_>,
    buf: &mut Vec<u8>,
) -> std::io::Result<bool> {
    let limit = options.max_file_bytes;
    // One byte more than it had, so that the usual single read also shows that it ends there.
    let expected = usize::try_from(size).unwrap_or(usize::MAX - 1);
    buf.clear();
    buf.resize(expected + 1, 0);
    let mut filled = 0;
    while filled < expected {
        if go_on(options.stop).is_err() {
            return Ok(false);
        }
        let end = buf.len().min(filled + PIECE);
        match file.read(&mut buf[filled..end]) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buf.truncate(filled);
    if filled > expected {
        let rest = limit.saturating_sub(filled as u64).saturating_add(1);
        file.take(rest).read_to_end(buf)?;
    }
    Ok(buf.len() as u64 <= limit)
}
