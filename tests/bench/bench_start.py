"""How long the commands take that touch nothing, beside importing the libraries they rest on.

Run with `make bench`. Processor seconds, in turn, so that a busy machine slows all alike. Both
sides start from bytecode, as `make setup` and pip leave it.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARIES = ("-c", "import typer, pydantic, yaml")
LIMIT = 3.0
ROUNDS = 11


def processor_seconds(arguments: tuple[str, ...]) -> float:
    """Return what a Python process with these arguments takes, in seconds of a processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    command = [sys.executable, "-m", "compileall", "-q", "testbed", "drivers"]
    subprocess.run(command, cwd=ROOT, check=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("validate", "configs/rack.yaml"),
        ("plan", "experiments/lumion.yaml", "--lab", "rack"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_start_in_three_times_what_their_libraries_take(
    arguments: tuple[str, ...],
) -> None:
    command = ("-m", "testbed.cli", *arguments)
    pairs = [(processor_seconds(command), processor_seconds(LIBRARIES)) for _ in range(ROUNDS)]
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"\n{arguments[0]}: {ours:.3f} s, libraries {theirs:.3f} s, ratio {ratio:.2f} (limit 3)")
    assert ratio <= LIMIT
