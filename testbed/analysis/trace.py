"""What ranks, circuits and controllers did when, as rows of the Trace Event Format of Chrome.

A process of the trace is a host, with a thread for each rank; or the circuits of an owner, with a
thread for each; or the run, with what happened to all. Times are microseconds of the log, those of
hosts by the clocks that were measured, as in a profile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from testbed.analysis.clocks import Clocks
from testbed.analysis.rail_profile import (
    GroupNames,
    NoProfile,
    group_names,
    on_the_log,
    operations_of,
)
from testbed.analysis.rail_spans import KINDS as CIRCUITS
from testbed.analysis.rail_spans import CircuitSpan, CircuitSpans
from testbed.events import Event
from testbed.rails.profile import Operation, RankIteration

Row = dict[str, Any]

BEFOREHAND = ("host.ready", "clock.offset", "sample", "group.joined")
"""Kinds of the events that a log is read for before its rows can be made."""

_RANKS = ("step", "sample", "operations")
_FAULTS = (
    *("fault.inject", "fault.receipt", "fault.undo", "far-end.fault", "far-end.clear"),
    *("fabric.failed", "host.lost", "light.excess", "receiver.destroyed"),
)
_DECISIONS = (
    *("recovery.decided", "recovery.fenced", "recovery.failed", "membership"),
    *("collective.chosen", "stage.held", "stages.forwarded"),
)
_MARKS = {
    **dict.fromkeys(("trial.begin", "trial.end", "job.failed"), "trials"),
    **dict.fromkeys(_FAULTS, "faults"),
    **dict.fromkeys(_DECISIONS, "controllers"),
}
"""What is marked at an instant, with the thread that it is on."""

KINDS = (*_RANKS, *CIRCUITS, *_MARKS)
"""Kinds of the events that rows are made of."""

_Member = tuple[str, str, int]
"""A rank: its job, its host and its number."""


@dataclass(frozen=True)
class Background:
    """What is known of a log beforehand: its clocks, the names of its groups, who is on rails."""

    clocks: Clocks = field(default_factory=Clocks)
    names: dict[tuple[str, int | None], GroupNames] = field(default_factory=dict)
    """Of timed collectives in groups, by job and trial."""
    on_rails: set[str] = field(default_factory=set)
    """Jobs whose ranks wait for circuits."""


def background(events: Iterable[Event]) -> Background:
    """Return what is known of a log from its events of the kinds `BEFOREHAND`."""
    found = Background()
    groups = defaultdict[tuple[str, int | None], set[tuple[str, tuple[int, ...]]]](set)
    for event in events:
        if event.kind in ("host.ready", "clock.offset"):
            found.clocks.add(event)
        elif event.kind == "group.joined" or "reached" in event.data:
            found.on_rails.add(event.origin.job)
        if event.kind == "sample" and event.data.get("dimension"):
            members = event.data["dimension"], tuple(event.data["members"])
            groups[event.origin.job, event.trial].add(members)
    found.names.update({key: group_names(of) for key, of in groups.items()})
    return found


class Trace:
    """The rows of a run's trace, or of one of its trials."""

    def __init__(self, known: Background, trial: int | None = None) -> None:
        self._known, self._trial = known, trial
        self._places = _Places()
        self._circuits = CircuitSpans()
        self._lit_since: dict[tuple[int, int], float] = {}
        """Until when each thread of a circuit is filled."""
        self._ends: dict[_Member, tuple[float, Event]] = {}
        """When the last report of each rank ended, and which that was."""
        self._now = 0.0
        self.seen: set[str] = set()
        """What rows were made of: `ranks`, `circuits`, `faults` and so on."""
        self.unmeasured: set[str] = set()
        """Hosts whose ranks are left out, as their clocks were not measured."""

    def rows(self, events: Iterable[Event]) -> Iterator[Row]:
        """Yield the rows of a log's events; the names of processes and threads come last."""
        for event in events:
            self._now = max(self._now, event.t)
            if event.kind in CIRCUITS:
                yield from chain.from_iterable(map(self._circuit, self._circuits.add(event)))
            elif self._trial not in (None, event.trial):
                continue
            elif event.kind in _MARKS:
                yield self._mark(event)
            elif event.kind in _RANKS:
                yield from self._rank(event)
        yield from chain.from_iterable(map(self._circuit, self._circuits.rest()))
        yield from self._places.rows()

    def _rank(self, event: Event) -> Iterator[Row]:
        """Yield what a rank did in a step: it, and in it compute, waits and operations in turn."""
        job, said = event.origin.job, event.data
        member = job, said["host"], said["rank"]
        end, last = self._ends.get(member, (0.0, None))
        if last is not None and last.kind == "operations" and _are_of_one_step(last, event):
            return  # it has told of this step already, and in more detail
        names = self._known.names.get((job, event.trial), {})
        try:
            found = on_the_log(event, _operations(event, names), end, self._known.clocks)
            begin = self._begin(event, last, found)
        except NoProfile:
            self.unmeasured.add(said["host"])
            return
        self._ends[member] = found.end, event
        self.seen.add("ranks")
        place = self._places.of_rank(member)
        told = {"trial": event.trial, "generation": said["generation"]}
        told |= {name: said[name] for name in ("size", "iteration", "delayed") if name in said}
        yield _complete(f"step {said['step']}", "step", place, begin, found.end, told)
        at = begin
        for each in found.operations:
            yield from _gap("compute", "compute", place, at, each.begin)
            yield from self._operation(each, place, job)
            at = each.end
        yield from _gap("compute", "compute", place, at, found.end)

    def _begin(self, event: Event, last: Event | None, found: RankIteration) -> float:
        """Return when a step began; that of a timed collective where the one before it ended.

        There is no such collective before the first one of a size, before which others warm up.
        """
        first = [each.begin for each in found.operations[:1]]
        if event.kind != "sample":
            begin = Operation("", 0, (), *[event.data["begin"]] * 3)
            (placed,) = on_the_log(event, [begin], found.begin, self._known.clocks).operations
            return min([placed.begin, *first])
        is_next = last is not None and _follows(event, last)
        return found.begin if is_next else min([*first, found.end])

    def _operation(self, each: Operation, place: _Place, job: str) -> Iterator[Row]:
        lit = each.lit if job in self._known.on_rails else each.begin
        yield from _gap("waiting for circuits", "wait", place, each.begin, lit)
        told = {"bytes": each.bytes, "ranks": list(each.ranks), "waits": each.waits}
        name = f"{each.group} {each.number}"
        yield _complete(name, "communication", place, lit, each.end, told)

    def _circuit(self, span: CircuitSpan) -> Iterator[Row]:
        """Yield a circuit as it changes and as it is lit; one that stays, up to the log's end."""
        if self._trial not in (None, span.trial):
            return
        self.seen.add("circuits")
        owner = span.owner.rpartition(".")[0] if span.rail else span.owner
        place = self._places.of_circuit(owner, span.circuit)
        until = self._now if span.removed is None else span.removed
        begin = max(span.commanded, self._lit_since.get(place, 0.0))
        until = self._lit_since[place] = max(begin, until)
        good = span.steady if span.lit is None else span.lit
        lit = until if good is None else max(begin, min(good, until))
        told: Row = {"owner": span.owner, "trial": span.trial}
        times = {"commanded": span.commanded, "steady": span.steady, "lit": span.lit}
        told |= {name: _microseconds(t) for name, t in times.items() if t is not None}
        name = span.group or span.owner or "circuit"
        yield _complete(f"{name}, dark", "change", place, begin, lit, told)
        yield from _gap(name, "circuit", place, lit, until)

    def _mark(self, event: Event) -> Row:
        thread = _MARKS[event.kind]
        self.seen.add(thread)
        pid, tid = self._places.of_run(thread)
        name = " ".join(filter(None, (event.kind, event.data.get("fault"), event.subject)))
        told = {"trial": event.trial, "job": event.origin.job, **event.data}
        at = _microseconds(float(event.data.get("sent") or event.t))
        scope = "t" if thread == "controllers" else "g"
        row = {"name": name, "cat": thread, "ph": "i", "s": scope, "ts": at}
        return row | {"pid": pid, "tid": tid, "args": told}


_Place = tuple[int, int]
"""A process and a thread of the trace, by their numbers."""


class _Places:
    """The processes and threads of a trace, numbered as they come up."""

    def __init__(self) -> None:
        self._processes: dict[tuple[int, str, str], int] = {}
        """By what they are: the run, a host or the circuits of an owner."""
        self._threads: dict[_Place, str] = {}
        self._of_circuits: dict[tuple[int, str], _Place] = {}

    def of_run(self, thread: str) -> _Place:
        """Return where what happened to all is shown."""
        number = ("trials", "faults", "controllers").index(thread)
        return self._thread(self._process(0, "", "run"), number, thread)

    def of_rank(self, member: _Member) -> _Place:
        """Return where a rank is shown: its number there is that of the rank."""
        job, host, rank = member
        return self._thread(self._process(1, job, host), rank, f"rank {rank}")

    def of_circuit(self, owner: str, circuit: str) -> _Place:
        """Return where a circuit is shown: among those of its owner, or of its job on a rail."""
        pid = self._process(2, "", f"circuits of {owner}" if owner else "circuits")
        key = pid, circuit
        if key not in self._of_circuits:
            number = sum(process == pid for process, _ in self._of_circuits)
            self._of_circuits[key] = self._thread(pid, number, circuit)
        return self._of_circuits[key]

    def _process(self, *key: Any) -> int:
        return self._processes.setdefault(key, 1 + len(self._processes))

    def _thread(self, pid: int, tid: int, name: str) -> _Place:
        self._threads[pid, tid] = name
        return pid, tid

    def rows(self) -> Iterator[Row]:
        """Yield the names of all, and the order of the processes: run, hosts, circuits."""
        several = len({job for sort, job, _ in self._processes if sort == 1}) > 1
        for place, key in enumerate(sorted(self._processes)):
            pid, (sort, job, name) = self._processes[key], key
            shown = f"{name} ({job})" if sort == 1 and several else name
            yield _named("process_name", pid, 0, name=shown)
            yield _named("process_sort_index", pid, 0, sort_index=place)
        for (pid, tid), name in self._threads.items():
            yield _named("thread_name", pid, tid, name=name)
            yield _named("thread_sort_index", pid, tid, sort_index=tid)


def _operations(event: Event, names: GroupNames) -> list[Operation]:
    """Return what a rank communicated in a step, with its own stamps; what sums is its name."""
    said = event.data
    if event.kind == "operations" or said.get("dimension"):
        return list(operations_of(event, names))
    name = said.get("algorithm") or said.get("operation") or "all_reduce"
    begin, end = said.get("collective") or (said["begin"], said["end"])
    return [Operation(name, said["step"], (), begin, begin, end, said.get("bytes") or 0)]


def _are_of_one_step(one: Event, other: Event) -> bool:
    same = all(one.data[name] == other.data[name] for name in ("generation", "step"))
    return same and one.trial == other.trial


def _follows(sample: Event, last: Event) -> bool:
    """Return whether a timed collective came right after another of its size, computing apart."""
    now, before = sample.data, last.data
    same = all(now[name] == before.get(name) for name in ("generation", "size"))
    is_next = now["step"] == before["step"] + 1 and sample.trial == last.trial
    return same and is_next and not now.get("changes")


def _gap(name: str, sort: str, place: _Place, begin: float, end: float) -> Iterator[Row]:
    """Yield what fills the time between two instants, if there is any."""
    if _microseconds(end) > _microseconds(begin):
        yield _complete(name, sort, place, begin, end, {})


def _complete(name: str, sort: str, place: _Place, begin: float, end: float, told: Row) -> Row:
    at = _microseconds(begin)
    took = round(_microseconds(end) - at, 3)
    row: Row = {"name": name, "cat": sort, "ph": "X", "ts": at, "dur": took}
    return row | {"pid": place[0], "tid": place[1], "args": told}


def _named(what: str, pid: int, tid: int, **told: Any) -> Row:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": told}


def _microseconds(t: float) -> float:
    """Return an instant in microseconds, to the nanosecond, so that what meets meets exactly."""
    return round(t * 1e6, 3)
