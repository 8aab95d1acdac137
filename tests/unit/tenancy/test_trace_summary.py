"""A trace in numbers, beside the same taken by hand."""

from __future__ import annotations

import pytest

from testbed.tenancy.trace_summary import summary
from testbed.tenancy.traces import ClientTrace, Population, Trace, generate


def test_numbers_of_a_small_trace_are_those_taken_by_hand():
    clients = (
        ClientTrace("a", ((0, 50_000), (60_000, 90_000)), 10.0, 100.0, 5, {}),
        ClientTrace("b", ((40_000, 60_000),), 30.0, 300.0, 7, {}),
        ClientTrace("c", (), 20.0, 200.0, 9, {}),
    )
    found = summary(trace := Trace(100_000, clients))
    assert (found.clients, found.never, found.sessions, found.period) == (3, 1, 3, 100.0)
    assert found.available_share == pytest.approx(1 / 3)
    assert found.digest == trace.digest
    by = {each.name: each.values for each in found.quantiles}
    assert by["computation"][2] == 20.0 and by["communication"][2] == 200.0
    assert by["samples"][2] == 7.0 and by["session"][2] == 30.0
    assert by["time available"] == pytest.approx((2, 10, 20, 50, 74))
    assert by["clients at once"] == (0, 1, 1, 1, 2)


def test_a_drawn_trace_has_the_quantiles_of_its_distributions():
    found = summary(generate(Population(clients=2_000), 3))
    by = {each.name: each.values for each in found.quantiles}
    assert by["session"][2] == pytest.approx(3_600, rel=0.1)
    assert by["computation"][2] == pytest.approx(50, rel=0.1)
    assert by["communication"][2] == pytest.approx(5_000, rel=0.1)
    assert by["samples"][2] == pytest.approx(100, rel=0.1)


def test_a_trace_without_sessions_has_no_quantiles_of_them():
    found = summary(Trace(1_000, (ClientTrace("a", (), 1.0, 1.0, 1, {}),)))
    by = {each.name: each.values for each in found.quantiles}
    assert by["session"] == () and by["clients at once"] == (0.0,) * 5
