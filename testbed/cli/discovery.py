"""The command `discover`: find instruments, and print their entries for the lab file."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from testbed.analysis.grouping import grouped
from testbed.cli.app import JsonOption, app, argument, print_json
from testbed.errors import EXIT_LAB, EXIT_PASSED, UsageError

if TYPE_CHECKING:
    from testbed.bench.discover import DiscoveredInstrument

_SECTIONS = {"switch": "switches", "power": "power", "attenuator": "attenuators", "meter": "meters"}


@app.command(epilog="Examples: testbed discover; testbed discover /dev/ttyUSB0 192.0.2.10")
def discover(
    places: Annotated[
        list[str] | None,
        argument("[PLACE...]", "Addresses and serial devices at which to ask who is there."),
    ] = None,
    json: JsonOption = False,
) -> int:
    """Query the identity at each address and serial device; print entries for the lab file.

    Without one it lists the serial devices and opens none: some controllers restart when their
    line is opened, and a line may belong to something else.
    """
    from testbed.bench.discover import discover as ask
    from testbed.bench.discover import serial_devices

    devices = serial_devices()
    named = [place for place in places or [] if place.startswith("/")]
    hosts = [place for place in places or [] if not place.startswith("/")]
    for path in named:
        if not (path.startswith("/dev/") and Path(path).is_char_device()):
            raise UsageError(
                f"{path} is not a serial device of this machine",
                hint="list them with `testbed discover`",
            )
    found = ask(hosts, named, lambda text: print(text, file=sys.stderr))
    if json:
        print_json({"serial": devices, "found": [each.to_json() for each in found]})
    else:
        _print_block(devices, found)
        if not places:
            example = f"testbed discover {devices[0] if devices else '192.0.2.10'}"
            print(f"# no address was asked; name addresses and serial devices, such as: {example}")
        elif not found:
            print("# nothing answered")
    return EXIT_PASSED if found or not places else EXIT_LAB


def _print_block(devices: Iterable[str], found: Iterable[DiscoveredInstrument]) -> None:
    """Print serial devices as comments, and instruments by the sections of a lab file."""
    for device in devices:
        print(f"# serial device {device}")
    for section, members in grouped(found, lambda one: _SECTIONS[one.role]).items():
        print(f"{section}:")
        for number, member in enumerate(members, 1):
            entry = member.to_json()["entry"]
            fields = ", ".join(f"{key}: {_written(value)}" for key, value in entry.items())
            print(f"  {member.driver}{number}: {{{fields}}}  # {member.identity}")


def _written(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    return f'"{value}"'
