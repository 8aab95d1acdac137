"""What of one switch's state is ours: its ports, and the cross-connects that were made here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from testbed.bench.contracts import Applied
from testbed.errors import LabError
from testbed.fabric.change import Change
from testbed.fabric.circuits import CrossConnect, HostEnds, Wiring
from testbed.fabric.device import State

CrossPairs = frozenset[tuple[int, int]]
"""Cross-connects of one switch, each an ingress and an egress."""


class OwnedPorts:
    """The ports of one switch that a plan uses, and what was adopted or commanded there.

    A cross-connect that is not in `made` is somebody else's, also on one of our ports.
    """

    def __init__(self, name: str, ports: frozenset[int], wiring: Wiring) -> None:
        self.name = name
        self.ports = ports
        self.made: set[tuple[int, int]] = set()
        self.shown: State | None = {}
        """What the last read-back showed of ours; None when it could not be read."""
        self.seen: State | None = None
        """All that the last look showed; None when it failed."""
        self.on_unrequested: Callable[[str, CrossPairs], None] = lambda switch, astray: None
        """Hears at once what the switch made of our commands without being asked."""
        self._ends = HostEnds(wiring)
        self.senders = {f.tx.number: port for port, f in wiring.items() if f.tx.switch == name}
        self.receivers = {f.rx.number: port for port, f in wiring.items() if f.rx.switch == name}
        """By ingress port, the host port that lights it; by egress port, the one that it reaches.
        """

    def of(self, state: State) -> dict[int, int]:
        """Return what of a state was made here."""
        return {i: e for i, e in state.items() if (i, e) in self.made}

    def on_ports(self, state: State) -> dict[int, int]:
        """Return what of a state touches our ports, whoever made it."""
        return {i: e for i, e in state.items() if {i, e} & self.ports}

    def own(self, state: State, change: Change, applied: Applied) -> None:
        """Take for ours what our command made without being asked for it, so that it goes again.

        A switch that refused nothing of an ingress and shows it elsewhere was led astray by us; one
        whose answer was lost may have been restarted or moved by others meanwhile, so of that one
        nobody knows.
        """
        astray = frozenset(
            (i, e)
            for i, e in applied.state.items()
            if i in change.adds
            and i not in applied.refused
            and e not in (state.get(i), change.adds[i])
        )
        if astray:
            self.made |= astray
            self.on_unrequested(self.name, astray)

    def named(self, cross: State) -> str:
        """Return cross-connects with the host ports that their fibres lead to."""
        return ", ".join(
            f"{i}→{e} ({self._ends.of(CrossConnect(self.name, i, e))})"
            for i, e in sorted(cross.items())
        )


class ForeignCircuits:
    """What others had on a switch before our last command, away from our ports."""

    def __init__(self, ours: OwnedPorts) -> None:
        self.leased_elsewhere: Callable[[frozenset[int]], frozenset[int]] = lambda ports: _NONE
        """Returns the ports that somebody else has leased, who may change them while we do."""
        self._ours = ours
        self._before: State = {}

    def note(self, state: State, change: Change) -> None:
        """Remember what of a state is neither ours, nor on our ports, nor part of a change."""
        ports, made = self._ours.ports | change.ports, self._ours.made
        self._before = {i: e for i, e in state.items() if not {i, e} & ports and (i, e) not in made}

    def gone(self, look: Callable[[], State]) -> str:
        """Return in words what of that went with the command, also where it went elsewhere.

        What seems to be gone is looked at twice more: one of two in a row may be an old answer.
        """
        seen = self._ours.seen
        if seen is None or self._before.items() <= seen.items():
            return ""
        there = set(seen.items())
        with suppress(LabError):
            for _ in range(2):
                seen = look()
                there |= seen.items()
        gone = dict(self._before.items() - there)
        theirs = self.leased_elsewhere(frozenset({*gone, *gone.values()}))
        gone = {i: e for i, e in gone.items() if not {i, e} & theirs}
        instead = {i: seen[i] for i in gone if i in seen}
        words = f", and {self._ours.named(instead)} is there instead" if instead else ""
        named = self._ours.named(gone)
        return f"{named}, which somebody else had made, is gone{words}" if gone else ""


_NONE: frozenset[int] = frozenset()
