"""The instruments of a twin: each far end is served at the address in the lab file."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from testbed.bench.characterisation import card_of
from testbed.bench.sites import (
    AttenuatorSite,
    Controller,
    FarEnd,
    MeterSite,
    PowerSite,
    Scheduler,
    SshFarEnd,
    SwitchSite,
)
from testbed.errors import UsageError
from testbed.plugins import kind, nearest
from testbed.resource import Place, Ssh, Tcp, place
from testbed.schema import Lab, has_one_side, inputs_of
from testbed.twin.characterisation import follow
from testbed.twin.far_end_ssh import SshServer
from testbed.twin.far_end_tcp_pty import serve_pty, serve_tcp
from testbed.twin.hosts import VirtualHosts
from testbed.twin.layout import TwinLayout
from testbed.twin.light import Light
from testbed.twin.light_budget import LightBudget
from testbed.twin.machine import instrument_key


class Instruments:
    """The far ends of a lab's instruments, by name."""

    def __init__(self, lab: Lab, light: Light, hosts: VirtualHosts, scheduler: Scheduler) -> None:
        self.far_ends: dict[str, FarEnd] = {}
        boxes = lab.instruments()
        self._baud = {name: getattr(box.options, "baud", 0) for name, box in boxes.items()}
        self._switches: dict[str, SwitchSite] = {}
        self._budget = LightBudget(lab, light.emits)
        for name in lab.switches:
            site = _switch_site(lab, name, partial(light.switch_is_lit, name), scheduler)
            site.destroyed = partial(light.receiver_is_destroyed, name)
            self._switches[name] = site
            self._budget.join(name, site)
            self.far_ends[name] = _far_end_of_switch(lab, name, site)
        for name in lab.power:
            self.far_ends[name] = _far_end(lab, name, _power_site(lab, name, hosts, scheduler))
        for name in lab.attenuators:
            attenuator = _attenuator_site(lab, name, self._budget, scheduler)
            self.far_ends[name] = _far_end(lab, name, attenuator)
        for name in lab.meters:
            meter = _meter_site(lab, name, self._budget, scheduler)
            self.far_ends[name] = _far_end(lab, name, meter)
        self._join_elements(lab)
        light.host_emits = self._budget.look_again

    def _join_elements(self, lab: Lab) -> None:
        """Let one far end answer at an address, for every element of its controller."""
        self._answering: dict[Place, str] = {}
        for name, box in lab.instruments().items():
            first = self._answering.setdefault(place(box.resource), name)
            controller = self.far_ends[first]
            if first != name and isinstance(controller, Controller):
                controller.join(self.far_ends[name])

    def receivers_need(self, level: float) -> None:
        """Set the sensitivity of every host's receiver to `level` dBm."""
        for site in self._switches.values():
            site.sensitivity = level
        self._budget.look_again()

    def settle_in(self, seconds: Mapping[str, float]) -> None:
        """Set the settle time of each switch for later changes, in seconds."""
        for name, site in self._switches.items():
            site.settle = seconds[name]

    def far_end(self, name: str) -> FarEnd:
        """Return one far end; raise ValueError for an unknown instrument."""
        if name not in self.far_ends:
            raise ValueError(f"no instrument {name!r}; {nearest(name, list(self.far_ends))}")
        return self.far_ends[name]

    def serve(self, site: TwinLayout, tls: ssl.SSLContext, client_key: str) -> None:
        """Serve every far end where the lab file says, until the twin ends.

        A serial line is as slow as its driver's option `baud` makes a real one. A
        client of SSH logs in with the public key `client_key`; ValueError for a far end that does
        not answer SSH.
        """
        for instrument in site.instruments:
            if self._answering[instrument.place] != instrument.name:
                continue
            far_end, place = self.far_ends[instrument.name], instrument.place
            if isinstance(place, Ssh):
                if not isinstance(far_end, SshFarEnd):
                    raise ValueError(f"{instrument.name}: its driver does not speak SSH")
                host_key = instrument_key(instrument.name)
                address, port = instrument.address, place.port
                SshServer(far_end, address, port, host_key=host_key, client_key=client_key)
            elif isinstance(place, Tcp):
                context = tls if place.tls else None
                serve_tcp(far_end, instrument.address, place.port, tls=context)
            else:
                Path(place.path).parent.mkdir(parents=True, exist_ok=True)
                serve_pty(far_end, Path(place.path), baud=self._baud[instrument.name])


def lone_switch(lab: Lab, name: str, scheduler: Scheduler) -> FarEnd:
    """Return the far end of one switch of a lab, without any connected light."""
    site = _switch_site(lab, name, lambda lit: None, scheduler)
    return _far_end_of_switch(lab, name, site)


def _far_end(lab: Lab, name: str, site: Any) -> FarEnd:
    spec = lab.instruments()[name]
    make = kind("far_ends", kind("drivers", spec.driver).far_end).load()
    far_end: FarEnd = make(site, spec.options)
    return far_end


def _serial(lab: Lab, name: str) -> str:
    return lab.instruments()[name].identity or f"TWIN-{name}"


def _far_end_of_switch(lab: Lab, name: str, site: SwitchSite) -> FarEnd:
    try:
        return _far_end(lab, name, site)
    except ValueError as error:
        raise UsageError(
            f"{name} cannot be as the lab file has it: {error}",
            hint=f"see switches.{name} there: its ports, and the options that say how large it is",
        ) from None


def _switch_site(
    lab: Lab, name: str, lit: Callable[[Mapping[int, int]], None], scheduler: Scheduler
) -> SwitchSite:
    """Return a switch's place; its ingress ports are numbered below its egress ports."""
    switch = lab.switches[name]
    middle = inputs_of(switch) or max(switch.ports) // 2
    ports, one_side = frozenset(switch.ports), has_one_side(switch)
    ours = (f for f in lab.wiring().values() if f.tx.switch == name)
    site = SwitchSite(
        ingress=ports if one_side else frozenset(port for port in ports if port <= middle),
        egress=ports if one_side else frozenset(port for port in ports if port > middle),
        serial=_serial(lab, name),
        settle=lab.twin.settle,
        seed=lab.twin.seed,
        scheduler=scheduler,
        lit=lit,
        sensitivity=lab.twin.sensitivity,
        max_dbm=lab.light_limits()[name].max_dbm,
        both_ways=one_side or any(fibres.is_bidi for fibres in ours),
    )
    if name in lab.twin.cards:
        follow(card_of(lab, name), site)
    return site


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

    return PowerSite(dict.fromkeys(feeds, True), _serial(lab, name), scheduler, turn)


def _attenuator_site(
    lab: Lab, name: str, budget: LightBudget, scheduler: Scheduler
) -> AttenuatorSite:
    fibres = lab.attenuators[name].fibres
    about = frozenset(fibres), _serial(lab, name), lab.twin.seed, scheduler
    return AttenuatorSite(*about, lambda channel, loss: budget.take(fibres[channel], loss))


def _meter_site(lab: Lab, name: str, budget: LightBudget, scheduler: Scheduler) -> MeterSite:
    taps = lab.meters[name].taps
    about = frozenset(taps), _serial(lab, name), lab.twin.seed, scheduler
    return MeterSite(*about, lambda channel: budget.tapped(taps[channel]))
