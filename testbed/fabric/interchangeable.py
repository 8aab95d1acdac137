"""Whether every host could have the place of every other, as when a spare replaces a rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from testbed.fabric.circuits import Circuit, HostPort, Wiring, cross_connects
from testbed.fabric.fibre_plant import RankPorts
from testbed.fabric.links import Link


def check_interchangeable(links: Iterable[Link], ports: RankPorts, wiring: Wiring) -> None:
    """Check that every link could be made with any two hosts as its ends.

    `ports` are those of each host. Hosts whose fibres lead to the same switches are alike, so the
    work is proportional to the number of hosts, not to its square. Raise ValueError, which names
    two ports that no circuit can join.
    """
    for number, other in sorted({(max(p, q), min(p, q)) for (_, p), (_, q) in links}):
        for some in _alike(number, ports, wiring):
            for others in _alike(other, ports, wiring):
                ends = ((a, b) for a in some[:2] for b in others[:2] if a.host != b.host)
                cross_connects([Circuit.between(*both) for both in ends], wiring)


def _alike(number: int, ports: RankPorts, wiring: Wiring) -> list[list[HostPort]]:
    """Return the ports of a number, in lists of those that the same ports can be joined with."""
    found: defaultdict[object, list[HostPort]] = defaultdict(list)
    for own in ports:
        port = own[number]
        fibres = wiring[port]
        end = fibres.tx.switch, fibres.rx.switch, fibres.is_bidi, fibres.side
        found[end].append(port)
    return list(found.values())
