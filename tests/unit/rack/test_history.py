"""A rack whose slices come and go: what is placed has servers and fibres of its own."""

import pytest

from testbed.rack.check import checked
from testbed.rack.contiguous import fragmentation_index
from testbed.rack.fleet import MIXES
from testbed.rack.history import history
from testbed.rack.slices import Occupancy, occupied_by
from testbed.rack.torus import Torus

TORUS = Torus()
SPARES = frozenset({15})


def run(seed, mix="equal-requests", length=60):
    return history(TORUS, MIXES[mix], seed, spares=SPARES, length=length)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mix", MIXES)
def test_every_slice_of_a_history_has_servers_and_fibres_of_its_own(mix, seed):
    for moment in run(seed, mix):
        used = [server for of in moment.slices for server in of.servers]
        assert len({*used} | SPARES) == len(used) + len(SPARES)
        assert moment.free == frozenset(range(16)) - {*used} - SPARES
        assert moment.fragmentation == fragmentation_index(TORUS, moment.free)
        for of in moment.slices:
            others = occupied_by(TORUS, [one for one in moment.slices if one is not of])
            checked(TORUS, Occupancy(others.free - SPARES, others.room), of)


def test_a_slice_comes_or_leaves_at_each_moment_or_is_refused():
    moments = run(3)
    before = 0
    for moment in moments:
        change = {"placed": 1, "refused": 0, "left": -1}[moment.what]
        assert len(moment.slices) == before + change
        before = len(moment.slices)
    assert {moment.what for moment in moments} == {"placed", "refused", "left"}


def test_the_same_seed_gives_the_same_history():
    assert run(5) == run(5)
    assert run(5) != run(6)


def test_a_slice_with_a_bundle_through_another_server_is_scattered():
    found = [of for moment in run(0, "equal-chips", 120) for of in moment.scattered]
    assert found
    for of in found:
        assert any(len(path) > 2 for path in of.paths)
