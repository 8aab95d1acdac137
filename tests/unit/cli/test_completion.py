"""What a shell is offered to complete, asked as a shell asks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli import records

ROOT = Path(__file__).parents[3]


def offered(line, cwd=ROOT, **variables):
    """Return what bash would offer for the last word of a line; fail on any other output."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "testbed.cli"],
        env={**os.environ, **words, "_TESTBED_COMPLETE": "complete_bash", **variables},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


LINES = [
    ("testbed swi", ["switch"]),
    ("testbed plan lum", ["lumion", "lumion-migrate", "lumion-stragglar"]),
    ("testbed run lumion --lab seri", ["serial-rack"]),
    ("testbed switch o", ["ocs"]),
    ("testbed lock --lab rack p", ["pdu"]),
    ("testbed lock --lab rack pdu.", [f"pdu.{n}" for n in range(1, 7)]),
    ("testbed lock --lab rack ocs.1-", ["ocs.1-32"]),
    ("testbed unlock --lab rack ocs.3", ["ocs.3", "ocs.30", "ocs.31", "ocs.32"]),
    ("testbed switch ocs connect --lab rack h1.", ["h1.p0", "h1.p1"]),
    ("testbed switch ocs disconnect --lab rack h0.p0 h5.p1", ["h5.p1"]),
    ("testbed twin fault rack ocs late", ["late"]),
    ("testbed run lumion -S lab.twin.set", ["lab.twin.settle="]),
    ("testbed run lumion -S needs.h", ["needs.hosts="]),
    ("testbed queue ca", ["cancel"]),
    ("testbed queue replay --policy ir", ["irs", "irs-tiers"]),
    (
        "testbed validate configs/pa",
        ["configs/packet-quad.yaml", "configs/packet-rack.yaml", "configs/packet-rails.yaml"],
    ),
]

EACH = """
import os, sys, testbed.cli as cli
from testbed import commands
for line in sys.stdin.read().splitlines():
    os.environ |= {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    commands.clear_context()
    cli.run([])
    print(".", flush=True)
"""


@pytest.fixture(scope="module")
def answers():
    """Return what bash would offer for each of the lines, asked one after the other."""
    done = subprocess.run(
        [sys.executable, "-c", EACH],
        input="\n".join(line for line, _ in LINES),
        env={**os.environ, "_TESTBED_COMPLETE": "complete_bash"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    answers = done.stdout.split(".\n")
    return {line: answer.split() for (line, _), answer in zip(LINES, answers, strict=False)}


@pytest.mark.parametrize(("line", "names"), LINES)
def test_names_of_files_are_completed(answers, line, names):
    assert answers[line] == names


def test_runs_are_completed_by_name_and_by_suffix(tmp_path):
    run = records.ended(tmp_path / "results")
    assert offered("testbed report 2", tmp_path) in ([run.id], [run.id, run.id[-6:]])
    assert offered(f"testbed export {run.id[-6:]}", tmp_path) == [run.id[-6:]]


def test_twins_are_completed(tmp_path):
    assert offered("testbed switch ocs show --twin r", XDG_RUNTIME_DIR=str(tmp_path)) == []


@pytest.mark.parametrize("text", ["{", "switches: [1, 2]", "\x00"])
def test_an_unreadable_lab_file_gives_no_completions_and_no_error(tmp_path, text):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "bad.yaml").write_text(text)
    assert offered("testbed switch ocs show --lab b", tmp_path) == ["bad"]
    assert offered("testbed switch o", tmp_path) == []


def test_an_invalid_completion_request_gets_no_completions():
    assert offered("testbed s", _TESTBED_COMPLETE="complete_nosuchshell") == []
    assert offered("testbed s", COMP_CWORD="many") == []


def test_completion_imports_no_library_of_the_lab():
    code = (
        "import os, sys, testbed.cli as cli; cli.run([]);"
        "print(sorted({'numpy', 'scipy', 'matplotlib', 'paramiko', 'asyncssh', 'rich', 'pyvisa'}"
        " & set(sys.modules)), file=sys.stderr)"
    )
    words = {"COMP_WORDS": "testbed switch o", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **words, "_TESTBED_COMPLETE": "complete_bash"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout.split(), done.stderr) == (["ocs"], "[]\n")


def test_experiments_and_metrics_of_runs_are_completed(tmp_path):
    results = tmp_path / "results"
    found = {"unit": "s", "median": 0.5, "n": 1, "better": "lower"}
    records.ended(results, metrics={"warm.recovery_time": found})
    records.ended(results, "settle", metrics={"cold.dip": found})
    assert offered("testbed list runs --experiment ", tmp_path) == ["lumion", "settle"]
    assert offered("testbed list runs --metric ", tmp_path) == ["cold.dip", "warm.recovery_time"]
    of = "testbed list runs --experiment settle --metric "
    assert offered(of, tmp_path) == ["cold.dip"]
