"""A policy that is told when its job goes quiet: no rank says anything of a group, stage or step.

On rails a rank that is gone keeps all others waiting sooner or later, also where no circuit led to
its host when it died, so that no port went dark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from testbed.control import protocol
from testbed.control.controller import (
    Command,
    JobObserved,
    Observation,
    PolicyController,
    TimerExpired,
    View,
)
from testbed.control.policy import Policy

_SIGNS = protocol.GroupJoined | protocol.StageReached | protocol.StageLeft | protocol.StepDone


@runtime_checkable
class PolicyWithWatchdog(Policy, Protocol):
    """A policy that wants to know when nothing is heard of a job for `quiet` seconds."""

    quiet: float


@dataclass(frozen=True, slots=True)
class WatchdogState:
    """The state of a policy, when its job was last heard, and how often it was quiet since."""

    of: Any
    heard: float
    times: int = 0


class WatchdogController(PolicyController):
    """A policy with a watchdog, whose time doubles with each expiry while the job stays quiet."""

    _policy: PolicyWithWatchdog

    def begin(self, view: View) -> WatchdogState:
        """Return the first state, of a job that was heard now."""
        return WatchdogState(super().begin(view), view.now)

    def step(
        self, state: WatchdogState, now: float, observation: Observation
    ) -> tuple[WatchdogState, tuple[Command, ...]]:
        """Return the next state, and the policy's commands as commands of the job."""
        match observation:
            case TimerExpired():
                state = replace(state, times=state.times + 1)
                observation = JobObserved(self._job, protocol.NothingHeard())
            case JobObserved(job, what) if job == self._job and isinstance(what, _SIGNS):
                state = replace(state, heard=now, times=0)
        own, commands = super().step(state.of, now, observation)
        return replace(state, of=own), commands

    def wake_at(self, state: WatchdogState) -> float | None:
        """Return when the job will have been quiet for too long, once more."""
        return state.heard + self._policy.quiet * (2.0 ** (state.times + 1) - 1)

    def is_recovering(self, state: WatchdogState) -> bool:
        """Tell whether the policy has a recovery under way."""
        return super().is_recovering(state.of)
