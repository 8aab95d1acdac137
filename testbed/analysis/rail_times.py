"""What a job in groups on rails took: its iterations, and the control of its circuits."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping

from testbed.analysis.clocks import Clocks
from testbed.analysis.rail_profile import NoProfile, rail_profile
from testbed.events import Event
from testbed.rails.profile import Profile


def rail_values(samples: Iterable[Event], others: Iterable[Event]) -> dict[str, float]:
    """Return `iteration_time` and `change_time` of a trial, where it has them.

    An iteration is one collective along each dimension, of the largest messages. The first half of
    them is left out: in it `learned` tries what is quicker. `change_time` is the median over all
    changes of circuits in the trial.
    """
    values = {}
    if (time := _iteration_time(samples)) is not None:
        values["iteration_time"] = time
    lit = [event.data for event in others if event.kind == "stage.lit"]
    if changes := [said["seconds"] for said in lit if said["changed"]]:
        values["change_time"] = statistics.median(changes)
    return values


def profile_of(number: int, samples: Iterable[Event], clocks: Clocks) -> Profile | None:
    """Return the profile of a trial from its timed collectives, where they give one."""
    try:
        return rail_profile(samples, f"trial {number}", clocks=clocks)
    except NoProfile:
        return None


def _iteration_time(samples: Iterable[Event]) -> float | None:
    """Return the median time of an iteration, by the clock of each host; of ranks the longest."""
    in_groups = [event.data for event in samples if event.data.get("dimension")]
    if not in_groups:
        return None
    dimensions = len({said["dimension"] for said in in_groups})
    size = max(said["size"] for said in in_groups)
    ends: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for said in in_groups:
        if said["size"] == size and said["step"] % dimensions == dimensions - 1:
            ends[said["iteration"]][said["rank"]] = said["end"]
    took = [
        _longest(ends[number - 1], ends[number])
        for number in sorted(ends)
        if number - 1 in ends and ends[number].keys() == ends[number - 1].keys()
    ]
    return statistics.median(took[len(took) // 2 :]) if took else None


def _longest(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    return max(after[rank] - before[rank] for rank in after)
