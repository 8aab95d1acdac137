"""When things truly happened on a twin, whose hosts' clocks are known: the judge of all marks."""

from __future__ import annotations

import json
import statistics
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from testbed.analysis.clocks import Clocks, Instant, Instants
from testbed.analysis.marks import BACK, WINDOW, MarkFinder
from testbed.analysis.step_reports import StepReports
from testbed.analysis.steps import KINDS, Step
from testbed.events import Event
from testbed.record.log import read_events
from testbed.schema import load_lab, split_overrides
from testbed.twin.layout import lay_out

_ROUNDING = 1e-7
"""Seconds; a clock that has shown days has no finer digits."""

if TYPE_CHECKING:
    from testbed.analysis.clocks import Floats

Stamps = TypeVar("Stamps", float, "Floats")


class TrueClocks(Clocks):
    """Every host's clock as the twin set it: so far ahead of the kernel's, gaining so much.

    Nothing that the run has measured is looked at, but the kernel's clock when its log began.
    """

    def __init__(self, run: Path, began: float) -> None:
        super().__init__()
        _, of_lab = split_overrides(json.loads((run / "run.json").read_text())["overrides"])
        self._sites = lay_out(load_lab(run / "lab.yaml", of_lab)).hosts
        self._began = began

    def instant(self, event: Event, mono: float) -> Instant:
        return Instant.exactly(self._true(event.data["host"], mono))

    def instants(self, host: str, reported: Floats, stamps: Floats) -> Instants:
        true = self._true(host, stamps)
        return Instants(true, true, true)

    def _true(self, host: str, mono: Stamps) -> Stamps:
        site = self._sites[host]
        kernel = mono / (1 + site.clock_drift / 1e9) - site.clock_offset / 1e9
        return kernel - self._began


def assert_marks_hold(run: Path) -> float:
    """Hold all marks of a run, and all stamps of its hosts, against the truth.

    Return the median bound of the marks that hosts have stamped, in seconds.
    """
    events = list(read_events(run / "events.jsonl"))
    measured, true = Clocks(events), TrueClocks(run, events[0].data["clock"])
    for event in events:
        if "host" in event.data and isinstance(event.data.get("mono"), float):
            found = measured.instant(event, event.data["mono"])
            truly = true.instant(event, event.data["mono"]).middle
            if found is not None:
                assert found.early - _ROUNDING <= truly <= found.late + _ROUNDING, event
    bounds = []
    for trial in sorted({event.trial for event in events if event.trial is not None}):
        mine = [event for event in events if event.trial == trial]
        marks, true_marks = _marks(mine, measured), _marks(mine, true)
        assert marks.keys() == true_marks.keys()
        if "t11" in marks:
            true_marks["t11"] = _true_end(mine, measured, true, marks)
        for name, mark in marks.items():
            one = true_marks[name]
            story = (trial, name, mark, one)
            assert mark.early - _ROUNDING <= one.early and one.late <= mark.late + _ROUNDING, story
            if one.early == one.late and mark.early < mark.late:
                bounds.append((mark.late - mark.early) / 2)
    return statistics.median(bounds)


def _marks(events: list[Event], clocks: Clocks) -> dict[str, Instant]:
    return MarkFinder(events, clocks, _steps(events, clocks)).find().at


def _steps(events: list[Event], clocks: Clocks) -> list[Step]:
    reports = StepReports(event for event in events if event.kind in KINDS)
    return reports.finished(clocks, reports.ranks)


def _true_end(
    events: list[Event], measured: Clocks, true: Clocks, marks: dict[str, Instant]
) -> Instant:
    """Return when the step that t11 names truly ended.

    Measured times decide which step that is, so by true times a tie may end otherwise. That it is
    the first of five that are fast again is computed anew, from measured times that are all held
    against the truth besides.
    """
    steps = _steps(events, measured)
    before = [step.end.middle for step in steps if step.end.late < marks["t0"].early]
    usual = statistics.median(later - one for one, later in pairwise(before))
    back = next(i for i, step in enumerate(steps) if step.end == marks["t10"])
    first = next(
        i
        for i in range(back, len(steps) - WINDOW)
        if steps[i + WINDOW].end.middle - steps[i].end.middle <= usual * WINDOW / BACK
    )
    named = steps[first + 1]
    assert marks["t11"] == named.end
    same = [
        s
        for s in _steps(events, true)
        if (s.generation, s.number) == (named.generation, named.number)
    ]
    return same[0].end
