# SPDX-License-Identifier: Apache-2.0
"""Objects and refs of a repository (format.md: Objects, Refs, How large anything may be)."""
import hashlib
import os
import re
import subprocess

from canonical import Bad

KIB, MIB = 1024, 1024 * 1024
LINK, MODULE, TREE, WIDE = b"120000", b"160000", b"40000", b"100664"
REGULAR = (b"100644", b"100755", WIDE)
MODES = REGULAR + (LINK, MODULE, TREE)
LOOP_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class Unfit(Exception):
    """The workspace is not fit (30)."""


class Malformed(Bad):
    """A tree that git does not write; `why` is the words of format.md (A malformed tree)."""

    def __init__(self, oid, why):
        super().__init__("tree %s: %s" % (oid, why))
        self.why = why


def is_loop_id(name):
    """format.md: Refs."""
    return bool(LOOP_ID.fullmatch(name)) and ".." not in name and not name.endswith((".lock", "."))


class Repo:
    """Reads objects through one git cat-file, and hashes each of them again."""

    def __init__(self, folder, env=None):
        self.env = {k: v for k, v in (os.environ if env is None else env).items() if k != "GIT_NAMESPACE"}
        self.env.update(GIT_NO_REPLACE_OBJECTS="1", GIT_OPTIONAL_LOCKS="0", LC_ALL="C", GIT_NO_LAZY_FETCH="1",
                        GIT_GRAFT_FILE=os.devnull)
        self.folder = folder
        self.cache, self.sizes, self.trees, self.settings = {}, {}, {}, None
        self.batch = None
        done = self.git("rev-parse", "--absolute-git-dir", "--show-object-format", "--path-format=absolute",
                        "--git-common-dir")
        if done.returncode:
            raise Unfit(done.stderr.decode("utf-8", "replace").strip() or "no git repository")
        lines = done.stdout.decode("utf-8", "surrogateescape").split("\n")
        self.git_dir, self.hash, self.common = lines[:3]
        self.digits = 64 if self.hash == "sha256" else 40

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """End the process that reads objects."""
        if self.batch:
            batch, self.batch = self.batch, None
            try:
                batch.stdin.close()
            except OSError:
                pass  # it died of a damaged object
            batch.stdout.close()
            batch.wait()

    def git(self, *args):
        """Run git and give what came of it."""
        try:
            return subprocess.run(["git", "-C", self.folder] + list(args), env=self.env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError as error:
            raise Unfit("git cannot be run: %s" % error)

    def config(self, key):
        """The last value of a key in git's configuration, or None."""
        if self.settings is None:
            self.settings = {}
            for entry in self.git("config", "--list", "-z").stdout.decode("utf-8", "surrogateescape").split("\0"):
                name, _, value = entry.partition("\n")
                self.settings[name] = value
        section, _, name = key.rpartition(".")
        return self.settings.get(section.lower() + "." + name.lower())

    def _ask(self, command, oid):
        if self.batch is None:
            self.batch = subprocess.Popen(
                ["git", "-C", self.folder, "cat-file",
                 "--batch-command=%(objectname) %(objecttype) %(objectsize) %(deltabase)"], env=self.env,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            self.batch.stdin.write(command + b" " + oid.encode() + b"\n")
            self.batch.stdin.flush()
            return self.batch.stdout.readline().decode().split()
        except OSError:
            return []

    def info(self, oid):
        """Type, size and base of the delta from the header of an object."""
        if oid not in self.sizes:
            if len(oid) != self.digits:
                raise Bad("%s is no id of this repository" % oid)
            words = self._ask(b"info", oid)
            if len(words) != 4:
                self._again(words)
                raise Bad("object %s is missing or damaged" % oid)
            self.sizes[oid] = (words[1], int(words[2]), words[3])
        return self.sizes[oid]

    def _again(self, words):
        """A git that died of a damaged object is started again."""
        if not words:
            self.close()

    def has(self, oid):
        """Whether the object is here at all."""
        try:
            return bool(self.info(oid))
        except Bad:
            return False

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
            words = self._ask(b"contents", oid)
            data = self.batch.stdout.read(size + 1)[:-1] if len(words) == 4 else b""
            if len(data) != size or self.id_of(kind, data) != oid:
                self._again([])
                raise Bad("object %s is not what its id says" % oid)
            self.cache[oid] = data
        return self.cache[oid]

    def id_of(self, kind, data):
        """The id that an object with this content has."""
        return hashlib.new(self.hash, b"%s %d\0" % (kind.encode(), len(data)) + data).hexdigest()

    def blob(self, oid, limit):
        return self.read(oid, "blob", limit)

    def tree(self, oid, limit=32 * MIB):
        """The entries (mode, name, id) of a well-formed tree."""
        if oid not in self.trees:
            self.trees[oid] = self._entries(oid, self.read(oid, "tree", limit))
        elif self.info(oid)[1] > limit:
            self.read(oid, "tree", limit)
        return self.trees[oid]

    def _entries(self, oid, data):
        at, out, step, seen, last = 0, [], self.digits // 2, set(), b""
        while at < len(data):
            space, end = data.find(b" ", at), data.find(b"\0", at)
            if space < 0:
                raise Malformed(oid, "an entry has no mode")
            mode = data[at:space]
            if mode not in MODES:
                raise Malformed(oid, "an entry has a mode that git does not write")
            if end < space:
                raise Malformed(oid, "an entry has no end of name")
            name = data[space + 1:end]
            if not name:
                raise Malformed(oid, "an entry has an empty name")
            if b"/" in name:
                raise Malformed(oid, "an entry has a name with a slash")
            if end + 1 + step > len(data):
                raise Malformed(oid, "the last entry is cut short")
            key = name + (b"/" if mode == TREE else b"")
            if name in seen:
                raise Malformed(oid, "two entries have the same name")
            if key < last:
                raise Malformed(oid, "the entries are not in git's order")
            seen.add(name)
            last = key
            out.append((mode, name, data[end + 1:end + 1 + step].hex()))
            at = end + 1 + step
        return out

    def leaves(self, oid, prefix=b"", out=None):
        """Every path of a tree that is no folder, with (mode, id)."""
        out = {} if out is None else out
        if prefix.count(b"/") >= 512:
            raise Malformed(oid, "folders are nested more than 512 deep")
        for mode, name, child in self.tree(oid):
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

    # --- refs

    def loop_refs(self):
        """(id or None, fault or None) of everything under refs/loops/, by name."""
        done = self.git("for-each-ref", "--format=%(refname) %(objectname) %(symref)", "refs/loops/")
        out = {}
        for line in done.stdout.decode("utf-8", "surrogateescape").splitlines():
            name, oid, symref = line.split(" ", 2)
            out[name] = (oid, "is a symbolic ref" if symref else None)
        for name in re.findall(r"(?:broken|dangling) (?:ref|symref) (refs/loops/\S+)",
                               done.stderr.decode("utf-8", "surrogateescape")):
            out[name] = (None, "is damaged")
        for top, folders, files in os.walk(os.path.join(self.common, "refs", "loops")):
            folders[:] = [folder for folder in folders if not folder.endswith(".lock")]
            for file in files:
                name = os.path.relpath(os.path.join(top, file), self.common)
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
            return "names an object that cannot be read: %s" % error
        return None if kind == "commit" else "names a %s" % kind
