//! Worktrees that hold a part of their tree: a candidate of one is that of a whole one for the same edits.

use std::collections::BTreeSet;

use gix::bstr::{BStr, ByteSlice};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::trees::{commit_some, some_tree};
use super::*;
use crate::worktree::{LinkedWorktree, SealOptions, Selection, advance, is_as_made};

/// What is wanted: these paths and all below them.
fn selection(sandbox: &Sandbox, base: ObjectId, wanted: &[String]) -> Selection {
    let base = Manifest::read(&sandbox.open(), base, true).unwrap();
    let wanted: Vec<String> = wanted.to_vec();
    Selection::new("test", base, move |path: &BStr| {
        let path = path.to_str().unwrap();
        wanted.iter().any(|one| path == one || path.starts_with(&format!("{one}/")))
    })
}

fn check_out_part(sandbox: &Sandbox, tree: ObjectId, selection: &Selection) -> (PathBuf, Manifest) {
    let place = tempfile::tempdir_in(sandbox.places()).unwrap().keep();
    let options = CheckoutOptions { verify: true, selection: Some(selection), ..CheckoutOptions::default() };
    let (manifest, _) = checkout(&sandbox.open(), tree, &place, options).unwrap();
    (place, manifest)
}

/// Every path of a folder that is no folder.
fn files(place: &Path) -> BTreeSet<String> {
    fn walk(top: &Path, dir: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
            if entry.file_type().unwrap().is_dir() {
                walk(top, &entry.path(), found);
            } else {
                found.insert(entry.path().strip_prefix(top).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(place, place, &mut found);
    found
}

/// What a worker does.
#[derive(Debug, Clone)]
enum Edit {
    Write(String, u8),
    Remove(String),
    Rename(String, String),
    MakeExecutable(String),
}

fn edit() -> impl Strategy<Value = Edit> {
    let path = || "(a|b|c)(/(a|b|c)){0,2}";
    prop_oneof![
        (path(), 0_u8..4).prop_map(|(path, content)| Edit::Write(path, content)),
        path().prop_map(Edit::Remove),
        (path(), path()).prop_map(|(from, to)| Edit::Rename(from, to)),
        path().prop_map(Edit::MakeExecutable),
    ]
}

fn is_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_file())
}

/// Does the same in both, as far as it can be done in the whole one and is about what can be seen in the part.
fn apply(edit: &Edit, whole: &Path, part: &Path) {
    // No link is followed: where it leads there may be something in one of them only.
    let plain = |place: &Path, path: &str| {
        Path::new(path).ancestors().skip(1).all(|above| !place.join(above).is_symlink())
    };
    let write = |path: &str, content: &str| {
        if !plain(whole, path) || whole.join(path).is_symlink() {
            return false;
        }
        let at = whole.join(path);
        if fs::create_dir_all(at.parent().unwrap()).is_err() || at.is_dir() {
            return false;
        }
        fs::write(&at, content).unwrap();
        put(part, path, content);
        true
    };
    match edit {
        Edit::Write(path, content) => {
            write(path, &format!("{content}\n"));
        }
        Edit::Remove(path) if plain(part, path) => {
            // Whoever removes a folder removes what is seen of it.
            let seen: Vec<String> = files(part)
                .into_iter()
                .filter(|file| file == path || file.starts_with(&format!("{path}/")))
                .collect();
            for file in seen {
                fs::remove_file(whole.join(file)).unwrap();
            }
            if part.join(path).symlink_metadata().is_ok() {
                crate::worktree::remove_all(&part.join(path)).unwrap();
            }
        }
        Edit::Rename(from, to) if plain(part, from) && is_file(&part.join(from)) && from != to => {
            let content = fs::read_to_string(part.join(from)).unwrap();
            if write(to, &content) {
                fs::remove_file(whole.join(from)).unwrap();
                fs::remove_file(part.join(from)).unwrap();
            }
        }
        Edit::MakeExecutable(path) if plain(part, path) && is_file(&part.join(path)) => {
            make_executable(&part.join(path));
            make_executable(&whole.join(path));
        }
        _ => {}
    }
}

#[test]
fn the_candidate_of_a_part_is_that_of_the_whole_for_the_same_edits() {
    let sandbox = Sandbox::new();
    let wanted = proptest::collection::vec("(a|b|c)(/(a|b|c)){0,1}", 0..3);
    let edits = proptest::collection::vec(edit(), 0..6);
    let rules = proptest::option::of("(a|b|c|/a/|!b|b/c)\n(c|!c|b)\n");
    let mut runner = TestRunner::new(Config::with_cases(60));
    runner
        .run(&(some_tree(), some_tree(), wanted, edits, rules), |(base, more, wanted, edits, rules)| {
            let first = commit_some(&sandbox, &base);
            commit_some(&sandbox, &more);
            // What is ignored and tracked all the same, and rules that are not checked out.
            if let Some(rules) = rules {
                sandbox.write(".gitignore", rules);
            }
            sandbox.commit();
            let green = sandbox.id("HEAD^{tree}");
            let selection = selection(&sandbox, first, &wanted);
            let (whole, manifest) = sandbox.check_out(&green.to_string());
            let (part, selected) = check_out_part(&sandbox, green, &selection);
            assert!(files(&part).is_subset(&files(&whole)));
            assert!(is_as_made(&selected, &part, &[]).unwrap());
            assert_eq!(sandbox.snapshot(&part, &selected).tree, green, "nothing was done");
            // What was moved on from the base is the same part.
            let (from, of_base) = check_out_part(&sandbox, first, &selection);
            let moved = advance(&sandbox.open(), &of_base, green, &from, true).unwrap();
            assert!(is_as_made(&moved, &from, &[]).unwrap());
            assert_eq!(files(&from), files(&part));
            assert_eq!(sandbox.snapshot(&from, &moved).tree, green);

            for edit in &edits {
                apply(edit, &whole, &part);
            }
            let (of_whole, of_part) =
                (sandbox.snapshot(&whole, &manifest), sandbox.snapshot(&part, &selected));
            assert_eq!(sandbox.list(of_part.tree), sandbox.list(of_whole.tree));
            assert_eq!(of_part.tree, of_whole.tree);
            for place in [whole, part, from] {
                crate::worktree::remove_all(&place).unwrap();
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn git_in_a_part_takes_nothing_for_deleted_and_can_commit() {
    for format in ["--object-format=sha1", "--object-format=sha256"] {
        let sandbox = Sandbox::with(&[format]);
        sandbox.write("src/a", "one\n");
        sandbox.write("docs/deep/b", "two\n");
        sandbox.write("docs/c", "three\n");
        let base = sandbox.commit();
        let (repo, tree) = (sandbox.open(), sandbox.id("HEAD^{tree}"));
        let selection = selection(&sandbox, tree, &["src".to_owned()]);
        for sealed in [true, false] {
            let name = format!("loop-part-{sealed}");
            let linked = LinkedWorktree::create(&repo, &sandbox.places(), &name, base, "test").unwrap();
            let options =
                CheckoutOptions { verify: true, selection: Some(&selection), ..CheckoutOptions::default() };
            let (manifest, _) = checkout(&repo, tree, linked.path(), options).unwrap();
            if sealed {
                linked.seal(&repo, base, &manifest, &SealOptions::default()).unwrap();
            } else {
                linked.link(&manifest).unwrap();
            }
            let git = |args: &[&str]| sandbox.git_in(linked.path(), args);
            assert_eq!(git(&["status", "--porcelain"]), "");
            assert_eq!(git(&["ls-files", "-t"]), "S docs/c\nS docs/deep/b\nH src/a");
            git(&["fsck", "--strict"]);
            put(linked.path(), "src/a", "changed\n");
            put(linked.path(), "src/new", "new\n");
            put(linked.path(), "docs/new", "new\n");
            assert_eq!(git(&["status", "--porcelain"]), " M src/a\n?? docs/new\n?? src/new");
            git(&["add", "src"]);
            git(&["commit", "-q", "-m", "c"]);
            assert_eq!(git(&["ls-tree", "-r", "--name-only", "HEAD"]), "docs/c\ndocs/deep/b\nsrc/a\nsrc/new");
            git(&["reset", "-q", "--hard"]);
            assert!(!linked.path().join("docs/c").exists());
            if sealed {
                // A file in the place of one that is not checked out is seen.
                put(linked.path(), "docs/c", "mine\n");
                assert!(git(&["status", "--porcelain"]).contains("M docs/c"));
            }
        }
    }
}
