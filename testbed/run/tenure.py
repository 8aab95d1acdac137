"""How a run comes to what it needs of the lab, keeps it, and gives it back last of all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from testbed.bench.bench import Bench
from testbed.bench.lease_resources import needs
from testbed.clock import Deadline, now
from testbed.commands import typed
from testbed.errors import BusyError, UnsafeError
from testbed.record.journal import open_entries
from testbed.record.lease import Lease
from testbed.record.lease_rules import Resource
from testbed.record.leases import Leases, Owed
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.run.cleanup import Cleanup
from testbed.run.inbox import Inbox
from testbed.run.limits import RESTORE_LIMIT

_TAKE_LIMIT = 20.0
_T = TypeVar("_T")
_TRY = 0.5
"""Seconds between two tries of a run that waits."""


class Tenure:
    """The leases of one run; it waits at most `patience` seconds for them."""

    def __init__(
        self,
        leases: Leases,
        run: RunDirectory,
        reason: str,
        log: EventLog,
        inbox: Inbox,
        patience: float = 0.0,
    ) -> None:
        self._leases = leases
        self._run = run
        self._reason = reason
        self._log = log
        self._inbox = inbox
        self._patience = patience
        self._patience_ends = Deadline.after(0.0)
        self._lease: Lease | None = None

    def begin(
        self,
        bench: Bench,
        hosts: Iterable[str],
        whole: Iterable[str] = (),
        besides: frozenset[Resource] = frozenset(),
    ) -> None:
        """Lease hosts with their ports and outlets, whole instruments, and more for a bench.

        Raise BusyError when somebody else has one of them for longer than this run's patience.
        From now on the loss of a lease ends the run.
        """
        self._patience_ends = Deadline.after(self._patience)
        looking_up = self._inbox.submit(lambda: needs(bench.lab, hosts, whole) | besides)
        limit = Deadline.after(_TAKE_LIMIT)
        wanted = self._inbox.result(looking_up, limit, "looking up the names of the lab")

        def take() -> Lease:
            self._lease = self._leases.take(wanted, self._reason, self._run)
            return self._lease

        lease = self._won(take)
        lease.when_lost(self._inbox.stop)
        bench.hold(lease)
        self._log.append("lease.taken", "", resources=sorted(set(map(str, wanted))))

    def widen(self, bench: Bench) -> float:
        """Lease what has answered by what it is, too; return the seconds that this had to wait.

        Raise BusyError when somebody else has it under another name for longer than this run's
        patience.
        """
        began = now()
        self._won(bench.lease_reported_identities)
        return now() - began

    def prepare_end(self, cleanup: Cleanup) -> None:
        """Let a loss no longer end the run; what was lost is taken again first, if it is free."""
        if self._lease is None:
            return
        self._lease.when_lost(lambda error: None)
        if self._lease.is_lost:
            cleanup.push("lost leases", partial(self._regain, self._lease), RESTORE_LIMIT)

    def _regain(self, lease: Lease, _: Deadline) -> None:
        if lease.regain():
            self._log.append("lease.regained", "")
            return
        text = "what was lost belongs to somebody else now and is not touched any more"
        self._log.append("note", "leases", text=text)

    def end(self, _: Deadline) -> None:
        """Give all back, unless something is still changed: then `recover` must come first."""
        if self._lease is None:
            return
        if left := open_entries(self._run.journal):
            self._lease.leave()
            kinds = ", ".join(sorted({str(entry["undo"]) for entry in left}))
            raise UnsafeError(
                f"the leases stay, for not all was taken back: {kinds}",
                hint=f"type: {typed('recover', str(self._run.path))}",
            )
        self._lease.release()

    def _won(self, take: Callable[[], _T]) -> _T:
        """Try to take something until it is free or this run's patience is over."""
        told, began, patience = "", now(), self._patience_ends
        while True:
            try:
                taken = self._tried(take)
            except Owed:
                raise
            except BusyError as busy:
                if self._lease is not None and self._lease.is_lost:
                    raise
                if patience.passed and self._patience > 0:
                    raise _in_vain(busy, now() - began) from busy
                if patience.passed:
                    raise
                if (holder := str(busy.args[0])) != told:
                    told = holder
                    self._log.append("lease.wait", "", holder=holder)
            else:
                if told:
                    self._log.append("note", "leases", text=f"waited {now() - began:.1f} s")
                return taken
            self._inbox.pause(patience.within(_TRY))

    def _tried(self, take: Callable[[], _T]) -> _T:
        """Try once, in a worker, so that a signal ends the wait for a store that is slow."""
        deadline = Deadline.after(_TAKE_LIMIT)
        return self._inbox.result(self._inbox.submit(take), deadline, "taking the leases")


def _in_vain(busy: BusyError, seconds: float) -> BusyError:
    """Return the error that says besides how long somebody has been waited for."""
    return BusyError(f"{busy.args[0]}; waited {seconds:.1f} s in vain", hint=busy.hint)
