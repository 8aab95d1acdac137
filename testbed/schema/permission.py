"""The faults that a lab file permits, and the fences of hosts that a policy may use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from testbed.plugins import kinds, nearest
from testbed.schema.validation import Problem

if TYPE_CHECKING:
    from testbed.schema.lab import Lab

Fence = Literal["power", "network", "process"]
"""How a host that has failed is kept from taking part: its outlet is turned off, its circuits are
taken down, or the processes of its rank are ended."""


def permitted_fences(lab: Lab, host: str) -> tuple[Fence, ...]:
    """Return the fences of a host that are permitted and that the lab has the means for."""
    spec = lab.hosts[host]
    narrowed = lab.fence if spec.fence is None else spec.fence
    means = tuple(one for one in lab.fence if one in narrowed)
    return tuple(one for one in means if one != "power" or spec.power is not None)


def permission_problems(lab: Lab) -> Iterator[Problem]:
    """Find faults that there are not, and hosts that permit what the lab does not."""
    faults = list(kinds("faults"))
    for index, fault in enumerate(lab.allow):
        if fault not in faults:
            hint = nearest(fault, faults)
            yield Problem(("allow", index), f"{fault!r} is not one of the faults", hint)
    for name, host in lab.hosts.items():
        for key, wanted, permitted in (
            ("allow", host.allow, lab.allow),
            ("fence", host.fence, lab.fence),
        ):
            for index, one in enumerate(wanted or ()):
                if one not in permitted:
                    steps = ("hosts", name, key, index)
                    hint = nearest(one, list(permitted))
                    yield Problem(steps, f"the lab itself does not permit {one!r}", hint)
