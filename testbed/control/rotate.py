"""The controller `rotate`: repeat a table of circuits per time slot while the job runs.

A slot lasts a number of steps of the job, or of seconds. By steps, the circuits change when the
last rank has finished the last step of a slot, as rails do between phases of an iteration (Opus,
arXiv 2507.08119); by seconds they change independently of the job, as those of RotorNet (SIGCOMM
2017). Slots that pass during a change are skipped, so a table by seconds never lags behind.
Ranks that follow the slots are told when the circuits of one are lit, for how long, and which step
all of them have finished: what a rank sends last may be lost as its circuit changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from testbed.control import protocol
from testbed.control.controller import (
    ChangeCircuits,
    ChangeFailed,
    CircuitsChanged,
    Command,
    CommandJob,
    Fail,
    JobObserved,
    MembershipChanged,
    Observation,
    Scope,
    TimerExpired,
    View,
)
from testbed.control.descriptors import RotateOptions, RotateSlot
from testbed.fabric.circuits import HostPort, Matching
from testbed.fabric.fibre_plant import circuits_of_links
from testbed.fabric.links import Links
from testbed.fabric.topologies import TOPOLOGIES, Graph, Topology

ATTEMPTS = 3
"""Changes in a row that may fail before the rotation does."""

MISSED = 20
"""Slots in a row that may be over before their circuits are lit: a busy machine misses some."""

_TOO_SHORT = (
    f"{MISSED} time slots in a row were over before their circuits were lit: hold them for longer"
)

Unit = Literal["steps", "seconds"]

_LEAST: dict[Unit, tuple[float, str]] = {"steps": (1.0, "1 step"), "seconds": (1e-6, "1 µs")}
"""The shortest slots; sums of much shorter ones are lost in the rounding of a clock's seconds."""


@dataclass(frozen=True, slots=True)
class TimeSlot:
    """Links between ranks, and for how many steps or seconds they are held."""

    links: Links
    hold: float


@dataclass(frozen=True, slots=True)
class TopologySlots:
    """A topology: a time slot for each of its matchings, every one held as long."""

    topology: Topology
    hold: float


@dataclass(frozen=True, slots=True)
class State:
    """The slot that is due, when it ends, and the last known circuits."""

    table: tuple[TimeSlot, ...]
    ports: tuple[tuple[HostPort, ...], ...]
    """Of each rank, as in the view of the job."""
    steps: tuple[int, ...]
    """The last step that each rank has finished."""
    lit: Matching
    origin: float
    """When the table begins: a time, or the last step before it."""
    end: float
    """When the slot ends: a time, or the last step that is done in it."""
    slot: int = 0
    starts_at: float | None = None
    """When the controller is to be woken first, until it is: the first slot may be dark."""
    changing_to: Matching | None = None
    failures: int = 0
    """Changes that have failed since the last one that was made."""
    known: tuple[Matching, ...] = ()
    """The circuits that ranks can be told of, by number; none where they do not follow slots."""
    told: float | None = None
    """The end of the last slot that they were told of."""
    number: int = 0
    """How many slots they were told of."""
    missed: int = 0
    """Slots in a row that were over before their circuits were lit."""
    has_failed: bool = False


class Rotate:
    """The controller `rotate` of one job's circuits; see the module."""

    def __init__(
        self, job: str, slots: Sequence[TimeSlot | TopologySlots], unit: Unit = "steps"
    ) -> None:
        """Take the table; raise ValueError when it is empty or a slot is held for too short."""
        if not slots:
            raise ValueError("a rotation needs at least one time slot")
        least, text = _LEAST[unit]
        for slot in slots:
            if not least <= slot.hold < math.inf:
                found = f"{slot.hold:g} {unit}"
                raise ValueError(f"a time slot is held for at least {text}, not {found}")
        self._job = job
        self._slots = tuple(slots)
        self._unit = unit
        self.scopes = (Scope("circuits", job),)

    def begin(self, view: View) -> State:
        """Return the state at the beginning of the first slot, whatever circuits are lit already.

        Raise ValueError where a slot names a rank or a port that the job does not have.
        """
        job, table = view.jobs[self._job], self._table(view)
        origin = job.step if self._unit == "steps" else view.now
        steps, end = (job.step,) * len(job.ports), origin + table[0].hold
        state = State(table, job.ports, steps, view.circuits, origin, end, starts_at=view.now)
        if job.requests:
            self._check_slots(view)
            state = replace(state, known=job.requests)
        return state

    def _check_slots(self, view: View) -> None:
        """Raise ValueError for slots that ranks which follow them cannot be told of."""
        if self._unit == "steps":
            raise ValueError("its ranks follow time slots, which are held for a time: write `hold`")
        if not set(self.circuits(view)) <= set(view.jobs[self._job].requests):
            raise ValueError("its ranks follow the time slots of the job, and these are others")

    def circuits(self, view: View) -> tuple[Matching, ...]:
        """Return the circuits of each slot; raise ValueError as `begin` does."""
        ports = view.jobs[self._job].ports
        return tuple(circuits_of_links(slot.links, ports) for slot in self._table(view))

    def _table(self, view: View) -> tuple[TimeSlot, ...]:
        """Return the slots, those of topologies too, having checked that the job has their ports.

        Ports of a rank that no other has are not used by topologies.
        """
        ports = view.jobs[self._job].ports
        fewest = min(map(len, ports), default=0)
        table: list[TimeSlot] = []
        for slot in self._slots:
            if isinstance(slot, TimeSlot):
                table.append(slot)
            else:
                matchings = slot.topology.matchings(len(ports), fewest)
                table += [TimeSlot(links, slot.hold) for links in matchings]
        for each in table:
            circuits_of_links(each.links, ports)
        return tuple(table)

    def wake_at(self, state: State) -> float | None:
        """Return the time of the beginning, then of the end of each slot that is held for seconds.

        Return None during a change, as its outcome will be observed.
        """
        if state.starts_at is not None:
            return state.starts_at
        idle = state.changing_to is None and not state.has_failed
        return state.end if self._unit == "seconds" and idle and len(state.table) > 1 else None

    def step(
        self, state: State, now: float, observation: Observation
    ) -> tuple[State, tuple[Command, ...]]:
        """Return the next state, and a command for the circuits of the slot that is due."""
        if state.has_failed:
            return state, ()
        state = replace(state, starts_at=None)
        match observation:
            case JobObserved(job, protocol.StepDone(rank, step)) if job == self._job:
                state = _with_step(state, rank, step)
            case MembershipChanged(job, view) if job == self._job:
                steps = (view.step,) * len(view.ports)
                state = _rewound(replace(state, ports=view.ports, steps=steps, told=None))
            case CircuitsChanged() if state.changing_to is not None:
                missed = state.missed + 1 if state.known and now >= state.end else 0
                state = replace(state, lit=state.changing_to, changing_to=None, failures=0)
                state = replace(state, missed=missed)
                if missed == MISSED:
                    return _failed(state, _TOO_SHORT)
            case ChangeFailed(reason) if state.changing_to is not None:
                state = replace(state, changing_to=None, failures=state.failures + 1)
                if state.failures == ATTEMPTS:
                    return _failed(state, f"{ATTEMPTS} changes in a row failed: {reason}")
            case TimerExpired():
                pass
        progress = now if self._unit == "seconds" else min(state.steps)
        return self._pointed(_advanced(state, progress), now)

    def _pointed(self, state: State, now: float) -> tuple[State, tuple[Command, ...]]:
        """Command the circuits that are due; tell ranks that follow the slots if these are lit."""
        state, commands = _pointed(state)
        if not state.known or state.changing_to or state.has_failed or state.told == state.end:
            return state, commands
        state = replace(state, told=state.end, number=state.number + 1)
        message = {
            "do": "slot",
            "number": state.number,
            "circuits": state.known.index(state.lit),
            "hold": state.table[state.slot].hold,
            "left": state.end - now,
            "finished": min(state.steps),
        }
        told = protocol.Tell(tuple(range(len(state.ports))), message)
        return state, (*commands, CommandJob(self._job, told))


def _rewound(state: State) -> State:
    """Return the state in the first slot: a job may go back to a checkpoint."""
    return replace(state, slot=0, end=state.origin + state.table[0].hold)


def _advanced(state: State, progress: float) -> State:
    """Return the state in the slot that is due at a time or after a step."""
    table = state.table
    if len(table) == 1 or progress < state.end:
        return state
    cycle = sum(slot.hold for slot in table)
    slot, end = state.slot, state.end + (progress - state.end) // cycle * cycle
    while progress >= end:
        slot = (slot + 1) % len(table)
        end += table[slot].hold
    return replace(state, slot=slot, end=end)


def _pointed(state: State) -> tuple[State, tuple[Command, ...]]:
    """Command the circuits that are due, unless they are lit or another change is under way.

    Links of ranks that the job no longer has are left out.
    """
    if state.changing_to is not None:
        return state, ()
    ranks = len(state.ports)
    links = [link for link in state.table[state.slot].links if link[1][0] < ranks]
    try:
        wanted = circuits_of_links(links, state.ports)
    except ValueError as error:
        return _failed(state, str(error))
    if wanted == state.lit:
        return state, ()
    remove, add = state.lit - wanted, wanted - state.lit
    change = ChangeCircuits(remove, add, identify=bool(state.known))
    return replace(state, changing_to=wanted), (change,)


def _with_step(state: State, rank: int, step: int) -> State:
    """Return the state with a step that a rank has finished, if it is still a rank."""
    steps = (max(step, own) if at == rank else own for at, own in enumerate(state.steps))
    return replace(state, steps=tuple(steps))


def _failed(state: State, reason: str) -> tuple[State, tuple[Command, ...]]:
    return replace(state, has_failed=True), (Fail(reason),)


def rotate(options: RotateOptions, job: str) -> Rotate:
    """Return the controller `rotate` of a job's circuits, as a file describes it."""
    unit: Unit = "seconds" if options.slots[0].steps is None else "steps"
    return Rotate(job, [_slots_of(slot) for slot in options.slots], unit)


def _slots_of(slot: RotateSlot) -> TopologySlots:
    hold = float(slot.steps or 0) if slot.hold is None else slot.hold
    if slot.topology is None:
        return TopologySlots(Graph(slot.links or ()), hold)
    return TopologySlots(TOPOLOGIES[slot.topology](), hold)
