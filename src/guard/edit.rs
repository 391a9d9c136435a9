//! Making the trees that the guard needs: the frozen one and the one that the check sees.
//!
//! gix's editor keeps neither old file modes nor names that it would not check out; here everything that is not edited
//! stays as it is, byte for byte, and what is written is read again with the same strictness.

use std::collections::BTreeMap;

use gix::bstr::{BStr, BString, ByteSlice};
use gix::hash::{ObjectId, oid};

use super::tree::{Entry, Mode, TreeError, Trees, join, read, serialize};

/// Changes to apply to a tree, kept as a tree themselves.
#[derive(Debug, Default)]
pub struct Edits {
    children: BTreeMap<BString, Edit>,
}

#[derive(Debug)]
enum Edit {
    Put(Mode, ObjectId),
    Remove,
    Below(Edits),
}

impl Edits {
    /// Puts a file at `path`, in place of whatever has that name or is a file where a folder of it must be.
    pub fn put(&mut self, path: &BStr, mode: Mode, id: ObjectId) {
        self.set(path, Edit::Put(mode, id));
    }

    /// Removes the file, symlink or submodule link at `path`; a folder of that name stays.
    pub fn remove(&mut self, path: &BStr) {
        self.set(path, Edit::Remove);
    }

    fn set(&mut self, path: &BStr, edit: Edit) {
        let (first, rest) = match path.split_once_str("/") {
            Some((first, rest)) => (first, Some(rest)),
            None => (path.as_bytes(), None),
        };
        let slot = self.children.entry(first.into()).or_insert(Edit::Remove);
        match (rest, &mut *slot) {
            // What is put at a name decides about everything below it.
            (_, Edit::Put(..)) => {}
            (Some(rest), Edit::Below(below)) => below.set(rest.as_bstr(), edit),
            (Some(rest), Edit::Remove) => {
                let mut below = Self::default();
                below.set(rest.as_bstr(), edit);
                *slot = Edit::Below(below);
            }
            (None, Edit::Below(_)) if matches!(edit, Edit::Remove) => {}
            (None, _) => *slot = edit,
        }
    }

    /// Writes the tree `root` (`None`: the empty tree) with these changes and gives its id. Folders that become empty go.
    pub fn apply<T: Trees + ?Sized>(&self, trees: &T, root: Option<&oid>) -> Result<ObjectId, TreeError> {
        match self.apply_below(trees, root, BStr::new(""))? {
            Some(id) => Ok(id),
            None => trees.write_tree(&[]),
        }
    }

    fn apply_below<T: Trees + ?Sized>(
        &self,
        trees: &T,
        dir: Option<&oid>,
        at: &BStr,
    ) -> Result<Option<ObjectId>, TreeError> {
        let old = match dir {
            Some(id) => read(trees, id, at)?,
            None => Vec::new(),
        };
        let mut entries: BTreeMap<BString, Entry> =
            old.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
        for (name, edit) in &self.children {
            let current = entries.get(name);
            match edit {
                Edit::Put(mode, id) => {
                    entries.insert(name.clone(), Entry { mode: *mode, name: name.clone(), id: *id });
                }
                Edit::Remove if current.is_some_and(|entry| !entry.mode.is_tree()) => {
                    entries.remove(name);
                }
                Edit::Remove => {}
                Edit::Below(below) => {
                    let folder = current.filter(|entry| entry.mode.is_tree()).map(|entry| entry.id);
                    let written =
                        below.apply_below(trees, folder.as_deref(), join(at, name.as_bstr()).as_bstr())?;
                    match written {
                        Some(id) => {
                            let entry = Entry { mode: Mode::Tree, name: name.clone(), id };
                            entries.insert(name.clone(), entry);
                        }
                        None if folder.is_some() => {
                            entries.remove(name);
                        }
                        // Only removals below something that is no folder: there is nothing to remove.
                        None => {}
                    }
                }
            }
        }
        if entries.is_empty() {
            return Ok(None);
        }
        trees.write_tree(&serialize(entries.into_values().collect())).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use gix::hash::Kind;

    use super::super::tree::tests::Memory;
    use super::*;

    #[test]
    fn edits_replace_what_stands_in_the_way() {
        let memory = Memory::default();
        let root =
            memory.tree(&[("keep", "100755", "k"), ("tests", "120000", "src"), ("x/y/z", "100644", "z")]);
        let mut edits = Edits::default();
        edits.remove("tests".into());
        edits.put("tests/a/b".into(), Mode::File, memory.blob("b"));
        edits.remove("x/y/z".into());
        edits.remove("keep/nothing/there".into());
        let edited = edits.apply(&memory, Some(&root)).unwrap();
        assert_eq!(memory.paths(edited), ["100755 keep", "100644 tests/a/b"]);

        // A file where the edited tree has a folder of that name.
        let mut edits = Edits::default();
        edits.remove("tests/a/b".into());
        edits.put("tests/a".into(), Mode::File, memory.blob("a"));
        edits.remove("tests/a/c".into());
        assert_eq!(
            memory.paths(edits.apply(&memory, Some(&edited)).unwrap()),
            ["100755 keep", "100644 tests/a"]
        );

        let mut all = Edits::default();
        all.remove("keep".into());
        all.remove("tests/a/b".into());
        assert_eq!(all.apply(&memory, Some(&edited)).unwrap(), ObjectId::empty_tree(Kind::Sha1));
    }
}
