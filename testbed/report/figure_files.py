"""Write the figures of a run to files: SVG and PDF for papers, CSV with the data."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from testbed.analysis.rail_spans import KINDS as RAIL_EVENTS
from testbed.analysis.steps import KINDS as STEPS
from testbed.analysis.summary import Summary
from testbed.errors import LabError, UsageError
from testbed.events import Event
from testbed.files import replace_file
from testbed.record.log import read_events
from testbed.record.rundir import RunDirectory
from testbed.report.canvas import WIDE, pdf_file, svg_file
from testbed.report.drawings import Drawing, drawings
from testbed.report.lane_figure import lane_drawings
from testbed.report.mesh_frames import mesh_drawings, routed_drawing
from testbed.report.rack_frames import rack_drawings
from testbed.report.rail_figure import rail_drawings
from testbed.report.short_arm_names import shortened


def write_figures(summary: Summary, folder: Path, run: Path) -> list[Path]:
    """Write every figure of a run to a folder as SVG, PDF and CSV; return the files.

    `run` is the directory of the run, for what was sent to its instruments.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder} is not a directory", hint="move it away")
    try:
        folder.mkdir(exist_ok=True)
        written = []
        short = shortened(summary)
        events = list(_events_of_rails(short, run))
        of_rails = (*lane_drawings(short, events), *rail_drawings(short, events))
        of_models = (*routed_drawing(short), *rack_drawings(run, summary.seed))
        for drawing in (*drawings(short), *of_models, *mesh_drawings(run), *of_rails):
            for name, content in _files(drawing):
                replace_file(folder / name, content)
                written.append(folder / name)
        return written
    except OSError as error:
        hint = "free space on the disk, or take a copy of the run that is yours"
        raise LabError(
            f"writing figures to {folder} failed: {error.strerror}", hint=hint
        ) from error


def _events_of_rails(summary: Summary, run: Path) -> Iterator[Event]:
    path = RunDirectory(run).events
    if path.exists() and any("iteration_time" in t.values for t in summary.trials):
        of_log = read_events(path, without=STEPS)
        yield from (event for event in of_log if event.kind in RAIL_EVENTS)


def _files(drawing: Drawing) -> Iterator[tuple[str, bytes]]:
    figure = drawing.draw(WIDE)
    yield f"{drawing.name}.svg", svg_file(figure, drawing.name)
    yield f"{drawing.name}.pdf", pdf_file(figure)
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(drawing.headings)
    for row in drawing.rows:
        rows.writerow(round(cell, 9) if isinstance(cell, float) else cell for cell in row)
    yield f"{drawing.name}.csv", table.getvalue().encode()
