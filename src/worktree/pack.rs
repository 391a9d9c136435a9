//! A pack that is written fast: every object whole and stored, not compressed (`gitformat-pack(5)`). Compressing
//! costs more than the disk it saves for something that lives as long as one iteration.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use gix::ObjectId;
use gix::objs::Kind;

use crate::git::loose::put_stored;

/// One object of a pack; the offset counts from the start of the chunk, later of the pack.
#[derive(Clone, Copy)]
struct Packed {
    id: ObjectId,
    crc: u32,
    offset: u64,
}

/// Writes a pack file; [`PackWriter::finish`] gives what its index needs.
pub(super) struct PackWriter {
    out: File,
    hash: gix::hash::Kind,
    hasher: gix::hash::Hasher,
    buf: Vec<u8>,
    offset: u64,
    objects: Vec<Packed>,
    expected: u32,
}

const FLUSH_AT: usize = 1 << 18;

/// Encoded objects on their way into a pack, so that threads encode at the same time and only append in turn.
#[derive(Default)]
pub(super) struct Chunk {
    buf: Vec<u8>,
    objects: Vec<Packed>,
}

impl Chunk {
    /// Encodes one more object.
    pub fn add(&mut self, id: ObjectId, kind: Kind, data: &[u8]) {
        let start = self.buf.len();
        put_header(&mut self.buf, kind, data.len() as u64);
        put_stored(&mut self.buf, data);
        let crc = crc32(&self.buf[start..]);
        self.objects.push(Packed { id, crc, offset: start as u64 });
    }

    /// Forgets everything, to be used again.
    pub fn clear(&mut self) {
        self.buf.clear();
        self.objects.clear();
    }
}

impl PackWriter {
    /// Begins a pack of exactly `count` objects.
    pub fn create(path: &Path, hash: gix::hash::Kind, count: usize) -> io::Result<Self> {
        let expected = u32::try_from(count).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut pack = Self {
            out: File::options().write(true).create_new(true).open(path)?,
            hash,
            hasher: gix::hash::hasher(hash),
            buf: Vec::with_capacity(FLUSH_AT + (1 << 16)),
            offset: 0,
            objects: Vec::with_capacity(count),
            expected,
        };
        pack.buf.extend_from_slice(b"PACK\0\0\0\x02");
        pack.buf.extend_from_slice(&expected.to_be_bytes());
        Ok(pack)
    }

    /// Adds the objects of `chunk`; none of them may have been added before.
    pub fn append(&mut self, chunk: &Chunk) -> io::Result<()> {
        let start = self.offset + self.buf.len() as u64;
        for object in &chunk.objects {
            self.objects.push(Packed { offset: start + object.offset, ..*object });
        }
        self.buf.extend_from_slice(&chunk.buf);
        if self.buf.len() >= FLUSH_AT { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hasher.update(&self.buf);
        self.out.write_all(&self.buf)?;
        self.offset += self.buf.len() as u64;
        self.buf.clear();
        Ok(())
    }

    /// Ends the pack and writes its index (version 2) to `index`.
    pub fn finish(mut self, index: &Path) -> io::Result<()> {
        if self.objects.len() != self.expected as usize {
            return Err(io::Error::other("the pack got another number of objects than was announced"));
        }
        self.flush()?;
        let checksum = self.hasher.try_finalize().map_err(io::Error::other)?;
        self.out.write_all(checksum.as_slice())?;

        self.objects.sort_unstable_by_key(|object| object.id);
        let mut data = Vec::with_capacity(self.objects.len() * 40 + 2048);
        data.extend_from_slice(b"\xfftOc\0\0\0\x02");
        let mut counts = [0u32; 256];
        for object in &self.objects {
            counts[usize::from(object.id.first_byte())] += 1;
        }
        let mut sum = 0;
        for count in counts {
            sum += count;
            data.extend_from_slice(&sum.to_be_bytes());
        }
        for object in &self.objects {
            data.extend_from_slice(object.id.as_slice());
        }
        for object in &self.objects {
            data.extend_from_slice(&object.crc.to_be_bytes());
        }
        let mut large = Vec::new();
        for object in &self.objects {
            let small = u32::try_from(object.offset).ok().filter(|offset| *offset < 1 << 31);
            let offset = small.unwrap_or_else(|| {
                let at = u32::try_from(large.len() / 8).unwrap_or(u32::MAX);
                large.extend_from_slice(&object.offset.to_be_bytes());
                at | 1 << 31
            });
            data.extend_from_slice(&offset.to_be_bytes());
        }
        data.extend_from_slice(&large);
        data.extend_from_slice(checksum.as_slice());
        let mut hasher = gix::hash::hasher(self.hash);
        hasher.update(&data);
        data.extend_from_slice(hasher.try_finalize().map_err(io::Error::other)?.as_slice());
        File::options().write(true).create_new(true).open(index)?.write_all(&data)
    }
}

/// Type and size: four bits of size in the first byte, seven in each that follows.
fn put_header(out: &mut Vec<u8>, kind: Kind, size: u64) {
    let kind = match kind {
        Kind::Commit => 1u8,
        Kind::Tree => 2,
        Kind::Blob => 3,
        Kind::Tag => 4,
    };
    let low = |bits: u64, mask: u64| u8::try_from(bits & mask).unwrap_or(0);
    let mut byte = kind << 4 | low(size, 0x0f);
    let mut rest = size >> 4;
    while rest != 0 {
        out.push(byte | 0x80);
        byte = low(rest, 0x7f);
        rest >>= 7;
    }
    out.push(byte);
}

/// The checksum of pack indices (the one of gzip and zip), eight bytes at a time.
fn crc32(data: &[u8]) -> u32 {
    const TABLES: [[u32; 256]; 8] = crc_tables();
    let mut crc = !0u32;
    let (eights, rest) = data.as_chunks::<8>();
    for eight in eights {
        let low = crc.to_le_bytes();
        crc = 0;
        for (at, byte) in eight.iter().enumerate() {
            let byte = if at < 4 { byte ^ low[at] } else { *byte };
            crc ^= TABLES[7 - at][usize::from(byte)];
        }
    }
    for byte in rest {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc.to_le_bytes()[0] ^ byte)];
    }
    !crc
}

const fn crc_tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        #[allow(clippy::cast_possible_truncation)] // Below 256; `try_from` is not const.
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn checksums_match_their_published_check_values() {
        // The check input of the CRC catalogues.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
