//! The ignore rules of one commit, and of nothing else: neither `info/exclude`, nor a global file, nor what a worker
//! wrote into a `.gitignore` since.

use std::collections::HashMap;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::glob::pattern::Case;
use gix::glob::search::Pattern;
use gix::glob::search::pattern::List;
use gix::ignore::search::{Ignore, pattern_matching_relative_path};
use gix::objs::Kind;

use super::error::WorktreeError;
use super::manifest::{Manifest, join, read_object};

/// All `.gitignore` files of a tree.
#[derive(Debug, Clone, Default)]
pub struct BaseIgnores {
    /// By the folder they lie in.
    lists: HashMap<BString, List<Ignore>>,
}

impl BaseIgnores {
    /// Reads the rules of `tree`.
    pub fn read(repo: &gix::Repository, tree: ObjectId) -> Result<Self, WorktreeError> {
        Self::of(repo, &Manifest::read(repo, tree, false)?)
    }

    /// Reads the rules of a tree that is known already.
    pub fn of(repo: &gix::Repository, manifest: &Manifest) -> Result<Self, WorktreeError> {
        let mut ignores = Self::default();
        let mut buf = Vec::new();
        // Rules count whether their file is checked out or not.
        let manifest = manifest.whole();
        for (at, dir) in manifest.dirs.iter().enumerate() {
            // As git has it: a `.gitignore` that is a link holds no rules.
            let rules = manifest.find(at, b".gitignore".as_bstr()).filter(|entry| entry.mode.is_blob());
            if let Some(rules) = rules {
                let path = join(dir.path.as_ref(), rules.name.as_ref());
                let data = read_object(&repo.objects, rules.id, Kind::Blob, Some(path.as_ref()), &mut buf)?;
                ignores.add(dir.path.as_ref(), data);
            }
        }
        Ok(ignores)
    }

    /// Adds the rules of the `.gitignore` in `dir`.
    pub(super) fn add(&mut self, dir: &BStr, rules: &[u8]) {
        let path = super::error::to_path(dir).join(".gitignore");
        let mut base = dir.to_owned();
        if !base.is_empty() {
            base.push(b'/');
        }
        let list = List {
            patterns: Ignore { support_precious: false }.bytes_to_patterns(rules, &path),
            source: None,
            base: Some(base).filter(|base| !base.is_empty()),
        };
        self.lists.insert(dir.to_owned(), list);
    }

    /// What the rules say of `path` itself: the last matching line of the nearest file that has one. That a folder
    /// above is ignored is the caller's to know, as it walks from the top.
    pub fn excludes(&self, path: &BStr, is_dir: bool) -> bool {
        // The matcher takes relative paths only, and insists.
        if self.lists.is_empty() || path.is_empty() || path.starts_with(b"/") {
            return false;
        }
        let basename = path.rfind_byte(b'/').map(|slash| slash + 1);
        let mut dir = basename.map_or(b"".as_bstr(), |start| path[..start - 1].as_bstr());
        loop {
            if let Some(list) = self.lists.get(dir)
                && let Some(found) =
                    pattern_matching_relative_path(list, path, basename, Some(is_dir), Case::Sensitive)
            {
                return !found.pattern.is_negative();
            }
            if dir.is_empty() {
                return false;
            }
            dir = dir.rfind_byte(b'/').map_or(b"".as_bstr(), |slash| dir[..slash].as_bstr());
        }
    }
}

#[cfg(test)]
mod tests {
    use gix::bstr::ByteSlice;
    use proptest::prelude::*;

    use super::BaseIgnores;

    fn excludes(ignores: &BaseIgnores, path: &str, is_dir: bool) -> bool {
        ignores.excludes(path.as_bytes().as_bstr(), is_dir)
    }

    #[test]
    fn nearest_file_wins_and_negation_works() {
        let mut ignores = BaseIgnores::default();
        ignores.add(b"".as_bstr(), b"*.log\n/build/\n!keep.log\ndoc/*.tmp\n");
        ignores.add(b"src".as_bstr(), b"!*.log\nout\n");
        assert!(excludes(&ignores, "a.log", false));
        assert!(excludes(&ignores, "x/a.log", false));
        assert!(!excludes(&ignores, "keep.log", false));
        assert!(!excludes(&ignores, "src/a.log", false));
        assert!(excludes(&ignores, "src/deep/out", true));
        assert!(!excludes(&ignores, "out", true));
        assert!(excludes(&ignores, "build", true));
        assert!(!excludes(&ignores, "build", false));
        assert!(!excludes(&ignores, "x/build", true));
        assert!(excludes(&ignores, "doc/a.tmp", false));
        assert!(!excludes(&ignores, "doc/x/a.tmp", false));
        // A folder whose name only begins the same has other rules.
        assert!(excludes(&ignores, "srcs/a.log", false));
    }

    proptest! {
        #[test]
        fn any_bytes_are_rules_of_some_kind(
            rules in proptest::collection::vec(any::<u8>(), 0..200),
            path in "[a-z.!/*\\[\\]]{1,20}",
            is_dir: bool,
        ) {
            let mut ignores = BaseIgnores::default();
            ignores.add(b"a".as_bstr(), &rules);
            ignores.add(b"".as_bstr(), &rules);
            let _ = excludes(&ignores, &path, is_dir);
        }
    }
}
