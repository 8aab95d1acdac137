"""The verb `export`: every value and mark of every trial, as CSV and as Parquet; a trace."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from testbed.cli import run as command_line
from testbed.cli.exporting import COLUMNS
from testbed.record.log import read_events
from tests.unit.analysis.test_trace import traced
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


GROUPS = Path(__file__).parents[1] / "analysis" / "data" / "groups.jsonl"


@pytest.fixture
def of_groups(tmp_path):
    run = records.made(tmp_path, "groups")
    run.events.write_bytes(GROUPS.read_bytes())
    return run


def test_export_writes_a_trace_of_a_run_and_says_what_its_log_lacks(of_groups, tmp_path, capsys):
    path = tmp_path / "trace.json"
    assert command_line(["export", str(of_groups.path), "--trace", str(path)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "not in the trace, as the log has none: "
        "changes of circuits, faults, decisions of controllers\n"
    )
    found = json.loads(path.read_bytes())
    assert found["otherData"] == {"run": of_groups.id, "trial": None}
    rows, _ = traced(read_events(GROUPS))
    assert found["traceEvents"] == rows and len(rows) > 100


def test_export_writes_no_trace_of_a_trial_that_no_rank_ran(of_groups, tmp_path, capsys):
    path = tmp_path / "trace.json"
    line = ["export", str(of_groups.path), "--trace", str(path), "--trial", "7"]
    assert command_line(line) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"testbed: trial 7 of {of_groups.id} gives no trace: its log has no ")
    assert list(tmp_path.glob("*trace*")) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--trial", "0"], "--trial is of a trace only; add --trace FILE"),
        (["--trace", "a", "--csv"], "--csv and --trace cannot be used together; choose one"),
        (["latest", "--trace", "a"], "--trace writes one run, not several; name one"),
    ],
)
def test_export_refuses_options_of_a_trace_that_say_nothing(options, said, capsys):
    assert command_line(["export", "latest", *options]) == 2
    assert capsys.readouterr().err == f"testbed: {said}\n"


def test_export_of_a_trace_to_a_missing_folder_fails_by_its_name(of_groups, tmp_path, capsys):
    path = tmp_path / "missing" / "trace.json"
    assert command_line(["export", str(of_groups.path), "--trace", str(path)]) != 0
    assert f"writing {path} failed" in capsys.readouterr().err
