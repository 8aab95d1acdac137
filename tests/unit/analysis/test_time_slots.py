"""Samples of ranks that follow time slots to the times and bytes of these."""

import pytest

from testbed.analysis.time_slots import time_slot_values
from tests.unit.analysis.logs_by_hand import Log


def sampled(*slots, changes=()):
    log = Log(0.0)
    data = {"size": 4096, "step": 0, "slots": list(slots), "changes": list(changes)}
    log.on("h0", 1.0, "sample", "rank 0", rank=0, generation=1, **data)
    return log.events


def test_a_cycle_lasts_from_circuits_to_the_same_circuits():
    events = sampled([1, 0.0, 5, False], [2, 0.5, 5, False], [1, 1.5, 5, False], [1, 3.0, 5, False])
    assert time_slot_values(events) == {"cycle_time": 1.5}


def test_what_a_slot_carries_is_of_those_in_which_there_was_always_more_to_send():
    first = sampled([1, 0.0, 70, False], [1, 1.0, 100, True], [1, 2.0, 10, False])
    other = sampled([1, 0.0, 70, False], [1, 1.1, 104, True], [1, 2.0, 10, False])
    assert time_slot_values([*first, *other]) == {"cycle_time": 1.0, "slot_bytes": 102}


def test_a_cycle_does_not_reach_from_one_exchange_into_the_next():
    assert time_slot_values(sampled([1, 0.0, 5, False]) + sampled([1, 9.0, 5, False])) == {}


def test_the_dark_time_is_that_of_all_slots():
    events = sampled([1, 0.0, 5, False], [2, 1.0, 5, False], changes=[0.04, 0.06])
    assert time_slot_values(events) == {"slot_dark": pytest.approx(0.05)}


def test_samples_of_other_jobs_have_no_slots():
    log = Log(0.0)
    data = {"size": 4096, "step": 0, "changes": [0.5]}
    log.on("h0", 1.0, "sample", "rank 0", rank=0, generation=1, **data)
    assert time_slot_values(log.events) == {}
