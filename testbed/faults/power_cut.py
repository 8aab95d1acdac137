"""The fault `power-cut`: the victim's host loses power through the lab's own power unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.bench.bench import Bench
from testbed.bench.owned_circuits import OwnedCircuits
from testbed.clock import Deadline, now
from testbed.fabric.circuits import HostPort
from testbed.faults.contracts import CarrierLossFault, Injected, Victim


class PowerCut(CarrierLossFault):
    """Cut the power of the victim's host, without FIN or RST; `bench.power` records the undo."""

    def __init__(self, options: Any) -> None:
        """Take no options."""
        super().__init__(options)
        self._owned: OwnedCircuits | None = None

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Turn the outlet of the victim's host off."""
        self._owned = bench.fabric.owned
        sent = now()
        bench.power.cut(victim.host, deadline)
        return Injected(sent, now(), note=f"outlet {bench.power.outlet(victim.host)} off")

    def receipt(self, victim: Victim, host: str, message: Mapping[str, Any]) -> str:
        """Return the port of another host that lost the victim's light.

        One whose circuit was changed meanwhile may have lost it for that reason.
        """
        seen = super().receipt(victim, host, message)
        if not seen or self._owned is None:
            return ""
        circuit = self._owned.steady_at(HostPort(host, message["port"]))
        return seen if circuit in victim.own_circuits else ""

    def find_witness(self, bench: Bench, victim: Victim, deadline: Deadline) -> str:
        """Return that the host accepts no SSH connection; "" where it does.

        No neighbour sees a host die whose circuits are dark, as rails are while they are changed.
        """
        from testbed.bench.ssh import connection_failure  # takes a while to import

        why = connection_failure(bench.lab.hosts[victim.host].ssh, deadline)
        return f"{victim.host} SSH {why}" if why else ""

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Turn the outlet on and read it back; the host then boots on its own."""
        bench.power.restore(victim.host, deadline)
