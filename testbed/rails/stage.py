"""Stages of traffic on a rail, and the circuits that each needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.fabric.circuits import HostPort, Matching
from testbed.fabric.fibre_plant import circuits_of_links
from testbed.fabric.links import link, renumbered
from testbed.fabric.topologies import RING


@dataclass(frozen=True, slots=True, order=True)
class Stage:
    """Operations of one group with none of another group between them, as its ranks run them.

    `number` counts the stages of these ranks of the group: all of them know it without asking.
    """

    group: str
    number: int
    ranks: tuple[int, ...]
    """Those that take part: all of the group, or two neighbours of a pipeline."""
    place: int = 0
    """Which of the group's stages in an iteration it is, where that is known."""

    def __str__(self) -> str:
        return f"{self.group} {self.number}"


RankPorts = Sequence[Sequence[HostPort]]
"""The fabric ports of each rank, by number; a rank without any never asks for circuits."""


def circuits_of(stage: Stage, group: Sequence[int], ports: RankPorts) -> Matching:
    """Return the circuits that a stage of a group needs.

    All of a group are joined in a ring, two of them over every port that both have. Two neighbours
    of a longer group, a pipeline, are joined from the last port of the first to the first port of
    the second, so that a rank with two ports keeps both neighbours. Raise ValueError where the
    ranks have too few ports.
    """
    if len(stage.ranks) == 2 < len(group):
        one, other = sorted(stage.ranks, key=group.index)
        pair = link((one, len(ports[one]) - 1), (other, 0))
        return circuits_of_links([pair], ports)
    fewest = min(len(ports[rank]) for rank in stage.ranks)
    (links,) = RING.matchings(len(stage.ranks), fewest)
    return circuits_of_links(renumbered(links, stage.ranks), ports)
