"""The fault `power-cut`: the victim's host loses power through the lab's own power unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.bench.bench import Bench
from testbed.clock import Deadline, now
from testbed.errors import LabError, UnsafeError
from testbed.faults.words import Injected, Undo, Victim, carrier_witness


class PowerCut:
    """Cut the power of the victim's host; silent, as a power cut is: no FIN, no RST."""

    loses_host = True

    def __init__(self, options: Any) -> None:
        """Take no options."""

    def promise(self, bench: Bench, victim: Victim) -> Undo:
        """Return the outlet to turn on again."""
        outlet = bench.outlet(victim.host)
        return Undo("outlet", {"unit": outlet.unit, "outlet": outlet.outlet, "on": True})

    def inject(self, bench: Bench, victim: Victim, deadline: Deadline) -> Injected:
        """Turn the outlet off."""
        outlet = bench.outlet(victim.host)
        sent = now()
        bench.power[outlet.unit].turn(outlet.outlet, False, deadline)
        return Injected(sent, now(), note=f"{outlet} off")

    def receipt(self, victim: Victim, host: str, message: Mapping[str, Any]) -> str:
        """Accept a neighbour's port that lost the victim's light."""
        return carrier_witness(victim, host, message)

    def undo(self, bench: Bench, victim: Victim, deadline: Deadline) -> None:
        """Turn the outlet on and read it back; the host then starts on its own."""
        outlet = bench.outlet(victim.host)
        unit = bench.power[outlet.unit]
        try:
            unit.turn(outlet.outlet, True, deadline)
            if unit.is_on(outlet.outlet, deadline):
                return
            reason = "it still reads off"
        except LabError as error:
            reason = str(error)
        raise UnsafeError(f"outlet {outlet} of {victim.host} could not be turned on: {reason}")
