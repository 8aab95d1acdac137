"""Driver for a generic 2×2 element (Mach-Zehnder interferometer), with our own SCPI commands.

Inputs are ports 1 and 2, outputs 3 and 4; BAR connects 1→3 and 2→4, CROSS 1→4 and 2→3. There is no
standard for such elements: a controller can be built to speak this one. Commands:
`ROUT<n>:STAT BAR|CROSS`, `ROUT<n>:STAT?` (BAR, CROSS, or NONE for a phase between them),
`ROUT<n>:PHAS <rad>`, `ROUT<n>:PHAS?`, `*IDN?`, `SYST:ERR?`.
"""

from __future__ import annotations

from testbed.bench.contracts import Identity
from testbed.clock import Deadline
from testbed.fabric.device import Capabilities, State
from testbed_drivers.dialects.scpi import Scpi
from testbed_drivers.switches.descriptors.selectors import MziOptions
from testbed_drivers.switches.selector import Selector, positions_of
from testbed_drivers.switches.switch import ChangeResult, capabilities_of, sides
from testbed_drivers.transports.base import Endpoint

BAR, CROSS = positions_of(2)
_STATES: dict[str, State] = {"BAR": BAR, "CROSS": CROSS, "NONE": {}}


class Mzi(Selector[MziOptions, Scpi]):
    """Driver of one element; one made `beside` another shares the line of their controller."""

    def _new_dialect(self, endpoint: Endpoint) -> Scpi:
        self._header = f":ROUT{self._options.element}:STAT"
        if self._beside:
            return self._beside._dialect.beside(self._name)
        return Scpi(endpoint, ends=(b"\n", b"\n"), denied=("*RST",))

    def state(self, deadline: Deadline) -> State:
        """Read back the position; no cross-connect while the phase is between bar and cross."""
        return self._dialect.query(f"{self._header}?", _state, deadline)

    def _read_capabilities(self, identity: Identity, deadline: Deadline) -> Capabilities:
        return capabilities_of(self._options, sides(2, 2), positions=(BAR, CROSS))

    def _move(self, begin: State, wanted: State, deadline: Deadline) -> ChangeResult:
        word = "BAR" if wanted == BAR else "CROSS"
        return ChangeResult(*self._dialect.execute([f"{self._header} {word}"], deadline))


def _state(reply: str) -> State:
    if reply not in _STATES:
        raise ValueError(f"{reply!r} is not one of {', '.join(_STATES)}")
    return _STATES[reply]
