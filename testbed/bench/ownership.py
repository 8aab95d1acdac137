"""Which circuits of one switch this run owns: the ports of a plan, and the circuits it made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from testbed.bench.contracts import Applied
from testbed.errors import LabError
from testbed.fabric.change import Change
from testbed.fabric.circuits import CrossConnect, HostEnds, Wiring
from testbed.fabric.device import State

CrossPairs = frozenset[tuple[int, int]]
"""Cross-connects of one switch, each an ingress and an egress."""


@dataclass(slots=True)
class Callbacks:
    """Functions that are called while the circuits of a switch change; they default to no-ops."""

    may_move: Callable[[], None] = lambda: None
    """Called before any order; raises BusyError unless our ports are still leased."""
    on_wait: Callable[[str], None] = lambda text: None
    """Called with a sentence when the outcome of a change takes long to verify."""
    on_lost_answer: Callable[[str, str], None] = lambda switch, why: None
    """Called with the switch and the reason when a read replaced a lost answer."""
    on_unrequested: Callable[[str, CrossPairs], None] = lambda switch, astray: None
    """Called at once with cross-connects that the switch made instead of those commanded.

    They count as ours and are removed again.
    """
    leased_elsewhere: Callable[[frozenset[int]], frozenset[int]] = lambda ports: frozenset()
    """Returns the ports that are leased to others, who may change them at the same time."""


class OwnedPorts:
    """The ports of one switch that a plan uses, and the cross-connects adopted or commanded there.

    A cross-connect that is not in `made` belongs to another client, also on one of these ports.
    """

    def __init__(self, name: str, ports: frozenset[int], wiring: Wiring) -> None:
        self.name = name
        self.ports = ports
        self.made: set[tuple[int, int]] = set()
        self.shown: State | None = {}
        """Our part of the last read-back; None when it could not be read."""
        self.seen: State | None = None
        """The last read-back, of all ports; None when it failed."""
        self.callbacks = Callbacks()
        self._ends = HostEnds(wiring)
        self.senders = {f.tx.number: port for port, f in wiring.items() if f.tx.switch == name}
        self.receivers = {f.rx.number: port for port, f in wiring.items() if f.rx.switch == name}
        """By ingress port, the host port that lights it; by egress port, the one that it reaches.
        """

    def of(self, state: State) -> dict[int, int]:
        """Return the cross-connects of a state that were made by this run."""
        return {i: e for i, e in state.items() if (i, e) in self.made}

    def on_ports(self, state: State) -> dict[int, int]:
        """Return the cross-connects of a state that touch the plan's ports, whoever made them."""
        return {i: e for i, e in state.items() if {i, e} & self.ports}

    def own(self, state: State, change: Change, applied: Applied) -> None:
        """Count as this run's the cross-connects that its command made by mistake, to remove them.

        They are those of an ingress that the switch was told to connect, did not refuse, and shows
        at another egress. After a lost answer the cause is unknown: the switch may have restarted.
        """
        told = {i: e for i, e in change.adds.items() if i not in applied.refused}
        shown = applied.state.items()
        astray = frozenset((i, e) for i, e in shown if e not in (state.get(i), told.get(i, e)))
        if astray:
            self.made |= astray
            self.callbacks.on_unrequested(self.name, astray)

    def named(self, cross: State) -> str:
        """Format cross-connects with the host ports that their fibres lead to."""
        return ", ".join(
            f"{i}→{e} ({self._ends.of(CrossConnect(self.name, i, e))})"
            for i, e in sorted(cross.items())
        )


class ForeignCircuits:
    """The circuits of other clients on a switch before the last command, on other ports."""

    def __init__(self, ours: OwnedPorts) -> None:
        self._ours = ours
        self._before: State = {}

    def note(self, state: State, change: Change) -> None:
        """Remember the circuits of other clients that are not on the ports of the change."""
        ports, made = self._ours.ports | change.ports, self._ours.made
        self._before = {i: e for i, e in state.items() if not {i, e} & ports and (i, e) not in made}

    def describe_lost_circuits(self, look: Callable[[], State]) -> str:
        """Describe which of the remembered circuits the command removed or moved; empty if none.

        A circuit that seems to be gone is read twice more, as one read-back may be stale.
        """
        seen = self._ours.seen
        if seen is None or self._before.items() <= seen.items():
            return ""
        there = set(seen.items())
        with suppress(LabError):
            for _ in range(2):
                seen = look()
                there |= seen.items()
        lost = dict(self._before.items() - there)
        leased = self._ours.callbacks.leased_elsewhere(frozenset({*lost, *lost.values()}))
        lost = {i: e for i, e in lost.items() if not {i, e} & leased}
        instead = {i: seen[i] for i in lost if i in seen}
        words = f", and {self._ours.named(instead)} is there instead" if instead else ""
        named = self._ours.named(lost)
        return f"{named}, made by another client, was removed{words}" if lost else ""
