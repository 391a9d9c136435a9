# SPDX-License-Identifier: Apache-2.0
"""What the trees say (format.md: Guards, from Frozen paths to The check's tree)."""
import re
import unicodedata

import patterns
from canonical import Bad
from objects import LINK, MODULE, REGULAR, TREE, WIDE, Malformed
from paths import escape_path, fold_component, fold_path, unescape_path

DEEPEST, LONGEST, MOST, MOST_LINKS = 512, 4096, 2000000, 40


# --- the diff ---------------------------------------------------------------------------------------

class Fault(Exception):
    """A folder of the candidate that git does not write."""

    def __init__(self, folder, why):
        super().__init__(why)
        self.folder, self.why = folder, why


class _Diff:
    """The changed paths between two trees, as path -> (old entry, new entry)."""

    def __init__(self, repo):
        self.repo, self.out, self.entries = repo, {}, 0

    def _side(self, oid, folder, is_new):
        if oid is None:
            return {}
        try:
            found = self.repo.tree(oid)
        except Malformed as error:
            if is_new:
                raise Fault(folder, error.why)
            raise
        return {name: (mode, child) for mode, name, child in found}

    def walk(self, old, new, folder=b""):
        """Folder by folder in git's order."""
        left, right = self._side(old, folder, False), self._side(new, folder, True)
        prefix = folder + b"/" if folder else b""
        if new is not None and prefix.count(b"/") > DEEPEST:
            raise Fault(folder, "folders are nested more than 512 deep")
        self.entries += len(right)
        if self.entries > MOST:
            raise Fault(folder, "the tree holds more than two million entries")
        folders = []
        for name in set(left) | set(right):
            a, b = left.get(name), right.get(name)
            if a == b:
                continue
            path = prefix + name
            if b and len(path) > LONGEST:
                raise Fault(folder, "a path is longer than 4096 bytes")
            inside = [side[1] if side and side[0] == TREE else None for side in (a, b)]
            if inside[0] or inside[1]:
                folders.append((name + b"/", inside[0], inside[1], path))
            a = None if a and a[0] == TREE else a
            b = None if b and b[0] == TREE else b
            if a or b:
                self.out[path] = (a, b)
        for _, a, b, path in sorted(folders):
            if a != b:
                self.walk(a, b, path)


def diff(repo, old, new):
    """The tree diff without rename tracking; Fault if the new tree has a folder that git does not write."""
    found = _Diff(repo)
    if old != new:
        found.walk(old, new)
    return found.out


class Tree:
    """Looks up paths of a tree without reading all of it."""

    def __init__(self, repo, oid):
        self.repo, self.folders = repo, {b"": oid}

    def folder(self, path):
        """The entries of a folder by name, None if it is none."""
        found = self.folders.get(path)
        if found is None and path not in self.folders:
            entry = self.entry(path)
            found = entry[1] if entry and entry[0] == TREE else None
            self.folders[path] = found
        if isinstance(found, str):
            found = {name: (mode, child) for mode, name, child in self.repo.tree(found)}
            self.folders[path] = found
        return found

    def entry(self, path):
        """The entry (mode, id) of a path, a folder's too."""
        above, _, name = path.rpartition(b"/")
        return (self.folder(above) or {}).get(name)


def entry(path, what):
    return {"path": escape_path(path), "what": what}


def _module(pair):
    """It is or was a submodule link."""
    return any(side and side[0] == MODULE for side in pair)


# --- row 1 ------------------------------------------------------------------------------------------

def drift(changed, frozen, check):
    """Row 1; frozen maps paths to (mode, id). Gives entries and the paths with what to put there."""
    above = set()
    for path in frozen:
        parts = path.split(b"/")
        above.update(fold_path(b"/".join(parts[:n])) for n in range(1, len(parts)))
    out, repair = [], {}
    for path in sorted(changed):
        what = _drift_of(path, changed[path], frozen, check, above)
        if what:
            out.append(entry(path, what))
            repair[path] = frozen.get(path)
    return out, repair


def _drift_of(path, pair, frozen, check, above):
    new = pair[1]
    if path in frozen:
        if new is None:
            return "check_path_deleted"
        if new[0] in (LINK, MODULE):
            return "check_path_type_changed"
        return "check_path_edited" if new[1] != frozen[path][1] else "check_path_mode_changed"
    if check.matches_folded(path, _module(pair)):
        return "check_path_added" if new else "check_path_deleted"
    if new and fold_path(path) in above:
        return "check_folder_replaced"
    return None


# --- row 2, unsafe names ------------------------------------------------------------------------------

def _stem(part):
    """The folded form up to the first `:` that is not its first character, without dots and spaces at its end."""
    folded = fold_component(part)
    colon = folded.find(b":", 1)
    folded = folded[:colon] if colon > 0 else folded
    return folded.rstrip(b". ") or folded


def _short_for(part, name, code=None):
    """Whether a component is short for a name (8.3 names)."""
    match = re.fullmatch(rb"(.+)~[1-9][0-9]*", _stem(part).split(b".")[0], re.S)
    if not match:
        return False
    front = match.group(1)
    return front == name or (code is not None and len(front) >= 2 and code.startswith(front))


def _dots(part):
    return part in (b".", b"..") or _stem(part).strip(b". ") == b""


def _git(part):
    return _stem(part) == b".git" or _short_for(part, b"git")


def _control(part):
    return any(unicodedata.category(c) == "Cc" for c in part.decode("utf-8", "surrogateescape"))


_UNSAFE = (("dot_name", _dots), ("git_control_name", _git),
           ("loops_rules", None),
           ("gitmodules", lambda p: _stem(p) == b".gitmodules" or _short_for(p, b"gitmod", b"gi7eba")),
           ("gitattributes", lambda p: _stem(p) == b".gitattributes" or _short_for(p, b"gitatt", b"gi7d29")),
           ("environment_file", lambda p: fold_component(p).startswith(b".env") or _short_for(p, b"env")),
           ("control_character", _control))
NEVER = ("empty_name", "dot_name", "git_control_name")


def unsafe_name(path):
    """The first reason of the list that applies to any component."""
    if b"" in path.split(b"/"):
        return "empty_name"
    parts = re.split(rb"[/\\]", path)
    first, parts = parts[0], [part for part in parts if part]
    for what, applies in _UNSAFE:
        if what == "loops_rules":
            if first and (_stem(first) == b".loops" or _short_for(first, b"loops")):
                return what
        elif any(applies(part) for part in parts):
            return what
    return None


# --- row 2, symlinks ------------------------------------------------------------------------------------

def _target(found, repo):
    """The components of a symlink's target; None if it leads out by itself."""
    if repo.info(found[1])[1] > LONGEST:
        return None
    text = repo.blob(found[1], LONGEST)
    if not text or b"\0" in text or text[:1] in (b"/", b"\\") or re.match(rb"[A-Za-z]:", text):
        return None
    return re.split(rb"[/\\]", text)


def leaves_tree(path, tree, repo):
    """Whether a symlink of a tree leads out of it."""
    here, links = path.split(b"/")[:-1], 0
    todo = _target(tree.entry(path), repo)
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
        if _git(part) or _dots(part):
            return True
        here.append(part)
        found = tree.entry(b"/".join(here))
        if found and found[0] == LINK:
            links += 1
            more = _target(found, repo)
            if more is None or links > MOST_LINKS:
                return True
            here.pop()
            todo = more + todo
    return False


def _blocked_of(path, pair, tree, mutable, deny, repo):
    new = pair[1]
    name, named = unsafe_name(path), mutable.names(path)
    if name and not (named and (new is None or name not in NEVER)):
        return name
    if named:
        return None
    if deny.matches_folded(path, _module(pair)):
        return "blocked_path"
    if _module(pair):
        return "submodule_link_changed"
    if new and new[0] == LINK and leaves_tree(path, tree, repo):
        if repo.info(new[1])[1] > LONGEST:
            return "symlink_leaves_tree"
        return "symlink_leaves_tree (%s)" % escape_path(repo.blob(new[1], LONGEST))
    return None


# --- row 2, collisions ------------------------------------------------------------------------------------

def _above(path):
    parts = path.split(b"/")
    return [b"/".join(parts[:n]) for n in range(1, len(parts))]


def _folder_of(path):
    return path.rpartition(b"/")[0]


def collisions(changed, green, tree, mutable):
    """Added paths, and folders above them, that are one with another after folding."""
    added = [path for path, (old, new) in changed.items() if old is None and new]
    looked, seen = set(), set()
    for path in added:
        for one in _above(path) + [path]:
            if one in seen:
                continue
            seen.add(one)
            folder, _, name = one.rpartition(b"/")
            folded = fold_path(name)
            for other in tree.folder(folder) or {}:
                if fold_path(other) == folded:
                    looked.add(folder + b"/" + other if folder else other)
    groups = {}
    for path in looked | {above for one in looked for above in _above(one)}:
        groups.setdefault(fold_path(path), []).append(path)
    out = []
    for group in groups.values():
        for path in group if len(group) > 1 else []:
            below = [p for p in added if p == path or p.startswith(path + b"/")]
            if green.entry(path) or all(mutable.names(p) for p in below):
                continue
            out += [(escape_path(path), escape_path(other)) for other in group if other != path and _collide(path, other)]
    out.sort(key=lambda pair: (pair[0].encode("utf-8"), pair[1].encode("utf-8")))
    return [{"path": path, "what": "path_collision (%s)" % other} for path, other in out]


def _collide(path, other):
    """They lie in the same folder, or in folders that do not fold to the same (else the folders collide)."""
    a, b = _folder_of(path), _folder_of(other)
    return a == b or fold_path(a) != fold_path(b)


# --- all of it --------------------------------------------------------------------------------------

def derive(repo, terms, base_tree, green_tree, tree):
    """(guards, changed paths, repairs) of a candidate's tree; guards without what only the runner saw."""
    mutable, check, deny = (patterns.compiled(tuple(terms["paths"][name])) for name in ("mutable", "check", "blocked"))
    try:
        changed = diff(repo, green_tree, tree)
        from_base = changed if green_tree == base_tree else diff(repo, base_tree, tree)
    except Fault as fault:
        return {"drift": [], "blocked": [entry(fault.folder, "malformed_tree (%s)" % fault.why)], "outside": []}, {}, {}
    drifted, repair = drift(from_base, frozen_map(terms), check)
    green, candidate, blocked = Tree(repo, green_tree), Tree(repo, tree), []
    for path in sorted(changed):
        what = _blocked_of(path, changed[path], candidate, mutable, deny, repo)
        if what:
            blocked.append(entry(path, what))
    blocked += collisions(changed, green, candidate, mutable)
    return {"drift": drifted, "blocked": blocked,
            "outside": [escape_path(p) for p in sorted(changed) if not mutable.matches(p)]}, changed, repair


def newly_wide(changed):
    """A path that newly has the mode 100664 (format.md: What verify checks, 13)."""
    for path, (old, new) in changed.items():
        if new and new[0] == WIDE and not (old and old[0] == WIDE):
            return path
    return None


def frozen_map(terms):
    """The frozen entries as path -> (mode, id)."""
    return {unescape_path(e["path"]): (e["mode"].encode(), e["id"]) for e in terms["frozen"]["entries"]}


def check_frozen(repo, terms, base_tree):
    """frozen.entries and frozen.tree are what the patterns select of the base (Frozen paths)."""
    paths = terms["paths"]
    check, mutable = patterns.compiled(tuple(paths["check"])), patterns.compiled(tuple(paths["mutable"]))
    patterns.compiled(tuple(paths["blocked"]))
    wanted = {}
    leaves = repo.leaves(base_tree)
    for path in sorted(leaves):
        mode, oid = leaves[path]
        if check.matches_folded(path, mode == MODULE):
            if mode not in REGULAR:
                raise Bad("the check path %s is no regular file" % escape_path(path))
            wanted[path] = (mode, oid)
    listed = [{"path": escape_path(p), "mode": m.decode(), "id": i} for p, (m, i) in wanted.items()]
    if [{k: e[k] for k in ("path", "mode", "id")} for e in terms["frozen"]["entries"]] != listed:
        raise Bad("the frozen entries are not those that the patterns select")
    if not wanted:
        raise Bad("nothing is frozen")
    if repo.write_tree(wanted) != terms["frozen"]["tree"]:
        raise Bad("the frozen tree is not that of the frozen entries")
    for pattern, text in zip(check.patterns, paths["check"]):
        if not pattern.negated and not pattern.wild_first and not any(pattern.exact.covers(p, False) for p in wanted):
            raise Bad("the check pattern %r matches nothing that is frozen" % text)
    for path in wanted:
        if mutable.matches(path):
            raise Bad("the check path %s is mutable" % escape_path(path))


def checked_tree(repo, tree, repair):
    """The check's tree: every drifted path put right (The check's tree)."""
    if not repair:
        return tree
    leaves = repo.leaves(tree)
    for path in repair:
        leaves.pop(path, None)
    for path, found in repair.items():
        if found:
            leaves[path] = found
    return repo.write_tree(leaves)
