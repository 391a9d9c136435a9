//! What tools leave in a worktree while they build or test, and nobody meant to change: neither committed nor ignored, it
//! becomes part of every candidate, and the guards reject that.

use std::collections::BTreeSet;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::objs::tree::EntryKind;

use crate::error::{Error, Result, ResultExt};
use crate::git::Repo;
use crate::guard::PathSet;
use crate::worktree::BaseIgnores;

/// What to do about it, after the path.
pub const ADVICE: &str = "tools leave that behind, and the base neither has nor ignores it, so that every attempt which \
                          brings it along is rejected. Commit it, or add it to .gitignore, before the loop starts";

/// What one kind of project leaves beside a file.
struct Kind {
    /// The file by which the project is recognised.
    mark: &'static str,
    /// The names of what is left, and whether that is a folder.
    leaves: &'static [(&'static str, bool)],
    /// Text in the mark without which nothing is left.
    only_if: Option<&'static str>,
}

/// What the presets do not keep out of a worktree: cargo's target folder and Python's bytecode are not here.
const KINDS: [Kind; 6] = [
    Kind { mark: "Cargo.toml", leaves: &[("Cargo.lock", false)], only_if: None },
    Kind {
        mark: "package.json",
        leaves: &[("node_modules", true), ("package-lock.json", false)],
        only_if: Some("ependencies\""),
    },
    Kind { mark: "go.mod", leaves: &[("go.sum", false)], only_if: Some("require") },
    Kind { mark: "pyproject.toml", leaves: &[("poetry.lock", false)], only_if: Some("[tool.poetry") },
    Kind { mark: "pyproject.toml", leaves: &[("uv.lock", false)], only_if: Some("[tool.uv") },
    Kind { mark: "Pipfile", leaves: &[("Pipfile.lock", false)], only_if: None },
];

/// The lock files of other tools that manage the same dependencies: with one of them the other is not made.
const OTHER_LOCKS: [&str; 4] = ["yarn.lock", "pnpm-lock.yaml", "bun.lock", "npm-shrinkwrap.json"];

/// Names that a tool made if they are new, wherever they are: files, and folders.
const LEFT_FILES: [&str; 11] = [
    "Cargo.lock",
    "package-lock.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "go.sum",
    "poetry.lock",
    "uv.lock",
    "Pipfile.lock",
    "Gemfile.lock",
    "composer.lock",
    ".coverage",
];
const LEFT_FOLDERS: [&str; 7] =
    ["target", "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".venv"];

/// Whether a tool rather than its author is likely to have made `path`.
pub fn is_litter(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    LEFT_FILES.contains(&name) || folders.split('/').any(|folder| LEFT_FOLDERS.contains(&folder))
}

/// What working on `tree` would leave behind and a candidate may not bring: not committed, not ignored, not a warm folder
/// and, by `mutable` and `check`, not the worker's to add.
pub fn of_tree(
    repo: &Repo,
    tree: ObjectId,
    mutable: &[String],
    check: &[String],
    warm: &[String],
) -> Result<Vec<BString>> {
    let unreadable = || "the files of the base cannot be read".to_owned();
    let entries = repo.list_tree_recursive(tree).or_workspace(unreadable)?;
    let ignores = BaseIgnores::read(repo.gix(), tree).or_workspace(unreadable)?;
    let sets = |patterns: &[String]| PathSet::parse(patterns).or_workspace(unreadable);
    let (mutable, check) = (sets(mutable)?, sets(check)?);
    let paths: BTreeSet<&BStr> = entries.iter().map(|entry| entry.path.as_ref()).collect();
    let has = |path: &BStr| {
        let below = join(path, "");
        paths.contains(path)
            || paths.range(below.as_bstr()..).next().is_some_and(|next| next.starts_with(&below))
    };
    let mut found = Vec::new();
    for kind in &KINDS {
        let mut folders = Vec::new();
        for entry in &entries {
            let Some(folder) = folder_of(entry.path.as_ref(), kind.mark) else { continue };
            let is_file = matches!(entry.mode, EntryKind::Blob | EntryKind::BlobExecutable);
            let says_so = |text: &str| {
                Ok::<_, Error>(repo.read_blob(entry.id).or_workspace(unreadable)?.contains_str(text))
            };
            if is_file && kind.only_if.map_or(Ok(true), says_so)? {
                folders.push(folder);
            }
        }
        // The members of a workspace share what lies at its top.
        folders.sort_by_key(|folder| folder.len());
        let mut tops: Vec<&BStr> = Vec::new();
        for folder in folders {
            if !tops.iter().any(|top| is_below(folder, top)) {
                tops.push(folder);
            }
        }
        for top in &tops {
            for (name, is_dir) in kind.leaves {
                let path = join(top, name);
                let is_other_lock = *name == "package-lock.json"
                    && OTHER_LOCKS.iter().any(|other| has(join(top, other).as_ref()));
                // What lies in a folder is what the patterns are asked about.
                let inside = if *is_dir { join(path.as_ref(), "x") } else { path.clone() };
                let allowed = mutable.matches(inside.as_ref()) && !check.matches(inside.as_ref());
                let left_out = ignores.excludes(path.as_ref(), *is_dir)
                    || path.find_iter(b"/").any(|at| ignores.excludes(path[..at].as_bstr(), true));
                let is_warm = warm.iter().any(|folder| path == folder.trim_end_matches('/'));
                if !has(path.as_ref()) && !is_other_lock && !allowed && !left_out && !is_warm {
                    found.push(path);
                }
            }
        }
    }
    Ok(found)
}

/// The folder that `path` lies in, if its last part is `name`.
fn folder_of<'a>(path: &'a BStr, name: &str) -> Option<&'a BStr> {
    let folder = path.strip_suffix(name.as_bytes())?;
    if folder.is_empty() { Some(b"".as_bstr()) } else { folder.strip_suffix(b"/").map(ByteSlice::as_bstr) }
}

fn is_below(folder: &BStr, top: &BStr) -> bool {
    top.is_empty()
        || folder == top
        || folder.strip_prefix(top.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
}

fn join(folder: &BStr, name: &str) -> BString {
    let mut path = folder.to_owned();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name.as_bytes());
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::testing::TestRepo;

    fn litter(files: &[(&str, &str)], mutable: &[&str], warm: &[&str]) -> Vec<String> {
        let repo = TestRepo::new();
        for (path, text) in files {
            let path = repo.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        repo.git(["add", "-A"]);
        let commit = repo.commit("files");
        let open = repo.open();
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let tree = open.commit_tree(commit).unwrap();
        let found = of_tree(&open, tree, &owned(mutable), &[], &owned(warm)).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_neither_committed_nor_ignored_is_found() {
        let cargo = ("Cargo.toml", "[package]\n");
        assert_eq!(litter(&[cargo], &["src/**"], &[]), ["Cargo.lock"]);
        assert_eq!(litter(&[cargo, ("Cargo.lock", "")], &["src/**"], &[]), [""; 0]);
        assert_eq!(litter(&[cargo, (".gitignore", "*.lock\n")], &["src/**"], &[]), [""; 0]);
        assert_eq!(litter(&[cargo], &["Cargo.lock"], &[]), [""; 0]);
        assert_eq!(litter(&[cargo, ("A/Cargo.toml", "")], &[], &[]), ["Cargo.lock"]);
        let two = [("a/Cargo.toml", ""), ("a-b/Cargo.toml", ""), ("a/c/Cargo.toml", "")];
        assert_eq!(litter(&two, &["a-b/**"], &[]), ["a/Cargo.lock"]);
        assert_eq!(litter(&[("a/Cargo.toml", ""), (".gitignore", "/a/\n")], &[], &[]), [""; 0]);
    }

    #[test]
    fn the_locks_and_folders_of_other_tools() {
        let node = ("package.json", r#"{"devDependencies": {"x": "1"}}"#);
        assert_eq!(litter(&[node], &[], &[]), ["node_modules", "package-lock.json"]);
        assert_eq!(litter(&[node, ("yarn.lock", "")], &[], &["node_modules"]), [""; 0]);
        assert_eq!(litter(&[("package.json", "{}")], &[], &[]), [""; 0]);
        assert_eq!(litter(&[("go.mod", "module x\nrequire y v1\n")], &[], &[]), ["go.sum"]);
        assert_eq!(litter(&[("go.mod", "module x\n")], &[], &[]), [""; 0]);
        assert_eq!(litter(&[("pyproject.toml", "[tool.poetry]\n")], &[], &[]), ["poetry.lock"]);
        assert_eq!(litter(&[("pyproject.toml", "[tool.uv.sources]\n")], &[], &[]), ["uv.lock"]);
    }

    #[test]
    fn names_that_tools_make() {
        for path in ["Cargo.lock", "a/go.sum", "target/debug/x", "src/__pycache__/a.pyc"] {
            assert!(is_litter(path), "{path}");
        }
        for path in ["src/lib.rs", "Cargo.toml", "src/target.rs", "docs/target"] {
            assert!(!is_litter(path), "{path}");
        }
    }
}
