//! The check paths: what the base has under the check patterns, frozen by object id, and the tree that the check sees.
//!
//! A check path is a path that the check patterns match in folded form ([`PathSet::matches_folded`]): what would be the
//! same file on another machine is frozen with it. The patterns also hold for what a worker adds.

use gix::bstr::{BStr, BString, ByteSlice};
use gix::hash::{ObjectId, oid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::diff::{Change, ChangeKind, DiffError, changes};
use super::edit::Edits;
use super::fold::fold_path;
use super::pattern::PathSet;
use super::tree::{self, Mode, TreeError, Trees, parents};
use crate::escape::{escape_path, unescape_path};

/// One frozen file, as it stands in `contract.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "EntryText", into = "EntryText")]
pub struct FrozenEntry {
    /// From the root of the repository.
    pub path: BString,
    /// A file mode, never that of a symlink or a submodule link.
    pub mode: Mode,
    /// The blob.
    pub id: ObjectId,
}

/// How a [`FrozenEntry`] is written.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FrozenEntry")]
struct EntryText {
    /// The path; bytes that cannot be shown are escaped.
    path: String,
    /// The octal file mode, `100644` or `100755`.
    mode: String,
    /// The blob id in hex.
    id: String,
}

impl From<FrozenEntry> for EntryText {
    fn from(entry: FrozenEntry) -> Self {
        Self {
            path: escape_path(entry.path.as_bstr()),
            mode: entry.mode.octal().to_owned(),
            id: entry.id.to_string(),
        }
    }
}

impl TryFrom<EntryText> for FrozenEntry {
    type Error = String;

    fn try_from(text: EntryText) -> Result<Self, Self::Error> {
        let shown = crate::escape::escape_line(&text.path).into_owned();
        let path = unescape_path(&text.path).map_err(|error| error.to_string())?;
        let mode = Mode::from_octal(text.mode.as_bytes())
            .filter(|mode| mode.is_file())
            .ok_or_else(|| format!("the frozen path `{shown}` has no file mode"))?;
        let id = ObjectId::from_hex(text.id.as_bytes())
            .ok()
            .filter(|_| !text.id.bytes().any(|b| b.is_ascii_uppercase()))
            .ok_or_else(|| format!("the frozen path `{shown}` has no object id"))?;
        Ok(Self { path, mode, id })
    }
}

/// The check paths of a base tree.
///
/// `entries` are those of `base_tree` and no others; whoever reads them from a contract compares them with what
/// [`freeze`] gives for the base (the type is `Eq`) before anything is judged by them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frozen {
    /// The files, in the order of their paths' bytes.
    pub entries: Vec<FrozenEntry>,
    /// The tree that holds exactly these files: `frozen/` of the contract record.
    pub tree: ObjectId,
    /// The tree that they were taken from.
    pub base_tree: ObjectId,
}

impl Frozen {
    /// The frozen file at `path`.
    pub fn get(&self, path: &BStr) -> Option<&FrozenEntry> {
        self.entries.binary_search_by(|entry| entry.path.as_bstr().cmp(path)).ok().map(|at| &self.entries[at])
    }

    /// The frozen paths.
    pub fn paths(&self) -> impl Iterator<Item = &BStr> {
        self.entries.iter().map(|entry| entry.path.as_bstr())
    }
}

/// Why the check paths cannot be frozen.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    /// The target of a symlink or a submodule is not frozen with it.
    #[error("the check path `{}` is a {noun} in the base commit", escape_path(path.as_bstr()))]
    NotAFile {
        /// The path.
        path: BString,
        /// What it is.
        noun: &'static str,
    },
    /// A pattern names something that does not exist.
    #[error("the check pattern `{}` matches nothing in the base commit", crate::escape::escape_line(pattern))]
    Missing {
        /// The pattern as written.
        pattern: String,
    },
    /// There is nothing to freeze.
    #[error("no check pattern matches anything in the base commit")]
    Nothing,
    /// The base cannot be read or the frozen tree not be written.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl From<FreezeError> for crate::error::Error {
    fn from(error: FreezeError) -> Self {
        let message = error.to_string();
        let hint = match error {
            FreezeError::Tree(error) => return error.into(),
            FreezeError::NotAFile { .. } => {
                "name the files that it leads to in `paths.check`, or exclude it with `!`"
            }
            FreezeError::Missing { .. } => {
                "correct the pattern in `paths.check`, commit the file first, or begin the pattern with `**/` if it \
                 only guards against additions"
            }
            FreezeError::Nothing => "name the files that the check consists of in `paths.check`",
        };
        Self::usage(message).hint(hint)
    }
}

/// Freezes what `check` matches in `base_tree`, and stores the tree of it.
///
/// A pattern that begins with a name (`Cargo.lock`, `tests/**`) must find something; one that begins with a wildcard
/// (`**/conftest.py`) may be there only against additions, as long as any pattern finds something.
pub fn freeze<T: Trees + ?Sized>(trees: &T, base_tree: &oid, check: &PathSet) -> Result<Frozen, FreezeError> {
    let mut missing: Vec<_> = check.naming().collect();
    let mut entries = Vec::new();
    let mut not_a_file = None;
    tree::walk(trees, base_tree, &mut |path, mode, id| {
        if !check.matches_folded_as(path.as_bstr(), mode == Mode::Gitlink) {
            return;
        }
        missing.retain(|pattern| !pattern.finds(path.as_bstr()));
        if mode.is_file() {
            entries.push(FrozenEntry { path, mode, id });
        } else if not_a_file.is_none() {
            not_a_file = Some(FreezeError::NotAFile { path, noun: mode.noun() });
        }
    })?;
    if let Some(error) = not_a_file {
        return Err(error);
    }
    if entries.is_empty() {
        return Err(FreezeError::Nothing);
    }
    if let Some(pattern) = missing.first() {
        return Err(FreezeError::Missing { pattern: pattern.text().to_owned() });
    }
    let mut edits = Edits::default();
    for entry in &entries {
        edits.put(entry.path.as_bstr(), entry.mode, entry.id);
    }
    let tree = edits.apply(trees, None)?;
    Ok(Frozen { entries, tree, base_tree: base_tree.to_owned() })
}

/// The paths that both sets claim, of those in the base ([`Frozen::paths`] are enough): a contract with any is refused.
pub fn overlap<'a>(
    mutable: &PathSet,
    check: &PathSet,
    paths: impl IntoIterator<Item = &'a BStr>,
) -> Vec<BString> {
    let both = |path: &&BStr| mutable.matches(path) && check.matches_folded(path);
    paths.into_iter().filter(both).map(ToOwned::to_owned).collect()
}

/// How a candidate's check path differs from what is frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DriftKind {
    /// Under the check patterns, and not in the base.
    Added,
    /// Frozen, and not in the candidate.
    Deleted,
    /// Frozen with other content.
    Edited,
    /// Frozen as a file, now a symlink or a submodule link.
    TypeChanged,
    /// Frozen with another file mode.
    ModeChanged,
    /// A file, symlink or submodule link that stands, perhaps on another machine, where a folder of frozen files is.
    FolderReplaced,
}

impl DriftKind {
    /// A stable word for records and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "check_path_added",
            Self::Deleted => "check_path_deleted",
            Self::Edited => "check_path_edited",
            Self::TypeChanged => "check_path_type_changed",
            Self::ModeChanged => "check_path_mode_changed",
            Self::FolderReplaced => "check_folder_replaced",
        }
    }
}

/// Every check path of `candidate` that is not as frozen, in path order.
///
/// The base tree only says where to look: what is equal to it is as it was frozen from it.
pub fn drift<T: Trees + ?Sized>(
    trees: &T,
    candidate: &oid,
    frozen: &Frozen,
    check: &PathSet,
) -> Result<Vec<(BString, DriftKind)>, DiffError> {
    let base_changes = changes(trees, &frozen.base_tree, candidate)?;
    if base_changes.is_empty() {
        return Ok(Vec::new());
    }
    let folders: std::collections::HashSet<BString> =
        frozen.paths().flat_map(parents).map(fold_path).collect();
    Ok(base_changes
        .into_iter()
        .filter_map(|change| drift_of(&change, frozen, check, &folders).map(|kind| (change.path, kind)))
        .collect())
}

fn drift_of(
    change: &Change,
    frozen: &Frozen,
    check: &PathSet,
    folders: &std::collections::HashSet<BString>,
) -> Option<DriftKind> {
    let path = change.path.as_bstr();
    let is_gitlink = |side: Option<(Mode, ObjectId)>| side.is_some_and(|(mode, _)| mode == Mode::Gitlink);
    if let Some(entry) = frozen.get(path) {
        return match change.new {
            None => Some(DriftKind::Deleted),
            Some((mode, id)) if (mode, id) == (entry.mode, entry.id) => None,
            Some((mode, _)) if !mode.is_file() => Some(DriftKind::TypeChanged),
            Some((_, id)) if id != entry.id => Some(DriftKind::Edited),
            Some(_) => Some(DriftKind::ModeChanged),
        };
    }
    let is_dir = is_gitlink(change.old) || is_gitlink(change.new);
    if check.matches_folded_as(path, is_dir) {
        // Everything of the base under the patterns is frozen, so only an addition gets here; should the base have
        // had it after all, the candidate still may not have touched it.
        return Some(if change.kind == ChangeKind::Removed { DriftKind::Deleted } else { DriftKind::Added });
    }
    (change.new.is_some() && folders.contains(&fold_path(path))).then_some(DriftKind::FolderReplaced)
}

/// The tree that the check sees: the candidate's with every check path as frozen, and what it added under the check
/// patterns left out. Stores the trees that are new.
pub fn check_tree<T: Trees + ?Sized>(
    trees: &T,
    candidate: &oid,
    frozen: &Frozen,
    check: &PathSet,
) -> Result<ObjectId, DiffError> {
    let drift = drift(trees, candidate, frozen, check)?;
    if drift.is_empty() {
        return Ok(candidate.to_owned());
    }
    let mut edits = Edits::default();
    for (path, _) in &drift {
        match frozen.get(path.as_bstr()) {
            Some(entry) => edits.put(path.as_bstr(), entry.mode, entry.id),
            None => edits.remove(path.as_bstr()),
        }
    }
    edits.apply(trees, Some(candidate)).map_err(DiffError::New)
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::Memory;
    use super::*;
    use proptest::prelude::*;

    fn set(patterns: &[&str]) -> PathSet {
        PathSet::parse(patterns).unwrap()
    }

    const BASE: &[(&str, &str, &str)] = &[
        ("Cargo.lock", "100644", "lock"),
        ("src/a.rs", "100644", "a"),
        ("tests/one.py", "100644", "1"),
        ("tests/run.sh", "100755", "run"),
        ("tests/sub/two.py", "100644", "2"),
    ];

    fn check() -> PathSet {
        set(&["tests/**", "Cargo.lock", "**/conftest.py"])
    }

    #[test]
    fn the_frozen_tree_holds_the_very_objects_of_the_base() {
        let memory = Memory::default();
        let base = memory.tree(BASE);
        let frozen = freeze(&memory, &base, &check()).unwrap();
        assert_eq!(
            memory.paths(frozen.tree),
            ["100644 Cargo.lock", "100644 tests/one.py", "100755 tests/run.sh", "100644 tests/sub/two.py"]
        );
        let tests = |root: ObjectId| {
            let entries = tree::read(&memory, &root, "".into()).unwrap();
            entries.into_iter().find(|entry| entry.name == "tests").unwrap().id
        };
        assert_eq!(tests(frozen.tree), tests(base));
        assert_eq!(frozen.get("tests/run.sh".into()).unwrap().mode, Mode::Executable);
        assert_eq!(frozen.get("src/a.rs".into()), None);
    }

    #[test]
    fn what_cannot_be_frozen_is_named() {
        let memory = Memory::default();
        let base = memory.tree(&[
            ("tests/link", "120000", "one"),
            ("tests/one.py", "100644", "1"),
            ("vendor/sub", "160000", "x"),
        ]);
        let fail = |patterns: &[&str]| freeze(&memory, &base, &set(patterns)).unwrap_err().to_string();
        assert_eq!(fail(&["tests/**"]), "the check path `tests/link` is a symlink in the base commit");
        assert_eq!(fail(&["vendor/"]), "the check path `vendor/sub` is a submodule link in the base commit");
        assert_eq!(fail(&["sub/"]), "the check path `vendor/sub` is a submodule link in the base commit");
        assert_eq!(
            fail(&["tests/one.py", "Cargo.lock"]),
            "the check pattern `Cargo.lock` matches nothing in the base commit"
        );
        assert_eq!(
            fail(&["tests/one.py", "tets/**"]),
            "the check pattern `tets/**` matches nothing in the base commit"
        );
        assert_eq!(
            fail(&["TESTS/one.py"]),
            "the check pattern `TESTS/one.py` matches nothing in the base commit"
        );
        assert_eq!(
            fail(&["**/conftest.py", "*.cfg"]),
            "no check pattern matches anything in the base commit"
        );
        assert_eq!(fail(&[]), "no check pattern matches anything in the base commit");
        let guarded = freeze(&memory, &base, &set(&["tests/**", "!tests/link", "**/conftest.py"])).unwrap();
        assert_eq!(guarded.paths().collect::<Vec<_>>(), ["tests/one.py"]);
        let kind = |error: FreezeError| crate::error::Error::from(error).kind();
        assert_eq!(kind(FreezeError::Nothing), crate::error::Kind::Usage);
        let unreadable = freeze(&memory, &memory.blob("no tree"), &set(&["a"])).unwrap_err();
        assert_eq!(kind(unreadable), crate::error::Kind::Workspace);
    }

    /// On a case-insensitive machine `Tests/x.py` of the base is one of the tests.
    #[test]
    fn other_spellings_in_the_base_are_frozen_too() {
        let memory = Memory::default();
        let base = memory.tree(&[("Tests/x.py", "100644", "x"), ("tests/y.py", "100644", "y")]);
        let frozen = freeze(&memory, &base, &set(&["tests/**"])).unwrap();
        assert_eq!(frozen.paths().collect::<Vec<_>>(), ["Tests/x.py", "tests/y.py"]);
        assert_eq!(overlap(&set(&["Tests/**"]), &set(&["tests/**"]), frozen.paths()), ["Tests/x.py"]);
    }

    #[test]
    fn a_present_overlap_is_found_and_a_possible_one_is_not() {
        let paths = ["src/a.rs", "src/conftest.py", "tests/one.py"].map(BStr::new);
        assert_eq!(overlap(&set(&["src/**"]), &check(), paths), ["src/conftest.py"]);
        assert_eq!(overlap(&set(&["src/*.rs"]), &check(), paths), Vec::<BString>::new());
        assert_eq!(
            overlap(&set(&["**", "!tests/**", "!**/conftest.py"]), &check(), paths),
            Vec::<BString>::new()
        );
    }

    #[test]
    fn the_check_sees_the_candidate_with_the_frozen_files() {
        let memory = Memory::default();
        let base = memory.tree(BASE);
        let frozen = freeze(&memory, &base, &check()).unwrap();
        let seen = |files: &[(&str, &str, &str)]| {
            check_tree(&memory, &memory.tree(files), &frozen, &check()).unwrap()
        };
        let honest = [("src/a.rs", "100644", "better"), ("src/b.rs", "100644", "new")];
        let expected = memory.tree(&[&honest, &BASE[..1], &BASE[2..]].concat());
        assert_eq!(seen(&[&honest, &BASE[..1], &BASE[2..]].concat()), expected);

        let cheats: &[&[(&str, &str, &str)]] = &[
            // Everything deleted, and a hook added at the root and below.
            &[("conftest.py", "100644", "pass"), ("src/conftest.py", "100644", "pass")],
            // Edited, mode changed, added, type changed.
            &[
                ("Cargo.lock", "100644", "other"),
                ("tests/one.py", "100755", "1"),
                ("tests/run.sh", "120000", "/bin/true"),
                ("tests/extra.py", "100644", "x"),
            ],
            // The folder is a symlink, a file, a submodule; a frozen file is a folder.
            &[("tests", "120000", "src")],
            &[("tests", "100644", "")],
            &[("tests", "160000", "x")],
            &[("tests/one.py/x", "100644", "x"), ("Cargo.lock/y/z", "100644", "z")],
            // Other spellings beside them.
            &[("Tests", "120000", "src"), ("TESTS/sub/one.py", "100644", "x"), ("cargo.LOCK", "100644", "")],
        ];
        for cheat in cheats {
            assert_eq!(seen(&[&honest, *cheat].concat()), expected, "{cheat:?}");
        }
    }

    #[test]
    fn frozen_entries_are_written_and_read_back() {
        let entry = FrozenEntry {
            path: BString::from(&b"tests/caf\xe9\n.py"[..]),
            mode: Mode::Executable,
            id: ObjectId::null(gix::hash::Kind::Sha1),
        };
        let json = serde_json::to_string(&entry).unwrap();
        assert_eq!(
            json,
            r#"{"path":"tests/caf\\xe9\\x0a.py","mode":"100755","id":"0000000000000000000000000000000000000000"}"#
        );
        assert_eq!(serde_json::from_str::<FrozenEntry>(&json).unwrap(), entry);
        for (from, to) in [
            ("100755", "120000"),
            ("100755", "0100755"),
            ("0000\"", "000\""),
            ("x0a", "x0A"),
            ("0000\"", "000g\""),
        ] {
            assert!(serde_json::from_str::<FrozenEntry>(&json.replace(from, to)).is_err(), "{from} {to}");
        }
        let schema = serde_json::to_string(&schemars::schema_for!(FrozenEntry)).unwrap();
        assert!(schema.contains("The octal file mode"), "{schema}");
    }

    proptest! {
        /// Whatever a worker does, the check paths of the check's tree are the frozen ones, and nothing else changes.
        #[test]
        fn the_check_tree_is_always_as_frozen(
            files in proptest::collection::vec(
                ("(tests|Tests|src|te\u{200b}sts|Cargo[.]lock|cargo[.]lock)(/(one[.]py|sub|conftest[.]py|Two[.]py|a)){0,2}", 0..4_usize, "[a-c]"),
                0..8,
            )
        ) {
            let memory = Memory::default();
            let base = memory.tree(BASE);
            let frozen = freeze(&memory, &base, &check()).unwrap();
            let modes = ["100644", "100755", "120000", "160000"];
            let files: Vec<_> = files.iter().map(|(path, mode, text)| (path.as_str(), modes[*mode], text.as_str())).collect();
            let candidate = memory.tree(&files);
            let tree = check_tree(&memory, &candidate, &frozen, &check()).unwrap();
            prop_assert_eq!(freeze(&memory, &tree, &check()).unwrap().tree, frozen.tree);
            prop_assert!(drift(&memory, &tree, &frozen, &check()).unwrap().is_empty());
            let rest = |root| {
                let mut paths = memory.paths(root);
                paths.retain(|line| {
                    let path = BStr::new(line.split_once(' ').unwrap().1);
                    let blocks = frozen.paths().flat_map(parents).any(|dir| fold_path(dir) == fold_path(path));
                    !check().matches_folded_as(path, line.starts_with("160000")) && !blocks
                });
                paths
            };
            prop_assert_eq!(rest(tree), rest(candidate));
            prop_assert_eq!(drift(&memory, &candidate, &frozen, &check()).unwrap().is_empty(), tree == candidate);
        }
    }
}
