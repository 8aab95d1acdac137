"""The fault `attenuate`: a fibre of the victim's port loses more light than before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.bench.bench import Bench
from testbed.clock import Deadline
from testbed.fabric.circuits import HostPort
from testbed.faults.contracts import Fault, Injected, Victim
from testbed.faults.descriptors import AttenuateOptions


class Attenuate(Fault):
    """Add loss in a fibre of one port, through the attenuator that it runs through.

    The fibre that the port sends into is taken where both have one. `bench.attenuation` records the
    former attenuation.
    """

    def __init__(self, options: AttenuateOptions) -> None:
        self._loss = options.loss

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Set the attenuator, read it back, and ask the meter at that fibre, if there is one."""
        port = HostPort.parse(victim.port)
        meter = bench.attenuation.meter(port)
        before = meter.level(deadline).dbm if meter else None
        done = bench.attenuation.add(port, self._loss, deadline)
        note = f"fibre of {done.fibre} takes {done.after:g} dB instead of {done.before:g} dB"
        after = meter.level(deadline).dbm if meter else None
        saw = before is not None and (after is None or before - after > self._loss / 2)
        witness = f"{meter} meter" if meter and saw else ""
        return Injected(done.commanded, done.read_back, note=note, witness=witness)

    def receipt(self, victim: Victim, host: str, message: Mapping[str, Any]) -> str:
        """Accept the port at either end of the circuit that lost its carrier.

        A loss that leaves the receivers enough light is seen by a meter only.
        """
        if message.get("event") != "carrier" or message["up"]:
            return ""
        port = HostPort(host, message["port"])
        hit = HostPort.parse(victim.port)
        ends = {end for circuit in victim.circuits if hit in circuit.ends for end in circuit.ends}
        return f"{port} carrier" if port in ends else ""

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Set the attenuation that was there before."""
        bench.attenuation.restore(HostPort.parse(victim.port), deadline)
