# SPDX-License-Identifier: Apache-2.0
"""The XML that a JUnit report may be (report-formats.md: junit, XML)."""
import re

from canonical import Bad
from common import ascii_lower

_SPACE = " \t\r\n"
# A tag is all up to the first > outside of quotes; its name is what comes before the first white space.
_TAG = re.compile(r"<((?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>")
_ATTRIBUTE = re.compile(r"[ \t\r\n]*([^ \t\r\n<>/=\"'&]+)[ \t\r\n]*=[ \t\r\n]*(?:\"([^\"]*)\"|'([^']*)')")
_END = re.compile(r"</([^<>]*?)[ \t\r\n]*>")
_DECLARATION = re.compile(r"<\?xml(?:[ \t\r\n](.*?))?\?>", re.S)
# What its encoding is looked for in: anything counts as a name there.
_DECLARED = re.compile(r"[ \t\r\n]*([^ \t\r\n][^ \t\r\n=]*)[ \t\r\n]*=[ \t\r\n]*(?:\"([^\"]*)\"|'([^']*)')")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_ENCODINGS = ("utf-8", "utf8", "us-ascii", "ascii")


def _entity(match):
    name = match.group(1)
    if name in _ENTITIES:
        return _ENTITIES[name]
    try:
        code = int(name[2:], 16) if name.startswith("#x") else int(name[1:]) if name.startswith("#") else -1
        char = chr(code)
        char.encode("utf-8")
        if code == 0 or not re.fullmatch(r"#(?:x[0-9a-fA-F]+|[0-9]+)", name):
            raise ValueError
        return char
    except (ValueError, OverflowError, UnicodeEncodeError):
        raise Bad("malformed: the entity %r" % name[:40])


def _unescape(text):
    if "&" not in text:
        return text
    if re.search(r"&(?![^;&\s]*;)", text):
        raise Bad("malformed: an & without an entity")
    return re.sub(r"&([^;]*);", _entity, text)


def _declared(text):
    """The declaration's place at the very start; its encoding must be one of a few."""
    match = _DECLARATION.match(text)
    if not match:
        return 0
    rest = match.group(1) or ""
    while rest.strip(_SPACE):
        one = _DECLARED.match(rest)
        if not one:
            raise Bad("malformed: the declaration")
        if one.group(1) == "encoding":
            if ascii_lower(one.group(2) or one.group(3) or "") not in _ENCODINGS:
                raise Bad("malformed: another encoding")
            break
        rest = rest[one.end():]
    return match.end()


def _parts(text):
    """(name, attributes, whether it is empty) of what stands in a tag."""
    empty = text.endswith("/")
    parts = re.split(r"[ \t\r\n]", text[:-1] if empty else text, maxsplit=1)
    return parts[0], parts[1] if len(parts) > 1 else "", empty


def _attributes(text):
    at, out = 0, {}
    while text[at:].strip(_SPACE):
        match = _ATTRIBUTE.match(text, at)
        if not match:
            raise Bad("malformed: an attribute")
        if match.group(1) in out or len(out) >= 64:
            raise Bad("malformed: an attribute twice, or too many")
        out[match.group(1)] = _unescape(match.group(2) or match.group(3) or "")
        at = match.end()
    return out


class Reader:
    """Calls start(tag, attributes) and end(tag) of a handler."""

    def __init__(self, data, handler):
        try:
            self.text = re.sub(b"^(?:\xef\xbb\xbf){1,2}", b"", data).decode("utf-8")
        except UnicodeDecodeError:
            raise Bad("malformed: not UTF-8")
        self.handler, self.open, self.rooted = handler, [], False

    def read(self):
        """The whole file."""
        text, at = self.text, _declared(self.text)
        while at < len(text):
            if text[at] != "<":
                end = text.find("<", at)
                end = len(text) if end < 0 else end
                self.chars(text[at:end])
                at = end
            elif text.startswith("<!--", at):
                at = self.past("-->", at + 4)
            elif text.startswith("<![CDATA[", at):
                if not self.open:
                    raise Bad("malformed: a CDATA section outside of the root")
                at = self.past("]]>", at + 9)
            elif text.startswith(("<!", "<?"), at):
                raise Bad("malformed: a document type or a processing instruction")
            elif text.startswith("</", at):
                at = self.close(at)
            else:
                at = self.element(at)
        if self.open or not self.rooted:
            raise Bad("incomplete: the file ends inside an element, or has none")

    def past(self, what, at):
        end = self.text.find(what, at)
        if end < 0:
            raise Bad("incomplete: the file ends inside %s" % what)
        return end + len(what)

    def chars(self, text):
        if not self.open:
            if text.strip(_SPACE + "\x0c"):
                raise Bad("malformed: text outside of the root")
        else:
            _unescape(text)

    def element(self, at):
        match = _TAG.match(self.text, at)
        name, rest, empty = _parts(match.group(1)) if match else ("", "", False)
        if not name:
            raise Bad("malformed or incomplete: a tag")
        if not self.open and self.rooted:
            raise Bad("malformed: a second root")
        self.rooted = True
        self.open.append(name)
        self.handler.start(name, _attributes(rest))
        if empty:
            self.handler.end(self.open.pop())
        return match.end()

    def close(self, at):
        match = _END.match(self.text, at)
        if not match or not self.open or match.group(1) != self.open[-1]:
            raise Bad("malformed or incomplete: an end tag")
        self.handler.end(self.open.pop())
        return match.end()
