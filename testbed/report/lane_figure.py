"""Draw an iteration as a lane for each rank, predicted above measured."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from testbed.analysis.rail_lanes import (
    COMPUTE,
    STALL,
    Bar,
    Lanes,
    measured_lanes,
    replayed_lanes,
)
from testbed.analysis.rail_spans import KINDS, rail_spans
from testbed.analysis.summary import Summary
from testbed.analysis.trial import TrialResult
from testbed.events import Event
from testbed.rails.replay import replay
from testbed.rails.workload import workload_of
from testbed.report.canvas import INK, MUTED, Form, few_ticks, panels
from testbed.report.drawings import Drawing, Row
from testbed.report.rail_figure import colours_of, dimension
from testbed.report.wording import quantity

_COMPUTE = "#b9bec6"
_HEIGHT = 0.76
_CHANGE = 0.34
"""Height of a bar of a rail, whose row is as high as a rank's."""
_ROW = 0.17
_TITLE = 0.35
"""Inches of a row, and of a title."""
_EMPTY = 0.1
"""Rows of a panel without lanes."""

_SEEN = 1e-3
"""Share of the width from which on a stall is seen; on a packet switch there are microseconds."""

_MOST = 4
"""Arms of a run that are drawn."""

Panel = tuple[str, Lanes | None]
"""A title, and what is drawn below it; without lanes, the title says why there are none."""


def lane_drawings(summary: Summary, events: Iterable[Event]) -> Iterator[Drawing]:
    """Yield a drawing of the last iteration in the first valid trial of some arms.

    On rails these are, of each way to request circuits, the arm with the longest delay, of several
    the first with a prediction; elsewhere the first arms. Of `events` those are needed that
    `rail_spans` reads.
    """
    shown = _shown(summary)
    found = [event for event in events if event.kind in KINDS] if shown else []
    for trial in shown:
        if trial.rail_profile is None:
            continue
        spans = rail_spans(found, trial.number) if trial.rails else None
        measured = measured_lanes(trial.rail_profile, spans)
        title = f"measured: {trial.arm}, trial {trial.number} ({summary.label or 'no label'})"
        each = (_predicted(trial), (title, measured))
        of_panels = zip(("predicted", "measured"), each, strict=True)
        rows = tuple(row for name, (_, lanes) in of_panels if lanes for row in _rows(name, lanes))
        headings = ("panel", "lane", "what", "begin", "end")
        yield Drawing(f"lanes-{trial.arm}", partial(lanes_above, each), headings, rows)


def lanes_above(each: tuple[Panel, ...], form: Form) -> Figure:
    """Draw panels of lanes above each other, over seconds since the iteration began.

    A panel without lanes is no higher than its title.
    """
    drawn = [lanes for _, lanes in each if lanes]
    colours = _colours(drawn)
    is_on_rails = any(lanes.rails for lanes in drawn)
    rows = [_EMPTY if lanes is None else len(_named(lanes)) for _, lanes in each]
    height = 0.8 + _TITLE * len(each) + _ROW * sum(rows)
    with panels(form, height, rows, len(colours) + is_on_rails) as (figure, axes):
        for ax, (title, lanes) in zip(axes, each, strict=True):
            ax.set_title(textwrap.fill(title, form.letters), fontsize=9, color=INK, loc="left")
            if lanes is None:
                ax.set_axis_off()
            else:
                _draw(ax, lanes, colours)
        axes[-1].set_xlim(0, max(lanes.end for lanes in drawn))
        axes[-1].set_xlabel("time since the iteration began (s)")
        few_ticks(axes[-1], form)
        handles = [Patch(color=colour, label=name) for name, colour in colours.items()]
        if is_on_rails:
            handles.append(Patch(facecolor="none", edgecolor=INK, label="re-pointing"))
        figure.legend(handles=handles, loc="outside lower center", ncols=form.columns)
    return figure


def _colours(drawn: Iterable[Lanes]) -> Mapping[str, str]:
    """Return the colour of each kind of bar that is seen."""
    bars = [bar for lanes in drawn for _, of_lane in _named(lanes) for bar in of_lane]
    groups = {bar.what for bar in bars} - {COMPUTE, STALL}
    longest = max((bar.end - bar.begin for bar in bars if bar.what == STALL), default=0.0)
    is_seen = longest > _SEEN * max(lanes.end for lanes in drawn)
    return {COMPUTE: _COMPUTE, **colours_of(groups), **({STALL: MUTED} if is_seen else {})}


def _draw(ax: Axes, lanes: Lanes, colours: Mapping[str, str]) -> None:
    """Draw the bars of ranks from the top, and below those of rails, each framed."""
    for row, bars in enumerate(lanes.ranks):
        for what, colour in colours.items():
            at = [(b.begin, b.end - b.begin) for b in bars if _kind(b) == what]
            ax.broken_barh(at, (row - _HEIGHT / 2, _HEIGHT), color=colour, linewidth=0)
    for row, bars in enumerate(lanes.rails.values(), len(lanes.ranks)):
        at = [(bar.begin, bar.end - bar.begin) for bar in bars]
        faces = [colours[_kind(bar)] for bar in bars]
        where = (row - _CHANGE / 2, _CHANGE)
        ax.broken_barh(at, where, facecolors=faces, edgecolor=INK, linewidth=0.6)
    names = [name for name, _ in _named(lanes)]
    ax.grid(visible=False, axis="y")
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.set_ylim(len(names) - 0.4, -0.6)


def _shown(summary: Summary) -> list[TrialResult]:
    """Return the first valid trial of each arm that is drawn."""
    timed = sorted((t for t in summary.trials if t.counts and t.rail_profile), key=_number)
    longest: dict[str, TrialResult] = {}
    for trial in {trial.arm: trial for trial in reversed(timed)}.values():
        way = trial.rails.mode if trial.rails else trial.arm
        longest[way] = max(trial, longest.get(way, trial), key=_choice)
    return sorted(longest.values(), key=_number)[:_MOST]


def _number(trial: TrialResult) -> int:
    return trial.number


def _choice(trial: TrialResult) -> tuple[float, bool, int]:
    """Return what speaks for a trial, the more the larger: delay, a prediction, an early place."""
    delay = trial.rails.delay if trial.rails else 0.0
    return delay, trial.replayed_from is not None, -trial.number


def _predicted(trial: TrialResult) -> Panel:
    """Return what a replay predicts for a trial, or why there is no prediction."""
    profile = trial.replayed_from
    if trial.rails is None:
        return f"no prediction of {trial.arm}: only iterations on rails are replayed", None
    if profile is None:
        why = "its job has no valid trial on demand with less delay"
        return f"no prediction of {trial.arm}: {why}", None
    try:
        workload = workload_of(profile)
        lanes = replayed_lanes(workload, replay(workload, trial.rails))
    except ValueError as error:
        return f"no prediction of {trial.arm}: {error}", None
    delay = quantity(trial.rails.delay, "s")
    return f"predicted: a replay of {profile.source} with {delay} a change (model)", lanes


def _kind(bar: Bar) -> str:
    return bar.what if bar.what in (COMPUTE, STALL) else dimension(bar.what)


def _named(lanes: Lanes) -> list[tuple[str, tuple[Bar, ...]]]:
    """Return all lanes from the top, with their names."""
    ranks = ((f"rank {rank}", bars) for rank, bars in enumerate(lanes.ranks))
    return [*ranks, *lanes.rails.items()]


def _rows(panel: str, lanes: Lanes) -> Iterator[Row]:
    for name, bars in _named(lanes):
        for bar in bars:
            yield panel, name, bar.what, bar.begin, bar.end
