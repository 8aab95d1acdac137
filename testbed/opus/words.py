"""The messages of the protocol as lines, and lines cut from a stream of bytes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

LONGEST_LINE = 4096
"""Bytes; identifiers have 64 characters."""

PER_STAGE = 1_000_000
"""A counter is this times the pipeline stage or pair, plus the number of the operation."""

PIPELINE = 10
"""From this number of a group on it is a pair of pipeline stages: 1 + 10 × the later stage."""

_MOST_STAGES = 31
"""Pipeline stages that a word of 32 bits has positions for."""

_NUMBER = re.compile(rb"-?[0-9]{1,10}")
_ID = re.compile(rb"[!-+\--~]{1,128}")
"""Printable characters but a comma."""


class Malformed(ValueError):
    """A line is none of the protocol's messages; the text says how."""


@dataclass(frozen=True, slots=True)
class Comm:
    """A rank has made a communicator of so many ranks; its local index is the rail."""

    id: str
    ranks: int
    rail: int


@dataclass(frozen=True, slots=True)
class CheckinAck:
    """All ranks of a communicator have made it: domain 1 inside a host, 0 else, -1 unknown."""

    id: str
    domain: int


@dataclass(frozen=True, slots=True)
class ConfigReq:
    """A rank is ready for a stage: the number of the group, and its counter."""

    id: str
    number: int
    counter: int

    @property
    def pair(self) -> int | None:
        """Return the later of the two pipeline stages that it is about, or None."""
        return self.number // PIPELINE if self.number > PIPELINE else None


@dataclass(frozen=True, slots=True)
class ConfigAck:
    """The circuits of a stage are there."""

    id: str


Message = Comm | CheckinAck | ConfigReq | ConfigAck
_KINDS: dict[bytes, tuple[type[Message], int]] = {
    b"COMM": (Comm, 2),
    b"CHECKIN_ACK": (CheckinAck, 1),
    b"CONFIG_REQ": (ConfigReq, 2),
    b"CONFIG_ACK": (ConfigAck, 0),
}


def parse(line: bytes) -> Message:
    """Return the message of a line without its end; raise Malformed for anything else."""
    header, _, body = line.partition(b";")
    if header not in _KINDS:
        raise Malformed(f"{_shown(header)} is no message of the protocol")
    kind, count = _KINDS[header]
    name, *numbers = body.split(b",")
    if len(numbers) != count:
        raise Malformed(f"{header.decode()} has {count + 1} fields, not {len(numbers) + 1}")
    if not _ID.fullmatch(name):
        raise Malformed(f"{_shown(name)} is no identifier of a communicator")
    return kind(name.decode(), *map(_number, numbers))


def encode(message: Message) -> bytes:
    """Return a message as a line with its end."""
    header = next(name for name, (kind, _) in _KINDS.items() if kind is type(message))
    fields = [str(getattr(message, name)) for name in type(message).__slots__]
    return header + b";" + ",".join(fields).encode() + b"\n"


def stage_of(request: ConfigReq) -> int:
    """Return the pipeline stage of a request, of a pair the later; raise Malformed for none."""
    number, counter = request.number, request.counter
    stage = counter // PER_STAGE
    if counter < 0 or number < 0 or stage >= _MOST_STAGES:
        raise Malformed(f"number {number} and counter {counter} name no stage")
    if request.pair is not None and request.pair != stage:
        raise Malformed(f"number {number} and counter {counter} are of two pairs")
    return stage


def word_after(word: int, request: ConfigReq) -> int:
    """Return a rail's word with a stage: a pair sets the bits of its two pipeline stages."""
    stage = stage_of(request)
    return word & ~(1 << stage) if request.pair is None else word | 1 << stage | 1 << (stage - 1)


def parse_word(line: bytes) -> int:
    """Return the word of a rail, a bit for each pipeline stage; raise Malformed for none."""
    return _number(line.strip())


def _number(text: bytes) -> int:
    if not _NUMBER.fullmatch(text) or not -(2**31) <= int(text) < 2**31:
        raise Malformed(f"{_shown(text)} is no number of 32 bits")
    return int(text)


def _shown(text: bytes) -> str:
    return repr(text[:40].decode("ascii", "backslashreplace"))


@dataclass(slots=True)
class LineBuffer:
    """Cuts lines from a stream; they may come in any pieces, and end with LF or CR LF."""

    _rest: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that are whole now, but empty ones; raise Malformed for a long one."""
        self._rest += data
        while (end := self._rest.find(b"\n")) >= 0:
            line = bytes(self._rest[:end]).removesuffix(b"\r")
            del self._rest[: end + 1]
            if len(line) > LONGEST_LINE:
                break
            if line:
                yield line
        else:
            if len(self._rest) <= LONGEST_LINE:
                return
        raise Malformed(f"a line has more than {LONGEST_LINE} bytes")
