"""One controller at work: its state, its timer, and the outcomes of its commands."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from testbed.clock import now
from testbed.control.controller import Command, Controller, Observation, TimerExpired, View
from testbed.errors import TestbedError
from testbed.events.origin import current_origin
from testbed.run.inbox import Inbox, Outcome


class ActiveController:
    """A controller in one trial. It steps in the run's own thread; outcomes may come from any."""

    def __init__(self, name: str, controller: Controller, view: View, inbox: Inbox) -> None:
        """Let the controller begin; raise ValueError where its options do not fit the view."""
        self.name = name
        self.controller = controller
        self.state: Any = controller.begin(view)
        self.work: set[Future[None]] = set()
        """What carries its commands out in workers now."""
        self.has_ended = False
        """It observes nothing more; what of its commands has not moved anything yet must not."""
        self._inbox = inbox
        self._wake_at: float | None = None
        self._expiry: Outcome | None = None
        """What the timer that is set puts into the inbox; one from before it counts no more."""

    def step(self, observation: Observation) -> tuple[Command, ...]:
        """Return what the controller commands upon an observation, its timer set anew."""
        return self._step(now(), observation)

    def take(self, outcome: Outcome) -> tuple[Command, ...]:
        """Return what the controller commands upon an outcome; a timer set anew since is none."""
        if not isinstance(outcome.observation, TimerExpired):
            return self.step(outcome.observation)
        if outcome is not self._expiry or self._wake_at is None:
            return ()
        at = max(now(), self._wake_at)  # never before the time that it asked for
        self.stop_timer()
        return self._step(at, outcome.observation)

    def _step(self, at: float, observation: Observation) -> tuple[Command, ...]:
        self.state, commands = self.controller.step(self.state, at, observation)
        self.set_timer()
        return commands

    def set_timer(self) -> None:
        """Have the controller woken at the time that it wants now."""
        wake_at = self.controller.wake_at(self.state)
        if wake_at == self._wake_at:
            return
        self.stop_timer()
        if wake_at is None:
            return
        self._wake_at, self._expiry = wake_at, Outcome(self, TimerExpired())
        self._inbox.set_timer(self, wake_at, self._expiry)

    def end(self) -> None:
        """Let it observe nothing more. Safe to call twice."""
        self.has_ended = True
        self.stop_timer()

    def stop_timer(self) -> None:
        """Let the controller sleep until it observes something. Safe to call twice."""
        self._inbox.cancel_timer(self)
        self._expiry = self._wake_at = None

    # --- outcomes of its commands -----------------------------------------------------------

    def tell(self, outcome: Observation) -> None:
        """Have the controller observe the outcome of a command."""
        self._inbox.observe(Outcome(self, outcome, current_origin()))

    def in_worker(
        self,
        action: Callable[[], Observation | None],
        failed: Callable[[str], Observation],
    ) -> None:
        """Carry out in a worker what blocks, and tell the controller what that returns.

        Of an action that raises, it is told `failed` with the error in words. Of one that returns
        None it is told nothing: what agents report later is the outcome. Any thread.
        """

        def work() -> None:
            outcome: Observation | None
            try:
                outcome = action()
            except TestbedError as error:
                outcome = failed(str(error))
            except Exception as error:  # a bug must have an outcome too: someone waits for it
                outcome = failed(f"{type(error).__name__}: {error}")
            if outcome is not None:
                self.tell(outcome)

        future = self._inbox.submit(work)
        self.work.add(future)
        future.add_done_callback(self.work.discard)
