"""Clusters, traces and systems of the fleet study, on racks that can be looked through."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from testbed.rack.check import mistakes
from testbed.rack.contiguous import block
from testbed.rack.fleet import MIXES, S4, S8, S16, S32, S64, Cluster, filled, requests, thinned
from testbed.rack.fleet_study import WORKLOADS, Case, bandwidth, case, throughput
from testbed.rack.slices import Occupancy, empty, occupied_by
from testbed.rack.systems import (
    SYSTEMS,
    place_anywhere,
    place_contiguous,
    place_fragmented,
    place_product,
    placed,
)
from testbed.rack.torus import Torus, blocks

RACK = Torus()
APART = frozenset({0, 2, 5, 7, 9, 11, 12, 14})
"""Eight servers of which no two are neighbours."""


@pytest.mark.parametrize("mix", MIXES)
def test_racks_are_filled_with_valid_slices(mix: str) -> None:
    cluster = filled(RACK, 6, MIXES[mix], random.Random(1))
    assert all(not rack.free for rack in cluster.racks)
    for number, rack in enumerate(cluster.racks):
        slices = [each for where, each in cluster.slices if where == number]
        assert mistakes(RACK, slices) == []
        assert rack == occupied_by(RACK, slices)


def test_released_slices_return_their_servers_and_fibres() -> None:
    full = filled(RACK, 6, MIXES["equal-chips"], random.Random(2))
    left = thinned(full, 0.3, random.Random(3))
    assert len(left.slices) == len(full.slices) - round(0.3 * len(full.slices))
    assert set(left.slices) <= set(full.slices)
    for number, rack in enumerate(left.racks):
        slices = [each for where, each in left.slices if where == number]
        assert rack == occupied_by(RACK, slices)
    assert all(not rack.free for rack in full.racks)


def test_drawn_requests_sum_up_to_the_available_chips() -> None:
    drawn = requests({S16: 1, S32: 1}, 1000, random.Random(4))
    chips = sum(16 if shape == S16 else 32 for shape in drawn)
    assert 1000 - 32 < chips <= 1000
    assert abs(drawn.count(S16) - drawn.count(S32)) < len(drawn) / 2
    assert requests({S64: 1}, 63, random.Random(4)) == []


def test_each_system_places_a_slice_by_its_own_rule() -> None:
    apart = Occupancy(APART, empty(RACK).room)
    assert place_contiguous(RACK, apart, S32) is None
    assert place_product(RACK, apart, S32) is None
    fragmented = place_fragmented(RACK, apart, S32)
    assert fragmented is not None
    assert fragmented.free == frozenset()
    assert place_anywhere(RACK, apart, S32) == Occupancy(frozenset(), apart.room)
    assert place_anywhere(RACK, apart, S64) is None


def test_servers_of_a_bcube_slice_need_not_be_neighbours() -> None:
    """Servers 0 and 2: two of the four along Z, with another one between them."""
    state = Occupancy(frozenset({0, 2, 9}), empty(RACK).room)
    assert place_contiguous(RACK, state, S8) is None
    left = place_product(RACK, state, S8)
    assert left is not None
    assert left.free == {9}
    assert place_product(RACK, Occupancy(frozenset({0, 5, 9}), state.room), S8) is None


def test_every_placement_method_is_tried_on_all_racks_before_the_next() -> None:
    """A rack whose free servers are apart comes first, and the block of the second is taken."""
    racks = [Occupancy(APART, empty(RACK).room), empty(RACK)]
    ways = (place_contiguous, place_fragmented)
    assert placed(RACK, ways, racks, [S32, S32, S32, S32]) == [S32, S32, S32]
    assert placed(RACK, ways[:1], racks, [S32, S32, S32, S4]) == [S32, S32, S4]


def test_a_rack_is_filled_as_computed_by_hand() -> None:
    """Two slices of 16 chips and one of 32."""
    slices = [
        (0, block(RACK, S16, blocks(RACK, S16)[0])),
        (0, block(RACK, S16, blocks(RACK, S16)[1])),
        (0, block(RACK, S32, blocks(RACK, S32)[1])),
    ]
    found = bandwidth(Cluster(RACK, [occupied_by(RACK, [each for _, each in slices])], slices))
    assert found.static_ports == pytest.approx([(4 / 6 + 5 / 6) / 2])
    assert found.static_ports_y == pytest.approx([0.75])
    assert found.redirected_ports == [1.0]
    load = WORKLOADS[0]
    static = 32 / (1 + 5 * 2 * 15 / 16) + 32 / (1 + 5 * 2 * 31 / 32 / 2)
    redirected = 32 / (1 + 5 * 2 * 15 / 16 / 3) + 32 / (1 + 5 * 2 * 31 / 32 / 3)
    assert found.gain[load.name] == pytest.approx([redirected / static])
    assert throughput(RACK, load, [S16, S16, S32], lambda *_: 3) == pytest.approx(redirected)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [case("equal-chips", seed, racks=16) for seed in range(3)]


def test_the_same_seed_gives_the_same_results_of_the_fleet_study(cases: list[Case]) -> None:
    assert case("equal-chips", 1, racks=16) == cases[1] != cases[0]


def test_redirected_ports_and_free_placement_place_more_slices(cases: list[Case]) -> None:
    """The direction of Morphlux, section 7, and its mechanism; not its figures."""
    for each in cases:
        for admitted in (each.only_32, each.mixed_16_32):
            slices = {name: found.slices for name, found in admitted.placed.items()}
            assert slices["static"] == slices["ici-50"] <= slices["sipac-like"]
            assert slices["sipac-like"] <= slices["morphlux"] <= slices["ideal-switch"]
            rates = [
                admitted.placed[name].throughput["balanced"]
                for name in ("ici-30", "ici-50", "ici-75", "morphlux", "ideal-switch")
            ]
            assert all(less <= more for less, more in pairwise(rates))
        assert max(each.bandwidth.static_ports) <= 1
        assert min(each.bandwidth.static_ports_y) >= 0.5
        assert all(0 <= index < 1 for index in each.fragmentation)
        for gains in each.bandwidth.gain.values():
            assert min(gains) >= 1
    only = [each.only_32.placed for each in cases]
    assert sum(p["morphlux"].slices for p in only) > sum(p["static"].slices for p in only)


def test_the_cost_of_chip_replacement_is_counted(cases: list[Case]) -> None:
    for each in cases:
        costs = each.failures.costs
        for name, found in costs.items():
            assert len(found) == 16
            assert all(cost.used >= cost.failed > 0 for cost in found), name
        assert all(cost.over == 0 for cost in costs["ideal-switch"])
        total = {name: sum(cost.over for cost in found) for name, found in costs.items()}
        assert total["morphlux"] < total["server"] < total["migration"]
        if not each.failures.refused:
            assert total["morphlux"] == 0


def test_every_system_gives_a_slice_a_bandwidth() -> None:
    for shape in (S4, S8, S16, S32, S64):
        rings = {name: system.rings(RACK, shape) for name, system in SYSTEMS.items()}
        assert rings["static"] <= rings["static-most-rings"] <= rings["morphlux"]
        assert rings["morphlux"] <= rings["ideal-switch"] == 3
        assert rings["ici-30"] == pytest.approx(0.9)
