//! Which commits a push brings: what the new tip reaches and the receiving side does not have yet.
//!
//! | judged by | the receiving side has |
//! | --- | --- |
//! | a client's `pre-push` | what the old ids of the pushed refs and the remote-tracking branches reach, as far as they are known here |
//! | a server's `pre-receive`, `update` | what the old ids, its branches and its tags reach |
//! | `git loop gate <old>..<new>` | what `<old>` reaches; nothing, where that is an id of zeros |
//! | `git loop gate --stdin` | what the old ids of the lines reach, and nothing else |
//!
//! Loops never count as what the receiving side has: a ledger carries the candidates of unpromoted loops by
//! design, and a branch that brings one of them must not pass because the ledger was there first. That holds under
//! whatever name a loop's ref got: for refs in the space of loops, for remote-tracking refs that a fetch refspec filled
//! from there, and for any other ref that is at a record of a ledger, at a candidate of an unpromoted `lasting_code` loop,
//! or at a candidate of some other loop that was built on one of those.
//!
//! Anybody can move a remote-tracking ref (`git fetch . x:refs/remotes/origin/x`), so those of a client do not hide what an
//! unpromoted loop made: where they would, the remote is asked what its branches and tags are, and where it cannot be
//! asked, the refs that would hide something do not count.
//!
//! A range and the lines of `--stdin` are judged by their old ids alone: where a CI job runs, branches are what somebody
//! checked out, and the remote-tracking refs are fetched after the push that is to be judged.

use std::collections::{BinaryHeap, HashMap, HashSet};

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};

use super::objects::{MadeBy, Objects, Target, Unreadable};

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
    /// A CI job, with a range or with the lines of a hook: the old ids of the updates are all there is.
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

    /// The commits whose history the receiving side has, besides the old id of an update. `open` are the candidates of
    /// unpromoted `lasting_code` loops.
    pub fn known(
        &self,
        repo: &gix::Repository,
        objects: &Objects,
        open: &HashSet<ObjectId>,
    ) -> Result<Vec<ObjectId>, Box<gix::Error>> {
        let mut known = HashSet::new();
        let mut collect = |prefix: &BStr, skip: &dyn Fn(&BStr) -> bool| -> Result<(), Box<gix::Error>> {
            let platform = repo.references().map_err(Box::new)?;
            for reference in platform.prefixed(prefix).map_err(Box::new)? {
                // What a broken ref should have reached counts as not being there, so more is judged.
                let Ok(reference) = reference else { continue };
                if skip(reference.name().as_bstr()) {
                    continue;
                }
                if let Some(id) = reference.try_id()
                    && let Some(id) = had(objects, id.detach(), open)
                {
                    known.insert(id);
                }
            }
            Ok(())
        };
        match self {
            Self::Client { remotes } => {
                let all: Vec<BString> = repo.remote_names().into_iter().collect();
                let refspecs = fetch_refspecs(repo);
                for remote in remotes {
                    let prefix = BString::from(format!("refs/remotes/{remote}/"));
                    // A remote `a/b` keeps its refs below those of a remote `a`.
                    let nested: Vec<BString> = all
                        .iter()
                        .filter(|name| *name != remote)
                        .map(|name| BString::from(format!("refs/remotes/{name}/")))
                        .filter(|other| other.starts_with(&prefix))
                        .collect();
                    let loops = BString::from(format!("refs/remotes/{remote}/loops/"));
                    collect(prefix.as_bstr(), &|name| {
                        name.starts_with(&loops)
                            || nested.iter().any(|other| name.starts_with(other))
                            || refspecs.iter().any(|refspec| refspec.brings_a_loop_to(name))
                    })?;
                }
            }
            // Other refs of a server (those of merge requests, say) are made by the host, from what nobody judged.
            Self::Server => {
                for prefix in ["refs/heads/", "refs/tags/"] {
                    collect(prefix.into(), &|_| false)?;
                }
            }
            Self::Range => {}
        }
        let mut known: Vec<ObjectId> = known.into_iter().collect();
        known.sort_unstable();
        Ok(known)
    }
}

/// The commit that a ref at `tip` says the other side has; none if it is there as a part of a loop.
pub(super) fn had(objects: &Objects, tip: ObjectId, open: &HashSet<ObjectId>) -> Option<ObjectId> {
    match objects.peel(tip) {
        Ok(Target::Commit(id)) if !is_of_a_loop(objects, id, open) => Some(id),
        _ => None,
    }
}

/// Whether a commit got here as a part of a loop, so that a ref that is there says nothing about branches: a record, or a
/// candidate that an unpromoted `lasting_code` loop made or that was built on such a one. What cannot be read is not: a
/// walk from there ends at once.
fn is_of_a_loop(objects: &Objects, id: ObjectId, open: &HashSet<ObjectId>) -> bool {
    let mut current = id;
    loop {
        if open.contains(&current) {
            return true;
        }
        let Ok((commit, made_by)) = objects.commit_of_a_loop(current) else { return false };
        match (made_by, commit.parents.first()) {
            (Some(MadeBy::Record), _) => return true,
            (Some(MadeBy::Candidate), Some(parent)) => current = *parent,
            _ => return false,
        }
    }
}

/// One fetch refspec of the configuration, with at most one `*` a side.
struct FetchRefspec {
    from: BString,
    to: BString,
}

impl FetchRefspec {
    /// Whether a fetch can have put a loop's ref at `name`.
    fn brings_a_loop_to(&self, name: &BStr) -> bool {
        let from = match (self.from.split_once_str("*"), self.to.split_once_str("*")) {
            (Some((from, from_end)), Some((to, to_end))) => {
                let middle = name.strip_prefix(to).and_then(|rest| rest.strip_suffix(to_end));
                middle.map(|middle| BString::from([from, middle, from_end].concat()))
            }
            (None, None) => (self.to == name).then(|| self.from.clone()),
            _ => None,
        };
        from.is_some_and(|from| super::ledger_rules::is_loop_space(from.as_bstr()))
    }
}

/// Those of every remote: two may share a folder of remote-tracking refs.
fn fetch_refspecs(repo: &gix::Repository) -> Vec<FetchRefspec> {
    let config = repo.config_snapshot();
    let mut found = Vec::new();
    for section in config.plumbing().sections_by_name("remote").into_iter().flatten() {
        for value in section.values("fetch") {
            let value = value.strip_prefix(b"+").unwrap_or(&value);
            if let Some((from, to)) = value.split_once_str(":") {
                found.push(FetchRefspec { from: from.into(), to: to.into() });
            }
        }
    }
    found
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
pub fn brought(objects: &Objects, new: ObjectId, known: &[ObjectId]) -> Result<Vec<ObjectId>, Unreadable> {
    Ok(Brought::by(objects, &[new], known)?.commits)
}

/// What several tips bring together.
#[derive(Debug)]
pub struct Brought {
    /// The commits, oldest first as far as their dates tell.
    pub commits: Vec<ObjectId>,
    parents: HashMap<ObjectId, Vec<ObjectId>>,
}

impl Brought {
    /// The commits that one of `tips` reaches and none of `known` does. One walk for all: a push may bring thousands of
    /// tags.
    ///
    /// Both sides are painted from their tips in the order of commit dates until nothing is left in the queue that only
    /// `tips` reach. Dates that go backwards can make a few known commits appear in the answer; they can never hide one.
    pub fn by(objects: &Objects, tips: &[ObjectId], known: &[ObjectId]) -> Result<Self, Unreadable> {
        let mut walk = Walk { objects, nodes: HashMap::new(), queue: BinaryHeap::new(), open: 0 };
        for tip in tips {
            walk.paint(None, *tip, Paint { new: true, known: false })?;
        }
        for id in known {
            walk.paint(None, *id, Paint { new: false, known: true })?;
        }
        let mut found = Vec::new();
        let mut listed = HashSet::new();
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
                if listed.insert(id) {
                    found.push(id);
                }
            }
            for parent in parents {
                walk.paint(Some(id), parent, paint)?;
            }
        }
        found.retain(|id| !walk.nodes[id].paint.known);
        found.reverse();
        let parents = found.iter().filter_map(|id| Some((*id, walk.nodes.remove(id)?.parents))).collect();
        Ok(Self { commits: found, parents })
    }

    /// Which of the commits `tip` reaches.
    pub fn of(&self, tip: ObjectId) -> HashSet<ObjectId> {
        let (mut found, mut open) = (HashSet::new(), vec![tip]);
        while let Some(id) = open.pop() {
            if let Some(parents) = self.parents.get(&id)
                && found.insert(id)
            {
                open.extend(parents);
            }
        }
        found
    }
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
            Some(name) if name.starts_with("refs/") => vec![name.to_owned()],
            Some(name) => vec![format!("refs/heads/{name}")],
            None => vec!["HEAD".to_owned(), "refs/heads/main".to_owned()],
        },
        // The old ids come first; this is for a range that has none.
        Side::Range => {
            let branch = configured.unwrap_or("HEAD");
            repo.remote_names().iter().map(|remote| format!("refs/remotes/{remote}/{branch}")).collect()
        }
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
