"""The devices of a lab file: instruments with their drivers, and packet switches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from testbed.schema.plugin_entries import PluginEntry
from testbed.schema.text_types import Channel, LitPort, PortNumbers, Resource
from testbed.schema.validation import StrictModel


class Driven(PluginEntry):
    """An instrument and its driver."""

    driver: str
    resource: Resource
    """Where it answers: a VISA name, a tty or a URL."""


class Switch(Driven):
    """An optical circuit switch and its driver."""

    ports: PortNumbers
    """The ports that the testbed may use; it never touches any other."""
    protected: PortNumbers = frozenset()
    """The ports that are never touched, whatever else is said."""
    keep_alive: PortNumbers = frozenset()
    """The egress ports that are never left without the light they have."""
    safe: Mapping[Channel, Annotated[int, Field(ge=1)]] = {}
    """By ingress, the egress that its light rests on while no circuit uses the two."""
    identity: str | None = None
    """The serial number that must answer."""

    @property
    def usable(self) -> frozenset[int]:
        """Return the ports that the testbed may use."""
        return self.ports - self.protected


class PowerUnit(Driven):
    """A switched power unit and its driver."""

    identity: str | None = None
    """The serial number that must answer."""


class Attenuator(Driven):
    """A variable optical attenuator and its driver."""

    fibres: Annotated[Mapping[Channel, LitPort], Field(min_length=1)]
    """By channel, the switch port whose fibre runs through it."""
    identity: str | None = None
    """The serial number that must answer."""


class PowerMeter(Driven):
    """An optical power meter and its driver."""

    taps: Annotated[Mapping[Channel, LitPort], Field(min_length=1)]
    """By channel, the switch port whose fibre is tapped for it."""
    identity: str | None = None
    """The serial number that must answer."""


class PacketSwitch(StrictModel):
    """An electrical packet switch, which is not commanded: all its ports reach each other."""

    ports: PortNumbers
    """The ports that hosts may be plugged into."""


Instrument = Switch | PowerUnit | Attenuator | PowerMeter
