# SPDX-License-Identifier: Apache-2.0
"""The Test Anything Protocol, versions 12 to 14 (report-formats.md: tap)."""
import re

from canonical import Bad
from common import FAILED, PASSED, SKIPPED, Tests, number, numbered, text_lines
from paths import WHITE

_SCRIPT = re.compile(r".*\.(?:js|mjs|cjs|ts|mts|cts|jsx|tsx)", re.S)
_PLAN = re.compile(r"1\.\.([0-9]+)[%s]*(?:#.*)?" % WHITE, re.S)
_POINT = re.compile(r"(not ok|ok)(?:[ \t](.*))?", re.S)


def _kind(body):
    """(what a line without its spaces is, what of it counts); None if it is none of the table."""
    if body.startswith("TAP version ") and number(body[12:]) is not None:
        return "version", number(body[12:])
    plan, point = _PLAN.fullmatch(body), _POINT.fullmatch(body)
    if plan and number(plan.group(1)) is not None:
        return "plan", number(plan.group(1))
    if point:
        return "point", (point.group(1) == "ok", (point.group(2) or "").lstrip(WHITE))
    if body.startswith("# Subtest"):
        return "subtest", None
    if body[:9].lower() == "bail out!":
        return "bail", None
    return None


class _Level:
    def __init__(self):
        self.plan, self.closed_plan, self.points, self.numbers = None, False, 0, []
        self.below, self.names, self.found = None, {}, []


def _outcome(ok, directive):
    if directive == "todo":
        return SKIPPED
    if ok:
        return SKIPPED if directive == "skip" else PASSED
    return FAILED


def _unescaped(text):
    """The places of '#' that no backslash escapes."""
    at, out = 0, []
    while at < len(text):
        if text[at] == "\\":
            at += 2
            continue
        if text[at] == "#":
            out.append(at)
        at += 1
    return out


def _spaces(text):
    return len(text) - len(text.lstrip(" "))


class _Tap:
    """Below a point its tests are kept as (path of names, outcome)."""

    def __init__(self):
        self.levels, self.seen, self.tests, self.pending, self.block = [_Level()], False, Tests(), None, None

    def line(self, text):
        if self.block is not None:
            self.in_block(text)
            return
        spaces = _spaces(text)
        body = text[spaces:].rstrip(WHITE)
        if self.pending is not None:
            indent, point = self.pending
            self.pending = None
            if body == "---" and spaces == indent + 2:
                self.block = (spaces, point)
                return
        if spaces % 4 or spaces // 4 > len(self.levels):
            return
        kind = _kind(body)
        if kind is not None:
            self.of_table(spaces // 4, body, *kind)

    def in_block(self, text):
        indent, point = self.block
        spaces, body = _spaces(text), text.strip(" ").rstrip(WHITE)
        if body == "..." and spaces == indent:
            self.block = None
            return
        kind = _kind(body)
        if spaces < indent and spaces % 4 == 0 and kind is not None and kind[0] != "subtest":
            raise Bad("incomplete: a diagnostic block does not end")
        if point["script"] and not point["ok"] and not point["below"] and spaces == indent and \
                text[spaces:].startswith("exitCode:"):
            raise Bad("incomplete: a file failed outside of its tests")

    def of_table(self, level, body, kind, value):
        if kind == "bail":
            raise Bad("incomplete: bail out")
        if kind == "subtest":
            if level == len(self.levels):
                self.go_to(level)
            return
        if kind == "version" and level == 0 and self.seen:
            raise Bad("contradiction: a second report")
        if kind == "version" and level == 0 and value not in (12, 13, 14):
            raise Bad("malformed: the version")
        if kind == "point" and "\ufffd" in body:
            raise Bad("malformed: a point that is not UTF-8")
        self.go_to(level)
        if kind == "plan":
            self.planned(value)
        elif kind == "point":
            self.point(level, *value)

    def go_to(self, level):
        self.seen = True
        if level > 64:
            raise Bad("malformed: nested too deep")
        while len(self.levels) > level + 1:
            self.close()
        if level == len(self.levels):
            if self.levels[-1].below:
                raise Bad("incomplete: tests below no point")
            self.levels.append(_Level())

    def close(self):
        level = self.levels.pop()
        self.complete(level)
        self.levels[-1].below = level

    @staticmethod
    def complete(level):
        if level.below:
            raise Bad("incomplete: tests below no point")
        if level.plan is None or level.points < level.plan:
            raise Bad("incomplete: fewer points than planned")
        if level.points > level.plan or len(set(level.numbers)) != len(level.numbers):
            raise Bad("contradiction: more points than planned, or a number twice")
        if any(not 1 <= told <= level.plan for told in level.numbers):
            raise Bad("contradiction: a number that is not planned")

    def planned(self, value):
        level = self.levels[-1]
        if level.plan is not None:
            raise Bad("contradiction: a second plan")
        if level.below:
            raise Bad("incomplete: tests below no point")
        level.plan, level.closed_plan = value, level.points > 0

    def point(self, depth, ok, rest):
        level = self.levels[-1]
        if level.closed_plan:
            raise Bad("contradiction: a point behind the plan")
        below, level.below = level.below, None
        level.points += 1
        told, name, directive, script = _rest(rest)
        name = name or "#%d" % level.points
        if not script or below is not None:
            level.numbers.append(level.points if told is None else told)
        self.collect(level, numbered(name, level.names), _outcome(ok, directive), below, ok, directive)
        self.pending = (depth * 4, {"script": script, "ok": ok, "below": below is not None})

    def collect(self, level, shown, outcome, below, ok, directive):
        found = [(shown, outcome)]
        for name, under in (below.found if below else []):
            under = SKIPPED if directive == "todo" else under
            if ok and under == FAILED:
                raise Bad("contradiction: a point is ok above one that failed")
            found.append(("%s > %s" % (shown, name), under))
        if len(self.levels) == 1:
            for name, outcome in found:
                self.tests.add(name, outcome)
        else:
            level.found += found


def _rest(rest):
    """(number, description, directive, script) of a test point."""
    told = None
    match = re.match(r"([0-9]+)(?=[%s]|$)" % WHITE, rest)
    if match and number(match.group(1)) is not None:
        told, rest = int(match.group(1)), rest[match.end():]
    if rest.strip(WHITE).endswith(" {"):
        raise Bad("malformed: a subtest in braces")
    match = re.match(r"[%s]*-(?=[ \t]|$)" % WHITE, rest)
    rest = rest[match.end():] if match else rest
    directive = None
    for place in _unescaped(rest):
        word = re.match(r"[A-Za-z]*", rest[place + 1:].lstrip(WHITE)).group().lower()
        if word == "todo" or word.startswith("skip"):
            directive, rest = ("todo" if word == "todo" else "skip"), rest[:place]
            break
    places = _unescaped(rest)
    if places and re.fullmatch(r"#[%s]*time=[0-9.]*m*s" % WHITE, rest[places[-1]:].strip(WHITE)):
        rest = rest[:places[-1]]
    name = re.sub(r"\\([#\\])", r"\1", rest).strip(WHITE)
    absolute = re.match(r"/|[A-Za-z]:[\\/]", name)
    script = bool(_SCRIPT.fullmatch(name)) and bool(absolute or not re.search("[" + WHITE + "]", name))
    if script and absolute:
        name = re.split(r"[/\\]", name)[-1]
    return told, name, directive, script


def parse(data):
    state = _Tap()
    if data and not data.endswith(b"\n"):
        raise Bad("incomplete: the last line does not end")
    for line in text_lines(data[:-1]) if data else []:
        state.line(line)
    if not state.seen:
        raise Bad("no test ran")
    if state.block is not None or len(state.levels) > 1:
        raise Bad("incomplete: the report ends inside something")
    state.complete(state.levels[0])
    return state.tests
