//! Small loose objects (`gitformat-loose(5)`), which are what a loop writes and reads all the time.
//!
//! They are written without compression: what fits a block or two of the disk gains little by it, and to set a compressor up costs
//! ten times as much as the rest. git reads such files as it reads its own (it writes them with `core.compression = 0`), and
//! compresses the objects when it packs them. They are read without a memory map, for the same reason. Whatever is large, packed or
//! odd is left to gix.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use gix::ObjectId;
use gix::hash::oid;
use gix::objs::Kind;
use gix::zlib::{Inflate, Status};

/// Two blocks of nearly every file system.
const SMALL: usize = 8192;
/// More than the header, the frame of one stored block and the checksum take.
const FRAME: usize = 48;
/// A larger object is written in pieces, so that it can be given up.
const PIECEWISE: usize = 1 << 20;
/// How often something is tried again that git has taken away meanwhile.
const TRIES: usize = 8;
/// The largest file that is read here.
const LARGEST_FILE: usize = 64 << 10;
/// A read that gives less of a file has come to its end.
const HALF: usize = LARGEST_FILE / 2;
/// The largest object that is read here.
const LARGEST_OBJECT: u64 = 1 << 20;
/// Where one object was not loose, the next few are not looked for either: they will be in the same pack.
const SKIPPED: u32 = 7;

/// Bytes that are read as long as somebody wants them.
struct Pieces<'a> {
    rest: &'a [u8],
    is_wanted: &'a dyn Fn() -> bool,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !(self.is_wanted)() {
            return Err(io::Error::other("it is not wanted any more"));
        }
        self.rest.read(buffer)
    }
}

/// Where an object is, if it is loose, below the folder `objects`.
pub(super) fn path(objects: &Path, id: &oid) -> PathBuf {
    let mut buffer = gix::hash::Kind::hex_buf();
    let hex = id.hex_to_buf(buffer.as_mut());
    let mut path = PathBuf::with_capacity(objects.as_os_str().len() + hex.len() + 3);
    path.push(objects);
    path.push(&hex[..2]);
    path.push(&hex[2..]);
    path
}

/// Stores an object under its id as a loose one, unless it is there as such.
///
/// One that is there gets a new date, as git gives it, so that `git gc` does not take an old unreachable object while we are about to
/// reach it; one that is in a pack only is written once more, as whoever packs anew leaves out what nothing reaches.
///
/// A loss of power leaves files that are empty, cut or full of zeroes: what does not read as the object is replaced.
///
/// What was stored is held in memory for a while: see [`hold`].
pub(crate) fn store(objects: &gix::OdbHandle, kind: Kind, bytes: &[u8], id: ObjectId) -> gix::Result<()> {
    store_while(objects, kind, bytes, id, &|| true)
}

/// The same, for as long as `is_wanted` says so: of a large object it is asked again and again, and nothing is left if it is not stored.
pub(crate) fn store_while(
    objects: &gix::OdbHandle,
    kind: Kind,
    bytes: &[u8],
    id: ObjectId,
    is_wanted: &dyn Fn() -> bool,
) -> gix::Result<()> {
    let folder = objects.store_ref().path();
    let path = path(folder, &id);
    let small = bytes.len() + FRAME <= SMALL;
    let stream = if small { encode(kind, bytes) } else { Vec::new() };
    let there = match File::open(&path) {
        Ok(file) if is_whole(&file, kind, bytes) => {
            let _ = file.set_modified(SystemTime::now());
            true
        }
        Ok(_) if !small => {
            // gix would take it for what it is named after.
            std::fs::remove_file(&path).map_err(gix::Error::from_error)?;
            false
        }
        _ => false,
    };
    if small {
        if !there {
            write_file(&path, &stream).map_err(gix::Error::from_error)?;
        }
        hold(path, id, stream);
        return Ok(());
    }
    // git removes a folder with the last object in it, at any time.
    for attempt in 1.. {
        let written = if bytes.len() > PIECEWISE {
            let size = bytes.len() as u64;
            let mut pieces = Pieces { rest: bytes, is_wanted };
            gix::objs::Write::write_stream_with_known_id(objects, kind, size, &mut pieces, id)
        } else {
            gix::objs::Write::write_buf_with_known_id(objects, kind, bytes, id)
        };
        match written {
            _ if there => break,
            Err(error) if attempt == TRIES || !is_wanted() => return Err(error),
            Err(_) => {}
            Ok(_) => break,
        }
    }
    hold_file(path, id);
    Ok(())
}

/// The files of the objects that this process stored last, or is about to reach, by the folder `objects` that they are in.
static HELD: LazyLock<Mutex<HashMap<PathBuf, Held>>> = LazyLock::new(Mutex::default);
/// So many of them, of at most so many bytes each.
const MOST_HELD: usize = 128;
const HELD_BYTES: u64 = 1 << 20;
/// One that was looked for so often since it was held has been reached for a while: it is looked for now and then only. A ref is
/// moved between two looks, so this is the transaction that reaches it and the next.
const FRESH_LOOKS: u64 = 4;
/// Every so many looks are at all of them.
const WHOLE_LOOK: u64 = 32;

/// Files of objects by their paths, and the order in which they are given up.
#[derive(Default)]
struct Held {
    files: HashMap<PathBuf, HeldFile>,
    /// Each with its number; one that was held again since has another one there.
    order: VecDeque<(u64, PathBuf)>,
    /// How often a file was held.
    count: u64,
    /// How often somebody looked whether they are all there.
    looks: u64,
}

struct HeldFile {
    id: ObjectId,
    raw: Vec<u8>,
    number: u64,
    /// [`Held::looks`] as it was held.
    since: u64,
}

impl Held {
    fn put(&mut self, path: PathBuf, id: ObjectId, raw: Vec<u8>) {
        self.count += 1;
        let (number, since) = (self.count, self.looks);
        self.order.push_back((number, path.clone()));
        self.files.insert(path, HeldFile { id, raw, number, since });
        while self.files.len() > MOST_HELD || self.order.len() > 2 * MOST_HELD {
            let Some((number, path)) = self.order.pop_front() else { break };
            if self.files.get(&path).is_some_and(|file| file.number == number) {
                self.files.remove(&path);
            }
        }
    }
}

fn held() -> MutexGuard<'static, HashMap<PathBuf, Held>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds the file of an object, so that it can be put back if a `git gc --prune=now` takes it before a ref reaches it.
fn hold(path: PathBuf, id: ObjectId, raw: Vec<u8>) {
    let objects = folder_of(&path).to_owned();
    held().entry(objects).or_default().put(path, id, raw);
}

/// The folder `objects` of the file of an object.
fn folder_of(path: &Path) -> &Path {
    path.parent().and_then(Path::parent).unwrap_or(path)
}

/// [`hold`] for a file that is there. One that is packed, or large, is not held.
pub(super) fn hold_file(path: PathBuf, id: ObjectId) {
    let Ok(mut file) = File::open(&path) else { return };
    let mut raw = Vec::new();
    if file.metadata().is_ok_and(|meta| meta.len() <= HELD_BYTES) && file.read_to_end(&mut raw).is_ok() {
        hold(path, id, raw);
    }
}

/// Whether an object is held.
pub(super) fn is_held(path: &Path) -> bool {
    held().get(folder_of(path)).is_some_and(|held| held.files.contains_key(path))
}

/// How closely is looked for what may be gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// At what was held lately, and at the rest now and then: before and after each transaction.
    Often,
    /// At everything.
    Whole,
}

/// Puts the held files below `objects` back that are gone and for which `wanted` says so. Gives their objects.
pub(super) fn put_back(
    objects: &Path,
    look: Look,
    mut wanted: impl FnMut(ObjectId) -> bool,
) -> Result<Vec<ObjectId>, (PathBuf, io::Error)> {
    let mut lost = Vec::new();
    let mut all = held();
    let Some(held) = all.get_mut(objects) else { return Ok(lost) };
    held.looks += 1;
    let whole = look == Look::Whole || held.looks.is_multiple_of(WHOLE_LOOK);
    for (path, file) in &held.files {
        let due = whole || held.looks - file.since <= FRESH_LOOKS;
        if due && !path.exists() && wanted(file.id) {
            write_file(path, &file.raw).map_err(|error| (path.clone(), error))?;
            lost.push(file.id);
        }
    }
    Ok(lost)
}

/// Whether an object's file holds it. Of a large one only that it has an end is looked at: it takes as long to read as to write.
fn is_whole(file: &File, kind: Kind, bytes: &[u8]) -> bool {
    let length = file.metadata().map_or(0, |meta| meta.len());
    if length > LARGEST_FILE as u64 || bytes.len() as u64 > LARGEST_OBJECT {
        return length > 0 && !ends_in_zeroes(file, length);
    }
    let mut out = Vec::new();
    let read = file
        .try_clone()
        .ok()
        .and_then(|file| READER.with_borrow_mut(|reader| reader.read_file(file, &mut out)));
    read == Some(kind) && out == bytes
}

/// Whether the checksum at the end of a stream was never written.
fn ends_in_zeroes(mut file: &File, length: u64) -> bool {
    use std::io::{Seek, SeekFrom};
    let mut end = [0; 8];
    let start = length.saturating_sub(end.len() as u64);
    file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut end)).is_err() || end == [0; 8]
}

fn encode(kind: Kind, bytes: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(bytes.len() + FRAME);
    raw.extend_from_slice(&gix::objs::encode::loose_header(kind, bytes.len() as u64));
    raw.extend_from_slice(bytes);
    let mut stream = Vec::with_capacity(raw.len() + FRAME);
    put_stored(&mut stream, &raw);
    stream
}

/// Writes an object to `path`, which is `objects/xx/…`, in one go: a file of this name is always whole.
fn write_file(path: &Path, stream: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new(""));
    // `git prune --expire=now` takes temporary files as well.
    for attempt in 1.. {
        let (temporary, mut file) = create(folder)?;
        let written = file.write_all(stream).and_then(|()| {
            drop(file);
            std::fs::rename(&temporary, path)
        });
        match written {
            Err(error) if error.kind() == io::ErrorKind::NotFound && attempt < TRIES => {}
            Err(error) => {
                let _ = std::fs::remove_file(&temporary);
                return Err(error);
            }
            Ok(()) => break,
        }
    }
    Ok(())
}

/// Makes a new file in `folder`, and the folder if it is missing. git removes it when it packs the last object in it, at any time,
/// hence more than once.
fn create(folder: &Path) -> io::Result<(PathBuf, File)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o444);
    for _ in 0..TRIES {
        let path = folder.join(unused_name());
        match options.open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => match std::fs::create_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            },
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// A name as git gives its own: `git prune` knows what is left of a process that was killed.
fn unused_name() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |at| at.subsec_nanos());
    format!("tmp_obj_{}_{nanos}_{count}", std::process::id())
}

/// Reads a small loose object into `out`. `None` says only that somebody else has to look for it. The content is not compared with
/// the id.
pub(crate) fn read(objects: &Path, id: &oid, out: &mut Vec<u8>) -> Option<Kind> {
    READER.with_borrow_mut(|reader| {
        if let Some(kind) = reader.remembered(objects, id, out) {
            return Some(kind);
        }
        let kind = reader.read(objects, id, out)?;
        reader.remember(objects, id, kind, out);
        Some(kind)
    })
}

/// [`read`], from the disk whatever is remembered: what is checked out is what is there now.
pub(crate) fn read_anew(objects: &Path, id: &oid, out: &mut Vec<u8>) -> Option<Kind> {
    READER.with_borrow_mut(|reader| reader.read(objects, id, out))
}

thread_local!(static READER: RefCell<Reader> = RefCell::new(Reader::default()));

/// What is used again from one object to the next.
#[derive(Default)]
struct Reader {
    inflate: Inflate,
    file: Vec<u8>,
    skip: u32,
    /// What was read last: an iteration reads the trees of its base a dozen times. A name stands for one content for ever, so that
    /// this cannot be out of date.
    last: HashMap<ObjectId, (PathBuf, Kind, Vec<u8>)>,
    order: VecDeque<ObjectId>,
}

/// So many objects are remembered, of at most so many bytes each.
const MOST_REMEMBERED: usize = 64;
const REMEMBERED_BYTES: usize = 4096;

impl Reader {
    fn remembered(&self, objects: &Path, id: &oid, out: &mut Vec<u8>) -> Option<Kind> {
        let (_, kind, bytes) = self.last.get(id).filter(|(folder, ..)| folder == objects)?;
        out.clear();
        out.extend_from_slice(bytes);
        Some(*kind)
    }

    fn remember(&mut self, objects: &Path, id: &oid, kind: Kind, bytes: &[u8]) {
        if bytes.len() > REMEMBERED_BYTES {
            return;
        }
        if self.last.insert(id.to_owned(), (objects.to_owned(), kind, bytes.to_vec())).is_none() {
            self.order.push_back(id.to_owned());
        }
        if self.order.len() > MOST_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.last.remove(&oldest);
        }
    }

    fn read(&mut self, objects: &Path, id: &oid, out: &mut Vec<u8>) -> Option<Kind> {
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        let Ok(file) = File::open(path(objects, id)) else {
            self.skip = SKIPPED;
            return None;
        };
        self.read_file(file, out)
    }

    fn read_file(&mut self, file: File, out: &mut Vec<u8>) -> Option<Kind> {
        let length = self.fill(file).ok()??;
        let input = &self.file[..length];
        let size = match stored(input) {
            Some(raw) => {
                let (kind, size, header) = gix::objs::decode::loose_header(raw).ok()?;
                out.clear();
                out.extend_from_slice(&raw[header..]);
                Some((kind, size))
            }
            None => self.inflate(length, out),
        };
        size.filter(|(_, size)| *size == out.len() as u64).map(|(kind, _)| kind)
    }

    /// Reads a file of at most [`LARGEST_FILE`] bytes and says how many they are.
    fn fill(&mut self, mut file: File) -> io::Result<Option<usize>> {
        self.file.resize(LARGEST_FILE, 0);
        let mut length = 0;
        while length < self.file.len() {
            match file.read(&mut self.file[length..]) {
                Ok(0) => return Ok(Some(length)),
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            // Most are read at once, and asking for their end again would cost as much. What is cut short does not decode.
            if length < HALF {
                return Ok(Some(length));
            }
        }
        Ok(None)
    }

    fn inflate(&mut self, length: usize, out: &mut Vec<u8>) -> Option<(Kind, u64)> {
        let input = &self.file[..length];
        let mut start = [0_u8; 64];
        self.inflate.reset();
        let (status, consumed, written) = self.inflate.prefix(input, &mut start).ok()?;
        let (kind, size, header) = gix::objs::decode::loose_header(&start[..written]).ok()?;
        if size > LARGEST_OBJECT {
            return None;
        }
        if status == Status::StreamEnd {
            out.clear();
            out.extend_from_slice(&start[header..written]);
        } else {
            let length = usize::try_from(size).ok().filter(|length| written - header <= *length)?;
            self.inflate.rest(&input[consumed..], &start[..written], header, out, length).ok()?;
        }
        Some((kind, size))
    }
}

/// What a zlib stream of exactly one stored block holds.
fn stored(stream: &[u8]) -> Option<&[u8]> {
    let (head, rest) = stream.split_first_chunk::<7>()?;
    let [0x78, 0x01, 1, low, high, not_low, not_high] = *head else { return None };
    let length = u16::from_le_bytes([low, high]);
    let (data, checksum) = rest.split_at_checked(usize::from(length))?;
    let whole = u16::from_le_bytes([not_low, not_high]) == !length && checksum == adler32(data).to_be_bytes();
    whole.then_some(data)
}

/// A zlib stream (RFC 1950) of stored blocks (RFC 1951, 3.2.4).
pub(crate) fn put_stored(out: &mut Vec<u8>, data: &[u8]) {
    const BLOCK: usize = 0xffff;
    out.extend_from_slice(&[0x78, 0x01]);
    let mut rest = data;
    loop {
        let (block, after) = rest.split_at(rest.len().min(BLOCK));
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        out.push(u8::from(after.is_empty()));
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    out.extend_from_slice(&adler32(data).to_be_bytes());
}

/// The checksum of RFC 1950.
fn adler32(data: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    // The longest run whose sums cannot overflow 32 bits.
    const RUN: usize = 5552;
    let (mut a, mut b) = (1u32, 0u32);
    for run in data.chunks(RUN) {
        for byte in run {
            a += u32::from(*byte);
            b += a;
        }
        a %= MODULUS;
        b %= MODULUS;
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_checksum_matches_its_published_value() {
        // RFC 1950's own sample in Wikipedia.
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
        assert_eq!(adler32(b""), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn stored_streams_inflate_to_what_they_hold(
            byte: u8,
            length in prop_oneof![0usize..300, 65_530usize..65_540, 131_060usize..131_080],
        ) {
            let data = vec![byte; length];
            let mut stream = Vec::new();
            put_stored(&mut stream, &data);
            let mut out = vec![0; length + 1];
            let (_, consumed, produced) =
                Inflate::default().once(&stream, &mut out).unwrap();
            prop_assert_eq!((consumed, produced), (stream.len(), length));
            prop_assert_eq!(&out[..length], &data[..]);
        }
    }

    proptest! {
        #[test]
        fn reading_is_total(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), framed: bool) {
            let dir = tempfile::tempdir().unwrap();
            let id = ObjectId::from_hex(b"0123456789012345678901234567890123456789").unwrap();
            std::fs::create_dir(dir.path().join("01")).unwrap();
            if framed {
                let mut stream = Vec::new();
                put_stored(&mut stream, &bytes);
                bytes = stream;
            }
            std::fs::write(path(dir.path(), &id), &bytes).unwrap();
            let _ = Reader::default().read(dir.path(), &id, &mut Vec::new());
        }
    }

    #[test]
    fn what_was_held_a_while_ago_is_looked_for_now_and_then() {
        let dir = tempfile::tempdir().unwrap();
        let objects = dir.path().join("objects");
        let id = |number: u64| ObjectId::from_hex(format!("{number:040x}").as_bytes()).unwrap();
        let file = |number: u64| path(&objects, &id(number));
        let look = |how: Look| put_back(&objects, how, |_| true).unwrap();
        let gone = |number: u64| std::fs::remove_file(file(number)).is_ok();
        std::fs::create_dir_all(objects.join("00")).unwrap();
        hold(file(1), id(1), b"one".to_vec());
        for _ in 0..FRESH_LOOKS {
            assert_eq!(look(Look::Often), [id(1)], "it is new");
            assert!(gone(1));
        }
        hold(file(2), id(2), b"two".to_vec());
        assert_eq!(look(Look::Often), [id(2)], "only what is new is looked for");
        assert!(gone(2));
        let mut found = Vec::new();
        for _ in 0..WHOLE_LOOK {
            found.extend(look(Look::Often));
        }
        found.sort_unstable();
        assert_eq!(found, [id(1), id(2)], "sooner or later everything is");
        assert!(gone(1) && gone(2));
        let mut found = look(Look::Whole);
        found.sort_unstable();
        assert_eq!(found, [id(1), id(2)]);
        // Those that were held longest ago are given up.
        for number in 3..3 + MOST_HELD as u64 {
            hold(file(number), id(number), Vec::new());
        }
        assert!(!is_held(&file(1)) && !is_held(&file(2)) && is_held(&file(3)));
    }

    #[test]
    fn what_git_compressed_is_read_and_what_is_odd_is_left_to_others() {
        use crate::git::testing::TestRepo;
        let repo = TestRepo::new();
        let objects = repo.path().join(".git/objects");
        let mut out = Vec::new();
        for content in ["", "short", &"long ".repeat(5000)] {
            let id = repo.git_with_input(["hash-object", "-w", "--stdin"], content);
            let id = ObjectId::from_hex(id.trim().as_bytes()).unwrap();
            assert_eq!(Reader::default().read(&objects, &id, &mut out), Some(Kind::Blob));
            assert_eq!(out, content.as_bytes());
        }
        let bomb = repo.git_with_input(["hash-object", "-w", "--stdin"], "0".repeat(2 << 20));
        let bomb = ObjectId::from_hex(bomb.trim().as_bytes()).unwrap();
        let mut reader = Reader::default();
        assert_eq!(reader.read(&objects, &bomb, &mut out), None, "a small file, a large object");
        assert_eq!(reader.skip, 0);
        assert_eq!(reader.read(&objects, &ObjectId::null(gix::hash::Kind::Sha1), &mut out), None);
        assert_eq!(reader.skip, SKIPPED, "what is not loose is packed, and so is what comes next");
    }

    #[test]
    fn a_damaged_object_is_replaced() {
        use crate::git::Durability;
        use crate::git::testing::TestRepo;
        let repo = TestRepo::new();
        let open = repo.open();
        for content in ["small".to_owned(), "0123456789".repeat(2000)] {
            let id = open.write_raw(Kind::Blob, content.as_bytes(), Durability::Fast).unwrap();
            let path = path(&open.common_dir().join("objects"), &id);
            let length = std::fs::metadata(&path).unwrap().len();
            for damaged in [0, length / 2, length] {
                std::fs::remove_file(&path).unwrap();
                std::fs::write(&path, vec![0; usize::try_from(damaged).unwrap()]).unwrap();
                open.write_raw(Kind::Blob, content.as_bytes(), Durability::Fast).unwrap();
                assert_eq!(
                    open.read_kind(id, Kind::Blob).unwrap(),
                    content.as_bytes(),
                    "{damaged} of {length}"
                );
            }
        }
    }

    #[test]
    fn git_reads_what_is_written_and_packs_it() {
        use crate::git::Durability;
        use crate::git::testing::TestRepo;
        for format in ["sha1", "sha256"] {
            let repo = TestRepo::with(&[&format!("--object-format={format}")]);
            let open = repo.open();
            let objects = open.common_dir().join("objects");
            for len in [0, 1, SMALL - FRAME, SMALL - FRAME + 1, 100_000] {
                let content = "x".repeat(len);
                let id = open.write_raw(Kind::Blob, content.as_bytes(), Durability::Fsync).unwrap();
                let mut read_back = Vec::new();
                assert_eq!(read(&objects, &id, &mut read_back), Some(Kind::Blob), "{len}");
                assert_eq!(read_back, content.as_bytes());
                assert_eq!(repo.git(["cat-file", "-p", &id.to_string()]).len(), len);
                assert_eq!(repo.git_with_input(["hash-object", "--stdin"], &content).trim(), id.to_string());
                repo.git(["update-ref", &format!("refs/tags/of-{len}"), &id.to_string()]);
            }
            repo.git(["fsck", "--strict"]);
            repo.git(["repack", "-adq"]);
            repo.git(["fsck", "--strict"]);
        }
    }
}
