//! The third pass: tree objects, from the bottom up.

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice};
use gix::objs::Kind;
use gix::objs::tree::{EntryKind, EntryMode};

use super::{Node, What};
use crate::worktree::error::WorktreeError;
use crate::worktree::manifest::{Manifest, encode_tree, hash_object, tree_order};

/// Stores what is new and returns the root and the number of files. A folder that is as the manifest has it costs nothing.
pub(super) fn store_trees(
    repo: &gix::Repository,
    known: &Manifest,
    nodes: &[Node],
) -> Result<(ObjectId, usize), WorktreeError> {
    let empty = ObjectId::empty_tree(known.hash);
    let mut trees: Vec<Option<ObjectId>> = vec![None; nodes.len()];
    let mut files = 0;
    // A node comes before those below it.
    for (at, node) in nodes.iter().enumerate().rev() {
        let mut entries: Vec<(&BStr, EntryMode, ObjectId)> = Vec::with_capacity(node.entries.len());
        for found in &node.entries {
            let name = found.name.as_bstr();
            match &found.what {
                What::Same(mode, id) => {
                    files += usize::from(mode.is_blob_or_symlink());
                    entries.push((name, *mode, *id));
                }
                What::Dir(below) => {
                    if let Some(id) = trees[*below] {
                        entries.push((name, EntryKind::Tree.into(), id));
                    }
                }
                What::Read | What::Gone => {}
            }
        }
        let before = node.known.map(|dir| &known.dirs[dir]);
        if entries.is_empty() {
            // Git keeps no empty folders, unless the base came with one.
            trees[at] = (at == 0 || before.is_some_and(|dir| dir.tree == empty)).then_some(empty);
            continue;
        }
        entries.sort_unstable_by(|a, b| tree_order(a.0, a.1.is_tree(), b.0, b.1.is_tree()));
        let unchanged = before.filter(|dir| {
            dir.entries.len() == entries.len()
                && dir
                    .entries
                    .iter()
                    .zip(&entries)
                    .all(|(was, is)| was.name == is.0 && was.mode == is.1 && was.id == is.2)
        });
        let id = match unchanged {
            Some(dir) => dir.tree,
            None => store_tree(repo, known.hash, node.path.as_ref(), &entries)?,
        };
        trees[at] = Some(id);
    }
    let tree = trees.first().copied().flatten().unwrap_or(empty);
    if tree == empty {
        // The one tree that every git knows without having it; it is stored all the same, for other readers.
        store_tree(repo, known.hash, b"".as_bstr(), &[])?;
    }
    Ok((tree, files))
}

fn store_tree(
    repo: &gix::Repository,
    hash: gix::hash::Kind,
    path: &BStr,
    entries: &[(&BStr, EntryMode, ObjectId)],
) -> Result<ObjectId, WorktreeError> {
    let data = encode_tree(entries.iter().map(|(name, mode, id)| (*name, *mode, id)));
    let id = hash_object(hash, Kind::Tree, ObjectId::null(hash), &data)?;
    crate::git::loose::store(&repo.objects, Kind::Tree, &data, id)
        .map_err(|source| WorktreeError::Store { path: path.to_owned(), source: source.into() })?;
    Ok(id)
}
