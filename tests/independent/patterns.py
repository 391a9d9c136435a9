# SPDX-License-Identifier: Apache-2.0
"""Patterns of paths (format.md: Patterns)."""
import re

from canonical import Bad, fold_path, fold_text, stream_cut

CLASSES = {b"alpha": b"a-zA-Z", b"digit": b"0-9", b"alnum": b"a-zA-Z0-9", b"upper": b"A-Z", b"lower": b"a-z",
           b"space": rb"\s", b"xdigit": b"0-9a-fA-F", b"blank": rb" \t", b"punct": rb"!-/:-@\[-`{-~",
           b"cntrl": rb"\x00-\x1f\x7f", b"print": b" -~", b"graph": b"!-~"}


def _class_end(body, at):
    """Where a bracket expression ends, behind its ]; None if it does not."""
    at += 1
    at += body[at:at + 1] in (b"!", b"^")
    first = at
    while at < len(body):
        char = body[at:at + 1]
        if char == b"]" and at > first:
            return at + 1
        if char == b"[" and body[at + 1:at + 2] == b":":
            close = body.find(b":]", at + 2)
            if close < 0:
                return None
            at = close + 2
        else:
            at += 2 if char == b"\\" else 1
    return None


def _class(body, at):
    """A bracket expression as a regular expression, and where it ends."""
    end = _class_end(body, at)
    if end is None:
        return None, at
    here, stop, out = at + 1, end - 1, b""
    negated = body[here:here + 1] in (b"!", b"^")
    here += negated
    while here < stop:
        named = re.match(rb"\[:([a-z]+):\]", body[here:stop])
        if named:
            if named.group(1) not in CLASSES:
                return None, at
            out += CLASSES[named.group(1)]
            here += len(named.group())
            continue
        here += body[here:here + 1] == b"\\"
        low = body[here:here + 1]
        here += 1
        if body[here:here + 1] == b"-" and here + 1 < stop:
            here += 1
            here += body[here:here + 1] == b"\\"
            high = body[here:here + 1]
            here += 1
            out += re.escape(low) + b"-" + re.escape(high) if low <= high else b""
        else:
            out += re.escape(low)
    if not out:
        return (b"[^/]" if negated else b"(?!)"), end
    return b"(?!/)[" + (b"^" if negated else b"") + out + b"]", end


def _regex(body, anchored):
    """A gitignore pattern as a regular expression over a whole path; None if it matches nothing."""
    out, at = (b"" if anchored else b"(?:.*/)?"), 0
    while at < len(body):
        char = body[at:at + 1]
        if char == b"*":
            run = re.match(rb"\*+", body[at:]).end()
            alone = run > 1 and (at == 0 or body[at - 1:at] == b"/")
            if alone and body[at + run:at + run + 1] == b"/":
                out, at = out + b"(?:.*/)?", at + run + 1
            elif alone and at + run == len(body):
                out, at = out + b".+", at + run
            else:
                out, at = out + b"[^/]*", at + run
        elif char == b"?":
            out, at = out + b"[^/]", at + 1
        elif char == b"[":
            part, end = _class(body, at)
            if part is None:
                return None
            out, at = out + part, end
        else:
            at += char == b"\\"
            out, at = out + re.escape(body[at:at + 1]), at + 1
    return out


def _need(condition, what):
    if not condition:
        raise Bad("a pattern " + what)


def _check_form(text):
    """What no pattern may be (format.md: Patterns)."""
    body = text[1:] if text.startswith("!") else text
    _need(len(text.encode()) <= 4096 and "\0" not in text and text.strip(), "is empty or too long")
    _need(not text.startswith("#") and not body.startswith("!"), "is a comment, or negated twice")
    inner = re.sub(r"^/", "", body)
    inner = re.sub(r"/$", "", inner)
    _need(inner.strip(), "names nothing")
    _need(all(part not in ("", ".", "..") for part in inner.split("/")), "has an empty component or dots")
    data, at, stars, doubles = body.encode(), 0, 0, 0
    while at < len(data):
        char = data[at:at + 1]
        if char == b"\\":
            _need(at + 1 < len(data) and data[at + 1:at + 2] != b"/", "has a backslash that escapes nothing")
            at += 2
        elif char == b"*":
            run = re.match(rb"\*+", data[at:]).end()
            stars, doubles, at = stars + 1, doubles + (run > 1), at + run
        elif char == b"[":
            end = _class_end(data, at)
            _need(end is not None and b"/" not in data[at:end], "has a bracket without its end, or a slash in one")
            at = end
        else:
            at += 1
    _need(stars <= 32 and doubles <= 8, "has too many wildcards")
    _need(not body.endswith(" ") or _escaped(body[:-1]), "ends in a space")


def _escaped(text):
    """Whether what comes behind this text is escaped."""
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _literal(text):
    """The name that a pattern matches and nothing else, or None."""
    out, at = "", 0
    while at < len(text):
        if text[at] in "*?[":
            return None
        at += text[at] == "\\"
        out += text[at:at + 1]
        at += 1
    return out.encode()


def _fold_part(part):
    """The folded form of one component of a pattern."""
    whole = fold_text(part) or part
    folded = whole
    while True:
        kept = len(stream_cut(folded.encode()).decode("utf-8", "ignore"))
        kept -= _escaped(folded[:kept])
        if kept == 0:
            return whole
        if kept == len(folded):
            return folded
        folded = folded[:kept]


def _fold_body(body):
    """The pattern that matches the folded forms of what a pattern matches."""
    inner = body.strip("/")
    folded = "/".join(_fold_part(part) for part in inner.replace("\\\\", "/").split("/") if part)
    anchored = body.startswith("/") or "/" in inner
    front = "/" if anchored and "/" not in folded else "**/" if not anchored and "/" in folded else ""
    return front + folded + ("/" if body.endswith("/") else "")


class _Glob:
    """One pattern as it is matched."""

    def __init__(self, body, fold):
        data = body.encode()
        self.folders = data.endswith(b"/")
        data = data[:-1] if self.folders else data
        anchored = b"/" in data
        source = _regex(data[1:] if data.startswith(b"/") else data, anchored)
        self.regex = None if source is None else re.compile(source, re.S | (re.I if fold else 0))

    def covers(self, path, is_folder):
        """Whether it matches the path itself or a folder above it."""
        if self.regex is None:
            return False
        parts = path.lstrip(b"/").split(b"/")
        for size in range(1, len(parts) + 1):
            folder = size < len(parts) or is_folder
            if (folder or not self.folders) and self.regex.fullmatch(b"/".join(parts[:size])):
                return True
        return False


class Pattern:
    """One pattern of a contract."""

    def __init__(self, text):
        _check_form(text)
        self.negated = text.startswith("!")
        body = text[1:] if self.negated else text
        self.exact = _Glob(body, False)
        folded = _fold_body(body)
        self.folded = _Glob(folded, True) if folded.strip("/") else _Glob(body, True)
        rooted = body[1:] if body.startswith("/") else body
        self.literal = None if self.negated else _literal(rooted.rstrip("/"))
        self.must_find = not self.negated and _literal(rooted.split("/")[0]) is not None


class Patterns:
    """A set of patterns: the last one that covers a path decides."""

    def __init__(self, texts):
        self.patterns = [Pattern(text) for text in texts]

    def _decide(self, covers):
        for pattern in reversed(self.patterns):
            if covers(pattern):
                return not pattern.negated
        return False

    def matches(self, path):
        """By its exact bytes, as no folder."""
        return self._decide(lambda pattern: pattern.exact.covers(path, False))

    def matches_folded(self, path, is_folder=False):
        """By its exact bytes or folded; a submodule link is a folder."""
        if self._decide(lambda pattern: pattern.exact.covers(path, is_folder)):
            return True
        folded = fold_path(path)
        return self._decide(lambda pattern: pattern.folded.covers(folded, is_folder))

    def names(self, path):
        """A pattern without wildcards is exactly this path, and the path matches."""
        return self.matches(path) and any(pattern.literal == path for pattern in self.patterns)

    def all_find(self, paths):
        """Whether every pattern that begins with a name matches something."""
        return all(any(pattern.exact.covers(path, False) for path in paths)
                   for pattern in self.patterns if pattern.must_find)
