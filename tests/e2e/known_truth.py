"""When things truly happened on a twin, whose hosts' clocks are known: the judge of all marks."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

from testbed.analysis.clocks import Clocks, Instant
from testbed.analysis.marks import MarkFinder
from testbed.analysis.steps import finished_steps, rank_count
from testbed.events import Event
from testbed.record.log import read_events
from testbed.schema import load_lab, split_overrides
from testbed.twin.layout import lay_out

_ROUNDING = 1e-7
"""Seconds; a clock that has shown days has no finer digits."""


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
        site = self._sites[event.data["host"]]
        kernel = mono / (1 + site.clock_drift / 1e9) - site.clock_offset / 1e9
        return Instant.exactly(kernel - self._began)


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
        for name, mark in marks.items():
            one = true_marks[name]
            story = (trial, name, mark, one)
            assert mark.early - _ROUNDING <= one.early and one.late <= mark.late + _ROUNDING, story
            if one.early == one.late and mark.early < mark.late:
                bounds.append((mark.late - mark.early) / 2)
    return statistics.median(bounds)


def _marks(events: list[Event], clocks: Clocks) -> dict[str, Instant]:
    steps = finished_steps(events, clocks, rank_count(events))
    return MarkFinder(events, clocks, steps).find().at
