"""An entry of a lab's queue, and the JSON in which a store keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from testbed.files import parse_json
from testbed.record.lease_rules import Holder, Resource
from testbed.tenancy.lab_queue import Move

State = Literal["waiting", "running", "ended", "interrupted", "cancelled"]
"""Interrupted: its process ended without a word, as at a restart of its machine."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """An experiment in the queue, or one that has been there; instants are the store's."""

    token: str
    """Of the entry, of its claim once it runs, and of the lock that shows that its process runs."""
    holder: Holder
    resources: frozenset[Resource]
    policy: str
    """Of the lab file that it was started with."""
    expected: float
    """Seconds for which it will probably hold its resources."""
    trials: int
    command: str
    """By this, and by its user, an experiment that is started again finds its old place."""
    arrived: float
    draw: float
    """Uniform in [0, 1), drawn on arrival."""
    state: State = "waiting"
    seen: float = 0.0
    """When its process last asked whether it may start."""
    started: float | None = None
    ended: float | None = None
    move: Move | None = None
    moved_by: str = ""
    entered: float = 0.0
    """When its process came: later than `arrived` where it has the place of one before it."""

    @property
    def name(self) -> str:
        """Return the name under which users speak of it."""
        return self.token[:6]

    def __str__(self) -> str:
        return f"{self.name} {self.holder.reason} of {self.holder.user}"


_IN_COLUMNS = ("token", "state", "arrived", "seen", "started", "ended")
_TYPES: dict[str, type | tuple[type, ...]] = {
    "policy": str,
    "expected": (int, float),
    "trials": int,
    "command": str,
    "draw": (int, float),
    "moved_by": str,
}


def to_json(entry: QueueEntry) -> str:
    """Return what a store keeps of an entry beside the columns that it searches."""
    data = {field.name: getattr(entry, field.name) for field in fields(entry)}
    data = {name: value for name, value in data.items() if name not in _IN_COLUMNS}
    data["holder"] = asdict(entry.holder)
    data["resources"] = sorted([r.box, r.part, r.name] for r in entry.resources)
    data["move"] = asdict(entry.move) if entry.move else None
    return json.dumps(data)


def from_json(text: str, columns: Mapping[str, Any]) -> QueueEntry | None:
    """Return an entry; None where another user has written what is none."""
    try:
        data = parse_json(text)
        if not all(isinstance(data[name], of) for name, of in _TYPES.items()):
            return None
        holder, move = data.pop("holder"), data.pop("move")
        if not all(
            isinstance(holder[f.name], int if f.name == "pid" else str) for f in fields(Holder)
        ):
            return None
        resources = frozenset(Resource(*map(str, one)) for one in data.pop("resources"))
        place = Move(move["to"], float(move["at"]), str(move["other"])) if move else None
        plain = {name: data[name] for name in _TYPES}
        plain["entered"] = float(data.get("entered", columns["arrived"]))  # older rows have none
        return QueueEntry(
            holder=Holder(**holder), resources=resources, move=place, **plain, **columns
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
