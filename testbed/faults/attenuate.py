"""The fault `attenuate`: add attenuation to a fibre of the victim's port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.bench.bench import Bench
from testbed.clock import Deadline
from testbed.fabric.circuits import HostPort
from testbed.faults.contracts import Fault, Injected, Victim
from testbed.faults.descriptors import AttenuateOptions


class Attenuate(Fault):
    """Add attenuation to a fibre of one port, with the attenuator in that fibre.

    If both fibres have one, the transmit fibre is used. `bench.attenuation` records the former
    attenuation.
    """

    def __init__(self, options: AttenuateOptions) -> None:
        self._loss = options.loss

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Set the attenuator, read it back, and read the power meter in that fibre, if any."""
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
        """Accept a report that a port at either end of the circuit lost its carrier.

        An attenuation that leaves the receivers enough light is observed by a power meter only.
        """
        if message.get("event") != "carrier" or message["up"]:
            return ""
        port = HostPort(host, message["port"])
        hit = HostPort.parse(victim.port)
        ends = {end for circuit in victim.circuits if hit in circuit.ends for end in circuit.ends}
        return f"{port} carrier" if port in ends else ""

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Restore the attenuation that the fibre had before."""
        bench.attenuation.restore(HostPort.parse(victim.port), deadline)
