"""Which runs owe something, and the command that recovers them, on real lines."""

import json
import os
import socket
from pathlib import Path

import pytest

import testbed.cli
from testbed.bench.lease_resources import needs
from testbed.errors import UsageError
from testbed.record.journal import Journal
from testbed.record.lease_store import FileStore
from testbed.record.leases import Leases
from testbed.record.log import EventLog, read_events
from testbed.record.rundir import RunDirectory
from testbed.run.crash_recovery.crashed_runs import CrashedRun, runs_to_recover
from testbed.twin.machine import TWIN_VARIABLE
from tests.unit.run.killed_run import ONE, ONE_CROSSED, KilledRun


def directory(results, *undos, facts=None):
    """Return the directory of a run that is over and left something changed."""
    run = RunDirectory.create(results, "lumion")
    journal = Journal(run.journal)
    for undo in undos:
        journal.record_undo(undo)
    journal.close()
    if facts is not None:
        run.write_json("run.json", facts)
    return run


def owing(results, leased=()):
    return {run.id for run in runs_to_recover(results, leased)}


def test_a_run_with_open_journal_entries_is_to_be_recovered(tmp_path):
    directory(tmp_path)
    RunDirectory.create(tmp_path, "killed-before-its-journal")
    assert owing(tmp_path) == set()
    run = directory(tmp_path, "circuits")
    assert owing(tmp_path) == {run.id}


def test_a_running_run_is_not_to_be_recovered(tmp_path):
    run = directory(tmp_path, "circuits")
    held = Journal.resume(run.journal)
    assert owing(tmp_path) == set()
    held.close()
    assert owing(tmp_path) == {run.id}


def test_a_run_with_an_unreadable_journal_is_to_be_recovered(tmp_path):
    run = directory(tmp_path)
    run.journal.write_text("nonsense\n{}\n")
    assert owing(tmp_path) == {run.id}


def test_a_run_in_another_results_folder_is_found_by_its_leases(tmp_path):
    run = directory(tmp_path / "elsewhere", "circuits")
    assert owing(tmp_path / "results") == set()
    gone = RunDirectory(tmp_path / "gone")  # what it changed is not known any more
    assert owing(tmp_path / "results", [run, gone]) == {run.id, "gone"}
    assert len(list(runs_to_recover(tmp_path / "elsewhere", [run]))) == 1


def test_the_lab_is_read_from_the_runs_copy_with_its_overrides(tmp_path, desk):
    run = directory(
        tmp_path, facts={"label": "model", "overrides": ["lab.twin.settle=80 ms", "trials=2"]}
    )
    run.write_text("lab.yaml", desk.lab)
    assert CrashedRun.read(run).lab().twin.settle == pytest.approx(0.08)


NOBODY = 65534
OBEYED = [".", "run.json", "lab.yaml", "journal.jsonl"]


@pytest.fixture
def whole(tmp_path, desk):
    """The directory of a run that is over, with all that recovering it obeys."""
    run = directory(tmp_path, "circuits", facts={"label": "model", "lab": "bench"})
    run.write_text("lab.yaml", desk.lab)
    return run


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")
@pytest.mark.parametrize("name", OBEYED)
def test_a_run_of_another_user_is_refused_and_the_owner_named(whole, name):
    assert CrashedRun.read(whole).lab_name == "bench"
    os.chown(whole.path / name, NOBODY, -1)
    with pytest.raises(UsageError, match=rf"belongs to nobody.* run it as nobody: .*{whole.id}"):
        CrashedRun.read(whole)


@pytest.mark.parametrize("name", OBEYED)
def test_a_world_writable_run_is_refused(whole, name):
    (whole.path / name).chmod(0o777)
    with pytest.raises(UsageError, match=f"everybody may write to .*chmod -R o-w .*{whole.id}"):
        CrashedRun.read(whole)


def test_a_run_directory_is_resolved_once_and_later_links_do_not_change_it(whole, tmp_path):
    link = tmp_path / whole.id.upper()
    link.symlink_to(whole.path)
    assert CrashedRun.read(RunDirectory(link)).directory == RunDirectory(whole.path.resolve())


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


def test_the_command_recover_recovers_all_open_runs_and_prints_each_undo(killed, capsys):
    code, out, err = command(capsys)
    assert code == 0 and killed.shown() == {}
    assert f"{killed.directory.id}, on small\n  ok   circuits of ocs\n" in out
    assert "taking back circuits of ocs" in err
    code, out, err = command(capsys)
    assert (code, out) == (0, "nothing is left to take back\n")
    assert "a twin that is up has its own: --twin NAME" in err


def test_recover_inside_a_twin_does_not_name_the_option_twin(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(TWIN_VARIABLE, "rack")
    leases = Leases(FileStore(tmp_path / "leases.sqlite"))  # this machine's may name open runs
    monkeypatch.setattr("testbed.cli.recovering.leases_of", lambda lab: leases)
    code, out, err = command(capsys)
    assert (code, out) == (0, "nothing is left to take back\n")
    assert "--twin NAME" not in err


def test_a_full_output_pipe_does_not_block_recover(killed, capsys, monkeypatch, full_pipe):
    with monkeypatch.context() as terminal:
        terminal.setattr("sys.stderr", full_pipe[1])
        code = command(capsys)[0]
    assert code == 0 and killed.shown() == {} and killed.open_undos() == []


def test_a_closed_output_pipe_does_not_stop_recover(killed, capsys, monkeypatch, left_pipe):
    with monkeypatch.context() as terminal:
        terminal.setattr("sys.stderr", left_pipe)
        code = command(capsys)[0]
    assert code == 0 and killed.shown() == {} and killed.open_undos() == []


def test_a_hint_of_recover_names_the_lab_of_the_run(killed, capsys):
    killed.leases.unlock(killed.lease.resources, forced=True)
    killed.leases.lock(killed.lease.resources, "cleaning", 60.0)
    code, _, err = command(capsys, "latest")
    assert code == 5 and "`testbed unlock ocs.1-8 --lab " in err
    assert f" --lab {killed.directory.path}/lab.yaml` gives it back" in err


def test_the_json_output_of_recover_equals_the_record(killed, capsys):
    code, out, _ = command(capsys, "latest", "--json")
    (told,) = json.loads(out)
    assert code == told["exit_code"] == 0 and told["run"] == killed.directory.id
    assert told["steps"] == [{"what": "circuits of ocs", "problem": "", "notes": []}]


def test_changes_that_recover_could_not_undo_are_printed_with_the_next_command(killed, capsys):
    killed.switch.fault("stuck", port=1)
    code, out, _ = command(capsys)
    assert code == 6
    assert "  FAIL circuits of ocs\n  LEFT circuits of ocs: ocs could not be brought back" in out
    assert f"testbed recover {killed.directory.path}" in out


def test_leases_of_a_killed_recover_are_released_by_the_next_one(killed, capsys):
    assert killed.recover() == 0
    killed.leases.take(needs(killed.lab, killed.lab.hosts), "recover", killed.directory).abandon()
    assert [found.standing for found in killed.leases.find()] == ["ended"]
    assert command(capsys)[:2] == (0, "nothing is left to take back\n")
    assert killed.leases.find() == []


def test_an_unreadable_run_does_not_stop_recovery_of_others(killed, tmp_path, capsys):
    directory(tmp_path / "results", "circuits")
    broken = directory(tmp_path / "results", facts={"label": "measured-hw", "lab": "small"})
    broken.journal.write_text("nonsense\n{}\n")
    broken.write_text("lab.yaml", killed.lab.source.text)
    code, _, err = command(capsys)
    assert code == 6 and killed.shown() == {}
    assert "holds no readable run.json" in err and "is not an entry of an undo journal" in err


@pytest.mark.parametrize("words", [(), ("latest",)])
def test_a_run_that_other_users_could_have_written_is_reported_and_not_recovered(
    killed, tmp_path, capsys, words
):
    if os.getuid() == 0:
        os.chown(killed.directory.path, NOBODY, -1)
    else:
        killed.directory.path.chmod(0o777)
    code, out, err = command(capsys, *words)
    assert code == 6 and killed.shown() == ONE_CROSSED
    assert f"testbed: {killed.directory.id} is not recovered: " in err and "LEFT" not in out
    assert "nothing is left" not in out


def test_a_broken_event_log_does_not_stop_recovery(killed, capsys):
    killed.directory.events.write_text("nonsense\n" + killed.directory.events.read_text())
    assert command(capsys)[0] == 0
    assert killed.shown() == {}


def test_a_run_of_a_twin_that_no_longer_exists_is_closed_without_any_undo(killed, capsys):
    on_a_twin(killed, f"{socket.gethostname()}/an earlier boot/pid:[1]/12/345")
    code, out, _ = command(capsys)
    assert code == 0 and "the twin that it ran in is gone" in out
    assert killed.shown() == ONE_CROSSED and killed.open_undos() == []


@pytest.mark.parametrize("node", ["elsewhere", socket.gethostname()])
def test_a_run_of_an_unlisted_twin_that_is_alive_is_still_to_be_recovered(killed, node, capsys):
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    on_a_twin(killed, f"{node}/{boot}/pid:[1]/12/345")
    code, out, _ = command(capsys)
    assert code == 4 and "not recovered: the twin of this run was not found among" in out
    assert killed.open_undos() != []


def on_a_twin(killed, twin, label="measured-twin"):
    facts = killed.directory.read_json("run.json")
    killed.directory.write_json("run.json", {**facts, "label": label, "twin": twin})


@pytest.mark.parametrize("twin", [None, "", 0, []])
def test_a_run_of_a_twin_that_is_not_named_is_not_recovered_on_hardware(killed, twin, capsys):
    on_a_twin(killed, twin)
    code, _, err = command(capsys, "latest")
    assert code == 6 and "run.json does not say in which twin it ran" in err
    assert killed.shown() == ONE_CROSSED and killed.open_undos() != []


def test_a_run_that_names_a_twin_is_not_recovered_on_hardware(killed, capsys):
    on_a_twin(killed, "node/boot/pid:[1]/12/345", label="measured-hw")
    assert command(capsys, "latest")[0] == 6
    assert killed.shown() == ONE_CROSSED


@pytest.mark.parametrize("facts", [[], {}, {"label": "measured"}])
def test_a_run_without_a_label_is_not_recovered(killed, facts, capsys):
    killed.directory.write_json("run.json", facts)
    code, _, err = command(capsys, "latest")
    assert code == 6
    assert "does not say whether it ran on hardware" in err or "it is not a JSON object" in err
    assert killed.shown() == ONE_CROSSED


@pytest.mark.parametrize("name", ["journal.jsonl", "events.jsonl", "lab.yaml"])
def test_a_run_with_a_corrupt_file_does_not_stop_recovery_of_others(killed, name, capsys):
    results = killed.directory.path.parent
    spoilt = directory(results, "circuits", facts={"label": "measured-hw", "lab": "small"})
    spoilt.write_text("lab.yaml", killed.lab.source.text)
    (spoilt.path / name).unlink(missing_ok=True)
    (spoilt.path / name).mkdir()
    code, out, _ = command(capsys)
    assert code != 0 and f"{spoilt.id}, on small\n  not recovered: " in out
    assert killed.shown() == {}
    assert [found.standing for found in killed.leases.find()] == []


def test_a_missing_run_directory_is_reported_until_it_exists_again(killed, tmp_path, capsys):
    killed.directory.path.parent.rename(tmp_path / "moved")
    code, out, err = command(capsys)
    assert code == 6 and out == ""
    assert f"run {killed.directory.id} crashed and left changes, but its directory " in err
    assert command(capsys, "--results", "moved")[0] == 0
    assert killed.shown() == {}


def test_a_run_killed_before_its_first_journal_entry_gets_an_end_in_its_record(killed, capsys):
    run = directory(killed.directory.path.parent, facts={"label": "measured-hw", "lab": "small"})
    run.write_text("lab.yaml", killed.lab.source.text)
    EventLog(run.events).close()
    assert "all is as it was before the run" in command(capsys, run.id)[1]
    assert [event.kind for event in read_events(run.events)] == ["recover.begin", "recover.end"]
    assert "its journal has no change to undo" in command(capsys, run.id)[1]


def test_a_run_whose_clean_up_failed_with_nothing_left_to_undo_is_recovered_once(killed, capsys):
    run = directory(killed.directory.path.parent, facts={"label": "measured-hw", "lab": "small"})
    run.write_text("lab.yaml", killed.lab.source.text)
    log = EventLog(run.events)
    end = {"cleanup": "failed", "left": ["instruments: not done"], "error": "", "signals": [2, 2]}
    log.append("run.end", run.id, **end)
    log.close()
    assert "all is as it was before the run" in command(capsys, run.id)[1]
    kinds = [event.kind for event in read_events(run.events)]
    assert kinds == ["run.end", "recover.begin", "recover.end"]
    assert "its journal has no change to undo" in command(capsys, run.id)[1]


def test_a_killed_run_of_a_model_needs_no_recovery(killed, capsys):
    run = directory(killed.directory.path.parent, facts={"label": "model", "lab": ""})
    EventLog(run.events).close()
    run.journal.unlink(missing_ok=True)  # a model has none
    assert command(capsys, run.id)[:2] == (0, f"{run.id}, on no lab\n  a model changes no device\n")


def test_a_missing_results_folder_is_an_error(killed, capsys):
    code, out, err = command(capsys, "--results", "elsewhere")
    assert (code, out) == (2, "") and "elsewhere is not a directory" in err


def test_a_run_that_is_named_with_another_lab_is_refused(killed, tmp_path, capsys):
    (tmp_path / "other.yaml").write_text(killed.lab.source.text.replace("lab: small", "lab: other"))
    code, _, err = command(capsys, "latest", "--lab", "other.yaml")
    assert code == 2 and f"{killed.directory.id} ran on small, not on the lab" in err


def test_an_earlier_recovery_is_not_printed_as_done_now(killed, capsys):
    assert "ok   circuits of ocs" in command(capsys, "latest")[1]
    code, out, _ = command(capsys, "latest")
    assert code == 0
    assert out == f"{killed.directory.id}, on small\n  its journal has no change to undo\n"
    (told,) = json.loads(command(capsys, "latest", "--json")[1])
    assert told == {"run": killed.directory.id, "exit_code": 0, "error": ""}


def test_only_the_runs_of_the_lab_that_is_named_are_recovered(killed, tmp_path, capsys):
    (tmp_path / "other.yaml").write_text(killed.lab.source.text.replace("lab: small", "lab: other"))
    assert command(capsys, "--lab", "other.yaml")[1] == "nothing is left to take back\n"
    assert killed.shown() == ONE_CROSSED
    assert command(capsys, "--lab", str(killed.directory.path / "lab.yaml"))[0] == 0
    assert killed.shown() == {}
