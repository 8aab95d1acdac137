"""The circuits of each owner, and the switch ports that are being changed at this moment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition

from testbed.clock import Deadline
from testbed.errors import BusyError
from testbed.fabric.circuits import (
    Circuit,
    CrossConnect,
    HostPort,
    Matching,
    SwitchPort,
    Wiring,
    cross_connects,
)
from testbed.fabric.owners import CircuitOfAnother, Owned, change_own, merged

Ports = frozenset[SwitchPort]

Edit = Callable[[Matching], tuple[Matching, Matching]]
"""Returns which of an owner's circuits are to be removed, and which are to be added."""

Reach = Callable[[Ports, Ports], Ports]
"""Returns all ports that a change of some may touch, given the ports of other owners' circuits."""

_ALL = "a check of all switches"


@dataclass(frozen=True, slots=True)
class OwnersChange:
    """A change of one owner's circuits that is under way."""

    owner: str
    circuits: Owned
    """The circuits of every owner, as this change would leave them."""
    ports: Ports
    """The switch ports that it may touch; no other change touches them meanwhile."""


class OwnedCircuits:
    """Which circuits each owner has, and which changes of them are under way.

    Two changes with a port in common take turns, and so do two of one owner; all others go on side
    by side.
    """

    def __init__(self, wiring: Wiring, reach: Reach) -> None:
        self._wiring = wiring
        self._reach = reach
        self._owned: Owned = {}
        self._adopted: Owned = {}
        self._had: dict[str, Ports] = {}
        """The ports of each owner's circuits, and those on which a change that failed may have left
        some light."""
        self._under_way: dict[str, Ports] = {}
        """The ports of the changes under way, by owner."""
        self._waiting = 0
        """How many wait for all ports, or hold them: no change begins meanwhile."""
        self._ended = Condition()

    def of(self, owner: str) -> Matching:
        """Return the circuits of one owner, as its last change left them."""
        return self._owned.get(owner, frozenset())

    def owner_of(self, circuit: Circuit) -> str:
        """Return the owner of a circuit; raise BusyError when it has none."""
        for owner, circuits in self._owned.items():
            if circuit in circuits:
                return owner
        raise BusyError(f"there is no circuit {circuit} now")

    @property
    def all(self) -> Matching:
        """Return the circuits of all owners."""
        return merged(self._owned)

    @property
    def owners(self) -> list[str]:
        """Return all that have, or had, circuits."""
        return sorted(self._had)

    def adopt(self, wanted: Owned, found: Collection[CrossConnect]) -> None:
        """Let owners have those of their first circuits whose cross-connects were found."""
        self._owned = self._adopted = {
            owner: frozenset(c for c in circuits if cross_connects([c], self._wiring) <= {*found})
            for owner, circuits in wanted.items()
        }
        self._had = {owner: self._ends(circuits) for owner, circuits in wanted.items()}

    def restore(self) -> None:
        """Let owners have what was found at the start, since the switches were brought back."""
        self._owned = self._adopted
        self._had = {owner: self._ends(circuits) for owner, circuits in self._adopted.items()}

    @contextmanager
    def changing(self, owner: str, edit: Edit, deadline: Deadline) -> Iterator[OwnersChange]:
        """Hold the ports of a change until it is over; `edit` is asked once they are free.

        Blocks while a change that is under way touches one of them. Raise BusyError when a circuit
        to be removed is not the owner's, when an added one needs a port of another owner's circuit
        (both before anything moves), or when the ports are not free before the deadline.
        """
        with self._ended:
            change = self._begun(owner, edit, deadline)
        try:
            yield change
        finally:
            with self._ended:
                del self._under_way[owner]
                self._ended.notify_all()

    def commit(self, change: OwnersChange) -> None:
        """Let the owner of a change that was verified have its new circuits, and nothing else."""
        circuits = change.circuits[change.owner]
        with self._ended:
            self._owned = {**self._owned, change.owner: circuits}
            self._had[change.owner] = self._ends(circuits)

    def give(self, circuits: Matching, owner: str, deadline: Deadline) -> None:
        """Let an owner have circuits of other owners; nothing moves.

        Blocks while a change of one of them is under way. Raise BusyError when that takes too long,
        and for a circuit that is not there.
        """
        with self._ended:

            def busy() -> set[str]:
                of = {self.owner_of(circuit) for circuit in circuits}
                return {*of, owner} & self._under_way.keys()

            if not self._ended.wait_for(lambda: not busy(), deadline.left):
                raise BusyError(f"circuits of {min(busy())} still change")
            left = {name: own - circuits for name, own in self._owned.items()}
            self._owned = {**left, owner: left.get(owner, frozenset()) | circuits}

    @contextmanager
    def everything(self, deadline: Deadline) -> Iterator[None]:
        """Hold all ports: no change is under way meanwhile.

        Blocks until those under way are over; raise BusyError when that takes too long.
        """
        with self._ended:
            self._waiting += 1
            try:
                if not self._ended.wait_for(lambda: not self._under_way, deadline.left):
                    raise BusyError(f"circuits of {next(iter(self._under_way))} still change")
                self._under_way[_ALL] = frozenset()
            except BaseException:
                self._waiting -= 1
                self._ended.notify_all()
                raise
        try:
            yield
        finally:
            with self._ended:
                self._waiting -= 1
                del self._under_way[_ALL]
                self._ended.notify_all()

    def changing_on(self, switch: str) -> frozenset[int]:
        """Return the ports of a switch that changes under way may touch."""
        held = frozenset[SwitchPort]().union(*tuple(self._under_way.values()))
        return frozenset(port.number for port in held if port.switch == switch)

    def steady_at(self, port: HostPort) -> Circuit | None:
        """Return the circuit of a host's port; None without one, or where a change may touch it."""
        found = next((circuit for circuit in self.all if port in circuit.ends), None)
        held = frozenset[SwitchPort]().union(*tuple(self._under_way.values()))
        return None if found is None or self._ends({found}) & held else found

    def _begun(self, owner: str, edit: Edit, deadline: Deadline) -> OwnersChange:
        """Wait until a change may begin, and begin it; runs under the lock."""
        while True:
            holder = _ALL
            if not self._waiting:  # what holds all ports may learn what is there
                remove, add = edit(self.of(owner))
                mine, ports = self._touched(owner, add)
                holder = self._holder(owner, ports)
            if not holder:
                break
            if not self._ended.wait(deadline.left):
                raise BusyError(f"{owner} could not change its circuits: {holder} went on too long")
        try:
            circuits = change_own(self._owned, owner, remove, add)
        except CircuitOfAnother as error:
            hint = "each owner changes its own circuits, on ports that no other owner uses"
            raise BusyError(str(error), hint=hint) from None
        self._had[owner] = mine
        self._under_way[owner] = ports
        return OwnersChange(owner, circuits, ports)

    def _touched(self, owner: str, add: Matching) -> tuple[Ports, Ports]:
        """Return the ports of an owner who adds circuits, and all that this may touch."""
        others = self._ends(c for name in self._owned if name != owner for c in self.of(name))
        had = self._had.get(owner, frozenset()) - others
        mine = had | self._ends(self.of(owner) | add)
        return mine, self._reach(mine, others)

    def _holder(self, owner: str, ports: Ports) -> str:
        """Return what must be over before a change of these ports begins, or an empty string."""
        held = (n for n, theirs in self._under_way.items() if n == owner or theirs & ports)
        return next((f"a change of {name}" for name in held), "")

    def _ends(self, circuits: Iterable[Circuit]) -> Ports:
        """Return the switch ports of circuits; a host port without fibres has none."""
        found: set[SwitchPort] = set()
        for circuit in circuits:
            for end in circuit.ends:
                if (fibres := self._wiring.get(end)) is not None:
                    found |= {fibres.tx, fibres.rx}
            for pair in circuit.via:
                found.update(pair.ends)
        return frozenset(found)
