# SPDX-License-Identifier: Apache-2.0
"""Rewrites ledgers for compare.py: changes a record, and signs all from there on again."""
import os
import re
import tempfile

import odd_patterns
from canonical import Float, dump, load


class Forge:
    """Rewrites a ledger from a record on and signs it again."""

    def __init__(self, scenario):
        self.s, self.world = scenario, scenario.world
        self.keys = {}
        for name in self.world.keys:
            done = self.world.sh(["ssh-keygen", "-lf", self.world.key(name) + ".pub"])
            self.keys[done.stdout.decode().split()[1]] = name
        self.sha256 = scenario.git("rev-parse", "--show-object-format").stdout.strip() == b"sha256"
        tip = scenario.tip()
        self.chain = scenario.git("rev-list", "--first-parent", "--reverse", tip).stdout.decode().split()
        self.parts = [self.take(oid) for oid in self.chain]

    def take(self, oid):
        git = self.s.git
        raw = git("cat-file", "commit", oid).stdout
        head, _, message = raw.partition(b"\n\n")
        tree = [line.split(b"\t") for line in git("ls-tree", "-z", oid).stdout.split(b"\0") if line]
        entries = {name: tuple(info.split(b" ")) for info, name in tree}
        files = {name: git("cat-file", "blob", entries[name][2].decode()).stdout for name in
                 (b"record.json", b".loop_state.json", b"contract.json", b"STATUS.md")}
        parents = re.findall(rb"(?m)^parent (.*)$", head)
        author = re.search(rb"(?m)^author (.*)$", head).group(1)
        committer = re.search(rb"(?m)^committer (.*)$", head).group(1)
        evidence = None
        if b"evidence" in entries:
            listed = git("ls-tree", "-z", entries[b"evidence"][2].decode()).stdout.split(b"\0")
            evidence = {line.split(b"\t")[1]: line.split(b"\t")[0].split(b" ")[2] for line in listed if line}
        return {"entries": entries, "files": files, "parents": parents, "author": author, "committer": committer,
                "message": message, "extra": b"", "key": None, "evidence": evidence, "namespace": "git"}

    def blob(self, data):
        return self.s.git("hash-object", "-w", "--stdin", data=data).stdout.strip()

    def tree(self, entries):
        text = b"".join(b"%s %s %s\t%s\0" % (m, k, i, n) for n, (m, k, i) in entries.items())
        return self.s.git("mktree", "-z", data=text).stdout.strip()

    def sign(self, data, key, namespace="git"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x")
            with open(path, "wb") as file:
                file.write(data)
            self.world.sh(["ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", self.world.key(key), path])
            with open(path + ".sig", "rb") as file:
                return file.read()

    def commit(self, part):
        entries = dict(part["entries"])
        for name, data in part["files"].items():
            if name in entries:
                entries[name] = (entries[name][0], b"blob", self.blob(data))
        if part["evidence"] is not None:
            entries[b"evidence"] = (b"040000", b"tree", self.tree(
                {n: (b"100644", b"blob", i) for n, i in part["evidence"].items()}))
        head = b"tree " + self.tree(entries) + b"\n" + b"".join(b"parent " + p + b"\n" for p in part["parents"])
        head += b"author " + part["author"] + b"\ncommitter " + part["committer"] + b"\n" + part["extra"]
        body = b"\n" + part["message"]
        key = part["key"]
        if key is None:
            try:
                key = self.keys[load(part["files"][b"record.json"])["actor"]["key"]]
            except Exception:
                key = "runner"
        armor = self.sign(head + body, key, part["namespace"])
        header = b"gpgsig-sha256 " if self.sha256 else b"gpgsig "
        signed = head + header + armor.rstrip(b"\n").replace(b"\n", b"\n ") + b"\n" + body
        if part.get("raw"):
            signed = part["raw"](signed)
        return self.s.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", data=signed).stdout.strip()

    def rebuild(self, at, change, upto=None):
        """Rewrite record `at` with `change(part)`, then the rest with new ids; gives the new tip."""
        renamed, tip = {}, None
        for number in range(at, upto or len(self.parts)):
            part = {k: (dict(v) if isinstance(v, dict) else list(v) if isinstance(v, list) else v)
                    for k, v in self.parts[number].items()}
            for old, new in renamed.items():
                for name in (b"record.json", b".loop_state.json"):
                    part["files"][name] = part["files"][name].replace(old, new)
                part["message"] = part["message"].replace(old, new)
                part["parents"] = [new if p == old else p for p in part["parents"]]
            if number == at:
                change(part)
            tip = self.commit(part)
            renamed[self.chain[number].encode()] = tip
        return tip.decode()


def set_json(name, path, value):
    """A change of one value in a JSON file of a record."""
    def change(part):
        data = load(part["files"][name])
        node = data
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
        part["files"][name] = dump(data)
    return change


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, path + (key,))
        if not value:
            yield path, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, path + (index,))
        if not value:
            yield path, value
    else:
        yield path, value


def other_values(value):
    """Values that stand in for another one."""
    if value is None:
        return ["x", 1]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, float):
        return [type(value)(value + 1.0)]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, str):
        if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", value):
            return [value[:-1] + ("0" if value[-1] != "0" else "1")]
        if re.fullmatch(r"\d+\.\d{6}", value):
            return ["9" + value]
        return [value + "x", None]
    if isinstance(value, list):
        return [["x"]]
    return [{"x": "y"}]


def json_mutations(forge, every):
    """One changed value in record.json, state or contract of some records."""
    count = 0
    for number, part in enumerate(forge.parts):
        for name in (b"record.json", b".loop_state.json") + ((b"contract.json",) if number == 0 else ()):
            for path, value in leaves(load(part["files"][name])):
                for new in other_values(value):
                    count += 1
                    if count % every == 0:
                        yield number, "%s %s = %r" % (name.decode(), ".".join(map(str, path)), new), \
                            set_json(name, path, new)


def structural(forge):
    """Changes of form: (record, name, change)."""
    last = len(forge.parts) - 1

    def put(key, value):
        return lambda part: part.__setitem__(key, value)

    def edit(key, function):
        return lambda part: part.__setitem__(key, function(part[key]))

    def text(name, function):
        return lambda part: part["files"].__setitem__(name, function(part["files"][name]))

    def entry(name, mode, kind, oid):
        return lambda part: part["entries"].__setitem__(name, (mode, kind, oid))
    blob = forge.blob(b"x\n")
    empty = forge.tree({})
    for number in sorted({0, min(1, last), last}):
        yield number, "noop", lambda part: None
        yield number, "another author", put("author", re.sub(rb"^.*>", b"Eve <eve@x>", forge.parts[number]["author"]))
        yield number, "author date", edit("author", lambda a: re.sub(rb"(\d+) \+0000$", lambda m: b"%d +0000" % (int(m.group(1)) + 1), a))
        yield number, "committer zone", edit("committer", lambda a: a.replace(b"+0000", b"+0100"))
        yield number, "minus zone", edit("committer", lambda a: a.replace(b"+0000", b"-0000"))
        yield number, "encoding header", put("extra", b"encoding UTF-8\n")
        yield number, "x header", put("extra", b"x-y z\n")
        yield number, "message end", edit("message", lambda m: m + b"\n")
        yield number, "message word", edit("message", lambda m: b"x" + m)
        yield number, "message no end", edit("message", lambda m: m[:-1])
        yield number, "other key", put("key", "other")
        yield number, "ann's key", put("key", "ann")
        yield number, "namespace file", put("namespace", "file")
        yield number, "twice the parent", edit("parents", lambda p: p + p[-1:])
        yield number, "base as parent", edit("parents", lambda p: p + [forge.chain[0].encode()])
        yield number, "no STATUS.md", lambda part: (part["entries"].pop(b"STATUS.md"), part["files"].pop(b"STATUS.md"))
        yield number, "STATUS.md other", text(b"STATUS.md", lambda d: d + b"x")
        yield number, "STATUS.md large", text(b"STATUS.md", lambda d: b"x" * (1024 * 1024 + 1))
        yield number, "extra file", entry(b"x", b"100644", b"blob", blob)
        yield number, "extra frozen", entry(b"frozen", b"040000", b"tree", empty)
        yield number, "extra evidence", entry(b"evidence", b"040000", b"tree", empty)
        yield number, "exec record", lambda part: part["entries"].__setitem__(b"record.json", (b"100755",) + part["entries"][b"record.json"][1:])
        yield number, "link STATUS.md", lambda part: part["entries"].__setitem__(b"STATUS.md", (b"120000",) + part["entries"][b"STATUS.md"][1:])
        yield number, "BOM", text(b"record.json", lambda d: b"\xef\xbb\xbf" + d)
        yield number, "no newline", text(b"record.json", lambda d: d[:-1])
        yield number, "two newlines", text(b"record.json", lambda d: d + b"\n")
        yield number, "white space", text(b"record.json", lambda d: d.replace(b'": ', b'" : ', 1))
        yield number, "CRLF", text(b"record.json", lambda d: d.replace(b"\n", b"\r\n"))
        yield number, "escape", text(b"record.json", lambda d: d.replace(b'"git-loop/record', b'"git\\u002dloop/record'))
        yield number, "slash", text(b"record.json", lambda d: d.replace(b"git-loop/record", b"git-loop\\/record"))
        yield number, "unknown field", text(b"record.json", lambda d: d.replace(b'{\n', b'{\n  "zz": 1,\n', 1))
        yield number, "unknown last field", text(b"record.json", lambda d: d[:-3] + b',\n  "zz": {\n    "a": 1.0\n  }\n}\n')
        yield number, "unknown float form", text(b"record.json", lambda d: d.replace(b'{\n', b'{\n  "zz": 1.00,\n', 1))
        yield number, "unknown float", text(b"record.json", lambda d: d.replace(b'{\n', b'{\n  "zz": 1e-7,\n', 1))
        yield number, "unknown big integer", text(b"record.json", lambda d: d.replace(b'{\n', b'{\n  "zz": 99999999999999999999999,\n', 1))
        yield number, "unknown minus zero", text(b"record.json", lambda d: d.replace(b'{\n', b'{\n  "zz": -0.0,\n', 1))
        yield number, "unknown negative", text(b"record.json", lambda d: d.replace(b'{\n', b'{\n  "zz": -3,\n', 1))
        for depth in (125, 126, 127, 128):
            yield number, "nested %d deep" % depth, text(b"record.json", lambda d, n=depth: dump(dict({"zz": nested(n)}, **load(d))))
        yield number, "largest integers", text(b"record.json", lambda d: d.replace(b'{\n', b'{\n  "zz": 18446744073709551615,\n  "zy": -9223372036854775808,\n', 1))
        yield number, "too large an integer", text(b"record.json", lambda d: d.replace(b'{\n', b'{\n  "zz": 18446744073709551616,\n', 1))
        yield number, "too small an integer", text(b"record.json", lambda d: d.replace(b'{\n', b'{\n  "zz": -9223372036854775809,\n', 1))
        yield number, "minus zero as an integer", text(b"record.json", lambda d: d.replace(b'{\n', b'{\n  "zz": -0,\n', 1))
        yield number, "repeated key", text(b"record.json", lambda d: d.replace(b'{\n', b'{\n  "zz": 1,\n  "zz": 1,\n', 1))
        yield number, "state field", text(b".loop_state.json", lambda d: d.replace(b'{\n', b'{\n  "zz": 1,\n', 1))
        yield number, "seq as float", text(b"record.json", lambda d: re.sub(rb'"seq": (\d+)', rb'"seq": \1.0', d, count=1))
        yield number, "NUL in message", edit("message", lambda m: m[:-1] + b"\0\n")
        yield number, "signature twice", put("raw", lambda raw: re.sub(rb"(?s)(gpgsig.*?-----END SSH SIGNATURE-----\n)", rb"\1\1", raw, count=1))
        yield number, "no signature", put("raw", lambda raw: re.sub(rb"(?s)gpgsig.*?-----END SSH SIGNATURE-----\n", b"", raw, count=1))
        yield number, "signature damaged", put("raw", lambda raw: re.sub(rb"\n ([A-Za-z0-9+/]{60})", lambda m: b"\n " + m.group(1)[::-1], raw, count=1))
        yield number, "blank line in signature", put("raw", lambda raw: raw.replace(b" -----END SSH", b" \n -----END SSH", 1))
        yield number, "signature on one line", put("raw", one_line)


def nested(depth):
    """Arrays in each other."""
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


RANGES = [("limits.iterations", 0), ("limits.iterations", 101), ("limits.iterations", 100), ("limits.cost_usd", "0.000000"),
          ("limits.cost_usd", "10000.000001"), ("limits.tokens", 0), ("limits.duration_seconds", 0),
          ("limits.duration_seconds", 86401), ("limits.no_progress", 0), ("limits.no_progress", 21),
          ("limits.regression_limit", 0), ("limits.oscillation_limit", 0), ("limits.cost_sigma", Float(0.05)),
          ("limits.cost_sigma", Float(101.0)), ("limits.unread_diffs", 0), ("limits.evidence_kib", 0),
          ("limits.evidence_kib", 4097), ("metric.repeat", 0), ("metric.repeat", 101), ("metric.repeat", 1000000),
          ("metric.min_improvement", Float(-1.0)), ("metric.target", Float(-0.5)), ("metric.name", "x" * 65),
          ("metric.from", "regex"), ("metric.from", "json"), ("metric.pattern", "("), ("metric.direction", "maximize"),
          ("check.timeout_seconds", 0), ("check.timeout_seconds", 86401), ("check.format", "none"),
          ("check.format", "junit"), ("check.report", "x"), ("check.external", True), ("worker.timeout_seconds", 0),
          ("worker.command", {"exec": []}), ("check.command", {"exec": []}), ("worker.reserve_usd", "10000.000001"),
          ("worker.env", ["PATH"]), ("paths.mutable", []), ("paths.mutable", ["tests/**"]), ("paths.mutable", ["["]),
          ("paths.blocked", ["#x"]), ("paths.blocked", [""]), ("paths.mutable", ["src/"]), ("paths.mutable", ["../x"]),
          ("paths.mutable", ["**"]), ("sandbox.allowed", []), ("sandbox.allowed", ["docker"]), ("sandbox.image", "debian:12"),
          ("sandbox.disk_bytes", 0), ("sandbox.worker_network", {"allow": ["localhost:80"]}),
          ("sandbox.check_network", {"allow": []}), ("worker.idle_timeout_seconds", 0), ("check.idle_timeout_seconds", 86401),
          ("roles.runner", []),
          ("roles.reviewer", []), ("roles.people", ["x"]), ("class", "lasting_code"), ("objective", ""),
          ("worker.sampling", {"temperature": Float(101.0), "top_p": None, "seed": None, "max_tokens": None}),
          ("worker.model", {"provider": "x", "model_id": None, "version": None, "quantization": None, "runtime": None,
                            "endpoint": None}), ("worker.agent", "x" * 101), ("worker.usage", "copilot"), ("rules", 0),
          ("rules", 2), ("frozen.entries", []), ("metric.from", "exit"), ("metric.from", "verdict")]


def one_line(raw):
    """The base64 of the signature on one line: the same bytes in another armour."""
    match = re.search(rb"(?s)(-----BEGIN SSH SIGNATURE-----\n)(.*?)(\n -----END)", raw)
    return raw[:match.start(2)] + b" " + match.group(2).replace(b"\n ", b"").strip() + raw[match.end(2):]


def mutate(verdicts, scenario, every):
    """All mutations of one ledger, each under the loop's own name."""
    forge, tip = Forge(scenario), scenario.tip()
    ref = "refs/loops/%s/ledger" % scenario.name
    todo = list(structural(forge)) if scenario.name in ("lines", "sha256", "promoted") else []
    todo += list(json_mutations(forge, every))
    if len(forge.parts) == 1:
        todo += [(0, "contract %s = %r" % (path, value), set_json(b"contract.json", path.split("."), value))
                 for path, value in RANGES]
    if scenario.name == "pattern":
        todo = [(0, "metric.pattern = %r" % pattern[:80], set_json(b"contract.json", ["metric", "pattern"], pattern))
                for pattern in odd_patterns.PATTERNS]
    for number, what, change in todo:
        try:
            new = forge.rebuild(number, change)
        except SystemExit as error:
            print("  (cannot be made: %s %d %s: %s)" % (scenario.name, number, what, str(error)[-100:]))
            continue
        scenario.git("update-ref", ref, new)
        verdicts.both(scenario.dir, scenario.name, "%s record %d: %s" % (scenario.name, number, what))
    scenario.git("update-ref", ref, tip)
