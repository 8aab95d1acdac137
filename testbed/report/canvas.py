"""The style and size of figures, and their output as SVG and PDF.

In a page, ink and grid are CSS variables, so that one figure is readable on light and dark
backgrounds and on paper; text stays text.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

INK, MUTED, GRID = "#010101", "#020202", "#030303"
_VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid"}
"""Colours that nothing else has, and the CSS variable that each becomes."""
_ON_PAPER = {INK: "#000000", MUTED: "#555555", GRID: "#cccccc"}

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "text.parse_math": False,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
}


@dataclass(frozen=True, slots=True)
class Form:
    """The format of a figure: size and fonts; a page scales it to its own width."""

    name: str
    width: float
    """Inches."""
    columns: int
    """Names side by side in a legend."""
    letters: int
    """Characters of a line of words below an axis."""
    ticks: int | None = None
    """Numbers on the time axis at most."""

    @property
    def is_narrow(self) -> bool:
        """Return whether labels must be abbreviated or moved for lack of width."""
        return self.ticks is not None


WIDE = Form("broad", 9.0, 8, 120)
NARROW = Form("narrow", 4.0, 3, 46, ticks=3)
"""For a telephone: its letters are as large there as those of the text around."""


@contextmanager
def axes(form: Form, height: float, names: int = 0) -> Iterator[tuple[Figure, Axes]]:
    """Yield a figure with one pair of axes, in the common style.

    `height` is in inches; a legend with `names` entries adds to it if it needs more than one line.
    """
    with panels(form, height, [1.0], names) as (figure, (ax,)):
        yield figure, ax


@contextmanager
def panels(
    form: Form, height: float, shares: Sequence[float], names: int = 0
) -> Iterator[tuple[Figure, list[Axes]]]:
    """Yield a figure with pairs of axes above each other that share the x axis.

    `shares` are their heights in proportion, the rest as for `axes`.
    """
    more = max(0, -(-names // form.columns) - 1) * 0.2
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(form.width, height + more), layout="constrained")
        grid = {"height_ratios": shares}
        each = figure.subplots(len(shares), sharex=True, squeeze=False, gridspec_kw=grid)
        yield figure, list(each[:, 0])


@contextmanager
def solid(form: Form, height: float) -> Iterator[tuple[Figure, Any]]:
    """Yield a figure with one set of axes in three dimensions, in the common style."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(form.width, height))
        yield figure, figure.add_subplot(projection="3d")


def words_below(ax: Axes, form: Form, words: str) -> None:
    """Write the label of the x axis below it, on as many lines as it needs."""
    ax.set_xlabel("\n".join(textwrap.wrap(words, form.letters)))


def few_ticks(ax: Axes, form: Form) -> None:
    """Limit the number of ticks on the x axis, so that their numbers do not overlap."""
    if form.ticks:
        ax.xaxis.set_major_locator(MaxNLocator(form.ticks))


def svg(figure: Figure, name: str, form: Form) -> str:
    """Return a figure as one <svg> element without external references."""
    text = _svg(figure, f"{name}-{form.name}", transparent=True)
    text = text[text.index("<svg") :]
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    return text.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1)


def svg_file(figure: Figure, name: str) -> bytes:
    """Return a figure as a complete SVG file with a white background."""
    text = _svg(figure, name, transparent=False)
    for colour, on_paper in _ON_PAPER.items():
        text = text.replace(colour, on_paper)
    return text.encode()


def pdf_file(figure: Figure) -> bytes:
    """Return a figure as a PDF file."""
    drawn = io.BytesIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(drawn, format="pdf", metadata={"CreationDate": None})
    return drawn.getvalue()


def _svg(figure: Figure, salt: str, *, transparent: bool) -> str:
    """Return what matplotlib writes; `salt` keeps the ids of one figure apart from another's."""
    drawn = io.StringIO()
    with mpl.rc_context(_STYLE | {"svg.hashsalt": salt}):
        _lay_out(figure)
        figure.savefig(drawn, format="svg", transparent=transparent)
    return re.sub(r"<metadata>.*?</metadata>", "", drawn.getvalue(), flags=re.DOTALL)


def _lay_out(figure: Figure) -> None:
    """Fix the places of all that is in a figure; `savefig` alone would draw it twice for that."""
    engine = figure.get_layout_engine()
    if engine is not None:
        FigureCanvasSVG(figure)
        engine.execute(figure)
        figure.set_layout_engine(None)
