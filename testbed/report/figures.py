"""Draw the figures of a report; with `canvas` and `mesh_figure`, the importers of matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator

from testbed.analysis.metrics import Metric
from testbed.analysis.trial import TrialResult
from testbed.report.anatomy import Anatomy, phases
from testbed.report.canvas import GRID, INK, MUTED, Form, axes, few_ticks, words_below
from testbed.report.step_rates import StepRates
from testbed.report.wording import quantity, size, spread

_FAULT, _WELL = "#d9622b", "#1f9d7a"
_ARMS = ("#2f86c9", "#d9622b", "#1f9d7a", "#b76fa8", "#d99a1c", "#5fb2e6", "#8a8f98", "#a3962a")
_PARTS = {
    "detection": "#d9622b",
    "fencing": "#d99a1c",
    "planning": "#a3962a",
    "reconfiguration": "#2f86c9",
    "waiting": "#8a8f98",
    "starting": "#6b7079",
    "joining": "#5fb2e6",
    "restoring": "#1f9d7a",
    "first step": "#b76fa8",
}
_LETTERS = 12
"""Of a row's name in one line, where there is little room."""

_SERIES: tuple[tuple[str, float, Any], ...] = (("o", 5, "-"), ("s", 5, "-"), ("D", 9, (0, (4, 4))))
"""Marker, its size and the line of up to three series, which can lie on each other."""

_NAMED_FROM = 0.1
"""Share of the figure's width from which a part is named inside its bar."""


def anatomy(arms: Sequence[Anatomy], totals: Mapping[str, Metric], form: Form) -> Figure:
    """Draw the medians of the parts of a recovery, and the terms that the model predicts."""
    present = {duration.part.name for arm in arms for duration in arm.parts}
    with axes(form, 1.0 + 0.85 * len(arms), len(present)) as (figure, ax):
        for row, arm in enumerate(arms):
            _parts_bar(ax, row - 0.16, [(d.part.name, d.median) for d in arm.parts])
            total = totals[arm.arm]
            _total(ax, row - 0.16, total)
            if total.predicted is not None:
                terms = [(d.part.name, d.predicted or 0.0) for d in arm.parts]
                _parts_bar(ax, row + 0.24, terms, height=0.2, alpha=0.45)
                text = f"predicted {quantity(total.predicted, 's')}"
                _beside(ax, sum(t for _, t in terms), row + 0.24, text, color=MUTED)
        _name_parts(ax, form, arms)
        _time_axis(ax, form, "time after the fault")
        _name_rows(ax, form, [arm.arm for arm in arms])
        ax.invert_yaxis()
        ax.margins(x=0.75 if form.is_narrow else 0.22)
        ax.set_xlim(left=0)
        ax.grid(visible=False, axis="y")
        _legend(figure, form, [name for name in _PARTS if name in present], _PARTS)
        return figure


def step_rate(step_rates: Sequence[StepRates], form: Form) -> Figure:
    """Draw the step rate over the whole run, with recoveries shaded."""
    with axes(form, 2.3) as (figure, ax):
        for pace in step_rates:
            if len(pace.ends) > 1:
                ax.stairs(pace.rates, pace.ends, color=_ARMS[0], linewidth=0.9, baseline=None)
            zero, back = pace.mark("t0"), pace.mark("t10")
            if zero is not None:
                ends = back if back is not None else max([zero, *pace.ends])
                ax.axvspan(zero, ends, color=_FAULT, alpha=0.3, linewidth=0)
            if back is not None:
                ax.plot(back, 0, marker="^", color=_WELL, markersize=5, clip_on=False, zorder=3)
        ax.set_ylim(bottom=0)
        ax.margins(x=0.01)
        ax.set_ylabel("steps / s")
        words_below(ax, form, "time of the run (s); shaded from t0 to t10, ▲ at t10")
        return figure


def dips(step_rates: Sequence[StepRates], arms: Sequence[str], form: Form) -> Figure:
    """Draw the step rate of every trial around its fault, with all faults at time zero."""
    with axes(form, 2.6, len(arms)) as (figure, ax):
        for pace in step_rates:
            zero, back = pace.mark("t0"), pace.mark("t10")
            if zero is None or len(pace.ends) < 2:
                continue
            colour = _colours(arms)[pace.trial.arm]
            edges = [end - zero for end in pace.ends]
            ax.stairs(pace.rates, edges, color=colour, linewidth=0.9, alpha=0.55, baseline=None)
            if back is not None:
                ax.plot(back - zero, 0, marker="^", color=colour, markersize=5, clip_on=False)
        longest = max(p.trial.marks.relative().get("t11", 1.0) for p in step_rates if p.trial.marks)
        ax.axvline(0, color=_FAULT, linewidth=1.2)
        ax.set_xlim(-0.7 * longest, 1.7 * longest)
        ax.set_ylim(bottom=0)
        ax.set_ylabel("steps / s")
        _time_axis(ax, form, "time after the fault; ▲ at t10")
        _legend(figure, form, arms, _colours(arms))
        return figure


def recovery_times(
    arms: Sequence[Anatomy], totals: Mapping[str, Metric], claim: float | None, form: Form
) -> Figure:
    """Draw every trial's recovery time as a dot, with median, interval and prediction."""
    with axes(form, 0.9 + 0.55 * len(arms)) as (figure, ax):
        for row, arm in enumerate(arms):
            total, colour = totals[arm.arm], _ARMS[row % len(_ARMS)]
            shifts = [0.28 * ((7 * i) % 10 / 9 - 0.5) for i in range(len(total.values))]
            dots = [row + 0.12 + shift for shift in shifts]
            ax.scatter(total.values, dots, s=16, color=colour, alpha=0.75, linewidth=0)
            _median(ax, row - 0.25, total, colour)
            if total.predicted is not None:
                ax.plot(total.predicted, row - 0.25, marker="d", color=MUTED, fillstyle="none")
            if lost := sum(trial.job_failed for trial in arm.valid):
                _beside(ax, 0, row + 0.12, f"{lost} not recovered", color=_FAULT)
        if claim is not None:
            ax.axvline(claim, color=_FAULT, linewidth=1, linestyle="--")
        _name_rows(ax, form, [arm.arm for arm in arms])
        ax.set_ylim(len(arms) - 0.5, -0.5)
        ax.set_xlim(left=0)
        _time_axis(ax, form, "recovery time t10 − t0; ┃ median and its 95 % interval, ◇ predicted")
        return figure


def marks(trials: Sequence[TrialResult], arms: Sequence[str], form: Form) -> Figure:
    """Draw the marks of every trial on a time line, from t0 to t11."""
    parts = dict.fromkeys(part for trial in trials for part in phases(trial))
    ends = {part.ends: part.name for part in parts if part.ends != "ready"}
    with axes(form, 0.9 + 0.17 * len(trials), len(ends)) as (figure, ax):
        reached = [trial.marks.relative() if trial.marks else {} for trial in trials]
        longest = [max(found.values(), default=0.0) for found in reached]
        ax.hlines(range(len(trials)), 0, longest, color=GRID, linewidth=1)
        for name in (*ends, "t11"):
            rows = [row for row, found in enumerate(reached) if name in found]
            xs = [reached[row][name] for row in rows]
            if name == "t11":
                ax.plot(xs, rows, linestyle="", marker="|", color=INK, markersize=7)
            else:
                ax.plot(xs, rows, linestyle="", marker="o", color=_colour(ends[name]), markersize=4)
        names = [f"{t.number} {t.arm}" if len(arms) > 1 else str(t.number) for t in trials]
        ax.set_yticks(range(len(trials)), names, fontsize=7)
        ax.set_ylim(len(trials) - 0.5, -0.5)
        ax.grid(visible=False, axis="y")
        _time_axis(ax, form, "time after the fault; | at t11")
        labels = {f"{part} {mark}": _colour(part) for mark, part in ends.items()}
        _legend(figure, form, list(labels), labels)
        return figure


def iteration_times(modes: Mapping[str, Sequence[tuple[float, Metric]]], form: Form) -> Figure:
    """Draw an iteration on rails over the delay of its circuits, a series for each mode.

    Points are medians with their intervals, lines go through what the replay predicts. Both axes
    are logarithmic, that of delays from the smallest one on, below which it is linear to 0.
    """
    with axes(form, 3.6, len(modes)) as (figure, ax):
        handles = []
        for (mode, points), (marker, large, line) in zip(modes.items(), _SERIES, strict=False):
            colour, delays = _colours(list(modes))[mode], [delay for delay, _ in points]
            expected = [(d, m.predicted) for d, m in points if m.predicted is not None]
            ax.plot(*zip(*expected, strict=True), color=colour, linestyle=line, linewidth=1.2)
            medians = [metric.median for _, metric in points]
            ends = [metric.ci95 or (metric.median, metric.median) for _, metric in points]
            ax.vlines(delays, *zip(*ends, strict=True), color=colour, linewidth=1.6)
            style: dict[str, Any] = {
                "color": colour,
                "marker": marker,
                "ms": large,
                "mfc": "none",
                "mew": 1.2,
            }
            ax.plot(delays, medians, linestyle="", **style)
            handles.append(Line2D([], [], linestyle=line, label=mode, **style))
        every = sorted({delay for points in modes.values() for delay, _ in points})
        least = min((delay for delay in every if delay > 0), default=1.0)
        ax.set_xscale("symlog", linthresh=least, linscale=0.4)
        ax.set_xticks(
            every, [quantity(d, "s") for d in every], rotation=_rotation(form, len(every))
        )
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: quantity(y, "s")))
        ax.minorticks_off()
        ax.set_ylabel("an iteration")
        words = "delay of the circuits; median and its 95 % interval, line through the predictions"
        words_below(ax, form, words)
        figure.legend(handles=handles, loc="outside upper left", ncols=form.columns)
        return figure


def bandwidth(
    arms: Mapping[str, Mapping[int, Metric]], flagged: Collection[tuple[str, int]], form: Form
) -> Figure:
    """Draw the bus bandwidth over the message size: the median, with minimum and maximum.

    `flagged` names arms and sizes whose value is more than a port carries; they are circled.
    """
    with axes(form, 3.2, len(arms)) as (figure, ax):
        sizes = sorted({s for mine in arms.values() for s in mine})
        for name, mine in arms.items():
            xs, found = sorted(mine), [mine[s] for s in sorted(mine)]
            colour = _colours(list(arms))[name]
            ax.plot(xs, [m.median for m in found], marker="o", markersize=4, color=colour)
            low, high = [min(m.values) for m in found], [max(m.values) for m in found]
            ax.fill_between(xs, low, high, color=colour, alpha=0.2, linewidth=0)
            for s in xs:
                if (name, s) in flagged:
                    ax.plot([s], [mine[s].median], "o", ms=10, mfc="none", mec=INK)
        ax.set_xscale("log", base=2)
        ax.set_xticks(sizes, [size(s) for s in sizes], rotation=_rotation(form, len(sizes)))
        ax.minorticks_off()
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: quantity(y, "bit/s")))
        ax.set_ylim(bottom=0)
        note = "; circled: more than a port carries" if flagged else ""
        words_below(ax, form, f"message size{note}")
        ax.set_ylabel("busbw")
        if len(arms) > 1:
            _legend(figure, form, list(arms), _colours(list(arms)))
        return figure


def _colour(phase: str) -> str:
    """Return the colour of a phase; those that only an outside policy has share one."""
    return _PARTS.get(phase, MUTED)


def _parts_bar(
    ax: Axes, y: float, parts: Sequence[tuple[str, float]], height: float = 0.44, alpha: float = 1.0
) -> None:
    left = 0.0
    for name, seconds in parts:
        ax.barh(y, seconds, height, left, color=_colour(name), alpha=alpha, linewidth=0)
        left += seconds


def _total(ax: Axes, y: float, total: Metric) -> None:
    """Mark the median of the whole and its interval; the parts' medians need not sum to it."""
    ci95 = total.ci95
    if ci95 is not None:
        ax.plot(ci95, (y, y), color=INK, linewidth=1.4)
    ax.plot(total.median, y, marker="|", color=INK, markersize=12, markeredgewidth=1.4)
    words = quantity(total.median, "s") + (f" ({spread(*ci95, 's')})" if ci95 else "")
    _beside(ax, max(total.median, *(ci95 or (0.0,))), y, words, weight="bold")


def _beside(ax: Axes, x: float, y: float, words: str, **style: Any) -> None:
    ax.annotate(words, (x, y), (5, 0), textcoords="offset points", va="center", **style)


def _name_rows(ax: Axes, form: Form, names: Sequence[str]) -> None:
    """Name each row on the left, where there is little room in several lines."""
    whole = _LETTERS if form.is_narrow else max(map(len, names), default=1)
    lines = ["\n".join(textwrap.wrap(name, whole)) for name in names]
    ax.set_yticks(range(len(names)), lines)


def _rotation(form: Form, labels: int) -> float:
    if form.is_narrow:
        return 60 if labels > 4 else 0
    return 30 if labels > 8 else 0


def _name_parts(ax: Axes, form: Form, arms: Sequence[Anatomy]) -> None:
    named_from = 0.4 if form.is_narrow else _NAMED_FROM
    widest = max((sum(d.median for d in arm.parts) for arm in arms), default=0.0)
    for row, arm in enumerate(arms):
        left = 0.0
        for duration in arm.parts:
            if duration.median > named_from * widest:
                middle, words = left + duration.median / 2, quantity(duration.median, "s")
                ax.text(middle, row - 0.16, words, ha="center", va="center", color="white")
            left += duration.median


def _median(ax: Axes, y: float, metric: Metric, colour: str) -> None:
    if ci95 := metric.ci95:
        ax.plot(ci95, (y, y), color=colour, linewidth=3, solid_capstyle="butt")
    ax.plot(metric.median, y, marker="|", color=INK, markersize=11, markeredgewidth=1.6)


def _colours(arms: Sequence[str]) -> dict[str, str]:
    return {arm: _ARMS[row % len(_ARMS)] for row, arm in enumerate(arms)}


def _time_axis(ax: Axes, form: Form, label: str) -> None:
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: quantity(x, "s").replace("-", "−")))
    few_ticks(ax, form)
    words_below(ax, form, label)


def _legend(figure: Figure, form: Form, names: Sequence[str], colours: Mapping[str, str]) -> None:
    patches = [Patch(color=colours[name], label=name) for name in dict.fromkeys(names)]
    figure.legend(
        handles=patches,
        loc="outside upper left",
        ncols=form.columns,
        columnspacing=1.2,
        handlelength=1.0,
    )
