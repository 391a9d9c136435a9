# SPDX-License-Identifier: Apache-2.0
"""What the trees say (format.md: Guards)."""
import re

import patterns
from canonical import (Bad, escape_path, fold_component, fold_path, unescape_path)
from objects import LINK, MODULE, TREE, MalformedTree, tree_order

TARGET, LINKS, ENTRIES = 4096, 40, 2000000


# --- the diff ---------------------------------------------------------------------------------------

class NewTree(Exception):
    """The tree that is judged is malformed: where, and why."""

    def __init__(self, path, why):
        super().__init__(why)
        self.path, self.why = path, why


class _Diff:
    """A walk through two trees in git's order, folder by folder."""

    def __init__(self, repo):
        self.repo, self.seen, self.out = repo, 0, {}

    def folders(self, old, new, at):
        left = self.repo.tree(old, at=at) if old else []
        try:
            right = self.repo.tree(new, at=at) if new else []
        except MalformedTree as error:
            raise NewTree(at, error.why)
        self.seen += len(right) + 1
        if self.seen > ENTRIES:
            raise NewTree(at, "the tree holds more than two million entries")
        sides = {}
        for side, entries in enumerate((left, right)):
            for mode, name, oid in entries:
                sides.setdefault(tree_order(mode, name), [None, None])[side] = (mode, oid)
        for key in sorted(sides):
            name, (a, b) = key.rstrip(b"/"), sides[key]
            if a == b:
                continue
            path = at + b"/" + name if at else name
            if (a or b)[0] == TREE:
                self.folders(a and a[1], b and b[1], path)
            else:
                self.out[path] = (a, b)


def diff(repo, old, new):
    """The changed paths with (old entry, new entry), None where there is none; no rename tracking."""
    walk = _Diff(repo)
    if old != new:
        walk.folders(old, new, b"")
    return walk.out


def parents(path):
    """Every folder above a path, outermost first."""
    parts = path.split(b"/")
    return [b"/".join(parts[:n]) for n in range(1, len(parts))]


def is_module(old, new):
    """Whether an entry is or was a submodule link."""
    return any(side is not None and side[0] == MODULE for side in (old, new))


def entry(path, what):
    return {"path": escape_path(path), "what": what}


# --- row 1 ------------------------------------------------------------------------------------------

def drift(changed, frozen, check):
    """Row 1; frozen maps paths to (mode, id). Gives entries, and the paths with what to put there."""
    above = {fold_path(folder) for path in frozen for folder in parents(path)}
    out, repair = [], {}
    for path in sorted(changed):
        what = _drift_of(path, *changed[path], frozen, check, above)
        if what:
            out.append(entry(path, what))
            repair[path] = frozen.get(path)
    return out, repair


def _drift_of(path, old, new, frozen, check, above):
    if path in frozen:
        if new is None:
            return "check_path_deleted"
        if new == frozen[path]:
            return None
        if new[0] in (LINK, MODULE):
            return "check_path_type_changed"
        return "check_path_edited" if new[1] != frozen[path][1] else "check_path_mode_changed"
    if check.matches_folded(path, is_module(old, new)):
        return "check_path_added" if new else "check_path_deleted"
    if new and fold_path(path) in above:
        return "check_folder_replaced"
    return None


# --- names --------------------------------------------------------------------------------------------

def _stem(name):
    """A name without a stream and without the dots and spaces at its end, if anything is left."""
    colon = name.find(b":")
    name = name[:colon] if colon > 0 else name
    return name.rstrip(b". ") or name


def _short(folded, start, code=None):
    """Whether it can be a short name of a file whose name begins so."""
    front, tilde, number = _stem(folded).split(b".")[0].partition(b"~")
    if not tilde or not re.fullmatch(rb"[1-9][0-9]*", number):
        return False
    return front == start or (code is not None and len(front) >= 2 and code.startswith(front))


def is_dots(name):
    """A name that some file system takes for . or .. (format.md: dot_name)."""
    stem = _stem(fold_component(name))
    return name in (b".", b"..") or (stem != b"" and stem.strip(b". ") == b"")


def is_git(name):
    """A name that git, HFS+ or NTFS takes for .git."""
    folded = fold_component(name)
    return _stem(folded) == b".git" or _short(folded, b"git")


def _reason(name, first):
    """The reason why a component is unsafe, by its place in the list."""
    folded = fold_component(name)
    if is_dots(name):
        return "dot_name"
    if is_git(name):
        return "git_control_name"
    if first and (_stem(folded) == b".loops" or _short(folded, b"loops")):
        return "loops_rules"
    if _stem(folded) == b".gitmodules" or _short(folded, b"gitmod", b"gi7eba"):
        return "gitmodules"
    if _stem(folded) == b".gitattributes" or _short(folded, b"gitatt", b"gi7d29"):
        return "gitattributes"
    if folded.startswith(b".env") or _short(folded, b"env"):
        return "environment_file"
    if re.search(rb"[\x00-\x1f\x7f]|\xc2[\x80-\x9f]", name):
        return "control_character"
    return None


UNSAFE = ("empty_name", "dot_name", "git_control_name", "loops_rules", "gitmodules", "gitattributes",
          "environment_file", "control_character")
NEVER = UNSAFE[:3]


def unsafe_name(path):
    """The first reason of the list that applies to any component (format.md: Row 2)."""
    if b"" in path.split(b"/"):
        return UNSAFE[0]
    parts = re.split(rb"[/\\]", path)
    found = {_reason(part, place == 0) for place, part in enumerate(parts) if part}
    return next((word for word in UNSAFE if word in found), None)


# --- row 2 ------------------------------------------------------------------------------------------

class Lookup:
    """Single paths of a tree; every folder is read once."""

    def __init__(self, repo, root):
        self.repo, self.root, self.known = repo, root, {}

    def folder(self, path):
        """The entries of a folder by name, or None if it is none."""
        if path not in self.known:
            found = (TREE, self.root) if path == b"" else self.entry(path)
            is_folder = found is not None and found[0] == TREE
            self.known[path] = {name: (mode, oid) for mode, name, oid in self.repo.tree(found[1], at=path)} \
                if is_folder else None
        return self.known[path]

    def entry(self, path):
        """(mode, id) of a path, or None."""
        above, _, name = path.rpartition(b"/")
        return (self.folder(above) or {}).get(name)

    def target(self, oid):
        """The target of a symlink, None if it is longer than a path may be."""
        kind, size, _ = self.repo.info(oid)
        if kind != "blob":
            raise Bad("object %s is no blob" % oid)
        return self.repo.blob(oid, TARGET) if size <= TARGET else None


def _steps(target):
    """The components of a relative target, None if it is absolute or no path."""
    if not target or target[:1] in (b"/", b"\\") or re.match(rb"[A-Za-z]:", target) or b"\0" in target:
        return None
    return re.split(rb"[/\\]", target)


def leaves_tree(path, target, tree):
    """Whether a symlink of a tree leads out of it."""
    here, todo, links = path.split(b"/")[:-1], _steps(target), 0
    if todo is None:
        return True
    while todo:
        part = todo.pop(0)
        if part in (b"", b"."):
            continue
        if part == b"..":
            if not here:
                return True
            here.pop()
            continue
        if is_dots(part) or is_git(part):
            return True
        here.append(part)
        found = tree.entry(b"/".join(here))
        if found and found[0] == LINK:
            links += 1
            here.pop()
            more = tree.target(found[1])
            more = None if more is None else _steps(more)
            if links > LINKS or more is None:
                return True
            todo = more + todo
    return False


def _blocked_of(path, old, new, tree, mutable, deny):
    name, named = unsafe_name(path), mutable.names(path)
    if name and not (named and (new is None or name not in NEVER)):
        return name
    if named:
        return None
    if deny.matches_folded(path, is_module(old, new)):
        return "blocked_path"
    if is_module(old, new):
        return "submodule_link_changed"
    if new and new[0] == LINK:
        target = tree.target(new[1])
        if target is None:
            return "symlink_leaves_tree"
        if leaves_tree(path, target, tree):
            return "symlink_leaves_tree (%s)" % escape_path(target)
    return None


def collisions(changed, green, tree, mutable):
    """Added paths, and folders above them, that are one with another after folding."""
    added = [path for path, (old, _) in changed.items() if old is None]
    wanted = {}
    for path in added:
        for prefix in parents(path) + [path]:
            above, _, name = prefix.rpartition(b"/")
            wanted.setdefault(above, set()).add(fold_component(name))
    looked = []
    for above, names in wanted.items():
        for name in tree.folder(above) or {}:
            if fold_component(name) in names:
                looked.append(above + b"/" + name if above else name)
    out = set()
    for path, other in _pairs(looked):
        if green.entry(path) is not None:
            continue
        below = [p for p in added if p == path or p.startswith(path + b"/")]
        if not all(mutable.names(p) for p in below):
            out.add((escape_path(path), "path_collision (%s)" % escape_path(other)))
    ordered = sorted(out, key=lambda pair: (pair[0].encode(), pair[1].encode()))
    return [{"path": path, "what": what} for path, what in ordered]


def _pairs(paths):
    """Two paths that fold to one, both ways, unless that is so of the folders they are in already."""
    spellings, out = {}, []
    for path in paths:
        for prefix in parents(path) + [path]:
            known = spellings.setdefault(fold_path(prefix), [])
            if prefix in known:
                continue
            above = prefix.rpartition(b"/")[0]
            for other in known:
                others = other.rpartition(b"/")[0]
                if above == others or fold_path(above) != fold_path(others):
                    out += [(prefix, other), (other, prefix)]
            known.append(prefix)
    return out


# --- all of it --------------------------------------------------------------------------------------

def derive(repo, terms, base_tree, green_tree, tree):
    """(guards, changed paths, repairs) of a candidate's tree; guards without what only the runner saw."""
    mutable, check, deny = (patterns.Patterns(terms["paths"][name]) for name in ("mutable", "check", "blocked"))
    try:
        changed = diff(repo, green_tree, tree)
        drifted, repair = drift(diff(repo, base_tree, tree), frozen_map(terms), check)
    except NewTree as error:
        told = entry(error.path, "malformed_tree (%s)" % error.why)
        return {"drift": [], "blocked": [told], "outside": []}, {}, None
    now, green = Lookup(repo, tree), Lookup(repo, green_tree)
    blocked = []
    for path in sorted(changed):
        what = _blocked_of(path, *changed[path], now, mutable, deny)
        if what:
            blocked.append(entry(path, what))
    blocked += collisions(changed, green, now, mutable)
    outside = [escape_path(path) for path in sorted(changed) if not mutable.matches(path)]
    return {"drift": drifted, "blocked": blocked, "outside": outside}, changed, repair


def frozen_map(terms):
    """The frozen entries as path -> (mode, id)."""
    return {unescape_path(e["path"]): (e["mode"].encode(), e["id"]) for e in terms["frozen"]["entries"]}


def check_frozen(repo, terms, base_tree):
    """frozen.entries and frozen.tree are what the patterns select of the base (format.md: Frozen paths)."""
    check, mutable = patterns.Patterns(terms["paths"]["check"]), patterns.Patterns(terms["paths"]["mutable"])
    patterns.Patterns(terms["paths"]["blocked"])
    leaves, wanted = repo.leaves(base_tree), {}
    for path in sorted(leaves):
        mode, oid = leaves[path]
        if check.matches_folded(path, mode == MODULE):
            if mode in (LINK, MODULE):
                raise Bad("the check path %s is no regular file" % escape_path(path))
            wanted[path] = (mode, oid)
    listed = [{"path": escape_path(p), "mode": m.decode(), "id": i} for p, (m, i) in wanted.items()]
    told = [{k: e[k] for k in ("path", "mode", "id")} for e in terms["frozen"]["entries"]]
    if told != listed:
        raise Bad("the frozen entries are not those that the patterns select")
    if not wanted or not check.all_find(wanted):
        raise Bad("a pattern of paths.check names nothing of the base")
    if repo.write_tree(wanted) != terms["frozen"]["tree"]:
        raise Bad("the frozen tree is not that of the frozen entries")
    both = [path for path in wanted if mutable.matches(path)]
    if both:
        raise Bad("the frozen path %s is in paths.mutable as well" % escape_path(both[0]))


def checked_tree(repo, tree, repair):
    """The check's tree: every drifted path put right (format.md: The check's tree)."""
    if not repair:
        return tree
    leaves = repo.leaves(tree)
    for path in repair:
        leaves.pop(path, None)
    leaves.update({path: found for path, found in repair.items() if found})
    return repo.write_tree(leaves)
