# SPDX-License-Identifier: Apache-2.0
"""Sets of characters as sorted ranges, and those that Unicode names (metrics.md: regex, The meaning of a pattern)."""
import functools
import sys
import unicodedata

from paths import WHITE

# A byte that is not UTF-8 is read as a lone surrogate, which is in no set.
ALL = ((0, 0xD7FF), (0xE000, sys.maxunicode))
_POSIX = {"alnum": "09AZaz", "alpha": "AZaz", "ascii": "\x00\x7f", "blank": "\t\t  ", "cntrl": "\x00\x1f\x7f\x7f",
          "digit": "09", "graph": "!~", "lower": "az", "print": " ~", "punct": "!/:@[`{~", "space": "\t\r  ", "upper": "AZ",
          "word": "09AZ__az", "xdigit": "09AFaf"}
# Letters that are none by their category: circled and squared ones.
_OTHER_LETTERS = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
_LONG = {"letter": "l", "casedletter": "lc", "uppercaseletter": "lu", "lowercaseletter": "ll", "titlecaseletter": "lt", "modifierletter": "lm",
         "otherletter": "lo", "mark": "m", "combiningmark": "m", "nonspacingmark": "mn", "spacingmark": "mc", "enclosingmark": "me",
         "number": "n", "decimalnumber": "nd", "digit": "nd", "letternumber": "nl", "othernumber": "no", "punctuation": "p", "punct": "p",
         "connectorpunctuation": "pc", "dashpunctuation": "pd", "openpunctuation": "ps", "closepunctuation": "pe",
         "initialpunctuation": "pi", "finalpunctuation": "pf", "otherpunctuation": "po", "symbol": "s", "mathsymbol": "sm",
         "currencysymbol": "sc", "modifiersymbol": "sk", "othersymbol": "so", "separator": "z", "spaceseparator": "zs",
         "lineseparator": "zl", "paragraphseparator": "zp", "other": "c", "control": "cc", "cntrl": "cc", "format": "cf",
         "surrogate": "cs", "privateuse": "co", "unassigned": "cn"}
_SHORT = set(_LONG.values())


def union(*sets):
    """What is in one of them."""
    out = []
    for low, high in sorted(one for found in sets for one in found):
        if out and low <= out[-1][1] + 1:
            out[-1][1] = max(high, out[-1][1])
        else:
            out.append([low, high])
    return tuple(map(tuple, out))


def intersection(left, right):
    """What is in both."""
    out, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low <= high:
            out.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(out)


def negation(found):
    """All characters but these."""
    out, at = [], 0
    for low, high in found:
        if at < low:
            out.append((at, low - 1))
        at = high + 1
    if at <= sys.maxunicode:
        out.append((at, sys.maxunicode))
    return intersection(out, ALL)


def difference(left, right):
    """What is in the left one only."""
    return intersection(left, negation(right))


def pairs(text):
    """The ranges of a text of their ends."""
    return union(tuple((ord(text[n]), ord(text[n + 1])) for n in range(0, len(text), 2)))


def posix(name):
    """The set of `[:name:]`, or None."""
    return pairs(_POSIX[name]) if name in _POSIX else None


@functools.lru_cache(maxsize=1)
def _by_category():
    out, start, last = {}, 0, None
    for code in range(sys.maxunicode + 2):
        found = unicodedata.category(chr(code)).lower() if code <= sys.maxunicode else None
        if found != last:
            out.setdefault(last, []).append((start, code - 1))
            start, last = code, found
    return out


def category(key):
    """The set of a general category by its short or long name in lower case without separators; None if it is none."""
    key = _LONG.get(key, key)
    if key not in _SHORT:
        return None
    names = ("lu", "ll", "lt") if key == "lc" else [name for name in _by_category() if name and name.startswith(key)]
    return intersection(union(*(_by_category().get(name, ()) for name in names)), ALL)


@functools.lru_cache(maxsize=8)
def perl(letter):
    """The set of \\d, \\s or \\w."""
    if letter == "s":
        return union(tuple((ord(char), ord(char)) for char in WHITE))
    if letter == "d":
        return category("nd")
    return union(*(category(name) for name in ("l", "m", "nd", "nl", "pc")), ((0x200C, 0x200D),), _OTHER_LETTERS)


@functools.lru_cache(maxsize=1)
def _cases():
    """Characters that differ in nothing but their case, by each of them."""
    groups = {}
    for low, high in ALL:
        for code in range(low, high + 1):
            groups.setdefault(chr(code).casefold(), []).append(code)
    return {code: group for group in groups.values() if len(group) > 1 for code in group}


def any_case(found):
    """A set with all that differs from what is in it in nothing but case."""
    more = {other for code, group in _cases().items() if contains(found, code) for other in group}
    return union(found, tuple((code, code) for code in more))


def contains(found, code):
    """Whether a character is in a set."""
    low, high = 0, len(found)
    while low < high:
        middle = (low + high) // 2
        if found[middle][1] < code:
            low = middle + 1
        else:
            high = middle
    return low < len(found) and found[low][0] <= code
