"""A transcript said again to a twin: does it answer as the box did?

The far end hears the recorded bytes at the recorded times, on a clock that is moved by hand, and
its answers are held against the recorded ones, except for what differs by nature: dates and light
levels. How long an answer took is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from testbed.record.transcript import Said
from testbed.resource import Tty, place
from testbed.schema import Lab
from testbed.twin.instruments import lone_switch
from testbed.twin.scheduler import SteppedScheduler

_PATIENCE = 5.0
"""Seconds after the last row during which the far end may still answer."""

_VOLATILE = (
    (re.compile(rb"\d{2,4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}"), b"<date>"),
    (re.compile(rb"(?<![\d.])[-+]?\d+\.\d+(?![\d.])"), b"<level>"),
)
_ARGUMENT = re.compile(r"[\d@(),\s\"&.>-]+")


@dataclass(frozen=True, slots=True)
class Divergence:
    """One exchange that went otherwise."""

    sent: str
    box: str
    twin: str


@dataclass(slots=True)
class Agreement:
    """How often a twin answered as a box did, by command."""

    exchanges: dict[str, list[bool]] = field(default_factory=dict)
    first: Divergence | None = None

    @property
    def whole(self) -> bool:
        """Tell whether every exchange agreed."""
        return self.first is None

    def to_json(self) -> dict[str, Any]:
        """Return the agreement as plain values."""
        rows = {c: {"n": len(r), "agreed": sum(r)} for c, r in self.exchanges.items()}
        return {"commands": rows, "first": asdict(self.first) if self.first else None}

    def lines(self) -> Iterator[str]:
        """Yield the agreement as a person reads it."""
        for command, results in sorted(self.exchanges.items()):
            yield f"{sum(results) / len(results):6.1%} of {len(results):4} {command}"
        every = [agreed for results in self.exchanges.values() for agreed in results]
        yield f"{sum(every)} of {len(every)} exchanges agree"
        if self.first:
            yield f"first divergence: sent {self.first.sent!r}"
            yield f"  box  {self.first.box!r}"
            yield f"  twin {self.first.twin!r}"


def replay_to_far_end(lab: Lab, switch: str, rows: Sequence[Said]) -> Agreement:
    """Say a transcript of a switch to a fresh twin of it and compare the answers.

    Each line that was opened in the transcript is a fresh conversation.
    """
    scheduler = SteppedScheduler()
    far_end = lone_switch(lab, switch, scheduler)
    is_serial = isinstance(place(lab.switches[switch].resource), Tty)
    heard: list[bytes] = []
    agreement = Agreement()
    conversation = far_end.session(heard.append, serial=is_serial)
    for sent, answer, until in _exchanges(rows):
        if sent is None:
            conversation = far_end.session(heard.append, serial=is_serial)
            continue
        scheduler.move_to(sent.mono)
        heard.clear()
        conversation.receive(sent.data)
        scheduler.move_to(until)
        _note(agreement, sent.data, answer, b"".join(heard))
    return agreement


def _exchanges(rows: Sequence[Said]) -> Iterator[tuple[Said | None, bytes, float]]:
    """Yield what was sent, all that came before the next was, and when that was; None: new line."""
    for index, row in enumerate(rows):
        if row.direction == "note" and row.data == b"line opened":
            yield None, b"", row.mono
        if row.direction != "send":
            continue
        answer, until = b"", row.mono + _PATIENCE
        for later in rows[index + 1 :]:
            if later.direction == "send":
                until = later.mono
                break
            if later.direction == "receive":
                answer += later.data
        yield row, answer, until


def _note(agreement: Agreement, sent: bytes, box: bytes, twin: bytes) -> None:
    agreed = _steady(box) == _steady(twin)
    text = sent.decode("latin-1").strip()
    agreement.exchanges.setdefault(_ARGUMENT.sub("", text)[:60], []).append(agreed)
    if not agreed and agreement.first is None:
        agreement.first = Divergence(text, box.decode("latin-1"), twin.decode("latin-1"))


def _steady(answer: bytes) -> bytes:
    for pattern, word in _VOLATILE:
        answer = pattern.sub(word, answer)
    return answer
