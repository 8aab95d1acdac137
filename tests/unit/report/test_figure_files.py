"""The figures of a run as files."""

from __future__ import annotations

import csv
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from testbed.errors import UsageError
from testbed.report import figures
from testbed.report.canvas import INK, NARROW
from testbed.report.figure_files import write_figures
from tests.unit.report.runs_by_hand import recovery, summary, trial


def table(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def written(recoveries, summarised, tmp_path_factory):
    """Write the figures of the real run of two recoveries; return the folder and the summary."""
    found, folder = summarised(recoveries), tmp_path_factory.mktemp("real") / "figures"
    files = write_figures(found, folder, folder.parent)
    assert sorted(files) == sorted(folder.iterdir())
    return folder, found


def test_each_figure_is_written_as_svg_pdf_and_csv(written):
    folder, _ = written
    names = {path.stem for path in folder.iterdir()}
    assert names == {"anatomy", "times", "steps", "dips", "marks"}
    for name in names:
        svg = (folder / f"{name}.svg").read_text()
        assert ET.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(--" not in svg and not re.search("#01010|#02020|#03030", svg)
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF-")
        assert table(folder / f"{name}.csv")


def test_the_csv_files_of_figures_hold_the_measured_values(written):
    folder, found = written
    times = {row["arm"]: float(row["recovery_time"]) for row in table(folder / "times.csv")}
    medians = {
        row["arm"]: float(row["median"])
        for row in table(folder / "anatomy.csv")
        if row["part"] == "whole"
    }
    expected = {t.arm: pytest.approx(t.values["recovery_time"], abs=1e-9) for t in found.trials}
    assert times == expected and medians == expected
    for row, one in zip(table(folder / "marks.csv"), found.trials, strict=True):
        assert float(row["t10"]) == pytest.approx(one.marks.relative()["t10"], abs=1e-9)


def test_the_figure_of_recoveries_leaves_no_room_for_parts_that_it_does_not_name(written):
    folder, found = written
    arms = {trial.arm for trial in found.trials}
    height = re.search(r'height="([0-9.]+)pt"', (folder / "anatomy.svg").read_text())
    assert height and float(height[1]) == pytest.approx(72 * (1.0 + 0.85 * len(arms)))


def test_the_csv_file_of_bandwidth_has_a_row_for_each_arm_and_size(tmp_path):
    values = [{"busbw_4kib": 1e6 + n, "busbw_1mib": 4e8 + n} for n in range(6)]
    found = summary(*(trial(n, values=values[n]) for n in range(6)))
    write_figures(found, tmp_path, tmp_path)
    rows = table(tmp_path / "busbw.csv")
    assert [(row["arm"], row["bytes"], row["n"]) for row in rows] == [
        ("warm", "4096", "6"),
        ("warm", "1048576", "6"),
    ]
    assert float(rows[1]["median"]) == 400000002.5
    assert (float(rows[1]["ci95_low"]), float(rows[1]["ci95_high"])) == (4e8, 4e8 + 5)


def test_the_csv_file_of_bandwidth_flags_sizes_above_the_rate_of_a_port(tmp_path):
    found = summary(*(trial(n, values={"busbw_4kib": 6e8, "busbw_1mib": 4e8}) for n in range(6)))
    why = "600 Mbit/s is above the 500 Mbit/s of a port"
    write_figures(replace(found, flags={"warm.busbw_4kib": why}), tmp_path, tmp_path)
    assert [row["flag"] for row in table(tmp_path / "busbw.csv")] == [why, ""]
    assert "circled: more than a port carries" in (tmp_path / "busbw.svg").read_text()


def test_a_bandwidth_above_the_rate_of_a_port_is_circled_in_the_colour_of_the_text():
    found = summary(*(trial(n, values={"busbw_4kib": 6e8}) for n in range(6)))
    metric = found.metrics["warm.busbw_4kib"]
    sizes = {"warm": {4096: metric, 1 << 20: metric}}
    drawn = figures.bandwidth(sizes, {("warm", 4096)}, NARROW).axes[0]
    circles = [line for line in drawn.lines if line.get_markerfacecolor() == "none"]
    assert [(list(c.get_xdata()), c.get_markeredgecolor()) for c in circles] == [([4096], INK)]
    assert max(map(len, drawn.get_xlabel().splitlines())) <= NARROW.letters


def test_existing_figures_are_replaced_and_no_link_is_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    folder = tmp_path / "figures"
    folder.mkdir()
    (folder / "times.svg").symlink_to(elsewhere)
    (folder / "times.pdf").write_text("of an earlier call")
    write_figures(summary(recovery(0)), folder, tmp_path)
    assert elsewhere.read_text() == "mine"
    assert not (folder / "times.svg").is_symlink()
    assert (folder / "times.pdf").read_bytes().startswith(b"%PDF-")
    (tmp_path / "linked").symlink_to(folder)
    with pytest.raises(UsageError, match="not a directory"):
        write_figures(summary(recovery(0)), tmp_path / "linked", tmp_path)
