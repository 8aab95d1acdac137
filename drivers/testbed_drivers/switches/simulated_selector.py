"""A simulated switch that moves as a whole, from one position to another, by one actuator."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf
from threading import RLock

from testbed.bench.sites import SwitchSite
from testbed.fabric.device import State
from testbed_drivers.dialects.armed_faults import ArmedFault, ArmedFaults
from testbed_drivers.switches.simulated_switch import FAULTS, SimulatedSwitch
from testbed_drivers.switches.switch import sides

_OF_LISTS = ("partial", "swept")
SELECTOR_FAULTS = {name: what for name, what in FAULTS.items() if name not in _OF_LISTS}
"""What a selector with a dark position can do wrong: one actuator does no half of a list."""
LIT_FAULTS = {name: what for name, what in SELECTOR_FAULTS.items() if name != "vanish"}
"""What a selector can do wrong that always has some circuit."""
ELEMENT_FAULTS = {name: what for name, what in LIT_FAULTS.items() if name != "misrouted"}
"""What a 2×2 element can do wrong: of two positions, the wrong one is the old one."""


class SimulatedSelector(SimulatedSwitch):
    """One simulated actuator and its `positions`; the first one is that after power-on."""

    def __init__(
        self, site: SwitchSite, faults: ArmedFaults, lock: RLock, positions: Sequence[State]
    ) -> None:
        super().__init__(site, faults, lock)
        self._positions = positions
        self.commanded = dict(positions[0])
        self._mirrors = dict(positions[0])
        self._history = deque([(-inf, dict(positions[0]))], self._history.maxlen)
        self._show()

    def point(self, position: State) -> None:
        """Move to a position: the old one goes dark at once, the new one is lit once settled."""
        begin, end = set(self.commanded.items()), set(position.items())
        ports = {port for pair in begin ^ end for port in pair}
        if not ports or self._strikes("stuck", *ports):
            return
        if len(position) == 1 and self._strikes("misrouted", *ports):
            ((ingress, egress),) = position.items()
            end = {(ingress, min(self.site.egress - {egress}, default=egress))}
        self.commanded = dict(end)
        self._note()
        if not self._strikes("lie", *ports):
            self._turn(begin - end, end - begin)

    def change_by_other_client(self, fault: ArmedFault) -> None:
        """Move to another position, as an operator at the front panel would."""
        with self._lock:
            others = [p for p in self._positions if p != self.commanded]
            if others and fault.port in (None, *self.commanded, *self.commanded.values()):
                self.point(others[0])

    def restart(self, circuits: State) -> None:
        """Simulate a power cycle that ends in position `circuits`."""
        self._turn(set(self._mirrors.items()), set())
        self.commanded = dict(circuits)
        self._turn(set(), set(circuits.items()))

    def crossed(self) -> State:
        """Return a position other than the present one."""
        return next(p for p in reversed(self._positions) if p != self.commanded)

    def _new(self) -> State:
        return self._positions[0]

    def _turn(self, gone: set[tuple[int, int]], new: set[tuple[int, int]]) -> None:
        """Let go of some circuits and settle at others."""
        self._darken([ingress for ingress, _ in gone])
        coming = dict(new)
        self._aim(coming)
        self._move(coming)
        self._show()


def set_selector_ports(site: SwitchSite) -> int:
    """Give a site the ports of the smallest sufficient 1×N selector; return N."""
    count = max(site.ingress | site.egress) - 1
    site.ingress, site.egress = sides(1, count)
    return count
