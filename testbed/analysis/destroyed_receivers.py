"""List the receivers of a twin that were destroyed by too much light."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.events import Event


def destroyed_receivers(events: Sequence[Event]) -> list[str]:
    """Return a sentence for each receiver that too much light destroyed, in order of time."""
    found = [event for event in events if event.kind == "receiver.destroyed"]
    return [
        f"the receiver of {e.subject} was destroyed: it got {e.data['dbm']:.1f} dBm and withstands "
        f"{e.data['max_dbm']:g} dBm"
        for e in sorted(found, key=lambda event: event.t)
    ]
