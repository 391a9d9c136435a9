//! [`Dir`] and friends over `libc`.

// The integer types of `libc` differ between platforms; every cast here widens or reinterprets a kernel's value.
#![allow(
    clippy::cast_lossless,
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::unnecessary_cast
)]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gix::bstr::{BStr, BString, ByteSlice};
use libc::{c_char, c_int, mode_t};

use super::{DirEntry, FileKind, Stat, Time};

/// An open directory. All names are single components or relative paths without symbolic links on the way.
#[derive(Debug)]
pub(in crate::worktree) struct Dir(OwnedFd);

/// Hands `name` to `f` as a C string, without an allocation for names of ordinary length.
fn with_c<T>(name: &[u8], f: impl FnOnce(*const c_char) -> io::Result<T>) -> io::Result<T> {
    const STACK: usize = 384;
    if name.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a NUL byte in a path"));
    }
    if name.len() < STACK {
        let mut buf = [0u8; STACK];
        buf[..name.len()].copy_from_slice(name);
        return f(buf.as_ptr().cast());
    }
    f(CString::new(name)?.as_ptr())
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn open_fd(dir: c_int, name: &[u8], flags: c_int, mode: mode_t) -> io::Result<OwnedFd> {
    with_c(name, |name| {
        loop {
            // SAFETY: `name` is NUL-terminated and outlives the call; the new descriptor is owned by nobody else.
            let fd = unsafe { libc::openat(dir, name, flags | libc::O_CLOEXEC, mode as libc::c_uint) };
            match check(fd) {
                Ok(fd) => return Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    })
}

fn convert(raw: &libc::stat) -> Stat {
    Stat {
        dev: raw.st_dev as u64,
        ino: raw.st_ino as u64,
        mode: raw.st_mode as u32,
        nlink: raw.st_nlink as u64,
        uid: raw.st_uid as u32,
        gid: raw.st_gid as u32,
        size: raw.st_size as u64,
        mtime: Time { secs: raw.st_mtime as i64, nanos: raw.st_mtime_nsec as u32 },
        ctime: Time { secs: raw.st_ctime as i64, nanos: raw.st_ctime_nsec as u32 },
    }
}

fn timespecs(mtime: Time) -> [libc::timespec; 2] {
    // SAFETY: an all-zero `timespec` is valid; it may have padding that cannot be named.
    let mut times: [libc::timespec; 2] = unsafe { std::mem::zeroed() };
    times[0].tv_nsec = libc::UTIME_OMIT as _;
    times[1].tv_sec = mtime.secs as _;
    times[1].tv_nsec = mtime.nanos as _;
    times
}

impl Dir {
    /// Opens a path that is trusted: links in it are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        open_fd(libc::AT_FDCWD, path.as_os_str().as_bytes(), libc::O_RDONLY | libc::O_DIRECTORY, 0).map(Self)
    }

    /// Opens a directory below this one; a symbolic link is an error. The empty name is this directory itself.
    pub fn open_dir(&self, name: &BStr) -> io::Result<Self> {
        let name: &[u8] = if name.is_empty() { b"." } else { name };
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        open_fd(self.0.as_raw_fd(), name, flags, 0).map(Self)
    }

    /// Opens the directory at the relative `path`, one component after the other, following no link at all.
    pub fn open_path(&self, path: &BStr) -> io::Result<Self> {
        let mut dir = None::<Self>;
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            dir = Some(dir.as_ref().unwrap_or(self).open_dir(name.as_bstr())?);
        }
        match dir {
            Some(dir) => Ok(dir),
            None => self.open_dir(b".".as_bstr()),
        }
    }

    /// Makes and opens a new file for writing; it must not exist.
    pub fn create_file(&self, name: &BStr, mode: u32) -> io::Result<File> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        open_fd(self.0.as_raw_fd(), name, flags, mode as mode_t).map(File::from)
    }

    /// Opens a file for reading. A link is an error, a FIFO does not block.
    pub fn open_file(&self, name: &BStr) -> io::Result<File> {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        open_fd(self.0.as_raw_fd(), name, flags, 0).map(File::from)
    }

    /// Makes a directory; it must not exist.
    pub fn make_dir(&self, name: &BStr, mode: u32) -> io::Result<()> {
        // SAFETY: the name is NUL-terminated.
        with_c(name, |name| check(unsafe { libc::mkdirat(self.0.as_raw_fd(), name, mode as mode_t) }))
            .map(drop)
    }

    /// Makes a symbolic link at `name`; it must not exist.
    pub fn make_link(&self, target: &[u8], name: &BStr) -> io::Result<()> {
        with_c(target, |target| {
            // SAFETY: both names are NUL-terminated.
            with_c(name, |name| check(unsafe { libc::symlinkat(target, self.0.as_raw_fd(), name) }))
        })
        .map(drop)
    }

    /// Makes a hard link to `from` of this directory at `to` of another.
    pub fn hard_link(&self, from: &BStr, to_dir: &Self, to: &BStr) -> io::Result<()> {
        with_c(from, |from| {
            // SAFETY: both names are NUL-terminated.
            with_c(to, |to| {
                check(unsafe { libc::linkat(self.0.as_raw_fd(), from, to_dir.0.as_raw_fd(), to, 0) })
            })
        })
        .map(drop)
    }

    /// The target of a symbolic link.
    pub fn read_link(&self, name: &BStr) -> io::Result<Vec<u8>> {
        with_c(name, |name| {
            let mut size = 256;
            loop {
                let mut target = vec![0u8; size];
                // SAFETY: the buffer has `size` bytes and the name is NUL-terminated.
                let got =
                    unsafe { libc::readlinkat(self.0.as_raw_fd(), name, target.as_mut_ptr().cast(), size) };
                if got < 0 {
                    return Err(io::Error::last_os_error());
                }
                let got = got as usize;
                // A full buffer may mean that the target was cut.
                if got < size {
                    target.truncate(got);
                    return Ok(target);
                }
                size *= 4;
            }
        })
    }

    /// `lstat` of a name.
    pub fn stat(&self, name: &BStr) -> io::Result<Stat> {
        Self::stat_at(self.0.as_raw_fd(), name)
    }

    fn stat_at(dir: c_int, name: &[u8]) -> io::Result<Stat> {
        // SAFETY: all zeroes is a valid `stat` buffer, which the call fills.
        let mut raw: libc::stat = unsafe { std::mem::zeroed() };
        with_c(name, |name| {
            let flags = libc::AT_SYMLINK_NOFOLLOW;
            // SAFETY: the name is NUL-terminated and the buffer is ours.
            check(unsafe { libc::fstatat(dir, name, &raw mut raw, flags) })
        })?;
        Ok(convert(&raw))
    }

    /// `lstat` of a name, and how many bytes it takes on its disk.
    pub fn occupies(&self, name: &BStr) -> io::Result<(Stat, u64)> {
        // SAFETY: all zeroes is a valid `stat` buffer, which the call fills.
        let mut raw: libc::stat = unsafe { std::mem::zeroed() };
        with_c(name, |name| {
            // SAFETY: the name is NUL-terminated and the buffer is ours.
            check(unsafe { libc::fstatat(self.0.as_raw_fd(), name, &raw mut raw, libc::AT_SYMLINK_NOFOLLOW) })
        })?;
        // POSIX leaves the unit open; Linux, macOS and the BSDs count in 512 bytes whatever the disk does.
        Ok((convert(&raw), (raw.st_blocks as u64).saturating_mul(512)))
    }

    /// Whether a name is what overlayfs leaves in an upper folder for something that was removed: a character device
    /// 0:0 (Documentation/filesystems/overlayfs.rst, "whiteouts and opaque directories").
    pub fn is_whiteout(&self, name: &BStr) -> io::Result<bool> {
        // SAFETY: all zeroes is a valid `stat` buffer, which the call fills.
        let mut raw: libc::stat = unsafe { std::mem::zeroed() };
        with_c(name, |name| {
            // SAFETY: the name is NUL-terminated and the buffer is ours.
            check(unsafe { libc::fstatat(self.0.as_raw_fd(), name, &raw mut raw, libc::AT_SYMLINK_NOFOLLOW) })
        })?;
        Ok(raw.st_mode as u32 & 0o170_000 == 0o020_000 && raw.st_rdev == 0)
    }

    /// Makes a whiteout; the name must not exist. Linux lets everybody make this one device.
    pub fn make_whiteout(&self, name: &BStr) -> io::Result<()> {
        // SAFETY: the name is NUL-terminated.
        with_c(name, |name| check(unsafe { libc::mknodat(self.0.as_raw_fd(), name, libc::S_IFCHR, 0) }))
            .map(drop)
    }

    /// An extended attribute of this directory; `None` if it has none of this name.
    pub fn attribute(&self, name: &CStr) -> io::Result<Option<Vec<u8>>> {
        #[cfg(target_os = "linux")]
        {
            // As long as a path may be, which is the longest value that is ever asked for.
            let mut value = vec![0u8; 4096];
            // SAFETY: the name is NUL-terminated and the buffer has the length that is told.
            let got = unsafe {
                libc::fgetxattr(self.0.as_raw_fd(), name.as_ptr(), value.as_mut_ptr().cast(), value.len())
            };
            if got >= 0 {
                value.truncate(got as usize);
                return Ok(Some(value));
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::ENODATA | libc::EOPNOTSUPP) => Ok(None),
                _ => Err(error),
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = name;
            Ok(None)
        }
    }

    /// Removes a name that is not a directory; a link itself is removed, not what it points at.
    pub fn unlink(&self, name: &BStr) -> io::Result<()> {
        // SAFETY: the name is NUL-terminated.
        with_c(name, |name| check(unsafe { libc::unlinkat(self.0.as_raw_fd(), name, 0) })).map(drop)
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, name: &BStr) -> io::Result<()> {
        // SAFETY: the name is NUL-terminated.
        with_c(name, |name| check(unsafe { libc::unlinkat(self.0.as_raw_fd(), name, libc::AT_REMOVEDIR) }))
            .map(drop)
    }

    /// Moves `from` of this directory to `to` of another.
    pub fn rename(&self, from: &BStr, to_dir: &Self, to: &BStr) -> io::Result<()> {
        with_c(from, |from| {
            // SAFETY: both names are NUL-terminated.
            with_c(to, |to| {
                check(unsafe { libc::renameat(self.0.as_raw_fd(), from, to_dir.0.as_raw_fd(), to) })
            })
        })
        .map(drop)
    }

    /// Sets the permission bits of this directory.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        // SAFETY: the descriptor is open.
        check(unsafe { libc::fchmod(self.0.as_raw_fd(), mode as mode_t) }).map(drop)
    }

    /// Sets the permission bits of a file or directory in this one, never those of what a link points at. Works where
    /// the thing itself cannot be opened for reading.
    pub fn set_mode_of(&self, name: &BStr, mode: u32) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            // `fchmodat` with AT_SYMLINK_NOFOLLOW needs Linux 6.6; an O_PATH descriptor pins the inode everywhere.
            let pinned = open_fd(self.0.as_raw_fd(), name, libc::O_PATH | libc::O_NOFOLLOW, 0)?;
            let path = format!("/proc/self/fd/{}", pinned.as_raw_fd());
            let is_link = fstat(&pinned)?.kind() == FileKind::Link;
            if is_link {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "a symbolic link has no mode"));
            }
            // SAFETY: the path is NUL-terminated.
            with_c(path.as_bytes(), |path| check(unsafe { libc::chmod(path, mode as mode_t) })).map(drop)
        }
        #[cfg(not(target_os = "linux"))]
        {
            with_c(name, |name| {
                let flags = libc::AT_SYMLINK_NOFOLLOW;
                // SAFETY: the name is NUL-terminated.
                check(unsafe { libc::fchmodat(self.0.as_raw_fd(), name, mode as mode_t, flags) })
            })
            .map(drop)
        }
    }

    /// Sets the modification time of a name, of a link itself if it is one.
    pub fn set_mtime(&self, name: &BStr, mtime: Time) -> io::Result<()> {
        let times = timespecs(mtime);
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        with_c(name, |name| {
            // SAFETY: the name is NUL-terminated and `times` has two elements.
            check(unsafe { libc::utimensat(self.0.as_raw_fd(), name, times.as_ptr(), flags) })
        })
        .map(drop)
    }

    /// All names but `.` and `..`, in no order.
    pub fn entries(&self) -> io::Result<Vec<DirEntry>> {
        struct Stream(*mut libc::DIR);
        impl Drop for Stream {
            fn drop(&mut self) {
                // SAFETY: the stream came from `fdopendir` and is closed once.
                unsafe { libc::closedir(self.0) };
            }
        }

        // A stream owns its descriptor and moves its offset, so it gets one of its own.
        let own = open_fd(self.0.as_raw_fd(), b".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        // SAFETY: the descriptor is open; on success the stream owns it.
        let stream = unsafe { libc::fdopendir(own.as_raw_fd()) };
        if stream.is_null() {
            return Err(io::Error::last_os_error());
        }
        std::mem::forget(own);
        let stream = Stream(stream);
        let mut entries = Vec::new();
        loop {
            clear_errno();
            // SAFETY: the stream is open and used by this thread only.
            let entry = unsafe { libc::readdir(stream.0) };
            if entry.is_null() {
                let error = io::Error::last_os_error();
                return if matches!(error.raw_os_error(), None | Some(0)) { Ok(entries) } else { Err(error) };
            }
            // SAFETY: `readdir` returned an entry that is valid until the next call; its name is NUL-terminated.
            let (name, kind) = unsafe { (CStr::from_ptr((*entry).d_name.as_ptr()), (*entry).d_type) };
            let name = name.to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match kind {
                libc::DT_REG => Some(FileKind::File),
                libc::DT_DIR => Some(FileKind::Dir),
                libc::DT_LNK => Some(FileKind::Link),
                libc::DT_FIFO => Some(FileKind::Fifo),
                libc::DT_SOCK => Some(FileKind::Socket),
                libc::DT_CHR | libc::DT_BLK => Some(FileKind::Device),
                _ => None,
            };
            entries.push(DirEntry { name: BString::from(name), kind });
        }
    }

    /// Whether every change of a file's content moves its `ctime` on this file system, also one made through a shared
    /// memory mapping. tmpfs does not: it maps a page writable on the first *read*, and a later store is never seen.
    /// Only file systems known to do it are believed.
    pub fn content_moves_ctime(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            // SAFETY: all zeroes is a valid buffer, which the call fills.
            let mut raw: libc::statfs = unsafe { std::mem::zeroed() };
            // SAFETY: the descriptor is open and the buffer ours.
            if unsafe { libc::fstatfs(self.0.as_raw_fd(), &raw mut raw) } != 0 {
                return false;
            }
            // ext2 to ext4, XFS, Btrfs, F2FS.
            matches!(raw.f_type as u32, 0xef53 | 0x5846_5342 | 0x9123_683e | 0xf2f5_2010)
        }
        #[cfg(not(target_os = "linux"))]
        {
            false
        }
    }
}

/// `fstat`.
pub(in crate::worktree) fn fstat(file: &impl AsRawFd) -> io::Result<Stat> {
    // SAFETY: all zeroes is a valid buffer, which the call fills.
    let mut raw: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and the buffer ours.
    check(unsafe { libc::fstat(file.as_raw_fd(), &raw mut raw) })?;
    Ok(convert(&raw))
}

/// Sets the permission bits of an open file.
pub(in crate::worktree) fn set_file_mode(file: &File, mode: u32) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    check(unsafe { libc::fchmod(file.as_raw_fd(), mode as mode_t) }).map(drop)
}

/// Sets the modification time of an open file.
pub(in crate::worktree) fn set_file_mtime(file: &File, mtime: Time) -> io::Result<()> {
    let times = timespecs(mtime);
    // SAFETY: the descriptor is open and `times` has two elements.
    check(unsafe { libc::futimens(file.as_raw_fd(), times.as_ptr()) }).map(drop)
}

/// Takes an exclusive lock that ends with the last descriptor of this open file, that is with the process at the
/// latest. `false`: somebody else holds it.
pub(in crate::worktree) fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: the descriptor is open.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Takes an exclusive or a shared lock, and waits for it. A lock that this open file has already is exchanged for the
/// new one, and for a moment there is none.
pub(in crate::worktree) fn wait_for_lock(file: &File, shared: bool) -> io::Result<()> {
    let kind = if shared { libc::LOCK_SH } else { libc::LOCK_EX };
    loop {
        // SAFETY: the descriptor is open.
        match check(unsafe { libc::flock(file.as_raw_fd(), kind) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(drop),
        }
    }
}

/// Shares the blocks of `from` with the empty file `to`. `false`: this pair of files cannot.
pub(in crate::worktree) fn clone_blocks(from: &File, to: &File) -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: both descriptors are open; the call takes the source's as its argument.
        unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE as _, from.as_raw_fd()) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (from, to);
        false
    }
}

/// The user that owns what this process makes.
pub(in crate::worktree) fn effective_uid() -> u32 {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether a process with this id exists, also one of another user.
pub(in crate::worktree) fn process_exists(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return false };
    // SAFETY: signal 0 only asks.
    pid > 0
        && (unsafe { libc::kill(pid, 0) } == 0
            || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM))
}

/// How many bytes somebody without privileges can still write to the file system of `path`.
pub(in crate::worktree) fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `statvfs` is plain data, and the string ends in a zero.
    let stat = unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        if libc::statvfs(path.as_ptr(), &raw mut stat) != 0 {
            return Err(io::Error::last_os_error());
        }
        stat
    };
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "other systems have other widths")]
    let (blocks, size) = (stat.f_bavail as u64, stat.f_frsize as u64);
    Ok(blocks.saturating_mul(size))
}

/// The name of this machine.
pub(in crate::worktree) fn host_name() -> String {
    let mut buf = [0u8; 256];
    // SAFETY: the buffer is ours, and one byte of it stays zero.
    if unsafe { libc::gethostname(buf.as_mut_ptr().cast(), buf.len() - 1) } != 0 {
        return String::new();
    }
    let end = buf.iter().position(|byte| *byte == 0).unwrap_or(buf.len());
    String::from_utf8_lossy(&buf[..end]).into_owned()
}

/// Whether an error is one that another mode of the file or its folder would mend.
pub(in crate::worktree) fn is_permission(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// Whether an open failed because the last component is a link, or not a directory.
pub(in crate::worktree) fn is_other_kind(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENOTDIR | libc::EMLINK | libc::ENXIO))
}

#[cfg(any(target_os = "linux", target_os = "emscripten", target_os = "hurd", target_os = "redox"))]
fn clear_errno() {
    // SAFETY: the location is this thread's own.
    unsafe { *libc::__errno_location() = 0 };
}

#[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
fn clear_errno() {
    // SAFETY: the location is this thread's own.
    unsafe { *libc::__error() = 0 };
}

#[cfg(any(target_os = "openbsd", target_os = "netbsd", target_os = "android"))]
fn clear_errno() {
    // SAFETY: the location is this thread's own.
    unsafe { *libc::__errno() = 0 };
}

/// `lstat` of a path that is trusted up to its last component.
pub(in crate::worktree) fn lstat(path: &Path) -> io::Result<Stat> {
    Dir::stat_at(libc::AT_FDCWD, path.as_os_str().as_bytes())
}
