"""How long a log of a million events takes to be analysed, and in how much memory.

Processor seconds. Each log is analysed in a process of its own, as `testbed report` does it before
it draws.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.large_log import LargeLog

ROOT = Path(__file__).parents[2]
EVENTS = 1_000_000
LIMIT_S = 15.0
LIMIT_MB = 300.0
PER_STEP = 5.2
"""Events for each step: a report of each of four ranks, and twelve measured clocks a second."""

ANALYSE = """
import json, resource, sys, time
from pathlib import Path
from testbed.analysis.steps import KINDS
from testbed.analysis.summary import summarise
from testbed.analysis.trial_events import FREQUENT, UNREAD
from testbed.record.log import read_events
from testbed.schema import load_experiment
path, experiment = Path(sys.argv[1]), load_experiment(Path(sys.argv[2]))
begin = time.process_time()
others = read_events(path, without=KINDS, frequent=FREQUENT)
of_trials = read_events(path, without=UNREAD, frequent=FREQUENT)
found = summarise("large", experiment, of_trials, others)
took = time.process_time() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
responses = sorted({trial.response for trial in found.trials})
print(json.dumps([took, peak, len(found.trials), responses]))
"""


def analysed(path: Path) -> tuple[float, float, int, list[str]]:
    """Return the seconds, the megabytes at the peak, and what was found of the trials."""
    experiment = ROOT / "experiments" / "lumion.yaml"
    command = [sys.executable, "-c", ANALYSE, str(path), str(experiment)]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    took, peak, trials, responses = json.loads(said)
    return took, peak, trials, responses


@pytest.mark.parametrize("trials", [100, 1])
def test_a_million_events(tmp_path: Path, trials: int) -> None:
    path = tmp_path / "events.jsonl"
    events = LargeLog(trials, round(EVENTS / PER_STEP / trials)).write(path)
    assert events > 0.95 * EVENTS
    took, peak, found, responses = analysed(path)
    size = path.stat().st_size >> 20
    print(
        f"\n{events} events ({size} MiB) of {trials} trials: {took:.1f} s, {peak:.0f} MB at the "
        f"peak; limits {LIMIT_S:g} s and {LIMIT_MB:g} MB"
    )
    assert (found, responses) == (trials, ["recovered"])
    assert took < LIMIT_S and peak < LIMIT_MB


def test_the_time_grows_with_the_number_of_events(tmp_path: Path) -> None:
    spans = []
    for trials in (8, 16, 32, 64):
        path = tmp_path / f"{trials}.jsonl"
        LargeLog(trials, 300).write(path)
        spans.append(min(analysed(path)[0] for _ in range(3)))
    print("\nlogs of 8, 16, 32, 64 trials:", [f"{span:.2f} s" for span in spans])
    assert spans[-1] < 16 * spans[0]  # eight times the events, and twice that for a busy machine
