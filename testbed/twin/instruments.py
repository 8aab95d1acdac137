"""The instruments of a twin: every far end at the address or tty that the lab file names."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from testbed.bench.contracts import FarEnd, PowerSite, Scheduler, SwitchSite
from testbed.plugins import kind, nearest
from testbed.resource import Tcp
from testbed.schema import Lab
from testbed.twin.hosts import VirtualHosts
from testbed.twin.light import Light
from testbed.twin.site import Site
from testbed.twin.wire import serve_pty, serve_tcp


class Instruments:
    """The far ends of a lab's switches and power units, by name."""

    def __init__(self, lab: Lab, light: Light, hosts: VirtualHosts, scheduler: Scheduler) -> None:
        self.far_ends: dict[str, FarEnd] = {}
        self._switches: list[SwitchSite] = []
        for name, switch in lab.switches.items():
            site = _switch_site(lab, name, light, scheduler)
            self._switches.append(site)
            self.far_ends[name] = _far_end(switch.driver, site, switch.options)
        for name, unit in lab.power.items():
            self.far_ends[name] = _far_end(
                unit.driver, _power_site(lab, name, hosts, scheduler), unit.options
            )

    def settle_in(self, seconds: float) -> None:
        """Let every later change of a switch settle in `seconds`."""
        for site in self._switches:
            site.settle = seconds

    def far_end(self, name: str) -> FarEnd:
        """Return one far end; ValueError when there is no such instrument."""
        if name not in self.far_ends:
            raise ValueError(f"no instrument {name!r}; {nearest(name, list(self.far_ends))}")
        return self.far_ends[name]

    def serve(self, site: Site, tls: ssl.SSLContext) -> None:
        """Let every far end answer where the lab file says, until the twin ends."""
        for instrument in site.instruments:
            far_end, place = self.far_ends[instrument.name], instrument.place
            if isinstance(place, Tcp):
                context = tls if place.tls else None
                serve_tcp(far_end, instrument.address, place.port, tls=context)
            else:
                Path(place.path).parent.mkdir(parents=True, exist_ok=True)
                serve_pty(far_end, Path(place.path))


def _far_end(driver: str, site: SwitchSite | PowerSite, options: Any) -> FarEnd:
    far_end: FarEnd = kind("far_ends", kind("drivers", driver).far_end).load()(site, options)
    return far_end


def _switch_site(lab: Lab, name: str, light: Light, scheduler: Scheduler) -> SwitchSite:
    """Return a switch's place; its ingress ports are numbered below its egress ports."""
    switch = lab.switches[name]
    middle = max(switch.ports) // 2
    return SwitchSite(
        ingress=frozenset(port for port in switch.ports if port <= middle),
        egress=frozenset(port for port in switch.ports if port > middle),
        serial=switch.identity or f"TWIN-{name}",
        settle=lab.twin.settle,
        seed=lab.twin.seed,
        scheduler=scheduler,
        lit=lambda lit: light.switch_is_lit(name, lit),
    )


def _power_site(lab: Lab, name: str, hosts: VirtualHosts, scheduler: Scheduler) -> PowerSite:
    """Return a power unit's place; what it feeds has power when the twin starts."""
    feeds = {
        host.power.outlet: key
        for key, host in lab.hosts.items()
        if host.power is not None and host.power.unit == name
    }

    def turn(outlet: str, on: bool) -> None:
        if on:
            hosts.power_on_soon(feeds[outlet])
        else:
            hosts.power_off(feeds[outlet])

    serial = lab.power[name].identity or f"TWIN-{name}"
    return PowerSite(dict.fromkeys(feeds, True), serial, scheduler, turn)
