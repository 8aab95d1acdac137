"""The pure planner of circuit changes for one switch: what is, what is wanted, what to do.

Invariants: a port is touched only when it is listed as ours; a cross-connect that is not ours is
never removed to make room; removes come before adds (break before make), because no switch family
can be trusted to disconnect implicitly (reference: safety semantics of Polatis, Calient, SAI OCS).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.fabric.device import State


class ForeignCircuit(ValueError):
    """A cross-connect that is not ours sits on a port that is wanted."""

    def __init__(self, foreign: Mapping[int, int]) -> None:
        pairs = ", ".join(f"{i}→{e}" for i, e in sorted(foreign.items()))
        super().__init__(f"cross-connects that this owner did not make: {pairs}")
        self.foreign = dict(foreign)


@dataclass(frozen=True, slots=True)
class Change:
    """What one switch must do: first the removes, then the adds; both ingress to egress."""

    removes: Mapping[int, int]
    adds: Mapping[int, int]

    def __bool__(self) -> bool:
        return bool(self.removes or self.adds)

    def __str__(self) -> str:
        rows = [f"-{i}→{e}" for i, e in sorted(self.removes.items())]
        rows += [f"+{i}→{e}" for i, e in sorted(self.adds.items())]
        return " ".join(rows) or "nothing to change"


def plan_change(state: State, wanted: State, ours: State, ports: frozenset[int]) -> Change:
    """Return the change that takes a switch from `state` to `wanted`.

    `ours` is what this owner made earlier, `ports` what it may touch. Raise ForeignCircuit when a
    cross-connect on a wanted port is not ours, ValueError when a wanted port may not be touched.
    """
    outside = sorted((set(wanted) | set(wanted.values())) - ports)
    if outside:
        raise ValueError(f"port {outside[0]} is not among the ports that may be touched")
    if len(set(wanted.values())) != len(wanted):
        raise ValueError("two ingress ports are wanted on one egress port")
    removes = {i: e for i, e in ours.items() if state.get(i) == e and wanted.get(i) != e}
    adds = {i: e for i, e in wanted.items() if state.get(i) != e}
    busy_egress = set(adds.values())
    foreign = {
        i: e for i, e in state.items() if (i in adds or e in busy_egress) and removes.get(i) != e
    }
    if foreign:
        raise ForeignCircuit(foreign)
    return Change(removes, adds)


def after(state: State, change: Change) -> dict[int, int]:
    """Return the state that a change leaves when the switch does all of it."""
    kept = {i: e for i, e in state.items() if change.removes.get(i) != e}
    return kept | dict(change.adds)
