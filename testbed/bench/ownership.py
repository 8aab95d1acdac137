"""Which circuits of one switch this run owns: the ports of a plan, and the circuits it made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass

from testbed.bench.contracts import Applied
from testbed.errors import LabError
from testbed.fabric.change import Change
from testbed.fabric.circuits import CrossConnect, FibrePair, HostEnds, Wiring
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
    changing: Callable[[], frozenset[int]] = lambda: frozenset()
    """Returns the ports that this run is changing at this moment, for any owner."""


class OwnedPorts:
    """The ports of one switch that a plan uses, and the cross-connects adopted or commanded there.

    A cross-connect that is not in `made` belongs to another client, also on one of these ports.
    """

    def __init__(
        self,
        name: str,
        ports: frozenset[int],
        wiring: Wiring,
        between: Iterable[FibrePair] = (),
    ) -> None:
        self.name = name
        self.ports = ports
        self.made: set[tuple[int, int]] = set()
        self.shown: State | None = {}
        """Our part of the last read-back; None when it could not be read."""
        self.seen: State | None = None
        """The last read-back, of all ports; None when it failed."""
        self.unread: frozenset[int] = frozenset()
        """The ports whose last read-back failed, where those of others did not."""
        self.run = self
        """The ports of all owners; others than these in a part only."""
        self.region = ports
        """These ports, and in a part those that cross-connects of ours join with them."""
        self.callbacks = Callbacks()
        self._ends = HostEnds(wiring, between)
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

    def part(self, ports: frozenset[int]) -> OwnedPorts:
        """Return some of the ports by themselves, with what is ours among them.

        A cross-connect that has an end elsewhere is foreign there. `merge` takes the part back in.
        """
        part = copy(self)
        part.region, part.ports = ports, ports & self.ports
        part.made = {pair for pair in self.made if ports.issuperset(pair)}
        if self.shown is None or ports & self.unread:
            part.shown = None
        else:
            part.shown = {i: e for i, e in self.shown.items() if ports.issuperset((i, e))}
        return part

    def merge(self, part: OwnedPorts) -> None:
        """Take in what became of a part; parts without a common port may be merged in any order."""
        if self.shown is None:
            self.shown, self.unread = {}, self.ports
        inside = part.region.issuperset
        kept = {i: e for i, e in self.shown.items() if not inside((i, e))}
        self.shown = {**kept, **(part.shown or {})}
        self.unread -= part.region
        if part.shown is None:
            self.unread |= part.region
        # The switch may have joined a port of the part with another one by mistake.
        self.made = {pair for pair in self.made if not inside(pair)} | part.made

    def trust(self, state: State) -> None:
        """Take a read-back for what our last changes left, on ports that could not be read then."""
        if self.shown is None:
            self.shown = self.of(state)
        elif self.unread:
            known = {i: e for i, e in self.shown.items() if not {i, e} & self.unread}
            found = {i: e for i, e in self.of(state).items() if {i, e} & self.unread}
            self.shown = known | found
        self.unread = frozenset()

    def reach(self, ports: frozenset[int], others: frozenset[int]) -> frozenset[int]:
        """Return these ports, and those that a cross-connect of ours joins with one of them.

        What also ends on one of `others`, the ports of other owners' circuits, is left out.
        """
        joined = [{*pair} for pair in self.made if ports & {*pair}]
        return ports.union(*(pair for pair in joined if not pair & others))

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
    """The circuits of other clients on a switch before the last command, on other ports.

    On ports of this run they are of other owners in it; on all others, of other clients.
    """

    def __init__(self, ours: OwnedPorts) -> None:
        self._ours = ours
        self._foreign: State = {}
        self._of_owners: State = {}

    def note(self, state: State, change: Change) -> None:
        """Remember the circuits of other clients that are not on the ports of the change."""
        ports, made, run = self._ours.ports | change.ports, self._ours.made, self._ours.run
        away = {i: e for i, e in state.items() if not {i, e} & ports and (i, e) not in made}
        self._foreign = {i: e for i, e in away.items() if not {i, e} & run.ports}
        self._of_owners = {i: e for i, e in away.items() if (i, e) in run.made}

    def lost_by_owners(self, look: Callable[[], State]) -> State:
        """Return which circuits of other owners the command removed or moved.

        What an owner is changing itself does not count.
        """
        changing = self._ours.callbacks.changing()
        lost = self._lost(self._of_owners, look)[0]
        changing |= self._ours.callbacks.changing()
        known = (self._ours.run.shown or {}).items()
        return {i: e for i, e in lost.items() if not {i, e} & changing and (i, e) in known}

    def describe_lost_circuits(self, look: Callable[[], State]) -> str:
        """Describe which circuits of other clients the command removed; empty if none."""
        lost, seen = self._lost(self._foreign, look)
        if not lost:
            return ""
        leased = self._ours.callbacks.leased_elsewhere(frozenset({*lost, *lost.values()}))
        lost = {i: e for i, e in lost.items() if not {i, e} & leased}
        instead = {i: seen[i] for i in lost if i in seen}
        words = f", and {self._ours.named(instead)} is there instead" if instead else ""
        named = self._ours.named(lost)
        return f"{named}, made by another client, was removed{words}" if lost else ""

    def _lost(self, before: State, look: Callable[[], State]) -> tuple[State, State]:
        """Return which circuits are there no more, and the last read-back.

        A circuit that seems to be gone is read twice more, as one read-back may be stale.
        """
        seen = self._ours.seen
        if seen is None or before.items() <= seen.items():
            return {}, {}
        there = set(seen.items())
        with suppress(LabError):
            for _ in range(2):
                seen = look()
                there |= seen.items()
        return dict(before.items() - there), seen
