"""The grammar of TL1, host side: requests, replies, acknowledgements, alarms; pure functions.

Source: Telcordia GR-831, as far as it is described in public. A message ends with `;` (the last),
`>` (more blocks follow) or `<` (an acknowledgement), but names such as `1.1.1>2.1.1` hold these
characters too, inside quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MEANINGS = {
    "ENEQ": "not equipped",
    "ICNV": "command is not valid",
    "IDNV": "data is not valid",
    "IEAE": "exists already or is in use",
    "IENE": "does not exist",
    "IIAC": "no such port or object",
    "IICT": "bad correlation tag",
    "IISP": "syntax error",
    "IITA": "no such target",
    "IPMS": "parameter is missing",
    "NG": "cannot be done now",
    "PIUC": "that user may not do this",
    "PIUI": "wrong user or password",
    "PLNA": "not logged in",
    "RL": "has too much to do; repeat later",
    "SARB": "busy",
    "SROF": "the operation failed",
}
"""What the codes mean that come with a refusal; the generic list, not one box's."""

NOT_LOGGED_IN = "PLNA"
_LONGEST = 65536


@dataclass(frozen=True, slots=True)
class Request:
    """One command; `blocks` come after the correlation tag: general block, then payload."""

    verb: str
    aid: str = ""
    blocks: tuple[str, ...] = ()

    def text(self, ctag: str) -> str:
        """Return the text of the command to send, with an empty target."""
        return ":".join((self.verb, "", self.aid, ctag, *self.blocks)) + ";"

    def __str__(self) -> str:
        """Return what may be told of it: blocks may hold a password."""
        return f"{self.verb} {self.aid}".strip()


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A message before the reply (`IP` in progress, `OK`) or instead of it (`NG`, `RL`, `NA`)."""

    code: str
    ctag: str


@dataclass(frozen=True, slots=True)
class Alarm:
    """An autonomous message, which is not the answer to a request."""

    severity: str
    words: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to one request, or a block of it when `more` blocks follow."""

    ctag: str
    status: str
    lines: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    more: bool = False

    @property
    def rows(self) -> tuple[str, ...]:
        """Return the quoted lines of the reply without quotes; ValueError for any other line."""
        return tuple(_unquoted(line) for line in self.lines)

    @property
    def code(self) -> str:
        """Return the error code of a refusal, or an empty string."""
        if self.status in MEANINGS:
            return self.status
        return next((line[:4] for line in self.lines if _CODE.match(line)), "")

    @property
    def words(self) -> str:
        """Return the device's text of the refusal."""
        return " ".join((self.status, *self.lines, *self.comments))

    def then(self, block: Reply) -> Reply:
        """Return this reply joined with its next block; the worse status of the two counts."""
        fine = self.status in ("COMPLD", "RTRV")
        status = block.status if fine else self.status
        lines, comments = self.lines + block.lines, self.comments + block.comments
        return Reply(self.ctag, status, lines, comments, block.more)


Message = Acknowledgement | Alarm | Reply


def message_end(data: bytes) -> int:
    """Return the length of the first complete message from a device, or 0 (a `Cut`).

    A quoted string ends with its line even when the closing quote was lost.
    """
    match = _MESSAGE.match(data)
    return match.end() if match else 0


def message(data: bytes) -> tuple[str, Message]:
    """Parse a message; also return the text before it, such as a banner.

    Raise ValueError for invalid TL1, such as two messages in one. An autonomous message may have
    bytes that are not ASCII, such as a degree sign; they are escaped.
    """
    text, end = data[:-1].decode("latin-1"), data[-1:]
    if end == b"<":
        match = _ACKNOWLEDGEMENT.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not an acknowledgement")
        return _spelled(match["before"]).strip(), Acknowledgement(match["code"], match["ctag"])
    match = _HEADED.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} has no header")
    before = _spelled(match["before"]).strip()
    if match["kind"] != "M":
        lines, _ = _content(_spelled(match["text"]))
        words = " ".join((_spelled(match["tag"]), _spelled(match["status"]), *lines))
        return before, Alarm(match["kind"], words)
    if not (match["tag"] + match["status"] + match["text"]).isascii():
        raise ValueError(f"{text!r} is not ASCII")
    lines, comments = _content(match["text"])
    reply = Reply(match["tag"], match["status"].strip(), lines, comments, more=end == b">")
    return before, reply


def listed(items: Iterable[int]) -> str:
    """Format ports as a TL1 list: `1&2&5`."""
    return "&".join(map(str, items))


def keyed(text: str) -> dict[str, str]:
    """Parse `A=1,B=2` into a mapping; a value ends where the next key begins."""
    parts = (part.partition("=") for part in _BEFORE_KEY.split(text) if "=" in part)
    return {key.strip(): value for key, _, value in parts}


def _spelled(text: str) -> str:
    """Return text with what is no ASCII spelled out, which takes long; ValueError for too much."""
    if len(text) > _LONGEST and not text.isascii():
        raise ValueError(f"{len(text)} characters, not all of which are ASCII")
    return text.encode("latin-1").decode("ascii", "backslashreplace")


def _content(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the lines and the comments below a header; ValueError for another message there."""
    comments: tuple[str, ...] = ()
    if "/*" in text:
        found = [match["comment"] for match in _QUOTED.finditer(text)]
        comments = tuple(" ".join(comment.split()) for comment in found if comment)
        text = _QUOTED.sub(lambda match: match["string"] or "", text)
    if not "".join(text.split()).isprintable():
        raise ValueError(f"{text!r} is not text")
    lines = [line for line in text.splitlines() if line.strip()]
    for line in lines:
        if line[0] not in ' \t"':
            raise ValueError(f"{line!r} does not belong to its message")
    return tuple(line.strip() for line in lines), comments


def _unquoted(line: str) -> str:
    match = _STRING.fullmatch(line)
    if match is None:
        raise ValueError(f"{line!r} is not a quoted line")
    return _ESCAPED.sub(r"\1", match[1]) if "\\" in line else match[1]


# Each text is matched in one way only, so that one which is not whole yet is given up at once.
# No possessive quantifiers: CPython 3.11.0 to 3.11.3 miscompiles them inside groups.
_TEXT = rb'"(?:\\[^\r\n]|[^"\\\r\n])*["\r\n]|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/'
_MESSAGE = re.compile(rb'[^;<>"/]*(?:(?:%s|/(?!\*))[^;<>"/]*)*[;<>]' % _TEXT)
_STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
_ESCAPED = re.compile(r"\\(.)")
_QUOTED = re.compile(r'(?P<string>"(?:\\[^\r\n]|[^"\\\r\n])*")|/\*(?P<comment>.*?)\*/', re.DOTALL)
_CODE = re.compile(r"[A-Z]{4}\b")
_BEFORE_KEY = re.compile(r",(?=\s*[A-Z]+\d*=)")
_ACKNOWLEDGEMENT = re.compile(
    r"(?P<before>.*?)(?:^|[\r\n])(?P<code>IP|PF|OK|NA|NG|RL) +(?P<ctag>\S+)\s*", re.DOTALL
)
_HEADED = re.compile(
    r"(?P<before>.*?)(?:^|[\r\n])[ \t]+\S[^\r\n]* \d{2,4}-\d\d-\d\d \d\d:\d\d:\d\d[ \t]*\r?\n"
    r"(?P<kind>M|A|\*C|\*\*|\*) +(?P<tag>\S+) +(?P<status>[^\r\n]*)(?P<text>.*)",
    re.DOTALL,
)
