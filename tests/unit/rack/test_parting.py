"""The fewest fibres that a set of servers must cut, whatever becomes of the slots that are left."""

import random
from itertools import combinations

import pytest

from testbed.rack.complete import complete_search
from testbed.rack.cuts import cuts
from testbed.rack.parting import PartingSets, least_cuts
from testbed.rack.search import Request
from testbed.rack.symmetry import in_connection
from testbed.rack.torus import Torus, slot_graph
from tests.unit.rack.random_racks import EIGHT_SLOTS, random_rack

TORUS = Torus()


@pytest.mark.parametrize("shape", [(2, 2, 1), (2, 2, 4), EIGHT_SLOTS])
def test_the_least_cut_is_that_of_the_best_choice_of_the_slots_to_come(shape):
    graph = slot_graph(TORUS, shape)
    order, n = in_connection(graph.slots, graph.edges), graph.slots
    chance = random.Random(3)
    for _ in range(60):
        placed = chance.randrange(n + 1)
        inside = {slot for slot in order[:placed] if chance.random() < 0.5}
        bits = sum(1 << order.index(slot) for slot in inside)
        to_come = n - placed
        fewest = chance.randrange(to_come + 1)
        most = chance.randrange(fewest, to_come + 1)
        expected = min(
            sum(w for (a, b), w in graph.edges.items() if (a in whole) != (b in whole))
            for count in range(fewest, most + 1)
            for more in combinations(order[placed:], count)
            for whole in [inside | set(more)]
        )
        width = to_come + 1
        table = least_cuts(graph)[placed]
        assert table[(bits * width + fewest) * width + most] == expected


def test_a_refusal_takes_few_nodes_and_no_branch_of_a_place_is_cut_off():
    """Of a place that is known, every step holds; without the table a refusal takes 2 500 nodes."""
    chance, refused = random.Random(17), 0
    graph = slot_graph(TORUS, EIGHT_SLOTS)
    order = in_connection(graph.slots, graph.edges)
    for _ in range(20):
        state, _ = random_rack(TORUS, chance)
        asked = Request(TORUS, graph, state.free, state.room)
        found = complete_search(asked, 2_000)  # raises GivenUp where it takes more
        if found is None:
            refused += 1
            continue
        slack = cuts(TORUS).separates(0, 0)
        for (a, b), room in zip(TORUS.links, state.room, strict=True):
            slack = slack + room * cuts(TORUS).separates(a, b)
        sets = PartingSets(cuts(TORUS), asked, slack)
        sides = sets.begin()
        for placed, slot in enumerate(order):
            (sides,) = sets.after(sides, placed, [found.servers[slot]])
            assert sides is not None
    assert refused
