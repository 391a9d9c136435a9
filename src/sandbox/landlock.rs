//! The Landlock ruleset: built in this process, before the fork; the child only restricts itself with it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ::landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, Scope,
};

use super::root::{DEVICES, Grants};

/// Needed where the command has a root of its own. Before ABI 2 (Linux 5.19) nothing can be renamed or linked from one folder to
/// another, which breaks cargo.
pub(super) const MIN_ABI: u32 = 2;
/// Needed where it has not: before ABI 3 (Linux 6.2) any file of the user can be truncated.
pub(super) const MIN_ABI_ALONE: u32 = 3;
/// From here on abstract unix sockets and signals outside of the sandbox are refused.
pub(super) const ABI_SCOPES: u32 = 6;
/// From here on socket files outside of the granted folders are refused.
pub(super) const ABI_SOCKET_FILES: u32 = 9;

/// The ABI of the running kernel that we also know; 0 if there is none.
pub(super) fn abi() -> u32 {
    static FOUND: OnceLock<u32> = OnceLock::new();
    *FOUND.get_or_init(|| {
        const VERSION: libc::c_long = 1;
        // SAFETY: with a null attribute of size 0 and this flag the call only returns a number.
        let version = unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION)
        };
        // `From` clamps to what the crate knows; the number goes into the receipt.
        ABI::from(i32::try_from(version).unwrap_or(0)) as u32
    })
}

/// Whether this kernel can do it at all.
pub(super) fn available() -> Result<(), String> {
    super::seccomp::architecture()?;
    match abi() {
        0 => Err("this kernel has no Landlock, or it is not enabled (boot parameter `lsm=`)".into()),
        abi if abi < MIN_ABI => {
            Err(format!("this kernel has Landlock ABI {abi}, at least {MIN_ABI} (Linux 5.19) is needed"))
        }
        _ => Ok(()),
    }
}

fn known(abi: u32) -> ABI {
    ABI::from(abi.cast_signed())
}

/// Everything but making device nodes.
fn write_access(abi: u32) -> BitFlags<AccessFs> {
    AccessFs::from_all(known(abi)) & !(AccessFs::MakeChar | AccessFs::MakeBlock)
}

fn device_access(abi: u32) -> BitFlags<AccessFs> {
    (AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev)
        & AccessFs::from_all(known(abi))
}

/// Rights on what exists only on the new root, for [`add_rule`]: path, access bits.
pub(super) fn late_rules(abi: u32) -> [(&'static std::ffi::CStr, u64); 5] {
    let read = AccessFs::from_read(known(abi)).bits();
    let write = write_access(abi).bits();
    [
        // The names on the new root; each of them was granted or leads to something that was.
        (c"/", AccessFs::ReadDir as u64),
        (c"/proc", read),
        (c"/tmp", write),
        (c"/dev/shm", write),
        (c"/dev/pts", device_access(abi).bits() | AccessFs::ReadDir as u64),
    ]
}

/// The rights on a writable folder that is mounted only after the fork, for [`add_rule`]. A rule for a layer of an overlay does
/// not hold for what the overlay shows.
pub(super) fn late_write(abi: u32) -> u64 {
    write_access(abi).bits()
}

/// A ruleset that grants these paths, the devices and, if the command sees the host's root, `/proc`. `abi` is [`abi`]'s, or less to
/// act as an older kernel.
pub(super) fn ruleset(grants: &Grants, private_root: bool, abi: u32) -> io::Result<OwnedFd> {
    let other = |error: ::landlock::RulesetError| io::Error::other(error.to_string());
    let created = Ruleset::default()
        .handle_access(AccessFs::from_all(known(abi)))
        .and_then(|set| if abi >= ABI_SCOPES { set.scope(Scope::from_all(known(abi))) } else { Ok(set) })
        .and_then(Ruleset::create)
        .map_err(other)?;
    let read = AccessFs::from_read(known(abi));
    let mut set = created;
    let secrets = if private_root { Vec::new() } else { grants.secrets() };
    let mut secrets: Vec<PathBuf> = secrets.into_iter().map(|secret| secret.path).collect();
    if !private_root {
        secrets.extend(grants.hidden.keys().cloned());
    }
    for (path, &writable) in &grants.paths {
        if !writable && secrets.iter().any(|secret| secret.starts_with(path)) {
            set = around(set, path, &secrets, abi)?;
        } else {
            set = allow(set, path, if writable { write_access(abi) } else { read }, abi)?;
        }
    }
    for device in DEVICES {
        set = allow(set, Path::new(device), device_access(abi), abi)?;
    }
    if !private_root {
        set = allow(set, Path::new("/proc"), read, abi)?;
    }
    Option::<OwnedFd>::from(set).ok_or_else(|| io::Error::other("landlock made no ruleset"))
}

/// A ruleset that closes no files, only abstract unix sockets and processes outside of the sandbox. With it a process may still mount.
pub(super) fn scopes(abi: u32) -> io::Result<OwnedFd> {
    let other = |error: ::landlock::RulesetError| io::Error::other(error.to_string());
    let set = Ruleset::default().scope(Scope::from_all(known(abi))).map_err(other)?;
    let set = set.create().map_err(other)?;
    Option::<OwnedFd>::from(set).ok_or_else(|| io::Error::other("landlock made no ruleset"))
}

/// Grants what is in a folder except the secrets: rights cannot be taken away again further down.
fn around(mut set: RulesetCreated, dir: &Path, secrets: &[PathBuf], abi: u32) -> io::Result<RulesetCreated> {
    for entry in dir.read_dir()?.flatten() {
        let path = entry.path();
        if secrets.contains(&path) || path.is_symlink() {
            continue;
        }
        set = if secrets.iter().any(|secret| secret.starts_with(&path)) {
            around(set, &path, secrets, abi)?
        } else {
            allow(set, &path, AccessFs::from_read(known(abi)), abi)?
        };
    }
    Ok(set)
}

fn allow(
    set: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    abi: u32,
) -> io::Result<RulesetCreated> {
    let fd = match PathFd::new(path) {
        Ok(fd) => fd,
        // It went away since it was looked at: nothing to grant.
        Err(_) if !path.exists() => return Ok(set),
        Err(error) => return Err(io::Error::other(error.to_string())),
    };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(known(abi)) };
    set.add_rule(PathBeneath::new(fd, access)).map_err(|error| io::Error::other(error.to_string()))
}

/// Adds a rule for a path that exists only now. For use after the fork: allocates nothing.
///
/// # Safety
/// `set` is an open Landlock ruleset.
pub(super) unsafe fn add_rule(set: libc::c_int, path: &std::ffi::CStr, access: u64) -> bool {
    #[repr(C, packed)]
    struct PathBeneathAttr {
        allowed_access: u64,
        parent_fd: i32,
    }
    const RULE_PATH_BENEATH: libc::c_long = 1;
    // SAFETY: the path is NUL-terminated, the attribute has the layout of `struct landlock_path_beneath_attr` and lives
    // through the call; the descriptor was opened here and is closed here.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
        if fd < 0 {
            return false;
        }
        let attr = PathBeneathAttr { allowed_access: access, parent_fd: fd };
        let rc = libc::syscall(libc::SYS_landlock_add_rule, set, RULE_PATH_BENEATH, &raw const attr, 0_usize);
        libc::close(fd);
        rc == 0
    }
}

/// Puts the calling thread under a ruleset. For use after the fork: allocates nothing.
///
/// # Safety
/// `set` is an open Landlock ruleset, and `no_new_privs` is set.
pub(super) unsafe fn restrict_self(set: libc::c_int) -> bool {
    // SAFETY: takes two numbers.
    unsafe { libc::syscall(libc::SYS_landlock_restrict_self, set, 0_usize) == 0 }
}
