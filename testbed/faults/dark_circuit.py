"""The fault `dark-circuit`: the circuit from the victim to its successor goes dark."""

from __future__ import annotations

from testbed.bench.bench import Bench
from testbed.clock import Deadline
from testbed.fabric.circuits import Circuit
from testbed.faults.contracts import CarrierLossFault, Injected, Victim


class DarkCircuit(CarrierLossFault):
    """Disconnect both directions of one circuit at the switch; both hosts keep running.

    `bench.fabric` has recorded how to restore the circuits that it found.
    """

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Disconnect the circuit."""
        circuit = self._circuit(bench, victim)
        change = bench.fabric.change(victim.circuits - {circuit}, "dark-circuit", deadline)
        return Injected(change.commanded, change.read_back, note=f"{circuit} disconnected")

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Connect the circuit again, unless the job has moved on to other circuits."""
        if bench.fabric.circuits == victim.circuits - {self._circuit(bench, victim)}:
            bench.fabric.change(victim.circuits, "dark-circuit", deadline)

    def _circuit(self, bench: Bench, victim: Victim) -> Circuit:
        """Return the circuit at the victim's last fabric port, which leads to its successor."""
        port = bench.lab.ports()[victim.host][-1]
        return next(
            c
            for c in victim.own_circuits
            if any(e.port == port for e in c.ends if e.host == victim.host)
        )
