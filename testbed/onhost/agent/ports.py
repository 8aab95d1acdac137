"""The state of this host's fabric ports: carrier, hardware addresses."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from contextlib import suppress
from pathlib import Path

_SIOCETHTOOL = 0x8946
_ETHTOOL_GLINK = 0x0A
_RTMGRP_LINK = 1
_PORTS = Path("/sys/class/net")
_MADE_UP = 0x02
"""The bit of a hardware address that no maker sets (IEEE 802, locally administered)."""


class CarrierWatch:
    """Detects when a port gains or loses its carrier.

    A netlink message wakes the agent at once, and `changes` asks the driver itself (ETHTOOL_GLINK).
    Unless it is `told_at_once` of all ports, it must also be called every few milliseconds without
    a message: the kernel delays the second message within a second by up to a second, though not
    the carrier. Not so for ports that depend on another link of this machine, as both ends of a
    veth pair do (net/core/link_watch.c, linkwatch_urgent_event).
    """

    def __init__(self, interfaces: dict[str, str]) -> None:
        self._interfaces = interfaces
        self._known: dict[str, bool] = {}
        self._asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        self._netlink.bind((0, _RTMGRP_LINK))
        self.told_at_once = all(map(depends_on_another_link, interfaces.values()))

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable when a link has changed."""
        return self._netlink.fileno()

    def changes(self) -> list[tuple[str, bool]]:
        """Return every port whose carrier has changed since the last call, with the new state."""
        self._drain()
        found = []
        for port, interface in self._interfaces.items():
            up = self.carrier(interface)
            if self._known.get(port) is not up:
                self._known[port] = up
                found.append((port, up))
        return found

    def is_up(self, port: str) -> bool:
        """Return whether a port had a carrier when `changes` was called last."""
        return self._known.get(port, False)

    def carrier(self, interface: str) -> bool:
        """Ask the driver whether the port has a carrier; false for a missing port."""
        answer = array.array("I", [_ETHTOOL_GLINK, 0])
        address, _ = answer.buffer_info()
        request = struct.pack("16sP8x", interface.encode(), address)
        try:
            fcntl.ioctl(self._asking, _SIOCETHTOOL, request)
        except OSError:
            return False
        return bool(answer[1])

    def _drain(self) -> None:
        with suppress(OSError):  # none left, or dropped: the carrier itself is asked anyway
            while self._netlink.recv(65536):
                pass

    def close(self) -> None:
        """Close the sockets, which ends the detection."""
        self._asking.close()
        self._netlink.close()


def depends_on_another_link(interface: str, ports: Path = _PORTS) -> bool:
    """Return whether a port's carrier follows another link of this machine (its `iflink`)."""
    try:
        numbers = [(ports / interface / name).read_text() for name in ("ifindex", "iflink")]
    except OSError:
        return False
    return numbers[0] != numbers[1]


def hardware_address(interface: str) -> str:
    """Return a port's hardware address; raise OSError when there is no such interface."""
    return Path(f"/sys/class/net/{interface}/address").read_text().strip()


def card_addresses(ports: Path = _PORTS) -> list[str]:
    """Return the factory hardware addresses of this host's network cards.

    Virtual ports and USB consoles are left out, since many machines share their addresses.
    """
    found = set()
    for port in ports.iterdir() if ports.is_dir() else ():
        try:
            bus = (port / "device/subsystem").resolve(strict=True).name
            address = (port / "address").read_text().strip()
            given = not int(address[:2], 16) & _MADE_UP
        except (OSError, ValueError):
            continue
        if bus == "pci" and given:
            found.add(address)
    return sorted(found)
