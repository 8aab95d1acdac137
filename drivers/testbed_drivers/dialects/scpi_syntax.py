"""The syntax of SCPI for both sides: headers, port lists, error replies; pure functions.

Source: SCPI-99 volume 1 chapter 6 (headers, short and long forms, path memory) and chapter 8
(channel lists).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple


class Command(NamedTuple):
    """One command of a line: its full header in upper case, and its arguments."""

    header: str
    argument: str


def commands(line: str) -> Iterator[Command]:
    """Yield the commands that are joined with `;` in a line, each with its full path.

    A header without a leading colon continues at the branch of the previous command.
    """
    path = ""
    for unit in _UNIT.findall(line):
        match = _HEADER.fullmatch(unit.strip().upper())
        assert match is not None
        header, argument = match.groups()
        if header.startswith("*"):
            yield Command(header, argument)
        elif header:
            full = header[1:] if header.startswith(":") else path + header
            path = full[: full.rfind(":") + 1]
            yield Command(full, argument)


@cache
def pattern(spelling: str) -> re.Pattern[str]:
    """Return a pattern for a header in short or long form; the short form is in capitals."""
    return re.compile(
        re.sub(
            r"([A-Z]+)([a-z]+)",
            lambda word: f"{word[1]}(?:{word[2].upper()})?",
            re.escape(spelling),
        )
    )


def port_list(ports: Iterable[int]) -> str:
    """Format ports as a SCPI channel list: `(@1,2,3)`."""
    return f"(@{','.join(map(str, ports))})"


def port_lists(text: str) -> list[tuple[int, ...]]:
    """Parse one or several channel lists; raise ValueError for anything else."""
    if not _PORT_LISTS.fullmatch(text):
        raise ValueError(f"{text!r} is not a list of ports")
    return [
        tuple(map(int, ports.split(","))) if ports else () for ports in _PORT_LIST.findall(text)
    ]


def error_reply(text: str) -> tuple[int, str]:
    """Parse the answer to `SYST:ERR?` into number and text; raise ValueError for anything else.

    The standard requires quotes around the text; not every instrument sends them.
    """
    match = _ERROR.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an error report")
    return int(match["number"]), match["quoted"] or match["bare"] or ""


def units(text: str, least: int) -> list[str]:
    """Return what is joined with `;` in a line, outside of quotes; raise ValueError for too few."""
    found: list[str] = _UNIT.findall(text)
    if len(found) < least:
        raise ValueError(f"{text!r} is not {least} answers or more")
    return found


# No possessive quantifiers: CPython 3.11.0 to 3.11.3 miscompiles them inside groups.
# Neighbouring parts share no character, so each text is matched in one way only.
_HEADER = re.compile(r'([^\s("]*)\s*(.*)', re.DOTALL)
_UNIT = re.compile(r'(?:"[^"]*"|[^;"]+)+')
_PORT_LIST = re.compile(r"\(@((?:[0-9]+(?:,[0-9]+)*)?)\)")
_PORT_LISTS = re.compile(rf"{_PORT_LIST.pattern}(?:,{_PORT_LIST.pattern})*")
_ERROR = re.compile(r'(?P<number>[+-]?\d{1,9}), *(?:"(?P<quoted>.*)"|(?P<bare>[^ "][^"]*))')
