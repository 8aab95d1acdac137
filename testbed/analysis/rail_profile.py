"""The profile of a job on rails, from the event log of a run whose ranks are in a mesh."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from testbed.analysis.clocks import Clocks
from testbed.events import Event
from testbed.rails.profile import Group, Operation, Profile, RankIteration

ITERATIONS = 3
"""Iterations of a profile, the last ones of the largest messages."""


class NoProfile(Exception):
    """A log has nothing that a profile could be made of; the text says what is missing."""


Steps = Mapping[int, Mapping[int, Event]]
"""What ranks said of each step, by rank: a sample, or the operations of a step of training."""

_Groups = dict[str, Group]
GroupNames = Mapping[tuple[str, tuple[int, ...]], str]
"""Of groups that are known by their dimension and their ranks."""


def rail_profile(
    events: Iterable[Event],
    source: str,
    trial: int | None = None,
    clocks: Clocks | None = None,
) -> Profile:
    """Return the profile of one trial, the first without a number, of a job of groups.

    An iteration is a step of training, or one timed collective along each dimension. Raise
    NoProfile for a log that has no whole iteration of either in groups. What ranks wait for at a
    barrier before a timed collective counts as compute, but on rails as waiting for its circuits.
    `clocks` are those of the hosts, where the events are only samples.
    """
    steps = defaultdict[int, dict[int, Event]](dict)
    clocks = clocks or Clocks()
    for event in events:
        if event.kind in ("host.ready", "clock.offset"):
            clocks.add(event)
        elif event.kind == "operations" or event.data.get("dimension"):
            trial = event.trial if trial is None else trial
            if event.trial == trial:
                steps[event.data["step"]][event.data["rank"]] = event
    if not steps:
        which = "" if trial is None else f" in trial {trial}"
        raise NoProfile(f"its ranks timed no collectives in groups of a mesh{which}")
    ranks = 1 + max(rank for of_step in steps.values() for rank in of_step)
    whole = {number: found for number, found in sorted(steps.items()) if len(found) == ranks}
    if not whole:
        raise NoProfile("it has no whole iteration of all ranks")
    is_training = _any(next(iter(whole.values()))).kind == "operations"
    chosen = [(n,) for n in whole][-ITERATIONS:] if is_training else _iterations(whole)
    groups, names = _groups_of_training(whole) if is_training else _groups(whole)
    before = _ends(whole, clocks, min(chosen[0]) - 1, ranks)
    iterations = []
    for numbers in chosen:
        rows = [
            _rank_iteration([whole[n][rank] for n in numbers], before[rank], clocks, names)
            for rank in range(ranks)
        ]
        before = {rank: row.end for rank, row in enumerate(rows)}
        iterations.append(tuple(rows))
    hosts = {rank: str(event.data["host"]) for rank, event in next(iter(whole.values())).items()}
    of_ranks = tuple(hosts[rank] for rank in range(ranks))
    return Profile(groups, tuple(iterations), source=source, hosts=of_ranks)


def _iterations(steps: Steps) -> list[tuple[int, ...]]:
    """Return the steps of each of the last whole iterations of the largest size."""
    dimensions = len({_any(found).data["dimension"] for found in steps.values()})
    size = max((_any(found).data["size"] for found in steps.values()), default=0)
    by_number = defaultdict[int, list[int]](list)
    for number, found in steps.items():
        if _any(found).data["size"] == size:
            by_number[number // dimensions].append(number)
    whole = [tuple(numbers) for numbers in by_number.values() if len(numbers) == dimensions]
    if not whole:
        raise NoProfile("it has no whole iteration with a collective along each dimension")
    return whole[-ITERATIONS:]


def _groups(steps: Steps) -> tuple[_Groups, GroupNames]:
    """Return all groups of timed collectives by name, and the names by dimension and ranks."""
    rail_of = _rails(steps)
    names = group_names(
        (event.data["dimension"], tuple(event.data["members"]))
        for found in steps.values()
        for event in found.values()
    )
    return {name: Group(ranks, rail_of(ranks)) for (_, ranks), name in names.items()}, names


def group_names(groups: Iterable[tuple[str, tuple[int, ...]]]) -> GroupNames:
    """Return the names of groups: along each dimension they are numbered in the order of ranks."""
    counts: defaultdict[str, int] = defaultdict(int)
    names = {}
    for dimension, ranks in sorted(set(groups)):
        names[dimension, ranks] = f"{dimension}{counts[dimension]}"
        counts[dimension] += 1
    return names


def _groups_of_training(steps: Steps) -> tuple[_Groups, GroupNames]:
    """Return all groups of training by name, as the ranks name them."""
    rail_of = _rails(steps)
    events = [event for found in steps.values() for event in found.values()]
    told = {name: tuple(of) for event in events for name, of in event.data["groups"].items()}
    return {name: Group(told[name], rail_of(told[name])) for name in sorted(told)}, {}


def _rails(steps: Steps) -> Callable[[Sequence[int]], str | None]:
    """Return which rail a group is on: that of one local index; groups with several are on none."""
    hosts = {rank: e.data["host"] for found in steps.values() for rank, e in found.items()}
    local = {
        rank: sum(hosts[other] == host for other in hosts if other < rank)
        for rank, host in hosts.items()
    }

    def rail_of(ranks: Sequence[int]) -> str | None:
        rails = {local[rank] for rank in ranks}
        return f"rail{min(rails)}" if len(ranks) > 1 and len(rails) == 1 else None

    return rail_of


def _rank_iteration(
    events: Iterable[Event], before: float, clocks: Clocks, names: GroupNames
) -> RankIteration:
    """Return the operations of a rank, each not before the end of the one before it."""
    at, operations = before, list[Operation]()
    for event in events:
        part = on_the_log(event, operations_of(event, names), at, clocks)
        operations += part.operations
        at = part.end
    return RankIteration(before, at, tuple(operations))


def on_the_log(
    event: Event, operations: Iterable[Operation], before: float, clocks: Clocks
) -> RankIteration:
    """Return a report of a rank in seconds of the log; nothing in it is before `before`.

    Raise NoProfile where the clock of the host was not measured.
    """
    at, found = before, []
    for each in operations:
        begin = max(at, _time(event, each.begin, clocks))
        lit = max(begin, _time(event, each.lit, clocks))
        at = max(lit, _time(event, each.end, clocks))
        found.append(replace(each, begin=begin, lit=lit, end=at))
    return RankIteration(before, max(at, _time(event, event.data["end"], clocks)), tuple(found))


def operations_of(event: Event, names: GroupNames) -> Iterator[Operation]:
    """Yield the operations of which a rank speaks, with its own stamps."""
    said = event.data
    if event.kind == "operations":
        for group, number, _, ranks, begin, lit, end, size, waits in said["operations"]:
            yield Operation(group, number, tuple(ranks), begin, lit, end, size, waits)
        return
    ranks = tuple(said["members"])
    came, lit = (said.get(name, said["begin"]) for name in ("reached", "lit"))
    name, size = names[said["dimension"], ranks], said["bytes"] or 0
    for other, came, lit, _, end, sent in said.get("matchings", ()):
        one, two = sorted((said["rank"], other), key=ranks.index)
        number = (said["step"] * len(ranks) + ranks.index(one)) * len(ranks) + ranks.index(two)
        yield Operation(name, number, (one, two), came, lit, end, sent)
    if "matchings" in said:
        return
    yield Operation(name, said["step"], ranks, came, lit, said["end"], size)


def _ends(steps: Steps, clocks: Clocks, step: int, ranks: int) -> dict[int, float]:
    """Return when each rank ended a step or, where there is none before, began the first."""
    found = steps.get(step)
    if found is not None:
        return {rank: _time(event, event.data["end"], clocks) for rank, event in found.items()}
    first = steps[min(steps)]
    return {rank: _time(first[rank], first[rank].data["begin"], clocks) for rank in range(ranks)}


def _time(event: Event, stamp: float, clocks: Clocks) -> float:
    instant = clocks.instant(event, stamp)
    if instant is None:
        raise NoProfile(f"the clock of {event.data['host']} was not measured")
    return instant.middle


def _any(found: Mapping[int, Event]) -> Event:
    return next(iter(found.values()))
