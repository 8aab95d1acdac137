"""The fault `dark-circuit`: the circuit from the victim to its successor goes dark."""

from __future__ import annotations

from testbed.bench.bench import Bench
from testbed.clock import Deadline
from testbed.fabric.circuits import Circuit, Matching
from testbed.faults.contracts import CarrierLossFault, Injected, Victim


class DarkCircuit(CarrierLossFault):
    """Disconnect both directions of one circuit at the switch; both hosts keep running.

    `bench.fabric` has recorded how to restore the circuits that it found.
    """

    _left: tuple[str, Matching] = ("", frozenset())
    """The owner of the circuit, and the circuits that it had left."""

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Disconnect the circuit; its owner may make it again."""
        circuit, fabric = self._circuit(bench, victim), bench.fabric
        owner = fabric.owned.owner_of(circuit)
        removed = frozenset({circuit})
        change = fabric.change(owner, removed, frozenset(), deadline, "dark-circuit")
        self._left = owner, fabric.owned.of(owner)
        return Injected(change.commanded, change.read_back, note=f"{circuit} disconnected")

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Connect the circuit again, unless its owner has moved on to other circuits."""
        owner, left = self._left
        if owner and bench.fabric.owned.of(owner) == left:
            circuit = frozenset({self._circuit(bench, victim)})
            bench.fabric.change(owner, frozenset(), circuit, deadline, "dark-circuit")

    def _circuit(self, bench: Bench, victim: Victim) -> Circuit:
        """Return the circuit from the victim to the next rank."""
        port = victim.to_next or bench.lab.ports()[victim.host][-1]
        return next(
            c
            for c in victim.own_circuits
            if any(e.port == port for e in c.ends if e.host == victim.host)
        )
