"""Signals once a run is over: whoever sends a second still reads how it went."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from testbed.errors import EXIT_UNSAFE
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory

ROOT = Path(__file__).parents[3]
PROGRAM = """
import signal, sys
from pathlib import Path
import testbed.cli

def run(arguments):
    from testbed.cli.after_run import PostRun
    from testbed.record.rundir import RunDirectory
    directory, before, *moments = arguments
    unwanted = "--no-report" in moments
    def watch(frame, event, _):
        if event == "call" and frame.f_code.co_name in moments:
            moments.remove(frame.f_code.co_name)
            signal.raise_signal(signal.SIGINT)
    sys.setprofile(watch)
    return PostRun(RunDirectory(Path(directory)), [2] * int(before)).report(
        json=False, is_drawn=not unwanted
    )

testbed.cli.run = run
testbed.cli.main()
"""
NUMBERS, PAGE, FIGURES = "summarise", "print_page", "write_html"
"""Functions that are entered once, each in one part of what comes after a run."""


@pytest.fixture
def ended(tmp_path):
    """Return the directory of a run that a signal has ended."""
    return ended_run(tmp_path)


def ended_run(tmp_path, cleanup="verified", left=()):
    run = RunDirectory.create(tmp_path, "lumion")
    run.write_text("experiment.yaml", (ROOT / "experiments" / "lumion.yaml").read_text())
    run.write_json("run.json", {"run": run.id, "overrides": []})
    with closing(EventLog(run.events)) as log:
        log.append("run.begin", "lumion", run=run.id, label="measured-twin", lab="rack", seed=1)
        end = {"error": "ended by SIGINT", "exit_code": 130, "cleanup": cleanup}
        log.append("run.end", **end, left=list(left), signals=[2])
    return run


def told(run, before, *moments):
    """Return the last lines of a run, its words on stderr, and whether it was drawn.

    `before` signals came during the run, and one more at each of the moments.
    """
    command = [sys.executable, "-c", PROGRAM, str(run.path), str(before), *moments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 128 + signal.SIGINT, done.stderr
    lines = (done.stdout or done.stderr).splitlines()[-4:]
    assert lines[0] == "verdict aborted, clean-up verified"
    assert lines[2] == f"run     {run.path}"
    return lines, done.stderr, (run.path / "report.html").exists()


@pytest.mark.parametrize("moments", [(), (NUMBERS, "evaluate", PAGE)])
def test_unrestored_changes_are_reported_after_any_signals(tmp_path, moments):
    """128 + n says that all was taken back."""
    run = ended_run(tmp_path, "failed", ["circuits: ocs does not answer"])
    command = [sys.executable, "-c", PROGRAM, str(run.path), "2", *moments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == EXIT_UNSAFE, done.stderr
    assert "clean-up failed" in done.stdout + done.stderr
    assert "circuits: ocs does not answer" in done.stdout + done.stderr


@pytest.mark.parametrize("moment", [NUMBERS, PAGE])
def test_a_second_signal_after_a_run_is_acknowledged_and_the_last_page_printed(ended, moment):
    lines, err, _ = told(ended, 1, moment)
    assert lines[1] == "reason  ended by SIGINT"
    assert "stopping: computing the numbers; another signal leaves at once" in err


def test_after_a_second_signal_before_the_page_no_figures_are_drawn(ended):
    lines, _, is_drawn = told(ended, 1, NUMBERS)
    assert lines[3] == f"next    testbed report {ended.path}"
    assert not is_drawn


def test_after_two_signals_during_a_run_its_figures_are_not_drawn(ended):
    lines, _, is_drawn = told(ended, 2)
    assert lines[3] == f"next    testbed report {ended.path}"
    assert not is_drawn


def test_a_second_signal_after_the_last_page_exits_and_names_the_missing_figures(ended):
    lines, err, is_drawn = told(ended, 1, FIGURES)
    assert lines[3].endswith("report.html")
    assert f"report.html was not drawn; type: testbed report {ended.path}" in err
    assert not is_drawn


def test_a_first_signal_after_the_last_page_lets_the_figures_finish(ended):
    lines, _, is_drawn = told(ended, 0, FIGURES)
    assert lines[3].endswith("report.html")
    assert is_drawn


def test_a_third_signal_exits_and_reports_the_state_of_the_run(ended):
    lines, _, is_drawn = told(ended, 2, NUMBERS)
    assert lines[1] == "reason  its numbers were not computed"
    assert lines[3] == f"next    testbed report {ended.path}"
    assert not is_drawn


def test_figures_that_are_not_wanted_are_not_drawn_and_the_next_command_draws_them(ended):
    lines, err, is_drawn = told(ended, 1, "--no-report")
    assert lines[3] == f"next    testbed report {ended.path}"
    assert not is_drawn and err == ""
