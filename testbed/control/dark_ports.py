"""Ports of rails that stay dark under ranks that use them, as when their switch has restarted.

Ports go dark whenever circuits are re-pointed, and have light again soon after. Where all ranks of
a rail have traffic when its circuits go, none of them waits for a stage: only the light tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from testbed.control.reports import CarrierFound, CarrierLost
from testbed.fabric.circuits import HostPort, Matching
from testbed.rails.rail import Rail, RailState


@dataclass(frozen=True, slots=True)
class DarkPorts:
    """Since when which ports are dark; immutable."""

    since: Mapping[HostPort, float]

    def after(self, report: CarrierFound | CarrierLost, now: float) -> DarkPorts:
        """Return the ports that are dark after a report."""
        others = {port: since for port, since in self.since.items() if port != report.port}
        return DarkPorts(others | ({report.port: now} if isinstance(report, CarrierLost) else {}))

    def without(self, circuits: Matching) -> DarkPorts:
        """Return what is dark still, now that something has passed some circuits."""
        lit = {end for circuit in circuits for end in circuit.ends}
        return DarkPorts({port: at for port, at in self.since.items() if port not in lit})

    def looked_at(self, now: float, limit: float) -> DarkPorts:
        """Return them with the time of those anew that were dark for `limit`, and no rank missed.

        They are no longer due, and are looked at again later: a rank may come to use one.
        """
        return DarkPorts({p: now if now >= at + limit else at for p, at in self.since.items()})

    def in_use(self, rail: Rail, state: RailState, limit: float) -> Iterator[tuple[float, str]]:
        """Yield since when ports are dark that ranks use in a stage whose circuits are made.

        With each goes what is to be said of it after `limit`.
        """
        making = {move.stage for move in state.moves.values()}
        for stage in sorted({*state.using.values()} - making):
            for circuit in sorted(rail.circuits(stage)):
                for port in sorted(self.since.keys() & {*circuit.ends}):
                    text = f"{port} has had no light for {limit:g} s, in the midst of {stage}"
                    yield self.since[port], text
