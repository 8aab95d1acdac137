"""One switch as one experiment may use it: what was there, what is ours, what it shows now."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from testbed.bench.contracts import Applied, OpticalSwitch
from testbed.bench.light_check import LightCheck
from testbed.bench.verification import Verification, Verified, WallTime
from testbed.clock import Deadline, now
from testbed.commands import typed
from testbed.errors import (
    BusyError,
    Garbled,
    InstrumentError,
    LabError,
    LinkLost,
    NoReply,
    TestbedError,
    UnsafeError,
    UsageError,
)
from testbed.fabric.change import Change, Difference, ForeignCircuit, after, plan_change
from testbed.fabric.circuits import CrossConnect, SwitchPort, Wiring
from testbed.fabric.device import State
from testbed.fabric.light import NO_LIMITS, LightLimits
from testbed.fabric.safe import reachable
from testbed.record.lease import BACK_LIMIT

CrossPairs = frozenset[tuple[int, int]]
"""Cross-connects of one switch, each an ingress and an egress."""

_LOST = (NoReply, LinkLost, Garbled)
"""Errors after which nobody knows whether a command was carried out."""
_PAUSES = (0.02, 0.06, 0.18, 0.0)
"""Seconds after each try to bring ports back."""


class Crossbar:
    """The ports of one switch that a plan uses; light on any other port is never touched.

    Others may use the switch at the same time. A cross-connect is ours when it was adopted or
    commanded here; nothing else is ever removed, not even from our ports.
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
    ) -> None:
        """`added` returns how many dB the testbed has an attenuator take in a fibre for now."""
        self.name = name
        self.start: State = {}
        self.ports = ports
        self.may_move: Callable[[], None] = lambda: None
        """Raises BusyError, immediately before any order, unless our ports are leased still."""
        self.led_astray: Callable[[str, CrossPairs], None] = lambda switch, astray: None
        """Hears at once what the switch made of our commands without being asked."""
        self.answer_lost: Callable[[str, str], None] = lambda switch, why: None
        """Hears that a read took the place of an answer that was lost, and how it was."""
        self._switch = switch
        self._limits = limits
        self._clock = clock
        self._verification = Verification(name, switch, clock)
        self._made: set[tuple[int, int]] = set()
        self._shown: State | None = {}
        """What the last read-back showed of ours; None when it could not be read."""
        self._before: State = {}
        """What was ours before the last command."""
        self._planned: tuple[State, State] = ({}, {})
        """What was wanted last, and what the switch showed since."""
        self._tx = {f.tx.number: port for port, f in wiring.items() if f.tx.switch == name}
        self._rx = {f.rx.number: port for port, f in wiring.items() if f.rx.switch == name}
        self._light = LightCheck(name, switch, limits, self._tx, self._rx, added)

    @property
    def shown(self) -> str:
        """Return in words what the last read-back showed of ours."""
        if self._shown is None:
            return "what could not be read"
        return self._named(self._shown) or "no circuit of ours"

    def adopt(self, wanted: State, deadline: Deadline) -> None:
        """Take what is on our ports as the state to return to.

        Raise BusyError when something there is not wanted: somebody else made it. A switch that is
        never dark always shows something; where it points our light is ours to move, and so is
        light in the state that the lab declares safe.
        """
        found = self._on_our_ports(self._switch.state(deadline))
        can = self._switch.capabilities
        idle = self.ports if can.positions or can.mesh else frozenset[int]()
        foreign = {
            i: e
            for i, e in found.items()
            if e not in (wanted.get(i), self._limits.safe.get(i)) and i not in idle
        }
        if foreign:
            raise BusyError(
                f"{self.name} holds circuits already on ports that are wanted: "
                f"{self._named(foreign)}",
                hint="wait for whoever made them, or take them down with "
                f"`{typed('switch', self.name, 'disconnect', *_all(foreign))}`",
            )
        self.start = self._shown = found
        self._made = set(found.items())
        if idle:
            self.ports |= set(found.values())

    def plan(self, wanted: State, deadline: Deadline) -> tuple[State, Change]:
        """Read back and return the state with the change that is needed.

        Raise BusyError when a circuit of ours is gone or somebody else's is in the way, LabError
        when light would break a limit, UsageError for what this switch cannot hold.
        """
        state = self._switch.state(deadline)
        self._refuse_if_gone(Difference.between(self._shown or {}, state).missing)
        can, ours = self._switch.capabilities, self._ours(state)
        try:
            change = plan_change(state, wanted, ours, self.ports, can)
        except ForeignCircuit as error:
            raise BusyError(
                f"{self.name} holds circuits in the way: {self._named(error.foreign)}",
                hint="find out who else uses this switch",
            ) from None
        except ValueError as error:
            raise UsageError(f"{self.name}: {error}") from None
        self._light.allow(state, change, deadline)
        self._planned = wanted, state
        return state, change

    def check(self, deadline: Deadline) -> None:
        """Read back and raise BusyError when our ports are not as we left them."""
        state = self._switch.state(deadline)
        if self._shown is None:
            self._shown = self._ours(state)
        drift = Difference.between(self._shown, self._on_our_ports(state))
        self._refuse_if_gone(drift.missing)
        if came := drift.extra:
            raise BusyError(
                f"{self.name} was changed behind our back: {self._named(came)} came",
                hint="find out who else uses this switch",
            )

    def command(self, state: State, change: Change, deadline: Deadline) -> Applied:
        """Tell the switch a change and compare the read-back of our ports.

        A command whose answer was lost is never sent again: the read-back alone decides. On any
        error `roll_back` must follow.
        """
        self._before = self._ours(state)
        self._made |= set(change.adds.items())
        expected = self._on_our_ports(after(state, change))
        applied = self._told(change, expected, deadline)
        self._own(_astray(state, change, applied))
        self._planned = self._planned[0], applied.state
        self._shown = self._ours(applied.state)
        if applied.refused:
            words = "; ".join(f"{i}: {word}" for i, word in sorted(applied.refused.items()))
            raise InstrumentError(self.name, f"refused a part of {change}: {words}")
        if gap := Difference.between(expected, self._on_our_ports(applied.state)):
            raise InstrumentError(
                self.name,
                f"was told {change}, reported no error, but shows {gap}",
                hint=f"a port may be stuck: look at it with `{typed('switch', self.name, 'show')}`",
            )
        self._made &= set(applied.state.items())
        return applied

    def verify(self, change: Change, deadline: Deadline) -> Verified:
        """Wait until the switch says that a change is in order, and its light there and right."""
        verified = self._verification.verify(change, self._shown or {}, deadline)
        self._light.verify(change, self._shown or {}, deadline)
        return verified

    @property
    def has_limited(self) -> bool:
        """Tell whether one of our ports leads to a receiver with a limit."""
        return bool(self._limits.max_dbm.keys() & self.ports)

    def overloads(self, deadline: Deadline) -> dict[CrossConnect, str]:
        """Look at our receivers that have a limit; return what gives them too much, in words."""
        return {
            CrossConnect(self.name, found.ingress, found.egress): self._light.words(found)
            for found in self._light.look(self._shown or {}, deadline)
        }

    def accept(self) -> None:
        """Let what was planned last be what `check` expects.

        Of that, what somebody else had made alike stays his: it may be there, and we leave it.
        """
        wanted, seen = self._planned
        alike = {i: e for i, e in seen.items() if wanted.get(i) == e}
        self._shown = self._ours(seen) | alike

    def roll_back(self, change: Change, error: BaseException) -> None:
        """Bring the ports of the last change, which `error` has ended, back to what they were.

        Raise UnsafeError with the difference that remains.
        """
        self._bring_back(self._before, change.ports, Deadline.after(BACK_LIMIT))
        is_known = isinstance(error, TestbedError) and not isinstance(error, _LOST)
        if not is_known:  # it may still be carried out, and is ours to take back then
            self._made |= set(change.adds.items())

    def restore(self, deadline: Deadline) -> None:
        """Bring our ports back to the start; raise UnsafeError when they cannot be."""
        self._bring_back(self.start, self.ports, deadline)

    def take_over(self, start: State, made: Iterable[tuple[int, int]]) -> None:
        """Take over what a run that is over found here, and what it made."""
        self.start = start
        self._made = {*made, *start.items()}

    def bring_back(self, deadline: Deadline) -> list[str]:
        """Bring what was taken over back to the start, as far as others leave room for it.

        Where they do not, the safe state of the lab takes its place. Return in words what is
        otherwise than it was; raise UnsafeError with what is still as the run left it.
        """
        present = self._switch.state(deadline)
        goal = reachable(self.start, present, self._ours(present), self.ports, self._limits)
        self._bring_back(goal.target, self.ports, deadline, goal.others)
        said = {
            "was made by somebody else and is left alone": goal.others,
            "was there before and cannot be had again": goal.missing,
            "is there instead, as the lab declares it safe": goal.instead,
        }
        return [
            f"{self.name}: {self._named(cross)} {word}" for word, cross in said.items() if cross
        ]

    def _own(self, astray: CrossPairs) -> None:
        """Take what went astray for ours, so that it is taken back."""
        if astray:
            self._made |= astray
            self.led_astray(self.name, astray)

    def _told(self, change: Change, expected: State, deadline: Deadline) -> Applied:
        """Have a change carried out; an answer that was lost is replaced by a read."""
        self.may_move()
        began = now()
        try:
            return self._switch.apply(change, deadline)
        except _LOST as lost:
            with suppress(LabError):
                state = self._switch.state(deadline)
                if self._on_our_ports(state) == expected:
                    why = str(lost.args[0]).removeprefix(f"{self.name}: ")
                    self.answer_lost(self.name, why)
                    return Applied(began, now(), now(), state)
            raise

    def _bring_back(
        self,
        target: State,
        region: frozenset[int],
        deadline: Deadline,
        others: State = {},  # noqa: B006 - never written to
    ) -> None:
        """Make `target` what `region` shows besides `others`, reading before each try.

        Raise UnsafeError when that fails.
        """
        self._made |= set(target.items())
        told: dict[int, int] = {}
        for pause in _PAUSES:
            problem = self._step_back(target, region, told, deadline, others)
            if not problem:
                self._made = set(target.items())
                return self._verify_back(told, deadline)
            self._clock.wait(min(pause, deadline.left))
        raise UnsafeError(
            f"{self.name} could not be brought back: {problem}",
            hint=f"look at it with `{typed('switch', self.name, 'show')}`",
        )

    def _step_back(
        self,
        target: State,
        region: frozenset[int],
        told: dict[int, int],
        deadline: Deadline,
        others: State,
    ) -> str:
        """Go once towards a state; return what is still wrong with it, or an empty string."""
        trouble = ""
        try:
            present = self._switch.state(deadline)
            try:
                if back := self._way_back(present, target):
                    told |= back.adds
                    self.may_move()
                    applied = self._switch.apply(back, deadline)
                    self._own(_astray(present, back, applied))
                    present = applied.state
            except (TestbedError, ValueError) as error:
                trouble = f"{error}; "
                present = self._switch.state(deadline)
        except LabError as error:
            self._shown = None
            return f"{trouble}what it shows cannot be read: {error}"
        self._shown = self._ours(present)
        shown = {i: e for i, e in present.items() if {i, e} & region or target.get(i) == e}
        shown = {i: e for i, e in shown.items() if others.get(i) != e}
        left = Difference.between(target, shown)
        return f"{trouble}it shows {left}" if left else ""

    def _way_back(self, present: State, target: State) -> Change:
        """Plan the way to a state, or to as much of it as nobody else is in the way of."""
        can, ports = self._switch.capabilities, self.ports | {*target, *target.values()}
        try:
            return plan_change(present, target, self._ours(present), ports, can)
        except ForeignCircuit as error:
            blocked = {*error.foreign, *error.foreign.values()}
            free = {i: e for i, e in target.items() if not {i, e} & blocked}
            return plan_change(present, free, self._ours(present), ports, can)

    def _verify_back(self, told: State, deadline: Deadline) -> None:
        try:
            self._verification.verify(Change({}, told), self._shown or {}, deadline)
        except InstrumentError as error:
            raise UnsafeError(
                f"{self.name} was brought back, but {error}",
                hint=f"look at it with `{typed('switch', self.name, 'show')}`",
            ) from error

    def _refuse_if_gone(self, gone: State) -> None:
        if gone:
            raise BusyError(
                f"{self.name} was changed behind our back: {self._named(gone)} is gone",
                hint="find out who else uses this switch",
            )

    def _on_our_ports(self, state: State) -> dict[int, int]:
        return {i: e for i, e in state.items() if {i, e} & self.ports}

    def _ours(self, state: State) -> dict[int, int]:
        return {i: e for i, e in state.items() if (i, e) in self._made}

    def _named(self, cross: State) -> str:
        """Return cross-connects with the host ports that their fibres lead to."""
        return ", ".join(
            f"{i}→{e} ({self._tx.get(i, 'unwired')} to {self._rx.get(e, 'unwired')})"
            for i, e in sorted(cross.items())
        )


def _all(cross: State) -> list[str]:
    """Return cross-connects as the words of a command line."""
    return [str(port) for pair in sorted(cross.items()) for port in pair]


def _astray(state: State, change: Change, applied: Applied) -> CrossPairs:
    """Return the cross-connects that our command made without being asked for it.

    A switch that refused nothing of an ingress and shows it elsewhere was led astray by us; one
    whose answer was lost may have been restarted or moved by others meanwhile, so of that one
    nobody knows.
    """
    return frozenset(
        (i, e)
        for i, e in applied.state.items()
        if i in change.adds and i not in applied.refused and e not in (state.get(i), change.adds[i])
    )
