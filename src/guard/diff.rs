//! Which files differ between two trees: the only source of a candidate's changed paths.
//!
//! Equal subtrees are never opened, so the cost is that of the change, not of the repository. There is no rename
//! tracking: a moved test is a deleted test.

use std::cmp::Ordering;

use gix::bstr::{BStr, BString, ByteSlice};
use gix::hash::{ObjectId, oid};
use gix::objs::tree::name_order;

use super::tree::{self, Entry, Mode, TreeError, Trees};

/// The most entries that are looked at. A few small trees that name each other can stand for billions of files.
pub const MAX_ENTRIES: usize = 2_000_000;

/// How a path differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// Only the new tree has it.
    Added,
    /// Only the old tree has it.
    Removed,
    /// A file, symlink or submodule link with other content (and perhaps another mode).
    Modified,
    /// A file became a symlink or submodule link, or one of these the other.
    TypeChanged,
    /// A file with the same content and another mode.
    ModeChanged,
}

/// One path that differs: a file, a symlink or a submodule link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// From the root, with slashes.
    pub path: BString,
    /// How it differs.
    pub kind: ChangeKind,
    /// Mode and object in the old tree.
    pub old: Option<(Mode, ObjectId)>,
    /// Mode and object in the new tree.
    pub new: Option<(Mode, ObjectId)>,
}

/// On which side a tree could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    /// The tree that the loop already had.
    #[error(transparent)]
    Old(TreeError),
    /// The tree that is being judged.
    #[error(transparent)]
    New(TreeError),
}

impl From<DiffError> for crate::error::Error {
    fn from(error: DiffError) -> Self {
        match error {
            DiffError::Old(error) | DiffError::New(error) => error.into(),
        }
    }
}

/// What changed from the tree `old` to the tree `new`, in the order of the paths' bytes.
///
/// A tree on the new side that is malformed, or that makes more than [`MAX_ENTRIES`] entries be looked at, is
/// [`DiffError::New`] with [`TreeError::Malformed`]: the caller decides whether that is a violation or a fault.
pub fn changes<T: Trees + ?Sized>(trees: &T, old: &oid, new: &oid) -> Result<Vec<Change>, DiffError> {
    changes_within(trees, old, new, MAX_ENTRIES)
}

fn changes_within<T: Trees + ?Sized>(
    trees: &T,
    old: &oid,
    new: &oid,
    limit: usize,
) -> Result<Vec<Change>, DiffError> {
    let mut diff = Diff { trees, limit, seen: 0, changes: Vec::new() };
    if old != new {
        diff.folders(Some(old), Some(new), BStr::new(""))?;
    }
    Ok(diff.changes)
}

struct Diff<'a, T: ?Sized> {
    trees: &'a T,
    limit: usize,
    seen: usize,
    changes: Vec<Change>,
}

impl<T: Trees + ?Sized> Diff<'_, T> {
    fn folders(&mut self, old: Option<&oid>, new: Option<&oid>, at: &BStr) -> Result<(), DiffError> {
        let read = |id: Option<&oid>| id.map_or(Ok(Vec::new()), |id| tree::read(self.trees, id, at));
        let old_entries = read(old).map_err(DiffError::Old)?;
        let new_entries = read(new).map_err(DiffError::New)?;
        // Only the new side can be made to grow without limit here: the old one is a tree that was walked before.
        self.seen += new_entries.len() + 1;
        if self.seen > self.limit {
            return Err(DiffError::New(TreeError::Malformed {
                id: new.map_or(ObjectId::null(self.trees.hash_kind()), ToOwned::to_owned),
                path: crate::escape::escape_path(at),
                why: "the tree holds more than two million entries",
            }));
        }
        let (mut old, mut new) = (old_entries.iter().peekable(), new_entries.iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                // A file and a folder of one name are two different entries, so this is also the order of the paths.
                (Some(a), Some(b)) => name_order(&a.name, a.mode.is_tree(), &b.name, b.mode.is_tree()),
            };
            let a = if order.is_le() { old.next() } else { None };
            let b = if order.is_ge() { new.next() } else { None };
            self.entries(a, b, at)?;
        }
    }

    fn entries(&mut self, old: Option<&Entry>, new: Option<&Entry>, at: &BStr) -> Result<(), DiffError> {
        let Some(either) = old.or(new) else { return Ok(()) };
        let path = tree::join(at, either.name.as_bstr());
        if either.mode.is_tree() {
            let (old, new) = (old.map(|entry| entry.id), new.map(|entry| entry.id));
            return if old == new {
                Ok(())
            } else {
                self.folders(old.as_deref(), new.as_deref(), path.as_bstr())
            };
        }
        let (old, new) = (old.map(|entry| (entry.mode, entry.id)), new.map(|entry| (entry.mode, entry.id)));
        let kind = match (old, new) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Removed,
            (Some(old), Some(new)) if old == new => return Ok(()),
            (Some(old), Some(new)) if old.0.noun() != new.0.noun() => ChangeKind::TypeChanged,
            (Some(old), Some(new)) if old.1 == new.1 => ChangeKind::ModeChanged,
            _ => ChangeKind::Modified,
        };
        self.changes.push(Change { path, kind, old, new });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Repo;
    use super::super::tree::tests::Memory;
    use super::*;
    use proptest::prelude::*;

    fn listed(memory: &Memory, old: ObjectId, new: ObjectId) -> Vec<String> {
        changes(memory, &old, &new).unwrap().iter().map(|c| format!("{:?} {}", c.kind, c.path)).collect()
    }

    #[test]
    fn every_kind_of_change_in_path_order() {
        let memory = Memory::default();
        let old = memory.tree(&[
            ("a", "100644", "becomes a folder"),
            ("a-b", "100644", "1"),
            ("gone/x", "100644", "1"),
            ("link", "100644", "to"),
            ("mode", "100644", "same"),
            ("old", "100664", "same"),
            ("same/deep/file", "100644", "1"),
            ("sub", "160000", "1"),
            ("text", "100644", "1"),
        ]);
        let new = memory.tree(&[
            ("a-b", "100755", "2"),
            ("a/b", "100644", "now below"),
            ("link", "120000", "to"),
            ("mode", "100755", "same"),
            ("new/y", "100644", "1"),
            ("old", "100644", "same"),
            ("same/deep/file", "100644", "1"),
            ("sub", "160000", "2"),
            ("text", "100644", "2"),
        ]);
        assert_eq!(
            listed(&memory, old, new),
            [
                "Removed a",
                "Modified a-b",
                "Added a/b",
                "Removed gone/x",
                "TypeChanged link",
                "ModeChanged mode",
                "Added new/y",
                "ModeChanged old",
                "Modified sub",
                "Modified text"
            ]
        );
        assert_eq!(listed(&memory, new, new), Vec::<String>::new());
        assert_eq!(listed(&memory, ObjectId::empty_tree(gix::hash::Kind::Sha1), old).len(), 9);
    }

    #[test]
    fn a_malformed_tree_says_on_which_side() {
        let memory = Memory::default();
        let good = memory.tree(&[("dir/a", "100644", "1")]);
        let dir = memory.raw(b"100644 b\0aaaaaaaaaaaaaaaaaaaa100644 a\0aaaaaaaaaaaaaaaaaaaa");
        let bad = memory.raw(&tree::serialize(vec![Entry { mode: Mode::Tree, name: "dir".into(), id: dir }]));
        let error = changes(&memory, &good, &bad).unwrap_err();
        assert!(
            matches!(&error, DiffError::New(TreeError::Malformed { path, .. }) if path == "dir"),
            "{error:?}"
        );
        assert!(matches!(changes(&memory, &bad, &good), Err(DiffError::Old(TreeError::Malformed { .. }))));
        assert!(matches!(changes(&memory, &good, &memory.blob("x")), Err(DiffError::New(_))));
    }

    /// Six levels of 20 names that all point at the level below stand for 64 million files, or for none at all.
    #[test]
    fn a_tree_bomb_is_refused() {
        let memory = Memory::default();
        let empty = ObjectId::empty_tree(gix::hash::Kind::Sha1);
        for (mut mode, mut id) in [(Mode::File, memory.blob("x")), (Mode::Tree, empty)] {
            for _ in 0..6 {
                let entries = (0..20).map(|n| Entry { mode, name: format!("{n:02}").into(), id }).collect();
                id = memory.raw(&tree::serialize(entries));
                mode = Mode::Tree;
            }
            let error = changes_within(&memory, &empty, &id, 20_000).unwrap_err();
            assert!(error.to_string().contains("more than two million"), "{error}");
        }
    }

    fn files() -> impl Strategy<Value = Vec<(String, usize, usize)>> {
        proptest::collection::vec(("[ab](-b)?(/[ab.]x?){0,2}", 0..4_usize, 0..3_usize), 0..10)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
        /// Same paths, order, modes, ids and letters as `git diff-tree`.
        #[test]
        fn agrees_with_git_diff_tree(old in files(), new in files()) {
            let repo = Repo::shared();
            let build = |files: &[(String, usize, usize)]| {
                let mut edits = super::super::edit::Edits::default();
                for (path, mode, content) in files {
                    let mode = [Mode::File, Mode::Executable, Mode::Symlink, Mode::Gitlink][*mode];
                    let id = repo.gix().write_blob(content.to_string()).unwrap().detach();
                    edits.put(path.as_str().into(), mode, id);
                }
                edits.apply(repo.gix(), None).unwrap()
            };
            let (old, new) = (build(&old), build(&new));
            let ours: Vec<String> = changes(repo.gix(), &old, &new)
                .unwrap()
                .iter()
                .map(|change| {
                    let side = |side: Option<(Mode, ObjectId)>| side.map_or_else(
                        || ("000000".to_owned(), ObjectId::null(gix::hash::Kind::Sha1)),
                        |(mode, id)| (mode.octal().to_owned(), id),
                    );
                    let ((m1, i1), (m2, i2)) = (side(change.old), side(change.new));
                    let letter = match change.kind {
                        ChangeKind::Added => 'A',
                        ChangeKind::Removed => 'D',
                        ChangeKind::TypeChanged => 'T',
                        ChangeKind::Modified | ChangeKind::ModeChanged => 'M',
                    };
                    format!(":{m1} {m2} {i1} {i2} {letter}\0{}\0", change.path)
                })
                .collect();
            let theirs = repo.git(&["diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev",
                &old.to_string(), &new.to_string()]);
            prop_assert_eq!(ours.concat(), theirs);
        }
    }
}
