# SPDX-License-Identifier: Apache-2.0
"""How a report becomes sets of tests, and how the metric is read (report-formats.md, metrics.md)."""
import re

import gojson
import jest
import junit
import libtest
import pytest_text
import tap
from canonical import Bad, WHITE
from found import FAILED, MAXIMUM, PASSED, SKIPPED, Tests, number, read_json


class Unchecked(Exception):
    """This cannot be derived here; it is told as not checked."""


def parse(name, data):
    """The tests of a report, or Bad."""
    if len(data) > MAXIMUM:
        raise Bad("the report is too large")
    tests = {"lines": lines, "libtest": libtest.parse, "junit": junit.parse, "pytest": pytest_text.parse,
             "tap": tap.parse, "go-json": gojson.parse, "jest": jest.jest}[name](data)
    if not tests.found:
        raise Bad("no test ran")
    return tests


def none_ran(tests):
    """A report in which no test ran is a problem, though its tests are known."""
    return tests is not None and not tests["passed"] and not tests["failed"]


# --- lines ------------------------------------------------------------------------------------------

def lines(data):
    tests, count, done = Tests(bounded=False), 0, None
    for raw in data.split(b"\n"):
        word, space, rest = raw.partition(b" ")
        if not space or word not in (b"ok", b"fail", b"skip", b"done"):
            continue
        if done is not None:
            raise Bad("contradiction: a line after done")
        if word == b"done":
            done = number(rest.decode("utf-8", "replace").strip(WHITE))
            if done is None:
                raise Bad("incomplete: done without a number")
            continue
        try:
            name = rest.decode("utf-8").strip(WHITE)
        except UnicodeDecodeError:
            raise Bad("malformed: an id is not UTF-8")
        if not name:
            raise Bad("malformed: an empty id")
        count += 1
        tests.add(name, {b"ok": PASSED, b"fail": FAILED, b"skip": SKIPPED}[word])
    if done is None or done != count:
        raise Bad("incomplete: done does not count what was reported")
    return tests


# --- verdicts ---------------------------------------------------------------------------------------

def verdict(data):
    """(metric_value, Tests or None) of a verdict (report-formats.md: Verdicts)."""
    if len(data) > MAXIMUM:
        raise Bad("the verdict is too large")
    value = read_json(data)
    if not isinstance(value, dict):
        raise Bad("no JSON object")
    metric = value.get("metric_value")
    if metric is not None and (isinstance(metric, bool) or not isinstance(metric, (int, float))):
        raise Bad("metric_value is no number")
    collected, failures = value.get("collected"), value.get("failures")
    if (collected is None) != (failures is None):
        raise Bad("collected and failures come together")
    if collected is None:
        return metric, None
    for found in (collected, failures):
        if not isinstance(found, list) or not all(isinstance(t, str) and t for t in found) or \
                len(set(found)) != len(found):
            raise Bad("a list of tests")
    if not set(failures) <= set(collected):
        raise Bad("a failure that was not collected")
    tests, failed = Tests(bounded=False), set(failures)
    for name in collected:
        tests.add(name, FAILED if name in failed else PASSED)
    return metric, tests


# --- the metric -------------------------------------------------------------------------------------

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def _finite(value):
    value = float(value)
    if value in (float("inf"), float("-inf")):
        raise Bad("the number is not finite")
    return value + 0.0 if value else 0.0


def metric_regex(pattern, data):
    """The last match of the last line that has one (metrics.md: regex)."""
    if re.search(r"\[\[:|\\[pPzxuU]|&&|--|~~|\(\?[a-zA-Z-]*[UuxRs]|[*+?}]\+|\\b\{|\\[<>]", pattern):
        raise Unchecked("the metric's pattern %r is not read here" % pattern)
    try:
        compiled = re.compile(re.sub(r"\(\?<([A-Za-z_])", r"(?P<\1", pattern))
    except re.error:
        raise Unchecked("the metric's pattern %r is not read here" % pattern)
    group = "metric" if "metric" in compiled.groupindex else 1
    found = None
    for raw in data.split(b"\n"):
        if len(raw) <= 65536:
            raw = raw[:-1] if raw.endswith(b"\r") else raw
            for match in compiled.finditer(raw.decode("utf-8", "surrogateescape")):
                found = match
    text = found.group(group) if found else None
    if text is None or not _DECIMAL.fullmatch(text.strip(WHITE)):
        raise Bad("no number")
    return _finite(text.strip(WHITE))


def metric_json(pointer, data):
    """The number at an RFC 6901 pointer (metrics.md: json)."""
    try:
        value = read_json(data)
    except Bad:
        value = None
        for raw in reversed(data.split(b"\n")):
            try:
                value = read_json(raw)
            except Bad:
                continue
            if isinstance(value, dict):
                break
            value = None
        if value is None:
            raise Bad("no JSON")
    for part in pointer.split("/")[1:] if pointer else []:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and re.fullmatch(r"0|[1-9][0-9]*", part) and int(part) < len(value):
            value = value[int(part)]
        else:
            raise Bad("nothing at the pointer")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Bad("no number at the pointer")
    return _finite(value)
