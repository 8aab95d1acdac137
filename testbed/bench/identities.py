"""Identify a device by its own answer, independent of the address that reached it.

An instrument is identified by its serial number among the devices of its vendor, a host by the
hardware addresses of its network ports. A device without a serial number, or with one that many
devices share, is identified by its address alone. Why not a host by its SSH key:
docs/decisions/0028.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from testbed.bench.contracts import Identity
from testbed.plugins import kind
from testbed.schema import Lab

_WORD = re.compile(r"[^0-9a-z]+")
_NOTHING = re.compile(
    "none|null|nil|nan?|unknown|undefined|unspecified|default|defaultstring|not(specified|available"
    "|applicable|set)|tobefilledbyoem|serial|sn|((system|chassis)?serialnumber)|empty|invalid|test"
    "|dummy|sample|simulated|03000200040005000006000700080009"
)
"""Placeholders in the place of a serial number, in letters and digits alone."""
_FIRST_OF_QEMU = "52:54:00:12:34:56"
"""The default hardware address of QEMU, which many virtual machines share."""
_COUNTED = ("01234567890123456789", "12345678901234567890", "abcdefghijklmnopqrstuvwxyz")
"""Serial numbers that begin as one of these are placeholders."""


def of_instrument(lab: Lab, name: str, who: Identity) -> str:
    """Return the identity of an instrument from its answer; empty without a serial number."""
    make = kind("drivers", lab.instruments()[name].driver).make
    return _by_serial(make or f"{who.maker} {who.model}", who.serial)


def stated(lab: Lab, name: str) -> str:
    """Return the identity that the lab file states for an instrument; empty if it states none."""
    spec = lab.instruments()[name]
    make = kind("drivers", spec.driver).make
    return _by_serial(make, spec.identity) if make and spec.identity else ""


def of_hardware(addresses: Iterable[str]) -> frozenset[str]:
    """Return the identities of a host from its hardware addresses; empty if it has none."""
    told = {address.lower() for address in addresses} - {_FIRST_OF_QEMU}
    return frozenset(f"hardware {address}" for address in told if address.strip("0:"))


def _by_serial(make: str, serial: str) -> str:
    if _is_placeholder(serial):
        return ""
    return f"{' '.join(make.lower().split())} serial {' '.join(serial.lower().split())}"


def _is_placeholder(serial: str) -> bool:
    """Return whether a serial number is a placeholder that many boxes share."""
    word = _WORD.sub("", serial.lower())
    counted = any(row.startswith(word) for row in _COUNTED) and len(word) > 2
    return len(set(word)) < 2 or counted or bool(_NOTHING.fullmatch(word))
