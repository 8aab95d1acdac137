"""Replay a workload with any delay of the switch: what an iteration takes then.

The replay keeps what each rank computes, how long each operation takes from when it can go on, and
who waits for whom; requests, changes and answers follow the rules of the rails themselves. The
iterations are repeated, and the time of the last repetition counts: circuits at its beginning are
those that the one before it left.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from testbed.fabric.circuits import HostPort
from testbed.rails.choice import TRIED
from testbed.rails.forwarding import Costs, Routes, costs, forwarded, routes, sharers
from testbed.rails.rail import Rail, RailState
from testbed.rails.rail_replay import Change, RailReplay, Rails
from testbed.rails.requests import Mode, RailRequests, Requests
from testbed.rails.stage import Stage
from testbed.rails.tasks import Program, Task, programs
from testbed.rails.workload import Instance, Part, Workload, waited_for

REPEATS = 3
"""How often the iterations are run, at least."""

LEARNED = 2 * TRIED + 1
"""Iterations before the last repetition in which `learned` has found out what is quicker."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A task in a replay: when its rank came to it, went on, and ended it."""

    rank: int
    task: Task
    begin: float
    lit: float
    end: float


@dataclass(frozen=True, slots=True)
class Replayed:
    """The outcome of a replay: the mean time of an iteration in the last repetition."""

    iteration: float
    changes: tuple[Change, ...]
    """Of the last repetition."""
    ran: tuple[Ran, ...]
    """Of all repetitions."""
    took: float
    """Seconds of all repetitions."""
    earlier: tuple[Change, ...] = ()
    """The changes of the repetitions before the last."""


def replay(workload: Workload, rails: Rails, repeats: int | None = None) -> Replayed:
    """Return the course of a workload's iterations on rails."""
    if (found := forwarding(workload, rails)) is not None and found.is_cheaper:
        workload = forwarded(workload, found.routes)
    return _Replay(workload, rails, repeats or _repeats(workload, rails.mode)).run()


@dataclass(frozen=True, slots=True)
class Forwarding:
    """How groups can be forwarded over other rails, and what that costs beside re-pointing."""

    routes: Routes
    costs: Costs
    """Of an iteration."""

    @property
    def is_cheaper(self) -> bool:
        """Tell whether it is done."""
        return self.costs.favour_forwarding(is_forwarding=False)


def forwarding(workload: Workload, rails: Rails) -> Forwarding | None:
    """Return how the groups of a workload can be forwarded; None where they cannot or may not."""
    found = routes(workload.groups, workload.hosts) if _may_forward(rails) else None
    if found is None:
        return None
    windows = _Replay(workload, Rails(ports=rails.ports), REPEATS).run().changes
    sharing = sharers(found, workload.groups, workload.hosts)
    traffic = [
        ((rank,), part.took, sharing[part.group])
        for ranks in workload.iterations
        for rank, own in enumerate(ranks)
        for part in own.parts
        if part.group in found
    ]
    change, each = rails.delay + workload.control.change, len(workload.iterations)
    whole = costs([(one.stage.ranks, one.window) for one in windows], change, traffic)
    return Forwarding(found, Costs(whole.repointing / each, whole.forwarding / each))


def _may_forward(rails: Rails) -> bool:
    return rails.forward and rails.mode == "learned"


def _repeats(workload: Workload, mode: Mode) -> int:
    """Return how often iterations are run; in the last repetition `learned` tries nothing."""
    first = -(-LEARNED // len(workload.iterations)) if mode == "learned" else 0
    return max(REPEATS, first + 1)


@dataclass(slots=True)
class _RankRun:
    """A rank: what it does, how far it is, and the stage that it waits for."""

    program: Program
    at: int = 0
    answered: set[Stage] = field(default_factory=set)
    blocked: Stage | None = None
    arrived: float = 0.0

    @property
    def task(self) -> Task:
        """Return what it is at."""
        return self.program.tasks[self.at]


@dataclass(slots=True)
class _Meeting:
    """An operation as far as its ranks have come."""

    parts: dict[int, Part] = field(default_factory=dict)
    ready: dict[int, float] = field(default_factory=dict)
    ending: set[int] = field(default_factory=set)

    def can_end(self, rank: int) -> float | None:
        """Return from when on a rank's part has all that it waits for; None where it has not."""
        part = self.parts[rank]
        if part.waits == "all":
            is_complete = len(self.ready) == len(part.ranks)
            return max(self.ready.values()) if is_complete else None
        sending = (other for other, its in self.parts.items() if its.waits == "send")
        waits = {*waited_for(part, rank, sending)}
        if not waits <= self.ready.keys() or (part.waits == "receive" and len(waits) == 1):
            return None
        return max(self.ready[each] for each in waits)


class _Replay:
    """The event queue of a replay, with its ranks and rails."""

    def __init__(self, workload: Workload, rails: Rails, repeats: int) -> None:
        self._workload, self._rails, self._repeats = workload, rails, repeats
        self._queue: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()
        self._now = 0.0
        self._ranks = [_RankRun(each) for each in programs(workload, repeats)]
        self._meetings: defaultdict[Instance, _Meeting] = defaultdict(_Meeting)
        self._ran: list[Ran] = []
        self._ends: defaultdict[int, float] = defaultdict(float)
        """When the last rank ended each iteration."""
        names = {group.rail for group in workload.groups.values() if group.rail is not None}
        self._by_rail = {name: self._rail(name) for name in sorted(names)}

    def _rail(self, name: str) -> RailReplay:
        groups = {n: g.ranks for n, g in self._workload.groups.items() if g.rail == name}
        joined = {group: frozenset(ranks) for group, ranks in groups.items()}
        each = range(self._rails.ports)
        ports = [
            tuple(HostPort(f"r{rank}", f"p{port}") for port in each)
            for rank in range(self._workload.ranks)
        ]
        requests = RailRequests(Rail(ports, groups), self._rails.mode)
        state, control = Requests(RailState(joined=joined)), self._workload.control
        return RailReplay(name, requests, state, self._rails, control, self._at, self._answer)

    def run(self) -> Replayed:
        """Return what came of it."""
        for rank in range(len(self._ranks)):
            self._advance(rank)
        while self._queue:
            self._now, _, act = heapq.heappop(self._queue)
            act(self._now)
        for rank, one in enumerate(self._ranks):
            if one.at < len(one.program.tasks):
                group, number = one.task.instance
                raise ValueError(f"rank {rank} waits for ever at {group} {number}")
        each = len(self._workload.iterations)
        last = each * (self._repeats - 1)
        took = max(self._ends.values(), default=0.0)
        changes = [change for rail in self._by_rail.values() for change in rail.changes()]
        of_last = tuple(change for change in changes if change.iteration >= last)
        earlier = tuple(change for change in changes if change.iteration < last)
        before = self._ends[last - 1] if last else 0.0
        return Replayed((took - before) / each, of_last, tuple(self._ran), took, earlier)

    def _at(self, when: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self._queue, (when, next(self._order), act))

    def _advance(self, rank: int) -> None:
        """Have a rank compute until its next task."""
        one = self._ranks[rank]
        if one.at < len(one.program.tasks):
            self._at(self._now + one.task.gap, lambda now: self._arrive(rank))

    def _arrive(self, rank: int) -> None:
        one = self._ranks[rank]
        one.arrived, stage = self._now, one.task.begins
        if stage is None:
            self._begin(rank)
            return
        is_answered = stage in one.answered
        one.blocked = None if is_answered else stage
        self._of(one.task.part.group).reach(self._now, rank, stage, one.task.iteration)
        if is_answered:
            self._begin(rank)

    def _answer(self, stage: Stage) -> None:
        """Tell the ranks of a stage that its circuits are lit."""
        for rank in stage.ranks:
            one = self._ranks[rank]
            one.answered.add(stage)
            if one.blocked == stage:
                one.blocked = None
                self._begin(rank)

    def _begin(self, rank: int) -> None:
        """Have a rank take part in its operation, which may be all that others waited for."""
        task = self._ranks[rank].task
        meeting = self._meetings[task.instance]
        meeting.parts[rank], meeting.ready[rank] = task.part, self._now
        for other in meeting.ready.keys() - meeting.ending:
            start = meeting.can_end(other)
            if start is not None:
                meeting.ending.add(other)
                took = self._ranks[other].task.part.took
                self._at(start + took, partial(self._end, other, meeting.ready[other]))

    def _end(self, rank: int, lit: float, now: float) -> None:
        one = self._ranks[rank]
        task = one.task
        self._ran.append(Ran(rank, task, one.arrived, lit, now))
        end = now + one.program.tails[task.iteration]
        self._ends[task.iteration] = max(self._ends[task.iteration], end)
        one.at += 1
        if task.ends:
            mine, following = self._of(task.part.group), task.following
            here = following is None or self._of(following.group) is mine
            mine.leave(now, rank, following if here else None)
            if following is not None and not here:
                self._of(following.group).expect(now, rank, following)
        self._advance(rank)

    def _of(self, group: str) -> RailReplay:
        rail = self._workload.groups[group].rail
        assert rail is not None, "only operations on a rail begin and end stages"
        return self._by_rail[rail]
