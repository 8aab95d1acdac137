"""Draw racks in three dimensions, and what racks come to; an importer of matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from testbed.rack.history import Moment
from testbed.rack.slices import Slice
from testbed.rack.torus import Torus, chip_of, coordinates
from testbed.report.canvas import GRID, MUTED, Form, axes, few_ticks, solid

_COLOURS = ("#2f86c9", "#d9622b", "#1f9d7a", "#b76fa8", "#d99a1c", "#5fb2e6", "#8a8f98", "#a3962a")
_HALF, _BEST = 1.3, 1.6
"""The gain that half of the racks of Morphlux exceed, and about that of the best (section 7)."""

Point = tuple[float, float, float]


def rack(torus: Torus, moment: Moment, spares: frozenset[int], form: Form) -> Figure:
    """Draw the chips of a rack, those of a slice in one colour, and the circuits of the slices.

    A circuit is a line from server to server. Chips without a slice are pale, spares are rings.
    """
    with solid(form, form.width * 0.75) as (figure, ax):
        ax.scatter(*_chips(torus, moment.free), color=GRID, s=18, label="free")
        ring = {"facecolors": "none", "edgecolors": MUTED, "label": "spare"}
        ax.scatter(*_chips(torus, spares), s=40, **ring)
        for number, of in enumerate(moment.slices):
            colour, kind = _COLOURS[number % len(_COLOURS)], _shape(of)
            ax.scatter(*_chips(torus, of.servers), color=colour, s=40, label=kind)
            for path in dict.fromkeys(of.paths):
                points = [_middle(torus, server, number) for server in path]
                for one, other in pairwise(points):
                    ax.plot(*zip(one, other, strict=True), color=colour, linewidth=1.6)
        for name, sizes in zip("xyz", torus.chips, strict=True):
            getattr(ax, f"set_{name}ticks")(range(sizes))
            getattr(ax, f"set_{name}label")(name.upper())
        ax.set_box_aspect(torus.chips)
        ax.legend(loc="center left", bbox_to_anchor=(1.05, 0.5))
    return figure


def fragmentation(indices: Mapping[str, Sequence[float]], form: Form) -> Figure:
    """Draw the fragmentation index of racks over the changes of their slices."""
    with axes(form, 3.2, len(indices)) as (figure, ax):
        for colour, (arm, values) in zip(_COLOURS, indices.items(), strict=False):
            ax.step(range(len(values)), values, where="post", color=colour, label=arm)
        few_ticks(ax, form)
        ax.set_ylim(0, 1)
        ax.set_xlabel("slices that came or left")
        ax.set_ylabel("fragmentation index")
        figure.legend(loc="outside lower center", ncols=form.columns // 2 or 1)
    return figure


def gains(found: Mapping[str, Sequence[float]], form: Form) -> Figure:
    """Draw the share of racks below each gain, beside the gains that the paper states."""
    with axes(form, 3.2, len(found)) as (figure, ax):
        for colour, (arm, values) in zip(_COLOURS, found.items(), strict=False):
            shares = [(place + 1) / len(values) for place in range(len(values))]
            ax.step(values, shares, where="post", color=colour, label=arm)
        for gain, words in ((_HALF, "half of the paper's racks"), (_BEST, "the paper's best")):
            ax.axvline(gain, color=MUTED, linestyle="--", linewidth=1)
            ax.text(gain, 0.02, f" {words}", color=MUTED, rotation=90, va="bottom", fontsize=7)
        ax.set_ylim(0, 1)
        ax.set_xlabel("throughput with redirected ports over that of a static torus")
        ax.set_ylabel("share of racks")
        figure.legend(loc="outside lower center", ncols=form.columns // 2 or 1)
    return figure


def _shape(of: Slice) -> str:
    return " × ".join(map(str, of.shape))


def _chips(torus: Torus, servers: Sequence[int] | frozenset[int]) -> tuple[Sequence[int], ...]:
    """Return the coordinates of the chips of servers, axis by axis."""
    inside, places = coordinates(torus.server), coordinates(torus.chips)
    found = [places[chip_of(torus, server, at)] for server in sorted(servers) for at in inside]
    return tuple(zip(*found, strict=True)) or ((), (), ())


def _middle(torus: Torus, server: int, number: int) -> Point:
    """Return the middle of a server, moved a little by the number of the slice."""
    off = 0.06 * ((number % 5) - 2)
    x, y, z = (
        at * size + (size - 1) / 2
        for at, size in zip(torus.servers[server], torus.server, strict=True)
    )
    return x + off, y + off, z + off
