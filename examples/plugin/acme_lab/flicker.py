"""The fault `flicker`: the circuit from the victim to its successor goes dark for moments."""

from __future__ import annotations

import time

from acme_lab.descriptors import FlickerOptions
from testbed.bench.bench import Bench
from testbed.bench.multi_switch_change import FabricChange
from testbed.clock import Deadline
from testbed.fabric.circuits import Matching
from testbed.faults.contracts import CarrierLossFault, Injected, Victim


class Flicker(CarrierLossFault):
    """Disconnect the circuit and connect it again, as often as the options say.

    Between two moments it is lit for as long as it was dark. The fabric has recorded how to restore
    the circuits that it found.
    """

    def __init__(self, options: FlickerOptions) -> None:
        self._options = options
        self._dark: tuple[str, Matching] = ("", frozenset())
        """The circuit that is dark now, and before it its owner."""

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Let the circuit flicker; return when it went dark first, and when it was lit for good."""
        fabric, options = bench.fabric, self._options
        circuit = next(
            one
            for one in victim.own_circuits
            if any(end.host == victim.host and end.port == victim.to_next for end in one.ends)
        )
        owner, it, changes = fabric.owned.owner_of(circuit), frozenset({circuit}), []
        for _ in range(options.times):
            self._dark = owner, it
            changes.append(fabric.change(owner, it, frozenset(), deadline, "flicker"))
            time.sleep(options.dark)
            changes.append(self._light(bench, deadline))
            time.sleep(options.dark)
        note = f"{circuit} was dark {options.times} times for {options.dark:g} s"
        return Injected(changes[0].commanded, changes[-1].read_back, note=note)

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Connect the circuit again if an error left it dark."""
        if self._dark[1] - bench.fabric.circuits:
            self._light(bench, deadline)

    def _light(self, bench: Bench, deadline: Deadline) -> FabricChange:
        owner, circuit = self._dark
        return bench.fabric.change(owner, frozenset(), circuit, deadline, "flicker")
