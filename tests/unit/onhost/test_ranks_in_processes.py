"""S2 of the pass criteria for StragglAR: AllReduces between processes give what they should."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from testbed.collectives.catalogue import ALGORITHMS
from tests.unit.collectives.execute import execute
from tests.unit.onhost.everywhere import on_sockets, rows, schedule, through_gloo
from tests.unit.onhost.processes import in_processes

EXECUTORS = {"sockets": on_sockets, "gloo": through_gloo}


@pytest.fixture(params=EXECUTORS)
def executor(request):
    if request.param == "gloo":
        pytest.importorskip("torch", reason="gloo comes with torch: pip install '.[torch]'")
    return EXECUTORS[request.param]


@pytest.mark.parametrize("ranks", [4, 8])
def test_every_rank_ends_with_the_sum_and_all_with_the_same_bits(executor, ranks):
    sizes = [1, ranks - 2, 7 * (ranks - 1) + 2, 100_004]
    assert all(size % (ranks - 1) for size in sizes)
    cases = list(product(ALGORITHMS, ["int64", "float32"], sizes))
    worst = 0.0
    for case, *found in zip(cases, *in_processes(ranks, executor, cases), strict=True):
        given = rows(ranks, case)
        assert {row.tobytes() for row in found} == {found[0].tobytes()}, case
        assert found[0].tobytes() == execute(schedule(ranks, case), given)[0].tobytes(), case
        if case[1] == "int64":
            assert (found[0] == given.sum(axis=0)).all(), case
        else:
            for divisor in (1, ranks):  # the mean is the sum, divided by everybody alike
                exact = given.astype(np.float64).sum(axis=0) / divisor
                off = np.abs(found[0] / np.float32(divisor) - exact) / exact
                worst = max(worst, float(off.max()))
    print(f"n = {ranks}: float32 is off by {worst:.1e} at most, the criterion 1e-6")
    assert worst <= 1e-6
