"""Driver for Polatis (HUBER+SUHNER) piezo switches, over their SCPI.

Inputs are ports 1..N, outputs N+1..N+M. Commands used and their evidence: drivers/README.md.
What an ADD on a used port does is not documented, so a change always removes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from testbed.bench.contracts import Applied, Capabilities, Identity, Tracer
from testbed.clock import Deadline, now
from testbed.errors import LinkLost, UsageError
from testbed.fabric.change import Change, State
from testbed_drivers.cards import PolatisOptions
from testbed_drivers.scpi import Scpi
from testbed_drivers.scpi_syntax import port_list, port_lists
from testbed_drivers.transport import Dial, dial_for, is_serial

PAIRS_PER_COMMAND = 64
"""The longest list that is sent; the switch's own limit is not public."""
DENIED = ("*RST", "OXC:SWITch:DISConnect:ALL", "OXC:SWITch:CONNect:ONLY")
"""Commands that end circuits of others."""


class Polatis:
    """A Polatis switch; an `OpticalSwitch`. `dial` replaces the way its line is opened."""

    def __init__(
        self,
        name: str,
        resource: str,
        ports: frozenset[int],
        identity: str | None,
        options: PolatisOptions,
        tracer: Tracer,
        *,
        dial: Dial | None = None,
    ) -> None:
        self._name = name
        self._ports = ports
        self._options = options
        self._capabilities: Capabilities | None = None
        dial = dial or dial_for(name, resource, options.transport)
        self._scpi = Scpi(
            name,
            lambda deadline: dial(name, resource, baud=options.baud, deadline=deadline),
            tracer,
            ends=options.ends(serial=is_serial(resource)),
            denied=DENIED,
            serial=identity,
        )

    @property
    def capabilities(self) -> Capabilities:
        """Return what the switch can do; known once it was opened."""
        if self._capabilities is None:
            raise LinkLost(self._name, "has not been opened yet")
        return self._capabilities

    def open(self, deadline: Deadline) -> Identity:
        """Open the line, check who answers and learn the ports."""
        who = self._scpi.identify(deadline)
        inputs, outputs = self._options.size or self._scpi.ask(":OXC:SWIT:SIZE?", _size, deadline)
        self._capabilities = Capabilities(
            ingress=frozenset(range(1, inputs + 1)),
            egress=frozenset(range(inputs + 1, inputs + outputs + 1)),
            settle=self._options.settle,
        )
        return who

    def identify(self, deadline: Deadline) -> Identity:
        """Ask who it is; refuse the wrong serial number."""
        return self._scpi.identify(deadline)

    def state(self, deadline: Deadline) -> State:
        """Read back every cross-connect, ours or not."""
        parse = partial(_state, self.capabilities)
        return self._scpi.ask(":OXC:SWIT:CONN:STAT?", parse, deadline)

    def apply(self, change: Change, deadline: Deadline) -> Applied:
        """Remove, add and check for errors in one line, then read back."""
        self._check(change)
        budget = deadline.within(3 * self._options.settle_max + 2.0)
        with self._scpi.held(deadline):
            commanded = answered = now()
            if change:
                commanded, answered = self._scpi.do(list(_orders(change)), budget)
            state = self.state(deadline)
            return Applied(commanded, answered, now(), state)

    def close(self) -> None:
        """Close the line; safe to call twice. Leaves all light as it is."""
        self._scpi.close()

    def _check(self, change: Change) -> None:
        """Refuse, before the first byte, what the lab file or the switch does not allow."""
        for ingress, egress in (*change.removes.items(), *change.adds.items()):
            if ingress not in self.capabilities.ingress or egress not in self.capabilities.egress:
                raise UsageError(
                    f"{self._name} has no path {ingress}→{egress}",
                    hint=f"its inputs are {_range(self.capabilities.ingress)}, "
                    f"its outputs {_range(self.capabilities.egress)}",
                )
            if foreign := {ingress, egress} - self._ports:
                raise UsageError(
                    f"{self._name}: port {foreign.pop()} is not among its ports in the lab file"
                )
        if len(set(change.adds.values())) != len(change.adds):
            raise UsageError(f"{self._name}: two inputs are wanted on one output")


def _orders(change: Change) -> Iterator[str]:
    for verb, pairs in (("SUB", change.removes), ("ADD", change.adds)):
        for some in _portions(pairs):
            yield f":OXC:SWIT:CONN:{verb} {port_list(some)},{port_list(some.values())}"


def _portions(pairs: Mapping[int, int]) -> Iterator[dict[int, int]]:
    rows = sorted(pairs.items())
    for start in range(0, len(rows), PAIRS_PER_COMMAND):
        yield dict(rows[start : start + PAIRS_PER_COMMAND])


def _size(reply: str) -> tuple[int, int]:
    inputs, outputs = (int(count) for count in reply.split(","))
    return inputs, outputs


def _state(capabilities: Capabilities, reply: str) -> dict[int, int]:
    """Return the cross-connects of `(@1,2),(@17,18)`; either end of a pair may come first."""
    lists = port_lists(reply)
    if len(lists) != 2 or len(lists[0]) != len(lists[1]):
        raise ValueError(f"{reply!r} is not two lists of equal length")
    state = dict(sorted(pair) for pair in zip(*lists, strict=True))
    if len(state) != len(lists[0]) or len(set(state.values())) != len(state):
        raise ValueError(f"{reply!r} has a port in two cross-connects")
    if not (state.keys() <= capabilities.ingress and set(state.values()) <= capabilities.egress):
        raise ValueError(f"{reply!r} has a cross-connect that is not from an input to an output")
    return state


def _range(ports: frozenset[int]) -> str:
    return f"{min(ports)}-{max(ports)}"
