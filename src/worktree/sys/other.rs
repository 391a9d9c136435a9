//! Where there is no `openat`: every function says so.

use std::fs::File;
use std::io;
use std::path::Path;

use gix::bstr::BStr;

use super::{DirEntry, Stat, Time};

/// A directory that cannot be opened here.
#[derive(Debug)]
#[allow(dead_code)] // It is there so that no value can be made.
pub(in crate::worktree) struct Dir(std::convert::Infallible);

fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "worktrees need a Unix system for now"))
}

#[allow(clippy::unused_self)] // The same interface as on Unix.
impl Dir {
    pub fn open(_: &Path) -> io::Result<Self> {
        unsupported()
    }
    pub fn open_dir(&self, _: &BStr) -> io::Result<Self> {
        unsupported()
    }
    pub fn open_path(&self, _: &BStr) -> io::Result<Self> {
        unsupported()
    }
    pub fn create_file(&self, _: &BStr, _: u32) -> io::Result<File> {
        unsupported()
    }
    pub fn open_file(&self, _: &BStr) -> io::Result<File> {
        unsupported()
    }
    pub fn make_dir(&self, _: &BStr, _: u32) -> io::Result<()> {
        unsupported()
    }
    pub fn make_link(&self, _: &[u8], _: &BStr) -> io::Result<()> {
        unsupported()
    }
    pub fn hard_link(&self, _: &BStr, _: &Self, _: &BStr) -> io::Result<()> {
        unsupported()
    }
    pub fn read_link(&self, _: &BStr) -> io::Result<Vec<u8>> {
        unsupported()
    }
    pub fn occupies(&self, _: &BStr) -> io::Result<(Stat, u64)> {
        unsupported()
    }

    pub fn stat(&self, _: &BStr) -> io::Result<Stat> {
        unsupported()
    }
    pub fn is_whiteout(&self, _: &BStr) -> io::Result<bool> {
        unsupported()
    }
    pub fn make_whiteout(&self, _: &BStr) -> io::Result<()> {
        unsupported()
    }
    pub fn attribute(&self, _: &std::ffi::CStr) -> io::Result<Option<Vec<u8>>> {
        unsupported()
    }
    pub fn unlink(&self, _: &BStr) -> io::Result<()> {
        unsupported()
    }
    pub fn remove_dir(&self, _: &BStr) -> io::Result<()> {
        unsupported()
    }
    pub fn rename(&self, _: &BStr, _: &Self, _: &BStr) -> io::Result<()> {
        unsupported()
    }
    pub fn set_mode(&self, _: u32) -> io::Result<()> {
        unsupported()
    }
    pub fn set_mode_of(&self, _: &BStr, _: u32) -> io::Result<()> {
        unsupported()
    }
    pub fn set_mtime(&self, _: &BStr, _: Time) -> io::Result<()> {
        unsupported()
    }
    pub fn entries(&self) -> io::Result<Vec<DirEntry>> {
        unsupported()
    }
    pub fn content_moves_ctime(&self) -> bool {
        false
    }
}

pub(in crate::worktree) fn fstat(_: &File) -> io::Result<Stat> {
    unsupported()
}

pub(in crate::worktree) fn set_file_mode(_: &File, _: u32) -> io::Result<()> {
    unsupported()
}

pub(in crate::worktree) fn set_file_mtime(_: &File, _: Time) -> io::Result<()> {
    unsupported()
}

pub(in crate::worktree) fn try_lock(_: &File) -> io::Result<bool> {
    unsupported()
}

pub(in crate::worktree) fn wait_for_lock(_: &File, _: bool) -> io::Result<()> {
    unsupported()
}

pub(in crate::worktree) fn clone_blocks(_: &File, _: &File) -> bool {
    false
}

/// Unknown counts as alive: nothing is reclaimed on a guess.
pub(in crate::worktree) fn process_exists(_: u32) -> bool {
    true
}

pub(in crate::worktree) fn free_bytes(_: &Path) -> io::Result<u64> {
    unsupported()
}

pub(in crate::worktree) fn host_name() -> String {
    String::new()
}

pub(in crate::worktree) fn is_permission(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

pub(in crate::worktree) fn is_other_kind(_: &io::Error) -> bool {
    false
}

pub(in crate::worktree) fn lstat(_: &Path) -> io::Result<Stat> {
    unsupported()
}
