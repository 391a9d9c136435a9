//! The index (version 2, or 3 where not all is checked out; `gitformat-index(5)`) of a worktree that was just checked out: with what
//! `stat` says, so that git need not read a file to know that it is unchanged, and with the cached trees, so that it need not read
//! trees either. What is not checked out is there and marked (`skip-worktree`), so that git does not take it for deleted.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use gix::bstr::BString;
use gix::objs::tree::EntryKind;

use super::error::WorktreeError;
use super::manifest::{Entry, Manifest, join};
use super::sys::Stat;

/// Writes the index of a checked-out `manifest` to the new file `path`.
pub fn write_index(manifest: &Manifest, path: &Path) -> Result<(), WorktreeError> {
    let data = encode(manifest)?;
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| file.write_all(&data))
        .map_err(WorktreeError::io("write the index", path))
}

/// The bit of an entry's flags that more of them follow, and the one of those that the file is not in the work tree.
const EXTENDED: u16 = 0x4000;
const SKIP_WORKTREE: u16 = 0x4000;

fn encode(manifest: &Manifest) -> Result<Vec<u8>, WorktreeError> {
    let manifest = manifest.whole();
    let partial = manifest.dirs[0].partial;
    let mut entries: Vec<(BString, &Entry)> = Vec::with_capacity(manifest.file_count());
    for dir in &manifest.dirs {
        for entry in dir.entries.iter().filter(|entry| entry.mode.is_no_tree()) {
            entries.push((join(dir.path.as_ref(), entry.name.as_ref()), entry));
        }
    }
    // A file below a folder of which nothing is checked out is marked by its own: each was asked about.
    // A tree read depth first is not in the order of whole paths: a folder's own files come before its folders'.
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));

    let mut data = Vec::with_capacity(entries.len() * 120 + 4096);
    data.extend_from_slice(b"DIRC");
    put(&mut data, if partial { 3 } else { 2 });
    put(&mut data, u32::try_from(entries.len()).unwrap_or(u32::MAX));
    for (path, entry) in &entries {
        let start = data.len();
        put_stat(&mut data, entry);
        data.extend_from_slice(entry.id.as_slice());
        // The length as far as it fits into twelve bits; of the other flags there is at most one.
        let length = u16::try_from(path.len().min(0xfff)).unwrap_or(0xfff);
        if entry.absent {
            data.extend_from_slice(&(length | EXTENDED).to_be_bytes());
            data.extend_from_slice(&SKIP_WORKTREE.to_be_bytes());
        } else {
            data.extend_from_slice(&length.to_be_bytes());
        }
        data.extend_from_slice(path);
        // One to eight NULs, so that the length of the entry is a multiple of eight.
        let padding = 8 - (data.len() - start) % 8;
        data.extend_from_slice(&[0; 8][..padding]);
    }

    let mut cache = Vec::new();
    put_cached_tree(&mut cache, manifest, 0, b"");
    data.extend_from_slice(b"TREE");
    put(&mut data, u32::try_from(cache.len()).unwrap_or(u32::MAX));
    data.extend_from_slice(&cache);

    let mut hasher = gix::hash::hasher(manifest.hash);
    hasher.update(&data);
    let checksum = hasher
        .try_finalize()
        .map_err(|error| WorktreeError::Store { path: BString::default(), source: error.into() })?;
    data.extend_from_slice(checksum.as_slice());
    Ok(data)
}

fn put(data: &mut Vec<u8>, value: u32) {
    data.extend_from_slice(&value.to_be_bytes());
}

fn put_stat(data: &mut Vec<u8>, entry: &Entry) {
    let mode = match entry.mode.kind() {
        EntryKind::BlobExecutable => 0o100_755,
        EntryKind::Link => 0o120_000,
        EntryKind::Commit => 0o160_000,
        EntryKind::Blob | EntryKind::Tree => 0o100_644,
    };
    let Some(Stat { dev, ino, uid, gid, size, mtime, ctime, .. }) = entry.stat else {
        // Nothing is known of it, a submodule for example: git looks itself.
        for value in [0, 0, 0, 0, 0, 0, mode, 0, 0, 0] {
            put(data, value);
        }
        return;
    };
    // The format keeps the low 32 bits of everything.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    for value in [
        ctime.secs as u32,
        ctime.nanos,
        mtime.secs as u32,
        mtime.nanos,
        dev as u32,
        ino as u32,
        mode,
        uid,
        gid,
        size as u32,
    ] {
        put(data, value);
    }
}

/// Appends the cached tree of a directory and of all below it; returns how many index entries it covers.
fn put_cached_tree(cache: &mut Vec<u8>, manifest: &Manifest, dir: usize, name: &[u8]) -> usize {
    let directory = &manifest.dirs[dir];
    let subtrees = directory.entries.iter().filter(|entry| entry.mode.is_tree());
    let mut below = Vec::new();
    let mut covered = directory.entries.iter().filter(|entry| entry.mode.is_no_tree()).count();
    let mut count = 0;
    for entry in subtrees {
        covered += put_cached_tree(&mut below, manifest, entry.dir, &entry.name);
        count += 1;
    }
    cache.extend_from_slice(name);
    cache.push(0);
    cache.extend_from_slice(format!("{covered} {count}\n").as_bytes());
    cache.extend_from_slice(directory.tree.as_slice());
    cache.extend_from_slice(&below);
    covered
}
