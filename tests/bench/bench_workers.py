"""A study of a model on two workers of Dask beside the same in one process.

Run with `make bench ARGS='-k workers'`. The floor is half the time, for two cores; what is above it
is what Dask takes to hand out a case and to return its numbers, and to start.
"""

from __future__ import annotations

import time

from testbed.plugins import kind
from testbed.run.model_workers import ModelTask, one_after_another, workers_at

ROUNDS = 10
CASES = 1_000
"""Of a round. Both compute them, each first in every other round: the machine's speed changes."""

RACKS = 6
SHORTEST_S = 0.010
LIMIT = 1.7


def test_two_workers_compute_a_study_at_least_one_point_seven_times_as_fast() -> None:
    options = kind("jobs", "fleet-model").options(racks=RACKS)
    took = {"one process": 0.0, "two workers": 0.0}
    began = time.monotonic()
    with workers_at("2") as compute:
        took["two workers"] += time.monotonic() - began
        computes = {"one process": one_after_another, "two workers": compute}
        for round_ in range(ROUNDS):
            tasks = [
                ModelTask("fleet-model", options, seed)
                for seed in range(round_ * CASES, (round_ + 1) * CASES)
            ]
            found = {}
            for name in sorted(computes, reverse=round_ % 2 == 1):
                began = time.monotonic()
                found[name] = list(computes[name](tasks, lambda: None))
                took[name] += time.monotonic() - began
            assert found["two workers"] == found["one process"]
        began = time.monotonic()
    took["two workers"] += time.monotonic() - began
    alone, beside = took["one process"], took["two workers"]
    each = alone / (ROUNDS * CASES)
    print(
        f"\n{ROUNDS * CASES} cases of {each * 1e3:.1f} ms: {alone:.1f} s in one process, "
        f"{beside:.1f} s on two workers with their start and end: "
        f"{alone / beside:.2f} times as fast"
    )
    assert each >= SHORTEST_S
    assert alone / beside >= LIMIT
