"""Parse the ends of circuits on a command line: two host ports, two switch ports, or a list."""

from __future__ import annotations

from testbed.errors import FileError, UsageError
from testbed.fabric.circuits import Circuit, CrossConnect, HostPort, cross_connects
from testbed.plugins import nearest
from testbed.schema import CircuitList, Lab, has_one_side


def parse_endpoints(lab: Lab, name: str, ends: list[str]) -> frozenset[CrossConnect]:
    """Return the cross-connects between two host ports (both directions) or two switch ports.

    On a switch with one side the order of two of its ports does not matter.

    Raise UsageError with the valid forms, or for a port that the lab does not permit.
    """
    try:
        if len(ends) != 2:
            raise ValueError(f"expected two ends of a circuit, got {len(ends)}")
        found = _joining(lab, name, *ends)
    except ValueError as error:
        raise UsageError(
            f"{' '.join(ends) or 'an empty list'} does not name a circuit of {name}: {error}",
            hint="name two host ports (h0.p1 h1.p0), or an ingress and an egress (2 19)",
        ) from None
    if outside := sorted(_ports_of(found) - lab.switches[name].usable):
        raise UsageError(
            f"port {outside[0]} of {name} is protected or not in `ports` of lab {lab.lab}",
            hint=f"see switches.{name}.ports and .protected in the lab file",
        )
    return found


def parse_endpoint_pairs(lab: Lab, name: str, ends: list[str]) -> frozenset[CrossConnect]:
    """Return the cross-connects of several pairs of ends, each read by `parse_endpoints`."""
    if len(ends) % 2 or not ends:
        return parse_endpoints(lab, name, ends)
    found: frozenset[CrossConnect] = frozenset()
    for pair in zip(ends[::2], ends[1::2], strict=True):
        more = parse_endpoints(lab, name, list(pair))
        if again := _ports_of(more) & _ports_of(found):
            raise UsageError(
                f"{' '.join(pair)} uses port {min(again)} of {name}, as an earlier pair does",
                hint="name each port once",
            )
        found |= more
    return found


def listed_circuits(lab: Lab, name: str, listed: CircuitList) -> frozenset[CrossConnect]:
    """Return the cross-connects in a list; raise FileError for an impossible or repeated one."""
    found: dict[int, int] = {}
    for index, ends in enumerate(listed.circuits):
        where = listed.source.where("circuits", index)
        try:
            cross = {c.ingress: c.egress for c in parse_endpoints(lab, name, list(ends))}
        except UsageError as error:
            raise FileError(where, str(error.args[0]), hint=error.hint) from None
        if again := {*cross, *cross.values()} & {*found, *found.values()}:
            raise FileError(
                where,
                f"{' '.join(ends)} uses port {min(again)} of {name}, as an earlier circuit does",
                hint="list each port once",
            )
        found |= cross
    return frozenset(CrossConnect(name, i, e) for i, e in found.items())


def _joining(lab: Lab, name: str, one: str, other: str) -> frozenset[CrossConnect]:
    if one.isdecimal() and other.isdecimal():
        pair = int(one), int(other)
        ingress, egress = sorted(pair) if has_one_side(lab.switches[name]) else pair
        return frozenset({CrossConnect(name, ingress, egress)})
    ends = HostPort.parse(one), HostPort.parse(other)
    for host, port in ((end.host, end.port) for end in ends):
        if host not in lab.hosts:
            raise ValueError(f"there is no host {host}, {nearest(host, list(lab.hosts))}")
        if port not in (ports := lab.hosts[host].ports):
            raise ValueError(f"host {host} has no port {port}, {nearest(port, list(ports))}")
    found = cross_connects([Circuit.between(*ends)], lab.wiring())
    if any(cross.switch != name for cross in found):
        wired = next(cross.switch for cross in found if cross.switch != name)
        raise ValueError(f"the fibres of {one} and {other} lead to switch {wired}, not to {name}")
    return found


def _ports_of(cross: frozenset[CrossConnect]) -> frozenset[int]:
    """Return the ports that cross-connects join."""
    return frozenset(port for c in cross for port in (c.ingress, c.egress))
