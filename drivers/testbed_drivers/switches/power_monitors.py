"""Find the ports of a switch that have a power monitor, by querying the switch.

Inputs and outputs are equipped separately: many switches measure at their outputs only. A whole
side is read in one query if possible; otherwise each of its ports is queried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from testbed_drivers.switches.descriptors.polatis import Monitors
from testbed_drivers.switches.switch import portions

Reads = Callable[[Sequence[int]], bool]
"""Tells whether a switch reads the light of all of some ports."""


def monitored_ports(
    declared: Monitors, ingress: frozenset[int], egress: frozenset[int], reads: Reads, most: int
) -> frozenset[int]:
    """Return the ports with a power monitor that answers, among those that the lab file declares.

    At most `most` ports are queried at a time.
    """
    sides = {"inputs": ingress, "outputs": egress}
    asked = [side for name, side in sides.items() if declared in (True, name)]
    return frozenset(p for side in asked for p in _readable(sorted(side), reads, most))


def _readable(ports: Sequence[int], reads: Reads, most: int) -> Iterator[int]:
    for some in portions(ports, most):
        yield from some if reads(some) else (port for port in some if reads([port]))
