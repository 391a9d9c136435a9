//! Trees to files and back, odd ones and bad ones.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, UNIX_EPOCH};

use gix::bstr::ByteSlice;
use proptest::prelude::*;

use super::*;
use crate::worktree::{WorktreeError, advance, is_as_made};

/// Field reports 1.38, 1.39, 1.65, 2.28: config, attributes and hooks of the repository change nothing and run nothing.
#[test]
fn hostile_config_has_no_part_in_checkout_or_snapshot() {
    for format in ["--object-format=sha1", "--object-format=sha256"] {
        let sandbox = Sandbox::with(&[format]);
        sandbox.write("crlf.txt", "a\r\nb\r\n");
        sandbox.write("lf.txt", "a\nb\n$Id$\n");
        sandbox.write("mixed", b"\0\r\n\xff\n");
        sandbox.write("empty", "");
        sandbox.write("run.sh", "#!/bin/sh\n");
        make_executable(&sandbox.path("repo/run.sh"));
        sandbox.write("deep/er/and/deeper/file", "x");
        sandbox.write(".gitattributes", "*.txt filter=evil ident working-tree-encoding=UTF-16\n");
        link("../outside", &sandbox.path("repo/deep/link"));
        link("nowhere\u{e9}", &sandbox.path("repo/dangling"));
        let odd = OsStr::from_bytes(b"bad\xffname \n\"'");
        fs::write(sandbox.path("repo").join(odd), "odd").unwrap();
        // Added without the filters that the attributes name.
        sandbox.git(&["config", "core.autocrlf", "false"]);
        fs::write(
            sandbox.path("repo/.git/info/attributes"),
            "* -text -ident !filter !working-tree-encoding\n",
        )
        .unwrap();
        sandbox.commit();
        let marker = sandbox.make_hostile();

        let (place, manifest) = sandbox.check_out("HEAD^{tree}");
        assert_eq!(fs::read(place.join("crlf.txt")).unwrap(), b"a\r\nb\r\n");
        assert_eq!(fs::read(place.join("lf.txt")).unwrap(), b"a\nb\n$Id$\n");
        assert_eq!(fs::read(place.join("mixed")).unwrap(), b"\0\r\n\xff\n");
        assert_eq!(fs::read(place.join(odd)).unwrap(), b"odd");
        assert_eq!(fs::read_link(place.join("deep/link")).unwrap(), Path::new("../outside"));
        let mode = |path: &str| fs::metadata(place.join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("run.sh"), mode("lf.txt")), (0o755, 0o644));

        let taken = sandbox.snapshot(&place, &manifest);
        assert_eq!(taken.tree, sandbox.id("HEAD^{tree}"));
        assert_eq!((taken.violations.len(), taken.stats.ignored, taken.stats.files), (0, 0, 10));
        assert!(!marker.exists(), "a program of the repository's config ran");
    }
}

#[test]
fn unchanged_files_keep_an_old_time_and_changed_ones_never_do() {
    let sandbox = Sandbox::new();
    for path in ["same", "changed", "d/same", "d/mode", "e/same"] {
        sandbox.write(path, path);
    }
    link("same", &sandbox.path("repo/l"));
    sandbox.commit();
    let repo = sandbox.open();
    let base = Manifest::read(&repo, sandbox.id("HEAD^{tree}"), false).unwrap();
    sandbox.write("changed", "chang3d");
    sandbox.write("new", "new");
    sandbox.write("f/same", "d/same");
    make_executable(&sandbox.path("repo/d/mode"));
    sandbox.commit();
    let place = sandbox.path("timed");
    fs::create_dir(&place).unwrap();
    let time = UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    let options = CheckoutOptions { unchanged: Some((&base, time)), ..CheckoutOptions::default() };
    let (manifest, stats) = checkout(&repo, sandbox.id("HEAD^{tree}"), &place, options).unwrap();
    assert_eq!((stats.files, stats.links, stats.dirs), (7, 1, 3));
    let is_old = |path: &str| fs::symlink_metadata(place.join(path)).unwrap().modified().unwrap() == time;
    for path in ["same", "d/same", "e/same", "l"] {
        assert!(is_old(path), "{path}");
    }
    for path in ["changed", "new", "d/mode", "f/same"] {
        assert!(!is_old(path), "{path}");
    }
    // The time says nothing then, and is not what a snapshot goes by: same size, same time, other content.
    fs::write(place.join("d/same"), "d/s4me").unwrap();
    fs::File::options().write(true).open(place.join("d/same")).unwrap().set_modified(time).unwrap();
    let tree = sandbox.snapshot(&place, &manifest).tree;
    assert_eq!(sandbox.git(&["cat-file", "blob", &format!("{tree}:d/same")]), "d/s4me");
}

/// Field report 1.55, from the other side: a tree that names such paths never reaches a disk.
#[test]
fn unsafe_trees_are_refused_before_anything_is_written() {
    let sandbox = Sandbox::new();
    let blob = sandbox.hash("blob", b"x");
    let empty = ObjectId::empty_tree(gix::hash::Kind::Sha1);
    let link_target = sandbox.hash("blob", b"/tmp");
    let place = sandbox.path("place");
    fs::create_dir(&place).unwrap();
    let names: [&[u8]; 12] = [
        b".git",
        b".GIT",
        b"git~1",
        b".git.",
        b".git ",
        b".git::$INDEX_ALLOCATION",
        ".g\u{200c}it".as_bytes(),
        b"..",
        b".",
        b"a/b",
        b"/etc",
        b"../x",
    ];
    for name in names {
        for (mode, id) in [("100644", blob), ("120000", link_target), ("40000", empty)] {
            let tree = sandbox.raw_tree(&[(mode, name, id)]);
            let nested = sandbox.raw_tree(&[("40000", b"sub", tree)]);
            for tree in [tree, nested] {
                let error = checkout(&sandbox.open(), tree, &place, CheckoutOptions::default()).unwrap_err();
                assert!(matches!(error, WorktreeError::UnsafePath { .. }), "{name:?}: {error}");
                assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
            }
        }
    }
    // A link and a folder of one name: the folder would lead outside, were the link made first.
    let inner = sandbox.raw_tree(&[("100644", b"pwned", blob)]);
    for entries in [
        [("120000", &b"x"[..], link_target), ("40000", b"x", inner)],
        [("40000", b"x", inner), ("120000", b"x", link_target)],
        [("100644", b"b", blob), ("100644", b"a", blob)],
        [("100644", b"a", blob), ("100644", b"a", blob)],
    ] {
        let tree = sandbox.raw_tree(&entries);
        let error = checkout(&sandbox.open(), tree, &place, CheckoutOptions::default()).unwrap_err();
        assert!(matches!(error, WorktreeError::BadTree { .. }), "{error}");
        assert!(!Path::new("/tmp/pwned").exists());
    }
    // Git's order lets a name in between hide the duplicate from neighbours.
    let tree =
        sandbox.raw_tree(&[("120000", b"x", link_target), ("100644", b"x-y", blob), ("40000", b"x", inner)]);
    let error = checkout(&sandbox.open(), tree, &place, CheckoutOptions::default()).unwrap_err();
    assert!(matches!(error, WorktreeError::Collision { .. }), "{error}");
    assert!(!Path::new("/tmp/pwned").exists());
}

#[test]
fn missing_and_corrupt_objects_are_named() {
    let sandbox = Sandbox::new();
    sandbox.write("dir/file", "content\n");
    sandbox.commit();
    let id = sandbox.id("HEAD:dir/file").to_string();
    let loose = sandbox.path("repo/.git/objects").join(&id[..2]).join(&id[2..]);
    // The object of another content under this name: neither git nor gix would notice on read.
    let other = sandbox.hash("blob", b"changed\n").to_string();
    let other = sandbox.path("repo/.git/objects").join(&other[..2]).join(&other[2..]);
    fs::remove_file(&loose).unwrap();
    fs::copy(other, &loose).unwrap();
    let place = sandbox.path("place");
    fs::create_dir(&place).unwrap();
    let verify = CheckoutOptions { verify: true, ..CheckoutOptions::default() };
    let error = checkout(&sandbox.open(), sandbox.id("HEAD^{tree}"), &place, verify).unwrap_err();
    assert!(error.to_string().starts_with(&format!("object {id} (at 'dir/file') is corrupt")), "{error}");

    fs::remove_file(&loose).unwrap();
    fs::remove_dir_all(&place).unwrap();
    fs::create_dir(&place).unwrap();
    let error = checkout(&sandbox.open(), sandbox.id("HEAD^{tree}"), &place, verify).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot read object {id} (at 'dir/file')"));
    let error = checkout(&sandbox.open(), sandbox.id("HEAD^{tree}"), &place, verify).unwrap_err();
    assert!(matches!(error, WorktreeError::NotEmpty { .. }));
}

impl Sandbox {
    fn hash(&self, kind: &str, data: &[u8]) -> ObjectId {
        let mut child = Command::new("git")
            .args(["hash-object", "-w", "--literally", "--stdin", "-t", kind])
            .current_dir(self.path("repo"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(data).unwrap();
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }

    fn raw_tree(&self, entries: &[(&str, &[u8], ObjectId)]) -> ObjectId {
        let mut data = Vec::new();
        for (mode, name, id) in entries {
            data.extend_from_slice(mode.as_bytes());
            data.push(b' ');
            data.extend_from_slice(name);
            data.push(0);
            data.extend_from_slice(id.as_slice());
        }
        self.hash("tree", &data)
    }
}

#[derive(Debug, Clone)]
enum Leaf {
    File(Vec<u8>, bool),
    Link(Vec<u8>),
}

/// Path components that are odd but legal, few enough to meet each other.
fn component() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::sample::select(vec!["a", "a-b", "a.b", "a0", "b", "A", "src", "x y", "-n", "*"])
            .prop_map(|name| name.as_bytes().to_vec()),
        1 => prop::collection::vec(1u8..=255, 1..6),
    ]
    .prop_filter("a legal name", |name| crate::worktree::names::objection(name.as_bstr(), true).is_none())
}

fn leaf() -> impl Strategy<Value = Leaf> {
    prop_oneof![
        4 => (prop::collection::vec(any::<u8>(), 0..40), any::<bool>())
            .prop_map(|(data, executable)| Leaf::File(data, executable)),
        1 => prop::collection::vec(1u8..=255, 1..20).prop_map(Leaf::Link),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Any set of files becomes a tree that stock git agrees with, and that tree becomes the same files again.
    #[test]
    fn random_trees_round_trip(
        paths in prop::collection::btree_map(prop::collection::vec(component(), 1..4), leaf(), 0..25),
    ) {
        let sandbox = Sandbox::new();
        let place = sandbox.path("place");
        fs::create_dir(&place).unwrap();
        let mut kept: BTreeMap<Vec<Vec<u8>>, Leaf> = BTreeMap::new();
        for (path, leaf) in paths {
            // A file cannot be a folder too.
            let clash = kept.keys().any(|other| other.starts_with(&path) || path.starts_with(other));
            if !clash {
                kept.insert(path, leaf);
            }
        }
        for (path, leaf) in &kept {
            let mut at = place.clone();
            at.extend(path.iter().map(|name| OsStr::from_bytes(name)));
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            match leaf {
                Leaf::File(data, executable) => {
                    fs::write(&at, data).unwrap();
                    if *executable {
                        make_executable(&at);
                    }
                }
                Leaf::Link(target) => symlink(OsStr::from_bytes(target), &at).unwrap(),
            }
        }
        let repo = sandbox.open();
        let nothing = Manifest::read(&repo, ObjectId::empty_tree(repo.object_hash()), true).unwrap();
        let taken = sandbox.snapshot(&place, &nothing);
        prop_assert_eq!(&taken.violations, &vec![]);

        let git_dir = format!("--git-dir={}", sandbox.path("repo/.git").display());
        sandbox.git_in(&place, &[&git_dir, "--work-tree=.", "add", "-A", "."]);
        prop_assert_eq!(sandbox.git(&["write-tree"]), taken.tree.to_string());

        let (again, manifest) = sandbox.check_out(&taken.tree.to_string());
        let back = sandbox.snapshot(&again, &manifest);
        prop_assert_eq!(back.tree, taken.tree);
        prop_assert_eq!(back.stats.files, kept.len());
    }
}

/// A few names that are files, programs, links and folders of each other in turn.
pub(super) fn some_tree() -> impl Strategy<Value = Vec<(String, u8)>> {
    proptest::collection::vec(("(a|b|c)(/(a|b|c)){0,2}", 0_u8..6), 0..8)
}

/// Writes files into the work tree, as far as one is not in the way of another, and commits.
pub(super) fn commit_some(sandbox: &Sandbox, files: &[(String, u8)]) -> ObjectId {
    for entry in fs::read_dir(sandbox.path("repo")).unwrap().map(|entry| entry.unwrap().path()) {
        if !entry.ends_with(".git") {
            crate::worktree::remove_all(&entry).unwrap();
        }
    }
    for (path, kind) in files {
        let at = sandbox.path("repo").join(path);
        if fs::create_dir_all(at.parent().unwrap()).is_err() || at.symlink_metadata().is_ok() {
            continue;
        }
        match kind {
            0 => link("nowhere", &at),
            1 => link("a/b", &at),
            _ => fs::write(&at, format!("{}\n", kind / 2)).unwrap(),
        }
        if *kind == 5 {
            make_executable(&at);
        }
    }
    sandbox.commit();
    sandbox.id("HEAD^{tree}")
}

#[test]
fn a_checkout_that_is_moved_on_is_that_of_the_other_tree() {
    use proptest::test_runner::{Config, TestRunner};
    let sandbox = Sandbox::new();
    let mut runner = TestRunner::new(Config::with_cases(40));
    runner
        .run(&(some_tree(), some_tree()), |(before, after)| {
            let (first, second) = (commit_some(&sandbox, &before), commit_some(&sandbox, &after));
            let repo = sandbox.open();
            let (place, manifest) = sandbox.check_out(&first.to_string());
            assert!(is_as_made(&manifest, &place, &[]).unwrap());
            let moved = advance(&repo, &manifest, second, &place, true).unwrap();
            assert_eq!(moved.tree(), second);
            // Each file is noted as it is now, and nothing else is there.
            assert!(is_as_made(&moved, &place, &[]).unwrap());
            assert_eq!(sandbox.snapshot(&place, &moved).tree, second);
            fs::remove_dir_all(place).unwrap();
            Ok(())
        })
        .unwrap();
}

#[test]
fn what_is_not_as_it_was_made_is_seen() {
    type Change = fn(&Path);
    let sandbox = Sandbox::new();
    sandbox.write("dir/file", "one\n");
    sandbox.write("top", "two\n");
    link("top", &sandbox.path("repo/link"));
    sandbox.commit();
    let changes: [(&str, Change); 7] = [
        ("content", |place| fs::write(place.join("dir/file"), "two\n").unwrap()),
        ("mode", |place| make_executable(&place.join("top"))),
        ("another file", |place| fs::write(place.join("dir/more"), "").unwrap()),
        ("another folder", |place| fs::create_dir(place.join("more")).unwrap()),
        ("a file less", |place| fs::remove_file(place.join("top")).unwrap()),
        ("another link", |place| {
            fs::remove_file(place.join("link")).unwrap();
            link("dir", &place.join("link"));
        }),
        ("a link for a folder", |place| {
            fs::rename(place.join("dir"), place.with_extension("dir")).unwrap();
            symlink(place.with_extension("dir"), place.join("dir")).unwrap();
        }),
    ];
    for (what, change) in changes {
        let (place, manifest) = sandbox.check_out("HEAD^{tree}");
        put(&place, "warm/deep/file", "given");
        put(&place, "dir/.given", "given");
        let given = ["warm/deep".into(), "dir/.given".into()];
        assert!(is_as_made(&manifest, &place, &given).unwrap(), "{what}");
        assert!(!is_as_made(&manifest, &place, &given[..1]).unwrap(), "{what}");
        change(&place);
        assert!(!is_as_made(&manifest, &place, &given).unwrap(), "{what}");
    }
}
