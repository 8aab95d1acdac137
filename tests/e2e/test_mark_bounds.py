"""Hosts whose clocks run apart by up to 200 ppm: every mark is within its bound of the truth."""

from __future__ import annotations

import pytest

from tests.e2e.commandline import SMALL_MODEL, CommandLine
from tests.e2e.known_truth import assert_marks_hold

TRIALS = 50


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(4))
def test_the_true_instants_of_200_trials_lie_within_the_bounds_of_their_marks(
    testbed: CommandLine, seed: int
) -> None:
    arm = ["-S", "variants={rank-kill: {faults.0.kind: rank-kill}}", "-S", "checks={}"]
    clocks = ["-S", f"lab.twin.seed={seed}", "-S", "lab.twin.clock_drift=100 ppm"]
    often = ["--repeat", str(TRIALS), "--seed", str(seed)]
    done = testbed.run("faults", *SMALL_MODEL, *arm, *clocks, *often, limit=1000)
    assert len(done.json()["trials"]) == TRIALS, done.err
    bound = assert_marks_hold(testbed.results / "latest")
    print(f"median bound of {TRIALS} trials: {bound * 1e3:.3f} ms")
