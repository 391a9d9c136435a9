//! Reading trees strictly, and writing them.
//!
//! A tree object is `<octal mode> SP <name> NUL <id bytes>` repeated, in git's own order (gitformat-pack and
//! `git help fsck`). git reads much more than it writes: unsorted trees, duplicate names, padded modes, names with a
//! slash. Each of them lets one reader see another file than the next one, so here they are errors.

use std::collections::HashSet;

use gix::bstr::{BStr, BString, ByteSlice};
use gix::hash::{Kind, ObjectId, oid};
use gix::objs::tree::name_order;

/// The longest path that is read, in bytes: Linux's `PATH_MAX`, beyond which a checkout fails anyway.
pub const MAX_PATH: usize = 4096;
/// The deepest nesting of folders that is read; a bound for the recursion over trees.
pub const MAX_DEPTH: usize = 512;

/// Where trees and the targets of symlinks come from: a repository, or a map in a test.
pub trait Trees {
    /// The hash of this store.
    fn hash_kind(&self) -> Kind;
    /// The raw bytes of the tree `id`; they must hash to `id`.
    fn read_tree(&self, id: &oid) -> Result<Vec<u8>, TreeError>;
    /// The raw bytes of the blob `id`, or `None` if it is larger than `limit` bytes.
    fn read_blob(&self, id: &oid, limit: usize) -> Result<Option<Vec<u8>>, TreeError>;
    /// Stores a tree that [`serialize`] has written.
    fn write_tree(&self, data: &[u8]) -> Result<ObjectId, TreeError>;
}

/// Why a tree cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// An object is missing, of another kind, or its bytes do not hash to its name.
    #[error("cannot read the {what} {id}: {why}")]
    Unreadable {
        /// `tree` or `blob`.
        what: &'static str,
        /// The object.
        id: ObjectId,
        /// What the object store said.
        why: String,
    },
    /// A tree object that git may read but never writes.
    #[error("the tree {id} at `{}` is malformed: {why}", show_root(path))]
    Malformed {
        /// The tree object.
        id: ObjectId,
        /// The folder it stands for, escaped; empty for the root.
        path: String,
        /// The fault.
        why: &'static str,
    },
    /// A tree could not be stored.
    #[error("cannot write a tree: {why}")]
    Unwritable {
        /// What the object store said.
        why: String,
    },
}

fn show_root(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

impl From<TreeError> for crate::error::Error {
    fn from(error: TreeError) -> Self {
        let hint = match &error {
            TreeError::Unreadable { .. } => "run `git fsck` and fetch what is missing",
            TreeError::Malformed { .. } => {
                "run `git fsck --strict` and rewrite the commit that holds this tree"
            }
            TreeError::Unwritable { .. } => "check the free space and the permissions of the repository",
        };
        Self::workspace(error.to_string()).hint(hint)
    }
}

/// What a tree entry is. The file modes of old git versions (100664) are kept apart from today's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// 40000
    Tree,
    /// 100644
    File,
    /// 100664, which git stopped writing in 2005 and old histories still hold
    GroupFile,
    /// 100755
    Executable,
    /// 120000
    Symlink,
    /// 160000
    Gitlink,
}

impl Mode {
    /// The mode with these octal digits, exactly as git writes them.
    pub fn from_octal(digits: &[u8]) -> Option<Self> {
        Some(match digits {
            b"40000" => Self::Tree,
            b"100644" => Self::File,
            b"100664" => Self::GroupFile,
            b"100755" => Self::Executable,
            b"120000" => Self::Symlink,
            b"160000" => Self::Gitlink,
            _ => return None,
        })
    }

    /// The octal digits in a tree object.
    pub fn octal(self) -> &'static str {
        match self {
            Self::Tree => "40000",
            Self::File => "100644",
            Self::GroupFile => "100664",
            Self::Executable => "100755",
            Self::Symlink => "120000",
            Self::Gitlink => "160000",
        }
    }

    /// A folder.
    pub fn is_tree(self) -> bool {
        self == Self::Tree
    }

    /// A regular file, executable or not.
    pub fn is_file(self) -> bool {
        matches!(self, Self::File | Self::GroupFile | Self::Executable)
    }

    /// The same for people and error messages.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Tree => "folder",
            Self::File | Self::GroupFile | Self::Executable => "file",
            Self::Symlink => "symlink",
            Self::Gitlink => "submodule link",
        }
    }
}

/// One entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub mode: Mode,
    /// Its name, without a slash, not empty.
    pub name: BString,
    /// The object.
    pub id: ObjectId,
}

/// Reads the tree `id` that stands for the folder `at` (empty for the root), in git's order.
pub fn read<T: Trees + ?Sized>(trees: &T, id: &oid, at: &BStr) -> Result<Vec<Entry>, TreeError> {
    if *id == *ObjectId::empty_tree(trees.hash_kind()) {
        return Ok(Vec::new());
    }
    let data = trees.read_tree(id)?;
    parse(&data, trees.hash_kind())
        .and_then(|entries| check_size(entries, at))
        .map_err(|why| TreeError::Malformed { id: id.to_owned(), path: crate::escape::escape_path(at), why })
}

fn check_size(entries: Vec<Entry>, at: &BStr) -> Result<Vec<Entry>, &'static str> {
    if at.find_iter("/").count() >= MAX_DEPTH {
        return Err("folders are nested more than 512 deep");
    }
    let longest = entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    if at.len() + longest < MAX_PATH { Ok(entries) } else { Err("a path is longer than 4096 bytes") }
}

/// Reads the bytes of a tree object; an error names the first fault.
pub fn parse(mut data: &[u8], hash: Kind) -> Result<Vec<Entry>, &'static str> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut leaves = HashSet::new();
    while !data.is_empty() {
        let (digits, rest) = data.split_once_str(" ").ok_or("an entry has no mode")?;
        let mode = Mode::from_octal(digits).ok_or("an entry has a mode that git does not write")?;
        let (name, rest) = rest.split_once_str("\0").ok_or("an entry has no end of name")?;
        if name.is_empty() {
            return Err("an entry has an empty name");
        }
        if name.contains(&b'/') {
            return Err("an entry has a name with a slash");
        }
        let id = rest.get(..hash.len_in_bytes()).ok_or("the last entry is cut short")?;
        data = &rest[id.len()..];
        let id = ObjectId::try_from(id).map_err(|_| "an entry has an id of the wrong length")?;

        if let Some(last) = entries.last() {
            match name_order(&last.name, last.mode.is_tree(), name, mode.is_tree()) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Err("two entries have the same name"),
                std::cmp::Ordering::Greater => return Err("the entries are not in git's order"),
            }
        }
        // `a` and the folder `a` differ in order, with `a-b` between them: neighbours alone do not show the pair.
        // The file always comes first.
        if !mode.is_tree() {
            leaves.insert(name);
        } else if leaves.contains(name) {
            return Err("two entries have the same name");
        }
        entries.push(Entry { mode, name: name.into(), id });
    }
    Ok(entries)
}

/// The bytes of the tree with these entries, which are put into git's order.
pub fn serialize(mut entries: Vec<Entry>) -> Vec<u8> {
    entries.sort_by(|a, b| name_order(&a.name, a.mode.is_tree(), &b.name, b.mode.is_tree()));
    let mut data = Vec::with_capacity(entries.len() * 48);
    for entry in &entries {
        data.extend_from_slice(entry.mode.octal().as_bytes());
        data.push(b' ');
        data.extend_from_slice(&entry.name);
        data.push(0);
        data.extend_from_slice(entry.id.as_slice());
    }
    data
}

/// `dir` and `name` joined; `dir` is empty at the root.
pub fn join(dir: &BStr, name: &BStr) -> BString {
    if dir.is_empty() {
        return name.to_owned();
    }
    let mut path = BString::from(Vec::with_capacity(dir.len() + 1 + name.len()));
    path.extend_from_slice(dir);
    path.push(b'/');
    path.extend_from_slice(name);
    path
}

/// Every leading folder of `path`, outermost first, without `path` itself.
pub fn parents(path: &BStr) -> impl Iterator<Item = &BStr> {
    path.find_iter("/").map(move |slash| path[..slash].as_bstr())
}

/// Calls `visit` with every file, symlink and submodule link of the tree `root`, in path order.
pub fn walk<T: Trees + ?Sized>(
    trees: &T,
    root: &oid,
    visit: &mut dyn FnMut(BString, Mode, ObjectId),
) -> Result<(), TreeError> {
    walk_below(trees, root, BStr::new(""), visit)
}

pub(super) fn walk_below<T: Trees + ?Sized>(
    trees: &T,
    id: &oid,
    at: &BStr,
    visit: &mut dyn FnMut(BString, Mode, ObjectId),
) -> Result<(), TreeError> {
    for entry in read(trees, id, at)? {
        let path = join(at, entry.name.as_bstr());
        if entry.mode.is_tree() {
            walk_below(trees, &entry.id, path.as_bstr(), visit)?;
        } else {
            visit(path, entry.mode, entry.id);
        }
    }
    Ok(())
}

impl Trees for gix::Repository {
    fn hash_kind(&self) -> Kind {
        self.object_hash()
    }

    fn read_tree(&self, id: &oid) -> Result<Vec<u8>, TreeError> {
        let fault = |why: String| TreeError::Unreadable { what: "tree", id: id.to_owned(), why };
        let mut data = Vec::new();
        let read = crate::git::loose::read(self.objects.store_ref().path(), id, &mut data);
        if read == Some(gix::objs::Kind::Tree)
            && gix::objs::compute_hash(self.object_hash(), gix::objs::Kind::Tree, &data)
                .is_ok_and(|actual| *actual == *id)
        {
            return Ok(data);
        }
        let size = self.find_header(id.to_owned()).map_err(|error| fault(error.to_string()))?.size();
        let bound = crate::git::Bound::of(gix::objs::Kind::Tree).bytes;
        if size > bound {
            return Err(fault(format!("it has {size} bytes, more than the {bound} that are read of one")));
        }
        let mut object = self.find_object(id.to_owned()).map_err(|error| fault(error.to_string()))?;
        if object.kind != gix::objs::Kind::Tree {
            return Err(fault(format!("it is a {}", object.kind)));
        }
        // Neither git nor gix compares an object with its name when it reads one, and a replacement ref would give
        // other bytes.
        let actual = gix::objs::compute_hash(self.object_hash(), gix::objs::Kind::Tree, &object.data)
            .map_err(|error| fault(error.to_string()))?;
        if *actual != *id {
            return Err(fault(format!("its content is that of {actual}")));
        }
        Ok(std::mem::take(&mut object.data))
    }

    fn read_blob(&self, id: &oid, limit: usize) -> Result<Option<Vec<u8>>, TreeError> {
        let fault = |why: String| TreeError::Unreadable { what: "blob", id: id.to_owned(), why };
        let header = self.find_header(id.to_owned()).map_err(|error| fault(error.to_string()))?;
        if header.kind() != gix::objs::Kind::Blob {
            return Err(fault(format!("it is a {}", header.kind())));
        }
        if header.size() > limit as u64 {
            return Ok(None);
        }
        let mut object = self.find_object(id.to_owned()).map_err(|error| fault(error.to_string()))?;
        let actual = gix::objs::compute_hash(self.object_hash(), object.kind, &object.data)
            .map_err(|error| fault(error.to_string()))?;
        if *actual != *id {
            return Err(fault(format!("its content is that of {actual}")));
        }
        Ok(Some(std::mem::take(&mut object.data)))
    }

    fn write_tree(&self, data: &[u8]) -> Result<ObjectId, TreeError> {
        use gix::objs::Write as _;
        let unwritable = |error: gix::Error| TreeError::Unwritable { why: error.to_string() };
        let kind = gix::objs::Kind::Tree;
        let id = gix::objs::compute_hash(self.object_hash(), kind, data).map_err(unwritable)?;
        if self.objects.num_objects_in_memory() > 0 {
            // Only there, as whoever made this handle wants it.
            return self.objects.write_buf(kind, data).map_err(unwritable);
        }
        // gix would write anew what is there, and a loss of power might then take it from whoever had it.
        crate::git::loose::store(&self.objects, kind, data, id).map_err(unwritable)?;
        Ok(id)
    }
}

/// A handle whose new objects stay in memory: for trees that can be made again at any time.
pub fn in_memory(repo: &gix::Repository) -> gix::Repository {
    use gix::objs::Write as _;
    let repo = repo.clone().with_object_memory();
    // A handle does not say where it writes to, only how much is in its memory already.
    let _ = repo.objects.write_buf(gix::objs::Kind::Blob, b"");
    repo
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::RefCell;
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::super::edit::Edits;
    use super::*;

    /// Trees and blobs in memory, under their real ids.
    #[derive(Default)]
    pub struct Memory(RefCell<HashMap<ObjectId, Vec<u8>>>);

    impl Memory {
        pub fn blob(&self, data: &str) -> ObjectId {
            self.put(gix::objs::Kind::Blob, data.as_bytes())
        }

        fn put(&self, kind: gix::objs::Kind, data: &[u8]) -> ObjectId {
            let id = gix::objs::compute_hash(Kind::Sha1, kind, data).unwrap();
            self.0.borrow_mut().insert(id, data.to_vec());
            id
        }

        /// The tree with these `(path, octal mode, content)`; the content of a submodule link is ignored.
        pub fn tree(&self, files: &[(&str, &str, &str)]) -> ObjectId {
            let mut edits = Edits::default();
            for (path, mode, content) in files {
                let mode = Mode::from_octal(mode.as_bytes()).unwrap();
                edits.put((*path).into(), mode, self.blob(content));
            }
            edits.apply(self, None).unwrap()
        }

        /// Stores any bytes as a tree.
        pub fn raw(&self, data: &[u8]) -> ObjectId {
            self.put(gix::objs::Kind::Tree, data)
        }

        pub fn paths(&self, root: ObjectId) -> Vec<String> {
            let mut paths = Vec::new();
            walk(self, &root, &mut |path, mode, _| paths.push(format!("{} {path}", mode.octal()))).unwrap();
            paths
        }
    }

    impl Trees for Memory {
        fn hash_kind(&self) -> Kind {
            Kind::Sha1
        }

        fn read_tree(&self, id: &oid) -> Result<Vec<u8>, TreeError> {
            self.0.borrow().get(id).cloned().ok_or_else(|| TreeError::Unreadable {
                what: "tree",
                id: id.to_owned(),
                why: "missing".into(),
            })
        }

        fn read_blob(&self, id: &oid, limit: usize) -> Result<Option<Vec<u8>>, TreeError> {
            Ok(Some(self.read_tree(id)?).filter(|data| data.len() <= limit))
        }

        fn write_tree(&self, data: &[u8]) -> Result<ObjectId, TreeError> {
            Ok(self.raw(data))
        }
    }

    fn entry(text: &str) -> Vec<u8> {
        let mut data = text.as_bytes().to_vec();
        data.push(0);
        data.extend_from_slice(&[7; 20]);
        data
    }

    #[test]
    fn trees_that_git_never_writes_are_malformed() {
        for (entries, why) in [
            (&["100644 b", "100644 a"][..], "the entries are not in git's order"),
            (&["100644 a", "100755 a"], "two entries have the same name"),
            (&["100644 a", "100644 a-b", "40000 a"], "two entries have the same name"),
            (&["40000 a", "40000 a"], "two entries have the same name"),
            (&["40000 a", "100644 a-b"], "the entries are not in git's order"),
            (&["040000 a"], "an entry has a mode that git does not write"),
            (&["0100644 a"], "an entry has a mode that git does not write"),
            (&["100600 a"], "an entry has a mode that git does not write"),
            (&["100644 a/b"], "an entry has a name with a slash"),
            (&["100644 "], "an entry has an empty name"),
            (&["100644"], "an entry has no mode"),
        ] {
            let data: Vec<u8> = entries.iter().flat_map(|text| entry(text)).collect();
            assert_eq!(parse(&data, Kind::Sha1), Err(why), "{entries:?}");
        }
        let whole = entry("100644 a");
        assert_eq!(parse(&whole[..whole.len() - 1], Kind::Sha1), Err("the last entry is cut short"));
        assert_eq!(parse(&whole, Kind::Sha256), Err("the last entry is cut short"));
        assert_eq!(parse(b"100644 a", Kind::Sha1), Err("an entry has no end of name"));
        assert!(
            parse(&[entry("100644 a-b"), entry("40000 a"), entry("120000 a0")].concat(), Kind::Sha1).is_ok()
        );
    }

    #[test]
    fn a_path_longer_or_deeper_than_a_system_takes_is_malformed() {
        let memory = Memory::default();
        for (path, fault) in [
            (vec!["d".repeat(255); 17].join("/"), "a path is longer than 4096 bytes"),
            (vec!["d"; 600].join("/"), "folders are nested more than 512 deep"),
        ] {
            let root = memory.tree(&[(&path, "100644", "")]);
            let error = walk(&memory, &root, &mut |_, _, _| {}).unwrap_err();
            assert!(matches!(error, TreeError::Malformed { why, .. } if why == fault), "{error}");
        }
    }

    proptest! {
        #[test]
        fn parsing_is_total(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&data, Kind::Sha1);
        }

        #[test]
        fn what_is_written_is_read_back(
            entries in proptest::collection::btree_map("[a-c.\\-0]{1,3}", (0..6_usize, any::<[u8; 20]>()), 0..12)
        ) {
            let modes = [Mode::Tree, Mode::File, Mode::GroupFile, Mode::Executable, Mode::Symlink, Mode::Gitlink];
            let entries: Vec<Entry> = entries
                .into_iter()
                .map(|(name, (mode, id))| Entry { mode: modes[mode], name: name.into(), id: id.into() })
                .collect();
            let data = serialize(entries.clone());
            let mut parsed = parse(&data, Kind::Sha1).unwrap();
            prop_assert_eq!(serialize(parsed.clone()), data);
            parsed.sort_by(|a, b| a.name.cmp(&b.name));
            prop_assert_eq!(parsed, entries);
        }
    }
}
