"""The verb `discover`: what is plugged in and what answers, as a block for the lab file."""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import Annotated

import typer

from testbed.cli.app import JsonOption, app, print_json
from testbed.errors import EXIT_LAB, EXIT_PASSED

_SECTIONS = {"switch": "switches", "power": "power", "attenuator": "attenuators", "meter": "meters"}


@app.command(epilog="Examples: testbed discover; testbed discover 192.0.2.10 192.0.2.11")
def discover(
    hosts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ADDRESS...]", help="Addresses at which to ask who is there."),
    ] = None,
    json: JsonOption = False,
) -> int:
    """Ask who is on each serial line and at each address; print a block for the lab file."""
    from testbed.bench.discover import discover as ask
    from testbed.bench.discover import serial_devices

    devices = serial_devices()
    found = ask(hosts or [], devices, lambda text: print(text, file=sys.stderr))
    if json:
        print_json({"serial": devices, "found": [each.to_json() for each in found]})
        return EXIT_PASSED if found else EXIT_LAB
    for device in devices:
        print(f"# serial device {device}")
    sections = defaultdict(list)
    for each in found:
        sections[_SECTIONS[each.role]].append(each)
    for section, members in sections.items():
        print(f"{section}:")
        for number, member in enumerate(members, 1):
            entry = member.to_json()["entry"]
            fields = ", ".join(f"{key}: {_written(value)}" for key, value in entry.items())
            print(f"  {member.driver}{number}: {{{fields}}}  # {member.identity}")
    if not found:
        print("# nothing answered" + ("" if hosts else "; name addresses to ask there, too"))
    return EXIT_PASSED if found or not hosts else EXIT_LAB


def _written(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    return f'"{value}"'
