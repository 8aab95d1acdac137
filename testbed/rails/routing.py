"""Which rail's circuits each stage uses: its own, or another that it is forwarded over.

A stage keeps the rail on which it was first asked for. From a decision on, until all stages are
where it has them, circuits are asked for as ranks reach a stage: who holds some for a stage that it
has not reached may wait, inside its host, for a rank that waits for these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from testbed.rails.choice import Key
from testbed.rails.forwarding import Routes, routes, sharers
from testbed.rails.profile import Group
from testbed.rails.stage import Stage

FORWARDED = -3
"""The place of the stage in which a group is connected where it may be forwarded."""

_KEPT = 2
"""Stages of the same ranks whose rail is kept: one is asked for while others are in that before."""

_Same = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Routing:
    """The rails that groups use; immutable."""

    own: Routes
    other: Routes = field(default_factory=dict)
    """Where groups are forwarded that are not at home there; empty where none can be."""
    sharing: Mapping[str, int] = field(default_factory=dict)
    """By group, how many use the same circuits where all are forwarded."""
    is_wanted: bool = False
    """Stages are to be forwarded."""
    forwards: bool = False
    """They are, those that are asked for from now on."""
    changed: frozenset[Key] = frozenset()
    """The stages for which circuits had to change, before they were forwarded."""
    kept: Mapping[_Same, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    """By group and ranks the numbers of the last stages, and their rails."""

    def rail(self, stage: Stage) -> str | None:
        """Return the rail of a stage; None where it needs none."""
        for number, rail in self.kept.get((stage.group, stage.ranks), ()):
            if number == stage.number:
                return rail
        if stage.place == FORWARDED or (self.forwards and stage.place >= 0):
            return self.other.get(stage.group, self.own.get(stage.group))
        return self.own.get(stage.group)

    def keeping(self, stage: Stage) -> Routing:
        """Return the routing with the rail of a stage as it is now."""
        same = stage.group, stage.ranks
        before, rail = self.kept.get(same, ()), self.rail(stage)
        if not self.other or rail is None or stage.number in dict(before):
            return self
        return replace(self, kept={**self.kept, same: (*before, (stage.number, rail))[-_KEPT:]})

    def rails(self, group: str) -> tuple[str, ...]:
        """Return all rails that a group may use."""
        found = (self.own.get(group), self.other.get(group))
        return tuple(dict.fromkeys(rail for rail in found if rail is not None))

    def present(self, group: str) -> str:
        """Return the rail of the stages of a group that are asked for from now on."""
        return self.other.get(group, self.own[group]) if self.forwards else self.own[group]


def routing_of(groups: Mapping[str, tuple[int, ...]], own: Routes, hosts: Sequence[str]) -> Routing:
    """Return the routing of a job whose groups may be forwarded; ValueError where none can be.

    `own` are the rails of groups that need circuits, `hosts` those of the ranks.
    """
    on_rails = {name: Group(groups[name], rail) for name, rail in own.items()}
    found = routes(on_rails, hosts)
    if found is None:
        raise ValueError(
            "forward needs circuits that are re-pointed between groups of two ranks, and as many "
            "rails as hosts have peers: this job cannot keep a rail for each pair of hosts"
        )
    sharing = sharers(found, on_rails, hosts)
    other = {name: rail for name, rail in found.items() if rail != own[name]}
    return Routing(own, other, sharing)
