"""Aligned blocks, and what fragmentation does to them."""

from __future__ import annotations

import pytest

from testbed.rack.allocator import allocate
from testbed.rack.contiguous import block, contiguous, fragmentation_index, largest_block
from testbed.rack.slices import Slice, empty, occupied_by, with_slice
from testbed.rack.torus import Torus, blocks

RACK = Torus()


def test_the_first_free_block_in_order_is_chosen() -> None:
    state = empty(RACK)
    first = contiguous(RACK, state, (2, 4, 4))
    assert first is not None
    assert first.servers == tuple(range(8))
    second = contiguous(RACK, with_slice(RACK, state, first), (2, 2, 4))
    assert second is not None
    assert second.servers == (8, 9, 10, 11)
    assert all(len(path) == 2 for path in first.paths + second.paths)


def test_contiguous_slices_fill_a_rack_to_the_last_server() -> None:
    state = empty(RACK)
    for _ in range(16):
        found = contiguous(RACK, state, (2, 2, 1))
        assert found is not None
        state = with_slice(RACK, state, found)
    assert contiguous(RACK, state, (2, 2, 1)) is None
    assert fragmentation_index(RACK, state.free) == 0.0


def test_a_block_whose_fibres_others_use_is_not_taken() -> None:
    """Eight servers are free in one block, and a slice elsewhere leads light through it."""
    through = Slice((2, 2, 2), (8, 9), ((8, 0, 1, 9),))
    state = occupied_by(RACK, [through])
    found = contiguous(RACK, state, (2, 2, 2))
    assert found is not None
    assert found.servers == (2, 3)  # the fibres between 0 and 1 are not free
    placed = allocate(RACK, state, (2, 4, 4))
    assert isinstance(placed, Slice)  # with another path, or on other servers


@pytest.mark.parametrize(
    ("free", "largest", "index"),
    [
        (set(range(16)), 64, 0.0),
        (set(range(8)), 32, 0.0),
        (set(range(4, 12)), 16, 0.5),  # two columns of Z in different halves
        ({0, 2, 5, 7, 9, 11, 12, 14}, 4, 1 - 4 / 32),  # no two are neighbours
        ({1, 2}, 4, 0.5),  # neighbours, but no aligned block
        ({0, 1, 4}, 8, 1 - 8 / 12),
        (set(), 0, 0.0),
    ],
)
def test_the_fragmentation_index_equals_one_computed_by_hand(
    free: set[int], largest: int, index: float
) -> None:
    assert largest_block(RACK, frozenset(free)) == largest
    assert fragmentation_index(RACK, frozenset(free)) == pytest.approx(index)


def test_a_block_is_found_in_racks_of_any_shape() -> None:
    large = Torus((8, 4, 4))
    assert len(blocks(large, (4, 4, 4))) == 2
    found = contiguous(large, empty(large), (4, 4, 4))
    assert found == block(large, (4, 4, 4), blocks(large, (4, 4, 4))[0])
