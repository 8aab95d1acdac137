"""Servers and paths for the ranks of a job, against a search by hand."""

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from testbed.rack.slices import Occupancy, Refusal, Slice
from testbed.rack.slices_of_ranks import place_ranks, route_ranks, slots_of_ranks
from testbed.rack.torus import Torus

RING = Torus((6, 1, 1), (1, 1, 1), 2)
GRID = Torus((3, 2, 1), (1, 1, 1), 2)
PAIR = slots_of_ranks(2, {(0, 1): 2})


def joins(torus, room, one, other, width):
    """Tell whether links with so many free fibres lead from one server to another."""
    reached = {one}
    while True:
        wider = reached | {
            there
            for here in reached
            for there, link in torus.neighbours[here]
            if room[link] >= width
        }
        if other in wider:
            return True
        if wider == reached:
            return False
        reached = wider


@given(st.sampled_from([RING, GRID]), st.data())
def test_two_ranks_are_placed_exactly_where_fibres_for_both_circuits_lead(torus, data):
    room = tuple(data.draw(st.integers(0, whole)) for whole in torus.links.values())
    free = frozenset(data.draw(st.sets(st.integers(0, 5), max_size=6)))
    found = place_ranks(torus, PAIR, Occupancy(free, room))
    possible = any(joins(torus, room, *pair, 2) for pair in combinations(sorted(free), 2))
    assert isinstance(found, Slice) == possible
    if isinstance(found, Slice):
        (path,) = found.paths
        assert {path[0], path[-1]} == {*found.servers} <= free
        links = [torus.link_numbers[min(step), max(step)] for step in pairwise(path)]
        assert len({*links}) == len(links)
        assert all(room[link] >= 2 for link in links)


@given(st.permutations(range(6)), st.data())
def test_paths_of_a_ring_of_ranks_fit_into_the_free_fibres(order, data):
    ranks = data.draw(st.integers(3, 5))
    graph = slots_of_ranks(ranks, {(n, n + 1): 1 for n in range(ranks - 1)} | {(0, ranks - 1): 1})
    room = tuple(data.draw(st.integers(0, whole)) for whole in GRID.links.values())
    found = route_ranks(GRID, graph, order[:ranks], room)
    if isinstance(found, Refusal):
        assert found.proved
        return
    left = list(room)
    for (a, b), path in zip(graph.edges, found.paths, strict=True):
        assert (path[0], path[-1]) == (order[a], order[b])
        for step in pairwise(path):
            left[GRID.link_numbers[min(step), max(step)]] -= 1
    assert min(left) >= 0


def test_a_row_that_needs_another_server_to_pass_light_on_does_not_come_first():
    """One fibre of the first row is gone: both circuits would go round the whole ring."""
    room = [2] * len(RING.links)
    room[RING.link_numbers[0, 1]] = 1
    found = place_ranks(RING, PAIR, Occupancy(frozenset(range(6)), tuple(room)))
    assert isinstance(found, Slice)
    assert found.servers == (2, 3)
