# SPDX-License-Identifier: Apache-2.0
"""Objects and refs of a repository (format.md: Objects, Refs, How large anything may be)."""
import hashlib
import os
import re
import subprocess

from canonical import Bad

KIB, MIB = 1024, 1024 * 1024
LINK, MODULE, TREE, WIDE = b"120000", b"160000", b"40000", b"100664"
MODES = (b"100644", b"100755", WIDE, LINK, MODULE, TREE)


class Unfit(Exception):
    """The workspace is not fit (30)."""


class MalformedTree(Bad):
    """A tree that git may read and never writes; `why` is told by format.md."""

    def __init__(self, oid, why):
        super().__init__("tree %s is malformed: %s" % (oid, why))
        self.why = why


def tree_order(mode, name):
    """What git sorts the entries of a tree by."""
    return name + (b"/" if mode == TREE else b"")


def parse_tree(data, step):
    """The entries (mode, name, id) of a tree, or the word of format.md for what is wrong with it."""
    at, out, leaves = 0, [], set()
    while at < len(data):
        space = data.find(b" ", at)
        if space < 0:
            return "an entry has no mode"
        mode, end = data[at:space], data.find(b"\0", space)
        if mode not in MODES:
            return "an entry has a mode that git does not write"
        if end < 0:
            return "an entry has no end of name"
        name = data[space + 1:end]
        if not name:
            return "an entry has an empty name"
        if b"/" in name:
            return "an entry has a name with a slash"
        if end + 1 + step > len(data):
            return "the last entry is cut short"
        if out:
            last = tree_order(*out[-1][:2])
            if last == tree_order(mode, name):
                return "two entries have the same name"
            if last > tree_order(mode, name):
                return "the entries are not in git's order"
        if mode != TREE:
            leaves.add(name)
        elif name in leaves:
            return "two entries have the same name"
        out.append((mode, name, data[end + 1:end + 1 + step].hex()))
        at = end + 1 + step
    return out


class Repo:
    """Reads objects through git cat-file, and hashes each of them again."""

    def __init__(self, folder, env=None):
        self.env = {k: v for k, v in (os.environ if env is None else env).items() if k != "GIT_NAMESPACE"}
        self.env.update(GIT_NO_REPLACE_OBJECTS="1", GIT_OPTIONAL_LOCKS="0", LC_ALL="C", GIT_NO_LAZY_FETCH="1")
        self.folder = folder
        self.cache = {}
        self.sizes = {}
        done = self.git("rev-parse", "--absolute-git-dir", "--show-object-format")
        if done.returncode:
            raise Unfit(done.stderr.decode("utf-8", "replace").strip() or "no git repository")
        self.git_dir, self.hash = done.stdout.decode("utf-8", "surrogateescape").split("\n")[:2]
        self.digits = 64 if self.hash == "sha256" else 40
        self.empty_tree = self.id_of("tree", b"")
        self._info = self._start("--batch-check=%(objectname) %(objecttype) %(objectsize) %(deltabase)")
        self._batch = self._start("--batch")

    def git(self, *args):
        """Run git and give what came of it."""
        return subprocess.run(["git", "-C", self.folder] + list(args), env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def config(self, key, path=True):
        """A value of git's configuration, or None."""
        done = self.git("config", *(["--type=path"] if path else []), "--get", key)
        text = done.stdout.decode("utf-8", "surrogateescape")
        return text[:-1] if done.returncode == 0 and text.endswith("\n") else None

    def _start(self, flag):
        return subprocess.Popen(["git", "-C", self.folder, "cat-file", flag], env=self.env, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def close(self):
        """End the processes that read objects."""
        for process in (self._info, self._batch):
            process.stdin.close()
            process.stdout.close()
            process.wait()

    def info(self, oid):
        """Type and size from the header of an object."""
        if oid not in self.sizes:
            if len(oid) != self.digits:
                raise Bad("%s is no id of this repository" % oid)
            self._info.stdin.write(oid.encode() + b"\n")
            self._info.stdin.flush()
            words = self._info.stdout.readline().decode().split()
            if len(words) != 4:
                raise Bad("object %s is missing" % oid)
            self.sizes[oid] = (words[1], int(words[2]), words[3])
        return self.sizes[oid]

    def read(self, oid, kind, limit):
        """The content of an object of this kind that is no larger than it may be."""
        actual, size, base = self.info(oid)
        if actual != kind:
            raise Bad("object %s is a %s, not a %s" % (oid, actual, kind))
        if size > limit:
            raise Bad("object %s has %d bytes, more than the %d that are read of one" % (oid, size, limit))
        if base.strip("0") and self.info(base)[1] > 128 * MIB:
            raise Bad("object %s cannot be decoded within 256 MiB" % oid)
        if oid not in self.cache:
            self._batch.stdin.write(oid.encode() + b"\n")
            self._batch.stdin.flush()
            if len(self._batch.stdout.readline().split()) != 3:
                raise Bad("object %s is missing or damaged" % oid)
            data = self._batch.stdout.read(size + 1)[:-1]
            if len(data) != size or self.id_of(kind, data) != oid:
                raise Bad("object %s is not what its id says" % oid)
            self.cache[oid] = data
        return self.cache[oid]

    def id_of(self, kind, data):
        """The id that an object with this content has."""
        return hashlib.new(self.hash, b"%s %d\0" % (kind.encode(), len(data)) + data).hexdigest()

    def blob(self, oid, limit):
        return self.read(oid, "blob", limit)

    def tree(self, oid, limit=32 * MIB, at=b""):
        """The entries (mode, name, id) of a well-formed tree that stands for the folder `at`."""
        found = [] if oid == self.empty_tree else parse_tree(self.read(oid, "tree", limit), self.digits // 2)
        if isinstance(found, list) and at.count(b"/") >= 512:
            found = "folders are nested more than 512 deep"
        if isinstance(found, list) and found and len(at) + max(len(name) for _, name, _ in found) >= 4096:
            found = "a path is longer than 4096 bytes"
        if isinstance(found, str):
            raise MalformedTree(oid, found)
        return found

    def leaves(self, oid, prefix=b"", out=None):
        """Every path of a tree that is no folder, with (mode, id)."""
        out = {} if out is None else out
        for mode, name, child in self.tree(oid, at=prefix[:-1]):
            if mode == TREE:
                self.leaves(child, prefix + name + b"/", out)
            else:
                out[prefix + name] = (mode, child)
        return out

    def write_tree(self, leaves):
        """The id of the tree that holds these paths and nothing else."""
        top = {}
        for path, entry in leaves.items():
            parts, node = path.split(b"/"), top
            for part in parts[:-1]:
                node = node.setdefault(part, {})
            node[parts[-1]] = entry
        return self._tree_id(top)

    def _tree_id(self, node):
        entries = [(TREE, name, self._tree_id(item)) if isinstance(item, dict) else (item[0], name, item[1])
                   for name, item in node.items()]
        entries.sort(key=lambda e: e[1] + (b"/" if e[0] == TREE else b""))
        return self.id_of("tree", b"".join(m + b" " + n + b"\0" + bytes.fromhex(i) for m, n, i in entries))

    def commit_tree_and_parents(self, oid):
        """Tree and parents of any commit (the base)."""
        text = self.read(oid, "commit", 16 * MIB)
        match = re.match(rb"tree ([0-9a-f]{%d})\n((?:parent [0-9a-f]{%d}\n)*)" % (self.digits, self.digits), text)
        if not match:
            raise Bad("commit %s is malformed" % oid)
        return match.group(1).decode(), match.group(2).decode().split()[1::2]

    def loop_refs(self):
        """(name, id or None, fault or None) of everything under refs/loops/."""
        done = self.git("for-each-ref", "--format=%(refname) %(objectname) %(symref)", "refs/loops/")
        out = {}
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            name, oid, symref = line.split(" ", 2)
            out[name] = (oid, "is a symbolic ref" if symref else None)
        for name in re.findall(r"(?:broken|dangling) (?:ref|symref) (refs/loops/\S+)", done.stderr.decode("utf-8", "replace")):
            out[name] = (None, "is damaged")
        common = self.git("rev-parse", "--path-format=absolute", "--git-common-dir").stdout.decode().strip()
        for top, _, files in os.walk(os.path.join(common, "refs", "loops")):
            for file in files:
                name = os.path.relpath(os.path.join(top, file), common)
                if not file.endswith(".lock"):
                    out.setdefault(name, (None, "is damaged"))
        for name, (oid, fault) in list(out.items()):
            if not fault:
                out[name] = (oid, self._no_commit(oid))
        return out

    def _no_commit(self, oid):
        try:
            kind = self.info(oid)[0]
        except Bad as error:
            return str(error)
        return None if kind == "commit" else "names a %s" % kind
