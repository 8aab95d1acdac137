"""Map names of a lab file to the resources that can be leased.

A device is identified by every address at which it answers, so that two lab files that name one
device differently still conflict, and by its serial number as far as the lab file states it; once
it has answered, `ReportedIdentities.resources` adds the identity that it reported. One device is
then several resources of one name. A switch is shared port by port, a power unit outlet by outlet;
a device is leased as a whole when its line carries one session at a time, or when changing one
circuit may move others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from testbed.bench import addresses, identities
from testbed.errors import UsageError
from testbed.fabric.circuits import fibre_ends
from testbed.plugins import kind, nearest
from testbed.record.lease_rules import Resource, ResourceIndex
from testbed.resource import Ssh, Tcp, place
from testbed.schema import Lab, usable_fibres
from testbed.schema.instrument_checks import element_of

Resources = frozenset[Resource]


def needs(lab: Lab, hosts: Iterable[str], whole: Iterable[str] = ()) -> Resources:
    """Return the resources that an experiment on some hosts needs, plus `whole` instruments.

    Where circuits pass several switches, that are all fibres between them.
    """
    named = sorted(hosts)
    ends = fibre_ends(lab.wiring(), named, usable_fibres(lab))
    outlets = [outlet for host in named if (outlet := lab.hosts[host].power)]
    boxes = {end.switch for end in ends} | {outlet.unit for outlet in outlets} | {*whole}
    places = [place(lab.instruments()[name].resource) for name in boxes]
    lines = {found.host for found in places if isinstance(found, Tcp)}
    addresses.look_up(lines | {lab.hosts[name].ssh_name for name in named})
    return frozenset().union(
        *(host_of(lab, host) for host in named),
        *(part_of(lab, end.switch, str(end.number)) for end in ends),
        *(part_of(lab, outlet.unit, outlet.outlet) for outlet in outlets),
        *(whole_of(lab, name) for name in whole),
    )


def host_of(lab: Lab, name: str) -> Resources:
    """Return the resources of a host, which is identified by its address without the user name."""
    return frozenset(Resource(box, name=name) for box in addresses_of(lab, name))


def part_of(lab: Lab, name: str, part: str) -> Resources:
    """Return the resources of a port or an outlet; of the whole device if it cannot be shared."""
    if not _has_parts(lab, name):
        return whole_of(lab, name)
    return frozenset(Resource(box, part, f"{name}.{part}") for box in boxes_of(lab, name))


def ports_among(
    lab: Lab, switch: str, ports: Iterable[int], leased: Iterable[Resource], answered: Iterable[str]
) -> frozenset[int]:
    """Return which ports of a switch are leased; `answered` are the identities it has reported."""
    held, boxes = ResourceIndex(leased), (*boxes_of(lab, switch), *answered)

    def is_held(port: int) -> bool:
        parts = portions(lab, switch, [str(port)])
        return bool(held.overlapping(Resource(box, part) for box in boxes for part in parts))

    return frozenset(filter(is_held, ports))


def whole_of(lab: Lab, name: str) -> Resources:
    """Return the resources of an instrument as a whole."""
    (part,) = portions(lab, name, [""])
    return frozenset(Resource(box, part, name) for box in boxes_of(lab, name))


def boxes_of(lab: Lab, name: str) -> tuple[str, ...]:
    """Return the identities of an instrument before it has answered, starting with an address."""
    known = (*addresses.of_resource(lab.instruments()[name].resource), identities.stated(lab, name))
    return tuple(filter(None, known))


def box_of(lab: Lab, name: str) -> str:
    """Return one address of an instrument, in its normal form."""
    return addresses.of_resource(lab.instruments()[name].resource)[0]


def is_exclusive(lab: Lab, name: str) -> bool:
    """Return whether an instrument's line allows only one session at a time."""
    return not isinstance(place(lab.instruments()[name].resource), (Tcp, Ssh))


def named(lab: Lab, words: Iterable[str]) -> Resources:
    """Return the resources with these names: hosts, instruments, ports or outlets (`ocs.1-5`)."""
    return frozenset().union(*(_named(lab, word) for word in words))


def _named(lab: Lab, word: str) -> Resources:
    name, dot, part = word.partition(".")
    if not dot and word in lab.hosts:
        return host_of(lab, word)
    if name not in lab.instruments():
        raise UsageError(
            f"{word!r} is not a host, instrument, port or outlet of lab {lab.lab}",
            hint=nearest(name, [*lab.hosts, *lab.instruments()]),
        )
    if not dot:
        return whole_of(lab, word)
    usable = sorted(lab.switches[name].usable) if name in lab.switches else ()
    outlets = [h.power.outlet for h in lab.hosts.values() if h.power and h.power.unit == name]
    known = dict.fromkeys((*map(str, usable), *outlets))
    parts = [part] if part in known else _in_range(part)
    for one in parts:
        if one not in known:
            hint = nearest(one, list(known))
            raise UsageError(f"{name} has no {one!r} in lab {lab.lab}", hint=hint)
    return frozenset().union(*(part_of(lab, name, one) for one in parts))


def _in_range(part: str) -> list[str]:
    """Return the numbers of a range such as `1-5`; any other text unchanged."""
    match = re.fullmatch(r"([0-9]{1,4})-([0-9]{1,4})", part)
    numbers = range(int(match[1]), int(match[2]) + 1) if match else ()
    return [str(number) for number in numbers] or [part]


def addresses_of(lab: Lab, host: str) -> tuple[str, ...]:
    """Return the addresses of a host, with aliases of the user's SSH configuration resolved."""
    return addresses.of_target(lab.hosts[host].ssh)


def _has_parts(lab: Lab, name: str) -> bool:
    spec = lab.instruments()[name]
    return not is_exclusive(lab, name) and not kind("drivers", spec.driver).whole


def portions(lab: Lab, name: str, parts: Iterable[str]) -> frozenset[str]:
    """Return the parts of a device to lease for some of its ports; "" is the whole device.

    For a controller of several elements whose line is shared, it is the element.
    """
    if _has_parts(lab, name):
        return frozenset(parts)
    return frozenset({"" if is_exclusive(lab, name) else element_of(lab.instruments()[name])})
