"""Runs and changes by hand that came to nothing leave no riddles in the results."""

import json

import pytest

from testbed.cli.record import temporary_record
from testbed.cli.refused_runs import delete_if_refused
from testbed.cli.run_list import row_of
from testbed.cli.switch import _circuits
from testbed.errors import BusyError, InstrumentError, UsageError
from testbed.record.journal import Journal
from testbed.record.log import EventLog
from testbed.record.rundir import runs
from testbed.schema import load_lab
from tests.unit.cli import records

END = {"error": "ocs.1: held by bob", "exit_code": 5, "left": [], "signals": []}


@pytest.fixture
def lab():
    return load_lab("configs/rack.yaml")


def over(results, *kinds, **end):
    """Return a run whose log says how it ended."""
    run = records.made(results)
    log = EventLog(run.events)
    for kind in kinds:
        log.append(kind, "")
    log.append("run.end", **END | end)
    log.close()
    return run


def test_a_refused_run_leaves_no_directory(tmp_path):
    before = records.ended(tmp_path, "before")
    run = over(tmp_path)
    with pytest.raises(BusyError, match=r"ocs\.1: held by bob"):
        delete_if_refused(run)
    assert [one.id for one in runs(tmp_path)] == [before.id]
    assert (tmp_path / "latest").resolve() == before.path


@pytest.mark.parametrize(
    ("kinds", "end"),
    [
        (["trial.begin"], {}),
        ([], {"exit_code": 4}),
        ([], {"left": ["circuits"]}),
        ([], {"signals": [2]}),
        ([], {"error": "the lease of this run is lost: bob took h0"}),
    ],
    ids=str,
)
def test_a_run_that_changed_something_keeps_its_record(tmp_path, kinds, end):
    run = over(tmp_path, *kinds, **end)
    delete_if_refused(run)
    assert run.events.exists()


def test_a_refused_run_with_an_open_undo_keeps_its_record(tmp_path):
    run = over(tmp_path)
    journal = Journal(run.journal)
    journal.record_undo("circuits", start={}, ports=[], made=[])
    journal.close()
    delete_if_refused(run)
    assert run.events.exists()


def test_a_manual_change_that_was_rolled_back_is_recorded_as_failed(tmp_path, lab):
    with pytest.raises(InstrumentError), temporary_record(lab, tmp_path, []) as run:
        raise InstrumentError("ocs", "refused 1→17; all was taken back")
    row = row_of(run)
    assert (row["outcome"], row["reason"]) == ("failed", "ocs: refused 1→17; all was taken back")
    assert json.loads(run.summary.read_text())["lab"] == "rack"


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ("h0.p1 h9.p0", "there is no host h9, known: h0, h1"),
        ("h0.p1 h1.p9", "host h1 has no port p9, known: p0, p1"),
    ],
)
def test_an_unknown_host_or_port_is_named(lab, ends, words):
    with pytest.raises(UsageError, match=words):
        _circuits(lab, "ocs", "connect", ends.split())
