//! Which commits a push brings: what the new tip reaches and the receiving side does not have yet.
//!
//! | judged by | the receiving side has |
//! | --- | --- |
//! | a client's `pre-push` | what its remote-tracking refs and the ref's old id reach, as far as they are known here |
//! | a server's `pre-receive`, `update` | what its refs reach |
//! | `git loop gate <old>..<new>` | what `<old>` reaches; nothing, where that is an id of zeros |
//!
//! Loop refs never count as what the receiving side has: a ledger carries the candidates of unpromoted loops by
//! design, and a branch that brings one of them must not pass because the ledger was there first.

use std::collections::{BinaryHeap, HashMap};

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};

use super::objects::{Objects, Target, Unreadable};

/// Who judges, and from where it is known what the receiving side has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    /// A client before it pushes.
    Client {
        /// The configured remotes that stand for the receiving side; none if it was named by a URL nobody configured.
        remotes: Vec<BString>,
    },
    /// The repository that receives.
    Server,
    /// A CI job with a range: the old id of the update is all there is.
    Range,
}

impl Side {
    /// The client's side of a push to the remote that git calls `name` (the first argument of a `pre-push` hook, a URL
    /// if the user gave one) at `url` (the second).
    pub fn client(repo: &gix::Repository, name: &BStr, url: &BStr) -> Self {
        let config = repo.config_snapshot();
        let mut remotes = Vec::new();
        for section in config.plumbing().sections_by_name("remote").into_iter().flatten() {
            let Some(remote) = section.header().subsection_name() else { continue };
            let mut urls = section.values("url").into_iter().chain(section.values("pushUrl"));
            if (remote == name || urls.any(|value| value == *url || value == *name))
                && !remotes.iter().any(|known: &BString| known == remote)
            {
                remotes.push(remote.to_owned());
            }
        }
        Self::Client { remotes }
    }

    /// The name to use in a command that fetches from the receiving side.
    pub fn remote(&self) -> Option<&BStr> {
        match self {
            Self::Client { remotes } => remotes.first().map(|name| name.as_bstr()),
            Self::Server | Self::Range => None,
        }
    }

    /// The commits whose history the receiving side has, besides the old id of an update.
    pub fn known(&self, repo: &gix::Repository, objects: &Objects) -> Result<Vec<ObjectId>, Box<gix::Error>> {
        let mut known = Vec::new();
        let mut collect =
            |prefix: Option<&BStr>, skip: &dyn Fn(&BStr) -> bool| -> Result<(), Box<gix::Error>> {
                let platform = repo.references().map_err(Box::new)?;
                let refs = match prefix {
                    None => platform.all(),
                    Some(prefix) => platform.prefixed(prefix),
                };
                for reference in refs.map_err(Box::new)? {
                    // What a broken ref should have reached counts as not being there, so more is judged.
                    let Ok(reference) = reference else { continue };
                    if skip(reference.name().as_bstr()) {
                        continue;
                    }
                    if let Some(id) = reference.try_id()
                        && let Ok(Target::Commit(id)) = objects.peel(id.detach())
                    {
                        known.push(id);
                    }
                }
                Ok(())
            };
        match self {
            Self::Client { remotes } => {
                let all: Vec<BString> = repo.remote_names().into_iter().collect();
                for remote in remotes {
                    let prefix = BString::from(format!("refs/remotes/{remote}/"));
                    // A remote `a/b` keeps its refs below those of a remote `a`.
                    let nested: Vec<BString> = all
                        .iter()
                        .filter(|name| *name != remote)
                        .map(|name| BString::from(format!("refs/remotes/{name}/")))
                        .filter(|other| other.starts_with(&prefix))
                        .collect();
                    // A user may have mapped the remote's loops there; they are not what the remote has of code.
                    let loops = BString::from(format!("refs/remotes/{remote}/loops/"));
                    collect(Some(prefix.as_bstr()), &|name| {
                        name.starts_with(&loops) || nested.iter().any(|other| name.starts_with(other))
                    })?;
                }
            }
            Self::Server => collect(None, &|name| super::ledger_rules::is_loop_space(name))?,
            Self::Range => {}
        }
        known.sort_unstable();
        known.dedup();
        Ok(known)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Paint {
    new: bool,
    known: bool,
}

struct Node {
    parents: Vec<ObjectId>,
    time: i64,
    paint: Paint,
    queued: bool,
}

/// The commits that `new` reaches and none of `known` does, oldest first as far as their dates tell.
///
/// Both sides are painted from their tips in the order of commit dates until nothing is left in the queue that only
/// `new` reaches. Dates that go backwards can make a few known commits appear in the answer; they can never hide one.
pub fn brought(objects: &Objects, new: ObjectId, known: &[ObjectId]) -> Result<Vec<ObjectId>, Unreadable> {
    let mut walk = Walk { objects, nodes: HashMap::new(), queue: BinaryHeap::new(), open: 0 };
    walk.paint(None, new, Paint { new: true, known: false })?;
    for id in known {
        walk.paint(None, *id, Paint { new: false, known: true })?;
    }
    let mut found = Vec::new();
    let mut oldest = i64::MAX;
    while let Some((time, id)) = walk.queue.pop() {
        // A known commit that is younger than one already found may still turn out to have it in its history.
        if walk.open == 0 && time < oldest {
            break;
        }
        // What is queued has a node.
        let Some(node) = walk.nodes.get_mut(&id) else { continue };
        node.queued = false;
        let (paint, parents) = (node.paint, node.parents.clone());
        if paint == (Paint { new: true, known: false }) {
            walk.open -= 1;
            oldest = oldest.min(time);
            found.push(id);
        }
        for parent in parents {
            walk.paint(Some(id), parent, paint)?;
        }
    }
    found.retain(|id| !walk.nodes[id].paint.known);
    found.reverse();
    Ok(found)
}

struct Walk<'a> {
    objects: &'a Objects,
    nodes: HashMap<ObjectId, Node>,
    queue: BinaryHeap<(i64, ObjectId)>,
    /// How many queued commits are reached from the new tip only.
    open: usize,
}

impl Walk<'_> {
    fn paint(&mut self, child: Option<ObjectId>, id: ObjectId, paint: Paint) -> Result<(), Unreadable> {
        if !self.nodes.contains_key(&id) {
            let read = match child {
                Some(child) => self.objects.parent(child, id),
                None => self.objects.commit(id),
            };
            let commit = match read {
                Ok(commit) => commit,
                // Where the known side's history is missing, more is judged.
                Err(_) if paint.known => return Ok(()),
                Err(error) => return Err(error),
            };
            let blank = Paint { new: false, known: false };
            let node = Node { parents: commit.parents, time: commit.time, paint: blank, queued: false };
            self.nodes.insert(id, node);
        }
        let node = self.nodes.get_mut(&id).expect("it was just put there");
        let before = node.paint;
        let after = Paint { new: before.new || paint.new, known: before.known || paint.known };
        if before == after {
            return Ok(());
        }
        let only_new = |paint: Paint| paint.new && !paint.known;
        if node.queued && only_new(before) && !only_new(after) {
            self.open -= 1;
        }
        if !node.queued {
            self.queue.push((node.time, id));
            self.open += usize::from(only_new(after));
        }
        node.paint = after;
        node.queued = true;
        Ok(())
    }
}

/// The best common ancestors of two commits.
pub fn merge_bases(objects: &Objects, one: ObjectId, other: ObjectId) -> Result<Vec<ObjectId>, Unreadable> {
    let mut graph = gix::revwalk::Graph::new(objects, None);
    match gix::revision::plumbing::merge_base(one, &[other], &mut graph) {
        Ok(bases) => Ok(bases.map(|bases| bases.into_iter().collect()).unwrap_or_default()),
        Err(error) => Err(Unreadable::Corrupt { id: one, why: error.to_string() }),
    }
}

/// The commit of the protected branch on the receiving side: `configured` (`loop.protectedBranch`), else what the
/// remote's `HEAD` names, else `main`. `None` if there is no such branch yet.
pub fn protected_tip(
    repo: &gix::Repository,
    objects: &Objects,
    side: &Side,
    configured: Option<&str>,
) -> Option<ObjectId> {
    let names: Vec<String> = match side {
        Side::Client { remotes } => {
            let branches = configured.map_or(vec!["HEAD", "main"], |name| vec![name]);
            let name = |remote: &BString, branch: &str| format!("refs/remotes/{remote}/{branch}");
            branches
                .iter()
                .flat_map(|branch| remotes.iter().map(move |remote| name(remote, branch)))
                .collect()
        }
        Side::Server => match configured {
            Some(name) => vec![format!("refs/heads/{name}")],
            None => vec!["HEAD".to_owned(), "refs/heads/main".to_owned()],
        },
        Side::Range => Vec::new(),
    };
    names.iter().find_map(|name| {
        let mut reference = repo.try_find_reference(name.as_str()).ok()??;
        let id = reference.peel_to_id().ok()?.detach();
        match objects.peel(id) {
            Ok(Target::Commit(id)) => Some(id),
            _ => None,
        }
    })
}
