"""Timed collectives to bandwidths."""

import pytest

from testbed.analysis.bandwidth import bandwidths
from testbed.analysis.clocks import Clocks
from testbed.analysis.metric_definitions import size_name
from testbed.analysis.nccl import bus_factor
from tests.unit.analysis.logs_by_hand import Log

MIB = 2**20


def sampled(*iterations, size=4 * MIB, ahead=0.0, **more):
    """Return a log of samples; each iteration is (begin, end) of every rank in turn."""
    log = Log(ahead)
    log.measure(0.0)
    for number, spans in enumerate(iterations):
        for rank, (begin, end) in enumerate(spans):
            on = log.ahead[f"h{rank}"]
            data = {"size": size, "step": number, "begin": begin + on, "end": end + on, **more}
            log.on(f"h{rank}", end, "sample", f"rank {rank}", rank=rank, generation=1, **data)
    return log


def measured(log, ranks=4):
    return bandwidths(log.events, Clocks(log.events), ranks)


def test_an_iteration_lasts_from_the_last_entry_to_the_last_exit():
    late = [(1.0, 1.30), (1.1, 1.31), (1.2, 1.29), (1.05, 1.30)]
    values = measured(sampled(late))
    assert values["time_4mib"] == pytest.approx(0.11)
    assert values["algbw_4mib"] == pytest.approx(4 * MIB * 8 / 0.11)
    assert values["busbw_4mib"] == pytest.approx(4 * MIB * 8 / 0.11 * 1.5)


def test_clock_offsets_of_hosts_do_not_change_the_bandwidth():
    late = [(1.0, 1.30), (1.1, 1.31), (1.2, 1.29), (1.05, 1.30)]
    assert measured(sampled(late, ahead=1000.0)) == pytest.approx(measured(sampled(late)), rel=1e-6)


def test_the_bandwidth_of_a_size_is_that_of_the_median_iteration():
    spans = [[(t, t + length)] * 4 for t, length in ((1, 0.1), (2, 0.9), (3, 0.2))]
    assert measured(sampled(*spans))["time_4mib"] == pytest.approx(0.2)


def test_every_message_size_has_its_own_times_and_bandwidths():
    log = sampled([(1.0, 1.1)] * 4, size=4096)
    log.events += sampled([(2.0, 2.5)] * 4, size=100).events
    values = measured(log)
    assert values["time_4kib"] == pytest.approx(0.1)
    assert values["time_100b"] == pytest.approx(0.5)


def test_groups_along_a_dimension_have_values_of_their_own_and_the_factor_of_their_ranks():
    log = sampled([(1.0, 1.1)] * 4, dimension="dp", members=[0, 2])
    log.events += sampled([(2.0, 2.5)] * 4, dimension="ep", members=[0, 1, 2, 3]).events
    log.events += sampled([(3.0, 3.1)] * 4, dimension="tp", members=[0]).events
    values = measured(log)
    assert values["time_4mib_along_dp"] == pytest.approx(0.1)
    assert values["busbw_4mib_along_dp"] == pytest.approx(4 * MIB * 8 / 0.1)
    assert values["busbw_4mib_along_ep"] == pytest.approx(4 * MIB * 8 / 0.5 * 1.5)
    assert {name.partition("_")[2] for name in values} == {"4mib_along_dp", "4mib_along_ep"}


@pytest.mark.parametrize(
    ("operation", "factor"),
    [("all_reduce", 1.5), ("all_gather", 0.75), ("alltoall", 0.75), ("broadcast", 1)],
)
def test_a_collective_that_is_named_has_its_own_factor(operation, factor):
    values = measured(sampled([(1.0, 1.1)] * 4, operation=operation))
    assert values["busbw_4mib"] == pytest.approx(values["algbw_4mib"] * factor)


def test_a_collective_that_nccl_tests_does_not_have_has_no_bus_bandwidth():
    values = measured(sampled([(1.0, 1.1)] * 4, operation="gossip"))
    assert values.keys() == {"time_4mib", "algbw_4mib"}


def test_a_size_of_several_collectives_has_no_values():
    log = sampled([(1.0, 1.1)] * 4)
    log.events += sampled([(2.0, 2.5)] * 4, operation="all_gather").events
    assert measured(log) == {}


def test_an_iteration_that_a_rank_did_not_finish_does_not_count():
    assert measured(sampled([(1.0, 1.1)] * 3)) == {}
    both = sampled([(1.0, 1.1)] * 3, [(2.0, 2.3)] * 4)
    assert measured(both)["time_4mib"] == pytest.approx(0.3)


def test_iterations_shorter_than_the_clock_error_are_left_out():
    assert measured(sampled([(1.0, 1.05), (1.1, 1.05), (1.0, 1.04), (1.0, 1.05)])) == {}


@pytest.mark.parametrize(("ranks", "factor"), [(1, 0), (2, 1), (4, 1.5), (8, 1.75)])
def test_bus_bandwidth_follows_the_definition_of_nccl(ranks, factor):
    assert bus_factor(ranks) == factor


@pytest.mark.parametrize(
    ("size", "name"),
    [(4096, "4kib"), (MIB, "1mib"), (2**30, "1gib"), (1500, "1500b"), (3 * 2**19, "1536kib")],
)
def test_a_size_is_named_in_the_largest_unit_that_fits(size, name):
    assert size_name(size) == name
