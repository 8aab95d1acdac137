"""The verb `export`: every value and mark of every trial, as CSV and as Parquet."""

import csv
import io
import sys

import pytest

from testbed.cli import run as command_line
from testbed.cli.exporting import COLUMNS
from tests.unit.cli import records

TRIALS = [
    {
        "trial": 0,
        "variant": "warm",
        "outcome": "recovered",
        "valid": True,
        "values": {"recovery_time": 0.125, "digest": "abc", "rank_ready": None},
        "predicted": {"recovery_time": 0.1},
        "marks": {"t0": 0.0, "t10": 0.125},
        "mark_errors": {"t10": 0.001},
    },
    {
        "trial": 1,
        "variant": "warm",
        "outcome": "done",
        "valid": False,
        "values": {},
        "predicted": {},
        "marks": None,
        "mark_errors": None,
    },
]


def exported(capsys, *line):
    assert command_line(["export", *line]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_each_value_prediction_and_mark_is_a_row(tmp_path, capsys):
    run = records.ended(tmp_path, trials=TRIALS)
    rows = exported(capsys, str(run.path))
    assert list(rows[0]) == list(COLUMNS)
    told = [
        [row[key] for key in ("sort", "name", "value", "text", "unit", "bound")] for row in rows
    ]
    assert told == [
        ["value", "recovery_time", "0.125", "", "s", ""],
        ["value", "digest", "", "abc", "", ""],
        ["value", "rank_ready", "", "", "", ""],
        ["predicted", "recovery_time", "0.1", "", "s", ""],
        ["mark", "t0", "0.0", "", "s", ""],
        ["mark", "t10", "0.125", "", "s", "0.001"],
        ["value", "recovery_time", "", "", "s", ""],
        ["value", "digest", "", "", "", ""],
        ["value", "rank_ready", "", "", "", ""],
    ]
    assert {row["run"] for row in rows} == {run.id} and {row["arm"] for row in rows} == {"warm"}


def test_a_failed_trial_has_a_row_also_where_no_trial_has_a_value(tmp_path, capsys):
    failed = TRIALS[1] | {"outcome": "failed"}
    (row,) = exported(capsys, str(records.ended(tmp_path, trials=[failed]).path))
    assert [row[key] for key in ("trial", "outcome", "name", "value")] == ["1", "failed", "", ""]


def test_each_exported_value_of_a_flagged_metric_has_the_flag(tmp_path, capsys):
    flags = {"warm.recovery_time": "too good to be true"}
    run = records.ended(tmp_path, trials=TRIALS[:1])
    run.write_json("summary.json", run.read_json("summary.json") | {"flags": flags})
    rows = exported(capsys, str(run.path))
    flagged = [(row["sort"], row["name"]) for row in rows if row["flag"]]
    assert flagged == [("value", "recovery_time")]


def test_the_metric_of_a_program_has_the_unit_that_its_run_says(tmp_path, capsys):
    trial = TRIALS[0] | {"values": {"score": 98.2}, "predicted": {}, "marks": None}
    metrics = {"warm.score": {"unit": "%", "better": "higher", "n": 1, "median": 98.2}}
    (row,) = exported(capsys, str(records.ended(tmp_path, trials=[trial], metrics=metrics).path))
    assert (row["name"], row["value"], row["unit"]) == ("score", "98.2", "%")


def test_several_runs_are_exported_as_one_table(tmp_path, capsys):
    runs = [records.ended(tmp_path, name, trials=TRIALS) for name in "ab"]
    ends = [run.id[-6:] for run in runs]
    rows = exported(capsys, *ends, "--results", str(tmp_path))
    assert [rows[0]["experiment"], rows[-1]["experiment"]] == ["a", "b"]


def test_a_run_without_a_summary_is_refused_with_a_hint(tmp_path, capsys):
    run = records.made(tmp_path)
    assert command_line(["export", str(run.path)]) == 2
    assert f"compute it: testbed report {run.path}" in capsys.readouterr().err


def test_parquet_holds_the_same_rows_with_their_types(tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    run = records.ended(tmp_path, trials=TRIALS)
    assert command_line(["export", str(run.path), "--parquet", str(tmp_path / "x.parquet")]) == 0
    table = parquet.read_table(tmp_path / "x.parquet")
    assert table.column_names == list(COLUMNS)
    first, last = (table.to_pylist()[number] for number in (0, 5))
    assert (first["value"], first["text"], first["trial"], first["valid"]) == (0.125, None, 0, True)
    assert (last["name"], last["bound"]) == ("t10", 0.001)


def test_without_pyarrow_the_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    run = records.ended(tmp_path, trials=TRIALS)
    assert command_line(["export", str(run.path), "--parquet", str(tmp_path / "x")]) == 2
    assert "pip install 'optical-testbed[parquet]'" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_exporting_csv_and_parquet_at_once_is_refused(tmp_path, capsys):
    run = records.ended(tmp_path, trials=TRIALS)
    assert command_line(["export", str(run.path), "--csv", "--parquet", "x"]) == 2


@pytest.mark.parametrize("trials", [[{}], [1], 7, [{**TRIALS[0], "values": [1]}]])
def test_a_damaged_summary_is_reported_in_one_sentence(tmp_path, capsys, trials):
    run = records.ended(tmp_path)
    run.write_json("summary.json", {"trials": trials})
    assert command_line(["export", str(run.path)]) == 2
    said = capsys.readouterr()
    assert "does not have the format that `testbed` writes" in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
