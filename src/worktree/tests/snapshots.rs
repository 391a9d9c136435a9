//! What becomes part of a candidate.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use super::*;
use crate::worktree::WorktreeError;

fn standard() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write(".gitignore", "*.log\n/target/\n!keep.log\n");
    sandbox.write("src/.gitignore", "gen/\n!*.log\n");
    sandbox.write("src/lib.rs", "lib\n");
    sandbox.write("src/gen/tracked", "tracked in an ignored folder\n");
    sandbox.write("tracked.log", "tracked but ignored\n");
    sandbox.commit();
    sandbox
}

#[test]
fn untouched_is_the_same_tree() {
    let sandbox = standard();
    let (place, manifest) = sandbox.check_out("HEAD^{tree}");
    assert_eq!(sandbox.snapshot(&place, &manifest).tree, sandbox.id("HEAD^{tree}"));
}

#[test]
fn only_the_base_decides_what_is_ignored() {
    let sandbox = standard();
    let marker = sandbox.make_hostile();
    let (place, manifest) = sandbox.check_out("HEAD^{tree}");
    for path in [
        "a.log",
        "keep.log",
        "target/debug/x",
        "docs/target/y",
        "src/b.log",
        "src/gen/new",
        "src/deep/gen/z",
        "src/deep/w",
    ] {
        put(&place, path, "new\n");
    }
    put(&place, "tracked.log", "changed\n");
    put(&place, "src/gen/tracked", "changed\n");
    let before = sandbox.list(sandbox.snapshot(&place, &manifest).tree);
    assert_eq!(
        before,
        [
            ".gitignore",
            "docs/target/y",
            "keep.log",
            "src/.gitignore",
            "src/b.log",
            "src/deep/w",
            "src/gen/tracked",
            "src/lib.rs",
            "tracked.log"
        ]
    );

    // What the worker does to ignore files is content, never a rule.
    put(&place, ".gitignore", "*\n");
    put(&place, "docs/.gitignore", "*\n");
    fs::remove_file(place.join("src/.gitignore")).unwrap();
    fs::create_dir_all(place.join(".git/info")).unwrap();
    put(&place, ".git/info/exclude", "*\n");
    let taken = sandbox.snapshot(&place, &manifest);
    let mut expected = before;
    expected.retain(|path| path != "src/.gitignore");
    expected.insert(1, "docs/.gitignore".to_owned());
    assert_eq!(sandbox.list(taken.tree), expected);
    assert_eq!(sandbox.git(&["cat-file", "blob", &format!("{}:tracked.log", taken.tree)]), "changed");
    assert_eq!(taken.violations, []);
    assert!(!marker.exists());
}

#[test]
fn every_kind_of_change_is_seen() {
    let sandbox = Sandbox::new();
    for path in ["keep", "gone", "mode", "to-link", "to-dir", "dir/a", "dir/b", "dir-to-file/x", "moved/f"] {
        sandbox.write(path, format!("{path}\n"));
    }
    link("keep", &sandbox.path("repo/link"));
    sandbox.commit();
    let (place, manifest) = sandbox.check_out("HEAD^{tree}");
    fs::remove_file(place.join("gone")).unwrap();
    make_executable(&place.join("mode"));
    fs::remove_file(place.join("to-link")).unwrap();
    link("/etc/passwd", &place.join("to-link"));
    fs::remove_file(place.join("to-dir")).unwrap();
    put(&place, "to-dir/inside", "x\n");
    fs::remove_dir_all(place.join("dir-to-file")).unwrap();
    put(&place, "dir-to-file", "now a file\n");
    fs::remove_file(place.join("dir/a")).unwrap();
    fs::remove_file(place.join("dir/b")).unwrap();
    fs::create_dir(place.join("empty")).unwrap();
    fs::rename(place.join("moved"), place.join("moved2")).unwrap();
    fs::remove_file(place.join("link")).unwrap();
    link("gone", &place.join("link"));

    let tree = sandbox.snapshot(&place, &manifest).tree;
    let listing = sandbox.git(&["ls-tree", "-r", &tree.to_string()]);
    let modes: Vec<String> =
        listing.lines().map(|line| format!("{} {}", &line[..6], line.rsplit('\t').next().unwrap())).collect();
    assert_eq!(
        modes,
        [
            "100644 dir-to-file",
            "100644 keep",
            "120000 link",
            "100755 mode",
            "100644 moved2/f",
            "100644 to-dir/inside",
            "120000 to-link"
        ]
    );
    assert_eq!(sandbox.git(&["cat-file", "blob", &format!("{tree}:to-link")]), "/etc/passwd");
    sandbox.git(&["fsck", "--strict", "--no-dangling"]);

    for path in fs::read_dir(&place).unwrap() {
        let path = path.unwrap().path();
        if path.is_symlink() || path.is_file() { fs::remove_file(path) } else { fs::remove_dir_all(path) }
            .unwrap();
    }
    assert!(sandbox.snapshot(&place, &manifest).tree.is_empty_tree());
}

/// A worker can set `mtime` to what it was; `ctime` gives it away, and where it would not, files are read.
#[test]
fn forged_times_hide_nothing() {
    let sandbox = Sandbox::new();
    for number in 0..400 {
        sandbox.write(&format!("d{}/f{number}", number % 7), format!("{number:05}\n"));
    }
    sandbox.commit();
    let (place, manifest) = sandbox.check_out("HEAD^{tree}");
    let victim = place.join("d0/f0");
    let time = fs::metadata(&victim).unwrap().modified().unwrap();
    fs::write(&victim, "EVIL!\n").unwrap();
    fs::File::options().write(true).open(&victim).unwrap().set_modified(time).unwrap();
    // And one through a shared mapping, which on tmpfs moves no time at all.
    store_through_mapping(&place.join("d1/f1"), b'E');
    let tree = sandbox.snapshot(&place, &manifest).tree;
    let diff = sandbox.git(&["diff-tree", "-r", "--name-only", "HEAD", &tree.to_string()]);
    assert_eq!(diff, "d0/f0\nd1/f1");
}

fn store_through_mapping(path: &Path, byte: u8) {
    use std::os::fd::AsRawFd;
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    // SAFETY: a fresh mapping of an open file, of which the first byte is read, then written.
    unsafe {
        let map = libc::mmap(
            std::ptr::null_mut(),
            1,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(map, libc::MAP_FAILED);
        let first = map.cast::<u8>();
        std::ptr::read_volatile(first);
        std::ptr::write_volatile(first, byte);
        libc::munmap(map, 1);
    }
}

/// Field report 1.54: a repository in the repository became a gitlink.
#[test]
fn nested_repositories_are_violations_and_their_files_are_files() {
    let sandbox = standard();
    let (place, manifest) = sandbox.check_out("HEAD^{tree}");
    put(&place, "vendor/x/file", "x\n");
    sandbox.git_in(&place.join("vendor/x"), &["init", "-q"]);
    put(&place, "sub/.git", "gitdir: /elsewhere\n");
    put(&place, "sub/file", "y\n");
    // In what is ignored nobody looks.
    put(&place, "target/checkouts/z/.git/HEAD", "z\n");
    let taken = sandbox.snapshot(&place, &manifest);
    assert_eq!(
        violations(&taken),
        ["sub/.git: a repository inside the worktree", "vendor/x/.git: a repository inside the worktree"]
    );
    let listing = sandbox.list(taken.tree);
    assert!(listing.contains(&"vendor/x/file".to_owned()) && listing.contains(&"sub/file".to_owned()));
    assert!(!listing.iter().any(|path| path.contains(".git/")));
}

#[test]
fn special_files_and_unsafe_names_are_violations() {
    let sandbox = standard();
    let (place, manifest) = sandbox.check_out("HEAD^{tree}");
    let fifo = |path: &str| {
        let path = CString::new(place.join(path).as_os_str().as_bytes()).unwrap();
        // SAFETY: the path is NUL-terminated.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    };
    fifo("pipe");
    fifo("ignored.log");
    // A FIFO in the place of a tracked file must not be waited on.
    fs::remove_file(place.join("src/lib.rs")).unwrap();
    fifo("src/lib.rs");
    let _socket = UnixListener::bind(place.join("sock")).unwrap();
    put(&place, ".GIT/config", "x");
    put(&place, "a/git~1", "x");
    let taken = sandbox.snapshot(&place, &manifest);
    assert_eq!(
        violations(&taken),
        [
            ".GIT: an unsafe name: The .git name may never be used",
            "a/git~1: an unsafe name: The .git name may never be used",
            "pipe: a FIFO, socket or device",
            "sock: a FIFO, socket or device",
            "src/lib.rs: a FIFO, socket or device",
        ]
    );
    assert_eq!(sandbox.list(taken.tree), [".gitignore", "src/.gitignore", "src/gen/tracked", "tracked.log"]);
}

#[test]
fn submodules_stay_links_unless_removed() {
    let sandbox = Sandbox::new();
    sandbox.write("a", "a");
    let commit = sandbox.commit();
    for name in ["kept", "gone", "filled", "replaced"] {
        sandbox.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{name}")]);
    }
    sandbox.git(&["commit", "-q", "-m", "submodules"]);
    let (place, manifest) = sandbox.check_out("HEAD^{tree}");
    assert_eq!(sandbox.snapshot(&place, &manifest).tree, sandbox.id("HEAD^{tree}"));
    fs::remove_dir(place.join("gone")).unwrap();
    put(&place, "filled/file", "x");
    fs::remove_dir(place.join("replaced")).unwrap();
    put(&place, "replaced", "x");
    let taken = sandbox.snapshot(&place, &manifest);
    assert_eq!(violations(&taken), ["filled: content in the folder of a submodule"]);
    let diff = sandbox.git(&["diff-tree", "-r", "--name-status", "HEAD", &taken.tree.to_string()]);
    assert_eq!(diff, "D\tgone\nT\treplaced");
}

#[test]
fn folders_and_files_without_permissions_are_read_all_the_same() {
    let sandbox = standard();
    let (place, manifest) = sandbox.check_out("HEAD^{tree}");
    let mode =
        |path: &str, mode| fs::set_permissions(place.join(path), fs::Permissions::from_mode(mode)).unwrap();
    mode("src/lib.rs", 0o000);
    mode("src/gen", 0o000);
    mode("src", 0o600);
    mode("", 0o000);
    let taken = sandbox.snapshot(&place, &manifest);
    assert_eq!(taken.tree, sandbox.id("HEAD^{tree}"));
}

#[test]
fn a_place_that_became_a_link_is_not_followed() {
    let sandbox = standard();
    let (place, manifest) = sandbox.check_out("HEAD^{tree}");
    fs::remove_dir_all(&place).unwrap();
    symlink(sandbox.path("home"), &place).unwrap();
    let ignores = BaseIgnores::default();
    assert!(snapshot(&sandbox.open(), &manifest, &place, &ignores, SnapshotOptions::default()).is_err());
}

#[test]
fn nobody_waits_for_a_snapshot_that_is_not_wanted_any_more() {
    let sandbox = standard();
    let (place, manifest) = sandbox.check_out("HEAD^{tree}");
    put(&place, "new", "1");
    let stop = std::sync::atomic::AtomicBool::new(true);
    let options = SnapshotOptions { stop: Some(&stop), ..Default::default() };
    let error = snapshot(&sandbox.open(), &manifest, &place, &BaseIgnores::default(), options).unwrap_err();
    assert!(matches!(error, WorktreeError::Stopped), "{error}");
    stop.store(false, std::sync::atomic::Ordering::SeqCst);
    snapshot(&sandbox.open(), &manifest, &place, &BaseIgnores::default(), options).unwrap();
}

#[test]
fn size_and_depth_are_bounded() {
    let sandbox = standard();
    let (place, manifest) = sandbox.check_out("HEAD^{tree}");
    // Sparse: a terabyte that costs a worker nothing.
    fs::File::create(place.join("huge")).unwrap().set_len(1 << 40).unwrap();
    let mut deep = place.clone();
    for _ in 0..200 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("f"), "x").unwrap();
    let taken = sandbox.snapshot(&place, &manifest);
    assert_eq!(taken.tree, sandbox.id("HEAD^{tree}"));
    let found = violations(&taken);
    assert_eq!(found.len(), 2);
    assert!(found[0].ends_with("d: folders nested too deep") && found[1] == "huge: a file that is too large");

    let repo = sandbox.open();
    put(&place, "one", "123456");
    put(&place, "two", "abcdef");
    let few = SnapshotOptions { max_total_bytes: 10, ..Default::default() };
    let error = snapshot(&repo, &manifest, &place, &BaseIgnores::default(), few).unwrap_err();
    assert!(matches!(error, WorktreeError::TooLarge { limit: 10, .. }));

    // A tracked file over the limit is compared in pieces, so it may stay but not change.
    fs::remove_file(place.join("one")).unwrap();
    fs::remove_file(place.join("two")).unwrap();
    let small = SnapshotOptions { max_file_bytes: 10, read_all: true, ..Default::default() };
    let taken = snapshot(&repo, &manifest, &place, &BaseIgnores::default(), small).unwrap();
    assert_eq!(taken.tree, sandbox.id("HEAD^{tree}"));
    put(&place, "tracked.log", "tracked but ignorex\n");
    let taken = snapshot(&repo, &manifest, &place, &BaseIgnores::default(), small).unwrap();
    assert!(violations(&taken).contains(&"tracked.log: a file that is too large".to_owned()));
}

#[test]
fn the_rules_of_the_base_hold_when_green_has_others() {
    let sandbox = standard();
    let repo = sandbox.open();
    let base = BaseIgnores::read(&repo, sandbox.id("HEAD^{tree}")).unwrap();
    sandbox.write(".gitignore", "*\n");
    sandbox.commit();
    let (place, manifest) = sandbox.check_out("HEAD^{tree}");
    put(&place, "new", "x");
    put(&place, "new.log", "x");
    let taken = snapshot(&repo, &manifest, &place, &base, SnapshotOptions::default()).unwrap();
    let listing = sandbox.list(taken.tree);
    assert!(listing.contains(&"new".to_owned()) && !listing.contains(&"new.log".to_owned()));
}
