"""The addresses that ranks connect from, by host."""

from __future__ import annotations

from ipaddress import ip_address

from testbed.bench.addresses import look_up, of_name
from testbed.errors import UsageError


def host_at(names: list[str]) -> dict[str, int]:
    """Return the number of the host at each address; raise UsageError where two share one."""
    look_up(names)
    found: dict[str, int] = {}
    for number, name in enumerate(names):
        for address in of_name(name):
            if not _is_address(address):
                raise UsageError(
                    f"--nodes: the name service knows no {name}",
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
