"""Several instruments behind one controller, which answers for all of them at one resource."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from testbed.plugins import kind
from testbed.resource import Place, place
from testbed.schema.instruments import Instrument
from testbed.schema.source import Steps
from testbed.schema.validation import Problem


def element_of(instrument: Instrument) -> str:
    """Return which of a controller's elements an instrument is; empty where it is all there is."""
    which = kind("drivers", instrument.driver).element
    return which(instrument.options) if which else ""


def controller_problems(driven: Iterable[tuple[Steps, Instrument]]) -> Iterator[Problem]:
    """Find instruments that cannot be behind one controller although they have one resource."""
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
                message = f"{box.resource} is where {name} answers, too"
                yield Problem((*steps, "resource"), message, "one box is one instrument")
            continue
        yield from _differences(steps, box, name, other)
        if (twin := elements.setdefault((where, element_of(box)), steps)) != steps:
            message = f"{twin[-1]} is {element_of(box)} of the controller at {box.resource}, too"
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
            message = f"{name} shares this line and says otherwise"
            yield Problem((*steps, key), message, "say the same of both, or of none", at_key=True)
