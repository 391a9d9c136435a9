use super::*;
use crate::git::testing::TestRepo;
use proptest::prelude::*;

const SHA1: gix::hash::Kind = gix::hash::Kind::Sha1;

fn blob(repo: &Repo, content: &str) -> ObjectId {
    repo.write_raw(Kind::Blob, content.as_bytes(), Durability::Fast).unwrap()
}

fn write(repo: &Repo, entries: &[(&str, EntryKind, ObjectId)]) -> Result<ObjectId, TreeError> {
    repo.write_tree(entries.iter().map(|(path, mode, id)| (BStr::new(*path), *mode, *id)), Durability::Fast)
}

/// What git lists, as `mode path`.
fn ls_tree(repo: &TestRepo, tree: ObjectId) -> Vec<String> {
    let listed = repo.git(["ls-tree", "-r", "-z", &tree.to_string()]);
    let entries = listed.split_terminator('\0').map(|entry| entry.split_once('\t').unwrap());
    entries.map(|(entry, path)| format!("{} {path}", &entry[..6])).collect()
}

#[test]
fn trees_are_those_that_git_would_write() {
    for format in ["sha1", "sha256"] {
        let repo = TestRepo::with(&[&format!("--object-format={format}")]);
        let (open, x) = (repo.open(), blob(&repo.open(), "x"));
        let submodule = repo.id("HEAD");
        let entries = [
            ("a/b/c", EntryKind::Blob, x),
            ("a.b", EntryKind::BlobExecutable, x),
            ("a-b", EntryKind::Link, x),
            ("a/b.c", EntryKind::Blob, x),
            ("sub", EntryKind::Commit, submodule),
            ("späce \n", EntryKind::Blob, x),
        ];
        let tree = write(&open, &entries).unwrap();
        let index =
            entries.map(|(path, mode, id)| format!("{} {id}\t{path}\0", BStr::new(mode.as_octal_str())));
        repo.git_with_input(["update-index", "-z", "--index-info"], index.concat());
        assert_eq!(tree.to_string(), repo.git(["write-tree"]).trim());
        let listed = open.list_tree_recursive(tree).unwrap();
        let ours: Vec<_> =
            listed.iter().map(|e| format!("{} {}", BStr::new(e.mode.as_octal_str()), e.path)).collect();
        assert_eq!(ours, ls_tree(&repo, tree));
        repo.git(["fsck", "--strict"]);
    }
}

#[test]
fn the_empty_tree_is_there() {
    let repo = TestRepo::new();
    let open = repo.open();
    let tree = write(&open, &[]).unwrap();
    assert_eq!(tree, ObjectId::empty_tree(SHA1));
    assert_eq!(open.list_tree_recursive(tree).unwrap(), []);
}

#[test]
fn edits_touch_only_what_is_on_their_way() {
    let repo = TestRepo::new();
    let open = repo.open();
    let (x, y) = (blob(&open, "x"), blob(&open, "y"));
    let file = EntryKind::Blob;
    let tree =
        write(&open, &[("a/b/c", file, x), ("a/d", file, x), ("e/f/g", file, x), ("h", file, x)]).unwrap();
    let mut builder = TreeBuilder::from_tree(tree);
    assert_eq!(builder.write(&open, Durability::Fast).unwrap(), tree);
    builder.upsert(&open, "a/b/new".into(), EntryKind::BlobExecutable, y).unwrap();
    assert!(builder.remove(&open, "e/f/g".into()).unwrap());
    assert!(!builder.remove(&open, "e/f/none".into()).unwrap());
    assert!(!builder.remove(&open, "h/none".into()).unwrap());
    builder.upsert(&open, "h/i".into(), file, y).unwrap();
    builder.upsert(&open, "a/d".into(), file, y).unwrap();
    let edited = builder.write(&open, Durability::Fsync).unwrap();
    assert_eq!(ls_tree(&repo, edited), ["100644 a/b/c", "100755 a/b/new", "100644 a/d", "100644 h/i"]);
    assert_eq!(open.entry_at(edited, "a/d".into()).unwrap().unwrap().id, y);
    // A folder with everything in it, replaced and removed.
    builder.upsert(&open, "a".into(), file, x).unwrap();
    assert!(builder.remove(&open, "h".into()).unwrap());
    assert_eq!(ls_tree(&repo, builder.write(&open, Durability::Fast).unwrap()), ["100644 a"]);
    builder.remove(&open, "a".into()).unwrap();
    assert_eq!(builder.write(&open, Durability::Fast).unwrap(), ObjectId::empty_tree(SHA1));
    repo.git(["fsck", "--strict"]);
}

/// The corrupt siblings of a change are not looked at, so that a loop does not stop for what it does not touch.
#[test]
fn folders_beside_an_edit_are_not_read() {
    let repo = TestRepo::new();
    let open = repo.open();
    let x = blob(&open, "x");
    let absent = ObjectId::from_hex(&[b'1'; 40]).unwrap();
    let mut builder = TreeBuilder::empty();
    builder.upsert(&open, "gone".into(), EntryKind::Tree, absent).unwrap();
    let tree = builder.write(&open, Durability::Fast).unwrap();
    let mut builder = TreeBuilder::from_tree(tree);
    builder.upsert(&open, "new/file".into(), EntryKind::Blob, x).unwrap();
    let edited = builder.write(&open, Durability::Fast).unwrap();
    assert_eq!(open.entry_at(edited, "gone".into()).unwrap().unwrap().id, absent);
    let error = open.list_tree_recursive(edited).unwrap_err();
    assert_eq!(error.to_string(), format!("object {absent} is missing"));
}

#[test]
fn entries_are_found_by_path() {
    let repo = TestRepo::new();
    let open = repo.open();
    let x = blob(&open, "x");
    let tree = write(&open, &[("a/b/c", EntryKind::Blob, x), ("d", EntryKind::Link, x)]).unwrap();
    let at = |path: &str| open.entry_at(tree, path.into()).unwrap().map(|entry| entry.mode);
    assert_eq!(at("a/b/c"), Some(EntryKind::Blob));
    assert_eq!(at("a/b"), Some(EntryKind::Tree));
    assert_eq!(at("d"), Some(EntryKind::Link));
    for path in ["a/b/c/d", "a/x", "x", "d/e"] {
        assert_eq!(at(path), None, "{path}");
    }
    for path in ["", "/a", "a/", "a//b", "../a", "a/.git/config", ".GIT/x", "a\0b"] {
        assert!(matches!(open.entry_at(tree, path.into()), Err(TreeError::Path { .. })), "{path:?}");
        assert!(
            matches!(write(&open, &[(path, EntryKind::Blob, x)]), Err(TreeError::Path { .. })),
            "{path:?}"
        );
    }
}

#[test]
fn paths_in_each_others_way_are_refused() {
    let repo = TestRepo::new();
    let open = repo.open();
    let x = blob(&open, "x");
    for paths in [["a", "a"], ["a", "a/b"], ["a/b", "a"], ["a/b/c", "a/b"]] {
        let entries = paths.map(|path| (path, EntryKind::Blob, x));
        assert!(matches!(write(&open, &entries), Err(TreeError::Conflict { .. })), "{paths:?}");
    }
}

fn raw(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (mode, name) in entries {
        bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        bytes.extend_from_slice(&[7; 20]);
    }
    bytes
}

#[test]
fn trees_that_could_be_read_in_two_ways_are_refused() {
    let parse = |entries: &[(&str, &str)]| parse_tree(&raw(entries), SHA1, Modes::Strict);
    assert_eq!(parse(&[("100644", "a-b"), ("40000", "a"), ("100644", "a0")]).unwrap().len(), 3);
    assert_eq!(parse(&[("100644", "b"), ("100644", "a")]), Err(TreeProblem::Order("a".into())));
    assert_eq!(parse(&[("40000", "a"), ("100644", "a.b")]), Err(TreeProblem::Order("a.b".into())));
    assert_eq!(parse(&[("100644", "a"), ("100644", "a")]), Err(TreeProblem::Duplicate("a".into())));
    assert_eq!(
        parse(&[("100644", "a"), ("100644", "a.b"), ("40000", "a")]),
        Err(TreeProblem::Duplicate("a".into())),
        "also with something between them"
    );
    for bad in ["", ".", "..", "a/b", ".git", ".GiT"] {
        assert_eq!(parse(&[("100644", bad)]), Err(TreeProblem::Name(bad.into())), "{bad}");
    }
    for mode in ["", "644", "100664", "040000", "100600", "170000", "0", "1006440000000"] {
        assert_eq!(parse(&[(mode, "a")]), Err(TreeProblem::Mode(mode.into())), "{mode}");
    }
    let whole = raw(&[("100644", "a")]);
    for end in 1..whole.len() {
        assert_eq!(parse_tree(&whole[..end], SHA1, Modes::Strict), Err(TreeProblem::Truncated), "{end}");
    }
    let historic = |mode| parse_tree(&raw(&[(mode, "a")]), SHA1, Modes::Historic).map(|tree| tree[0].mode);
    assert_eq!(historic("100664"), Ok(EntryKind::Blob));
    assert_eq!(historic("100775"), Ok(EntryKind::BlobExecutable));
    assert_eq!(historic("040000"), Ok(EntryKind::Tree));
    assert!(historic("170000").is_err());
}

/// Ten levels of ten times the same tree claim ten thousand million files.
#[test]
fn a_tree_of_repetitions_is_not_walked_to_its_end() {
    let repo = TestRepo::new();
    let open = repo.open();
    let mut below = (EntryKind::Blob, blob(&open, "x"));
    for _ in 0..10 {
        let names: Vec<_> = (0..10).map(|n| format!("d{n}")).collect();
        let mut builder = TreeBuilder::empty();
        for name in &names {
            builder.upsert(&open, name.as_str().into(), below.0, below.1).unwrap();
        }
        below = (EntryKind::Tree, builder.write(&open, Durability::Fast).unwrap());
    }
    // Reading four million entries takes too long for a test; the depth is the same mechanism.
    let mut deep = (EntryKind::Blob, blob(&open, "x"));
    for _ in 0..=MAX_DEPTH {
        let mut builder = TreeBuilder::empty();
        builder.upsert(&open, "d".into(), deep.0, deep.1).unwrap();
        deep = (EntryKind::Tree, builder.write(&open, Durability::Fast).unwrap());
    }
    assert!(matches!(open.list_tree_recursive(deep.1), Err(TreeError::TooLarge { .. })));
}

proptest! {
    #[test]
    fn parsing_is_total(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_tree(&bytes, SHA1, Modes::Strict);
        let _ = parse_tree(&bytes, gix::hash::Kind::Sha256, Modes::Historic);
    }

    #[test]
    fn what_is_serialized_is_parsed_back(names in proptest::collection::btree_set("[a-c.\\-]{1,4}", 0..12), seed: u64) {
        let names: Vec<_> = names.into_iter().filter(|name| name_problem(name.as_bytes()).is_none()).collect();
        let mut entries: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(n, name)| TreeEntry {
                mode: if seed >> (n % 64) & 1 == 1 { EntryKind::Tree } else { EntryKind::Blob },
                name: name.as_str().into(),
                id: ObjectId::null(SHA1),
            })
            .collect();
        let bytes = serialize(&mut entries);
        prop_assert_eq!(parse_tree(&bytes, SHA1, Modes::Strict).unwrap(), entries);
    }
}
