# SPDX-License-Identifier: Apache-2.0
"""Patterns of the regex crate (metrics.md: regex, The meaning of a pattern; format.md: Ranges, metric.pattern).

A pattern is read by the crate's syntax into a tree, which rematch.py runs. What the crate refuses is Bad; what is not known here (names
of scripts, flags that leave Unicode) raises Unchecked.
"""
import functools
import re

import charsets
from canonical import Bad
from paths import WHITE
from rematch import Program, Unchecked

_CHARS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_LOOKS = {"A": "start", "z": "end", "b": "b", "B": "B", "<": "b{start}", ">": "b{end}"}
_BOUNDS = ("start", "end", "start-half", "end-half")
_OPERATORS = {"&&": charsets.intersection, "--": charsets.difference,
              "~~": lambda a, b: charsets.difference(charsets.union(a, b), charsets.intersection(a, b))}
# Levels of groups, classes and repetitions: the crate nests 250 deep, where each of these is several.
_DEEPEST = 60


class _Parser:
    def __init__(self, text):
        self.text, self.at, self.names, self.flags, self.depth, self.tables = text, 0, [], frozenset(), 0, False

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

    def take(self, text):
        """Skip a text if it is what follows."""
        found = self.text.startswith(text, self.at)
        self.at += len(text) if found else 0
        return found

    def behind_space(self, at):
        """The place behind white space and comments, which the flag x allows."""
        while "x" in self.flags and self.text[at:at + 1]:
            if self.text[at] in WHITE:
                at += 1
            elif self.text[at] == "#":
                end = self.text.find("\n", at)
                at = len(self.text) if end < 0 else end + 1
            else:
                break
        return at

    def space(self):
        self.at = self.behind_space(self.at)

    def go_in(self, levels=1):
        self.depth += levels
        if self.depth > _DEEPEST:
            raise Unchecked("a metric's pattern that nests this deep")

    # --- the whole

    def parse(self):
        out = self.alternatives()
        if self.at < len(self.text):
            self.refuse("a ) without its (")
        return out

    def alternatives(self):
        out = [self.sequence()]
        while self.take("|"):
            out.append(self.sequence())
        return ("alt", out) if len(out) > 1 else out[0]

    def sequence(self):
        out = []
        while True:
            self.space()
            char = self.peek()
            if not char or char in "|)":
                return ("cat", [one for one in out if one is not None])
            if char in "*+?{":
                if not out or out[-1] is None:
                    self.refuse("a repetition of nothing")
                out[-1] = self.repeated(out[-1])
            else:
                out.append(self.atom())

    def repeated(self, tree):
        char = self.next()
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1), "{": (None, None)}[char]
        if char == "{":
            low, high = self.counted()
        greedy = not self.take("?")
        inner, levels = tree, 1
        while inner[0] == "rep":
            inner, levels = inner[1], levels + 1
        self.go_in(levels)
        self.depth -= levels
        return ("rep", tree, low, high, greedy == ("U" not in self.flags))

    def counted(self):
        """(low, high or None) behind a `{`."""
        low = self.decimal()
        high = low
        self.space()
        if self.take(","):
            self.space()
            high = None if self.peek() == "}" else self.decimal()
            if high is None and self.peek() != "}":
                self.refuse("a counted repetition")
        if low is None or not self.take("}") or (high is not None and high < low):
            self.refuse("a counted repetition")
        self.space()
        return low, high

    def decimal(self):
        """Digits, also with white space around; None if there are none."""
        digits = ""
        while self.peek() and self.peek() in WHITE:
            self.at += 1
        while self.peek() and self.peek() in "0123456789":
            digits += self.next()
            self.space()
        while self.peek() and self.peek() in WHITE:
            self.at += 1
        if digits and int(digits) >= 2 ** 32:
            self.refuse("a counted repetition")
        return int(digits) if digits else None

    # --- one thing

    def set(self, found):
        """A class as a tree, with what the flag i adds."""
        return ("set", self.cased(found))

    def cased(self, found):
        if "i" not in self.flags:
            return found
        self.tables = self.tables or any(high > 0x7F for _, high in found)
        return charsets.any_case(found)

    def atom(self):
        char = self.next()
        if char == "(":
            return self.group()
        if char == "[":
            self.at -= 1
            return ("set", self.klass())
        if char == ".":
            ends = charsets.pairs("\n\n\r\r" if "R" in self.flags else "\n\n")
            return ("set", charsets.ALL if "s" in self.flags else charsets.negation(ends))
        if char in "^$":
            many = "m" in self.flags and "R" in self.flags
            return ("look", {"^": "start", "$": "end"}[char] + (" of line" if many else ""))
        if char == "\\":
            kind, what = self.escape()
            return self.set(what) if kind == "literal" else ("set", what) if kind == "class" else (kind, what)
        return self.set(charsets.pairs(char * 2))

    def group(self):
        """What is behind a `(`; None for flags that hold from here on."""
        self.space()
        flags, number = self.flags, None
        if any(self.peek(len(one)) == one for one in ("?=", "?!", "?<=", "?<!")):
            self.refuse("it looks around")
        if self.take("?P<") or self.take("?<"):
            end = self.text.find(">", self.at)
            name = self.text[self.at:end]
            if end < 0 or not name or name in self.names or not _is_name(name):
                self.refuse("the name of a group")
            self.at = end + 1
            self.names.append(name)
            number = len(self.names)
        elif self.take("?"):
            match = re.compile(r"([^:)]*)([:)])").match(self.text, self.at)
            if not match or (not match.group(1) and match.group(2) == ")"):
                self.refuse("its flags")
            self.at = match.end()
            self.set_flags(match.group(1))
            if match.group(2) == ")":
                return None
        else:
            self.names.append(None)
            number = len(self.names)
        self.go_in()
        inside = self.alternatives()
        if not self.take(")"):
            self.refuse("a ( without its )")
        self.depth -= 1
        self.flags = flags
        return inside if number is None else ("group", number, inside)

    def set_flags(self, text):
        on, dash, off = text.partition("-")
        if (dash and not off) or len(set(on + off)) != len(on + off) or set(on + off) - set("imsRUux"):
            self.refuse("its flags")
        if "u" in off:
            raise Unchecked("the flags %s of a metric's pattern" % text)
        self.flags = (self.flags | set(on)) - set(off)

    # --- escapes

    def escape(self):
        """("literal", "class" or "look", what) behind a backslash."""
        char = self.next()
        if char in "xuU":
            return "literal", charsets.pairs(chr(self.code(char)) * 2)
        if char in "pP":
            found = self.cased(self.property())
            return "class", charsets.negation(found) if char == "P" else found
        if char in "dswDSW":
            self.tables = self.tables or char in "dwDW"
            found = charsets.perl(char.lower())
            return "class", found if char in "dsw" else charsets.negation(found)
        if char in _LOOKS:
            self.tables = True
            return "look", self.bound() if char == "b" and self.peek() == "{" else _LOOKS[char]
        if char in _CHARS:
            return "literal", charsets.pairs(_CHARS[char] * 2)
        if not char.isascii() or char.isalnum():
            self.refuse("the escape \\%s" % char)
        return "literal", charsets.pairs(char * 2)

    def bound(self):
        """`{start}` and its like behind `\\b`; where no letter follows the `{` it is a repetition."""
        at = self.behind_space(self.at + 1)
        if at == len(self.text):
            self.refuse("it ends behind \\b{")
        if not re.match("[A-Za-z-]", self.text[at]):
            return "b"
        word = ""
        while re.match("[A-Za-z-]", self.text[at:at + 1]):
            word, at = word + self.text[at], self.behind_space(at + 1)
        if word not in _BOUNDS or self.text[at:at + 1] != "}":
            self.refuse("a kind of \\b")
        self.at = at + 1
        return "b{%s}" % word

    def property(self):
        """The class behind \\p or \\P: those of general categories are known here."""
        self.tables = True
        self.space()
        name = self.next()
        if name == "\\":
            self.refuse("a class \\p")
        if name == "{":
            name = ""
            self.space()
            while self.peek() != "}":
                name += self.next()
                self.space()
            self.at += 1
        else:
            self.space()
        for operator in ("!=", ":", "="):
            front, found, value = name.partition(operator)
            if found:
                break
        key = re.sub("[ _-]", "", re.sub("^[iI][sS]", "", value if found else name)).lower()
        if found and re.sub("[ _-]", "", front).lower() not in ("gc", "generalcategory"):
            raise Unchecked("the class \\p{%s} of a metric's pattern" % name)
        out = {"any": charsets.ALL, "ascii": ((0, 127),), "assigned": charsets.negation(charsets.category("cn"))}.get(key)
        out = charsets.category(key) if out is None else out
        if out is None and not re.fullmatch("[a-z0-9]+", key):
            self.refuse("the class \\p{%s}" % name)
        if out is None:
            raise Unchecked("the class \\p{%s} of a metric's pattern" % name)
        return charsets.negation(out) if found == "!=" else out

    def code(self, char):
        """The code point of \\x, \\u and \\U."""
        self.space()
        digits, wanted = "", {"x": 2, "u": 4, "U": 8}[char]
        if self.take("{"):
            self.space()
            while self.peek() != "}":
                digits += self.next()
                self.space()
            self.at += 1
            wanted = len(digits)
        else:
            for _ in range(wanted):
                self.space()
                digits += self.next()
        code = int(digits, 16) if re.fullmatch("[0-9a-fA-F]+", digits) and len(digits.lstrip("0")) <= 6 else -1
        if not charsets.contains(charsets.ALL, code):
            self.refuse("a code point")
        self.space()
        return code

    # --- classes

    def klass(self):
        """The set of a class at its `[`."""
        self.at += 1
        self.go_in(2)
        self.space()
        negated = self.take("^")
        self.space()
        items, left, operator = [], None, None
        while self.take("-"):
            items.append(self.cased(charsets.pairs("--")))
            self.space()
        if not items and self.take("]"):
            items.append(charsets.pairs("]]"))
        while True:
            self.space()
            if self.peek(2) in _OPERATORS or self.peek() == "]":
                right = charsets.union(*items)
                left, items = right if operator is None else _OPERATORS[operator](left, right), []
                if self.take("]"):
                    break
                operator = self.peek(2)
                self.at += 2
            else:
                items.append(self.item())
        self.depth -= 2
        return charsets.negation(left) if negated else left

    def item(self):
        """One item of a class."""
        if self.peek() == "[":
            match = re.compile(r"\[:(\^?)([^:]*):\]").match(self.text, self.at)
            found = charsets.posix(match.group(2)) if match else None
            if found is None:
                return self.klass()
            self.at = match.end()
            return charsets.negation(self.cased(found)) if match.group(1) else self.cased(found)
        kind, low = self.one()
        self.space()
        behind = self.text[self.behind_space(self.at + 1):][:1]
        if self.peek() != "-" or behind in ("]", "-"):
            return self.cased(low) if kind == "literal" else low
        self.at += 1
        self.space()
        other, high = self.one()
        if kind != "literal" or other != "literal" or high[0][0] < low[0][0]:
            self.refuse("a range")
        return self.cased(charsets.intersection(((low[0][0], high[0][0]),), charsets.ALL))

    def one(self):
        """A character or a class of one."""
        char = self.next()
        if char != "\\":
            return "literal", charsets.pairs(char * 2)
        kind, found = self.escape()
        if kind == "look":
            self.refuse("an assertion in a class")
        return kind, found


def _is_name(name):
    """Letters, digits and _.[], of which only a letter or _ begins it."""
    return all(char in "_.[]" or char.isalnum() for char in name) and (name[0] == "_" or name[0].isalpha())


@functools.lru_cache(maxsize=256)
def compiled(pattern):
    """The program of a pattern; Bad if the crate has no such pattern, or it has no group that counts."""
    parser = _Parser(pattern)
    tree = parser.parse()
    if "metric" in parser.names:
        group = parser.names.index("metric") + 1
    elif len(parser.names) == 1:
        group = 1
    else:
        raise Bad("the pattern %r has not one group, or one that is called metric" % pattern[:80])
    return Program(tree, group, parser.tables)
