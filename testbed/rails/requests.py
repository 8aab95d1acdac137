"""When a stage's circuits are requested: as its ranks reach it, or as they leave the one before.

A rank says when it leaves a stage, and which stage comes next; and when it has reached a stage,
whatever it knows of the circuits. `on-demand` counts it as ready when it has reached the stage,
`provisioned` when it leaves the one before (both as in Opus, arXiv 2602.12521), and `learned` when
it leaves, but holds the request back until the change takes as long as is left of the window: what
is asked for too early keeps a switch, which takes one change at a time, from what is needed now.
The window is the time from when the last rank has left for a stage until the last has reached it;
`learned` has it from the last iterations. It asks on demand in the first ones, early in as many
more, and from then on as was quicker, and tries the other way again when windows have changed
(`testbed.rails.choice`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from testbed.rails.choice import TRIED, Choice, Key
from testbed.rails.rail import Answer, Effect, Move, Rail, RailState
from testbed.rails.stage import Stage

Mode = Literal["on-demand", "provisioned", "learned"]

REMEMBERED = 5
"""Iterations from which windows and the duration of changes are learned."""

MARGIN = 1.1
"""How much longer than the longest of the last changes the next may take, in `learned`."""


@dataclass(frozen=True, slots=True)
class Requests:
    """The state of a rail with what is known of when its stages are reached; immutable."""

    rail: RailState = field(default_factory=RailState)
    left: Mapping[Stage, tuple[frozenset[int], float]] = field(default_factory=dict)
    """The ranks that have left for a stage, and when the last one did."""
    reached: Mapping[Stage, frozenset[int]] = field(default_factory=dict)
    """The ranks that have reached a stage, until all have."""
    due: Mapping[Stage, float] = field(default_factory=dict)
    """Of stages that are held back, until when."""
    begun: Mapping[int, float] = field(default_factory=dict)
    """When the changes under way were commanded."""
    windows: Mapping[Key, tuple[float, ...]] = field(default_factory=dict)
    durations: tuple[float, ...] = ()
    answered: Mapping[Stage, float] = field(default_factory=dict)
    """When the ranks of stages were told of their circuits, until all have left…"""
    complete: Mapping[Stage, float] = field(default_factory=dict)
    """… and when all of them had reached it."""
    traffic: Mapping[Key, tuple[float, ...]] = field(default_factory=dict)
    """Seconds from then on until all had left."""
    changed: frozenset[Key] = frozenset()
    """The stages for which circuits were changed the last time."""
    waits: bool = False
    """Nothing is asked for before it is reached, whatever the mode is."""
    choice: Choice = Choice()  # noqa: RUF009 - frozen
    """Whether `learned` asks early."""


Outcome = tuple[Requests, tuple[Effect, ...]]


class RailRequests:
    """The rules of one rail in one mode; times are seconds of any clock."""

    def __init__(self, rail: Rail, mode: Mode) -> None:
        self.rail = rail
        self._mode = mode

    def leave(self, state: Requests, now: float, rank: int, following: Stage | None) -> Outcome:
        """Have a rank leave its stage, with the stage that it knows to come next."""
        before = state.rail.using.get(rank)
        state, effects = self._left(state, now, rank, following)
        return (state if before is None else _ended(state, now, before)), effects

    def _left(self, state: Requests, now: float, rank: int, following: Stage | None) -> Outcome:
        if following is None or self._mode == "on-demand":
            return self._after(state, now, *self.rail.leave(state.rail, rank))
        ranks = state.left.get(following, (frozenset[int](), now))[0] | {rank}
        state = replace(state, left={**state.left, following: (ranks, now)})
        held = state.rail.held
        if self._mode == "learned" and following not in held:
            held |= {following}
            state = replace(state, rail=replace(state.rail, held=held))
        state, first = self._after(state, now, *self.rail.ready(state.rail, rank, following))
        state, more = self.wake(self._scheduled(state, following), now)
        return state, (*first, *more)

    def reach(self, state: Requests, now: float, rank: int, stage: Stage) -> Outcome:
        """Have a rank reach a stage: it waits now, unless its circuits are lit already."""
        rail, effects = state.rail, tuple[Effect, ...]()
        known = stage in rail.ready and rank in rail.ready[stage]
        if not known and rail.using.get(rank) != stage:
            rail, effects = self.rail.ready(rail, rank, stage)
        state, first = self._after(state, now, rail, effects)
        ranks = state.reached.get(stage, frozenset()) | {rank}
        if len(ranks) < len(stage.ranks):
            return replace(state, reached={**state.reached, stage: ranks}), first
        state = _measured(state, now, stage)
        if self._mode == "learned" and stage.place >= 0:
            state = _learned(state, now, _key(stage))
        state, more = self._released(state, now, stage)
        return state, (*first, *more)

    def moved(self, state: Requests, now: float, number: int) -> Outcome:
        """Have a change end."""
        took = now - state.begun[number]
        begun = {n: at for n, at in state.begun.items() if n != number}
        durations = (*state.durations, took)[-REMEMBERED:]
        state = replace(state, begun=begun, durations=durations)
        return self._after(state, now, *self.rail.moved(state.rail, number))

    def wait(self, state: Requests, *, waits: bool) -> Requests:
        """Have stages not be asked for before they are reached, or as the mode says again."""
        return replace(state, waits=waits, due={} if waits else state.due)

    def wake_at(self, state: Requests) -> float | None:
        """Return when a stage that is held back is due next."""
        return min(state.due.values(), default=None)

    def wake(self, state: Requests, now: float) -> Outcome:
        """Release the stages that are due."""
        effects: tuple[Effect, ...] = ()
        for stage in sorted(stage for stage, due in state.due.items() if due <= now):
            state, more = self._released(state, now, stage)
            effects += more
        return state, effects

    # --- inside -------------------------------------------------------------------------------

    def _after(
        self, state: Requests, now: float, rail: RailState, effects: tuple[Effect, ...]
    ) -> Outcome:
        if rail is state.rail:
            return state, effects
        begun = dict.fromkeys((each.number for each in effects if isinstance(each, Move)), now)
        told = {each.stage: each.changed for each in effects if isinstance(each, Answer)}
        changed = state.changed - {_key(stage) for stage in told}
        changed |= {_key(stage) for stage, is_changed in told.items() if is_changed}
        answered = {**state.answered, **dict.fromkeys(told, now)}
        state = replace(state, rail=rail, begun={**state.begun, **begun})
        return replace(state, answered=answered, changed=changed), effects

    def _scheduled(self, state: Requests, stage: Stage) -> Requests:
        """Return the state with the time until which a stage is held back, if that is known."""
        ranks, last = state.left[stage]
        windows = state.windows.get(_key(stage))
        if self._mode != "learned" or windows is None or len(ranks) < len(stage.ranks):
            return state
        if not state.choice.early or state.waits:
            return state
        lead = MARGIN * max(state.durations, default=0.0) + max(windows) - min(windows)
        return replace(state, due={**state.due, stage: last + min(windows) - lead})

    def _released(self, state: Requests, now: float, stage: Stage) -> Outcome:
        """Hold a stage back no longer."""
        if stage not in state.due and stage not in state.rail.held:
            return state, ()
        due = {each: at for each, at in state.due.items() if each != stage}
        held = state.rail.held - {stage}
        state = replace(state, due=due)
        return self._after(state, now, *self.rail.hold(state.rail, held))


def _measured(state: Requests, now: float, stage: Stage) -> Requests:
    """Return the state after the last rank has reached a stage, with its window."""
    reached = {each: ranks for each, ranks in state.reached.items() if each != stage}
    left = {each: ranks for each, ranks in state.left.items() if each != stage}
    key, known = _key(stage), state.left.get(stage)
    complete = {**state.complete, stage: now}
    state = replace(state, reached=reached, left=left, complete=complete)
    if known is None or len(known[0]) < len(stage.ranks):
        return state
    windows = (*state.windows.get(key, ()), now - known[1])[-REMEMBERED:]
    return replace(state, windows={**state.windows, key: windows})


def _ended(state: Requests, now: float, stage: Stage) -> Requests:
    """Return the state after a rank has left a stage; its traffic is over when the last one has."""
    if stage in state.rail.using.values():
        return state
    answered = {each: at for each, at in state.answered.items() if each != stage}
    complete = {each: at for each, at in state.complete.items() if each != stage}
    begins = state.answered.get(stage), state.complete.get(stage)
    state = replace(state, answered=answered, complete=complete)
    if begins[0] is None or begins[1] is None or stage.place < 0:
        return state
    key = _key(stage)
    took = (*state.traffic.get(key, ()), now - max(begins[0], begins[1]))[-REMEMBERED:]
    return replace(state, traffic={**state.traffic, key: took})


def _learned(state: Requests, now: float, key: Key) -> Requests:
    """Return the state with the choice after a stage; windows of before a change are forgotten."""
    change = min(state.durations, default=0.0)  # others waited for the switch
    choice = state.choice.after(now, key, state.windows, change)
    if choice.is_due and not state.choice.is_due:
        windows = {each: own[-TRIED:] for each, own in state.windows.items()}
        state = replace(state, windows=windows)
    return replace(state, choice=choice)


def _key(stage: Stage) -> Key:
    return stage.group, stage.ranks, stage.place
