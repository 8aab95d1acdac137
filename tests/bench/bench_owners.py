"""How much longer two owners take at the same time than one of them alone.

Run with `make bench`. The switches take 200 ms to settle and measure their light, so that a change
is over when its light is right; changes of one owner and of both are made in turn.
"""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from testbed.clock import now
from testbed.fabric.circuits import Circuit
from tests.unit.bench.optical_rig import Rack, soon

SETTLE = 0.2
ROUNDS = 20
MOST = 1.2


@pytest.mark.parametrize("where", ["one switch", "two switches"])
def test_two_owners_side_by_side(where: str, tmp_path: Path) -> None:
    names = ("a",) if where == "one switch" else ("a", "b")
    rack = Rack(tmp_path, names, monitors=True, settle=SETTLE, settle_max=2 * SETTLE)
    for site in rack.sites.values():
        site.settle, site.launched = SETTLE, lambda port: -6.0
    rack.fabric.adopt({}, soon())
    ends = ("h1.p1", "h2.p0") if len(names) == 1 else ("h1x.p1", "h2x.p0")
    wanted = {"x": Circuit.parse("h0.p1", "h1.p0"), "y": Circuit.parse(*ends)}
    took: dict[int, list[float]] = {1: [], 2: []}
    with ThreadPoolExecutor(2) as pool:
        for _ in range(ROUNDS):
            for owners in (["x"], ["x", "y"]):
                took[len(owners)].append(_together(rack, pool, wanted, owners))
    rack.fabric.restore(soon())
    rack.close()
    ratio = statistics.median(took[2]) / statistics.median(took[1])
    print(
        f"\n{where}: two owners {statistics.median(took[2]) * 1e3:.0f} ms, one "
        f"{statistics.median(took[1]) * 1e3:.0f} ms, ratio {ratio:.3f}, n {ROUNDS}"
    )
    assert ratio < MOST


def _together(rack: Any, pool: Any, wanted: dict[str, Circuit], owners: list[str]) -> float:
    """Have owners make their circuits at the same time; return the seconds until all are made."""

    def make(owner: str) -> None:
        rack.fabric.set_circuits(owner, frozenset({wanted[owner]}), soon())

    begin = now()
    list(pool.map(make, owners))
    seconds = now() - begin
    for owner in owners:
        rack.fabric.set_circuits(owner, frozenset(), soon())
    return seconds
