"""The fragmented allocator: always right, and a refusal means that there is no place."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from testbed.rack.allocator import allocate, fragmented
from testbed.rack.check import mistakes
from testbed.rack.complete import GivenUp, complete_search
from testbed.rack.exact import solve
from testbed.rack.search import Request
from testbed.rack.slices import Occupancy, Refusal, Slice, empty, with_slice
from testbed.rack.torus import Shape, Torus, slot_graph
from tests.unit.rack.random_racks import EIGHT_SLOTS, random_rack, random_room
from tests.unit.rack.slices_brute_force import fewest_fibres

RACK = Torus()
FEW_SLOTS: tuple[Shape, ...] = ((2, 2, 2), (2, 2, 3), (2, 2, 4), (2, 4, 2))


def fullest(torus: Torus, state: Occupancy, found: Slice) -> int:
    room = with_slice(torus, state, found).room
    return max(whole - left for whole, left in zip(torus.links.values(), room, strict=True))


@pytest.mark.parametrize("times", [30, pytest.param(4000, marks=pytest.mark.soak)])
def test_up_to_four_slots_are_allocated_as_by_brute_force(times: int) -> None:
    rng, came = random.Random(11), Counter()
    for number in range(times):
        torus = rng.choice((RACK, Torus(fibres=2)))
        shape = rng.choice(FEW_SLOTS)
        state = random_room(torus, rng, free=rng.randint(3, 6), share=rng.uniform(0.2, 0.6))
        best, found = fewest_fibres(torus, state, shape), fragmented(torus, state, shape, number)
        came[type(found).__name__] += 1
        if isinstance(found, Refusal):
            assert found.proved
            assert best is None, (state, shape)
        else:
            assert mistakes(torus, [found], state) == []
            assert fullest(torus, state, found) == best, (state, shape)
    assert min(came.values()) > times / 5, came


@pytest.mark.parametrize("times", [3, pytest.param(300, marks=pytest.mark.soak)])
def test_the_highs_solver_finds_a_place_exactly_where_brute_force_does(times: int) -> None:
    rng = random.Random(12)
    for _ in range(times):
        torus, shape = rng.choice((RACK, Torus(fibres=2))), rng.choice(FEW_SLOTS)
        state = random_room(torus, rng, free=rng.randint(3, 5), share=rng.uniform(0.2, 0.5))
        best = fewest_fibres(torus, state, shape)
        place, proved = solve(torus, slot_graph(torus, shape), state)
        assert proved
        assert (place is None) == (best is None)
        if place:
            assert mistakes(torus, [place], state) == []
            assert fullest(torus, state, place) == best


@pytest.mark.parametrize("times", [30, pytest.param(10_000, marks=pytest.mark.soak)])
def test_eight_slots_are_allocated_in_random_racks(times: int) -> None:
    rng, came = random.Random(13), Counter()
    for number in range(times):
        state, slices = random_rack(RACK, rng)
        assert mistakes(RACK, slices) == []
        found = fragmented(RACK, state, EIGHT_SLOTS, number)
        came[type(found).__name__] += 1
        if isinstance(found, Slice):
            assert mistakes(RACK, [*slices, found]) == []
        else:
            assert found.proved, state
    print(dict(came))
    assert came["Slice"] > times / 3


def test_the_same_seed_gives_a_slice_the_same_place() -> None:
    state, _ = random_rack(RACK, random.Random(2))
    assert fragmented(RACK, state, EIGHT_SLOTS, 5) == fragmented(RACK, state, EIGHT_SLOTS, 5)


def test_free_servers_that_form_no_block_are_used() -> None:
    """Morphlux, section 3.2: what fragmentation loses to a static torus, redirected ports use."""
    free = frozenset({0, 2, 5, 7, 9, 11, 12, 14})  # no two of them are neighbours
    found = allocate(RACK, Occupancy(free, empty(RACK).room), EIGHT_SLOTS)
    assert isinstance(found, Slice)
    assert set(found.servers) == free
    assert all(len(path) % 2 for path in found.paths)  # an even number of links each


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (Occupancy(frozenset(range(7)), empty(RACK).room), "7 servers are free for 8 slots"),
        (
            Occupancy(frozenset(range(8)), (0,) * 20 + (4,) * 12),
            "free servers have 12 fibres left for 8 slots that need them",
        ),
    ],
)
def test_a_slice_is_refused_where_counts_of_servers_or_fibres_exclude_it(
    state: Occupancy, reason: str
) -> None:
    found = fragmented(RACK, state, EIGHT_SLOTS)
    assert isinstance(found, Refusal)
    assert found.proved
    assert reason in found.reason


def test_a_slice_of_one_server_needs_no_fibre() -> None:
    state = Occupancy(frozenset({9}), (0,) * 32)
    assert fragmented(RACK, state, (2, 2, 1)) == Slice((2, 2, 1), (9,), ())
    assert fragmented(Torus((2, 2, 1)), empty(Torus((2, 2, 1))), (2, 2, 1)) == Slice(
        (2, 2, 1), (0,), ()
    )


def test_a_slice_of_a_whole_rack_fits_only_an_empty_rack() -> None:
    found = allocate(RACK, empty(RACK), (4, 4, 4))
    assert isinstance(found, Slice)
    assert fullest(RACK, empty(RACK), found) == 4
    one_fibre_less = (*empty(RACK).room[:-1], 3)
    refused = fragmented(RACK, Occupancy(empty(RACK).free, one_fibre_less), (4, 4, 4))
    assert isinstance(refused, Refusal)


@pytest.mark.parametrize(
    ("torus", "shape"),
    [
        (Torus((4, 4, 8)), (4, 4, 2)),  # 32 servers
        (Torus((4, 4, 8), fibres=2), (2, 4, 4)),
        (Torus((8, 4, 4), (2, 2, 2)), (4, 4, 2)),  # no bundle of 8 fibres leaves its axis
        (Torus((4, 4, 1), (2, 1, 1)), (4, 2, 1)),
    ],
)
def test_slices_are_allocated_in_racks_of_other_shapes(torus: Torus, shape: Shape) -> None:
    rng = random.Random(4)
    for number in range(5):
        taken = rng.sample(range(len(torus.servers)), len(torus.servers) // 8)
        state = Occupancy(empty(torus).free - set(taken), empty(torus).room)
        found = fragmented(torus, state, shape, number)
        assert isinstance(found, Slice)
        assert mistakes(torus, [found], state) == []


def test_an_allocator_search_cut_short_gives_no_proof_of_refusal() -> None:
    state, _ = random_rack(RACK, random.Random(2))
    asked = Request(RACK, slot_graph(RACK, EIGHT_SLOTS), state.free, state.room)
    with pytest.raises(GivenUp):
        complete_search(asked, nodes=3)


def test_a_solver_run_cut_short_gives_no_proof_of_refusal() -> None:
    """Eight servers that others' light surrounds: the solver needs more than one node to know."""
    free = frozenset({0, 2, 5, 7, 9, 11, 12, 14})
    state = Occupancy(free, (0, 0, *empty(RACK).room[2:]))
    place, proved = solve(RACK, slot_graph(RACK, EIGHT_SLOTS), state, nodes=0)
    assert place is None
    assert not proved
