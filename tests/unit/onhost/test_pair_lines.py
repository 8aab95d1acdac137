"""Collectives of ranks that meet in pairs: each rank's steps, and their lines between processes."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

from testbed.collectives.halving import in_pairs
from testbed.collectives.rings import ring
from testbed.collectives.schedule import to_json
from testbed.onhost.communication.pair_steps import pair_steps, partners
from testbed.onhost.communication.sockets import LOOPBACK
from testbed.onhost.errors import Refused
from testbed.onhost.script.pair_lines import PairLines

PATIENCE = 20.0


class Store:
    """Where processes meet, here threads."""

    def __init__(self):
        self._values, self._changed = {}, threading.Condition()

    def set(self, key, value):
        with self._changed:
            self._values[key] = value.encode()
            self._changed.notify_all()

    def get(self, key):
        with self._changed:
            assert self._changed.wait_for(lambda: key in self._values, PATIENCE), key
            return self._values[key]


def all_ranks(ranks, work, timeout=PATIENCE):
    """Return what `work` does on the lines of each rank, all at once."""
    store, opened = Store(), []

    def one(rank):
        lines = PairLines([LOOPBACK], (rank, ranks), 1, store, timeout)
        opened.append(lines)
        return work(rank, lines)

    try:
        with ThreadPoolExecutor(ranks) as threads:
            return [
                each.result(PATIENCE) for each in [threads.submit(one, r) for r in range(ranks)]
            ]
    finally:
        for lines in opened:
            lines.stop_listening()
            lines.close()


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 6, 8, 16])
def test_both_ranks_of_a_pair_have_the_same_steps(ranks):
    for schedule in map(to_json, in_pairs(ranks)):
        steps = [pair_steps(schedule, rank) for rank in range(ranks)]
        met = Counter((rank, one.peer) for rank, own in enumerate(steps) for one in own)
        assert met == Counter({(other, rank): count for (rank, other), count in met.items()})
        sends = [part for own in steps for one in own for part in one.schedule.sends]
        assert len(sends) == sum(map(len, schedule["rounds"]))


def test_four_ranks_meet_in_three_steps_as_the_innermost_pair_stays_joined():
    schedule = to_json(in_pairs(4)[0])
    assert [step.peer for step in pair_steps(schedule, 1)] == [3, 0, 3]
    assert partners(schedule, 1) == (3, 0)


def test_a_round_that_takes_two_ports_is_refused():
    with pytest.raises(Refused, match=r"rank 0 has the peers \[1, 2\] in round 0, and one port"):
        pair_steps(to_json(ring(3)), 0)


@pytest.mark.parametrize("ranks", [3, 4, 5, 8])
@pytest.mark.parametrize("size", [0, 1, 5, 40_000])
def test_every_rank_has_the_sum(ranks, size):
    schedule = to_json(in_pairs(ranks)[0])
    given = np.random.default_rng(size).integers(-(2**59), 2**59, (ranks, size), np.int64)
    vectors = given.copy()

    def work(rank, lines):
        for partner in partners(schedule, rank):
            lines.connect(partner, 0, 0)
        for step in pair_steps(schedule, rank):
            lines.run(step, vectors[rank])

    all_ranks(ranks, work)
    assert (vectors == given.sum(axis=0)).all()


def test_a_step_whose_peer_never_comes_ends_in_time_and_none_begins_after_it():
    schedule = to_json(in_pairs(2)[0])

    def work(rank, lines):
        lines.connect(1 - rank, 0, 0)
        if rank == 0:
            return []
        (step,), found = pair_steps(schedule, rank), []
        for _ in range(2):
            with suppress(TimeoutError):
                lines.run(step, np.zeros(4))
                found.append("it ran")
                continue
            found.append("late")
        with pytest.raises(TimeoutError, match=r"it was not over in 0\.2 s"):
            lines.run(step, np.zeros(4))
        return found

    assert all_ranks(2, work, timeout=0.2) == [[], ["late", "late"]]


def test_a_partner_that_does_not_listen_is_named_by_its_address():
    store = Store()
    lines = PairLines([LOOPBACK], (0, 2), 1, store, 0.3)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        number = bound.getsockname()[1]
        store.set("listens 1", f'[["127.0.0.1", {number}]]')
        with pytest.raises(
            TimeoutError, match=f"nobody answers at 127.0.0.1, TCP port {number} in"
        ):
            lines.connect(1, 0, 0)
    lines.stop_listening()
    lines.close()
