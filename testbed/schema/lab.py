"""The lab file: hosts with their ports, switches, power units, and permitted faults."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal, Self

from pydantic import Field

from testbed.fabric.circuits import FibrePair, Fibres, HostPort, SwitchPort
from testbed.fabric.light import LightLimits
from testbed.schema.host_checks import mask_problems, permission_problems
from testbed.schema.host_groups import Defaults, expanded
from testbed.schema.hosts import Fence, Host, Port
from testbed.schema.instrument_checks import controller_problems, driver_problems, element_of
from testbed.schema.instruments import (
    Attenuator,
    Instrument,
    PacketSwitch,
    PowerMeter,
    PowerUnit,
    Switch,
)
from testbed.schema.lab_overrides import changed
from testbed.schema.override import Override
from testbed.schema.plugin_entries import PluginField
from testbed.schema.quarantine import Quarantine, quarantine_problems
from testbed.schema.rack import (
    FibreEnds,
    Rack,
    fibre_pair,
    fibre_problems,
    limit_problems,
    rack_problems,
)
from testbed.schema.source import Source, Steps
from testbed.schema.switch_ports import (
    End,
    has_outlet,
    has_port,
    light_kept_problems,
    resting_problems,
    side_problems,
    sides_of,
)
from testbed.schema.text_types import Name, QueuePolicy, ServerUrl
from testbed.schema.twin import TwinSettings, sensitivity_problems
from testbed.schema.validation import Document, Problem, StrictModel
from testbed.secret import Secret
from testbed.tenancy.lab_orders import MAKESPAN


class SharedLeases(StrictModel):
    """The server for leases when several controllers share a lab; ignored on twins."""

    url: ServerUrl
    """A PostgreSQL server, or where its URL is kept when that holds a password."""

    def revealed_url(self) -> str:
        """Return the URL; raise UsageError when its secret cannot be read."""
        return self.url.reveal() if isinstance(self.url, Secret) else self.url


MAX_SWITCHES = 128
_driven_as = partial(PluginField, "drivers", "driver")
"""Of an entry of the file: an instrument whose driver has this role."""


class Lab(Document):
    """The contents of a lab, and the faults that may be injected there."""

    lab: Name
    hosts: Annotated[Mapping[Name, Host], Field(min_length=1)]
    """Each by its name; a block named as `h[0-4]` is one for each number, `<n>` in its texts."""
    defaults: Defaults = Field(default_factory=Defaults)
    """What hosts have that do not say otherwise."""
    switches: Annotated[
        Mapping[Name, Annotated[Switch, _driven_as("switch")]],
        Field(max_length=MAX_SWITCHES),
    ] = {}
    fibres: Mapping[Name, FibreEnds] = {}
    """What joins two switches: by name, two fibres for both directions, by their ends."""
    rack: Rack | None = None
    """The torus that the hosts are, each with a switch of its own: circuits pass several."""
    packet_switches: Mapping[Name, PacketSwitch] = {}
    power: Mapping[Name, Annotated[PowerUnit, _driven_as("power")]] = {}
    attenuators: Mapping[Name, Annotated[Attenuator, _driven_as("attenuator")]] = {}
    meters: Mapping[Name, Annotated[PowerMeter, _driven_as("meter")]] = {}
    quarantine: tuple[Quarantine, ...] = ()
    """What is set aside for a while."""
    allow: tuple[str, ...] = ()
    """The faults that this lab permits."""
    fence: tuple[Fence, ...] = ("process",)
    """The fences that a policy may use against a host that has failed."""
    controlled_by: tuple[Literal["opus"], ...] = ()
    """The protocols by which programs of others may move circuits here."""
    leases: SharedLeases | None = None
    """Without it, leases are kept on the machine that the testbed runs on."""
    queue: QueuePolicy = MAKESPAN
    """The policy by which `run --queue` waits."""
    twin: TwinSettings = Field(default_factory=TwinSettings)

    @classmethod
    def read(cls, source: Source) -> Self:
        """Read a lab from a file's data, with groups of hosts expanded; raise SchemaError."""
        return super().read(expanded(source))

    def wiring(self) -> dict[HostPort, Fibres]:
        """Return the fibres of every fabric port that has fibres."""
        side_of = sides_of(self.switches)
        return {
            HostPort(name, key): replace(fibres, side=side) if (side := side_of(fibres)) else fibres
            for name, host in self.hosts.items()
            for key, port in host.ports.items()
            if (fibres := port.fibres) is not None
        }

    def fibre_pairs(self) -> dict[str, FibrePair]:
        """Return what joins two switches, by name."""
        side_of = sides_of(self.switches)
        return {name: fibre_pair(name, ends, side_of) for name, ends in self.fibres.items()}

    def plugged(self) -> dict[HostPort, SwitchPort]:
        """Return the packet switch port of every fabric port that is plugged into one."""
        return {
            HostPort(name, key): port.packet
            for name, host in self.hosts.items()
            for key, port in host.ports.items()
            if port.packet is not None
        }

    def light_limits(self) -> dict[str, LightLimits]:
        """Return the limits on light at each switch."""
        max_dbm: defaultdict[str, dict[int, float]] = defaultdict(dict)
        sends: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for _, port in self._ports_with_steps():
            if (fibres := port.fibres) is None:
                continue
            if port.max_dbm is not None:
                max_dbm[fibres.rx.switch][fibres.rx.number] = port.max_dbm
            if port.launch is not None:
                sends[fibres.tx.switch][fibres.tx.number] = port.launch
        return {
            name: LightLimits(max_dbm[name], switch.keep_alive, switch.safe, sends[name])
            for name, switch in self.switches.items()
        }

    def instruments(self) -> dict[str, Instrument]:
        """Return every instrument by its name."""
        return {**self.switches, **self.power, **self.attenuators, **self.meters}

    def attenuated(self) -> dict[SwitchPort, tuple[str, int]]:
        """Return the fibres with an attenuator, each with the attenuator's name and channel."""
        return {end: channel for channel, end in self._channels("attenuators", "fibres")}

    def tapped(self) -> dict[SwitchPort, tuple[str, int]]:
        """Return the fibres with a power meter, each with the meter's name and channel."""
        return {end: channel for channel, end in self._channels("meters", "taps")}

    def _channels(self, section: str, key: str) -> Iterator[tuple[tuple[str, int], SwitchPort]]:
        """Yield the instrument and the channel of every fibre that one leads to."""
        for name, instrument in getattr(self, section).items():
            for channel, end in getattr(instrument, key).items():
                yield (name, channel), end

    def ports(self) -> dict[str, tuple[str, ...]]:
        """Return the ports of each host that have fibres, in the order of the file."""
        return {name: host.ports_on("circuit") for name, host in self.hosts.items()}

    def permits(self, fault: str, host: str) -> bool:
        """Return whether a kind of fault may be injected on a host."""
        narrowed = self.hosts[host].allow
        return fault in self.allow and (narrowed is None or fault in narrowed)

    def fences(self, host: str) -> tuple[Fence, ...]:
        """Return the fences that a policy may use on a host: permitted, and with the equipment."""
        spec = self.hosts[host]
        narrowed = self.fence if spec.fence is None else spec.fence
        means = (one for one in self.fence if one != "power" or spec.power is not None)
        return tuple(one for one in means if one in narrowed)

    def overridden(self, overrides: Iterable[Override]) -> Lab:
        """Return the lab with `lab.…` overrides applied; raise FileError at a wrong one."""
        return Lab.read(changed(self.source, overrides))

    def inconsistencies(self) -> Iterator[Problem]:
        """Yield contradictions between the parts of the lab."""
        yield from self._instrument_problems()
        yield from self._fibre_problems()
        yield from self._packet_problems()
        yield from self._light_problems()
        yield from resting_problems(self.light_limits())
        yield from self._address_problems()
        yield from self._power_problems()
        yield from permission_problems(self.allow, self.fence, self.hosts)
        yield from quarantine_problems(self.quarantine, self.hosts, self.switches)
        yield from self._twin_problems()

    def _instrument_problems(self) -> Iterator[Problem]:
        # Transcripts and far ends go by name.
        sections = ("switches", "packet_switches", "power", "attenuators", "meters")
        boxes = [((of, name), box) for of in sections for name, box in getattr(self, of).items()]
        yield from self._repeats([(at, at[1]) for at, _ in boxes], "names two instruments")
        driven = [(at, box) for at, box in boxes if not isinstance(box, PacketSwitch)]
        for at, box in driven:
            yield from driver_problems(at, box)
        resources = [((*at, "resource"), box.resource) for at, box in driven if not element_of(box)]
        yield from self._repeats(resources, "is the address of two instruments")
        yield from controller_problems(driven)

    def _light_problems(self) -> Iterator[Problem]:
        for section, key, repeated in (
            ("attenuators", "fibres", "runs through two attenuators"),
            ("meters", "taps", "is tapped twice"),
        ):
            ends = [
                ((section, name, key, str(channel)), end)
                for (name, channel), end in self._channels(section, key)
            ]
            yield from self._fibre_end_problems(ends)
            yield from self._repeats(ends, repeated)

    def _fibre_problems(self) -> Iterator[Problem]:
        ends = [
            ((*steps, key), end)
            for steps, port in self._ports_with_steps()
            for key in ("tx", "rx", "bidi")
            if (end := getattr(port, key)) is not None
        ]
        ends += [
            (("fibres", name, index, key), getattr(end, key))
            for name, both in self.fibres.items()
            for index, end in enumerate(both)
            for key in ("tx", "rx")
        ]
        yield from self._fibre_end_problems(ends)
        yield from self._repeats(ends, "is wired twice")
        yield from fibre_problems(self.fibres)
        if self.fibres:
            yield from limit_problems(self.hosts, self.switches)
        if self.rack is not None:
            yield from rack_problems(self.rack, self.hosts, self.fibres)
        yield from side_problems(self.switches, ends)
        yield from light_kept_problems(self.switches, ends)

    def _packet_problems(self) -> Iterator[Problem]:
        plugs = [
            ((*steps, "packet"), port.packet)
            for steps, port in self._ports_with_steps()
            if port.packet is not None
        ]
        for steps, end in plugs:
            if end.switch not in self.packet_switches:
                message = f"{end} is on no packet switch of this lab"
                yield Problem.unknown(steps, message, end.switch, self.packet_switches)
            elif end.number not in self.packet_switches[end.switch].ports:
                hint = f"add it to packet_switches.{end.switch}.ports"
                message = f"{end} is not among the listed ports of packet switch {end.switch}"
                yield Problem(steps, message, hint)
        yield from self._repeats(plugs, "is plugged in twice")

    def _fibre_end_problems(self, ends: Iterable[End]) -> Iterator[Problem]:
        for steps, end in ends:
            if end.switch not in self.switches:
                message = f"{end} is on no switch of this lab"
                yield Problem.unknown(steps, message, end.switch, self.switches)
                continue
            switch = self.switches[end.switch]
            if end.number not in switch.ports:
                hint = f"add it to switches.{end.switch}.ports"
                if not has_port(switch, end.number):
                    hint = f"a {switch.driver} of this size has no such port"
                message = f"{end} is not among the listed ports of switch {end.switch}"
                yield Problem(steps, message, hint)
            elif end.number in switch.protected:
                hint = f"use another port, or remove it from switches.{end.switch}.protected"
                yield Problem(steps, f"{end} is a protected port, which no run may use", hint)

    def _address_problems(self) -> Iterator[Problem]:
        machines = [(("hosts", name, "ssh"), host.machine) for name, host in self.hosts.items()]
        yield from self._repeats(machines, "is the SSH address of two hosts")
        ports = list(self._ports_with_steps())
        interfaces = [((*at, "interface"), f"{port.interface} of {at[1]}") for at, port in ports]
        addresses = [((*at, "address"), port.address.ip) for at, port in ports]
        yield from self._repeats(interfaces, "is used twice")
        yield from self._repeats(addresses, "is used twice")
        masks = [((*at, "address"), port.address) for at, port in ports]
        yield from mask_problems(self.source, masks)

    def _power_problems(self) -> Iterator[Problem]:
        outlets = [
            (("hosts", name, "power"), host.power)
            for name, host in self.hosts.items()
            if host.power is not None
        ]
        for steps, outlet in outlets:
            if outlet.unit not in self.power:
                message = f"{outlet} is on no power unit of this lab"
                yield Problem.unknown(steps, message, outlet.unit, self.power)
            elif not has_outlet(self.power[outlet.unit], outlet.outlet):
                hint = f"see power.{outlet.unit}.outlets"
                yield Problem(steps, f"{outlet.unit} has no outlet {outlet.outlet}", hint)
        yield from self._repeats(outlets, "feeds two hosts")

    def _twin_problems(self) -> Iterator[Problem]:
        for name in self.twin.cards:
            if name not in self.switches:
                message = f"{name!r} is not a switch of this lab"
                yield Problem.unknown(("twin", "cards", name), message, name, self.switches, True)
        if "sensitivity" in self.twin.model_fields_set:
            yield from sensitivity_problems(self.twin.sensitivity, self._ports_with_steps())

    def _ports_with_steps(self) -> Iterator[tuple[Steps, Port]]:
        for name, host in self.hosts.items():
            for key, port in host.ports.items():
                yield ("hosts", name, "ports", key), port

    def _repeats(self, uses: Iterable[tuple[Steps, Hashable]], what: str) -> Iterator[Problem]:
        first: dict[Hashable, Steps] = {}
        for steps, used in uses:
            earlier = first.setdefault(used, steps)
            if earlier != steps:
                hint = f"first at {self.source.where(*earlier)}"
                yield Problem(steps, f"{used} {what}", hint)
