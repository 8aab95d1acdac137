"""The events of a run; its event log is the only source of all results.

An event is stamped with the orchestrator's clock when it is written. An event that happened on a
host also carries that host's own time stamp as `data["host"]` and `data["mono"]`, which the
analysis converts to the orchestrator's clock with the `clock.offset` events around it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any

import orjson

from testbed.events.origin import NOWHERE, Origin
from testbed.files import MAX_DEPTH, parse_json

NAMES = frozenset(
    [
        "algorithm",
        "better",
        "circuits",
        "host",
        "lab",
        "label",
        "replacement",
        "run",
        "source",
        "unit",
    ]
)
"""Fields whose values are names that the analysis compares, in the open in the run's other files.

They are never masked: a password that equals a host's name would cost the analysis that host.
"""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the log: its time, kind, subject, trial and data.

    `t` is seconds since the run began on the orchestrator's monotonic clock; `subject` names what
    it is about (a host, a port, a rank, a switch); `trial` is the trial's number or None. The parts
    of its `origin` stand in the line beside these, as `job` or `cause`.
    """

    seq: int
    t: float
    kind: str
    subject: str = ""
    trial: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin = NOWHERE

    @property
    def is_recorded(self) -> bool:
        """Return whether it is in the log; only then can others name it as their cause."""
        return self.seq >= 0

    def to_json(self) -> str:
        """Return the event as one line of JSON."""
        row: dict[str, Any] = {
            "seq": self.seq,
            "t": round(self.t, 6),
            "kind": self.kind,
            "subject": self.subject,
        }
        if self.trial is not None:
            row["trial"] = self.trial
        if self.origin is not NOWHERE:
            row |= self.origin.to_row()
        row["data"] = dict(self.data)
        try:
            return orjson.dumps(row, option=_NO_OBJECTS).decode()
        except TypeError:  # half a surrogate pair, a number of NumPy, one of more than 64 bits
            return _encoded(_finite(row))

    @classmethod
    def from_json(cls, line: str) -> Event:
        """Return the event in a line that `to_json` wrote; raise ValueError for any other line."""
        return cls._of_row(parse_json(line), line)

    @classmethod
    def from_frequent(cls, line: bytes) -> Event:
        """Return the event in a line as `from_json` does, in a third of the time.

        For kinds whose whole numbers have at most 64 bits: longer ones become floating-point ones.
        """
        if line.count(b"[") + line.count(b"{") > MAX_DEPTH:  # it may be nested too deeply
            return cls.from_json(line.decode())
        return cls._of_row(orjson.loads(line), line)

    @classmethod
    def _of_row(cls, row: Any, line: str | bytes) -> Event:
        try:
            seq, t, kind, subject, data = _needed(row)
            trial = row.get("trial")
        except (KeyError, TypeError):  # it lacks one, or is no object
            raise ValueError(f"not an event: {line[:80]!r}") from None
        # JSON has no other types: a million lines are read, and each has all of this checked.
        if not (
            type(seq) is int
            and type(t) in (float, int)
            and type(kind) is type(subject) is str
            and type(data) is dict
            and (trial is None or (type(trial) is int and -_LONGEST <= trial <= _LONGEST))
            and -_LONGEST <= seq <= _LONGEST
            and -_LONGEST <= t <= _LONGEST
        ):
            raise ValueError(f"not an event: {line[:80]!r}")
        return cls(seq, float(t), kind, subject, trial, data, _origin(row))


_NO_OBJECTS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _origin(row: Mapping[str, Any]) -> Origin:
    """Return where the event of a row comes from, as far as it says."""
    parts = len(row) - len(_PLAIN) - ("trial" in row)
    if not parts:
        return NOWHERE
    job = row.get("job")
    if parts == 1 and type(job) is str:  # as a million reports of steps have it
        return _of_job(job)
    known = {name: row[name] for name in _ORIGIN if name in row}
    if not known:
        return NOWHERE
    if not all(_ORIGIN[name](value) for name, value in known.items()):
        raise ValueError(f"not the origin of an event: {str(known)[:80]}")
    return Origin(**known)


def _finite(value: Any) -> Any:
    """Return plain data with None for what is no finite number, which JSON cannot hold."""
    if isinstance(value, Mapping):
        return {key: _finite(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(held) for held in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


_LONGEST = 1e10
"""Seconds that a run may take, and the number of its events: more is no record of one."""


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LONGEST


_PLAIN = ("seq", "t", "kind", "subject", "data")
_needed = itemgetter(*_PLAIN)


@lru_cache(64)
def _of_job(job: str) -> Origin:
    return Origin(job)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_ORIGIN: dict[str, Callable[[Any], bool]] = {
    "job": _is_text,
    "owner": _is_text,
    "controller": _is_text,
    "cause": _is_whole,
}


Subscriber = Callable[[Event], None]
