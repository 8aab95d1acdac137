"""Cost and power of rails: a circuit switch for each, beside a network of packet switches.

After the authors' analysis of Opus (arXiv 2602.12521): packet switches join the servers of each
rail in two tiers, of as many ports as that takes, and a spine joins the rails; every port of a
packet switch and every accelerator has a transceiver. A circuit switch has two ports for each
server, one per direction, and needs no transceivers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prices:
    """Of one port or transceiver, in any unit of power or money."""

    transceiver: float
    packet_port: float
    circuit_port: float


def packet_ports(servers: int, per_server: int) -> int:
    """Return the ports of packet switches that join the accelerators of servers, rail-optimised.

    A switch has about √(4·servers) ports; of each rail half of them lead down, and each tier has as
    many switches as whole halves fit, as in the authors' analysis.
    """
    ports = round(math.sqrt(4 * servers))
    of_rail = 2 * (servers // (ports // 2))
    spine = servers * per_server // ports
    return ports * (of_rail * per_server + spine)


def totals(servers: int, per_server: int, prices: Prices) -> tuple[float, float]:
    """Return what the packet network and the circuit switches take, in the unit of the prices."""
    accelerators = servers * per_server
    ports = packet_ports(servers, per_server)
    packet = ports * prices.packet_port + (accelerators + ports) * prices.transceiver
    circuit = 2 * accelerators * prices.circuit_port + accelerators * prices.transceiver
    return packet, circuit
