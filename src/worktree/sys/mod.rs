//! The few system calls that safe file handling needs and the standard library does not offer: everything relative to
//! an open directory, never following a symbolic link in the last component.
//!
//! Other platforms than Unix get the same interface, of which every function answers `Unsupported`.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub(super) use unix::*;

#[cfg(not(unix))]
mod other;
#[cfg(not(unix))]
pub(super) use other::*;

use gix::bstr::BString;

/// A point in time as a file system tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds since 1970, UTC.
    pub secs: i64,
    /// Nanoseconds on top of that.
    pub nanos: u32,
}

/// What `lstat` says about a path, as far as it can show that a file was touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// File type and permission bits.
    pub mode: u32,
    /// Number of hard links.
    pub nlink: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// When the content changed, or whatever the last `utimes` claimed.
    pub mtime: Time,
    /// When content or metadata changed; no program can set it without setting the clock.
    pub ctime: Time,
}

/// The type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    File,
    Dir,
    Link,
    Fifo,
    Socket,
    Device,
}

impl Stat {
    /// The file type in [`Stat::mode`].
    pub(super) fn kind(&self) -> FileKind {
        match self.mode & 0o170_000 {
            0o100_000 => FileKind::File,
            0o040_000 => FileKind::Dir,
            0o120_000 => FileKind::Link,
            0o010_000 => FileKind::Fifo,
            0o140_000 => FileKind::Socket,
            _ => FileKind::Device,
        }
    }

    /// The bit that git calls executable: the owner's.
    pub(super) fn is_executable(&self) -> bool {
        self.mode & 0o100 != 0
    }
}

/// One name in a directory.
#[derive(Debug, Clone)]
pub(super) struct DirEntry {
    pub name: BString,
    /// `None` where the file system does not say; ask [`Dir::stat`].
    pub kind: Option<FileKind>,
}
