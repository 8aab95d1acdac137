"""Check a lab file's instruments against their drivers: resource, login, identity."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.plugins import kind
from testbed.resource import way
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
        message = f"the driver {driver} cannot reach {instrument.resource}"
        yield Problem((*steps, "resource"), message, f"write it as in {example}")
    for key in known.needs:
        if not getattr(instrument.options, key):
            yield Problem((*steps, key), f"the driver {driver} needs the key {key!r}", at_key=True)
    if known.anonymous and instrument.identity is not None:
        message = f"what the driver {driver} speaks to does not tell its serial number"
        hint = "leave it out, and name the adapter as in /dev/serial/by-id/…"
        yield Problem((*steps, "identity"), message, hint, at_key=True)
