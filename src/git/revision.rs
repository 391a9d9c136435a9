//! Revisions as people write them, in repositories of every object format.

use std::borrow::Cow;
use std::collections::HashSet;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::hash::Prefix;
use gix::object::Kind;

/// Why a revision names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    /// Nothing has this name.
    #[error("names nothing in this repository")]
    Nothing,
    /// A short id of several objects.
    #[error("names more than one object")]
    Ambiguous,
}

/// The object that `spec` names, a tag as itself.
pub fn resolve_revision(repo: &gix::Repository, spec: &BStr) -> Result<ObjectId, RevisionError> {
    let spec = with_whole_id(repo, spec)?;
    repo.rev_parse_single(spec.as_ref()).map(gix::Id::detach).map_err(|error| {
        let ambiguous = crate::error::Error::usage("").caused_by(error).chain().contains("ambiguous");
        if ambiguous { RevisionError::Ambiguous } else { RevisionError::Nothing }
    })
}

/// `spec` with the short id at its start made whole. The library takes up to 40 digits for the start of a SHA-1 id,
/// which names nothing in a repository of longer ids.
fn with_whole_id<'a>(repo: &gix::Repository, spec: &'a BStr) -> Result<Cow<'a, BStr>, RevisionError> {
    let kind = repo.object_hash();
    let (name, rest) = spec.split_at(spec.find_byteset(b"^~:@").unwrap_or(spec.len()));
    let short = (Prefix::MIN_HEX_LEN..kind.len_in_hex()).contains(&name.len())
        && name.iter().all(u8::is_ascii_hexdigit);
    // A ref of this name goes first, as in git.
    if kind == gix::hash::Kind::Sha1 || !short || repo.find_reference(name.as_bstr()).is_ok() {
        return Ok(Cow::Borrowed(spec));
    }
    let mut digits = name.to_ascii_lowercase();
    digits.resize(kind.len_in_hex(), b'0');
    let padded = ObjectId::from_hex(&digits).map_err(|_| RevisionError::Nothing)?;
    let prefix = Prefix::new(&padded, name.len()).map_err(|_| RevisionError::Nothing)?;
    let mut found = HashSet::new();
    repo.objects.lookup_prefix(prefix, Some(&mut found)).map_err(|_| RevisionError::Nothing)?;
    if found.len() > 1 {
        // Every caller wants a commit; git prefers one too.
        found.retain(|id| {
            repo.find_header(*id).is_ok_and(|header| matches!(header.kind(), Kind::Commit | Kind::Tag))
        });
        if found.len() != 1 {
            return Err(RevisionError::Ambiguous);
        }
    }
    let whole = found.into_iter().next().ok_or(RevisionError::Nothing)?;
    let mut text = BString::from(whole.to_string());
    text.extend_from_slice(rest);
    Ok(Cow::Owned(text))
}
