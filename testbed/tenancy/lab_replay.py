"""A lab's queue in virtual time: when experiments would have started under a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from testbed.tenancy.lab_queue import Busy, LabPolicy, Waiting, line_up, starting


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment of a history: when it came, what it needed, and how long it held that."""

    entry: Waiting
    duration: float
    """Seconds that it held its parts."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a history; times in seconds."""

    makespan: float
    """From the first arrival to the last end."""
    mean_wait: float
    median_wait: float
    longest_wait: float


def replay(experiments: Sequence[Experiment], policy: LabPolicy) -> dict[str, float]:
    """Return when each experiment starts, by its name, under a policy that knows only the past.

    Whatever arrives or ends, the queue decides at once.
    """
    coming = sorted(experiments, key=lambda one: (one.entry.arrived, one.entry.name))
    known = {one.entry.name: one for one in experiments}
    starts: dict[str, float] = {}
    running: dict[str, float] = {}
    waiting: list[Waiting] = []
    while coming or waiting or running:
        now = min([*running.values(), *(one.entry.arrived for one in coming[:1])])
        running = {name: end for name, end in running.items() if end > now}
        while coming and coming[0].entry.arrived <= now:
            waiting.append(coming.pop(0).entry)
        held = [known[name].entry for name in running]
        busy = [Busy(one.needs, starts[one.name] + one.expected) for one in held]
        begin = starting(line_up(waiting, busy, now, policy), busy, now)
        waiting = [one for one in waiting if one not in begin]
        for one in begin:
            starts[one.name] = now
            running[one.name] = now + known[one.name].duration
    return starts


def figures(experiments: Sequence[Experiment], starts: Mapping[str, float]) -> Figures:
    """Return the figures of a history whose experiments start as given."""
    waits = [starts[one.entry.name] - one.entry.arrived for one in experiments]
    last = max(starts[one.entry.name] + one.duration for one in experiments)
    first = min(one.entry.arrived for one in experiments)
    return Figures(last - first, sum(waits) / len(waits), median(waits), max(waits))
