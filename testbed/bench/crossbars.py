"""The switches of one run, and the parts of them that are being changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from testbed.bench.crossbar import Crossbar
from testbed.bench.multi_switch_change import PlannedChange
from testbed.bench.owned_circuits import OwnersChange, Ports
from testbed.bench.parallel import run_parallel
from testbed.clock import Deadline
from testbed.fabric.circuits import CrossConnect, SwitchPort, Wiring, cross_connects
from testbed.fabric.device import State


class Crossbars:
    """The switches of one run; changes of parts without a common port may go on side by side."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self.all: list[Crossbar] = []
        self._moving: dict[str, list[Crossbar]] = {}
        """The parts that are being changed, by owner."""
        self._merging = Lock()

    def reach(self, ports: Ports, others: Ports) -> Ports:
        """Return all switch ports that a change of some may touch.

        `others` are the ports of other owners' circuits.
        """
        touched = set(ports)
        for one in self.all:
            reached = one.reach(numbers_on(one.name, ports), numbers_on(one.name, others))
            touched |= {SwitchPort(one.name, number) for number in reached}
        return frozenset(touched)

    @contextmanager
    def parts(self, owner: str, ports: Ports) -> Iterator[list[Crossbar]]:
        """Lend the parts of switches that one change touches, and take them back in.

        Whatever became of the change, what its parts know then is known of the switches.
        """
        switches = {port.switch for port in ports}
        whole = [one for one in self.all if one.name in switches]
        with self._merging:
            parts = self._moving[owner] = [one.part(ports) for one in whole]
        try:
            yield parts
        finally:
            with self._merging:
                for one, part in zip(whole, parts, strict=True):
                    one.merge(part)
                del self._moving[owner]

    def plan(
        self, change: OwnersChange, parts: Sequence[Crossbar], deadline: Deadline
    ) -> list[PlannedChange]:
        """Read the parts of a change side by side, and plan what each switch must do."""
        cross = {
            owner: cross_connects(circuits, self._wiring)
            for owner, circuits in change.circuits.items()
        }
        mine = cross.pop(change.owner)

        def plan(part: Crossbar) -> PlannedChange:
            others = {owner: _within(part, theirs) for owner, theirs in cross.items()}
            wanted = pairs_on(part.name, mine)
            for theirs in others.values():  # there are some where a switch changes as a whole
                wanted |= theirs
            return PlannedChange(part, *part.plan(wanted, deadline, others))

        if len(parts) < 2:
            return [plan(part) for part in parts]
        return list(run_parallel(plan, list(parts)).values())

    def overloads(self, deadline: Deadline) -> dict[CrossConnect, str]:
        """Measure receivers that have a limit; return the circuits that exceed it, in words."""
        moving = [part for parts in tuple(self._moving.values()) for part in parts]
        limited = [one for one in (*self.all, *moving) if one.has_limited]
        return {cross: word for one in limited for cross, word in one.overloads(deadline).items()}


def numbers_on(switch: str, ports: Iterable[SwitchPort]) -> frozenset[int]:
    """Return those of the ports that are on a switch, by number."""
    return frozenset(port.number for port in ports if port.switch == switch)


def pairs_on(switch: str, cross: Iterable[CrossConnect]) -> dict[int, int]:
    """Return those of the cross-connects that are in a switch, ingress to egress."""
    return {c.ingress: c.egress for c in cross if c.switch == switch}


def _within(part: Crossbar, cross: Iterable[CrossConnect]) -> State:
    """Return those of the cross-connects that are on the ports of a part."""
    pairs = pairs_on(part.name, cross).items()
    return {i: e for i, e in pairs if part.ports.issuperset((i, e))}
