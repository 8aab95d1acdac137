"""Routes over the ports that a library is to use, which binds its sockets to none.

Every peer has a route over every port, and the metrics keep them apart (network.py). A route
without a metric comes before all of them, for sockets that are bound to no port.
"""

from __future__ import annotations

from .journal import HostJournal
from .network import Change, make, revert


class PreferredRoutes:
    """The preferred routes of each rank, by its slot; each recorded with its undo first."""

    def __init__(self, journal: HostJournal) -> None:
        self._journal = journal
        self._of: dict[int, tuple[int, list[Change]]] = {}
        """By slot, the journal's entry and the routes."""
        self.sudo: bool | None = None
        """Whether `sudo -n` may set them; None where the network is set up by others."""

    def prefer(self, slot: int, routes: list[list[str]]) -> None:
        """Have each address reached over an interface, in place of the routes before.

        `routes` are pairs of both. Raise OSError where the network may not be changed, and with the
        output of `ip`.
        """
        self.end(slot)
        if self.sudo is None:
            raise OSError("the network of this host is set up by others (`network: existing`)")
        changes = [Change("route", interface, address, "0") for interface, address in routes]
        self._of[slot] = self._journal.record("network", changes=changes, sudo=self.sudo), changes
        make(changes, sudo=self.sudo)

    def end(self, slot: int) -> None:
        """Remove the routes of a slot; those that stay are left to the journal."""
        entry, changes = self._of.pop(slot, (None, []))
        if entry is not None and not revert(changes, sudo=bool(self.sudo)):
            self._journal.mark_undone(entry)
