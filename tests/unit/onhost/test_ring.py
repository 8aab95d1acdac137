from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.onhost.communication.communicator import chunk_bounds
from testbed.onhost.communication.connections import NEXT
from testbed.onhost.communication.control import LeaveOrder
from testbed.onhost.communication.ring import OPENING, SEGMENT, Ring
from testbed.onhost.communication.tasks import run, send_all
from testbed.onhost.errors import Corrupt, Left, PeerLost, ProtocolError, WrongGeneration
from tests.unit.onhost.rank_driver import around, connection, open_rings


def in_ring_order(vectors):
    """Sum as the ring does: chunk c from rank c on, once around."""
    total = np.empty_like(vectors[0])
    for chunk, (start, end) in enumerate(chunk_bounds(len(total), len(vectors))):
        partial = vectors[chunk][start:end]
        for hop in range(1, len(vectors)):
            partial = vectors[(chunk + hop) % len(vectors)][start:end] + partial
        total[start:end] = partial
    return total


@given(st.integers(0, 5000), st.integers(1, 300))
def test_chunks_cover_every_element_once_and_their_sizes_differ_by_at_most_one(size, ranks):
    bounds = chunk_bounds(size, ranks)
    assert len(bounds) == ranks
    assert [*(start for start, _ in bounds), size] == [0, *(end for _, end in bounds)]
    lengths = [end - start for start, end in bounds]
    assert max(lengths) - min(lengths) <= 1


@given(st.integers(1, 6), st.integers(0, 3000), st.integers(0, 2**32))
def test_all_reduce_gives_every_rank_the_sum(ranks, size, seed):
    vectors = np.random.default_rng(seed).integers(-(2**59), 2**59, (ranks, size), np.int64)
    expected = vectors.sum(axis=0)
    with open_rings(ranks) as rings:
        rings.run(lambda ring: ring.all_reduce(vectors[ring.rank]))
    assert (vectors == expected).all()


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_floats_are_summed_in_ring_order_whatever_the_timing(ranks):
    count = SEGMENT + 1  # several segments, and chunks of unequal length
    vectors = np.random.default_rng(ranks).standard_normal((ranks, count)).astype(np.float32)
    expected = in_ring_order(vectors)

    def dawdle(ring):
        for _ in range(3):
            vector = vectors[ring.rank].copy()
            time.sleep(0.002 * ring.rank)
            ring.all_reduce(vector)
            assert vector.tobytes() == expected.tobytes()

    with open_rings(ranks) as rings:
        rings.run(dawdle)


@pytest.mark.parametrize("size", [1, 3, 7, 11])
def test_an_all_reduce_is_correct_however_the_network_splits_elements(size):
    """The second rank is played on the wire: opening, own chunk, then the sum of the other one."""
    (to_next, far_in), (far_out, from_previous) = connection(), connection()
    leave = LeaveOrder()
    ring = Ring(0, 2, around(to_next, from_previous, 1, leave))
    mine, theirs = np.arange(6, dtype=np.int64) << 40, np.arange(6, dtype=np.int64) + (7 << 50)
    vector = mine.copy()

    def say(data):
        for start in range(0, len(data), size):
            far_out.sendall(data[start : start + size])

    with ThreadPoolExecutor(1) as threads, far_in, far_out:
        far_in.setblocking(True)
        done = threads.submit(ring.all_reduce, vector)
        opening = far_in.recv(OPENING.size, socket.MSG_WAITALL)
        first = np.frombuffer(far_in.recv(24, socket.MSG_WAITALL), np.int64)
        assert (first == mine[:3]).all()
        say(opening + theirs[3:].tobytes() + (first + theirs[:3]).tobytes())
        last = np.frombuffer(far_in.recv(24, socket.MSG_WAITALL), np.int64)
        assert done.result(5).sent == OPENING.size + 48
    ring.connections.close()
    leave.close()
    assert (vector == mine + theirs).all()
    assert (last == vector[3:]).all()


def test_all_reduce_returns_the_number_of_bytes_sent():
    with open_rings(4) as rings:
        records = rings.run(lambda ring: ring.all_reduce(np.ones(4000, np.float32)))
    expected = OPENING.size + 2 * 3 * 4000  # an opening and 2 (n - 1) / n of the vector
    assert [record.sent for record in records] == [expected] * 4


def test_ring_barrier_waits_for_the_last_rank():
    came = []

    def late(ring):
        time.sleep(0.03 * ring.rank)
        came.append(ring.rank)
        ring.barrier()
        return len(came)

    with open_rings(3) as rings:
        assert rings.run(late) == [3, 3, 3]


def test_an_order_to_leave_ends_a_wait_at_once():
    with open_rings(3) as rings:
        vectors = [np.ones(100_000, np.float32) for _ in range(3)]
        left = []

        def wait(rank):
            with pytest.raises(Left):
                rings.members[rank].all_reduce(vectors[rank])
            left.append(time.monotonic())

        threads = [threading.Thread(target=wait, args=(rank,)) for rank in (0, 1)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)  # rank 2 never comes, so both are waiting by now
        assert not left
        told = time.monotonic()
        for order in rings.leave:
            order.give(1)
        for thread in threads:
            thread.join(5)
    assert len(left) == 2
    assert max(left) - told < 0.05


def test_an_order_for_an_older_generation_is_no_order_to_leave():
    with open_rings(2, generations=[5, 5]) as rings:
        for order in rings.leave:
            order.give(4)
        rings.run(lambda ring: ring.all_reduce(np.ones(10, np.float32)))


def test_a_message_of_another_generation_is_refused():
    def attempt(ring):
        with pytest.raises((WrongGeneration, PeerLost)) as caught:
            ring.all_reduce(np.ones(10, np.float32))
        return caught.type

    with open_rings(2, generations=[1, 2]) as rings:
        assert WrongGeneration in rings.run(attempt)


@pytest.mark.parametrize(
    "other",
    [
        lambda ring: ring.all_reduce(np.ones(11, np.float32)),
        lambda ring: ring.send_state(memoryview(bytes(40))),
    ],
)
def test_ring_operations_that_differ_between_ranks_are_refused(other):
    def attempt(ring):
        with pytest.raises((ProtocolError, PeerLost, Left)) as caught:
            if ring.rank == 0:
                other(ring)
            ring.all_reduce(np.ones(10, np.float32))
        rings.leave[1 - ring.rank].give(1)
        return caught.type

    with open_rings(2) as rings:
        assert ProtocolError in rings.run(attempt)


@pytest.mark.parametrize(("gone", "neighbours"), [(2, {1: "next", 0: "previous"})])
def test_the_error_of_a_broken_connection_names_the_neighbour(gone, neighbours):
    def job(ring):
        if ring.rank == gone:
            ring.connections.close()
            return None
        with pytest.raises(PeerLost) as caught:
            ring.all_reduce(np.ones(1_000_000, np.float32))
        return caught.value.neighbour

    with open_rings(3) as rings:
        found = rings.run(job)
    assert {rank: found[rank] for rank in neighbours} == neighbours


def test_a_rank_transfers_its_state_to_the_next_rank():
    state = np.random.default_rng(3).bytes(3 * SEGMENT + 17)
    room = bytearray(len(state))

    def job(ring):
        if ring.rank == 0:
            ring.send_state(memoryview(state))
        else:
            ring.receive_state(memoryview(room))

    with open_rings(2) as rings:
        rings.run(job)
    assert room == state


def test_a_state_modified_during_its_transfer_is_detected_as_corrupt():
    def job(ring):
        if ring.rank == 0:
            message = ring.opening(b"STAT", 4) + b"good" + b"\0\0\0\0"
            run(ring.connections, send_all(ring.connections, NEXT, message))
        else:
            with pytest.raises(Corrupt, match="checksum"):
                ring.receive_state(memoryview(bytearray(4)))

    with open_rings(2) as rings:
        rings.run(job)
