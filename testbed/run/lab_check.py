"""A check of a lab that makes circuits and asks hosts what comes through: its start and its end.

It takes leases, opens switches and hosts, and brings everything back, whatever ends the check.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Generic, TypeVar

from testbed.bench.bench import Bench
from testbed.clock import Deadline
from testbed.errors import EXIT_BUG, EXIT_PASSED, LabError, TestbedError, UnsafeError
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.run.cleanup import Cleanup
from testbed.run.inbox import Inbox, Interrupted
from testbed.run.run_leases import RunLeases
from testbed.schema import Lab

CHANGE_LIMIT = 15.0
"""Seconds that a change of circuits may take beyond the switch's settle time."""
_OPEN_LIMIT = 20.0
_CHECK_LIMIT = 3600.0

_Finding = TypeVar("_Finding")


@dataclass
class LabCheck(ABC, Generic[_Finding]):
    """A check of an open lab; `tell` receives each finding as soon as it is certain."""

    name: ClassVar[str]
    """What it is, for errors."""

    bench: Bench
    journal: Journal
    log: EventLog
    tell: Callable[[_Finding], None]
    _stopped: bool = False

    @abstractmethod
    def run(self) -> list[_Finding]:
        """Return all findings; raise LabError once `end` was called."""

    def end(self, running: Future[list[_Finding]], deadline: Deadline) -> None:
        """Make `run`, which is in progress, stop, and wait until its last circuit is removed.

        Raise UnsafeError when it did not stop, or when the circuit could not be removed.
        """
        self._stopped = True
        wait([running], deadline.left)
        if not running.done():
            raise UnsafeError(
                f"the last circuit of {self.name} was not removed in time",
                hint="check the circuits of the switch",
            )
        if isinstance(error := running.exception(), UnsafeError):
            raise error

    def go_on(self) -> None:
        """Raise LabError once `end` was called."""
        if self._stopped:
            raise LabError(f"{self.name} was ended before all was tried")


def run_lab_check(
    make: Callable[[Bench, Journal], LabCheck[_Finding]],
    lab: Lab,
    run: RunDirectory,
    log: EventLog,
    inbox: Inbox,
    run_leases: RunLeases,
    hosts: Iterable[str],
) -> tuple[list[_Finding], list[str]]:
    """Run a check on some hosts; return the findings, and the changes that could not be undone.

    The log always ends with `run.end`; an error that stopped the check is raised after that.
    """
    findings: list[_Finding] = []
    hosts = sorted(hosts)

    def check(bench: Bench, journal: Journal, cleanup: Cleanup) -> None:
        run_leases.take(bench, hosts)
        findings.extend(_checked(make(bench, journal), hosts, inbox, cleanup))

    return findings, run_on_bench(check, lab, run, log, inbox, run_leases)


def run_on_bench(
    act: Callable[[Bench, Journal, Cleanup], None],
    lab: Lab,
    run: RunDirectory,
    log: EventLog,
    inbox: Inbox,
    run_leases: RunLeases,
) -> list[str]:
    """Do something on a lab, and bring it back; return the changes that could not be undone.

    `act` takes the leases, and adds to the clean-up what it opens and changes. The log always ends
    with `run.end`; an error of `act` is raised after that.
    """
    journal = Journal(run.journal)
    bench = Bench(lab, run, journal, log, inbox.listen)
    cleanup = Cleanup(inbox, log)
    problem: Exception | None = None
    try:
        cleanup.push("leases", run_leases.give_back, CHANGE_LIMIT)
        act(bench, journal, cleanup)
    except Exception as error:  # whatever it is, it must not keep the circuit lit
        problem = error
    run_leases.before_cleanup(cleanup)
    cleanup.run()
    journal.close()
    inbox.close()
    log.append(
        "run.end",
        error=str(problem or ""),
        exit_code=getattr(problem, "exit_code", EXIT_BUG) if problem else EXIT_PASSED,
        cleanup="failed" if cleanup.failures else "verified",
        left=cleanup.failures,
    )
    if problem and cleanup.failures:
        raise _unsafe(problem, cleanup.failures)
    if problem:
        raise problem
    return cleanup.failures


def _unsafe(problem: Exception, left: list[str]) -> TestbedError:
    """Return a problem with what is left behind; a signal stays the problem that is reported."""
    words = f"not taken back: {'; '.join(left)}"
    if isinstance(problem, Interrupted):
        problem.hint = words
        return problem
    return UnsafeError(f"{problem}; {words}", hint="check the circuits of the switch")


def _checked(
    check: LabCheck[_Finding], hosts: list[str], inbox: Inbox, cleanup: Cleanup
) -> list[_Finding]:
    """Open the switches and the hosts, and run a check between them."""
    bench, opening, limit = check.bench, Deadline.after(_OPEN_LIMIT), Deadline.after(_CHECK_LIMIT)
    cleanup.push("instruments", lambda _: bench.close_instruments(), CHANGE_LIMIT)
    open_all = partial(bench.open_instruments, bench.lab.switches)
    inbox.in_worker("opening the switches", open_all, opening)
    bench.guard.lease_reported_identities()
    cleanup.push("agents", bench.close_hosts, CHANGE_LIMIT)
    inbox.in_worker("starting the agents", partial(bench.open_hosts, hosts), opening)
    running = inbox.submit(check.run)
    cleanup.push("circuit", partial(check.end, running), 2 * CHANGE_LIMIT)
    return inbox.result(running, limit, check.name)
