"""The profile of a job on rails: what its ranks compute and communicate in some iterations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, Protocol

from testbed.rails.stage import Stage

Waits = Literal["all", "send", "receive"]
"""Whom an operation of a rank waits for: all its ranks, nobody, or the rank that sends."""


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that communicate; `rail` is None where they do so inside a host."""

    ranks: tuple[int, ...]
    rail: str | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One rank's part of a collective, a send or a receive; times are in seconds of one clock."""

    group: str
    number: int
    """Which of the group's operations it is, the same on all ranks that take part."""
    ranks: tuple[int, ...]
    """Those that need the circuits together: all of the group, or two neighbours of a pipeline."""
    begin: float
    """When the rank came to it."""
    lit: float
    """When it was told that its circuits are lit; `begin` where it did not ask."""
    end: float
    bytes: int = 0
    waits: Waits = "all"


@dataclass(frozen=True, slots=True)
class RankIteration:
    """What one rank did in an iteration: operations, one after the other, and compute between."""

    begin: float
    end: float
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class ControlCost:
    """Seconds that the control itself takes, without the switch and the link."""

    answer: float = 0.0
    """From the last request to the answer, where the circuits are lit already."""
    change: float = 0.0
    """The same where they are changed, beyond the delay of the switch."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Some iterations of a job, recorded while changes of circuits took no time."""

    groups: Mapping[str, Group]
    iterations: tuple[tuple[RankIteration, ...], ...]
    """Of each iteration its ranks, in rank order."""
    control: ControlCost = field(default_factory=ControlCost)
    source: str = ""
    """The run that it is from, or how it was made."""
    hosts: tuple[str, ...] = ()
    """Of each rank; empty where they are not known."""

    def __post_init__(self) -> None:
        """Refuse a profile of nothing, operations of unknown groups, and times that go back."""
        if not self.iterations or not self.iterations[0]:
            raise ValueError("a profile has at least one iteration of one rank")
        if len({len(ranks) for ranks in self.iterations}) > 1:
            raise ValueError("all iterations of a profile have the same ranks")
        if self.hosts and len(self.hosts) != self.ranks:
            raise ValueError(f"it has {self.ranks} ranks, and hosts of {len(self.hosts)}")
        for number, ranks in enumerate(self.iterations):
            for rank, each in enumerate(ranks):
                _check(each, self.groups, f"iteration {number}, rank {rank}")

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return len(self.iterations[0])


@dataclass(frozen=True, slots=True)
class RankStage:
    """A stage as one rank runs it: its operations are number `first` to `last` of the rank's."""

    stage: Stage
    first: int
    last: int


class InGroup(Protocol):
    """An operation of some ranks of a group."""

    @property
    def group(self) -> str:
        """Return the group's name."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Return the ranks that need its circuits together."""


def stages_of(operations: Sequence[InGroup], groups: Mapping[str, Group]) -> Iterator[RankStage]:
    """Yield the stages of a rank's operations in an iteration on its rail, in order.

    Operations inside a host neither begin nor end one. Their numbers are their places.
    """
    places: dict[tuple[str, tuple[int, ...]], int] = {}
    first: int | None = None
    last = 0
    on_rail = [n for n, each in enumerate(operations) if groups[each.group].rail is not None]
    for number, following in zip(on_rail, [*on_rail[1:], None], strict=True):
        own = operations[number]
        first = number if first is None else first
        last = number
        after = None if following is None else operations[following]
        if after is not None and (after.group, after.ranks) == (own.group, own.ranks):
            continue
        key = own.group, own.ranks
        place = places[key] = places.get(key, -1) + 1
        stage = Stage(own.group, place, own.ranks, place)
        yield RankStage(stage, first, last)
        first = None


def _check(each: RankIteration, groups: Mapping[str, Group], where: str) -> None:
    at = each.begin
    for operation in each.operations:
        name = f"{where}, {operation.group} {operation.number}"
        group = groups.get(operation.group)
        if group is None:
            raise ValueError(f"{name}: there is no group {operation.group}")
        if not {*operation.ranks} <= {*group.ranks}:
            raise ValueError(f"{name}: ranks {operation.ranks} are not all in the group")
        times = at, operation.begin, operation.lit, operation.end
        if any(later < earlier for earlier, later in pairwise(times)):
            raise ValueError(f"{name}: it begins before the one before it ends, or ends before")
        at = operation.end
    if each.end < at:
        raise ValueError(f"{where}: it ends before its last operation")
