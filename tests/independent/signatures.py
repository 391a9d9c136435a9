# SPDX-License-Identifier: Apache-2.0
"""Signatures and signed commits (signing.md: What a signature must be; format.md: The record commit)."""
import base64
import hashlib
import os
import re
import struct
import subprocess
import tempfile

import ed25519
from canonical import Bad
from objects import MIB, Unfit

HEAD, TAIL = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"
ARMOR_LIMIT = 64 * 1024
# The algorithms of a signature by the type of the key (no certificates, no DSA, no RSA with SHA-1).
PLAIN = {"ssh-ed25519": ("ssh-ed25519",), "ssh-rsa": ("rsa-sha2-256", "rsa-sha2-512"),
         "sk-ssh-ed25519@openssh.com": ("sk-ssh-ed25519@openssh.com",),
         "sk-ecdsa-sha2-nistp256@openssh.com": ("sk-ecdsa-sha2-nistp256@openssh.com",)}
for _curve in ("256", "384", "521"):
    PLAIN["ecdsa-sha2-nistp" + _curve] = ("ecdsa-sha2-nistp" + _curve,)


def take(data):
    """One length-prefixed string of the SSH wire format, and what comes behind it."""
    if len(data) < 4:
        raise Bad("the signature is cut off")
    size = struct.unpack(">I", data[:4])[0]
    if len(data) < 4 + size:
        raise Bad("the signature is cut off")
    return data[4:4 + size], data[4 + size:]


def _string(data):
    return struct.pack(">I", len(data)) + data


def fingerprint(key):
    """SHA256: and unpadded base64."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def _dearmor(armor):
    """One armoured SSHSIG, nothing around it; the base64 on one line or on several, of which none is empty."""
    lines = armor.split(b"\n")
    if lines[-1:] == [b""]:
        lines.pop()
    if len(armor) > ARMOR_LIMIT or len(lines) < 3 or lines[0] != HEAD or lines[-1] != TAIL or b"" in lines:
        raise Bad("the signature is not one armoured SSHSIG")
    text = b"".join(lines[1:-1])
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise Bad("the signature is no base64")
    if base64.b64encode(data) != text:
        raise Bad("the signature is no base64")
    return data


class Signature:
    """The parts of an SSHSIG of version 1."""

    def __init__(self, armor, namespace):
        data = _dearmor(armor)
        if data[:10] != b"SSHSIG\0\0\0\1":
            raise Bad("the signature is no SSHSIG of version 1")
        self.key, rest = take(data[10:])
        space, rest = take(rest)
        reserved, rest = take(rest)
        self.digest, rest = take(rest)
        raw, rest = take(rest)
        if space != namespace.encode():
            raise Bad("the signature is in another namespace than %s" % namespace)
        if reserved or rest or self.digest not in (b"sha256", b"sha512"):
            raise Bad("the signature is malformed")
        name, key = take(self.key)
        self.type, self.namespace = name.decode("latin-1"), space
        if self.type not in PLAIN:
            raise Bad("keys of type %s do not sign here" % self.type)
        algorithm, self.raw = take(raw)
        if algorithm.decode("latin-1") not in PLAIN[self.type]:
            raise Bad("the algorithm %r for a key of type %s" % (algorithm, self.type))
        self._check_key(key)
        if self.type.startswith("sk-"):
            _, rest = take(self.raw)
            if not rest or not rest[0] & 1:
                raise Bad("nobody touched the hardware key")

    def _check_key(self, rest):
        if self.type == "ssh-ed25519":
            self.public, rest = take(rest)
            if rest or len(self.public) != 32:
                raise Bad("the key is malformed")
        if self.type == "ssh-rsa":
            _, rest = take(rest)
            modulus, rest = take(rest)
            bits = int.from_bytes(modulus, "big").bit_length()
            if rest or not 2048 <= bits <= 16384:
                raise Bad("the RSA key has %d bits" % bits)

    def holds(self, data):
        """Whether it is one of these bytes."""
        if self.type == "ssh-ed25519":
            signed = b"SSHSIG" + _string(self.namespace) + _string(b"") + _string(self.digest) + \
                _string(hashlib.new(self.digest.decode(), data).digest())
            raw, rest = take(self.raw)
            return not rest and ed25519.verify(self.public, raw, signed)
        return None


_HOLD = {}


def verify(armor, data, namespace, env=None):
    """The key that signed these bytes; raises if the signature does not hold."""
    signature = Signature(armor, namespace)
    key = hashlib.sha256(b"%d " % len(armor) + armor + namespace.encode() + b"\0" + data).digest()
    if key not in _HOLD:
        if len(_HOLD) > 20000:
            _HOLD.clear()
        held = signature.holds(data)
        _HOLD[key] = _keygen(armor, data, namespace, env) if held is None else held
    if not _HOLD[key]:
        raise Bad("the signature does not verify")
    return signature.key


def _keygen(armor, data, namespace, env):
    """ssh-keygen's word, for the keys that are not looked at here."""
    text = base64.b64encode(_dearmor(armor))
    lines = [HEAD] + [text[at:at + 70] for at in range(0, len(text), 70)] + [TAIL, b""]
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"\n".join(lines))
        file.flush()
        return run_keygen(["-Y", "check-novalidate", "-n", namespace, "-s", file.name], data, env)[0] == 0


def run_keygen(arguments, data=b"", env=None):
    """The exit code of ssh-keygen, and what it said."""
    try:
        done = subprocess.run(["ssh-keygen"] + arguments, input=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=os.environ if env is None else env)
        return done.returncode, done.stdout.decode("utf-8", "replace")
    except OSError as error:
        raise Unfit("ssh-keygen cannot be run: %s" % error)


# --- signed commits -----------------------------------------------------------------------------

class Commit:
    """A signed commit in the one form that records and candidates have (format.md: The record commit)."""

    def __init__(self, repo, oid):
        self.oid, self.repo = oid, repo
        raw = repo.read(oid, "commit", MIB)
        if b"\0" in raw:
            raise Bad("the commit has a NUL byte")
        head, blank, self.message = raw.partition(b"\n\n")
        if not blank:
            raise Bad("the commit is malformed")
        self.headers = re.findall(rb"(?m)^([^ \n][^\n]*(?:\n [^\n]*)*)", head)
        if b"\n".join(self.headers) != head:
            raise Bad("the commit's headers are malformed")
        pairs = [header.partition(b" ") for header in self.headers]
        self.names, self.values = [pair[0] for pair in pairs], [pair[2] for pair in pairs]
        if self.names[:1] != [b"tree"] or self.names.count(b"tree") != 1:
            raise Bad("the commit has no tree")
        self.tree = self._id(self.values[0])
        self.parents = [self._id(v) for n, v in zip(self.names, self.values) if n == b"parent"]
        self.signature_name = b"gpgsig-sha256" if repo.hash == "sha256" else b"gpgsig"

    def _id(self, value):
        if not re.fullmatch(rb"[0-9a-f]{%d}" % self.repo.digits, value):
            raise Bad("the commit is malformed")
        return value.decode()

    def signature(self):
        """The one signature header and the bytes that it signs."""
        places = [i for i, n in enumerate(self.names) if n.startswith(b"gpgsig")]
        if len(places) != 1 or self.names[places[0]] != self.signature_name:
            raise Bad("the commit has not exactly one signature")
        place = places[0]
        armor = self.values[place].replace(b"\n ", b"\n")
        if armor.endswith(b"\n"):
            raise Bad("there is something around the signature")
        rest = self.headers[:place] + self.headers[place + 1:]
        return armor, b"\n".join(rest) + b"\n\n" + self.message

    def check_form(self, moment=None):
        """Only the headers that git writes, in their order; dates in +0000. Gives the committer's."""
        wanted = [b"tree"] + [b"parent"] * len(self.parents) + [b"author", b"committer", self.signature_name]
        if self.names != wanted:
            raise Bad("the commit has other headers than it may have")
        dates = []
        for value in (self.values[-3], self.values[-2]):
            match = re.fullmatch(rb"([^<>\n]*) <([^<>\n]*)> (0|[1-9][0-9]*) \+0000", value)
            if not match:
                raise Bad("author or committer is malformed")
            dates.append(int(match.group(3)))
        if moment is not None and dates != [moment, moment]:
            raise Bad("the dates of the commit are not that of the record")
        return dates[1]
