"""The job `collective` on a circuit switch: what its ranks are told, and what the model expects."""

import pytest

from testbed.analysis.metric_definitions import meaning
from testbed.collectives.cost import Links
from testbed.jobs.collective import Collective
from testbed.jobs.collective_descriptors import CollectiveOptions
from testbed.jobs.contracts import CircuitRequestingJob, PredictableJob

MIB = 1 << 20
SMALL, LARGE = MIB // 4, 16 * MIB
TWIN = Links(3e-4, 8 / 480e6, reconfiguration=40e-3)


def job(**changes):
    given = {"ranks": 4, "sizes": (SMALL, LARGE), "algorithms": ("ring", "rhd")} | changes
    return Collective(CollectiveOptions(**given)).on_circuits()


def test_every_collective_begins_on_the_circuits_of_the_ring():
    found = job(algorithms=("ring",))
    assert isinstance(found, PredictableJob) and isinstance(found, CircuitRequestingJob)
    assert len(found.circuits) == 1
    told = found.for_rank()["options"]
    assert told["circuits"]["tour"] == [] and told["choices"] == {}
    assert [stage["circuits"] for stage in told["schedules"]["ring"]] == [0]


def test_ranks_get_the_repointed_and_forwarded_schedules_with_all_circuits():
    told = job(circuits="both").for_rank()["options"]
    assert list(told["schedules"]) == ["ring", "rhd_repointed", "rhd_forwarded"]
    assert [stage["circuits"] for stage in told["schedules"]["rhd_repointed"]] == [1]
    assert [stage["circuits"] for stage in told["schedules"]["rhd_forwarded"]] == [0]
    assert told["circuits"]["tour"] == [1, 0]
    assert len(told["circuits"]["circuits"]) == 2


@pytest.mark.parametrize(
    ("circuits", "names"),
    [
        ("re-point", {"ring", "rhd_repointed"}),
        ("forward", {"ring", "rhd_forwarded"}),
        ("both", {"ring", "rhd_repointed", "rhd_forwarded"}),
        ("auto", {"ring", "rhd"}),
    ],
)
def test_the_model_predicts_a_time_for_every_schedule_that_runs(circuits, names):
    expected = job(circuits=circuits).predict(TWIN, {})
    assert set(expected) == {
        f"{what}_{name}_{size}"
        for what in ("total", "exposed")
        for name in names
        for size in ("256kib", "16mib")
    }
    assert all(meaning(metric) for metric in expected)


def test_small_messages_are_forwarded_and_large_ones_get_new_circuits():
    found = job()
    assert found.choices(TWIN) == {
        "rhd": {str(SMALL): "rhd_forwarded", str(LARGE): "rhd_repointed"}
    }
    both, auto = job(circuits="both").predict(TWIN, {}), found.predict(TWIN, {})
    assert auto["total_rhd_256kib"] == both["total_rhd_forwarded_256kib"]
    assert auto["total_rhd_16mib"] == both["total_rhd_repointed_16mib"]
    assert job(circuits="both").choices(TWIN) == {}


def test_the_predicted_cost_of_a_change_is_the_measured_one():
    """Halving and doubling of four ranks: four rounds and one change, or six rounds and none.

    A rank has a port for each of two partners, so a round of less data is over with one of more.
    """
    expected = job(circuits="both").predict(TWIN, {})
    byte = LARGE * TWIN.beta
    assert expected["total_rhd_repointed_16mib"] == pytest.approx(4 * 3e-4 + byte + 40e-3)
    assert expected["total_rhd_forwarded_16mib"] == pytest.approx(6 * 3e-4 + 2.25 * byte)


@pytest.mark.parametrize(("named", "early"), [(3, True), (None, False)])
def test_data_is_forwarded_around_a_straggler_that_is_named(named, early):
    found = job(algorithms=("stragglar",), circuits="forward", straggler=named)
    (stage,) = found.for_rank()["options"]["schedules"]["stragglar_forwarded"]
    first = [hop for step in stage["rounds"][:4] for hop in step]
    assert all(3 not in hop[:2] for hop in first) == early
