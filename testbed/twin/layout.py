"""The layout of a lab's twin: addresses, link names, clock offsets; pure functions."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from testbed.fabric.circuits import HostPort
from testbed.resource import OtherVisa, Tcp, Tty, place
from testbed.schema import Lab

MANAGEMENT_INTERFACE = "mgmt0"
GATEWAY = "100.64.0.1"
"""The controller's address on the management network (RFC 6598, never routed on the internet)."""

_NAMED_HOSTS = ipaddress.IPv4Network("100.64.1.0/24")
_NAMED_INSTRUMENTS = ipaddress.IPv4Network("100.64.2.0/24")
_MEASURES_NO_LIGHT = ("photonic-mesh",)
"""The drivers of switches without power monitors."""
_FIRST_LINK = 1000
"""Interface indexes of the fabric start here, above any that a host's own namespace uses."""


@dataclass(frozen=True, slots=True)
class Link:
    """A fabric port: the name and index of its link in the fabric, its name on the host."""

    port: HostPort
    name: str
    index: int
    interface: str


@dataclass(frozen=True, slots=True)
class HostLayout:
    """One virtual host: its addresses, and its clock offset from the sandbox."""

    name: str
    ssh_name: str
    address: str
    ssh_port: int
    uplink: str
    uplink_index: int
    links: tuple[Link, ...]
    clock_offset: int
    """Nanoseconds that the host's monotonic clock is ahead."""
    clock_drift: int
    """Nanoseconds that it gains in each second that the kernel counts."""


@dataclass(frozen=True, slots=True)
class InstrumentLayout:
    """One instrument: its name in the lab file, and the address where it is served."""

    name: str
    place: Tcp | Tty
    address: str
    """For TCP: the address its name stands for inside the twin."""


@dataclass(frozen=True, slots=True)
class TwinLayout:
    """The layout of a lab's whole twin."""

    hosts: dict[str, HostLayout]
    instruments: tuple[InstrumentLayout, ...]

    def names(self) -> dict[str, str]:
        """Return the host names that must resolve inside the twin, with their addresses."""
        hosts = {host.ssh_name: host.address for host in self.hosts.values()}
        boxes = {i.place.host: i.address for i in self.instruments if isinstance(i.place, Tcp)}
        return {name: address for name, address in (hosts | boxes).items() if name != address}


def lay_out(lab: Lab) -> TwinLayout:
    """Return the layout of a lab's twin; raise ValueError for a lab that a twin cannot simulate."""
    _refuse_light_through_switches(lab)
    addresses = _addresses((host.ssh_name for host in lab.hosts.values()), _NAMED_HOSTS)
    chance, drift = random.Random(lab.twin.seed), random.Random(f"drift {lab.twin.seed}")
    indexes = iter(range(_FIRST_LINK, 2**20))
    hosts = {}
    for number, (name, host) in enumerate(lab.hosts.items()):
        port = int(host.machine.rpartition(":")[2])
        links = tuple(
            Link(HostPort(name, key), f"f{number}.{key}"[:15], next(indexes), spec.interface)
            for key, spec in host.ports.items()
        )
        offset = int(chance.uniform(0, lab.twin.clock_skew) * 1e9)
        gain = round(drift.uniform(-1, 1) * lab.twin.clock_drift * 1e9)
        _refuse_another_start(name, host.env, gain)
        address, uplink = addresses[host.ssh_name], f"m{number}"
        hosts[name] = HostLayout(
            name, host.ssh_name, address, port, uplink, next(indexes), links, offset, gain
        )
    return TwinLayout(hosts, tuple(_instruments(lab)))


def _refuse_light_through_switches(lab: Lab) -> None:
    """Raise ValueError where a switch would measure light that comes from another switch."""
    for pair in lab.fibre_pairs().values():
        for end in (pair.near, pair.far):
            driver = lab.switches[end.tx.switch].driver
            if driver not in _MEASURES_NO_LIGHT:
                raise ValueError(
                    f"fibres.{pair}: a twin computes the power of light from hosts only, and "
                    f"{end.tx.switch}, a {driver}, may measure what comes from another switch"
                )


def _refuse_another_start(name: str, environment: Collection[str], gain: int) -> None:
    """Raise ValueError where ranks would have another clock than their agent."""
    if gain and "PYTHONPATH" in environment:
        raise ValueError(
            f"{name}: its env sets PYTHONPATH, by which a twin gives it a clock of its own rate;"
            " set twin.clock_drift to 0 ppm"
        )


def _instruments(lab: Lab) -> Iterator[InstrumentLayout]:
    places = {name: place(box.resource) for name, box in lab.instruments().items()}
    named = (where.host for where in places.values() if isinstance(where, Tcp))
    addresses = _addresses(named, _NAMED_INSTRUMENTS)
    for name, where in places.items():
        if isinstance(where, OtherVisa):
            raise ValueError(
                f"{name}: a twin cannot answer at {where.name}; it has TCP and serial lines"
            )
        address = addresses[where.host] if isinstance(where, Tcp) else ""
        yield InstrumentLayout(name, where, address)


def _addresses(names: Iterable[str], network: ipaddress.IPv4Network) -> dict[str, str]:
    """Return an address for each name: itself where it is one, or the next of a network."""
    free = map(str, network.hosts())
    return {name: name if _is_address(name) else next(free) for name in dict.fromkeys(names)}


def _is_address(name: str) -> bool:
    try:
        return bool(ipaddress.IPv4Address(name))
    except ValueError:
        return False
