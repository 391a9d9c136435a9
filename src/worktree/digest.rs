//! One hash for a whole folder: what it was when it was kept, it still is.

use std::io::{self, Read};
use std::path::Path;

use gix::bstr::{BStr, BString, ByteSlice};
use sha2::{Digest, Sha256};

use super::error::{WorktreeError, to_path};
use super::manifest::{MAX_DEPTH, join};
use super::pool;
use super::sys::{Dir, FileKind};

/// What a folder holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderDigest {
    /// Files and links.
    pub files: u64,
    /// SHA-256, as hex, over one line for each folder, file and link in the order of their paths: its kind (`d`, `f`, `x` for an
    /// executable file, `l`), a space, the SHA-256 of its content or target as hex (nothing for a folder), a space, its path, a NUL.
    pub sha256: String,
}

/// One path below the folder.
struct Item {
    path: BString,
    kind: char,
}

/// Hashes everything below `folder`. No link is followed; sockets and the like do not count.
pub fn digest_folder(folder: &Path) -> Result<FolderDigest, WorktreeError> {
    let root = Dir::open(folder).map_err(WorktreeError::io("open the folder", folder))?;
    let mut items = Vec::new();
    list(&root, folder, b"".as_bstr(), 0, &mut items)?;
    items.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let units: Vec<(usize, &[Item])> =
        items.chunks(UNIT).enumerate().map(|(at, chunk)| (at * UNIT, chunk)).collect();
    let threads = pool::threads_for(items.len()).min(units.len().max(1));
    let mut lines = pool::each(&units, vec![vec![0; 1 << 16]; threads], |buf, (at, chunk)| {
        let mut lines = Vec::with_capacity(chunk.len() * 120);
        for item in *chunk {
            let hash = hash(&root, item, buf)
                .map_err(|error| WorktreeError::io_below("read", folder, item.path.as_ref())(error))?;
            lines.extend_from_slice(format!("{} {hash} ", item.kind).as_bytes());
            lines.extend_from_slice(&item.path);
            lines.push(0);
        }
        Ok::<_, WorktreeError>((*at, lines))
    })?;
    lines.sort_unstable_by_key(|(at, _)| *at);
    let mut whole = Sha256::new();
    for (_, lines) in &lines {
        whole.update(lines);
    }
    let files = items.iter().filter(|item| item.kind != 'd').count() as u64;
    Ok(FolderDigest { files, sha256: hex(&whole.finalize()) })
}

/// SHA-256 of a file's content, as hex.
pub fn digest_file(path: &Path) -> Result<String, WorktreeError> {
    let file = std::fs::File::open(path).map_err(WorktreeError::io("open", path))?;
    hash_file(file, &mut vec![0; 1 << 16]).map_err(WorktreeError::io("read", path))
}

const UNIT: usize = 128;

fn list(
    dir: &Dir,
    root: &Path,
    path: &BStr,
    depth: usize,
    items: &mut Vec<Item>,
) -> Result<(), WorktreeError> {
    if depth > MAX_DEPTH {
        return Err(WorktreeError::TooLarge { what: "nested folders", limit: MAX_DEPTH as u64 });
    }
    let fail =
        |error| WorktreeError::Io { doing: "read the folder", path: root.join(to_path(path)), source: error };
    for entry in dir.entries().map_err(fail)? {
        let name: &BStr = entry.name.as_ref();
        let stat = dir.stat(name).map_err(fail)?;
        let below = join(path, name);
        let kind = match stat.kind() {
            FileKind::Dir => {
                list(&dir.open_dir(name).map_err(fail)?, root, below.as_ref(), depth + 1, items)?;
                'd'
            }
            FileKind::Link => 'l',
            FileKind::File if stat.is_executable() => 'x',
            FileKind::File => 'f',
            FileKind::Fifo | FileKind::Socket | FileKind::Device => continue,
        };
        items.push(Item { path: below, kind });
    }
    Ok(())
}

fn hash(root: &Dir, item: &Item, buf: &mut [u8]) -> io::Result<String> {
    if item.kind == 'd' {
        return Ok(String::new());
    }
    let path: &BStr = item.path.as_ref();
    let (above, name) = super::warm::split(path);
    let dir = root.open_path(above)?;
    if item.kind == 'l' {
        return Ok(hex(&Sha256::digest(dir.read_link(name)?)));
    }
    hash_file(dir.open_file(name)?, buf)
}

fn hash_file(mut file: std::fs::File, buf: &mut [u8]) -> io::Result<String> {
    let mut hasher = Sha256::new();
    loop {
        match file.read(buf)? {
            0 => return Ok(hex(&hasher.finalize())),
            got => hasher.update(&buf[..got]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn anything_that_differs_gives_another_hash() {
        let temp = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let top = temp.path().join(name);
            fs::create_dir_all(top.join("d/e")).unwrap();
            fs::write(top.join("d/f"), "content").unwrap();
            fs::write(top.join("x"), "run").unwrap();
            symlink("d/f", top.join("l")).unwrap();
            for number in 0..400 {
                fs::write(top.join(format!("d/e/{number}")), number.to_string()).unwrap();
            }
            top
        };
        let first = digest_folder(&make("first")).unwrap();
        assert_eq!(first.files, 403);
        assert_eq!(digest_folder(&make("second")).unwrap(), first);
        let changes: [&dyn Fn(&Path); 6] = [
            &|top| fs::write(top.join("d/f"), "Content").unwrap(),
            &|top| fs::rename(top.join("d/f"), top.join("d/g")).unwrap(),
            &|top| fs::set_permissions(top.join("x"), fs::Permissions::from_mode(0o755)).unwrap(),
            &|top| fs::create_dir(top.join("empty")).unwrap(),
            &|top| {
                fs::remove_file(top.join("l")).unwrap();
                symlink("d/e", top.join("l")).unwrap();
            },
            &|top| {
                fs::remove_file(top.join("l")).unwrap();
                fs::write(top.join("l"), "d/f").unwrap();
            },
        ];
        for (number, change) in changes.iter().enumerate() {
            let top = make(&format!("changed-{number}"));
            change(&top);
            assert_ne!(digest_folder(&top).unwrap().sha256, first.sha256, "{number}");
        }
    }
}
