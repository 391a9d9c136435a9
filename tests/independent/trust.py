# SPDX-License-Identifier: Apache-2.0
"""The verifier's own trust root (signing.md: Who is who, Revocation)."""
import base64
import os
import re
import tempfile

from canonical import Bad, seconds
from objects import Unfit
from signatures import fingerprint, run_keygen, take

_OPTIONS = ("cert-authority", "namespaces", "valid-after", "valid-before")


def _moment(text):
    """A time in one of three lengths; without a Z it is UTC as well."""
    match = re.fullmatch(r"(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?[Zz]?", text, re.A)
    try:
        if not match:
            raise Bad("")
        return seconds("%s-%s-%sT%s:%s:%sZ" % tuple(part or "00" for part in match.groups()))
    except Bad:
        raise Unfit("the time %r in the allowed-signers file" % text)


# What is in quotes keeps white space and commas; a backslash keeps a quote.
_QUOTED = r'"(?:\\"|[^"])*"'


def _options(text):
    out = {}
    parts = re.findall(r'(?:%s|[^,"])+' % _QUOTED, text)
    if ",".join(parts) != text:
        raise Unfit("the options %r in the allowed-signers file" % text)
    for part in parts:
        name, _, value = part.partition("=")
        name = name.lower()
        if name not in _OPTIONS or name in out:
            raise Unfit("the option %r in the allowed-signers file" % part)
        if name != "cert-authority":
            if len(value) < 2 or value[0] != '"' or value[-1] != '"':
                raise Unfit("the option %r in the allowed-signers file" % part)
            value = value[1:-1].replace('\\"', '"')
        out[name] = _moment(value) if name.startswith("valid") else value
    if "valid-after" in out and out.get("valid-before", out["valid-after"] + 1) <= out["valid-after"]:
        raise Unfit("a key in the allowed-signers file is never valid")
    return out


# How many strings a public key has, its type among them.
_FIELDS = {"ssh-ed25519": 2, "ssh-rsa": 3, "ssh-dss": 5, "sk-ssh-ed25519@openssh.com": 3,
           "sk-ecdsa-sha2-nistp256@openssh.com": 4}
_FIELDS.update(("ecdsa-sha2-nistp" + curve, 3) for curve in ("256", "384", "521"))


def _is_type(word):
    return word.startswith(("ssh-", "ecdsa-", "sk-", "rsa-"))


def _key(kind, text):
    try:
        key = base64.b64decode(text, validate=True)
        rest, fields = key, []
        while rest:
            field, rest = take(rest)
            fields.append(field)
        wanted = _FIELDS.get(kind, len(fields))
        if fields and fields[0] == kind.encode() and len(fields) == wanted and (
                kind != "ssh-ed25519" or len(fields[1]) == 32):
            return key
    except (ValueError, Bad):
        pass
    return None


def _line(line):
    words = re.findall(r'(?:%s|[^\s"])+' % _QUOTED, line, re.A)
    quoted = words[0].startswith('"') and words[0].endswith('"') if words else False
    if not words or '"' in (words[0][1:-1] if quoted else words[0]):
        raise Unfit("a line of the allowed-signers file cannot be understood: %r" % line)
    options = {}
    if len(words) > 2 and not _is_type(words[1]):
        options = _options(words.pop(1))
    key = _key(words[1], words[2]) if len(words) > 2 else None
    if key is None:
        raise Unfit("a line of the allowed-signers file cannot be understood: %r" % line)
    return words[0].strip('"').split(","), options, key


def _matches(patterns, text):
    """A list of patterns with wildcards and '!' as OpenSSH matches it."""
    found = False
    for pattern in patterns:
        plain = pattern[1:] if pattern.startswith("!") else pattern
        source = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in plain)
        if re.fullmatch(source, text, re.S):
            if pattern.startswith("!"):
                return False
            found = True
    return found


class Trust:
    """An allowed-signers file, and what is revoked."""

    def __init__(self, text, revoked=None, env=None):
        self.text, self.revoked, self.env = text, revoked, env
        self.lines = [_line(line) for line in re.split(r"\r?\n", text)
                      if line.strip(" \t") and not line.lstrip(" \t").startswith("#")]
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

    def refuse_revoked(self, key):
        """A revoked key is revoked for all times."""
        if self.revoked and self._is_revoked(key):
            raise Bad("the key %s is revoked" % fingerprint(key))

    def _is_revoked(self, key):
        with open(self.revoked, "rb") as file:
            data = file.read()
        kind, text = take(key)[0].decode("latin-1"), base64.b64encode(key).decode()
        if data.startswith(b"SSHKRL"):
            with tempfile.NamedTemporaryFile("w") as file:
                file.write("%s %s\n" % (kind, text))
                file.flush()
                code, said = run_keygen(["-Q", "-f", self.revoked, file.name], env=self.env)
            if code and "REVOKED" not in said:
                raise Unfit("the revocation file cannot be understood: %s" % said.strip())
            return code != 0
        for line in data.decode("utf-8", "replace").splitlines():
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            found = _key(words[0], words[1]) if len(words) > 1 and _is_type(words[0]) else None
            if found is None:
                raise Unfit("a line of the revocation file cannot be understood: %r" % line)
            if found == key:
                return True
        return False


# --- where it is ----------------------------------------------------------------------------------------

def _branch_file(repo):
    branch, remote = repo.config("loop.protectedBranch"), repo.config("loop.remote") or "origin"
    if branch and branch.startswith("refs/"):
        places = [branch]
    elif branch:
        places = ["refs/remotes/%s/%s" % (remote, branch), "refs/heads/" + branch]
    else:
        places = ["refs/remotes/%s/HEAD" % remote, "refs/heads/main"]
    for name in places:
        if repo.git("rev-parse", "-q", "--verify", name + "^{commit}").returncode == 0:
            done = repo.git("cat-file", "blob", name + ":.loops/allowed_signers")
            return done.stdout if done.returncode == 0 else None
    return None


def _place(repo, name):
    """Paths may begin with ~/; relative ones are relative to the top of the work tree (configuration.md)."""
    if name.startswith("~/"):
        name = repo.env.get("HOME", "~") + name[1:]
    if not os.path.isabs(name):
        top = repo.git("rev-parse", "--show-toplevel").stdout.decode("utf-8", "surrogateescape").rstrip("\n")
        name = os.path.join(top or repo.git_dir, name)
    return name


def _content(name):
    try:
        with open(name, "rb") as file:
            return file.read()
    except OSError as error:
        raise Unfit(str(error))


def load(repo, given):
    """The trust root: --allowed-signers, else the first place that is set, and only that one."""
    name = os.path.abspath(given) if given else \
        repo.config("loop.allowedSigners") or repo.config("gpg.ssh.allowedSignersFile")
    data = _content(_place(repo, name)) if name else _branch_file(repo)
    if data is None:
        raise Unfit("nobody is trusted here: there is no allowed-signers file")
    revoked = repo.config("gpg.ssh.revocationFile")
    if revoked:
        revoked = _place(repo, revoked)
        _content(revoked)
    try:
        return Trust(data.decode("utf-8"), revoked, repo.env)
    except UnicodeDecodeError:
        raise Unfit("the allowed-signers file is not UTF-8")
