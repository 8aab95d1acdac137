"""Any schedule over circuits that stay: what has no circuit of its own passes through ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.collectives.catalogue import ALGORITHMS, Algorithm, all_reduce
from testbed.collectives.cost import Links, cost
from testbed.collectives.forwarding import forwarded
from testbed.collectives.halving import halving_doubling
from testbed.collectives.own_pace import seconds_at_own_pace
from testbed.collectives.rings import ring
from testbed.collectives.schedule import Pair, Round, Schedule, Send
from testbed.collectives.stragglar import stragglar
from testbed.onhost.communication.communicator import chunk_bounds
from tests.unit.collectives.execute import execute


def around(ranks: int) -> list[Pair]:
    return [(min(r, (r + 1) % ranks), max(r, (r + 1) % ranks)) for r in range(ranks)]


def carried_out(data: dict[str, Any], buffers: Any) -> Any:
    """Carry out rows as ranks do: one message a round either way, and what is held is apart."""
    result, held = buffers.copy(), {}
    bounds = chunk_bounds(buffers.shape[1], data["chunks"])
    for step in data["rounds"]:
        assert len({row[0] for row in step}) == len({row[1] for row in step}) == len(step)
        messages = []
        for source, destination, chunk, count, operation, passed_on, holds in step:
            part = slice(bounds[chunk][0], bounds[chunk + count - 1][1])
            own = result[source, part].copy()
            message = own if passed_on is None else held.pop((source, passed_on))
            messages.append((destination, part, operation, holds, message))
        for destination, part, operation, holds, message in messages:
            if holds is not None:
                held[destination, holds] = message
            elif operation == "reduce":
                result[destination, part] += message
            else:
                result[destination, part] = message
    assert not held
    return result


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(ranks=st.sampled_from([2, 4, 6, 8]), straggler=st.integers(0, 1), size=st.integers(0, 60))
def test_a_forwarded_schedule_gives_the_same_bits(
    algorithm: Algorithm, ranks: int, straggler: int, size: int
) -> None:
    schedule = all_reduce(algorithm, ranks, straggler)
    found = forwarded(schedule, around(ranks), around_straggler=size % 2 > 0)
    buffers = np.random.default_rng(ranks).integers(-1000, 1000, (ranks, size))
    assert (carried_out(found.to_json(), buffers) == execute(schedule, buffers)).all()
    lit = set(around(ranks))
    for step in found.as_sends().rounds:
        assert set(step.pairs) <= lit


@given(st.data())
def test_any_schedule_on_a_ring_gives_the_same_result_when_forwarded(data: st.DataObject) -> None:
    """Also where what is added to is still to be sent, and ranks have more than enough to do."""
    ranks = data.draw(st.integers(3, 7))
    rounds = []
    for _ in range(data.draw(st.integers(1, 3))):
        ends = data.draw(st.permutations(range(ranks)))
        sends = [
            Send(
                rank,
                to,
                data.draw(st.integers(0, 1)),
                data.draw(st.sampled_from(["reduce", "copy"])),
            )
            for rank, to in enumerate(ends)
            if rank != to
        ]
        rounds.append(Round.of(sends))
    schedule = Schedule("any", "all-reduce", ranks, 2, tuple(rounds))
    buffers = np.random.default_rng(0).integers(-1000, 1000, (ranks, 3))
    found = forwarded(schedule, around(ranks)).to_json()
    assert (carried_out(found, buffers) == execute(schedule, buffers)).all()


def test_messages_between_neighbours_are_not_forwarded() -> None:
    schedule = ring(5)
    found = forwarded(schedule, around(5))
    assert cost(found.as_sends(), 10**6, Links(1e-3, 1e-8)) == cost(
        schedule, 10**6, Links(1e-3, 1e-8)
    )
    assert all(row[5:] == [None, None] for step in found.to_json()["rounds"] for row in step)


def test_forwarding_over_two_hops_costs_a_round_twice() -> None:
    found = forwarded(halving_doubling(4), around(4))
    assert len(found.rounds) == 6
    took = cost(found.as_sends(), 4000, Links(1.0, 1e-3))
    assert took.total == pytest.approx(6 + 2.5 * 4)


@pytest.mark.parametrize("ranks", [4, 6, 8])
@pytest.mark.parametrize("straggler", [None, 1])
def test_data_is_forwarded_around_a_straggler_until_its_first_round(
    ranks: int, straggler: int | None
) -> None:
    """Over a straggler, which is idle and so the first choice, it would wait for its arrival."""
    schedule = stragglar(ranks, straggler)
    late = {schedule.straggler: 10.0}
    links = Links(1e-3, 1e-8)
    exposed, over = (
        seconds_at_own_pace(
            forwarded(schedule, around(ranks), around_straggler=one), 10**6, links, late
        )[1]
        for one in (True, False)
    )
    assert exposed < 0.85 * over
    hops = forwarded(schedule, around(ranks), around_straggler=True).rounds
    early = sum(map(len, schedule.rounds[: schedule.early]))
    paths = [(hop.source, hop.destination) for step in hops for hop in step if hop.message < early]
    assert paths and not any(schedule.straggler in ends for ends in paths)


def test_data_is_forwarded_over_a_straggler_where_there_is_no_other_way() -> None:
    """On a line of ranks with the straggler in its middle."""
    schedule = stragglar(4, 1)
    found = forwarded(schedule, [(0, 1), (1, 2), (2, 3)], around_straggler=True)
    buffers = np.arange(16).reshape(4, 4)
    assert (carried_out(found.to_json(), buffers) == execute(schedule, buffers)).all()


def test_forwarding_to_an_unreachable_rank_is_refused() -> None:
    with pytest.raises(ValueError, match="no lit circuits lead from rank 0 to rank 2"):
        forwarded(halving_doubling(4), [(0, 1), (2, 3)])
