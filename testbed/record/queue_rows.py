"""The rows of a lab's queue, in the store of its leases and within one transaction with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from testbed.record.lease_store import Ledger
from testbed.record.queue_entry import QueueEntry, State, from_json, to_json

_TABLE = """CREATE TABLE IF NOT EXISTS testbed_queue (
    token TEXT PRIMARY KEY, state TEXT NOT NULL, arrived DOUBLE PRECISION NOT NULL,
    seen DOUBLE PRECISION NOT NULL, started DOUBLE PRECISION, ended DOUBLE PRECISION,
    data TEXT NOT NULL)"""
_COLUMNS = ("token", "state", "arrived", "seen", "started", "ended")
_SELECT = "SELECT token, state, arrived, seen, started, ended, data FROM testbed_queue"
_INSERT = "INSERT INTO testbed_queue VALUES (?, ?, ?, ?, ?, ?, ?)"
KEPT = 90 * 86_400.0
"""Seconds for which an entry that has ended is kept as history."""
PLACE_KEPT = 7 * 86_400.0
"""Seconds for which an entry that was interrupted keeps its place."""


class QueueRows:
    """The entries of a queue within one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        """Read and write through a ledger, whose store may be older than queues are."""
        self._ledger = ledger
        ledger.execute(_TABLE)

    def of(self, *states: State) -> list[QueueEntry]:
        """Return the entries in some states, by arrival."""
        marks = ", ".join("?" * len(states))
        statement = f"{_SELECT} WHERE state IN ({marks}) ORDER BY arrived, token"
        rows = self._ledger.execute(statement, *states).fetchall()
        return [entry for row in rows if (entry := _entry(row)) is not None]

    def raw(self) -> list[Any]:
        """Return what waits, runs or is leased, unread: equal ones mean that nothing has changed.

        That a process has ended is not seen in it.
        """
        rows = "SELECT token, state, data FROM testbed_queue WHERE state IN ('waiting', 'running')"
        claims = "SELECT token FROM testbed_claims"
        found = [self._ledger.execute(statement).fetchall() for statement in (rows, claims)]
        return [sorted(map(tuple, part)) for part in found]

    def one(self, token: str) -> QueueEntry | None:
        """Return one entry, if it is there."""
        row = self._ledger.execute(f"{_SELECT} WHERE token = ?", token).fetchone()
        return None if row is None else _entry(row)

    def put(self, entry: QueueEntry) -> None:
        """Write an entry, in place of what it was."""
        self.remove(entry.token)
        values: list[Any] = [getattr(entry, name) for name in _COLUMNS]
        self._ledger.execute(_INSERT, *values, to_json(entry))

    def remove(self, token: str) -> None:
        """Remove an entry, if it is there."""
        self._ledger.execute("DELETE FROM testbed_queue WHERE token = ?", token)

    def end(self, token: str) -> None:
        """Note that an experiment has given back what it held; nothing, if it was in no queue."""
        self._ledger.execute(
            "UPDATE testbed_queue SET state = 'ended', ended = ? "
            "WHERE token = ? AND state IN ('running', 'interrupted')",
            *(self._ledger.now, token),
        )

    def forget(self) -> None:
        """Remove what is too old to be of use."""
        now = self._ledger.now
        limits = {"ended": now - KEPT, "cancelled": now - KEPT, "interrupted": now - PLACE_KEPT}
        for state, since in limits.items():
            self._ledger.execute(
                "DELETE FROM testbed_queue WHERE state = ? AND seen < ?", state, since
            )


def _entry(row: Sequence[Any]) -> QueueEntry | None:
    return from_json(row[-1], dict(zip(_COLUMNS, row[:-1], strict=True)))
