"""The fabric ports of this host: carrier, byte counters, addresses and routes."""

from __future__ import annotations

import array
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
from pathlib import Path
from typing import Any

_SIOCETHTOOL = 0x8946
_ETHTOOL_GLINK = 0x0A
_COUNTERS = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets")
_RTMGRP_LINK = 1
_LIMIT = 5.0


class CarrierWatch:
    """Tell when a port gains or loses its carrier.

    A netlink message wakes us at once, and `changes` asks the driver itself (ETHTOOL_GLINK). It
    must also be called every few milliseconds without a message: the kernel delays the second
    message within a second by up to a second (net/core/link_watch.c), though not the carrier.
    """

    def __init__(self, interfaces: dict[str, str]) -> None:
        self._interfaces = interfaces
        self._known: dict[str, bool] = {}
        self._asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        self._netlink.bind((0, _RTMGRP_LINK))

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when some link changed."""
        return self._netlink.fileno()

    def changes(self) -> list[tuple[str, bool]]:
        """Return every port whose carrier is not what it was, with what it is now."""
        self._drain()
        found = []
        for port, interface in self._interfaces.items():
            up = self.carrier(interface)
            if self._known.get(port) is not up:
                self._known[port] = up
                found.append((port, up))
        return found

    def carrier(self, interface: str) -> bool:
        """Ask the driver whether the port has a carrier; an absent port has none."""
        answer = array.array("I", [_ETHTOOL_GLINK, 0])
        address, _ = answer.buffer_info()
        request = struct.pack("16sP8x", interface.encode(), address)
        try:
            fcntl.ioctl(self._asking, _SIOCETHTOOL, request)
        except OSError:
            return False
        return bool(answer[1])

    def _drain(self) -> None:
        try:
            while self._netlink.recv(65536):
                pass
        except BlockingIOError:
            return
        except OSError:
            return  # messages were dropped; the carrier itself is asked anyway

    def close(self) -> None:
        """Stop watching."""
        self._asking.close()
        self._netlink.close()


def counters(interface: str) -> dict[str, int]:
    """Return a port's byte and packet counters since it exists."""
    root = Path(f"/sys/class/net/{interface}/statistics")
    return {name: int((root / name).read_text()) for name in _COUNTERS}


def hardware_address(interface: str) -> str:
    """Return a port's hardware address; raise OSError when there is no such interface."""
    return Path(f"/sys/class/net/{interface}/address").read_text().strip()


class Network:
    """Addresses and routes that we give fabric ports, and take away again."""

    def __init__(self) -> None:
        self._undo: list[str] = []
        self._ip = ([] if os.geteuid() == 0 else ["sudo", "-n"]) + [_find_ip()]

    def configure(self, ports: dict[str, dict[str, str]], peers: dict[str, str]) -> int:
        """Give every port its address, bring it up, and reach each peer over each port.

        `peers` are addresses with the hardware address of each. Sockets choose their port by
        binding to it, so every peer has a route and a neighbour entry over every port; the
        metrics keep the routes apart, and fixed neighbours save a circuit that has just come up
        from ARP and its retries a second apart. What was there already is left alone, now and at
        undo. Return the number of changes; raise OSError with what `ip` said.
        """
        links = {link["ifname"]: link for link in self._read("addr", "show")}
        routes = {(route["dst"], route.get("dev")) for route in self._read("-4", "route", "show")}
        fixed = self._read("neigh", "show", "nud", "permanent")
        neighbours = {(neighbour["dst"], neighbour["dev"]) for neighbour in fixed}
        changes: list[tuple[str, str]] = []
        for number, spec in enumerate(ports.values()):
            interface = spec["interface"]
            if interface not in links:
                raise OSError(f"there is no interface {interface}")
            changes += _link_changes(links[interface], spec["address"])
            for peer, hardware in peers.items():
                if (peer, interface) not in routes:
                    where = f"{peer}/32 dev {interface} metric {number + 1}"
                    changes.append((f"route add {where} scope link", f"route del {where}"))
                if (peer, interface) not in neighbours:
                    where = f"{peer} dev {interface}"
                    entry = f"{where} lladdr {hardware} nud permanent"
                    changes.append((f"neigh replace {entry}", f"neigh del {where}"))
        self._undo = [undo for _, undo in changes][::-1] + self._undo
        self._batch([do for do, _ in changes])
        return len(changes)

    def undo(self) -> None:
        """Take back what `configure` did, last first; raise OSError when some of it stays."""
        commands, self._undo = self._undo, []
        self._batch(commands, "-force")

    def _read(self, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._run(["-j", *arguments]) or "[]")
        return found

    def _batch(self, lines: list[str], *flags: str) -> None:
        if lines:
            self._run([*flags, "-batch", "-"], "\n".join(lines) + "\n")

    def _run(self, arguments: list[str], text: str = "") -> str:
        command = [*self._ip, *arguments]
        try:
            done = subprocess.run(
                command, input=text, capture_output=True, text=True, timeout=_LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            raise OSError(f"`{' '.join(command)}` took more than {_LIMIT:.0f} s") from None
        if done.returncode != 0:
            raise OSError(f"`{' '.join(command)}` said: {done.stderr.strip()}")
        return done.stdout


def _link_changes(link: dict[str, Any], address: str) -> list[tuple[str, str]]:
    interface = link["ifname"]
    present = {f"{a['local']}/{a['prefixlen']}" for a in link.get("addr_info", [])}
    changes = []
    if address not in present:
        # Without the route to its subnet: every peer gets a route of its own over every port.
        where = f"{address} dev {interface}"
        changes.append((f"addr add {where} noprefixroute", f"addr del {where}"))
    if "UP" not in link["flags"]:
        changes.append((f"link set {interface} up", f"link set {interface} down"))
    return changes


def _find_ip() -> str:
    return shutil.which("ip") or "/usr/sbin/ip"
