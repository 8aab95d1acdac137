"""Ranks whose circuits follow time slots, as processes over loopback."""

from __future__ import annotations

import select
import time
from pathlib import Path

from testbed.jobs.time_slot_descriptors import AllToAllOptions
from testbed.jobs.time_slots import AllToAll
from tests.unit.onhost.rank_driver import PATIENCE

HOLD = 0.05
WRONG = str(Path(__file__).with_name("wrong_block.py"))


def options(**changes):
    given = {"ranks": 4, "sizes": (4096,), "hold": HOLD, "iterations": 2} | changes
    return AllToAll(AllToAllOptions(**given)).for_rank()["options"]


def rotate(members, slots, until, hold=HOLD, number=0, told=None):
    """Tell ranks, all unless `told` has some, of one slot after the other, as `rotate` does.

    Return how many there were.
    """
    while not until():
        number += 1
        for member in told or members.members:
            member.tell("slot", **slot(number, slots, hold, finished_by_all(members)))
        end = time.monotonic() + hold
        while (left := end - time.monotonic()) > 0:
            lines = {member.line: member for member in members.members}
            for line in select.select(list(lines), [], [], left)[0]:
                lines[line].listen()
        assert number < PATIENCE / hold, "the exchange does not end"
    return number


def slot(number, slots=3, hold=HOLD, finished=-1):
    circuits = number % slots + 1
    about = {"hold": hold, "left": hold, "finished": finished}
    return {"number": number, "circuits": circuits, **about}


def finished_by_all(members):
    return min(len(member.of_kind("sample")) for member in members.members) - 1


def all_said(members, event):
    return lambda: all(member.of_kind(event) for member in members.members)


def test_all_to_all_sends_each_block_in_the_slots_of_its_two_ranks(gang):
    members = gang("all_to_all", options(sizes=(4096, 44)), 4)
    members.join(1, probe=True)
    rotate(members, 3, all_said(members, "done"))
    for member in members.members:
        samples = member.of_kind("sample")
        assert [(one["size"], one["bytes"]) for one in samples] == [(4096, 3 * 4096)] * 2 + [
            (44, 132)
        ] * 2
        assert all(one["verified"] and one["operation"] == "alltoall" for one in samples)
        for one in samples:
            sent = dict.fromkeys(range(1, 4), 0)
            for circuits, _, count, _ in one["slots"]:
                sent[circuits] += count
            assert set(sent.values()) == {one["size"]}  # one peer in each of the three slots


def test_of_an_odd_number_of_ranks_one_pauses_in_each_slot(gang):
    members = gang("all_to_all", options(ranks=3, iterations=1), 3)
    members.join(1)
    rotate(members, 3, all_said(members, "done"))
    for member in members.members:
        (sample,) = member.of_kind("sample")
        assert sample["bytes"] == 2 * 4096
        assert len({use[0] for use in sample["slots"] if use[2]}) == 2


def test_a_block_larger_than_a_slot_is_sent_in_several_and_nothing_in_between(gang):
    """What did not come in one slot is sent again from there in the next."""
    members = gang("all_to_all", options(sizes=(48 << 20,), iterations=1, warmup=0), 4)
    members.join(1)
    rotate(members, 3, all_said(members, "done"), hold=0.04)
    for member in members.members:
        (sample,) = member.of_kind("sample")
        assert sample["bytes"] == 3 * (48 << 20)
        assert len(sample["slots"]) > 3
        full = [use for use in sample["slots"] if use[3]]
        assert any(use[2] > 0 for use in full)


def test_a_rank_that_misses_slots_holds_up_no_circle_of_others(gang):
    """Rank 3 hears of no slot for a while: the others connect and send among themselves."""
    members = gang("all_to_all", options(iterations=1, warmup=0), 4)
    members.join(1)
    for number in range(1, 7):
        for member in members.members[:3]:
            member.tell("slot", **slot(number))
        time.sleep(HOLD)
    rotate(members, 3, all_said(members, "done"), number=6)
    assert all(member.of_kind("sample")[0]["verified"] for member in members.members)


def test_a_rank_ends_once_it_is_told_that_all_have_finished_though_its_peers_are_gone(gang):
    """What they said last over the circuits may have been lost, and nobody repeats it."""
    members = gang("all_to_all", options(), 4)
    members.join(1)
    last, *others = members.members
    number = rotate(members, 3, lambda: finished_by_all(members) == 1)
    rest = {"told": others, "number": number}
    number = rotate(members, 3, lambda: all(one.of_kind("done") for one in others), **rest)
    assert not last.of_kind("done")
    rotate(members, 3, all_said(members, "done"), number=number)


def test_rank_that_waits_for_its_slot_leaves_when_ordered(gang):
    members = gang("all_to_all", options(), 4)
    members.join(1)
    members.hear("restored")
    members.tell("leave", generation=1)
    assert all(said["committed"] == 0 for said in members.hear("left"))


def test_a_slot_of_which_ranks_hear_too_late_is_not_used(gang):
    members = gang("all_to_all", options(warmup=0, iterations=1), 4)
    members.join(1)
    members.hear("restored")
    members.tell("slot", **slot(0) | {"number": 1, "left": 0.005})  # less than the guard
    rotate(members, 3, all_said(members, "done"), number=1)
    for member in members.members:
        (sample,) = member.of_kind("sample")
        assert {use[0] for use in sample["slots"]} == {1, 2, 3}
        assert set(sample["changes"]) == {0.0}


def test_a_block_that_is_of_another_rank_is_found(gang):
    members = gang("all_to_all", options(warmup=0, iterations=1), 4)
    wrong = members.start([WRONG])
    with members.taken(3, wrong):
        members.join(1)
        corrupt = members.members[0]
        rotate(members, 3, lambda: corrupt.of_kind("corrupt"))
        # Rank 0 got what was meant for rank 1: 3 · 4 + 1, not 3 · 4 + 0.
        assert corrupt.of_kind("corrupt")[0]["why"] == "element 0 is 13.0, not 12.0"
