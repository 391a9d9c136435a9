//! The tripwire: finds in a commit what an unpromoted `lasting_code` loop introduced.
//!
//! A loop introduces at a path
//! - *content*: the object that a candidate has there and the version before it has not;
//! - *changes*: the [`change_id`] from every earlier version of the path to that of a candidate. Earlier versions are those of
//!   the base and of all candidates that the candidate was built on, so that one iteration, any run of iterations and
//!   the whole loop as one commit are found.
//!
//! Every candidate counts, rejected ones too. It does not count
//! - what the base of the loop already had, at any path: a file that is only moved or copied is not new;
//! - an empty file;
//! - the content and the changes of the accepted candidates that led to a promotion, of any loop;
//! - a file that is removed, and a mode that changes: neither carries content out;
//! - a commit that the base itself descends from: it cannot have anything from the loop.
//!
//! A commit carries what differs from its first parent. In a merge only what differs from every parent counts, and
//! no change that another parent brought: all that the merged sides bring is either judged in the same push or was on
//! the other side before. So a merge cannot hide anything, and content that the other side has is nobody's fault.
//!
//! Content of at least [`TELLING`] bytes is found at any other path, too: a file that was renamed on the way, or a tree
//! that was put into a folder of its own. Shorter files are the same in many places by chance. What a parent of
//! the commit already has, anywhere, is not new there.
//!
//! It does not catch an edited copy, a short copy under another path, or half of a file's change.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};

use super::change::{ChangeId, MAX_TEXT, change_id};
use super::commits::{brought, merge_bases};
use super::objects::{Entry, EntryKind, Objects, PathSet, Unreadable};

/// From how many bytes on content is told by itself, wherever it stands.
pub const TELLING: u64 = 64;

/// What the gate has to know of a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopContent {
    /// The id of the loop.
    pub id: String,
    /// Whether its class is `lasting_code`.
    pub lasting: bool,
    /// Whether its content may leave.
    pub standing: Standing,
    /// The base commit.
    pub base: ObjectId,
    /// Every candidate that a record names, in the order of the iterations.
    pub candidates: Vec<Candidate>,
}

/// Whether the content of a loop may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Neither promoted nor released.
    Open,
    /// Promoted, with this candidate.
    Promoted(ObjectId),
    /// Released by a promoter.
    Released,
}

/// One candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The number of the iteration.
    pub iteration: u32,
    /// What it was built on: the base, or an earlier candidate.
    pub parent: ObjectId,
    /// The candidate.
    pub id: ObjectId,
}

/// The objects of a loop cannot be read, so nothing can be judged.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the content of loop {id} cannot be read: {source}")]
pub struct LoopUnreadable {
    /// The loop.
    pub id: String,
    /// Why.
    pub source: Unreadable,
}

/// How a commit carries what a loop introduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Carries {
    /// The very content of a candidate.
    Content,
    /// The change of a candidate, in a file that differs otherwise.
    Change,
}

/// One thing found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The loop that introduced it.
    pub loop_id: String,
    /// The iteration that introduced it.
    pub iteration: u32,
    /// The candidate that introduced it.
    pub candidate: ObjectId,
    /// Where.
    pub path: BString,
    /// How.
    pub carries: Carries,
}

/// Everything that open `lasting_code` loops introduced; what is costly is worked out when a push touches a path.
pub struct Tripwire<'a> {
    objects: &'a Objects,
    open: Vec<Open<'a>>,
    promoted: Vec<&'a LoopContent>,
    paths: PathSet,
    all_paths: BTreeSet<BString>,
    at: RefCell<HashMap<BString, Rc<AtPath>>>,
    base_content: RefCell<HashMap<ObjectId, Rc<HashSet<ObjectId>>>>,
    promoted_chains: OnceCell<Vec<Vec<ObjectId>>>,
    telling: OnceCell<HashMap<ObjectId, Mark>>,
    change_ids: RefCell<ChangeIds>,
}

type ChangeIds = HashMap<(Option<ObjectId>, ObjectId), Option<ChangeId>>;

struct Open<'a> {
    content: &'a LoopContent,
    base_tree: ObjectId,
    /// For each candidate the trees it was built on, the base's first, and its own last.
    chains: Vec<Vec<ObjectId>>,
}

/// What loops introduced at one path. The numbers are those of a loop in `open` and of a candidate in it.
#[derive(Default)]
struct AtPath {
    content: HashMap<ObjectId, Vec<Mark>>,
    changes: HashMap<ChangeId, Vec<Mark>>,
}

type Mark = (usize, usize);

impl<'a> Tripwire<'a> {
    /// Reads what the loops changed. Costs one tree comparison for each candidate of an open `lasting_code` loop.
    pub fn new(objects: &'a Objects, loops: &'a [LoopContent]) -> Result<Self, LoopUnreadable> {
        let mut open = Vec::new();
        let mut all_paths = BTreeSet::new();
        for content in loops.iter().filter(|content| content.lasting && content.standing == Standing::Open) {
            let fail = |source| LoopUnreadable { id: content.id.clone(), source };
            let base_tree = objects.commit(content.base).map_err(fail)?.tree;
            let mut chains = Vec::new();
            for candidate in &content.candidates {
                let chain = chain(objects, content, candidate.id).map_err(fail)?;
                let [.., before, own] = &chain[..] else {
                    unreachable!("a chain has the base and the candidate")
                };
                all_paths.extend(objects.changed_paths(*before, *own).map_err(fail)?);
                chains.push(chain);
            }
            open.push(Open { content, base_tree, chains });
        }
        let mut paths = PathSet::default();
        for path in &all_paths {
            paths.insert(path.as_bstr());
        }
        let promoted =
            loops.iter().filter(|content| matches!(content.standing, Standing::Promoted(_))).collect();
        Ok(Self {
            objects,
            open,
            promoted,
            paths,
            all_paths,
            at: RefCell::default(),
            base_content: RefCell::default(),
            promoted_chains: OnceCell::new(),
            telling: OnceCell::new(),
            change_ids: RefCell::default(),
        })
    }

    /// Whether no open loop introduced anything, so that nothing can be found.
    pub fn is_empty(&self) -> bool {
        self.all_paths.is_empty()
    }

    /// The bases of the open loops. A commit that all of them descend from carries nothing.
    pub fn bases(&self) -> impl Iterator<Item = ObjectId> {
        self.open.iter().map(|open| open.content.base)
    }

    /// What the commit carries, in path order.
    pub fn judge_commit(&self, id: ObjectId) -> Result<Vec<Hit>, Unreadable> {
        let commit = self.objects.commit(id)?;
        let mut parents = Vec::new();
        for parent in &commit.parents {
            parents.push((*parent, self.objects.parent(id, *parent)?.tree));
        }
        let mut changed = Vec::new();
        let first = parents.first().map(|(_, tree)| *tree);
        self.paths
            .diff(self.objects, first, commit.tree, &mut |path, old, new| changed.push((path, old, new)))?;
        let mut hits = Vec::new();
        for (path, old, new) in changed {
            let at = self.at_path(path.as_bstr())?;
            let mut olds = vec![old];
            for (_, tree) in parents.iter().skip(1) {
                olds.push(self.objects.lookup(*tree, path.as_bstr())?);
            }
            if parents.len() > 1 && olds.iter().flatten().any(|old| old.id == new.id) {
                continue;
            }
            let mut found = match at.content.get(&new.id) {
                Some(marks) => self.first_later(id, marks)?.map(|mark| (mark, Carries::Content)),
                None => None,
            };
            for (index, old) in olds.iter().enumerate() {
                if found.is_some() || at.changes.is_empty() {
                    break;
                }
                let Some(change) = self.change(*old, new)? else { continue };
                if let Some(marks) = at.changes.get(&change)
                    && !self.brought_by_another_parent(&parents, index, path.as_bstr(), change)?
                {
                    found = self.first_later(id, marks)?.map(|mark| (mark, Carries::Change));
                }
            }
            hits.extend(found.map(|(mark, carries)| self.hit(mark, path, carries)));
        }
        self.judge_elsewhere(id, commit.tree, &parents, &mut hits)?;
        Ok(hits)
    }

    /// Finds content at other paths than those where a loop has it.
    fn judge_elsewhere(
        &self,
        id: ObjectId,
        tree: ObjectId,
        parents: &[(ObjectId, ObjectId)],
        hits: &mut Vec<Hit>,
    ) -> Result<(), Unreadable> {
        let telling = self.telling()?;
        if telling.is_empty() {
            return Ok(());
        }
        let mut found = Vec::new();
        let first = parents.first().map(|(_, tree)| *tree);
        self.objects.each_change(first, tree, &mut |path, entry| {
            if let Some(mark) = telling.get(&entry.id) {
                found.push((path, entry.id, *mark));
            }
        })?;
        found.retain(|(path, ..)| hits.iter().all(|hit| hit.path != *path));
        for (path, content, mark) in found {
            let mut has = false;
            for (_, tree) in parents {
                has = has || self.base_content(*tree)?.contains(&content);
            }
            if !has && let Some(mark) = self.first_later(id, &[mark])? {
                hits.push(self.hit(mark, path, Carries::Content));
            }
        }
        hits.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(())
    }

    /// The content that is told by itself, each with where it was introduced first.
    fn telling(&self) -> Result<&HashMap<ObjectId, Mark>, Unreadable> {
        if let Some(telling) = self.telling.get() {
            return Ok(telling);
        }
        let mut telling: HashMap<ObjectId, Mark> = HashMap::new();
        let mut promoted = HashSet::new();
        for chain in self.promoted_chains()? {
            for step in chain.windows(2) {
                self.objects.each_change(Some(step[0]), step[1], &mut |_, entry| {
                    promoted.insert(entry.id);
                })?;
            }
        }
        for (number, open) in self.open.iter().enumerate() {
            for (candidate, chain) in open.chains.iter().enumerate() {
                let [.., before, own] = &chain[..] else { continue };
                let mut introduced = Vec::new();
                self.objects.each_change(Some(*before), *own, &mut |_, entry| {
                    // A submodule link is no content.
                    introduced.extend((entry.kind != EntryKind::Commit).then_some(entry.id));
                })?;
                for id in introduced {
                    if !promoted.contains(&id)
                        && !self.base_content(open.base_tree)?.contains(&id)
                        && self.objects.size(id)? >= TELLING
                    {
                        telling.entry(id).or_insert((number, candidate));
                    }
                }
            }
        }
        Ok(self.telling.get_or_init(|| telling))
    }

    /// What a bare tree or blob carries, as a tag can name one. Its paths are unknown, so only objects are compared.
    pub fn judge_objects(&self, ids: &HashSet<ObjectId>) -> Result<Vec<Hit>, Unreadable> {
        let mut hits = Vec::new();
        for path in &self.all_paths {
            let at = self.at_path(path.as_bstr())?;
            let mut marks: Vec<Mark> =
                at.content.iter().filter(|(id, _)| ids.contains(*id)).map(|(_, marks)| marks[0]).collect();
            marks.sort_unstable();
            hits.extend(marks.first().map(|mark| self.hit(*mark, path.clone(), Carries::Content)));
        }
        Ok(hits)
    }

    fn hit(&self, (open, candidate): Mark, path: BString, carries: Carries) -> Hit {
        let content = self.open[open].content;
        let candidate = content.candidates[candidate];
        Hit {
            loop_id: content.id.clone(),
            iteration: candidate.iteration,
            candidate: candidate.id,
            path,
            carries,
        }
    }

    /// The first mark of a loop whose base does not descend from `commit`.
    fn first_later(&self, commit: ObjectId, marks: &[Mark]) -> Result<Option<Mark>, Unreadable> {
        for mark in marks {
            let base = self.open[mark.0].content.base;
            if !brought(self.objects, commit, &[base])?.is_empty() {
                return Ok(Some(*mark));
            }
        }
        Ok(None)
    }

    /// Whether a change that a merge shows against the parent `against` is what another parent did since they parted.
    fn brought_by_another_parent(
        &self,
        parents: &[(ObjectId, ObjectId)],
        against: usize,
        path: &BStr,
        change: ChangeId,
    ) -> Result<bool, Unreadable> {
        for (index, (parent, tree)) in parents.iter().enumerate() {
            if index == against {
                continue;
            }
            let Some(theirs) = self.objects.lookup(*tree, path)? else { continue };
            let bases = merge_bases(self.objects, parents[against].0, *parent)?;
            let mut before = Vec::new();
            for base in bases {
                before.push(self.objects.lookup(self.objects.commit(base)?.tree, path)?);
            }
            if before.is_empty() {
                before.push(None);
            }
            for old in before {
                if self.change(old, theirs)? == Some(change) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn at_path(&self, path: &BStr) -> Result<Rc<AtPath>, Unreadable> {
        if let Some(known) = self.at.borrow().get(path) {
            return Ok(Rc::clone(known));
        }
        let at = Rc::new(self.work_out(path)?);
        self.at.borrow_mut().insert(path.to_owned(), Rc::clone(&at));
        Ok(at)
    }

    fn work_out(&self, path: &BStr) -> Result<AtPath, Unreadable> {
        let empty = ObjectId::empty_blob(self.objects.hash());
        let mut versions = Versions { objects: self.objects, path, known: HashMap::new() };
        let mut at = AtPath::default();
        for (number, open) in self.open.iter().enumerate() {
            for (candidate, chain) in open.chains.iter().enumerate() {
                let Some((new, before)) = versions.last_step(chain)? else { continue };
                if new.id == empty || self.base_content(open.base_tree)?.contains(&new.id) {
                    continue;
                }
                let mark = (number, candidate);
                at.content.entry(new.id).or_default().push(mark);
                for old in before {
                    if let Some(change) = self.change(old, new)? {
                        at.changes.entry(change).or_default().push(mark);
                    }
                }
            }
        }
        if at.content.is_empty() && at.changes.is_empty() {
            return Ok(at);
        }
        for chain in self.promoted_chains()? {
            for end in 2..=chain.len() {
                let Some((new, before)) = versions.last_step(&chain[..end])? else { continue };
                at.content.remove(&new.id);
                for old in before {
                    if let Some(change) = self.change(old, new)? {
                        at.changes.remove(&change);
                    }
                }
            }
        }
        Ok(at)
    }

    fn promoted_chains(&self) -> Result<&[Vec<ObjectId>], Unreadable> {
        if let Some(chains) = self.promoted_chains.get() {
            return Ok(chains);
        }
        let mut chains = Vec::new();
        for content in &self.promoted {
            if let Standing::Promoted(tip) = content.standing {
                chains.push(chain(self.objects, content, tip)?);
            }
        }
        Ok(self.promoted_chains.get_or_init(|| chains))
    }

    fn base_content(&self, tree: ObjectId) -> Result<Rc<HashSet<ObjectId>>, Unreadable> {
        if let Some(known) = self.base_content.borrow().get(&tree) {
            return Ok(Rc::clone(known));
        }
        let content = Rc::new(self.objects.all_below(tree)?);
        self.base_content.borrow_mut().insert(tree, Rc::clone(&content));
        Ok(content)
    }

    /// The identity of the change between two versions; none where a side is no file.
    fn change(&self, old: Option<Entry>, new: Entry) -> Result<Option<ChangeId>, Unreadable> {
        let is_file = |entry: &Entry| entry.kind == EntryKind::File;
        if !is_file(&new) || !old.as_ref().is_none_or(is_file) {
            return Ok(None);
        }
        let key = (old.map(|entry| entry.id), new.id);
        if let Some(known) = self.change_ids.borrow().get(&key) {
            return Ok(*known);
        }
        let before = match old {
            Some(entry) => self.objects.blob(entry.id, MAX_TEXT)?,
            None => Some(Vec::new()),
        };
        let change = match (before, self.objects.blob(new.id, MAX_TEXT)?) {
            (Some(before), Some(after)) => change_id(&before, &after),
            _ => None,
        };
        self.change_ids.borrow_mut().insert(key, change);
        Ok(change)
    }
}

/// The trees from the base to `candidate`, each built on the one before.
fn chain(objects: &Objects, content: &LoopContent, candidate: ObjectId) -> Result<Vec<ObjectId>, Unreadable> {
    let mut trees = vec![objects.commit(candidate)?.tree];
    let mut current = candidate;
    // A candidate that claims another parent than one of its own loop is taken as built on the base.
    for _ in 0..content.candidates.len() {
        let known = content.candidates.iter().find(|other| other.id == current);
        match known.map(|known| known.parent).filter(|parent| *parent != content.base) {
            Some(parent) if content.candidates.iter().any(|other| other.id == parent) => {
                trees.push(objects.commit(parent)?.tree);
                current = parent;
            }
            _ => break,
        }
    }
    trees.push(objects.commit(content.base)?.tree);
    trees.reverse();
    Ok(trees)
}

/// What a candidate has at a path, and every other version that was there before it.
type Step = (Entry, Vec<Option<Entry>>);

/// What one path was in the trees of loops.
struct Versions<'a> {
    objects: &'a Objects,
    path: &'a BStr,
    known: HashMap<ObjectId, Option<Entry>>,
}

impl Versions<'_> {
    fn of(&mut self, tree: ObjectId) -> Result<Option<Entry>, Unreadable> {
        if let Some(known) = self.known.get(&tree) {
            return Ok(*known);
        }
        let entry = self.objects.lookup(tree, self.path)?;
        self.known.insert(tree, entry);
        Ok(entry)
    }

    /// What the last tree of a chain has at the path and every other version before it; `None` if it is as in the tree
    /// before, or gone.
    fn last_step(&mut self, chain: &[ObjectId]) -> Result<Option<Step>, Unreadable> {
        let [earlier @ .., own] = chain else { return Ok(None) };
        let Some(new) = self.of(*own)? else { return Ok(None) };
        let mut before: Vec<Option<Entry>> = Vec::new();
        for tree in earlier {
            let version = self.of(*tree)?;
            if !before.contains(&version) {
                before.push(version);
            }
        }
        let last = earlier.last().map(|tree| self.of(*tree)).transpose()?.flatten();
        Ok((last.map(|entry| entry.id) != Some(new.id)).then_some((new, before)))
    }
}
