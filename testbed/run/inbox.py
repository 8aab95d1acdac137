"""One queue for everything that happens during a run; one thread reads it.

Agents' links, worker threads and signal handlers add items; the run's own thread takes them out, so
its data needs no locks.
"""

from __future__ import annotations

import queue
import signal
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from threading import TIMEOUT_MAX, Lock
from typing import Any, TypeVar

from testbed.analysis.steps import KINDS
from testbed.clock import Deadline, now
from testbed.control.controller import Observation
from testbed.errors import LabError, TestbedError
from testbed.events.origin import NOWHERE, Origin
from testbed.run.places import Place

_T = TypeVar("_T")
_NOTHING: Mapping[str, Any] = {}
_WORKERS = 16
GRACE = 1.0
"""Seconds that a worker gets to report that its deadline has passed."""


class Interrupted(TestbedError):
    """A signal requested the end of the run."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_code = 128 + number


@dataclass(slots=True)
class Report:
    """An event that an agent sent without a request, and its arrival time here."""

    host: str
    message: Mapping[str, Any]
    received: float
    said: Mapping[str, Any] = field(init=False)
    """The message of a rank that the agent forwarded; empty for any other event."""
    place: Place | None = field(init=False)
    """The place of the process that it is about; None where it is about the host."""

    def __post_init__(self) -> None:
        """Look up once what each report is asked for several times."""
        self.said = self.message.get("said", _NOTHING)
        slot = self.message.get("slot")
        self.place = None if slot is None else Place(self.host, slot)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What came of a command or a timer of one controller: for that one, and for no other."""

    recipient: object
    observation: Observation
    origin: Origin = NOWHERE
    """Where the events come from that it leads to: from the command, or what led to that."""


Item = Report | Observation | Outcome

_SYMPTOMS = ("carrier", "exit", "heartbeat-missed", "lost", "peer-lost", "corrupt", "refused")


class Backlog:
    """What has come and was not handled yet, in the order in which it will be.

    Reports of steps are many and wait; everything else overtakes them, in the order in which it
    came. Those of the same agent are handled before, unless what has come is a symptom of a
    failure: so an agent's reports stay in their order, but for symptoms before steps.
    """

    def __init__(self) -> None:
        self._first: deque[Item | None] = deque()
        self._steps: deque[list[Report]] = deque()
        """Those that wait, each in a list that is empty once it was moved."""
        self._of_host: dict[str, deque[list[Report]]] = {}

    def __bool__(self) -> bool:
        """Tell whether anything waits."""
        return bool(self._first or self._of_host)

    def add(self, item: Item | None) -> None:
        """Take what has come; None only ends a wait."""
        if isinstance(item, Report):
            kind = item.said.get("event") or item.message["event"]
            if kind in KINDS:
                waiting = [item]
                self._steps.append(waiting)
                self._of_host.setdefault(item.host, deque()).append(waiting)
                return
            if kind not in _SYMPTOMS:
                for waiting in self._of_host.pop(item.host, ()):
                    self._first.append(waiting.pop())
        self._first.append(item)

    def take(self) -> Item | None:
        """Return what is next; raise queue.Empty where nothing is."""
        if self._first:
            return self._first.popleft()
        while self._steps:
            if waiting := self._steps.popleft():
                report = waiting.pop()
                of_host = self._of_host[report.host]
                of_host.popleft()
                if not of_host:
                    del self._of_host[report.host]
                return report
        raise queue.Empty


Handler = Callable[[Item], None]


class Inbox:
    """The queue, its handler, and the workers that put their results into it."""

    def __init__(self) -> None:
        self.handler: Handler = lambda item: None
        """Takes every item, in the run's own thread, while it waits."""
        self.signals: list[int] = []
        """The signals that have come."""
        self._raised = 0
        self._stop: TestbedError | None = None
        self._is_stoppable = True
        self._items: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._backlog = Backlog()
        self._asleep = Lock()
        """Held while nothing has come since the last look."""
        self._timers: dict[object, tuple[float, Outcome]] = {}
        """By whom it was set: when a timer is over, and the outcome of that."""
        self._workers = ThreadPoolExecutor(_WORKERS, "worker")
        self._under_way: set[Future[Any]] = set()

    def listen(self, host: str, message: Mapping[str, Any], received: float) -> None:
        """Add an agent's event; callable from any thread."""
        self._put(Report(host, message, received))

    def observe(self, observation: Observation | Outcome) -> None:
        """Add what all controllers observe, or the outcome of one's command; from any thread."""
        self._put(observation)

    def set_timer(self, of: object, at: float, expiry: Outcome) -> None:
        """Have an outcome handled at an instant, in place of a timer set before for the same.

        Only from the run's own thread, which waits no longer than that.
        """
        self._timers[of] = at, expiry

    def cancel_timer(self, of: object) -> None:
        """Forget a timer, if there is one that is not over yet. Only from the run's own thread."""
        self._timers.pop(of, None)

    def interrupt(self, number: int) -> None:
        """Add a signal; the present wait ends with Interrupted."""
        self.signals.append(number)
        self._put(None)

    def stop(self, problem: TestbedError) -> None:
        """Make the present or the next wait raise this error."""
        self._stop = problem
        self._put(None)

    @contextmanager
    def handled_by(self, handler: Handler) -> Iterator[None]:
        """Replace the handler of items during this block."""
        before, self.handler = self.handler, handler
        try:
            yield
        finally:
            self.handler = before

    def in_worker(self, what: str, action: Callable[[Deadline], _T], deadline: Deadline) -> _T:
        """Run a blocking call in a worker and handle items meanwhile; return its result.

        A signal ends the wait at once, even if the worker still runs. Errors are those of `result`.
        """
        return self.result(self.submit(lambda: action(deadline)), deadline, what)

    def submit(self, action: Callable[[], _T]) -> Future[_T]:
        """Run a blocking call in a worker thread; its end wakes the present wait.

        If no thread can be started, the call is made in this thread.
        """
        future: Future[_T] = Future()
        self._under_way.add(future)
        future.add_done_callback(self._done)
        begun, context = Lock(), copy_context()  # whatever led to it led to what it writes, too

        def act() -> None:
            if not begun.acquire(blocking=False):
                return  # the pool that had no thread for it has kept it for later all the same
            try:
                future.set_result(context.run(action))
            except BaseException as error:
                future.set_exception(error)

        try:
            self._workers.submit(act)
        except RuntimeError:
            act()
        return future

    def _done(self, future: Future[Any]) -> None:
        self._under_way.discard(future)
        self._put(None)

    def work_under_way(self) -> Callable[[Deadline], bool] | None:
        """Return a function that waits for the busy workers, or None when none is busy.

        The function returns whether they were done before the deadline.
        """
        busy = [future for future in list(self._under_way) if not future.done()]
        return (lambda deadline: not wait(busy, deadline.left).not_done) if busy else None

    def check(self) -> None:
        """Raise Interrupted for a signal, or the error given to `stop`, if not raised yet."""
        if self._raised < len(self.signals):
            self._raised += 1
            raise Interrupted(self.signals[self._raised - 1])
        if self._stop and self._is_stoppable:
            problem, self._stop = self._stop, None
            raise problem

    @contextmanager
    def unstoppable(self) -> Iterator[None]:
        """Postpone errors given to `stop` until the end of this block; signals still end waits."""
        self._is_stoppable = False
        try:
            yield
        finally:
            self._is_stoppable = True

    def wait(self, until: Callable[[], bool], deadline: Deadline) -> bool:
        """Handle items until a condition holds or the deadline passes; return whether it holds.

        Raise Interrupted when a signal comes first, or the error given to `stop`. Neither the
        deadline nor a signal is delayed by queued items.
        """
        while not until():
            self.check()
            try:
                item = self._next(deadline)
            except queue.Empty:
                return until()
            if item is not None:
                self.handler(item)
            if deadline.passed:
                return until()
        return True

    def _put(self, item: Item | None) -> None:
        """Add an item and wake the waiting thread; may interrupt itself, in a signal's handler."""
        self._items.put(item)
        with suppress(RuntimeError):  # it is awake already
            self._asleep.release()

    def _next(self, deadline: Deadline) -> Item | None:
        """Return the next item; raise queue.Empty when none comes before the deadline.

        Not with the queue's own timeout: one that is over when the thread goes on, after a stop of
        the process or on a busy machine, is negative there and waits for ever (CPython 3.7 to
        3.13).
        """
        self._sort()
        while not self._backlog:
            left = min(deadline.left, self._until_timer(), TIMEOUT_MAX)
            if not self._asleep.acquire(timeout=left) and deadline.passed:
                break
            self._sort()
        return self._backlog.take()

    def _until_timer(self) -> float:
        """Return how many seconds are left of the next timer, if any."""
        if not self._timers:
            return TIMEOUT_MAX
        return max(0.0, min(at for at, _ in self._timers.values()) - now())

    def _sort(self) -> None:
        """Move what has come so far, and timers that are over, into the backlog."""
        for _ in range(self._items.qsize()):
            self._backlog.add(self._items.get_nowait())
        if self._timers and not self._until_timer():
            over = [of for of, (at, _) in self._timers.items() if at <= now()]
            for of in over:
                self._backlog.add(self._timers.pop(of)[1])

    def result(self, future: Future[_T], deadline: Deadline, what: str) -> _T:
        """Return a worker's result, handling items meanwhile.

        The worker observes the deadline itself; it gets a second more to report that it passed.
        Raise its error, or LabError when it does not end.
        """
        if not self.wait(future.done, deadline.later(GRACE)):
            raise LabError(f"{what} did not end in time", hint="see events.jsonl for what it did")
        return future.result()

    def pause(self, deadline: Deadline) -> None:
        """Handle items until the deadline."""
        self.wait(lambda: False, deadline)

    def close(self) -> None:
        """Release the workers; those that are still blocked end on their own."""
        self._workers.shutdown(wait=False, cancel_futures=True)
