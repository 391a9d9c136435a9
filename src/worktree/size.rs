//! How much folders hold on their disk.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::sys::{self, Dir, FileKind};

/// How many folders deep is looked: each takes a descriptor, of which a process has at least twice as many.
const DEEPEST: usize = 500;

/// Whether folders hold more than `most` bytes on their disk. A file with several names counts once, and what goes away meanwhile not at
/// all. What cannot be looked into holds more: it is deeper than anybody's files are, or its names cannot be read.
///
/// `still`: nobody writes to them any more. Then a folder that was closed to its owner is opened.
pub fn holds_more(places: &[PathBuf], most: u64, still: bool) -> bool {
    let mut looking = Looking { seen: BTreeSet::new(), total: 0, most, still };
    places.iter().any(|place| match Dir::open(place) {
        Ok(dir) => looking.is_over(&dir, 0),
        Err(error) => error.kind() != ErrorKind::NotFound,
    })
}

struct Looking {
    seen: BTreeSet<(u64, u64)>,
    total: u64,
    most: u64,
    still: bool,
}

impl Looking {
    /// Adds what lies in a folder; by descriptors, as a path can be longer than any that the system takes.
    fn is_over(&mut self, dir: &Dir, depth: usize) -> bool {
        let Ok(entries) = dir.entries() else { return true };
        for entry in entries {
            let name = entry.name.as_ref();
            let (stat, bytes) = match dir.occupies(name) {
                Ok(found) => found,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                // A folder that may be read and not searched.
                Err(error) if sys::is_permission(&error) && !self.still => continue,
                Err(_) => return true,
            };
            let is_dir = stat.kind() == FileKind::Dir;
            if stat.nlink > 1 && !is_dir && !self.seen.insert((stat.dev, stat.ino)) {
                continue;
            }
            self.total = self.total.saturating_add(bytes);
            if self.total > self.most {
                return true;
            }
            if !is_dir {
                continue;
            }
            // Its owner closed it: to be read, searched, or both.
            if self.still
                && stat.mode & 0o500 != 0o500
                && dir.set_mode_of(name, stat.mode & 0o777 | 0o700).is_err()
            {
                return true;
            }
            match dir.open_dir(name) {
                Ok(_) if depth >= DEEPEST => return true,
                Ok(below) => {
                    if self.is_over(&below, depth + 1) {
                        return true;
                    }
                }
                // It went away, or something else is there now.
                Err(error) if error.kind() == ErrorKind::NotFound || sys::is_other_kind(&error) => {}
                Err(error) if sys::is_permission(&error) && !self.still => {}
                Err(_) => return true,
            }
        }
        false
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    fn holds(place: &Path, most: u64) -> bool {
        holds_more(&[place.to_path_buf()], most, true)
    }

    #[test]
    fn what_lies_on_the_disk_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), vec![1; 200_000]).unwrap();
        assert!(holds(dir.path(), 199_999));
        assert!(!holds(dir.path(), 300_000));
        for name in ["x", "y", "z"] {
            fs::hard_link(deep.join("file"), dir.path().join(name)).unwrap();
        }
        assert!(!holds(dir.path(), 300_000), "one file with four names");
        std::os::unix::fs::symlink("/usr", dir.path().join("usr")).unwrap();
        assert!(!holds(dir.path(), 300_000), "a link is not followed");
        let sparse = fs::File::create(dir.path().join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        assert!(!holds(dir.path(), 300_000), "a hole takes no place");
        assert!(!holds(&dir.path().join("none"), 1));
    }

    #[test]
    fn a_path_longer_than_any_hides_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let name = "n".repeat(200);
        let mut at = Dir::open(dir.path()).unwrap();
        for _ in 0..30 {
            at.make_dir(name.as_str().into(), 0o755).unwrap();
            at = at.open_dir(name.as_str().into()).unwrap();
        }
        std::io::Write::write_all(&mut at.create_file("f".into(), 0o644).unwrap(), &vec![1; 2_000_000])
            .unwrap();
        assert!(holds(dir.path(), 1_500_000));
        assert!(!holds(dir.path(), 4_000_000));
        for _ in 0..=DEEPEST {
            at.make_dir("d".into(), 0o755).unwrap();
            at = at.open_dir("d".into()).unwrap();
        }
        assert!(holds(dir.path(), u64::MAX), "deeper than anybody looks");
        drop(at);
        crate::worktree::remove_all(dir.path()).unwrap();
    }

    #[test]
    fn a_folder_that_was_closed_is_opened_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let closed = dir.path().join("a/closed");
        fs::create_dir_all(&closed).unwrap();
        fs::write(closed.join("file"), vec![1; 200_000]).unwrap();
        for path in [&closed, &dir.path().join("a")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        }
        assert!(holds(dir.path(), 100_000));
    }
}
