"""Draw who is joined to whom on rails over time; an importer of matplotlib."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from testbed.analysis.rail_spans import KINDS, CircuitSpan, rail_spans
from testbed.analysis.summary import Summary
from testbed.events import Event
from testbed.report.canvas import INK, Form, axes, few_ticks
from testbed.report.drawings import Drawing

_COLOURS = ("#2f86c9", "#d9622b", "#1f9d7a", "#b76fa8", "#d99a1c")
_ITERATIONS = 2
"""That a picture shows: the last ones of the first trial of an arm."""
_BAR = 0.8
_NARROWEST = 0.06
"""Share of the width from which on a bar has room for a name."""


def rail_drawings(summary: Summary, events: Iterable[Event]) -> Iterator[Drawing]:
    """Yield a drawing of the rails for the first trial of each arm on rails."""
    timed = [trial for trial in summary.trials if "iteration_time" in trial.values]
    first = {trial.arm: trial for trial in reversed(timed)}
    found = [event for event in events if event.kind in KINDS] if first else []
    for arm, trial in sorted(first.items()):
        spans, each = rail_spans(found, trial.number), float(trial.values["iteration_time"])
        if not spans:
            continue
        end = max(span.lit or span.commanded for span in spans) + each / 2
        shown = _within(spans, end - _ITERATIONS * each, end)
        rows = tuple((s.rail, s.group, s.circuit, s.commanded, s.lit, s.removed) for s in shown)
        draw = partial(rails, shown, (end - _ITERATIONS * each, end))
        headings = ("rail", "group", "circuit", "commanded", "lit", "removed")
        yield Drawing(f"rails-{arm}", draw, headings, rows)


def rails(spans: Sequence[CircuitSpan], between: tuple[float, float], form: Form) -> Figure:
    """Draw a row for each host port, with a bar while it is joined to another, which it names.

    A bar is pale from the command until data has passed.
    """
    begin, end = between
    ports = sorted({(span.rail, port) for span in spans for port in _ends(span)})
    row = {key: -number for number, key in enumerate(ports)}
    colours = colours_of(span.group for span in spans)
    with axes(form, 0.9 + 0.22 * len(ports), len(colours)) as (figure, ax):
        for span in spans:
            until = end if span.removed is None else min(span.removed, end)
            lit = until if span.lit is None else min(span.lit, until)
            colour = colours[dimension(span.group)]
            for port, peer in zip(_ends(span), reversed(_ends(span)), strict=True):
                y = row[span.rail, port]
                for left, right, alpha in ((span.commanded, lit, 0.35), (lit, until, 1.0)):
                    left, right = max(left, begin) - begin, right - begin
                    ax.barh(y, max(0.0, right - left), _BAR, left, color=colour, alpha=alpha)
                middle = (max(lit, begin) + until) / 2 - begin
                if until - max(lit, begin) > _NARROWEST * (end - begin) and not form.is_narrow:
                    name = peer.partition(".")[0]
                    ax.text(middle, y, name, color=INK, ha="center", va="center", fontsize=7)
        ax.set_yticks(list(row.values()), [port for _, port in ports])
        ax.set_xlim(0, end - begin)
        ax.set_xlabel("s")
        few_ticks(ax, form)
        handles = [Patch(color=colour, label=name) for name, colour in colours.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=form.columns)
    return figure


def _within(spans: Iterable[CircuitSpan], begin: float, end: float) -> list[CircuitSpan]:
    return [s for s in spans if s.commanded < end and (s.removed is None or s.removed > begin)]


def _ends(span: CircuitSpan) -> list[str]:
    return span.circuit.split("–")


def dimension(group: str) -> str:
    """Return along which dimension of the mesh a group is."""
    return re.sub(r"[0-9]+$", "", group)


def colours_of(groups: Iterable[str]) -> Mapping[str, str]:
    """Return the colour of each dimension that has one of the groups."""
    names = sorted({dimension(group) for group in groups})
    return {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}
