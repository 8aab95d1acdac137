"""Labs, experiments and results by name, wherever a command is typed."""

from __future__ import annotations

import io
import json
import os
import shlex
from contextlib import redirect_stderr
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from testbed.cli import run as command_line
from testbed.cli.file_lookup import (
    EXPERIMENTS,
    LAB_VARIABLE,
    LABS,
    chosen_lab,
    found_file,
    lab_file,
)
from testbed.cli.record import last_page
from testbed.commands import clear_context, typed
from testbed.errors import EXIT_LAB, UsageError
from testbed.record.rundir import RunDirectory
from testbed.twin import registry
from testbed.twin.sandbox import Sandbox
from tests.unit.report.runs_by_hand import summary

ROOT = Path(__file__).parents[3]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["rack", "rack.yaml"])
def test_a_lab_is_found_from_outside_the_checkout(elsewhere, name):
    assert lab_file(name) == ROOT / "configs" / "rack.yaml"


def test_an_experiment_is_planned_by_its_name_from_outside_the_checkout(elsewhere, capsys):
    assert command_line(["plan", "lumion", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lab"] == "rack"


def test_files_are_validated_by_name(elsewhere, capsys):
    assert command_line(["validate", "rack", "lumion"]) == 0
    assert capsys.readouterr().out.count("a valid") == 2


def test_files_of_the_working_directory_take_precedence(elsewhere, monkeypatch):
    for directory in (".", "below"):
        (elsewhere / directory / "configs").mkdir(parents=True)
        (elsewhere / directory / "experiments").mkdir()
    (elsewhere / "configs" / "bench.yaml").write_text("lab: bench")
    monkeypatch.chdir(elsewhere / "below")
    assert lab_file("bench") == elsewhere / "configs" / "bench.yaml"
    (elsewhere / "below" / "configs" / "bench.yaml").write_text("lab: bench")
    assert lab_file("bench") == Path("configs/bench.yaml")


def test_commands_in_hints_name_a_lab_beside_its_experiment_by_its_file(elsewhere):
    for directory in ("configs", "experiments"):
        (elsewhere / "far" / directory).mkdir(parents=True)
    file = elsewhere / "far" / "configs" / "bay.yaml"
    file.write_text("lab: bay")
    assert lab_file("bay", elsewhere / "far" / "experiments" / "x.yaml") == file
    assert typed("doctor") == f"testbed doctor {file}"
    assert lab_file("rack", elsewhere / "far" / "experiments" / "x.yaml").stem == "rack"
    assert typed("doctor") == "testbed doctor rack"


def test_the_next_command_of_a_report_names_a_lab_that_is_found(elsewhere):
    run = RunDirectory.create(elsewhere / "results", "x")
    run.write_text("lab.yaml", "lab: bay")
    failed = summary(outcome="error", reason="h3 is silent", exit_code=EXIT_LAB, lab="bay")

    def named():
        last = last_page(failed, run).splitlines()[-1]
        command, verb, lab, twin = shlex.split(last.removeprefix("next    "))
        assert (command, verb, twin) == ("testbed", "doctor", "--twin")
        return lab

    assert lab_file(named()) == run.path / "lab.yaml"
    clear_context()
    (elsewhere / "configs").mkdir()
    (elsewhere / "configs" / "bay.yaml").write_text("lab: bay")
    assert named() == "bay"


def test_a_path_may_leave_out_its_ending(elsewhere):
    (elsewhere / "my").mkdir()
    (elsewhere / "my" / "bench.yml").write_text("lab: bench")
    assert lab_file("my/bench") == Path("my/bench.yml")


def test_an_unknown_name_is_reported_with_the_directories_searched(elsewhere):
    (elsewhere / "configs").mkdir()
    with pytest.raises(UsageError) as refused:
        lab_file("rak")
    looked = f"(looked in configs, {ROOT / 'configs'})"
    assert str(refused.value) == f"no lab is called 'rak' {looked}; did you mean 'rack'?"


def test_a_missing_path_is_reported_with_its_directory(elsewhere):
    (elsewhere / "my").mkdir()
    (elsewhere / "my" / "bench.yaml").write_text("lab: bench")
    with pytest.raises(UsageError, match=rf"looked in {elsewhere}/my\); did you mean 'bench'"):
        found_file("my/bnch.yaml", LABS)
    with pytest.raises(UsageError, match="there is no experiment file no/x"):
        found_file("no/x", EXPERIMENTS)


@pytest.mark.parametrize("command", ["plan", "validate"])
@pytest.mark.parametrize("name", ["", ".", "/", "lumoin"])
def test_an_argument_that_names_no_file_is_refused_in_one_sentence(
    elsewhere, capsys, command, name
):
    assert command_line([command, name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("testbed: ")
    if not name:
        assert "is a variable of the shell unset?" in line
    if name == "lumoin":
        assert "did you mean 'lumion'?" in line


@pytest.mark.parametrize("options", [["--lab", ""], ["--lab="]])
def test_an_empty_lab_is_refused_and_does_not_stand_for_the_default_one(capsys, options):
    assert command_line(["plan", "lumion", *options]) == 2
    assert "--lab is given without a name" in capsys.readouterr().err


@pytest.fixture
def standing(elsewhere, monkeypatch):
    """A twin of a lab that this process takes for up: the registry knows one, as for `twin up`."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(elsewhere))
    file = elsewhere / "bench.yaml"
    file.write_text("lab: bench")
    import os

    registry.register(Sandbox("mine", os.getpid(), os.getpid()), file, "bench")
    return file


def test_a_named_twin_implies_its_lab(standing):
    assert chosen_lab("", "mine", usual="rack") == standing


def test_a_named_lab_takes_precedence_over_that_of_the_twin(standing):
    assert chosen_lab("rack", "mine") == ROOT / "configs" / "rack.yaml"


def test_inside_a_twin_its_lab_is_the_default(standing, monkeypatch):
    monkeypatch.setenv(LAB_VARIABLE, str(standing))
    assert chosen_lab("", usual="rack") == standing


def test_without_any_lab_the_hint_names_both_options(elsewhere):
    with pytest.raises(UsageError, match="name one with --lab, or a twin with --twin"):
        chosen_lab("")


def test_results_are_found_from_a_directory_below(elsewhere, monkeypatch, capsys):
    for directory in ("configs", "experiments", "below"):
        (elsewhere / directory).mkdir()
    made = RunDirectory.create(elsewhere / "results", "x")
    monkeypatch.chdir(elsewhere / "below")
    assert command_line(["list", "runs", "--json"]) == 0
    assert [row["run"] for row in json.loads(capsys.readouterr().out)] == [made.id]


def test_an_unknown_run_is_reported_with_the_directory_searched(elsewhere, capsys):
    (elsewhere / "results").mkdir()
    assert command_line(["report", "abc"]) == 2
    assert f"names no run in {elsewhere}/results" in capsys.readouterr().err


def test_latest_falls_back_to_the_newest_remaining_run(elsewhere, capsys):
    import shutil

    first = RunDirectory.create(elsewhere / "results", "first")
    RunDirectory.create(elsewhere / "results", "switch", is_latest=False)
    shutil.rmtree(RunDirectory.create(elsewhere / "results", "second").path)
    assert command_line(["report", "latest"]) == 2
    assert f"{first.id} holds no readable run.json" in capsys.readouterr().err


@pytest.fixture
def unreadable():
    """Return a closed directory and one with a closed file, and be somebody whom that keeps out."""
    was = os.geteuid()
    with redirect_stderr(io.StringIO()):  # so that all is imported, also from below /root
        for words in (["plan", str(ROOT / "experiments" / "lumion.yaml")], ["who"]):
            assert command_line([*words, "--lab", "no-such-lab"]) == 2
    with TemporaryDirectory() as name:
        place = Path(name)
        (place / "closed").mkdir()
        (place / "lab.yaml").touch(0)
        (place / "closed").chmod(0)
        place.chmod(0o755)
        os.seteuid(was or 65534)
        yield place
        os.seteuid(was)
        (place / "closed").chmod(0o700)


@pytest.mark.parametrize("name", ["lab.yaml", "closed/lab.yaml", "closed/lab", "closed"])
def test_a_lab_without_read_permission_is_reported_in_one_sentence(unreadable, capsys, name):
    file = str(ROOT / "experiments" / "lumion.yaml")
    assert command_line(["plan", file, "--lab", str(unreadable / name)]) == 2
    assert command_line(["who", "--lab", str(unreadable / name)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("testbed: ") and str(unreadable) in first
    assert second.startswith("testbed: ") and str(unreadable) in second
