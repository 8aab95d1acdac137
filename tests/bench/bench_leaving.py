"""How soon ranks are out of a schedule that lost one of them, after they were told to leave.

Run with `make bench`. A rank is killed or freezes in a random round; the limits are those of a
survivor, from the order to leave until it is out, on the same clock. Ranks are processes of this
machine, so on a busy one the figures are about who may run, too.
"""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from tests.unit.onhost.broken_rounds import Breaking

MEDIAN, LAST = 2e-3, 20e-3
"""Seconds for one half of the survivors, and for 99 of a hundred."""


@pytest.mark.parametrize("ranks", [4, 8])
def test_survivors_are_out_within_milliseconds(ranks: int) -> None:
    with closing(Breaking(ranks, seed=ranks)) as breaking:
        exits = [seconds for _ in range(100) for seconds in breaking.lose_one().exits]
    median, last = np.quantile(exits, [0.5, 0.99])
    print(
        f"\n{ranks} ranks, {len(exits)} exits: median {median * 1e3:.2f} ms (limit 2 ms), "
        f"p99 {last * 1e3:.2f} ms (limit 20 ms), longest {max(exits) * 1e3:.2f} ms"
    )
    assert median <= MEDIAN
    assert last <= LAST
