"""What must be taken back, done last first, each with its own limit, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from testbed.clock import Deadline
from testbed.errors import TestbedError, UnsafeError
from testbed.record.log import EventLog
from testbed.run.inbox import Inbox, Interrupted

Action = Callable[[Deadline], None]

_HURRIED = 2.0
"""Seconds that each step gets after a second signal."""


@dataclass(frozen=True, slots=True, eq=False)
class Promise:
    """One step, promised."""

    what: str
    action: Action
    limit: float


class Cleanup:
    """The undo steps of a run; `run` does them all, and is never cut short by one that fails."""

    def __init__(self, inbox: Inbox, log: EventLog) -> None:
        self._inbox = inbox
        self._log = log
        self._entries: list[Promise] = []
        self._is_hurrying = False
        self.failures: list[str] = []
        """What could not be taken back, in words."""

    def push(self, what: str, action: Action, limit: float) -> Promise:
        """Promise a step before the act that makes it necessary."""
        promise = Promise(what, action, limit)
        self._entries.append(promise)
        return promise

    def keep(self, promise: Promise) -> None:
        """Do one step now instead of at the end; raise UnsafeError when it fails.

        A signal meanwhile does not cut it short; Interrupted is raised afterwards.
        """
        problem = self._recorded(promise)
        self._entries.remove(promise)
        if problem:
            raise UnsafeError(f"{promise.what} failed: {problem}")
        if self._inbox.signals:
            raise Interrupted(self._inbox.signals[0])

    def run(self) -> None:
        """Do every step, last first; a third signal leaves the rest undone and says what.

        A record that can no longer be kept does not stop it.
        """
        self._log.required = False
        limit = sum(entry.limit for entry in self._entries)
        self._log.append("phase", "restore", limit=limit)
        while self._entries:
            entry = self._entries.pop()
            self._recorded(entry)
            if len(self._inbox.signals) > 2:
                self.failures += [f"{entry.what}: not done" for entry in reversed(self._entries)]
                return

    def _recorded(self, entry: Promise) -> str:
        self._log.append("cleanup.begin", entry.what)
        problem = self._do(entry)
        self._log.append("cleanup.end", entry.what, verified=not problem, problem=problem)
        if problem:
            self.failures.append(f"{entry.what}: {problem}")
        return problem

    def _do(self, entry: Promise) -> str:
        """Do one step; return what went wrong, or an empty string."""
        limit = min(entry.limit, _HURRIED) if self._is_hurrying else entry.limit
        deadline = Deadline.after(limit)
        future = self._inbox.submit(lambda: entry.action(deadline))
        while True:
            try:
                self._inbox.result(future, deadline, entry.what)
            except Interrupted:
                if len(self._inbox.signals) > 2:
                    return "left in the middle"
                if len(self._inbox.signals) == 2:
                    self._hurry()
                    deadline = deadline.within(_HURRIED)
            except TestbedError as error:
                return str(error)
            except Exception as error:  # a bug in one step must not cost all the others
                return f"{type(error).__name__}: {error}"
            else:
                return ""

    def _hurry(self) -> None:
        if not self._is_hurrying:
            self._is_hurrying = True
            text = f"hurrying: at most {_HURRIED:g} s for each step that is left"
            self._log.append("note", "signal", text=text)
