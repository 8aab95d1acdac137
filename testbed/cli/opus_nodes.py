"""The addresses that ranks connect from, by host."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

from testbed.bench.addresses import look_up, of_name
from testbed.errors import UsageError


def host_at(
    names: list[str], resolved: Callable[[str], tuple[str, ...]] = of_name
) -> dict[str, int]:
    """Return the number of the host at each address; raise UsageError where two share one."""
    if resolved is of_name:
        look_up(names)  # side by side
    found: dict[str, int] = {}
    for number, name in enumerate(names):
        for address in resolved(name):
            if not _is_address(address):
                raise UsageError(
                    f"--nodes: the name service knows no address of {name}",
                    hint="give the addresses that ranks connect from, by host",
                )
            if address in found:
                raise UsageError(
                    f"--nodes: {names[found[address]]} and {name} are both at {address}",
                    hint="each host needs an address of its own, by which its ranks are known",
                )
            found[address] = number
    return found


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
