"""Check the health of a lab before a run; each problem found has a remedy.

A problem does not stop the run; it is logged before the first trial.
"""

from __future__ import annotations

import shutil
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

_FREE = 256 << 20
"""Free bytes on a host below which its own programs begin to fail."""


def troubles_of_results(results: Path) -> Iterator[str]:
    """Yield a problem when the disk of the results directory is nearly full."""
    directory = results.absolute()
    there = next(place for place in (directory, *directory.parents) if place.exists())
    free = shutil.disk_usage(there).free
    if free < _NEEDED:
        yield (
            f"the disk of {results} has {SIZE.format(free)} left: free some, or choose another "
            "place with --results; a run whose record is cut short is an error"
        )


def troubles_of_host(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield problems of a host, from the facts that its agent reports."""
    ahead = facts["time"] - time.time()
    if abs(ahead) > _CLOCKS:
        way = "ahead of" if ahead > 0 else "behind"
        yield (
            f"its time of day is {abs(ahead):.0f} s {way} ours: start NTP on it, or its logs are "
            "hard to read beside the record (whose own times are measured)"
        )
    if facts["free"] < _FREE:
        yield f"its disk for temporary files has {SIZE.format(facts['free'])} left: free some"
    for found in facts["leftovers"]:
        yield (
            f"a dead agent of run {found['run']} left something there: "
            f"`{typed('recover')}` says whether more of that run is left"
        )


def troubles_of_light(
    lab: Lab, name: str, switch: OpticalSwitch, hosts: Collection[str], deadline: Deadline
) -> Iterator[str]:
    """Yield the host ports that send no light to a switch, where the switch can measure that."""
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
