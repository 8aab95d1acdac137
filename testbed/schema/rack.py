"""The fibres between switches in a lab file, and the rack whose servers they join."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Self

from pydantic import Field, model_validator

from testbed.fabric.circuits import FibrePair, Fibres, Side
from testbed.rack.torus import Torus
from testbed.schema.hosts import Host
from testbed.schema.instruments import Switch
from testbed.schema.source import Steps
from testbed.schema.text_types import LitPort, Name
from testbed.schema.validation import Problem, StrictModel

_MOST = 64
"""Servers along an axis."""


class FibreEnd(StrictModel):
    """One end of two fibres at a switch: where their light enters it, and where it leaves it."""

    tx: LitPort
    """The switch port that light out of the fibres enters, as that of a host does."""
    rx: LitPort
    """The switch port whose light goes into the fibres."""

    @model_validator(mode="after")
    def _is_wired(self) -> Self:
        if self.tx.switch != self.rx.switch:
            raise ValueError(f"{self.tx} and {self.rx} are on two switches: this is one end")
        return self

    @property
    def fibres(self) -> Fibres:
        """Return both ports as those of a host are written."""
        return Fibres(self.tx, self.rx)


FibreEnds = tuple[FibreEnd, FibreEnd]
_Count = Annotated[int, Field(ge=1, le=_MOST)]


class Rack(StrictModel):
    """A torus of servers: the hosts of the lab, in the order of the file, each with a switch."""

    servers: tuple[_Count, _Count, _Count]
    """How many there are along X, Y and Z; the last axis varies fastest."""

    def torus(self, fibres: int = 1) -> Torus:
        """Return the torus, with so many fibres for each link of two neighbours."""
        return Torus(self.servers, (1, 1, 1), fibres)


def fibre_pair(name: str, ends: FibreEnds, side_of: Callable[[Fibres], Side | None]) -> FibrePair:
    """Return two fibres between switches, from the end that is written first."""
    near, far = (replace(end.fibres, side=side_of(end.fibres)) for end in ends)
    return FibrePair(name, near, far)


def fibre_problems(fibres: Mapping[Name, FibreEnds]) -> Iterator[Problem]:
    """Yield fibres that lead back to the switch where they begin."""
    for name, (one, other) in fibres.items():
        if one.tx.switch == other.tx.switch:
            message = f"both ends are at {one.tx.switch}, and fibres join two switches"
            yield Problem(("fibres", name), message)


def limit_problems(
    hosts: Mapping[Name, Host], switches: Mapping[Name, Switch]
) -> Iterator[Problem]:
    """Yield limits on light, none of which can be kept in a lab with fibres between switches.

    A change is checked switch by switch, and that of one may change the light in another.
    """
    limits: list[Steps] = [
        ("hosts", name, "ports", key, "max_dbm")
        for name, host in hosts.items()
        for key, port in host.ports.items()
        if port.max_dbm is not None
    ]
    limits += [("switches", name, "keep_alive") for name, s in switches.items() if s.keep_alive]
    for steps in limits:
        message = f"{steps[-1]} cannot be kept where `fibres` bring light from other switches"
        yield Problem(steps, message, f"remove {steps[-1]}, or `fibres`")


def rack_problems(
    rack: Rack, hosts: Mapping[Name, Host], fibres: Mapping[Name, FibreEnds]
) -> Iterator[Problem]:
    """Yield why hosts and fibres are not the torus that the file says."""
    at, torus = ("rack", "servers"), rack.torus()
    if len(torus.servers) != len(hosts):
        yield Problem(at, f"{len(torus.servers)} servers, and the lab has {len(hosts)} hosts")
        return
    switches = [_switches(host) for host in hosts.values()]
    for name, ends in zip(hosts, switches, strict=True):
        if len(ends) != 1:
            found = f"on {' and '.join(sorted(ends))}" if ends else "on none"
            message = (
                f"all fibres of a server of a rack end on one switch, and those of {name} {found}"
            )
            yield Problem(("hosts", name, "ports"), message)
    if any(len(ends) != 1 for ends in switches):
        return
    number = {min(ends): index for index, ends in enumerate(switches)}
    if len(number) < len(hosts):
        yield Problem(at, "two servers of a rack are on one switch, and each has its own")
        return
    if torus.links:
        yield from _link_problems(torus, list(hosts), number, fibres)


def _link_problems(
    torus: Torus, hosts: list[str], number: Mapping[str, int], fibres: Mapping[Name, FibreEnds]
) -> Iterator[Problem]:
    """Yield fibres that join no neighbours, and links with more or fewer than the others."""
    counts = dict.fromkeys(torus.links, 0)
    for name, (one, other) in fibres.items():
        ends = sorted(number.get(end.tx.switch, -1) for end in (one, other))
        if (ends[0], ends[1]) in counts:
            counts[ends[0], ends[1]] += 1
        else:
            message = "joins no switches of two servers that are neighbours in the rack"
            yield Problem(("fibres", name), message)
    at = ("rack", "servers")
    shares = {link: Fraction(count, torus.links[link]) for link, count in counts.items()}
    fewest, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    if not shares[most]:
        yield Problem(at, "no fibres join its servers; list them under `fibres`")
    elif shares[fewest] < shares[most]:
        (a, b), (c, d) = fewest, most
        twice = ", twice as many along an axis of two" if 2 in torus.links.values() else ""
        message = (
            f"{counts[fewest]} of the fibre pairs join {hosts[a]} and {hosts[b]}, {counts[most]} "
            f"join {hosts[c]} and {hosts[d]}; in a torus all neighbours have equally many{twice}"
        )
        yield Problem(at, message)
    elif shares[most] % 1:
        a, b = most
        message = (
            f"{counts[most]} of the fibre pairs join {hosts[a]} and {hosts[b]}; along an axis of "
            "two a torus joins each server with the other on both sides, so their number is even"
        )
        yield Problem(at, message)


def _switches(host: Host) -> set[str]:
    return {f.tx.switch for port in host.ports.values() if (f := port.fibres)}
