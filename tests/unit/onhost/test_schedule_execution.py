"""Schedules between ranks: what every rank ends with, bit for bit, and what breaks a run."""

from __future__ import annotations

import socket
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.collectives.catalogue import all_reduce
from testbed.collectives.rings import ring
from testbed.collectives.schedule import to_json
from testbed.onhost.communication.communicator import chunk_bounds
from testbed.onhost.communication.execution import STAGING
from testbed.onhost.communication.layout import EAGER, OPENING
from testbed.onhost.communication.rank_schedule import RankSchedule
from testbed.onhost.errors import Left, PeerLost, ProtocolError, WrongGeneration
from tests.unit.onhost.groups import open_groups
from tests.unit.onhost.rank_driver import open_rings


@st.composite
def schedules(draw):
    """Any rounds at all in which each rank sends once and receives once at most."""
    ranks, chunks = draw(st.integers(2, 5)), draw(st.integers(1, 4))
    rounds = []
    for _ in range(draw(st.integers(1, 6))):
        targets = draw(st.permutations(range(ranks)))
        sends = []
        for source, destination in enumerate(targets):
            if source != destination and draw(st.booleans()):
                chunk = draw(st.integers(0, chunks - 1))
                count = draw(st.integers(1, chunks - chunk))
                sends.append([source, destination, chunk, count, draw(OPERATIONS)])
        rounds.append(sends)
    return {"ranks": ranks, "chunks": chunks, "rounds": rounds}


OPERATIONS = st.sampled_from(["reduce", "copy"])


def on_paper(schedule, vectors):
    """Do the rounds one after the other; all sends of a round read what was there before it."""
    vectors = vectors.copy()
    bounds = chunk_bounds(vectors.shape[1], schedule["chunks"])
    for sends in schedule["rounds"]:
        before = vectors.copy()
        for source, destination, chunk, count, operation in sends:
            span = slice(bounds[chunk][0], bounds[chunk + count - 1][1])
            if operation == "reduce":
                vectors[destination, span] = vectors[destination, span] + before[source, span]
            else:
                vectors[destination, span] = before[source, span]
    return vectors


def everywhere(schedule, vectors, *, shared=True):
    """Run a schedule on the rows of `vectors`, in place; return every rank's record.

    Where ports are not shared, each peer has a line of its own.
    """

    def take_part(group):
        return group.run(RankSchedule.of(schedule, group.rank), vectors[group.rank])

    with open_groups(len(vectors), shared=shared) as groups:
        return groups.run(take_part)


@pytest.mark.parametrize("ranks", [3, 5, 6, 7])
def test_halving_doubling_gives_every_rank_the_sum_for_any_number_of_ranks(ranks):
    vectors = np.random.default_rng(ranks).integers(-(2**59), 2**59, (ranks, 100_001), np.int64)
    expected = vectors.sum(axis=0)
    everywhere(to_json(all_reduce("rhd", ranks)), vectors)
    assert (vectors == expected).all()


@given(schedules(), st.integers(0, 2000), st.integers(0, 2**32), st.booleans())
def test_ranks_execute_any_schedule_with_the_result_of_the_model(schedule, size, seed, shared):
    ranks = schedule["ranks"]
    vectors = np.random.default_rng(seed).integers(-(2**59), 2**59, (ranks, size), np.int64)
    expected = on_paper(schedule, vectors)
    everywhere(schedule, vectors, shared=shared)
    assert (vectors == expected).all()


@given(schedules(), st.integers(EAGER // 8, EAGER), st.integers(0, 2**32))
def test_ranks_execute_any_schedule_with_ready_messages_as_the_model(schedule, size, seed):
    test_ranks_execute_any_schedule_with_the_result_of_the_model.hypothesis.inner_test(
        schedule, size, seed, shared=True
    )


@pytest.mark.parametrize(("elements", "waits"), [(EAGER, True), (EAGER // 8, False)])
def test_large_message_waits_until_its_receiver_is_ready(elements, waits):
    schedule = {"chunks": 1, "rounds": [[[0, 1, 0, 1, "copy"]], [[2, 1, 0, 1, "copy"]]]}
    began = {}

    def come_late(group):
        time.sleep(0.2 if group.rank == 0 else 0.0)
        began[group.rank] = time.monotonic()
        return group.run(RankSchedule.of(schedule, group.rank), np.zeros(elements, np.float32))

    with open_groups(3) as groups:
        records = groups.run(come_late)
    assert (records[2].rounds[1][0] > began[0]) == waits


@settings(max_examples=10)
@given(schedules(), st.integers(0, 2**32), st.booleans())
def test_floats_are_added_in_the_order_of_the_rounds_whatever_the_timing(schedule, seed, shared):
    size = STAGING // 4 * 3 + 7  # several stagings of float32, and chunks of unequal length
    shape = (schedule["ranks"], size)
    vectors = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    expected = on_paper(schedule, vectors)
    for _ in range(2):
        found = vectors.copy()
        everywhere(schedule, found, shared=shared)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_the_ring_as_a_schedule_gives_the_same_integers_as_the_ring(ranks):
    vectors = np.random.default_rng(ranks).integers(-(2**59), 2**59, (ranks, 100_001), np.int64)
    as_ring, schedule = vectors.copy(), to_json(ring(ranks))
    with open_rings(ranks) as rings:
        rings.run(lambda one: one.all_reduce(as_ring[one.rank]))
    records = everywhere(schedule, vectors)
    assert vectors.tobytes() == as_ring.tobytes()
    assert all(sorted(record.rounds) == list(range(2 * (ranks - 1))) for record in records)


def test_the_record_of_a_schedule_names_the_late_rank_and_its_delay():
    schedule = to_json(ring(3))

    def come_late(group):
        group.barrier()
        time.sleep(0.3 if group.rank == 1 else 0.0)
        return group.run(RankSchedule.of(schedule, group.rank), np.zeros(300, np.float32))

    with open_groups(3) as groups:
        records = groups.run(come_late)
    assert records[2].waits[1] > 0.1
    assert records[1].waits[0] < 0.1


@pytest.mark.parametrize(("shared", "second"), [(True, False), (False, True)])
def test_a_line_of_its_own_waits_for_no_other_line(shared, second):
    """Rank 1 is sent a chunk by rank 0, which is late, and another one by rank 2, which is not.

    It sends the second one on, at once only if the first one is not awaited before. That it waited
    is said of rank 0 alone.
    """
    rounds = [[[0, 1, 0, 1, "copy"]], [[2, 1, 1, 1, "copy"]], [[1, 2, 1, 1, "copy"]]]
    schedule = {"chunks": 2, "rounds": rounds}
    began = {}

    def come_late(group):
        group.barrier()
        time.sleep(0.3 if group.rank == 0 else 0.0)
        began[group.rank] = time.monotonic()
        return group.run(RankSchedule.of(schedule, group.rank), np.zeros(2000, np.float32))

    with open_groups(3, shared=shared) as groups:
        records = groups.run(come_late)
    assert (records[2].rounds[2][1] < began[0]) == second
    assert records[1].waits[0] > 0.1 > records[1].waits[2]


def test_a_rank_that_waits_for_an_earlier_round_is_not_said_to_wait_for_a_later_one():
    """Ranks 0 and 2 both send late, on lines of their own: rank 1 waits for rank 0 first."""
    rounds = [[[0, 1, 0, 1, "copy"]], [[2, 1, 1, 1, "copy"]]]
    schedule = {"chunks": 2, "rounds": rounds}

    def come_late(group):
        group.barrier()
        time.sleep({0: 0.5, 1: 0.0, 2: 0.3}[group.rank])
        return group.run(RankSchedule.of(schedule, group.rank), np.zeros(2000, np.float32))

    with open_groups(3, shared=False) as groups:
        waits = groups.run(come_late)[1].waits
    assert waits[0] > 0.1 > waits[2]


def test_group_barrier_waits_for_the_last_rank():
    came, went = [], []

    def meet(group):
        time.sleep(0.01 * group.rank)
        came.append(time.monotonic())
        group.barrier()
        went.append(time.monotonic())

    for ranks in (1, 2, 5):
        with open_groups(ranks) as groups:
            groups.run(meet)
        assert max(came) <= min(went)
        came.clear()
        went.clear()


def test_unsent_bytes_are_limited_unless_a_schedule_has_one_peer():
    """A ring has one peer; the second half of halving and doubling has others, who would wait."""
    rate, lowat = 12.5e6, 25  # bytes a second; TCP_NOTSENT_LOWAT

    def take_part(group):
        group.connections.size_buffers(rate)
        lines, found = group.connections._sockets, []
        for name in ("ring", "rhd", "ring"):
            program = RankSchedule.of(to_json(all_reduce(name, 4)), group.rank)
            group.barrier()
            group.run(program, np.zeros(400, np.float32))
            limits = {lines[p.peer].getsockopt(socket.IPPROTO_TCP, lowat) for p in program.sends}
            found.append(max(limits))
        return found

    with open_groups(4) as groups:
        for one, other, again in groups.run(take_part):
            assert one == again > rate
            assert other < rate / 100


def test_opening_is_sent_together_with_the_first_bytes_of_its_message():
    schedule, alone = to_json(ring(3)), []

    def take_part(group):
        send = group.connections.send

        def watched(peer, *pieces):
            alone.extend(len(p) for p in pieces if len(pieces) == 1 and len(p) == OPENING.size)
            return send(peer, *pieces)

        group.connections.send = watched
        group.run(RankSchedule.of(schedule, group.rank), np.zeros(100_000, np.float32))

    with open_groups(3) as groups:
        groups.run(take_part)
    assert not alone


def test_a_message_of_another_generation_is_detected():
    schedule = to_json(ring(2))

    def take_part(group):
        with pytest.raises((WrongGeneration, PeerLost)) as broke:
            group.run(RankSchedule.of(schedule, group.rank), np.zeros(10, np.float32))
        return broke.type

    with open_groups(2, generations=(1, 2)) as groups:
        assert WrongGeneration in groups.run(take_part)


def test_schedules_that_differ_between_ranks_are_refused():
    one, other = to_json(ring(2)), {"chunks": 1, "rounds": [[[0, 1, 0, 1, "copy"]], []]}
    other["rounds"].append([[1, 0, 0, 1, "copy"]])

    def take_part(group):
        schedule = one if group.rank else other
        with pytest.raises((ProtocolError, PeerLost)) as broke:
            group.run(RankSchedule.of(schedule, group.rank), np.zeros(10, np.float32))
        return broke.type

    with open_groups(2) as groups:
        assert groups.run(take_part) == [ProtocolError, ProtocolError]


def test_leave_order_ends_a_schedule_that_cannot_proceed():
    schedule = to_json(ring(3))
    with open_groups(3) as groups:

        def take_part(group):
            if group.rank == 2:  # never comes
                time.sleep(0.05)
                for order in groups.leave:
                    order.give(1)
                return None
            with pytest.raises(Left):
                group.run(RankSchedule.of(schedule, group.rank), np.zeros(1 << 20, np.float32))
            return time.monotonic()

        groups.run(take_part)


def test_the_error_of_a_broken_connection_names_the_rank():
    schedule = to_json(ring(3))
    with open_groups(3) as groups:

        def take_part(group):
            if group.rank == 2:
                group.connections.close()
                return ""
            with pytest.raises(PeerLost) as lost:
                group.run(RankSchedule.of(schedule, group.rank), np.zeros(1 << 20, np.float32))
            return lost.value.neighbour

        assert groups.run(take_part) == ["rank 2", "rank 2", ""]
