# SPDX-License-Identifier: Apache-2.0
"""What the report formats have in common (report-formats.md: the beginning; Lines, numbers and JSON)."""
import json
import re

from canonical import U64, Bad, Float, byte_order

MAXIMUM, ALL_IDS = 16 * 1024 * 1024, 64 * 1024 * 1024
PASSED, SKIPPED, FAILED = 0, 1, 2
ESCAPE = re.compile(r"\x1b(?:\[[^@-~]*[@-~]?|\][^\x07\x1b]*[\x07\x1b]?|[ -/]+.?|.?)", re.S)


class Tests:
    """Sets of tests by outcome; the worst report of a test counts."""

    def __init__(self, bounded=True):
        self.found, self.partial, self.bounded, self.bytes = {}, False, bounded, 0
        self.reports = {}  # of each name how many reports of each outcome there were

    def add(self, name, outcome, again=False):
        """`again`: it says more of the test that was reported last."""
        self.bytes += len(name.encode("utf-8", "surrogateescape"))
        if self.bounded and self.bytes > ALL_IDS:
            raise Bad("contradiction: the ids take too much room")
        self.found[name] = max(outcome, self.found.get(name, PASSED))
        if not again:
            counts = self.reports.setdefault(name, dict.fromkeys((FAILED, SKIPPED, PASSED), 0))
            counts[outcome] += 1

    def of(self, outcome):
        return byte_order(name for name, found in self.found.items() if found == outcome)

    def numbered(self):
        """Tests of one id are tests of their own (report-formats.md: Tests of one id)."""
        out = Tests(bounded=False)
        out.partial = self.partial
        for name, counts in self.reports.items():
            number = 0
            for outcome in (FAILED, SKIPPED, PASSED):
                for _ in range(counts[outcome]):
                    number += 1
                    while number > 1 and "%s #%d" % (name, number) in self.reports:
                        number += 1
                    out.add(name if number == 1 else "%s #%d" % (name, number), outcome)
        return out

    def value(self):
        """tests.json (format.md: Evidence)."""
        return {"schema": "git-loop/tests/v1", "passed": self.of(PASSED), "failed": self.of(FAILED),
                "skipped": self.of(SKIPPED), "partial": self.partial}


def number(text):
    """One or more ASCII digits that fit in 64 bits."""
    if re.fullmatch(r"[0-9]+", text) and len(text.lstrip("0")) <= 20 and int(text) <= U64:
        return int(text)
    return None


def numbered(name, seen):
    """The first keeps its name, then `name #2`, `name #3`, ..."""
    seen[name] = seen.get(name, 0) + 1
    return name if seen[name] == 1 else "%s #%d" % (name, seen[name])


def text_lines(data):
    """Lines as text: U+FFFD for what is no UTF-8, without a carriage return and terminal escapes."""
    for raw in data.split(b"\n"):
        raw = raw[:-1] if raw.endswith(b"\r") else raw
        yield ESCAPE.sub("", raw.decode("utf-8", "replace"))


# --- JSON -------------------------------------------------------------------------------------------

def _pairs(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        raise Bad("malformed: a key twice")
    return out


def _float(text):
    value = Float(text)
    if value in (float("inf"), float("-inf")):
        raise Bad("malformed: a number is too large")
    return value


def _integer(text):
    if len(text) > 300:
        return _float(text)
    return int(text) if text != "-0" else Float("-0.0")


def _constant(text):
    raise Bad("malformed: %s" % text)


def _depth(value, left=64):
    if isinstance(value, (dict, list)):
        if left == 0:
            raise Bad("malformed: nested too deep")
        for item in (value.values() if isinstance(value, dict) else value):
            _depth(item, left - 1)


def read_json(data):
    """RFC 8259 with what the page says of it."""
    try:
        text = data.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_pairs, parse_float=_float, parse_int=_integer,
                           parse_constant=_constant)
        if re.search(r"\\u[dD][89a-fA-F]", text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise Bad("malformed JSON: %s" % error)
    _depth(value)
    return value


def is_count(value):
    """A JSON number without sign, fraction and exponent that fits in 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= U64


def ascii_lower(text):
    """The letters from A to Z in lower case, and no others."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
