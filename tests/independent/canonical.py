# SPDX-License-Identifier: Apache-2.0
"""Canonical JSON and the types of its fields (format.md: Canonical JSON)."""
import calendar
import hashlib
import json
import re

U8, U16, U32, U64 = 255, 65535, 2 ** 32 - 1, 2 ** 64 - 1
LOWEST, DEEPEST = -2 ** 63, 127


class Bad(Exception):
    """Something that must hold does not."""


class Float(float):
    """A number that was written with a point or an exponent."""


# --- reading ------------------------------------------------------------------------------------

def _pairs(pairs):
    out = {}
    for key, value in pairs:
        if key in out:
            raise Bad("the key %r comes twice" % key)
        out[key] = value
    return out


def _float(text):
    value = Float(text)
    if value in (float("inf"), float("-inf")):
        raise Bad("a number is too large")
    return value


def _integer(text):
    """Integers lie from -2^63 to 2^64-1, and there is no -0."""
    if text == "-0" or len(text) > 20 or not LOWEST <= int(text) <= U64:
        raise Bad("the integer %s may not be written" % text[:40])
    return int(text)


def _constant(text):
    raise Bad("%s is no JSON" % text)


def load(data):
    """JSON as Python values; floats are told from integers."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_pairs, parse_float=_float, parse_int=_integer,
                          parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise Bad("no JSON: %s" % error)


# --- writing ------------------------------------------------------------------------------------

def float_text(value):
    """The shortest decimal of a 64-bit float: in full from 1e-5 to below 1e16, else with an exponent."""
    sign, digits, exponent = _decimal(value)
    if digits == "0":
        return sign + "0.0"
    point = len(digits) + exponent  # the value is 0.digits * 10^point
    if -4 <= point <= 16:
        return sign + _plain(digits, point, True)
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return "%s%se%s%d" % (sign, mantissa, "+" if point > 1 else "-", abs(point - 1))


def metric_text(value):
    """A metric in a message: no exponent, no '.0' (format.md: The message)."""
    sign, digits, exponent = _decimal(value)
    if digits == "0":
        return "0"
    return sign + _plain(digits, len(digits) + exponent, False)


def _decimal(value):
    text = repr(float(value))
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, part = mantissa.partition(".")
    exponent = int(exponent or 0) - len(part)
    digits = (whole + part).lstrip("0")
    stripped = digits.rstrip("0")
    return sign, stripped or "0", exponent + len(digits) - len(stripped)


def _plain(digits, point, with_point):
    if point <= 0:
        return "0." + "0" * -point + digits
    if point >= len(digits):
        return digits + "0" * (point - len(digits)) + (".0" if with_point else "")
    return digits[:point] + "." + digits[point:]


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f]')


def _string(text):
    return '"' + _TO_ESCAPE.sub(lambda m: _ESCAPES.get(m.group(), "\\u%04x" % ord(m.group())), text) + '"'


def _scalar(value):
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, int):
        return str(value)
    return _string(value)


def _write(value, indent, out):
    if not isinstance(value, (dict, list)):
        out.append(_scalar(value))
        return
    is_map = isinstance(value, dict)
    if not value:
        out.append("{}" if is_map else "[]")
        return
    pad = "\n" + "  " * (indent + 1)
    out.append("{" if is_map else "[")
    for number, item in enumerate(value.items() if is_map else value):
        out.append(("," if number else "") + pad)
        if is_map:
            out.append(_string(item[0]) + ": ")
            item = item[1]
        _write(item, indent + 1, out)
    out.append("\n" + "  " * indent + ("}" if is_map else "]"))


def _nests(value):
    """How deep arrays and objects nest."""
    if not isinstance(value, (dict, list)):
        return 0
    return 1 + max(map(_nests, value.values() if isinstance(value, dict) else value), default=0)


def dump(value):
    """The canonical bytes of a value."""
    out = []
    try:
        _write(value, 0, out)
        return ("".join(out) + "\n").encode("utf-8")
    except (UnicodeEncodeError, RecursionError) as error:
        raise Bad("cannot be written as JSON: %s" % error)


def sha256(value):
    """sha256(canonical X) of format.md."""
    return hashlib.sha256(dump(value)).hexdigest()


def byte_order(texts):
    """Sets are arrays in the order of the bytes of their elements."""
    return sorted(texts, key=lambda t: t.encode("utf-8"))


# --- types of fields ------------------------------------------------------------------------------

def at(place, kind, value):
    """Check a value, and say where it is if it does not fit."""
    try:
        kind(value)
    except Bad as error:
        text = str(error)
        raise Bad(place + (text if text[:1] in ".[" else " " + text))


def string(value):
    if not isinstance(value, str):
        raise Bad("is no string")


def boolean(value):
    if not isinstance(value, bool):
        raise Bad("is no boolean")


def number(value):
    if not isinstance(value, Float):
        raise Bad("is no float")


def anything(_value):
    """Any JSON."""


def null(value):
    if value is not None:
        raise Bad("is not null")


def integer(maximum=U64, minimum=0):
    def check(value):
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise Bad("is no integer from %d to %d" % (minimum, maximum))
    return check


def matching(pattern, what):
    compiled = re.compile(pattern)

    def check(value):
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise Bad("is no %s" % what)
    return check


def enum(*words):
    def check(value):
        if not isinstance(value, str) or value not in words:
            raise Bad("is none of %s" % ", ".join(words))
    return check


def opt(kind):
    """What may be null."""
    def check(value):
        if value is not None:
            kind(value)
    return check


class Absent:
    """A field that is left out where it has nothing to say; git-loop reads null as if it were left out."""

    def __init__(self, kind):
        self.kind = kind


def there(value, key):
    """Whether a field that may be left out is there."""
    return value.get(key) is not None


def array(kind):
    def check(value):
        if not isinstance(value, list):
            raise Bad("is no array")
        for index, item in enumerate(value):
            at("[%d]" % index, kind, item)
    return check


def mapping(kind, ordered=True):
    """A map with keys of its own, sorted by the bytes of the keys unless said otherwise."""
    def check(value):
        if not isinstance(value, dict):
            raise Bad("is no object")
        if ordered and list(value) != byte_order(value):
            raise Bad("has keys out of order")
        for key, item in value.items():
            at("." + key, kind, item)
    return check


def obj(fields, closed=False):
    """Every field of a table, in its order; others are ignored unless it is closed."""
    fields = dict(fields)

    def check(value):
        if not isinstance(value, dict):
            raise Bad("is no object")
        wanted = [key for key, kind in fields.items() if not isinstance(kind, Absent) or there(value, key)]
        missing = [key for key in wanted if key not in value]
        if missing:
            raise Bad("lacks %s" % missing[0])
        if [key for key in value if key in wanted] != wanted:
            raise Bad("has its fields out of order")
        if closed and len(value) != len(wanted):
            raise Bad("has a field that it may not have")
        for key in wanted:
            kind = fields[key]
            at("." + key, kind.kind if isinstance(kind, Absent) else kind, value[key])
    check.fields = fields
    return check


# --- times and money --------------------------------------------------------------------------------

_TIME = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})Z")


def seconds(text):
    """A time as seconds since 1970: whole seconds with Z, one spelling, from 1970 to 9999."""
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    if not match:
        raise Bad("is no time")
    year, month, day, hour, minute, second = map(int, match.groups())
    if year < 1970 or not 1 <= month <= 12 or not 1 <= day <= calendar.monthrange(year, month)[1] or hour > 23 \
            or minute > 59 or second > 59:
        raise Bad("is no time")
    return calendar.timegm((year, month, day, hour, minute, second))


def time_type(value):
    seconds(value)


def micro(text):
    """Money as micro-dollars."""
    return int(text.replace(".", ""))


def usd(amount):
    """Micro-dollars as money."""
    return "%d.%06d" % divmod(amount, 1000000)


_MONEY = re.compile(r"(0|[1-9][0-9]*)\.[0-9]{6}")


def money(value):
    if not isinstance(value, str) or len(value) > 30 or not _MONEY.fullmatch(value) or micro(value) > U64:
        raise Bad("is no money")


# --- whole files ------------------------------------------------------------------------------------

_READ = {}


def read(data, kind, what):
    """Parse canonical JSON: the bytes written again are the same, and the fields are those of the table.

    The answer for the same bytes is the same, so it is kept; nobody changes what is read.
    """
    key = (kind, hashlib.sha256(data).digest())
    if key not in _READ:
        value = load(data)
        try:
            deep = _nests(value) > DEEPEST
        except RecursionError:
            deep = True
        if deep:
            raise Bad("%s nests too deep" % what)
        if dump(value) != data:
            raise Bad("%s is not canonical" % what)
        at(what, kind, value)
        if len(_READ) > 4000:
            _READ.clear()
        _READ[key] = value
    return _READ[key]
