"""One switch as one plan may use it: initial state, own circuits, last read-back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import copy

from testbed.bench.contracts import Applied, OpticalSwitch
from testbed.bench.crossbar_refusals import (
    changed_by_others,
    in_the_way,
    is_refused,
    occupied_at_start,
)
from testbed.bench.light_check import LightCheck
from testbed.bench.ownership import ForeignCircuits, OwnedPorts
from testbed.bench.read_back_lag import ReadBackLag
from testbed.bench.rollback import REST_LIMIT, Rollback, RollbackTarget
from testbed.bench.verification import Verification, Verified, WallTime
from testbed.clock import Deadline, now
from testbed.commands import typed
from testbed.errors import (
    Garbled,
    InstrumentError,
    LabError,
    LinkLost,
    NoReply,
    NotKnown,
    Rejected,
    TestbedError,
    UsageError,
)
from testbed.fabric.change import Change, Difference, ForeignCircuit, after, plan_change
from testbed.fabric.circuits import CrossConnect, FibrePair, SwitchPort, Wiring
from testbed.fabric.device import State
from testbed.fabric.light import NO_LIMITS, LightLimits
from testbed.record.lease import BACK_LIMIT

_LOST = (NoReply, LinkLost, Garbled)
"""Errors after which it is unknown whether a command was carried out."""
_NOTHING = Change({}, {})
_LOOK_LIMIT = 5.0


class Crossbar:
    """The ports of one switch that a plan uses; circuits on any other port are never changed.

    Other runs may use the switch at the same time. A cross-connect belongs to this run when it was
    adopted or commanded here; no other is ever removed, even on the ports of the plan.
    """

    def __init__(
        self,
        name: str,
        switch: OpticalSwitch,
        ports: frozenset[int],
        wiring: Wiring,
        limits: LightLimits = NO_LIMITS,
        clock: WallTime = WallTime(),  # noqa: B008 - frozen
        added: Callable[[SwitchPort], float] = lambda fibre: 0.0,
        between: Iterable[FibrePair] = (),
    ) -> None:
        """`added` returns how many dB the testbed has an attenuator take in a fibre for now.

        `between` are fibres to other switches.
        """
        self.name = name
        self.start: State = {}
        self.was_unknown = False
        """Whether the state before is unknown, since the switch cannot be read."""
        self._switch = switch
        self._limits = limits
        self._clock = clock
        self._added = added
        self._verification = Verification(name, switch, clock)
        self._lag = ReadBackLag()
        self._use(OwnedPorts(name, ports, wiring, between))
        self.callbacks = self._ours.callbacks
        self._is_doubted = False
        """Whether the outcome of the last change is in doubt, and not yet undone for certain."""
        self._commanded_at = 0.0
        self._before: State = {}
        """What was ours before the last command."""
        self._planned: tuple[State, State] = ({}, {})
        """What was wanted last, and what the switch showed since."""

    def _use(self, ours: OwnedPorts) -> None:
        self._ours = ours
        self._foreign = ForeignCircuits(ours)
        self._light = LightCheck(ours, self._switch, self._limits, self._added)
        self._rollback = Rollback(ours, self._switch, self._verification, self._lag, self._clock)

    def part(self, ports: Iterable[SwitchPort]) -> Crossbar:
        """Return those of the ports that are on this switch as a crossbar, for one change.

        Changes of parts without a common port may go on side by side; `merge` takes each back in.
        """
        part = copy(self)
        part._lag = copy(self._lag)
        part._use(self._ours.part(frozenset(p.number for p in ports if p.switch == self.name)))
        return part

    def merge(self, part: Crossbar) -> None:
        """Take in what became of a part."""
        self._ours.merge(part._ours)
        self._lag.merge(part._lag)
        self._is_doubted |= part._is_doubted

    def reach(self, ports: frozenset[int], others: frozenset[int]) -> frozenset[int]:
        """Return all ports that a change of some may touch.

        `others` are those of other owners' circuits. A switch that moves as a whole, or routes all
        of its circuits anew, is changed as a whole.
        """
        can = self._switch.capabilities
        if ports and (can.positions or can.mesh):
            ports, others = self.ports, frozenset()
        return self._ours.reach(ports, others)

    @property
    def shown(self) -> str:
        """Return the ports of this plan in the last read-back, as text."""
        if self._ours.shown is None or self._ours.unread:
            return "what could not be read"
        return self._ours.named(self._ours.shown) or "no circuit of this run"

    @property
    def ports(self) -> frozenset[int]:
        """Return the ports of the plan, and those that a positional switch moves with them."""
        return self._ours.ports

    def adopt(self, wanted: State, deadline: Deadline) -> None:
        """Adopt the circuits on the plan's ports as the state to restore at the end.

        Raise BusyError when one of them is not in `wanted`, as it then belongs to another client.
        Exempt are switches that always have circuits, and circuits that the lab declares safe.
        """
        found = self._ours.on_ports(self._found(deadline))
        can = self._switch.capabilities
        idle = self.ports if can.positions or can.mesh else frozenset[int]()
        foreign = {
            i: e
            for i, e in found.items()
            if e not in (wanted.get(i), self._limits.safe.get(i)) and i not in idle
        }
        if foreign:
            raise occupied_at_start(self._ours, foreign)
        self.start = self._ours.shown = found
        self._ours.made = set(found.items())
        if idle:
            self._ours.ports |= set(found.values())

    def _found(self, deadline: Deadline) -> State:
        """Read back; a switch that cannot be read, and is leased exclusively, is assumed empty."""
        try:
            return self._switch.state(deadline)
        except NotKnown:
            self.was_unknown = True
            self._switch.presume({})
            return self._switch.state(deadline)

    def plan(
        self, wanted: State, deadline: Deadline, others: Mapping[str, State] = {}
    ) -> tuple[State, Change]:
        """Read back; return the state and the change that leads from it to `wanted`.

        Raise BusyError when a circuit of this run is gone, another client's circuit uses a needed
        port, or a circuit of one of `others`, other owners in this run, would go dark; LabError
        when light would break a limit, UsageError for a state that this switch cannot hold.
        """
        state = self._switch.state(deadline)
        self._refuse_drift(Difference.between(self._ours.shown or {}, state).missing, "is gone")
        theirs = {pair for cross in others.values() for pair in cross.items()}
        ours = {i: e for i, e in self._ours.of(state).items() if (i, e) not in theirs}
        can = self._switch.capabilities
        try:
            change = plan_change(state, wanted, ours, self.ports, can)
        except ForeignCircuit as error:
            raise in_the_way(self._ours, error, others) from None
        except ValueError as error:
            raise UsageError(f"{self.name}: {error}") from None
        self._light.allow(state, change, deadline)
        self._planned = wanted, state
        return state, change

    def check(self, deadline: Deadline) -> None:
        """Read back; raise BusyError when the plan's ports differ from the expected state."""
        state = self._switch.state(deadline)
        self._ours.trust(state)
        drift = Difference.between(self._ours.shown or {}, self._ours.on_ports(state))
        self._refuse_drift(drift.missing, "is gone")
        self._refuse_drift(drift.extra, "was added")

    def command(self, state: State, change: Change, deadline: Deadline) -> Applied:
        """Send a change to the switch and compare the read-back of the plan's ports.

        A command whose answer was lost is never sent again: the read-back alone decides. On any
        error `roll_back` must follow.
        """
        self._before = self._ours.of(state)
        self._ours.made |= set(change.adds.items())
        self._foreign.note(state, change)
        expected = self._ours.on_ports(after(state, change))
        self._commanded_at = self._clock.now()
        applied = self._send(state, change, expected, deadline)
        self._ours.own(state, change, applied)
        self._lag.compare(state, change, applied)
        self._planned = self._planned[0], applied.state
        self._ours.shown, self._ours.seen = self._ours.of(applied.state), applied.state
        if applied.refused:
            words = "; ".join(f"{i}: {word}" for i, word in sorted(applied.refused.items()))
            raise InstrumentError(self.name, f"refused a part of {change}: {words}")
        if gap := Difference.between(expected, self._ours.on_ports(applied.state)):
            raise InstrumentError(
                self.name,
                f"was told {change}, reported no error, but shows {gap}",
                hint=f"a port may be stuck: look at it with `{typed('switch', self.name, 'show')}`",
            )
        self._ours.made &= set(applied.state.items())
        return applied

    def verify(self, change: Change, applied: Applied, deadline: Deadline) -> Verified:
        """Wait until the switch reports the changed circuits as steady, with the expected light."""
        shown = self._ours.shown or {}
        verified = self._verification.verify(change, shown, deadline, applied.unsteady)
        self._light.verify(change, self._ours.shown or {}, deadline)
        if lost := self._foreign.lost_by_owners(self._look):
            words = f"took down {self._ours.named(lost)}, made by another owner, with {change}"
            raise InstrumentError(self.name, words)
        return verified

    @property
    def settles_unseen(self) -> bool:
        """Return whether no verification waits until mirrors stand: the switch tells nothing."""
        can = self._switch.capabilities
        return (can.motion_unseen or not can.steadiness) and not can.monitored & self.ports

    @property
    def has_limited(self) -> bool:
        """Return whether a port of the plan leads to a receiver with a limit on its light."""
        return bool(self._limits.max_dbm.keys() & self.ports)

    def overloads(self, deadline: Deadline) -> dict[CrossConnect, str]:
        """Measure receivers that have a limit; return and describe circuits that exceed it."""
        return {
            CrossConnect(self.name, found.ingress, found.egress): self._light.words(found)
            for found in self._light.look(self._ours.shown or {}, deadline)
        }

    def forget_lag(self) -> None:
        """Forget the observed read-back delay, since the switch has contradicted it."""
        self._lag.forget()

    def others_gone(self) -> str:
        """Describe the circuits of other clients that the last change removed; empty if none."""
        return self._foreign.describe_lost_circuits(self._look)

    def _look(self) -> State:
        return self._switch.state(Deadline.after(_LOOK_LIMIT))

    def accept(self) -> None:
        """Make the state planned last the one that `check` expects.

        A planned circuit that another client has already made stays that client's, and is never
        removed here.
        """
        wanted, seen = self._planned
        alike = {i: e for i, e in seen.items() if wanted.get(i) == e}
        self._ours.shown = self._ours.of(seen) | alike

    def roll_back(self, change: Change, error: BaseException) -> None:
        """Restore the ports of the last change, which failed with `error`.

        Raise UnsafeError with the difference that remains, or where it is unknown.
        """
        self._is_doubted = not is_refused(change, error, self.name)
        doubted = change if self._is_doubted else _NOTHING
        goal = RollbackTarget(
            self._before, change.ports, doubted=doubted, doubted_at=self._commanded_at
        )
        self._go_back(goal, Deadline.after(BACK_LIMIT + REST_LIMIT))
        is_known = isinstance(error, TestbedError) and not isinstance(error, _LOST)
        if not is_known:  # it may still be carried out, and is ours to take back then
            self._ours.made |= set(change.adds.items())

    def restore(self, deadline: Deadline) -> None:
        """Restore the plan's ports to their initial state; raise UnsafeError when that fails."""
        self._ours.unread = frozenset()
        self._go_back(RollbackTarget(self.start, self.ports), deadline)

    def _go_back(self, goal: RollbackTarget, deadline: Deadline) -> None:
        self._rollback.go(goal, deadline, must_be_stable=self._is_doubted)
        self._is_doubted = False

    def _send(self, before: State, change: Change, expected: State, deadline: Deadline) -> Applied:
        """Send a change; replace a lost answer by a read.

        What was refused may have been done in part, and wrongly: that is ours to take back.
        """
        self.callbacks.may_move()
        began = now()
        try:
            return self._switch.apply(change, deadline)
        except Rejected:
            with suppress(LabError):
                left = Applied(began, now(), now(), self._switch.state(deadline))
                self._ours.own(before, change, left)
            raise
        except _LOST as lost:
            with suppress(LabError):
                state = self._switch.state(deadline)
                if self._ours.on_ports(state) == expected:
                    why = str(lost.args[0]).removeprefix(f"{self.name}: ")
                    self.callbacks.on_lost_answer(self.name, why)
                    return Applied(began, now(), now(), state)
            raise

    def _refuse_drift(self, cross: State, became: str) -> None:
        if cross:
            raise changed_by_others(self._ours, cross, became)
