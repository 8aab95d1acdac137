"""Undo the changes that a dead run left, by its own directory alone.

The entries of its journal are undone last first, each with its own limit. The recovery may be
killed and repeated: verified undos are marked in the same journal.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import closing

from testbed.clock import Deadline
from testbed.errors import EXIT_PASSED, TestbedError
from testbed.events import Subscriber
from testbed.record.journal import Journal, open_entries
from testbed.record.lease import Lease
from testbed.record.lease_rules import Resource
from testbed.record.leases import Leases
from testbed.record.log import EventLog, read_events
from testbed.record.rundir import RunDirectory
from testbed.run.crash_recovery.journal_replay import JournalReplay, beginning, resources
from testbed.run.inbox import Inbox
from testbed.run.twin_control import TwinControl
from testbed.schema import Lab

_TAKE_LIMIT = 20.0


def recover(
    run: RunDirectory,
    lab: Lab,
    leases: Leases,
    inbox: Inbox,
    twin: TwinControl | None = None,
    subscriber: Subscriber = lambda event: None,
) -> int:
    """Undo the changes of a dead run and verify that; return the exit code, which is also logged.

    `twin` controls the twin that this process is in, if it is in one. Raise BusyError while
    the run is alive, while another process recovers it, or while another run has its resources.
    """
    with closing(Journal.resume(run.journal)) as journal:
        entries = open_entries(run.journal)
        if not entries:
            _take_leases_over(run, leases, (), inbox).release()
            _end_empty_record(run, subscriber)
            return EXIT_PASSED
        with closing(EventLog.resume(run.events)) as log:  # first: what it raises, leases nothing
            log.subscribe(subscriber)
            lease = _take_leases_over(run, leases, resources(lab, entries), inbox)
            try:
                return JournalReplay(lab, run, journal, log, inbox, twin).run(lease)
            finally:
                lease.end(run.journal)


def _take_leases_over(
    run: RunDirectory, leases: Leases, wanted: Iterable[Resource], inbox: Inbox
) -> Lease:
    """Lease what a run had, in a worker, so that a signal ends the wait for a store that is slow.

    A lease that comes after that is left as if this process had died.
    """
    taking = inbox.submit(lambda: leases.take_over(run, "recover", wanted))
    try:
        return inbox.result(taking, Deadline.after(_TAKE_LIMIT), "taking the leases over")
    except TestbedError:
        taking.add_done_callback(_leave_late_lease)
        raise


def _leave_late_lease(taken: Future[Lease]) -> None:
    if not taken.cancelled() and not taken.exception():
        taken.result().abandon()


def _end_empty_record(run: RunDirectory, subscriber: Subscriber) -> None:
    """End the record of a run that has no open entry, unless it says already that all is undone."""
    if _is_verified(run):
        return
    with closing(EventLog.resume(run.events)) as log:
        log.subscribe(subscriber)
        log.append("recover.begin", run.id, **beginning([]))
        log.append("recover.end", run.id, left=[], exit_code=EXIT_PASSED)


def _is_verified(run: RunDirectory) -> bool:
    """Return whether the last attempt to undo everything, by the run or after it, succeeded."""
    for event in reversed(list(read_events(run.events))):
        if event.kind == "recover.end":
            return bool(event.data["exit_code"] == EXIT_PASSED)
        if event.kind == "run.end":
            return bool(event.data["cleanup"] == "verified")
    return False


def write_off(run: RunDirectory, why: str, subscriber: Subscriber = lambda event: None) -> int:
    """Close all undo entries of a run in a twin that no longer exists, without any undo."""
    with closing(Journal.resume(run.journal)) as journal:
        if entries := open_entries(run.journal):
            with closing(EventLog.resume(run.events)) as log:
                log.subscribe(subscriber)
                log.append("recover.begin", run.id, **beginning(entries))
                log.append("cleanup.begin", "everything")
                log.append("note", run.id, text=why)
                for entry in entries:
                    journal.settle(entry["id"])
                log.append("cleanup.end", "everything", verified=True, problem="")
                log.append("recover.end", run.id, left=[], exit_code=EXIT_PASSED)
    return EXIT_PASSED
