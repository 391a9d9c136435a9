# SPDX-License-Identifier: Apache-2.0
"""What the trees say (format.md: Guards)."""
import re
import unicodedata

from canonical import Bad, escape_path, fold_path, invisible, unescape_path
from objects import LINK, MODULE, TREE


# --- patterns -------------------------------------------------------------------------------------


def _class(pattern, at):
    """A [...] of a pattern as a regular expression, and where it ends."""
    end = at + 1
    negated = pattern[end:end + 1] in (b"!", b"^")
    end += 1 if negated else 0
    first, body = end, b""
    while end < len(pattern) and (pattern[end:end + 1] != b"]" or end == first):
        named = re.match(rb"\[:([a-z]+):\]", pattern[end:])
        if named:
            body += {b"alpha": b"a-zA-Z", b"digit": b"0-9", b"alnum": b"a-zA-Z0-9", b"upper": b"A-Z",
                     b"lower": b"a-z", b"space": rb"\s", b"xdigit": b"0-9a-fA-F", b"blank": b" \t",
                     b"punct": rb"!-\x2d:-@\x5b-`{-~", b"cntrl": rb"\x00-\x1f\x7f", b"print": b" -~",
                     b"graph": b"!-~"}.get(named.group(1), b"")
            end += len(named.group())
            continue
        if pattern[end:end + 1] == b"\\":
            end += 1
        char = pattern[end:end + 1]
        end += 1
        if pattern[end:end + 1] == b"-" and pattern[end + 1:end + 2] not in (b"", b"]"):
            high = end + 1
            if pattern[high:high + 1] == b"\\":
                high += 1
            last = pattern[high:high + 1]
            if char <= last:
                body += re.escape(char) + b"-" + re.escape(last)
            end = high + 1
        else:
            body += re.escape(char)
    if end >= len(pattern):
        return None, at
    if not body:
        return (b"[^/]" if negated else b"(?!)"), end + 1
    return b"(?!/)[" + (b"^" if negated else b"") + body + b"]", end + 1


def _regex(pattern, anchored):
    """A gitignore pattern as a regular expression over a whole path."""
    out, at = (b"" if anchored else b"(?:.*/)?"), 0
    while at < len(pattern):
        char = pattern[at:at + 1]
        if pattern[at:at + 3] == b"**/" and (at == 0 or pattern[at - 1:at] == b"/"):
            out += b"(?:.*/)?"
            at += 3
        elif pattern[at:] == b"**" and (at == 0 or pattern[at - 1:at] == b"/"):
            out += b".+"
            at += 2
        elif char == b"*":
            while pattern[at:at + 1] == b"*":
                at += 1
            out += b"[^/]*"
        elif char == b"?":
            out += b"[^/]"
            at += 1
        elif char == b"[":
            part, end = _class(pattern, at)
            if part is None:
                return None
            out += part
            at = end
        else:
            if char == b"\\":
                at += 1
                if at >= len(pattern):
                    return None
                char = pattern[at:at + 1]
            out += re.escape(char)
            at += 1
    return out


class Pattern:
    """One pattern (format.md: Patterns)."""

    def __init__(self, text, folded=False):
        self.negated = text.startswith("!")
        line = (text[1:] if self.negated else text).encode("utf-8")
        self.ignored = line.startswith(b"#") and not self.negated
        line = re.sub(rb"((?:[^\\ ]|\\.)?) +$", rb"\1", line, flags=re.S)
        self.folders = line.endswith(b"/")
        body = line[:-1] if self.folders else line
        self.anchored = b"/" in body
        body = body[1:] if body.startswith(b"/") else body
        self.plain = None if re.search(rb"[*?\[\\]", body) or self.negated or self.folders else body
        if folded:
            body = b"/".join(_fold_pattern(part) for part in body.split(b"/"))
        source = _regex(body, self.anchored) if body and not self.ignored else None
        self.regex = re.compile(source, re.S | (re.I if folded else 0)) if source is not None else None

    def covers(self, path, is_folder):
        """Whether it matches the path itself or a folder above it."""
        if self.regex is None:
            return False
        parts = path.split(b"/")
        for size in range(len(parts), 0, -1):
            if self.folders and size == len(parts) and not is_folder:
                continue
            if self.regex.fullmatch(b"/".join(parts[:size])):
                return True
        return False


def _fold_pattern(part):
    try:
        text = "".join(c for c in part.decode("utf-8") if not invisible(c))
        return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold()).encode("utf-8")
    except UnicodeDecodeError:
        return part


class Patterns:
    """A set of patterns: the last one that covers a path decides."""

    def __init__(self, texts):
        self.exact = [Pattern(text) for text in texts]
        self.folded = [Pattern(text, folded=True) for text in texts]

    @staticmethod
    def _decide(patterns, path, is_folder):
        for pattern in reversed(patterns):
            if pattern.covers(path, is_folder):
                return not pattern.negated
        return False

    def matches(self, path, is_folder=False):
        return self._decide(self.exact, path, is_folder)

    def matches_folded(self, path, is_folder=False):
        return self.matches(path, is_folder) or self._decide(self.folded, fold_path(path), is_folder)

    def names(self, path):
        """A pattern without wildcards is exactly this path, and the path matches."""
        return any(p.plain == path for p in self.exact) and self.matches(path)


# --- the diff ---------------------------------------------------------------------------------------

def diff(repo, old, new, prefix=b"", out=None):
    """The changed paths with (old entry, new entry), None where there is none."""
    out = {} if out is None else out
    if old == new:
        return out
    if prefix.count(b"/") > 900:
        raise Bad("the tree is nested too deep")
    left = {} if old is None else {name: (mode, oid) for mode, name, oid in repo.tree(old)}
    right = {} if new is None else {name: (mode, oid) for mode, name, oid in repo.tree(new)}
    for name in set(left) | set(right):
        a, b = left.get(name), right.get(name)
        if a == b:
            continue
        path = prefix + name
        if (a and a[0] == TREE) or (b and b[0] == TREE):
            diff(repo, a[1] if a and a[0] == TREE else None, b[1] if b and b[0] == TREE else None, path + b"/", out)
        a = None if a and a[0] == TREE else a
        b = None if b and b[0] == TREE else b
        if a or b:
            out[path] = (a, b)
    return out


def entry(path, what):
    return {"path": escape_path(path), "what": what}


# --- row 1 ------------------------------------------------------------------------------------------

def drift(changed, frozen, check):
    """Row 1; frozen maps paths to (mode, id). Gives entries and the paths with what to put there."""
    above = set()
    for path in frozen:
        parts = fold_path(path).split(b"/")
        above.update(b"/".join(parts[:n]) for n in range(1, len(parts)))
    out, repair = [], {}
    for path in sorted(changed):
        old, new = changed[path]
        what = _drift_of(path, old, new, frozen, check, above)
        if what:
            out.append(entry(path, what))
            repair[path] = frozen.get(path)
    return out, repair


def _drift_of(path, old, new, frozen, check, above):
    if path in frozen:
        if new is None:
            return "check_path_deleted"
        if new[0] in (LINK, MODULE):
            return "check_path_type_changed"
        return "check_path_edited" if new[1] != frozen[path][1] else "check_path_mode_changed"
    if check.matches_folded(path, (new or old)[0] == MODULE):
        return "check_path_added" if new else "check_path_deleted"
    if new and fold_path(path) in above:
        return "check_folder_replaced"
    return None


# --- row 2 ------------------------------------------------------------------------------------------

def _bare(part):
    """A component without invisible characters, case, streams, trailing dots and spaces."""
    try:
        text = "".join(c for c in part.decode("utf-8") if not invisible(c))
        part = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold()).encode("utf-8")
    except UnicodeDecodeError:
        part = part.lower()
    return part


def _cut(part):
    return part.split(b":")[0].rstrip(b". ")


def _dots(part):
    bare = _bare(part)
    stem = bare.split(b":")[0]
    return bare != b"" and stem.strip(b". ") == b"" and (stem != b"" or bare == b"")


def _git(part):
    return bool(re.fullmatch(rb"\.git|git~[0-9]+", _cut(_bare(part))))


def _short(part, name, prefix, code):
    cut = _cut(_bare(part))
    if cut == name or re.fullmatch(prefix + rb"~[1-4]", cut):
        return True
    match = re.fullmatch(rb"([a-z0-9]*)~([1-9][0-9]*)", cut)
    return bool(match and len(cut) == 8 and code.startswith(match.group(1)))


def _control(part):
    text = part.decode("utf-8", "surrogateescape")
    return any(unicodedata.category(c) == "Cc" for c in text)


def _env(part):
    bare = _bare(part)
    return bare.startswith(b".env") or _cut(bare) == b"env~1"


def unsafe_name(path):
    """The first reason of the list that applies to any component (format.md: Row 2)."""
    parts = re.split(rb"[/\\]", path)
    if any(part == b"" for part in parts):
        return "empty_name"
    if any(_dots(part) for part in parts):
        return "dot_name"
    if any(_git(part) for part in parts):
        return "git_control_name"
    if _cut(_bare(parts[0])) == b".loops":
        return "loops_rules"
    if any(_short(part, b".gitmodules", b"gitmod", b"gi7eba") for part in parts):
        return "gitmodules"
    if any(_short(part, b".gitattributes", b"gitatt", b"gi7d29") for part in parts):
        return "gitattributes"
    if any(_env(part) for part in parts):
        return "environment_file"
    if any(_control(part) for part in parts):
        return "control_character"
    return None


def leaves_tree(path, leaves, repo):
    """Whether a symlink of a tree leads out of it."""
    here = path.split(b"/")[:-1]
    todo = _target(leaves[path], repo)
    links = 1
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
        found = leaves.get(b"/".join(here))
        if found and found[0] == LINK:
            links += 1
            more = _target(found, repo)
            if more is None or links > 40:
                return True
            here.pop()
            todo = more + todo
    return False


def _target(found, repo):
    kind, size, _ = repo.info(found[1])
    if kind != "blob" or size > 4096:
        return None
    text = repo.blob(found[1], 4096)
    if not text or text[:1] in (b"/", b"\\") or re.match(rb"[A-Za-z]:", text):
        return None
    return re.split(rb"[/\\]", text)


def blocked(changed, green, candidate, folders, mutable, deny, repo):
    """Row 2, what the trees show of it."""
    out = []
    for path in sorted(changed):
        old, new = changed[path]
        what = _blocked_of(path, old, new, candidate, mutable, deny, repo)
        if what:
            out.append(entry(path, what))
    return out + collisions(changed, green, candidate, folders, mutable)


def _blocked_of(path, old, new, candidate, mutable, deny, repo):
    name = unsafe_name(path)
    named = mutable.names(path)
    if name and not (named and (new is None or name not in ("empty_name", "dot_name", "git_control_name"))):
        return name
    if named:
        return None
    if deny.matches_folded(path, (new or old)[0] == MODULE):
        return "blocked_path"
    if (old and old[0] == MODULE) or (new and new[0] == MODULE):
        return "submodule_link_changed"
    if new and new[0] == LINK and leaves_tree(path, candidate, repo):
        size = repo.info(new[1])[1]
        target = repo.blob(new[1], 16 * 1024 * 1024) if size <= 16 * 1024 * 1024 else b""
        return "symlink_leaves_tree (%s)" % escape_path(target)
    return None


def collisions(changed, green, candidate, folders, mutable):
    """Added paths and folders that are one with another after folding."""
    groups = {}
    for path in list(candidate) + list(folders[1]):
        groups.setdefault(fold_path(path), []).append(path)
    out = []
    for group in groups.values():
        added = [p for p in group if p not in green and p not in folders[0]]
        if len(group) < 2 or not added:
            continue
        below = [p for p in changed if p not in green and any(p == a or p.startswith(a + b"/") for a in added)]
        if below and all(mutable.names(p) for p in below):
            continue
        for path in added:
            other = min((p for p in group if p != path), key=lambda p: (p in added, p))
            out.append((path, entry(path, "path_collision (%s)" % escape_path(other))))
    told = {path for path, _ in out}
    out = [pair for pair in out if not any(pair[0].startswith(p + b"/") for p in told)]
    return [item for _, item in sorted(out, key=lambda pair: pair[0])]


# --- all of it --------------------------------------------------------------------------------------

def derive(repo, terms, base_tree, green_tree, tree):
    """(guards, changed paths, repairs) of a candidate's tree; guards without what only the runner saw."""
    paths = terms["paths"]
    mutable, check, deny = (Patterns(paths[name]) for name in ("mutable", "check", "blocked"))
    frozen = frozen_map(terms)
    drifted, repair = drift(diff(repo, base_tree, tree), frozen, check)
    changed = diff(repo, green_tree, tree)
    old_folders, new_folders = set(), set()
    green = repo.leaves(green_tree, folders=old_folders)
    candidate = repo.leaves(tree, folders=new_folders)
    guards = {"drift": drifted,
              "blocked": blocked(changed, green, candidate, (old_folders, new_folders), mutable, deny, repo),
              "outside": [escape_path(p) for p in sorted(changed)
                          if not mutable.matches(p, (changed[p][1] or changed[p][0])[0] == MODULE)]}
    return guards, changed, repair


def frozen_map(terms):
    """The frozen entries as path -> (mode, id)."""
    return {unescape_path(e["path"]): (e["mode"].encode(), e["id"]) for e in terms["frozen"]["entries"]}


def check_frozen(repo, terms, base_tree):
    """frozen.entries and frozen.tree are what the patterns select of the base (format.md: Frozen paths)."""
    check = Patterns(terms["paths"]["check"])
    leaves = repo.leaves(base_tree)
    wanted = {}
    for path in sorted(leaves):
        mode, oid = leaves[path]
        if check.matches_folded(path, mode == MODULE):
            if mode not in (b"100644", b"100755"):
                raise Bad("the check path %s is no regular file" % escape_path(path))
            wanted[path] = (mode, oid)
    listed = [{"path": escape_path(p), "mode": m.decode(), "id": i} for p, (m, i) in wanted.items()]
    told = [{k: e[k] for k in ("path", "mode", "id")} for e in terms["frozen"]["entries"]]
    if told != listed:
        raise Bad("the frozen entries are not those that the patterns select")
    if repo.write_tree(wanted) != terms["frozen"]["tree"]:
        raise Bad("the frozen tree is not that of the frozen entries")


def checked_tree(repo, tree, repair):
    """The check's tree: every drifted path put right (format.md: The check's tree)."""
    if not repair:
        return tree
    leaves = repo.leaves(tree)
    for path in repair:
        leaves.pop(path, None)
    for path, found in repair.items():
        if found:
            leaves[path] = found
    return repo.write_tree(leaves)
