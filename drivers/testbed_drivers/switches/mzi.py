"""Driver for a generic 2×2 element (Mach-Zehnder interferometer), over a SCPI dialect of our own.

Inputs are ports 1 and 2, outputs 3 and 4; BAR connects 1→3 and 2→4, CROSS 1→4 and 2→3. There is no
standard for such elements: whoever builds a controller can let it speak this one. Commands:
`ROUT<n>:STAT BAR|CROSS`, `ROUT<n>:STAT?` (BAR, CROSS, or NONE for a phase between them),
`ROUT<n>:PHAS <rad>`, `ROUT<n>:PHAS?`, `*IDN?`, `SYST:ERR?`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from testbed.bench.contracts import Identity, Tracer
from testbed.clock import Deadline
from testbed.fabric.device import Capabilities, State
from testbed_drivers.dialects.scpi import Scpi
from testbed_drivers.switches.descriptors.selectors import MziOptions
from testbed_drivers.switches.selector import Selector, positions_of
from testbed_drivers.switches.switch import Done, sides
from testbed_drivers.transports.base import Dial, dial_for

BAR, CROSS = positions_of(2)
_STATES: dict[str, State] = {"BAR": BAR, "CROSS": CROSS, "NONE": {}}


class Mzi(Selector):
    """One element; `dial` replaces the way the line of its controller is opened.

    One that is made `beside` another shares the line with it.
    """

    def __init__(
        self,
        name: str,
        resource: str,
        ports: frozenset[int],
        identity: str | None,
        options: MziOptions,
        tracer: Tracer,
        *,
        dial: Dial | None = None,
        beside: Mzi | None = None,
    ) -> None:
        super().__init__(name, ports, options)
        self._options = options
        self._header = f":ROUT{options.element}:STAT"
        if beside:
            self._scpi: Scpi = beside._scpi.beside(name)
            return
        dial = dial or dial_for(name, resource, options.transport, options)
        self._scpi = Scpi(
            name,
            lambda deadline: dial(name, resource, baud=options.baud, deadline=deadline),
            tracer,
            ends=(b"\n", b"\n"),
            denied=("*RST",),
            serial=identity,
            timeouts=options,
        )

    def identify(self, deadline: Deadline) -> Identity:
        """Ask who it is; refuse the wrong serial number."""
        return self._scpi.identify(deadline)

    def state(self, deadline: Deadline) -> State:
        """Read back the position; no cross-connect at all while the phase is between the two."""
        return self._scpi.ask(f"{self._header}?", _state, deadline)

    def close(self) -> None:
        """Close the line; safe to call twice. Leaves all light as it is."""
        self._scpi.close()

    def _learn(self, who: Identity, deadline: Deadline) -> Capabilities:
        ingress, egress = sides(2, 2)
        settle, longest = self._options.settle, self._options.settle_max
        return Capabilities(ingress, egress, settle, longest, (BAR, CROSS))

    def _held(self, deadline: Deadline) -> AbstractContextManager[None]:
        return self._scpi.held(deadline)

    def _move(self, begin: State, wanted: State, deadline: Deadline) -> Done:
        word = "BAR" if wanted == BAR else "CROSS"
        return Done(*self._scpi.do([f"{self._header} {word}"], deadline))


def _state(reply: str) -> State:
    if reply not in _STATES:
        raise ValueError(f"{reply!r} is none of {', '.join(_STATES)}")
    return _STATES[reply]
