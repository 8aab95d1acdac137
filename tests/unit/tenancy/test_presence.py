"""Clients of a trace come and go at its instants, again each period."""

from __future__ import annotations

from itertools import islice, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.tenancy.presence import changes
from testbed.tenancy.traces import ClientTrace, Population, generate


def client(*spans):
    return ClientTrace("c", spans, 1.0, 1.0, 1, {})


def said(clients, period, start, count):
    found = islice(changes(clients, period, start), count)
    return [(each.at, each.client, each.is_arrival) for each in found]


def test_clients_come_and_go_in_the_order_of_time():
    two = [client((10, 30), (50, 90)), client((20, 50))]
    assert said(two, 100, 0, 8) == [
        (10, 0, True),
        (20, 1, True),
        (30, 0, False),
        (50, 1, False),
        (50, 0, True),
        (90, 0, False),
        (110, 0, True),
        (120, 1, True),
    ]


def test_clients_that_are_there_when_the_run_begins_come_at_once():
    assert said([client((10, 30))], 100, 20, 3) == [(0, 0, True), (10, 0, False), (90, 0, True)]
    assert said([client((10, 30))], 100, 10, 2) == [(0, 0, True), (20, 0, False)]
    assert said([client((10, 30))], 100, 30, 2) == [(80, 0, True), (100, 0, False)]
    assert said([client((10, 30))], 100, 120, 1) == [(0, 0, True)]


def test_a_trace_without_sessions_has_no_changes():
    assert said([client()], 100, 0, 1) == []


@given(seed=st.integers(0, 99), start=st.integers(0, 4 * 86_400_000))
@pytest.mark.parametrize("clients", [5])
def test_who_is_there_is_who_the_trace_says(clients, seed, start):
    trace = generate(Population(clients=clients), seed)
    here = set()
    until = 3 * 86_400_000
    for change in takewhile(
        lambda each: each.at <= until, changes(trace.clients, trace.period, start)
    ):
        assert (change.client in here) is not change.is_arrival
        here ^= {change.client}
    at = (start + until) % trace.period
    for place, each in enumerate(trace.clients):
        inside = any(first < at < last for first, last in each.available)
        at_edge = any(at in span for span in each.available) or at == 0
        assert at_edge or inside is (place in here)
