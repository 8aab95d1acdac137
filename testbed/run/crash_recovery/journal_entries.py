"""The undo entries of a journal: described in words, and the resources that they need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from testbed.bench.lease_resources import host_of, part_of, whole_of
from testbed.clock import utc
from testbed.record.journal import Entry
from testbed.record.lease_rules import Resource
from testbed.record.log import read_events
from testbed.record.rundir import RunDirectory
from testbed.run.twin_settings import SETTINGS
from testbed.schema import Lab


def beginning(entries: Iterable[Entry]) -> dict[str, Any]:
    """Return the data of `recover.begin` for a run with these entries."""
    return {"utc": utc(), "promises": [describe(entry) for entry in entries]}


def describe(entry: Mapping[str, Any]) -> str:
    """Return in words what an entry takes back."""
    match entry:
        case {"undo": "circuits", "ports": dict(switches)}:
            return f"circuits of {', '.join(map(str, switches))}"
        case {"undo": "outlet", "unit": unit, "outlet": outlet}:
            return f"outlet {unit}.{outlet}"
        case {"undo": "attenuation", "attenuator": name, "channel": channel}:
            return f"channel {channel} of {name}"
        case {"undo": "far-end-fault", "switch": switch, "fault": fault}:
            return f"fault {fault} of the far end of {switch}"
        case {"undo": "tuning"}:
            return "settings of the twin"
        case {"undo": "agent", "host": host}:
            return f"agent and ranks on {host}"
        case {"undo": kind, "host": host}:
            return f"{kind} on {host}"
    return str(entry["undo"])


def resources(lab: Lab, entries: Iterable[Entry]) -> Iterator[Resource]:
    """Yield what must be leased while these entries are undone."""
    for entry in entries:
        match entry:
            case {"undo": "circuits", "ports": dict(switches)}:
                for name in lab.switches.keys() & switches.keys():
                    ports = switches[name] if isinstance(switches[name], list) else ()
                    for port in ports:
                        yield from part_of(lab, name, str(port))
            case {"undo": "outlet", "unit": unit, "outlet": outlet} if unit in lab.power:
                yield from part_of(lab, unit, outlet)
            case {"undo": "attenuation", "attenuator": name} if name in lab.attenuators:
                yield from whole_of(lab, name)
            case {"undo": "tuning"}:
                yield SETTINGS
            case {"host": name} if name in lab.hosts:
                yield from host_of(lab, name)


def exclusive_switches(
    lab: Lab, entry: Mapping[str, Any], inherited: Collection[Resource], run: RunDirectory
) -> list[str]:
    """Return the switches of an entry that only its run can have used: it leased them as a whole.

    `inherited` is what the run still had leased when it was taken over.
    """
    known = [name for name in entry["ports"] if name in lab.switches]
    held = [name for name in known if whole_of(lab, name) <= {*inherited}]
    if held and any(event.kind == "lease.regained" for event in read_events(run.events)):
        return []
    return held
