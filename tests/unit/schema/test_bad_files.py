"""No file, however bad, does more than be refused at its place, soon, and in little memory."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from testbed.errors import FileError
from testbed.run.planning.planner import make_plan
from testbed.schema import CircuitList, Experiment, Lab, load, load_experiment, load_lab
from tests.unit.schema.bad_files import BadFile, bad_files

ROOT = Path(__file__).parents[3]
SHIPPED = [
    *sorted((ROOT / "experiments").glob("*.yaml")),
    *sorted((ROOT / "configs").glob("*.yaml")),
]
CIRCUITS = "circuits:\n  - h0.p1 h1.p0\n  - h1.p1 h2.p0\n  - 2 19\n"

BARE = """\
experiment: bare
question: What is refused?
needs: {hosts: 2}
jobs: {main: {kind: train, ranks: 2}}
"""

PATIENCE = 5.0
"""Seconds of processor time that any file may take."""
ROOM = 256
"""MiB that all files together may add to this process."""
LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


@pytest.fixture
def good(lab_text, experiment_text):
    """Return what is mutated: every file we ship, and those with every kind of option."""
    return [path.read_text() for path in SHIPPED] + [lab_text, experiment_text, CIRCUITS]


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Return what reads a bad file and plans with it: the error it ends in, or None."""
    lumion = load_experiment(ROOT / "experiments" / "lumion.yaml")
    rack = load_lab(ROOT / "configs" / "rack.yaml")
    monkeypatch.chdir(tmp_path)

    def read(bad: BadFile) -> FileError | None:
        Path("f").write_bytes(bad.raw)
        started = time.thread_time()
        try:
            found = load("f")
            imaginary = b"toy-" in bad.raw  # plug-ins that are described only
            if not (isinstance(found, CircuitList) or imaginary):
                lab = found if isinstance(found, Lab) else rack
                experiment = found if isinstance(found, Experiment) else lumion
                json.dumps(make_plan(experiment, lab, seed=1).to_json())
        except FileError as error:
            return error
        finally:
            assert time.thread_time() - started < PATIENCE, bad.trick
        return None

    return read


def check_told(error: FileError, bad: BadFile) -> None:
    """Check that all is told in single lines, each with a place that is in the file."""
    lines = LINE_END.split(bad.raw.decode("utf-8-sig", "replace"))
    for one in (error, *getattr(error, "others", ())):
        assert str(one).isprintable()
        assert len(str(one)) < 3000
        file, line, column = one.where.rsplit(":", 2)
        if file == "f":  # a plan may as well name the file that the bad one was planned with
            assert 1 <= int(column) <= len(lines[int(line) - 1]) + 1
        else:
            assert Path(file) in SHIPPED


def read_many(seed, count, good, read):
    """Read bad files; return how often each trick was refused and taken."""
    came = Counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, bad in enumerate(islice(bad_files(seed, good), count)):
        try:
            error = read(bad)
            if error is not None:
                check_told(error, bad)
        except Exception as failure:
            kept = bad.raw[:2000].decode("utf-8", "backslashreplace")
            failure.add_note(f"file {number} of seed {seed}, by {bad.trick}:\n{kept}")
            raise
        came[bad.trick, "taken" if error is None else "refused"] += 1
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < ROOM
    return came


def test_any_mutated_file_is_refused_with_a_place_or_accepted(good, read):
    came = read_many(1, 150, good, read)
    refused = sum(count for (_, end), count in came.items() if end == "refused")
    assert refused > 75
    assert {trick for trick, _ in came} == {"structure", "lines", "bytes", "flood"}


@pytest.mark.soak
def test_ten_thousand_mutated_files_are_refused_with_a_place_or_accepted(good, read):
    started = time.monotonic()
    came = read_many(2, 10_000, good, read)
    print(f"\n{dict(came)} in {time.monotonic() - started:.0f} s")
    assert sum(came.values()) == 10_000


def lines(count, line):
    return "".join(line.replace("#", str(n)) for n in range(count))


BLANKS, DOTS, DIGITS = " " * 100_000, "a." * 100_000, "9" * 100_000
ONCE = {
    "hexadecimal": ("seed: 0x" + "f" * 6000, "not a number, or is too large"),
    "65 bits": ("seed: 18446744073709551616", "not a number, or is too large"),
    "exponent": ("limits: {trial: 1e-9999999999999999999 s}", "trial: expected more than 0"),
    "digits": (f"limits: {{trial: '{DIGITS}'}}", "is not a time"),
    "blanks": (f'checks: {{x: {{every: "<{BLANKS}\\nx"}}}}', "does not begin with"),
    "dotted key": (f"variants:\n v:\n  ? faults.{DOTS}b\n  : 1", "there may be at most 32"),
    "arms": (f"matrix: {{needs.hosts: [{lines(1001, '#,')}]}}", "1001 arms"),
    "arm names": (f"matrix: {{faults: [[{'1,' * 2_000}]]}}", "and may take at most 200"),
    "unknown keys": (lines(1000, "k#: 1\n"), "k0: no such key"),
    "trials": ("trials: 1000000000", "at most 10000"),
    "trials of all arms": ("variants: {a: {}, b: {}}\ntrials: 10000", "there may be at most 10000"),
    "name": (f"lab: {'x' * 65}", "at most 64"),
    "terminal": ('"\\e[31m\\n": 1', r"\u001b[31m\u000a: no such key"),
}
"""What took minutes or gigabytes, ended in a traceback or spoke to the terminal, and its words."""


@pytest.mark.parametrize("case", ONCE)
def test_files_that_once_hung_or_crashed_are_refused_with_a_message(read, case):
    more, words = ONCE[case]
    bad = BadFile(case, f"{BARE}{more}\n".encode())
    error = read(bad)
    check_told(error, bad)
    assert words in str(error)


def test_an_absurd_number_of_ranks_is_refused_before_planning(read):
    text = BARE.replace("ranks: 2", "ranks: 4000000000000").encode()
    assert "4000000000000 hosts" in str(read(BadFile("ranks", text)))


def test_many_arms_of_a_long_file_are_refused(read):
    hosts = BARE.replace("ranks: 2", f"ranks: 2, hosts: [{lines(6_000, 'h#, ')}]")
    text = f"{hosts}variants:\n" + lines(900, " v#: {}\n")
    assert "values to check, and there may be at most 5000000" in str(
        read(BadFile("arm values", text.encode()))
    )


def test_a_lab_with_too_many_switches_is_refused(read, lab_text):
    switch = "  s#: {driver: toy-ocs, resource: 'tcp://s:#', ports: [1-4096]}\n"
    text = lab_text.replace("switches:\n", "switches:\n" + lines(200, switch))
    assert "at most 128" in str(read(BadFile("once", text.encode())))


def command_line(*arguments):
    """Run the real command from the root of the project; return its exit code and its errors."""
    done = subprocess.run(
        [sys.executable, "-m", "testbed.cli", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        text=True,
    )
    return done.returncode, done.stderr


PLACED = re.compile(r"testbed: .+:\d+:\d+: .+")


@pytest.mark.parametrize(
    ("validated", "planned"), [(10, 2), pytest.param(50, 50, marks=pytest.mark.soak)]
)
def test_the_command_line_prints_the_place_and_exits_with_2(
    good, read, tmp_path, validated, planned
):
    refused = (bad for bad in bad_files(3, good) if read(bad) is not None)
    paths = []
    for number, bad in enumerate(islice(refused, validated + planned)):
        paths.append(tmp_path / f"{number}.yaml")
        paths[-1].write_bytes(bad.raw)
    commands = [("validate", *paths[at : at + 5]) for at in range(0, validated, 5)]
    for path in paths[validated:]:
        commands.append(("plan", path, "--lab", "rack"))
    for command in commands:
        code, said = command_line(*command)
        assert code == 2, said
        assert all(PLACED.fullmatch(line) for line in said.splitlines()), said
        assert said or command[0] == "plan"
