"""One switch as one experiment may use it: what was there, what is ours, what it shows now."""

from __future__ import annotations

from testbed.bench.contracts import Applied, OpticalSwitch
from testbed.clock import Deadline
from testbed.errors import BusyError, InstrumentError, LabError, UnsafeError
from testbed.fabric.change import Change, ForeignCircuit, after, plan_change
from testbed.fabric.circuits import Wiring
from testbed.fabric.device import State

_LEARN_LIMIT = 2.0


class Crossbar:
    """The ports of one switch that a plan uses; light on any other port is never touched.

    Others may use the switch at the same time. A cross-connect is ours when it was adopted or
    commanded here; nothing else is ever removed, not even from our ports.
    """

    def __init__(
        self, name: str, switch: OpticalSwitch, ports: frozenset[int], wiring: Wiring
    ) -> None:
        self.name = name
        self.start: State = {}
        self._switch = switch
        self.ports = ports
        self._made: set[tuple[int, int]] = set()
        self._shown: State = {}
        """What the last read-back showed of ours."""
        self._tx = {f.tx.number: port for port, f in wiring.items() if f.tx.switch == name}
        self._rx = {f.rx.number: port for port, f in wiring.items() if f.rx.switch == name}

    def adopt(self, wanted: State, deadline: Deadline) -> None:
        """Take what is on our ports as the state to return to.

        Raise BusyError when something there is not wanted: somebody else made it.
        """
        found = self._on_our_ports(self._switch.state(deadline))
        foreign = {i: e for i, e in found.items() if wanted.get(i) != e}
        if foreign:
            raise BusyError(
                f"{self.name} holds circuits on ports of this experiment: {self._named(foreign)}",
                hint=f"wait, or take them down with `testbed switch {self.name} disconnect`",
            )
        self.start = self._shown = found
        self._made = set(found.items())

    def plan(self, wanted: State, deadline: Deadline) -> tuple[State, Change]:
        """Read back and return the state with the change that is needed.

        Raise BusyError when a circuit of ours is gone or somebody else's is in the way.
        """
        state = self._switch.state(deadline)
        gone = {i: e for i, e in self._shown.items() if state.get(i) != e}
        if gone:
            raise BusyError(
                f"{self.name} was changed behind our back: {self._named(gone)} is gone",
                hint="find out who else uses this switch",
            )
        try:
            return state, plan_change(state, wanted, self._ours(state), self.ports)
        except ForeignCircuit as error:
            raise BusyError(
                f"{self.name} holds circuits in the way: {self._named(error.foreign)}",
                hint="find out who else uses this switch",
            ) from None

    def apply(self, state: State, change: Change, deadline: Deadline) -> Applied:
        """Do a change and compare the read-back of our ports."""
        self._made |= set(change.adds.items())
        try:
            applied = self._switch.apply(change, deadline)
        except InstrumentError:
            self._shown = self._after_failure(deadline)
            raise
        self._shown = self._ours(applied.state)
        expected = self._on_our_ports(after(state, change))
        shown = self._on_our_ports(applied.state)
        if shown != expected:
            raise InstrumentError(
                self.name,
                f"was told {change}, reported no error, but shows {_difference(expected, shown)}",
                hint="a port may be stuck: try it with `testbed switch`",
            )
        return applied

    def restore(self, deadline: Deadline) -> None:
        """Bring our ports back to the start; raise UnsafeError when they cannot be."""
        try:
            present = self._switch.state(deadline)
            change = plan_change(present, self.start, self._ours(present), self.ports)
            if change:
                present = self._switch.apply(change, deadline).state
        except (LabError, ForeignCircuit) as error:
            raise UnsafeError(
                f"{self.name} could not be brought back: {error}", hint=self._look_hint()
            ) from error
        self._shown = self._ours(present)
        shown = self._on_our_ports(present)
        if shown != self.start:
            raise UnsafeError(
                f"{self.name} could not be brought back: it shows {_difference(self.start, shown)}",
                hint=self._look_hint(),
            )

    def _on_our_ports(self, state: State) -> dict[int, int]:
        return {i: e for i, e in state.items() if {i, e} & self.ports}

    def _ours(self, state: State) -> dict[int, int]:
        return {i: e for i, e in state.items() if (i, e) in self._made}

    def _after_failure(self, deadline: Deadline) -> State:
        """Return what a change that failed left of ours; nothing when that cannot be read."""
        try:
            return self._ours(self._switch.state(deadline.within(_LEARN_LIMIT)))
        except LabError:
            return {}

    def _look_hint(self) -> str:
        return f"look at it with `testbed switch {self.name} show`"

    def _named(self, cross: State) -> str:
        """Return cross-connects with the host ports that their fibres lead to."""
        return ", ".join(
            f"{i}→{e} ({self._tx.get(i, 'unwired')} to {self._rx.get(e, 'unwired')})"
            for i, e in sorted(cross.items())
        )


def _difference(expected: State, shown: State) -> str:
    missing = [f"no {i}→{e}" for i, e in sorted(expected.items()) if shown.get(i) != e]
    extra = [f"{i}→{e} instead" for i, e in sorted(shown.items()) if expected.get(i) != e]
    return ", ".join(missing + extra)
