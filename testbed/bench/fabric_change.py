"""What one change of a fabric did, on all of its switches together."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.bench.multi_switch_change import PlannedChange, VerifiedChange
from testbed.clock import now
from testbed.fabric.circuits import CrossConnect


@dataclass(frozen=True, slots=True)
class FabricChange:
    """What one change did, with instants on this machine's monotonic clock."""

    commanded: float
    read_back: float
    steady: float | None
    """When every switch reported its part in order; None where one cannot report it."""
    lit: float | None
    """When the light that was measured was right; None where a switch measures none."""
    removed: frozenset[CrossConnect]
    added: frozenset[CrossConnect]
    disturbed: frozenset[CrossConnect]
    """What changed or went dark for a moment although nobody asked for it."""


def summed(planned: list[PlannedChange], moved: list[VerifiedChange], began: float) -> FabricChange:
    """Return what all switches did as one change."""
    changes = [(move.crossbar.name, move.change) for move in planned]
    return FabricChange(
        commanded=min((m.applied.commanded for m in moved), default=began),
        read_back=max((m.applied.read_back for m in moved), default=now()),
        steady=_latest([m.verified.steady for m in moved]),
        lit=_latest([m.verified.lit for m in moved]),
        removed=frozenset(CrossConnect(n, i, e) for n, c in changes for i, e in c.removes.items()),
        added=frozenset(CrossConnect(n, i, e) for n, c in changes for i, e in c.adds.items()),
        disturbed=frozenset(CrossConnect(n, i, e) for n, c in changes for i, e in c.disturbs),
    )


def _latest(instants: list[float | None]) -> float | None:
    """Return the last of the instants; None when there is none, or one of them is not known."""
    known = [instant for instant in instants if instant is not None]
    return max(known) if known and len(known) == len(instants) else None
