"""What a box is, by what it says of itself, whatever it was reached by.

An instrument is known by its serial number among the boxes of its make, a host by the hardware
addresses of its network ports. What says nothing of the kind, or what many say alike, is known by
its address alone. Why a host is not known by its SSH key: docs/decisions/0028.
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
"""What boxes say instead of a serial number, in letters and digits alone."""
_FIRST_OF_QEMU = "52:54:00:12:34:56"
"""What every virtual machine of QEMU has whose owner named no other."""
_COUNTED = ("01234567890123456789", "12345678901234567890", "abcdefghijklmnopqrstuvwxyz")
"""What begins as one of these was typed in to have something there."""


def of_instrument(lab: Lab, name: str, who: Identity) -> str:
    """Return what an instrument is, by what answered; empty where it told no serial number."""
    make = kind("drivers", lab.instruments()[name].driver).make
    return _by_serial(make or f"{who.maker} {who.model}", who.serial)


def stated(lab: Lab, name: str) -> str:
    """Return what the lab file says that an instrument is; empty where that takes its answer."""
    spec = lab.instruments()[name]
    make = kind("drivers", spec.driver).make
    return _by_serial(make, spec.identity) if make and spec.identity else ""


def of_hardware(addresses: Iterable[str]) -> frozenset[str]:
    """Return what a host is, by the hardware addresses of its ports; empty where it has none."""
    told = {address.lower() for address in addresses} - {_FIRST_OF_QEMU}
    return frozenset(f"hardware {address}" for address in told if address.strip("0:"))


def _by_serial(make: str, serial: str) -> str:
    if _says_nothing(serial):
        return ""
    return f"{' '.join(make.lower().split())} serial {' '.join(serial.lower().split())}"


def _says_nothing(serial: str) -> bool:
    """Tell whether a serial number is one that many boxes say."""
    word = _WORD.sub("", serial.lower())
    counted = any(row.startswith(word) for row in _COUNTED) and len(word) > 2
    return len(set(word)) < 2 or counted or bool(_NOTHING.fullmatch(word))
