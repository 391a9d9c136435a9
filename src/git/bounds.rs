//! How much of an object is read into memory. Whoever fetches a ledger reads what others wrote: two megabytes of a packed file
//! can stand for gigabytes, and a delta of a few bytes for a base of that size. So the size that an object's header claims is
//! compared with a bound before the object is read, and the store that packed objects are decoded from has a bound for its
//! buffers, which covers the objects that a delta is based on.

use std::io;
use std::path::Path;

use gix::objs::Kind;
use gix::odb::pack::cache::lru::StaticLinkedList;
use gix::odb::store::init::Options;

/// How large an object may be in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The place, for the message: `record.json`.
    pub what: &'static str,
    /// The most bytes that are read.
    pub bytes: u64,
}

const MIB: u64 = 1 << 20;

impl Bound {
    /// A commit of a record or a candidate: its message is a function of the record, and short.
    pub const RECORD_COMMIT: Self = Self { what: "the commit", bytes: MIB };
    /// The tree of a record, and its `evidence/`: a handful of names.
    pub const RECORD_TREE: Self = Self { what: "the tree", bytes: 64 << 10 };
    /// `contract.json`, which lists every frozen path.
    pub const CONTRACT: Self = Self { what: "contract.json", bytes: 64 * MIB };
    /// `record.json`: it lists failing tests, at worst all those of the largest report, more than once.
    pub const RECORD: Self = Self { what: "record.json", bytes: 32 * MIB };
    /// `.loop_state.json`, which lists them, too.
    pub const STATE: Self = Self { what: ".loop_state.json", bytes: 32 * MIB };
    /// `STATUS.md`.
    pub const STATUS: Self = Self { what: "STATUS.md", bytes: MIB };
    /// `evidence/report`: as much as a check may report.
    pub const REPORT: Self = Self { what: "evidence/report", bytes: crate::check::MAX_REPORT as u64 };
    /// `evidence/metric-source`.
    pub const METRIC_SOURCE: Self =
        Self { what: "evidence/metric-source", bytes: crate::check::MAX_REPORT as u64 };
    /// `evidence/tests.json`: the tests of the largest report, as JSON.
    pub const TESTS: Self = Self { what: "evidence/tests.json", bytes: 64 * MIB };

    /// `evidence/worker.json`, where the decision rests on it. A larger one is read to say that it is too large.
    pub const WORKER_EVIDENCE: Self = Self { what: "evidence/worker.json", bytes: 64 * MIB };

    /// Any other file of `evidence/`.
    pub const EVIDENCE: Self = Self { what: "a file of evidence/", bytes: 64 * MIB };

    /// The bound of an object of this kind of which nothing else is known. A folder of 700,000 files is within it, and a file
    /// that a person could read.
    pub const fn of(kind: Kind) -> Self {
        match kind {
            Kind::Commit => Self { what: "commit", bytes: 16 * MIB },
            Kind::Tag => Self { what: "tag", bytes: 16 * MIB },
            Kind::Tree => Self { what: "tree", bytes: 32 * MIB },
            Kind::Blob => Self { what: "blob", bytes: 64 * MIB },
        }
    }
}

/// The most bytes of one buffer while a packed object is decoded. An object that is a delta needs its own size and that of its
/// base, each twice.
pub(super) const DECODING: usize = 256 << 20;
/// The most bytes of decoded bases that are kept for the next object.
const BASES: usize = 16 << 20;

/// Opens an object store whose buffers are bounded.
pub(crate) fn open_store(objects: &Path, hash: gix::hash::Kind) -> io::Result<gix::odb::Handle> {
    let options = Options { alloc_limit_bytes: Some(DECODING), ..Options::default() };
    let mut store = gix::odb::at_opts(objects, hash, None, options)?;
    store.set_pack_cache(|| Box::new(StaticLinkedList::<64>::new(BASES)));
    Ok(store)
}
