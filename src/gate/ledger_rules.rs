//! The rules for the refs of loops: what a push may do to `refs/loops/*` and `refs/notes/loops/*`.
//!
//! | ref | rule |
//! | --- | --- |
//! | `refs/loops/<id>/ledger` | verifies; only fast-forwards along first parents; is never deleted |
//! | `refs/loops/<id>/head` | the base or a candidate of the loop's ledger; may move among them; is never deleted |
//! | `refs/notes/loops/<id>` | notes of receipts of the loop's ledger, in every new commit; only fast-forwards; is never deleted |
//! | anything else there | refused |
//!
//! The loop's ledger is the one that will be there after the push: the pushed one, else the one that the receiving side
//! has. Without one there is nothing that head and notes could belong to, and they are refused: else they would carry
//! anything out, past the tripwire, which does not look at the refs of loops.
//!
//! An id cannot be used twice: the contract record of another loop of that name is not in the history of the ledger
//! that is there, so the new one does not fast-forward. Candidates of unpromoted loops travel inside these refs by
//! design; the tripwire does not look at them.

use std::collections::HashMap;
use std::rc::Rc;

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice};

use super::input::Update;
use super::objects::{Objects, Target};
use super::receipts;

/// What a ledger that verifies says of the refs beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerFacts {
    /// The base of the loop.
    pub base: Option<ObjectId>,
    /// Every candidate that a record has as second parent, with its receipts as lines of a note.
    pub candidates: HashMap<ObjectId, Vec<String>>,
}

impl LedgerFacts {
    /// Whether the head of the loop may be there.
    pub fn may_be_head(&self, id: ObjectId) -> bool {
        self.base == Some(id) || self.candidates.contains_key(&id)
    }
}

/// Says whether a ledger verifies against the trust root of the protected side, and where ledgers are there.
pub trait LedgerJudge {
    /// What the ledger says; `Err` says which record does not hold and why.
    fn verify(&self, id: &str, tip: ObjectId) -> Result<Rc<LedgerFacts>, String>;

    /// Where the ledger of a loop is on the receiving side now. Asked only if a push brings other refs of the loop
    /// and not the ledger. `Err` says why that cannot be known.
    fn received(&self, id: &str) -> Result<Option<ObjectId>, String>;

    /// What the branches and tags of the remote that is pushed to are at, as the remote itself says. Asked only if
    /// remote-tracking refs would hide what an unpromoted loop made. `Err` says why it cannot be asked.
    fn remote_tips(&self) -> Result<Vec<ObjectId>, String> {
        Err("it cannot be asked".to_owned())
    }
}

#[cfg(test)]
impl<F: Fn(&str, ObjectId) -> Result<(), String>> LedgerJudge for F {
    fn verify(&self, id: &str, tip: ObjectId) -> Result<Rc<LedgerFacts>, String> {
        self(id, tip).map(|()| Rc::default())
    }

    fn received(&self, _: &str) -> Result<Option<ObjectId>, String> {
        Ok(None)
    }
}

/// What a loop's ref is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ledger,
    Head,
    Notes,
}

impl Kind {
    fn of(self, id: &str) -> String {
        match self {
            Self::Ledger => format!("refs/loops/{id}/ledger"),
            Self::Head => format!("refs/loops/{id}/head"),
            Self::Notes => format!("refs/notes/loops/{id}"),
        }
    }
}

/// Why an update of a loop's ref is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The loop, where the name tells.
    pub id: Option<String>,
    /// The rule that is broken.
    pub reason: String,
    /// What would unblock it.
    pub unblock: String,
}

const LOOPS: &[u8] = b"refs/loops";
const NOTES: &[u8] = b"refs/notes/loops";

const TRACKED: &[u8] = b"refs/remotes";

/// Whether a ref is in the space of the loops, under any spelling that some file system takes for it.
pub fn is_loop_space(name: &BStr) -> bool {
    is_below(name, LOOPS) || is_below(name, NOTES)
}

/// Whether a ref is a remote-tracking one.
pub fn is_tracked(name: &BStr) -> bool {
    is_below(name, TRACKED)
}

fn is_below(name: &BStr, space: &[u8]) -> bool {
    let folded = folded(name);
    folded.strip_prefix(space).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
}

/// The name as a file system may take it that knows no case (macOS, Windows), ignores invisible characters (HFS+) or
/// the dots at the end of a name (Windows): loose refs are files. Of other letters only the long s and the sign for
/// kelvin fold to ASCII ones.
fn folded(name: &BStr) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}' => {}
                '\u{17f}' => out.push(b's'),
                '\u{212a}' => out.push(b'k'),
                '/' => {
                    while out.last() == Some(&b'.') {
                        out.pop();
                    }
                    out.push(b'/');
                }
                c => out.extend_from_slice(c.to_ascii_lowercase().encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        out.extend_from_slice(chunk.invalid());
    }
    out
}

/// The ledgers of a push: where each is to be.
#[derive(Debug, Default)]
pub struct Pushed(HashMap<String, ObjectId>);

impl Pushed {
    /// Those among `updates`.
    pub fn among(updates: &[Update]) -> Self {
        Self(ledgers(updates).map(|(id, tip)| (id.to_owned(), tip)).collect())
    }
}

/// The ledgers that `updates` bring, with the ids of their loops.
pub fn ledgers(updates: &[Update]) -> impl Iterator<Item = (&str, ObjectId)> {
    updates.iter().filter_map(|update| match parse(update.reference.as_bstr()) {
        Some((id, Kind::Ledger)) => Some((id, update.new?)),
        _ => None,
    })
}

/// Judges one update of a ref for which [`is_loop_space`] holds. `remote` is where to fetch from.
pub fn judge(
    objects: &Objects,
    update: &Update,
    pushed: &Pushed,
    ledgers: &dyn LedgerJudge,
    remote: Option<&str>,
) -> Result<(), Broken> {
    let Some((id, kind)) = parse(update.reference.as_bstr()) else {
        return Err(Broken {
            id: None,
            reason: "no loop has such a ref; a loop has refs/loops/<id>/ledger, refs/loops/<id>/head and refs/notes/loops/<id>"
                .to_owned(),
            unblock: "push the refs of a loop under their own names".to_owned(),
        });
    };
    let broken = |reason: String, unblock: String| Broken { id: Some(id.to_owned()), reason, unblock };
    let remote = remote.unwrap_or("<remote>");
    let Some(new) = update.new else {
        let what = match kind {
            Kind::Ledger => "a ledger is never deleted",
            Kind::Head => "the head of a loop is never deleted",
            Kind::Notes => "the receipts of a loop are never deleted",
        };
        let unblock = "push without --mirror, --prune and --delete for refs/loops/* and refs/notes/loops/*, or fetch them first";
        return Err(broken(
            what.to_owned(),
            format!("{unblock}: git fetch {remote} 'refs/loops/{id}/*:refs/loops/{id}/*'"),
        ));
    };
    match objects.peel(new) {
        Ok(Target::Commit(target)) if target == new => {}
        Ok(_) => {
            return Err(broken(format!("{new} is not a commit"), format!("push {} as it is", kind.of(id))));
        }
        Err(error) => {
            let unblock = error.unblock(Some(remote));
            return Err(broken(format!("it cannot be judged: {error}"), unblock));
        }
    }
    if kind == Kind::Ledger {
        if let Some(old) = update.old {
            fast_forwards(objects, old, new).map_err(|reason| {
                broken(
                    reason,
                    format!("git fetch {remote} 'refs/loops/{id}/*:refs/loops/{id}/*', then push again"),
                )
            })?;
        }
        return ledgers.verify(id, new).map(|_| ()).map_err(|reason| {
            broken(format!("the ledger does not verify: {reason}"), format!("git loop verify {id}"))
        });
    }
    let with_ledger = format!("git push {remote} {} {}", Kind::Ledger.of(id), kind.of(id));
    let ledger = match pushed.0.get(id) {
        Some(tip) => Some(*tip),
        None => ledgers.received(id).map_err(|why| {
            broken(
                format!("the loop's ledger is not in this push, and where it is on the other side is not known: {why}"),
                with_ledger.clone(),
            )
        })?,
    };
    let Some(ledger) = ledger else {
        let reason = "the other side has no ledger of this loop, and this push brings none; without one nothing says what this is";
        return Err(broken(reason.to_owned(), with_ledger));
    };
    if !objects.has(ledger) {
        return Err(broken(
            format!("the ledger on the other side is at {ledger}, which is not known here"),
            format!("git fetch {remote} 'refs/loops/{id}/*:refs/loops/{id}/*', then push again"),
        ));
    }
    let facts = ledgers.verify(id, ledger).map_err(|reason| {
        broken(format!("the loop's ledger does not verify: {reason}"), format!("git loop verify {id}"))
    })?;
    if kind == Kind::Head {
        if facts.may_be_head(new) {
            return Ok(());
        }
        return Err(broken(
            format!("{new} is neither the base nor a candidate of the ledger that the other side will have"),
            format!("let the iteration end, then push the ledger too: {with_ledger}"),
        ));
    }
    receipts::judge(objects, update.old, new, &facts).map_err(|fault| match fault {
        receipts::Fault::Moved(reason) => broken(
            reason,
            format!("git fetch {remote} '{0}:{0}-theirs', merge: git notes --ref=loops/{id} merge loops/{id}-theirs, then push again", kind.of(id)),
        ),
        receipts::Fault::Foreign { commit, what } => broken(
            format!("{commit} in its history is no commit of receipts of this loop: {what}"),
            "the receipts can be made again from the ledger: push without them".to_owned(),
        ),
        receipts::Fault::Unreadable(error) => {
            let unblock = error.unblock(Some(remote));
            broken(format!("it cannot be judged: {error}"), unblock)
        }
    })
}

/// Whether `old` is `new` or one of its first parents.
fn fast_forwards(objects: &Objects, old: ObjectId, new: ObjectId) -> Result<(), String> {
    if !objects.has(old) {
        return Err(format!("its tip on the other side, {old}, is not known here"));
    }
    let mut current = new;
    while current != old {
        let commit = objects.commit(current).map_err(|error| format!("it cannot be judged: {error}"))?;
        current = match commit.parents.first() {
            Some(parent) => *parent,
            None => return Err(format!("a ledger only fast-forwards: {new} is not built on {old}")),
        };
    }
    Ok(())
}

/// The id and the kind of a loop's ref; `None` if no loop has it.
fn parse(name: &BStr) -> Option<(&str, Kind)> {
    let name = name.to_str().ok()?;
    let (id, kind) = match name.strip_prefix("refs/loops/") {
        Some(rest) => match rest.split_once('/')? {
            (id, "ledger") => (id, Kind::Ledger),
            (id, "head") => (id, Kind::Head),
            _ => return None,
        },
        None => (name.strip_prefix("refs/notes/loops/")?, Kind::Notes),
    };
    is_id(id).then_some((id, kind))
}

/// `[a-z0-9][a-z0-9._-]{0,63}`, no `..`, not ending in `.lock` or `.`.
fn is_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    id.len() <= 64
        && id.bytes().next().is_some_and(plain)
        && id.bytes().all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'))
        && !id.contains("..")
        && !id.as_bytes().ends_with(b".lock")
        && !id.ends_with('.')
}

#[cfg(test)]
#[path = "ledger_rules_tests.rs"]
mod tests;
