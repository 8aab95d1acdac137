"""What a job in groups on rails took: its iterations, and the control of its circuits."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from testbed.analysis.clocks import Clocks
from testbed.analysis.rail_profile import NoProfile, rail_profile
from testbed.events import Event
from testbed.rails.profile import ControlCost, Operation, Profile, stages_of

_ERROR = 0.002
"""Seconds that an instant of a host may be off on the orchestrator's clock."""


def rail_values(samples: Iterable[Event], others: Iterable[Event]) -> dict[str, float]:
    """Return `iteration_time` and `change_time` of a trial, where it has them.

    An iteration is a step of training, or one collective along each dimension, of the largest
    messages. The first half of
    them is left out: in it `learned` tries what is quicker. `change_time` is the median over all
    changes of circuits in the trial. `retransmitted` and `dropped` are counts over all ranks.
    """
    samples = list(samples)
    values = {}
    steps = [event.data for event in others if event.kind == "operations"]
    ends = _ends_of_steps(steps) if steps else _ends_of_collectives(samples)
    if (time := _iteration_time(ends)) is not None:
        values["iteration_time"] = time
    lit = [event.data for event in others if event.kind == "stage.lit"]
    if changes := [said["seconds"] for said in lit if said["changed"]]:
        values["change_time"] = statistics.median(changes)
    return values | _losses(samples)


def _losses(samples: Iterable[Event]) -> dict[str, float]:
    """Return what was lost from the first sample of each rank to its last, of all ranks."""
    said = [event.data for event in samples if "retransmitted" in event.data]
    by_rank: defaultdict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for each in said:
        by_rank[each["rank"]].append(each)
    ends = [(mine[0], mine[-1]) for mine in by_rank.values()]
    names = ("retransmitted", "dropped") if said else ()
    return {name: float(sum(last[name] - first[name] for first, last in ends)) for name in names}


def profile_of(number: int, events: Iterable[Event], clocks: Clocks) -> Profile | None:
    """Return the profile of a trial from what its ranks communicated, where that gives one.

    Its control is what the ranks saw of it, the delay of the switch included.
    """
    events = list(events)
    said = [event for event in events if event.kind in ("sample", "operations")]
    try:
        profile = rail_profile(said, f"trial {number}", clocks=clocks)
    except (NoProfile, ValueError):  # the latter where a fault changed the groups meanwhile
        return None
    lit = [event for event in events if event.kind == "stage.lit"]
    return replace(profile, control=control_of(profile, lit))


def control_of(profile: Profile, lit: Iterable[Event]) -> ControlCost:
    """Return the median times from when the last rank reached a stage until the last could go on.

    So the messages from ranks to the controller and back count. The event `stage.lit` that is
    written in between says whether circuits were changed for the stage.
    """
    told = defaultdict[tuple[int, ...], list[Event]](list)
    for event in lit:
        told[tuple(event.data["stage"][2])].append(event)
    waits: dict[bool, list[float]] = {False: [], True: []}
    for first in _first_of_stages(profile):
        came, went = max(each.begin for each in first), max(each.lit for each in first)
        for event in told[first[0].ranks]:
            if came - _ERROR <= event.t <= went + _ERROR:
                waits[event.data["changed"]].append(went - came)
    unchanged, changed = (statistics.median(each or (0.0,)) for each in waits.values())
    return ControlCost(unchanged, changed)


def _first_of_stages(profile: Profile) -> Iterator[list[Operation]]:
    """Yield the parts that the ranks of each stage have in its first operation, all of them."""
    for iteration in profile.iterations:
        found = defaultdict[tuple[str, int], list[Operation]](list)
        for own in iteration:
            for stage in stages_of(own.operations, profile.groups):
                first = own.operations[stage.first]
                found[first.group, first.number].append(first)
        yield from (parts for parts in found.values() if len(parts) == len(parts[0].ranks))


_Ends = Mapping[int, Mapping[int, float]]
"""By iteration, when each rank had ended it, by the clock of its host."""


def _iteration_time(ends: _Ends) -> float | None:
    """Return the median time of an iteration, that of each the mean of its ranks.

    In the long run all ranks take as long; the longest of each iteration would add their jitter.
    """
    took = [
        _mean_difference(ends[number - 1], ends[number])
        for number in sorted(ends)
        if number - 1 in ends and ends[number].keys() == ends[number - 1].keys()
    ]
    return statistics.median(took[len(took) // 2 :]) if took else None


def _ends_of_steps(steps: Iterable[Mapping[str, Any]]) -> _Ends:
    ends: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for said in steps:
        ends[said["step"]][said["rank"]] = said["end"]
    return ends


def _ends_of_collectives(samples: Iterable[Event]) -> _Ends:
    ends: defaultdict[int, dict[int, float]] = defaultdict(dict)
    in_groups = [event.data for event in samples if event.data.get("dimension")]
    dimensions = len({said["dimension"] for said in in_groups})
    size = max((said["size"] for said in in_groups), default=0)
    for said in in_groups:
        if said["size"] == size and said["step"] % dimensions == dimensions - 1:
            ends[said["iteration"]][said["rank"]] = said["end"]
    return ends


def _mean_difference(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    return statistics.fmean(after[rank] - before[rank] for rank in after)
