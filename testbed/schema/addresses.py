"""Whether the addresses of a lab's fabric ports can be on networks together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Interface, IPv4Network

from testbed.schema.source import Source, Steps
from testbed.schema.validation import Problem

Addressed = tuple[Steps, IPv4Interface]
"""The address of a port, and where the file says it."""


def mask_problems(source: Source, ports: Sequence[Addressed]) -> Iterator[Problem]:
    """Find networks inside others: their hosts disagree on who is on their network."""
    first: dict[IPv4Network, Steps] = {}
    for steps, address in ports:
        first.setdefault(address.network, steps)
    lengths = sorted({network.prefixlen for network in first})
    for network, steps in first.items():
        shorter = [length for length in lengths if length < network.prefixlen]
        around = (network.supernet(new_prefix=length) for length in shorter)
        if wider := next((one for one in around if one in first), None):
            hint = f"give both one prefix length; the other is at {source.where(*first[wider])}"
            message = f"the network {network} is a part of {wider}, which other ports are on"
            yield Problem(steps, message, hint)
