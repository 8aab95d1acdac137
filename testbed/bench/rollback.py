"""Roll back the ports of one switch, and read them until the result is stable.

After a change whose outcome is in doubt its undo is sent whatever the read-back shows, and the
state is read until it has been the same for longer than the switch was seen to lag. Where light is
measured it must agree, too. Any remaining difference is an UnsafeError.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from testbed.bench.contracts import OpticalSwitch
from testbed.bench.ownership import OwnedPorts
from testbed.bench.read_back_lag import ReadBackLag
from testbed.bench.verification import Verification, WallTime
from testbed.clock import Deadline
from testbed.commands import typed
from testbed.errors import BusyError, InstrumentError, LabError, TestbedError, UnsafeError
from testbed.fabric.change import Change, Difference, ForeignCircuit, plan_change
from testbed.fabric.device import State
from testbed.record.lease import BACK_LIMIT

REST_LIMIT = 35.0
"""Seconds after that in which the read-back must have become stable."""
_PAUSES = (0.02, 0.06, 0.18, 0.0)
"""Seconds after each attempt to restore ports."""
_FIRST_LOOK = 0.005
_LONGEST_LOOK = 0.25
_BACK_OFF = 1.5
_MOST_DEPARTURES = 3
"""Changes away from the reached state after which the read-back counts as unreliable."""
_LONG = 1.0
"""Seconds of waiting that are announced."""
_UNREADABLE = "what it shows cannot be read"


@dataclass(slots=True)
class RollbackTarget:
    """The target of a rollback: the state that some ports must show, and the commands for it."""

    target: State
    region: frozenset[int]
    others: State = field(default_factory=dict)
    doubted: Change = field(default_factory=lambda: Change({}, {}))
    """A change that may have been made, whatever the switch shows; its undo is sent once."""
    doubted_at: float | None = None
    """When that was commanded; None where unknown."""
    added: dict[int, int] = field(default_factory=dict)
    removed: dict[int, int] = field(default_factory=dict)
    """Cross-connects that were commanded to be added, and to be removed."""

    def difference_from(self, state: State) -> Difference:
        """Return how a state differs from the target."""
        shown = {i: e for i, e in state.items() if {i, e} & self.region or self.target.get(i) == e}
        shown = {i: e for i, e in shown.items() if self.others.get(i) != e}
        return Difference.between(self.target, shown)


@dataclass(slots=True)
class Rollback:
    """Restores the ports of one switch to an earlier state."""

    _ours: OwnedPorts
    _switch: OpticalSwitch
    _verification: Verification
    _lag: ReadBackLag
    _clock: WallTime
    _commanded_at: float = 0.0

    def go(self, goal: RollbackTarget, deadline: Deadline, *, must_be_stable: bool) -> None:
        """Command the target state until the read-back shows it, and verify its light.

        With `must_be_stable` the state is read until it has been stable for long enough. Raise
        UnsafeError when the target is not reached, or is not known to be.
        """
        self._ours.made |= set(goal.target.items())
        self._commanded_at = goal.doubted_at or self._clock.now()
        problem, soon = "", deadline.within(BACK_LIMIT)
        for pause in _PAUSES:
            problem = self._attempt(goal, soon)
            if not problem:
                break
            self._clock.wait(min(pause, soon.left))
        if must_be_stable or problem:
            self._wait_until_stable(goal, problem, deadline)
        self._ours.made = set(goal.target.items())
        self._verify(goal, deadline)

    def _wait_until_stable(self, goal: RollbackTarget, problem: str, deadline: Deadline) -> None:
        """Read until the target has been shown for longer than the switch was seen to lag."""
        pause, departures = _FIRST_LOOK, 0
        since = looked = self._clock.now()
        unread = len(_PAUSES) + 1 if self._ours.seen is None else 0
        if not unread:
            self._announce_wait()
        # The time of the last read counts: a busy machine delays what is before and after it.
        while problem or looked - since <= self._lag.stable_after:
            is_late = looked - since > self._lag.stable_after or deadline.passed
            if is_late or unread > len(_PAUSES) or departures > _MOST_DEPARTURES:
                raise self._failure(problem, departures)
            self._clock.wait(min(pause, deadline.left))
            pause = min(_BACK_OFF * pause, _LONGEST_LOOK)
            looked = self._clock.now()
            before, problem = problem, self._read(goal, deadline)
            unread = unread + 1 if self._ours.seen is None else 0
            if unread or bool(problem) == bool(before):
                continue
            self._lag.record(self._clock.now() - self._commanded_at)
            since, pause = self._clock.now(), _FIRST_LOOK
            looked = since
            if problem:  # a late effect: remove it again
                departures += 1
                problem = self._attempt(goal, deadline)

    def _announce_wait(self) -> None:
        if (seconds := self._lag.stable_after) >= _LONG:
            self._ours.callbacks.on_wait(
                f"{self._ours.name}: reading for {seconds:.0f} s whether its state is stable, as "
                "the read-back may be late"
            )

    def _failure(self, problem: str, departures: int) -> UnsafeError:
        if departures > _MOST_DEPARTURES:
            problem = "its read-back changes again and again, so its state is unknown"
        elif not problem:
            problem = "there was no time to see whether its read-back is stable"
        return UnsafeError(
            f"{self._ours.name} could not be brought back: {problem}",
            hint=f"look at it with `{typed('switch', self._ours.name, 'show')}`",
        )

    def _read(self, goal: RollbackTarget, deadline: Deadline) -> str:
        """Read; return what still differs from a target, or an empty string."""
        try:
            return self._remaining(goal, self._switch.state(deadline))
        except LabError as error:
            return self._unreadable(error)

    def _attempt(self, goal: RollbackTarget, deadline: Deadline) -> str:
        """Attempt once to restore a target; return what still differs, or an empty string."""
        trouble = ""
        try:
            present = self._switch.state(deadline)
            try:
                if back := self._with_doubted_undo(
                    goal, self._planned(present, goal.target), present
                ):
                    present = self._commanded(goal, present, back, deadline)
            except BusyError as error:  # the lease is lost: another read would not help
                raise self._failure(f"{error}; {self._remaining(goal, present)}", 0) from error
            except (TestbedError, ValueError) as error:
                trouble = f"{error}; "
                present = self._switch.state(deadline)
        except LabError as error:
            return trouble + self._unreadable(error)
        left = self._remaining(goal, present)
        return f"{trouble}{left}" if left else ""

    def _commanded(
        self, goal: RollbackTarget, present: State, back: Change, deadline: Deadline
    ) -> State:
        """Send a change to the switch, and return its read-back."""
        self._ours.callbacks.may_move()
        goal.added |= back.adds
        goal.removed |= back.removes
        if not goal.doubted:
            self._commanded_at = self._clock.now()
        applied = self._switch.apply(back, deadline)
        goal.doubted = Change({}, {})
        self._ours.own(present, back, applied)
        self._lag.compare(present, back, applied)
        return applied.state

    def _remaining(self, goal: RollbackTarget, present: State) -> str:
        self._ours.seen, self._ours.shown = present, self._ours.of(present)
        left = goal.difference_from(present)
        return f"it shows {left}" if left else ""

    def _unreadable(self, error: LabError) -> str:
        self._ours.seen = self._ours.shown = None
        return f"{_UNREADABLE}: {error}"

    def _planned(self, present: State, target: State) -> Change:
        """Plan the change to a state, without the part that foreign circuits block."""
        ours, can = self._ours, self._switch.capabilities
        ports = ours.ports | {*target, *target.values()}
        try:
            return plan_change(present, target, ours.of(present), ports, can)
        except ForeignCircuit as error:
            blocked = {*error.foreign, *error.foreign.values()}
            free = {i: e for i, e in target.items() if not {i, e} & blocked}
            return plan_change(present, free, ours.of(present), ports, can)

    def _with_doubted_undo(self, goal: RollbackTarget, back: Change, present: State) -> Change:
        """Add to a rollback the undo of the change in doubt, though the read-back shows none of it.

        A switch that moves from one position to another, or sets all its cells, needs only the
        rollback itself.
        """
        can, doubted = self._switch.capabilities, goal.doubted
        if can.positions or can.mesh is not None or not doubted:
            return back
        theirs = {p for pair in present.items() - self._ours.made for p in pair}
        # An order names no port twice: where light goes elsewhere now, that is removed instead.
        elsewhere = theirs | {*back.removes, *back.removes.values()}
        adds, removes, target = doubted.adds, doubted.removes, goal.target
        gone = {i: e for i, e in adds.items() if target.get(i) != e and not {i, e} & elsewhere}
        again = {i: e for i, e in removes.items() if target.get(i) == e == present.get(i)}
        return Change({**gone, **back.removes}, {**again, **back.adds}, back.disturbs)

    def _verify(self, goal: RollbackTarget, deadline: Deadline) -> None:
        """Verify that commanded circuits are in order and lit, and removed ones dark."""
        gone = {i: e for i, e in goal.removed.items() if goal.target.get(i) != e}
        try:
            self._verification.verify(Change(gone, goal.added), self._ours.shown or {}, deadline)
        except InstrumentError as error:
            raise UnsafeError(
                f"{self._ours.name} was brought back, but {error}",
                hint=f"look at it with `{typed('switch', self._ours.name, 'show')}`",
            ) from error
