# SPDX-License-Identifier: Apache-2.0
"""How a report becomes sets of tests, and how the metric is read (report-formats.md, metrics.md)."""
import hashlib
import re

import gojson
import jest
import junit
import libtest
import pytest_text
import regexes
import tap
from canonical import Bad, Float
from common import FAILED, MAXIMUM, PASSED, SKIPPED, Tests, number, read_json
from paths import WHITE
from regexes import Unchecked


# --- lines ------------------------------------------------------------------------------------------

_LINES = {b"ok": PASSED, b"fail": FAILED, b"skip": SKIPPED}


def lines(data):
    """report-formats.md: lines."""
    tests, count, done = Tests(bounded=False), 0, None
    for raw in data.split(b"\n"):
        word, space, rest = raw.partition(b" ")
        if not space or (word not in _LINES and word != b"done") or not rest.strip(b" \t\n\f\r"):
            continue
        text = rest.strip(b" \t\n\f\r")
        told = number(text.decode("utf-8", "replace")) if word == b"done" else None
        if word == b"done" and told is None:
            continue
        if done is not None:
            raise Bad("contradiction: a line after done")
        if word == b"done":
            done = told
            continue
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError:
            raise Bad("malformed: an id is not UTF-8")
        count += 1
        tests.add(text, _LINES[word])
    if done is None or done != count:
        raise Bad("incomplete: done does not count what was reported")
    return tests


PARSERS = {"lines": lines, "libtest": libtest.parse, "junit": junit.parse, "pytest": pytest_text.parse, "tap": tap.parse,
           "go-json": gojson.parse, "jest": jest.parse}
_PARSED = {}


def parse(name, data, numbered=False):
    """The tests of a report (tests.json), or Bad. What the same bytes say is kept; nobody changes it."""
    if len(data) > MAXIMUM:
        raise Bad("the report is too large")
    key = (name, numbered, hashlib.sha256(data).digest())
    if key not in _PARSED:
        if len(_PARSED) > 2000:
            _PARSED.clear()
        try:
            tests = PARSERS[name](data)
            if not tests.found:
                raise Bad("no test ran")
            _PARSED[key] = (tests.numbered() if numbered else tests).value()
        except Bad as error:
            _PARSED[key] = error
    if isinstance(_PARSED[key], Bad):
        raise Bad(str(_PARSED[key]))
    return _PARSED[key]


def none_ran(tests):
    """A report in which every test was skipped is a problem, though its tests are known."""
    return tests is not None and not tests["passed"] and not tests["failed"]


# --- verdicts ---------------------------------------------------------------------------------------

def verdict(data):
    """(metric_value, tests.json or None) of a verdict (report-formats.md: Verdicts)."""
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
    tests, failed = Tests(), set(failures)
    for name in collected:
        tests.add(name, FAILED if name in failed else PASSED)
    return metric, tests.value()


# --- the metric -------------------------------------------------------------------------------------

_FOUND = {}
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def finite(value):
    """A finite number; -0 is 0."""
    value = float(value)
    if value in (float("inf"), float("-inf")):
        raise Bad("the number is not finite")
    return value if value else 0.0


def metric_regex(pattern, data):
    """The last match of the last line that has one (metrics.md: regex)."""
    key = (pattern, hashlib.sha256(data).digest())
    if key not in _FOUND:
        if len(_FOUND) > 2000:
            _FOUND.clear()
        lines = (raw for raw in reversed(data.split(b"\n")) if len(raw) <= 65536)
        lines = ((raw[:-1] if raw.endswith(b"\r") else raw).decode("utf-8", "surrogateescape") for raw in lines)
        try:
            _FOUND[key] = regexes.compiled(pattern).last_in(lines)
        except Unchecked as note:
            _FOUND[key] = note
    if isinstance(_FOUND[key], Unchecked):
        raise Unchecked(str(_FOUND[key]))
    line, match = _FOUND[key]
    text = line[match[2]:match[3]].strip(WHITE) if match and match[2] is not None else None
    if text is None or not _DECIMAL.fullmatch(text):
        raise Bad("no number")
    return finite(text)


def metric_json(pointer, data):
    """The number at an RFC 6901 pointer (metrics.md: json)."""
    value = _document(data)
    for part in pointer.split("/")[1:] if pointer else []:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and re.fullmatch(r"0|[1-9][0-9]*", part) and number(part) is not None and \
                int(part) < len(value):
            value = value[int(part)]
        else:
            raise Bad("nothing at the pointer")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Bad("no number at the pointer")
    return finite(value)


def _document(data):
    """One JSON document, or else the last line that is a JSON object."""
    try:
        return read_json(data)
    except Bad:
        pass
    for raw in reversed(data.split(b"\n")):
        if raw.strip(b" \t\r")[:1] != b"{":
            continue
        try:
            return read_json(raw)
        except Bad:
            continue
    raise Bad("no JSON")


def metric_number(told):
    """A number of a verdict as a metric."""
    return Float(finite(told))


