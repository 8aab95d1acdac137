"""A run in progress as a small picture for a terminal."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import groupby

from rich.console import Group
from rich.panel import Panel
from rich.text import Text

from testbed.analysis.marks import NAMES
from testbed.report.progress import Line, Progress, Tone
from testbed.report.wording import size

STYLES: dict[Tone, str] = {
    "plain": "",
    "fault": "bold white on red",
    "good": "green",
    "bad": "bold red",
}

_CELL = 0.2
"""Seconds of the step rate that one character shows; a recovery within 1 s is then still seen."""

_HEIGHTS = " ▁▂▃▄▅▆▇█"
_EDGES = 4
"""Columns of the panel's border and padding."""

_BESIDE = 14
"""Columns beside the step rate's picture: its label and the last value."""


def picture(progress: Progress, lines: Sequence[Line], elapsed: float, width: int) -> Panel:
    """Return the picture of a run at `elapsed` seconds, with the latest lines below it."""
    inside = max(8, width - _EDGES)
    rows = [_where(progress), _rate(progress, elapsed, inside)]
    rows += [_circuits(progress), _recovery(progress)]
    rows += [Text(f"{line.t:6.1f} s  {line.text}", STYLES[line.tone]) for line in lines]
    for row in rows:
        row.truncate(inside, overflow="ellipsis", pad=False)
    plan = progress.plan
    title = f"{plan.experiment} on {plan.lab}"
    return Panel(
        Group(*rows),
        title=Text(f"{title}, {elapsed:.0f} s"),
        title_align="left",
        width=width,
        border_style="red" if progress.is_disturbed else "dim",
    )


def rates(ends: Sequence[float], until: float, cells: int) -> list[float]:
    """Return the step rate in each of the last `cells` character cells up to `until`.

    The rate of a cell is 1 over the time between the two steps around its middle; after the last
    step it is at most 1 over the time since then.
    """
    found = []
    for cell in range(cells):
        middle = until - (cells - cell - 0.5) * _CELL
        after = bisect_left(ends, middle)
        if not ends or after == 0:
            found.append(0.0)
        elif after < len(ends):
            found.append(1 / max(ends[after] - ends[after - 1], 1e-6))
        else:
            last = ends[-1] - ends[-2] if len(ends) > 1 else until - ends[-1]
            found.append(1 / max(until - ends[-1], last, 1e-6))
    return found


def _where(progress: Progress) -> Text:
    text = Text().append(progress.phase or "starting", "bold")
    trial = progress.trial
    if trial is None:
        return text
    text.append(f"  {progress.number}  {progress.arm_names[trial.arm]}")
    for fault in trial.faults:
        text.append(f"  {fault.kind} of rank {fault.rank}", "red")
    return text


def _rate(progress: Progress, elapsed: float, inside: int) -> Text:
    if progress.size is not None:
        return _row("timing").append(f"{progress.collective} of {size(progress.size)}")
    text = _row("steps/s")
    if not progress.ends:
        return text.append("none yet")
    found = rates(progress.ends, elapsed, max(1, inside - _BESIDE))
    top = max(found) or 1.0
    for is_disturbed, cells in groupby(
        enumerate(found, start=1 - len(found)),
        lambda cell: _was_disturbed(progress, elapsed + (cell[0] - 0.5) * _CELL),
    ):
        heights = (_HEIGHTS[math.ceil(rate / top * 8)] for _, rate in cells)
        text.append("".join(heights), "red" if is_disturbed else "green")
    return text.append(f" {found[-1]:.1f}")


def _circuits(progress: Progress) -> Text:
    text = _row("lit")
    for circuit in progress.circuits:
        is_dark = any(end in progress.dark for end in circuit.split("–"))
        text.append(circuit, "red strike" if is_dark else "cyan").append("  ")
    return text if progress.circuits else text.append("nothing")


def _recovery(progress: Progress) -> Text:
    text = _row("marks")
    zero = progress.marks.get("t0")
    if zero is None:
        return text.append("no fault yet")
    for name in NAMES:
        if name in progress.marks and name != "t0":
            text.append(f"{name} ", "dim").append(f"{(progress.marks[name] - zero) * 1e3:.0f} ")
    return text.append("ms")


def _row(label: str) -> Text:
    return Text().append(f"{label:<8}", "dim")


def _was_disturbed(progress: Progress, t: float) -> bool:
    return any(begin <= t and (end is None or t <= end) for begin, end in progress.disturbed[-8:])
