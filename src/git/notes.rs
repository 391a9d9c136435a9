//! Receipts as git notes: lines of text on a commit.
//!
//! A notes ref is a chain of commits whose tree has a blob for each annotated object, under its id in hexadecimal:
//! `0123…`, or fanned out as `01/23…`, `01/23/45…`. Git reads any mixture and chooses by size when it writes; here a
//! note goes where the tree's own style puts it, and what others wrote is kept. The commits are not signed: notes are
//! an index that can be rebuilt from the ledger, and a signature would say no more.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};
use gix::objs::Kind;
use gix::objs::tree::EntryKind;
use gix::refs::FullNameRef;

use super::objects::{Durability, ObjectError};
use super::tree::{TreeBuilder, TreeEntry, TreeError};
use super::{Repo, Signature};

/// What went wrong with notes.
#[derive(Debug, thiserror::Error)]
pub enum NotesError {
    /// A tree of notes or a note cannot be read or written.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The notes ref does not point at a commit with a tree.
    #[error("{id} is not a commit of notes")]
    NotACommit {
        /// What it points at.
        id: ObjectId,
    },
    /// A line with a line break in it would be two.
    #[error("the line of a note must not be empty or have a line break")]
    NotALine,
    /// Somebody began to merge this notes ref by hand.
    #[error("a merge of {reference} is not finished: {}", path.display())]
    MergeInProgress {
        /// The notes ref, or `the notes` if it is not known.
        reference: String,
        /// What git left for the person to edit.
        path: PathBuf,
    },
}

impl From<ObjectError> for NotesError {
    fn from(error: ObjectError) -> Self {
        Self::Tree(error.into())
    }
}

impl From<NotesError> for crate::error::Error {
    fn from(error: NotesError) -> Self {
        match error {
            NotesError::Tree(error) => error.into(),
            NotesError::NotACommit { .. } => Self::workspace(error.to_string())
                .hint("the notes are an index of the ledger: delete the notes ref and they are made again"),
            NotesError::NotALine => Self::internal(error.to_string()),
            NotesError::MergeInProgress { .. } => Self::workspace(error.to_string())
                .hint("give it up: git notes merge --abort")
                .hint("or finish it: git notes merge --commit"),
        }
    }
}

/// A flat tree with more notes than this is fanned out. Every note rewrites the tree it is in, so a flat tree of 3,000
/// notes would cost 200 KB each; with this, two trees of less than 10 KB.
const MAX_FLAT: usize = 64;

impl Repo {
    /// Adds a line to the note of `target` and returns the new commit of the notes ref, which now is at `tip`. The
    /// ref is not moved: the commit goes into the same transaction as the record. A line that is there already
    /// changes nothing, and `tip` is returned.
    pub fn append_note_line(
        &self,
        tip: Option<ObjectId>,
        target: ObjectId,
        line: &str,
        who: &Signature,
        durability: Durability,
    ) -> Result<ObjectId, NotesError> {
        self.append_note_lines(tip, &[(target, line)], who, durability)
    }

    /// [`Repo::append_note_line`] for several lines in one commit.
    pub fn append_note_lines(
        &self,
        tip: Option<ObjectId>,
        lines: &[(ObjectId, &str)],
        who: &Signature,
        durability: Durability,
    ) -> Result<ObjectId, NotesError> {
        if lines.iter().any(|(_, line)| line.trim().is_empty() || line.contains(['\n', '\r', '\0'])) {
            return Err(NotesError::NotALine);
        }
        let mut tree = match tip {
            Some(tip) => self.notes_tree(tip)?,
            None => ObjectId::empty_tree(self.hash_kind()),
        };
        let before = tree;
        for (target, line) in lines {
            tree = self.append_to_tree(tree, *target, line, durability)?;
        }
        if let Some(tip) = tip
            && tree == before
        {
            return Ok(tip);
        }
        if tip.is_none() && lines.is_empty() {
            self.write_raw(Kind::Tree, b"", durability)?;
        }
        let parents: Vec<ObjectId> = tip.into_iter().collect();
        self.write_notes(tree, &parents, "added", who, durability)
    }

    /// The notes at `ours` with every line of those at `theirs` that they lack, as one commit after both. As lines are whole and
    /// in any order, there is nothing to be in conflict about.
    pub fn merge_notes(
        &self,
        ours: ObjectId,
        theirs: ObjectId,
        who: &Signature,
        durability: Durability,
    ) -> Result<ObjectId, NotesError> {
        let mut tree = self.notes_tree(ours)?;
        for (target, _) in self.list_notes(Some(theirs))? {
            for line in self.read_note_lines(Some(theirs), target)? {
                tree = self.append_to_tree(tree, target, &line, durability)?;
            }
        }
        self.write_notes(tree, &[ours, theirs], "merged", who, durability)
    }

    fn write_notes(
        &self,
        tree: ObjectId,
        parents: &[ObjectId],
        done: &str,
        who: &Signature,
        durability: Durability,
    ) -> Result<ObjectId, NotesError> {
        let mut lines = String::new();
        for parent in parents {
            let _ = writeln!(lines, "parent {parent}");
        }
        let commit =
            format!("tree {tree}\n{lines}author {who}\ncommitter {who}\n\nNotes {done} by 'git loop'\n");
        Ok(self.write_raw(Kind::Commit, commit.as_bytes(), durability)?)
    }

    /// The lines of the note of `target`, without blank ones and repetitions, which a merge of two notes leaves.
    pub fn read_note_lines(
        &self,
        tip: Option<ObjectId>,
        target: ObjectId,
    ) -> Result<Vec<String>, NotesError> {
        let Some(tip) = tip else { return Ok(Vec::new()) };
        let mut lines = Vec::new();
        for (_, blob) in self.find_notes(self.notes_tree(tip)?, target)? {
            let bytes = self.read_kind(blob, Kind::Blob)?;
            for line in bytes.lines() {
                let line = line.to_str_lossy();
                let line = line.trim_end_matches('\r');
                if !line.trim().is_empty() && !lines.iter().any(|known| known == line) {
                    lines.push(line.to_owned());
                }
            }
        }
        Ok(lines)
    }

    /// Every annotated object with its note, by path. An object with notes at two places is there twice.
    pub fn list_notes(&self, tip: Option<ObjectId>) -> Result<Vec<(ObjectId, ObjectId)>, NotesError> {
        let Some(tip) = tip else { return Ok(Vec::new()) };
        let entries = self.list_tree_recursive(self.notes_tree(tip)?)?;
        Ok(entries
            .into_iter()
            .filter(|entry| is_note(entry.mode))
            .filter_map(|entry| Some((self.annotated(&entry.path)?, entry.id)))
            .collect())
    }

    /// An error if somebody has begun to merge the notes ref by hand (`git notes merge -s manual`) in any work tree:
    /// what we add meanwhile would be missing from the result.
    pub fn check_no_notes_merge(&self, notes_ref: &FullNameRef) -> Result<(), NotesError> {
        let mut git_dirs = vec![self.common_dir().to_owned()];
        let linked = std::fs::read_dir(self.common_dir().join("worktrees")).into_iter().flatten();
        git_dirs.extend(linked.filter_map(|entry| Some(entry.ok()?.path())));
        for git_dir in git_dirs {
            let worktree = git_dir.join("NOTES_MERGE_WORKTREE");
            let partial = git_dir.join("NOTES_MERGE_PARTIAL");
            let path = if is_not_empty(&worktree) {
                worktree
            } else if partial.exists() {
                partial
            } else {
                continue;
            };
            let merged = std::fs::read(git_dir.join("NOTES_MERGE_REF")).ok();
            let merged =
                merged.as_deref().and_then(|content| content.strip_prefix(b"ref: ")).map(<[u8]>::trim_ascii);
            // One that does not say which ref it is about may be about this one.
            match merged {
                Some(other) if other != notes_ref.as_bstr() => {}
                _ => {
                    let reference =
                        merged.map_or("the notes".into(), |name| name.to_str_lossy().into_owned());
                    return Err(NotesError::MergeInProgress { reference, path });
                }
            }
        }
        Ok(())
    }

    fn append_to_tree(
        &self,
        tree: ObjectId,
        target: ObjectId,
        line: &str,
        durability: Durability,
    ) -> Result<ObjectId, NotesError> {
        let mut builder = TreeBuilder::from_tree(tree);
        let existing = self.find_notes(tree, target)?;
        let mut content = Vec::new();
        for (_, blob) in &existing {
            let bytes = self.read_kind(*blob, Kind::Blob)?;
            if bytes.lines().any(|known| known == line.as_bytes()) {
                return Ok(tree);
            }
            if content.is_empty() {
                content = bytes;
            }
        }
        if content.last().is_some_and(|&last| last != b'\n') {
            content.push(b'\n');
        }
        content.extend_from_slice(line.as_bytes());
        content.push(b'\n');
        let path = match existing.into_iter().next() {
            Some((path, _)) => path,
            None => self.place_for_note(tree, target, &mut builder)?,
        };
        let blob = self.write_raw(Kind::Blob, &content, durability)?;
        builder.upsert(self, path.as_bstr(), EntryKind::Blob, blob)?;
        Ok(builder.write(self, durability)?)
    }

    /// The tree of a commit of notes.
    fn notes_tree(&self, tip: ObjectId) -> Result<ObjectId, NotesError> {
        let (kind, bytes) = self.read_verified(tip)?;
        let not_a_commit = || NotesError::NotACommit { id: tip };
        if kind != Kind::Commit {
            return Err(not_a_commit());
        }
        let line =
            bytes.lines().next().and_then(|line| line.strip_prefix(b"tree ")).ok_or_else(not_a_commit)?;
        let tree = ObjectId::from_hex(line).map_err(|_| not_a_commit())?;
        if tree.kind() == self.hash_kind() { Ok(tree) } else { Err(not_a_commit()) }
    }

    /// Where the notes of `target` are, at any fan-out, the flattest first. A clumsy merge may leave more than one.
    fn find_notes(&self, tree: ObjectId, target: ObjectId) -> Result<Vec<(BString, ObjectId)>, NotesError> {
        let hex = target.to_string();
        let mut found = Vec::new();
        let mut tree = tree;
        let mut prefix = BString::default();
        let mut rest = hex.as_bytes();
        loop {
            let entries = self.read_tree(tree)?;
            if let Some(note) = entries.iter().find(|entry| is_note(entry.mode) && entry.name == rest) {
                let mut path = prefix.clone();
                path.extend_from_slice(rest);
                found.push((path, note.id));
            }
            let (fan, below) = rest.split_at(2);
            match entries.iter().find(|entry| entry.mode == EntryKind::Tree && entry.name == fan) {
                Some(folder) if !below.is_empty() => {
                    prefix.extend_from_slice(fan);
                    prefix.push(b'/');
                    tree = folder.id;
                    rest = below;
                }
                _ => return Ok(found),
            }
        }
    }

    /// Where a new note goes: down the fan-out that is there, fanning out a level that is flat and full.
    fn place_for_note(
        &self,
        tree: ObjectId,
        target: ObjectId,
        builder: &mut TreeBuilder,
    ) -> Result<BString, NotesError> {
        let hex = target.to_string();
        let mut entries = self.read_tree(tree)?;
        let mut prefix = BString::default();
        let mut rest = hex.as_bytes();
        loop {
            let (fan, below) = rest.split_at(2);
            let is_fan = |entry: &TreeEntry| {
                entry.mode == EntryKind::Tree && entry.name.len() == 2 && is_lower_hex(&entry.name)
            };
            let flat: Vec<_> = entries
                .iter()
                .filter(|entry| {
                    is_note(entry.mode) && entry.name.len() == rest.len() && is_lower_hex(&entry.name)
                })
                .collect();
            let fans_out = entries.iter().any(is_fan);
            if below.len() < 2 || (!fans_out && flat.len() < MAX_FLAT) {
                prefix.extend_from_slice(rest);
                return Ok(prefix);
            }
            if !fans_out {
                for note in flat {
                    let (fan, below) = note.name.split_at(2);
                    let path =
                        |parts: &[&[u8]]| BString::from([prefix.as_slice(), &parts.join(&b'/')].concat());
                    builder.remove(self, path(&[&note.name]).as_bstr())?;
                    builder.upsert(self, path(&[fan, below]).as_bstr(), note.mode, note.id)?;
                }
            }
            let folder =
                entries.iter().find(|entry| is_fan(entry) && entry.name == fan).map(|entry| entry.id);
            prefix.extend_from_slice(fan);
            prefix.push(b'/');
            rest = below;
            let Some(folder) = folder else {
                // A new folder, or one that was just made and is far from full.
                prefix.extend_from_slice(rest);
                return Ok(prefix);
            };
            entries = self.read_tree(folder)?;
        }
    }

    /// The object that a path in a tree of notes is about.
    fn annotated(&self, path: &[u8]) -> Option<ObjectId> {
        let mut hex = Vec::with_capacity(path.len());
        let mut parts = path.split_str("/").peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_some() && part.len() != 2 {
                return None;
            }
            hex.extend_from_slice(part);
        }
        let right_length = hex.len() == self.hash_kind().len_in_hex() && is_lower_hex(&hex);
        right_length.then(|| ObjectId::from_hex(&hex).ok()).flatten()
    }
}

fn is_note(mode: EntryKind) -> bool {
    matches!(mode, EntryKind::Blob | EntryKind::BlobExecutable)
}

fn is_lower_hex(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_not_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}

#[cfg(test)]
#[path = "notes_tests.rs"]
mod tests;
