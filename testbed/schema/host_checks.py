"""Check the hosts of a lab file together: their permissions, and the networks of their ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Interface, IPv4Network

from testbed.plugins import kinds
from testbed.schema.hosts import Fence, Host
from testbed.schema.source import Source, Steps
from testbed.schema.validation import Problem

Addressed = tuple[Steps, IPv4Interface]
"""The address of a port, and where the file says it."""


def mask_problems(source: Source, ports: Sequence[Addressed]) -> Iterator[Problem]:
    """Yield networks that contain others, as their hosts would disagree on the network."""
    first: dict[IPv4Network, Steps] = {}
    for steps, address in ports:
        first.setdefault(address.network, steps)
    lengths = sorted({network.prefixlen for network in first})
    for network, steps in first.items():
        shorter = [length for length in lengths if length < network.prefixlen]
        around = (network.supernet(new_prefix=length) for length in shorter)
        if wider := next((one for one in around if one in first), None):
            hint = f"write one prefix length for both; {wider} is at {source.where(*first[wider])}"
            message = f"the network {network} is part of {wider}, in which other ports are"
            yield Problem(steps, message, hint)


def permission_problems(
    allow: tuple[str, ...], fence: tuple[Fence, ...], hosts: Mapping[str, Host]
) -> Iterator[Problem]:
    """Yield unknown faults, and hosts that permit faults or fences that the lab does not."""
    faults = list(kinds("faults"))
    for index, fault in enumerate(allow):
        if fault not in faults:
            message = f"{fault!r} is not a kind of fault"
            yield Problem.unknown(("allow", index), message, fault, faults)
    for name, host in hosts.items():
        for key, wanted, permitted in (("allow", host.allow, allow), ("fence", host.fence, fence)):
            for index, one in enumerate(wanted or ()):
                if one not in permitted:
                    steps = ("hosts", name, key, index)
                    message = f"the lab's own `{key}` does not list {one!r}"
                    yield Problem.unknown(steps, message, one, permitted)
