"""Drawings of photonic meshes: each setting that a run sent to one, and what a model routed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from testbed.analysis.metrics import Metric
from testbed.analysis.summary import Summary
from testbed.fabric.mesh import Gate, Mesh, Setting, hexagonal
from testbed.report import mesh_figure
from testbed.report.drawings import Drawing
from testbed.schema import load_lab

_MOST = 64
"""Frames of one switch: those of a run that repeats itself come to an end by themselves."""

_SHARES = ("matchings_routed", "meshes_routed")
_CELL = re.compile(r"\((\d+), '([=x])'\)")


@dataclass(frozen=True, slots=True)
class MeshFrame:
    """A setting that a mesh was sent, with the circuits that it makes."""

    switch: str
    mesh: Mesh
    setting: Setting
    circuits: Mapping[int, int]


def mesh_drawings(run: Path) -> Iterator[Drawing]:
    """Yield a drawing for every set of circuits that the meshes of a run were set to, in order."""
    for number, frame in enumerate(frames(run), start=1):
        rows = tuple(
            (ingress, egress, place, step.cell, step.gate.value)
            for ingress, egress in sorted(frame.circuits.items())
            for place, step in enumerate(frame.mesh.path(ingress, frame.setting).steps)
        )
        draw = partial(mesh_figure.lit, frame.mesh, frame.setting, frame.circuits)
        headings = ("ingress", "egress", "place", "cell", "gate")
        yield Drawing(f"{frame.switch}-{number:02}", draw, headings, rows)


def routed_drawing(summary: Summary) -> Iterator[Drawing]:
    """Yield a drawing of the shares routed by arm, of a run that has several such arms."""
    shares: dict[str, dict[str, Metric]] = {}
    for name, metric in summary.metrics.items():
        arm, _, what = name.rpartition(".")
        if what in _SHARES:
            shares.setdefault(arm, {})[what] = metric
    if len(shares) > 1:
        rows = tuple(
            (arm, what, len(m.values), m.median, min(m.values), max(m.values))
            for arm, mine in shares.items()
            for what, m in mine.items()
        )
        headings = ("arm", "metric", "n", "median", "min", "max")
        yield Drawing("routed", partial(mesh_figure.routed, shares), headings, rows)


def frames(run: Path) -> list[MeshFrame]:
    """Return the different circuits that each photonic mesh of a run was set to, in order."""
    if not (run / "lab.yaml").exists():
        return []
    lab = load_lab(run / "lab.yaml")
    found = []
    for name, switch in lab.switches.items():
        wire = run / "wire" / f"{name}.jsonl"
        if switch.driver == "photonic-mesh" and wire.exists() and not switch.options.file:
            own = switch.options  # of a mesh of another outline, the file may be gone
            shape = (getattr(own, key) for key in ("width", "height", "ingress", "egress"))
            found += _of_switch(name, hexagonal(*shape), wire.read_text())
    return found


def _of_switch(name: str, mesh: Mesh, wire: str) -> list[MeshFrame]:
    found: dict[frozenset[tuple[int, int]], MeshFrame] = {}
    for line in wire.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the last line of a run that was killed
        cells = _CELL.findall(row["data"]) if row["direction"] == "send" else []
        if len(cells) != len(mesh.cells):
            continue
        setting = tuple(Gate(gate) for _, gate in cells)
        circuits = mesh.circuits(setting)
        if circuits and len(found) < _MOST:
            found.setdefault(frozenset(circuits.items()), MeshFrame(name, mesh, setting, circuits))
    return list(found.values())
