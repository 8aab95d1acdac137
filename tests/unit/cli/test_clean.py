"""The verb `clean` deletes old runs, and none that somebody still needs."""

import json
import os

from testbed.cli import run as command_line
from testbed.record.journal import Journal
from testbed.record.rundir import runs
from tests.unit.cli import records


def clean(results, *options):
    return command_line(["clean", "--results", str(results), *options])


def left(results):
    return [run.id for run in runs(results)]


def test_the_newest_runs_are_kept_and_each_deleted_one_is_named(tmp_path, capsys):
    made = [records.ended(tmp_path, name).id for name in "abcd"]
    assert clean(tmp_path, "--keep", "2") == 0
    gone = sorted(made)[:2]
    assert left(tmp_path) == sorted(made)[2:]
    said = capsys.readouterr()
    assert said.out.splitlines() == [f"deleted {tmp_path / name}" for name in gone]
    assert said.err == f"2 of 4 runs in {tmp_path} deleted\n"


def test_a_dry_run_deletes_nothing_and_prints_the_same(tmp_path, capsys):
    made = [records.ended(tmp_path, name).id for name in "ab"]
    assert clean(tmp_path, "--keep", "0", "--dry-run", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows == [{"run": name, "kept": None} for name in sorted(made)]
    assert left(tmp_path) == sorted(made)


def test_a_run_with_an_open_undo_is_kept_with_a_hint(tmp_path, capsys):
    run = records.owing(tmp_path)
    assert clean(tmp_path, "--keep", "0") == 0
    assert left(tmp_path) == [run.id]
    assert f"type: testbed recover {run.path}" in capsys.readouterr().out


def test_a_run_with_an_unreadable_journal_is_kept(tmp_path, capsys):
    run = records.ended(tmp_path)
    run.journal.write_text("no entry\n{}\n")
    assert clean(tmp_path, "--keep", "0") == 0
    assert left(tmp_path) == [run.id]
    assert "it is not known what it left changed" in capsys.readouterr().out


def test_a_running_run_and_latest_are_kept(tmp_path):
    run = records.made(tmp_path)
    journal = Journal(run.journal)
    assert clean(tmp_path, "--keep", "0") == 0
    journal.close()
    assert (tmp_path / "latest").resolve() == run.path


def test_a_running_model_run_without_a_journal_is_kept(tmp_path):
    run = records.made(tmp_path)
    run.events.write_text("{}\n")
    assert clean(tmp_path, "--keep", "0") == 0
    assert left(tmp_path) == [run.id]
    os.utime(run.events, (0, 0))
    assert clean(tmp_path, "--keep", "0") == 0
    assert left(tmp_path) == []
    assert not (tmp_path / "latest").is_symlink()


def test_latest_points_to_the_newest_that_is_left(tmp_path):
    going_on = records.made(tmp_path, "model")
    records.ended(tmp_path, "zulu")
    going_on.events.write_text("{}\n")
    assert clean(tmp_path, "--keep", "0") == 0
    assert (tmp_path / "latest").resolve() == going_on.path


def test_the_number_of_runs_to_keep_is_required(tmp_path, capsys):
    assert clean(tmp_path) == 2
    assert "--keep" in capsys.readouterr().err
