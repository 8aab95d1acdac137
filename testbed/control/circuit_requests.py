"""The controller `circuit-requests`: make the circuits that the ranks of a job ask for.

A request counts when all ranks that it names have made it: each of them has then sent all its data
over the circuits that will be removed. Ranks wait for what they asked for, so requests come one
after the other; one that comes meanwhile all the same waits its turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from testbed.control import protocol
from testbed.control.controller import (
    ChangeCircuits,
    ChangeFailed,
    CircuitsChanged,
    Command,
    CommandJob,
    Fail,
    JobObserved,
    Observation,
    Scope,
    View,
)
from testbed.fabric.circuits import Matching
from testbed.plugins import NoOptions

Request = protocol.CircuitsAsked


@dataclass(frozen=True, slots=True)
class State:
    """The circuits that are lit, the requests that ranks have made, and those that count."""

    known: tuple[Matching, ...]
    """All circuits that the ranks may ask for, by number."""
    lit: Matching
    asked: frozenset[Request] = frozenset()
    due: tuple[Request, ...] = ()
    """The last rank's request of each; the first of them is being made."""
    since: float = 0.0
    """When the first of them was due to be made."""


class CircuitRequests:
    """The controller `circuit-requests` of one job; see the module."""

    def __init__(self, job: str) -> None:
        self._job = job
        self.scopes = (Scope("circuits", job),)

    def begin(self, view: View) -> State:
        """Return the state before any request; raise ValueError where ranks make none."""
        known = view.jobs[self._job].requests
        if not known:
            raise ValueError("its ranks ask for no circuits")
        return State(known, view.circuits)

    def circuits(self, view: View) -> tuple[Matching, ...]:
        """Return all circuits that the ranks may ask for."""
        return view.jobs[self._job].requests

    def wake_at(self, state: State) -> None:
        """Return None: ranks decide when."""

    def step(
        self, state: State, now: float, observation: Observation
    ) -> tuple[State, tuple[Command, ...]]:
        """Return the next state, and commands for the request that is due."""
        match observation:
            case JobObserved(job, protocol.CircuitsAsked() as request) if job == self._job:
                return self._asked(state, now, request)
            case CircuitsChanged() if state.due:
                return self._lit(state, now)
            case ChangeFailed(reason) if state.due:
                reason = f"circuits that the ranks asked for could not be made: {reason}"
                return replace(state, due=()), (Fail(reason),)
        return state, ()

    def _asked(
        self, state: State, now: float, request: Request
    ) -> tuple[State, tuple[Command, ...]]:
        asked = state.asked | {request}
        same = frozenset(one for one in asked if one.key == request.key)
        if not request.of <= {one.rank for one in same}:
            return replace(state, asked=asked), ()
        state = replace(state, asked=asked - same, due=(*state.due, request))
        return self._begun(state, now) if len(state.due) == 1 else (state, ())

    def _begun(self, state: State, now: float) -> tuple[State, tuple[Command, ...]]:
        wanted = state.known[state.due[0].circuits]
        change = ChangeCircuits(state.lit - wanted, wanted - state.lit, identify=True)
        return replace(state, since=now), (change,)

    def _lit(self, state: State, now: float) -> tuple[State, tuple[Command, ...]]:
        """Tell the ranks that the circuits are lit, and go on with the next request."""
        done, *left = state.due
        told = protocol.Acknowledge(done, now - state.since)
        state = replace(state, lit=state.known[done.circuits], due=tuple(left))
        state, commands = self._begun(state, now) if left else (state, ())
        return state, (CommandJob(self._job, told), *commands)


def circuit_requests(options: NoOptions, job: str) -> CircuitRequests:
    """Return the controller `circuit-requests` of a job."""
    return CircuitRequests(job)
