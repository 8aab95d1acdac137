"""The queue of experiments that wait for parts of a lab, beside the leases and by their rules.

Each process that waits asks whether it is its turn; within one transaction that is decided and the
leases are taken. So nobody has to run for the queue to go on, and none has what another has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random
from statistics import median
from typing import Any

from testbed.commands import typed
from testbed.errors import BusyError, UsageError
from testbed.record.claim_registry import (
    ClaimRegistry,
    holder_here,
    remove_liveness_files,
)
from testbed.record.lease import HEARTBEAT
from testbed.record.lease_rules import LEASE_TTL, Claim, Resource, release
from testbed.record.lease_store import Ledger
from testbed.record.queue_entry import QueueEntry, State
from testbed.record.queue_rows import QueueRows
from testbed.record.queue_rules import Snapshot
from testbed.record.rundir import RunDirectory
from testbed.tenancy.lab_queue import Move

_LIKE_IT = 5
"""Earlier runs of an experiment by which it is judged how long the next one takes."""


class Cancelled(BusyError):
    """A user has taken this run's entry out of the queue."""


@dataclass(frozen=True, slots=True)
class QueueRequest:
    """What an experiment tells a queue beside what it needs."""

    policy: str
    limit: float
    """Seconds that it may take at most, which counts until an experiment like it has run."""
    trials: int
    command: str


class LabQueue(ClaimRegistry):
    """The queue in one lease store."""

    def enter(
        self,
        token: str,
        resources: Iterable[Resource],
        reason: str,
        request: QueueRequest,
        condition: Callable[[Snapshot], bool] = lambda _: True,
    ) -> float | None:
        """Put an entry into the queue, whose process holds the lock of its token; return the time.

        Return None, and put none, where the queue does not meet the condition. An experiment that
        was interrupted and is started again, by the same user with the same command, has its old
        place.
        """
        holder = replace(holder_here(os.getpid(), None, reason), lab=self._lab)
        with self._store.open() as ledger:
            rows, now = QueueRows(ledger), ledger.now
            rows.forget()
            if not condition(self._snapshot(ledger, rows)):
                return None
            expected = _expected(rows, reason, request)
            entry = QueueEntry(
                *(token, holder, frozenset(resources), request.policy, expected, request.trials),
                *(request.command, now, Random(token).random()),
                seen=now,
                entered=now,
            )
            rows.put(_in_old_place(rows, entry))
        return now

    def want(self, token: str, resources: Iterable[Resource], run: RunDirectory | None) -> float:
        """Write what an entry that waits needs, and for which run; return the time."""
        with self._store.open() as ledger:
            rows = QueueRows(ledger)
            found = rows.one(token)
            if found is not None:
                named = holder_here(os.getpid(), run)
                holder = replace(found.holder, run=named.run, directory=named.directory)
                wanted = frozenset(resources)
                rows.put(replace(found, resources=wanted, holder=holder, seen=ledger.now))
            return ledger.now

    def snapshot(self) -> Snapshot:
        """Return the queue and the leases as they are now."""
        with self._store.open() as ledger:
            return self._snapshot(ledger, QueueRows(ledger))

    def entries(self) -> list[QueueEntry]:
        """Return the entries that wait, run, or have been interrupted and keep their places."""
        with self._store.open() as ledger:
            rows = QueueRows(ledger)
            self._snapshot(ledger, rows)
            return rows.of("waiting", "running", "interrupted")

    def history(self) -> list[QueueEntry]:
        """Return the entries that ran to their end, by arrival."""
        with self._store.open() as ledger:
            return QueueRows(ledger).of("ended")

    def find_entry(self, name: str) -> QueueEntry:
        """Return the one entry that waits, or was interrupted, and whose name begins so."""
        found = self.entries()
        named = [one for one in found if name and one.token.startswith(name)]
        if len(named) != 1:
            which = "several entries" if named else "no entry"
            names = ", ".join(one.name for one in named or found) or "the queue is empty"
            raise UsageError(f"{which} of the queue: {name!r}", hint=names)
        return named[0]

    def move(self, entry: QueueEntry, to: Move, *, forced: bool) -> None:
        """Move an entry; raise BusyError where that passes others' entries and is not `forced`."""
        with self._store.open() as ledger:
            rows = QueueRows(ledger)
            before = self._snapshot(ledger, rows)
            mine = _still(rows, entry, "waiting")
            if to.to == "before" and (other := rows.one(to.other)) is not None:
                _still(rows, other, "waiting")
            moved = replace(mine, move=replace(to, at=ledger.now), moved_by=holder_here(0).user)
            others = [moved if one.token == mine.token else one for one in before.entries]
            after = replace(before, entries=others)
            passed = _passed(before, after, mine.token)
            theirs = [one for one in passed if one.holder.user != moved.moved_by]
            if (theirs or mine.holder.user != moved.moved_by) and not forced:
                whose = theirs[0] if theirs else mine
                raise BusyError(
                    f"{whose} is another user's", hint="ask them, or say --force; it is recorded"
                )
            rows.put(moved)

    def cancel(self, entry: QueueEntry, *, forced: bool) -> None:
        """Take an entry out of the queue; its process ends then. Others' only when `forced`."""
        me = holder_here(os.getpid())
        if entry.holder.user != me.user and not forced:
            raise BusyError(
                f"{entry} is another user's", hint="ask them, or say --force; it is recorded"
            )
        with self._store.open() as ledger:
            rows = QueueRows(ledger)
            self._snapshot(ledger, rows)
            found = _still(rows, entry, "waiting", "interrupted")
            if found.state == "interrupted":
                rows.remove(found.token)
            else:
                rows.put(replace(found, state="cancelled", moved_by=me.user))

    def end(self, token: str) -> None:
        """End a claim, and write into the history when."""
        with self._store.open() as ledger:
            before = ledger.claims(token)
            ledger.write(before, release(before, token))
            QueueRows(ledger).end(token)

    def raw(self) -> tuple[float, list[Any]]:
        """Return the time, and what the store has of queue and leases, which costs little."""
        with self._store.open() as ledger:
            return ledger.now, QueueRows(ledger).raw()

    def try_to_start(self, token: str) -> Claim | Snapshot:
        """Claim what an entry needs if it is its turn; else return what there is to wait for.

        Raise Cancelled if the entry is not in the queue any more.
        """
        with self._store.open() as ledger:
            rows = QueueRows(ledger)
            mine = rows.one(token)
            if mine is None or mine.state == "cancelled":
                by = f" by {mine.moved_by}" if mine else ""
                raise Cancelled(
                    f"this run's entry was taken out of the queue{by}", hint="start it again"
                )
            if mine.state == "interrupted" or ledger.now - mine.seen > HEARTBEAT:
                rows.put(mine := replace(mine, state="waiting", started=None, seen=ledger.now))
            found = self._snapshot(ledger, rows)
            if found.in_the_way(mine) or not found.may_start(token):
                return found
            before, expires = ledger.claims(), ledger.now + LEASE_TTL
            claim = Claim(token, mine.holder, mine.resources, expires)
            granted = self._granted(before, claim, ledger.now)
            ledger.write(before, granted.claims)
            rows.put(replace(mine, state="running", started=ledger.now, seen=ledger.now))
        remove_liveness_files(granted.ended)
        return claim

    def leave(self, token: str) -> None:
        """Remove an entry that waits or was cancelled; nothing, once it runs."""
        with self._store.open() as ledger:
            rows = QueueRows(ledger)
            found = rows.one(token)
            if found is not None and found.state in ("waiting", "cancelled"):
                rows.remove(token)

    def _snapshot(self, ledger: Ledger, rows: QueueRows) -> Snapshot:
        """Return the queue now; entries whose processes have gone are marked as interrupted.

        So is one whose machine was silent for long; it runs again where it has its claim again.
        """
        now = ledger.now
        claims = [self._status(claim, now) for claim in ledger.claims().values()]
        held = {one.claim.token for one in claims if one.standing == "held"}
        entries = []
        for one in rows.of("waiting", "running", "interrupted"):
            if one.token in held and one.started is not None:
                state: State = "running"
            elif one.state == "waiting" and self._is_there(one, now):
                state = "waiting"
            else:
                state = "interrupted"
            if state != one.state:
                rows.put(one := replace(one, state=state))
            if state != "interrupted":
                entries.append(one)
        return Snapshot(now, entries, claims)

    def _is_there(self, entry: QueueEntry, now: float) -> bool:
        alive = self._look(Claim(entry.token, entry.holder, entry.resources, 0.0))
        return now - entry.seen <= LEASE_TTL if alive is None else alive


def _expected(rows: QueueRows, reason: str, request: QueueRequest) -> float:
    """Return how long an experiment will probably take, by those of its name before it."""
    like_it = [one for one in rows.of("ended") if one.holder.reason == reason and one.trials > 0]
    spans = [(one.started, one.ended, one.trials) for one in like_it[-_LIKE_IT:]]
    took = [(end - start) / trials for start, end, trials in spans if start and end]
    return min(request.limit, median(took) * request.trials) if took else request.limit


def _in_old_place(rows: QueueRows, entry: QueueEntry) -> QueueEntry:
    """Return an entry, in the place of the one that it was before an interruption."""
    for old in rows.of("interrupted"):
        mine, theirs = entry.holder, old.holder
        if (old.command, theirs.user, theirs.lab) == (entry.command, mine.user, mine.lab):
            rows.remove(old.token)
            place = replace(entry, arrived=old.arrived, draw=old.draw)
            return replace(place, move=old.move, moved_by=old.moved_by)
    return entry


def _still(rows: QueueRows, entry: QueueEntry, *states: str) -> QueueEntry:
    """Return an entry as it is now; raise BusyError if it is in none of the states."""
    found = rows.one(entry.token)
    if found is None or found.state not in states:
        what = found.state if found else "gone"
        raise BusyError(f"{entry} does not wait: it is {what}", hint=f"see `{typed('queue')}`")
    return found


def _passed(before: Snapshot, after: Snapshot, token: str) -> list[QueueEntry]:
    """Return the entries that come after one only since it was moved."""
    lines = [snapshot.line() for snapshot in (before, after)]
    at = [next(i for i, one in enumerate(line) if one.token == token) for line in lines]
    behind = {one.token for one in lines[0][: at[0]]} & {one.token for one in lines[1][at[1] :]}
    return [one for one in lines[0] if one.token in behind]
