"""The virtual hosts of a twin, from outside: their links and their power."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock, Thread

from testbed.errors import HostError
from testbed.twin.layout import MANAGEMENT_INTERFACE, HostLayout
from testbed.twin.light import Light
from testbed.twin.machine import kill
from testbed.twin.netlink import Network, open_namespace
from testbed.twin.packet_switches import PacketSwitches
from testbed.twin.zygote import Zygote

BRIDGE = "management"
_BOOT_LIMIT = 10.0


@dataclass(slots=True, eq=False)
class VirtualHost:
    """One virtual host; without power only its network configuration remains."""

    site: HostLayout
    lock: Lock = field(default_factory=Lock)
    pid: int | None = None
    """Its first process; None without power."""
    namespace: int | None = None
    """Kept open until the next power-on: tearing it down takes the kernel's network lock."""


@dataclass(slots=True, eq=False)
class VirtualHosts:
    """All hosts of a twin. Methods may be called from any thread."""

    _hosts: Mapping[str, VirtualHost]
    _zygote: Zygote
    _management: Network
    _fabric: Network
    _far_sides: Sequence[Light | PacketSwitches]
    """What the fabric ports lead to, which follows the power of each host."""
    _boots: Lock = field(default_factory=Lock)
    """Held while the zygote forks a host: it serves one at a time."""

    def is_on(self, name: str) -> bool:
        """Return whether a host has power."""
        return self._hosts[name].pid is not None

    def pid(self, name: str) -> int:
        """Return a host's first process; raise HostError when it has no power."""
        pid = self._hosts[name].pid
        if pid is None:
            raise HostError(name, "has no power", hint="turn its outlet on first")
        return pid

    def power_on_all(self) -> None:
        """Start all hosts in parallel and wait until all answer SSH."""
        with ThreadPoolExecutor(len(self._hosts) or 1) as pool:
            list(pool.map(self.power_on, self._hosts))

    def power_on(self, name: str) -> None:
        """Start a host with a fresh network and wait until it answers SSH."""
        host = self._hosts[name]
        with host.lock:
            if host.pid is not None:
                return
            self._discard_remains(host)
            line = self._start(host)
            line.send(b"network")
            _wait_until_up(host.site.name, line)
            for side in self._far_sides:
                side.host_is_on(name)

    def power_off(self, name: str) -> None:
        """Cut a host's power: its links go dark first, then all its processes are killed.

        Nothing that it sends after the cut leaves it: no FIN, no RST. Returns when all are gone.
        """
        host = self._hosts[name]
        with host.lock:
            if host.pid is None:
                return
            self._management.set_up(host.site.uplink, False)
            for side in self._far_sides:
                side.host_goes_dark(name)
            kill(host.pid, _BOOT_LIMIT)
            host.pid = None

    def power_on_soon(self, name: str) -> None:
        """Start a host without waiting for it, as a power unit does."""
        Thread(target=self.power_on, args=(name,), name=f"boot {name}", daemon=True).start()

    def _discard_remains(self, host: VirtualHost) -> None:
        if host.namespace is None:
            return
        for side in self._far_sides:
            side.host_is_gone(host.site.name)
        self._management.remove(host.site.uplink)
        os.close(host.namespace)
        host.namespace = None

    def _start(self, host: VirtualHost) -> socket.socket:
        site = host.site
        with self._boots:
            host.pid, line = self._zygote.fork_host(site.name)
        host.namespace = open_namespace(host.pid)
        self._management.add_pair(
            site.uplink, MANAGEMENT_INTERFACE, host.namespace, site.uplink_index
        )
        self._management.enslave(site.uplink, BRIDGE)
        for link in site.links:
            self._fabric.add_pair(link.name, link.interface, host.namespace, link.index)
        return line


def _wait_until_up(name: str, line: socket.socket) -> None:
    with line:
        line.settimeout(_BOOT_LIMIT)
        try:
            answer = line.recv(4096).decode()
        except TimeoutError:
            answer = f"no answer for {_BOOT_LIMIT:.0f} s"
    if answer != "up":
        raise HostError(name, f"the virtual host did not start: {answer or 'it ended'}")
