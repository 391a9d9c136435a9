# SPDX-License-Identifier: Apache-2.0
"""Escaped paths, texts in messages, and folded forms (format.md: Escaped paths, The message, Patterns)."""
import re
import unicodedata

from canonical import Bad

_INVISIBLE = [(0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
              (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F),
              (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
              (0xE0000, 0xE0FFF)]
# What Unicode calls White_Space (report-formats.md: Lines, numbers and JSON).
WHITE = "\t\n\x0b\x0c\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"


def invisible(char):
    """What is drawn as nothing."""
    code = ord(char)
    return any(low <= code <= high for low, high in _INVISIBLE)


def _shown(char):
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return "\\x%02x" % (code - 0xDC00)
    if code < 0x20 or code == 0x7F:
        return "\\x%02x" % code
    if 0x80 <= code <= 0x9F or code in (0x2028, 0x2029) or invisible(char):
        return "\\u{%x}" % code
    return char


def escape_path(path):
    """A path, a byte string, as it stands in JSON."""
    return "".join("\\\\" if c == "\\" else _shown(c) for c in path.decode("utf-8", "surrogateescape"))


_ESCAPED = re.compile(r"\\\\|\\x[0-9a-f]{2}|\\u\{[0-9a-f]{1,6}\}|.", re.S)


def _unescaped(word):
    if word == "\\\\":
        return b"\\"
    if len(word) > 1 and word[1] == "x":
        return bytes([int(word[2:], 16)])
    if len(word) > 1:
        return chr(min(int(word[3:-1], 16), 0x10FFFF)).encode("utf-8", "surrogatepass")
    return word.encode("utf-8", "surrogatepass")


def unescape_path(text):
    """The path of its escaped form; there is one spelling."""
    path = b"".join(_unescaped(part) for part in _ESCAPED.findall(text))
    if escape_path(path) != text:
        raise Bad("the path %r is not spelled as it must be" % text)
    return path


def short(text, limit):
    """<text:N> of a message."""
    words = [word for word in re.split("[" + WHITE + "]+", text) if word]
    text = "".join(_shown(c) for c in " ".join(words))
    if len(text) > limit:
        text = text[:limit - 1].rstrip(WHITE) + "\u2026"
    return text


# --- folded forms -------------------------------------------------------------------------------------

def _fold_text(text):
    text = "".join(c for c in text if not invisible(c))
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def fold_letters(name):
    """The first step: of each longest part that is valid UTF-8; other bytes stay."""
    parts = re.split("([\udc80-\udcff]+)", name.decode("utf-8", "surrogateescape"))
    return "".join(part if number % 2 else _fold_text(part) for number, part in enumerate(parts)).encode(
        "utf-8", "surrogateescape")


def cut(folded):
    """A stream suffix and trailing dots and spaces are cut off, unless nothing would be left."""
    colon = folded.find(b":")
    if colon > 0 and b":$" in folded[colon:]:
        folded = folded[:colon]
    return folded.rstrip(b". ") or folded


def fold_component(name):
    """The folded form of one component. One of which the first step leaves nothing stays as it is."""
    folded = fold_letters(name)
    return cut(folded) if folded else name


def fold_path(path):
    """The folded form of a path."""
    parts = [part for part in path.replace(b"\\", b"/").split(b"/") if part]
    return b"/".join(fold_component(part) for part in parts)
