"""Which ports of a lab are the ranks that speak the protocol of Opus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.bench.lease_resources import Resources, part_of
from testbed.errors import UsageError
from testbed.fabric.circuits import HostPort
from testbed.fabric.fibre_plant import own_ports
from testbed.plugins import nearest
from testbed.schema import Lab, avoided


@dataclass(frozen=True, slots=True)
class RailLayout:
    """The hosts, in the order of their numbers, and the ports of their ranks."""

    hosts: tuple[str, ...]
    rails: int
    ports: tuple[tuple[HostPort, ...], ...]
    """Of each rank: that on rail r of host h has number h × rails + r."""

    def on_rail(self, rail: int) -> tuple[tuple[HostPort, ...], ...]:
        """Return the ports of each host's rank on a rail."""
        return self.ports[rail :: self.rails]

    @property
    def all_ports(self) -> list[HostPort]:
        """Return all ports of all ranks."""
        return [port for own in self.ports for port in own]

    def switches(self, lab: Lab) -> list[str]:
        """Return the switches that the ports lead to."""
        wiring = lab.wiring()
        ends = (wiring[port] for port in self.all_ports)
        return sorted({switch for end in ends for switch in (end.tx.switch, end.rx.switch)})

    def resources(self, lab: Lab) -> Resources:
        """Return what must be leased: the ports of the switches."""
        wiring = lab.wiring()
        ends = {end for p in self.all_ports for end in (wiring[p].tx, wiring[p].rx)}
        return frozenset().union(*(part_of(lab, end.switch, str(end.number)) for end in ends))


def rail_layout(lab: Lab, names: Sequence[str], rails: int | None) -> RailLayout:
    """Return the ranks of some hosts of a lab, of all that have fibres by default.

    Without their number, there are as many rails as switches that the hosts' ports lead to. Raise
    UsageError for hosts that may not be used, or whose ports their ranks cannot share.
    """
    all_ports = lab.ports()
    if lab.fibres:
        raise UsageError(
            f"circuits of lab {lab.lab} pass several switches, and a rail is on one",
            hint="use a lab whose hosts all have a port on each rail's switch",
        )
    hosts = tuple(names) or tuple(name for name, own in all_ports.items() if own)
    set_aside = avoided(lab)
    for name in hosts:
        if name not in lab.hosts:
            raise UsageError(
                f"--hosts: {name!r} is not a host of lab {lab.lab}",
                hint=nearest(name, list(lab.hosts)),
            )
        if name in set_aside:
            hint = "name other hosts with --hosts"
            raise UsageError(f"{name} may not be used: {set_aside[name]}", hint=hint)
        if not all_ports[name]:
            raise UsageError(
                f"{name} of lab {lab.lab} has no port with fibres to a circuit switch",
                hint="name hosts that have some with --hosts",
            )
    if not hosts:
        raise UsageError(f"no host of lab {lab.lab} has a port with fibres to a circuit switch")
    if len({*hosts}) < len(hosts):
        raise UsageError(f"--hosts names {_twice(hosts)} twice")
    rails = rails or _switches_of_a_host(lab, hosts[0])
    try:
        ports = own_ports(hosts, all_ports, rails)
    except ValueError as error:
        raise UsageError(f"--rails {rails}: {error}") from None
    return RailLayout(hosts, rails, ports)


def _switches_of_a_host(lab: Lab, host: str) -> int:
    wiring = lab.wiring()
    return len({wiring[HostPort(host, port)].tx.switch for port in lab.ports()[host]})


def _twice(names: Sequence[str]) -> str:
    return next(name for number, name in enumerate(names) if name in names[:number])
