"""The grammar of TL1, device side: parse commands as they arrive; pure functions.

Source: Telcordia GR-831, as far as it is described in public.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One command; `blocks` come after the correlation tag: general block, then payload."""

    verb: str
    target: str = ""
    aid: str = ""
    ctag: str = ""
    blocks: tuple[str, ...] = ()

    def block(self, number: int) -> str:
        """Return a block by number, empty when it was left out."""
        return self.blocks[number] if number < len(self.blocks) else ""

    def __str__(self) -> str:
        """Return what may be told of it: blocks may hold a password."""
        return f"{self.verb} {self.aid}".strip()


def command_end(data: bytes) -> int:
    """Return the length of the first complete command from a host, or 0 (a `Cut`)."""
    match = _COMMAND.match(data)
    return match.end() if match else 0


def command(data: bytes) -> Command:
    """Parse a received command; missing parts are empty."""
    text = data.decode("ascii", "replace").strip().removesuffix(";")
    fields = _fields(text, ":")
    verb, target, aid, ctag = (part.strip() for part in [*fields, "", "", ""][:4])
    return Command(verb.upper(), target, aid, ctag, tuple(fields[4:]))


def unlisted(text: str) -> list[int]:
    """Parse a list of ports such as `1&2&&5` with its ranges; ValueError for anything else."""
    if not _LIST.fullmatch(text):
        raise ValueError(f"{text!r} is not a list of ports")
    return list(_expanded(text))


def _fields(text: str, separator: str) -> list[str]:
    """Return what a separator parts outside quotes."""
    fields = [""]
    for piece in re.findall(rf'"[^"]*"|{separator}|[^"{separator}]+|"', text):
        if piece == separator:
            fields.append("")
        else:
            fields[-1] += piece
    return fields


def _expanded(text: str) -> Iterator[int]:
    for part in re.findall(r"\d+(?:&&\d+)?", text):
        first, _, last = part.partition("&&")
        yield from range(int(first), int(last or first) + 1)


# No possessive quantifiers: CPython 3.11.0 to 3.11.3 miscompiles them inside groups.
_COMMAND = re.compile(rb'[^;"]*(?:"[^"]*"[^;"]*)*;')
_LIST = re.compile(r"\d{1,5}(?:&&?\d{1,5})*")
