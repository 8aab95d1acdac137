"""The place of one process in a lab's queue, and what it waits for."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from testbed.clock import boot_time
from testbed.errors import BusyError, LabError
from testbed.record.claim_registry import busy_error
from testbed.record.lab_queue import LabQueue, QueueRequest
from testbed.record.lease import Lease
from testbed.record.lease_rules import Resource, ResourceIndex
from testbed.record.locks import LivenessLock
from testbed.record.queue_entry import QueueEntry
from testbed.record.queue_rules import Snapshot
from testbed.record.rundir import RunDirectory

_LOOK = 5.0
"""Seconds after which it is asked again although nothing has changed in the store.

A process may have ended, or an experiment may take longer than expected. To ask takes 5 ms for a
queue of 50, ten times as long as to see that nothing has changed (2026-11-27).
"""


@dataclass(frozen=True, slots=True)
class Admission:
    """How a queue let an experiment start: its policy, and the wait, in seconds.

    `behind` is what it waited for when it was first refused, in words; empty where it never was.
    `expected` is how long the queue then expected it to wait; None where nothing was known.
    """

    policy: str
    waited: float
    expected: float | None = 0.0
    behind: str = ""


class TakenMeanwhile(BusyError):
    """A queue has changed since what a run asks for was chosen."""


class QueuePlace:
    """The place of this process in a queue, until it starts or leaves."""

    def __init__(
        self,
        queue: LabQueue,
        resources: Iterable[Resource],
        reason: str,
        request: QueueRequest,
        condition: Callable[[Snapshot], bool] = lambda _: True,
    ) -> None:
        """Enter a queue for all of some resources.

        Raise TakenMeanwhile where the queue does not meet the condition as it is entered.
        """
        self._queue, self._token = queue, secrets.token_hex(8)
        self.admission = Admission(request.policy, 0.0)
        """How it was let in, once it has started; until then what was expected of it."""
        self._liveness = LivenessLock(self._token)
        try:
            entered = queue.enter(self._token, resources, reason, request, condition)
            if entered is None:
                raise TakenMeanwhile("somebody has entered the queue meanwhile", hint="try again")
        except BaseException:
            self._liveness.release()
            raise
        self._entered = entered
        self._has_started = self._has_left = False
        self._position, self._asked = "", 0.0
        self._raw: list[Any] = []
        """What the store had when it was last asked whether this process may start."""

    def want(self, resources: Iterable[Resource], run: RunDirectory | None) -> None:
        """Say what is needed besides what was known on entering, and for which run."""
        self._entered = self._queue.want(self._token, resources, run)

    def start(self) -> Lease:
        """Return the lease of all that was wanted; raise BusyError with what there is to wait for.

        Raise Cancelled when the entry was taken out of the queue.
        """
        began = boot_time()
        now, raw = self._queue.raw()
        self.admission = replace(self.admission, waited=now - self._entered)
        if raw == self._raw and now - self._asked < _LOOK:
            raise BusyError(self._position)
        answer = self._queue.try_to_start(self._token)
        if isinstance(answer, Snapshot):
            self._asked, self._raw = now, raw
            self._position = position(answer, self._token)
            if not self.admission.behind:
                start = answer.expected_start(self._token)
                expected = None if start is None else start - answer.now
                behind = self._position.partition("; ")[2]
                self.admission = replace(self.admission, expected=expected, behind=behind)
            raise BusyError(self._position)
        self._has_started = True
        return Lease(self._queue, answer, self._liveness, began)

    def leave(self) -> None:
        """Give the place up, if this process has not started, nor given it up before."""
        if not (self._has_started or self._has_left):
            self._has_left = True
            try:
                self._queue.leave(self._token)
            except LabError:
                self._liveness.abandon()  # it is then found interrupted, and blocks nobody
            else:
                self._liveness.release()

    def abandon(self) -> None:
        """End the wait without a word to the store: the same command finds the place again."""
        if not (self._has_started or self._has_left):
            self._has_left = True
            self._liveness.abandon()


def position(found: Snapshot, token: str) -> str:
    """Say which position an entry has, and what it waits for."""
    line = found.line()
    at = next(number for number, one in enumerate(line) if one.token == token)
    return f"{at + 1} of {len(line)} in the queue; {waits_for(found, line[at])}"


def waits_for(found: Snapshot, entry: QueueEntry) -> str:
    """Say what an entry waits for: those who hold what it needs, or the entries before it."""
    if blocking := found.in_the_way(entry):
        error = busy_error(blocking, entry.resources)
        unrecovered = any(one.standing == "unrecovered" for one in blocking)
        return f"{error.args[0]}; {error.hint}" if unrecovered else str(error.args[0])
    if why := found.passed_over(entry):
        return why
    if found.may_start(entry.token):
        return "starts now"
    wanted, line = ResourceIndex(entry.resources), found.line()
    before = line[: line.index(entry)]
    first = next((one for one in before if wanted.overlapping(one.resources)), None)
    return f"free, and kept for {first or 'those before it'}"
