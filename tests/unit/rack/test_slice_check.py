"""The checker of slices finds every single mistake that is planted in a good answer."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from testbed.rack.allocator import fragmented
from testbed.rack.check import WrongAnswer, checked, mistakes
from testbed.rack.contiguous import block
from testbed.rack.slices import Occupancy, Slice, empty, occupied_by, with_slice, without_slice
from testbed.rack.torus import Torus, blocks
from tests.unit.rack.random_racks import EIGHT_SLOTS, random_rack

RACK = Torus()
GOOD = block(RACK, (2, 2, 4), blocks(RACK, (2, 2, 4))[0])
"""Servers 0 to 3, a ring around Z."""


def test_a_valid_slice_has_no_problems() -> None:
    assert mistakes(RACK, [GOOD]) == []
    assert checked(RACK, empty(RACK), GOOD) is GOOD


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (replace(GOOD, servers=(0, 1, 2)), "3 servers for 4 slots"),
        (replace(GOOD, servers=(0, 1, 2, 2)), "server 2 is used 2 times"),
        (replace(GOOD, servers=(0, 1, 2, 16)), "server 16 is not free"),
        (replace(GOOD, servers=(1, 0, 2, 3)), "does not join servers 1 and 0"),
        (replace(GOOD, paths=GOOD.paths[:3]), "3 paths for 4 slot edges"),
        (replace(GOOD, paths=((0, 1), (0, 2), *GOOD.paths[2:])), "4 fibres of 0 between"),
        (replace(GOOD, paths=((), *GOOD.paths[1:])), "does not join servers 0 and 1"),
        (replace(GOOD, paths=((0, 4, 0, 1), *GOOD.paths[1:])), "comes to a server twice"),
        (replace(GOOD, paths=((0, 3, 2, 1), *GOOD.paths[1:])), "8 fibres of 4 between"),
        (replace(GOOD, shape=(2, 4, 4)), "4 servers for 8 slots"),
    ],
)
def test_planted_mistakes_in_a_slice_are_found(wrong: Slice, told: str) -> None:
    assert any(told in each for each in mistakes(RACK, [wrong])), mistakes(RACK, [wrong])
    with pytest.raises(WrongAnswer):
        checked(RACK, empty(RACK), wrong)


def test_slices_that_share_a_server_or_a_fibre_are_refused() -> None:
    assert any("used 2 times" in each for each in mistakes(RACK, [GOOD, GOOD]))
    across = Slice((2, 2, 2), (4, 5), ((4, 0, 1, 5),))
    assert mistakes(RACK, [across]) == []
    assert mistakes(RACK, [GOOD, across]) == ["8 fibres of 4 between servers 0 and 1"]


def test_servers_and_fibres_in_use_are_refused() -> None:
    state = with_slice(RACK, empty(RACK), GOOD)
    assert any("is not free" in each for each in mistakes(RACK, [GOOD], state))
    through = Slice((2, 2, 2), (4, 5), ((4, 0, 1, 5),))
    assert mistakes(RACK, [through], state) == ["4 fibres of 0 between servers 0 and 1"]
    one_left = Occupancy(state.free, tuple(max(1, left) for left in state.room))
    assert mistakes(RACK, [through], one_left) == ["4 fibres of 1 between servers 0 and 1"]


@pytest.mark.parametrize(
    "torus",
    [RACK, Torus((8, 4, 4)), Torus((4, 4, 6), (2, 2, 3), 2), Torus((6, 3, 2), (1, 3, 1))],
)
def test_fibres_are_counted_against_those_of_the_rack(torus: Torus) -> None:
    """Two derivations of a rack's links: the checker's arithmetic, and counting chips."""
    whole = block(torus, torus.chips, tuple(range(len(torus.servers))))
    assert mistakes(torus, [whole]) == []
    told = {each for each in mistakes(torus, [whole, whole]) if "fibres" in each}
    assert told == {
        f"{2 * fibres} fibres of {fibres} between servers {a} and {b}"
        for (a, b), fibres in torus.links.items()
    }


def test_releasing_a_slice_restores_the_previous_state() -> None:
    state, slices = random_rack(RACK, random.Random(3))
    assert state == occupied_by(RACK, slices)
    found = fragmented(RACK, state, EIGHT_SLOTS)
    assert isinstance(found, Slice)
    assert without_slice(RACK, with_slice(RACK, state, found), found) == state
