"""Whether a lab is fit for what comes: what is not as it should be, each with what to do.

Nothing here stops a run; it is said before its first trial, so that nobody wonders afterwards.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from testbed.bench.contracts import OpticalSwitch
from testbed.clock import Deadline
from testbed.commands import typed
from testbed.fabric.reading import DARK
from testbed.schema import Lab
from testbed.units import SIZE

_CLOCKS = 1.0
"""Seconds between a host's time of day and ours from which logs of both are hard to read."""

_NEEDED = 64 << 20
"""Bytes that the record of an hour may take."""

_ROOM = 256 << 20
"""Free bytes on a host below which its own programs begin to fail."""


def troubles_of_results(results: Path) -> Iterator[str]:
    """Say so when the disk below a directory can hardly hold a record."""
    free = _free(results)
    if free < _NEEDED:
        yield (
            f"the disk of {results} has {SIZE.format(free)} left: free some, or choose another "
            "place with --results; a run whose record is cut short is an error"
        )


def _free(directory: Path) -> int:
    """Return the free bytes of a directory that may not exist yet."""
    directory = directory.absolute()
    there = next(place for place in (directory, *directory.parents) if place.exists())
    found = os.statvfs(there)
    return found.f_bavail * found.f_frsize


def troubles_of_host(facts: Mapping[str, Any]) -> Iterator[str]:
    """Say what is not as it should be on a host, by what its agent has just said."""
    ahead = facts["time"] - time.time()
    if abs(ahead) > _CLOCKS:
        way = "ahead of" if ahead > 0 else "behind"
        yield (
            f"its time of day is {abs(ahead):.0f} s {way} ours: start NTP on it, or its logs are "
            "hard to read beside the record (whose own times are measured)"
        )
    if facts["free"] < _ROOM:
        yield f"its disk for temporary files has {SIZE.format(facts['free'])} left: free some"
    for found in facts["leftovers"]:
        yield (
            f"a dead agent of run {found['run']} left something there: "
            f"`{typed('recover')}` says whether more of that run is left"
        )


def troubles_of_light(
    lab: Lab, name: str, switch: OpticalSwitch, hosts: Collection[str], deadline: Deadline
) -> Iterator[str]:
    """Say which ports of hosts send no light into a switch, where it can tell."""
    monitored = switch.capabilities.monitored & switch.capabilities.ingress
    senders = {
        fibres.tx.number: port
        for port, fibres in lab.wiring().items()
        if port.host in hosts and fibres.tx.switch == name and fibres.tx.number in monitored
    }
    levels = switch.power(sorted(senders), deadline) if senders else {}
    for number, port in senders.items():
        if levels[number] == DARK:
            yield (
                f"no light of {port} enters at port {number}: is the host on, and is its fibre in? "
                f"`{typed('doctor', '--wiring')}` looks at every fibre"
            )
