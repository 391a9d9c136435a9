# SPDX-License-Identifier: Apache-2.0
"""Runs a pattern in time linear in the text, as the regex crate does (metrics.md: regex, The meaning of a pattern).

A program is a list of steps; all threads of it go over the text together, those of higher priority first, and no two of them are
at one step. A tree of regexes.py is: ("set", ranges), ("look", kind), ("cat", trees), ("alt", trees), ("group", number, tree),
("rep", tree, low, high or None, greedy).
"""
import re
import unicodedata

from charsets import contains, perl

# Steps of threads for one output, and the size of a program: what needs more is not checked.
BUDGET, LARGEST = 4_000_000, 4000
# The crate takes a pattern of 1 MiB as it is compiled there; what is surely below that is taken here.
SURELY_TAKEN = 900_000
SET, SPLIT, SAVE, LOOK, END = range(5)


class Unchecked(Exception):
    """This cannot be derived here; it is told as not checked."""


def _shortest(tree):
    """The least characters that a tree matches; 0 also if it matches nothing."""
    kind = tree[0]
    if kind == "set":
        return 1 if tree[1] else 0
    if kind == "cat":
        return sum(_shortest(one) for one in tree[1])
    if kind == "alt":
        return min(_shortest(one) for one in tree[1])
    if kind == "group":
        return _shortest(tree[2])
    return _shortest(tree[1]) * tree[2] if kind == "rep" else 0


def _is_empty(tree):
    """Whether it can match nothing but the empty text."""
    kind = tree[0]
    if kind in ("cat", "alt"):
        return all(_is_empty(one) for one in tree[1])
    if kind == "rep":
        return tree[3] == 0 or _is_empty(tree[1])
    return _is_empty(tree[2]) if kind == "group" else kind == "look"


def _has_group(tree):
    kind = tree[0]
    return kind == "group" or (kind in ("cat", "alt") and any(map(_has_group, tree[1]))) or (kind == "rep" and _has_group(tree[1]))


def _bytes_of(found):
    """More than a set takes in the crate, by what was seen there: wide ranges are several sequences of bytes."""
    wide = sum(high > 0x7F and high - low >= 64 for low, high in found)
    return 64 + 80 * len(found) + 160 * wide + (500 if wide else 0)


class Program:
    """The steps of a tree; `group` is the number of the group that is kept."""

    def __init__(self, tree, group, tables):
        self.steps, self.group, self.tables = [], group, tables
        self.sets, self.known, self.words, self.size = [], {}, {}, 0
        start, ends = self._emit(tree)
        self._patch(ends, self._step(END))
        self.start = start
        self.anchored, self.first = self._firsts(start)

    # --- made of a tree: each part gives its first step, and the places that are to lead to what follows

    def _step(self, kind, what=None, left=None, right=None):
        self.size += _bytes_of(self.sets[what]) if kind == SET else 64
        if len(self.steps) >= LARGEST or self.size > SURELY_TAKEN:
            raise Unchecked("a metric's pattern that is this large")
        self.steps.append([kind, what, left, right])
        return len(self.steps) - 1

    def _patch(self, ends, to):
        for step, side in ends:
            self.steps[step][side] = to

    def _emit(self, tree):
        kind = tree[0]
        if kind == "set":
            if tree[1] not in self.sets:
                self.sets.append(tree[1])
            step = self._step(SET, self.sets.index(tree[1]))
            return step, [(step, 2)]
        if kind == "look":
            step = self._step(LOOK, tree[1])
            return step, [(step, 2)]
        if kind == "group":
            return self._group(tree)
        if kind == "cat":
            return self._chain([lambda one=one: self._emit(one) for one in tree[1]])
        if kind == "alt":
            return self._either(tree[1])
        return self._repeat(*tree[1:])

    def _chain(self, parts):
        first, ends = None, []
        for part in parts:
            start, more = part()
            if first is None:
                first = start
            else:
                self._patch(ends, start)
            ends = more
        if first is None:
            first = self._step(LOOK, "nothing")
            ends = [(first, 2)]
        return first, ends

    def _group(self, tree):
        if tree[1] != self.group:
            return self._emit(tree[2])
        opened = self._step(SAVE, 0)
        start, ends = self._emit(tree[2])
        self.steps[opened][2] = start
        closed = self._step(SAVE, 1)
        self._patch(ends, closed)
        return opened, [(closed, 2)]

    def _either(self, trees):
        first, ends, before = None, [], None
        for number, tree in enumerate(trees, 1):
            entry, more = self._emit(tree)
            ends += more
            if number < len(trees):
                entry = self._step(SPLIT, None, entry)
            if before is None:
                first = entry
            else:
                self.steps[before][3] = entry
            before = entry
        return first, ends

    def _fork(self, greedy, into=None):
        """A choice between one more and going on: (step, the side that is one more, the end that goes on)."""
        split = self._step(SPLIT)
        more, on = (2, 3) if greedy else (3, 2)
        self.steps[split][more] = into
        return split, more, (split, on)

    def _repeat(self, tree, low, high, greedy):
        if _is_empty(tree):
            low, high = min(low, 1), 1 if high is None else min(high, 1)
        if high == 0 and _has_group(tree):
            raise Unchecked("a group of a metric's pattern that is repeated 0 times")
        if high is None:
            return self._at_least(tree, low, greedy)
        parts = [lambda: self._emit(tree)] * low
        return self._chain(parts + [lambda: self._optional(tree, high - low, greedy)] if high > low else parts)

    def _optional(self, tree, times, greedy):
        first, ends, before = None, [], []
        for _ in range(times):
            split, more, on = self._fork(greedy)
            start, after = self._emit(tree)
            self.steps[split][more] = start
            self._patch(before, split)
            first, before = split if first is None else first, after
            ends.append(on)
        return first, ends + before

    def _at_least(self, tree, low, greedy):
        if low == 0 and _shortest(tree) > 0:
            split, more, on = self._fork(greedy)
            start, ends = self._emit(tree)
            self.steps[split][more] = start
            self._patch(ends, split)
            return split, [on]
        # What can be empty: x* is (?:x+)?, so that an empty round ends it.
        first, ends = self._chain([lambda: self._emit(tree)] * max(0, low - 1)) if low > 1 else (None, [])
        start, last = self._emit(tree)
        self._patch(ends, start)
        split, _, on = self._fork(greedy, start)
        self._patch(last, split)
        if low == 0:
            question, _, skip = self._fork(greedy, start)
            return question, [on, skip]
        return start if first is None else first, [on]

    def _firsts(self, start):
        """(whether a match begins at the start of the text, Python's class of what it can begin with or None)."""
        seen, todo, found, anchored, empty = set(), [(start, False)], set(), True, False
        while todo:
            at, at_start = todo.pop()
            if (at, at_start) in seen:
                continue
            seen.add((at, at_start))
            kind, what, left, right = self.steps[at]
            if kind in (SET, END):
                anchored = anchored and at_start
                empty = empty or kind == END
                found.update(self.sets[what] if kind == SET else ())
            else:
                at_start = at_start or (kind == LOOK and what == "start")
                todo += [(left, at_start), (right, at_start)] if kind == SPLIT else [(left, at_start)]
        parts = "".join("\\U%08x-\\U%08x" % one for one in sorted(found))
        return anchored, None if empty else re.compile("[%s]" % parts if parts else "(?!)")

    # --- run

    def _sets_of(self, char):
        found = self.known.get(char)
        if found is None:
            code = ord(char)
            found = self.known[char] = frozenset(n for n, one in enumerate(self.sets) if contains(one, code))
        return found

    def _is_word(self, char):
        if char not in self.words:
            self.words[char] = contains(perl("w"), ord(char))
        return self.words[char]

    def _holds(self, kind, text, at):
        """Whether an assertion holds between two characters."""
        if kind == "nothing":
            return True
        if kind == "start":
            return at == 0
        if kind == "end":
            return at == len(text)
        if kind == "start of line":  # under R, which is the only flag that makes it more than the start
            return at == 0 or text[at - 1] == "\r"
        if kind == "end of line":
            return at == len(text) or text[at] == "\r"
        before, after = text[at - 1:at], text[at:at + 1]
        # Beside a byte that is not UTF-8 what has to be no word does not hold.
        bad_before, bad_after = ("\ud800" <= side <= "\udfff" for side in (before, after))
        left, right = bool(before) and self._is_word(before), bool(after) and self._is_word(after)
        return {"b": left != right, "B": left == right and not bad_before and not bad_after, "b{start}": right and not left,
                "b{end}": left and not right, "b{start-half}": not left and not bad_before,
                "b{end-half}": not right and not bad_after}[kind]

    def _follow(self, threads, seen, thread, text, at):
        """Adds a thread, and those that it splits into, where nothing is read."""
        todo = [thread]
        while todo:
            step, begin, opened, closed = todo.pop()
            if step in seen:
                continue
            seen.add(step)
            self.left -= 1
            kind, what, left, right = self.steps[step]
            if kind == SPLIT:
                todo.append((right, begin, opened, closed))
                todo.append((left, begin, opened, closed))
            elif kind == SAVE:
                todo.append((left, begin, at, closed) if what == 0 else (left, begin, opened, at))
            elif kind == LOOK:
                if self._holds(what, text, at):
                    todo.append((left, begin, opened, closed))
            else:
                threads.append((step, begin, opened, closed))
        if self.left < 0:
            raise Unchecked("a metric's pattern that needs this much time")

    def search(self, text, at):
        """(begin, end, begin of the group, end of it) of the leftmost match from a place on, or None."""
        found, threads, seen = None, [], set()
        while True:
            if not threads:
                if found is not None or (self.anchored and at > 0):
                    return found
                if self.first is not None:
                    match = self.first.search(text, at)
                    if not match:
                        return None
                    at, seen = match.start(), set()
            if found is None and not (self.anchored and at > 0):
                self._follow(threads, seen, (self.start, at, None, None), text, at)
            sets = self._sets_of(text[at]) if at < len(text) else frozenset()
            after, marks = [], set()
            for step, begin, opened, closed in threads:
                kind, what, left, _ = self.steps[step]
                if kind == END:
                    found = (begin, at, opened, closed)
                    break
                if what in sets:
                    self._follow(after, marks, (left, begin, opened, closed), text, at + 1)
            if at >= len(text):
                return found
            threads, seen, at = after, marks, at + 1

    def last(self, text):
        """The last of all matches, each of which begins where the one before ends; not empty at that very place."""
        if self.tables and not text.isascii() and any(unicodedata.category(char) == "Cn" for char in text):
            raise Unchecked("a metric's pattern on a line with characters that this version of Unicode does not know")
        found, at = None, 0
        while at <= len(text):
            match = self.search(text, at)
            if match is not None and found is not None and match[0] == match[1] == found[1]:
                match = self.search(text, at + 1) if at < len(text) else None
            if match is None:
                break
            found, at = match, match[1]
        return found

    def last_in(self, lines):
        """(line, match) of the first of these lines that has a match, its last one; (None, None) without any."""
        self.left = BUDGET
        for text in lines:
            found = self.last(text)
            if found is not None:
                return text, found
        return None, None
