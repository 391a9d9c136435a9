//! Writing objects, and reading them with their hash checked.
//!
//! gix writes loose objects and never syncs them; neither gix nor git compares an object with its id when it reads
//! it. Here what is written is remembered until it is synced (see `durable`), and every read hashes again.

use std::io;
use std::path::PathBuf;

use gix::ObjectId;
use gix::objs::{Find, Kind};
use gix::prelude::HeaderExt;

use super::Repo;
use super::bounds::{self, Bound};
use super::loose;

/// Whether something is on the disk when a call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It survives a loss of power. Costs about 2 ms for a record.
    Fsync,
    /// It survives the end of the process; for what can be made again, and for objects that a transaction will wait for.
    Fast,
}

/// What went wrong with an object.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// It is not there.
    #[error("object {id} is missing{}", if *promised { ": this is a partial clone" } else { "" })]
    Missing {
        /// The object.
        id: ObjectId,
        /// Whether a remote may have it.
        promised: bool,
    },
    /// Its content is not what its id says, or cannot be decoded.
    #[error("object {id} is corrupt: {problem}")]
    Corrupt {
        /// The object.
        id: ObjectId,
        /// What is wrong.
        problem: String,
    },
    /// It is of another kind.
    #[error("object {id} is a {found}, not a {wanted}")]
    WrongKind {
        /// The object.
        id: ObjectId,
        /// What it is.
        found: Kind,
        /// What it should be.
        wanted: Kind,
    },
    /// It is larger than what stands in its place ever is.
    #[error("{} {id} has {size} bytes, more than the {} that are read of one", bound.what, bound.bytes)]
    TooLarge {
        /// The object.
        id: ObjectId,
        /// What it stands for, and how large that may be.
        bound: Bound,
        /// How large it says it is.
        size: u64,
    },
    /// It is small and packed as a difference to something giant.
    #[error("object {id} cannot be decoded within {} MiB: it is packed as a delta of something giant", bounds::DECODING >> 20)]
    GiantBase {
        /// The object.
        id: ObjectId,
    },
    /// It cannot be hashed or written.
    #[error("cannot write a {kind}")]
    Write {
        /// What was to be written.
        kind: Kind,
        /// Why.
        source: Box<gix::Error>,
    },
    /// It cannot be made durable.
    #[error("cannot sync {}", path.display())]
    Sync {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl From<ObjectError> for crate::error::Error {
    fn from(error: ObjectError) -> Self {
        let message = error.to_string();
        match error {
            ObjectError::Missing { promised: true, .. } => {
                Self::workspace(message).hint("fetch everything: git fetch --refetch --no-filter")
            }
            ObjectError::Missing { .. } => Self::workspace(message)
                .hint("fetch it: git fetch, from a clone that has it")
                .hint("see what else is missing: git fsck"),
            ObjectError::Corrupt { .. } => Self::workspace(message)
                .hint("see what else is corrupt: git fsck")
                .hint("take the object from another clone of this repository"),
            ObjectError::WrongKind { .. } => Self::workspace(message).hint("look at it: git cat-file -p ID"),
            ObjectError::TooLarge { id, .. } => Self::workspace(message).hint(format!(
                "see how large it is: git cat-file -s {id}; it was made by something else than git-loop"
            )),
            ObjectError::GiantBase { .. } => {
                Self::workspace(message).hint("if you trust where it comes from: git repack -adf")
            }
            ObjectError::Write { source, .. } => Self::workspace(message)
                .caused_by(source)
                .hint("check the free space and who may write there"),
            ObjectError::Sync { source, .. } => {
                Self::workspace(message).caused_by(source).hint("check the health of the disk")
            }
        }
    }
}

impl Repo {
    /// Writes one object and returns its id. One that is there already is not written again.
    pub fn write_raw(
        &self,
        kind: Kind,
        bytes: &[u8],
        durability: Durability,
    ) -> Result<ObjectId, ObjectError> {
        Ok(self.write_many(&[(kind, bytes)], durability)?[0])
    }

    /// Writes objects and returns their ids in the same order. With [`Durability::Fsync`] all of them are on the
    /// disk when this returns, those too that were there already; files are synced one by one, folders once.
    pub fn write_many(
        &self,
        objects: &[(Kind, &[u8])],
        durability: Durability,
    ) -> Result<Vec<ObjectId>, ObjectError> {
        let mut ids = Vec::with_capacity(objects.len());
        for &(kind, bytes) in objects {
            let write_error = |source| ObjectError::Write { kind, source: Box::new(source) };
            let id = gix::objs::compute_hash(self.hash_kind(), kind, bytes).map_err(write_error)?;
            loose::store(&self.gix().objects, kind, bytes, id).map_err(write_error)?;
            ids.push(id);
        }
        match durability {
            Durability::Fsync => self.sync_objects(&ids)?,
            Durability::Fast => self.remember_written(&ids),
        }
        Ok(ids)
    }

    /// Whether an object is there, in a pack, loose, or in what is being pushed.
    pub fn has_object(&self, id: ObjectId) -> bool {
        self.gix().has_object(id)
            || self.incoming().is_some_and(|store| gix::objs::Exists::exists(store, &id))
    }

    /// The kind and the size in bytes of an object, without reading all of it and so without checking it.
    pub fn object_header(&self, id: ObjectId) -> Result<(Kind, u64), ObjectError> {
        let found = self.gix().objects.header(id);
        let header = match (found, self.incoming()) {
            (Err(_), Some(store)) => store.header(id),
            (found, _) => found,
        };
        header.map(|header| (header.kind(), header.size())).map_err(|error| {
            if self.has_object(id) {
                ObjectError::Corrupt { id, problem: error.to_string() }
            } else {
                self.missing(id)
            }
        })
    }

    /// Reads an object and hashes it again. An object whose content is not what its id says is an error that names
    /// it, as is one that is missing, or larger than [`Bound::of`] its kind.
    pub fn read_verified(&self, id: ObjectId) -> Result<(Kind, Vec<u8>), ObjectError> {
        self.read_within(id, Bound::of)
    }

    /// [`Repo::read_verified`] for an object that has to be of one kind.
    pub fn read_kind(&self, id: ObjectId, wanted: Kind) -> Result<Vec<u8>, ObjectError> {
        self.read_at_most(id, wanted, Bound::of(wanted))
    }

    /// [`Repo::read_kind`] with another bound. The size that the header claims is looked at before anything is read.
    pub fn read_at_most(&self, id: ObjectId, wanted: Kind, bound: Bound) -> Result<Vec<u8>, ObjectError> {
        let of = |found: Kind| if found == wanted { bound } else { Bound::of(found) };
        match self.read_within(id, of)? {
            (found, bytes) if found == wanted => Ok(bytes),
            (found, _) => Err(ObjectError::WrongKind { id, found, wanted }),
        }
    }

    fn read_within(
        &self,
        id: ObjectId,
        bound: impl Fn(Kind) -> Bound,
    ) -> Result<(Kind, Vec<u8>), ObjectError> {
        // As for gix and git, the empty tree exists everywhere, also where nobody wrote it.
        if id == ObjectId::empty_tree(self.hash_kind()) {
            return Ok((Kind::Tree, Vec::new()));
        }
        let within = |kind: Kind, size: u64| {
            let bound = bound(kind);
            if size > bound.bytes { Err(ObjectError::TooLarge { id, bound, size }) } else { Ok(()) }
        };
        let corrupt = |problem: String| ObjectError::Corrupt { id, problem };
        let hash = |kind, bytes: &[u8]| {
            gix::objs::compute_hash(self.hash_kind(), kind, bytes).map_err(|error| corrupt(error.to_string()))
        };
        let mut bytes = Vec::new();
        // What is read here is small, whatever it says.
        let mut found = None;
        if let Some(kind) = loose::read(self.gix().objects.store_ref().path(), &id, &mut bytes) {
            let actual = hash(kind, &bytes)?;
            if actual == id {
                within(kind, bytes.len() as u64)?;
                return Ok((kind, bytes));
            }
            // A bad loose file may lie over a good pack.
            found = Some(actual);
        }
        let bad = |actual: ObjectId| corrupt(format!("its content has the id {actual}"));
        let (kind, size) = self.object_header(id)?;
        within(kind, size)?;
        let kind = match self.find_bounded(&id, &mut bytes) {
            Ok(Some(kind)) => kind,
            Ok(None) => return Err(found.map_or_else(|| self.missing(id), bad)),
            Err(error) if error.is_resource_exhausted() => return Err(ObjectError::GiantBase { id }),
            Err(error) => return Err(found.map_or_else(|| corrupt(error.to_string()), bad)),
        };
        let actual = hash(kind, &bytes)?;
        if actual == id { Ok((kind, bytes)) } else { Err(bad(actual)) }
    }

    /// Finds an object anywhere, in packs first, in a store whose buffers are bounded: the bases of a delta have no header that
    /// is looked at before.
    fn find_bounded(&self, id: &gix::oid, buffer: &mut Vec<u8>) -> gix::Result<Option<Kind>> {
        let store = match self.bounded.get() {
            Some(store) => store,
            None => {
                let objects = self.gix().objects.store_ref().path();
                let store = bounds::open_store(objects, self.hash_kind()).map_err(gix::Error::from_error)?;
                self.bounded.get_or_init(|| store)
            }
        };
        let found = store.try_find(id, buffer).map(|found| found.map(|data| data.kind));
        match (found, self.incoming()) {
            (Ok(Some(kind)), _) => Ok(Some(kind)),
            (_, Some(store)) => Ok(store.try_find(id, buffer)?.map(|data| data.kind)),
            (found, None) => found,
        }
    }

    pub(super) fn missing(&self, id: ObjectId) -> ObjectError {
        ObjectError::Missing { id, promised: self.is_partial_clone() }
    }

    /// Where an object is, if it is loose.
    pub(super) fn loose_path(&self, id: ObjectId) -> PathBuf {
        loose::path(&self.common_dir().join("objects"), &id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::testing::TestRepo;

    #[test]
    fn what_is_written_is_what_git_would_write() {
        for format in ["sha1", "sha256"] {
            let repo = TestRepo::with(&[&format!("--object-format={format}")]);
            let open = repo.open();
            let objects: [(Kind, &[u8]); 3] =
                [(Kind::Blob, b"hello\n"), (Kind::Blob, b""), (Kind::Tree, b"")];
            let ids = open.write_many(&objects, Durability::Fsync).unwrap();
            assert_eq!(ids[0].to_string(), repo.git_with_input(["hash-object", "--stdin"], "hello\n").trim());
            assert_eq!(repo.git(["cat-file", "-p", &ids[0].to_string()]), "hello\n");
            assert_eq!(open.write_many(&objects, Durability::Fast).unwrap(), ids);
            for (id, (kind, bytes)) in ids.iter().zip(objects) {
                assert_eq!(open.read_verified(*id).unwrap(), (kind, bytes.to_owned()));
                assert_eq!(open.object_header(*id).unwrap(), (kind, bytes.len() as u64));
            }
            repo.git(["fsck", "--strict"]);
        }
    }

    #[test]
    fn packed_objects_are_read_and_not_written_again() {
        let repo = TestRepo::new();
        let id = repo.open().write_raw(Kind::Blob, b"packed", Durability::Fast).unwrap();
        repo.git(["update-ref", "refs/tags/keep", &id.to_string()]);
        repo.git(["repack", "-adq"]);
        let open = repo.open();
        assert!(!open.loose_path(id).exists());
        assert_eq!(open.write_raw(Kind::Blob, b"packed", Durability::Fsync).unwrap(), id);
        // Whoever makes a pack anew leaves out what nothing reaches: it is written once more.
        assert!(open.loose_path(id).exists());
        assert_eq!(open.read_kind(id, Kind::Blob).unwrap(), b"packed");
        let error = open.read_kind(id, Kind::Tree).unwrap_err();
        assert_eq!(error.to_string(), format!("object {id} is a blob, not a tree"));
    }

    #[test]
    fn an_open_repository_sees_what_others_write_and_pack() {
        let repo = TestRepo::new();
        let open = repo.open();
        open.read_verified(repo.id("HEAD")).unwrap();
        let second = repo.commit("second");
        open.read_verified(second).unwrap();
        repo.git(["gc", "-q", "--prune=now"]);
        let third = repo.commit("third");
        for id in [second, third] {
            assert_eq!(open.read_verified(id).unwrap().0, Kind::Commit);
        }
    }

    /// Puts other bytes in the file of a loose object.
    fn damage(open: &Repo, id: ObjectId, content: &[u8]) {
        let path = open.loose_path(id);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(path, content).unwrap();
    }

    #[test]
    fn corrupt_and_missing_objects_are_named() {
        let repo = TestRepo::new();
        let open = repo.open();
        let good = open.write_raw(Kind::Blob, b"good", Durability::Fast).unwrap();
        let evil = open.write_raw(Kind::Blob, b"evil", Durability::Fast).unwrap();
        // A whole and valid object in the place of another one; git reads it without a word.
        let bytes = std::fs::read(open.loose_path(evil)).unwrap();
        damage(&open, good, &bytes);
        assert_eq!(repo.git(["cat-file", "-p", &good.to_string()]), "evil");
        let error = open.read_verified(good).unwrap_err();
        assert_eq!(error.to_string(), format!("object {good} is corrupt: its content has the id {evil}"));

        damage(&open, evil, b"not zlib");
        let error = open.read_verified(evil).unwrap_err();
        assert!(matches!(error, ObjectError::Corrupt { id, .. } if id == evil), "{error}");

        let absent = ObjectId::from_hex(b"1111111111111111111111111111111111111111").unwrap();
        let error = open.read_verified(absent).unwrap_err();
        assert_eq!(error.to_string(), format!("object {absent} is missing"));
        assert!(matches!(open.object_header(absent), Err(ObjectError::Missing { .. })));
        repo.git(["config", "extensions.partialClone", "origin"]);
        let error = crate::error::Error::from(repo.open().read_verified(absent).unwrap_err());
        assert_eq!(error.hints(), ["fetch everything: git fetch --refetch --no-filter"]);
    }

    /// Puts a loose object in place that says of itself to be much larger than it is: nobody should look further.
    fn claim(open: &Repo, id: ObjectId, kind: &str, size: u64) {
        let path = open.loose_path(id);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut stream = Vec::new();
        loose::put_stored(&mut stream, format!("{kind} {size}\0and so on").as_bytes());
        std::fs::write(path, stream).unwrap();
    }

    #[test]
    fn what_says_that_it_is_too_large_is_not_read() {
        let repo = TestRepo::new();
        let open = repo.open();
        let giant = 2 << 30;
        for (nibble, kind) in [("1", Kind::Blob), ("2", Kind::Tree), ("3", Kind::Commit), ("4", Kind::Tag)] {
            let id = ObjectId::from_hex(nibble.repeat(40).as_bytes()).unwrap();
            claim(&open, id, &kind.to_string(), giant);
            let error = open.read_verified(id).unwrap_err();
            let bound = Bound::of(kind).bytes;
            assert_eq!(
                error.to_string(),
                format!("{kind} {id} has {giant} bytes, more than the {bound} that are read of one")
            );
            assert!(matches!(open.read_kind(id, kind), Err(ObjectError::TooLarge { .. })));
        }
        let blob = open.write_raw(Kind::Blob, &[b'x'; 101], Durability::Fast).unwrap();
        let bound = |bytes| Bound { what: "sample", bytes };
        assert_eq!(open.read_at_most(blob, Kind::Blob, bound(101)).unwrap().len(), 101);
        let error = open.read_at_most(blob, Kind::Blob, bound(100)).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("sample {blob} has 101 bytes, more than the 100 that are read of one")
        );
    }

    /// A varint as in the header of a delta: seven bits a byte, the low ones first.
    fn varint(mut value: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value > 0x7f {
            bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
            value >>= 7;
        }
        bytes.push(u8::try_from(value).unwrap());
        bytes
    }

    /// An entry of a pack (`gitformat-pack`): type and size, what comes before the data, and the data.
    fn packed(kind: u8, before: &[u8], data: &[u8]) -> Vec<u8> {
        let mut size = data.len();
        let mut entry = vec![kind << 4 | u8::try_from(size & 15).unwrap()];
        size >>= 4;
        while size > 0 {
            *entry.last_mut().unwrap() |= 0x80;
            entry.push(u8::try_from(size & 0x7f).unwrap());
            size >>= 7;
        }
        entry.extend_from_slice(before);
        loose::put_stored(&mut entry, data);
        entry
    }

    /// How far back a base is, as in an entry of a pack: seven bits a byte, the high ones first, each byte but the last one more.
    fn offset(mut back: usize) -> Vec<u8> {
        let mut bytes = vec![u8::try_from(back & 0x7f).unwrap()];
        while back > 0x7f {
            back = (back >> 7) - 1;
            bytes.push(u8::try_from(back & 0x7f).unwrap() | 0x80);
        }
        bytes.reverse();
        bytes
    }

    /// A delta that makes `times` copies of the first `length` bytes of a base of `base` bytes.
    fn copies(base: usize, length: u32, times: usize) -> Vec<u8> {
        let mut delta = varint(base);
        delta.extend(varint(length as usize * times));
        for _ in 0..times {
            let [a, b, c, _] = length.to_le_bytes();
            delta.extend([0b1111_0000, a, b, c]);
        }
        delta
    }

    /// A few kilobytes of a pack in which each object is sixteen times the one before, and the last one small again.
    #[test]
    fn a_small_delta_of_a_giant_base_is_not_decoded() {
        let repo = TestRepo::new();
        let zeros = vec![0_u8; 1 << 16];
        let id = |bytes: &[u8]| gix::objs::compute_hash(gix::hash::Kind::Sha1, Kind::Blob, bytes).unwrap();
        let (first, second, third) = (1 << 20, 1 << 24, 9 * 0xff_ffff);
        let mut entries = vec![packed(3, &[], &zeros)];
        let deltas =
            [(zeros.len(), 1 << 16, 16), (first, 1 << 20, 16), (second, 0xff_ffff, 9), (third, 10, 1)];
        for (base, length, times) in deltas {
            let back = offset(entries.last().unwrap().len());
            entries.push(packed(6, &back, &copies(base, length, times)));
        }
        let mut pack = b"PACK\0\0\0\x02\0\0\0\x05".to_vec();
        pack.extend(entries.concat());
        let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
        hasher.update(&pack);
        pack.extend_from_slice(hasher.try_finalize().unwrap().as_slice());
        repo.git_with_input(["index-pack", "--stdin"], &pack);

        let open = repo.open();
        // The third one is not asked for by its id: to hash it would take longer than all the rest.
        assert_eq!(open.read_kind(id(&vec![0; first]), Kind::Blob).unwrap().len(), first);
        let last = id(&[0; 10]);
        assert_eq!(open.object_header(last).unwrap(), (Kind::Blob, 10));
        assert_eq!(
            open.read_kind(last, Kind::Blob).unwrap_err().to_string(),
            format!(
                "object {last} cannot be decoded within 256 MiB: it is packed as a delta of something giant"
            )
        );
    }

    #[test]
    fn an_empty_file_that_a_loss_of_power_left_is_written_again() {
        let repo = TestRepo::new();
        let open = repo.open();
        let id = open.write_raw(Kind::Blob, b"again", Durability::Fast).unwrap();
        damage(&open, id, b"");
        assert!(matches!(open.read_verified(id), Err(ObjectError::Corrupt { .. })));
        assert_eq!(open.write_raw(Kind::Blob, b"again", Durability::Fsync).unwrap(), id);
        assert_eq!(open.read_kind(id, Kind::Blob).unwrap(), b"again");
    }

    #[test]
    fn what_is_being_pushed_is_seen_and_refs_stay_as_they_are() {
        use crate::git::{Expect, LoopId, RefChange, RefError};
        let repo = TestRepo::new();
        let incoming = repo.outside().join("incoming");
        std::fs::create_dir_all(incoming.join("pack")).unwrap();
        let vars =
            [("GIT_OBJECT_DIRECTORY", incoming.as_path()), ("GIT_QUARANTINE_PATH", incoming.as_path())];
        let mut host = repo.host().clone();
        for (name, value) in vars {
            host = host.with_var(name, value);
        }
        let hex = {
            let alternate = repo.path().join(".git/objects");
            let mut command = std::process::Command::new("git");
            command.env_clear().envs(host.vars()).current_dir(repo.path());
            command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", alternate).env_remove("GIT_QUARANTINE_PATH");
            command.args(["commit-tree", "-m", "pushed", "HEAD^{tree}"]);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let pushed: ObjectId = hex.trim().parse().unwrap();
        assert!(!repo.open().has_object(pushed));
        let open = Repo::open_bare_ok(repo.path(), &host).unwrap();
        assert!(open.has_object(pushed));
        assert_eq!(open.read_verified(pushed).unwrap().0, Kind::Commit);
        assert_eq!(open.object_header(pushed).unwrap().0, Kind::Commit);
        assert!(open.read_verified(repo.id("HEAD")).is_ok());
        let name = LoopId::new("fix").unwrap().refs().head();
        let change = RefChange { name, expect: Expect::Any, to: Some(pushed), message: String::new() };
        let error = open.update_refs(&[change], &repo.signature(), Durability::Fast).unwrap_err();
        assert!(matches!(error, RefError::Quarantine), "{error}");
    }
}
