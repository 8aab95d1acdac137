"""Take back what a run that is over left changed, by its own directory alone.

The promises of its journal are kept last first, through the doors that made them, each with its own
limit. All of it may be done twice, and be killed in the middle: what was verified is settled in
that same journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import Any

from testbed.bench.bench import Bench
from testbed.bench.instrument_factory import opening_seconds
from testbed.bench.parallel import run_parallel
from testbed.clock import Deadline, utc
from testbed.errors import EXIT_PASSED, EXIT_UNSAFE, LabError, TestbedError, UnsafeError
from testbed.events import Subscriber
from testbed.record.journal import Entry, Journal, open_entries
from testbed.record.lease import Lease
from testbed.record.lease_rules import Resource
from testbed.record.leases import Leases
from testbed.record.log import EventLog, read_events
from testbed.record.rundir import RunDirectory
from testbed.run.cleanup import Cleanup
from testbed.run.inbox import Inbox
from testbed.run.promises import alone, needed, what
from testbed.run.tuning import TwinDoor
from testbed.schema import Lab

_TAKE_LIMIT = 20.0
_OPEN_LIMIT = 10.0
_STEP_LIMIT = 45.0
"""Seconds for a step; a switch whose read-back lags must come to rest in them."""
_HOST_LIMIT = 30.0
"""Seconds in which a host that is starting must have answered; all are asked side by side."""


def recover(
    run: RunDirectory,
    lab: Lab,
    leases: Leases,
    inbox: Inbox,
    twin: TwinDoor | None = None,
    subscriber: Subscriber = lambda event: None,
) -> int:
    """Bring back what a run changed and verify it; return the exit code, which its log says too.

    `twin` is the door of the twin around this process, if there is one. Raise BusyError while
    the run is alive, while somebody else recovers it, or while another has what it had.
    """
    journal = Journal.resume(run.journal)
    try:
        promises = open_entries(run.journal)
        if not promises:
            _taken_over(run, leases, (), inbox).release()
            _note_that_nothing_was_left(run, subscriber)
            return EXIT_PASSED
        with closing(EventLog.resume(run.events)) as log:  # first: what it raises, leases nothing
            log.subscribe(subscriber)
            lease = _taken_over(run, leases, needed(lab, promises), inbox)
            try:
                return _Replay(lab, run, journal, log, inbox, twin).run(lease)
            finally:
                lease.end(run.journal)
    finally:
        journal.close()


def _taken_over(
    run: RunDirectory, leases: Leases, wanted: Iterable[Resource], inbox: Inbox
) -> Lease:
    """Lease what a run had, in a worker, so that a signal ends the wait for a store that is slow.

    What comes after that is let go as by a death.
    """
    taking = inbox.submit(lambda: leases.take_over(run, "recover", wanted))
    try:
        return inbox.result(taking, Deadline.after(_TAKE_LIMIT), "taking the leases over")
    except TestbedError:
        taking.add_done_callback(_let_go)
        raise


def _let_go(taken: Future[Lease]) -> None:
    if not taken.cancelled() and not taken.exception():
        taken.result().leave()


def _note_that_nothing_was_left(run: RunDirectory, subscriber: Subscriber) -> None:
    """Have the record of a run that was killed before its first promise end, too."""
    if any(event.kind in ("run.end", "recover.end") for event in read_events(run.events)):
        return
    with closing(EventLog.resume(run.events)) as log:
        log.subscribe(subscriber)
        log.append("recover.begin", run.id, **_beginning([]))
        log.append("recover.end", run.id, left=[], exit_code=EXIT_PASSED)


def write_off(run: RunDirectory, why: str, subscriber: Subscriber = lambda event: None) -> int:
    """Settle all that a run promised of a twin that is gone: nothing of it is left to take back."""
    journal = Journal.resume(run.journal)
    try:
        promises = open_entries(run.journal)
        if not promises:
            return EXIT_PASSED
        with closing(EventLog.resume(run.events)) as log:
            log.subscribe(subscriber)
            log.append("recover.begin", run.id, **_beginning(promises))
            log.append("cleanup.begin", "everything")
            log.append("note", run.id, text=why)
            for promise in promises:
                journal.settle(promise["id"])
            log.append("cleanup.end", "everything", verified=True, problem="")
            log.append("recover.end", run.id, left=[], exit_code=EXIT_PASSED)
    finally:
        journal.close()
    return EXIT_PASSED


def _beginning(promises: list[Entry]) -> dict[str, Any]:
    return {"utc": utc(), "promises": [what(promise) for promise in promises]}


class _Replay:
    """One run's promises, kept."""

    def __init__(
        self,
        lab: Lab,
        run: RunDirectory,
        journal: Journal,
        log: EventLog,
        inbox: Inbox,
        twin: TwinDoor | None,
    ) -> None:
        self._lab = lab
        self._run = run
        self._journal = journal
        self._log = log
        self._twin = twin
        self._bench = Bench(lab, run, journal, log, lambda host, message, received: None)
        self._cleanup = Cleanup(inbox, log)
        self._problems: dict[str, TestbedError] = {}
        """By step, what kept it from being done."""
        self._opened: dict[str, TestbedError | None] = {}
        self._inherited: frozenset[Resource] = frozenset()
        self._was_dark: set[str] = set()
        """Hosts that had no power: nothing of the run can be left on them."""

    def run(self, lease: Lease) -> int:
        """Keep every open promise and return the exit code."""
        promises = open_entries(self._run.journal)
        self._log.append("recover.begin", self._run.id, **_beginning(promises))
        self._bench.hold(lease)
        self._inherited = lease.inherited
        self._push_all(promises)
        try:
            self._cleanup.run()
        finally:
            self._bench.close_instruments()
        left = self._cleanup.failures
        codes = {self._code_of(step) for step in left}
        code = EXIT_UNSAFE if EXIT_UNSAFE in codes else min(codes, default=EXIT_PASSED)
        self._log.append("recover.end", self._run.id, left=left, exit_code=code)
        return code

    def _push_all(self, promises: list[Entry]) -> None:
        """Push the steps so that what was promised last is done first, and hosts at the end.

        A host may have to start first, and its agent takes back all that happened there.
        """
        by_host: dict[str, list[Entry]] = {}
        elsewhere = []
        for promise in reversed(promises):
            if "host" in promise:
                by_host.setdefault(promise["host"], []).append(promise)
            else:
                elsewhere.append(promise)
        if by_host:
            self._push("hosts", partial(self._keep_on_hosts, by_host), _HOST_LIMIT)
        for promise in elsewhere:
            self._push(what(promise), partial(self._keep, promise), _STEP_LIMIT)

    def _push(self, step: str, action: Callable[[Deadline], None], limit: float) -> None:
        def act(deadline: Deadline) -> None:
            try:
                action(deadline)
            except TestbedError as error:
                self._problems[step] = error
                raise

        self._cleanup.push(step, act, limit)

    def _code_of(self, failure: str) -> int:
        """Return what a failed step means: what did not answer may be as it should."""
        for step, error in self._problems.items():
            if failure.startswith(f"{step}: "):
                return error.exit_code
        return EXIT_UNSAFE

    def _keep(self, promise: Entry, deadline: Deadline) -> None:
        try:
            match promise["undo"]:
                case "circuits":
                    self._keep_circuits(promise, deadline)
                case "outlet":
                    self._keep_power(promise, deadline)
                case "attenuation":
                    self._keep_attenuation(promise, deadline)
                case "far-end-fault":
                    self._door.clear(promise["switch"], promise["fault"])
                    self._journal.settle(promise["id"])
                case "tuning":
                    self._door.tune(promise["settings"])
                    self._journal.settle(promise["id"])
                case kind:
                    raise UnsafeError(
                        f"nothing here knows how to take back {kind!r}",
                        hint=f"do it by hand: {dict(promise)}",
                    )
        except (KeyError, TypeError, ValueError) as error:
            raise UnsafeError(f"{dict(promise)} cannot be understood: {error!r}") from error

    def _keep_circuits(self, promise: Entry, deadline: Deadline) -> None:
        """Bring every switch that answers back, whatever the others do."""
        closed = self._open(promise["ports"], deadline)
        self._bench.open_fabric(())
        fabric = self._bench.fabric
        fabric.adopt_undo(promise, alone(self._lab, promise, self._inherited, self._run))
        try:
            for words in fabric.bring_back(deadline):
                self._log.append("note", what(promise), text=words)
        except TestbedError as error:
            raise _together([*closed, error]) from error
        if closed:
            raise _together(closed)
        fabric.discard_undo()

    def _keep_power(self, promise: Entry, deadline: Deadline) -> None:
        host = self._bench.power.adopt_undo(promise)
        self._open_all([promise["unit"]], deadline)
        if self._bench.power.is_off(host, deadline):
            self._was_dark.add(host)
            text = f"{host} had no power, and starts now"
            self._log.append("note", what(promise), text=text)
        self._bench.power.restore(host, deadline)

    def _keep_attenuation(self, promise: Entry, deadline: Deadline) -> None:
        self._bench.attenuation.adopt_undo(promise)
        self._open_all([promise["attenuator"]], deadline)
        self._bench.attenuation.restore_all(deadline)

    @property
    def _door(self) -> TwinDoor:
        if self._twin is None:
            raise UnsafeError("the twin of that is not here", hint="name it with --twin")
        return self._twin

    def _keep_on_hosts(self, promises: Mapping[str, list[Entry]], deadline: Deadline) -> None:
        """See on every host that nothing of the run is left there; none waits for another."""
        problems: list[TestbedError] = []

        def keep(host: str) -> None:
            try:
                if host in self._was_dark:
                    self._log.append("note", host, text="what ran there ended with its power")
                else:
                    self._bench.reap(host, deadline)
                for promise in promises[host]:
                    self._journal.settle(promise["id"])
            except TestbedError as error:
                problems.append(error)

        run_parallel(keep, list(promises))
        if problems:
            raise _together(problems)

    def _open_all(self, names: Iterable[str], deadline: Deadline) -> None:
        if closed := self._open(names, deadline):
            raise _together(closed)

    def _open(self, names: Iterable[str], deadline: Deadline) -> list[TestbedError]:
        """Open instruments that were not, side by side; return what kept any from it.

        Raise BusyError when one that answered is somebody else's under another name.
        """

        def open_one(name: str) -> TestbedError | None:
            if name not in self._lab.instruments():
                return UnsafeError(f"{name} is no instrument of the lab", hint="look at it by hand")
            try:
                limit = deadline.within(opening_seconds(self._lab, [name], _OPEN_LIMIT))
                self._bench.open_instruments([name], (), limit)
            except TestbedError as error:
                return error
            return None

        wanted = list(names)
        with self._cleanup.waiting.on():
            self._opened |= run_parallel(open_one, [n for n in wanted if n not in self._opened])
        self._bench.lease_reported_identities()
        return [error for name in wanted if (error := self._opened[name])]


def _together(problems: list[TestbedError]) -> TestbedError:
    """Return several problems as one; where something is known to be changed, that counts."""
    if len(problems) == 1:
        return problems[0]
    text = "; ".join(map(str, problems))
    return UnsafeError(text) if EXIT_UNSAFE in {p.exit_code for p in problems} else LabError(text)
