"""Draw photonic meshes with routes lit, and what was routed; an importer of matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from testbed.analysis.metrics import Metric
from testbed.fabric.mesh import Joint, Mesh, Setting
from testbed.report.canvas import GRID, INK, Form, axes

Point = tuple[float, float]

_INSIDE = 0.78
"""Where light passes a corner, on the way from the middle of its hexagon to the rim."""
_COLOURS = ("#2f86c9", "#d9622b", "#1f9d7a", "#b76fa8", "#d99a1c", "#5fb2e6", "#8a8f98", "#a3962a")


def lit(mesh: Mesh, setting: Setting, circuits: Mapping[int, int], form: Form) -> Figure:
    """Draw each cell of a mesh as a side of a hexagon, and a line for the light of each circuit."""
    sides = [[_corner(joint, 1.0) for joint in cell.joints[:2]] for cell in mesh.cells]
    xs, ys = ([point[axis] for side in sides for point in side] for axis in (0, 1))
    tall = (max(ys) - min(ys) + 2) / (max(xs) - min(xs) + 2)
    with axes(form, form.width * tall) as (figure, ax):
        ax.add_collection(LineCollection(sides, colors=GRID, linewidths=3))
        for number, (ingress, egress) in enumerate(sorted(circuits.items())):
            path = mesh.path(ingress, setting)
            joints = [*(step.entry for step in path.steps), path.end]
            x, y = zip(*(_corner(joint, _INSIDE) for joint in joints), strict=True)
            colour = _COLOURS[number % len(_COLOURS)]
            label = f"{ingress} to {egress}: {len(path.steps)} cells"
            ax.plot(x, y, color=colour, linewidth=2, label=label, solid_joinstyle="round")
        _name_ports(ax, mesh)
        ax.set_aspect("equal")
        ax.set_axis_off()
        if circuits:
            figure.legend(loc="outside lower center", ncols=form.columns // 2 or 1)
    return figure


def routed(arms: Mapping[str, Mapping[str, Metric]], form: Form) -> Figure:
    """Draw shares of what was routed in each arm: the median, with minimum and maximum."""
    names = list(arms)
    with axes(form, 3.2) as (figure, ax):
        for number, name in enumerate(dict.fromkeys(m for mine in arms.values() for m in mine)):
            places = [place for place, arm in enumerate(names) if name in arms[arm]]
            found = [arms[names[place]][name] for place in places]
            colour, label = _COLOURS[number], name.replace("_", " ")
            ax.plot(places, [m.median for m in found], "o-", color=colour, label=label)
            low, high = [min(m.values) for m in found], [max(m.values) for m in found]
            ax.fill_between(places, low, high, color=colour, alpha=0.2, linewidth=0)
        ax.set_xticks(range(len(names)), names)
        ax.set_ylim(bottom=0)
        ax.set_ylabel("%")
        ax.legend()
    return figure


def _name_ports(ax: Axes, mesh: Mesh) -> None:
    """Write the number of each port in use beside its corner, away from the mesh."""
    for number, joint in mesh.ports.items():
        x, y = _corner(joint, 0.45)
        ax.text(x, y, str(number), color=INK, ha="center", va="center", fontsize=8)


def _corner(joint: Joint, share: float) -> Point:
    """Return where a corner of a hexagon is, or a point on the way there from the middle."""
    angle = math.radians(60 * joint.corner - 30)
    x = math.sqrt(3) * (joint.column + joint.row / 2) + share * math.cos(angle)
    return x, -(1.5 * joint.row + share * math.sin(angle))
