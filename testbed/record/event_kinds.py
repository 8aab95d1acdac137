"""The registry of event kinds: those of the testbed, and those that other packages register."""

from __future__ import annotations

from collections.abc import Mapping

from testbed.errors import TestbedError
from testbed.events.kind import EventKind
from testbed.events.kinds import KINDS
from testbed.plugins import registered


def is_registered(name: str) -> bool:
    """Tell whether a kind of event is registered; packages are asked for unknown ones only."""
    return name in KINDS or name in registered("events", EventKind)


def event_kinds() -> Mapping[str, EventKind]:
    """Return every kind of event by name; raise TestbedError for one that is registered twice."""
    others = registered("events", EventKind)
    if twice := sorted(KINDS.keys() & others.keys()):
        raise TestbedError(
            f"a package registers the event kind {twice[0]!r}, which the testbed has already",
            hint="register it under another name",
        )
    return {**KINDS, **others}
