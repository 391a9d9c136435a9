//! Opening what belongs to this user, whatever permissions a worker has left on it.

use std::io;
use std::path::Path;

use gix::bstr::BStr;

use super::sys::{Dir, FileKind};

const OWNER: u32 = 0o700;

/// Opens a folder below `parent` and makes sure that its entries can be listed, read and removed. A link is an error.
pub(super) fn open_dir(parent: &Dir, name: &BStr) -> io::Result<Dir> {
    let stat = parent.stat(name)?;
    if stat.mode & OWNER != OWNER && stat.kind() == FileKind::Dir {
        parent.set_mode_of(name, OWNER)?;
    }
    parent.open_dir(name)
}

/// Opens the folder at `path` the same way; only the folder that it lies in is trusted.
pub(super) fn open_place(path: &Path) -> io::Result<Dir> {
    let (parent, name) = split(path)?;
    open_dir(&Dir::open(parent)?, name)
}

/// The folder that `path` lies in, and its last component.
pub(super) fn split(path: &Path) -> io::Result<(&Path, &BStr)> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "the path has no last component");
    let (parent, name) = path.parent().zip(path.file_name()).ok_or_else(invalid)?;
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    Ok((parent, gix::path::os_str_into_bstr(name).map_err(|_| invalid())?))
}
