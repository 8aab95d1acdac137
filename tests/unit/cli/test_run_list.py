"""The verb `list`, over runs that ended and runs that were killed."""

import json
import os

import pytest

from testbed.cli import run as command_line
from testbed.record.journal import Journal
from testbed.record.rundir import RunDirectory
from tests.unit.cli import records

RECOVERY = "warm.recovery_time"


def listed(tmp_path, capsys, *options):
    assert command_line(["list", "runs", "--results", str(tmp_path), "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def metric(median, better="lower"):
    return {RECOVERY: {"unit": "s", "better": better, "n": 9, "median": median}}


def test_list_runs_shows_other_runs_beside_one_killed_before_it_wrote_a_file(tmp_path, capsys):
    killed, unfinished, ended = (RunDirectory.create(tmp_path, name) for name in "abc")
    for run in (unfinished, ended):
        run.write_json("run.json", {"run": run.id, "label": "measured-twin"})
    ended.write_json("summary.json", {"outcome": "passed", "reason": "all checks passed"})
    rows = {row["run"]: row["outcome"] for row in listed(tmp_path, capsys)}
    assert rows == {killed.id: "unreadable", unfinished.id: "unfinished", ended.id: "passed"}


def test_list_runs_shows_the_state_of_a_run_without_a_summary(tmp_path, capsys):
    records.owing(tmp_path)
    records.recovered(tmp_path)
    going_on = Journal(records.made(tmp_path, "going").journal)
    rows = {row["experiment"]: row for row in listed(tmp_path, capsys)}
    going_on.close()
    assert {name: row["outcome"] for name, row in rows.items()} == {
        "killed": "unrecovered",
        "mended": "recovered",
        "going": "running",
    }
    assert rows["killed"]["reason"] == f"type: testbed recover {tmp_path}/{rows['killed']['run']}"


def test_list_runs_shows_open_undos_beside_a_summary(tmp_path, capsys):
    for run in (records.owing(tmp_path), records.recovered(tmp_path)):
        run.write_json("summary.json", {"outcome": "aborted", "reason": "ended by SIGINT"})
    rows = {row["experiment"]: row for row in listed(tmp_path, capsys)}
    assert rows["killed"]["outcome"] == "unrecovered"
    recover = f"type: testbed recover {tmp_path}/{rows['killed']['run']}"
    assert rows["killed"]["reason"] == f"aborted: ended by SIGINT; {recover}"
    assert rows["mended"]["outcome"] == "recovered"
    assert rows["mended"]["reason"].startswith("aborted: ended by SIGINT; all that it had changed")


def test_the_table_of_runs_has_headings_labs_dates_and_overrides(tmp_path, capsys):
    run = records.ended(tmp_path, overrides=["lab.twin.rate=1 Gbit/s"], metrics=metric(0.0321))
    options = ["--results", str(tmp_path), "--metric", RECOVERY]
    assert command_line(["list", "runs", *options]) == 0
    headings, row = capsys.readouterr().out.splitlines()
    assert headings.split() == [
        *("RUN", "EXPERIMENT", "STARTED", "LAB", "LABEL", "OUTCOME", RECOVERY),
        *("OVERRIDES", "REASON"),
    ]
    for column, cell in (
        ("RUN", run.id[-6:]),
        ("STARTED", "2026-11-22 10:00"),
        ("LAB", "rack"),
        (RECOVERY, "32.1 ms (n=9)"),
        ("OVERRIDES", "'lab.twin.rate=1 Gbit/s'"),
        ("REASON", "as planned"),
    ):
        assert row[headings.index(column) :].startswith(cell), column


def test_list_runs_can_select_one_experiment_and_the_newest_runs(tmp_path, capsys):
    for name in ("a", "b", "a", "a"):
        records.ended(tmp_path, name)
    every = listed(tmp_path, capsys, "--experiment", "a")
    assert [row["experiment"] for row in every] == ["a"] * 3
    assert listed(tmp_path, capsys, "--experiment", "a", "--last", "2") == every[-2:]


@pytest.mark.parametrize(("better", "best"), [("lower", [0.1, 0.2]), ("higher", [0.3, 0.2])])
def test_the_best_runs_come_first_in_the_direction_of_the_metric(tmp_path, capsys, better, best):
    for median in (0.2, 0.1, None, 0.3):
        records.ended(tmp_path, metrics=metric(median, better))
    rows = listed(tmp_path, capsys, "--metric", RECOVERY, "--best", "2")
    assert [row["value"] for row in rows] == best


def test_the_best_of_the_newest_runs_are_listed(tmp_path, capsys):
    for second, median in enumerate((0.1, 0.4, 0.2, 0.3)):
        made = records.ended(tmp_path, metrics=metric(median)).path
        made.rename(tmp_path / f"20261122T10000{second}Z-lumion-00000{second}")
    rows = listed(tmp_path, capsys, "--last", "3", "--metric", RECOVERY, "--best", "2")
    assert [row["value"] for row in rows] == [0.2, 0.3]


@pytest.mark.parametrize("option", ["--last", "--best"])
def test_listing_zero_runs_is_refused(tmp_path, capsys, option):
    line = ["list", "runs", "--results", str(tmp_path), "--metric", RECOVERY, option, "0"]
    assert command_line(line) == 2
    assert f"Invalid value for '{option}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--experiment lumoin", "did you mean 'lumion'?"),
        ("--metric recovery_time", "known: cold.recovery_time, warm.recovery_time"),
        ("--metric warm.recovery_tim", "did you mean 'warm.recovery_time'?"),
        ("--best 2", "--best needs a metric"),
    ],
)
def test_an_unknown_metric_is_reported_with_the_nearest_name(tmp_path, capsys, options, words):
    both = {name: metric(0.1)[RECOVERY] for name in (RECOVERY, "cold.recovery_time")}
    records.ended(tmp_path, metrics=both)
    line = ["list", "runs", "--results", str(tmp_path), *options.split()]
    assert command_line(line) == 2
    assert words in capsys.readouterr().err


def test_a_metric_of_a_run_with_one_arm_needs_no_arm(tmp_path, capsys):
    records.ended(tmp_path, metrics=metric(0.3))
    both = {name: metric(0.1)[RECOVERY] for name in (RECOVERY, "cold.recovery_time")}
    records.ended(tmp_path, metrics=both)
    rows = listed(tmp_path, capsys, "--metric", "recovery_time")
    assert sorted((row["value"], row["metric"]) for row in rows if row["value"]) == [
        (0.3, "recovery_time")
    ]
    assert [row["value"] for row in rows if not row["value"]] == [None]


def test_a_bandwidth_above_the_line_rate_is_explained_below_the_list_of_runs(tmp_path, capsys):
    found = {"unit": "bit/s", "better": "higher", "n": 9, "median": 6e8}
    run = records.ended(tmp_path, metrics={"warm.busbw": found})
    why = "600 Mbit/s is above the 500 Mbit/s of a port"
    run.write_json("summary.json", run.read_json("summary.json") | {"flags": {"warm.busbw": why}})
    wanted = ["list", "runs", "--results", str(tmp_path), "--metric", "warm.busbw", "--best", "1"]
    assert command_line(wanted) == 0
    told = capsys.readouterr().out
    assert ", see below)" in told
    assert told.splitlines()[-1] == f"warm.busbw of {run.id[-6:]}: {why}"


def test_a_folder_without_runs_is_named(tmp_path, capsys):
    assert command_line(["list", "runs", "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().err == f"{tmp_path} holds no runs\n"


def test_a_manual_change_has_its_own_report(tmp_path, capsys):
    run = records.made(tmp_path, "switch")
    run.write_json("summary.json", {"outcome": "failed", "reason": "ocs refused: rolled back"})
    assert command_line(["report", str(run.path)]) == 1
    assert "reason   ocs refused: rolled back" in capsys.readouterr().out


@pytest.mark.parametrize(
    "metrics", [{RECOVERY: 1}, {RECOVERY: {"median": "x", "unit": "s"}}, [1], {RECOVERY: {}}]
)
def test_list_runs_shows_a_damaged_metric_as_absent(tmp_path, capsys, metrics):
    records.ended(tmp_path, metrics=metrics)
    records.ended(tmp_path, metrics=metric(0.1))
    rows = listed(tmp_path, capsys, "--metric", RECOVERY, "--best", "9")
    assert [row["value"] for row in rows] == [0.1]


def test_a_fifo_instead_of_an_event_log_does_not_block(tmp_path, capsys):
    os.mkfifo(records.made(tmp_path).events)
    assert [row["outcome"] for row in listed(tmp_path, capsys)] == ["unfinished"]


def test_a_metric_is_found_by_the_short_name_of_its_arm(tmp_path, capsys):
    values = {"lab.twin.settle=1 ms.recovery_time": metric(0.5)[RECOVERY]}
    records.ended(tmp_path, metrics=values)
    (row,) = listed(tmp_path, capsys, "--metric", "settle=1 ms.recovery_time")
    assert (row["value"], row["metric"]) == (0.5, "settle=1 ms.recovery_time")
    (row,) = listed(tmp_path, capsys, "--metric", "lab.twin.settle=1 ms.recovery_time")
    assert row["value"] == 0.5


def test_an_unknown_metric_lists_metrics_once_without_arms_or_suggests_a_near_one(tmp_path, capsys):
    long = {f"lab.twin.settle={n} ms.recovery_time": metric(1.0)[RECOVERY] for n in (1, 2)}
    records.ended(tmp_path, metrics=long)
    listing = ["list", "runs", "--results", str(tmp_path), "--metric"]
    assert command_line([*listing, "nosuch"]) == 2
    assert capsys.readouterr().err.rstrip().endswith("known: recovery_time")
    assert command_line([*listing, "recovery_tim"]) == 2
    assert "did you mean 'recovery_time'?" in capsys.readouterr().err
    assert command_line([*listing, "recovery_time"]) == 2
    assert "known: settle=1 ms.recovery_time, settle=2 ms.recovery_time" in capsys.readouterr().err
