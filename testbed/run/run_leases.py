"""The leases of a run: taken first, renewed, and released last."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar

from testbed.bench.bench import Bench
from testbed.bench.lease_resources import needs
from testbed.clock import Deadline, now
from testbed.commands import typed
from testbed.errors import BusyError, LabError, UnsafeError
from testbed.record.claim_registry import RecoveryRequired
from testbed.record.journal import open_entries
from testbed.record.lab_queue import Cancelled
from testbed.record.lease import Lease
from testbed.record.lease_rules import LEASE_TTL, Resource
from testbed.record.leases import Leases
from testbed.record.log import EventLog
from testbed.record.queue_place import Admission, QueuePlace
from testbed.record.rundir import RunDirectory
from testbed.run.cleanup import Cleanup
from testbed.run.inbox import Inbox
from testbed.run.time_limits import RESTORE_LIMIT

_TAKE_LIMIT = 20.0
_T = TypeVar("_T")
_TRY = 0.5
"""Seconds between two tries of a run that waits."""


@dataclass(slots=True)
class RunLeases:
    """The leases of one run; it waits at most `patience` seconds for them.

    With `place` it waits in the lab's queue, else it tries until they are free.
    """

    leases: Leases
    run: RunDirectory
    reason: str
    log: EventLog
    inbox: Inbox
    patience: float = 0.0
    place: QueuePlace | None = None
    _patience_ends: Deadline = field(default_factory=lambda: Deadline.after(0.0))
    _lease: Lease | None = None
    _admission: Admission | None = None
    """How the lab's queue let the run start, where it waited in one."""

    def take(
        self,
        bench: Bench,
        hosts: Iterable[str],
        whole: Iterable[str] = (),
        besides: frozenset[Resource] = frozenset(),
    ) -> None:
        """Lease hosts with their ports and outlets, whole instruments, and `besides`.

        Raise BusyError when another holder has one of them for longer than this run's patience.
        From now on the loss of a lease ends the run.
        """
        self._patience_ends = Deadline.after(self.patience)
        wanted = self.inbox.in_worker(
            "looking up the names of the lab",
            lambda _: needs(bench.lab, hosts, whole) | besides,
            Deadline.after(_TAKE_LIMIT),
        )

        lease = self._in_turn(wanted, self.place) if self.place else self._when_free(wanted)
        lease.when_lost(self.inbox.stop)
        bench.guard.hold(lease)
        admitted: dict[str, Any] = asdict(self._admission) if self._admission else {}
        self.log.append("lease.taken", "", resources=sorted(set(map(str, wanted))), **admitted)

    def _when_free(self, wanted: frozenset[Resource]) -> Lease:
        def take() -> Lease:
            self._lease = self.leases.take(wanted, self.reason, self.run)
            return self._lease

        return self._take_with_retries(take)

    def _in_turn(self, wanted: frozenset[Resource], place: QueuePlace) -> Lease:
        """Wait in the queue for what is wanted; whatever ends the wait, the place is given up.

        A store that does not answer for long ends it, too; the place is then kept for this run.
        """

        def start() -> Lease:
            self._lease = place.start()
            return self._lease

        limit = Deadline.after(_TAKE_LIMIT)
        try:
            self.inbox.in_worker(
                "writing into the queue", lambda _: place.want(wanted, self.run), limit
            )
            lease = self._take_with_retries(start)
        except LabError:
            place.abandon()
            raise
        finally:
            place.leave()
        self._admission = place.admission
        return lease

    def take_identified(self, bench: Bench) -> float:
        """Lease instruments under their reported identities too; return the seconds waited.

        Raise BusyError when another holder has leased one under another name for longer than this
        run's patience.
        """
        began = now()
        self._take_with_retries(bench.guard.lease_reported_identities)
        return now() - began

    def before_cleanup(self, cleanup: Cleanup) -> None:
        """Stop ending the run on a lost lease, and lease lost resources again if they are free."""
        if lease := self._lease:
            lease.when_lost(lambda error: None)
            if lease.is_lost:
                cleanup.push("lost leases", partial(self._regain, lease), RESTORE_LIMIT)

    def _regain(self, lease: Lease, _: Deadline) -> None:
        if lease.regain():
            self.log.append("lease.regained", "")
            return
        text = "what was lost belongs to another holder now and is not touched any more"
        self.log.append("note", "leases", text=text)

    def give_back(self, _: Deadline) -> None:
        """Release all leases, unless something is still changed: then `recover` must run first."""
        if self._lease is None:
            return
        if left := open_entries(self.run.journal):
            self._lease.abandon()
            kinds = ", ".join(sorted({str(entry["undo"]) for entry in left}))
            raise UnsafeError(
                f"the leases stay, because these changes were not taken back: {kinds}",
                hint=f"type: {typed('recover', str(self.run.path))}",
            )
        self._lease.release()

    def _take_with_retries(self, take: Callable[[], _T]) -> _T:
        """Try to take something until it is free or this run's patience is over.

        While it waits in a queue, a store that does not answer is asked again for LEASE_TTL.
        """
        told, began, patience = "", now(), self._patience_ends
        away: Deadline | None = None
        while True:
            try:  # in a worker, so that a signal ends the wait for a store that is slow
                limit = Deadline.after(_TAKE_LIMIT)
                taken = self.inbox.in_worker("taking the leases", lambda _: take(), limit)
            except (RecoveryRequired, Cancelled):
                raise
            except LabError as error:
                away = away or Deadline.after(LEASE_TTL)
                if self.place is None or self._lease is not None or away.passed:
                    raise
                if (problem := str(error.args[0])) != told:
                    told = problem
                    self.log.append("lease.wait", "", holder=problem)
            except BusyError as busy:
                away = None
                if self._lease is not None and self._lease.is_lost:
                    raise
                if patience.passed and self.patience > 0:
                    text = f"{busy.args[0]}; gave up after {now() - began:.1f} s"
                    raise BusyError(text, hint=busy.hint) from busy
                if patience.passed:
                    raise
                if (holder := str(busy.args[0])) != told:
                    told = holder
                    self.log.append("lease.wait", "", holder=holder)
            else:
                if told:
                    self.log.append("note", "leases", text=f"waited {now() - began:.1f} s")
                return taken
            self.inbox.pause(patience.within(_TRY))
