from __future__ import annotations

import time

import pytest

from testbed.onhost.communication.probe import LEAD, LONG, PAUSE, SHORT, SHORT_COUNT, probe_ring
from tests.unit.onhost.rank_driver import open_rings


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_rank_measures_its_links(ranks):
    begin = time.monotonic()
    with open_rings(ranks) as rings:
        found = rings.run(probe_ring)
        rings.run(lambda ring: ring.barrier())  # nothing of the probe is left on the links
    assert time.monotonic() - begin >= PAUSE * SHORT_COUNT
    for measured in found:
        assert (measured.long_bytes, measured.short_bytes) == (LONG - LEAD, SHORT)
        assert 0 < measured.long_seconds < 5
        assert 0 < measured.short_seconds < PAUSE
