# SPDX-License-Identifier: Apache-2.0
"""gitignore patterns over paths as bytes (format.md: Guards, Patterns)."""
import functools
import re

from canonical import Bad
from paths import WHITE, cut, fold_letters, fold_path

_CLASSES = {b"alpha": rb"[A-Za-z]", b"digit": rb"[0-9]", b"alnum": rb"[A-Za-z0-9]", b"upper": rb"[A-Z]",
            b"lower": rb"[a-z]", b"space": rb"[ \t\n\v\f\r]", b"xdigit": rb"[0-9A-Fa-f]", b"blank": rb"[ \t]",
            b"punct": rb"[!-/:-@\[-`{-~]", b"cntrl": rb"[\x00-\x1f\x7f]", b"print": rb"[ -~]", b"graph": rb"[!-~]"}


# --- what may be a pattern ------------------------------------------------------------------------------

def _refuse(text, why):
    raise Bad("the pattern %r %s" % (text[:80], why))


def refuse_bad(text):
    """Refuse what format.md (Patterns) says no contract has."""
    data = text.encode("utf-8")
    if len(data) > 4096 or b"\0" in data or not text.strip(WHITE):
        _refuse(text, "is too long, empty or has a NUL")
    if text.startswith("#") or text.startswith("!!"):
        _refuse(text, "begins with # or !!")
    body = text[1:] if text.startswith("!") else text
    inner = body[1:] if body.startswith("/") else body
    inner = inner[:-1] if inner.endswith("/") else inner
    if not inner.strip(WHITE) or any(part in ("", ".", "..") for part in inner.split("/")):
        _refuse(text, "has an empty component, . or ..")
    runs = [len(run) for run in re.findall(r"\*+", _refuse_escapes(text, body))]
    if len(runs) > 32 or sum(run > 1 for run in runs) > 8:
        _refuse(text, "has too many wildcards")


def _refuse_escapes(text, body):
    """Refuse what is escaped or bracketed badly; gives what is neither, with a space for each."""
    at, escaped, rest = 0, False, ""
    while at < len(body):
        if body[at] == "\\":
            if body[at + 1:at + 2] in ("", "/"):
                _refuse(text, "has a backslash before a slash or its end")
            at, escaped, rest = at + 2, True, rest + " "
            continue
        escaped = False
        if body[at] == "[":
            end = _class_end(body, at)
            if end is None or "/" in body[at:end]:
                _refuse(text, "has a [ without its ]")
            at, rest = end, rest + " "
            continue
        rest += body[at]
        at += 1
    if body.endswith(" ") and not escaped:
        _refuse(text, "ends with a space")
    return rest


def _class_end(body, at):
    """Where a [...] ends; None if it does not."""
    at += 1
    if body[at:at + 1] in ("!", "^"):
        at += 1
    first = at
    while at < len(body):
        if body[at] == "]" and at > first:
            return at + 1
        if body[at] == "\\":
            at += 1
        elif body[at:at + 2] == "[:":
            end = body.find("]", at + 2)
            if end > at + 2 and body[end - 1] == ":":
                at = end
        at += 1
    return None


# --- patterns as regular expressions -----------------------------------------------------------------------

def _class(pattern, at):
    """A [...] as a regular expression for one byte, and where it ends; None where nothing can match."""
    end = _class_end(pattern.decode("latin-1"), at)
    if end is None:
        return None, at
    body = pattern[at + 1:end - 1]
    negated = body[:1] in (b"!", b"^")
    body = body[1:] if negated else body
    found, at, previous = set(), 0, None
    while at < len(body):
        char = body[at:at + 1]
        if char == b"\\":
            at += 1
            char = body[at:at + 1]
            found.update(char)
        elif char == b"-" and previous is not None and at + 1 < len(body):
            at += 1
            at += body[at:at + 1] == b"\\"
            found.update(range(previous, body[at] + 1))
            previous, at = None, at + 1
            continue
        elif body[at:at + 2] == b"[:" and b"]" in body[at + 2:] and body[body.index(b"]", at + 2) - 1:][:1] == b":" \
                and body.index(b"]", at + 2) > at + 2:
            close = body.index(b"]", at + 2)
            named = _CLASSES.get(body[at + 2:close - 1])
            if named is None:
                return None, end
            found.update(code for code in range(256) if re.match(named, bytes([code]), re.S))
            previous, at = None, close + 1
            continue
        else:
            found.update(char)
        previous, at = char[0], at + 1
    found.discard(ord("/"))
    if not found:
        return (b"[^/]" if negated else b"(?!)"), end
    return b"(?!/)[" + (b"^" if negated else b"") + b"".join(b"\\x%02x" % code for code in sorted(found)) + b"]", end


def _regex(pattern, anchored):
    """A pattern as a regular expression over a whole path; None if it can match nothing."""
    out, at = (b"" if anchored else b"(?:.*/)?"), 0
    while at < len(pattern):
        char = pattern[at:at + 1]
        if char == b"*":
            run = len(pattern[at:]) - len(pattern[at:].lstrip(b"*"))
            alone = run > 1 and (at == 0 or pattern[at - 1:at] == b"/")
            at += run
            if alone and pattern[at:at + 1] == b"/":
                out, at = out + b"(?:.*/)?", at + 1
            elif alone and at == len(pattern):
                out += b".*"
            else:
                out += b"[^/]*"
        elif char == b"?":
            out, at = out + b"[^/]", at + 1
        elif char == b"[":
            part, at = _class(pattern, at)
            if part is None:
                return None
            out += part
        else:
            if char == b"\\":
                at += 1
                char = pattern[at:at + 1]
            out, at = out + re.escape(char), at + 1
    return out


def _fold_part(part):
    """The folded form of a component of a pattern: the cut is made again, and no backslash is left behind."""
    folded = fold_letters(part)
    if not folded:
        return part
    while True:
        less = cut(folded)
        if less != folded:
            slashes = len(less) - len(less.rstrip(b"\\"))
            less = less[:-1] if slashes % 2 and len(less) > 1 else less
        if less == folded:
            return folded
        folded = less


def fold_pattern(body):
    """The folded form of a pattern (behind its `!`)."""
    inner = body.strip(b"/")
    parts = [part for part in inner.replace(b"\\\\", b"/").split(b"/") if part]
    if not parts:
        return body
    folded = b"/".join(_fold_part(part) for part in parts)
    if body.startswith(b"/") or (b"/" in inner and b"/" not in folded):
        folded = b"/" + folded
    elif b"/" not in inner and b"/" in folded:
        folded = b"**/" + folded
    return folded + (b"/" if body.endswith(b"/") else b"")


class _Matcher:
    """One pattern without its `!`."""

    def __init__(self, line, any_case):
        self.folders = line.endswith(b"/")
        body = line[:-1] if self.folders else line
        source = _regex(body[1:] if body.startswith(b"/") else body, b"/" in body)
        self.regex = None if source is None else re.compile(source, re.S | (re.I if any_case else 0))

    def covers(self, path, is_folder):
        """Whether it matches the path itself or a folder above it."""
        if self.regex is None:
            return False
        end, whole = len(path), True
        while end > 0:
            if not (whole and self.folders and not is_folder) and self.regex.fullmatch(path, 0, end):
                return True
            end, whole = path.rfind(b"/", 0, end), False
        return False


class Pattern:
    """One pattern, exact and folded."""

    def __init__(self, text):
        refuse_bad(text)
        self.negated = text.startswith("!")
        line = (text[1:] if self.negated else text).encode("utf-8")
        self.exact, self.folded = _Matcher(line, False), _Matcher(fold_pattern(line), True)
        bare = line[1:] if line.startswith(b"/") else line
        self.wild_first = bool(_wildcards(bare.split(b"/")[0]))
        self.plain = None
        if not self.negated and not _wildcards(bare):
            self.plain = re.sub(rb"(?s)\\(.)", rb"\1", bare.rstrip(b"/"))


def _wildcards(body):
    return re.search(rb"[*?\[]", re.sub(rb"(?s)\\.", b"", body))


class Patterns:
    """A set of patterns: of all that cover a path the last one decides."""

    def __init__(self, texts):
        self.patterns = [Pattern(text) for text in texts]

    def matches(self, path):
        """By its exact bytes, as something that is no folder."""
        for pattern in reversed(self.patterns):
            if pattern.exact.covers(path, False):
                return not pattern.negated
        return False

    def matches_folded(self, path, is_folder=False):
        """Exactly, or the folded form of the path by the folded patterns, in any case of ASCII letters."""
        if self.matches(path):
            return True
        path = fold_path(path)
        for pattern in reversed(self.patterns):
            if pattern.folded.covers(path, is_folder):
                return not pattern.negated
        return False

    def names(self, path):
        """A pattern without `!` and wildcards is exactly this path, and the path matches (Row 2, "Named")."""
        return any(p.plain == path for p in self.patterns) and self.matches(path)


@functools.lru_cache(maxsize=256)
def compiled(texts):
    """The patterns of a tuple of texts."""
    return Patterns(texts)
