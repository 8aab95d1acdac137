"""One switch as one experiment may use it: what was there, what is ours, what it shows now."""

from __future__ import annotations

from testbed.bench.contracts import Applied, OpticalSwitch
from testbed.clock import Deadline
from testbed.errors import BusyError, InstrumentError, LabError, UnsafeError
from testbed.fabric.change import Change, ForeignCircuit, State, after, plan_change
from testbed.fabric.circuits import Wiring

_LEARN_LIMIT = 2.0


class Crossbar:
    """The ports of one switch that a plan uses; light on any other port is never touched."""

    def __init__(
        self, name: str, switch: OpticalSwitch, ports: frozenset[int], wiring: Wiring
    ) -> None:
        self.name = name
        self.start: State = {}
        self._switch = switch
        self.ports = ports
        self._ours: State = {}
        self._tx = {f.tx.number: port for port, f in wiring.items() if f.tx.switch == name}
        self._rx = {f.rx.number: port for port, f in wiring.items() if f.rx.switch == name}

    def adopt(self, wanted: State, deadline: Deadline) -> None:
        """Take what is on our ports as the state to return to.

        Raise BusyError when something there is not wanted: somebody else made it.
        """
        found = self._mine(self._switch.state(deadline))
        foreign = {i: e for i, e in found.items() if wanted.get(i) != e}
        if foreign:
            raise BusyError(
                f"{self.name} holds circuits on ports of this experiment: {self._named(foreign)}",
                hint=f"wait, or take them down with `testbed switch {self.name} disconnect`",
            )
        self.start = self._ours = found

    def plan(self, wanted: State, deadline: Deadline) -> tuple[State, Change]:
        """Read back and return the state with the change that is needed.

        Raise BusyError when a circuit of ours is gone or somebody else's is in the way.
        """
        state = self._switch.state(deadline)
        gone = {i: e for i, e in self._ours.items() if state.get(i) != e}
        if gone:
            raise BusyError(
                f"{self.name} was changed behind our back: {self._named(gone)} is gone",
                hint="find out who else uses this switch",
            )
        try:
            return state, plan_change(state, wanted, self._ours, self.ports)
        except ForeignCircuit as error:
            raise BusyError(
                f"{self.name} holds circuits in the way: {self._named(error.foreign)}",
                hint="find out who else uses this switch",
            ) from None

    def apply(self, state: State, change: Change, deadline: Deadline) -> Applied:
        """Do a change and compare the read-back; what a failed one left there becomes ours."""
        try:
            applied = self._switch.apply(change, deadline)
        except InstrumentError:
            self._learn(deadline)
            raise
        self._ours = self._mine(applied.state)
        expected = after(state, change)
        if dict(applied.state) != expected:
            raise InstrumentError(
                self.name,
                f"was told {change}, reported no error, but shows "
                f"{_difference(expected, applied.state)}",
                hint="a port may be stuck: try it with `testbed switch`",
            )
        return applied

    def restore(self, deadline: Deadline) -> None:
        """Bring our ports back to the start; raise UnsafeError when they cannot be."""
        present = self._mine(self._switch.state(deadline))
        change = plan_change(present, self.start, present, self.ports)
        if change:
            present = self._mine(self._switch.apply(change, deadline).state)
        self._ours = present
        if present != self.start:
            raise UnsafeError(
                f"{self.name} could not be brought back: it shows "
                f"{_difference(self.start, present)}",
                hint=f"look at it with `testbed switch {self.name} show`",
            )

    def _mine(self, state: State) -> dict[int, int]:
        return {i: e for i, e in state.items() if {i, e} & self.ports}

    def _learn(self, deadline: Deadline) -> None:
        try:
            self._ours = self._mine(self._switch.state(deadline.within(_LEARN_LIMIT)))
        except LabError:
            return  # `restore` will read again, and say so when it cannot

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
