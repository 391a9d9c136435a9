# SPDX-License-Identifier: Apache-2.0
"""The format tap (report-formats.md: tap)."""
import re

from canonical import Bad, WHITE
from found import FAILED, PASSED, SKIPPED, Ordinals, Tests, number, plain_lines

ENDINGS = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx")


def _recognise(body):
    """(what a line without its indentation is, its value)."""
    body = body.rstrip(WHITE)
    if body.startswith("TAP version "):
        version = number(body[12:])
        return (None, None) if version is None else ("version", version)
    match = re.fullmatch(r"1\.\.([0-9]+)[%s]*(?:#.*)?" % WHITE, body, re.S)
    if body.startswith("1.."):
        count = number(match.group(1)) if match else None
        return (None, None) if count is None else ("plan", count)
    if body.startswith("# Subtest"):
        return "subtest", None
    if body[:9].lower() == "bail out!" and body[:9].isascii():
        return "bail", None
    match = re.fullmatch(r"(not ok|ok)(?:[ \t](.*))?", body, re.S)
    return ("point", (match.group(1) == "ok", (match.group(2) or "").lstrip(WHITE))) if match else (None, None)


def _hashes(text):
    """The places of # that no backslash escapes."""
    out, escaped = [], False
    for place, char in enumerate(text):
        plain = not escaped
        escaped = plain and char == "\\"
        if plain and char == "#":
            out.append(place)
    return out


def _is_absolute(path):
    return bool(re.match(r"/|[A-Za-z]:[\\/]", path))


class _Point:
    """A test point, and the points below it."""

    def __init__(self, ok, rest, below):
        self.ok, self.below, self.number, self.directive = ok, below or [], None, None
        word = re.match(r"[^%s]*" % WHITE, rest).group()
        if number(word) is not None:
            self.number, rest = number(word), rest[len(word):].lstrip(WHITE)
        if re.match(r"-(?:[ \t]|\Z)", rest):
            rest = rest[1:]
        if rest.endswith(" {"):
            raise Bad("malformed: a subtest in braces")
        for place in _hashes(rest):
            found = re.match(r"[A-Za-z]*", rest[place + 1:].lstrip(WHITE)).group().lower()
            if found == "todo" or found.startswith("skip"):
                self.directive, rest = found[:4], rest[:place]
                break
        places = _hashes(rest)
        if places and re.fullmatch(r"#[%s]*time=[0-9.]*m*s[%s]*" % (WHITE, WHITE), rest[places[-1]:]):
            rest = rest[:places[-1]]
        name = re.sub(r"\\([#\\])", r"\1", rest.strip(WHITE))
        is_path = name.endswith(ENDINGS) and (_is_absolute(name) or not re.search("[" + WHITE + "]", name))
        self.script = is_path and below is None
        self.name = re.split(r"[/\\]", name)[-1] if is_path and _is_absolute(name) else name


class _Level:
    def __init__(self):
        self.points, self.plan, self.first, self.numbers, self.below = [], None, False, set(), None

    def close(self):
        """The points of a level that is over, if they are all there."""
        if self.below is not None:
            raise Bad("incomplete: tests below no point")
        if self.plan is None or self.plan > len(self.points):
            raise Bad("incomplete: fewer points than planned")
        if self.plan < len(self.points) or any(one > self.plan for one in self.numbers):
            raise Bad("contradiction: more points than planned")
        return self.points


class _Tap:
    def __init__(self):
        self.levels, self.begun, self.version, self.after, self.block = [_Level()], False, False, None, None

    def line(self, text):
        indent = len(text) - len(text.lstrip(" "))
        rest = text[indent:]
        if self.block is not None:
            self.in_block(indent, rest)
            return
        after, self.after = self.after, None
        if after is not None and indent == after + 2 and rest.rstrip(WHITE) == "---":
            self.block = indent
            return
        level, deepest = indent // 4, len(self.levels) - 1
        what, value = _recognise(rest)
        if indent % 4 or level > deepest + 1 or what is None or (what == "subtest" and level <= deepest):
            return
        self.go_to(level)
        begun, self.begun = self.begun, True
        self.take(what, value, level, begun, text)

    def in_block(self, indent, rest):
        if indent == self.block and rest.rstrip(WHITE) == "...":
            self.block = None
        elif indent == self.block and rest.startswith("exitCode:"):
            last = self.levels[-1].points[-1]
            if last.script and not last.ok:
                raise Bad("incomplete: a file failed outside of its tests")
        elif indent < self.block and indent % 4 == 0 and _recognise(rest)[0] in ("version", "plan", "point", "bail"):
            raise Bad("incomplete: a line of the report inside a diagnostic block")

    def go_to(self, level):
        if level == len(self.levels):
            if level > 64:
                raise Bad("malformed: nested too deep")
            if self.levels[-1].below is not None:
                raise Bad("incomplete: tests below no point")
            self.levels.append(_Level())
        while len(self.levels) - 1 > level:
            points = self.levels.pop().close()
            self.levels[-1].below = points

    def take(self, what, value, level, begun, text):
        here = self.levels[-1]
        if what == "bail":
            raise Bad("incomplete: bail out")
        if what == "version" and level == 0:
            if begun:
                raise Bad("contradiction: a second report")
            if value not in (12, 13, 14):
                raise Bad("malformed: the version")
        elif what == "plan":
            if here.below is not None or here.plan is not None:
                raise Bad("incomplete or contradiction: a plan out of place")
            here.plan, here.first = value, not here.points
        elif what == "point":
            self.point(here, value, text)

    def point(self, here, value, text):
        if "\ufffd" in text:
            raise Bad("malformed: a point that is not UTF-8")
        if here.plan is not None and not here.first:
            raise Bad("contradiction: a point behind the plan")
        point, here.below = _Point(*value, here.below), None
        place = len(here.points) + 1
        point.name = point.name or "#%d" % place
        if not point.script:
            told = place if point.number is None else point.number
            if told == 0 or told in here.numbers:
                raise Bad("contradiction: a number twice")
            here.numbers.add(told)
        here.points.append(point)
        self.after = len(text) - len(text.lstrip(" "))


def _gather(points, prefix, todo, tests):
    """Adds points and what is below them; whether one failed."""
    ordinals, failed = Ordinals(), False
    for point in points:
        name = prefix + ordinals.distinct(point.name)
        skips = todo or point.directive == "todo"
        outcome = SKIPPED if skips or (point.ok and point.directive == "skip") else PASSED if point.ok else FAILED
        if _gather(point.below, name + " > ", skips, tests) and point.ok:
            raise Bad("contradiction: a point is ok above one that failed")
        failed = failed or outcome == FAILED
        tests.add(name, outcome)
    return failed


def parse(data):
    state, tests = _Tap(), Tests()
    for line in plain_lines(data):
        state.line(line)
    if not state.begun:
        return tests
    if state.block is not None or len(state.levels) > 1 or not data.endswith(b"\n"):
        raise Bad("incomplete: the report ends inside something")
    _gather(state.levels.pop().close(), "", False, tests)
    return tests
