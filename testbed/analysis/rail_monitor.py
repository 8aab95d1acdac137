"""Look through an event log for circuits of rails that went while ranks had traffic on them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from testbed.analysis.clocks import Clocks
from testbed.analysis.rail_spans import job_rail_and_group
from testbed.analysis.rail_traffic import RailTraffic, Ranks, Span
from testbed.events import Event

CONTROLLER = "rails"
"""The kind of the controller whose changes are looked at: others answer for theirs, as for the
circuits of a host that is gone, or of a trial that has ended."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A circuit that is certain to have gone while a rank at one end had traffic on it."""

    circuit: str
    at: float
    """When the switch was commanded, in seconds of the log."""
    change: int
    """The number of the event of the change."""
    sample: int
    """The number of the event of the collective, of the step that it is of, or of the end of the
    stage."""
    ranks: tuple[int, ...]
    """Of the group, those at the circuit's ends."""
    what: str
    """What they were in."""

    def __str__(self) -> str:
        ranks = " and ".join(map(str, self.ranks))
        return (
            f"circuit {self.circuit} went at {self.at:.6f} s (event {self.change}) while ranks "
            f"{ranks} were in {self.what} (event {self.sample})"
        )


@dataclass(frozen=True, slots=True)
class Monitored:
    """What was found, and in how much, in a trial or in a whole log."""

    found: tuple[Removal, ...]
    removed: int
    """How many circuits went."""
    not_judged: tuple[str, ...]
    """Of each of them whose ranks' traffic is not known, why that is so."""
    collectives: int
    """How many parts that ranks had in collectives."""
    stages: int
    """How many parts that ranks had in stages."""


def monitor(events: Iterable[Event]) -> Monitored:
    """Return the circuits that were removed under traffic in a whole log."""
    clocks = Clocks()
    rails = RailMonitor(clocks)
    for event in events:
        clocks.add(event)
        rails.add(event)
    return rails.judge()


def watched(
    events: Iterable[Event], clocks: Clocks, found: dict[int, Monitored]
) -> Iterator[Event]:
    """Yield all events, and add to `found`, by trial, what controllers of rails did in it.

    What no trial has is of the first one, or of the one before it. When the events are over,
    `found` is complete.
    """
    rails, trial = RailMonitor(clocks), None
    for event in events:
        if event.trial is not None and event.trial != trial:
            if trial is not None and rails.is_needed:
                found[trial] = rails.judge()
            trial = event.trial
        rails.add(event)
        yield event
    if trial is not None and rails.is_needed:
        found[trial] = rails.judge()


class RailMonitor:
    """Takes the events of a run in the order of the log; `judge` tells what is new since.

    Traffic counts from the latest instant at which it can have begun to the earliest at which it
    can have ended, so what clocks leave open is no finding. Only collectives in groups and stages
    say who communicates with whom, and lit stages on which rail: some are forwarded over others.
    A rank's traffic is on circuits that lead from its own ports then:
    others of its group may be done, and their circuits gone, while it is not. Whose ports they are
    is known from the rails that their circuits were made for. Where that is not told, the ranks of
    a host share its ports evenly, or all of them where that cannot be.
    """

    def __init__(self, clocks: Clocks) -> None:
        """Take clocks that are measured when `judge` is called."""
        self._clocks = clocks
        self._traffic = RailTraffic()
        self._ports: dict[str, list[str]] = {}
        self._rails: dict[str, tuple[str, int]] = {}
        """By port the job and the rail that its last circuit was made for."""
        self._lit = frozenset[str]()
        self._gone: list[tuple[Event, str]] = []
        self.is_needed = False
        """A controller of rails has changed circuits since the last judgement."""

    def add(self, event: Event) -> None:
        """Take the next event of the log, whatever it says."""
        if event.kind in RailTraffic.KINDS:
            self._traffic.add(event)
        elif event.kind == "host.ready":
            self._ports[event.subject] = list(event.data.get("hardware", ()))
        elif event.kind == "fabric.change":
            now = frozenset(map(str, event.data.get("circuits", ())))
            if event.origin.controller.partition(" of ")[0] == CONTROLLER:
                self._gone += [(event, circuit) for circuit in sorted(self._lit - now)]
                self.is_needed = True
                self._take_ports(event.origin.owner, now - self._lit)
            self._lit = now

    def _take_ports(self, owner: str, made: Iterable[str]) -> None:
        job, rail, _ = job_rail_and_group(owner)
        number = rail.removeprefix("rail")
        if number.isdecimal():
            ports = (port for circuit in made for port in circuit.split("–"))
            self._rails |= dict.fromkeys(ports, (job, int(number)))

    def judge(self) -> Monitored:
        """Return what was removed since the last time, and what of that was under traffic."""
        gone, self._gone, self.is_needed = self._gone, [], False
        spans = self._traffic.take(self._clocks)
        running_at = _running(spans)
        users = _Users(self._traffic.hosts, self._ports, self._rails)
        known = _Known(spans, users)
        found: dict[tuple[int, str], Removal] = {}
        unknown = []
        for change, circuit in gone:
            if why := known.why_not(circuit):
                unknown.append(f"{circuit} at {change.data['commanded']:.6f} s: {why}")
            for removal in _under_traffic(change, circuit, running_at, users):
                found.setdefault((change.seq, circuit), removal)
        stages = sum(span.event.kind.startswith("stage.") for span in spans)
        return Monitored(
            tuple(found.values()), len(gone), tuple(unknown), len(spans) - stages, stages
        )


class _Users:
    """Which ranks use a fabric port, given as `host.port`."""

    def __init__(
        self,
        hosts: Mapping[Ranks, Mapping[int, str]],
        ports: Mapping[str, Sequence[str]],
        rails: Mapping[str, tuple[str, int]],
    ) -> None:
        self._hosts, self._ports, self._rails = hosts, ports, rails
        self._found: dict[tuple[Ranks, str], frozenset[int]] = {}

    def of(self, ranks: Ranks, port: str) -> frozenset[int]:
        """Return whose port it is."""
        key = ranks, port
        if key not in self._found:
            self._found[key] = self._owners(ranks, port)
        return self._found[key]

    def during(self, span: Span, port: str) -> frozenset[int]:
        """Return who of those in a span has its traffic there.

        Where it is told whose circuits they used, these are all on the port's host, by way of
        whoever has the port: they may be forwarded over another rail than their own.
        """
        if not span.rail or port not in self._rails:
            return self.of(span.ranks, port).intersection(span.members)
        job, number = self._rails[port]
        if span.ranks[0] not in ("", job) or span.rail != f"rail{number}":
            return frozenset()
        host, own = port.partition(".")[0], self._hosts[span.ranks]
        return frozenset(rank for rank in span.members if own.get(rank) == host)

    def _owners(self, of: Ranks, port: str) -> frozenset[int]:
        host, _, own = port.partition(".")
        ranks = sorted(rank for rank, its in self._hosts[of].items() if its == host)
        if port in self._rails:
            job, number = self._rails[port]
            return frozenset(ranks[number : number + 1] if of[0] in ("", job) else ())
        each, left = divmod(len(self._ports.get(host, ())), len(ranks) or 1)
        if not ranks or not each or left or own not in self._ports[host]:
            return frozenset(ranks)
        return frozenset([ranks[self._ports[host].index(own) // each]])


class _Known:
    """Whose traffic is known, of the ranks that use a port."""

    def __init__(self, spans: Iterable[Span], users: _Users) -> None:
        self._users = users
        self._told: defaultdict[str, set[tuple[Ranks, int, bool]]] = defaultdict(set)
        for span in spans:
            said = span.event.data
            self._told[said["host"]].add((span.ranks, said["rank"], span.is_measured))
        self._why: dict[str, str] = {}

    def why_not(self, circuit: str) -> str:
        """Return why a removal of a circuit cannot be judged; empty where it can."""
        each = (self._why_not(end) for end in circuit.split("–"))
        return next(filter(None, each), "")

    def _why_not(self, port: str) -> str:
        if port not in self._why:
            host = port.partition(".")[0]
            told = self._told[host]
            mine = {
                is_measured for of, rank, is_measured in told if rank in self._users.of(of, port)
            }
            if not mine:
                self._why[port] = f"no rank at {port} told of a stage or a collective"
            else:
                self._why[port] = "" if True in mine else f"the clock of {host} was not measured"
        return self._why[port]


def _running(spans: Iterable[Span]) -> Callable[[float], Iterator[Span]]:
    """Return a function that yields the spans that were under way for certain at an instant.

    A run has tens of thousands of both, so none is compared with all of the other.
    """
    by_begin = sorted(spans, key=lambda span: span.begin)
    begins = [span.begin for span in by_begin]
    longest = list(accumulate((span.end for span in by_begin), max))

    def running_at(at: float) -> Iterator[Span]:
        first, last = bisect_left(longest, at), bisect_right(begins, at)
        return (span for span in by_begin[first:last] if span.end >= at)

    return running_at


def _under_traffic(
    change: Event, circuit: str, running_at: Callable[[float], Iterator[Span]], users: _Users
) -> Iterator[Removal]:
    at, ends = change.data["commanded"], circuit.split("–")
    for span in running_at(at):
        rank = span.event.data["rank"]
        for own, other in (ends, ends[::-1]):
            peers = users.during(span, other) - {rank}
            if peers and rank in users.during(span, own):
                ranks = tuple(sorted({rank, *peers}))
                yield Removal(circuit, at, change.seq, span.event.seq, ranks, span.what)


@dataclass(frozen=True, slots=True)
class RemovedCircuits:
    """What came of all circuits that controllers of rails removed in a run, by trial."""

    of_trials: dict[int, Monitored] = field(default_factory=dict)

    @property
    def looked_at(self) -> int:
        """Return how many went whose ranks' traffic is known."""
        return sum(each.removed - len(each.not_judged) for each in self.of_trials.values())

    @property
    def not_judged(self) -> int:
        """Return how many went of which it is not known whether they had traffic."""
        return sum(len(each.not_judged) for each in self.of_trials.values())

    @property
    def found(self) -> list[str]:
        """Return those that had traffic, each in a sentence."""
        return [
            f"trial {trial}: {removal}"
            for trial, each in self.of_trials.items()
            for removal in each.found
        ]

    @property
    def gaps(self) -> list[str]:
        """Return of each trial with some that could not be judged how many, and why the first."""
        return [
            f"trial {trial}: {len(each.not_judged)} of {each.removed} circuits that were removed "
            f"cannot be judged, the first {each.not_judged[0]}"
            for trial, each in self.of_trials.items()
            if each.not_judged
        ]

    def to_json(self) -> dict[str, Any] | None:
        """Return it in the format of `summary.json`: null where no controller changed rails."""
        if not self.of_trials:
            return None
        numbers = {"looked_at": self.looked_at, "under_traffic": len(self.found)}
        return {
            **numbers,
            "not_judged": self.not_judged,
            "found": self.found,
            "gaps": self.gaps,
        }

    def __str__(self) -> str:
        total = self.looked_at + self.not_judged
        judged = f"{self.looked_at} of {total} circuits that rails removed were looked at"
        return f"{judged}, {len(self.found) or 'none'} of them had traffic"
