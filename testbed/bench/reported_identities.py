"""The identities that devices report about themselves."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.bench import identities
from testbed.bench.contracts import Identity
from testbed.bench.lease_resources import Resources, addresses_of, boxes_of
from testbed.errors import InstrumentError
from testbed.record.lease_rules import Resource, ResourceIndex
from testbed.schema import Lab
from testbed.schema.instrument_checks import element_of


class ReportedIdentities:
    """The identities that the devices of a lab have reported so far."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._instruments: dict[str, str] = {}
        self._hosts: dict[str, frozenset[str]] = {}

    def instrument(self, name: str, who: Identity) -> None:
        """Add the identity that an instrument reported; raise InstrumentError if another has it."""
        lab, key = self._lab, identities.of_instrument(self._lab, name, who)
        self._instruments[name] = key
        for other, known in self._instruments.items():
            if key and known == key and other != name and _overlap(lab, name, other):
                raise InstrumentError(
                    name,
                    f"is {other} under another name: both answer as {who}",
                    reply=str(who),
                    hint="correct 'resource' of one of them in the lab file, or remove one",
                )

    def host(self, name: str, hardware: Iterable[str]) -> None:
        """Add the hardware addresses of a host's ports."""
        self._hosts[name] = identities.of_hardware(hardware)

    def keys_of_host(self, name: str) -> frozenset[str]:
        """Return the identities of a host; empty until it has answered."""
        return self._hosts.get(name, frozenset())

    def keys_of_instrument(self, name: str) -> frozenset[str]:
        """Return the identity of an instrument; empty until it has answered."""
        return frozenset(filter(None, [self._instruments.get(name, "")]))

    def resources(self, held: Resources) -> Resources:
        """Return the resources of a lease that belong to these devices, by reported identity."""
        found: set[Resource] = set()
        index = ResourceIndex(held)
        for name, key in self._instruments.items():
            found |= _known_as(index, boxes_of(self._lab, name), [key] if key else [])
        for name, keys in self._hosts.items():
            found |= _known_as(index, addresses_of(self._lab, name), keys)
        return frozenset(found)


def _known_as(held: ResourceIndex, boxes: Iterable[str], keys: Iterable[str]) -> set[Resource]:
    mine = [resource for box in {*boxes} for resource in held.of_box(box).values()]
    return {Resource(key, one.part, one.name) for one in mine for key in keys}


def _overlap(lab: Lab, one: str, other: str) -> bool:
    """Return whether two names of one box share ports, outlets or channels of it."""
    roles = (lab.switches, lab.power, lab.attenuators, lab.meters)
    is_alike = any(one in role and other in role for role in roles)
    known = lab.instruments()
    is_alike = is_alike and element_of(known[one]) == element_of(known[other])
    return is_alike and bool(_used(lab, one) & _used(lab, other))


def _used(lab: Lab, name: str) -> set[str]:
    """Return the ports, outlets or channels of an instrument that a lab file uses."""
    if name in lab.switches:
        return {*map(str, lab.switches[name].ports)}
    if name in lab.power:
        powered = (host.power for host in lab.hosts.values())
        return {outlet.outlet for outlet in powered if outlet and outlet.unit == name}
    ends = lab.attenuators[name].fibres if name in lab.attenuators else lab.meters[name].taps
    return {*map(str, ends)}
