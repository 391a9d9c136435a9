//! Short forms of what the rest of the house does all the time. Objects are written without waiting for the disk; the
//! transaction that moves the refs to them waits.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};

use gix::ObjectId;
use gix::bstr::{BStr, BString};
use gix::object::Kind;
use gix::objs::tree::EntryKind;

use super::{Durability, Expect, ObjectError, RefChange, RefError, Repo, Signature, TreeError};
use crate::at::At;
use crate::guard::{self, tree::Trees};
use crate::oid::Oid;
use crate::sign::parse_signed;

/// The name under which refs are moved, in reflogs and in commits of notes, where nobody signs.
const NAME: &str = "git-loop";
/// Its address.
const EMAIL: &str = "git-loop@git-loop.invalid";
/// How many commits are looked at before two histories are walked to where they part.
const NEAR: usize = 64;

impl Repo {
    /// Writes a blob.
    pub fn write_blob(&self, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        self.write_raw(Kind::Blob, bytes, Durability::Fast)
    }

    /// Writes a commit.
    pub fn write_commit(&self, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        self.write_raw(Kind::Commit, bytes, Durability::Fast)
    }

    /// The content of a blob.
    pub fn read_blob(&self, id: ObjectId) -> Result<Vec<u8>, ObjectError> {
        self.read_kind(id, Kind::Blob)
    }

    /// Writes the trees that hold `files` and returns the root.
    pub fn write_files(&self, files: &[(BString, EntryKind, ObjectId)]) -> Result<ObjectId, TreeError> {
        self.write_tree(files.iter().map(|(path, mode, id)| (path.as_ref(), *mode, *id)), Durability::Fast)
    }

    /// The tree of a commit.
    pub fn commit_tree(&self, commit: ObjectId) -> Result<ObjectId, ObjectError> {
        let raw = self.read_kind(commit, Kind::Commit)?;
        // Commits of other people may be odd in ways that records must not be; only the tree matters here.
        match parse_signed(&raw, self.hash_kind()) {
            Ok(signed) => Ok(signed.commit.tree),
            Err(_) => gix::objs::CommitRefIter::from_bytes(&raw, self.hash_kind())
                .tree_id()
                .map_err(|problem| ObjectError::Corrupt { id: commit, problem: problem.to_string() }),
        }
    }

    /// Whether `descendant` is `ancestor` or comes after it.
    pub fn is_ancestor(&self, ancestor: ObjectId, descendant: ObjectId) -> Result<bool, ObjectError> {
        if self.is_near_ancestor(ancestor, descendant) {
            return Ok(true);
        }
        match self.gix().merge_base(ancestor, descendant) {
            Ok(base) => Ok(base.is_some_and(|base| base.detach() == ancestor)),
            Err(error) => Err(ObjectError::Corrupt { id: descendant, problem: error.to_string() }),
        }
    }

    /// Whether `ancestor` is found among the first [`NEAR`] commits from `descendant` back. A merge base walks both histories for as
    /// long as their dates are the same, which those of a fast loop are; nearly every question here is one of a few commits.
    fn is_near_ancestor(&self, ancestor: ObjectId, descendant: ObjectId) -> bool {
        let mut seen = HashSet::from([descendant]);
        let mut next = VecDeque::from([descendant]);
        while let Some(id) = next.pop_front() {
            if id == ancestor {
                return true;
            }
            // What cannot be read here is the other walk's to report.
            let Ok(raw) = self.read_kind(id, Kind::Commit) else { return false };
            for parent in gix::objs::CommitRefIter::from_bytes(&raw, self.hash_kind()).parent_ids() {
                if seen.len() < NEAR && seen.insert(parent) {
                    next.push_back(parent);
                }
            }
        }
        false
    }

    /// The content of the file at `path` in the tree of `commit`; `None` if there is none.
    pub fn read_path_at(&self, commit: ObjectId, path: &str) -> Result<Option<Vec<u8>>, TreeError> {
        let tree = self.commit_tree(commit)?;
        match self.entry_at(tree, BStr::new(path))? {
            Some(entry) if matches!(entry.mode, EntryKind::Blob | EntryKind::BlobExecutable) => {
                Ok(Some(self.read_blob(entry.id)?))
            }
            _ => Ok(None),
        }
    }

    /// Where a ref points, and if that is a tag, what the tag stands for.
    pub fn read_ref_peeled(&self, name: &str) -> Result<Option<ObjectId>, RefError> {
        let Ok(mut reference) = self.gix().find_reference(name) else { return Ok(None) };
        Ok(reference.peel_to_id().ok().map(gix::Id::detach))
    }

    /// Moves the refs of loops by compare-and-swap, all or none. When this returns they and everything that was written so
    /// far are on the disk, unless `loop.fsync` says that nobody waits for that.
    pub fn move_refs(&self, changes: &[RefChange], at: At) -> Result<(), RefError> {
        self.sync_written()?;
        self.update_refs(changes, &signature(at), self.durability())?;
        self.restore_fresh()?;
        Ok(())
    }
}

/// Trees for the guards: read through the repository, so that a server's quarantine is in view; what is written stays in
/// memory.
#[derive(Debug)]
pub struct TreesInMemory<'a> {
    repo: &'a Repo,
    made: RefCell<HashMap<ObjectId, Vec<u8>>>,
}

impl<'a> TreesInMemory<'a> {
    /// Over the objects of `repo`.
    pub fn new(repo: &'a Repo) -> Self {
        Self { repo, made: RefCell::default() }
    }
}

impl Trees for TreesInMemory<'_> {
    fn hash_kind(&self) -> gix::hash::Kind {
        self.repo.hash_kind()
    }

    fn read_tree(&self, id: &gix::hash::oid) -> Result<Vec<u8>, guard::tree::TreeError> {
        if let Some(bytes) = self.made.borrow().get(id) {
            return Ok(bytes.clone());
        }
        self.repo.read_kind(id.to_owned(), Kind::Tree).map_err(|error| guard::tree::TreeError::Unreadable {
            what: "tree",
            id: id.to_owned(),
            why: error.to_string(),
        })
    }

    fn read_blob(
        &self,
        id: &gix::hash::oid,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, guard::tree::TreeError> {
        let fault = |error: ObjectError| guard::tree::TreeError::Unreadable {
            what: "blob",
            id: id.to_owned(),
            why: error.to_string(),
        };
        let (_, size) = self.repo.object_header(id.to_owned()).map_err(fault)?;
        if size > limit as u64 {
            return Ok(None);
        }
        self.repo.read_kind(id.to_owned(), Kind::Blob).map(Some).map_err(fault)
    }

    fn write_tree(&self, data: &[u8]) -> Result<ObjectId, guard::tree::TreeError> {
        let id = gix::objs::compute_hash(self.repo.hash_kind(), Kind::Tree, data)
            .expect("hashing memory does not fail");
        self.made.borrow_mut().insert(id, data.to_vec());
        Ok(id)
    }
}

/// Who moves refs and writes notes.
pub fn signature(at: At) -> Signature {
    Signature::new(NAME, EMAIL, at.timestamp()).expect("a constant name is a valid one")
}

impl From<Option<Oid>> for Expect {
    fn from(found: Option<Oid>) -> Self {
        Self::just(found.map(|id| id.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    use crate::git::testing::TestRepo;

    /// A commit of the base's tree on these parents, all of the same second, as those of a fast loop are.
    fn commit(repo: &Repo, parents: &[ObjectId], message: &str) -> ObjectId {
        let tree = repo.write_files(&[]).unwrap();
        let mut text = format!("tree {tree}\n");
        for parent in parents {
            writeln!(text, "parent {parent}").unwrap();
        }
        text.push_str("author A <a@example.org> 1700000000 +0000\n");
        write!(text, "committer A <a@example.org> 1700000000 +0000\n\n{message}\n").unwrap();
        repo.write_commit(text.as_bytes()).unwrap()
    }

    #[test]
    fn an_ancestor_is_found_near_and_far_and_nothing_else_is_one() {
        let place = TestRepo::new();
        let repo = place.open();
        let mut line = vec![commit(&repo, &[], "root")];
        for number in 1..NEAR * 3 {
            line.push(commit(&repo, &[line[number - 1]], &number.to_string()));
        }
        let tip = *line.last().unwrap();
        for ancestor in &line {
            assert!(repo.is_ancestor(*ancestor, tip).unwrap());
        }
        assert!(!repo.is_ancestor(tip, line[line.len() - 2]).unwrap());
        let side = commit(&repo, &[line[NEAR]], "side");
        let stranger = commit(&repo, &[], "stranger");
        assert!(!repo.is_ancestor(side, tip).unwrap());
        assert!(!repo.is_ancestor(tip, side).unwrap());
        assert!(!repo.is_ancestor(stranger, tip).unwrap());
        let merge = commit(&repo, &[tip, side, stranger], "merge");
        for ancestor in [line[0], tip, side, stranger, merge] {
            assert!(repo.is_ancestor(ancestor, merge).unwrap());
        }
    }

    #[test]
    fn a_missing_commit_is_said() {
        let place = TestRepo::new();
        let repo = place.open();
        let missing = ObjectId::from_hex(b"1234567890123456789012345678901234567890").unwrap();
        let root = commit(&repo, &[], "root");
        let child = commit(&repo, &[missing], "its parent is not here");
        assert!(repo.is_ancestor(root, missing).is_err());
        // As in a shallow clone: what is beyond the end of a history cannot be told to be in it.
        assert!(!repo.is_ancestor(root, child).unwrap());
        // The id that a commit names is an ancestor, whether or not anybody has it.
        assert!(repo.is_ancestor(missing, child).unwrap());
    }
}
