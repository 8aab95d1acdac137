"""Find the state of a switch to restore after a run, when others may use it meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.fabric.device import State
from testbed.fabric.light import LightLimits


@dataclass(frozen=True, slots=True)
class Goal:
    """The cross-connects that the ports of one run should have at the end: its own, and others'.

    All map ingress to egress.
    """

    target: State
    others: State
    """What other owners have on these ports: it stays."""
    missing: State
    """What was there before the run and cannot be had again, for those others are in the way."""
    instead: State
    """The part of the target that takes the place of what is missing."""


def reachable(
    start: State,
    present: State,
    ours: State,
    ports: frozenset[int],
    limits: LightLimits,
) -> Goal:
    """Return the initial state, or the nearest that keeps circuits others made meanwhile.

    Where an initial cross-connect cannot be restored, its ports get the state that the lab declares
    safe, and a port that must stay lit keeps the circuit that the run gave it.
    """
    others = {
        i: e
        for i, e in present.items()
        if {i, e} & ports and ours.get(i) != e and start.get(i) != e
    }
    taken = _ends(others)
    missing = {i: e for i, e in start.items() if {i, e} & taken}
    target = {i: e for i, e in start.items() if i not in missing}
    instead: dict[int, int] = {}
    gone, alight = _ends(missing), limits.keep_alive & _ends(missing)
    parked = {i: e for i, e in limits.safe.items() if {i, e} & gone and {i, e} <= ports}
    kept = {i: e for i, e in ours.items() if {i, e} & alight}
    for ingress, egress in (*sorted(parked.items()), *sorted(kept.items())):
        if not {ingress, egress} & (taken | _ends(target) | _ends(instead)):
            instead[ingress] = egress
    return Goal(target | instead, others, missing, instead)


def _ends(state: Mapping[int, int]) -> set[int]:
    return {*state, *state.values()}
