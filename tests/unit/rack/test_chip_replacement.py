"""A failed chip is replaced inside its rack, on free fibres, and no other slice is touched."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from testbed.rack.check_wiring import wiring_mistakes
from testbed.rack.contiguous import block
from testbed.rack.replacement import (
    Circuit,
    Replacement,
    Wiring,
    fibres_left,
    replace_chip,
    wired,
)
from testbed.rack.slices import Refusal, occupied_by
from testbed.rack.torus import Torus, blocks, server_of
from testbed.rack.unit_flow import routes_to
from tests.unit.rack.random_racks import random_rack, random_room

RACK = Torus()
RING = wired(RACK, block(RACK, (2, 2, 4), blocks(RACK, (2, 2, 4))[0]))
"""Servers 0 to 3: the chips at x and y of 0 and 1."""


def test_a_wired_slice_has_its_chips_and_circuits() -> None:
    assert wiring_mistakes(RACK, [RING]) == []
    assert sorted(RING.chips) == [
        x * 16 + y * 4 + z for x in (0, 1) for y in (0, 1) for z in range(4)
    ]
    assert len(RING.circuits) == 16  # four fibres on each of four slot edges
    assert {server_of(RACK, chip) for chip in RING.chips} == {0, 1, 2, 3}


@pytest.mark.parametrize("torus", [RACK, Torus(fibres=2), Torus((4, 4, 8))])
def test_chips_of_allocated_slices_are_replaced(torus: Torus) -> None:
    state, slices = random_rack(torus, random.Random(8))
    wirings = [wired(torus, each) for each in slices]
    assert wiring_mistakes(torus, wirings) == []
    assert fibres_left(torus, wirings) == state.room == occupied_by(torus, slices).room


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (replace(RING, chips=(*RING.chips[:15], RING.chips[0])), "is used 2 times"),
        (replace(RING, chips=(*RING.chips[:15], 64)), "there is no chip 64"),
        (replace(RING, chips=RING.chips[:15]), "15 chips for 16 positions"),
        (replace(RING, chips=(*RING.chips[:15], 63)), "circuits for"),
        (replace(RING, circuits=RING.circuits[:15]), "0 circuits for 1 links"),
        (replace(RING, circuits=(*RING.circuits, RING.circuits[0])), "2 circuits for 1 links"),
        (replace(RING, circuits=(*RING.circuits, Circuit((0, 5), (0, 1)))), "1 circuits for 0"),
        (
            replace(RING, circuits=(Circuit(RING.circuits[0].ends, (0, 2)), *RING.circuits[1:])),
            "1 fibres of 0 between servers 0 and 2",
        ),
        (
            replace(RING, circuits=(Circuit(RING.circuits[0].ends, (1, 2)), *RING.circuits[1:])),
            "does not join the chips",
        ),
    ],
)
def test_the_wiring_check_finds_planted_mistakes(wrong: Wiring, told: str) -> None:
    assert any(told in each for each in wiring_mistakes(RACK, [wrong])), wiring_mistakes(
        RACK, [wrong]
    )


def test_the_wiring_check_refuses_a_slice_with_a_failed_chip() -> None:
    assert wiring_mistakes(RACK, [RING], failed=[RING.chips[3]]) == [
        f"chip {RING.chips[3]} has failed"
    ]


def test_a_chip_of_a_ring_is_replaced_beside_another_slice() -> None:
    neighbour = wired(RACK, block(RACK, (2, 2, 4), blocks(RACK, (2, 2, 4))[1]))
    room = fibres_left(RACK, [RING, neighbour])
    spares = [chip for chip in range(64) if server_of(RACK, chip) == 15]
    failed = RING.chips[5]
    found = replace_chip(RACK, RING, failed, spares, room)
    assert isinstance(found, Replacement)
    assert (found.failed, found.spare) == (failed, min(spares))
    assert wiring_mistakes(RACK, [found.wiring, neighbour], failed=[failed]) == []
    place = RING.chips.index(failed)
    assert len(found.removed) == 2  # along Z; its neighbours in X and Y were in its server
    assert len(found.added) == 4
    assert all(place in circuit.ends for circuit in found.removed + found.added)
    kept = set(RING.circuits) - set(found.removed)
    assert kept <= set(found.wiring.circuits)
    assert [a == b for a, b in zip(RING.chips, found.wiring.chips, strict=True)].count(False) == 1


def test_a_spare_in_the_same_server_needs_no_new_route() -> None:
    """The spare is where the failed chip was: circuits end there as before."""
    pair = wired(RACK, block(RACK, (2, 2, 2), (0, 1)))
    found = replace_chip(RACK, pair, pair.chips[0], [2], fibres_left(RACK, [pair]))
    assert isinstance(found, Replacement)
    assert server_of(RACK, 2) == 2
    assert wiring_mistakes(RACK, [found.wiring], failed=[pair.chips[0]]) == []


def test_a_spare_without_free_fibres_is_refused() -> None:
    around = [number for number, link in enumerate(RACK.links) if 15 in link]
    room = [
        0 if number in around else left for number, left in enumerate(fibres_left(RACK, [RING]))
    ]
    found = replace_chip(RACK, RING, RING.chips[0], [63], room)
    assert isinstance(found, Refusal)
    assert found.proved
    with pytest.raises(ValueError, match="not in the slice"):
        replace_chip(RACK, RING, 63, [62], room)


@pytest.mark.parametrize("times", [20, pytest.param(1000, marks=pytest.mark.soak)])
def test_failures_in_random_racks_affect_no_other_slice(times: int) -> None:
    rng, came = random.Random(21), Counter[str]()
    for _ in range(times):
        _, slices = random_rack(RACK, rng, free=1)
        wirings = [wired(RACK, each) for each in slices]
        free = set(range(64)) - {chip for each in wirings for chip in each.chips}
        dead: list[int] = []
        for _ in range(3):
            which = rng.randrange(len(wirings))
            failed = rng.choice(wirings[which].chips)
            room = fibres_left(RACK, wirings)
            found = replace_chip(RACK, wirings[which], failed, free, room)
            came[type(found).__name__] += 1
            if isinstance(found, Replacement):
                wirings[which] = found.wiring
                dead.append(failed)
                free.remove(found.spare)
                assert wiring_mistakes(RACK, wirings, dead) == []
    print(dict(came))
    assert came["Replacement"] > times


@pytest.mark.parametrize("times", [60, pytest.param(5000, marks=pytest.mark.soak)])
def test_routes_to_one_server_equal_those_of_brute_force(times: int) -> None:
    rng, came = random.Random(22), Counter[bool]()
    for _ in range(times):
        room = tuple(min(left, 2) for left in random_room(RACK, rng, 1, rng.uniform(0.1, 0.4)).room)
        end, *starts = rng.choices(range(16), k=rng.randint(2, 4))
        routes = routes_to(RACK, end, starts, room)
        came[routes is None] += 1
        assert (routes is not None) == brute_force(end, tuple(starts), room)
        used = Counter(
            RACK.link_numbers[min(hop), max(hop)]
            for route in routes or ()
            for hop in pairwise(route)
        )
        assert all(room[link] >= fibres for link, fibres in used.items())
        if routes:
            assert [(route[0], route[-1]) for route in routes] == [(start, end) for start in starts]
    assert min(came.values()) > times / 6, came


def brute_force(end: int, starts: tuple[int, ...], room: tuple[int, ...]) -> bool:
    """Return whether any simple paths fit, one after the other."""

    @cache
    def led(number: int, here: int, seen: frozenset[int], room: tuple[int, ...]) -> bool:
        if here == end:
            after = number + 1
            return after == len(starts) or led(
                after, starts[after], frozenset({starts[after]}), room
            )
        return any(
            led(number, there, seen | {there}, (*room[:link], room[link] - 1, *room[link + 1 :]))
            for there, link in RACK.neighbours[here]
            if room[link] and there not in seen
        )

    return led(0, starts[0], frozenset({starts[0]}), room)
