"""Which ports of a switch have a power monitor: asked of the switch itself, port by port.

Inputs and outputs are equipped apart: many switches measure at their outputs only. Where a whole
side can be read that is one question; where it cannot, each port of it is asked for by itself.
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
    """Return the ports that a switch reads, out of those of which the lab file says so.

    At most `most` ports are asked for at a time.
    """
    sides = {"inputs": ingress, "outputs": egress}
    asked = [side for name, side in sides.items() if declared in (True, name)]
    return frozenset(p for side in asked for p in _readable(sorted(side), reads, most))


def _readable(ports: Sequence[int], reads: Reads, most: int) -> Iterator[int]:
    for some in portions(ports, most):
        yield from some if reads(some) else (port for port in some if reads([port]))
