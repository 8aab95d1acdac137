"""Verdicts of the allocator, held against HiGHS over all simple paths of up to six links.

Of a slice with longer paths, over those of up to its longest.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from testbed.rack.allocator import fragmented
from testbed.rack.slices import Refusal, Slice
from testbed.rack.torus import Torus
from tests.unit.rack.random_racks import EIGHT_SLOTS, random_rack, random_room
from tests.unit.rack.slices_by_paths import placeable

RACK = Torus()
SEARCHED = "no free servers have enough free fibres"
"""How refusals begin that counting did not decide."""


def links(found: Slice | Refusal) -> int:
    """Return six, or the links of the longest path of a slice where that has more."""
    return max([6, *(len(path) - 1 for path in getattr(found, "paths", ()))])


def test_refusals_of_slices_with_four_slots_are_right() -> None:
    rng, came = random.Random(31), Counter[bool]()
    while min(came[True], came[False]) < 2:
        state = random_room(RACK, rng, free=5, share=rng.uniform(0.3, 0.5))
        found = fragmented(RACK, state, (2, 2, 4))
        if isinstance(found, Slice) or found.reason.startswith(SEARCHED):
            came[isinstance(found, Slice)] += 1
            assert placeable(RACK, state, (2, 2, 4), links(found), 20) == isinstance(found, Slice)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_refusals_of_slices_with_eight_slots_are_right(part: int) -> None:
    """Audit 25 refusals, 200 in all parts, and 3 placed slices, for 10 s each."""
    rng = random.Random(f"32 {part}")
    refused, placed = Counter[bool | None](), Counter[bool | None]()
    while refused.total() < 25:
        state, _ = random_rack(RACK, rng)
        found = fragmented(RACK, state, EIGHT_SLOTS)
        if isinstance(found, Refusal) and found.reason.startswith(SEARCHED):
            refused[placeable(RACK, state, EIGHT_SLOTS, 6, 10)] += 1
        elif isinstance(found, Slice) and placed.total() < 3:
            placed[placeable(RACK, state, EIGHT_SLOTS, links(found), 10)] += 1
    print(f"\nrefused: {dict(refused)}; placed: {dict(placed)}")
    assert refused[True] == 0
    assert placed[False] == 0
