"""The undo steps of a run, carried out last first, each with its own time limit."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock

from testbed.clock import Deadline
from testbed.errors import EXIT_UNSAFE, LabError, TestbedError, UnsafeError
from testbed.record.log import EventLog
from testbed.run.inbox import Inbox, Interrupted

Action = Callable[[Deadline], None]

_HURRIED = 2.0
"""Seconds that each step gets after a second signal."""

_UNDER_WAY = 10.0
"""Seconds for the operation in progress when the run was ended: it must not act during clean-up."""


@dataclass(frozen=True, slots=True, eq=False)
class CleanupStep:
    """One undo step, and its time limit in seconds."""

    what: str
    action: Action
    limit: float


class CancellableWait:
    """A wait of one thread, before it changes anything, that another thread may cancel."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_on = False
        self._is_cancelled = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait inside this block; raise LabError at its end when the wait was cancelled."""
        with self._lock:
            self._is_on, self._is_cancelled = True, False
        try:
            yield
        finally:
            with self._lock:
                self._is_on = False
        if self._is_cancelled:
            raise LabError("a signal cancelled the wait for it")

    def cancel(self) -> bool:
        """Cancel the wait in progress; return whether there was one."""
        with self._lock:
            self._is_cancelled = self._is_cancelled or self._is_on
            return self._is_on


class Cleanup:
    """The undo steps of a run; `run` carries all out, also after one of them fails."""

    def __init__(self, inbox: Inbox, log: EventLog) -> None:
        self._inbox = inbox
        self._log = log
        self._entries: list[CleanupStep] = []
        self._is_hurrying = False
        self.wait = CancellableWait()
        """What a step waits for before it changes anything; the first signal cancels it."""
        self.failures: list[str] = []
        """What could not be taken back, in words."""
        self._failed: list[Future[None] | None] = []
        """Of each failure, what its step does in a worker; None for one that was not begun."""

    def push(self, what: str, action: Action, limit: float) -> CleanupStep:
        """Add an undo step before the change that it will undo."""
        step = CleanupStep(what, action, limit)
        self._entries.append(step)
        return step

    def run_now(self, step: CleanupStep) -> None:
        """Carry out one undo step now instead of at the end; raise UnsafeError when it fails.

        A signal meanwhile does not cut it short; Interrupted is raised afterwards.
        """
        with self._inbox.unstoppable():
            problem = self._do_recorded(step)
        self._entries.remove(step)
        if problem:
            raise UnsafeError(f"{step.what} failed: {problem}")
        if self._inbox.signals:
            raise Interrupted(self._inbox.signals[0])

    def run(self) -> None:
        """Carry out every undo step, last first; a third signal stops and names the remaining ones.

        A log that cannot be written does not stop it, nor does a request to stop the run.
        """
        self._log.required = False
        with self._inbox.unstoppable():
            self._run()

    def _run(self) -> None:
        if settle := self._inbox.work_under_way():
            self.push("what was under way", lambda limit: self._settle(settle, limit), _UNDER_WAY)
        self._log.append("phase", "restore", limit=sum(step.limit for step in self._entries))
        self._handle_earlier_signals()
        while self._entries:
            entry = self._entries.pop()
            self._do_recorded(entry)
            if len(self._inbox.signals) > 2:
                self.failures += [f"{entry.what}: not done" for entry in reversed(self._entries)]
                self._failed += [None] * len(self._entries)
                return

    def _do_recorded(self, entry: CleanupStep) -> str:
        """Do one step; return what went wrong, or an empty string."""
        self._log.append("cleanup.begin", entry.what)
        limit = min(entry.limit, _HURRIED) if self._is_hurrying else entry.limit
        deadline = Deadline.after(limit)
        future = self._inbox.submit(lambda: entry.action(deadline))
        problem = self._await(future, deadline, entry)
        self._log.append("cleanup.end", entry.what, verified=not problem, problem=problem)
        if problem:
            self.failures.append(f"{entry.what}: {problem}")
            self._failed.append(future)
        return problem

    def _await(self, future: Future[None], deadline: Deadline, entry: CleanupStep) -> str:
        """Wait until a step is done; return what went wrong, or an empty string."""
        while True:
            try:
                self._inbox.result(future, deadline, entry.what)
            except Interrupted:
                if len(self._inbox.signals) > 2:
                    return "left in the middle"
                if self.wait.cancel():
                    name = signal.Signals(self._inbox.signals[-1]).name
                    return f"{name} ended the wait for it; nothing of it was touched"
                if len(self._inbox.signals) == 2:
                    self._hurry()
                    deadline = deadline.within(_HURRIED)
                else:
                    self._explain_signals(deadline.left, entry)
            except TestbedError as error:
                return str(error)
            except Exception as error:  # a bug in one step must not cost all the others
                return f"{type(error).__name__}: {error}"
            else:
                return ""

    def exit_codes(self) -> set[int]:
        """Return the exit codes of the failures; EXIT_UNSAFE also for a step that did not end."""
        errors = [work.exception() if work and work.done() else None for work in self._failed]
        return {e.exit_code if isinstance(e, TestbedError) else EXIT_UNSAFE for e in errors}

    def _handle_earlier_signals(self) -> None:
        with suppress(Interrupted):  # it was not said yet; it is now
            self._inbox.check()
        if self._inbox.signals:
            self._explain_signals()
        if len(self._inbox.signals) > 1:
            self._hurry()

    def _settle(self, settle: Callable[[Deadline], bool], deadline: Deadline) -> None:
        """Let what was under way end; where it does not, the steps that follow are verified."""
        if not settle(deadline):
            text = "what was under way did not end in time; all is taken back all the same"
            self._log.append("note", "clean-up", text=text)

    def _explain_signals(self, left: float = 0.0, now: CleanupStep | None = None) -> None:
        """Say what is taken back, in how many seconds at most, and how that can be hurried.

        `now` is the step under way, which has `left` seconds.
        """
        to_come = [entry for entry in reversed(self._entries) if entry is not now]
        steps = dict.fromkeys(entry.what for entry in ([now] if now else []) + to_come)
        limit = left + sum(entry.limit for entry in to_come)
        name = signal.Signals(self._inbox.signals[0]).name
        again = "press Ctrl-C again" if name == "SIGINT" else "send another signal"
        text = (
            f"stopping: taking back {', '.join(steps) or 'nothing'}, at most {limit:.0f} s; "
            f"{again} to hurry, a third time to leave"
        )
        self._log.append("note", name, text=text)

    def _hurry(self) -> None:
        if not self._is_hurrying:
            self._is_hurrying = True
            text = f"hurrying: at most {_HURRIED:g} s for each step that is left"
            self._log.append("note", signal.Signals(self._inbox.signals[1]).name, text=text)
