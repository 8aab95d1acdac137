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
"""In a round: both compute them, in turn first, for the machine's own speed wanders in minutes."""

RACKS = 6
SHORTEST_S = 0.010
LIMIT = 1.7


def test_two_workers_compute_a_study_at_least_one_point_seven_times_as_fast() -> None:
    options = kind("jobs", "fleet-model").options(racks=RACKS)
    took = {"alone": 0.0, "beside": 0.0}
    began = time.monotonic()
    with workers_at("2") as compute:
        took["beside"] += time.monotonic() - began
        ways = {"alone": one_after_another, "beside": compute}
        for round_ in range(ROUNDS):
            tasks = [
                ModelTask("fleet-model", options, seed)
                for seed in range(round_ * CASES, (round_ + 1) * CASES)
            ]
            found = {}
            for way in sorted(ways, reverse=round_ % 2 == 1):
                began = time.monotonic()
                found[way] = list(ways[way](tasks, lambda: None))
                took[way] += time.monotonic() - began
            assert found["beside"] == found["alone"]
        began = time.monotonic()
    took["beside"] += time.monotonic() - began
    each = took["alone"] / (ROUNDS * CASES)
    print(
        f"\n{ROUNDS * CASES} cases of {each * 1e3:.1f} ms: {took['alone']:.1f} s in one process, "
        f"{took['beside']:.1f} s on two workers with their start and end: "
        f"{took['alone'] / took['beside']:.2f} times as fast"
    )
    assert each >= SHORTEST_S
    assert took["alone"] / took["beside"] >= LIMIT
