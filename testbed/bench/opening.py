"""From the lab file to drivers: every instrument is made here, with nothing opened yet."""

from __future__ import annotations

from testbed.bench.contracts import Attenuator, OpticalSwitch, PowerMeter, PowerUnit, Tracer
from testbed.plugins import kind
from testbed.schema import Lab

Instrument = OpticalSwitch | PowerUnit | Attenuator | PowerMeter


def make_instrument(lab: Lab, name: str, tracer: Tracer) -> Instrument:
    """Return the driver of an instrument, which may use what the lab file lets it use."""
    spec = lab.instruments()[name]
    make = kind("drivers", spec.driver).load()
    usable: tuple[frozenset[int], ...] = ()
    if name in lab.switches:
        usable = (lab.switches[name].usable,)
    elif name in lab.attenuators:
        usable = (frozenset(lab.attenuators[name].fibres),)
    elif name in lab.meters:
        usable = (frozenset(lab.meters[name].taps),)
    made: Instrument = make(name, spec.resource, *usable, spec.identity, spec.options, tracer)
    return made
