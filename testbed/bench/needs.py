"""What a run must hold of a lab: the resources behind the names of its file.

A box is known by where it answers, so that two lab files that name one box differently still meet.
A switch is shared port by port, a power unit outlet by outlet; a box is held as a whole when its
line carries one conversation at a time, or when a change of one circuit may move the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from testbed.errors import UsageError
from testbed.plugins import kind, nearest
from testbed.record.lease_rules import Resource
from testbed.resource import Ssh, Tcp, Tty, place
from testbed.schema import Lab


def needs(lab: Lab, hosts: Iterable[str], whole: Iterable[str] = ()) -> frozenset[Resource]:
    """Return what an experiment on some hosts needs, and instruments that it needs as a whole."""
    wiring, named = lab.wiring(), sorted(hosts)
    ends = {e for port, f in wiring.items() if port.host in named for e in (f.tx, f.rx)}
    outlets = [outlet for host in named if (outlet := lab.hosts[host].power)]
    return frozenset(
        [host_of(lab, host) for host in named]
        + [part_of(lab, end.switch, str(end.number)) for end in ends]
        + [part_of(lab, outlet.unit, outlet.outlet) for outlet in outlets]
        + [whole_of(lab, name) for name in whole]
    )


def host_of(lab: Lab, name: str) -> Resource:
    """Return a host, which is known by its address, whoever logs in there."""
    return Resource(lab.hosts[name].machine, name=name)


def part_of(lab: Lab, name: str, part: str) -> Resource:
    """Return a port of a switch or an outlet of a unit; the whole box where it is not shared."""
    if not _has_parts(lab, name):
        return whole_of(lab, name)
    return Resource(box_of(lab, name), part, f"{name}.{part}")


def whole_of(lab: Lab, name: str) -> Resource:
    """Return an instrument as a whole."""
    return Resource(box_of(lab, name), name=name)


def box_of(lab: Lab, name: str) -> str:
    """Return where an instrument answers, spelt in one way."""
    match place(lab.instruments()[name].resource):
        case Tcp(host, port):
            return f"{host.lower()}:{port}"
        case Tty(path):
            return path
        case other:
            return other.name.upper()


def is_exclusive(lab: Lab, name: str) -> bool:
    """Tell whether an instrument's line carries one conversation at a time."""
    return not isinstance(place(lab.instruments()[name].resource), (Tcp, Ssh))


def named(lab: Lab, words: Iterable[str]) -> frozenset[Resource]:
    """Return what a person names: hosts, instruments, ports or outlets as `ocs.1`, `ocs.1-5`."""
    return frozenset(resource for word in words for resource in _named(lab, word))


def _named(lab: Lab, word: str) -> list[Resource]:
    name, dot, part = word.partition(".")
    if not dot and word in lab.hosts:
        return [host_of(lab, word)]
    if name not in lab.instruments():
        raise UsageError(
            f"{word!r} is nothing that can be leased in lab {lab.lab}",
            hint=nearest(name, [*lab.hosts, *lab.instruments()]),
        )
    if not dot:
        return [whole_of(lab, word)]
    usable = sorted(lab.switches[name].usable) if name in lab.switches else ()
    outlets = [h.power.outlet for h in lab.hosts.values() if h.power and h.power.unit == name]
    known = [*map(str, usable), *outlets]
    parts = [part] if part in known else _in_range(part)
    for one in parts:
        if one not in known:
            raise UsageError(f"{name} has no {one!r} in lab {lab.lab}", hint=nearest(one, known))
    return [part_of(lab, name, one) for one in parts]


def _in_range(part: str) -> list[str]:
    """Return the numbers that `1-5` stands for; what is no range stands for itself."""
    match = re.fullmatch(r"([0-9]{1,4})-([0-9]{1,4})", part)
    numbers = range(int(match[1]), int(match[2]) + 1) if match else ()
    return [str(number) for number in numbers] or [part]


def _has_parts(lab: Lab, name: str) -> bool:
    spec = lab.instruments()[name]
    return not is_exclusive(lab, name) and not kind("drivers", spec.driver).whole
