//! The unix sockets that are files: who may search a folder can connect to one in it, on a read-only mount as well.
//!
//! Landlock holds them back from ABI 9 on. Before, those that this machine's processes have bound are looked up and hidden.
//! The kernel lists those of one network namespace: a socket that a container of somebody else's bound in a granted folder is not found.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a look is good for: commands follow each other faster than servers are started.
const FRESH: Duration = Duration::from_secs(1);

/// The socket files that are bound here, without links on the way.
pub(super) fn bound() -> Arc<Vec<PathBuf>> {
    static KNOWN: Mutex<Option<(Instant, Arc<Vec<PathBuf>>)>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, sockets)) = &*known
        && at.elapsed() < FRESH
    {
        return Arc::clone(sockets);
    }
    // Of this thread's network, which is the runner's.
    let table = std::fs::read("/proc/thread-self/net/unix").unwrap_or_default();
    let sockets = Arc::new(files(&table));
    *known = Some((Instant::now(), Arc::clone(&sockets)));
    sockets
}

/// The files in the kernel's table (`proc_pid_net(5)`): seven columns, and the path if there is one.
fn files(table: &[u8]) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let mut found: Vec<PathBuf> = Vec::new();
    for line in table.split(|byte| *byte == b'\n').skip(1) {
        let mut rest = line;
        for _ in 0..7 {
            rest = rest.trim_ascii_start();
            let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            rest = &rest[end..];
        }
        let path = Path::new(std::ffi::OsStr::from_bytes(rest.strip_prefix(b" ").unwrap_or_default()));
        if !path.is_absolute() {
            continue;
        }
        match path.canonicalize() {
            Ok(real) if real.metadata().is_ok_and(|meta| meta.file_type().is_socket()) => found.push(real),
            // Nobody may say where it is, so nobody knows that it is not there.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => found.push(path.to_path_buf()),
            _ => {}
        }
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn sockets_are_found_by_the_files_that_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let named = top.join("a b");
        let _kept = UnixListener::bind(&named).unwrap();
        std::fs::write(top.join("file"), "").unwrap();
        let line =
            |path: &Path| format!("ffff: 00000002 00000000 00010000 0001 01 4711 {}\n", path.display());
        let table = [
            "Num RefCount Protocol Flags Type St Inode Path\n".to_owned(),
            line(&named),
            line(&named),
            line(&top.join("file")),
            line(&top.join("gone")),
            "ffff: 00000002 00000000 00010000 0001 01 4712 @abstract\n".to_owned(),
            "ffff: 00000002 00000000 00000000 0001 03  4713\n".to_owned(),
        ];
        assert_eq!(files(table.concat().as_bytes()), std::slice::from_ref(&named));
        let real = std::fs::read("/proc/thread-self/net/unix").unwrap();
        assert!(files(&real).contains(&named));
    }
}
