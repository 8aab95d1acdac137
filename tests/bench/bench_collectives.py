"""How long schedules take to make and to verify, beside the paper's 1.04 s for 256 ranks.

Run with `make bench`. Seconds are those of the processor, so that a busy machine does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from testbed.collectives.catalogue import ALGORITHMS, Algorithm, all_reduce
from testbed.collectives.schedule import Schedule
from testbed.collectives.stragglar import stragglar
from tests.unit.collectives.verifier import verify

PAPER = {256: 1.04}
"""Seconds for a schedule, as reviews of the paper quote it."""
LIMIT = {256: 0.1, 4096: 10.0}


def seconds(action: Callable[[], Schedule]) -> tuple[float, Schedule]:
    begin = time.process_time()
    schedule = action()
    return time.process_time() - begin, schedule


@pytest.mark.parametrize("ranks", [8, 64, 256, 1024, 4096])
def test_stragglar_of_powers_of_two(ranks: int) -> None:
    stragglar(8)
    took, schedule = min(
        (seconds(lambda: stragglar(ranks)) for _ in range(3 if ranks <= 256 else 1)),
        key=lambda pair: pair[0],
    )
    sends = sum(map(len, schedule.rounds))
    checked, _ = seconds(lambda: (verify(schedule), schedule)[1])
    beside = f", the paper {PAPER[ranks]} s" if ranks in PAPER else ""
    print(
        f"\nn = {ranks}: {took:.3f} s for {len(schedule.rounds)} rounds of {sends} sends{beside}; "
        f"verified in {checked:.2f} s"
    )
    assert took < LIMIT.get(ranks, 60.0)


@pytest.mark.parametrize("ranks", [6, 24, 48, 96, 192])
def test_stragglar_of_other_even_numbers(ranks: int) -> None:
    listed = {6: 7, 24: 27, 48: 57, 96: 108, 192: 208}
    took, schedule = seconds(lambda: stragglar(ranks))
    verify(schedule)
    late = len(schedule.rounds) - schedule.early
    print(f"\nn = {ranks}: {took:.2f} s, {late} rounds, the authors {listed[ranks]}")
    assert late <= listed[ranks]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_all_reduce_of_4096_ranks(algorithm: Algorithm) -> None:
    took, schedule = seconds(lambda: all_reduce(algorithm, 4096))
    print(f"\n{algorithm}: {took:.2f} s for {len(schedule.rounds)} rounds")
    assert took < LIMIT[4096]
