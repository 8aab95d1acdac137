"""Driver for a generic 2×2 element (Mach-Zehnder interferometer), over a SCPI dialect of our own.

Inputs are ports 1 and 2, outputs 3 and 4; BAR connects 1→3 and 2→4, CROSS 1→4 and 2→3. There is no
standard for such elements: whoever builds a controller can let it speak this one. Commands:
`ROUT<n>:STAT BAR|CROSS`, `ROUT<n>:STAT?` (BAR, CROSS, or NONE for a phase between them),
`ROUT<n>:PHAS <rad>`, `ROUT<n>:PHAS?`, `*IDN?`, `SYST:ERR?`.
"""

from __future__ import annotations

from testbed.bench.contracts import Identity, Tracer
from testbed.clock import Deadline
from testbed.fabric.device import Capabilities, State
from testbed_drivers.dialects.scpi import Scpi
from testbed_drivers.switches.descriptors.selectors import MziOptions
from testbed_drivers.switches.selector import Selector, positions_of
from testbed_drivers.switches.switch import ChangeResult, capabilities_of, sides
from testbed_drivers.transports.base import Dial, line_opener

BAR, CROSS = positions_of(2)
_STATES: dict[str, State] = {"BAR": BAR, "CROSS": CROSS, "NONE": {}}


class Mzi(Selector):
    """One element; `dial` replaces the way the line of its controller is opened.

    One that is made `beside` another shares the line with it.
    """

    _scpi: Scpi

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
            self._dialect = self._scpi = beside._scpi.beside(name)
            return
        self._dialect = self._scpi = Scpi(
            name,
            line_opener(name, resource, options, dial),
            tracer,
            ends=(b"\n", b"\n"),
            denied=("*RST",),
            serial=identity,
            timeouts=options,
        )

    def state(self, deadline: Deadline) -> State:
        """Read back the position; no cross-connect at all while the phase is between the two."""
        return self._scpi.query(f"{self._header}?", _state, deadline)

    def _read_capabilities(self, who: Identity, deadline: Deadline) -> Capabilities:
        return capabilities_of(self._options, sides(2, 2), positions=(BAR, CROSS))

    def _move(self, begin: State, wanted: State, deadline: Deadline) -> ChangeResult:
        word = "BAR" if wanted == BAR else "CROSS"
        return ChangeResult(*self._scpi.execute([f"{self._header} {word}"], deadline))


def _state(reply: str) -> State:
    if reply not in _STATES:
        raise ValueError(f"{reply!r} is none of {', '.join(_STATES)}")
    return _STATES[reply]
