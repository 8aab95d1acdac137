"""The job `collective`: what its ranks are told, and what the model expects."""

import pytest

from testbed.analysis.metric_definitions import meaning
from testbed.collectives.cost import Links
from testbed.jobs.collective import Collective
from testbed.jobs.collective_descriptors import CollectiveOptions
from testbed.jobs.contracts import PredictableJob
from tests.unit.collectives.plain_data import schedule_of
from tests.unit.collectives.verifier import verify

MIB = 1 << 20
TWIN = Links(1e-3, 8 / 100e6)
"""The links of papers.md 3.5: 100 Mbit/s, 1 ms."""


def job(**changes):
    return Collective(CollectiveOptions(**{"ranks": 8, "sizes": (7 * MIB,)} | changes))


def test_ranks_receive_schedules_that_the_verifier_accepts():
    told = job(straggler=2).for_rank()
    assert told["kind"] == "collective"
    schedules = told["options"]["schedules"]
    assert list(schedules) == ["ring", "rhd", "direct", "stragglar"]
    for data in schedules.values():
        verify(schedule_of(data))
    assert schedules["stragglar"]["straggler"] == 2


@pytest.mark.parametrize(
    ("delay", "speedup"), [(0.0, 0.82), (0.25, 1.01), (0.5, 1.21), (1.0, 1.16), (2.0, 1.10)]
)
def test_the_predicted_times_equal_those_of_the_paper(delay, speedup):
    assert isinstance(job(), PredictableJob)
    expected = job().predict(TWIN, {7: delay} if delay else {})
    assert expected["speedup"] == pytest.approx(speedup, abs=0.006)
    assert all(meaning(metric) for metric in expected)


def test_a_critical_delay_is_expected_only_of_trials_without_a_delay():
    expected = job().predict(TWIN, {})
    seconds = 7 * MIB * TWIN.beta
    assert expected["critical_delay"] == pytest.approx(0.393 * seconds, rel=0.02)
    assert expected["critical_delay_model"] == expected["critical_delay"]
    assert "critical_delay" not in job().predict(TWIN, {7: 0.1})


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"ranks": 1}, "ranks must be at least 2"),
        ({"ranks": 7}, "stragglar pairs its ranks, so their number must be even, not 7"),
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"sizes": ()}, "sizes must have at least one entry"),
        ({"sizes": (6,)}, "6 bytes are not a whole number of float32"),
        ({"sizes": (4096, 4096)}, "4 KiB is listed twice"),
        ({"algorithms": ("ring", "ring")}, "ring is listed twice"),
        ({"executor": "gloo", "algorithms": ("nccl",)}, "only one of the libraries gloo and nccl"),
        ({"straggler": 8}, "the straggler 8 is not a rank: the ranks are 0 to 7"),
        ({"pace": 0.0}, "pace must be above 0"),
    ],
)
def test_impossible_collective_jobs_are_refused(changes, error):
    with pytest.raises(ValueError, match=error):
        CollectiveOptions(**{"ranks": 8, "sizes": (4096,)} | changes)


def test_algorithms_other_than_stragglar_accept_an_odd_number_of_ranks():
    assert job(ranks=5, algorithms=("ring", "rhd", "direct")).ranks == 5


def test_a_library_collective_has_no_schedule_and_no_prediction():
    mixed = job(algorithms=("ring", "gloo"))
    told = mixed.for_rank()["options"]
    assert list(told["schedules"]) == ["ring", "gloo"]
    assert told["schedules"]["gloo"] is None
    assert told["library"] == "gloo" and not told["through_library"]
    assert not [name for name in mixed.predict(TWIN, {}) if "gloo" in name]


def test_without_a_library_torch_is_not_needed():
    assert job().for_rank()["options"]["library"] is None
    through = job(executor="gloo").for_rank()["options"]
    assert through["library"] == "gloo" and through["through_library"]


def test_the_bytes_sent_by_each_port_are_predicted():
    expected = job().predict(TWIN, {})
    assert expected["sent_ring_7mib"] == pytest.approx(2 * 7 / 8 * 7 * MIB, rel=1e-3)
    assert expected["sent_stragglar_7mib"] <= (6 + 9) * MIB


def test_the_fold_is_slower_than_elimination_unless_ranks_are_a_power_of_two():
    expected = job(ranks=6, algorithms=("rhd", "fold", "stragglar")).predict(TWIN, {})
    assert expected["total_fold_7mib"] > 1.5 * expected["total_rhd_7mib"]
    assert expected["speedup_over_fold"] > expected["speedup_over_rhd"]
    assert all(meaning(metric) for metric in expected)
    told = job(ranks=6, algorithms=("fold",)).for_rank()["options"]["schedules"]
    verify(schedule_of(told["fold"]))
