"""When ranks on rails had traffic for certain: in collectives, and in stages that were lit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from testbed.analysis.clocks import Clocks
from testbed.events import Event

Ranks = tuple[str, int]
"""A job and a generation of its ranks: in each, a rank is on one host."""


class Span(NamedTuple):
    """A time in which a rank had traffic with others of its group, as events tell it."""

    event: Event
    """What tells of its end, by the rank itself."""
    what: str
    ranks: Ranks
    members: tuple[int, ...]
    """The ranks that communicated with each other."""
    begin: float
    """Since when it had for certain, in seconds of the log; after `end` where that is not known."""
    end: float
    """Until when at the earliest."""
    is_measured: bool
    """The clock of its host was."""
    rail: str = ""
    """Whose circuits it used; empty where that is not told."""


class _Told(NamedTuple):
    """A span in time stamps of the rank's host."""

    event: Event
    what: str
    members: tuple[int, ...]
    first: Event
    """What has the stamp of the begin."""
    begin: float
    end: float
    since: float = float("-inf")
    """When the circuits were lit, in seconds of the log."""
    rail: str = ""


class RailTraffic:
    """Takes the events of a run in the order of the log, and gives the spans that they tell of.

    A collective is in an event `sample` or `operations`. A stage, all that a script tells, is a
    rank's from when it had reached it and its circuits were lit until it left it, or reached the
    next: operations of a script may overlap, and a rank that reaches a stage uses none before.
    """

    KINDS = ("sample", "operations", "group.joined", "stage.reached", "stage.left", "stage.lit")

    def __init__(self) -> None:
        self.hosts: defaultdict[Ranks, dict[int, str]] = defaultdict(dict)
        """The host of each rank."""
        self._told: list[_Told] = []
        self._generations: dict[str, int] = {}
        self._lit: dict[tuple[str, str, tuple[int, ...]], tuple[int, float, str]] = {}
        """Of each job, group and ranks of it, the last stage that was lit, when, and its rail. The
        job is empty where only one has rails."""
        self._reached: dict[tuple[str, int], Event] = {}
        """By job and rank, the stage that it is in."""

    def add(self, event: Event) -> None:
        """Take an event of one of `KINDS`."""
        said = event.data
        if event.kind == "stage.lit":
            group, number, ranks, *_ = said["stage"]
            _, _, job = event.origin.controller.partition(" of ")
            self._lit[job, group, tuple(ranks)] = number, event.t, said.get("rail", "")
        elif event.kind == "operations":
            self._place(event)
            for group, number, _, ranks, _, lit, end, *_ in said["operations"]:
                what, rail = f"collective {number} of {group}", self._rail(event, group, ranks)
                self._told.append(_Told(event, what, tuple(ranks), event, lit, end, rail=rail))
        elif event.kind != "sample":
            self._stage(event)
        elif said.get("dimension"):
            self._place(event)
            what, members = f"a collective along {said['dimension']}", tuple(said["members"])
            whole = [(members, said["begin"], said["end"])]
            pairs = [
                ((said["rank"], other), begin, end)
                for other, _, _, begin, end, _ in said.get("matchings", ())
            ]
            for ranks, begin, end in pairs or whole:
                rail = self._rail(event, said["dimension"], ranks)
                self._told.append(_Told(event, what, ranks, event, begin, end, rail=rail))

    def _rail(self, event: Event, named: str, ranks: Sequence[int]) -> str:
        """Return on which rail the last stage of ranks was lit, in a group of a name or dimension.

        Ranks say what they did in a stage before they reach the next.
        """
        for (job, group, of), (_, _, rail) in self._lit.items():
            if of == tuple(ranks) and job in ("", event.origin.job) and group.startswith(named):
                return rail
        return ""

    def take(self, clocks: Clocks) -> list[Span]:
        """Return the spans that ended since the last time."""
        told, self._told = self._told, []
        return [_span(each, clocks) for each in told]

    def _place(self, event: Event) -> None:
        self.hosts[_ranks(event)][event.data["rank"]] = event.data["host"]

    def _stage(self, event: Event) -> None:
        self._place(event)
        job, generation = _ranks(event)
        if self._generations.setdefault(job, generation) != generation:
            self._forget(job)
            self._generations[job] = generation
        who = job, event.data["rank"]
        reached = self._reached.pop(who, None)
        if reached is not None:
            self._end(reached, event)
        if event.kind == "stage.reached":
            self._reached[who] = event

    def _forget(self, job: str) -> None:
        """Begin anew: in each generation the stages of a group are numbered from 0 on."""
        self._lit = {key: lit for key, lit in self._lit.items() if key[0] not in ("", job)}
        self._reached = {who: event for who, event in self._reached.items() if who[0] != job}

    def _end(self, reached: Event, event: Event) -> None:
        group, number, ranks, *_ = reached.data["stage"]
        key = event.origin.job, group, tuple(ranks)
        last, lit, rail = self._lit.get(key) or self._lit.get(("", *key[1:])) or (None, 0.0, "")
        if last == number:
            begin, end = reached.data["mono"], event.data["mono"]
            what = f"stage {number} of {group}"
            self._told.append(_Told(event, what, tuple(ranks), reached, begin, end, lit, rail))


def _ranks(event: Event) -> Ranks:
    return event.origin.job, int(event.data["generation"])


def _span(told: _Told, clocks: Clocks) -> Span:
    first = clocks.instant(told.first, told.begin)
    last = clocks.instant(told.event, told.end)
    about = told.event, told.what, _ranks(told.event), told.members
    if first is None or last is None:
        return Span(*about, float("inf"), float("-inf"), False)
    return Span(*about, max(first.late, told.since), last.early, True, told.rail)
