"""The faults that a lab file permits, and the fences of hosts that a policy may use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from testbed.plugins import kinds
from testbed.schema.hosts import Fence, Host
from testbed.schema.validation import Problem


def permission_problems(
    allow: tuple[str, ...], fence: tuple[Fence, ...], hosts: Mapping[str, Host]
) -> Iterator[Problem]:
    """Find faults that there are not, and hosts that permit what the lab does not."""
    faults = list(kinds("faults"))
    for index, fault in enumerate(allow):
        if fault not in faults:
            message = f"{fault!r} is not one of the faults"
            yield Problem.unknown(("allow", index), message, fault, faults)
    for name, host in hosts.items():
        for key, wanted, permitted in (("allow", host.allow, allow), ("fence", host.fence, fence)):
            for index, one in enumerate(wanted or ()):
                if one not in permitted:
                    steps = ("hosts", name, key, index)
                    message = f"the lab itself does not permit {one!r}"
                    yield Problem.unknown(steps, message, one, permitted)
