"""The fault `power-cut`: the victim's host loses power through the lab's own power unit."""

from __future__ import annotations

from testbed.bench.bench import Bench
from testbed.clock import Deadline, now
from testbed.faults.contracts import CarrierLossFault, Injected, Victim


class PowerCut(CarrierLossFault):
    """Cut the power of the victim's host, without FIN or RST; `bench.power` records the undo."""

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Turn the outlet of the victim's host off."""
        sent = now()
        bench.power.cut(victim.host, deadline)
        return Injected(sent, now(), note=f"outlet {bench.power.outlet(victim.host)} off")

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Turn the outlet on and read it back; the host then boots on its own."""
        bench.power.restore(victim.host, deadline)
