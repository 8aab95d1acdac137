"""Which runs owe something, and the command that recovers them, on real lines."""

import json

import pytest
from killed_run import ONE, ONE_CROSSED, KilledRun

import testbed.cli
from testbed.record.journal import Journal
from testbed.record.rundir import RunDirectory
from testbed.run.dead_runs import DeadRun, owing_runs


def directory(results, *promises, facts=None):
    """Return the directory of a run that is over and promised something."""
    run = RunDirectory.create(results, "lumion")
    journal = Journal(run.journal)
    for promise in promises:
        journal.promise(promise)
    journal.close()
    if facts is not None:
        run.write_json("run.json", facts)
    return run


def owing(results, leased=()):
    return {run.id for run in owing_runs(results, leased)}


def test_a_run_owes_what_it_promised_and_never_settled(tmp_path):
    directory(tmp_path)
    RunDirectory.create(tmp_path, "killed-before-its-journal")
    assert owing(tmp_path) == set()
    run = directory(tmp_path, "circuits")
    assert owing(tmp_path) == {run.id}


def test_a_run_that_goes_on_owes_nothing_yet(tmp_path):
    run = directory(tmp_path, "circuits")
    held = Journal.resume(run.journal)
    assert owing(tmp_path) == set()
    held.close()
    assert owing(tmp_path) == {run.id}


def test_a_journal_that_cannot_be_read_may_owe_anything(tmp_path):
    run = directory(tmp_path)
    run.journal.write_text("nonsense\n{}\n")
    assert owing(tmp_path) == {run.id}


def test_a_run_that_died_elsewhere_is_known_by_its_leases(tmp_path):
    run = directory(tmp_path / "elsewhere", "circuits")
    assert owing(tmp_path / "results") == set()
    assert owing(tmp_path / "results", [run, RunDirectory(tmp_path / "gone")]) == {run.id}
    assert len(list(owing_runs(tmp_path / "elsewhere", [run]))) == 1


def test_the_lab_is_the_one_that_the_run_used_with_what_was_set_for_it(tmp_path, desk):
    run = directory(tmp_path, facts={"overrides": ["lab.twin.settle=80 ms", "trials=2"]})
    run.write_text("lab.yaml", desk.lab)
    assert DeadRun.read(run).lab().twin.settle == pytest.approx(0.08)


# --- the command -----------------------------------------------------------------------------


@pytest.fixture
def killed(tmp_path, ssh_host, monkeypatch):
    """A run that was killed with a circuit lit, in the directory `results` here."""
    monkeypatch.chdir(tmp_path)
    with ssh_host.at_home():
        run = KilledRun(tmp_path, ssh_host.port)
        run.begin()
        run.change(ONE)
        run.kill()
        monkeypatch.setattr("testbed.cli.recovering.leases_of", lambda lab: run.leases)
        yield run
        run.close()


def command(capsys, *words):
    """Type a command; return its exit code and what it printed on both its outputs."""
    code = testbed.cli.run(["recover", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_command_finds_what_owes_and_tells_each_step(killed, capsys):
    code, out, err = command(capsys)
    assert code == 0 and killed.shown() == {}
    assert f"{killed.directory.id}, on small\n  ok   circuits of ocs\n" in out
    assert "taking back circuits of ocs" in err
    assert command(capsys)[:2] == (0, "nothing is left to take back\n")


def test_whoever_does_not_read_what_it_says_keeps_it_from_nothing(
    killed, capsys, monkeypatch, full_pipe
):
    with monkeypatch.context() as terminal:
        terminal.setattr("sys.stderr", full_pipe[1])
        code = command(capsys)[0]
    assert code == 0 and killed.shown() == {} and killed.promised() == []


def test_whoever_leaves_before_it_is_through_keeps_it_from_nothing(
    killed, capsys, monkeypatch, left_pipe
):
    with monkeypatch.context() as terminal:
        terminal.setattr("sys.stderr", left_pipe)
        code = command(capsys)[0]
    assert code == 0 and killed.shown() == {} and killed.promised() == []


def test_its_json_is_what_the_record_says(killed, capsys):
    code, out, _ = command(capsys, "latest", "--json")
    (told,) = json.loads(out)
    assert code == told["exit_code"] == 0 and told["run"] == killed.directory.id
    assert told["steps"] == [{"what": "circuits of ocs", "problem": "", "notes": []}]


def test_what_is_left_is_told_with_what_to_type(killed, capsys):
    killed.switch.fault("stuck", port=1)
    code, out, _ = command(capsys)
    assert code == 6
    assert "  FAIL circuits of ocs\n  LEFT circuits of ocs: ocs could not be brought back" in out
    assert f"testbed recover {killed.directory.id}" in out


def test_a_run_that_nobody_can_read_keeps_no_other_from_being_recovered(killed, tmp_path, capsys):
    directory(tmp_path / "results", "circuits")
    broken = directory(tmp_path / "results", facts={"label": "measured-hw", "lab": "small"})
    broken.journal.write_text("nonsense\n{}\n")
    broken.write_text("lab.yaml", killed.lab.source.text)
    code, _, err = command(capsys)
    assert code == 6 and killed.shown() == {}
    assert "holds no readable run.json" in err and "is no entry of an undo journal" in err


def test_an_event_log_that_is_broken_stops_no_clean_up(killed, capsys):
    killed.directory.events.write_text("nonsense\n" + killed.directory.events.read_text())
    assert command(capsys)[0] == 0
    assert killed.shown() == {}


def test_a_run_of_a_twin_that_is_gone_is_settled_without_touching_anything(killed, capsys):
    facts = killed.directory.read_json("run.json")
    killed.directory.write_json("run.json", {**facts, "label": "measured-twin", "twin": "gone"})
    code, out, _ = command(capsys)
    assert code == 0 and "the twin that it ran in is gone" in out
    assert killed.shown() == ONE_CROSSED and killed.promised() == []


def test_only_the_runs_of_the_lab_that_is_named_are_recovered(killed, tmp_path, capsys):
    (tmp_path / "other.yaml").write_text(killed.lab.source.text.replace("lab: small", "lab: other"))
    assert command(capsys, "--lab", "other.yaml")[1] == "nothing is left to take back\n"
    assert killed.shown() == ONE_CROSSED
    assert command(capsys, "--lab", str(killed.directory.path / "lab.yaml"))[0] == 0
    assert killed.shown() == {}
