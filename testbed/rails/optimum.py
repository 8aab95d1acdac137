"""The best schedule of changes that there is for a workload, as a yardstick for all others.

Whoever knows the iterations beforehand can begin each change at any time from when its circuits are
free. Where a switch makes changes side by side, at once is best. Where it makes one after the
other, their order decides; given the order, at once is best again. The dynamic programme goes
through the sets of changes that may have been made; of the ways to make a set it keeps those that
no other beats in every change and every switch, and that could still be quicker than a schedule
that is known, were all changes that are left made side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from testbed.rails.forwarding import forwarded, routes
from testbed.rails.rail_replay import Change, Left, Rails
from testbed.rails.replay import replay
from testbed.rails.requests import Mode
from testbed.rails.stage import Stage
from testbed.rails.tasks import Program, programs
from testbed.rails.workload import Part, Workload, waited_for

_MOST = 20_000
"""Ways to make changes that are kept at most, of all sets of one size."""

_EQUAL = 1e-9
"""Seconds by which a schedule must be quicker than another to count as that."""

Made = Mapping[Stage, float]
"""When the changes that have been scheduled are made, by their stages."""


@dataclass(frozen=True, slots=True)
class _Way:
    """Changes in some order: when each is made, and when each rail's switch is free."""

    made: Made
    free: Mapping[str, float]

    def beats(self, other: _Way) -> bool:
        """Tell whether it is as good as another way to make the same changes, or better."""
        changes = all(at <= other.made[stage] for stage, at in self.made.items())
        return changes and all(at <= other.free.get(name, 0.0) for name, at in self.free.items())


def optimum(workload: Workload, rails: Rails, repeats: int = 2) -> float:
    """Return the seconds of an iteration, the last one, with the best schedule of changes.

    It is the least time of all repetitions less that of one fewer. Where circuits need not be
    re-pointed, since groups may be forwarded over other rails, that is one more schedule. Raise
    ValueError where there are too many schedules to compare.
    """
    found = routes(workload.groups, workload.hosts) if rails.forward else None
    if found is not None:
        stays = replay(forwarded(workload, found), Rails(0.0, "provisioned", rails.ports))
        return min(stays.iteration, optimum(workload, replace(rails, forward=False), repeats))
    shorter = _Search(workload, rails, repeats - 1).least() if repeats > 1 else 0.0
    return (_Search(workload, rails, repeats).least() - shorter) / len(workload.iterations)


class _Search:
    def __init__(self, workload: Workload, rails: Rails, repeats: int) -> None:
        still = replay(workload, Rails(ports=rails.ports), repeats)
        self._changes = {change.stage: change for change in (*still.earlier, *still.changes)}
        self._workload, self._rails, self._repeats = workload, rails, repeats
        self._programs = programs(workload, repeats)
        self._parts: dict[object, dict[int, Part]] = {}
        for rank, one in enumerate(self._programs):
            for task in one.tasks:
                self._parts.setdefault(task.instance, {})[rank] = task.part

    def least(self) -> float:
        """Return the least time in which all tasks end."""
        if not self._rails.one_at_a_time:
            return self._ended({}, relaxed=True)[1]
        ways = {frozenset[Stage](): [_Way({}, {})]}
        modes: tuple[Mode, ...] = ("on-demand", "provisioned", "learned")
        known = [replace(self._rails, mode=mode) for mode in modes]
        best = min(replay(self._workload, each, self._repeats).took for each in known)
        for _ in range(len(self._changes)):
            after: dict[frozenset[Stage], list[_Way]] = {}
            for done, kept in ways.items():
                for way in kept:
                    for change, following in self._next(way):
                        if self._ended(following.made, relaxed=True)[1] >= best - _EQUAL:
                            continue
                        _keep(after.setdefault(done | {change.stage}, []), following)
            if sum(map(len, after.values())) > _MOST:
                raise ValueError(f"more than {_MOST} schedules of changes are to be compared")
            ways = after
        ended = [self._ended(way.made)[1] for kept in ways.values() for way in kept]
        return min([best, *ended])

    def _next(self, way: _Way) -> Iterator[tuple[Change, _Way]]:
        """Yield each change that can be made next, with the way that makes it so."""
        left, _ = self._ended(way.made)
        for stage, change in self._changes.items():
            if stage in way.made or not left.keys() >= change.after:
                continue
            free = max((left[one] for one in change.after), default=0.0)
            end = max(free, way.free.get(change.rail, 0.0)) + self._rails.delay
            made = {**way.made, stage: end + self._workload.control.change}
            yield change, _Way(made, {**way.free, change.rail: end})

    def _ended(self, made: Made, *, relaxed: bool = False) -> tuple[dict[Left, float], float]:
        """Return when ranks leave their stages, as far as the changes made let them, and the end.

        A rank stops at a stage whose change is not made; relaxed, changes that are left are made
        side by side.
        """
        left = {stage: one for stage, one in self._changes.items() if stage not in made}
        takes = self._rails.delay + self._workload.control.change if relaxed else None
        return _Course(self._programs, self._parts, left, made, takes).run()


class _Course:
    """The tasks of all ranks in order, each as soon as it can be."""

    def __init__(
        self,
        of_ranks: list[Program],
        parts: Mapping[object, Mapping[int, Part]],
        missing: Mapping[Stage, Change],
        made: Made,
        takes: float | None,
    ) -> None:
        self._programs, self._parts = of_ranks, parts
        self._missing, self._made = missing, made
        self._takes = takes
        """What a change takes that is not made yet; None where it is never made."""
        self._at = [0] * len(of_ranks)
        self._time = [0.0] * len(of_ranks)
        self._ready: dict[object, dict[int, float]] = {}
        self._stages: dict[int, Stage] = {}
        self._left: dict[Left, float] = {}
        self._end = 0.0

    def run(self) -> tuple[dict[Left, float], float]:
        """Return when ranks left their stages, and when the last task's iteration ended."""
        while any(self._went_on(rank) for rank in range(len(self._programs))):
            pass
        return self._left, self._end

    def _lit(self, stage: Stage) -> float | None:
        """Return when the circuits of a stage are lit, or None where that is not known."""
        change = self._missing.get(stage)
        if change is None:
            return self._made.get(stage, 0.0)
        if self._takes is None or not self._left.keys() >= change.after:
            return None
        return max((self._left[one] for one in change.after), default=0.0) + self._takes

    def _went_on(self, rank: int) -> bool:
        """Have a rank end its task if it can; tell whether anything new happened."""
        one = self._programs[rank]
        if self._at[rank] == len(one.tasks):
            return False
        task = one.tasks[self._at[rank]]
        ready = self._ready.setdefault(task.instance, {})
        came = rank not in ready
        if came:
            lit = 0.0 if task.begins is None else self._lit(task.begins)
            if lit is None:
                return False
            if task.begins is not None:
                self._stages[rank] = task.begins
            ready[rank] = max(self._time[rank] + task.gap, lit)
        parts = self._parts[task.instance]
        sending = (other for other, its in parts.items() if its.waits == "send")
        waits = {*waited_for(task.part, rank, sending)}
        if not waits <= ready.keys():
            return came
        self._time[rank] = max(ready[other] for other in waits) + task.part.took
        self._end = max(self._end, self._time[rank] + one.tails[task.iteration])
        self._at[rank] += 1
        if task.ends:
            self._left[rank, self._stages[rank]] = self._time[rank]
        return True


def _keep(kept: list[_Way], way: _Way) -> None:
    """Add a way to those that are kept, unless one beats it; drop those that it beats."""
    if not any(other.beats(way) for other in kept):
        kept[:] = [other for other in kept if not way.beats(other)]
        kept.append(way)
