//! Every ref name of a loop comes from here.
//!
//! ```text
//! refs/loops/<id>/ledger    LoopRefs::ledger   the chain of signed records; the only authority
//! refs/loops/<id>/head      LoopRefs::head     the candidate while it is judged, else green
//! refs/notes/loops/<id>     LoopRefs::notes    receipts, as git notes on the candidates
//!
//! refs/remotes/<remote>/loops/<id>/ledger|head|notes    LoopRefs::tracked    what was last fetched from a remote, verified
//! refs/loops-aside/<id>/<12 digits>                     LoopRefs::aside      a ledger with records that were not carried over
//! <loop.refPrefix>/<id>/ledger|head|notes               RemoteNames          on a remote that takes no refs/loops
//! ```
//!
//! `refs/loops/<id>` itself never exists: it would be a file where the folder of the two refs has to be.

use std::fmt;
use std::str::FromStr;

use gix::ObjectId;
use gix::bstr::{BStr, ByteSlice};
use gix::refs::FullName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where ledgers and heads live, with the final slash.
pub const LOOPS_PREFIX: &str = "refs/loops/";
/// Where receipts live, with the final slash.
pub const NOTES_PREFIX: &str = "refs/notes/loops/";

/// Where ledgers are kept that had records which could not be carried over, with the final slash.
pub const ASIDE_PREFIX: &str = "refs/loops-aside/";
/// Where what remotes have is remembered, with the final slash.
const REMOTES_PREFIX: &str = "refs/remotes/";

/// The longest loop id, in bytes.
const MAX_ID: usize = 64;

/// Which rule of a name was broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is nothing.
    #[error("a loop id must not be empty")]
    Empty,
    /// More than 64 bytes.
    #[error("loop id {0:?} is longer than {MAX_ID} characters")]
    TooLong(String),
    /// The first character is not `[a-z0-9]`.
    #[error("loop id {0:?} must start with a small letter or a digit")]
    BadStart(String),
    /// A character outside of `[a-z0-9._-]`.
    #[error("loop id {id:?} has {found:?}; small letters, digits, '.', '_' and '-' are allowed")]
    BadCharacter {
        /// The id.
        id: String,
        /// The first such character.
        found: char,
    },
    /// Two dots in a row, which git forbids in ref names.
    #[error("loop id {0:?} must not contain '..'")]
    TwoDots(String),
    /// The end that git keeps for lock files.
    #[error("loop id {0:?} must not end in '.lock'")]
    EndsInLock(String),
    /// A final dot, which git forbids in ref names.
    #[error("loop id {0:?} must not end in '.'")]
    EndsInDot(String),
    /// A ref below `refs/loops/` or `refs/notes/loops/` that no loop has.
    #[error(
        "{0:?} is not the ref of a loop; a loop has 'refs/loops/<id>/ledger', 'refs/loops/<id>/head' and 'refs/notes/loops/<id>'"
    )]
    NotALoopRef(String),
    /// A `loop.refPrefix` that no ref can have, or that another kind of refs has.
    #[error("loop.refPrefix = {0:?} is no place for the refs of loops")]
    BadPrefix(String),
}

impl From<NameError> for crate::error::Error {
    fn from(error: NameError) -> Self {
        if let NameError::BadPrefix(_) = error {
            return Self::workspace(error.to_string()).hint(
                "use a place of its own that the host takes: git config loop.refPrefix refs/heads/git-loop",
            );
        }
        Self::usage(error.to_string()).hint("use an id like 'fix-login-2': [a-z0-9][a-z0-9._-]{0,63}")
    }
}

/// The id of a loop: `[a-z0-9][a-z0-9._-]{0,63}`, no `..`, not ending in `.lock` or `.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = "^[a-z0-9][a-z0-9._-]{0,63}$"))]
pub struct LoopId(String);

impl LoopId {
    /// Checks `id` against every rule; the error says which one it breaks.
    pub fn new(id: impl Into<String>) -> Result<Self, NameError> {
        let id = id.into();
        let Some(first) = id.chars().next() else {
            return Err(NameError::Empty);
        };
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
        if let Some(found) = id.chars().find(|&c| !allowed(c)) {
            return Err(NameError::BadCharacter { id, found });
        }
        if !(first.is_ascii_lowercase() || first.is_ascii_digit()) {
            return Err(NameError::BadStart(id));
        }
        if id.len() > MAX_ID {
            return Err(NameError::TooLong(id));
        }
        if id.contains("..") {
            return Err(NameError::TwoDots(id));
        }
        // Only a small `.lock` can get here.
        if id.as_bytes().ends_with(b".lock") {
            return Err(NameError::EndsInLock(id));
        }
        if id.ends_with('.') {
            return Err(NameError::EndsInDot(id));
        }
        Ok(Self(id))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The refs of this loop.
    pub fn refs(&self) -> LoopRefs<'_> {
        LoopRefs { id: self }
    }
}

impl fmt::Display for LoopId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for LoopId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for LoopId {
    type Err = NameError;

    fn from_str(id: &str) -> Result<Self, NameError> {
        Self::new(id)
    }
}

impl TryFrom<String> for LoopId {
    type Error = NameError;

    fn try_from(id: String) -> Result<Self, NameError> {
        Self::new(id)
    }
}

impl From<LoopId> for String {
    fn from(id: LoopId) -> Self {
        id.0
    }
}

/// The refs of one loop.
#[derive(Debug, Clone, Copy)]
pub struct LoopRefs<'a> {
    id: &'a LoopId,
}

impl LoopRefs<'_> {
    /// `refs/loops/<id>/ledger`: the append-only chain of signed records. Only ever fast-forwards.
    pub fn ledger(&self) -> FullName {
        self.name(LoopRefKind::Ledger)
    }

    /// `refs/loops/<id>/head`: the candidate while it is judged, else green. Repaired from the ledger.
    pub fn head(&self) -> FullName {
        self.name(LoopRefKind::Head)
    }

    /// `refs/notes/loops/<id>`: the receipts. `git log --notes=loops/<id>` shows them.
    pub fn notes(&self) -> FullName {
        self.name(LoopRefKind::Notes)
    }

    /// `refs/remotes/<remote>/loops/<id>/<kind>`: what was last fetched from, or pushed to, a remote; it was verified. `None` for a
    /// remote whose name makes no ref name.
    pub fn tracked(&self, remote: &str, kind: LoopRefKind) -> Option<FullName> {
        FullName::try_from(format!("{REMOTES_PREFIX}{remote}/loops/{}/{}", self.id, kind.word())).ok()
    }

    /// `refs/loops-aside/<id>/<the first 12 digits of tip>`: a former ledger.
    #[expect(clippy::missing_panics_doc, reason = "every loop id makes a valid ref name")]
    pub fn aside(&self, tip: ObjectId) -> FullName {
        let name = format!("{ASIDE_PREFIX}{}/{}", self.id, tip.to_hex_with_len(12));
        FullName::try_from(name).expect("the grammar of a loop id is stricter than that of a ref name")
    }

    /// The ref of `kind`.
    #[expect(clippy::missing_panics_doc, reason = "every loop id makes a valid ref name")]
    pub fn name(&self, kind: LoopRefKind) -> FullName {
        let id = self.id;
        let name = match kind {
            LoopRefKind::Ledger => format!("{LOOPS_PREFIX}{id}/ledger"),
            LoopRefKind::Head => format!("{LOOPS_PREFIX}{id}/head"),
            LoopRefKind::Notes => format!("{NOTES_PREFIX}{id}"),
        };
        FullName::try_from(name).expect("the grammar of a loop id is stricter than that of a ref name")
    }
}

/// Which ref of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoopRefKind {
    /// `refs/loops/<id>/ledger`
    Ledger,
    /// `refs/loops/<id>/head`
    Head,
    /// `refs/notes/loops/<id>`
    Notes,
}

impl LoopRefKind {
    /// All of them, the authority first.
    pub const ALL: [Self; 3] = [Self::Ledger, Self::Head, Self::Notes];

    /// The last part of the ref's name where the three of a loop lie in one folder.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ledger => "ledger",
            Self::Head => "head",
            Self::Notes => "notes",
        }
    }

    fn from_word(word: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word().as_bytes() == word)
    }
}

/// Whether a ref is one of [`LoopRefs::tracked`].
pub fn is_tracked_loop_ref(name: &BStr) -> bool {
    let Some(rest) = name.strip_prefix(REMOTES_PREFIX.as_bytes()) else { return false };
    let Some((rest, kind)) = rest.rsplit_once_str("/") else { return false };
    let Some((rest, id)) = rest.rsplit_once_str("/") else { return false };
    LoopRefKind::from_word(kind).is_some()
        && rest.ends_with(b"/loops")
        && id.to_str().is_ok_and(|id| LoopId::new(id).is_ok())
}

/// Whether a ref is one of [`LoopRefs::aside`].
pub fn is_aside_ref(name: &BStr) -> bool {
    let Some(rest) = name.strip_prefix(ASIDE_PREFIX.as_bytes()) else { return false };
    let Some((id, tip)) = rest.split_once_str("/") else { return false };
    let digits = tip.len() == 12 && tip.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    digits && id.to_str().is_ok_and(|id| LoopId::new(id).is_ok())
}

/// How the refs of loops are called on a remote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemoteNames {
    /// `loop.refPrefix` without a slash at its end; `None` for the names that they have here.
    prefix: Option<String>,
}

impl RemoteNames {
    /// Those of `loop.refPrefix`, where it is set: a full ref name without its last parts, `refs/heads/git-loop` say.
    pub fn new(prefix: Option<&str>) -> Result<Self, NameError> {
        let Some(prefix) = prefix else { return Ok(Self::default()) };
        let prefix = prefix.trim_end_matches('/');
        let valid = FullName::try_from(format!("{prefix}/loop/ledger")).is_ok();
        let taken = [LOOPS_PREFIX, NOTES_PREFIX, ASIDE_PREFIX, REMOTES_PREFIX]
            .iter()
            .any(|taken| format!("{prefix}/").starts_with(taken) || taken.starts_with(&format!("{prefix}/")));
        if prefix == LOOPS_PREFIX.trim_end_matches('/') {
            return Ok(Self::default());
        }
        if !prefix.starts_with("refs/") || prefix.len() <= "refs/".len() || !valid || taken {
            return Err(NameError::BadPrefix(prefix.to_owned()));
        }
        Ok(Self { prefix: Some(prefix.to_owned()) })
    }

    /// The name of a loop's ref on the remote.
    #[expect(clippy::missing_panics_doc, reason = "the prefix was checked with a name behind it")]
    pub fn name(&self, id: &LoopId, kind: LoopRefKind) -> FullName {
        match &self.prefix {
            None => id.refs().name(kind),
            Some(prefix) => FullName::try_from(format!("{prefix}/{id}/{}", kind.word()))
                .expect("the prefix was checked, and ids are strict"),
        }
    }

    /// Reads a name that the remote listed. `None` is a ref that no loop has.
    pub fn parse(&self, name: &BStr) -> Option<LoopRef> {
        let Some(prefix) = &self.prefix else { return LoopRef::parse(name).ok().flatten() };
        let rest = name.strip_prefix(prefix.as_bytes())?.strip_prefix(b"/")?;
        let (id, kind) = rest.split_once_str("/")?;
        let id = LoopId::new(id.to_str().ok()?).ok()?;
        Some(LoopRef { id, kind: LoopRefKind::from_word(kind)? })
    }

    /// What to ask a remote for.
    pub fn patterns(&self) -> Vec<String> {
        match &self.prefix {
            None => vec![format!("{LOOPS_PREFIX}*"), format!("{NOTES_PREFIX}*")],
            Some(prefix) => vec![format!("{prefix}/*")],
        }
    }
}

/// A ref that belongs to a loop.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoopRef {
    /// The loop.
    pub id: LoopId,
    /// Which of its refs.
    pub kind: LoopRefKind,
}

impl LoopRef {
    /// Reads a full ref name. `None` is a ref that has nothing to do with loops (`refs/heads/main`); an error is one
    /// in the space of the loops that no loop can have, which whoever judges a push has to refuse.
    pub fn parse(name: &BStr) -> Result<Option<Self>, NameError> {
        let foreign = || NameError::NotALoopRef(name.to_str_lossy().into_owned());
        let (id, kind) = if let Some(rest) = name.strip_prefix(LOOPS_PREFIX.as_bytes()) {
            let (id, kind) = rest.split_once_str("/").ok_or_else(foreign)?;
            match kind {
                b"ledger" => (id, LoopRefKind::Ledger),
                b"head" => (id, LoopRefKind::Head),
                _ => return Err(foreign()),
            }
        } else if let Some(id) = name.strip_prefix(NOTES_PREFIX.as_bytes()) {
            (id, LoopRefKind::Notes)
        } else if name == "refs/loops" || name == "refs/notes/loops" {
            // Either would be a file where a folder has to be.
            return Err(foreign());
        } else {
            return Ok(None);
        };
        let id = id.to_str().map_err(|_| foreign())?;
        Ok(Some(Self { id: LoopId::new(id)?, kind }))
    }

    /// The full name.
    pub fn name(&self) -> FullName {
        self.id.refs().name(self.kind)
    }
}

impl fmt::Display for LoopRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_error_says_which_rule_is_broken() {
        let broken = |id: &str| LoopId::new(id).unwrap_err().to_string();
        assert_eq!(broken(""), "a loop id must not be empty");
        assert_eq!(broken(".a"), "loop id \".a\" must start with a small letter or a digit");
        assert_eq!(
            broken("aB"),
            "loop id \"aB\" has 'B'; small letters, digits, '.', '_' and '-' are allowed"
        );
        assert!(broken("a/b").contains("'/'"));
        assert!(broken("é").contains("'é'"));
        assert_eq!(broken("a..b"), "loop id \"a..b\" must not contain '..'");
        assert_eq!(broken("a.lock"), "loop id \"a.lock\" must not end in '.lock'");
        assert_eq!(broken("a."), "loop id \"a.\" must not end in '.'");
        assert!(broken(&"a".repeat(65)).ends_with("is longer than 64 characters"));
        assert!(LoopId::new("a".repeat(64)).is_ok());
        for good in ["0", "fix", "fix.lock.d", "a-b_c.d", "lock", "x.locks"] {
            assert!(LoopId::new(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn names_are_as_the_format_says() {
        let id = LoopId::new("fix").unwrap();
        assert_eq!(id.refs().ledger().as_bstr(), "refs/loops/fix/ledger");
        assert_eq!(id.refs().head().as_bstr(), "refs/loops/fix/head");
        assert_eq!(id.refs().notes().as_bstr(), "refs/notes/loops/fix");
    }

    #[test]
    fn refs_in_the_space_of_loops_that_no_loop_has_are_errors() {
        for name in [
            "refs/loops",
            "refs/loops/",
            "refs/loops/a",
            "refs/loops/a/",
            "refs/loops/a/b",
            "refs/loops/a/ledger/b",
            "refs/loops/A/ledger",
            "refs/loops//ledger",
            "refs/notes/loops",
            "refs/notes/loops/",
            "refs/notes/loops/a/b",
        ] {
            assert!(LoopRef::parse(name.into()).is_err(), "{name}");
        }
        for name in ["refs/heads/main", "refs/loopsy/a/ledger", "refs/notes/commits", "HEAD", ""] {
            assert_eq!(LoopRef::parse(name.into()).unwrap(), None, "{name}");
        }
    }

    #[test]
    fn the_schema_and_serde_know_the_grammar() {
        let schema = serde_json::to_value(schemars::schema_for!(LoopId)).unwrap();
        assert_eq!(
            (&schema["type"], &schema["pattern"]),
            (&"string".into(), &"^[a-z0-9][a-z0-9._-]{0,63}$".into())
        );
        assert_eq!(serde_json::from_str::<LoopId>("\"fix\"").unwrap().as_str(), "fix");
        let error = serde_json::from_str::<LoopId>("\"a..b\"").unwrap_err();
        assert!(error.to_string().contains("must not contain '..'"), "{error}");
    }

    #[test]
    fn a_prefix_is_a_place_of_its_own() {
        for bad in [
            "",
            "/",
            "loops",
            "refs",
            "refs/",
            "refs/a..b",
            "refs/remotes",
            "refs/remotes/x",
            "refs/loops/x",
            "refs/notes/loops",
            "refs/notes",
        ] {
            assert!(RemoteNames::new(Some(bad)).is_err(), "{bad}");
        }
        assert_eq!(RemoteNames::new(Some("refs/loops/")).unwrap(), RemoteNames::default());
        let names = RemoteNames::new(Some("refs/heads/git-loop/")).unwrap();
        let id = LoopId::new("fix").unwrap();
        assert_eq!(names.patterns(), ["refs/heads/git-loop/*"]);
        for kind in LoopRefKind::ALL {
            let name = names.name(&id, kind);
            assert_eq!(name.as_bstr(), format!("refs/heads/git-loop/fix/{}", kind.word()).as_str());
            assert_eq!(names.parse(name.as_bstr()), Some(LoopRef { id: id.clone(), kind }));
            let own = RemoteNames::default().name(&id, kind);
            assert_eq!(RemoteNames::default().parse(own.as_bstr()), Some(LoopRef { id: id.clone(), kind }));
            assert_eq!(names.parse(own.as_bstr()), None);
        }
    }

    #[test]
    fn refs_of_ours_beside_the_loops_are_known_by_their_form() {
        let id = LoopId::new("fix").unwrap();
        for kind in LoopRefKind::ALL {
            let tracked = id.refs().tracked("some/where", kind).unwrap();
            assert!(is_tracked_loop_ref(tracked.as_bstr()), "{tracked}");
        }
        assert_eq!(id.refs().tracked("a..b", LoopRefKind::Head), None);
        let aside = id.refs().aside(ObjectId::null(gix::hash::Kind::Sha1));
        assert_eq!(aside.as_bstr(), "refs/loops-aside/fix/000000000000");
        assert!(is_aside_ref(aside.as_bstr()));
        for other in [
            "refs/remotes/origin/main",
            "refs/remotes/origin/loops/fix",
            "refs/remotes/origin/loops/fix/other",
            "refs/remotes/loops/fix/ledger",
            "refs/remotes/origin/loops/FIX/ledger",
            "refs/heads/loops/fix/ledger",
            "refs/loops-aside/fix",
            "refs/loops-aside/fix/0000",
            "refs/loops-aside/fix/00000000000G",
        ] {
            assert!(!is_tracked_loop_ref(other.into()) && !is_aside_ref(other.into()), "{other}");
        }
    }

    proptest! {
        #[test]
        fn parsing_is_total(name in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = LoopRef::parse(name.as_bstr());
            let mut below = b"refs/loops/".to_vec();
            below.extend_from_slice(&name);
            prop_assert!(!matches!(LoopRef::parse(below.as_bstr()), Ok(None)));
        }

        #[test]
        fn what_is_built_is_parsed_back(id in "[a-z0-9][a-z0-9._-]{0,63}") {
            let Ok(id) = LoopId::new(id) else { return Ok(()) };
            for kind in [LoopRefKind::Ledger, LoopRefKind::Head, LoopRefKind::Notes] {
                let name = id.refs().name(kind);
                prop_assert_eq!(LoopRef::parse(name.as_bstr()).unwrap(), Some(LoopRef { id: id.clone(), kind }));
            }
        }
    }
}
