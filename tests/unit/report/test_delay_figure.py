"""What an iteration on rails takes over the delay of its circuits, drawn from a run's summary."""

import csv
from dataclasses import replace

import pytest

from testbed.analysis.rail_prediction import SweepArm
from testbed.report.canvas import NARROW, WIDE
from testbed.report.drawings import drawings
from testbed.report.figure_files import write_figures
from testbed.report.html import write_html
from testbed.report.short_arm_names import shortened
from tests.unit.report.runs_by_hand import summary, trial

TIMES = {
    ("on-demand", 0.0): (0.312, None),
    ("on-demand", 0.01): (0.327, 0.332),
    ("on-demand", 1.0): (2.309, 2.312),
    ("provisioned", 0.0): (0.290, 0.289),
    ("provisioned", 1.0): (2.064, 2.067),
    ("learned", 0.0): (0.289, 0.289),
    ("learned", 1.0): (2.072, 2.067),
}
"""What an iteration took in the median, and what was predicted, by mode and delay."""


def name(mode, delay):
    return f"{mode}-{delay * 1e3:.0f}"


@pytest.fixture(scope="module")
def run():
    """Return the summary of a run with six trials an arm, which differ by 1 ms each."""
    trials = []
    for (mode, delay), (took, predicted) in TIMES.items():
        expected = {} if predicted is None else {"iteration_time": predicted}
        for n in range(6):
            values = {"iteration_time": took + (n - 2.5) / 1e3}
            arm = name(mode, delay)
            trials.append(trial(len(trials), arm, values=values, predicted=expected))
    return summary(*trials, sweeps=[[SweepArm(name(*of), *of) for of in sorted(TIMES, key=by)]])


def by(of):
    return of[1]


def the_axes(run, form=WIDE):
    (drawing,) = (one for one in drawings(run) if one.name == "delays")
    return drawing.draw(form).axes[0]


def drawn(lines):
    return [
        list(zip(*map(list, line.get_data()), strict=True)) for line in lines if line.get_data()
    ]


def test_points_and_lines_stand_where_the_summary_says(run):
    ax, modes = the_axes(run), ("on-demand", "provisioned", "learned")
    points = [line for line in ax.lines if line.get_marker() != "None"]
    lines = [line for line in ax.lines if line.get_marker() == "None"]
    metrics = run.to_json()["metrics"]
    for mode, of_points, of_line in zip(modes, drawn(points), drawn(lines), strict=True):
        delays = [delay for one, delay in TIMES if one == mode]
        told = [metrics[f"{name(mode, delay)}.iteration_time"] for delay in delays]
        assert of_points == [(d, m["median"]) for d, m in zip(delays, told, strict=True)]
        expected = [(d, m["predicted"]) for d, m in zip(delays, told, strict=True)]
        assert of_line == [(d, p) for d, p in expected if p is not None]


def test_each_point_has_its_interval(run):
    ax = the_axes(run)
    found = {
        (x, low, high)
        for each in ax.collections
        for (x, low), (_, high) in (segment.tolist() for segment in each.get_segments())
    }
    metrics = run.to_json()["metrics"]
    assert found == {
        (delay, *metrics[f"{name(mode, delay)}.iteration_time"]["ci95"]) for mode, delay in TIMES
    }


@pytest.mark.parametrize("form", [WIDE, NARROW])
def test_each_delay_is_named_below_its_points_with_room_between_0_and_the_smallest(run, form):
    ax = the_axes(run, form)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0 s", "10 ms", "1 s"]
    left, middle, right = (ax.transData.transform((d, 1.0))[0] for d in (0.0, 0.01, 1.0))
    assert 0.1 < (middle - left) / (right - left) < 0.3
    legend = ax.figure.legends[0]
    assert [text.get_text() for text in legend.texts] == ["on-demand", "provisioned", "learned"]


def test_the_report_and_the_files_of_figures_have_the_iterations_over_the_delay(run, tmp_path):
    write_html(run, [], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "<h2>Rails</h2>" in text and 'aria-label="delays"' in text
    write_figures(run, tmp_path / "figures", tmp_path)
    with (tmp_path / "figures" / "delays.csv").open() as file:
        rows = list(csv.DictReader(file))
    told = [(row["mode"], float(row["delay"]), row["predicted"]) for row in rows]
    assert told[:2] == [("on-demand", 0.0, ""), ("provisioned", 0.0, "0.289")]
    assert len(rows) == len(TIMES)


def test_arms_of_a_sweep_have_their_short_names_in_figures(run):
    long = {one.arm: f"lab.twin.settle={one.arm}" for one in run.sweeps[0]}
    renamed = summary(
        *(replace(one, arm=long[one.arm]) for one in run.trials),
        sweeps=[[replace(one, arm=long[one.arm]) for one in run.sweeps[0]]],
    )
    (drawing,) = (one for one in drawings(shortened(renamed)) if one.name == "delays")
    assert drawing.rows[0][0] == "settle=on-demand-0"
    assert len(drawing.rows) == len(TIMES)


def test_a_run_without_a_sweep_has_no_figure_of_delays(run, tmp_path):
    none = replace(run, sweeps=())
    assert not [one for one in drawings(none) if one.name.startswith("delays")]
    write_html(none, [], tmp_path / "report.html")
    assert "<h2>Rails</h2>" not in (tmp_path / "report.html").read_text()
