//! The `bwrap` adapter: bubblewrap builds the root that the command sees and gives up the capabilities.
//!
//! Namespaces, the end of the tree and the seccomp filter are ours, as with `landlock`: the supervisor is the first process of new PID,
//! mount, IPC and network namespaces, and starts bubblewrap in them. This file says with which arguments. They are a function of the
//! grants, so that a test can hold them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::root::{Grants, Right};
use super::shell;

/// Where bubblewrap is installed: in a folder of the system, never from anybody's `PATH`.
pub(super) fn program() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || shell::resolve_program("bwrap".as_ref(), &shell::trusted_dirs(), Path::new("/nonexistent"));
    FOUND.get_or_init(find).as_deref()
}

/// The numbers of the descriptors that bubblewrap is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Descriptors {
    /// It says here which process the command will be.
    pub info: i32,
    /// It reads this to its end before it mounts anything.
    pub hold: i32,
    /// It waits here for a byte before it becomes the command.
    pub block: i32,
    /// It reads the seccomp program from here.
    pub seccomp: i32,
}

/// The arguments of bubblewrap, itself included, up to the command.
///
/// `memory` is how many bytes each of `/tmp` and `/dev/shm` may hold.
pub(super) fn arguments(
    bwrap: &Path,
    grants: &Grants,
    cwd: &Path,
    memory: u64,
    given: Descriptors,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![bwrap.into()];
    let mut add = |list: &[&dyn AsRef<std::ffi::OsStr>]| {
        words.extend(list.iter().map(|word| word.as_ref().to_os_string()));
    };
    add(&[&"--unshare-uts", &"--unshare-cgroup-try", &"--new-session", &"--cap-drop", &"ALL"]);
    // A file that `/tmp` covers: what counts is that it is read first.
    add(&[&"--file", &given.hold.to_string(), &"/tmp/hold"]);
    add(&[&"--proc", &"/proc", &"--remount-ro", &"/proc", &"--dev", &"/dev"]);
    let memory = memory.to_string();
    for dir in ["/dev/shm", "/tmp"] {
        add(&[&"--perms", &"1777", &"--size", &memory, &"--tmpfs", &dir]);
    }
    for (path, right) in grants.in_order() {
        match right {
            Right::Granted { writable: true } => add(&[&"--bind", &path, &path]),
            // What may be read and has gone since it was looked at is not there to be read.
            Right::Granted { writable: false } => add(&[&"--ro-bind-try", &path, &path]),
            Right::Hidden { is_dir: true } => add(&[&"--perms", &"0755", &"--tmpfs", &path]),
            Right::Hidden { is_dir: false } => add(&[&"--ro-bind", &"/dev/null", &path]),
        }
    }
    for (path, target) in grants.links_to_make() {
        add(&[&"--symlink", &target, &path]);
    }
    for (path, _) in grants.hidden.iter().filter(|&(_, &is_dir)| is_dir) {
        add(&[&"--remount-ro", path]);
    }
    for secret in grants.secrets() {
        if secret.is_dir {
            add(&[&"--perms", &"0000", &"--tmpfs", &secret.path, &"--remount-ro", &secret.path]);
        } else {
            // A device file that cannot be opened where it lies.
            add(&[&"--ro-bind", &"/dev/null", &secret.path]);
        }
    }
    add(&[&"--remount-ro", &"/dev", &"--remount-ro", &"/", &"--chdir", &cwd]);
    let Descriptors { info, block, seccomp, .. } = given;
    for (option, fd) in [("--info-fd", info), ("--block-fd", block), ("--seccomp", seccomp)] {
        add(&[&option, &fd.to_string()]);
    }
    add(&[&"--"]);
    words
}

/// What bubblewrap says if it could not become the command after all, when everything else was done.
pub(super) fn exec_failure<'o>(output: &'o [u8], program: &str) -> Option<&'o str> {
    let text = std::str::from_utf8(output).ok()?.strip_suffix('\n')?;
    let rest = text.strip_prefix("bwrap: execvp ")?.strip_prefix(program)?.strip_prefix(": ")?;
    (!rest.contains('\n')).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_grant_what_the_policy_grants_and_nothing_else() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("read/write")).unwrap();
        std::fs::create_dir_all(top.join("read/hidden")).unwrap();
        std::os::unix::fs::symlink("read", top.join("alias")).unwrap();
        let grants =
            Grants::new(&[top.join("alias")], &[top.join("read/write")], &[top.join("read/hidden")]).unwrap();
        let given = Descriptors { info: 10, hold: 9, block: 11, seccomp: 12 };
        let cwd = top.join("read/write");
        let words = arguments(Path::new("/usr/bin/bwrap"), &grants, &cwd, 4096, given);
        let words: Vec<String> = words.iter().map(|word| word.to_str().unwrap().to_owned()).collect();
        let line = words.join(" ").replace(top.to_str().unwrap(), "TOP");
        assert!(
            line.starts_with(
                "/usr/bin/bwrap --unshare-uts --unshare-cgroup-try --new-session --cap-drop ALL --file 9 /tmp/hold --proc /proc --remount-ro /proc --dev /dev \
                 --perms 1777 --size 4096 --tmpfs /dev/shm --perms 1777 --size 4096 --tmpfs /tmp "
            ),
            "{line}"
        );
        assert!(
            line.contains(
                " --ro-bind-try TOP/read TOP/read --perms 0755 --tmpfs TOP/read/hidden --bind TOP/read/write TOP/read/write "
            ),
            "{line}"
        );
        assert!(line.contains(" --symlink read TOP/alias "), "{line}");
        assert!(line.contains(" --remount-ro TOP/read/hidden "), "{line}");
        let end = " --remount-ro /dev --remount-ro / --chdir TOP/read/write --info-fd 10 --block-fd 11 --seccomp 12 --";
        assert!(line.ends_with(end), "{line}");
        // Nothing else is writable, and no device of the host is there.
        assert_eq!(words.iter().filter(|word| *word == "--bind").count(), 1);
        assert!(!line.contains("--dev-bind") && !line.contains("--cap-add") && !line.contains("--share-net"));
    }

    #[test]
    fn a_program_that_cannot_be_executed_is_told_from_one_that_fails() {
        assert_eq!(exec_failure(b"bwrap: execvp ./x: Exec format error\n", "./x"), Some("Exec format error"));
        for other in ["bwrap: execvp ./y: no\n", "bwrap: execvp ./x: a\nb\n", "", "bwrap: execvp ./x: a"] {
            assert_eq!(exec_failure(other.as_bytes(), "./x"), None, "{other:?}");
        }
    }
}
