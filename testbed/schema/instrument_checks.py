"""Check a lab file's instruments against their drivers, and those that share a controller.

Several instruments may share a controller, which answers for all of them at one resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from testbed.plugins import kind
from testbed.resource import Place, place, way
from testbed.schema.instruments import Instrument
from testbed.schema.source import Steps
from testbed.schema.validation import Problem

_EXAMPLES = {
    "tcp": "TCPIP::192.0.2.10::5025::SOCKET",
    "http": "https://192.0.2.10",
    "ssh": "ssh://admin@192.0.2.10",
    "serial": "/dev/ttyUSB0",
    "visa": "GPIB0::5::INSTR",
}


def driver_problems(steps: Steps, instrument: Instrument) -> Iterator[Problem]:
    """Find options of an instrument that its driver does not support."""
    known, driver = kind("drivers", instrument.driver), instrument.driver
    if known.ways and way(instrument.resource) not in known.ways:
        usual = known.resource.format(host="192.0.2.10", tty="/dev/ttyUSB0")
        example = usual or _EXAMPLES[known.ways[0]]
        message = f"the driver {driver} supports no resource of the form {instrument.resource}"
        yield Problem((*steps, "resource"), message, f"write it as in {example}")
    for key in known.needs:
        if not getattr(instrument.options, key):
            yield Problem((*steps, key), f"the driver {driver} needs the key {key!r}", at_key=True)
    if known.anonymous and instrument.identity is not None:
        message = f"a device of driver {driver} does not report its identity or serial number"
        hint = "remove `identity`, and name the adapter in `resource`, as /dev/serial/by-id/…"
        yield Problem((*steps, "identity"), message, hint, at_key=True)


def element_of(instrument: Instrument) -> str:
    """Return which element of a controller an instrument is; empty without a shared controller."""
    which = kind("drivers", instrument.driver).element
    return which(instrument.options) if which else ""


def controller_problems(driven: Iterable[tuple[Steps, Instrument]]) -> Iterator[Problem]:
    """Yield instruments with one resource that cannot be behind one controller."""
    first: dict[Place, tuple[Steps, Instrument]] = {}
    elements: dict[tuple[Place, str], Steps] = {}
    for steps, box in driven:
        where = place(box.resource)
        (_, name), other = first.setdefault(where, (steps, box))
        if other is box:
            elements[where, element_of(box)] = steps
            continue
        if not (element_of(box) and element_of(other)):
            if box.resource != other.resource or element_of(box) or element_of(other):
                message = f"{box.resource} is also the address of {name}"
                hint = "only elements or modules of one controller share an address"
                yield Problem((*steps, "resource"), message, hint)
            continue
        yield from _differences(steps, box, name, other)
        if (twin := elements.setdefault((where, element_of(box)), steps)) != steps:
            message = f"{twin[-1]} also is {element_of(box)} of the controller at {box.resource}"
            yield Problem((*steps, "resource"), message, "name another element or module")


def _differences(
    steps: Steps, box: Instrument, name: object, other: Instrument
) -> Iterator[Problem]:
    """Find what two that share a line say differently of it."""
    if box.driver != other.driver:
        message = f"{box.driver} cannot share the line of {name}, which {other.driver} drives"
        yield Problem((*steps, "driver"), message, "give both the same driver")
        return
    same = ("transport", "baud", "parity", "rtscts", "connect_timeout", "answer_timeout")
    for key in ("identity", *same):
        of = [one if key == "identity" else one.options for one in (box, other)]
        if getattr(of[0], key, None) != getattr(of[1], key, None):
            message = f"{name} shares this line and has another `{key}`"
            hint = f"write the same `{key}` for both, or for neither"
            yield Problem((*steps, key), message, hint, at_key=True)
