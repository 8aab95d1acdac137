"""Traces in the form of FedScale, pickled and as JSON; what is hostile is refused, never run."""

from __future__ import annotations

import json
import os
import pickle
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.tenancy.fedscale import plain_data, read

CAPACITY = {
    1: {"computation": 162.0, "communication": 5648.1},
    2: {"computation": 30, "communication": 100.5},
    7: {"computation": 1.0, "communication": 1.0},
}
AVAILABILITY = {
    1: {
        "duration": 100,
        "inactive": [50, 120],
        "finish_time": 200,
        "active": [0, 90],
        "model": "CPH1801",
    },
    2: {"duration": 10, "inactive": [60], "finish_time": 100, "active": [50], "model": "x"},
    9: {"duration": 10, "inactive": [60], "finish_time": 100, "active": [50], "model": "x"},
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_is_read_from_a_pickle_of_any_protocol(protocol):
    data = {
        "all": [1, -1, 255, 70_000, 2**40, -(2**40), 2**2100, 1.5, "text", "ä" * 300],
        3: {"none": None, "both": [True, False], "empty": [[], {}]},
        "same": [CAPACITY, CAPACITY],
    }
    pickled = pickle.dumps(data, protocol)
    assert plain_data(pickled) == data


@pytest.mark.parametrize("dumps", [pickle.dumps, lambda data: json.dumps(data).encode()])
def test_only_clients_that_are_in_both_trace_files_are_read(dumps):
    trace = read(dumps(CAPACITY), dumps(AVAILABILITY), lambda name: {"ram": 2.0}, lambda name: 5)
    assert trace.period == 200_000
    one, two = trace.clients
    assert (one.id, one.latency_per_sample, one.rate) == ("1", 162.0, 5648.1)
    assert one.available == ((0, 50_000), (90_000, 120_000))
    assert two.available == ((50_000, 60_000), (150_000, 160_000))  # half the period of the other
    assert (two.attributes, two.samples) == ({"ram": 2.0}, 5)


class Hostile:
    def __reduce__(self):
        return os.system, ("touch /tmp/hostile-trace",)


@pytest.mark.parametrize("made", [Hostile(), OrderedDict(a=1), {1: {2, 3}}, (1, 2), b"bytes"])
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_with_code_is_refused_without_running_it(made, protocol):
    with pytest.raises(ValueError, match="was not executed"):
        plain_data(pickle.dumps({"a": made}, protocol))


def changed(client, **row):
    return {**AVAILABILITY, client: {**AVAILABILITY[client], **row}}


@pytest.mark.parametrize(
    ("capacity", "availability", "why"),
    [
        ([1], AVAILABILITY, "a mapping by client"),
        ({1: 5}, AVAILABILITY, "computation of 1 is None"),
        ({1: {"computation": 0, "communication": 1}}, AVAILABILITY, "computation of 1 is 0"),
        ({1: {"computation": True, "communication": 1}}, AVAILABILITY, "computation of 1 is True"),
        ({1: {"computation": 1.0}}, AVAILABILITY, "communication of 1 is None"),
        (CAPACITY, changed(1, active=[0]), "do not form pairs of instants"),
        (CAPACITY, changed(1, active=["0", "90"]), "do not form pairs of instants"),
        (CAPACITY, changed(1, active=7), "do not form pairs of instants"),
        (CAPACITY, changed(1, active=[0, 40]), "not in order"),
        (CAPACITY, changed(1, finish_time=-1), "finish_time of 1 is -1"),
        (CAPACITY, changed(2, finish_time=0.1), "less than a 1000th"),
    ],
)
def test_an_invalid_trace_file_is_refused_with_the_reason(capacity, availability, why):
    with pytest.raises(ValueError, match=why):
        read(pickle.dumps(capacity), pickle.dumps(availability))


@given(st.binary(max_size=60), st.integers(0, 200))
def test_any_bytes_are_read_as_a_trace_or_refused(junk, at):
    whole = pickle.dumps(AVAILABILITY, 4)
    damaged = whole[:at] + junk + whole[at + len(junk) :]
    for data in (junk, b"\x80\x04" + junk, damaged):
        try:
            trace = read(pickle.dumps(CAPACITY), data)
        except ValueError:
            continue
        assert len(trace.clients) <= 3


def test_a_pickle_with_an_invalid_escape_is_refused():
    with pytest.raises(ValueError, match="not a pickle of plain data: invalid escape"):
        plain_data(b"\x80\x04S'\\('\n.")


def test_data_that_is_nested_too_deep_is_refused():
    with pytest.raises(ValueError):  # each parser says it in its own words
        plain_data(b"[" * 200_000)
