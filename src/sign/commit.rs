//! Commit objects as bytes: build one, attach a signature, take one apart again.
//!
//! A commit is parsed strictly: what [`parse_signed`] accepts is exactly what [`CommitObject::to_bytes`] writes for the
//! parsed fields, plus the signature as the last header, where git puts it. So no two readers can see different things in it.

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::hash::Kind;

/// A name, an address and a moment, as in the `author` and `committer` headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The name; may be empty.
    pub name: BString,
    /// The address, without the angle brackets.
    pub email: BString,
    /// Seconds since 1970, never negative.
    pub seconds: i64,
    /// Offset from UTC in minutes, east positive; less than 100 hours.
    pub offset: i32,
}

/// A commit without its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitObject {
    /// The tree.
    pub tree: ObjectId,
    /// The parents, in order.
    pub parents: Vec<ObjectId>,
    /// Who wrote it.
    pub author: Person,
    /// Who committed it.
    pub committer: Person,
    /// Further headers in order: `encoding` first if there is one. A value of several lines is unfolded, without a final newline.
    pub extra_headers: Vec<(BString, BString)>,
    /// Everything after the blank line.
    pub message: BString,
}

/// A commit taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedCommit {
    /// The fields.
    pub commit: CommitObject,
    /// What the signature covers: the object without its signature header, byte for byte.
    pub payload: Vec<u8>,
    /// The signature with its final newline, if there is one.
    pub signature: Option<Vec<u8>>,
}

/// Why bytes are not a commit that we accept, or a commit cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// A required header is missing or not where git writes it.
    #[error("commit has no `{0}` header where git writes it")]
    Missing(&'static str),
    /// A header's value cannot be read or written.
    #[error("commit has a malformed `{header}` header: {reason}")]
    Header {
        /// The header's name, with unprintable characters escaped.
        header: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A header that may occur once occurs twice.
    #[error("commit has more than one `{0}` header")]
    Duplicate(String),
    /// The signature header is that of the other object hash.
    #[error("commit has a `{found}` header in a repository whose signature header is `{expected}`")]
    ForeignSignature {
        /// What it has.
        found: String,
        /// What this repository's hash asks for.
        expected: &'static str,
    },
    /// An object id has the wrong length for the repository, or is not lowercase hex.
    #[error("commit has a `{0}` header whose object id is not one of this repository's hash")]
    ObjectId(&'static str),
    /// There is a NUL byte in it; git never writes one.
    #[error("commit has a NUL byte")]
    Nul,
    /// The headers do not end with a blank line.
    #[error("commit has no blank line after its headers")]
    NoBlankLine,
    /// The fields are there, but git would write them as other bytes.
    #[error("commit is not written as git writes it")]
    NotCanonical,
}

impl From<CommitError> for crate::error::Error {
    fn from(error: CommitError) -> Self {
        Self::invariant("a commit object is not acceptable").caused_by(error)
    }
}

/// The header that holds signatures in a repository of this object hash.
pub fn signature_header(hash: Kind) -> &'static str {
    match hash {
        Kind::Sha256 => "gpgsig-sha256",
        _ => "gpgsig",
    }
}

/// git takes every header that starts like this out of what it verifies.
const SIGNATURE_PREFIX: &str = "gpgsig";

impl CommitObject {
    /// The bytes of the unsigned commit: the payload of its signature. Fails if a field would break out of its header.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CommitError> {
        let mut out = Vec::with_capacity(256 + self.message.len());
        put_header(&mut out, "tree", self.tree.to_hex().to_string().as_bytes());
        for parent in &self.parents {
            if parent.kind() != self.tree.kind() {
                return Err(CommitError::ObjectId("parent"));
            }
            put_header(&mut out, "parent", parent.to_hex().to_string().as_bytes());
        }
        put_header(&mut out, "author", &self.author.to_bytes("author")?);
        put_header(&mut out, "committer", &self.committer.to_bytes("committer")?);
        for (index, (name, value)) in self.extra_headers.iter().enumerate() {
            check_extra_header(name.as_bstr(), index)?;
            // git writes one `mergetag` for each signed tag that was merged; nothing else repeats.
            if name != "mergetag" && self.extra_headers[..index].iter().any(|(other, _)| other == name) {
                return Err(CommitError::Duplicate(escaped(name)));
            }
            put_header(&mut out, name, value);
        }
        out.push(b'\n');
        out.extend_from_slice(&self.message);
        if out.contains(&0) {
            return Err(CommitError::Nul);
        }
        Ok(out)
    }
}

impl Person {
    fn to_bytes(&self, header: &'static str) -> Result<Vec<u8>, CommitError> {
        let bad = |reason| CommitError::Header { header: header.to_owned(), reason };
        if self.name.iter().chain(self.email.iter()).any(|byte| matches!(byte, b'<' | b'>' | b'\n')) {
            return Err(bad("a name or address holds `<`, `>` or a newline"));
        }
        if self.seconds < 0 {
            return Err(bad("a time before 1970"));
        }
        let minutes = self.offset.unsigned_abs();
        if minutes >= 100 * 60 {
            return Err(bad("an offset of 100 hours or more"));
        }
        let sign = if self.offset < 0 { '-' } else { '+' };
        let mut out = Vec::with_capacity(self.name.len() + self.email.len() + 32);
        out.extend_from_slice(&self.name);
        out.extend_from_slice(b" <");
        out.extend_from_slice(&self.email);
        out.extend_from_slice(
            format!("> {} {sign}{:02}{:02}", self.seconds, minutes / 60, minutes % 60).as_bytes(),
        );
        Ok(out)
    }

    fn parse(value: &[u8], header: &'static str) -> Result<Self, CommitError> {
        let bad = |reason| CommitError::Header { header: header.to_owned(), reason };
        let (name, rest) = value.split_once_str(" <").ok_or(bad("no address"))?;
        let (email, rest) = rest.split_once_str("> ").ok_or(bad("no end of the address"))?;
        let (seconds, zone) = rest.split_once_str(" ").ok_or(bad("no time zone"))?;
        let seconds = parse_digits(seconds).ok_or(bad("the time is not a number of seconds"))?;
        let (sign, digits) = match zone {
            [b'+', digits @ ..] => (1, digits),
            [b'-', digits @ ..] => (-1, digits),
            _ => return Err(bad("the time zone has no sign")),
        };
        if digits.len() != 4 {
            return Err(bad("the time zone does not have four digits"));
        }
        let number = parse_digits(digits).and_then(|number| i32::try_from(number).ok());
        let number = number.ok_or(bad("the time zone does not have four digits"))?;
        let offset = sign * (number / 100 * 60 + number % 100);
        Ok(Self { name: name.into(), email: email.into(), seconds, offset })
    }
}

/// `i64::from_str` takes a sign; git's numbers have none.
fn parse_digits(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Writes `name value`, folding a value of several lines as git does: every further line is indented by one space.
fn put_header(out: &mut Vec<u8>, name: impl AsRef<[u8]>, value: &[u8]) {
    out.extend_from_slice(name.as_ref());
    for line in value.split(|byte| *byte == b'\n') {
        out.push(b' ');
        out.extend_from_slice(line);
        out.push(b'\n');
    }
}

fn check_extra_header(name: &BStr, index: usize) -> Result<(), CommitError> {
    let bad = |reason| CommitError::Header { header: escaped(name), reason };
    if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
        return Err(bad("its name is empty or has unprintable characters"));
    }
    if name.starts_with(SIGNATURE_PREFIX.as_bytes()) {
        return Err(bad("a signature is attached, not written as a field"));
    }
    if matches!(name.as_bytes(), b"tree" | b"parent" | b"author" | b"committer") {
        return Err(bad("it is not where git writes it"));
    }
    if name == "encoding" && index != 0 {
        return Err(bad("it is not where git writes it"));
    }
    Ok(())
}

fn escaped(name: &[u8]) -> String {
    name.to_str_lossy().chars().take(64).flat_map(char::escape_debug).collect()
}

/// The signed commit object: `payload` with the signature `pem` as its last header, as git writes it.
///
/// `payload` is what [`CommitObject::to_bytes`] gave; anything else without a blank line comes back with the header at its end.
pub fn attach_signature(payload: &[u8], pem: &str, hash: Kind) -> Vec<u8> {
    let headers_end = payload.find("\n\n").map_or(payload.len(), |at| at + 1);
    let mut out = Vec::with_capacity(payload.len() + pem.len() + 64);
    out.extend_from_slice(&payload[..headers_end]);
    put_header(&mut out, signature_header(hash), pem.strip_suffix('\n').unwrap_or(pem).as_bytes());
    out.extend_from_slice(&payload[headers_end..]);
    out
}

/// Takes the raw bytes of a commit object (without git's `commit <size>` prefix) apart.
///
/// The caller has made sure that `raw` hashes to the id it was read under: neither git nor gix checks that on reading.
pub fn parse_signed(raw: &[u8], hash: Kind) -> Result<SignedCommit, CommitError> {
    if raw.contains(&0) {
        return Err(CommitError::Nul);
    }
    let headers_end = raw.find("\n\n").ok_or(CommitError::NoBlankLine)? + 1;
    let (head, rest) = raw.split_at(headers_end);
    let message = &rest[1..];

    let expected = signature_header(hash);
    let mut fields = Vec::new();
    let mut signature: Option<Vec<u8>> = None;
    let mut payload = Vec::with_capacity(raw.len());
    let mut rest = head;
    while !rest.is_empty() {
        let (lines, after) = split_header(rest);
        rest = after;
        let (name, value) = unfold(lines)?;
        if name.starts_with(SIGNATURE_PREFIX.as_bytes()) {
            if signature.is_some() {
                return Err(CommitError::Duplicate(SIGNATURE_PREFIX.to_owned()));
            }
            if name != expected.as_bytes() {
                return Err(CommitError::ForeignSignature { found: escaped(name), expected });
            }
            let mut value = value;
            value.push(b'\n');
            signature = Some(value);
        } else if signature.is_some() {
            return Err(CommitError::Header {
                header: escaped(name),
                reason: "it comes after the signature, which git writes last",
            });
        } else {
            payload.extend_from_slice(lines);
            fields.push((name, value));
        }
    }
    payload.push(b'\n');
    payload.extend_from_slice(message);

    let commit = parse_fields(fields, message, hash)?;
    if commit.to_bytes()? != payload {
        return Err(CommitError::NotCanonical);
    }
    Ok(SignedCommit { commit, payload, signature })
}

/// Splits the first header, with the indented lines that continue it, from the rest. Every line ends with a newline.
fn split_header(head: &[u8]) -> (&[u8], &[u8]) {
    let mut end = 0;
    while let Some(newline) = head[end..].find_byte(b'\n') {
        end += newline + 1;
        if head.get(end) != Some(&b' ') {
            break;
        }
    }
    // The caller's slice ends with a newline, so that the loop has found one.
    head.split_at(if end == 0 { head.len() } else { end })
}

/// A header's name and its value without the folding.
fn unfold(lines: &[u8]) -> Result<(&[u8], Vec<u8>), CommitError> {
    let text = lines.strip_suffix(b"\n").unwrap_or(lines);
    let (first, _) = text.split_once_str("\n").unwrap_or((text, b""));
    let (name, _) = first
        .split_once_str(" ")
        .ok_or_else(|| CommitError::Header { header: escaped(first), reason: "it has no value" })?;
    let value = text[name.len() + 1..].replace("\n ", "\n");
    Ok((name, value))
}

fn parse_fields(
    fields: Vec<(&[u8], Vec<u8>)>,
    message: &[u8],
    hash: Kind,
) -> Result<CommitObject, CommitError> {
    let mut fields = fields.into_iter().peekable();
    let mut take =
        |name: &'static str| fields.next_if(|(found, _)| *found == name.as_bytes()).map(|(_, value)| value);
    let tree = parse_id(&take("tree").ok_or(CommitError::Missing("tree"))?, hash, "tree")?;
    let mut parents = Vec::new();
    while let Some(parent) = take("parent") {
        parents.push(parse_id(&parent, hash, "parent")?);
    }
    let author = Person::parse(&take("author").ok_or(CommitError::Missing("author"))?, "author")?;
    let committer = Person::parse(&take("committer").ok_or(CommitError::Missing("committer"))?, "committer")?;
    let mut extra_headers: Vec<(BString, BString)> = Vec::new();
    for (name, value) in fields {
        if matches!(name, b"tree" | b"author" | b"committer") {
            return Err(CommitError::Duplicate(escaped(name)));
        }
        extra_headers.push((name.into(), value.into()));
    }
    Ok(CommitObject { tree, parents, author, committer, extra_headers, message: message.into() })
}

fn parse_id(hex: &[u8], hash: Kind, header: &'static str) -> Result<ObjectId, CommitError> {
    let id = ObjectId::from_hex(hex).map_err(|_| CommitError::ObjectId(header))?;
    if id.kind() == hash { Ok(id) } else { Err(CommitError::ObjectId(header)) }
}

#[cfg(all(test, unix))]
mod tests;
