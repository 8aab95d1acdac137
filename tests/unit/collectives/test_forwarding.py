"""A circuit of its own, or a way over circuits that are lit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.collectives.broadcasts import chain
from testbed.collectives.cost import Links, cost, fastest
from testbed.collectives.exchanges import all_to_all
from testbed.collectives.forwarding import over_circuits, repoint_or_forward
from testbed.collectives.rings import ring
from testbed.collectives.schedule import Pair
from testbed.collectives.verify import verify

BYTES = Links(alpha=0.0, beta=1.0)
"""A byte in a second, and no latency: times are bytes."""


def test_one_hop_needs_no_forwarding_rank() -> None:
    way = repoint_or_forward(10, 1, Links(1, 1, reconfiguration=5))
    assert (way.forwarding, way.chunks, way.repointing, way.repoint) == (11, 1, 16, False)


def test_a_long_message_justifies_a_circuit_change_and_a_short_one_does_not() -> None:
    links = Links(20e-6, 8 / 1e9, reconfiguration=25e-3)
    assert not repoint_or_forward(64 << 10, 3, links).repoint
    assert not repoint_or_forward(16 << 20, 3, links).repoint  # in pieces, hops cost little
    assert repoint_or_forward(64 << 10, 3, Links(20e-6, 8 / 1e9, 50e-6)).repoint


@given(st.integers(0, 10**8), st.integers(1, 12), st.floats(0, 1), st.floats(1e-7, 1e-2))
@settings(max_examples=200)
def test_no_number_of_pieces_forwards_faster(
    size: int, hops: int, delta: float, alpha: float
) -> None:
    links = Links(alpha, 1e-8, reconfiguration=delta)
    way = repoint_or_forward(size, hops, links)
    for pieces in {1, 2, 3, 10, 100, 1000, max(way.chunks - 1, 1), way.chunks + 1}:
        if pieces <= max(size, 1):
            # Whole bytes only: a piece is up to one byte longer than its share.
            slack = (hops + pieces) * 1e-8 + 1e-12
            assert way.forwarding <= (hops + pieces - 1) * links.seconds(size / pieces) + slack
    assert way.repoint == (way.repointing < way.forwarding)


@given(st.integers(1, 10**6), st.integers(1, 8))
@settings(max_examples=50)
def test_forwarding_costs_what_its_chain_costs(size: int, hops: int) -> None:
    links = Links(1e-3, 1e-6)
    way = repoint_or_forward(size, hops, links)
    saved = way.forwarding - cost(chain(hops + 1, way.chunks), size, links).total
    assert -1e-9 <= saved <= way.chunks * links.beta  # the last pieces may be a byte shorter


def test_without_latency_a_message_is_forwarded_byte_by_byte() -> None:
    assert repoint_or_forward(100, 3, Links(0, 1, reconfiguration=5)).chunks == 100


def test_zero_hops_are_refused() -> None:
    with pytest.raises(ValueError, match="0 hops lead nowhere"):
        repoint_or_forward(1, 0, BYTES)


# All-to-all over circuits that stay


def circle(ranks: int) -> list[Pair]:
    return [(rank, rank + 1) for rank in range(ranks - 1)] + [(0, ranks - 1)]


@given(st.integers(2, 12), st.data())
@settings(max_examples=40)
def test_an_all_to_all_is_forwarded_over_any_connected_circuits(
    ranks: int, data: st.DataObject
) -> None:
    tree = [(data.draw(st.integers(0, rank - 1)), rank) for rank in range(1, ranks)]
    more = data.draw(st.lists(st.sampled_from(circle(ranks)) if ranks > 2 else st.nothing()))
    lit = {*tree, *more}
    schedule = over_circuits(all_to_all(ranks), lit)
    verify(schedule)
    assert all(set(step.pairs) <= lit for step in schedule.rounds)


@pytest.mark.parametrize("ranks", [4, 6, 8, 12, 16])
def test_a_ring_forwards_in_the_fewest_rounds_for_its_hops(ranks: int) -> None:
    schedule = over_circuits(all_to_all(ranks), circle(ranks))
    hops = sum(min(distance, ranks - distance) for distance in range(1, ranks))
    print(f"n = {ranks}: {len(schedule.rounds)} rounds, {hops} hops from every rank")
    assert sum(map(len, schedule.rounds)) == hops * ranks
    assert hops <= len(schedule.rounds) <= hops + 2


def test_all_to_all_is_forwarded_where_circuit_changes_are_slow() -> None:
    lit = circle(8)
    pointed, forwarded = all_to_all(8), over_circuits(all_to_all(8), lit)
    for delta, chosen in ((1e-3, pointed), (1.0, forwarded)):
        links = Links(1e-4, 1e-8, reconfiguration=delta)
        assert fastest([pointed, forwarded], 64 << 20, links, lit=lit) is chosen
    assert cost(forwarded, 1, Links(0, 0, 1.0), lit=lit).reconfigurations == 0


def test_forwarding_to_an_unreachable_rank_is_refused() -> None:
    with pytest.raises(ValueError, match="no lit circuits lead from rank 0 to rank 3"):
        over_circuits(all_to_all(4), [(0, 1), (1, 2)])


def test_forwarding_is_refused_where_an_intermediate_rank_has_no_free_chunk() -> None:
    with pytest.raises(ValueError, match="a chunk of ring has no room"):
        over_circuits(ring(4), circle(4))
