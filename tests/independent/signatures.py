# SPDX-License-Identifier: Apache-2.0
"""Signatures and the trust root (signing.md; format.md: The record commit)."""
import base64
import calendar
import datetime
import fnmatch
import hashlib
import os
import re
import struct
import subprocess
import tempfile

from canonical import Bad
from objects import Unfit

HEAD, TAIL = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"
PLAIN = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa",
         "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com")


def _take(data):
    """One length-prefixed string of the SSH wire format."""
    if len(data) < 4:
        raise Bad("the signature is cut off")
    size = struct.unpack(">I", data[:4])[0]
    if len(data) < 4 + size:
        raise Bad("the signature is cut off")
    return data[4:4 + size], data[4 + size:]


def _dearmor(armor):
    lines = (armor[:-1] if armor.endswith(b"\n") else armor).split(b"\n")
    if len(armor) > 65536 or len(lines) < 3 or lines[0] != HEAD or lines[-1] != TAIL or b"" in lines:
        raise Bad("the signature is not one armoured SSHSIG")
    text = b"".join(lines[1:-1])
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise Bad("the signature is no base64")
    if base64.b64encode(data) != text:
        raise Bad("the signature is no base64")
    return data


def _check_key(blob):
    name, rest = _take(blob)
    name = name.decode("latin-1")
    if name not in PLAIN:
        raise Bad("keys of type %s do not sign here" % name)
    if name == "ssh-rsa":
        _, rest = _take(rest)
        modulus, _ = _take(rest)
        bits = int.from_bytes(modulus, "big").bit_length()
        if not 2048 <= bits <= 16384:
            raise Bad("the RSA key has %d bits" % bits)
    return name


def _check_raw(signature, key_type):
    algorithm, rest = _take(signature)
    wanted = (b"rsa-sha2-256", b"rsa-sha2-512") if key_type == "ssh-rsa" else (key_type.encode(),)
    if algorithm not in wanted:
        raise Bad("the signature is of another kind than its key")
    _, rest = _take(rest)
    if key_type.startswith("sk-"):
        if len(rest) != 5 or not rest[0] & 1:
            raise Bad("the hardware key was not touched")
    elif rest:
        raise Bad("the signature is malformed")


def key_of(armor, namespace):
    """The public key of an SSHSIG, after a look at its form (signing.md: What a signature must be)."""
    data = _dearmor(armor)
    if data[:10] != b"SSHSIG\0\0\0\1":
        raise Bad("the signature is no SSHSIG of version 1")
    key, rest = _take(data[10:])
    space, rest = _take(rest)
    reserved, rest = _take(rest)
    digest, rest = _take(rest)
    raw, rest = _take(rest)
    if space != namespace.encode():
        raise Bad("the signature is in another namespace than %s" % namespace)
    if digest not in (b"sha256", b"sha512") or rest or reserved:
        raise Bad("the signature is malformed")
    _check_raw(raw, _check_key(key))
    return key


def fingerprint(key):
    """SHA256: and unpadded base64."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


HOLD = set()  # signatures that hold, by the hash of all that says so: one is not looked at twice


def verify(armor, data, namespace, revoked):
    """The key that signed these bytes; raises if the signature does not hold or the key is revoked."""
    key = key_of(armor, namespace)
    known = hashlib.sha256(b"%d %s\n%d %s\n" % (len(armor), armor, len(namespace), namespace.encode()) + data).digest()
    if known not in HOLD:
        _check(armor, data, namespace)
        HOLD.add(known)
    if revoked:
        _not_revoked(key, revoked)
    return key


def _check(armor, data, namespace):
    with tempfile.NamedTemporaryFile() as file:
        file.write(armor)
        file.flush()
        command = ["ssh-keygen", "-Y", "check-novalidate", "-n", namespace, "-s", file.name]
        done = subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise Bad("the signature does not verify: %s" % done.stdout.decode("utf-8", "replace").strip())


def _not_revoked(key, revoked):
    name = _take(key)[0].decode()
    with open(revoked, "rb") as file:
        is_krl = file.read(6) == b"SSHKRL"
    if not is_krl:
        with open(revoked, encoding="utf-8", errors="replace") as file:
            if base64.b64encode(key).decode() in file.read().split():
                raise Bad("the key %s is revoked" % fingerprint(key))
        return
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("%s %s\n" % (name, base64.b64encode(key).decode()))
        file.flush()
        done = subprocess.run(["ssh-keygen", "-Q", "-f", revoked, file.name], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
    if done.returncode:
        raise Bad("the key %s is revoked" % fingerprint(key))


# --- the allowed-signers file ---------------------------------------------------------------------

def _moment(text):
    match = re.fullmatch(r"(\d{8}|\d{12}|\d{14})Z?", text, re.A)
    if not match:
        raise Unfit("the time %r in the allowed-signers file" % text)
    digits = match.group(1)
    try:
        moment = datetime.datetime.strptime(digits.ljust(14, "0"), "%Y%m%d%H%M%S")
    except ValueError:
        raise Unfit("the time %r in the allowed-signers file" % text)
    return calendar.timegm(moment.timetuple())


def _words(line):
    """The words of a line; quotes keep white space together."""
    return re.findall(r'(?:"[^"]*"|[^\s"])+', line)


def _options(text):
    out = {}
    for part in re.findall(r'(?:"[^"]*"|[^,"])+', text):
        name, _, value = part.partition("=")
        name = name.lower()
        if name not in ("cert-authority", "namespaces", "valid-after", "valid-before") or name in out:
            raise Unfit("the option %r in the allowed-signers file" % part)
        if name != "cert-authority":
            if len(value) < 2 or value[0] != '"' or value[-1] != '"':
                raise Unfit("the option %r in the allowed-signers file" % part)
            value = value[1:-1]
        out[name] = _moment(value) if name.startswith("valid") else value
    return out


def _line(line):
    words = _words(line)
    principals = words[0].strip('"')
    options = {}
    if len(words) > 1 and words[1] not in PLAIN and not words[1].startswith(("ssh-", "ecdsa-", "sk-")):
        options = _options(words[1])
        words = words[:1] + words[2:]
    if len(words) < 3:
        raise Unfit("a line of the allowed-signers file cannot be understood: %r" % line)
    try:
        key = base64.b64decode(words[2], validate=True)
        if _take(key)[0].decode() != words[1]:
            raise ValueError
    except (ValueError, Bad):
        raise Unfit("a line of the allowed-signers file cannot be understood: %r" % line)
    return principals.split(","), options, key


def _matches(patterns, text):
    """A list of patterns with wildcards and '!' as OpenSSH matches it."""
    found = False
    for pattern in patterns:
        plain = pattern.lstrip("!") if pattern.startswith("!") else pattern
        escaped = plain.replace("[", "[[]")
        if fnmatch.fnmatchcase(text, escaped):
            if pattern.startswith("!"):
                return False
            found = True
    return found


class Trust:
    """The verifier's own allowed-signers file (signing.md: Who is who)."""

    def __init__(self, text, revoked=None):
        self.text = text
        self.revoked = revoked
        self.lines = [_line(line) for line in re.split(r"\r?\n", text)
                      if line.strip() and not line.strip().startswith("#")]
        if not self.lines:
            raise Unfit("nobody is trusted here: the allowed-signers file is empty")

    def allows(self, key, principal, namespace, at):
        """None if this key may sign for this principal then, else why not."""
        why = "the key %s is not in the allowed-signers file" % fingerprint(key)
        for principals, options, known in self.lines:
            if known != key or "cert-authority" in options:
                continue
            if not _matches(principals, principal):
                why = "the key %s may not sign for %s" % (fingerprint(key), principal)
            elif "namespaces" in options and not _matches(options["namespaces"].split(","), namespace):
                why = "the key may not sign in namespace %s" % namespace
            elif at < options.get("valid-after", at) or at > options.get("valid-before", at):
                why = "the key is not valid at that time"
            else:
                return None
        return why


def _branch_file(repo):
    branch = repo.config("loop.protectedBranch", path=False)
    remote = repo.config("loop.remote", path=False) or "origin"
    if branch and branch.startswith("refs/"):
        names = [branch]
    elif branch:
        names = ["refs/remotes/%s/%s" % (remote, branch), "refs/heads/" + branch]
    else:
        names = ["refs/remotes/%s/HEAD" % remote, "refs/heads/main"]
    for name in names:
        if repo.git("rev-parse", "-q", "--verify", name + "^{commit}").returncode == 0:
            done = repo.git("cat-file", "blob", name + ":.loops/allowed_signers")
            return done.stdout if done.returncode == 0 else None
    return None


def _file(repo, name):
    if not os.path.isabs(name):
        top = repo.git("rev-parse", "--show-toplevel").stdout.decode("utf-8", "surrogateescape").strip()
        name = os.path.join(top or repo.folder, name)
    try:
        with open(name, "rb") as file:
            return file.read()
    except OSError as error:
        raise Unfit(str(error))


def load_trust(repo, given):
    """The trust root: --allowed-signers, else the first place that is set."""
    name = given or repo.config("loop.allowedSigners") or repo.config("gpg.ssh.allowedSignersFile")
    data = _file(repo, os.path.abspath(given) if given else name) if name else _branch_file(repo)
    if data is None:
        raise Unfit("nobody is trusted here: there is no allowed-signers file")
    revoked = repo.config("gpg.ssh.revocationFile")
    if revoked:
        _file(repo, revoked)
    try:
        return Trust(data.decode("utf-8"), revoked)
    except UnicodeDecodeError:
        raise Unfit("the allowed-signers file is not UTF-8")


# --- signed commits -----------------------------------------------------------------------------

class Commit:
    """A signed commit in the one form that records and candidates have (format.md: The record commit)."""

    def __init__(self, repo, oid):
        self.oid, self.repo = oid, repo
        raw = repo.read(oid, "commit", 1024 * 1024)
        if b"\0" in raw:
            raise Bad("the commit has a NUL byte")
        head, blank, self.message = raw.partition(b"\n\n")
        if not blank:
            raise Bad("the commit is malformed")
        self.headers = re.findall(rb"(?m)^([^ \n][^\n]*(?:\n [^\n]*)*)", head)
        if b"\n".join(self.headers) != head:
            raise Bad("the commit's headers are malformed")
        self.names = [header.split(b" ", 1)[0] for header in self.headers]
        if self.names[:1] != [b"tree"] or self.names.count(b"tree") != 1:
            raise Bad("the commit has no tree")
        values = [header.split(b" ", 1)[1] if b" " in header else b"" for header in self.headers]
        self.values = values
        self.tree = self._id(values[0])
        self.parents = [self._id(v) for n, v in zip(self.names, values) if n == b"parent"]

    def _id(self, value):
        if not re.fullmatch(rb"[0-9a-f]{%d}" % self.repo.digits, value):
            raise Bad("the commit is malformed")
        return value.decode()

    def signature(self):
        """The one signature header and the bytes that it signs."""
        name = b"gpgsig-sha256" if self.repo.hash == "sha256" else b"gpgsig"
        places = [i for i, n in enumerate(self.names) if n.startswith(b"gpgsig")]
        if len(places) != 1 or self.names[places[0]] != name:
            raise Bad("the commit has not exactly one signature")
        place = places[0]
        armor = self.values[place].replace(b"\n ", b"\n") + b"\n"
        rest = self.headers[:place] + self.headers[place + 1:]
        return armor, b"\n".join(rest) + b"\n\n" + self.message

    def check_form(self, at=None):
        """Only the headers that git writes, in their order; dates in +0000."""
        signature = b"gpgsig-sha256" if self.repo.hash == "sha256" else b"gpgsig"
        wanted = [b"tree"] + [b"parent"] * len(self.parents) + [b"author", b"committer", signature]
        if self.names != wanted:
            raise Bad("the commit has other headers than it may have")
        dates = []
        for value in (self.values[-3], self.values[-2]):
            match = re.fullmatch(rb"([^<>\n]*) <([^<>\n]*)> (0|[1-9][0-9]*) \+0000", value)
            if not match:
                raise Bad("author or committer is malformed")
            dates.append(int(match.group(3)))
        if at is not None and dates != [at, at]:
            raise Bad("the dates of the commit are not that of the record")
        return dates[1]
