"""Racks, their servers and fibres, and the slots of slices, counted by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from testbed.rack.torus import Shape, Torus, blocks, slot_graph

RACK = Torus()


def test_servers_and_fibres_of_the_torus_equal_the_rack_of_the_paper() -> None:
    assert RACK.grid == (2, 2, 4)
    assert len(RACK.servers) == 16
    assert len(RACK.links) == 32
    assert set(RACK.links.values()) == {4}  # the authors' four fibres between neighbours
    assert all(len(near) == 4 for near in RACK.neighbours)
    assert (0, 3) in RACK.links  # around Z


@pytest.mark.parametrize(
    ("shape", "slots", "edges", "places"),
    [
        ((2, 2, 1), 1, 0, 16),
        ((2, 2, 2), 2, 1, 8),
        ((2, 2, 4), 4, 4, 4),  # a ring, for it spans Z
        ((2, 4, 4), 8, 12, 2),
        ((4, 4, 4), 16, 32, 1),
        ((2, 2, 3), 3, 2, 4),  # a line
    ],
)
def test_slices_of_the_rack_of_the_paper_have_their_shapes(
    shape: Shape, slots: int, edges: int, places: int
) -> None:
    graph = slot_graph(RACK, shape)
    assert (graph.slots, len(graph.edges)) == (slots, edges)
    assert set(graph.edges.values()) <= {4}
    assert len(blocks(RACK, shape)) == places


@pytest.mark.parametrize("shape", [(2, 2, 2), (2, 2, 4), (2, 4, 4), (4, 4, 4)])
def test_a_block_has_exactly_the_fibres_that_its_slice_asks_for(shape: Shape) -> None:
    for servers in blocks(RACK, shape):
        for (a, b), fibres in slot_graph(RACK, shape).edges.items():
            pair = (min(servers[a], servers[b]), max(servers[a], servers[b]))
            assert RACK.links[pair] == fibres


def test_a_larger_rack_has_fewer_fibres_across_narrow_faces() -> None:
    large = Torus((8, 8, 8), (2, 2, 1))
    assert len(large.servers) == 128
    assert Counter(large.links.values()) == {2: 256, 4: 128}
    assert set(slot_graph(large, (4, 4, 4)).edges.values()) == {2, 4}


def test_a_flat_rack_and_a_single_server_are_built() -> None:
    assert dict(Torus((4, 2, 1), (2, 2, 1)).links) == {(0, 1): 4}
    assert not Torus((2, 2, 1)).links
    assert Torus((2, 1, 1), (1, 1, 1), fibres=3).links == {(0, 1): 6}


@pytest.mark.parametrize("chips", [(4, 4, 5), (3, 4, 4), (0, 4, 4)])
def test_a_rack_that_whole_servers_do_not_fill_is_refused(chips: Shape) -> None:
    assert Torus((4, 4, 5), (2, 2, 5)).grid == (2, 2, 1)
    with pytest.raises(ValueError, match=r"rack|fill"):
        Torus(chips, (2, 2, 2))


@pytest.mark.parametrize("shape", [(1, 2, 1), (2, 2, 5), (8, 2, 1), (2, 2, 0)])
def test_a_slice_that_is_not_made_of_whole_servers_is_refused(shape: Shape) -> None:
    with pytest.raises(ValueError, match="not a block of whole servers"):
        slot_graph(RACK, shape)
