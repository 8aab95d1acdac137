"""Create the driver of every instrument of a lab file, with nothing opened yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from testbed.bench.characterisation import options_of
from testbed.bench.contracts import Instrument, Tracer
from testbed.plugins import kind
from testbed.resource import place
from testbed.schema import Lab

_CONNECT, _ANSWER, _QUESTIONS = 2.0, 2.0, 2
"""What limits of opening reckon with: seconds for a line, for an answer, and answers waited for."""


def opening_seconds(lab: Lab, names: Iterable[str], usual: float) -> float:
    """Return the longest time that opening instruments in parallel may take.

    That is the usual limit, and more where the timeouts in the lab file allow an instrument more.
    """
    every = [lab.instruments()[name].options for name in names]
    waits = [(getattr(o, "connect_timeout", 0), getattr(o, "answer_timeout", 0)) for o in every]
    more = [max(0, c - _CONNECT) + _QUESTIONS * max(0, a - _ANSWER) for c, a in waits]
    return usual + max(more, default=0)


def make_instrument(
    lab: Lab, name: str, tracer: Tracer, others: Mapping[str, Instrument] = {}
) -> Instrument:
    """Create the driver of an instrument, with no line opened yet.

    A driver is called with `name, resource, ports, identity, options, tracer`. `ports` are the
    ports or channels that the lab file lets it use; the driver of a power unit takes none.
    `identity` is the serial number that must answer (None accepts any), `options` the dataclass
    that the driver's `Kind` names. Where another instrument among `others` is behind the same
    controller, the driver also takes that one as `beside`, and both share one line.
    """
    spec = lab.instruments()[name]
    at = place(spec.resource)
    near = (m for other, m in others.items() if place(lab.instruments()[other].resource) == at)
    beside = {"beside": one} if (one := next(near, None)) else {}
    make = kind("drivers", spec.driver).load()
    usable: tuple[frozenset[int], ...] = ()
    if name in lab.switches:
        usable = (lab.switches[name].usable,)
    elif name in lab.attenuators:
        usable = (frozenset(lab.attenuators[name].fibres),)
    elif name in lab.meters:
        usable = (frozenset(lab.meters[name].taps),)
    given = (spec.resource, *usable, spec.identity, options_of(lab, name), tracer)
    made: Instrument = make(name, *given, **beside)
    return made
