"""Simulate packet switches as bridges in the fabric namespace.

The output of a switch port is rate-limited like that of a host, so that two hosts which send to a
third at the same time share its line, as at a real switch. A host without power loses its own
carrier; those of other hosts stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.fabric.circuits import HostPort, SwitchPort
from testbed.twin.netlink import Network


@dataclass(eq=False)
class PacketSwitches:
    """The packet switches of a lab; every method may be called from any thread."""

    _plugged: Mapping[HostPort, SwitchPort]
    _links: Mapping[HostPort, str]
    _network: Network
    _rate: float
    """What each port of a switch can send, in bit/s."""

    def __post_init__(self) -> None:
        """Make the bridges."""
        names = sorted({end.switch for end in self._plugged.values()})
        self._bridges = {name: f"switch{number}" for number, name in enumerate(names)}
        for bridge in self._bridges.values():
            self._network.add_bridge(bridge)

    def host_is_on(self, host: str) -> None:
        """Attach a host's ports, whose links must exist in the fabric namespace."""
        for port, end in self._of(host).items():
            link = self._links[port]
            self._network.shape(link, self._rate)
            self._network.enslave(link, self._bridges[end.switch])

    def host_goes_dark(self, host: str) -> None:
        """Take a host's ports down; after the call none of its frames can leave any more."""
        for port in self._of(host):
            self._network.set_up(self._links[port], False)

    def host_is_gone(self, host: str) -> None:
        """Remove the links of a host without power."""
        for port in self._of(host):
            self._network.remove(self._links[port])

    def _of(self, host: str) -> dict[HostPort, SwitchPort]:
        return {port: end for port, end in self._plugged.items() if port.host == host}
