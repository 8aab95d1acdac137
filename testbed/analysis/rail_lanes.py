"""An iteration of a job in groups as lanes: what each rank does when, and what its rails do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from testbed.analysis.rail_spans import CircuitSpan
from testbed.rails.profile import Group, Profile
from testbed.rails.replay import Ran, Replayed
from testbed.rails.workload import Workload

COMPUTE, STALL = "compute", "stall"


@dataclass(frozen=True, slots=True)
class Bar:
    """What is done from one time to another, in seconds after the iteration began.

    A stall lasts from when a rank came to a stage until its circuits were lit; what is neither
    compute nor a stall is named by the group of ranks that communicates or is re-pointed for.
    """

    what: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Lanes:
    """One iteration, from when its first rank began it until its last rank ended it."""

    ranks: tuple[tuple[Bar, ...], ...]
    """Of each rank what it did, without a gap, in order."""
    rails: Mapping[str, tuple[Bar, ...]] = field(default_factory=dict)
    """Of each rail its changes, from the command until the circuits were lit."""

    @property
    def end(self) -> float:
        """Return when the last rank ended the iteration."""
        return max(bar.end for bars in self.ranks for bar in bars)


def measured_lanes(profile: Profile, spans: Iterable[CircuitSpan] | None = None) -> Lanes:
    """Return the last iteration of a profile; `spans` are the circuits of its trial, if on rails.

    Of the changes those count that were under way in the iteration.
    """
    last = profile.iterations[-1]
    zero = min(own.begin for own in last)
    ranks = [
        _lane(own.begin, own.end, ((o.group, o.begin, o.lit, o.end) for o in own.operations), zero)
        for own in last
    ]
    if spans is None:
        return Lanes(tuple(ranks))
    lit = defaultdict[tuple[str, str, float], float](float)
    for span in spans:
        if span.lit is not None:
            # The circuits of one command are one change, lit when the last of them is.
            key = span.rail, span.group, span.commanded
            lit[key] = max(lit[key], span.lit)
    changes = ((*key, until) for key, until in lit.items())
    return _lanes(ranks, profile.groups, changes, zero)


def replayed_lanes(workload: Workload, replayed: Replayed) -> Lanes:
    """Return the last iteration of the replay of a workload.

    A change lasts until its ranks are told that its circuits are lit.
    """
    last = max(one.task.iteration for one in replayed.ran)
    return lanes_of_iteration(workload, replayed, last)


def lanes_of_iteration(workload: Workload, replayed: Replayed, number: int) -> Lanes:
    """Return the iteration with a number, counted over all repetitions of a replay."""
    by_rank = defaultdict[int, list[Ran]](list)
    for one in replayed.ran:
        if one.task.iteration == number:
            by_rank[one.rank].append(one)
    parts = workload.iterations[number % len(workload.iterations)]
    begins = {rank: own[0].begin - own[0].task.part.gap for rank, own in by_rank.items()}
    zero = min(begins.values())
    ranks = []
    for rank, own in sorted(by_rank.items()):
        done = ((one.task.part.group, one.begin, one.lit, one.end) for one in own)
        ranks.append(_lane(begins[rank], own[-1].end + parts[rank].tail, done, zero))
    made = (*replayed.earlier, *replayed.changes)
    changes = ((each.rail, each.stage.group, each.commanded, each.answered) for each in made)
    return _lanes(ranks, workload.groups, changes, zero)


_Change = tuple[str, str, float, float]
"""A rail, the group that it is re-pointed for, when that is commanded and when it is over."""


def _lane(
    begin: float, end: float, done: Iterable[tuple[str, float, float, float]], zero: float
) -> tuple[Bar, ...]:
    """Return the bars of a rank by its operations: a group, when it came, was lit, and ended."""

    def bars() -> Iterator[Bar]:
        at = begin
        for group, came, lit, ended in done:
            yield Bar(COMPUTE, at - zero, came - zero)
            yield Bar(STALL, came - zero, lit - zero)
            yield Bar(group, lit - zero, ended - zero)
            at = ended
        yield Bar(COMPUTE, at - zero, end - zero)

    return tuple(bar for bar in bars() if bar.end > bar.begin)


def _lanes(
    ranks: Iterable[tuple[Bar, ...]],
    groups: Mapping[str, Group],
    changes: Iterable[_Change],
    zero: float,
) -> Lanes:
    found = Lanes(tuple(ranks))
    names = sorted({group.rail for group in groups.values() if group.rail is not None})
    of_rail: dict[str, list[Bar]] = {name: [] for name in names}
    for rail, group, commanded, over in sorted(changes, key=lambda change: change[2]):
        if rail in of_rail and commanded - zero < found.end and over > zero:
            of_rail[rail].append(Bar(group, commanded - zero, over - zero))
    return Lanes(found.ranks, {rail: tuple(bars) for rail, bars in of_rail.items()})
