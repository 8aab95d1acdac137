"""Servers and paths for the ranks of a job, against every choice of paths."""

import random
from itertools import combinations, pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.rack.complete import GivenUp, complete_search
from testbed.rack.search import Request
from testbed.rack.slices import Occupancy, Refusal
from testbed.rack.slices_of_ranks import PlacedRanks, place_ranks, route_ranks
from testbed.rack.torus import SlotGraph, Torus

RING = Torus((6, 1, 1), (1, 1, 1), 2)
TRIANGLE = Torus((3, 1, 1), (1, 1, 1), 1)
GRID = Torus((3, 2, 1), (1, 1, 1), 2)
SQUARE = Torus((2, 2, 1), (1, 1, 1), 1)
PAIR = {(0, 1): 2}


def ring_of(ranks):
    return {(n, n + 1): 1 for n in range(ranks - 1)} | {(0, ranks - 1): 1}


def simple_paths(torus, one, other, seen=()):
    """Yield all paths between two servers, as tuples of link numbers."""
    if one == other:
        yield ()
        return
    for there, link in torus.neighbours[one]:
        if there not in seen:
            for rest in simple_paths(torus, there, other, (*seen, one)):
                yield (link, *rest)


def fits(torus, room, ends):
    """Tell whether circuits between pairs of servers have paths on free fibres, by trying all."""
    if not ends:
        return True
    for path in simple_paths(torus, *ends[0]):
        left = [fibres - (link in path) for link, fibres in enumerate(room)]
        if min(left) >= 0 and fits(torus, left, ends[1:]):
            return True
    return False


def ends_on(servers, links):
    return [(servers[a], servers[b]) for (a, b), count in links.items() for _ in range(count)]


def check(torus, room, links, found):
    """Check that every circuit has a path between its servers, on fibres of its own."""
    assert found.paths.keys() == links.keys()
    left = list(room)
    for (a, b), paths in found.paths.items():
        assert len(paths) == links[a, b]
        for path in paths:
            assert (path[0], path[-1]) == (found.servers[a], found.servers[b])
            for step in pairwise(path):
                left[torus.link_numbers[min(step), max(step)]] -= 1
    assert min(left) >= 0


@given(st.sampled_from([RING, GRID, TRIANGLE, SQUARE]), st.data())
def test_two_ranks_are_placed_exactly_where_fibres_lead_for_both_circuits(torus, data):
    room = tuple(data.draw(st.integers(0, whole)) for whole in torus.links.values())
    free = frozenset(data.draw(st.sets(st.integers(0, len(torus.servers) - 1))))
    found = place_ranks(torus, 2, PAIR, Occupancy(free, room))
    pairs = combinations(sorted(free), 2)
    possible = any(fits(torus, room, ends_on(servers, PAIR)) for servers in pairs)
    assert isinstance(found, PlacedRanks) == possible
    if isinstance(found, PlacedRanks):
        assert {*found.servers} <= free
        check(torus, room, PAIR, found)
    else:
        assert found.proved


@pytest.mark.parametrize("torus", [RING, TRIANGLE, SQUARE])
@pytest.mark.parametrize("ranks", [3, 4])
def test_every_search_places_a_ring_exactly_where_it_can_be(torus, ranks):
    """The search of all places, too, which the faster one usually spares."""
    chance, number = random.Random(ranks), len(torus.servers)
    links, answers = ring_of(ranks), set()
    for _ in range(25):
        room = tuple(chance.choice((0, whole, whole)) for whole in torus.links.values())
        free = frozenset(chance.sample(range(number), chance.randint(min(ranks, number), number)))
        found = place_ranks(torus, ranks, links, Occupancy(free, room))
        possible = any(
            fits(torus, room, ends_on(servers, links)) for servers in permutations(free, ranks)
        )
        assert isinstance(found, PlacedRanks) == possible
        answers.add(possible)
        graph = SlotGraph((ranks, 1, 1), ranks, links)
        if len(free) >= ranks:
            every = complete_search(Request(torus, graph, free, room), 50_000)
            assert (every is not None) == possible
    assert ranks > number or answers == {True, False}


@given(st.permutations(range(6)), st.data())
def test_paths_of_a_ring_of_ranks_fit_into_the_free_fibres(order, data):
    ranks = data.draw(st.integers(3, 5))
    room = tuple(data.draw(st.integers(0, whole)) for whole in GRID.links.values())
    found = route_ranks(GRID, order[:ranks], ring_of(ranks), room)
    if isinstance(found, Refusal):
        assert found.proved
        return
    assert found.servers == tuple(order[:ranks])
    check(GRID, room, ring_of(ranks), found)


def test_two_circuits_take_both_ways_round_where_each_has_one_fibre():
    found = place_ranks(TRIANGLE, 2, PAIR, Occupancy(frozenset(range(3)), (1, 1, 1)))
    assert isinstance(found, PlacedRanks)
    assert {*found.paths[0, 1]} == {(0, 1), (0, 2, 1)}


def test_a_row_that_needs_another_server_to_pass_light_on_does_not_come_first():
    """One fibre of the first row is gone: a circuit would go round the whole ring."""
    room = [2] * len(RING.links)
    room[RING.link_numbers[0, 1]] = 1
    found = place_ranks(RING, 2, PAIR, Occupancy(frozenset(range(6)), tuple(room)))
    assert isinstance(found, PlacedRanks)
    assert found.servers == (2, 3)


def test_the_search_of_all_places_leaves_large_slices_to_the_solver():
    rack, ranks = Torus((17, 1, 1), (1, 1, 1), 2), 17
    graph = SlotGraph((ranks, 1, 1), ranks, ring_of(ranks))
    with pytest.raises(GivenUp):
        complete_search(Request(rack, graph, frozenset(range(17)), (2,) * 17), 50_000)
