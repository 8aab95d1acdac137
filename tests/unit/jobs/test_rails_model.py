"""The job `rails-model`: its options, and the signature of the authors' smoke test of Opus."""

from pathlib import Path

import pytest

from testbed.jobs.rails_descriptors import RailsCostOptions, RailsModelOptions
from testbed.jobs.rails_model import RailsCost, RailsModel
from testbed.schema import load_experiment

ROOT = Path(__file__).parents[3]
MESH = {"pp": 2, "dp": 2, "tp": 2}


def options(**more):
    return RailsModelOptions(**{"mesh": MESH, "forward": 0.1, "backward": 0.2, "rate": 1e9, **more})


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"mesh": {"ep": 2}}, "'ep' is not one of the dimensions pp, dp and tp"),
        ({"mesh": {"pp": 0, "dp": 2}}, "pp must be at least 1, not 0"),
        ({"mesh": {"tp": 8}}, r"a rail has 2 to 256 ranks \(pp x dp\), not 1"),
        ({"mesh": {"pp": 4, "dp": 65}}, r"a rail has 2 to 256 ranks \(pp x dp\), not 260"),
        ({"rate": 0.0}, "rate must be above 0"),
        ({"micro_batches": 0}, "micro_batches must be at least 1, not 0"),
    ],
)
def test_impossible_options_are_refused(more, text):
    with pytest.raises(ValueError, match=text):
        options(**more)


def test_all_metrics_that_the_options_promise_are_computed():
    assert {*RailsModel(options()).values()} == {*options().measures()}


def test_the_control_itself_adds_to_every_change_on_demand():
    bare, controlled = (RailsModel(options(control=seconds)).values() for seconds in (0.0, 0.005))
    assert controlled["iteration_time"] - bare["iteration_time"] == pytest.approx(0.01)


def test_the_shipped_signature_is_exact_to_a_microsecond():
    shipped = load_experiment(ROOT / "experiments" / "opus-signature.yaml")
    found = {
        arm.name: RailsModel(arm.experiment.jobs["main"].options).values()["stall"]
        for arm in shipped.arms()
    }
    assert found == pytest.approx(
        {
            "no-delay": 0.0,
            **{f"demand-{ms}ms": 2e-3 * ms for ms in (1, 10, 50)},
            "provisioned-1ms": 0.0,
            **{f"provisioned-{ms}ms": 1e-3 * ms - 1.1e-3 for ms in (10, 50)},
        },
        abs=1e-6,
    )


@pytest.mark.parametrize(
    ("gpus", "power", "cost"),
    [
        (1024, 23.586, 3.3209),
        (2048, 23.855, 3.3582),
        (4096, 24.051, 3.3854),
        (8192, 23.855, 3.3582),
    ],
)
def test_power_and_cost_are_those_of_the_authors_analysis(gpus, power, cost):
    found = RailsCost(RailsCostOptions(gpus)).values()
    assert found == pytest.approx({"power_ratio": power, "cost_ratio": cost}, rel=1e-4)
    assert {*found} == {*RailsCostOptions(gpus).measures()}


@pytest.mark.parametrize(
    ("gpus", "text"),
    [(1025, "1025 GPUs do not fill servers of 8"), (8, "gpus must be at least 32, not 8")],
)
def test_servers_that_are_not_full_or_too_few_are_refused(gpus, text):
    with pytest.raises(ValueError, match=text):
        RailsCostOptions(gpus)
