"""What the registry says of every AllReduce is true of its schedules."""

from typing import get_args

import pytest

from testbed.analysis.metric_definitions import METRICS, is_of_size
from testbed.collectives.algorithms import ALL_REDUCES, COMPARED, LIBRARIES, REFERENCE, Algorithm
from testbed.collectives.catalogue import all_reduce
from testbed.jobs.collective_descriptors import Algorithm as AlgorithmOfFile
from testbed.jobs.descriptors import Collective


@pytest.mark.parametrize("name", ALL_REDUCES)
def test_a_schedule_has_its_name_and_the_straggler_that_it_expects(name):
    schedule = all_reduce(name, 6, 2)
    assert schedule.name == name
    assert schedule.straggler == (2 if ALL_REDUCES[name].expects_straggler else None)


@pytest.mark.parametrize("name", ALL_REDUCES)
def test_the_registry_states_which_numbers_of_ranks_are_served(name):
    known = ALL_REDUCES[name]
    assert all_reduce(name, known.least).ranks == known.least
    if known.pairs_ranks:
        with pytest.raises(ValueError):
            all_reduce(name, 7)
    else:
        assert all_reduce(name, 7).ranks == 7


def test_files_take_every_registered_name_and_no_other():
    assert get_args(Algorithm) == tuple(ALL_REDUCES)
    assert get_args(AlgorithmOfFile) == (*ALL_REDUCES, *LIBRARIES)
    candidates = [name for name, known in ALL_REDUCES.items() if known.is_candidate]
    assert get_args(Collective) == (*candidates, "auto")


def test_every_algorithm_has_its_metrics():
    for name in ALL_REDUCES:
        assert is_of_size(f"total_{name}_7mib")
        assert is_of_size(f"over_gloo_{name}_forwarded_64kib")
        assert (f"speedup_over_{name}" in METRICS) == (name not in (REFERENCE, COMPARED))
    assert not is_of_size("total_other_7mib")
