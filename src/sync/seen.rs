//! Where the ledgers of remotes were when they were last looked at: one small file for each loop, in the common git folder.
//!
//! `refs/remotes/<remote>/loops/*` say the same for people, but anybody's `git fetch --prune` removes them and any fetch refspec
//! may move them. A ledger that lost records since is found out by this file; and a loop that is in it is shared.
//!
//! ```text
//! <common git folder>/loops/<id>/remotes    a line `<tip> <remote>` for each remote
//! ```

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::error::{Result, ResultExt};
use crate::git::{LoopId, Repo};
use crate::oid::Oid;

/// A file with more bytes is none of ours.
const MAX_BYTES: usize = 1 << 20;

/// The remotes that a loop was shared with, and where its ledger was there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen(Vec<(String, Oid)>);

impl Seen {
    /// What is known of the loop `id`.
    pub fn read(repo: &Repo, id: &LoopId) -> Result<Self> {
        let path = path(repo, id);
        match fs::read(&path) {
            Ok(bytes) => Ok(Self::parse(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).or_workspace(|| format!("{} cannot be read", path.display())),
        }
    }

    /// Lines that are damaged are left out: what they said is found out again at the next synchronisation.
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_BYTES)]);
        let line = |line: &str| {
            let (tip, remote) = line.split_once(' ')?;
            Some((remote.to_owned(), tip.parse().ok()?))
        };
        Self(text.lines().filter_map(line).collect())
    }

    /// Where the ledger was on `remote`.
    pub fn at(&self, remote: &str) -> Option<Oid> {
        self.0.iter().find(|(name, _)| name == remote).map(|(_, tip)| *tip)
    }

    /// The remotes.
    pub fn remotes(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Keeps that the ledger of `id` is at `tip` on `remote`. Written beside and renamed: it is as it was, or as it should be.
    pub fn set(&mut self, repo: &Repo, id: &LoopId, remote: &str, tip: Oid) -> Result<()> {
        if self.at(remote) == Some(tip) {
            return Ok(());
        }
        self.0.retain(|(name, _)| name != remote);
        self.0.push((remote.to_owned(), tip));
        self.0.sort();
        let lines: Vec<String> = self.0.iter().map(|(name, tip)| format!("{tip} {name}\n")).collect();
        let text = lines.concat();
        let path = path(repo, id);
        let folder = path.parent().unwrap_or(repo.common_dir());
        fs::create_dir_all(folder)
            .and_then(|()| repo.write_durably(&path, text.as_bytes()))
            .or_workspace(|| format!("{} cannot be written", path.display()))
    }
}

fn path(repo: &Repo, id: &LoopId) -> PathBuf {
    repo.common_dir().join("loops").join(id.as_str()).join("remotes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::testing::TestRepo;
    use proptest::prelude::*;

    fn oid(digit: &str) -> Oid {
        digit.repeat(40).parse().unwrap()
    }

    #[test]
    fn what_is_kept_is_read_back() {
        let repo = TestRepo::new();
        let (open, id) = (repo.open(), LoopId::new("fix").unwrap());
        let mut seen = Seen::read(&open, &id).unwrap();
        assert_eq!((seen.at("origin"), seen.remotes().count()), (None, 0));
        seen.set(&open, &id, "origin", oid("a")).unwrap();
        seen.set(&open, &id, "a b", oid("b")).unwrap();
        seen.set(&open, &id, "origin", oid("c")).unwrap();
        let again = Seen::read(&open, &id).unwrap();
        assert_eq!(again, seen);
        assert_eq!(
            (again.at("origin"), again.at("a b"), again.at("b")),
            (Some(oid("c")), Some(oid("b")), None)
        );
    }

    proptest! {
        #[test]
        fn reading_is_total(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Seen::parse(&bytes);
        }
    }
}
