"""A workload on rails: what each rank computes and communicates, without the waiting.

It comes from a profile, or from a model of a job; a replay runs it with any delay of the switch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from testbed.rails.profile import ControlCost, Group, Operation, Profile, Waits

Instance = tuple[str, int]
"""What the parts of all ranks of an operation have in common: its group, and its number there."""


@dataclass(frozen=True, slots=True)
class Part:
    """One rank's part of an operation, as in a profile."""

    group: str
    number: int
    ranks: tuple[int, ...]
    gap: float
    """Seconds of compute before it, since the part before or the beginning of the iteration."""
    took: float
    """Seconds from when it can go on until its end."""
    bytes: int = 0
    waits: Waits = "all"


@dataclass(frozen=True, slots=True)
class IterationParts:
    """What a rank does in an iteration, with the compute after the last part, in seconds."""

    parts: tuple[Part, ...]
    tail: float = 0.0


@dataclass(frozen=True, slots=True)
class Workload:
    """Iterations of all ranks; the first begins on each rank after its `offsets`, in seconds."""

    groups: Mapping[str, Group]
    iterations: tuple[tuple[IterationParts, ...], ...]
    offsets: tuple[float, ...]
    control: ControlCost = field(default_factory=ControlCost)
    hosts: tuple[str, ...] = ()
    """Of each rank; empty where they are not known."""

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return len(self.offsets)


def workload_of(profile: Profile) -> Workload:
    """Return a profile's workload; raise ValueError where a rank's part of an operation lacks."""
    took = _durations(profile)
    iterations = []
    before: list[float] | None = None
    for ranks in profile.iterations:
        each = []
        for rank, own in enumerate(ranks):
            at = own.begin if before is None else before[rank]
            parts = []
            for op in own.operations:
                seconds = took[rank, op.group, op.number]
                part = Part(
                    op.group, op.number, op.ranks, op.begin - at, seconds, op.bytes, op.waits
                )
                parts.append(part)
                at = op.end
            each.append(IterationParts(tuple(parts), own.end - at))
        before = [own.end for own in ranks]
        iterations.append(tuple(each))
    first = [own.begin for own in profile.iterations[0]]
    offsets = tuple(begin - min(first) for begin in first)
    return Workload(profile.groups, tuple(iterations), offsets, profile.control, profile.hosts)


def waited_for(part: Part | Operation, rank: int, sending: Iterable[int]) -> Iterator[int]:
    """Yield the ranks, itself among them, that a rank's part of an operation waits for.

    `sending` are the ranks whose part of it is to send.
    """
    yield rank
    if part.waits == "all":
        yield from part.ranks
    elif part.waits == "receive":
        yield from sending


def _durations(profile: Profile) -> dict[tuple[int, str, int], float]:
    """Return how long each rank's part of each operation takes from when it can go on."""
    parts: dict[Instance, dict[int, Operation]] = {}
    for iteration in profile.iterations:
        for rank, each in enumerate(iteration):
            for op in each.operations:
                parts.setdefault((op.group, op.number), {})[rank] = op
    found = {}
    for (group, number), by_rank in parts.items():
        for rank, part in by_rank.items():
            sending = [other for other, its in by_rank.items() if its.waits == "send"]
            waits = {*waited_for(part, rank, sending)}
            if missing := sorted(waits - by_rank.keys()):
                raise ValueError(f"{group} {number}: the part of rank {missing[0]} is missing")
            if part.waits == "receive" and not sending:
                raise ValueError(f"{group} {number}: rank {rank} receives and no rank sends")
            start = max(by_rank[other].lit for other in waits)
            found[rank, group, number] = max(0.0, part.end - start)
    return found
