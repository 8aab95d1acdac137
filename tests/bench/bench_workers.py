"""A study of a model on two workers of Dask beside the same in one process.

Run with `make bench ARGS='-k workers'`. The floor is half the time, for two cores; what is above it
is what Dask takes to hand out a case and to return its numbers, and to start.
"""

from __future__ import annotations

import time

from testbed.plugins import kind
from testbed.run.model_workers import ModelTask, one_after_another, workers_at

CASES = 10_000
RACKS = 6
SHORTEST_S = 0.010
LIMIT = 1.7


def test_two_workers_compute_a_study_at_least_one_point_seven_times_as_fast() -> None:
    options = kind("jobs", "fleet-model").options(racks=RACKS)
    tasks = [ModelTask("fleet-model", options, seed) for seed in range(CASES)]
    began = time.monotonic()
    alone = list(one_after_another(tasks, lambda: None))
    between = time.monotonic()
    with workers_at("2") as compute:
        beside = list(compute(tasks, lambda: None))
    took, took_beside = between - began, time.monotonic() - between
    print(
        f"\n{CASES} cases of {took / CASES * 1e3:.1f} ms: {took:.1f} s in one process, "
        f"{took_beside:.1f} s on two workers with their start and end: "
        f"{took / took_beside:.2f} times as fast"
    )
    assert beside == alone
    assert took / CASES >= SHORTEST_S
    assert took / took_beside >= LIMIT
