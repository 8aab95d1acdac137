"""Two rings in opposite directions that sum half of a vector each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from testbed.jobs import training
from testbed.onhost.communication.connections import NEXT, PREVIOUS
from testbed.onhost.communication.control import LeaveOrder
from testbed.onhost.communication.handshake import connect_neighbours
from testbed.onhost.communication.rank_identity import RankIdentity
from testbed.onhost.communication.ring import OPENING
from testbed.onhost.communication.sockets import LOOPBACK, listen
from testbed.onhost.communication.two_rings import BACKWARD, SHARED, TwoRings
from testbed.onhost.errors import Left, PeerLost

PATIENCE = 20.0
TRAIN = {"dim": 64, "layers": 1, "heads": 2, "hidden": 64, "sequence": 16, "batch": 1}


class Ranks:
    """All ranks of a generation, connected as `TwoRings` connects them."""

    def __init__(self, ranks: int) -> None:
        self.leave = [LeaveOrder() for _ in range(ranks)]
        first, second = ([listen(LOOPBACK) for _ in range(ranks)] for _ in range(2))
        at = [[(LOOPBACK, one.getsockname()) for one in side] for side in (first, second)]
        self._listeners = first + second

        def connect(rank: int) -> TwoRings:
            ways = at[0][(rank + 1) % ranks], at[1][(rank - 1) % ranks]
            identity = RankIdentity("token", 1, rank, ranks)
            here = (first[rank],), second[rank]
            return TwoRings.connect(*here, *ways, identity, self.leave[rank])

        self.members = self.run_each(connect, range(ranks))

    def run_each(self, job, items):
        with ThreadPoolExecutor(len(items)) as threads:
            return [f.result(PATIENCE) for f in [threads.submit(job, one) for one in items]]

    def close(self) -> None:
        for member, leave in zip(self.members, self.leave, strict=True):
            member.close()
            leave.close()
        for listener in self._listeners:
            listener.close()


@contextmanager
def open_ranks(ranks):
    opened = Ranks(ranks)
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [1, 1000, SHARED // 8, SHARED // 8 + 7, 70_001])
def test_every_rank_gets_the_sum_whatever_the_size(ranks, count):
    vectors = np.random.default_rng(count).integers(-(2**59), 2**59, (ranks, count), np.int64)
    expected = vectors.sum(axis=0)
    with open_ranks(ranks) as opened:
        for _ in range(2):  # the second one has the next numbers
            given = vectors.copy()
            opened.run_each(lambda ring, own=given: ring.all_reduce(own[ring.rank]), opened.members)
            assert (given == expected).all()


def test_each_ring_sends_half_of_a_long_vector_and_the_first_alone_a_short_one():
    with open_ranks(2) as opened:
        sent = {}
        for size in (SHARED - 4, SHARED):
            vectors = np.ones((2, size // 4), np.float32)
            moved = {NEXT: 0, BACKWARD[NEXT]: 0}
            connections = opened.members[0].connections
            send = connections.send

            def counted(peer, data, *more, send=send, moved=moved):
                count = send(peer, data, *more)
                moved[peer] += count
                return count

            connections.send = counted
            records = opened.run_each(
                lambda ring, own=vectors: ring.all_reduce(own[ring.rank]), opened.members
            )
            connections.send = send
            sent[size] = tuple(moved.values())
            assert records[0].sent == sum(moved.values())
    assert sent[SHARED - 4] == (OPENING.size + SHARED - 4, 0)
    assert sent[SHARED] == (OPENING.size + SHARED // 2,) * 2


def test_a_connection_of_the_second_ring_that_breaks_is_told_as_that_of_the_neighbour():
    with open_ranks(3) as opened:
        vectors = np.ones((3, SHARED), np.float32)
        opened.members[0].connections._sockets[BACKWARD[NEXT]].shutdown(2)

        def lost(ring):
            try:
                ring.all_reduce(vectors[ring.rank])
            except PeerLost as error:
                for member in opened.members:
                    member.connections.close()
                return error.neighbour
            except OSError:
                return "closed"
            return ""

        told = opened.run_each(lost, opened.members[:1])
    assert told == [PREVIOUS]


def test_an_order_to_leave_while_the_second_ring_connects_closes_the_first_one():
    leave = [LeaveOrder(), LeaveOrder()]
    listeners = [[listen(LOOPBACK) for _ in range(2)] for _ in range(2)]
    at = [[(LOOPBACK, one.getsockname()) for one in own] for own in listeners]
    identities = [RankIdentity("token", 1, rank, 2) for rank in range(2)]

    def both():
        ways = at[1][0], at[1][1]
        return TwoRings.connect((listeners[0][0],), listeners[0][1], *ways, identities[0], leave[0])

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(both)
        pair = connect_neighbours((listeners[1][0],), at[0][0], identities[1], leave[1])
        leave[0].give(1)
        with pytest.raises(Left):
            first.result(PATIENCE)
        pair[NEXT].settimeout(5.0)
        with pytest.raises(ConnectionResetError):  # it was not left open
            pair[NEXT].recv(1)
    for one in (*pair.values(), *listeners[0], *listeners[1], *leave):
        one.close()


def test_training_by_two_rings_has_the_loss_of_training_by_one(gang):
    """Sums of two differ by nothing: float32 addition of two values has no order."""
    ends = {}
    for rings in (1, 2):
        job = gang("train", {**TRAIN, "rings": rings}, 2)
        job.tell("finish", after_step=3)
        job.join(1, probe=True)
        ends[rings] = {(end["digest"], end["loss"]) for end in job.hear("done")}
        assert all(step["verified"] for step in job.members[0].of_kind("step"))
    assert len(ends[1]) == 1
    assert ends[1] == ends[2]


def test_a_rank_alone_connects_to_itself_over_no_second_port(gang):
    job = gang("train", {**TRAIN, "rings": 2}, 1)
    job.tell("finish", after_step=2)
    job.join(1, members=[{**own, "second": None} for own in job.described()])
    assert job.hear("done")[0]["step"] == 3


def test_a_spare_joins_both_rings(gang):
    job = gang("train", {**TRAIN, "rings": 2}, 2)
    job.join(1)
    job.hear("step", step=2)
    job.replace(1)
    job.members[0].tell("leave", generation=1)
    committed = job.members[0].hear("left")["committed"]
    job.tell("finish", after_step=committed + 3)
    job.join(2, step=committed, restore={1: 0})
    first, second = job.hear("done", generation=2)
    assert first["digest"] == second["digest"]


def test_the_orchestrator_predicts_with_the_ranks_own_limit():
    assert training._SHARED == SHARED
