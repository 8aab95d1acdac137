"""The way back of one switch's ports, and how long they are looked at until that is believed.

After a change whose outcome is in doubt its undo is sent whatever the switch shows, and the state
is read until it has been the same for longer than the switch was seen to lag. Where light is
measured it must be gone, or there, too. What is not so in the end is an UnsafeError.
"""

from __future__ import annotations

from collections.abc import Callable
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
"""Seconds in which what a switch shows must have come to rest after that."""
_PAUSES = (0.02, 0.06, 0.18, 0.0)
"""Seconds after each try to bring ports back."""
_FIRST_LOOK = 0.005
_LONGEST_LOOK = 0.25
_BACK_OFF = 1.5
_RESTLESS = 3
"""Departures from what was reached after which a read-back is not believed any more."""
_LONG = 1.0
"""Seconds of waiting that are worth a word."""
_UNREADABLE = "what it shows cannot be read"


@dataclass(slots=True)
class RollbackTarget:
    """What some ports are to show, besides what others have there, and what was told for it."""

    target: State
    region: frozenset[int]
    others: State = field(default_factory=dict)
    doubted: Change = field(default_factory=lambda: Change({}, {}))
    """A change that may have been made, whatever the switch shows; its undo is sent once."""
    doubted_at: float | None = None
    """When that was told; None where nobody knows."""
    told: dict[int, int] = field(default_factory=dict)
    taken: dict[int, int] = field(default_factory=dict)
    """What was told to come, and to go."""

    def missed_by(self, state: State) -> Difference:
        """Return what is otherwise than it should be."""
        shown = {i: e for i, e in state.items() if {i, e} & self.region or self.target.get(i) == e}
        shown = {i: e for i, e in shown.items() if self.others.get(i) != e}
        return Difference.between(self.target, shown)


class Rollback:
    """The way back of one switch."""

    def __init__(
        self,
        ours: OwnedPorts,
        switch: OpticalSwitch,
        verification: Verification,
        following: ReadBackLag,
        clock: WallTime,
    ) -> None:
        self.tell: Callable[[str], None] = lambda text: None
        """Hears what is waited for, where that is long."""
        self.may_move: Callable[[], None] = lambda: None
        """Raises BusyError, before any order, unless our ports are leased still."""
        self._ours = ours
        self._switch = switch
        self._verification = verification
        self._lag = following
        self._clock = clock
        self._told_at = 0.0

    def go(self, goal: RollbackTarget, deadline: Deadline, *, must_rest: bool) -> None:
        """Make a goal what its region shows, reading before each try, and verify its light.

        With `must_rest` it is watched until it has stayed so for long enough. Raise UnsafeError
        when the goal is not reached, or is not known to be.
        """
        self._ours.made |= set(goal.target.items())
        self._told_at = goal.doubted_at or self._clock.now()
        problem, soon = "", deadline.within(BACK_LIMIT)
        for pause in _PAUSES:
            problem = self._step(goal, soon)
            if not problem:
                break
            self._clock.wait(min(pause, soon.left))
        if must_rest or problem:
            self._come_to_rest(goal, problem, deadline)
        self._ours.made = set(goal.target.items())
        self._verify(goal, deadline)

    def _come_to_rest(self, goal: RollbackTarget, problem: str, deadline: Deadline) -> None:
        """Look until the goal has been shown for longer than the switch was seen to lag."""
        pause, departures = _FIRST_LOOK, 0
        since = looked = self._clock.now()
        unread = len(_PAUSES) + 1 if self._ours.seen is None else 0
        if not unread:
            self._tell_patience()
        # What counts is when it was read last: a busy machine takes its time before and after.
        while problem or looked - since <= self._lag.patience:
            is_late = looked - since > self._lag.patience or deadline.passed
            if is_late or unread > len(_PAUSES) or departures > _RESTLESS:
                raise self._not_back(problem, departures)
            self._clock.wait(min(pause, deadline.left))
            pause = min(_BACK_OFF * pause, _LONGEST_LOOK)
            looked = self._clock.now()
            before, problem = problem, self._look(goal, deadline)
            unread = unread + 1 if self._ours.seen is None else 0
            if unread or bool(problem) == bool(before):
                continue
            self._lag.saw(self._clock.now() - self._told_at)
            since, pause = self._clock.now(), _FIRST_LOOK
            looked = since
            if problem:  # what came late goes again
                departures += 1
                problem = self._step(goal, deadline)

    def _tell_patience(self) -> None:
        if (seconds := self._lag.patience) >= _LONG:
            self.tell(
                f"{self._ours.name}: seeing for {seconds:.0f} s whether what it shows stays so, as "
                "it may be late"
            )

    def _not_back(self, problem: str, departures: int) -> UnsafeError:
        if departures > _RESTLESS:
            problem = "what it shows changes again and again, and nobody knows what is so"
        elif not problem:
            problem = "there was no time to see whether what it shows stays so"
        return UnsafeError(
            f"{self._ours.name} could not be brought back: {problem}",
            hint=f"look at it with `{typed('switch', self._ours.name, 'show')}`",
        )

    def _look(self, goal: RollbackTarget, deadline: Deadline) -> str:
        """Read; return what is still wrong with a goal, or an empty string."""
        try:
            return self._judged(goal, self._switch.state(deadline))
        except LabError as error:
            return self._unread(error)

    def _step(self, goal: RollbackTarget, deadline: Deadline) -> str:
        """Go once towards a goal; return what is still wrong with it, or an empty string."""
        trouble = ""
        try:
            present = self._switch.state(deadline)
            try:
                if back := self._undoing(goal, self._planned(present, goal.target), present):
                    present = self._told(goal, present, back, deadline)
            except BusyError as error:  # it is not ours to touch any more: no look would help
                raise self._not_back(f"{error}; {self._judged(goal, present)}", 0) from error
            except (TestbedError, ValueError) as error:
                trouble = f"{error}; "
                present = self._switch.state(deadline)
        except LabError as error:
            return trouble + self._unread(error)
        left = self._judged(goal, present)
        return f"{trouble}{left}" if left else ""

    def _told(
        self, goal: RollbackTarget, present: State, back: Change, deadline: Deadline
    ) -> State:
        """Tell the switch a change, and return what it shows then."""
        self.may_move()
        goal.told |= back.adds
        goal.taken |= back.removes
        if not goal.doubted:
            self._told_at = self._clock.now()
        applied = self._switch.apply(back, deadline)
        goal.doubted = Change({}, {})
        self._ours.own(present, back, applied)
        self._lag.compare(present, back, applied)
        return applied.state

    def _judged(self, goal: RollbackTarget, present: State) -> str:
        self._ours.seen, self._ours.shown = present, self._ours.of(present)
        left = goal.missed_by(present)
        return f"it shows {left}" if left else ""

    def _unread(self, error: LabError) -> str:
        self._ours.seen = self._ours.shown = None
        return f"{_UNREADABLE}: {error}"

    def _planned(self, present: State, target: State) -> Change:
        """Plan the way to a state, or to as much of it as nobody else is in the way of."""
        ours, can = self._ours, self._switch.capabilities
        ports = ours.ports | {*target, *target.values()}
        try:
            return plan_change(present, target, ours.of(present), ports, can)
        except ForeignCircuit as error:
            blocked = {*error.foreign, *error.foreign.values()}
            free = {i: e for i, e in target.items() if not {i, e} & blocked}
            return plan_change(present, free, ours.of(present), ports, can)

    def _undoing(self, goal: RollbackTarget, back: Change, present: State) -> Change:
        """Add to a way back what undoes the change in doubt, though the switch shows none of it.

        A switch that goes from one position to another, or sets all its cells, needs no more than
        the way back.
        """
        can, doubted = self._switch.capabilities, goal.doubted
        if can.positions or can.mesh is not None or not doubted:
            return back
        theirs = {p for pair in present.items() - self._ours.made for p in pair}
        # An order names no port twice: where light goes elsewhere now, that is what must go.
        elsewhere = theirs | {*back.removes, *back.removes.values()}
        gone = {
            i: e
            for i, e in doubted.adds.items()
            if goal.target.get(i) != e and not {i, e} & elsewhere
        }
        again = {
            i: e
            for i, e in doubted.removes.items()
            if goal.target.get(i) == e and present.get(i) == e
        }
        return Change({**gone, **back.removes}, {**again, **back.adds}, back.disturbs)

    def _verify(self, goal: RollbackTarget, deadline: Deadline) -> None:
        """See that what was told to come is in order and lit, and that what was to go is dark."""
        gone = {i: e for i, e in goal.taken.items() if goal.target.get(i) != e}
        try:
            self._verification.verify(Change(gone, goal.told), self._ours.shown or {}, deadline)
        except InstrumentError as error:
            raise UnsafeError(
                f"{self._ours.name} was brought back, but {error}",
                hint=f"look at it with `{typed('switch', self._ours.name, 'show')}`",
            ) from error
