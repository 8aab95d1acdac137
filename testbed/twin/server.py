"""The first process of a twin: it builds the lab from the lab file and keeps it running.

sandbox namespace     instruments on loopback, a bridge to every host's management port
fabric namespace      one link per fabric port; light decides which frames go where,
                      a bridge where the port is on a packet switch
virtual hosts         forked from the zygote, each in namespaces of its own
"""

from __future__ import annotations

import signal
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from testbed.plugins import nearest
from testbed.resource import Ssh, Tcp
from testbed.schema import Lab
from testbed.twin import keys, machine
from testbed.twin.characterisation import settings_of
from testbed.twin.control_socket import ControlSocket
from testbed.twin.host import HostSettings
from testbed.twin.hosts import BRIDGE, VirtualHost, VirtualHosts
from testbed.twin.instruments import Instruments
from testbed.twin.layout import GATEWAY, TwinLayout, lay_out
from testbed.twin.light import Light
from testbed.twin.netlink import Network, new_network_namespace
from testbed.twin.packet_switches import PacketSwitches
from testbed.twin.scheduler import WallScheduler
from testbed.twin.signals import ENDING
from testbed.twin.zygote import Zygote


class Twin:
    """A lab, built inside the current namespaces. The process must have one thread until then."""

    def __init__(self, lab: Lab) -> None:
        site = lay_out(lab)
        machine.mount_private_filesystems(site.names())
        client_key = _write_keys(site)
        zygote = Zygote(HostSettings(site.hosts, lab.twin.rate, client_key))
        self.lab = lab
        self.settings = settings_of(lab)
        """What it is tuned to."""
        self.scheduler = WallScheduler()
        self._fabric = Network(new_network_namespace())
        links = {link.port: link.name for host in site.hosts.values() for link in host.links}
        delays = lab.twin.loss_of_signal, self.settings["link_up"]
        between = tuple(lab.fibre_pairs().values())
        self.light = Light(lab.wiring(), links, self._fabric, self.scheduler, *delays, between)
        packets = PacketSwitches(lab.plugged(), links, self._fabric, lab.twin.rate)
        management = _management_network(site)
        hosts = {name: VirtualHost(host) for name, host in site.hosts.items()}
        around = management, self._fabric, (self.light, packets)
        self.hosts = VirtualHosts(hosts, zygote, *around)
        self.instruments = Instruments(lab, self.light, self.hosts, self.scheduler)
        self.instruments.serve(site, _server_tls(site), client_key)
        self.hosts.power_on_all()

    def tune(self, settings: Mapping[str, Any]) -> None:
        """Apply other settings from now on, with the names of `settings_of`."""
        self.instruments.settle_in(settings["settle"])
        self.instruments.receivers_need(settings["sensitivity"])
        self.light.delay_by(settings["loss_of_signal"], settings["link_up"])
        self.settings = dict(settings)


def serve(lab: Lab, name: str, ready: Callable[[], None]) -> int:
    """Build the twin, call `ready`, and keep it until a signal ends it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING | {signal.SIGCHLD})
    twin = Twin(lab)
    with ControlSocket(machine.SOCKET, lambda request: answer(twin, name, request)):
        ready()
        while signal.sigwait(ENDING | {signal.SIGCHLD}) == signal.SIGCHLD:
            if not machine.reap():
                sys.exit("the zygote died, so no host could start again")
    return 0


_OF_CELLS = ("cell-stuck",)
"""Faults whose `port` is the number of a cell, which the far end checks."""


def answer(twin: Twin, name: str, request: Mapping[str, Any]) -> Any:
    """Answer one request on the control socket; raise ValueError to refuse it."""
    match request:
        case {"do": "describe"}:
            pids = {host: twin.hosts.pid(host) for host in twin.lab.hosts if twin.hosts.is_on(host)}
            lab = twin.lab
            return {"name": name, "lab": lab.lab, "rate": lab.twin.rate, "hosts": pids}
        case {"do": "tuning"}:
            return twin.settings
        case {"do": "tune", "settings": settings}:
            twin.tune(settings)
            return None
        case {"do": "power", "host": host, "on": on}:
            if host not in twin.lab.hosts:
                raise ValueError(f"no host {host!r}; {nearest(host, list(twin.lab.hosts))}")
            (twin.hosts.power_on if on else twin.hosts.power_off)(host)
            return None
        case {"do": "light"}:
            return [[event.t, str(event.port), event.what] for event in list(twin.light.history)]
        case {"do": "destroyed"}:
            found = list(twin.light.destroyed)
            return [{"at": one.t, "port": str(one.port), "dbm": one.dbm} for one in found]
        case {"do": "fault", "instrument": instrument, "fault": fault, "scope": scope}:
            switch, port = twin.lab.switches.get(instrument), scope.get("port")
            is_port = isinstance(port, int) and fault not in _OF_CELLS
            if switch and is_port and port not in switch.ports:
                raise ValueError(f"port {port} is not among the listed ports of {instrument}")
            twin.instruments.far_end(instrument).fault(fault, **scope)
            return None
        case {"do": "clear", "instrument": instrument, "fault": fault}:
            twin.instruments.far_end(instrument).clear(fault)
            return None
        case {"do": "struck", "instrument": instrument, "fault": fault}:
            return twin.instruments.far_end(instrument).struck(fault)
        case {"do": "known-faults", "instrument": instrument}:
            return sorted(twin.instruments.far_end(instrument).known_faults)
    raise ValueError(f"unknown request {request}")


def _management_network(site: TwinLayout) -> Network:
    """Give the sandbox its loopback, the instruments' addresses and a way to every host."""
    network = Network()
    network.set_up("lo", True)
    for address in sorted({i.address for i in site.instruments if i.address}):
        network.add_address("lo", address, 32)
    network.add_bridge(BRIDGE)
    network.add_address(BRIDGE, GATEWAY, 32)
    for host in site.hosts.values():
        network.add_route(host.address, BRIDGE)
    return network


def _write_keys(site: TwinLayout) -> str:
    """Write every SSH server's key and the client's, and the client's list of known hosts."""
    home = machine.HOME / ".ssh"
    known = []
    for name, port, key in _ssh_servers(site):
        public = keys.write_ssh_key(key)
        known.append(f"{name if port == 22 else f'[{name}]:{port}'} {public}\n")
    (home / "known_hosts").write_text("".join(known))
    return keys.write_ssh_key(home / "id_ed25519")


def _ssh_servers(site: TwinLayout) -> Iterator[tuple[str, int, Path]]:
    """Yield name, port and key file of everything that answers SSH."""
    for host in site.hosts.values():
        yield host.ssh_name, host.ssh_port, machine.host_key(host.name)
    for box in site.instruments:
        if isinstance(box.place, Ssh):
            yield box.place.host, box.place.port, machine.instrument_key(box.name)


def _server_tls(site: TwinLayout) -> ssl.SSLContext:
    places = [(i.address, i.place.host) for i in site.instruments if isinstance(i.place, Tcp)]
    names = {name for place in places for name in place}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*keys.write_certificate(machine.CERTIFICATES, sorted(names)))
    return context
