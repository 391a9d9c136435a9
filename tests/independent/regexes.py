# SPDX-License-Identifier: Apache-2.0
"""Patterns of the regex crate as Python's (metrics.md: regex; format.md: Ranges, metric.pattern).

A pattern is parsed by the crate's syntax, so that one that it refuses is refused, and written anew for Python's `re`; both take the
leftmost match and the first alternative. What Python has no word for (scripts, bytes that are no text) raises Unchecked.
"""
import functools
import re
import sys
import unicodedata

from canonical import Bad
from paths import WHITE

_POSIX = {"alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": "\\x00-\\x7f", "blank": "\\t ", "cntrl": "\\x00-\\x1f\\x7f",
          "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~",
          "space": "\\t\\n\\v\\f\\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f"}
_CHARS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_META = "\\.+*?()|[]{}^$#&-~/ !\"%',:;=@_`<>"
_BOUNDS = {"b": r"\b", "B": r"\B", "A": r"\A", "z": r"\Z", "b{start}": r"(?<!\w)(?=\w)", "b{end}": r"(?<=\w)(?!\w)",
           "b{start-half}": r"(?<!\w)", "b{end-half}": r"(?!\w)", "<": r"(?<!\w)(?=\w)", ">": r"(?<=\w)(?!\w)"}
_CATEGORIES = {"letter": "L", "mark": "M", "number": "N", "punctuation": "P", "symbol": "S", "separator": "Z", "other": "C",
               "uppercaseletter": "Lu", "lowercaseletter": "Ll", "decimalnumber": "Nd", "digit": "Nd"}


class Unchecked(Exception):
    """This cannot be derived here; it is told as not checked."""


class _Set:
    """Code points of a class."""

    def __init__(self, codes=()):
        self.codes = set(codes)

    def python(self, negated):
        parts, codes = [], sorted(self.codes)
        start = 0
        for place in range(len(codes)):
            if place + 1 == len(codes) or codes[place + 1] != codes[place] + 1:
                parts.append("\\U%08x-\\U%08x" % (codes[start], codes[place]))
                start = place + 1
        if not parts:
            return "[\\U00000000-\\U0010ffff]" if negated else "(?!)"
        return "[" + ("^" if negated else "") + "".join(parts) + "]"


@functools.lru_cache(maxsize=64)
def _codes(python):
    """All code points that a class of Python matches."""
    found = re.compile(python)
    return frozenset(code for code in range(sys.maxunicode + 1) if found.match(chr(code)))


@functools.lru_cache(maxsize=64)
def _category(name):
    key = re.sub(r"[\s_-]", "", name).lower()
    key = key.split("=")[-1] if key.startswith(("gc=", "generalcategory=")) else key
    if key == "any":
        return frozenset(range(sys.maxunicode + 1))
    if key == "ascii":
        return frozenset(range(128))
    short = _CATEGORIES.get(key, name if re.fullmatch(r"[A-Z][a-z]?", name) else None)
    if short is None:
        raise Unchecked("the class \\p{%s} of a metric's pattern" % name)
    return frozenset(code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith(short))


_PERL = {"d": r"\d", "w": r"\w", "s": "[" + WHITE + "]"}


class _Parser:
    def __init__(self, text):
        self.text, self.at, self.names, self.groups, self.verbose, self.active = text, 0, [], 0, False, ""

    # --- characters

    def refuse(self, what):
        raise Bad("the pattern %r: %s" % (self.text[:80], what))

    def peek(self, size=1):
        return self.text[self.at:self.at + size]

    def next(self):
        char = self.peek()
        if not char:
            self.refuse("it ends too early")
        self.at += 1
        return char

    def space(self):
        """Skip white space and comments under the flag x."""
        while self.verbose and self.peek():
            if self.peek() in WHITE:
                self.at += 1
            elif self.peek() == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    # --- the whole

    def parse(self):
        out = self.alternatives()
        if self.at < len(self.text):
            self.refuse("a ) without its (")
        return out

    def alternatives(self):
        out = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            out.append(self.sequence())
        return "|".join(out)

    def sequence(self):
        out = []
        while True:
            self.space()
            char = self.peek()
            if not char or char in "|)":
                return "".join(out)
            if char in "*+?" or (char == "{" and not out):
                self.refuse("a repetition of nothing")
            flags = re.match(r"\(\?([a-zA-Z-]+)\)", self.text[self.at:])
            if flags:
                # They hold for all up to the end of the group, in its other alternatives too.
                self.at += len(flags.group())
                self.active = self.flags(flags.group(1))
                continue
            part = self.repeated(self.atom())
            out.append("(?%s:%s)" % (self.active, part) if self.active else part)

    def flags(self, text):
        on, _, off = text.partition("-")
        if not text or text.endswith("-") or len(set(on + off)) != len(on + off) or set(on + off) - set("imsRUux"):
            self.refuse("its flags")
        if set("UR") & set(on + off) or "u" in off:
            raise Unchecked("the flags %s of a metric's pattern" % text)
        if "x" in on + off:
            self.verbose = "x" in on
        on, off = ("".join(f for f in part if f in "ims") for part in (on, off))
        return on + ("-" + off if off else "")

    def repeated(self, atom):
        while True:
            self.space()
            char = self.peek()
            if char and char in "*+?":
                count = self.next()
            elif char == "{":
                count = self.counted()
            else:
                return atom
            lazy = ""
            self.space()
            if self.peek() == "?":
                lazy = self.next()
            atom = "(?:%s%s%s)" % (atom, count, lazy)

    def counted(self):
        match = re.match(r"\{\s*([0-9]+)\s*(?:(,)\s*([0-9]*)\s*)?\}", self.text[self.at:])
        if not match:
            self.refuse("a counted repetition")
        low, high = int(match.group(1)), match.group(3)
        if (high and int(high) < low) or max(low, int(high or 0)) >= 2 ** 32:
            self.refuse("a counted repetition")
        self.at += len(match.group())
        return "{%d}" % low if not match.group(2) else "{%d,%s}" % (low, high)

    # --- one thing

    def atom(self):
        char = self.next()
        if char == "(":
            return self.group()
        if char == "[":
            found, negated = self.klass()
            return found.python(negated)
        if char == ".":
            return "."
        if char in "^$":
            return {"^": "^", "$": "$"}[char]
        if char == "\\":
            return self.escape()
        return re.escape(char)

    def group(self):
        verbose, active, name = self.verbose, self.active, None
        self.active = ""
        if self.peek() == "?":
            match = re.match(r"\?(?:P?<([^>]*)>|([a-zA-Z-]*):)", self.text[self.at:])
            if not match:
                self.refuse("a group")
            self.at += len(match.group())
            if match.group(1) is not None:
                name = match.group(1)
                if not re.fullmatch(r"[^\W\d][\w.\[\]]*", name) or name in self.names:
                    self.refuse("the name of a group")
                opened = "("
            else:
                flags = self.flags(match.group(2)) if match.group(2) else ""
                opened = "(?%s:" % flags
        else:
            opened = "("
        if opened == "(":
            self.names.append(name)
            self.groups += 1
        inside = self.alternatives()
        if self.peek() != ")":
            self.refuse("a ( without its )")
        self.at += 1
        self.verbose, self.active = verbose, active
        return opened + inside + ")"

    def escape(self):
        char = self.next()
        if char == "b" and self.peek() == "{":
            match = re.match(r"\{(?:start|end|start-half|end-half)\}", self.text[self.at:])
            if match:
                self.at += len(match.group())
                return _BOUNDS["b" + match.group()]
        if char in _BOUNDS:
            return _BOUNDS[char]
        if char in "dws":
            return _PERL[char]
        if char in "DWS":
            return "(?:(?!%s)[\\s\\S])" % _PERL[char.lower()]
        if char in "pP":
            return self.property(char).python(False)
        return re.escape(chr(self.code(char)))

    def property(self, char):
        name = self.next()
        if name == "{":
            end = self.text.find("}", self.at)
            if end < 0:
                self.refuse("a class without its }")
            name, self.at = self.text[self.at:end], end + 1
        negated = name.startswith("^")
        found = _category(name[1:] if negated else name)
        return _Set(found) if (char == "P") == negated else _Set(set(range(sys.maxunicode + 1)) - found)

    def code(self, char):
        """The code point of an escape that stands for one character."""
        if char in _CHARS:
            return ord(_CHARS[char])
        if char in "xuU":
            match = re.match(r"\{([0-9a-fA-F]+)\}", self.text[self.at:]) or \
                re.match(r"([0-9a-fA-F]{%d})" % {"x": 2, "u": 4, "U": 8}[char], self.text[self.at:])
            code = int(match.group(1), 16) if match else -1
            if not 0 <= code <= sys.maxunicode or 0xD800 <= code <= 0xDFFF:
                self.refuse("a code point")
            self.at += len(match.group())
            return code
        if char in _META:
            return ord(char)
        self.refuse("the escape \\%s" % char)

    # --- classes

    def klass(self):
        """(code points, negated) behind a `[`."""
        negated = self.peek() == "^"
        self.at += negated
        out, first = set(), True
        self.space()
        while self.peek() == "-":
            out.add(ord(self.next()))
            first = False
        while True:
            self.space()
            if self.peek() == "]" and not (first and not out):
                self.at += 1
                return _Set(out), negated
            operator = self.peek(2)
            if operator in ("&&", "--", "~~"):
                self.at, first = self.at + 2, False
                right = self.right_side()
                out = out & right if operator == "&&" else out - right if operator == "--" else out ^ right
                continue
            out |= self.item()
            first = False

    def right_side(self):
        """The items up to the next operator or the end."""
        out = set()
        while True:
            self.space()
            if not self.peek() or self.peek() == "]" or self.peek(2) in ("&&", "--", "~~"):
                return out
            out |= self.item()

    def item(self):
        if self.peek() == "[":
            posix = re.match(r"\[:(\^?)([a-z]+):\]", self.text[self.at:])
            if posix and posix.group(2) in _POSIX:
                self.at += len(posix.group())
                found = _codes("[" + _POSIX[posix.group(2)] + "]")
                return set(range(sys.maxunicode + 1)) - found if posix.group(1) else set(found)
            self.at += 1
            found, negated = self.klass()
            return set(range(sys.maxunicode + 1)) - found.codes if negated else found.codes
        low = self.one()
        if isinstance(low, set):
            return low
        if self.peek() == "-" and self.peek(2) not in ("-]", "--"):
            self.at += 1
            self.space()
            high = self.one()
            if isinstance(high, set) or high < low:
                self.refuse("a range")
            return set(range(low, high + 1))
        return {low}

    def one(self):
        self.space()
        char = self.next()
        if char != "\\":
            return ord(char)
        char = self.next()
        if char in "dws":
            return set(_codes(_PERL[char]))
        if char in "DWS":
            return set(range(sys.maxunicode + 1)) - _codes(_PERL[char.lower()])
        if char in "pP":
            return self.property(char).codes
        return self.code(char)


@functools.lru_cache(maxsize=256)
def compiled(pattern):
    """(Python's pattern, the group that counts); Bad if the crate has no such pattern, or it has no such group."""
    parser = _Parser(pattern)
    source = parser.parse()
    if "metric" in parser.names:
        group = parser.names.index("metric") + 1
    elif parser.groups == 1:
        group = 1
    else:
        raise Bad("the pattern %r has not one group, or one that is called metric" % pattern[:80])
    source = re.sub(r"\(\?\)", "", source)
    try:
        # ^ and $ are the ends of the line, which has no line feed in it.
        return re.compile(source), group
    except (re.error, OverflowError, RecursionError) as error:
        raise Unchecked("the metric's pattern %r is not read here: %s" % (pattern[:80], error))
