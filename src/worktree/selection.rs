//! Which paths of a tree are checked out, where not all are.

use std::fmt;
use std::sync::Arc;

use gix::bstr::BStr;

use super::manifest::{Directory, Manifest, join};

/// Whether a path is wanted.
type Wanted = dyn Fn(&BStr) -> bool + Send + Sync;

/// A part of each tree: what is wanted by its path, and whatever is not as in one tree that all others come from. So nothing that was
/// changed since is ever out of sight.
#[derive(Clone)]
pub struct Selection {
    name: Arc<str>,
    base: Arc<Manifest>,
    wanted: Arc<Wanted>,
}

impl fmt::Debug for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Selection").field(&self.name).finish()
    }
}

impl Selection {
    /// `name` says what is wanted and of which base: two selections of one name select the same. It becomes part of a file name.
    pub fn new(name: &str, base: Manifest, wanted: impl Fn(&BStr) -> bool + Send + Sync + 'static) -> Self {
        Self { name: name.into(), base: Arc::new(base), wanted: Arc::new(wanted) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Appends to `part` what is selected of a folder of `whole`, and notes in `whole` what is not. `base` is the folder of the base at the same
    /// path. Whether something is selected.
    pub(super) fn select(
        &self,
        whole: &mut Manifest,
        at: usize,
        base: Option<usize>,
        part: &mut Manifest,
    ) -> bool {
        let Directory { path, tree, .. } = &whole.dirs[at];
        let (path, to) = (path.clone(), part.dirs.len());
        part.dirs.push(Directory {
            path: path.clone(),
            tree: *tree,
            files: 0,
            partial: false,
            entries: Vec::new(),
        });
        let mut partial = false;
        for index in 0..whole.dirs[at].entries.len() {
            let mut entry = whole.dirs[at].entries[index].clone();
            let before = base.and_then(|dir| self.base.find(dir, entry.name.as_ref()));
            let below = join(path.as_ref(), entry.name.as_ref());
            let selected = if entry.mode.is_tree() {
                let was = before.filter(|was| was.mode.is_tree()).map(|was| was.dir);
                let inner = part.dirs.len();
                let selected = self.select(whole, entry.dir, was, part);
                partial |= whole.dirs[entry.dir].partial;
                if selected {
                    entry.dir = inner;
                    part.dirs[to].files += part.dirs[inner].files;
                } else {
                    part.dirs.truncate(inner);
                }
                selected
            } else {
                let same = before.is_some_and(|was| was.id == entry.id && was.mode == entry.mode);
                let selected = !same || (self.wanted)(below.as_ref());
                part.dirs[to].files += usize::from(selected && entry.mode.is_blob_or_symlink());
                selected
            };
            if selected {
                part.dirs[to].entries.push(entry);
            } else {
                whole.dirs[at].entries[index].absent = true;
                partial = true;
            }
        }
        whole.dirs[at].partial = partial;
        part.dirs[to].partial = partial;
        !part.dirs[to].entries.is_empty()
    }
}
