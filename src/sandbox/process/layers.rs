//! Single steps of setting up a sandboxed process, between `fork` and `exec`: see `supervisor` for what that allows.

use std::ffi::CStr;
use std::ptr;

use libc::{c_char, c_int, c_uint, c_ulong};

use super::super::root::{Cover, Make, Mount, OverlayPlan, RootPlan, Text};

/// `prctl` is variadic and reads whole registers.
pub(super) const ZERO: c_ulong = 0;
pub(super) const ONE: c_ulong = 1;

/// The devices that bubblewrap takes from the host.
const DEVICES: [&CStr; 6] =
    [c"/dev/null", c"/dev/zero", c"/dev/full", c"/dev/random", c"/dev/urandom", c"/dev/tty"];

/// The error number of the last system call that failed.
pub(super) fn errno() -> c_int {
    // SAFETY: the pointer is the calling thread's errno, always valid.
    unsafe { *libc::__errno_location() }
}

/// Writes to a file that exists.
///
/// # Safety
/// After a fork or not; allocates nothing.
pub(super) unsafe fn write_file(path: &CStr, text: &CStr) -> bool {
    // SAFETY: both strings are NUL-terminated.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return false;
        }
        let len = text.count_bytes();
        let ok = libc::write(fd, text.as_ptr().cast(), len) == len.cast_signed();
        let saved = errno();
        libc::close(fd);
        *libc::__errno_location() = saved;
        ok
    }
}

/// Switches on the loopback interface of a new network namespace.
///
/// # Safety
/// As [`write_file`].
pub(super) unsafe fn loopback_up() -> bool {
    // `IFF_UP`, which libc has as a wider number.
    const UP: libc::c_short = 1;
    // SAFETY: `ifreq` is plain data; the name is NUL-terminated by the zeroes.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return false;
        }
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l'.cast_signed() as c_char;
        request.ifr_name[1] = b'o'.cast_signed() as c_char;
        request.ifr_ifru.ifru_flags = UP;
        let ok = libc::ioctl(socket, libc::SIOCSIFFLAGS as _, &raw const request) == 0;
        libc::close(socket);
        ok
    }
}

/// Opens a socket that listens on loopback in this network namespace, and sends it over the socket `to`. Nothing of it stays here.
///
/// # Safety
/// As [`write_file`].
#[allow(
    clippy::cast_possible_truncation,
    reason = "the sizes of small structures, and a constant, in the types of libc"
)]
pub(super) unsafe fn send_listener(to: c_int, port: u16) -> bool {
    const BACKLOG: c_int = 64;
    // SAFETY: all structures are plain data that live through the calls; the control message has the space that `CMSG_SPACE` asks for
    // (24 bytes for one descriptor) and is aligned as `u64`, which is what `cmsghdr` asks for.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return false;
        }
        let mut address: libc::sockaddr_in = std::mem::zeroed();
        address.sin_family = libc::AF_INET as libc::sa_family_t;
        address.sin_port = port.to_be();
        address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        let size = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        let listens =
            libc::bind(socket, (&raw const address).cast(), size) == 0 && libc::listen(socket, BACKLOG) == 0;
        let mut control = [0_u64; 8];
        let mut byte = 0_u8;
        let mut piece = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as c_uint) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as c_uint) as _;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast::<c_int>(), socket);
        let sent = listens && libc::sendmsg(to, &raw const message, 0) == 1;
        let saved = errno();
        libc::close(socket);
        *libc::__errno_location() = saved;
        sent
    }
}

/// Takes a descriptor that [`send_listener`] sent, without waiting for one.
pub(super) fn receive_descriptor(from: c_int) -> Option<std::os::fd::OwnedFd> {
    // SAFETY: as in `send_listener`. A descriptor that comes in is owned by nobody else; it closes on exec.
    unsafe {
        let mut control = [0_u64; 8];
        let mut byte = 0_u8;
        let mut piece = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
        if libc::recvmsg(from, &raw mut message, flags) != 1 {
            return None;
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null()
            || (*header).cmsg_level != libc::SOL_SOCKET
            || (*header).cmsg_type != libc::SCM_RIGHTS
        {
            return None;
        }
        let fd = ptr::read_unaligned(libc::CMSG_DATA(header).cast::<c_int>());
        Some(std::os::fd::FromRawFd::from_raw_fd(fd))
    }
}

/// Makes the mount of an overlay that is nowhere yet; a negative number if the kernel does not give it.
///
/// # Safety
/// The process has a mount namespace of its own. Changes the current folder.
pub(super) unsafe fn open_overlay(overlay: &OverlayPlan) -> c_int {
    const CLOEXEC: c_uint = 1;
    const SET_FLAG: c_uint = 0;
    const SET_STRING: c_uint = 1;
    const CREATE: c_uint = 6;
    let none = ptr::null::<c_char>();
    // SAFETY: every pointer is null or a NUL-terminated string; the descriptors are opened here.
    unsafe {
        if libc::chdir(overlay.folder.as_ptr()) != 0 {
            return -1;
        }
        let context = libc::syscall(libc::SYS_fsopen, c"overlay".as_ptr(), CLOEXEC);
        if context < 0 {
            return -1;
        }
        let string = |key: &CStr, value: &CStr| {
            libc::syscall(libc::SYS_fsconfig, context, SET_STRING, key.as_ptr(), value.as_ptr(), 0) == 0
        };
        let flag =
            |key: &CStr| libc::syscall(libc::SYS_fsconfig, context, SET_FLAG, key.as_ptr(), none, 0) == 0;
        let marks = || if overlay.user_marks { flag(c"userxattr") } else { string(c"redirect_dir", c"on") };
        // Every changed file lies whole in the upper folder, and no name of a worktree that ends is waited for to be on disk.
        let ready = string(c"source", c"overlay")
            && string(c"lowerdir", &overlay.lower)
            && string(c"upperdir", &overlay.upper)
            && string(c"workdir", &overlay.work)
            && string(c"index", c"off")
            && string(c"metacopy", c"off")
            && marks()
            && flag(c"volatile")
            && libc::syscall(libc::SYS_fsconfig, context, CREATE, none, none, 0) == 0;
        let mount = if ready { libc::syscall(libc::SYS_fsmount, context, CLOEXEC, 0) } else { -1 };
        let saved = errno();
        libc::close(c_int::try_from(context).unwrap_or(-1));
        *libc::__errno_location() = saved;
        c_int::try_from(mount).unwrap_or(-1)
    }
}

/// Builds the new root and moves into it. `overlay` is the mount of [`open_overlay`], if the plan has one.
///
/// # Safety
/// The process has a mount namespace of its own; `trees` has one slot for each bind of the plan.
pub(super) unsafe fn enter_root(root: &RootPlan, overlay: c_int, trees: &mut [c_int]) -> bool {
    let none = ptr::null::<c_char>();
    // SAFETY: every pointer is null or a NUL-terminated string of the plan; `trees` has one slot per bind.
    unsafe {
        let at = |text: Text| root.texts.pointer(text);
        let mount = |kind: &CStr, target: Text, flags: c_ulong, data: &CStr| {
            libc::mount(kind.as_ptr(), at(target), kind.as_ptr(), flags, data.as_ptr().cast()) == 0
        };
        let quiet = libc::MS_NOSUID | libc::MS_NODEV;
        if libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, ptr::null()) != 0 {
            return false;
        }
        // All sources are taken hold of before the new root covers any of them.
        for (bind, tree) in root.binds().zip(trees.iter_mut()) {
            let flags = c_uint::from(libc::OPEN_TREE_CLONE)
                | libc::O_CLOEXEC.cast_unsigned()
                | libc::AT_RECURSIVE as c_uint;
            let fd = if bind.overlay {
                libc::c_long::from(overlay)
            } else {
                libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, at(bind.source), flags)
            };
            // What may be read and has gone since it was looked at is not there to be read.
            if fd < 0 && !bind.writable && errno() == libc::ENOENT {
                *tree = -1;
                continue;
            }
            if fd < 0 {
                return false;
            }
            *tree = c_int::try_from(fd).unwrap_or(-1);
            let mut attr: libc::mount_attr = std::mem::zeroed();
            attr.attr_set = libc::MOUNT_ATTR_NOSUID;
            if !bind.device {
                attr.attr_set |= libc::MOUNT_ATTR_NODEV;
            }
            if !bind.writable {
                attr.attr_set |= libc::MOUNT_ATTR_RDONLY;
            }
            let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
            let size = size_of::<libc::mount_attr>();
            if libc::syscall(libc::SYS_mount_setattr, fd, c"".as_ptr(), flags, &raw const attr, size) != 0 {
                return false;
            }
        }
        if !mount(c"tmpfs", root.base, quiet, &root.memory) {
            return false;
        }
        let make = |make: &Make| {
            let rc = match *make {
                Make::Dir(path) => libc::mkdir(at(path), 0o755),
                Make::Shared(path) => libc::mkdir(at(path), 0o1777),
                Make::File(path) => libc::mknod(at(path), libc::S_IFREG | 0o644, 0),
                Make::Link { target, path } => libc::symlink(at(target), at(path)),
            };
            rc == 0 || errno() == libc::EEXIST
        };
        let nothing = |path: Text| {
            let null = c"/dev/null".as_ptr();
            let flags = libc::MS_REMOUNT | libc::MS_BIND | quiet | libc::MS_NOEXEC | libc::MS_RDONLY;
            libc::mount(null, at(path), none, libc::MS_BIND, ptr::null()) == 0
                && libc::mount(none, at(path), none, flags, ptr::null()) == 0
        };
        if !root.makes.iter().all(make) {
            return false;
        }
        let mut next = 0;
        for step in &root.mounts {
            let done = match step {
                Mount::Bind(bind) => {
                    let tree = trees.get(next).copied().unwrap_or(-1);
                    next += 1;
                    if tree < 0 {
                        continue;
                    }
                    let (from, here) = (c"".as_ptr(), libc::AT_FDCWD);
                    let flags = libc::MOVE_MOUNT_F_EMPTY_PATH;
                    let rc = libc::syscall(libc::SYS_move_mount, tree, from, here, at(bind.target), flags);
                    libc::close(tree);
                    rc == 0
                }
                Mount::Make(wanted) => make(wanted),
                // What has gone since is hidden.
                Mount::Hide(path) => {
                    mount(c"tmpfs", *path, quiet, c"mode=0755,size=64k") || errno() == libc::ENOENT
                }
                Mount::HideFile(path) => nothing(*path) || errno() == libc::ENOENT,
            };
            if !done {
                return false;
            }
        }
        for step in &root.mounts {
            if let Mount::Hide(path) = step {
                let flags = libc::MS_REMOUNT | libc::MS_BIND | quiet | libc::MS_RDONLY;
                if libc::mount(none, at(*path), none, flags, ptr::null()) != 0 && errno() != libc::ENOENT {
                    return false;
                }
            }
        }
        if !mount(c"proc", root.proc, quiet | libc::MS_NOEXEC | libc::MS_RDONLY, c"") {
            return false;
        }
        // Terminals of its own. A kernel without them is no less safe.
        mount(c"devpts", root.pts, libc::MS_NOSUID | libc::MS_NOEXEC, c"newinstance,ptmxmode=0666,mode=0620");
        for cover in &root.covers {
            let covered = match *cover {
                Cover::Dir(path) => mount(c"tmpfs", path, quiet | libc::MS_RDONLY, c"mode=0,size=4k"),
                Cover::File(path) => nothing(path),
            };
            // A secret that has been removed since is not there to be read.
            if !covered && errno() != libc::ENOENT {
                return false;
            }
        }
        libc::chdir(at(root.base)) == 0
            && libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) == 0
            && libc::umount2(c".".as_ptr(), libc::MNT_DETACH) == 0
            && libc::chdir(c"/".as_ptr()) == 0
    }
}

/// Puts a process table of this PID namespace in the place of the one that is there, which shows another's.
///
/// # Safety
/// The process has a mount and a PID namespace of its own.
pub(super) unsafe fn own_processes() -> bool {
    let (none, proc) = (ptr::null::<c_char>(), c"/proc".as_ptr());
    let quiet = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: every pointer is null or a NUL-terminated constant.
    unsafe {
        libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, ptr::null()) == 0
            && libc::mount(proc.add(1), proc, proc.add(1), quiet, ptr::null()) == 0
    }
}

/// Mounts the host's devices on themselves, read-only: bubblewrap mounts them on in the way it finds them. A device that is
/// read-only can be written to; its mode, owner and times cannot be changed.
///
/// # Safety
/// The process has a mount namespace of its own, from which nothing reaches another.
pub(super) unsafe fn fix_devices() -> bool {
    let none = ptr::null::<c_char>();
    let fixed = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NOEXEC;
    DEVICES.iter().all(|device| {
        let at = device.as_ptr();
        // SAFETY: every pointer is null or a NUL-terminated constant.
        unsafe {
            (libc::mount(at, at, none, libc::MS_BIND, ptr::null()) == 0
                && libc::mount(none, at, none, fixed, ptr::null()) == 0)
                || errno() == libc::ENOENT
        }
    })
}

/// Empties the bounding set of capabilities and keeps them over one exec: of bubblewrap, who needs them and gives them up. Where
/// this is not permitted, `no_new_privs` alone sees to it that none comes back.
///
/// # Safety
/// As [`write_file`]; it changes the calling thread.
pub(super) unsafe fn keep_capabilities_once() {
    let header = Header { version: VERSION_3, pid: 0 };
    let mut data = [Data { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: the structures have the kernel's layout for version 3 and live through the calls.
    unsafe {
        if libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) != 0 {
            return;
        }
        for part in &mut data {
            part.inheritable = part.permitted;
        }
        if libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) != 0 {
            return;
        }
        for capability in 0..64 as c_ulong {
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, ZERO, ZERO, ZERO) != 0 {
                break;
            }
        }
    }
}

/// The kernel's header and data of capabilities, version 3.
#[repr(C)]
struct Header {
    version: u32,
    pid: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

/// Gives up every capability, and every way to get one again. Succeeds only if none is left.
///
/// # Safety
/// As [`write_file`]; it changes the calling thread.
pub(super) unsafe fn drop_capabilities() -> bool {
    // NOROOT, NO_SETUID_FIXUP, KEEP_CAPS off, NO_CAP_AMBIENT_RAISE; the first, second and last with their locks, and KEEP_CAPS locked.
    const SECUREBITS: c_ulong = 0b1110_1111;
    let header = Header { version: VERSION_3, pid: 0 };
    let mut data = [Data { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: the structures have the kernel's layout for version 3 and live through the calls.
    unsafe {
        // Without CAP_SETPCAP these two fail, and no_new_privs alone sees to it that nothing is regained.
        for capability in 0..64 as c_ulong {
            if libc::prctl(libc::PR_CAPBSET_DROP, capability, ZERO, ZERO, ZERO) != 0 {
                break;
            }
        }
        libc::prctl(libc::PR_SET_SECUREBITS, SECUREBITS, ZERO, ZERO, ZERO);
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as c_ulong, ZERO, ZERO, ZERO);
        if libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) != 0 {
            return false;
        }
        let full = Data { effective: !0, permitted: !0, inheritable: !0 };
        data = [full; 2];
        if libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) != 0 {
            return false;
        }
    }
    data.iter().all(|part| part.effective | part.permitted | part.inheritable == 0)
}
