"""What the promises of a journal are about: in words, and as parts of the lab."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from testbed.bench.lease_resources import host_of, part_of, whole_of
from testbed.record.journal import Entry
from testbed.record.lease_rules import Resource
from testbed.record.log import read_events
from testbed.record.rundir import RunDirectory
from testbed.run.tuning import SETTINGS
from testbed.schema import Lab


def what(promise: Mapping[str, Any]) -> str:
    """Return in words what a promise is about."""
    match promise:
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
    return str(promise["undo"])


def needed(lab: Lab, promises: Iterable[Entry]) -> Iterator[Resource]:
    """Yield what must not be anybody else's while these promises are kept."""
    for promise in promises:
        match promise:
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


def alone(
    lab: Lab, promise: Mapping[str, Any], inherited: Collection[Resource], run: RunDirectory
) -> list[str]:
    """Return which switches of a promise nobody else can have used since its run had them whole.

    `inherited` is what the run still had leased when it was taken over.
    """
    known = [name for name in promise["ports"] if name in lab.switches]
    held = [name for name in known if whole_of(lab, name) <= {*inherited}]
    if held and any(event.kind == "lease.regained" for event in read_events(run.events)):
        return []
    return held
