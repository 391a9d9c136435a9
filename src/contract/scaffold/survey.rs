//! A commit as detection sees it: its paths, and the text of a few files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gix::bstr::{BStr, BString, ByteSlice};

/// The most test files that are read to find out which runner they are written for.
const TEST_FILES_READ: usize = 40;

/// The files at the top whose text says how the project is tested.
const READ_AT_TOP: [&str; 12] = [
    "Cargo.toml",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "tox.ini",
    "pytest.ini",
    "Pipfile",
    "requirements.txt",
    "package.json",
    "Makefile",
    "makefile",
    "GNUmakefile",
];

/// The paths of a commit and the text of some of its files.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// Every path, and whether it is a regular file (not a symlink or a submodule link).
    entries: Vec<(BString, bool)>,
    /// The regular files whose path is UTF-8.
    files: BTreeSet<String>,
    texts: BTreeMap<String, String>,
}

impl Survey {
    /// A survey of these paths; the flag says whether it is a regular file.
    pub fn new(entries: impl IntoIterator<Item = (BString, bool)>) -> Self {
        let entries: Vec<(BString, bool)> = entries.into_iter().collect();
        let regular = entries.iter().filter(|(_, is_file)| *is_file);
        let files = regular.filter_map(|(path, _)| path.to_str().ok().map(ToOwned::to_owned)).collect();
        Self { entries, files, texts: BTreeMap::new() }
    }

    /// The files whose text should be added with [`add_text`](Self::add_text) before anything is detected. Without one
    /// of them detection goes on with what it knows.
    pub fn wanted(&self) -> Vec<String> {
        let at_top = READ_AT_TOP.into_iter().filter(|name| self.has(name)).map(str::to_owned);
        let tests = self.files().filter(|path| super::python::is_test_file(path)).take(TEST_FILES_READ);
        let requirements = self.files().filter(|path| {
            !path.contains('/')
                && path.starts_with("requirements")
                && has_extension(path, "txt")
                && !READ_AT_TOP.contains(path)
        });
        at_top.chain(requirements.map(str::to_owned)).chain(tests.map(str::to_owned)).collect()
    }

    /// Adds the text of a file.
    pub fn add_text(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.texts.insert(path.into(), text.into());
    }

    /// Whether the commit has this regular file.
    pub(super) fn has(&self, path: &str) -> bool {
        self.files.contains(path)
    }

    /// The text of a file, empty where it was not added.
    pub(super) fn text(&self, path: &str) -> &str {
        self.texts.get(path).map_or("", String::as_str)
    }

    /// The texts that were added, by path.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The regular files, in path order.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str)
    }

    /// Every path with the flag whether it is a regular file.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&BStr, bool)> {
        self.entries.iter().map(|(path, is_file)| (path.as_bstr(), *is_file))
    }

    /// Whether the commit has a regular file below this folder.
    pub(super) fn has_folder(&self, folder: &str) -> bool {
        let prefix = format!("{folder}/");
        self.files.range(prefix.clone()..).next().is_some_and(|path| path.starts_with(&prefix))
    }

    /// The folders at the top that hold a regular file, in order.
    pub(super) fn top_folders(&self) -> Vec<&str> {
        let mut folders: Vec<&str> =
            self.files().filter_map(|path| path.split_once('/')).map(|(top, _)| top).collect();
        folders.dedup();
        folders
    }
}

/// Whether a file is named `….EXTENSION`, letter for letter.
pub(super) fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// The last part of a path.
pub(super) fn basename(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A path as a pattern that matches it. A character that means something in a pattern becomes `?`.
pub(super) fn as_pattern(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '@' | '/' | '~' | '=');
    path.chars().map(|c| if plain(c) { c } else { '?' }).collect()
}
