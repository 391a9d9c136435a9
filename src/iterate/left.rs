//! What a command left on the disk, looked at without trusting anything that it may have put in the way.

use std::fs;
use std::io::Read;
use std::path::Path;

/// Whether nothing on the way from `place` to `path`, `path` itself included, is a symbolic link. Whoever could put one
/// there has ended.
pub(super) fn is_plain(place: &Path, path: &str) -> bool {
    let mut current = place.to_path_buf();
    path.split('/').filter(|part| !part.is_empty()).all(|part| {
        current.push(part);
        fs::symlink_metadata(&current).map_or(true, |meta| !meta.is_symlink())
    })
}

/// Whether a program is named by a path in the worktree.
pub(super) fn is_relative(word: &str) -> bool {
    word.contains('/') && !Path::new(word).is_absolute()
}

/// Whether the folder of `path` is in `place`, whatever links a command has made on the way.
pub(super) fn is_inside(place: &Path, path: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    match (real(place), path.parent().and_then(real)) {
        (Some(place), Some(folder)) => folder.starts_with(place),
        _ => false,
    }
}

/// The first `limit` bytes of a regular file; no link is followed.
pub(super) fn read_capped(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let meta = fs::symlink_metadata(path).ok()?;
    if !meta.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
