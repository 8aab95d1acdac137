"""Replay a transcript to a twin, and compare its answers with those of the real device.

The far end receives the recorded bytes at the recorded times, on a clock that is moved by hand, and
its answers are compared with the recorded ones, except for dates and light levels. Answer times are
not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from testbed.record.transcript import TranscriptRow
from testbed.schema import Lab
from testbed.twin.instruments import lone_switch
from testbed.twin.replay_lines import open_line
from testbed.twin.scheduler import SteppedScheduler

_PATIENCE = 5.0
"""Seconds after the last row during which the far end may still answer."""

_VOLATILE = (
    (re.compile(rb"\d{2,4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}"), b"<date>"),
    (re.compile(rb"(?<![\d.])[-+]?\d+\.\d+(?![\d.])|\bNONE\b"), b"<level>"),
)
_OPENED = b"line opened"
_NUMBERS = re.compile(
    r"""[@(\["']*\d+[AB]?(?:[\s,@()\[\]"'&.>=x-]*\d+[AB]?)*(?:, '[=x]'\))?[)\]"']*"""
)
_LONGEST = 160
"""Characters of a divergence that a person gets to see of each side…"""
_BEFORE = 60
"""… and how many of them are before the two part."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """One exchange with different answers."""

    sent: str
    box: str
    twin: str

    def where_they_part(self) -> tuple[str, str]:
        """Return the part of both answers from their first difference on, without dates."""
        sides = self.box.encode("latin-1"), self.twin.encode("latin-1")
        box, twin = (_steady(side).decode("latin-1") for side in sides)
        differ = (n for n, (one, other) in enumerate(zip(box, twin, strict=False)) if one != other)
        alike = next(differ, min(len(box), len(twin)))
        begin = max(0, alike - _BEFORE)
        return box[begin : begin + _LONGEST], twin[begin : begin + _LONGEST]


@dataclass(slots=True)
class Agreement:
    """How often a twin gave the same answer as the real device, by command."""

    exchanges: dict[str, list[bool]] = field(default_factory=dict)
    first: Divergence | None = None

    @property
    def whole(self) -> bool:
        """Return whether every exchange agreed."""
        return self.first is None

    def to_json(self) -> dict[str, Any]:
        """Return the agreement as plain values."""
        rows = {c: {"n": len(r), "agreed": sum(r)} for c, r in self.exchanges.items()}
        return {"commands": rows, "first": asdict(self.first) if self.first else None}

    def lines(self) -> Iterator[str]:
        """Yield the agreement as lines of text."""
        for command, results in sorted(self.exchanges.items()):
            yield f"{sum(results) / len(results):6.1%} of {len(results):4} {command}"
        every = [agreed for results in self.exchanges.values() for agreed in results]
        yield f"{sum(every)} of {len(every)} exchanges agree"
        if self.first:
            yield f"first divergence: sent {self.first.sent[:_LONGEST]!r}"
            for side, text in zip(("box", "twin"), self.first.where_they_part(), strict=True):
                yield f"  {side:<4} {text!r}"


def replay_to_far_end(lab: Lab, switch: str, rows: Sequence[TranscriptRow]) -> Agreement:
    """Send the transcript of a switch to a new twin of it and compare the answers.

    Each connection in the transcript is a new session, whose greeting is compared too.
    """
    scheduler = SteppedScheduler()
    far_end, spec = lone_switch(lab, switch, scheduler), lab.switches[switch]
    agreement = Agreement()
    line = open_line(far_end, spec)
    for begin, answer, until in _exchanges(rows):
        scheduler.move_to(begin.mono)
        if begin.direction == "send":
            line.say(begin.data, answer)
        else:
            line = open_line(far_end, spec)
        scheduler.move_to(until)
        _note(agreement, begin.data, answer, line.heard())
    return agreement


def _exchanges(rows: Sequence[TranscriptRow]) -> Iterator[tuple[TranscriptRow, bytes, float]]:
    """Yield what begins an exchange, all that was answered, and when the next one begins.

    Something that was sent begins one, and so does a line that was opened.
    """
    begins = [n for n, row in enumerate(rows) if row.direction == "send" or _is_opening(row)]
    ends = [*begins[1:], len(rows)]
    for index, end in zip(begins, ends, strict=True):
        answers = [row.data for row in rows[index:end] if row.direction == "receive"]
        until = rows[end].mono if end < len(rows) else rows[index].mono + _PATIENCE
        yield rows[index], b"".join(answers), until


def _is_opening(row: TranscriptRow) -> bool:
    return row.direction == "note" and row.data == _OPENED


def _note(agreement: Agreement, sent: bytes, box: bytes, twin: bytes) -> None:
    if not (box or twin) and sent == _OPENED:
        return  # most boxes do not greet
    agreed = _steady(box) == _steady(twin)
    text = sent.decode("latin-1").strip()
    agreement.exchanges.setdefault(_named(text), []).append(agreed)
    if not agreed and agreement.first is None:
        agreement.first = Divergence(text, box.decode("latin-1"), twin.decode("latin-1"))


def _named(text: str) -> str:
    """Return a command without its numbers, so that all of its kind count together."""
    first = text.partition("\r\n")[0]
    return _NUMBERS.sub("#", first)[:60]


def _steady(answer: bytes) -> bytes:
    for pattern, word in _VOLATILE:
        answer = pattern.sub(word, answer)
    return answer
